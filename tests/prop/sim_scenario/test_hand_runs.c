/* Two small runs worked out by hand, step by step, from vLLM 0.19's rules. A step takes 10 ms.
 *
 * Plenty: pages of 4 tokens, 8 pages, at most 3 running, 8 tokens a step.
 *
 *   request  arrival  in  out
 *   0            0 ms  6    3
 *   1            5 ms 10    2
 *   2            5 ms  4    6
 *   3           12 ms  3    1
 *   4          200 ms  2    2
 *
 *   step  start  what runs (tokens of budget 8)              pages used   tokens out
 *   0         0  0: chunk 6                                   2           0 (first)
 *   1        10  0: decode; 1: chunk 7 of 10                  4           0
 *   2        20  0: decode; 1: last 3; 2: chunk 4             6           0 (ends), 1, 2 (first)
 *   3        30  1: decode; 2: decode (page); 3: chunk 3      6           1 (ends), 2, 3 (ends)
 *   4..6     40  2: decode                                    2           2
 *   7        70  2: decode (page)                             3           2 (ends at 80)
 *   8       200  4: chunk 2                                   1           4 (first)
 *   9       210  4: decode                                    1           4 (ends at 220)
 *
 * Starved: 3 pages of 4 tokens; two requests of 4 + 6 tokens at 0 ms.
 *
 *   0         0  0 and 1: chunk 4 each                        2           0, 1 (first)
 *   1        10  0: decode (page 3); 1 finds none and is its own victim
 *   2..5     20  0: decode; 1 needs 2 pages and finds 1       ends at 60
 *   6        60  1: chunk 5 again (4 + 1 output)              its gap: 10 -> 70 ms
 *   7..10    70  1: decode                                    ends at 110
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run_support.h"

#define MS KC_PS_PER_MS

struct expected {
  uint32_t request, outputs, preemptions;
  int64_t first_ms, end_ms, resident_ms;
};

static void expect_outcomes(const struct test_run *run, const struct expected *expected)
{
  assert_int_equal(run->outcome_count, run->request_count);
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    assert_int_equal(o->request, expected[i].request);
    assert_int_equal(o->status, KC_STATUS_COMPLETED);
    assert_int_equal(o->output_tokens, expected[i].outputs);
    assert_int_equal(o->preemptions, expected[i].preemptions);
    assert_int_equal(o->first_token_ps, expected[i].first_ms * MS);
    assert_int_equal(o->end_ps, expected[i].end_ms * MS);
    assert_int_equal(o->resident_ps, expected[i].resident_ms * MS);
  }
}

static void configure(struct test_run *run, struct kc_request *requests, uint32_t count,
                      uint32_t pages)
{
  *run = (struct test_run){.requests = requests, .request_count = count};
  test_instance_default(&run->instance, pages);
  run->instance.sched.page_size = 4;
  run->instance.sched.max_running = 3;
  run->instance.sched.max_batched_tokens = 8;
  test_cost_constant(&run->cost, 10 * MS);
}

static void five_requests(void **state)
{
  (void)state;
  struct kc_request requests[5] = {REQUEST(0, 6, 3, 3),
                                   REQUEST(5 * MS, 10, 2, 2),
                                   REQUEST(5 * MS, 4, 6, 6),
                                   REQUEST(12 * MS, 3, 1, 1),
                                   REQUEST(200 * MS, 2, 2, 2)};
  const struct expected expected[5] = {{0, 3, 0, 10, 30, 30},
                                       {1, 2, 0, 30, 40, 30},
                                       {3, 1, 0, 40, 40, 10},
                                       {2, 6, 0, 30, 80, 60},
                                       {4, 2, 0, 210, 220, 20}};
  struct test_run run;
  configure(&run, requests, 5, 8);
  test_run_execute(&run);
  expect_outcomes(&run, expected);
  const struct kc_summary *s = &run.result.summary;
  assert_int_equal(s->steps, 10);
  assert_int_equal(s->busy_ps, 100 * MS);
  assert_int_equal(s->makespan_ps, 220 * MS);
  assert_int_equal(s->input_tokens, 25);
  assert_int_equal(s->output_tokens, 14);
  assert_int_equal(s->output_tok_s_micro, 63636364); /* 14 / 0.22 s */
  assert_int_equal(s->max_running, 3);
  assert_int_equal(s->max_waiting, 1);
  assert_int_equal(s->kv_peak_pages, 6);
  assert_int_equal(s->kv_peak_tokens, 22); /* after step 2: 8 + 10 + 4 */
  assert_int_equal(s->ttft.mean_ps, (10 + 25 + 25 + 28 + 10) * MS / 5);
  assert_int_equal(s->ttft.p50_ps, 25 * MS);
  assert_int_equal(s->ttft.p99_ps, 28 * MS);
  assert_int_equal(s->e2e.mean_ps, (30 + 35 + 75 + 28 + 20) * MS / 5);
  assert_int_equal(s->tpot.count, 4);
  assert_int_equal(s->tpot.max_ps, 10 * MS);
  assert_int_equal(s->itl.count, 9);
  assert_int_equal(s->itl.mean_ps, 10 * MS);
  assert_int_equal(run.result.oom_ps, KC_PS_NEVER);
  free(run.outcomes);
}

static void two_requests_starved(void **state)
{
  (void)state;
  struct kc_request requests[2] = {REQUEST(0, 4, 6, 6), REQUEST(0, 4, 6, 6)};
  const struct expected expected[2] = {{0, 6, 0, 10, 60, 60}, {1, 6, 1, 10, 110, 60}};
  struct test_run run;
  configure(&run, requests, 2, 3);
  test_run_execute(&run);
  expect_outcomes(&run, expected);
  const struct kc_summary *s = &run.result.summary;
  assert_int_equal(s->steps, 11);
  assert_int_equal(s->preemptions, 1);
  assert_int_equal(s->itl.count, 10);
  assert_int_equal(s->itl.max_ps, 60 * MS);
  assert_int_equal(s->itl.mean_ps, (9 * 10 + 60) * MS / 10);
  assert_int_equal(s->tpot.max_ps, 20 * MS);
  assert_int_equal(run.result.oom_ps, 10 * MS); /* request 1 wants the page that is not there */
  assert_int_equal(run.result.oom_request, 1);
  assert_int_equal(run.result.oom_demand_pages, 4);
  free(run.outcomes);
}

/* One request alone outgrows 3 pages: 12 tokens of KV are all it can have. It prefills 4, decodes
 * until 12 tokens have KV (outputs 1 + 8 = 9 at 90 ms), then is refused with what it produced. */
static void outgrown_pool_ends_with_a_reason(void **state)
{
  (void)state;
  struct kc_request requests[1] = {REQUEST(0, 4, 100, 100)};
  struct test_run run;
  configure(&run, requests, 1, 3);
  test_run_execute(&run);
  const struct kc_outcome *o = &run.outcomes[0];
  assert_int_equal(o->status, KC_STATUS_FAILED);
  assert_int_equal(o->reason, KC_REASON_OUTGREW_POOL);
  assert_int_equal(o->output_tokens, 9);
  assert_int_equal(o->end_ps, 90 * MS);
  assert_int_equal(o->preemptions, 1);
  free(run.outcomes);
}

/* Decode role: 4 tokens of prompt arrive with their KV; the first step already yields a token. */
static void decode_role_starts_with_a_decode(void **state)
{
  (void)state;
  struct kc_request requests[2] = {REQUEST(0, 4, 3, 3), REQUEST(0, 8, 1, 1)};
  const struct expected expected[2] = {{1, 1, 0, 10, 10, 10}, {0, 3, 0, 10, 30, 30}};
  struct test_run run;
  configure(&run, requests, 2, 8);
  run.instance.sched.role = KC_ROLE_DECODE;
  test_run_execute(&run);
  expect_outcomes(&run, expected);
  assert_int_equal(run.result.summary.kv_peak_pages, 3);   /* 1 + 2 */
  assert_int_equal(run.result.summary.kv_peak_tokens, 12); /* 4 + 8: the last prompt token's KV
                                                              is written by the first step */
  free(run.outcomes);
}

/* Prompts at the limit are refused on arrival; outputs are cut at max_model_len and max_tokens. */
static void limits(void **state)
{
  (void)state;
  struct kc_request requests[3] = {REQUEST(0, 16, 1, 1), REQUEST(0, 14, 9, 9), REQUEST(0, 2, 9, 4)};
  struct test_run run;
  configure(&run, requests, 3, 16);
  run.instance.sched.max_model_len = 16;
  test_run_execute(&run);
  assert_int_equal(run.outcomes[0].request, 0);
  assert_int_equal(run.outcomes[0].reason, KC_REASON_PROMPT_TOO_LONG);
  assert_int_equal(run.outcomes[0].end_ps, 0);
  assert_int_equal(run.outcomes[1].request, 1);
  assert_int_equal(run.outcomes[1].output_tokens, 2);
  assert_int_equal(run.outcomes[2].request, 2);
  assert_int_equal(run.outcomes[2].output_tokens, 4);
  assert_int_equal(run.result.summary.tokens_clipped_requests, 2);
  free(run.outcomes);
}

static bool count_polls(void *context)
{
  ++*(uint64_t *)context;
  return false;
}

/* Two events, the arrival and the first step, and 9,000 steps: each is a poll. */
static void whoever_may_stop_a_run_is_asked(void **state)
{
  (void)state;
  static const struct {
    uint32_t every;
    uint64_t asked;
  } cases[] = {{0, 2}, {1, 9002}, {9002, 1}, {9003, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_request request = REQUEST(0, 4, 9000, 9000);
    uint64_t polls = 0;
    struct test_run run;
    configure(&run, &request, 1, 3000);
    run.interrupted = count_polls;
    run.interrupted_context = &polls;
    run.poll_every = cases[i].every;
    test_run_execute(&run);
    assert_int_equal(run.result.summary.steps, 9000);
    assert_int_equal(polls, cases[i].asked);
    free(run.outcomes);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(five_requests),
                                     cmocka_unit_test(two_requests_starved),
                                     cmocka_unit_test(outgrown_pool_ends_with_a_reason),
                                     cmocka_unit_test(decode_role_starts_with_a_decode),
                                     cmocka_unit_test(limits),
                                     cmocka_unit_test(whoever_may_stop_a_run_is_asked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
