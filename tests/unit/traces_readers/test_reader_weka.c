/* Coding-agent sessions (callanjfox/kv-cache-tester): nested sub-agents, local prefix ids that
 * leave out the partial last block, missing fields, closed loop. Expected values are computed by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reader_text.h"

#define NONE KC_TRACE_NONE
#define S KC_PS_PER_S

#define SESSION(scope, requests)                                                            \
  "{\"id\":\"a\",\"models\":[\"m1\"],\"block_size\":64,\"hash_id_scope\":\"" scope "\","     \
  "\"tool_tokens\":1,\"system_tokens\":2,\"requests\":[" requests "],\"totals\":{\"n\":{}}}\n"
#define ROW(t, type, in, out, ids, rest)                                                    \
  "{\"t\":" t ",\"type\":\"" type "\",\"model\":\"m1\",\"in\":" in ",\"out\":" out             \
  ",\"hash_ids\":[" ids "],\"input_types\":[\"text\"]" rest "}"
#define AGENT(t, duration, requests)                                                        \
  "{\"t\":" t ",\"type\":\"subagent\",\"agent_id\":\"x\",\"duration_ms\":" duration              \
  ",\"status\":\"completed\",\"requests\":[" requests "],\"models\":[\"m1\"]}"
#define TIMES(api, think) ",\"api_time\":" api ",\"think_time\":" think

/* t      0   2.5 3        6     8     10    12       20
 * parent |api|                               |        |
 * agent          |api 1   |api 2|     ^ marker: the agent ended, 7 s after its start */
#define AGENT_ROWS_FROM(first, second)                     \
  ROW(first, "n", "130", "5", "1,4", TIMES("1.0", "0.0"))  \
  "," ROW(second, "n", "70", "5", "1", TIMES("2.0", "2.0"))
#define NESTED(first, second)                                                    \
  SESSION("local", ROW("0.0", "n", "200", "10", "1,2,3", TIMES("2.5", "0.0")) "," \
          AGENT("10.0", "7000", AGENT_ROWS_FROM(first, second)) ","              \
          ROW("12.0", "n", "300", "1", "1,2,3,5", ",\"stop\":\"\",\"think_time\":9.5") "," \
          ROW("20.0", "s", "100", "0", "1", ",\"stop\":\"\""))

static void check_nested(const char *text)
{
  struct kc_trace trace;
  reader_parse(&trace, text);
  assert_string_equal(trace.format, "weka");
  assert_int_equal(trace.count, 5);
  assert_int_equal(trace.session_count, 1);
  static const kc_ps arrivals[] = {0, 3 * S, 6 * S, 12 * S, 20 * S};
  for (uint64_t i = 0; i < 5; i++) assert_true(trace.row[i].arrival_ps == arrivals[i]);
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, 0, S / 2}); /* 3 - 2.5 */
  assert_link(&trace, 2, (struct reader_link){0, 1, 2 * S});
  assert_link(&trace, 3, (struct reader_link){0, 2, 4 * S}); /* waits for the agent: 12 - 8 */
  assert_link(&trace, 4, (struct reader_link){0, 3, 8 * S}); /* no api_time, no think_time */
  assert_flags(&trace, 0, 0);
  assert_flags(&trace, 1, KC_ROW_SUBAGENT);
  assert_flags(&trace, 2, KC_ROW_SUBAGENT | KC_ROW_COMPACTED);
  assert_flags(&trace, 3, 0);
  assert_flags(&trace, 4, KC_ROW_COMPACTED | KC_ROW_FAILED);
  kc_trace_free(&trace);
}

/* Times of the agent's rows count from its start in the public corpus, from the session's start in
 * copies of it. */
static void pitfall_38_agent_times_are_relative(void **state)
{
  (void)state;
  check_nested(NESTED("0.0", "3.0"));
}

static void pitfall_38_agent_times_are_absolute(void **state)
{
  (void)state;
  check_nested(NESTED("3.0", "6.0"));
}

/* The input decides, not the row: one agent of the second session starts 2 s late, and is still
 * relative because more agents start at 0. */
static void pitfall_38_is_decided_for_the_whole_input(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, NESTED("0.0", "3.0") NESTED("0.0", "3.0") NESTED("2.0", "3.0"));
  assert_int_equal(trace.count, 15);
  uint32_t late = 0;
  for (uint64_t i = 0; i < trace.count; i++) {
    if (trace.column.session[i] != 2 || trace.column.flags[i] != KC_ROW_SUBAGENT) continue;
    assert_true(trace.row[i].arrival_ps == 5 * S); /* 10 - 7 + 2 */
    late++;
  }
  assert_int_equal(late, 1);
  kc_trace_free(&trace);
}

/* Two agents at once: the parent goes on after the one that ends last. */
static void parent_joins_the_last_of_parallel_agents(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace,
               SESSION("local",
                       ROW("0.0", "n", "64", "1", "1", TIMES("1.0", "0.0")) ","
                       AGENT("21.0", "20000", ROW("0.0", "n", "65", "1", "2", TIMES("19.0", "0.0")))
                       "," AGENT("9.0", "8000", ROW("0.0", "n", "66", "1", "3", TIMES("5", "0")))
                       "," ROW("22.0", "n", "128", "1", "1,4", TIMES("1.0", "21.0"))));
  assert_int_equal(trace.row[1].input_tokens, 65);
  assert_link(&trace, 1, (struct reader_link){0, 0, 0});
  assert_link(&trace, 2, (struct reader_link){0, 0, 0});
  assert_link(&trace, 3, (struct reader_link){0, 1, 2 * S}); /* 1 + 19 = 20, then 22 */
  kc_trace_free(&trace);
}

/* An agent that outlives the parent's next request runs in the background: nothing waits for it. */
static void background_agent_is_not_joined(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace,
               SESSION("local",
                       ROW("0.0", "n", "64", "1", "1", TIMES("1.0", "0.0")) ","
                       AGENT("21.0", "20000", ROW("0.0", "n", "65", "1", "2", TIMES("19.0", "0.0")))
                       "," ROW("3.0", "n", "128", "1", "1,4", TIMES("1.0", "2.0"))));
  assert_link(&trace, 2, (struct reader_link){0, 0, 2 * S});
  kc_trace_free(&trace);
}

/* The last id covers a whole block; tokens beyond it are no block. */
static void floor_rule_and_shared_namespace(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, NESTED("0.0", "3.0"));
  assert_true(trace.prefix_ids);
  assert_int_equal(trace.block_tokens, 64);
  assert_int_equal(trace.tail, KC_TAIL_FLOOR);
  assert_int_equal(trace.block_distinct, 5);
  assert_int_equal(trace.block_total, 11);
  assert_blocks(&trace, 0, (const uint32_t[]){0, 1, 2}, 3);
  assert_blocks(&trace, 1, (const uint32_t[]){0, 3}, 2); /* the agent shares the parent's ids */
  assert_blocks(&trace, 3, (const uint32_t[]){0, 1, 2, 4}, 4);
  assert_int_equal(reusable_blocks(&trace), 6); /* 0 + 1 + 1 + 3 + 1 */
  kc_trace_free(&trace);
}

/* Ids are local: id 1 of two sessions is not the same content. */
static void pitfall_33_ids_are_local_to_their_session(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, SESSION("local", ROW("0", "n", "64", "1", "1", ""))
                       SESSION("local", ROW("1", "n", "64", "1", "1", "")));
  assert_int_equal(trace.session_count, 2);
  assert_int_equal(trace.block_distinct, 2);
  assert_int_equal(trace.tail, KC_TAIL_FLOOR); /* no row tells, so it is the format's */
  assert_int_equal(reusable_blocks(&trace), 0);
  kc_trace_free(&trace);
}

/* api_time, think_time and stop may be absent or null, stop may be "". What is missing of the pause
 * is derived from the start times. */
static void pitfall_40_missing_fields(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, SESSION("local", ROW("0", "n", "64", "1", "1", ",\"api_time\":3") ","
                                        ROW("10", "s", "64", "1", "1", ",\"stop\":null") ","
                                        ROW("11.5", "s", "64", "1", "1", TIMES("null", "null")) ","
                                        ROW("12", "n", "64", "1", "1", TIMES("1.5", "0.25")) ","
                                        ROW("13", "n", "64", "1", "1", "") ","
                                        ROW("20", "s", "64", "1", "1", ",\"think_time\":50")));
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, 0, 7 * S});
  assert_link(&trace, 2, (struct reader_link){0, 1, 3 * S / 2});
  assert_link(&trace, 3, (struct reader_link){0, 2, S / 4});
  assert_link(&trace, 4, (struct reader_link){0, 3, 0}); /* 13 - 13.5: at once */
  assert_link(&trace, 5, (struct reader_link){0, 4, 7 * S}); /* 50 s cannot be its pause */
  kc_trace_free(&trace);
}

/* Start-to-start differences would bake the recorded server's speed into the load; the pause is
 * from end to start. */
static void pitfall_37_pause_is_end_to_start(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, SESSION("local", ROW("0", "n", "64", "1", "1", TIMES("90", "0")) ","
                                        ROW("100", "n", "64", "1", "1", TIMES("1", "10"))));
  assert_link(&trace, 1, (struct reader_link){0, 0, 10 * S});
  assert_true(trace.row[1].arrival_ps == 100 * S); /* open loop still has the recorded time */
  kc_trace_free(&trace);
}

/* The context shrinks: the agent compacted it, or agents were interleaved. */
static void pitfall_39_shrinking_context_is_flagged(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, SESSION("local", ROW("0", "n", "129", "1", "1,2", "") ","
                                        ROW("1", "n", "128", "1", "1,2", "") ","
                                        ROW("2", "n", "128", "1", "1,2", "")));
  assert_flags(&trace, 0, 0);
  assert_flags(&trace, 1, KC_ROW_COMPACTED);
  assert_flags(&trace, 2, 0);
  kc_trace_free(&trace);
}

/* Rows that a policy drops are bridged: the next request follows the row before them, later by all
 * the time that they took. */
static void pitfall_23_dropped_rows_are_bridged(void **state)
{
  (void)state;
  static const char text[] =
      SESSION("local", ROW("0", "n", "64", "1", "1", TIMES("1", "0")) ","
                       ROW("5", "s", "64", "0", "1", TIMES("2", "4")) ","
                       ROW("10", "n", "64", "1", "1", TIMES("1", "3")));
  struct kc_trace_options options;
  struct kc_trace trace;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  assert_int_equal(kc_trace_parse(&trace, "t", text, sizeof text - 1, &options, NULL), KC_OK);
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_DROPPED], 1);
  assert_link(&trace, 1, (struct reader_link){0, 0, 9 * S}); /* 4 + 2 + 3 */
  kc_trace_free(&trace);
}

/* Tokens are the file's: none is a request without a prompt, and what is beyond any model's context
 * stays, for the model to refuse. */
static void pitfalls_24_and_26_lengths_at_both_ends(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, SESSION("local", ROW("0", "n", "0", "3", "", "") ","
                                        ROW("1", "n", "894371", "1", "", "") ","
                                        ROW("2", "n", "2", "1", "", "")));
  assert_int_equal(trace.row[0].input_tokens, 1);
  assert_int_equal(trace.note[KC_NOTE_ZERO_INPUT_FLOORED], 1);
  assert_int_equal(trace.row[1].input_tokens, 894371);
  assert_int_equal(trace.context_tokens_max, 894372);
  assert_int_equal(trace.row[2].input_tokens, 2);
  kc_trace_free(&trace);
}

/* Sessions stand on one line of megabytes, and may be longer than a line of a table may be. */
static void pitfall_05_session_longer_than_a_line(void **state)
{
  (void)state;
  enum { IDS = 2300000, TEXT_BYTES = IDS * 9 };
  static const char head[] =
      "{\"block_size\":64,\"hash_id_scope\":\"local\","
      "\"requests\":[{\"t\":0,\"out\":1,\"hash_ids\":[";
  struct kc_trace trace;
  char *const text = malloc(TEXT_BYTES);
  assert_non_null(text);
  size_t used = (size_t)snprintf(text, TEXT_BYTES, "%s", head);
  for (int i = 0; i < IDS; i++) {
    used += (size_t)snprintf(text + used, 12, "%d,", 1000000 + i);
  }
  used += (size_t)snprintf(text + used - 1, 64, "],\"in\":%d}]}", IDS * 64 + 63) - 1;
  assert_true(used > KC_TRACE_LINE_BYTES_MAX);
  reader_parse(&trace, text);
  assert_int_equal(trace.count, 1);
  assert_int_equal(trace.block_total, IDS);
  assert_int_equal(trace.block_distinct, IDS);
  assert_int_equal(trace.row[0].input_tokens, IDS * 64 + 63);
  kc_trace_free(&trace);
  free(text);
}

#define WEKA_OBJECT                                                                          \
  ", which has objects such as {\"id\": \"trace_0001\", \"block_size\": 64, "                 \
  "\"hash_id_scope\": \"local\", \"requests\": [...]}; this one has the keys "
#define ONE_AGENT(duration, first) \
  SESSION("local", AGENT("10.0", duration, ROW(first, "n", "130", "5", "1,4", "")))
#define DEEP(inner) AGENT("1", "1", inner)
#define HEAD_BYTES "113" /* where the first request starts */

static void messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {SESSION("global", ""),
       "t.json:1:60: hash_id_scope is \"global\": expected \"local\": ids that count within one "
       "session"},
      {"{\"hash_id_scope\":\"local\",\"requests\":[]}",
       "t.json:1: this is not format weka" WEKA_OBJECT "hash_id_scope, requests"},
      {"{\"hash_id_scope\":\"local\",\"block_size\":0,\"requests\":[]}",
       "t.json:1:39: block_size is \"0\": expected 1 token or more"},
      {"{\"hash_id_scope\":\"local\",\"block_size\":64.0,\"requests\":[]}",
       "t.json:1:39: block_size is \"64.0\": expected a whole number from 0 to 4294967295"},
      {"{\"hash_id_scope\":\"local\",\"block_size\":64}",
       "t.json:1: this is not format weka" WEKA_OBJECT "hash_id_scope, block_size"},
      {"{\"hash_id_scope\":\"local\",\"block_size\":64,\"requests\":{}}",
       "t.json:1:1: a session without requests, an array"},
      {SESSION("local", "7"),
       "t.json:1:" HEAD_BYTES ": requests is \"7\": expected objects, one a request"},
      {SESSION("local", "{\"in\":1,\"out\":1}"),
       "t.json:1:" HEAD_BYTES ": a request without t, its start in seconds"},
      {SESSION("local", "{\"t\":0,\"out\":1}"),
       "t.json:1:" HEAD_BYTES ": a request without in, its prompt's tokens"},
      {SESSION("local", "{\"t\":0,\"in\":1}"),
       "t.json:1:" HEAD_BYTES ": a request without out, its output tokens"},
      {SESSION("local", "\n{\"t\":-1,\"in\":1,\"out\":1}"),
       "t.json:2:6: t is \"-1\": it is negative; expected a number of s, 0 or more"},
      {SESSION("local", "\n{\"t\":1e8,\"in\":1,\"out\":1}"),
       "t.json:2:6: longer than 106 days, which is as long as a run can be"},
      {SESSION("local", "\n{\"t\":0,\"in\":-5,\"out\":1}"),
       "t.json:2:13: in is \"-5\": expected a whole number from 0 to 4294967295"},
      {SESSION("local", "\n{\"t\":0,\"in\":5,\"out\":null}"),
       "t.json:2:21: out is \"null\": expected a whole number from 0 to 4294967295"},
      {SESSION("local", "\n{\"t\":0,\"in\":5,\"out\":1,\"hash_ids\":7}"),
       "t.json:2:34: the list of prefix ids is \"7\": expected an array of whole numbers"},
      {SESSION("local", "\n{\"t\":0,\"in\":5,\"in\":6,\"out\":1}"),
       "t.json:2:16: the key is \"in\": is there twice in a request"},
      {SESSION("local", "\n{\"t\":0,\"in\":5,\"out\":0}"),
       "t.json:2:21: a request that produced nothing; set zero_output to drop such rows or to "
       "floor them to 1 token"},
      {SESSION("local", "\n{\"t\":0,\"in\":5,\"out\":1,\"api_time\":NaN}"),
       "t.json:2:34: JSON has no such word (NaN, Infinity, None, True?); expected a number, a "
       "string, true, false or null"},
      {SESSION("local", "\n{\"type\":\"subagent\",\"requests\":[]}"),
       "t.json:2:1: a sub-agent without t, its time in seconds"},
      {SESSION("local", "\n{\"type\":\"subagent\",\"t\":1}"),
       "t.json:2:1: a sub-agent without requests, an array"},
      {SESSION("local", DEEP(DEEP(DEEP(DEEP(DEEP(DEEP(DEEP(DEEP("\n" DEEP("")))))))))),
       "t.json:2:1: sub-agents are nested more than 8 deep"},
      {ONE_AGENT("7000", "0.0") ONE_AGENT("2000", "8.5"),
       "t.json:2:112: the times of sub-agents count from the session's start here, from the "
       "agent's start in an earlier session; expected all sessions alike"},
      {ONE_AGENT("2000", "8.5") ONE_AGENT("7000", "0.0"),
       "t.json:2:112: the times of sub-agents count from the agent's start here, from the "
       "session's start in an earlier session; expected all sessions alike"},
  };
  check_messages("weka", table, sizeof table / sizeof table[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pitfall_38_agent_times_are_relative),
      cmocka_unit_test(pitfall_38_agent_times_are_absolute),
      cmocka_unit_test(pitfall_38_is_decided_for_the_whole_input),
      cmocka_unit_test(parent_joins_the_last_of_parallel_agents),
      cmocka_unit_test(background_agent_is_not_joined),
      cmocka_unit_test(floor_rule_and_shared_namespace),
      cmocka_unit_test(pitfall_33_ids_are_local_to_their_session),
      cmocka_unit_test(pitfall_40_missing_fields),
      cmocka_unit_test(pitfall_37_pause_is_end_to_start),
      cmocka_unit_test(pitfall_39_shrinking_context_is_flagged),
      cmocka_unit_test(pitfall_23_dropped_rows_are_bridged),
      cmocka_unit_test(pitfalls_24_and_26_lengths_at_both_ends),
      cmocka_unit_test(pitfall_05_session_longer_than_a_line),
      cmocka_unit_test(messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
