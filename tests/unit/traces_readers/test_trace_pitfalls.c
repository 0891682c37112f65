/* One test per way in which public trace files break readers. Each names the file or report where
 * it was seen and fails when its handling is taken out. Expected values are computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_text.h"

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens"
#define VIDUR "arrived_at,num_prefill_tokens,num_decode_tokens"
#define ROW_A "2023-11-16 18:17:03.9799600,4808,10"
#define ROW_B "2023-11-16 18:17:04.0319600,3180,8"
#define GAP_AB_PS (INT64_C(52) * KC_PS_PER_MS)

static void assert_two_rows(struct kc_trace *trace)
{
  assert_int_equal(trace->count, 2);
  assert_row(trace, 0, 0, 4808, 10);
  assert_row(trace, 1, GAP_AB_PS, 3180, 8);
  assert_string_equal(trace->format, "azure");
}

/* Azure 2023: CR LF everywhere, so the last header cell is "GeneratedTokens\r"; no final
 * newline. */
static void pitfall_01_crlf_and_no_final_newline(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, AZURE "\r\n" ROW_A "\r\n" ROW_B);
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_CRLF], 2);
  assert_int_equal(trace.note[KC_NOTE_NO_FINAL_NEWLINE], 1);
  kc_trace_free(&trace);
}

/* kubernetes-sigs/inference-perf ships an LF copy of the same rows. */
static void pitfall_02_lf_copy_gives_the_same_rows(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, AZURE "\n" ROW_A "\n" ROW_B "\n");
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_CRLF], 0);
  assert_int_equal(trace.note[KC_NOTE_NO_FINAL_NEWLINE], 0);
  kc_trace_free(&trace);
}

/* Azure LMM 2025 and others come as .csv.gz; members may be concatenated (RFC 1952, 2.2). */
static void pitfall_03_gzip_is_recognised_by_content(void **state)
{
  (void)state;
  static const char head[] = AZURE "\n" ROW_A "\n20", tail[] = "23-11-16 18:17:04.0319600,3180,8\n";
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  size_t first_bytes, second_bytes;
  char *const first = gzip_bytes(head, sizeof head - 1, &first_bytes);
  char *const second = gzip_bytes(tail, sizeof tail - 1, &second_bytes);
  char *const both = malloc(first_bytes + second_bytes);
  assert_non_null(both);
  memcpy(both, first, first_bytes);
  memcpy(both + first_bytes, second, second_bytes);
  kc_trace_options_default(&options);
  assert_int_equal(parse_text_with(&trace, both, first_bytes + second_bytes, &options, &diag),
                   KC_OK);
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_GZIP], 1);
  assert_int_equal(trace.bytes, first_bytes + second_bytes);
  kc_trace_free(&trace);
  free(first);
  free(second);
  free(both);
}

static void assert_message(const char *text, const char *message)
{
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024];
  assert_int_not_equal(parse_text(&trace, text, &diag), KC_OK);
  kc_diag_print(&diag, line, sizeof line);
  assert_string_equal(line, message);
  assert_null(trace.row);
}

/* HPMLL/BurstGPT and qwen-bailian keep their data in git-lfs. */
static void pitfall_04_git_lfs_pointer_is_named(void **state)
{
  (void)state;
  assert_message("version https://git-lfs.github.com/spec/v1\n"
                 "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
                 "size 52283111\n",
                 "t.csv: this is a git-lfs pointer, not the data: run `git lfs pull` in the "
                 "repository it came from");
}

/* Lines of 4 MB exist. One of 5 MiB (an ignored column) is read, plain and compressed. */
static void pitfall_05_very_long_lines(void **state)
{
  (void)state;
  enum { FILL = 5 << 20, BYTES = FILL + 256 };
  static const char head[] = VIDUR ",note\n0.5,3,4,";
  static const char tail[] = "\n0.75,5,6,x\n";
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  char *const text = malloc(BYTES);
  assert_non_null(text);
  memcpy(text, head, sizeof head - 1);
  memset(text + sizeof head - 1, 'z', FILL);
  memcpy(text + sizeof head - 1 + FILL, tail, sizeof tail - 1);
  const size_t bytes = sizeof head - 1 + FILL + sizeof tail - 1;
  size_t packed_bytes;
  char *const packed = gzip_bytes(text, bytes, &packed_bytes);
  kc_trace_options_default(&options);
  for (int compressed = 0; compressed < 2; compressed++) {
    assert_int_equal(parse_text_with(&trace, compressed ? packed : text,
                                     compressed ? packed_bytes : bytes, &options, &diag), KC_OK);
    assert_row(&trace, 0, 0, 3, 4);
    assert_row(&trace, 1, 250 * KC_PS_PER_MS, 5, 6);
    kc_trace_free(&trace);
  }
  free(text);
  free(packed);
}

/* inference-perf skips blank lines; a 0-byte file exists in a public agent corpus. */
static void pitfall_06_blank_lines_and_empty_files(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "\n" AZURE "\n\n \t\r\n" ROW_A "\n\n" ROW_B "\n\n");
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_BLANK_LINES], 5);
  kc_trace_free(&trace);
  assert_message("", "t.csv: the file is empty; expected a header line such as "
                     "\"TIMESTAMP,ContextTokens,GeneratedTokens\"");
}

/* ai-dynamo/aiperf issue 581: a moved address and curl without -L leave a page. */
static void pitfall_07_saved_html_page_is_named(void **state)
{
  (void)state;
  static const char message[] =
      "t.csv: this is an HTML page, not a trace: the download saved an error or redirect page; "
      "fetch it again (curl needs -L to follow redirects)";
  assert_message("<html><head><title>302 Found</title></head></html>\n", message);
  assert_message("\r\n  <!DOCTYPE HTML>\n<p>moved</p>\n", message);
  assert_message("\xef\xbb\xbf<!doctype html>\n", message);
}

/* The same name with other contents is in the wild, so a trace is known by its digest. SHA-256 of
 * the 62 bytes below by sha256sum. */
static void pitfall_08_digest_count_and_span_are_reported(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n0.5,3,4\n2,5,6\n");
  assert_string_equal(trace.sha256,
                      "1fb69c0333d3a68701f5fe7df9fad70d24a8aab072cbae4cc4aa473eb0a7de38");
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.span_ps, 1500 * KC_PS_PER_MS);
  assert_int_equal(trace.bytes, 62);
  kc_trace_free(&trace);
}

/* inference-perf issue 782: timestamps in quotes; other tools quote lists with commas. */
static void pitfall_09_quoted_cells(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "\"TIMESTAMP\",ContextTokens,\"GeneratedTokens\",steps\n"
                   "\"2023-11-16 18:17:03.9799600\", \" 4808 \" ,10,\"[1, 2, \"\"3\"\"]\"\n"
                   "2023-11-16 18:17:04.0319600,3180,8,\n");
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_QUOTED_CELLS], 5);
  kc_trace_free(&trace);
}

/* BurstGPT inserted columns, vidur renamed them (microsoft/vidur pull request 29), LMM 2025 put one
 * second: map by name, in any case and order, with spaces. */
static void pitfall_10_columns_by_name(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "region, GENERATEDTOKENS ,contexttokens,NumImages,\tTimestamp\n"
                   "eu,10,4808,0,2023-11-16 18:17:03.9799600\n"
                   "us,8,3180,1,2023-11-16 18:17:04.0319600\n");
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], 2);
  assert_string_equal(trace.ignored_columns, "region, NumImages");
  kc_trace_free(&trace);
  parse_ok(&trace, "Time,PromptTokenCount,GeneratedTokenCount\n1.25,3,4\n");
  assert_string_equal(trace.format, "vidur");
  assert_row(&trace, 0, 0, 3, 4);
  kc_trace_free(&trace);
  assert_message("ContextTokens,GeneratedTokens\n3,4\n",
                 "t.csv:1: column TIMESTAMP is missing: format azure has the header "
                 "\"TIMESTAMP,ContextTokens,GeneratedTokens\", this file has ContextTokens, "
                 "GeneratedTokens");
}

/* dynamo pull request 11842: files that mix schemas are refused; a header that fits two formats
 * asks which. */
static void pitfall_11_mixed_and_ambiguous_schemas(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  static const char both[] = AZURE "," VIDUR "\n2023-11-16 18:17:03,1,2,7.5,3,4\n";
  assert_message(both, "t.csv:1: the columns fit format azure and format vidur; say which one is "
                       "meant");
  kc_trace_options_default(&options);
  options.format = "vidur";
  assert_int_equal(parse_text_with(&trace, both, strlen(both), &options, &diag), KC_OK);
  assert_row(&trace, 0, 0, 3, 4);
  kc_trace_free(&trace);
  assert_message(AZURE "\n" ROW_A "\n0.052,3180,8\n",
                 "t.csv:3:1: TIMESTAMP is \"0.052\": it is not a time; expected a date and time "
                 "like 2023-11-16 18:17:03.9799600 or 2024-05-12T00:00:00+00:00");
}

/* inference-perf issue 782: 7 digits; a parser that cut them to two made bursts. 1, 2, 9 and 11 ms
 * must stay apart, and 100 ns counts. */
static void pitfall_13_seven_fraction_digits(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, AZURE "\n2023-11-16 18:17:03.0010000,1,1\n2023-11-16 18:17:03.0020000,1,1\n"
                         "2023-11-16 18:17:03.0090000,1,1\n2023-11-16 18:17:03.0110001,1,1\n");
  assert_row(&trace, 1, 1 * KC_PS_PER_MS, 1, 1);
  assert_row(&trace, 2, 8 * KC_PS_PER_MS, 1, 1);
  assert_row(&trace, 3, 10 * KC_PS_PER_MS + 100 * KC_PS_PER_NS, 1, 1);
  kc_trace_free(&trace);
}

/* Azure 2024: exact seconds lose their fraction, "2024-05-12 00:00:00+00:00". */
static void pitfall_14_missing_fraction_with_zone(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, AZURE "\n2024-05-12 00:00:00+00:00,1452,3\n"
                         "2024-05-12 00:00:00.001163+00:00,584,3\n");
  assert_row(&trace, 0, 0, 1452, 3);
  assert_row(&trace, 1, 1163 * KC_PS_PER_US, 584, 3);
  kc_trace_free(&trace);
}

/* LMM 2025 "2024-10-15T12:00:00.269Z"; zones with an offset name the same instants. */
static void pitfall_15_iso_t_and_z_and_offsets(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, AZURE "\n2024-10-15T12:00:00.269Z,770,491\n"
                         "2024-10-15T14:00:05.819+02:00,949,126\n"
                         "2024-10-15T02:30:06.513-0930,964,79\n2024-10-15t12:00:07.332z,78,5\n"
                         "2024-10-16 00:00:00+12,1,1\n");
  assert_row(&trace, 0, 0, 1, 1); /* the last line is 12:00:00Z of the day before */
  assert_row(&trace, 1, 269 * KC_PS_PER_MS, 770, 491);
  assert_row(&trace, 2, 5819 * KC_PS_PER_MS, 949, 126);
  assert_row(&trace, 3, 6513 * KC_PS_PER_MS, 964, 79);
  assert_row(&trace, 4, 7332 * KC_PS_PER_MS, 78, 5);
  kc_trace_free(&trace);
}

/* guidellm issue 620, and slices that start at 1,178,625 ms: the minimum becomes 0, not the first
 * row; epoch seconds lie beyond what 64 bits of picoseconds hold. */
static void pitfall_17_minimum_is_subtracted(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n1777142984.5,1,1\n1777142983.25,2,2\n1777142990,3,3\n");
  assert_row(&trace, 0, 0, 2, 2);
  assert_row(&trace, 1, 1250 * KC_PS_PER_MS, 1, 1);
  assert_row(&trace, 2, 6750 * KC_PS_PER_MS, 3, 3);
  assert_int_equal(trace.note[KC_NOTE_SHIFTED], 1);
  assert_int_equal(trace.span_ps, 6750 * KC_PS_PER_MS);
  kc_trace_free(&trace);
  parse_ok(&trace, VIDUR "\n0.0,1,1\n1,2,2\n");
  assert_int_equal(trace.note[KC_NOTE_SHIFTED], 0);
  kc_trace_free(&trace);
}

/* LMCache traces are unsorted; ties are common. The sort is stable and both are counted. */
static void pitfall_18_unsorted_rows_and_ties(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n2,1,1\n1,2,1\n2,3,1\n0,4,1\n1,5,1\n2,6,1\n");
  static const uint32_t input[6] = {4, 2, 5, 1, 3, 6};
  static const int second[6] = {0, 1, 1, 2, 2, 2};
  for (uint64_t i = 0; i < 6; i++) assert_row(&trace, i, second[i] * KC_PS_PER_S, input[i], 1);
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], 2);
  assert_int_equal(trace.note[KC_NOTE_TIES], 3);
  kc_trace_free(&trace);
}

/* LLMServingSim takes negative arrivals without a word. */
static void pitfall_20_negative_and_nan_times(void **state)
{
  (void)state;
  assert_message(VIDUR "\n0,1,1\n-0.5,1,1\n",
                 "t.csv:3:1: arrived_at is \"-0.5\": it is negative; expected seconds, 0 or more, "
                 "like 98.189 or 1e-05");
  assert_message(VIDUR "\nNaN,1,1\n",
                 "t.csv:2:1: arrived_at is \"NaN\": it is not a time; expected seconds, 0 or more, "
                 "like 98.189 or 1e-05");
}

/* BurstGPT failures have 0 output tokens (vllm pull request 13063): a policy must be named. */
static void pitfall_23_zero_output_needs_a_policy(void **state)
{
  (void)state;
  static const char text[] = VIDUR "\n1,5,0\n2,6,3\n3,7,0\n";
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  assert_message(text, "t.csv:2:5: num_decode_tokens is \"0\": a request that produced nothing; "
                       "set zero_output to drop such rows or to floor them to 1 token");
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  assert_int_equal(parse_text_with(&trace, text, strlen(text), &options, &diag), KC_OK);
  assert_int_equal(trace.count, 1);
  assert_row(&trace, 0, 0, 6, 3); /* times start at the earliest row that is left */
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_DROPPED], 2);
  assert_int_equal(trace.input_tokens, 6);
  kc_trace_free(&trace);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  assert_int_equal(parse_text_with(&trace, text, strlen(text), &options, &diag), KC_OK);
  assert_row(&trace, 2, 2 * KC_PS_PER_S, 7, 1);
  assert_int_equal(trace.note[KC_NOTE_ZERO_OUTPUT_FLOORED], 2);
  assert_int_equal(trace.output_tokens, 5);
  kc_trace_free(&trace);
}

/* Zero input exists in public loaders' tests; the vidur arXiv file goes down to 1. */
static void pitfall_24_zero_and_tiny_input(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n0,0,2\n1,1,1\n");
  assert_row(&trace, 0, 0, 1, 2);
  assert_row(&trace, 1, KC_PS_PER_S, 1, 1);
  assert_int_equal(trace.note[KC_NOTE_ZERO_INPUT_FLOORED], 1);
  assert_int_equal(trace.input_tokens, 2);
  kc_trace_free(&trace);
}

/* Lengths beyond any context (894,371 and 191,378 are real) are kept whole; the longest are told,
 * so that the user of the trace can decide and say so. */
static void pitfall_26_long_lengths_are_kept_and_told(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n0,894371,2\n1,191378,4294967295\n");
  assert_row(&trace, 0, 0, 894371, 2);
  assert_row(&trace, 1, KC_PS_PER_S, 191378, UINT32_MAX);
  assert_int_equal(trace.input_tokens_max, 894371);
  assert_int_equal(trace.output_tokens_max, UINT32_MAX);
  assert_int_equal(trace.context_tokens_max, UINT64_C(4295158673));
  kc_trace_free(&trace);
}

/* LLMServingSim coerces strings and 13.7; totals are redundant; sums pass 32 bits. */
static void pitfall_27_totals_untrusted_and_numbers_strict(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                   "4000000000,4000000000,7,nan\n3858,133,3991,29.00751879699248\n");
  assert_int_equal(trace.input_tokens, UINT64_C(4000003858));
  assert_int_equal(trace.output_tokens, UINT64_C(4000000133));
  assert_string_equal(trace.ignored_columns, "num_total_tokens, pd_ratio");
  kc_trace_free(&trace);
  assert_message(VIDUR "\n0,13.7,1\n",
                 "t.csv:2:3: num_prefill_tokens is \"13.7\": expected a whole number from 0 to "
                 "4294967295");
}

/* AzurePublicDataset issue 53: no prefix information. Unknown is not 0 %. */
static void pitfall_41_no_prefix_information(void **state)
{
  (void)state;
  struct kc_trace trace;
  memset(&trace, 0xff, sizeof trace);
  parse_ok(&trace, AZURE "\n" ROW_A "\n");
  assert_false(trace.prefix_ids);
  kc_trace_free(&trace);
}

/* A bare traceback helps nobody: file, line and column, also below blank lines and in quotes. */
static void pitfall_44_errors_have_file_line_and_column(void **state)
{
  (void)state;
  assert_message(AZURE "\r\n\r\n" ROW_A "\r\n\"2023-11-16 18:17:04\", 31x80,8\r\n",
                 "t.csv:4:24: ContextTokens is \"31x80\": expected a whole number from 0 to "
                 "4294967295");
}

/* The vidur arXiv file has lengths only. */
static void lengths_only_arrive_at_zero(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "num_prefill_tokens,num_decode_tokens\n3772,54\n2015,156\n");
  assert_row(&trace, 0, 0, 3772, 54);
  assert_row(&trace, 1, 0, 2015, 156);
  assert_int_equal(trace.note[KC_NOTE_NO_ARRIVALS], 1);
  assert_int_equal(trace.note[KC_NOTE_TIES], 0);
  assert_int_equal(trace.span_ps, 0);
  kc_trace_free(&trace);
}

static void byte_order_mark_is_skipped(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, "\xef\xbb\xbf" AZURE "\n" ROW_A "\n" ROW_B);
  assert_two_rows(&trace);
  assert_int_equal(trace.note[KC_NOTE_BOM], 1);
  kc_trace_free(&trace);
}

/* Python writes 1e-05 for 10 us, and floats with more digits than a picosecond has. */
static void python_floats_are_read_exactly(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n0.0,1,1\n1e-05,1,1\n0.052000000000000005,1,1\n-0.0,1,1\n");
  assert_row(&trace, 0, 0, 1, 1);
  assert_row(&trace, 1, 0, 1, 1);
  assert_row(&trace, 2, 10 * KC_PS_PER_US, 1, 1);
  assert_row(&trace, 3, 52 * KC_PS_PER_MS, 1, 1);
  assert_int_equal(trace.note[KC_NOTE_ROUNDED_TIMES], 1);
  kc_trace_free(&trace);
}

/* 2^63 - 2 ps is the longest span; 2^63 - 1 would read as "never". */
static void span_to_the_last_picosecond(void **state)
{
  (void)state;
  struct kc_trace trace;
  parse_ok(&trace, VIDUR "\n9223372.036854775806,1,1\n0,2,2\n");
  assert_row(&trace, 1, INT64_MAX - 1, 1, 1);
  assert_int_equal(trace.span_ps, INT64_MAX - 1);
  kc_trace_free(&trace);
  assert_message(VIDUR "\n0,1,1\n9223372.036854775807,2,2\n",
                 "t.csv:3:1: arrived_at is \"9223372.036854775807\": more than 106 days away from "
                 "another row, which is as long as a run can be; split the trace");
}

static void every_note_has_words(void **state)
{
  (void)state;
  for (int i = 0; i < KC_NOTES; i++) {
    const char *const name = kc_trace_note_name((enum kc_trace_note)i);
    assert_non_null(name);
    assert_true(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
    assert_true(strlen(kc_trace_note_text((enum kc_trace_note)i)) > 8);
    for (int j = 0; j < i; j++) {
      assert_string_not_equal(name, kc_trace_note_name((enum kc_trace_note)j));
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pitfall_01_crlf_and_no_final_newline),
      cmocka_unit_test(pitfall_02_lf_copy_gives_the_same_rows),
      cmocka_unit_test(pitfall_03_gzip_is_recognised_by_content),
      cmocka_unit_test(pitfall_04_git_lfs_pointer_is_named),
      cmocka_unit_test(pitfall_05_very_long_lines),
      cmocka_unit_test(pitfall_06_blank_lines_and_empty_files),
      cmocka_unit_test(pitfall_07_saved_html_page_is_named),
      cmocka_unit_test(pitfall_08_digest_count_and_span_are_reported),
      cmocka_unit_test(pitfall_09_quoted_cells),
      cmocka_unit_test(pitfall_10_columns_by_name),
      cmocka_unit_test(pitfall_11_mixed_and_ambiguous_schemas),
      cmocka_unit_test(pitfall_13_seven_fraction_digits),
      cmocka_unit_test(pitfall_14_missing_fraction_with_zone),
      cmocka_unit_test(pitfall_15_iso_t_and_z_and_offsets),
      cmocka_unit_test(pitfall_17_minimum_is_subtracted),
      cmocka_unit_test(pitfall_18_unsorted_rows_and_ties),
      cmocka_unit_test(pitfall_20_negative_and_nan_times),
      cmocka_unit_test(pitfall_23_zero_output_needs_a_policy),
      cmocka_unit_test(pitfall_24_zero_and_tiny_input),
      cmocka_unit_test(pitfall_26_long_lengths_are_kept_and_told),
      cmocka_unit_test(pitfall_27_totals_untrusted_and_numbers_strict),
      cmocka_unit_test(pitfall_41_no_prefix_information),
      cmocka_unit_test(pitfall_44_errors_have_file_line_and_column),
      cmocka_unit_test(lengths_only_arrive_at_zero),
      cmocka_unit_test(byte_order_mark_is_skipped),
      cmocka_unit_test(python_floats_are_read_exactly),
      cmocka_unit_test(span_to_the_last_picosecond),
      cmocka_unit_test(every_note_has_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
