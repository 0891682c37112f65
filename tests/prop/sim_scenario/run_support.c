/* See run_support.h. */
#include "run_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"

void test_cost_constant(struct kc_cost *cost, kc_ps step_ps)
{
  memset(cost, 0, sizeof *cost);
  cost->op_count = 1;
  cost->op[0] = (struct kc_cost_op){.kind = KC_COST_TOKENS, .layers = 1, .cap = -1};
  cost->host_step = (uint64_t)step_ps << KC_COST_FRACTION_BITS;
}

static struct kc_cost_op random_op(struct kc_random *random, enum kc_cost_kind kind, int32_t cap)
{
  return (struct kc_cost_op){.kind = kind,
                             .layers = 1,
                             .cap = cap,
                             .latency = kc_random_below(random, UINT64_C(1) << 42),
                             .byte_fixed = kc_random_below(random, UINT64_C(1) << 50),
                             .byte_unit = kc_random_below(random, UINT64_C(1) << 38),
                             .byte_write = kc_random_below(random, UINT64_C(1) << 38),
                             .flop_unit = kc_random_below(random, UINT64_C(1) << 38)};
}

void test_cost_random(struct kc_cost *cost, uint64_t seed, uint32_t cap_count)
{
  struct kc_random random;
  kc_random_init(&random, seed, "test-cost", 0);
  memset(cost, 0, sizeof *cost);
  cost->experts = 64;
  cost->experts_per_token = 1 + (uint32_t)kc_random_below(&random, 8);
  cost->host_step = kc_random_below(&random, UINT64_C(1) << 50);
  cost->op[cost->op_count++] = random_op(&random, KC_COST_INTEGRITY, -1);
  for (int32_t cap = -1; cap < (int32_t)cap_count; cap++) {
    cost->op[cost->op_count++] = random_op(&random, KC_COST_DECODE_ATTENTION, cap);
    cost->op[cost->op_count++] = random_op(&random, KC_COST_PREFILL_ATTENTION, cap);
  }
  cost->context_ops = cost->op_count;
  cost->op[cost->op_count++] = random_op(&random, KC_COST_TOKENS, -1);
  cost->op[cost->op_count++] = random_op(&random, KC_COST_LOGITS, -1);
  cost->op[cost->op_count++] = random_op(&random, KC_COST_EXPERTS, -1);
}

void test_cost_trace(struct kc_cost *cost, unsigned slower)
{
  test_cost_random(cost, 1, 1);
  cost->host_step = (uint64_t)(8 * KC_PS_PER_MS) << KC_COST_FRACTION_BITS;
  for (uint32_t i = 0; i < cost->op_count; i++) {
    struct kc_cost_op *op = &cost->op[i];
    op->byte_fixed >>= 10;
    op->byte_unit = op->byte_unit >> 10 << slower;
    op->byte_write = op->byte_write >> 10 << slower;
    op->flop_unit = op->flop_unit >> 10 << slower;
  }
}

void test_instance_default(struct kc_instance_config *config, uint32_t pages)
{
  memset(config, 0, sizeof *config);
  config->policy = kc_policy_find("vllm-0.19");
  config->policy->defaults(&config->sched, UINT64_C(80) << 30, false);
  config->sched.max_model_len = 131072;
  config->sched.overlap = false;
  config->integrity = KC_INTEGRITY_BATCHED;
  config->pages = pages;
  config->seed = 1;
}

static enum kc_err keep(void *context, const struct kc_outcome *outcome,
                        const struct kc_request *request, struct kc_diag *diag)
{
  struct test_run *run = context;
  (void)request;
  (void)diag;
  if (run->outcome_count == run->request_count) abort();
  run->outcomes[run->outcome_count++] = *outcome;
  return KC_OK;
}

static void die(const char *what, const struct kc_diag *diag)
{
  fprintf(stderr, "%s: %s\n", what, diag->text);
  abort();
}

/* Sessions write a table of their own, in the order of time. */
static struct kc_request *table_of(const struct test_run *run)
{
  if (run->after == NULL) return run->requests;
  struct kc_request *table = calloc(run->request_count, sizeof *table);
  if (table == NULL) abort();
  return table;
}

struct executors {
  struct kc_predicted predicted[KC_REPLICAS_MAX];
  struct kc_replica_config replica[KC_REPLICAS_MAX];
};

static uint32_t replicas_of(const struct test_run *run)
{
  return run->router.replicas > 1 ? run->router.replicas : 1;
}

/* An executor for each replica, and a table for each of several. */
static void make_executors(struct executors *out, struct test_run *run,
                           struct kc_request *table, struct kc_arena *arena)
{
  const uint32_t replicas = replicas_of(run);
  for (uint32_t i = 0; i < replicas; i++) {
    struct kc_request *own = table;
    if (replicas > 1) own = calloc(run->request_count, sizeof *own);
    if (own == NULL ||
        kc_predicted_init(&out->predicted[i], &run->cost, own, run->instance.sched.max_model_len,
                          run->instance.sched.max_running, arena) != KC_OK) {
      abort();
    }
    out->replica[i] = (struct kc_replica_config){
        .executor = kc_predicted_executor(&out->predicted[i]), .requests = own};
  }
}

void test_run_execute(struct test_run *run)
{
  struct kc_arena arena;
  struct executors *executors = calloc(1, sizeof *executors);
  struct kc_diag diag = {0};
  struct kc_metrics *metrics = calloc(1, sizeof *metrics);
  const uint32_t slots = run->instance.sched.max_running;
  struct kc_request *const table = table_of(run);
  struct kc_replay_config config = {.instance = run->instance,
                                    .requests = table,
                                    .request_count = run->request_count,
                                    .closed = run->closed,
                                    .closed_config = run->closed_config,
                                    .patience = run->patience,
                                    .cancel_after_ps = run->cancel_after_ps,
                                    .router = run->router,
                                    .group = run->group,
                                    .interrupted = run->interrupted,
                                    .interrupted_context = run->interrupted_context,
                                    .poll_every = run->poll_every,
                                    .recorder = {.context = run, .on_outcome = keep}};
  if (run->after != NULL) {
    config.session = (struct kc_session_config){
        .row = run->requests, .after = run->after, .wait_ps = run->wait_ps};
  }
  run->outcomes = calloc(run->request_count, sizeof *run->outcomes);
  run->outcome_count = 0;
  if (executors == NULL || metrics == NULL || run->outcomes == NULL) abort();
  const size_t need = kc_replay_need(&config) + replicas_of(run) * kc_predicted_need(slots);
  if (kc_arena_init(&arena, need, &diag) != KC_OK) die("arena", &diag);
  make_executors(executors, run, table, &arena);
  config.replica = executors->replica;
  config.executor = executors->replica[0].executor;
  if (run->wrap != NULL) config.executor = run->wrap(run->wrap_context, &config.executor);
  if (kc_replay_run(&config, metrics, &arena, &run->result, &diag) != KC_OK) die("replay", &diag);
  memcpy(run->replica, run->result.replica, replicas_of(run) * sizeof run->replica[0]);
  run->result.replica = run->replica;
  kc_arena_deinit(&arena);
  for (uint32_t i = 0; replicas_of(run) > 1 && i < replicas_of(run); i++) {
    free(executors->replica[i].requests);
  }
  free(executors);
  free(metrics);
  if (table != run->requests) free(table);
}
