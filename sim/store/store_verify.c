/* `db verify`: is the file whole, do the rows belong together, do they still give the same hash.
 *
 *   integrity_check    pages, indices, CHECK and NOT NULL constraints
 *   foreign_key_check  no row of a child table without its run
 *   counts             rows against the figures of the run row
 *   hashes             result_sha256 again, from request and histogram rows, where all were kept
 *
 * Every problem is listed; one check does not stop the next, except that a damaged file is not
 * searched further.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store/store_internal.h"

static const char doing[] = "verifying it";

/* Adds what kc_store_fail says about `code`. */
static void add_failure(struct kc_store *store, int code, struct kc_diag_list *problems)
{
  KC_ASSERT(problems != NULL);
  struct kc_diag diag;
  kc_store_fail(store, code, doing, &diag);
  kc_diag_list_add(problems, diag.code, diag.path, 0, 0, "%s", diag.text);
}

/* Calls `visit` on every row of `sql`. */
static void for_each_row(struct kc_store *store, const char *sql,
                         void (*visit)(struct kc_store *store, sqlite3_stmt *row,
                                       struct kc_diag_list *problems),
                         struct kc_diag_list *problems)
{
  KC_ASSERT(visit != NULL);
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, sql, -1, &row, NULL);
  if (code == SQLITE_OK) {
    while ((code = sqlite3_step(row)) == SQLITE_ROW) visit(store, row, problems);
  }
  if (code != SQLITE_DONE) add_failure(store, code, problems);
  sqlite3_finalize(row);
}

/* ---- the file ---- */

static void visit_integrity(struct kc_store *store, sqlite3_stmt *row,
                            struct kc_diag_list *problems)
{
  const char *text = kc_store_text(row, 0);
  if (strcmp(text, "ok") == 0) return;
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "the database is damaged: %s; restore it from a copy", text);
}

static void visit_orphan(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "%lld rows of table %s belong to no run; a run was stored in part or its row "
                   "was deleted", (long long)sqlite3_column_int64(row, 1), kc_store_text(row, 0));
}

/* ---- counts ---- */

static void visit_count(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "run %lld has %lld %s and its row says %lld; rows were added, changed or lost",
                   (long long)sqlite3_column_int64(row, 0),
                   (long long)sqlite3_column_int64(row, 2), kc_store_text(row, 1),
                   (long long)sqlite3_column_int64(row, 3));
}

/* run, what, found, stated: rows that differ. */
static const char count_check[] =
  "WITH status_rows AS ("
  " SELECT run_id, count(*) AS requests,"
  " sum(status = 'completed') AS completed, sum(status = 'rejected') AS rejected,"
  " sum(status = 'failed') AS failed, sum(status = 'cancelled') AS cancelled,"
  " sum(status = 'timed_out') AS timed_out, sum(output_tokens) AS output_tokens"
  " FROM request GROUP BY run_id),"
  "pair AS ("
  " SELECT run.*, coalesce(requests, 0) AS found_requests,"
  " coalesce(completed, 0) AS found_completed, coalesce(rejected, 0) AS found_rejected,"
  " coalesce(failed, 0) AS found_failed, coalesce(cancelled, 0) AS found_cancelled,"
  " coalesce(timed_out, 0) AS found_timed_out,"
  " coalesce(status_rows.output_tokens, 0) AS found_tokens"
  " FROM run LEFT JOIN status_rows ON run_id = id WHERE rows_kept = 'all'),"
  "bucket AS (SELECT run_id, metric, sum(count) AS count FROM histogram GROUP BY 1, 2)"
  "SELECT id, 'request rows', found_requests, requests_total FROM pair"
  " WHERE found_requests <> requests_total UNION ALL "
  "SELECT id, 'completed requests', found_completed, requests_completed FROM pair"
  " WHERE found_completed <> requests_completed UNION ALL "
  "SELECT id, 'rejected requests', found_rejected, requests_rejected FROM pair"
  " WHERE found_rejected <> requests_rejected UNION ALL "
  "SELECT id, 'failed requests', found_failed, requests_failed FROM pair"
  " WHERE found_failed <> requests_failed UNION ALL "
  "SELECT id, 'cancelled requests', found_cancelled, requests_cancelled FROM pair"
  " WHERE found_cancelled <> requests_cancelled UNION ALL "
  "SELECT id, 'timed-out requests', found_timed_out, requests_timed_out FROM pair"
  " WHERE found_timed_out <> requests_timed_out UNION ALL "
  "SELECT id, 'output tokens', found_tokens, output_tokens FROM pair"
  " WHERE found_tokens <> output_tokens UNION ALL "
  "SELECT id, 'requests in the TTFT histogram', coalesce(count, 0), ttft_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'ttft'"
  " WHERE coalesce(count, 0) <> ttft_count UNION ALL "
  "SELECT id, 'requests in the TPOT histogram', coalesce(count, 0), tpot_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'tpot'"
  " WHERE coalesce(count, 0) <> tpot_count UNION ALL "
  "SELECT id, 'gaps in the ITL histogram', coalesce(count, 0), itl_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'itl'"
  " WHERE coalesce(count, 0) <> itl_count UNION ALL "
  "SELECT id, 'requests in the E2E histogram', coalesce(count, 0), e2e_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'e2e'"
  " WHERE coalesce(count, 0) <> e2e_count ORDER BY 1, 2";

/* ---- hashes ---- */

/* A run read back. Values come from a file that anybody may have changed: `sound` turns false at
 * the first that no run could have stored, and nothing of it reaches code that asserts. */
struct replica {
  int64_t run_id;
  struct kc_sha256 sha;
  struct kc_summary totals;
  struct kc_histogram itl;
  bool sound;
};

/* A column that must lie in [0, max]. */
static int64_t take(struct replica *replica, sqlite3_stmt *row, int column, int64_t max)
{
  KC_ASSERT(max > 0);
  const int64_t value = sqlite3_column_int64(row, column);
  if (value >= 0 && value <= max) return value;
  replica->sound = false;
  return 0;
}

static bool status_by_name(const char *name, enum kc_status *out)
{
  for (int i = 0; i < KC_STATUSES; i++) {
    if (strcmp(kc_status_name((enum kc_status)i), name) != 0) continue;
    *out = (enum kc_status)i;
    return true;
  }
  return false;
}

static bool reason_by_name(const char *name, enum kc_reason *out)
{
  for (int i = 0; i < KC_REASONS; i++) {
    if (strcmp(kc_reason_name((enum kc_reason)i), name) != 0) continue;
    *out = (enum kc_reason)i;
    return true;
  }
  return false;
}

static void add_request(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(sqlite3_column_count(row) == 8);
  struct kc_outcome outcome = {
    .request = (uint32_t)take(replica, row, 0, UINT32_MAX),
    .output_tokens = (uint32_t)take(replica, row, 3, UINT32_MAX),
    .preemptions = (uint32_t)take(replica, row, 4, UINT32_MAX),
    .first_token_ps = KC_PS_NEVER,
    .end_ps = take(replica, row, 6, INT64_MAX),
    .resident_ps = take(replica, row, 7, INT64_MAX)};
  if (sqlite3_column_type(row, 5) != SQLITE_NULL) {
    outcome.first_token_ps = take(replica, row, 5, INT64_MAX);
  }
  if (!status_by_name(kc_store_text(row, 1), &outcome.status) ||
      !reason_by_name(kc_store_text(row, 2), &outcome.reason)) {
    replica->sound = false;
  }
  if (replica->sound) kc_canonical_outcome(&replica->sha, &outcome);
}

static void add_bucket(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(replica->itl.count != NULL);
  const kc_ps low_ps = take(replica, row, 0, INT64_MAX);
  const uint64_t count = (uint64_t)take(replica, row, 1, INT64_MAX);
  if (!replica->sound) return;
  struct kc_histogram *itl = &replica->itl;
  itl->count[kc_histogram_bucket((uint64_t)low_ps)] += count;
  itl->total += count;
  if (low_ps < itl->min_ps) itl->min_ps = low_ps;
  if (low_ps > itl->max_ps) itl->max_ps = low_ps;
}

static void add_totals(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(sqlite3_column_count(row) == 13);
  struct kc_summary *totals = &replica->totals;
  totals->requests_total = (uint64_t)take(replica, row, 0, INT64_MAX);
  totals->input_tokens = (uint64_t)take(replica, row, 1, INT64_MAX);
  totals->output_tokens = (uint64_t)take(replica, row, 2, INT64_MAX);
  totals->steps = (uint64_t)take(replica, row, 3, INT64_MAX);
  totals->preemptions = (uint64_t)take(replica, row, 4, INT64_MAX);
  totals->max_running = (uint32_t)take(replica, row, 5, UINT32_MAX);
  totals->max_waiting = (uint32_t)take(replica, row, 6, UINT32_MAX);
  totals->kv_peak_tokens = (uint64_t)take(replica, row, 7, INT64_MAX);
  totals->kv_peak_pages = (uint64_t)take(replica, row, 8, INT64_MAX);
  totals->tokens_clipped_requests = (uint64_t)take(replica, row, 9, INT64_MAX);
  totals->makespan_ps = take(replica, row, 10, INT64_MAX);
  totals->busy_ps = take(replica, row, 11, INT64_MAX);
  snprintf(totals->result_sha256, sizeof totals->result_sha256, "%s", kc_store_text(row, 12));
}

/* Calls `add` on every row of `sql`, whose only parameter is the run. */
static int read_rows(struct kc_store *store, struct replica *replica, const char *sql,
                     void (*add)(struct replica *replica, sqlite3_stmt *row))
{
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, sql, -1, &row, NULL);
  if (code != SQLITE_OK) return code;
  KC_ASSERT(sqlite3_bind_parameter_count(row) == 1);
  sqlite3_bind_int64(row, 1, replica->run_id);
  while ((code = sqlite3_step(row)) == SQLITE_ROW) add(replica, row);
  sqlite3_finalize(row);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int read_replica(struct kc_store *store, struct replica *replica)
{
  KC_ASSERT(replica->sound);
  kc_canonical_begin(&replica->sha);
  int code = read_rows(store, replica,
                       "SELECT requests_total, input_tokens, output_tokens, steps, preemptions,"
                       " max_running, max_waiting, kv_peak_tokens, kv_peak_pages,"
                       " tokens_clipped_requests, makespan_ps, busy_ps, result_sha256"
                       " FROM run WHERE id = ?", add_totals);
  if (code == SQLITE_OK) {
    code = read_rows(store, replica,
                     "SELECT request, status, reason, output_tokens, preemptions, first_token_ps,"
                     " end_ps, resident_ps FROM request WHERE run_id = ? ORDER BY sequence",
                     add_request);
  }
  if (code == SQLITE_OK) {
    code = read_rows(store, replica,
                     "SELECT low_ps, count FROM histogram WHERE run_id = ? AND metric = 'itl'"
                     " ORDER BY low_ps", add_bucket);
  }
  return code;
}

static void visit_hash(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  struct replica replica = {.run_id = sqlite3_column_int64(row, 0), .sound = true};
  char found[KC_SHA256_HEX_BYTES];
  replica.itl = (struct kc_histogram){
    .count = calloc(KC_HISTOGRAM_BUCKETS, sizeof *replica.itl.count), .min_ps = KC_PS_NEVER};
  const int code = replica.itl.count == NULL ? SQLITE_NOMEM : read_replica(store, &replica);
  if (code != SQLITE_OK) {
    add_failure(store, code, problems);
  } else if (!replica.sound) {
    kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                     "run %lld holds a value that no run stores (a negative number or an unknown "
                     "status); its rows were changed", (long long)replica.run_id);
  } else {
    kc_canonical_end(&replica.sha, &replica.totals, &replica.itl, found);
    if (strcmp(found, replica.totals.result_sha256) != 0) {
      kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                       "the rows of run %lld give result_sha256 %s and its row says %s; rows were "
                       "changed, or another version of the program wrote them",
                       (long long)replica.run_id, found, replica.totals.result_sha256);
    }
  }
  free(replica.itl.count);
}

enum kc_err kc_store_verify(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(store != NULL && !store->in_run);
  KC_ASSERT(problems != NULL);
  kc_diag_list_init(problems);
  for_each_row(store, "PRAGMA integrity_check(32)", visit_integrity, problems);
  KC_TRY(kc_diag_list_result(problems));
  for_each_row(store,
               "SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 ORDER BY 1",
               visit_orphan, problems);
  for_each_row(store, count_check, visit_count, problems);
  for_each_row(store, "SELECT id FROM run WHERE rows_kept = 'all' ORDER BY id", visit_hash,
               problems);
  return kc_diag_list_result(problems);
}
