/* `db verify` of sweeps: what can be said of their rows without computing a point again. */
#include <stdio.h>
#include <string.h>
#include "sim/store/store_internal.h"

/* sweep, point, what is wrong with it. */
static const char point_check[] =
  "SELECT sweep_id, number, 'lies beyond its sweep' FROM point JOIN sweep ON id = sweep_id"
  " WHERE number >= points UNION ALL "
  "SELECT sweep_id, number, 'is done and has no config_sha256' FROM point"
  " WHERE status = 'done' AND (config_sha256 IS NULL OR length(config_sha256) <> 64) UNION ALL "
  "SELECT sweep_id, number, 'ran and has no result_sha256' FROM point"
  " WHERE trust IS NOT NULL AND (result_sha256 IS NULL OR length(result_sha256) <> 64) UNION ALL "
  "SELECT sweep_id, number, 'is ' || status || ' and gives no reason' FROM point"
  " WHERE status <> 'done' AND reason IS NULL UNION ALL "
  "SELECT sweep_id, number, 'is done and has no figures' FROM point p"
  " WHERE status = 'done' AND NOT EXISTS (SELECT 1 FROM point_figure f"
  " WHERE f.sweep_id = p.sweep_id AND f.number = p.number) UNION ALL "
  "SELECT sweep_id, number, 'does not say what was varied' FROM point p"
  " WHERE NOT EXISTS (SELECT 1 FROM point_set s"
  " WHERE s.sweep_id = p.sweep_id AND s.number = p.number) "
  "ORDER BY 1, 2";

static void visit_point(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 3);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "point %lld of sweep %lld %s; rows were added, changed or lost",
                   (long long)sqlite3_column_int64(row, 1),
                   (long long)sqlite3_column_int64(row, 0), kc_store_text(row, 2));
}

/* The same inputs gave the same result wherever they stand. */
static const char twin_check[] =
  "SELECT config_sha256, count(DISTINCT result_sha256) FROM point"
  " WHERE config_sha256 IS NOT NULL AND result_sha256 IS NOT NULL"
  " GROUP BY config_sha256 HAVING count(DISTINCT result_sha256) > 1 ORDER BY 1";

static void visit_twin(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_int64(row, 1) > 1);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "points with config_sha256 %s have %lld different results; one of them was "
                   "changed", kc_store_text(row, 0), (long long)sqlite3_column_int64(row, 1));
}

static void visit_scenario(struct kc_store *store, sqlite3_stmt *row,
                           struct kc_diag_list *problems)
{
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  const char *text = kc_store_text(row, 2);
  KC_ASSERT(sqlite3_column_count(row) == 3);
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, text, strlen(text));
  kc_sha256_final_hex(&sha, hex);
  if (strcmp(hex, kc_store_text(row, 1)) == 0) return;
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "the scenario of sweep %lld does not give its scenario_sha256; it was changed",
                   (long long)sqlite3_column_int64(row, 0));
}

/* ---- the digests of points ---- */

/* Everything that a point's digest is of, in its order; one merge of three trees. */
static const char digest_rows[] =
  "SELECT sweep_id, number, 0 AS part, 0 AS place, status, reason, trust, config_sha256,"
  " result_sha256, point_sha256 FROM point WHERE point_sha256 IS NOT NULL UNION ALL "
  "SELECT sweep_id, number, 1, position, key, value, NULL, NULL, NULL, NULL FROM point_set"
  " UNION ALL "
  "SELECT sweep_id, number, 2, figure, figure, value, NULL, NULL, NULL, NULL FROM point_figure "
  "ORDER BY 1, 2, 3, 4";

struct digesting {
  bool open; /* a point with a digest is being read */
  int64_t sweep, number;
  struct kc_sha256 sha;
  char wanted[KC_SHA256_HEX_BYTES];
};

static void end_point(struct kc_store *store, struct digesting *d, struct kc_diag_list *problems)
{
  char hex[KC_SHA256_HEX_BYTES];
  if (!d->open) return;
  d->open = false;
  kc_sha256_final_hex(&d->sha, hex);
  if (strcmp(hex, d->wanted) == 0) return;
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "point %lld of sweep %lld, its changes and figures do not give its "
                   "point_sha256; they were changed",
                   (long long)d->number, (long long)d->sweep);
}

static void begin_point(struct digesting *d, sqlite3_stmt *row)
{
  KC_ASSERT(!d->open);
  d->open = true;
  d->sweep = sqlite3_column_int64(row, 0);
  d->number = sqlite3_column_int64(row, 1);
  kc_point_digest_begin(&d->sha, d->number,
                        &(struct kc_point_text){kc_store_text(row, 4), kc_store_text(row, 5),
                                                kc_store_text(row, 6), kc_store_text(row, 7),
                                                kc_store_text(row, 8)});
  snprintf(d->wanted, sizeof d->wanted, "%s", kc_store_text(row, 9));
}

static void verify_digests(struct kc_store *store, struct kc_diag_list *problems)
{
  struct digesting d = {0};
  sqlite3_stmt *row = NULL;
  int code = sqlite3_prepare_v2(store->db, digest_rows, -1, &row, NULL);
  while (code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
    const int part = sqlite3_column_int(row, 2);
    code = SQLITE_OK;
    if (part == 0) {
      end_point(store, &d, problems);
      begin_point(&d, row);
    } else if (!d.open || d.number != sqlite3_column_int64(row, 1) ||
               d.sweep != sqlite3_column_int64(row, 0)) {
      end_point(store, &d, problems); /* rows of a point without a digest */
    } else if (part == 1) {
      kc_point_digest_set(&d.sha, kc_store_text(row, 4), kc_store_text(row, 5));
    } else {
      kc_point_digest_figure(&d.sha, kc_store_text(row, 4), sqlite3_column_double(row, 5));
    }
  }
  KC_ASSERT(code != SQLITE_OK);
  if (code == SQLITE_DONE) end_point(store, &d, problems);
  if (code != SQLITE_DONE) kc_store_add_failure(store, code, problems);
  sqlite3_finalize(row);
}

/* ---- plans ---- */

/* sweep, what is wrong with the answer. A winner meets every requirement, and nothing that was
 * run and meets them costs less. */
static const char plan_check[] =
  "WITH met AS (SELECT c.sweep_id, c.number, min(CASE"
  "  WHEN f.value IS NULL THEN 0 WHEN r.wants_low THEN f.value <= r.limit_value"
  "  ELSE f.value >= r.limit_value END) AS met"
  " FROM plan_candidate c JOIN plan_requirement r USING (sweep_id)"
  " LEFT JOIN point_figure f ON f.sweep_id = c.sweep_id AND f.number = c.number"
  "  AND f.figure = r.figure GROUP BY c.sweep_id, c.number),"
  "named(sweep_id, what, number) AS ("
  " SELECT sweep_id, 'winner', winner FROM plan UNION ALL"
  " SELECT sweep_id, 'runner-up', runner_up FROM plan UNION ALL"
  " SELECT sweep_id, 'nearest miss', near_miss FROM plan) "
  "SELECT sweep_id, 'names as its ' || what || ' a point that is not among its candidates'"
  " FROM named n WHERE number IS NOT NULL AND NOT EXISTS (SELECT 1 FROM plan_candidate c"
  " WHERE c.sweep_id = n.sweep_id AND c.number = n.number) UNION ALL "
  "SELECT p.sweep_id, 'has a winner that misses a requirement' FROM plan p JOIN met m"
  " ON m.sweep_id = p.sweep_id AND m.number = p.winner WHERE NOT m.met UNION ALL "
  "SELECT p.sweep_id, 'has a winner and a cheaper candidate that meets everything' FROM plan p"
  " JOIN plan_candidate w ON w.sweep_id = p.sweep_id AND w.number = p.winner"
  " WHERE p.objective = 'usd' AND EXISTS (SELECT 1 FROM plan_candidate c"
  " WHERE c.sweep_id = p.sweep_id AND c.excess <= 1 AND c.usd_hour < w.usd_hour) UNION ALL "
  "SELECT c.sweep_id, 'calls point ' || c.number || ' good and it misses a requirement'"
  " FROM plan_candidate c JOIN met m USING (sweep_id, number) WHERE c.excess <= 1 AND NOT m.met "
  "ORDER BY 1, 2";

static void visit_plan(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 2);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "the plan of sweep %lld %s; rows were added, changed or lost",
                   (long long)sqlite3_column_int64(row, 0), kc_store_text(row, 1));
}

void kc_store_verify_sweeps(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(!store->in_run);
  kc_store_for_each_row(store, "SELECT id, scenario_sha256, scenario_text FROM sweep ORDER BY id",
                        visit_scenario, problems);
  kc_store_for_each_row(store, point_check, visit_point, problems);
  kc_store_for_each_row(store, twin_check, visit_twin, problems);
  verify_digests(store, problems);
  kc_store_for_each_row(store, plan_check, visit_plan, problems);
}
