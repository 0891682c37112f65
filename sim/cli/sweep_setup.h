/* What commands that evaluate many points share (private to sim/cli). */
#ifndef KC_SIM_CLI_SWEEP_SETUP_H
#define KC_SIM_CLI_SWEEP_SETUP_H

#include "engine/base/option.h"
#include "sim/plan/sweep.h"

/* Changes of every point: --trace, then --set. Borrows the strings of the command line. */
struct kc_base_sets {
  size_t count;
  const char *item[KC_SWEEP_BASE_SETS_MAX];
  char trace[KC_DIAG_PATH_BYTES + 32];
};
/* `trace` is NULL without one; a closed workload gives way to it. */
void kc_base_sets_fill(struct kc_base_sets *base, const struct kc_option_list *sets,
                       const char *trace);

/* --threads; 0 = one for each processor that this process may use. */
uint32_t kc_sweep_threads(uint32_t asked);

/* A note on stderr: how many points are in the database. */
void kc_sweep_tell_stored(const char *database, const struct kc_sweep_totals *totals);

/* The exit status of a sweep that went to its end: as of a run when not one of its points could be
 * run, 5 when some do not fit and 3 when all are refused, with a sentence on stderr; else 0. A
 * shard, which is a part of the answer, ends with 0. */
int kc_sweep_status(const struct kc_sweep *sweep, const struct kc_sweep_totals *totals);

#endif
