/* The one interface over the disciplines (see prefix_cache.h): what they share is here, and the
 * choice between them.
 *
 *   row      | shared: one reference each ....... | own ................. | spare
 *            0                             shared[slot]             extent[slot]
 *
 * The cache owns nothing but its indices: pages belong to the pool, rows to the table. A page is
 * shared in the pool exactly if the cache can name its key, from its publication until it is
 * dropped.
 *
 * References are kept by the pool (in the page's record, under its checksum) and counted a second
 * time by the table (how many shared entries there are, and the sum of their pairs). Whoever loses
 * or doubles a reference makes the two differ, and they stay so until the row that was wronged is
 * gone; kc_prefix_cache_suspect is that comparison.
 */
#include "engine/kv/prefix_cache.h"

#include <string.h>

#include "engine/kv/block_cache.h"
#include "engine/kv/radix_cache.h"

size_t kc_prefix_cache_need(enum kc_cache_kind kind, uint32_t page_count, uint32_t key_count)
{
  const size_t scratch = kc_arena_need(page_count, sizeof(uint32_t));
  KC_ASSERT(page_count > 0);
  KC_ASSERT(kind <= KC_CACHE_RADIX);
  switch (kind) {
    case KC_CACHE_BLOCKS: return scratch + kc_block_cache_need(page_count, key_count);
    case KC_CACHE_RADIX: return scratch + kc_radix_cache_need(page_count, key_count);
    case KC_CACHE_NONE: break;
  }
  return 0;
}

enum kc_err kc_prefix_cache_init(struct kc_prefix_cache *cache, enum kc_cache_kind kind,
                                 struct kc_pool *pool, struct kc_table *table, uint32_t key_count,
                                 struct kc_arena *arena)
{
  KC_ASSERT(pool->record != NULL);
  KC_ASSERT(table->shared != NULL);
  if (key_count > KC_KEYS_MAX) return KC_ERR_LIMIT;
  *cache = (struct kc_prefix_cache){
      .kind = kind, .key_count = key_count, .pool = pool, .table = table};
  if (kind == KC_CACHE_NONE) return KC_OK;
  cache->named = kc_arena_take(arena, pool->page_count, sizeof *cache->named);
  if (cache->named == NULL) return KC_ERR_MEMORY;
  return kind == KC_CACHE_BLOCKS ? kc_block_cache_init(cache, arena)
                                 : kc_radix_cache_init(cache, arena);
}

struct kc_cache_match kc_prefix_cache_match(struct kc_prefix_cache *cache,
                                            const struct kc_content *content, uint32_t pages_max)
{
  struct kc_cache_match match = {0};
  KC_ASSERT(cache->pool != NULL);
  if (cache->kind == KC_CACHE_NONE) return match;
  match = cache->kind == KC_CACHE_BLOCKS ? kc_block_cache_match(cache, content, pages_max)
                                         : kc_radix_cache_match(cache, content, pages_max);
  KC_ASSERT(match.pages <= pages_max);
  cache->counts.lookups++;
  cache->counts.pages_asked += pages_max;
  cache->counts.pages_found += match.pages;
  return match;
}

void kc_prefix_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, const struct kc_cache_match *match)
{
  struct kc_table *const table = cache->table;
  const uint32_t pages = match->pages;
  KC_ASSERT(slot < table->slots && table->extent[slot] == 0);
  KC_ASSERT(pages <= table->row_pages);
  if (pages == 0) return;
  KC_ASSERT(cache->kind != KC_CACHE_NONE);
  if (cache->kind == KC_CACHE_BLOCKS) {
    kc_block_cache_attach(cache, slot, content, pages);
  } else {
    kc_radix_cache_attach(cache, slot, content, pages);
  }
  table->extent[slot] = pages;
  table->shared[slot] = pages;
  table->in_use += pages;
  table->shared_in_use += pages;
}

bool kc_prefix_cache_grow(struct kc_prefix_cache *cache, uint32_t slot, uint32_t count)
{
  struct kc_pool *const pool = cache->pool;
  KC_ASSERT(slot < cache->table->slots);
  KC_ASSERT(pool->free_count <= pool->page_count);
  if (cache->kind == KC_CACHE_BLOCKS) return kc_block_cache_grow(cache, slot, count);
  if (count > pool->free_count && cache->kind == KC_CACHE_RADIX) {
    if (count > kc_prefix_cache_available(cache)) return false;
    (void)kc_radix_cache_evict(cache, count);
  }
  return kc_table_grow(cache->table, pool, slot, count);
}

uint32_t kc_prefix_cache_evict(struct kc_prefix_cache *cache, uint32_t pages)
{
  KC_ASSERT(cache->pool != NULL);
  return cache->kind == KC_CACHE_RADIX ? kc_radix_cache_evict(cache, pages) : 0;
}

void kc_prefix_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                             const struct kc_content *content, uint32_t pages)
{
  KC_ASSERT(slot < cache->table->slots);
  KC_ASSERT(pages <= cache->table->extent[slot]);
  switch (cache->kind) {
    case KC_CACHE_NONE: break;
    case KC_CACHE_BLOCKS: kc_block_cache_publish(cache, slot, content, pages); break;
    case KC_CACHE_RADIX: kc_radix_cache_publish(cache, slot, content, pages); break;
  }
}

/* The last reference to a cached page has gone. */
static void became_idle(struct kc_prefix_cache *cache, uint32_t id)
{
  KC_ASSERT(cache->kind != KC_CACHE_NONE);
  if (cache->kind == KC_CACHE_BLOCKS) kc_block_cache_idle(cache, id);
  if (cache->kind == KC_CACHE_RADIX) kc_radix_cache_idle(cache, id);
}

enum kc_err kc_prefix_cache_release(struct kc_prefix_cache *cache, uint32_t slot)
{
  struct kc_table *const table = cache->table;
  KC_ASSERT(slot < table->slots);
  if (cache->kind == KC_CACHE_NONE) return kc_table_release(table, cache->pool, slot);
  const struct kc_page *row = kc_table_row(table, slot);
  const uint32_t extent = table->extent[slot], shared = table->shared[slot];
  uint64_t sum = 0;
  KC_ASSERT(shared <= extent);
  enum kc_err first = kc_table_free_own(table, cache->pool, slot, shared, extent);
  if (cache->kind == KC_CACHE_BLOCKS) kc_block_cache_freed(cache, row, shared, extent);
  for (uint32_t i = shared; i > 0; i--) {
    bool is_idle;
    const struct kc_page page = row[i - 1];
    const enum kc_err err = kc_pool_unref(cache->pool, page, &is_idle);
    if (first == KC_OK) first = err;
    if (is_idle) became_idle(cache, page.id);
    sum += kc_page_weight(page);
  }
  table->extent[slot] = 0;
  table->shared[slot] = 0;
  table->in_use -= extent;
  table->shared_in_use -= shared;
  table->shared_sum -= sum;
  return first;
}

void kc_prefix_cache_clear(struct kc_prefix_cache *cache)
{
  KC_ASSERT(cache->pool != NULL);
  if (cache->kind == KC_CACHE_BLOCKS) kc_block_cache_clear(cache);
  if (cache->kind == KC_CACHE_RADIX) (void)kc_radix_cache_evict(cache, UINT32_MAX);
}

/* ---- checks ---- */

/* The key under which the cache keeps page `id`. */
static uint32_t key_of(const struct kc_prefix_cache *cache, uint32_t id)
{
  KC_ASSERT(id < cache->pool->page_count);
  KC_ASSERT(cache->kind != KC_CACHE_NONE);
  return cache->kind == KC_CACHE_BLOCKS ? cache->block[id].key : cache->page[id].key;
}

enum kc_err kc_prefix_cache_check_row(const struct kc_prefix_cache *cache, uint32_t slot,
                                      const struct kc_content *content, uint32_t *bad_index)
{
  const struct kc_page *row = kc_table_row(cache->table, slot);
  struct kc_key_walk walk = kc_key_walk_begin(content);
  KC_TRY(kc_table_check(cache->table, cache->pool, slot, bad_index));
  if (KC_FAULT("cache-skip-key-check")) return KC_OK;
  for (uint32_t i = 0; i < cache->table->shared[slot]; i++) {
    if (key_of(cache, row[i].id) == kc_key_walk_next(&walk)) continue;
    if (bad_index != NULL) *bad_index = i;
    return kc_pool_report(cache->pool, KC_ERR_TAG_OWNER, row[i]);
  }
  return KC_OK;
}

enum kc_err kc_prefix_cache_balance(struct kc_prefix_cache *cache)
{
  struct kc_pool *const pool = cache->pool;
  kc_prefix_cache_clear(cache);
  KC_TRY(kc_pool_balance(pool));
  KC_ASSERT(pool->idle_count <= pool->shared_count);
  for (uint32_t id = 0; pool->shared_count > 0 && id < pool->page_count; id++) {
    if (!kc_page_is_shared(&pool->record[id])) continue;
    return kc_pool_report(pool, KC_ERR_LEAK, (struct kc_page){.id = id, .tag = 0});
  }
  return KC_OK;
}

/* What the table says of itself, recounted. */
static bool table_valid(const struct kc_prefix_cache *cache)
{
  const struct kc_table *table = cache->table;
  uint64_t entries = 0, shared = 0, sum = 0;
  for (uint32_t slot = 0; slot < table->slots; slot++) {
    const struct kc_page *row = kc_table_row(table, slot);
    if (table->shared[slot] > table->extent[slot]) return false;
    for (uint32_t i = 0; i < table->shared[slot]; i++) sum += kc_page_weight(row[i]);
    entries += table->extent[slot];
    shared += table->shared[slot];
  }
  return entries == table->in_use && shared == table->shared_in_use && sum == table->shared_sum;
}

bool kc_prefix_cache_valid(const struct kc_prefix_cache *cache)
{
  KC_ASSERT(cache->pool != NULL);
  if (!table_valid(cache)) return false;
  switch (cache->kind) {
    case KC_CACHE_BLOCKS: return kc_block_cache_valid(cache);
    case KC_CACHE_RADIX: return kc_radix_cache_valid(cache);
    case KC_CACHE_NONE: break;
  }
  return cache->pool->shared_count == 0;
}

/* ---- faults on purpose ---- */

/* Gives page `id` that many references, and tells the discipline when it becomes idle or used. */
static void set_refs(struct kc_prefix_cache *cache, uint32_t id, uint32_t refs)
{
  const uint32_t before = kc_page_link_of(&cache->pool->record[id]);
  KC_ASSERT(kc_page_is_shared(&cache->pool->record[id]));
  KC_ASSERT(cache->kind != KC_CACHE_NONE);
  kc_pool_set_refs(cache->pool, id, refs);
  if (before > 0 && refs == 0) became_idle(cache, id);
  if (before == 0 && refs > 0 && cache->kind == KC_CACHE_BLOCKS) kc_block_cache_used(cache, id);
}

/* Shared entry i of the row names a page that is really shared, by its present pair? */
static bool names_shared(const struct kc_prefix_cache *cache, struct kc_page page)
{
  if (page.id >= cache->pool->page_count) return false;
  const struct kc_page_record *record = &cache->pool->record[page.id];
  return kc_page_is_shared(record) && page.tag == kc_tag_of(record->generation);
}

/* The last page first, so that a leaf is idle before its parent. */
static void change_refs(struct kc_prefix_cache *cache, uint32_t slot, int change)
{
  const struct kc_page *row = kc_table_row(cache->table, slot);
  KC_ASSERT(slot < cache->table->slots);
  KC_ASSERT(change == 1 || change == -1);
  for (uint32_t i = cache->table->shared[slot]; i > 0; i--) {
    const struct kc_page page = row[i - 1];
    if (!names_shared(cache, page)) continue;
    const uint32_t refs = kc_page_link_of(&cache->pool->record[page.id]);
    if (change > 0 || refs > 0) set_refs(cache, page.id, change > 0 ? refs + 1 : refs - 1);
  }
}

void kc_prefix_cache_lose(struct kc_prefix_cache *cache, uint32_t slot)
{
  change_refs(cache, slot, -1);
}

void kc_prefix_cache_double(struct kc_prefix_cache *cache, uint32_t slot)
{
  change_refs(cache, slot, 1);
}

bool kc_prefix_cache_expel(struct kc_prefix_cache *cache, uint32_t slot)
{
  const uint32_t shared = cache->table->shared[slot];
  KC_ASSERT(slot < cache->table->slots);
  if (shared == 0) return false;
  const struct kc_page last = kc_table_row(cache->table, slot)[shared - 1];
  KC_ASSERT(cache->kind != KC_CACHE_NONE);
  if (!names_shared(cache, last)) return false;
  if (cache->kind == KC_CACHE_BLOCKS) {
    set_refs(cache, last.id, 0);
    kc_block_cache_expel(cache, last.id);
    return true;
  }
  if (!kc_radix_cache_is_leaf(cache, last.id)) return false;
  const uint32_t pages = cache->node[cache->page[last.id].end].pages;
  uint32_t id = last.id;
  for (uint32_t i = 0; i < pages; i++, id = cache->page[id].up) set_refs(cache, id, 0);
  kc_radix_cache_expel(cache, last.id);
  return true;
}

void kc_prefix_cache_mend(struct kc_prefix_cache *cache)
{
  struct kc_table *const table = cache->table;
  const uint32_t page_count = cache->pool->page_count;
  uint64_t sum = 0;
  if (cache->kind == KC_CACHE_NONE) return;
  memset(cache->named, 0, page_count * sizeof *cache->named);
  for (uint32_t slot = 0; slot < table->slots; slot++) {
    const struct kc_page *row = kc_table_row(table, slot);
    KC_ASSERT(table->shared[slot] <= table->extent[slot]);
    for (uint32_t i = 0; i < table->shared[slot]; i++) {
      sum += kc_page_weight(row[i]);
      if (names_shared(cache, row[i])) cache->named[row[i].id]++;
    }
  }
  table->shared_sum = sum;
  for (uint32_t id = 0; id < page_count; id++) {
    const struct kc_page_record *record = &cache->pool->record[id];
    if (!kc_page_is_shared(record)) continue;
    if (kc_page_link_of(record) != cache->named[id]) set_refs(cache, id, cache->named[id]);
  }
}
