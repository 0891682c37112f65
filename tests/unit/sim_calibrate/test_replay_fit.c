/* A log made by a run with known host terms gives those terms back from its first requests, and
 * then predicts the rest of itself. timeout: 300 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/calibrate/replay_fit.h"

static const char *source_path(const char *name)
{
  static char path[512];
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(path, sizeof path, "%s/%s", source != NULL ? source : KVCAP_SOURCE_DIR, name);
  return path;
}

static struct kc_scenario *load(void)
{
  struct kc_diag_list problems;
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  static const char *const sets[] = {"pools.serve.scheduler.max_batched_tokens=2048",
                                     "workload.limit=600"};
  assert_non_null(scenario);
  const enum kc_err err =
      kc_scenario_load(scenario, source_path("scenarios/examples/llama-3.1-8b-h100.yaml"), sets, 2,
                       &problems);
  if (err != KC_OK) fail_msg("%s", problems.items[0].text);
  return scenario;
}

static size_t rows_of(const struct kc_scenario *scenario)
{
  struct kc_diag diag;
  struct kc_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  assert_int_equal(KC_OK, kc_run_prepare(run, scenario, &diag));
  const size_t count = run->request_count;
  kc_run_deinit(run);
  free(run);
  return count;
}

static void test_known_terms_come_back(void **state)
{
  struct kc_diag diag;
  struct kc_scenario *scenario = load();
  struct kc_gpu_profile *profile = &scenario->pool[0].profile;
  struct kc_replay_worth worth;
  struct kc_serving_log log = {.path = "made", .format = "made", .has_arrivals = true};
  (void)state;
  log.count = rows_of(scenario);
  log.row = calloc(log.count, sizeof *log.row);
  assert_non_null(log.row);
  profile->calibrated = true; /* as what is fitted is run */
  profile->host_step_us = 900;
  profile->prompt_step_us = 4000;
  profile->kernel_scale = 0.95;
  assert_int_equal(KC_OK, kc_replay_predict(scenario, log.row, log.count, &worth, &diag));
  struct kc_replay_fit fit = {.scenario = scenario, .log = &log, .first = 60, .free_count = 3,
                              .free = {KC_REPLAY_HOST, KC_REPLAY_PROMPT, KC_REPLAY_SCALE}};
  if (kc_replay_fit_run(&fit, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (fabs(fit.best[0] - 900) > 30) fail_msg("host: %.1f us of 900", fit.best[0]);
  if (fabs(fit.best[1] - 4000) > 400) fail_msg("prompt: %.1f us of 4000", fit.best[1]);
  if (fabs(fit.best[2] - 0.95) > 0.005) fail_msg("scale: %.4f of 0.95", fit.best[2]);
  assert_true(fit.low[0] <= fit.best[0] && fit.best[0] <= fit.high[0]);
  assert_true(fit.residual_median_percent < 0.5);
  /* Single requests may fall into a neighbouring step; the whole must not drift. */
  double made = 0, found = 0;
  for (size_t i = 0; i < log.count; i++) {
    made += log.row[i].e2e_s;
    found += fit.predicted[i].e2e_s;
  }
  if (fabs(found / made - 1) > 0.005) {
    fail_msg("E2E of all: off by %.2f %%", 100 * (found / made - 1));
  }
  kc_replay_fit_free(&fit);
  free(log.row);
  free(scenario);
}

/* What is written down is what was fitted: a run of the entry predicts the same times, and lies
 * within its own measurement. */
static void test_the_entry_is_the_fit(void **state)
{
  struct kc_diag diag;
  struct kc_scenario *scenario = load();
  struct kc_gpu_profile *profile = &scenario->pool[0].profile;
  struct kc_serving_log log = {.path = "made", .format = "made", .has_arrivals = true};
  struct kc_replay_worth worth;
  (void)state;
  log.count = rows_of(scenario);
  log.row = calloc(log.count, sizeof *log.row);
  struct kc_log_request *again = calloc(log.count, sizeof *again);
  assert_true(log.row != NULL && again != NULL && !profile->calibrated);
  profile->bandwidth_efficiency = 0.6;
  assert_int_equal(KC_OK, kc_replay_predict(scenario, log.row, log.count, &worth, &diag));
  assert_int_equal(KC_LEVEL_DATASHEET, worth.level);
  struct kc_replay_fit fit = {.scenario = scenario, .log = &log, .first = 20, .free_count = 1,
                              .free = {KC_REPLAY_WEIGHTS}};
  if (kc_replay_fit_run(&fit, &diag) != KC_OK) fail_msg("%s", diag.text);
  struct kc_gpu_profile entry;
  kc_replay_profile(&fit, "entry", "made", &entry);
  assert_false(entry.host_measured); /* the host term was not fitted */
  *profile = entry;
  assert_int_equal(KC_OK, kc_replay_predict(scenario, again, log.count, &worth, &diag));
  for (size_t i = 0; i < log.count; i++) {
    if (again[i].e2e_s == fit.predicted[i].e2e_s) continue;
    fail_msg("request %zu: %.9g s, fitted %.9g", i, again[i].e2e_s, fit.predicted[i].e2e_s);
  }
  assert_int_equal(KC_LEVEL_CALIBRATED, worth.level);
  kc_replay_fit_free(&fit);
  free(again);
  free(log.row);
  free(scenario);
}

/* Steps of three times what the first guess takes: every error is beyond what the fit looks at,
 * which once left it where it began. A link that nothing crosses is refused. */
static void test_far_from_the_first_guess(void **state)
{
  struct kc_diag diag = {0};
  struct kc_scenario *scenario = load();
  struct kc_gpu_profile *profile = &scenario->pool[0].profile;
  struct kc_serving_log log = {.path = "made", .format = "made", .has_arrivals = true};
  struct kc_replay_worth worth;
  (void)state;
  log.count = rows_of(scenario);
  log.row = calloc(log.count, sizeof *log.row);
  assert_non_null(log.row);
  profile->calibrated = true;
  profile->host_step_us = 15000;
  assert_int_equal(KC_OK, kc_replay_predict(scenario, log.row, log.count, &worth, &diag));
  struct kc_replay_fit fit = {.scenario = scenario, .log = &log, .first = 30, .free_count = 1,
                              .free = {KC_REPLAY_HOST}};
  if (kc_replay_fit_run(&fit, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (fabs(fit.best[0] - 15000) > 150) fail_msg("host: %.1f us of 15000", fit.best[0]);
  kc_replay_fit_free(&fit);
  fit = (struct kc_replay_fit){.scenario = scenario, .log = &log, .first = 30, .free_count = 2,
                               .free = {KC_REPLAY_HOST, KC_REPLAY_LINK}};
  assert_int_equal(KC_ERR_USAGE, kc_replay_fit_run(&fit, &diag));
  assert_non_null(strstr(diag.text, "\"link\" has no effect here"));
  kc_replay_fit_free(&fit);
  free(log.row);
  free(scenario);
}

static void test_too_few_and_another_load(void **state)
{
  struct kc_diag diag = {0};
  struct kc_scenario *scenario = load();
  struct kc_replay_worth worth;
  struct kc_serving_log log = {.path = "made", .format = "made"};
  (void)state;
  log.count = rows_of(scenario);
  log.row = calloc(log.count, sizeof *log.row);
  assert_non_null(log.row);
  assert_int_equal(KC_OK, kc_replay_predict(scenario, log.row, log.count, &worth, &diag));
  struct kc_replay_fit fit = {.scenario = scenario, .log = &log, .first = 2, .free_count = 2,
                              .free = {KC_REPLAY_HOST, KC_REPLAY_PROMPT}};
  assert_int_equal(KC_ERR_INPUT, kc_replay_fit_run(&fit, &diag));
  assert_non_null(strstr(diag.text, "fit fewer terms"));
  kc_replay_fit_free(&fit);
  log.row[3].input_tokens++;
  fit = (struct kc_replay_fit){.scenario = scenario, .log = &log, .first = 30, .free_count = 1,
                               .free = {KC_REPLAY_HOST}};
  assert_int_equal(KC_ERR_INPUT, kc_replay_fit_run(&fit, &diag));
  assert_non_null(strstr(diag.text, "must be the same load"));
  kc_replay_fit_free(&fit);
  free(log.row);
  free(scenario);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_terms_come_back),
                                     cmocka_unit_test(test_the_entry_is_the_fit),
                                     cmocka_unit_test(test_far_from_the_first_guess),
                                     cmocka_unit_test(test_too_few_and_another_load)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
