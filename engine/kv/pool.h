/* The page pool: a fixed number of KV pages, each a pair (id, tag).
 *
 * Every page has a 64-bit generation, bumped at every allocation and every free, so live pages have
 * odd generations. The tag that tables and the device carry is
 *
 *     tag = 1 + (generation - 1) mod (2^w - 1),   w = 32 (KC_TAG_BITS; 8 in the narrow test build)
 *
 * so 0 is never a valid tag. Nothing reads or writes a page without the pair.
 *
 * Two layers of protection, kept apart:
 *   - the tag in tables sees a page that was freed or handed on since the table was written;
 *   - each host record carries a 64-bit checksum keyed by the run's seed, verified by kc_pool_scrub
 *     (and on every operation in paranoid mode). A random corruption slips through with
 *     probability 5e-20. A record rolled back to an older, self-consistent state is seen only by
 *     the generation that its owner holds (kc_pool_check with the pair, kc_pool_audit_owner).
 * What neither sees: changed bytes inside a page, and a late write into a page handed on (closed by
 * quarantine: state KC_PAGE_QUARANTINE until the writer acknowledges).
 *
 *   record[id]   {generation, owner, link, checksum}   one per page
 *   stack[0..free_count)                               free ids, last in first out
 *   link         state FREE: position in stack; other states: 0
 *
 * Threads: one pool belongs to one instance; no locking. Everything is O(1) per page.
 */
#ifndef KC_ENGINE_KV_POOL_H
#define KC_ENGINE_KV_POOL_H

#include "engine/base/arena.h"

#ifndef KC_TAG_BITS
#define KC_TAG_BITS 32
#endif

enum kc_page_state { KC_PAGE_FREE = 0, KC_PAGE_LIVE = 1, KC_PAGE_QUARANTINE = 2 };

/* The pair. Also the entry of a block table, and what a transfer carries. */
struct kc_page {
  uint32_t id;
  uint32_t tag;
};

struct kc_page_record {
  uint64_t generation;
  uint64_t checksum;
  uint32_t owner; /* 0 = nobody; else what the caller passed, for example slot + 1 */
  uint32_t link;  /* bits 0..29 stack position while free, bits 30..31 state */
};

/* Called once for every fault the pool sees, before the error is returned. */
struct kc_fault_report {
  enum kc_err code;
  uint32_t page;       /* id as presented */
  uint32_t expected_tag, found_tag;
  uint32_t owner;      /* as recorded */
};
typedef void (*kc_fault_hook)(void *context, const struct kc_fault_report *report);

struct kc_pool {
  struct kc_page_record *record;
  uint32_t *stack;
  uint32_t page_count;
  uint32_t free_count;
  uint32_t quarantine_count;
  bool paranoid;            /* verify the checksum on every operation */
  uint64_t key[4];          /* of the checksum, from the run's seed */
  uint64_t allocations, frees, faults; /* totals since init */
  kc_fault_hook hook;       /* may be NULL */
  void *hook_context;
};

#define KC_POOL_PAGES_MAX (UINT32_C(1) << 30)

size_t kc_pool_need(uint32_t page_count); /* arena bytes */

/* `page_count` in [1, KC_POOL_PAGES_MAX]. The first page allocated is id 0. */
enum kc_err kc_pool_init(struct kc_pool *pool, uint32_t page_count, uint64_t seed,
                         struct kc_arena *arena);

/* Takes `count` pages for `owner` (> 0) and writes their pairs to `out`. All or nothing: false when
 * fewer are free, and nothing changes. Pages come in stack order: out[0] is the former top. */
bool kc_pool_alloc(struct kc_pool *pool, uint32_t count, uint32_t owner, struct kc_page *out);

/* Gives pages back, last first, so that the next allocation of the same count returns them in the
 * same order. Each pair is checked (range, state, owner, tag); the first fault stops, is reported
 * through the hook and returned (KC_ERR_TAG_RANGE, KC_ERR_DOUBLE_FREE, KC_ERR_TAG_OWNER,
 * KC_ERR_TAG_STALE, KC_ERR_RECORD); *freed pages before it were freed. */
enum kc_err kc_pool_free(struct kc_pool *pool, const struct kc_page *pages, uint32_t count,
                         uint32_t owner, uint32_t *freed);

/* Moves a live page of `owner` to quarantine: its tag changes, so tables that name it fault, but it
 * is not handed out until kc_pool_release_quarantined. */
enum kc_err kc_pool_quarantine(struct kc_pool *pool, struct kc_page page, uint32_t owner,
                               struct kc_page *quarantined);
enum kc_err kc_pool_release_quarantined(struct kc_pool *pool, struct kc_page quarantined);

/* Checks one table entry: KC_OK, KC_ERR_TAG_RANGE, KC_ERR_TAG_STALE or KC_ERR_TAG_OWNER. This is the
 * check that the engine runs on the device for every entry. Reports through the hook. */
enum kc_err kc_pool_check(struct kc_pool *pool, struct kc_page page, uint32_t owner);

/* The tag of a generation (> 0). */
uint32_t kc_tag_of(uint64_t generation);

/* Walks every record and the free stack: checksums, states, links, counts. The first fault is
 * reported and returned with the page in report. O(pages). */
enum kc_err kc_pool_scrub(struct kc_pool *pool);

/* End-of-run balance: every page is free (or quarantined). KC_ERR_LEAK names the first that is
 * not. O(pages). */
enum kc_err kc_pool_balance(struct kc_pool *pool);

#endif
