/* `db verify`, for every run: do the columns of its row agree with what else is stored of it?
 *
 *   histogram rows   --> each percentile, minimum and maximum in the bucket that holds its rank,
 *                        the mean within what the buckets allow; ITL percentiles exactly
 *   summary_json     --> every column that the document of `run --json` states too
 *   other columns    --> tokens per second from tokens and makespan
 *
 * A column that was changed thus disagrees with something, also where no rows were kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/store/store_internal.h"

enum { DOCUMENT_SCHEMA = 2 }; /* of the document, in its key "schema" */

/* ---- the document ---- */

/* MS, S, PER_S: the document states the column divided by 10^9, 10^12, 10^6. */
enum kind { WHOLE, TEXT, SEED, MS, S, PER_S };

struct figure {
  const char *column, *key;
  enum kind kind;
};

#define STATISTIC(m)                                                       \
  {m "_count", m "_ms.count", WHOLE}, {m "_mean_ps", m "_ms.mean", MS},    \
  {m "_p50_ps", m "_ms.p50", MS}, {m "_p90_ps", m "_ms.p90", MS},          \
  {m "_p95_ps", m "_ms.p95", MS}, {m "_p99_ps", m "_ms.p99", MS},          \
  {m "_min_ps", m "_ms.min", MS}, {m "_max_ps", m "_ms.max", MS}

static const struct figure figures[] = {
  {"version", "version", TEXT}, {"model", "model", TEXT}, {"gpu", "gpu", TEXT},
  {"seed", "seed", SEED}, {"trace_sha256", "trace.sha256", TEXT},
  {"scenario_sha256", "scenario_sha256", TEXT}, {"result_sha256", "result_sha256", TEXT},
  {"requests_total", "requests_total", WHOLE},
  {"requests_completed", "requests_completed", WHOLE},
  {"requests_rejected", "requests_rejected", WHOLE},
  {"requests_failed", "requests_failed", WHOLE},
  {"requests_cancelled", "requests_cancelled", WHOLE},
  {"requests_timed_out", "requests_timed_out", WHOLE},
  {"input_tokens", "input_tokens", WHOLE}, {"output_tokens", "output_tokens", WHOLE},
  {"tokens_clipped_requests", "output_clipped_requests", WHOLE},
  STATISTIC("ttft"), STATISTIC("tpot"), STATISTIC("itl"), STATISTIC("e2e"),
  {"makespan_ps", "makespan_s", S}, {"busy_ps", "busy_s", S},
  {"output_tok_s_micro", "output_tok_s", PER_S},
  {"steps", "steps", WHOLE}, {"preemptions", "preemptions", WHOLE},
  {"max_running", "max_running", WHOLE}, {"max_waiting", "max_waiting", WHOLE},
  {"kv_peak_tokens", "kv_peak_tokens", WHOLE}, {"kv_peak_pages", "kv_peak_pages", WHOLE},
  {"page_size", "page_size", WHOLE}, {"pages", "pages", WHOLE},
  {"kv_token_bytes", "kv_bytes_per_token", WHOLE},
  {"weights_bytes", "weights_per_gpu_bytes", WHOLE},
  {"kv_budget_bytes", "kv_budget_bytes", WHOLE},
  {"prefix_cache", "prefix_cache.on", WHOLE},
  {"admitted_tokens", "prefix_cache.prompt_tokens", WHOLE},
  {"cached_tokens", "prefix_cache.cached_tokens", WHOLE},
  {"recached_tokens", "prefix_cache.recached_tokens", WHOLE},
  {"warm_requests", "prefix_cache.warm_requests", WHOLE},
  {"pages_evicted", "prefix_cache.pages_evicted", WHOLE},
  {"slo_met", "slo_met", WHOLE}, {"contaminated", "contaminated", WHOLE},
  {"oom_ps", "oom.time_s", S}, {"oom_request", "oom.request", WHOLE},
  {"oom_demand_pages", "oom.demand_pages", WHOLE},
  {"trust", "trust.times", TEXT}, {"trust_basis", "trust.basis", TEXT},
  {"outside_ps", "trust.outside_s", S},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

/* The document holds 15 significant digits of column / scale: the column's value must give the same
 * number. SQLite reads decimal text within a few units of the last binary place, hence the margin,
 * which is less than one unit of the 15th digit. */
static bool same_number(int64_t column, double stated, double scale)
{
  KC_ASSERT(scale >= 1e6); /* so that no value needs an exponent of its own */
  char text[40];
  double expected = 0;
  const int length = snprintf(text, sizeof text, "%.15g", (double)column / scale);
  const bool parsed = kc_parse_double(text, (size_t)length, &expected);
  KC_ASSERT(parsed);
  const double apart = stated > expected ? stated - expected : expected - stated;
  const double size = expected < 0 ? -expected : expected;
  return apart <= 8e-16 * size;
}

/* Columns i and i + 1 of `row`: from the table, from the document. A closed workload has no trace:
 * text that is empty on one side is absent on the other. A seed fills 64 bits: decimal text in the
 * table, the same bits as a signed integer in the document. */
static bool agree(sqlite3_stmt *row, int i, enum kind kind)
{
  KC_ASSERT(i + 1 < sqlite3_column_count(row));
  if (kind == TEXT) return strcmp(kc_store_text(row, i), kc_store_text(row, i + 1)) == 0;
  const bool absent = sqlite3_column_type(row, i) == SQLITE_NULL;
  const int stated = sqlite3_column_type(row, i + 1);
  if (absent || stated == SQLITE_NULL) return absent && stated == SQLITE_NULL;
  if (kind == SEED) {
    return strtoull(kc_store_text(row, i), NULL, 10) == (uint64_t)sqlite3_column_int64(row, i + 1);
  }
  const int64_t column = sqlite3_column_int64(row, i);
  if (kind == WHOLE) return stated == SQLITE_INTEGER && sqlite3_column_int64(row, i + 1) == column;
  const double scale = kind == MS ? 1e9 : kind == S ? 1e12 : 1e6;
  return stated != SQLITE_TEXT && same_number(column, sqlite3_column_double(row, i + 1), scale);
}

static const char *text_or_null(sqlite3_stmt *row, int column)
{
  return sqlite3_column_type(row, column) == SQLITE_NULL ? "nothing" : kc_store_text(row, column);
}

/* id, schema of the document, then two columns a figure. */
static void visit_document(struct kc_store *store, sqlite3_stmt *row,
                           struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 2 + 2 * FIGURES);
  const long long run_id = sqlite3_column_int64(row, 0);
  if (sqlite3_column_int64(row, 1) != DOCUMENT_SCHEMA) {
    kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                     "summary_json of run %lld has schema %s, expected %d; it was changed, or a "
                     "newer kvcap wrote it", run_id, text_or_null(row, 1), DOCUMENT_SCHEMA);
    return;
  }
  for (int i = 0; i < FIGURES; i++) {
    if (agree(row, 2 + 2 * i, figures[i].kind)) continue;
    kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                     "run %lld has %s in column %s and its summary_json says %s for %s; one of the "
                     "two was changed", run_id, text_or_null(row, 2 + 2 * i), figures[i].column,
                     text_or_null(row, 3 + 2 * i), figures[i].key);
  }
}

static void visit_no_document(struct kc_store *store, sqlite3_stmt *row,
                              struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 1);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "summary_json of run %lld is not a JSON document; it was changed",
                   (long long)sqlite3_column_int64(row, 0));
}

static void check_documents(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(problems != NULL);
  sqlite3_str *sql = sqlite3_str_new(store->db);
  sqlite3_str_appendall(sql, "SELECT id, json_extract(summary_json, '$.schema')");
  for (size_t i = 0; i < FIGURES; i++) {
    sqlite3_str_appendf(sql, ", %s, json_extract(summary_json, '$.%s')", figures[i].column,
                        figures[i].key);
  }
  sqlite3_str_appendall(sql, " FROM run WHERE json_valid(summary_json)"
                              " AND layout = " KC_LAYOUT_TEXT " ORDER BY id");
  char *text = sqlite3_str_finish(sql);
  if (text == NULL) {
    kc_store_add_failure(store, SQLITE_NOMEM, problems);
    return;
  }
  kc_store_for_each_row(store, text, visit_document, problems);
  sqlite3_free(text);
  kc_store_for_each_row(store, "SELECT id FROM run WHERE NOT json_valid(summary_json)",
                        visit_no_document, problems);
}

/* ---- histograms ---- */

struct bucket {
  int64_t low_ps, high_ps; /* [low, high) */
};

enum { RANKS = 4 };
static const uint64_t percents[RANKS] = {50, 90, 95, 99};

/* What the buckets of one metric say. */
struct spread {
  uint64_t total;
  kc_u128 low_sum_ps, high_sum_ps;
  struct bucket first, last, at[RANKS];
  bool sound;
};

static void add_bucket(struct spread *spread, const struct bucket *bucket, uint64_t count,
                       uint64_t total)
{
  KC_ASSERT(bucket->low_ps >= 0 && bucket->low_ps < bucket->high_ps);
  KC_ASSERT(count > 0 && spread->total + count <= total);
  if (spread->total == 0) spread->first = *bucket;
  spread->last = *bucket;
  for (int i = 0; i < RANKS; i++) {
    const uint64_t rank = (uint64_t)(((kc_u128)total * percents[i] + 99) / 100); /* from 1 */
    if (spread->total < rank && rank <= spread->total + count) spread->at[i] = *bucket;
  }
  spread->total += count;
  spread->low_sum_ps += (kc_u128)(uint64_t)bucket->low_ps * count;
  spread->high_sum_ps += (kc_u128)(uint64_t)(bucket->high_ps - 1) * count;
}

/* Reads the histogram of a run whose row states `total` values. Sound when it holds as many. */
static int read_spread(struct kc_store *store, int64_t run_id, const char *metric, uint64_t total,
                       struct spread *spread)
{
  KC_ASSERT(total > 0 && total <= INT64_MAX);
  sqlite3_stmt *row = NULL;
  *spread = (struct spread){.sound = true};
  int code = sqlite3_prepare_v2(store->db,
                                "SELECT low_ps, high_ps, count FROM histogram WHERE run_id = ?"
                                " AND metric = ? ORDER BY low_ps", -1, &row, NULL);
  if (code != SQLITE_OK) return code;
  sqlite3_bind_int64(row, 1, run_id);
  sqlite3_bind_text(row, 2, metric, -1, SQLITE_STATIC);
  while ((code = sqlite3_step(row)) == SQLITE_ROW && spread->sound) {
    const struct bucket bucket = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)};
    const int64_t count = sqlite3_column_int64(row, 2);
    spread->sound = bucket.low_ps >= spread->last.high_ps && bucket.low_ps < bucket.high_ps &&
                    bucket.low_ps >= 0 && count > 0 && (uint64_t)count <= total - spread->total;
    if (spread->sound) add_bucket(spread, &bucket, (uint64_t)count, total);
  }
  sqlite3_finalize(row);
  spread->sound = spread->sound && spread->total == total;
  return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

static void add_misfit(struct kc_store *store, int64_t run_id, const char *metric,
                       const char *part, int64_t value_ps, struct kc_diag_list *problems)
{
  KC_ASSERT(run_id > 0);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "run %lld has %lld in column %s_%s_ps, which its %s histogram contradicts; one "
                   "of the two was changed", (long long)run_id, (long long)value_ps, metric, part,
                   metric);
}

static bool holds(const struct bucket *bucket, int64_t value_ps)
{
  return value_ps >= bucket->low_ps && value_ps < bucket->high_ps;
}

/* ITL is stored bucket by bucket, so its percentiles are known: the middle of the bucket, clamped
 * (kc_histogram_percentile). */
static bool is_middle(const struct bucket *bucket, int64_t value_ps, int64_t min_ps, int64_t max_ps)
{
  int64_t middle_ps = bucket->low_ps + (bucket->high_ps - bucket->low_ps - 1) / 2;
  if (middle_ps < min_ps) middle_ps = min_ps;
  if (middle_ps > max_ps) middle_ps = max_ps;
  return value_ps == middle_ps;
}

/* `row` holds KC_STORE_STATISTIC's columns from `column` on. */
static void check_spread(struct kc_store *store, sqlite3_stmt *row, int column, const char *metric,
                         const struct spread *spread, struct kc_diag_list *problems)
{
  static const char *const rank_name[RANKS] = {"p50", "p90", "p95", "p99"};
  const int64_t run_id = sqlite3_column_int64(row, 0);
  const int64_t mean_ps = sqlite3_column_int64(row, column + 1);
  const int64_t min_ps = sqlite3_column_int64(row, column + 6);
  const int64_t max_ps = sqlite3_column_int64(row, column + 7);
  const bool exact = strcmp(metric, "itl") == 0;
  KC_ASSERT(spread->sound && spread->total > 0);
  /* A mean is rounded to the nearest picosecond. */
  const kc_u128 sum_ps = mean_ps < 0 ? 0 : (kc_u128)(uint64_t)mean_ps * spread->total;
  if (mean_ps < 0 || sum_ps + spread->total < spread->low_sum_ps ||
      sum_ps > spread->high_sum_ps + spread->total) {
    add_misfit(store, run_id, metric, "mean", mean_ps, problems);
  }
  for (int i = 0; i < RANKS; i++) {
    const int64_t value_ps = sqlite3_column_int64(row, column + 2 + i);
    if (exact ? is_middle(&spread->at[i], value_ps, min_ps, max_ps)
              : holds(&spread->at[i], value_ps)) continue;
    add_misfit(store, run_id, metric, rank_name[i], value_ps, problems);
  }
  if (!holds(&spread->first, min_ps)) add_misfit(store, run_id, metric, "min", min_ps, problems);
  if (!holds(&spread->last, max_ps)) add_misfit(store, run_id, metric, "max", max_ps, problems);
}

/* id, then the statistics of the four metrics. */
static void visit_latencies(struct kc_store *store, sqlite3_stmt *row,
                            struct kc_diag_list *problems)
{
  static const char *const metrics[] = {"ttft", "tpot", "itl", "e2e"};
  KC_ASSERT(sqlite3_column_count(row) == 1 + 4 * 8);
  for (int i = 0; i < 4; i++) {
    const int column = 1 + 8 * i;
    const int64_t count = sqlite3_column_int64(row, column);
    struct spread spread;
    if (count <= 0) continue;
    const int code =
        read_spread(store, sqlite3_column_int64(row, 0), metrics[i], (uint64_t)count, &spread);
    if (code != SQLITE_OK) {
      kc_store_add_failure(store, code, problems);
    } else if (spread.sound) {
      check_spread(store, row, column, metrics[i], &spread, problems);
    } else {
      kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                       "the %s histogram of run %lld is not one of %lld values; it was changed",
                       metrics[i], (long long)sqlite3_column_int64(row, 0), (long long)count);
    }
  }
}

/* ---- tokens per second ---- */

static void visit_rate(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  const int64_t tokens = sqlite3_column_int64(row, 1);
  const int64_t makespan_ps = sqlite3_column_int64(row, 2);
  const int64_t stated = sqlite3_column_int64(row, 3);
  kc_u128 found = 0;
  KC_ASSERT(sqlite3_column_count(row) == 4);
  if (tokens >= 0 && makespan_ps > 0) {
    const uint64_t span = (uint64_t)makespan_ps;
    found = ((kc_u128)(uint64_t)tokens * (uint64_t)KC_PS_PER_S * 1000000u + span / 2) / span;
  }
  if (stated >= 0 && found == (kc_u128)(uint64_t)stated) return;
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "run %lld has %lld in column output_tok_s_micro, which its %lld output tokens "
                   "in %lld ps contradict; a column was changed",
                   (long long)sqlite3_column_int64(row, 0), (long long)stated, (long long)tokens,
                   (long long)makespan_ps);
}

void kc_store_verify_figures(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(problems != NULL);
  check_documents(store, problems);
  kc_store_for_each_row(store,
                        "SELECT id, " KC_STORE_STATISTIC("ttft") ", " KC_STORE_STATISTIC("tpot")
                        ", " KC_STORE_STATISTIC("itl") ", " KC_STORE_STATISTIC("e2e")
                        " FROM run ORDER BY id", visit_latencies, problems);
  kc_store_for_each_row(store,
                        "SELECT id, output_tokens, makespan_ps, output_tok_s_micro FROM run"
                        " ORDER BY id", visit_rate, problems);
}
