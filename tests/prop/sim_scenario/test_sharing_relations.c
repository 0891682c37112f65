/* Relations between runs with prefix caches that need no oracle, or one of a few lines: renamed
 * keys, a salt for every request, contents that nobody shares, what plenty of pages find, more
 * pages. Scenarios are those of random_run.c; a failure prints its seed. */
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
enum { SEEDS = 60 };
#endif

static const char *const policies[2] = {"vllm-0.19", "sglang-0.5"};

static void *room(size_t count, size_t size)
{
  void *const memory = calloc(count + 1, size);
  assert_non_null(memory);
  return memory;
}

/* The next seed that draws a run with a cache. */
static struct test_run draw_cached(const char *policy, uint64_t *seed)
{
  struct test_run run;
  for (;; random_run_free(&run)) {
    random_run_draw_policy(&run, policy, ++*seed, UINT32_MAX);
    if (run.instance.sched.prefix_cache) return run;
  }
}

static uint32_t pages_with_keys(const struct test_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  return (r->input_tokens + r->output_tokens) / run->instance.sched.page_size;
}

static uint32_t keys_of(const struct test_run *run, uint32_t request, uint32_t *out)
{
  uint32_t count = 0;
  const struct kc_request *r = &run->requests[request];
  for (uint32_t i = 0; i < r->run_count; i++) {
    for (uint32_t k = 0; k < r->run[i].count; k++) out[count++] = r->run[i].first + k;
  }
  return count;
}

/* Gives every page of every request a run of its own, so that its key can be changed. Returns the
 * keys as they were. */
static uint32_t *spread_keys(struct test_run *run, uint32_t *total)
{
  *total = 0;
  for (uint32_t i = 0; i < run->request_count; i++) *total += pages_with_keys(run, i);
  uint32_t *const keys = room(*total, sizeof *keys);
  struct kc_key_run *const runs = room(*total, sizeof *runs);
  uint32_t at = 0;
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    const uint32_t count = keys_of(run, i, keys + at);
    r->run = runs + at;
    r->run_count = count;
    at += count;
  }
  free(run->keys);
  run->keys = runs;
  for (uint32_t i = 0; i < at; i++) runs[i] = (struct kc_key_run){.first = keys[i], .count = 1};
  return keys;
}

static void execute(struct test_run *run)
{
  test_run_execute(run);
  free(run->outcomes);
  run->outcomes = NULL;
}

/* ---- keys are only names ---- */

static void keys_are_only_names(const char *policy)
{
  uint64_t seed = 0;
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct test_run run = draw_cached(policy, &seed);
    struct kc_random random;
    uint32_t total;
    execute(&run);
    const struct kc_summary before = run.result.summary;
    const uint32_t names = run.instance.sched.key_count;
    uint32_t *const name = room(names, sizeof *name);
    kc_random_init(&random, seed, "names", 0);
    for (uint32_t k = 0; k < names; k++) {
      const uint32_t other = random_between(&random, 0, k);
      name[k] = name[other];
      name[other] = k;
    }
    free(spread_keys(&run, &total));
    for (uint32_t k = 0; k < total; k++) run.keys[k].first = name[run.keys[k].first];
    execute(&run);
    if (strcmp(before.result_sha256, run.result.summary.result_sha256) != 0) {
      print_error("seed %llu\n", (unsigned long long)seed);
      fail();
    }
    assert_int_equal(before.pages_evicted, run.result.summary.pages_evicted);
    free(name);
    random_run_free(&run);
  }
}

static void keys_are_only_names_to_vllm(void **state)
{
  (void)state;
  keys_are_only_names(policies[0]);
}

static void keys_are_only_names_to_sglang(void **state)
{
  (void)state;
  keys_are_only_names(policies[1]);
}

/* ---- salts ---- */

/* Keys that no two requests share. */
static void salt_each(struct test_run *run)
{
  uint32_t total;
  free(spread_keys(run, &total));
  for (uint32_t k = 0; k < total; k++) run->keys[k].first = k;
  run->instance.sched.key_count = total;
}

/* A salt for every request: nothing is found at a first admission. The very same trace under the
 * salts it was drawn with does share. */
static void a_salt_for_each_request_removes_all_sharing(void **state)
{
  (void)state;
  for (int p = 0; p < 2; p++) {
    uint64_t seed = 0, shared = 0;
    for (uint32_t i = 0; i < SEEDS; i++) {
      struct test_run run = draw_cached(policies[p], &seed);
      execute(&run);
      shared += run.result.summary.cached_tokens;
      salt_each(&run);
      execute(&run);
      if (run.result.summary.cached_tokens > 0) {
        print_error("seed %llu\n", (unsigned long long)seed);
      }
      assert_int_equal(run.result.summary.cached_tokens, 0);
      assert_int_equal(run.result.summary.warm_requests, 0);
      random_run_free(&run);
    }
    assert_true(shared > 0);
  }
}

/* Contents that nobody shares: as long as nobody is preempted (who would find his own pages again),
 * the cache changes no time. Cached pages that nobody uses are as good as free ones. */
static void a_cache_of_what_nobody_shares_changes_nothing(void **state)
{
  (void)state;
  for (int p = 0; p < 2; p++) {
    uint64_t seed = 0;
    uint32_t compared = 0;
    for (uint32_t i = 0; i < SEEDS; i++) {
      struct test_run run = draw_cached(policies[p], &seed);
      salt_each(&run);
      execute(&run);
      const struct kc_summary with = run.result.summary;
      const kc_ps oom_ps = run.result.oom_ps;
      run.instance.sched.prefix_cache = false;
      execute(&run);
      if (with.preemptions == 0 && run.result.summary.preemptions == 0) {
        compared++;
        if (strcmp(with.result_sha256, run.result.summary.result_sha256) != 0) {
          print_error("seed %llu\n", (unsigned long long)seed);
          fail();
        }
        assert_int_equal(oom_ps, run.result.oom_ps);
      }
      random_run_free(&run);
    }
    assert_true(compared > SEEDS / 4);
  }
}

/* ---- one after the other ---- */

/* A run in which each request comes long after the one before has ended, and all fit. */
static struct test_run draw_lonely(const char *policy, uint64_t *seed)
{
  for (;;) {
    struct test_run run = draw_cached(policy, seed);
    if (!run.closed) {
      free(run.patience);
      free(run.cancel_after_ps);
      run.patience = NULL;
      run.cancel_after_ps = NULL;
      run.instance.queue_limit = 0;
      run.instance.sched.max_model_len = 131072;
      run.instance.sched.chunked_prefill = true;
      if (run.instance.sched.max_prefill_tokens == 0) run.instance.sched.max_prefill_tokens = 1;
      test_cost_constant(&run.cost, KC_PS_PER_MS);
      for (uint32_t i = 0; i < run.request_count; i++) {
        run.requests[i].arrival_ps = (kc_ps)i * 100 * KC_PS_PER_S;
      }
      return run;
    }
    random_run_free(&run);
  }
}

/* With room for what sglang sets aside for the outputs of one. */
static uint32_t pages_of_all(const struct test_run *run)
{
  uint32_t pages = 1000 + 5000 / run->instance.sched.page_size;
  for (uint32_t i = 0; i < run->request_count; i++) pages += pages_with_keys(run, i) + 2;
  return pages;
}

static uint32_t produced(const struct kc_request *request)
{
  return kc_request_output(request, 131072);
}

/* Tokens that a request must find when nothing was ever dropped: the longest beginning, in pages,
 * that an earlier one computed, at most all but the last token. */
static uint32_t expected_hits(const struct test_run *run, uint32_t request)
{
  const uint32_t size = run->instance.sched.page_size;
  const uint32_t most = (run->requests[request].input_tokens - 1) / size;
  uint32_t *const mine = room(pages_with_keys(run, request), sizeof *mine);
  uint32_t best = 0;
  keys_of(run, request, mine);
  for (uint32_t other = 0; other < request; other++) {
    const struct kc_request *r = &run->requests[other];
    const uint32_t computed = (r->input_tokens + produced(r) - 1) / size;
    uint32_t *const theirs = room(pages_with_keys(run, other), sizeof *theirs);
    uint32_t same = 0;
    keys_of(run, other, theirs);
    while (same < most && same < computed && mine[same] == theirs[same]) same++;
    if (same > best) best = same;
    free(theirs);
  }
  free(mine);
  return best * size;
}

static void plenty_of_pages_find_all_there_is(void **state)
{
  (void)state;
  for (int p = 0; p < 2; p++) {
    uint64_t seed = 0, found = 0;
    for (uint32_t i = 0; i < SEEDS / 4; i++) {
      struct test_run run = draw_lonely(policies[p], &seed);
      run.instance.pages = pages_of_all(&run);
      test_run_execute(&run);
      assert_int_equal(run.outcome_count, run.request_count);
      for (uint32_t k = 0; k < run.outcome_count; k++) {
        const struct kc_outcome *o = &run.outcomes[k];
        if (o->cached_tokens != expected_hits(&run, o->request)) {
          print_error("%s seed %llu request %u\n", policies[p], (unsigned long long)seed,
                      o->request);
        }
        assert_int_equal(o->cached_tokens, expected_hits(&run, o->request));
        found += o->cached_tokens;
      }
      free(run.outcomes);
      random_run_free(&run);
    }
    assert_true(found > 0);
  }
}

/* More pages never find less, where that can be proved: vllm, one request at a time, no prompt a
 * whole number of pages long. Then the queue of idle blocks is ordered by last use alone, a page is
 * always used together with all before it and counts as used later than those after it, and no key
 * is ever held twice; so what a small pool holds is always part of what a larger one holds.
 * (Not so where a prompt that fills its pages is found whole: its last page is computed again and
 * its key held twice, and which of the two goes first depends on the pool. Not so for sglang, which
 * drops whole leaves, and more than is missing. Not so when requests run together: who
 * waits, and so what is used when, depends on the pool.) */
static void more_pages_never_find_less_in_vllm(void **state)
{
  (void)state;
  uint64_t seed = 0;
  for (uint32_t i = 0; i < SEEDS / 8; i++) {
    struct test_run run = draw_lonely(policies[0], &seed);
    const uint32_t size = run.instance.sched.page_size;
    uint32_t longest = 0;
    if (size == 1) run.request_count = 0; /* every prompt is a whole number of pages */
    uint32_t *const before = room(run.request_count, sizeof *before);
    for (uint32_t k = 0; k < run.request_count; k++) {
      struct kc_request *r = &run.requests[k];
      if (r->input_tokens % size == 0) {
        r->input_tokens--; /* the keys stay: one token more of output */
        r->output_tokens++;
        r->max_tokens++;
      }
      if (r->input_tokens == 0) r->input_tokens = 1;
      const uint32_t pages = (r->input_tokens + produced(r)) / size + 2;
      if (pages > longest) longest = pages;
    }
    for (uint32_t pages = longest; run.request_count > 0 && pages < 40 * longest;
         pages += 1 + pages / 6) {
      run.instance.pages = pages;
      test_run_execute(&run);
      for (uint32_t k = 0; k < run.outcome_count; k++) {
        const struct kc_outcome *o = &run.outcomes[k];
        if (o->cached_tokens < before[o->request]) {
          print_error("seed %llu: request %u finds %u tokens in %u pages, %u in fewer\n",
                      (unsigned long long)seed, o->request, o->cached_tokens, pages,
                      before[o->request]);
          fail();
        }
        before[o->request] = o->cached_tokens;
      }
      free(run.outcomes);
    }
    free(before);
    random_run_free(&run);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_are_only_names_to_vllm),
      cmocka_unit_test(keys_are_only_names_to_sglang),
      cmocka_unit_test(a_salt_for_each_request_removes_all_sharing),
      cmocka_unit_test(a_cache_of_what_nobody_shares_changes_nothing),
      cmocka_unit_test(plenty_of_pages_find_all_there_is),
      cmocka_unit_test(more_pages_never_find_less_in_vllm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
