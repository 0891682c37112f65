/* TraceLab: session tables for replay (closed loop, only the new tokens of each round), and rounds
 * as they were logged. Fixtures are made by hand after the corpus' own description
 * (uw-syfi/TraceLab, replay/README.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader_text.h"

#define HEADER                                                                     \
  "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
#define OTHER_ORDER \
  "id,input_len,output_len,arrival_time,round_idx,tool_wait_after_ms,prefix_len\n"
#define NO_ARRIVALS "session_id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
#define NONE KC_TRACE_NONE
#define MS KC_PS_PER_MS

/* What both column orders say; rows of one instant keep the order of the file. */
static void check_two_sessions(struct kc_trace *trace)
{
  assert_string_equal(trace->format, "tracelab");
  assert_int_equal(trace->count, 5);
  assert_int_equal(trace->session_count, 2);
  static const uint32_t inputs[] = {512, 704, 150, 600, 784};
  for (uint64_t i = 0; i < 5; i++) assert_int_equal(trace->row[i].input_tokens, inputs[i]);
  assert_true(trace->row[3].arrival_ps == 500 * MS);
  assert_link(trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(trace, 1, (struct reader_link){0, 0, 100 * MS});
  assert_link(trace, 2, (struct reader_link){0, 1, 100 * MS + MS / 2});
  assert_link(trace, 3, (struct reader_link){1, NONE, 0});
  assert_link(trace, 4, (struct reader_link){1, 3, 50 * MS});
  assert_flags(trace, 1, 0);
  assert_flags(trace, 2, KC_ROW_COMPACTED);
  assert_false(trace->prefix_ids);
}

/* input_len holds the new tokens only: a reader that takes it for the prompt loses most of the
 * load. The wait after round k is the wait before round k + 1. */
static void pitfall_35_prompt_is_prefix_plus_input(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER "a,1000,0,0,512,64,100\nb,1500,0,0,600,64,50\n"
                              "a,1000,1,576,128,64,100.5\nb,1500,1,664,120,48,0\n"
                              "a,1000,2,100,50,64,7\n");
  check_two_sessions(&trace);
  assert_true(trace.adds_past);
  kc_trace_free(&trace);
}

static void pitfall_10_columns_in_another_order(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, OTHER_ORDER "a,512,64,1000,0,100,0\nb,600,64,1500,0,50,0\n"
                                   "a,128,64,1000,1,100.5,576\nb,120,48,1500,1,0,664\n"
                                   "a,50,64,1000,2,7,100\n");
  check_two_sessions(&trace);
  kc_trace_free(&trace);
}

/* Without arrival times every session starts at 0, which is said. */
static void form_without_arrivals(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, NO_ARRIVALS "0,0,12460,5870,124,182\n0,1,18330,13571,15951,28\n");
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.row[0].input_tokens, 12460 + 5870);
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  assert_true(trace.row[1].arrival_ps == 0);
  assert_link(&trace, 1, (struct reader_link){0, 0, 182 * MS});
  kc_trace_free(&trace);
}

/* A session that starts in the middle (a slice) starts with the round it has. */
static void session_may_start_late(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER "a,5,3,576,128,64,1\na,5,7,700,9,1,0\n");
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, 0, MS});
  kc_trace_free(&trace);
}

static void table_messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {HEADER "a,1000,0,0,512,64,100\na,1000,0,0,512,64,100\n",
       "t.json:3:8: round_idx is \"0\": the session's round before is 0; expected rising rounds "
       "(is the session id used twice, or are rows out of order?)"},
      {HEADER "a,1000,2,0,512,64,100\na,1000,1,0,512,64,100\n",
       "t.json:3:8: round_idx is \"1\": the session's round before is 2; expected rising rounds "
       "(is the session id used twice, or are rows out of order?)"},
      {HEADER "a,x,0,0,512,64,100\n",
       "t.json:2:3: arrival_time is \"x\": it is not a time; expected a number of ms, 0 or "
       "more"},
      {HEADER "a,-3,0,0,512,64,100\n",
       "t.json:2:3: arrival_time is \"-3\": it is negative; expected a number of ms, 0 or "
       "more"},
      {HEADER "a,3,0,0,512,64,\n",
       "t.json:2:16: tool_wait_after_ms is \"\": it is not a time; expected a number of ms, "
       "0 or more"},
      {HEADER "a,3,0,0,512,64,9223372036855\n",
       "t.json:2:16: longer than 106 days, which is as long as a run can be"},
      {HEADER "a,3,0,4294967295,1,64,0\n",
       "t.json:2:7: prefix_len is \"4294967295\": together with input_len more than 4294967295 "
       "tokens"},
      {HEADER "a,3,x,0,512,64,0\n",
       "t.json:2:5: round_idx is \"x\": expected a whole number from 0 to 4294967295"},
      {HEADER "a,3,0,x,512,64,0\n",
       "t.json:2:7: prefix_len is \"x\": expected a whole number from 0 to 4294967295"},
      {HEADER ",3,0,0,512,64,0\n",
       "t.json:2:1: session_id is \"\": expected the name or number of a session"},
  };
  check_messages(NULL, table, sizeof table / sizeof table[0]);
}

/* ---- rounds ---- */

#define ROUND(session, index, total, prefix, output, events, tools)                              \
  "{\"provider\":\"claude\",\"session_id\":\"" session "\",\"round_index\":" index                 \
  ",\"model\":\"m\",\"input_tokens_total\":" total ",\"prefix_tokens\":" prefix                    \
  ",\"newly_append_tokens\":1,\"output_tokens\":" output ",\"reasoning_output_tokens\":null,"      \
  "\"timing_events\":[" events "],\"tools\":[" tools "]}\n"
#define EVENT(type, second) \
  "{\"event_type\":\"" type "\",\"timestamp\":\"2026-06-01T05:40:" second "Z\",\"x\":1}"
#define TOOL(latency) "{\"tool_index\":0,\"tool_wall_latency_ms\":" latency ",\"is_error\":false}"

/* No field says when a request was sent: it is the last thing that the round had to wait for (a
 * user's message or a tool's result) before its first output. */
static void rounds_arrive_with_their_last_input(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(
      &trace,
      ROUND("s", "0", "32270", "27210", "930",
            EVENT("user_message", "20.150") "," EVENT("reasoning", "29.420") ","
            EVENT("tool_call", "31.647"), TOOL("860") "," TOOL("19290"))
      ROUND("s", "1", "35741", "29381", "1015",
            EVENT("tool_result", "31.696") "," EVENT("tool_result", "50.938") ","
            EVENT("text", "53.000") "," EVENT("usage_report", "53.500"), "")
      ROUND("s", "2", "5740", "29381", "16",
            EVENT("user_message", "55.000") "," EVENT("text", "56.000"), TOOL("null")));
  assert_string_equal(trace.format, "tracelab-rounds");
  assert_false(trace.adds_past); /* input_tokens_total is the whole prompt */
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.row[0].input_tokens, 32270);
  assert_int_equal(trace.row[1].output_tokens, 1015);
  assert_true(trace.row[1].arrival_ps == 30788 * MS); /* 50.938 - 20.150 */
  assert_true(trace.row[2].arrival_ps == 34850 * MS);
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, 0, 19290 * MS}); /* tools run side by side */
  assert_link(&trace, 2, (struct reader_link){0, 1, 1500 * MS});  /* a person's pause */
  assert_flags(&trace, 1, 0);
  assert_flags(&trace, 2, KC_ROW_COMPACTED);
  assert_string_equal(kind_of(&trace, 0), "m");
  kc_trace_free(&trace);
}

static void rounds_of_two_sessions_may_mix(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, ROUND("s", "0", "10", "0", "1", EVENT("user_message", "30.0"), TOOL("5"))
                       ROUND("u", "0", "20", "0", "1", EVENT("user_message", "10.0"), TOOL("6"))
                       ROUND("s", "1", "30", "0", "1", EVENT("tool_result", "40.0"), "")
                       ROUND("u", "1", "40", "0", "1", EVENT("tool_result", "20.0"), ""));
  assert_int_equal(trace.row[0].input_tokens, 20);
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, 0, 6 * MS});
  assert_link(&trace, 2, (struct reader_link){1, NONE, 0});
  assert_link(&trace, 3, (struct reader_link){1, 2, 5 * MS});
  kc_trace_free(&trace);
}

static void round_messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {ROUND("s", "1", "10", "0", "1", EVENT("text", "30.0"), "")
       ROUND("s", "1", "10", "0", "1", EVENT("text", "30.0"), ""),
       "t.json:2:53: round_index is \"1\": the session's round before is 1; expected rising rounds "
       "(is the session id used twice, or are rows out of order?)"},
      {ROUND("s", "0", "10", "0", "1", "", ""),
       "t.json:1:198: timing_events is \"[]\": a round without events; nothing says when it was "
       "sent"},
      {ROUND("s", "0", "10", "0", "1", "{\"event_type\":\"text\"}", ""),
       "t.json:1:199: timing_events is \"{\"event_type\":\"text\"}\": expected objects with "
       "event_type and timestamp"},
      {ROUND("s", "0", "10", "0", "1", "{\"event_type\":\"text\",\"timestamp\":7}", ""),
       "t.json:1:232: timestamp is \"7\": expected a date, a time and a zone like "
       "2026-06-01T05:40:20.151Z"},
      {ROUND("s", "0", "10", "0", "1",
             "{\"event_type\":\"text\",\"timestamp\":\"2026-06-01T05:40:20\"}", ""),
       "t.json:1:233: timestamp is \"2026-06-01T05:40:20\": expected a date, a time and a zone "
       "like 2026-06-01T05:40:20.151Z"},
      {ROUND("s", "0", "10", "0", "1", EVENT("text", "30.0"), TOOL("-2")),
       "t.json:1:313: tool_wall_latency_ms is \"-2\": it is negative; expected a number of ms, "
       "0 or more"},
  };
  check_messages("tracelab-rounds", table, sizeof table / sizeof table[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pitfall_35_prompt_is_prefix_plus_input),
      cmocka_unit_test(pitfall_10_columns_in_another_order),
      cmocka_unit_test(form_without_arrivals),
      cmocka_unit_test(session_may_start_late),
      cmocka_unit_test(table_messages),
      cmocka_unit_test(rounds_arrive_with_their_last_input),
      cmocka_unit_test(rounds_of_two_sessions_may_mix),
      cmocka_unit_test(round_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
