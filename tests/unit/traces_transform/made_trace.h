/* Traces made by hand for the transform tests: lengths and seconds, columns on demand. */
#ifndef KC_TESTS_MADE_TRACE_H
#define KC_TESTS_MADE_TRACE_H

#include "traces/trace.h"

struct made_row {
  double second; /* arrival; exact in milliseconds */
  uint32_t input, output;
};

/* A trace of `count` rows without columns; the caller frees it. */
void make_trace(struct kc_trace *trace, const struct made_row *row, uint64_t count);

/* Columns, copied; each has one value a row. */
void make_sessions(struct kc_trace *trace, const uint32_t *session, uint32_t session_count);
void make_links(struct kc_trace *trace, const uint32_t *after, const double *wait_seconds);
void make_flags(struct kc_trace *trace, const uint8_t *flags);
void make_kinds(struct kc_trace *trace, const uint32_t *kind, uint32_t kind_count);
/* Ids of all rows one after the other, count[i] each; distinct ids are 0 .. distinct - 1. */
void make_blocks(struct kc_trace *trace, const uint32_t *id, const uint32_t *count,
                 uint32_t distinct, uint32_t block_tokens, enum kc_tail_rule tail);

/* Fails the test unless the row's arrival is this, to the picosecond. */
void assert_arrival(const struct kc_trace *trace, uint64_t index, kc_ps arrival_ps);

#endif
