/* Numbers in order of first appearance, against a plain list searched from its start. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "traces/readers/intern.h"

/* Ids that differ only above bit 31, or by one beyond 2^53, stay apart. */
static void large_ids_stay_apart(void **state)
{
  (void)state;
  struct kc_intern table = {0};
  static const uint64_t ids[] = {7, UINT64_C(0x100000007), UINT64_C(0x200000007),
                                 UINT64_C(9007199254740992), UINT64_C(9007199254740993),
                                 UINT64_MAX, UINT64_MAX - 1, 0};
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
      assert_int_equal(kc_intern_put(&table, ids[i]), i);
    }
  }
  assert_int_equal(kc_intern_get(&table, 8), KC_INTERN_FULL);
  kc_intern_deinit(&table);
}

/* Dense keys, sparse keys and keys on their way from one to the other. */
static void random_keys_against_a_list(void **state)
{
  (void)state;
  enum { SEEDS = 60, KEYS = 1500 };
  static uint64_t list[KEYS];
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct kc_intern table = {0};
    struct kc_random random;
    uint32_t count = 0, scope = 0;
    kc_random_init(&random, seed, "intern", 0);
    const unsigned bits = 6 + (unsigned)kc_random_below(&random, 40);
    for (int i = 0; i < KEYS; i++) {
      const uint64_t key = kc_random_u64(&random) >> (64 - bits) >> kc_random_below(&random, bits);
      uint32_t at = scope;
      while (at < count && list[at] != key) at++;
      assert_int_equal(kc_intern_get(&table, key), at < count ? at : KC_INTERN_FULL);
      const uint32_t number = kc_intern_put(&table, key);
      if (number != at) fail_msg("seed %" PRIu64 " step %d: %u, not %u", seed, i, number, at);
      if (at == count) list[count++] = key;
      if (kc_random_chance(&random, 1, 400)) {
        kc_intern_end_scope(&table);
        scope = count;
      }
    }
    assert_int_equal(table.count, count);
    kc_intern_deinit(&table);
  }
}

static void texts(void **state)
{
  (void)state;
  struct kc_intern_text table = {0};
  char name[16];
  size_t bytes;
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < 5000; i++) {
      const int length = snprintf(name, sizeof name, "s-%u", i * 7919);
      assert_int_equal(kc_intern_text_put(&table, name, (size_t)length), i);
    }
  }
  assert_int_equal(kc_intern_text_put(&table, "", 0), 5000);
  assert_int_equal(kc_intern_text_put(&table, "s", 1), 5001);
  assert_memory_equal(kc_intern_text_get(&table, 1, &bytes), "s-7919", 6);
  assert_int_equal(bytes, 6);
  kc_intern_text_end_scope(&table);
  assert_int_equal(kc_intern_text_put(&table, "s", 1), 5002);
  assert_int_equal(kc_intern_text_put(&table, "s", 1), 5002);
  kc_intern_text_deinit(&table);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_ids_stay_apart),
      cmocka_unit_test(random_keys_against_a_list),
      cmocka_unit_test(texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
