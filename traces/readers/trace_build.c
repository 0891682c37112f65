/* Lines to rows: framing, the checks that every format shares, policies, storage, order.
 *
 *   bytes  ......\r\n.......\n\n......      line ends found by memchr, at most one ceiling apart
 *          |line 1 |  line 2 | |line 4|
 *   row    arrival_ps is kept relative to the whole second of the first row until the end, when the
 *          minimum (not the first: rows may be out of order) becomes 0
 *
 * The trace owns the row array. It is sized once from the bytes ahead and the length of the first
 * row, and doubles if that was too little; nothing else is allocated, and no row allocates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/readers/short_digits.h"
#include "traces/readers/trace_reader.h"
#include "traces/readers/trace_sort.h"

void kc_trace_builder_init(struct kc_trace_builder *builder, struct kc_trace *trace,
                           const char *path, const struct kc_trace_options *options,
                           struct kc_diag *diag)
{
  KC_ASSERT(trace->row == NULL && trace->count == 0);
  KC_ASSERT(options->rows_max > 0);
  memset(builder, 0, sizeof *builder);
  builder->trace = trace;
  builder->path = path;
  builder->options = options;
  builder->diag = diag;
}

/* Fails at the current line; `at` points into it, or is NULL for the line as a whole. */
static enum kc_err fail_line(struct kc_trace_builder *builder, const char *at, const char *sentence)
{
  const uint32_t column = at == NULL ? 0 : (uint32_t)(at - builder->line_text) + 1;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, column, "%s",
                    sentence);
}

enum kc_err kc_trace_bad_cell(struct kc_trace_builder *builder, enum kc_trace_role role,
                              const char *complaint)
{
  enum { SHOWN_BYTES = 40 };
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  KC_ASSERT(cell != NULL);
  KC_ASSERT(cell->text >= builder->line_text);
  const bool cut = cell->bytes > SHOWN_BYTES;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line,
                    (uint32_t)(cell->text - builder->line_text) + 1, "%s is \"%.*s%s\": %s",
                    builder->name_of[role], cut ? SHOWN_BYTES : (int)cell->bytes, cell->text,
                    cut ? "..." : "", complaint);
}

/* The general case: any number of digits. */
static bool long_number(const struct kc_csv_cell *cell, uint32_t *out)
{
  uint64_t value = 0;
  bool valid = cell->bytes > 0;
  for (uint32_t i = 0; i < cell->bytes && valid; i++) {
    const unsigned digit = (unsigned char)cell->text[i] - (unsigned)'0';
    value = value * 10 + digit;
    valid = digit <= 9 && value <= UINT32_MAX;
  }
  *out = (uint32_t)value;
  return valid;
}

enum kc_err kc_trace_read_tokens(struct kc_trace_builder *builder, enum kc_trace_role role,
                                 uint32_t *tokens)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  KC_ASSERT(cell != NULL);
  const char *const end = cell->text + cell->bytes;
  const bool is_short = cell->bytes - 1 < KC_SHORT_DIGITS_MAX && end - builder->line_text >= 8;
  const bool valid =
      is_short ? kc_short_digits(end, cell->bytes, tokens) : long_number(cell, tokens);
  if (valid) return KC_OK;
  return kc_trace_bad_cell(builder, role, "expected a whole number from 0 to 4294967295");
}

static enum kc_err split_line(struct kc_trace_builder *builder)
{
  switch (kc_csv_split(&builder->row, builder->line_text, builder->line_bytes)) {
    case KC_CSV_OK: break;
    case KC_CSV_QUOTE_UNCLOSED:
      return fail_line(builder, builder->line_text + builder->row.fault_offset,
                       "a quoted cell is not closed before the end of the line");
    case KC_CSV_QUOTE_TRAILED:
      return fail_line(builder, builder->line_text + builder->row.fault_offset,
                       "text follows a closing quote; expected a comma or the end of the line");
    case KC_CSV_QUOTE_INSIDE:
      return fail_line(builder, builder->line_text + builder->row.fault_offset,
                       "a quote inside a cell that is not quoted; quote the whole cell and double "
                       "the quotes in it");
  }
  builder->trace->note[KC_NOTE_QUOTED_CELLS] += builder->row.quoted;
  return KC_OK;
}

static enum kc_err check_cell_count(struct kc_trace_builder *builder)
{
  const uint32_t cells = builder->row.count;
  if (cells == builder->columns) return KC_OK;
  const bool semicolons =
      cells == 1 && memchr(builder->line_text, ';', builder->line_bytes) != NULL;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "%u cell%s, but the header has %u columns%s", cells, cells == 1 ? "" : "s",
                    builder->columns,
                    semicolons ? " (';' separates cells here; expected commas)" : "");
}

/* Room for one more row. */
static enum kc_err reserve_row(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const uint64_t rows_max = builder->options->rows_max;
  if (trace->count < builder->capacity_rows) return KC_OK;
  if (trace->count >= rows_max) {
    return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line, 0,
                      "more than %llu rows, the ceiling rows_max; split the trace or raise it",
                      (unsigned long long)rows_max);
  }
  const uint64_t expected = builder->bytes_ahead / (builder->line_bytes + 1);
  uint64_t capacity = builder->capacity_rows == 0 ? expected + expected / 8 + 64
                                                  : builder->capacity_rows * 2;
  if (capacity > rows_max) capacity = rows_max;
  struct kc_trace_row *const larger =
      capacity > SIZE_MAX / sizeof *larger || KC_FAULT("trace_rows_memory")
          ? NULL
          : realloc(trace->row, (size_t)capacity * sizeof *larger);
  if (larger == NULL) {
    return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: a trace of %llu rows",
                   (unsigned long long)capacity);
  }
  trace->row = larger;
  builder->capacity_rows = capacity;
  return KC_OK;
}

/* Zero lengths: a request that produced nothing, or that brings nothing. *keep says whether the row
 * stays. */
static enum kc_err apply_policies(struct kc_trace_builder *builder, struct kc_trace_raw *raw,
                                  bool *keep)
{
  uint64_t *const note = builder->trace->note;
  *keep = true;
  if (raw->output_tokens == 0) {
    switch (builder->options->zero_output) {
      case KC_ZERO_OUTPUT_ERROR:
        return kc_trace_bad_cell(builder, KC_ROLE_OUTPUT,
                                 "a request that produced nothing; set zero_output to drop such "
                                 "rows or to floor them to 1 token");
      case KC_ZERO_OUTPUT_DROP:
        note[KC_NOTE_ZERO_OUTPUT_DROPPED]++;
        *keep = false;
        return KC_OK;
      case KC_ZERO_OUTPUT_FLOOR:
        note[KC_NOTE_ZERO_OUTPUT_FLOORED]++;
        raw->output_tokens = 1;
    }
  }
  if (raw->input_tokens == 0) {
    note[KC_NOTE_ZERO_INPUT_FLOORED]++;
    raw->input_tokens = 1;
  }
  return KC_OK;
}

/* The row's time relative to base; keeps the extremes and counts what is out of order. */
static enum kc_err place_row(struct kc_trace_builder *builder, const struct kc_instant *arrival,
                             kc_ps *at_ps)
{
  kc_ps at = 0, span = 0;
  if (builder->trace->count == 0) {
    builder->base = (struct kc_instant){arrival->seconds, 0};
    at = builder->earliest_ps = builder->latest_ps = arrival->fraction_ps;
  } else {
    bool fits = kc_instant_minus(arrival, &builder->base, &at);
    if (fits && at < builder->earliest_ps) builder->earliest_ps = at;
    if (fits && at > builder->latest_ps) builder->latest_ps = at;
    fits = fits && !__builtin_sub_overflow(builder->latest_ps, builder->earliest_ps, &span);
    if (!fits || span == KC_PS_NEVER) {
      return kc_trace_bad_cell(builder, KC_ROLE_ARRIVAL,
                               "more than 106 days away from another row, which is as long as a "
                               "run can be; split the trace");
    }
    builder->trace->note[KC_NOTE_OUT_OF_ORDER] += at < builder->previous_ps;
    builder->trace->note[KC_NOTE_TIES] += at == builder->previous_ps;
  }
  builder->previous_ps = at;
  *at_ps = at;
  return KC_OK;
}

static enum kc_err take_row(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  struct kc_trace_raw raw;
  bool keep;
  kc_ps at = 0;
  KC_TRY(check_cell_count(builder));
  builder->rounded = false;
  KC_TRY(builder->reader->parse_row(builder, &raw));
  builder->rows_seen++;
  KC_TRY(apply_policies(builder, &raw, &keep));
  if (!keep) return KC_OK;
  KC_TRY(reserve_row(builder));
  KC_TRY(place_row(builder, &raw.arrival, &at));
  trace->row[trace->count++] = (struct kc_trace_row){at, raw.input_tokens, raw.output_tokens};
  trace->note[KC_NOTE_ROUNDED_TIMES] += builder->rounded;
  const uint64_t context = (uint64_t)raw.input_tokens + raw.output_tokens;
  trace->input_tokens += raw.input_tokens;
  trace->output_tokens += raw.output_tokens;
  if (raw.input_tokens > trace->input_tokens_max) trace->input_tokens_max = raw.input_tokens;
  if (raw.output_tokens > trace->output_tokens_max) trace->output_tokens_max = raw.output_tokens;
  if (context > trace->context_tokens_max) trace->context_tokens_max = context;
  return KC_OK;
}

/* One line without its LF. */
static enum kc_err take_line(struct kc_trace_builder *builder, const char *line, size_t bytes)
{
  uint64_t *const note = builder->trace->note;
  builder->line++;
  if (bytes > 0 && line[bytes - 1] == '\r') {
    note[KC_NOTE_CRLF]++;
    bytes--;
  }
  if (builder->line == 1 && bytes >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
    note[KC_NOTE_BOM] = 1;
    line += 3;
    bytes -= 3;
  }
  builder->line_text = line;
  builder->line_bytes = bytes;
  KC_TRY(split_line(builder));
  if (builder->row.count == 1 && builder->row.cell[0].bytes == 0 && builder->row.quoted == 0) {
    note[KC_NOTE_BLANK_LINES]++;
    return KC_OK;
  }
  return builder->reader == NULL ? kc_trace_read_header(builder) : take_row(builder);
}

static enum kc_err fail_overlong(struct kc_trace_builder *builder)
{
  return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line + 1, 0,
                    "a line of more than %d bytes, the ceiling of a trace; is this a text file?",
                    KC_TRACE_LINE_BYTES_MAX);
}

enum kc_err kc_trace_feed(struct kc_trace_builder *builder, const char *data, size_t bytes,
                          bool final, size_t *used)
{
  KC_ASSERT(data != NULL || bytes == 0);
  const char *const nul = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
  const size_t nul_at = nul != NULL ? (size_t)(nul - data) : SIZE_MAX;
  size_t at = 0;
  while (at < bytes) {
    const size_t window = (size_t)KC_TRACE_LINE_BYTES_MAX + 1; /* room for the LF */
    const size_t room = bytes - at < window ? bytes - at : window;
    const char *const newline = memchr(data + at, '\n', room);
    const size_t length = newline != NULL ? (size_t)(newline - (data + at)) : room;
    if (length > KC_TRACE_LINE_BYTES_MAX) return fail_overlong(builder);
    if (newline == NULL && !final) break;
    if (nul_at < at + length) {
      builder->line++;
      builder->line_text = data + at;
      return fail_line(builder, nul, "a NUL byte; expected text (damaged, binary or UTF-16 file?)");
    }
    builder->bytes_ahead = final ? bytes - at : 0;
    KC_TRY(take_line(builder, data + at, length));
    if (newline == NULL) builder->trace->note[KC_NOTE_NO_FINAL_NEWLINE] = 1;
    at += length + (newline != NULL);
  }
  KC_ASSERT(at <= bytes);
  *used = at;
  return KC_OK;
}

static enum kc_err fail_no_rows(const struct kc_trace_builder *builder)
{
  if (builder->line == 0 || builder->reader == NULL) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0,
                      "the file %s; expected a header line such as \"%s\"",
                      builder->line == 0 ? "is empty" : "has only blank lines",
                      kc_reader_azure.sample);
  }
  if (builder->rows_seen > 0) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0,
                      "no requests are left: all %llu rows have zero output and were dropped",
                      (unsigned long long)builder->rows_seen);
  }
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0,
                    "no requests: there is a header and no row below it");
}

/* Ties as they stand after sorting. */
static uint64_t count_ties(const struct kc_trace *trace)
{
  uint64_t ties = 0;
  for (uint64_t i = 1; i < trace->count; i++) {
    ties += trace->row[i].arrival_ps == trace->row[i - 1].arrival_ps;
  }
  return ties;
}

enum kc_err kc_trace_finish(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const kc_ps earliest = builder->earliest_ps;
  if (trace->count == 0) return fail_no_rows(builder);
  if (trace->note[KC_NOTE_OUT_OF_ORDER] > 0) {
    if (!kc_trace_sort(trace->row, trace->count)) {
      return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: sorting a trace of %llu rows",
                     (unsigned long long)trace->count);
    }
    trace->note[KC_NOTE_TIES] = count_ties(trace);
  }
  if (trace->note[KC_NOTE_NO_ARRIVALS] > 0) trace->note[KC_NOTE_TIES] = 0;
  trace->note[KC_NOTE_SHIFTED] = builder->base.seconds != 0 || earliest != 0;
  if (earliest != 0) {
    for (uint64_t i = 0; i < trace->count; i++) trace->row[i].arrival_ps -= earliest;
  }
  trace->span_ps = builder->latest_ps - earliest;
  KC_ASSERT(trace->row[0].arrival_ps == 0);
  KC_ASSERT(trace->row[trace->count - 1].arrival_ps == trace->span_ps);
  return KC_OK;
}
