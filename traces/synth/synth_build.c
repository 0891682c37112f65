/* Rows in the making.
 *
 *   item  | arrival | order | after | ids: shared_first..+shared, own_first.. | lengths |
 *
 * Items are added in any order of time, each numbered; finishing sorts them by (arrival, number),
 * writes the columns, and renames raw prefix ids to dense ones in order of first appearance. The
 * build owns its items, the trace its arrays; both are heap memory taken before any run. */
#include "traces/synth/synth_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kc_err fail_memory(struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while the trace was made");
}

enum kc_err kc_synth_add(struct kc_synth_build *build, struct kc_synth_item item,
                         struct kc_diag *diag)
{
  KC_ASSERT(item.arrival_ps >= 0);
  KC_ASSERT(item.after == KC_SYNTH_NO_ROW || item.after < build->count);
  if (build->count >= KC_SYNTH_ROWS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT,
                   "the trace passes %llu rows; ask for fewer or a shorter time",
                   (unsigned long long)KC_SYNTH_ROWS_MAX);
  }
  if (build->count == build->capacity) {
    const uint64_t capacity = build->capacity == 0 ? 1024 : 2 * build->capacity;
    struct kc_synth_item *grown = realloc(build->item, (size_t)capacity * sizeof *grown);
    if (grown == NULL) return fail_memory(diag);
    build->item = grown;
    build->capacity = capacity;
  }
  item.order = build->count;
  build->item[build->count++] = item;
  return KC_OK;
}

void kc_synth_build_free(struct kc_synth_build *build)
{
  free(build->item);
  *build = (struct kc_synth_build){0};
}

static int by_arrival(const void *a, const void *b)
{
  const struct kc_synth_item *const x = a, *const y = b;
  if (x->arrival_ps != y->arrival_ps) return x->arrival_ps < y->arrival_ps ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static void *take(uint64_t count, size_t size)
{
  return calloc(count > 0 ? (size_t)count : 1, size);
}

/* Every array that the shape needs; false when memory ran out. */
static bool take_arrays(struct kc_trace *trace, const struct kc_synth_shape *shape, uint64_t rows,
                        uint64_t blocks)
{
  struct kc_trace_columns *const column = &trace->column;
  bool all = (trace->row = take(rows, sizeof *trace->row)) != NULL;
  if (shape->sessions) {
    all = all && (column->session = take(rows, sizeof *column->session)) != NULL;
    all = all && (column->after = take(rows, sizeof *column->after)) != NULL;
    all = all && (column->wait_ps = take(rows, sizeof *column->wait_ps)) != NULL;
    all = all && (column->flags = take(rows, sizeof *column->flags)) != NULL;
  }
  if (shape->ids > 0) {
    all = all && (column->block_first = take(rows, sizeof *column->block_first)) != NULL;
    all = all && (column->block_count = take(rows, sizeof *column->block_count)) != NULL;
    all = all && (trace->block = take(blocks, sizeof *trace->block)) != NULL;
  }
  return all;
}

/* `after` and sessions by their new numbers: row_of[order] = row, session_of[raw] = dense. */
static void write_sessions(struct kc_synth_build *build, struct kc_trace *trace, uint32_t *row_of,
                           uint32_t *session_of)
{
  for (uint64_t i = 0; i < build->count; i++) row_of[build->item[i].order] = (uint32_t)i;
  for (uint64_t i = 0; i < build->count; i++) {
    const struct kc_synth_item *const item = &build->item[i];
    uint32_t *const dense = &session_of[item->session];
    if (*dense == KC_TRACE_NONE) *dense = trace->session_count++;
    trace->column.session[i] = *dense;
    trace->column.wait_ps[i] = item->wait_ps;
    trace->column.flags[i] = item->flags;
    trace->column.after[i] = KC_TRACE_NONE;
    if (item->after == KC_SYNTH_NO_ROW) continue;
    trace->column.after[i] = row_of[item->after];
    KC_ASSERT(row_of[item->after] < i);
  }
}

static void write_ids(struct kc_synth_build *build, struct kc_trace *trace, uint32_t *dense_of)
{
  uint64_t at = 0;
  for (uint64_t i = 0; i < build->count; i++) {
    const struct kc_synth_item *const item = &build->item[i];
    KC_ASSERT(item->shared <= item->blocks);
    trace->column.block_first[i] = at;
    trace->column.block_count[i] = item->blocks;
    for (uint32_t k = 0; k < item->blocks; k++) {
      const uint64_t raw =
          k < item->shared ? item->shared_first + k : item->own_first + (k - item->shared);
      if (dense_of[raw] == KC_TRACE_NONE) dense_of[raw] = trace->block_distinct++;
      trace->block[at++] = dense_of[raw];
    }
  }
  KC_ASSERT(at == trace->block_total);
}

void kc_synth_seal(struct kc_trace *trace)
{
  const kc_ps first_ps = trace->row[0].arrival_ps;
  KC_ASSERT(trace->count > 0);
  snprintf(trace->format, sizeof trace->format, "synth");
  snprintf(trace->path, sizeof trace->path, "synth");
  for (uint64_t i = 0; i < trace->count; i++) {
    struct kc_trace_row *const row = &trace->row[i];
    KC_ASSERT(row->input_tokens > 0 && row->output_tokens > 0);
    row->arrival_ps -= first_ps;
    KC_ASSERT(row->arrival_ps >= (i == 0 ? 0 : row[-1].arrival_ps));
    const uint64_t context = (uint64_t)row->input_tokens + row->output_tokens;
    trace->input_tokens += row->input_tokens;
    trace->output_tokens += row->output_tokens;
    if (row->input_tokens > trace->input_tokens_max) trace->input_tokens_max = row->input_tokens;
    if (row->output_tokens > trace->output_tokens_max) {
      trace->output_tokens_max = row->output_tokens;
    }
    if (context > trace->context_tokens_max) trace->context_tokens_max = context;
    if (i > 0 && row->arrival_ps == row[-1].arrival_ps) trace->note[KC_NOTE_TIES]++;
  }
  trace->span_ps = trace->row[trace->count - 1].arrival_ps;
}

/* An array of `count` times KC_TRACE_NONE. */
static uint32_t *take_map(uint64_t count)
{
  uint32_t *map = take(count, sizeof *map);
  if (map != NULL) memset(map, 0xff, (size_t)count * sizeof *map);
  return map;
}

static enum kc_err write_columns(struct kc_synth_build *build, const struct kc_synth_shape *shape,
                                 struct kc_trace *trace, struct kc_diag *diag)
{
  if (shape->sessions) {
    uint32_t *row_of = take_map(build->count), *session_of = take_map(build->count);
    const bool both = row_of != NULL && session_of != NULL;
    if (both) write_sessions(build, trace, row_of, session_of);
    free(row_of);
    free(session_of);
    if (!both) return fail_memory(diag);
  }
  if (shape->ids > 0) {
    uint32_t *dense_of = take_map(shape->ids);
    if (dense_of == NULL) return fail_memory(diag);
    write_ids(build, trace, dense_of);
    free(dense_of);
    trace->prefix_ids = true;
    trace->block_tokens = shape->block_tokens;
    trace->tail = shape->tail;
  }
  return KC_OK;
}

enum kc_err kc_synth_finish(struct kc_synth_build *build, const struct kc_synth_shape *shape,
                            struct kc_trace *trace, struct kc_diag *diag)
{
  uint64_t blocks = 0;
  memset(trace, 0, sizeof *trace);
  if (build->count == 0) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "no request arrives in the time given; raise the rate or the duration");
  }
  if (shape->ids >= KC_TRACE_NONE) {
    return kc_fail(diag, KC_ERR_LIMIT, "the trace needs more than 4,294,967,294 prefix ids; take "
                   "larger blocks or fewer rows");
  }
  KC_ASSERT(shape->rows_max == 0 || !shape->sessions);
  qsort(build->item, (size_t)build->count, sizeof *build->item, by_arrival);
  if (shape->rows_max > 0 && build->count > shape->rows_max) build->count = shape->rows_max;
  for (uint64_t i = 0; i < build->count; i++) blocks += build->item[i].blocks;
  if (!take_arrays(trace, shape, build->count, blocks)) {
    kc_trace_free(trace);
    return fail_memory(diag);
  }
  trace->count = build->count;
  trace->block_total = shape->ids > 0 ? blocks : 0;
  for (uint64_t i = 0; i < build->count; i++) {
    const struct kc_synth_item *const item = &build->item[i];
    trace->row[i] = (struct kc_trace_row){item->arrival_ps, item->input_tokens,
                                          item->output_tokens};
  }
  const enum kc_err err = write_columns(build, shape, trace, diag);
  if (err != KC_OK) {
    kc_trace_free(trace);
    return err;
  }
  kc_synth_seal(trace);
  return KC_OK;
}
