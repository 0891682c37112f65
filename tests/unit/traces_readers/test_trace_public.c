/* The public traces themselves, when they are at hand: row counts and sums as published, and the
 * Vidur copy of the Azure code trace against its source, row by row. Skipped (77) without them.
 * Azure/AzurePublicDataset at b469a113, microsoft/vidur at 7d475133. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/file.h"
#include "trace_text.h"

static void shared_path(char *out, size_t size, const char *name)
{
  snprintf(out, size, "%s/traces/%s", getenv("KVCAP_SHARED"), name);
}

static void load(struct kc_trace *trace, const char *name)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  char path[512];
  shared_path(path, sizeof path, name);
  kc_trace_options_default(&options);
  if (kc_trace_load(trace, path, &options, &diag) == KC_OK) return;
  char line[1024];
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("%s", line);
}

static void azure_code(void **state)
{
  (void)state;
  struct kc_trace trace;
  load(&trace, "azure2023/AzureLLMInferenceTrace_code.csv");
  assert_string_equal(trace.format, "azure");
  assert_int_equal(trace.count, 8819);
  assert_int_equal(trace.note[KC_NOTE_CRLF], 8819);
  assert_int_equal(trace.note[KC_NOTE_NO_FINAL_NEWLINE], 1);
  assert_int_equal(trace.note[KC_NOTE_OUT_OF_ORDER], 0);
  assert_int_equal(trace.note[KC_NOTE_TIES], 0);
  assert_int_equal(trace.note[KC_NOTE_IGNORED_COLUMNS], 0);
  assert_row(&trace, 0, 0, 4808, 10);
  assert_row(&trace, 1, 52 * KC_PS_PER_MS, 3180, 8);
  kc_trace_free(&trace);
}

static void azure_conversation(void **state)
{
  (void)state;
  struct kc_trace trace;
  load(&trace, "azure2023/AzureLLMInferenceTrace_conv.csv");
  assert_int_equal(trace.count, 19366);
  assert_int_equal(trace.input_tokens, 22361870);
  assert_int_equal(trace.output_tokens, 4088665);
  assert_int_equal(trace.note[KC_NOTE_CRLF], 19366);
  /* 18:15:46.6805900 to 19:14:08.4025270 */
  assert_int_equal(trace.span_ps, INT64_C(3501721937) * KC_PS_PER_US);
  assert_int_equal(trace.input_tokens_max, 14050);
  assert_int_equal(trace.output_tokens_max, 1000);
  kc_trace_free(&trace);
}

/* The copy was rounded to microseconds when it was made; the source has whole microseconds, so at
 * most one may differ by rounding of the subtraction. */
static void vidur_copy_equals_azure_code(void **state)
{
  (void)state;
  struct kc_trace azure, vidur;
  load(&azure, "azure2023/AzureLLMInferenceTrace_code.csv");
  load(&vidur, "vidur/splitwise_code.csv");
  assert_string_equal(vidur.format, "vidur");
  assert_int_equal(vidur.count, azure.count);
  for (uint64_t i = 0; i < azure.count; i++) {
    const struct kc_trace_row *const a = &azure.row[i], *const b = &vidur.row[i];
    const kc_ps apart = a->arrival_ps > b->arrival_ps ? a->arrival_ps - b->arrival_ps
                                                      : b->arrival_ps - a->arrival_ps;
    if (apart > KC_PS_PER_US || a->input_tokens != b->input_tokens ||
        a->output_tokens != b->output_tokens) {
      fail_msg("row %" PRIu64 ": %" PRId64 " ps %u %u in azure, %" PRId64 " ps %u %u in vidur", i,
               a->arrival_ps, a->input_tokens, a->output_tokens, b->arrival_ps, b->input_tokens,
               b->output_tokens);
    }
  }
  kc_trace_free(&azure);
  kc_trace_free(&vidur);
}

static void common_ten_thousand(void **state)
{
  (void)state;
  struct kc_trace trace;
  load(&trace, "common10k/common10k.csv");
  assert_int_equal(trace.count, 10000);
  assert_int_equal(trace.span_ps, INT64_C(1469670729) * KC_PS_PER_US);
  assert_row(&trace, 1, 3927 * KC_PS_PER_US, 1030, 403);
  assert_row(&trace, 9999, INT64_C(1469670729) * KC_PS_PER_US, 685, 120);
  kc_trace_free(&trace);
}

/* Heads of traces that are not at hand whole: a zone with six digits; 'T', 'Z' and one more
 * column. */
static void heads_of_other_azure_traces(void **state)
{
  (void)state;
  struct kc_trace trace;
  load(&trace, "format-samples/azure_llm_2024_conv_1week.head.csv");
  assert_int_equal(trace.count, 5);
  assert_row(&trace, 1, 40520 * KC_PS_PER_US, 584, 3);
  kc_trace_free(&trace);
  load(&trace, "format-samples/azure_lmm_2025_multimodal.head.csv");
  assert_row(&trace, 1, 5550 * KC_PS_PER_MS, 949, 126);
  assert_string_equal(trace.ignored_columns, "NumImages");
  kc_trace_free(&trace);
}

int main(void)
{
  char path[512];
  if (getenv("KVCAP_SHARED") == NULL) return 77;
  shared_path(path, sizeof path, "azure2023/AzureLLMInferenceTrace_code.csv");
  if (!kc_file_exists(path)) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(azure_code),
      cmocka_unit_test(azure_conversation),
      cmocka_unit_test(vidur_copy_equals_azure_code),
      cmocka_unit_test(common_ten_thousand),
      cmocka_unit_test(heads_of_other_azure_traces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
