/* Pages from 1 to plenty times load from light to ten times what the slots can serve, for every
 * combination of role, chunking and reservation: every request ends with exactly one status, no
 * combination loops, and the process does not grow.
 *
 * A step runs at least one token for the oldest request that has not ended: it is the head of the
 * batch, served first and preempted last. So request i costs at most
 *
 *     ceil((input + output) / max_batched_tokens) + output + 1     steps
 *
 * from the time that it is the oldest, and a run at most the sum of these; with overlap, one more
 * for each end.
 *
 * sglang-0.5 has no such order: it retracts whoever has made least. But outputs are kept, so a
 * decode step brings the run nearer to its end by a token at least, whoever made it, and it can
 * send back at most all slots but one, each of which is computed again in so many chunks. That
 * bounds a run too, loosely.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "random_run.h"

#define STEP_PS (10 * KC_PS_PER_MS)
enum { SLOTS = 16, BATCHED = 128, PAGE = 16, OUTPUT_MEAN = 30, INPUT_MAX = 300, REQUESTS = 150 };

/* Runs that hang between steps would not come back to be counted. */
enum { ALARM_S = 110 };

struct step_limit {
  struct kc_executor inner;
  uint64_t steps, most;
};

static enum kc_err run_limited(void *context, const struct kc_step *step,
                               struct kc_step_result *result, struct kc_diag *diag)
{
  struct step_limit *limit = context;
  if (++limit->steps > limit->most) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %llu steps: the run makes no progress",
                   (unsigned long long)limit->most);
  }
  return limit->inner.run(limit->inner.context, step, result, diag);
}

static struct kc_executor wrap(void *context, const struct kc_executor *executor)
{
  struct step_limit *limit = context;
  limit->inner = *executor;
  return (struct kc_executor){.context = limit, .name = executor->name, .run = run_limited};
}

static uint64_t most_steps(const struct test_run *run)
{
  const struct kc_sched_config *sched = &run->instance.sched;
  const bool ordered = run->instance.policy->requeue_first;
  const uint64_t budget = ordered ? sched->max_batched_tokens : sched->page_size;
  uint64_t most = 0;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const struct kc_request *r = &run->requests[i];
    const uint64_t tokens = (uint64_t)r->input_tokens + r->output_tokens;
    const uint64_t chunks = (tokens + budget - 1) / budget;
    most += chunks + 2;
    most += r->output_tokens * (ordered ? 1 : 1 + (SLOTS - 1) * chunks);
  }
  return most;
}

static void expect_one_end_each(const struct test_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  uint64_t by_status = 0, by_reason = 0;
  bool *const seen = calloc(run->request_count, sizeof *seen);
  assert_non_null(seen);
  assert_int_equal(run->outcome_count, run->request_count);
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    assert_true(o->request < run->request_count);
    assert_false(seen[o->request]);
    seen[o->request] = true;
    assert_int_equal(o->status == KC_STATUS_COMPLETED, o->reason == KC_REASON_NONE);
    assert_true(i == 0 || o->end_ps >= run->outcomes[i - 1].end_ps);
    if (o->status == KC_STATUS_REJECTED) assert_int_equal(o->output_tokens, 0);
    if (o->status != KC_STATUS_COMPLETED) continue;
    assert_int_equal(o->output_tokens, run->requests[o->request].output_tokens);
  }
  for (int i = 0; i < KC_STATUSES; i++) by_status += s->requests_by_status[i];
  for (int i = 0; i < KC_REASONS; i++) by_reason += s->requests_by_reason[i];
  assert_int_equal(by_status, run->request_count);
  assert_int_equal(by_reason, run->request_count);
  assert_true(s->kv_peak_pages <= run->instance.pages);
  free(seen);
}

/* Arrivals at `load_percent` of the rate at which the slots, all busy, could end requests. */
static void fill(struct test_run *run, uint32_t load_percent, uint64_t seed)
{
  struct kc_random random;
  kc_random_init(&random, seed, "overload", load_percent);
  const uint64_t gap_ps = (uint64_t)STEP_PS * OUTPUT_MEAN / SLOTS * 100 / load_percent;
  kc_ps now_ps = 0;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const uint32_t output = random_between(&random, 1, 2 * OUTPUT_MEAN - 1);
    now_ps += (kc_ps)kc_random_exponential(&random, gap_ps);
    run->requests[i] = (struct kc_request){.arrival_ps = now_ps,
                                           .input_tokens = random_between(&random, 1, INPUT_MAX),
                                           .output_tokens = output,
                                           .max_tokens = output};
  }
}

static void run_one(uint32_t pages, uint32_t load_percent, unsigned variant, uint32_t requests)
{
  struct step_limit limit = {0};
  struct test_run run = {.request_count = requests, .wrap = wrap, .wrap_context = &limit};
  test_instance_default(&run.instance, pages);
  run.instance.sched.page_size = PAGE;
  run.instance.sched.max_running = SLOTS;
  run.instance.sched.max_batched_tokens = BATCHED;
  run.instance.sched.chunked_prefill = (variant & 1) == 0;
  run.instance.sched.reserve_full_prompt = (variant & 2) == 0;
  run.instance.sched.role = (variant & 4) == 0 ? KC_ROLE_SERVE : KC_ROLE_DECODE;
  test_cost_constant(&run.cost, STEP_PS);
  run.requests = calloc(requests, sizeof *run.requests);
  assert_non_null(run.requests);
  fill(&run, load_percent, pages);
  limit.most = most_steps(&run);
  test_run_execute(&run);
  expect_one_end_each(&run);
  free(run.requests);
  free(run.outcomes);
}

/* ---- both policies, with all that they can do ---- */

enum {
  V_CHUNKS_OFF = 1, V_UNRESERVED = 2, V_DECODE_ROLE = 4, V_OVERLAP = 8, V_CACHE = 16, V_SECOND = 32,
  VARIANTS = 64
};

/* V_SECOND: vllm by priority and with a threshold, sglang by the longest match. V_UNRESERVED:
 * sglang with mixed chunks. */
static void configure_variant(struct kc_sched_config *sched, bool sglang, unsigned variant)
{
  sched->page_size = PAGE;
  sched->max_running = SLOTS;
  sched->max_batched_tokens = BATCHED;
  sched->chunked_prefill_size = BATCHED;
  sched->max_prefill_tokens = 2 * BATCHED;
  sched->max_model_len = 131072;
  sched->chunked_prefill = (variant & V_CHUNKS_OFF) == 0;
  sched->reserve_full_prompt = (variant & V_UNRESERVED) == 0;
  sched->mixed_chunk = sglang && (variant & V_UNRESERVED) != 0 && sched->chunked_prefill;
  sched->schedule_conservativeness = 0.3;
  sched->role = (variant & V_DECODE_ROLE) == 0 ? KC_ROLE_SERVE : KC_ROLE_DECODE;
  sched->overlap = (variant & V_OVERLAP) != 0;
  sched->prefix_cache = (variant & V_CACHE) != 0 && sched->role == KC_ROLE_SERVE;
  if ((variant & V_SECOND) == 0) return;
  sched->order = sglang ? KC_ORDER_LPM : KC_ORDER_PRIORITY;
  if (!sglang) sched->long_prefill_token_threshold = 40;
}

/* A third of the prompts begins like another; ends before max_tokens leave ghosts. */
static void fill_contents(struct test_run *run, struct kc_key_run *keys)
{
  uint32_t next = INPUT_MAX / PAGE + 1;
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    const uint32_t pages = (r->input_tokens + r->output_tokens) / PAGE;
    const uint32_t prompt = r->input_tokens / PAGE;
    const uint32_t shared = i % 3 == 0 ? prompt : i % 3 == 1 ? prompt / 2 : 0;
    uint32_t runs = 0;
    if (shared > 0) keys[2 * i + runs++] = (struct kc_key_run){.first = 0, .count = shared};
    if (pages > shared) {
      keys[2 * i + runs++] = (struct kc_key_run){.first = next, .count = pages - shared};
      next += pages - shared;
    }
    r->run = &keys[2 * i];
    r->run_count = runs;
    r->priority = (int32_t)(i % 4);
    r->max_tokens += i % 5;
  }
  run->instance.sched.key_count = next;
}

static void run_policy(const char *policy, uint32_t pages, uint32_t load_percent, unsigned variant)
{
  enum { COUNT = 48 };
  static struct kc_request requests[COUNT];
  static struct kc_key_run keys[2 * COUNT];
  struct step_limit limit = {0};
  struct test_run run = {
      .request_count = COUNT, .requests = requests, .wrap = wrap, .wrap_context = &limit};
  test_instance_default(&run.instance, pages);
  run.instance.policy = kc_policy_find(policy);
  run.instance.policy->defaults(&run.instance.sched, UINT64_C(80) << 30, false);
  configure_variant(&run.instance.sched, !run.instance.policy->requeue_first, variant);
  test_cost_constant(&run.cost, STEP_PS);
  fill(&run, load_percent, pages + variant);
  fill_contents(&run, keys);
  limit.most = most_steps(&run);
  test_run_execute(&run);
  expect_one_end_each(&run);
  free(run.outcomes);
}

static const uint32_t pools[] = {1, 2, 3, 5, 9, 12, 20, 24, 40, 64, 100, 400, 4096};
static const uint32_t loads[] = {10, 50, 90, 150, 300, 1000}; /* per cent */
enum { POOLS = sizeof pools / sizeof pools[0], LOADS = sizeof loads / sizeof loads[0] };

static void every_request_ends(void **state)
{
  (void)state;
  for (unsigned variant = 0; variant < 8; variant++) {
    for (unsigned p = 0; p < POOLS; p++) {
      for (unsigned l = 0; l < LOADS; l++) run_one(pools[p], loads[l], variant, REQUESTS);
    }
  }
}

static void every_request_ends_with_every_policy(void **state)
{
  (void)state;
  for (unsigned variant = 0; variant < VARIANTS; variant++) {
    for (unsigned p = 0; p < POOLS; p++) {
      const uint32_t load = loads[(p + variant) % LOADS];
      run_policy("vllm-0.19", pools[p], load, variant);
      run_policy("sglang-0.5", pools[p], load, variant);
    }
  }
}

static long resident_kib_max(void)
{
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

/* A run's memory is its tables: a request, an outcome that this test keeps and three latencies per
 * request, and what does not depend on their number. Waiting costs nothing: at ten times the load
 * nine of ten requests wait. 4 MiB cover the rest (pages, slots, histogram, timeline, heap). */
static void overload_takes_no_memory(void **state)
{
  (void)state;
  const uint32_t requests = 50000;
  const long tables_kib =
      (long)(requests * (sizeof(struct kc_request) + sizeof(struct kc_outcome) + 1 +
                         3 * sizeof(kc_ps)) / 1024);
  run_one(400, 100, 0, 1000);
  const long before_kib = resident_kib_max();
  run_one(400, 1000, 0, requests);
  run_one(9, 1000, 2, requests);
  const long grown_kib = resident_kib_max() - before_kib;
  print_message("resident set grew by %ld KiB; the tables of %u requests are %ld KiB\n", grown_kib,
                requests, tables_kib);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  assert_true(grown_kib <= tables_kib + 4096);
#endif
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(overload_takes_no_memory),
                                     cmocka_unit_test(every_request_ends),
                                     cmocka_unit_test(every_request_ends_with_every_policy)};
  alarm(ALARM_S);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
