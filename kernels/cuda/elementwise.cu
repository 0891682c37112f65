/* Operations on rows of activations that do no products: gather, RMSNorm, RoPE, row quantisation,
 * SwiGLU, combination of experts.
 *
 *   a block has a row (a slice of one for the wide ones); a thread has 8 neighbouring elements,
 *   which is one 16-byte vector of bf16
 *
 * All of them are bound by memory and, in decode, by the launch; what matters is that accesses are
 * whole vectors and sums have one order.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/ops/op_check.h"

enum : unsigned { ROW_THREADS = 256, VECTOR = 8 };

KC_DEVICE uint4 zeros()
{
  return uint4{0, 0, 0, 0};
}

/* ---- gather ---- */

__global__ void gather_kernel(KC_PARAMETER struct kc_op_gather op)
{
  const unsigned row = blockIdx.x;
  const int32_t index = op.index[row];
  const bool inside = index >= 0 && (uint32_t)index < op.source_rows;
  const uint16_t *from = op.source + (inside ? (uint64_t)index * op.source_stride : 0);
  for (unsigned i = threadIdx.x * VECTOR; i < op.width; i += blockDim.x * VECTOR) {
    kc_store16(op.out + row * op.out_stride + i, inside ? kc_load16(from + i) : zeros());
  }
}

enum kc_op_status kc_gpu_gather(void *context, const struct kc_op_gather *op)
{
  if (!kc_op_gather_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  return KC_LAUNCH(context, gather_kernel, dim3(op->rows), dim3(ROW_THREADS), 0, *op);
}

/* ---- RMSNorm ---- */

/* h of eight elements; with a residual it is rounded to bf16 and stored back. */
KC_DEVICE void norm_input(float (&h)[VECTOR], const struct kc_op_rms_norm &op, unsigned row,
                          unsigned i)
{
  kc_unpack8(h, kc_load16(op.x + row * op.x_stride + i));
  if (op.residual == nullptr) return;
  uint16_t *residual = op.residual + row * op.residual_stride + i;
  float other[VECTOR];
  kc_unpack8(other, kc_load16(residual));
  KC_UNROLL
  for (unsigned j = 0; j < VECTOR; ++j) h[j] += other[j];
  const uint4 rounded = kc_pack8(h);
  kc_store16(residual, rounded);
  kc_unpack8(h, rounded);
}

__global__ void rms_norm_kernel(KC_PARAMETER struct kc_op_rms_norm op)
{
  kc_shared shared;
  const kc_tile<float> scratch = shared.take<float>(ROW_THREADS / KC_LANES);
  const unsigned row = blockIdx.x, head = (unsigned)(blockIdx.y * op.head_stride);
  float h[VECTOR], weight[VECTOR], sum = 0.0f;
  for (unsigned i = threadIdx.x * VECTOR; i < op.width; i += blockDim.x * VECTOR) {
    norm_input(h, op, row, head + i);
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) sum += h[j] * h[j];
  }
  sum = kc_block_sum(sum, scratch);
  const float factor = kc_inverse_sqrt(sum / (float)op.width + op.epsilon);
  const uint16_t *from = op.residual != nullptr ? op.residual + row * op.residual_stride
                                                : op.x + row * op.x_stride;
  for (unsigned i = threadIdx.x * VECTOR; i < op.width; i += blockDim.x * VECTOR) {
    kc_unpack8(h, kc_load16(from + head + i)); /* what this thread itself read or stored above */
    if (op.weight != nullptr) kc_unpack8(weight, kc_load16(op.weight + i));
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) {
      h[j] *= factor;
      if (op.weight != nullptr) h[j] *= weight[j];
    }
    kc_store16(op.out + row * op.out_stride + head + i, kc_pack8(h));
  }
}

enum kc_op_status kc_gpu_rms_norm(void *context, const struct kc_op_rms_norm *op)
{
  if (!kc_op_rms_norm_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  const dim3 grid(op->rows, op->heads > 0 ? op->heads : 1);
  return KC_LAUNCH(context, rms_norm_kernel, grid, dim3(ROW_THREADS),
                   kc_tile_bytes<float>(ROW_THREADS / KC_LANES), *op);
}

/* ---- RoPE ---- */

__global__ void rope_kernel(KC_PARAMETER struct kc_op_rope op)
{
  const unsigned row = blockIdx.x, half = op.dims / 2;
  const int32_t position = op.position[row];
  if (position < 0 || (uint32_t)position >= op.positions) return;
  const float *high = op.high + (uint64_t)(position / KC_ROPE_LOW_ROWS) * op.dims;
  const float *low = op.low + (uint64_t)(position % KC_ROPE_LOW_ROWS) * op.dims;
  for (unsigned i = threadIdx.x; i < op.heads * half; i += blockDim.x) {
    const unsigned head = i / half, pair = i % half;
    const bool split = op.pairs == KC_ROPE_HALF;
    uint16_t *x = op.x + row * op.x_stride + (uint64_t)head * op.head_dim + op.offset;
    uint16_t *first = x + (split ? pair : 2 * pair);
    uint16_t *second = x + (split ? pair + half : 2 * pair + 1);
    const float ch = high[2 * pair], sh = high[2 * pair + 1];
    const float cl = low[2 * pair], sl = low[2 * pair + 1];
    const float cosine = ch * cl - sh * sl, sine = sh * cl + ch * sl;
    const float a = kc_bf16_decode(*first), b = kc_bf16_decode(*second);
    *first = kc_bf16_encode(a * cosine - b * sine);
    *second = kc_bf16_encode(a * sine + b * cosine);
  }
}

enum kc_op_status kc_gpu_rope(void *context, const struct kc_op_rope *op)
{
  if (!kc_op_rope_valid(op)) return KC_OP_BAD;
  if (op->rows == 0 || op->heads == 0 || op->dims == 0) return KC_OP_OK;
  return KC_LAUNCH(context, rope_kernel, dim3(op->rows), dim3(ROW_THREADS), 0, *op);
}

/* ---- row quantisation ---- */

__global__ void quantise_rows_kernel(KC_PARAMETER struct kc_op_quantise_rows op)
{
  kc_shared shared;
  const kc_tile<float> scratch = shared.take<float>(ROW_THREADS / KC_LANES);
  const unsigned row = blockIdx.x;
  const uint16_t *x = op.x + row * op.x_stride;
  float value[VECTOR], most = 0.0f;
  for (unsigned i = threadIdx.x * VECTOR; i < op.width; i += blockDim.x * VECTOR) {
    kc_unpack8(value, kc_load16(x + i));
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) most = kc_max(most, fabsf(value[j]));
  }
  most = kc_block_max(most, scratch);
  const float scale = kc_max(most / KC_E4M3_MAX, 0x1p-20f);
  if (threadIdx.x == 0) op.scale[row] = scale;
  for (unsigned i = threadIdx.x * VECTOR; i < op.width; i += blockDim.x * VECTOR) {
    uint32_t code[2] = {0, 0};
    kc_unpack8(value, kc_load16(x + i));
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) {
      code[j / 4] |= (uint32_t)kc_to_e4m3(value[j] / scale) << (8 * (j % 4));
    }
    kc_store4(op.out + row * op.out_stride + i, code[0]);
    kc_store4(op.out + row * op.out_stride + i + 4, code[1]);
  }
}

enum kc_op_status kc_gpu_quantise_rows(void *context, const struct kc_op_quantise_rows *op)
{
  if (!kc_op_quantise_rows_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  return KC_LAUNCH(context, quantise_rows_kernel, dim3(op->rows), dim3(ROW_THREADS),
                   kc_tile_bytes<float>(ROW_THREADS / KC_LANES), *op);
}

/* ---- SwiGLU ---- */

__global__ void swiglu_kernel(KC_PARAMETER struct kc_op_swiglu op)
{
  const unsigned i = (blockIdx.y * blockDim.x + threadIdx.x) * VECTOR;
  if (i >= op.width) return;
  const uint16_t *x = op.x + blockIdx.x * op.x_stride;
  float gate[VECTOR], up[VECTOR];
  kc_unpack8(gate, kc_load16(x + i));
  kc_unpack8(up, kc_load16(x + op.width + i));
  KC_UNROLL
  for (unsigned j = 0; j < VECTOR; ++j) gate[j] = gate[j] / (1.0f + kc_exp(-gate[j])) * up[j];
  kc_store16(op.out + blockIdx.x * op.out_stride + i, kc_pack8(gate));
}

enum kc_op_status kc_gpu_swiglu(void *context, const struct kc_op_swiglu *op)
{
  if (!kc_op_swiglu_valid(op)) return KC_OP_BAD;
  if (op->rows == 0 || op->width == 0) return KC_OP_OK;
  const unsigned slices = kc_ceil_div(op->width, ROW_THREADS * VECTOR);
  return KC_LAUNCH(context, swiglu_kernel, dim3(op->rows, slices), dim3(ROW_THREADS), 0, *op);
}

/* ---- combination of experts ---- */

__global__ void moe_combine_kernel(KC_PARAMETER struct kc_op_moe_combine op)
{
  const unsigned row = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * VECTOR;
  if (i >= op.width) return;
  float sum[VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0}, value[VECTOR];
  for (unsigned c = 0; c < op.top; ++c) {
    const int32_t place = op.place[row * op.top + c];
    if (place < 0) continue;
    const float weight = op.weight[row * op.top + c];
    kc_unpack8(value, kc_load16(op.y + (uint64_t)place * op.y_stride + i));
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) sum[j] += weight * value[j];
  }
  if (op.base != nullptr) {
    kc_unpack8(value, kc_load16(op.base + row * op.base_stride + i));
    KC_UNROLL
    for (unsigned j = 0; j < VECTOR; ++j) sum[j] += value[j];
  }
  kc_store16(op.out + row * op.out_stride + i, kc_pack8(sum));
}

enum kc_op_status kc_gpu_moe_combine(void *context, const struct kc_op_moe_combine *op)
{
  if (!kc_op_moe_combine_valid(op)) return KC_OP_BAD;
  if (op->rows == 0 || op->width == 0) return KC_OP_OK;
  const unsigned slices = kc_ceil_div(op->width, ROW_THREADS * VECTOR);
  return KC_LAUNCH(context, moe_combine_kernel, dim3(op->rows, slices), dim3(ROW_THREADS), 0, *op);
}
