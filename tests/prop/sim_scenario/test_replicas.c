/* Several equal instances behind a router, against one instance. No oracle is needed:
 *
 *   one behind a router            the run without one, to the byte
 *   N by turns, open loop          N runs of one, each on every Nth row: request by request
 *   N least loaded, closed loop    N closed loops of an Nth of the concurrency each
 *   any router, any loop           what the replicas did adds up to what the run did; peaks lie
 *                                  between the fullest one's and the sum of all
 *
 * Little's law and the conservation of tokens are asserted in every run, over all replicas.
 * Scenarios are those of random_run.c; a failure prints its seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_run.h"

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 400 };
#else
enum { SEEDS = 60 };
#endif

static const char *const policies[] = {"vllm-0.19", "sglang-0.5"};

static uint64_t current_seed;

static int print_seed(void **state)
{
  (void)state;
  print_message("seed %llu\n", (unsigned long long)current_seed);
  return 0;
}

static void draw(struct test_run *run, uint64_t seed)
{
  current_seed = seed;
  random_run_draw_policy(run, policies[seed % 2], seed, 300);
}

static void release(struct test_run *run)
{
  free(run->outcomes);
  random_run_free(run);
}

static void execute_again(struct test_run *run)
{
  free(run->outcomes);
  test_run_execute(run);
}

static void one_behind_a_router_is_one(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    char hash[KC_SHA256_HEX_BYTES];
    draw(&run, seed);
    test_run_execute(&run);
    memcpy(hash, run.result.summary.result_sha256, sizeof hash);
    run.router = (struct kc_router_config){.policy = KC_ROUTER_LEAST_LOADED, .replicas = 1};
    execute_again(&run);
    assert_string_equal(run.result.summary.result_sha256, hash);
    release(&run);
  }
}

/* ---- by turns ---- */

/* Rows r, r + n, r + 2n, ... of an open run, run alone. */
static void run_every(const struct test_run *whole, uint32_t n, uint32_t r, struct test_run *part)
{
  *part = *whole;
  part->router = (struct kc_router_config){0};
  part->outcomes = NULL;
  part->request_count = (whole->request_count - r + n - 1) / n;
  part->requests = calloc(part->request_count, sizeof *part->requests);
  part->cancel_after_ps = calloc(part->request_count, sizeof *part->cancel_after_ps);
  assert_true(part->requests != NULL && part->cancel_after_ps != NULL);
  for (uint32_t i = 0; i < part->request_count; i++) {
    part->requests[i] = whole->requests[r + i * n];
    part->cancel_after_ps[i] =
        whole->cancel_after_ps != NULL ? whole->cancel_after_ps[r + i * n] : KC_PS_NEVER;
  }
  test_run_execute(part);
}

static const struct kc_outcome *outcome_of(const struct test_run *run, uint32_t request)
{
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    if (run->outcomes[i].request == request) return &run->outcomes[i];
  }
  fail_msg("request %u has no outcome", request);
  return NULL;
}

static void expect_same_outcomes(const struct test_run *whole, const struct test_run *part,
                                 uint32_t n, uint32_t r)
{
  for (uint32_t i = 0; i < part->request_count; i++) {
    struct kc_outcome a = *outcome_of(part, i);
    const struct kc_outcome *b = outcome_of(whole, r + i * n);
    assert_true(a.status == b->status && a.reason == b->reason);
    assert_int_equal(a.output_tokens, b->output_tokens);
    assert_int_equal(a.preemptions, b->preemptions);
    assert_int_equal(a.cached_tokens, b->cached_tokens);
    assert_int_equal(a.recached_tokens, b->recached_tokens);
    assert_int_equal(a.arrival_ps, b->arrival_ps);
    assert_int_equal(a.first_token_ps, b->first_token_ps);
    assert_int_equal(a.end_ps, b->end_ps);
    assert_int_equal(a.resident_ps, b->resident_ps);
  }
}

static void expect_same_figures(const struct kc_replica_figures *f, const struct kc_summary *s)
{
  assert_int_equal(f->requests, s->requests_total);
  assert_int_equal(f->input_tokens, s->input_tokens);
  assert_int_equal(f->cached_tokens, s->cached_tokens);
  assert_int_equal(f->output_tokens, s->output_tokens);
  assert_int_equal(f->steps, s->steps);
  assert_int_equal(f->preemptions, s->preemptions);
  assert_int_equal(f->pages_evicted, s->pages_evicted);
  assert_int_equal(f->busy_ps, s->busy_ps);
  assert_int_equal(f->max_running, s->max_running);
  assert_int_equal(f->max_waiting, s->max_waiting);
  assert_int_equal(f->kv_peak_tokens, s->kv_peak_tokens);
  assert_int_equal(f->kv_peak_pages, s->kv_peak_pages);
}

static void by_turns(struct test_run *run, uint32_t n)
{
  uint64_t itl = 0;
  kc_ps oom_ps = KC_PS_NEVER;
  run->router = (struct kc_router_config){.policy = KC_ROUTER_ROUND_ROBIN, .replicas = n};
  test_run_execute(run);
  assert_int_equal(run->result.replicas, n);
  for (uint32_t r = 0; r < n; r++) {
    struct test_run part;
    run_every(run, n, r, &part);
    expect_same_outcomes(run, &part, n, r);
    expect_same_figures(&run->replica[r], &part.result.summary);
    itl += part.result.summary.itl.count;
    if (part.result.oom_ps < oom_ps) {
      oom_ps = part.result.oom_ps;
      assert_true(run->result.oom_ps == oom_ps || oom_ps > run->result.oom_ps);
    }
    free(part.requests);
    free(part.cancel_after_ps);
    free(part.outcomes);
  }
  assert_int_equal(run->result.oom_ps, oom_ps);
  assert_int_equal(run->result.summary.itl.count, itl);
}

static void by_turns_is_as_many_single_runs(void **state)
{
  uint32_t played = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    draw(&run, seed);
    const uint32_t n = 2 + (uint32_t)(seed % 6);
    if (!run.closed && run.request_count >= n) {
      by_turns(&run, n);
      played++;
    }
    release(&run);
  }
  assert_true(played > SEEDS / 4);
}

/* ---- closed loops ---- */

/* What a client sees of a request, in the order of time; rows are equal, so their numbers do not
 * matter. */
struct seen {
  kc_ps arrival_ps, first_token_ps, end_ps;
};

static int by_time(const void *a, const void *b)
{
  const struct seen *x = a, *y = b;
  if (x->arrival_ps != y->arrival_ps) return x->arrival_ps < y->arrival_ps ? -1 : 1;
  if (x->end_ps != y->end_ps) return x->end_ps < y->end_ps ? -1 : 1;
  return (x->first_token_ps > y->first_token_ps) - (x->first_token_ps < y->first_token_ps);
}

/* The requests that ended until `last_ps`. */
static struct seen *seen_of(const struct test_run *run, kc_ps last_ps, uint32_t *count)
{
  struct seen *seen = calloc(run->outcome_count, sizeof *seen);
  assert_non_null(seen);
  *count = 0;
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    if (o->end_ps > last_ps) continue;
    seen[(*count)++] = (struct seen){o->arrival_ps, o->first_token_ps, o->end_ps};
  }
  qsort(seen, *count, sizeof *seen, by_time);
  return seen;
}

/* Until when the two must agree: in waves to the end; a steady loop until nobody who ends is
 * replaced any more, because the last ones go to the replicas that are looked at first. */
static kc_ps agree_until(const struct test_run *run)
{
  kc_ps last_ps = 0;
  if (run->closed_config.mode == KC_CLOSED_WAVE) return KC_PS_NEVER;
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    if (run->outcomes[i].arrival_ps > last_ps) last_ps = run->outcomes[i].arrival_ps;
  }
  return last_ps;
}

/* Who ends leaves a gap at its replica, which is the least loaded one at that instant. (Not so when
 * requests are refused as they arrive: then the first one is the least loaded every time.) */
static bool split_evenly(struct test_run *run, uint32_t n)
{
  struct test_run whole = *run;
  test_run_execute(run);
  if (run->result.summary.ttft.count < run->request_count) return false;
  whole.request_count *= n;
  whole.closed_config.requests *= n;
  whole.closed_config.concurrency *= n;
  whole.requests = calloc(whole.request_count, sizeof *whole.requests);
  assert_non_null(whole.requests);
  whole.router = (struct kc_router_config){.policy = KC_ROUTER_LEAST_LOADED, .replicas = n};
  test_run_execute(&whole);
  uint32_t count, counts;
  const kc_ps last_ps = agree_until(run);
  struct seen *one = seen_of(run, last_ps, &count), *all = seen_of(&whole, last_ps, &counts);
  for (uint32_t r = 0; r < n && last_ps == KC_PS_NEVER; r++) {
    expect_same_figures(&whole.replica[r], &run->result.summary);
  }
  assert_int_equal(counts, n * count);
  for (uint32_t i = 0; i < counts; i++) assert_memory_equal(&all[i], &one[i / n], sizeof *one);
  free(one);
  free(all);
  free(whole.requests);
  free(whole.outcomes);
  return true;
}

static void an_even_split_is_as_many_closed_loops(void **state)
{
  uint32_t played = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    current_seed = seed;
    random_run_draw(&run, seed, 300);
    played += run.closed && split_evenly(&run, 2 + (uint32_t)(seed % 4));
    release(&run);
  }
  assert_true(played > SEEDS / 8);
}

/* ---- whatever the router and the loop ---- */

static void expect_sums(const struct test_run *run)
{
  struct kc_replica_figures sum = {0}, most = {0};
  const struct kc_summary *s = &run->result.summary;
  for (uint32_t i = 0; i < run->result.replicas; i++) {
    const struct kc_replica_figures *f = &run->replica[i];
    sum.requests += f->requests;
    sum.input_tokens += f->input_tokens;
    sum.cached_tokens += f->cached_tokens;
    sum.output_tokens += f->output_tokens;
    sum.steps += f->steps;
    sum.preemptions += f->preemptions;
    sum.pages_evicted += f->pages_evicted;
    sum.busy_ps += f->busy_ps;
    sum.max_running += f->max_running;
    sum.kv_peak_pages += f->kv_peak_pages;
    sum.kv_peak_tokens += f->kv_peak_tokens;
    if (f->max_running > most.max_running) most.max_running = f->max_running;
    if (f->kv_peak_pages > most.kv_peak_pages) most.kv_peak_pages = f->kv_peak_pages;
  }
  assert_true(s->max_running >= most.max_running && s->max_running <= sum.max_running);
  assert_true(s->kv_peak_pages >= most.kv_peak_pages && s->kv_peak_pages <= sum.kv_peak_pages);
  assert_true(s->kv_peak_tokens <= sum.kv_peak_tokens);
  sum.max_running = s->max_running; /* peaks do not add up */
  sum.max_waiting = s->max_waiting;
  sum.kv_peak_pages = s->kv_peak_pages;
  sum.kv_peak_tokens = s->kv_peak_tokens;
  expect_same_figures(&sum, s);
  assert_int_equal(run->outcome_count, run->request_count);
}

static void routed(struct test_run *run, struct kc_random *random)
{
  char hash[KC_SHA256_HEX_BYTES];
  run->router = (struct kc_router_config){
      .policy = (enum kc_router_policy)kc_random_below(random, KC_ROUTER_POLICIES),
      .replicas = 2 + (uint32_t)kc_random_below(random, 7),
      .group_count = 8,
      .key_count = run->instance.sched.key_count,
      .overflow_numerator = 3,
      .overflow_denominator = 2};
  run->group = calloc(run->request_count, sizeof *run->group);
  assert_non_null(run->group);
  for (uint32_t i = 0; i < run->request_count; i++) {
    run->group[i] = (uint32_t)kc_random_below(random, 8);
  }
  test_run_execute(run);
  expect_sums(run);
  memcpy(hash, run->result.summary.result_sha256, sizeof hash);
  execute_again(run);
  assert_string_equal(run->result.summary.result_sha256, hash);
  free(run->group);
}

static void replicas_add_up(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    struct kc_random random;
    kc_random_init(&random, seed, "replicas", 0);
    draw(&run, seed);
    routed(&run, &random);
    release(&run);
    random_run_draw_policy_sessions(&run, policies[seed % 2], seed, 200);
    routed(&run, &random);
    release(&run);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(one_behind_a_router_is_one, print_seed),
      cmocka_unit_test_teardown(by_turns_is_as_many_single_runs, print_seed),
      cmocka_unit_test_teardown(an_even_split_is_as_many_closed_loops, print_seed),
      cmocka_unit_test_teardown(replicas_add_up, print_seed),
  };
  return cmocka_run_group_tests_name("replicas", tests, NULL, NULL);
}
