/* The program's own format: everything a trace can say, in one CSV table.
 *
 *   arrival_ps,input_tokens,output_tokens,session,after,wait_ps,kind,flags,prefix_ids_ceil_512
 *   0,6758,500,0,,,chat,,0 1 2 3
 *   27482000000,6955,52,0,0,3000000000,chat,failed,0 1 2 9
 *
 * Only the first two columns after the arrival must be there; a trace without arrivals has no
 * arrival_ps. A table made by hand may say arrival_s, _ms, _us or _ns instead, without waits.
 * `after` is the number of the row that must end first, the first row being 0. The name of the last
 * column says how prefixes end and how long a block is, so that the table cannot be parted from
 * what its numbers mean. Written by trace_write.c. */
#include <string.h>
#include <strings.h>

#include "traces/readers/trace_reader.h"

static const char ids_prefix[] = "prefix_ids_";

static const struct kc_trace_column canonical_columns[] = {
    {KC_ROLE_ARRIVAL, false, "arrival_ps", NULL},
    {KC_ROLE_INPUT, true, "input_tokens", NULL},
    {KC_ROLE_OUTPUT, true, "output_tokens", NULL},
    {KC_ROLE_SESSION, false, "session", NULL},
    {KC_ROLE_EXTRA_1, false, "after", NULL},
    {KC_ROLE_WAIT, false, "wait_ps", NULL},
    {KC_ROLE_KIND, false, "kind", NULL},
    {KC_ROLE_STATUS, false, "flags", NULL},
};

static enum kc_err bad_ids_name(struct kc_trace_builder *builder, const struct kc_csv_cell *cell)
{
  return kc_trace_bad_place(builder, cell->text,
                            "expected a column of prefix ids named like prefix_ids_ceil_512: ceil "
                            "or floor, and tokens per id");
}

/* "prefix_ids_ceil_512" -> the tail rule and the tokens of a block. */
static enum kc_err read_ids_name(struct kc_trace_builder *builder, const struct kc_csv_cell *cell)
{
  const char *at = cell->text + sizeof ids_prefix - 1;
  const char *const end = cell->text + cell->bytes;
  enum kc_tail_rule tail;
  uint64_t tokens;
  if (end - at > 5 && memcmp(at, "ceil_", 5) == 0) {
    tail = KC_TAIL_CEIL;
    at += 5;
  } else if (end - at > 6 && memcmp(at, "floor_", 6) == 0) {
    tail = KC_TAIL_FLOOR;
    at += 6;
  } else {
    return bad_ids_name(builder, cell);
  }
  const struct kc_json_value number = {at, (size_t)(end - at), KC_JSON_NUMBER, false};
  if (kc_json_u64(&number, &tokens) != KC_JSON_OK || tokens == 0 || tokens > UINT32_MAX) {
    return bad_ids_name(builder, cell);
  }
  return kc_trace_set_blocks(builder, (uint32_t)tokens, tail);
}

/* arrival_s and its like, where there is no arrival_ps: the name says the unit of this file. */
static enum kc_err find_arrival(struct kc_trace_builder *builder)
{
  static const struct {
    const char *name;
    enum kc_time_unit unit;
  } others[] = {{"arrival_s", KC_UNIT_S}, {"arrival_ms", KC_UNIT_MS}, {"arrival_us", KC_UNIT_US},
                {"arrival_ns", KC_UNIT_NS}};
  const enum kc_time_unit wanted = builder->options->time_unit;
  builder->unit = wanted != KC_UNIT_FORMAT ? wanted : KC_UNIT_PS;
  for (uint32_t i = 0; i < builder->row.count; i++) {
    const struct kc_csv_cell *const cell = &builder->row.cell[i];
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
      if (strlen(others[k].name) != cell->bytes ||
          strncasecmp(others[k].name, cell->text, cell->bytes) != 0) {
        continue;
      }
      if (builder->cell_of[KC_ROLE_ARRIVAL] >= 0 || builder->cell_of[KC_ROLE_WAIT] >= 0) {
        return kc_trace_bad_place(builder, cell->text, "a second column of times, in another unit; "
                                  "expected arrival_ps alone, or beside wait_ps");
      }
      if (wanted != KC_UNIT_FORMAT && wanted != others[k].unit) {
        return kc_trace_bad_place(builder, cell->text, "the column's name says its unit; leave "
                                  "time_unit out");
      }
      builder->cell_of[KC_ROLE_ARRIVAL] = (int32_t)i;
      builder->name_of[KC_ROLE_ARRIVAL] = others[k].name;
      builder->unit = others[k].unit;
    }
  }
  builder->trace->time_unit = builder->unit;
  return KC_OK;
}

static enum kc_err canonical_begin(struct kc_trace_builder *builder)
{
  KC_TRY(find_arrival(builder));
  const size_t prefix_bytes = sizeof ids_prefix - 1;
  builder->name_of[KC_ROLE_IDS] = "prefix_ids";
  for (uint32_t i = 0; i < builder->row.count; i++) {
    const struct kc_csv_cell *const cell = &builder->row.cell[i];
    if (cell->bytes < prefix_bytes) continue;
    if (strncasecmp(cell->text, ids_prefix, prefix_bytes) != 0) continue;
    if (builder->cell_of[KC_ROLE_IDS] >= 0) {
      return kc_trace_bad_place(builder, cell->text,
                                "a second column of prefix ids; expected one");
    }
    builder->cell_of[KC_ROLE_IDS] = (int32_t)i;
    KC_TRY(read_ids_name(builder, cell));
  }
  return KC_OK;
}

static const struct kc_csv_cell *filled(const struct kc_trace_builder *builder,
                                        enum kc_trace_role role)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  return cell == NULL || cell->bytes == 0 ? NULL : cell;
}

/* "failed+subagent" -> bits. */
static enum kc_err read_flags(struct kc_trace_builder *builder, uint8_t *flags)
{
  const struct kc_csv_cell *const cell = filled(builder, KC_ROLE_STATUS);
  if (cell == NULL) return KC_OK;
  const char *at = cell->text;
  const char *const end = at + cell->bytes;
  while (at < end) {
    const char *stop = memchr(at, '+', (size_t)(end - at));
    if (stop == NULL) stop = end;
    unsigned bit = 0;
    for (; kc_trace_flag_name(bit) != NULL; bit++) {
      const char *const name = kc_trace_flag_name(bit);
      if (strlen(name) == (size_t)(stop - at) && memcmp(name, at, (size_t)(stop - at)) == 0) break;
    }
    if (kc_trace_flag_name(bit) == NULL) {
      return kc_trace_bad_cell(builder, KC_ROLE_STATUS,
                               "expected failed, cancelled, subagent or compacted, with '+' "
                               "between");
    }
    *flags |= (uint8_t)(1u << bit);
    at = stop + 1;
  }
  return KC_OK;
}

static enum kc_err read_after(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  uint32_t row;
  if (filled(builder, KC_ROLE_EXTRA_1) == NULL) return KC_OK;
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_EXTRA_1, &row));
  raw->after = KC_AFTER_HANDLE;
  raw->after_handle = builder->rows_before_file + row;
  if (filled(builder, KC_ROLE_WAIT) == NULL) return KC_OK;
  return kc_trace_read_wait(builder, KC_ROLE_WAIT, &raw->wait_ps);
}

static enum kc_err canonical_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const struct kc_csv_cell *const kind = filled(builder, KC_ROLE_KIND);
  KC_ASSERT(builder->reader == &kc_reader_canonical);
  if (kc_trace_cell(builder, KC_ROLE_ARRIVAL) != NULL) {
    KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  }
  KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  KC_TRY(read_after(builder, raw));
  KC_TRY(read_flags(builder, &raw->flags));
  if (kind != NULL) {
    raw->kind = kind->text;
    raw->kind_bytes = kind->bytes;
  }
  KC_TRY(kc_trace_push_id_cell(builder, KC_ROLE_IDS));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  return kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens);
}

const struct kc_trace_reader kc_reader_canonical = {
    .name = "kvcap-trace",
    .sample = "arrival_ps,input_tokens,output_tokens",
    .framing = KC_FRAMING_CSV,
    .column = canonical_columns,
    .column_count = sizeof canonical_columns / sizeof canonical_columns[0],
    .prefix_ids = true,
    .local_ids = true,
    .local_sessions = true,
    .unit = KC_UNIT_PS,
    .detect = kc_trace_has_columns,
    .begin = canonical_begin,
    .parse_row = canonical_parse_row,
};
