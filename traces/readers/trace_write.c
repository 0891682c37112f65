/* A trace -> the program's own format, `kvcap-trace` (reader_canonical.c reads it back).
 *
 *   row i   arrival_ps , input_tokens , output_tokens [, session] [, after , wait_ps] [, kind]
 *           [, flags] [, prefix_ids_<tail>_<tokens>]      columns that the trace does not have are
 *                                                         left out; "none" is an empty cell
 *
 * Rows stand in the trace's order and every number is in decimal, so reading restores the same
 * rows and columns. Text goes out in pieces of one buffer on the stack. */
#include <stdio.h>
#include <string.h>

#include "traces/readers/trace_reader.h"

enum { BUFFER_BYTES = 16384, NUMBER_BYTES = 20 };

struct writer {
  kc_trace_write_text *write;
  void *context;
  bool failed;
  size_t used;
  char buffer[BUFFER_BYTES];
};

const char *kc_trace_flag_name(unsigned bit)
{
  static const char *const names[] = {"failed", "cancelled", "subagent", "compacted"};
  return bit < sizeof names / sizeof names[0] ? names[bit] : NULL;
}

static void flush(struct writer *writer)
{
  if (writer->used > 0 && !writer->failed) {
    writer->failed = !writer->write(writer->context, writer->buffer, writer->used);
  }
  writer->used = 0;
}

static void put_text(struct writer *writer, const char *text)
{
  const size_t bytes = strlen(text);
  KC_ASSERT(bytes < BUFFER_BYTES);
  if (writer->used + bytes > BUFFER_BYTES) flush(writer);
  memcpy(writer->buffer + writer->used, text, bytes);
  writer->used += bytes;
}

static void put_number(struct writer *writer, uint64_t number)
{
  char digits[NUMBER_BYTES + 1];
  char *at = digits + NUMBER_BYTES;
  *at = '\0';
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  put_text(writer, at);
}

/* ",17", or "," for none. */
static void put_optional(struct writer *writer, uint32_t number)
{
  put_text(writer, ",");
  if (number != KC_TRACE_NONE) put_number(writer, number);
}

static void put_header(struct writer *writer, const struct kc_trace *trace)
{
  const struct kc_trace_columns *const c = &trace->column;
  char ids[64];
  const bool timed = trace->note[KC_NOTE_NO_ARRIVALS] == 0;
  put_text(writer, timed ? "arrival_ps,input_tokens,output_tokens" : "input_tokens,output_tokens");
  if (c->session != NULL) put_text(writer, ",session");
  if (c->after != NULL) put_text(writer, ",after,wait_ps");
  if (c->kind != NULL) put_text(writer, ",kind");
  if (c->flags != NULL) put_text(writer, ",flags");
  if (trace->prefix_ids) {
    const int length = snprintf(ids, sizeof ids, ",prefix_ids_%s_%u",
                                kc_tail_rule_name(trace->tail), trace->block_tokens);
    KC_ASSERT(length > 0 && (size_t)length < sizeof ids);
    put_text(writer, ids);
  }
  put_text(writer, "\n");
}

static void put_flags(struct writer *writer, uint8_t flags)
{
  const char *between = ",";
  if (flags == 0) put_text(writer, ",");
  for (unsigned bit = 0; kc_trace_flag_name(bit) != NULL; bit++) {
    if ((flags >> bit & 1) == 0) continue;
    put_text(writer, between);
    put_text(writer, kc_trace_flag_name(bit));
    between = "+";
  }
}

static void put_ids(struct writer *writer, const struct kc_trace *trace, uint64_t row)
{
  const uint32_t *const block = trace->block + trace->column.block_first[row];
  put_text(writer, ",");
  for (uint32_t i = 0; i < trace->column.block_count[row]; i++) {
    if (i > 0) put_text(writer, " ");
    put_number(writer, block[i]);
  }
}

static void put_row(struct writer *writer, const struct kc_trace *trace, uint64_t i)
{
  const struct kc_trace_columns *const c = &trace->column;
  const struct kc_trace_row *const row = &trace->row[i];
  KC_ASSERT(row->arrival_ps >= 0);
  if (trace->note[KC_NOTE_NO_ARRIVALS] == 0) {
    put_number(writer, (uint64_t)row->arrival_ps);
    put_text(writer, ",");
  }
  put_number(writer, row->input_tokens);
  put_text(writer, ",");
  put_number(writer, row->output_tokens);
  if (c->session != NULL) put_optional(writer, c->session[i]);
  if (c->after != NULL) {
    put_optional(writer, c->after[i]);
    put_text(writer, ",");
    if (c->after[i] != KC_TRACE_NONE) put_number(writer, (uint64_t)c->wait_ps[i]);
  }
  if (c->kind != NULL) {
    put_text(writer, ",");
    if (c->kind[i] != KC_TRACE_NONE) put_text(writer, trace->kind_name[c->kind[i]]);
  }
  if (c->flags != NULL) put_flags(writer, c->flags[i]);
  if (trace->prefix_ids) put_ids(writer, trace, i);
  put_text(writer, "\n");
}

enum kc_err kc_trace_write(const struct kc_trace *trace, kc_trace_write_text *write, void *context,
                           struct kc_diag *diag)
{
  struct writer writer = {.write = write, .context = context, .failed = false, .used = 0};
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(!trace->prefix_ids || trace->block_tokens > 0);
  put_header(&writer, trace);
  for (uint64_t i = 0; i < trace->count && !writer.failed; i++) put_row(&writer, trace, i);
  flush(&writer);
  if (!writer.failed) return KC_OK;
  return kc_fail(diag, KC_ERR_FILE, "cannot write the trace; is the disk full?");
}
