/* The engine's checks of itself, on a device. They keep their arrays on the stack and read results
 * at once; so each runs in a thread whose stack is pinned memory, which a device reaches, with
 * operations that wait until they are done. */
#ifndef KC_ENGINE_EXEC_SELF_CHECK_DEVICE_H
#define KC_ENGINE_EXEC_SELF_CHECK_DEVICE_H

#include "engine/exec/self_check.h"
#include "engine/exec/site.h"

/* Runs the check with the site's operations, whichever site that is. */
bool kc_self_check_at(const struct kc_site *site, const struct kc_self_check *check,
                      char text[KC_SELF_CHECK_TEXT_BYTES]);

#endif
