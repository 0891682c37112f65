/* The page pool, call by call: every rule of its header with expected values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/kv/pool.h"

enum { PAGES = 8, OWNER = 3, OTHER = 5 };

struct bed {
  struct kc_pool pool;
  struct kc_arena arena;
  struct kc_fault_report last;
  unsigned reports;
};

static void on_fault(void *context, const struct kc_fault_report *report)
{
  struct bed *bed = context;
  bed->last = *report;
  bed->reports++;
}

static int set_up(void **state)
{
  static struct bed bed;
  memset(&bed, 0, sizeof bed);
  assert_int_equal(kc_arena_init(&bed.arena, kc_pool_need(PAGES), NULL), KC_OK);
  assert_int_equal(kc_pool_init(&bed.pool, PAGES, 42, &bed.arena), KC_OK);
  bed.pool.hook = on_fault;
  bed.pool.hook_context = &bed;
  *state = &bed;
  return 0;
}

static int tear_down(void **state)
{
  struct bed *bed = *state;
  kc_arena_deinit(&bed->arena);
  return 0;
}

static void test_tags(void **state)
{
  (void)state;
  /* 1 + (g - 1) mod (2^32 - 1): the last tag is 2^32 - 1, and 0 is skipped. */
  assert_int_equal(kc_tag_of(1), 1);
  assert_int_equal(kc_tag_of(2), 2);
  assert_int_equal(kc_tag_of(UINT64_C(0xffffffff)), UINT32_C(0xffffffff));
  assert_int_equal(kc_tag_of(UINT64_C(0x100000000)), 1);
  assert_int_equal(kc_tag_of(UINT64_C(0x100000001)), 2);
  assert_int_equal(kc_tag_of(UINT64_C(0x1fffffffe)), UINT32_C(0xffffffff)); /* 2 * (2^32 - 1) */
  assert_int_equal(kc_tag_of(UINT64_C(0x1ffffffff)), 1);
  assert_int_equal(kc_tag_next(1), 2);
  assert_int_equal(kc_tag_next(UINT32_C(0xffffffff)), 1);
}

static void test_init(void **state)
{
  struct bed *bed = *state;
  struct kc_arena small;
  struct kc_pool pool;
  assert_int_equal(bed->pool.free_count, PAGES);
  for (uint32_t id = 0; id < PAGES; id++) {
    assert_int_equal(bed->pool.record[id].generation % 2, 0);
    assert_in_range(bed->pool.record[id].generation, 2, UINT64_C(1) << 31);
  }
  assert_int_equal(kc_pool_scrub(&bed->pool), KC_OK);
  assert_int_equal(kc_pool_balance(&bed->pool), KC_OK);
  assert_int_equal(kc_pool_init(&pool, 0, 1, &bed->arena), KC_ERR_LIMIT);
  assert_int_equal(kc_pool_init(&pool, KC_POOL_PAGES_MAX + 1, 1, &bed->arena), KC_ERR_LIMIT);
  assert_int_equal(kc_arena_init(&small, 64, NULL), KC_OK);
  assert_int_equal(kc_pool_init(&pool, 100000, 1, &small), KC_ERR_MEMORY);
  kc_arena_deinit(&small);
}

static void test_same_seed_same_tags(void **state)
{
  struct bed *bed = *state;
  struct kc_pool twin;
  struct kc_arena arena;
  assert_int_equal(kc_arena_init(&arena, 2 * kc_pool_need(PAGES), NULL), KC_OK);
  assert_int_equal(kc_pool_init(&twin, PAGES, 42, &arena), KC_OK);
  assert_memory_equal(twin.record, bed->pool.record, PAGES * sizeof *twin.record);
  assert_int_equal(kc_pool_init(&twin, PAGES, 43, &arena), KC_OK);
  assert_memory_not_equal(twin.record, bed->pool.record, PAGES * sizeof *twin.record);
  kc_arena_deinit(&arena);
}

static void test_order(void **state)
{
  struct bed *bed = *state;
  struct kc_page first[3], second[2], again[3];
  uint32_t freed;
  assert_true(kc_pool_alloc(&bed->pool, 3, OWNER, 0, first));
  assert_true(kc_pool_alloc(&bed->pool, 2, OTHER, 0, second));
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(first[i].id, i);
  assert_int_equal(second[0].id, 3);
  assert_int_equal(second[1].id, 4);
  assert_int_equal(kc_pool_free(&bed->pool, first, 3, OWNER, 0, &freed), KC_OK);
  assert_int_equal(freed, 3);
  assert_true(kc_pool_alloc(&bed->pool, 3, OTHER, 0, again));
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(again[i].id, first[i].id);
    assert_int_equal(again[i].tag, first[i].tag + 2); /* one free, one allocation */
  }
  assert_int_equal(bed->pool.allocations, 8);
  assert_int_equal(bed->pool.frees, 3);
  assert_int_equal(bed->reports, 0);
}

static void test_all_or_nothing(void **state)
{
  struct bed *bed = *state;
  struct kc_page pages[PAGES + 1];
  assert_false(kc_pool_alloc(&bed->pool, PAGES + 1, OWNER, 0, pages));
  assert_int_equal(bed->pool.free_count, PAGES);
  assert_true(kc_pool_alloc(&bed->pool, PAGES, OWNER, 0, pages));
  assert_false(kc_pool_alloc(&bed->pool, 1, OWNER, 0, pages));
  assert_false(kc_pool_alloc_one(&bed->pool, OWNER, 0, pages));
  assert_true(kc_pool_alloc(&bed->pool, 0, OWNER, 0, pages));
  assert_int_equal(bed->reports, 0); /* being short is no fault */
}

static void assert_told(struct bed *bed, enum kc_err got, enum kc_err code, uint32_t page)
{
  assert_string_equal(kc_err_name(got), kc_err_name(code));
  assert_int_equal(bed->reports, 1);
  assert_int_equal(bed->last.code, code);
  assert_int_equal(bed->last.page, page);
  bed->reports = 0;
}

static void test_faults_of_free(void **state)
{
  struct bed *bed = *state;
  struct kc_page pages[4], bad[4];
  uint32_t freed;
  assert_true(kc_pool_alloc(&bed->pool, 4, OWNER, 0, pages));

  memcpy(bad, pages, sizeof bad);
  bad[1].id = PAGES;
  assert_told(bed, kc_pool_free(&bed->pool, bad, 4, OWNER, 0, &freed), KC_ERR_TAG_RANGE, PAGES);
  assert_int_equal(freed, 2); /* entries 3 and 2, then the fault */
  assert_int_equal(bed->pool.free_count, PAGES - 2);

  assert_told(bed, kc_pool_free(&bed->pool, &pages[3], 1, OWNER, 3, NULL), KC_ERR_DOUBLE_FREE, 3);
  assert_told(bed, kc_pool_free(&bed->pool, &pages[0], 1, OTHER, 0, NULL), KC_ERR_TAG_OWNER, 0);
  assert_int_equal(bed->last.owner, OWNER);
  bad[0] = pages[0];
  bad[0].tag += 2;
  assert_told(bed, kc_pool_free(&bed->pool, &bad[0], 1, OWNER, 0, NULL), KC_ERR_TAG_STALE, 0);
  assert_int_equal(bed->last.expected_tag, pages[0].tag);
  assert_int_equal(bed->last.found_tag, pages[0].tag + 2);
  assert_int_equal(bed->pool.faults, 4);
}

static void test_check(void **state)
{
  struct bed *bed = *state;
  struct kc_page page, other;
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  assert_int_equal(kc_pool_check(&bed->pool, page, OWNER, 0), KC_OK);
  assert_int_equal(kc_pool_audit(&bed->pool, page, OWNER, 0), KC_OK);
  assert_told(bed, kc_pool_check(&bed->pool, page, OTHER, 0), KC_ERR_TAG_OWNER, page.id);
  other = page;
  other.id = UINT32_MAX;
  assert_told(bed, kc_pool_check(&bed->pool, other, OWNER, 0), KC_ERR_TAG_RANGE, UINT32_MAX);
  assert_int_equal(kc_pool_free(&bed->pool, &page, 1, OWNER, 0, NULL), KC_OK);
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_TAG_STALE, page.id);
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &other));
  assert_int_equal(other.id, page.id);
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_TAG_STALE, page.id);
}

static void test_quarantine(void **state)
{
  struct bed *bed = *state;
  struct kc_page page, parked, all[PAGES];
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  assert_int_equal(kc_pool_quarantine(&bed->pool, page, OWNER, 0, &parked), KC_OK);
  assert_int_equal(parked.id, page.id);
  assert_int_equal(parked.tag, page.tag + 1);
  assert_int_equal(bed->pool.quarantine_count, 1);
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_TAG_STALE, page.id);
  assert_told(bed, kc_pool_free(&bed->pool, &page, 1, OWNER, 0, NULL), KC_ERR_TAG_STALE, page.id);
  assert_false(kc_pool_alloc(&bed->pool, PAGES, OWNER, 0, all)); /* one is parked */
  assert_int_equal(kc_pool_balance(&bed->pool), KC_OK);
  assert_int_equal(kc_pool_scrub(&bed->pool), KC_OK);
  assert_int_equal(kc_pool_release_quarantined(&bed->pool, parked), KC_OK);
  assert_told(bed, kc_pool_release_quarantined(&bed->pool, parked), KC_ERR_DOUBLE_FREE, page.id);
  assert_true(kc_pool_alloc(&bed->pool, PAGES, OWNER, 0, all));
  assert_int_equal(all[0].id, page.id);
  assert_int_equal(all[0].tag, page.tag + 4); /* quarantine 1, release 2, allocation 1 */
  assert_told(bed, kc_pool_release_quarantined(&bed->pool, all[0]), KC_ERR_TAG_OWNER, page.id);
}

static void test_damage(void **state)
{
  struct bed *bed = *state;
  struct kc_page page, next;
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  bed->pool.record[page.id].hold ^= 1; /* another owner's number, by corruption */
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_RECORD, page.id);
  assert_told(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, page.id);
  bed->pool.record[page.id].hold ^= 1;
  assert_int_equal(kc_pool_scrub(&bed->pool), KC_OK);

  /* The two top bits that a plain keyed sum cannot see. */
  bed->pool.record[page.id].hold ^= UINT64_C(1) << 63;
  bed->pool.record[page.id].generation ^= UINT64_C(1) << 63;
  assert_told(bed, kc_pool_scrub(&bed->pool), KC_ERR_RECORD, page.id);
  bed->pool.record[page.id].hold ^= UINT64_C(1) << 63;
  bed->pool.record[page.id].generation ^= UINT64_C(1) << 63;

  /* A refused allocation leaves the pool as it was, and is told from being short. */
  bed->pool.record[2].hold ^= UINT64_C(1) << 62;
  struct kc_page pages[3];
  assert_false(kc_pool_alloc(&bed->pool, 3, OWNER, 0, pages));
  assert_told(bed, bed->last.code, KC_ERR_RECORD, 2);
  assert_int_equal(bed->pool.free_count, PAGES - 1);
  assert_true(kc_pool_alloc_one(&bed->pool, OWNER, 0, &next));
  assert_int_equal(next.id, 1);
}

static void test_checksum_alone_needs_paranoia(void **state)
{
  struct bed *bed = *state;
  struct kc_page page;
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  bed->pool.record[page.id].checksum ^= 16;
  assert_int_equal(kc_pool_check(&bed->pool, page, OWNER, 0), KC_OK);
  assert_told(bed, kc_pool_audit(&bed->pool, page, OWNER, 0), KC_ERR_RECORD, page.id);
  bed->pool.paranoid = true;
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_RECORD, page.id);
  assert_told(bed, kc_pool_free(&bed->pool, &page, 1, OWNER, 0, NULL), KC_ERR_RECORD, page.id);
}

static void test_rollback(void **state)
{
  struct bed *bed = *state;
  struct kc_page page;
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  const struct kc_page_record old = bed->pool.record[page.id];
  assert_int_equal(kc_pool_free(&bed->pool, &page, 1, OWNER, 0, NULL), KC_OK);
  assert_true(kc_pool_alloc(&bed->pool, 1, OWNER, 0, &page));
  bed->pool.record[page.id] = old;
  assert_told(bed, kc_pool_check(&bed->pool, page, OWNER, 0), KC_ERR_ROLLBACK, page.id);
  assert_told(bed, kc_pool_audit(&bed->pool, page, OWNER, 0), KC_ERR_ROLLBACK, page.id);
  assert_told(bed, kc_pool_scrub(&bed->pool), KC_ERR_ROLLBACK, KC_PAGE_NONE);
}

static void test_leak(void **state)
{
  struct bed *bed = *state;
  struct kc_page pages[4];
  assert_true(kc_pool_alloc(&bed->pool, 4, OWNER, 0, pages));
  assert_int_equal(kc_pool_free(&bed->pool, &pages[3], 1, OWNER, 3, NULL), KC_OK);
  assert_int_equal(kc_pool_free(&bed->pool, pages, 2, OWNER, 0, NULL), KC_OK);
  assert_told(bed, kc_pool_balance(&bed->pool), KC_ERR_LEAK, 2);
  assert_int_equal(bed->last.owner, OWNER);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tags),
      cmocka_unit_test_setup_teardown(test_init, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_same_seed_same_tags, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_all_or_nothing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_faults_of_free, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_check, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_quarantine, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_checksum_alone_needs_paranoia, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_rollback, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_leak, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
