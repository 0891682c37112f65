/* What a run cost, in money and energy, and what for.
 *
 *   GPUs x (makespan + cold start of each replica) = GPU-hours = busy + idle + cold
 *   busy hours, by what caused the time of each step (sim/cost/predicted.h):
 *       prefill   prompt tokens that were computed
 *       cached    prompt tokens that were found in the prefix cache and attended to
 *       decode    output tokens
 *   price     a mix of on-demand, reserved and spot GPUs, all paid for the whole time
 *
 * Prices per token spread idle and cold hours over the three parts as their busy hours are; what
 * idle and cold hours cost stands beside them. Keeping cached pages costs nothing of its own: they
 * lie in memory that is paid for anyway.
 *
 * Power is assumed to be idle_w + (power_w - idle_w) x busy share for each GPU (the GPU file says
 * where the two come from), times the PUE; energy is not part of the money unless the price of a
 * kilowatt-hour is given, and then it is stated beside it, because rented GPUs include it.
 */
#ifndef KC_SIM_SCENARIO_SPENDING_H
#define KC_SIM_SCENARIO_SPENDING_H

#include "sim/scenario/scenario_run.h"

/* A figure that may not exist: no price, no such token. */
struct kc_maybe {
  bool known;
  double value;
};

struct kc_spending {
  /* Hours of all GPUs. */
  double gpu_hours, busy_hours, idle_hours, cold_hours;
  double prefill_share, cached_share, decode_share; /* of the busy hours; 0 without any */
  /* Money. */
  struct kc_maybe gpu_hour_usd;                     /* of the mix */
  struct kc_maybe hour_usd;                         /* of all GPUs, whatever they do */
  struct kc_maybe usd, prefill_usd, cached_usd, decode_usd, idle_usd, cold_usd; /* sum: the first */
  struct kc_maybe output_mtok_usd;                  /* all of it per million output tokens */
  struct kc_maybe input_mtok_usd, cached_mtok_usd, decode_mtok_usd; /* of the three parts */
  /* The same tokens at an API. */
  struct kc_maybe api_usd, api_ratio;               /* usd / api_usd: below 1, own GPUs win */
  struct kc_maybe api_ratio_warm;                   /* without the cold starts */
  struct kc_maybe break_even_req_s;                 /* requests a second that the API would bill as
                                                       much for as the GPUs cost, without cold
                                                       starts */
  struct kc_maybe break_even_share;                 /* of the most that they can serve */
  /* Energy. */
  double kwh;
  struct kc_maybe joules_per_token;                 /* output token */
  struct kc_maybe energy_usd;
};

/* Of a run that was executed. */
void kc_run_spending(const struct kc_run *run, struct kc_spending *out);

#endif
