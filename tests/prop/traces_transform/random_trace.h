/* Random traces with any choice of columns, for the transform properties. */
#ifndef KC_TESTS_RANDOM_TRACE_H
#define KC_TESTS_RANDOM_TRACE_H

#include "engine/base/random.h"
#include "traces/trace.h"

enum { RANDOM_ROWS_MAX = 120 };

/* What a trace of the kind may have; arrivals are multiples of `tick_ps`. */
struct random_shape {
  kc_ps tick_ps;
  bool sessions, links, blocks, kinds, flags;
  uint32_t block_tokens;
  enum kc_tail_rule tail;
};

/* 1 .. RANDOM_ROWS_MAX rows; ids are chained (equal ids have an equal past) and numbered by first
 * appearance, as are sessions and kinds. The caller frees it. */
void random_trace(struct kc_trace *trace, struct kc_random *random,
                  const struct random_shape *shape);

/* Fails the test, naming `seed`, unless rows and all columns are equal. */
void assert_same_trace(const struct kc_trace *a, const struct kc_trace *b, uint64_t seed);

/* Text that a writer hands over piece by piece; kc_trace_write_text. */
struct gathered {
  char *text;
  size_t bytes, capacity;
};
bool gather(void *context, const char *text, size_t bytes);

#endif
