/* Sweeps of several files in one, and digests of tables (see store_sweep.h).
 *
 *   main.point <--- other.point     attached under that name, sweeps matched by their digest
 *
 * The rows that a merge leaves do not depend on how points were dealt out to the files: they are
 * keyed by sweep and number, and sweeps are numbered in the order of their digests.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "sim/store/store_internal.h"
#include "sim/store/store_sweep.h"

static const char merging[] = "merging sweeps";

/* ---- merging ---- */

/* Sweeps of all files, before any point: they are numbered in the order of their digests. */
static const char make_tables[] =
  "CREATE TEMP TABLE seen (name, sweep_sha256 TEXT PRIMARY KEY, scenario_sha256, scenario_text,"
  " sets, axes, points);"
  "CREATE TEMP TABLE same (mine INTEGER PRIMARY KEY, theirs INTEGER NOT NULL);"
  "CREATE TEMP TABLE fresh (mine INTEGER, theirs INTEGER, number INTEGER)";
static const char drop_tables[] =
  "DROP TABLE IF EXISTS temp.seen; DROP TABLE IF EXISTS temp.same; DROP TABLE IF EXISTS temp.fresh";

/* Points of the other file with the columns that this program knows. */
static const char see_points[] = "CREATE TEMP VIEW their_point AS SELECT * FROM other.point";
static const char see_older_points[] =
  "CREATE TEMP VIEW their_point AS SELECT *, NULL AS point_sha256 FROM other.point";
static const char see_sweeps[] =
  "INSERT OR IGNORE INTO temp.seen SELECT name, sweep_sha256, scenario_sha256, scenario_text, sets,"
  " axes, points FROM other.sweep";
static const char add_sweeps[] =
  "INSERT INTO main.sweep(name, sweep_sha256, scenario_sha256, scenario_text, sets, axes, points)"
  " SELECT * FROM temp.seen WHERE sweep_sha256 NOT IN (SELECT sweep_sha256 FROM main.sweep)"
  " ORDER BY sweep_sha256";

/* Numbers of a sweep: mine, and theirs. */
static const char match_sweeps[] =
  "DELETE FROM temp.same;"
  "INSERT INTO temp.same SELECT m.id, o.id FROM main.sweep m JOIN other.sweep o"
  " USING (sweep_sha256)";

/* A point that both have and neither gave up on, and that says two things. */
static const char find_conflict[] =
  "SELECT s.mine, m.number, m.config_sha256 IS o.config_sha256 FROM temp.same s"
  " JOIN main.point m ON m.sweep_id = s.mine"
  " JOIN other.point o ON o.sweep_id = s.theirs AND o.number = m.number"
  " WHERE m.status != 'failed' AND o.status != 'failed' AND ("
  "m.status IS NOT o.status OR m.reason IS NOT o.reason OR m.trust IS NOT o.trust"
  " OR m.config_sha256 IS NOT o.config_sha256 OR m.result_sha256 IS NOT o.result_sha256"
  " OR EXISTS (SELECT figure, value FROM main.point_figure"
  "  WHERE sweep_id = s.mine AND number = m.number EXCEPT SELECT figure, value"
  "  FROM other.point_figure WHERE sweep_id = s.theirs AND number = m.number)"
  " OR EXISTS (SELECT figure, value FROM other.point_figure"
  "  WHERE sweep_id = s.theirs AND number = m.number EXCEPT SELECT figure, value"
  "  FROM main.point_figure WHERE sweep_id = s.mine AND number = m.number))"
  " ORDER BY s.mine, m.number LIMIT 1";

/* Failures give way to answers, and to failures whose sentence sorts before theirs, so that the
 * order of the files does not matter. */
static const char take_points[] =
  "DELETE FROM main.point WHERE status = 'failed' AND EXISTS (SELECT 1 FROM temp.same s"
  " JOIN temp.their_point o ON o.sweep_id = s.theirs WHERE s.mine = main.point.sweep_id"
  " AND o.number = main.point.number AND (o.status != 'failed' OR o.reason < main.point.reason));"
  "DELETE FROM temp.fresh;"
  "INSERT INTO temp.fresh SELECT s.mine, s.theirs, o.number FROM temp.same s"
  " JOIN temp.their_point o ON o.sweep_id = s.theirs WHERE NOT EXISTS (SELECT 1 FROM main.point m"
  " WHERE m.sweep_id = s.mine AND m.number = o.number);"
  "INSERT INTO main.point SELECT f.mine, o.number, o.status, o.reason, o.trust, o.config_sha256,"
  " o.result_sha256, o.point_sha256 FROM temp.fresh f JOIN temp.their_point o"
  " ON o.sweep_id = f.theirs AND o.number = f.number;"
  "INSERT INTO main.point_set SELECT f.mine, o.number, o.position, o.key, o.value"
  " FROM temp.fresh f JOIN other.point_set o ON o.sweep_id = f.theirs AND o.number = f.number;"
  "INSERT INTO main.point_figure SELECT f.mine, o.number, o.figure, o.value FROM temp.fresh f"
  " JOIN other.point_figure o ON o.sweep_id = f.theirs AND o.number = f.number;"
  /* What both have and only the other one's program gave a digest. */
  "UPDATE main.point SET point_sha256 = o.point_sha256 FROM temp.same s JOIN temp.their_point o"
  " ON o.sweep_id = s.theirs WHERE s.mine = main.point.sweep_id AND o.number = main.point.number"
  " AND main.point.point_sha256 IS NULL AND main.point.status = o.status"
  " AND main.point.reason IS o.reason AND o.point_sha256 IS NOT NULL";

/* Answers of plans that are not here yet; equal points gave equal answers. */
static const char take_plans[] =
  "DELETE FROM temp.fresh;"
  "INSERT INTO temp.fresh SELECT s.mine, s.theirs, NULL FROM temp.same s JOIN other.plan o"
  " ON o.sweep_id = s.theirs WHERE NOT EXISTS (SELECT 1 FROM main.plan m"
  " WHERE m.sweep_id = s.mine);"
  "INSERT INTO main.plan SELECT f.mine, objective, spare, headroom, lost, budget_usd_hour,"
  " gpus_max, winner, as_bought, runner_up, near_miss, limited_by, nearest, prefill_share,"
  " decode_share, host_share, idle_share, memory_share, command, command_bought, combinations,"
  " no_fit, refused, candidates, runs, runs_after, by_price, by_bound, by_twin, by_replicas,"
  " by_faster, why_no_fit, why_refused FROM temp.fresh f JOIN other.plan o"
  " ON o.sweep_id = f.theirs;"
  "INSERT INTO main.plan_requirement SELECT f.mine, position, text, figure, wants_low,"
  " limit_value FROM temp.fresh f JOIN other.plan_requirement o ON o.sweep_id = f.theirs;"
  "INSERT INTO main.plan_candidate SELECT f.mine, o.number, gpu, replicas, gpus_replica, tensor,"
  " weights, kv, page_size, chunk, max_running, gpus, usd_hour, excess, worst FROM temp.fresh f"
  " JOIN other.plan_candidate o ON o.sweep_id = f.theirs;"
  "INSERT INTO main.plan_unit SELECT f.mine, position, what, o.number, why, gpus, usd_hour, excess"
  " FROM temp.fresh f JOIN other.plan_unit o ON o.sweep_id = f.theirs";

static enum kc_err refuse_conflict(struct kc_store *store, const char *from, struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_ASSERT(from != NULL);
  KC_TRY(kc_store_prepare(store, find_conflict, &row, merging, diag));
  const int code = sqlite3_step(row);
  enum kc_err err = KC_OK;
  if (code == SQLITE_ROW) {
    const bool same_inputs = sqlite3_column_int(row, 2) != 0;
    err = kc_fail_at(diag, KC_ERR_STORE, from, 0, 0,
                     "point %lld of sweep %lld says something else here than in %s, %s; nothing of "
                     "this file was merged", (long long)sqlite3_column_int64(row, 1),
                     (long long)sqlite3_column_int64(row, 0), store->path,
                     same_inputs ? "from the same inputs: one of the files is not what kvcap wrote"
                                 : "because it was computed from other inputs (model, GPU, trace, "
                                   "program); compute both with the same");
  } else if (code != SQLITE_DONE) {
    err = kc_store_fail(store, code, merging, diag);
  }
  sqlite3_finalize(row);
  return err;
}

/* How the other file's rows are reached, by its schema. */
static enum kc_err look_at_points(struct kc_store *store, bool *older, struct kc_diag *diag)
{
  int64_t version = 0;
  KC_ASSERT(older != NULL);
  KC_TRY(kc_store_scalar(store, "PRAGMA other.user_version", &version, merging, diag));
  *older = version < KC_STORE_SCHEMA;
  return kc_store_exec(store, *older ? see_older_points : see_points, merging, diag);
}

/* Runs within a transaction; with the points of one file. */
static enum kc_err take(struct kc_store *store, const char *from, struct kc_diag *diag)
{
  KC_ASSERT(!store->in_run);
  bool older;
  KC_TRY(kc_store_begin(store, merging, diag));
  enum kc_err err = kc_store_exec(store, match_sweeps, merging, diag);
  if (err == KC_OK) err = refuse_conflict(store, from, diag);
  if (err == KC_OK) err = look_at_points(store, &older, diag);
  if (err == KC_OK) err = kc_store_exec(store, take_points, merging, diag);
  if (err == KC_OK && !older) err = kc_store_exec(store, take_plans, merging, diag);
  if (err == KC_OK) err = kc_store_exec(store, "DROP VIEW temp.their_point", merging, diag);
  return kc_store_finish(store, err, merging, diag);
}

static enum kc_err see(struct kc_store *store, const char *from, struct kc_diag *diag)
{
  KC_ASSERT(from != NULL);
  return kc_store_exec(store, see_sweeps, merging, diag);
}

/* Calls `work` while the file is attached as `other`. */
static enum kc_err with_attached(struct kc_store *store, const char *from,
                                 enum kc_err (*work)(struct kc_store *store, const char *from,
                                                     struct kc_diag *diag),
                                 struct kc_diag *diag)
{
  struct kc_store *checked = NULL;
  KC_TRY(kc_store_open_read(&checked, from, diag)); /* whose file is it, and of which schema? */
  kc_store_close(checked);
  KC_ASSERT(sqlite3_get_autocommit(store->db) != 0);
  char *attach = sqlite3_mprintf("ATTACH DATABASE '%q%q' AS other", from[0] == '/' ? "" : "./",
                                 from);
  if (attach == NULL) return kc_store_fail(store, SQLITE_NOMEM, merging, diag);
  enum kc_err err = kc_store_exec(store, attach, merging, diag);
  sqlite3_free(attach);
  if (err != KC_OK) return err;
  err = work(store, from, diag);
  sqlite3_exec(store->db, "DETACH DATABASE other", NULL, NULL, NULL);
  return err;
}

enum kc_err kc_store_merge(struct kc_store *store, const char *const *from, size_t count,
                           struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && !store->read_only);
  KC_ASSERT(from != NULL && count > 0);
  enum kc_err err = kc_store_exec(store, make_tables, merging, diag);
  for (size_t i = 0; err == KC_OK && i < count; i++) {
    err = with_attached(store, from[i], see, diag);
  }
  if (err == KC_OK) err = kc_store_exec(store, add_sweeps, merging, diag);
  for (size_t i = 0; err == KC_OK && i < count; i++) {
    err = with_attached(store, from[i], take, diag);
  }
  sqlite3_exec(store->db, drop_tables, NULL, NULL, NULL);
  return err;
}

/* ---- digests ---- */

static const char digesting[] = "reading its tables";

/* Type and bytes of a column, with its length: no two rows give the same bytes. */
static void add_column(struct kc_sha256 *sha, sqlite3_stmt *row, int column)
{
  const int type = sqlite3_column_type(row, column);
  KC_ASSERT(type >= 0);
  kc_sha256_update_u64(sha, (uint64_t)type);
  if (type == SQLITE_INTEGER) {
    kc_sha256_update_u64(sha, (uint64_t)sqlite3_column_int64(row, column));
  } else if (type == SQLITE_FLOAT) {
    const double value = sqlite3_column_double(row, column);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    kc_sha256_update_u64(sha, bits);
  } else if (type != SQLITE_NULL) {
    const void *bytes = sqlite3_column_blob(row, column);
    const int count = sqlite3_column_bytes(row, column);
    kc_sha256_update_u64(sha, (uint64_t)count);
    if (count > 0) kc_sha256_update(sha, bytes, (size_t)count);
  }
}

/* "SELECT * FROM "t" ORDER BY "key1", "key2"", freed by sqlite3_free; NULL when memory ran out. */
static char *select_in_order(struct kc_store *store, const char *table)
{
  sqlite3_stmt *key = NULL;
  struct kc_diag ignored;
  sqlite3_str *sql = sqlite3_str_new(store->db);
  KC_ASSERT(table[0] != '\0');
  sqlite3_str_appendf(sql, "SELECT * FROM main.\"%w\"", table);
  if (kc_store_prepare(store,
                       "SELECT name FROM pragma_table_info(?1, 'main') WHERE pk > 0 ORDER BY pk",
                       &key, digesting, &ignored) == KC_OK) {
    sqlite3_bind_text(key, 1, table, -1, SQLITE_TRANSIENT);
    for (bool first = true; sqlite3_step(key) == SQLITE_ROW; first = false) {
      sqlite3_str_appendf(sql, "%s\"%w\"", first ? " ORDER BY " : ", ", kc_store_text(key, 0));
    }
  }
  sqlite3_finalize(key);
  return sqlite3_str_finish(sql);
}

static enum kc_err visit_table(struct kc_store *store, const char *table, kc_table_visitor visit,
                               void *context, struct kc_diag *diag)
{
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  sqlite3_stmt *row = NULL;
  uint64_t rows = 0;
  int code;
  char *sql = select_in_order(store, table);
  KC_ASSERT(visit != NULL);
  if (sql == NULL) return kc_store_fail(store, SQLITE_NOMEM, digesting, diag);
  const enum kc_err err = kc_store_prepare(store, sql, &row, digesting, diag);
  sqlite3_free(sql);
  if (err != KC_OK) return err;
  kc_sha256_init(&sha);
  for (; (code = sqlite3_step(row)) == SQLITE_ROW; rows++) {
    for (int c = 0; c < sqlite3_column_count(row); c++) add_column(&sha, row, c);
  }
  sqlite3_finalize(row);
  if (code != SQLITE_DONE) return kc_store_fail(store, code, digesting, diag);
  kc_sha256_final_hex(&sha, hex);
  return visit(context, table, rows, hex);
}

enum kc_err kc_store_each_table(struct kc_store *store, kc_table_visitor visit, void *context,
                                struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  int code = SQLITE_ROW;
  KC_ASSERT(store != NULL && !store->in_run);
  KC_TRY(kc_store_prepare(store, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name "
                          "NOT LIKE 'sqlite_%' AND name NOT IN ('host', 'measurement') "
                          "ORDER BY name", &row, digesting, diag));
  enum kc_err err = KC_OK;
  while (err == KC_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
    err = visit_table(store, kc_store_text(row, 0), visit, context, diag);
  }
  if (err == KC_OK && code != SQLITE_DONE) err = kc_store_fail(store, code, digesting, diag);
  sqlite3_finalize(row);
  return err;
}
