/* How far the figures of a run may lie from what they are: runs again, with other seeds and with
 * step times as wrong as the profile admits.
 *
 *   scenario --N replicates--> figures --sort--> 5 %, median, 95 %
 *   scenario --as it stands--> figures, trust --of what no measurement vouches for--> widened
 *
 * Each replicate has its own seed, and draws
 *   the time of all kernels, one factor for the run: normal about 1, as wide as the profile's own
 *     residuals (a serving fit: the largest of its rows; kernels: 6 %, the bar that families are
 *     held to; a datasheet: 20 %, what plain rooflines miss by);
 *   the parameters of a serving fit: those of the fit that left one of its rows out, at random;
 *   else the host term: 10 % when it was measured, anything up to 1 ms a step more when it was not.
 *
 * Replicates know how far a fit is off where it was made. Where a run is extrapolated, or rests on
 * a datasheet, every time, rate, price and energy is at least KC_INTERVALS_LEAST to either side of
 * the run's own figure; what the replicates give beyond that stays.
 */
#ifndef KC_SIM_SCENARIO_INTERVALS_H
#define KC_SIM_SCENARIO_INTERVALS_H

#include "sim/scenario/scenario_run.h"

enum { KC_INTERVALS_MAX = 1000 };

/* An assumption, not a measurement: the worst row of the published tables, predicted from the other
 * rows, misses by 19.2 % (GLM 5.2, FP8 weights, one request; `kvcap verify`). */
#define KC_INTERVALS_LEAST 0.20

struct kc_interval {
  uint32_t count;            /* replicates that had the figure; 0 for those that take no run */
  double low, median, high;  /* nearest-rank 5 %, 50 %, 95 % of them */
};

struct kc_intervals {
  uint32_t replicates;
  double time_percent;       /* one standard deviation of the kernels' time */
  bool left_out;             /* parameters were those of fits without one row */
  bool host_unknown;         /* up to 1 ms a step was added */
  bool seed_matters;         /* the workload has a random part */
  enum kc_cost_level level;  /* of the run as it stands; unless calibrated, figures were widened */
  struct kc_interval figure[KC_FIGURES];
};

/* Runs `replicates` times, 2 to KC_INTERVALS_MAX. `interrupted` may be NULL. Errors as those of
 * kc_run_prepare and kc_run_execute. */
enum kc_err kc_intervals_compute(struct kc_intervals *out, const struct kc_scenario *scenario,
                                 uint32_t replicates, bool (*interrupted)(void *context),
                                 struct kc_diag *diag);

#endif
