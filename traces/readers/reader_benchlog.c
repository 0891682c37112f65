/* Requests as a benchmark logged them beside vLLM (casys-kaist/LLMServingSim, bench/examples), one
 * JSON object a line.
 *
 *   {"request_id": "bench-0", "input_toks": 2358, "output_toks": 531,
 *    "arrival_time": 1777142838.338653,                  seconds since 1970
 *    "queued_ts": 479748.340626232, "scheduled_ts": ..., "first_token_ts": ...,
 *    "last_token_ts": 479764.054028055}                  seconds of a monotonic clock
 *
 * Two clocks in one record: only arrival_time says when the request came. The stage times are what
 * the server made of it, and no part of the load. */
#include "traces/readers/trace_reader.h"

static const struct kc_trace_column benchlog_columns[] = {
    {KC_ROLE_ARRIVAL, true, "arrival_time", NULL},
    {KC_ROLE_INPUT, true, "input_toks", NULL},
    {KC_ROLE_OUTPUT, true, "output_toks", NULL},
};

static enum kc_err benchlog_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  KC_ASSERT(builder->reader == &kc_reader_benchlog);
  KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens));
  if (raw->output_tokens == 0) raw->flags |= KC_ROW_FAILED;
  return KC_OK;
}

const struct kc_trace_reader kc_reader_benchlog = {
    .name = "benchlog",
    .sample = "{\"request_id\": \"bench-0\", \"input_toks\": 2358, \"output_toks\": 531, "
              "\"arrival_time\": 1777142838.338653}",
    .framing = KC_FRAMING_JSONL,
    .column = benchlog_columns,
    .column_count = sizeof benchlog_columns / sizeof benchlog_columns[0],
    .unit = KC_UNIT_S,
    .parse_row = benchlog_parse_row,
};
