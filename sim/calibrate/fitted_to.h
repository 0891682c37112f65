/* What a profile was fitted to, as its entry says it, so that a run of something else is seen to be
 * extrapolated (kc_cost_outside). Tables of rates and logs of requests are described alike.
 */
#ifndef KC_SIM_CALIBRATE_FITTED_TO_H
#define KC_SIM_CALIBRATE_FITTED_TO_H

#include "sim/cost/cost.h"
#include "sim/scenario/scenario.h"

/* A fit whose residuals are larger than this in the median is implausible: the scenario is not the
 * server that was measured. An assumption: a datasheet's plain efficiencies, which nobody fitted,
 * are taken to miss by 20 % (sim/scenario/intervals.h). */
#define KC_FIT_MEDIAN_PERCENT 25.0

/* Writes GPU, model, tensor degree, formats and steps of the measurement into `entry`. `seen`: the
 * steps of the simulated runs that stood for what was measured (kc_run_seen). */
void kc_fitted_to(struct kc_gpu_profile *entry, const struct kc_scenario *scenario,
                  const struct kc_cost_range *seen);

/* A profile that is being fitted holds where it is run: it is calibrated, to nothing else and
 * without a range. */
void kc_fitted_to_this(struct kc_gpu_profile *entry);

#endif
