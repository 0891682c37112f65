/* Matrix products: plain, per head, per expert. One tile routine under all three.
 *
 *            k in blocks of 128
 *   x        [LANES rows]  ->  transposed, xt[k][LANES]      decoded once a block
 *   W        [N_TILE rows] ->  w[k]                          decoded once a row and block
 *   sum      [N_TILE][LANES] += w[k] * xt[k][lane]           k ascending: the order is fixed
 *
 * Lanes are rows of x, so the compiler's vector code keeps each sum's order, and a row's result
 * does not depend on the rows beside it.
 */
#include "kernels/ref/ref_internal.h"

enum { LANES = 8, N_TILE = 32, K_BLOCK = 128 };

/* Rows of x as a product sees them. */
struct operand {
  const void *x;
  uint64_t stride;
  enum kc_dtype type;
  const int32_t *source; /* row p is x[source[p]]; NULL: x[p] */
};

struct tile {
  double xt[K_BLOCK][LANES];
  double w[K_BLOCK];
  double sum[N_TILE][LANES];
};

static double operand_value(const struct operand *operand, uint64_t row, uint64_t k)
{
  const uint64_t from = operand->source == NULL ? row : (uint64_t)operand->source[row];
  const uint64_t at = from * operand->stride + k;
  if (operand->type == KC_DTYPE_E4M3) {
    return (double)kc_e4m3_decode(((const uint8_t *)operand->x)[at]);
  }
  return (double)kc_bf16_decode(((const uint16_t *)operand->x)[at]);
}

static void load_rows(struct tile *tile, const struct operand *operand, uint64_t row,
                      uint32_t lanes, uint32_t k_first, uint32_t k_count)
{
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint32_t k = 0; k < k_count; ++k) {
      tile->xt[k][lane] = operand_value(operand, row + lane, k_first + k);
    }
  }
  for (uint32_t lane = lanes; lane < LANES && lanes > 1; ++lane) {
    for (uint32_t k = 0; k < k_count; ++k) tile->xt[k][lane] = 0.0;
  }
}

static void accumulate(double *restrict sum, const double (*restrict xt)[LANES],
                       const double *restrict w, uint32_t k_count, uint32_t lanes)
{
  if (lanes == 1) { /* a decode alone: the other lanes would be work for nothing */
    for (uint32_t k = 0; k < k_count; ++k) sum[0] += w[k] * xt[k][0];
    return;
  }
  for (uint32_t k = 0; k < k_count; ++k) {
    for (uint32_t lane = 0; lane < LANES; ++lane) sum[lane] += w[k] * xt[k][lane];
  }
}

/* sum[n][lane] over all k, for weight rows [n_first, n_first + n_count) and `lanes` rows of x. */
static void tile_product(struct tile *tile, const struct operand *operand, uint64_t row,
                         uint32_t lanes, const struct kc_weight *weight, uint32_t n_first,
                         uint32_t n_count)
{
  for (uint32_t n = 0; n < n_count; ++n) {
    for (uint32_t lane = 0; lane < LANES; ++lane) tile->sum[n][lane] = 0.0;
  }
  for (uint32_t k = 0; k < weight->cols; k += K_BLOCK) {
    const uint32_t k_count = weight->cols - k < K_BLOCK ? weight->cols - k : K_BLOCK;
    load_rows(tile, operand, row, lanes, k, k_count);
    for (uint32_t n = 0; n < n_count; ++n) {
      kc_ref_weight_values(weight, n_first + n, k, k_count, tile->w);
      accumulate(tile->sum[n], (const double (*)[LANES])tile->xt, tile->w, k_count,
                 lanes);
    }
  }
}

static void store_gemm(const struct kc_op_gemm *op, const struct tile *tile, uint32_t row,
                       uint32_t lanes, uint32_t n_first, uint32_t n_count)
{
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const uint64_t at = (uint64_t)(row + lane) * op->out_stride + n_first;
    const double scale = op->x_scale == NULL ? 1.0 : (double)op->x_scale[row + lane];
    float *f32 = (float *)op->out + at;
    uint16_t *bf16 = (uint16_t *)op->out + at;
    for (uint32_t n = 0; n < n_count; ++n) {
      const double value = tile->sum[n][lane] * scale;
      if (op->out_type == KC_DTYPE_F32) {
        f32[n] = (float)(op->add ? (double)f32[n] + value : value);
      } else {
        bf16[n] = kc_ref_bf16(op->add ? (double)kc_bf16_decode(bf16[n]) + value : value);
      }
    }
  }
}

enum kc_op_status kc_ref_gemm(void *context, const struct kc_op_gemm *op)
{
  (void)context;
  if (!kc_op_gemm_valid(op)) return KC_OP_BAD;
  if (op->weight.layout != KC_LAYOUT_ROWS) return KC_OP_UNSUPPORTED;
  const struct operand operand = {.x = op->x, .stride = op->x_stride, .type = op->x_type};
  struct tile tile;
  for (uint32_t row = 0; row < op->rows; row += LANES) {
    const uint32_t lanes = op->rows - row < LANES ? op->rows - row : LANES;
    for (uint32_t n = 0; n < op->weight.rows; n += N_TILE) {
      const uint32_t count = op->weight.rows - n < N_TILE ? op->weight.rows - n : N_TILE;
      tile_product(&tile, &operand, row, lanes, &op->weight, n, count);
      store_gemm(op, &tile, row, lanes, n, count);
    }
  }
  return KC_OP_OK;
}

static void store_bf16(uint16_t *out, uint64_t stride, const struct tile *tile, uint32_t lanes,
                       uint32_t n_first, uint32_t n_count)
{
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint32_t n = 0; n < n_count; ++n) {
      out[lane * stride + n_first + n] = kc_ref_bf16(tile->sum[n][lane]);
    }
  }
}

/* out[row] = x[row] W^T for rows [first, end), bf16. */
static void product_rows(const struct operand *operand, uint64_t first, uint64_t end,
                         const struct kc_weight *weight, uint16_t *out, uint64_t out_stride)
{
  struct tile tile;
  for (uint64_t row = first; row < end; row += LANES) {
    const uint32_t lanes = (uint32_t)(end - row < LANES ? end - row : LANES);
    for (uint32_t n = 0; n < weight->rows; n += N_TILE) {
      const uint32_t count = weight->rows - n < N_TILE ? weight->rows - n : N_TILE;
      tile_product(&tile, operand, row, lanes, weight, n, count);
      store_bf16(out + row * out_stride, out_stride, &tile, lanes, n, count);
    }
  }
}

enum kc_op_status kc_ref_head_gemm(void *context, const struct kc_op_head_gemm *op)
{
  (void)context;
  if (!kc_op_head_gemm_valid(op)) return KC_OP_BAD;
  for (uint32_t head = 0; head < op->heads; ++head) {
    const struct kc_weight weight = {
        .format = KC_WEIGHT_BF16,
        .rows = op->n,
        .cols = op->k,
        .data = op->weight + (uint64_t)head * op->n * op->k,
    };
    const struct operand operand = {
        .x = op->x + head * op->x_head_stride, .stride = op->x_stride, .type = KC_DTYPE_BF16};
    product_rows(&operand, 0, op->rows, &weight, op->out + head * op->out_head_stride,
                 op->out_stride);
  }
  return KC_OP_OK;
}

/* The matrix of expert e: each array moved on by its stride. */
static struct kc_weight expert_weight(const struct kc_op_grouped_gemm *op, uint32_t e)
{
  struct kc_weight weight = op->weight;
  const uint64_t data = e * op->data_stride_bytes, scale = e * op->scale_stride_bytes;
  weight.data = (const uint8_t *)weight.data + data;
  if (weight.scale_bf16 != NULL) weight.scale_bf16 += scale / sizeof *weight.scale_bf16;
  if (weight.scale_u8 != NULL) weight.scale_u8 += scale;
  /* NVFP4's tensor scale is one for all experts; its block scales move. */
  if (weight.scale_f32 != NULL && weight.scale_u8 == NULL) {
    weight.scale_f32 += scale / sizeof *weight.scale_f32;
  }
  return weight;
}

enum kc_op_status kc_ref_grouped_gemm(void *context, const struct kc_op_grouped_gemm *op)
{
  (void)context;
  if (!kc_op_grouped_gemm_valid(op)) return KC_OP_BAD;
  if (op->weight.layout != KC_LAYOUT_ROWS) return KC_OP_UNSUPPORTED;
  const struct operand operand = {
      .x = op->x, .stride = op->x_stride, .type = KC_DTYPE_BF16, .source = op->source};
  for (uint32_t e = 0; e < op->experts; ++e) {
    const struct kc_weight weight = expert_weight(op, e);
    product_rows(&operand, op->first[e], op->first[e + 1], &weight, op->out, op->out_stride);
  }
  return KC_OP_OK;
}
