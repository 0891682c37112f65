/* Figures of a trace, in two passes over its rows and one sort of each length.
 *
 *   row[]      ->  arrivals (gaps, ties, tick, 10 s window)
 *   input[]  sorted copy -> percentiles -> rank of each row -> Spearman
 *   output[] sorted copy -> percentiles -> ...
 *
 * Lengths are small numbers, so many rows are sorted by counting and ranked by a table of 2^20
 * entries at most; longer lengths go by qsort and binary search.
 *
 * Sums are exact in 128 bits: the sum of squared gaps is at most the square of the span, below
 * 2^126; the sum of 10^8 squared 32-bit lengths is below 2^91. Only the last step of a correlation
 * or a coefficient of variation is in floating point, and it uses nothing but + - * / and sqrt,
 * which IEEE 754 rounds correctly, so it is the same everywhere. */
#include "traces/transform/trace_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { PPM = 1000000, TABLE_VALUES_MAX = 1 << 20, COUNTED_ROWS_MIN = 4096 };

/* ---- percentiles ---- */

static int compare_u32(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static uint32_t largest(const uint32_t *value, uint64_t count)
{
  uint32_t most = 0;
  for (uint64_t i = 0; i < count; i++) most = value[i] > most ? value[i] : most;
  return most;
}

/* Sorts by counting each value; false when the values are too large or memory is short. */
static bool sort_by_counting(uint32_t *value, uint64_t count)
{
  const uint32_t most = largest(value, count);
  if (count < COUNTED_ROWS_MIN || most >= TABLE_VALUES_MAX) return false;
  uint64_t *const rows = calloc((size_t)most + 1, sizeof *rows);
  if (rows == NULL) return false;
  for (uint64_t i = 0; i < count; i++) rows[value[i]]++;
  uint64_t at = 0;
  for (uint32_t v = 0; v <= most; v++) {
    for (uint64_t left = rows[v]; left > 0; left--) value[at++] = v;
  }
  free(rows);
  KC_ASSERT(at == count);
  return true;
}

uint32_t kc_percentile(const uint32_t *ascending, uint64_t count, unsigned per_mille)
{
  KC_ASSERT(count > 0);
  KC_ASSERT(per_mille > 0 && per_mille <= 1000);
  const uint64_t rank = (uint64_t)(((kc_u128)count * per_mille + 999) / 1000); /* 1-based, up */
  return ascending[rank - 1];
}

void kc_length_stats_of(uint32_t *value, uint64_t count, struct kc_length_stats *stats)
{
  KC_ASSERT(value != NULL || count == 0);
  KC_ASSERT(stats != NULL);
  memset(stats, 0, sizeof *stats);
  if (count == 0) return;
  if (!sort_by_counting(value, count)) qsort(value, count, sizeof *value, compare_u32);
  for (uint64_t i = 0; i < count; i++) stats->total += value[i];
  stats->count = count;
  stats->mean_milli = kc_muldiv_round(stats->total, 1000, count);
  stats->min = value[0];
  stats->p50 = kc_percentile(value, count, 500);
  stats->p90 = kc_percentile(value, count, 900);
  stats->p95 = kc_percentile(value, count, 950);
  stats->p99 = kc_percentile(value, count, 990);
  stats->max = value[count - 1];
}

/* ---- correlation ---- */

struct sums {
  uint64_t count;
  kc_u128 x, y, xx, yy, xy;
};

static void add_pair(struct sums *sums, uint64_t x, uint64_t y)
{
  sums->count++;
  sums->x += x;
  sums->y += y;
  sums->xx += (kc_u128)x * x;
  sums->yy += (kc_u128)y * y;
  sums->xy += (kc_u128)x * y;
}

/* (n Sxy - Sx Sy) / sqrt((n Sxx - Sx^2) (n Syy - Sy^2)); every term below 2^127 for n <= 2^27. */
static int32_t correlation_ppm(const struct sums *sums)
{
  const kc_u128 n = sums->count;
  const kc_u128 variance_x = n * sums->xx - sums->x * sums->x;
  const kc_u128 variance_y = n * sums->yy - sums->y * sums->y;
  if (variance_x == 0 || variance_y == 0) return 0;
  const kc_i128 covariance = (kc_i128)(n * sums->xy) - (kc_i128)(sums->x * sums->y);
  const double r = (double)covariance / (sqrt((double)variance_x) * sqrt((double)variance_y));
  KC_ASSERT(r > -1.001 && r < 1.001);
  const double bounded = r > 1.0 ? 1.0 : r < -1.0 ? -1.0 : r;
  return (int32_t)floor(bounded * PPM + 0.5);
}

int32_t kc_pearson_ppm(const uint32_t *x, const uint32_t *y, uint64_t count)
{
  struct sums sums = {0};
  KC_ASSERT((x != NULL && y != NULL) || count == 0);
  for (uint64_t i = 0; i < count; i++) add_pair(&sums, x[i], y[i]);
  KC_ASSERT(sums.count == count);
  return correlation_ppm(&sums);
}

/* Entries below `value` (or at most `value`) of an ascending array. */
static uint64_t count_below(const uint32_t *ascending, uint64_t count, uint32_t value,
                            bool or_equal)
{
  uint64_t low = 0, high = count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (ascending[middle] < value || (or_equal && ascending[middle] == value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Twice the average 1-based rank: ties at sorted places [low, high) share (low + 1 + high) / 2. */
static uint64_t twice_rank(const uint32_t *ascending, uint64_t count, uint32_t value)
{
  return count_below(ascending, count, value, false) + 1 +
         count_below(ascending, count, value, true);
}

/* What twice_rank says of each value up to the largest; NULL when that is too large, or memory is
 * short, or there are too few rows for it to pay. */
static uint64_t *rank_table(const uint32_t *ascending, uint64_t count)
{
  const uint32_t most = ascending[count - 1];
  if (count < COUNTED_ROWS_MIN || most >= TABLE_VALUES_MAX) return NULL;
  uint64_t *const twice = calloc((size_t)most + 1, sizeof *twice);
  for (uint64_t first = 0, end; twice != NULL && first < count; first = end) {
    for (end = first + 1; end < count && ascending[end] == ascending[first];) end++;
    twice[ascending[first]] = first + 1 + end;
  }
  return twice;
}

static void correlate(const struct kc_trace *trace, const uint32_t *inputs, const uint32_t *outputs,
                      struct kc_trace_stats *stats)
{
  struct sums plain = {0}, ranks = {0};
  const uint64_t count = trace->count;
  KC_ASSERT(count > 0);
  uint64_t *const x_rank = rank_table(inputs, count), *const y_rank = rank_table(outputs, count);
  for (uint64_t i = 0; i < count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    add_pair(&plain, row->input_tokens, row->output_tokens);
    add_pair(&ranks,
             x_rank != NULL ? x_rank[row->input_tokens]
                            : twice_rank(inputs, count, row->input_tokens),
             y_rank != NULL ? y_rank[row->output_tokens]
                            : twice_rank(outputs, count, row->output_tokens));
  }
  free(x_rank);
  free(y_rank);
  KC_ASSERT(ranks.x == ranks.y); /* n (n + 1), ties or not */
  stats->pearson_ppm = correlation_ppm(&plain);
  stats->spearman_ppm = correlation_ppm(&ranks);
}

/* ---- arrivals ---- */

static kc_ps common_divisor(kc_ps a, kc_ps b)
{
  KC_ASSERT(a >= 0 && b >= 0);
  while (b != 0) {
    const kc_ps rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Most arrivals in a window of 10 s that starts with an arrival; no other start sees more. */
static uint64_t peak_rows(const struct kc_trace *trace)
{
  uint64_t first = 0, most = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    while (trace->row[i].arrival_ps - trace->row[first].arrival_ps >= 10 * KC_PS_PER_S) first++;
    if (i - first + 1 > most) most = i - first + 1;
  }
  KC_ASSERT(most >= 1 && most <= trace->count);
  return most;
}

/* The same for windows that start at multiples of 10 s. */
static uint64_t fixed_peak_rows(const struct kc_trace *trace)
{
  uint64_t rows = 0, most = 0;
  kc_ps window = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    const kc_ps own = trace->row[i].arrival_ps / (10 * KC_PS_PER_S);
    if (own != window) rows = 0;
    window = own;
    if (++rows > most) most = rows;
  }
  KC_ASSERT(most >= 1 && most <= trace->count);
  return most;
}

static uint64_t variation_ppm(kc_u128 squares, kc_ps span, uint64_t gaps)
{
  KC_ASSERT(span > 0 && gaps > 0);
  const double mean_of_squares = (double)squares / (double)gaps;
  const double mean = (double)span / (double)gaps;
  const double excess = mean_of_squares / (mean * mean) - 1.0;
  return excess <= 0 ? 0 : (uint64_t)floor(sqrt(excess) * PPM + 0.5);
}

static void measure_arrivals(const struct kc_trace *trace, struct kc_trace_stats *stats)
{
  kc_u128 squares = 0;
  for (uint64_t i = 1; i < trace->count; i++) {
    const kc_ps gap = trace->row[i].arrival_ps - trace->row[i - 1].arrival_ps;
    KC_ASSERT(gap >= 0);
    squares += (kc_u128)gap * (kc_u128)gap;
    stats->tied_rows += gap == 0;
    if (stats->tick_ps != 1) {
      stats->tick_ps = common_divisor(trace->row[i].arrival_ps, stats->tick_ps);
    }
    if (gap > stats->gap_max_ps) {
      stats->gap_max_ps = gap;
      stats->gap_max_row = i;
    }
  }
  const uint64_t gaps = trace->count - 1;
  const kc_ps span = trace->row[gaps].arrival_ps - trace->row[0].arrival_ps;
  stats->span_ps = span;
  stats->distinct_arrivals = trace->count - stats->tied_rows;
  stats->peak_10s_rows = peak_rows(trace);
  stats->fixed_10s_rows = fixed_peak_rows(trace);
  KC_ASSERT(stats->fixed_10s_rows <= stats->peak_10s_rows);
  if (span == 0) return;
  const kc_u128 micro = (kc_u128)trace->count * 1000000 * (kc_u128)KC_PS_PER_S;
  const uint64_t divisor = (uint64_t)span;
  const kc_u128 rate = (micro + divisor / 2) / divisor;
  stats->rate_micro = rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
  stats->gap_mean_ps = (kc_ps)kc_muldiv_round((uint64_t)span, 1, gaps);
  stats->gap_cv_ppm = variation_ppm(squares, span, gaps);
}

/* ---- lengths ---- */

static uint32_t context_of(const struct kc_trace_row *row)
{
  const uint64_t context = (uint64_t)row->input_tokens + row->output_tokens;
  return context > UINT32_MAX ? UINT32_MAX : (uint32_t)context;
}

/* `scratch` has room for two lengths a row. */
static void measure_lengths(const struct kc_trace *trace, uint32_t *scratch,
                            struct kc_trace_stats *stats)
{
  uint32_t *const inputs = scratch, *const outputs = scratch + trace->count;
  for (uint64_t i = 0; i < trace->count; i++) inputs[i] = context_of(&trace->row[i]);
  kc_length_stats_of(inputs, trace->count, &stats->context);
  for (uint64_t i = 0; i < trace->count; i++) {
    inputs[i] = trace->row[i].input_tokens;
    outputs[i] = trace->row[i].output_tokens;
    stats->zero_output_rows += outputs[i] == 0;
  }
  kc_length_stats_of(inputs, trace->count, &stats->input);
  kc_length_stats_of(outputs, trace->count, &stats->output);
  KC_ASSERT(stats->input.count == trace->count);
  correlate(trace, inputs, outputs, stats);
}

/* ---- sessions ---- */

/* The first request of a nested agent follows the request that called it, or none. */
static bool starts_subagent(const struct kc_trace *trace, uint64_t i)
{
  const uint32_t *const after = trace->column.after;
  const uint8_t *const flags = trace->column.flags;
  KC_ASSERT(flags != NULL && i < trace->count);
  if ((flags[i] & KC_ROW_SUBAGENT) == 0) return false;
  if (after == NULL || after[i] == KC_TRACE_NONE) return true;
  return (flags[after[i]] & KC_ROW_SUBAGENT) == 0;
}

static void measure_flags(const struct kc_trace *trace, struct kc_trace_stats *stats)
{
  const uint8_t *const flags = trace->column.flags;
  if (flags == NULL) return;
  for (uint64_t i = 0; i < trace->count; i++) {
    stats->failed_rows += (flags[i] & KC_ROW_FAILED) != 0;
    stats->cancelled_rows += (flags[i] & KC_ROW_CANCELLED) != 0;
    stats->subagent_rows += (flags[i] & KC_ROW_SUBAGENT) != 0;
    stats->compacted_rows += (flags[i] & KC_ROW_COMPACTED) != 0;
    stats->subagents += starts_subagent(trace, i);
  }
}

static void measure_waits(const struct kc_trace *trace, uint32_t *scratch,
                          struct kc_trace_stats *stats)
{
  const struct kc_trace_columns *const column = &trace->column;
  if (column->after == NULL) return;
  for (uint64_t i = 0; i < trace->count; i++) {
    if (column->after[i] == KC_TRACE_NONE) continue;
    const kc_ps wait = column->wait_ps == NULL ? 0 : column->wait_ps[i] / KC_PS_PER_MS;
    KC_ASSERT(wait >= 0);
    scratch[stats->closed_rows++] = wait > (kc_ps)UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
  }
  kc_length_stats_of(scratch, stats->closed_rows, &stats->wait_ms);
}

/* Rows of each session in `scratch`, which has room: there are no more sessions than rows. Sessions
 * that lost all their rows to a filter do not count. */
static void measure_sessions(const struct kc_trace *trace, uint32_t *scratch,
                             struct kc_trace_stats *stats)
{
  const uint32_t *const session = trace->column.session;
  if (session == NULL || trace->session_count == 0) return;
  KC_ASSERT(trace->session_count <= trace->count);
  memset(scratch, 0, trace->session_count * sizeof *scratch);
  for (uint64_t i = 0; i < trace->count; i++) {
    if (session[i] == KC_TRACE_NONE) continue;
    KC_ASSERT(session[i] < trace->session_count);
    scratch[session[i]]++;
    stats->session_rows++;
  }
  for (uint32_t s = 0; s < trace->session_count; s++) {
    if (scratch[s] > 0) scratch[stats->sessions++] = scratch[s];
  }
  kc_length_stats_of(scratch, stats->sessions, &stats->turns);
}

enum kc_err kc_trace_stats_compute(const struct kc_trace *trace, struct kc_trace_stats *stats,
                                   struct kc_diag *diag)
{
  KC_ASSERT(trace != NULL && trace->count > 0);
  KC_ASSERT(stats != NULL);
  memset(stats, 0, sizeof *stats);
  uint32_t *const scratch = calloc(trace->count, 2 * sizeof *scratch);
  if (scratch == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "out of memory: the figures of a trace of %llu rows",
                   (unsigned long long)trace->count);
  }
  stats->rows = trace->count;
  measure_arrivals(trace, stats);
  measure_lengths(trace, scratch, stats);
  measure_flags(trace, stats);
  measure_waits(trace, scratch, stats);
  measure_sessions(trace, scratch, stats);
  free(scratch);
  return kc_trace_reuse(trace, &stats->reuse, diag);
}
