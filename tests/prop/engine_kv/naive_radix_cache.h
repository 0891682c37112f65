/* The discipline RADIX again, as plainly as it can be written, from what SGLang's radix cache is
 * known to do: nodes with their own copy of a span, children found by looking at all nodes, a lock
 * count in every node that is changed all the way to the root, access times, and eviction that
 * looks at all leaves each time.
 *
 * Which free page a row gets is the pool's business (its own twin has that): the caller says which
 * pages it was given, and the twin objects if one of them was not free. */
#ifndef KC_TESTS_PROP_NAIVE_RADIX_CACHE_H
#define KC_TESTS_PROP_NAIVE_RADIX_CACHE_H

#include "tests/prop/engine_kv/cache_content.h"

enum { NAIVE_NODES_MAX = 128, NAIVE_TREE_PAGES_MAX = 96, NAIVE_TREE_ROWS_MAX = 12 };

struct naive_node {
  bool alive;
  uint32_t parent;
  uint32_t salt; /* children of the root differ in it as well */
  uint32_t length;
  uint8_t symbol[CONTENT_PAGES_MAX];
  uint32_t page[CONTENT_PAGES_MAX];
  uint32_t lock;
  uint64_t access_time;
};

struct naive_radix_cache {
  uint32_t page_count;
  bool is_free[NAIVE_TREE_PAGES_MAX];
  struct naive_node node[NAIVE_NODES_MAX]; /* 0 is the root */
  uint32_t row[NAIVE_TREE_ROWS_MAX][CONTENT_PAGES_MAX];
  uint32_t extent[NAIVE_TREE_ROWS_MAX];
  uint32_t protected_pages[NAIVE_TREE_ROWS_MAX]; /* those of the tree */
  uint32_t last_node[NAIVE_TREE_ROWS_MAX];
  uint64_t clock;
  uint64_t evicted, duplicates;
};

void naive_radix_init(struct naive_radix_cache *naive, uint32_t page_count);
uint32_t naive_radix_match(struct naive_radix_cache *naive, const struct cache_text *text,
                           uint32_t pages_max, uint32_t *idle);
/* The row of an empty slot becomes the match's pages. */
void naive_radix_attach(struct naive_radix_cache *naive, uint32_t slot,
                        const struct cache_text *text, uint32_t pages);
/* Makes room for `count` pages as the server does; false when that fails. */
bool naive_radix_make_room(struct naive_radix_cache *naive, uint32_t count);
/* The row was given page `id`; false when it was not free. */
bool naive_radix_given(struct naive_radix_cache *naive, uint32_t slot, uint32_t id);
uint32_t naive_radix_evict(struct naive_radix_cache *naive, uint32_t pages);
void naive_radix_publish(struct naive_radix_cache *naive, uint32_t slot,
                         const struct cache_text *text, uint32_t pages);
void naive_radix_release(struct naive_radix_cache *naive, uint32_t slot);
uint32_t naive_radix_free(const struct naive_radix_cache *naive);
uint32_t naive_radix_held(const struct naive_radix_cache *naive, bool unlocked_only);

#endif
