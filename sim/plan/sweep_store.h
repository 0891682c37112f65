/* A sweep's side of the database (private to sim/plan): its row, its points in batches, and which
 * answers are there already. Used by one thread. */
#ifndef KC_SIM_PLAN_SWEEP_STORE_H
#define KC_SIM_PLAN_SWEEP_STORE_H

#include "sim/plan/point_store.h"
#include "sim/plan/sweep.h"

struct kc_sweep_store {
  const struct kc_sweep *sweep;
  int64_t sweep_id;
  struct kc_known_points known;
};

/* One finished point of a batch. */
struct kc_finished {
  uint64_t number;
  struct kc_point_result *result;
  bool stored;                 /* the row is there already: nothing to write */
};

/* Makes the sweep's row and reads what is known. Errors of the store; KC_ERR_FILE. */
enum kc_err kc_sweep_store_open(struct kc_sweep_store *out, const struct kc_sweep *sweep,
                                struct kc_diag *diag);
void kc_sweep_store_close(struct kc_sweep_store *store); /* all-zero is fine */

/* Reads the answers of known points and writes the others, in one transaction. */
enum kc_err kc_sweep_store_write(struct kc_sweep_store *store, struct kc_finished *batch,
                                 size_t count, struct kc_diag *diag);

#endif
