/* The store against its contract: what goes in comes out, whole runs or none, and a changed row is
 * noticed. Expected values come from the outcomes handed in, not from the code that stores them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/store/store_internal.h"
#include "store_fixture.h"

struct place {
  char folder[64];
  char path[96];
};

static int make_place(void **state)
{
  struct place *place = calloc(1, sizeof *place);
  /* In memory where possible: thousands of commits, each with its fsync. */
  snprintf(place->folder, sizeof place->folder, "%s/kvcap-store-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (mkdtemp(place->folder) == NULL) return -1;
  snprintf(place->path, sizeof place->path, "%s/runs.db", place->folder);
  *state = place;
  return 0;
}

static int remove_place(void **state)
{
  struct place *place = *state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", place->folder);
  const int status = system(command);
  free(place);
  return status;
}

static const struct fixture_plan small = {
  .name = "small, \"quoted\"", .seed = 7, .requests = 210, .slots = 8, .interval_us = 90000,
  .step_us = 9000, .rows = KC_ROWS_ALL};

static struct kc_store *open_store(const char *path)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  if (kc_store_open(&store, path, &diag) != KC_OK) fail_msg("%s: %s", diag.path, diag.text);
  return store;
}

static int64_t scalar(struct kc_store *store, const char *sql)
{
  int64_t value = -1;
  struct kc_diag diag = {0};
  if (kc_store_scalar(store, sql, &value, "testing", &diag) != KC_OK) fail_msg("%s", diag.text);
  return value;
}

static void store_plan(struct kc_store *store, const struct fixture_plan *plan)
{
  struct fixture fixture;
  struct kc_diag diag = {0};
  int64_t run_id;
  fixture_make(&fixture, plan);
  if (fixture_store(store, &fixture, &run_id, &diag) != KC_OK) fail_msg("%s", diag.text);
  fixture_free(&fixture);
}

static void expect_intact(struct kc_store *store)
{
  struct kc_diag_list problems;
  if (kc_store_verify(store, NULL, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
  assert_int_equal(problems.count, 0);
}

static void test_rows_come_back(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct fixture fixture;
  struct kc_diag diag;
  int64_t run_id = 0;
  fixture_make(&fixture, &small);
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_OK);
  assert_int_equal(run_id, 1);
  sqlite3_stmt *row = NULL;
  assert_int_equal(kc_store_prepare(store, "SELECT * FROM request WHERE run_id = 1", &row, "",
                                    &diag), KC_OK);
  for (uint32_t i = 0; i < fixture.count; i++) {
    const struct kc_outcome *o = &fixture.outcomes[i];
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(row, 1), i);
    assert_int_equal(sqlite3_column_int64(row, 2), o->request);
    assert_string_equal(kc_store_text(row, 3), kc_status_name(o->status));
    assert_string_equal(kc_store_text(row, 4), kc_reason_name(o->reason));
    assert_int_equal(sqlite3_column_int64(row, 5), o->arrival_ps);
    if (o->first_token_ps == KC_PS_NEVER) {
      assert_int_equal(sqlite3_column_type(row, 6), SQLITE_NULL);
    } else {
      assert_int_equal(sqlite3_column_int64(row, 6), o->first_token_ps);
    }
    assert_int_equal(sqlite3_column_int64(row, 7), o->end_ps);
    assert_int_equal(sqlite3_column_int64(row, 8), o->resident_ps);
    assert_int_equal(sqlite3_column_int64(row, 11), o->output_tokens);
    assert_int_equal(sqlite3_column_int64(row, 13), o->cached_tokens);
    assert_int_equal(sqlite3_column_int64(row, 14), o->recached_tokens);
    assert_int_equal(sqlite3_column_int64(row, 15), o->contaminated);
    assert_int_equal(sqlite3_column_int64(row, 16), o->request % 3);
    assert_int_equal(sqlite3_column_int64(row, 17), o->request % 2);
    assert_int_equal(sqlite3_column_int64(row, 18), o->kv_wait_ps);
    assert_int_equal(sqlite3_column_int64(row, 19), o->host_ps);
    assert_int_equal(sqlite3_column_int64(row, 20), o->first.resident_ps);
    assert_int_equal(sqlite3_column_int64(row, 21), o->first.kv_wait_ps);
    assert_int_equal(sqlite3_column_int64(row, 22), o->first.host_ps);
  }
  assert_int_equal(sqlite3_step(row), SQLITE_DONE);
  sqlite3_finalize(row);
  assert_int_equal(scalar(store, "SELECT output_tokens FROM run"),
                   fixture.result.summary.output_tokens);
  assert_int_equal(scalar(store, "SELECT tpot_p95_ps FROM run"),
                   fixture.result.summary.tpot.p95_ps);
  assert_int_equal(scalar(store, "SELECT count(*) FROM run WHERE seed = 7 AND oom_ps IS NULL"), 1);
  assert_int_equal(scalar(store, "SELECT count(*) FROM run_group"), 2 + 2 + 3);
  assert_int_equal(scalar(store, "SELECT count(*) FROM run_group WHERE name = 'odd' AND"
                          " kind = 'class' AND number = 1"), 1);
  assert_int_equal(scalar(store, "SELECT sum(output_tokens) FROM run_group WHERE kind = 'tenant'"),
                   fixture.result.summary.output_tokens);
  assert_int_equal(scalar(store, "SELECT rss_bytes FROM host WHERE run_id = 1"), 1 << 20);
  fixture_free(&fixture);
  expect_intact(store);
  kc_store_close(store);
}

static void test_file_is_marked(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  assert_int_equal(scalar(store, "PRAGMA application_id"), 0x6b766370);
  assert_int_equal(scalar(store, "PRAGMA user_version"), KC_STORE_SCHEMA);
  assert_int_equal(scalar(store, "PRAGMA synchronous"), 2);
  assert_int_equal(scalar(store, "PRAGMA foreign_keys"), 1);
  assert_int_equal(scalar(store, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
  assert_int_equal(scalar(store, "SELECT count(*) FROM pragma_table_list"
                          " WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' AND strict"),
                   16);
  kc_store_close(store);
}

static void test_ids_follow_the_largest(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  for (int i = 0; i < 3; i++) store_plan(store, &small);
  /* With all its rows gone, run 2 leaves a hole that is not filled. */
  sqlite3_exec(store->db,
               "PRAGMA foreign_keys = OFF; DELETE FROM request WHERE run_id = 2;"
               "DELETE FROM timeline WHERE run_id = 2; DELETE FROM histogram WHERE run_id = 2;"
               "DELETE FROM violation WHERE run_id = 2; DELETE FROM host WHERE run_id = 2;"
               "DELETE FROM run_group WHERE run_id = 2;"
               "DELETE FROM run WHERE id = 2; PRAGMA foreign_keys = ON", NULL, NULL, NULL);
  store_plan(store, &small);
  assert_int_equal(scalar(store, "SELECT max(id) FROM run"), 4);
  assert_int_equal(scalar(store, "SELECT count(*) FROM run"), 3);
  expect_intact(store);
  kc_store_close(store);
}

static void test_kept_rows(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct fixture_plan plan = small;
  plan.requests = 3000;
  plan.rows = KC_ROWS_SAMPLED;
  store_plan(store, &plan);
  plan.rows = KC_ROWS_NONE;
  store_plan(store, &plan);
  /* Requests 0, 1024 and 2048 of 3,000. */
  assert_int_equal(scalar(store, "SELECT count(*) FROM request WHERE run_id = 1"), 3);
  assert_int_equal(scalar(store, "SELECT sum(request) FROM request WHERE run_id = 1"), 3072);
  assert_int_equal(scalar(store, "SELECT count(*) FROM request WHERE run_id = 2"), 0);
  /* Requests 100, 201, ..., that the fixture lets fail and does not reject: kept in any case. */
  int64_t faulty = 0;
  for (int i = 100; i < 3000; i += 101) faulty += i % 97 != 96;
  assert_int_equal(scalar(store, "SELECT count(*) FROM violation WHERE run_id = 2"), faulty);
  /* The distributions do not depend on the rows kept. */
  assert_int_equal(scalar(store, "SELECT count(*) FROM (SELECT metric, low_ps, high_ps, count FROM"
                          " histogram WHERE run_id = 1 EXCEPT SELECT metric, low_ps, high_ps,"
                          " count FROM histogram WHERE run_id = 2)"), 0);
  expect_intact(store);
  kc_store_close(store);
}

static void test_abort_leaves_nothing(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct fixture fixture;
  struct kc_diag diag;
  fixture_make(&fixture, &small);
  assert_int_equal(kc_store_run_begin(store, &fixture.header, &diag), KC_OK);
  const struct kc_recorder recorder = kc_store_recorder(store);
  for (int i = 0; i < 100; i++) {
    const struct kc_outcome *outcome = &fixture.outcomes[i];
    assert_int_equal(recorder.on_outcome(recorder.context, outcome,
                                         &fixture.requests[outcome->request], &diag), KC_OK);
  }
  kc_store_run_abort(store);
  assert_int_equal(scalar(store, "SELECT count(*) FROM request"), 0);
  /* Closing with a run open is an abort too. */
  assert_int_equal(kc_store_run_begin(store, &fixture.header, &diag), KC_OK);
  kc_store_close(store);
  store = open_store(place->path);
  assert_int_equal(scalar(store, "SELECT count(*) FROM run"), 0);
  fixture_free(&fixture);
  expect_intact(store);
  kc_store_close(store);
}

static void test_run_without_row_is_refused(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  sqlite3_exec(store->db, "BEGIN; INSERT INTO timeline VALUES (9, 0, 0, 0, 0, 0, 0)", NULL, NULL,
               NULL);
  assert_int_equal(sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) & 0xff, SQLITE_CONSTRAINT);
  sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  kc_store_close(store);
}

/* Every change below is one that somebody could make with an SQLite shell; verify must list it. */
static const struct {
  const char *change, *expected;
} changes[] = {
  {"UPDATE request SET end_ps = end_ps + 1 WHERE sequence = 5", "result_sha256"},
  {"UPDATE request SET first_token_ps = NULL WHERE sequence = 3", "value that no run stores"},
  {"UPDATE request SET request = 1 - request WHERE request IN (0, 1)", "result_sha256"},
  {"UPDATE request SET sequence = sequence + 1000", NULL}, /* same order, same hash */
  {"UPDATE request SET preemptions = 1 WHERE sequence = 0", "result_sha256"},
  {"UPDATE request SET status = 'cancelled' WHERE sequence = 0", "cancelled requests"},
  {"UPDATE request SET status = 'gone' WHERE sequence = 0", "completed requests"},
  {"UPDATE request SET reason = 'because' WHERE sequence = 0", "value that no run stores"},
  {"UPDATE request SET end_ps = -5 WHERE sequence = 0", "value that no run stores"},
  {"UPDATE request SET output_tokens = 4294967297 WHERE sequence = 0", "output tokens"},
  {"DELETE FROM request WHERE sequence = 209", "209 request rows"},
  {"INSERT INTO request SELECT run_id, 999, request, status, reason, arrival_ps, first_token_ps,"
   " end_ps, resident_ps, input_tokens, max_tokens, output_tokens, preemptions, cached_tokens,"
   " recached_tokens, contaminated, tenant, class, kv_wait_ps, host_ps, first_resident_ps,"
   " first_kv_wait_ps, first_host_ps FROM request"
   " WHERE sequence = 4", "211 request rows"},
  {"UPDATE histogram SET count = count + 1 WHERE metric = 'itl' AND low_ps ="
   " (SELECT max(low_ps) FROM histogram WHERE metric = 'itl')", "gaps in the ITL histogram"},
  {"UPDATE histogram SET low_ps = low_ps * 2 WHERE metric = 'itl' AND low_ps ="
   " (SELECT max(low_ps) FROM histogram WHERE metric = 'itl')", "result_sha256"},
  {"DELETE FROM histogram WHERE metric = 'ttft'", "TTFT histogram"},
  {"UPDATE run SET kv_peak_tokens = kv_peak_tokens + 1", "result_sha256"},
  {"UPDATE run SET result_sha256 = replace(result_sha256, substr(result_sha256, 1, 1), 'x')",
   "result_sha256"},
  {"UPDATE run SET id = 2", "belong to no run"},
  {"DELETE FROM run", "belong to no run"},
  {"UPDATE request SET input_tokens = input_tokens + 1 WHERE sequence = 0", "input tokens"},
  {"UPDATE request SET arrival_ps = arrival_ps + 1000000 WHERE sequence = 9", "rows of run"},
  {"UPDATE request SET arrival_ps = end_ps + 1 WHERE sequence = 9", "value that no run stores"},
  {"UPDATE histogram SET high_ps = low_ps WHERE metric = 'e2e'", "e2e histogram of run 1"},
  {"UPDATE histogram SET count = 9223372036854775807 WHERE metric = 'itl'", "verifying"},
  {"UPDATE run SET rows_kept = 'none'", "210 request rows and its row says 0"},
  /* Changed in the document as well: only what they are made of still tells. */
  {"UPDATE run SET output_tok_s_micro = 5000000,"
   " summary_json = json_set(summary_json, '$.output_tok_s', 5.0)", "output_tok_s_micro, which"},
  {"UPDATE run SET ttft_p95_ps = 5000000000,"
   " summary_json = json_set(summary_json, '$.ttft_ms.p95', 5.0)", "ttft histogram contradicts"},
  {"UPDATE run SET e2e_mean_ps = 5000000000,"
   " summary_json = json_set(summary_json, '$.e2e_ms.mean', 5.0)", "e2e histogram contradicts"},
  {"UPDATE run SET tpot_max_ps = 5000000000000,"
   " summary_json = json_set(summary_json, '$.tpot_ms.max', 5000.0)", "tpot histogram contra"},
  {"UPDATE run SET itl_p50_ps = itl_p50_ps + 1, summary_json = json_set(summary_json,"
   " '$.itl_ms.p50', (itl_p50_ps + 1) / 1e9)", "itl histogram contradicts"},
  {"UPDATE request SET cached_tokens = cached_tokens + 1 WHERE sequence = 3", "cached tokens"},
  {"UPDATE request SET recached_tokens = 9 WHERE sequence = 3", "recached tokens"},
  {"UPDATE request SET contaminated = 1 WHERE sequence = 3", "result_sha256"},
  {"UPDATE request SET contaminated = 2 WHERE sequence = 3", "value that no run stores"},
  {"UPDATE request SET class = 1 - class WHERE sequence = 3", "run_group class"},
  {"UPDATE request SET tenant = 2 - tenant WHERE sequence = 3", "run_group tenant"},
  {"UPDATE run_group SET ttft_count = ttft_count + 1 WHERE name = 'warm'", "in first tokens"},
  {"DELETE FROM run_group WHERE name = 'odd'", "run_group class 1"},
  {"UPDATE run SET layout = 3", "layout 3"},
  {"UPDATE run SET layout = 1", "layout 1"},
  {"UPDATE run SET summary_json = '{}'", "has schema nothing"},
  {"UPDATE run SET summary_json = 'none'", "not a JSON document"},
  {"UPDATE run SET summary_json = json_set(summary_json, '$.ttft_ms.p95', 1.5)", "ttft_ms.p95"},
  {"UPDATE run SET summary_json = json_remove(summary_json, '$.steps')", "nothing for steps"},
};

static void test_verify_catches_changes(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  store_plan(store, &small);
  sqlite3_exec(store->db, "PRAGMA foreign_keys = OFF", NULL, NULL, NULL);
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    struct kc_diag_list problems;
    bool found = changes[i].expected == NULL;
    sqlite3_exec(store->db, "SAVEPOINT before", NULL, NULL, NULL);
    if (sqlite3_exec(store->db, changes[i].change, NULL, NULL, NULL) != SQLITE_OK) {
      fail_msg("%s: %s", changes[i].change, sqlite3_errmsg(store->db));
    }
    const enum kc_err err = kc_store_verify(store, NULL, &problems);
    for (uint32_t p = 0; p < problems.count && p < KC_DIAG_LIST_MAX && !found; p++) {
      found = strstr(problems.items[p].text, changes[i].expected) != NULL;
    }
    if (!found || (err == KC_OK) != (changes[i].expected == NULL)) {
      fail_msg("%s: %u problems, first: %s", changes[i].change, problems.count,
               problems.count > 0 ? problems.items[0].text : "none");
    }
    sqlite3_exec(store->db, "ROLLBACK TO before; RELEASE before", NULL, NULL, NULL);
  }
  expect_intact(store);
  kc_store_close(store);
}

/* Columns that nothing else states: a change of theirs stays unseen. */
static bool is_unguarded(const char *column, enum kc_request_rows rows)
{
  static const char *const free_columns[] = {"id", "name", "memory_bytes", "other_bytes",
                                             "reserve_bytes", "scenario_text", "summary_json",
                                             "rows_kept"};
  for (size_t i = 0; i < sizeof free_columns / sizeof free_columns[0]; i++) {
    if (strcmp(column, free_columns[i]) == 0) return true;
  }
  return rows != KC_ROWS_ALL && strstr(column, "_tokens_completed") != NULL;
}

/* Adds 1 to each column of the run row in turn, or a letter to text. */
static void change_each_column(struct kc_store *store, enum kc_request_rows rows)
{
  sqlite3_stmt *column = NULL;
  struct kc_diag diag;
  int changed = 0;
  assert_int_equal(kc_store_prepare(store, "SELECT name, type FROM pragma_table_info('run')",
                                    &column, "", &diag), KC_OK);
  while (sqlite3_step(column) == SQLITE_ROW) {
    const char *name = kc_store_text(column, 0);
    char change[160];
    struct kc_diag_list problems;
    if (is_unguarded(name, rows)) continue;
    const bool is_text = strcmp(kc_store_text(column, 1), "TEXT") == 0;
    if (strcmp(name, "result_sha256") == 0) {
      snprintf(change, sizeof change, "UPDATE run SET %s = 'x' || substr(%s, 2)", name, name);
    } else if (is_text) {
      snprintf(change, sizeof change, "UPDATE run SET %s = %s || '1'", name, name);
    } else {
      snprintf(change, sizeof change, "UPDATE run SET %s = coalesce(%s, 0) + 1", name, name);
    }
    sqlite3_exec(store->db, "PRAGMA ignore_check_constraints = ON; SAVEPOINT before", NULL, NULL,
                 NULL);
    if (sqlite3_exec(store->db, change, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s", change);
    sqlite3_exec(store->db, "PRAGMA ignore_check_constraints = OFF", NULL, NULL, NULL);
    if (kc_store_verify(store, NULL, &problems) == KC_OK) fail_msg("not noticed: %s", change);
    sqlite3_exec(store->db, "ROLLBACK TO before; RELEASE before", NULL, NULL, NULL);
    changed++;
  }
  sqlite3_finalize(column);
  assert_true(changed > 60);
}

static void test_verify_catches_each_column(void **state)
{
  static const enum kc_request_rows kinds[] = {KC_ROWS_ALL, KC_ROWS_SAMPLED, KC_ROWS_NONE};
  struct place *place = *state;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    struct fixture_plan plan = small;
    char path[128];
    plan.rows = kinds[i];
    snprintf(path, sizeof path, "%s%d", place->path, (int)i);
    struct kc_store *store = open_store(path);
    store_plan(store, &plan);
    expect_intact(store);
    change_each_column(store, kinds[i]);
    expect_intact(store);
    kc_store_close(store);
  }
}

/* ---- text that is none ---- */

static enum kc_err take_name(void *context, const struct kc_run_brief *run)
{
  snprintf(context, 64, "%s|%s", run->name, run->gpu);
  return KC_OK;
}

static char *read_text(const char *path);

/* Broken UTF-8 and control characters, given by a caller and found in a file. */
static void test_broken_text(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct fixture_plan plan = small;
  struct kc_diag diag;
  char found[64], path[128];
  plan.name = "cut \xc2\xb7 kv=\xe2\x82";
  store_plan(store, &plan);
  assert_int_equal(scalar(store, "SELECT name = 'cut \xc2\xb7 kv=' || '?' || '?' FROM run"), 1);
  sqlite3_exec(store->db, "UPDATE run SET name = CAST(x'41ff421b' AS TEXT),"
               " gpu = CAST(x'e28263' AS TEXT)", NULL, NULL, NULL);
  assert_int_equal(kc_store_each_run(store, take_name, found, &diag), KC_OK);
  assert_string_equal(found, "A?B?|?" "?c");
  snprintf(path, sizeof path, "%s/out.csv", place->folder);
  assert_int_equal(kc_store_exec(store, "CREATE TEMP VIEW named AS SELECT name, 'a' || char(10)"
                                 " || 'b' AS two FROM run", "", &diag), KC_OK);
  assert_int_equal(kc_store_export_csv(store, "named", path, NULL, &diag), KC_OK);
  char *text = read_text(path);
  assert_string_equal(text, "name,two\nA?B?,\"a\nb\"\n");
  free(text);
  kc_store_close(store);
}

#ifdef KC_FAULTS
/* Faults inside the store itself: each must be caught by what comes after it. */
static void test_faults_are_caught(void **state)
{
  struct place *place = *state;
  struct fixture fixture;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  int64_t run_id;
  fixture_make(&fixture, &small);
  struct kc_store *store = open_store(place->path);
  setenv("KVCAP_FAULT", "store_no_run_row", 1);
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_ERR_STORE);
  assert_non_null(strstr(diag.text, "FOREIGN KEY"));
  assert_int_equal(scalar(store, "SELECT count(*) FROM request"), 0);
  setenv("KVCAP_FAULT", "store_no_memory", 1);
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_ERR_MEMORY);
  assert_non_null(strstr(diag.text, "--rows sampled"));
  assert_int_equal(scalar(store, "SELECT count(*) FROM run"), 0);
  setenv("KVCAP_FAULT", "store_lost_row", 1);
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_OK);
  unsetenv("KVCAP_FAULT");
  assert_int_equal(kc_store_verify(store, NULL, &problems), KC_ERR_STORE);
  kc_store_close(store);
  fixture_free(&fixture);
}
#endif

/* ---- reading ---- */

static char *read_text(const char *path)
{
  FILE *file = fopen(path, "r");
  if (file == NULL) fail_msg("%s is not there", path);
  char *text = calloc(1, 1 << 20);
  const size_t bytes = fread(text, 1, (1 << 20) - 1, file);
  text[bytes] = '\0';
  fclose(file);
  return text;
}

static void test_csv_is_quoted(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct kc_diag diag;
  char path[128];
  uint64_t rows = 0;
  snprintf(path, sizeof path, "%s/out.csv", place->folder);
  assert_int_equal(
      kc_store_choose(store, "CREATE TEMP TABLE chosen (series, run_id UNIQUE);"
                      "CREATE TEMP VIEW odd AS SELECT 'a,b' AS x, 'say \"hi\"' AS \"y,z\","
                      " NULL AS n, 0.1 AS r UNION ALL"
                      " SELECT 'two' || char(10) || 'lines', '', 3, 1e300",
                      NULL, 0, &diag), KC_ERR_INPUT); /* no runs to choose from yet */
  assert_non_null(strstr(diag.text, "holds no runs"));
  assert_int_equal(kc_store_export_csv(store, "odd", path, &rows, &diag), KC_OK);
  assert_int_equal(rows, 2);
  char *text = read_text(path);
  assert_string_equal(text, "x,\"y,z\",n,r\n\"a,b\",\"say \"\"hi\"\"\",,0.1\n"
                            "\"two\nlines\",,3,1.0e+300\n");
  free(text);
  assert_int_equal(kc_store_export_csv(store, "odd", "/nowhere/out.csv", &rows, &diag),
                   KC_ERR_FILE);
  kc_store_close(store);
}

static char *views_text(void)
{
  return read_text(KVCAP_SOURCE_DIR "/reports/sql/views.sql");
}

static void test_choose_names_what_is_wrong(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct kc_diag diag;
  char *views = views_text();
  store_plan(store, &small);
  store_plan(store, &small);
  assert_int_equal(kc_store_choose(store, views, (int64_t[]){2, 5}, 2, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "no run 5"));
  assert_int_equal(kc_store_choose(store, views, (int64_t[]){2, 2}, 2, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "twice"));
  assert_int_equal(kc_store_choose(store, views, (int64_t[]){2, 1}, 2, &diag), KC_OK);
  assert_int_equal(scalar(store, "SELECT run_id FROM chosen WHERE series = 1"), 1);
  assert_int_equal(kc_store_choose(store, views, NULL, 0, &diag), KC_OK);
  assert_int_equal(scalar(store, "SELECT run_id FROM chosen"), 2);
  assert_int_equal(scalar(store, "SELECT count(*) FROM chosen_label"
                          " WHERE label = '2: small · ''quoted'''"), 1);
  free(views);
  kc_store_close(store);
}

/* Four TTFT values by hand: 1 ms, and 2 ms three times. The steps of the distribution are at 25 %
 * and 100 %, and the buckets are at most 0.8 % wide. */
static void test_distribution_by_hand(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct fixture fixture;
  struct kc_diag diag;
  int64_t run_id;
  fixture_make(&fixture, &small);
  fixture.metrics->ttft_count = 4;
  fixture.metrics->ttft[0] = KC_PS_PER_MS;
  for (int i = 1; i < 4; i++) fixture.metrics->ttft[i] = 2 * KC_PS_PER_MS;
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_OK);
  fixture_free(&fixture);
  char *views = views_text();
  assert_int_equal(kc_store_choose(store, views, NULL, 0, &diag), KC_OK);
  free(views);
  assert_int_equal(scalar(store, "SELECT count(*) FROM report_latency WHERE metric = 'ttft'"), 3);
  assert_int_equal(scalar(store, "SELECT count(*) FROM report_latency WHERE metric = 'ttft' AND"
                          " share_percent = 0 AND latency_ms BETWEEN 0.992 AND 1"), 1);
  assert_int_equal(scalar(store, "SELECT count(*) FROM report_latency WHERE metric = 'ttft' AND"
                          " share_percent = 25 AND latency_ms BETWEEN 1 AND 1.008"), 1);
  assert_int_equal(scalar(store, "SELECT count(*) FROM report_latency WHERE metric = 'ttft' AND"
                          " share_percent = 100 AND latency_ms BETWEEN 2 AND 2.016"), 1);
  kc_store_close(store);
}

/* The fixture's bill: 80 GiB = 15 weights + 52.734375 KV + 3 other + 8 reserve + the rest. */
static void test_memory_by_hand(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct kc_diag diag;
  char *views = views_text();
  store_plan(store, &small);
  assert_int_equal(kc_store_choose(store, views, NULL, 0, &diag), KC_OK);
  free(views);
  assert_int_equal(scalar(store, "SELECT count(*) FROM report_memory"), 6);
  assert_int_equal(scalar(store, "SELECT high_gib = 15 FROM report_memory WHERE kind = 'weights'"),
                   1);
  assert_int_equal(scalar(store, "SELECT high_gib = 67.734375 FROM report_memory"
                          " WHERE kind = 'kv_unused'"), 1);
  assert_int_equal(scalar(store, "SELECT low_gib = 78.734375 AND high_gib = 80 FROM report_memory"
                          " WHERE kind = 'free'"), 1);
  kc_store_close(store);
}

struct seen {
  uint32_t count;
  double sum;
  bool right;
};

static enum kc_err see_measurement(void *context, const struct kc_measurement *m)
{
  struct seen *seen = context;
  seen->right = seen->right && strcmp(m->kind, "eval") == 0 && strcmp(m->unit, "nats") == 0 &&
                strcmp(m->subject, "a?b") == 0 && m->emulated == (seen->count % 2 == 1);
  seen->sum += m->value;
  seen->count++;
  return KC_OK;
}

/* Measurements come back in order, clean, and belong to no run. */
static void test_measurements(void **state)
{
  struct place *place = *state;
  struct kc_store *store = open_store(place->path);
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  struct seen seen = {.right = true};
  struct kc_measurement m[2] = {{.kind = "eval", .subject = "a\nb", .metric = "kl", .unit = "nats",
                                 .value = 0.25, .device = "cpu", .version = "1",
                                 .measured_utc = "2026-01-31T12:00:00Z"}};
  m[1] = m[0];
  m[1].value = 2.0;
  m[1].emulated = true;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(kc_store_add_measurements(store, m, 2, &diag), KC_OK);
  }
  assert_int_equal(kc_store_each_measurement(store, see_measurement, &seen, &diag), KC_OK);
  assert_int_equal(seen.count, 4);
  assert_true(seen.right && seen.sum == 4.5);
  assert_int_equal(kc_store_verify(store, NULL, &problems), KC_OK);
  kc_store_close(store);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rows_come_back, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_file_is_marked, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_ids_follow_the_largest, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_kept_rows, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_abort_leaves_nothing, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_run_without_row_is_refused, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_verify_catches_changes, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_verify_catches_each_column, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_broken_text, make_place, remove_place),
#ifdef KC_FAULTS
    cmocka_unit_test_setup_teardown(test_faults_are_caught, make_place, remove_place),
#endif
    cmocka_unit_test_setup_teardown(test_csv_is_quoted, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_choose_names_what_is_wrong, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_distribution_by_hand, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_memory_by_hand, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_measurements, make_place, remove_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
