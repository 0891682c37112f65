/* Bytes to rows: framing.
 *
 *   CSV, JSONL  ......\r\n.......\n\n......     line ends found by memchr, at most a ceiling apart
 *               |line 1 |  line 2 | |line 4|
 *   document    {"id": 1, \n "requests": []}    the whole file, on one line or on many; several
 *                                               documents may follow one another
 *
 * A file's first line that is not blank decides: an object that ends on its line is JSONL, unless
 * its keys belong to a format of documents; one that does not end there is a document; anything
 * else is a CSV header. Nothing is allocated here but the store (trace_store.c). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "traces/readers/trace_store.h"

enum kc_err kc_trace_builder_init(struct kc_trace_builder *builder, struct kc_trace *trace,
                                  const struct kc_trace_options *options, struct kc_diag *diag)
{
  KC_ASSERT(trace->row == NULL && trace->count == 0);
  KC_ASSERT(options->rows_max > 0);
  memset(builder, 0, sizeof *builder);
  builder->trace = trace;
  builder->path = "";
  builder->options = options;
  builder->diag = diag;
  builder->store = calloc(1, sizeof *builder->store);
  if (builder->store == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: a trace");
  builder->store->want_lines = options->lines;
  return KC_OK;
}

void kc_trace_builder_deinit(struct kc_trace_builder *builder)
{
  if (builder->memory != NULL) builder->reader->forget(builder);
  if (builder->store != NULL) kc_store_deinit(builder->store);
  free(builder->store);
  builder->store = NULL;
  kc_intern_text_deinit(&builder->ignored);
}

enum kc_err kc_trace_begin_file(struct kc_trace_builder *builder, const char *path)
{
  KC_ASSERT(path != NULL);
  builder->path = path;
  builder->rows_before_file = builder->rows_seen;
  builder->framed = false;
  builder->framing = KC_FRAMING_CSV;
  builder->line = 0;
  builder->line_text = NULL;
  builder->line_bytes = 0;
  builder->row_at = builder->counted_at = NULL;
  KC_TRY(kc_store_file(builder, path));
  if (builder->reader == NULL) return KC_OK;
  if (builder->reader->local_ids) kc_intern_end_scope(&builder->store->id);
  if (builder->reader->local_sessions) {
    kc_intern_end_scope(&builder->store->session_number);
    kc_intern_text_end_scope(&builder->store->session_text);
  }
  return KC_OK;
}

/* ---- lines of cells ------------------------------------------------------------------------ */

static enum kc_err split_line(struct kc_trace_builder *builder)
{
  switch (kc_csv_split(&builder->row, builder->line_text, builder->line_bytes)) {
    case KC_CSV_OK: break;
    case KC_CSV_QUOTE_UNCLOSED:
      return kc_trace_bad_place(builder, builder->line_text + builder->row.fault_offset,
                                "a quoted cell is not closed before the end of the line");
    case KC_CSV_QUOTE_TRAILED:
      return kc_trace_bad_place(builder, builder->line_text + builder->row.fault_offset,
                                "text follows a closing quote; expected a comma or the end of the "
                                "line");
    case KC_CSV_QUOTE_INSIDE:
      return kc_trace_bad_place(builder, builder->line_text + builder->row.fault_offset,
                                "a quote inside a cell that is not quoted; quote the whole cell "
                                "and double the quotes in it");
  }
  kc_trace_note_count(builder, KC_NOTE_QUOTED_CELLS, builder->row.quoted);
  return KC_OK;
}

static enum kc_err check_cell_count(struct kc_trace_builder *builder)
{
  const uint32_t cells = builder->row.count;
  if (cells == builder->columns) return KC_OK;
  const bool semicolons =
      cells == 1 && memchr(builder->line_text, ';', builder->line_bytes) != NULL;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "%u cell%s, but the header has %u columns%s", cells, kc_plural(cells),
                    builder->columns,
                    semicolons ? " (';' separates cells here; expected commas)" : "");
}

/* One row by the reader's parse_row. */
static enum kc_err parse_row(struct kc_trace_builder *builder)
{
  struct kc_trace_raw *const raw = &builder->raw;
  if (!builder->reader->lengths_only) memset(raw, 0, sizeof *raw);
  builder->rounded = false;
  KC_TRY(builder->reader->parse_row(builder, raw));
  return kc_store_row(builder, raw, NULL);
}

static enum kc_err take_cells(struct kc_trace_builder *builder)
{
  KC_TRY(split_line(builder));
  if (builder->row.count == 1 && builder->row.cell[0].bytes == 0 && builder->row.quoted == 0) {
    kc_trace_note_count(builder, KC_NOTE_BLANK_LINES, 1);
    return KC_OK;
  }
  if (!builder->framed) {
    KC_TRY(kc_trace_read_header(builder));
    builder->framed = true;
    return KC_OK;
  }
  KC_TRY(check_cell_count(builder));
  return parse_row(builder);
}

/* ---- objects ------------------------------------------------------------------------------- */

static const char *skip_blank(const char *at, const char *end)
{
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
  return at;
}

static enum kc_err take_object(struct kc_trace_builder *builder, const struct kc_json_value *object)
{
  builder->row_at = object->text;
  if (builder->reader->parse_row != NULL || builder->reader->framing == KC_FRAMING_JSONL) {
    KC_TRY(kc_trace_map_object(builder, object));
  }
  if (builder->reader->parse_row != NULL) return parse_row(builder);
  builder->rounded = false;
  return builder->reader->parse_object(builder, object);
}

/* Why a line is not one object. */
static enum kc_err fail_json_line(struct kc_trace_builder *builder, const char *at, const char *end)
{
  struct kc_json_value value;
  const enum kc_json_fault fault = kc_json_scan(&at, end, &value);
  if (fault != KC_JSON_OK) return kc_trace_bad_place(builder, at, kc_json_fault_text(fault));
  if (value.kind != KC_JSON_OBJECT) {
    return kc_trace_bad_place(builder, value.text, "expected one JSON object a line");
  }
  return kc_trace_bad_place(builder, skip_blank(at, end),
                            "text follows the object; expected one JSON object a line");
}

/* The object is taken to reach from the first brace to the last; walking its members, which every
 * reader does, finds out when it does not, and saves looking for the partner of the first. */
static enum kc_err take_json_line(struct kc_trace_builder *builder)
{
  const char *end = builder->line_text + builder->line_bytes;
  const char *const at = skip_blank(builder->line_text, end);
  if (at == end) {
    kc_trace_note_count(builder, KC_NOTE_BLANK_LINES, 1);
    return KC_OK;
  }
  while (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r') end--;
  if (*at != '{' || end[-1] != '}' || end - at < 2) return fail_json_line(builder, at, end);
  const struct kc_json_value object = {at, (size_t)(end - at), KC_JSON_OBJECT, false};
  return take_object(builder, &object);
}

/* `bom` bytes of a byte-order mark stand before the text. */
static enum kc_err take_documents(struct kc_trace_builder *builder, const char *data, size_t bytes,
                                  size_t bom)
{
  const char *at = skip_blank(data + bom, data + bytes);
  const char *const end = data + bytes;
  builder->line++;
  builder->line_text = data + bom;
  builder->line_bytes = bytes - bom;
  builder->bytes_ahead = 0;
  builder->row_at = builder->counted_at = NULL;
  if (bom > 0) kc_trace_note_once(builder, KC_NOTE_BOM);
  for (; at < end; at = skip_blank(at, end)) {
    struct kc_json_value object;
    const enum kc_json_fault fault = kc_json_scan(&at, end, &object);
    if (fault != KC_JSON_OK) return kc_trace_bad_place(builder, at, kc_json_fault_text(fault));
    if (object.kind != KC_JSON_OBJECT) {
      return kc_trace_bad_place(builder, object.text, "expected a JSON object");
    }
    if (!builder->framed) KC_TRY(kc_trace_read_keys(builder, &object));
    builder->framed = true;
    KC_TRY(take_object(builder, &object));
  }
  return KC_OK;
}

/* The first line that is not blank: JSON or cells, and if JSON, of which framing. The object may
 * end beyond the line. */
static enum kc_err frame_file(struct kc_trace_builder *builder)
{
  struct kc_json_value object;
  const char *at = builder->line_text;
  const char *const end = at + builder->line_bytes;
  at = skip_blank(at, end);
  if (at == end || *at != '{') return KC_OK; /* cells */
  const char *const open = at;
  const enum kc_json_fault fault = kc_json_scan(&at, end, &object);
  if (fault == KC_JSON_CUT) {
    builder->framing = KC_FRAMING_DOCUMENT;
    return KC_OK;
  }
  if (fault != KC_JSON_OK) return kc_trace_bad_place(builder, at, kc_json_fault_text(fault));
  KC_ASSERT(object.text == open);
  KC_TRY(kc_trace_read_keys(builder, &object));
  builder->framing = builder->reader->framing;
  builder->framed = true;
  return KC_OK;
}

/* ---- feeding ------------------------------------------------------------------------------- */

/* One line without its LF; *again is set when it turns out to begin a document. */
static enum kc_err take_line(struct kc_trace_builder *builder, const char *line, size_t bytes,
                             bool *again)
{
  const bool cr = bytes > 0 && line[bytes - 1] == '\r';
  const bool bom = builder->line == 0 && bytes >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0;
  builder->line++;
  builder->line_text = line + (bom ? 3 : 0);
  builder->line_bytes = bytes - (bom ? 3 : 0) - (cr ? 1 : 0);
  if (!builder->framed) KC_TRY(frame_file(builder));
  *again = builder->framing == KC_FRAMING_DOCUMENT;
  if (*again) {
    builder->line--;
    return KC_OK;
  }
  kc_trace_note_count(builder, KC_NOTE_CRLF, cr);
  if (bom) kc_trace_note_once(builder, KC_NOTE_BOM);
  return builder->framing == KC_FRAMING_CSV ? take_cells(builder) : take_json_line(builder);
}

static enum kc_err fail_overlong(struct kc_trace_builder *builder)
{
  return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line + 1, 0,
                    "a line of more than %d bytes, the ceiling of a trace; is this a text file?",
                    KC_TRACE_LINE_BYTES_MAX);
}

/* An object that is longer than a line may be. */
static bool opens_document(const struct kc_trace_builder *builder, const char *data, size_t bytes)
{
  const char *const at = skip_blank(data, data + bytes);
  return !builder->framed && at < data + bytes && *at == '{';
}

static enum kc_err feed_document(struct kc_trace_builder *builder, const char *data, size_t bytes,
                                 bool final, size_t *taken)
{
  const size_t bom = builder->line == 0 && bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0
                         ? 3 : 0;
  *taken = 0;
  if (bytes > KC_TRACE_DOCUMENT_BYTES_MAX) {
    return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line + 1, 0,
                      "a JSON document of more than %d bytes, the ceiling of a trace; split it",
                      KC_TRACE_DOCUMENT_BYTES_MAX);
  }
  if (!final) return KC_OK;
  *taken = bytes;
  return take_documents(builder, data, bytes, bom);
}

static enum kc_err fail_nul(struct kc_trace_builder *builder, const char *line, const char *nul)
{
  builder->line++;
  builder->line_text = line;
  return kc_trace_bad_place(builder, nul, "a NUL byte; expected text (damaged, binary or UTF-16 "
                                          "file?)");
}

/* Length of the line at the start of data, without its LF, or SIZE_MAX when it does not end there.
 */
static size_t line_length(const char *data, size_t bytes, bool *ended)
{
  const size_t window = (size_t)KC_TRACE_LINE_BYTES_MAX + 1; /* room for the LF */
  const size_t room = bytes < window ? bytes : window;
  const char *const newline = memchr(data, '\n', room);
  *ended = newline != NULL;
  return newline != NULL ? (size_t)(newline - data) : room;
}

enum kc_err kc_trace_feed(struct kc_trace_builder *builder, const char *data, size_t bytes,
                          bool final, size_t *used)
{
  KC_ASSERT(data != NULL || bytes == 0);
  const char *const nul = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
  const size_t nul_at = nul != NULL ? (size_t)(nul - data) : SIZE_MAX;
  size_t at = 0;
  while (at < bytes) {
    bool ended = false, document = builder->framing == KC_FRAMING_DOCUMENT;
    const size_t length = line_length(data + at, bytes - at, &ended);
    const bool overlong = length > KC_TRACE_LINE_BYTES_MAX;
    if (overlong && opens_document(builder, data + at, length)) document = true;
    if (overlong && !document) return fail_overlong(builder);
    if (!ended && !final && !document) break;
    if (nul_at < (document ? bytes : at + length)) return fail_nul(builder, data + at, nul);
    builder->bytes_ahead = final ? bytes - at : 0;
    if (!document) KC_TRY(take_line(builder, data + at, length, &document));
    if (document) {
      size_t taken;
      builder->framing = KC_FRAMING_DOCUMENT;
      KC_TRY(feed_document(builder, data + at, bytes - at, final, &taken));
      at += taken;
      break;
    }
    if (!ended) kc_trace_note_once(builder, KC_NOTE_NO_FINAL_NEWLINE);
    at += length + ended;
  }
  KC_ASSERT(at <= bytes);
  *used = at;
  return KC_OK;
}

enum kc_err kc_trace_end_file(struct kc_trace_builder *builder)
{
  if (builder->framed) {
    builder->trace->file_count++;
    return kc_store_check_after(builder);
  }
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0,
                    "the file %s; expected a header line such as \"%s\"",
                    builder->line == 0 ? "is empty" : "has only blank lines",
                    kc_reader_azure.sample);
}
