/* Indexed binary heap: smallest (key, item) on top, items are dense small integers (slots), each
 * present at most once, removable from the middle. Ties fall to the smaller item, so that the order
 * never depends on history. A largest-first heap stores negated keys.
 *
 *   entry[0..count)   {key, item}            position[item] = index in entry, or KC_HEAP_ABSENT
 */
#ifndef KC_ENGINE_BASE_HEAP_H
#define KC_ENGINE_BASE_HEAP_H

#include "engine/base/arena.h"

#define KC_HEAP_ABSENT UINT32_MAX

struct kc_heap_entry {
  int64_t key;
  uint32_t item;
};

struct kc_heap {
  struct kc_heap_entry *entry; /* borrowed from an arena */
  uint32_t *position;
  uint32_t count;
  uint32_t capacity; /* items are 0 .. capacity - 1 */
};

size_t kc_heap_need(uint32_t capacity); /* arena bytes */
enum kc_err kc_heap_init(struct kc_heap *heap, uint32_t capacity, struct kc_arena *arena);

/* `item` must be absent. O(log n). */
void kc_heap_push(struct kc_heap *heap, int64_t key, uint32_t item);
/* `item` must be present. O(log n). */
void kc_heap_remove(struct kc_heap *heap, uint32_t item);

static inline bool kc_heap_has(const struct kc_heap *heap, uint32_t item)
{
  return heap->position[item] != KC_HEAP_ABSENT;
}

/* Smallest key, or INT64_MAX when empty. */
static inline int64_t kc_heap_top_key(const struct kc_heap *heap)
{
  return heap->count > 0 ? heap->entry[0].key : INT64_MAX;
}

/* True when every parent is <= its children and the index agrees. O(n); for tests and
 * KC_ASSERT_SLOW. */
bool kc_heap_valid(const struct kc_heap *heap);

#endif
