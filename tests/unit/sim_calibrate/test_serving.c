/* A serving fit gets back the figures that a table was made with, says what it cannot know, and
 * refuses what cannot be fitted. Tables are made by simulated runs with known parameters.
 * timeout: 300 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/calibrate/serving.h"

static const char *scenario_path(void)
{
  static char path[512];
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(path, sizeof path, "%s/scenarios/published/t03-kimi-decode-fp8.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR);
  return path;
}

static struct kc_serving_fit *load(void)
{
  struct kc_diag diag = {0};
  struct kc_serving_fit *fit = calloc(1, sizeof *fit);
  assert_non_null(fit);
  if (kc_serving_load(fit, scenario_path(), NULL, &diag) != KC_OK) fail_msg("%s", diag.text);
  return fit;
}

/* The rates of runs with these parameters become the measurement. */
static void measure_with(struct kc_serving_fit *fit, double host_us, double weights, double kv)
{
  struct kc_diag diag = {0};
  for (uint32_t r = 0; r < fit->row_count; r++) {
    struct kc_point *point = fit->row[r].point;
    struct kc_gpu_profile *profile = &point->scenario.pool[0].profile;
    profile->host_step_us = host_us;
    profile->bandwidth_efficiency = weights;
    profile->kv_efficiency = kv;
    profile->flops_efficiency = 0.6;
    profile->op_latency_us = 0;
    profile->calibrated = true;
    if (kc_point_run(point, NULL, NULL, &diag) != KC_OK) fail_msg("%s", diag.text);
    const struct kc_expect expect = fit->row[r].expect;
    if (kc_expect_value(&expect, &point->figures, "", &fit->row[r].expect.value, &diag) != KC_OK) {
      fail_msg("%s", diag.text);
    }
  }
}

static void assert_near(const char *what, double seen, double expected, double percent)
{
  if (fabs(seen / expected - 1) * 100 > percent) {
    fail_msg("%s is %.9g, expected %.9g within %g %%", what, seen, expected, percent);
  }
}

static void test_known_parameters_come_back(void **state)
{
  (void)state;
  static const double known[][3] = {{5000, 0.7, 0.6}, {800, 0.9, 0.35}, {12000, 0.5, 0.95}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    struct kc_serving_fit *fit = load();
    struct kc_diag diag = {0};
    measure_with(fit, known[i][0], known[i][1], known[i][2]);
    if (kc_serving_run(fit, &diag) != KC_OK) fail_msg("%s", diag.text);
    assert_near("host", fit->best.value[KC_TERM_HOST], known[i][0], 0.01);
    assert_near("weights", fit->best.value[KC_TERM_WEIGHTS], known[i][1], 0.01);
    assert_near("kv", fit->best.value[KC_TERM_KV], known[i][2], 0.01);
    assert_true(fit->residual_max < 1e-3);
    assert_true(fit->has_left_out && fit->has_interval);
    for (uint32_t r = 0; r < fit->row_count; r++) {
      assert_true(fabs(fit->left_out_percent[r]) < 1e-2);
    }
    assert_true(fit->low[KC_TERM_HOST] <= fit->high[KC_TERM_HOST]);
    kc_serving_free(fit);
    free(fit);
  }
}

/* What was made with an efficiency above 1 ends on the bound and says so. */
static void test_bounds_are_kept(void **state)
{
  (void)state;
  struct kc_serving_fit *fit = load();
  struct kc_diag diag = {0};
  measure_with(fit, 5000, 0.7, 1.4);
  if (kc_serving_run(fit, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_true(fit->best.value[KC_TERM_KV] == 1.0);
  assert_true(fit->at_bound[KC_TERM_KV] && !fit->at_bound[KC_TERM_HOST]);
  kc_serving_free(fit);
  free(fit);
}

/* The largest error of the fit that makes it small is no larger than that of least squares, and the
 * other way round for the squares. */
static void test_two_norms(void **state)
{
  (void)state;
  double largest[2], squares[2] = {0, 0};
  for (int norm = 0; norm < 2; norm++) {
    struct kc_serving_fit *fit = load(); /* the published table itself */
    struct kc_diag diag = {0};
    fit->squares = norm == 1;
    if (kc_serving_run_quick(fit, &diag) != KC_OK) fail_msg("%s", diag.text);
    largest[norm] = fit->residual_max;
    for (uint32_t r = 0; r < fit->row_count; r++) {
      const double time_error = 1 / (1 + fit->residual_percent[r] / 100) - 1;
      squares[norm] += time_error * time_error;
    }
    kc_serving_free(fit);
    free(fit);
  }
  assert_true(largest[0] <= largest[1] + 0.05); /* the norm is of times, this of rates */
  assert_true(squares[1] <= squares[0] * (1 + 1e-9));
}

/* A context twice as long with half the share of the bandwidth looks the same: both fit. */
static void test_length_and_efficiency_look_alike(void **state)
{
  (void)state;
  struct kc_serving_fit *fit = load();
  struct kc_diag diag = {0};
  measure_with(fit, 5000, 0.7, 0.5);
  assert_int_equal(kc_serving_assume_input(fit, 5120 - 250, &diag), KC_OK);
  if (kc_serving_run_quick(fit, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_true(fit->residual_max < 0.05);
  assert_near("kv", fit->best.value[KC_TERM_KV], 0.25, 1);
  kc_serving_free(fit);
  free(fit);
}

static void test_what_cannot_be_fitted(void **state)
{
  (void)state;
  struct kc_serving_fit *fit = load();
  struct kc_diag diag = {0};
  fit->is_free[KC_TERM_EXPAND] = true; /* a decode expands nothing */
  assert_int_equal(kc_serving_run(fit, &diag), KC_ERR_USAGE);
  assert_non_null(strstr(diag.text, "\"expand\" has no effect"));
  fit->is_free[KC_TERM_EXPAND] = false;
  while (fit->row_count > 2) free(fit->row[--fit->row_count].point);
  assert_int_equal(kc_serving_run(fit, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "2 rows"));
  kc_serving_free(fit);
  free(fit);
}

static void expect_bad_table(const char *text, const char *words)
{
  char path[] = "/tmp/kvcap-rates-XXXXXX";
  struct kc_diag diag = {0};
  struct kc_serving_fit *fit = calloc(1, sizeof *fit);
  const int handle = mkstemp(path);
  assert_true(handle >= 0 && fit != NULL);
  FILE *file = fdopen(handle, "w");
  fputs(text, file);
  fclose(file);
  const enum kc_err err = kc_serving_load_table(fit, scenario_path(), path, &diag);
  remove(path);
  if (err != KC_ERR_INPUT || strstr(diag.text, words) == NULL) {
    fail_msg("error %d, \"%s\"; expected \"%s\"", (int)err, diag.text, words);
  }
  kc_serving_free(fit);
  free(fit);
}

static void test_bad_tables(void **state)
{
  (void)state;
  expect_bad_table("requests,tok_s\n1,2\n", "concurrency");
  expect_bad_table("concurrency,tok_s\n", "no measurement");
  expect_bad_table("concurrency,tok_s\n1,fast\n", "tok_s");
  expect_bad_table("concurrency,tok_s\n1,-4\n", "tok_s");
  expect_bad_table("concurrency,tok_s\n1\n", "1 cells, but the header has 2 columns");
  expect_bad_table("concurrency,tok_s\n\"1,2\n", "quote");
  expect_bad_table("concurrency,tok_s\n0,5\n", "concurrency");
  expect_bad_table("concurrency,tok_s,kernel_source\n1,5,emulated\n", "emulated device");
  expect_bad_table("kernel_source,concurrency,tok_s\nkvcap,1,5\nemulated,2,9\n", "emulated");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_known_parameters_come_back), cmocka_unit_test(test_bounds_are_kept),
    cmocka_unit_test(test_two_norms), cmocka_unit_test(test_length_and_efficiency_look_alike),
    cmocka_unit_test(test_what_cannot_be_fitted), cmocka_unit_test(test_bad_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
