/* Hashed blocks, as vLLM 0.19 keeps them (vllm/v1/core/block_pool.py, kv_cache_utils.py).
 *
 *   found[key] ---> oldest page with that key <-> next one <-> ...      twins, a ring
 *
 *   queue: (end) <-> page <-> page <-> page <-> (end)
 *                    head: taken next           tail: freed last
 *
 * Every page that no row uses is in the queue, whether a lookup would still find it (cached, shared
 * and idle in the pool) or not (free in the pool). Pages are taken from the head; a cached one
 * loses its key then, and not before. Freed pages and cached ones that became idle join at the
 * tail, the last page of a request first, so that ends of prompts go before their beginnings. A hit
 * takes its pages out of the middle. Nothing else decides what stays.
 *
 * Two requests that compute the same page side by side both publish it. Neither row changes: the
 * twins coexist, and a lookup gives the one published first of those that are left.
 *
 * The queue orders the pool's free pages; the pool's own stack only stores them. kc_pool_take takes
 * a page from the middle of that stack at the cost of moving one other entry.
 *
 * A pure lookup reads found[key] and the record of the page: two loads a page, which do not wait
 * for those of the page before. */
#include "engine/kv/block_cache.h"

#include <string.h>

static uint32_t end_of_queue(const struct kc_prefix_cache *cache)
{
  return cache->pool->page_count;
}

/* ---- the queue ---- */

static bool in_queue(const struct kc_prefix_cache *cache, uint32_t id)
{
  KC_ASSERT(id < cache->pool->page_count);
  return cache->block[id].queue_next != KC_PAGE_NONE;
}

/* Puts `id` between its new neighbour `before` and the one after that. */
static void queue_insert(struct kc_prefix_cache *cache, uint32_t before, uint32_t id)
{
  struct kc_block *block = cache->block;
  const uint32_t after = block[before].queue_next;
  KC_ASSERT(!in_queue(cache, id));
  block[id].queue_previous = before;
  block[id].queue_next = after;
  block[before].queue_next = id;
  block[after].queue_previous = id;
  cache->queue_count++;
}

static void queue_append(struct kc_prefix_cache *cache, uint32_t id)
{
  queue_insert(cache, cache->block[end_of_queue(cache)].queue_previous, id);
}

static void queue_remove(struct kc_prefix_cache *cache, uint32_t id)
{
  struct kc_block *block = cache->block;
  KC_ASSERT(in_queue(cache, id));
  KC_ASSERT(cache->queue_count > 0);
  block[block[id].queue_previous].queue_next = block[id].queue_next;
  block[block[id].queue_next].queue_previous = block[id].queue_previous;
  block[id].queue_next = KC_PAGE_NONE;
  block[id].queue_previous = KC_PAGE_NONE;
  cache->queue_count--;
}

/* ---- keys ---- */

/* A page becomes findable, behind its twins. */
static void index_page(struct kc_prefix_cache *cache, struct kc_page page, uint32_t key)
{
  struct kc_block *block = cache->block;
  struct kc_page *found = &cache->found[key];
  KC_ASSERT(key < cache->key_count);
  KC_ASSERT(block[page.id].key == KC_KEY_NONE);
  block[page.id].key = key;
  block[page.id].tag = page.tag;
  if (found->tag == 0) {
    block[page.id].twin_next = page.id;
    block[page.id].twin_previous = page.id;
    *found = page;
    return;
  }
  const uint32_t last = block[found->id].twin_previous;
  block[page.id].twin_previous = last;
  block[page.id].twin_next = found->id;
  block[last].twin_next = page.id;
  block[found->id].twin_previous = page.id;
}

static void unindex_page(struct kc_prefix_cache *cache, uint32_t id)
{
  struct kc_block *const block = cache->block;
  const uint32_t next = block[id].twin_next;
  struct kc_page *found = &cache->found[block[id].key];
  KC_ASSERT(block[id].key < cache->key_count);
  KC_ASSERT(found->tag != 0);
  if (next == id) {
    found->tag = 0;
  } else {
    block[next].twin_previous = block[id].twin_previous;
    block[block[id].twin_previous].twin_next = next;
    if (found->id == id) *found = (struct kc_page){.id = next, .tag = block[next].tag};
  }
  block[id].key = KC_KEY_NONE;
}

/* ---- init ---- */

size_t kc_block_cache_need(uint32_t page_count, uint32_t key_count)
{
  KC_ASSERT(page_count <= KC_POOL_PAGES_MAX);
  KC_ASSERT(key_count <= KC_KEYS_MAX);
  return kc_arena_need((size_t)page_count + 1, sizeof(struct kc_block)) +
         kc_arena_need(key_count, sizeof(struct kc_page));
}

enum kc_err kc_block_cache_init(struct kc_prefix_cache *cache, struct kc_arena *arena)
{
  const uint32_t count = cache->pool->page_count;
  KC_ASSERT(cache->pool->free_count == count);
  KC_ASSERT(count > 0);
  cache->block = kc_arena_take(arena, (size_t)count + 1, sizeof *cache->block);
  cache->found = kc_arena_take(arena, cache->key_count, sizeof *cache->found);
  if (cache->block == NULL || cache->found == NULL) return KC_ERR_MEMORY;
  for (uint32_t id = 0; id <= count; id++) { /* all pages, in their order */
    cache->block[id] = (struct kc_block){.key = KC_KEY_NONE,
                                         .queue_next = id == count ? 0 : id + 1,
                                         .queue_previous = id == 0 ? count : id - 1};
  }
  cache->queue_count = count;
  return KC_OK;
}

/* ---- the interface ---- */

struct kc_cache_match kc_block_cache_match(const struct kc_prefix_cache *cache,
                                           const struct kc_content *content, uint32_t pages_max)
{
  struct kc_cache_match match = {0};
  struct kc_key_walk walk = kc_key_walk_begin(content);
  const struct kc_page *const found = cache->found;
  const struct kc_page_record *const record = cache->pool->record;
  KC_ASSERT(found != NULL && record != NULL);
  while (match.pages < pages_max) {
    const uint32_t key = kc_key_walk_next(&walk);
    if (key == KC_KEY_NONE) break;
    KC_ASSERT(key < cache->key_count);
    const struct kc_page page = found[key];
    if (page.tag == 0) break;
    match.idle += kc_page_link_of(&record[page.id]) == 0; /* references */
    match.pages++;
  }
  return match;
}

void kc_block_cache_used(struct kc_prefix_cache *cache, uint32_t id)
{
  queue_remove(cache, id);
}

void kc_block_cache_idle(struct kc_prefix_cache *cache, uint32_t id)
{
  queue_append(cache, id);
}

void kc_block_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                           const struct kc_content *content, uint32_t pages)
{
  struct kc_table *const table = cache->table;
  struct kc_page *row = kc_table_row(table, slot);
  struct kc_key_walk walk = kc_key_walk_begin(content);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < pages; i++) {
    const uint32_t key = kc_key_walk_next(&walk);
    KC_ASSERT(key < cache->key_count);
    const struct kc_page page = cache->found[key];
    bool was_idle;
    KC_ASSERT(page.tag != 0);
    /* After a fault the entry is written all the same: the check of the row sees it. */
    (void)kc_pool_ref(cache->pool, page, &was_idle);
    if (was_idle) queue_remove(cache, page.id);
    row[i] = page;
    sum += kc_page_weight(page);
  }
  table->shared_sum += sum;
}

/* Makes the head of the queue free in the pool and takes it for the row. */
static bool take_head(struct kc_prefix_cache *cache, uint32_t slot, uint32_t index)
{
  const uint32_t id = cache->block[end_of_queue(cache)].queue_next;
  const struct kc_page page = {.id = id, .tag = cache->block[id].tag};
  KC_ASSERT(cache->queue_count > 0);
  KC_ASSERT(id < cache->pool->page_count);
  if (cache->block[id].key != KC_KEY_NONE) {
    unindex_page(cache, id);
    cache->counts.pages_evicted++;
    if (kc_pool_drop(cache->pool, page) != KC_OK) return false;
  }
  if (!kc_pool_take(cache->pool, id, kc_table_owner(slot), index,
                    kc_table_row(cache->table, slot) + index)) {
    return false;
  }
  queue_remove(cache, id);
  return true;
}

bool kc_block_cache_grow(struct kc_prefix_cache *cache, uint32_t slot, uint32_t count)
{
  struct kc_table *const table = cache->table;
  const uint32_t extent = table->extent[slot];
  KC_ASSERT(count <= table->row_pages - extent);
  if (count > cache->queue_count) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (take_head(cache, slot, extent + i)) continue;
    /* A fault: those taken go back, to where they were. */
    (void)kc_table_free_own(table, cache->pool, slot, extent, extent + i);
    while (i-- > 0) {
      queue_insert(cache, end_of_queue(cache), kc_table_row(table, slot)[extent + i].id);
    }
    return false;
  }
  table->extent[slot] = extent + count;
  table->in_use += count;
  return true;
}

void kc_block_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, uint32_t pages)
{
  struct kc_table *const table = cache->table;
  const struct kc_page *row = kc_table_row(table, slot);
  const uint32_t from = table->shared[slot];
  struct kc_key_walk walk = kc_key_walk_begin(content);
  uint32_t i = from;
  KC_ASSERT(from <= pages && pages <= table->extent[slot]);
  kc_key_walk_skip(&walk, from);
  for (; i < pages; i++) {
    const uint32_t key = kc_key_walk_next(&walk);
    KC_ASSERT(key < cache->key_count);
    if (kc_pool_share(cache->pool, row[i], kc_table_owner(slot), i) != KC_OK) break;
    index_page(cache, row[i], key);
    table->shared_sum += kc_page_weight(row[i]);
  }
  table->shared[slot] = i;
  table->shared_in_use += i - from;
  cache->counts.pages_published += i - from;
}

/* Pages [from, to) that the row held alone are free in the pool now: they join the queue. Those
 * that faulted are not free, or are in the queue already. */
void kc_block_cache_freed(struct kc_prefix_cache *cache, const struct kc_page *row, uint32_t from,
                          uint32_t to)
{
  KC_ASSERT(from <= to);
  for (uint32_t i = to; i > from; i--) {
    const uint32_t id = row[i - 1].id;
    if (id >= cache->pool->page_count || in_queue(cache, id)) continue;
    if (kc_page_state_of(&cache->pool->record[id]) == KC_PAGE_FREE) queue_append(cache, id);
  }
}

/* Cached pages that nobody uses become free ones, where they are in the queue. */
void kc_block_cache_clear(struct kc_prefix_cache *cache)
{
  const struct kc_block *const block = cache->block;
  const uint32_t end = end_of_queue(cache);
  KC_ASSERT(block != NULL);
  KC_ASSERT(cache->queue_count <= end);
  for (uint32_t id = block[end].queue_next; id != end; id = block[id].queue_next) {
    const struct kc_page page = {.id = id, .tag = block[id].tag};
    if (block[id].key == KC_KEY_NONE) continue;
    unindex_page(cache, id);
    (void)kc_pool_drop(cache->pool, page);
    cache->counts.pages_evicted++;
  }
}

void kc_block_cache_expel(struct kc_prefix_cache *cache, uint32_t id)
{
  const struct kc_page page = {.id = id, .tag = cache->block[id].tag};
  KC_ASSERT(in_queue(cache, id));
  KC_ASSERT(cache->block[id].key != KC_KEY_NONE);
  unindex_page(cache, id);
  (void)kc_pool_drop(cache->pool, page);
  queue_remove(cache, id);
  queue_insert(cache, end_of_queue(cache), id);
}

/* ---- the slow way ---- */

/* A page's state in the pool, its key and its place must agree. */
static bool page_valid(const struct kc_prefix_cache *cache, uint32_t id)
{
  const struct kc_block *const block = cache->block;
  const struct kc_page_record *record = &cache->pool->record[id];
  const bool shared = kc_page_is_shared(record);
  const bool unused = kc_page_state_of(record) == KC_PAGE_FREE ||
                      (shared && kc_page_link_of(record) == 0);
  if (in_queue(cache, id) != unused) return false;
  if (shared != (block[id].key != KC_KEY_NONE)) return false;
  if (!shared) return true;
  const uint32_t next = block[id].twin_next;
  return block[id].key < cache->key_count && block[id].tag == kc_tag_of(record->generation) &&
         next < cache->pool->page_count && block[next].key == block[id].key &&
         block[next].twin_previous == id;
}

/* Pages that lookups can reach from found[key], by way of twins; UINT32_MAX when a ring is wrong.
 * */
static uint32_t ring_length(const struct kc_prefix_cache *cache, uint32_t key)
{
  const struct kc_page first = cache->found[key];
  uint32_t count = 0, id = first.id;
  if (first.tag == 0) return 0;
  do {
    if (cache->block[id].key != key || count > cache->pool->page_count) return UINT32_MAX;
    id = cache->block[id].twin_next;
    count++;
  } while (id != first.id);
  return cache->block[id].tag == first.tag ? count : UINT32_MAX;
}

bool kc_block_cache_valid(const struct kc_prefix_cache *cache)
{
  const uint32_t end = end_of_queue(cache);
  uint32_t queued = 0;
  uint64_t findable = 0;
  for (uint32_t id = 0; id < end; id++) {
    if (!page_valid(cache, id)) return false;
  }
  for (uint32_t id = cache->block[end].queue_next; id != end; id = cache->block[id].queue_next) {
    if (++queued > end || cache->block[cache->block[id].queue_previous].queue_next != id) {
      return false;
    }
  }
  for (uint32_t key = 0; key < cache->key_count; key++) findable += ring_length(cache, key);
  return queued == cache->queue_count && queued == kc_prefix_cache_available(cache) &&
         findable == cache->pool->shared_count;
}
