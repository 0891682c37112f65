/* Intervals of replicates, and the distance to saturation, against arithmetic done here.
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

#include "sim/scenario/intervals.h"

static struct kc_scenario *load(const char *name, const char *const *sets, size_t count)
{
  char path[512];
  struct kc_diag_list problems;
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  const char *source = getenv("KVCAP_SOURCE");
  assert_non_null(scenario);
  snprintf(path, sizeof path, "%s/scenarios/%s", source != NULL ? source : KVCAP_SOURCE_DIR, name);
  if (kc_scenario_load(scenario, path, sets, count, &problems) != KC_OK) {
    fail_msg("%s", problems.items[0].text);
  }
  return scenario;
}

static void compute(struct kc_intervals *out, const struct kc_scenario *scenario, uint32_t count)
{
  struct kc_diag diag = {0};
  if (kc_intervals_compute(out, scenario, count, NULL, &diag) != KC_OK) fail_msg("%s", diag.text);
}

/* Twice the same, and ordered; more replicates are not the same. */
static void replicates_are_reproducible(void **state)
{
  (void)state;
  static const char *const sets[] = {"workload.limit=200"};
  struct kc_scenario *scenario = load("examples/llama-3.1-8b-h100.yaml", sets, 1);
  struct kc_intervals one, two, more;
  compute(&one, scenario, 20);
  compute(&two, scenario, 20);
  compute(&more, scenario, 40);
  assert_memory_equal(&one, &two, sizeof one);
  for (int f = 0; f < KC_FIGURES; f++) {
    const bool headline = f == KC_FIGURE_OUTPUT_TOK_S || f == KC_FIGURE_TTFT_P95_MS ||
                          f == KC_FIGURE_TPOT_MEAN_MS || f == KC_FIGURE_USD_PER_MTOK;
    if (headline) assert_int_equal(one.figure[f].count, 20);
    if (!kc_figure_needs_run((enum kc_figure)f)) assert_int_equal(one.figure[f].count, 0);
    assert_true(one.figure[f].low <= one.figure[f].median);
    assert_true(one.figure[f].median <= one.figure[f].high);
  }
  const int tpot = KC_FIGURE_TPOT_MEAN_MS;
  assert_true(more.figure[tpot].low != one.figure[tpot].low);
  assert_true(one.host_unknown && !one.left_out && !one.seed_matters);
  free(scenario);
}

/* A datasheet's kernels are taken to be within 20 % (one deviation): of a decode whose host term is
 * nothing beside them, the middle 90 % of many replicates span about 2 x 1.645 deviations. */
static void a_datasheet_is_as_wide_as_it_says(void **state)
{
  (void)state;
  static const char *const sets[] = {"workload.closed.output=20", "pools.decode.kv.format=bf16"};
  struct kc_scenario *scenario = load("examples/kimi-k2.6-decode-8xh200.yaml", sets, 2);
  struct kc_intervals intervals;
  scenario->pool[0].profile.host_measured = true; /* no unknown host term in this question */
  compute(&intervals, scenario, 300);
  const struct kc_interval *tpot = &intervals.figure[KC_FIGURE_TPOT_MEAN_MS];
  const double width = (tpot->high - tpot->low) / tpot->median;
  if (fabs(width / (2 * 1.645 * 0.20) - 1) > 0.15) fail_msg("the width is %g", width);
  assert_true(fabs(intervals.time_percent - 20) < 1e-9);
  free(scenario);
}

/* The parameters of a serving fit are those of its left-out fits, so the interval holds what each
 * of them gives on its own. */
static void a_serving_fit_moves_with_its_rows(void **state)
{
  (void)state;
  static const char *const sets[] = {"workload.closed.concurrency=64", "workload.closed.output=50"};
  struct kc_scenario *scenario = load("published/t03-kimi-decode-fp8.yaml", sets, 2);
  struct kc_intervals intervals;
  compute(&intervals, scenario, 100);
  const struct kc_interval *rate = &intervals.figure[KC_FIGURE_OUTPUT_TOK_S];
  assert_true(intervals.left_out && !intervals.host_unknown);
  assert_true(rate->low < 2160 && rate->high > 2110); /* the whole fit; the fit without row 64 */
  assert_true(rate->low > 2160 * 0.9 && rate->high < 2160 * 1.1);
  free(scenario);
}

static void own_figures(struct kc_figure_set *set, const struct kc_scenario *scenario)
{
  struct kc_diag diag = {0};
  struct kc_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  if (kc_run_prepare(run, scenario, &diag) != KC_OK || kc_run_execute(run, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  kc_figures_of_run(run, set);
  kc_run_deinit(run);
  free(run);
}

/* The same fit asked for more requests than it was made with is extrapolated: what its rows say of
 * it no longer does, so times, rates and prices are at least 20 % to either side; what follows from
 * sizes stays. A datasheet's replicates are wider than that, and are kept. */
static void what_nobody_measured_is_wide(void **state)
{
  (void)state;
  static const enum kc_figure times[] = {KC_FIGURE_OUTPUT_TOK_S, KC_FIGURE_TTFT_MEAN_MS,
                                         KC_FIGURE_TPOT_P95_MS, KC_FIGURE_MAKESPAN_S,
                                         KC_FIGURE_USD_PER_MTOK, KC_FIGURE_JOULES_PER_TOKEN};
  static const char *const sets[] = {"workload.closed.concurrency=90", "workload.closed.output=50"};
  struct kc_scenario *scenario = load("published/t03-kimi-decode-fp8.yaml", sets, 2);
  struct kc_figure_set own;
  struct kc_intervals intervals;
  own_figures(&own, scenario);
  compute(&intervals, scenario, 20);
  assert_int_equal(intervals.level, KC_LEVEL_EXTRAPOLATED);
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    const struct kc_interval *f = &intervals.figure[times[i]];
    const double value = own.value[times[i]];
    if (f->low > 0.8 * value || f->high < 1.2 * value || f->low < 0.78 * value) {
      fail_msg("%s: %g to %g about %g", kc_figure_name(times[i]), f->low, f->high, value);
    }
  }
  const struct kc_interval *peak = &intervals.figure[KC_FIGURE_KV_PEAK_SHARE];
  assert_true(peak->low == own.value[KC_FIGURE_KV_PEAK_SHARE] && peak->high == peak->low);
  free(scenario);
  static const char *const inside[] = {"workload.closed.output=50"};
  scenario = load("published/t03-kimi-decode-fp8.yaml", inside, 1);
  own_figures(&own, scenario);
  compute(&intervals, scenario, 20);
  assert_int_equal(intervals.level, KC_LEVEL_CALIBRATED);
  const struct kc_interval *tpot = &intervals.figure[KC_FIGURE_TPOT_MEAN_MS];
  assert_true(tpot->low > 0.9 * own.value[KC_FIGURE_TPOT_MEAN_MS]);
  free(scenario);
}

static struct kc_run_load load_of(const char *rate)
{
  char set[64];
  const char *sets[] = {set};
  struct kc_diag diag = {0};
  snprintf(set, sizeof set, "workload.rate=%s", rate);
  struct kc_scenario *scenario = load("examples/llama-3.1-8b-h100.yaml", sets, 1);
  struct kc_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  if (kc_run_prepare(run, scenario, &diag) != KC_OK || kc_run_execute(run, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  const struct kc_run_load result = kc_run_load_of(run);
  kc_run_deinit(run);
  free(run);
  free(scenario);
  return result;
}

/* Twice the rate is twice the utilisation; past 1 the queue grows, before it does not. */
static void saturation_is_where_queues_grow(void **state)
{
  (void)state;
  const struct kc_run_load one = load_of("1"), two = load_of("2"), five = load_of("5");
  assert_true(one.known && two.known && five.known);
  assert_true(fabs(two.rate / one.rate - 2) < 0.01);
  assert_true(fabs(one.served_s / five.served_s - 1) < 1e-9);
  assert_true(one.rate < 0.5 && one.headroom > 0.5);
  assert_true(five.rate > 1 && five.headroom < 0 && five.kv > 0.99);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(replicates_are_reproducible),
    cmocka_unit_test(a_datasheet_is_as_wide_as_it_says),
    cmocka_unit_test(a_serving_fit_moves_with_its_rows),
    cmocka_unit_test(what_nobody_measured_is_wide),
    cmocka_unit_test(saturation_is_where_queues_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
