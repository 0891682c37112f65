/* Judgement of figures (see judge.h). */
#include "sim/plan/judge.h"

#include "engine/base/check.h"

double kc_judge_lost(const struct kc_figure_set *figures)
{
  static const enum kc_figure kinds[] = {KC_FIGURE_REJECTED_SHARE, KC_FIGURE_FAILED_SHARE,
                                         KC_FIGURE_TIMED_OUT_SHARE};
  double lost = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (figures->known[kinds[i]]) lost += figures->value[kinds[i]];
  }
  KC_ASSERT(lost >= 0);
  return lost;
}

struct kc_judgement kc_judge(const struct kc_requirement *require, uint32_t count, double lost,
                             const struct kc_point_result *result)
{
  struct kc_judgement judgement = {.excess = KC_REQUIRE_HOPELESS, .worst = -1};
  KC_ASSERT(lost >= 0);
  if (result->status != KC_POINT_DONE) return judgement;
  judgement.excess = 0;
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_require_outcome outcome = kc_requirement_check(&require[i], &result->figures);
    if (outcome.excess <= judgement.excess) continue;
    judgement = (struct kc_judgement){outcome.excess, (int)i};
  }
  const double over = kc_judge_lost(&result->figures) - lost;
  if (over > 0 && judgement.excess <= 1 + 100 * over) {
    judgement = (struct kc_judgement){1 + 100 * over, -1};
  }
  return judgement;
}

static bool is_latency(enum kc_figure figure)
{
  static const enum kc_figure means[] = {KC_FIGURE_TTFT_MEAN_MS, KC_FIGURE_TPOT_MEAN_MS,
                                         KC_FIGURE_ITL_MEAN_MS, KC_FIGURE_E2E_MEAN_MS};
  for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
    if (kc_figure_percentile(figure, means[i]) >= 0) return true;
  }
  return false;
}

bool kc_judge_monotone(const struct kc_requirement *require, uint32_t count)
{
  static const enum kc_figure helped[] = {
      KC_FIGURE_OUTPUT_TOK_S, KC_FIGURE_INPUT_TOK_S, KC_FIGURE_TOTAL_TOK_S,
      KC_FIGURE_OUTPUT_TOK_S_USER, KC_FIGURE_REQUEST_S, KC_FIGURE_GOODPUT_REQ_S,
      KC_FIGURE_SLO_SHARE, KC_FIGURE_COMPLETED_SHARE, KC_FIGURE_REJECTED_SHARE,
      KC_FIGURE_FAILED_SHARE, KC_FIGURE_TIMED_OUT_SHARE, KC_FIGURE_PREEMPTIONS,
      KC_FIGURE_MAX_WAITING, KC_FIGURE_KV_PEAK_SHARE, KC_FIGURE_HEADROOM, KC_FIGURE_MAKESPAN_S,
      KC_FIGURE_OOM};
  for (uint32_t i = 0; i < count; i++) {
    const bool low = kc_require_wants_low(require[i].sense);
    const bool right_way = low == (kc_figure_better(require[i].figure) == KC_BETTER_LOWER);
    bool found = is_latency(require[i].figure);
    for (size_t h = 0; h < sizeof helped / sizeof helped[0]; h++) {
      found = found || require[i].figure == helped[h];
    }
    KC_ASSERT((unsigned)require[i].figure < KC_FIGURES);
    if (!found || !right_way) return false;
  }
  return true;
}

uint32_t kc_judge_slo(const struct kc_scenario *scenario,
                      struct kc_requirement require[KC_REQUIREMENTS_MAX])
{
  uint32_t count = 0;
  KC_ASSERT(scenario->slo_ttft_p95_ms >= 0 && scenario->slo_tpot_p95_ms >= 0);
  if (scenario->slo_ttft_p95_ms > 0) {
    kc_requirement_make(&require[count++], KC_FIGURE_TTFT_P95_MS, KC_REQUIRE_AT_MOST,
                        scenario->slo_ttft_p95_ms);
  }
  if (scenario->slo_tpot_p95_ms > 0) {
    kc_requirement_make(&require[count++], KC_FIGURE_TPOT_P95_MS, KC_REQUIRE_AT_MOST,
                        scenario->slo_tpot_p95_ms);
  }
  return count;
}
