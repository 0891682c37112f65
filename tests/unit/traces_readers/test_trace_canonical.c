/* The program's own format: what it says, what it refuses, and that nothing is lost on the way
 * through it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "text_sink.h"
#include "trace_text.h"

#define H "arrival_ps,input_tokens,output_tokens"
#define ALL H ",session,after,wait_ps,kind,flags,prefix_ids_ceil_512\n"

static void expect_error(const char *text, const char *message)
{
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024];
  assert_int_equal(parse_text(&trace, text, &diag), KC_ERR_INPUT);
  kc_diag_print(&diag, line, sizeof line);
  assert_string_equal(line, message);
}

static void every_column(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, ALL "0,700,5,0,,,chat,,0 1\n"
                       "1,600,4,1,,,code,failed+subagent,5;6\n"
                       "9223372036854775806,800,3,0,0,3000000000,chat,compacted,0 1\n"
                       "9223372036854775806,1,3,,,,,,\n");
  assert_string_equal(trace.format, "kvcap-trace");
  assert_int_equal(trace.count, 4);
  assert_row(&trace, 2, INT64_MAX - 1, 800, 3);
  assert_int_equal(trace.session_count, 2);
  assert_int_equal(trace.column.session[3], KC_TRACE_NONE);
  assert_int_equal(trace.column.after[2], 0);
  assert_int_equal(trace.column.wait_ps[2], 3 * KC_PS_PER_MS);
  assert_int_equal(trace.column.after[1], KC_TRACE_NONE);
  assert_string_equal(trace.kind_name[trace.column.kind[1]], "code");
  assert_int_equal(trace.column.kind[3], KC_TRACE_NONE);
  assert_int_equal(trace.column.flags[1], KC_ROW_FAILED | KC_ROW_SUBAGENT);
  assert_int_equal(trace.column.flags[2], KC_ROW_COMPACTED);
  assert_int_equal(trace.note[KC_NOTE_FAILED_KEPT], 1);
  assert_int_equal(trace.block_tokens, 512);
  assert_int_equal(trace.tail, KC_TAIL_CEIL);
  assert_int_equal(trace.block_distinct, 4);
  assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], 0);
  assert_round_trip(&trace);
  kc_trace_free(&trace);
}

/* Tables made by hand: the column's name says the unit; 0.25 s is 250 ms. */
static void arrivals_in_other_units(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    kc_ps second;
  } tables[] = {{"arrival_s,input_tokens,output_tokens\n3,7,5\n3.25,8,6\n", 250 * KC_PS_PER_MS},
                {"input_tokens,output_tokens,Arrival_MS\n7,5,10\n8,6,35\n", 25 * KC_PS_PER_MS},
                {"arrival_us,input_tokens,output_tokens\n0,7,5\n4,8,6\n", 4 * KC_PS_PER_US},
                {"arrival_ns,input_tokens,output_tokens\n9,7,5\n12,8,6\n", 3 * KC_PS_PER_NS}};
  struct kc_trace trace;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    parse_ok(&trace, tables[i].text);
    assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 0);
    assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], 0);
    assert_row(&trace, 1, tables[i].second, 8, 6);
    assert_round_trip(&trace);
    kc_trace_free(&trace);
  }
  expect_error("arrival_s,input_tokens,output_tokens,wait_ps\n0,7,5,\n",
               "t.csv:1:1: a second column of times, in another unit; expected arrival_ps alone, "
               "or beside wait_ps");
  expect_error(H ",arrival_ms\n0,7,5,0\n",
               "t.csv:1:39: a second column of times, in another unit; expected arrival_ps "
               "alone, or beside wait_ps");
}

static void few_columns(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "input_tokens,output_tokens\n7,5\n8,6\n");
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  assert_round_trip(&trace);
  kc_trace_free(&trace);
  parse_ok(&trace, H ",note,prefix_ids_floor_64\n5,700,5,x,1\n0,64,5,y,3\n0,63,5,z,\n");
  assert_int_equal(trace.tail, KC_TAIL_FLOOR);
  assert_int_equal(trace.block_tokens, 64);
  assert_string_equal(trace.ignored_columns, "note");
  assert_int_equal(trace.note[KC_NOTE_ROWS_WITHOUT_IDS], 0); /* 63 tokens are no block */
  assert_round_trip(&trace);
  kc_trace_free(&trace);
}

#define BAD_IDS_NAME                                                                           \
  "t.csv:1:39: expected a column of prefix ids named like prefix_ids_ceil_512: ceil or floor, " \
  "and tokens per id"

static void refused(void **state)
{
  (void)state;
  expect_error(H ",flags\n0,1,1,broken\n",
               "t.csv:2:7: flags is \"broken\": expected failed, cancelled, subagent or compacted, "
               "with '+' between");
  expect_error(H ",prefix_ids_512\n0,1,1,1\n", BAD_IDS_NAME);
  expect_error(H ",prefix_ids_ceil_0\n0,1,1,1\n", BAD_IDS_NAME);
  expect_error(H ",prefix_ids_ceil_8,prefix_ids_ceil_8\n0,1,1,1,1\n",
               "t.csv:1:57: a second column of prefix ids; expected one");
  expect_error(H ",prefix_ids_ceil_8\n0,1,1,1 x\n",
               "t.csv:2:9: prefix_ids is \"x\": expected prefix ids, whole numbers from 0 to 2^64 "
               "- 1, with spaces between");
  expect_error(H ",after\n0,1,1,\n0,1,1,2\n",
               "t.csv:3: this row waits for row 2, but the last row of the file is 1 (the first "
               "is 0)");
  expect_error(H ",after\n0,1,1,1\n0,1,1,0\n",
               "t.csv:2: this row waits for the row of line 3, which waits for it in turn; nothing "
               "in this circle could start");
  expect_error(H ",after\n0,1,1,0\n",
               "t.csv:2: this row waits for itself, so it could never start");
  expect_error(H ",after,wait_ps\n0,1,1,,\n0,1,1,0,-5\n",
               "t.csv:3:9: wait_ps is \"-5\": it is negative; expected a number of ps, 0 or more");
}

/* Rows are named by their place in the file, also when the file is out of order or rows go. */
static void links_follow_their_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  parse_ok(&trace, H ",after,wait_ps\n30,1,1,1,7\n10,2,1,,\n20,3,1,1,9\n");
  static const uint32_t sorted[] = {KC_TRACE_NONE, 0, 0};
  assert_memory_equal(trace.column.after, sorted, sizeof sorted);
  assert_int_equal(trace.column.wait_ps[1], 9);
  assert_int_equal(trace.column.wait_ps[2], 7);
  kc_trace_free(&trace);
  kc_trace_options_default(&options);
  options.failed = KC_ROW_DROP;
  static const char dropped[] = H ",after,wait_ps,flags\n0,1,1,,,failed\n1,2,1,,,\n"
                                "2,3,1,1,5,failed\n3,4,1,2,6,\n4,5,1,0,7,\n";
  assert_int_equal(parse_text_with(&trace, dropped, sizeof dropped - 1, &options, &diag), KC_OK);
  assert_int_equal(trace.count, 3);
  assert_int_equal(trace.note[KC_NOTE_FAILED_DROPPED], 2);
  static const uint32_t kept[] = {KC_TRACE_NONE, 0, KC_TRACE_NONE};
  assert_memory_equal(trace.column.after, kept, sizeof kept);
  kc_trace_free(&trace);
}

/* A hundred thousand dropped rows, each waiting for the one before it, and as many kept ones that
 * wait for the last: minutes when every walk is a whole one. A circle of dropped rows leads
 * nowhere. */
static void long_chains_of_dropped_rows(void **state)
{
  (void)state;
  enum { ROWS = 100000, ROW_BYTES = 32 };
  char *const text = malloc((size_t)2 * ROWS * ROW_BYTES + 100);
  size_t used = (size_t)snprintf(text, 100, "input_tokens,output_tokens,after\n1,1,\n");
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  for (int i = 0; i < ROWS; i++) {
    used += (size_t)snprintf(text + used, ROW_BYTES, "1,0,%d\n", i);
  }
  for (int i = 0; i < ROWS; i++) {
    used += (size_t)snprintf(text + used, ROW_BYTES, "1,1,%d\n", ROWS);
  }
  assert_int_equal(parse_text_with(&trace, text, used, &options, &diag), KC_OK);
  assert_int_equal(trace.count, ROWS + 1);
  for (uint32_t i = 1; i <= ROWS; i++) assert_int_equal(trace.column.after[i], 0);
  kc_trace_free(&trace);
  free(text);
  static const char circle[] = "input_tokens,output_tokens,after\n1,0,1\n1,0,0\n1,1,0\n1,1,2\n";
  assert_int_equal(parse_text_with(&trace, circle, sizeof circle - 1, &options, &diag), KC_OK);
  static const uint32_t after[] = {KC_TRACE_NONE, 0};
  assert_memory_equal(trace.column.after, after, sizeof after);
  kc_trace_free(&trace);
}

static void other_policies(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  static const char text[] = H ",flags\n0,1,1,cancelled\n1,2,0,failed\n2,3,1,\n";
  kc_trace_options_default(&options);
  options.cancelled = KC_ROW_DROP;
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  assert_int_equal(parse_text_with(&trace, text, sizeof text - 1, &options, &diag), KC_OK);
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.note[KC_NOTE_CANCELLED_DROPPED], 1);
  assert_int_equal(trace.note[KC_NOTE_FAILED_KEPT], 1);
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_FLOORED], 1);
  kc_trace_free(&trace);
}

/* ---- random traces ---- */

struct text {
  char bytes[1 << 16];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  const int length =
      vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, arguments);
  va_end(arguments);
  text->used += (size_t)length;
  assert_true(text->used < sizeof text->bytes);
}

/* One object with a random choice of keys; times may be out of order, ids content hashes. */
static void add_object(struct text *text, struct kc_random *random, bool sessions, bool chained)
{
  const uint64_t input = 1 + kc_random_below(random, 3000);
  add(text, "{\"timestamp\": %u.5, \"input_length\": %u, \"output_length\": %u",
      (unsigned)kc_random_below(random, 50), (unsigned)input,
      1 + (unsigned)kc_random_below(random, 9));
  if (sessions) add(text, ", \"session_id\": \"s%u\"", (unsigned)kc_random_below(random, 4));
  if (sessions && kc_random_chance(random, 1, 2)) add(text, ", \"delay\": 2");
  if (kc_random_chance(random, 3, 4)) {
    const uint64_t branch = kc_random_below(random, 3);
    add(text, ", \"hash_ids\": [");
    for (uint64_t k = 0; k < (input + 511) / 512; k++) {
      add(text, "%s%u", k == 0 ? "" : ",",
          (unsigned)(chained ? k * 3 + (k > 1 ? branch : 0) : kc_random_below(random, 5)));
    }
    add(text, "]");
  }
  add(text, "}\n");
}

static void random_traces_round_trip(void **state)
{
  (void)state;
  static struct text text;
  for (uint64_t seed = 0; seed < 300; seed++) {
    struct kc_random random;
    struct kc_trace trace;
    kc_random_init(&random, seed, "canonical", 0);
    const uint64_t rows = 1 + kc_random_below(&random, 40);
    const bool sessions = kc_random_chance(&random, 1, 2);
    const bool chained = kc_random_chance(&random, 1, 2);
    text.used = 0;
    for (uint64_t i = 0; i < rows; i++) add_object(&text, &random, sessions, chained);
    print_message("seed %u\n", (unsigned)seed);
    parse_ok(&trace, text.bytes);
    assert_round_trip(&trace);
    kc_trace_free(&trace);
  }
}

static bool write_nothing(void *context, const char *text, size_t bytes)
{
  (void)context;
  (void)text;
  (void)bytes;
  return false;
}

static void a_full_disk_is_an_error(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_diag diag;
  parse_ok(&trace, H "\n0,1,1\n");
  assert_int_equal(kc_trace_write(&trace, write_nothing, NULL, &diag), KC_ERR_FILE);
  assert_string_equal(diag.text, "cannot write the trace; is the disk full?");
  kc_trace_free(&trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_column),
      cmocka_unit_test(arrivals_in_other_units),
      cmocka_unit_test(few_columns),
      cmocka_unit_test(refused),
      cmocka_unit_test(links_follow_their_rows),
      cmocka_unit_test(long_chains_of_dropped_rows),
      cmocka_unit_test(other_policies),
      cmocka_unit_test(random_traces_round_trip),
      cmocka_unit_test(a_full_disk_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
