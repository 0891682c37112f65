/* Rates in steps: the week's mean, weekends, bursts, and arrivals that do not drift. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "synth_support.h"
#include "traces/synth/synth_build.h"

static const kc_ps hour_ps = 3600 * KC_PS_PER_S;

static struct kc_rate_curve build(const struct kc_rate_spec *spec, kc_ps duration_ps)
{
  struct kc_rate_curve curve = {0};
  struct kc_diag diag;
  assert_int_equal(kc_rate_curve_build(&curve, spec, duration_ps, 1, &diag), KC_OK);
  assert_true(curve.piece[curve.count - 1].until_ps == duration_ps);
  return curve;
}

/* Requests between two instants. */
static double integral(const struct kc_rate_curve *curve, kc_ps from_ps, kc_ps until_ps)
{
  double sum = 0;
  kc_ps start_ps = 0;
  for (size_t i = 0; i < curve->count; i++) {
    const kc_ps low = start_ps > from_ps ? start_ps : from_ps;
    const kc_ps end_ps = curve->piece[i].until_ps;
    const kc_ps high = end_ps < until_ps ? end_ps : until_ps;
    if (low < high) sum += (double)(high - low) * 1e-12 * (double)curve->piece[i].rate_nhz * 1e-9;
    start_ps = end_ps;
  }
  return sum;
}

static void test_week(void **state)
{
  const struct kc_rate_spec spec = {.rate_nhz = 5000000000, .diurnal_nano = 800000000,
                                    .weekend_nano = 400000000, .weekly = true};
  struct kc_rate_curve curve = build(&spec, 168 * hour_ps);
  (void)state;
  assert_int_equal(curve.count, 168);
  NEAR(integral(&curve, 0, 168 * hour_ps) / (5.0 * 168 * 3600), 1, 1e-6);
  const double monday = integral(&curve, 0, 24 * hour_ps);
  const double sunday = integral(&curve, 144 * hour_ps, 168 * hour_ps);
  NEAR(sunday / monday, 0.4, 1e-6);
  NEAR((double)curve.piece[4].rate_nhz / (double)curve.piece[14].rate_nhz,
                     0.2 / 1.8, 1e-6); /* quietest and busiest hour */
  kc_rate_curve_free(&curve);
}

/* Starting on Saturday, half an hour in: the first edge comes after 30 minutes. */
static void test_start(void **state)
{
  const struct kc_rate_spec spec = {.rate_nhz = 1000000000, .weekend_nano = 0, .weekly = true,
                                    .start_ps = 120 * hour_ps + hour_ps / 2};
  struct kc_rate_curve curve = build(&spec, 72 * hour_ps);
  (void)state;
  assert_true(curve.piece[0].until_ps == hour_ps / 2 && curve.piece[0].rate_nhz == 0);
  NEAR(integral(&curve, 0, 48 * hour_ps - hour_ps / 2), 0, 1e-9);
  NEAR(integral(&curve, 48 * hour_ps, 49 * hour_ps), 3600 * 1.4, 1e-3);
  kc_rate_curve_free(&curve);
}

static void test_bursts(void **state)
{
  const struct kc_rate_spec spec = {.rate_nhz = 1000000000, .burst_every_ps = hour_ps,
                                    .burst_length_ps = hour_ps / 6,
                                    .burst_factor_nano = 7000000000};
  struct kc_rate_curve curve = build(&spec, 2000 * hour_ps);
  size_t bursts = 0;
  (void)state;
  for (size_t i = 0; i < curve.count; i++) {
    const kc_ps from_ps = i == 0 ? 0 : curve.piece[i - 1].until_ps;
    if (curve.piece[i].rate_nhz == 1000000000) continue;
    assert_true(curve.piece[i].rate_nhz == 7000000000);
    assert_true(i + 1 == curve.count || curve.piece[i].until_ps - from_ps == hour_ps / 6);
    bursts++;
  }
  /* Starts are an hour apart on average after the end of the one before: 7/6 h a cycle. */
  NEAR((double)bursts, 2000.0 * 6 / 7, 5 * sqrt(2000.0));
  kc_rate_curve_free(&curve);
}

static void test_no_drift(void **state)
{
  struct kc_rate_curve curve = {0};
  struct kc_rate_cursor cursor;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(kc_rate_curve_add(&curve, 1000 * KC_PS_PER_S, 3000000000, &diag), KC_OK);
  assert_int_equal(kc_rate_curve_add(&curve, 1001 * KC_PS_PER_S, 0, &diag), KC_OK);
  assert_int_equal(kc_rate_curve_add(&curve, 2001 * KC_PS_PER_S, 1000000000, &diag), KC_OK);
  kc_rate_cursor_init(&cursor, &curve);
  for (int64_t k = 1; k < 4000; k++) {
    const kc_ps wanted = k < 3000 ? k * KC_PS_PER_S / 3 : (k - 3000 + 1001) * KC_PS_PER_S;
    kc_ps when_ps;
    assert_true(kc_rate_advance(&cursor, (uint64_t)KC_ONE_Q32, &when_ps));
    if (when_ps != wanted) fail_msg("arrival %lld at %lld", (long long)k, (long long)when_ps);
  }
  kc_ps when_ps;
  assert_false(kc_rate_advance(&cursor, UINT64_MAX, &when_ps));
  kc_rate_curve_free(&curve);
}

/* Poisson arrivals in each hour of two weeks against the curve: chi square, 336 degrees. */
static void test_poisson_counts(void **state)
{
  struct kc_lengths lengths;
  struct kc_trace trace;
  struct kc_diag diag;
  double chi2 = 0, seen[336] = {0};
  (void)state;
  assert_int_equal(kc_lengths_fixed(&lengths, 1, 1, &diag), KC_OK);
  const struct kc_synth_spec spec = {
    .seed = 3, .duration_ps = 336 * hour_ps, .family = KC_GAP_POISSON, .lengths = &lengths,
    .rate = {.rate_nhz = 200000000, .diurnal_nano = 900000000, .weekend_nano = 500000000,
             .weekly = true}};
  struct kc_rate_curve curve = build(&spec.rate, spec.duration_ps);
  assert_int_equal(kc_synth_rows(&trace, &spec, &diag), KC_OK);
  for (uint64_t i = 0; i < trace.count; i++) seen[trace.row[i].arrival_ps / hour_ps]++;
  for (int hour = 0; hour < 336; hour++) {
    const double wanted = integral(&curve, hour * hour_ps, (hour + 1) * hour_ps);
    chi2 += (seen[hour] - wanted) * (seen[hour] - wanted) / wanted;
  }
  NEAR(chi2, 336, 3.3 * sqrt(2 * 336.0)); /* first arrival at 0 moves all slightly */
  kc_rate_curve_free(&curve);
  kc_lengths_free(&lengths);
  kc_trace_free(&trace);
}

static void test_limits(void **state)
{
  struct kc_lengths lengths;
  struct kc_trace trace;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(kc_lengths_fixed(&lengths, 1, 1, &diag), KC_OK);
  struct kc_synth_spec spec = {.rows = 10, .family = KC_GAP_CONSTANT, .lengths = &lengths,
                               .rate = {.rate_nhz = 1}};
  assert_int_equal(kc_synth_rows(&trace, &spec, &diag), KC_ERR_LIMIT);
  assert_non_null(strstr(diag.text, "106 days"));
  spec.duration_ps = KC_PS_PER_S;
  assert_int_equal(kc_synth_rows(&trace, &spec, &diag), KC_ERR_INPUT);
  kc_lengths_free(&lengths);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_week),     cmocka_unit_test(test_start),
    cmocka_unit_test(test_bursts),   cmocka_unit_test(test_no_drift),
    cmocka_unit_test(test_poisson_counts), cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
