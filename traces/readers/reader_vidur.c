/* Vidur and Splitwise traces (microsoft/vidur, data/processed_traces).
 *
 *   arrived_at,num_prefill_tokens,num_decode_tokens            seconds as decimal numbers
 *   0.098189,110,27
 *   num_prefill_tokens,num_decode_tokens,num_total_tokens,...  lengths only: all arrive at 0
 *   3772,54,3826,69.85185185185185
 *
 * The columns were once called Time, PromptTokenCount and GeneratedTokenCount (microsoft/vidur,
 * pull request 29). Totals are redundant and are not read. Nothing is said of shared prefixes. */
#include <stdio.h>

#include "traces/readers/trace_reader.h"

static const struct kc_trace_column vidur_columns[] = {
    {KC_ROLE_ARRIVAL, false, "arrived_at", "Time"},
    {KC_ROLE_INPUT, true, "num_prefill_tokens", "PromptTokenCount"},
    {KC_ROLE_OUTPUT, true, "num_decode_tokens", "GeneratedTokenCount"},
};

static enum kc_err bad_seconds(struct kc_trace_builder *builder, enum kc_time_fault fault)
{
  char complaint[160];
  const int length = snprintf(complaint, sizeof complaint,
                              "it %s; expected seconds, 0 or more, like 98.189 or 1e-05",
                              kc_time_fault_text(fault));
  KC_ASSERT(length > 0 && (size_t)length < sizeof complaint);
  return kc_trace_bad_cell(builder, KC_ROLE_ARRIVAL, complaint);
}

static enum kc_err vidur_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, KC_ROLE_ARRIVAL);
  KC_ASSERT(builder->reader == &kc_reader_vidur);
  raw->arrival = (struct kc_instant){0, 0};
  if (cell != NULL && builder->unit != KC_UNIT_S) {
    KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  } else if (cell != NULL) {
    const enum kc_time_fault fault =
        kc_time_parse_seconds(cell->text, cell->bytes, &raw->arrival, &builder->rounded);
    if (fault != KC_TIME_OK) return bad_seconds(builder, fault);
  }
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

const struct kc_trace_reader kc_reader_vidur = {
    .name = "vidur",
    .sample = "arrived_at,num_prefill_tokens,num_decode_tokens",
    .column = vidur_columns,
    .column_count = sizeof vidur_columns / sizeof vidur_columns[0],
    .lengths_only = true,
    .prefix_ids = false,
    .unit = KC_UNIT_S,
    .detect = kc_trace_has_columns,
    .parse_row = vidur_parse_row,
};
