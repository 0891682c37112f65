/* Plans on real scenarios with small grids: the whole grid agrees, threads change nothing, what a
 * twin is said to give it gives, and what cannot be done is said. timeout: 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan/plan_details.h"
#include "sim/plan/plan_parts.h"
#include "sim/plan/rate.h"

enum { NONE_YET = UINT32_MAX };

static char scenario_path[512];

static const char *path_of(const char *name)
{
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(scenario_path, sizeof scenario_path, "%s/scenarios/examples/%s.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR, name);
  return scenario_path;
}

/* Chat traffic, four times and more as fast as it was. */
static const char *const chat[] = {"workload.limit=120", "workload.rate=12",
                                   "pools.serve.kv.page_size=64"};

static void require(struct kc_plan_request *request, const char *text)
{
  struct kc_diag diag = {0};
  if (kc_requirement_parse(&request->require[request->require_count++], text, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
}

static void list(struct kc_plan_request *request, enum kc_plan_axis_id axis, const char *text)
{
  struct kc_diag diag = {0};
  if (kc_space_axis_parse(&request->space, axis, text, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static struct kc_plan_request *chat_request(void)
{
  struct kc_plan_request *request = calloc(1, sizeof *request);
  assert_non_null(request);
  request->path = path_of("llama-3.1-8b-h100");
  request->sets = chat;
  request->set_count = sizeof chat / sizeof chat[0];
  request->threads = 1;
  request->version = "test";
  list(request, KC_AXIS_GPU, "h100,a100-80g");
  list(request, KC_AXIS_TENSOR, "1,2");
  list(request, KC_AXIS_CAP, "32,256");
  assert_int_equal(kc_space_replicas_parse(&request->space, "1..6", NULL), KC_OK);
  require(request, "ttft_p95_ms<=400");
  require(request, "tpot_p95_ms<=20");
  return request;
}

static struct kc_plan *solve(const struct kc_plan_request *request)
{
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  struct kc_plan *plan = calloc(1, sizeof *plan);
  if (kc_plan_open(plan, request, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
  if (kc_plan_solve(plan, &diag) != KC_OK) fail_msg("%s", diag.text);
  return plan;
}

static void close_plan(struct kc_plan *plan, struct kc_plan_request *request)
{
  kc_plan_free(plan);
  free(plan);
  free(request);
}

static void the_whole_grid_agrees(void **state)
{
  (void)state;
  static const enum kc_plan_objective goals[] = {KC_PLAN_USD, KC_PLAN_GPUS, KC_PLAN_OUTPUT_TOK_S,
                                                 KC_PLAN_GOODPUT};
  for (size_t i = 0; i < 4; i++) {
    struct kc_plan_request *request = chat_request();
    request->exhaustive = true;
    request->objective = goals[i];
    if (i > 1) request->budget_usd_hour = 24;
    struct kc_plan *plan = solve(request);
    assert_true(plan->found);
    assert_true(plan->agrees);
    assert_true(plan->count.runs < plan->count.exhaustive_runs);
    const struct kc_plan_run *winner = &plan->run[plan->winner];
    assert_true(winner->excess <= 1);
    assert_true(i <= 1 || kc_plan_usd_hour(plan, &winner->probe) <= 24);
    close_plan(plan, request);
  }
}

static void threads_change_nothing(void **state)
{
  (void)state;
  struct kc_plan_request *one = chat_request(), *four = chat_request();
  four->threads = 4;
  struct kc_plan *a = solve(one), *b = solve(four);
  assert_int_equal(a->run_count, b->run_count);
  assert_int_equal(a->winner, b->winner);
  assert_int_equal(a->runner_up, b->runner_up);
  for (uint32_t i = 0; i < a->run_count; i++) {
    assert_int_equal(a->run[i].probe.column, b->run[i].probe.column);
    assert_int_equal(a->run[i].probe.replicas, b->run[i].probe.replicas);
    assert_string_equal(a->run[i].result.result_sha256, b->run[i].result.result_sha256);
  }
  close_plan(a, one);
  close_plan(b, four);
}

/* A spare replica is bought and does not serve; headroom is traffic that comes faster. */
static void spare_and_headroom_cost(void **state)
{
  (void)state;
  struct kc_plan_request *plain = chat_request(), *spare = chat_request();
  struct kc_plan_request *faster = chat_request();
  spare->spare = 1;
  spare->exhaustive = true;
  faster->headroom = 0.5;
  struct kc_plan *a = solve(plain), *b = solve(spare), *c = solve(faster);
  assert_true(b->agrees);
  const struct kc_search_probe *x = &a->run[a->winner].probe, *y = &b->run[b->winner].probe;
  const struct kc_search_probe *z = &c->run[c->winner].probe;
  assert_true(kc_plan_usd_hour(b, y) > kc_plan_usd_hour(a, x));
  assert_int_equal(kc_plan_gpus(b, y), b->columns[y->column].gpus * (y->replicas + 1));
  assert_true(kc_plan_usd_hour(c, z) >= kc_plan_usd_hour(a, x));
  assert_true(c->workload.rate_s > 1.49 * a->workload.rate_s);
  close_plan(a, plain);
  close_plan(b, spare);
  close_plan(c, faster);
}

/* Candidates that the rule calls twins have the same result, to the byte. */
static void twins_are_equal(void **state)
{
  (void)state;
  static const char *const policies[] = {"pools.serve.scheduler.policy=vllm-0.19",
                                         "pools.serve.scheduler.policy=sglang-0.5"};
  int twins = 0;
  for (size_t p = 0; p < 2; p++) {
    struct kc_diag diag = {0};
    struct kc_plan_request *request = chat_request();
    const char *sets[] = {chat[0], chat[1], chat[2], policies[p]};
    request->sets = sets;
    request->set_count = 4;
    list(request, KC_AXIS_CAP, "8,16,24,32,48,64,128,512");
    list(request, KC_AXIS_GPU, "h100");
    request->exhaustive = true;
    struct kc_plan *plan = solve(request);
    assert_true(plan->agrees);
    struct kc_plan_sets *changes = calloc(1, sizeof *changes);
    uint32_t first = NONE_YET;
    for (uint32_t i = 0; i < plan->search_count; i++) {
      const struct kc_search_column *column = &plan->search[i];
      const struct kc_search_probe probe = {plan->searched[i], 2};
      uint32_t index;
      changes->count = 0;
      kc_plan_serving_sets(plan, &probe, changes);
      if (kc_plan_evaluate(plan, &probe, changes, &index, &diag) != KC_OK) {
        fail_msg("%s", diag.text);
      }
      const struct kc_plan_run *run = &plan->run[index];
      const double peak = run->result.figures.value[KC_FIGURE_MAX_RUNNING_REPLICA];
      if (i > 0 && column->twin == plan->search[i - 1].twin && first != NONE_YET) {
        assert_string_equal(run->result.result_sha256,
                            plan->run[first].result.result_sha256);
        twins++;
      } else {
        first = NONE_YET;
      }
      if (peak < column->cap && first == NONE_YET) first = index; /* larger caps follow */
    }
    free(changes);
    close_plan(plan, request);
  }
  print_message("%d twins\n", twins);
  assert_true(twins > 10);
}

/* Whatever a bound excludes fails when it is run all the same: dense and with experts, vllm and
 * sglang. */
static void what_bounds_exclude_fails(void **state)
{
  (void)state;
  static const char *const changes[][2] = {
      {"workload.rate=96", "pools.serve.moe.skew=0"},
      {"workload.rate=96", "model=qwen3-30b-a3b"},
      {"workload.rate=96", "pools.serve.scheduler.policy=sglang-0.5"}};
  int excluded = 0;
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    struct kc_diag diag = {0};
    struct kc_plan_request *request = chat_request();
    const char *sets[] = {"workload.limit=300", chat[2], changes[i][0], changes[i][1]};
    request->sets = sets;
    request->set_count = 4;
    require(request, "e2e_p95_ms<=4000");
    struct kc_plan *plan = solve(request);
    struct kc_plan_sets *made = calloc(1, sizeof *made);
    for (uint32_t c = 0; c < plan->search_count; c += 3) {
      for (uint32_t r = 1; r <= 6 && r < plan->search[c].replicas_min; r++) {
        const struct kc_search_probe probe = {plan->searched[c], r};
        uint32_t index;
        made->count = 0;
        kc_plan_serving_sets(plan, &probe, made);
        if (kc_plan_evaluate(plan, &probe, made, &index, &diag) != KC_OK) {
          fail_msg("%s", diag.text);
        }
        assert_true(plan->run[index].excess > 1);
        excluded++;
      }
    }
    free(made);
    close_plan(plan, request);
  }
  print_message("%d candidates that bounds exclude, each run and failed\n", excluded);
  assert_true(excluded > 20);
}

/* A requirement that more replicas can miss: no failure of it decides another, and the grid
 * agrees. Beside it, failures of latencies still do. */
static void costs_are_no_reason_to_skip(void **state)
{
  (void)state;
  for (int alone = 0; alone < 2; alone++) {
    struct kc_plan_request *request = chat_request();
    if (alone == 1) request->require_count = 0;
    require(request, "output_tok_s_gpu>=1200");
    request->exhaustive = true;
    struct kc_plan *plan = solve(request);
    const uint64_t skipped = plan->count.decided[KC_SEARCH_REPLICAS] +
                             plan->count.decided[KC_SEARCH_FASTER];
    assert_false(plan->monotone);
    assert_true(plan->agrees);
    assert_int_equal(skipped > 0, alone == 0);
    close_plan(plan, request);
  }
}

/* Prices that bounds exclude: each such candidate is run, as many as the threads of patience allow,
 * and costs too much. Traces and closed loops, dense and with experts. */
static void what_costs_too_much_is_not_run(void **state)
{
  (void)state;
  static const struct {
    const char *scenario, *sets[4], *slo;
  } cases[] = {
      {"llama-3.1-8b-h100", {"workload.limit=150", "workload.rate=12"}, "usd_per_mtok<=2.2"},
      {"llama-3.1-8b-h100", {"workload.limit=150", "workload.rate=96", "price.cold_start=30s"},
       "usd_total<=0.2"},
      {"llama-3.1-8b-h100", {"workload.limit=150", "workload.rate=24", "model=qwen3-30b-a3b"},
       "usd_per_mtok<=1.5"},
      {"kimi-k2.6-decode-8xh200", {"workload.closed.requests=96", "workload.closed.output=100"},
       "usd_per_mtok<=4.5"}};
  int excluded = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_diag diag = {0};
    struct kc_plan_request *request = calloc(1, sizeof *request);
    int here = 0;
    *request = (struct kc_plan_request){.path = path_of(cases[i].scenario),
                                        .sets = cases[i].sets, .threads = 2, .version = "test"};
    while (request->set_count < 4 && cases[i].sets[request->set_count] != NULL) {
      request->set_count++;
    }
    list(request, KC_AXIS_GPU, "h200,b200");
    list(request, KC_AXIS_PAGE, "64");
    if (kc_space_replicas_parse(&request->space, "1..8", &diag) != KC_OK) fail_msg("%s", diag.text);
    require(request, cases[i].slo);
    struct kc_plan *plan = solve(request);
    struct kc_plan_sets *made = calloc(1, sizeof *made);
    for (uint32_t c = 0; c < plan->search_count; c += plan->search_count > 20 ? 2 : 1) {
      for (uint32_t r = 1; r <= 8; r++) {
        const struct kc_search_probe probe = {plan->searched[c], r};
        uint32_t index;
        if (r >= plan->search[c].replicas_min && r <= plan->search[c].replicas_max) continue;
        made->count = 0;
        kc_plan_serving_sets(plan, &probe, made);
        if (kc_plan_evaluate(plan, &probe, made, &index, &diag) != KC_OK) {
          fail_msg("%s", diag.text);
        }
        if (plan->run[index].excess <= 1) fail_msg("%s: %u replicas meet it", cases[i].slo, r);
        here++;
      }
    }
    print_message("%s: %d candidates excluded\n", cases[i].slo, here);
    assert_true(here > 0);
    excluded += here;
    free(made);
    close_plan(plan, request);
  }
  assert_true(excluded > 40);
}

static void the_impossible_is_explained(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_plan_part part[KC_REQUIREMENTS_MAX];
  struct kc_plan_lost lost;
  struct kc_plan_request *request = chat_request();
  request->require_count = 0;
  require(request, "ttft_p95_ms<=5");
  require(request, "tpot_p95_ms<=20");
  struct kc_plan *plan = solve(request);
  assert_false(plan->found);
  assert_int_equal(plan->count.runs, 0);
  assert_int_equal(kc_plan_explain(plan, part, &lost, &diag), KC_OK);
  assert_true(part[0].impossible);
  assert_true(part[0].floor > 5);
  assert_true(part[0].prompt_tokens > 1000);
  assert_false(part[0].met);
  assert_false(part[1].impossible);
  assert_true(part[1].met);
  assert_false(lost.impossible);
  assert_true(plan->near_miss < plan->run_count);
  assert_true(plan->run[plan->near_miss].result.figures.value[KC_FIGURE_TTFT_P95_MS] >=
              part[0].floor);
  close_plan(plan, request);
}

static void what_does_not_fit_is_not_run(void **state)
{
  (void)state;
  static const char *const sets[] = {"workload.limit=50", "model=llama-3.1-70b"};
  struct kc_diag_list problems;
  struct kc_plan_request *request = chat_request();
  struct kc_plan *plan = calloc(1, sizeof *plan);
  request->sets = sets;
  request->set_count = 2;
  list(request, KC_AXIS_TENSOR, "1");
  assert_int_equal(kc_plan_open(plan, request, &problems), KC_ERR_NO_FIT);
  assert_non_null(strstr(problems.items[0].text, "does not fit"));
  kc_plan_free(plan);
  list(request, KC_AXIS_TENSOR, "1,4"); /* some do */
  assert_int_equal(kc_plan_open(plan, request, &problems), KC_OK);
  assert_true(plan->count.no_fit > 0);
  assert_true(plan->search_count + plan->count.no_fit == plan->column_count);
  close_plan(plan, request);
}

static void units_are_evaluations(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_plan_units units;
  struct kc_plan_limits limits;
  struct kc_plan_request *request = chat_request();
  struct kc_plan *plan = solve(request);
  assert_int_equal(kc_plan_next_units(plan, &units, &diag), KC_OK);
  assert_int_equal(kc_plan_limits(plan, &limits, &diag), KC_OK);
  assert_true(units.count >= 5);
  assert_int_equal(plan->count.runs_after, units.count + 1);
  const struct kc_plan_run *winner = &plan->run[plan->winner];
  for (uint32_t i = 0; i < units.count; i++) {
    const struct kc_plan_unit *unit = &units.unit[i];
    if (!unit->possible) fail_msg("%s: %s", unit->what, unit->why.text);
    assert_string_not_equal(plan->run[unit->run].result.config_sha256,
                            winner->result.config_sha256);
  }
  assert_true(limits.known);
  const double sum = limits.prefill + limits.decode + limits.host + limits.idle;
  assert_true(sum > 0.999999 && sum < 1.000001);
  const double busy = winner->result.figures.value[KC_FIGURE_BUSY_SHARE];
  assert_true(limits.idle > 1 - busy - 1e-6 && limits.idle < 1 - busy + 1e-6);
  close_plan(plan, request);
}

/* The answer held, one a little higher did not, and both were run. */
static void the_highest_rate_is_bracketed(void **state)
{
  (void)state;
  static const struct {
    const char *scenario;
    bool closed;
  } cases[] = {{"llama-3.1-8b-h100", false}, {"kimi-k2.6-decode-8xh200", true}};
  for (size_t i = 0; i < 2; i++) {
    static const char *const sets[] = {"workload.limit=400"};
    struct kc_diag_list problems;
    struct kc_rate *rate = calloc(1, sizeof *rate);
    struct kc_rate_request *request = calloc(1, sizeof *request);
    *request = (struct kc_rate_request){.path = path_of(cases[i].scenario), .sets = sets,
                                        .set_count = cases[i].closed ? 0 : 1, .tolerance = 0.02,
                                        .inputs = kc_inputs_create(), .version = "test"};
    if (kc_rate_find(rate, request, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
    assert_int_equal(rate->closed, cases[i].closed);
    assert_true(rate->best < rate->probe_count && rate->above < rate->probe_count);
    const struct kc_rate_probe *best = &rate->probe[rate->best];
    const struct kc_rate_probe *above = &rate->probe[rate->above];
    assert_true(best->holds && best->excess <= 1);
    assert_true(!above->holds && above->excess > 1);
    assert_true(above->load > best->load);
    assert_true((double)(above->load - best->load) <= 0.02 * (double)best->load + 1);
    kc_inputs_destroy(request->inputs);
    free(request);
    free(rate);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_whole_grid_agrees),
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(spare_and_headroom_cost),
      cmocka_unit_test(twins_are_equal),
      cmocka_unit_test(what_bounds_exclude_fails),
      cmocka_unit_test(costs_are_no_reason_to_skip),
    cmocka_unit_test(what_costs_too_much_is_not_run),
      cmocka_unit_test(the_impossible_is_explained),
      cmocka_unit_test(what_does_not_fit_is_not_run),
      cmocka_unit_test(units_are_evaluations),
      cmocka_unit_test(the_highest_rate_is_bracketed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
