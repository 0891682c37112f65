/* The documents of `kvcap plan --json` and `kvcap plan --max-rate --json`: schema 1. */
#include <stdio.h>
#include <string.h>

#include "sim/cli/cli.h"
#include "sim/cli/plan_output.h"

enum { PLAN_SCHEMA = 1, NONE = UINT32_MAX };

static json_t *count(uint64_t value)
{
  return json_integer((json_int_t)value);
}

static json_t *figures_json(const struct kc_figure_set *figures)
{
  json_t *object = json_object();
  for (int f = 0; f < KC_FIGURES; f++) {
    if (!figures->known[f]) continue;
    json_object_set_new(object, kc_figure_name((enum kc_figure)f), json_real(figures->value[f]));
  }
  return object;
}

static json_t *requirements_json(const struct kc_requirement *require, uint32_t requires)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < requires; i++) json_array_append_new(list, json_string(require[i].text));
  return list;
}

static const char *worst_text(const struct kc_requirement *require, int worst, double excess)
{
  if (worst >= 0) return require[worst].text;
  return excess > 1 ? "lost" : "none";
}

static void add_result(json_t *object, const struct kc_point_result *result)
{
  json_object_set_new(object, "status", json_string(kc_point_status_name(result->status)));
  json_object_set_new(object, "figures", figures_json(&result->figures));
  json_object_set_new(object, "trust", result->ran || result->trust.steps > 0
                                           ? json_string(kc_cost_level_name(result->trust.level))
                                           : json_null());
  json_object_set_new(object, "config_sha256", json_string(result->config_sha256));
  json_object_set_new(object, "result_sha256", json_string(result->result_sha256));
}

static void add_settings(json_t *object, const struct kc_plan_column *column)
{
  json_object_set_new(object, "gpu", kc_cli_json_string(column->gpu));
  json_object_set_new(object, "weights", kc_cli_json_string(column->weights));
  json_object_set_new(object, "kv", json_string(column->kv));
  json_object_set_new(object, "tensor", count(column->tensor));
  json_object_set_new(object, "page_size", count(column->page_size));
  json_object_set_new(object, "chunk", count(column->chunk));
  json_object_set_new(object, "max_running", count(column->cap));
}

static json_t *deployment_json(const struct kc_plan *plan, const struct kc_search_probe *probe)
{
  const struct kc_plan_column *column = &plan->columns[probe->column];
  json_t *object = json_object();
  add_settings(object, column);
  json_object_set_new(object, "replicas", count(probe->replicas));
  json_object_set_new(object, "spare", count(plan->request.spare));
  json_object_set_new(object, "gpus", count(kc_plan_gpus(plan, probe)));
  json_object_set_new(object, "usd_hour", column->priced
                                              ? json_real(kc_plan_usd_hour(plan, probe))
                                              : json_null());
  return object;
}

/* What a budget would have to pay for; null where it leaves a candidate. */
static json_t *least_json(const struct kc_plan *plan, bool by_gpus)
{
  if (plan->count.candidates > 0) return json_null();
  const struct kc_search_probe probe = kc_plan_least(plan, by_gpus);
  return deployment_json(plan, &probe);
}

static json_t *run_json(const struct kc_plan *plan, uint32_t index)
{
  if (index == NONE) return json_null();
  const struct kc_plan_run *run = &plan->run[index];
  json_t *object = deployment_json(plan, &run->probe);
  json_object_set_new(object, "limit_used", json_real(run->excess));
  json_object_set_new(object, "nearest_limit",
                      json_string(worst_text(plan->require, run->worst, run->excess)));
  add_result(object, &run->result);
  return object;
}

static json_t *limits_json(const struct kc_plan *plan, const struct kc_plan_limits *limits)
{
  if (!limits->known) return json_null();
  const char *nearest = limits->nearest < 0 ? NULL : plan->require[limits->nearest].text;
  return json_pack("{s:s, s:s?, s:f, s:f, s:f, s:f, s:f}", "name", limits->name,
                   "nearest_limit", nearest, "prefill",
                   limits->prefill, "decode", limits->decode, "host", limits->host, "idle",
                   limits->idle, "memory", limits->memory);
}

static json_t *units_json(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  json_t *list = json_array();
  const bool priced = plan->found && plan->columns[plan->run[plan->winner].probe.column].priced;
  for (uint32_t i = 0; i < answer->units.count; i++) {
    const struct kc_plan_unit *unit = &answer->units.unit[i];
    json_t *object = json_object();
    json_object_set_new(object, "what", json_string(unit->what));
    json_object_set_new(object, "gpus_more", json_integer(unit->gpus));
    json_object_set_new(object, "usd_hour", priced ? json_real(unit->usd_hour) : json_null());
    json_object_set_new(object, "possible", json_boolean(unit->possible));
    if (unit->possible) {
      const struct kc_plan_run *run = &plan->run[unit->run];
      json_object_set_new(object, "limit_used", json_real(run->excess));
      add_result(object, &run->result);
    } else {
      json_object_set_new(object, "why", kc_cli_json_string(unit->why.text));
    }
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *parts_json(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  json_t *list = json_array();
  for (uint32_t i = 0; !plan->found && i < plan->require_count; i++) {
    const struct kc_plan_part *part = &answer->part[i];
    json_t *object = json_object();
    json_object_set_new(object, "requirement", json_string(plan->require[i].text));
    json_object_set_new(object, "impossible", json_boolean(part->impossible));
    json_object_set_new(object, "met_by_some", json_boolean(part->met));
    json_object_set_new(object, "floor", part->floor_known ? json_real(part->floor) : json_null());
    json_object_set_new(object, "best_seen", part->seen ? json_real(part->best) : json_null());
    json_object_set_new(object, "prompt_tokens",
                        part->prompt_tokens > 0 ? count(part->prompt_tokens) : json_null());
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *lost_json(const struct kc_plan_answer *answer)
{
  const struct kc_plan_lost *lost = &answer->lost;
  if (answer->plan->found) return json_null();
  return json_pack("{s:f, s:b, s:o}", "floor", lost->floor, "impossible", lost->impossible,
                   "least_seen", lost->seen ? json_real(lost->least) : json_null());
}

static json_t *search_json(const struct kc_plan *plan)
{
  const struct kc_plan_counts *n = &plan->count;
  json_t *object = json_object(), *decided = json_object();
  for (int rule = 0; rule < KC_SEARCH_RULES; rule++) {
    json_object_set_new(decided, kc_search_rule_name((enum kc_search_rule)rule),
                        count(n->decided[rule]));
  }
  json_object_set_new(object, "combinations", count(n->columns));
  json_object_set_new(object, "combinations_no_fit", count(n->no_fit));
  json_object_set_new(object, "combinations_refused", count(n->refused));
  json_object_set_new(object, "combinations_too_slow_alone", count(n->hopeless));
  json_object_set_new(object, "candidates", count(n->candidates));
  json_object_set_new(object, "decided_by", decided);
  json_object_set_new(object, "runs", count(n->runs));
  json_object_set_new(object, "runs_for_details", count(n->runs_after));
  json_object_set_new(object, "exhaustive_runs",
                      n->exhaustive_runs > 0 ? count(n->exhaustive_runs) : json_null());
  json_object_set_new(object, "exhaustive_agrees",
                      n->exhaustive_runs > 0 ? json_boolean(plan->agrees) : json_null());
  return object;
}

static void add_request(json_t *root, const struct kc_plan_request *request)
{
  static const char *const goals[] = {"usd", "gpus", "goodput", "output_tok_s"};
  json_object_set_new(root, "objective", json_string(goals[request->objective]));
  json_object_set_new(root, "headroom", json_real(request->headroom));
  json_object_set_new(root, "spare", count(request->spare));
  json_object_set_new(root, "lost", json_real(request->lost));
  json_object_set_new(root, "budget_usd_hour", request->budget_usd_hour > 0
                                                   ? json_real(request->budget_usd_hour)
                                                   : json_null());
  json_object_set_new(root, "gpus_max",
                      request->gpus_max > 0 ? count(request->gpus_max) : json_null());
}

json_t *kc_plan_json(const struct kc_plan_answer *answer)
{
  const struct kc_plan *plan = answer->plan;
  json_t *root = json_object();
  json_object_set_new(root, "schema", json_integer(PLAN_SCHEMA));
  json_object_set_new(root, "scenario", kc_cli_json_string(plan->base.scenario.name));
  json_object_set_new(root, "requirements",
                      requirements_json(plan->require, plan->require_count));
  add_request(root, &plan->request);
  json_object_set_new(root, "found", json_boolean(plan->found));
  json_object_set_new(root, "winner", run_json(plan, plan->winner));
  json_object_set_new(root, "as_bought", run_json(plan, plan->found ? answer->bought.run : NONE));
  json_object_set_new(root, "runner_up", run_json(plan, plan->runner_up));
  json_object_set_new(root, "nearest_miss", run_json(plan, plan->near_miss));
  json_object_set_new(root, "cheapest", least_json(plan, false));
  json_object_set_new(root, "smallest", least_json(plan, true));
  json_object_set_new(root, "limits", limits_json(plan, &answer->limits));
  json_object_set_new(root, "units", units_json(answer));
  json_object_set_new(root, "parts", parts_json(answer));
  json_object_set_new(root, "unanswered", lost_json(answer));
  json_object_set_new(root, "search", search_json(plan));
  const struct kc_plan_bought *bought = &answer->bought;
  json_object_set_new(root, "command", kc_cli_json_string(plan->found ? bought->command : ""));
  json_object_set_new(root, "command_as_bought",
                      plan->found ? kc_cli_json_string(bought->command_bought != NULL
                                                           ? bought->command_bought
                                                           : bought->command)
                                  : json_null());
  return root;
}

static json_t *probe_json(const struct kc_rate *rate, uint32_t index)
{
  if (index == NONE) return json_null();
  const struct kc_rate_probe *probe = &rate->probe[index];
  json_t *object = json_object();
  if (rate->closed) {
    json_object_set_new(object, "concurrency", count(probe->load));
  } else {
    const double factor = (double)probe->load / KC_RATE_UNIT;
    json_object_set_new(object, "rate_factor", json_real(factor));
    json_object_set_new(object, "requests_s", json_real(factor * rate->arrivals_s));
  }
  json_object_set_new(object, "holds", json_boolean(probe->holds));
  json_object_set_new(object, "limit_used", json_real(probe->excess));
  json_object_set_new(object, "nearest_limit",
                      json_string(worst_text(rate->require, probe->worst, probe->excess)));
  add_result(object, &probe->result);
  return object;
}

json_t *kc_rate_json(const struct kc_rate *rate)
{
  json_t *root = json_object(), *probes = json_array();
  for (uint32_t i = 0; i < rate->probe_count; i++) {
    json_array_append_new(probes, probe_json(rate, i));
  }
  json_object_set_new(root, "schema", json_integer(PLAN_SCHEMA));
  json_object_set_new(root, "scenario", kc_cli_json_string(rate->base.scenario.name));
  json_object_set_new(root, "requirements",
                      requirements_json(rate->require, rate->require_count));
  json_object_set_new(root, "highest", probe_json(rate, rate->best));
  json_object_set_new(root, "lowest_that_fails", probe_json(rate, rate->above));
  json_object_set_new(root, "runs", count(rate->probe_count));
  json_object_set_new(root, "probes", probes);
  return root;
}
