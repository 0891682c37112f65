/* Nanoseconds per page of a prefix cache's work: lookup, attach, publish, release, growth that has
 * to evict. Prints one JSON object a discipline.
 *
 *   bench_cache [blocks|radix REQUESTS]   that many requests, nothing measured (to count
 *                                         instructions: two lengths, and their difference)
 *
 * 128 conversations of 256 pages begin with the same 64 pages; each comes back again and again in a
 * random order, so lookups land all over the tables (pool 24576 pages, keys 24640). The pool holds
 * three quarters of what all conversations need, so that about every fourth request finds its end
 * evicted. The clock is read once a phase and request, around about 256 pages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/number.h"
#include "engine/base/random.h"
#include "engine/kv/prefix_cache.h"

enum { LENGTH = 256, COMMON = 64, CONVERSATIONS = 128, REQUESTS = 20000, SLOTS = 4 };
enum { KEYS = COMMON + CONVERSATIONS * (LENGTH - COMMON), PAGES = KEYS / 4 * 3 };
enum { LOOKUP, ATTACH, GROW, PUBLISH, RELEASE, PHASES };

struct bench {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_prefix_cache cache;
  struct kc_arena arena;
  struct kc_random random;
  struct kc_key_run run[CONVERSATIONS][2];
  double *sample[PHASES]; /* ns per page, [REQUESTS] */
  uint32_t samples[PHASES];
  uint64_t failed;
};

static double now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool set_up(struct bench *bench, enum kc_cache_kind kind)
{
  memset(bench, 0, sizeof *bench);
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, LENGTH) +
                       kc_prefix_cache_need(kind, PAGES, KEYS) +
                       PHASES * kc_arena_need(REQUESTS, sizeof(double));
  if (kc_arena_init(&bench->arena, bytes, NULL) != KC_OK) return false;
  if (kc_pool_init(&bench->pool, PAGES, 1, &bench->arena) != KC_OK) return false;
  if (kc_table_init(&bench->table, SLOTS, LENGTH, &bench->arena) != KC_OK) return false;
  if (kc_prefix_cache_init(&bench->cache, kind, &bench->pool, &bench->table, KEYS,
                           &bench->arena) != KC_OK) {
    return false;
  }
  for (int p = 0; p < PHASES; p++) {
    bench->sample[p] = kc_arena_take(&bench->arena, REQUESTS, sizeof(double));
    if (bench->sample[p] == NULL) return false;
  }
  kc_random_init(&bench->random, 1, "bench-cache", 0);
  for (uint32_t c = 0; c < CONVERSATIONS; c++) {
    bench->run[c][0] = (struct kc_key_run){.first = 0, .count = COMMON};
    bench->run[c][1] = (struct kc_key_run){.first = COMMON + c * (LENGTH - COMMON),
                                           .count = LENGTH - COMMON};
  }
  return true;
}

static double note(struct bench *bench, int phase, double since_ns, uint32_t pages)
{
  const double now = now_ns();
  if (pages >= COMMON / 2) {
    bench->sample[phase][bench->samples[phase]++] = (now - since_ns) / pages;
  }
  return now_ns();
}

/* A request that comes, is served and goes; others are served beside it. */
static void serve(struct bench *bench, uint32_t request, bool measure)
{
  const uint32_t slot = request % SLOTS;
  const struct kc_content content = {
      .run = bench->run[kc_random_below(&bench->random, CONVERSATIONS)], .run_count = 2};
  const uint32_t held = bench->table.extent[slot];
  double t = measure ? now_ns() : 0;
  bench->failed += kc_prefix_cache_release(&bench->cache, slot) != KC_OK;
  if (measure) t = note(bench, RELEASE, t, held);
  const struct kc_cache_match match = kc_prefix_cache_match(&bench->cache, &content, LENGTH - 1);
  if (measure) t = note(bench, LOOKUP, t, match.pages);
  kc_prefix_cache_attach(&bench->cache, slot, &content, &match);
  if (measure) t = note(bench, ATTACH, t, match.pages);
  bench->failed += !kc_prefix_cache_grow(&bench->cache, slot, LENGTH - match.pages);
  if (measure) t = note(bench, GROW, t, LENGTH - match.pages);
  kc_prefix_cache_publish(&bench->cache, slot, &content, LENGTH);
  if (measure) (void)note(bench, PUBLISH, t, LENGTH - match.pages);
}

static void print_results(struct bench *bench, const char *discipline)
{
  static const char *const names[PHASES] = {"lookup", "attach", "grow", "publish", "release"};
  const struct kc_cache_counts *counts = &bench->cache.counts;
  printf("{\"bench\": \"cache\", \"discipline\": \"%s\", \"pages\": %d, \"hit_pages\": %.3f",
         discipline, PAGES, (double)counts->pages_found / (double)counts->pages_asked);
  for (int p = 0; p < PHASES; p++) {
    const uint32_t count = bench->samples[p];
    if (count == 0) continue;
    qsort(bench->sample[p], count, sizeof(double), by_value);
    printf(", \"%s_ns_per_page\": {\"median\": %.2f, \"p99\": %.2f}", names[p],
           bench->sample[p][count / 2], bench->sample[p][(uint64_t)count * 99 / 100]);
  }
  printf(", \"failed\": %" PRIu64 "}\n", bench->failed);
}

static int run(enum kc_cache_kind kind, uint64_t requests, bool measure)
{
  static struct bench bench;
  if (!set_up(&bench, kind)) return 8;
  for (uint32_t r = 0; r < requests; r++) serve(&bench, r, measure);
  if (measure) print_results(&bench, kind == KC_CACHE_BLOCKS ? "blocks" : "radix");
  kc_arena_deinit(&bench.arena);
  return bench.failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
  uint64_t requests;
  if (argc == 3) {
    if (!kc_parse_u64(argv[2], strlen(argv[2]), &requests)) return 2;
    return run(strcmp(argv[1], "radix") == 0 ? KC_CACHE_RADIX : KC_CACHE_BLOCKS, requests, false);
  }
  const int blocks = run(KC_CACHE_BLOCKS, REQUESTS, true);
  return blocks != 0 ? blocks : run(KC_CACHE_RADIX, REQUESTS, true);
}
