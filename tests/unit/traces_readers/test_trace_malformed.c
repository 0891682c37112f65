/* Broken trace files, each with the exact message that a person gets. A row of the table is the
 * file and "path:line:column: sentence"; nothing is left to the reader's imagination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_text.h"

#define A "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define V "arrived_at,num_prefill_tokens,num_decode_tokens\n"
#define DAY "2023-11-16 18:17:03"

#define DATE_WANTED                                                                               \
  "; expected a date and time like 2023-11-16 18:17:03.9799600 or 2024-05-12T00:00:00+00:00"
#define SECONDS_WANTED "; expected seconds, 0 or more, like 98.189 or 1e-05"
#define TOKENS_WANTED ": expected a whole number from 0 to 4294967295"
#define HEADER_AZURE                                                                              \
  ": format azure has the header \"TIMESTAMP,ContextTokens,GeneratedTokens\", this file has "
#define HEADER_VIDUR                                                                              \
  ": format vidur has the header \"arrived_at,num_prefill_tokens,num_decode_tokens\", this file " \
  "has "
#define KNOWN                                                                                     \
  "; known headers are azure \"TIMESTAMP,ContextTokens,GeneratedTokens\", vidur "                 \
  "\"arrived_at,num_prefill_tokens,num_decode_tokens\", ..."
#define FIRST_LINE_WANTED                                                                         \
  ", not column names; expected a header like \"TIMESTAMP,ContextTokens,GeneratedTokens\" or "    \
  "\"arrived_at,num_prefill_tokens,num_decode_tokens\""
#define JSON_ARRAY                                                                          \
  "t.csv: this is a JSON array, which no reader of this program takes; expected one object " \
  "a line, a document that is an object, or CSV with a header line"
#define FORMATS                                                                                 \
  "azure, vidur, kvcap-trace, mooncake, bailian, servegen, burstgpt, tracelab, tracelab-rounds, " \
  "weka, llmservingsim, benchlog, bench-result, aiperf"
#define TOO_FAR \
  ": more than 106 days away from another row, which is as long as a run can be; split the trace"

/* A literal with its length, so that it may hold NUL bytes. */
#define BYTES(text) (text), sizeof(text) - 1

#define SERVEGEN_CLIENT                                                                     \
  "t.csv: this is a client of a ServeGen pool (rates and lengths, not requests); make requests " \
  "of its folder with `kvcap trace synth OUT --servegen FOLDER`"

struct malformed {
  const char *text;
  size_t bytes;
  const char *message;
};

static const struct malformed framing[] = {
    {BYTES(""), "t.csv: the file is empty; expected a header line such as "
                "\"TIMESTAMP,ContextTokens,GeneratedTokens\""},
    {BYTES("\n\r\n \n"), "t.csv: the file has only blank lines; expected a header line such as "
                         "\"TIMESTAMP,ContextTokens,GeneratedTokens\""},
    {BYTES("\xef\xbb\xbf"), "t.csv: the file has only blank lines; expected a header line such as "
                            "\"TIMESTAMP,ContextTokens,GeneratedTokens\""},
    {BYTES(A), "t.csv: no requests: there is a header and no row below it"},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens"),
     "t.csv: no requests: there is a header and no row below it"},
    {BYTES(V "\n\n"), "t.csv: no requests: there is a header and no row below it"},
    {BYTES("\n [1]\n"), JSON_ARRAY},
    {BYTES("<?xml version=\"1.0\"?>\n"),
     "t.csv: this is an XML document, not a trace; expected CSV with a header line"},
    {BYTES("\xff\xfeT\0I\0"), "t.csv: this is UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t "
                              "UTF-8 turns it)"},
    {BYTES("\x28\xb5\x2f\xfd...."),
     "t.csv: this is compressed by zstd; unpack it first (zstd -d), or use gzip"},
    {BYTES("\xfd" "7zXZ\0\0"),
     "t.csv: this is compressed by xz; unpack it first (xz -d), or use gzip"},
    {BYTES("BZh91AY"),
     "t.csv: this is compressed by bzip2; unpack it first (bzip2 -d), or use gzip"},
    {BYTES("PK\x03\x04...."), "t.csv: this is a zip archive; unpack it first (unzip)"},
    {BYTES("0,0.105,0.925,Gamma,1.168,8.055\n600,0,0,,0,0\n"), SERVEGEN_CLIENT},
    {BYTES("0,0,0,,0,0\r\n"), SERVEGEN_CLIENT},
    {BYTES("{\n \"21600\": {\n  \"input_tokens\": \"{39: 0.5}\"}}\n"), SERVEGEN_CLIENT},
    {BYTES("{\"0\":{\"text_tokens\":\"{}\"}}"), SERVEGEN_CLIENT},
    {BYTES("PAR1...."), "t.csv: this is a Parquet file; export it as CSV first"},
    {BYTES(A DAY ",1\0,2\n"),
     "t.csv:2:22: a NUL byte; expected text (damaged, binary or UTF-16 file?)"},
    {BYTES("T\0I"), "t.csv:1:2: a NUL byte; expected text (damaged, binary or UTF-16 file?)"},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\r" DAY ",1,2\r"),
     "t.csv:1: lines end in CR alone; expected LF or CR LF"},
    {BYTES(V "0,1,2\r3,4,5"), "t.csv:2: 5 cells, but the header has 3 columns"},
};

static const struct malformed headers[] = {
    {BYTES("a,b,c\n1,2,3\n"), "t.csv:1: no known trace format has these columns: a, b, c" KNOWN},
    {BYTES("\n\nx\n"), "t.csv:3: no known trace format has these columns: x" KNOWN},
    {BYTES("TIMESTAMP,ContextTokens\n"), "t.csv:1: column GeneratedTokens is missing" HEADER_AZURE
                                         "TIMESTAMP, ContextTokens"},
    {BYTES("ContextTokens\n"),
     "t.csv:1: columns TIMESTAMP, GeneratedTokens are missing" HEADER_AZURE "ContextTokens"},
    {BYTES("arrived_at,num_prefill_tokens\n"),
     "t.csv:1: column num_decode_tokens is missing" HEADER_VIDUR "arrived_at, num_prefill_tokens"},
    {BYTES("Timestamp,Prompt,Answer\n"),
     "t.csv:1: columns ContextTokens, GeneratedTokens are missing" HEADER_AZURE
     "Timestamp, Prompt, Answer"},
    {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens,contexttokens\n"),
     "t.csv:1: column ContextTokens is there twice; remove one"},
    {BYTES("arrived_at,Time,num_prefill_tokens,num_decode_tokens\n"),
     "t.csv:1: column arrived_at is there twice; remove one"},
    {BYTES("TIMESTAMP;ContextTokens;GeneratedTokens\n"),
     "t.csv:1: cells are separated by ';' here; expected commas"},
    {BYTES("TIMESTAMP\tContextTokens\tGeneratedTokens\n"),
     "t.csv:1: cells are separated by tabs here; expected commas"},
    {BYTES("TIMESTAMP|ContextTokens|GeneratedTokens\n"),
     "t.csv:1: cells are separated by '|' here; expected commas"},
    {BYTES(DAY ".9799600,4808,10\n"),
     "t.csv:1:1: the first line holds data (\"2023-11-16 18:17:03.9799600\")" FIRST_LINE_WANTED},
    {BYTES("0.0,4808,10\n"), "t.csv:1:1: the first line holds data (\"0.0\")" FIRST_LINE_WANTED},
    {BYTES("TIMESTAMP,\"ContextTokens,GeneratedTokens\n"),
     "t.csv:1:11: a quoted cell is not closed before the end of the line"},
};

static const struct malformed cells[] = {
    {BYTES(A DAY ",4808\n"), "t.csv:2: 2 cells, but the header has 3 columns"},
    {BYTES(A DAY ",4808,10,\n"), "t.csv:2: 4 cells, but the header has 3 columns"},
    {BYTES(A DAY ",1,2\n" DAY ";3;4\n"),
     "t.csv:3: 1 cell, but the header has 3 columns (';' separates cells here; expected commas)"},
    {BYTES(V "0,5,1,2\n"), "t.csv:2: 4 cells, but the header has 3 columns"},
    {BYTES(A DAY ",\"4808,10\n"),
     "t.csv:2:21: a quoted cell is not closed before the end of the line"},
    {BYTES(A DAY ",\"4808\"1,10\n"),
     "t.csv:2:27: text follows a closing quote; expected a comma or the end of the line"},
    {BYTES(A DAY ",48\"08,10\n"), "t.csv:2:23: a quote inside a cell that is not quoted; quote the "
                                  "whole cell and double the quotes in it"},
    {BYTES(A DAY ",,10\n"), "t.csv:2:21: ContextTokens is \"\"" TOKENS_WANTED},
    {BYTES(A DAY ",1,-5\n"), "t.csv:2:23: GeneratedTokens is \"-5\"" TOKENS_WANTED},
    {BYTES(A DAY ",+1,5\n"), "t.csv:2:21: ContextTokens is \"+1\"" TOKENS_WANTED},
    {BYTES(A DAY ",1e3,5\n"), "t.csv:2:21: ContextTokens is \"1e3\"" TOKENS_WANTED},
    {BYTES(A DAY ",0x10,5\n"), "t.csv:2:21: ContextTokens is \"0x10\"" TOKENS_WANTED},
    {BYTES(A DAY ",1 0,5\n"), "t.csv:2:21: ContextTokens is \"1 0\"" TOKENS_WANTED},
    {BYTES(A DAY ",4808.0,5\n"), "t.csv:2:21: ContextTokens is \"4808.0\"" TOKENS_WANTED},
    {BYTES(A DAY ",null,5\n"), "t.csv:2:21: ContextTokens is \"null\"" TOKENS_WANTED},
    {BYTES(A DAY ",nan,5\n"), "t.csv:2:21: ContextTokens is \"nan\"" TOKENS_WANTED},
    {BYTES(A DAY ",inf,5\n"), "t.csv:2:21: ContextTokens is \"inf\"" TOKENS_WANTED},
    {BYTES(A DAY ",4294967296,5\n"), "t.csv:2:21: ContextTokens is \"4294967296\"" TOKENS_WANTED},
    {BYTES(A DAY ",9223372036854775808,5\n"),
     "t.csv:2:21: ContextTokens is \"9223372036854775808\"" TOKENS_WANTED},
    {BYTES(A DAY ",18446744073709551617,5\n"),
     "t.csv:2:21: ContextTokens is \"18446744073709551617\"" TOKENS_WANTED},
    {BYTES(A DAY ",1234567890123456789012345678901234567890x,5\n"),
     "t.csv:2:21: ContextTokens is \"1234567890123456789012345678901234567890...\"" TOKENS_WANTED},
    {BYTES(A DAY ",\x1b[31m,5\n"), "t.csv:2:21: ContextTokens is \"?[31m\"" TOKENS_WANTED},
    {BYTES(A DAY ",7,0\n"),
     "t.csv:2:23: GeneratedTokens is \"0\": a request that produced nothing; set zero_output to "
     "drop such rows or to floor them to 1 token"},
    {BYTES("num_prefill_tokens,num_decode_tokens\n,1\n"),
     "t.csv:2:1: num_prefill_tokens is \"\"" TOKENS_WANTED},
    {BYTES("Time,PromptTokenCount,GeneratedTokenCount\n0,1,x\n"),
     "t.csv:2:5: GeneratedTokenCount is \"x\"" TOKENS_WANTED},
};

#define DATE(text, fault)                                                   \
  {                                                                         \
    BYTES(A text ",1,2\n"), "t.csv:2:1: TIMESTAMP is \"" text "\": it " fault DATE_WANTED \
  }
#define SECONDS(text, fault)                                                     \
  {                                                                              \
    BYTES(V text ",1,2\n"), "t.csv:2:1: arrived_at is \"" text "\": it " fault SECONDS_WANTED \
  }

static const struct malformed times[] = {
    DATE("", "is not a time"),
    DATE("2023-11-16", "is not a time"),
    DATE("2023-11-16 18:17", "is not a time"),
    DATE("2023/11/16 18:17:03", "is not a time"),
    DATE("16-11-2023 18:17:03", "is not a time"),
    DATE("2023-11-16x18:17:03", "is not a time"),
    DATE("2023-11-16  8:17:03", "is not a time"),
    DATE("2023-11-16 18:17:03.", "is not a time"),
    DATE("2023-11-16 18:17:03.5 UTC", "is not a time"),
    DATE("2023-11-16 18:17:03+1:00", "is not a time"),
    DATE("2023-11-16 18:17:03+0a:00", "is not a time"),
    DATE("-023-11-16 18:17:03", "is not a time"),
    DATE("2023-13-16 18:17:03", "names a day that the calendar does not have"),
    DATE("2023-00-16 18:17:03", "names a day that the calendar does not have"),
    DATE("2023-11-31 18:17:03", "names a day that the calendar does not have"),
    DATE("2023-02-29 18:17:03", "names a day that the calendar does not have"),
    DATE("1900-02-29 18:17:03", "names a day that the calendar does not have"),
    DATE("2023-11-16 24:00:00", "names a time of day beyond 23:59:59"),
    DATE("2023-11-16 18:60:03", "names a time of day beyond 23:59:59"),
    DATE("2016-12-31 23:59:60", "names a time of day beyond 23:59:59"),
    DATE("2023-11-16 18:17:03.0000000000001",
         "has more than 12 digits after the point (picoseconds)"),
    DATE("2023-11-16 18:17:03+18:01", "has a zone offset beyond 18:00"),
    DATE("2023-11-16 18:17:03-05:60", "has a zone offset beyond 18:00"),
    SECONDS("", "is not a time"),
    SECONDS("inf", "is not a time"),
    SECONDS("-inf", "is not a time"),
    SECONDS("nan", "is not a time"),
    SECONDS("1.", "is not a time"),
    SECONDS(".5", "is not a time"),
    SECONDS("+1", "is not a time"),
    SECONDS("--1", "is not a time"),
    SECONDS("1e", "is not a time"),
    SECONDS("1e+", "is not a time"),
    SECONDS("1.5.2", "is not a time"),
    SECONDS("0x1p3", "is not a time"),
    SECONDS("12:30", "is not a time"),
    SECONDS("-1", "is negative"),
    SECONDS("-1e-30", "is negative"),
    SECONDS("1000000000000000000", "is beyond 10^18 seconds"),
    SECONDS("1e18", "is beyond 10^18 seconds"),
    SECONDS("1e999999999999999999999", "is beyond 10^18 seconds"),
    {BYTES(V "0,1,2\n9223373,1,2\n"), "t.csv:3:1: arrived_at is \"9223373\"" TOO_FAR},
    {BYTES(V "0,1,2\n999999999999999999,1,2\n"),
     "t.csv:3:1: arrived_at is \"999999999999999999\"" TOO_FAR},
    {BYTES(A "2023-11-16 00:00:00,1,2\n2024-03-02 00:00:00,1,2\n"),
     "t.csv:3:1: TIMESTAMP is \"2024-03-02 00:00:00\"" TOO_FAR},
    {BYTES(A "2023-11-16 00:00:00,1,2\n2023-09-16 00:00:00,1,2\n2024-01-16 00:00:00,1,2\n"),
     "t.csv:4:1: TIMESTAMP is \"2024-01-16 00:00:00\"" TOO_FAR},
    {BYTES(A "2023-11-16 00:00:00,1,2\n2023-11-16 00:00:01Z,1,2\n"),
     "t.csv:3:1: TIMESTAMP is \"2023-11-16 00:00:01Z\": it names a time zone where the first row "
     "names none; expected all rows alike"},
    {BYTES(A "2023-11-16 00:00:00Z,1,2\n2023-11-16 00:00:01,1,2\n"),
     "t.csv:3:1: TIMESTAMP is \"2023-11-16 00:00:01\": it names no time zone where the first row "
     "names one; expected all rows alike"},
};

/* Returns 1 and prints both texts when they differ. */
static int check_message(const char *text, size_t bytes, const struct kc_trace_options *options,
                         enum kc_err code, const char *message)
{
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024] = "(accepted)";
  const enum kc_err result = parse_text_with(&trace, text, bytes, options, &diag);
  if (result != KC_OK) kc_diag_print(&diag, line, sizeof line);
  const bool empty = trace.row == NULL || result == KC_OK;
  kc_trace_free(&trace);
  if (result == code && empty && strcmp(line, message) == 0) return 0;
  print_error("input:    %.60s\ncode:     %d, expected %d\ngot:      %s\nexpected: %s\n", text,
              (int)result, (int)code, line, message);
  return 1;
}

static void check_table(const struct malformed *table, size_t count)
{
  struct kc_trace_options options;
  int wrong = 0;
  kc_trace_options_default(&options);
  for (size_t i = 0; i < count; i++) {
    wrong += check_message(table[i].text, table[i].bytes, &options, KC_ERR_INPUT, table[i].message);
  }
  assert_int_equal(wrong, 0);
}

static void framing_messages(void **state)
{
  (void)state;
  check_table(framing, sizeof framing / sizeof framing[0]);
}

static void header_messages(void **state)
{
  (void)state;
  check_table(headers, sizeof headers / sizeof headers[0]);
}

static void cell_messages(void **state)
{
  (void)state;
  check_table(cells, sizeof cells / sizeof cells[0]);
}

static void time_messages(void **state)
{
  (void)state;
  check_table(times, sizeof times / sizeof times[0]);
}

/* CR LF changes no message (a bare CR and a NUL apart, which are about line ends themselves). */
static void messages_are_the_same_with_crlf(void **state)
{
  (void)state;
  static const struct {
    const struct malformed *table;
    size_t count;
  } tables[] = {{headers, sizeof headers / sizeof headers[0]},
                {cells, sizeof cells / sizeof cells[0]},
                {times, sizeof times / sizeof times[0]}};
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    for (size_t i = 0; i < tables[t].count; i++) {
      const struct malformed *const one = &tables[t].table[i];
      char crlf[1024];
      size_t bytes = 0;
      assert_true(one->bytes * 2 <= sizeof crlf);
      for (size_t k = 0; k < one->bytes; k++) {
        if (one->text[k] == '\n') crlf[bytes++] = '\r';
        crlf[bytes++] = one->text[k];
      }
      const struct malformed turned = {crlf, bytes, one->message};
      check_table(&turned, 1);
    }
  }
}

static void options_and_ceilings(void **state)
{
  (void)state;
  struct kc_trace_options options;
  int wrong = 0;
  kc_trace_options_default(&options);
  options.format = "vidur";
  wrong += check_message(BYTES(A DAY ",1,2\n"), &options, KC_ERR_INPUT,
                         "t.csv:1: columns num_prefill_tokens, num_decode_tokens are missing"
                         HEADER_VIDUR "TIMESTAMP, ContextTokens, GeneratedTokens");
  options.format = "azure";
  wrong += check_message(BYTES(V "0,1,2\n"), &options, KC_ERR_INPUT,
                         "t.csv:1: columns TIMESTAMP, ContextTokens, GeneratedTokens are missing"
                         HEADER_AZURE "arrived_at, num_prefill_tokens, num_decode_tokens");
  options.format = "moonshine";
  wrong += check_message(BYTES(V "0,1,2\n"), &options, KC_ERR_USAGE,
                         "unknown trace format \"moonshine\"; expected one of " FORMATS);
  kc_trace_options_default(&options);
  options.rows_max = 0;
  wrong += check_message(BYTES(V "0,1,2\n"), &options, KC_ERR_USAGE,
                         "rows_max is 0; expected 1 or more");
  options.rows_max = 2;
  wrong += check_message(BYTES(V "0,1,2\n1,1,2\n2,1,2\n"), &options, KC_ERR_LIMIT,
                         "t.csv:4: more than 2 rows, the ceiling rows_max; split the trace or "
                         "raise it");
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  wrong += check_message(BYTES(V "0,1,0\n1,1,0\n"), &options, KC_ERR_INPUT,
                         "t.csv: no requests are left: all 2 rows have zero output and were "
                         "dropped");
  assert_int_equal(wrong, 0);
}

static void overlong_line_and_too_many_columns(void **state)
{
  (void)state;
  enum { BYTES_TOTAL = KC_TRACE_LINE_BYTES_MAX + 64 };
  struct kc_trace_options options;
  int wrong = 0;
  char *const text = malloc(BYTES_TOTAL);
  assert_non_null(text);
  kc_trace_options_default(&options);
  memset(text, 'x', BYTES_TOTAL);
  memcpy(text, V, sizeof V - 1);
  wrong += check_message(text, BYTES_TOTAL, &options, KC_ERR_LIMIT,
                         "t.csv:2: a line of more than 16777216 bytes, the ceiling of a trace; is "
                         "this a text file?");
  size_t packed_bytes;
  char *const packed = gzip_bytes(text, BYTES_TOTAL, &packed_bytes);
  wrong += check_message(packed, packed_bytes, &options, KC_ERR_LIMIT,
                         "t.csv:2: a line of more than 16777216 bytes, the ceiling of a trace; is "
                         "this a text file?");
  free(packed);
  memset(text, ',', 300);
  memcpy(text, "x", 1);
  wrong += check_message(text, 300, &options, KC_ERR_LIMIT,
                         "t.csv:1: 300 columns; 256 is the ceiling of a trace");
  free(text);
  assert_int_equal(wrong, 0);
}

static void damaged_gzip(void **state)
{
  (void)state;
  static const char text[] = V "0,1,2\n1,3,4\n";
  struct kc_trace_options options;
  int wrong = 0;
  size_t bytes;
  char *const packed = gzip_bytes(text, sizeof text - 1, &bytes);
  kc_trace_options_default(&options);
  wrong += check_message(packed, bytes - 4, &options, KC_ERR_INPUT,
                         "t.csv: gzip data ends early, after 60 inflated bytes; fetch it again");
  wrong += check_message(packed, 2, &options, KC_ERR_INPUT,
                         "t.csv: gzip data ends early, after 0 inflated bytes; fetch it again");
  packed[bytes - 8] = (char)(packed[bytes - 8] ^ 1); /* the stored CRC, read in one go */
  char crc_message[160];
  snprintf(crc_message, sizeof crc_message,
           "t.csv: gzip data is damaged at or before byte %zu of %zu, after 60 inflated bytes "
           "(incorrect data check); fetch it again", bytes - 4, bytes);
  wrong += check_message(packed, bytes, &options, KC_ERR_INPUT,
                         crc_message);
  size_t twice_bytes, empty_bytes;
  char *const twice = gzip_bytes(packed, bytes, &twice_bytes);
  wrong += check_message(twice, twice_bytes, &options, KC_ERR_INPUT,
                         "t.csv: this is compressed by gzip twice; unpack it once (gzip -d)");
  char *const empty = gzip_bytes("", 0, &empty_bytes);
  wrong += check_message(empty, empty_bytes, &options, KC_ERR_INPUT,
                         "t.csv: the file is empty; expected a header line such as "
                         "\"TIMESTAMP,ContextTokens,GeneratedTokens\"");
  free(packed);
  free(twice);
  free(empty);
  char tar[512] = "trace.csv";
  memcpy(tar + 257, "ustar", 5);
  char *const packed_tar = gzip_bytes(tar, sizeof tar, &bytes);
  wrong += check_message(packed_tar, bytes, &options, KC_ERR_INPUT,
                         "t.csv: this is a tar archive; unpack it first (tar -xf)");
  free(packed_tar);
  assert_int_equal(wrong, 0);
}

/* A megabyte of rows that gzip can only store: bit by bit flipped, the file is said to be damaged,
 * not the row that the bit made nonsense of. The sum stands at the end, so no earlier place is
 * known. Unharmed, the same row is the row's fault. */
static void bits_of_gzip(void **state)
{
  (void)state;
  enum { ROWS = 60000, ROW_BYTES = 24 };
  struct kc_trace_options options;
  struct kc_trace trace;
  struct kc_diag diag;
  size_t used = (size_t)sizeof V - 1, bytes;
  char *const text = malloc((size_t)ROWS * ROW_BYTES);
  assert_non_null(text);
  memcpy(text, V, used);
  for (uint64_t i = 0; i < ROWS; i++) {
    used += (size_t)snprintf(text + used, ROW_BYTES, "%u,%u,%u\n", (unsigned)i,
                             (unsigned)(i * i * 7919 % 9973 + 1), (unsigned)(i * 31 % 997 + 1));
  }
  char *const packed = gzip_bytes(text, used, &bytes);
  kc_trace_options_default(&options);
  for (size_t at = 20; at < bytes - 8; at += bytes / 23) {
    packed[at] = (char)(packed[at] ^ 0x10);
    assert_int_equal(parse_text_with(&trace, packed, bytes, &options, &diag), KC_ERR_INPUT);
    const bool told = strncmp(diag.text, "gzip data is damaged at or before byte ", 39) == 0 ||
                      strncmp(diag.text, "gzip data ends early", 20) == 0;
    if (!told || diag.line != 0) fail_msg("byte %zu: %s", at, diag.text);
    packed[at] = (char)(packed[at] ^ 0x10);
  }
  free(packed);
  text[sizeof V - 1] = 'x';
  char *const wrong = gzip_bytes(text, used, &bytes);
  assert_int_equal(parse_text_with(&trace, wrong, bytes, &options, &diag), KC_ERR_INPUT);
  assert_int_equal(diag.line, 2);
  free(wrong);
  free(text);
}

/* Many long column names are cut, never overflown. */
static void long_column_lists_are_cut(void **state)
{
  (void)state;
  char text[4096] = "", line[1024];
  size_t used = 0;
  struct kc_trace trace;
  struct kc_diag diag;
  for (int i = 0; i < 60; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%scolumn_number_%d",
                             i > 0 ? "," : "", i);
  }
  snprintf(text + used, sizeof text - used, "\n");
  assert_int_equal(parse_text(&trace, text, &diag), KC_ERR_INPUT);
  kc_diag_print(&diag, line, sizeof line);
  assert_string_equal(line,
                      "t.csv:1: no known trace format has these columns: column_number_0, "
                      "column_number_1, column_number_2, column_number_3, column_number_4, "
                      "column_number_5, column_number_6, column_number_7, "
                      "column_number_8, ..." KNOWN);
  snprintf(text + used, sizeof text - used, ",%s", V "0,1,2\n");
  assert_int_equal(parse_text(&trace, text, &diag), KC_ERR_INPUT);
  kc_diag_print(&diag, line, sizeof line);
  assert_string_equal(line, "t.csv:2: 3 cells, but the header has 63 columns");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(framing_messages),
      cmocka_unit_test(header_messages),
      cmocka_unit_test(cell_messages),
      cmocka_unit_test(time_messages),
      cmocka_unit_test(messages_are_the_same_with_crlf),
      cmocka_unit_test(options_and_ceilings),
      cmocka_unit_test(overlong_line_and_too_many_columns),
      cmocka_unit_test(damaged_gzip),
      cmocka_unit_test(bits_of_gzip),
      cmocka_unit_test(long_column_lists_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
