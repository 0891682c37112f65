/* Our exp, log, sin and cos against the C library's long double functions, over ranges and at the
 * edges of range reduction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/ops/op_math.h"

static double draw(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(*seed >> 11) / 0x1p53;
}

/* Error in units of the last place of the wanted value. */
static double ulps(double got, long double want)
{
  int exponent;
  (void)frexpl(want, &exponent);
  return (double)(fabsl((long double)got - want) / ldexpl(1.0L, exponent - 53));
}

static void exp_is_within_three_units(void **state)
{
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 100000; ++i) {
    const double x = (draw(&seed) - 0.5) * (i % 2 == 0 ? 2.0 : 1400.0);
    if (!(ulps(kc_math_exp(x), expl((long double)x)) < 3.0)) fail_msg("exp(%a)", x);
  }
  for (int i = 0; i < 20000; ++i) { /* side by side: the same bits */
    double x[KC_MATH_BATCH], y[KC_MATH_BATCH];
    const unsigned count = 1 + (unsigned)(draw(&seed) * KC_MATH_BATCH);
    for (unsigned j = 0; j < count; ++j) x[j] = y[j] = (draw(&seed) - 0.9) * (i % 3 + 1) * 300.0;
    if (i % 7 == 0) x[0] = y[0] = -(double)INFINITY;
    kc_math_exp_batch(y, count);
    for (unsigned j = 0; j < count; ++j) assert_true(y[j] == kc_math_exp(x[j]));
  }
  assert_true(kc_math_exp(0.0) == 1.0);
  assert_true(kc_math_exp(-INFINITY) == 0.0 && kc_math_exp(-746.0) == 0.0);
  assert_true(isinf(kc_math_exp(710.0)) && isnan(kc_math_exp(NAN)));
  assert_true(kc_math_exp(-744.0) > 0.0); /* subnormal */
}

static void log_is_within_three_units(void **state)
{
  (void)state;
  uint64_t seed = 2;
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? ldexp(1 + draw(&seed), (int)(draw(&seed) * 2000) - 1000)
                                : 1 + (draw(&seed) - 0.5) * 0.1;
    const long double want = logl((long double)x);
    if (!(ulps(kc_math_log(x), want) < 3.0)) fail_msg("log(%a)", x);
  }
  assert_true(kc_math_log(1.0) == 0.0);
  assert_true(isinf(kc_math_log(0.0)) && isnan(kc_math_log(-1.0)) && isnan(kc_math_log(NAN)));
  assert_true(isinf(kc_math_log(INFINITY)));
}

static void sin_cos_up_to_large_angles(void **state)
{
  (void)state;
  uint64_t seed = 3;
  static const double spans[] = {1.0, 10.0, 1e3, 1e6, 1.39e6};
  for (int i = 0; i < 100000; ++i) {
    const double x = (draw(&seed) - 0.25) * spans[i % 5];
    double s, c;
    kc_math_sin_cos(x, &s, &c);
    if (!(fabsl((long double)s - sinl((long double)x)) < 3e-16L)) fail_msg("sin(%a): %a", x, s);
    if (!(fabsl((long double)c - cosl((long double)x)) < 3e-16L)) fail_msg("cos(%a): %a", x, c);
  }
  double s, c;
  kc_math_sin_cos(0.0, &s, &c);
  assert_true(s == 0.0 && c == 1.0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp_is_within_three_units),
      cmocka_unit_test(log_is_within_three_units),
      cmocka_unit_test(sin_cos_up_to_large_angles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
