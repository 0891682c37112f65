/* The page pool: hands out KV pages as pairs (id, tag), takes them back, and notices every misuse.
 *
 *        stack                       record
 *   top  {17, tag} ---------------> [17] generation even, FREE at 2, nobody's, checksum
 *        { 4, tag} ---------------> [ 4] generation even, FREE at 1, nobody's, checksum
 *        { 9, tag} ---------------> [ 9] generation even, FREE at 0, nobody's, checksum
 *                    a table's row   [ 3] generation odd,  LIVE, owner 8 has it at 5, checksum
 *           entry 5: {3, tag} ----->
 *                       two rows     [ 6] generation odd,  LIVE, shared, 2 references, checksum
 *                    {6, tag} ----->
 *                    {6, tag} ----->
 *
 * The pool owns both arrays (they live in the run's arena); pairs are copied to whoever holds a
 * page. Every holder keeps the pair: tables (and the prefix cache) for live pages, the writer for
 * quarantined ones, the stack for free ones. That is why the stack stores
 * pairs and not ids alone: a free record that is replaced by an older copy of itself, at the same
 * position, is consistent with everything except the tag that its holder remembers. The record's
 * link points back at the stack, so a lost, doubled or foreign stack entry is seen from both ends.
 *
 * The checksum. A record is two 64-bit words, g (generation) and h (hold), at index id:
 *
 *     checksum = fold((g ^ k0 ^ id * 2^32) * (h ^ k1))
 *
 * with a 128-bit product, fold = high half xor low half, and a key (k0, k1) from the seed. Two
 * multiplications, and no call.
 *   - A flip in the checksum alone is always seen.
 *   - A change of g or h, in any number of bits, with or without the checksum, and a record copied
 *     over that of another page (which changes id as it is seen from there), are missed only if the
 *     two folded products differ by exactly what the checksum's change asks for (0 if none).
 *     Flipping bit j of one factor adds or takes the other factor, shifted by j, and that factor is
 *     masked by a key nobody knows; so for any fixed change about one key in 2^63 misses it.
 *   - k0 has its top bit set and k1 its two top bits. A sound record has neither (generations stay
 *     below 2^63, ids below 2^30, states below 3), so no sound record has a zero factor that would
 *     hide the other.
 * A plain sum k0 * g + k1 * h mod 2^64 with odd keys costs about the same but has a blind spot for
 * every key: the products by 2^63 cancel, so the top bits of both words could flip unseen, whatever
 * mixer follows.
 *
 * Speed: a step loop grants and frees millions of pages, so alloc and free are one loop each, with
 * the comparisons that guard memory and the free list in line, and everything that explains a fault
 * in cold functions. On a mismatch the checksum is consulted before blame is given, so a damaged
 * record is reported as such and not as its owner's mistake.
 */
#include "engine/kv/pool.h"

#include <string.h>

#include "engine/base/random.h"

#define KC_COLD __attribute__((noinline, cold))
#define KC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Fault points: each switches one detector off, so that tests can show that they would notice.
 * Read once, at init: the environment is too slow to ask for every page. */
enum {
  SKIP_RANGE = 1 << 0,
  SKIP_STATE = 1 << 1,
  SKIP_TAG = 1 << 2,
  SKIP_OWNER = 1 << 3,
  SKIP_CHECKSUM = 1 << 4,
  SKIP_STACK = 1 << 5,
  SKIP_BUMP = 1 << 6,
  SKIP_ROLLBACK = 1 << 7,
  SKIP_BALANCE = 1 << 8,
  SKIP_QUARANTINE = 1 << 9,
  SKIP_INDEX = 1 << 10,
  SKIP_REFS = 1 << 11
};

#ifdef KC_FAULTS
#define ARMED(pool, point) (((pool)->armed & (uint32_t)(point)) != 0)
#else
#define ARMED(pool, point) ((void)(pool), false)
#endif

static uint32_t armed_points(void)
{
  uint32_t armed = 0;
  if (KC_FAULT("pool-skip-range-check")) armed |= SKIP_RANGE;
  if (KC_FAULT("pool-skip-state-check")) armed |= SKIP_STATE;
  if (KC_FAULT("pool-skip-tag-check")) armed |= SKIP_TAG;
  if (KC_FAULT("pool-skip-owner-check")) armed |= SKIP_OWNER;
  if (KC_FAULT("pool-skip-checksum")) armed |= SKIP_CHECKSUM;
  if (KC_FAULT("pool-skip-stack-check")) armed |= SKIP_STACK;
  if (KC_FAULT("pool-skip-bump")) armed |= SKIP_BUMP;
  if (KC_FAULT("pool-skip-rollback")) armed |= SKIP_ROLLBACK;
  if (KC_FAULT("pool-skip-balance")) armed |= SKIP_BALANCE;
  if (KC_FAULT("pool-skip-quarantine")) armed |= SKIP_QUARANTINE;
  if (KC_FAULT("pool-skip-index-check")) armed |= SKIP_INDEX;
  if (KC_FAULT("pool-skip-refs-check")) armed |= SKIP_REFS;
  return armed;
}

/* ---- records ---- */

static bool sealed(const struct kc_pool *pool, uint32_t id)
{
  const struct kc_page_record *record = &pool->record[id];
  if (ARMED(pool, SKIP_CHECKSUM)) return true;
  return record->checksum ==
         kc_pool_checksum(pool->key, id, record->generation, record->hold);
}

/* How far the records are behind what the operations so far add up to; 0 when all is well. Positive
 * after a rollback. O(pages). */
static int64_t generations_missing(const struct kc_pool *pool)
{
  uint64_t sum = 0;
  for (uint32_t id = 0; id < pool->page_count; id++) sum += pool->record[id].generation;
  return (int64_t)(kc_pool_generation_sum(pool) - sum);
}

/* ---- faults ---- */

KC_COLD static enum kc_err report(struct kc_pool *pool, enum kc_err code, uint32_t id,
                                  uint32_t found_tag)
{
  KC_ASSERT(code != KC_OK);
  struct kc_fault_report fault = {.code = code, .page = id, .found_tag = found_tag};
  if (id < pool->page_count) {
    fault.expected_tag = kc_tag_of(pool->record[id].generation);
    fault.owner = kc_page_owner_of(&pool->record[id]);
  }
  pool->faults++;
  if (pool->hook != NULL) pool->hook(pool->hook_context, &fault);
  return code;
}

/* What the records say of sharing. */
struct shares {
  uint32_t count, idle;
  uint64_t refs, sum;
};

static void add_shares(struct shares *shares, const struct kc_pool *pool, uint32_t id)
{
  const struct kc_page_record *record = &pool->record[id];
  const struct kc_page page = {.id = id, .tag = kc_tag_of(record->generation)};
  const uint32_t refs = kc_page_link_of(record);
  if (!kc_page_is_shared(record)) return;
  shares->count++;
  shares->idle += refs == 0;
  shares->refs += refs;
  shares->sum += refs * kc_page_weight(page);
}

/* Would the books be right if this one record had the references that all records together lack?
 * Then it is an old copy of itself. (Sharing leaves the generation alone, so generations cannot
 * tell.) O(pages). */
KC_COLD static bool lacks_references(const struct kc_pool *pool, struct kc_page page)
{
  struct shares found = {0};
  if (ARMED(pool, SKIP_ROLLBACK)) return false;
  for (uint32_t id = 0; id < pool->page_count; id++) add_shares(&found, pool, id);
  const uint64_t missing = pool->refs_total - found.refs;
  const bool was_shared = kc_page_is_shared(&pool->record[page.id]);
  KC_ASSERT(found.idle <= found.count);
  return pool->shared_count == found.count + !was_shared && missing > 0 &&
         missing < KC_POOL_PAGES_MAX &&
         pool->refs_sum == found.sum + missing * kc_page_weight(page);
}

/* How an operation wants to find a page. */
struct wanted {
  enum kc_page_state state; /* LIVE or QUARANTINE */
  uint32_t owner;
  enum kc_err when_free; /* the code if it is free */
};

/* What is wrong with the pair? Only called when something is. */
KC_COLD static enum kc_err judge(const struct kc_pool *pool, struct kc_page page,
                                 const struct wanted *wanted)
{
  if (page.id >= pool->page_count) return KC_ERR_TAG_RANGE;
  const struct kc_page_record *record = &pool->record[page.id];
  const enum kc_page_state state = kc_page_state_of(record);
  KC_ASSERT(wanted->state != KC_PAGE_FREE);
  if (!sealed(pool, page.id)) return KC_ERR_RECORD;
  if (state == KC_PAGE_FREE) return wanted->when_free;
  if (page.tag != kc_tag_of(record->generation)) return KC_ERR_TAG_STALE;
  if (state != wanted->state) return state == KC_PAGE_LIVE ? KC_ERR_TAG_OWNER : KC_ERR_TAG_STALE;
  if (kc_page_owner_of(record) != wanted->owner) return KC_ERR_TAG_OWNER;
  /* The owner is right and the link is not. A live page of one owner is at another place of its
   * row; a shared one has references, or has none. A quarantined page has no link at all. */
  return state == KC_PAGE_LIVE ? KC_ERR_TAG_OWNER : KC_ERR_RECORD;
}

/* Reports what is wrong. When generations are missing, and this record would match the pair with
 * just those added, the pair is right and the record is an old copy of itself. The same for the
 * references of a shared page. */
KC_COLD static enum kc_err refuse(struct kc_pool *pool, struct kc_page page,
                                  const struct wanted *wanted)
{
  enum kc_err code = judge(pool, page, wanted);
  const bool behind = code == KC_ERR_TAG_STALE || code == KC_ERR_DOUBLE_FREE;
  if (behind && !ARMED(pool, SKIP_ROLLBACK)) {
    const int64_t missing = generations_missing(pool);
    const uint64_t generation = pool->record[page.id].generation + (uint64_t)missing;
    if (missing > 0 && kc_tag_of(generation) == page.tag) code = KC_ERR_ROLLBACK;
  }
  if (code == KC_ERR_TAG_OWNER && wanted->owner == KC_OWNER_SHARED &&
      lacks_references(pool, page)) {
    code = KC_ERR_ROLLBACK;
  }
  return report(pool, code, page.id, page.tag);
}

static enum kc_err refuse_live(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                               enum kc_err when_free)
{
  return refuse(pool, page, &(struct wanted){KC_PAGE_LIVE, owner, when_free});
}

#define LINK_MASK (((UINT64_C(1) << 30) - 1) << 32)

/* Is the record that of a page with this tag, held as `hold` says? */
static inline bool is_held(const struct kc_pool *pool, const struct kc_page_record *record,
                           uint32_t tag, uint64_t hold)
{
  uint64_t differs = record->hold ^ hold;
  if (ARMED(pool, SKIP_STATE)) differs &= ~(UINT64_C(3) << 62);
  if (ARMED(pool, SKIP_INDEX)) differs &= ~LINK_MASK;
  if (ARMED(pool, SKIP_OWNER)) differs &= ~(uint64_t)UINT32_MAX;
  if (!ARMED(pool, SKIP_TAG)) differs |= kc_tag_of(record->generation) ^ tag;
  return differs == 0;
}

/* Is the pair that of a page that is held as `hold` says? The test every operation begins with.
 * Out-of-range ids are caught before the record is read. */
static inline bool matches(const struct kc_pool *pool, struct kc_page page, uint64_t hold)
{
  return page.id < pool->page_count && is_held(pool, &pool->record[page.id], page.tag, hold);
}

/* The same, and the checksum holds as well. Quarantine is rare enough to pay for it in any mode. */
static bool trusted(const struct kc_pool *pool, struct kc_page page, uint64_t hold)
{
  return matches(pool, page, hold) && sealed(pool, page.id);
}

/* Is the pair that of a shared page, whatever its references? */
static inline bool matches_shared(const struct kc_pool *pool, struct kc_page page)
{
  if (page.id >= pool->page_count) return false;
  const uint64_t link = pool->record[page.id].hold & LINK_MASK;
  return is_held(pool, &pool->record[page.id], page.tag,
                 kc_page_hold(KC_PAGE_LIVE, 0, KC_OWNER_SHARED) | link) &&
         (KC_UNLIKELY(pool->paranoid) ? sealed(pool, page.id) : true);
}

/* The same, and it has references. */
static bool is_referenced(const struct kc_pool *pool, struct kc_page page)
{
  return matches_shared(pool, page) &&
         (kc_page_link_of(&pool->record[page.id]) > 0 || ARMED(pool, SKIP_REFS));
}

static uint64_t live(uint32_t owner, uint32_t index)
{
  return kc_page_hold(KC_PAGE_LIVE, index, owner);
}

/* A record whose checksum holds contradicts the stack. Either it is an old copy of itself, and then
 * generations are missing, or the stack (or our own code) is wrong. */
KC_COLD static enum kc_err blame(const struct kc_pool *pool, uint32_t id)
{
  if (id >= pool->page_count) return KC_ERR_TAG_RANGE;
  if (!sealed(pool, id)) return KC_ERR_RECORD;
  if (ARMED(pool, SKIP_ROLLBACK)) return KC_ERR_RECORD;
  return generations_missing(pool) > 0 ? KC_ERR_ROLLBACK : KC_ERR_RECORD;
}

/* ---- init ---- */

size_t kc_pool_need(uint32_t page_count)
{
  const size_t records = kc_arena_need(page_count, sizeof(struct kc_page_record));
  const size_t stack = kc_arena_need(page_count, sizeof(struct kc_page));
  KC_ASSERT(records <= SIZE_MAX / 2); /* 2^32 records need 2^37 bytes at most */
  KC_ASSERT(stack <= SIZE_MAX / 2);
  return records + stack;
}

enum kc_err kc_pool_init(struct kc_pool *pool, uint32_t page_count, uint64_t seed,
                         struct kc_arena *arena)
{
  KC_ASSERT(pool != NULL);
  KC_ASSERT(arena != NULL);
  if (page_count == 0 || page_count > KC_POOL_PAGES_MAX) return KC_ERR_LIMIT;
  if (KC_FAULT("pool-canary")) return KC_ERR_MEMORY; /* every test of the pool must fail */
  memset(pool, 0, sizeof *pool);
  pool->record = kc_arena_take(arena, page_count, sizeof *pool->record);
  pool->stack = kc_arena_take(arena, page_count, sizeof *pool->stack);
  if (pool->record == NULL || pool->stack == NULL) return KC_ERR_MEMORY;
  pool->page_count = page_count;
  pool->free_count = page_count;
  pool->armed = armed_points();

  struct kc_random random;
  kc_random_init(&random, seed, "kv-pool", 0);
  for (int i = 0; i < 2; i++) pool->key[i] = kc_random_u64(&random);
  pool->key[0] |= UINT64_C(1) << 63;
  pool->key[1] |= UINT64_C(3) << 62;

  for (uint32_t id = 0; id < page_count; id++) {
    const uint64_t generation = 2 + (kc_random_u64(&random) >> 34) * 2; /* even, 2 .. 2^31 */
    const uint32_t position = page_count - 1 - id; /* id 0 on top */
    kc_pool_put(&pool->record[id], pool->key, id, generation,
                kc_page_hold(KC_PAGE_FREE, position, 0));
    pool->stack[position] = (struct kc_page){.id = id, .tag = kc_tag_of(generation)};
    pool->generation_base += generation;
  }
  return KC_OK;
}

/* ---- allocation ---- */

/* Does the record agree that its page is free, with that tag, at the position that `hold` (of a
 * free page) names? */
static inline bool is_free(const struct kc_pool *pool, const struct kc_page_record *record,
                           uint64_t hold, uint32_t tag)
{
  if (ARMED(pool, SKIP_STACK)) return true;
  return ((record->hold ^ hold) | (kc_tag_of(record->generation) ^ tag)) == 0;
}

/* Does the record of stack[position] agree? */
static bool stack_holds(const struct kc_pool *pool, uint32_t position)
{
  const struct kc_page entry = pool->stack[position];
  return entry.id < pool->page_count &&
         is_free(pool, &pool->record[entry.id], kc_page_hold(KC_PAGE_FREE, position, 0),
                 entry.tag);
}

/* The entry `bad` of the stack is: puts those above it, taken already, back as they were. */
KC_COLD static bool undo_alloc(struct kc_pool *pool, const struct kc_page *bad)
{
  const uint32_t at = (uint32_t)(bad - pool->stack);
  KC_ASSERT(at < pool->free_count);
  for (uint32_t position = at + 1; position < pool->free_count; position++) {
    const uint32_t id = pool->stack[position].id;
    kc_pool_put(&pool->record[id], pool->key, id, pool->record[id].generation - 1,
                kc_page_hold(KC_PAGE_FREE, position, 0));
  }
  (void)report(pool, blame(pool, bad->id), bad->id, bad->tag);
  return false;
}

/* Paranoid mode: verifies the checksums of the `count` pages on top before any is touched. */
KC_COLD static bool top_is_sealed(struct kc_pool *pool, uint32_t count)
{
  KC_ASSERT(count <= pool->free_count);
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_page entry = pool->stack[pool->free_count - 1 - i];
    if (entry.id < pool->page_count && !sealed(pool, entry.id)) {
      (void)report(pool, KC_ERR_RECORD, entry.id, entry.tag);
      return false;
    }
  }
  return true;
}

bool kc_pool_alloc(struct kc_pool *pool, uint32_t count, uint32_t owner, uint32_t first,
                   struct kc_page *out)
{
  KC_ASSERT(owner > 0 && owner != KC_OWNER_SHARED);
  KC_ASSERT(pool->free_count <= pool->page_count);
  if (count > pool->free_count) return false;
  if (KC_UNLIKELY(pool->paranoid) && !top_is_sealed(pool, count)) return false;

  /* Copies, because the compiler cannot know that the loop's stores leave the pool alone. */
  const uint64_t key[2] = {pool->key[0], pool->key[1]};
  const uint32_t page_count = pool->page_count;
  const struct kc_page *entry = pool->stack + pool->free_count;
  uint64_t position_hold = kc_page_hold(KC_PAGE_FREE, pool->free_count, 0);
  /* Positions fall while places rise, so what a page is and what it becomes add up to the same. */
  const uint64_t both = live(owner, first) + position_hold - kc_page_hold(KC_PAGE_FREE, 1, 0);
  for (const struct kc_page *const end = out + count; out < end; out++) {
    entry--;
    position_hold -= kc_page_hold(KC_PAGE_FREE, 1, 0);
    if (KC_UNLIKELY(entry->id >= page_count)) return undo_alloc(pool, entry);
    struct kc_page_record *const record = &pool->record[entry->id];
    if (KC_UNLIKELY(!is_free(pool, record, position_hold, entry->tag))) {
      return undo_alloc(pool, entry);
    }
    kc_pool_put(record, key, entry->id, record->generation + 1, both - position_hold);
    kc_page_store(out, entry->id, kc_tag_next(entry->tag));
  }
  pool->free_count -= count;
  pool->allocations += count;
  return true;
}

bool kc_pool_take(struct kc_pool *pool, uint32_t id, uint32_t owner, uint32_t index,
                  struct kc_page *out)
{
  KC_ASSERT(id < pool->page_count);
  KC_ASSERT(owner > 0 && owner != KC_OWNER_SHARED);
  struct kc_page_record *const record = &pool->record[id];
  const uint32_t position = kc_page_link_of(record);
  const bool listed = kc_page_state_of(record) == KC_PAGE_FREE && position < pool->free_count &&
                      pool->stack[position].id == id && stack_holds(pool, position);
  if (KC_UNLIKELY(!listed) || (KC_UNLIKELY(pool->paranoid) && !sealed(pool, id))) {
    (void)report(pool, blame(pool, id), id, 0);
    return false;
  }
  const uint32_t top = pool->free_count - 1;
  if (position != top) { /* the page on top moves into the gap */
    if (KC_UNLIKELY(!stack_holds(pool, top))) {
      const struct kc_page bad = pool->stack[top];
      (void)report(pool, blame(pool, bad.id), bad.id, bad.tag);
      return false;
    }
    const struct kc_page moved = pool->stack[top];
    pool->stack[position] = moved;
    kc_pool_put(&pool->record[moved.id], pool->key, moved.id, pool->record[moved.id].generation,
                kc_page_hold(KC_PAGE_FREE, position, 0));
  }
  kc_pool_put(record, pool->key, id, record->generation + 1, live(owner, index));
  kc_page_store(out, id, kc_tag_of(record->generation));
  pool->free_count = top;
  pool->allocations++;
  return true;
}

/* ---- free ---- */

/* Writes the record of a page that leaves its state for FREE, and its pair on the stack; the
 * generation moves on by `bump`. `hold` is that of a free page at that place of the stack. */
static inline void put_free(const struct kc_pool *pool, const uint64_t key[2], uint32_t id,
                            uint64_t bump, uint64_t hold, struct kc_page *place)
{
  struct kc_page_record *const record = &pool->record[id];
  const uint64_t generation = record->generation + (ARMED(pool, SKIP_BUMP) ? 0 : bump);
  kc_pool_put(record, key, id, generation, hold);
  kc_page_store(place, id, kc_tag_of(generation));
}

/* Paranoid mode: how many of the `limit` pages from the last come before a damaged record. */
KC_COLD static uint32_t sealed_from_last(const struct kc_pool *pool, const struct kc_page *pages,
                                         uint32_t count, uint32_t limit)
{
  KC_ASSERT(limit <= count);
  for (uint32_t i = 0; i < limit; i++) {
    const uint32_t id = pages[count - 1 - i].id;
    if (id >= pool->page_count || !sealed(pool, id)) return i;
  }
  return limit;
}

/* A pair did not match. True when an armed fault point lets it pass without touching a record. */
static bool let_pass(const struct kc_pool *pool, struct kc_page page)
{
  return ARMED(pool, SKIP_RANGE) && page.id >= pool->page_count;
}

enum kc_err kc_pool_free(struct kc_pool *pool, const struct kc_page *pages, uint32_t count,
                         uint32_t owner, uint32_t first, uint32_t *freed)
{
  KC_ASSERT(owner > 0 && owner != KC_OWNER_SHARED);
  KC_ASSERT(pool->free_count <= pool->page_count);
  const uint64_t key[2] = {pool->key[0], pool->key[1]};
  const uint32_t base = pool->free_count;
  /* Never more than are out, so that a record that lies cannot make us write past the stack. */
  uint32_t limit = count < pool->page_count - base ? count : pool->page_count - base;
  if (KC_UNLIKELY(pool->paranoid)) limit = sealed_from_last(pool, pages, count, limit);
  const uint32_t page_count = pool->page_count;
  uint64_t held = live(owner, first + count - 1);
  const struct kc_page *page = pages + count;
  const struct kc_page *const end = page - limit;
  struct kc_page *place = pool->stack + base;
  uint64_t hold = kc_page_hold(KC_PAGE_FREE, base, 0);
  for (; page > end; place++, hold += kc_page_hold(KC_PAGE_FREE, 1, 0)) {
    page--;
    if (KC_UNLIKELY(page->id >= page_count) ||
        KC_UNLIKELY(!is_held(pool, &pool->record[page->id], page->tag, held))) {
      page++; /* not done */
      break;
    }
    put_free(pool, key, page->id, 1, hold, place);
    held -= kc_page_hold(KC_PAGE_FREE, 1, 0);
  }
  const uint32_t done = (uint32_t)(pages + count - page);
  pool->free_count += done;
  pool->frees += done;
  if (freed != NULL) *freed = done;
  if (done > 0 && pool->moved != NULL) pool->moved(pool->moved_context, owner);
  if (done == count || let_pass(pool, pages[count - 1 - done])) return KC_OK;
  return refuse_live(pool, pages[count - 1 - done], owner, KC_ERR_DOUBLE_FREE);
}

/* ---- sharing ---- */

/* Seals shared page `id` with that many references, of the same generation, and keeps the sums. */
static void put_refs(struct kc_pool *pool, uint32_t id, uint32_t refs)
{
  struct kc_page_record *const record = &pool->record[id];
  const struct kc_page page = {.id = id, .tag = kc_tag_of(record->generation)};
  const uint32_t before = kc_page_link_of(record);
  KC_ASSERT(kc_page_owner_of(record) == KC_OWNER_SHARED);
  KC_ASSERT(refs < KC_POOL_PAGES_MAX);
  kc_pool_put(record, pool->key, id, record->generation, live(KC_OWNER_SHARED, refs));
  pool->idle_count += (refs == 0) - (uint32_t)(before == 0);
  pool->refs_total += (uint64_t)refs - before;
  pool->refs_sum += ((uint64_t)refs - before) * kc_page_weight(page);
}

enum kc_err kc_pool_share(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index)
{
  const uint64_t hold = live(owner, index);
  KC_ASSERT(owner > 0 && owner != KC_OWNER_SHARED);
  KC_ASSERT(pool->record != NULL);
  if (!(KC_UNLIKELY(pool->paranoid) ? trusted(pool, page, hold) : matches(pool, page, hold))) {
    if (let_pass(pool, page)) return KC_OK;
    return refuse_live(pool, page, owner, KC_ERR_TAG_STALE);
  }
  kc_pool_put(&pool->record[page.id], pool->key, page.id, pool->record[page.id].generation,
              live(KC_OWNER_SHARED, 1));
  pool->shared_count++;
  pool->refs_total++;
  pool->refs_sum += kc_page_weight(page);
  return KC_OK;
}

enum kc_err kc_pool_ref(struct kc_pool *pool, struct kc_page page, bool *was_idle)
{
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(was_idle != NULL);
  *was_idle = false;
  if (!matches_shared(pool, page)) {
    if (let_pass(pool, page)) return KC_OK;
    return refuse_live(pool, page, KC_OWNER_SHARED, KC_ERR_TAG_STALE);
  }
  const uint32_t refs = kc_page_link_of(&pool->record[page.id]);
  *was_idle = refs == 0;
  put_refs(pool, page.id, refs + 1);
  return KC_OK;
}

enum kc_err kc_pool_unref(struct kc_pool *pool, struct kc_page page, bool *is_idle)
{
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(pool->idle_count <= pool->shared_count);
  if (is_idle != NULL) *is_idle = false;
  if (!matches_shared(pool, page)) {
    if (let_pass(pool, page)) return KC_OK;
    return refuse_live(pool, page, KC_OWNER_SHARED, KC_ERR_DOUBLE_FREE);
  }
  const uint32_t refs = kc_page_link_of(&pool->record[page.id]);
  if (refs == 0) {
    if (ARMED(pool, SKIP_REFS)) return KC_OK;
    const enum kc_err code =
        lacks_references(pool, page) ? KC_ERR_ROLLBACK : KC_ERR_DOUBLE_FREE;
    return report(pool, code, page.id, page.tag);
  }
  if (is_idle != NULL) *is_idle = refs == 1;
  put_refs(pool, page.id, refs - 1);
  return KC_OK;
}

enum kc_err kc_pool_drop(struct kc_pool *pool, struct kc_page page)
{
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(pool->free_count <= pool->page_count);
  if (!matches_shared(pool, page)) {
    if (let_pass(pool, page)) return KC_OK;
    return refuse_live(pool, page, KC_OWNER_SHARED, KC_ERR_DOUBLE_FREE);
  }
  if (kc_page_link_of(&pool->record[page.id]) > 0) {
    if (!ARMED(pool, SKIP_REFS)) return report(pool, KC_ERR_TAG_OWNER, page.id, page.tag);
    put_refs(pool, page.id, 0);
  }
  if (pool->free_count == pool->page_count) { /* no place: some record lies */
    return report(pool, KC_ERR_RECORD, page.id, page.tag);
  }
  put_free(pool, pool->key, page.id, 1, kc_page_hold(KC_PAGE_FREE, pool->free_count, 0),
           &pool->stack[pool->free_count]);
  pool->free_count++;
  pool->shared_count--;
  pool->idle_count--;
  pool->frees++;
  return KC_OK;
}

void kc_pool_set_refs(struct kc_pool *pool, uint32_t id, uint32_t refs)
{
  KC_ASSERT(id < pool->page_count);
  KC_ASSERT(kc_page_is_shared(&pool->record[id]) && sealed(pool, id));
  put_refs(pool, id, refs);
}

/* ---- quarantine ---- */

enum kc_err kc_pool_quarantine(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                               uint32_t index, struct kc_page *quarantined)
{
  KC_ASSERT(owner > 0 && owner != KC_OWNER_SHARED);
  KC_ASSERT(quarantined != NULL);
  if (!trusted(pool, page, live(owner, index))) {
    return refuse_live(pool, page, owner, KC_ERR_TAG_STALE);
  }
  struct kc_page_record *record = &pool->record[page.id];
  kc_pool_put(record, pool->key, page.id, record->generation + 1,
              kc_page_hold(KC_PAGE_QUARANTINE, 0, owner));
  *quarantined = (struct kc_page){.id = page.id, .tag = kc_tag_of(record->generation)};
  pool->quarantine_count++;
  pool->frees++;
  if (pool->moved != NULL) pool->moved(pool->moved_context, owner);
  if (ARMED(pool, SKIP_QUARANTINE)) (void)kc_pool_release_quarantined(pool, *quarantined);
  return KC_OK;
}

enum kc_err kc_pool_release_quarantined(struct kc_pool *pool, struct kc_page quarantined)
{
  /* Whoever acknowledges holds the pair; the owner has moved on, so its number is not asked for. */
  const uint32_t owner =
      quarantined.id < pool->page_count ? kc_page_owner_of(&pool->record[quarantined.id]) : 0;
  const uint64_t hold = kc_page_hold(KC_PAGE_QUARANTINE, 0, owner);
  KC_ASSERT(pool->quarantine_count <= pool->page_count);
  if (!trusted(pool, quarantined, hold) ||
      pool->quarantine_count == 0 || pool->free_count >= pool->page_count) {
    return refuse(pool, quarantined,
                  &(struct wanted){KC_PAGE_QUARANTINE, owner, KC_ERR_DOUBLE_FREE});
  }
  KC_ASSERT(pool->free_count < pool->page_count);
  put_free(pool, pool->key, quarantined.id, 2, /* even still; the pair is stale */
           kc_page_hold(KC_PAGE_FREE, pool->free_count, 0), &pool->stack[pool->free_count]);
  pool->free_count++;
  pool->quarantine_count--;
  pool->releases++;
  return KC_OK;
}

/* ---- checks ---- */

enum kc_err kc_pool_check(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index)
{
  KC_ASSERT(owner > 0);
  KC_ASSERT(pool->record != NULL);
  if (owner == KC_OWNER_SHARED) {
    if (is_referenced(pool, page)) return KC_OK;
  } else {
    const uint64_t hold = live(owner, index);
    const bool right =
        KC_UNLIKELY(pool->paranoid) ? trusted(pool, page, hold) : matches(pool, page, hold);
    if (right) return KC_OK;
  }
  if (let_pass(pool, page)) return KC_OK;
  return refuse_live(pool, page, owner, KC_ERR_TAG_STALE);
}

enum kc_err kc_pool_audit(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index)
{
  KC_ASSERT(owner > 0);
  KC_ASSERT(pool->record != NULL);
  const bool right = owner == KC_OWNER_SHARED
                         ? is_referenced(pool, page) && sealed(pool, page.id)
                         : trusted(pool, page, live(owner, index));
  if (right || let_pass(pool, page)) return KC_OK;
  return refuse_live(pool, page, owner, KC_ERR_TAG_STALE);
}

enum kc_err kc_pool_report(struct kc_pool *pool, enum kc_err code, struct kc_page page)
{
  KC_ASSERT(code != KC_OK);
  KC_ASSERT(pool->record != NULL);
  return report(pool, code, page.id, page.tag);
}

/* One record of the walk: KC_OK or what is wrong with it. */
static enum kc_err scrub_record(const struct kc_pool *pool, uint32_t id)
{
  const struct kc_page_record *record = &pool->record[id];
  const uint32_t position = kc_page_link_of(record), owner = kc_page_owner_of(record);
  const bool odd = (record->generation & 1) != 0;
  if (!sealed(pool, id)) return KC_ERR_RECORD;
  switch (kc_page_state_of(record)) {
    case KC_PAGE_FREE:
      if (ARMED(pool, SKIP_STACK)) return KC_OK;
      if (position >= pool->free_count || pool->stack[position].id != id) return blame(pool, id);
      if (pool->stack[position].tag != kc_tag_of(record->generation)) return blame(pool, id);
      return odd || owner != 0 ? KC_ERR_RECORD : KC_OK;
    case KC_PAGE_LIVE: return owner == 0 || !odd ? KC_ERR_RECORD : KC_OK;
    case KC_PAGE_QUARANTINE:
      return position != 0 || owner == 0 || odd ? KC_ERR_RECORD : KC_OK;
  }
  return KC_ERR_RECORD; /* state 3 does not exist */
}

/* The tag that the stack holds for the page of a faulty free record, for the report. */
static uint32_t stack_tag(const struct kc_pool *pool, uint32_t id)
{
  for (uint32_t p = 0; p < pool->free_count; p++) {
    if (pool->stack[p].id == id) return pool->stack[p].tag;
  }
  return 0;
}

/* The totals that no single record contradicts: generations, then references. A record that is
 * older than it should be makes the records' sums smaller, or lets a shared page be unshared. */
static enum kc_err scrub_sums(const struct kc_pool *pool, const struct shares *found)
{
  if (ARMED(pool, SKIP_ROLLBACK)) return KC_OK;
  const int64_t missing = generations_missing(pool);
  if (missing != 0) return missing > 0 ? KC_ERR_ROLLBACK : KC_ERR_RECORD;
  if (found->count == pool->shared_count && found->idle == pool->idle_count &&
      found->refs == pool->refs_total && found->sum == pool->refs_sum) {
    return KC_OK;
  }
  KC_ASSERT(found->idle <= found->count);
  return found->count < pool->shared_count || found->refs != pool->refs_total ? KC_ERR_ROLLBACK
                                                                              : KC_ERR_RECORD;
}

enum kc_err kc_pool_scrub(struct kc_pool *pool)
{
  uint32_t count[4] = {0};
  struct shares shares = {0};
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(pool->page_count > 0);
  if (pool->free_count > pool->page_count) return report(pool, KC_ERR_RECORD, KC_PAGE_NONE, 0);
  for (uint32_t id = 0; id < pool->page_count; id++) {
    const enum kc_err code = scrub_record(pool, id);
    if (KC_UNLIKELY(code != KC_OK)) return report(pool, code, id, stack_tag(pool, id));
    count[kc_page_state_of(&pool->record[id])]++;
    add_shares(&shares, pool, id);
  }
  /* Each free record sits at a position of its own; this finds stack entries nobody points back at:
   * pages that are listed as free but do not say so. */
  for (uint32_t p = 0; p < pool->free_count; p++) {
    const struct kc_page entry = pool->stack[p];
    if (KC_UNLIKELY(!stack_holds(pool, p))) {
      return report(pool, blame(pool, entry.id), entry.id, entry.tag);
    }
  }
  if (count[KC_PAGE_QUARANTINE] != pool->quarantine_count) {
    return report(pool, KC_ERR_RECORD, KC_PAGE_NONE, 0);
  }
  const enum kc_err code = scrub_sums(pool, &shares);
  return code == KC_OK ? KC_OK : report(pool, code, KC_PAGE_NONE, 0);
}

enum kc_err kc_pool_balance(struct kc_pool *pool)
{
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(pool->free_count <= pool->page_count);
  if (ARMED(pool, SKIP_BALANCE)) return KC_OK;
  for (uint32_t id = 0; id < pool->page_count; id++) {
    const struct kc_page_record *record = &pool->record[id];
    const uint32_t position = kc_page_link_of(record); /* or references */
    if (kc_page_state_of(record) == KC_PAGE_QUARANTINE) continue;
    if (kc_page_is_shared(record) && position == 0) continue;
    const bool listed = kc_page_state_of(record) == KC_PAGE_FREE && position < pool->free_count &&
                        pool->stack[position].id == id;
    if (!listed) return report(pool, KC_ERR_LEAK, id, 0);
  }
  return KC_OK;
}
