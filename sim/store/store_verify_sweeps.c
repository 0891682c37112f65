/* `db verify` of sweeps: what can be said of their rows without computing a point again. */
#include <string.h>

#include "engine/base/digest.h"
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

void kc_store_verify_sweeps(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(!store->in_run);
  kc_store_for_each_row(store, "SELECT id, scenario_sha256, scenario_text FROM sweep ORDER BY id",
                        visit_scenario, problems);
  kc_store_for_each_row(store, point_check, visit_point, problems);
  kc_store_for_each_row(store, twin_check, visit_twin, problems);
}
