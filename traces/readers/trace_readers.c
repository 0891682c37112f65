/* The table of formats, and the header line: which format it is, and which column plays which role.
 *
 *   header   timestamp , Region , GENERATEDTOKENS , ContextTokens
 *   role     ARRIVAL 0   -        OUTPUT 2          INPUT 3          -> cell_of[]
 *
 * Columns are found by name, in any order and any case; columns that the format does not use are
 * counted and named. A format is recognised by its required columns alone, never by the file's name
 * or by guessing at values. A required column that is missing ends the load at once: a reader that
 * skipped such rows lost a whole file without a word (ai-dynamo/aiperf, pull request 786). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "traces/readers/text_list.h"
#include "traces/readers/trace_store.h"

const struct kc_trace_reader *const kc_trace_readers[] = {
    &kc_reader_azure,
    &kc_reader_vidur,
    &kc_reader_canonical,
    &kc_reader_mooncake,
    &kc_reader_bailian,
    &kc_reader_servegen_offline,
    &kc_reader_burstgpt,
    &kc_reader_tracelab,
    &kc_reader_tracelab_rounds,
    &kc_reader_weka,
    &kc_reader_llmservingsim,
    &kc_reader_benchlog,
    &kc_reader_bench_result,
    &kc_reader_aiperf,
    NULL,
};

const char *kc_trace_format_name(size_t index)
{
  const size_t count = sizeof kc_trace_readers / sizeof kc_trace_readers[0] - 1;
  return index < count ? kc_trace_readers[index]->name : NULL;
}

const struct kc_trace_reader *kc_trace_reader_find(const char *name)
{
  KC_ASSERT(name != NULL);
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    if (strcmp(kc_trace_readers[i]->name, name) == 0) return kc_trace_readers[i];
  }
  return NULL;
}

static bool cell_is(const struct kc_csv_cell *cell, const char *name)
{
  return name != NULL && strlen(name) == cell->bytes &&
         strncasecmp(name, cell->text, cell->bytes) == 0;
}

/* Index of the first cell from `from` on that is the column, or -1. */
static int32_t find_column(const struct kc_trace_column *column, const struct kc_csv_row *header,
                           uint32_t from)
{
  for (uint32_t i = from; i < header->count && i < KC_TRACE_COLUMNS_MAX; i++) {
    if (cell_is(&header->cell[i], column->name) || cell_is(&header->cell[i], column->alias)) {
      return (int32_t)i;
    }
  }
  return -1;
}

/* How many of the reader's required columns the header has, and how many there are. */
static uint32_t count_required(const struct kc_trace_reader *reader,
                               const struct kc_csv_row *header, uint32_t *required)
{
  uint32_t found = 0;
  *required = 0;
  for (uint32_t i = 0; i < reader->column_count; i++) {
    if (!reader->column[i].required) continue;
    (*required)++;
    found += find_column(&reader->column[i], header, 0) >= 0;
  }
  KC_ASSERT(*required > 0);
  return found;
}

bool kc_trace_has_columns(const struct kc_trace_reader *reader, const struct kc_csv_row *header)
{
  uint32_t required;
  return count_required(reader, header, &required) == required;
}

static void list_header(char *out, size_t size, const struct kc_csv_row *header)
{
  struct kc_text_list list;
  kc_text_list_init(&list, out, size);
  for (uint32_t i = 0; i < header->count && i < KC_TRACE_COLUMNS_MAX; i++) {
    kc_text_list_add(&list, header->cell[i].text, header->cell[i].bytes);
  }
}

static enum kc_err fail_missing(struct kc_trace_builder *builder,
                                const struct kc_trace_reader *reader)
{
  char missing[96], found[160];
  struct kc_text_list list;
  uint32_t count = 0;
  kc_text_list_init(&list, missing, sizeof missing);
  for (uint32_t i = 0; i < reader->column_count; i++) {
    const struct kc_trace_column *const column = &reader->column[i];
    if (!column->required || find_column(column, &builder->row, 0) >= 0) continue;
    kc_text_list_add(&list, column->name, strlen(column->name));
    count++;
  }
  KC_ASSERT(count > 0);
  list_header(found, sizeof found, &builder->row);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "column%s %s %s missing: format %s has the header \"%s\", this file has %s",
                    count > 1 ? "s" : "", missing, count > 1 ? "are" : "is", reader->name,
                    reader->sample, found);
}

static enum kc_err fail_unknown(struct kc_trace_builder *builder)
{
  char known[160], found[160];
  struct kc_text_list list;
  kc_text_list_init(&list, known, sizeof known);
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    char entry[96];
    if (kc_trace_readers[i]->framing != KC_FRAMING_CSV) continue;
    const int length = snprintf(entry, sizeof entry, "%s \"%s\"", kc_trace_readers[i]->name,
                                kc_trace_readers[i]->sample);
    KC_ASSERT(length > 0 && (size_t)length < sizeof entry);
    kc_text_list_add(&list, entry, (size_t)length);
  }
  list_header(found, sizeof found, &builder->row);
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                    "no known trace format has these columns: %s; known headers are %s", found,
                    known);
}

/* A header that is one cell long, but holds another separator. */
static char other_separator(const struct kc_trace_builder *builder)
{
  static const char separators[] = {';', '\t', '|'};
  if (builder->row.count != 1) return '\0';
  for (size_t i = 0; i < sizeof separators; i++) {
    const char *const at = memchr(builder->line_text, separators[i], builder->line_bytes);
    if (at != NULL) return separators[i];
  }
  return '\0';
}

/* Faults that make the question of the format pointless. */
static enum kc_err check_header_shape(struct kc_trace_builder *builder)
{
  const struct kc_csv_row *const header = &builder->row;
  const char separator = other_separator(builder);
  if (separator != '\0') {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "cells are separated by %s here; expected commas",
                      separator == ';' ? "';'" : separator == '|' ? "'|'" : "tabs");
  }
  if (memchr(builder->line_text, '\r', builder->line_bytes) != NULL) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "lines end in CR alone; expected LF or CR LF");
  }
  if (header->count > KC_TRACE_COLUMNS_MAX) {
    return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line, 0,
                      "%u columns; %d is the ceiling of a trace", header->count,
                      KC_TRACE_COLUMNS_MAX);
  }
  const struct kc_csv_cell *const first = &header->cell[0];
  if (first->bytes > 0 && first->text[0] >= '0' && first->text[0] <= '9') {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 1,
                      "the first line holds data (\"%.*s\"), not column names; expected a header "
                      "like \"%s\" or \"%s\"",
                      first->bytes < 40 ? (int)first->bytes : 40, first->text,
                      kc_reader_azure.sample, kc_reader_vidur.sample);
  }
  return KC_OK;
}

/* The one reader that takes the header. */
static enum kc_err choose_reader(struct kc_trace_builder *builder)
{
  const struct kc_trace_reader *chosen = NULL, *nearest = NULL;
  uint32_t nearest_found = 0, required;
  if (builder->options->format != NULL) {
    chosen = kc_trace_reader_find(builder->options->format);
    KC_ASSERT(chosen != NULL); /* kc_trace_parse looked before it read */
    if (chosen->framing != KC_FRAMING_CSV) {
      return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                        "this is no JSON object; format %s has objects such as %s", chosen->name,
                        chosen->sample);
    }
    if (!chosen->detect(chosen, &builder->row)) return fail_missing(builder, chosen);
    return kc_trace_begin_format(builder, chosen);
  }
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    const struct kc_trace_reader *const reader = kc_trace_readers[i];
    if (reader->framing != KC_FRAMING_CSV) continue;
    const uint32_t found = count_required(reader, &builder->row, &required);
    if (found > nearest_found) {
      nearest_found = found;
      nearest = reader;
    }
    if (!reader->detect(reader, &builder->row)) continue;
    if (chosen != NULL) {
      return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                        "the columns fit format %s and format %s; say which one is meant",
                        chosen->name, reader->name);
    }
    chosen = reader;
  }
  if (chosen == NULL && nearest != NULL) return fail_missing(builder, nearest);
  if (chosen == NULL) return fail_unknown(builder);
  return kc_trace_begin_format(builder, chosen);
}

static enum kc_err map_columns(struct kc_trace_builder *builder)
{
  const struct kc_trace_reader *const reader = builder->reader;
  for (size_t role = 0; role < KC_ROLES; role++) builder->cell_of[role] = -1;
  for (uint32_t i = 0; i < reader->column_count; i++) {
    const struct kc_trace_column *const column = &reader->column[i];
    const int32_t at = find_column(column, &builder->row, 0);
    builder->cell_of[column->role] = at;
    builder->name_of[column->role] = column->name;
    if (at < 0) continue;
    const struct kc_csv_cell *const cell = &builder->row.cell[at];
    if (!cell_is(cell, column->name)) builder->name_of[column->role] = column->alias;
    if (find_column(column, &builder->row, (uint32_t)at + 1) >= 0) {
      return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                        "column %s is there twice; remove one", column->name);
    }
  }
  return KC_OK;
}

static void note_ignored(struct kc_trace_builder *builder)
{
  for (uint32_t i = 0; i < builder->row.count; i++) {
    bool used = false;
    for (size_t role = 0; role < KC_ROLES; role++) used |= builder->cell_of[role] == (int32_t)i;
    if (used) continue;
    kc_trace_note_ignored(builder, builder->row.cell[i].text, builder->row.cell[i].bytes);
  }
}

enum kc_err kc_trace_set_arrivals(struct kc_trace_builder *builder, bool there)
{
  const bool before = builder->trace->note[KC_NOTE_NO_ARRIVALS] == 0;
  if (builder->arrivals_known && there != before) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, kc_trace_here(builder).line, 0,
                      "%s has %sarrival times, unlike %s before it",
                      builder->framing == KC_FRAMING_CSV ? "this file" : "this run",
                      there ? "" : "no ",
                      builder->framing == KC_FRAMING_CSV ? "the files" : "what stands");
  }
  builder->arrivals_known = true;
  if (!there) kc_trace_note_once(builder, KC_NOTE_NO_ARRIVALS);
  return KC_OK;
}

enum kc_err kc_trace_read_header(struct kc_trace_builder *builder)
{
  KC_ASSERT(!builder->framed);
  KC_ASSERT(builder->row.count >= 1);
  KC_TRY(check_header_shape(builder));
  KC_TRY(choose_reader(builder));
  KC_TRY(map_columns(builder));
  builder->columns = builder->row.count;
  if (builder->reader->begin != NULL) KC_TRY(builder->reader->begin(builder));
  KC_TRY(kc_trace_set_arrivals(builder, builder->cell_of[KC_ROLE_ARRIVAL] >= 0));
  note_ignored(builder);
  return KC_OK;
}
