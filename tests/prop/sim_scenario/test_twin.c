/* The product against its plain twin, byte for byte: on random scenarios of every kind, on the same
 * with random sessions, and on the public Azure conversation trace with a rich and with a starved
 * pool. Scenarios are drawn for vllm without cache, and for each policy with all that it can do.
 *
 *   test_twin [--count N] [--kind K] [--trace 0|1] | --kind K --seed S
 *
 * Kinds: 0 plain, 1 plain sessions, 2 vllm-0.19, 3 its sessions, 4 sglang-0.5, 5 its sessions.
 *
 * A disagreement prints the seed and the first difference, after halving the number of requests as
 * long as the twins still disagree.
 * timeout: 400
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_run.h"
#include "traces/trace.h"
#include "twin_watch.h"

/* Unoptimised and sanitized builds run fewer, to stay within a quick run. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { PLAIN_COUNT = 2000, POLICY_COUNT = 1000, TRACE_ROWS_MAX = INT32_MAX };
#else
enum { PLAIN_COUNT = 1000, POLICY_COUNT = 300, TRACE_ROWS_MAX = 600 };
#endif

enum kind { PLAIN, PLAIN_SESSIONS, VLLM, VLLM_SESSIONS, SGLANG, SGLANG_SESSIONS, KINDS };
static const char *const kind_names[KINDS] = {"scenarios",           "sessions",
                                              "vllm-0.19 scenarios", "vllm-0.19 sessions",
                                              "sglang-0.5 scenarios", "sglang-0.5 sessions"};

static void draw(struct test_run *run, enum kind kind, uint64_t seed, uint32_t requests_max)
{
  const char *const policy = kind < SGLANG ? "vllm-0.19" : "sglang-0.5";
  if (kind == PLAIN) random_run_draw(run, seed, requests_max);
  else if (kind == PLAIN_SESSIONS) random_run_draw_sessions(run, seed, requests_max);
  else if (kind % 2 == 0) random_run_draw_policy(run, policy, seed, requests_max);
  else random_run_draw_policy_sessions(run, policy, seed, requests_max);
}

static bool run_seed(enum kind kind, uint64_t seed, uint32_t requests_max,
                     struct twin_totals *totals)
{
  struct test_run run;
  draw(&run, kind, seed, requests_max);
  const bool agrees = twin_agrees(&run, totals);
  if (!agrees) {
    printf("kind=%d seed=%" PRIu64 " requests=%" PRIu32 "\n", (int)kind, seed, run.request_count);
    random_run_print(&run);
  }
  random_run_free(&run);
  return agrees;
}

/* Halves the number of requests as long as the twins disagree, then takes one at a time. */
static void shrink(enum kind kind, uint64_t seed)
{
  struct twin_totals ignored = {0};
  uint32_t most = 64;
  while (most > 1 && !run_seed(kind, seed, most / 2, &ignored)) most /= 2;
  while (most > 1 && !run_seed(kind, seed, most - 1, &ignored)) most--;
}

/* ---- the Azure trace ---- */

struct trace_case {
  const char *name;
  uint32_t pages, max_running, rows; /* the first `rows` of the trace */
  bool chunked, reserve;
  unsigned slower; /* contexts and tokens cost 2^slower as much */
};

static const struct trace_case trace_cases[] = {
    {"rich", 30000, 256, UINT32_MAX, true, true, 0},
    {"crowded", 30000, 128, UINT32_MAX, true, true, 10},
    {"starved", 1200, 256, UINT32_MAX, false, true, 4},
    {"starved, no reservation", 700, 64, 8000, true, false, 4},
};

static bool run_trace(const struct kc_trace *trace, const struct trace_case *c)
{
  struct twin_totals totals = {0};
  uint32_t rows = (uint32_t)trace->count < c->rows ? (uint32_t)trace->count : c->rows;
  if (rows > TRACE_ROWS_MAX) rows = TRACE_ROWS_MAX;
  struct test_run run = {.request_count = rows};
  test_instance_default(&run.instance, c->pages);
  run.instance.sched.max_running = c->max_running;
  run.instance.sched.chunked_prefill = c->chunked;
  run.instance.sched.reserve_full_prompt = c->reserve;
  run.instance.sched.cap_count = 1;
  run.instance.sched.cap[0] = 1024;
  test_cost_trace(&run.cost, c->slower);
  run.requests = calloc(rows, sizeof *run.requests);
  if (run.requests == NULL) abort();
  for (uint32_t i = 0; i < rows; i++) {
    run.requests[i] = (struct kc_request){.arrival_ps = trace->row[i].arrival_ps,
                                          .input_tokens = trace->row[i].input_tokens,
                                          .output_tokens = trace->row[i].output_tokens,
                                          .max_tokens = trace->row[i].output_tokens};
  }
  const bool agrees = twin_agrees(&run, &totals);
  printf("Azure conversation, %s, %" PRIu32 " requests, %" PRIu32
         " pages: %s; at most %" PRIu32 " ran, %" PRIu32 " waited\n",
         c->name, rows, c->pages, agrees ? "the twins agree" : "DISAGREE",
         run.result.summary.max_running, run.result.summary.max_waiting);
  twin_print_totals(&totals);
  free(run.requests);
  return agrees;
}

/* Status 77 when this machine has no such trace. */
static int run_traces(void)
{
  const char *const shared = getenv("KVCAP_SHARED");
  struct kc_trace_options options;
  struct kc_trace trace = {0};
  struct kc_diag diag = {0};
  char path[512];
  if (shared == NULL) return 77;
  snprintf(path, sizeof path, "%s/traces/azure2023/AzureLLMInferenceTrace_conv.csv", shared);
  kc_trace_options_default(&options);
  const enum kc_err err = kc_trace_load(&trace, path, &options, &diag);
  if (err == KC_ERR_FILE) return 77;
  if (err != KC_OK) {
    printf("%s\n", diag.text);
    return 1;
  }
  bool agree = true;
  for (size_t i = 0; agree && i < sizeof trace_cases / sizeof trace_cases[0]; i++) {
    agree = run_trace(&trace, &trace_cases[i]);
  }
  kc_trace_free(&trace);
  return agree ? 0 : 1;
}

/* ---- random ---- */

static bool run_random(enum kind kind, uint64_t first, uint64_t count)
{
  struct twin_totals totals = {0};
  for (uint64_t s = first; s < first + count; s++) {
    if (run_seed(kind, s, UINT32_MAX, &totals)) continue;
    shrink(kind, s);
    return false;
  }
  printf("%" PRIu64 " random %s: the twins agree\n", count, kind_names[kind]);
  twin_print_totals(&totals);
  return true;
}

int main(int argc, char **argv)
{
  const uint64_t seed = option_u64(argc, argv, "--seed", 0);
  const uint64_t asked = option_u64(argc, argv, "--count", seed != 0);
  const uint64_t only = option_u64(argc, argv, "--kind", KINDS);
  for (int kind = 0; kind < KINDS; kind++) {
    if (only != KINDS && only != (uint64_t)kind) continue;
    const uint64_t count = asked > 0 ? asked : kind < VLLM ? PLAIN_COUNT : POLICY_COUNT;
    if (!run_random((enum kind)kind, seed != 0 ? seed : 1, count)) return 1;
  }
  if (seed != 0 || only != KINDS || option_u64(argc, argv, "--trace", 1) == 0) return 0;
  const int status = run_traces();
  if (status == 77) printf("no Azure trace on this machine: skipped\n");
  return status == 77 ? 0 : status;
}
