/* The end of a load: who waits for whom, order by time, dense numbers, the earliest at 0.
 *
 *   file order    0:a2 1:b1 2:a1        a session's turns in file order, or by their turn numbers
 *   after         -    -    0
 *   by time       b1   a1   a2          a stable sort; every column follows the same permutation
 *   after         -    -    1
 *
 * Numbers of sessions, kinds and ids are given anew in the order of the sorted rows wherever that
 * order differs from the file's, so that a shuffled file gives the same trace. Ids that stand
 * behind different ids in different rows are content hashes, not chained ones; such a trace gets
 * ids that stand for the whole path up to them, which is what equal ids promise.
 *
 * Works on the builder's memory; scratch arrays are from malloc and end with each function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/readers/trace_sort.h"
#include "traces/readers/trace_store.h"

static enum kc_err no_memory(struct kc_trace_builder *builder)
{
  return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: sorting a trace of %llu rows",
                 (unsigned long long)builder->trace->count);
}

static void *scratch(uint64_t count, size_t bytes)
{
  KC_ASSERT(bytes > 0);
  if (count > SIZE_MAX / bytes - 1 || KC_FAULT("trace_order_memory")) return NULL;
  return malloc((size_t)count * bytes + 1);
}

/* ---- who waits for whom -------------------------------------------------------------------- */

static void join_sessions(struct kc_trace_builder *builder)
{
  uint32_t *const session = builder->trace->column.session;
  if (session == NULL || !builder->store->sessions_joined) return;
  for (uint64_t i = 0; i < builder->trace->count; i++) {
    if (session[i] != KC_TRACE_NONE) session[i] = kc_store_root(builder->store, session[i]);
  }
}

/* Rows of each session, in file order: first[s] .. first[s + 1] of `member`. */
static void list_members(const struct kc_trace *trace, uint32_t sessions, uint32_t *first,
                         uint32_t *member)
{
  const uint32_t *const session = trace->column.session;
  memset(first, 0, ((size_t)sessions + 2) * sizeof *first);
  for (uint64_t i = 0; i < trace->count; i++) {
    if (session[i] != KC_TRACE_NONE) first[session[i] + 2]++;
  }
  for (uint32_t s = 2; s <= sessions + 1; s++) first[s] += first[s - 1];
  for (uint64_t i = 0; i < trace->count; i++) {
    if (session[i] != KC_TRACE_NONE) member[first[session[i] + 1]++] = (uint32_t)i;
  }
}

/* Puts one session's rows in the order of their turns; equal turns keep the file's order. */
static bool sort_members(const uint32_t *turn, uint32_t *member, uint32_t count)
{
  bool sorted = true;
  for (uint32_t i = 1; i < count && sorted; i++) sorted = turn[member[i - 1]] <= turn[member[i]];
  if (sorted) return true;
  struct kc_trace_row *const row = scratch(count, sizeof *row);
  if (row == NULL) return false;
  for (uint32_t i = 0; i < count; i++) {
    row[i] = (struct kc_trace_row){turn[member[i]], member[i], 0};
  }
  const bool done = kc_trace_sort(row, count);
  for (uint32_t i = 0; i < count && done; i++) member[i] = row[i].input_tokens;
  free(row);
  return done;
}

static void link_members(struct kc_trace *trace, const uint32_t *member, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *const after = &trace->column.after[member[i]];
    if (*after == KC_AFTER_ROW_PREVIOUS) *after = i == 0 ? KC_TRACE_NONE : member[i - 1];
  }
}

static bool link_sessions(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const uint32_t sessions = builder->store->session_capacity;
  if (trace->column.session == NULL) return true;
  uint32_t *const first = scratch((uint64_t)sessions + 2, sizeof *first);
  uint32_t *const member = scratch(trace->count, sizeof *member);
  bool done = first != NULL && member != NULL;
  if (done) list_members(trace, sessions, first, member);
  for (uint32_t s = 0; s < sessions && done; s++) {
    uint32_t *const own = member + first[s];
    const uint32_t count = first[s + 1] - first[s];
    if (builder->store->turn != NULL) done = sort_members(builder->store->turn, own, count);
    if (done) link_members(trace, own, count);
  }
  free(first);
  free(member);
  return done;
}

/* Dropped rows with a handle below `handle`. O(log n). */
static uint64_t dropped_below(const struct kc_trace_store *store, uint32_t handle)
{
  uint64_t low = 0, high = store->dropped_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (store->dropped[middle].handle < handle) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* What `handle` stands for: *after of the dropped row, or NULL when its row was kept. */
static uint32_t *dropped_after(struct kc_trace_store *store, uint32_t handle)
{
  const uint64_t below = dropped_below(store, handle);
  const bool dropped = below < store->dropped_count && store->dropped[below].handle == handle;
  return dropped ? &store->dropped[below].after : NULL;
}

/* A handle -> the kept row, NONE when nothing that it leads to was kept. Dropped rows may wait in a
 * circle; no walk is longer than there are of them. The second walk lets all that were passed lead
 * straight to the end, so that no later walk is long. */
static uint32_t kept_row(struct kc_trace_store *store, uint32_t handle)
{
  uint32_t end = handle, *after;
  uint64_t walked = 0;
  while (end != KC_TRACE_NONE && (after = dropped_after(store, end)) != NULL) {
    end = walked++ < store->dropped_count ? *after : KC_TRACE_NONE;
  }
  for (uint64_t i = 0; i < walked && handle != end; i++) {
    after = dropped_after(store, handle);
    if (after == NULL) break;
    handle = *after;
    *after = end;
  }
  return end == KC_TRACE_NONE ? KC_TRACE_NONE : end - (uint32_t)dropped_below(store, end);
}

/* `line` is that of the row which waits. */
static enum kc_err fail_handle(struct kc_trace_builder *builder, uint32_t handle, uint32_t line)
{
  return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, line, 0,
                    "this row waits for row %llu, but the last row of the file is %llu (the first "
                    "is 0)", (unsigned long long)(handle - builder->rows_before_file),
                    (unsigned long long)(builder->rows_seen - builder->rows_before_file - 1));
}

enum kc_err kc_store_check_after(struct kc_trace_builder *builder)
{
  const struct kc_trace *const trace = builder->trace;
  const struct kc_trace_store *const store = builder->store;
  KC_ASSERT(trace->file_names_count > 0);
  for (uint64_t i = store->dropped_before_file; i < store->dropped_count; i++) {
    const struct kc_dropped_row *const row = &store->dropped[i]; /* others may be led on by it */
    const bool absent = row->after != KC_TRACE_NONE && row->after >= builder->rows_seen;
    if (absent) return fail_handle(builder, row->after, row->line);
  }
  if (trace->column.after == NULL) return KC_OK;
  for (uint64_t i = store->file_first_row[trace->file_names_count - 1]; i < trace->count; i++) {
    const uint32_t after = trace->column.after[i];
    const bool absent = after < KC_AFTER_ROW_PREVIOUS && after >= builder->rows_seen;
    if (absent) return fail_handle(builder, after, trace->column.line[i]);
  }
  return KC_OK;
}

static void resolve_handles(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  for (uint64_t i = 0; i < trace->count; i++) {
    uint32_t *const after = &trace->column.after[i];
    if (*after >= KC_AFTER_ROW_PREVIOUS) continue;
    KC_ASSERT(*after < builder->rows_seen);
    if (builder->store->dropped_count > 0) *after = kept_row(builder->store, *after);
    if (*after != KC_TRACE_NONE) KC_ASSERT(*after < trace->count);
  }
}

/* Fails at the line of a row; rows are in the order read. */
static enum kc_err fail_row(struct kc_trace_builder *builder, uint64_t row, const char *sentence)
{
  const struct kc_trace *const trace = builder->trace;
  const char *const path = kc_trace_file_name(trace, kc_store_file_of(builder, row));
  KC_ASSERT(trace->column.line != NULL); /* kept since the first row that waits */
  return kc_fail_at(builder->diag, KC_ERR_INPUT, path, trace->column.line[row], 0, "%s", sentence);
}

/* `row` lies on a circle. Names the first one of it in the order read. */
static enum kc_err fail_circle(struct kc_trace_builder *builder, uint32_t row)
{
  const uint32_t *const after = builder->trace->column.after;
  char sentence[200];
  uint32_t first = row;
  for (uint32_t at = after[row]; at != row; at = after[at]) first = at < first ? at : first;
  const uint32_t other = after[first];
  if (other == first) {
    return fail_row(builder, first, "this row waits for itself, so it could never start");
  }
  const int length = snprintf(sentence, sizeof sentence,
                              "this row waits for the row of line %u, which waits for it in turn; "
                              "nothing in this circle could start",
                              builder->trace->column.line[other]);
  KC_ASSERT(length > 0 && (size_t)length < sizeof sentence);
  return fail_row(builder, first, sentence);
}

/* Rows that wait for each other in a circle would never start. Each walk stops at a row that some
 * earlier walk has passed, so all walks together are O(n). */
static enum kc_err check_circles(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const uint32_t *const after = trace->column.after;
  uint32_t *const walk = scratch(trace->count, sizeof *walk); /* the walk that passed the row */
  if (walk == NULL) return no_memory(builder);
  memset(walk, 0xff, (size_t)trace->count * sizeof *walk);
  uint32_t at = KC_TRACE_NONE;
  for (uint32_t i = 0; i < trace->count && at == KC_TRACE_NONE; i++) {
    at = i;
    while (at != KC_TRACE_NONE && walk[at] == KC_TRACE_NONE) {
      walk[at] = i;
      at = after[at];
    }
    if (at != KC_TRACE_NONE && walk[at] != i) at = KC_TRACE_NONE;
  }
  free(walk);
  return at == KC_TRACE_NONE ? KC_OK : fail_circle(builder, at);
}

/* Columns in which no row says anything are none. */
static void drop_column(struct kc_trace_builder *builder, enum kc_store_column column)
{
  free(kc_store_column(builder->trace, builder->store, column));
  kc_store_set_column(builder->trace, builder->store, column, NULL);
}

/* After this `after` and `wait_ps` are what trace.h says, in file order. */
static enum kc_err resolve_order(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const struct kc_trace_columns *const column = &trace->column;
  join_sessions(builder);
  if (column->after == NULL) return KC_OK;
  resolve_handles(builder);
  if (!link_sessions(builder)) return no_memory(builder);
  uint64_t waiting = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    uint32_t *const after = &column->after[i];
    if (*after == KC_AFTER_ROW_PREVIOUS) *after = KC_TRACE_NONE; /* it names no session */
    waiting += *after != KC_TRACE_NONE;
    if (*after == KC_TRACE_NONE) {
      column->wait_ps[i] = 0;
    } else if (builder->store->wait_after_ps != NULL) {
      const kc_ps more = builder->store->wait_after_ps[*after];
      if (__builtin_add_overflow(column->wait_ps[i], more, &column->wait_ps[i])) {
        return fail_row(builder, i, "this row waits for longer than 106 days, which is as long as "
                                    "a run can be");
      }
    }
  }
  if (waiting > 0) return check_circles(builder);
  drop_column(builder, KC_COLUMN_AFTER);
  drop_column(builder, KC_COLUMN_WAIT);
  return KC_OK;
}

/* Lines are kept for who asked, and then the rows' files too. */
static enum kc_err settle_lines(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  if (!builder->options->lines) {
    drop_column(builder, KC_COLUMN_LINE);
    return KC_OK;
  }
  if (trace->file_names_count == 1) return KC_OK;
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_FILE));
  for (uint64_t i = 0; i < trace->count; i++) {
    trace->column.file[i] = kc_store_file_of(builder, i);
  }
  return KC_OK;
}

/* ---- order by time ------------------------------------------------------------------------- */

/* from[order[i]] -> a new array's i; NULL without memory. */
static void *permute(const void *from, size_t bytes, const uint32_t *order, uint64_t count)
{
  const char *const rows = from;
  char *const to = scratch(count, bytes);
  for (uint64_t i = 0; i < count && to != NULL; i++) {
    memcpy(to + i * bytes, rows + (size_t)order[i] * bytes, bytes);
  }
  return to;
}

/* Sorts the rows; order[i] = where row i stood. */
static bool sort_rows(struct kc_trace *trace, uint32_t *order)
{
  struct kc_trace_row *const key = scratch(trace->count, sizeof *key);
  if (key == NULL) return false;
  for (uint64_t i = 0; i < trace->count; i++) {
    key[i] = (struct kc_trace_row){trace->row[i].arrival_ps, (uint32_t)i, 0};
  }
  bool done = kc_trace_sort(key, trace->count);
  for (uint64_t i = 0; i < trace->count && done; i++) order[i] = key[i].input_tokens;
  free(key);
  if (!done) return false;
  struct kc_trace_row *const row = permute(trace->row, sizeof *row, order, trace->count);
  if (row == NULL) return false;
  free(trace->row);
  trace->row = row;
  return true;
}

static bool sort_column(struct kc_trace_builder *builder, enum kc_store_column column,
                        const uint32_t *order)
{
  struct kc_trace *const trace = builder->trace;
  void *const old = kc_store_column(trace, builder->store, column);
  if (old == NULL) return true;
  void *const sorted = permute(old, kc_store_column_bytes(column), order, trace->count);
  if (sorted == NULL) return false;
  free(old);
  kc_store_set_column(trace, builder->store, column, sorted);
  return true;
}

static bool sort_columns(struct kc_trace_builder *builder, uint32_t *order, uint32_t *now_at)
{
  struct kc_trace *const trace = builder->trace;
  bool done = order != NULL && now_at != NULL && sort_rows(trace, order);
  for (int c = 0; c < KC_COLUMN_TURN && done; c++) {
    done = sort_column(builder, (enum kc_store_column)c, order);
  }
  if (!done || trace->column.after == NULL) return done;
  for (uint64_t i = 0; i < trace->count; i++) now_at[order[i]] = (uint32_t)i;
  for (uint64_t i = 0; i < trace->count; i++) {
    uint32_t *const after = &trace->column.after[i];
    if (*after != KC_TRACE_NONE) *after = now_at[*after];
  }
  return true;
}

static bool any_column(struct kc_trace_builder *builder)
{
  for (int c = 0; c < KC_COLUMN_TURN; c++) {
    if (kc_store_column(builder->trace, builder->store, (enum kc_store_column)c) != NULL) {
      return true;
    }
  }
  return false;
}

static enum kc_err sort_trace(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  if (!any_column(builder)) {
    return kc_trace_sort(trace->row, trace->count) ? KC_OK : no_memory(builder);
  }
  if (trace->count >= KC_TRACE_NONE) return no_memory(builder);
  uint32_t *const order = scratch(trace->count, sizeof *order);
  uint32_t *const now_at = scratch(trace->count, sizeof *now_at);
  const bool done = sort_columns(builder, order, now_at);
  free(order);
  free(now_at);
  return done ? KC_OK : no_memory(builder);
}

/* ---- dense numbers ------------------------------------------------------------------------- */

/* Numbers entry[0, count) anew by first appearance, NONE apart; map[old] = new. Returns how many
 * there are, or NONE without memory. The map, of `size` entries, goes to the caller. */
static uint32_t renumber(uint32_t *entry, uint64_t count, uint64_t size, uint32_t **map)
{
  uint32_t next = 0;
  *map = scratch(size, sizeof **map);
  if (*map == NULL) return KC_TRACE_NONE;
  memset(*map, 0xff, (size_t)size * sizeof **map);
  for (uint64_t i = 0; i < count; i++) {
    if (entry[i] == KC_TRACE_NONE) continue;
    KC_ASSERT(entry[i] < size);
    uint32_t *const number = &(*map)[entry[i]];
    if (*number == KC_TRACE_NONE) *number = next++;
    entry[i] = *number;
  }
  return next;
}

static enum kc_err number_sessions(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  uint32_t *map;
  if (trace->column.session == NULL) return KC_OK;
  trace->session_count = renumber(trace->column.session, trace->count,
                                  builder->store->session_capacity, &map);
  free(map);
  return trace->session_count == KC_TRACE_NONE ? no_memory(builder) : KC_OK;
}

static enum kc_err number_kinds(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const struct kc_intern_text *const names = &builder->store->kind;
  uint32_t *map;
  if (trace->column.kind == NULL) return KC_OK;
  const uint32_t kinds = renumber(trace->column.kind, trace->count, names->count, &map);
  trace->kind_name = kinds == KC_TRACE_NONE ? NULL : scratch(kinds, sizeof *trace->kind_name);
  if (trace->kind_name == NULL) {
    free(map);
    return no_memory(builder);
  }
  trace->kind_count = kinds;
  memset(trace->kind_name, 0, kinds * sizeof *trace->kind_name);
  for (uint32_t old = 0; old < names->count; old++) {
    size_t bytes;
    const char *const text = kc_intern_text_get(names, old, &bytes);
    KC_ASSERT(bytes < sizeof *trace->kind_name);
    if (map[old] != KC_TRACE_NONE) memcpy(trace->kind_name[map[old]], text, bytes);
  }
  free(map);
  return KC_OK;
}

/* ---- prefix ids ---------------------------------------------------------------------------- */

/* When every row that can tell the two rules apart follows the other one, that one holds. */
static void settle_tail(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  if (builder->options->tail != KC_TAIL_NONE || builder->store->rows_own_tail > 0) return;
  if (trace->note[KC_NOTE_IDS_OTHER_TAIL] == 0) return;
  trace->tail = trace->tail == KC_TAIL_FLOOR ? KC_TAIL_CEIL : KC_TAIL_FLOOR;
}

/* Lays the ids out in the order of the rows, each row's count within its prompt. False without
 * memory. */
static bool lay_out_blocks(struct kc_trace *trace)
{
  const struct kc_trace_columns *const c = &trace->column;
  uint32_t *const block = scratch(trace->block_total, sizeof *block);
  uint64_t total = 0;
  if (block == NULL) return false;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t floor = trace->row[i].input_tokens / trace->block_tokens;
    if (trace->tail == KC_TAIL_FLOOR && c->block_count[i] > floor) c->block_count[i] = floor;
    memcpy(block + total, trace->block + c->block_first[i], c->block_count[i] * sizeof *block);
    c->block_first[i] = total;
    total += c->block_count[i];
  }
  KC_ASSERT(total <= trace->block_total);
  free(trace->block);
  trace->block = block;
  trace->block_total = total;
  return true;
}

/* Content ids -> ids of the path up to them. */
static bool chain_blocks(struct kc_trace *trace)
{
  struct kc_intern path = {0};
  bool done = true;
  for (uint64_t i = 0; i < trace->count && done; i++) {
    uint32_t *const block = trace->block + trace->column.block_first[i];
    uint64_t parent = 0; /* number of the path before, + 1 */
    for (uint32_t k = 0; k < trace->column.block_count[i] && done; k++) {
      const uint32_t number = kc_intern_put(&path, parent << 32 | block[k]);
      done = number != KC_INTERN_FULL;
      block[k] = number;
      parent = (uint64_t)number + 1;
    }
  }
  trace->block_distinct = path.count;
  kc_intern_deinit(&path);
  return done;
}

static void count_rows_without_ids(struct kc_trace *trace)
{
  const uint32_t size = trace->block_tokens;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t input = trace->row[i].input_tokens;
    const bool expected = trace->tail != KC_TAIL_FLOOR || input >= size;
    if (!expected || trace->column.block_count[i] > 0) continue;
    if (trace->note[KC_NOTE_ROWS_WITHOUT_IDS]++ > 0) continue;
    trace->note_at[KC_NOTE_ROWS_WITHOUT_IDS] = kc_trace_row_place(trace, i);
  }
}

/* A trace whose format has ids, and that has none. */
static enum kc_err end_without_ids(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  KC_ASSERT(trace->block_total == 0);
  drop_column(builder, KC_COLUMN_BLOCK_FIRST);
  drop_column(builder, KC_COLUMN_BLOCK_COUNT);
  free(trace->block);
  trace->block = NULL;
  trace->prefix_ids = false;
  trace->block_tokens = trace->block_distinct = 0;
  trace->tail = KC_TAIL_NONE;
  return KC_OK;
}

static enum kc_err number_blocks(struct kc_trace_builder *builder, bool sorted)
{
  struct kc_trace *const trace = builder->trace;
  const struct kc_trace_store *const store = builder->store;
  trace->prefix_ids = trace->block_total > 0;
  if (!trace->prefix_ids) return end_without_ids(builder);
  settle_tail(builder);
  count_rows_without_ids(trace);
  trace->block_distinct = store->id.count;
  trace->note[KC_NOTE_UNCHAINED_IDS] = store->unchained;
  const bool all_stay = builder->rows_seen == trace->count &&
                        trace->note[KC_NOTE_IDS_MISMATCH] == 0 && trace->tail != KC_TAIL_FLOOR;
  if (sorted && all_stay && !store->unchained) return KC_OK; /* numbered as they came */
  if (!lay_out_blocks(trace)) return no_memory(builder);
  if (trace->block_total == 0) return end_without_ids(builder);
  if (store->unchained) return chain_blocks(trace) ? KC_OK : no_memory(builder);
  uint32_t *map;
  trace->block_distinct = renumber(trace->block, trace->block_total, store->id.count, &map);
  free(map);
  return trace->block_distinct == KC_TRACE_NONE ? no_memory(builder) : KC_OK;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static enum kc_err fail_no_rows(const struct kc_trace_builder *builder)
{
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

static int64_t floor_seconds(kc_ps ps)
{
  return ps / KC_PS_PER_S - (ps % KC_PS_PER_S < 0);
}

enum kc_err kc_trace_finish(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const kc_ps earliest = builder->earliest_ps;
  if (trace->count == 0) return fail_no_rows(builder);
  const bool sorted = trace->note[KC_NOTE_OUT_OF_ORDER] == 0;
  KC_TRY(resolve_order(builder));
  KC_TRY(settle_lines(builder));
  if (!sorted) {
    KC_TRY(sort_trace(builder));
    trace->note[KC_NOTE_TIES] = count_ties(trace);
  }
  KC_TRY(number_sessions(builder));
  KC_TRY(number_kinds(builder));
  KC_TRY(number_blocks(builder, sorted));
  if (trace->note[KC_NOTE_NO_ARRIVALS] > 0) trace->note[KC_NOTE_TIES] = 0;
  /* The earliest arrival as the file states it: its base and what it is away from that. */
  trace->note[KC_NOTE_SHIFTED] =
      (kc_i128)builder->base.seconds * KC_PS_PER_S + builder->base.fraction_ps + earliest != 0;
  trace->start_s = builder->base.seconds + floor_seconds(earliest);
  trace->note_at[KC_NOTE_SHIFTED] = kc_trace_row_place(trace, 0);
  if (earliest != 0) {
    for (uint64_t i = 0; i < trace->count; i++) trace->row[i].arrival_ps -= earliest;
  }
  trace->span_ps = builder->latest_ps - earliest;
  KC_ASSERT(trace->row[0].arrival_ps == 0);
  KC_ASSERT(trace->row[trace->count - 1].arrival_ps == trace->span_ps);
  return KC_OK;
}
