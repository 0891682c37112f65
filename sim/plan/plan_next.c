/* What one more unit of each resource would buy (see plan_details.h): the winner with one thing
 * changed, evaluated under the traffic for which it was chosen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/plan/plan_details.h"
#include "sim/plan/plan_parts.h"

#define MORE_MEMORY ((uint64_t)8 << 30)

struct asking {
  struct kc_plan *plan;
  struct kc_plan_units *units;
  const struct kc_plan_column *column; /* of the winner */
  struct kc_search_probe winner;
  struct kc_plan_sets *sets;           /* of the question at hand */
};

/* The winner's changes, to which the question adds its own. */
static struct kc_plan_sets *begin(struct asking *asking)
{
  KC_ASSERT(asking->plan->found);
  asking->sets->count = 0;
  kc_plan_serving_sets(asking->plan, &asking->winner, asking->sets);
  return asking->sets;
}

/* Asks the question that stands in the sets. What is refused or does not fit is an answer, too. */
static enum kc_err ask(struct asking *asking, int32_t gpus, const char *what, struct kc_diag *diag)
{
  struct kc_plan *plan = asking->plan;
  struct kc_plan_units *units = asking->units;
  KC_ASSERT(units->count < KC_PLAN_UNITS_MAX);
  struct kc_plan_unit *unit = &units->unit[units->count++];
  *unit = (struct kc_plan_unit){.gpus = gpus};
  snprintf(unit->what, sizeof unit->what, "%s", what);
  const double usd = asking->column->usd_hour / asking->column->gpus;
  const int64_t total = (int64_t)kc_plan_gpus(plan, &asking->winner) + gpus;
  unit->usd_hour = usd * (double)total;
  const enum kc_err err =
      kc_plan_evaluate(plan, &asking->winner, asking->sets, &unit->run, &unit->why);
  if (err == KC_OK) {
    const struct kc_point_result *result = &plan->run[unit->run].result;
    unit->possible = result->status == KC_POINT_DONE;
    unit->why = result->why;
    return KC_OK;
  }
  if (err == KC_ERR_INPUT || err == KC_ERR_USAGE || err == KC_ERR_LIMIT) return KC_OK;
  *diag = unit->why;
  return err;
}

static enum kc_err ask_memory(struct asking *asking, struct kc_diag *diag)
{
  const struct kc_plan *plan = asking->plan;
  const struct kc_figure_set *figures = &plan->run[plan->winner].result.figures;
  uint64_t pages = 0;
  for (uint32_t i = 0; i < plan->search_count; i++) {
    if (plan->searched[i] == asking->winner.column) pages = plan->search[i].pages;
  }
  KC_ASSERT(pages > 0 && figures->known[KC_FIGURE_KV_TOKEN_BYTES]);
  const uint64_t budget = pages * asking->column->page_size *
                              (uint64_t)figures->value[KC_FIGURE_KV_TOKEN_BYTES] + MORE_MEMORY;
  kc_sets_add(begin(asking), "pools.%s.memory={rule: fixed, kv_budget: %llu}",
              plan->request.space.pool, (unsigned long long)budget);
  return ask(asking, 0, "+8 GiB of memory per GPU", diag);
}

static enum kc_err ask_replica(struct asking *asking, struct kc_diag *diag)
{
  char what[64];
  const uint32_t gpus = asking->column->gpus;
  kc_sets_add(begin(asking), "pools.%s.replicas=%u", asking->plan->request.space.pool,
              asking->winner.replicas + 1);
  KC_ASSERT(gpus > 0);
  snprintf(what, sizeof what, "+1 replica (%u GPU%s)", gpus, kc_plural(gpus));
  return ask(asking, (int32_t)gpus, what, diag);
}

static enum kc_err ask_tensor(struct asking *asking, struct kc_diag *diag)
{
  char what[64];
  const struct kc_plan *plan = asking->plan;
  const uint32_t degree = 2 * asking->column->tensor;
  const uint32_t replicas = asking->winner.replicas + plan->request.spare;
  if (!kc_model_tensor_degree_valid(&plan->base.scenario.model, degree, NULL)) return KC_OK;
  kc_sets_add(begin(asking), "pools.%s.parallel.tensor=%u", plan->request.space.pool, degree);
  snprintf(what, sizeof what, "tensor degree %u", degree);
  KC_ASSERT(degree > asking->column->tensor);
  return ask(asking, (int32_t)(asking->column->gpus * replicas), what, diag);
}

static enum kc_err ask_kv(struct asking *asking, struct kc_diag *diag)
{
  const char *pool = asking->plan->request.space.pool;
  KC_ASSERT(asking->column->kv[0] != '\0');
  if (strcmp(asking->column->kv, "bf16") != 0) return KC_OK;
  kc_sets_add(begin(asking), "pools.%s.kv.format=fp8-e4m3", pool);
  return ask(asking, 0, "FP8 KV", diag);
}

/* Routed experts alone where there are any: that is how such models are published. */
static enum kc_err ask_weights(struct asking *asking, struct kc_diag *diag)
{
  const struct kc_plan *plan = asking->plan;
  const bool experts = plan->base.scenario.model.experts > 0;
  KC_ASSERT(asking->column->weights[0] != '\0');
  if (asking->column->four_bits) return KC_OK;
  kc_sets_add(begin(asking), "pools.%s.weights={%s: int4-g32}", plan->request.space.pool,
              experts ? "routed_experts" : "default");
  return ask(asking, 0, experts ? "INT4 experts" : "INT4 weights", diag);
}

static enum kc_err ask_number(struct asking *asking, const char *key, const char *what,
                              uint32_t value, struct kc_diag *diag)
{
  char text[64];
  KC_ASSERT(value > 0);
  kc_sets_add(begin(asking), "pools.%s.scheduler.%s=%u", asking->plan->request.space.pool, key,
              value);
  snprintf(text, sizeof text, "%s %u", what, value);
  return ask(asking, 0, text, diag);
}

static enum kc_err ask_schedule(struct asking *asking, struct kc_diag *diag)
{
  const struct kc_plan *plan = asking->plan;
  const struct kc_figure_set *figures = &plan->run[plan->winner].result.figures;
  const char *chunk = plan->request.space.server == KC_SERVER_SGLANG ? "chunked_prefill_size"
                                                                      : "max_batched_tokens";
  KC_ASSERT(asking->column->chunk > 0);
  if (plan->base.scenario.pool[0].role == KC_ROLE_SERVE) {
    KC_TRY(ask_number(asking, chunk, "chunk", asking->column->chunk * 2, diag));
    KC_TRY(ask_number(asking, chunk, "chunk", asking->column->chunk / 2, diag));
  }
  if (figures->value[KC_FIGURE_MAX_RUNNING_REPLICA] < asking->column->cap) return KC_OK;
  return ask_number(asking, "max_running", "max running", asking->column->cap * 2, diag);
}

enum kc_err kc_plan_next_units(struct kc_plan *plan, struct kc_plan_units *units,
                               struct kc_diag *diag)
{
  memset(units, 0, sizeof *units);
  KC_ASSERT(plan->found && plan->winner < plan->run_count);
  struct asking asking = {.plan = plan, .units = units,
                          .winner = plan->run[plan->winner].probe};
  asking.column = &plan->columns[asking.winner.column];
  asking.sets = calloc(1, sizeof *asking.sets);
  if (asking.sets == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the changes");
  static enum kc_err (*const questions[])(struct asking *, struct kc_diag *) = {
      ask_memory, ask_replica, ask_tensor, ask_kv, ask_weights, ask_schedule};
  enum kc_err err = KC_OK;
  for (size_t i = 0; err == KC_OK && i < sizeof questions / sizeof questions[0]; i++) {
    err = questions[i](&asking, diag);
  }
  free(asking.sets);
  return err;
}
