/* The public face: a path or bytes in, a kc_trace out.
 *
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
#include "traces/readers/trace_gzip.h"
#include "traces/readers/trace_reader.h"
#include "traces/readers/trace_sniff.h"

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
};

const char *kc_trace_note_name(enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  return note_words[note].name;
}

const char *kc_trace_note_text(enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  return note_words[note].text;
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
  free(trace->row);
  memset(trace, 0, sizeof *trace);
}

static enum kc_err check_options(const struct kc_trace_options *options, struct kc_diag *diag)
{
  if (options->rows_max == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "rows_max is 0; expected 1 or more");
  }
  if (options->format == NULL || kc_trace_reader_find(options->format) != NULL) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "unknown trace format \"%.60s\"; expected azure or vidur",
                 options->format);
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

static enum kc_err feed_gzip(struct kc_trace_builder *builder, const char *data, size_t bytes)
{
  struct kc_gzip gzip;
  KC_TRY(kc_gzip_init(&gzip, data, bytes, builder->diag));
  const enum kc_err result = feed_windows(builder, &gzip);
  kc_gzip_deinit(&gzip);
  builder->trace->note[KC_NOTE_GZIP] = 1;
  return result;
}

enum kc_err kc_trace_parse(struct kc_trace *trace, const char *path, const char *data, size_t bytes,
                           const struct kc_trace_options *options, struct kc_diag *diag)
{
  struct kc_trace_builder builder;
  struct kc_sha256 sha;
  KC_ASSERT(path != NULL);
  KC_ASSERT(data != NULL || bytes == 0);
  memset(trace, 0, sizeof *trace);
  KC_TRY(check_options(options, diag));
  kc_trace_builder_init(&builder, trace, path, options, diag);
  enum kc_err result = kc_trace_is_gzip(data, bytes) ? feed_gzip(&builder, data, bytes)
                                                     : feed_plain(&builder, data, bytes);
  if (result == KC_OK) result = kc_trace_finish(&builder);
  if (result != KC_OK) {
    kc_trace_free(trace);
    return result;
  }
  (void)snprintf(trace->path, sizeof trace->path, "%s", path);
  trace->bytes = bytes;
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, data, bytes);
  kc_sha256_final_hex(&sha, trace->sha256);
  return KC_OK;
}

enum kc_err kc_trace_load(struct kc_trace *trace, const char *path,
                          const struct kc_trace_options *options, struct kc_diag *diag)
{
  struct kc_file file;
  memset(trace, 0, sizeof *trace);
  KC_TRY(check_options(options, diag)); /* before a large file is opened in vain */
  KC_TRY(kc_file_open(&file, path, KC_TRACE_BYTES_MAX, diag));
  const enum kc_err result = kc_trace_parse(trace, path, file.data, file.bytes, options, diag);
  kc_file_close(&file);
  return result;
}
