/* KV writes and the tag check in the emulator against the reference: the same bytes, the same
 * verdicts, the same counters, the same events in any order.
 * timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu_support.h"
#include "kernels/formats/bf16.h"
#include "kernels/ops/op_check.h"

enum { SLOTS = 6, CONTEXT_MAX = 150 };

static void draw_shape(struct lab *lab, struct lab_cache_shape *shape)
{
  *shape = (struct lab_cache_shape){.kind = lab_below(lab, 2) ? KC_PAGED_MLA : KC_PAGED_GQA,
                                    .slots = SLOTS,
                                    .page_tokens = 16u << lab_below(lab, 4),
                                    .context_max = CONTEXT_MAX,
                                    .kv_heads = 1};
  shape->pages = SLOTS * (CONTEXT_MAX / shape->page_tokens + 1) + 5;
  const bool fp8 = lab_below(lab, 2) != 0;
  if (shape->kind == KC_PAGED_MLA) {
    shape->k_format = fp8 ? KC_KV_FP8_G128 : KC_KV_BF16;
    shape->latent = fp8 ? 128 * lab_between(lab, 1, 4) : 16 * lab_between(lab, 1, 9);
    shape->rope = 16 * lab_between(lab, 1, 4);
  } else {
    shape->k_format = fp8 ? KC_KV_FP8_E4M3 : KC_KV_BF16;
    shape->v_format = lab_below(lab, 3) == 0 ? KC_KV_BF16 : shape->k_format;
    shape->kv_heads = lab_between(lab, 1, 4);
    shape->head_dim = 16 * lab_between(lab, 1, 8);
  }
}

/* A second copy of what an operation may change. */
struct twin {
  struct kc_kv_layer layer;
  struct kc_tag_state integrity;
};

static void *copy(struct lab *lab, const void *from, uint64_t bytes)
{
  return memcpy(lab_take(lab, bytes), from, bytes);
}

static struct twin make_twin(struct lab *lab, const struct lab_cache *cache)
{
  struct twin twin = {cache->layer, cache->integrity};
  const struct kc_kv_layer *layer = &cache->layer;
  twin.layer.k = copy(lab, layer->k, layer->k_page_bytes * layer->pages);
  if (layer->v != NULL) twin.layer.v = copy(lab, layer->v, layer->v_page_bytes * layer->pages);
  const struct kc_tag_state *integrity = &cache->integrity;
  twin.integrity.verdict = copy(lab, integrity->verdict, SLOTS * sizeof *integrity->verdict);
  twin.integrity.counter =
      copy(lab, integrity->counter, KC_TAG_COUNTERS * sizeof *integrity->counter);
  twin.integrity.ring =
      copy(lab, integrity->ring, integrity->ring_capacity * sizeof *integrity->ring);
  return twin;
}

static int by_entry(const void *a, const void *b)
{
  const struct kc_tag_event *x = a, *y = b;
  if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static void compare_integrity(struct lab *lab, struct kc_tag_state *got, struct kc_tag_state *want)
{
  lab_same(lab, "verdicts", got->verdict, want->verdict, SLOTS * sizeof *got->verdict);
  lab_same(lab, "counters", got->counter, want->counter, KC_TAG_COUNTERS * sizeof *got->counter);
  uint64_t events = got->counter[KC_COUNT_EVENTS];
  if (events > got->ring_capacity) events = got->ring_capacity;
  qsort(got->ring, events, sizeof *got->ring, by_entry);
  qsort(want->ring, events, sizeof *want->ring, by_entry);
  lab_same(lab, "events", got->ring, want->ring, events * sizeof *got->ring);
}

/* Damages entries of some slots: stale tag, tag 0, another's page, an id out of range. */
static void damage(struct lab *lab, struct lab_cache *cache, const uint32_t *entries)
{
  for (uint32_t slot = 0; slot < SLOTS; ++slot) {
    if (entries[slot] == 0 || lab_below(lab, 2) == 0) continue;
    struct kc_page_ref *entry = cache->entry + (uint64_t)slot * cache->table.stride +
                                lab_below(lab, entries[slot]);
    switch (lab_below(lab, 5)) {
      case 0: entry->tag += 1; break;
      case 1: entry->tag = 0; break;
      case 2: entry->page = cache->layer.pages; break;
      case 3: entry->page = 2147480000; break;
      default: cache->tag[entry->page] += 1; break; /* freed and handed on */
    }
  }
}

/* Two entries change places, tags and all; as often within a row as across. */
static void swap_entries(struct lab *lab, struct lab_cache *cache, const uint32_t *entries)
{
  const uint32_t a = lab_below(lab, SLOTS), b = lab_below(lab, 2) == 0 ? a : lab_below(lab, SLOTS);
  if (entries[a] == 0 || entries[b] == 0) return;
  struct kc_page_ref *one = cache->entry + (uint64_t)a * cache->table.stride +
                            lab_below(lab, entries[a]);
  struct kc_page_ref *other = cache->entry + (uint64_t)b * cache->table.stride +
                              lab_below(lab, entries[b]);
  const struct kc_page_ref kept = *one;
  *one = *other;
  *other = kept;
}

/* The place of every page in use; of some none, as if rows shared them. */
static uint64_t *lab_places(struct lab *lab, const struct lab_cache *cache,
                            const uint32_t *entries)
{
  const uint64_t bytes = cache->layer.pages * sizeof(uint64_t);
  uint64_t *place = memset(lab_take(lab, bytes), 0, bytes);
  for (uint32_t slot = 0; slot < SLOTS; ++slot) {
    for (uint32_t i = 0; i < entries[slot]; ++i) {
      const struct kc_page_ref ref = cache->entry[(uint64_t)slot * cache->table.stride + i];
      if (lab_below(lab, 8) > 0) place[ref.page] = KC_PAGE_PLACE(slot, i);
    }
  }
  return place;
}

static void run_check(uint64_t seed, bool damaged)
{
  struct lab lab;
  struct lab_cache cache;
  struct lab_cache_shape shape;
  uint32_t entries[SLOTS] = {0};
  lab_begin(&lab, seed);
  draw_shape(&lab, &shape);
  shape.page_tokens = 16;
  shape.context_max = 16 * 600; /* more entries than a block compares at once */
  shape.pages = 1300;
  lab_cache_make(&lab, &cache, &shape);
  for (uint32_t slot = 0; slot < SLOTS; ++slot) {
    cache.integrity.verdict[slot] = KC_VERDICT_CLEAR;
    entries[slot] = slot == 1 ? 580 : lab_below(&lab, 140);
    lab_cache_grant(&lab, &cache, slot, 16 * entries[slot]);
  }
  uint64_t *place = seed % 3 == 0 ? NULL : lab_places(&lab, &cache, entries);
  if (damaged) damage(&lab, &cache, entries);
  for (int i = 0; damaged && i < 3; ++i) swap_entries(&lab, &cache, entries);
  if (damaged) cache.integrity.ring_capacity = lab_below(&lab, 3) == 0 ? 1 : 64;
  struct twin twin = make_twin(&lab, &cache);
  const uint32_t rows = lab_between(&lab, 0, SLOTS);
  uint32_t *slot = lab_take(&lab, (rows + 1) * sizeof *slot);
  uint32_t *count = lab_take(&lab, (rows + 1) * sizeof *count);
  for (uint32_t row = 0; row < rows; ++row) {
    slot[row] = SLOTS - 1 - row;
    count[row] = entries[slot[row]];
  }
  if (rows > 1 && lab_below(&lab, 3) == 0) slot[rows - 1] = KC_NO_SLOT;
  struct kc_op_tag_check op = {.rows = rows, .slot = slot, .entries = count, .table = cache.table,
                               .integrity = cache.integrity, .place = place};
  struct kc_op_tag_check oracle = op;
  oracle.integrity = twin.integrity;
  LAB_RUN(&lab, tag_check, &op, &oracle);
  if (op.integrity.ring_capacity == 1) op.integrity.ring_capacity = 0; /* which one is free */
  compare_integrity(&lab, &op.integrity, &oracle.integrity);
  if (!damaged) assert_int_equal(op.integrity.counter[KC_COUNT_EVENTS], 0);
  lab_end(&lab);
}

static void test_check(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_check(seed, seed % 2 == 0);
}

/* One token a slot, as in decode: whatever is refused is refused alike. */
static void run_write(uint64_t seed)
{
  struct lab lab;
  struct lab_cache cache;
  struct lab_cache_shape shape;
  uint32_t entries[SLOTS];
  lab_begin(&lab, seed);
  draw_shape(&lab, &shape);
  lab_cache_make(&lab, &cache, &shape);
  const struct kc_kv_layer *layer = &cache.layer;
  uint32_t *slot = lab_take(&lab, SLOTS * sizeof *slot);
  int32_t *position = lab_take(&lab, SLOTS * sizeof *position);
  for (uint32_t row = 0; row < SLOTS; ++row) {
    slot[row] = SLOTS - 1 - row;
    position[row] = (int32_t)lab_below(&lab, CONTEXT_MAX);
    const uint32_t context = (uint32_t)position[row] + 1;
    cache.integrity.verdict[slot[row]] = KC_VERDICT_CLEAR;
    lab_cache_grant(&lab, &cache, slot[row], context);
    entries[slot[row]] = (context + shape.page_tokens - 1) / shape.page_tokens;
  }
  if (seed % 2 == 0) damage(&lab, &cache, entries);
  if (seed % 3 == 0) cache.integrity.verdict[lab_below(&lab, SLOTS)] = 5;
  if (seed % 5 == 0) cache.integrity.tag = NULL;
  if (seed % 4 == 0) slot[1] = KC_NO_SLOT;
  if (seed % 7 == 0) position[2] = -1;
  struct twin twin = make_twin(&lab, &cache);
  struct kc_op_kv_write op = {.rows = SLOTS,
                              .slot = slot,
                              .position = position,
                              .table = cache.table,
                              .layer = *layer,
                              .integrity = cache.integrity};
  op.k_stride = (uint64_t)layer->kv_heads * kc_kv_query_dim(layer) + 8;
  op.v_stride = op.k_stride;
  uint16_t *k = lab_bf16(&lab, SLOTS * op.k_stride, 100.0f);
  if (layer->kind == KC_PAGED_MLA) memset(k, 0, 2ull * layer->latent); /* a group of zeros */
  k[op.k_stride + 3] = kc_bf16_encode(70000.0f); /* saturates */
  op.k = k;
  op.v = lab_bf16(&lab, SLOTS * op.v_stride, 1.0f);
  struct kc_op_kv_write oracle = op;
  oracle.layer = twin.layer;
  oracle.integrity = twin.integrity;
  LAB_RUN(&lab, kv_write, &op, &oracle);
  lab_same(&lab, "K", layer->k, twin.layer.k, layer->k_page_bytes * layer->pages);
  if (layer->v != NULL) {
    lab_same(&lab, "V", layer->v, twin.layer.v, layer->v_page_bytes * layer->pages);
  }
  compare_integrity(&lab, &op.integrity, &oracle.integrity);
  lab_end(&lab);
}

static void test_write(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 2 * lab_seeds(); ++seed) run_write(seed);
}

/* Many tokens of one slot at once, one page of them stale: blocks run in any order, so tokens with
 * good entries may have been written or not, but none went into the stale page, the slot has its
 * verdict, every token is counted once, and an event names the entry. */
static void run_stale_prefill(uint64_t seed)
{
  enum { TOKENS = 64, PAGE = 16, STALE = 2 };
  struct lab lab;
  struct lab_cache cache;
  const struct lab_cache_shape shape = {.kind = KC_PAGED_GQA,
                                        .slots = SLOTS,
                                        .pages = 20,
                                        .page_tokens = PAGE,
                                        .context_max = CONTEXT_MAX,
                                        .kv_heads = 1,
                                        .head_dim = 16};
  lab_begin(&lab, seed);
  lab_cache_make(&lab, &cache, &shape);
  for (uint32_t slot = 0; slot < SLOTS; ++slot) cache.integrity.verdict[slot] = KC_VERDICT_CLEAR;
  lab_cache_grant(&lab, &cache, 3, TOKENS);
  const uint32_t page = cache.entry[3 * cache.table.stride + STALE].page;
  cache.tag[page] += 1;
  uint32_t *slot = lab_take(&lab, TOKENS * sizeof *slot);
  int32_t *position = lab_take(&lab, TOKENS * sizeof *position);
  for (int32_t i = 0; i < TOKENS; ++i) {
    slot[i] = 3;
    position[i] = i;
  }
  struct kc_op_kv_write op = {.rows = TOKENS,
                              .k = lab_bf16(&lab, TOKENS * 16, 1.0f),
                              .k_stride = 16,
                              .v = lab_bf16(&lab, TOKENS * 16, 1.0f),
                              .v_stride = 16,
                              .slot = slot,
                              .position = position,
                              .table = cache.table,
                              .layer = cache.layer,
                              .integrity = cache.integrity};
  lab_expect(&lab, lab_wait(&lab, lab.under_test->kv_write(lab.context, &op)), "kv_write");
  const uint64_t *counter = cache.integrity.counter;
  assert_int_equal(cache.integrity.verdict[3], STALE);
  assert_int_equal(counter[KC_COUNT_WRITES] + counter[KC_COUNT_WRITES_REFUSED], TOKENS);
  assert_true(counter[KC_COUNT_WRITES_REFUSED] >= PAGE);
  assert_true(counter[KC_COUNT_EVENTS] >= 1 && counter[KC_COUNT_EVENTS] <= PAGE);
  assert_int_equal(cache.integrity.ring[0].page, page);
  assert_int_equal(cache.integrity.ring[0].index, STALE);
  const uint8_t *tile = cache.layer.k + page * cache.layer.k_page_bytes;
  for (uint32_t i = 0; i < PAGE * 16 * 2; ++i) assert_int_equal(tile[i], 0xff);
  lab_end(&lab);
}

static void test_stale_prefill(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_stale_prefill(seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_check), cmocka_unit_test(test_write),
                                     cmocka_unit_test(test_stale_prefill)};
  return cmocka_run_group_tests_name("emulated pages", tests, NULL, NULL);
}
