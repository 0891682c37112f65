/* The split plan: by hand, and its promises over random batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops/op_plan.h"

enum { CAPACITY = 4096, ROWS_MAX = 64 };

struct bed {
  struct kc_split split[CAPACITY];
  uint32_t row_first[ROWS_MAX + 1];
  struct kc_plan_build build;
};

static void make(struct bed *bed, const uint32_t *context, uint32_t rows, uint32_t granule,
                 uint32_t blocks)
{
  bed->build = (struct kc_plan_build){.split = bed->split,
                                      .split_capacity = kc_plan_capacity(rows, blocks),
                                      .row_first = bed->row_first};
  assert_true(kc_plan_make(&bed->build, context, rows, granule, blocks));
}

/* Contexts 100, 16, 0, 33 in granules of 16, six blocks: pieces of 32 make 4 + 1 + 0 + 2 = 7,
 * pieces of 48 make 3 + 1 + 0 + 1 = 5, so 48 it is. */
static void a_batch_by_hand(void **state)
{
  (void)state;
  static struct bed bed;
  const uint32_t context[4] = {100, 16, 0, 33};
  make(&bed, context, 4, 16, 6);
  assert_int_equal(bed.build.piece_tokens, 48);
  static const struct kc_split want[5] = {{0, 0, 48, 0},
                                          {0, 48, 48, 1},
                                          {0, 96, 4, 2},
                                          {1, 0, 16, KC_PARTIAL_NONE},
                                          {3, 0, 33, KC_PARTIAL_NONE}};
  assert_int_equal(bed.build.split_count, 5);
  assert_memory_equal(bed.split, want, sizeof want);
  static const uint32_t first[5] = {0, 3, 3, 3, 3};
  assert_memory_equal(bed.row_first, first, sizeof first);
  assert_int_equal(bed.build.partial_count, 3);
  kc_plan_pad(&bed.build, 7);
  assert_int_equal(bed.build.split_count, 7);
  assert_int_equal(bed.split[6].row, KC_NO_SLOT);
  assert_int_equal(bed.split[6].count, 0);
}

/* Forty contexts of 8,192 on 33 blocks. One piece a row ends after 2 rounds of 8,192; three a row
 * (2,752 tokens) after 4 of those, 11,008; nothing within 132 pieces ends before. */
static void a_balanced_plan_ends_sooner(void **state)
{
  (void)state;
  static struct bed bed;
  uint32_t context[40];
  for (int i = 0; i < 40; i++) context[i] = 8192;
  bed.build = (struct kc_plan_build){.split = bed.split,
                                     .split_capacity = kc_plan_capacity(40, 4 * 33),
                                     .row_first = bed.row_first};
  assert_true(kc_plan_balance(&bed.build, context, 40, 64, 33));
  assert_int_equal(bed.build.piece_tokens, 2752);
  assert_int_equal(bed.build.split_count, 120);
  /* 64 of them: two rounds of whole contexts are as good as four of halves, with fewer pieces. */
  uint32_t even[64];
  for (int i = 0; i < 64; i++) even[i] = 8192;
  bed.build.split_capacity = kc_plan_capacity(64, 4 * 33);
  assert_true(kc_plan_balance(&bed.build, even, 64, 64, 33));
  assert_int_equal(bed.build.piece_tokens, 8192);
  assert_int_equal(bed.build.partial_count, 0);
}

static void promises_hold_for_random_batches(void **state)
{
  (void)state;
  static struct bed bed;
  uint64_t seed = 5;
  for (int round = 0; round < 2000; ++round) {
    uint32_t context[ROWS_MAX];
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint32_t rows = 1 + (uint32_t)(seed >> 40) % ROWS_MAX;
    const uint32_t granule = 1u << ((seed >> 33) % 7), blocks = 1 + (uint32_t)(seed >> 50) % 300;
    for (uint32_t r = 0; r < rows; ++r) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      context[r] = (uint32_t)(seed >> 33) % (round % 3 == 0 ? 50u : 20000u);
    }
    make(&bed, context, rows, granule, blocks);
    assert_int_equal(bed.build.piece_tokens % granule, 0);
    assert_true(bed.build.split_count <= (blocks > rows ? blocks : rows));
    uint32_t at = 0, partial = 0;
    for (uint32_t r = 0; r < rows; ++r) { /* splits cover each row once, in order */
      const uint32_t first = at;
      uint32_t token = 0;
      assert_int_equal(bed.row_first[r], partial);
      while (at < bed.build.split_count && bed.split[at].row == r) {
        assert_int_equal(bed.split[at].start, token);
        assert_in_range(bed.split[at].count, 1, bed.build.piece_tokens);
        token += bed.split[at++].count;
      }
      assert_int_equal(token, context[r]);
      for (uint32_t i = first; i < at; ++i) {
        assert_int_equal(bed.split[i].partial, at - first < 2 ? KC_PARTIAL_NONE : partial++);
      }
    }
    assert_int_equal(at, bed.build.split_count);
    assert_int_equal(partial, bed.build.partial_count);
  }
}

static void short_capacity_is_told(void **state)
{
  (void)state;
  static struct bed bed;
  const uint32_t context[2] = {100, 100};
  bed.build = (struct kc_plan_build){
      .split = bed.split, .split_capacity = 3, .row_first = bed.row_first};
  assert_false(kc_plan_make(&bed.build, context, 2, 16, 8));
  assert_false(kc_plan_make(&bed.build, context, 2, 0, 8));
  bed.build.split_capacity = 100;
  assert_true(kc_plan_make(&bed.build, context, 0, 16, 8));
  assert_int_equal(bed.build.split_count, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_by_hand),
      cmocka_unit_test(a_balanced_plan_ends_sooner),
      cmocka_unit_test(promises_hold_for_random_batches),
      cmocka_unit_test(short_capacity_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
