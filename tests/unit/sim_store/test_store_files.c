/* Files that are not what they should be, disks that fill up, heaps that run dry: one clear
 * sentence with the right code, and whatever was stored before is intact. timeout: 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_sqlite.h"
#include "sim/store/store_internal.h"
#include "store_fixture.h"

struct place {
  char folder[64];
  char path[96], other[96];
};

static const struct fixture_plan small = {
  .name = "small", .seed = 3, .requests = 40, .slots = 4, .interval_us = 90000, .step_us = 9000,
  .rows = KC_ROWS_ALL};

static int make_place(void **state)
{
  struct place *place = calloc(1, sizeof *place);
  /* In memory where possible: thousands of commits, each with its fsync. */
  snprintf(place->folder, sizeof place->folder, "%s/kvcap-files-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (mkdtemp(place->folder) == NULL) return -1;
  snprintf(place->path, sizeof place->path, "%s/runs.db", place->folder);
  snprintf(place->other, sizeof place->other, "%s/other.db", place->folder);
  failing_arm_writes(0, false);
  failing_arm_memory(0, false);
  failing_arm_unlock(0, NULL, NULL);
  *state = place;
  return 0;
}

static int remove_place(void **state)
{
  struct place *place = *state;
  char command[192];
  snprintf(command, sizeof command, "chmod -R u+rwx '%s' && rm -rf '%s'", place->folder,
           place->folder);
  const int status = system(command);
  free(place);
  return status;
}

/* ---- helpers ---- */

static enum kc_err store_one(const char *path, const struct fixture *fixture, struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  int64_t run_id;
  enum kc_err err = kc_store_open(&store, path, diag);
  if (err == KC_OK) err = fixture_store(store, fixture, &run_id, diag);
  kc_store_close(store);
  return err;
}

static void make_database(const char *path, int runs)
{
  struct fixture fixture;
  struct kc_diag diag = {0};
  fixture_make(&fixture, &small);
  for (int i = 0; i < runs; i++) {
    if (store_one(path, &fixture, &diag) != KC_OK) fail_msg("%s", diag.text);
  }
  fixture_free(&fixture);
}

/* Runs in the file, after a verification that must succeed. */
static int64_t count_intact(const char *path)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  int64_t runs = -1;
  if (kc_store_open_read(&store, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (kc_store_verify(store, NULL, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
  assert_int_equal(kc_store_scalar(store, "SELECT count(*) FROM run", &runs, "", &diag), KC_OK);
  kc_store_close(store);
  return runs;
}

static void expect_failure(enum kc_err err, const struct kc_diag *diag, enum kc_err code,
                           const char *part)
{
  if (err != code || diag->code != code || strstr(diag->text, part) == NULL) {
    fail_msg("expected code %d and \"%s\", got %d: %s: %s", code, part, err, diag->path,
             diag->text);
  }
}

/* Both ways of opening must refuse with the same code. */
static void expect_refused(const char *path, enum kc_err code, const char *part)
{
  struct kc_store *store = (struct kc_store *)(uintptr_t)1;
  struct kc_diag diag = {0};
  expect_failure(kc_store_open(&store, path, &diag), &diag, code, part);
  assert_null(store);
  expect_failure(kc_store_open_read(&store, path, &diag), &diag, code, part);
  assert_null(store);
}

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void run_sql(const char *path, const char *sql)
{
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s", sqlite3_errmsg(db));
  sqlite3_close(db);
}

/* ---- what the file is ---- */

static void test_not_a_database(void **state)
{
  struct place *place = *state;
  char text[1024];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  write_file(place->path, text);
  expect_refused(place->path, KC_ERR_STORE, "not a results database");
  struct stat facts;
  assert_int_equal(stat(place->path, &facts), 0);
  assert_int_equal(facts.st_size, 1023); /* untouched */
  write_file(place->path, "x");
  expect_refused(place->path, KC_ERR_STORE, "1 bytes, too few");
}

static void test_zero_length_is_new(void **state)
{
  struct place *place = *state;
  struct kc_store *store = NULL;
  struct kc_diag diag;
  write_file(place->path, "");
  expect_failure(kc_store_open_read(&store, place->path, &diag), &diag, KC_ERR_STORE, "is empty");
  make_database(place->path, 1);
  assert_int_equal(count_intact(place->path), 1);
}

static void test_truncated(void **state)
{
  struct place *place = *state;
  struct stat facts;
  make_database(place->path, 2);
  assert_int_equal(stat(place->path, &facts), 0);
  const off_t sizes[] = {facts.st_size - 1, facts.st_size - 4096, facts.st_size / 2, 8192, 4096,
                         4095, 600, 511, 100, 99, 16, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct kc_store *store = NULL;
    struct kc_diag diag;
    struct kc_diag_list problems;
    assert_int_equal(truncate(place->path, sizes[i]), 0);
    enum kc_err err = kc_store_open_read(&store, place->path, &diag);
    if (err == KC_OK) err = kc_store_verify(store, NULL, &problems);
    kc_store_close(store);
    if (err != KC_ERR_STORE) fail_msg("cut to %ld bytes: code %d", (long)sizes[i], err);
  }
}

static void test_another_program(void **state)
{
  struct place *place = *state;
  run_sql(place->path, "CREATE TABLE notes (text); PRAGMA application_id = 252006673");
  expect_refused(place->path, KC_ERR_STORE, "application_id 0xf055111");
  run_sql(place->other, "CREATE TABLE notes (text)");
  expect_refused(place->other, KC_ERR_STORE, "belongs to another program");
}

static void test_other_schemas(void **state)
{
  struct place *place = *state;
  make_database(place->path, 1);
  char sql[96], newer[64];
  snprintf(sql, sizeof sql, "PRAGMA user_version = %d", KC_STORE_SCHEMA + 1);
  snprintf(newer, sizeof newer, "schema %d, written by a newer kvcap", KC_STORE_SCHEMA + 1);
  run_sql(place->path, sql);
  expect_refused(place->path, KC_ERR_STORE, newer);
  run_sql(place->path, "PRAGMA user_version = -1");
  expect_refused(place->path, KC_ERR_STORE, "damaged: schema -1");
  snprintf(sql, sizeof sql, "PRAGMA user_version = %d; DROP TABLE violation", KC_STORE_SCHEMA);
  run_sql(place->path, sql);
  expect_refused(place->path, KC_ERR_STORE, "15 of the 16 tables");
}

/* A file as schema 1 left it. It is brought up when a run is stored in it; its old run keeps layout
 * 1 and is counted as older, not recomputed; whatever else can be verified of it still is. */
static void test_older_schema_is_migrated(void **state)
{
  static const char *const since[] = {"layout", "prefix_cache", "admitted_tokens", "cached_tokens",
                                      "recached_tokens", "warm_requests", "pages_evicted",
                                      "slo_met", "contaminated", "trust", "trust_basis",
                                      "outside_ps"};
  static const char *const since_request[] = {"cached_tokens", "recached_tokens", "contaminated",
                                              "tenant", "class", "kv_wait_ps", "host_ps",
                                              "first_resident_ps", "first_kv_wait_ps",
                                              "first_host_ps"};
  struct place *place = *state;
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  struct kc_store_older older = {.runs = -1};
  char sql[160];
  make_database(place->path, 1);
  for (size_t i = 0; i < sizeof since / sizeof since[0]; i++) {
    snprintf(sql, sizeof sql, "ALTER TABLE run DROP COLUMN %s", since[i]);
    run_sql(place->path, sql);
  }
  for (size_t i = 0; i < sizeof since_request / sizeof since_request[0]; i++) {
    snprintf(sql, sizeof sql, "ALTER TABLE request DROP COLUMN %s", since_request[i]);
    run_sql(place->path, sql);
  }
  run_sql(place->path, "DROP TABLE plan_unit; DROP TABLE plan_candidate;"
                       "DROP TABLE plan_requirement; DROP TABLE plan;"
                       "DROP TABLE run_group; DROP TABLE measurement; DROP TABLE point_set;"
                       "DROP TABLE point_figure; DROP TABLE point; DROP TABLE sweep; PRAGMA "
                       "user_version = 1;"
                       "UPDATE run SET summary_json = json_set(summary_json, '$.schema', 1)");
  expect_failure(kc_store_open_read(&store, place->path, &diag), &diag, KC_ERR_STORE,
                 "the older schema 1");
  kc_store_close(store);
  make_database(place->path, 1);
  assert_int_equal(kc_store_open_read(&store, place->path, &diag), KC_OK);
  if (kc_store_verify(store, &older, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
  assert_int_equal(older.runs, 1);
  kc_store_close(store);
  run_sql(place->path, "UPDATE request SET output_tokens = output_tokens + 1 WHERE run_id = 1"
          " AND sequence = 0");
  assert_int_equal(kc_store_open_read(&store, place->path, &diag), KC_OK);
  assert_int_equal(kc_store_verify(store, &older, &problems), KC_ERR_STORE);
  kc_store_close(store);
}

static void test_wrong_places(void **state)
{
  struct place *place = *state;
  struct kc_store *store = NULL;
  struct kc_diag diag;
  expect_refused("", KC_ERR_USAGE, "empty");
  expect_refused(place->folder, KC_ERR_FILE, "folder");
  expect_refused("/dev/null", KC_ERR_FILE, "regular file");
  expect_failure(kc_store_open_read(&store, place->path, &diag), &diag, KC_ERR_FILE,
                 "no such file");
  snprintf(place->path, sizeof place->path, "%s/missing/runs.db", place->folder);
  expect_failure(kc_store_open(&store, place->path, &diag), &diag, KC_ERR_FILE,
                 "folder for the database does not exist");
}

/* Names that SQLite would take for something else are plain names here. */
static void test_odd_names(void **state)
{
  struct place *place = *state;
  static const char *const names[] = {":memory:", "file:x.db?mode=memory", "-db", "a b'c\".db",
                                      "%41?#.db"};
  char back[1024];
  assert_non_null(getcwd(back, sizeof back));
  assert_int_equal(chdir(place->folder), 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    make_database(names[i], 1);
    assert_int_equal(access(names[i], F_OK), 0);
    assert_int_equal(count_intact(names[i]), 1);
  }
  assert_int_equal(chdir(back), 0);
}

/* ---- permissions: as somebody who is not root ---- */

/* Runs `check` in a child without privileges; its exit status must be 0. */
static void as_nobody(const struct place *place, int (*check)(const struct place *place))
{
  const pid_t child = fork();
  int status = 0;
  assert_true(child >= 0);
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(99);
    _exit(check(place));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("child: status 0x%x", status);
}

static int write_is_refused(const struct place *place)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  const enum kc_err err = kc_store_open(&store, place->path, &diag);
  if (kc_err_exit_status(err) == 4) return 0;
  fprintf(stderr, "code %d: %s\n", err, diag.text);
  return 1;
}

static int read_is_possible(const struct place *place)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  enum kc_err err = kc_store_open_read(&store, place->path, &diag);
  if (err == KC_OK) err = kc_store_verify(store, NULL, &problems);
  kc_store_close(store);
  if (err == KC_OK) return 0;
  fprintf(stderr, "code %d: %s\n", err, diag.text);
  return 1;
}

static int read_is_refused(const struct place *place)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  return kc_store_open_read(&store, place->path, &diag) == KC_ERR_FILE ? 0 : 1;
}

static void test_read_only(void **state)
{
  struct place *place = *state;
  make_database(place->path, 2);
  assert_int_equal(chmod(place->folder, 0777), 0);
  assert_int_equal(chmod(place->path, 0444), 0);
  as_nobody(place, write_is_refused);
  assert_int_equal(chmod(place->folder, 0555), 0);
  as_nobody(place, write_is_refused);
  as_nobody(place, read_is_possible);
  assert_int_equal(chmod(place->path, 0666), 0);
  as_nobody(place, write_is_refused);
  as_nobody(place, read_is_possible);
  assert_int_equal(chmod(place->path, 0000), 0);
  as_nobody(place, read_is_refused);
  assert_int_equal(chmod(place->path, 0644), 0);
  assert_int_equal(count_intact(place->path), 2);
}

/* Names in the folder, and what the file itself is, in one text. */
static void look_around(const struct place *place, char text[1024])
{
  char command[256];
  snprintf(command, sizeof command, "cd '%s' && ls -A && sha256sum runs.db && stat -c %%y runs.db",
           place->folder);
  FILE *out = popen(command, "r");
  assert_non_null(out);
  const size_t bytes = fread(text, 1, 1023, out);
  assert_int_equal(pclose(out), 0);
  text[bytes] = '\0';
}

/* Who may write the file and who may not, where the folder may be written and where not. */
static void test_readers_leave_nothing(void **state)
{
  static const mode_t modes[][2] = {{0777, 0666}, {0777, 0444}, {0555, 0666}, {0555, 0444}};
  struct place *place = *state;
  char before[1024], after[1024];
  make_database(place->path, 2);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    assert_int_equal(chmod(place->folder, modes[i][0]), 0);
    assert_int_equal(chmod(place->path, modes[i][1]), 0);
    look_around(place, before);
    as_nobody(place, read_is_possible);
    look_around(place, after);
    assert_string_equal(before, after);
    assert_int_equal(read_is_possible(place), 0); /* as whoever runs this */
    look_around(place, after);
    assert_string_equal(before, after);
  }
  assert_null(strstr(before, "-shm"));
}

/* A writer that is still there keeps its -wal, and what is in it is read. */
static void test_readers_leave_a_writer_alone(void **state)
{
  struct place *place = *state;
  char text[1024];
  sqlite3 *writer = NULL;
  make_database(place->path, 1);
  assert_int_equal(sqlite3_open(place->path, &writer), SQLITE_OK);
  assert_int_equal(sqlite3_exec(writer, "UPDATE run SET name = 'x'", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(read_is_possible(place), 0);
  look_around(place, text);
  assert_non_null(strstr(text, "runs.db-wal"));
  assert_int_equal(sqlite3_exec(writer, "UPDATE run SET name = 'y'", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(writer);
  look_around(place, text);
  assert_null(strstr(text, "runs.db-wal"));
}

/* ---- company ---- */

/* A lock at the begin is no obstacle; one that outlasts the patience at the end is. */
static void test_locked(void **state)
{
  struct place *place = *state;
  struct fixture fixture;
  struct kc_diag diag = {0};
  struct kc_store *store = NULL;
  sqlite3 *holder = NULL;
  int64_t run_id;
  fixture_make(&fixture, &small);
  make_database(place->path, 1);
  assert_int_equal(sqlite3_open(place->path, &holder), SQLITE_OK);
  assert_int_equal(sqlite3_exec(holder, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(kc_store_open(&store, place->path, &diag), KC_OK);
  assert_int_equal(store->end_busy_ms, 15000);
  store->end_busy_ms = 2000;
  expect_failure(fixture_store(store, &fixture, &run_id, &diag), &diag, KC_ERR_STORE,
                 "held the database for more than 2 s");
  assert_int_equal(count_intact(place->path), 1); /* readers are not held up */
  assert_int_equal(kc_store_run_begin(store, &fixture.header, &diag), KC_OK);
  assert_int_equal(sqlite3_exec(holder, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(holder);
  assert_int_equal(fixture_tell(store, &fixture, &diag), KC_OK);
  assert_int_equal(fixture_end(store, &fixture, &run_id, &diag), KC_OK);
  assert_int_equal(run_id, 2);
  kc_store_close(store);
  assert_int_equal(count_intact(place->path), 2);
  fixture_free(&fixture);
}

/* Two runs that go on at the same time on one file, interleaved: the first to end is the first. */
static void test_side_by_side(void **state)
{
  struct place *place = *state;
  struct fixture fixture;
  struct kc_diag diag = {0};
  struct kc_store *one = NULL, *two = NULL;
  int64_t id_one = 0, id_two = 0;
  fixture_make(&fixture, &small);
  assert_int_equal(kc_store_open(&one, place->path, &diag), KC_OK);
  assert_int_equal(kc_store_open(&two, place->path, &diag), KC_OK);
  assert_int_equal(kc_store_run_begin(one, &fixture.header, &diag), KC_OK);
  if (kc_store_run_begin(two, &fixture.header, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_int_equal(fixture_tell(one, &fixture, &diag), KC_OK);
  assert_int_equal(fixture_tell(two, &fixture, &diag), KC_OK);
  assert_int_equal(fixture_end(two, &fixture, &id_two, &diag), KC_OK);
  assert_int_equal(fixture_end(one, &fixture, &id_one, &diag), KC_OK);
  assert_int_equal(id_two, 1);
  assert_int_equal(id_one, 2);
  kc_store_close(one);
  kc_store_close(two);
  assert_int_equal(count_intact(place->path), 2);
  fixture_free(&fixture);
}

struct intruder {
  const char *path;
  const struct fixture *fixture; /* NULL: only opens */
  enum kc_err err;
  struct kc_diag diag;
};

static void intrude(void *context)
{
  struct intruder *intruder = context;
  struct kc_store *store = NULL;
  if (intruder->fixture != NULL) {
    intruder->err = store_one(intruder->path, intruder->fixture, &intruder->diag);
  } else {
    intruder->err = kc_store_open(&store, intruder->path, &intruder->diag);
    kc_store_close(store);
  }
}

/* Somebody else opens the same new file, or stores a run in it, at each instant at which we hold no
 * lock while we do so: both must succeed. */
static void race_on_new_file(struct place *place, bool stores)
{
  struct fixture fixture;
  long n = 1;
  fixture_make(&fixture, &small);
  for (bool happened = true; happened; n++) {
    struct intruder intruder = {.path = place->path, .fixture = stores ? &fixture : NULL};
    struct kc_diag diag = {0};
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'*", place->path);
    assert_int_equal(system(command), 0);
    failing_arm_unlock(n, intrude, &intruder);
    const enum kc_err err = store_one(place->path, &fixture, &diag);
    happened = failing_happened();
    failing_arm_unlock(0, NULL, NULL);
    if (err != KC_OK) fail_msg("unlock %ld: %s", n, diag.text);
    if (intruder.err != KC_OK) fail_msg("unlock %ld, intruder: %s", n, intruder.diag.text);
    assert_int_equal(count_intact(place->path), stores && happened ? 2 : 1);
  }
  assert_true(n > 4);
  fixture_free(&fixture);
}

static void test_race_on_new_file(void **state)
{
  race_on_new_file(*state, false);
  race_on_new_file(*state, true);
}

static void copy_file(const char *from, const char *to)
{
  char command[256];
  snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
  assert_int_equal(system(command), 0);
}

/* A copy of the main file alone, taken while the database is in use, holds every finished run. */
static void test_missing_wal(void **state)
{
  struct place *place = *state;
  struct fixture fixture;
  struct kc_diag diag;
  struct kc_store *store = NULL;
  char wal[128];
  int64_t run_id;
  fixture_make(&fixture, &small);
  snprintf(wal, sizeof wal, "%s-wal", place->path);
  assert_int_equal(kc_store_open(&store, place->path, &diag), KC_OK);
  copy_file(place->path, place->other);
  struct kc_store *empty = NULL;
  assert_int_equal(kc_store_open_read(&empty, place->other, &diag), KC_OK); /* schema is there */
  kc_store_close(empty);
  assert_int_equal(fixture_store(store, &fixture, &run_id, &diag), KC_OK);
  assert_int_equal(kc_store_run_begin(store, &fixture.header, &diag), KC_OK);
  assert_int_equal(access(wal, F_OK), 0);
  copy_file(place->path, place->other);
  assert_int_equal(count_intact(place->other), 1);
  assert_int_equal(store_one(place->other, &fixture, &diag), KC_OK);
  assert_int_equal(count_intact(place->other), 2);
  kc_store_close(store);
  fixture_free(&fixture);
}

/* ---- room ---- */

static int64_t pages_of(const char *path)
{
  struct kc_store *store = NULL;
  struct kc_diag diag;
  int64_t pages = 0;
  assert_int_equal(kc_store_open_read(&store, path, &diag), KC_OK);
  assert_int_equal(kc_store_scalar(store, "PRAGMA page_count", &pages, "", &diag), KC_OK);
  kc_store_close(store);
  return pages;
}

/* Room for every number of pages between none and enough. */
static void test_full_at_every_page(void **state)
{
  struct place *place = *state;
  struct fixture fixture;
  struct fixture_plan plan = small;
  plan.requests = 800;
  fixture_make(&fixture, &plan);
  make_database(place->path, 1);
  const int64_t before = pages_of(place->path);
  enum kc_err err = KC_ERR_STORE;
  int64_t room = 0, failures = 0;
  for (; err != KC_OK; room++) {
    struct kc_store *store = NULL;
    struct kc_diag diag;
    int64_t run_id;
    char pragma[64];
    assert_int_equal(kc_store_open(&store, place->path, &diag), KC_OK);
    snprintf(pragma, sizeof pragma, "PRAGMA max_page_count = %lld", (long long)(before + room));
    assert_int_equal(kc_store_exec(store, pragma, "", &diag), KC_OK);
    err = fixture_store(store, &fixture, &run_id, &diag);
    if (err != KC_OK) {
      expect_failure(err, &diag, KC_ERR_STORE, "the disk is full while storing run 2");
      assert_string_equal(diag.path, place->path);
      if (room > 1) assert_non_null(strstr(diag.text, "needs at least"));
      failures++;
    }
    kc_store_close(store);
    assert_int_equal(count_intact(place->path), err == KC_OK ? 2 : 1);
  }
  assert_true(failures > 10);
  fixture_free(&fixture);
}

/* The n-th write fails, for every n until none does: the first creation of the file included. */
static void full_at_every_write(struct place *place, bool for_good)
{
  struct fixture fixture;
  struct kc_diag diag = {0};
  fixture_make(&fixture, &small);
  long n = 1, failures = 0;
  for (bool happened = true; happened; n++) {
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'*", place->path);
    assert_int_equal(system(command), 0);
    failing_arm_writes(n, for_good);
    const enum kc_err err = store_one(place->path, &fixture, &diag);
    happened = failing_happened();
    failing_arm_writes(0, false);
    if (err != KC_OK) {
      failures++;
      expect_failure(err, &diag, KC_ERR_STORE, "the disk is full");
    }
    /* Whatever happened, the file can be used again, and holds the run if and only if it was
     * acknowledged. */
    assert_int_equal(store_one(place->path, &fixture, &diag), KC_OK);
    const int64_t runs = count_intact(place->path);
    if (runs != (err == KC_OK ? 2 : 1)) fail_msg("write %ld: code %d, %d runs", n, err, (int)runs);
  }
  assert_true(failures > 10);
  fixture_free(&fixture);
}

static void test_full_at_every_write_once(void **state)
{
  full_at_every_write(*state, false);
}

static void test_full_at_every_write_for_good(void **state)
{
  full_at_every_write(*state, true);
}

/* The n-th allocation fails. Thinned out above 40, because a run makes thousands. */
static void dry_at_every_request(struct place *place, bool for_good)
{
  struct fixture fixture;
  struct kc_diag diag = {0};
  struct fixture_plan plan = small;
  plan.requests = 5;
  fixture_make(&fixture, &plan);
  make_database(place->path, 1);
  long failures = 0;
  int64_t runs = 1;
  for (long n = 1; n < 1000000; n += 1 + n / 40) {
    failing_arm_memory(n, for_good);
    const enum kc_err err = store_one(place->path, &fixture, &diag);
    const bool happened = failing_happened();
    failing_arm_memory(0, false);
    if (err != KC_OK) {
      failures++;
      if (err != KC_ERR_MEMORY) fail_msg("allocation %ld: code %d: %s", n, err, diag.text);
    } else {
      runs++;
    }
    assert_int_equal(count_intact(place->path), runs);
    if (!happened) break;
  }
  assert_true(failures > 100);
  fixture_free(&fixture);
}

static void test_dry_at_every_request_once(void **state)
{
  dry_at_every_request(*state, false);
}

static void test_dry_at_every_request_for_good(void **state)
{
  dry_at_every_request(*state, true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_not_a_database, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_zero_length_is_new, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_truncated, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_another_program, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_other_schemas, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_older_schema_is_migrated, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_readers_leave_nothing, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_readers_leave_a_writer_alone, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_wrong_places, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_odd_names, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_read_only, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_locked, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_side_by_side, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_race_on_new_file, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_missing_wal, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_full_at_every_page, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_full_at_every_write_once, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_full_at_every_write_for_good, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_dry_at_every_request_once, make_place, remove_place),
    cmocka_unit_test_setup_teardown(test_dry_at_every_request_for_good, make_place, remove_place),
  };
  failing_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
