/* timeout: 300
 * The computing executor under a real instance: tokens are those of sequences run alone, whatever
 * the batch, the chunks, preemptions and threads; its decision log is the predicted executor's;
 * faults in its rows abort exactly their victims.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/exec/executor.h"
#include "engine/exec/decision.h"
#include "engine/instance/instance.h"
#include "engine/sched/vllm_0_19.h"
#include "kernels/ref/ref.h"
#include "tiny_models.h"

enum { REQUESTS = 10, PAGE = 16, LOG_BYTES = 1 << 20, STEP_PS = 1000000 };

/* Steps of one length; requests end by their trace length. In place of the predicted executor. */
struct plain_executor {
  const struct kc_request *requests;
  struct {
    uint32_t remaining; /* tokens to come, once decoding */
    bool decoding, active;
    uint64_t order;
  } slot[64];
  uint64_t order;
  uint32_t finish[64];
};

static enum kc_err plain_run(void *context, const struct kc_step *step,
                             struct kc_step_result *result, struct kc_diag *diag)
{
  struct plain_executor *p = context;
  (void)diag;
  for (uint32_t i = 0; i < step->leave_count; i++) p->slot[step->leave[i]].active = false;
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    p->slot[join->slot].remaining = p->requests[join->request].output_tokens - join->outputs;
    p->slot[join->slot].decoding = join->kv_in_place;
    p->slot[join->slot].active = true;
    p->slot[join->slot].order = p->order++;
  }
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    if (step->chunk[i].last) p->slot[step->chunk[i].slot].decoding = true;
  }
  *result = (struct kc_step_result){.duration_ps = STEP_PS, .finish = p->finish};
  for (uint64_t order = 0; order < p->order; order++) {
    for (uint32_t s = 0; s < 64; s++) {
      if (!p->slot[s].active || !p->slot[s].decoding || p->slot[s].order != order) continue;
      if (--p->slot[s].remaining == 0) p->finish[result->finish_count++] = s;
    }
  }
  return KC_OK;
}

struct text {
  char *at;
  size_t bytes;
};

static void add_text(void *context, const char *text, size_t bytes)
{
  struct text *log = context;
  assert_true(log->bytes + bytes < LOG_BYTES);
  memcpy(log->at + log->bytes, text, bytes);
  log->bytes += bytes;
}

struct world {
  /* what varies */
  const char *config;
  uint32_t threads, pages, block_rows, max_running, budget;
  enum kc_integrity executor_integrity;
  bool predicted_only, kv_in_place;
  void (*damage)(struct world *world, uint64_t step);
  /* the rest */
  struct kc_request request[REQUESTS];
  struct kc_weights weights;
  struct kc_cache cache;
  struct kc_team *team;
  struct kc_arena arena;
  struct kc_instance instance;
  struct kc_exec exec;
  struct kc_synthetic_prompts prompts;
  struct plain_executor plain;
  struct kc_executor clock, inner;
  struct kc_decision_tap tap;
  struct text log;
  struct kc_outcome outcome[REQUESTS];
  uint32_t outcomes;
  uint64_t preemptions, step;
};

static struct kc_decision_pair exec_row(const void *context, uint32_t slot, uint32_t index)
{
  const struct kc_page_ref ref = kc_exec_row(context, slot)[index];
  return (struct kc_decision_pair){ref.page, ref.tag};
}

static void on_step(void *context, const struct kc_step_report *report)
{
  struct world *world = context;
  world->step = report->index;
}

static void on_gap(void *context, kc_ps gap_ps)
{
  (void)context, (void)gap_ps;
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct world *world = context;
  world->outcome[world->outcomes++] = *outcome;
  world->preemptions += outcome->preemptions;
}

static void make_requests(struct world *w)
{
  for (uint32_t i = 0; i < REQUESTS; i++) {
    const uint32_t input = 5 + i * 29 % 61, output = 1 + i * 17 % 23;
    w->request[i] = (struct kc_request){.input_tokens = input, .output_tokens = output,
                                        .max_tokens = output,
                                        .arrival_ps = (kc_ps)i * 3 * STEP_PS};
  }
}

static void make_executor(struct world *w, const struct kc_instance_config *config)
{
  struct kc_diag diag = {0};
  const struct kc_exec_config exec = {
      .weights = &w->weights, .cache = &w->cache, .slots = w->max_running,
      .row_entries = kc_exec_row_entries(config->sched.max_model_len, PAGE, w->pages),
      .pages = w->pages, .integrity = w->executor_integrity, .page_tokens = PAGE,
      .requests = w->request, .request_count = REQUESTS, .output_tokens = 1000,
      .max_model_len = config->sched.max_model_len, .prompts = kc_prompts_synthetic(&w->prompts),
      .end_token = -1, .team = w->team, .threads = w->threads, .block_rows = w->block_rows,
      .clock = &w->clock};
  if (w->predicted_only) {
    w->inner = w->clock;
  } else {
    if (kc_exec_init(&w->exec, &exec, &w->arena, &diag) != KC_OK) fail_msg("%s", diag.text);
    w->inner = kc_exec_executor(&w->exec);
  }
}

static void start(struct world *w)
{
  struct kc_diag diag = {0};
  struct kc_instance_config config = {.policy = &kc_policy_vllm_0_19, .pages = w->pages,
                                      .requests_max = REQUESTS,
                                      .integrity = KC_INTEGRITY_OFF, .seed = 4};
  const struct kc_cache_config cache = {KC_KV_FP8_E4M3, KC_KV_BF16, w->pages, PAGE, 0.02f, 0, {0}};
  const struct kc_observer observer = {w, on_step, on_gap, on_end};
  config.policy->defaults(&config.sched, UINT64_C(80) << 30, false);
  config.sched.max_running = w->max_running;
  config.sched.max_batched_tokens = w->budget;
  config.sched.max_model_len = 256;
  config.sched.role = w->kv_in_place ? KC_ROLE_DECODE : KC_ROLE_SERVE;
  make_requests(w);
  tiny_weights(&w->weights, w->config, "routed_experts=int4-g32", 256, 5);
  assert_int_equal(kc_cache_init(&w->cache, &w->weights.recipe, &cache, &diag), KC_OK);
  assert_int_equal(kc_team_create(&w->team, w->threads, &diag), KC_OK);
  assert_int_equal(kc_arena_init(&w->arena, (size_t)256 << 20, &diag), KC_OK);
  w->prompts = (struct kc_synthetic_prompts){11, 203};
  w->plain.requests = w->request;
  w->clock = (struct kc_executor){&w->plain, "predicted", plain_run};
  w->log.at = malloc(LOG_BYTES);
  w->tap = (struct kc_decision_tap){.row = w->predicted_only ? NULL : exec_row,
                                    .row_context = &w->exec,
                                    .write = add_text,
                                    .write_context = &w->log};
  assert_int_equal(kc_decision_init(&w->tap, w->max_running, &w->arena), KC_OK);
  w->tap.inner = w->clock;
  const struct kc_executor executor = kc_decision_executor(&w->tap);
  if (kc_instance_init(&w->instance, &config, w->request, &executor, &observer, &w->arena,
                       &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  make_executor(w, &config);
  w->tap.inner = w->inner;
}

static void run(struct world *w)
{
  struct kc_diag diag = {0};
  uint32_t arrived = 0;
  while (arrived < REQUESTS || kc_instance_busy(&w->instance)) {
    while (arrived < REQUESTS && (w->request[arrived].arrival_ps <= w->instance.clock_ps ||
                                  !kc_instance_busy(&w->instance))) {
      kc_instance_arrive(&w->instance);
      arrived++;
    }
    if (w->damage != NULL) w->damage(w, w->step);
    if (kc_instance_begin_step(&w->instance, &diag) != KC_OK) fail_msg("%s", diag.text);
    if (w->instance.in_step) kc_instance_end_step(&w->instance);
  }
  assert_int_equal(w->outcomes, REQUESTS);
}

static void stop(struct world *w)
{
  kc_team_destroy(w->team);
  kc_cache_deinit(&w->cache);
  kc_weights_free(&w->weights);
  kc_arena_deinit(&w->arena);
  free(w->log.at);
}

static const struct world defaults = {.threads = 1, .pages = 64, .max_running = 8, .budget = 64,
                                      .executor_integrity = KC_INTEGRITY_BATCHED,
                                      .config = tiny_gqa_config};

/* Greedy tokens of one request, alone, in one pass for each token. */
static void run_alone(const struct world *w, uint32_t request, int32_t *out)
{
  struct kc_forward forward;
  struct kc_cache cache;
  struct kc_arena arena;
  struct kc_page_ref row[16];
  struct kc_diag diag = {0};
  const struct kc_cache_config config = {KC_KV_FP8_E4M3, KC_KV_BF16, 16, PAGE, 0.02f, 0, {0}};
  struct kc_forward_config pass = {.weights = &w->weights, .cache = &cache,
                                   .table = {row, 1, 16}, .rows_max = 128};
  const struct kc_prompts prompts = kc_prompts_synthetic((struct kc_synthetic_prompts *)(uintptr_t)
                                                         &w->prompts);
  const uint32_t input = w->request[request].input_tokens;
  int32_t token[256];
  for (uint32_t i = 0; i < 16; i++) row[i] = (struct kc_page_ref){15 - i, 1};
  for (uint32_t i = 0; i < input; i++) token[i] = prompts.token(prompts.context, request, i);
  assert_int_equal(kc_cache_init(&cache, &w->weights.recipe, &config, &diag), KC_OK);
  assert_int_equal(kc_arena_init(&arena, kc_forward_need(&w->weights.recipe, 128), &diag), KC_OK);
  assert_int_equal(kc_forward_init(&forward, &pass, &arena, &diag), KC_OK);
  struct kc_piece piece = {.slot = 0, .start = 0, .count = input, .yields = true};
  for (uint32_t i = 0; i < w->request[request].output_tokens; i++) {
    assert_int_equal(kc_forward_run(&forward, &piece, 1, token + piece.start), KC_OP_OK);
    out[i] = token[input + i] = piece.token;
    piece = (struct kc_piece){.slot = 0, .start = input + i, .count = 1, .yields = true};
  }
  kc_arena_deinit(&arena);
  kc_cache_deinit(&cache);
}

static void expect_tokens_of_lone_runs(const struct world *w)
{
  for (uint32_t i = 0; i < REQUESTS; i += 2) {
    int32_t want[64];
    uint32_t count;
    run_alone(w, i, want);
    const int32_t *got = kc_exec_output(&w->exec, i, &count);
    assert_int_equal(count, w->request[i].output_tokens);
    for (uint32_t t = 0; t < count; t++) {
      if (got[t] != want[t]) fail_msg("request %u token %u: %d, alone %d", i, t, got[t], want[t]);
    }
  }
}

static void batches_do_not_change_tokens(void **state)
{
  (void)state;
  static const struct {
    const char *config;
    uint32_t threads, pages, block_rows, budget;
    bool kv_in_place;
  } cases[] = {{tiny_gqa_config, 1, 64, 0, 64, false},
               {tiny_gqa_config, 3, 13, 7, 32, false}, /* 13 pages: somebody is preempted */
               {tiny_mla_config, 2, 64, 16, 40, false},
               {tiny_mla_config, 2, 14, 64, 64, true}};
  for (int c = 0; c < 4; c++) {
    struct world w = defaults;
    w.config = cases[c].config, w.threads = cases[c].threads, w.pages = cases[c].pages;
    w.block_rows = cases[c].block_rows, w.budget = cases[c].budget;
    w.kv_in_place = cases[c].kv_in_place;
    start(&w);
    run(&w);
    if (c == 1) assert_true(w.preemptions > 0);
    for (uint32_t i = 0; i < REQUESTS; i++) {
      assert_int_equal(w.outcome[i].status, KC_STATUS_COMPLETED);
    }
    expect_tokens_of_lone_runs(&w);
    assert_int_equal(w.exec.host.counter[KC_COUNT_CHECKS], w.exec.steps);
    assert_int_equal(w.exec.host.counter[KC_COUNT_EVENTS], 0);
    assert_int_equal(w.exec.host.counter[KC_COUNT_WRITES_REFUSED], 0);
    stop(&w);
  }
}

static void decisions_are_those_of_the_prediction(void **state)
{
  (void)state;
  for (uint32_t pages = 12; pages <= 40; pages += 14) {
    struct world real = defaults, predicted = defaults;
    real.pages = predicted.pages = pages;
    real.threads = 2;
    predicted.predicted_only = true;
    start(&real), run(&real);
    start(&predicted), run(&predicted);
    assert_true(real.log.bytes > 1000);
    assert_int_equal(real.log.bytes, predicted.log.bytes);
    assert_memory_equal(real.log.at, predicted.log.at, real.log.bytes);
    stop(&real), stop(&predicted);
  }
}

/* ---- faults ---- */

static uint32_t victim_slot, victim_request;

static void pick_victim(struct world *w)
{
  for (uint32_t s = 0; s < w->max_running; s++) {
    if (!w->exec.slot[s].decoding || w->exec.extent[s] < 2) continue;
    victim_slot = s;
    victim_request = w->exec.slot[s].request;
    return;
  }
  fail_msg("nobody decodes");
}

static struct kc_page_ref *victim_entry(struct world *w, uint32_t index)
{
  return &w->exec.host.entry[victim_slot * w->exec.row_entries + index];
}

static void stale_tag(struct world *w, uint64_t step)
{
  if (step != 12 || victim_request != UINT32_MAX) return;
  pick_victim(w);
  victim_entry(w, 1)->tag ^= 4u;
}

static void out_of_range(struct world *w, uint64_t step)
{
  if (step != 12 || victim_request != UINT32_MAX) return;
  pick_victim(w);
  victim_entry(w, 0)->page = w->pages;
}

/* The pool moves on without the table: what a double free elsewhere would do. */
static void reused_page(struct world *w, uint64_t step)
{
  if (step != 12 || victim_request != UINT32_MAX) return;
  pick_victim(w);
  w->instance.pool.record[victim_entry(w, 1)->page].generation += 2;
}

static void undo_reuse(struct world *w)
{
  w->instance.pool.record[victim_entry(w, 1)->page].generation -= 2;
}

static void faults_abort_their_victims_alone(void **state)
{
  (void)state;
  static void (*const damages[])(struct world *, uint64_t) = {stale_tag, out_of_range};
  for (int d = 0; d < 2; d++) {
    struct world w = defaults;
    w.damage = damages[d];
    victim_request = UINT32_MAX;
    start(&w);
    run(&w);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
      const struct kc_outcome *o = &w.outcome[i];
      const bool victim = o->request == victim_request;
      failed += o->status == KC_STATUS_FAILED;
      assert_int_equal(o->status, victim ? KC_STATUS_FAILED : KC_STATUS_COMPLETED);
      if (victim) assert_int_equal(o->reason, KC_REASON_INTEGRITY);
    }
    assert_int_equal(failed, 1);
    assert_int_equal(w.exec.host.counter[KC_COUNT_EVENTS], 1);
    assert_int_equal(w.exec.host.ring[0].slot, victim_slot);
    for (uint32_t i = 0; i < REQUESTS; i += 3) { /* the others' tokens are untouched */
      int32_t want[64];
      uint32_t count;
      if (i == victim_request) continue;
      run_alone(&w, i, want);
      const int32_t *got = kc_exec_output(&w.exec, i, &count);
      assert_int_equal(count, w.request[i].output_tokens);
      assert_memory_equal(got, want, count * sizeof *got);
    }
    stop(&w);
  }
}

/* One step by hand: the pool's tag moves on; the step names the slot and computes nothing. */
static void reuse_behind_the_back_is_seen(void **state)
{
  (void)state;
  struct world w = defaults;
  struct kc_diag diag = {0};
  victim_request = UINT32_MAX;
  start(&w);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    w.request[i].arrival_ps = 0;
    kc_instance_arrive(&w.instance);
  }
  for (int i = 0; i < 12; i++) {
    assert_int_equal(kc_instance_begin_step(&w.instance, &diag), KC_OK);
    if (w.instance.in_step) kc_instance_end_step(&w.instance);
  }
  reused_page(&w, 12);
  assert_int_equal(kc_instance_begin_step(&w.instance, &diag), KC_OK);
  assert_int_equal(w.instance.result.violation_count, 1);
  assert_int_equal(w.instance.result.violation[0].slot, victim_slot);
  assert_int_equal(w.instance.result.violation[0].code, KC_ERR_TAG_STALE);
  assert_int_equal(w.instance.result.violation[0].page, victim_entry(&w, 1)->page);
  undo_reuse(&w);
  kc_instance_end_step(&w.instance);
  stop(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_do_not_change_tokens),
      cmocka_unit_test(decisions_are_those_of_the_prediction),
      cmocka_unit_test(faults_abort_their_victims_alone),
      cmocka_unit_test(reuse_behind_the_back_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
