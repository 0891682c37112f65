/* Nanoseconds per page of allocation and free, in bulk of 1, 64 and 1000, tags and checksums
 * included, and of a table's grant of one page. Prints one JSON document.
 *
 * Half of the pool is held. Each turn frees random holders, then grants them afresh in another
 * order, so the free stack is as shuffled as in a real run. A turn moves about 4096 pages, so that
 * reading the clock costs nothing that counts; 400 turns make the 1.6 million pages of a small run.
 * Given are the median turn and the best one (what the code takes when nothing else runs). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/random.h"
#include "engine/kv/table.h"

enum { PAGES = 16384, HELD = PAGES / 2, TURN = 4096, TURNS = 400, SLOTS = 256, ROW = 16 };

struct bench {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_random random;
  struct kc_page *pages; /* holder h has [h * bulk, (h + 1) * bulk) */
  uint32_t *order;       /* holders, shuffled */
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

/* "name": {"median": x, "best": y}, of TURNS measurements, which get sorted. */
static void print_times(const char *name, double *values, const char *end)
{
  qsort(values, TURNS, sizeof *values, by_value);
  printf("\"%s\": {\"median\": %.2f, \"best\": %.2f}%s", name, values[TURNS / 2], values[0], end);
}

static void shuffle(struct bench *bench, uint32_t count)
{
  for (uint32_t i = count; i > 1; i--) {
    const uint32_t j = (uint32_t)kc_random_below(&bench->random, i);
    const uint32_t kept = bench->order[i - 1];
    bench->order[i - 1] = bench->order[j];
    bench->order[j] = kept;
  }
}

/* *failed counts calls that went wrong. */
static void bench_bulk(struct bench *bench, uint32_t bulk, uint64_t *failed)
{
  double alloc_ns[TURNS], free_ns[TURNS];
  const uint32_t holders = HELD / bulk;
  const uint32_t turn = TURN / bulk;
  for (uint32_t h = 0; h < holders; h++) {
    bench->order[h] = h;
    *failed += !kc_pool_alloc(&bench->pool, bulk, h + 1, 0, bench->pages + (size_t)h * bulk);
  }
  for (int i = 0; i < TURNS; i++) {
    shuffle(bench, holders);
    const double t0 = now_ns();
    for (uint32_t k = 0; k < turn; k++) {
      const uint32_t h = bench->order[k];
      const struct kc_page *pages = bench->pages + (size_t)h * bulk;
      *failed += KC_OK != kc_pool_free(&bench->pool, pages, bulk, h + 1, 0, NULL);
    }
    const double t1 = now_ns();
    for (uint32_t k = 0; k < turn; k++) {
      const uint32_t h = bench->order[k];
      struct kc_page *pages = bench->pages + (size_t)h * bulk;
      *failed += bulk == 1 ? !kc_pool_alloc_one(&bench->pool, h + 1, 0, pages)
                           : !kc_pool_alloc(&bench->pool, bulk, h + 1, 0, pages);
    }
    alloc_ns[i] = (now_ns() - t1) / (turn * bulk);
    free_ns[i] = (t1 - t0) / (turn * bulk);
  }
  for (uint32_t h = 0; h < holders; h++) {
    const struct kc_page *pages = bench->pages + (size_t)h * bulk;
    *failed += KC_OK != kc_pool_free(&bench->pool, pages, bulk, h + 1, 0, NULL);
  }
  printf("  \"bulk_%" PRIu32 "\": {", bulk);
  print_times("alloc_ns_per_page", alloc_ns, ", ");
  print_times("free_ns_per_page", free_ns, "},\n");
}

/* A step loop's grants: one page at a time to each slot in turn; then all rows go back. */
static void bench_table(struct bench *bench, uint64_t *failed)
{
  double grow_ns[TURNS], release_ns[TURNS];
  for (int i = 0; i < TURNS; i++) {
    const double t0 = now_ns();
    for (uint32_t page = 0; page < ROW; page++) {
      for (uint32_t slot = 0; slot < SLOTS; slot++) {
        *failed += !kc_table_grow(&bench->table, &bench->pool, slot, 1);
      }
    }
    const double t1 = now_ns();
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      *failed += KC_OK != kc_table_release(&bench->table, &bench->pool, slot);
    }
    grow_ns[i] = (t1 - t0) / (SLOTS * ROW);
    release_ns[i] = (now_ns() - t1) / (SLOTS * ROW);
  }
  printf("  \"table\": {");
  print_times("grow_ns_per_page", grow_ns, ", ");
  print_times("release_ns_per_page", release_ns, "},\n");
}

int main(void)
{
  struct bench bench;
  struct kc_arena arena;
  struct kc_diag diag;
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW) +
                       kc_arena_need(HELD, sizeof(struct kc_page)) + kc_arena_need(HELD, 4);
  if (kc_arena_init(&arena, bytes, &diag) != KC_OK) return 8;
  if (kc_pool_init(&bench.pool, PAGES, 1, &arena) != KC_OK) return 8;
  if (kc_table_init(&bench.table, SLOTS, ROW, &arena) != KC_OK) return 8;
  bench.pages = kc_arena_take(&arena, HELD, sizeof *bench.pages);
  bench.order = kc_arena_take(&arena, HELD, sizeof *bench.order);
  if (bench.pages == NULL || bench.order == NULL) return 8;
  kc_random_init(&bench.random, 1, "bench-pool", 0);

  uint64_t failed = 0;
  printf("{\n  \"bench\": \"pool\",\n  \"pages\": %d,\n", PAGES);
  bench_bulk(&bench, 1, &failed);
  bench_bulk(&bench, 64, &failed);
  bench_bulk(&bench, 1000, &failed);
  bench_table(&bench, &failed);
  printf("  \"failed\": %" PRIu64 "\n}\n", failed);
  kc_arena_deinit(&arena);
  return failed == 0 ? 0 : 1;
}
