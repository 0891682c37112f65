/* The arena: sizes, alignment, zeroes, disjoint pieces, and every way to be refused. */
#include "engine/base/arena.h"

#include "tests/unit/engine_base/expect_abort.h"

static void need_rounds_up_to_a_cache_line(void **state)
{
  (void)state;
  assert_int_equal(kc_arena_need(0, 8), 0);
  assert_int_equal(kc_arena_need(8, 0), 0);
  assert_int_equal(kc_arena_need(1, 1), 64);
  assert_int_equal(kc_arena_need(8, 8), 64);
  assert_int_equal(kc_arena_need(65, 1), 128);
  assert_int_equal(kc_arena_need(3, 100), 320);
}

static void need_says_overflow(void **state)
{
  (void)state;
  assert_int_equal(kc_arena_need(SIZE_MAX, 2), SIZE_MAX);
  assert_int_equal(kc_arena_need(SIZE_MAX, 1), SIZE_MAX);
  assert_int_equal(kc_arena_need(SIZE_MAX / 2 + 1, 2), SIZE_MAX);
  assert_int_equal(kc_arena_need(1, SIZE_MAX - 62), SIZE_MAX); /* only the rounding overflows */
  assert_int_equal(kc_arena_need(1, SIZE_MAX - 63), SIZE_MAX - 63);
}

static void pieces_are_aligned_zeroed_and_disjoint(void **state)
{
  (void)state;
  enum { PIECES = 100 };
  struct kc_arena arena;
  struct kc_diag diag;
  unsigned char *piece[PIECES];
  size_t capacity = 0;
  for (size_t i = 0; i < PIECES; i++) capacity += kc_arena_need(i, 3);
  assert_int_equal(kc_arena_init(&arena, capacity, &diag), KC_OK);
  for (size_t i = 0; i < PIECES; i++) {
    piece[i] = kc_arena_take(&arena, i, 3);
    assert_non_null(piece[i]);
    assert_int_equal((uintptr_t)piece[i] % 64, 0);
    for (size_t k = 0; k < 3 * i; k++) assert_int_equal(piece[i][k], 0);
    memset(piece[i], (int)i + 1, 3 * i);
  }
  assert_int_equal(arena.used_bytes, capacity); /* need() and take() agree to the byte */
  for (size_t i = 0; i < PIECES; i++) {
    for (size_t k = 0; k < 3 * i; k++) assert_int_equal(piece[i][k], i + 1);
  }
  assert_null(kc_arena_take(&arena, 1, 1));
  kc_arena_deinit(&arena);
  assert_null(arena.base);
  kc_arena_deinit(&arena); /* a second time is harmless */
}

static void a_refused_take_changes_nothing(void **state)
{
  (void)state;
  struct kc_arena arena;
  assert_int_equal(kc_arena_init(&arena, 128, NULL), KC_OK);
  assert_int_equal(arena.capacity_bytes, 128);
  assert_null(kc_arena_take(&arena, 129, 1));
  assert_null(kc_arena_take(&arena, SIZE_MAX, SIZE_MAX));
  assert_int_equal(arena.used_bytes, 0);
  assert_non_null(kc_arena_take(&arena, 128, 1));
  assert_null(kc_arena_take(&arena, 1, 1));
  kc_arena_deinit(&arena);
}

/* Address space is not memory: a small machine grants 16 GiB, and its last byte can be used. */
static void a_large_reservation_is_cheap(void **state)
{
  (void)state;
  struct kc_arena arena;
  struct kc_diag diag;
  const size_t bytes = (size_t)16 << 30;
  assert_int_equal(kc_arena_init(&arena, bytes, &diag), KC_OK);
  unsigned char *all = kc_arena_take(&arena, bytes, 1);
  assert_non_null(all);
  all[bytes - 1] = 1;
  assert_int_equal(all[bytes / 2], 0);
  kc_arena_deinit(&arena);
}

static void too_large_is_a_limit_that_names_itself(void **state)
{
  (void)state;
  struct kc_arena arena;
  struct kc_diag diag;
  assert_int_equal(kc_arena_init(&arena, KC_ARENA_BYTES_MAX + 1, &diag), KC_ERR_LIMIT);
  assert_non_null(strstr(diag.text, "KC_ARENA_BYTES_MAX"));
  assert_non_null(strstr(diag.text, "68719476737 bytes"));
  assert_null(arena.base);
}

static void refused_address_space_is_a_memory_error(void **state)
{
  (void)state;
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  const struct rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
  struct kc_arena arena;
  struct kc_diag diag;
  assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
  const enum kc_err err = kc_arena_init(&arena, (size_t)1 << 30, &diag);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_int_equal(err, KC_ERR_MEMORY);
  assert_non_null(strstr(diag.text, "1073741824 bytes"));
  assert_null(arena.base);
}

static void take_from_nothing(void *context)
{
  struct kc_arena arena = {0};
  (void)context;
  (void)kc_arena_take(&arena, 1, 1);
}

static void taking_from_no_arena_is_our_mistake(void **state)
{
  (void)state;
  expect_abort(take_from_nothing, NULL, "arena->base != NULL");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(need_rounds_up_to_a_cache_line),
      cmocka_unit_test(need_says_overflow),
      cmocka_unit_test(pieces_are_aligned_zeroed_and_disjoint),
      cmocka_unit_test(a_refused_take_changes_nothing),
      cmocka_unit_test(a_large_reservation_is_cheap),
      cmocka_unit_test(too_large_is_a_limit_that_names_itself),
      cmocka_unit_test(refused_address_space_is_a_memory_error),
      cmocka_unit_test(taking_from_no_arena_is_our_mistake),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
