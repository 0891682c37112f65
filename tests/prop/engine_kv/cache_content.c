/* See cache_content.h. */
#include "tests/prop/engine_kv/cache_content.h"

#include <string.h>

bool cache_text_same(const struct cache_text *a, const struct cache_text *b, uint32_t pages)
{
  if (a->salt != b->salt || a->length < pages || b->length < pages) return false;
  return memcmp(a->symbol, b->symbol, pages) == 0;
}

/* The key of page i of text t: that of an earlier text with the same beginning, or a new one. */
static uint32_t key_of(struct cache_library *library, uint32_t t, uint32_t i)
{
  for (uint32_t other = 0; other < t; other++) {
    if (cache_text_same(&library->text[other], &library->text[t], i + 1)) {
      return library->key[other][i];
    }
  }
  return library->key_count++;
}

void cache_library_index(struct cache_library *library)
{
  library->key_count = 0;
  for (uint32_t t = 0; t < library->count; t++) {
    struct kc_key_run *run = library->run[t];
    uint32_t runs = 0;
    for (uint32_t i = 0; i < library->text[t].length; i++) {
      const uint32_t key = key_of(library, t, i);
      library->key[t][i] = key;
      if (runs > 0 && run[runs - 1].first + run[runs - 1].count == key) {
        run[runs - 1].count++;
      } else {
        run[runs++] = (struct kc_key_run){.first = key, .count = 1};
      }
    }
    library->content[t] = (struct kc_content){.run = run, .run_count = runs};
  }
}

void cache_library_draw(struct cache_library *library, struct kc_random *random, uint32_t count,
                        uint32_t pages_max, uint32_t symbols, uint32_t salts)
{
  memset(library, 0, sizeof *library);
  library->count = count;
  for (uint32_t t = 0; t < count; t++) {
    struct cache_text *text = &library->text[t];
    if (t > 0 && kc_random_below(random, 4) != 0) {
      *text = library->text[kc_random_below(random, t)];
      text->length = (uint32_t)kc_random_below(random, text->length + 1);
    }
    if (kc_random_below(random, 4) == 0) text->salt = (uint32_t)kc_random_below(random, salts);
    const uint32_t length = 1 + (uint32_t)kc_random_below(random, pages_max);
    while (text->length < length) {
      text->symbol[text->length++] = (uint8_t)kc_random_below(random, symbols);
    }
  }
  cache_library_index(library);
}
