/* The instance with an executor of constant steps: integrity, refusals, empty steps, statuses. */
#include "engine/instance/instance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS_MAX = 8, SLOTS = 4 };
#define STEP_PS KC_PS_PER_MS
#define REQUEST(at_ps, in, out, limit) \
  {.arrival_ps = (at_ps), .input_tokens = (in), .output_tokens = (out), .max_tokens = (limit)}

struct world {
  struct kc_request request[REQUESTS_MAX];
  struct kc_outcome outcome[REQUESTS_MAX];
  uint32_t outcomes;
  uint64_t tokens;            /* as the steps report them */
  uint32_t left[SLOTS];       /* executor: tokens still to come */
  bool decoding[SLOTS];
  uint32_t finish[SLOTS];
  struct kc_violation violation; /* returned in the step of this index */
  uint64_t violation_step;
  struct kc_arena arena;
  struct kc_instance instance;
};

static enum kc_err run_step(void *context, const struct kc_step *step,
                            struct kc_step_result *result, struct kc_diag *diag)
{
  struct world *w = context;
  (void)diag;
  for (uint32_t i = 0; i < step->leave_count; i++) w->decoding[step->leave[i]] = false;
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    w->left[join->slot] = w->request[join->request].output_tokens - join->outputs;
    w->decoding[join->slot] = join->kv_in_place;
  }
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    if (step->chunk[i].last) w->decoding[step->chunk[i].slot] = true;
  }
  *result = (struct kc_step_result){.duration_ps = STEP_PS, .finish = w->finish};
  if (w->violation_step == step->index) {
    result->violation = &w->violation;
    result->violation_count = 1;
    w->decoding[w->violation.slot] = false;
  }
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    if (!w->decoding[slot] || --w->left[slot] > 0) continue;
    w->decoding[slot] = false;
    w->finish[result->finish_count++] = slot;
  }
  return KC_OK;
}

static void on_step(void *context, const struct kc_step_report *report)
{
  struct world *w = context;
  w->tokens += report->tokens_out;
}

static void on_gap(void *context, kc_ps gap_ps)
{
  (void)context;
  assert_true(gap_ps > 0);
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct world *w = context;
  assert_true(w->outcomes < REQUESTS_MAX);
  w->outcome[w->outcomes++] = *outcome;
}

static void start(struct world *w, uint32_t count, uint32_t pages, enum kc_integrity integrity)
{
  struct kc_instance_config config = {.policy = kc_policy_find("vllm-0.19"),
                                      .integrity = integrity, .pages = pages,
                                      .requests_max = REQUESTS_MAX, .seed = 1};
  const struct kc_executor executor = {.context = w, .name = "constant", .run = run_step};
  const struct kc_observer observer = {
      .context = w, .on_step = on_step, .on_gap = on_gap, .on_end = on_end};
  struct kc_diag diag;
  config.policy->defaults(&config.sched, UINT64_C(80) << 30, false);
  config.sched.page_size = 4;
  config.sched.max_running = SLOTS;
  config.sched.max_batched_tokens = 64;
  config.sched.max_model_len = 64;
  config.sched.overlap = false;
  assert_int_equal(kc_arena_init(&w->arena, kc_instance_need(&config), &diag), KC_OK);
  assert_int_equal(kc_instance_init(&w->instance, &config, w->request, &executor, &observer,
                                    &w->arena, &diag), KC_OK);
  w->violation_step = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++) kc_instance_arrive(&w->instance);
}

static void step(struct world *w)
{
  struct kc_diag diag;
  assert_int_equal(kc_instance_begin_step(&w->instance, &diag), KC_OK);
  if (w->instance.in_step) kc_instance_end_step(&w->instance);
}

static void drain(struct world *w)
{
  for (int i = 0; i < 1000 && kc_instance_busy(&w->instance); i++) step(w);
  assert_false(kc_instance_busy(&w->instance));
}

static uint64_t tokens_received(const struct world *w)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < w->outcomes; i++) sum += w->outcome[i].output_tokens;
  return sum;
}

/* A page of request 0 is taken away behind its back: it alone is aborted, before the next step. */
static void stale_page_aborts_its_owner_alone(void **state)
{
  (void)state;
  const enum kc_integrity modes[] = {KC_INTEGRITY_BATCHED, KC_INTEGRITY_PARANOID};
  for (int m = 0; m < 2; m++) {
    struct world w = {.request = {REQUEST(0, 8, 20, 20), REQUEST(0, 8, 20, 20)}};
    start(&w, 2, 64, modes[m]);
    for (int i = 0; i < 3; i++) step(&w);
    struct kc_page gone;
    const struct kc_page page = kc_table_row(&w.instance.table, 0)[1];
    assert_int_equal(kc_pool_quarantine(&w.instance.pool, page, kc_table_owner(0), 1, &gone),
                     KC_OK);
    step(&w);
    assert_int_equal(w.outcomes, 1);
    assert_int_equal(w.outcome[0].request, 0);
    assert_int_equal(w.outcome[0].status, KC_STATUS_FAILED);
    assert_int_equal(w.outcome[0].reason, KC_REASON_INTEGRITY);
    assert_int_equal(w.outcome[0].output_tokens, 3);
    assert_int_equal(w.outcome[0].end_ps, 3 * STEP_PS);
    drain(&w);
    assert_int_equal(w.outcomes, 2);
    assert_int_equal(w.outcome[1].status, KC_STATUS_COMPLETED);
    assert_int_equal(w.outcome[1].output_tokens, 20);
    assert_int_equal(tokens_received(&w), w.tokens);
    assert_int_equal(kc_pool_release_quarantined(&w.instance.pool, gone), KC_OK);
    struct kc_diag diag;
    assert_int_equal(kc_instance_finish(&w.instance, &diag), KC_OK);
    kc_arena_deinit(&w.arena);
  }
}

/* An executor that finds a row wrong: its token of that step does not leave. */
static void violation_withholds_the_token(void **state)
{
  (void)state;
  struct world w = {.request = {REQUEST(0, 8, 20, 20), REQUEST(0, 8, 20, 20)}};
  start(&w, 2, 64, KC_INTEGRITY_BATCHED);
  w.violation = (struct kc_violation){.slot = 1, .page = 0, .code = KC_ERR_TAG_STALE};
  w.violation_step = 4;
  for (int i = 0; i < 5; i++) step(&w);
  assert_int_equal(w.outcomes, 1);
  assert_int_equal(w.outcome[0].request, 1);
  assert_int_equal(w.outcome[0].reason, KC_REASON_INTEGRITY);
  assert_int_equal(w.outcome[0].output_tokens, 4); /* of steps 0 to 3 */
  drain(&w);
  assert_int_equal(w.outcome[1].status, KC_STATUS_COMPLETED);
  assert_int_equal(tokens_received(&w), w.tokens);
  kc_arena_deinit(&w.arena);
}

/* Heads that can never fit are refused, and the one behind them runs at once. */
static void hopeless_heads_do_not_block(void **state)
{
  (void)state;
  struct world w = {
      .request = {REQUEST(0, 40, 1, 1), REQUEST(0, 40, 1, 1), REQUEST(0, 4, 2, 2)}};
  start(&w, 3, 8, KC_INTEGRITY_BATCHED); /* 32 tokens */
  step(&w);
  assert_int_equal(w.outcomes, 2);
  assert_int_equal(w.outcome[0].reason, KC_REASON_NEVER_FITS);
  assert_int_equal(w.outcome[1].request, 1);
  drain(&w);
  assert_int_equal(w.outcome[2].status, KC_STATUS_COMPLETED);
  assert_int_equal(w.instance.oom_ps, 0); /* offered KV exceeded the pool on arrival */
  kc_arena_deinit(&w.arena);
}

static void names_are_pinned(void **state)
{
  (void)state;
  assert_string_equal(kc_status_name(KC_STATUS_TIMED_OUT), "timed_out");
  assert_string_equal(kc_reason_name(KC_REASON_NEVER_FITS), "never_fits");
  assert_null(kc_policy_find("vllm-0.18"));
  assert_non_null(strstr(kc_policy_names(), "vllm-0.19"));
}

static void configurations_are_checked(void **state)
{
  (void)state;
  const struct kc_policy *policy = kc_policy_find("vllm-0.19");
  struct kc_sched_config good;
  struct kc_diag diag;
  policy->defaults(&good, UINT64_C(80) << 30, false);
  assert_int_equal(good.max_running, 1024); /* vLLM: 70 GiB and more */
  assert_int_equal(good.max_batched_tokens, 8192);
  good.max_model_len = 1000;
  assert_int_equal(policy->validate(&good, &diag), KC_OK);
  struct kc_sched_config small;
  policy->defaults(&small, UINT64_C(80) << 30, true); /* an A100 */
  assert_int_equal(small.max_running, 256);
  assert_int_equal(small.max_batched_tokens, 2048);
  struct kc_sched_config bad = good;
  bad.max_batched_tokens = bad.max_running - 1;
  assert_int_equal(policy->validate(&bad, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "max_batched_tokens >= max_running"));
  bad = good;
  bad.max_model_len = 1;
  assert_int_equal(policy->validate(&bad, &diag), KC_ERR_INPUT);
  bad = good;
  bad.page_size = 0;
  assert_int_equal(policy->validate(&bad, &diag), KC_ERR_INPUT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(stale_page_aborts_its_owner_alone),
                                     cmocka_unit_test(violation_withholds_the_token),
                                     cmocka_unit_test(hopeless_heads_do_not_block),
                                     cmocka_unit_test(names_are_pinned),
                                     cmocka_unit_test(configurations_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
