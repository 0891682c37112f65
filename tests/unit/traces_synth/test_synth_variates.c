/* Gaps against their closed forms: distribution functions by Kolmogorov and Smirnov, moments, and
 * the equilibrium gap's mean (1 + CV^2) / 2. Seeds are fixed, so a test passes always or never. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "traces/synth/synth_variates.h"

enum { DRAWS = 100000 };

static const double unit = 1.0 / 4294967296.0;

static int by_double(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Largest distance between the draws and the distribution; 1.63 / sqrt(n) is the 1 % point. */
static void check_distribution(const char *name, double *x, double (*cdf)(double x, double shape),
                               double shape)
{
  double worst = 0;
  qsort(x, DRAWS, sizeof *x, by_double);
  for (int i = 0; i < DRAWS; i++) {
    const double f = cdf(x[i], shape);
    worst = fmax(worst, fmax(fabs(f - (double)i / DRAWS), fabs((i + 1.0) / DRAWS - f)));
  }
  if (worst > 1.63 / sqrt(DRAWS)) fail_msg("%s, shape %g: distance %g", name, shape, worst);
}

static double cdf_poisson(double x, double shape)
{
  (void)shape;
  return 1 - exp(-x);
}

static double cdf_weibull(double x, double shape)
{
  return 1 - exp(-pow(x * tgamma(1 + 1 / shape), shape));
}

/* Mean 1, so the scale is 1 / shape. Closed forms for shapes 1/2, 1, 2. */
static double cdf_gamma(double x, double shape)
{
  const double y = x * shape;
  if (shape < 0.75) return erf(sqrt(y));
  return shape < 1.5 ? 1 - exp(-y) : 1 - exp(-y) * (1 + y);
}

static double cdf_normal(double x, double shape)
{
  (void)shape;
  return 0.5 * erfc(-x / sqrt(2));
}

static double *draws_of(enum kc_gap_family family, double shape)
{
  static double x[DRAWS];
  struct kc_random random;
  struct kc_gap gap;
  kc_random_init(&random, 5, "test gaps", (uint64_t)(shape * 1000));
  kc_gap_init(&gap, family, (uint64_t)(shape * 1e9 + 0.5));
  for (int i = 0; i < DRAWS; i++) x[i] = (double)kc_gap_draw_q32(&gap, &random) * unit;
  return x;
}

static void test_distributions(void **state)
{
  const double weibull[] = {0.31, 0.5, 1, 1.4, 3, 20};
  const double gamma[] = {0.5, 1, 2};
  (void)state;
  check_distribution("Poisson", draws_of(KC_GAP_POISSON, 1), cdf_poisson, 1);
  for (size_t i = 0; i < sizeof weibull / sizeof weibull[0]; i++) {
    check_distribution("Weibull", draws_of(KC_GAP_WEIBULL, weibull[i]), cdf_weibull, weibull[i]);
  }
  for (size_t i = 0; i < sizeof gamma / sizeof gamma[0]; i++) {
    check_distribution("gamma", draws_of(KC_GAP_GAMMA, gamma[i]), cdf_gamma, gamma[i]);
  }
}

static void test_normal(void **state)
{
  static double x[DRAWS];
  struct kc_random random;
  (void)state;
  kc_random_init(&random, 6, "test normal", 0);
  for (int i = 0; i < DRAWS; i++) x[i] = (double)kc_random_normal_q32(&random) * unit;
  check_distribution("normal", x, cdf_normal, 0);
}

/* Mean 1 and CV 1 / sqrt(shape), within five standard errors. */
static void test_gamma_moments(void **state)
{
  const double shapes[] = {0.02, 0.1, 0.3, 0.9, 1.1, 7, 100, 5000};
  (void)state;
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    const double *x = draws_of(KC_GAP_GAMMA, shapes[s]);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) sum += x[i], squares += x[i] * x[i];
    const double mean = sum / DRAWS, variance = squares / DRAWS - mean * mean;
    const double wanted = 1 / shapes[s];
    const double error = sqrt((2 + 6 / shapes[s]) / DRAWS); /* kurtosis 3 + 6 / shape */
    if (fabs(mean - 1) > 5 * sqrt(wanted / DRAWS)) fail_msg("shape %g: mean %g", shapes[s], mean);
    if (fabs(variance / wanted - 1) > 5 * error) {
      fail_msg("shape %g: variance %g, not %g", shapes[s], variance, wanted);
    }
  }
}

static void test_first_gap(void **state)
{
  const struct {
    enum kc_gap_family family;
    double shape, cv2;
  } cases[] = {{KC_GAP_CONSTANT, 1, 0}, {KC_GAP_POISSON, 1, 1}, {KC_GAP_GAMMA, 0.2, 5},
               {KC_GAP_GAMMA, 4, 0.25}, {KC_GAP_WEIBULL, 0.5, 5}, {KC_GAP_WEIBULL, 2, 0.2732395}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    struct kc_random random;
    struct kc_gap gap;
    double sum = 0;
    kc_random_init(&random, 7, "test first", c);
    kc_gap_init(&gap, cases[c].family, (uint64_t)(cases[c].shape * 1e9));
    for (int i = 0; i < DRAWS; i++) sum += (double)kc_gap_first_q32(&gap, &random) * unit;
    const double wanted = (1 + cases[c].cv2) / 2;
    if (fabs(sum / DRAWS / wanted - 1) > 0.05) {
      fail_msg("case %zu: mean %g, not %g", c, sum / DRAWS, wanted);
    }
  }
}

static void test_shape_of_cv(void **state)
{
  (void)state;
  assert_true(kc_gap_shape_of_cv(KC_GAP_GAMMA, 2 * (uint64_t)KC_NANO) == 250000000);
  assert_true(kc_gap_shape_of_cv(KC_GAP_GAMMA, 100 * (uint64_t)KC_NANO) == 100000);
  for (double shape = 0.2; shape < 30; shape *= 1.3) {
    const double first = tgamma(1 + 1 / shape);
    const double cv = sqrt(tgamma(1 + 2 / shape) / (first * first) - 1);
    const double got = (double)kc_gap_shape_of_cv(KC_GAP_WEIBULL, (uint64_t)(cv * 1e9)) * 1e-9;
    if (fabs(got / shape - 1) > 1e-4) fail_msg("CV %g: shape %g, not %g", cv, got, shape);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_distributions), cmocka_unit_test(test_normal),
    cmocka_unit_test(test_gamma_moments), cmocka_unit_test(test_first_gap),
    cmocka_unit_test(test_shape_of_cv),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
