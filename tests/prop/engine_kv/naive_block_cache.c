/* See naive_block_cache.h. */
#include "tests/prop/engine_kv/naive_block_cache.h"

#include <string.h>

void naive_blocks_init(struct naive_block_cache *naive, uint32_t block_count)
{
  memset(naive, 0, sizeof *naive);
  naive->block_count = block_count;
  for (uint32_t id = 0; id < block_count; id++) naive->unused[naive->unused_count++] = id;
}

/* The block that got this text first, of those that still have it. */
static uint32_t find(const struct naive_block_cache *naive, const struct cache_text *text,
                     uint32_t pages)
{
  uint32_t best = UINT32_MAX;
  for (uint32_t id = 0; id < naive->block_count; id++) {
    const struct naive_block *block = &naive->block[id];
    if (!block->hashed || block->text.length != pages) continue;
    if (!cache_text_same(&block->text, text, pages)) continue;
    if (best == UINT32_MAX || block->hashed_at < naive->block[best].hashed_at) best = id;
  }
  return best;
}

uint32_t naive_blocks_match(const struct naive_block_cache *naive, const struct cache_text *text,
                            uint32_t pages_max, uint32_t *idle)
{
  uint32_t pages = 0;
  *idle = 0;
  while (pages < pages_max && pages < text->length) {
    const uint32_t id = find(naive, text, pages + 1);
    if (id == UINT32_MAX) break;
    *idle += naive->block[id].users == 0;
    pages++;
  }
  return pages;
}

static void leave_list(struct naive_block_cache *naive, uint32_t id)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < naive->unused_count; i++) {
    if (naive->unused[i] != id) naive->unused[kept++] = naive->unused[i];
  }
  naive->unused_count = kept;
}

void naive_blocks_attach(struct naive_block_cache *naive, uint32_t slot,
                         const struct cache_text *text, uint32_t pages)
{
  for (uint32_t i = 0; i < pages; i++) {
    const uint32_t id = find(naive, text, i + 1);
    if (naive->block[id].users++ == 0) leave_list(naive, id);
    naive->row[slot][naive->extent[slot]++] = id;
  }
}

bool naive_blocks_grow(struct naive_block_cache *naive, uint32_t slot, uint32_t count)
{
  if (count > naive->unused_count) return false;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t id = naive->unused[0];
    leave_list(naive, id);
    naive->block[id].hashed = false;
    naive->block[id].users = 1;
    naive->row[slot][naive->extent[slot]++] = id;
  }
  return true;
}

void naive_blocks_publish(struct naive_block_cache *naive, uint32_t slot,
                          const struct cache_text *text, uint32_t pages)
{
  for (uint32_t i = 0; i < pages; i++) {
    struct naive_block *block = &naive->block[naive->row[slot][i]];
    if (block->hashed) continue;
    block->hashed = true;
    block->text = *text;
    block->text.length = i + 1;
    block->hashed_at = ++naive->clock;
  }
}

void naive_blocks_release(struct naive_block_cache *naive, uint32_t slot)
{
  while (naive->extent[slot] > 0) {
    const uint32_t id = naive->row[slot][--naive->extent[slot]];
    if (--naive->block[id].users == 0) naive->unused[naive->unused_count++] = id;
  }
}

void naive_blocks_clear(struct naive_block_cache *naive)
{
  for (uint32_t id = 0; id < naive->block_count; id++) {
    if (naive->block[id].users == 0) naive->block[id].hashed = false;
  }
}

uint32_t naive_blocks_hashed(const struct naive_block_cache *naive, bool unused_only)
{
  uint32_t count = 0;
  for (uint32_t id = 0; id < naive->block_count; id++) {
    const struct naive_block *block = &naive->block[id];
    count += block->hashed && (!unused_only || block->users == 0);
  }
  return count;
}
