/* Op-stream on the discipline RADIX and on its naive twin, which must agree on results, rows and
 * what is evicted. The input: fuzz_cache_input.h.
 *
 *   kind mod 6: 0 admit text a with at most b pages from the cache   3 release slot a
 *               1 grow slot a by b pages                             4 match text a, b pages
 *               2 publish slot a up to b more pages                  5 evict b pages
 */
#include "tests/fuzz/engine_kv/fuzz_cache_input.h"

/* The twin belongs to the property tests; this target is a single file. */
#include "tests/prop/engine_kv/cache_content.c"
#include "tests/prop/engine_kv/naive_radix_cache.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct twins {
  struct cache_bed bed;
  struct naive_radix_cache naive;
};

static struct kc_cache_match match_both(struct twins *twins, uint32_t text, uint32_t pages_max,
                                        size_t at)
{
  uint32_t idle;
  const uint32_t pages =
      naive_radix_match(&twins->naive, &twins->bed.library.text[text], pages_max, &idle);
  const struct kc_cache_match found = kc_prefix_cache_match(
      &twins->bed.cache, &twins->bed.library.content[text], pages_max);
  require(found.pages == pages && found.idle == idle, "match", at);
  return found;
}

static void admit(struct twins *twins, uint32_t text, uint32_t pages_max, size_t at)
{
  uint32_t slot = 0;
  while (slot < INPUT_SLOTS && twins->bed.busy[slot]) slot++;
  if (slot == INPUT_SLOTS) return;
  const struct kc_cache_match found = match_both(twins, text, pages_max, at);
  twins->bed.busy[slot] = true;
  twins->bed.text[slot] = text;
  kc_prefix_cache_attach(&twins->bed.cache, slot, content_of(&twins->bed, slot), &found);
  naive_radix_attach(&twins->naive, slot, &twins->bed.library.text[text], found.pages);
}

static void grow(struct twins *twins, uint32_t slot, uint32_t count, size_t at)
{
  const uint32_t extent = twins->bed.table.extent[slot], room = CONTENT_PAGES_MAX - extent;
  if (count > room) count = room;
  const bool wanted = naive_radix_make_room(&twins->naive, count);
  require(kc_prefix_cache_grow(&twins->bed.cache, slot, count) == wanted, "growth", at);
  for (uint32_t i = extent; wanted && i < extent + count; i++) {
    const uint32_t id = kc_table_row(&twins->bed.table, slot)[i].id;
    require(naive_radix_given(&twins->naive, slot, id), "a page that was free", at);
  }
}

static void publish(struct twins *twins, uint32_t slot, uint32_t more, size_t at)
{
  const struct cache_text *text = &twins->bed.library.text[twins->bed.text[slot]];
  const uint32_t extent = twins->bed.table.extent[slot];
  uint32_t pages = twins->bed.table.shared[slot] + more;
  if (pages > extent) pages = extent;
  if (pages > text->length) pages = text->length;
  kc_prefix_cache_publish(&twins->bed.cache, slot, content_of(&twins->bed, slot), pages);
  naive_radix_publish(&twins->naive, slot, text, pages);
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
      naive_radix_release(&twins->naive, slot);
      break;
    case 4: (void)match_both(twins, text, op[2] % 16, at); break;
    default:
      require(kc_prefix_cache_evict(&bed->cache, op[2] % 16) ==
                  naive_radix_evict(&twins->naive, op[2] % 16), "eviction", at);
      break;
  }
}

static void compare(const struct twins *twins, size_t at)
{
  const struct naive_radix_cache *naive = &twins->naive;
  const struct cache_bed *bed = &twins->bed;
  const uint32_t idle = naive_radix_held(naive, true);
  check_bed(bed, naive_radix_held(naive, false), idle, naive_radix_free(naive) + idle, at);
  require(bed->cache.counts.pages_evicted == naive->evicted, "evicted", at);
  require(bed->cache.counts.duplicates_freed == naive->duplicates, "duplicates", at);
  for (uint32_t slot = 0; slot < INPUT_SLOTS; slot++) {
    require(bed->table.extent[slot] == naive->extent[slot], "extent", at);
    for (uint32_t i = 0; i < naive->extent[slot]; i++) {
      require(kc_table_row(&bed->table, slot)[i].id == naive->row[slot][i], "row", at);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct twins twins;
  static struct kc_arena arena;
  if (size < INPUT_HEAD || !open_bed(&twins.bed, &arena, KC_CACHE_RADIX, data)) return 0;
  naive_radix_init(&twins.naive, twins.bed.pool.page_count);
  for (size_t at = INPUT_HEAD; at + 3 <= size; at += 3) {
    one(&twins, data + at, at);
    compare(&twins, at);
  }
  close_bed(&twins.bed, size);
  return 0;
}
