/* Counter-based random numbers: a value is a pure function of (seed, stream, index), so the CPU and
 * a GPU make equal synthetic weights in any order, and sampling needs no state.
 *
 * The mixer is splitmix64's finaliser (Steele, Lea, Flood 2014) over a Weyl step a counter.
 */
#ifndef KC_KERNELS_FORMATS_COUNTER_H
#define KC_KERNELS_FORMATS_COUNTER_H

#include "kernels/formats/portable.h"

KC_HD uint64_t kc_counter_mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

KC_HD uint64_t kc_counter_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
  const uint64_t key = kc_counter_mix(seed + stream * 0x9E3779B97F4A7C15ull);
  return kc_counter_mix(key + (index + 1) * 0x9E3779B97F4A7C15ull);
}

/* Nearly normal with variance 1: the sum of the eight bytes, less its mean of 1020, times the
 * inverse of its deviation sqrt(8 * (256^2 - 1) / 12) = 209.02. Exact integers and one FP32
 * product, hence the same bits everywhere; |value| <= 4.88. */
KC_HD float kc_counter_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
  uint64_t bits = kc_counter_u64(seed, stream, index);
  int sum = -1020;
  for (int i = 0; i < 8; ++i, bits >>= 8) sum += (int)(bits & 255u);
  return (float)sum * 0.0047842f;
}

/* In (0, 1): an odd multiple of 2^-24, exact in FP32, for the sampling operation. */
KC_HD float kc_sample_uniform(uint64_t seed, int32_t position, uint32_t token)
{
  const uint64_t bits = kc_counter_u64(seed, (uint64_t)(uint32_t)position, token);
  return ((float)(uint32_t)(bits >> 41) + 0.5f) * 1.1920928955078125e-7f; /* 2^-23 */
}

#endif
