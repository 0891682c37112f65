/* Sizes and names of the number formats. Two tables, one row per format; a new format is a new row.
 *
 *   weight matrix:  rows x (packed elements of a row + scales of a row) + scales of blocks
 *   KV vector:      packed elements + scales that are stored with every token
 *
 * Sources of the layouts: OCP Microscaling Formats 1.0 (mxfp4), compressed-tensors
 * "pack-quantized" (int4 groups with BF16 scales), DeepSeek-V3 technical report (FP8 with 128 x 128
 * FP32 block scales), NVIDIA's NVFP4 description (16 elements per E4M3 scale).
 *
 * The folder sits at the bottom of the tree and depends on nothing, so it has no assertions: a
 * value outside its enum costs 0 bytes and has the name "?".
 */
#include "kernels/formats/format.h"

#include <stddef.h>
#include <string.h>

/* One row: bits of an element; elements that share a scale along a row (0 = no such scale) and over
 * how many rows; bytes of that scale; bytes of one scale for the whole tensor. */
struct weight_layout {
  const char *name;
  unsigned bits;
  uint64_t group_cols;
  unsigned group_rows;
  unsigned scale_bytes;
  unsigned tensor_scale_bytes;
  enum kc_math math;
};

static const struct weight_layout weight_layouts[KC_WEIGHT_FORMATS] = {
    [KC_WEIGHT_DEFAULT] = {"checkpoint", 0, 0, 1, 0, 0, KC_MATH_BF16},
    [KC_WEIGHT_NONE] = {"none", 0, 0, 1, 0, 0, KC_MATH_BF16},
    [KC_WEIGHT_BF16] = {"bf16", 16, 0, 1, 0, 0, KC_MATH_BF16},
    [KC_WEIGHT_FP16] = {"fp16", 16, 0, 1, 0, 0, KC_MATH_BF16},
    [KC_WEIGHT_FP32] = {"fp32", 32, 0, 1, 0, 0, KC_MATH_BF16},
    [KC_WEIGHT_FP8] = {"fp8", 8, 0, 1, 0, 4, KC_MATH_FP8},
    [KC_WEIGHT_FP8_BLOCK] = {"fp8-block", 8, 128, 128, 4, 0, KC_MATH_FP8},
    [KC_WEIGHT_INT8] = {"int8", 8, UINT64_MAX, 1, 2, 0, KC_MATH_INT8},
    [KC_WEIGHT_INT4_G32] = {"int4-g32", 4, 32, 1, 2, 0, KC_MATH_BF16},
    [KC_WEIGHT_INT4_G64] = {"int4-g64", 4, 64, 1, 2, 0, KC_MATH_BF16},
    [KC_WEIGHT_INT4_G128] = {"int4-g128", 4, 128, 1, 2, 0, KC_MATH_BF16},
    [KC_WEIGHT_MXFP4] = {"mxfp4", 4, 32, 1, 1, 0, KC_MATH_FP4},
    [KC_WEIGHT_NVFP4] = {"nvfp4", 4, 16, 1, 1, 4, KC_MATH_FP4},
};

/* One row: bits of an element, elements per stored scale (0 = none), bytes of that scale. */
struct kv_layout {
  const char *name;
  unsigned bits;
  uint64_t group;
  unsigned scale_bytes;
};

static const struct kv_layout kv_layouts[KC_KV_FORMATS] = {
    [KC_KV_BF16] = {"bf16", 16, 0, 0},
    [KC_KV_FP8_E4M3] = {"fp8-e4m3", 8, 0, 0},
    [KC_KV_FP8_G128] = {"fp8-g128", 8, 128, 4},
    [KC_KV_INT8] = {"int8", 8, UINT64_MAX, 2},
    [KC_KV_FP4] = {"fp4", 4, 16, 1},
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
  return a / b + (a % b != 0);
}

static bool weight_known(enum kc_weight_format format)
{
  return (unsigned)format < KC_WEIGHT_FORMATS;
}

static bool kv_known(enum kc_kv_format format)
{
  return (unsigned)format < KC_KV_FORMATS;
}

uint64_t kc_weight_bytes(enum kc_weight_format format, uint64_t rows, uint64_t cols)
{
  if (!weight_known(format)) return 0;
  const struct weight_layout *layout = &weight_layouts[format];
  const uint64_t elements = rows * ceil_div(cols * layout->bits, 8);
  if (layout->group_cols == 0) return elements + layout->tensor_scale_bytes;
  const uint64_t groups = ceil_div(rows, layout->group_rows) * ceil_div(cols, layout->group_cols);
  return elements + groups * layout->scale_bytes + layout->tensor_scale_bytes;
}

uint64_t kc_kv_bytes(enum kc_kv_format format, uint64_t width)
{
  if (!kv_known(format)) return 0;
  const struct kv_layout *layout = &kv_layouts[format];
  const uint64_t elements = ceil_div(width * layout->bits, 8);
  if (layout->group == 0) return elements;
  return elements + ceil_div(width, layout->group) * layout->scale_bytes;
}

enum kc_math kc_weight_math(enum kc_weight_format format)
{
  return weight_known(format) ? weight_layouts[format].math : KC_MATH_BF16;
}

const char *kc_weight_format_name(enum kc_weight_format format)
{
  return weight_known(format) ? weight_layouts[format].name : "?";
}

bool kc_weight_format_parse(const char *name, enum kc_weight_format *out)
{
  for (int i = 0; i < KC_WEIGHT_FORMATS; i++) {
    if (strcmp(name, weight_layouts[i].name) != 0) continue;
    *out = (enum kc_weight_format)i;
    return true;
  }
  return false;
}

const char *kc_kv_format_name(enum kc_kv_format format)
{
  return kv_known(format) ? kv_layouts[format].name : "?";
}

bool kc_kv_format_parse(const char *name, enum kc_kv_format *out)
{
  for (int i = 0; i < KC_KV_FORMATS; i++) {
    if (strcmp(name, kv_layouts[i].name) != 0) continue;
    *out = (enum kc_kv_format)i;
    return true;
  }
  return false;
}

/* The two lists are written out so that messages need no buffer; a test compares them with the
 * tables. */
const char *kc_weight_format_names(void)
{
  return "checkpoint, none, bf16, fp16, fp32, fp8, fp8-block, int8, int4-g32, int4-g64, int4-g128, "
         "mxfp4, nvfp4";
}

const char *kc_kv_format_names(void)
{
  return "bf16, fp8-e4m3, fp8-g128, int8, fp4";
}
