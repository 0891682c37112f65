/* Simulator workloads and benchmark logs: LLMServingSim lines, the request log of a benchmark, the
 * result files of the benchmarks of vLLM and SGLang. Fixtures are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader_text.h"

#define NONE KC_TRACE_NONE
#define MS KC_PS_PER_MS

/* ---- LLMServingSim ---- */

static void flat_lines_are_nanoseconds(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(
      &trace,
      "{\"input_toks\": 3, \"output_toks\": 530, \"arrival_time_ns\": 46926800, "
      "\"input_tok_ids\": [1, 2, 3], \"output_tok_ids\": [4]}\n"
      "{\"input_toks\": 1030, \"output_toks\": 760, \"arrival_time_ns\": 347938951}\n");
  assert_string_equal(trace.format, "llmservingsim");
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.row[0].input_tokens, 3);
  assert_true(trace.row[1].arrival_ps == INT64_C(301012151) * KC_PS_PER_NS);
  assert_false(trace.prefix_ids); /* no whole block */
  kc_trace_free(&trace);
}

#define TEN_TO_17 "10, 11, 12, 13, 14, 15, 16, 17"

/* Blocks of 16 token ids: the same content after the same past is the same id, elsewhere not. */
static void token_ids_become_prefix_ids(void **state)
{
  static const struct reader_message messages[] = {
      {"{\"input_toks\": 4, \"output_toks\": 1, \"arrival_time_ns\": 1, \"input_tok_ids\": [1, 2]}",
       "t.json:1: 2 ids in input_tok_ids, but input_toks is 4; expected one id a token"},
  };
  struct kc_trace trace;
  (void)state;
  reader_parse(
      &trace,
      "{\"input_toks\": 32, \"output_toks\": 1, \"arrival_time_ns\": 0, \"input_tok_ids\": ["
      TEN_TO_17 ", " TEN_TO_17 ", " TEN_TO_17 ", " TEN_TO_17 "]}\n"
      "{\"input_toks\": 40, \"output_toks\": 1, \"arrival_time_ns\": 1, \"input_tok_ids\": ["
      TEN_TO_17 ", " TEN_TO_17 ", " TEN_TO_17 ", " TEN_TO_17 ", " TEN_TO_17 "]}\n"
      "{\"input_toks\": 17, \"output_toks\": 1, \"arrival_time_ns\": 2, \"input_tok_ids\": ["
      "9, " TEN_TO_17 ", " TEN_TO_17 "]}\n");
  assert_true(trace.prefix_ids);
  assert_int_equal(trace.block_tokens, 16);
  assert_int_equal(trace.block_total, 2 + 2 + 1);
  assert_int_equal(trace.block_distinct, 3);
  assert_int_equal(trace.block[0], trace.block[2]);
  assert_int_equal(trace.block[1], trace.block[3]);
  assert_true(trace.block[0] != trace.block[1] && trace.block[4] != trace.block[0]);
  kc_trace_free(&trace);
  check_messages("llmservingsim", messages, sizeof messages / sizeof messages[0]);
}

#define SUB(in, out, rest) "{\"input_toks\": " in ", \"output_toks\": " out rest "}"
#define TOOL(ns) ", \"tool_duration_ns\": " ns
#define AGENT(session, ns, subs)                                                             \
  "{\"session_id\": \"" session "\", \"arrival_time_ns\": " ns ", \"sub_requests\": [" subs "]}\n"

/* A sub-request carries its whole prompt (unlike TraceLab's), and the tool runs after it. */
static void pitfall_35_sub_requests_carry_whole_prompts(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace,
               AGENT("s", "2000000",
                     SUB("100", "20", TOOL("5000000")) ", " SUB("150", "9", TOOL("7000000.5")) ", "
                     SUB("90", "1", ""))
               "{\"input_toks\": 7, \"output_toks\": 8, \"arrival_time_ns\": 1000000}\n"
               AGENT("u", "9000000", SUB("1", "1", "")));
  assert_int_equal(trace.count, 5);
  assert_int_equal(trace.session_count, 2);
  static const uint32_t inputs[] = {7, 100, 150, 90, 1};
  for (uint64_t i = 0; i < 5; i++) assert_int_equal(trace.row[i].input_tokens, inputs[i]);
  assert_link(&trace, 0, (struct reader_link){NONE, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 2, (struct reader_link){0, 1, 5 * MS});
  assert_link(&trace, 3, (struct reader_link){0, 2, 7 * MS + KC_PS_PER_NS / 2});
  assert_link(&trace, 4, (struct reader_link){1, NONE, 0});
  assert_flags(&trace, 3, KC_ROW_COMPACTED);
  assert_true(trace.row[1].arrival_ps == MS);
  kc_trace_free(&trace);
}

/* A sub-request that a policy drops is bridged by its tool's time. */
static void dropped_sub_requests_are_bridged(void **state)
{
  (void)state;
  static const char text[] =
      AGENT("s", "0", SUB("1", "1", TOOL("5000000")) "," SUB("2", "0", TOOL("7000000")) ","
                      SUB("3", "1", ""));
  struct kc_trace_options options;
  struct kc_trace trace;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  assert_int_equal(kc_trace_parse(&trace, "t", text, sizeof text - 1, &options, NULL), KC_OK);
  assert_int_equal(trace.count, 2);
  assert_link(&trace, 1, (struct reader_link){0, 0, 12 * MS});
  kc_trace_free(&trace);
}

/* The tool whose workloads these are overwrites the one and skips the other without a word. */
static void pitfall_36_sessions_twice_or_empty_are_refused(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {AGENT("s", "0", SUB("1", "1", "")) AGENT("s", "5", SUB("2", "1", "")),
       "t.json:2:17: session_id is \"s\": an earlier line has this session; expected one line a "
       "session"},
      {AGENT("s", "0", ""),
       "t.json:1:59: sub_requests is \"[]\": a session without requests; expected one or more"},
      {AGENT("s", "0", "7"),
       "t.json:1:60: sub_requests is \"7\": expected objects, one a request"},
      {AGENT("s", "0", "{\"output_toks\": 1}"),
       "t.json:1:60: a sub-request without input_toks"},
      {AGENT("s", "0", "{\"input_toks\": 1}"),
       "t.json:1:60: a sub-request without output_toks"},
      {"{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": 0}\n"
       "{\"input_toks\": 1, \"arrival_time_ns\": 0}\n",
       "t.json:2:1: neither input_toks and output_toks (a request) nor sub_requests (a session)"},
      {"{\"input_toks\": 13.7, \"output_toks\": 1, \"arrival_time_ns\": 0}\n",
       "t.json:1:16: input_toks is \"13.7\": expected a whole number from 0 to 4294967295"},
  };
  check_messages(NULL, table, sizeof table / sizeof table[0]);
}

/* ---- the log of a benchmark ---- */

/* arrival_time is an epoch, the stage times are of a monotonic clock: only the first is used. */
static void pitfall_22_two_clocks_in_one_record(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace,
               "{\"request_id\": \"bench-0\", \"input_toks\": 2350, \"output_toks\": 530, "
               "\"arrival_time\": 1777142838.338650, \"queued_ts\": 479748.340626232, "
               "\"first_token_ts\": 479748.510151426, \"last_token_ts\": 479764.054028055}\n"
               "{\"request_id\": \"bench-1\", \"input_toks\": 1030, \"output_toks\": 0, "
               "\"arrival_time\": 1777142838.6237123, \"queued_ts\": 1.5}\n");
  assert_string_equal(trace.format, "benchlog");
  assert_int_equal(trace.count, 2);
  assert_true(trace.row[1].arrival_ps == INT64_C(285062300) * KC_PS_PER_NS);
  assert_true(trace.span_ps == INT64_C(285062300) * KC_PS_PER_NS);
  assert_flags(&trace, 0, 0);
  assert_flags(&trace, 1, KC_ROW_FAILED);
  kc_trace_free(&trace);
}

/* ---- result files ---- */

static void vllm_result_with_start_times(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, "{\"date\": \"20260102-030405\", \"backend\": \"vllm\",\n"
                       " \"model_id\": \"m/x\", \"request_rate\": \"inf\", \"completed\": 2,\n"
                       " \"input_lens\": [100, 200, 300], \"output_lens\": [3, 2, 0],\n"
                       " \"ttfts\": [0.1, 0.2, 0.0], \"itls\": [[0.05, 0.07], [0.1], []],\n"
                       " \"start_times\": [10.0, 11.5, 10.25],\n"
                       " \"generated_texts\": [\"a [b\", \"{\\\"\", \"\"],\n"
                       " \"errors\": [\"\", \"\", \"timed out\"]}\n");
  assert_string_equal(trace.format, "bench-result");
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.row[1].input_tokens, 300);
  assert_true(trace.row[1].arrival_ps == 250 * MS);
  assert_true(trace.row[2].arrival_ps == 1500 * MS);
  assert_flags(&trace, 0, 0);
  assert_flags(&trace, 1, KC_ROW_FAILED);
  assert_string_equal(kind_of(&trace, 0), "m/x");
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 0);
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], 1);
  kc_trace_free(&trace);
}

static void sglang_result_has_no_start_times(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, "{\"tag\": null, \"backend\": \"sglang\", \"dataset_name\": \"random\", "
                       "\"request_rate\": 4.0, \"duration\": 60.1, \"output_lens\": [21, 22], "
                       "\"input_lens\": [11, 12], \"ttfts\": [0.1, 0.2], \"itls\": [[0.03], []], "
                       "\"generated_texts\": [\"\", \"\"], \"errors\": [\"\", \"\"]}\n");
  assert_string_equal(trace.format, "bench-result");
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.row[1].output_tokens, 22);
  assert_true(trace.span_ps == 0);
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  kc_trace_free(&trace);
}

static void result_messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {"{\"input_lens\": [1, 2], \"output_lens\": [1]}",
       "t.json:1:39: output_lens ends after 1 entries and input_lens goes on; expected one entry a "
       "request in each"},
      {"{\"input_lens\": [1], \"output_lens\": [1, 2]}",
       "t.json:1:36: input_lens ends after 1 entries and output_lens goes on; expected one entry a "
       "request in each"},
      {"{\"input_lens\": [1],\n \"output_lens\": 4}",
       "t.json:2:17: output_lens is \"4\": expected a list, one entry a request"},
      {"{\"input_lens\": [1],\n \"output_lens\": [\"4\"]}",
       "t.json:2:19: output_lens is \"4\": expected a whole number from 0 to 4294967295"},
      {"{\"input_lens\": [1], \"output_lens\": [1], \"start_times\": [-1]}",
       "t.json:1:57: start_times is \"-1\": it is negative; expected a number of s, 0 or more"},
  };
  check_messages("bench-result", table, sizeof table / sizeof table[0]);
}

/* ---- AIPerf ---- */

#define SENT(ns, more) "{\"metadata\": {\"session_num\": 0, \"request_start_ns\": " ns more "}, "
#define TOKENS(name, n) "\"" name "\": {\"value\": " n ", \"unit\": \"tokens\"}"
#define LENGTHS(in, out)                                                                      \
  "\"metrics\": {" TOKENS("input_sequence_length", in) ", \"time_to_first_token\": "          \
  "{\"value\": 4.9, \"unit\": \"ms\"}, " TOKENS("output_sequence_length", out) "}, "

/* Nanoseconds of 19 digits are beyond a double's; a line is written when its request ends. */
static void aiperf_records(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace,
               SENT("1759813207532900363", "") LENGTHS("550", "9") "\"error\": null}\n"
               SENT("1759813207532900362", ", \"was_cancelled\": false") LENGTHS("20", "90")
               "\"error\": null, \"trace_data\": {}}\n"
               SENT("1759813207532900365", ", \"was_cancelled\": true") "\"metrics\": {"
               TOKENS("error_isl", "551") "}, \"error\": {\"code\": 499}}\n"
               SENT("1759813207532900366", "") "\"metrics\": null, "
               "\"error\": {\"code\": 500}}\n");
  static const uint32_t inputs[] = {20, 550, 551, 1}, outputs[] = {90, 9, 1, 1};
  static const unsigned flags[] = {0, 0, KC_ROW_CANCELLED, KC_ROW_FAILED};
  assert_string_equal(trace.format, "aiperf");
  assert_int_equal(trace.count, 4);
  for (uint64_t i = 0; i < 4; i++) {
    assert_int_equal(trace.row[i].input_tokens, inputs[i]);
    assert_int_equal(trace.row[i].output_tokens, outputs[i]);
    assert_flags(&trace, i, flags[i]);
  }
  assert_true(trace.row[1].arrival_ps == KC_PS_PER_NS && trace.span_ps == 4 * KC_PS_PER_NS);
  assert_int_equal(trace.note[KC_NOTE_NULL_CELLS], 0); /* null says that there was no error */
  assert_string_equal(trace.ignored_columns, "trace_data");
  kc_trace_free(&trace);
}

static void aiperf_messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {"{\"metadata\": null, \"metrics\": {}}",
       "t.json:1: metadata is null: expected an object with request_start_ns"},
      {"{\"metadata\": {\"session_num\": 0}, \"metrics\": {}}",
       "t.json:1:14: metadata without request_start_ns"},
      {SENT("1.5e9", "") "\"metrics\": [1]}",
       "t.json:1:72: metrics is \"[1]\": expected an object of figures"},
      {SENT("5", "") "\"metrics\": {" TOKENS("output_sequence_length", "5") "}}",
       "t.json:1:68: a request that did not fail, without input_sequence_length"},
      {SENT("5", "") "\"metrics\": {" TOKENS("input_sequence_length", "5") "}}",
       "t.json:1:68: a request that did not fail, without output_sequence_length"},
      {SENT("5", "") LENGTHS("13.7", "5") "\"error\": null}",
       "t.json:1:104: input_sequence_length is \"13.7\": expected a whole number from 0 to "
       "4294967295"},
      {SENT("-5", "") LENGTHS("13", "5") "\"error\": null}",
       "t.json:1:53: request_start_ns is \"-5\": it is negative; expected a number of ns, 0 or "
       "more"},
      {SENT("5", "") "\"metrics\": {\"input_sequence_length\": {\"unit\": \"tokens\"}}}",
       "t.json:1:94: input_sequence_length is \"{\"unit\": \"tokens\"}\": expected a value with "
       "its unit"},
  };
  check_messages("aiperf", table, sizeof table / sizeof table[0]);
}

/* A null where every object needs a value is refused at its line, whatever the reader. */
static void nulls_in_required_keys(void **state)
{
  (void)state;
  static const struct reader_message logs[] = {
      {"{\"request_id\": \"b\", \"input_toks\": 1, \"output_toks\": null, \"arrival_time\": 5}",
       "t.json:1: output_toks is null: expected a whole number from 0 to 4294967295"},
      {"{\"request_id\": \"b\", \"input_toks\": null, \"output_toks\": 1, \"arrival_time\": 5}",
       "t.json:1: input_toks is null: expected a whole number from 0 to 4294967295"},
      {"{\"request_id\": \"b\", \"input_toks\": 1, \"output_toks\": 1, \"arrival_time\": null}",
       "t.json:1: arrival_time is null: expected a number"},
  };
  static const struct reader_message flat[] = {
      {"{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": 1}\n"
       "{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": null}",
       "t.json:2: arrival_time_ns is null: expected a number"},
  };
  static const struct reader_message rounds[] = {
      {"{\"session_id\": null, \"round_index\": 0, \"input_tokens_total\": 1, "
       "\"output_tokens\": 1, \"timing_events\": []}",
       "t.json:1: session_id is null: expected the name or number of a session"},
      {"{\"session_id\": 1, \"round_index\": null, \"input_tokens_total\": 1, "
       "\"output_tokens\": 1, \"timing_events\": []}",
       "t.json:1: round_index is null: expected a whole number from 0 to 4294967295"},
  };
  check_messages("benchlog", logs, sizeof logs / sizeof logs[0]);
  check_messages("llmservingsim", flat, sizeof flat / sizeof flat[0]);
  check_messages("tracelab-rounds", rounds, sizeof rounds / sizeof rounds[0]);
}

/* Runs with and without times cannot be one trace: half of it would arrive at 0. */
static void runs_agree_about_times(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {"{\"input_lens\": [1], \"output_lens\": [1], \"start_times\": [1.5]}\n"
       "{\"input_lens\": [1], \"output_lens\": [1]}",
       "t.json:2: this run has no arrival times, unlike what stands before it"},
      {"{\"input_lens\": [1], \"output_lens\": [1]}\n\n"
       "{\"input_lens\": [1], \"output_lens\": [1], \"start_times\": [1.5]}",
       "t.json:3: this run has arrival times, unlike what stands before it"},
  };
  check_messages("bench-result", table, sizeof table / sizeof table[0]);
}

/* A unit that the user states holds for all times of a format whose times are numbers, and is an
 * error where they are dates. */
static void stated_units_hold(void **state)
{
  (void)state;
  static const char flat[] = "{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": 1}\n"
                             "{\"input_toks\": 1, \"output_toks\": 1, \"arrival_time_ns\": 3}\n";
  static const char dated[] =
      "{\"session_id\": 1, \"round_index\": 0, \"input_tokens_total\": 1, \"output_tokens\": 1, "
      "\"timing_events\": [{\"event_type\": \"text\", \"timestamp\": \"2026-06-01T05:40:20Z\"}]}";
  struct kc_trace_options options;
  struct kc_trace trace;
  kc_trace_options_default(&options);
  options.time_unit = KC_UNIT_MS;
  assert_int_equal(kc_trace_parse(&trace, "t", flat, sizeof flat - 1, &options, NULL), KC_OK);
  assert_true(trace.span_ps == 2 * MS);
  kc_trace_free(&trace);
  assert_int_equal(kc_trace_parse(&trace, "t", dated, sizeof dated - 1, &options, NULL),
                   KC_ERR_USAGE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flat_lines_are_nanoseconds),
      cmocka_unit_test(token_ids_become_prefix_ids),
      cmocka_unit_test(pitfall_35_sub_requests_carry_whole_prompts),
      cmocka_unit_test(dropped_sub_requests_are_bridged),
      cmocka_unit_test(pitfall_36_sessions_twice_or_empty_are_refused),
      cmocka_unit_test(pitfall_22_two_clocks_in_one_record),
      cmocka_unit_test(vllm_result_with_start_times),
      cmocka_unit_test(sglang_result_has_no_start_times),
      cmocka_unit_test(result_messages),
      cmocka_unit_test(aiperf_records),
      cmocka_unit_test(aiperf_messages),
      cmocka_unit_test(nulls_in_required_keys),
      cmocka_unit_test(runs_agree_about_times),
      cmocka_unit_test(stated_units_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
