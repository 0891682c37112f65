/* Closed loop of sessions: which rows of a trace wait for which, and which is due next.
 *
 *   row 0 (arrival 0 s) --ends, 8 s of thought--> row 3 --ends, 2 s--> row 4
 *   row 1 (arrival 2 s) --ends--> rows 2 and 5 (two sub-agents of the same turn)
 *
 * A row with a predecessor is offered wait_ps after that has ended, however it ended: a client
 * whose request was refused or given up goes on with the next. A row without one is offered at its
 * arrival. Rows that become due at one instant are offered in the order of their numbers.
 *
 * Rows are offered in another order than they stand in the trace, so a request has two numbers: its
 * position in the request table, which the instance uses and which grows with time, and its row in
 * the trace, which results name. `row_of` leads from the first to the second.
 *
 * Private to sim/replay. */
#ifndef KC_SIM_REPLAY_SESSION_H
#define KC_SIM_REPLAY_SESSION_H

#include "engine/base/heap.h"
#include "sim/events/events.h"
#include "sim/replay/replay.h"

/* A session run covers half of virtual time, 53 days: a row that is due later is refused, so that
 * there is always room for the steps that follow. */
#define KC_SESSION_DUE_MAX_PS (KC_PS_NEVER / 2)

struct kc_sessions {
  struct kc_session_config config; /* arrays borrowed */
  uint32_t count;
  struct kc_event_queue *queue;    /* borrowed; one arrival in it for every row that is known */
  uint32_t event_kind;
  uint32_t *first;                 /* [row] one that waits for it, KC_SESSION_START = nobody */
  uint32_t *next;                  /* [row] another that waits for the same */
  uint32_t *row_of;                /* [position], as far as offered */
  uint32_t offered;
  uint32_t start;                  /* next row that starts at its arrival; `count` = none is left */
  struct kc_heap due;              /* rows whose predecessor has ended; key = when they are due */
};

size_t kc_sessions_need(uint32_t count); /* arena bytes */

/* Announces the first arrival to `queue`, which needs room for `count` events of `event_kind`.
 * KC_ERR_INPUT when rows wait for each other in a circle; KC_ERR_MEMORY. */
enum kc_err kc_sessions_init(struct kc_sessions *sessions, const struct kc_session_config *config,
                             uint32_t count, struct kc_event_queue *queue, uint32_t event_kind,
                             struct kc_arena *arena, struct kc_diag *diag);

/* The row that an event at `now_ps` is about: the least of those due. It takes the next position.
 * KC_ERR_LIMIT when it is due beyond what a run covers. */
enum kc_err kc_sessions_offer(struct kc_sessions *sessions, kc_ps now_ps, uint32_t *row,
                              struct kc_diag *diag);

/* The request at `position` has ended: those that wait for it get their time. */
void kc_sessions_ended(struct kc_sessions *sessions, uint32_t position, kc_ps end_ps);

#endif
