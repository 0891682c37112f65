/* Pages of KV: reading vectors out, writing tokens in, checking tags.
 *
 *   table row   [ (page 7, tag 3) | (page 2, tag 9) | ... ]       entry = position / page_tokens
 *   GQA page    [kv head][offset][head_dim]                       K and V in pools of their own
 *   MLA page    [offset][record]     record = latent, rope        or  codes, scales, rope (FP8)
 *
 * A read trusts the page id because the check has compared tags before; an id out of range (only
 * with integrity off) reads as zeros. A write compares again, for the pages may have been handed on
 * since: it carries the entry's (page, tag) and is refused if the pool's tag is another.
 */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref_internal.h"

/* ---- reading ---- */

static void decode_bf16(const uint8_t *from, uint32_t count, float *out)
{
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t code;
    memcpy(&code, from + 2 * i, sizeof code);
    out[i] = kc_bf16_decode(code);
  }
}

static void decode_e4m3(const uint8_t *from, uint32_t count, float scale, float *out)
{
  for (uint32_t i = 0; i < count; ++i) out[i] = kc_e4m3_decode(from[i]) * scale;
}

/* The first `dim` elements of a record: the latent, or the latent and the rope part. */
static void decode_record(const struct kc_kv_layer *layer, const uint8_t *record, uint32_t dim,
                          float *out)
{
  if (layer->k_format == KC_KV_BF16) {
    decode_bf16(record, dim, out);
    return;
  }
  const uint8_t *scales = record + layer->latent;
  for (uint32_t first = 0; first < layer->latent; first += 128) {
    float scale;
    memcpy(&scale, scales + first / 32, sizeof scale);
    decode_e4m3(record + first, 128, scale, out + first);
  }
  decode_bf16(scales + layer->latent / 32, dim - layer->latent, out + layer->latent);
}

/* Where a pool keeps vectors, and as what. */
struct vectors {
  const uint8_t *pool;
  uint64_t page_bytes;
  enum kc_kv_format format;
  const float *scale;
  uint32_t dim;
};

static void read_vector(const struct kc_kv_layer *layer, const struct vectors *v,
                        const struct kc_page_ref *row, uint32_t head, uint32_t token, float *out)
{
  const uint32_t id = row[token / layer->page_tokens].page, offset = token % layer->page_tokens;
  if (id >= layer->pages) {
    memset(out, 0, sizeof *out * v->dim);
    return;
  }
  const uint8_t *page = v->pool + id * v->page_bytes;
  const uint64_t at = ((uint64_t)head * layer->page_tokens + offset) * v->dim;
  if (layer->kind == KC_PAGED_MLA) {
    decode_record(layer, page + offset * kc_mla_record_bytes(layer), v->dim, out);
  } else if (v->format == KC_KV_BF16) {
    decode_bf16(page + 2 * at, v->dim, out);
  } else {
    decode_e4m3(page + at, v->dim, v->scale == NULL ? 1.0f : v->scale[head], out);
  }
}

void kc_ref_read_k(const struct kc_kv_layer *layer, const struct kc_page_ref *row, uint32_t head,
                   uint32_t start, uint32_t count, float *out)
{
  const struct vectors k = {layer->k, layer->k_page_bytes, layer->k_format, layer->k_scale,
                            kc_kv_query_dim(layer)};
  float vector[KC_REF_DIM_MAX];
  if (count < KC_REF_TILE) memset(out, 0, sizeof *out * k.dim * KC_REF_TILE);
  for (uint32_t t = 0; t < count; ++t) {
    read_vector(layer, &k, row, head, start + t, vector);
    for (uint32_t i = 0; i < k.dim; ++i) out[i * KC_REF_TILE + t] = vector[i];
  }
}

void kc_ref_read_v(const struct kc_kv_layer *layer, const struct kc_page_ref *row, uint32_t head,
                   uint32_t start, uint32_t count, float *out)
{
  const bool mla = layer->kind == KC_PAGED_MLA;
  const struct vectors v = {mla ? layer->k : layer->v,
                            mla ? layer->k_page_bytes : layer->v_page_bytes, layer->v_format,
                            layer->v_scale, kc_kv_value_dim(layer)};
  for (uint32_t t = 0; t < count; ++t) {
    read_vector(layer, &v, row, head, start + t, out + t * v.dim);
  }
}

/* ---- tags ---- */

/* Notes a bad entry: an event, and the slot's verdict. */
static void refuse(const struct kc_tag_state *integrity, uint32_t slot, uint32_t index,
                   struct kc_page_ref ref, enum kc_tag_source source)
{
  const uint64_t number = integrity->counter[KC_COUNT_EVENTS]++;
  if (number < integrity->ring_capacity) {
    integrity->ring[number] = (struct kc_tag_event){
        .step = integrity->step,
        .slot = slot,
        .index = index,
        .page = ref.page,
        .want = ref.tag,
        .got = ref.page < integrity->pages ? integrity->tag[ref.page] : 0,
        .source = source,
    };
  }
  if (index < integrity->verdict[slot]) integrity->verdict[slot] = index;
}

static bool entry_good(const struct kc_tag_state *integrity, struct kc_page_ref ref)
{
  return ref.page < integrity->pages && ref.tag != 0 && integrity->tag[ref.page] == ref.tag;
}

/* A sound entry may still be in the wrong place. */
static bool place_good(const struct kc_op_tag_check *op, uint32_t slot, uint32_t index,
                       uint32_t page)
{
  if (op->place == NULL || op->place[page] == 0) return true;
  return op->place[page] == KC_PAGE_PLACE(slot, index);
}

enum kc_op_status kc_ref_tag_check(void *context, const struct kc_op_tag_check *op)
{
  (void)context;
  if (!kc_op_tag_check_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const uint32_t slot = op->slot[row];
    if (slot == KC_NO_SLOT) continue;
    const struct kc_page_ref *entry = op->table.entry + (uint64_t)slot * op->table.stride;
    for (uint32_t i = 0; i < op->entries[row]; ++i) {
      if (!entry_good(&op->integrity, entry[i])) {
        refuse(&op->integrity, slot, i, entry[i], KC_TAG_CHECK);
      } else if (!place_good(op, slot, i, entry[i].page)) {
        refuse(&op->integrity, slot, i, entry[i], KC_TAG_PLACE);
      }
    }
    op->integrity.counter[KC_COUNT_ENTRIES] += op->entries[row];
  }
  op->integrity.counter[KC_COUNT_CHECKS] += 1;
  return KC_OP_OK;
}

/* ---- writing ---- */

static void store(uint8_t *tile, enum kc_kv_format format, uint64_t index, uint16_t code,
                  float scale)
{
  if (format == KC_KV_BF16) {
    memcpy(tile + 2 * index, &code, sizeof code);
  } else {
    tile[index] = kc_e4m3_encode(kc_bf16_decode(code) / scale);
  }
}

static void write_heads(const struct kc_kv_layer *layer, uint8_t *page, uint32_t offset,
                        enum kc_kv_format format, const float *scales, const uint16_t *x)
{
  for (uint32_t head = 0; head < layer->kv_heads; ++head) {
    const uint64_t at = ((uint64_t)head * layer->page_tokens + offset) * layer->head_dim;
    const float scale = scales == NULL ? 1.0f : scales[head];
    for (uint32_t i = 0; i < layer->head_dim; ++i) {
      store(page, format, at + i, x[head * layer->head_dim + i], scale);
    }
  }
}

static float group_amax(const uint16_t *x)
{
  float amax = 0.0f;
  for (uint32_t i = 0; i < 128; ++i) {
    const float magnitude = fabsf(kc_bf16_decode(x[i]));
    if (magnitude > amax) amax = magnitude;
  }
  return amax;
}

/* A record of FP8_G128: codes, scales, rope, zero padding. */
static void write_fp8_record(const struct kc_kv_layer *layer, uint8_t *record, const uint16_t *x)
{
  memset(record, 0, kc_mla_record_bytes(layer));
  uint8_t *scales = record + layer->latent;
  for (uint32_t group = 0; group < layer->latent / 128; ++group) {
    const float scale = kc_e4m3_group_scale(group_amax(x + 128 * group));
    memcpy(scales + 4ull * group, &scale, sizeof scale);
    for (uint32_t i = 128 * group; i < 128 * (group + 1); ++i) {
      record[i] = kc_e4m3_encode(kc_bf16_decode(x[i]) / scale);
    }
  }
  memcpy(scales + 4ull * (layer->latent / 128), x + layer->latent, 2ull * layer->rope);
}

static void write_token(const struct kc_op_kv_write *op, uint32_t row, uint32_t page)
{
  const struct kc_kv_layer *layer = &op->layer;
  const uint32_t offset = (uint32_t)op->position[row] % layer->page_tokens;
  const uint16_t *k = op->k + row * op->k_stride;
  uint8_t *k_page = layer->k + page * layer->k_page_bytes;
  if (layer->kind == KC_PAGED_MLA) {
    uint8_t *record = k_page + offset * kc_mla_record_bytes(layer);
    if (layer->k_format == KC_KV_BF16) {
      memcpy(record, k, 2ull * (layer->latent + layer->rope));
    } else {
      write_fp8_record(layer, record, k);
    }
    return;
  }
  const uint16_t *v = op->v + row * op->v_stride;
  write_heads(layer, k_page, offset, layer->k_format, layer->k_scale, k);
  write_heads(layer, layer->v + page * layer->v_page_bytes, offset, layer->v_format,
              layer->v_scale, v);
}

/* False: the token must not be written; with tags, the refusal is noted. */
static bool write_allowed(const struct kc_op_kv_write *op, uint32_t slot, uint32_t index,
                          struct kc_page_ref ref)
{
  const struct kc_tag_state *integrity = &op->integrity;
  if (integrity->tag == NULL) return ref.page < op->layer.pages;
  const bool clear = integrity->verdict[slot] == KC_VERDICT_CLEAR;
  if (clear && entry_good(integrity, ref)) return true;
  if (clear) refuse(integrity, slot, index, ref, KC_TAG_WRITE);
  integrity->counter[KC_COUNT_WRITES_REFUSED] += 1;
  return false;
}

enum kc_op_status kc_ref_kv_write(void *context, const struct kc_op_kv_write *op)
{
  (void)context;
  if (!kc_op_kv_write_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const uint32_t slot = op->slot[row];
    if (slot == KC_NO_SLOT || op->position[row] < 0) continue;
    const uint32_t index = (uint32_t)op->position[row] / op->layer.page_tokens;
    if (index >= op->table.stride) continue;
    const struct kc_page_ref ref = op->table.entry[(uint64_t)slot * op->table.stride + index];
    if (!write_allowed(op, slot, index, ref)) continue;
    write_token(op, row, ref.page);
    if (op->integrity.tag != NULL) op->integrity.counter[KC_COUNT_WRITES] += 1;
  }
  return KC_OP_OK;
}
