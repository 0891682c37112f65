/* Virtual time: the ratio is exact and rounds half up; overflow is our mistake and stops it. */
#include "engine/base/vtime.h"

#include "tests/unit/engine_base/expect_abort.h"

struct ratio_row {
  uint64_t a, b, c, expected;
};

/* Worked by hand. */
static const struct ratio_row ratios[] = {
    {0, 5, 3, 0},
    {1, 1, 2, 1},          /* 0.5 */
    {1, 1, 3, 0},          /* 0.33 */
    {2, 1, 3, 1},          /* 0.67 */
    {7, 1, 2, 4},          /* 3.5 */
    {5, 3, 10, 2},         /* 1.5 */
    {7, 7, 100, 0},        /* 0.49 */
    {10, 10, 7, 14},       /* 14.29 */
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
    {UINT64_MAX, 1, 2, UINT64_C(9223372036854775808)},  /* 2^63 - 0.5 */
    {UINT64_MAX, 3, 4, UINT64_C(13835058055282163711)}, /* (3 * 2^64 - 3) / 4 = 3 * 2^62 - 0.75 */
    {1, 1, UINT64_MAX, 0},
    {UINT64_C(9223372036854775808), 1, UINT64_MAX, 1},  /* just over a half */
    {UINT64_C(9223372036854775807), 1, UINT64_MAX, 0},  /* just under a half */
    {1000000000000, 4800000000000, 4800000, 1000000000000000000},
};

static void muldiv_is_exact(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
    const struct ratio_row row = ratios[i];
    assert_int_equal(kc_muldiv_round(row.a, row.b, row.c), row.expected);
    assert_int_equal(kc_muldiv_round(row.b, row.a, row.c), row.expected);
  }
}

/* q is the nearest integer with ties up exactly when -c/2 <= ab - qc < c/2. */
static void muldiv_agrees_with_its_definition(void **state)
{
  (void)state;
  for (int64_t a = 0; a < 40; a++) {
    for (int64_t b = 0; b < 40; b++) {
      for (int64_t c = 1; c < 40; c++) {
        const int64_t q = (int64_t)kc_muldiv_round((uint64_t)a, (uint64_t)b, (uint64_t)c);
        const int64_t twice_rest = 2 * (a * b - q * c);
        if (twice_rest < -c || twice_rest >= c) {
          fail_msg("round(%ld * %ld / %ld) gave %ld", (long)a, (long)b, (long)c, (long)q);
        }
      }
    }
  }
}

static void divide_too_large(void *context)
{
  (void)context;
  (void)kc_muldiv_round(UINT64_MAX, 2, 1);
}

static void divide_by_zero(void *context)
{
  (void)context;
  (void)kc_muldiv_round(1, 1, 0);
}

static void muldiv_refuses_what_does_not_fit(void **state)
{
  (void)state;
  expect_abort(divide_too_large, NULL, "quotient <= ");
  expect_abort(divide_by_zero, NULL, "c > 0");
}

static void units_are_what_they_say(void **state)
{
  (void)state;
  assert_int_equal(KC_PS_PER_US, 1000 * KC_PS_PER_NS);
  assert_int_equal(KC_PS_PER_MS, 1000 * KC_PS_PER_US);
  assert_int_equal(KC_PS_PER_S, 1000 * KC_PS_PER_MS);
  assert_int_equal(KC_PS_NEVER / KC_PS_PER_S / 86400, 106); /* days */
}

static void add_too_much(void *context)
{
  (void)context;
  (void)kc_ps_add(KC_PS_NEVER, 1);
}

static void add_negative(void *context)
{
  (void)context;
  (void)kc_ps_add(5, -1);
}

static void add_checks_its_range(void **state)
{
  (void)state;
  assert_int_equal(kc_ps_add(0, 0), 0);
  assert_int_equal(kc_ps_add(KC_PS_NEVER - 1, 1), KC_PS_NEVER);
  expect_abort(add_too_much, NULL, "!overflow");
  expect_abort(add_negative, NULL, "b >= 0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(muldiv_is_exact),
      cmocka_unit_test(muldiv_agrees_with_its_definition),
      cmocka_unit_test(muldiv_refuses_what_does_not_fit),
      cmocka_unit_test(units_are_what_they_say),
      cmocka_unit_test(add_checks_its_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
