/* `db verify`: is the file whole, do the rows belong together, do they still give the same results.
 *
 *   integrity_check    pages, indices, CHECK and NOT NULL constraints
 *   foreign_key_check  no row of a child table without its run
 *   counts and sums    rows against the columns of the run row, and those against each other
 *   groups             figures by class, tenant and warmth against rows (store_groups.c)
 *   figures            latencies against histograms, all columns against the stored document
 *                      (store_verify_figures.c)
 *   rows               result_sha256 and latencies again, where all rows were kept
 *                      (store_verify_rows.c)
 *   sweeps             points within their sweep, with all that their status asks for, points and
 *                      scenarios by their digests, plans by their points (store_verify_sweeps.c)
 *
 * Every problem is listed; one check does not stop the next, except that a damaged file is not
 * searched further.
 */
#include <string.h>

#include "sim/store/store_internal.h"

static const char doing[] = "verifying it";

void kc_store_add_failure(struct kc_store *store, int sqlite_code, struct kc_diag_list *problems)
{
  KC_ASSERT(problems != NULL);
  struct kc_diag diag;
  kc_store_fail(store, sqlite_code, doing, &diag);
  kc_diag_list_add(problems, diag.code, diag.path, 0, 0, "%s", diag.text);
}

void kc_store_for_each_row(struct kc_store *store, const char *sql, kc_store_row_visitor visit,
                           struct kc_diag_list *problems)
{
  KC_ASSERT(visit != NULL);
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, sql, -1, &row, NULL);
  if (code == SQLITE_OK) {
    while ((code = sqlite3_step(row)) == SQLITE_ROW) visit(store, row, problems);
  }
  if (code != SQLITE_DONE) kc_store_add_failure(store, code, problems);
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
                   "%lld rows of table %s belong to no run, sweep or point; it was stored in part "
                   "or its row was deleted", (long long)sqlite3_column_int64(row, 1),
                   kc_store_text(row, 0));
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

/* The layout of a run says how to read its hash and its document, so the document must agree. */
static void visit_layout(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 2);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "run %lld has layout %lld, and its summary_json another schema or none that "
                   "this kvcap knows; it was changed, or a newer kvcap wrote it",
                   (long long)sqlite3_column_int64(row, 0),
                   (long long)sqlite3_column_int64(row, 1));
}

static const char layout_check[] =
  "SELECT id, layout FROM run WHERE layout NOT BETWEEN 1 AND " KC_LAYOUT_TEXT
  " OR (json_valid(summary_json) AND layout <> json_extract(summary_json, '$.schema'))"
  " ORDER BY id";

/* run, what, found, stated: rows that differ. Sums over the rows of a run are compared where all
 * were kept; the last two hold for every run (tokens are first tokens or end a gap). */
static const char count_check[] =
  "WITH total AS ("
  " SELECT run_id, count(*) AS requests,"
  " sum(status = 'completed') AS completed, sum(status = 'rejected') AS rejected,"
  " sum(status = 'failed') AS failed, sum(status = 'cancelled') AS cancelled,"
  " sum(status = 'timed_out') AS timed_out,"
  " sum(input_tokens) AS inputs, sum(output_tokens) AS outputs,"
  " sum(iif(status = 'completed', input_tokens, 0)) AS inputs_completed,"
  " sum(iif(status = 'completed', output_tokens, 0)) AS outputs_completed,"
  " sum(cached_tokens) AS cached, sum(recached_tokens) AS recached,"
  " sum(preemptions) AS preempted, max(end_ps) - min(arrival_ps) AS span_ps"
  " FROM request GROUP BY run_id),"
  "pair AS (SELECT * FROM run LEFT JOIN total ON run_id = id WHERE rows_kept = 'all'),"
  "bucket AS (SELECT run_id, metric, sum(count) AS count FROM histogram GROUP BY 1, 2),"
  "claim(id, what, found, stated) AS ("
  " SELECT id, 'request rows', requests, requests_total FROM pair UNION ALL"
  " SELECT id, 'request rows', (SELECT count(*) FROM request WHERE run_id = id),"
  " iif(rows_kept = 'none', 0, (requests_total + 1023) / 1024) FROM run WHERE rows_kept <> 'all'"
  " UNION ALL"
  " SELECT id, 'completed requests', completed, requests_completed FROM pair UNION ALL"
  " SELECT id, 'rejected requests', rejected, requests_rejected FROM pair UNION ALL"
  " SELECT id, 'failed requests', failed, requests_failed FROM pair UNION ALL"
  " SELECT id, 'cancelled requests', cancelled, requests_cancelled FROM pair UNION ALL"
  " SELECT id, 'timed-out requests', timed_out, requests_timed_out FROM pair UNION ALL"
  " SELECT id, 'input tokens', inputs, input_tokens FROM pair UNION ALL"
  " SELECT id, 'output tokens', outputs, output_tokens FROM pair UNION ALL"
  " SELECT id, 'input tokens of completed requests', inputs_completed, input_tokens_completed"
  " FROM pair UNION ALL"
  " SELECT id, 'output tokens of completed requests', outputs_completed,"
  " output_tokens_completed FROM pair UNION ALL"
  " SELECT id, 'preemptions', preempted, preemptions FROM pair UNION ALL"
  " SELECT id, 'cached tokens', cached, cached_tokens FROM pair UNION ALL"
  " SELECT id, 'recached tokens', recached, recached_tokens FROM pair UNION ALL"
  " SELECT id, 'picoseconds from first arrival to last end', span_ps, makespan_ps"
  " FROM pair UNION ALL"
  " SELECT id, 'requests in the TTFT histogram', count, ttft_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'ttft' UNION ALL"
  " SELECT id, 'requests in the TPOT histogram', count, tpot_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'tpot' UNION ALL"
  " SELECT id, 'gaps in the ITL histogram', count, itl_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'itl' UNION ALL"
  " SELECT id, 'requests in the E2E histogram', count, e2e_count"
  " FROM run LEFT JOIN bucket ON run_id = id AND metric = 'e2e' UNION ALL"
  " SELECT id, 'tokens in the TTFT and ITL histograms', ttft_count + itl_count, output_tokens"
  " FROM run UNION ALL"
  " SELECT id, 'completed requests by their E2E times', e2e_count, requests_completed FROM run) "
  "SELECT id, what, coalesce(found, 0), stated FROM claim WHERE coalesce(found, 0) <> stated"
  " ORDER BY 1, 2";

static void count_older(struct kc_store *store, struct kc_store_older *older,
                        struct kc_diag_list *problems)
{
  struct kc_diag why;
  KC_ASSERT(older != NULL);
  if (kc_store_scalar(store, "SELECT count(*) FROM run WHERE layout < " KC_LAYOUT_TEXT,
                      &older->runs, doing, &why) == KC_OK &&
      kc_store_scalar(store, "SELECT count(*) FROM point WHERE point_sha256 IS NULL",
                      &older->points, doing, &why) == KC_OK) {
    return;
  }
  kc_diag_list_add(problems, why.code, why.path, 0, 0, "%s", why.text);
}

enum kc_err kc_store_verify(struct kc_store *store, struct kc_store_older *older,
                            struct kc_diag_list *problems)
{
  KC_ASSERT(store != NULL && !store->in_run);
  KC_ASSERT(problems != NULL);
  kc_diag_list_init(problems);
  if (older != NULL) *older = (struct kc_store_older){0};
  kc_store_for_each_row(store, "PRAGMA integrity_check(32)", visit_integrity, problems);
  KC_TRY(kc_diag_list_result(problems));
  kc_store_for_each_row(
      store, "SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 ORDER BY 1",
      visit_orphan, problems);
  kc_store_for_each_row(store, count_check, visit_count, problems);
  kc_store_for_each_row(store, layout_check, visit_layout, problems);
  kc_store_verify_rows(store, problems);
  kc_store_verify_figures(store, problems);
  kc_store_verify_groups(store, problems);
  kc_store_verify_sweeps(store, problems);
  if (older != NULL) count_older(store, older, problems);
  return kc_diag_list_result(problems);
}
