/* See text_sink.h. */
#include "text_sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

bool text_sink_write(void *context, const char *text, size_t bytes)
{
  struct text_sink *const sink = context;
  if (sink->bytes + bytes > sink->capacity) {
    sink->capacity = 2 * (sink->bytes + bytes);
    sink->text = realloc(sink->text, sink->capacity);
    assert_non_null(sink->text);
  }
  memcpy(sink->text + sink->bytes, text, bytes);
  sink->bytes += bytes;
  return true;
}

static void assert_same_column(const void *a, const void *b, size_t bytes)
{
  assert_int_equal(a == NULL, b == NULL);
  if (a != NULL) assert_memory_equal(a, b, bytes);
}

void assert_same_trace(const struct kc_trace *a, const struct kc_trace *b)
{
  const struct kc_trace_columns *const x = &a->column;
  const struct kc_trace_columns *const y = &b->column;
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->row, b->row, a->count * sizeof *a->row);
  assert_same_column(x->session, y->session, a->count * sizeof *x->session);
  assert_same_column(x->after, y->after, a->count * sizeof *x->after);
  assert_same_column(x->wait_ps, y->wait_ps, a->count * sizeof *x->wait_ps);
  assert_same_column(x->kind, y->kind, a->count * sizeof *x->kind);
  assert_same_column(x->flags, y->flags, a->count * sizeof *x->flags);
  assert_int_equal(a->prefix_ids, b->prefix_ids);
  assert_int_equal(a->block_total, b->block_total);
  assert_int_equal(a->block_distinct, b->block_distinct);
  assert_int_equal(a->block_tokens, b->block_tokens);
  assert_int_equal(a->tail, b->tail);
  for (uint64_t i = 0; i < a->count && a->prefix_ids; i++) {
    assert_int_equal(x->block_count[i], y->block_count[i]);
    if (x->block_count[i] == 0) continue;
    assert_memory_equal(a->block + x->block_first[i], b->block + y->block_first[i],
                        x->block_count[i] * sizeof *a->block);
  }
  assert_int_equal(a->session_count, b->session_count);
  assert_int_equal(a->kind_count, b->kind_count);
  if (a->kind_count > 0) {
    assert_memory_equal(a->kind_name, b->kind_name, a->kind_count * sizeof *a->kind_name);
  }
  assert_int_equal(a->span_ps, b->span_ps);
  assert_int_equal(a->input_tokens, b->input_tokens);
  assert_int_equal(a->output_tokens, b->output_tokens);
  assert_int_equal(a->context_tokens_max, b->context_tokens_max);
  assert_int_equal(a->note[KC_NOTE_NO_ARRIVALS], b->note[KC_NOTE_NO_ARRIVALS]);
}

void assert_round_trip(const struct kc_trace *trace)
{
  struct text_sink sink = {0}, twice = {0};
  struct kc_trace again;
  struct kc_trace_options options;
  struct kc_diag diag;
  char line[1024];
  kc_trace_options_default(&options);
  assert_int_equal(kc_trace_write(trace, text_sink_write, &sink, &diag), KC_OK);
  if (kc_trace_parse(&again, "again.csv", sink.text, sink.bytes, &options, &diag) != KC_OK) {
    kc_diag_print(&diag, line, sizeof line);
    fail_msg("%s", line);
  }
  assert_string_equal(again.format, "kvcap-trace");
  assert_same_trace(trace, &again);
  assert_int_equal(kc_trace_write(&again, text_sink_write, &twice, &diag), KC_OK);
  assert_int_equal(sink.bytes, twice.bytes);
  assert_memory_equal(sink.text, twice.text, sink.bytes);
  kc_trace_free(&again);
  free(sink.text);
  free(twice.text);
}
