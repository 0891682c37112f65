/* TraceLab rounds as they were logged (uw-syfi/TraceLab), one JSON object a line.
 *
 *   {"provider": "claude", "session_id": "claude:92ee...", "round_index": 1, "model": "...",
 *    "input_tokens_total": 35740, "prefix_tokens": 29380, "newly_append_tokens": 6360,
 *    "output_tokens": 1016,
 *    "timing_events": [{"event_type": "tool_result",
 *                       "timestamp": "2026-06-01T05:40:50.938Z"}, ...],
 *    "tools": [{"tool_wall_latency_ms": 12688, ...}]}
 *
 *   events   tool_result  tool_result | reasoning  text  tool_call
 *                              ^ arrival                      ^ end
 *
 * No field says when a request was sent. It can be sent when the last thing that it waits for is
 * there, so it arrives with the last user message or tool result before its first output. The next
 * round of the session waits for the slowest tool of this one (tools run side by side); after a
 * round without tools it waits for a person, from the last event to the next arrival. */
#include <string.h>

#include "traces/readers/session_past.h"
#include "traces/readers/trace_reader.h"

static const struct kc_trace_column rounds_columns[] = {
    {KC_ROLE_SESSION, true, "session_id", NULL},
    {KC_ROLE_TURN, true, "round_index", NULL},
    {KC_ROLE_INPUT, true, "input_tokens_total", NULL},
    {KC_ROLE_OUTPUT, true, "output_tokens", NULL},
    {KC_ROLE_ARRIVAL, true, "timing_events", NULL},
    {KC_ROLE_WAIT, false, "tools", NULL},
    {KC_ROLE_KIND, false, "model", NULL},
};

/* What the events of a round say. */
struct round_times {
  struct kc_instant arrival, end;
  bool any, input, output; /* events seen: any, of an input, of an output */
};

static bool is_later(const struct kc_instant *a, const struct kc_instant *b)
{
  return a->seconds != b->seconds ? a->seconds > b->seconds : a->fraction_ps > b->fraction_ps;
}

static enum kc_err read_timestamp(struct kc_trace_builder *builder,
                                  const struct kc_json_value *value, struct kc_instant *at)
{
  bool zoned = false;
  enum kc_time_fault fault = KC_TIME_SHAPE;
  if (value->kind == KC_JSON_STRING) {
    fault = kc_time_parse_date(&builder->day, value->text, value->bytes, at, &zoned);
  }
  if (fault == KC_TIME_OK && zoned) return KC_OK;
  return kc_trace_bad_value(builder, "timestamp", value,
                            "expected a date, a time and a zone like 2026-06-01T05:40:20.151Z");
}

static enum kc_err take_event(struct kc_trace_builder *builder, const struct kc_json_value *event,
                              struct round_times *times)
{
  struct kc_json_value type, timestamp;
  struct kc_instant at;
  if (event->kind != KC_JSON_OBJECT || !kc_json_find(event, "event_type", &type) ||
      !kc_json_find(event, "timestamp", &timestamp)) {
    return kc_trace_bad_value(builder, "timing_events", event,
                              "expected objects with event_type and timestamp");
  }
  KC_TRY(read_timestamp(builder, &timestamp, &at));
  const bool input = kc_json_is(&type, "user_message") || kc_json_is(&type, "tool_result");
  const bool waits = input && !times->output && (!times->input || is_later(&at, &times->arrival));
  if (!times->any || waits) times->arrival = at;
  if (!times->any || is_later(&at, &times->end)) times->end = at;
  times->any = true;
  times->input |= input;
  times->output |= !input;
  return KC_OK;
}

static enum kc_err read_events(struct kc_trace_builder *builder, struct round_times *times)
{
  struct kc_json_value events, event;
  struct kc_json_cursor cursor;
  memset(times, 0, sizeof *times);
  if (!kc_trace_value(builder, KC_ROLE_ARRIVAL, &events) || events.kind != KC_JSON_ARRAY) {
    return kc_trace_bad_place(builder, NULL,
                              "timing_events is no array; expected the round's events");
  }
  kc_json_open(&cursor, &events);
  while (kc_json_next_item(&cursor, &event)) KC_TRY(take_event(builder, &event, times));
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if (times->any) return KC_OK;
  return kc_trace_bad_value(builder, "timing_events", &events,
                            "a round without events; nothing says when it was sent");
}

/* The slowest tool; *known is false when the round called none, or no latency is there. */
static enum kc_err read_tools(struct kc_trace_builder *builder, kc_ps *wait, bool *known)
{
  struct kc_json_value tools, tool, latency;
  struct kc_json_cursor cursor;
  *wait = 0;
  *known = false;
  if (!kc_trace_value(builder, KC_ROLE_WAIT, &tools)) return KC_OK;
  if (tools.kind != KC_JSON_ARRAY) {
    return kc_trace_bad_value(builder, "tools", &tools, "expected an array");
  }
  kc_json_open(&cursor, &tools);
  while (kc_json_next_item(&cursor, &tool)) {
    kc_ps one;
    if (tool.kind != KC_JSON_OBJECT || !kc_json_find(&tool, "tool_wall_latency_ms", &latency) ||
        latency.kind == KC_JSON_NULL) {
      continue;
    }
    KC_TRY(kc_trace_value_wait(builder, "tool_wall_latency_ms", &latency, KC_UNIT_MS, &one));
    if (one > *wait) *wait = one;
    *known = true;
  }
  return kc_trace_check_cursor(builder, &cursor);
}

/* From the end of the session's round before to this round. */
static kc_ps pause_before(const struct kc_session_past *past, const struct kc_instant *arrival)
{
  kc_ps pause = 0;
  if (past->tools) return past->tool_ps;
  return kc_instant_minus(arrival, &past->end, &pause) && pause > 0 ? pause : 0;
}

static enum kc_err rounds_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const struct kc_csv_cell *const model = kc_trace_cell(builder, KC_ROLE_KIND);
  struct kc_session_past *past;
  struct round_times times;
  bool fresh;
  KC_TRY(kc_session_past_find(builder, &past, &fresh));
  KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_TURN, &raw->turn));
  KC_TRY(kc_session_past_round(builder, past, fresh, raw->turn));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens));
  KC_TRY(read_events(builder, &times));
  raw->arrival = times.arrival;
  raw->after = KC_AFTER_PREVIOUS;
  if (!fresh) raw->wait_ps = pause_before(past, &times.arrival);
  if (raw->input_tokens < past->input_tokens) raw->flags |= KC_ROW_COMPACTED;
  raw->kind = model == NULL ? NULL : model->text;
  raw->kind_bytes = model == NULL ? 0 : model->bytes;
  past->input_tokens = raw->input_tokens;
  past->end = times.end;
  return read_tools(builder, &past->tool_ps, &past->tools);
}

const struct kc_trace_reader kc_reader_tracelab_rounds = {
    .name = "tracelab-rounds",
    .sample = "{\"session_id\": \"claude:92ee\", \"round_index\": 0, "
              "\"input_tokens_total\": 32272, \"output_tokens\": 931, \"timing_events\": [...]}",
    .framing = KC_FRAMING_JSONL,
    .column = rounds_columns,
    .column_count = sizeof rounds_columns / sizeof rounds_columns[0],
    .parse_row = rounds_parse_row,
    .forget = kc_session_pasts_forget,
};
