/* BurstGPT tables (HPMLL/BurstGPT): both headers, empty sessions, failures, the whole-second
 * clock. Rows are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader_text.h"

#define HEADER_A "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
#define HEADER_B                                                                                \
  "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
#define NONE KC_TRACE_NONE

static void header_a_has_no_sessions(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_A "5,ChatGPT,471,18,490,Conversation log\n"
                                "45,ChatGPT,1086,230,1317,Conversation log\n"
                                "118,GPT-4,416,275,693,API log\n");
  assert_string_equal(trace.format, "burstgpt");
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.row[0].input_tokens, 471);
  assert_int_equal(trace.row[0].output_tokens, 18);
  assert_true(trace.row[1].arrival_ps == 40 * KC_PS_PER_S);
  assert_true(trace.row[2].arrival_ps == 113 * KC_PS_PER_S);
  assert_int_equal(trace.note[KC_NOTE_SHIFTED], 1);
  assert_link(&trace, 0, (struct reader_link){NONE, NONE, 0});
  assert_int_equal(trace.session_count, 0);
  assert_string_equal(kind_of(&trace, 0), "ChatGPT / Conversation log");
  assert_string_equal(kind_of(&trace, 2), "GPT-4 / API log");
  assert_int_equal(trace.kind_count, 2);
  kc_trace_free(&trace);
}

/* Two columns inserted before the model; a reader that goes by position takes the elapsed time for
 * the prompt. */
static void pitfall_10_header_b_is_mapped_by_name(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_B "5,7,2.5,ChatGPT,471,18,490,Conversation log\n"
                                "6,3,1.5,GPT-4,11,2,13,Conversation log\n"
                                "7,7,9,ChatGPT,1086,230,1317,Conversation log\n");
  assert_string_equal(trace.format, "burstgpt");
  assert_int_equal(trace.row[0].input_tokens, 471);
  assert_int_equal(trace.row[2].output_tokens, 230);
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){1, NONE, 0});
  assert_link(&trace, 2, (struct reader_link){0, NONE, 0});
  assert_int_equal(trace.session_count, 2);
  kc_trace_free(&trace);
}

/* API rows have no session: they are not all one session, nor session 0. */
static void pitfall_36_empty_session_is_no_session(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_B "5,,0.5,GPT-4,471,18,490,API log\n"
                                "6,0,1.5,GPT-4,11,2,13,Conversation log\n"
                                "7,,9,GPT-4,1086,230,1317,API log\n");
  assert_link(&trace, 0, (struct reader_link){NONE, NONE, 0});
  assert_link(&trace, 1, (struct reader_link){0, NONE, 0});
  assert_link(&trace, 2, (struct reader_link){NONE, NONE, 0});
  assert_int_equal(trace.session_count, 1);
  kc_trace_free(&trace);
}

/* A failure has 0 response tokens. It is an error until a policy says what to do; what is floored
 * is flagged, and what is dropped is counted. */
static void pitfall_23_failures_have_zero_response(void **state)
{
  (void)state;
  static const char text[] = HEADER_A "5,ChatGPT,471,0,471,Conversation log\n"
                                      "9,GPT-4,10,20,30,API log\n";
  static const struct reader_message refused[] = {
      {text, "t.json:2:15: Response tokens is \"0\": a request that produced nothing; set "
             "zero_output to drop such rows or to floor them to 1 token"},
  };
  struct kc_trace_options options;
  struct kc_trace trace;
  check_messages(NULL, refused, 1);
  reader_parse(&trace, text);
  assert_int_equal(trace.row[0].output_tokens, 1);
  assert_flags(&trace, 0, KC_ROW_FAILED);
  assert_flags(&trace, 1, 0);
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_FLOORED], 1);
  kc_trace_free(&trace);
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  assert_int_equal(
      kc_trace_parse(&trace, "t.json", text, sizeof text - 1, &options, NULL), KC_OK);
  assert_int_equal(trace.count, 1);
  assert_int_equal(trace.row[0].input_tokens, 10);
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_DROPPED], 1);
  kc_trace_free(&trace);
}

/* Whole seconds: many rows share an instant. They keep the order of the file. */
static void whole_second_clock_ties(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_A "7,GPT-4,1,1,2,API log\n7,GPT-4,2,1,3,API log\n"
                                "6,GPT-4,3,1,4,API log\n7.0,GPT-4,4,1,5,API log\n");
  assert_int_equal(trace.note[KC_NOTE_TIES], 2);
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], 1);
  for (uint32_t i = 0; i < 4; i++) {
    static const uint32_t inputs[] = {3, 1, 2, 4};
    assert_int_equal(trace.row[i].input_tokens, inputs[i]);
  }
  kc_trace_free(&trace);
}

/* The total is redundant: a wrong one changes nothing. */
static void pitfall_27_total_is_not_trusted(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_A "7,GPT-4,3,4,999,API log\n8,GPT-4,5,6,,API log\n");
  assert_int_equal(trace.input_tokens, 8);
  assert_int_equal(trace.output_tokens, 10);
  kc_trace_free(&trace);
}

static void pitfall_41_reuse_is_unknown(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_A "7,GPT-4,3,4,7,API log\n");
  assert_false(trace.prefix_ids);
  assert_int_equal(trace.tail, KC_TAIL_NONE);
  assert_int_equal(trace.block_total, 0);
  kc_trace_free(&trace);
}

/* Sorting moves sessions, kinds and flags with their rows. */
static void columns_move_with_their_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  reader_parse(&trace, HEADER_B "9,a,1,ChatGPT,1,1,2,Conversation log\n"
                                "3,b,1,GPT-4,2,0,2,Conversation log\n"
                                "6,,1,GPT-4,3,3,6,API log\n");
  assert_link(&trace, 0, (struct reader_link){0, NONE, 0}); /* numbered by time, not by line */
  assert_link(&trace, 1, (struct reader_link){NONE, NONE, 0});
  assert_link(&trace, 2, (struct reader_link){1, NONE, 0});
  assert_flags(&trace, 0, KC_ROW_FAILED);
  assert_flags(&trace, 2, 0);
  assert_string_equal(kind_of(&trace, 0), "GPT-4 / Conversation log");
  assert_string_equal(kind_of(&trace, 2), "ChatGPT / Conversation log");
  kc_trace_free(&trace);
}

static void messages(void **state)
{
  (void)state;
  static const struct reader_message table[] = {
      {HEADER_A "x,ChatGPT,471,18,490,API log\n",
       "t.json:2:1: Timestamp is \"x\": it is not a time; expected a number of s, 0 or more"},
      {HEADER_A "-1,ChatGPT,471,18,490,API log\n",
       "t.json:2:1: Timestamp is \"-1\": it is negative; expected a number of s, 0 or more"},
      {HEADER_A "9444444444444444444,ChatGPT,471,18,490,API log\n",
       "t.json:2:1: Timestamp is \"9444444444444444444\": it is beyond 10^18 seconds; expected a "
       "number of s, 0 or more"},
      {HEADER_A "5,ChatGPT,,18,490,API log\n",
       "t.json:2:11: Request tokens is \"\": expected a whole number from 0 to 4294967295"},
      {HEADER_A "5,ChatGPT,471,18.5,490,API log\n",
       "t.json:2:15: Response tokens is \"18.5\": expected a whole number from 0 to 4294967295"},
      {HEADER_A "5,ChatGPT,471,nan,490,API log\n",
       "t.json:2:15: Response tokens is \"nan\": expected a whole number from 0 to 4294967295"},
      {HEADER_A "5,ChatGPT,471,18,490\n",
       "t.json:2: 5 cells, but the header has 6 columns"},
      {HEADER_B "5,ChatGPT,471,18,490,API log\n",
       "t.json:2: 6 cells, but the header has 8 columns"},
  };
  check_messages(NULL, table, sizeof table / sizeof table[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(header_a_has_no_sessions),
      cmocka_unit_test(pitfall_10_header_b_is_mapped_by_name),
      cmocka_unit_test(pitfall_36_empty_session_is_no_session),
      cmocka_unit_test(pitfall_23_failures_have_zero_response),
      cmocka_unit_test(whole_second_clock_ties),
      cmocka_unit_test(pitfall_27_total_is_not_trusted),
      cmocka_unit_test(pitfall_41_reuse_is_unknown),
      cmocka_unit_test(columns_move_with_their_rows),
      cmocka_unit_test(messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
