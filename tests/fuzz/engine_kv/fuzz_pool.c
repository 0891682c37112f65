/* Page pool op-stream: every four bytes are one operation {kind, a, b, c} on the pool and on its
 * naive twin, which must agree on results and totals; the pool must scrub clean at the end.
 *
 *   byte 0 of the input: pages (1 + value mod 48) and, in the top bit, paranoid mode
 *   kind mod 8: 0 alloc a mod 16 pages for owner b          4 check
 *               1 free of the pages [a, a + c mod 16)       5 quarantine
 *               2 free of one pair                          6 release from quarantine
 *               3 scrub                                     7 audit
 * The pair of kinds 1, 2, 4 .. 7 is that of page a as it is now, its tag moved by (c mod 8) - 3 and
 * its id out of range when a is. */
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

static void fuzz_alloc(struct bed *bed, const uint8_t *op, size_t at)
{
  struct kc_page real[BULK], plain[BULK];
  const uint32_t count = op[1] % BULK, owner = 1 + op[2] % 4;
  const bool got = kc_pool_alloc(&bed->pool, count, owner, real);
  require(got == naive_alloc(&bed->naive, count, owner, plain), "alloc", at);
  for (uint32_t i = 0; got && i < count; i++) {
    require(real[i].id == plain[i].id && real[i].tag == plain[i].tag, "pair of alloc", at);
  }
}

static void fuzz_free(struct bed *bed, const uint8_t *op, uint32_t count, size_t at)
{
  struct kc_page pages[BULK];
  uint32_t freed = 0, plain_freed = 0;
  const uint32_t owner = 1 + op[2] % 4;
  for (uint32_t i = 0; i < count; i++) {
    pages[i] = pair(bed, op[1] + i, count > 1 ? 3 : op[3]);
  }
  const enum kc_err wanted = naive_free(&bed->naive, pages, count, owner, &plain_freed);
  require(kc_pool_free(&bed->pool, pages, count, owner, &freed) == wanted, "free", at);
  require(freed == plain_freed, "count of freed pages", at);
}

static void fuzz_one(struct bed *bed, const uint8_t *op, size_t at)
{
  const struct kc_page page = pair(bed, op[1], op[3]);
  const uint32_t owner = 1 + op[2] % 4;
  struct kc_page real = {0, 0}, plain = {0, 0};
  enum kc_err wanted = KC_OK;
  switch (op[0] % 8) {
    case 0: fuzz_alloc(bed, op, at); break;
    case 1: fuzz_free(bed, op, op[3] % BULK, at); break;
    case 2: fuzz_free(bed, op, 1, at); break;
    case 3: require(kc_pool_scrub(&bed->pool) == KC_OK, "scrub", at); break;
    case 4:
      wanted = naive_check(&bed->naive, page, owner);
      require(kc_pool_check(&bed->pool, page, owner) == wanted, "check", at);
      break;
    case 5:
      wanted = naive_quarantine(&bed->naive, page, owner, &plain);
      require(kc_pool_quarantine(&bed->pool, page, owner, &real) == wanted, "quarantine", at);
      require(real.id == plain.id && real.tag == plain.tag, "pair of quarantine", at);
      break;
    case 6:
      wanted = naive_release(&bed->naive, page);
      require(kc_pool_release_quarantined(&bed->pool, page) == wanted, "release", at);
      break;
    default:
      wanted = naive_check(&bed->naive, page, owner);
      require(kc_pool_audit(&bed->pool, page, owner) == wanted, "audit", at);
      break;
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
  }
  require(kc_pool_generation_sum(&bed.pool) == naive_generation_sum(&bed.naive), "generation sum",
          size);
  require(kc_pool_scrub(&bed.pool) == KC_OK, "scrub at the end", size);
  const bool leaked = naive_find(&bed.naive, KC_PAGE_LIVE, 0) != KC_PAGE_NONE;
  require((kc_pool_balance(&bed.pool) == KC_OK) == !leaked, "balance", size);
  return 0;
}
