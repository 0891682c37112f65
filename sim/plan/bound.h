/* What no run can beat: bounds and estimates of an instance from its step model alone.
 *
 *   lengths of the workload + step model --> floors of TTFT, TPOT, E2E   (alone on the server)
 *                                        --> seconds of work             (everybody at once, packed
 *                                                                         as densely as it can be)
 *                                        --> seconds of the span         (the trace is so long, or
 *                                                                         so few are in flight)
 *                                        --> a panel of step durations   (to compare instances)
 *
 * They hold for every schedule when a step with more in it never takes less time, which the plain
 * efficiencies guarantee. The work bound also takes steps to be convex in what they hold: true of
 * dense models under plain efficiencies, and elsewhere KC_BOUND_SLACK is taken off. */
#ifndef KC_SIM_PLAN_BOUND_H
#define KC_SIM_PLAN_BOUND_H

#include "sim/scenario/figure.h"
#include "sim/scenario/scenario_run.h"

#define KC_BOUND_SLACK 0.3

struct kc_bound_length {
  uint32_t input, output; /* tokens; output as it will be produced */
};

/* A workload as bounds see it. */
struct kc_bound_workload {
  struct kc_bound_length *length; /* heap; of a closed loop, one entry for all */
  uint32_t count;
  uint32_t refused;        /* beside them: prompts that no server of this scenario takes */
  uint32_t copies;         /* requests of each length: of a closed loop all, else 1 */
  uint32_t at_once;        /* no more are ever in flight; UINT32_MAX: as many as come */
  double output_tokens;    /* of all; none can be more */
  bool timed;              /* requests arrive at times that do not depend on the server */
  bool certain;            /* nobody gives up: percentiles are over all requests */
  kc_ps first_arrival_ps, last_arrival_ps;
  double rate_s;           /* requests a second; 0 unless timed */
  uint32_t mean_input, mean_output, output_max;
};

/* Filled from a prepared run; free it. */
enum kc_err kc_bound_workload_of(struct kc_bound_workload *workload, const struct kc_run *run,
                                 struct kc_diag *diag);
void kc_bound_workload_free(struct kc_bound_workload *workload);

/* Share of the requests that cannot be answered: refused, or longer than the whole pool. */
double kc_bound_lost(const struct kc_run *run, const struct kc_bound_workload *workload);

/* Puts the floors of ttft_*, tpot_* and e2e_* (not of ITL) into the set; nothing for a workload
 * that is not certain. Cached prompts count as one token. Errors: KC_ERR_MEMORY. */
enum kc_err kc_bound_floors(const struct kc_run *run, const struct kc_bound_workload *workload,
                            struct kc_figure_set *floors, struct kc_diag *diag);

/* Seconds from the first arrival to the last end, at least, whatever the server; of a closed loop
 * with the floors of its instance, and if every request is answered. 0: not known. */
double kc_bound_span_s(const struct kc_bound_workload *workload,
                       const struct kc_figure_set *floors);

/* Seconds of one instance that the workload costs at least, if `missing` of its requests, those
 * that cost most, are left out; of a closed loop none may be. */
double kc_bound_work_s(const struct kc_run *run, const struct kc_bound_workload *workload,
                       uint32_t missing);

/* Fills `panel` with durations of the same steps for every instance; returns their number. */
uint32_t kc_bound_panel(const struct kc_run *run, uint64_t *panel, uint32_t max);

#endif
