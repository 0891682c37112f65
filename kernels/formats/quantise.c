/* Quantising a bf16 matrix, group by group.
 *
 *   row  |---- group ----|---- group ----|      one scale each; codes beside, two a byte for 4 bits
 *
 * Every group needs its largest magnitude first, then its codes: two passes over a few hundred
 * bytes. Set-up code: clear rather than fast.
 */
#include "kernels/formats/quantise.h"

#include <math.h>
#include <string.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/fp4.h"
#include "kernels/formats/int4.h"

static uint64_t group_of(enum kc_weight_format format)
{
  switch (format) {
    case KC_WEIGHT_INT4_G64: return 64;
    case KC_WEIGHT_INT4_G128: return 128;
    case KC_WEIGHT_NVFP4: return 16;
    default: return 32;
  }
}

static bool is_int4(enum kc_weight_format format)
{
  return format == KC_WEIGHT_INT4_G32 || format == KC_WEIGHT_INT4_G64 ||
         format == KC_WEIGHT_INT4_G128;
}

bool kc_quantised_sizes(enum kc_weight_format format, uint64_t rows, uint64_t cols,
                        struct kc_quantised_sizes *sizes)
{
  *sizes = (struct kc_quantised_sizes){0};
  const uint64_t group = group_of(format);
  if (rows == 0 || cols == 0 || cols % 32 != 0 || cols % group != 0) return false;
  const uint64_t elements = rows * cols;
  if (is_int4(format)) {
    *sizes = (struct kc_quantised_sizes){elements / 2, 0, elements / group, 0};
    return true;
  }
  switch (format) {
    case KC_WEIGHT_BF16: sizes->data_bytes = 2 * elements; return true;
    case KC_WEIGHT_FP8: *sizes = (struct kc_quantised_sizes){elements, 1, 0, 0}; return true;
    case KC_WEIGHT_FP8_BLOCK:
      *sizes = (struct kc_quantised_sizes){elements, ((rows + 127) / 128) * ((cols + 127) / 128),
                                           0, 0};
      return true;
    case KC_WEIGHT_MXFP4:
      *sizes = (struct kc_quantised_sizes){elements / 2, 0, 0, elements / group};
      return true;
    case KC_WEIGHT_NVFP4:
      *sizes = (struct kc_quantised_sizes){elements / 2, 1, 0, elements / group};
      return true;
    default: return false;
  }
}

static float largest(const uint16_t *bf16, uint64_t count)
{
  float amax = 0.0f;
  for (uint64_t i = 0; i < count; ++i) {
    const float magnitude = fabsf(kc_bf16_decode(bf16[i]));
    if (magnitude > amax) amax = magnitude;
  }
  return amax;
}

static float fp8_scale(float amax)
{
  return amax > 0.0f ? amax / KC_E4M3_MAX : 1.0f;
}

static void quantise_fp8(uint64_t count, const uint16_t *bf16, const struct kc_quantised *out)
{
  const float scale = fp8_scale(largest(bf16, count));
  uint8_t *codes = out->data;
  out->scale_f32[0] = scale;
  for (uint64_t i = 0; i < count; ++i) codes[i] = kc_e4m3_encode(kc_bf16_decode(bf16[i]) / scale);
}

static void quantise_block(uint64_t cols, uint64_t row_end, uint64_t row, uint64_t col,
                           const uint16_t *bf16, uint8_t *codes, float *scale)
{
  const uint64_t width = cols - col < 128 ? cols - col : 128;
  float amax = 0.0f;
  for (uint64_t r = row; r < row_end; ++r) {
    const float magnitude = largest(bf16 + r * cols + col, width);
    if (magnitude > amax) amax = magnitude;
  }
  *scale = fp8_scale(amax);
  for (uint64_t r = row; r < row_end; ++r) {
    for (uint64_t i = r * cols + col; i < r * cols + col + width; ++i) {
      codes[i] = kc_e4m3_encode(kc_bf16_decode(bf16[i]) / *scale);
    }
  }
}

static void quantise_fp8_block(uint64_t rows, uint64_t cols, const uint16_t *bf16,
                               const struct kc_quantised *out)
{
  float *scale = out->scale_f32;
  for (uint64_t row = 0; row < rows; row += 128) {
    const uint64_t row_end = rows - row < 128 ? rows : row + 128;
    for (uint64_t col = 0; col < cols; col += 128) {
      quantise_block(cols, row_end, row, col, bf16, out->data, scale++);
    }
  }
}

static void quantise_int4(uint64_t count, uint64_t group, const uint16_t *bf16,
                          const struct kc_quantised *out)
{
  for (uint64_t first = 0; first < count; first += group) {
    const uint16_t scale = kc_int4_scale(largest(bf16 + first, group));
    out->scale_bf16[first / group] = scale;
    for (uint64_t i = first; i < first + group; ++i) {
      kc_int4_set(out->data, i, kc_int4_encode(kc_bf16_decode(bf16[i]), scale));
    }
  }
}

/* Codes of one fp4 block whose scale, as a value, is known; 0: all codes are 0. */
static void fp4_codes(uint8_t *codes, uint64_t first, uint64_t group, const uint16_t *bf16,
                      float scale)
{
  for (uint64_t i = first; i < first + group; ++i) {
    const float value = scale > 0.0f ? kc_bf16_decode(bf16[i]) / scale : 0.0f;
    kc_fp4_set(codes, i, kc_e2m1_encode(value));
  }
}

static void quantise_mxfp4(uint64_t count, const uint16_t *bf16, const struct kc_quantised *out)
{
  for (uint64_t first = 0; first < count; first += 32) {
    const uint8_t code = kc_mxfp4_scale(largest(bf16 + first, 32));
    out->scale_u8[first / 32] = code;
    fp4_codes(out->data, first, 32, bf16, kc_e8m0_decode(code));
  }
}

static void quantise_nvfp4(uint64_t count, const uint16_t *bf16, const struct kc_quantised *out)
{
  const float tensor = kc_nvfp4_tensor_scale(largest(bf16, count));
  out->scale_f32[0] = tensor;
  for (uint64_t first = 0; first < count; first += 16) {
    const uint8_t code = kc_nvfp4_scale(largest(bf16 + first, 16), tensor);
    out->scale_u8[first / 16] = code;
    fp4_codes(out->data, first, 16, bf16, kc_e4m3_decode(code) * tensor);
  }
}

bool kc_quantise_weight(enum kc_weight_format format, uint64_t rows, uint64_t cols,
                        const uint16_t *bf16, const struct kc_quantised *out)
{
  struct kc_quantised_sizes sizes;
  if (!kc_quantised_sizes(format, rows, cols, &sizes)) return false;
  const uint64_t count = rows * cols;
  if (is_int4(format)) {
    quantise_int4(count, group_of(format), bf16, out);
    return true;
  }
  switch (format) {
    case KC_WEIGHT_FP8: quantise_fp8(count, bf16, out); return true;
    case KC_WEIGHT_FP8_BLOCK: quantise_fp8_block(rows, cols, bf16, out); return true;
    case KC_WEIGHT_MXFP4: quantise_mxfp4(count, bf16, out); return true;
    case KC_WEIGHT_NVFP4: quantise_nvfp4(count, bf16, out); return true;
    default: memcpy(out->data, bf16, sizes.data_bytes); return true;
  }
}
