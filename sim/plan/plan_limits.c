/* What limits the winner (see plan_details.h): one more run of it, watched step by step. Set-up
 * code around a run: it may allocate.
 *
 *   step --watch--> executor        what the step would cost without its prompts, and without the
 *                                   host's part, by the same step model
 *   timeline                        when requests waited while the fullest pool had no page left
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/plan_details.h"
#include "sim/plan/plan_parts.h"

/* A pool this full has no room for one more request; memory limits who waits so long. */
#define POOL_FULL 0.95
#define MEMORY_MATTERS 0.1
#define MOSTLY 0.5

/* Idle for this share of the time: requests that wait do so because they come at once. */
#define IDLE_ENOUGH 0.5

struct watch {
  struct kc_executor inner;
  const struct kc_cost *cost;
  kc_ps *prefill, *decode, *host; /* shared by the watches of a run: its replicas take turns */
};

/* The host's part of a step, rounded down. */
static kc_ps host_of(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  uint64_t time = cost->host_step + cost->host_sequence * ((uint64_t)sum->decodes + sum->chunks);
  if (sum->prefill_tokens > 0) time += cost->host_prompt;
  KC_ASSERT(time >= cost->host_step);
  return (kc_ps)(time >> KC_COST_FRACTION_BITS);
}

static enum kc_err watch_step(void *context, const struct kc_step *step,
                              struct kc_step_result *result, struct kc_diag *diag)
{
  struct watch *watch = context;
  KC_TRY(watch->inner.run(watch->inner.context, step, result, diag));
  struct kc_aggregates sum = step->sum;
  const kc_ps host = host_of(watch->cost, &sum);
  kc_ps decode = 0;
  if (sum.decodes > 0) {
    sum.chunks = 0;
    sum.logits = sum.decodes;
    sum.prefill_tokens = sum.prefill_pairs = sum.prefill_context = 0;
    memset(sum.prefill_capped_pairs, 0, sizeof sum.prefill_capped_pairs);
    memset(sum.prefill_capped_context, 0, sizeof sum.prefill_capped_context);
    decode = kc_cost_step(watch->cost, &sum) - host_of(watch->cost, &sum);
  }
  KC_ASSERT(result->duration_ps > 0);
  const kc_ps work = result->duration_ps > host ? result->duration_ps - host : 0;
  if (decode > work) decode = work;
  *watch->host += result->duration_ps - work;
  *watch->decode += decode;
  *watch->prefill += work - decode;
  return KC_OK;
}

/* Share of the timeline in which somebody waited and a pool of `pages` was full. With replicas the
 * timeline is of all together, so `pages` is of all. */
static double memory_share(const struct kc_metrics *metrics, uint64_t pages)
{
  uint64_t short_of_pages = 0;
  KC_ASSERT(pages > 0);
  for (uint32_t i = 0; i < metrics->timeline_count; i++) {
    const struct kc_timeline_sample *sample = &metrics->timeline[i];
    short_of_pages += sample->waiting > 0 &&
                      (double)sample->pages_used >= POOL_FULL * (double)pages;
  }
  return metrics->timeline_count > 0 ? (double)short_of_pages / metrics->timeline_count : 0;
}

static void fill(struct kc_plan_limits *limits, const struct kc_run *run, kc_ps prefill,
                 kc_ps decode, kc_ps host)
{
  const uint32_t replicas = run->result.replicas;
  const double time = (double)run->result.summary.makespan_ps * replicas;
  KC_ASSERT(replicas >= 1);
  if (time <= 0) return;
  limits->known = true;
  limits->prefill = (double)prefill / time;
  limits->decode = (double)decode / time;
  limits->host = (double)host / time;
  const double busy = limits->prefill + limits->decode + limits->host;
  limits->idle = busy < 1 ? 1 - busy : 0;
  limits->memory = memory_share(&run->metrics, (uint64_t)run->pages * replicas);
}

/* Where the time of the steps goes. */
static const char *largest_part(const struct kc_plan_limits *limits)
{
  KC_ASSERT(limits->known);
  if (limits->host > limits->decode && limits->host > limits->prefill) return "host";
  return limits->prefill > limits->decode ? "prefill compute" : "decode bandwidth";
}

static bool is_of(enum kc_figure figure, enum kc_figure mean)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  return kc_figure_percentile(figure, mean) >= 0;
}

/* A first token that takes most of its time alone on an empty server waits for its prompt. */
static const char *limit_of_ttft(const struct kc_plan *plan, const struct kc_plan_limits *limits,
                                 enum kc_figure figure)
{
  const struct kc_plan_run *run = &plan->run[plan->winner];
  const struct kc_figure_set *floors = &plan->columns[run->probe.column].floors;
  const double value = run->result.figures.value[figure];
  KC_ASSERT(limits->known);
  if (floors->known[figure] && floors->value[figure] > MOSTLY * value) return "prefill compute";
  return limits->idle > IDLE_ENOUGH ? "bursts" : largest_part(limits);
}

/* What the figure that is nearest its limit waits for; tokens after the first are never idle. */
static void name_limit(const struct kc_plan *plan, struct kc_plan_limits *limits)
{
  const int nearest = plan->run[plan->winner].worst;
  KC_ASSERT(nearest < (int)plan->require_count);
  limits->nearest = nearest;
  limits->name = largest_part(limits);
  if (limits->memory > MEMORY_MATTERS) {
    limits->name = "memory";
    return;
  }
  if (nearest < 0) return;
  const enum kc_figure figure = plan->require[nearest].figure;
  if (is_of(figure, KC_FIGURE_TTFT_MEAN_MS)) {
    limits->name = limit_of_ttft(plan, limits, figure);
  } else if (!is_of(figure, KC_FIGURE_TPOT_MEAN_MS) && !is_of(figure, KC_FIGURE_ITL_MEAN_MS) &&
             !is_of(figure, KC_FIGURE_E2E_MEAN_MS) && limits->idle > IDLE_ENOUGH) {
    limits->name = "idle time";
  }
}

static enum kc_err run_watched(const struct kc_scenario *scenario, struct kc_plan *plan,
                               struct kc_plan_limits *limits, struct kc_diag *diag)
{
  const uint32_t replicas = scenario->pool[0].replicas;
  kc_ps prefill = 0, decode = 0, host = 0;
  struct kc_run *run = calloc(1, sizeof *run);
  struct watch *watch = calloc(replicas, sizeof *watch);
  enum kc_err err = run == NULL || watch == NULL
                        ? kc_fail(diag, KC_ERR_MEMORY, "no memory for the run")
                        : kc_run_prepare_from(run, scenario, plan->inputs, diag);
  for (uint32_t i = 0; err == KC_OK && i < replicas; i++) {
    watch[i] = (struct watch){run->replica[i].executor, &run->cost, &prefill, &decode, &host};
    run->replica[i].executor.context = &watch[i];
    run->replica[i].executor.run = watch_step;
  }
  if (err == KC_OK) {
    run->replay.executor = run->replica[0].executor;
    run->replay.interrupted = plan->request.interrupted;
    err = kc_run_execute(run, diag);
  }
  if (err == KC_OK) fill(limits, run, prefill, decode, host);
  KC_ASSERT(replicas >= 1);
  if (run != NULL) kc_run_deinit(run);
  free(run);
  free(watch);
  return err;
}

enum kc_err kc_plan_limits(struct kc_plan *plan, struct kc_plan_limits *limits,
                           struct kc_diag *diag)
{
  const char *all[KC_PLAN_ALL_SETS_MAX];
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  struct kc_plan_sets *sets = calloc(1, sizeof *sets);
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  enum kc_err err = KC_OK;
  KC_ASSERT(plan->found);
  memset(limits, 0, sizeof *limits);
  if (problems == NULL || sets == NULL || scenario == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  } else {
    kc_plan_serving_sets(plan, &plan->run[plan->winner].probe, sets);
    const size_t count = kc_plan_all_sets(plan, sets, all);
    err = kc_scenario_load(scenario, plan->request.path, all, count, problems);
    if (err != KC_OK) *diag = problems->items[0];
    if (err == KC_OK) err = run_watched(scenario, plan, limits, diag);
    if (err == KC_OK && limits->known) name_limit(plan, limits);
    plan->count.runs_after++;
  }
  free(problems);
  free(sets);
  free(scenario);
  return err;
}
