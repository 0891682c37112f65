/* Azure LLM inference traces, 2023 and 2024 (Azure/AzurePublicDataset).
 *
 *   TIMESTAMP,ContextTokens,GeneratedTokens^M          2023: CR LF, no final newline, 7 digits
 *   2023-11-16 18:17:03.9799600,4808,10^M
 *   2024-05-10 00:00:00.009930+00:00,2162,5            2024: zone, 6 digits or no fraction at all
 *   2024-10-15T12:00:00.269Z,0,770,491                 2025: 'T', 'Z', one more column
 *
 * Dates are turned into UTC. A file where some rows name a zone and others do not mixes two clocks,
 * and nobody can say how far they are apart: refused. The format says nothing of shared prefixes.
 */
#include <stdio.h>

#include "traces/readers/trace_reader.h"

static const struct kc_trace_column azure_columns[] = {
    {KC_ROLE_ARRIVAL, true, "TIMESTAMP", NULL},
    {KC_ROLE_INPUT, true, "ContextTokens", NULL},
    {KC_ROLE_OUTPUT, true, "GeneratedTokens", NULL},
};

static enum kc_err bad_date(struct kc_trace_builder *builder, enum kc_time_fault fault)
{
  char complaint[160];
  const int length = snprintf(complaint, sizeof complaint,
                              "it %s; expected a date and time like 2023-11-16 18:17:03.9799600 or "
                              "2024-05-12T00:00:00+00:00",
                              kc_time_fault_text(fault));
  KC_ASSERT(length > 0 && (size_t)length < sizeof complaint);
  return kc_trace_bad_cell(builder, KC_ROLE_ARRIVAL, complaint);
}

static enum kc_err azure_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, KC_ROLE_ARRIVAL);
  bool zoned = false;
  KC_ASSERT(cell != NULL);
  const enum kc_time_fault fault =
      kc_time_parse_date(&builder->day, cell->text, cell->bytes, &raw->arrival, &zoned);
  if (fault != KC_TIME_OK) return bad_date(builder, fault);
  if (builder->rows_seen == 0) builder->first_zoned = zoned;
  if (zoned != builder->first_zoned) {
    return kc_trace_bad_cell(builder, KC_ROLE_ARRIVAL,
                             zoned ? "it names a time zone where the first row names none; "
                                     "expected all rows alike"
                                   : "it names no time zone where the first row names one; "
                                     "expected all rows alike");
  }
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

const struct kc_trace_reader kc_reader_azure = {
    .name = "azure",
    .sample = "TIMESTAMP,ContextTokens,GeneratedTokens",
    .column = azure_columns,
    .column_count = sizeof azure_columns / sizeof azure_columns[0],
    .lengths_only = true,
    .prefix_ids = false,
    .detect = kc_trace_has_columns,
    .parse_row = azure_parse_row,
};
