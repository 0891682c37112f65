/* Reading a weight matrix in any format, a run of a row at a time, as values in double.
 *
 * A value is code times scale; both have few enough bits for the product to be exact in double
 * (e4m3 4 bits, bf16 8, FP32 24); NVFP4's product with two scales has 2 + 4 + 24 bits and is exact
 * as well. So "dequantised weights" has one meaning, and kernels may differ only in their sums.
 */
#include "kernels/formats/fp4.h"
#include "kernels/formats/int4.h"
#include "kernels/ref/ref_internal.h"

static void int4_values(const struct kc_weight *weight, uint32_t group, uint32_t row,
                        uint32_t first, uint32_t count, double *out)
{
  const uint8_t *codes = (const uint8_t *)weight->data + (uint64_t)row * (weight->cols / 2);
  const uint16_t *scales = weight->scale_bf16 + (uint64_t)row * (weight->cols / group);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t k = first + i;
    const double scale = (double)kc_bf16_decode(scales[k / group]);
    out[i] = (double)kc_int4_get(codes, k) * scale;
  }
}

static void fp8_values(const struct kc_weight *weight, uint32_t row, uint32_t first,
                       uint32_t count, double *out)
{
  const uint8_t *codes = (const uint8_t *)weight->data + (uint64_t)row * weight->cols;
  const uint64_t blocks = ((uint64_t)weight->cols + 127) / 128;
  const float *block_scales = weight->scale_f32 + (row / 128) * blocks;
  const bool block = weight->format == KC_WEIGHT_FP8_BLOCK;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t k = first + i;
    const float scale = block ? block_scales[k / 128] : weight->scale_f32[0];
    out[i] = (double)kc_e4m3_decode(codes[k]) * (double)scale;
  }
}

static void fp4_values(const struct kc_weight *weight, uint32_t row, uint32_t first,
                       uint32_t count, double *out)
{
  const bool nv = weight->format == KC_WEIGHT_NVFP4;
  const uint32_t group = nv ? 16 : 32;
  const uint8_t *codes = (const uint8_t *)weight->data + (uint64_t)row * (weight->cols / 2);
  const uint8_t *scales = weight->scale_u8 + (uint64_t)row * (weight->cols / group);
  const double tensor = nv ? (double)weight->scale_f32[0] : 1.0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t k = first + i;
    const uint8_t code = scales[k / group];
    const double scale = (double)(nv ? kc_e4m3_decode(code) : kc_e8m0_decode(code));
    out[i] = (double)kc_e2m1_decode(kc_fp4_get(codes, k)) * scale * tensor;
  }
}

void kc_ref_weight_values(const struct kc_weight *weight, uint32_t row, uint32_t first,
                          uint32_t count, double *out)
{
  const uint32_t group = kc_int4_group(weight->format);
  if (group != 0) {
    int4_values(weight, group, row, first, count, out);
  } else if (weight->format == KC_WEIGHT_BF16) {
    const uint16_t *codes = (const uint16_t *)weight->data + (uint64_t)row * weight->cols + first;
    for (uint32_t i = 0; i < count; ++i) out[i] = (double)kc_bf16_decode(codes[i]);
  } else if (weight->format == KC_WEIGHT_FP8 || weight->format == KC_WEIGHT_FP8_BLOCK) {
    fp8_values(weight, row, first, count, out);
  } else {
    fp4_values(weight, row, first, count, out);
  }
}

enum kc_op_status kc_ref_dequantise(void *context, const struct kc_op_dequantise *op)
{
  enum { RUN = 256 };
  double value[RUN];
  (void)context;
  if (!kc_op_dequantise_valid(op)) return KC_OP_BAD;
  if (op->weight.layout != KC_LAYOUT_ROWS) return KC_OP_UNSUPPORTED;
  for (uint32_t row = 0; row < op->rows; ++row) {
    uint16_t *out = op->out + (uint64_t)row * op->weight.cols;
    for (uint32_t k = 0; k < op->weight.cols; k += RUN) {
      const uint32_t count = op->weight.cols - k < RUN ? op->weight.cols - k : RUN;
      kc_ref_weight_values(&op->weight, op->first + row, k, count, value);
      for (uint32_t i = 0; i < count; ++i) out[k + i] = kc_ref_bf16(value[i]);
    }
  }
  return KC_OP_OK;
}
