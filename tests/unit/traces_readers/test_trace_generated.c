/* Random traces written in random dialects: line ends, quotes, spaces, column order, extra columns,
 * blank lines, byte-order mark, zones, compression, disorder. The rows are known before they are
 * written, so the reader is compared with the truth, not with itself. Memory failures last. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "trace_text.h"

enum { SEEDS = 600, ROWS_MAX = 120, TEXT_BYTES = 64 << 10 };

struct dialect {
  bool azure, crlf, bom, final_newline, quotes, spaces, blanks, zones, packed, disorder;
  unsigned extra;    /* further columns, before, between and after */
  unsigned order[3]; /* column position -> role: 0 time, 1 input, 2 output */
};

struct text {
  char bytes[TEXT_BYTES];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  const size_t room = TEXT_BYTES - text->used;
  const int length = vsnprintf(text->bytes + text->used, room, format, arguments);
  va_end(arguments);
  assert_true(length >= 0 && text->used + (size_t)length < TEXT_BYTES);
  text->used += (size_t)length;
}

static bool flip(struct kc_random *random)
{
  return kc_random_chance(random, 1, 2);
}

static struct dialect draw_dialect(struct kc_random *random)
{
  struct dialect dialect = {
      .azure = flip(random), .crlf = flip(random), .bom = flip(random),
      .final_newline = flip(random), .quotes = flip(random), .spaces = flip(random),
      .blanks = flip(random), .zones = flip(random), .packed = flip(random),
      .disorder = flip(random), .extra = (unsigned)kc_random_below(random, 3), .order = {0, 1, 2}};
  for (unsigned i = 2; i > 0; i--) {
    const unsigned j = (unsigned)kc_random_below(random, i + 1);
    const unsigned keep = dialect.order[i];
    dialect.order[i] = dialect.order[j];
    dialect.order[j] = keep;
  }
  return dialect;
}

static void add_cell(struct text *text, struct kc_random *random, const struct dialect *dialect,
                     const char *value)
{
  const bool quote = dialect->quotes && flip(random);
  const char *const space = dialect->spaces && flip(random) ? " \t" : "";
  add(text, "%s%s%s%s%s", space, quote ? "\"" : "", value, quote ? "\"" : "", space);
}

static void add_line_end(struct text *text, struct kc_random *random, const struct dialect *dialect)
{
  do {
    add(text, dialect->crlf ? "\r\n" : "\n");
  } while (dialect->blanks && kc_random_chance(random, 1, 8));
}

/* Three cells in the dialect's order, with extra ones around them. */
static void add_row(struct text *text, struct kc_random *random, const struct dialect *dialect,
                    const char *const value[3], bool header)
{
  for (unsigned i = 0; i < 3; i++) {
    if (i > 0) add(text, ",");
    if (i == 1 && dialect->extra > 0) add(text, header ? "note," : "\"a, \"\"b\"\"\",");
    add_cell(text, random, dialect, value[dialect->order[i]]);
  }
  if (dialect->extra > 1) add(text, header ? ",x" : ",");
}

/* An instant `at_us` after 2024-02-28 23:00:00Z, two zones wide across the leap day. */
static void format_time(char out[64], struct kc_random *random, const struct dialect *dialect,
                        uint64_t at_us)
{
  if (!dialect->azure) {
    snprintf(out, 64, "%" PRIu64 ".%06" PRIu64, at_us / 1000000 + 7, at_us % 1000000);
    return;
  }
  const uint64_t east_hours = dialect->zones ? kc_random_below(random, 14) : 0;
  const uint64_t second = 23 * 3600 + at_us / 1000000 + east_hours * 3600;
  const uint64_t day = 28 + second / 86400; /* 28, 29, then 1 March */
  assert_true(day <= 30);
  char zone[16] = "";
  if (dialect->zones) snprintf(zone, sizeof zone, "+%02u:00", (unsigned)east_hours);
  snprintf(out, 64, "2024-%s %02u:%02u:%02u.%06u0%s",
           day == 28 ? "02-28" : day == 29 ? "02-29" : "03-01", (unsigned)(second / 3600 % 24),
           (unsigned)(second / 60 % 60), (unsigned)(second % 60), (unsigned)(at_us % 1000000),
           zone);
}

struct truth {
  uint64_t at_us;
  uint32_t input, output;
};

/* Rows with their times rising by 0 (ties) to 60 s; or any order. */
static uint32_t draw_rows(struct kc_random *random, const struct dialect *dialect,
                          struct truth row[ROWS_MAX])
{
  const uint32_t count = 1 + (uint32_t)kc_random_below(random, ROWS_MAX);
  uint64_t at_us = 0;
  for (uint32_t i = 0; i < count; i++) {
    at_us += flip(random) ? 0 : kc_random_below(random, 60000000);
    row[i].at_us = dialect->disorder ? kc_random_below(random, 40) * 1000000 : at_us;
    row[i].input = 1 + (uint32_t)(kc_random_u64(random) >> (33 + kc_random_below(random, 30)));
    row[i].output = 1 + (uint32_t)(kc_random_u64(random) >> (33 + kc_random_below(random, 30)));
  }
  return count;
}

static void write_trace(struct text *text, struct kc_random *random, const struct dialect *dialect,
                        const struct truth *row, uint32_t count)
{
  static const char *const azure[3] = {"timestamp", "CONTEXTTOKENS", "GeneratedTokens"};
  static const char *const vidur[3] = {"Arrived_At", "num_prefill_tokens", "NUM_DECODE_TOKENS"};
  text->used = 0;
  if (dialect->bom) add(text, "\xef\xbb\xbf");
  add_row(text, random, dialect, dialect->azure ? azure : vidur, true);
  for (uint32_t i = 0; i < count; i++) {
    char at[64], input[16], output[16];
    format_time(at, random, dialect, row[i].at_us);
    snprintf(input, sizeof input, "%u", row[i].input);
    snprintf(output, sizeof output, "%u", row[i].output);
    add_line_end(text, random, dialect);
    add_row(text, random, dialect, (const char *const[3]){at, input, output}, false);
  }
  if (dialect->final_newline) add_line_end(text, random, dialect);
}

/* Stable insertion sort: too plain to be wrong. */
static void sort_truth(struct truth *row, uint32_t count)
{
  for (uint32_t i = 1; i < count; i++) {
    const struct truth moving = row[i];
    uint32_t at = i;
    for (; at > 0 && row[at - 1].at_us > moving.at_us; at--) row[at] = row[at - 1];
    row[at] = moving;
  }
}

static void one_seed(uint64_t seed)
{
  static struct text text;
  static struct truth row[ROWS_MAX];
  struct kc_random random;
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_random_init(&random, seed, "generated-traces", 0);
  const struct dialect dialect = draw_dialect(&random);
  const uint32_t count = draw_rows(&random, &dialect, row);
  write_trace(&text, &random, &dialect, row, count);
  sort_truth(row, count);
  kc_trace_options_default(&options);
  size_t packed_bytes = 0;
  char *const packed = dialect.packed ? gzip_bytes(text.bytes, text.used, &packed_bytes) : NULL;
  const enum kc_err result =
      parse_text_with(&trace, dialect.packed ? packed : text.bytes,
                      dialect.packed ? packed_bytes : text.used, &options, &diag);
  free(packed);
  if (result != KC_OK) {
    fail_msg("seed %" PRIu64 ": line %" PRIu64 ": %s", seed, diag.line, diag.text);
  }
  assert_int_equal(trace.count, count);
  for (uint32_t i = 0; i < count; i++) {
    const kc_ps at = (kc_ps)(row[i].at_us - row[0].at_us) * KC_PS_PER_US;
    if (trace.row[i].arrival_ps != at || trace.row[i].input_tokens != row[i].input ||
        trace.row[i].output_tokens != row[i].output) {
      fail_msg("seed %" PRIu64 " row %u: %" PRId64 " ps %u %u, expected %" PRId64 " ps %u %u", seed,
               i, trace.row[i].arrival_ps, trace.row[i].input_tokens, trace.row[i].output_tokens,
               at, row[i].input, row[i].output);
    }
  }
  assert_int_equal(trace.note[KC_NOTE_BOM], dialect.bom);
  assert_int_equal(trace.note[KC_NOTE_NO_FINAL_NEWLINE], !dialect.final_newline);
  assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], dialect.extra);
  kc_trace_free(&trace);
}

static void every_dialect_gives_the_same_rows(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) one_seed(seed);
}

/* 10,000 rows in reverse: many merge passes, and the array grows past its first estimate (the first
 * row is by far the longest). */
static void long_unsorted_trace(void **state)
{
  (void)state;
  enum { COUNT = 10000, LINE_BYTES = 128 };
  char *const text = malloc(COUNT * LINE_BYTES);
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  assert_non_null(text);
  size_t used = (size_t)snprintf(text, LINE_BYTES,
                                 "num_decode_tokens,num_prefill_tokens,arrived_at\n");
  for (int i = 0; i < COUNT; i++) {
    used += (size_t)snprintf(text + used, LINE_BYTES, "%d,%d,%0*d\n", i + 1, i + 2,
                             i == 0 ? 90 : 1, (COUNT - 1 - i) / 2);
  }
  kc_trace_options_default(&options);
  assert_int_equal(parse_text_with(&trace, text, used, &options, &diag), KC_OK);
  for (uint64_t i = 0; i < COUNT; i++) {
    /* second s holds rows 9998 - 2s and 9999 - 2s, in file order */
    const uint32_t line = (uint32_t)(COUNT - 2 - i / 2 * 2 + i % 2);
    assert_row(&trace, i, (kc_ps)(i / 2) * KC_PS_PER_S, line + 2, line + 1);
  }
  assert_int_equal(trace.note[KC_NOTE_TIES], COUNT / 2);
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], COUNT / 2 - 1);
  kc_trace_free(&trace);
  free(text);
}

#ifdef KC_FAULTS
static void memory_failures_are_errors(void **state)
{
  (void)state;
  static const char text[] = "num_prefill_tokens,num_decode_tokens,arrived_at\n1,1,2\n1,1,1\n";
  static const char *const faults[] = {"trace_rows_memory", "trace_sort_memory",
                                       "trace_gzip_memory"};
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  size_t packed_bytes;
  char *const packed = gzip_bytes(text, sizeof text - 1, &packed_bytes);
  kc_trace_options_default(&options);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    setenv("KVCAP_FAULT", faults[i], 1);
    assert_int_equal(parse_text_with(&trace, packed, packed_bytes, &options, &diag), KC_ERR_MEMORY);
    assert_non_null(strstr(diag.text, "out of memory: "));
    assert_null(trace.row);
    unsetenv("KVCAP_FAULT");
  }
  assert_int_equal(parse_text_with(&trace, packed, packed_bytes, &options, &diag), KC_OK);
  kc_trace_free(&trace);
  free(packed);
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dialect_gives_the_same_rows),
      cmocka_unit_test(long_unsorted_trace),
#ifdef KC_FAULTS
      cmocka_unit_test(memory_failures_are_errors),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
