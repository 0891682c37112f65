/* Why a plan found nothing, and the best that exists (see plan_details.h). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/judge.h"
#include "sim/plan/plan_details.h"
#include "sim/plan/plan_parts.h"

enum { NONE = UINT32_MAX, TRIES = 16 };

static int ascending(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* The prompt length that decides a ttft_ figure: at its percentile by nearest rank, or the mean. */
static uint32_t deciding_prompt(const struct kc_bound_workload *workload, enum kc_figure figure)
{
  const int percent = kc_figure_percentile(figure, KC_FIGURE_TTFT_MEAN_MS);
  if (percent < 0) return 0;
  if (percent == 0) return workload->mean_input;
  uint32_t *length = calloc(workload->count, sizeof *length);
  if (length == NULL) return 0;
  for (uint32_t i = 0; i < workload->count; i++) length[i] = workload->length[i].input;
  qsort(length, workload->count, sizeof *length, ascending);
  const uint64_t rank = ((uint64_t)workload->count * (uint64_t)percent + 99) / 100;
  KC_ASSERT(rank >= 1 && rank <= workload->count);
  const uint32_t found = length[rank - 1];
  free(length);
  return found;
}

static void put_floor(const struct kc_plan *plan, const struct kc_requirement *require,
                      struct kc_plan_part *part)
{
  KC_ASSERT(plan->search_count > 0);
  for (uint32_t i = 0; kc_require_wants_low(require->sense) && i < plan->search_count; i++) {
    const uint32_t c = plan->searched[i];
    const struct kc_figure_set *floors = &plan->columns[c].floors;
    if (!floors->known[require->figure]) continue;
    const double floor = floors->value[require->figure];
    if (part->floor_known && floor >= part->floor) continue;
    part->floor_known = true;
    part->floor = floor;
    part->floor_column = c;
    part->impossible = !kc_requirement_check(require, floors).met;
  }
  part->alone = kc_figure_is_latency(require->figure);
  part->prompt_tokens = deciding_prompt(&plan->workload, require->figure);
}

static void put_best_seen(const struct kc_plan *plan, const struct kc_requirement *require,
                          struct kc_plan_part *part)
{
  KC_ASSERT((unsigned)require->figure < KC_FIGURES);
  for (uint32_t i = 0; i < plan->run_count; i++) {
    const struct kc_figure_set *figures = &plan->run[i].result.figures;
    const struct kc_require_outcome outcome = kc_requirement_check(require, figures);
    if (!outcome.known) continue;
    part->met = part->met || outcome.met;
    const bool better = kc_require_wants_low(require->sense) ? outcome.value < part->best
                                                             : outcome.value > part->best;
    if (!part->seen || better) part->best = outcome.value;
    part->seen = true;
  }
}

static void put_lost(const struct kc_plan *plan, struct kc_plan_lost *lost)
{
  KC_ASSERT(plan->search_count > 0);
  *lost = (struct kc_plan_lost){.floor = 1, .least = 1};
  for (uint32_t i = 0; i < plan->search_count; i++) {
    const double share = plan->columns[plan->searched[i]].lost;
    if (share < lost->floor) lost->floor = share;
  }
  for (uint32_t i = 0; i < plan->run_count; i++) {
    const struct kc_point_result *result = &plan->run[i].result;
    if (result->status != KC_POINT_DONE) continue;
    const double share = kc_judge_lost(&result->figures);
    lost->seen = true;
    if (share < lost->least) lost->least = share;
  }
  lost->impossible = lost->floor > plan->request.lost;
}

/* How near to the limits any evaluation came. */
static double least_excess(const struct kc_plan *plan)
{
  double least = KC_REQUIRE_HOPELESS;
  for (uint32_t i = 0; i < plan->run_count; i++) {
    if (plan->run[i].excess < least) least = plan->run[i].excess;
  }
  KC_ASSERT(least > 0);
  return least;
}

/* The best that exists: of the evaluations that are as near to the limits as any, or almost, the
 * cheapest. */
static void find_best_miss(struct kc_plan *plan)
{
  const double least = least_excess(plan);
  plan->near_miss = NONE;
  for (uint32_t i = 0; i < plan->run_count; i++) {
    const struct kc_plan_run *run = &plan->run[i];
    if (run->excess > least * (1 + KC_PLAN_ALMOST)) continue;
    if (plan->near_miss == NONE || kc_plan_before(plan, run, &plan->run[plan->near_miss])) {
      plan->near_miss = i;
    }
  }
  KC_ASSERT(plan->run_count == 0 || plan->near_miss < plan->run_count);
}

/* The hopeless column of least floors that was not tried yet and may be better than the best seen;
 * NONE when there is none. */
static uint32_t next_hopeless(const struct kc_plan *plan, const bool *tried)
{
  uint32_t best = NONE;
  double least = least_excess(plan);
  for (uint32_t i = 0; i < plan->search_count; i++) {
    const uint32_t c = plan->searched[i];
    int worst;
    if (tried[c] || !plan->columns[c].hopeless) continue;
    double excess = kc_plan_floor_excess(plan, &plan->columns[c].floors, &worst);
    const double over = plan->columns[c].lost - plan->request.lost;
    if (over > 0 && 1 + 100 * over > excess) excess = 1 + 100 * over;
    KC_ASSERT(excess > 1);
    if (excess >= least) continue;
    least = excess;
    best = c;
  }
  return best;
}

/* Of what the limits of the request allow, the replicas whose floors miss least, and as many as
 * possible; 0: not even one. */
static uint32_t best_replicas(const struct kc_plan *plan, uint32_t c)
{
  const struct kc_plan_request *request = &plan->request;
  double least = 0;
  uint32_t best = 0;
  KC_ASSERT(request->space.replica_count > 0);
  for (uint32_t i = request->space.replica_count; i > 0; i--) {
    struct kc_figure_set floors;
    int worst;
    const struct kc_search_probe probe = {c, request->space.replicas[i - 1]};
    if (request->gpus_max > 0 && kc_plan_gpus(plan, &probe) > request->gpus_max) continue;
    if (request->budget_usd_hour > 0 &&
        kc_plan_usd_hour(plan, &probe) > request->budget_usd_hour) {
      continue;
    }
    kc_plan_floors_at(plan, &plan->columns[c], probe.replicas, &floors);
    const double excess = kc_plan_floor_excess(plan, &floors, &worst);
    if (best > 0 && excess >= least) continue;
    least = excess;
    best = probe.replicas;
  }
  return best;
}

struct kc_search_probe kc_plan_least(const struct kc_plan *plan, bool by_gpus)
{
  struct kc_search_probe least = {NONE, plan->request.space.replicas[0]}; /* they ascend */
  double least_usd = 0, least_gpus = 0;
  for (uint32_t i = 0; i < plan->search_count; i++) {
    const struct kc_search_probe probe = {plan->searched[i], least.replicas};
    const double usd = kc_plan_usd_hour(plan, &probe), gpus = kc_plan_gpus(plan, &probe);
    const double first = by_gpus ? gpus - least_gpus : usd - least_usd;
    const double second = by_gpus ? usd - least_usd : gpus - least_gpus;
    if (least.column != NONE && (first > 0 || (first >= 0 && second >= 0))) continue;
    least = probe;
    least_usd = usd;
    least_gpus = gpus;
  }
  KC_ASSERT(least.column < plan->column_count);
  return least;
}

static enum kc_err try_hopeless(struct kc_plan *plan, bool *tried, struct kc_plan_sets *sets,
                                struct kc_diag *diag)
{
  KC_ASSERT(!plan->found);
  for (int i = 0; i < TRIES; i++) {
    uint32_t index;
    const uint32_t c = next_hopeless(plan, tried);
    if (c == NONE) return KC_OK;
    tried[c] = true;
    const struct kc_search_probe probe = {c, best_replicas(plan, c)};
    if (probe.replicas == 0) continue;
    sets->count = 0;
    kc_plan_serving_sets(plan, &probe, sets);
    KC_TRY(kc_plan_evaluate(plan, &probe, sets, &index, diag));
    find_best_miss(plan);
  }
  return KC_OK;
}

/* The best that exists was asked with as many replicas as there are: how few are almost as good? */
static enum kc_err try_fewer(struct kc_plan *plan, struct kc_plan_sets *sets, struct kc_diag *diag)
{
  find_best_miss(plan);
  if (plan->near_miss == NONE) return KC_OK;
  const struct kc_plan_run *best = &plan->run[plan->near_miss];
  const uint32_t *replicas = plan->request.space.replicas;
  struct kc_search_probe probe = best->probe;
  const double enough = least_excess(plan) * (1 + KC_PLAN_ALMOST);
  uint32_t low = 0, high = 0; /* the answer is in [low, high] */
  while (replicas[high] != probe.replicas) high++;
  KC_ASSERT(high < plan->request.space.replica_count);
  while (low < high) {
    uint32_t index;
    const uint32_t middle = low + (high - low) / 2;
    probe.replicas = replicas[middle];
    sets->count = 0;
    kc_plan_serving_sets(plan, &probe, sets);
    KC_TRY(kc_plan_evaluate(plan, &probe, sets, &index, diag));
    if (plan->run[index].excess <= enough) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  find_best_miss(plan);
  return KC_OK;
}

enum kc_err kc_plan_explain(struct kc_plan *plan, struct kc_plan_part part[KC_REQUIREMENTS_MAX],
                            struct kc_plan_lost *lost, struct kc_diag *diag)
{
  bool *tried = calloc(plan->column_count, sizeof *tried);
  struct kc_plan_sets *sets = calloc(1, sizeof *sets);
  enum kc_err err = tried == NULL || sets == NULL
                        ? kc_fail(diag, KC_ERR_MEMORY, "no memory for the explanation")
                        : KC_OK;
  KC_ASSERT(!plan->found);
  memset(part, 0, KC_REQUIREMENTS_MAX * sizeof *part);
  if (err == KC_OK) err = try_hopeless(plan, tried, sets, diag);
  if (err == KC_OK) err = try_fewer(plan, sets, diag);
  free(tried);
  free(sets);
  if (err == KC_OK) put_lost(plan, lost);
  for (uint32_t i = 0; err == KC_OK && i < plan->require_count; i++) {
    put_floor(plan, &plan->require[i], &part[i]);
    put_best_seen(plan, &plan->require[i], &part[i]);
  }
  return err;
}
