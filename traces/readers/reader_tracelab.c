/* TraceLab session tables (uw-syfi/TraceLab, replay/README.md): coding agents, round by round.
 *
 *   session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms
 *   0,0,0,0,512,64,100             round 0 arrives at 0 ms
 *   0,0,1,576,128,64,100           round 1: 100 ms after round 0 ends; 576 kept + 128 new tokens
 *
 * Milliseconds. input_len counts the new tokens only; the whole prompt is prefix_len + input_len.
 * The time is the session's, repeated on each of its rows; rounds after the first follow the round
 * before (closed loop). Columns may stand in any order; "id" is another name of session_id; without
 * arrival_time all sessions start at 0. */
#include "traces/readers/session_past.h"
#include "traces/readers/trace_reader.h"

static const struct kc_trace_column tracelab_columns[] = {
    {KC_ROLE_SESSION, true, "session_id", "id"},
    {KC_ROLE_ARRIVAL, false, "arrival_time", NULL},
    {KC_ROLE_TURN, true, "round_idx", NULL},
    {KC_ROLE_EXTRA_1, true, "prefix_len", NULL},
    {KC_ROLE_INPUT, true, "input_len", NULL},
    {KC_ROLE_OUTPUT, true, "output_len", NULL},
    {KC_ROLE_WAIT, true, "tool_wait_after_ms", NULL},
};

/* Another file is another set of sessions. */
static enum kc_err tracelab_begin(struct kc_trace_builder *builder)
{
  if (builder->memory != NULL) kc_session_pasts_forget(builder);
  return KC_OK;
}

static enum kc_err read_prompt(struct kc_trace_builder *builder, uint32_t *tokens)
{
  uint32_t kept = 0, fresh = 0;
  KC_ASSERT(tokens != NULL);
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_EXTRA_1, &kept));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &fresh));
  if (__builtin_add_overflow(kept, fresh, tokens)) {
    return kc_trace_bad_cell(builder, KC_ROLE_EXTRA_1,
                             "together with input_len more than 4294967295 tokens");
  }
  return KC_OK;
}

static enum kc_err tracelab_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  struct kc_session_past *past;
  bool fresh;
  KC_ASSERT(raw->wait_ps == 0);
  KC_TRY(kc_session_past_find(builder, &past, &fresh));
  KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  if (kc_trace_cell(builder, KC_ROLE_ARRIVAL) != NULL) {
    KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  }
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_TURN, &raw->turn));
  KC_TRY(kc_session_past_round(builder, past, fresh, raw->turn));
  KC_TRY(read_prompt(builder, &raw->input_tokens));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens));
  KC_TRY(kc_trace_read_wait(builder, KC_ROLE_WAIT, &raw->wait_after_ps));
  if (raw->input_tokens < past->input_tokens) raw->flags |= KC_ROW_COMPACTED;
  past->input_tokens = raw->input_tokens;
  raw->after = KC_AFTER_PREVIOUS;
  return KC_OK;
}

const struct kc_trace_reader kc_reader_tracelab = {
    .name = "tracelab",
    .sample = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,"
              "tool_wait_after_ms",
    .framing = KC_FRAMING_CSV,
    .column = tracelab_columns,
    .column_count = sizeof tracelab_columns / sizeof tracelab_columns[0],
    .local_sessions = true,
    .adds_past = true,
    .unit = KC_UNIT_MS,
    .detect = kc_trace_has_columns,
    .begin = tracelab_begin,
    .parse_row = tracelab_parse_row,
    .forget = kc_session_pasts_forget,
};
