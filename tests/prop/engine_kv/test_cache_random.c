/* Random operations on a prefix cache and on its naive twin, compared after every step: results,
 * counts, and the pages of the row that was touched; everything else every WALK_STEPS steps and at
 * the end, where no reference may be left.
 *
 * Each seed draws the discipline, the size of pool and rows, a library of contents that share
 * beginnings (salts included), and the weight of every kind of operation, some switched off.
 *
 *   test_cache_random [--ops TOTAL] [--seeds COUNT] | --seed S --steps N
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/kv/prefix_cache.h"
#include "tests/prop/engine_kv/naive_block_cache.h"
#include "tests/prop/engine_kv/naive_radix_cache.h"
#include "tests/prop/engine_kv/quick_scale.h"

enum { OPS_DEFAULT = QUICK_SCALE(1000000) };
enum { SEEDS_DEFAULT = 64, WALK_STEPS = 256, SLOTS_MAX = NAIVE_ROWS_MAX, PAGES_MAX = 96 };

enum kind { MATCH, ADMIT, GROW, PUBLISH, RELEASE, EVICT, CLEAR, CHECK, KINDS };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_prefix_cache cache;
  struct kc_arena arena;
  struct kc_random random;
  struct cache_library library;
  struct naive_block_cache blocks;
  struct naive_radix_cache tree;
  bool radix;
  uint32_t slots;
  bool busy[SLOTS_MAX];
  uint32_t text[SLOTS_MAX]; /* the content of a busy slot */
  uint32_t weight[KINDS];
  uint32_t weight_sum;
  uint64_t faults;
  uint64_t seed, step;
  const char *wrong; /* first disagreement of the step */
};

static void on_fault(void *context, const struct kc_fault_report *report)
{
  struct bed *bed = context;
  bed->faults += report->code != KC_OK;
}

static void expect(struct bed *bed, bool holds, const char *what)
{
  if (!holds && bed->wrong == NULL) bed->wrong = what;
}

static uint32_t below(struct bed *bed, uint32_t bound)
{
  return (uint32_t)kc_random_below(&bed->random, bound);
}

static uint32_t some_slot(struct bed *bed, bool busy)
{
  for (uint32_t i = 0, start = below(bed, bed->slots); i < bed->slots; i++) {
    const uint32_t slot = (start + i) % bed->slots;
    if (bed->busy[slot] == busy) return slot;
  }
  return UINT32_MAX;
}

static const struct kc_content *content_of(const struct bed *bed, uint32_t slot)
{
  return &bed->library.content[bed->text[slot]];
}

static void compare_row(struct bed *bed, uint32_t slot)
{
  const struct kc_page *row = kc_table_row(&bed->table, slot);
  const uint32_t *plain = bed->radix ? bed->tree.row[slot] : bed->blocks.row[slot];
  const uint32_t extent = bed->radix ? bed->tree.extent[slot] : bed->blocks.extent[slot];
  expect(bed, bed->table.extent[slot] == extent, "extent of the row");
  for (uint32_t i = 0; i < extent && bed->wrong == NULL; i++) {
    expect(bed, row[i].id == plain[i], "page in the row");
  }
}

/* ---- operations: each on both ---- */

static struct kc_cache_match match_both(struct bed *bed, uint32_t text, uint32_t pages_max)
{
  const struct cache_text *plain = &bed->library.text[text];
  uint32_t idle;
  const uint32_t pages = bed->radix ? naive_radix_match(&bed->tree, plain, pages_max, &idle)
                                    : naive_blocks_match(&bed->blocks, plain, pages_max, &idle);
  const struct kc_cache_match match =
      kc_prefix_cache_match(&bed->cache, &bed->library.content[text], pages_max);
  expect(bed, match.pages == pages, "pages that match");
  expect(bed, match.idle == idle, "idle pages that match");
  return match;
}

static void do_grow(struct bed *bed, uint32_t slot, uint32_t count)
{
  const uint32_t extent = bed->table.extent[slot];
  bool wanted;
  if (bed->radix) {
    wanted = naive_radix_make_room(&bed->tree, count);
  } else {
    wanted = naive_blocks_grow(&bed->blocks, slot, count);
  }
  expect(bed, kc_prefix_cache_grow(&bed->cache, slot, count) == wanted, "growth succeeds");
  if (bed->radix && wanted && bed->wrong == NULL) {
    for (uint32_t i = extent; i < extent + count; i++) {
      const uint32_t id = kc_table_row(&bed->table, slot)[i].id;
      expect(bed, naive_radix_given(&bed->tree, slot, id), "a page that was free");
    }
  }
  compare_row(bed, slot);
}

static void do_admit(struct bed *bed)
{
  const uint32_t slot = some_slot(bed, false);
  if (slot == UINT32_MAX) return;
  const uint32_t text = below(bed, bed->library.count);
  const uint32_t length = bed->library.text[text].length;
  const struct kc_cache_match match = match_both(bed, text, length - below(bed, 2));
  const struct cache_text *plain = &bed->library.text[text];
  if (bed->wrong != NULL) return;
  bed->busy[slot] = true;
  bed->text[slot] = text;
  kc_prefix_cache_attach(&bed->cache, slot, &bed->library.content[text], &match);
  if (bed->radix) {
    naive_radix_attach(&bed->tree, slot, plain, match.pages);
  } else {
    naive_blocks_attach(&bed->blocks, slot, plain, match.pages);
  }
  compare_row(bed, slot);
  if (bed->wrong == NULL) do_grow(bed, slot, below(bed, length - match.pages + 1));
}

static void do_publish(struct bed *bed)
{
  const uint32_t slot = some_slot(bed, true);
  if (slot == UINT32_MAX) return;
  const struct cache_text *plain = &bed->library.text[bed->text[slot]];
  const uint32_t extent = bed->table.extent[slot], from = bed->table.shared[slot];
  const uint32_t most = extent < plain->length ? extent : plain->length;
  if (most < from) return;
  const uint32_t pages = below(bed, 3) == 0 ? most : from + below(bed, most - from + 1);
  kc_prefix_cache_publish(&bed->cache, slot, content_of(bed, slot), pages);
  if (bed->radix) {
    naive_radix_publish(&bed->tree, slot, plain, pages);
  } else {
    naive_blocks_publish(&bed->blocks, slot, plain, pages);
  }
  expect(bed, bed->table.shared[slot] == pages, "shared entries after publication");
  compare_row(bed, slot);
}

static void do_release(struct bed *bed, uint32_t slot)
{
  if (slot == UINT32_MAX) return;
  bed->busy[slot] = false;
  expect(bed, kc_prefix_cache_release(&bed->cache, slot) == KC_OK, "release of a sound row");
  if (bed->radix) {
    naive_radix_release(&bed->tree, slot);
  } else {
    naive_blocks_release(&bed->blocks, slot);
  }
  compare_row(bed, slot);
}

static void do_evict(struct bed *bed, uint32_t pages)
{
  const uint32_t wanted = bed->radix ? naive_radix_evict(&bed->tree, pages) : 0;
  expect(bed, kc_prefix_cache_evict(&bed->cache, pages) == wanted, "pages evicted");
}

static void do_clear(struct bed *bed)
{
  kc_prefix_cache_clear(&bed->cache);
  if (bed->radix) {
    (void)naive_radix_evict(&bed->tree, UINT32_MAX);
  } else {
    naive_blocks_clear(&bed->blocks);
  }
}

static void do_check(struct bed *bed)
{
  const uint32_t slot = some_slot(bed, true);
  if (slot == UINT32_MAX) return;
  expect(bed, kc_prefix_cache_check_row(&bed->cache, slot, content_of(bed, slot), NULL) == KC_OK,
         "check of a sound row");
}

static void do_one(struct bed *bed, enum kind kind)
{
  uint32_t slot;
  switch (kind) {
    case MATCH: {
      const uint32_t text = below(bed, bed->library.count);
      (void)match_both(bed, text, below(bed, bed->library.text[text].length + 2));
      break;
    }
    case ADMIT: do_admit(bed); break;
    case GROW:
      slot = some_slot(bed, true);
      if (slot == UINT32_MAX) break;
      do_grow(bed, slot, below(bed, 1 + (CONTENT_PAGES_MAX - bed->table.extent[slot]) / 3));
      break;
    case PUBLISH: do_publish(bed); break;
    case RELEASE: do_release(bed, some_slot(bed, true)); break;
    case EVICT: do_evict(bed, below(bed, 6)); break;
    case CLEAR: do_clear(bed); break;
    case CHECK: do_check(bed); break;
    case KINDS: break;
  }
}

/* ---- comparison ---- */

static void compare_totals(struct bed *bed)
{
  const struct kc_pool *pool = &bed->pool;
  uint32_t held, idle, unused;
  if (bed->radix) {
    held = naive_radix_held(&bed->tree, false);
    idle = naive_radix_held(&bed->tree, true);
    unused = naive_radix_free(&bed->tree) + idle;
    expect(bed, bed->cache.counts.duplicates_freed == bed->tree.duplicates, "duplicates");
    expect(bed, bed->cache.counts.pages_evicted == bed->tree.evicted, "evicted pages");
  } else {
    held = naive_blocks_hashed(&bed->blocks, false);
    idle = naive_blocks_hashed(&bed->blocks, true);
    unused = bed->blocks.unused_count;
  }
  expect(bed, pool->shared_count == held, "pages in the cache");
  expect(bed, pool->idle_count == idle, "idle pages");
  expect(bed, kc_prefix_cache_available(&bed->cache) == unused, "available pages");
  expect(bed, !kc_prefix_cache_suspect(&bed->cache), "no reference is lost or doubled");
  expect(bed, bed->faults == 0, "no fault is reported");
}

static void walk(struct bed *bed)
{
  expect(bed, kc_prefix_cache_valid(&bed->cache), "walk: the cache is valid");
  expect(bed, kc_pool_scrub(&bed->pool) == KC_OK, "walk: scrub");
  for (uint32_t slot = 0; slot < bed->slots; slot++) {
    compare_row(bed, slot);
    if (!bed->busy[slot]) continue;
    expect(bed,
           kc_prefix_cache_check_row(&bed->cache, slot, content_of(bed, slot), NULL) == KC_OK,
           "walk: rows are sound");
  }
  if (bed->radix) return;
  uint32_t id = bed->cache.block[bed->pool.page_count].queue_next;
  for (uint32_t i = 0; i < bed->blocks.unused_count; i++) {
    expect(bed, id == bed->blocks.unused[i], "walk: order of the queue");
    id = bed->cache.block[id].queue_next;
  }
}

static void finish(struct bed *bed)
{
  for (uint32_t slot = 0; slot < bed->slots; slot++) {
    if (bed->busy[slot]) do_release(bed, slot);
  }
  walk(bed);
  expect(bed, bed->pool.refs_total == 0, "end: no reference is left");
  expect(bed, kc_prefix_cache_balance(&bed->cache) == KC_OK, "end: balance");
  expect(bed, bed->pool.free_count == bed->pool.page_count, "end: every page is free");
  expect(bed, kc_pool_scrub(&bed->pool) == KC_OK, "end: scrub");
}

/* ---- runs ---- */

static void draw_weights(struct bed *bed)
{
  static const uint32_t usual[KINDS] = {10, 25, 15, 20, 20, 5, 1, 4};
  bed->weight_sum = 0;
  for (int kind = 0; kind < KINDS; kind++) {
    const bool off = kind != ADMIT && kind != RELEASE && below(bed, 4) == 0;
    bed->weight[kind] = off ? 0 : 1 + below(bed, 2 * usual[kind]);
    bed->weight_sum += bed->weight[kind];
  }
}

static enum kind draw_kind(struct bed *bed)
{
  uint32_t ticket = below(bed, bed->weight_sum);
  int kind = 0;
  while (ticket >= bed->weight[kind]) ticket -= bed->weight[kind++];
  return (enum kind)kind;
}

static bool set_up(struct bed *bed, uint64_t seed)
{
  static const uint32_t sizes[] = {1, 2, 3, 8, 16, 24, 32, 48, 64, PAGES_MAX};
  memset(bed, 0, sizeof *bed);
  bed->seed = seed;
  kc_random_init(&bed->random, seed, "cache-random", 0);
  bed->radix = seed % 2 == 0;
  bed->slots = 1 + below(bed, SLOTS_MAX);
  const uint32_t pages = sizes[below(bed, sizeof sizes / sizeof *sizes)];
  const uint32_t texts = 1 + below(bed, CONTENTS_MAX), longest = 1 + below(bed, CONTENT_PAGES_MAX);
  const uint32_t symbols = 1 + below(bed, 4);
  cache_library_draw(&bed->library, &bed->random, texts, longest, symbols, 1 + below(bed, 3));
  const uint32_t keys = bed->library.key_count;
  const enum kc_cache_kind kind = bed->radix ? KC_CACHE_RADIX : KC_CACHE_BLOCKS;
  const size_t bytes = kc_pool_need(pages) + kc_table_need(bed->slots, CONTENT_PAGES_MAX) +
                       kc_prefix_cache_need(kind, pages, keys);
  if (kc_arena_init(&bed->arena, bytes, NULL) != KC_OK) return false;
  if (kc_pool_init(&bed->pool, pages, seed, &bed->arena) != KC_OK) return false;
  if (kc_table_init(&bed->table, bed->slots, CONTENT_PAGES_MAX, &bed->arena) != KC_OK) return false;
  if (kc_prefix_cache_init(&bed->cache, kind, &bed->pool, &bed->table, keys, &bed->arena) !=
      KC_OK) {
    return false;
  }
  bed->pool.paranoid = below(bed, 4) == 0;
  bed->pool.hook = on_fault;
  bed->pool.hook_context = bed;
  kc_table_watch(&bed->table, &bed->pool);
  naive_blocks_init(&bed->blocks, pages);
  naive_radix_init(&bed->tree, pages);
  draw_weights(bed);
  return true;
}

static bool run_seed(uint64_t seed, uint64_t steps)
{
  static struct bed bed;
  uint32_t marked;
  if (!set_up(&bed, seed)) {
    fprintf(stderr, "seed=%" PRIu64 ": the cache cannot be set up\n", seed);
    return false;
  }
  for (bed.step = 1; bed.step <= steps && bed.wrong == NULL; bed.step++) {
    do_one(&bed, draw_kind(&bed));
    compare_totals(&bed);
    expect(&bed, !kc_table_next_touched(&bed.table, &marked), "no row is marked");
    if (bed.step % WALK_STEPS == 0) walk(&bed);
    if (bed.step == steps && bed.wrong == NULL) finish(&bed);
    if (bed.wrong != NULL) {
      fprintf(stderr, "seed=%" PRIu64 " step=%" PRIu64 " %s: the twins disagree: %s\n"
              "replay: test_cache_random --seed %" PRIu64 " --steps %" PRIu64 "\n",
              seed, bed.step, bed.radix ? "radix" : "blocks", bed.wrong, seed, bed.step);
    }
  }
  kc_arena_deinit(&bed.arena);
  return bed.wrong == NULL;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t fallback)
{
  uint64_t value = fallback;
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) != 0) continue;
    if (!kc_parse_u64(argv[i + 1], strlen(argv[i + 1]), &value)) exit(2);
  }
  return value;
}

int main(int argc, char **argv)
{
  const uint64_t seed = option(argc, argv, "--seed", 0);
  if (seed != 0) return run_seed(seed, option(argc, argv, "--steps", 100000)) ? 0 : 1;
  const uint64_t seeds = option(argc, argv, "--seeds", SEEDS_DEFAULT);
  const uint64_t ops = option(argc, argv, "--ops", OPS_DEFAULT);
  const uint64_t steps = (ops + seeds - 1) / seeds;
  for (uint64_t s = 1; s <= seeds; s++) {
    if (!run_seed(s, steps)) return 1;
  }
  printf("%" PRIu64 " operations in %" PRIu64 " seeds, %d-bit tags: the twins agree\n",
         steps * seeds, seeds, KC_TAG_BITS);
  return 0;
}
