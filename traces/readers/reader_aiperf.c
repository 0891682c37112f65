/* What AIPerf (ai-dynamo/aiperf) writes of each request, profile_export.jsonl: one JSON object a
 * line, as its tutorial "Working with Profile Export Files" and MetricRecordInfo describe it.
 *
 *   {"metadata": {"session_num": 45, "conversation_id": "...", "turn_index": 0,
 *                 "request_start_ns": 1759813207532900363,     since 1970, when it was sent
 *                 "request_end_ns": ..., "benchmark_phase": "profiling", "was_cancelled": false},
 *    "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"},
 *                "output_sequence_length": {"value": 9, "unit": "tokens"},    reasoning included
 *                "time_to_first_token": {"value": 255.9, "unit": "ms"}, ...},
 *    "error": null}                     or {"code": 499, "type": "...", "message": "..."}
 *
 * A request that failed has an error and of its lengths "error_isl" at most. Conversations are
 * named, but not what their prompts hold: rows start at their own times and share nothing. The
 * measured latencies are no part of the load. */
#include "traces/readers/trace_reader.h"

static const struct kc_trace_column aiperf_columns[] = {
    {KC_ROLE_EXTRA_1, true, "metadata", NULL},
    {KC_ROLE_EXTRA_2, true, "metrics", NULL},
    {KC_ROLE_STATUS, false, "error", NULL},
};

/* The number of tokens of a metric, {"value": 550, "unit": "tokens"} or a bare number. *there is
 * false when the request has no such metric. */
static enum kc_err read_metric(struct kc_trace_builder *builder,
                               const struct kc_json_value *metrics, const char *name,
                               struct kc_json_value *at, uint32_t *tokens, bool *there)
{
  struct kc_json_value value;
  KC_ASSERT(builder->reader == &kc_reader_aiperf);
  *there = metrics->kind == KC_JSON_OBJECT && kc_json_find(metrics, name, at) &&
           at->kind != KC_JSON_NULL;
  if (!*there) return KC_OK;
  value = *at;
  if (at->kind == KC_JSON_OBJECT && !kc_json_find(at, "value", &value)) {
    return kc_trace_bad_value(builder, name, at, "expected a value with its unit");
  }
  return kc_trace_value_tokens(builder, name, &value, tokens);
}

static enum kc_err read_lengths(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  struct kc_json_value metrics = {.kind = KC_JSON_NULL}, at = {0};
  const bool failed = raw->flags != 0;
  bool there;
  KC_ASSERT(raw->input_tokens == 0 && raw->output_tokens == 0);
  if (kc_trace_value(builder, KC_ROLE_EXTRA_2, &metrics) && metrics.kind != KC_JSON_OBJECT) {
    return kc_trace_bad_cell(builder, KC_ROLE_EXTRA_2, "expected an object of figures");
  }
  KC_TRY(read_metric(builder, &metrics, "input_sequence_length", &at, &raw->input_tokens, &there));
  if (!there && failed) {
    KC_TRY(read_metric(builder, &metrics, "error_isl", &at, &raw->input_tokens, &there));
  }
  if (!there && !failed) {
    return kc_trace_bad_place(builder, metrics.text, "a request that did not fail, without "
                                                     "input_sequence_length");
  }
  KC_TRY(read_metric(builder, &metrics, "output_sequence_length", &at, &raw->output_tokens,
                     &there));
  if (there) raw->output_at = at.text;
  if (!there && !failed) {
    return kc_trace_bad_place(builder, metrics.text, "a request that did not fail, without "
                                                     "output_sequence_length");
  }
  if (!failed && raw->output_tokens == 0) raw->flags |= KC_ROW_FAILED;
  return KC_OK;
}

static enum kc_err aiperf_parse_object(struct kc_trace_builder *builder,
                                       const struct kc_json_value *object)
{
  struct kc_trace_raw raw = {0};
  struct kc_json_value metadata, start, cancelled;
  KC_ASSERT(builder->reader == &kc_reader_aiperf && object->kind == KC_JSON_OBJECT);
  KC_TRY(kc_trace_set_arrivals(builder, true));
  if (!kc_trace_value(builder, KC_ROLE_EXTRA_1, &metadata) || metadata.kind != KC_JSON_OBJECT) {
    return kc_trace_bad_cell(builder, KC_ROLE_EXTRA_1, "expected an object with request_start_ns");
  }
  if (!kc_json_find(&metadata, "request_start_ns", &start)) {
    return kc_trace_bad_place(builder, metadata.text, "metadata without request_start_ns");
  }
  KC_TRY(kc_trace_value_instant(builder, "request_start_ns", &start, builder->unit, &raw.arrival));
  if (kc_json_find(&metadata, "was_cancelled", &cancelled) && cancelled.kind == KC_JSON_TRUE) {
    raw.flags |= KC_ROW_CANCELLED;
  } else if (kc_trace_cell(builder, KC_ROLE_STATUS) != NULL) {
    raw.flags |= KC_ROW_FAILED;
  }
  KC_TRY(read_lengths(builder, &raw));
  return kc_trace_emit(builder, &raw, NULL);
}

const struct kc_trace_reader kc_reader_aiperf = {
    .name = "aiperf",
    .sample = "{\"metadata\": {\"request_start_ns\": 1759813207532900363}, \"metrics\": "
              "{\"input_sequence_length\": {\"value\": 550, \"unit\": \"tokens\"}, "
              "\"output_sequence_length\": {\"value\": 9, \"unit\": \"tokens\"}}, \"error\": null}",
    .framing = KC_FRAMING_JSONL,
    .column = aiperf_columns,
    .column_count = sizeof aiperf_columns / sizeof aiperf_columns[0],
    .null_says = 1 << 1 | 1 << 2, /* metrics of a failure; error of a success */
    .unit = KC_UNIT_NS,
    .parse_object = aiperf_parse_object,
};
