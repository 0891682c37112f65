/* The lab: see emu_support.h. */
#include "emu_support.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"
#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_check.h"
#include "kernels/ref/ref.h"

/* Of the emulated kernels. */
enum kc_op_status kc_gpu_read_stream(void *context, const void *from, uint64_t bytes,
                                     uint32_t *sum);

uint64_t lab_seeds(void)
{
  const char *wanted = getenv("KVCAP_LAB_SEEDS");
  const uint64_t seeds = wanted != NULL ? strtoull(wanted, NULL, 10) : 0;
  return seeds > 0 ? seeds : LAB_SEEDS;
}

uint32_t lab_scale(void)
{
  const char *wanted = getenv("KVCAP_LAB_SCALE");
  const uint64_t scale = wanted != NULL ? strtoull(wanted, NULL, 10) : 1;
  return scale < 1 ? 1 : scale > 64 ? 64 : (uint32_t)scale;
}

/* The device of KVCAP_LAB_MODULE; nothing without. The library stays open. */
static void open_module(struct lab *lab)
{
  char why[200] = "";
  const char *path = getenv("KVCAP_LAB_MODULE");
  const struct kc_module *(*table)(void) = NULL;
  if (path == NULL || path[0] == '\0') return;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library != NULL ? dlsym(library, KC_MODULE_SYMBOL) : NULL;
  if (symbol == NULL) fail_msg("%s", dlerror());
  memcpy(&table, &symbol, sizeof table);
  lab->module = table();
  assert_int_equal(lab->module->version, KC_MODULE_VERSION);
  lab->under_test = lab->module->ops;
  if (lab->module->create(0, &lab->context, why, sizeof why) != KC_OP_OK) fail_msg("%s", why);
}

enum kc_op_status lab_wait(struct lab *lab, enum kc_op_status status)
{
  if (status != KC_OP_OK || lab->module == NULL) return status;
  return lab->under_test->synchronise(lab->context);
}

enum kc_op_status lab_read_stream(struct lab *lab, const void *from, uint64_t bytes, uint32_t *sum)
{
  if (lab->module == NULL) return kc_gpu_read_stream(lab->context, from, bytes, sum);
  return lab_wait(lab, lab->module->read_stream(lab->context, from, bytes, sum));
}

void lab_begin(struct lab *lab, uint64_t seed)
{
  memset(lab, 0, sizeof *lab);
  lab->seed = seed;
  kc_random_init(&lab->random, seed, "lab", 0);
  lab->oracle = kc_ref_ops();
  open_module(lab);
  if (lab->module != NULL) return;
  lab->context = kc_emu_create(seed);
  assert_non_null(lab->context);
  lab->under_test = kc_emu_ops();
}

void lab_end(struct lab *lab)
{
  for (size_t i = 0; i < lab->taken_count; ++i) {
    if (lab->module != NULL) lab->module->pinned_release(lab->context, lab->taken[i]);
    else lab->under_test->release(lab->context, lab->taken[i]);
  }
  if (lab->module != NULL) lab->module->destroy(lab->context);
  else kc_emu_destroy(lab->context);
}

void *lab_take(struct lab *lab, uint64_t bytes)
{
  void *memory = lab->module != NULL ? lab->module->pinned_allocate(lab->context, bytes)
                                     : lab->under_test->allocate(lab->context, bytes);
  if (memory != NULL && lab->module != NULL) memset(memory, 0xff, bytes);
  assert_non_null(memory);
  assert_true(lab->taken_count < LAB_TAKEN_MAX);
  lab->taken[lab->taken_count++] = memory;
  return memory;
}

uint32_t lab_below(struct lab *lab, uint32_t bound)
{
  return (uint32_t)kc_random_below(&lab->random, bound);
}

uint32_t lab_between(struct lab *lab, uint32_t low, uint32_t high)
{
  return low + lab_below(lab, high - low + 1);
}

float lab_normal(struct lab *lab)
{
  return kc_counter_normal(kc_random_u64(&lab->random), 0, 0);
}

uint16_t *lab_bf16(struct lab *lab, uint64_t count, float deviation)
{
  uint16_t *data = lab_take(lab, count * sizeof *data);
  for (uint64_t i = 0; i < count; ++i) data[i] = kc_bf16_encode(deviation * lab_normal(lab));
  return data;
}

uint8_t *lab_e4m3(struct lab *lab, uint64_t count)
{
  uint8_t *data = lab_take(lab, count);
  for (uint64_t i = 0; i < count; ++i) data[i] = kc_e4m3_encode(2.0f * lab_normal(lab));
  return data;
}

float *lab_f32(struct lab *lab, uint64_t count, float deviation)
{
  float *data = lab_take(lab, count * sizeof *data);
  for (uint64_t i = 0; i < count; ++i) data[i] = deviation * lab_normal(lab);
  return data;
}

void lab_fail(struct lab *lab, const char *format, ...)
{
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const uint64_t seed = lab->seed;
  lab_end(lab);
  fail_msg("seed %llu: %s", (unsigned long long)seed, text);
}

void lab_expect(struct lab *lab, enum kc_op_status status, const char *what)
{
  if (status == KC_OP_OK) return;
  lab_fail(lab, "%s: status %d: %s", what, (int)status, lab->under_test->error(lab->context));
}

struct distance {
  double error, power, most;
  uint64_t at;
};

static void add(struct distance *d, uint64_t index, double got, double want)
{
  const double difference = fabs(got - want);
  d->error += difference * difference;
  d->power += want * want;
  if (!(difference <= d->most)) { /* a NaN counts as the greatest */
    d->most = difference == difference ? difference : (double)INFINITY;
    d->at = index;
  }
}

static void judge(struct lab *lab, const char *what, const struct distance *d,
                  const struct lab_matrix *shape)
{
  const double nmse = d->power > 0 ? d->error / d->power : d->error;
  const bool close = nmse <= shape->nmse && (shape->absolute == 0 || d->most <= shape->absolute);
  if (close) return;
  lab_fail(lab, "%s: nmse %.3g (at most %.3g), largest difference %.3g (at most %.3g) at row %llu, "
           "column %llu", what, nmse, shape->nmse, d->most, shape->absolute,
           (unsigned long long)(d->at / shape->width), (unsigned long long)(d->at % shape->width));
}

void lab_close_bf16(struct lab *lab, const char *what, const uint16_t *got, const uint16_t *want,
                    const struct lab_matrix *shape)
{
  struct distance d = {0, 0, 0, 0};
  for (uint64_t i = 0; i < shape->rows * shape->width; ++i) {
    const uint64_t at = i / shape->width * shape->stride + i % shape->width;
    add(&d, i, (double)kc_bf16_decode(got[at]), (double)kc_bf16_decode(want[at]));
  }
  judge(lab, what, &d, shape);
}

void lab_close_f32(struct lab *lab, const char *what, const float *got, const float *want,
                   const struct lab_matrix *shape)
{
  struct distance d = {0, 0, 0, 0};
  for (uint64_t i = 0; i < shape->rows * shape->width; ++i) {
    const uint64_t at = i / shape->width * shape->stride + i % shape->width;
    if (got[at] == want[at]) continue; /* infinities of one sign, too */
    add(&d, i, (double)got[at], (double)want[at]);
  }
  judge(lab, what, &d, shape);
}

void lab_same(struct lab *lab, const char *what, const void *got, const void *want, size_t bytes)
{
  const unsigned char *a = got, *b = want;
  for (size_t i = 0; i < bytes; ++i) {
    if (a[i] == b[i]) continue;
    lab_fail(lab, "%s: byte %zu of %zu is %02x, not %02x", what, i, bytes, a[i], b[i]);
  }
}

/* ---- a paged cache ---- */

enum { NO_PAGE = 2147480000 };

static void make_integrity(struct lab *lab, struct lab_cache *cache)
{
  struct kc_tag_state *integrity = &cache->integrity;
  integrity->tag = cache->tag;
  integrity->verdict = lab_take(lab, cache->slots * sizeof *integrity->verdict);
  integrity->counter = lab_take(lab, KC_TAG_COUNTERS * sizeof *integrity->counter);
  integrity->ring_capacity = 64;
  integrity->ring = lab_take(lab, integrity->ring_capacity * sizeof *integrity->ring);
  integrity->pages = cache->layer.pages;
  integrity->step = 7;
  memset(integrity->counter, 0, KC_TAG_COUNTERS * sizeof *integrity->counter);
}

static const float *make_scales(struct lab *lab, enum kc_kv_format format, uint32_t heads)
{
  if (format != KC_KV_FP8_E4M3 || lab_below(lab, 4) == 0) return NULL;
  float *scale = lab_take(lab, heads * sizeof *scale);
  for (uint32_t i = 0; i < heads; ++i) scale[i] = 0.05f + 0.01f * (float)lab_below(lab, 50);
  return scale;
}

static void shuffle_pages(struct lab *lab, struct lab_cache *cache)
{
  const uint32_t pages = cache->layer.pages;
  for (uint32_t i = 0; i < pages; ++i) cache->page_order[i] = i;
  for (uint32_t i = pages - 1; i > 0; --i) {
    const uint32_t j = lab_below(lab, i + 1), page = cache->page_order[i];
    cache->page_order[i] = cache->page_order[j];
    cache->page_order[j] = page;
  }
}

void lab_cache_make(struct lab *lab, struct lab_cache *cache, const struct lab_cache_shape *shape)
{
  memset(cache, 0, sizeof *cache);
  struct kc_kv_layer *layer = &cache->layer;
  *layer = (struct kc_kv_layer){.kind = shape->kind,
                                .k_format = shape->k_format,
                                .v_format = shape->v_format,
                                .pages = shape->pages,
                                .page_tokens = shape->page_tokens,
                                .kv_heads = shape->kv_heads,
                                .head_dim = shape->head_dim,
                                .latent = shape->latent,
                                .rope = shape->rope};
  layer->k_page_bytes = kc_kv_page_bytes_k(layer) + 16 * lab_below(lab, 3);
  layer->k = lab_take(lab, layer->k_page_bytes * shape->pages);
  if (shape->kind == KC_PAGED_GQA) {
    layer->v_page_bytes = kc_kv_page_bytes_v(layer) + 16 * lab_below(lab, 3);
    layer->v = lab_take(lab, layer->v_page_bytes * shape->pages);
    layer->k_scale = make_scales(lab, shape->k_format, shape->kv_heads);
    layer->v_scale = make_scales(lab, shape->v_format, shape->kv_heads);
  }
  cache->slots = shape->slots;
  cache->table.slots = shape->slots;
  cache->table.stride = (shape->context_max + shape->page_tokens - 1) / shape->page_tokens + 1;
  const uint32_t entries = cache->table.stride * shape->slots;
  cache->entry = lab_take(lab, entries * sizeof *cache->entry);
  for (uint32_t i = 0; i < entries; ++i) cache->entry[i].page = NO_PAGE;
  cache->table.entry = cache->entry;
  cache->free_pages = shape->pages;
  cache->page_order = lab_take(lab, shape->pages * sizeof *cache->page_order);
  shuffle_pages(lab, cache);
  cache->tag = lab_take(lab, shape->pages * sizeof *cache->tag);
  for (uint32_t i = 0; i < shape->pages; ++i) cache->tag[i] = lab_between(lab, 1, 1000000);
  make_integrity(lab, cache);
}

void lab_cache_grant(struct lab *lab, struct lab_cache *cache, uint32_t slot, uint32_t context)
{
  const uint32_t page_tokens = cache->layer.page_tokens;
  struct kc_page_ref *row = cache->entry + (uint64_t)slot * cache->table.stride;
  (void)lab;
  for (uint32_t i = 0; i * page_tokens < context; ++i) {
    assert_true(cache->free_pages > 0 && i < cache->table.stride);
    const uint32_t page = cache->page_order[--cache->free_pages];
    row[i] = (struct kc_page_ref){page, cache->tag[page]};
  }
}

/* One element; its value. */
static float put(struct lab *lab, uint8_t *tile, enum kc_kv_format format, uint64_t index,
                 float scale)
{
  const float x = lab_normal(lab);
  if (format == KC_KV_BF16) {
    const uint16_t code = kc_bf16_encode(x);
    memcpy(tile + 2 * index, &code, sizeof code);
    return kc_bf16_decode(code);
  }
  tile[index] = kc_e4m3_encode(x / scale);
  return kc_e4m3_decode(tile[index]) * scale;
}

static float fill_heads(struct lab *lab, const struct kc_kv_layer *layer, uint8_t *page,
                        enum kc_kv_format format, const float *scales, uint32_t offset)
{
  float most = 0.0f;
  for (uint32_t head = 0; head < layer->kv_heads; ++head) {
    const uint64_t at = ((uint64_t)head * layer->page_tokens + offset) * layer->head_dim;
    for (uint32_t i = 0; i < layer->head_dim; ++i) {
      const float scale = scales == NULL ? 1.0f : scales[head];
      most = fmaxf(most, fabsf(put(lab, page, format, at + i, scale)));
    }
  }
  return most;
}

static float fill_record(struct lab *lab, const struct kc_kv_layer *layer, uint8_t *record)
{
  const bool fp8 = layer->k_format != KC_KV_BF16;
  uint8_t *rope = record + 2ull * layer->latent;
  float most = 0.0f, scale = 1.0f;
  if (fp8) rope = record + layer->latent + 4ull * (layer->latent / 128);
  for (uint32_t i = 0; i < layer->latent; ++i) {
    if (fp8 && i % 128 == 0) {
      scale = ldexpf(1.0f, (int)lab_below(lab, 7) - 9);
      memcpy(record + layer->latent + 4ull * (i / 128), &scale, sizeof scale);
    }
    most = fmaxf(most, fabsf(put(lab, record, layer->k_format, i, scale)));
  }
  for (uint32_t i = 0; i < layer->rope; ++i) (void)put(lab, rope, KC_KV_BF16, i, 1.0f);
  return most;
}

void lab_cache_fill(struct lab *lab, struct lab_cache *cache, uint32_t slot, uint32_t context)
{
  const struct kc_kv_layer *layer = &cache->layer;
  lab_cache_grant(lab, cache, slot, context);
  for (uint32_t token = 0; token < context; ++token) {
    const uint64_t page =
        cache->entry[(uint64_t)slot * cache->table.stride + token / layer->page_tokens].page;
    const uint32_t offset = token % layer->page_tokens;
    uint8_t *k_page = layer->k + page * layer->k_page_bytes;
    float most;
    if (layer->kind == KC_PAGED_MLA) {
      most = fill_record(lab, layer, k_page + offset * kc_mla_record_bytes(layer));
    } else {
      (void)fill_heads(lab, layer, k_page, layer->k_format, layer->k_scale, offset);
      most = fill_heads(lab, layer, layer->v + page * layer->v_page_bytes, layer->v_format,
                        layer->v_scale, offset);
    }
    cache->v_most = fmaxf(cache->v_most, most);
  }
}
