/* What every kernel includes: the words of CUDA, from PTX or from the emulator, and the small
 * functions built on them that several kernels share.
 *
 * Rules of the .cu files, so that nvcc and a host compiler both take them:
 *   kernels are launched by KC_LAUNCH, whose first argument is the context of the operations table
 *   shared memory comes from kc_shared, in one order in all threads, and is touched through kc_tile
 *   blocks are whole warps, one-dimensional; warp operations are for all 32 lanes
 *   no block waits for another
 */
#ifndef KC_KERNELS_CUDA_WORDS_CUH
#define KC_KERNELS_CUDA_WORDS_CUH

#ifdef KC_EMU
#include "kernels/emu/words_emu.h"
#else
#include "kernels/cuda/words_gpu.cuh"
#endif

enum : unsigned { KC_LANES = 32 };

#define KC_NEG_INFINITY (-INFINITY)
#define KC_LOG2_E 1.44269504088896341f
#define KC_LN_2 0.693147180559945309f

KC_DEVICE unsigned kc_lane()
{
  return threadIdx.x % KC_LANES;
}

KC_DEVICE unsigned kc_warp_index()
{
  return threadIdx.x / KC_LANES;
}

/* Bytes a tile takes of the shared memory that the launch asks for. */
template <typename T>
static constexpr size_t kc_tile_bytes(size_t count)
{
  return (count * sizeof(T) + 127) / 128 * 128;
}

static inline unsigned kc_ceil_div(uint64_t a, uint64_t b)
{
  return (unsigned)((a + b - 1) / b);
}

KC_DEVICE unsigned kc_least(unsigned a, unsigned b)
{
  return a < b ? a : b;
}

/* Eight bf16 in a 16-byte vector. */
KC_DEVICE void kc_unpack8(float (&value)[8], uint4 packed)
{
  const uint32_t word[4] = {packed.x, packed.y, packed.z, packed.w};
  KC_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    value[2 * i] = kc_f32_of_bits(word[i] << 16);
    value[2 * i + 1] = kc_f32_of_bits(word[i] & 0xffff0000u);
  }
}

KC_DEVICE uint4 kc_pack8(const float (&value)[8])
{
  return uint4{kc_bf16x2(value[0], value[1]), kc_bf16x2(value[2], value[3]),
               kc_bf16x2(value[4], value[5]), kc_bf16x2(value[6], value[7])};
}

/* Four e4m3 codes to two pairs of bf16, exactly: the bits of a code moved to bf16's place are its
 * value times 2^-120. (The NaN code becomes 480.) */
KC_DEVICE void kc_e4m3x4_to_bf16(uint32_t (&pair)[2], uint32_t codes)
{
  const uint32_t unbias = 0x7b807b80u; /* 2^120 twice */
  KC_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const uint32_t high = kc_permute_bytes(codes, 0, i == 0 ? 0x1404 : 0x3424); /* to bits 8..15 */
    const uint32_t shifted = (high & 0x80008000u) | (high & 0x7f007f00u) >> 4;
    pair[i] = kc_bf16x2_multiply(shifted, unbias);
  }
}

KC_DEVICE float kc_warp_sum(float value)
{
  KC_UNROLL
  for (unsigned mask = 16; mask > 0; mask /= 2) value += kc_shuffle_xor(value, mask);
  return value;
}

KC_DEVICE float kc_warp_max(float value)
{
  KC_UNROLL
  for (unsigned mask = 16; mask > 0; mask /= 2) value = kc_max(value, kc_shuffle_xor(value, mask));
  return value;
}

/* The sum over a block, in every thread and in one order. `scratch`: a float per warp. */
KC_DEVICE float kc_block_sum(float value, const kc_tile<float> &scratch)
{
  const unsigned warps = blockDim.x / KC_LANES;
  value = kc_warp_sum(value);
  if (kc_lane() == 0) scratch.set(kc_warp_index(), value);
  kc_sync_block();
  float sum = 0.0f;
  for (unsigned i = 0; i < warps; ++i) sum += scratch.get(i);
  kc_sync_block(); /* scratch may be used again */
  return sum;
}

KC_DEVICE float kc_block_max(float value, const kc_tile<float> &scratch)
{
  const unsigned warps = blockDim.x / KC_LANES;
  value = kc_warp_max(value);
  if (kc_lane() == 0) scratch.set(kc_warp_index(), value);
  kc_sync_block();
  float most = KC_NEG_INFINITY;
  for (unsigned i = 0; i < warps; ++i) most = kc_max(most, scratch.get(i));
  kc_sync_block();
  return most;
}

#endif
