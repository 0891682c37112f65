/* Reading memory as fast as it can be read: what benches call the ceiling. Every thread has eight
 * vectors of 16 bytes under way, neighbours read neighbours; the exclusive-or of everything is kept
 * so that nothing can be left out, and so that the reading can be tested. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"

enum : unsigned { STREAM_THREADS = 512, UNDER_WAY = 8, STREAM_BLOCKS = 132 * 4 };

__global__ void KC_BOUNDS(STREAM_THREADS, 4)
    read_stream_kernel(const uint8_t *from, uint64_t vectors, uint32_t *sum)
{
  const uint64_t step = (uint64_t)gridDim.x * STREAM_THREADS;
  uint32_t all = 0;
  for (uint64_t first = (uint64_t)blockIdx.x * STREAM_THREADS + threadIdx.x; first < vectors;
       first += step * UNDER_WAY) {
    uint4 v[UNDER_WAY] = {};
    KC_UNROLL
    for (unsigned i = 0; i < UNDER_WAY; ++i) {
      if (first + i * step < vectors) v[i] = kc_load16(from + (first + i * step) * 16);
    }
    KC_UNROLL
    for (unsigned i = 0; i < UNDER_WAY; ++i) all ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  KC_UNROLL
  for (unsigned mask = KC_LANES / 2; mask > 0; mask /= 2) all ^= kc_shuffle_xor_u32(all, mask);
  if (kc_lane() == 0) kc_atomic_xor(sum, all);
}

enum kc_op_status kc_gpu_read_stream(void *context, const void *from, uint64_t bytes, uint32_t *sum)
{
  if (bytes % 16 != 0) return KC_OP_BAD;
  if (bytes == 0) return KC_OP_OK;
  const unsigned needed = kc_ceil_div(bytes / 16, STREAM_THREADS);
  const unsigned blocks = needed < STREAM_BLOCKS ? needed : STREAM_BLOCKS;
  return KC_LAUNCH(context, read_stream_kernel, dim3(blocks), dim3(STREAM_THREADS), 0,
                   static_cast<const uint8_t *>(from), bytes / 16, sum);
}
