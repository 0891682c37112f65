/* Prefix caches, call by call, with sequences worked out by hand from what vLLM 0.19 and SGLang 0.5
 * do. Pages are numbered from 0 in the order in which the pool first hands them out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/kv/prefix_cache.h"

enum { PAGES = 8, SLOTS = 4, ROW = 6, KEYS = 40 };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_prefix_cache cache;
  struct kc_arena arena;
};

/* Keys 0 1 2 3; the same beginning with another end; nothing in common; longer than the first. */
static const struct kc_key_run whole_run[] = {{0, 4}};
static const struct kc_key_run fork_run[] = {{0, 2}, {10, 2}};
static const struct kc_key_run other_run[] = {{20, 3}};
static const struct kc_key_run long_run[] = {{0, 4}, {30, 2}};
static const struct kc_content whole = {whole_run, 1};
static const struct kc_content fork = {fork_run, 2};
static const struct kc_content other = {other_run, 1};
static const struct kc_content longer = {long_run, 2};

static int set_up(void **state, enum kc_cache_kind kind)
{
  static struct bed bed;
  memset(&bed, 0, sizeof bed);
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW) +
                       kc_prefix_cache_need(kind, PAGES, KEYS);
  assert_int_equal(kc_arena_init(&bed.arena, bytes, NULL), KC_OK);
  assert_int_equal(kc_pool_init(&bed.pool, PAGES, 7, &bed.arena), KC_OK);
  assert_int_equal(kc_table_init(&bed.table, SLOTS, ROW, &bed.arena), KC_OK);
  assert_int_equal(
      kc_prefix_cache_init(&bed.cache, kind, &bed.pool, &bed.table, KEYS, &bed.arena), KC_OK);
  *state = &bed;
  return 0;
}

static int set_up_none(void **state) { return set_up(state, KC_CACHE_NONE); }
static int set_up_blocks(void **state) { return set_up(state, KC_CACHE_BLOCKS); }
static int set_up_radix(void **state) { return set_up(state, KC_CACHE_RADIX); }

static int tear_down(void **state)
{
  struct bed *bed = *state;
  assert_int_equal(bed->pool.faults, 0);
  assert_true(kc_prefix_cache_valid(&bed->cache));
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    assert_int_equal(kc_prefix_cache_release(&bed->cache, slot), KC_OK);
  }
  assert_int_equal(bed->pool.refs_total, 0);
  assert_int_equal(kc_prefix_cache_balance(&bed->cache), KC_OK);
  assert_int_equal(kc_pool_scrub(&bed->pool), KC_OK);
  assert_int_equal(bed->pool.free_count, PAGES);
  kc_arena_deinit(&bed->arena);
  return 0;
}

static struct kc_cache_match match(struct bed *bed, const struct kc_content *content, uint32_t most)
{
  return kc_prefix_cache_match(&bed->cache, content, most);
}

static void admit(struct bed *bed, uint32_t slot, const struct kc_content *content, uint32_t most)
{
  const struct kc_cache_match found = match(bed, content, most);
  kc_prefix_cache_attach(&bed->cache, slot, content, &found);
}

static void grow(struct bed *bed, uint32_t slot, uint32_t count)
{
  assert_true(kc_prefix_cache_grow(&bed->cache, slot, count));
}

static void publish(struct bed *bed, uint32_t slot, const struct kc_content *content,
                    uint32_t pages)
{
  kc_prefix_cache_publish(&bed->cache, slot, content, pages);
  assert_int_equal(kc_prefix_cache_check_row(&bed->cache, slot, content, NULL), KC_OK);
}

static void release(struct bed *bed, uint32_t slot)
{
  assert_int_equal(kc_prefix_cache_release(&bed->cache, slot), KC_OK);
}

static void assert_row(const struct bed *bed, uint32_t slot, uint32_t count, const uint32_t *ids)
{
  assert_int_equal(bed->table.extent[slot], count);
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(kc_table_row(&bed->table, slot)[i].id, ids[i]);
  }
}

#define ASSERT_ROW(bed, slot, ...)                                  \
  assert_row(bed, slot, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), \
             (uint32_t[]){__VA_ARGS__})

static void test_none_is_the_table(void **state)
{
  struct bed *bed = *state;
  assert_int_equal(match(bed, &whole, 4).pages, 0);
  grow(bed, 0, 4);
  kc_prefix_cache_publish(&bed->cache, 0, &whole, 4);
  assert_int_equal(bed->table.shared[0], 0);
  assert_int_equal(match(bed, &whole, 4).pages, 0);
  assert_false(kc_prefix_cache_grow(&bed->cache, 1, 5));
  release(bed, 0);
  grow(bed, 1, 5);
  ASSERT_ROW(bed, 1, 0, 1, 2, 3, 4); /* last in, first out */
}

/* ---- BLOCKS ---- */

/* "Allocate from queue head, dropping any hash then. Free appends at tail, request's last block
 * first; hash stays until reuse." */
static void test_blocks_order(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  ASSERT_ROW(bed, 0, 0, 1, 2, 3);
  publish(bed, 0, &whole, 3); /* the fourth stays without a hash */
  release(bed, 0);            /* queue: 4 5 6 7 3 2 1 0 */
  assert_int_equal(kc_prefix_cache_available(&bed->cache), 8);
  assert_int_equal(match(bed, &whole, 4).pages, 3);
  grow(bed, 1, 6);
  ASSERT_ROW(bed, 1, 4, 5, 6, 7, 3, 2); /* page 2 loses its hash */
  assert_int_equal(match(bed, &whole, 4).pages, 2);
  assert_int_equal(bed->cache.counts.pages_evicted, 1);
  assert_false(kc_prefix_cache_grow(&bed->cache, 2, 3));
  grow(bed, 2, 2);
  ASSERT_ROW(bed, 2, 1, 0);
  assert_int_equal(match(bed, &whole, 4).pages, 0);
}

/* "A hit leaves the queue, refcount + 1." */
static void test_blocks_hit_leaves_the_queue(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4);
  release(bed, 0); /* queue: 4 5 6 7 3 2 1 0 */
  const struct kc_cache_match found = match(bed, &fork, 3);
  assert_int_equal(found.pages, 2);
  assert_int_equal(found.idle, 2);
  kc_prefix_cache_attach(&bed->cache, 1, &fork, &found); /* queue: 4 5 6 7 3 2 */
  assert_int_equal(match(bed, &whole, 4).idle, 2);
  assert_int_equal(kc_prefix_cache_available(&bed->cache), 6);
  grow(bed, 1, 1);
  ASSERT_ROW(bed, 1, 0, 1, 4);
  admit(bed, 2, &whole, 4); /* queue: 5 6 7 */
  ASSERT_ROW(bed, 2, 0, 1, 2, 3);
  assert_int_equal(bed->pool.refs_total, 6);
  release(bed, 2); /* 3 and 2 are idle, 1 and 0 still in use; queue: 5 6 7 3 2 */
  release(bed, 1); /* queue: 5 6 7 3 2 4 1 0: own pages and shared ones, the last first */
  grow(bed, 3, 6);
  ASSERT_ROW(bed, 3, 5, 6, 7, 3, 2, 4);
  assert_int_equal(match(bed, &whole, 4).pages, 2);
}

/* "Duplicate hashes coexist", and the first that is left is found. */
static void test_blocks_duplicates(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 2);
  grow(bed, 1, 2);
  publish(bed, 1, &whole, 2); /* pages 2 3 */
  publish(bed, 0, &whole, 2); /* pages 0 1 as well */
  ASSERT_ROW(bed, 0, 0, 1);
  assert_int_equal(bed->cache.counts.pages_published, 4);
  admit(bed, 2, &whole, 2);
  ASSERT_ROW(bed, 2, 2, 3);
  release(bed, 2);
  release(bed, 1); /* queue: 4 5 6 7 3 2 */
  grow(bed, 1, 5); /* takes 3 */
  admit(bed, 2, &whole, 2);
  ASSERT_ROW(bed, 2, 2, 1); /* page 2 is still there, of the others their twin */
}

/* ---- RADIX ---- */

/* A match that ends inside a node splits it, and the rest can be evicted alone. */
static void test_radix_match_splits(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4);
  release(bed, 0);
  assert_int_equal(bed->cache.free_node_count, PAGES - 1);
  admit(bed, 1, &fork, 4); /* 0 1 | 2 3 */
  ASSERT_ROW(bed, 1, 0, 1);
  assert_int_equal(bed->cache.free_node_count, PAGES - 2);
  assert_int_equal(kc_prefix_cache_available(&bed->cache), 6);
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 1), 2); /* whole leaves; 0 1 are locked */
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 1), 0);
  assert_int_equal(match(bed, &whole, 4).pages, 2);
  release(bed, 1);
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 1), 2);
}

/* The least recently used leaf goes first; a lookup makes its path younger; then the parent. */
static void test_radix_eviction_order(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4); /* pages 0 1 2 3 */
  grow(bed, 1, 3);
  publish(bed, 1, &other, 3); /* pages 4 5 6 */
  release(bed, 0);
  release(bed, 1);
  (void)match(bed, &whole, 2);                                /* splits, refreshes both parts */
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 2), 3); /* other, though younger by birth */
  assert_int_equal(match(bed, &other, 3).pages, 0);
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 1), 2); /* keys 2 3 */
  assert_int_equal(match(bed, &whole, 4).pages, 2);
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 1), 2); /* then their parent */
  assert_int_equal(bed->pool.free_count, PAGES);
}

/* Two that computed the same: the second's pages are freed, and its row names the tree's. */
static void test_radix_duplicates_are_freed(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 3);
  grow(bed, 1, 5);
  publish(bed, 0, &whole, 2);
  publish(bed, 1, &whole, 4);
  ASSERT_ROW(bed, 1, 0, 1, 5, 6, 7); /* 3 and 4 went back */
  assert_int_equal(bed->cache.counts.duplicates_freed, 2);
  assert_int_equal(bed->table.shared[1], 4);
  assert_int_equal(bed->pool.free_count, 2);
  publish(bed, 0, &whole, 3); /* page 2 is a duplicate of 5 by now */
  ASSERT_ROW(bed, 0, 0, 1, 5);
  assert_int_equal(bed->pool.refs_total, 3 + 4);
  release(bed, 1); /* keys 3 alone becomes idle: its own node since row 0 ends before it */
  assert_int_equal(bed->pool.idle_count, 1);
}

/* Growth that finds too few free pages evicts as many as it asks for, not as many as it lacks. */
static void test_radix_growth_evicts(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4);
  release(bed, 0);
  grow(bed, 0, 3);
  publish(bed, 0, &other, 3);
  release(bed, 0);
  assert_int_equal(bed->pool.free_count, 1);
  grow(bed, 1, 5); /* 4 are lacking, which the oldest leaf has: but 5 are asked for */
  assert_int_equal(bed->cache.counts.pages_evicted, 7);
  assert_int_equal(bed->pool.free_count, 3);
  assert_false(kc_prefix_cache_grow(&bed->cache, 2, 4));
}

static void test_radix_extension_keeps_the_path(void **state)
{
  struct bed *bed = *state;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4);
  admit(bed, 1, &longer, 5);
  assert_int_equal(bed->table.extent[1], 4);
  grow(bed, 1, 2);
  publish(bed, 1, &longer, 6);
  release(bed, 1);
  assert_int_equal(bed->pool.idle_count, 2);
  assert_int_equal(kc_prefix_cache_evict(&bed->cache, 100), 2); /* row 0 keeps the rest */
  assert_int_equal(match(bed, &longer, 6).pages, 4);
}

/* ---- both ---- */

static void test_faults_are_seen(void **state)
{
  struct bed *bed = *state;
  uint32_t at = 99;
  grow(bed, 0, 4);
  publish(bed, 0, &whole, 4);
  admit(bed, 1, &whole, 4);
  assert_false(kc_prefix_cache_suspect(&bed->cache));
  kc_prefix_cache_lose(&bed->cache, 1); /* one reference is left for two rows */
  assert_true(kc_prefix_cache_suspect(&bed->cache));
  release(bed, 0);
  assert_int_equal(kc_prefix_cache_check_row(&bed->cache, 1, &whole, &at), KC_ERR_TAG_OWNER);
  assert_int_equal(at, 0);
  kc_prefix_cache_mend(&bed->cache);
  assert_false(kc_prefix_cache_suspect(&bed->cache));
  assert_int_equal(kc_prefix_cache_check_row(&bed->cache, 1, &whole, &at), KC_OK);
  assert_true(kc_prefix_cache_expel(&bed->cache, 1));
  assert_int_equal(kc_prefix_cache_check_row(&bed->cache, 1, &whole, &at), KC_ERR_TAG_STALE);
  assert_int_equal(kc_prefix_cache_release(&bed->cache, 1), KC_ERR_DOUBLE_FREE); /* is free now */
  bed->pool.faults = 0;
}

int main(void)
{
#define CASE(test, set_up_as) cmocka_unit_test_setup_teardown(test, set_up_as, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(test_none_is_the_table, set_up_none),
      CASE(test_blocks_order, set_up_blocks),
      CASE(test_blocks_hit_leaves_the_queue, set_up_blocks),
      CASE(test_blocks_duplicates, set_up_blocks),
      CASE(test_radix_match_splits, set_up_radix),
      CASE(test_radix_eviction_order, set_up_radix),
      CASE(test_radix_duplicates_are_freed, set_up_radix),
      CASE(test_radix_growth_evicts, set_up_radix),
      CASE(test_radix_extension_keeps_the_path, set_up_radix),
      CASE(test_faults_are_seen, set_up_blocks),
      CASE(test_faults_are_seen, set_up_radix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
