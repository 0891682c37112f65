/* A second trace from one in memory: for those who change what others still read. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/trace.h"

/* `count` entries of `size` bytes; NULL stays NULL. One array after another: *failed sticks. */
static void *copy(bool *failed, const void *from, uint64_t count, size_t size)
{
  KC_ASSERT(size > 0);
  if (from == NULL || *failed) return NULL;
  void *to = malloc(count > 0 ? count * size : size);
  *failed = to == NULL;
  if (to != NULL && count > 0) memcpy(to, from, count * size);
  return to;
}

static uint64_t file_names_bytes(const struct kc_trace *trace)
{
  if (trace->file_names_count == 0) return 0;
  const uint64_t last = trace->file_name_at[trace->file_names_count - 1];
  KC_ASSERT(trace->file_names != NULL);
  return last + strlen(trace->file_names + last) + 1;
}

static void copy_columns(bool *failed, struct kc_trace_columns *to,
                         const struct kc_trace_columns *from, uint64_t count)
{
  KC_ASSERT(to != from);
  to->session = copy(failed, from->session, count, sizeof *to->session);
  to->after = copy(failed, from->after, count, sizeof *to->after);
  to->wait_ps = copy(failed, from->wait_ps, count, sizeof *to->wait_ps);
  to->block_first = copy(failed, from->block_first, count, sizeof *to->block_first);
  to->block_count = copy(failed, from->block_count, count, sizeof *to->block_count);
  to->kind = copy(failed, from->kind, count, sizeof *to->kind);
  to->flags = copy(failed, from->flags, count, sizeof *to->flags);
  to->line = copy(failed, from->line, count, sizeof *to->line);
  to->file = copy(failed, from->file, count, sizeof *to->file);
}

enum kc_err kc_trace_copy(struct kc_trace *trace, const struct kc_trace *from,
                          struct kc_diag *diag)
{
  bool failed = false;
  KC_ASSERT(trace != from && from->count > 0);
  *trace = *from;
  trace->row = copy(&failed, from->row, from->count, sizeof *trace->row);
  copy_columns(&failed, &trace->column, &from->column, from->count);
  trace->block = copy(&failed, from->block, from->block_total, sizeof *trace->block);
  trace->kind_name = copy(&failed, from->kind_name, from->kind_count, sizeof *trace->kind_name);
  trace->file_names = copy(&failed, from->file_names, file_names_bytes(from), 1);
  trace->file_name_at =
      copy(&failed, from->file_name_at, from->file_names_count, sizeof *trace->file_name_at);
  if (!failed) return KC_OK;
  kc_trace_free(trace);
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for a copy of the trace");
}
