/* Which stale pairs a tag of w bits lets through, derived and then shown.
 *
 * Tags of two generations g and h are equal iff (g - 1) mod M = (h - 1) mod M, M = 2^w - 1. A pair
 * was given out at a live, hence odd, generation, and is accepted only while the page is live, so
 * odd, again: h - g is even. M is odd, so h - g must be a multiple of 2M: the page has since lived
 * a multiple of M whole lives, and has the same owner. The tag of a free page may equal that of a
 * stale pair; its state refuses it. Shown by really living 3M lives when tags are narrow, and by
 * setting the record's generation when they are wide.
 */
#include <inttypes.h>
#include <stdio.h>

#include "engine/kv/pool.h"

#define M KC_TAG_COUNT

static int failures;

static void expect(enum kc_err got, enum kc_err wanted, uint64_t distance)
{
  if (got == wanted) return;
  if (failures++ < 10) {
    fprintf(stderr, "generation distance %" PRIu64 ": %s, expected %s\n", distance,
            kc_err_name(got), kc_err_name(wanted));
  }
}

/* Distances at and around the multiples of M, and of 2^w, which is where a wrong modulus or a plain
 * cut to w bits would differ. */
static void jumps(struct kc_pool *pool, struct kc_page old, uint64_t first)
{
  for (uint64_t multiple = 0; multiple <= 6; multiple++) {
    for (uint64_t around = 0; around <= 8; around++) {
      const uint64_t distance = multiple * M + around;
      const uint64_t back = 4;
      if (distance < back) continue;
      const uint64_t generation = first + distance - back;
      const bool live = (generation & 1) != 0;
      pool->generation_base += generation - pool->record[old.id].generation;
      kc_pool_put(&pool->record[old.id], pool->key, old.id, generation,
                  live ? kc_page_hold(KC_PAGE_LIVE, 0, 1) : kc_page_hold(KC_PAGE_FREE, 0, 0));
      const bool alias = live && (distance - back) % (2 * M) == 0;
      expect(kc_pool_check(pool, old, 1, 0), alias ? KC_OK : KC_ERR_TAG_STALE, distance - back);
    }
  }
}

/* Lives one by one; at each, the very first pair is tried while the page is free and while live. */
static void lives(struct kc_pool *pool, struct kc_page old, uint64_t count)
{
  struct kc_page page = old;
  uint64_t aliases = 0;
  for (uint64_t life = 1; life <= count; life++) {
    expect(kc_pool_free(pool, &page, 1, 1, 0, NULL), KC_OK, 2 * life - 1);
    expect(kc_pool_check(pool, old, 1, 0), KC_ERR_TAG_STALE, 2 * life - 1);
    if (!kc_pool_alloc(pool, 1, 1, 0, &page)) failures++;
    const bool alias = life % M == 0; /* distance 2 * life is a multiple of 2M */
    aliases += alias;
    expect(kc_pool_check(pool, old, 1, 0), alias ? KC_OK : KC_ERR_TAG_STALE, 2 * life);
    expect(kc_pool_check(pool, old, 2, 0), alias ? KC_ERR_TAG_OWNER : KC_ERR_TAG_STALE, 2 * life);
  }
  if (aliases != count / M) failures++;
  printf("%" PRIu64 " lives, %" PRIu64 " aliases\n", count, aliases);
}

int main(void)
{
  struct kc_pool pool;
  struct kc_arena arena;
  struct kc_page old;
  if (kc_arena_init(&arena, kc_pool_need(1), NULL) != KC_OK) return 8;
  if (kc_pool_init(&pool, 1, 7, &arena) != KC_OK) return 8;
  if (!kc_pool_alloc(&pool, 1, 1, 0, &old)) return 1;
  lives(&pool, old, KC_TAG_BITS <= 8 ? 3 * M : 1000);
  jumps(&pool, old, pool.record[0].generation - 2 * (KC_TAG_BITS <= 8 ? 3 * M : 1000));
  kc_arena_deinit(&arena);
  printf("%d-bit tags: %d failures\n", KC_TAG_BITS, failures);
  return failures == 0 ? 0 : 1;
}
