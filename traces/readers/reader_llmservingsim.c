/* Workloads of LLMServingSim (casys-kaist/LLMServingSim), one JSON object a line, nanoseconds.
 *
 *   {"input_toks": 2358, "output_toks": 531, "arrival_time_ns": 46926808}         a request
 *   {"session_id": "s1", "arrival_time_ns": 0, "sub_requests": [                   a session
 *      {"input_toks": 100, "output_toks": 20, "tool_duration_ns": 5000000}, ...]}
 *
 * Both may share a file. A sub-request carries its whole prompt and follows the one before it after
 * that one's tool (closed loop). Where a request lists the token ids of its prompt (input_tok_ids),
 * each whole block of them becomes a prefix id: a hash of the ids up to the block's end. Those of
 * outputs and sub-requests are not read. A session without sub-requests, or one whose name an
 * earlier line has, is refused: skipping the first and overwriting the second loses load without a
 * word. */
#include <string.h>

#include "engine/base/digest.h"
#include "traces/readers/session_past.h"
#include "traces/readers/trace_reader.h"

static const struct kc_trace_column llmservingsim_columns[] = {
    {KC_ROLE_ARRIVAL, true, "arrival_time_ns", NULL},
    {KC_ROLE_INPUT, false, "input_toks", NULL},
    {KC_ROLE_OUTPUT, false, "output_toks", NULL},
    {KC_ROLE_SESSION, false, "session_id", NULL},
    {KC_ROLE_EXTRA_1, false, "sub_requests", NULL},
    {KC_ROLE_IDS, false, "input_tok_ids", NULL},
};

#define NO_ROW UINT64_MAX /* no handle of kc_trace_emit */

enum { COLUMN_INPUT_BIT = 1 << 1, COLUMN_OUTPUT_BIT = 1 << 2, COLUMN_SUBS_BIT = 1 << 4 };

static bool llmservingsim_detect(const struct kc_trace_reader *reader, uint64_t columns,
                                 const struct kc_json_value *object)
{
  const uint64_t flat = COLUMN_INPUT_BIT | COLUMN_OUTPUT_BIT;
  KC_ASSERT(reader->column_count == sizeof llmservingsim_columns / sizeof llmservingsim_columns[0]);
  (void)object;
  return (columns & 1) != 0 && ((columns & COLUMN_SUBS_BIT) != 0 || (columns & flat) == flat);
}

/* One sub-request as the file says it. */
struct sub_request {
  uint32_t input_tokens, output_tokens;
  const char *output_at;
  kc_ps tool_ps;
};

static enum kc_err read_sub(struct kc_trace_builder *builder, const struct kc_json_value *item,
                            struct sub_request *sub)
{
  struct kc_json_value value;
  memset(sub, 0, sizeof *sub);
  if (item->kind != KC_JSON_OBJECT) {
    return kc_trace_bad_value(builder, "sub_requests", item, "expected objects, one a request");
  }
  if (!kc_json_find(item, "input_toks", &value)) {
    return kc_trace_bad_place(builder, item->text, "a sub-request without input_toks");
  }
  KC_TRY(kc_trace_value_tokens(builder, "input_toks", &value, &sub->input_tokens));
  if (!kc_json_find(item, "output_toks", &value)) {
    return kc_trace_bad_place(builder, item->text, "a sub-request without output_toks");
  }
  sub->output_at = value.text;
  KC_TRY(kc_trace_value_tokens(builder, "output_toks", &value, &sub->output_tokens));
  if (!kc_json_find(item, "tool_duration_ns", &value) || value.kind == KC_JSON_NULL) return KC_OK;
  return kc_trace_value_wait(builder, "tool_duration_ns", &value, builder->unit, &sub->tool_ps);
}

/* The sub-requests, each after the one before it. `raw` has session and arrival. */
static enum kc_err emit_chain(struct kc_trace_builder *builder, struct kc_trace_raw *raw,
                              struct kc_json_cursor *cursor, uint64_t *count)
{
  struct kc_json_value item;
  struct sub_request sub;
  uint64_t before = NO_ROW; /* the last one that was kept */
  uint32_t input_before = 0;
  kc_ps wait = 0;
  for (*count = 0; kc_json_next_item(cursor, &item); ++*count) {
    const uint64_t rows_before = builder->trace->count;
    uint64_t handle;
    KC_TRY(read_sub(builder, &item, &sub));
    raw->input_tokens = sub.input_tokens;
    raw->output_tokens = sub.output_tokens;
    raw->output_at = sub.output_at;
    raw->flags = sub.input_tokens < input_before ? KC_ROW_COMPACTED : 0;
    raw->after = before == NO_ROW ? KC_AFTER_NONE : KC_AFTER_HANDLE;
    raw->after_handle = before;
    raw->wait_ps = before == NO_ROW ? 0 : wait;
    KC_TRY(kc_trace_emit(builder, raw, &handle));
    input_before = sub.input_tokens;
    if (builder->trace->count > rows_before) { /* no policy dropped it */
      before = handle;
      wait = 0;
    }
    if (__builtin_add_overflow(wait, sub.tool_ps, &wait)) wait = KC_PS_NEVER - 1;
  }
  return kc_trace_check_cursor(builder, cursor);
}

static enum kc_err parse_session(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  struct kc_json_value subs;
  struct kc_json_cursor cursor;
  struct kc_session_past *past;
  uint64_t count;
  bool fresh = true;
  if (!kc_trace_value(builder, KC_ROLE_EXTRA_1, &subs) || subs.kind != KC_JSON_ARRAY) {
    return kc_trace_bad_cell(builder, KC_ROLE_EXTRA_1, "expected an array of requests");
  }
  if (kc_trace_cell(builder, KC_ROLE_SESSION) != NULL) {
    KC_TRY(kc_session_past_find(builder, &past, &fresh));
    KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  }
  if (!fresh) {
    return kc_trace_bad_cell(builder, KC_ROLE_SESSION,
                             "an earlier line has this session; expected one line a session");
  }
  kc_json_open(&cursor, &subs);
  KC_TRY(emit_chain(builder, raw, &cursor, &count));
  if (count > 0) return KC_OK;
  return kc_trace_bad_cell(builder, KC_ROLE_EXTRA_1,
                           "a session without requests; expected one or more");
}

/* What the prompt holds, by blocks. */
static enum kc_err read_contents(struct kc_trace_builder *builder, uint32_t input_tokens)
{
  struct kc_json_value array;
  struct kc_json_cursor cursor;
  uint64_t token, count = 0, hash = 0;
  const uint32_t block = builder->trace->block_tokens;
  KC_ASSERT(block > 0);
  if (!kc_trace_value(builder, KC_ROLE_IDS, &array)) return KC_OK;
  if (array.kind != KC_JSON_ARRAY) {
    return kc_trace_bad_value(builder, "input_tok_ids", &array,
                              "expected an array of whole numbers");
  }
  kc_json_open(&cursor, &array);
  while (kc_json_next_u64(&cursor, &token)) {
    hash = kc_mix64(hash + kc_mix64(token + 1));
    if (++count % block == 0) KC_TRY(kc_trace_push_id(builder, hash));
  }
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if (count == input_tokens) return KC_OK;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "%llu ids in input_tok_ids, but input_toks is %u; expected one id a token",
                    (unsigned long long)count, input_tokens);
}

static enum kc_err llmservingsim_parse_object(struct kc_trace_builder *builder,
                                              const struct kc_json_value *object)
{
  struct kc_trace_raw raw = {0};
  const bool flat = kc_trace_cell(builder, KC_ROLE_INPUT) != NULL &&
                    kc_trace_cell(builder, KC_ROLE_OUTPUT) != NULL;
  KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw.arrival));
  if (kc_trace_cell(builder, KC_ROLE_EXTRA_1) != NULL) return parse_session(builder, &raw);
  if (!flat) {
    return kc_trace_bad_place(builder, object->text,
                              "neither input_toks and output_toks (a request) nor sub_requests (a "
                              "session)");
  }
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw.input_tokens));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw.output_tokens));
  KC_TRY(read_contents(builder, raw.input_tokens));
  return kc_trace_emit(builder, &raw, NULL);
}

const struct kc_trace_reader kc_reader_llmservingsim = {
    .name = "llmservingsim",
    .sample = "{\"input_toks\": 2358, \"output_toks\": 531, \"arrival_time_ns\": 46926808}",
    .framing = KC_FRAMING_JSONL,
    .column = llmservingsim_columns,
    .column_count = sizeof llmservingsim_columns / sizeof llmservingsim_columns[0],
    .prefix_ids = true,
    .local_sessions = true,
    .unit = KC_UNIT_NS,
    .block_tokens = 16,
    .tail = KC_TAIL_FLOOR,
    .detect_object = llmservingsim_detect,
    .parse_object = llmservingsim_parse_object,
    .forget = kc_session_pasts_forget,
};
