/* exp, ln, sqrt and ln Gamma in integers.
 *
 *   e^y      = 2^k * e^r, |r| <= ln 2 / 2, e^r by its series in units of 2^-62
 *   ln v     = (64 - f) ln 2 - kc_neg_ln_q32(v)                   (v / 2^f; engine/base/random.h)
 *   ln Gamma = Stirling's series above 8, after Gamma(z) = Gamma(z + 1) / z below
 *
 * Pure functions of integers; products are 128 bits wide, and divided, not shifted, when signed. */
#include "traces/synth/fixed_math.h"

#include "engine/base/random.h"

enum { EXP_TERMS = 14 }; /* the first one left out is 0.3466^15 / 15! = 1e-19 */

static const int64_t one_q62 = INT64_C(1) << 62;
static const int64_t ln2_q62 = INT64_C(0x2c5c85fdf473de6a); /* floor(2^62 ln 2) */

/* e^r for |r| <= 0.35, in and out in units of 2^-62, by Horner's rule. */
static uint64_t exp_near_zero_q62(int64_t r)
{
  kc_i128 sum = one_q62;
  KC_ASSERT(r <= one_q62 / 2 && r >= -one_q62 / 2);
  for (int term = EXP_TERMS; term >= 1; term--) sum = one_q62 + sum * r / one_q62 / term;
  KC_ASSERT(sum > 0);
  return (uint64_t)sum;
}

/* value * 2^shift, rounded half up, saturating. */
static uint64_t shifted(kc_u128 value, int64_t shift)
{
  if (shift > 0) {
    const bool fits = shift < 64 && value <= (UINT64_MAX >> shift);
    return value == 0 ? 0 : fits ? (uint64_t)(value << shift) : UINT64_MAX;
  }
  if (shift <= -128) return 0;
  if (shift < 0) value = (value >> -shift) + ((value >> (-shift - 1)) & 1);
  return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

uint64_t kc_scale_exp(uint64_t value, int64_t y_q32)
{
  const kc_i128 y = (kc_i128)y_q32 * (INT64_C(1) << 30); /* units of 2^-62 */
  const kc_i128 half = y >= 0 ? ln2_q62 / 2 : -(ln2_q62 / 2);
  const int64_t power = (int64_t)((y + half) / ln2_q62);
  const int64_t rest = (int64_t)(y - (kc_i128)power * ln2_q62);
  return shifted((kc_u128)value * exp_near_zero_q62(rest), power - 62);
}

int64_t kc_ln_q32(uint64_t value, unsigned fraction_bits)
{
  KC_ASSERT(value > 0);
  KC_ASSERT(fraction_bits <= 64);
  const kc_i128 power = (kc_i128)ln2_q62 * (64 - (int)fraction_bits);
  return (int64_t)(power >> 30) - (int64_t)kc_neg_ln_q32(value);
}

/* One bit of the root a round, from the top. */
uint64_t kc_sqrt_u128(kc_u128 value)
{
  uint64_t root = 0;
  for (uint64_t bit = UINT64_C(1) << 63; bit != 0; bit >>= 1) {
    const uint64_t trial = root | bit;
    if ((kc_u128)trial * trial <= value) root = trial;
  }
  return root;
}

/* 1 / (12 z) - 1 / (360 z^3) + 1 / (1260 z^5); at z = 8 the next term is 3e-10, one unit. */
static int64_t stirling_tail_q32(uint64_t z_q32)
{
  const kc_i128 inverse = ((kc_i128)1 << 64) / z_q32;
  const kc_i128 square = inverse * inverse / KC_ONE_Q32;
  const kc_i128 inner = KC_ONE_Q32 / 360 - square / 1260;
  return (int64_t)(inverse * (KC_ONE_Q32 / 12 - square * inner / KC_ONE_Q32) / KC_ONE_Q32);
}

int64_t kc_ln_gamma_q32(uint64_t z_q32)
{
  const int64_t half_ln_two_pi_q32 = 3946810947; /* 0.918938533 * 2^32 */
  int64_t below = 0;
  KC_ASSERT(z_q32 > 0);
  KC_ASSERT(z_q32 <= (uint64_t)KC_ONE_Q32 << 20);
  for (; z_q32 < 8 * (uint64_t)KC_ONE_Q32; z_q32 += (uint64_t)KC_ONE_Q32) {
    below += kc_ln_q32(z_q32, 32);
  }
  const kc_i128 z = z_q32;
  const int64_t main_part =
      (int64_t)((z - KC_ONE_Q32 / 2) * kc_ln_q32(z_q32, 32) / KC_ONE_Q32) - (int64_t)z_q32;
  return main_part + half_ln_two_pi_q32 + stirling_tail_q32(z_q32) - below;
}
