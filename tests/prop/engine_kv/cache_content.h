/* Contents for the tests of prefix caches: short sequences of symbols, one a page, that share
 * beginnings, each with a salt; and the dense page keys that stand for them.
 *
 * The twins of the caches see symbols and salts alone and compare whole sequences; the caches see
 * keys alone. The keys are made here by comparing every beginning with every other. */
#ifndef KC_TESTS_PROP_CACHE_CONTENT_H
#define KC_TESTS_PROP_CACHE_CONTENT_H

#include "engine/base/random.h"
#include "engine/kv/content.h"

enum { CONTENT_PAGES_MAX = 24, CONTENTS_MAX = 64 };

struct cache_text {
  uint32_t salt;
  uint32_t length;
  uint8_t symbol[CONTENT_PAGES_MAX];
};

struct cache_library {
  uint32_t count;
  uint32_t key_count;
  struct cache_text text[CONTENTS_MAX];
  uint32_t key[CONTENTS_MAX][CONTENT_PAGES_MAX];
  struct kc_key_run run[CONTENTS_MAX][CONTENT_PAGES_MAX];
  struct kc_content content[CONTENTS_MAX];
};

/* The first `pages` pages of both are the same, under the same salt? */
bool cache_text_same(const struct cache_text *a, const struct cache_text *b, uint32_t pages);

/* `count` texts of at most `pages_max` pages: beginnings of earlier ones, and `symbols` kinds of
 * pages after that, under `salts` salts. */
void cache_library_draw(struct cache_library *library, struct kc_random *random, uint32_t count,
                        uint32_t pages_max, uint32_t symbols, uint32_t salts);

/* The same from texts that are there: fills keys, runs and contents. */
void cache_library_index(struct cache_library *library);

#endif
