/* What a request's tokens are, as far as sharing is concerned: a list of page keys.
 *
 * Prefix caches never see tokens. The key of a page stands for (tenant salt, every token of the
 * sequence up to and including this page): two pages have equal keys exactly if their tokens, all
 * tokens before them, and the salt under which they may be shared are equal. Keys are dense, [0,
 * key_count), so a lookup is an array access; whoever makes the requests hands them out (for a
 * trace: traces and scenarios; for real tokens: an interner of pages).
 *
 *   runs      {40, 3} {7, 1} {1000, 5}
 *   page      0   1   2   3  4    5    6    7    8
 *   key       40  41  42  7  1000 1001 1002 1003 1004
 *
 * A run is a stretch of consecutive keys, because content that is seen for the first time gets the
 * next keys in order: whole prompts are often one run.
 *
 * Content that nobody else can have (the output of a request whose trace says nothing of it) has
 * keys too, used once: a server caches such pages as well, and they compete for room.
 */
#ifndef KC_ENGINE_KV_CONTENT_H
#define KC_ENGINE_KV_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/check.h"

#define KC_KEY_NONE UINT32_MAX
#define KC_KEYS_MAX (UINT32_C(1) << 30)

struct kc_key_run {
  uint32_t first; /* key of its first page */
  uint32_t count; /* pages, > 0; first + count <= KC_KEYS_MAX */
};

/* Borrowed by whoever holds it; the runs outlive the run of the simulation. */
struct kc_content {
  const struct kc_key_run *run;
  uint32_t run_count; /* 0: contents unknown */
};

/* Walks keys page by page. At the end it yields KC_KEY_NONE. */
struct kc_key_walk {
  const struct kc_key_run *run;
  const struct kc_key_run *end;
  uint32_t offset; /* pages of *run already yielded */
};

static inline struct kc_key_walk kc_key_walk_begin(const struct kc_content *content)
{
  KC_ASSERT(content->run_count == 0 || content->run != NULL);
  return (struct kc_key_walk){.run = content->run, .end = content->run + content->run_count};
}

static inline uint32_t kc_key_walk_next(struct kc_key_walk *walk)
{
  if (walk->run == walk->end) return KC_KEY_NONE;
  const uint32_t key = walk->run->first + walk->offset;
  if (++walk->offset == walk->run->count) {
    walk->run++;
    walk->offset = 0;
  }
  return key;
}

/* Moves on by `pages` without looking. O(runs passed). */
static inline void kc_key_walk_skip(struct kc_key_walk *walk, uint32_t pages)
{
  while (pages > 0 && walk->run != walk->end) {
    const uint32_t left = walk->run->count - walk->offset;
    if (pages < left) {
      walk->offset += pages;
      return;
    }
    pages -= left;
    walk->run++;
    walk->offset = 0;
  }
}

#endif
