/* The discipline RADIX of prefix_cache.h, for prefix_cache.c alone. `slot` has what the interface
 * asks for. */
#ifndef KC_ENGINE_KV_RADIX_CACHE_H
#define KC_ENGINE_KV_RADIX_CACHE_H

#include "engine/kv/prefix_cache.h"

size_t kc_radix_cache_need(uint32_t page_count, uint32_t key_count);
enum kc_err kc_radix_cache_init(struct kc_prefix_cache *cache, struct kc_arena *arena);

struct kc_cache_match kc_radix_cache_match(struct kc_prefix_cache *cache,
                                           const struct kc_content *content, uint32_t pages_max);
void kc_radix_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                           const struct kc_content *content, uint32_t pages);
uint32_t kc_radix_cache_evict(struct kc_prefix_cache *cache, uint32_t pages);
void kc_radix_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, uint32_t pages);
bool kc_radix_cache_valid(const struct kc_prefix_cache *cache);

/* Page `id` lost its last reference. */
void kc_radix_cache_idle(struct kc_prefix_cache *cache, uint32_t id);
/* The node that page `id` ends has no children? */
bool kc_radix_cache_is_leaf(const struct kc_prefix_cache *cache, uint32_t id);
/* Drops the leaf that page `id` ends; none of its pages may have references. */
void kc_radix_cache_expel(struct kc_prefix_cache *cache, uint32_t id);

#endif
