/* The product against its plain twin, byte for byte, on the beginning of the public Mooncake
 * conversation trace with what its prompts share: both policies, with plenty of pages, with few,
 * and with overlapped scheduling.
 *
 *   test_twin_mooncake [--rows N]
 *
 * The keys of the pages are made here, from the trace's ids and the rule in engine/kv/content.h: a
 * page is named by the block of 512 tokens that holds its last token, and its place in that block;
 * pages that end in the output are nobody else's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_run.h"
#include "traces/trace.h"
#include "twin_watch.h"

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { ROWS_DEFAULT = 400 };
#else
enum { ROWS_DEFAULT = 60 };
#endif

struct trace_case {
  const char *name, *policy;
  uint32_t pages, page_size, max_running;
  bool overlap;
  enum kc_queue_order order;
  unsigned slower;
};

static const struct trace_case cases[] = {
    {"plenty", "vllm-0.19", 60000, 16, 256, false, KC_ORDER_FCFS, 0},
    {"few pages, async", "vllm-0.19", 12000, 16, 64, true, KC_ORDER_FCFS, 4},
    {"plenty", "sglang-0.5", 15000, 64, 256, true, KC_ORDER_FCFS, 0},
    {"few pages, lpm", "sglang-0.5", 3000, 64, 64, false, KC_ORDER_LPM, 4},
};

/* Keys of one row; returns how many. */
static uint32_t put_keys(const struct kc_trace *trace, uint32_t row, uint32_t page_size,
                         uint32_t *next_own, struct kc_key_run *out)
{
  const struct kc_trace_row *r = &trace->row[row];
  const uint32_t *const block = trace->block + trace->column.block_first[row];
  const uint32_t pages = (r->input_tokens + r->output_tokens) / page_size;
  const uint32_t each = trace->block_tokens / page_size;
  for (uint32_t i = 0; i < pages; i++) {
    const uint32_t last = (i + 1) * page_size - 1, at = last / trace->block_tokens;
    const bool own = last >= r->input_tokens || at >= trace->column.block_count[row];
    out[i].first = own ? (*next_own)++ : block[at] * each + i % each;
    out[i].count = 1;
  }
  return pages;
}

static void put_requests(const struct kc_trace *trace, struct test_run *run)
{
  const uint32_t size = run->instance.sched.page_size;
  size_t total = 0;
  for (uint32_t i = 0; i < run->request_count; i++) {
    total += (trace->row[i].input_tokens + trace->row[i].output_tokens) / size;
  }
  uint32_t next_own = trace->block_distinct * (trace->block_tokens / size);
  run->requests = calloc(run->request_count, sizeof *run->requests);
  run->keys = calloc(total + 1, sizeof *run->keys);
  if (run->requests == NULL || run->keys == NULL) abort();
  struct kc_key_run *keys = run->keys;
  for (uint32_t i = 0; i < run->request_count; i++) {
    struct kc_request *r = &run->requests[i];
    r->arrival_ps = trace->row[i].arrival_ps;
    r->input_tokens = trace->row[i].input_tokens;
    r->output_tokens = trace->row[i].output_tokens;
    r->max_tokens = trace->row[i].output_tokens + i % 2; /* every other one stops by itself */
    r->run = keys;
    r->run_count = put_keys(trace, i, size, &next_own, keys);
    keys += r->run_count;
  }
  run->instance.sched.key_count = next_own;
}

static bool run_case(const struct kc_trace *trace, const struct trace_case *c, uint32_t rows)
{
  struct twin_totals totals = {0};
  struct test_run run = {.request_count = rows < trace->count ? rows : (uint32_t)trace->count};
  test_instance_default(&run.instance, c->pages);
  run.instance.policy = kc_policy_find(c->policy);
  run.instance.policy->defaults(&run.instance.sched, UINT64_C(80) << 30, false);
  struct kc_sched_config *const sched = &run.instance.sched;
  sched->page_size = c->page_size;
  sched->max_running = c->max_running;
  sched->max_model_len = 131072;
  sched->overlap = c->overlap;
  sched->order = c->order;
  sched->prefix_cache = true;
  sched->cap_count = 1;
  sched->cap[0] = 1024;
  test_cost_trace(&run.cost, c->slower);
  put_requests(trace, &run);
  const bool agrees = twin_agrees(&run, &totals);
  printf("Mooncake conversation, %s, %s, %" PRIu32 " requests, %" PRIu32 " pages: %s; %" PRIu64
         " of %" PRIu64 " prompt tokens found\n",
         c->policy, c->name, run.request_count, c->pages, agrees ? "the twins agree" : "DISAGREE",
         run.result.summary.cached_tokens, run.result.summary.admitted_tokens);
  twin_print_totals(&totals);
  random_run_free(&run);
  return agrees;
}

int main(int argc, char **argv)
{
  const char *const shared = getenv("KVCAP_SHARED");
  const uint64_t rows = option_u64(argc, argv, "--rows", ROWS_DEFAULT);
  struct kc_trace_options options;
  struct kc_trace trace = {0};
  struct kc_diag diag = {0};
  char path[512];
  if (shared == NULL) return 77;
  snprintf(path, sizeof path, "%s/traces/mooncake/conversation_trace.jsonl", shared);
  kc_trace_options_default(&options);
  const enum kc_err err = kc_trace_load(&trace, path, &options, &diag);
  if (err == KC_ERR_FILE) return 77;
  if (err != KC_OK) {
    printf("%s\n", diag.text);
    return 1;
  }
  bool agree = true;
  for (size_t i = 0; agree && i < sizeof cases / sizeof cases[0]; i++) {
    agree = run_case(&trace, &cases[i], rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX);
  }
  kc_trace_free(&trace);
  return agree ? 0 : 1;
}
