/* See naive_radix_cache.h. */
#include "tests/prop/engine_kv/naive_radix_cache.h"

#include <string.h>

enum { ROOT = 0, NOBODY = UINT16_MAX };

void naive_radix_init(struct naive_radix_cache *naive, uint32_t page_count)
{
  memset(naive, 0, sizeof *naive);
  naive->page_count = page_count;
  for (uint32_t id = 0; id < page_count; id++) naive->is_free[id] = true;
  naive->node[ROOT].alive = true;
  naive->node[ROOT].lock = 1;
}

static uint32_t new_node(struct naive_radix_cache *naive)
{
  uint32_t id = 1;
  while (naive->node[id].alive) id++;
  naive->node[id] = (struct naive_node){.alive = true, .access_time = ++naive->clock};
  return id;
}

/* What is left of a text after the pages that were matched. */
struct rest {
  uint32_t salt;
  const uint8_t *symbol;
  uint32_t length;
};

static uint32_t child_of(const struct naive_radix_cache *naive, uint32_t parent,
                         const struct rest *rest)
{
  for (uint32_t id = 1; id < NAIVE_NODES_MAX; id++) {
    const struct naive_node *node = &naive->node[id];
    if (!node->alive || node->parent != parent || node->salt != rest->salt) continue;
    if (rest->length > 0 && node->symbol[0] == rest->symbol[0]) return id;
  }
  return NOBODY;
}

static uint32_t common(const struct naive_node *node, const struct rest *rest)
{
  uint32_t pages = 0;
  while (pages < node->length && pages < rest->length &&
         node->symbol[pages] == rest->symbol[pages]) {
    pages++;
  }
  return pages;
}

static uint32_t split(struct naive_radix_cache *naive, uint32_t child, uint32_t pages)
{
  const uint32_t id = new_node(naive);
  struct naive_node *upper = &naive->node[id], *lower = &naive->node[child];
  upper->parent = lower->parent;
  upper->salt = lower->salt;
  upper->lock = lower->lock;
  upper->length = pages;
  memcpy(upper->symbol, lower->symbol, pages);
  memcpy(upper->page, lower->page, pages * sizeof upper->page[0]);
  lower->parent = id;
  lower->length -= pages;
  memmove(lower->symbol, lower->symbol + pages, lower->length);
  memmove(lower->page, lower->page + pages, lower->length * sizeof lower->page[0]);
  return id;
}

/* Goes down as far as the text is in the tree; every node on the way has been accessed now. */
static uint32_t descend(struct naive_radix_cache *naive, struct rest *rest)
{
  const uint64_t access_time = ++naive->clock;
  uint32_t node = ROOT;
  while (rest->length > 0) {
    const uint32_t child = child_of(naive, node, rest);
    if (child == NOBODY) break;
    naive->node[child].access_time = access_time;
    const uint32_t pages = common(&naive->node[child], rest);
    const bool whole = pages == naive->node[child].length;
    node = whole ? child : split(naive, child, pages);
    rest->symbol += pages;
    rest->length -= pages;
    if (!whole) break;
  }
  return node;
}

static struct rest beginning(const struct cache_text *text, uint32_t pages)
{
  return (struct rest){.salt = text->salt,
                       .symbol = text->symbol,
                       .length = pages < text->length ? pages : text->length};
}

/* Pages from the root to the end of a node, into `out`. */
static uint32_t path_pages(const struct naive_radix_cache *naive, uint32_t node, uint32_t *out)
{
  if (node == ROOT) return 0;
  const struct naive_node *n = &naive->node[node];
  const uint32_t before = path_pages(naive, n->parent, out);
  memcpy(out + before, n->page, n->length * sizeof *out);
  return before + n->length;
}

static uint32_t match(struct naive_radix_cache *naive, const struct cache_text *text,
                      uint32_t pages_max, uint32_t *node)
{
  struct rest rest = beginning(text, pages_max);
  const uint32_t asked = rest.length;
  *node = descend(naive, &rest);
  return asked - rest.length;
}

uint32_t naive_radix_match(struct naive_radix_cache *naive, const struct cache_text *text,
                           uint32_t pages_max, uint32_t *idle)
{
  uint32_t node;
  const uint32_t pages = match(naive, text, pages_max, &node);
  *idle = 0;
  for (; node != ROOT; node = naive->node[node].parent) {
    if (naive->node[node].lock == 0) *idle += naive->node[node].length;
  }
  return pages;
}

static void change_locks(struct naive_radix_cache *naive, uint32_t node, uint32_t change)
{
  for (; node != ROOT; node = naive->node[node].parent) naive->node[node].lock += change;
}

void naive_radix_attach(struct naive_radix_cache *naive, uint32_t slot,
                        const struct cache_text *text, uint32_t pages)
{
  /* The match was made before, so this one ends where a node does and changes no order. */
  const uint32_t found = match(naive, text, pages, &naive->last_node[slot]);
  change_locks(naive, naive->last_node[slot], 1);
  naive->extent[slot] = path_pages(naive, naive->last_node[slot], naive->row[slot]);
  naive->protected_pages[slot] = found;
}

static bool has_children(const struct naive_radix_cache *naive, uint32_t node)
{
  for (uint32_t id = 1; id < NAIVE_NODES_MAX; id++) {
    if (naive->node[id].alive && naive->node[id].parent == node) return true;
  }
  return false;
}

uint32_t naive_radix_evict(struct naive_radix_cache *naive, uint32_t pages)
{
  uint32_t freed = 0;
  while (freed < pages) {
    uint32_t oldest = NOBODY;
    for (uint32_t id = 1; id < NAIVE_NODES_MAX; id++) {
      const struct naive_node *node = &naive->node[id];
      if (!node->alive || node->lock > 0 || has_children(naive, id)) continue;
      if (oldest == NOBODY || node->access_time < naive->node[oldest].access_time) oldest = id;
    }
    if (oldest == NOBODY) break;
    struct naive_node *node = &naive->node[oldest];
    for (uint32_t i = 0; i < node->length; i++) naive->is_free[node->page[i]] = true;
    node->alive = false;
    freed += node->length;
  }
  naive->evicted += freed;
  return freed;
}

uint32_t naive_radix_free(const struct naive_radix_cache *naive)
{
  uint32_t count = 0;
  for (uint32_t id = 0; id < naive->page_count; id++) count += naive->is_free[id];
  return count;
}

uint32_t naive_radix_held(const struct naive_radix_cache *naive, bool unlocked_only)
{
  uint32_t count = 0;
  for (uint32_t id = 1; id < NAIVE_NODES_MAX; id++) {
    const struct naive_node *node = &naive->node[id];
    if (node->alive && (!unlocked_only || node->lock == 0)) count += node->length;
  }
  return count;
}

bool naive_radix_make_room(struct naive_radix_cache *naive, uint32_t count)
{
  if (count > naive_radix_free(naive) + naive_radix_held(naive, true)) return false;
  if (naive_radix_free(naive) < count) (void)naive_radix_evict(naive, count);
  return true;
}

bool naive_radix_given(struct naive_radix_cache *naive, uint32_t slot, uint32_t id)
{
  if (id >= naive->page_count || !naive->is_free[id]) return false;
  naive->is_free[id] = false;
  naive->row[slot][naive->extent[slot]++] = id;
  return true;
}

/* Insertion; returns how many of the pages the tree had already. */
static uint32_t insert(struct naive_radix_cache *naive, const struct cache_text *text,
                       const uint32_t *row, uint32_t pages)
{
  struct rest rest = beginning(text, pages);
  const uint32_t node = descend(naive, &rest);
  const uint32_t had = pages - rest.length;
  if (rest.length == 0) return had;
  const uint32_t id = new_node(naive);
  struct naive_node *leaf = &naive->node[id];
  leaf->parent = node;
  leaf->salt = text->salt;
  leaf->length = rest.length;
  memcpy(leaf->symbol, rest.symbol, rest.length);
  memcpy(leaf->page, row + had, rest.length * sizeof *row);
  return had;
}

void naive_radix_publish(struct naive_radix_cache *naive, uint32_t slot,
                         const struct cache_text *text, uint32_t pages)
{
  uint32_t *row = naive->row[slot];
  const uint32_t had = insert(naive, text, row, pages);
  for (uint32_t i = naive->protected_pages[slot]; i < had; i++) {
    naive->is_free[row[i]] = true; /* somebody else's page is in the tree */
    naive->duplicates++;
  }
  uint32_t node;
  (void)match(naive, text, pages, &node);
  (void)path_pages(naive, node, row);
  change_locks(naive, node, 1);
  change_locks(naive, naive->last_node[slot], UINT32_MAX); /* one fewer */
  naive->last_node[slot] = node;
  naive->protected_pages[slot] = pages;
}

void naive_radix_release(struct naive_radix_cache *naive, uint32_t slot)
{
  for (uint32_t i = naive->protected_pages[slot]; i < naive->extent[slot]; i++) {
    naive->is_free[naive->row[slot][i]] = true;
  }
  change_locks(naive, naive->last_node[slot], UINT32_MAX);
  naive->last_node[slot] = ROOT;
  naive->protected_pages[slot] = 0;
  naive->extent[slot] = 0;
}
