/* What the fuzz targets of the two prefix caches share: the form of their input.
 *
 *   byte 0        pages: 1 + value mod 32; paranoid mode in the top bit
 *   bytes 1..32   eight texts of four bytes {a, b, c, d}: the first b mod 7 pages of text a mod 8
 *                 (if it is an earlier one), then c mod 7 pages whose symbols are the bits of d;
 *                 salt: the top bit of a
 *   the rest      operations of three bytes {kind, a, b}
 */
#ifndef KC_TESTS_FUZZ_CACHE_INPUT_H
#define KC_TESTS_FUZZ_CACHE_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kv/prefix_cache.h"
#include "tests/prop/engine_kv/cache_content.h"

enum { INPUT_TEXTS = 8, INPUT_HEAD = 1 + 4 * INPUT_TEXTS, INPUT_SLOTS = 4, INPUT_PAGES_MAX = 32 };

struct cache_bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_prefix_cache cache;
  struct cache_library library;
  bool busy[INPUT_SLOTS];
  uint32_t text[INPUT_SLOTS];
};

static void require(bool holds, const char *what, size_t at)
{
  if (holds) return;
  fprintf(stderr, "the twins disagree at byte %zu: %s\n", at, what);
  abort();
}

static void read_texts(struct cache_library *library, const uint8_t *data)
{
  memset(library, 0, sizeof *library);
  library->count = INPUT_TEXTS;
  for (uint32_t t = 0; t < INPUT_TEXTS; t++) {
    const uint8_t *in = data + 4 * (size_t)t;
    struct cache_text *text = &library->text[t];
    if (in[0] % 8 < t) {
      const uint32_t shared = in[1] % 7;
      *text = library->text[in[0] % 8];
      if (text->length > shared) text->length = shared;
    }
    text->salt = in[0] >> 7;
    for (uint32_t i = 0; i < in[2] % 7u; i++) {
      text->symbol[text->length++] = in[3] >> i & 1;
    }
  }
  cache_library_index(library);
}

/* One arena for all inputs: mapping anew would take most of the time. */
static bool open_bed(struct cache_bed *bed, struct kc_arena *arena, enum kc_cache_kind kind,
                     const uint8_t *data)
{
  enum { KEYS_MAX = INPUT_TEXTS * CONTENT_PAGES_MAX };
  const size_t bytes = kc_pool_need(INPUT_PAGES_MAX) +
                       kc_table_need(INPUT_SLOTS, CONTENT_PAGES_MAX) +
                       kc_prefix_cache_need(kind, INPUT_PAGES_MAX, KEYS_MAX);
  if (arena->base == NULL && kc_arena_init(arena, bytes, NULL) != KC_OK) return false;
  memset(arena->base, 0, arena->used_bytes);
  arena->used_bytes = 0;
  memset(bed, 0, sizeof *bed);
  read_texts(&bed->library, data + 1);
  const uint32_t pages = 1 + data[0] % INPUT_PAGES_MAX;
  require(kc_pool_init(&bed->pool, pages, data[0], arena) == KC_OK, "pool", 0);
  require(kc_table_init(&bed->table, INPUT_SLOTS, CONTENT_PAGES_MAX, arena) == KC_OK, "table", 0);
  require(kc_prefix_cache_init(&bed->cache, kind, &bed->pool, &bed->table,
                               bed->library.key_count, arena) == KC_OK, "cache", 0);
  bed->pool.paranoid = data[0] >= 128;
  return true;
}

static const struct kc_content *content_of(const struct cache_bed *bed, uint32_t slot)
{
  return &bed->library.content[bed->text[slot]];
}

/* After every operation. */
static void check_bed(const struct cache_bed *bed, uint32_t held, uint32_t idle,
                      uint32_t available, size_t at)
{
  require(bed->pool.shared_count == held, "pages in the cache", at);
  require(bed->pool.idle_count == idle, "idle pages", at);
  require(kc_prefix_cache_available(&bed->cache) == available, "available pages", at);
  require(!kc_prefix_cache_suspect(&bed->cache), "references", at);
  require(bed->pool.faults == 0, "no fault", at);
}

/* Rows are sound, then everything is given back and nothing is left. */
static void close_bed(struct cache_bed *bed, size_t at)
{
  require(kc_prefix_cache_valid(&bed->cache), "valid", at);
  require(kc_pool_scrub(&bed->pool) == KC_OK, "scrub", at);
  for (uint32_t slot = 0; slot < INPUT_SLOTS; slot++) {
    if (!bed->busy[slot]) continue;
    require(kc_prefix_cache_check_row(&bed->cache, slot, content_of(bed, slot), NULL) == KC_OK,
            "sound rows", at);
    require(kc_prefix_cache_release(&bed->cache, slot) == KC_OK, "release", at);
  }
  require(bed->pool.refs_total == 0, "no reference is left", at);
  require(kc_prefix_cache_balance(&bed->cache) == KC_OK, "balance", at);
  require(bed->pool.free_count == bed->pool.page_count, "every page is free", at);
}

#endif
