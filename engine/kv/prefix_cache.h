/* Prefix caches: pages that outlive their request because their content may be asked for again.
 *
 * One interface over the one page pool, with the discipline of the server that is modelled:
 *
 *   NONE    nothing is kept; pages come and go through the pool's own stack
 *   BLOCKS  vLLM 0.19 (vllm/v1/core/block_pool.py): full blocks are found by key; blocks that
 *           nobody uses wait in one queue, cached or not, and are taken from its head
 *   RADIX   SGLang 0.5 (mem_cache/radix_cache.py): a tree over page-aligned spans; whole leaves
 *           that nobody uses are dropped, least recently used first, when the pool runs short
 *
 * A row of the block table (table.h) is a prefix of shared pages, each with one reference of the
 * row, followed by pages of its own. This interface is the only one that moves pages between the
 * two, and the only one that allocates or frees for a row when a cache is in use.
 *
 *             attach                publish                     release
 *   cache ------------> row.shared <--------- row.own <--grow-- pool      -> cache / pool
 *
 * Keys say what a page holds (content.h). Tenants never share, because the salt is in the key.
 *
 * Threads: one cache belongs to one instance. Costs: a lookup, an attach, a publish and a release
 * are O(1) per page; RADIX adds O(log nodes) per node passed. Nothing allocates after init.
 */
#ifndef KC_ENGINE_KV_PREFIX_CACHE_H
#define KC_ENGINE_KV_PREFIX_CACHE_H

#include "engine/kv/content.h"
#include "engine/kv/table.h"

enum kc_cache_kind { KC_CACHE_NONE = 0, KC_CACHE_BLOCKS, KC_CACHE_RADIX };

/* What a lookup found: the first `pages` pages of a content. Valid until the next call that changes
 * the cache. */
struct kc_cache_match {
  uint32_t pages;
  uint32_t idle; /* of those, nobody uses them: taking them makes `available` smaller by as much */
  uint32_t node; /* RADIX: the node that ends there; private */
};

struct kc_prefix_cache; /* opened up below for inlines and tests; fields are private */

size_t kc_prefix_cache_need(enum kc_cache_kind kind, uint32_t page_count, uint32_t slots,
                            uint32_t key_count); /* arena bytes */

/* Borrows pool and table for its life. `key_count` in [0, KC_KEYS_MAX]: keys are below it.
 * KC_ERR_MEMORY, KC_ERR_LIMIT. */
enum kc_err kc_prefix_cache_init(struct kc_prefix_cache *cache, enum kc_cache_kind kind,
                                 struct kc_pool *pool, struct kc_table *table, uint32_t key_count,
                                 struct kc_arena *arena);

/* Pages that kc_prefix_cache_grow can give in all: free ones and idle cached ones. O(1). */
uint32_t kc_prefix_cache_available(const struct kc_prefix_cache *cache);

/* Longest cached prefix of `content`, at most `pages_max` pages. BLOCKS: a pure lookup. RADIX:
 * refreshes the access order of the path and splits the node in which the match ends. */
struct kc_cache_match kc_prefix_cache_match(struct kc_prefix_cache *cache,
                                            const struct kc_content *content, uint32_t pages_max);

/* Puts the matched pages at the beginning of an empty row, with a reference each. */
void kc_prefix_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, const struct kc_cache_match *match);

/* Appends `count` pages of its own to a row; drops idle cached pages as the discipline says. False
 * when fewer are available: nothing changes. */
bool kc_prefix_cache_grow(struct kc_prefix_cache *cache, uint32_t slot, uint32_t count);

/* The first `pages` pages of the row hold the content's tokens (BLOCKS: will, by the end of the
 * step): those that are not shared yet become findable. pages <= extent and <= keyed pages.
 * RADIX: where the tree has a page with that key already, the row's own is freed and the row points
 * to the tree's. */
void kc_prefix_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                             const struct kc_content *content, uint32_t pages);

/* Ends a row: its references go, its own pages are freed (BLOCKS: to the tail of the queue, last
 * page first; so do shared ones that become idle, in the same order). Entries that fault are left
 * alone and reported through the pool's hook. KC_OK or the first fault. O(extent). */
enum kc_err kc_prefix_cache_release(struct kc_prefix_cache *cache, uint32_t slot);

/* kc_table_check, and for shared entries that the page's key is the content's. */
enum kc_err kc_prefix_cache_check_row(const struct kc_prefix_cache *cache, uint32_t slot,
                                      const struct kc_content *content, uint32_t *bad_index);

/* True when the references of all rows and the pool's count differ: some were lost or doubled, so
 * every row must be checked before it is read. O(1). */
bool kc_prefix_cache_suspect(const struct kc_prefix_cache *cache);

/* Drops everything that nobody uses: end of run. */
void kc_prefix_cache_clear(struct kc_prefix_cache *cache);

/* Recomputes every count, list, link and reference the slow way. For tests. O(pages + keys). */
bool kc_prefix_cache_valid(const struct kc_prefix_cache *cache);

/* Totals since init. */
struct kc_cache_counts {
  uint64_t lookups, pages_asked, pages_found, pages_published, pages_evicted, duplicates_freed;
};

#endif
