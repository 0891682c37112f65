/* The schema as a list of migrations, oldest first: entry i takes a file from user_version i to
 * i + 1. An entry that has been released is never edited; a change is a new entry. */
#ifndef KC_SIM_STORE_STORE_SCHEMA_H
#define KC_SIM_STORE_STORE_SCHEMA_H

#include "sim/store/store.h"

extern const char *const kc_store_migration[KC_STORE_SCHEMA];

#endif
