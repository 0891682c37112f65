/* Sessions worked out by hand. A step takes 10 ms, pages hold 4 tokens, 8 tokens a step at most.
 *
 * Three turns of a conversation with time to think, beside one request that stands alone:
 *
 *   row  arrival  after  wait    in  out
 *   0       0 ms      -            4    2
 *   1      15 ms      -            3    3
 *   2       7 ms      0  12 ms     8    2     recorded times of turns 2 and 3 are not looked at
 *   3       9 ms      2  20 ms    11    1
 *
 *   step  start  what runs                        tokens out
 *   0         0  0: chunk 4                       0 (first)
 *   1        10  0: decode                        0 (ends at 20: row 2 is due at 32)
 *   2        20  1 (came at 15): chunk 3          1 (first)
 *   3        30  1: decode                        1
 *   4        40  1: decode; 2 (came at 32): 7     1 (ends at 50)
 *   5        50  2: the last token of the prompt  2 (first)
 *   6        60  2: decode                        2 (ends at 70: row 3 is due at 90)
 *   7        90  3: chunk 8 of 11
 *   8       100  3: the last 3                    3 (first and last, ends at 110)
 *
 * An agent and its two sub-agents, all due at one instant, and a turn that waits for the second:
 *
 *   row  arrival  after  wait    in  out
 *   0       0 ms      -            4    1     ends at 10: rows 1 and 3 are due at 15, and so is row
 *   1       0 ms      0   5 ms     2    1     2 by its arrival: they come as 1, 2, 3
 *   2      15 ms      -            2    1     runs beside row 1, both end at 25
 *   3       0 ms      0   5 ms     2    1     finds a slot at 25 and ends at 35
 *   4      16 ms      -            2    1     does too
 *   5       0 ms      3   0 ms     4    1     due at 35
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run_support.h"

#define MS KC_PS_PER_MS
#define NONE KC_SESSION_START

struct expected {
  uint32_t row, outputs;
  int64_t arrival_ms, first_ms, end_ms, resident_ms;
};

static void expect_outcomes(const struct test_run *run, const struct expected *expected)
{
  assert_int_equal(run->outcome_count, run->request_count);
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    assert_int_equal(o->request, expected[i].row);
    assert_int_equal(o->status, KC_STATUS_COMPLETED);
    assert_int_equal(o->output_tokens, expected[i].outputs);
    assert_int_equal(o->arrival_ps, expected[i].arrival_ms * MS);
    assert_int_equal(o->first_token_ps, expected[i].first_ms * MS);
    assert_int_equal(o->end_ps, expected[i].end_ms * MS);
    assert_int_equal(o->resident_ps, expected[i].resident_ms * MS);
  }
}

/* 8 pages, at most 3 running. */
static void configure(struct test_run *run, struct kc_request *requests, uint32_t *after,
                      kc_ps *wait_ps, uint32_t count)
{
  *run = (struct test_run){
      .requests = requests, .request_count = count, .after = after, .wait_ps = wait_ps};
  test_instance_default(&run->instance, 8);
  run->instance.sched.page_size = 4;
  run->instance.sched.max_running = 3;
  run->instance.sched.max_batched_tokens = 8;
  run->instance.sched.max_model_len = 24;
  test_cost_constant(&run->cost, 10 * MS);
}

static void three_turns_with_time_to_think(void **state)
{
  (void)state;
  struct kc_request rows[4] = {REQUEST(0, 4, 2, 2), REQUEST(15 * MS, 3, 3, 3),
                               REQUEST(7 * MS, 8, 2, 2), REQUEST(9 * MS, 11, 1, 1)};
  uint32_t after[4] = {NONE, NONE, 0, 2};
  kc_ps wait_ps[4] = {0, 0, 12 * MS, 20 * MS};
  const struct expected expected[4] = {{0, 2, 0, 10, 20, 20},
                                       {1, 3, 15, 30, 50, 30},
                                       {2, 2, 32, 60, 70, 30},
                                       {3, 1, 90, 110, 110, 20}};
  struct test_run run;
  configure(&run, rows, after, wait_ps, 4);
  test_run_execute(&run);
  expect_outcomes(&run, expected);
  const struct kc_summary *s = &run.result.summary;
  assert_int_equal(s->steps, 9);
  assert_int_equal(s->busy_ps, 90 * MS);
  assert_int_equal(s->makespan_ps, 110 * MS);
  assert_int_equal(s->input_tokens, 26);
  assert_int_equal(s->output_tokens, 8);
  assert_int_equal(s->max_running, 2);
  assert_int_equal(s->max_waiting, 0);
  assert_int_equal(s->kv_peak_tokens, 12); /* step 4: 5 of row 1 and 7 of row 2 */
  assert_int_equal(s->kv_peak_pages, 4);
  assert_int_equal(s->ttft.mean_ps, (10 + 15 + 28 + 20) * MS / 4);
  assert_int_equal(s->e2e.max_ps, 38 * MS);
  free(run.outcomes);
}

static void rows_due_at_one_instant_come_by_number(void **state)
{
  (void)state;
  struct kc_request rows[6] = {
      REQUEST(0, 4, 1, 1), REQUEST(0, 2, 1, 1),       REQUEST(15 * MS, 2, 1, 1),
      REQUEST(0, 2, 1, 1), REQUEST(16 * MS, 2, 1, 1), REQUEST(0, 4, 1, 1)};
  uint32_t after[6] = {NONE, 0, NONE, 0, NONE, 3};
  kc_ps wait_ps[6] = {0, 5 * MS, 0, 5 * MS, 0, 0};
  /* Ends of one step are told in the order of joining. */
  const struct expected expected[6] = {{0, 1, 0, 10, 10, 10},  {1, 1, 15, 25, 25, 10},
                                       {2, 1, 15, 25, 25, 10}, {3, 1, 15, 35, 35, 10},
                                       {4, 1, 16, 35, 35, 10}, {5, 1, 35, 45, 45, 10}};
  struct test_run run;
  configure(&run, rows, after, wait_ps, 6);
  run.instance.sched.max_running = 2; /* row 3, the third to come, waits for a slot */
  test_run_execute(&run);
  expect_outcomes(&run, expected);
  free(run.outcomes);
}

/* Refused at once, because the prompt is as long as the model's context: the session goes on. The
 * successor stands before its predecessor, which is allowed. */
static void a_refused_turn_has_ended(void **state)
{
  (void)state;
  struct kc_request rows[3] = {REQUEST(0, 4, 1, 1), REQUEST(0, 24, 1, 1), REQUEST(5 * MS, 4, 1, 1)};
  uint32_t after[3] = {1, NONE, 0};
  kc_ps wait_ps[3] = {3 * MS, 0, 0};
  struct test_run run;
  configure(&run, rows, after, wait_ps, 3);
  test_run_execute(&run);
  assert_int_equal(run.outcomes[0].request, 1);
  assert_int_equal(run.outcomes[0].reason, KC_REASON_PROMPT_TOO_LONG);
  assert_int_equal(run.outcomes[0].end_ps, 0);
  assert_int_equal(run.outcomes[1].request, 0);
  assert_int_equal(run.outcomes[1].arrival_ps, 3 * MS);
  assert_int_equal(run.outcomes[1].end_ps, 13 * MS);
  assert_int_equal(run.outcomes[2].request, 2);
  assert_int_equal(run.outcomes[2].arrival_ps, 13 * MS);
  assert_int_equal(run.outcomes[2].end_ps, 23 * MS);
  free(run.outcomes);
}

/* Out of memory names the row too: rows 2 (3 pages) and 1 (3 pages) wait for nobody and row 0, due
 * 5 ms after row 2, brings 3 more to a pool of 8 while both still run. */
static void out_of_memory_names_the_row(void **state)
{
  (void)state;
  struct kc_request rows[4] = {REQUEST(0, 12, 1, 1), REQUEST(0, 12, 9, 9), REQUEST(0, 12, 9, 9),
                               REQUEST(0, 24, 1, 1)};
  uint32_t after[4] = {3, NONE, NONE, NONE};
  kc_ps wait_ps[4] = {5 * MS, 0, 0, 0};
  struct test_run run;
  configure(&run, rows, after, wait_ps, 4);
  run.instance.sched.max_batched_tokens = 24;
  test_run_execute(&run);
  assert_int_equal(run.result.oom_ps, 5 * MS);
  assert_int_equal(run.result.oom_request, 0);
  assert_int_equal(run.result.oom_demand_pages, 9);
  free(run.outcomes);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(three_turns_with_time_to_think),
                                     cmocka_unit_test(rows_due_at_one_instant_come_by_number),
                                     cmocka_unit_test(a_refused_turn_has_ended),
                                     cmocka_unit_test(out_of_memory_names_the_row)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
