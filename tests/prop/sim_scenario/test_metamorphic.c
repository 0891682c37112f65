/* Relations between runs that need no oracle: scaled time, concatenation, causality, renumbering,
 * more memory. Scenarios are those of random_run.c; a failure prints its seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_run.h"

/* Unoptimised and sanitized builds run fewer, to stay within a quick run. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 400 };
#else
enum { SEEDS = 100 };
#endif

/* `a` must be `b` with `request_shift` added to its number, its times scaled and then moved. */
struct relation {
  uint32_t request_shift;
  kc_ps scale, shift_ps;
};

static kc_ps mapped(const struct relation *by, kc_ps time_ps)
{
  return time_ps == KC_PS_NEVER ? KC_PS_NEVER : time_ps * by->scale + by->shift_ps;
}

static void expect_outcome(const struct kc_outcome *a, const struct kc_outcome *b,
                           const struct relation *by)
{
  assert_int_equal(a->request, b->request + by->request_shift);
  assert_int_equal(a->status, b->status);
  assert_int_equal(a->reason, b->reason);
  assert_int_equal(a->output_tokens, b->output_tokens);
  assert_int_equal(a->preemptions, b->preemptions);
  assert_int_equal(a->arrival_ps, mapped(by, b->arrival_ps));
  assert_int_equal(a->first_token_ps, mapped(by, b->first_token_ps));
  assert_int_equal(a->end_ps, mapped(by, b->end_ps));
  assert_int_equal(a->resident_ps, b->resident_ps * by->scale);
}

static void expect_outcomes(const struct test_run *a, uint32_t from, const struct test_run *b,
                            const struct relation *by)
{
  assert_true(from + b->outcome_count <= a->outcome_count);
  for (uint32_t i = 0; i < b->outcome_count; i++) {
    expect_outcome(&a->outcomes[from + i], &b->outcomes[i], by);
  }
}

/* A copy of `run`'s settings with its own table of `count` requests. */
static struct test_run like(const struct test_run *run, uint32_t count)
{
  struct test_run copy = *run;
  copy.request_count = count;
  copy.requests = calloc(count, sizeof *copy.requests);
  assert_non_null(copy.requests);
  copy.outcomes = NULL;
  return copy;
}

static void release(struct test_run *run)
{
  free(run->requests);
  free(run->outcomes);
}

/* Draws seed after seed, open loop only, at least `least` requests. */
static struct test_run draw_open(uint64_t *seed, uint32_t least)
{
  struct test_run run;
  for (;; release(&run)) {
    random_run_draw(&run, ++*seed, UINT32_MAX);
    if (!run.closed && run.request_count >= least) return run;
  }
}

static kc_ps last_end_ps(const struct test_run *run)
{
  kc_ps last_ps = run->requests[run->request_count - 1].arrival_ps;
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    if (run->outcomes[i].end_ps > last_ps) last_ps = run->outcomes[i].end_ps;
  }
  return last_ps;
}

/* ---- scaled time ---- */

static uint64_t whole(uint64_t units)
{
  return units >> KC_COST_FRACTION_BITS << KC_COST_FRACTION_BITS;
}

/* Coefficients in whole picoseconds: rounding is exact, so doubling is too. Bytes of an expert are
 * multiplied by a coverage in 2^-32, hence 2^52. */
static void make_whole(struct kc_cost *cost, uint64_t seed)
{
  cost->host_step = whole(cost->host_step) + (UINT64_C(1) << KC_COST_FRACTION_BITS);
  for (uint32_t i = 0; i < cost->op_count; i++) {
    struct kc_cost_op *op = &cost->op[i];
    op->latency = whole(op->latency);
    op->byte_fixed = op->kind == KC_COST_EXPERTS ? (kc_u128)(1 + seed % 7) << 52
                                                 : whole((uint64_t)op->byte_fixed);
    op->byte_unit = whole((uint64_t)op->byte_unit);
    op->byte_write = whole((uint64_t)op->byte_write);
    op->flop_unit = whole((uint64_t)op->flop_unit);
  }
}

static void twice_the_cost(struct kc_cost *cost)
{
  cost->host_step *= 2;
  for (uint32_t i = 0; i < cost->op_count; i++) {
    struct kc_cost_op *op = &cost->op[i];
    op->latency *= 2;
    op->byte_fixed *= 2;
    op->byte_unit *= 2;
    op->byte_write *= 2;
    op->flop_unit *= 2;
  }
}

static void twice_the_times_twice_the_latencies(void **state)
{
  (void)state;
  const struct relation twice = {0, 2, 0};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    random_run_draw(&run, seed, UINT32_MAX);
    make_whole(&run.cost, seed);
    struct test_run slow = like(&run, run.request_count);
    for (uint32_t i = 0; i < run.request_count && !run.closed; i++) {
      slow.requests[i] = run.requests[i];
      slow.requests[i].arrival_ps *= 2;
    }
    twice_the_cost(&slow.cost);
    test_run_execute(&run);
    test_run_execute(&slow);
    assert_int_equal(slow.outcome_count, run.outcome_count);
    expect_outcomes(&slow, 0, &run, &twice);
    assert_int_equal(slow.result.summary.busy_ps, 2 * run.result.summary.busy_ps);
    assert_int_equal(slow.result.summary.steps, run.result.summary.steps);
    assert_int_equal(slow.result.summary.e2e.p99_ps, 2 * run.result.summary.e2e.p99_ps);
    assert_int_equal(slow.result.oom_ps, mapped(&twice, run.result.oom_ps));
    release(&run);
    release(&slow);
  }
}

/* ---- concatenation ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

static void expect_whole_of_halves(const struct test_run *whole_run, const struct test_run *first,
                                   const struct test_run *second, const struct relation *by)
{
  const struct kc_summary *w = &whole_run->result.summary;
  const struct kc_summary *a = &first->result.summary, *b = &second->result.summary;
  const struct relation same = {0, 1, 0};
  assert_int_equal(whole_run->outcome_count, first->outcome_count + second->outcome_count);
  expect_outcomes(whole_run, 0, first, &same);
  expect_outcomes(whole_run, first->outcome_count, second, by);
  assert_int_equal(w->steps, a->steps + b->steps);
  assert_int_equal(w->busy_ps, a->busy_ps + b->busy_ps);
  assert_int_equal(w->preemptions, a->preemptions + b->preemptions);
  assert_int_equal(w->itl.count, a->itl.count + b->itl.count);
  assert_int_equal(w->kv_peak_tokens, larger(a->kv_peak_tokens, b->kv_peak_tokens));
  assert_int_equal(w->kv_peak_pages, larger(a->kv_peak_pages, b->kv_peak_pages));
  assert_int_equal(w->max_waiting, larger(a->max_waiting, b->max_waiting));
  assert_int_equal(whole_run->result.oom_ps, first->result.oom_ps != KC_PS_NEVER
                                                 ? first->result.oom_ps
                                                 : mapped(by, second->result.oom_ps));
}

static void two_halves_with_a_gap_are_their_concatenation(void **state)
{
  (void)state;
  uint64_t seed = 0;
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct test_run run = draw_open(&seed, 2);
    const uint32_t half = run.request_count / 2;
    struct test_run first = like(&run, half), second = like(&run, run.request_count - half);
    memcpy(first.requests, run.requests, half * sizeof *run.requests);
    memcpy(second.requests, run.requests + half, second.request_count * sizeof *run.requests);
    const kc_ps start_ps = second.requests[0].arrival_ps;
    for (uint32_t k = 0; k < second.request_count; k++) second.requests[k].arrival_ps -= start_ps;
    test_run_execute(&first);
    test_run_execute(&second);
    const struct relation by = {half, 1, last_end_ps(&first) + 1 + (kc_ps)(seed % 3)};
    for (uint32_t k = 0; k < second.request_count; k++) {
      run.requests[half + k].arrival_ps = second.requests[k].arrival_ps + by.shift_ps;
    }
    test_run_execute(&run);
    expect_whole_of_halves(&run, &first, &second, &by);
    release(&first);
    release(&second);
    release(&run);
  }
}

/* ---- causality ---- */

/* What arrives after an instant cannot change what ended up to it. */
static void the_future_does_not_change_the_past(void **state)
{
  (void)state;
  const struct relation same = {0, 1, 0};
  uint64_t seed = 0, compared = 0;
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct test_run run = draw_open(&seed, 2);
    const uint32_t kept = 1 + (uint32_t)(seed % (run.request_count - 1));
    const kc_ps cut_ps = run.requests[kept].arrival_ps - 1;
    struct test_run past = like(&run, kept);
    memcpy(past.requests, run.requests, kept * sizeof *run.requests);
    test_run_execute(&run);
    test_run_execute(&past);
    for (uint32_t k = 0; k < past.outcome_count && past.outcomes[k].end_ps <= cut_ps; k++) {
      expect_outcome(&run.outcomes[k], &past.outcomes[k], &same);
      compared++;
    }
    if (past.result.oom_ps <= cut_ps) {
      assert_int_equal(run.result.oom_ps, past.result.oom_ps);
      assert_int_equal(run.result.oom_request, past.result.oom_request);
    }
    release(&past);
    release(&run);
  }
  assert_true(compared > SEEDS);
}

static void a_request_in_the_far_future_changes_nothing(void **state)
{
  (void)state;
  const struct relation same = {0, 1, 0};
  uint64_t seed = 0;
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct test_run run = draw_open(&seed, 1);
    struct test_run more = like(&run, run.request_count + 1);
    test_run_execute(&run);
    memcpy(more.requests, run.requests, run.request_count * sizeof *run.requests);
    more.requests[run.request_count] =
        (struct kc_request)REQUEST(last_end_ps(&run) + KC_PS_PER_S, 1, 1, 1);
    test_run_execute(&more);
    assert_int_equal(more.outcome_count, run.outcome_count + 1);
    expect_outcomes(&more, 0, &run, &same);
    assert_int_equal(more.outcomes[run.outcome_count].request, run.request_count);
    release(&run);
    release(&more);
  }
}

/* ---- renumbering ---- */

/* Requests refused on arrival take a number and nothing else: put before every request, they leave
 * the outcomes of the others as they are, with 2 i + 1 for i. */
static void numbers_are_only_names(void **state)
{
  (void)state;
  const struct relation same = {0, 1, 0};
  uint64_t seed = 0;
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct test_run run = draw_open(&seed, 1);
    struct test_run twice = like(&run, 2 * run.request_count);
    for (uint32_t k = 0; k < run.request_count; k++) {
      twice.requests[2 * k] =
          (struct kc_request)REQUEST(run.requests[k].arrival_ps,
                                     (uint32_t)run.instance.sched.max_model_len, 1, 1);
      twice.requests[2 * k + 1] = run.requests[k];
    }
    test_run_execute(&run);
    test_run_execute(&twice);
    uint32_t ends = 0;
    for (uint32_t k = 0; k < twice.outcome_count; k++) {
      struct kc_outcome o = twice.outcomes[k];
      if (o.request % 2 == 0) {
        assert_int_equal(o.reason, KC_REASON_PROMPT_TOO_LONG);
        continue;
      }
      o.request /= 2;
      expect_outcome(&o, &run.outcomes[ends++], &same);
    }
    assert_int_equal(ends, run.request_count);
    assert_int_equal(twice.result.summary.steps, run.result.summary.steps);
    assert_int_equal(twice.result.summary.max_waiting, run.result.summary.max_waiting);
    assert_int_equal(twice.result.oom_ps, run.result.oom_ps);
    release(&run);
    release(&twice);
  }
}

/* ---- more memory ---- */

static uint64_t tokens_per_s(struct test_run *run, uint32_t pages)
{
  run->instance.pages = pages;
  test_run_execute(run);
  free(run->outcomes);
  run->outcomes = NULL;
  assert_int_equal(run->result.summary.requests_by_status[KC_STATUS_COMPLETED],
                   run->request_count);
  return run->result.summary.output_tok_s_micro;
}

static void expect_no_slower(uint64_t seed, uint32_t pages, uint64_t more, uint64_t fewer)
{
  if (more >= fewer) return;
  print_error("seed %llu: more than %u pages give %llu instead of %llu tokens/s * 10^6\n",
              (unsigned long long)seed, pages, (unsigned long long)more,
              (unsigned long long)fewer);
  fail();
}

/* Equal requests, a slot for everybody, steps that take the same time whatever is in them. Then a
 * pool in which everybody fits is never slower than a smaller one, and of two pools in which nobody
 * is preempted the larger is never slower. (It does not hold beyond that: where requests are
 * preempted, one page more may shift who is, and lengthen the tail of the run by half a per cent;
 * and where long batches cost more than they bring, fewer pages are faster.) */
static void more_pages_never_lower_throughput(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    random_run_draw(&run, seed, UINT32_MAX);
    const struct kc_closed_config *closed = &run.closed_config;
    run.instance.sched.max_running = 64;
    run.instance.sched.max_batched_tokens = 1000000;
    run.instance.sched.max_model_len = 131072;
    test_cost_constant(&run.cost, KC_PS_PER_MS);
    const uint32_t one =
        (closed->input_tokens + closed->output_tokens) / run.instance.sched.page_size + 1;
    const uint64_t plenty = run.closed ? tokens_per_s(&run, 65 * one) : 0;
    uint64_t before = 0;
    for (uint32_t pages = one; run.closed && pages < 40 * one; pages += 1 + pages / 8) {
      const uint64_t now = tokens_per_s(&run, pages);
      expect_no_slower(seed, pages, plenty, now);
      if (run.result.summary.preemptions > 0) continue;
      expect_no_slower(seed, pages, now, before);
      before = now;
    }
    free(run.requests);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(twice_the_times_twice_the_latencies),
      cmocka_unit_test(two_halves_with_a_gap_are_their_concatenation),
      cmocka_unit_test(the_future_does_not_change_the_past),
      cmocka_unit_test(a_request_in_the_far_future_changes_nothing),
      cmocka_unit_test(numbers_are_only_names),
      cmocka_unit_test(more_pages_never_lower_throughput)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
