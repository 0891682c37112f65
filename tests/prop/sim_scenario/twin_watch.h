/* Runs the product and its plain twin side by side. The twin sits between instance and executor: at
 * every step it forms its own, and the delta, the aggregates, every member's pages and the duration
 * are compared before and after the predicted executor is asked. Afterwards outcomes, summary and
 * result_sha256 are. */
#ifndef KC_TESTS_PROP_SIM_SCENARIO_TWIN_WATCH_H
#define KC_TESTS_PROP_SIM_SCENARIO_TWIN_WATCH_H

#include "run_support.h"

struct twin_totals {
  uint64_t steps, preemptions, ends, outputs;
  uint64_t by_reason[KC_REASONS];
  uint64_t ooms;
  uint64_t cached, recached, evicted, ghosts;
};

/* Runs both and adds to `totals`. False: they disagree, and the first difference is printed to
 * stdout. Frees run->outcomes. */
bool twin_agrees(struct test_run *run, struct twin_totals *totals);
/* One line. */
void twin_print_totals(const struct twin_totals *totals);

#endif
