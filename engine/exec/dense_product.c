/* See dense_product.h. Panels are of one size, the last but a little smaller, and begin at whole
 * tiles of the codes' order. */
#include "engine/exec/dense_product.h"

#include "engine/base/check.h"
#include "kernels/ops/op_check.h"

enum { TILE = 16, WIDE_TILE = 128 /* of the dense kernels */ };

bool kc_dense_wanted(const struct kc_weight *weight, uint32_t rows)
{
  KC_ASSERT(weight != NULL);
  return rows >= KC_DENSE_ROWS && kc_int4_group(weight->format) != 0;
}

uint64_t kc_dense_scratch_bytes(const struct kc_weight *weight, uint32_t rows)
{
  if (weight->rows == 0 || !kc_dense_wanted(weight, rows)) return 0;
  const uint64_t row = 2ull * weight->cols, whole = row * weight->rows;
  KC_ASSERT(row > 0);
  if (whole <= KC_DENSE_SCRATCH_MAX) return whole;
  return row * WIDE_TILE <= KC_DENSE_SCRATCH_MAX ? KC_DENSE_SCRATCH_MAX : row * WIDE_TILE;
}

/* Outputs of a panel: as few panels as the scratch allows, and those alike. 0: not even a tile. */
static uint32_t panel_rows(const struct kc_weight *weight, uint64_t scratch_bytes)
{
  const uint64_t most = scratch_bytes / (2ull * weight->cols);
  if (most >= weight->rows) return weight->rows;
  const uint64_t unit = most >= WIDE_TILE ? WIDE_TILE : TILE;
  const uint64_t largest = most / unit * unit;
  if (largest == 0) return 0;
  const uint64_t panels = (weight->rows + largest - 1) / largest;
  const uint64_t even = (weight->rows + panels - 1) / panels;
  KC_ASSERT(even <= largest);
  return (uint32_t)((even + unit - 1) / unit * unit);
}

struct kc_weight kc_dense_panel(const struct kc_weight *weight, uint64_t scratch_bytes, bool last)
{
  const uint32_t rows = panel_rows(weight, scratch_bytes);
  KC_ASSERT(weight->rows > 0 && rows > 0);
  return (struct kc_weight){.format = KC_WEIGHT_BF16, .cols = weight->cols,
                            .rows = last ? (weight->rows - 1) % rows + 1 : rows};
}

enum kc_op_status kc_dense_product(const struct kc_ops *ops, void *context,
                                   const struct kc_op_gemm *op, void *scratch,
                                   uint64_t scratch_bytes)
{
  const uint64_t element = op->out_type == KC_DTYPE_F32 ? 4 : 2;
  const uint32_t panel = panel_rows(&op->weight, scratch_bytes);
  KC_ASSERT(kc_int4_group(op->weight.format) != 0);
  KC_ASSERT(panel % TILE == 0 || panel == op->weight.rows);
  if (panel == 0) return KC_OP_MEMORY;
  for (uint32_t first = 0; first < op->weight.rows; first += panel) {
    const uint32_t left = op->weight.rows - first;
    const struct kc_op_dequantise dequantise = {.weight = op->weight, .first = first,
                                                .rows = left < panel ? left : panel,
                                                .out = scratch};
    struct kc_op_gemm dense = *op;
    dense.weight = (struct kc_weight){.format = KC_WEIGHT_BF16, .rows = dequantise.rows,
                                      .cols = op->weight.cols, .data = scratch};
    dense.out = (unsigned char *)op->out + element * first;
    enum kc_op_status status = ops->dequantise(context, &dequantise);
    if (status == KC_OP_OK) status = ops->gemm(context, &dense);
    if (status != KC_OP_OK) return status;
  }
  return KC_OP_OK;
}
