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
  struct kc_judgement judgement = {
      .excess = KC_REQUIRE_HOPELESS, .worst = -1, .helped = KC_REQUIRE_HOPELESS};
  KC_ASSERT(lost >= 0);
  if (result->status != KC_POINT_DONE) return judgement;
  judgement.excess = judgement.helped = 0;
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_require_outcome outcome = kc_requirement_check(&require[i], &result->figures);
    if (outcome.excess > judgement.helped && kc_judge_helped(&require[i])) {
      judgement.helped = outcome.excess;
    }
    if (outcome.excess <= judgement.excess) continue;
    judgement.excess = outcome.excess;
    judgement.worst = (int)i;
  }
  const double over = kc_judge_lost(&result->figures) - lost;
  if (over > 0 && judgement.helped < 1 + 100 * over) judgement.helped = 1 + 100 * over;
  if (over > 0 && judgement.excess <= 1 + 100 * over) {
    judgement.excess = 1 + 100 * over;
    judgement.worst = -1;
  }
  KC_ASSERT(judgement.helped <= judgement.excess);
  return judgement;
}

bool kc_judge_helped(const struct kc_requirement *require)
{
  static const enum kc_figure helped[] = {
      KC_FIGURE_OUTPUT_TOK_S, KC_FIGURE_INPUT_TOK_S, KC_FIGURE_TOTAL_TOK_S,
      KC_FIGURE_OUTPUT_TOK_S_USER, KC_FIGURE_REQUEST_S, KC_FIGURE_GOODPUT_REQ_S,
      KC_FIGURE_SLO_SHARE, KC_FIGURE_COMPLETED_SHARE, KC_FIGURE_REJECTED_SHARE,
      KC_FIGURE_FAILED_SHARE, KC_FIGURE_TIMED_OUT_SHARE, KC_FIGURE_PREEMPTIONS,
      KC_FIGURE_MAX_WAITING, KC_FIGURE_KV_PEAK_SHARE, KC_FIGURE_HEADROOM, KC_FIGURE_MAKESPAN_S,
      KC_FIGURE_OOM};
  const bool low = kc_require_wants_low(require->sense);
  bool found = kc_figure_is_latency(require->figure);
  for (size_t h = 0; h < sizeof helped / sizeof helped[0]; h++) {
    found = found || require->figure == helped[h];
  }
  KC_ASSERT((unsigned)require->figure < KC_FIGURES);
  return found && low == (kc_figure_better(require->figure) == KC_BETTER_LOWER);
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
