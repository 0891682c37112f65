/* Weights made on the device: synthetic elements, and bf16 into FP8 or INT4.
 *
 *   bf16 [rows][cols]  --scale a group (INT4), or one (FP8)-->  codes, in rows or in fragment order
 *
 * Every element is a function of its own index, so threads share nothing; the bits are those of the
 * host's engine/exec/synthetic.c and kernels/formats/quantise.c. Set-up code: a large model's shard
 * in seconds, which is what matters, not the share of the bandwidth.
 */
#include "kernels/cuda/int4_pack.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/formats/counter.h"
#include "kernels/formats/int4.h"
#include "kernels/ops/op_check.h"

enum : unsigned { MAKE_THREADS = 256, VECTOR = 8, BLOCKS_MAX = 1u << 16, INT4_ZERO = 8 };

struct quantise {
  const uint16_t *bf16;
  uint32_t rows, cols;
  unsigned group; /* of INT4 */
  bool fragment;
  uint8_t *data;
  float *scale_f32;
  uint16_t *scale_bf16;
};

KC_DEVICE uint64_t first_item()
{
  return (uint64_t)blockIdx.x * MAKE_THREADS + threadIdx.x;
}

KC_DEVICE uint64_t item_step()
{
  return (uint64_t)gridDim.x * MAKE_THREADS;
}

static dim3 grid_for(uint64_t items)
{
  const uint64_t blocks = (items + MAKE_THREADS - 1) / MAKE_THREADS;
  return dim3(blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX);
}

/* ---- synthetic ---- */

KC_DEVICE uint16_t synthetic(const struct kc_op_synthesise &op, uint64_t index)
{
  const float spread = kc_multiply(op.deviation, kc_counter_normal(op.seed, op.stream, index));
  return kc_bf16_encode(op.mean + spread);
}

__global__ void KC_BOUNDS(MAKE_THREADS, 4)
    synthesise_kernel(KC_PARAMETER struct kc_op_synthesise op)
{
  const uint64_t vectors = (op.elements + VECTOR - 1) / VECTOR;
  for (uint64_t v = first_item(); v < vectors; v += item_step()) {
    const uint64_t first = v * VECTOR;
    const uint64_t end = first + VECTOR < op.elements ? first + VECTOR : op.elements;
    for (uint64_t i = first; i < end; ++i) op.out[i] = synthetic(op, i);
  }
}

enum kc_op_status kc_gpu_synthesise(void *context, const struct kc_op_synthesise *op)
{
  if (op->elements == 0) return KC_OP_OK;
  return KC_LAUNCH(context, synthesise_kernel, grid_for((op->elements + VECTOR - 1) / VECTOR),
                   dim3(MAKE_THREADS), 0, *op);
}

/* ---- FP8 ---- */

/* The scale's place holds the complement of the largest magnitude's bits meanwhile. */
__global__ void fp8_begin_kernel(KC_PARAMETER struct quantise q)
{
  if (threadIdx.x == 0) kc_store4(q.scale_f32, 0xFFFFFFFFu);
}

__global__ void KC_BOUNDS(MAKE_THREADS, 4) fp8_largest_kernel(KC_PARAMETER struct quantise q)
{
  const uint64_t elements = (uint64_t)q.rows * q.cols;
  float most = 0.0f;
  for (uint64_t i = first_item(); i < elements; i += item_step()) {
    most = kc_max(most, fabsf(kc_bf16_decode(q.bf16[i])));
  }
  kc_atomic_min(reinterpret_cast<uint32_t *>(q.scale_f32), ~kc_f32_bits(most));
}

__global__ void fp8_scale_kernel(KC_PARAMETER struct quantise q)
{
  if (threadIdx.x != 0) return;
  const float most = kc_f32_of_bits(~kc_load4(q.scale_f32));
  kc_store4(q.scale_f32, kc_f32_bits(most > 0.0f ? most / KC_E4M3_MAX : 1.0f));
}

__global__ void KC_BOUNDS(MAKE_THREADS, 4) fp8_encode_kernel(KC_PARAMETER struct quantise q)
{
  const uint64_t elements = (uint64_t)q.rows * q.cols;
  const float scale = kc_f32_of_bits(kc_load4(q.scale_f32));
  for (uint64_t i = first_item(); i < elements; i += item_step()) {
    q.data[i] = kc_e4m3_encode(kc_bf16_decode(q.bf16[i]) / scale);
  }
}

static enum kc_op_status quantise_fp8(void *context, const struct quantise &q)
{
  const dim3 grid = grid_for((uint64_t)q.rows * q.cols), one(1), warp(KC_LANES);
  enum kc_op_status status = KC_LAUNCH(context, fp8_begin_kernel, one, warp, 0, q);
  if (status == KC_OP_OK) {
    status = KC_LAUNCH(context, fp8_largest_kernel, grid, dim3(MAKE_THREADS), 0, q);
  }
  if (status == KC_OP_OK) status = KC_LAUNCH(context, fp8_scale_kernel, one, warp, 0, q);
  if (status == KC_OP_OK) {
    status = KC_LAUNCH(context, fp8_encode_kernel, grid, dim3(MAKE_THREADS), 0, q);
  }
  return status;
}

/* ---- INT4 ---- */

/* Where the scale of a row's group is. */
KC_DEVICE uint64_t scale_place(const struct quantise &q, uint64_t row, uint64_t group)
{
  const uint64_t groups = q.cols / q.group;
  if (!q.fragment) return row * groups + group;
  return (row / 16 * groups + group) * 16 + row % 8 * 2 + row / 8 % 2;
}

/* A thread a group, those of rows that fill up the last tile included. */
__global__ void KC_BOUNDS(MAKE_THREADS, 4) int4_scale_kernel(KC_PARAMETER struct quantise q)
{
  const uint64_t groups = q.cols / q.group;
  const uint64_t rows = q.fragment ? (q.rows + 15ull) / 16 * 16 : q.rows;
  for (uint64_t i = first_item(); i < rows * groups; i += item_step()) {
    const uint64_t row = i / groups, group = i % groups;
    const uint16_t *x = q.bf16 + row * q.cols + group * q.group;
    float most = 0.0f;
    for (unsigned j = 0; row < q.rows && j < q.group; ++j) {
      most = kc_max(most, fabsf(kc_bf16_decode(x[j])));
    }
    q.scale_bf16[scale_place(q, row, group)] = row < q.rows ? kc_int4_scale(most) : 0;
  }
}

KC_DEVICE uint32_t int4_code(const struct quantise &q, uint64_t row, uint64_t column)
{
  if (row >= q.rows || column >= q.cols) return INT4_ZERO;
  const uint16_t scale = q.scale_bf16[scale_place(q, row, column / q.group)];
  const float value = kc_bf16_decode(q.bf16[row * q.cols + column]);
  return (uint32_t)(kc_int4_encode(value, scale) + (int)INT4_ZERO);
}

/* A thread a word: eight codes of a row. */
__global__ void KC_BOUNDS(MAKE_THREADS, 4) int4_rows_kernel(KC_PARAMETER struct quantise q)
{
  const uint64_t words = (uint64_t)q.rows * q.cols / 8;
  for (uint64_t i = first_item(); i < words; i += item_step()) {
    uint32_t word = 0;
    for (unsigned j = 0; j < 8; ++j) {
      word |= int4_code(q, i * 8 / q.cols, i * 8 % q.cols + j) << (4 * j);
    }
    kc_store4(q.data + 4 * i, word);
  }
}

/* A thread a word in the order that int4_pack.h pictures. */
__global__ void KC_BOUNDS(MAKE_THREADS, 4)
    int4_fragment_kernel(KC_PARAMETER struct quantise q, uint64_t words)
{
  const uint64_t blocks = (q.cols + 63ull) / 64;
  for (uint64_t at = first_item(); at < words; at += item_step()) {
    const unsigned step = (unsigned)(at % 4), lane = (unsigned)(at / 4 % KC_LANES);
    const uint64_t block = at / 128 % blocks, tile = at / 128 / blocks;
    uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const uint64_t row = tile * 16 + lane / 4 + 8 * (i % 2);
      const uint64_t column =
          block * 64 + 32 * (step / 2) + 8 * (lane % 4) + 4 * (step % 2) + 2 * (i / 2);
      word |= int4_code(q, row, column) << (4 * i);
      word |= int4_code(q, row, column + 1) << (4 * (i + 4));
    }
    kc_store4(q.data + 4 * at, word);
  }
}

static enum kc_op_status quantise_int4(void *context, const struct quantise &q,
                                       const struct kc_weight *weight)
{
  const uint64_t elements = (uint64_t)q.rows * q.cols;
  const enum kc_op_status status =
      KC_LAUNCH(context, int4_scale_kernel, grid_for(elements / q.group + 16ull * q.cols / q.group),
                dim3(MAKE_THREADS), 0, q);
  if (status != KC_OP_OK) return status;
  if (!q.fragment) {
    return KC_LAUNCH(context, int4_rows_kernel, grid_for(elements / 8), dim3(MAKE_THREADS), 0, q);
  }
  const uint64_t words = kc_int4_fragment_data_bytes(weight) / 4;
  return KC_LAUNCH(context, int4_fragment_kernel, grid_for(words), dim3(MAKE_THREADS), 0, q, words);
}

enum kc_op_status kc_gpu_quantise_weight(void *context, const struct kc_op_quantise_weight *op)
{
  const struct kc_weight *weight = &op->weight;
  struct quantise q = {};
  if (weight->rows == 0 || weight->cols == 0 || weight->cols % 32 != 0) return KC_OP_BAD;
  q.bf16 = op->bf16;
  q.rows = weight->rows;
  q.cols = weight->cols;
  q.group = kc_int4_group(weight->format);
  q.fragment = weight->layout == KC_LAYOUT_FRAGMENT;
  q.data = static_cast<uint8_t *>(op->data);
  q.scale_f32 = op->scale_f32;
  q.scale_bf16 = op->scale_bf16;
  if (q.group != 0) return q.cols % q.group == 0 ? quantise_int4(context, q, weight) : KC_OP_BAD;
  return weight->format == KC_WEIGHT_FP8 ? quantise_fp8(context, q) : KC_OP_UNSUPPORTED;
}
