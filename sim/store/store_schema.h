/* The schema as a list of migrations, oldest first: entry i takes a file from user_version i to
 * i + 1. An entry that has been released is never edited; a change is a new entry. */
#ifndef KC_SIM_STORE_STORE_SCHEMA_H
#define KC_SIM_STORE_STORE_SCHEMA_H

#include "sim/store/store.h"

extern const char *const kc_store_migration[KC_STORE_SCHEMA];

/* Files of this schema and later are read as they are: what they lack is made up for by
 * temporary objects, KC_STORE_SCHEMA's in the names and without rows (kc_store_shim, for a file
 * of the schema before it). */
enum { KC_STORE_SCHEMA_READ_MIN = KC_STORE_SCHEMA - 1 };
extern const char kc_store_shim[];

#endif
