/* One of a run's instances: with several of them it has a request table of its own, because an
 * instance knows requests by their place in the order in which they came to it.
 *
 *   run's table      0  1  2  3  4  5 ...        in order of arrival
 *   replica 0        0     1     2               position[] = 0 2 4
 *   replica 1           0     1     2            position[] = 1 3 5
 *
 * Alone, it works on the run's table itself, and a position is a place.
 *
 * Private to sim/replay. */
#ifndef KC_SIM_REPLAY_REPLICA_H
#define KC_SIM_REPLAY_REPLICA_H

#include "sim/replay/replay.h"

struct kc_replica {
  void *owner;                 /* whom its observers call */
  uint32_t index;
  struct kc_instance instance;
  bool step_scheduled;
  struct kc_request *requests; /* [share] its table; borrowed. NULL when alone */
  uint32_t *position;          /* [share] in the run's table. NULL when alone */
  uint32_t share, given;
  struct kc_levels level;      /* what it holds, as last counted; nothing when alone */
  struct kc_replica_figures figures; /* of all but what the instance counts; nothing when alone */
};

size_t kc_replica_need(const struct kc_replay_config *config,
                       const struct kc_instance_config *instance); /* arena bytes, of one */

/* `instance`: as for one of them; the seed becomes that of the index. `observer.context` is the
 * replica. */
enum kc_err kc_replica_init(struct kc_replica *replica, const struct kc_replay_config *config,
                            const struct kc_instance_config *instance,
                            const struct kc_observer *observer, struct kc_arena *arena,
                            struct kc_diag *diag);

/* Hands over the request at `position` of the run's table, which arrives now. Returns its place. */
uint32_t kc_replica_give(struct kc_replica *replica, const struct kc_request *request,
                         uint32_t position);

/* Of several: one of its steps has ended, one of its requests has ended. */
void kc_replica_note_step(struct kc_replica *replica, const struct kc_step_report *report);
void kc_replica_note_end(struct kc_replica *replica, const struct kc_outcome *outcome);

/* Of several: it holds `level` from now on; `sum` over all of them follows. */
void kc_replica_set_level(struct kc_replica *replica, const struct kc_levels *level,
                          struct kc_levels *sum);

/* Its figures when the run is over; `alone`: as the summary has them. */
void kc_replica_finish(const struct kc_replica *replica, const struct kc_summary *summary,
                       struct kc_replica_figures *out);

#endif
