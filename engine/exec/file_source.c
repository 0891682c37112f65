/* Tensors of a checkpoint as a source of weights: found by name, checked against the shape that the
 * recipe expects, converted to bf16.
 *
 *   "X.weight"   BF16, F16, F32                           -> bf16, roundings counted
 *                F8_E4M3 with "X.weight_scale_inv"        -> code * scale of its 128 x 128 block
 *   absent       "X.weight_packed", "X.weight_scale"      -> compressed-tensors
 *                "X.qweight", "X.qzeros", "X.scales"      -> GPTQ or AWQ, told apart by the shape
 *
 * What leaves here is finite: one NaN would make every logit one, and no answer would say so.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/safetensors.h"
#include "engine/exec/weights.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/fp16.h"
#include "kernels/formats/packing.h"

enum { NAME_BYTES = 224 };

static const struct kc_st_tensor *find(const struct kc_file_source *source, const char *name)
{
  char longer[NAME_BYTES + 32];
  size_t count;
  const struct kc_st_tensor *tensor = kc_safetensors_find(source->files, name);
  KC_ASSERT(strlen(name) < NAME_BYTES);
  if (tensor == NULL) {
    (void)snprintf(longer, sizeof longer, "language_model.%s", name);
    tensor = kc_safetensors_find(source->files, longer);
  }
  if (tensor != NULL && source->used != NULL) {
    source->used[tensor - kc_safetensors_list(source->files, &count)] = 1;
  }
  return tensor;
}

/* "X.weight" -> "X" + suffix. */
static const struct kc_st_tensor *find_beside(const struct kc_file_source *source,
                                              const char *name, const char *suffix)
{
  char other[NAME_BYTES];
  const size_t length = strlen(name), tail = strlen(".weight");
  KC_ASSERT(suffix[0] == '.');
  if (length < tail || strcmp(name + length - tail, ".weight") != 0) return NULL;
  const int written =
      snprintf(other, sizeof other, "%.*s%s", (int)(length - tail), name, suffix);
  return written > 0 && (size_t)written < sizeof other ? find(source, other) : NULL;
}

static enum kc_err fail(struct kc_diag *diag, const struct kc_st_tensor *tensor, const char *what)
{
  KC_ASSERT(tensor != NULL);
  return kc_fail_at(diag, KC_ERR_INPUT, tensor->path, 0, 0, "tensor \"%.120s\" %s", tensor->name,
                    what);
}

/* What was read of `tensor`, or of its scales, in bf16. An F32 or F16 may round to an infinity. */
static enum kc_err check_finite(const struct kc_st_tensor *tensor, const uint16_t *code,
                                uint64_t count, struct kc_diag *diag)
{
  uint64_t i = 0;
  KC_ASSERT(count > 0);
  while (i < count && kc_bf16_is_finite(code[i])) i++;
  if (i == count) return KC_OK;
  return fail(diag, tensor, "holds NaN, an infinity or what bf16 has no number for: such weights "
              "compute nothing");
}

/* ---- plain tensors ---- */

static float plain_value(const struct kc_st_tensor *tensor, uint64_t i)
{
  uint16_t half;
  float f32;
  if (tensor->type == KC_ST_F32) {
    memcpy(&f32, tensor->data + 4 * i, sizeof f32);
    return f32;
  }
  memcpy(&half, tensor->data + 2 * i, sizeof half);
  return tensor->type == KC_ST_BF16 ? kc_bf16_decode(half) : kc_f16_decode(half);
}

static bool is_plain(const struct kc_st_tensor *tensor)
{
  return tensor->type == KC_ST_BF16 || tensor->type == KC_ST_F16 || tensor->type == KC_ST_F32;
}

static bool shape_is(const struct kc_st_tensor *tensor, uint64_t rows, uint64_t cols)
{
  if (tensor->dims == 1) return rows == 1 && tensor->shape[0] == cols;
  return tensor->dims == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
}

static enum kc_err read_plain(struct kc_file_source *source, const struct kc_st_tensor *tensor,
                              uint16_t *out, struct kc_diag *diag)
{
  KC_ASSERT(is_plain(tensor));
  for (uint64_t i = 0; i < tensor->elements; i++) {
    const float value = plain_value(tensor, i);
    out[i] = kc_bf16_encode(value);
    if (tensor->type != KC_ST_BF16 && kc_bf16_decode(out[i]) != value) source->rounded++;
  }
  return check_finite(tensor, out, tensor->elements, diag);
}

static enum kc_err read_fp8(struct kc_file_source *source, const struct kc_st_tensor *tensor,
                            const char *name, uint16_t *out, struct kc_diag *diag)
{
  const struct kc_st_tensor *scale = find_beside(source, name, ".weight_scale_inv");
  const uint64_t cols = tensor->shape[tensor->dims - 1], rows = tensor->elements / cols;
  const uint64_t across = (cols + 127) / 128, down = (rows + 127) / 128;
  KC_ASSERT(tensor->dims == 2);
  if (scale == NULL || scale->type != KC_ST_F32 || !shape_is(scale, down, across)) {
    return fail(diag, tensor, "is FP8 and has no F32 weight_scale_inv for each 128 x 128 block");
  }
  for (uint64_t i = 0; i < tensor->elements; i++) {
    const float s = plain_value(scale, i / cols / 128 * across + i % cols / 128);
    const float value = kc_e4m3_decode(tensor->data[i]) * s;
    out[i] = kc_bf16_encode(value);
    if (kc_bf16_decode(out[i]) != value) source->rounded++;
  }
  return check_finite(tensor, out, tensor->elements, diag);
}

/* ---- packed tensors ---- */

static void set_array(const struct kc_st_tensor *tensor, const void **data, uint64_t *bytes)
{
  *data = tensor == NULL ? NULL : tensor->data;
  *bytes = tensor == NULL ? 0 : tensor->bytes;
}

/* Fills `packed` where the module is there in packed form; *codes is then its main tensor. */
static bool find_packed(const struct kc_file_source *source, const char *name, uint64_t rows,
                        uint64_t cols, struct kc_packed *packed,
                        const struct kc_st_tensor **codes)
{
  const struct kc_st_tensor *main = find_beside(source, name, ".weight_packed");
  const bool compressed = main != NULL;
  if (!compressed) main = find_beside(source, name, ".qweight");
  if (main == NULL) return false;
  const struct kc_st_tensor *scales =
      find_beside(source, name, compressed ? ".weight_scale" : ".scales");
  *codes = main;
  *packed = (struct kc_packed){.rows = (uint32_t)rows, .cols = (uint32_t)cols};
  packed->packing = compressed                                 ? KC_PACKING_COMPRESSED_TENSORS
                    : main->dims == 2 && main->shape[0] == cols ? KC_PACKING_AWQ
                                                                : KC_PACKING_GPTQ;
  set_array(main, &packed->codes, &packed->codes_bytes);
  set_array(find_beside(source, name, compressed ? ".weight_zero_point" : ".qzeros"),
            &packed->zeros, &packed->zeros_bytes);
  set_array(scales, &packed->scales, &packed->scales_bytes);
  set_array(compressed ? NULL : find_beside(source, name, ".g_idx"), &packed->group_index,
            &packed->group_index_bytes);
  if (scales == NULL || scales->elements == 0 || !is_plain(scales)) return true;
  packed->scale_type = scales->type == KC_ST_BF16  ? KC_SCALE_BF16
                       : scales->type == KC_ST_F16 ? KC_SCALE_F16
                                                   : KC_SCALE_F32;
  packed->group = (uint32_t)(rows * cols / scales->elements);
  return true;
}

static enum kc_err packed_result(enum kc_packing_status status, const struct kc_st_tensor *codes,
                                 struct kc_diag *diag)
{
  char what[160];
  if (status == KC_PACKING_OK) return KC_OK;
  (void)snprintf(what, sizeof what, "cannot be unpacked: %s", kc_packing_status_text(status));
  return fail(diag, codes, what);
}

static enum kc_err read_int4(void *context, const char *name, uint64_t rows, uint64_t cols,
                             uint32_t group, uint8_t *codes, uint16_t *scales, bool *found,
                             struct kc_diag *diag)
{
  struct kc_file_source *source = context;
  const struct kc_st_tensor *main;
  struct kc_packed packed;
  uint64_t rounded = 0;
  KC_ASSERT(group > 0);
  *found = false;
  if (find(source, name) != NULL) return KC_OK;
  if (!find_packed(source, name, rows, cols, &packed, &main)) return KC_OK;
  if (packed.group != group) return KC_OK;
  const enum kc_packing_status status = kc_packing_read(&packed, codes, scales, &rounded);
  if (status == KC_PACKING_ASYMMETRIC) return KC_OK;
  KC_TRY(packed_result(status, main, diag));
  *found = true;
  source->scales_rounded += rounded;
  return check_finite(main, scales, rows * (cols / group), diag);
}

/* ---- the source ---- */

static enum kc_err missing(const struct kc_file_source *source, const char *name,
                           struct kc_diag *diag)
{
  size_t count;
  const struct kc_st_tensor *list = kc_safetensors_list(source->files, &count);
  KC_ASSERT(count > 0);
  return kc_fail_at(diag, KC_ERR_INPUT, list[0].path, 0, 0,
                    "and its shards hold no tensor \"%.120s\", plain or packed; is this the "
                    "checkpoint of the model's config.json?",
                    name);
}

static enum kc_err read_tensor(void *context, const char *name, uint64_t rows, uint64_t cols,
                               uint16_t *out, struct kc_diag *diag)
{
  struct kc_file_source *source = context;
  const struct kc_st_tensor *tensor = find(source, name), *main;
  struct kc_packed packed;
  KC_ASSERT(rows > 0 && cols > 0);
  if (tensor == NULL) {
    if (!find_packed(source, name, rows, cols, &packed, &main)) return missing(source, name, diag);
    source->unpacked++;
    KC_TRY(packed_result(kc_packing_read_bf16(&packed, out), main, diag));
    return check_finite(main, out, rows * cols, diag);
  }
  if (!shape_is(tensor, rows, cols)) {
    char what[96];
    (void)snprintf(what, sizeof what, "is not %llu x %llu, as config.json says",
                   (unsigned long long)rows, (unsigned long long)cols);
    return fail(diag, tensor, what);
  }
  if (is_plain(tensor)) return read_plain(source, tensor, out, diag);
  if (tensor->type == KC_ST_F8_E4M3 && tensor->dims == 2) {
    return read_fp8(source, tensor, name, out, diag);
  }
  return fail(diag, tensor, "has a dtype that is no weight: expected BF16, F16, F32 or F8_E4M3");
}

static enum kc_err read_vector(void *context, const char *name, uint64_t count, float *out,
                               struct kc_diag *diag)
{
  struct kc_file_source *source = context;
  const struct kc_st_tensor *tensor = find(source, name);
  KC_ASSERT(count > 0);
  if (tensor == NULL) return missing(source, name, diag);
  if (!is_plain(tensor) || !shape_is(tensor, 1, count)) {
    return fail(diag, tensor, "is no vector of the length that config.json says");
  }
  for (uint64_t i = 0; i < count; i++) {
    out[i] = plain_value(tensor, i);
    const uint16_t code = kc_bf16_encode(out[i]);
    KC_TRY(check_finite(tensor, &code, 1, diag));
  }
  return KC_OK;
}

struct kc_weight_source kc_safetensors_source(struct kc_file_source *source)
{
  KC_ASSERT(source->files != NULL);
  return (struct kc_weight_source){.context = source, .read = read_tensor, .read_f32 = read_vector,
                                   .read_int4 = read_int4};
}
