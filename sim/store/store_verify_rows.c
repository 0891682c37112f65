/* `db verify`, where all rows of a run were kept: do they still give its hash and its latencies?
 *
 *   request rows, in order --> replica --> result_sha256      compared with the run row
 *   ITL histogram          -->         --> TTFT, TPOT, E2E    (definitions: sim/metrics/metrics.h)
 *
 * The hash covers what happened to every request but not its arrival; the latencies do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store/store_internal.h"

enum { TTFT, TPOT, E2E, LATENCIES };
static const char *const latency_name[LATENCIES] = {"ttft", "tpot", "e2e"};

/* Durations of one kind; heap, one entry per request at most. */
struct latencies {
  kc_ps *value;
  uint64_t count;
};

/* A run read back. Values come from a file that anybody may have changed: `sound` turns false at
 * the first that no run could have stored, and nothing of it reaches code that asserts. */
struct replica {
  int64_t run_id;
  struct kc_sha256 sha;
  struct kc_summary totals; /* as the run row states them */
  struct kc_histogram itl;
  struct latencies latency[LATENCIES];
  uint64_t rows, row_count; /* of request: expected, read */
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

static void add_latency(struct replica *replica, int kind, kc_ps from_ps, kc_ps to_ps,
                        uint64_t parts)
{
  KC_ASSERT(kind < LATENCIES && parts > 0);
  struct latencies *latency = &replica->latency[kind];
  if (from_ps < 0 || to_ps < from_ps || to_ps == KC_PS_NEVER) {
    replica->sound = false;
    return;
  }
  KC_ASSERT(latency->count < replica->rows);
  const uint64_t stretch = (uint64_t)(to_ps - from_ps);
  latency->value[latency->count++] = (kc_ps)((stretch + parts / 2) / parts);
}

static void add_latencies(struct replica *replica, const struct kc_outcome *outcome)
{
  KC_ASSERT(outcome->arrival_ps >= 0);
  const kc_ps first_ps = outcome->first_token_ps;
  if (first_ps != KC_PS_NEVER) add_latency(replica, TTFT, outcome->arrival_ps, first_ps, 1);
  if (outcome->status != KC_STATUS_COMPLETED) return;
  add_latency(replica, E2E, outcome->arrival_ps, outcome->end_ps, 1);
  if (outcome->output_tokens < 2) return;
  add_latency(replica, TPOT, first_ps, outcome->end_ps, outcome->output_tokens - 1);
}

static void add_request(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(sqlite3_column_count(row) == 12);
  struct kc_outcome outcome = {
    .request = (uint32_t)take(replica, row, 0, UINT32_MAX),
    .output_tokens = (uint32_t)take(replica, row, 3, UINT32_MAX),
    .preemptions = (uint32_t)take(replica, row, 4, UINT32_MAX),
    .first_token_ps = KC_PS_NEVER,
    .end_ps = take(replica, row, 6, INT64_MAX),
    .resident_ps = take(replica, row, 7, INT64_MAX),
    .arrival_ps = take(replica, row, 8, INT64_MAX),
    .cached_tokens = (uint32_t)take(replica, row, 9, UINT32_MAX),
    .recached_tokens = (uint32_t)take(replica, row, 10, UINT32_MAX),
    .contaminated = take(replica, row, 11, 1) != 0};
  if (sqlite3_column_type(row, 5) != SQLITE_NULL) {
    outcome.first_token_ps = take(replica, row, 5, INT64_MAX);
  }
  if (!status_by_name(kc_store_text(row, 1), &outcome.status) ||
      !reason_by_name(kc_store_text(row, 2), &outcome.reason)) {
    replica->sound = false;
  }
  /* More rows than were counted: somebody is changing the run at this moment. */
  if (replica->row_count++ >= replica->rows) replica->sound = false;
  if (!replica->sound) return;
  kc_canonical_outcome(&replica->sha, &outcome);
  add_latencies(replica, &outcome);
}

static void add_bucket(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(replica->itl.count != NULL);
  const kc_ps low_ps = take(replica, row, 0, INT64_MAX);
  const uint64_t count = (uint64_t)take(replica, row, 1, INT64_MAX);
  if (count > (uint64_t)INT64_MAX - replica->itl.total) replica->sound = false;
  if (!replica->sound) return;
  struct kc_histogram *itl = &replica->itl;
  itl->count[kc_histogram_bucket((uint64_t)low_ps)] += count;
  itl->total += count;
  if (low_ps < itl->min_ps) itl->min_ps = low_ps;
  if (low_ps > itl->max_ps) itl->max_ps = low_ps;
}

/* KC_STORE_STATISTIC's columns; 0 where a column is NULL. */
static struct kc_statistic take_statistic(struct replica *replica, sqlite3_stmt *row, int column)
{
  KC_ASSERT(column + 8 <= sqlite3_column_count(row));
  return (struct kc_statistic){.count = (uint64_t)take(replica, row, column, INT64_MAX),
                               .mean_ps = take(replica, row, column + 1, INT64_MAX),
                               .p50_ps = take(replica, row, column + 2, INT64_MAX),
                               .p90_ps = take(replica, row, column + 3, INT64_MAX),
                               .p95_ps = take(replica, row, column + 4, INT64_MAX),
                               .p99_ps = take(replica, row, column + 5, INT64_MAX),
                               .min_ps = take(replica, row, column + 6, INT64_MAX),
                               .max_ps = take(replica, row, column + 7, INT64_MAX)};
}

static void add_totals(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(sqlite3_column_count(row) == 14 + 3 * 8);
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
  totals->ttft = take_statistic(replica, row, 13);
  totals->tpot = take_statistic(replica, row, 13 + 8);
  totals->e2e = take_statistic(replica, row, 13 + 16);
  totals->recached_tokens = (uint64_t)take(replica, row, 13 + 24, INT64_MAX);
}

static void add_row_count(struct replica *replica, sqlite3_stmt *row)
{
  KC_ASSERT(replica->rows == 0);
  replica->rows = (uint64_t)sqlite3_column_int64(row, 0);
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

static int make_room(struct replica *replica)
{
  KC_ASSERT(replica->latency[0].value == NULL);
  bool made = true;
  for (int i = 0; i < LATENCIES; i++) {
    replica->latency[i].value = calloc(replica->rows + 1, sizeof(kc_ps));
    made = made && replica->latency[i].value != NULL;
  }
  replica->itl = (struct kc_histogram){
    .count = calloc(KC_HISTOGRAM_BUCKETS, sizeof *replica->itl.count), .min_ps = KC_PS_NEVER};
  return made && replica->itl.count != NULL ? SQLITE_OK : SQLITE_NOMEM;
}

static void free_replica(struct replica *replica)
{
  for (int i = 0; i < LATENCIES; i++) free(replica->latency[i].value);
  free(replica->itl.count);
}

static int read_replica(struct kc_store *store, struct replica *replica)
{
  KC_ASSERT(replica->sound);
  kc_canonical_begin(&replica->sha);
  int code = read_rows(store, replica, "SELECT count(*) FROM request WHERE run_id = ?",
                       add_row_count);
  if (code == SQLITE_OK) code = make_room(replica);
  if (code == SQLITE_OK) {
    code = read_rows(store, replica,
                     "SELECT requests_total, input_tokens, output_tokens, steps, preemptions,"
                     " max_running, max_waiting, kv_peak_tokens, kv_peak_pages,"
                     " tokens_clipped_requests, makespan_ps, busy_ps, result_sha256, "
                     KC_STORE_STATISTIC("ttft") ", " KC_STORE_STATISTIC("tpot") ", "
                     KC_STORE_STATISTIC("e2e") ", recached_tokens FROM run WHERE id = ?",
                     add_totals);
  }
  if (code == SQLITE_OK) {
    code = read_rows(store, replica,
                     "SELECT request, status, reason, output_tokens, preemptions, first_token_ps,"
                     " end_ps, resident_ps, arrival_ps, cached_tokens, recached_tokens,"
                     " contaminated FROM request WHERE run_id = ? ORDER BY sequence", add_request);
  }
  if (code == SQLITE_OK) {
    code = read_rows(store, replica,
                     "SELECT low_ps, count FROM histogram WHERE run_id = ? AND metric = 'itl'"
                     " ORDER BY low_ps", add_bucket);
  }
  return code;
}

/* ---- comparing ---- */

static bool same_hash(struct kc_store *store, struct replica *replica,
                      struct kc_diag_list *problems)
{
  KC_ASSERT(replica->sound);
  char found[KC_SHA256_HEX_BYTES];
  kc_canonical_end(&replica->sha, &replica->totals, &replica->itl, found);
  if (strcmp(found, replica->totals.result_sha256) == 0) return true;
  kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                   "the rows of run %lld give result_sha256 %s and its row says %s; rows were "
                   "changed, or another version of the program wrote them",
                   (long long)replica->run_id, found, replica->totals.result_sha256);
  return false;
}

/* The count is compared with the histogram's elsewhere. */
static void compare_latency(struct kc_store *store, struct replica *replica, int kind,
                            const struct kc_statistic *stated, struct kc_diag_list *problems)
{
  KC_ASSERT(replica->sound && kind < LATENCIES);
  struct kc_statistic found;
  kc_statistic_of(&found, replica->latency[kind].value, replica->latency[kind].count);
  const struct {
    const char *part;
    kc_ps found_ps, stated_ps;
  } figure[] = {{"mean", found.mean_ps, stated->mean_ps}, {"p50", found.p50_ps, stated->p50_ps},
                {"p90", found.p90_ps, stated->p90_ps},    {"p95", found.p95_ps, stated->p95_ps},
                {"p99", found.p99_ps, stated->p99_ps},    {"min", found.min_ps, stated->min_ps},
                {"max", found.max_ps, stated->max_ps}};
  for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++) {
    if (figure[i].found_ps == figure[i].stated_ps) continue;
    kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                     "the rows of run %lld give %s_%s_ps %lld and its row says %lld; rows were "
                     "changed", (long long)replica->run_id, latency_name[kind], figure[i].part,
                     (long long)figure[i].found_ps, (long long)figure[i].stated_ps);
  }
}

static void compare(struct kc_store *store, struct replica *replica, struct kc_diag_list *problems)
{
  if (!replica->sound) {
    kc_diag_list_add(problems, KC_ERR_STORE, store->path, 0, 0,
                     "run %lld holds a value that no run stores (a negative number, an end before "
                     "its beginning or an unknown status); its rows were changed",
                     (long long)replica->run_id);
    return;
  }
  /* Rows that give another hash give other latencies too: that would be the same fault told twenty
   * times. */
  if (!same_hash(store, replica, problems)) return;
  compare_latency(store, replica, TTFT, &replica->totals.ttft, problems);
  compare_latency(store, replica, TPOT, &replica->totals.tpot, problems);
  compare_latency(store, replica, E2E, &replica->totals.e2e, problems);
}

static void visit_run(struct kc_store *store, sqlite3_stmt *row, struct kc_diag_list *problems)
{
  struct replica replica = {.run_id = sqlite3_column_int64(row, 0), .sound = true};
  const int code = read_replica(store, &replica);
  if (code != SQLITE_OK) {
    kc_store_add_failure(store, code, problems);
  } else {
    compare(store, &replica, problems);
  }
  free_replica(&replica);
}

void kc_store_verify_rows(struct kc_store *store, struct kc_diag_list *problems)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(problems != NULL);
  kc_store_for_each_row(store, "SELECT id FROM run WHERE rows_kept = 'all'"
                        " AND layout = " KC_LAYOUT_TEXT " ORDER BY id", visit_run, problems);
}
