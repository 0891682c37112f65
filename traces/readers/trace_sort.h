/* Stable order by arrival: rows of one instant keep the order of the file. */
#ifndef KC_TRACES_READERS_TRACE_SORT_H
#define KC_TRACES_READERS_TRACE_SORT_H

#include "traces/trace.h"

/* Merge sort; O(n log n) compares, `count` rows of scratch. False when memory runs out: `row` is
 * then unchanged. */
bool kc_trace_sort(struct kc_trace_row *row, uint64_t count);

#endif
