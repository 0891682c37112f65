/* What commands that evaluate many points share (private to sim/cli). */
#ifndef KC_SIM_CLI_SWEEP_SETUP_H
#define KC_SIM_CLI_SWEEP_SETUP_H

#include "sim/plan/sweep.h"

/* --threads; 0 = one for each processor that this process may use. */
uint32_t kc_sweep_threads(uint32_t asked);

/* A note on stderr: how many points are in the database. */
void kc_sweep_tell_stored(const char *database, const struct kc_sweep_totals *totals);

/* The exit status of a sweep that went to its end: as of a run when not one of its points could be
 * run, 5 when some do not fit and 3 when all are refused, with a sentence on stderr; else 0. A
 * shard, which is a part of the answer, ends with 0. */
int kc_sweep_status(const struct kc_sweep *sweep, const struct kc_sweep_totals *totals);

#endif
