/* Sessions against the other loops, where they must say the same. No oracle is needed:
 *
 *   nobody waits for anybody       the open loop, to the byte
 *   a chain without pauses         the closed loop of one request at a time, to the byte
 *   another numbering of rows      the same ends, under the other numbers, where no two rows ever
 *                                  come at one instant
 *
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
enum { SEEDS = 1000 };
#else
enum { SEEDS = 200 };
#endif

static void release(struct test_run *run)
{
  free(run->requests);
  free(run->after);
  free(run->wait_ps);
  free(run->outcomes);
}

/* Rows without predecessors, to be filled. */
static void add_sessions(struct test_run *run)
{
  run->after = calloc(run->request_count, sizeof *run->after);
  run->wait_ps = calloc(run->request_count, sizeof *run->wait_ps);
  assert_true(run->after != NULL && run->wait_ps != NULL);
  for (uint32_t i = 0; i < run->request_count; i++) run->after[i] = KC_SESSION_START;
}

static void execute_again(struct test_run *run)
{
  free(run->outcomes);
  test_run_execute(run);
}

static void expect_hash(const struct test_run *run, const char *hash, uint64_t seed)
{
  if (strcmp(run->result.summary.result_sha256, hash) == 0) return;
  print_error("seed %llu: sessions give %s instead of %s\n", (unsigned long long)seed,
              run->result.summary.result_sha256, hash);
  fail();
}

static void sessions_of_one_row_are_the_open_loop(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    char hash[KC_SHA256_HEX_BYTES];
    random_run_draw(&run, seed, UINT32_MAX);
    if (!run.closed) {
      test_run_execute(&run);
      memcpy(hash, run.result.summary.result_sha256, sizeof hash);
      const kc_ps oom_ps = run.result.oom_ps;
      add_sessions(&run);
      execute_again(&run);
      expect_hash(&run, hash, seed);
      assert_int_equal(run.result.oom_ps, oom_ps);
    }
    release(&run);
  }
}

static void a_chain_without_pauses_is_one_at_a_time(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    char hash[KC_SHA256_HEX_BYTES];
    random_run_draw(&run, seed, UINT32_MAX);
    if (run.closed) {
      run.closed_config.concurrency = 1;
      test_run_execute(&run); /* which leaves every request in the table */
      memcpy(hash, run.result.summary.result_sha256, sizeof hash);
      run.closed = false;
      add_sessions(&run);
      for (uint32_t i = 1; i < run.request_count; i++) run.after[i] = i - 1;
      execute_again(&run);
      expect_hash(&run, hash, seed);
    }
    release(&run);
  }
}

/* ---- numbering ---- */

/* `run` with row i called order[i]. The order of rows that wait for nobody must not change. */
static struct test_run renumbered(const struct test_run *run, const uint32_t *order)
{
  struct test_run copy = *run;
  copy.outcomes = NULL;
  copy.requests = calloc(run->request_count, sizeof *copy.requests);
  assert_non_null(copy.requests);
  add_sessions(&copy);
  for (uint32_t i = 0; i < run->request_count; i++) {
    const uint32_t after = run->after[i];
    copy.requests[order[i]] = run->requests[i];
    copy.wait_ps[order[i]] = run->wait_ps[i];
    if (after != KC_SESSION_START) copy.after[order[i]] = order[after];
  }
  return copy;
}

/* Those that wait for nobody first, in their order; the others behind them, backwards. */
static void starts_first(const struct test_run *run, uint32_t *order)
{
  uint32_t front = 0, back = run->request_count;
  for (uint32_t i = 0; i < run->request_count; i++) {
    order[i] = run->after[i] == KC_SESSION_START ? front++ : --back;
  }
  assert_int_equal(front, back);
}

static bool has_ties(const struct test_run *run)
{
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    for (uint32_t k = 0; k < i; k++) {
      if (run->outcomes[i].arrival_ps == run->outcomes[k].arrival_ps) return true;
    }
  }
  return false;
}

static void numbers_are_only_names(void **state)
{
  (void)state;
  uint32_t compared = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct test_run run;
    uint32_t order[64];
    random_run_draw_sessions(&run, seed, 64);
    for (uint32_t i = 0; i < run.request_count; i++) run.wait_ps[i] += 1 + 7 * (kc_ps)i;
    for (uint32_t i = 0; i < run.request_count; i++) run.requests[i].arrival_ps += 3 * (kc_ps)i;
    test_run_execute(&run);
    if (!has_ties(&run)) {
      starts_first(&run, order);
      struct test_run other = renumbered(&run, order);
      test_run_execute(&other);
      for (uint32_t i = 0; i < run.outcome_count; i++) {
        assert_int_equal(other.outcomes[i].request, order[run.outcomes[i].request]);
        assert_int_equal(other.outcomes[i].end_ps, run.outcomes[i].end_ps);
        assert_int_equal(other.outcomes[i].arrival_ps, run.outcomes[i].arrival_ps);
      }
      compared++;
      release(&other);
    }
    release(&run);
  }
  assert_true(compared > SEEDS / 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(sessions_of_one_row_are_the_open_loop),
                                     cmocka_unit_test(a_chain_without_pauses_is_one_at_a_time),
                                     cmocka_unit_test(numbers_are_only_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
