/* Block tables: which pages hold the tokens of each slot, as attention reads them.
 *
 *   entry   | row of slot 0: {id,tag} {id,tag} ....... | row of slot 1: {id,tag} ........ | ...
 *                            <- extent[0] ->  <- spare ->            <- extent[1] ->
 *                            shared, own
 *
 * Rows have a fixed length, because the same array is copied to the device, and one slot's growth
 * must never move another's entries. The arena reserves address space only, so spare entries cost
 * no memory until they are used. The table owns its entries; the pool owns the pages they name.
 *
 * Marked rows: the pool calls back once per bulk free or quarantine with the owner whose tags
 * moved. A row that still has entries then names pages it may no longer hold, and is put on a list.
 * An ordinary release is no such move, so it marks nothing.
 * Pages that are allocated need no mark: they were free, and whoever named them was marked then.
 */
#include "engine/kv/table.h"

#include <string.h>

static uint32_t stride_of(uint32_t row_pages)
{
  enum { MEMORY_PAGE = 4096 / sizeof(struct kc_page), PAD = 9 * 64 / sizeof(struct kc_page) };
  return row_pages % MEMORY_PAGE == 0 ? row_pages + PAD : row_pages;
}

size_t kc_table_need(uint32_t slots, uint32_t row_pages)
{
  KC_ASSERT(slots > 0);
  KC_ASSERT(row_pages > 0);
  const size_t entries =
      kc_arena_need((size_t)slots * stride_of(row_pages), sizeof(struct kc_page));
  const size_t per_slot = 3 * kc_arena_need(slots, sizeof(uint32_t)) + kc_arena_need(slots, 1);
  return entries > SIZE_MAX - per_slot ? SIZE_MAX : entries + per_slot;
}

enum kc_err kc_table_init(struct kc_table *table, uint32_t slots, uint32_t row_pages,
                          struct kc_arena *arena)
{
  KC_ASSERT(slots > 0);
  KC_ASSERT(row_pages > 0);
  memset(table, 0, sizeof *table);
  table->row_stride = stride_of(row_pages);
  table->entry = kc_arena_take(arena, (size_t)slots * table->row_stride, sizeof *table->entry);
  table->extent = kc_arena_take(arena, slots, sizeof *table->extent);
  table->shared = kc_arena_take(arena, slots, sizeof *table->shared);
  table->touched = kc_arena_take(arena, slots, sizeof *table->touched);
  table->is_touched = kc_arena_take(arena, slots, sizeof *table->is_touched);
  if (table->entry == NULL || table->extent == NULL) return KC_ERR_MEMORY;
  if (table->shared == NULL) return KC_ERR_MEMORY;
  if (table->touched == NULL || table->is_touched == NULL) return KC_ERR_MEMORY;
  table->slots = slots;
  table->row_pages = row_pages;
  return KC_OK;
}

bool kc_table_grow(struct kc_table *table, struct kc_pool *pool, uint32_t slot, uint32_t count)
{
  KC_ASSERT(slot < table->slots);
  const uint32_t extent = table->extent[slot];
  KC_ASSERT(count <= table->row_pages - extent);
  struct kc_page *end = kc_table_row(table, slot) + extent;
  if (!kc_pool_alloc(pool, count, kc_table_owner(slot), extent, end)) return false;
  table->extent[slot] = extent + count;
  table->in_use += count;
  return true;
}

enum kc_err kc_table_free_own(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                              uint32_t from, uint32_t to)
{
  KC_ASSERT(slot < table->slots);
  KC_ASSERT(from <= to && to <= table->row_pages);
  const struct kc_page *own = kc_table_row(table, slot) + from;
  const kc_move_hook moved = pool->moved;
  enum kc_err first = KC_OK;
  uint32_t left = to - from;
  pool->moved = NULL; /* the row's owner gives them up itself */
  while (left > 0) {
    uint32_t freed;
    const enum kc_err err = kc_pool_free(pool, own, left, kc_table_owner(slot), from, &freed);
    if (err == KC_OK) break;
    if (first == KC_OK) first = err;
    left -= freed + 1; /* the faulty entry is left alone */
  }
  pool->moved = moved;
  return first;
}

enum kc_err kc_table_release(struct kc_table *table, struct kc_pool *pool, uint32_t slot)
{
  KC_ASSERT(slot < table->slots);
  KC_ASSERT(table->shared[slot] == 0);
  const uint32_t extent = table->extent[slot];
  KC_ASSERT(extent <= table->row_pages);
  table->in_use -= extent;
  table->extent[slot] = 0;
  return kc_table_free_own(table, pool, slot, 0, extent);
}

static enum kc_err walk_row(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                            uint32_t *bad_index,
                            enum kc_err (*test)(struct kc_pool *, struct kc_page, uint32_t,
                                                uint32_t))
{
  KC_ASSERT(slot < table->slots);
  KC_ASSERT(table->extent[slot] <= table->row_pages);
  KC_ASSERT(table->shared[slot] <= table->extent[slot]);
  const struct kc_page *row = kc_table_row(table, slot);
  for (uint32_t i = 0; i < table->extent[slot]; i++) {
    const uint32_t owner = i < table->shared[slot] ? KC_OWNER_SHARED : kc_table_owner(slot);
    const enum kc_err err = test(pool, row[i], owner, i);
    if (err == KC_OK) continue;
    if (bad_index != NULL) *bad_index = i;
    return err;
  }
  return KC_OK;
}

enum kc_err kc_table_check(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                           uint32_t *bad_index)
{
  return walk_row(table, pool, slot, bad_index, kc_pool_check);
}

enum kc_err kc_table_audit(const struct kc_table *table, struct kc_pool *pool, uint32_t slot,
                           uint32_t *bad_index)
{
  return walk_row(table, pool, slot, bad_index, kc_pool_audit);
}

void kc_table_touch(struct kc_table *table, uint32_t slot)
{
  KC_ASSERT(slot < table->slots);
  if (table->is_touched[slot]) return;
  KC_ASSERT(table->touched_count < table->slots);
  table->is_touched[slot] = 1;
  table->touched[table->touched_count++] = slot;
}

bool kc_table_next_touched(struct kc_table *table, uint32_t *slot)
{
  KC_ASSERT(table->touched_count <= table->slots);
  if (table->touched_count == 0) return false;
  *slot = table->touched[--table->touched_count];
  KC_ASSERT(table->is_touched[*slot] == 1);
  table->is_touched[*slot] = 0;
  return true;
}

static void pages_moved(void *context, uint32_t owner)
{
  struct kc_table *table = context;
  const uint32_t slot = owner - 1; /* inverse of kc_table_owner; other owners fall outside */
  if (owner == 0 || slot >= table->slots || KC_FAULT("table-skip-touch")) return;
  if (table->extent[slot] > 0) kc_table_touch(table, slot);
}

void kc_table_watch(struct kc_table *table, struct kc_pool *pool)
{
  KC_ASSERT(table->extent != NULL);
  KC_ASSERT(pool->moved == NULL);
  pool->moved = pages_moved;
  pool->moved_context = table;
}
