/* FP8 E4M3 as OCP's 8-bit floating point specification (OFP8 1.0) defines it: bias 7, no infinity,
 * S.1111.111 is NaN, the largest number is 448, the smallest subnormal 2^-9.
 *
 *   e = 0    m * 2^-9
 *   e > 0    (1 + m / 8) * 2^(e - 7)
 *
 * Encoding rounds to nearest, ties to even, from FP32 in one rounding, and saturates: what is
 * beyond 448, infinities included, becomes +-448. NaN becomes 0x7F, whatever its sign or payload.
 */
#ifndef KC_KERNELS_FORMATS_E4M3_H
#define KC_KERNELS_FORMATS_E4M3_H

#include "kernels/formats/portable.h"

#define KC_E4M3_MAX 448.0f
#define KC_E4M3_NAN 0x7Fu

KC_HD float kc_e4m3_decode(uint8_t code)
{
  const uint32_t sign = (uint32_t)(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu) return kc_f32_of_bits(sign | 0x7FC00000u);
  if (magnitude >= 8) return kc_f32_of_bits(sign | ((magnitude << 20) + ((127u - 7u) << 23)));
  const float small = (float)magnitude * 0.001953125f; /* 2^-9 */
  return sign != 0 ? -small : small;
}

KC_HD uint8_t kc_e4m3_encode(float x)
{
  const uint32_t bits = kc_f32_bits(x);
  const uint8_t sign = (uint8_t)((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return KC_E4M3_NAN;
  if (magnitude >= 0x43E00000u) return (uint8_t)(sign | 0x7Eu); /* 448 and beyond */
  if (magnitude >= 0x3C800000u) { /* 2^-6: normal; a carry into the exponent is right as it is */
    const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
    const uint32_t code = (rounded >> 20) - (120u << 3);
    return (uint8_t)(sign | (code > 0x7Eu ? 0x7Eu : code));
  }
  /* Subnormal: adding 1.5 * 2^14 leaves multiples of 2^-9 in a float's last place, and the FPU
   * rounds to nearest even. 8 (0x08) is the smallest normal, so the carry is right here too. */
  const float aligned = kc_f32_of_bits(magnitude) + 24576.0f;
  return (uint8_t)(sign | (kc_f32_bits(aligned) - 0x46C00000u));
}

/* Scale of a group of `fp8-g128`: the smallest power of two >= amax / 448 (at least 2^-126), so
 * that dividing by it is exact; 1 for a group of zeros. amax is not negative and not NaN. */
KC_HD float kc_e4m3_group_scale(float amax)
{
  const uint32_t bits = kc_f32_bits(amax);
  if (bits == 0) return 1.0f;
  /* 448 = 1.75 * 2^8: the exponent less 8, one more where the mantissa is beyond 1.75. */
  const uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFFu) > 0x600000u ? 1u : 0u);
  return kc_f32_of_bits((exponent > 8 ? exponent - 8 : 1u) << 23);
}

#endif
