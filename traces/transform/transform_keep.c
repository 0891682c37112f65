/* Dropping rows without breaking what the others say about them.
 *
 *   row      0    1    2    3    4         keep[]  1 0 1 1 0
 *   after    -    0    1    0    2
 *   becomes  0    .    1    2    .         row 2 waits for row 0: its wait and row 1's add up
 *
 * Links are resolved in ascending order, so a dropped row already points at a kept one when the row
 * after it asks: one step a row for traces whose links point backward, as readers make them.
 *
 * Columns are compacted in place; the pool of prefix ids is written anew (rows may share parts of
 * the old one) with ids numbered by first appearance. Set-up only: takes scratch memory. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/transform/transform.h"

static enum kc_err no_memory(struct kc_diag *diag, uint64_t rows)
{
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: transforming a trace of %llu rows",
                 (unsigned long long)rows);
}

static kc_ps add_waits(kc_ps a, kc_ps b)
{
  kc_ps sum;
  KC_ASSERT(a >= 0 && b >= 0);
  return __builtin_add_overflow(a, b, &sum) ? KC_PS_NEVER - 1 : sum;
}

/* Moves `after` of row `i` to the nearest kept row; NONE when there is none. */
static void resolve_link(struct kc_trace_columns *column, const uint8_t *keep, uint64_t i,
                         uint64_t count)
{
  uint64_t steps = 0;
  while (column->after[i] != KC_TRACE_NONE && keep[column->after[i]] == 0) {
    const uint32_t dropped = column->after[i];
    KC_ASSERT(dropped < count && ++steps <= count); /* links form no circle */
    if (column->wait_ps != NULL) {
      column->wait_ps[i] = add_waits(column->wait_ps[i], column->wait_ps[dropped]);
    }
    column->after[i] = column->after[dropped];
  }
}

static void resolve_links(struct kc_trace *trace, const uint8_t *keep, uint64_t change[KC_CHANGES])
{
  struct kc_trace_columns *const column = &trace->column;
  if (column->after == NULL) return;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t before = column->after[i];
    resolve_link(column, keep, i, trace->count);
    if (keep[i] == 0 || column->after[i] == before) continue;
    if (column->after[i] != KC_TRACE_NONE) {
      change[KC_CHANGE_RELINKED]++;
    } else {
      change[KC_CHANGE_DETACHED]++;
      if (column->wait_ps != NULL) column->wait_ps[i] = 0;
    }
  }
}

/* Moves row `from` of every column to place `to` <= `from`. */
static void move_row(struct kc_trace *trace, uint64_t to, uint64_t from)
{
  struct kc_trace_columns *const column = &trace->column;
  KC_ASSERT(to <= from);
  trace->row[to] = trace->row[from];
  if (column->session != NULL) column->session[to] = column->session[from];
  if (column->after != NULL) column->after[to] = column->after[from];
  if (column->wait_ps != NULL) column->wait_ps[to] = column->wait_ps[from];
  if (column->block_first != NULL) column->block_first[to] = column->block_first[from];
  if (column->block_count != NULL) column->block_count[to] = column->block_count[from];
  if (column->kind != NULL) column->kind[to] = column->kind[from];
  if (column->flags != NULL) column->flags[to] = column->flags[from];
  if (column->line != NULL) column->line[to] = column->line[from];
  if (column->file != NULL) column->file[to] = column->file[from];
}

/* place[i] becomes the new number of row i. */
static void compact_rows(struct kc_trace *trace, const uint8_t *keep, uint32_t *place)
{
  uint64_t kept = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    place[i] = KC_TRACE_NONE;
    if (keep[i] == 0) continue;
    place[i] = (uint32_t)kept;
    move_row(trace, kept++, i);
  }
  KC_ASSERT(kept > 0);
  trace->count = kept;
  uint32_t *const after = trace->column.after;
  for (uint64_t i = 0; after != NULL && i < kept; i++) {
    if (after[i] != KC_TRACE_NONE) after[i] = place[after[i]];
    KC_ASSERT(after[i] == KC_TRACE_NONE || after[i] < kept);
  }
}

/* Renumbers value[0, count) by first appearance; *distinct falls to how many there are. `map` has
 * *distinct entries. */
static void renumber(uint32_t *value, uint64_t count, uint32_t *distinct, uint32_t *map)
{
  uint32_t next = 0;
  memset(map, 0xff, *distinct * sizeof *map); /* KC_TRACE_NONE everywhere */
  for (uint64_t i = 0; i < count; i++) {
    if (value[i] == KC_TRACE_NONE) continue;
    KC_ASSERT(value[i] < *distinct);
    if (map[value[i]] == KC_TRACE_NONE) map[value[i]] = next++;
    value[i] = map[value[i]];
  }
  *distinct = next;
}

static enum kc_err renumber_sessions(struct kc_trace *trace, struct kc_diag *diag)
{
  if (trace->column.session == NULL || trace->session_count == 0) return KC_OK;
  uint32_t *const map = malloc(trace->session_count * sizeof *map);
  if (map == NULL) return no_memory(diag, trace->count);
  renumber(trace->column.session, trace->count, &trace->session_count, map);
  free(map);
  return KC_OK;
}

static enum kc_err rebuild_blocks(struct kc_trace *trace, struct kc_diag *diag)
{
  struct kc_trace_columns *const column = &trace->column;
  if (column->block_first == NULL || column->block_count == NULL || trace->block_distinct == 0) {
    return KC_OK;
  }
  uint64_t total = 0, at = 0;
  for (uint64_t i = 0; i < trace->count; i++) total += column->block_count[i];
  uint32_t *const pool = malloc((total + 1) * sizeof *pool);
  uint32_t *const map = malloc(trace->block_distinct * sizeof *map);
  if (pool == NULL || map == NULL) {
    free(pool);
    free(map);
    return no_memory(diag, trace->count);
  }
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t blocks = column->block_count[i];
    KC_ASSERT(blocks == 0 || column->block_first[i] + blocks <= trace->block_total);
    if (blocks > 0) memcpy(pool + at, trace->block + column->block_first[i], blocks * sizeof *pool);
    column->block_first[i] = at;
    at += blocks;
  }
  KC_ASSERT(at == total);
  renumber(pool, total, &trace->block_distinct, map);
  free(map);
  free(trace->block);
  trace->block = pool;
  trace->block_total = total;
  return KC_OK;
}

static void shift_to_zero(struct kc_trace *trace, uint64_t change[KC_CHANGES])
{
  const kc_ps earliest = trace->row[0].arrival_ps;
  KC_ASSERT(earliest >= 0);
  if (earliest == 0) return;
  for (uint64_t i = 0; i < trace->count; i++) trace->row[i].arrival_ps -= earliest;
  change[KC_CHANGE_SHIFTED_MS] += (uint64_t)(earliest / KC_PS_PER_MS);
}

void kc_trace_refresh(struct kc_trace *trace)
{
  uint64_t ties = 0;
  KC_ASSERT(trace->count > 0);
  trace->input_tokens = trace->output_tokens = trace->context_tokens_max = 0;
  trace->input_tokens_max = trace->output_tokens_max = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    const uint64_t context = (uint64_t)row->input_tokens + row->output_tokens;
    KC_ASSERT(i == 0 || row->arrival_ps >= row[-1].arrival_ps);
    ties += i > 0 && row->arrival_ps == row[-1].arrival_ps;
    trace->input_tokens += row->input_tokens;
    trace->output_tokens += row->output_tokens;
    if (row->input_tokens > trace->input_tokens_max) trace->input_tokens_max = row->input_tokens;
    if (row->output_tokens > trace->output_tokens_max) {
      trace->output_tokens_max = row->output_tokens;
    }
    if (context > trace->context_tokens_max) trace->context_tokens_max = context;
  }
  trace->span_ps = trace->row[trace->count - 1].arrival_ps;
  trace->note[KC_NOTE_TIES] = trace->note[KC_NOTE_NO_ARRIVALS] > 0 ? 0 : ties;
}

static bool keeps_all(const uint8_t *keep, uint64_t count, bool *keeps_any)
{
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) kept += keep[i] != 0;
  *keeps_any = kept > 0;
  return kept == count;
}

enum kc_err kc_trace_keep_rows(struct kc_trace *trace, const uint8_t *keep,
                               uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  bool keeps_any = false;
  KC_ASSERT(trace != NULL && keep != NULL && change != NULL);
  KC_ASSERT(trace->count > 0 && trace->count < KC_TRACE_NONE);
  if (keeps_all(keep, trace->count, &keeps_any)) return KC_OK;
  if (!keeps_any) {
    return kc_fail(diag, KC_ERR_INPUT, "no request is left of %llu; widen the window or the filter",
                   (unsigned long long)trace->count);
  }
  uint32_t *const place = malloc(trace->count * sizeof *place);
  if (place == NULL) return no_memory(diag, trace->count);
  resolve_links(trace, keep, change);
  compact_rows(trace, keep, place);
  free(place);
  KC_TRY(renumber_sessions(trace, diag));
  KC_TRY(rebuild_blocks(trace, diag));
  shift_to_zero(trace, change);
  kc_trace_refresh(trace);
  return KC_OK;
}
