/* The discipline BLOCKS of prefix_cache.h, for prefix_cache.c alone. `slot` has what the interface
 * asks for. */
#ifndef KC_ENGINE_KV_BLOCK_CACHE_H
#define KC_ENGINE_KV_BLOCK_CACHE_H

#include "engine/kv/prefix_cache.h"

size_t kc_block_cache_need(uint32_t page_count, uint32_t key_count);
enum kc_err kc_block_cache_init(struct kc_prefix_cache *cache, struct kc_arena *arena);

struct kc_cache_match kc_block_cache_match(const struct kc_prefix_cache *cache,
                                           const struct kc_content *content, uint32_t pages_max);
void kc_block_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                           const struct kc_content *content, uint32_t pages);
bool kc_block_cache_grow(struct kc_prefix_cache *cache, uint32_t slot, uint32_t count);
void kc_block_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, uint32_t pages);
void kc_block_cache_clear(struct kc_prefix_cache *cache);
bool kc_block_cache_valid(const struct kc_prefix_cache *cache);

/* Page `id` got its first reference, or lost its last. */
void kc_block_cache_used(struct kc_prefix_cache *cache, uint32_t id);
void kc_block_cache_idle(struct kc_prefix_cache *cache, uint32_t id);
/* Entries [from, to) of a row that gives its pages up: those that the pool has taken back as free
 * join the queue, the last first. */
void kc_block_cache_freed(struct kc_prefix_cache *cache, const struct kc_page *row, uint32_t from,
                          uint32_t to);
/* Drops a cached page that has no references, to the head of the queue. */
void kc_block_cache_expel(struct kc_prefix_cache *cache, uint32_t id);

#endif
