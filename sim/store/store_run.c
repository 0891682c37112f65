/* Writing one run: rows gather in memory while it goes on, one transaction at its end.
 *
 *   begin    can the file be written? the facts known beforehand are bound to the run row's INSERT
 *            (SQLite copies the strings), which waits for the rest
 *   outcome  row[row_count++], where it is kept; the array doubles, so a run of n rows moves fewer
 *            than 2 n of them
 *   end      BEGIN IMMEDIATE, the id, requests, violations, timeline, histogram, host, the run
 *            row, COMMIT; the deferred foreign keys are checked there, so a commit without the run
 *            row is refused by the database itself
 *
 * The lock is held for the writing alone (two to three seconds for a million rows), not for the
 * run: runs side by side on one file wait for each other's writing only.
 *
 * A killed process leaves an uncommitted transaction in the -wal, which the next reader ignores.
 * After the commit the -wal is copied into the main file as far as readers allow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store/store_internal.h"

enum {
  SAMPLE_EVERY = 1024,
  COARSE_BITS = 3, /* TTFT, TPOT, E2E: 128 buckets an octave, within 0.8 % */
  COARSE_BUCKETS = KC_HISTOGRAM_BUCKETS >> COARSE_BITS
};

/* ---- the run row, column by column ---- */

static const char *const run_columns[] = {
  "id", "name", "model", "gpu", "version", "seed", "scenario_sha256", "trace_sha256",
  "result_sha256", "rows_kept", "page_size", "pages", "kv_token_bytes", "memory_bytes",
  "weights_bytes", "kv_budget_bytes", "other_bytes", "reserve_bytes", "requests_total",
  "requests_completed", "requests_rejected", "requests_failed", "requests_cancelled",
  "requests_timed_out", "input_tokens", "output_tokens", "input_tokens_completed",
  "output_tokens_completed",
  "ttft_count", "ttft_mean_ps", "ttft_p50_ps", "ttft_p90_ps", "ttft_p95_ps", "ttft_p99_ps",
  "ttft_min_ps", "ttft_max_ps",
  "tpot_count", "tpot_mean_ps", "tpot_p50_ps", "tpot_p90_ps", "tpot_p95_ps", "tpot_p99_ps",
  "tpot_min_ps", "tpot_max_ps",
  "itl_count", "itl_mean_ps", "itl_p50_ps", "itl_p90_ps", "itl_p95_ps", "itl_p99_ps",
  "itl_min_ps", "itl_max_ps",
  "e2e_count", "e2e_mean_ps", "e2e_p50_ps", "e2e_p90_ps", "e2e_p95_ps", "e2e_p99_ps",
  "e2e_min_ps", "e2e_max_ps",
  "makespan_ps", "busy_ps", "output_tok_s_micro", "steps", "preemptions",
  "tokens_clipped_requests", "max_running",
  "max_waiting", "kv_peak_tokens", "kv_peak_pages", "oom_ps", "oom_request", "oom_demand_pages",
  "layout", "prefix_cache", "admitted_tokens", "cached_tokens", "recached_tokens", "warm_requests",
  "pages_evicted", "slo_met", "contaminated", "scenario_text", "summary_json",
  "trust", "trust_basis", "outside_ps",
};
enum { RUN_COLUMNS = sizeof run_columns / sizeof run_columns[0] };

/* Binds by name; the first failure (memory) sticks, so that callers check once. */
struct binder {
  sqlite3_stmt *statement;
  int code;
};

static int parameter_of(const struct binder *to, const char *column)
{
  char name[40];
  snprintf(name, sizeof name, ":%s", column);
  const int index = sqlite3_bind_parameter_index(to->statement, name);
  KC_ASSERT(index > 0);
  return index;
}

static void set_i64(struct binder *to, const char *column, int64_t value)
{
  KC_ASSERT(to->statement != NULL);
  const int code = sqlite3_bind_int64(to->statement, parameter_of(to, column), value);
  if (to->code == SQLITE_OK) to->code = code;
}

static void set_u64(struct binder *to, const char *column, uint64_t value)
{
  KC_ASSERT(value <= INT64_MAX);
  set_i64(to, column, (int64_t)value);
}

/* NULL leaves the column NULL. */
static void set_text(struct binder *to, const char *column, const char *text)
{
  KC_ASSERT(to->statement != NULL);
  const int code =
      sqlite3_bind_text(to->statement, parameter_of(to, column), text, -1, SQLITE_TRANSIENT);
  if (to->code == SQLITE_OK) to->code = code;
}

static void set_statistic(struct binder *to, const char *metric, const struct kc_statistic *value)
{
  const struct {
    const char *suffix;
    kc_ps value_ps;
  } part[] = {{"mean", value->mean_ps}, {"p50", value->p50_ps}, {"p90", value->p90_ps},
              {"p95", value->p95_ps},   {"p99", value->p99_ps}, {"min", value->min_ps},
              {"max", value->max_ps}};
  char column[32];
  snprintf(column, sizeof column, "%s_count", metric);
  set_u64(to, column, value->count);
  if (value->count == 0) return;
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
    KC_ASSERT(part[i].value_ps >= 0);
    snprintf(column, sizeof column, "%s_%s_ps", metric, part[i].suffix);
    set_i64(to, column, part[i].value_ps);
  }
}

static const char *rows_name(enum kc_request_rows rows)
{
  KC_ASSERT(rows <= KC_ROWS_NONE);
  return rows == KC_ROWS_ALL ? "all" : rows == KC_ROWS_SAMPLED ? "sampled" : "none";
}

/* Text that came from a command line or a file of the user's. */
static void set_clean_text(struct binder *to, const char *column, const char *text)
{
  KC_ASSERT(text != NULL);
  char *clean = strdup(text);
  if (clean == NULL) {
    to->code = SQLITE_NOMEM;
    return;
  }
  kc_text_clean(clean);
  set_text(to, column, clean);
  free(clean);
}

static int bind_header(struct binder *to, const struct kc_run_header *header)
{
  KC_ASSERT(header->page_size > 0);
  KC_ASSERT(header->pages <= INT64_MAX);
  char seed[24];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)header->seed);
  set_clean_text(to, "name", header->name);
  set_clean_text(to, "model", header->model);
  set_clean_text(to, "gpu", header->gpu);
  set_text(to, "version", header->version);
  set_text(to, "seed", seed);
  set_text(to, "scenario_sha256", header->scenario_sha256);
  set_text(to, "trace_sha256", header->trace_sha256);
  set_text(to, "scenario_text", header->scenario_text);
  set_text(to, "rows_kept", rows_name(header->rows));
  set_u64(to, "page_size", header->page_size);
  set_u64(to, "pages", header->pages);
  set_u64(to, "kv_token_bytes", header->kv_token_bytes);
  set_u64(to, "memory_bytes", header->memory_bytes);
  set_u64(to, "weights_bytes", header->weights_bytes);
  set_u64(to, "kv_budget_bytes", header->kv_budget_bytes);
  set_u64(to, "other_bytes", header->other_bytes);
  set_u64(to, "reserve_bytes", header->reserve_bytes);
  set_u64(to, "layout", KC_CANONICAL_LAYOUT);
  set_u64(to, "prefix_cache", header->prefix_cache);
  return to->code;
}

static void bind_counters(struct binder *to, const struct kc_summary *summary)
{
  KC_ASSERT(summary->makespan_ps >= 0 && summary->busy_ps >= 0);
  KC_ASSERT(summary->output_tokens_completed <= summary->output_tokens);
  set_u64(to, "requests_total", summary->requests_total);
  set_u64(to, "requests_completed", summary->requests_by_status[KC_STATUS_COMPLETED]);
  set_u64(to, "requests_rejected", summary->requests_by_status[KC_STATUS_REJECTED]);
  set_u64(to, "requests_failed", summary->requests_by_status[KC_STATUS_FAILED]);
  set_u64(to, "requests_cancelled", summary->requests_by_status[KC_STATUS_CANCELLED]);
  set_u64(to, "requests_timed_out", summary->requests_by_status[KC_STATUS_TIMED_OUT]);
  set_u64(to, "input_tokens", summary->input_tokens);
  set_u64(to, "output_tokens", summary->output_tokens);
  set_u64(to, "input_tokens_completed", summary->input_tokens_completed);
  set_u64(to, "output_tokens_completed", summary->output_tokens_completed);
  set_i64(to, "makespan_ps", summary->makespan_ps);
  set_i64(to, "busy_ps", summary->busy_ps);
  set_u64(to, "output_tok_s_micro", summary->output_tok_s_micro);
  set_u64(to, "steps", summary->steps);
  set_u64(to, "preemptions", summary->preemptions);
  set_u64(to, "tokens_clipped_requests", summary->tokens_clipped_requests);
  set_u64(to, "max_running", summary->max_running);
  set_u64(to, "max_waiting", summary->max_waiting);
  set_u64(to, "kv_peak_tokens", summary->kv_peak_tokens);
  set_u64(to, "kv_peak_pages", summary->kv_peak_pages);
  set_u64(to, "admitted_tokens", summary->admitted_tokens);
  set_u64(to, "cached_tokens", summary->cached_tokens);
  set_u64(to, "recached_tokens", summary->recached_tokens);
  set_u64(to, "warm_requests", summary->warm_requests);
  set_u64(to, "pages_evicted", summary->pages_evicted);
  set_u64(to, "slo_met", summary->slo_met);
  set_u64(to, "contaminated", summary->contaminated);
}

static int bind_result(struct binder *to, const struct kc_replay_result *result,
                       const char *summary_json)
{
  KC_ASSERT(strlen(result->summary.result_sha256) == KC_SHA256_HEX_BYTES - 1);
  KC_ASSERT(result->oom_ps >= 0);
  bind_counters(to, &result->summary);
  set_statistic(to, "ttft", &result->summary.ttft);
  set_statistic(to, "tpot", &result->summary.tpot);
  set_statistic(to, "itl", &result->summary.itl);
  set_statistic(to, "e2e", &result->summary.e2e);
  set_text(to, "result_sha256", result->summary.result_sha256);
  set_text(to, "summary_json", summary_json);
  if (result->oom_ps != KC_PS_NEVER) {
    set_i64(to, "oom_ps", result->oom_ps);
    set_u64(to, "oom_request", result->oom_request);
    set_u64(to, "oom_demand_pages", result->oom_demand_pages);
  }
  return to->code;
}

/* "INSERT INTO run(id,name,...) VALUES (:id,:name,...)" */
static enum kc_err prepare_run(struct kc_store *store, struct kc_diag *diag)
{
  KC_ASSERT(store->insert_run == NULL);
  sqlite3_str *sql = sqlite3_str_new(store->db);
  sqlite3_str_appendall(sql, "INSERT INTO run(");
  for (size_t i = 0; i < RUN_COLUMNS; i++) {
    sqlite3_str_appendf(sql, "%s%s", i == 0 ? "" : ",", run_columns[i]);
  }
  sqlite3_str_appendall(sql, ") VALUES (");
  for (size_t i = 0; i < RUN_COLUMNS; i++) {
    sqlite3_str_appendf(sql, "%s:%s", i == 0 ? "" : ",", run_columns[i]);
  }
  sqlite3_str_appendall(sql, ")");
  char *text = sqlite3_str_finish(sql);
  if (text == NULL) return kc_store_fail(store, SQLITE_NOMEM, "storing a run", diag);
  const enum kc_err err =
      kc_store_prepare(store, text, &store->insert_run, "storing a run", diag);
  sqlite3_free(text);
  return err;
}

/* ---- begin, abort ---- */

static void forget_run(struct kc_store *store)
{
  KC_ASSERT(store->in_run);
  sqlite3_finalize(store->insert_run);
  free(store->trace_path);
  free(store->row);
  store->insert_run = NULL;
  store->trace_path = NULL;
  store->row = NULL;
  store->row_count = store->row_room = 0;
  store->in_run = false;
}

/* Does nothing when SQLite has rolled back by itself (disk full). Out of memory it may fail; the
 * next transaction tries again, and closing does it in any case. */
static void roll_back(struct kc_store *store)
{
  if (sqlite3_get_autocommit(store->db) != 0) return;
  sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

void kc_store_run_abort(struct kc_store *store)
{
  KC_ASSERT(store != NULL);
  if (!store->in_run) return;
  forget_run(store); /* a statement in progress would hold the transaction open */
  roll_back(store);
}

static enum kc_err fail_run(struct kc_store *store, int code, struct kc_diag *diag)
{
  KC_ASSERT(store->in_run);
  char doing[40] = "storing a run";
  if (store->run_id > 0) {
    snprintf(doing, sizeof doing, "storing run %lld", (long long)store->run_id);
  }
  return kc_store_fail(store, code, doing, diag);
}

/* Somebody who writes just now will have finished when this run has. */
static enum kc_err check_writable(struct kc_store *store, struct kc_diag *diag)
{
  KC_ASSERT(!store->read_only);
  roll_back(store);
  kc_store_wait_for(store, 0);
  int code = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (code == SQLITE_OK) code = sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  kc_store_wait_for(store, KC_STORE_BUSY_MS);
  if (code == SQLITE_OK || (code & 0xff) == SQLITE_BUSY) return KC_OK;
  return kc_store_fail(store, code, "preparing to store a run", diag);
}

static enum kc_err keep_header(struct kc_store *store, const struct kc_run_header *header,
                               struct kc_diag *diag)
{
  KC_ASSERT(store->trace_path == NULL);
  KC_TRY(prepare_run(store, diag));
  struct binder to = {.statement = store->insert_run, .code = SQLITE_OK};
  const int code = bind_header(&to, header);
  if (code != SQLITE_OK) return fail_run(store, code, diag);
  if (header->trace_path == NULL) return KC_OK;
  store->trace_path = strdup(header->trace_path);
  if (store->trace_path == NULL) return fail_run(store, SQLITE_NOMEM, diag);
  kc_text_clean(store->trace_path);
  return KC_OK;
}

enum kc_err kc_store_run_begin(struct kc_store *store, const struct kc_run_header *header,
                               struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && !store->read_only);
  KC_ASSERT(!store->in_run);
  KC_ASSERT(header->name != NULL && header->scenario_text != NULL);
  KC_TRY(check_writable(store, diag));
  store->in_run = true;
  store->run_id = 0;
  store->outcomes = 0;
  store->rows = header->rows;
  store->class_name = header->class_name;
  const enum kc_err err = keep_header(store, header, diag);
  if (err != KC_OK) kc_store_run_abort(store);
  return err;
}

enum kc_err kc_store_run_trust(struct kc_store *store, const char *trust, const char *basis,
                               kc_ps outside_ps, struct kc_diag *diag)
{
  KC_ASSERT(store->in_run && store->insert_run != NULL);
  KC_ASSERT(outside_ps >= 0);
  struct binder to = {.statement = store->insert_run, .code = SQLITE_OK};
  set_text(&to, "trust", trust);
  set_text(&to, "trust_basis", basis);
  set_i64(&to, "outside_ps", outside_ps);
  return to.code == SQLITE_OK ? KC_OK : fail_run(store, to.code, diag);
}

/* ---- outcomes ---- */

static enum kc_err make_room(struct kc_store *store, struct kc_diag *diag)
{
  enum { ROWS_MIN = 1024 };
  KC_ASSERT(store->row_count == store->row_room);
  if (store->row_room >= KC_STORE_ROWS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a stored run keeps at most %d rows; keep fewer with --rows "
                   "sampled", KC_STORE_ROWS_MAX);
  }
  uint64_t room = store->row_room == 0 ? ROWS_MIN : 2 * store->row_room;
  if (room > KC_STORE_ROWS_MAX) room = KC_STORE_ROWS_MAX;
  struct kc_store_row *larger =
      KC_FAULT("store_no_memory") ? NULL : realloc(store->row, room * sizeof *larger);
  if (larger == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory for the %llu rows of the run; "
                   "keep fewer with --rows sampled", (unsigned long long)store->row_count + 1);
  }
  store->row = larger;
  store->row_room = room;
  return KC_OK;
}

static bool row_is_kept(const struct kc_store *store, uint32_t request)
{
  if (KC_FAULT("store_lost_row") && request == 1) return false;
  if (store->rows == KC_ROWS_SAMPLED) return request % SAMPLE_EVERY == 0;
  return store->rows == KC_ROWS_ALL;
}

static enum kc_err on_outcome(void *context, const struct kc_outcome *outcome,
                              const struct kc_request *request, struct kc_diag *diag)
{
  struct kc_store *store = context;
  KC_ASSERT(store->in_run);
  KC_ASSERT(outcome->status < KC_STATUSES && outcome->reason < KC_REASONS);
  const uint64_t sequence = store->outcomes++;
  if (outcome->reason != KC_REASON_INTEGRITY && !row_is_kept(store, outcome->request)) return KC_OK;
  if (store->row_count == store->row_room) KC_TRY(make_room(store, diag));
  KC_ASSERT(store->row_count < store->row_room);
  store->row[store->row_count++] = (struct kc_store_row){.outcome = *outcome,
                                                         .sequence = sequence,
                                                         .input_tokens = request->input_tokens,
                                                         .max_tokens = request->max_tokens,
                                                         .tenant = request->tenant,
                                                         .class_index = request->class_index};
  return KC_OK;
}

struct kc_recorder kc_store_recorder(struct kc_store *store)
{
  KC_ASSERT(store != NULL && store->in_run);
  return (struct kc_recorder){.context = store, .on_outcome = on_outcome};
}

/* ---- end: rows ---- */

static int step_and_reset(sqlite3_stmt *statement)
{
  const int code = sqlite3_step(statement);
  KC_ASSERT(code != SQLITE_ROW && code != SQLITE_MISUSE);
  sqlite3_reset(statement);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void bind_time(sqlite3_stmt *statement, int index, kc_ps time_ps)
{
  KC_ASSERT(time_ps >= 0);
  if (time_ps == KC_PS_NEVER) {
    sqlite3_bind_null(statement, index);
  } else {
    sqlite3_bind_int64(statement, index, time_ps);
  }
}

static int insert_request(struct kc_store *store, sqlite3_stmt *row,
                          const struct kc_store_row *kept)
{
  const struct kc_outcome *outcome = &kept->outcome;
  KC_ASSERT(outcome->arrival_ps >= 0 && outcome->end_ps >= outcome->arrival_ps);
  KC_ASSERT(outcome->resident_ps >= 0);
  sqlite3_bind_int64(row, 1, store->run_id);
  sqlite3_bind_int64(row, 2, (int64_t)kept->sequence);
  sqlite3_bind_int64(row, 3, outcome->request);
  sqlite3_bind_text(row, 4, kc_status_name(outcome->status), -1, SQLITE_STATIC);
  sqlite3_bind_text(row, 5, kc_reason_name(outcome->reason), -1, SQLITE_STATIC);
  sqlite3_bind_int64(row, 6, outcome->arrival_ps);
  bind_time(row, 7, outcome->first_token_ps);
  sqlite3_bind_int64(row, 8, outcome->end_ps);
  sqlite3_bind_int64(row, 9, outcome->resident_ps);
  sqlite3_bind_int64(row, 10, kept->input_tokens);
  sqlite3_bind_int64(row, 11, kept->max_tokens);
  sqlite3_bind_int64(row, 12, outcome->output_tokens);
  sqlite3_bind_int64(row, 13, outcome->preemptions);
  sqlite3_bind_int64(row, 14, outcome->cached_tokens);
  sqlite3_bind_int64(row, 15, outcome->recached_tokens);
  sqlite3_bind_int64(row, 16, outcome->contaminated);
  sqlite3_bind_int64(row, 17, kept->tenant);
  sqlite3_bind_int64(row, 18, kept->class_index);
  sqlite3_bind_int64(row, 19, outcome->kv_wait_ps);
  sqlite3_bind_int64(row, 20, outcome->host_ps);
  sqlite3_bind_int64(row, 21, outcome->first.resident_ps);
  sqlite3_bind_int64(row, 22, outcome->first.kv_wait_ps);
  sqlite3_bind_int64(row, 23, outcome->first.host_ps);
  return step_and_reset(row);
}

static int insert_violation(struct kc_store *store, sqlite3_stmt *row,
                            const struct kc_store_row *kept)
{
  const struct kc_outcome *outcome = &kept->outcome;
  KC_ASSERT(outcome->reason == KC_REASON_INTEGRITY);
  KC_ASSERT(store->run_id > 0);
  sqlite3_bind_int64(row, 1, store->run_id);
  sqlite3_bind_int64(row, 2, (int64_t)kept->sequence);
  sqlite3_bind_int64(row, 3, outcome->request);
  sqlite3_bind_int64(row, 4, outcome->end_ps);
  sqlite3_bind_int64(row, 5, outcome->output_tokens);
  sqlite3_bind_text(row, 6, kc_reason_name(outcome->reason), -1, SQLITE_STATIC);
  return step_and_reset(row);
}

static int insert_rows(struct kc_store *store)
{
  KC_ASSERT(store->row_count <= store->row_room);
  sqlite3_stmt *request = NULL, *violation = NULL;
  int code = sqlite3_prepare_v2(store->db, "INSERT INTO request VALUES "
                                "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -1, &request,
                                NULL);
  if (code == SQLITE_OK) {
    code = sqlite3_prepare_v2(store->db, "INSERT INTO violation VALUES (?,?,?,?,?,?)", -1,
                              &violation, NULL);
  }
  for (uint64_t i = 0; i < store->row_count && code == SQLITE_OK; i++) {
    const struct kc_store_row *kept = &store->row[i];
    if (row_is_kept(store, kept->outcome.request)) code = insert_request(store, request, kept);
    if (code == SQLITE_OK && kept->outcome.reason == KC_REASON_INTEGRITY) {
      code = insert_violation(store, violation, kept);
    }
  }
  sqlite3_finalize(request);
  sqlite3_finalize(violation);
  return code;
}

/* ---- end: the rest ---- */

static int insert_timeline(struct kc_store *store, const struct kc_metrics *metrics)
{
  KC_ASSERT(metrics->timeline_count <= KC_TIMELINE_MAX);
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, "INSERT INTO timeline VALUES (?,?,?,?,?,?,?)", -1, &row,
                                NULL);
  for (uint32_t i = 0; i < metrics->timeline_count && code == SQLITE_OK; i++) {
    const struct kc_timeline_sample *sample = &metrics->timeline[i];
    sqlite3_bind_int64(row, 1, store->run_id);
    sqlite3_bind_int64(row, 2, i);
    sqlite3_bind_int64(row, 3, sample->time_ps);
    sqlite3_bind_int64(row, 4, sample->running);
    sqlite3_bind_int64(row, 5, sample->waiting);
    sqlite3_bind_int64(row, 6, (sqlite3_int64)sample->pages_used);
    sqlite3_bind_int64(row, 7, (int64_t)sample->held_tokens);
    code = step_and_reset(row);
  }
  sqlite3_finalize(row);
  return code;
}

/* One row per non-empty bucket; bucket i of `count` covers `width` buckets of the histogram. */
static int insert_buckets(struct kc_store *store, sqlite3_stmt *row, const char *metric,
                          const uint64_t *count, uint32_t buckets, uint32_t width)
{
  KC_ASSERT((uint64_t)buckets * width == KC_HISTOGRAM_BUCKETS);
  int code = sqlite3_bind_text(row, 2, metric, -1, SQLITE_STATIC);
  sqlite3_bind_int64(row, 1, store->run_id);
  for (uint32_t i = 0; i < buckets && code == SQLITE_OK; i++) {
    if (count[i] == 0) continue;
    const uint64_t high = i + 1 == buckets ? INT64_MAX : kc_histogram_bucket_low((i + 1) * width);
    KC_ASSERT(kc_histogram_bucket_low(i * width) < high && count[i] <= INT64_MAX);
    sqlite3_bind_int64(row, 3, (int64_t)kc_histogram_bucket_low(i * width));
    sqlite3_bind_int64(row, 4, (int64_t)high);
    sqlite3_bind_int64(row, 5, (int64_t)count[i]);
    code = step_and_reset(row);
  }
  return code;
}

static int insert_values(struct kc_store *store, sqlite3_stmt *row, const char *metric,
                         const kc_ps *values, uint64_t value_count)
{
  KC_ASSERT(values != NULL || value_count == 0);
  uint64_t *count = calloc(COARSE_BUCKETS, sizeof *count);
  if (count == NULL) return SQLITE_NOMEM;
  for (uint64_t i = 0; i < value_count; i++) {
    KC_ASSERT(values[i] >= 0);
    count[kc_histogram_bucket((uint64_t)values[i]) >> COARSE_BITS]++;
  }
  const int code = insert_buckets(store, row, metric, count, COARSE_BUCKETS, 1u << COARSE_BITS);
  free(count);
  return code;
}

static int insert_histograms(struct kc_store *store, const struct kc_metrics *metrics)
{
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, "INSERT INTO histogram VALUES (?,?,?,?,?)", -1, &row,
                                NULL);
  if (code == SQLITE_OK) {
    code = insert_buckets(store, row, "itl", metrics->itl.count, KC_HISTOGRAM_BUCKETS, 1);
  }
  if (code == SQLITE_OK) code = insert_values(store, row, "ttft", metrics->ttft,
                                              metrics->ttft_count);
  if (code == SQLITE_OK) code = insert_values(store, row, "tpot", metrics->tpot,
                                              metrics->tpot_count);
  if (code == SQLITE_OK) code = insert_values(store, row, "e2e", metrics->e2e, metrics->e2e_count);
  sqlite3_finalize(row);
  return code;
}

static int insert_host(struct kc_store *store, const struct kc_host_facts *host)
{
  KC_ASSERT(host->host_seconds >= 0 && host->events_per_s >= 0);
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, "INSERT INTO host VALUES (?,?,?,?,?,?,?,?)", -1, &row,
                                NULL);
  if (code != SQLITE_OK) return code;
  sqlite3_bind_int64(row, 1, store->run_id);
  sqlite3_bind_text(row, 2, host->commit, -1, SQLITE_STATIC);
  sqlite3_bind_text(row, 3, host->started_utc, -1, SQLITE_STATIC);
  sqlite3_bind_text(row, 4, host->machine, -1, SQLITE_STATIC);
  sqlite3_bind_text(row, 5, store->trace_path, -1, SQLITE_STATIC);
  sqlite3_bind_double(row, 6, host->host_seconds);
  sqlite3_bind_double(row, 7, host->events_per_s);
  sqlite3_bind_int64(row, 8, (int64_t)host->rss_bytes);
  code = step_and_reset(row);
  sqlite3_finalize(row);
  return code;
}

static int write_all(struct kc_store *store, const struct kc_metrics *metrics,
                     const struct kc_replay_result *result, const char *summary_json,
                     const struct kc_host_facts *host)
{
  KC_ASSERT(store->run_id > 0);
  int code = insert_rows(store);
  if (code == SQLITE_OK) code = insert_timeline(store, metrics);
  if (code == SQLITE_OK) code = insert_histograms(store, metrics);
  if (code == SQLITE_OK) code = kc_store_insert_groups(store, &metrics->groups);
  if (code == SQLITE_OK) code = insert_host(store, host);
  struct binder to = {.statement = store->insert_run, .code = code};
  set_i64(&to, "id", store->run_id);
  if (code == SQLITE_OK) code = bind_result(&to, result, summary_json);
  if (code == SQLITE_OK && !KC_FAULT("store_no_run_row")) code = step_and_reset(store->insert_run);
  if (code == SQLITE_OK) code = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
  return code;
}

/* Takes the lock and, with it, the next id. */
static enum kc_err begin_transaction(struct kc_store *store, struct kc_diag *diag)
{
  KC_ASSERT(store->run_id == 0);
  const char *doing = "storing a run";
  roll_back(store);
  KC_TRY(kc_store_exec(store, "BEGIN IMMEDIATE", doing, diag));
  KC_TRY(kc_store_scalar(store, "PRAGMA page_count", &store->pages_before, doing, diag));
  KC_TRY(kc_store_scalar(store, "SELECT coalesce(max(id), 0) + 1 FROM run", &store->run_id, doing,
                         diag));
  KC_ASSERT(store->run_id > 0);
  return KC_OK;
}

enum kc_err kc_store_run_end(struct kc_store *store, const struct kc_metrics *metrics,
                             const struct kc_replay_result *result, const char *summary_json,
                             const struct kc_host_facts *host, int64_t *run_id,
                             struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && store->in_run);
  KC_ASSERT(summary_json != NULL);
  /* The recorder must have been in the run, from first to last. */
  KC_ASSERT(store->outcomes == result->summary.requests_total);
  kc_store_wait_for(store, store->end_busy_ms);
  enum kc_err err = begin_transaction(store, diag);
  if (err == KC_OK) {
    const int code = write_all(store, metrics, result, summary_json, host);
    if (code != SQLITE_OK) err = fail_run(store, code, diag);
  }
  kc_store_wait_for(store, KC_STORE_BUSY_MS);
  if (err != KC_OK) {
    kc_store_run_abort(store);
    return err;
  }
  KC_ASSERT(sqlite3_get_autocommit(store->db) != 0);
  *run_id = store->run_id;
  forget_run(store);
  /* Best effort: the run is safe in the -wal; this only brings it into the main file early. */
  sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
  return KC_OK;
}
