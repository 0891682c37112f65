/* The integer exp, ln, sqrt and ln Gamma against libm, over their whole ranges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "traces/synth/fixed_math.h"

enum { STEPS = 200000 };

static const double unit = 1.0 / 4294967296.0;

static void test_scale_exp(void **state)
{
  struct kc_random random;
  (void)state;
  kc_random_init(&random, 1, "test exp", 0);
  for (int step = 0; step < STEPS; step++) {
    const int64_t y = (int64_t)kc_random_below(&random, UINT64_C(80) << 32) - (INT64_C(40) << 32);
    const uint64_t value = kc_random_u64(&random) >> kc_random_below(&random, 64);
    const double wanted = (double)value * exp((double)y * unit);
    if (wanted > 1.8e19) continue;
    const double got = (double)kc_scale_exp(value, y);
    if (fabs(got - wanted) > 0.51 + wanted * 4e-15) {
      fail_msg("step %d: %llu e^%.10f is %.17g, not %.17g", step, (unsigned long long)value,
               (double)y * unit, wanted, got);
    }
  }
}

static void test_scale_exp_edges(void **state)
{
  (void)state;
  assert_true(kc_scale_exp(7, 0) == 7);
  assert_true(kc_scale_exp(0, INT64_MAX) == 0);
  assert_true(kc_scale_exp(1, INT64_MAX) == UINT64_MAX);
  assert_true(kc_scale_exp(UINT64_MAX, INT64_MIN) == 0);
  assert_true(kc_scale_exp(UINT64_MAX, 1) == UINT64_MAX);
  assert_true(kc_scale_exp(UINT64_MAX, 0) == UINT64_MAX);
  assert_true(kc_scale_exp(1000000000000000, KC_ONE_Q32) == 2718281828459045); /* e */
}

static void test_ln(void **state)
{
  struct kc_random random;
  (void)state;
  kc_random_init(&random, 2, "test ln", 0);
  for (int step = 0; step < STEPS; step++) {
    const uint64_t value = (kc_random_u64(&random) >> kc_random_below(&random, 64)) | 1;
    const unsigned bits = (unsigned)kc_random_below(&random, 65);
    const double wanted = (log((double)value) - bits * log(2.0)) / unit;
    if (fabs((double)kc_ln_q32(value, bits) - wanted) > 5.5) {
      fail_msg("step %d: ln(%llu / 2^%u)", step, (unsigned long long)value, bits);
    }
  }
}

static void test_sqrt(void **state)
{
  struct kc_random random;
  (void)state;
  kc_random_init(&random, 3, "test sqrt", 0);
  for (int step = 0; step < STEPS; step++) {
    const kc_u128 wide = (kc_u128)kc_random_u64(&random) << 64 | kc_random_u64(&random);
    const kc_u128 value = wide >> kc_random_below(&random, 128);
    const kc_u128 root = kc_sqrt_u128(value);
    assert_true(root * root <= value);
    assert_true(root == UINT64_MAX || (root + 1) * (root + 1) > value);
  }
  assert_true(kc_sqrt_u128(0) == 0 && kc_sqrt_u128(~(kc_u128)0) == UINT64_MAX);
}

static void test_ln_gamma(void **state)
{
  (void)state;
  for (double z = 0.001; z < 1000000; z = z < 40 ? z + 0.003 : z * 1.01) {
    const uint64_t z_q32 = (uint64_t)(z / unit);
    const double wanted = lgamma((double)z_q32 * unit);
    const double got = (double)kc_ln_gamma_q32(z_q32) * unit;
    if (fabs(got - wanted) > 3e-8 + 1e-8 * fabs(wanted)) {
      fail_msg("ln Gamma(%.6f) is %.12f, not %.12f", z, wanted, got);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_scale_exp), cmocka_unit_test(test_scale_exp_edges),
    cmocka_unit_test(test_ln),        cmocka_unit_test(test_sqrt),
    cmocka_unit_test(test_ln_gamma),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
