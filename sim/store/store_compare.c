/* Rows of a stored run for a comparison, and the table that keeps comparisons (see
 * store_compare.h).
 *
 *   comparison (id, line)    metric, figure, a_s, b_s; a and b name the two sides
 *
 * The table is apart from the runs: it refers to none, because a side may be a measured log, and a
 * file without comparisons has no such table.
 */
#include "sim/store/store_compare.h"

#include <stdio.h>
#include <string.h>

#include "sim/store/store_internal.h"

static const char doing[] = "reading a run";

enum kc_err kc_store_resolve_run(struct kc_store *store, int64_t *run_id,
                                 char trust[KC_STORE_TRUST_BYTES], struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_ASSERT(store != NULL && run_id != NULL);
  KC_ASSERT(*run_id >= 0);
  if (*run_id == 0) {
    KC_TRY(kc_store_scalar(store, "SELECT coalesce(max(id), 0) FROM run", run_id, doing, diag));
    if (*run_id == 0) {
      return kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0, "the database holds no runs; store "
                        "one: kvcap run SCENARIO --db FILE");
    }
  }
  KC_TRY(kc_store_prepare(store, "SELECT rows_kept, coalesce(trust, 'unknown') FROM run WHERE "
                         "id = ?1", &row, doing, diag));
  sqlite3_bind_int64(row, 1, *run_id);
  const int code = sqlite3_step(row);
  enum kc_err err = KC_OK;
  if (code == SQLITE_DONE) {
    err = kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0, "there is no run %lld; kvcap db info "
                     "lists the runs", (long long)*run_id);
  } else if (code != SQLITE_ROW) {
    err = kc_store_fail(store, code, doing, diag);
  } else if (strcmp(kc_store_text(row, 0), "all") != 0) {
    err = kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0, "run %lld kept not all of its "
                     "requests; store it again with all of them", (long long)*run_id);
  } else {
    snprintf(trust, KC_STORE_TRUST_BYTES, "%s", kc_store_text(row, 1));
  }
  sqlite3_finalize(row);
  return err;
}

/* Who gets the rows of a walk. */
struct walker {
  const char *path; /* of the database */
  void *context;
  kc_stored_request_visitor request;
  kc_stored_sample_visitor sample;
};

static kc_ps ps_or_never(sqlite3_stmt *row, int column)
{
  return sqlite3_column_type(row, column) == SQLITE_NULL ? KC_PS_NEVER
                                                         : sqlite3_column_int64(row, column);
}

/* Gives every row of a query about the run to `take`, in the order of the query. */
static enum kc_err walk(struct kc_store *store, const char *sql, int64_t run_id,
                        enum kc_err (*take)(const struct walker *to, sqlite3_stmt *row,
                                            struct kc_diag *diag),
                        const struct walker *to, struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  enum kc_err err = KC_OK;
  int code;
  KC_TRY(kc_store_prepare(store, sql, &row, doing, diag));
  sqlite3_bind_int64(row, 1, run_id);
  while (err == KC_OK && (code = sqlite3_step(row)) != SQLITE_DONE) {
    err = code == SQLITE_ROW ? take(to, row, diag) : kc_store_fail(store, code, doing, diag);
  }
  sqlite3_finalize(row);
  return err;
}

/* What no run stores of a request, beyond what a table refuses: arrival, first token, end in this
 * order, and parts that are not more than the whole. NULL when it is sound. */
static const char *unsound(sqlite3_stmt *row)
{
  const kc_ps arrival_ps = sqlite3_column_int64(row, 2), end_ps = sqlite3_column_int64(row, 4);
  const kc_ps first_ps = ps_or_never(row, 3);
  KC_ASSERT(arrival_ps >= 0 && end_ps >= 0);
  if (end_ps < arrival_ps) return "an end before its arrival";
  if (first_ps != KC_PS_NEVER && (first_ps < arrival_ps || first_ps > end_ps)) {
    return "a first token before its arrival or after its end";
  }
  for (int column = 0; column < 9; column++) { /* request, tokens, preemptions */
    const bool counts = column == 0 || column >= 6;
    if (counts && sqlite3_column_int64(row, column) > UINT32_MAX) return "a count beyond 2^32";
  }
  return NULL;
}

static enum kc_err take_request(const struct walker *to, sqlite3_stmt *row, struct kc_diag *diag)
{
  const bool completed = sqlite3_column_int(row, 1) != 0;
  KC_ASSERT(sqlite3_column_count(row) == 14);
  const char *wrong = unsound(row);
  if (wrong != NULL) {
    return kc_fail_at(diag, KC_ERR_STORE, to->path, 0, 0, "table request, request %s: it has %s; "
                      "the file was changed, and `kvcap db verify` tells what else",
                      kc_store_text(row, 0), wrong);
  }
  const struct kc_stored_request r = {
      .outcome = {.request = (uint32_t)sqlite3_column_int64(row, 0),
                  .status = completed ? KC_STATUS_COMPLETED : KC_STATUS_FAILED,
                  .arrival_ps = sqlite3_column_int64(row, 2),
                  .first_token_ps = ps_or_never(row, 3),
                  .end_ps = sqlite3_column_int64(row, 4),
                  .resident_ps = sqlite3_column_int64(row, 5),
                  .output_tokens = (uint32_t)sqlite3_column_int64(row, 7),
                  .preemptions = (uint32_t)sqlite3_column_int64(row, 8),
                  .kv_wait_ps = sqlite3_column_int64(row, 9),
                  .host_ps = sqlite3_column_int64(row, 10),
                  .first = {.resident_ps = sqlite3_column_int64(row, 11),
                            .kv_wait_ps = sqlite3_column_int64(row, 12),
                            .host_ps = sqlite3_column_int64(row, 13)}},
      .input_tokens = (uint32_t)sqlite3_column_int64(row, 6),
      .parted = sqlite3_column_type(row, 9) != SQLITE_NULL};
  return to->request(to->context, &r, diag);
}

static enum kc_err take_sample(const struct walker *to, sqlite3_stmt *row, struct kc_diag *diag)
{
  KC_ASSERT(sqlite3_column_count(row) == 3);
  const struct kc_stored_sample s = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                     sqlite3_column_int64(row, 2)};
  return to->sample(to->context, &s, diag);
}

static enum kc_err check_sound(struct kc_store *store, const char *table, int64_t run_id,
                               struct kc_diag *diag)
{
  char where[48];
  KC_ASSERT(run_id > 0);
  snprintf(where, sizeof where, "run_id = %lld", (long long)run_id);
  return kc_store_check_sound(store, table, where, diag);
}

enum kc_err kc_store_each_request(struct kc_store *store, int64_t run_id,
                                  kc_stored_request_visitor visit, void *context,
                                  struct kc_diag *diag)
{
  const struct walker to = {.path = store->path, .context = context, .request = visit};
  KC_ASSERT(visit != NULL);
  KC_TRY(check_sound(store, "request", run_id, diag));
  return walk(store, "SELECT request, status = 'completed', arrival_ps, first_token_ps, end_ps,"
              " resident_ps, input_tokens, output_tokens, preemptions, kv_wait_ps, host_ps,"
              " first_resident_ps, first_kv_wait_ps, first_host_ps FROM request"
              " WHERE run_id = ?1 ORDER BY request", run_id, take_request, &to, diag);
}

enum kc_err kc_store_each_sample(struct kc_store *store, int64_t run_id,
                                 kc_stored_sample_visitor visit, void *context,
                                 struct kc_diag *diag)
{
  const struct walker to = {.path = store->path, .context = context, .sample = visit};
  KC_ASSERT(visit != NULL);
  KC_TRY(check_sound(store, "timeline", run_id, diag));
  return walk(store, "SELECT time_ps, running, waiting FROM timeline WHERE run_id = ?1"
              " ORDER BY number", run_id, take_sample, &to, diag);
}

/* ---- keeping a comparison ---- */

static const char writing[] = "storing a comparison";

static enum kc_err insert_line(struct kc_store *store, sqlite3_stmt *insert, int64_t id,
                               size_t number, const char *a, const char *b,
                               const struct kc_stored_comparison *line, struct kc_diag *diag)
{
  sqlite3_reset(insert);
  sqlite3_bind_int64(insert, 1, id);
  sqlite3_bind_int64(insert, 2, (int64_t)number);
  sqlite3_bind_text(insert, 3, a, -1, SQLITE_STATIC);
  sqlite3_bind_text(insert, 4, b, -1, SQLITE_STATIC);
  sqlite3_bind_text(insert, 5, line->metric, -1, SQLITE_STATIC);
  sqlite3_bind_text(insert, 6, line->figure, -1, SQLITE_STATIC);
  sqlite3_bind_double(insert, 7, line->a);
  sqlite3_bind_double(insert, 8, line->b);
  const int code = sqlite3_step(insert);
  return code == SQLITE_DONE ? KC_OK : kc_store_fail(store, code, writing, diag);
}

static enum kc_err insert_lines(struct kc_store *store, const char *a, const char *b,
                                const struct kc_stored_comparison *line, size_t count, int64_t *id,
                                struct kc_diag *diag)
{
  sqlite3_stmt *insert = NULL;
  KC_TRY(kc_store_exec(store, "CREATE TABLE IF NOT EXISTS comparison ("
                       "id INTEGER NOT NULL, line INTEGER NOT NULL,"
                       "a TEXT NOT NULL, b TEXT NOT NULL, metric TEXT NOT NULL,"
                       "figure TEXT NOT NULL, a_s REAL NOT NULL, b_s REAL NOT NULL,"
                       "PRIMARY KEY (id, line)) STRICT, WITHOUT ROWID", writing, diag));
  KC_TRY(kc_store_scalar(store, "SELECT coalesce(max(id), 0) + 1 FROM comparison", id, writing,
                         diag));
  KC_TRY(kc_store_prepare(store, "INSERT INTO comparison VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                          &insert, writing, diag));
  enum kc_err err = KC_OK;
  for (size_t i = 0; i < count && err == KC_OK; i++) {
    err = insert_line(store, insert, *id, i, a, b, &line[i], diag);
  }
  sqlite3_finalize(insert);
  return err;
}

enum kc_err kc_store_comparison(struct kc_store *store, const char *a, const char *b,
                                const struct kc_stored_comparison *line, size_t count,
                                int64_t *id, struct kc_diag *diag)
{
  KC_ASSERT(!store->in_run);
  KC_ASSERT(count > 0);
  KC_TRY(kc_store_exec(store, "BEGIN IMMEDIATE", writing, diag));
  const enum kc_err err = insert_lines(store, a, b, line, count, id, diag);
  if (err == KC_OK) return kc_store_exec(store, "COMMIT", writing, diag);
  struct kc_diag second;
  (void)kc_store_exec(store, "ROLLBACK", writing, &second);
  return err;
}
