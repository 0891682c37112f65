/* The Mooncake family: one JSON object a request, prefix ids in blocks.
 *
 *   mooncake          {"timestamp": 27482, "input_length": 6955, "output_length": 52,
 *                      "hash_ids": [46, 47, 2353]}                  ms; 512 tokens an id, ceil
 *     with sessions   {"session_id": "s1", "delay": 300, ...}       ms after the turn before ends
 *   bailian           {"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "turn": 2, ...,
 *                      "hash_ids": [1089]}                          seconds; 16 tokens an id, ceil
 *   servegen          {"request_id": 0, "type": "text", "input_length": 271, "hash_ids": [0]}
 *                     no times (a batch); traces a to c have no output length; 16 tokens an id
 *
 * Sources: kvcache-ai/Mooncake (FAST'25 release), alibaba-edu/qwen-bailian-usagetraces-anon,
 * alibaba/ServeGen (data/offline), and for sessions ai-dynamo/dynamo. The three share key names
 * but not units or block sizes, so a chat_id decides between the first two, and a row of another
 * member of the family is refused. Every prompt is whole: a follow-up's input holds the turns
 * before it and nothing is added (adding them is a known fault: ai-dynamo/aiperf issue 1393).
 *
 * A Bailian chat continues its parent, so a tree of chats is one session, also when the parent lies
 * outside the slice; its recorded times are kept (open loop). A chat that is its own parent begins
 * a session, a chat that is there twice stays twice (both are counted), and a circle of parents is
 * refused: none of its chats could have been first. A row with a delay waits for the turn
 * before it (closed loop). */
#include <string.h>

#include "traces/readers/trace_reader.h"

enum { MOONCAKE_TIMESTAMP, MOONCAKE_INPUT, MOONCAKE_OUTPUT, MOONCAKE_IDS, MOONCAKE_SESSION };

static const struct kc_trace_column mooncake_columns[] = {
    [MOONCAKE_TIMESTAMP] = {KC_ROLE_ARRIVAL, false, "timestamp", NULL},
    [MOONCAKE_INPUT] = {KC_ROLE_INPUT, false, "input_length", NULL},
    [MOONCAKE_OUTPUT] = {KC_ROLE_OUTPUT, true, "output_length", NULL},
    [MOONCAKE_IDS] = {KC_ROLE_IDS, false, "hash_ids", NULL},
    [MOONCAKE_SESSION] = {KC_ROLE_SESSION, false, "session_id", NULL},
    {KC_ROLE_WAIT, false, "delay", NULL},
};

static const struct kc_trace_column bailian_columns[] = {
    {KC_ROLE_SESSION, true, "chat_id", NULL},
    {KC_ROLE_PARENT, true, "parent_chat_id", NULL},
    {KC_ROLE_ARRIVAL, true, "timestamp", NULL},
    {KC_ROLE_INPUT, true, "input_length", NULL},
    {KC_ROLE_OUTPUT, true, "output_length", NULL},
    {KC_ROLE_KIND, false, "type", NULL},
    {KC_ROLE_TURN, false, "turn", NULL},
    {KC_ROLE_IDS, false, "hash_ids", NULL},
};

static const struct kc_trace_column servegen_columns[] = {
    {KC_ROLE_EXTRA_1, true, "request_id", NULL},
    {KC_ROLE_KIND, true, "type", NULL},
    {KC_ROLE_INPUT, true, "input_length", NULL},
    {KC_ROLE_OUTPUT, false, "output_length", NULL},
    {KC_ROLE_IDS, false, "hash_ids", NULL},
};

static bool has_key(const struct kc_json_value *object, const char *key)
{
  struct kc_json_value value;
  return kc_json_find(object, key, &value);
}

static bool mooncake_detect(const struct kc_trace_reader *reader, uint64_t columns,
                            const struct kc_json_value *object)
{
  KC_ASSERT(reader == &kc_reader_mooncake);
  const bool timed = (columns & (1u << MOONCAKE_TIMESTAMP | 1u << MOONCAKE_SESSION)) != 0;
  const bool sized = (columns & (1u << MOONCAKE_INPUT | 1u << MOONCAKE_IDS)) != 0;
  return timed && sized && !has_key(object, "chat_id");
}

static bool servegen_detect(const struct kc_trace_reader *reader, uint64_t columns,
                            const struct kc_json_value *object)
{
  KC_ASSERT(reader == &kc_reader_servegen_offline && columns != 0);
  return !has_key(object, "timestamp") && !has_key(object, "chat_id");
}

static enum kc_err read_ids(struct kc_trace_builder *builder)
{
  struct kc_json_value array;
  if (!kc_trace_value(builder, KC_ROLE_IDS, &array)) return KC_OK;
  return kc_trace_push_ids(builder, &array);
}

/* The input, or what the ids say where it is absent: whole blocks, which may be too much by less
 * than one block. */
static enum kc_err read_input(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  if (kc_trace_cell(builder, KC_ROLE_INPUT) != NULL) {
    return kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens);
  }
  const uint64_t tokens =
      (uint64_t)kc_trace_pushed_ids(builder) * builder->trace->block_tokens;
  if (tokens == 0 || tokens > UINT32_MAX) {
    return kc_trace_bad_place(builder, NULL,
                              "key input_length is missing, and there are no hash_ids to count");
  }
  raw->input_tokens = (uint32_t)tokens;
  kc_trace_note_count(builder, KC_NOTE_INPUT_FROM_IDS, 1);
  return KC_OK;
}

static enum kc_err mooncake_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  KC_ASSERT(builder->reader == &kc_reader_mooncake);
  KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  raw->arrival_missing = kc_trace_cell(builder, KC_ROLE_ARRIVAL) == NULL;
  if (raw->arrival_missing && raw->session.kind == KC_KEY_NONE) {
    return kc_trace_bad_place(builder, NULL,
                              "key timestamp is missing; expected the arrival, or a session_id and "
                              "a delay");
  }
  if (!raw->arrival_missing) {
    KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  }
  const bool waits = kc_trace_cell(builder, KC_ROLE_WAIT) != NULL;
  if (waits) KC_TRY(kc_trace_read_wait(builder, KC_ROLE_WAIT, &raw->wait_ps));
  if (waits || raw->arrival_missing) raw->after = KC_AFTER_PREVIOUS;
  KC_TRY(read_ids(builder));
  KC_TRY(read_input(builder, raw));
  if (kc_trace_cell(builder, KC_ROLE_OUTPUT) == NULL) {
    return kc_trace_bad_place(builder, NULL, "key output_length is null; expected a number");
  }
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

static void read_kind(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, KC_ROLE_KIND);
  if (cell == NULL || builder->kind_of[KC_ROLE_KIND] != KC_JSON_STRING) return;
  raw->kind = cell->text;
  raw->kind_bytes = cell->bytes;
}

/* A required key whose value is null says as little as an absent one. */
static enum kc_err need(struct kc_trace_builder *builder, enum kc_trace_role role,
                        const char *sentence)
{
  if (kc_trace_cell(builder, role) != NULL) return KC_OK;
  return kc_trace_bad_place(builder, NULL, sentence);
}

static enum kc_err bailian_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  KC_ASSERT(builder->reader == &kc_reader_bailian);
  KC_TRY(need(builder, KC_ROLE_SESSION, "key chat_id is null; expected a number"));
  KC_TRY(need(builder, KC_ROLE_ARRIVAL, "key timestamp is null; expected a number"));
  KC_TRY(need(builder, KC_ROLE_INPUT, "key input_length is null; expected a number"));
  KC_TRY(need(builder, KC_ROLE_OUTPUT, "key output_length is null; expected a number"));
  const struct kc_csv_cell *const parent = kc_trace_cell(builder, KC_ROLE_PARENT);
  const bool root = parent == NULL || (parent->bytes == 2 && memcmp(parent->text, "-1", 2) == 0);
  KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  if (!root) KC_TRY(kc_trace_read_key(builder, KC_ROLE_PARENT, &raw->parent));
  raw->session_once = true;
  KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  if (kc_trace_cell(builder, KC_ROLE_TURN) != NULL) {
    KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_TURN, &raw->turn));
  }
  read_kind(builder, raw);
  KC_TRY(read_ids(builder));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

static enum kc_err servegen_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  KC_ASSERT(builder->reader == &kc_reader_servegen_offline);
  KC_TRY(need(builder, KC_ROLE_INPUT, "key input_length is null; expected a number"));
  read_kind(builder, raw);
  KC_TRY(read_ids(builder));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  raw->output_missing = kc_trace_cell(builder, KC_ROLE_OUTPUT) == NULL;
  if (raw->output_missing) return KC_OK;
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

const struct kc_trace_reader kc_reader_mooncake = {
    .name = "mooncake",
    .sample = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": "
              "[0, 1]}",
    .framing = KC_FRAMING_JSONL,
    .column = mooncake_columns,
    .column_count = sizeof mooncake_columns / sizeof mooncake_columns[0],
    .prefix_ids = true,
    .unit = KC_UNIT_MS,
    .block_tokens = 512,
    .tail = KC_TAIL_CEIL,
    .detect_object = mooncake_detect,
    .parse_row = mooncake_parse_row,
};

const struct kc_trace_reader kc_reader_bailian = {
    .name = "bailian",
    .sample = "{\"chat_id\": 159, \"parent_chat_id\": 55, \"timestamp\": 61.114, "
              "\"input_length\": 521, \"output_length\": 132, \"turn\": 2, \"hash_ids\": [1089]}",
    .framing = KC_FRAMING_JSONL,
    .column = bailian_columns,
    .column_count = sizeof bailian_columns / sizeof bailian_columns[0],
    .prefix_ids = true,
    .unit = KC_UNIT_S,
    .block_tokens = 16,
    .tail = KC_TAIL_CEIL,
    .parse_row = bailian_parse_row,
};

const struct kc_trace_reader kc_reader_servegen_offline = {
    .name = "servegen",
    .sample = "{\"request_id\": 0, \"type\": \"text\", \"input_length\": 271, \"hash_ids\": [0]}",
    .framing = KC_FRAMING_JSONL,
    .column = servegen_columns,
    .column_count = sizeof servegen_columns / sizeof servegen_columns[0],
    .prefix_ids = true,
    .block_tokens = 16,
    .tail = KC_TAIL_CEIL,
    .detect_object = servegen_detect,
    .parse_row = servegen_parse_row,
};
