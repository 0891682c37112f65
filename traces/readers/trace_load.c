/* The public face: paths or bytes in, a kc_trace out.
 *
 *   folder -> its files; each:
 *   path -> mapped bytes -> digest ----------------------------------> sha256
 *                        -> sniffed (lfs pointer? HTML? archive?)  ...  named and refused
 *                        -> plain: fed whole       -> builder -> trace
 *                        -> gzip:  fed by windows  -> builder -> trace
 *
 * The digest covers the file's own bytes, so that it can be compared with a published one. After a
 * failure the trace is freed and zeroed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "traces/readers/text_list.h"
#include "traces/readers/trace_files.h"
#include "traces/readers/trace_gzip.h"
#include "traces/readers/trace_sniff.h"
#include "traces/readers/trace_store.h"

struct note_words {
  const char *name, *text;
};

static const struct note_words note_words[KC_NOTES] = {
    [KC_NOTE_CRLF] = {"crlf_lines", "lines end in CR LF"},
    [KC_NOTE_NO_FINAL_NEWLINE] = {"no_final_newline", "last line has no line end"},
    [KC_NOTE_BOM] = {"byte_order_mark", "byte-order mark skipped"},
    [KC_NOTE_BLANK_LINES] = {"blank_lines", "blank lines skipped"},
    [KC_NOTE_QUOTED_CELLS] = {"quoted_cells", "cells were quoted"},
    [KC_NOTE_OUT_OF_ORDER] = {"out_of_order_rows", "rows were earlier than the row before; sorted"},
    [KC_NOTE_TIES] = {"tied_rows", "rows arrive at the instant of the row before; file order kept"},
    [KC_NOTE_ZERO_OUTPUT_DROPPED] = {"zero_output_dropped", "rows with zero output dropped"},
    [KC_NOTE_ZERO_OUTPUT_FLOORED] = {"zero_output_floored",
                                     "rows with zero output count as 1 output token"},
    [KC_NOTE_ZERO_INPUT_FLOORED] = {"zero_input_floored",
                                    "rows with zero input count as 1 input token"},
    [KC_NOTE_SHIFTED] = {"shifted", "earliest arrival moved to 0"},
    [KC_NOTE_IGNORED_COLUMNS] = {"ignored_columns", "columns not used"},
    [KC_NOTE_NO_ARRIVALS] = {"no_arrivals", "file without arrival times; all requests arrive at 0"},
    [KC_NOTE_ROUNDED_TIMES] = {"rounded_times", "arrival times rounded to a picosecond"},
    [KC_NOTE_GZIP] = {"gzip", "file was compressed by gzip"},
    [KC_NOTE_SKIPPED_FILES] = {"skipped_files", "entries of the folder are no traces by their "
                                                "names; skipped"},
    [KC_NOTE_FAILED_KEPT] = {"failed_kept", "failed rows kept"},
    [KC_NOTE_FAILED_DROPPED] = {"failed_dropped", "failed rows dropped"},
    [KC_NOTE_CANCELLED_KEPT] = {"cancelled_kept", "cancelled rows kept"},
    [KC_NOTE_CANCELLED_DROPPED] = {"cancelled_dropped", "cancelled rows dropped"},
    [KC_NOTE_MISSING_OUTPUT] = {"missing_output", "rows without an output length; the option's "
                                                  "number of tokens taken"},
    [KC_NOTE_INPUT_FROM_IDS] = {"input_from_ids",
                                "rows without an input length; counted from their prefix ids"},
    [KC_NOTE_ROWS_WITHOUT_IDS] = {"rows_without_ids",
                                  "rows have no prefix ids where others do; they share nothing"},
    [KC_NOTE_IDS_MISMATCH] = {"ids_mismatch", "rows have a number of prefix ids that fits their "
                                              "input by neither tail rule"},
    [KC_NOTE_IDS_OTHER_TAIL] = {"ids_other_tail",
                                "rows have a number of prefix ids that fits the other tail rule"},
    [KC_NOTE_UNCHAINED_IDS] = {"unchained_ids", "prefix ids stand behind different ids (content "
                                                "hashes); only equal leading runs count as equal"},
    [KC_NOTE_MISSING_ARRIVALS] = {"missing_arrivals",
                                  "rows without a time; they follow their session's row before"},
    [KC_NOTE_NULL_CELLS] = {"null_values", "JSON nulls taken as absent"},
    [KC_NOTE_OWN_PARENT] = {"own_parents", "chats name themselves as their parent; taken as the "
                                           "first of their session"},
    [KC_NOTE_REPEATED_CHATS] = {"repeated_chats", "rows have the chat id of an earlier row; kept, "
                                                  "in its session"},
};

const char *kc_trace_note_name(enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  return note_words[note].name;
}

const char *kc_trace_note_names(const struct kc_trace *trace, enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  return note == KC_NOTE_IGNORED_COLUMNS ? trace->ignored_columns : "";
}

const char *kc_trace_note_text(enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  return note_words[note].text;
}

const char *kc_time_unit_name(enum kc_time_unit unit)
{
  static const char *const names[] = {"", "s", "ms", "us", "ns", "ps"};
  KC_ASSERT((unsigned)unit < sizeof names / sizeof names[0]);
  return names[unit];
}

const char *kc_tail_rule_name(enum kc_tail_rule tail)
{
  static const char *const names[] = {"none", "ceil", "floor"};
  KC_ASSERT((unsigned)tail < sizeof names / sizeof names[0]);
  return names[tail];
}

void kc_trace_options_default(struct kc_trace_options *options)
{
  KC_ASSERT(options != NULL);
  *options = (struct kc_trace_options){
      .format = NULL, .zero_output = KC_ZERO_OUTPUT_ERROR, .rows_max = 100000000};
}

void kc_trace_free(struct kc_trace *trace)
{
  KC_ASSERT(trace != NULL);
  struct kc_trace_columns *const column = &trace->column;
  free(trace->row);
  free(column->session);
  free(column->after);
  free(column->wait_ps);
  free(column->block_first);
  free(column->block_count);
  free(column->kind);
  free(column->flags);
  free(column->line);
  free(column->file);
  free(trace->block);
  free(trace->kind_name);
  free(trace->file_names);
  free(trace->file_name_at);
  memset(trace, 0, sizeof *trace);
}

static enum kc_err fail_format(const char *format, struct kc_diag *diag)
{
  char known[240];
  struct kc_text_list list;
  kc_text_list_init(&list, known, sizeof known);
  for (size_t i = 0; kc_trace_readers[i] != NULL; i++) {
    kc_text_list_add(&list, kc_trace_readers[i]->name, strlen(kc_trace_readers[i]->name));
  }
  return kc_fail(diag, KC_ERR_USAGE, "unknown trace format \"%.60s\"; expected one of %s", format,
                 known);
}

static enum kc_err check_options(const struct kc_trace_options *options, struct kc_diag *diag)
{
  if (options->rows_max == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "rows_max is 0; expected 1 or more");
  }
  if (options->format == NULL || kc_trace_reader_find(options->format) != NULL) return KC_OK;
  return fail_format(options->format, diag);
}

/* Refuses what is not a trace, by name. */
static enum kc_err check_content(const struct kc_trace_builder *builder, const char *data,
                                 size_t bytes)
{
  const char *const sentence = kc_trace_sniff(data, bytes);
  if (sentence == NULL) return KC_OK;
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0, "this is %s", sentence);
}

static enum kc_err feed_plain(struct kc_trace_builder *builder, const char *data, size_t bytes)
{
  size_t used = 0;
  KC_TRY(check_content(builder, data, bytes));
  KC_TRY(kc_trace_feed(builder, data, bytes, true, &used));
  KC_ASSERT(used == bytes);
  return KC_OK;
}

static enum kc_err feed_windows(struct kc_trace_builder *builder, struct kc_gzip *gzip)
{
  bool first = true;
  do {
    size_t used = 0;
    KC_TRY(kc_gzip_fill(gzip, KC_TRACE_BYTES_MAX, builder->path, builder->diag));
    if (first && kc_trace_is_gzip(gzip->window, gzip->used)) {
      return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, 0, 0,
                        "this is compressed by gzip twice; unpack it once (gzip -d)");
    }
    if (first) KC_TRY(check_content(builder, gzip->window, gzip->used));
    KC_TRY(kc_trace_feed(builder, gzip->window, gzip->used, gzip->ended, &used));
    kc_gzip_consume(gzip, used);
    first = false;
  } while (!gzip->ended);
  KC_ASSERT(gzip->used == 0);
  return KC_OK;
}

/* Rows that make no sense may come of damaged data, which only their end tells. */
static enum kc_err feed_gzip(struct kc_trace_builder *builder, const char *data, size_t bytes)
{
  struct kc_gzip gzip;
  struct kc_diag damage;
  KC_TRY(kc_gzip_init(&gzip, data, bytes, builder->diag));
  kc_trace_note_count(builder, KC_NOTE_GZIP, 1); /* before its first line */
  const enum kc_err result = feed_windows(builder, &gzip);
  const bool refused = result == KC_ERR_INPUT || result == KC_ERR_LIMIT;
  if (refused &&
      kc_gzip_check_rest(&gzip, KC_TRACE_BYTES_MAX, builder->path, &damage) == KC_ERR_INPUT) {
    if (builder->diag != NULL) *builder->diag = damage;
  }
  kc_gzip_deinit(&gzip);
  return result;
}

/* One file's bytes into the builder. */
static enum kc_err feed_file(struct kc_trace_builder *builder, const char *path, const char *data,
                             size_t bytes)
{
  KC_TRY(kc_trace_begin_file(builder, path));
  KC_TRY(kc_trace_is_gzip(data, bytes) ? feed_gzip(builder, data, bytes)
                                       : feed_plain(builder, data, bytes));
  builder->trace->bytes += bytes;
  return kc_trace_end_file(builder);
}

static void digest(const char *data, size_t bytes, char hex[KC_SHA256_HEX_BYTES])
{
  struct kc_sha256 sha;
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, data, bytes);
  kc_sha256_final_hex(&sha, hex);
}

/* After the last file: a whole trace, or an empty one. */
static enum kc_err end_load(struct kc_trace_builder *builder, const char *path, enum kc_err result)
{
  struct kc_trace *const trace = builder->trace;
  if (result == KC_OK) result = kc_trace_finish(builder);
  kc_trace_builder_deinit(builder);
  if (result != KC_OK) {
    kc_trace_free(trace);
    return result;
  }
  (void)snprintf(trace->path, sizeof trace->path, "%s", path);
  return KC_OK;
}

enum kc_err kc_trace_parse(struct kc_trace *trace, const char *path, const char *data, size_t bytes,
                           const struct kc_trace_options *options, struct kc_diag *diag)
{
  struct kc_trace_builder builder;
  KC_ASSERT(path != NULL);
  KC_ASSERT(data != NULL || bytes == 0);
  memset(trace, 0, sizeof *trace);
  KC_TRY(check_options(options, diag));
  KC_TRY(kc_trace_builder_init(&builder, trace, options, diag));
  KC_TRY(end_load(&builder, path, feed_file(&builder, path, data, bytes)));
  digest(data, bytes, trace->sha256);
  return KC_OK;
}

/* Opens, reads and digests one file; its line goes into the digest of all. */
static enum kc_err load_file(struct kc_trace_builder *builder, const char *path,
                             struct kc_sha256 *all)
{
  struct kc_file file;
  KC_TRY(kc_file_open(&file, path, KC_TRACE_BYTES_MAX, builder->diag));
  const enum kc_err result = feed_file(builder, path, file.data, file.bytes);
  if (result == KC_OK) {
    char *const hex = builder->trace->sha256;
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    digest(file.data, file.bytes, hex);
    kc_sha256_update(all, hex, KC_SHA256_HEX_BYTES - 1);
    kc_sha256_update(all, "  ", 2);
    kc_sha256_update(all, name, strlen(name));
    kc_sha256_update(all, "\n", 1);
  }
  kc_file_close(&file);
  return result;
}

static enum kc_err load_folder(struct kc_trace_builder *builder, const char *path,
                               struct kc_sha256 *all)
{
  struct kc_trace_files files;
  enum kc_err result = kc_trace_files_list(&files, path, builder->diag);
  if (result != KC_OK) return result;
  builder->trace->note[KC_NOTE_SKIPPED_FILES] += files.skipped;
  for (size_t i = 0; i < files.count && result == KC_OK; i++) {
    result = load_file(builder, files.path[i], all);
  }
  if (result != KC_OK) builder->path = ""; /* it names a path that ends here */
  kc_trace_files_free(&files);
  return result;
}

enum kc_err kc_trace_load_files(struct kc_trace *trace, const char *const *path, size_t count,
                                const struct kc_trace_options *options, struct kc_diag *diag)
{
  struct kc_trace_builder builder;
  struct kc_sha256 all;
  enum kc_err result = KC_OK;
  memset(trace, 0, sizeof *trace);
  if (count == 0) return kc_fail(diag, KC_ERR_USAGE, "no trace file is named; name one or more");
  KC_TRY(check_options(options, diag)); /* before a large file is opened in vain */
  KC_TRY(kc_trace_builder_init(&builder, trace, options, diag));
  kc_sha256_init(&all);
  for (size_t i = 0; i < count && result == KC_OK; i++) {
    result = kc_trace_is_folder(path[i]) ? load_folder(&builder, path[i], &all)
                                         : load_file(&builder, path[i], &all);
    builder.path = path[i]; /* those of a folder end with it */
  }
  KC_TRY(end_load(&builder, path[0], result));
  if (trace->file_count > 1) kc_sha256_final_hex(&all, trace->sha256);
  return KC_OK;
}

enum kc_err kc_trace_load(struct kc_trace *trace, const char *path,
                          const struct kc_trace_options *options, struct kc_diag *diag)
{
  return kc_trace_load_files(trace, &path, 1, options, diag);
}
