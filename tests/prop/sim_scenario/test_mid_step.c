/* What happens while a step runs, worked out by hand. Requests that arrive meanwhile are seen at
 * their own time, before the step's end is: arrivals come before completions even at one instant.
 * Steps take 10 ms, pages hold 4 tokens.
 *
 * Out of memory: 2 pages. Request 0 (8 + 1 tokens) needs both from 0 to 10 ms; request 1 (4 + 1)
 * arrives at 5 ms, when 3 pages are wanted. At 10 ms request 0 is gone, and all is well again.
 *
 * Refused on arrival: request 1 is too long and ends at 5 ms, when it comes; request 2 is too and
 * comes with the end of the step. Request 0 ends at 10 ms, after both.
 *
 * Who tips it: 3 pages and three requests of 4 tokens at once. After the first step each has 5
 * tokens and wants a second page: the first is one too many, although the last is preempted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run_support.h"

#define MS KC_PS_PER_MS

static void execute(struct test_run *run, struct kc_request *requests, uint32_t count,
                    uint32_t pages)
{
  *run = (struct test_run){.requests = requests, .request_count = count};
  test_instance_default(&run->instance, pages);
  run->instance.sched.page_size = 4;
  run->instance.sched.max_model_len = 64;
  test_cost_constant(&run->cost, 10 * MS);
  test_run_execute(run);
}

static void an_arrival_within_a_step_can_be_one_too_many(void **state)
{
  (void)state;
  struct kc_request requests[2] = {REQUEST(0, 8, 1, 1), REQUEST(5 * MS, 4, 1, 1)};
  struct test_run run;
  execute(&run, requests, 2, 2);
  assert_int_equal(run.result.oom_ps, 5 * MS);
  assert_int_equal(run.result.oom_request, 1);
  assert_int_equal(run.result.oom_demand_pages, 3);
  assert_int_equal(run.outcomes[1].end_ps, 20 * MS);
  assert_int_equal(run.result.summary.max_waiting, 0); /* counted when a step is formed */
  free(run.outcomes);
}

static void outcomes_come_in_the_order_of_time(void **state)
{
  (void)state;
  struct kc_request requests[3] = {
      REQUEST(0, 8, 1, 1), REQUEST(5 * MS, 64, 1, 1), REQUEST(10 * MS, 64, 1, 1)};
  struct test_run run;
  execute(&run, requests, 3, 8);
  assert_int_equal(run.outcomes[0].request, 1);
  assert_int_equal(run.outcomes[0].end_ps, 5 * MS);
  assert_int_equal(run.outcomes[1].request, 2);
  assert_int_equal(run.outcomes[1].end_ps, 10 * MS);
  assert_int_equal(run.outcomes[2].request, 0);
  assert_int_equal(run.outcomes[2].end_ps, 10 * MS);
  free(run.outcomes);
}

static void the_first_to_exceed_the_pool_is_named(void **state)
{
  (void)state;
  struct kc_request requests[3] = {REQUEST(0, 4, 2, 2), REQUEST(0, 4, 2, 2), REQUEST(0, 4, 2, 2)};
  struct test_run run;
  execute(&run, requests, 3, 3);
  assert_int_equal(run.result.oom_ps, 10 * MS);
  assert_int_equal(run.result.oom_request, 0);
  assert_int_equal(run.result.oom_demand_pages, 4);
  assert_int_equal(run.outcomes[0].request, 0);
  assert_int_equal(run.outcomes[0].preemptions, 0);
  assert_int_equal(run.outcomes[2].request, 2);
  assert_int_equal(run.outcomes[2].preemptions, 1);
  free(run.outcomes);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_arrival_within_a_step_can_be_one_too_many),
      cmocka_unit_test(outcomes_come_in_the_order_of_time),
      cmocka_unit_test(the_first_to_exceed_the_pool_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
