/* The discipline BLOCKS again, as plainly as it can be written, from what vLLM's block pool is
 * known to do: one list of unused blocks, taken from its front; a block keeps its hash until it is
 * taken; freed blocks join at the back, a request's last block first; a hit leaves the list; of
 * several blocks with one hash the first that got it is found. No index, no shared pages: a block
 * has a count of users, and remembers the whole text up to its end. */
#ifndef KC_TESTS_PROP_NAIVE_BLOCK_CACHE_H
#define KC_TESTS_PROP_NAIVE_BLOCK_CACHE_H

#include "tests/prop/engine_kv/cache_content.h"

enum { NAIVE_BLOCKS_MAX = 96, NAIVE_ROWS_MAX = 12 };

struct naive_block {
  uint32_t users;
  bool hashed;
  struct cache_text text; /* of `length` pages, this block holding the last */
  uint64_t hashed_at;
};

struct naive_block_cache {
  uint32_t block_count;
  struct naive_block block[NAIVE_BLOCKS_MAX];
  uint32_t unused[NAIVE_BLOCKS_MAX]; /* front first */
  uint32_t unused_count;
  uint32_t row[NAIVE_ROWS_MAX][CONTENT_PAGES_MAX];
  uint32_t extent[NAIVE_ROWS_MAX];
  uint64_t clock;
};

void naive_blocks_init(struct naive_block_cache *naive, uint32_t block_count);
uint32_t naive_blocks_match(const struct naive_block_cache *naive, const struct cache_text *text,
                            uint32_t pages_max, uint32_t *idle);
void naive_blocks_attach(struct naive_block_cache *naive, uint32_t slot,
                         const struct cache_text *text, uint32_t pages);
bool naive_blocks_grow(struct naive_block_cache *naive, uint32_t slot, uint32_t count);
void naive_blocks_publish(struct naive_block_cache *naive, uint32_t slot,
                          const struct cache_text *text, uint32_t pages);
void naive_blocks_release(struct naive_block_cache *naive, uint32_t slot);
void naive_blocks_clear(struct naive_block_cache *naive);
uint32_t naive_blocks_hashed(const struct naive_block_cache *naive, bool unused_only);

#endif
