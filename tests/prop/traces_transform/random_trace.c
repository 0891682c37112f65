/* Random traces; see random_trace.h. */
#include "random_trace.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "traces/transform/transform.h"

static uint32_t below(struct kc_random *random, uint32_t bound)
{
  return (uint32_t)kc_random_below(random, bound);
}

static void *zeroed(uint64_t count, size_t size)
{
  void *const memory = calloc(count + 1, size);
  assert_non_null(memory);
  return memory;
}

static void add_rows(struct kc_trace *trace, struct kc_random *random,
                     const struct random_shape *shape)
{
  kc_ps arrival = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    trace->row[i].arrival_ps = arrival;
    trace->row[i].input_tokens = 1 + below(random, 2000);
    trace->row[i].output_tokens = 1 + below(random, 500);
    if (below(random, 3) > 0) arrival += shape->tick_ps * (kc_ps)below(random, 5000);
  }
}

/* The last row of each session so far, for links; a new session now and then. */
static void add_sessions(struct kc_trace *trace, struct kc_random *random,
                         const struct random_shape *shape)
{
  uint32_t last[RANDOM_ROWS_MAX];
  struct kc_trace_columns *const column = &trace->column;
  column->session = zeroed(trace->count, sizeof *column->session);
  if (shape->links) {
    column->after = zeroed(trace->count, sizeof *column->after);
    column->wait_ps = zeroed(trace->count, sizeof *column->wait_ps);
  }
  for (uint32_t i = 0; i < trace->count; i++) {
    const bool alone = below(random, 5) == 0;
    const bool fresh = trace->session_count == 0 || below(random, 4) == 0;
    if (shape->links) column->after[i] = KC_TRACE_NONE;
    column->session[i] = alone ? KC_TRACE_NONE
                         : fresh ? trace->session_count++ : below(random, trace->session_count);
    if (alone) continue;
    if (shape->links && !fresh) {
      column->after[i] = last[column->session[i]];
      column->wait_ps[i] = shape->tick_ps * (kc_ps)below(random, 9000);
    }
    last[column->session[i]] = i;
  }
}

static uint32_t blocks_of(const struct kc_trace *trace, uint64_t i)
{
  const uint32_t tokens = trace->row[i].input_tokens;
  const uint32_t partial = tokens % trace->block_tokens != 0 && trace->tail == KC_TAIL_CEIL;
  return tokens / trace->block_tokens + partial;
}

/* A row takes the first ids of an earlier one, then fresh ones. */
static void add_blocks(struct kc_trace *trace, struct kc_random *random,
                       const struct random_shape *shape)
{
  struct kc_trace_columns *const column = &trace->column;
  trace->prefix_ids = true;
  trace->block_tokens = shape->block_tokens;
  trace->tail = shape->tail;
  column->block_first = zeroed(trace->count, sizeof *column->block_first);
  column->block_count = zeroed(trace->count, sizeof *column->block_count);
  for (uint64_t i = 0; i < trace->count; i++) trace->block_total += blocks_of(trace, i);
  trace->block = zeroed(trace->block_total, sizeof *trace->block);
  uint64_t at = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t blocks = blocks_of(trace, i);
    const uint64_t parent = kc_random_below(random, i + 1);
    uint32_t shared = parent == i ? 0 : below(random, column->block_count[parent] + 1);
    if (shared > blocks) shared = blocks;
    column->block_first[i] = at;
    column->block_count[i] = blocks;
    for (uint32_t b = 0; b < blocks; b++) {
      trace->block[at + b] = b < shared ? trace->block[column->block_first[parent] + b]
                                        : trace->block_distinct++;
    }
    at += blocks;
  }
}

static void add_kinds(struct kc_trace *trace, struct kc_random *random)
{
  enum { KINDS = 4 };
  trace->column.kind = zeroed(trace->count, sizeof *trace->column.kind);
  trace->kind_name = zeroed(KINDS, sizeof *trace->kind_name);
  for (uint64_t i = 0; i < trace->count; i++) {
    uint32_t kind = below(random, KINDS + 1);
    if (kind > trace->kind_count) kind = trace->kind_count;
    if (kind == KINDS) kind = KC_TRACE_NONE;
    trace->column.kind[i] = kind;
    if (kind == trace->kind_count) {
      snprintf(trace->kind_name[kind], sizeof trace->kind_name[kind], "model-%u.x", kind + 7);
      trace->kind_count++;
    }
  }
}

void random_trace(struct kc_trace *trace, struct kc_random *random,
                  const struct random_shape *shape)
{
  memset(trace, 0, sizeof *trace);
  trace->count = 1 + below(random, RANDOM_ROWS_MAX);
  trace->row = zeroed(trace->count, sizeof *trace->row);
  snprintf(trace->format, sizeof trace->format, "random");
  add_rows(trace, random, shape);
  if (shape->sessions) add_sessions(trace, random, shape);
  if (shape->blocks) add_blocks(trace, random, shape);
  if (shape->kinds) add_kinds(trace, random);
  if (shape->flags) {
    trace->column.flags = zeroed(trace->count, 1);
    for (uint64_t i = 0; i < trace->count; i++) {
      trace->column.flags[i] = (uint8_t)below(random, 16);
    }
  }
  kc_trace_refresh(trace);
}

/* ---- comparing ---- */

static void same(const char *what, uint64_t row, uint64_t a, uint64_t b, uint64_t seed)
{
  if (a == b) return;
  fail_msg("seed %" PRIu64 ": %s of row %" PRIu64 ": %" PRIu64 " and %" PRIu64, seed, what, row, a,
           b);
}

/* A column that is absent says the same as one that is NONE (or 0) everywhere. */
static uint32_t cell_32(const uint32_t *column, uint64_t i)
{
  return column == NULL ? KC_TRACE_NONE : column[i];
}

static const char *kind_of(const struct kc_trace *trace, uint64_t i)
{
  const uint32_t kind = cell_32(trace->column.kind, i);
  return kind == KC_TRACE_NONE ? "" : trace->kind_name[kind];
}

static uint32_t count_of(const struct kc_trace *trace, uint64_t i)
{
  return trace->column.block_count == NULL ? 0 : trace->column.block_count[i];
}

static void same_row(const struct kc_trace *a, const struct kc_trace *b, uint64_t i, uint64_t seed)
{
  const struct kc_trace_columns *const x = &a->column, *const y = &b->column;
  same("arrival", i, (uint64_t)a->row[i].arrival_ps, (uint64_t)b->row[i].arrival_ps, seed);
  same("input", i, a->row[i].input_tokens, b->row[i].input_tokens, seed);
  same("output", i, a->row[i].output_tokens, b->row[i].output_tokens, seed);
  same("session", i, cell_32(x->session, i), cell_32(y->session, i), seed);
  same("after", i, cell_32(x->after, i), cell_32(y->after, i), seed);
  same("wait", i, x->wait_ps == NULL ? 0 : (uint64_t)x->wait_ps[i],
       y->wait_ps == NULL ? 0 : (uint64_t)y->wait_ps[i], seed);
  same("flags", i, x->flags == NULL ? 0 : x->flags[i], y->flags == NULL ? 0 : y->flags[i], seed);
  if (strcmp(kind_of(a, i), kind_of(b, i)) != 0) {
    fail_msg("seed %" PRIu64 ": kind of row %" PRIu64 ": %s and %s", seed, i, kind_of(a, i),
             kind_of(b, i));
  }
  same("block count", i, count_of(a, i), count_of(b, i), seed);
  for (uint32_t k = 0; k < count_of(a, i); k++) {
    same("block", i, a->block[x->block_first[i] + k], b->block[y->block_first[i] + k], seed);
  }
}

void assert_same_trace(const struct kc_trace *a, const struct kc_trace *b, uint64_t seed)
{
  same("rows", 0, a->count, b->count, seed);
  same("span", 0, (uint64_t)a->span_ps, (uint64_t)b->span_ps, seed);
  same("sessions", 0, a->session_count, b->session_count, seed);
  same("prefix ids", 0, a->prefix_ids, b->prefix_ids, seed);
  same("block tokens", 0, a->block_tokens, b->block_tokens, seed);
  same("distinct blocks", 0, a->block_distinct, b->block_distinct, seed);
  same("tail", 0, (uint64_t)a->tail, (uint64_t)b->tail, seed);
  for (uint64_t i = 0; i < a->count; i++) same_row(a, b, i, seed);
}

bool gather(void *context, const char *text, size_t bytes)
{
  struct gathered *const all = context;
  while (all->bytes + bytes > all->capacity) {
    all->capacity = all->capacity == 0 ? 4096 : 2 * all->capacity;
    all->text = realloc(all->text, all->capacity);
    assert_non_null(all->text);
  }
  memcpy(all->text + all->bytes, text, bytes);
  all->bytes += bytes;
  return true;
}
