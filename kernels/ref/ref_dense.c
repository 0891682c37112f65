/* Operations on rows of activations: gather, RMSNorm, RoPE, SwiGLU, quantisation.
 *
 *   x [row][width] bf16  ->  values in double  ->  one rounding  ->  out [row][width] bf16
 *
 * Rows are independent and elements are taken in index order, so results depend on nothing but the
 * row itself.
 */
#include <math.h>
#include <string.h>

#include "kernels/ops/op_math.h"
#include "kernels/ref/ref_internal.h"

enum kc_op_status kc_ref_gather(void *context, const struct kc_op_gather *op)
{
  (void)context;
  if (!kc_op_gather_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    uint16_t *out = op->out + row * op->out_stride;
    const int32_t index = op->index[row];
    if (index < 0 || (uint32_t)index >= op->source_rows) {
      memset(out, 0, op->width * sizeof *out);
    } else {
      memcpy(out, op->source + (uint64_t)index * op->source_stride, op->width * sizeof *out);
    }
  }
  return KC_OP_OK;
}

/* Adds the residual to a row, as the contract rounds it; returns the row to normalise. */
static const uint16_t *add_residual(const struct kc_op_rms_norm *op, uint32_t row)
{
  const uint16_t *x = op->x + row * op->x_stride;
  if (op->residual == NULL) return x;
  uint16_t *residual = op->residual + row * op->residual_stride;
  for (uint32_t i = 0; i < op->width; ++i) {
    const double sum = (double)kc_bf16_decode(x[i]) + (double)kc_bf16_decode(residual[i]);
    residual[i] = kc_ref_bf16(sum);
  }
  return residual;
}

static void norm_run(const struct kc_op_rms_norm *op, const uint16_t *x, uint16_t *out)
{
  double squares = 0.0;
  for (uint32_t i = 0; i < op->width; ++i) {
    const double value = (double)kc_bf16_decode(x[i]);
    squares += value * value;
  }
  const double scale = 1.0 / sqrt(squares / op->width + (double)op->epsilon);
  for (uint32_t i = 0; i < op->width; ++i) {
    const double weight = op->weight == NULL ? 1.0 : (double)kc_bf16_decode(op->weight[i]);
    out[i] = kc_ref_bf16((double)kc_bf16_decode(x[i]) * scale * weight);
  }
}

enum kc_op_status kc_ref_rms_norm(void *context, const struct kc_op_rms_norm *op)
{
  (void)context;
  if (!kc_op_rms_norm_valid(op)) return KC_OP_BAD;
  const uint32_t heads = op->heads > 0 ? op->heads : 1;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const uint16_t *x = add_residual(op, row);
    for (uint32_t head = 0; head < heads; ++head) {
      const uint64_t at = head * op->head_stride;
      norm_run(op, x + at, op->out + row * op->out_stride + at);
    }
  }
  return KC_OP_OK;
}

/* Turns the pairs of one head. high and low are the table rows of the position. */
static void rope_head(const struct kc_op_rope *op, uint16_t *x, const float *high,
                      const float *low)
{
  const bool half = op->pairs == KC_ROPE_HALF;
  for (uint32_t i = 0; i < op->dims / 2; ++i) {
    const double ch = (double)high[2 * i], sh = (double)high[2 * i + 1];
    const double cl = (double)low[2 * i], sl = (double)low[2 * i + 1];
    const double c = ch * cl - sh * sl, s = sh * cl + ch * sl;
    uint16_t *first = half ? x + i : x + 2 * i;
    uint16_t *second = half ? x + i + op->dims / 2 : first + 1;
    const double a = (double)kc_bf16_decode(*first), b = (double)kc_bf16_decode(*second);
    *first = kc_ref_bf16(a * c - b * s);
    *second = kc_ref_bf16(a * s + b * c);
  }
}

enum kc_op_status kc_ref_rope(void *context, const struct kc_op_rope *op)
{
  (void)context;
  if (!kc_op_rope_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const int32_t position = op->position[row];
    if (position < 0 || (uint32_t)position >= op->positions) continue;
    const uint32_t at = (uint32_t)position;
    const float *high = op->high + (uint64_t)(at / KC_ROPE_LOW_ROWS) * op->dims;
    const float *low = op->low + (uint64_t)(at % KC_ROPE_LOW_ROWS) * op->dims;
    uint16_t *x = op->x + row * op->x_stride + op->offset;
    for (uint32_t head = 0; head < op->heads; ++head) {
      rope_head(op, x + (uint64_t)head * op->head_dim, high, low);
    }
  }
  return KC_OP_OK;
}

enum kc_op_status kc_ref_swiglu(void *context, const struct kc_op_swiglu *op)
{
  (void)context;
  if (!kc_op_swiglu_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const uint16_t *gate = op->x + row * op->x_stride, *up = gate + op->width;
    uint16_t *out = op->out + row * op->out_stride;
    for (uint32_t i = 0; i < op->width; ++i) {
      const double g = (double)kc_bf16_decode(gate[i]), u = (double)kc_bf16_decode(up[i]);
      out[i] = kc_ref_bf16(g / (1.0 + kc_math_exp(-g)) * u);
    }
  }
  return KC_OP_OK;
}

enum kc_op_status kc_ref_quantise_rows(void *context, const struct kc_op_quantise_rows *op)
{
  (void)context;
  if (!kc_op_quantise_rows_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const uint16_t *x = op->x + row * op->x_stride;
    float amax = 0.0f;
    for (uint32_t i = 0; i < op->width; ++i) {
      const float magnitude = fabsf(kc_bf16_decode(x[i]));
      if (magnitude > amax) amax = magnitude;
    }
    const float least = 9.5367431640625e-07f; /* 2^-20 */
    const float scale = amax / KC_E4M3_MAX > least ? amax / KC_E4M3_MAX : least;
    op->scale[row] = scale;
    uint8_t *out = op->out + row * op->out_stride;
    for (uint32_t i = 0; i < op->width; ++i) out[i] = kc_e4m3_encode(kc_bf16_decode(x[i]) / scale);
  }
  return KC_OP_OK;
}
