/* Block tables: for each slot of the batch, the pages that hold its tokens, in order.
 *
 *   entry[slot * row_pages + i]   page of tokens [i * page_size, (i + 1) * page_size)
 *   extent[slot]                  entries in use
 *
 * This is the very table that attention reads. The simulator checks a row when a page that it names
 * changes tag behind its back (kc_table_touch marks the row), and finds the same faults as checking
 * every entry at every step; modes PARANOID and the tests check everything and must agree.
 */
#ifndef KC_ENGINE_KV_TABLE_H
#define KC_ENGINE_KV_TABLE_H

#include "engine/kv/pool.h"

enum kc_integrity { KC_INTEGRITY_OFF, KC_INTEGRITY_BATCHED, KC_INTEGRITY_PARANOID };

struct kc_table {
  struct kc_page *entry;
  uint32_t *extent;
  uint32_t slots;
  uint32_t row_pages;  /* most pages one slot can hold */
  uint64_t in_use;     /* sum of extents */
};

size_t kc_table_need(uint32_t slots, uint32_t row_pages);
enum kc_err kc_table_init(struct kc_table *table, uint32_t slots, uint32_t row_pages,
                          struct kc_arena *arena);

/* Owner number that the pool records for a slot. */
static inline uint32_t kc_table_owner(uint32_t slot) { return slot + 1; }

static inline struct kc_page *kc_table_row(const struct kc_table *table, uint32_t slot)
{
  return table->entry + (size_t)slot * table->row_pages;
}

/* Appends `count` pages from the pool to a row. False when the pool is short (nothing changes).
 * extent + count must not exceed row_pages (assert). */
bool kc_table_grow(struct kc_table *table, struct kc_pool *pool, uint32_t slot, uint32_t count);

/* Gives all pages of a row back and empties it. With `checked` false (integrity off) faults found
 * are still returned, because a pool must not be corrupted. Pages that fault are left alone. */
enum kc_err kc_table_release(struct kc_table *table, struct kc_pool *pool, uint32_t slot);

/* Checks every entry of a row against the pool; KC_OK or the first fault. *bad_index (may be NULL)
 * is the entry. O(extent). */
enum kc_err kc_table_check(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                           uint32_t *bad_index);

#endif
