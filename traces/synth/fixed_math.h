/* exp, ln, sqrt and ln Gamma in integers: the samplers' arithmetic. "_q32" is a number in units of
 * 2^-32, signed where the type is. libm picks instruction variants at run time and so gives other
 * last bits on other machines; these give the same bits everywhere. Checked against libm in tests.
 */
#ifndef KC_TRACES_SYNTH_FIXED_MATH_H
#define KC_TRACES_SYNTH_FIXED_MATH_H

#include "engine/base/vtime.h"

#define KC_ONE_Q32 (INT64_C(1) << 32)
#define KC_NANO INT64_C(1000000000) /* options arrive as billionths: 1.5 is 1500000000 */

/* value / 10^9 in units of 2^-32, rounded down. */
static inline uint64_t kc_nano_to_q32(uint64_t value_nano)
{
  return (uint64_t)(((kc_u128)value_nano << 32) / (uint64_t)KC_NANO);
}

/* round(value * e^y); UINT64_MAX when that does not fit. Relative error below 1e-15 of an exact y,
 * that is |error of y| + 1e-15. */
uint64_t kc_scale_exp(uint64_t value, int64_t y_q32);

/* ln(value / 2^fraction_bits), error at most 5 units; value > 0, fraction_bits <= 64. */
int64_t kc_ln_q32(uint64_t value, unsigned fraction_bits);

/* floor(sqrt(value)). */
uint64_t kc_sqrt_u128(kc_u128 value);

/* ln Gamma(z) for 0 < z <= 2^20, error at most 100 units near 1 and 1e-8 of the result beyond. */
int64_t kc_ln_gamma_q32(uint64_t z_q32);

#endif
