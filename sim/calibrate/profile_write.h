/* Writes a profile as the text that kc_profile_load reads, for people to read and diff. */
#ifndef KC_SIM_CALIBRATE_PROFILE_WRITE_H
#define KC_SIM_CALIBRATE_PROFILE_WRITE_H

#include "sim/cost/profile_internal.h"

/* Heap text, ended by '\0', to be freed; NULL when memory ran out. `comment` is put on top, line by
 * line behind "# ". The same profile gives the same bytes. */
char *kc_profile_text(const struct kc_profile *profile, const char *comment);

#endif
