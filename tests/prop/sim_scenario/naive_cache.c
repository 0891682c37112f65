/* The plain twin's pages: counted only, when nothing is cached; else handed to one of the two
 * disciplines. Every request's keys are written out, page by page. */
#include <stdlib.h>

#include "naive_parts.h"

static void write_keys_out(struct naive_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  struct naive_request *s = &run->state[request];
  for (uint32_t i = 0; i < r->run_count; i++) s->key_count += r->run[i].count;
  s->keys = calloc(s->key_count + 1, sizeof *s->keys);
  s->row = calloc(s->key_count + 1, sizeof *s->row);
  if (s->keys == NULL || s->row == NULL) abort();
  uint32_t at = 0;
  for (uint32_t i = 0; i < r->run_count; i++) {
    const struct kc_key_run *const stretch = &r->run[i];
    for (uint32_t k = 0; k < stretch->count; k++) s->keys[at++] = stretch->first + k;
  }
}

void naive_cache_begin(struct naive_run *run)
{
  if (run->cache == KC_CACHE_NONE) return;
  for (uint32_t i = 0; i < run->request_count; i++) write_keys_out(run, i);
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_begin(run);
}

void naive_cache_end(struct naive_run *run)
{
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_end(run);
  free(run->node);
  for (uint32_t i = 0; i < run->request_count; i++) {
    free(run->state[i].keys);
    free(run->state[i].row);
  }
}

uint64_t naive_available(const struct naive_run *run)
{
  if (run->cache == KC_CACHE_BLOCKS) return run->queue_count;
  if (run->cache == KC_CACHE_RADIX) return naive_radix_free(run) + naive_radix_idle(run);
  uint64_t used = 0;
  for (uint32_t i = 0; i < run->running_count; i++) used += run->state[run->running[i]].pages;
  return run->pages - used;
}

uint64_t naive_free(const struct naive_run *run)
{
  return run->cache == KC_CACHE_RADIX ? naive_radix_free(run) : naive_available(run);
}

uint64_t naive_cached_idle(const struct naive_run *run)
{
  uint64_t idle = 0;
  if (run->cache == KC_CACHE_RADIX) return naive_radix_idle(run);
  for (uint32_t i = 0; i < run->queue_count; i++) {
    idle += run->last_key[run->queue[i]] != KC_KEY_NONE;
  }
  return idle;
}

void naive_make_room(struct naive_run *run, uint64_t count)
{
  if (run->cache == KC_CACHE_RADIX) naive_radix_make_room(run, count);
}

uint32_t naive_lookup(struct naive_run *run, uint32_t request, uint32_t pages_max, uint32_t *idle)
{
  *idle = 0;
  if (run->cache == KC_CACHE_BLOCKS) return naive_blocks_lookup(run, request, pages_max, idle);
  if (run->cache == KC_CACHE_RADIX) return naive_radix_match(run, request, pages_max, idle);
  return 0;
}

void naive_attach(struct naive_run *run, uint32_t request, uint32_t pages)
{
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_attach(run, request, pages);
  if (run->cache == KC_CACHE_RADIX) naive_radix_attach(run, request, pages);
}

void naive_take(struct naive_run *run, uint32_t request, uint64_t count)
{
  if (run->cache == KC_CACHE_NONE) run->state[request].pages += (uint32_t)count;
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_take(run, request, count);
  if (run->cache == KC_CACHE_RADIX) naive_radix_take(run, request, count);
}

void naive_publish(struct naive_run *run, uint32_t request, uint64_t tokens)
{
  const uint32_t pages = (uint32_t)(tokens / run->sched.page_size);
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_publish(run, request, pages);
  if (run->cache == KC_CACHE_RADIX) naive_radix_publish(run, request, pages);
}

void naive_release(struct naive_run *run, uint32_t request)
{
  if (run->cache == KC_CACHE_BLOCKS) naive_blocks_release(run, request);
  run->state[request].shared = 0;
  run->state[request].pages = 0;
}
