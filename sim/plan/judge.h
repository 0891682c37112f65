/* Whether figures meet requirements: the one judgement of plans and of rates. */
#ifndef KC_SIM_PLAN_JUDGE_H
#define KC_SIM_PLAN_JUDGE_H

#include "sim/plan/point.h"
#include "sim/scenario/require.h"

struct kc_judgement {
  double excess; /* worst figure / its limit; at most 1 exactly when all is met */
  int worst;     /* which requirement; -1: requests were lost, or nothing ran */
  double helped; /* the worst among those that more hardware can only help to meet, lost requests
                    included; at most `excess` */
};

/* Every requirement holds, and of the requests no more than the share `lost` were rejected, failed
 * or timed out. Each percent too many counts like a limit that is missed once over. */
struct kc_judgement kc_judge(const struct kc_requirement *require, uint32_t count, double lost,
                             const struct kc_point_result *result);

/* Share of the requests that were rejected, failed or timed out. */
double kc_judge_lost(const struct kc_figure_set *figures);

/* Whether more replicas and faster steps can only help to meet it: true of latencies, rates, queues
 * and memory; not of costs, of figures per GPU, or of how busy something is. */
bool kc_judge_helped(const struct kc_requirement *require);

/* The requirements of a scenario's `slo`; returns their number, 0 where it states none. */
uint32_t kc_judge_slo(const struct kc_scenario *scenario,
                      struct kc_requirement require[KC_REQUIREMENTS_MAX]);

#endif
