/* A trace written into memory, and two traces compared: shared by the round-trip tests. */
#ifndef KC_TESTS_TEXT_SINK_H
#define KC_TESTS_TEXT_SINK_H

#include "traces/trace.h"

struct text_sink {
  char *text; /* heap */
  size_t bytes, capacity;
};

/* kc_trace_write_text into a struct text_sink. */
bool text_sink_write(void *context, const char *text, size_t bytes);

/* Asserts equal rows, columns, ids, kinds and totals. */
void assert_same_trace(const struct kc_trace *a, const struct kc_trace *b);

/* Writes the trace, reads it again, compares, writes that and compares the bytes. */
void assert_round_trip(const struct kc_trace *trace);

#endif
