/* The page pool again, as plainly as it can be written: an array of pages and linear scans. It has
 * no stack, no links and no checksums. The tests compare it with the real pool after every
 * operation. */
#ifndef KC_TESTS_PROP_NAIVE_POOL_H
#define KC_TESTS_PROP_NAIVE_POOL_H

#include "engine/kv/pool.h"

enum { NAIVE_PAGES_MAX = 256 };

struct naive_page {
  enum kc_page_state state;
  uint32_t owner;    /* KC_OWNER_SHARED: shared */
  uint32_t index;    /* in the owner's row */
  uint32_t refs;     /* when shared */
  uint64_t generation;
  uint64_t freed_at; /* when it became free: the latest is handed out first */
};

struct naive_pool {
  struct naive_page page[NAIVE_PAGES_MAX];
  uint32_t page_count;
  uint64_t tag_count; /* 2^w - 1 */
  uint64_t clock;
  uint64_t allocations, frees;
};

/* `first_generation` of each page is the pool's own choice, so the test reads it from there. */
void naive_init(struct naive_pool *naive, uint32_t page_count, uint32_t tag_bits,
                const uint64_t *first_generation);

uint32_t naive_tag(const struct naive_pool *naive, uint64_t generation);
uint32_t naive_count_shared(const struct naive_pool *naive, bool idle_only);
uint64_t naive_refs(const struct naive_pool *naive, uint64_t *weights); /* of all pages */
uint32_t naive_count(const struct naive_pool *naive, enum kc_page_state state);
uint64_t naive_generation_sum(const struct naive_pool *naive);

/* Lowest page in `state` at or after `start`, going round; KC_PAGE_NONE when there is none. */
uint32_t naive_find(const struct naive_pool *naive, enum kc_page_state state, uint32_t start);

/* Number of free pages that became free before this one. */
uint32_t naive_stack_position(const struct naive_pool *naive, uint32_t id);

bool naive_alloc(struct naive_pool *naive, uint32_t count, uint32_t owner, uint32_t first,
                 struct kc_page *out);
bool naive_take(struct naive_pool *naive, uint32_t id, uint32_t owner, uint32_t index,
                struct kc_page *out);
enum kc_err naive_check(const struct naive_pool *naive, struct kc_page page, uint32_t owner,
                        uint32_t index);
enum kc_err naive_free(struct naive_pool *naive, const struct kc_page *pages, uint32_t count,
                       uint32_t owner, uint32_t first, uint32_t *freed);
enum kc_err naive_share(struct naive_pool *naive, struct kc_page page, uint32_t owner,
                        uint32_t index);
enum kc_err naive_ref(struct naive_pool *naive, struct kc_page page);
enum kc_err naive_unref(struct naive_pool *naive, struct kc_page page);
enum kc_err naive_drop(struct naive_pool *naive, struct kc_page page);
enum kc_err naive_quarantine(struct naive_pool *naive, struct kc_page page, uint32_t owner,
                             uint32_t index, struct kc_page *quarantined);
enum kc_err naive_release(struct naive_pool *naive, struct kc_page page);

#endif
