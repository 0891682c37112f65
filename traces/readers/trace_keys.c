/* JSON objects as rows: which format the first one belongs to, and which key plays which role.
 *
 *   {"timestamp": 0, "output_length": 500, "note": null}
 *    column 0         column 2              none         -> cell_of[role], kind_of[role], ignored
 *
 * Keys are found by name, in any order, with case. The row before says which column to expect at
 * each place, so a file whose keys keep their order costs one comparison a key. A key that was
 * never seen before makes the reader look again: another format may have begun, and a file that
 * mixes two is refused, because Mooncake's milliseconds and Bailian's seconds bear one name. */
#include <stdio.h>
#include <string.h>

#include "traces/readers/text_list.h"
#include "traces/readers/trace_store.h"

enum { IGNORED_NAMES_MAX = 256, NAME_BYTES_MAX = 64 };

static int16_t find_column(const struct kc_trace_reader *reader, const struct kc_json_value *key)
{
  for (uint32_t i = 0; i < reader->column_count; i++) {
    const struct kc_trace_column *const column = &reader->column[i];
    if (kc_json_is(key, column->name)) return (int16_t)i;
    if (column->alias != NULL && kc_json_is(key, column->alias)) return (int16_t)i;
  }
  return -1;
}

static uint64_t required_columns(const struct kc_trace_reader *reader)
{
  uint64_t columns = 0;
  for (uint32_t i = 0; i < reader->column_count; i++) {
    if (reader->column[i].required) columns |= UINT64_C(1) << i;
  }
  return columns;
}

/* The reader's columns that the object has; stops at a fault, which mapping the object reports. */
static uint64_t present_columns(const struct kc_trace_reader *reader,
                                const struct kc_json_value *object)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  uint64_t columns = 0;
  KC_ASSERT(reader->column_count <= 64);
  kc_json_open(&cursor, object);
  while (kc_json_next_member(&cursor, &key, &value)) {
    const int16_t column = find_column(reader, &key);
    if (column >= 0) columns |= UINT64_C(1) << column;
  }
  return columns;
}

static bool fits(const struct kc_trace_reader *reader, const struct kc_json_value *object)
{
  const uint64_t columns = present_columns(reader, object);
  const uint64_t required = required_columns(reader);
  if ((columns & required) != required) return false;
  return reader->detect_object == NULL || reader->detect_object(reader, columns, object);
}

static void list_keys(char *out, size_t size, const struct kc_json_value *object)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  struct kc_text_list list;
  kc_text_list_init(&list, out, size);
  kc_json_open(&cursor, object);
  while (kc_json_next_member(&cursor, &key, &value)) kc_text_list_add(&list, key.text, key.bytes);
}

static enum kc_err fail_unknown(struct kc_trace_builder *builder,
                                const struct kc_json_value *object)
{
  char known[160], found[160];
  struct kc_text_list list;
  kc_text_list_init(&list, known, sizeof known);
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    const struct kc_trace_reader *const reader = kc_trace_readers[i];
    if (reader->framing == KC_FRAMING_CSV) continue;
    kc_text_list_add(&list, reader->name, strlen(reader->name));
  }
  list_keys(found, sizeof found, object);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "no known JSON trace format has these keys: %s; known are %s "
                    "(traces/FORMATS.md lists their keys)", found, known);
}

/* The format that was asked for does not take this object. */
static enum kc_err fail_other(struct kc_trace_builder *builder,
                              const struct kc_trace_reader *reader,
                              const struct kc_json_value *object)
{
  char found[160];
  list_keys(found, sizeof found, object);
  if (reader->framing == KC_FRAMING_CSV) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "this is JSON, but format %s is CSV with the header \"%s\"", reader->name,
                      reader->sample);
  }
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "this is not format %s, which has objects such as %s; this one has the keys %s",
                    reader->name, reader->sample, found);
}

/* The one reader that takes the object, or NULL; *second is another one that takes it too. */
static const struct kc_trace_reader *choose(const struct kc_json_value *object,
                                            const struct kc_trace_reader **second)
{
  const struct kc_trace_reader *chosen = NULL;
  *second = NULL;
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    const struct kc_trace_reader *const reader = kc_trace_readers[i];
    if (reader->framing == KC_FRAMING_CSV || !fits(reader, object)) continue;
    if (chosen != NULL) {
      *second = reader;
      return chosen;
    }
    chosen = reader;
  }
  return chosen;
}

static enum kc_err check_syntax(struct kc_trace_builder *builder,
                                const struct kc_json_value *object)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  kc_json_open(&cursor, object);
  while (kc_json_next_member(&cursor, &key, &value)) continue;
  return kc_trace_check_cursor(builder, &cursor);
}

enum kc_err kc_trace_read_keys(struct kc_trace_builder *builder,
                               const struct kc_json_value *object)
{
  const struct kc_trace_reader *second = NULL, *chosen;
  const char *const wanted = builder->options->format;
  KC_TRY(check_syntax(builder, object));
  if (wanted != NULL) {
    chosen = kc_trace_reader_find(wanted);
    KC_ASSERT(chosen != NULL); /* the options were looked at before the file */
    const bool takes = chosen->framing != KC_FRAMING_CSV && fits(chosen, object);
    if (!takes) return fail_other(builder, chosen, object);
  } else {
    chosen = choose(object, &second);
    if (chosen == NULL) return fail_unknown(builder, object);
  }
  if (second != NULL) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "the keys fit format %s and format %s; say which one is meant",
                      chosen->name, second->name);
  }
  KC_TRY(kc_trace_begin_format(builder, chosen));
  if (chosen->parse_row != NULL) {
    bool arrivals = false;
    for (uint32_t i = 0; i < chosen->column_count; i++) {
      arrivals |= chosen->column[i].role == KC_ROLE_ARRIVAL;
    }
    if (!arrivals) kc_trace_note_once(builder, KC_NOTE_NO_ARRIVALS);
  }
  return KC_OK;
}

void kc_trace_note_ignored(struct kc_trace_builder *builder, const char *name, size_t bytes)
{
  struct kc_trace *const trace = builder->trace;
  struct kc_text_list list;
  const uint32_t known = builder->ignored.count;
  const size_t kept = bytes < NAME_BYTES_MAX ? bytes : NAME_BYTES_MAX;
  if (known >= IGNORED_NAMES_MAX) return;
  if (kc_intern_text_put(&builder->ignored, name, kept) != known) return;
  kc_trace_note_count(builder, KC_NOTE_IGNORED_COLUMNS, 1);
  kc_text_list_resume(&list, trace->ignored_columns, sizeof trace->ignored_columns);
  kc_text_list_add(&list, name, kept);
}

/* A key that is not the one remembered for its place. */
static enum kc_err learn_key(struct kc_trace_builder *builder, const struct kc_json_value *object,
                             const struct kc_json_value *key, uint32_t place, int16_t *column)
{
  const struct kc_trace_reader *second;
  *column = find_column(builder->reader, key);
  if (place < KC_KEY_MEMOS && key->bytes <= KC_KEY_MEMO_BYTES) {
    struct kc_key_memo *const memo = &builder->memo[place];
    memcpy(memo->text, key->text, key->bytes);
    memo->bytes = (uint8_t)(key->bytes + 1);
    memo->column = *column;
  }
  const uint32_t known = builder->ignored.count;
  if (*column < 0) kc_trace_note_ignored(builder, key->text, key->bytes);
  if (builder->ignored.count == known || builder->options->format != NULL) return KC_OK;
  const struct kc_trace_reader *const now = choose(object, &second);
  if (now == NULL || now == builder->reader || second != NULL) return KC_OK;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "this object is of format %s (key %.*s), but the trace began as format %s; "
                    "expected one format a trace", now->name,
                    key->bytes < 40 ? (int)key->bytes : 40, key->text, builder->reader->name);
}

static inline bool is_expected(const struct kc_trace_builder *builder,
                               const struct kc_json_value *key, uint32_t place)
{
  if (place >= KC_KEY_MEMOS) return false;
  const struct kc_key_memo *const memo = &builder->memo[place];
  return memo->bytes == key->bytes + 1 && memcmp(memo->text, key->text, key->bytes) == 0;
}

static enum kc_err fail_missing(struct kc_trace_builder *builder,
                                const struct kc_json_value *object, uint64_t missing)
{
  const struct kc_trace_reader *second;
  const struct kc_trace_reader *const now = choose(object, &second);
  const struct kc_trace_column *const column =
      &builder->reader->column[__builtin_ctzll(missing)];
  if (now != NULL && now != builder->reader) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "this object is of format %s, but the trace began as format %s; expected one "
                      "format a trace", now->name, builder->reader->name);
  }
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "key %s is missing; format %s has objects such as %s", column->name,
                    builder->reader->name, builder->reader->sample);
}

static enum kc_err put_value(struct kc_trace_builder *builder, int16_t index,
                             const struct kc_json_value *key, const struct kc_json_value *value,
                             uint64_t *seen)
{
  const struct kc_trace_column *const column = &builder->reader->column[index];
  const uint64_t bit = UINT64_C(1) << index;
  if ((*seen & bit) != 0) {
    return kc_trace_bad_value(builder, column->name, key,
                              "the key is there twice in one object; expected it once");
  }
  *seen |= bit;
  if (value->kind == KC_JSON_NULL) {
    const bool said = (builder->reader->null_says >> index & 1) != 0;
    kc_trace_note_count(builder, KC_NOTE_NULL_CELLS, !said);
    return KC_OK;
  }
  builder->cell_of[column->role] = (int32_t)column->role;
  builder->kind_of[column->role] = value->kind;
  builder->name_of[column->role] = column->name;
  builder->row.cell[column->role] = (struct kc_csv_cell){value->text, (uint32_t)value->bytes};
  return KC_OK;
}

enum kc_err kc_trace_map_object(struct kc_trace_builder *builder,
                                const struct kc_json_value *object)
{
  struct kc_json_cursor cursor;
  struct kc_json_value key, value;
  uint64_t seen = 0;
  const uint64_t required = builder->required;
  for (size_t role = 0; role < KC_ROLES; role++) builder->cell_of[role] = -1;
  kc_json_open(&cursor, object);
  for (uint32_t place = 0; kc_json_next_member(&cursor, &key, &value); place++) {
    int16_t column;
    if (is_expected(builder, &key, place)) {
      column = builder->memo[place].column;
    } else {
      KC_TRY(learn_key(builder, object, &key, place, &column));
    }
    if (column >= 0) KC_TRY(put_value(builder, column, &key, &value, &seen));
  }
  KC_TRY(kc_trace_check_cursor(builder, &cursor));
  if ((seen & required) != required) return fail_missing(builder, object, required & ~seen);
  return KC_OK;
}

/* ---- the format of the trace, CSV or JSON -------------------------------------------------- */

static enum kc_err check_options(struct kc_trace_builder *builder,
                                 const struct kc_trace_reader *reader)
{
  const struct kc_trace_options *const options = builder->options;
  const char *what = NULL, *why = NULL;
  if (options->time_unit != KC_UNIT_FORMAT && reader->unit == KC_UNIT_FORMAT) {
    what = "time_unit";
    why = "has no times that are bare numbers";
  } else if (!reader->prefix_ids && options->block_tokens != 0) {
    what = "block_tokens";
    why = "has no prefix ids";
  } else if (!reader->prefix_ids && options->tail != KC_TAIL_NONE) {
    what = "the tail rule";
    why = "has no prefix ids";
  }
  if (what == NULL) return KC_OK;
  return kc_fail(builder->diag, KC_ERR_USAGE, "format %s %s, so %s cannot be set; leave it out",
                 reader->name, why, what);
}

enum kc_err kc_trace_begin_format(struct kc_trace_builder *builder,
                                  const struct kc_trace_reader *reader)
{
  struct kc_trace *const trace = builder->trace;
  const struct kc_trace_options *const options = builder->options;
  if (builder->reader == reader) return KC_OK;
  if (builder->reader != NULL) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "this file is of format %s, but the files before it are of format %s; "
                      "expected one format a trace", reader->name, builder->reader->name);
  }
  KC_TRY(check_options(builder, reader));
  builder->reader = reader;
  trace->format_at = kc_trace_here(builder);
  trace->adds_past = reader->adds_past;
  builder->required = required_columns(reader);
  builder->unit = options->time_unit != KC_UNIT_FORMAT ? options->time_unit : reader->unit;
  trace->time_unit = builder->unit;
  trace->block_tokens = options->block_tokens > 0 ? options->block_tokens : reader->block_tokens;
  trace->tail = options->tail != KC_TAIL_NONE ? options->tail : reader->tail;
  (void)snprintf(trace->format, sizeof trace->format, "%s", reader->name);
  return KC_OK;
}
