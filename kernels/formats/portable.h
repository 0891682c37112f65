/* KC_HD marks an inline function that a CUDA compiler builds for host and device. */
#ifndef KC_KERNELS_FORMATS_PORTABLE_H
#define KC_KERNELS_FORMATS_PORTABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define KC_HD __host__ __device__ static inline
#else
#define KC_HD static inline
#endif

/* Bit patterns of floats, without undefined behaviour. */
KC_HD uint32_t kc_f32_bits(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

KC_HD float kc_f32_of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

#endif
