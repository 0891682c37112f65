/* Batched checking (rows marked by the pool, checked before the next step) must find exactly the
 * rows that checking every entry finds, and at the same step. Rows grow, are released, are touched
 * for no reason, and rogues free or park pages behind a table's back, after which others may take
 * them.
 *
 *   test_table_random [STEPS [SEED]] */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/number.h"
#include "engine/base/random.h"
#include "engine/kv/table.h"
#include "tests/prop/engine_kv/quick_scale.h"

enum { STEPS_DEFAULT = QUICK_SCALE(2000000) };
enum { PAGES = 60, SLOTS = 8, ROW = 10, SEEDS = 16 };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_random random;
  struct kc_page parked[PAGES];
  uint32_t parked_count;
  bool known_bad[SLOTS]; /* rows that batched checking has found */
};

static uint32_t below(struct bed *bed, uint32_t bound)
{
  return (uint32_t)kc_random_below(&bed->random, bound);
}

/* Somebody frees or parks an entry that the row keeps. */
static void rogue(struct bed *bed, uint32_t slot)
{
  const uint32_t extent = bed->table.extent[slot];
  if (extent == 0) return;
  const uint32_t index = below(bed, extent);
  const struct kc_page page = kc_table_row(&bed->table, slot)[index];
  const uint32_t owner = kc_table_owner(slot);
  struct kc_page *parked = &bed->parked[bed->parked_count];
  if (below(bed, 2) == 0) {
    (void)kc_pool_free(&bed->pool, &page, 1, owner, index, NULL);
  } else if (kc_pool_quarantine(&bed->pool, page, owner, index, parked) == KC_OK) {
    bed->parked_count++;
  }
}

static bool one_step(struct bed *bed)
{
  const uint32_t slot = below(bed, SLOTS), room = ROW - bed->table.extent[slot];
  switch (below(bed, 16)) {
    case 0: rogue(bed, slot); return true;
    case 1:
      if (bed->parked_count == 0) return true;
      return kc_pool_release_quarantined(&bed->pool, bed->parked[--bed->parked_count]) == KC_OK;
    case 2: kc_table_touch(&bed->table, slot); return true;
    case 3: case 4: case 5: {
      const bool bad = bed->known_bad[slot];
      bed->known_bad[slot] = false;
      return (kc_table_release(&bed->table, &bed->pool, slot) != KC_OK) == bad;
    }
    default: (void)kc_table_grow(&bed->table, &bed->pool, slot, below(bed, room + 1)); return true;
  }
}

/* What batched mode does before a step, against everything. */
static bool rows_agree(struct bed *bed)
{
  uint32_t slot;
  uint64_t in_use = 0;
  while (kc_table_next_touched(&bed->table, &slot)) {
    if (kc_table_check(&bed->table, &bed->pool, slot, NULL) != KC_OK) bed->known_bad[slot] = true;
  }
  for (slot = 0; slot < SLOTS; slot++) {
    const bool bad = kc_table_check(&bed->table, &bed->pool, slot, NULL) != KC_OK;
    if (bad != bed->known_bad[slot]) return false;
    in_use += bed->table.extent[slot];
  }
  return in_use == bed->table.in_use;
}

static bool run_seed(uint64_t seed, uint64_t steps)
{
  static struct bed bed;
  struct kc_arena arena;
  memset(&bed, 0, sizeof bed);
  kc_random_init(&bed.random, seed, "table-random", 0);
  if (kc_arena_init(&arena, kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW), NULL) != KC_OK ||
      kc_pool_init(&bed.pool, PAGES, seed, &arena) != KC_OK ||
      kc_table_init(&bed.table, SLOTS, ROW, &arena) != KC_OK) {
    return false;
  }
  kc_table_watch(&bed.table, &bed.pool);
  uint64_t step = 1;
  bool fine = true;
  for (; step <= steps && fine; step++) fine = one_step(&bed) && rows_agree(&bed);
  if (!fine) {
    fprintf(stderr, "seed=%" PRIu64 " step=%" PRIu64 ": batched and full checking disagree\n"
            "replay: test_table_random %" PRIu64 " %" PRIu64 "\n", seed, step - 1, step - 1, seed);
  }
  if (fine && kc_pool_scrub(&bed.pool) != KC_OK) fine = false;
  kc_arena_deinit(&arena);
  return fine;
}

int main(int argc, char **argv)
{
  uint64_t steps = STEPS_DEFAULT / SEEDS, seed = 0;
  if (argc > 1 && !kc_parse_u64(argv[1], strlen(argv[1]), &steps)) return 2;
  if (argc > 2 && !kc_parse_u64(argv[2], strlen(argv[2]), &seed)) return 2;
  if (seed != 0) return run_seed(seed, steps) ? 0 : 1;
  for (seed = 1; seed <= SEEDS; seed++) {
    if (!run_seed(seed, steps)) return 1;
  }
  printf("%" PRIu64 " steps in %d seeds: batched and full checking agree\n", steps * SEEDS, SEEDS);
  return 0;
}
