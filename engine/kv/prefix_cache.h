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
 * What a cache stores is in pairs, as everywhere: found[key] is (id, tag), and a page that was
 * handed on behind the cache's back is refused when it is attached.
 *
 * Threads: one cache belongs to one instance. Costs: a lookup, an attach, a publish and a release
 * are O(1) per page (a RADIX lookup: per node and per run of the content); evicting a RADIX node is
 * O(its pages + log nodes). Nothing allocates after init.
 */
#ifndef KC_ENGINE_KV_PREFIX_CACHE_H
#define KC_ENGINE_KV_PREFIX_CACHE_H

#include "engine/base/heap.h"
#include "engine/kv/content.h"
#include "engine/kv/table.h"

enum kc_cache_kind { KC_CACHE_NONE = 0, KC_CACHE_BLOCKS, KC_CACHE_RADIX };

/* What a lookup found: the first `pages` pages of a content. Valid until the next call that changes
 * the cache. */
struct kc_cache_match {
  uint32_t pages;
  uint32_t idle; /* of those, nobody uses them: taking them makes `available` smaller by as much */
};

/* Totals since init. Pages asked for and found are those of every lookup, also of lookups that led
 * to no admission. */
struct kc_cache_counts {
  uint64_t lookups, pages_asked, pages_found, pages_published, pages_evicted, duplicates_freed;
};

/* A page as BLOCKS sees it. Lists are of page ids. */
struct kc_block {
  uint32_t key; /* KC_KEY_NONE: not cached; else the page is shared and has `tag` */
  uint32_t tag;
  uint32_t queue_next, queue_previous; /* both KC_PAGE_NONE: not in the queue */
  uint32_t twin_next, twin_previous;   /* cached pages of one key, oldest first, in a ring */
};

/* A page as RADIX sees it. */
struct kc_radix_page {
  uint32_t key;  /* KC_KEY_NONE: not in the tree */
  uint32_t tag;
  uint32_t up;   /* the page before it in its span; undefined for the first of one */
  uint32_t down; /* the page after it; undefined for the last */
  uint32_t end;  /* the node whose span it ends, or KC_NODE_NONE */
};

#define KC_NODE_NONE UINT32_MAX

/* A node: a span of pages that follows its parent's. */
struct kc_radix_node {
  int64_t stamp;      /* of the last visit */
  uint32_t parent;    /* KC_NODE_NONE: hangs from the root */
  uint32_t children;
  uint32_t first_key;
  uint32_t last_page; /* its references lock the node */
  uint32_t pages;     /* > 0; 0: not in use */
};

struct kc_prefix_cache {
  enum kc_cache_kind kind;
  uint32_t key_count;
  struct kc_pool *pool;       /* borrowed */
  struct kc_table *table;     /* borrowed */
  struct kc_page *found;      /* [key_count] page with that key (BLOCKS: the oldest); tag 0: none */
  uint32_t *named;            /* [page_count] scratch of kc_prefix_cache_mend and _valid */
  struct kc_cache_counts counts;
  /* BLOCKS */
  struct kc_block *block;     /* [page_count + 1] the last is head and tail of the queue */
  uint32_t queue_count;
  /* RADIX */
  struct kc_radix_page *page; /* [page_count] */
  struct kc_radix_node *node; /* [page_count] */
  uint32_t *node_at;          /* [key_count] 1 + the node whose span begins with it; 0: none */
  uint32_t *free_node;        /* stack */
  uint32_t free_node_count;
  struct kc_heap leaves;      /* nodes by stamp; every unlocked leaf is here (others may be, and
                                 stamps may lag: both are put right when they come to the top) */
  int64_t clock;              /* last stamp given */
};

/* Arena bytes. */
size_t kc_prefix_cache_need(enum kc_cache_kind kind, uint32_t page_count, uint32_t key_count);

/* Borrows pool and table for its life; all pages must be free. `key_count` in [0, KC_KEYS_MAX]:
 * keys are below it. KC_ERR_MEMORY, KC_ERR_LIMIT. O(pages): keys cost memory once they are used. */
enum kc_err kc_prefix_cache_init(struct kc_prefix_cache *cache, enum kc_cache_kind kind,
                                 struct kc_pool *pool, struct kc_table *table, uint32_t key_count,
                                 struct kc_arena *arena);

/* Pages that kc_prefix_cache_grow can give in all: free ones and idle cached ones. O(1). */
static inline uint32_t kc_prefix_cache_available(const struct kc_prefix_cache *cache)
{
  return cache->pool->free_count + cache->pool->idle_count;
}

/* Longest cached prefix of `content`, at most `pages_max` pages. BLOCKS: a pure lookup. RADIX:
 * refreshes the access order of the path and splits the node in which the match ends. */
struct kc_cache_match kc_prefix_cache_match(struct kc_prefix_cache *cache,
                                            const struct kc_content *content, uint32_t pages_max);

/* Puts the matched pages at the beginning of an empty row, with a reference each. `match` is the
 * last lookup's, whole. */
void kc_prefix_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, const struct kc_cache_match *match);

/* Appends `count` pages of its own to a row; drops idle cached pages as the discipline says: BLOCKS
 * those at the head of the queue; RADIX, when fewer than `count` are free, leaves of `count` pages
 * or more, as the server does, whatever is missing. False when fewer are available: nothing
 * changes. (False also when the pool sees a fault, as kc_pool_alloc; what was dropped stays
 * dropped.) */
bool kc_prefix_cache_grow(struct kc_prefix_cache *cache, uint32_t slot, uint32_t count);

/* RADIX: drops least recently used leaves until at least `pages` pages are free that were not, or
 * nothing unlocked is left; how many became free. For a policy that makes room for a whole batch at
 * once. Others: 0. */
uint32_t kc_prefix_cache_evict(struct kc_prefix_cache *cache, uint32_t pages);

/* The first `pages` pages of the row hold the content's tokens (BLOCKS: will, by the end of the
 * step): those that are not shared yet become findable. shared <= pages <= extent, and the content
 * has a key for each. RADIX: where the tree has a page with that key already, the row's own is
 * freed and the row points to the tree's; the path's access order is refreshed, also when pages =
 * shared. An own page that faults is reported; it and those after it stay the row's own. */
void kc_prefix_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                             const struct kc_content *content, uint32_t pages);

/* Ends a row: its references go, its own pages are freed (BLOCKS: to the tail of the queue, last
 * page first; so do shared ones that become idle, in the same order). Entries that fault are left
 * alone and reported through the pool's hook. KC_OK or the first fault. O(extent). */
enum kc_err kc_prefix_cache_release(struct kc_prefix_cache *cache, uint32_t slot);

/* kc_table_check, and for shared entries that the page's key is the content's: KC_ERR_TAG_OWNER
 * when it is not. */
enum kc_err kc_prefix_cache_check_row(const struct kc_prefix_cache *cache, uint32_t slot,
                                      const struct kc_content *content, uint32_t *bad_index);

/* True when the references of all rows and the pool's count differ: some were lost or doubled, so
 * every row must be checked before it is read. O(1). */
static inline bool kc_prefix_cache_suspect(const struct kc_prefix_cache *cache)
{
  return cache->pool->refs_total != cache->table->shared_in_use ||
         cache->pool->refs_sum != cache->table->shared_sum;
}

/* Drops everything that nobody uses: end of run. */
void kc_prefix_cache_clear(struct kc_prefix_cache *cache);

/* End-of-run balance: clears, then kc_pool_balance, and no page may be left shared (KC_ERR_LEAK).
 * O(pages). */
enum kc_err kc_prefix_cache_balance(struct kc_prefix_cache *cache);

/* Recomputes every count, list, link and reference the slow way. For tests. O(pages + keys). */
bool kc_prefix_cache_valid(const struct kc_prefix_cache *cache);

/* ---- faults on purpose: for tests and for a simulation that injects them ----
 *
 * Each is a mistake that a server's own code could make. The caches stay sound in themselves; rows
 * are what goes wrong. */

/* A reference too many is given back for each shared page of the row, which goes on naming them.
 * (RADIX: where another row's path goes on below those pages, they may become idle in the middle of
 * the tree once both have ended; `available` then promises what cannot be evicted. So not without a
 * check of the rows, or kc_prefix_cache_mend, before pages are handed out.) */
void kc_prefix_cache_lose(struct kc_prefix_cache *cache, uint32_t slot);

/* One reference too many is taken for each shared page of the row. */
void kc_prefix_cache_double(struct kc_prefix_cache *cache, uint32_t slot);

/* Drops the row's last shared page although it is in use (RADIX: all pages of the leaf that it
 * ends; false when other nodes hang from it) and makes it the next that is handed out. False when
 * the row shares nothing. */
bool kc_prefix_cache_expel(struct kc_prefix_cache *cache, uint32_t slot);

/* After faults: counts which rows name each shared page with a valid pair and sets its references
 * to that; then kc_prefix_cache_suspect tells nothing of them any more. Rows that name pages that
 * are not theirs must have been released before. O(pages + entries). */
void kc_prefix_cache_mend(struct kc_prefix_cache *cache);

#endif
