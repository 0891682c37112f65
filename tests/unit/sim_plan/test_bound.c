/* Bounds against runs: whatever the load, no figure of a run lies below its floor, and no run does
 * its work in less time than the bound says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan/bound.h"

struct question {
  const char *scenario;
  const char *sets[8];
};

static const struct question questions[] = {
    {"llama-3.1-8b-h100", {"workload.limit=200", "workload.rate=1/50"}},
    {"llama-3.1-8b-h100", {"workload.limit=300", "workload.rate=16"}},
    {"llama-3.1-8b-h100", {"workload.limit=300", "workload.rate=64", "pools.serve.replicas=3"}},
    {"llama-3.1-8b-h100", {"workload.limit=200", "pools.serve.scheduler.max_running=8",
                           "workload.rate=8", "pools.serve.parallel.tensor=2"}},
    {"llama-3.1-8b-h100", {"workload.limit=200", "pools.serve.scheduler.max_batched_tokens=1024",
                           "workload.rate=1/20"}},
    {"llama-3.1-8b-starved", {"workload.limit=200"}},
    {"llama-3.1-8b-h100", {"workload.limit=200", "pools.serve.scheduler.policy=sglang-0.5",
                           "pools.serve.memory={rule: sglang}", "workload.rate=16",
                           "pools.serve.kv.page_size=64"}},
    {"llama-3.1-8b-h100", {"workload.limit=200", "model=qwen3-30b-a3b", "workload.rate=32"}},
    {"llama-3.1-8b-h100", {"workload.limit=200", "model=gpt-oss-120b", "workload.rate=8",
                           "pools.serve.parallel.tensor=2"}},
    {"llama-3.1-8b-sessions", {"workload.loop=closed"}},
    {"glm-5.2-agents-8xh200", {"workload.limit=100", "workload.classes=null",
                               "workload.timeout=null"}},
    {"kimi-k2.6-decode-8xh200", {"workload.closed.requests=64"}},
    {"kimi-k2.6-decode-8xh200", {"workload.closed.requests=96", "workload.closed.concurrency=3"}},
    {"kimi-k2.6-decode-8xh200", {"workload.closed.requests=256", "workload.closed.output=50",
                                 "workload.closed.concurrency=128"}},
    {"llama-3.1-70b-fp8-2xh100", {"workload.closed.requests=64"}},
};

static struct kc_scenario *load(const struct question *question)
{
  char path[512];
  size_t count = 0;
  struct kc_diag_list problems;
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  const char *source = getenv("KVCAP_SOURCE");
  assert_non_null(scenario);
  while (question->sets[count] != NULL) count++;
  snprintf(path, sizeof path, "%s/scenarios/examples/%s.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR, question->scenario);
  if (kc_scenario_load(scenario, path, question->sets, count, &problems) != KC_OK) {
    fail_msg("%s: %s", question->scenario, problems.items[0].text);
  }
  return scenario;
}

static void check_floors(const struct question *question, const struct kc_run *run,
                         const struct kc_figure_set *floors, int *known)
{
  struct kc_figure_set figures;
  kc_figures_of_run(run, &figures);
  for (int f = 0; f < KC_FIGURES; f++) {
    if (!floors->known[f] || !figures.known[f]) continue;
    ++*known;
    /* Figures are rounded to a picosecond, a mean of gaps once more. */
    if (figures.value[f] >= floors->value[f] * (1 - 1e-9)) continue;
    fail_msg("%s (%s): %s is %.6f, its floor %.6f", question->scenario, question->sets[0],
             kc_figure_name((enum kc_figure)f), figures.value[f], floors->value[f]);
  }
}

static void no_run_beats_its_bounds(void **state)
{
  (void)state;
  int known = 0, spans = 0;
  for (size_t q = 0; q < sizeof questions / sizeof questions[0]; q++) {
    struct kc_diag diag = {0};
    struct kc_bound_workload workload;
    struct kc_figure_set floors;
    struct kc_scenario *scenario = load(&questions[q]);
    struct kc_run *run = calloc(1, sizeof *run);
    if (kc_run_prepare(run, scenario, &diag) != KC_OK) fail_msg("%s", diag.text);
    assert_int_equal(kc_bound_workload_of(&workload, run, &diag), KC_OK);
    assert_int_equal(kc_bound_floors(run, &workload, &floors, &diag), KC_OK);
    const double work_s = kc_bound_work_s(run, &workload, 0);
    const double span_s = kc_bound_span_s(&workload, &floors);
    const double lost = kc_bound_lost(run, &workload);
    if (kc_run_execute(run, &diag) != KC_OK) fail_msg("%s", diag.text);
    const struct kc_summary *s = &run->result.summary;
    check_floors(&questions[q], run, &floors, &known);
    const double makespan_s = (double)s->makespan_ps / 1e12;
    spans += span_s > 0;
    if (makespan_s < span_s * (1 - 1e-9)) {
      fail_msg("%s (%zu): %.6f s long, bound %.6f", questions[q].scenario, q, makespan_s, span_s);
    }
    assert_true((double)s->output_tokens <= workload.output_tokens);
    if (s->requests_by_status[KC_STATUS_COMPLETED] ==
                                             s->requests_total) {
      const double busy_s = (double)s->busy_ps / 1e12;
      if (busy_s < work_s) {
        fail_msg("%s (%zu): %.6f s of work, bound %.6f", questions[q].scenario, q, busy_s, work_s);
      }
      assert_true(lost <= 0);
    } else if (workload.certain) {
      const double answered = (double)s->requests_by_status[KC_STATUS_COMPLETED];
      assert_true(answered <= (1 - lost) * (double)s->requests_total + 1e-6);
    }
    kc_bound_workload_free(&workload);
    kc_run_deinit(run);
    free(run);
    free(scenario);
  }
  print_message("%d figures at or above their floors\n", known);
  assert_true(known > 100);
  assert_int_equal(spans, sizeof questions / sizeof questions[0] - 2); /* but for sessions */
}

/* Alone on the server the floors are what is seen, but for contexts rounded down and the host. */
static void floors_are_near_when_nobody_else_is_there(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_bound_workload workload;
  struct kc_figure_set floors, figures;
  struct kc_scenario *scenario = load(&questions[0]);
  struct kc_run *run = calloc(1, sizeof *run);
  assert_int_equal(kc_run_prepare(run, scenario, &diag), KC_OK);
  assert_int_equal(kc_bound_workload_of(&workload, run, &diag), KC_OK);
  assert_int_equal(kc_bound_floors(run, &workload, &floors, &diag), KC_OK);
  assert_int_equal(kc_run_execute(run, &diag), KC_OK);
  kc_figures_of_run(run, &figures);
  static const enum kc_figure near[] = {KC_FIGURE_TTFT_P50_MS, KC_FIGURE_TTFT_P95_MS,
                                        KC_FIGURE_TPOT_P50_MS, KC_FIGURE_E2E_P50_MS};
  for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
    assert_true(floors.known[near[i]]);
    const double ratio = figures.value[near[i]] / floors.value[near[i]];
    if (ratio > 1.25) fail_msg("%s: %.3f times its floor", kc_figure_name(near[i]), ratio);
  }
  kc_bound_workload_free(&workload);
  kc_run_deinit(run);
  free(run);
  free(scenario);
}

/* Someone who may give up is in no percentile, so nothing is certain. */
static void impatience_takes_the_floors_away(void **state)
{
  (void)state;
  static const struct question impatient = {"llama-3.1-8b-h100",
                                            {"workload.limit=50", "workload.timeout=10s"}};
  struct kc_diag diag = {0};
  struct kc_bound_workload workload;
  struct kc_figure_set floors;
  struct kc_scenario *scenario = load(&impatient);
  struct kc_run *run = calloc(1, sizeof *run);
  assert_int_equal(kc_run_prepare(run, scenario, &diag), KC_OK);
  assert_int_equal(kc_bound_workload_of(&workload, run, &diag), KC_OK);
  assert_false(workload.certain);
  assert_int_equal(kc_bound_floors(run, &workload, &floors, &diag), KC_OK);
  for (int f = 0; f < KC_FIGURES; f++) assert_false(floors.known[f]);
  kc_bound_workload_free(&workload);
  kc_run_deinit(run);
  free(run);
  free(scenario);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_run_beats_its_bounds),
      cmocka_unit_test(floors_are_near_when_nobody_else_is_there),
      cmocka_unit_test(impatience_takes_the_floors_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
