/* The JSON document of `kvcap run`: schema 2. Times in milliseconds, exact to a picosecond; null
 * where a figure does not exist (no request, no price) or is not known. */
#include "sim/cli/cli.h"
#include "sim/cli/run_output.h"

enum { RUN_SCHEMA = 2 };

static json_t *milliseconds(kc_ps ps)
{
  return json_real((double)ps / (double)KC_PS_PER_MS);
}

static json_t *count(uint64_t value)
{
  return json_integer((json_int_t)value);
}

json_t *kc_run_statistic_json(const struct kc_statistic *s, const char *trust)
{
  json_t *object = json_object();
  const struct {
    const char *name;
    kc_ps value;
  } rows[] = {{"mean", s->mean_ps}, {"p50", s->p50_ps}, {"p90", s->p90_ps}, {"p95", s->p95_ps},
              {"p99", s->p99_ps},   {"min", s->min_ps}, {"max", s->max_ps}};
  json_object_set_new(object, "count", count(s->count));
  json_object_set_new(object, "trust", json_string(trust));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    json_object_set_new(object, rows[i].name,
                        s->count > 0 ? milliseconds(rows[i].value) : json_null());
  }
  return object;
}

static void add_requests(json_t *root, const struct kc_summary *s)
{
  static const struct {
    const char *name;
    enum kc_status status;
  } rows[] = {{"requests_completed", KC_STATUS_COMPLETED},
              {"requests_rejected", KC_STATUS_REJECTED},
              {"requests_failed", KC_STATUS_FAILED},
              {"requests_cancelled", KC_STATUS_CANCELLED},
              {"requests_timed_out", KC_STATUS_TIMED_OUT}};
  json_t *reasons = json_object();
  json_object_set_new(root, "requests_total", count(s->requests_total));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    json_object_set_new(root, rows[i].name, count(s->requests_by_status[rows[i].status]));
  }
  for (int i = 1; i < KC_REASONS; i++) {
    if (s->requests_by_reason[i] == 0) continue;
    json_object_set_new(reasons, kc_reason_name((enum kc_reason)i),
                        count(s->requests_by_reason[i]));
  }
  json_object_set_new(root, "reasons", reasons);
  json_object_set_new(root, "input_tokens", count(s->input_tokens));
  json_object_set_new(root, "output_tokens", count(s->output_tokens));
  json_object_set_new(root, "output_clipped_requests", count(s->tokens_clipped_requests));
}

static void add_latencies(json_t *root, const struct kc_summary *s, const char *trust)
{
  json_object_set_new(root, "ttft_ms", kc_run_statistic_json(&s->ttft, trust));
  json_object_set_new(root, "tpot_ms", kc_run_statistic_json(&s->tpot, trust));
  json_object_set_new(root, "itl_ms", kc_run_statistic_json(&s->itl, trust));
  json_object_set_new(root, "e2e_ms", kc_run_statistic_json(&s->e2e, trust));
}

static void add_load(json_t *root, const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  const double rate = (double)s->output_tok_s_micro / 1e6;
  json_object_set_new(root, "output_tok_s", json_real(rate));
  json_object_set_new(root, "output_tok_s_per_gpu", json_real(rate / kc_run_gpus(run->scenario)));
  json_object_set_new(root, "makespan_s", json_real((double)s->makespan_ps / 1e12));
  json_object_set_new(root, "busy_s", json_real((double)s->busy_ps / 1e12));
  json_object_set_new(root, "steps", count(s->steps));
  json_object_set_new(root, "preemptions", count(s->preemptions));
  json_object_set_new(root, "max_running", count(s->max_running));
  json_object_set_new(root, "max_waiting", count(s->max_waiting));
  json_object_set_new(root, "kv_peak_tokens", count(s->kv_peak_tokens));
  json_object_set_new(root, "kv_peak_pages", count(s->kv_peak_pages));
}

static json_t *names_of(const struct kc_run *run, bool minor)
{
  json_t *array = json_array();
  char names[KC_TRUST_NAMES_MAX][24];
  const uint32_t families = kc_run_missing(run, minor, names);
  for (uint32_t i = 0; i < families; i++) json_array_append_new(array, json_string(names[i]));
  return array;
}

/* What the figures are worth: times by where their step model was fitted, memory by rule. */
static json_t *trust_of(const struct kc_run *run)
{
  const struct kc_cost_trust trust = kc_run_trust(run);
  json_t *object = json_object();
  json_object_set_new(object, "times", json_string(kc_cost_level_name(trust.level)));
  json_object_set_new(object, "memory", json_string("derived"));
  json_object_set_new(object, "basis", json_string(kc_cost_basis_name(trust.basis)));
  json_object_set_new(object, "steps_outside", count(trust.steps_outside));
  json_object_set_new(object, "outside_s", json_real((double)trust.outside_ps / 1e12));
  json_object_set_new(object, "not_measured", names_of(run, false));
  json_object_set_new(object, "not_measured_minor", names_of(run, true));
  return object;
}

/* How near an open-loop run came to what its instance can do; 1 = at the limit. */
static json_t *utilisation(const struct kc_run *run)
{
  const struct kc_run_load load = kc_run_load_of(run);
  if (!load.known) return json_null();
  json_t *object = json_object();
  json_object_set_new(object, "rate", json_real(load.rate));
  json_object_set_new(object, "most_requests_per_s", json_real(load.served_s));
  json_object_set_new(object, "kv_peak", json_real(load.kv));
  json_object_set_new(object, "batch_peak", json_real(load.batch));
  json_object_set_new(object, "nearest", json_string(load.nearest));
  json_object_set_new(object, "headroom", json_real(load.headroom));
  return object;
}

static json_t *oom(const struct kc_run *run)
{
  const struct kc_replay_result *r = &run->result;
  if (r->oom_ps == KC_PS_NEVER) return json_null();
  json_t *object = json_object();
  json_object_set_new(object, "time_s", json_real((double)r->oom_ps / 1e12));
  json_object_set_new(object, "request", count(r->oom_request));
  json_object_set_new(object, "replica", count(r->oom_replica));
  json_object_set_new(object, "demand_pages", count(r->oom_demand_pages));
  json_object_set_new(object, "pool_pages", count(r->pages));
  json_object_set_new(object, "counted_to",
                      json_string(run->scenario->workload.is_closed ? "final_length"
                                                                    : "length_reached"));
  return object;
}

static void add_memory(json_t *root, const struct kc_run *run)
{
  const struct kc_fit *fit = &run->fit;
  const uint32_t page_size = run->scenario->pool[0].sched.page_size;
  json_object_set_new(root, "kv_tokens", count((uint64_t)run->pages * page_size));
  json_object_set_new(root, "pages", count(run->pages));
  json_object_set_new(root, "page_size", count(page_size));
  json_object_set_new(root, "kv_bytes_per_token", count(fit->kv_token_bytes));
  json_object_set_new(root, "kv_budget_bytes", count(fit->kv_budget_bytes));
  json_object_set_new(root, "windows_charged_per_token", json_boolean(fit->windows_per_token));
  json_object_set_new(root, "bounded_bytes", count(run->bounded_bytes));
  json_object_set_new(root, "bounded_requests", count(run->bounded_requests));
  json_object_set_new(root, "weights_per_gpu_bytes", count(fit->weights_bytes));
  json_object_set_new(root, "gpus", count(kc_run_gpus(run->scenario)));
}

/* ---- the trace: what was applied, dropped and assumed ---- */

static void set_seconds(json_t *object, const char *key, kc_ps time_ps, bool said)
{
  if (said) json_object_set_new(object, key, json_real((double)time_ps / 1e12));
}

static void set_fraction(json_t *object, const char *key, struct kc_fraction fraction)
{
  if (fraction.numerator == fraction.denominator) return;
  json_object_set_new(object, key, json_sprintf("%llu/%llu",
                                                (unsigned long long)fraction.numerator,
                                                (unsigned long long)fraction.denominator));
}

/* What the workload's keys ask for; those that change nothing are left out. */
static json_t *applied(const struct kc_transform *t)
{
  json_t *object = json_object();
  set_seconds(object, "from_s", t->from_ps, t->from_ps > 0);
  set_seconds(object, "to_s", t->to_ps, t->to_ps != KC_PS_NEVER);
  if (t->skip_rows > 0) json_object_set_new(object, "skip", count(t->skip_rows));
  if (t->limit_rows != UINT64_MAX) json_object_set_new(object, "limit", count(t->limit_rows));
  set_fraction(object, "sample", t->sample);
  set_seconds(object, "idle_cap_s", t->idle_cap_ps, t->idle_cap_ps != KC_PS_NEVER);
  set_fraction(object, "rate", t->rate);
  set_seconds(object, "spread_s", t->spread_ps, t->spread_ps > 0);
  return object;
}

/* The most that any prefix cache could find; null when the trace has no ids: not known, not 0. */
static json_t *infinite_cache(const struct kc_trace_reuse *reuse)
{
  if (reuse->tokens == 0) return json_null();
  json_t *object = json_object();
  json_object_set_new(object, "rows", count(reuse->rows));
  json_object_set_new(object, "blocks", count(reuse->blocks));
  json_object_set_new(object, "blocks_reused", count(reuse->blocks_reused));
  json_object_set_new(object, "tokens", count(reuse->tokens));
  json_object_set_new(object, "tokens_reused", count(reuse->tokens_reused));
  json_object_set_new(object, "hit_token_ratio",
                      json_real((double)reuse->tokens_reused / (double)reuse->tokens));
  return object;
}

static json_t *notes_of(const struct kc_trace *trace)
{
  json_t *notes = json_object();
  for (int i = 0; i < KC_NOTES; i++) {
    if (trace->note[i] == 0) continue;
    json_object_set_new(notes, kc_trace_note_name((enum kc_trace_note)i), count(trace->note[i]));
  }
  return notes;
}

static json_t *changes_of(const struct kc_run *run)
{
  json_t *changes = json_object();
  for (int i = 0; i < KC_CHANGES; i++) {
    if (run->change[i] == 0) continue;
    json_object_set_new(changes, kc_trace_change_name((enum kc_trace_change)i),
                        count(run->change[i]));
  }
  return changes;
}

static json_t *trace(const struct kc_run *run)
{
  if (run->scenario->workload.is_closed) return json_null();
  json_t *object = json_object();
  const struct kc_trace *t = &run->trace;
  const bool has_unit = t->time_unit != KC_UNIT_FORMAT;
  json_object_set_new(object, "format", json_string(t->format));
  json_object_set_new(object, "rows", count(t->count));
  json_object_set_new(object, "sessions", count(t->session_count));
  json_object_set_new(object, "loop", json_string(run->sessions ? "closed" : "open"));
  json_object_set_new(object, "waiting_rows", count(run->waiting_rows));
  json_object_set_new(object, "span_s", json_real((double)t->span_ps / 1e12));
  json_object_set_new(object, "sha256", json_string(t->sha256));
  json_object_set_new(object, "time_unit",
                      has_unit ? json_string(kc_time_unit_name(t->time_unit)) : json_null());
  json_object_set_new(object, "block_tokens",
                      t->block_tokens > 0 ? count(t->block_tokens) : json_null());
  json_object_set_new(object, "tail", json_string(kc_tail_rule_name(t->tail)));
  json_object_set_new(object, "infinite_cache", infinite_cache(&run->reuse));
  json_object_set_new(object, "applied", applied(&run->scenario->workload.transform));
  json_object_set_new(object, "changes", changes_of(run));
  json_object_set_new(object, "notes", notes_of(t));
  return object;
}

/* ---- replicas ---- */

static json_t *replica_json(const struct kc_replica_figures *f)
{
  json_t *object = json_object();
  json_object_set_new(object, "requests", count(f->requests));
  json_object_set_new(object, "input_tokens", count(f->input_tokens));
  json_object_set_new(object, "cached_tokens", count(f->cached_tokens));
  json_object_set_new(object, "output_tokens", count(f->output_tokens));
  json_object_set_new(object, "steps", count(f->steps));
  json_object_set_new(object, "preemptions", count(f->preemptions));
  json_object_set_new(object, "pages_evicted", count(f->pages_evicted));
  json_object_set_new(object, "busy_s", json_real((double)f->busy_ps / 1e12));
  json_object_set_new(object, "max_running", count(f->max_running));
  json_object_set_new(object, "max_waiting", count(f->max_waiting));
  json_object_set_new(object, "kv_peak_tokens", count(f->kv_peak_tokens));
  json_object_set_new(object, "kv_peak_pages", count(f->kv_peak_pages));
  return object;
}

/* Several replicas: which did how much. Peaks elsewhere in the document are of all of them at one
 * instant; those of one replica are here. Null with one. */
static json_t *fleet(const struct kc_run *run)
{
  const struct kc_replay_result *r = &run->result;
  if (r->replicas == 1) return json_null();
  const struct kc_run_balance balance = kc_run_balance_of(r);
  const enum kc_router_policy policy = run->scenario->router.policy;
  json_t *object = json_object(), *imbalance = json_object(), *replicas = json_array();
  json_object_set_new(object, "router", json_string(kc_router_policy_name(policy)));
  json_object_set_new(object, "moves", policy == KC_ROUTER_SESSION_AFFINITY
                                           ? count(r->router_moves) : json_null());
  json_object_set_new(imbalance, "requests", json_real(balance.requests));
  json_object_set_new(imbalance, "input_tokens", json_real(balance.input_tokens));
  json_object_set_new(imbalance, "output_tokens", json_real(balance.output_tokens));
  json_object_set_new(imbalance, "busy", json_real(balance.busy));
  json_object_set_new(object, "imbalance", imbalance);
  json_object_set_new(object, "fullest_max_running", count(balance.max_running));
  json_object_set_new(object, "fullest_kv_peak_pages", count(balance.kv_peak_pages));
  for (uint32_t i = 0; i < r->replicas; i++) {
    json_array_append_new(replicas, replica_json(&r->replica[i]));
  }
  json_object_set_new(object, "each", replicas);
  return object;
}

static void add_identity(json_t *root, const struct kc_run *run)
{
  const struct kc_scenario *scenario = run->scenario;
  const struct kc_pool_spec *pool = &scenario->pool[0];
  json_object_set_new(root, "schema", json_integer(RUN_SCHEMA));
  json_object_set_new(root, "version", json_string(KVCAP_VERSION));
  json_object_set_new(root, "name", kc_cli_json_string(scenario->name));
  json_object_set_new(root, "scenario_sha256", json_string(scenario->sha256));
  json_object_set_new(root, "model", json_string(scenario->model.name));
  json_object_set_new(root, "gpu", json_string(pool->gpu.name));
  json_object_set_new(root, "policy", json_string(pool->policy->name));
  json_object_set_new(root, "profile", json_string(pool->profile.name));
  json_object_set_new(root, "host_term_measured", json_boolean(pool->profile.host_measured));
  json_object_set_new(root, "kv_format", json_string(kc_kv_format_name(pool->precision.k_format)));
  json_object_set_new(root, "seed", count(scenario->seed));
  json_object_set_new(root, "trace", trace(run));
  json_object_set_new(root, "result_sha256", json_string(run->result.summary.result_sha256));
}

/* What replicates gave, 5 %, 50 % and 95 % of them; null without --intervals. */
static json_t *intervals_of(const struct kc_intervals *intervals)
{
  if (intervals == NULL) return json_null();
  json_t *object = json_object(), *figures = json_object();
  for (int f = 0; f < KC_FIGURES; f++) {
    const struct kc_interval *i = &intervals->figure[f];
    if (!kc_figure_needs_run((enum kc_figure)f)) continue;
    json_t *figure = json_object();
    json_object_set_new(figure, "count", count(i->count));
    json_object_set_new(figure, "p5", i->count > 0 ? json_real(i->low) : json_null());
    json_object_set_new(figure, "p50", i->count > 0 ? json_real(i->median) : json_null());
    json_object_set_new(figure, "p95", i->count > 0 ? json_real(i->high) : json_null());
    json_object_set_new(figures, kc_figure_name((enum kc_figure)f), figure);
  }
  json_object_set_new(object, "figures", figures);
  json_object_set_new(object, "replicates", count(intervals->replicates));
  json_object_set_new(object, "time_deviation_percent", json_real(intervals->time_percent));
  json_object_set_new(object, "host_unknown", json_boolean(intervals->host_unknown));
  json_object_set_new(object, "trust", json_string(kc_cost_level_name(intervals->level)));
  json_object_set_new(object, "least_percent",
                      intervals->level == KC_LEVEL_CALIBRATED
                          ? json_null() : json_real(100 * KC_INTERVALS_LEAST));
  json_object_set_new(object, "seed_matters", json_boolean(intervals->seed_matters));
  return object;
}

json_t *kc_run_json(const struct kc_run *run, const struct kc_intervals *intervals,
                    const struct kc_run_demands *demands)
{
  json_t *root = json_object();
  double usd;
  if (root == NULL) return NULL;
  add_identity(root, run);
  add_requests(root, &run->result.summary);
  add_latencies(root, &run->result.summary, kc_cost_level_name(kc_run_trust(run).level));
  add_load(root, run);
  kc_run_groups_json(root, run);
  add_memory(root, run);
  json_object_set_new(root, "replicas", count(run->result.replicas));
  json_object_set_new(root, "fleet", fleet(run));
  json_object_set_new(root, "oom", oom(run));
  json_object_set_new(root, "trust", trust_of(run));
  json_object_set_new(root, "utilisation", utilisation(run));
  json_object_set_new(root, "intervals", intervals_of(intervals));
  json_object_set_new(root, "cost_usd_per_mtok",
                      kc_run_cost(run, &usd) ? json_real(usd) : json_null());
  kc_run_money_json(root, run);
  json_object_set_new(root, "requirements", kc_run_demands_json(demands, run));
  return root;
}
