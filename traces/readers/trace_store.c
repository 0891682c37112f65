/* Rows and columns while a trace is read.
 *
 *   row       [0][1][2][3].....|          one capacity for the rows and for every column in use
 *   session    -  -  0  0 .....|          made when row 2 was the first to name a session; the rows
 *                                         before it are filled with "none"
 *   block     |0 1 2|0 1 3 4| pushed ->   a dropped row's ids are forgotten by not moving the end
 *
 * The trace owns rows, columns and blocks; the store owns what is needed only while reading. All of
 * it is from malloc, sized once from the bytes ahead and doubled when that was too little; no row
 * allocates. */
#include "traces/readers/trace_store.h"

#include <stdlib.h>
#include <string.h>

static enum kc_err no_memory(struct kc_trace_builder *builder, const char *what, uint64_t count)
{
  return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: a trace of %llu %s",
                 (unsigned long long)count, what);
}

void *kc_store_column(const struct kc_trace *trace, const struct kc_trace_store *store,
                      enum kc_store_column column)
{
  const struct kc_trace_columns *const c = &trace->column;
  switch (column) {
    case KC_COLUMN_SESSION: return c->session;
    case KC_COLUMN_AFTER: return c->after;
    case KC_COLUMN_WAIT: return c->wait_ps;
    case KC_COLUMN_BLOCK_FIRST: return c->block_first;
    case KC_COLUMN_BLOCK_COUNT: return c->block_count;
    case KC_COLUMN_KIND: return c->kind;
    case KC_COLUMN_FLAGS: return c->flags;
    case KC_COLUMN_LINE: return c->line;
    case KC_COLUMN_FILE: return c->file;
    case KC_COLUMN_TURN: return store->turn;
    case KC_COLUMN_WAIT_AFTER: return store->wait_after_ps;
    case KC_COLUMNS: break;
  }
  return NULL;
}

void kc_store_set_column(struct kc_trace *trace, struct kc_trace_store *store,
                         enum kc_store_column column, void *rows)
{
  struct kc_trace_columns *const c = &trace->column;
  switch (column) {
    case KC_COLUMN_SESSION: c->session = rows; break;
    case KC_COLUMN_AFTER: c->after = rows; break;
    case KC_COLUMN_WAIT: c->wait_ps = rows; break;
    case KC_COLUMN_BLOCK_FIRST: c->block_first = rows; break;
    case KC_COLUMN_BLOCK_COUNT: c->block_count = rows; break;
    case KC_COLUMN_KIND: c->kind = rows; break;
    case KC_COLUMN_FLAGS: c->flags = rows; break;
    case KC_COLUMN_LINE: c->line = rows; break;
    case KC_COLUMN_FILE: c->file = rows; break;
    case KC_COLUMN_TURN: store->turn = rows; break;
    case KC_COLUMN_WAIT_AFTER: store->wait_after_ps = rows; break;
    case KC_COLUMNS: break;
  }
}

size_t kc_store_column_bytes(enum kc_store_column column)
{
  static const unsigned char bytes[KC_COLUMNS] = {4, 4, 8, 8, 4, 4, 1, 4, 4, 4, 8};
  KC_ASSERT((unsigned)column < KC_COLUMNS);
  return bytes[column];
}

/* What every byte of a row that says nothing is. */
static int empty_byte(enum kc_store_column column)
{
  const bool none = column == KC_COLUMN_SESSION || column == KC_COLUMN_AFTER ||
                    column == KC_COLUMN_KIND;
  return none ? 0xff : 0;
}

void kc_store_deinit(struct kc_trace_store *store)
{
  free(store->dropped);
  free(store->file_first_row);
  free(store->turn);
  free(store->wait_after_ps);
  free(store->session_root);
  free(store->session_arrival_ps);
  free(store->id_before);
  kc_intern_deinit(&store->session_number);
  kc_intern_text_deinit(&store->session_text);
  kc_intern_deinit(&store->id);
  kc_intern_text_deinit(&store->kind);
  memset(store, 0, sizeof *store);
}

/* ---- room ---------------------------------------------------------------------------------- */

/* The column with room for every row; rows [from, capacity) of it say nothing. */
static bool resize_column(struct kc_trace_builder *builder, enum kc_store_column column,
                          uint64_t from)
{
  void *const now = kc_store_column(builder->trace, builder->store, column);
  const size_t bytes = kc_store_column_bytes(column);
  const uint64_t capacity = builder->capacity_rows;
  KC_ASSERT(from <= capacity);
  if (capacity > SIZE_MAX / bytes || KC_FAULT("trace_rows_memory")) return false;
  char *const larger = realloc(now, (size_t)capacity * bytes);
  if (larger == NULL) return false;
  memset(larger + from * bytes, empty_byte(column), (size_t)(capacity - from) * bytes);
  kc_store_set_column(builder->trace, builder->store, column, larger);
  return true;
}

enum kc_err kc_store_use_column(struct kc_trace_builder *builder, enum kc_store_column column)
{
  if (kc_store_column(builder->trace, builder->store, column) != NULL) return KC_OK;
  if (resize_column(builder, column, 0)) return KC_OK;
  return no_memory(builder, "rows", builder->capacity_rows);
}

/* Room for one more row. */
static enum kc_err reserve_row(struct kc_trace_builder *builder)
{
  struct kc_trace *const trace = builder->trace;
  const uint64_t rows_max = builder->options->rows_max;
  if (trace->count < builder->capacity_rows) return KC_OK;
  if (trace->count >= rows_max) {
    return kc_fail_at(builder->diag, KC_ERR_LIMIT, builder->path, builder->line, 0,
                      "more than %llu rows, the ceiling rows_max; split the trace or raise it",
                      (unsigned long long)rows_max);
  }
  const uint64_t expected = builder->bytes_ahead / (builder->line_bytes + 1);
  uint64_t capacity = builder->capacity_rows == 0 ? expected + expected / 8 + 64
                                                  : builder->capacity_rows * 2;
  if (capacity > rows_max) capacity = rows_max;
  struct kc_trace_row *const larger =
      capacity > SIZE_MAX / sizeof *larger || KC_FAULT("trace_rows_memory")
          ? NULL
          : realloc(trace->row, (size_t)capacity * sizeof *larger);
  if (larger == NULL) return no_memory(builder, "rows", capacity);
  trace->row = larger;
  builder->capacity_rows = capacity;
  for (int column = 0; column < KC_COLUMNS; column++) {
    if (kc_store_column(trace, builder->store, (enum kc_store_column)column) == NULL) continue;
    if (!resize_column(builder, (enum kc_store_column)column, trace->count)) {
      return no_memory(builder, "rows", capacity);
    }
  }
  return KC_OK;
}

/* ---- prefix ids ---------------------------------------------------------------------------- */

static enum kc_err reserve_blocks(struct kc_trace_builder *builder)
{
  struct kc_trace_store *const store = builder->store;
  const uint64_t capacity = store->block_capacity == 0 ? 4096 : store->block_capacity * 2;
  uint32_t *const larger = KC_FAULT("trace_blocks_memory")
                               ? NULL
                               : realloc(builder->trace->block, (size_t)capacity * sizeof *larger);
  if (larger == NULL) return no_memory(builder, "prefix ids", capacity);
  builder->trace->block = larger;
  store->block_capacity = capacity;
  return KC_OK;
}

static enum kc_err reserve_id(struct kc_trace_builder *builder, uint32_t number)
{
  struct kc_trace_store *const store = builder->store;
  if (number < store->id_capacity) return KC_OK;
  const uint64_t capacity = store->id_capacity == 0 ? 4096 : (uint64_t)store->id_capacity * 2;
  const uint32_t limited = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
  uint32_t *const larger = realloc(store->id_before, (size_t)limited * sizeof *larger);
  if (larger == NULL || number >= limited) {
    if (larger != NULL) store->id_before = larger;
    return no_memory(builder, "prefix ids", capacity);
  }
  store->id_before = larger;
  store->id_capacity = limited;
  return KC_OK;
}

enum kc_err kc_trace_push_id(struct kc_trace_builder *builder, uint64_t id)
{
  struct kc_trace_store *const store = builder->store;
  struct kc_trace *const trace = builder->trace;
  const uint32_t known = store->id.count;
  const uint64_t at = trace->block_total + store->pushed;
  const uint32_t before = store->pushed == 0 ? KC_TRACE_NONE : trace->block[at - 1];
  const uint32_t number = kc_intern_put(&store->id, id);
  if (number == KC_INTERN_FULL) return no_memory(builder, "distinct prefix ids", known);
  if (at >= store->block_capacity) KC_TRY(reserve_blocks(builder));
  if (number == known) {
    KC_TRY(reserve_id(builder, number));
    store->id_before[number] = before;
  }
  if (store->id_before[number] != before && !store->unchained) {
    store->unchained = true;
    kc_trace_note_first(builder, KC_NOTE_UNCHAINED_IDS);
  }
  trace->block[at] = number;
  store->pushed++;
  return KC_OK;
}

uint32_t kc_trace_pushed_ids(const struct kc_trace_builder *builder)
{
  KC_ASSERT(builder->store->pushed <= KC_TRACE_DOCUMENT_BYTES_MAX);
  return (uint32_t)builder->store->pushed;
}

enum kc_err kc_trace_set_blocks(struct kc_trace_builder *builder, uint32_t block_tokens,
                                enum kc_tail_rule tail)
{
  struct kc_trace *const trace = builder->trace;
  const struct kc_trace_options *const options = builder->options;
  const uint32_t tokens = options->block_tokens > 0 ? options->block_tokens : block_tokens;
  if (tokens == 0) {
    return kc_trace_bad_place(builder, NULL, "blocks of 0 tokens; expected 1 or more");
  }
  const enum kc_tail_rule rule = options->tail != KC_TAIL_NONE ? options->tail : tail;
  if (builder->store->blocks_said && (trace->block_tokens != tokens || trace->tail != rule)) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "blocks of %u tokens (%s) here, of %u (%s) before; expected one block size "
                      "and tail rule a trace", tokens, kc_tail_rule_name(rule),
                      trace->block_tokens, kc_tail_rule_name(trace->tail));
  }
  trace->block_tokens = tokens;
  trace->tail = rule;
  builder->store->blocks_said = true;
  return KC_OK;
}

/* Compares the number of ids with the prompt's blocks; cuts what lies beyond the prompt. */
static uint32_t check_block_count(struct kc_trace_builder *builder, uint32_t input_tokens)
{
  struct kc_trace *const trace = builder->trace;
  const uint32_t size = trace->block_tokens;
  const uint32_t count = kc_trace_pushed_ids(builder);
  KC_ASSERT(size > 0); /* the reader's table, the option or kc_trace_set_blocks said it */
  const uint32_t floor = input_tokens / size;
  const uint32_t ceil = floor + (input_tokens % size != 0);
  const uint32_t own = trace->tail == KC_TAIL_FLOOR ? floor : ceil;
  if (count == own) {
    builder->store->rows_own_tail += floor != ceil;
  } else if (count == floor || count == ceil) {
    kc_trace_note_count(builder, KC_NOTE_IDS_OTHER_TAIL, 1);
  } else {
    kc_trace_note_count(builder, KC_NOTE_IDS_MISMATCH, 1);
  }
  return count < ceil ? count : ceil;
}

static enum kc_err store_blocks(struct kc_trace_builder *builder, uint64_t row,
                                uint32_t input_tokens)
{
  struct kc_trace *const trace = builder->trace;
  if (builder->store->pushed == 0) return KC_OK;
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_BLOCK_FIRST));
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_BLOCK_COUNT));
  trace->column.block_first[row] = trace->block_total;
  trace->column.block_count[row] = check_block_count(builder, input_tokens);
  trace->block_total += trace->column.block_count[row];
  builder->store->pushed = 0;
  return KC_OK;
}

/* ---- sessions and kinds -------------------------------------------------------------------- */

static enum kc_err reserve_session(struct kc_trace_builder *builder, uint32_t session)
{
  struct kc_trace_store *const store = builder->store;
  if (session < store->session_capacity) return KC_OK;
  uint32_t capacity = store->session_capacity == 0 ? 256 : store->session_capacity * 2;
  if (capacity <= session) capacity = session + session / 2 + 1;
  uint32_t *const root = realloc(store->session_root, (size_t)capacity * sizeof *root);
  if (root != NULL) store->session_root = root;
  kc_ps *const arrival = realloc(store->session_arrival_ps, (size_t)capacity * sizeof *arrival);
  if (arrival != NULL) store->session_arrival_ps = arrival;
  if (root == NULL || arrival == NULL || KC_FAULT("trace_sessions_memory")) {
    return no_memory(builder, "sessions", capacity);
  }
  for (uint32_t i = store->session_capacity; i < capacity; i++) {
    root[i] = i;
    arrival[i] = KC_PS_NEVER;
  }
  store->session_capacity = capacity;
  return KC_OK;
}

static enum kc_err find_session(struct kc_trace_builder *builder, const struct kc_trace_key *key,
                                uint32_t *session)
{
  struct kc_trace_store *const store = builder->store;
  *session = KC_TRACE_NONE;
  if (key->kind == KC_KEY_NONE) return KC_OK;
  const bool is_text = key->kind == KC_KEY_TEXT;
  const uint32_t number = is_text
                              ? kc_intern_text_put(&store->session_text, key->text, key->bytes)
                              : kc_intern_put(&store->session_number, key->number);
  if (number >= UINT32_MAX / 4) {
    return no_memory(builder, "sessions",
                     (uint64_t)store->session_number.count + store->session_text.count);
  }
  *session = 2 * number + is_text;
  return reserve_session(builder, *session);
}

uint32_t kc_store_root(struct kc_trace_store *store, uint32_t session)
{
  KC_ASSERT(session < store->session_capacity);
  while (store->session_root[session] != session) {
    store->session_root[session] = store->session_root[store->session_root[session]];
    session = store->session_root[session];
  }
  return session;
}

/* The session continues another one. Each session gets one parent, by its first row, so a parent
 * that is joined with it already descends from it. */
static enum kc_err join_parent(struct kc_trace_builder *builder, uint32_t session,
                               const struct kc_trace_key *key)
{
  struct kc_trace_store *const store = builder->store;
  uint32_t parent;
  KC_TRY(find_session(builder, key, &parent));
  if (parent == KC_TRACE_NONE) return KC_OK;
  kc_trace_note_count(builder, KC_NOTE_OWN_PARENT, parent == session);
  if (parent == session) return KC_OK;
  const uint32_t a = kc_store_root(store, parent), b = kc_store_root(store, session);
  if (a == b) {
    return kc_trace_bad_cell(builder, KC_ROLE_PARENT,
                             "this parent continues the row's own chat, so none of the circle "
                             "could have been first; expected a chat that began before this one");
  }
  store->session_root[b] = a;
  store->sessions_joined = true;
  return KC_OK;
}

static enum kc_err store_session(struct kc_trace_builder *builder, uint64_t row, uint32_t session,
                                 const struct kc_trace_raw *raw)
{
  struct kc_trace_store *const store = builder->store;
  if (session == KC_TRACE_NONE) return KC_OK;
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_SESSION));
  builder->trace->column.session[row] = session;
  const bool again = raw->session_once && store->session_arrival_ps[session] != KC_PS_NEVER;
  kc_trace_note_count(builder, KC_NOTE_REPEATED_CHATS, again);
  store->session_arrival_ps[session] = builder->trace->row[row].arrival_ps;
  if (raw->turn != 0) {
    KC_TRY(kc_store_use_column(builder, KC_COLUMN_TURN));
    store->turn[row] = raw->turn;
  }
  return again ? KC_OK : join_parent(builder, session, &raw->parent);
}

static enum kc_err store_order(struct kc_trace_builder *builder, uint64_t row,
                               const struct kc_trace_raw *raw)
{
  struct kc_trace_columns *const column = &builder->trace->column;
  const bool handle = raw->after == KC_AFTER_HANDLE && raw->after_handle != KC_TRACE_DROPPED;
  if (handle || raw->after == KC_AFTER_PREVIOUS) {
    if (builder->rows_seen >= KC_AFTER_ROW_PREVIOUS ||
        (handle && raw->after_handle >= KC_AFTER_ROW_PREVIOUS)) {
      return kc_trace_bad_place(builder, NULL, "a row that waits for another, beyond row "
                                               "4,294,967,293, the ceiling of such traces");
    }
    KC_TRY(kc_store_use_column(builder, KC_COLUMN_AFTER));
    KC_TRY(kc_store_use_column(builder, KC_COLUMN_WAIT));
    builder->store->want_lines = true;
    column->after[row] = handle ? (uint32_t)raw->after_handle : KC_AFTER_ROW_PREVIOUS;
    column->wait_ps[row] = raw->wait_ps;
  }
  if (raw->wait_after_ps != 0) {
    KC_TRY(kc_store_use_column(builder, KC_COLUMN_WAIT_AFTER));
    builder->store->wait_after_ps[row] = raw->wait_after_ps;
  }
  return KC_OK;
}

/* A name that fits its place and the canonical file: no commas, quotes or control bytes. */
static enum kc_err store_kind(struct kc_trace_builder *builder, uint64_t row,
                              const struct kc_trace_raw *raw)
{
  char name[KC_TRACE_KIND_BYTES];
  size_t bytes = raw->kind_bytes;
  const char *text = raw->kind;
  if (text == NULL) return KC_OK;
  while (bytes > 0 && text[0] == ' ') text++, bytes--;
  if (bytes > sizeof name - 1) bytes = sizeof name - 1;
  while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
  if (bytes == 0) return KC_OK;
  for (size_t i = 0; i < bytes; i++) {
    const unsigned char c = (unsigned char)text[i];
    name[i] = c < 0x20 || c == ',' || c == '"' || c == '\\' || c == 0x7f ? '_' : (char)c;
  }
  const uint32_t kind = kc_intern_text_put(&builder->store->kind, name, bytes);
  if (kind == KC_INTERN_FULL) return no_memory(builder, "kinds", builder->store->kind.count);
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_KIND));
  builder->trace->column.kind[row] = kind;
  return KC_OK;
}

/* ---- a row --------------------------------------------------------------------------------- */

/* A request that failed or was stopped. */
static bool apply_outcome(struct kc_trace_builder *builder, const struct kc_trace_raw *raw)
{
  if ((raw->flags & KC_ROW_FAILED) != 0) {
    const bool drop = builder->options->failed == KC_ROW_DROP;
    kc_trace_note_count(builder, drop ? KC_NOTE_FAILED_DROPPED : KC_NOTE_FAILED_KEPT, 1);
    if (drop) return false;
  }
  if ((raw->flags & KC_ROW_CANCELLED) != 0) {
    const bool drop = builder->options->cancelled == KC_ROW_DROP;
    kc_trace_note_count(builder, drop ? KC_NOTE_CANCELLED_DROPPED : KC_NOTE_CANCELLED_KEPT, 1);
    if (drop) return false;
  }
  return true;
}

static enum kc_err fail_zero_output(struct kc_trace_builder *builder, const char *at)
{
  static const char sentence[] =
      "a request that produced nothing; set zero_output to drop such rows or to floor them to 1 "
      "token";
  if (at != NULL) return kc_trace_bad_place(builder, at, sentence);
  if (builder->framing != KC_FRAMING_DOCUMENT && kc_trace_cell(builder, KC_ROLE_OUTPUT) != NULL) {
    return kc_trace_bad_cell(builder, KC_ROLE_OUTPUT, sentence);
  }
  return kc_trace_bad_place(builder, NULL, sentence);
}

static enum kc_err fill_output(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  const uint32_t tokens = builder->options->missing_output_tokens;
  if (tokens == 0) {
    return kc_fail_at(builder->diag, KC_ERR_INPUT, builder->path, builder->line, 0,
                      "no output length in this row, and format %s may lack it; set "
                      "missing_output to the tokens that such requests produce",
                      builder->reader->name);
  }
  raw->output_tokens = tokens;
  kc_trace_note_count(builder, KC_NOTE_MISSING_OUTPUT, 1);
  return KC_OK;
}

/* Zero lengths: a request that produced nothing, or that brings nothing. */
static enum kc_err floor_lengths(struct kc_trace_builder *builder, struct kc_trace_raw *raw,
                                 bool *keep)
{
  if (raw->output_tokens == 0) {
    switch (builder->options->zero_output) {
      case KC_ZERO_OUTPUT_ERROR: return fail_zero_output(builder, raw->output_at);
      case KC_ZERO_OUTPUT_DROP:
        kc_trace_note_count(builder, KC_NOTE_ZERO_OUTPUT_DROPPED, 1);
        *keep = false;
        return KC_OK;
      case KC_ZERO_OUTPUT_FLOOR:
        kc_trace_note_count(builder, KC_NOTE_ZERO_OUTPUT_FLOORED, 1);
        raw->output_tokens = 1;
    }
  }
  if (raw->input_tokens == 0) {
    kc_trace_note_count(builder, KC_NOTE_ZERO_INPUT_FLOORED, 1);
    raw->input_tokens = 1;
  }
  return KC_OK;
}

/* *keep says whether the row stays. */
static inline enum kc_err apply_policies(struct kc_trace_builder *builder,
                                         struct kc_trace_raw *raw, bool lengths_only, bool *keep)
{
  *keep = true;
  if (!lengths_only) {
    *keep = raw->flags == 0 || apply_outcome(builder, raw);
    if (!*keep) return KC_OK;
    if (raw->output_missing) KC_TRY(fill_output(builder, raw));
  }
  if (raw->output_tokens != 0 && raw->input_tokens != 0) return KC_OK;
  return floor_lengths(builder, raw, keep);
}

static enum kc_err fail_span(struct kc_trace_builder *builder)
{
  static const char sentence[] =
      "more than 106 days away from another row, which is as long as a run can be; split the trace";
  if (builder->framing != KC_FRAMING_DOCUMENT && kc_trace_cell(builder, KC_ROLE_ARRIVAL) != NULL) {
    return kc_trace_bad_cell(builder, KC_ROLE_ARRIVAL, sentence);
  }
  return kc_trace_bad_place(builder, NULL, sentence);
}

/* Nearly all rows come within 46 days after the first; the rest in general arithmetic. */
static inline bool minus_base(const struct kc_trace_builder *builder,
                              const struct kc_instant *arrival, kc_ps *at_ps)
{
  enum { NEAR_S = 4000000 };
  const uint64_t after_s = (uint64_t)arrival->seconds - (uint64_t)builder->base.seconds;
  KC_ASSERT(builder->base.fraction_ps == 0);
  if (after_s >= NEAR_S) return kc_instant_minus(arrival, &builder->base, at_ps);
  *at_ps = (kc_ps)after_s * KC_PS_PER_S + arrival->fraction_ps;
  return true;
}

/* The row's time relative to base; keeps the extremes and counts what is out of order. */
static enum kc_err place_row(struct kc_trace_builder *builder, const struct kc_instant *arrival,
                             kc_ps *at_ps)
{
  kc_ps at = 0, span = 0;
  if (builder->trace->count == 0) {
    builder->base = (struct kc_instant){arrival->seconds, 0};
    at = builder->earliest_ps = builder->latest_ps = arrival->fraction_ps;
  } else {
    bool fits = minus_base(builder, arrival, &at);
    if (fits && at < builder->earliest_ps) builder->earliest_ps = at;
    if (fits && at > builder->latest_ps) builder->latest_ps = at;
    fits = fits && !__builtin_sub_overflow(builder->latest_ps, builder->earliest_ps, &span);
    if (!fits || span == KC_PS_NEVER) return fail_span(builder);
    kc_trace_note_count(builder, KC_NOTE_OUT_OF_ORDER, at < builder->previous_ps);
    kc_trace_note_count(builder, KC_NOTE_TIES, at == builder->previous_ps);
  }
  builder->previous_ps = at;
  *at_ps = at;
  return KC_OK;
}

/* A row without a time takes that of the row before it in its session. */
static enum kc_err inherit_arrival(struct kc_trace_builder *builder, uint32_t session, kc_ps *at_ps)
{
  const kc_ps at =
      session == KC_TRACE_NONE ? KC_PS_NEVER : builder->store->session_arrival_ps[session];
  if (at == KC_PS_NEVER) {
    return kc_trace_bad_place(builder, NULL,
                              "no time in this row, and no earlier row of its session to follow; "
                              "the first request of a session needs a time");
  }
  kc_trace_note_count(builder, KC_NOTE_MISSING_ARRIVALS, 1);
  kc_trace_note_count(builder, KC_NOTE_OUT_OF_ORDER, at < builder->previous_ps);
  kc_trace_note_count(builder, KC_NOTE_TIES, at == builder->previous_ps);
  builder->previous_ps = at;
  *at_ps = at;
  return KC_OK;
}

static void add_totals(struct kc_trace *trace, const struct kc_trace_raw *raw)
{
  const uint64_t context = (uint64_t)raw->input_tokens + raw->output_tokens;
  trace->input_tokens += raw->input_tokens;
  trace->output_tokens += raw->output_tokens;
  if (raw->input_tokens > trace->input_tokens_max) trace->input_tokens_max = raw->input_tokens;
  if (raw->output_tokens > trace->output_tokens_max) trace->output_tokens_max = raw->output_tokens;
  if (context > trace->context_tokens_max) trace->context_tokens_max = context;
}

/* What most formats never have, out of the way of those that do not. */
static enum kc_err store_columns(struct kc_trace_builder *builder, uint64_t row, uint32_t session,
                                 const struct kc_trace_raw *raw)
{
  KC_TRY(store_blocks(builder, row, raw->input_tokens));
  KC_TRY(store_session(builder, row, session, raw));
  KC_TRY(store_order(builder, row, raw));
  KC_TRY(store_kind(builder, row, raw));
  if (raw->flags == 0) return KC_OK;
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_FLAGS));
  builder->trace->column.flags[row] = raw->flags;
  return KC_OK;
}

static bool has_columns(const struct kc_trace_builder *builder, const struct kc_trace_raw *raw)
{
  return builder->store->pushed > 0 || raw->session.kind != KC_KEY_NONE || raw->kind != NULL ||
         raw->after != KC_AFTER_NONE || raw->wait_after_ps != 0 || raw->flags != 0;
}

static enum kc_err store_line(struct kc_trace_builder *builder, uint64_t row)
{
  KC_TRY(kc_store_use_column(builder, KC_COLUMN_LINE));
  builder->trace->column.line[row] = kc_trace_here(builder).line;
  return KC_OK;
}

/* Remembers the row just seen as dropped. */
static enum kc_err drop_row(struct kc_trace_builder *builder, const struct kc_trace_raw *raw)
{
  struct kc_trace_store *const store = builder->store;
  store->pushed = 0;
  if (builder->rows_seen >= KC_AFTER_ROW_PREVIOUS) return KC_OK; /* no row may wait up here */
  if (store->dropped_count == store->dropped_capacity) {
    const uint64_t capacity = store->dropped_capacity == 0 ? 256 : store->dropped_capacity * 2;
    struct kc_dropped_row *const larger =
        realloc(store->dropped, (size_t)capacity * sizeof *larger);
    if (larger == NULL) return no_memory(builder, "dropped rows", capacity);
    store->dropped = larger;
    store->dropped_capacity = capacity;
  }
  const bool handle = raw->after == KC_AFTER_HANDLE && raw->after_handle < KC_AFTER_ROW_PREVIOUS;
  store->dropped[store->dropped_count++] = (struct kc_dropped_row){
      (uint32_t)(builder->rows_seen - 1), handle ? (uint32_t)raw->after_handle : KC_TRACE_NONE,
      handle ? kc_trace_here(builder).line : 0};
  return KC_OK;
}

enum kc_err kc_store_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw,
                         uint64_t *handle)
{
  struct kc_trace *const trace = builder->trace;
  const bool plain = builder->reader->lengths_only; /* the rest of raw is zero: not looked at */
  uint32_t session = KC_TRACE_NONE;
  bool keep;
  kc_ps at = 0;
  if (handle != NULL) *handle = builder->rows_seen;
  builder->rows_seen++;
  if (!plain && raw->output_at != NULL) builder->row_at = raw->output_at;
  KC_TRY(apply_policies(builder, raw, plain, &keep));
  if (!keep) {
    if (handle != NULL) {
      *handle = raw->after == KC_AFTER_HANDLE ? raw->after_handle : KC_TRACE_DROPPED;
    }
    return drop_row(builder, raw);
  }
  KC_TRY(reserve_row(builder));
  if (!plain) KC_TRY(find_session(builder, &raw->session, &session));
  KC_TRY(!plain && raw->arrival_missing ? inherit_arrival(builder, session, &at)
                                        : place_row(builder, &raw->arrival, &at));
  const uint64_t row = trace->count;
  trace->row[row] = (struct kc_trace_row){at, raw->input_tokens, raw->output_tokens};
  if (!plain && has_columns(builder, raw)) KC_TRY(store_columns(builder, row, session, raw));
  if (builder->store->want_lines) KC_TRY(store_line(builder, row));
  trace->count++;
  kc_trace_note_count(builder, KC_NOTE_ROUNDED_TIMES, builder->rounded);
  add_totals(trace, raw);
  return KC_OK;
}

enum kc_err kc_trace_emit(struct kc_trace_builder *builder, const struct kc_trace_raw *raw,
                          uint64_t *handle)
{
  struct kc_trace_raw row = *raw;
  return kc_store_row(builder, &row, handle);
}
