/* Where things stand: the files of a trace by number, rows by file and line.
 *
 *   file_names   shard-0.csv\0shard-1.csv\0      number -> name_at -> text
 *   first row    0           9                    of the rows kept, while a trace is read
 *   line         2 3 4 5 7 8 9 11 12 | 2 3 4 ...  a column like any other, sorted with the rows
 *
 * A row's file needs no column until rows are sorted: it follows from where the files begin. Lines
 * are kept for those who ask, and while reading for traces whose rows wait for others, so that a
 * row that waits for nothing that comes can be named.
 *
 * The names belong to the trace, the first rows to the store; both grow from malloc, by files. */
#include <stdlib.h>
#include <string.h>

#include "traces/readers/trace_store.h"

/* ---- files --------------------------------------------------------------------------------- */

static enum kc_err no_memory(struct kc_trace_builder *builder, uint64_t files)
{
  return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: the names of %llu files",
                 (unsigned long long)files);
}

static bool reserve_file(struct kc_trace *trace, struct kc_trace_store *store)
{
  if (trace->file_names_count < store->file_capacity) return true;
  const uint32_t capacity = store->file_capacity == 0 ? 4 : store->file_capacity * 2;
  if (KC_FAULT("trace_files_memory")) return false;
  uint64_t *const at = realloc(trace->file_name_at, (size_t)capacity * sizeof *at);
  if (at != NULL) trace->file_name_at = at;
  uint64_t *const first = realloc(store->file_first_row, (size_t)capacity * sizeof *first);
  if (first != NULL) store->file_first_row = first;
  if (at == NULL || first == NULL) return false;
  store->file_capacity = capacity;
  return true;
}

static bool reserve_name(struct kc_trace *trace, struct kc_trace_store *store, size_t bytes)
{
  const size_t needed = store->file_names_bytes + bytes;
  if (needed <= store->file_names_capacity) return true;
  char *const larger = realloc(trace->file_names, 2 * needed);
  if (larger == NULL) return false;
  trace->file_names = larger;
  store->file_names_capacity = 2 * needed;
  return true;
}

enum kc_err kc_store_file(struct kc_trace_builder *builder, const char *path)
{
  struct kc_trace *const trace = builder->trace;
  struct kc_trace_store *const store = builder->store;
  const size_t bytes = strlen(path) + 1;
  KC_ASSERT(trace->file_names_count < UINT32_MAX / 2);
  if (!reserve_file(trace, store) || !reserve_name(trace, store, bytes)) {
    return no_memory(builder, (uint64_t)trace->file_names_count + 1);
  }
  memcpy(trace->file_names + store->file_names_bytes, path, bytes);
  trace->file_name_at[trace->file_names_count] = store->file_names_bytes;
  store->file_first_row[trace->file_names_count] = trace->count;
  store->file_names_bytes += bytes;
  store->dropped_before_file = store->dropped_count;
  trace->file_names_count++;
  return KC_OK;
}

uint32_t kc_store_file_of(const struct kc_trace_builder *builder, uint64_t row)
{
  const uint64_t *const first = builder->store->file_first_row;
  uint32_t low = 0, high = builder->trace->file_names_count; /* first[low] <= row < first[high] */
  KC_ASSERT(high > 0 && first[0] == 0);
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (first[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

const char *kc_trace_file_name(const struct kc_trace *trace, uint32_t file)
{
  KC_ASSERT(trace != NULL);
  if (file >= trace->file_names_count) return "";
  return trace->file_names + trace->file_name_at[file];
}

struct kc_trace_place kc_trace_row_place(const struct kc_trace *trace, uint64_t row)
{
  const struct kc_trace_columns *const column = &trace->column;
  KC_ASSERT(row < trace->count);
  return (struct kc_trace_place){column->file == NULL ? 0 : column->file[row],
                                 column->line == NULL ? 0 : column->line[row]};
}

/* ---- lines --------------------------------------------------------------------------------- */

/* The line of a place in a document. Rows come in its order, so most calls count a little more. */
static uint64_t line_of(struct kc_trace_builder *builder, const char *at)
{
  if (builder->counted_at == NULL || at < builder->counted_at) {
    builder->counted_at = builder->line_text;
    builder->counted_line = builder->line;
  }
  KC_ASSERT(at >= builder->counted_at);
  const char *p = builder->counted_at;
  while ((p = memchr(p, '\n', (size_t)(at - p))) != NULL) {
    builder->counted_line++;
    p++;
  }
  builder->counted_at = at;
  return builder->counted_line;
}

struct kc_trace_place kc_trace_here(struct kc_trace_builder *builder)
{
  const uint32_t files = builder->trace->file_names_count;
  const bool document = builder->framing == KC_FRAMING_DOCUMENT && builder->row_at != NULL;
  const uint64_t line = document ? line_of(builder, builder->row_at) : builder->line;
  return (struct kc_trace_place){files == 0 ? 0 : files - 1,
                                 line > UINT32_MAX ? 0 : (uint32_t)line};
}

void kc_trace_note_first(struct kc_trace_builder *builder, enum kc_trace_note note)
{
  KC_ASSERT((unsigned)note < KC_NOTES);
  builder->trace->note_at[note] = kc_trace_here(builder);
}

void kc_trace_note_once(struct kc_trace_builder *builder, enum kc_trace_note note)
{
  if (builder->trace->note[note] == 0) kc_trace_note_count(builder, note, 1);
  KC_ASSERT(builder->trace->note[note] == 1);
}
