/* Symmetric int4 in groups: value = code * scale, code -8 .. 7, one bf16 scale a group of 32, 64 or
 * 128 elements along k. Codes are stored as code + 8, two a byte, the even element in the low
 * nibble.
 *
 * The quantiser takes scale = bf16(2 amax / 15), so that the 16 codes span the group's range with
 * the largest magnitude half a step outside (clamped on the positive side), and rounds w / scale
 * half away from zero.
 */
#ifndef KC_KERNELS_FORMATS_INT4_H
#define KC_KERNELS_FORMATS_INT4_H

#include "kernels/formats/bf16.h"

/* Code of element `index` of a packed row: -8 .. 7. */
KC_HD int kc_int4_get(const uint8_t *packed, uint64_t index)
{
  return (int)(((uint32_t)packed[index / 2] >> (4u * (uint32_t)(index & 1))) & 15u) - 8;
}

KC_HD void kc_int4_set(uint8_t *packed, uint64_t index, int code)
{
  const uint32_t shift = 4u * (uint32_t)(index & 1);
  const uint32_t other = (uint32_t)packed[index / 2] & (0xF0u >> shift);
  packed[index / 2] = (uint8_t)(other | ((uint32_t)(code + 8) << shift));
}

/* Scale of a group with this largest magnitude: never 0, so that division is safe. */
KC_HD uint16_t kc_int4_scale(float amax)
{
  const uint16_t scale = kc_bf16_encode(2.0f * amax / 15.0f);
  return scale != 0 ? scale : 0x0080u; /* 2^-126 */
}

KC_HD int kc_int4_encode(float w, uint16_t scale)
{
  const float q = w / kc_bf16_decode(scale);
  const int code = (int)(q < -8.0f ? -8.0f : q > 7.0f ? 7.0f : q < 0.0f ? q - 0.5f : q + 0.5f);
  return code < -8 ? -8 : code > 7 ? 7 : code;
}

KC_HD float kc_int4_decode(int code, uint16_t scale)
{
  return (float)code * kc_bf16_decode(scale);
}

#endif
