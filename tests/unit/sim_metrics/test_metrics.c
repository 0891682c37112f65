/* Histogram and statistics against sorting; metrics by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "sim/metrics/metrics.h"

static int compare(const void *a, const void *b)
{
  const kc_ps x = *(const kc_ps *)a;
  const kc_ps y = *(const kc_ps *)b;
  return (x > y) - (x < y);
}

/* Nearest rank: the smallest value with at least p % of the values at or below it. */
static kc_ps naive_percentile(const kc_ps *sorted, size_t count, unsigned percent)
{
  for (size_t i = 0; i < count; i++) {
    if ((i + 1) * 100 >= count * percent) return sorted[i];
  }
  return -1;
}

static kc_ps draw(struct kc_random *random, unsigned shape)
{
  if (shape == 0) return (kc_ps)kc_random_below(random, 50); /* many ties */
  if (shape == 1) return (kc_ps)kc_random_below(random, UINT64_C(1) << 50);
  if (shape == 2) return (kc_ps)kc_random_exponential(random, 1000000000);
  return (kc_ps)(kc_random_u64(random) >> (1 + kc_random_below(random, 60)));
}

static void statistics_equal_sorting(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 3, "statistics", 0);
  for (unsigned round = 0; round < 400; round++) {
    const size_t count = 1 + kc_random_below(&random, round < 300 ? 40 : 5000);
    kc_ps *values = malloc(count * sizeof *values);
    kc_ps *sorted = malloc(count * sizeof *sorted);
    assert_true(values != NULL && sorted != NULL);
    kc_u128 sum = 0;
    for (size_t i = 0; i < count; i++) {
      values[i] = sorted[i] = draw(&random, round % 4);
      if (round % 5 == 0) values[i] = sorted[i] = (kc_ps)i; /* already sorted */
      sum += (uint64_t)sorted[i];
    }
    qsort(sorted, count, sizeof *sorted, compare);
    struct kc_statistic s;
    kc_statistic_of(&s, values, count);
    assert_int_equal(s.count, count);
    assert_int_equal(s.min_ps, sorted[0]);
    assert_int_equal(s.max_ps, sorted[count - 1]);
    assert_int_equal(s.p50_ps, naive_percentile(sorted, count, 50));
    assert_int_equal(s.p90_ps, naive_percentile(sorted, count, 90));
    assert_int_equal(s.p95_ps, naive_percentile(sorted, count, 95));
    assert_int_equal(s.p99_ps, naive_percentile(sorted, count, 99));
    assert_int_equal(s.mean_ps, (kc_ps)((sum + count / 2) / count));
    free(values);
    free(sorted);
  }
}

/* An input that makes a median-of-three quicksort quadratic (McIlroy's idea, simplest case): the
 * fallback must still give the right ranks. */
static void many_equal_and_organ_pipe(void **state)
{
  (void)state;
  enum { N = 20001 };
  static const unsigned shapes = 2;
  for (unsigned shape = 0; shape < shapes; shape++) {
    kc_ps *values = malloc(N * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < N; i++) values[i] = shape == 0 ? 7 : (i < N / 2 ? i : N - 1 - i);
    struct kc_statistic s;
    kc_statistic_of(&s, values, N);
    assert_int_equal(s.p50_ps, shape == 0 ? 7 : 5000);
    assert_int_equal(s.max_ps, shape == 0 ? 7 : N / 2);
    free(values);
  }
}

static void buckets_are_monotone_and_tight(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 4, "buckets", 0);
  for (int i = 0; i < 200000; i++) {
    const uint64_t v = kc_random_u64(&random) >> (1 + kc_random_below(&random, 63));
    const uint32_t bucket = kc_histogram_bucket(v);
    const uint64_t low = kc_histogram_bucket_low(bucket);
    const uint64_t next = kc_histogram_bucket_low(bucket + 1);
    assert_true(bucket < KC_HISTOGRAM_BUCKETS);
    assert_true(low <= v && v < next);
    assert_true((next - low) <= 1 + low / 1024); /* relative width at most 0.1 % */
  }
}

static void histogram_percentiles_within_a_thousandth(void **state)
{
  (void)state;
  struct kc_arena arena;
  struct kc_random random;
  kc_random_init(&random, 5, "histogram", 0);
  for (unsigned round = 0; round < 40; round++) {
    struct kc_histogram histogram;
    const size_t count = 1 + kc_random_below(&random, 2000);
    kc_ps *values = malloc(count * sizeof *values);
    assert_non_null(values);
    assert_int_equal(kc_arena_init(&arena, kc_histogram_need(), NULL), KC_OK);
    assert_int_equal(kc_histogram_init(&histogram, &arena), KC_OK);
    for (size_t i = 0; i < count; i++) {
      values[i] = draw(&random, round % 4);
      kc_histogram_add(&histogram, values[i], 1);
    }
    qsort(values, count, sizeof *values, compare);
    for (unsigned p = 1; p <= 100; p++) {
      const kc_ps exact = naive_percentile(values, count, p);
      const kc_ps read = kc_histogram_percentile(&histogram, p, 100);
      const kc_ps error = read > exact ? read - exact : exact - read;
      assert_true(error <= exact / 1000);
    }
    kc_arena_deinit(&arena);
    free(values);
  }
}

static void weights_count(void **state)
{
  (void)state;
  struct kc_arena arena;
  struct kc_histogram histogram;
  assert_int_equal(kc_arena_init(&arena, kc_histogram_need(), NULL), KC_OK);
  assert_int_equal(kc_histogram_init(&histogram, &arena), KC_OK);
  assert_int_equal(kc_histogram_percentile(&histogram, 50, 100), KC_PS_NEVER);
  kc_histogram_add(&histogram, 10, 90);
  kc_histogram_add(&histogram, 500, 10);
  assert_int_equal(kc_histogram_percentile(&histogram, 90, 100), 10);
  assert_int_equal(kc_histogram_percentile(&histogram, 91, 100), 500);
  assert_int_equal(histogram.total, 100);
  assert_true(histogram.sum_ps == 90 * 10 + 10 * 500);
  kc_arena_deinit(&arena);
}

/* A run of any length leaves between half and all of the timeline's room used. */
static void timeline_keeps_its_size(void **state)
{
  (void)state;
  struct kc_arena arena;
  struct kc_metrics *metrics = malloc(sizeof *metrics);
  struct kc_request request = {.input_tokens = 1, .output_tokens = 1, .max_tokens = 1};
  assert_non_null(metrics);
  assert_int_equal(kc_arena_init(&arena, kc_metrics_need(1), NULL), KC_OK);
  assert_int_equal(kc_metrics_init(metrics, &request, 1, 16, NULL, &arena), KC_OK);
  const struct kc_observer observer = kc_metrics_observer(metrics);
  kc_ps now_ps = 0;
  for (uint64_t i = 0; i < 300000; i++, now_ps += KC_PS_PER_MS) {
    const struct kc_step_report report = {.index = i, .start_ps = now_ps,
                                          .end_ps = now_ps + KC_PS_PER_MS, .running = 1};
    observer.on_step(observer.context, &report);
    if (i > KC_TIMELINE_MAX) assert_true(metrics->timeline_count >= KC_TIMELINE_MAX / 2);
  }
  for (uint32_t i = 1; i < metrics->timeline_count; i++) {
    assert_true(metrics->timeline[i].time_ps > metrics->timeline[i - 1].time_ps);
  }
  assert_true(metrics->timeline[metrics->timeline_count - 1].time_ps > now_ps - now_ps / 500);
  kc_arena_deinit(&arena);
  free(metrics);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_equal_sorting),
      cmocka_unit_test(many_equal_and_organ_pipe),
      cmocka_unit_test(buckets_are_monotone_and_tight),
      cmocka_unit_test(histogram_percentiles_within_a_thousandth),
      cmocka_unit_test(weights_count),
      cmocka_unit_test(timeline_keeps_its_size)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
