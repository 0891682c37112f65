/* IEEE binary16, read only: checkpoints bring scales and tensors in it. */
#ifndef KC_KERNELS_FORMATS_FP16_H
#define KC_KERNELS_FORMATS_FP16_H

#include "kernels/formats/portable.h"

KC_HD float kc_f16_decode(uint16_t code)
{
  const uint32_t sign = (uint32_t)(code & 0x8000u) << 16;
  const uint32_t magnitude = code & 0x7FFFu;
  if (magnitude >= 0x7C00u) { /* infinity, NaN (made quiet) */
    const uint32_t payload = (magnitude & 0x3FFu) << 13;
    return kc_f32_of_bits(sign | 0x7F800000u | payload | (payload != 0 ? 0x400000u : 0u));
  }
  if (magnitude >= 0x400u) return kc_f32_of_bits(sign | ((magnitude << 13) + (112u << 23)));
  const float small = (float)magnitude * 5.9604644775390625e-8f; /* 2^-24 */
  return sign != 0 ? -small : small;
}

#endif
