/* Where rows and findings stand: lines through sorting, blank lines, shards, gzip and documents;
 * and the rows that wait for what never comes, named by file and line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace_text.h"

#define H "arrival_ps,input_tokens,output_tokens"

static void options_with_lines(struct kc_trace_options *options)
{
  kc_trace_options_default(options);
  options->lines = true;
}

static void parse_lines(struct kc_trace *trace, const char *text)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  char message[1024];
  options_with_lines(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  if (parse_text_with(trace, text, strlen(text), &options, &diag) == KC_OK) return;
  kc_diag_print(&diag, message, sizeof message);
  fail_msg("%s", message);
}

static void assert_lines(const struct kc_trace *trace, const uint32_t *line, uint64_t count)
{
  assert_int_equal(trace->count, count);
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t found = kc_trace_row_place(trace, i).line;
    if (found != line[i]) fail_msg("row %u: line %u, expected %u", (unsigned)i, found, line[i]);
  }
}

static void assert_note_at(const struct kc_trace *trace, enum kc_trace_note note, uint32_t line)
{
  if (trace->note[note] == 0 || trace->note_at[note].line != line) {
    fail_msg("%s: %u counted, first at line %u; expected line %u", kc_trace_note_name(note),
             (unsigned)trace->note[note], trace->note_at[note].line, line);
  }
}

/* Rows out of order, a blank line, a dropped row: the lines follow the rows. */
static void lines_follow_sorted_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_lines(&trace, H ",note\n30,1,1,a\r\n\n10,2,1,b\n20,3,0,c\n20,0,1,\"d\"\n20,5,1,e");
  assert_lines(&trace, (const uint32_t[]){4, 6, 7, 2}, 4);
  assert_null(trace.column.file); /* one file */
  assert_string_equal(kc_trace_file_name(&trace, 0), "t.csv");
  assert_string_equal(kc_trace_file_name(&trace, 1), "");
  assert_int_equal(trace.format_at.line, 1);
  assert_note_at(&trace, KC_NOTE_IGNORED_COLUMNS, 1);
  assert_note_at(&trace, KC_NOTE_CRLF, 2);
  assert_note_at(&trace, KC_NOTE_BLANK_LINES, 3);
  assert_note_at(&trace, KC_NOTE_OUT_OF_ORDER, 4);
  assert_note_at(&trace, KC_NOTE_SHIFTED, 4);
  assert_note_at(&trace, KC_NOTE_ZERO_OUTPUT_DROPPED, 5);
  assert_note_at(&trace, KC_NOTE_QUOTED_CELLS, 6);
  assert_note_at(&trace, KC_NOTE_ZERO_INPUT_FLOORED, 6);
  assert_note_at(&trace, KC_NOTE_NO_FINAL_NEWLINE, 7);
  kc_trace_free(&trace);
}

/* Nobody pays for lines that nobody asked for, closed loop or not. */
static void no_lines_unless_asked(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, H ",after\n0,1,1,\n5,1,1,0\n");
  assert_null(trace.column.line);
  assert_null(trace.column.file);
  assert_int_equal(kc_trace_row_place(&trace, 1).line, 0);
  kc_trace_free(&trace);
  parse_lines(&trace, H ",after\n0,1,1,\n5,1,1,0\n");
  assert_lines(&trace, (const uint32_t[]){2, 3}, 2);
  kc_trace_free(&trace);
}

/* In a document a row stands where its lengths do, however the lines are broken. */
static void lines_of_documents(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_lines(&trace,
              "\xef\xbb\xbf{\"input_lens\": [1,\n2, 3],\n\"output_lens\": [4,\n5,\n\n6],\n"
              "\"start_times\": [3.0, 2.0, 1.0]}\n");
  assert_lines(&trace, (const uint32_t[]){6, 4, 3}, 3);
  assert_note_at(&trace, KC_NOTE_BOM, 1);
  assert_note_at(&trace, KC_NOTE_OUT_OF_ORDER, 4);
  kc_trace_free(&trace);
  parse_lines(&trace, "{\n\"timestamp\": 0, \"input_length\": 7, \"output_length\": 1}\n"
                      "{\"timestamp\": 9,\n\"input_length\": 7, \"output_length\": 1}\n");
  assert_lines(&trace, (const uint32_t[]){1, 3}, 2);
  kc_trace_free(&trace);
}

/* ---- several files ---- */

enum { PATH_BYTES = 128, FILES = 3 };

struct shards {
  char folder[64];
  char path[FILES][PATH_BYTES];
};

static void make_shards(struct shards *shards, const char *const text[FILES])
{
  snprintf(shards->folder, sizeof shards->folder, "/tmp/kvcap-places-XXXXXX");
  assert_non_null(mkdtemp(shards->folder));
  for (unsigned i = 0; i < FILES; i++) {
    size_t bytes = strlen(text[i]);
    char *const packed = i == 1 ? gzip_bytes(text[i], bytes, &bytes) : NULL;
    snprintf(shards->path[i], PATH_BYTES, "%s/s%u.csv%s", shards->folder, i, i == 1 ? ".gz" : "");
    FILE *const file = fopen(shards->path[i], "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(packed != NULL ? packed : text[i], 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(packed);
  }
}

static void remove_shards(const struct shards *shards)
{
  for (unsigned i = 0; i < FILES; i++) assert_int_equal(unlink(shards->path[i]), 0);
  assert_int_equal(rmdir(shards->folder), 0);
}

static void rows_name_their_shard(void **state)
{
  (void)state;
  static const char *const text[FILES] = {H "\n50,1,1\n10,1,1\n", H "\n\n30,1,1\n20,1,1\n",
                                          H "\n40,1,1\n0,1,1\n"};
  static const unsigned file[] = {2, 0, 1, 1, 2, 0};
  static const uint32_t line[] = {3, 3, 4, 3, 2, 2};
  struct kc_trace_options options;
  struct shards shards;
  struct kc_trace trace;
  struct kc_diag diag;
  options_with_lines(&options);
  make_shards(&shards, text);
  assert_int_equal(kc_trace_load(&trace, shards.folder, &options, &diag), KC_OK);
  assert_lines(&trace, line, 6);
  for (uint64_t i = 0; i < 6; i++) {
    const struct kc_trace_place place = kc_trace_row_place(&trace, i);
    assert_string_equal(kc_trace_file_name(&trace, place.file), shards.path[file[i]]);
  }
  assert_int_equal(trace.note_at[KC_NOTE_GZIP].file, 1);
  assert_int_equal(trace.note_at[KC_NOTE_BLANK_LINES].file, 1);
  assert_note_at(&trace, KC_NOTE_BLANK_LINES, 2);
  kc_trace_free(&trace);
  remove_shards(&shards);
}

/* `expected` follows the path of the last shard. */
static void expect_shard_error(const char *const text[FILES], unsigned file, uint64_t line,
                               const char *expected)
{
  struct kc_trace_options options;
  struct shards shards;
  struct kc_trace trace;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  make_shards(&shards, text);
  assert_int_equal(kc_trace_load(&trace, shards.folder, &options, &diag), KC_ERR_INPUT);
  assert_string_equal(diag.text, expected);
  assert_string_equal(diag.path, shards.path[file]);
  assert_int_equal(diag.line, line);
  assert_null(trace.row);
  assert_null(trace.file_names);
  remove_shards(&shards);
}

#define A H ",after,wait_ps\n"
#define FINE A "0,1,1,,\n5,1,1,0,1\n"
#define CIRCLE_OF(line) \
  "this row waits for the row of line " line ", which waits for it in turn; nothing in this " \
  "circle could start"

/* A number beyond the file's rows is not a row of the next file; a dropped row counts too. */
static void rows_that_wait_in_vain_are_named(void **state)
{
  (void)state;
  static const char *const beyond[FILES] = {FINE, A "0,1,1,,\n\n7,1,1,2,0\n", FINE};
  static const char *const dropped[FILES] = {FINE, FINE, A "0,1,1,,\n3,1,0,9,0\n4,1,1,1,0\n"};
  static const char *const circle[FILES] = {
      FINE, FINE, A "0,1,1,,\n\n2,1,1,3,0\n1,1,0,,0\n3,1,1,4,0\n4,1,1,1,0\n9,1,1,3,0\n"};
  static const char *const own[FILES] = {A "0,1,1,,\n1,1,1,1,0\n", FINE, FINE};
  expect_shard_error(beyond, 1, 4,
                     "this row waits for row 2, but the last row of the file is 1 (the first is "
                     "0)");
  expect_shard_error(dropped, 2, 3,
                     "this row waits for row 9, but the last row of the file is 2 (the first is "
                     "0)");
  expect_shard_error(circle, 2, 4, CIRCLE_OF("6"));
  expect_shard_error(own, 0, 3, "this row waits for itself, so it could never start");
}

#ifdef KC_FAULTS
static void names_without_memory(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_diag diag;
  setenv("KVCAP_FAULT", "trace_files_memory", 1);
  assert_int_equal(parse_text(&trace, H "\n0,1,1\n", &diag), KC_ERR_MEMORY);
  unsetenv("KVCAP_FAULT");
  assert_string_equal(diag.text, "out of memory: the names of 1 files");
  assert_null(trace.row);
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_follow_sorted_rows),
      cmocka_unit_test(no_lines_unless_asked),
      cmocka_unit_test(lines_of_documents),
      cmocka_unit_test(rows_name_their_shard),
      cmocka_unit_test(rows_that_wait_in_vain_are_named),
#ifdef KC_FAULTS
      cmocka_unit_test(names_without_memory),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
