/* A team of threads that work off numbered tasks. Created once, asleep between runs. */
#ifndef KC_ENGINE_EXEC_TEAM_H
#define KC_ENGINE_EXEC_TEAM_H

#include "engine/base/diag.h"

enum { KC_TEAM_MAX = 256 };

struct kc_team; /* heap */

/* `threads` in [1, KC_TEAM_MAX], the caller's included: 1 starts none. KC_ERR_MEMORY when the
 * system refuses. */
enum kc_err kc_team_create(struct kc_team **out, uint32_t threads, struct kc_diag *diag);
void kc_team_destroy(struct kc_team *team);

/* Calls work(context, member, task) once for each task below `tasks`, from any member (0 is the
 * caller), in any order; returns when all are done. Not from within `work`. */
void kc_team_run(struct kc_team *team, uint32_t tasks,
                 void (*work)(void *context, uint32_t member, uint32_t task), void *context);

#endif
