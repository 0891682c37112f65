/* 4-bit floats: OCP MXFP4 and NVFP4. Both store e2m1 elements (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their
 * negatives), two a byte, the even element in the low nibble.
 *
 *   mxfp4  32 elements share an e8m0 scale 2^(code - 127); code 255 is NaN (OCP MX 1.0)
 *   nvfp4  16 elements share an e4m3 scale, and the tensor one FP32 scale
 */
#ifndef KC_KERNELS_FORMATS_FP4_H
#define KC_KERNELS_FORMATS_FP4_H

#include "kernels/formats/e4m3.h"

#define KC_E2M1_MAX 6.0f

KC_HD float kc_e2m1_decode(uint8_t code)
{
  const uint32_t exponent = (code >> 1) & 3u;
  const uint32_t mantissa = code & 1u;
  const float half = exponent == 0 ? (float)mantissa : (float)((2u + mantissa) << (exponent - 1));
  return (code & 8u) != 0 ? -0.5f * half : 0.5f * half;
}

/* Nearest, ties to the even code; saturates; NaN becomes +6 (the format has none). */
KC_HD uint8_t kc_e2m1_encode(float x)
{
  const uint32_t bits = kc_f32_bits(x);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const uint8_t sign = nan ? 0 : (uint8_t)((bits >> 28) & 8u);
  const float a = nan ? KC_E2M1_MAX : kc_f32_of_bits(bits & 0x7FFFFFFFu);
  uint8_t code; /* midpoints 0.25 0.75 1.25 1.75 2.5 3.5 5: each goes to its even neighbour */
  if (a <= 1.0f) code = (uint8_t)(a <= 0.25f ? 0 : a < 0.75f ? 1 : 2);
  else if (a < 2.5f) code = (uint8_t)(a <= 1.25f ? 2 : a < 1.75f ? 3 : 4);
  else code = (uint8_t)(a == 2.5f ? 4 : a < 3.5f ? 5 : a <= 5.0f ? 6 : 7);
  return (uint8_t)(sign | code);
}

/* 2^(code - 127), exact in FP32 (code 0 is the subnormal 2^-127). */
KC_HD float kc_e8m0_decode(uint8_t code)
{
  if (code == 0) return kc_f32_of_bits(0x00400000u);
  if (code == 255) return kc_f32_of_bits(0x7FC00000u);
  return kc_f32_of_bits((uint32_t)code << 23);
}

/* The shared scale of a block as OCP MX 1.0 section 6.3 computes it: the exponent of amax less that
 * of the element format's largest number (2, for 6 = 1.5 * 2^2), kept in 0 .. 254. */
KC_HD uint8_t kc_mxfp4_scale(float amax)
{
  const uint32_t exponent = (kc_f32_bits(amax) >> 23) & 255u;
  if (exponent < 2) return 0;
  return (uint8_t)(exponent - 2 > 254 ? 254 : exponent - 2);
}

/* Scale of a block of 16: e4m3(amax / 6 / tensor_scale); 0 if the block is. */
KC_HD uint8_t kc_nvfp4_scale(float amax, float tensor_scale)
{
  return kc_e4m3_encode(amax / KC_E2M1_MAX / tensor_scale);
}

/* Scale of the tensor: maps its largest magnitude to 6 * 448. */
KC_HD float kc_nvfp4_tensor_scale(float amax)
{
  return amax > 0.0f ? amax / (KC_E2M1_MAX * KC_E4M3_MAX) : 1.0f;
}

KC_HD uint8_t kc_fp4_get(const uint8_t *packed, uint64_t index)
{
  return (uint8_t)(((uint32_t)packed[index / 2] >> (4u * (uint32_t)(index & 1))) & 15u);
}

KC_HD void kc_fp4_set(uint8_t *packed, uint64_t index, uint8_t code)
{
  const uint32_t shift = 4u * (uint32_t)(index & 1);
  packed[index / 2] = (uint8_t)(((uint32_t)packed[index / 2] & (0xF0u >> shift)) |
                                ((uint32_t)(code & 15u) << shift));
}

#endif
