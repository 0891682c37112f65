/* The indexed binary heap: finds the smallest (key, item), and removes any item, in O(log n).
 *
 *   entry      [0]          smallest          children of entry i: 2i+1 and 2i+2
 *             /   \
 *          [1]     [2]
 *   position[item] = i  <=>  entry[i].item = item
 *
 * Both arrays are borrowed from the arena that kc_heap_init was given. The order (key, then item)
 * is total because an item is present at most once, so the sequence of tops depends on the content
 * alone, never on the history of pushes; simulation results rest on that.
 *
 * Sifting moves a hole rather than swapping: each level costs one entry and one position write. */
#include "engine/base/heap.h"

#include <string.h>

#include "engine/base/check.h"

static bool entry_before(struct kc_heap_entry a, struct kc_heap_entry b)
{
  return a.key < b.key || (a.key == b.key && a.item < b.item);
}

static void place(struct kc_heap *heap, uint32_t index, struct kc_heap_entry entry)
{
  heap->entry[index] = entry;
  heap->position[entry.item] = index;
}

/* Moves the hole at `index` towards the root until `entry` may stand there. */
static void sift_up(struct kc_heap *heap, uint32_t index, struct kc_heap_entry entry)
{
  while (index > 0) {
    const uint32_t parent = (index - 1) / 2;
    if (!entry_before(entry, heap->entry[parent])) break;
    place(heap, index, heap->entry[parent]);
    index = parent;
  }
  place(heap, index, entry);
}

/* Moves the hole at `index` towards the leaves until `entry` may stand there. */
static void sift_down(struct kc_heap *heap, uint32_t index, struct kc_heap_entry entry)
{
  for (;;) {
    uint64_t child = 2 * (uint64_t)index + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count && entry_before(heap->entry[child + 1], heap->entry[child])) {
      child++;
    }
    if (!entry_before(heap->entry[child], entry)) break;
    place(heap, index, heap->entry[child]);
    index = (uint32_t)child;
  }
  place(heap, index, entry);
}

size_t kc_heap_need(uint32_t capacity)
{
  const size_t entries = kc_arena_need(capacity, sizeof(struct kc_heap_entry));
  const size_t positions = kc_arena_need(capacity, sizeof(uint32_t));
  KC_ASSERT(entries < SIZE_MAX / 2);
  KC_ASSERT(positions < SIZE_MAX / 2);
  return entries + positions;
}

enum kc_err kc_heap_init(struct kc_heap *heap, uint32_t capacity, struct kc_arena *arena)
{
  KC_ASSERT(heap != NULL);
  KC_ASSERT(capacity < KC_HEAP_ABSENT);
  *heap = (struct kc_heap){.capacity = capacity};
  heap->entry = kc_arena_take(arena, capacity, sizeof *heap->entry);
  heap->position = kc_arena_take(arena, capacity, sizeof *heap->position);
  if (heap->entry == NULL || heap->position == NULL) return KC_ERR_MEMORY;
  for (uint32_t item = 0; item < capacity; item++) heap->position[item] = KC_HEAP_ABSENT;
  return KC_OK;
}

void kc_heap_push(struct kc_heap *heap, int64_t key, uint32_t item)
{
  KC_ASSERT(item < heap->capacity);
  KC_ASSERT(!kc_heap_has(heap, item));
  KC_ASSERT(heap->count < heap->capacity);
  const uint32_t hole = heap->count++;
  sift_up(heap, hole, (struct kc_heap_entry){.key = key, .item = item});
  KC_ASSERT_SLOW(kc_heap_valid(heap));
}

void kc_heap_remove(struct kc_heap *heap, uint32_t item)
{
  KC_ASSERT(item < heap->capacity);
  KC_ASSERT(kc_heap_has(heap, item));
  const uint32_t hole = heap->position[item];
  KC_ASSERT(hole < heap->count && heap->entry[hole].item == item);
  heap->position[item] = KC_HEAP_ABSENT;
  const struct kc_heap_entry last = heap->entry[--heap->count];
  if (hole < heap->count) { /* else the last entry itself was removed */
    if (hole > 0 && entry_before(last, heap->entry[(hole - 1) / 2])) {
      sift_up(heap, hole, last);
    } else {
      sift_down(heap, hole, last);
    }
  }
  KC_ASSERT_SLOW(kc_heap_valid(heap));
}

bool kc_heap_valid(const struct kc_heap *heap)
{
  if (heap->count > heap->capacity) return false;
  for (uint32_t i = 0; i < heap->count; i++) {
    const struct kc_heap_entry entry = heap->entry[i];
    if (entry.item >= heap->capacity || heap->position[entry.item] != i) return false;
    if (i > 0 && !entry_before(heap->entry[(i - 1) / 2], entry)) return false;
  }
  uint32_t present = 0;
  for (uint32_t item = 0; item < heap->capacity; item++) present += kc_heap_has(heap, item);
  return present == heap->count;
}
