/* Figures of traces: worked out by hand on small ones, and as published or counted by other
 * means on public traces, where they are at hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "made_trace.h"
#include "traces/transform/trace_stats.h"

#define S KC_PS_PER_S
#define NONE KC_TRACE_NONE

static void stats_ok(const struct kc_trace *trace, struct kc_trace_stats *stats)
{
  struct kc_diag diag;
  if (kc_trace_stats_compute(trace, stats, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void percentiles_are_nearest_rank(void **state)
{
  (void)state;
  static const uint32_t five[] = {15, 20, 35, 40, 50};
  assert_int_equal(kc_percentile(five, 5, 50), 15);   /* rank ceil(0.25) */
  assert_int_equal(kc_percentile(five, 5, 300), 20);  /* rank ceil(1.5) = 2 */
  assert_int_equal(kc_percentile(five, 5, 400), 20);  /* rank 2 exactly */
  assert_int_equal(kc_percentile(five, 5, 500), 35);
  assert_int_equal(kc_percentile(five, 5, 1000), 50);
  uint32_t mixed[] = {40, 15, 50, 35, 20};
  struct kc_length_stats stats;
  kc_length_stats_of(mixed, 5, &stats);
  assert_int_equal(stats.total, 160);
  assert_int_equal(stats.mean_milli, 32000);
  assert_int_equal(stats.min, 15);
  assert_int_equal(stats.p90, 50);
  kc_length_stats_of(mixed, 0, &stats);
  assert_int_equal(stats.max, 0);
}

/* x = 1 .. 5, y = 2 4 5 4 5: covariance 6, variances 10 and 6, r = 6 / sqrt(60) = 0.774597; ranks
 * of y are 1, 2.5, 4.5, 2.5, 4.5: 7 / sqrt(90) = 0.737865. */
static void correlations(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 2}, {1, 2, 4}, {2, 3, 5}, {3, 4, 4}, {4, 5, 5}};
  static const uint32_t up[] = {1, 2, 3}, down[] = {9, 8, 7}, flat[] = {4, 4, 4};
  struct kc_trace trace;
  struct kc_trace_stats stats;
  make_trace(&trace, row, 5);
  stats_ok(&trace, &stats);
  assert_int_equal(stats.pearson_ppm, 774597);
  assert_int_equal(stats.spearman_ppm, 737865);
  assert_int_equal(kc_pearson_ppm(up, up, 3), 1000000);
  assert_int_equal(kc_pearson_ppm(up, down, 3), -1000000);
  assert_int_equal(kc_pearson_ppm(up, flat, 3), 0);
  kc_trace_free(&trace);
}

enum { MANY = 5000 }; /* enough to be counted */

/* Twice the average rank, by looking at every other row. */
static double naive_rank(const struct made_row *row, bool output, uint32_t i)
{
  const uint32_t own = output ? row[i].output : row[i].input;
  double twice = 1;
  for (uint32_t k = 0; k < MANY; k++) {
    const uint32_t other = output ? row[k].output : row[k].input;
    twice += 2 * (other < own) + (other == own);
  }
  return twice;
}

static double naive_spearman(const struct made_row *row)
{
  static double x[MANY], y[MANY];
  double xx = 0, yy = 0, xy = 0;
  for (uint32_t i = 0; i < MANY; i++) { /* the mean of the ranks is MANY + 1, twice counted */
    x[i] = naive_rank(row, false, i) - (MANY + 1);
    y[i] = naive_rank(row, true, i) - (MANY + 1);
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    xy += x[i] * y[i];
  }
  return xy / sqrt(xx * yy);
}

/* How many rows have an input of at most this. */
static uint32_t rows_up_to(const struct made_row *row, uint32_t tokens)
{
  uint32_t rows = 0;
  for (uint32_t i = 0; i < MANY; i++) rows += row[i].input <= tokens;
  return rows;
}

/* Many rows are sorted by counting and ranked by a table; one length of a million tokens or more
 * sends them the other way. Both against the definitions. */
static void many_rows(void **state)
{
  (void)state;
  static struct made_row row[MANY];
  const uint32_t longest[] = {700, (1 << 20) - 1, 1 << 20, UINT32_MAX - 1};
  uint32_t draw = 1;
  for (uint32_t i = 0; i < MANY; i++) {
    draw = draw * 1664525 + 1013904223; /* Numerical Recipes */
    row[i] = (struct made_row){i, 1 + (draw >> 16) % 700, 1};
    row[i].output = 1 + (row[i].input / 4 + (draw >> 8) % 200) % 300;
  }
  for (size_t c = 0; c < sizeof longest / sizeof longest[0]; c++) {
    struct kc_trace trace;
    struct kc_trace_stats stats;
    row[77].input = longest[c];
    make_trace(&trace, row, MANY);
    stats_ok(&trace, &stats);
    const double off = stats.spearman_ppm - 1e6 * naive_spearman(row);
    if (off < -1 || off > 1) fail_msg("longest %u: Spearman is %g ppm off", longest[c], off);
    assert_int_equal(stats.input.max, longest[c]);
    assert_true(rows_up_to(row, stats.input.p90) >= MANY * 9 / 10);
    assert_true(rows_up_to(row, stats.input.p90 - 1) < MANY * 9 / 10);
    assert_true(rows_up_to(row, stats.input.p50) >= MANY / 2);
    assert_true(rows_up_to(row, stats.input.p50 - 1) < MANY / 2);
    kc_trace_free(&trace);
  }
}

/* Gaps 1, 0, 3, 8 s: mean 3, variance (1 + 0 + 9 + 64) / 4 - 9 = 9.5, cv = sqrt(9.5) / 3. */
static void arrivals(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {1, 1, 1}, {1, 1, 1}, {4, 1, 1}, {12, 1, 1}};
  struct kc_trace trace;
  struct kc_trace_stats stats;
  make_trace(&trace, row, 5);
  stats_ok(&trace, &stats);
  assert_int_equal(stats.span_ps, 12 * S);
  assert_int_equal(stats.rate_micro, 416667); /* 5 / 12 */
  assert_int_equal(stats.gap_mean_ps, 3 * S);
  assert_int_equal(stats.gap_max_ps, 8 * S);
  assert_int_equal(stats.gap_max_row, 4);
  assert_int_equal(stats.gap_cv_ppm, 1027402);
  assert_int_equal(stats.tied_rows, 1);
  assert_int_equal(stats.distinct_arrivals, 4);
  assert_int_equal(stats.tick_ps, 1 * S);
  assert_int_equal(stats.peak_10s_rows, 4); /* 0 .. 4; 12 is 11 s after 1 */
  kc_trace_free(&trace);
}

static void window_of_10_s_is_half_open(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {5, 1, 1}, {10, 1, 1}};
  struct kc_trace trace;
  struct kc_trace_stats stats;
  make_trace(&trace, row, 3);
  stats_ok(&trace, &stats);
  assert_int_equal(stats.peak_10s_rows, 2);
  assert_int_equal(stats.fixed_10s_rows, 2); /* 0 and 5 */
  kc_trace_free(&trace);
}

static void one_row(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 7, 0}};
  struct kc_trace trace;
  struct kc_trace_stats stats;
  make_trace(&trace, row, 1);
  stats_ok(&trace, &stats);
  assert_int_equal(stats.rate_micro, 0);
  assert_int_equal(stats.peak_10s_rows, 1);
  assert_int_equal(stats.pearson_ppm, 0);
  assert_int_equal(stats.zero_output_rows, 1);
  kc_trace_free(&trace);
}

static void sessions(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}, {3, 1, 1}};
  static const uint32_t session[] = {0, 1, NONE, 0}, after[] = {NONE, NONE, NONE, 0};
  static const double wait[] = {0, 0, 0, 1.5};
  static const uint8_t flags[] = {KC_ROW_FAILED, KC_ROW_SUBAGENT, 0, KC_ROW_FAILED};
  struct kc_trace trace;
  struct kc_trace_stats stats;
  make_trace(&trace, row, 4);
  make_sessions(&trace, session, 2);
  make_links(&trace, after, wait);
  make_flags(&trace, flags);
  stats_ok(&trace, &stats);
  assert_int_equal(stats.sessions, 2);
  assert_int_equal(stats.session_rows, 3);
  assert_int_equal(stats.turns.max, 2);
  assert_int_equal(stats.turns.mean_milli, 1500);
  assert_int_equal(stats.closed_rows, 1);
  assert_int_equal(stats.wait_ms.max, 1500);
  assert_int_equal(stats.failed_rows, 2);
  assert_int_equal(stats.subagent_rows, 1);
  kc_trace_free(&trace);
}

/* ---- the public traces ---- */

struct published {
  const char *name;
  uint64_t rows, output_tokens, rate_micro, fixed_10s_rows, peak_10s_rows;
  kc_ps gap_max_ps; /* to a tenth of a second */
};

/* Loads $KVCAP_SHARED/traces/NAME and computes its figures; skips without it. Rows without output
 * count as one token. */
static void load_public(const char *name, struct kc_trace *trace, struct kc_trace_stats *stats)
{
  char path[512];
  struct kc_trace_options options;
  struct kc_diag diag;
  if (getenv("KVCAP_SHARED") == NULL) skip();
  snprintf(path, sizeof path, "%s/traces/%s", getenv("KVCAP_SHARED"), name);
  if (access(path, R_OK) != 0) skip();
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  if (kc_trace_load(trace, path, &options, &diag) != KC_OK) fail_msg("%s", diag.text);
  stats_ok(trace, stats);
}

static void public_azure(void **state)
{
  (void)state;
  static const struct published table[] = {
      {"azure2023/AzureLLMInferenceTrace_code.csv", 8819, 245896, 2570000, 327, 415,
       2170 * (S / 10)},
      {"azure2023/AzureLLMInferenceTrace_conv.csv", 19366, 4088665, 5530000, 98, 112,
       43 * (S / 10)}};
  for (size_t i = 0; i < 2; i++) {
    struct kc_trace trace;
    struct kc_trace_stats stats;
    load_public(table[i].name, &trace, &stats);
    assert_int_equal(stats.rows, table[i].rows);
    assert_int_equal(stats.output.total, table[i].output_tokens);
    assert_in_range(stats.rate_micro, table[i].rate_micro - 5000, table[i].rate_micro + 5000);
    assert_int_equal(stats.fixed_10s_rows, table[i].fixed_10s_rows);
    assert_int_equal(stats.peak_10s_rows, table[i].peak_10s_rows);
    assert_in_range(stats.gap_max_ps, table[i].gap_max_ps - S / 2, table[i].gap_max_ps + S / 2);
    kc_trace_free(&trace);
  }
}

/* kvcache-ai/Mooncake at 3b5a5941: 1,180 distinct arrivals, 36.6 % of blocks and 37.4 % of tokens
 * seen before. */
static void public_mooncake(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_stats stats;
  load_public("mooncake/conversation_trace.jsonl", &trace, &stats);
  assert_int_equal(stats.rows, 12031);
  assert_int_equal(stats.distinct_arrivals, 1180);
  assert_int_equal(stats.reuse.blocks, 288500);
  assert_int_equal(stats.reuse.blocks_reused, 105710);
  assert_int_equal((1000 * stats.reuse.tokens_reused + stats.reuse.tokens / 2) / stats.reuse.tokens,
                   374);
  kc_trace_free(&trace);
}

/* callanjfox/kv-cache-tester at 94f6046d, 24 of its sessions. */
static void public_weka(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_trace_stats stats;
  load_public("weka-claude-code/traces", &trace, &stats);
  assert_int_equal(trace.file_count, 24);
  assert_int_equal(stats.rows, 795);
  assert_int_equal(stats.subagents, 12);
  assert_int_equal(trace.tail, KC_TAIL_FLOOR);
  assert_int_equal(trace.block_tokens, 64);
  assert_true(stats.sessions >= 24);
  kc_trace_free(&trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(percentiles_are_nearest_rank),
      cmocka_unit_test(correlations),
      cmocka_unit_test(many_rows),
      cmocka_unit_test(arrivals),
      cmocka_unit_test(window_of_10_s_is_half_open),
      cmocka_unit_test(one_row),
      cmocka_unit_test(sessions),
      cmocka_unit_test(public_azure),
      cmocka_unit_test(public_mooncake),
      cmocka_unit_test(public_weka),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
