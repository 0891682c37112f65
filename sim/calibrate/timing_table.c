/* Reads a timing file (see timing_table.h).
 *
 *   file --gzip?--> text (heap) --split--> cell[rows * columns], pointing into text
 *
 * A line ends with \n or \r\n; the last one may lack it. Quoted cells are understood. Two passes:
 * count lines, then split, so that the cells are one block. */
#include "sim/calibrate/timing_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "traces/readers/csv_scan.h"
#include "traces/readers/trace_gzip.h"
#include "traces/readers/trace_sniff.h"

enum { FILE_BYTES_MAX = 1 << 28, TEXT_BYTES_MAX = 1 << 30, LINE_BYTES_MAX = 1 << 16 };
#define DIGEST_BYTES_MAX ((size_t)1 << 40) /* databases are larger than tables */

static enum kc_err fail_cell(const struct kc_timing_table *table, uint64_t line, uint32_t column,
                             struct kc_diag *diag, const char *sentence)
{
  return kc_fail_at(diag, KC_ERR_INPUT, table->path, line, column, "%s", sentence);
}

static enum kc_err no_memory(size_t bytes, struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu bytes for a file of timings", bytes);
}

/* Inflates or copies `data` into table->text; *bytes becomes the length of the text. */
static enum kc_err take_text(struct kc_timing_table *table, const char *data, size_t *bytes,
                             struct kc_diag *diag)
{
  if (kc_trace_is_gzip(data, *bytes)) {
    return kc_gzip_whole(data, *bytes, TEXT_BYTES_MAX, table->path, &table->text, bytes, diag);
  }
  table->text = malloc(*bytes + 1);
  if (table->text == NULL) return no_memory(*bytes, diag);
  memcpy(table->text, data, *bytes);
  return KC_OK;
}

/* Next line of text[*at, bytes) without its end. */
static const char *next_line(const char *text, size_t bytes, size_t *at, size_t *length)
{
  KC_ASSERT(*at < bytes);
  const char *start = text + *at;
  const char *end = memchr(start, '\n', bytes - *at);
  *length = end != NULL ? (size_t)(end - start) : bytes - *at;
  *at += *length + (end != NULL ? 1 : 0);
  if (*length > 0 && start[*length - 1] == '\r') (*length)--;
  return start;
}

static size_t count_lines(const char *text, size_t bytes)
{
  size_t lines = 0;
  for (size_t at = 0; at < bytes; lines++) {
    size_t length;
    (void)next_line(text, bytes, &at, &length);
  }
  return lines;
}

static enum kc_err split_line(const struct kc_timing_table *table, struct kc_csv_row *row,
                              const char *line, size_t length, uint64_t number,
                              struct kc_diag *diag)
{
  if (length == 0) {
    return fail_cell(table, number, 0, diag,
                     "empty line; every line of a timing file is a measurement: remove it");
  }
  if (length > LINE_BYTES_MAX || memchr(line, '\0', length) != NULL) {
    return fail_cell(table, number, 0, diag, "this is not a line of CSV text; expected the "
                     "columns of a timing file, separated by commas");
  }
  if (kc_csv_split(row, line, length) != KC_CSV_OK) {
    return fail_cell(table, number, row->fault_offset + 1, diag,
                     "a quote that is not closed, or text beside a quoted cell; expected "
                     "comma-separated cells");
  }
  return KC_OK;
}

static enum kc_err take_header(struct kc_timing_table *table, const struct kc_csv_row *row,
                               struct kc_diag *diag)
{
  if (row->count > KC_TIMING_COLUMNS_MAX) {
    return fail_cell(table, 1, 0, diag, "more than 32 columns; this is not a file of timings");
  }
  table->columns = row->count;
  for (uint32_t c = 0; c < row->count; c++) {
    const struct kc_csv_cell *cell = &row->cell[c];
    const uint32_t place = c + 1;
    if (cell->bytes == 0 || cell->bytes >= sizeof table->column[c]) {
      return kc_fail_at(diag, KC_ERR_INPUT, table->path, 1, 0, "column %u has no name or one "
                        "beyond 39 characters; expected a header line such as \"m,n,k,latency_ms\"",
                        place);
    }
    memcpy(table->column[c], cell->text, cell->bytes);
    kc_text_clean(table->column[c]);
    if (kc_timing_column(table, table->column[c]) != (int)c) {
      return kc_fail_at(diag, KC_ERR_INPUT, table->path, 1, 0,
                        "column \"%s\" is there twice; keep one", table->column[c]);
    }
  }
  return KC_OK;
}

static enum kc_err take_row(struct kc_timing_table *table, const struct kc_csv_row *row,
                            struct kc_diag *diag)
{
  const uint64_t line = kc_timing_line(table->rows);
  if (row->count != table->columns) {
    return kc_fail_at(diag, KC_ERR_INPUT, table->path, line, 0,
                      "%u cells, but the header has %u columns; the line is cut or has a comma too "
                      "many", row->count, table->columns);
  }
  struct kc_timing_cell *cells = table->cell + table->rows * table->columns;
  for (uint32_t c = 0; c < row->count; c++) {
    cells[c] = (struct kc_timing_cell){row->cell[c].text, row->cell[c].bytes};
  }
  table->rows++;
  return KC_OK;
}

static enum kc_err take_lines(struct kc_timing_table *table, size_t bytes, struct kc_diag *diag)
{
  struct kc_csv_row row;
  const bool mark = bytes >= 3 && memcmp(table->text, "\xef\xbb\xbf", 3) == 0; /* of UTF-8 */
  size_t at = mark ? 3 : 0;
  const size_t lines = count_lines(table->text + at, bytes - at);
  if (lines < 2) {
    return fail_cell(table, 0, 0, diag,
                     "no measurement; expected a header line and at least one row below it");
  }
  if (lines > KC_TIMING_ROWS_MAX) {
    return kc_fail_at(diag, KC_ERR_LIMIT, table->path, 0, 0, "more than %d rows; split the file",
                      KC_TIMING_ROWS_MAX);
  }
  for (uint64_t number = 1; at < bytes; number++) {
    size_t length;
    const char *line = next_line(table->text, bytes, &at, &length);
    KC_TRY(split_line(table, &row, line, length, number, diag));
    if (number > 1) {
      KC_TRY(take_row(table, &row, diag));
      continue;
    }
    KC_TRY(take_header(table, &row, diag));
    table->cell = malloc((lines - 1) * table->columns * sizeof *table->cell);
    if (table->cell == NULL) return no_memory((lines - 1) * table->columns, diag);
  }
  return KC_OK;
}

enum kc_err kc_timing_table_parse(struct kc_timing_table *table, const char *path,
                                  const char *data, size_t bytes, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  memset(table, 0, sizeof *table);
  const size_t length = strnlen(path, sizeof table->path - 1);
  memcpy(table->path, path, length);
  enum kc_err err = KC_OK;
  if (bytes == 0) {
    err = fail_cell(table, 0, 0, diag, "the file is empty; expected a header line and rows");
  }
  if (err == KC_OK) err = take_text(table, data, &bytes, diag);
  if (err == KC_OK) err = take_lines(table, bytes, diag);
  if (err != KC_OK) kc_timing_table_free(table);
  return err;
}

enum kc_err kc_timing_table_load(struct kc_timing_table *table, const char *path,
                                 struct kc_diag *diag)
{
  struct kc_file file;
  KC_ASSERT(path != NULL);
  memset(table, 0, sizeof *table);
  KC_TRY(kc_file_open(&file, path, FILE_BYTES_MAX, diag));
  const enum kc_err err = kc_timing_table_parse(table, path, file.data, file.bytes, diag);
  kc_file_close(&file);
  KC_ASSERT(err != KC_OK || table->rows > 0);
  return err;
}

enum kc_err kc_timing_digest(const char *path, char out[KC_SHA256_HEX_BYTES],
                             struct kc_diag *diag)
{
  struct kc_timing_table table = {0};
  struct kc_file file;
  struct kc_sha256 sha;
  KC_TRY(kc_file_open(&file, path, DIGEST_BYTES_MAX, diag));
  size_t bytes = file.bytes;
  enum kc_err err = KC_OK;
  snprintf(table.path, sizeof table.path, "%s", path);
  if (kc_trace_is_gzip(file.data, bytes)) err = take_text(&table, file.data, &bytes, diag);
  if (err == KC_OK) {
    kc_sha256_init(&sha);
    if (bytes > 0) kc_sha256_update(&sha, table.text != NULL ? table.text : file.data, bytes);
    kc_sha256_final_hex(&sha, out);
  }
  kc_timing_table_free(&table);
  kc_file_close(&file);
  return err;
}

void kc_timing_table_free(struct kc_timing_table *table)
{
  free(table->cell);
  free(table->text);
  table->cell = NULL;
  table->text = NULL;
  table->rows = 0;
}

int kc_timing_column(const struct kc_timing_table *table, const char *name)
{
  KC_ASSERT(table->columns <= KC_TIMING_COLUMNS_MAX);
  for (uint32_t c = 0; c < table->columns; c++) {
    if (strcmp(table->column[c], name) == 0) return (int)c;
  }
  return -1;
}

const struct kc_timing_cell *kc_timing_cell(const struct kc_timing_table *table, size_t row,
                                            int column)
{
  KC_ASSERT(row < table->rows);
  KC_ASSERT(column >= 0 && (uint32_t)column < table->columns);
  return &table->cell[row * table->columns + (size_t)column];
}

uint64_t kc_timing_line(size_t row)
{
  return row + 2; /* the header is line 1 */
}

bool kc_timing_is(const struct kc_timing_cell *cell, const char *text)
{
  return cell->bytes == strlen(text) && memcmp(cell->text, text, cell->bytes) == 0;
}

enum kc_err kc_timing_number(const struct kc_timing_table *table, size_t row, int column,
                             double low, double high, double *out, struct kc_diag *diag)
{
  const struct kc_timing_cell *cell = kc_timing_cell(table, row, column);
  KC_ASSERT(low <= high);
  if (kc_parse_double(cell->text, cell->bytes, out) && *out >= low && *out <= high) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), (uint32_t)column + 1,
                    "%s is \"%.*s\"; expected a number from %g to %g", table->column[column],
                    (int)(cell->bytes < 40 ? cell->bytes : 40), cell->text, low, high);
}
