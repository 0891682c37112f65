/* The plan itself: opens, evaluates, searches, chooses (see plan.h). Set-up code around runs: it
 * may allocate. */
#include "sim/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/judge.h"
#include "sim/plan/plan_parts.h"
#include "sim/plan/plan_store.h"

enum { NONE = UINT32_MAX };

/* Replicas divide a prefix cache among them, so one more can cost as much as it gains: only who
 * misses a limit by its double is out of the question. */
#define CACHED_MARGIN 1.0

bool kc_plan_wants_most(enum kc_plan_objective objective, enum kc_figure *figure)
{
  KC_ASSERT(objective <= KC_PLAN_OUTPUT_TOK_S);
  *figure = objective == KC_PLAN_GOODPUT ? KC_FIGURE_GOODPUT_REQ_S : KC_FIGURE_OUTPUT_TOK_S;
  return objective == KC_PLAN_GOODPUT || objective == KC_PLAN_OUTPUT_TOK_S;
}

/* ---- opening ---- */

static enum kc_err add_problem(struct kc_diag_list *problems, const struct kc_diag *diag)
{
  KC_ASSERT(diag->code != KC_OK);
  return kc_diag_list_add(problems, diag->code, diag->path, diag->line, diag->column, "%s",
                          diag->text);
}

static bool is_highest(const struct kc_plan *plan)
{
  enum kc_figure figure;
  return kc_plan_wants_most(plan->request.objective, &figure);
}

/* What was demanded, or else what the scenario aims at. */
static enum kc_err take_requirements(struct kc_plan *plan, struct kc_diag *diag)
{
  const struct kc_plan_request *request = &plan->request;
  const struct kc_scenario *scenario = &plan->base.scenario;
  KC_ASSERT(request->require_count <= KC_REQUIREMENTS_MAX);
  memcpy(plan->require, request->require, sizeof plan->require);
  plan->require_count = request->require_count;
  if (plan->require_count > 0) return KC_OK;
  plan->require_count = kc_judge_slo(scenario, plan->require);
  if (plan->require_count > 0 || is_highest(plan)) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0, "states no slo, so any deployment "
                    "that fits would do: add slo: {ttft_p95_ms: ..., tpot_p95_ms: ...} or give "
                    "--slo, such as --slo 'ttft_p95_ms<=2000'");
}

static enum kc_err check_request(const struct kc_plan *plan, struct kc_diag *diag)
{
  const struct kc_plan_request *request = &plan->request;
  KC_ASSERT(request->threads >= 1);
  if (is_highest(plan) && request->budget_usd_hour <= 0 && request->gpus_max == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "the most for the money needs to know how much: give "
                   "--budget-usd-hour or --gpus-max");
  }
  if (request->headroom > 0 && plan->base.scenario.workload.is_closed) {
    return kc_fail_at(diag, KC_ERR_INPUT, plan->base.scenario.path, 0, 0, "is a closed workload, "
                      "which has no rate to leave headroom for: give it a trace, or raise "
                      "workload.closed.concurrency instead of --headroom");
  }
  return KC_OK;
}

static enum kc_err open_plan(struct kc_plan *plan, struct kc_diag *diag)
{
  KC_TRY(check_request(plan, diag));
  KC_TRY(take_requirements(plan, diag));
  plan->monotone = true;
  for (uint32_t i = 0; i < plan->require_count; i++) {
    plan->monotone = plan->monotone && kc_judge_helped(&plan->require[i]);
  }
  KC_TRY(kc_space_complete(&plan->request.space, &plan->base.scenario, diag));
  plan->inputs = kc_inputs_create();
  if (plan->inputs == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the inputs");
  KC_TRY(kc_plan_build_columns(plan, diag));
  return kc_plan_store_open(plan, diag);
}

enum kc_err kc_plan_open(struct kc_plan *plan, const struct kc_plan_request *request,
                         struct kc_diag_list *problems)
{
  struct kc_diag diag = {0};
  memset(plan, 0, sizeof *plan);
  plan->request = *request;
  plan->winner = plan->runner_up = plan->near_miss = NONE;
  KC_TRY(kc_point_load(&plan->base, request->path, request->sets, request->set_count, problems));
  if (open_plan(plan, &diag) == KC_OK) return KC_OK;
  return add_problem(problems, &diag);
}

void kc_plan_free(struct kc_plan *plan)
{
  free(plan->columns);
  free(plan->search);
  free(plan->searched);
  free(plan->run);
  kc_bound_workload_free(&plan->workload);
  kc_known_close(&plan->known);
  kc_inputs_destroy(plan->inputs);
  memset(plan, 0, sizeof *plan);
}

/* ---- evaluating ---- */

static enum kc_err reserve_run(struct kc_plan *plan, uint32_t more, struct kc_diag *diag)
{
  if (plan->run_count + more <= plan->run_capacity) return KC_OK;
  const uint32_t capacity = 2 * plan->run_capacity + more + 64;
  struct kc_plan_run *grown = realloc(plan->run, capacity * sizeof *grown);
  if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the runs of the plan");
  plan->run = grown;
  plan->run_capacity = capacity;
  return KC_OK;
}

struct batch {
  struct kc_plan *plan;
  const struct kc_plan_sets *sets; /* [task] */
  struct kc_plan_run *run;         /* [task] */
  enum kc_err err[KC_SEARCH_BATCH];
};

static void evaluate_task(void *context, uint32_t task)
{
  struct batch *batch = context;
  const struct kc_plan *plan = batch->plan;
  struct kc_plan_run *run = &batch->run[task];
  const char *all[KC_PLAN_ALL_SETS_MAX];
  struct kc_point *scratch = calloc(1, sizeof *scratch);
  KC_ASSERT(task < KC_SEARCH_BATCH);
  if (scratch == NULL) {
    batch->err[task] = kc_fail(&run->result.why, KC_ERR_MEMORY, "no memory for a scenario");
    return;
  }
  const struct kc_point_context points = {.inputs = plan->inputs,
                                          .version = plan->request.version,
                                          .interrupted = plan->request.interrupted,
                                          .known = plan->request.store != NULL
                                                       ? kc_known_answer : NULL,
                                          .known_context = (void *)&plan->known};
  const struct kc_point_spec spec = {
      .path = plan->request.path, .sets = all,
      .set_count = kc_plan_all_sets(plan, &batch->sets[task], all)};
  batch->err[task] = kc_point_evaluate(&points, &spec, scratch, &run->result);
  if (batch->err[task] == KC_OK && (run->result.status == KC_POINT_REFUSED ||
                                    run->result.status == KC_POINT_FAILED)) {
    batch->err[task] = run->result.why.code;
  }
  free(scratch);
}

/* Evaluates up to KC_SEARCH_BATCH candidates at once and appends them to run[] in order. `number`:
 * of their points in the database. */
static enum kc_err evaluate_batch(struct kc_plan *plan, const struct kc_search_probe *probe,
                                  const struct kc_plan_sets *sets, const uint64_t *number,
                                  uint32_t count, struct kc_diag *diag)
{
  KC_ASSERT(count > 0 && count <= KC_SEARCH_BATCH);
  KC_TRY(reserve_run(plan, count, diag));
  struct batch batch = {.plan = plan, .sets = sets, .run = &plan->run[plan->run_count]};
  memset(batch.run, 0, count * sizeof *batch.run);
  kc_plan_work(plan->request.threads, count, evaluate_task, &batch);
  for (uint32_t i = 0; i < count; i++) {
    if (batch.err[i] != KC_OK) {
      *diag = batch.run[i].result.why;
      if (batch.err[i] != KC_ERR_INTERRUPTED) return batch.err[i];
      return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted");
    }
  }
  KC_TRY(kc_plan_store_batch(plan, plan->run_count, count, number, sets, diag));
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_judgement judgement = kc_judge(plan->require, plan->require_count,
                                                   plan->request.lost, &batch.run[i].result);
    batch.run[i].probe = probe[i];
    batch.run[i].number = number[i];
    batch.run[i].excess = judgement.excess;
    batch.run[i].worst = judgement.worst;
    batch.run[i].helped = judgement.helped;
  }
  plan->run_count += count;
  if (plan->request.progress != NULL) {
    plan->request.progress(plan->request.progress_context, plan->run_count, plan->planned_runs);
  }
  return KC_OK;
}

enum kc_err kc_plan_evaluate(struct kc_plan *plan, const struct kc_search_probe *probe,
                             const struct kc_plan_sets *sets, uint32_t *index,
                             struct kc_diag *diag)
{
  const uint64_t number = (uint64_t)plan->column_count * plan->request.space.replica_count +
                          plan->count.runs_after % KC_PLAN_DETAILS_MAX;
  KC_TRY(evaluate_batch(plan, probe, sets, &number, 1, diag));
  KC_ASSERT(plan->run_count > 0);
  *index = plan->run_count - 1;
  plan->count.runs_after++;
  return KC_OK;
}

/* ---- searching ---- */

/* What the search sees of an evaluation. */
static struct kc_search_verdict verdict_of(const struct kc_plan *plan,
                                           const struct kc_plan_run *run)
{
  const struct kc_figure_set *figures = &run->result.figures;
  enum kc_figure high;
  (void)kc_plan_wants_most(plan->request.objective, &high);
  struct kc_search_verdict verdict = {.feasible = run->excess <= 1, .excess = run->helped,
                                      .value = figures->value[high],
                                      .peak_running = UINT32_MAX, .peak_pages = UINT32_MAX};
  const double running = figures->value[KC_FIGURE_MAX_RUNNING_REPLICA];
  const struct kc_plan_column *column = &plan->columns[run->probe.column];
  KC_ASSERT(column->page_size > 0);
  if (run->result.status != KC_POINT_DONE || !figures->known[KC_FIGURE_MAX_RUNNING_REPLICA] ||
      !figures->known[KC_FIGURE_KV_PEAK_SHARE]) {
    return verdict;
  }
  verdict.peak_running = (uint32_t)running;
  verdict.peak_pages = (uint64_t)(figures->value[KC_FIGURE_KV_PEAK_SHARE] *
                                  figures->value[KC_FIGURE_KV_TOKENS] / column->page_size + 1);
  return verdict;
}

/* The search's own numbers of columns are those of searched[]. */
static enum kc_err evaluate(void *context, const struct kc_search_probe *probe, uint32_t count,
                            struct kc_search_verdict *verdict, struct kc_diag *diag)
{
  struct kc_plan *plan = context;
  struct kc_search_probe own[KC_SEARCH_BATCH] = {{0, 0}};
  uint64_t number[KC_SEARCH_BATCH] = {0};
  struct kc_plan_sets *sets = calloc(count, sizeof *sets);
  if (sets == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the changes");
  for (uint32_t i = 0; i < count; i++) {
    KC_ASSERT(probe[i].column < plan->search_count);
    own[i] = (struct kc_search_probe){plan->searched[probe[i].column], probe[i].replicas};
    kc_plan_serving_sets(plan, &own[i], &sets[i]);
    number[i] = kc_plan_store_number(plan, &own[i]);
  }
  const uint32_t first = plan->run_count;
  const enum kc_err err = evaluate_batch(plan, own, sets, number, count, diag);
  free(sets);
  for (uint32_t i = 0; err == KC_OK && i < count; i++) {
    verdict[i] = verdict_of(plan, &plan->run[first + i]);
  }
  return err;
}

static struct kc_search_problem problem_of(struct kc_plan *plan)
{
  const struct kc_plan_request *request = &plan->request;
  const bool gpus_first = request->objective == KC_PLAN_GPUS;
  struct kc_search_problem problem = {.column = plan->search,
                                      .column_count = plan->search_count,
                                      .replicas = request->space.replicas,
                                      .replica_count = request->space.replica_count,
                                      .spare = request->spare,
                                      .margin = plan->cached ? CACHED_MARGIN : KC_SEARCH_MARGIN,
                                      .cost_max = {UINT64_MAX, UINT64_MAX},
                                      .evaluate = evaluate,
                                      .context = plan};
  KC_ASSERT(plan->search_count > 0);
  if (request->budget_usd_hour > 0) {
    problem.cost_max[gpus_first ? 1 : 0] = (uint64_t)(request->budget_usd_hour * 1e6 + 0.5);
  }
  if (request->gpus_max > 0) problem.cost_max[gpus_first ? 0 : 1] = request->gpus_max;
  return problem;
}

/* ---- choosing ---- */

/* The order of plans, as the search has it: negative when `a` is better. Both meet the SLO. */
static int compare(const struct kc_plan *plan, const struct kc_plan_run *a,
                   const struct kc_plan_run *b)
{
  if (is_highest(plan)) {
    const double x = verdict_of(plan, a).value, y = verdict_of(plan, b).value;
    if (x > y) return -1;
    if (x < y) return 1;
  }
  const double usd[] = {kc_plan_usd_hour(plan, &a->probe), kc_plan_usd_hour(plan, &b->probe)};
  const double gpus[] = {kc_plan_gpus(plan, &a->probe), kc_plan_gpus(plan, &b->probe)};
  const bool gpus_first = plan->request.objective == KC_PLAN_GPUS;
  const double *const first = gpus_first ? gpus : usd, *const second = gpus_first ? usd : gpus;
  if (first[0] < first[1]) return -1;
  if (first[0] > first[1]) return 1;
  if (second[0] < second[1]) return -1;
  if (second[0] > second[1]) return 1;
  return (a->probe.column > b->probe.column) - (a->probe.column < b->probe.column);
}

bool kc_plan_before(const struct kc_plan *plan, const struct kc_plan_run *a,
                    const struct kc_plan_run *b)
{
  KC_ASSERT(a != NULL && b != NULL);
  return compare(plan, a, b) < 0;
}

static void choose(struct kc_plan *plan)
{
  const struct kc_plan_run *winner = plan->found ? &plan->run[plan->winner] : NULL;
  KC_ASSERT(plan->runner_up == NONE && plan->near_miss == NONE);
  for (uint32_t i = 0; i < plan->run_count; i++) {
    const struct kc_plan_run *run = &plan->run[i];
    if (i == plan->winner) continue;
    if (run->excess <= 1) {
      if (plan->runner_up == NONE || compare(plan, run, &plan->run[plan->runner_up]) < 0) {
        plan->runner_up = i;
      }
      continue;
    }
    if (winner != NULL && compare(plan, run, winner) > 0) continue;
    if (plan->near_miss == NONE || run->excess < plan->run[plan->near_miss].excess) {
      plan->near_miss = i;
    }
  }
}

/* The entry of run[] of a search's winner. */
static uint32_t entry_of(const struct kc_plan *plan, const struct kc_search_result *result)
{
  KC_ASSERT(result->found && result->best < result->run_count);
  const struct kc_search_probe *probe = &result->run[result->best].probe;
  for (uint32_t i = 0; i < plan->run_count; i++) {
    const struct kc_plan_run *run = &plan->run[i];
    if (run->probe.column == plan->searched[probe->column] &&
        run->probe.replicas == probe->replicas) {
      return i;
    }
  }
  return NONE;
}

/* Evaluates the whole grid and compares its winner with the search's. What it ran does not count
 * among the search's runs. */
static enum kc_err check_exhaustively(struct kc_plan *plan, const struct kc_search_result *few,
                                      struct kc_diag *diag)
{
  const struct kc_search_problem problem = problem_of(plan);
  struct kc_search_result all;
  const uint32_t own = plan->run_count;
  plan->planned_runs = own + few->candidates;
  const enum kc_err err = kc_search_all(&problem, is_highest(plan), &all, diag);
  plan->count.exhaustive_runs = all.run_count;
  plan->agrees = err == KC_OK && few->found == all.found;
  if (plan->agrees && few->found) {
    const struct kc_search_probe *a = &few->run[few->best].probe, *b = &all.run[all.best].probe;
    plan->agrees = a->column == b->column && a->replicas == b->replicas;
  }
  if (err == KC_OK && !plan->agrees && all.found) {
    const struct kc_search_probe *probe = &all.run[all.best].probe;
    plan->has_better = true;
    plan->better = (struct kc_search_probe){plan->searched[probe->column], probe->replicas};
  }
  KC_ASSERT(own <= plan->run_count);
  plan->planned_runs = 0;
  plan->run_count = own;
  kc_search_free(&all);
  return err;
}

enum kc_err kc_plan_solve(struct kc_plan *plan, struct kc_diag *diag)
{
  const struct kc_search_problem problem = problem_of(plan);
  struct kc_search_result result;
  enum kc_err err = is_highest(plan) ? kc_search_highest(&problem, &result, diag)
                                     : kc_search_cheapest(&problem, &result, diag);
  KC_ASSERT(plan->run_count == result.run_count || err != KC_OK);
  plan->count.runs = result.run_count;
  plan->count.candidates = result.candidates;
  memcpy(plan->count.decided, result.decided, sizeof plan->count.decided);
  plan->found = err == KC_OK && result.found;
  if (plan->found) plan->winner = entry_of(plan, &result);
  if (err == KC_OK) choose(plan);
  if (err == KC_OK && plan->request.exhaustive) err = check_exhaustively(plan, &result, diag);
  kc_search_free(&result);
  return err;
}
