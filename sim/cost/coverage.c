/* How many distinct experts a step reads when some are chosen more often than others.
 *
 * A token chooses k of E experts. With routing skew s, expert i (1, 2, ... by popularity) is chosen
 * with probability q_i proportional to i^-s, sum k, none above 1: what a popular one would have
 * beyond 1 is shared out among the rest. n tokens read sum of 1 - (1 - q_i)^n distinct experts. The
 * sum is tabulated when a run is prepared, because it takes E powers.
 */
#include "sim/cost/cost_tables.h"
#include "sim/cost/exact.h"

enum { EXPERTS_MAX = 4096 };

/* q[i] for E experts; sums to k. */
static void choose_shares(double *q, uint32_t experts, uint32_t per_token, double skew)
{
  KC_ASSERT(experts > 0 && experts <= EXPERTS_MAX);
  KC_ASSERT(per_token <= experts);
  double weight_left = 0, share_left = per_token;
  for (uint32_t i = 0; i < experts; i++) {
    q[i] = kc_exp2_exact(-skew * kc_log2_exact(i + 1.0));
    weight_left += q[i];
  }
  for (uint32_t i = 0; i < experts; i++) { /* most popular first: once one is below 1, all are */
    const double weight = q[i];
    const double share = weight_left > 0 ? share_left * weight / weight_left : 0;
    q[i] = share < 1.0 ? share : 1.0;
    weight_left -= weight;
    share_left -= q[i];
  }
}

void kc_coverage_skewed(uint64_t coverage_q32[KC_COVERAGE_KNOTS], uint32_t experts,
                        uint32_t per_token, double skew)
{
  double q[EXPERTS_MAX];
  KC_ASSERT(skew >= 0);
  choose_shares(q, experts, per_token, skew);
  for (uint32_t knot = 0; knot < KC_COVERAGE_KNOTS; knot++) {
    const uint64_t tokens = kc_scale_knot(KC_COVERAGE_BITS, knot);
    double covered = 0;
    for (uint32_t i = 0; i < experts; i++) covered += 1.0 - kc_power_exact(1.0 - q[i], tokens);
    KC_ASSERT(covered <= experts * (1 + 1e-9));
    coverage_q32[knot] = (uint64_t)(covered * 4294967296.0 + 0.5);
  }
}

uint64_t kc_coverage_look(const uint64_t coverage_q32[KC_COVERAGE_KNOTS], uint64_t tokens)
{
  const uint64_t most = kc_scale_knot(KC_COVERAGE_BITS, KC_COVERAGE_KNOTS - 1);
  if (tokens >= most) return coverage_q32[KC_COVERAGE_KNOTS - 1];
  const uint32_t at = kc_scale_index(KC_COVERAGE_BITS, tokens);
  const uint64_t low = kc_scale_knot(KC_COVERAGE_BITS, at);
  const uint64_t high = kc_scale_knot(KC_COVERAGE_BITS, at + 1);
  KC_ASSERT(low <= tokens && tokens < high);
  const uint64_t more = coverage_q32[at + 1] - coverage_q32[at];
  return coverage_q32[at] + (uint64_t)((kc_u128)more * (tokens - low) / (high - low));
}
