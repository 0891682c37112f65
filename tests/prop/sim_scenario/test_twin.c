/* The product against its plain twin, byte for byte: on random scenarios of every kind, on the same
 * with random sessions, and on the public Azure conversation trace with a rich and with a starved
 * pool.
 *
 *   test_twin [--count N] [--trace 0|1] | --seed S
 *
 * A disagreement prints the seed and the first difference, after halving the number of requests as
 * long as the twins still disagree.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_run.h"
#include "traces/trace.h"
#include "twin_watch.h"

/* Unoptimised and sanitized builds run fewer, to stay within a quick run. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { COUNT_DEFAULT = 12000, TRACE_ROWS_MAX = INT32_MAX };
#else
enum { COUNT_DEFAULT = 1000, TRACE_ROWS_MAX = 600 };
#endif

typedef void drawing(struct test_run *run, uint64_t seed, uint32_t requests_max);

static bool run_seed(drawing *draw, uint64_t seed, uint32_t requests_max,
                     struct twin_totals *totals)
{
  struct test_run run;
  draw(&run, seed, requests_max);
  const bool agrees = twin_agrees(&run, totals);
  if (!agrees) {
    printf("seed=%" PRIu64 " requests=%" PRIu32 "\n", seed, run.request_count);
    random_run_print(&run);
  }
  free(run.requests);
  free(run.after);
  free(run.wait_ps);
  return agrees;
}

static void shrink(drawing *draw, uint64_t seed)
{
  struct twin_totals ignored = {0};
  for (uint32_t most = 64; most > 0; most /= 2) {
    if (run_seed(draw, seed, most, &ignored)) return;
  }
}

static void print_totals(const struct twin_totals *t)
{
  printf("  %" PRIu64 " steps, %" PRIu64 " requests, %" PRIu64 " tokens, %" PRIu64
         " preemptions, %" PRIu64 " out of memory; ended by reason:",
         t->steps, t->ends, t->outputs, t->preemptions, t->ooms);
  for (int i = 0; i < KC_REASONS; i++) {
    printf(" %s %" PRIu64, kc_reason_name((enum kc_reason)i), t->by_reason[i]);
  }
  printf("\n");
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

/* 8 ms a step and up to 0.3 ns a token of context, about one large GPU. */
static void trace_cost(struct kc_cost *cost, unsigned slower)
{
  test_cost_random(cost, 1, 1);
  cost->host_step = (uint64_t)(8 * KC_PS_PER_MS) << KC_COST_FRACTION_BITS;
  for (uint32_t i = 0; i < cost->op_count; i++) {
    struct kc_cost_op *op = &cost->op[i];
    op->byte_fixed >>= 10;
    op->byte_unit = op->byte_unit >> 10 << slower;
    op->byte_write = op->byte_write >> 10 << slower;
    op->flop_unit = op->flop_unit >> 10 << slower;
  }
}

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
  trace_cost(&run.cost, c->slower);
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
  print_totals(&totals);
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

static bool run_random(const char *what, drawing *draw, uint64_t first, uint64_t count)
{
  struct twin_totals totals = {0};
  for (uint64_t s = first; s < first + count; s++) {
    if (run_seed(draw, s, UINT32_MAX, &totals)) continue;
    shrink(draw, s);
    return false;
  }
  printf("%" PRIu64 " random %s: the twins agree\n", count, what);
  print_totals(&totals);
  return true;
}

int main(int argc, char **argv)
{
  const uint64_t seed = option_u64(argc, argv, "--seed", 0);
  const uint64_t count = option_u64(argc, argv, "--count", seed != 0 ? 1 : COUNT_DEFAULT);
  const uint64_t first = seed != 0 ? seed : 1;
  if (!run_random("scenarios", random_run_draw, first, count)) return 1;
  if (!run_random("sessions", random_run_draw_sessions, first, count)) return 1;
  if (seed != 0 || option_u64(argc, argv, "--trace", 1) == 0) return 0;
  const int status = run_traces();
  if (status == 77) printf("no Azure trace on this machine: skipped\n");
  return status == 77 ? 0 : status;
}
