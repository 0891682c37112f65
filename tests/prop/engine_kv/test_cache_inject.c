/* Injected faults in shared pages: every class must be seen, in the right rows, with the right
 * code, and in no other row; afterwards the books must come right and no page may be lost.
 *
 * Each trial builds a fresh pool, table and cache and fills it: some rows at random, then
 *
 *   row FIRST   a whole content, published, and a page of its own
 *   row SECOND  the beginning of the same content from the cache, the rest its own pages
 *   row THIRD   another content, partly published
 *   row TAKER   empty: whoever is handed what was evicted
 *
 *   test_cache_inject [--faults PER_CLASS] [--seed S] [--class NAME]
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/kv/prefix_cache.h"
#include "tests/prop/engine_kv/cache_content.h"
#include "tests/prop/engine_kv/quick_scale.h"

enum { FAULTS_DEFAULT = QUICK_SCALE(10000) };
enum { FIRST, SECOND, THIRD, TAKER, OTHERS, SLOTS = OTHERS + 3, PAGES = 96, LONGEST = 10 };
enum { TEXTS = 24, ROW = CONTENT_PAGES_MAX };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_prefix_cache cache;
  struct kc_arena arena;
  struct kc_random random;
  struct cache_library library;
  uint32_t text[SLOTS];
  struct kc_fault_report last;
  uint64_t reports;
};

static void on_fault(void *context, const struct kc_fault_report *report)
{
  struct bed *bed = context;
  bed->last = *report;
  bed->reports++;
}

static uint32_t below(struct bed *bed, uint32_t bound)
{
  return (uint32_t)kc_random_below(&bed->random, bound);
}

static struct kc_page *row_of(const struct bed *bed, uint32_t slot)
{
  return kc_table_row(&bed->table, slot);
}

static const struct kc_content *content_of(const struct bed *bed, uint32_t slot)
{
  return &bed->library.content[bed->text[slot]];
}

static uint32_t key_at(const struct bed *bed, uint32_t slot, uint32_t index)
{
  return bed->library.key[bed->text[slot]][index];
}

/* ---- filling ---- */

static bool admit(struct bed *bed, uint32_t slot, uint32_t text, uint32_t match_max,
                  uint32_t extent)
{
  const struct kc_content *content = &bed->library.content[text];
  const struct kc_cache_match match = kc_prefix_cache_match(&bed->cache, content, match_max);
  bed->text[slot] = text;
  kc_prefix_cache_attach(&bed->cache, slot, content, &match);
  return match.pages >= extent ||
         kc_prefix_cache_grow(&bed->cache, slot, extent - match.pages);
}

static bool admit_any(struct bed *bed, uint32_t slot)
{
  const uint32_t text = below(bed, TEXTS), length = bed->library.text[text].length;
  if (!admit(bed, slot, text, below(bed, length + 1), length)) return false;
  const uint32_t from = bed->table.shared[slot];
  kc_prefix_cache_publish(&bed->cache, slot, content_of(bed, slot),
                          from + below(bed, length - from + 1));
  return true;
}

/* A text of two pages or more with which no other goes on. */
static uint32_t some_final_text(struct bed *bed)
{
  for (uint32_t i = 0, start = below(bed, TEXTS); i < TEXTS; i++) {
    const uint32_t t = (start + i) % TEXTS;
    const struct cache_text *text = &bed->library.text[t];
    bool final = text->length >= 2;
    for (uint32_t other = 0; other < TEXTS; other++) {
      const struct cache_text *longer = &bed->library.text[other];
      if (longer->length > text->length && cache_text_same(text, longer, text->length)) {
        final = false;
      }
    }
    if (final) return t;
  }
  return 0;
}

static bool fill(struct bed *bed)
{
  for (uint32_t i = 0; i < 6; i++) {
    const uint32_t slot = OTHERS + below(bed, SLOTS - OTHERS);
    if (kc_prefix_cache_release(&bed->cache, slot) != KC_OK || !admit_any(bed, slot)) return false;
  }
  const uint32_t text = some_final_text(bed), length = bed->library.text[text].length;
  if (!admit(bed, FIRST, text, length, length + 1)) return false;
  kc_prefix_cache_publish(&bed->cache, FIRST, content_of(bed, FIRST), length);
  if (!admit(bed, SECOND, text, 1 + below(bed, length), length + 2)) return false;
  return admit_any(bed, THIRD) && kc_prefix_cache_grow(&bed->cache, THIRD, 1);
}

/* The library, and so the memory that is needed, stays the same for a thousand trials. */
static bool set_up(struct bed *bed, enum kc_cache_kind kind)
{
  memset(bed->arena.base, 0, bed->arena.used_bytes);
  bed->arena.used_bytes = 0;
  bed->reports = 0;
  if (kc_pool_init(&bed->pool, PAGES, kc_random_u64(&bed->random), &bed->arena) != KC_OK ||
      kc_table_init(&bed->table, SLOTS, ROW, &bed->arena) != KC_OK ||
      kc_prefix_cache_init(&bed->cache, kind, &bed->pool, &bed->table, bed->library.key_count,
                           &bed->arena) != KC_OK) {
    return false;
  }
  bed->pool.hook = on_fault;
  bed->pool.hook_context = bed;
  bed->pool.paranoid = below(bed, 4) == 0;
  kc_table_watch(&bed->table, &bed->pool);
  return fill(bed);
}

/* ---- what trials claim ---- */

/* Rows that name page `id` as shared. */
static uint32_t rows_naming(const struct bed *bed, uint32_t id)
{
  uint32_t rows = 0;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    for (uint32_t i = 0; i < bed->table.shared[slot]; i++) {
      if (row_of(bed, slot)[i].id == id) rows |= UINT32_C(1) << slot;
    }
  }
  return rows;
}

static enum kc_err check_row(struct bed *bed, uint32_t slot, uint32_t *at)
{
  return kc_prefix_cache_check_row(&bed->cache, slot, content_of(bed, slot), at);
}

/* Exactly the rows of the mask fail, each with this code and one report. */
static bool only_these(struct bed *bed, uint32_t rows, enum kc_err code)
{
  bool right = true;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const bool bad = (rows >> slot & 1) != 0;
    bed->reports = 0;
    const enum kc_err got = check_row(bed, slot, NULL);
    right &= got == (bad ? code : KC_OK) && bed->reports == bad;
    right &= !bad || bed->last.code == code;
  }
  bed->reports = 0;
  return right;
}

static bool suspect(const struct bed *bed) { return kc_prefix_cache_suspect(&bed->cache); }

static bool told(struct bed *bed, enum kc_err got, enum kc_err code, uint32_t page)
{
  const bool right =
      got == code && bed->reports == 1 && bed->last.code == code && bed->last.page == page;
  bed->reports = 0;
  return right;
}

/* Releases the rows of the mask (which fault) and then all others (which do not); nothing is left.
 * */
static bool comes_right(struct bed *bed, uint32_t faulty)
{
  bool right = true;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    if ((faulty >> slot & 1) == 0) continue;
    right &= kc_prefix_cache_release(&bed->cache, slot) != KC_OK;
  }
  right &= !suspect(bed) && kc_prefix_cache_valid(&bed->cache) && only_these(bed, 0, KC_OK);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    right &= kc_prefix_cache_release(&bed->cache, slot) == KC_OK;
  }
  return right && kc_prefix_cache_valid(&bed->cache) &&
         kc_prefix_cache_balance(&bed->cache) == KC_OK && kc_pool_scrub(&bed->pool) == KC_OK &&
         bed->pool.free_count == PAGES && bed->reports == 0;
}

/* ---- references ---- */

/* A page in use is evicted and handed on: everybody who shares it holds a stale pair. */
static bool stale_sharer(struct bed *bed)
{
  const struct kc_page last = row_of(bed, FIRST)[bed->table.shared[FIRST] - 1];
  const uint32_t rows = rows_naming(bed, last.id);
  if (!kc_prefix_cache_expel(&bed->cache, FIRST) || !suspect(bed)) return false;
  if (below(bed, 2) == 0) { /* handed on, or still free */
    if (!kc_prefix_cache_grow(&bed->cache, TAKER, 1 + below(bed, 3))) return false;
  }
  return only_these(bed, rows, KC_ERR_TAG_STALE) && comes_right(bed, rows);
}

/* The first shared page of the row that no other row names; or `shared`. */
static uint32_t first_alone(const struct bed *bed, uint32_t slot)
{
  uint32_t i = 0;
  const uint32_t self = UINT32_C(1) << slot;
  while (i < bed->table.shared[slot] && rows_naming(bed, row_of(bed, slot)[i].id) != self) i++;
  return i;
}

/* A reference is given back twice. As soon as that leaves a page without any, its reader is told,
 * whether the page is idle, free, or somebody else's by then. */
static bool lost_reference(struct bed *bed)
{
  const uint32_t slot = below(bed, 2), alone = first_alone(bed, slot);
  const uint32_t rows = alone < bed->table.shared[slot] ? UINT32_C(1) << slot : 0;
  kc_prefix_cache_lose(&bed->cache, slot);
  if (!suspect(bed) || !only_these(bed, rows, KC_ERR_TAG_OWNER)) return false;
  if (below(bed, 2) == 0) {
    kc_prefix_cache_clear(&bed->cache);
    if (!kc_prefix_cache_grow(&bed->cache, TAKER, below(bed, 4))) return false;
    if (!only_these(bed, rows, KC_ERR_TAG_STALE)) return false;
  }
  bed->reports = 0;
  if ((kc_prefix_cache_release(&bed->cache, slot) == KC_OK) != (rows == 0)) return false;
  kc_prefix_cache_mend(&bed->cache);
  bed->reports = 0;
  return comes_right(bed, 0);
}

/* No reader is wrong, but the pages would never come back. */
static bool doubled_reference(struct bed *bed)
{
  const struct kc_page page = row_of(bed, FIRST)[0];
  bool right = true;
  kc_prefix_cache_double(&bed->cache, FIRST);
  if (!suspect(bed) || !only_these(bed, 0, KC_OK)) return false;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    right &= kc_prefix_cache_release(&bed->cache, slot) == KC_OK;
  }
  if (!right || !suspect(bed)) return false;
  if (kc_prefix_cache_balance(&bed->cache) != KC_ERR_LEAK || bed->reports != 1) return false;
  if (kc_page_link_of(&bed->pool.record[page.id]) != 1) return false;
  bed->reports = 0;
  kc_prefix_cache_mend(&bed->cache);
  return comes_right(bed, 0);
}

static bool dropped_in_use(struct bed *bed)
{
  const struct kc_page page = row_of(bed, FIRST)[below(bed, bed->table.shared[FIRST])];
  return told(bed, kc_pool_drop(&bed->pool, page), KC_ERR_TAG_OWNER, page.id) &&
         !suspect(bed) && only_these(bed, 0, KC_OK) && comes_right(bed, 0);
}

/* One release too many, when nobody has the page. */
static bool unref_of_idle(struct bed *bed)
{
  const struct kc_page page = row_of(bed, FIRST)[bed->table.shared[FIRST] - 1];
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    if (kc_prefix_cache_release(&bed->cache, slot) != KC_OK) return false;
  }
  if (!told(bed, kc_pool_unref(&bed->pool, page, NULL), KC_ERR_DOUBLE_FREE, page.id)) return false;
  kc_prefix_cache_clear(&bed->cache);
  return told(bed, kc_pool_unref(&bed->pool, page, NULL), KC_ERR_DOUBLE_FREE, page.id) &&
         comes_right(bed, 0);
}

static bool shared_twice(struct bed *bed)
{
  const uint32_t at = below(bed, bed->table.shared[FIRST]);
  const struct kc_page page = row_of(bed, FIRST)[at];
  return told(bed, kc_pool_share(&bed->pool, page, kc_table_owner(FIRST), at), KC_ERR_TAG_OWNER,
              page.id) &&
         comes_right(bed, 0);
}

/* A row is read after its release; meanwhile its pages went to the cache, were evicted, and partly
 * handed on. */
static bool reuse_after_eviction(struct bed *bed)
{
  struct kc_page kept[ROW];
  const uint32_t extent = bed->table.extent[FIRST], shared = bed->table.shared[FIRST];
  memcpy(kept, row_of(bed, FIRST), extent * sizeof kept[0]);
  if (kc_prefix_cache_release(&bed->cache, FIRST) != KC_OK) return false;
  const bool evicted = below(bed, 2) == 0;
  bool idle = false; /* some page of it is in nobody's row now */
  for (uint32_t i = 0; i < shared; i++) idle |= rows_naming(bed, kept[i].id) == 0;
  if (evicted) {
    kc_prefix_cache_clear(&bed->cache);
    if (!kc_prefix_cache_grow(&bed->cache, TAKER, below(bed, 6))) return false;
  }
  memcpy(row_of(bed, FIRST), kept, extent * sizeof kept[0]);
  bed->table.extent[FIRST] = extent;
  bed->table.shared[FIRST] = shared;
  /* Idle pages still hold what they held, but not for this row; own ones are free already. */
  const enum kc_err code = evicted || !idle ? KC_ERR_TAG_STALE : KC_ERR_TAG_OWNER;
  const bool seen = only_these(bed, UINT32_C(1) << FIRST, code);
  bed->table.extent[FIRST] = 0;
  bed->table.shared[FIRST] = 0;
  return seen && comes_right(bed, 0);
}

/* ---- entries in the wrong place ---- */

static void swap(struct kc_page *a, struct kc_page *b)
{
  const struct kc_page kept = *a;
  *a = *b;
  *b = kept;
}

/* Two shared entries whose pages hold different things. */
static bool swapped_shared(struct bed *bed)
{
  const uint32_t i = below(bed, bed->table.shared[FIRST]);
  const uint32_t j = below(bed, bed->table.shared[SECOND]);
  if (key_at(bed, FIRST, i) == key_at(bed, SECOND, j)) return true; /* no fault */
  uint32_t at_first = ROW, at_second = ROW;
  swap(&row_of(bed, FIRST)[i], &row_of(bed, SECOND)[j]);
  const bool seen = check_row(bed, FIRST, &at_first) == KC_ERR_TAG_OWNER && at_first == i &&
                    check_row(bed, SECOND, &at_second) == KC_ERR_TAG_OWNER && at_second == j &&
                    only_these(bed, 1u << FIRST | 1u << SECOND, KC_ERR_TAG_OWNER);
  swap(&row_of(bed, FIRST)[i], &row_of(bed, SECOND)[j]);
  return seen && comes_right(bed, 0);
}

/* Two entries of which at least one is a row's own. */
static bool swapped_own(struct bed *bed)
{
  const uint32_t own = bed->table.shared[SECOND];
  const uint32_t i = below(bed, bed->table.extent[FIRST]);
  const uint32_t j = own + below(bed, bed->table.extent[SECOND] - own);
  uint32_t at_first = ROW, at_second = ROW;
  swap(&row_of(bed, FIRST)[i], &row_of(bed, SECOND)[j]);
  const bool seen = check_row(bed, FIRST, &at_first) == KC_ERR_TAG_OWNER && at_first == i &&
                    check_row(bed, SECOND, &at_second) == KC_ERR_TAG_OWNER && at_second == j &&
                    only_these(bed, 1u << FIRST | 1u << SECOND, KC_ERR_TAG_OWNER);
  swap(&row_of(bed, FIRST)[i], &row_of(bed, SECOND)[j]);
  return seen && comes_right(bed, 0);
}

static bool swapped_within(struct bed *bed)
{
  const uint32_t slot = below(bed, 2), extent = bed->table.extent[slot];
  const uint32_t i = below(bed, extent), j = (i + 1 + below(bed, extent - 1)) % extent;
  uint32_t at = ROW;
  swap(&row_of(bed, slot)[i], &row_of(bed, slot)[j]);
  const bool seen = check_row(bed, slot, &at) == KC_ERR_TAG_OWNER && at == (i < j ? i : j) &&
                    only_these(bed, UINT32_C(1) << slot, KC_ERR_TAG_OWNER);
  swap(&row_of(bed, slot)[i], &row_of(bed, slot)[j]);
  return seen && comes_right(bed, 0);
}

/* The right pair, by the right owner, for another place of the row. */
static bool wrong_index(struct bed *bed)
{
  const uint32_t own = bed->table.shared[SECOND], extent = bed->table.extent[SECOND];
  const uint32_t at = own + below(bed, extent - own);
  const uint32_t other = (at + 1 + below(bed, ROW - 1)) % ROW, owner = kc_table_owner(SECOND);
  const struct kc_page page = row_of(bed, SECOND)[at];
  struct kc_page unused;
  enum kc_err got = KC_OK;
  switch (below(bed, 5)) {
    case 0: got = kc_pool_check(&bed->pool, page, owner, other); break;
    case 1: got = kc_pool_audit(&bed->pool, page, owner, other); break;
    case 2: got = kc_pool_free(&bed->pool, &page, 1, owner, other, NULL); break;
    case 3: got = kc_pool_share(&bed->pool, page, owner, other); break;
    default: got = kc_pool_quarantine(&bed->pool, page, owner, other, &unused); break;
  }
  return told(bed, got, KC_ERR_TAG_OWNER, page.id) && comes_right(bed, 0);
}

/* The cache's own entry for a key is damaged: the next hit is refused. */
static bool damaged_index(struct bed *bed)
{
  const uint32_t length = bed->table.shared[FIRST], at = below(bed, length);
  struct kc_page *found = &bed->cache.found[key_at(bed, FIRST, at)];
  const struct kc_page kept = *found;
  uint32_t bad = ROW;
  const uint32_t flipped = found->tag ^ UINT32_C(1) << below(bed, KC_TAG_BITS);
  if (flipped == 0) return true; /* the page is merely forgotten */
  found->tag = flipped;
  bed->text[TAKER] = bed->text[FIRST];
  const struct kc_cache_match match =
      kc_prefix_cache_match(&bed->cache, content_of(bed, TAKER), length);
  if (match.pages != length) return false;
  kc_prefix_cache_attach(&bed->cache, TAKER, content_of(bed, TAKER), &match);
  *found = kept;
  if (!told(bed, KC_ERR_TAG_STALE, KC_ERR_TAG_STALE, kept.id) || !suspect(bed)) return false;
  return check_row(bed, TAKER, &bad) == KC_ERR_TAG_STALE && bad == at &&
         only_these(bed, 1u << TAKER, KC_ERR_TAG_STALE) &&
         kc_prefix_cache_release(&bed->cache, TAKER) == KC_ERR_TAG_STALE &&
         ((void)(bed->reports = 0), comes_right(bed, 0));
}

/* ---- records of shared pages ---- */

static bool flipped_record(struct bed *bed)
{
  const uint32_t at = below(bed, bed->table.shared[FIRST]);
  const struct kc_page page = row_of(bed, FIRST)[at];
  struct kc_page_record *record = &bed->pool.record[page.id], kept = *record;
  uint32_t bad = ROW;
  const uint64_t change = UINT64_C(1) << below(bed, 64);
  switch (below(bed, 3)) {
    case 0: record->hold ^= change; break;
    case 1: record->generation ^= change; break;
    default: record->checksum ^= change; break;
  }
  const bool seen =
      below(bed, 2) == 0
          ? told(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, page.id)
          : told(bed, kc_table_audit(&bed->table, &bed->pool, FIRST, &bad), KC_ERR_RECORD, page.id);
  *record = kept;
  return seen && (bad == ROW || bad == at) && comes_right(bed, 0);
}

/* A sound record from before the last reference. Its tag is right; only the sums remember. */
static bool refs_rolled_back(struct bed *bed)
{
  const uint32_t length = bed->table.shared[FIRST], at = below(bed, length);
  const struct kc_page page = row_of(bed, FIRST)[at];
  struct kc_page_record *record = &bed->pool.record[page.id], kept = *record;
  if (!admit(bed, TAKER, bed->text[FIRST], length, length)) return false;
  if (bed->table.shared[TAKER] != length) return false;
  const struct kc_page named = row_of(bed, TAKER)[at]; /* BLOCKS: perhaps a twin's */
  if (named.id != page.id) return true;
  const struct kc_page_record now = *record;
  *record = kept;
  const bool seen = told(bed, kc_pool_scrub(&bed->pool), KC_ERR_ROLLBACK, KC_PAGE_NONE);
  *record = now;
  return seen && comes_right(bed, 0);
}

/* A sound record from before the page was shared, or from when nobody used it. The rows that share
 * it name the page. */
static bool sharing_rolled_back(struct bed *bed)
{
  const uint32_t own = bed->table.shared[THIRD];
  const uint32_t length = bed->library.text[bed->text[THIRD]].length;
  struct kc_page page;
  struct kc_page_record kept;
  uint32_t at = own;
  if (below(bed, 2) == 0 && own < length) {
    page = row_of(bed, THIRD)[own];
    kept = bed->pool.record[page.id];
    kc_prefix_cache_publish(&bed->cache, THIRD, content_of(bed, THIRD), own + 1);
    if (row_of(bed, THIRD)[own].id != page.id) return true; /* it was a duplicate */
  } else {
    if (own == 0) return true;
    at = below(bed, own);
    page = row_of(bed, THIRD)[at];
    if (rows_naming(bed, page.id) != 1u << THIRD) return true;
    if (kc_prefix_cache_release(&bed->cache, THIRD) != KC_OK) return false;
    kept = bed->pool.record[page.id];
    if (!admit(bed, THIRD, bed->text[THIRD], at + 1, at + 1)) return false;
    if (row_of(bed, THIRD)[at].id != page.id) return true; /* BLOCKS: a twin came first */
  }
  uint32_t bad = ROW;
  const struct kc_page_record now = bed->pool.record[page.id];
  bed->pool.record[page.id] = kept;
  const bool seen = below(bed, 2) == 0
                        ? told(bed, kc_pool_scrub(&bed->pool), KC_ERR_ROLLBACK, KC_PAGE_NONE)
                        : told(bed, check_row(bed, THIRD, &bad), KC_ERR_ROLLBACK, page.id);
  bed->pool.record[page.id] = now;
  return seen && (bad == ROW || bad == at) && comes_right(bed, 0);
}

/* ---- runs ---- */

static const struct fault_class {
  const char *name;
  bool (*trial)(struct bed *bed);
} classes[] = {
    {"stale_sharer", stale_sharer},
    {"lost_reference", lost_reference},
    {"doubled_reference", doubled_reference},
    {"dropped_in_use", dropped_in_use},
    {"unref_of_idle", unref_of_idle},
    {"shared_twice", shared_twice},
    {"reuse_after_eviction", reuse_after_eviction},
    {"swapped_shared", swapped_shared},
    {"swapped_own", swapped_own},
    {"swapped_within", swapped_within},
    {"wrong_index", wrong_index},
    {"damaged_index", damaged_index},
    {"flipped_record", flipped_record},
    {"refs_rolled_back", refs_rolled_back},
    {"sharing_rolled_back", sharing_rolled_back},
};

static bool draw_library(struct bed *bed, uint64_t seed, uint64_t entity)
{
  memset(bed, 0, sizeof *bed);
  kc_random_init(&bed->random, seed, "cache-inject", entity);
  cache_library_draw(&bed->library, &bed->random, TEXTS, LONGEST, 1 + below(bed, 4), 2);
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW) +
                       kc_prefix_cache_need(KC_CACHE_BLOCKS, PAGES, bed->library.key_count) +
                       kc_prefix_cache_need(KC_CACHE_RADIX, PAGES, bed->library.key_count);
  return kc_arena_init(&bed->arena, bytes, NULL) == KC_OK;
}

static bool run_class(const struct fault_class *class, uint64_t seed, uint64_t faults)
{
  static struct bed bed;
  for (uint64_t i = 0; i < faults; i++) {
    const enum kc_cache_kind kind = i % 2 == 0 ? KC_CACHE_BLOCKS : KC_CACHE_RADIX;
    if (i % 1000 == 0) {
      if (i > 0) kc_arena_deinit(&bed.arena);
      if (!draw_library(&bed, seed, i)) return false;
    }
    const bool settled = set_up(&bed, kind) && bed.reports == 0 &&
                         kc_prefix_cache_valid(&bed.cache) && only_these(&bed, 0, KC_OK);
    if (settled && class->trial(&bed)) continue;
    fprintf(stderr, "seed=%" PRIu64 " class=%s step=%" PRIu64 " %s: %s (last report: %s, page %"
            PRIu32 ")\nreplay: test_cache_inject --seed %" PRIu64 " --class %s --faults %" PRIu64
            "\n", seed, class->name, i, kind == KC_CACHE_BLOCKS ? "blocks" : "radix",
            settled ? "missed, or the books do not come right" : "false alarm",
            kc_err_name(bed.last.code), bed.last.page, seed, class->name, i + 1);
    return false;
  }
  kc_arena_deinit(&bed.arena);
  return true;
}

int main(int argc, char **argv)
{
  uint64_t faults = FAULTS_DEFAULT, seed = 1, total = 0;
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t *number = strcmp(argv[i], "--faults") == 0 ? &faults : &seed;
    if (strcmp(argv[i], "--class") == 0) {
      only = argv[i + 1];
    } else if (!kc_parse_u64(argv[i + 1], strlen(argv[i + 1]), number)) {
      return 2;
    }
  }
  for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
    if (only != NULL && strcmp(only, classes[c].name) != 0) continue;
    if (!run_class(&classes[c], seed, faults)) return 1;
    printf("%-20s %" PRIu64 " / %" PRIu64 " caught\n", classes[c].name, faults, faults);
    total += faults;
  }
  printf("%" PRIu64 " faults, %d-bit tags: all caught, no false alarm\n", total, KC_TAG_BITS);
  return total > 0 ? 0 : 2;
}
