/* Gaps with mean 1.
 *
 *   constant   1
 *   Poisson    -ln U
 *   Weibull    (-ln U)^(1/k) / Gamma(1 + 1/k)
 *   gamma      shape >= 1: G(k) / k          G by Marsaglia and Tsang, "A Simple Method for
 *              shape <  1: G(k + 1) U^(1/k) / k     Generating Gamma Variables", ACM TOMS 2000
 *
 * An instant falls into a gap with a chance that is proportional to its length, and anywhere in it
 * alike; so the equilibrium gap is U times a length-biased one: gamma with shape k + 1, Weibull
 * with G(1 + 1/k) in place of -ln U. */
#include "traces/synth/synth_variates.h"

static uint64_t nonzero_u64(struct kc_random *random)
{
  uint64_t u;
  do {
    u = kc_random_u64(random);
  } while (u == 0);
  return u;
}

void kc_gap_init(struct kc_gap *gap, enum kc_gap_family family, uint64_t shape_nano)
{
  *gap = (struct kc_gap){.family = family};
  if (family == KC_GAP_CONSTANT || family == KC_GAP_POISSON) return;
  gap->shape_q32 = kc_nano_to_q32(shape_nano);
  if (family == KC_GAP_GAMMA) {
    KC_ASSERT(shape_nano >= KC_GAMMA_SHAPE_MIN_NANO && shape_nano <= KC_GAMMA_SHAPE_MAX_NANO);
    return;
  }
  KC_ASSERT(shape_nano >= KC_WEIBULL_SHAPE_MIN_NANO && shape_nano <= KC_WEIBULL_SHAPE_MAX_NANO);
  const uint64_t inverse_q32 = (uint64_t)(((kc_u128)1 << 64) / gap->shape_q32);
  gap->ln_scale_q32 = -kc_ln_gamma_q32((uint64_t)KC_ONE_Q32 + inverse_q32);
}

/* ln(1 + cv^2) of a Weibull: ln Gamma(1 + 2/k) - 2 ln Gamma(1 + 1/k). Falls with k. */
static int64_t weibull_spread_q32(uint64_t shape_nano)
{
  const uint64_t one = (uint64_t)KC_ONE_Q32;
  const uint64_t inverse_q32 = (uint64_t)(((kc_u128)1 << 64) / kc_nano_to_q32(shape_nano));
  return kc_ln_gamma_q32(one + 2 * inverse_q32) - 2 * kc_ln_gamma_q32(one + inverse_q32);
}

static uint64_t weibull_shape(uint64_t cv_nano)
{
  const uint64_t cv_q32 = kc_nano_to_q32(cv_nano);
  const uint64_t square_q32 = (uint64_t)(((kc_u128)cv_q32 * cv_q32) >> 32);
  const int64_t wanted = kc_ln_q32((uint64_t)KC_ONE_Q32 + square_q32, 32);
  uint64_t low = KC_WEIBULL_SHAPE_MIN_NANO, high = KC_WEIBULL_SHAPE_MAX_NANO;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (weibull_spread_q32(middle) > wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

uint64_t kc_gap_shape_of_cv(enum kc_gap_family family, uint64_t cv_nano)
{
  KC_ASSERT(cv_nano >= (uint64_t)KC_NANO / 50 && cv_nano <= 100 * (uint64_t)KC_NANO);
  if (family == KC_GAP_WEIBULL) return weibull_shape(cv_nano);
  const kc_u128 cube = (kc_u128)KC_NANO * KC_NANO * KC_NANO;
  const uint64_t shape_nano = (uint64_t)(cube / ((kc_u128)cv_nano * cv_nano));
  if (shape_nano < KC_GAMMA_SHAPE_MIN_NANO) return KC_GAMMA_SHAPE_MIN_NANO;
  return shape_nano < KC_GAMMA_SHAPE_MAX_NANO ? shape_nano : KC_GAMMA_SHAPE_MAX_NANO;
}

/* Marsaglia's polar method: (x, y) uniform in the unit disc, s = x^2 + y^2, then
 * x sqrt(-2 ln s / s) is normal. Points nearer to the centre than 2^-20 are drawn again (they
 * are 2^-40 of all), so that the quotient stays in 128 bits. */
int64_t kc_random_normal_q32(struct kc_random *random)
{
  for (;;) {
    const uint64_t bits = kc_random_u64(random);
    const int64_t x = (int64_t)(bits >> 32) - (INT64_C(1) << 31);
    const int64_t y = (int64_t)(bits & UINT32_MAX) - (INT64_C(1) << 31);
    const uint64_t s_q62 = (uint64_t)(x * x) + (uint64_t)(y * y);
    if (s_q62 >= UINT64_C(1) << 62 || s_q62 < UINT64_C(1) << 22) continue;
    const kc_u128 twice_q32 = (kc_u128)kc_neg_ln_q32(s_q62 << 2) * 2;
    const uint64_t root_q32 = kc_sqrt_u128(((twice_q32 << 62) / s_q62) << 32);
    return (int64_t)((kc_i128)x * root_q32 / (INT64_C(1) << 31));
  }
}

static kc_i128 times_q32(kc_i128 a, kc_i128 b)
{
  return a * b / KC_ONE_Q32;
}

/* v = (1 + c x)^3 with x normal; accept when ln U < x^2 / 2 + d (1 - v + ln v). */
uint64_t kc_random_gamma_q32(struct kc_random *random, uint64_t shape_q32)
{
  KC_ASSERT(shape_q32 >= (uint64_t)KC_ONE_Q32);
  const kc_i128 d = (kc_i128)shape_q32 - KC_ONE_Q32 / 3;
  const kc_i128 root = kc_sqrt_u128((kc_u128)d << 32);
  const kc_i128 c = ((kc_i128)KC_ONE_Q32 << 32) / (3 * root);
  for (;;) {
    const kc_i128 x = kc_random_normal_q32(random);
    const kc_i128 t = KC_ONE_Q32 + times_q32(c, x);
    if (t <= 0) continue;
    const kc_i128 v = times_q32(times_q32(t, t), t);
    if (v == 0) continue;
    const kc_i128 bound = KC_ONE_Q32 - v + kc_ln_q32((uint64_t)v, 32);
    const kc_i128 limit = times_q32(x, x) / 2 + times_q32(d, bound);
    if (-(kc_i128)kc_neg_ln_q32(nonzero_u64(random)) < limit) return (uint64_t)times_q32(d, v);
  }
}

static uint64_t times_uniform(uint64_t value, struct kc_random *random)
{
  return (uint64_t)(((kc_u128)value * kc_random_u64(random)) >> 64);
}

/* e^(ln(x) / shape + ln scale); x counts as at least one unit. */
static uint64_t weibull_of(const struct kc_gap *gap, uint64_t x_q32)
{
  const kc_i128 ln_x = kc_ln_q32(x_q32 > 0 ? x_q32 : 1, 32);
  const int64_t y = (int64_t)(ln_x * KC_ONE_Q32 / (kc_i128)gap->shape_q32) + gap->ln_scale_q32;
  return kc_scale_exp((uint64_t)KC_ONE_Q32, y);
}

static uint64_t divide_q32(uint64_t a_q32, uint64_t b_q32)
{
  return (uint64_t)(((kc_u128)a_q32 << 32) / b_q32);
}

static uint64_t gamma_gap(const struct kc_gap *gap, struct kc_random *random)
{
  const uint64_t one = (uint64_t)KC_ONE_Q32;
  if (gap->shape_q32 >= one) {
    return divide_q32(kc_random_gamma_q32(random, gap->shape_q32), gap->shape_q32);
  }
  const uint64_t above = kc_random_gamma_q32(random, gap->shape_q32 + one);
  const kc_i128 ln_u = -(kc_i128)kc_neg_ln_q32(nonzero_u64(random));
  const kc_i128 power = ln_u * KC_ONE_Q32 / (kc_i128)gap->shape_q32;
  return kc_scale_exp(divide_q32(above, gap->shape_q32), (int64_t)power);
}

uint64_t kc_gap_draw_q32(const struct kc_gap *gap, struct kc_random *random)
{
  switch (gap->family) {
    case KC_GAP_CONSTANT: return (uint64_t)KC_ONE_Q32;
    case KC_GAP_POISSON: return kc_neg_ln_q32(nonzero_u64(random));
    case KC_GAP_GAMMA: return gamma_gap(gap, random);
    case KC_GAP_WEIBULL: return weibull_of(gap, kc_neg_ln_q32(nonzero_u64(random)));
  }
  KC_ASSERT(false);
  return 0;
}

uint64_t kc_gap_first_q32(const struct kc_gap *gap, struct kc_random *random)
{
  const uint64_t one = (uint64_t)KC_ONE_Q32;
  switch (gap->family) {
    case KC_GAP_CONSTANT: return times_uniform(one, random);
    case KC_GAP_POISSON: return kc_neg_ln_q32(nonzero_u64(random));
    case KC_GAP_GAMMA: {
      const uint64_t biased = kc_random_gamma_q32(random, gap->shape_q32 + one);
      return times_uniform(divide_q32(biased, gap->shape_q32), random);
    }
    case KC_GAP_WEIBULL: {
      const uint64_t power = one + divide_q32(one, gap->shape_q32);
      return times_uniform(weibull_of(gap, kc_random_gamma_q32(random, power)), random);
    }
  }
  KC_ASSERT(false);
  return 0;
}
