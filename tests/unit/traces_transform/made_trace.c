/* Helpers of the transform tests; see made_trace.h. */
#include "made_trace.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "traces/transform/transform.h"

static void *copy_of(const void *data, size_t bytes)
{
  void *const copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, data, bytes);
  return copy;
}

void make_trace(struct kc_trace *trace, const struct made_row *row, uint64_t count)
{
  memset(trace, 0, sizeof *trace);
  trace->row = calloc(count, sizeof *trace->row);
  assert_non_null(trace->row);
  trace->count = count;
  snprintf(trace->path, sizeof trace->path, "made");
  snprintf(trace->format, sizeof trace->format, "made");
  for (uint64_t i = 0; i < count; i++) {
    trace->row[i].arrival_ps = (kc_ps)(row[i].second * 1000 + 0.5) * KC_PS_PER_MS;
    trace->row[i].input_tokens = row[i].input;
    trace->row[i].output_tokens = row[i].output;
  }
  kc_trace_refresh(trace);
}

void make_sessions(struct kc_trace *trace, const uint32_t *session, uint32_t session_count)
{
  trace->column.session = copy_of(session, trace->count * sizeof *session);
  trace->session_count = session_count;
}

void make_links(struct kc_trace *trace, const uint32_t *after, const double *wait_seconds)
{
  trace->column.after = copy_of(after, trace->count * sizeof *after);
  trace->column.wait_ps = calloc(trace->count, sizeof *trace->column.wait_ps);
  assert_non_null(trace->column.wait_ps);
  for (uint64_t i = 0; i < trace->count; i++) {
    trace->column.wait_ps[i] = (kc_ps)(wait_seconds[i] * 1000 + 0.5) * KC_PS_PER_MS;
  }
}

void make_flags(struct kc_trace *trace, const uint8_t *flags)
{
  trace->column.flags = copy_of(flags, trace->count);
}

void make_kinds(struct kc_trace *trace, const uint32_t *kind, uint32_t kind_count)
{
  trace->column.kind = copy_of(kind, trace->count * sizeof *kind);
  trace->kind_name = calloc(kind_count, sizeof *trace->kind_name);
  assert_non_null(trace->kind_name);
  trace->kind_count = kind_count;
  for (uint32_t k = 0; k < kind_count; k++) {
    snprintf(trace->kind_name[k], sizeof trace->kind_name[k], "secret-%u", k);
  }
}

void make_blocks(struct kc_trace *trace, const uint32_t *id, const uint32_t *count,
                 uint32_t distinct, uint32_t block_tokens, enum kc_tail_rule tail)
{
  uint64_t total = 0;
  trace->column.block_count = copy_of(count, trace->count * sizeof *count);
  trace->column.block_first = calloc(trace->count, sizeof *trace->column.block_first);
  assert_non_null(trace->column.block_first);
  for (uint64_t i = 0; i < trace->count; i++) {
    trace->column.block_first[i] = total;
    total += count[i];
  }
  trace->block = copy_of(id, total * sizeof *id);
  trace->block_total = total;
  trace->block_distinct = distinct;
  trace->block_tokens = block_tokens;
  trace->tail = tail;
  trace->prefix_ids = true;
}

void assert_arrival(const struct kc_trace *trace, uint64_t index, kc_ps arrival_ps)
{
  assert_true(index < trace->count);
  if (trace->row[index].arrival_ps == arrival_ps) return;
  fail_msg("row %" PRIu64 " arrives at %" PRId64 " ps; expected %" PRId64, index,
           trace->row[index].arrival_ps, arrival_ps);
}
