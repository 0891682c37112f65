/* Random operations on the page pool and on its naive twin, compared after every step.
 *
 * Each seed draws a pool (size, paranoid or not) and the weight of every kind of operation, with
 * some kinds switched off, so that seeds explore different corners. Results, pairs, fault reports
 * and totals are compared at every step; everything, the order of the free stack included, every
 * WALK_STEPS steps. A disagreement prints seed and step; replay with --seed S --steps N.
 *
 *   test_pool_random [--ops TOTAL] [--seeds COUNT] | --seed S --steps N
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/base/random.h"
#include "tests/prop/engine_kv/naive_pool.h"
#include "tests/prop/engine_kv/quick_scale.h"

enum { OPS_DEFAULT = QUICK_SCALE(10000000) };
enum { SEEDS_DEFAULT = 64, WALK_STEPS = 10000, BULK_MAX = 12, STALE_KEPT = 64, OWNERS = 6 };
enum { PLACES = 16 }; /* rows begin here at the latest */

enum kind {
  ALLOC, FREE, FREE_MIXED, CHECK, CHECK_ODD, FREE_ODD, QUARANTINE, RELEASE, SCRUB, BALANCE, TAKE,
  SHARE, REF, UNREF, DROP, KINDS
};

struct bed {
  struct kc_pool pool;
  struct naive_pool naive;
  struct kc_arena arena;
  struct kc_random random;
  uint32_t weight[KINDS];
  uint32_t weight_sum;
  struct kc_page stale[STALE_KEPT]; /* ring of pairs that were valid once */
  uint32_t stale_next;
  struct kc_fault_report last;      /* by the hook */
  uint64_t reports, reports_expected;
  uint32_t moves, moves_expected;
  uint64_t seed, step;
  const char *wrong;                /* first disagreement of the step */
};

static void on_fault(void *context, const struct kc_fault_report *report)
{
  struct bed *bed = context;
  bed->last = *report;
  bed->reports++;
}

static void on_move(void *context, uint32_t owner)
{
  struct bed *bed = context;
  bed->moves += owner != 0;
}

static void expect(struct bed *bed, bool holds, const char *what)
{
  if (!holds && bed->wrong == NULL) bed->wrong = what;
}

static uint32_t below(struct bed *bed, uint32_t bound)
{
  return (uint32_t)kc_random_below(&bed->random, bound);
}

/* A code came back for `page`: was the hook told the same, once, with the true tags? */
static void expect_report(struct bed *bed, enum kc_err code, struct kc_page page)
{
  if (code == KC_OK) return;
  const bool inside = page.id < bed->naive.page_count;
  const struct naive_page *truth = &bed->naive.page[inside ? page.id : 0];
  bed->reports_expected++;
  expect(bed, bed->reports == bed->reports_expected, "the hook is called once per fault");
  expect(bed, bed->last.code == code, "code in the report");
  expect(bed, bed->last.page == page.id, "page in the report");
  expect(bed, bed->last.found_tag == page.tag, "found tag in the report");
  expect(bed, bed->last.owner == (inside ? truth->owner : 0), "owner in the report");
  expect(bed, bed->last.expected_tag == (inside ? naive_tag(&bed->naive, truth->generation) : 0),
         "expected tag in the report");
}

static void remember(struct bed *bed, struct kc_page page)
{
  bed->stale[bed->stale_next++ % STALE_KEPT] = page;
}

/* The pair of a page as it is now, whatever its state. */
static struct kc_page pair_now(const struct bed *bed, uint32_t id)
{
  return (struct kc_page){id, naive_tag(&bed->naive, bed->naive.page[id].generation)};
}

/* A pair that may be anything: valid, stale, of a free page, with a tag nearby, out of range. */
static struct kc_page odd_pair(struct bed *bed)
{
  const uint32_t count = bed->naive.page_count;
  struct kc_page page = pair_now(bed, below(bed, count));
  switch (below(bed, 6)) {
    case 0: page.id = count + below(bed, 3); break;
    case 1: page.id = (uint32_t)kc_random_u64(&bed->random); break;
    case 2: page.tag += below(bed, 5) - 2; break;
    case 3: page.tag = (uint32_t)kc_random_u64(&bed->random); break;
    case 4: page = bed->stale[below(bed, STALE_KEPT)]; break;
    default: break;
  }
  return page;
}

static uint32_t odd_owner(struct bed *bed, struct kc_page page)
{
  const uint32_t owner = page.id < bed->naive.page_count ? bed->naive.page[page.id].owner : 0;
  if (owner != 0 && owner != KC_OWNER_SHARED && below(bed, 2) == 0) return owner;
  return 1 + below(bed, OWNERS);
}

/* The place of a page, and now and then another. */
static uint32_t odd_index(struct bed *bed, struct kc_page page)
{
  const bool inside = page.id < bed->naive.page_count && below(bed, 4) != 0;
  return inside ? bed->naive.page[page.id].index : below(bed, PLACES);
}

/* ---- operations: each on both pools ---- */

static void do_alloc(struct bed *bed)
{
  struct kc_page real[BULK_MAX], plain[BULK_MAX];
  const uint32_t count = below(bed, BULK_MAX + 1), owner = 1 + below(bed, OWNERS);
  const uint32_t first = below(bed, PLACES);
  const bool one = count == 1 && below(bed, 2) == 0;
  const bool got = one ? kc_pool_alloc_one(&bed->pool, owner, first, real)
                       : kc_pool_alloc(&bed->pool, count, owner, first, real);
  const bool wanted = naive_alloc(&bed->naive, count, owner, first, plain);
  expect(bed, got == wanted, "alloc succeeds");
  if (!got || !wanted) return;
  for (uint32_t i = 0; i < count; i++) {
    expect(bed, real[i].id == plain[i].id, "page of alloc");
    expect(bed, real[i].tag == plain[i].tag, "tag of alloc");
    remember(bed, real[i]);
  }
}

static void do_take(struct bed *bed)
{
  struct kc_page real = {0, 0}, plain = {0, 0};
  const uint32_t owner = 1 + below(bed, OWNERS), index = below(bed, PLACES);
  const uint32_t id = naive_find(&bed->naive, KC_PAGE_FREE, below(bed, bed->naive.page_count));
  if (id == KC_PAGE_NONE) return;
  expect(bed, naive_take(&bed->naive, id, owner, index, &plain), "twin takes");
  expect(bed, kc_pool_take(&bed->pool, id, owner, index, &real), "take succeeds");
  expect(bed, real.id == plain.id && real.tag == plain.tag, "pair of take");
  remember(bed, real);
}

static void free_both(struct bed *bed, const struct kc_page *pages, uint32_t count, uint32_t owner,
                      uint32_t first)
{
  uint32_t freed = UINT32_MAX, wanted_freed;
  const enum kc_err wanted = naive_free(&bed->naive, pages, count, owner, first, &wanted_freed);
  const enum kc_err got = kc_pool_free(&bed->pool, pages, count, owner, first, &freed);
  bed->moves_expected += wanted_freed > 0;
  expect(bed, got == wanted, "code of free");
  expect(bed, freed == wanted_freed, "count of freed pages");
  if (wanted != KC_OK) expect_report(bed, wanted, pages[count - 1 - wanted_freed]);
}

/* A live page of one owner from `start` on; KC_PAGE_NONE when there is none. */
static uint32_t find_owned(const struct bed *bed, uint32_t start)
{
  for (uint32_t i = 0; i < bed->naive.page_count; i++) {
    const uint32_t id = (start + i) % bed->naive.page_count;
    const struct naive_page *page = &bed->naive.page[id];
    if (page->state == KC_PAGE_LIVE && page->owner != KC_OWNER_SHARED) return id;
  }
  return KC_PAGE_NONE;
}

static uint32_t find_at(const struct bed *bed, uint32_t owner, uint32_t index)
{
  for (uint32_t id = 0; id < bed->naive.page_count; id++) {
    const struct naive_page *page = &bed->naive.page[id];
    if (page->state == KC_PAGE_LIVE && page->owner == owner && page->index == index) return id;
  }
  return KC_PAGE_NONE;
}

/* Up to BULK_MAX live pages of one owner, in their places from *first on. */
static uint32_t some_of_one_owner(struct bed *bed, struct kc_page *pages, uint32_t *owner,
                                  uint32_t *first)
{
  uint32_t id = find_owned(bed, below(bed, bed->naive.page_count));
  uint32_t count = 0;
  const uint32_t wanted = 1 + below(bed, BULK_MAX);
  if (id == KC_PAGE_NONE) return 0;
  *owner = bed->naive.page[id].owner;
  *first = bed->naive.page[id].index;
  while (count < wanted && id != KC_PAGE_NONE) {
    pages[count++] = pair_now(bed, id);
    id = find_at(bed, *owner, *first + count);
  }
  return count;
}

static void do_free(struct bed *bed, bool mixed)
{
  struct kc_page pages[BULK_MAX];
  uint32_t owner, first;
  const uint32_t count = some_of_one_owner(bed, pages, &owner, &first);
  if (count == 0) return;
  if (mixed) pages[below(bed, count)] = below(bed, 2) == 0 ? odd_pair(bed) : pages[0];
  free_both(bed, pages, count, owner, first);
}

/* Sharing: mostly of a page in the right state, now and then of any. */
static struct kc_page shared_pair(struct bed *bed)
{
  const uint32_t start = below(bed, bed->naive.page_count);
  for (uint32_t i = 0; i < bed->naive.page_count && below(bed, 64) != 0; i++) {
    const uint32_t id = (start + i) % bed->naive.page_count;
    if (bed->naive.page[id].owner == KC_OWNER_SHARED) return pair_now(bed, id);
  }
  return odd_pair(bed);
}

static void do_share(struct bed *bed)
{
  const uint32_t id = find_owned(bed, below(bed, bed->naive.page_count));
  const bool odd = id == KC_PAGE_NONE || below(bed, 4) == 0;
  const struct kc_page page = odd ? odd_pair(bed) : pair_now(bed, id);
  const uint32_t owner = odd ? odd_owner(bed, page) : bed->naive.page[id].owner;
  const uint32_t index = odd ? odd_index(bed, page) : bed->naive.page[id].index;
  const enum kc_err wanted = naive_share(&bed->naive, page, owner, index);
  expect(bed, kc_pool_share(&bed->pool, page, owner, index) == wanted, "code of share");
  expect_report(bed, wanted, page);
}

static void do_ref(struct bed *bed)
{
  bool was_idle = true;
  const struct kc_page page = shared_pair(bed);
  const bool idle = page.id < bed->naive.page_count && bed->naive.page[page.id].refs == 0;
  const enum kc_err wanted = naive_ref(&bed->naive, page);
  expect(bed, kc_pool_ref(&bed->pool, page, &was_idle) == wanted, "code of ref");
  expect(bed, was_idle == (wanted == KC_OK && idle), "ref says that it was idle");
  expect_report(bed, wanted, page);
}

static void do_unref(struct bed *bed)
{
  bool is_idle = true;
  const struct kc_page page = shared_pair(bed);
  const enum kc_err wanted = naive_unref(&bed->naive, page);
  expect(bed, kc_pool_unref(&bed->pool, page, &is_idle) == wanted, "code of unref");
  expect(bed, is_idle == (wanted == KC_OK && bed->naive.page[page.id].refs == 0),
         "unref says that it is idle");
  expect_report(bed, wanted, page);
}

static void do_drop(struct bed *bed)
{
  const struct kc_page page = shared_pair(bed);
  const enum kc_err wanted = naive_drop(&bed->naive, page);
  expect(bed, kc_pool_drop(&bed->pool, page) == wanted, "code of drop");
  expect_report(bed, wanted, page);
}

static void do_check(struct bed *bed, struct kc_page page)
{
  const uint32_t owner = below(bed, 3) == 0 ? KC_OWNER_SHARED : odd_owner(bed, page);
  const uint32_t index = odd_index(bed, page);
  const enum kc_err wanted = naive_check(&bed->naive, page, owner, index);
  const enum kc_err got = below(bed, 2) == 0 ? kc_pool_check(&bed->pool, page, owner, index)
                                             : kc_pool_audit(&bed->pool, page, owner, index);
  expect(bed, got == wanted, "code of check");
  expect_report(bed, wanted, page);
}

static void do_quarantine(struct bed *bed)
{
  const bool odd = below(bed, 3) == 0;
  const uint32_t id = find_owned(bed, below(bed, bed->naive.page_count));
  if (id == KC_PAGE_NONE) return;
  const struct kc_page page = odd ? odd_pair(bed) : pair_now(bed, id);
  const uint32_t owner = odd ? odd_owner(bed, page) : bed->naive.page[id].owner;
  const uint32_t index = odd ? odd_index(bed, page) : bed->naive.page[id].index;
  struct kc_page real = {0, 0}, plain = {0, 0};
  const enum kc_err wanted = naive_quarantine(&bed->naive, page, owner, index, &plain);
  const enum kc_err got = kc_pool_quarantine(&bed->pool, page, owner, index, &real);
  expect(bed, got == wanted, "code of quarantine");
  expect_report(bed, wanted, page);
  if (wanted != KC_OK) return;
  expect(bed, real.id == plain.id && real.tag == plain.tag, "pair of quarantine");
  bed->moves_expected++;
  remember(bed, plain);
}

static void do_release(struct bed *bed)
{
  const uint32_t start = below(bed, bed->naive.page_count);
  const uint32_t id = naive_find(&bed->naive, KC_PAGE_QUARANTINE, start);
  const bool odd = id == KC_PAGE_NONE || below(bed, 3) == 0;
  const struct kc_page page = odd ? odd_pair(bed) : pair_now(bed, id);
  const enum kc_err wanted = naive_release(&bed->naive, page);
  const enum kc_err got = kc_pool_release_quarantined(&bed->pool, page);
  expect(bed, got == wanted, "code of release");
  expect_report(bed, wanted, page);
}

static void do_balance(struct bed *bed)
{
  uint32_t leaked = 0;
  while (leaked < bed->naive.page_count) {
    const struct naive_page *page = &bed->naive.page[leaked];
    const bool idle = page->owner == KC_OWNER_SHARED && page->refs == 0;
    if (page->state == KC_PAGE_LIVE && !idle) break;
    leaked++;
  }
  if (leaked == bed->naive.page_count) leaked = KC_PAGE_NONE;
  const enum kc_err wanted = leaked == KC_PAGE_NONE ? KC_OK : KC_ERR_LEAK;
  expect(bed, kc_pool_balance(&bed->pool) == wanted, "code of balance");
  if (wanted != KC_OK) expect_report(bed, wanted, (struct kc_page){leaked, 0});
}

static void do_one(struct bed *bed, enum kind kind)
{
  struct kc_page page;
  switch (kind) {
    case ALLOC: do_alloc(bed); break;
    case FREE: do_free(bed, false); break;
    case FREE_MIXED: do_free(bed, true); break;
    case CHECK:
      page = pair_now(bed, below(bed, bed->naive.page_count));
      do_check(bed, page);
      break;
    case CHECK_ODD: do_check(bed, odd_pair(bed)); break;
    case FREE_ODD:
      page = odd_pair(bed);
      free_both(bed, &page, 1, odd_owner(bed, page), odd_index(bed, page));
      break;
    case QUARANTINE: do_quarantine(bed); break;
    case RELEASE: do_release(bed); break;
    case SCRUB: expect(bed, kc_pool_scrub(&bed->pool) == KC_OK, "scrub of a sound pool"); break;
    case BALANCE: do_balance(bed); break;
    case TAKE: do_take(bed); break;
    case SHARE: do_share(bed); break;
    case REF: do_ref(bed); break;
    case UNREF: do_unref(bed); break;
    case DROP: do_drop(bed); break;
    case KINDS: break;
  }
}

/* ---- comparison ---- */

static void compare_totals(struct bed *bed)
{
  const struct kc_pool *pool = &bed->pool;
  const uint32_t live = naive_count(&bed->naive, KC_PAGE_LIVE);
  const uint32_t quarantined = naive_count(&bed->naive, KC_PAGE_QUARANTINE);
  uint64_t weights;
  const uint64_t refs = naive_refs(&bed->naive, &weights);
  expect(bed, pool->refs_total == refs, "references");
  expect(bed, pool->refs_sum == weights, "sum of references");
  expect(bed, pool->shared_count == naive_count_shared(&bed->naive, false), "shared pages");
  expect(bed, pool->idle_count == naive_count_shared(&bed->naive, true), "idle pages");
  expect(bed, pool->free_count == pool->page_count - live - quarantined, "free count");
  expect(bed, pool->quarantine_count == quarantined, "quarantine count");
  expect(bed, pool->allocations == bed->naive.allocations, "allocations");
  expect(bed, pool->frees == bed->naive.frees, "frees");
  expect(bed, pool->faults == bed->reports_expected, "faults");
  expect(bed, bed->reports == bed->reports_expected, "reports");
  expect(bed, bed->moves == bed->moves_expected, "calls of the move hook");
}

static void walk(struct bed *bed)
{
  const struct kc_pool *pool = &bed->pool;
  for (uint32_t id = 0; id < pool->page_count; id++) {
    const struct kc_page_record *record = &pool->record[id];
    const struct naive_page *truth = &bed->naive.page[id];
    uint32_t link = 0;
    if (truth->state == KC_PAGE_FREE) link = naive_stack_position(&bed->naive, id);
    if (truth->state == KC_PAGE_LIVE) link = truth->index;
    if (truth->owner == KC_OWNER_SHARED) link = truth->refs;
    expect(bed, record->generation == truth->generation, "walk: generation");
    expect(bed, kc_page_state_of(record) == truth->state, "walk: state");
    expect(bed, kc_page_owner_of(record) == truth->owner, "walk: owner");
    expect(bed, kc_page_link_of(record) == link, "walk: link");
    expect(bed, (record->generation & 1) == (truth->state == KC_PAGE_LIVE), "walk: parity");
    if (truth->state != KC_PAGE_FREE) continue;
    const struct kc_page entry = pool->stack[link];
    expect(bed, entry.id == id, "walk: order of the free stack");
    expect(bed, entry.tag == naive_tag(&bed->naive, truth->generation), "walk: tag on the stack");
  }
  expect(bed, kc_pool_generation_sum(pool) == naive_generation_sum(&bed->naive),
         "walk: generation sum");
  expect(bed, kc_pool_scrub(&bed->pool) == KC_OK, "walk: scrub");
}

/* ---- runs ---- */

static void draw_weights(struct bed *bed)
{
  static const uint32_t usual[KINDS] = {30, 25, 4, 8, 8, 6, 5, 5, 1, 1, 8, 12, 10, 18, 12};
  bed->weight_sum = 0;
  for (int kind = 0; kind < KINDS; kind++) {
    const bool off = kind != ALLOC && below(bed, 4) == 0;
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
  static const uint32_t sizes[] = {1, 2, 3, 8, 16, 16, 24, 32, 48, 64, 100, NAIVE_PAGES_MAX};
  uint64_t first[NAIVE_PAGES_MAX];
  memset(bed, 0, sizeof *bed);
  bed->seed = seed;
  kc_random_init(&bed->random, seed, "pool-random", 0);
  const uint32_t pages = sizes[below(bed, sizeof sizes / sizeof *sizes)];
  if (kc_arena_init(&bed->arena, kc_pool_need(pages), NULL) != KC_OK) return false;
  if (kc_pool_init(&bed->pool, pages, seed, &bed->arena) != KC_OK) return false;
  for (uint32_t id = 0; id < pages; id++) first[id] = bed->pool.record[id].generation;
  naive_init(&bed->naive, pages, KC_TAG_BITS, first);
  bed->pool.paranoid = below(bed, 3) == 0;
  bed->pool.hook = on_fault;
  bed->pool.hook_context = bed;
  bed->pool.moved = on_move;
  bed->pool.moved_context = bed;
  draw_weights(bed);
  return true;
}

static bool run_seed(uint64_t seed, uint64_t steps)
{
  static struct bed bed;
  if (!set_up(&bed, seed)) {
    fprintf(stderr, "seed=%" PRIu64 ": no memory for the pool\n", seed);
    return false;
  }
  for (bed.step = 1; bed.step <= steps && bed.wrong == NULL; bed.step++) {
    do_one(&bed, draw_kind(&bed));
    compare_totals(&bed);
    if (bed.step % WALK_STEPS == 0 || bed.step == steps) walk(&bed);
    if (bed.wrong != NULL) {
      fprintf(stderr, "seed=%" PRIu64 " step=%" PRIu64 ": the twins disagree: %s\n"
              "replay: test_pool_random --seed %" PRIu64 " --steps %" PRIu64 "\n",
              seed, bed.step, bed.wrong, seed, bed.step);
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
  if (seed != 0) return run_seed(seed, option(argc, argv, "--steps", 1000000)) ? 0 : 1;
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
