/* Injected faults: every class must be caught, with the right code and the right page, at the first
 * use or at the next scrub, and nothing else may ever be reported.
 *
 * A bed holds a pool and a table of a few slots, kept busy by ordinary operations. A trial breaks
 * one thing by hand (a record, a pair, the free stack) or misuses the interface, looks whether it
 * is noticed, and puts everything back from a copy. All claims are exact: code, page, and that the
 * hook was called once. Trials are drawn from the seed; a miss prints seed, class and trial.
 *
 *   test_pool_inject [--faults PER_CLASS] [--seed S] [--class NAME]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/base/random.h"
#include "engine/kv/table.h"
#include "tests/prop/engine_kv/quick_scale.h"

enum { FAULTS_DEFAULT = QUICK_SCALE(100000) };
enum { PAGES = 40, SLOTS = 6, ROW = 12, STRANGER = SLOTS + 1, IN_QUARANTINE = 4 };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_arena arena;
  struct kc_random random;
  struct kc_page quarantined[IN_QUARANTINE]; /* pairs of the writers */
  uint32_t quarantined_count;
  struct kc_fault_report last;
  uint64_t reports;
  /* copies from before the trial */
  struct kc_pool pool_before;
  struct kc_page_record record_before[PAGES];
  struct kc_page stack_before[PAGES];
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

/* ---- the busy background ---- */

static struct kc_page *some_live(struct bed *bed, uint32_t *slot)
{
  for (uint32_t i = 0, start = below(bed, SLOTS); i < SLOTS; i++) {
    *slot = (start + i) % SLOTS;
    const uint32_t extent = bed->table.extent[*slot];
    if (extent > 0) return &kc_table_row(&bed->table, *slot)[below(bed, extent)];
  }
  return NULL;
}

static uint32_t index_of(const struct bed *bed, uint32_t slot, const struct kc_page *page)
{
  return (uint32_t)(page - kc_table_row(&bed->table, slot));
}

/* Takes the last page out of a row. */
static struct kc_page drop_last(struct bed *bed, uint32_t slot)
{
  bed->table.in_use--;
  return kc_table_row(&bed->table, slot)[--bed->table.extent[slot]];
}

/* One ordinary operation; false when it failed, which is a false alarm. */
static bool background_step(struct bed *bed)
{
  uint32_t slot = below(bed, SLOTS);
  const uint32_t room = ROW - bed->table.extent[slot];
  switch (below(bed, 6)) {
    case 0: return kc_table_release(&bed->table, &bed->pool, slot) == KC_OK;
    case 1:
      if (bed->quarantined_count == 0) return true;
      return kc_pool_release_quarantined(&bed->pool,
                                         bed->quarantined[--bed->quarantined_count]) == KC_OK;
    case 2: {
      if (some_live(bed, &slot) == NULL || bed->quarantined_count == IN_QUARANTINE) return true;
      const struct kc_page pair = drop_last(bed, slot);
      return kc_pool_quarantine(&bed->pool, pair, kc_table_owner(slot), bed->table.extent[slot],
                                &bed->quarantined[bed->quarantined_count++]) == KC_OK;
    }
    default: {
      /* At least four pages stay free, so that every class finds what it needs. */
      const uint32_t count = below(bed, 5) < room ? below(bed, 5) : 0;
      if (count > room || bed->pool.free_count < count + 4) return true;
      return kc_table_grow(&bed->table, &bed->pool, slot, count);
    }
  }
}

/* ---- trials: what they share ---- */

static bool save_and_settle(struct bed *bed)
{
  uint32_t slot;
  for (uint32_t i = 1 + below(bed, 3); i > 0; i--) {
    if (!background_step(bed)) return false;
  }
  while (some_live(bed, &slot) == NULL) {
    if (!kc_table_grow(&bed->table, &bed->pool, below(bed, SLOTS), 3)) return false;
  }
  bed->pool.paranoid = false;
  bed->pool_before = bed->pool;
  memcpy(bed->record_before, bed->pool.record, sizeof bed->record_before);
  memcpy(bed->stack_before, bed->pool.stack, sizeof bed->stack_before);
  return true;
}

static void put_back(struct bed *bed)
{
  bed->pool = bed->pool_before;
  memcpy(bed->pool.record, bed->record_before, sizeof bed->record_before);
  memcpy(bed->pool.stack, bed->stack_before, sizeof bed->stack_before);
  bed->reports = 0;
}

/* The one fault since put_back was this one? */
static bool told(struct bed *bed, enum kc_err code, uint32_t page)
{
  const bool right = bed->reports == 1 && bed->last.code == code && bed->last.page == page;
  bed->reports = 0;
  return right;
}

static bool caught(struct bed *bed, enum kc_err got, enum kc_err wanted, uint32_t page)
{
  return got == wanted && told(bed, wanted, page);
}

/* 1, 2 or 3 distinct bits out of `mask`, or a random word within it; never 0. */
static uint64_t flips(struct bed *bed, uint64_t mask)
{
  uint64_t change = 0;
  const uint32_t bits = 1 + below(bed, 4);
  if (bits == 4) {
    while (change == 0) change = kc_random_u64(&bed->random) & mask;
    return change;
  }
  for (uint32_t made = 0; made < bits && change != mask;) {
    const uint64_t bit = UINT64_C(1) << below(bed, 64);
    if ((bit & mask) == 0 || (bit & change) != 0) continue;
    change |= bit;
    made++;
  }
  return change;
}

/* The first use of a page, whoever holds it: by its table, by the writer, or by the allocation that
 * reaches it. */
static bool caught_at_use(struct bed *bed, uint32_t id, enum kc_err wanted)
{
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const struct kc_page *row = kc_table_row(&bed->table, slot);
    for (uint32_t i = 0; i < bed->table.extent[slot]; i++) {
      if (row[i].id != id) continue;
      const uint32_t owner = kc_table_owner(slot);
      struct kc_page unused;
      switch (below(bed, 4)) {
        case 0: return caught(bed, kc_pool_check(&bed->pool, row[i], owner, i), wanted, id);
        case 1:
          return caught(bed, kc_pool_free(&bed->pool, &row[i], 1, owner, i, NULL), wanted, id);
        case 2: return caught(bed, kc_pool_share(&bed->pool, row[i], owner, i), wanted, id);
        default:
          return caught(bed, kc_pool_quarantine(&bed->pool, row[i], owner, i, &unused), wanted,
                        id);
      }
    }
  }
  for (uint32_t i = 0; i < bed->quarantined_count; i++) {
    if (bed->quarantined[i].id != id) continue;
    return caught(bed, kc_pool_release_quarantined(&bed->pool, bed->quarantined[i]), wanted, id);
  }
  return false;
}

/* Allocates down to the given stack position, at once or page by page, and expects the fault. A
 * refused allocation changes nothing else. */
static bool caught_at_alloc(struct bed *bed, uint32_t position, enum kc_err wanted, uint32_t page)
{
  struct kc_page out[PAGES];
  const uint32_t before = bed->pool.free_count - 1 - position;
  if (below(bed, 2) == 0) {
    struct kc_page_record copy[PAGES];
    memcpy(copy, bed->pool.record, sizeof copy);
    const uint64_t sum = kc_pool_generation_sum(&bed->pool);
    const bool refused = !kc_pool_alloc(&bed->pool, before + 1, STRANGER, 0, out);
    return refused && told(bed, wanted, page) && sum == kc_pool_generation_sum(&bed->pool) &&
           memcmp(copy, bed->pool.record, sizeof copy) == 0;
  }
  for (uint32_t i = 0; i < before; i++) {
    if (!kc_pool_alloc_one(&bed->pool, STRANGER, 0, out)) return false;
  }
  return !kc_pool_alloc_one(&bed->pool, STRANGER, 0, out) && told(bed, wanted, page);
}

static bool is_free(const struct bed *bed, uint32_t id)
{
  return kc_page_state_of(&bed->record_before[id]) == KC_PAGE_FREE;
}

/* The record of page `id` was damaged. By scrub or by use, evenly. Damage that no ordinary
 * comparison can see (`hidden`) is caught at first use in paranoid mode only. */
static bool damage_caught(struct bed *bed, uint32_t id, bool hidden)
{
  bed->pool.paranoid = hidden || below(bed, 2) == 0;
  if (below(bed, 2) == 0) return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, id);
  if (!is_free(bed, id)) return caught_at_use(bed, id, KC_ERR_RECORD);
  return caught_at_alloc(bed, kc_page_link_of(&bed->record_before[id]), KC_ERR_RECORD, id);
}

/* ---- misuse of the interface ---- */

static bool double_free(struct bed *bed)
{
  uint32_t slot;
  const struct kc_page *entry = some_live(bed, &slot), page = *entry;
  const uint32_t owner = kc_table_owner(slot), index = index_of(bed, slot, entry);
  if (kc_pool_free(&bed->pool, &page, 1, owner, index, NULL) != KC_OK) return false;
  if (below(bed, 2) == 0) {
    return caught(bed, kc_pool_free(&bed->pool, &page, 1, owner, index, NULL), KC_ERR_DOUBLE_FREE,
                  page.id);
  }
  /* In bulk, behind a page that is fine. */
  uint32_t freed;
  struct kc_page both[2] = {page, {0, 0}};
  if (!kc_pool_alloc(&bed->pool, 2, owner, 0, both)) return false;
  if (kc_pool_free(&bed->pool, &both[0], 1, owner, 0, NULL) != KC_OK) return false;
  return caught(bed, kc_pool_free(&bed->pool, both, 2, owner, 0, &freed), KC_ERR_DOUBLE_FREE,
                both[0].id) && freed == 1;
}

static bool use_after_free(struct bed *bed)
{
  uint32_t slot;
  struct kc_page again, unused;
  const struct kc_page *entry = some_live(bed, &slot), page = *entry;
  const uint32_t owner = kc_table_owner(slot), index = index_of(bed, slot, entry);
  if (kc_pool_free(&bed->pool, &page, 1, owner, index, NULL) != KC_OK) return false;
  const uint32_t lives = below(bed, 4); /* handed on since, perhaps to the same owner */
  for (uint32_t i = 0; i < lives; i++) {
    const uint32_t taker = 1 + below(bed, SLOTS);
    if (!kc_pool_alloc(&bed->pool, 1, taker, index, &again) || again.id != page.id) return false;
    if (i + 1 == lives) break;
    if (kc_pool_free(&bed->pool, &again, 1, taker, index, NULL) != KC_OK) return false;
  }
  enum kc_err got = KC_OK;
  switch (below(bed, lives > 0 ? 4 : 3)) {
    case 0: got = kc_pool_check(&bed->pool, page, owner, index); break;
    case 1: got = kc_pool_audit(&bed->pool, page, owner, index); break;
    case 2: got = kc_pool_quarantine(&bed->pool, page, owner, index, &unused); break;
    default: got = kc_pool_free(&bed->pool, &page, 1, owner, index, NULL); break;
  }
  return caught(bed, got, KC_ERR_TAG_STALE, page.id);
}

static bool wrong_owner(struct bed *bed)
{
  uint32_t slot;
  struct kc_page unused;
  const struct kc_page *entry = some_live(bed, &slot), page = *entry;
  const uint32_t owner = kc_table_owner(slot), index = index_of(bed, slot, entry);
  const uint32_t other = 1 + (owner + below(bed, SLOTS)) % STRANGER;
  enum kc_err got = KC_OK;
  switch (below(bed, 3)) {
    case 0: got = kc_pool_check(&bed->pool, page, other, index); break;
    case 1: got = kc_pool_free(&bed->pool, &page, 1, other, index, NULL); break;
    default: got = kc_pool_quarantine(&bed->pool, page, other, index, &unused); break;
  }
  return caught(bed, got, KC_ERR_TAG_OWNER, page.id);
}

static bool out_of_range(struct bed *bed)
{
  uint32_t slot;
  struct kc_page unused, *entry = some_live(bed, &slot), page = *entry;
  const uint32_t owner = kc_table_owner(slot), index = index_of(bed, slot, entry);
  page.id = below(bed, 2) == 0 ? PAGES + below(bed, 4)
                               : (uint32_t)kc_random_u64(&bed->random) | 1u << (6 + below(bed, 26));
  enum kc_err got = KC_OK;
  switch (below(bed, 4)) {
    case 0: got = kc_pool_check(&bed->pool, page, owner, index); break;
    case 1: got = kc_pool_free(&bed->pool, &page, 1, owner, index, NULL); break;
    case 2: got = kc_pool_release_quarantined(&bed->pool, page); break;
    default: got = kc_pool_quarantine(&bed->pool, page, owner, index, &unused); break;
  }
  return caught(bed, got, KC_ERR_TAG_RANGE, page.id);
}

/* A writer whose transfer was aborted writes late: its pair is refused, the page goes to nobody
 * until the writer acknowledges, and then comes with a new tag. */
static bool late_writer(struct bed *bed)
{
  uint32_t slot;
  struct kc_page parked, out[PAGES];
  const struct kc_page *entry = some_live(bed, &slot), page = *entry;
  const uint32_t owner = kc_table_owner(slot), index = index_of(bed, slot, entry);
  if (kc_pool_quarantine(&bed->pool, page, owner, index, &parked) != KC_OK) return false;
  if (!caught(bed, kc_pool_check(&bed->pool, page, owner, index), KC_ERR_TAG_STALE, page.id)) {
    return false;
  }
  const uint32_t free_count = bed->pool.free_count;
  if (!kc_pool_alloc(&bed->pool, free_count, STRANGER, 0, out)) return false;
  for (uint32_t i = 0; i < free_count; i++) {
    if (out[i].id == page.id) return false; /* handed out under the writer's hands */
  }
  if (kc_pool_release_quarantined(&bed->pool, parked) != KC_OK) return false;
  if (!caught(bed, kc_pool_release_quarantined(&bed->pool, parked), KC_ERR_DOUBLE_FREE, page.id)) {
    return false;
  }
  if (!kc_pool_alloc(&bed->pool, 1, owner, index, out) || out[0].id != page.id) return false;
  return out[0].tag != page.tag && out[0].tag != parked.tag &&
         caught(bed, kc_pool_check(&bed->pool, page, owner, index), KC_ERR_TAG_STALE, page.id) &&
         caught(bed, kc_pool_check(&bed->pool, parked, owner, index), KC_ERR_TAG_STALE, page.id);
}

/* An owner forgets one page; everything else is given back. */
static bool lost_free(struct bed *bed)
{
  uint32_t slot, lost_slot;
  uint32_t extent[SLOTS];
  struct kc_page kept[SLOTS * ROW];
  (void)some_live(bed, &lost_slot);
  const uint32_t in_use = (uint32_t)bed->table.in_use;
  bool released = true;
  memcpy(extent, bed->table.extent, sizeof extent);
  memcpy(kept, bed->table.entry, sizeof kept);
  const uint32_t id = drop_last(bed, lost_slot).id;
  for (slot = 0; slot < SLOTS; slot++) {
    released &= kc_table_release(&bed->table, &bed->pool, slot) == KC_OK;
  }
  const bool found = caught(bed, kc_pool_balance(&bed->pool), KC_ERR_LEAK, id);
  memcpy(bed->table.extent, extent, sizeof extent);
  memcpy(bed->table.entry, kept, sizeof kept);
  bed->table.in_use = in_use;
  return released && found;
}

/* ---- flipped bits ---- */

static bool flip_entry_tag(struct bed *bed)
{
  uint32_t slot, at = KC_PAGE_NONE;
  struct kc_page *page = some_live(bed, &slot), kept = *page;
  page->tag ^= (uint32_t)flips(bed, UINT32_MAX);
  const enum kc_err got = below(bed, 2) == 0 ? kc_table_check(&bed->table, &bed->pool, slot, &at)
                                             : kc_table_audit(&bed->table, &bed->pool, slot, &at);
  const bool named = at < ROW && &kc_table_row(&bed->table, slot)[at] == page;
  *page = kept;
  return named && caught(bed, got, KC_ERR_TAG_STALE, kept.id);
}

/* The tag tells pages apart, so an id that turned into another page's fails as well. (Narrow tags
 * coincide now and then: left out there.) */
static bool flip_entry_id(struct bed *bed)
{
  uint32_t slot, at = KC_PAGE_NONE;
  struct kc_page *page = some_live(bed, &slot), kept = *page;
  page->id ^= (uint32_t)flips(bed, below(bed, 2) == 0 ? UINT32_MAX : 63);
  const uint32_t id = page->id;
  const enum kc_err got = kc_table_check(&bed->table, &bed->pool, slot, &at);
  const bool named = at < ROW && &kc_table_row(&bed->table, slot)[at] == page;
  *page = kept;
  return named && caught(bed, got, id < PAGES ? KC_ERR_TAG_STALE : KC_ERR_TAG_RANGE, id);
}

static bool flip_hold(struct bed *bed, uint64_t mask)
{
  const uint32_t id = below(bed, PAGES);
  bed->pool.record[id].hold ^= flips(bed, mask);
  return damage_caught(bed, id, false);
}

static bool flip_owner(struct bed *bed) { return flip_hold(bed, UINT32_MAX); }
static bool flip_state(struct bed *bed) { return flip_hold(bed, UINT64_C(3) << 62); }
static bool flip_link(struct bed *bed) { return flip_hold(bed, ((UINT64_C(1) << 30) - 1) << 32); }

static bool flip_generation(struct bed *bed)
{
  const uint32_t id = below(bed, PAGES);
  bed->pool.record[id].generation ^= flips(bed, UINT64_MAX);
  return damage_caught(bed, id, true);
}

static bool flip_checksum(struct bed *bed)
{
  const uint32_t id = below(bed, PAGES);
  bed->pool.record[id].checksum ^= flips(bed, UINT64_MAX);
  return damage_caught(bed, id, true);
}

/* The same bits, or others, in two or all three words at once. */
static bool flip_words(struct bed *bed)
{
  const uint32_t id = below(bed, PAGES), words = below(bed, 4);
  struct kc_page_record *record = &bed->pool.record[id];
  const uint64_t same = flips(bed, UINT64_MAX);
  const bool alike = below(bed, 2) == 0;
  if (words != 0) record->generation ^= alike ? same : flips(bed, UINT64_MAX);
  if (words != 1) record->hold ^= alike ? same : flips(bed, UINT64_MAX);
  if (words != 2) record->checksum ^= alike ? same : flips(bed, UINT64_MAX);
  return damage_caught(bed, id, true);
}

/* An entry of the free stack. The scrub names the page that lost its place; an allocation that
 * comes to it names what it finds there. */
static bool flip_stack(struct bed *bed)
{
  const uint32_t position = below(bed, bed->pool.free_count);
  struct kc_page *entry = &bed->pool.stack[position];
  const uint32_t victim = entry->id;
  if (below(bed, 2) == 0) {
    entry->id ^= (uint32_t)flips(bed, below(bed, 2) == 0 ? UINT32_MAX : 63);
  } else {
    entry->tag ^= (uint32_t)flips(bed, UINT32_MAX);
  }
  const enum kc_err at_use = entry->id < PAGES ? KC_ERR_RECORD : KC_ERR_TAG_RANGE;
  if (below(bed, 2) == 0) return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, victim);
  return caught_at_alloc(bed, position, at_use, entry->id);
}

/* ---- records and stack entries that are sound, but wrong where they are ---- */

static bool copied_record(struct bed *bed)
{
  const uint32_t from = below(bed, PAGES), to = (from + 1 + below(bed, PAGES - 1)) % PAGES;
  bed->pool.record[to] = bed->pool.record[from];
  return damage_caught(bed, to, true);
}

static bool doubled_stack_entry(struct bed *bed)
{
  const uint32_t count = bed->pool.free_count;
  const uint32_t from = below(bed, count), to = (from + 1 + below(bed, count - 1)) % count;
  const uint32_t victim = bed->pool.stack[to].id;
  bed->pool.stack[to] = bed->pool.stack[from];
  if (below(bed, 2) == 0) return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, victim);
  return caught_at_alloc(bed, to, KC_ERR_RECORD, bed->pool.stack[to].id);
}

/* The top entry is forgotten: its page is neither free nor owned. */
static bool lost_stack_entry(struct bed *bed)
{
  const uint32_t victim = bed->pool.stack[--bed->pool.free_count].id;
  return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, victim);
}

/* A page on the free stack says, with a good checksum, that it is live: our own mistake, such as an
 * allocation that did not take it off. */
static bool live_on_free_stack(struct bed *bed)
{
  const uint32_t position = below(bed, bed->pool.free_count);
  const uint32_t id = bed->pool.stack[position].id;
  struct kc_page_record *record = &bed->pool.record[id];
  kc_pool_put(record, bed->pool.key, id, record->generation + below(bed, 2),
              kc_page_hold(KC_PAGE_LIVE, 0, 1 + below(bed, SLOTS)));
  if (below(bed, 2) == 0) return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, id);
  bed->pool.paranoid = below(bed, 2) == 0;
  return caught_at_alloc(bed, position, KC_ERR_RECORD, id);
}

/* ---- rollback: an older record, sound in itself, in place of the present one ---- */

/* Gives the top page several lives; `old` is its record at some point before the last change. It
 * ends live (then *page is its pair, owned by STRANGER) or free. */
static bool several_lives(struct bed *bed, bool end_live, struct kc_page *page,
                          struct kc_page_record *old)
{
  const uint32_t id = bed->pool.stack[bed->pool.free_count - 1].id;
  const uint32_t changes = 2 * below(bed, 5) + (end_live ? 1 : 2);
  const uint32_t keep = below(bed, changes);
  for (uint32_t i = 0; i < changes; i++) {
    if (i == keep) *old = bed->pool.record[id];
    const bool fine = i % 2 == 0
                          ? kc_pool_alloc(&bed->pool, 1, STRANGER, 3, page)
                          : kc_pool_free(&bed->pool, page, 1, STRANGER, 3, NULL) == KC_OK;
    if (!fine || page->id != id) return false;
  }
  bed->pool.record[id] = *old;
  return true;
}

static bool rolled_back_live(struct bed *bed)
{
  struct kc_page page, row_kept;
  struct kc_page_record old;
  uint32_t slot = below(bed, SLOTS), at = KC_PAGE_NONE;
  if (!several_lives(bed, true, &page, &old)) return false;
  const bool was_free = kc_page_state_of(&old) == KC_PAGE_FREE;
  switch (below(bed, 4)) {
    case 0:
      return caught(bed, kc_pool_check(&bed->pool, page, STRANGER, 3), KC_ERR_ROLLBACK, page.id);
    case 1:
      return caught(bed, kc_pool_free(&bed->pool, &page, 1, STRANGER, 3, NULL), KC_ERR_ROLLBACK,
                    page.id);
    case 2: /* a live record that is merely old contradicts nothing in the pool but the sum */
      return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_ROLLBACK,
                    was_free ? page.id : KC_PAGE_NONE);
    default: break;
  }
  /* The audit of the owner's table names it: lend the page a row for that. */
  const uint32_t extent = bed->table.extent[slot];
  row_kept = kc_table_row(&bed->table, slot)[0];
  kc_table_row(&bed->table, slot)[0] = page;
  bed->table.extent[slot] = 1;
  const enum kc_err got = kc_table_audit(&bed->table, &bed->pool, slot, &at);
  bed->table.extent[slot] = extent;
  kc_table_row(&bed->table, slot)[0] = row_kept;
  return at == 0 && caught(bed, got, KC_ERR_ROLLBACK, page.id);
}

/* Back to an older life as a free page at the very same position, or as a live one: only the tag on
 * the stack remembers. */
static bool rolled_back_free(struct bed *bed)
{
  struct kc_page page;
  struct kc_page_record old;
  if (!several_lives(bed, false, &page, &old)) return false;
  if (below(bed, 2) == 0) return caught(bed, kc_pool_scrub(&bed->pool), KC_ERR_ROLLBACK, page.id);
  return caught_at_alloc(bed, bed->pool.free_count - 1, KC_ERR_ROLLBACK, page.id);
}

/* ---- runs ---- */

static const struct fault_class {
  const char *name;
  bool (*trial)(struct bed *bed);
  bool wide_only;
} classes[] = {
    {"double_free", double_free, false},
    {"use_after_free", use_after_free, false},
    {"wrong_owner", wrong_owner, false},
    {"out_of_range", out_of_range, false},
    {"late_writer", late_writer, false},
    {"lost_free", lost_free, false},
    {"flip_entry_tag", flip_entry_tag, false},
    {"flip_entry_id", flip_entry_id, true},
    {"flip_owner", flip_owner, false},
    {"flip_generation", flip_generation, false},
    {"flip_state", flip_state, false},
    {"flip_link", flip_link, false},
    {"flip_checksum", flip_checksum, false},
    {"flip_words", flip_words, false},
    {"flip_stack", flip_stack, false},
    {"copied_record", copied_record, false},
    {"doubled_stack_entry", doubled_stack_entry, false},
    {"lost_stack_entry", lost_stack_entry, false},
    {"live_on_free_stack", live_on_free_stack, false},
    {"rolled_back_live", rolled_back_live, false},
    {"rolled_back_free", rolled_back_free, false},
};

static bool set_up(struct bed *bed, uint64_t seed, uint64_t entity)
{
  memset(bed, 0, sizeof *bed);
  kc_random_init(&bed->random, seed, "pool-inject", entity);
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW);
  if (kc_arena_init(&bed->arena, bytes, NULL) != KC_OK) return false;
  if (kc_pool_init(&bed->pool, PAGES, kc_random_u64(&bed->random), &bed->arena) != KC_OK) {
    return false;
  }
  if (kc_table_init(&bed->table, SLOTS, ROW, &bed->arena) != KC_OK) return false;
  bed->pool.hook = on_fault;
  bed->pool.hook_context = bed;
  return true;
}

/* A sound bed must raise no alarm: every table, every record. */
static bool all_quiet(struct bed *bed)
{
  bool quiet = kc_pool_scrub(&bed->pool) == KC_OK;
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    quiet &= kc_table_audit(&bed->table, &bed->pool, slot, NULL) == KC_OK;
  }
  return quiet && bed->reports == 0;
}

/* A fresh pool, and so a fresh key, every thousand trials. */
static bool run_class(const struct fault_class *class, uint64_t seed, uint64_t faults)
{
  static struct bed bed;
  for (uint64_t i = 0; i < faults; i++) {
    if (i % 1000 == 0) {
      if (i > 0) kc_arena_deinit(&bed.arena);
      if (!set_up(&bed, seed, i)) return false;
    }
    const bool settled = save_and_settle(&bed) && bed.reports == 0;
    const bool found = settled && class->trial(&bed);
    put_back(&bed);
    if (found && (i % 16 != 0 || all_quiet(&bed))) continue;
    fprintf(stderr, "seed=%" PRIu64 " class=%s step=%" PRIu64 ": %s (last report: %s, page %" PRIu32
            ")\nreplay: test_pool_inject --seed %" PRIu64 " --class %s --faults %" PRIu64 "\n",
            seed, class->name, i, !settled ? "false alarm" : found ? "false alarm after" : "missed",
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
    if (classes[c].wide_only && KC_TAG_BITS < 32) continue;
    if (!run_class(&classes[c], seed, faults)) return 1;
    printf("%-20s %" PRIu64 " / %" PRIu64 " caught\n", classes[c].name, faults, faults);
    total += faults;
  }
  printf("%" PRIu64 " faults, %d-bit tags: all caught, no false alarm\n", total, KC_TAG_BITS);
  return total > 0 ? 0 : 2;
}
