/* The replicas of a run: who belongs together before the router, and what each replica needs.
 *
 *   trace: sessions        a group each
 *          prefix ids      the id that ends the first router.prefix_tokens tokens of the prompt, or
 *                          its last id when the prompt is shorter: an id stands for all before it
 *          neither         refused
 *
 * Set-up code: it may allocate.
 */
#include "sim/scenario/run_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(KC_GROUP_NONE == KC_TRACE_NONE, "a row without session has no group");

/* ---- groups ---- */

static void group_by_ids(struct kc_run *run, uint32_t prefix_tokens)
{
  const struct kc_trace *trace = &run->trace;
  const uint32_t blocks = (prefix_tokens - 1) / trace->block_tokens + 1;
  KC_ASSERT(trace->prefix_ids && trace->block_tokens > 0);
  run->group_count = trace->block_distinct;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const uint32_t count = trace->column.block_count[i];
    const uint64_t first = trace->column.block_first[i];
    const uint32_t last = count < blocks ? count : blocks;
    run->group[i] = last > 0 ? trace->block[first + last - 1] : KC_GROUP_NONE;
    KC_ASSERT(run->group[i] == KC_GROUP_NONE || run->group[i] < run->group_count);
  }
}

enum kc_err kc_run_group_rows(struct kc_run *run, struct kc_diag *diag)
{
  const struct kc_scenario *scenario = run->scenario;
  const struct kc_trace *trace = &run->trace;
  if (scenario->router.policy == KC_ROUTER_PREFIX_AWARE && !run->prefix_cache) {
    return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0,
                      "router.policy prefix-aware needs prompts that are known and cached, and "
                      "here %s; use round-robin or least-loaded",
                      run->content_source == KC_CONTENT_UNKNOWN
                          ? "the workload does not say what prompts hold"
                          : "kv.prefix_cache is off");
  }
  if (scenario->router.policy != KC_ROUTER_SESSION_AFFINITY) return KC_OK;
  KC_ASSERT(!scenario->workload.is_closed);
  KC_ASSERT(run->group == NULL);
  if (trace->column.session == NULL && !trace->prefix_ids) {
    return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0,
                      "router.policy session-affinity needs a trace with sessions or prefix ids, "
                      "and %s (%s) has neither; use round-robin or least-loaded", trace->path,
                      trace->format);
  }
  run->group = malloc(run->request_count * sizeof *run->group);
  if (run->group == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the router's groups");
  if (trace->column.session == NULL) {
    group_by_ids(run, scenario->router.prefix_tokens);
    return KC_OK;
  }
  memcpy(run->group, trace->column.session, run->request_count * sizeof *run->group);
  run->group_count = trace->session_count;
  return KC_OK;
}

/* ---- memory ---- */

static void configure_router(struct kc_run *run)
{
  const struct kc_scenario *scenario = run->scenario;
  KC_ASSERT(scenario->pool[0].replicas >= 1 && scenario->pool[0].replicas <= KC_REPLICAS_MAX);
  run->replay.group = run->group;
  run->replay.router = (struct kc_router_config){
      .policy = scenario->router.policy,
      .replicas = scenario->pool[0].replicas,
      .group_count = run->group_count,
      .key_count = run->contents.key_count,
      .overflow_numerator = scenario->router.overflow.numerator,
      .overflow_denominator = scenario->router.overflow.denominator};
}

/* Arena bytes beside those of the replay. */
static size_t executors_need(const struct kc_run *run)
{
  const uint32_t replicas = run->replay.router.replicas;
  const uint32_t share = kc_router_share(&run->replay.router, run->request_count);
  const size_t table = replicas > 1 ? kc_arena_need(share, sizeof(struct kc_request)) : 0;
  size_t total;
  KC_ASSERT(replicas >= 1);
  if (__builtin_mul_overflow(replicas, kc_predicted_need(run->max_running) + table, &total)) {
    return SIZE_MAX;
  }
  KC_ASSERT(total > 0);
  return total + kc_arena_need(replicas, sizeof(struct kc_predicted)) +
         kc_arena_need(replicas, sizeof(struct kc_replica_config));
}

static enum kc_err make_executors(struct kc_run *run)
{
  const uint32_t replicas = run->replay.router.replicas;
  const uint32_t share = kc_router_share(&run->replay.router, run->request_count);
  const uint64_t longest = run->replay.instance.sched.max_model_len;
  run->predicted = kc_arena_take(&run->arena, replicas, sizeof *run->predicted);
  run->replica = kc_arena_take(&run->arena, replicas, sizeof *run->replica);
  if (run->predicted == NULL || run->replica == NULL) return KC_ERR_MEMORY;
  for (uint32_t i = 0; i < replicas; i++) {
    struct kc_request *requests = run->requests;
    if (replicas > 1) requests = kc_arena_take(&run->arena, share, sizeof *requests);
    if (requests == NULL) return KC_ERR_MEMORY;
    KC_TRY(kc_predicted_init(&run->predicted[i], &run->cost, requests, longest, run->max_running,
                             &run->arena));
    run->replica[i] = (struct kc_replica_config){
        .executor = kc_predicted_executor(&run->predicted[i]), .requests = requests};
  }
  run->replay.executor = run->replica[0].executor;
  run->replay.replica = run->replica;
  return KC_OK;
}

enum kc_err kc_run_reserve(struct kc_run *run, struct kc_diag *diag)
{
  configure_router(run);
  size_t need = kc_replay_need(&run->replay);
  KC_ASSERT(run->max_running > 0);
  if (__builtin_add_overflow(need, executors_need(run), &need)) need = SIZE_MAX;
  KC_TRY(kc_arena_init(&run->arena, need, diag));
  if (make_executors(run) == KC_OK) return KC_OK;
  return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
}

/* ---- figures ---- */

static double over_mean(uint64_t largest, uint64_t sum, uint32_t replicas)
{
  KC_ASSERT(largest <= sum);
  KC_ASSERT(replicas > 0);
  return sum > 0 ? (double)largest * replicas / (double)sum : 1.0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

struct kc_run_balance kc_run_balance_of(const struct kc_replay_result *result)
{
  struct kc_run_balance balance = {0};
  struct kc_replica_figures most = {0}, sum = {0};
  KC_ASSERT(result->replicas >= 1);
  for (uint32_t i = 0; i < result->replicas; i++) {
    const struct kc_replica_figures *f = &result->replica[i];
    sum.requests += f->requests;
    sum.input_tokens += f->input_tokens;
    sum.output_tokens += f->output_tokens;
    sum.busy_ps = kc_ps_add(sum.busy_ps, f->busy_ps);
    most.requests = larger(most.requests, f->requests);
    most.input_tokens = larger(most.input_tokens, f->input_tokens);
    most.output_tokens = larger(most.output_tokens, f->output_tokens);
    if (f->busy_ps > most.busy_ps) most.busy_ps = f->busy_ps;
    if (f->max_running > balance.max_running) balance.max_running = f->max_running;
    balance.kv_peak_pages = larger(balance.kv_peak_pages, f->kv_peak_pages);
  }
  KC_ASSERT(sum.requests == result->summary.requests_total);
  balance.requests = over_mean(most.requests, sum.requests, result->replicas);
  balance.input_tokens = over_mean(most.input_tokens, sum.input_tokens, result->replicas);
  balance.output_tokens = over_mean(most.output_tokens, sum.output_tokens, result->replicas);
  balance.busy = over_mean((uint64_t)most.busy_ps, (uint64_t)sum.busy_ps, result->replicas);
  return balance;
}
