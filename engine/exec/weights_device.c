/* See weights_device.h. Set-up only: staging memory comes and goes with each matrix. */
#include "engine/exec/weights_device.h"

#include <stdlib.h>

#include "engine/base/check.h"
#include "engine/exec/weights.h"
#include "kernels/ops/op_check.h"

bool kc_weights_device_runs(enum kc_weight_format format)
{
  KC_ASSERT(format != KC_WEIGHT_DEFAULT);
  return format == KC_WEIGHT_BF16 || format == KC_WEIGHT_FP8 || kc_int4_group(format) != 0;
}

void kc_weights_device_layout(const struct kc_site *site, struct kc_weight *weight,
                              struct kc_quantised_sizes *sizes)
{
  uint64_t scale_bytes = 0;
  KC_ASSERT(!kc_site_is_host(site));
  if (kc_int4_group(weight->format) == 0) return;
  weight->layout = KC_LAYOUT_FRAGMENT;
  site->module->fragment_bytes(weight, &sizes->data_bytes, &scale_bytes);
  KC_ASSERT(scale_bytes % 2 == 0);
  sizes->scale_bf16_count = scale_bytes / 2;
}

/* ---- made there ---- */

enum kc_err kc_weights_synthesise(const struct kc_site *site, uint64_t seed, const char *name,
                                  uint64_t rows, uint64_t cols, uint16_t *out,
                                  struct kc_diag *diag)
{
  const struct kc_op_synthesise op = {.seed = seed, .stream = kc_synthetic_stream(name),
                                      .elements = rows * cols,
                                      .deviation = kc_synthetic_deviation(name, cols),
                                      .mean = kc_synthetic_mean(name), .out = out};
  KC_ASSERT(rows > 0 && out != NULL);
  const enum kc_op_status status = site->module->synthesise(site->context, &op);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "making weights", diag);
}

enum kc_err kc_weights_quantise(const struct kc_site *site, const struct kc_weight *weight,
                                const uint16_t *bf16, const struct kc_quantised *to,
                                struct kc_diag *diag)
{
  const struct kc_op_quantise_weight op = {.bf16 = bf16, .weight = *weight, .data = to->data,
                                           .scale_f32 = to->scale_f32,
                                           .scale_bf16 = to->scale_bf16};
  KC_ASSERT(bf16 != NULL && to->data != NULL);
  const enum kc_op_status status = site->module->quantise_weight(site->context, &op);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "quantising weights", diag);
}

/* ---- sent there ---- */

enum kc_err kc_weights_stage(struct kc_weights_staging *staging, const struct kc_weight *weight,
                             struct kc_diag *diag)
{
  struct kc_quantised_sizes *s = &staging->sizes;
  *staging = (struct kc_weights_staging){0};
  const bool known = kc_quantised_sizes(weight->format, weight->rows, weight->cols, s);
  KC_ASSERT(known);
  const size_t bytes = s->data_bytes + 4 * s->scale_f32_count + 2 * s->scale_bf16_count +
                       s->scale_u8_count;
  unsigned char *memory = malloc(bytes);
  if (memory == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a matrix on its way");
  staging->arrays.data = memory;
  memory += s->data_bytes; /* a multiple of 16 */
  staging->arrays.scale_f32 = (float *)(void *)memory;
  memory += 4 * s->scale_f32_count;
  staging->arrays.scale_bf16 = (uint16_t *)(void *)memory;
  staging->arrays.scale_u8 = memory + 2 * s->scale_bf16_count;
  return KC_OK;
}

void kc_weights_unstage(struct kc_weights_staging *staging)
{
  KC_ASSERT(staging != NULL);
  free(staging->arrays.data);
  *staging = (struct kc_weights_staging){0};
}

static enum kc_op_status send_rows(const struct kc_site *site,
                                   const struct kc_weights_staging *staging,
                                   const struct kc_quantised *to)
{
  const struct kc_quantised_sizes *s = &staging->sizes;
  const struct kc_quantised *from = &staging->arrays;
  enum kc_op_status status = kc_site_put(site, to->data, from->data, s->data_bytes);
  if (status == KC_OP_OK && s->scale_f32_count > 0) {
    status = kc_site_put(site, to->scale_f32, from->scale_f32, 4 * s->scale_f32_count);
  }
  if (status == KC_OP_OK && s->scale_u8_count > 0) {
    status = kc_site_put(site, to->scale_u8, from->scale_u8, s->scale_u8_count);
  }
  return status;
}

static enum kc_op_status send_fragments(const struct kc_site *site,
                                        const struct kc_weights_staging *staging,
                                        const struct kc_weight *weight,
                                        const struct kc_quantised *to)
{
  uint64_t data_bytes, scale_bytes;
  struct kc_weight rows = *weight;
  KC_ASSERT(weight->layout == KC_LAYOUT_FRAGMENT);
  rows.layout = KC_LAYOUT_ROWS;
  rows.data = staging->arrays.data;
  rows.scale_bf16 = staging->arrays.scale_bf16;
  site->module->fragment_bytes(&rows, &data_bytes, &scale_bytes);
  unsigned char *packed = malloc(data_bytes + scale_bytes);
  if (packed == NULL) return KC_OP_MEMORY;
  uint16_t *scales = (uint16_t *)(void *)(packed + data_bytes);
  site->module->fragment_pack(&rows, packed, scales);
  enum kc_op_status status = kc_site_put(site, to->data, packed, data_bytes);
  if (status == KC_OP_OK) status = kc_site_put(site, to->scale_bf16, scales, scale_bytes);
  free(packed);
  return status;
}

enum kc_err kc_weights_send(const struct kc_site *site, const struct kc_weights_staging *staging,
                            const struct kc_weight *weight, const struct kc_quantised *to,
                            struct kc_diag *diag)
{
  KC_ASSERT(!kc_site_is_host(site));
  const enum kc_op_status status = weight->layout == KC_LAYOUT_FRAGMENT
                                       ? send_fragments(site, staging, weight, to)
                                       : send_rows(site, staging, to);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "sending weights", diag);
}
