/* Counter-based draws: splitmix64's published sequence, moments, and independence of streams. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/formats/counter.h"

/* The finaliser with a Weyl step is splitmix64; its first outputs for seed 1234567 are published
 * with Vigna's code (rosettacode.org, Pseudo-random numbers/Splitmix64). */
static void mixer_is_splitmix64(void **state)
{
  (void)state;
  static const uint64_t want[] = {6457827717110365317u, 3203168211198807973u,
                                  9817491932198370423u, 4593380528125082431u,
                                  16408922859458223821u};
  for (uint64_t i = 0; i < 5; ++i) {
    assert_int_equal(kc_counter_mix(1234567u + (i + 1) * 0x9E3779B97F4A7C15u), want[i]);
  }
}

static void normal_has_unit_variance(void **state)
{
  (void)state;
  enum { DRAWS = 200000 };
  double sum = 0, squares = 0, fourth = 0, product = 0;
  for (uint64_t i = 0; i < DRAWS; ++i) {
    const double x = (double)kc_counter_normal(5, 3, i), y = (double)kc_counter_normal(5, 4, i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    product += x * y;
    assert_true(fabs(x) < 4.9);
  }
  assert_true(fabs(sum / DRAWS) < 0.01);             /* 4.5 standard errors */
  assert_true(fabs(squares / DRAWS - 1.0) < 0.015);
  assert_true(fabs(fourth / DRAWS - 2.85) < 0.08);   /* 3 - 1.2 / 8: eight uniforms */
  assert_true(fabs(product / DRAWS) < 0.01);         /* streams know nothing of each other */
}

static void uniform_stays_inside(void **state)
{
  (void)state;
  double sum = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const float u = kc_sample_uniform(11, 7, i);
    assert_true(u > 0.0f && u < 1.0f);
    sum += (double)u;
  }
  assert_true(fabs(sum / 100000 - 0.5) < 0.005);
  /* The ends of the range: 23 bits and a half are exact in FP32, never 0 and never 1. */
  assert_true(((float)0u + 0.5f) * 0x1p-23f > 0.0f);
  assert_true(((float)0x7FFFFFu + 0.5f) * 0x1p-23f < 1.0f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mixer_is_splitmix64),
      cmocka_unit_test(normal_has_unit_variance),
      cmocka_unit_test(uniform_stays_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
