/* bfloat16: the upper half of an IEEE binary32; 1 sign, 8 exponent, 7 mantissa bits.
 *
 * Encoding rounds to nearest, ties to even; overflow becomes infinity; NaN stays NaN (quiet, sign
 * and upper payload kept).
 */
#ifndef KC_KERNELS_FORMATS_BF16_H
#define KC_KERNELS_FORMATS_BF16_H

#include "kernels/formats/portable.h"

KC_HD float kc_bf16_decode(uint16_t code)
{
  return kc_f32_of_bits((uint32_t)code << 16);
}

KC_HD uint16_t kc_bf16_encode(float x)
{
  const uint32_t bits = kc_f32_bits(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)((bits >> 16) | 0x40u);
  /* Adding just under half a unit, plus the unit's own parity, carries exactly when RNE does. */
  return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/* Neither NaN nor an infinity. */
KC_HD bool kc_bf16_is_finite(uint16_t code)
{
  return (code & 0x7F80u) != 0x7F80u;
}

#endif
