/* Figures of groups of requests (sim/metrics/groups.h): writing them with a run, and verifying them
 * against the rows of the requests, where all of those were kept.
 *
 *   run_group   warmth 0 cold, 1 warm | class 0, 1, ... by name | tenants that had requests
 */
#include <stdio.h>

#include "sim/store/store_internal.h"

static const char insert_sql[] =
  "INSERT INTO run_group VALUES (?,?,?,?, ?,?,?,?,?,?, ?,?,?,?,?,?,"
  " ?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?)";
enum { FIRST_STATISTIC = 17, STATISTIC_COLUMNS = 8 };

/* NULL where there is no request to speak of. */
static void bind_statistic(sqlite3_stmt *row, int column, const struct kc_statistic *s)
{
  const kc_ps value[] = {s->mean_ps, s->p50_ps, s->p90_ps, s->p95_ps,
                         s->p99_ps,  s->min_ps, s->max_ps};
  KC_ASSERT(s->count <= INT64_MAX);
  sqlite3_bind_int64(row, column, (int64_t)s->count);
  for (int i = 0; i < STATISTIC_COLUMNS - 1; i++) {
    if (s->count == 0) {
      sqlite3_bind_null(row, column + 1 + i);
    } else {
      KC_ASSERT(value[i] >= 0);
      sqlite3_bind_int64(row, column + 1 + i, value[i]);
    }
  }
}

static int insert_group(struct kc_store *store, sqlite3_stmt *row, const char *kind,
                        uint32_t number, const char *name, const struct kc_group *group)
{
  const uint64_t figure[] = {
    group->requests_total, group->requests_by_status[KC_STATUS_COMPLETED],
    group->requests_by_status[KC_STATUS_REJECTED], group->requests_by_status[KC_STATUS_FAILED],
    group->requests_by_status[KC_STATUS_CANCELLED], group->requests_by_status[KC_STATUS_TIMED_OUT],
    group->input_tokens, group->admitted_tokens, group->cached_tokens, group->output_tokens,
    group->output_tokens_asked, group->slo_met};
  KC_ASSERT(store->run_id > 0);
  sqlite3_bind_int64(row, 1, store->run_id);
  sqlite3_bind_text(row, 2, kind, -1, SQLITE_STATIC);
  sqlite3_bind_int64(row, 3, number);
  sqlite3_bind_text(row, 4, name, -1, SQLITE_TRANSIENT);
  for (int i = 0; i < (int)(sizeof figure / sizeof figure[0]); i++) {
    KC_ASSERT(figure[i] <= INT64_MAX);
    sqlite3_bind_int64(row, 5 + i, (int64_t)figure[i]);
  }
  bind_statistic(row, FIRST_STATISTIC, &group->ttft);
  bind_statistic(row, FIRST_STATISTIC + STATISTIC_COLUMNS, &group->tpot);
  bind_statistic(row, FIRST_STATISTIC + 2 * STATISTIC_COLUMNS, &group->e2e);
  const int code = sqlite3_step(row);
  sqlite3_reset(row);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int insert_tenants(struct kc_store *store, sqlite3_stmt *row,
                          const struct kc_groups *groups)
{
  const struct kc_group *tenant = kc_groups_tenants(groups);
  int code = SQLITE_OK;
  char name[16];
  KC_ASSERT(groups->config.tenant_count >= 1);
  for (uint32_t i = 0; i < groups->config.tenant_count && code == SQLITE_OK; i++) {
    if (tenant[i].requests_total == 0) continue;
    snprintf(name, sizeof name, "%u", i);
    code = insert_group(store, row, "tenant", i, name, &tenant[i]);
  }
  return code;
}

int kc_store_insert_groups(struct kc_store *store, const struct kc_groups *groups)
{
  static const char *const warmth[KC_WARMTHS] = {"cold", "warm"};
  sqlite3_stmt *row = NULL;
  if (groups->group == NULL) return SQLITE_OK;
  int code = sqlite3_prepare_v2(store->db, insert_sql, -1, &row, NULL);
  for (uint32_t i = 0; i < KC_WARMTHS && code == SQLITE_OK; i++) {
    code = insert_group(store, row, "warmth", i, warmth[i], &kc_groups_warmth(groups)[i]);
  }
  for (uint32_t i = 0; i < groups->config.class_count && code == SQLITE_OK; i++) {
    KC_ASSERT(store->class_name != NULL && store->class_name[i] != NULL);
    code = insert_group(store, row, "class", i, store->class_name[i],
                        &kc_groups_classes(groups)[i]);
  }
  if (code == SQLITE_OK) code = insert_tenants(store, row, groups);
  sqlite3_finalize(row);
  return code;
}

/* ---- verifying ---- */

static void visit_group(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  KC_ASSERT(sqlite3_column_count(row) == 4);
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "run_group %s %lld of run %lld differs from the request rows in %s; one of the "
                   "two was changed", kc_store_text(row, 1),
                   (long long)sqlite3_column_int64(row, 2),
                   (long long)sqlite3_column_int64(row, 0), kc_store_text(row, 3));
}

/* Requests, tokens and the number of first tokens of each group, from the rows of the requests. */
static const char group_check[] =
  "WITH deal AS ("
  " SELECT run_id, 'class' AS kind, class AS number, * FROM request UNION ALL"
  " SELECT run_id, 'tenant', tenant, * FROM request UNION ALL"
  " SELECT run_id, 'warmth', cached_tokens > 0, * FROM request),"
  "found AS ("
  " SELECT run_id, kind, number, count(*) AS requests, sum(status = 'completed') AS completed,"
  " sum(input_tokens) AS inputs, sum(output_tokens) AS outputs, sum(cached_tokens) AS cached,"
  " sum(first_token_ps IS NOT NULL) AS first_tokens FROM deal GROUP BY 1, 2, 3) "
  "SELECT g.run_id, g.kind, g.number,"
  " CASE WHEN g.requests_total <> coalesce(requests, 0) THEN 'requests'"
  " WHEN g.requests_completed <> coalesce(completed, 0) THEN 'completed requests'"
  " WHEN g.input_tokens <> coalesce(inputs, 0) THEN 'input tokens'"
  " WHEN g.output_tokens <> coalesce(outputs, 0) THEN 'output tokens'"
  " WHEN g.cached_tokens <> coalesce(cached, 0) THEN 'cached tokens'"
  " WHEN g.ttft_count <> coalesce(first_tokens, 0) THEN 'first tokens' END AS what"
  " FROM run_group AS g JOIN run ON run.id = g.run_id AND run.rows_kept = 'all'"
  " LEFT JOIN found USING (run_id, kind, number) WHERE what IS NOT NULL"
  " UNION ALL"
  " SELECT f.run_id, f.kind, f.number, 'being there at all' FROM found AS f"
  " JOIN run ON run.id = f.run_id AND run.rows_kept = 'all'"
  " WHERE EXISTS (SELECT 1 FROM run_group WHERE run_id = f.run_id)"
  " AND NOT EXISTS (SELECT 1 FROM run_group AS g"
  "  WHERE g.run_id = f.run_id AND g.kind = f.kind AND g.number = f.number) ORDER BY 1, 2, 3";

void kc_store_verify_groups(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(problems != NULL);
  kc_store_for_each_row(store, group_check, visit_group, problems);
}
