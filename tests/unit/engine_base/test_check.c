/* Assertions stop the process and say where; faults are armed by name only. */
#include <stdlib.h>

#include "engine/base/check.h"
#include "tests/unit/engine_base/expect_abort.h"

static void assert_value(void *context)
{
  const int *value = context;
  KC_ASSERT(*value == 7);
}

static void passing_assert_is_silent(void **state)
{
  (void)state;
  int value = 7;
  assert_value(&value);
}

static void failing_assert_aborts_and_names_the_condition(void **state)
{
  (void)state;
  int value = 8;
  expect_abort(assert_value, &value, "assertion failed: *value == 7");
  expect_abort(assert_value, &value, "test_check.c:");
  expect_abort(assert_value, &value, "assert_value");
}

static void assert_evaluates_its_condition_once(void **state)
{
  (void)state;
#ifdef KC_COVERAGE
  skip();
#else
  int calls = 0;
  KC_ASSERT(++calls > 0);
  assert_int_equal(calls, 1);
#endif
}

static void never_true(void *context)
{
  const int *value = context;
  if (KC_NEVER(*value == 3)) *(int *)context = 4;
}

static void never_passes_its_value_on(void **state)
{
  (void)state;
  int value = 3;
  assert_false(KC_NEVER(value == 4));
#ifdef KC_CHECK
  expect_abort(never_true, &value, "never: *value == 3");
#else
  never_true(&value);
  assert_int_equal(value, 4); /* defended: the guarded branch runs */
#endif
}

static void faults_are_armed_by_exact_name(void **state)
{
  (void)state;
#ifdef KC_FAULTS
  assert_int_equal(unsetenv("KVCAP_FAULT"), 0);
  assert_false(KC_FAULT("lost_free"));
  assert_int_equal(setenv("KVCAP_FAULT", "lost_free", 1), 0);
  assert_true(KC_FAULT("lost_free"));
  assert_false(KC_FAULT("lost"));
  assert_false(KC_FAULT("lost_free_twice"));
  assert_int_equal(unsetenv("KVCAP_FAULT"), 0);
#else
  assert_int_equal(setenv("KVCAP_FAULT", "lost_free", 1), 0);
  assert_false(KC_FAULT("lost_free")); /* a build without faults cannot be broken from outside */
#endif
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(passing_assert_is_silent),
      cmocka_unit_test(failing_assert_aborts_and_names_the_condition),
      cmocka_unit_test(assert_evaluates_its_condition_once),
      cmocka_unit_test(never_passes_its_value_on),
      cmocka_unit_test(faults_are_armed_by_exact_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
