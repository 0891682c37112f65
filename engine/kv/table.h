/* Block tables: for each slot of the batch, the pages that hold its tokens, in order.
 *
 *   entry[slot * row_stride + i]  page of tokens [i * page_size, (i + 1) * page_size)
 *   extent[slot]                  entries in use
 *   shared[slot]                  the first of those: pages of the prefix cache, each with one
 *                                 reference of this row; the rest are the row's own
 *
 * This is the very table that attention reads. The simulator checks a row when a page that it names
 * changes tag behind its back: kc_table_watch has the pool mark the row of the page's owner, and
 * kc_table_next_touched yields the marked rows before the next step. That finds the same faults as
 * checking every entry at every step, at no cost per entry; mode PARANOID and the tests check
 * everything and must agree.
 *
 * For shared entries the marks say nothing: a page with references keeps its tag. What can go wrong
 * is a reference lost or doubled, and then shared_in_use or shared_sum differs from the pool's
 * refs_total or refs_sum. From that moment until they agree again, every row is checked before
 * every step (kc_prefix_cache_suspect).
 *
 *   touched[0..touched_count)     slots marked since they were last yielded, each once
 */
#ifndef KC_ENGINE_KV_TABLE_H
#define KC_ENGINE_KV_TABLE_H

#include "engine/kv/pool.h"

enum kc_integrity { KC_INTEGRITY_OFF, KC_INTEGRITY_BATCHED, KC_INTEGRITY_PARANOID };

struct kc_table {
  struct kc_page *entry;
  uint32_t *extent;
  uint32_t *shared;
  uint32_t slots;
  uint32_t row_pages;  /* most pages one slot can hold */
  uint32_t row_stride; /* entries from one row to the next: see kc_table_init */
  uint64_t in_use;     /* sum of extents */
  uint64_t shared_in_use; /* sum of shared[] */
  uint64_t shared_sum; /* of kc_page_weight over all shared entries, mod 2^64 */
  uint32_t *touched;
  uint8_t *is_touched; /* [slots] 1 while the slot is in touched[] */
  uint32_t touched_count;
};

size_t kc_table_need(uint32_t slots, uint32_t row_pages); /* arena bytes */

/* slots and row_pages > 0. KC_ERR_MEMORY when the arena is too small. Rows of whole memory pages
 * are set a little further apart than they are long (row_stride): else their beginnings, the parts
 * in use, would all fall into the same few sets of every cache. */
enum kc_err kc_table_init(struct kc_table *table, uint32_t slots, uint32_t row_pages,
                          struct kc_arena *arena);

/* Owner number that the pool records for a slot. */
static inline uint32_t kc_table_owner(uint32_t slot) { return slot + 1; }

static inline struct kc_page *kc_table_row(const struct kc_table *table, uint32_t slot)
{
  return table->entry + (size_t)slot * table->row_stride;
}

/* Appends `count` pages from the pool to a row. False when the pool is short (nothing changes).
 * extent + count must not exceed row_pages (assert). */
bool kc_table_grow(struct kc_table *table, struct kc_pool *pool, uint32_t slot, uint32_t count);

/* The same for one page, in line: a step loop's grant. */
static inline __attribute__((always_inline)) bool
kc_table_grow_one(struct kc_table *table, struct kc_pool *pool, uint32_t slot)
{
  KC_ASSERT(slot < table->slots);
  const uint32_t extent = table->extent[slot];
  KC_ASSERT(extent < table->row_pages);
  struct kc_page *end = kc_table_row(table, slot) + extent;
  table->extent[slot] = extent + 1; /* before, because afterwards it would have to be kept */
  if (!kc_pool_alloc_one(pool, kc_table_owner(slot), extent, end)) {
    table->extent[slot] = extent;
    return false;
  }
  table->in_use++;
  return true;
}

/* Gives all pages of a row back and empties it; none of them may be shared (assert): rows that
 * share are released by their cache. Pages that fault are left alone (reported through the pool's
 * hook, in use by whoever the record says); the rest are freed. KC_OK or the first fault met, from
 * the end of the row. O(extent). */
enum kc_err kc_table_release(struct kc_table *table, struct kc_pool *pool, uint32_t slot);

/* Gives back the row's own entries [from, to), which stay where they are: the caller overwrites
 * them or shortens the row. Faults as kc_table_release. Marks no row. */
enum kc_err kc_table_free_own(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                              uint32_t from, uint32_t to);

/* Checks every entry of a row against the pool, shared ones as shared; KC_OK or the first fault.
 * *bad_index (may be NULL) is the entry. O(extent). */
enum kc_err kc_table_check(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                           uint32_t *bad_index);

/* The same with kc_pool_audit: verifies checksums, and tells a record that was rolled back
 * (KC_ERR_ROLLBACK) from an entry that is stale. O(extent), plus O(pages) for a fault. */
enum kc_err kc_table_audit(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                           uint32_t *bad_index);

/* From now on the pool marks the row of every owner whose pages change tag, other than through
 * kc_table_release. The pool borrows the table until the end. Mode BATCHED. */
void kc_table_watch(struct kc_table *table, struct kc_pool *pool);

/* Marks a row by hand. O(1). */
void kc_table_touch(struct kc_table *table, uint32_t slot);

/* Yields one marked row and unmarks it; false when there is none. O(1). */
bool kc_table_next_touched(struct kc_table *table, uint32_t *slot);

#endif
