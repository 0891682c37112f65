/* The plain twin's prefix cache of SGLang 0.5 (mem_cache/radix_cache.py).
 *
 *   node[0..n)   {whole sequence of keys from the root to its end, where its own span starts, when
 *                 it was last used}
 *
 *     [ . . . |a b c]          node that starts at 3 and ends at 6
 *     [ . . . a b c |d e]      its child: starts where that ends, with the same keys before
 *
 * There are no pointers: a child is found by comparing. A node is locked while a request runs whose
 * shared pages lead through it. Pages have no numbers here, they are counted: those of the nodes,
 * and those that requests hold for themselves.
 */
#include <stdlib.h>
#include <string.h>

#include "naive_parts.h"

/* From the end, where sequences differ if they do. */
static bool begins_with(const uint32_t *keys, const struct naive_node *node, uint32_t length)
{
  if (length > 0 && keys[length - 1] != node->keys[length - 1]) return false;
  return memcmp(keys, node->keys, length * sizeof *keys) == 0;
}

static void add_node(struct naive_run *run, const struct naive_node *node)
{
  if (run->node_count == run->node_capacity) {
    run->node_capacity = 2 * run->node_capacity + 64;
    run->node = realloc(run->node, run->node_capacity * sizeof *run->node);
    if (run->node == NULL) abort();
  }
  run->node[run->node_count++] = *node;
}

/* The node that goes on with keys[depth] after the `depth` keys before, or NULL. */
static struct naive_node *child_at(const struct naive_run *run, const uint32_t *keys,
                                   uint32_t depth)
{
  for (uint32_t i = 0; i < run->node_count; i++) {
    struct naive_node *node = &run->node[i];
    if (node->start != depth || node->keys[depth] != keys[depth]) continue;
    if (begins_with(keys, node, depth)) return node;
  }
  return NULL;
}

/* Goes down as far as the first `pages` keys are there and splits the node in which that ends.
 * Every node looked into is used now: the part below a split before the part above it. Returns how
 * far that was. */
static uint32_t walk(struct naive_run *run, const uint32_t *keys, uint32_t pages)
{
  uint32_t depth = 0;
  while (depth < pages) {
    struct naive_node *node = child_at(run, keys, depth);
    if (node == NULL) return depth;
    node->used = ++run->uses;
    while (depth < pages && depth < node->end && node->keys[depth] == keys[depth]) depth++;
    if (depth == node->end) continue;
    const struct naive_node above = {
        .keys = node->keys, .start = node->start, .end = depth, .used = ++run->uses};
    node->start = depth;
    add_node(run, &above);
    return depth;
  }
  return depth;
}

static bool is_locked(const struct naive_run *run, const struct naive_node *node)
{
  for (uint32_t i = 0; i < run->running_count; i++) {
    const struct naive_request *s = &run->state[run->running[i]];
    if (s->shared >= node->end && begins_with(s->keys, node, node->end)) return true;
  }
  return false;
}

static bool is_leaf(const struct naive_run *run, const struct naive_node *node)
{
  for (uint32_t i = 0; i < run->node_count; i++) {
    const struct naive_node *other = &run->node[i];
    if (other->start == node->end && begins_with(other->keys, node, node->end)) return false;
  }
  return true;
}

uint64_t naive_radix_free(const struct naive_run *run)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i < run->node_count; i++) used += run->node[i].end - run->node[i].start;
  for (uint32_t i = 0; i < run->running_count; i++) {
    const struct naive_request *s = &run->state[run->running[i]];
    used += s->pages - s->shared;
  }
  return run->pages - used;
}

uint64_t naive_radix_idle(const struct naive_run *run)
{
  uint64_t idle = 0;
  for (uint32_t i = 0; i < run->node_count; i++) {
    if (!is_locked(run, &run->node[i])) idle += run->node[i].end - run->node[i].start;
  }
  return idle;
}

/* Longest known beginning of a request, of at most `pages_max` pages. */
uint32_t naive_radix_match(struct naive_run *run, uint32_t request, uint32_t pages_max,
                           uint32_t *idle)
{
  const uint32_t *const keys = run->state[request].keys;
  const uint32_t pages = walk(run, keys, pages_max);
  *idle = 0;
  for (uint32_t i = 0; i < run->node_count; i++) {
    const struct naive_node *node = &run->node[i];
    if (node->end > pages || !begins_with(keys, node, node->end)) continue;
    if (!is_locked(run, node)) *idle += node->end - node->start;
  }
  return pages;
}

void naive_radix_attach(struct naive_run *run, uint32_t request, uint32_t pages)
{
  run->state[request].shared = pages;
  run->state[request].pages = pages;
}

/* The leaf that nobody uses, unused for longest, or NAIVE_NOBODY. */
static uint32_t oldest_leaf(const struct naive_run *run)
{
  uint32_t oldest = NAIVE_NOBODY;
  for (uint32_t i = 0; i < run->node_count; i++) {
    const struct naive_node *node = &run->node[i];
    if (oldest != NAIVE_NOBODY && node->used > run->node[oldest].used) continue;
    if (is_leaf(run, node) && !is_locked(run, node)) oldest = i;
  }
  return oldest;
}

/* Whole leaves, as many pages as are wanted, whatever is missing. */
void naive_radix_make_room(struct naive_run *run, uint64_t count)
{
  uint64_t dropped = 0;
  if (naive_radix_free(run) >= count) return;
  while (dropped < count) {
    const uint32_t leaf = oldest_leaf(run);
    if (leaf == NAIVE_NOBODY) break;
    dropped += run->node[leaf].end - run->node[leaf].start;
    run->node[leaf] = run->node[--run->node_count];
  }
  run->summary.pages_evicted += dropped;
}

void naive_radix_take(struct naive_run *run, uint32_t request, uint64_t count)
{
  naive_radix_make_room(run, count);
  run->state[request].pages += (uint32_t)count;
}

/* What the tree had already is freed with that: the request counts its shared pages no more. */
void naive_radix_publish(struct naive_run *run, uint32_t request, uint32_t pages)
{
  struct naive_request *s = &run->state[request];
  const uint32_t depth = walk(run, s->keys, pages);
  if (depth < pages) {
    const struct naive_node node = {
        .keys = s->keys, .start = depth, .end = pages, .used = ++run->uses};
    add_node(run, &node);
  }
  s->shared = pages;
}
