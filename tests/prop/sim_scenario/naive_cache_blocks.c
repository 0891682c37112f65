/* The plain twin's prefix cache of vLLM 0.19 (vllm/v1/core/block_pool.py, kv_cache_manager.py).
 *
 *   page[id]      what it holds: a sequence of keys from the beginning of a prompt, or nothing that
 *                 can be found; who uses it
 *   queue[0..n)   the pages that nobody uses, next to be taken first
 *
 * A page is found by comparing the whole sequence that it ends, page by page of the pool. Of
 * several equal ones the first that became findable is given.
 */
#include <stdlib.h>
#include <string.h>

#include "naive_parts.h"

void naive_blocks_begin(struct naive_run *run)
{
  run->page = calloc(run->pages, sizeof *run->page);
  run->last_key = calloc(run->pages, sizeof *run->last_key);
  run->queue = calloc(run->pages, sizeof *run->queue);
  if (!run->page || !run->last_key || !run->queue) abort();
  for (uint32_t i = 0; i < run->pages; i++) run->last_key[i] = KC_KEY_NONE;
  for (uint32_t i = 0; i < run->pages; i++) run->queue[i] = i;
  run->queue_count = run->pages;
}

void naive_blocks_end(struct naive_run *run)
{
  free(run->page);
  free(run->last_key);
  free(run->queue);
}

/* The page that holds page `length` - 1 of a prompt beginning with these keys, or NAIVE_NOBODY. */
static uint32_t find_page(const struct naive_run *run, const uint32_t *keys, uint32_t length)
{
  uint32_t found = NAIVE_NOBODY;
  for (uint32_t i = 0; i < run->pages; i++) {
    if (run->last_key[i] != keys[length - 1]) continue;
    const struct naive_page *page = &run->page[i];
    if (page->length != length || memcmp(page->keys, keys, length * sizeof *keys) != 0) continue;
    if (found == NAIVE_NOBODY || page->found_since < run->page[found].found_since) found = i;
  }
  return found;
}

uint32_t naive_blocks_lookup(const struct naive_run *run, uint32_t request, uint32_t pages_max,
                             uint32_t *idle)
{
  const struct naive_request *s = &run->state[request];
  uint32_t pages = 0;
  *idle = 0;
  while (pages < pages_max) {
    const uint32_t page = find_page(run, s->keys, pages + 1);
    if (page == NAIVE_NOBODY) break;
    if (run->page[page].users == 0) (*idle)++;
    pages++;
  }
  return pages;
}

static void leave_queue(struct naive_run *run, uint32_t page)
{
  uint32_t at = 0;
  while (run->queue[at] != page) at++;
  run->queue_count--;
  memmove(run->queue + at, run->queue + at + 1, (run->queue_count - at) * sizeof *run->queue);
}

void naive_blocks_attach(struct naive_run *run, uint32_t request, uint32_t pages)
{
  struct naive_request *s = &run->state[request];
  for (; s->pages < pages; s->pages++) {
    const uint32_t page = find_page(run, s->keys, s->pages + 1);
    if (run->page[page].users++ == 0) leave_queue(run, page);
    s->row[s->pages] = page;
  }
}

void naive_blocks_take(struct naive_run *run, uint32_t request, uint64_t count)
{
  struct naive_request *s = &run->state[request];
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t page = run->queue[0];
    leave_queue(run, page);
    run->last_key[page] = KC_KEY_NONE;
    run->summary.pages_evicted += run->page[page].length > 0;
    run->page[page] = (struct naive_page){.users = 1};
    s->row[s->pages++] = page;
  }
}

void naive_blocks_publish(struct naive_run *run, uint32_t request, uint32_t pages)
{
  const struct naive_request *s = &run->state[request];
  for (uint32_t i = 0; i < pages; i++) {
    struct naive_page *page = &run->page[s->row[i]];
    if (page->length > 0) continue; /* it can be found already */
    page->keys = s->keys;
    page->length = i + 1;
    page->found_since = ++run->publications;
    run->last_key[s->row[i]] = s->keys[i];
  }
}

void naive_blocks_release(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  for (; s->pages > 0; s->pages--) {
    const uint32_t page = s->row[s->pages - 1];
    if (--run->page[page].users == 0) run->queue[run->queue_count++] = page;
  }
}
