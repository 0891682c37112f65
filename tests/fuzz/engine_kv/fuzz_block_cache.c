/* Op-stream on the discipline BLOCKS and on its naive twin, which must agree on results, rows and
 * the order of the queue. The input: fuzz_cache_input.h.
 *
 *   kind mod 6: 0 admit text a with at most b pages from the cache   3 release slot a
 *               1 grow slot a by b pages                             4 match text a, b pages
 *               2 publish slot a up to b more pages                  5 clear, if a is 0
 */
#include "tests/fuzz/engine_kv/fuzz_cache_input.h"

/* The twin belongs to the property tests; this target is a single file. */
#include "tests/prop/engine_kv/cache_content.c"
#include "tests/prop/engine_kv/naive_block_cache.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct twins {
  struct cache_bed bed;
  struct naive_block_cache naive;
};

static struct kc_cache_match match_both(struct twins *twins, uint32_t text, uint32_t pages_max,
                                        size_t at)
{
  uint32_t idle;
  const uint32_t pages =
      naive_blocks_match(&twins->naive, &twins->bed.library.text[text], pages_max, &idle);
  const struct kc_cache_match match = kc_prefix_cache_match(
      &twins->bed.cache, &twins->bed.library.content[text], pages_max);
  require(match.pages == pages && match.idle == idle, "match", at);
  return match;
}

static void admit(struct twins *twins, uint32_t text, uint32_t pages_max, size_t at)
{
  uint32_t slot = 0;
  while (slot < INPUT_SLOTS && twins->bed.busy[slot]) slot++;
  if (slot == INPUT_SLOTS) return;
  const struct kc_cache_match match = match_both(twins, text, pages_max, at);
  twins->bed.busy[slot] = true;
  twins->bed.text[slot] = text;
  kc_prefix_cache_attach(&twins->bed.cache, slot, content_of(&twins->bed, slot), &match);
  naive_blocks_attach(&twins->naive, slot, &twins->bed.library.text[text], match.pages);
}

static void grow(struct twins *twins, uint32_t slot, uint32_t count, size_t at)
{
  const uint32_t room = CONTENT_PAGES_MAX - twins->bed.table.extent[slot];
  if (count > room) count = room;
  require(kc_prefix_cache_grow(&twins->bed.cache, slot, count) ==
              naive_blocks_grow(&twins->naive, slot, count), "growth", at);
}

static void publish(struct twins *twins, uint32_t slot, uint32_t more, size_t at)
{
  const struct cache_text *text = &twins->bed.library.text[twins->bed.text[slot]];
  const uint32_t extent = twins->bed.table.extent[slot];
  uint32_t pages = twins->bed.table.shared[slot] + more;
  if (pages > extent) pages = extent;
  if (pages > text->length) pages = text->length;
  kc_prefix_cache_publish(&twins->bed.cache, slot, content_of(&twins->bed, slot), pages);
  naive_blocks_publish(&twins->naive, slot, text, pages);
  require(twins->bed.table.shared[slot] == pages, "published", at);
}

static void one(struct twins *twins, const uint8_t *op, size_t at)
{
  struct cache_bed *bed = &twins->bed;
  const uint32_t text = op[1] % INPUT_TEXTS, slot = op[1] % INPUT_SLOTS;
  switch (op[0] % 6) {
    case 0: admit(twins, text, op[2] % 16, at); break;
    case 1: if (bed->busy[slot]) grow(twins, slot, op[2] % 8, at); break;
    case 2: if (bed->busy[slot]) publish(twins, slot, op[2] % 16, at); break;
    case 3:
      if (!bed->busy[slot]) break;
      bed->busy[slot] = false;
      require(kc_prefix_cache_release(&bed->cache, slot) == KC_OK, "release", at);
      naive_blocks_release(&twins->naive, slot);
      break;
    case 4: (void)match_both(twins, text, op[2] % 16, at); break;
    default:
      if (op[1] != 0) break;
      kc_prefix_cache_clear(&bed->cache);
      naive_blocks_clear(&twins->naive);
      break;
  }
}

static void compare(const struct twins *twins, size_t at)
{
  const struct naive_block_cache *naive = &twins->naive;
  const struct cache_bed *bed = &twins->bed;
  check_bed(bed, naive_blocks_hashed(naive, false), naive_blocks_hashed(naive, true),
            naive->unused_count, at);
  for (uint32_t slot = 0; slot < INPUT_SLOTS; slot++) {
    require(bed->table.extent[slot] == naive->extent[slot], "extent", at);
    for (uint32_t i = 0; i < naive->extent[slot]; i++) {
      require(kc_table_row(&bed->table, slot)[i].id == naive->row[slot][i], "row", at);
    }
  }
  uint32_t id = bed->cache.block[bed->pool.page_count].queue_next;
  for (uint32_t i = 0; i < naive->unused_count; i++) {
    require(id == naive->unused[i], "queue", at);
    id = bed->cache.block[id].queue_next;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct twins twins;
  static struct kc_arena arena;
  if (size < INPUT_HEAD || !open_bed(&twins.bed, &arena, KC_CACHE_BLOCKS, data)) return 0;
  naive_blocks_init(&twins.naive, twins.bed.pool.page_count);
  for (size_t at = INPUT_HEAD; at + 3 <= size; at += 3) {
    one(&twins, data + at, at);
    compare(&twins, at);
  }
  close_bed(&twins.bed, size);
  return 0;
}
