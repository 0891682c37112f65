/* INT4 weights to bf16, for products of so many rows that the dense kernels are worth it.
 *
 *   codes, in rows or in fragment order; scales  -->  bf16 rows: code times scale, rounded once
 *
 * The product of a code and a bf16 scale has at most 12 bits and is exact in FP32, so the one
 * rounding is that to bf16, and the bits are those of the reference.
 *
 * A thread takes 16 bytes of codes, 32 elements, and stores them as four vectors of eight. In
 * fragment order those are rows lane/4 and lane/4 + 8 of a tile, in both halves of a block
 * (int4_pack.h), so that four lanes fill 64 bytes of a row.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/ops/op_check.h"

enum : unsigned { DEQUANTISE_THREADS = 256, DEQUANTISE_BLOCKS_MAX = 1u << 16, CODES = 32 };

/* Rows first .. first + rows - 1 go to out. */
struct dequantise {
  const uint8_t *data;
  const uint16_t *scale;
  uint32_t cols;
  unsigned group_shift; /* log2 of the group */
  uint32_t first, rows;
  uint16_t *out;
};

KC_DEVICE uint64_t dequantise_first()
{
  return (uint64_t)blockIdx.x * DEQUANTISE_THREADS + threadIdx.x;
}

KC_DEVICE uint64_t dequantise_step()
{
  return (uint64_t)gridDim.x * DEQUANTISE_THREADS;
}

KC_DEVICE float code_value(uint32_t word, unsigned nibble)
{
  return (float)((int)(word >> (4 * nibble) & 15u) - 8);
}

KC_DEVICE void store_values(const struct dequantise &d, uint32_t row, uint32_t column,
                            const float (&value)[8])
{
  kc_store16(d.out + (uint64_t)(row - d.first) * d.cols + column, kc_pack8(value));
}

__global__ void KC_BOUNDS(DEQUANTISE_THREADS, 4)
    dequantise_rows_kernel(KC_PARAMETER struct dequantise d)
{
  const uint64_t each = d.cols / CODES;
  for (uint64_t i = dequantise_first(); i < d.rows * each; i += dequantise_step()) {
    const uint32_t row = d.first + (uint32_t)(i / each), column = (uint32_t)(i % each) * CODES;
    const uint64_t at = (uint64_t)row * d.cols + column;
    const uint4 codes = kc_load16(d.data + at / 2);
    const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
    const float scale = kc_bf16_decode(d.scale[at >> d.group_shift]);
    KC_UNROLL
    for (unsigned w = 0; w < 4; ++w) {
      float value[8];
      KC_UNROLL
      for (unsigned k = 0; k < 8; ++k) value[k] = kc_multiply(code_value(word[w], k), scale);
      store_values(d, row, column + 8 * w, value);
    }
  }
}

/* Eight elements of row lane/4 + 8 `high` in a half: those of its two steps. */
KC_DEVICE void fragment_values(float (&value)[8], uint32_t first, uint32_t second, unsigned high,
                               float scale)
{
  KC_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned nibble = high + 2 * (k / 2) + 4 * (k % 2);
    value[k] = kc_multiply(code_value(first, nibble), scale);
    value[4 + k] = kc_multiply(code_value(second, nibble), scale);
  }
}

/* `vectors`: lanes of all blocks of the tiles that hold the rows. */
__global__ void KC_BOUNDS(DEQUANTISE_THREADS, 4)
    dequantise_fragment_kernel(KC_PARAMETER struct dequantise d, uint64_t vectors)
{
  const uint64_t blocks = (d.cols + 63ull) / 64, groups = d.cols >> d.group_shift;
  const uint64_t before = d.first / 16 * blocks * KC_LANES; /* the first row begins a tile */
  for (uint64_t i = dequantise_first(); i < vectors; i += dequantise_step()) {
    const uint64_t at = before + i, tile = at / KC_LANES / blocks;
    const unsigned lane = (unsigned)(at % KC_LANES);
    const uint4 codes = kc_load16(d.data + 16 * at);
    const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
    KC_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      const uint32_t column = (uint32_t)(at / KC_LANES % blocks) * 64 + 32 * half + 8 * (lane % 4);
      if (column >= d.cols) continue;
      const uint64_t group = column >> d.group_shift;
      const uint32_t pair = kc_load4(d.scale + (tile * groups + group) * 16 + lane / 4 * 2);
      KC_UNROLL
      for (unsigned high = 0; high < 2; ++high) {
        const uint32_t row = (uint32_t)tile * 16 + lane / 4 + 8 * high;
        if (row >= d.first + d.rows) continue;
        float value[8];
        const float scale = kc_f32_of_bits(high == 0 ? pair << 16 : pair & 0xffff0000u);
        fragment_values(value, word[2 * half], word[2 * half + 1], high, scale);
        store_values(d, row, column, value);
      }
    }
  }
}

static dim3 dequantise_grid(uint64_t items)
{
  const uint64_t blocks = (items + DEQUANTISE_THREADS - 1) / DEQUANTISE_THREADS;
  return dim3(blocks < DEQUANTISE_BLOCKS_MAX ? (unsigned)blocks : DEQUANTISE_BLOCKS_MAX);
}

enum kc_op_status kc_gpu_dequantise(void *context, const struct kc_op_dequantise *op)
{
  if (!kc_op_dequantise_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  const struct kc_weight *weight = &op->weight;
  const uint32_t group = kc_int4_group(weight->format);
  struct dequantise d = {};
  if (group == 0) return KC_OP_UNSUPPORTED;
  d.data = static_cast<const uint8_t *>(weight->data);
  d.scale = weight->scale_bf16;
  d.cols = weight->cols;
  while (1u << d.group_shift < group) d.group_shift += 1;
  d.first = op->first;
  d.rows = op->rows;
  d.out = op->out;
  if (weight->layout == KC_LAYOUT_ROWS) {
    return KC_LAUNCH(context, dequantise_rows_kernel,
                     dequantise_grid((uint64_t)d.rows * d.cols / CODES), dim3(DEQUANTISE_THREADS),
                     0, d);
  }
  const uint64_t vectors = (d.rows + 15ull) / 16 * ((d.cols + 63ull) / 64) * KC_LANES;
  return KC_LAUNCH(context, dequantise_fragment_kernel, dequantise_grid(vectors),
                   dim3(DEQUANTISE_THREADS), 0, d, vectors);
}
