/* What a trace looks like in figures: rates, lengths, their correlation, sessions, reuse.
 *
 * Shared by `trace info`, `trace lint` and `trace synth --like`. All results are integers in small
 * units (milli, parts per million), so that they print and compare the same everywhere. Percentiles
 * are nearest-rank: the smallest value with at least p % of the rows at or below it. */
#ifndef KC_TRACES_TRANSFORM_TRACE_STATS_H
#define KC_TRACES_TRANSFORM_TRACE_STATS_H

#include "traces/trace.h"

/* Nearest-rank percentiles and the mean of some unsigned quantity. All 0 when `count` is 0. */
struct kc_length_stats {
  uint64_t count;
  uint64_t total;
  uint64_t mean_milli; /* rounded half up */
  uint32_t min, p50, p90, p95, p99, max;
};

struct kc_trace_stats {
  /* arrivals */
  uint64_t rows;
  kc_ps span_ps;
  uint64_t rate_micro;      /* mean requests per 10^6 s: rows over span; 0 when the span is 0 */
  uint64_t peak_10s_rows;   /* most arrivals in any [t, t + 10 s); all rows when the span is 0 */
  uint64_t fixed_10s_rows;  /* most arrivals in any [10 k s, 10 k + 10 s), as often published */
  kc_ps gap_mean_ps;        /* between neighbours, rounded half up; 0 for one row */
  kc_ps gap_max_ps;
  uint64_t gap_max_row;     /* row that ends the longest gap */
  uint64_t gap_cv_ppm;      /* standard deviation over mean of the gaps (population) */
  uint64_t tied_rows;       /* rows at the instant of their predecessor */
  uint64_t distinct_arrivals;
  kc_ps tick_ps;            /* greatest common divisor of all arrivals; 0 when all are 0 */

  /* lengths */
  struct kc_length_stats input, output, context; /* context = input + output, cut at 2^32 - 1 */
  int32_t pearson_ppm;      /* of input and output; 0 when one is constant */
  int32_t spearman_ppm;     /* the same of average ranks */
  uint64_t zero_output_rows;

  /* sessions */
  uint64_t session_rows;    /* rows with a session */
  uint32_t sessions;
  struct kc_length_stats turns; /* rows per session */
  uint64_t closed_rows;     /* rows that wait for another one */
  struct kc_length_stats wait_ms; /* of those, rounded down to ms and cut at 2^32 - 1 */
  uint64_t subagents;       /* nested agents: their rows that follow no row of a nested agent */
  uint64_t failed_rows, cancelled_rows, subagent_rows, compacted_rows;

  struct kc_trace_reuse reuse; /* all zero without prefix ids: unknown, not 0 */
};

/* O(n log n); scratch memory of 8 bytes a row. Errors: KC_ERR_MEMORY. */
enum kc_err kc_trace_stats_compute(const struct kc_trace *trace, struct kc_trace_stats *stats,
                                   struct kc_diag *diag);

/* Sorts `value` (ascending) and reads its percentiles, minimum, maximum and mean. */
void kc_length_stats_of(uint32_t *value, uint64_t count, struct kc_length_stats *stats);

/* Nearest-rank percentile of ascending values; count > 0, 0 < per_mille <= 1000. */
uint32_t kc_percentile(const uint32_t *ascending, uint64_t count, unsigned per_mille);

/* Pearson's correlation in parts per million; 0 when a side is constant. */
int32_t kc_pearson_ppm(const uint32_t *x, const uint32_t *y, uint64_t count);

#endif
