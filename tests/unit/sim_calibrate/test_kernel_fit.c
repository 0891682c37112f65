/* Fits against timings made here, by formulas of this file, with noise: the parameters come back,
 * rows kept out are predicted, the split and the written file are what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "sim/calibrate/layered_fit.h"
#include "sim/calibrate/profile_write.h"
#include "sim/calibrate/table_fit.h"

static const struct kc_device device = {.memory_bandwidth = 4e12, .flops = {1e15, 2e15, 0, 0},
                                        .link_bandwidth = 4e11, .link_latency_us = 3,
                                        .sm_count = 132};

/* Uniform in [1 - width, 1 + width]. */
static double noise(struct kc_random *random, double width)
{
  return 1 + width * ((double)kc_random_below(random, 2000001) / 1e6 - 1);
}

/* 5 us + max(bytes at 0.8 of 4 TB/s, operations at 0.7 of 1 PFLOP/s), whole tiles, 3 % noise. */
static double true_gemm(double m, double n, double k)
{
  const double bytes = 2 * (m * k + k * n + m * n);
  const double flops = 2 * m * n * k;
  const double move = bytes / (0.8 * 4e6), compute = flops / (0.7 * 1e9);
  return 5 + (move > compute ? move : compute);
}

static void make_gemm(struct kc_samples *s, uint64_t seed)
{
  struct kc_random random;
  kc_random_init(&random, seed, "test", 0);
  s->capacity = 10 * 12 * 12;
  s->sample = calloc(s->capacity, sizeof *s->sample);
  assert_non_null(s->sample);
  for (double m = 64; m <= 32768; m *= 2) {
    for (double n = 128; n <= 65536; n *= 1.75) {
      for (double k = 128; k <= 65536; k *= 1.75) {
        const struct kc_shape shape = {.m = m, .n = floor(n / 128) * 128, .k = floor(k / 64) * 64};
        assert_true(s->count < s->capacity);
        const double us = true_gemm(shape.m, shape.n, shape.k) * noise(&random, 0.03);
        s->sample[s->count++] = (struct kc_sample){KC_FAMILY_GEMM_BF16, shape, us};
      }
    }
  }
}

static void test_recovers_physics(void **state)
{
  (void)state;
  struct kc_samples s = {0};
  struct kc_diag diag;
  const struct kc_fit_options how = {20, 3, "made up"};
  make_gemm(&s, 11);
  struct kc_profile *p = kc_profile_create(KC_NUMBERS_MAX);
  assert_int_equal(kc_fit_families(p, &s, &device, &how, &diag), KC_OK);
  const struct kc_family_fit *fit = &p->fit[KC_FAMILY_GEMM_BF16];
  print_message("latency %.3g bandwidth %.3g rate %.3g, kept out %.4f %.4f\n",
                fit->physics.latency_us, fit->physics.bandwidth, fit->physics.rate,
                fit->held_out.median, fit->held_out.p90);
  assert_true(fit->present && fit->rows == s.count);
  assert_true(fabs(fit->physics.latency_us / 5 - 1) < 0.1);
  assert_true(fabs(fit->physics.bandwidth / 0.8 - 1) < 0.05);
  assert_true(fabs(fit->physics.rate / 0.7 - 1) < 0.05);
  /* 3 % of uniform noise has a median of 1.5 and a 90th percentile of 2.7 %. */
  assert_true(fit->held_out.median < 0.025 && fit->held_out.p90 < 0.05);
  assert_true(fit->held_out.rows > s.count / 7 && fit->held_out.rows < s.count / 4);
  assert_int_equal(fit->held_out.rows + fit->fitted.rows, s.count);
  /* Twice the bandwidth, asked of the same fit: what memory bounds takes half as long. */
  struct kc_device faster = device;
  faster.memory_bandwidth *= 2;
  const struct kc_shape thin = {.m = 64, .n = 16384, .k = 16384};
  const double slow_us = kc_profile_time(p, &device, KC_FAMILY_GEMM_BF16, &thin).us;
  const double fast_us = kc_profile_time(p, &faster, KC_FAMILY_GEMM_BF16, &thin).us;
  assert_true(fabs((slow_us - 5) / (fast_us - 5) - 2) < 0.2);
  kc_profile_destroy(p);
  kc_samples_free(&s);
}

/* The order of rows does not matter: the same profile, byte for byte. Another seed splits anew. */
static void test_order_of_rows(void **state)
{
  (void)state;
  struct kc_samples s = {0};
  struct kc_fit_options how = {20, 3, "made up"};
  char *text[3];
  make_gemm(&s, 11);
  for (int i = 0; i < 3; i++) {
    struct kc_profile *p = kc_profile_create(KC_NUMBERS_MAX);
    if (i == 1) {
      for (size_t a = 0, b = s.count - 1; a < b; a++, b--) {
        const struct kc_sample swap = s.sample[a];
        s.sample[a] = s.sample[b];
        s.sample[b] = swap;
      }
    }
    how.seed = i == 2 ? 4 : 3;
    assert_int_equal(kc_fit_families(p, &s, &device, &how, NULL), KC_OK);
    text[i] = kc_profile_text(p, "two lines\nof comment");
    assert_non_null(text[i]);
    kc_profile_destroy(p);
  }
  assert_string_equal(text[0], text[1]);
  assert_string_not_equal(text[0], text[2]);
  for (int i = 0; i < 3; i++) free(text[i]);
  kc_samples_free(&s);
}

/* What is written is read back to the same times, and scored alike. */
static void test_written_file(void **state)
{
  (void)state;
  struct kc_samples s = {0};
  struct kc_diag diag;
  struct kc_residual before, after;
  const struct kc_fit_options how = {20, 3, "a \"quoted\" source"};
  make_gemm(&s, 12);
  struct kc_profile *p = kc_profile_create(KC_NUMBERS_MAX), *back;
  snprintf(p->name, sizeof p->name, "x");
  snprintf(p->gpu, sizeof p->gpu, "y");
  assert_int_equal(kc_fit_families(p, &s, &device, &how, &diag), KC_OK);
  char *text = kc_profile_text(p, "comment");
  if (kc_profile_parse(&back, "w.yaml", text, strlen(text), &diag) != KC_OK) {
    fail_msg("%llu:%u %s", (unsigned long long)diag.line, diag.column, diag.text);
  }
  assert_string_equal(back->fit[KC_FAMILY_GEMM_BF16].source, "a \"quoted\" source");
  for (size_t i = 0; i < s.count; i++) {
    const double a = kc_profile_time(p, &device, KC_FAMILY_GEMM_BF16, &s.sample[i].shape).us;
    const double b = kc_profile_time(back, &device, KC_FAMILY_GEMM_BF16, &s.sample[i].shape).us;
    assert_true(fabs(a / b - 1) < 1e-12);
  }
  assert_int_equal(kc_score_family(p, &s, &device, KC_FAMILY_GEMM_BF16, &before, NULL), KC_OK);
  assert_int_equal(kc_score_family(back, &s, &device, KC_FAMILY_GEMM_BF16, &after, NULL), KC_OK);
  assert_true(fabs(before.median - after.median) < 1e-12 && before.rows == s.count);
  free(text);
  kc_profile_destroy(back);
  kc_profile_destroy(p);
  kc_samples_free(&s);
}

/* Rows of one shape are kept out or fitted together, and about as many as asked. */
static void test_split(void **state)
{
  (void)state;
  enum { ROWS = 20000 };
  static unsigned char out[ROWS], same[ROWS];
  size_t kept = 0;
  for (size_t i = 0; i < ROWS; i++) same[i] = i % 2;
  kc_hold_out(out, same, ROWS, 20, 5, "x");
  for (size_t i = 0; i < ROWS; i++) {
    kept += out[i];
    if (i % 2 == 1) assert_int_equal(out[i], out[i - 1]);
  }
  /* 10,000 draws of 0.2: 5 standard deviations are 200. */
  assert_true(kept > 2 * 1800 && kept < 2 * 2200);
  kc_hold_out(out, same, ROWS, 0, 5, "x");
  for (size_t i = 0; i < ROWS; i++) assert_int_equal(out[i], 0);
}

static void test_residuals(void **state)
{
  (void)state;
  double errors[] = {0.5, 0.1, 0.3, 0.2, 0.4, 0.9, 0.6, 0.8, 0.7, 1.0};
  const struct kc_residual r = kc_residual_of(errors, 10);
  assert_true(r.rows == 10 && r.median == 0.5 && r.p90 == 0.9); /* nearest rank */
  const struct kc_residual one = kc_residual_of(errors, 1);
  assert_true(one.median == 0.1 && one.p90 == 0.1);
  assert_int_equal(kc_residual_of(errors, 0).rows, 0);
}

/* A surface that is linear between its knots comes back, though one row in fifty is far off. */
static void test_tables_resist_odd_rows(void **state)
{
  (void)state;
  enum { ROWS = 3000 };
  struct kc_random random;
  double knot[5] = {0, 1, 2, 3, 4}, value[5];
  const double truth[5] = {0.2, -0.4, 0.1, 0.5, 0.3};
  static double position[ROWS * KC_TABLE_AXES_MAX], target[ROWS];
  struct kc_grid grid = {.axes = 1, .knots = {5}, .knot = {knot}, .value = value};
  kc_random_init(&random, 1, "rows", 0);
  for (size_t i = 0; i < ROWS; i++) {
    const double x = (double)kc_random_below(&random, 4000) / 1000;
    const int at = (int)x;
    position[i * KC_TABLE_AXES_MAX] = x;
    target[i] = truth[at] + (x - at) * (truth[at + 1] - truth[at]) + noise(&random, 0.01) - 1;
    if (i % 50 == 0) target[i] += 5;
  }
  struct kc_grid_problem problem = {.table = {&grid}, .tables = 1, .rows = ROWS,
                                    .position = position, .target = target, .smooth = 1e-6,
                                    .ridge = 1e-6};
  assert_int_equal(kc_grid_solve(&problem, NULL), KC_OK);
  for (int i = 0; i < 5; i++) {
    if (fabs(value[i] - truth[i]) > 0.02) print_error("%d: %g, not %g\n", i, value[i], truth[i]);
    assert_true(fabs(value[i] - truth[i]) < 0.02);
  }
}

/* ---- layered ---- */

static void add_mixed(struct kc_layered_rows *rows, double chunk, double n, double context,
                      struct kc_random *random)
{
  const double us = (chunk > 0 ? 10 + chunk * 0.2 : 0) + (n > 0 ? 6 + n * context * 1e-3 : 0);
  rows->mixed[rows->mixed_count++] = (struct kc_mixed_row){
      .step = {chunk, 0, n, context, context}, .us = us * noise(random, 0.01)};
}

/* Prefill 10 + 0.2 us a token, decode 6 + 0.001 us a token of context, and their sum when mixed. */
static void test_layered(void **state)
{
  (void)state;
  struct kc_layered_rows rows = {.name = {"o_proj"}, .name_count = 1};
  struct kc_random random;
  struct kc_diag diag;
  kc_random_init(&random, 2, "layered", 0);
  rows.layer = calloc(200, sizeof *rows.layer);
  rows.mixed = calloc(4000, sizeof *rows.mixed);
  for (double t = 1; t <= 2048; t *= 1.05) {
    const double us = (4 + t / 10) * noise(&random, 0.01);
    rows.layer[rows.layer_count++] = (struct kc_layer_row){0, t, us};
  }
  for (double chunk = 0; chunk <= 2048; chunk = chunk > 0 ? chunk * 1.5 : 16) {
    for (double n = 0; n <= 256; n = n > 0 ? n * 2 : 1) {
      for (double context = 16; context <= 16384; context *= 2) {
        if (n <= 0 && (chunk <= 0 || context >= 128)) continue;
        add_mixed(&rows, chunk, n, n > 0 ? context : 0, &random);
      }
    }
  }
  struct kc_profile *p = kc_profile_create(KC_NUMBERS_MAX);
  const struct kc_fit_options how = {20, 3, "made up"};
  if (kc_fit_layered(p, &rows, &how, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_true(p->layer[0].fit.held_out.p90 < 0.03);
  assert_true(p->mixed[KC_MIXED_DECODE].held_out.p90 < 0.06);
  assert_true(p->mixed[KC_MIXED_PREFILL].held_out.p90 < 0.06);
  assert_true(p->mixed[KC_MIXED_BOTH].held_out.p90 < 0.06);
  assert_false(p->mixed[KC_MIXED_SPREAD].present);
  const struct kc_mixed_step step = {500, 0, 20, 700, 700}; /* 10 + 100 + 6 + 14 = 130 */
  assert_true(fabs(kc_profile_mixed_time(p, &step).us / 130 - 1) < 0.05);
  assert_true(fabs(kc_profile_layer_time(p, 0, 300).us / 34 - 1) < 0.03);
  kc_profile_destroy(p);
  kc_layered_free(&rows);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recovers_physics), cmocka_unit_test(test_order_of_rows),
      cmocka_unit_test(test_written_file),     cmocka_unit_test(test_split),
      cmocka_unit_test(test_residuals),        cmocka_unit_test(test_tables_resist_odd_rows),
      cmocka_unit_test(test_layered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
