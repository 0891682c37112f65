/* The public sessions and logs themselves, when they are at hand: counts as published or computed
 * from the files by another program. Skipped (77) without them. callanjfox/kv-cache-tester at
 * 94f6046d, uw-syfi/TraceLab at 0b8a262b, casys-kaist/LLMServingSim at 5daddb21, HPMLL/BurstGPT. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reader_text.h"

static uint64_t count_flag(const struct kc_trace *trace, unsigned flag)
{
  uint64_t rows = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    rows += trace->column.flags != NULL && (trace->column.flags[i] & flag) != 0;
  }
  return rows;
}

/* Rows that start an agent: they follow no row of an agent. */
static uint64_t count_agents(const struct kc_trace *trace)
{
  uint64_t agents = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t after = trace->column.after[i];
    if ((trace->column.flags[i] & KC_ROW_SUBAGENT) == 0) continue;
    agents += after == KC_TRACE_NONE || (trace->column.flags[after] & KC_ROW_SUBAGENT) == 0;
  }
  return agents;
}

/* 24 sessions, 795 requests, 158 of them in 12 agents; 888,762 blocks of which 820,425 lead a
 * prompt that an earlier row of the session led with: 92.3 %. */
static void weka_folder(void **state)
{
  (void)state;
  struct kc_trace trace;
  load_public(&trace, "weka-claude-code/traces");
  assert_string_equal(trace.format, "weka");
  assert_int_equal(trace.file_count, 24);
  assert_int_equal(trace.count, 795);
  assert_int_equal(trace.session_count, 24);
  assert_int_equal(count_flag(&trace, KC_ROW_SUBAGENT), 158);
  assert_int_equal(count_agents(&trace), 12);
  assert_int_equal(trace.block_tokens, 64);
  assert_int_equal(trace.tail, KC_TAIL_FLOOR);
  assert_int_equal(trace.note[KC_NOTE_IDS_OTHER_TAIL], 0);
  assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH], 0);
  assert_int_equal(trace.input_tokens, 56906170);
  assert_int_equal(trace.block_total, 888762);
  assert_int_equal(reusable_blocks(&trace), 820425);
  kc_trace_free(&trace);
}

/* A request never starts before what it waits for, in the recorded times: agents end before their
 * parent goes on. api_time is not kept, so starts are compared. */
static void weka_links_point_back_in_time(void **state)
{
  (void)state;
  struct kc_trace trace;
  uint64_t linked = 0;
  load_public(&trace, "weka-claude-code/traces");
  for (uint64_t i = 0; i < trace.count; i++) {
    const uint32_t after = trace.column.after[i];
    if (after == KC_TRACE_NONE) continue;
    linked++;
    assert_true(trace.column.session[after] == trace.column.session[i]);
    if (trace.row[after].arrival_ps + trace.column.wait_ps[i] >
        trace.row[i].arrival_ps + 2 * KC_PS_PER_S) { /* recorded pauses are whole seconds */
      fail_msg("row %" PRIu64 " waits for row %" PRIu32 " longer than to its own start", i, after);
    }
  }
  assert_int_equal(linked, 795 - 24);
  kc_trace_free(&trace);
}

static void tracelab_tables(void **state)
{
  (void)state;
  struct kc_trace trace;
  load_public(&trace, "tracelab/replay/examples/multi_session_example.csv");
  assert_string_equal(trace.format, "tracelab");
  assert_int_equal(trace.count, 8);
  assert_int_equal(trace.session_count, 3);
  assert_int_equal(trace.row[1].input_tokens, 704);
  assert_link(&trace, 1, (struct reader_link){0, 0, 100 * KC_PS_PER_MS});
  kc_trace_free(&trace);
  load_public(&trace, "tracelab/replay/examples/multi_session_large.csv");
  assert_int_equal(trace.count, 303);
  assert_int_equal(trace.session_count, 48);
  kc_trace_free(&trace);
  load_public(&trace, "tracelab/replay/examples/session_workload_example.csv");
  assert_int_equal(trace.count, 11);
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  assert_int_equal(trace.row[1].input_tokens, 18333 + 13570);
  kc_trace_free(&trace);
}

static void tracelab_rounds(void **state)
{
  (void)state;
  struct kc_trace trace;
  load_public(&trace, "tracelab/example_sessions/sanitized/round_trace.jsonl");
  assert_string_equal(trace.format, "tracelab-rounds");
  assert_int_equal(trace.count, 19);
  assert_int_equal(trace.session_count, 2);
  /* The codex session is the earlier one; its second round waits for a tool of 1,176 ms. */
  assert_int_equal(trace.row[0].input_tokens, 9324);
  assert_link(&trace, 1, (struct reader_link){0, 0, 1176 * KC_PS_PER_MS});
  assert_true(trace.row[1].arrival_ps == 7376 * KC_PS_PER_MS); /* 06.704 - 05:59.328 */
  kc_trace_free(&trace);
}

static void measured_runs_and_their_workloads(void **state)
{
  (void)state;
  struct kc_trace log, workload;
  load_public(&log, "vllm-measured/RTXPRO6000_Llama-3.1-8B/requests.jsonl");
  load_public(&workload, "vllm-measured/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl");
  assert_string_equal(log.format, "benchlog");
  assert_string_equal(workload.format, "llmservingsim");
  assert_int_equal(log.count, 300);
  assert_int_equal(workload.count, 300);
  for (uint64_t i = 0; i < 300; i++) {
    const kc_ps apart = log.row[i].arrival_ps - workload.row[i].arrival_ps;
    assert_int_equal(log.row[i].input_tokens, workload.row[i].input_tokens);
    assert_int_equal(log.row[i].output_tokens, workload.row[i].output_tokens);
    assert_true(apart > -80 * KC_PS_PER_MS && apart < 80 * KC_PS_PER_MS);
  }
  kc_trace_free(&log);
  kc_trace_free(&workload);
  load_public(&log, "vllm-measured/RTXPRO6000_Qwen3-32B/requests.jsonl");
  assert_int_equal(log.count, 300);
  kc_trace_free(&log);
}

static void burstgpt_head(void **state)
{
  (void)state;
  struct kc_trace trace;
  load_public(&trace, "format-samples/BurstGPT_1.head.csv");
  assert_string_equal(trace.format, "burstgpt");
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.input_tokens, 472 + 1087 + 417);
  assert_true(trace.span_ps == 113 * KC_PS_PER_S);
  kc_trace_free(&trace);
}

int main(void)
{
  if (!public_traces_exist()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weka_folder),
      cmocka_unit_test(weka_links_point_back_in_time),
      cmocka_unit_test(tracelab_tables),
      cmocka_unit_test(tracelab_rounds),
      cmocka_unit_test(measured_runs_and_their_workloads),
      cmocka_unit_test(burstgpt_head),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
