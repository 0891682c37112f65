/* The page pool: a fixed number of KV pages, each a pair (id, tag).
 *
 * Every page has a 64-bit generation, bumped at every allocation and every free, so live pages have
 * odd generations and all others even ones. The tag that tables and the device carry is
 *
 *     tag = 1 + (generation - 1) mod (2^w - 1),   w = 32 (KC_TAG_BITS; 8 in the narrow test build)
 *
 * so 0 is never a valid tag. Nothing reads or writes a page without the pair. A stale pair becomes
 * valid again only when its page is live, with the same owner, at a generation that differs by a
 * multiple of 2 * (2^w - 1): the modulus is odd, and between two live generations lies an even
 * distance. Pages start at different generations, drawn from the seed, so that the tag also tells
 * pages apart: an entry whose id was corrupted into that of another page fails on its tag.
 *
 * Two layers of protection, kept apart:
 *   - the tag in tables sees a page that was freed or handed on since the table was written;
 *   - each host record carries a 64-bit checksum keyed by the run's seed, verified by kc_pool_scrub
 *     (and on every operation in paranoid mode). A random corruption slips through with
 *     probability 5e-20 (2^-64). A record rolled back to an older, self-consistent state is seen
 *     only by the tag that its holder keeps: the owner's table (kc_pool_audit) while it is live,
 *     the free stack while it is free; the sum of all generations says which of the two is wrong.
 * What neither sees: changed bytes inside a page, and a late write into a page handed on (closed by
 * quarantine: state KC_PAGE_QUARANTINE until the writer acknowledges).
 *
 *   record[id]            {generation, checksum, hold}   one per page
 *   hold                  owner in bits 0..31, link in bits 32..61, state in bits 62..63
 *   link                  FREE: position in stack; LIVE with one owner: index of the page in the
 *                         owner's row; LIVE and shared: references; QUARANTINE: 0
 *   stack[0..free_count)  pairs of the free pages, last in first out
 *
 * Shared pages. A live page either has one owner, who has it at one place of its row, or is shared:
 * owner KC_OWNER_SHARED, and then any number of rows name it, each with one reference. All of them
 * hold the same pair; sharing and references leave the generation alone. A shared page without
 * references is idle: only a prefix cache knows of it, and may drop it. A page that was dropped and
 * handed on has a new tag, so whoever still names it holds a stale pair.
 *
 *        alloc, take            share              unref until 0           drop
 *   FREE ------------> one owner -----> shared, n > 0 <----------> idle --------> FREE
 *        <------------                                   ref
 *            free
 *
 * A reference that was lost or doubled changes no tag. refs_total counts the references of all
 * pages and refs_sum adds up their pairs; the table keeps the same sums over its rows (table.h), so
 * the two disagree from the first such mistake on. The scrub recounts both from the records.
 *
 * Threads: one pool belongs to one instance; no locking. Everything is O(1) per page unless said
 * otherwise; classifying a fault that looks like a rollback is O(pages).
 */
#ifndef KC_ENGINE_KV_POOL_H
#define KC_ENGINE_KV_POOL_H

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/vtime.h"

#ifndef KC_TAG_BITS
#define KC_TAG_BITS 32
#endif

enum kc_page_state { KC_PAGE_FREE = 0, KC_PAGE_LIVE = 1, KC_PAGE_QUARANTINE = 2 };

/* The pair. Also the entry of a block table, and what a transfer carries. */
struct kc_page {
  uint32_t id;
  uint32_t tag;
};

/* *to = {id, tag} as one store: left to itself the compiler goes through a vector register. */
static inline void kc_page_store(struct kc_page *to, uint32_t id, uint32_t tag)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  const uint64_t both = (uint64_t)tag << 32 | id;
#else
  const uint64_t both = (uint64_t)id << 32 | tag;
#endif
  memcpy(to, &both, sizeof both);
}

struct kc_page_record {
  uint64_t generation;
  uint64_t checksum; /* kc_pool_checksum of the rest */
  uint64_t hold;     /* who has the page: kc_page_hold(state, link, owner) */
};

/* Owner of a page that rows share. */
#define KC_OWNER_SHARED UINT32_MAX

/* `owner`: 0 = nobody; else what the caller passed, for example slot + 1. One word, because it is
 * compared and stored as one on every operation. */
static inline uint64_t kc_page_hold(enum kc_page_state state, uint32_t link, uint32_t owner)
{
  return (uint64_t)state << 62 | (uint64_t)link << 32 | owner;
}
static inline enum kc_page_state kc_page_state_of(const struct kc_page_record *record)
{
  return (enum kc_page_state)(record->hold >> 62);
}
static inline uint32_t kc_page_link_of(const struct kc_page_record *record)
{
  return (uint32_t)(record->hold >> 32) & ((UINT32_C(1) << 30) - 1);
}
static inline uint32_t kc_page_owner_of(const struct kc_page_record *record)
{
  return (uint32_t)record->hold;
}

static inline bool kc_page_is_shared(const struct kc_page_record *record)
{
  return kc_page_state_of(record) == KC_PAGE_LIVE && kc_page_owner_of(record) == KC_OWNER_SHARED;
}

/* What one reference to a page adds to refs_sum: its pair as one number. */
static inline uint64_t kc_page_weight(struct kc_page page)
{
  return (uint64_t)page.tag << 32 | page.id;
}

/* Page of a report when a fault is certain but no single page can be named. */
#define KC_PAGE_NONE UINT32_MAX

/* Called once for every fault the pool sees, before the error is returned. */
struct kc_fault_report {
  enum kc_err code;
  uint32_t page;         /* id as presented, or KC_PAGE_NONE */
  uint32_t expected_tag; /* by the record; 0 when the id is outside the pool */
  uint32_t found_tag;    /* in the pair presented; for a free page, on the free stack; else 0 */
  uint32_t owner;        /* as recorded; 0 when the id is outside the pool */
};
typedef void (*kc_fault_hook)(void *context, const struct kc_fault_report *report);

/* Called once for every kc_pool_free, kc_pool_quarantine that moved at least one tag of `owner`.
 * (Not for kc_pool_drop: a page without references is in nobody's row.) */
typedef void (*kc_move_hook)(void *context, uint32_t owner);

struct kc_pool {
  struct kc_page_record *record;
  struct kc_page *stack;
  uint32_t page_count;
  uint32_t free_count;
  uint32_t quarantine_count;
  uint32_t shared_count;    /* pages of KC_OWNER_SHARED */
  uint32_t idle_count;      /* of those, without references */
  uint64_t refs_total;      /* references to all shared pages */
  uint64_t refs_sum;        /* of kc_page_weight over the references, mod 2^64 */
  uint32_t armed;           /* fault points thrown by tests; always 0 without KC_FAULTS */
  bool paranoid;            /* verify the checksum on every operation */
  uint64_t key[2];          /* of the checksum, from the run's seed */
  uint64_t generation_base; /* sum of the generations at init, mod 2^64 */
  uint64_t allocations, frees, releases, faults; /* totals since init, in pages; a quarantine counts
                                                    as a free, its release as a release */
  kc_fault_hook hook;       /* may be NULL */
  void *hook_context;
  kc_move_hook moved;       /* may be NULL */
  void *moved_context;
};

#define KC_POOL_PAGES_MAX (UINT32_C(1) << 30)

/* Number of distinct tags, 2^w - 1. */
#define KC_TAG_COUNT ((UINT64_C(1) << KC_TAG_BITS) - 1)

/* The tag of a generation. Generation 0, which no page ever has, gives 0. */
static inline uint32_t kc_tag_of(uint64_t generation)
{
  if (__builtin_expect(generation <= KC_TAG_COUNT, 1)) return (uint32_t)generation;
  return (uint32_t)(1 + (generation - 1) % KC_TAG_COUNT);
}

/* The tag after `tag`: of the next generation. */
static inline uint32_t kc_tag_next(uint32_t tag)
{
  return tag == KC_TAG_COUNT ? 1 : tag + 1;
}

/* Checksum of the record of page `id`; the field `checksum` itself is not read. pool.c says why it
 * has this form. */
static inline uint64_t kc_pool_checksum(const uint64_t key[2], uint32_t id, uint64_t generation,
                                        uint64_t hold)
{
  const uint64_t a = generation ^ key[0] ^ (uint64_t)id << 32;
  const uint64_t b = hold ^ key[1];
  const uint64_t high = (uint64_t)(((kc_u128)a * b) >> 64);
  return a * b ^ high;
}

/* Everything that changes a record comes through here, so no state is ever left unsealed. */
static inline void kc_pool_put(struct kc_page_record *record, const uint64_t key[2], uint32_t id,
                               uint64_t generation, uint64_t hold)
{
  record->generation = generation;
  record->hold = hold;
  record->checksum = kc_pool_checksum(key, id, generation, hold);
}

/* What the generations of all records add up to, mod 2^64, if every record is as the operations
 * left it: one for each allocation and free, two for each release. */
static inline uint64_t kc_pool_generation_sum(const struct kc_pool *pool)
{
  return pool->generation_base + pool->allocations + pool->frees + 2 * pool->releases;
}

size_t kc_pool_need(uint32_t page_count); /* arena bytes, whatever the count */

/* `page_count` in [1, KC_POOL_PAGES_MAX], else KC_ERR_LIMIT. The first page allocated is id 0, then
 * 1, 2, ... KC_ERR_MEMORY when the arena is too small. O(pages). */
enum kc_err kc_pool_init(struct kc_pool *pool, uint32_t page_count, uint64_t seed,
                         struct kc_arena *arena);

/* Takes `count` pages for `owner` (neither 0 nor KC_OWNER_SHARED) and writes their pairs to `out`;
 * they are its pages number `first`, first + 1, ... All or nothing: false when fewer are free, and
 * nothing changes. Pages come in stack order: out[0] is the former top.
 * A free page whose record contradicts the stack is never handed out: the fault is reported through
 * the hook (KC_ERR_TAG_RANGE, KC_ERR_RECORD, KC_ERR_ROLLBACK), the result is false and nothing but
 * `faults` changes. A caller tells the two apart by `count <= pool->free_count`. */
bool kc_pool_alloc(struct kc_pool *pool, uint32_t count, uint32_t owner, uint32_t first,
                   struct kc_page *out);

/* kc_pool_alloc of one page that the caller chooses: for disciplines with an order of their own.
 * The page on top of the stack takes its place there. False as kc_pool_alloc; a page that is not
 * free is reported as KC_ERR_RECORD. */
bool kc_pool_take(struct kc_pool *pool, uint32_t id, uint32_t owner, uint32_t index,
                  struct kc_page *out);

/* kc_pool_alloc of one page, in line: a step loop's grant. False when anything is unusual (short,
 * paranoid, a fault): call kc_pool_alloc then, which knows what to do. (`armed` matters in fault
 * builds only, where no detector may be bypassed.) */
static inline bool kc_pool_try_alloc_one(struct kc_pool *pool, uint32_t owner, uint32_t index,
                                         struct kc_page *out)
{
  const uint32_t position = pool->free_count - 1;
  KC_ASSERT(owner > 0);
  if (pool->free_count == 0 || pool->paranoid) return false;
#ifdef KC_FAULTS
  if (pool->armed != 0) return false;
#endif
  const struct kc_page entry = pool->stack[position];
  if (entry.id >= pool->page_count) return false;
  struct kc_page_record *record = &pool->record[entry.id];
  if (record->hold != kc_page_hold(KC_PAGE_FREE, position, 0)) return false;
  if (kc_tag_of(record->generation) != entry.tag) return false;
  pool->free_count = position; /* first, because the next grant waits for it */
  pool->allocations++;
  kc_page_store(out, entry.id, kc_tag_next(entry.tag));
  kc_pool_put(record, pool->key, entry.id, record->generation + 1,
              kc_page_hold(KC_PAGE_LIVE, index, owner));
  return true;
}

/* kc_pool_alloc of one page, the quick way when possible. */
static inline bool kc_pool_alloc_one(struct kc_pool *pool, uint32_t owner, uint32_t index,
                                     struct kc_page *out)
{
  return kc_pool_try_alloc_one(pool, owner, index, out) ||
         kc_pool_alloc(pool, 1, owner, index, out);
}

/* Gives pages back, last first, so that the next allocation of the same count returns them in the
 * same order. They are the owner's pages number `first`, first + 1, ... Each pair is checked
 * (range, state, tag, owner, number; a shared page has another owner); the first fault stops, is
 * reported through the hook and returned (KC_ERR_TAG_RANGE, KC_ERR_DOUBLE_FREE, KC_ERR_TAG_STALE,
 * KC_ERR_TAG_OWNER, KC_ERR_RECORD, KC_ERR_ROLLBACK). *freed (may be NULL) is the number given back:
 * entries [count - *freed, count), and the faulty one is the entry before them. */
enum kc_err kc_pool_free(struct kc_pool *pool, const struct kc_page *pages, uint32_t count,
                         uint32_t owner, uint32_t first, uint32_t *freed);

/* The owner's page number `index` becomes a shared page with one reference: the owner's.
 * KC_ERR_TAG_STALE, KC_ERR_TAG_OWNER, KC_ERR_TAG_RANGE, KC_ERR_RECORD, KC_ERR_ROLLBACK. */
enum kc_err kc_pool_share(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index);

/* One more row names the shared page. *was_idle: it had no reference. Errors as kc_pool_share. */
enum kc_err kc_pool_ref(struct kc_pool *pool, struct kc_page page, bool *was_idle);

/* One row fewer names it. *is_idle (may be NULL): it has no reference left. KC_ERR_DOUBLE_FREE when
 * it had none, or is free; else errors as kc_pool_share. */
enum kc_err kc_pool_unref(struct kc_pool *pool, struct kc_page page, bool *is_idle);

/* An idle page becomes free: its tag moves on, and it is the next one handed out.
 * KC_ERR_TAG_OWNER when it has references or an owner, KC_ERR_DOUBLE_FREE when it is free; else
 * errors as kc_pool_share. */
enum kc_err kc_pool_drop(struct kc_pool *pool, struct kc_page page);

/* Sets the references of shared page `id` to what a count of the rows has found: mends the books
 * after a fault. The page must be shared and its record sound (assert). */
void kc_pool_set_refs(struct kc_pool *pool, uint32_t id, uint32_t refs);

/* Reports a fault that somebody else saw in a sound record: the right pair in the wrong place.
 * Returns `code`. */
enum kc_err kc_pool_report(struct kc_pool *pool, enum kc_err code, struct kc_page page);

/* Moves a live page of `owner`, its number `index`, to quarantine: its tag changes, so tables that
 * name it fault, but it is not handed out until kc_pool_release_quarantined. Errors as
 * kc_pool_free, but a page that is free already is KC_ERR_TAG_STALE. */
enum kc_err kc_pool_quarantine(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                               uint32_t index, struct kc_page *quarantined);

/* The writer has acknowledged: the page becomes free, and its tag changes once more.
 * KC_ERR_DOUBLE_FREE when it is free already, KC_ERR_TAG_OWNER when the pair is that of a live
 * page, KC_ERR_TAG_STALE, KC_ERR_TAG_RANGE, KC_ERR_RECORD, KC_ERR_ROLLBACK. */
enum kc_err kc_pool_release_quarantined(struct kc_pool *pool, struct kc_page quarantined);

/* Checks one table entry: is this a live page of `owner`, and its number `index`? With owner
 * KC_OWNER_SHARED: is it shared, with references (`index` is not looked at)? KC_OK,
 * KC_ERR_TAG_RANGE, KC_ERR_TAG_STALE, KC_ERR_TAG_OWNER; KC_ERR_RECORD when the mismatch comes from
 * a damaged record, and KC_ERR_ROLLBACK when the record is behind the pair by exactly what the sum
 * of generations lacks. This is the check that the engine runs on the device for every entry (there
 * on tags alone). Reports through the hook. */
enum kc_err kc_pool_check(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index);

/* The same, and always verifies the checksum, whatever the mode. */
enum kc_err kc_pool_audit(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                          uint32_t index);

/* Walks every record and the free stack: checksums, states, links, tags, counts, references, and
 * the sum of generations. The first fault is reported with its page and returned: KC_ERR_RECORD, or
 * KC_ERR_ROLLBACK when all checksums hold and a record is older than it should be (with
 * KC_PAGE_NONE if that page is live: kc_table_audit then names it, unless it is a shared page that
 * lacks some of its references, but not all: those are the same for every row). O(pages). */
enum kc_err kc_pool_scrub(struct kc_pool *pool);

/* End-of-run balance: every page is free, quarantined, or shared and idle (its cache answers for
 * those: kc_prefix_cache_balance). KC_ERR_LEAK names the first that is not. O(pages). */
enum kc_err kc_pool_balance(struct kc_pool *pool);

#endif
