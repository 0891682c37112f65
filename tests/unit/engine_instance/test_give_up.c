/* Requests that are given up in every state they can be in, the limit of the queue, and faults made
 * on purpose: each kind found with the check on, and counted with it off. */
#include "engine/instance/instance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS_MAX = 64, SLOTS = 8, PAGE = 4, KEYS = 4096 };
#define STEP_PS 10

struct world {
  struct kc_request request[REQUESTS_MAX];
  struct kc_key_run run[REQUESTS_MAX][2];
  struct kc_outcome outcome[REQUESTS_MAX];
  uint32_t outcomes;
  uint64_t tokens; /* as the steps report them */
  uint32_t left[SLOTS];
  bool producing[SLOTS];
  uint32_t finish[SLOTS];
  struct kc_arena arena;
  struct kc_instance_config config;
  struct kc_instance instance;
};

static enum kc_err run_step(void *context, const struct kc_step *step,
                            struct kc_step_result *result, struct kc_diag *diag)
{
  struct world *w = context;
  const struct kc_batch *batch = &w->instance.batch;
  bool prompt[SLOTS] = {false};
  (void)diag;
  for (uint32_t i = 0; i < step->leave_count; i++) w->producing[step->leave[i]] = false;
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    w->left[join->slot] = w->request[join->request].output_tokens - join->outputs;
    w->producing[join->slot] = false;
  }
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    if (step->chunk[i].last) prompt[step->chunk[i].slot] = true;
  }
  *result = (struct kc_step_result){.duration_ps = STEP_PS, .finish = w->finish};
  for (uint32_t s = batch->running.head; s != KC_SLOT_NONE; s = batch->slot[s].run_next) {
    const bool token = prompt[s] || (w->producing[s] && step->decoding);
    if (prompt[s]) w->producing[s] = true;
    if (!token || --w->left[s] > 0) continue;
    w->producing[s] = false;
    w->finish[result->finish_count++] = s;
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

static void configure(struct world *w, const char *policy, bool overlap, bool cache, uint32_t pages)
{
  struct kc_sched_config *sched = &w->config.sched;
  memset(w, 0, sizeof *w);
  w->config = (struct kc_instance_config){.policy = kc_policy_find(policy),
                                          .integrity = KC_INTEGRITY_BATCHED,
                                          .pages = pages,
                                          .requests_max = REQUESTS_MAX,
                                          .seed = 1};
  w->config.policy->defaults(sched, UINT64_C(80) << 30, false);
  sched->page_size = PAGE;
  sched->max_running = SLOTS;
  sched->max_batched_tokens = 16;
  sched->chunked_prefill_size = 16;
  sched->max_model_len = 1000;
  sched->overlap = overlap;
  sched->prefix_cache = cache;
  sched->key_count = KEYS;
}

/* A prompt whose first `shared` pages have the keys 0, 1, ...; the rest is its own. */
static void ask(struct world *w, uint32_t request, kc_ps at_ps, uint32_t input, uint32_t output,
                uint32_t shared)
{
  const uint32_t pages = (input + output) / PAGE;
  w->run[request][0] = (struct kc_key_run){.first = 0, .count = shared};
  w->run[request][1] =
      (struct kc_key_run){.first = 64 * (request + 1), .count = pages - shared};
  w->request[request] = (struct kc_request){.arrival_ps = at_ps,
                                            .input_tokens = input,
                                            .output_tokens = output,
                                            .max_tokens = output,
                                            .run = &w->run[request][shared == 0],
                                            .run_count = 2 - (shared == 0)};
}

static void start(struct world *w)
{
  struct kc_diag diag;
  const struct kc_executor executor = {.context = w, .name = "constant", .run = run_step};
  const struct kc_observer observer = {
      .context = w, .on_step = on_step, .on_gap = on_gap, .on_end = on_end};
  assert_int_equal(kc_arena_init(&w->arena, kc_instance_need(&w->config), &diag), KC_OK);
  assert_int_equal(kc_instance_init(&w->instance, &w->config, w->request, &executor, &observer,
                                    &w->arena, &diag), KC_OK);
}

static void begin(struct world *w)
{
  struct kc_diag diag;
  assert_int_equal(kc_instance_begin_step(&w->instance, &diag), KC_OK);
  assert_true(kc_batch_valid(&w->instance.batch));
}

static void step(struct world *w)
{
  begin(w);
  if (w->instance.in_step) kc_instance_end_step(&w->instance);
}

/* To the end: everybody has ended, no page is missing, and tokens were neither lost nor made. */
static void finish(struct world *w)
{
  struct kc_diag diag;
  uint64_t received = 0;
  for (int i = 0; i < 5000 && kc_instance_busy(&w->instance); i++) step(w);
  assert_false(kc_instance_busy(&w->instance));
  assert_int_equal(kc_instance_finish(&w->instance, &diag), KC_OK);
  for (uint32_t i = 0; i < w->outcomes; i++) received += w->outcome[i].output_tokens;
  assert_int_equal(received, w->tokens);
  kc_arena_deinit(&w->arena);
}

static const struct kc_outcome *outcome_of(const struct world *w, uint32_t request)
{
  for (uint32_t i = 0; i < w->outcomes; i++) {
    if (w->outcome[i].request == request) return &w->outcome[i];
  }
  fail_msg("request %u has not ended", request);
  return NULL;
}

static void expect_given_up(const struct world *w, uint32_t request, enum kc_status status,
                            kc_ps end_ps, uint32_t outputs)
{
  const struct kc_outcome *o = outcome_of(w, request);
  assert_int_equal(o->status, status);
  assert_int_equal(o->reason, status == KC_STATUS_CANCELLED ? KC_REASON_CANCELLED
                                                            : KC_REASON_TIMED_OUT);
  assert_int_equal(o->end_ps, end_ps);
  assert_int_equal(o->output_tokens, outputs);
}

/* Every combination of policy, overlap and cache. */
enum { VARIANTS = 8 };
static void configure_variant(struct world *w, int variant, uint32_t pages)
{
  configure(w, variant & 1 ? "sglang-0.5" : "vllm-0.19", (variant & 2) != 0, (variant & 4) != 0,
            pages);
}

static void a_waiting_request_ends_at_once(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    w.config.sched.max_running = 1;
    for (uint32_t i = 0; i < 3; i++) ask(&w, i, 0, 8, 4, 1);
    start(&w);
    for (uint32_t i = 0; i < 3; i++) kc_instance_arrive(&w.instance);
    begin(&w); /* request 0 runs until 10 */
    assert_true(kc_instance_waits(&w.instance, 1));
    assert_false(kc_instance_waits(&w.instance, 0));
    assert_true(kc_instance_cancel(&w.instance, 1, 4, KC_STATUS_CANCELLED));
    expect_given_up(&w, 1, KC_STATUS_CANCELLED, 4, 0);
    assert_false(kc_instance_waits(&w.instance, 1));
    assert_false(kc_instance_cancel(&w.instance, 1, 5, KC_STATUS_TIMED_OUT));
    kc_instance_end_step(&w.instance);
    finish(&w);
    assert_int_equal(outcome_of(&w, 0)->status, KC_STATUS_COMPLETED);
    assert_int_equal(outcome_of(&w, 2)->status, KC_STATUS_COMPLETED);
  }
}

static void a_decode_ends_with_its_step(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    ask(&w, 0, 0, 8, 50, 1);
    ask(&w, 1, 0, 8, 3, 1);
    start(&w);
    kc_instance_arrive(&w.instance);
    kc_instance_arrive(&w.instance);
    step(&w);
    begin(&w); /* 10 to 20 */
    assert_true(kc_instance_cancel(&w.instance, 0, 13, KC_STATUS_TIMED_OUT));
    assert_false(kc_instance_cancel(&w.instance, 0, 14, KC_STATUS_CANCELLED));
    assert_int_equal(w.outcomes, 0);
    kc_instance_end_step(&w.instance);
    expect_given_up(&w, 0, KC_STATUS_TIMED_OUT, 20, 2);
    finish(&w);
    assert_int_equal(outcome_of(&w, 1)->output_tokens, 3);
  }
}

static void between_two_steps_it_ends_at_once(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    ask(&w, 0, 0, 8, 50, 1);
    start(&w);
    kc_instance_arrive(&w.instance);
    step(&w);
    step(&w);
    assert_true(kc_instance_cancel(&w.instance, 0, 20, KC_STATUS_CANCELLED));
    expect_given_up(&w, 0, KC_STATUS_CANCELLED, 20, 2);
    finish(&w);
  }
}

/* The server saw the end before it looked at the cancellation. */
static void who_ends_with_the_step_is_completed(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    ask(&w, 0, 0, 8, 2, 1);
    start(&w);
    kc_instance_arrive(&w.instance);
    step(&w);
    begin(&w);
    assert_true(kc_instance_cancel(&w.instance, 0, 15, KC_STATUS_CANCELLED));
    kc_instance_end_step(&w.instance);
    assert_int_equal(outcome_of(&w, 0)->status, KC_STATUS_COMPLETED);
    /* Its ghost cannot be given up any more. */
    assert_false(kc_instance_cancel(&w.instance, 0, 20, KC_STATUS_CANCELLED));
    finish(&w);
  }
}

static void a_half_computed_prompt_leaves_no_ghost(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    ask(&w, 0, 0, 40, 2, 1); /* three chunks */
    ask(&w, 1, 0, 4, 2, 0);
    start(&w);
    kc_instance_arrive(&w.instance);
    kc_instance_arrive(&w.instance);
    begin(&w);
    assert_true(kc_instance_cancel(&w.instance, 0, 1, KC_STATUS_CANCELLED));
    kc_instance_end_step(&w.instance);
    expect_given_up(&w, 0, KC_STATUS_CANCELLED, 10, 0);
    assert_int_equal(w.instance.batch.running.count, 0);
    finish(&w);
    assert_int_equal(outcome_of(&w, 1)->status, KC_STATUS_COMPLETED);
  }
}

/* 4 pages. Both decodes want a third page at 50; one has to go back to the queue. */
static void a_preempted_request_ends_at_once(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 4);
    w.config.sched.schedule_conservativeness = 0.001;
    ask(&w, 0, 0, 3, 6, 0);
    ask(&w, 1, 5, 3, 6, 0);
    start(&w);
    kc_instance_arrive(&w.instance);
    bool second = false;
    while (w.instance.batch.preemptions == 0 && kc_instance_busy(&w.instance)) {
      begin(&w);
      if (!second) kc_instance_arrive(&w.instance);
      second = true;
      if (w.instance.in_step) kc_instance_end_step(&w.instance);
    }
    if (w.instance.batch.preemptions > 0) { /* with sglang the second waits instead */
      assert_false(kc_instance_waits(&w.instance, 1));
      const kc_ps now_ps = w.instance.clock_ps;
      assert_true(kc_instance_cancel(&w.instance, 1, now_ps, KC_STATUS_CANCELLED));
      assert_int_equal(outcome_of(&w, 1)->preemptions, 1);
      assert_int_equal(outcome_of(&w, 1)->end_ps, now_ps);
    }
    finish(&w);
  }
}

static void the_queue_has_a_limit(void **state)
{
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    struct world w;
    configure_variant(&w, v, 64);
    w.config.sched.max_running = 1;
    w.config.queue_limit = 2;
    for (uint32_t i = 0; i < 6; i++) ask(&w, i, i < 4 ? 0 : 5, 8, 3, 0);
    start(&w);
    for (uint32_t i = 0; i < 3; i++) kc_instance_arrive(&w.instance); /* one too many */
    assert_int_equal(outcome_of(&w, 2)->reason, KC_REASON_QUEUE_FULL);
    assert_int_equal(outcome_of(&w, 2)->status, KC_STATUS_REJECTED);
    begin(&w); /* request 0 holds the slot, 1 waits */
    kc_instance_arrive(&w.instance); /* 3 waits too */
    kc_instance_arrive(&w.instance);
    assert_int_equal(outcome_of(&w, 4)->reason, KC_REASON_QUEUE_FULL);
    assert_true(kc_instance_cancel(&w.instance, 1, 5, KC_STATUS_CANCELLED));
    kc_instance_arrive(&w.instance); /* there is room again */
    assert_int_equal(w.outcomes, 3);
    kc_instance_end_step(&w.instance);
    finish(&w);
    assert_int_equal(outcome_of(&w, 5)->status, KC_STATUS_COMPLETED);
  }
}

/* ---- faults on purpose ---- */

static void run_faults(struct world *w, int variant, enum kc_integrity integrity, uint32_t kinds)
{
  configure_variant(w, variant | 4, 48);
  w->config.integrity = integrity;
  w->config.inject = (struct kc_inject_config){.kinds = kinds, .every_steps = 3, .seed = 7};
  /* LOST needs a page that several share and nothing hangs from: prompts of three pages, and
   * outputs that fill none. */
  const bool alike = kinds == KC_INJECT_LOST;
  for (uint32_t i = 0; i < 48; i++) {
    if (alike) ask(w, i, 0, 13, 2 + i % 2, 3);
    else ask(w, i, 0, 13 + i % 5, 10 + i % 7, 3);
  }
  start(w);
  for (uint32_t i = 0; i < 48; i++) kc_instance_arrive(&w->instance);
  finish(w);
}

static uint32_t count_reason(const struct world *w, enum kc_reason reason)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->outcomes; i++) count += w->outcome[i].reason == reason;
  return count;
}

static uint32_t count_contaminated(const struct world *w)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->outcomes; i++) count += w->outcome[i].contaminated;
  return count;
}

static void each_fault_is_found_or_counted(void **state)
{
  static struct world w; /* too large for a stack */
  (void)state;
  for (int v = 0; v < 4; v++) {
    for (uint32_t bit = 0; bit < KC_INJECT_KINDS; bit++) {
      const struct kc_injector *in = &w.instance.injector;
      for (int mode = KC_INTEGRITY_BATCHED; mode <= KC_INTEGRITY_PARANOID; mode++) {
        run_faults(&w, v, (enum kc_integrity)mode, 1u << bit);
        assert_true(in->injected[bit] > 0);
        assert_true(in->aborted_soundly > 0);
        assert_int_equal(in->victims, in->aborted_soundly);
        assert_int_equal(in->mistaken, 0);
        assert_int_equal(in->contaminated, 0);
        assert_int_equal(count_contaminated(&w), 0);
        assert_int_equal(count_reason(&w, KC_REASON_INTEGRITY), in->aborted_soundly);
      }
      run_faults(&w, v, KC_INTEGRITY_OFF, 1u << bit);
      assert_true(in->injected[bit] > 0);
      assert_true(in->contaminated > 0);
      assert_int_equal(count_contaminated(&w), in->contaminated);
      assert_int_equal(count_reason(&w, KC_REASON_INTEGRITY), 0);
    }
  }
}

static void names_are_pinned(void **state)
{
  (void)state;
  const char *const names[KC_INJECT_KINDS] = {"lost", "reused", "swapped", "stale", "range"};
  for (uint32_t bit = 0; bit < KC_INJECT_KINDS; bit++) {
    assert_string_equal(kc_inject_kind_name((enum kc_inject_kind)(1u << bit)), names[bit]);
  }
  assert_string_equal(kc_reason_name(KC_REASON_QUEUE_FULL), "queue_full");
  assert_string_equal(kc_reason_name(KC_REASON_CANCELLED), "cancelled");
  assert_string_equal(kc_reason_name(KC_REASON_TIMED_OUT), "timed_out");
  assert_string_equal(kc_reason_name(KC_REASON_POOL_TOO_SMALL), "pool_too_small");
  assert_string_equal(kc_queue_order_name(KC_ORDER_PRIORITY), "priority");
  assert_string_equal(kc_queue_order_name(KC_ORDER_LPM), "lpm");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_waiting_request_ends_at_once),
                                     cmocka_unit_test(a_decode_ends_with_its_step),
                                     cmocka_unit_test(between_two_steps_it_ends_at_once),
                                     cmocka_unit_test(who_ends_with_the_step_is_completed),
                                     cmocka_unit_test(a_half_computed_prompt_leaves_no_ghost),
                                     cmocka_unit_test(a_preempted_request_ends_at_once),
                                     cmocka_unit_test(the_queue_has_a_limit),
                                     cmocka_unit_test(each_fault_is_found_or_counted),
                                     cmocka_unit_test(names_are_pinned)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
