/* Page pool op-stream: every four bytes are one operation {kind, a, b, c} on the pool and on its
 * naive twin, which must agree on results and totals; the pool must scrub clean at the end.
 *
 *   byte 0 of the input: pages (1 + value mod 48) and, in the top bit, paranoid mode
 *   kind mod 15: 0 alloc a mod 16 pages for owner b at c    4 check           8 take
 *                1 free of the pages [a, a + c mod 16)      5 quarantine      9 share
 *                2 free of one pair                         6 release from   10 ref
 *                3 scrub                                      quarantine     11 unref
 *                                                           7 audit          12 drop
 *                                                          13 check as shared
 *                                                          14 audit as shared
 * The pair of kinds 1, 2, 4 .. is that of page a as it is now, its tag moved by (c mod 8) - 3 and
 * its id out of range when a is; its index that of the page, plus c / 128. */
#include <stdio.h>
#include <stdlib.h>

/* The twin belongs to the property tests; this target is a single file. */
#include "tests/prop/engine_kv/naive_pool.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_PAGES_MAX = 48, BULK = 16 };

struct bed {
  struct kc_pool pool;
  struct naive_pool naive;
};

static void require(bool holds, const char *what, size_t at)
{
  if (holds) return;
  fprintf(stderr, "the twins disagree at byte %zu: %s\n", at, what);
  abort();
}

static struct kc_page pair(const struct bed *bed, uint32_t id, uint8_t shift)
{
  struct kc_page page = {id, 1};
  if (id < bed->naive.page_count) page.tag = naive_tag(&bed->naive, bed->naive.page[id].generation);
  page.tag += (uint32_t)(shift % 8) - 3;
  return page;
}

static uint32_t index_of(const struct bed *bed, uint32_t id, uint8_t shift)
{
  return (id < bed->naive.page_count ? bed->naive.page[id].index : 0) + shift / 128;
}

static void fuzz_alloc(struct bed *bed, const uint8_t *op, size_t at)
{
  struct kc_page real[BULK], plain[BULK];
  const uint32_t count = op[1] % BULK, owner = 1 + op[2] % 4;
  const bool got = kc_pool_alloc(&bed->pool, count, owner, op[3], real);
  require(got == naive_alloc(&bed->naive, count, owner, op[3], plain), "alloc", at);
  for (uint32_t i = 0; got && i < count; i++) {
    require(real[i].id == plain[i].id && real[i].tag == plain[i].tag, "pair of alloc", at);
  }
}

static void fuzz_free(struct bed *bed, const uint8_t *op, uint32_t count, size_t at)
{
  struct kc_page pages[BULK];
  uint32_t freed = 0, plain_freed = 0;
  const uint32_t owner = 1 + op[2] % 4, first = index_of(bed, op[1], count > 1 ? 0 : op[3]);
  for (uint32_t i = 0; i < count; i++) {
    pages[i] = pair(bed, op[1] + i, count > 1 ? 3 : op[3]);
  }
  const enum kc_err wanted = naive_free(&bed->naive, pages, count, owner, first, &plain_freed);
  require(kc_pool_free(&bed->pool, pages, count, owner, first, &freed) == wanted, "free", at);
  require(freed == plain_freed, "count of freed pages", at);
}

static void fuzz_take(struct bed *bed, const uint8_t *op, size_t at)
{
  const uint32_t id = op[1] % bed->naive.page_count;
  struct kc_page real = {0, 0}, plain = {0, 0};
  if (bed->naive.page[id].state != KC_PAGE_FREE) return; /* the caller knows which are free */
  require(naive_take(&bed->naive, id, 1 + op[2] % 4, op[3], &plain), "twin's take", at);
  require(kc_pool_take(&bed->pool, id, 1 + op[2] % 4, op[3], &real), "take", at);
  require(real.id == plain.id && real.tag == plain.tag, "pair of take", at);
}

static void fuzz_sharing(struct bed *bed, const uint8_t *op, size_t at)
{
  const struct kc_page page = pair(bed, op[1], op[3]);
  const uint32_t owner = 1 + op[2] % 4, index = index_of(bed, op[1], op[3]);
  bool flag;
  enum kc_err wanted = KC_OK;
  switch (op[0] % 15) {
    case 9:
      wanted = naive_share(&bed->naive, page, owner, index);
      require(kc_pool_share(&bed->pool, page, owner, index) == wanted, "share", at);
      break;
    case 10:
      wanted = naive_ref(&bed->naive, page);
      require(kc_pool_ref(&bed->pool, page, &flag) == wanted, "ref", at);
      break;
    case 11:
      wanted = naive_unref(&bed->naive, page);
      require(kc_pool_unref(&bed->pool, page, &flag) == wanted, "unref", at);
      break;
    case 12:
      wanted = naive_drop(&bed->naive, page);
      require(kc_pool_drop(&bed->pool, page) == wanted, "drop", at);
      break;
    case 13:
      wanted = naive_check(&bed->naive, page, KC_OWNER_SHARED, 0);
      require(kc_pool_check(&bed->pool, page, KC_OWNER_SHARED, 0) == wanted, "shared check", at);
      break;
    default:
      wanted = naive_check(&bed->naive, page, KC_OWNER_SHARED, 0);
      require(kc_pool_audit(&bed->pool, page, KC_OWNER_SHARED, 0) == wanted, "shared audit", at);
      break;
  }
}

static void fuzz_one(struct bed *bed, const uint8_t *op, size_t at)
{
  const struct kc_page page = pair(bed, op[1], op[3]);
  const uint32_t owner = 1 + op[2] % 4, index = index_of(bed, op[1], op[3]);
  struct kc_page real = {0, 0}, plain = {0, 0};
  enum kc_err wanted = KC_OK;
  switch (op[0] % 15) {
    case 0: fuzz_alloc(bed, op, at); break;
    case 1: fuzz_free(bed, op, op[3] % BULK, at); break;
    case 2: fuzz_free(bed, op, 1, at); break;
    case 3: require(kc_pool_scrub(&bed->pool) == KC_OK, "scrub", at); break;
    case 4:
      wanted = naive_check(&bed->naive, page, owner, index);
      require(kc_pool_check(&bed->pool, page, owner, index) == wanted, "check", at);
      break;
    case 5:
      wanted = naive_quarantine(&bed->naive, page, owner, index, &plain);
      require(kc_pool_quarantine(&bed->pool, page, owner, index, &real) == wanted, "quarantine",
              at);
      require(real.id == plain.id && real.tag == plain.tag, "pair of quarantine", at);
      break;
    case 6:
      wanted = naive_release(&bed->naive, page);
      require(kc_pool_release_quarantined(&bed->pool, page) == wanted, "release", at);
      break;
    case 7:
      wanted = naive_check(&bed->naive, page, owner, index);
      require(kc_pool_audit(&bed->pool, page, owner, index) == wanted, "audit", at);
      break;
    case 8: fuzz_take(bed, op, at); break;
    default: fuzz_sharing(bed, op, at); break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct bed bed;
  static struct kc_arena arena; /* one for all inputs: mapping anew would take most of the time */
  uint64_t first[FUZZ_PAGES_MAX];
  if (size == 0) return 0;
  const uint32_t pages = 1 + data[0] % FUZZ_PAGES_MAX;
  const size_t bytes = kc_pool_need(FUZZ_PAGES_MAX);
  if (arena.base == NULL && kc_arena_init(&arena, bytes, NULL) != KC_OK) return 0;
  arena.used_bytes = 0;
  require(kc_pool_init(&bed.pool, pages, data[0], &arena) == KC_OK, "init", 0);
  bed.pool.paranoid = data[0] >= 128;
  for (uint32_t id = 0; id < pages; id++) first[id] = bed.pool.record[id].generation;
  naive_init(&bed.naive, pages, KC_TAG_BITS, first);

  for (size_t at = 1; at + 4 <= size; at += 4) {
    fuzz_one(&bed, data + at, at);
    require(bed.pool.free_count == naive_count(&bed.naive, KC_PAGE_FREE), "free count", at);
    require(bed.pool.allocations == bed.naive.allocations, "allocations", at);
    require(bed.pool.frees == bed.naive.frees, "frees", at);
    uint64_t weights;
    require(bed.pool.refs_total == naive_refs(&bed.naive, &weights), "references", at);
    require(bed.pool.refs_sum == weights, "sum of references", at);
  }
  require(kc_pool_generation_sum(&bed.pool) == naive_generation_sum(&bed.naive), "generation sum",
          size);
  require(kc_pool_scrub(&bed.pool) == KC_OK, "scrub at the end", size);
  uint32_t held = 0;
  for (uint32_t id = 0; id < pages; id++) {
    const struct naive_page *page = &bed.naive.page[id];
    held += page->state == KC_PAGE_LIVE && (page->owner != KC_OWNER_SHARED || page->refs > 0);
  }
  const bool leaked = held > 0;
  require((kc_pool_balance(&bed.pool) == KC_OK) == !leaked, "balance", size);
  return 0;
}
