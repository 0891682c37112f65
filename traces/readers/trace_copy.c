/* A second trace from one in memory: for those who change what others still read. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/trace.h"

/* One array after another; `failed` sticks. */
struct copying {
  bool failed;
};

/* `count` entries of `size` bytes; NULL stays NULL. */
static void *copy(struct copying *c, const void *from, uint64_t count, size_t size)
{
  KC_ASSERT(size > 0);
  if (from == NULL || c->failed) return NULL;
  void *to = malloc(count > 0 ? count * size : size);
  c->failed = to == NULL;
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

static void copy_columns(struct copying *c, struct kc_trace_columns *to,
                         const struct kc_trace_columns *from, uint64_t count)
{
  KC_ASSERT(to != from);
  to->session = copy(c, from->session, count, sizeof *to->session);
  to->after = copy(c, from->after, count, sizeof *to->after);
  to->wait_ps = copy(c, from->wait_ps, count, sizeof *to->wait_ps);
  to->block_first = copy(c, from->block_first, count, sizeof *to->block_first);
  to->block_count = copy(c, from->block_count, count, sizeof *to->block_count);
  to->kind = copy(c, from->kind, count, sizeof *to->kind);
  to->flags = copy(c, from->flags, count, sizeof *to->flags);
  to->line = copy(c, from->line, count, sizeof *to->line);
  to->file = copy(c, from->file, count, sizeof *to->file);
}

enum kc_err kc_trace_copy(struct kc_trace *trace, const struct kc_trace *from,
                          struct kc_diag *diag)
{
  struct copying c = {0};
  KC_ASSERT(trace != from && from->count > 0);
  *trace = *from;
  trace->row = copy(&c, from->row, from->count, sizeof *trace->row);
  copy_columns(&c, &trace->column, &from->column, from->count);
  trace->block = copy(&c, from->block, from->block_total, sizeof *trace->block);
  trace->kind_name = copy(&c, from->kind_name, from->kind_count, sizeof *trace->kind_name);
  trace->file_names = copy(&c, from->file_names, file_names_bytes(from), 1);
  trace->file_name_at =
      copy(&c, from->file_name_at, from->file_names_count, sizeof *trace->file_name_at);
  if (!c.failed) return KC_OK;
  kc_trace_free(trace);
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for a copy of the trace");
}
