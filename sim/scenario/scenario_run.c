/* Puts a resolved scenario to work (see scenario_run.h). Set-up code: it may allocate. */
#include "sim/scenario/scenario_run.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/cost_tables.h"
#include "sim/scenario/run_parts.h"
#include "sim/scenario/spending.h"

static_assert(KC_SESSION_START == KC_TRACE_NONE, "a trace's `after` is what replay reads");

static const struct kc_pool_spec *pool_of(const struct kc_run *run)
{
  KC_ASSERT(run->scenario->pool_count == 1);
  return &run->scenario->pool[0];
}

uint32_t kc_run_gpus(const struct kc_scenario *scenario)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  KC_ASSERT(scenario->pool_count == 1);
  KC_ASSERT(pool->memory.tensor > 0 && pool->memory.pipeline > 0);
  return pool->replicas * pool->memory.tensor * pool->memory.pipeline;
}

/* ---- memory ---- */

enum kc_err kc_run_no_fit(const struct kc_scenario *scenario, const struct kc_fit *fit,
                          struct kc_diag *diag)
{
  KC_ASSERT(!fit->fits);
  return kc_fail_at(diag, KC_ERR_NO_FIT, scenario->path, 0, 0,
                    "does not fit (%s): %s; kvcap fit with this scenario and the same --set "
                    "prints the bill and the nearest change that fits",
                    fit->phase, fit->inequality);
}

static enum kc_err compute_memory(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = pool_of(run);
  const struct kc_fit *fit = &run->fit;
  KC_TRY(kc_fit_compute(&run->fit, &run->scenario->model, &pool->precision, &pool->gpu,
                        &pool->memory, diag));
  if (!fit->fits) return kc_run_no_fit(run->scenario, fit, diag);
  KC_ASSERT(run->fit.pages > 0);
  KC_ASSERT(run->fit.page_size == pool->sched.page_size);
  return KC_OK;
}

/* ---- workload ---- */

static uint32_t max_tokens_of(const struct kc_workload_spec *work, uint32_t output)
{
  if (work->max_tokens_rule == KC_MAX_TOKENS_COUNT) return (uint32_t)work->max_tokens_count;
  if (work->max_tokens_rule == KC_MAX_TOKENS_TRACE) return output;
  const double limit = ceil((double)output * work->max_tokens_ratio);
  if (limit < 1.0) return 1;
  return limit < (double)KC_MAX_TOKENS_MAX ? (uint32_t)limit : (uint32_t)KC_MAX_TOKENS_MAX;
}

/* Whether requests wait for others: as the scenario says, or as the trace can. */
static enum kc_err choose_loop(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_trace *trace = &run->trace;
  const bool able = trace->column.after != NULL;
  if (work->loop == KC_LOOP_CLOSED && !able) {
    return kc_fail_at(diag, KC_ERR_INPUT, run->scenario->path, 0, 0,
                      "workload.loop: closed needs a trace that says which request waits for "
                      "which, and %s (%s) does not; take the key away", trace->path,
                      trace->format);
  }
  for (uint32_t i = 0; able && i < run->request_count; i++) {
    run->waiting_rows += trace->column.after[i] != KC_TRACE_NONE;
  }
  run->sessions = able && work->loop != KC_LOOP_OPEN &&
                  (run->waiting_rows > 0 || work->loop == KC_LOOP_CLOSED);
  return KC_OK;
}

/* As the file has it: read for this run alone, or a copy of what others read. */
static enum kc_err load_trace(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_trace *recorded;
  KC_ASSERT(run->trace.row == NULL);
  if (run->own_inputs) {
    return kc_trace_load(&run->trace, work->trace_path, &work->trace_options, diag);
  }
  KC_TRY(kc_inputs_trace(run->inputs, work->trace_path, &work->trace_options, &recorded, diag));
  return kc_trace_copy(&run->trace, recorded, diag);
}

static enum kc_err read_trace(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  KC_TRY(load_trace(run, diag));
  KC_TRY(kc_trace_transform(&run->trace, &work->transform, run->change, diag));
  KC_ASSERT(run->trace.count > 0 && run->trace.count < UINT32_MAX);
  run->request_count = (uint32_t)run->trace.count;
  KC_TRY(choose_loop(run, diag));
  return run->trace.prefix_ids ? kc_trace_reuse(&run->trace, &run->reuse, diag) : KC_OK;
}

static void fill_requests(struct kc_run *run, struct kc_request *requests)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  KC_ASSERT(run->request_count > 0);
  for (uint32_t i = 0; i < run->request_count; i++) {
    const struct kc_trace_row *row = &run->trace.row[i];
    requests[i] = (struct kc_request){.arrival_ps = row->arrival_ps,
                                      .input_tokens = row->input_tokens,
                                      .output_tokens = row->output_tokens,
                                      .max_tokens = max_tokens_of(work, row->output_tokens)};
    run->max_tokens_clipped += requests[i].max_tokens < row->output_tokens;
  }
}

/* Open loop: the rows are the requests. Sessions: the requests are written as the run goes. */
static enum kc_err request_trace(struct kc_run *run, struct kc_diag *diag)
{
  KC_TRY(read_trace(run, diag));
  const size_t count = run->request_count;
  run->requests = malloc(count * sizeof *run->requests);
  if (run->sessions) {
    run->rows = malloc(count * sizeof *run->rows);
    if (run->trace.column.wait_ps == NULL) {
      run->trace.column.wait_ps = calloc(count, sizeof *run->trace.column.wait_ps);
    }
  }
  if (run->requests == NULL ||
      (run->sessions && (run->rows == NULL || run->trace.column.wait_ps == NULL))) {
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the requests");
  }
  fill_requests(run, run->sessions ? run->rows : run->requests);
  return KC_OK;
}

static enum kc_err request_closed(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  KC_ASSERT(work->closed.requests > 0);
  KC_ASSERT(work->closed.concurrency > 0);
  run->request_count = work->closed.requests;
  run->requests = calloc(run->request_count, sizeof *run->requests);
  if (run->requests == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the requests");
  return KC_OK;
}

/* ---- who sends, and what prompts hold ---- */

/* A limit of 0 means any latency will do. */
static kc_ps limit_ps(double milliseconds)
{
  KC_ASSERT(milliseconds >= 0);
  if (milliseconds <= 0) return KC_PS_NEVER;
  const double ps = milliseconds * (double)KC_PS_PER_MS;
  return ps < 9e18 ? (kc_ps)ps : KC_PS_NEVER;
}

static enum kc_err prepare_clients(struct kc_run *run, struct kc_request *rows,
                                   struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  for (uint32_t i = 0; i < work->clients.class_count; i++) {
    const struct kc_class_spec *class = &work->clients.class[i];
    const bool own = work->clients.classes_given; /* else what the scenario aims at */
    run->limits[i] = (struct kc_limits){
        limit_ps(own ? class->ttft_ms : run->scenario->slo_ttft_p95_ms),
        limit_ps(own ? class->tpot_ms : run->scenario->slo_tpot_p95_ms)};
    run->patience[i] = class->patience;
  }
  KC_ASSERT(work->clients.class_count >= 1);
  return kc_clients_assign(&run->clients, &work->clients, work->is_closed ? NULL : &run->trace,
                           rows, run->request_count, run->scenario->seed, diag);
}

static bool wants_cache(const struct kc_run *run)
{
  const struct kc_pool_spec *pool = pool_of(run);
  KC_ASSERT(pool->caching != KC_CACHING_ON || pool->role == KC_ROLE_SERVE);
  if (pool->caching != KC_CACHING_AUTO) return pool->caching == KC_CACHING_ON;
  return pool->role == KC_ROLE_SERVE && run->content_source != KC_CONTENT_UNKNOWN;
}

/* Tenants as salts, unless they share; NULL when there is one. */
static enum kc_err salts(const struct kc_run *run, const struct kc_request *rows, uint32_t **salt,
                         struct kc_diag *diag)
{
  *salt = NULL;
  KC_ASSERT(run->clients.tenant_count >= 1);
  if (run->clients.tenant_count == 1 || pool_of(run)->share_tenants) return KC_OK;
  *salt = malloc(run->request_count * sizeof **salt);
  if (*salt == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the tenants");
  for (uint32_t i = 0; i < run->request_count; i++) (*salt)[i] = rows[i].tenant;
  return KC_OK;
}

static enum kc_err prepare_contents(struct kc_run *run, struct kc_request *rows,
                                    struct kc_diag *diag)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  const uint32_t page_size = pool_of(run)->sched.page_size;
  uint32_t *salt;
  run->content_source = !work->is_closed ? kc_contents_of_trace(&run->trace)
                        : work->shared_prefix_tokens > 0 ? KC_CONTENT_PREFIX
                                                         : KC_CONTENT_UNKNOWN;
  run->prefix_cache = wants_cache(run);
  if (!run->prefix_cache) return KC_OK;
  KC_TRY(salts(run, rows, &salt, diag));
  const enum kc_err err =
      work->is_closed
          ? kc_contents_closed(&run->contents, run->request_count,
                               work->closed.input_tokens + work->closed.output_tokens,
                               work->shared_prefix_tokens, page_size, salt, diag)
          : kc_contents_from_trace(&run->contents, &run->trace, page_size, salt, diag);
  free(salt);
  for (uint32_t i = 0; err == KC_OK && i < run->request_count; i++) {
    rows[i].run = run->contents.row[i].run;
    rows[i].run_count = run->contents.row[i].run_count;
  }
  return err;
}

static enum kc_err prepare_workload(struct kc_run *run, struct kc_diag *diag)
{
  const bool closed = run->scenario->workload.is_closed;
  KC_TRY(closed ? request_closed(run, diag) : request_trace(run, diag));
  struct kc_request *rows = run->sessions ? run->rows : run->requests;
  KC_ASSERT(rows != NULL);
  KC_TRY(prepare_clients(run, rows, diag));
  return prepare_contents(run, rows, diag);
}

/* ---- the pool ---- */

/* What the workload's requests hold in the mean: bytes of bounded layers; tokens, by pages. */
struct mean_request {
  double bounded_bytes, tokens;
};

static struct mean_request mean_request(const struct kc_run *run)
{
  const struct kc_pool_spec *pool = pool_of(run);
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_request *rows = run->sessions ? run->rows : run->requests;
  const uint64_t count = work->is_closed ? 1 : run->request_count;
  const uint64_t page = pool->sched.page_size;
  uint64_t bytes = 0, tokens = 0;
  KC_ASSERT(rows != NULL && count > 0);
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t length = work->is_closed
                                ? (uint64_t)work->closed.input_tokens + work->closed.output_tokens
                                : (uint64_t)rows[i].input_tokens + rows[i].output_tokens;
    tokens += (length + page - 1) / page * page;
    bytes += kc_fit_bounded_bytes(&run->fit, &run->scenario->model, &pool->precision,
                                  &pool->memory, length > 0 ? length : 1);
  }
  return (struct mean_request){(double)bytes / (double)count, (double)tokens / (double)count};
}

/* The share of bounded layers: see the header. */
static void take_bounded(struct kc_run *run)
{
  const struct kc_workload_spec *work = &run->scenario->workload;
  const struct kc_fit *fit = &run->fit;
  run->max_running = pool_of(run)->sched.max_running;
  if (fit->rule == KC_RULE_FIXED || fit->kv_request_bytes == 0) return;
  const struct mean_request mean = mean_request(run);
  const double each = mean.bounded_bytes + mean.tokens * (double)fit->kv_token_bytes;
  const double together = (double)fit->kv_budget_bytes / each;
  KC_ASSERT(each > 0);
  run->bounded_requests = run->max_running;
  if (work->is_closed && work->closed.concurrency < run->bounded_requests) {
    run->bounded_requests = work->closed.concurrency;
  }
  if (together < run->bounded_requests) {
    run->bounded_requests = together > 1 ? (uint32_t)together : 1;
    run->max_running = run->bounded_requests;
    run->bounded_limit = true;
  }
  run->bounded_bytes = (uint64_t)((double)run->bounded_requests * mean.bounded_bytes);
}

/* Pages of the requests that fit with their windows in a closed loop: what is left beside them
 * might hold the pages of one more, but not its windows, and is no part of the pool. */
static uint64_t closed_pages(const struct kc_run *run)
{
  const struct kc_closed_config *closed = &run->scenario->workload.closed;
  const uint64_t page = pool_of(run)->sched.page_size;
  const uint64_t length = (uint64_t)closed->input_tokens + closed->output_tokens;
  KC_ASSERT(run->bounded_limit && run->bounded_requests > 0);
  return run->bounded_requests * ((length + page - 1) / page);
}

static enum kc_err size_pool(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = pool_of(run);
  const uint64_t page_bytes = run->fit.kv_token_bytes * pool->sched.page_size;
  KC_ASSERT(page_bytes > 0);
  take_bounded(run);
  const uint64_t taken = (run->bounded_bytes + page_bytes - 1) / page_bytes;
  if (taken >= run->fit.pages) {
    return kc_fail_at(diag, KC_ERR_NO_FIT, run->scenario->path, 0, 0,
                      "the windowed layers of %u requests need %llu bytes per GPU and leave no "
                      "page of the KV budget of %llu: give the KV a smaller format, or more memory",
                      run->bounded_requests, (unsigned long long)run->bounded_bytes,
                      (unsigned long long)run->fit.kv_budget_bytes);
  }
  uint64_t pages = run->fit.pages - taken;
  if (run->bounded_limit && run->scenario->workload.is_closed && closed_pages(run) < pages) {
    pages = closed_pages(run);
  }
  if (pages > KC_POOL_PAGES_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, run->scenario->path, 0, 0,
                      "the pool would have %llu pages; at most %u are supported: raise "
                      "kv.page_size",
                      (unsigned long long)pages, (unsigned)KC_POOL_PAGES_MAX);
  }
  run->pages = (uint32_t)pages;
  if (!pool->max_running_given && pool->policy->request_limit != NULL) {
    const uint64_t pool_tokens = pages * pool->sched.page_size;
    const uint32_t limit = pool->policy->request_limit(&pool->sched, pool_tokens);
    if (limit > 0 && (!run->bounded_limit || limit < run->max_running)) {
      run->max_running = limit;
      run->bounded_limit = false;
    }
  }
  KC_ASSERT(run->max_running > 0);
  return KC_OK;
}

/* ---- step model and replay ---- */

static enum kc_err load_kernels(struct kc_run *run, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  const struct kc_pool_spec *pool = pool_of(run);
  KC_ASSERT(run->kernels == NULL);
  if (pool->profile.kernels[0] == '\0') return KC_OK;
  KC_TRY(kc_kernels_find(&pool->gpu, pool->profile.kernels, run->scenario->model.name,
                         pool->memory.tensor, path, diag));
  return kc_inputs_kernels(run->inputs, path, &run->kernels, diag);
}

/* The most tokens that a step can hold: a prefill budget, and a token for every decode. SGLang's
 * budget without chunks is looked at before a prompt is admitted, so one whole prompt may lie
 * beyond it. */
static uint64_t step_tokens_max(const struct kc_pool_spec *pool)
{
  const struct kc_sched_config *sched = &pool->sched;
  uint64_t budget = sched->max_batched_tokens;
  KC_ASSERT(pool->policy != NULL);
  if (pool->policy->server == KC_SERVER_SGLANG) {
    budget = sched->chunked_prefill ? sched->chunked_prefill_size
                                    : sched->max_prefill_tokens + sched->max_model_len;
  }
  return budget + sched->max_running;
}

static enum kc_err build_cost(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = pool_of(run);
  KC_TRY(load_kernels(run, diag));
  struct kc_cost_config config = {.model = &run->scenario->model,
                                  .precision = &pool->precision,
                                  .gpu = &pool->gpu,
                                  .profile = &pool->profile,
                                  .tensor = pool->memory.tensor,
                                  .pipeline = pool->memory.pipeline,
                                  .integrity = pool->integrity,
                                  .kernels = run->kernels,
                                  .tokens_max = step_tokens_max(pool),
                                  .sequences_max = pool->sched.max_running,
                                  .context_max = pool->sched.max_model_len + 1,
                                  .moe_skew = pool->moe_skew};
  KC_ASSERT(pool->profile.bandwidth_efficiency > 0);
  config.cap_count = kc_cost_caps(&run->scenario->model, config.cap);
  return kc_cost_build(&run->cost, &config, diag);
}

static bool has_patience(const struct kc_clients_spec *clients)
{
  for (uint32_t i = 0; i < clients->class_count; i++) {
    const struct kc_patience *patience = &clients->class[i].patience;
    if (patience->timeout_ps != KC_PS_NEVER || patience->queue_timeout_ps != KC_PS_NEVER) {
      return true;
    }
  }
  return false;
}

/* Groups are kept where there is something to tell apart. */
static void configure_clients(struct kc_run *run)
{
  const struct kc_clients_spec *clients = &run->scenario->workload.clients;
  struct kc_replay_config *replay = &run->replay;
  KC_ASSERT(clients->class_count >= 1 && run->clients.tenant_count >= 1);
  replay->limits = run->limits;
  replay->patience = has_patience(clients) ? run->patience : NULL;
  replay->cancel_after_ps = run->clients.cancel_after_ps;
  replay->groups = (struct kc_groups_config){.class_count = clients->class_count,
                                             .tenant_count = run->clients.tenant_count};
  replay->keep_groups =
      run->prefix_cache || clients->classes_given || run->clients.tenant_count > 1;
}

static void configure_replay(struct kc_run *run)
{
  const struct kc_pool_spec *pool = pool_of(run);
  const struct kc_workload_spec *work = &run->scenario->workload;
  KC_ASSERT(pool->policy != NULL);
  run->replay = (struct kc_replay_config){.requests = run->requests,
                                          .request_count = run->request_count,
                                          .closed = work->is_closed,
                                          .closed_config = work->closed};
  if (run->sessions) {
    run->replay.session = (struct kc_session_config){.row = run->rows,
                                                     .after = run->trace.column.after,
                                                     .wait_ps = run->trace.column.wait_ps};
  }
  run->replay.instance = (struct kc_instance_config){.sched = pool->sched,
                                                     .policy = pool->policy,
                                                     .integrity = pool->integrity,
                                                     .pages = run->pages,
                                                     .queue_limit = pool->queue_limit,
                                                     .inject = pool->inject,
                                                     .seed = run->scenario->seed};
  struct kc_sched_config *sched = &run->replay.instance.sched;
  sched->role = pool->role;
  sched->max_running = run->max_running;
  sched->prefix_cache = run->prefix_cache;
  sched->key_count = run->contents.key_count;
  configure_clients(run);
  sched->cap_count = kc_cost_caps(&run->scenario->model, sched->cap);
}

static enum kc_err prepare(struct kc_run *run, struct kc_diag *diag)
{
  KC_ASSERT(run->inputs != NULL);
  KC_TRY(compute_memory(run, diag));
  KC_TRY(build_cost(run, diag));
  KC_TRY(prepare_workload(run, diag));
  KC_TRY(size_pool(run, diag));
  KC_TRY(kc_run_group_rows(run, diag));
  configure_replay(run);
  return kc_run_reserve(run, diag);
}

enum kc_err kc_run_prepare_from(struct kc_run *run, const struct kc_scenario *scenario,
                                struct kc_inputs *inputs, struct kc_diag *diag)
{
  KC_ASSERT(scenario != NULL);
  memset(run, 0, sizeof *run);
  run->scenario = scenario;
  run->inputs = inputs;
  return prepare(run, diag);
}

enum kc_err kc_run_prepare(struct kc_run *run, const struct kc_scenario *scenario,
                           struct kc_diag *diag)
{
  KC_ASSERT(scenario != NULL);
  memset(run, 0, sizeof *run);
  run->scenario = scenario;
  run->inputs = kc_inputs_create();
  run->own_inputs = true;
  if (run->inputs == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  return prepare(run, diag);
}

enum kc_err kc_run_execute(struct kc_run *run, struct kc_diag *diag)
{
  KC_ASSERT(run->arena.base != NULL);
  KC_ASSERT(run->predicted != NULL);
  return kc_replay_run(&run->replay, &run->metrics, &run->arena, &run->result, diag);
}

struct kc_cost_trust kc_run_trust(const struct kc_run *run)
{
  struct kc_cost_trust trust = kc_predicted_trust(&run->predicted[0]);
  KC_ASSERT(run->predicted[0].cost == &run->cost);
  for (uint32_t i = 1; i < run->result.replicas; i++) {
    const struct kc_cost_trust one = kc_predicted_trust(&run->predicted[i]);
    trust.steps += one.steps;
    trust.time_ps = kc_ps_add(trust.time_ps, one.time_ps);
    trust.outside |= one.outside;
    trust.steps_outside += one.steps_outside;
    trust.outside_ps = kc_ps_add(trust.outside_ps, one.outside_ps);
    if (one.level > trust.level) trust.level = one.level;
  }
  KC_ASSERT(trust.steps == run->result.summary.steps);
  return trust;
}

struct kc_cost_range kc_run_seen(const struct kc_run *run)
{
  struct kc_cost_range seen = run->predicted[0].seen;
  KC_ASSERT(run->predicted[0].cost == &run->cost);
  for (uint32_t i = 1; i < run->scenario->pool[0].replicas; i++) {
    kc_cost_range_join(&seen, &run->predicted[i].seen);
  }
  return seen;
}

struct kc_cost_split kc_run_split(const struct kc_run *run)
{
  struct kc_cost_split sum = {0};
  KC_ASSERT(run->result.replicas >= 1);
  for (uint32_t i = 0; i < run->result.replicas; i++) {
    const struct kc_cost_split one = kc_predicted_split(&run->predicted[i]);
    sum.prefill_ps = kc_ps_add(sum.prefill_ps, one.prefill_ps);
    sum.cached_ps = kc_ps_add(sum.cached_ps, one.cached_ps);
    sum.decode_ps = kc_ps_add(sum.decode_ps, one.decode_ps);
  }
  KC_ASSERT(sum.decode_ps >= 0);
  return sum;
}

uint32_t kc_run_missing(const struct kc_run *run, bool minor,
                        char names[KC_TRUST_NAMES_MAX][24])
{
  const uint64_t all = kc_run_trust(run).outside;
  const uint64_t mask = minor ? all >> KC_OUTSIDE_MINOR : all;
  uint32_t count = 0;
  for (unsigned bit = 0; bit < KC_OUTSIDE_MINOR; bit++) {
    if ((mask >> bit & 1) == 0) continue;
    KC_ASSERT(bit < KC_FAMILIES || bit == KC_OUTSIDE_LAYERS);
    snprintf(names[count++], 24, "%s",
             bit == KC_OUTSIDE_LAYERS ? "layers" : kc_family_name((enum kc_family)bit));
  }
  KC_ASSERT(count <= KC_TRUST_NAMES_MAX);
  return count;
}

void kc_run_deinit(struct kc_run *run)
{
  kc_trace_free(&run->trace);
  kc_contents_free(&run->contents);
  kc_clients_free(&run->clients);
  free(run->requests);
  free(run->rows);
  free(run->group);
  run->requests = run->rows = NULL;
  run->group = NULL;
  if (run->arena.base != NULL) kc_arena_deinit(&run->arena);
  kc_cost_free(&run->cost);
  if (run->own_inputs) kc_inputs_destroy(run->inputs);
  run->inputs = NULL;
  run->kernels = NULL;
}

bool kc_run_hit_rate(const struct kc_run *run, double *share)
{
  const struct kc_summary *s = &run->result.summary;
  const bool known = run->prefix_cache && run->content_source != KC_CONTENT_UNKNOWN;
  if (!known || s->admitted_tokens == 0) return false;
  KC_ASSERT(share != NULL);
  *share = (double)s->cached_tokens / (double)s->admitted_tokens;
  return true;
}

static bool has_limits(const struct kc_run *run)
{
  for (uint32_t i = 0; i < run->scenario->workload.clients.class_count; i++) {
    const struct kc_limits *limits = &run->limits[i];
    if (limits->ttft_ps != KC_PS_NEVER || limits->tpot_ps != KC_PS_NEVER) return true;
  }
  return false;
}

bool kc_run_goodput(const struct kc_run *run, double *requests_per_s)
{
  const struct kc_summary *s = &run->result.summary;
  KC_ASSERT(s->slo_met <= s->requests_total);
  if (!has_limits(run)) return false;
  *requests_per_s = s->makespan_ps > 0 ? (double)s->slo_met * 1e12 / (double)s->makespan_ps : 0.0;
  return true;
}

bool kc_run_cost(const struct kc_run *run, double *usd_per_mtok)
{
  struct kc_spending spending;
  KC_ASSERT(usd_per_mtok != NULL);
  kc_run_spending(run, &spending);
  if (!spending.output_mtok_usd.known || run->result.summary.makespan_ps == 0) return false;
  KC_ASSERT(spending.output_mtok_usd.value >= 0);
  *usd_per_mtok = floor(spending.output_mtok_usd.value * 1e6 + 0.5) / 1e6;
  return true;
}
