/* What readers ask for: a cell as tokens, as a time, as a key; and the errors that name its place.
 *
 * A JSON object's members stand in the same row of cells as a CSV line's, so one set of functions
 * serves both. Nothing is owned. */
#include <stdio.h>
#include <string.h>

#include "traces/readers/trace_store.h"

/* ---- errors -------------------------------------------------------------------------------- */

struct place {
  uint64_t line;
  uint32_t column;
};

/* Documents run over many lines, so line ends up to the place are counted. */
static struct place find_place(const struct kc_trace_builder *builder, const char *at)
{
  struct place place = {builder->line, 0};
  const char *line = builder->line_text;
  if (at == NULL || line == NULL) return place;
  KC_ASSERT(at >= line);
  for (const char *p = line; (p = memchr(p, '\n', (size_t)(at - p))) != NULL;) {
    place.line++;
    line = ++p;
  }
  place.column = (uint32_t)(at - line) + 1;
  return place;
}

enum kc_err kc_trace_bad_place(struct kc_trace_builder *builder, const char *at,
                               const char *sentence)
{
  const struct place place = find_place(builder, at);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, place.line, place.column, "%s",
                    sentence);
}

static enum kc_err bad_text(struct kc_trace_builder *builder, const char *name, const char *text,
                            size_t bytes, const char *complaint)
{
  enum { SHOWN_BYTES = 40 };
  const bool cut = bytes > SHOWN_BYTES;
  const struct place place = find_place(builder, text);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, place.line, place.column,
                    "%s is \"%.*s%s\": %s", name, cut ? SHOWN_BYTES : (int)bytes, text,
                    cut ? "..." : "", complaint);
}

/* A key that every object has, and that says nothing in this one. */
static enum kc_err bad_null(struct kc_trace_builder *builder, enum kc_trace_role role,
                            const char *complaint)
{
  const struct kc_trace_reader *const reader = builder->reader;
  uint32_t i = 0;
  while (i < reader->column_count && reader->column[i].role != role) i++;
  KC_ASSERT(i < reader->column_count);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, kc_trace_here(builder).line, 0,
                    "%s is null: %s", reader->column[i].name, complaint);
}

enum kc_err kc_trace_bad_cell(struct kc_trace_builder *builder, enum kc_trace_role role,
                              const char *complaint)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  if (cell == NULL) return bad_null(builder, role, complaint);
  KC_ASSERT(cell->text >= builder->line_text);
  return bad_text(builder, builder->name_of[role], cell->text, cell->bytes, complaint);
}

enum kc_err kc_trace_bad_value(struct kc_trace_builder *builder, const char *name,
                               const struct kc_json_value *value, const char *complaint)
{
  KC_ASSERT(value->text != NULL);
  return bad_text(builder, name, value->text, value->bytes, complaint);
}

enum kc_err kc_trace_check_cursor(struct kc_trace_builder *builder,
                                  const struct kc_json_cursor *cursor)
{
  if (cursor->fault == KC_JSON_OK) return KC_OK;
  return kc_trace_bad_place(builder, cursor->at, kc_json_fault_text(cursor->fault));
}

/* ---- tokens -------------------------------------------------------------------------------- */

static const char tokens_expected[] = "expected a whole number from 0 to 4294967295";

/* The general case: any number of digits. */
static bool long_number(const char *text, size_t bytes, uint32_t *out)
{
  uint64_t value = 0;
  bool valid = bytes > 0;
  for (size_t i = 0; i < bytes && valid; i++) {
    const unsigned digit = (unsigned char)text[i] - (unsigned)'0';
    value = value * 10 + digit;
    valid = digit <= 9 && value <= UINT32_MAX;
  }
  *out = (uint32_t)value;
  return valid;
}

static bool is_json(const struct kc_trace_builder *builder)
{
  return builder->framing != KC_FRAMING_CSV;
}

enum kc_err kc_trace_read_any_tokens(struct kc_trace_builder *builder, enum kc_trace_role role,
                                     uint32_t *tokens)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  const bool number = !is_json(builder) || builder->kind_of[role] == KC_JSON_NUMBER;
  if (cell != NULL && number && long_number(cell->text, cell->bytes, tokens)) return KC_OK;
  return kc_trace_bad_cell(builder, role, tokens_expected);
}

enum kc_err kc_trace_value_tokens(struct kc_trace_builder *builder, const char *name,
                                  const struct kc_json_value *value, uint32_t *tokens)
{
  if (value->kind == KC_JSON_NUMBER && long_number(value->text, value->bytes, tokens)) return KC_OK;
  return kc_trace_bad_value(builder, name, value, tokens_expected);
}

/* ---- times --------------------------------------------------------------------------------- */

static unsigned unit_scale(enum kc_time_unit unit)
{
  static const unsigned char scale[] = {0, 0, 3, 6, 9, 12};
  KC_ASSERT((unsigned)unit < sizeof scale);
  return scale[unit];
}

static enum kc_err bad_time(struct kc_trace_builder *builder, const char *name, const char *text,
                            size_t bytes, enum kc_time_unit unit, enum kc_time_fault fault)
{
  char complaint[160];
  const int length = snprintf(complaint, sizeof complaint, "it %s; expected a number of %s, 0 or "
                              "more", kc_time_fault_text(fault), kc_time_unit_name(unit));
  KC_ASSERT(length > 0 && (size_t)length < sizeof complaint);
  return bad_text(builder, name, text, bytes, complaint);
}

static enum kc_err read_time(struct kc_trace_builder *builder, const char *name, const char *text,
                             size_t bytes, bool number, enum kc_time_unit unit,
                             struct kc_instant *instant)
{
  bool rounded = false;
  const enum kc_time_fault fault =
      number ? kc_time_parse_scaled(text, bytes, unit_scale(unit), instant, &rounded)
             : KC_TIME_SHAPE;
  if (fault != KC_TIME_OK) return bad_time(builder, name, text, bytes, unit, fault);
  builder->rounded |= rounded;
  return KC_OK;
}

static enum kc_err as_wait(struct kc_trace_builder *builder, const char *text,
                           const struct kc_instant *instant, kc_ps *wait)
{
  const struct kc_instant zero = {0, 0};
  if (kc_instant_minus(instant, &zero, wait) && *wait < KC_PS_NEVER) return KC_OK;
  return kc_trace_bad_place(builder, text, "longer than 106 days, which is as long as a run can "
                                           "be");
}

enum kc_err kc_trace_read_instant(struct kc_trace_builder *builder, enum kc_trace_role role,
                                  struct kc_instant *instant)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  const bool number = !is_json(builder) || builder->kind_of[role] == KC_JSON_NUMBER;
  if (cell == NULL) return kc_trace_bad_cell(builder, role, "expected a number");
  return read_time(builder, builder->name_of[role], cell->text, cell->bytes, number, builder->unit,
                   instant);
}

enum kc_err kc_trace_read_wait(struct kc_trace_builder *builder, enum kc_trace_role role,
                               kc_ps *wait)
{
  struct kc_instant instant;
  KC_TRY(kc_trace_read_instant(builder, role, &instant));
  return as_wait(builder, kc_trace_cell(builder, role)->text, &instant, wait);
}

enum kc_err kc_trace_value_instant(struct kc_trace_builder *builder, const char *name,
                                   const struct kc_json_value *value, enum kc_time_unit unit,
                                   struct kc_instant *instant)
{
  return read_time(builder, name, value->text, value->bytes, value->kind == KC_JSON_NUMBER, unit,
                   instant);
}

enum kc_err kc_trace_value_wait(struct kc_trace_builder *builder, const char *name,
                                const struct kc_json_value *value, enum kc_time_unit unit,
                                kc_ps *wait)
{
  struct kc_instant instant;
  KC_TRY(kc_trace_value_instant(builder, name, value, unit, &instant));
  return as_wait(builder, value->text, &instant, wait);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static bool whole_number(const char *text, size_t bytes, uint64_t *number)
{
  const struct kc_json_value value = {text, bytes, KC_JSON_NUMBER, false};
  return bytes > 0 && kc_json_u64(&value, number) == KC_JSON_OK;
}

enum kc_err kc_trace_read_key(struct kc_trace_builder *builder, enum kc_trace_role role,
                              struct kc_trace_key *key)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  const enum kc_json_kind kind = is_json(builder) ? builder->kind_of[role] : KC_JSON_NUMBER;
  *key = (struct kc_trace_key){.kind = KC_KEY_NONE};
  if (cell == NULL || cell->bytes == 0) return KC_OK;
  if (kind == KC_JSON_NUMBER && whole_number(cell->text, cell->bytes, &key->number)) {
    key->kind = KC_KEY_NUMBER;
    return KC_OK;
  }
  if (is_json(builder) && kind != KC_JSON_STRING) {
    return kc_trace_bad_cell(builder, role,
                             "expected a text or a whole number from 0 to 2^64 - 1");
  }
  *key = (struct kc_trace_key){KC_KEY_TEXT, 0, cell->text, cell->bytes};
  return KC_OK;
}

/* ---- arrays -------------------------------------------------------------------------------- */

bool kc_trace_value(const struct kc_trace_builder *builder, enum kc_trace_role role,
                    struct kc_json_value *value)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  KC_ASSERT(is_json(builder));
  if (cell == NULL) return false;
  *value = (struct kc_json_value){cell->text, cell->bytes, builder->kind_of[role], false};
  return true;
}

enum kc_err kc_trace_push_ids(struct kc_trace_builder *builder, const struct kc_json_value *array)
{
  struct kc_json_cursor cursor;
  uint64_t id;
  if (array->kind != KC_JSON_ARRAY) {
    return kc_trace_bad_value(builder, "the list of prefix ids", array,
                              "expected an array of whole numbers");
  }
  kc_json_open(&cursor, array);
  while (kc_json_next_u64(&cursor, &id)) KC_TRY(kc_trace_push_id(builder, id));
  return kc_trace_check_cursor(builder, &cursor);
}

enum kc_err kc_trace_push_id_cell(struct kc_trace_builder *builder, enum kc_trace_role role)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  if (cell == NULL) return KC_OK;
  const char *at = cell->text;
  const char *const end = at + cell->bytes;
  while (at < end) {
    const char *stop = at;
    uint64_t id;
    while (stop < end && *stop != ' ' && *stop != ';') stop++;
    if (stop > at) {
      if (!whole_number(at, (size_t)(stop - at), &id)) {
        return bad_text(builder, builder->name_of[role], at, (size_t)(stop - at),
                        "expected prefix ids, whole numbers from 0 to 2^64 - 1, with spaces "
                        "between");
      }
      KC_TRY(kc_trace_push_id(builder, id));
    }
    at = stop + 1;
  }
  return KC_OK;
}
