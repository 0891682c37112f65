/* The shipped samples: conversation.csv is what its generator makes, byte for byte, and has the
 * shape it claims; tiny.csv reads as written. UPDATE=1 in the environment rewrites
 * conversation.csv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/file.h"
#include "sample_generator.h"
#include "trace_text.h"

#define SAMPLES KVCAP_SOURCE_DIR "/traces/samples/"

static void load(struct kc_trace *trace, const char *path)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  kc_trace_options_default(&options);
  if (kc_trace_load(trace, path, &options, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void update(const char *text, size_t bytes)
{
  FILE *const file = fopen(SAMPLES "conversation.csv", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void conversation_is_what_the_generator_makes(void **state)
{
  (void)state;
  struct kc_file file;
  struct kc_diag diag;
  char *const text = malloc(SAMPLE_BYTES_MAX);
  assert_non_null(text);
  const size_t bytes = sample_generate(text);
  assert_true(bytes <= SAMPLE_BYTES_MAX);
  if (getenv("UPDATE") != NULL) update(text, bytes);
  assert_int_equal(kc_file_open(&file, SAMPLES "conversation.csv", SAMPLE_BYTES_MAX, &diag), KC_OK);
  assert_int_equal(file.bytes, bytes);
  assert_memory_equal(file.data, text, bytes);
  kc_file_close(&file);
  free(text);
}

static int compare_u32(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Fails unless the value at `per_cent` of the sorted lengths is within 6 % of what the public trace
 * has there. */
static void check_percentile(const uint32_t *sorted, unsigned per_cent, uint32_t published)
{
  const uint32_t value = sorted[SAMPLE_ROWS * per_cent / 100];
  const uint32_t apart = value > published ? value - published : published - value;
  if (apart * 100 > published * 6) {
    fail_msg("p%u is %u; the public trace has %u", per_cent, value, published);
  }
}

static void conversation_has_the_shape_it_claims(void **state)
{
  (void)state;
  static uint32_t input[SAMPLE_ROWS], output[SAMPLE_ROWS];
  uint64_t per_ten_seconds[200] = {0};
  struct kc_trace trace;
  load(&trace, SAMPLES "conversation.csv");
  assert_int_equal(trace.count, SAMPLE_ROWS);
  for (uint64_t i = 0; i < trace.count; i++) {
    input[i] = trace.row[i].input_tokens;
    output[i] = trace.row[i].output_tokens;
    per_ten_seconds[trace.row[i].arrival_ps / (10 * KC_PS_PER_S)]++;
  }
  qsort(input, SAMPLE_ROWS, sizeof *input, compare_u32);
  qsort(output, SAMPLE_ROWS, sizeof *output, compare_u32);
  check_percentile(input, 25, 396);
  check_percentile(input, 50, 1020);
  check_percentile(input, 75, 1189);
  check_percentile(input, 90, 2735);
  check_percentile(output, 25, 85);
  check_percentile(output, 50, 129);
  check_percentile(output, 75, 395);
  check_percentile(output, 95, 451);
  /* Mean rate 5.53 a second within 6 %: the span of 5,000 requests is 904 s. */
  assert_in_range(trace.span_ps / KC_PS_PER_S, 850, 958);
  /* Bursts: the variance of counts in 10 s is at least 2.5 times their mean (1 = no bursts). */
  const uint64_t windows = (uint64_t)(trace.span_ps / (10 * KC_PS_PER_S));
  uint64_t sum = 0, squares = 0;
  for (uint64_t i = 0; i < windows; i++) {
    sum += per_ten_seconds[i];
    squares += per_ten_seconds[i] * per_ten_seconds[i];
  }
  /* (squares / n - mean^2) / mean >= 5 / 2, without fractions. */
  assert_true((squares * windows - sum * sum) * 2 >= 5 * sum * windows);
  kc_trace_free(&trace);
}

static void tiny_reads_as_written(void **state)
{
  (void)state;
  struct kc_trace trace;
  load(&trace, SAMPLES "tiny.csv");
  assert_string_equal(trace.format, "vidur");
  assert_int_equal(trace.count, 5);
  assert_row(&trace, 0, 0, 100, 3);
  assert_row(&trace, 1, 0, 48, 5);
  assert_row(&trace, 2, 20 * KC_PS_PER_MS, 16, 1);
  assert_row(&trace, 3, 50 * KC_PS_PER_MS, 257, 4);
  assert_row(&trace, 4, 1000 * KC_PS_PER_MS, 32, 2);
  for (int i = 0; i < KC_NOTES; i++) assert_int_equal(trace.note[i], i == KC_NOTE_TIES);
  kc_trace_free(&trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conversation_is_what_the_generator_makes),
      cmocka_unit_test(conversation_has_the_shape_it_claims),
      cmocka_unit_test(tiny_reads_as_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
