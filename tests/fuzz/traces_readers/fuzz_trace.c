/* Any bytes as a trace. They are read under every policy; what is accepted must be in order and add
 * up, and must survive being written out as plain CSV and read again, row for row. */
#include "tests/fuzz/traces_readers/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROW_TEXT_BYTES = 64 };

static void check_trace(const struct kc_trace *trace)
{
  uint64_t input = 0, output = 0, ties = 0;
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(trace->row[0].arrival_ps == 0);
  for (uint64_t i = 0; i < trace->count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    KC_ASSERT(row->input_tokens >= 1 && row->output_tokens >= 1);
    KC_ASSERT(i == 0 || row[-1].arrival_ps <= row->arrival_ps);
    ties += i > 0 && row[-1].arrival_ps == row->arrival_ps;
    input += row->input_tokens;
    output += row->output_tokens;
  }
  KC_ASSERT(trace->input_tokens == input && trace->output_tokens == output);
  KC_ASSERT(trace->span_ps == trace->row[trace->count - 1].arrival_ps);
  KC_ASSERT(trace->note[KC_NOTE_TIES] == (trace->note[KC_NOTE_NO_ARRIVALS] ? 0 : ties));
  KC_ASSERT(strlen(trace->sha256) == 64);
}

/* The accepted rows as a plain Vidur file, read again. */
static void check_round_trip(const struct kc_trace *trace, const struct kc_trace_options *options)
{
  struct kc_trace again;
  char *const text = malloc((size_t)(trace->count + 1) * ROW_TEXT_BYTES);
  KC_ASSERT(text != NULL);
  size_t used = (size_t)snprintf(text, ROW_TEXT_BYTES,
                                 "arrived_at,num_prefill_tokens,num_decode_tokens\n");
  for (uint64_t i = 0; i < trace->count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    used += (size_t)snprintf(text + used, ROW_TEXT_BYTES, "%" PRId64 ".%012" PRId64 ",%u,%u\n",
                             row->arrival_ps / KC_PS_PER_S, row->arrival_ps % KC_PS_PER_S,
                             row->input_tokens, row->output_tokens);
  }
  const enum kc_err result = kc_trace_parse(&again, "again", text, used, options, NULL);
  KC_ASSERT(result == KC_OK);
  KC_ASSERT(again.count == trace->count);
  KC_ASSERT(memcmp(again.row, trace->row, trace->count * sizeof *trace->row) == 0);
  kc_trace_free(&again);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const formats[] = {NULL, "azure", "vidur"};
  const char *const only = fuzz_only_format();
  struct kc_trace_options options;
  bool accepted = false;
  kc_trace_options_default(&options);
  for (int policy = KC_ZERO_OUTPUT_ERROR; policy <= KC_ZERO_OUTPUT_FLOOR; policy++) {
    struct kc_trace trace;
    struct kc_diag diag;
    options.zero_output = (enum kc_zero_output)policy;
    options.lines = policy == KC_ZERO_OUTPUT_FLOOR;
    options.format = only != NULL ? only : formats[policy];
    const enum kc_err result =
        kc_trace_parse(&trace, "fuzz", (const char *)data, size, &options, &diag);
    if (result == KC_OK) {
      check_trace(&trace);
      fuzz_check_lines(&trace, options.lines);
      options.format = NULL;
      check_round_trip(&trace, &options);
      kc_trace_free(&trace);
      accepted = true;
    } else {
      KC_ASSERT(trace.row == NULL);
      KC_ASSERT(diag.code == result && diag.text[0] != '\0');
    }
  }
  fuzz_add_input(accepted);
  return 0;
}
