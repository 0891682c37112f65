/* The Mooncake family: each test is named for the pitfall that it holds off. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_text.h"

#define ROW(t, in, out, ids)                                                                    \
  "{\"timestamp\": " t ", \"input_length\": " in ", \"output_length\": " out ", \"hash_ids\": " \
  "[" ids "]}\n"

static void expect_error(const char *text, const struct kc_trace_options *options,
                         enum kc_err code, const char *message)
{
  struct kc_trace_options defaults;
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024];
  kc_trace_options_default(&defaults);
  if (options == NULL) options = &defaults;
  const enum kc_err err = kc_trace_parse(&trace, "t.jsonl", text, strlen(text), options, &diag);
  kc_diag_print(&diag, line, sizeof line);
  if (err != KC_OK) assert_string_equal(line, message);
  assert_int_equal(err, code);
  assert_null(trace.row);
}

static void parse_with(struct kc_trace *trace, const char *text,
                       const struct kc_trace_options *options)
{
  struct kc_diag diag;
  char line[1024];
  if (kc_trace_parse(trace, "t.jsonl", text, strlen(text), options, &diag) == KC_OK) return;
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("%s", line);
}

static void assert_blocks(const struct kc_trace *trace, uint64_t row, const char *wanted)
{
  char text[256] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < trace->column.block_count[row]; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i == 0 ? "" : " ",
                             trace->block[trace->column.block_first[row] + i]);
  }
  assert_string_equal(text, wanted);
}

static void assert_reuse(const struct kc_trace *trace, uint64_t blocks, uint64_t tokens)
{
  struct kc_trace_reuse reuse;
  assert_int_equal(kc_trace_reuse(trace, &reuse, NULL), KC_OK);
  assert_int_equal(reuse.blocks_reused, blocks);
  assert_int_equal(reuse.tokens_reused, tokens);
}

static void plain_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, ROW("0", "700", "5", "0, 1") ROW("27482", "512", "52", "0")
           "{\"hash_ids\":[0,3],\"output_length\":1,\"input_length\":513,\"timestamp\":27482.5}\n");
  assert_string_equal(trace.format, "mooncake");
  assert_int_equal(trace.count, 3);
  assert_row(&trace, 1, INT64_C(27482) * KC_PS_PER_MS, 512, 52);
  assert_row(&trace, 2, INT64_C(274825) * KC_PS_PER_MS / 10, 513, 1);
  assert_true(trace.prefix_ids);
  assert_int_equal(trace.block_tokens, 512);
  assert_int_equal(trace.tail, KC_TAIL_CEIL);
  assert_int_equal(trace.block_total, 5);
  assert_int_equal(trace.block_distinct, 3);
  assert_blocks(&trace, 2, "0 2");
  assert_null(trace.column.session);
  assert_null(trace.column.after);
  assert_null(trace.column.flags);
  assert_reuse(&trace, 2, 1024);
  kc_trace_free(&trace);
}

/* 5: a line of half a megabyte; 6: blank lines; CR LF; no final newline. */
static void pitfall_05_long_lines(void **state)
{
  (void)state;
  enum { IDS = 60000 };
  struct kc_trace trace;
  char *const text = malloc(IDS * 12 + 1000);
  size_t used = (size_t)snprintf(text, 1000, "\r\n{\"timestamp\": 1, \"input_length\": %d, "
                                 "\"output_length\": 3, \"hash_ids\": [", IDS * 512);
  for (int i = 0; i < IDS; i++) {
    used += (size_t)snprintf(text + used, 12, "%s%d", i == 0 ? "" : ", ", i);
  }
  used += (size_t)snprintf(text + used, 100, "]}\r\n \n" "{\"timestamp\": 2, \"input_length\": 1, "
                           "\"output_length\": 3}");
  parse_ok(&trace, text);
  free(text);
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.column.block_count[0], IDS);
  assert_int_equal(trace.note[KC_NOTE_BLANK_LINES], 2);
  assert_int_equal(trace.note[KC_NOTE_CRLF], 2);
  assert_int_equal(trace.note[KC_NOTE_NO_FINAL_NEWLINE], 1);
  kc_trace_free(&trace);
}

static void pitfall_11_defaults_survive_detection(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.format = "mooncake";
  parse_with(&trace, ROW("1000", "700", "5", "0, 1"), &options);
  assert_int_equal(trace.block_tokens, 512);
  assert_int_equal(trace.time_unit, KC_UNIT_MS);
  kc_trace_free(&trace);
  options.format = NULL;
  options.block_tokens = 1024; /* one default overridden, the others stay */
  parse_with(&trace, ROW("0", "700", "5", "0") ROW("1000", "700", "5", "0"), &options);
  assert_int_equal(trace.block_tokens, 1024);
  assert_int_equal(trace.tail, KC_TAIL_CEIL);
  assert_int_equal(trace.span_ps, KC_PS_PER_S);
  assert_reuse(&trace, 1, 700);
  kc_trace_free(&trace);
}

#define CHAT(chat, parent, t)                                                          \
  "{\"chat_id\": " chat ", \"parent_chat_id\": " parent ", \"timestamp\": " t        \
  ", \"input_length\": 20, \"output_length\": 2, \"type\": \"text\", \"turn\": 1, " \
  "\"hash_ids\": [4, 9]}\n"

static void pitfall_11_mixed_formats_are_refused(void **state)
{
  (void)state;
  expect_error(ROW("0", "5", "5", "0") CHAT("1", "-1", "0.5"), NULL, KC_ERR_INPUT,
               "t.jsonl:2: this object is of format bailian (key chat_id), but the trace began as "
               "format mooncake; expected one format a trace");
  expect_error(CHAT("1", "-1", "0.5") ROW("0", "5", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:2: this object is of format mooncake, but the trace began as format "
               "bailian; expected one format a trace");
  expect_error(ROW("0", "5", "5", "0") "0,5,5\n", NULL, KC_ERR_INPUT,
               "t.jsonl:2:1: expected one JSON object a line");
}

static void pitfall_11_format_insists(void **state)
{
  (void)state;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.format = "azure";
  expect_error(ROW("0", "5", "5", "0"), &options, KC_ERR_INPUT,
               "t.jsonl:1: this is JSON, but format azure is CSV with the header "
               "\"TIMESTAMP,ContextTokens,GeneratedTokens\"");
  options.format = "mooncake";
  expect_error("TIMESTAMP,ContextTokens,GeneratedTokens\n", &options, KC_ERR_INPUT,
               "t.jsonl:1: this is no JSON object; format mooncake has objects such as "
               "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, "
               "\"hash_ids\": [0, 1]}");
  expect_error("{\"a\": 1}\n", NULL, KC_ERR_INPUT,
               "t.jsonl:1: no known JSON trace format has these keys: a; known are mooncake, "
               "bailian, servegen, tracelab-rounds, weka, llmservingsim, benchlog, bench-result, "
               "aiperf (traces/FORMATS.md lists their keys)");
}

/* 12: a key that only some rows have; 34: rows without ids among others. */
static void pitfall_12_34_ids_on_some_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2}\n"
           ROW("1", "600", "2", "7, 8")
           "{\"timestamp\": 2, \"input_length\": 600, \"output_length\": 2, \"x\": 1}\n"
           ROW("3", "600", "2", "7, 8"));
  assert_int_equal(trace.count, 4);
  assert_true(trace.prefix_ids);
  assert_int_equal(trace.column.block_count[0], 0);
  assert_int_equal(trace.column.block_count[1], 2);
  assert_int_equal(trace.note[KC_NOTE_ROWS_WITHOUT_IDS], 2);
  assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], 1);
  assert_string_equal(trace.ignored_columns, "x");
  assert_reuse(&trace, 2, 600);
  kc_trace_free(&trace);
  parse_ok(&trace, "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2}\n");
  assert_false(trace.prefix_ids); /* unknown, not 0 % */
  assert_int_equal(trace.block_tokens, 0);
  kc_trace_free(&trace);
}

/* One key, two units: Mooncake counts milliseconds, Bailian seconds. */
static void pitfall_16_units(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  parse_ok(&trace, ROW("0", "5", "5", "0") ROW("61.114", "5", "5", "0"));
  assert_int_equal(trace.span_ps, INT64_C(61114) * KC_PS_PER_US);
  kc_trace_free(&trace);
  parse_ok(&trace, CHAT("1", "-1", "0.0") CHAT("2", "-1", "61.114"));
  assert_int_equal(trace.span_ps, INT64_C(61114) * KC_PS_PER_MS);
  assert_int_equal(trace.time_unit, KC_UNIT_S);
  kc_trace_free(&trace);
  kc_trace_options_default(&options);
  static const struct {
    enum kc_time_unit unit;
    kc_ps wanted;
  } units[] = {{KC_UNIT_S, INT64_C(200) * KC_PS_PER_MS}, {KC_UNIT_MS, INT64_C(200) * KC_PS_PER_US},
               {KC_UNIT_US, INT64_C(200) * KC_PS_PER_NS}, {KC_UNIT_NS, 200}, {KC_UNIT_PS, 0}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    options.time_unit = units[i].unit;
    parse_with(&trace, ROW("0", "5", "5", "0") ROW("0.2", "5", "5", "0"), &options);
    assert_int_equal(trace.span_ps, units[i].wanted);
    assert_int_equal(trace.note[KC_NOTE_ROUNDED_TIMES], units[i].unit == KC_UNIT_PS);
    kc_trace_free(&trace);
  }
  expect_error("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,1,1\n", &options,
               KC_ERR_USAGE, "format azure has no times that are bare numbers, so time_unit cannot "
               "be set; leave it out");
}

/* The smallest time becomes 0, wherever it stands; ids are numbered in the sorted order. */
static void pitfall_17_minimum_is_subtracted(void **state)
{
  (void)state;
  struct kc_trace trace, sorted;
  parse_ok(&trace, ROW("1181678", "600", "1", "9, 5") ROW("1178625", "5", "2", "8")
           ROW("1178625", "600", "3", "9, 6"));
  assert_row(&trace, 0, 0, 5, 2);
  assert_row(&trace, 1, 0, 600, 3);
  assert_row(&trace, 2, INT64_C(3053) * KC_PS_PER_MS, 600, 1);
  assert_blocks(&trace, 0, "0");
  assert_blocks(&trace, 1, "1 2");
  assert_blocks(&trace, 2, "1 3");
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], 1);
  assert_int_equal(trace.note[KC_NOTE_SHIFTED], 1);
  parse_ok(&sorted, ROW("0", "5", "2", "8") ROW("0", "600", "3", "9, 6")
           ROW("3053", "600", "1", "9, 5"));
  assert_memory_equal(trace.row, sorted.row, 3 * sizeof *trace.row);
  assert_memory_equal(trace.block, sorted.block, 5 * sizeof *trace.block);
  kc_trace_free(&sorted);
  kc_trace_free(&trace);
}

/* Coarse clocks: ties are kept and counted, nothing is spread. */
static void pitfall_19_ties_are_counted(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, ROW("3000", "1", "1", "0") ROW("3000", "2", "1", "0")
           ROW("3000", "3", "1", "0") ROW("6000", "4", "1", "0"));
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(trace.row[i].input_tokens, i + 1);
  assert_int_equal(trace.note[KC_NOTE_TIES], 2);
  assert_int_equal(trace.row[2].arrival_ps, 0);
  kc_trace_free(&trace);
}

#define BATCH "{\"request_id\": 0, \"type\": \"text\", \"input_length\": 33"

static void pitfall_25_missing_lengths(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  expect_error(BATCH ", \"hash_ids\": [0, 1, 2], \"img_ids\": []}\n", NULL, KC_ERR_INPUT,
               "t.jsonl:1: no output length in this row, and format servegen may lack it; set "
               "missing_output to the tokens that such requests produce");
  options.missing_output_tokens = 8;
  parse_with(&trace, BATCH ", \"hash_ids\": [0, 1, 2], \"img_ids\": []}\n"
             BATCH ", \"output_length\": 5}\n", &options);
  assert_string_equal(trace.format, "servegen");
  assert_row(&trace, 0, 0, 33, 8);
  assert_row(&trace, 1, 0, 33, 5);
  assert_int_equal(trace.note[KC_NOTE_MISSING_OUTPUT], 1);
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  assert_int_equal(trace.note[KC_NOTE_TIES], 0);
  assert_int_equal(trace.block_tokens, 16);
  assert_string_equal(trace.kind_name[0], "text");
  kc_trace_free(&trace);
  /* The input, when only the ids are there. */
  parse_ok(&trace, "{\"timestamp\": 0, \"output_length\": 2, \"hash_ids\": [0, 1]}\n");
  assert_row(&trace, 0, 0, 1024, 2);
  assert_int_equal(trace.note[KC_NOTE_INPUT_FROM_IDS], 1);
  kc_trace_free(&trace);
  expect_error("{\"timestamp\": 0, \"input_length\": 2, \"output_length\": null}\n", NULL,
               KC_ERR_INPUT, "t.jsonl:1: key output_length is null; expected a number");
}

static void pitfall_27_numbers_are_not_coerced(void **state)
{
  (void)state;
  expect_error(ROW("0", "\"5\"", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:35: input_length is \"5\": expected a whole number from 0 to 4294967295");
  expect_error(ROW("0", "13.7", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:34: input_length is \"13.7\": expected a whole number from 0 to "
               "4294967295");
  expect_error(ROW("\"7\"", "5", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:16: timestamp is \"7\": it is not a time; expected a number of ms, 0 or "
               "more");
  expect_error(ROW("-7", "5", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:15: timestamp is \"-7\": it is negative; expected a number of ms, 0 or "
               "more");
  expect_error(ROW("NaN", "5", "5", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:15: JSON has no such word (NaN, Infinity, None, True?); expected a "
               "number, a string, true, false or null");
}

static void pitfall_29_null_is_absent(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 2, \"hash_ids\": "
           "null, \"session_id\": null, \"delay\": null}\n");
  assert_int_equal(trace.note[KC_NOTE_NULL_CELLS], 3);
  assert_false(trace.prefix_ids);
  assert_null(trace.column.session);
  kc_trace_free(&trace);
}

static void pitfall_30_block_size(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  parse_ok(&trace, CHAT("1", "-1", "0.0") CHAT("2", "-1", "1.0"));
  assert_int_equal(trace.block_tokens, 16);
  assert_reuse(&trace, 2, 20);
  assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH], 0);
  kc_trace_free(&trace);
  kc_trace_options_default(&options);
  options.block_tokens = 64; /* wrong, and it shows: one id of two fits in 20 tokens */
  parse_with(&trace, CHAT("1", "-1", "0.0"), &options);
  assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH], 1);
  assert_int_equal(trace.column.block_count[0], 1);
  kc_trace_free(&trace);
  expect_error("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n", &options, KC_ERR_USAGE,
               "format vidur has no prefix ids, so block_tokens cannot be set; leave it out");
}

/* 700 tokens are two blocks of 512 when the partial one is listed, one when it is not. */
static void pitfall_31_tail_rule(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  parse_ok(&trace, ROW("0", "700", "1", "0") ROW("1", "1024", "1", "0, 1")
           ROW("2", "500", "1", "") ROW("3", "700", "1", "0"));
  assert_int_equal(trace.tail, KC_TAIL_FLOOR); /* every row that can tell says so */
  assert_int_equal(trace.note[KC_NOTE_IDS_OTHER_TAIL], 2);
  assert_int_equal(trace.note[KC_NOTE_ROWS_WITHOUT_IDS], 0);
  assert_reuse(&trace, 2, 1024);
  kc_trace_free(&trace);
  parse_ok(&trace, ROW("0", "700", "1", "0, 1") ROW("1", "700", "1", "0") ROW("2", "9", "1", "1"));
  assert_int_equal(trace.tail, KC_TAIL_CEIL); /* one row is odd */
  assert_int_equal(trace.note[KC_NOTE_IDS_OTHER_TAIL], 1);
  kc_trace_free(&trace);
  options.tail = KC_TAIL_FLOOR; /* insisted: the partial block's id goes */
  parse_with(&trace, ROW("0", "700", "1", "0, 1") ROW("1", "700", "1", "0, 1"), &options);
  assert_int_equal(trace.tail, KC_TAIL_FLOOR);
  assert_int_equal(trace.block_total, 2);
  assert_int_equal(trace.block_distinct, 1);
  assert_reuse(&trace, 1, 512);
  kc_trace_free(&trace);
  parse_ok(&trace, ROW("0", "700", "1", "0, 1, 2, 3") ROW("1", "5000", "1", "0"));
  assert_int_equal(trace.note[KC_NOTE_IDS_MISMATCH], 2);
  assert_int_equal(trace.column.block_count[0], 2); /* no more than the prompt holds */
  assert_int_equal(trace.block_distinct, 2);
  kc_trace_free(&trace);
}

static void pitfall_32_large_ids(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, ROW("0", "5", "1", "7") ROW("1", "5", "1", "4294967303")
           ROW("2", "5", "1", "9007199254740992") ROW("3", "5", "1", "9007199254740993")
           ROW("4", "5", "1", "18446744073709551615") ROW("5", "5", "1", "18446744073709551614")
           ROW("6", "5", "1", "9007199254740993"));
  assert_int_equal(trace.block_distinct, 6);
  assert_blocks(&trace, 6, "3");
  assert_reuse(&trace, 1, 5);
  kc_trace_free(&trace);
  expect_error(ROW("0", "5", "5", "18446744073709551616"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:70: expected a number of at most 18446744073709551615 (2^64 - 1)");
  expect_error(ROW("0", "5", "5", "1.0"), NULL, KC_ERR_INPUT,
               "t.jsonl:1:70: expected a whole number of 0 or more, digits only");
}

/* Content hashes: the same id behind another past is another block. */
static void pitfall_34_leading_runs_only(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, ROW("0", "1024", "1", "1, 2") ROW("1", "1024", "1", "3, 2")
           ROW("2", "1024", "1", "3, 2") ROW("3", "1024", "1", "2, 2"));
  assert_int_equal(trace.note[KC_NOTE_UNCHAINED_IDS], 1);
  assert_blocks(&trace, 0, "0 1");
  assert_blocks(&trace, 1, "2 3");
  assert_blocks(&trace, 2, "2 3");
  assert_blocks(&trace, 3, "4 5");
  assert_reuse(&trace, 2, 1024);
  kc_trace_free(&trace);
  parse_ok(&trace, ROW("0", "1024", "1", "1, 2") ROW("1", "1024", "1", "1, 3"));
  assert_int_equal(trace.note[KC_NOTE_UNCHAINED_IDS], 0);
  kc_trace_free(&trace);
}

/* 35: a follow-up's prompt is whole; 36: trees of chats, also with a parent outside the slice. */
static void pitfall_35_36_chats(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, CHAT("10", "-1", "0.0") CHAT("11", "10", "1.0") CHAT("20", "99", "2.0")
           CHAT("12", "11", "3.0") CHAT("21", "99", "4.0") CHAT("30", "-1", "5.0"));
  assert_int_equal(trace.input_tokens, 6 * 20);
  assert_int_equal(trace.session_count, 3);
  static const uint32_t wanted[] = {0, 0, 1, 0, 1, 2};
  assert_memory_equal(trace.column.session, wanted, sizeof wanted);
  assert_null(trace.column.after); /* recorded times: open loop */
  kc_trace_free(&trace);
}

#define TURN(session, rest) "{\"session_id\": \"" session "\", " rest ", \"output_length\": 2}\n"

/* Parents that cannot be: a chat of its own parent begins a session, a circle is refused where it
 * closes, and a chat that is there twice stays twice, in the session of the first. */
static void pitfall_36_odd_parents(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, CHAT("1", "1", "0") CHAT("2", "1", "1") CHAT("3", "-1", "2"));
  assert_int_equal(trace.note[KC_NOTE_OWN_PARENT], 1);
  assert_int_equal(trace.note_at[KC_NOTE_OWN_PARENT].line, 1);
  assert_int_equal(trace.session_count, 2);
  kc_trace_free(&trace);
  parse_ok(&trace, CHAT("1", "-1", "0") CHAT("2", "-1", "1") CHAT("1", "2", "2")
           CHAT("2", "1", "3") CHAT("1", "-1", "4"));
  assert_int_equal(trace.note[KC_NOTE_REPEATED_CHATS], 3);
  assert_int_equal(trace.note_at[KC_NOTE_REPEATED_CHATS].line, 3);
  assert_int_equal(trace.count, 5);
  static const uint32_t session[] = {0, 1, 0, 1, 0};
  assert_memory_equal(trace.column.session, session, sizeof session);
  kc_trace_free(&trace);
  expect_error(CHAT("1", "3", "0") CHAT("2", "1", "1") CHAT("9", "-1", "2") CHAT("3", "2", "3"),
               NULL, KC_ERR_INPUT,
               "t.jsonl:4:34: parent_chat_id is \"2\": this parent continues the row's own chat, "
               "so none of the circle could have been first; expected a chat that began before "
               "this one");
}

static void pitfall_36_sessions_with_delays(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, TURN("a", "\"timestamp\": 12.5, \"input_length\": 1")
           TURN("b", "\"timestamp\": 5, \"input_length\": 2")
           TURN("a", "\"delay\": 3.0, \"input_length\": 3")
           TURN("b", "\"timestamp\": 20, \"delay\": 7, \"input_length\": 4")
           TURN("a", "\"delay\": 1, \"input_length\": 5"));
  assert_row(&trace, 0, 0, 2, 2); /* b, at 5 ms */
  assert_row(&trace, 1, INT64_C(7500) * KC_PS_PER_US, 1, 2);
  assert_row(&trace, 2, INT64_C(7500) * KC_PS_PER_US, 3, 2);
  assert_row(&trace, 3, INT64_C(7500) * KC_PS_PER_US, 5, 2);
  assert_row(&trace, 4, INT64_C(15) * KC_PS_PER_MS, 4, 2);
  static const uint32_t session[] = {0, 1, 1, 1, 0};
  static const uint32_t after[] = {KC_TRACE_NONE, KC_TRACE_NONE, 1, 2, 0};
  static const kc_ps wait[] = {0, 0, 3 * KC_PS_PER_MS, 1 * KC_PS_PER_MS, 7 * KC_PS_PER_MS};
  assert_memory_equal(trace.column.session, session, sizeof session);
  assert_memory_equal(trace.column.after, after, sizeof after);
  assert_memory_equal(trace.column.wait_ps, wait, sizeof wait);
  assert_int_equal(trace.note[KC_NOTE_MISSING_ARRIVALS], 2);
  kc_trace_free(&trace);
  expect_error(TURN("a", "\"timestamp\": 1, \"input_length\": 3")
               TURN("b", "\"delay\": 1, \"input_length\": 3"), NULL, KC_ERR_INPUT,
               "t.jsonl:2: no time in this row, and no earlier row of its session to follow; the "
               "first request of a session needs a time");
}

static void pitfall_44_errors_have_places(void **state)
{
  (void)state;
  expect_error(ROW("0", "5", "5", "0") "\n{\"timestamp\": 1, \"input_length\": 5}\n", NULL,
               KC_ERR_INPUT,
               "t.jsonl:3: key output_length is missing; format mooncake has objects such as "
               "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, "
               "\"hash_ids\": [0, 1]}");
  expect_error(ROW("0", "5", "5", "0") "{\"timestamp\": 1, \n", NULL, KC_ERR_INPUT,
               "t.jsonl:2:17: the text ends inside a JSON value (cut short?)");
  expect_error(ROW("0", "5", "5", "0") "{\"timestamp\" 1}\n", NULL, KC_ERR_INPUT,
               "t.jsonl:2:14: this is not JSON");
  expect_error(ROW("0", "5", "5", "0") "{\"timestamp\": 1} 5\n", NULL, KC_ERR_INPUT,
               "t.jsonl:2:18: text follows the object; expected one JSON object a line");
  expect_error(ROW("0", "5", "5", "0")
               "{\"timestamp\": 1, \"input_length\": 5, \"timestamp\": 2}\n", NULL, KC_ERR_INPUT,
               "t.jsonl:2:38: timestamp is \"timestamp\": the key is there twice in one object; "
               "expected it once");
  expect_error(ROW("0", "5", "5", "0") ROW("1", "5", "0", "0"), NULL, KC_ERR_INPUT,
               "t.jsonl:2:54: output_length is \"0\": a request that produced nothing; set "
               "zero_output to drop such rows or to floor them to 1 token");
  expect_error("{\"timestamp\": 0, \"output_length\": 1,\n \"input_length\": x}\n", NULL,
               KC_ERR_INPUT,
               "t.jsonl:2:18: JSON has no such word (NaN, Infinity, None, True?); expected a "
               "number, a string, true, false or null");
}

/* Rows that a policy drops leave no trace in the ids. */
static void dropped_rows_leave_no_ids(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  parse_with(&trace, ROW("0", "5", "0", "3") ROW("1", "5", "1", "4") ROW("2", "5", "1", "3"),
             &options);
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.block_distinct, 2);
  assert_blocks(&trace, 0, "0");
  assert_blocks(&trace, 1, "1");
  assert_reuse(&trace, 0, 0);
  kc_trace_free(&trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_rows),
      cmocka_unit_test(pitfall_05_long_lines),
      cmocka_unit_test(pitfall_11_defaults_survive_detection),
      cmocka_unit_test(pitfall_11_mixed_formats_are_refused),
      cmocka_unit_test(pitfall_11_format_insists),
      cmocka_unit_test(pitfall_12_34_ids_on_some_rows),
      cmocka_unit_test(pitfall_16_units),
      cmocka_unit_test(pitfall_17_minimum_is_subtracted),
      cmocka_unit_test(pitfall_19_ties_are_counted),
      cmocka_unit_test(pitfall_25_missing_lengths),
      cmocka_unit_test(pitfall_27_numbers_are_not_coerced),
      cmocka_unit_test(pitfall_29_null_is_absent),
      cmocka_unit_test(pitfall_30_block_size),
      cmocka_unit_test(pitfall_31_tail_rule),
      cmocka_unit_test(pitfall_32_large_ids),
      cmocka_unit_test(pitfall_34_leading_runs_only),
      cmocka_unit_test(pitfall_35_36_chats),
      cmocka_unit_test(pitfall_36_odd_parents),
      cmocka_unit_test(pitfall_36_sessions_with_delays),
      cmocka_unit_test(pitfall_44_errors_have_places),
      cmocka_unit_test(dropped_rows_leave_no_ids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
