/* Block tables, call by call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/kv/table.h"

enum { PAGES = 10, SLOTS = 3, ROW = 6 };

struct bed {
  struct kc_pool pool;
  struct kc_table table;
  struct kc_arena arena;
};

static int set_up(void **state)
{
  static struct bed bed;
  memset(&bed, 0, sizeof bed);
  const size_t bytes = kc_pool_need(PAGES) + kc_table_need(SLOTS, ROW);
  assert_int_equal(kc_arena_init(&bed.arena, bytes, NULL), KC_OK);
  assert_int_equal(kc_pool_init(&bed.pool, PAGES, 1, &bed.arena), KC_OK);
  assert_int_equal(kc_table_init(&bed.table, SLOTS, ROW, &bed.arena), KC_OK);
  *state = &bed;
  return 0;
}

static int tear_down(void **state)
{
  struct bed *bed = *state;
  kc_arena_deinit(&bed->arena);
  return 0;
}

static void test_grow_and_release(void **state)
{
  struct bed *bed = *state;
  assert_true(kc_table_grow(&bed->table, &bed->pool, 0, 4));
  assert_true(kc_table_grow(&bed->table, &bed->pool, 2, 1));
  assert_true(kc_table_grow(&bed->table, &bed->pool, 0, 2));
  assert_int_equal(bed->table.extent[0], 6);
  assert_int_equal(bed->table.in_use, 7);
  /* Pages 0..3 to slot 0, 4 to slot 2, then 5 and 6 to slot 0. */
  const uint32_t ids[] = {0, 1, 2, 3, 5, 6};
  for (uint32_t i = 0; i < 6; i++) {
    assert_int_equal(kc_table_row(&bed->table, 0)[i].id, ids[i]);
  }
  assert_int_equal(kc_page_owner_of(&bed->pool.record[4]), kc_table_owner(2));
  assert_int_equal(kc_table_check(&bed->table, &bed->pool, 0, NULL), KC_OK);
  assert_false(kc_table_grow(&bed->table, &bed->pool, 1, 4)); /* three are left */
  assert_int_equal(bed->table.extent[1], 0);
  assert_int_equal(bed->table.in_use, 7);
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 0), KC_OK);
  assert_int_equal(bed->table.in_use, 1);
  assert_true(kc_table_grow(&bed->table, &bed->pool, 1, 6));
  for (uint32_t i = 0; i < 6; i++) { /* the same pages in the same order */
    assert_int_equal(kc_table_row(&bed->table, 1)[i].id, ids[i]);
  }
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 1), KC_OK);
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 2), KC_OK);
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 2), KC_OK); /* an empty row */
  assert_int_equal(kc_pool_balance(&bed->pool), KC_OK);
}

static void test_faulty_entries_are_left_alone(void **state)
{
  struct bed *bed = *state;
  uint32_t at = 99;
  assert_true(kc_table_grow(&bed->table, &bed->pool, 0, 5));
  struct kc_page *row = kc_table_row(&bed->table, 0);
  row[1].tag += 1;       /* stale */
  row[3].id = PAGES + 7; /* nowhere */
  assert_int_equal(kc_table_check(&bed->table, &bed->pool, 0, &at), KC_ERR_TAG_STALE);
  assert_int_equal(at, 1);
  assert_int_equal(kc_table_audit(&bed->table, &bed->pool, 0, &at), KC_ERR_TAG_STALE);
  assert_int_equal(at, 1);
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 0), KC_ERR_TAG_RANGE);
  assert_int_equal(bed->pool.faults, 4);
  assert_int_equal(bed->pool.free_count, PAGES - 2); /* pages 1 and 3 were not given back */
  assert_int_equal(bed->table.extent[0], 0);
  assert_int_equal(bed->table.in_use, 0);
  assert_int_equal(kc_pool_balance(&bed->pool), KC_ERR_LEAK);
}

static void test_marked_rows(void **state)
{
  struct bed *bed = *state;
  uint32_t slot = 99;
  struct kc_page parked;
  kc_table_watch(&bed->table, &bed->pool);
  assert_true(kc_table_grow(&bed->table, &bed->pool, 0, 2));
  assert_true(kc_table_grow(&bed->table, &bed->pool, 1, 2));
  assert_int_equal(kc_table_release(&bed->table, &bed->pool, 0), KC_OK);
  assert_false(kc_table_next_touched(&bed->table, &slot)); /* an ordinary release marks nothing */
  const struct kc_page *row = kc_table_row(&bed->table, 1);
  assert_int_equal(kc_pool_quarantine(&bed->pool, row[0], kc_table_owner(1), 0, &parked), KC_OK);
  assert_int_equal(kc_pool_free(&bed->pool, &row[1], 1, kc_table_owner(1), 1, NULL), KC_OK);
  assert_true(kc_table_next_touched(&bed->table, &slot)); /* once, though two pages moved */
  assert_int_equal(slot, 1);
  assert_false(kc_table_next_touched(&bed->table, &slot));
  kc_table_touch(&bed->table, 2);
  assert_true(kc_table_next_touched(&bed->table, &slot));
  assert_int_equal(slot, 2);
}

static void test_arena_too_small(void **state)
{
  struct kc_arena arena;
  struct kc_table table;
  (void)state;
  assert_int_equal(kc_arena_init(&arena, 4096, NULL), KC_OK);
  assert_int_equal(kc_table_init(&table, 1000, 1000, &arena), KC_ERR_MEMORY);
  kc_arena_deinit(&arena);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_grow_and_release, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_faulty_entries_are_left_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_marked_rows, set_up, tear_down),
      cmocka_unit_test(test_arena_too_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
