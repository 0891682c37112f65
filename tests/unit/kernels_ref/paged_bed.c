/* The paged cache under test: drawing it, writing it page by page, and attention without pages. */
#include "paged_bed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_check.h"
#include "kernels/ref/ref.h"
#include "op_random.h"

/* What the cache's format makes of a vector: `dim` elements, scales as the contract says. */
static void kept(const struct paged_bed *bed, enum kc_kv_format format, float scale,
                 const uint16_t *x, uint32_t dim, double *out)
{
  for (uint32_t i = 0; i < dim; ++i) out[i] = value_of(x[i]);
  if (format == KC_KV_BF16) return;
  for (uint32_t i = 0; i < dim; ++i) {
    if (format == KC_KV_FP8_G128) {
      if (i >= bed->shape.latent) return;
      float amax = 0.0f;
      for (uint32_t j = i / 128 * 128; j < i / 128 * 128 + 128; ++j) {
        amax = fmaxf(amax, fabsf((float)value_of(x[j])));
      }
      scale = 0x1p-60f;
      while (448.0f * scale < amax) scale *= 2.0f;
    }
    out[i] = (double)(kc_e4m3_decode(kc_e4m3_encode((float)value_of(x[i]) / scale)) * scale);
  }
}

static void draw_logical(struct paged_bed *bed, uint64_t *seed)
{
  const struct paged_shape *s = &bed->shape;
  const size_t vectors = (size_t)s->slots * s->context_max * s->kv_heads;
  bed->k_input = take_bf16(vectors * bed->q_dim, seed, 1.0);
  bed->v_input = take_bf16(vectors * bed->v_dim, seed, 1.0);
  bed->k = take(vectors * bed->q_dim * sizeof *bed->k);
  bed->v = take(vectors * bed->v_dim * sizeof *bed->v);
  bed->k_scale = take(s->kv_heads * sizeof *bed->k_scale);
  bed->v_scale = take(s->kv_heads * sizeof *bed->v_scale);
  for (uint32_t h = 0; h < s->kv_heads; ++h) { /* no two alike, so that a swap shows */
    bed->k_scale[h] = 0.011f * (float)(h + 1);
    bed->v_scale[h] = 0.017f * (float)(h + 2);
  }
  for (size_t i = 0; i < vectors; ++i) {
    const size_t h = i % s->kv_heads;
    kept(bed, s->k_format, bed->k_scale[h], bed->k_input + i * bed->q_dim, bed->q_dim,
         bed->k + i * bed->q_dim);
    if (s->kind == KC_PAGED_MLA) {
      memcpy(bed->v + i * bed->v_dim, bed->k + i * bed->q_dim, bed->v_dim * sizeof *bed->v);
    } else {
      kept(bed, s->v_format, bed->v_scale[h], bed->v_input + i * bed->v_dim, bed->v_dim,
           bed->v + i * bed->v_dim);
    }
  }
}

/* Deals shuffled pages to the slots; entries behind a context are out of range. */
static void deal_pages(struct paged_bed *bed, uint64_t *seed)
{
  const uint32_t pages = bed->layer.pages;
  uint32_t *order = take(pages * sizeof *order), next = 0;
  for (uint32_t i = 0; i < pages; ++i) {
    order[i] = i;
    bed->tag[i] = 1 + draw_below(seed, 1000000);
  }
  for (uint32_t i = pages - 1; i > 0; --i) {
    const uint32_t j = draw_below(seed, i + 1), kept_page = order[i];
    order[i] = order[j];
    order[j] = kept_page;
  }
  for (uint32_t slot = 0; slot < bed->shape.slots; ++slot) {
    const uint32_t tokens = bed->shape.page_tokens;
    const uint32_t used = (bed->context[slot] + tokens - 1) / tokens;
    for (uint32_t e = 0; e < bed->row_entries; ++e) {
      struct kc_page_ref *ref = &bed->entry[slot * bed->row_entries + e];
      *ref = (struct kc_page_ref){2147480000u, 77};
      if (e < used) *ref = (struct kc_page_ref){order[next], bed->tag[order[next]]}, ++next;
    }
  }
  free(order);
}

static void make_layer(struct paged_bed *bed)
{
  const struct paged_shape *s = &bed->shape;
  bed->layer = (struct kc_kv_layer){
      .kind = s->kind,
      .k_format = s->k_format,
      .v_format = s->v_format,
      .pages = s->slots * bed->row_entries + 3,
      .page_tokens = s->page_tokens,
      .kv_heads = s->kv_heads,
      .head_dim = s->head_dim,
      .latent = s->latent,
      .rope = s->rope,
      .k_scale = bed->k_scale,
      .v_scale = bed->v_scale,
  };
  bed->layer.k_page_bytes = kc_kv_page_bytes_k(&bed->layer) + 48; /* pools may have gaps */
  bed->layer.v_page_bytes = kc_kv_page_bytes_v(&bed->layer) + 16;
  bed->layer.k = take(bed->layer.pages * bed->layer.k_page_bytes);
  bed->layer.v = take(bed->layer.pages * bed->layer.v_page_bytes);
  memset(bed->layer.k, 0xFF, bed->layer.pages * bed->layer.k_page_bytes);
  memset(bed->layer.v, 0xFF, bed->layer.pages * bed->layer.v_page_bytes);
}

void paged_bed_make(struct paged_bed *bed, const struct paged_shape *shape, uint64_t seed)
{
  memset(bed, 0, sizeof *bed);
  bed->shape = *shape;
  const bool mla = shape->kind == KC_PAGED_MLA;
  bed->q_heads = shape->kv_heads * shape->group;
  bed->q_dim = mla ? shape->latent + shape->rope : shape->head_dim;
  bed->v_dim = mla ? shape->latent : shape->head_dim;
  bed->row_entries = (shape->context_max + shape->page_tokens - 1) / shape->page_tokens + 1;
  draw_logical(bed, &seed);
  make_layer(bed);
  bed->entry = take(shape->slots * bed->row_entries * sizeof *bed->entry);
  bed->tag = take(bed->layer.pages * sizeof *bed->tag);
  bed->verdict = take(shape->slots * sizeof *bed->verdict);
  bed->context = take(shape->slots * sizeof *bed->context);
  for (uint32_t slot = 0; slot < shape->slots; ++slot) {
    bed->verdict[slot] = KC_VERDICT_CLEAR;
    bed->context[slot] = 1 + draw_below(&seed, shape->context_max);
  }
  deal_pages(bed, &seed);
  bed->table = (struct kc_page_table){bed->entry, shape->slots, bed->row_entries};
  bed->integrity = (struct kc_tag_state){bed->tag, bed->verdict, bed->counter, bed->ring, 64,
                                         bed->layer.pages, 9};
  for (uint32_t slot = 0; slot < shape->slots; ++slot) {
    assert_int_equal(paged_bed_write(bed, slot, 0, bed->context[slot]), KC_OP_OK);
  }
}

void paged_bed_free(struct paged_bed *bed)
{
  free(bed->k_input), free(bed->v_input), free(bed->k), free(bed->v);
  free(bed->k_scale), free(bed->v_scale), free(bed->layer.k), free(bed->layer.v);
  free(bed->entry), free(bed->tag), free(bed->verdict), free(bed->context);
}

enum kc_op_status paged_bed_write(struct paged_bed *bed, uint32_t slot, uint32_t start,
                                  uint32_t count)
{
  uint32_t *slots = take(count * sizeof *slots);
  int32_t *position = take(count * sizeof *position);
  for (uint32_t i = 0; i < count; ++i) {
    slots[i] = slot;
    position[i] = (int32_t)(start + i);
  }
  const uint64_t k_width = (uint64_t)bed->shape.kv_heads * bed->q_dim;
  const uint64_t v_width = (uint64_t)bed->shape.kv_heads * bed->v_dim;
  const uint64_t token = (uint64_t)slot * bed->shape.context_max + start;
  const struct kc_op_kv_write write = {
      .rows = count,
      .k = bed->k_input + token * k_width,
      .k_stride = k_width,
      .v = bed->v_input + token * v_width,
      .v_stride = v_width,
      .slot = slots,
      .position = position,
      .table = bed->table,
      .layer = bed->layer,
      .integrity = bed->integrity,
  };
  const enum kc_op_status status = kc_ref_ops()->kv_write(NULL, &write);
  free(slots);
  free(position);
  return status;
}

void paged_bed_naive(const struct paged_bed *bed, uint32_t slot, uint32_t context, uint32_t q_head,
                     const uint16_t *q, double scale, double *out, double *lse)
{
  const uint32_t heads = bed->shape.kv_heads, head = q_head / bed->shape.group;
  double *score = take((context + 1) * sizeof *score);
  double max = -(double)INFINITY, sum = 0.0;
  for (uint32_t t = 0; t < context; ++t) {
    const double *k =
        bed->k + (((size_t)slot * bed->shape.context_max + t) * heads + head) * bed->q_dim;
    for (uint32_t i = 0; i < bed->q_dim; ++i) score[t] += value_of(q[i]) * k[i];
    score[t] *= scale;
    max = fmax(max, score[t]);
  }
  for (uint32_t t = 0; t < context; ++t) sum += exp(score[t] - max);
  for (uint32_t i = 0; i < bed->v_dim; ++i) out[i] = 0.0;
  for (uint32_t t = 0; t < context; ++t) {
    const double *v =
        bed->v + (((size_t)slot * bed->shape.context_max + t) * heads + head) * bed->v_dim;
    for (uint32_t i = 0; i < bed->v_dim; ++i) out[i] += exp(score[t] - max) / sum * v[i];
  }
  if (lse != NULL) *lse = max + log(sum);
  free(score);
}
