/* The radix tree, as SGLang 0.5 keeps it (mem_cache/radix_cache.py).
 *
 *   root --+-- A: pages of keys 0 1 2 3 --+-- B: 4 5 6
 *          |                              +-- C: 9
 *          +-- D: 20 21
 *
 *   node_at[0] = A, node_at[4] = B, ...     found[k] = the page with key k
 *   page: up and down along a span; `end` of its last page names the node
 *
 * A key stands for everything before it as well, so the tree holds at most one page per key, and
 * holds a key only along with all those before it. That makes three things simple:
 *   - the child of a node that goes on with key k is node_at[k], whatever its parent: no search;
 *   - a content agrees with a node to the end exactly if it has the key of the node's last page at
 *     that place, so a lookup costs a step per node, not per page; only in the node where it leaves
 *     the tree are pages looked at one by one;
 *   - a split moves nothing: the upper part becomes a node of its own, the lower keeps its number,
 *     its children and its place among the leaves.
 *
 * Locks. The server counts, in each node, the requests whose path goes through it. Rows begin with
 * the pages of whole nodes (a lookup splits where it ends, and so does an insertion), so that
 * number is the number of references of any page of the node: the last one's is read. There is no
 * second count that could disagree.
 *
 * Access order. Every node that a lookup or an insertion visits gets the next value of a counter,
 * from the root downward. Evicted is the unlocked leaf with the smallest, whole; then its parent
 * may be one. The heap of leaves is lazy: a visit does not touch it, because stamps only grow; a
 * node that comes to the top with an old stamp is put back with its new one, and one that is locked
 * or has children by then is thrown out, and comes back when that ends. */
#include "engine/kv/radix_cache.h"

#include <string.h>

/* ---- nodes ---- */

static bool is_locked(const struct kc_prefix_cache *cache, const struct kc_radix_node *node)
{
  KC_ASSERT(node->pages > 0);
  KC_ASSERT(node->last_page < cache->pool->page_count);
  return kc_page_link_of(&cache->pool->record[node->last_page]) > 0;
}

static uint32_t node_after(const struct kc_prefix_cache *cache, uint32_t key)
{
  KC_ASSERT(key < cache->key_count);
  return cache->node_at[key] == 0 ? KC_NODE_NONE : cache->node_at[key] - 1;
}

static void visit(struct kc_prefix_cache *cache, uint32_t node)
{
  KC_ASSERT(node < cache->pool->page_count);
  KC_ASSERT(cache->clock < INT64_MAX);
  cache->node[node].stamp = ++cache->clock;
}

/* Into the heap of leaves, if it can be evicted now. */
static void consider(struct kc_prefix_cache *cache, uint32_t node)
{
  const struct kc_radix_node *n = &cache->node[node];
  KC_ASSERT(n->pages > 0);
  if (n->children > 0 || is_locked(cache, n) || kc_heap_has(&cache->leaves, node)) return;
  kc_heap_push(&cache->leaves, n->stamp, node);
}

static uint32_t open_node(struct kc_prefix_cache *cache, const struct kc_radix_node *node)
{
  KC_ASSERT(cache->free_node_count > 0); /* every node has a page */
  KC_ASSERT(node->pages > 0);
  const uint32_t id = cache->free_node[--cache->free_node_count];
  cache->node[id] = *node;
  cache->node_at[node->first_key] = id + 1;
  cache->page[node->last_page].end = id;
  return id;
}

/* The first `upper` pages of `node`, which end with the page `last`, become its parent; returns it.
 * It is as old as `node`, and `node`, which was visited with it, is younger. */
static uint32_t split(struct kc_prefix_cache *cache, uint32_t node, uint32_t upper,
                      uint32_t last)
{
  struct kc_radix_node *lower = &cache->node[node];
  const uint32_t next_key = cache->page[cache->page[last].down].key;
  KC_ASSERT(upper > 0 && upper < lower->pages);
  KC_ASSERT(cache->found[next_key].tag != 0);
  const uint32_t id = open_node(cache, &(struct kc_radix_node){.stamp = lower->stamp,
                                                               .parent = lower->parent,
                                                               .children = 1,
                                                               .first_key = lower->first_key,
                                                               .last_page = last,
                                                               .pages = upper});
  lower->parent = id;
  lower->first_key = next_key;
  lower->pages -= upper;
  cache->node_at[next_key] = node + 1;
  visit(cache, node);
  return id;
}

/* ---- walking down ---- */

struct descent {
  struct kc_key_walk walk; /* at the first page that the tree does not have */
  uint32_t pages;          /* that it has */
  uint32_t idle;           /* of those, unlocked */
  uint32_t node;           /* ends there; KC_NODE_NONE: the root */
};

/* How many of the first `limit` pages of a node, which begins as `walk` goes on, the content has
 * too: at least one. *last is the page of the last of them. */
static uint32_t common_pages(const struct kc_prefix_cache *cache, struct kc_key_walk *walk,
                             uint32_t limit, uint32_t *last)
{
  uint32_t pages = 0;
  KC_ASSERT(limit > 0);
  while (pages < limit) {
    struct kc_key_walk next = *walk;
    const uint32_t key = kc_key_walk_next(&next);
    if (key == KC_KEY_NONE || cache->found[key].tag == 0) break;
    *last = cache->found[key].id;
    *walk = next;
    pages++;
  }
  KC_ASSERT(pages > 0);
  return pages;
}

/* Follows `content` from the root as far as the tree goes, at most `limit` pages; visits what it
 * passes, and splits the node in which it ends. */
static struct descent descend(struct kc_prefix_cache *cache, const struct kc_content *content,
                              uint32_t limit)
{
  struct descent d = {.walk = kc_key_walk_begin(content), .node = KC_NODE_NONE};
  while (d.pages < limit) {
    struct kc_key_walk ahead = d.walk;
    const uint32_t first_key = kc_key_walk_next(&ahead);
    if (first_key == KC_KEY_NONE) break;
    const uint32_t node = node_after(cache, first_key);
    if (node == KC_NODE_NONE) break;
    const struct kc_radix_node *n = &cache->node[node];
    KC_ASSERT(n->first_key == first_key);
    const bool locked = is_locked(cache, n);
    visit(cache, node);
    if (n->pages <= limit - d.pages) {
      const uint32_t end_key = cache->page[n->last_page].key;
      ahead = d.walk;
      kc_key_walk_skip(&ahead, n->pages - 1);
      if (kc_key_walk_next(&ahead) == end_key) {
        d.walk = ahead;
        d.pages += n->pages;
        d.idle += locked ? 0 : n->pages;
        d.node = node;
        continue;
      }
    }
    uint32_t last = KC_PAGE_NONE;
    const uint32_t left = limit - d.pages;
    const uint32_t upper =
        common_pages(cache, &d.walk, left < n->pages ? left : n->pages, &last);
    d.node = split(cache, node, upper, last);
    d.pages += upper;
    d.idle += locked ? 0 : upper;
    break;
  }
  return d;
}

/* ---- init ---- */

size_t kc_radix_cache_need(uint32_t page_count, uint32_t key_count)
{
  KC_ASSERT(page_count <= KC_POOL_PAGES_MAX);
  KC_ASSERT(key_count <= KC_KEYS_MAX);
  return kc_arena_need(page_count, sizeof(struct kc_radix_page)) +
         kc_arena_need(page_count, sizeof(struct kc_radix_node)) +
         kc_arena_need(page_count, sizeof(uint32_t)) + kc_heap_need(page_count) +
         kc_arena_need(key_count, sizeof(struct kc_page)) +
         kc_arena_need(key_count, sizeof(uint32_t));
}

enum kc_err kc_radix_cache_init(struct kc_prefix_cache *cache, struct kc_arena *arena)
{
  const uint32_t count = cache->pool->page_count;
  KC_ASSERT(cache->pool->free_count == count);
  KC_ASSERT(count > 0);
  cache->page = kc_arena_take(arena, count, sizeof *cache->page);
  cache->node = kc_arena_take(arena, count, sizeof *cache->node);
  cache->free_node = kc_arena_take(arena, count, sizeof *cache->free_node);
  cache->found = kc_arena_take(arena, cache->key_count, sizeof *cache->found);
  cache->node_at = kc_arena_take(arena, cache->key_count, sizeof *cache->node_at);
  if (cache->page == NULL || cache->node == NULL || cache->free_node == NULL) return KC_ERR_MEMORY;
  if (cache->found == NULL || cache->node_at == NULL) return KC_ERR_MEMORY;
  KC_TRY(kc_heap_init(&cache->leaves, count, arena));
  for (uint32_t id = 0; id < count; id++) {
    cache->page[id] = (struct kc_radix_page){.key = KC_KEY_NONE, .end = KC_NODE_NONE};
    cache->free_node[id] = count - 1 - id;
  }
  cache->free_node_count = count;
  return KC_OK;
}

/* ---- lookup and attach ---- */

struct kc_cache_match kc_radix_cache_match(struct kc_prefix_cache *cache,
                                           const struct kc_content *content, uint32_t pages_max)
{
  const struct descent d = descend(cache, content, pages_max);
  KC_ASSERT(d.pages <= pages_max);
  KC_ASSERT(d.idle <= d.pages);
  return (struct kc_cache_match){.pages = d.pages, .idle = d.idle};
}

/* Writes the tree's pages for the content's places [from, to) into the row, with a reference each.
 * */
static void point_row(struct kc_prefix_cache *cache, uint32_t slot,
                      const struct kc_content *content, uint32_t from, uint32_t to)
{
  struct kc_page *row = kc_table_row(cache->table, slot);
  struct kc_key_walk walk = kc_key_walk_begin(content);
  uint64_t sum = 0;
  KC_ASSERT(from <= to && to <= cache->table->row_pages);
  kc_key_walk_skip(&walk, from);
  for (uint32_t i = from; i < to; i++) {
    const uint32_t key = kc_key_walk_next(&walk);
    KC_ASSERT(key < cache->key_count);
    const struct kc_page page = cache->found[key];
    bool was_idle;
    KC_ASSERT(page.tag != 0);
    /* After a fault the entry is written all the same: the check of the row sees it. */
    (void)kc_pool_ref(cache->pool, page, &was_idle);
    row[i] = page;
    sum += kc_page_weight(page);
  }
  cache->table->shared_sum += sum;
}

void kc_radix_cache_attach(struct kc_prefix_cache *cache, uint32_t slot,
                           const struct kc_content *content, uint32_t pages)
{
  point_row(cache, slot, content, 0, pages);
}

/* ---- eviction ---- */

/* Takes a leaf out of the tree and drops its pages, the last first. */
static uint32_t delete_leaf(struct kc_prefix_cache *cache, uint32_t node)
{
  struct kc_radix_node *n = &cache->node[node];
  const uint32_t pages = n->pages, parent = n->parent;
  uint32_t id = n->last_page;
  KC_ASSERT(n->children == 0 && pages > 0);
  KC_ASSERT(cache->page[id].end == node);
  cache->page[id].end = KC_NODE_NONE;
  cache->node_at[n->first_key] = 0;
  for (uint32_t i = 0; i < pages; i++) {
    struct kc_radix_page *page = &cache->page[id];
    const struct kc_page pair = {.id = id, .tag = page->tag};
    cache->found[page->key].tag = 0;
    page->key = KC_KEY_NONE;
    id = page->up;
    (void)kc_pool_drop(cache->pool, pair);
  }
  cache->counts.pages_evicted += pages;
  n->pages = 0;
  cache->free_node[cache->free_node_count++] = node;
  if (parent != KC_NODE_NONE) {
    KC_ASSERT(cache->node[parent].children > 0);
    cache->node[parent].children--;
    consider(cache, parent);
  }
  return pages;
}

uint32_t kc_radix_cache_evict(struct kc_prefix_cache *cache, uint32_t pages)
{
  struct kc_heap *leaves = &cache->leaves;
  uint32_t freed = 0;
  KC_ASSERT(leaves->count <= cache->pool->page_count);
  while (freed < pages && leaves->count > 0) {
    const uint32_t node = leaves->entry[0].item;
    const struct kc_radix_node *n = &cache->node[node];
    const int64_t stamp = n->stamp;
    const bool evictable = n->children == 0 && !is_locked(cache, n);
    const bool lags = leaves->entry[0].key != stamp;
    KC_ASSERT(leaves->entry[0].key <= stamp);
    kc_heap_remove(leaves, node);
    if (!evictable) continue;
    if (lags) {
      kc_heap_push(leaves, stamp, node);
      continue;
    }
    freed += delete_leaf(cache, node);
  }
  return freed;
}

bool kc_radix_cache_is_leaf(const struct kc_prefix_cache *cache, uint32_t id)
{
  const uint32_t node = cache->page[id].end;
  KC_ASSERT(id < cache->pool->page_count);
  return node != KC_NODE_NONE && cache->node[node].children == 0;
}

void kc_radix_cache_expel(struct kc_prefix_cache *cache, uint32_t id)
{
  const uint32_t node = cache->page[id].end;
  KC_ASSERT(kc_radix_cache_is_leaf(cache, id));
  KC_ASSERT(!is_locked(cache, &cache->node[node]));
  if (kc_heap_has(&cache->leaves, node)) kc_heap_remove(&cache->leaves, node);
  (void)delete_leaf(cache, node);
}

/* ---- publish and release ---- */

/* The row's own pages [from, to) become shared. Stops at one that faults; returns where. */
static uint32_t share_own(struct kc_prefix_cache *cache, uint32_t slot,
                          struct kc_key_walk walk, uint32_t from, uint32_t to)
{
  const struct kc_page *row = kc_table_row(cache->table, slot);
  KC_ASSERT(from <= to && to <= cache->table->extent[slot]);
  for (uint32_t i = from; i < to; i++) {
    const uint32_t key = kc_key_walk_next(&walk);
    KC_ASSERT(key < cache->key_count);
    if (kc_pool_share(cache->pool, row[i], kc_table_owner(slot), i) != KC_OK) return i;
    cache->found[key] = row[i];
    cache->page[row[i].id] = (struct kc_radix_page){.key = key,
                                                    .tag = row[i].tag,
                                                    .up = i > from ? row[i - 1].id : KC_PAGE_NONE,
                                                    .down = i + 1 < to ? row[i + 1].id
                                                                       : KC_PAGE_NONE,
                                                    .end = KC_NODE_NONE};
    cache->table->shared_sum += kc_page_weight(row[i]);
  }
  return to;
}

/* Hangs the row's pages [from, to), shared already, below `parent`. */
static void append_leaf(struct kc_prefix_cache *cache, const struct kc_page *row, uint32_t parent,
                        uint32_t from, uint32_t to)
{
  KC_ASSERT(from < to);
  KC_ASSERT(cache->page[row[from].id].key < cache->key_count);
  const uint32_t node =
      open_node(cache, &(struct kc_radix_node){.parent = parent,
                                               .first_key = cache->page[row[from].id].key,
                                               .last_page = row[to - 1].id,
                                               .pages = to - from});
  visit(cache, node);
  if (parent != KC_NODE_NONE) cache->node[parent].children++;
}

void kc_radix_cache_publish(struct kc_prefix_cache *cache, uint32_t slot,
                            const struct kc_content *content, uint32_t pages)
{
  struct kc_table *const table = cache->table;
  const uint32_t from = table->shared[slot];
  KC_ASSERT(from <= pages && pages <= table->extent[slot]);
  const struct descent d = descend(cache, content, pages);
  KC_ASSERT(d.pages <= pages);
  if (d.pages < from) return; /* pages of this row were evicted under it: its check tells */
  if (d.pages > from) {       /* somebody was quicker */
    (void)kc_table_free_own(table, cache->pool, slot, from, d.pages);
    point_row(cache, slot, content, from, d.pages);
    cache->counts.duplicates_freed += d.pages - from;
  }
  const uint32_t end = share_own(cache, slot, d.walk, d.pages, pages);
  if (end > d.pages) append_leaf(cache, kc_table_row(table, slot), d.node, d.pages, end);
  table->shared[slot] = end;
  table->shared_in_use += end - from;
  cache->counts.pages_published += end - d.pages;
}

void kc_radix_cache_idle(struct kc_prefix_cache *cache, uint32_t id)
{
  const uint32_t node = cache->page[id].end;
  KC_ASSERT(id < cache->pool->page_count);
  KC_ASSERT(cache->page[id].key != KC_KEY_NONE);
  if (node != KC_NODE_NONE) consider(cache, node);
}

/* ---- the slow way ---- */

/* Follows a span upward: its pages, keys, references and first key. */
static bool span_valid(const struct kc_prefix_cache *cache, uint32_t node)
{
  const struct kc_radix_node *n = &cache->node[node];
  const struct kc_page_record *record = cache->pool->record;
  uint32_t id = n->last_page, key = KC_KEY_NONE;
  if (cache->page[id].end != node) return false;
  for (uint32_t i = 0; i < n->pages; i++, id = cache->page[id].up) {
    if (id >= cache->pool->page_count || !kc_page_is_shared(&record[id])) return false;
    key = cache->page[id].key;
    if (key >= cache->key_count || cache->found[key].id != id) return false;
    if (cache->found[key].tag != cache->page[id].tag) return false;
    if (cache->page[id].tag != kc_tag_of(record[id].generation)) return false;
    if (kc_page_link_of(&record[id]) != kc_page_link_of(&record[n->last_page])) return false;
    if (i > 0 && cache->page[id].end != KC_NODE_NONE) return false;
    if (i > 0 && cache->page[cache->page[id].down].up != id) return false;
  }
  return key == n->first_key && node_after(cache, key) == node;
}

/* The node against its parent and the heap. */
static bool node_valid(const struct kc_prefix_cache *cache, uint32_t node)
{
  const struct kc_radix_node *n = &cache->node[node];
  if (!span_valid(cache, node) || n->stamp > cache->clock) return false;
  if (n->parent != KC_NODE_NONE) {
    const struct kc_radix_node *parent = &cache->node[n->parent];
    if (parent->pages == 0 || (is_locked(cache, n) && !is_locked(cache, parent))) return false;
  }
  const bool evictable = n->children == 0 && !is_locked(cache, n);
  return !evictable || kc_heap_has(&cache->leaves, node);
}

/* Counts the children of every node anew, in the scratch array. */
static bool children_valid(const struct kc_prefix_cache *cache)
{
  const uint32_t count = cache->pool->page_count;
  memset(cache->named, 0, count * sizeof *cache->named);
  for (uint32_t node = 0; node < count; node++) {
    const struct kc_radix_node *n = &cache->node[node];
    if (n->pages > 0 && n->parent != KC_NODE_NONE) cache->named[n->parent]++;
  }
  for (uint32_t node = 0; node < count; node++) {
    if (cache->node[node].pages > 0 && cache->node[node].children != cache->named[node]) {
      return false;
    }
  }
  return true;
}

bool kc_radix_cache_valid(const struct kc_prefix_cache *cache)
{
  uint32_t nodes = 0, pages = 0, begins = 0, findable = 0;
  for (uint32_t node = 0; node < cache->pool->page_count; node++) {
    if (cache->node[node].pages == 0) continue;
    if (!node_valid(cache, node)) return false;
    nodes++;
    pages += cache->node[node].pages;
  }
  for (uint32_t key = 0; key < cache->key_count; key++) {
    begins += cache->node_at[key] != 0;
    findable += cache->found[key].tag != 0;
  }
  for (uint32_t i = 0; i < cache->leaves.count; i++) {
    const struct kc_heap_entry entry = cache->leaves.entry[i];
    if (cache->node[entry.item].pages == 0) return false;
    if (entry.key > cache->node[entry.item].stamp) return false;
  }
  return children_valid(cache) && begins == nodes && findable == pages &&
         pages == cache->pool->shared_count &&
         nodes + cache->free_node_count == cache->pool->page_count &&
         kc_heap_valid(&cache->leaves);
}
