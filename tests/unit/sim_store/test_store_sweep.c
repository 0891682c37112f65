/* Sweeps in the database: what is written is read back, merging does not depend on how points were
 * dealt out, disagreement is refused, damage is found, and a batch that fails is not there at all.
 * timeout: 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_sqlite.h"
#include "sim/store/store_internal.h"
#include "sim/store/store_sweep.h"

enum { POINTS = 9 };

enum { FILES = 4 };

struct place {
  char folder[64];
  char *path[FILES];
};

static int make_place(void **state)
{
  struct place *place = calloc(1, sizeof *place);
  snprintf(place->folder, sizeof place->folder, "%s/kvcap-sweeps-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (mkdtemp(place->folder) == NULL) return -1;
  for (int i = 0; i < FILES; i++) {
    if (asprintf(&place->path[i], "%s/%d.db", place->folder, i) < 0) return -1;
  }
  failing_arm_writes(0, false);
  failing_arm_memory(0, false);
  *state = place;
  return 0;
}

static int remove_place(void **state)
{
  struct place *place = *state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", place->folder);
  const int status = system(command);
  for (int i = 0; i < FILES; i++) free(place->path[i]);
  free(place);
  return status;
}

/* ---- an invented sweep ---- */

#define HASH_OF_X "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" /* of "x" */

static struct kc_sweep_header header_of(char digit)
{
  static char sha[2][KC_SHA256_HEX_BYTES];
  char *mine = sha[digit != '1'];
  memset(mine, digit, KC_SHA256_HEX_BYTES - 1);
  return (struct kc_sweep_header){.name = digit == '1' ? "one" : "two", .sweep_sha256 = mine,
                                  .scenario_sha256 = HASH_OF_X, .scenario_text = "x", .sets = "",
                                  .axes = "axis", .points = POINTS};
}

struct invented {
  struct kc_stored_pair set[2];
  struct kc_stored_figure figure[3];
  char config[KC_SHA256_HEX_BYTES], result[KC_SHA256_HEX_BYTES], value[8];
};

/* Point `number`: 0 does not fit, 1 failed, the others are done. */
static struct kc_stored_point invent(struct invented *in, uint64_t number)
{
  snprintf(in->value, sizeof in->value, "%d", (int)number);
  in->set[0] = (struct kc_stored_pair){"a.b", in->value};
  in->set[1] = (struct kc_stored_pair){"c", "d"};
  in->figure[0] = (struct kc_stored_figure){"ttft_p95_ms", 1.0 / 3.0 + (double)number};
  in->figure[1] = (struct kc_stored_figure){"kv_tokens", 1e15 + (double)number};
  in->figure[2] = (struct kc_stored_figure){"headroom", -0.0};
  memset(in->config, 'a' + (int)number, KC_SHA256_HEX_BYTES - 1);
  memset(in->result, 'A' + (int)number, KC_SHA256_HEX_BYTES - 1);
  in->config[KC_SHA256_HEX_BYTES - 1] = in->result[KC_SHA256_HEX_BYTES - 1] = '\0';
  const bool done = number > 1;
  return (struct kc_stored_point){
      .number = number, .status = done ? "done" : number == 0 ? "no_fit" : "failed",
      .reason = done ? "" : "a reason", .trust = done ? "calibrated" : "",
      .config_sha256 = in->config, .result_sha256 = done ? in->result : "", .set_count = 2,
      .figure_count = 3, .set = in->set, .figure = in->figure};
}

static enum kc_err write_some(const char *path, char sweep, uint64_t from, uint64_t step,
                              struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  struct kc_stored_point point[POINTS];
  struct invented in[POINTS];
  const struct kc_sweep_header header = header_of(sweep);
  size_t count = 0;
  int64_t id;
  for (uint64_t n = from; n < POINTS; n += step, count++) point[count] = invent(&in[count], n);
  enum kc_err err = kc_store_open(&store, path, diag);
  if (err == KC_OK) err = kc_store_sweep_begin(store, &header, &id, diag);
  if (err == KC_OK) err = kc_store_points_write(store, id, point, count, diag);
  kc_store_close(store);
  return err;
}

static void write_points(const char *path, char sweep, uint64_t from, uint64_t step)
{
  struct kc_diag diag = {0};
  if (write_some(path, sweep, from, step, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static struct kc_store *open_intact(const char *path)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  if (kc_store_open_read(&store, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (kc_store_verify(store, NULL, &problems) != KC_OK) fail_msg("%s", problems.items[0].text);
  return store;
}

static enum kc_err append_digest(void *context, const char *table, uint64_t rows,
                                 const char *sha256)
{
  char *text = context;
  const size_t used = strlen(text);
  snprintf(text + used, 4096 - used, "%s %llu %s\n", table, (unsigned long long)rows, sha256);
  return KC_OK;
}

/* All digests of a file, in text[4096]. */
static void digests(const char *path, char *text)
{
  struct kc_store *store = open_intact(path);
  struct kc_diag diag = {0};
  text[0] = '\0';
  assert_int_equal(kc_store_each_table(store, append_digest, text, &diag), KC_OK);
  kc_store_close(store);
}

static void run_sql(const char *path, const char *sql)
{
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s", sqlite3_errmsg(db));
  sqlite3_close(db);
}

static enum kc_err merge(const char *out, const char *const *from, size_t count,
                         struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  enum kc_err err = kc_store_open(&store, out, diag);
  if (err == KC_OK) err = kc_store_merge(store, from, count, diag);
  kc_store_close(store);
  return err;
}

/* ---- tests ---- */

static enum kc_err compare_point(void *context, const struct kc_stored_point *seen)
{
  uint64_t *count = context;
  struct invented in;
  const struct kc_stored_point wanted = invent(&in, seen->number);
  assert_int_equal(seen->number, *count);
  assert_string_equal(seen->status, wanted.status);
  assert_string_equal(seen->reason, wanted.reason);
  assert_string_equal(seen->trust, wanted.trust);
  assert_string_equal(seen->config_sha256, wanted.config_sha256);
  assert_string_equal(seen->result_sha256, wanted.result_sha256);
  assert_int_equal(seen->set_count, 2);
  assert_string_equal(seen->set[0].value, in.value);
  assert_string_equal(seen->set[1].key, "c");
  assert_int_equal(seen->figure_count, 3); /* by name */
  assert_string_equal(seen->figure[2].name, "ttft_p95_ms");
  assert_true(seen->figure[2].value == in.figure[0].value); /* to the bit */
  assert_true(seen->figure[1].value == in.figure[1].value);
  *count += 1;
  return KC_OK;
}

static enum kc_err count_known(void *context, const char *config_sha256, int64_t sweep_id,
                               uint64_t number)
{
  assert_int_equal(config_sha256[0], 'a' + (int)number);
  assert_int_equal(sweep_id, 1);
  *(int *)context += 1;
  return KC_OK;
}

static enum kc_err look_at_sweep(void *context, const struct kc_sweep_brief *sweep)
{
  *(int *)context += 1;
  assert_int_equal(sweep->points, POINTS);
  assert_int_equal(sweep->done + sweep->no_fit + sweep->failed, POINTS);
  assert_int_equal(sweep->failed, 1);
  return KC_OK;
}

static void what_is_written_is_read(void **state)
{
  struct place *place = *state;
  struct kc_diag diag = {0};
  uint64_t count = 0;
  int known = 0, sweeps = 0;
  write_points(place->path[0], '1', 0, 1);
  write_points(place->path[0], '1', 0, 2); /* again: in place of what was there */
  struct kc_store *store = open_intact(place->path[0]);
  assert_int_equal(kc_store_each_point(store, 1, UINT64_MAX, compare_point, &count, &diag), KC_OK);
  assert_int_equal(count, POINTS);
  count = 4;
  assert_int_equal(kc_store_each_point(store, 1, 4, compare_point, &count, &diag), KC_OK);
  assert_int_equal(kc_store_each_point(store, 1, 99, compare_point, &count, &diag), KC_ERR_INPUT);
  assert_int_equal(kc_store_each_known(store, count_known, &known, &diag), KC_OK);
  assert_int_equal(known, POINTS - 1); /* a failure is worth another try */
  assert_int_equal(kc_store_each_sweep(store, look_at_sweep, &sweeps, &diag), KC_OK);
  assert_int_equal(sweeps, 1);
  kc_store_close(store);
}

static void merging_does_not_see_the_shards(void **state)
{
  struct place *place = *state;
  struct kc_diag diag = {0};
  char whole[4096], merged[4096];
  const char *const *from = (const char *const[]){place->path[1], place->path[2]};
  const char *const *back = (const char *const[]){place->path[2], place->path[1]};
  write_points(place->path[0], '1', 0, 1);
  write_points(place->path[0], '2', 0, 1);
  write_points(place->path[1], '2', 1, 2); /* the sweeps in another order */
  write_points(place->path[1], '1', 1, 2);
  write_points(place->path[2], '2', 0, 2);
  write_points(place->path[2], '1', 0, 1); /* some points twice */
  digests(place->path[0], whole);
  assert_int_equal(merge(place->path[3], from, 2, &diag), KC_OK);
  digests(place->path[3], merged);
  assert_string_equal(whole, merged);
  assert_int_equal(merge(place->path[3], back, 2, &diag), KC_OK); /* nothing new */
  digests(place->path[3], merged);
  assert_string_equal(whole, merged);
}

static void failures_give_way(void **state)
{
  struct place *place = *state;
  struct kc_diag diag = {0};
  char one[4096], two[4096];
  const char *const *from = (const char *const[]){place->path[0], place->path[1]};
  const char *const *back = (const char *const[]){place->path[1], place->path[0]};
  write_points(place->path[0], '1', 0, 1);
  write_points(place->path[1], '1', 0, 1);
  run_sql(place->path[0], "UPDATE point SET status = 'failed', reason = 'b',"
                          " point_sha256 = NULL WHERE number = 5;"
                          "UPDATE point SET reason = 'b', point_sha256 = NULL WHERE number = 1");
  run_sql(place->path[1], "UPDATE point SET reason = 'c', point_sha256 = NULL WHERE number = 1");
  assert_int_equal(merge(place->path[2], from, 2, &diag), KC_OK);
  assert_int_equal(merge(place->path[3], back, 2, &diag), KC_OK);
  digests(place->path[2], one);
  digests(place->path[3], two);
  assert_string_equal(one, two);
  run_sql(place->path[2], "SELECT 1 / (status = 'done') FROM point WHERE number = 5");
}

static void disagreement_is_refused(void **state)
{
  static const char *const changes[] = {
      "UPDATE point SET result_sha256 = config_sha256 WHERE number = 3",
      "UPDATE point SET config_sha256 = result_sha256 WHERE number = 3",
      "UPDATE point SET trust = 'datasheet' WHERE number = 3",
      "UPDATE point_figure SET value = value + 1e-9 WHERE number = 3 AND figure = 'ttft_p95_ms'",
      "DELETE FROM point_figure WHERE number = 3 AND figure = 'headroom'",
      "INSERT INTO point_figure VALUES (1, 3, 'more', 1.0)"};
  struct place *place = *state;
  struct kc_diag diag = {0};
  const char *const from[] = {place->path[0], place->path[1]};
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", place->folder);
    assert_int_equal(system(command), 0);
    write_points(place->path[0], '1', 0, 1);
    write_points(place->path[1], '1', 0, 1);
    run_sql(place->path[1], changes[i]);
    assert_int_equal(merge(place->path[2], from, 2, &diag), KC_ERR_STORE);
    assert_non_null(strstr(diag.text, "point 3 of sweep 1 says something else"));
    assert_string_equal(diag.path, place->path[1]);
  }
}

/* Every change of a row is seen by a digest; some are found without another file. */
static void damage_is_found(void **state)
{
  static const struct {
    const char *sql, *said;
  } damage[] = {
      {"UPDATE sweep SET points = 5", "lies beyond its sweep"},
      {"UPDATE point SET config_sha256 = NULL WHERE number = 4", "has no config_sha256"},
      {"UPDATE point SET result_sha256 = 'x' WHERE number = 4", "has no result_sha256"},
      {"UPDATE point SET reason = NULL WHERE number = 0", "gives no reason"},
      {"DELETE FROM point_figure WHERE number = 4", "has no figures"},
      {"DELETE FROM point_set WHERE number = 4", "does not say what was varied"},
      {"UPDATE sweep SET scenario_text = 'y'", "does not give its scenario_sha256"},
      {"UPDATE point SET config_sha256 = (SELECT config_sha256 FROM point WHERE number = 5)"
       " WHERE number = 4", "different results"},
      {"UPDATE point_figure SET value = value * (1 + 1e-15) WHERE number = 4"
       " AND figure = 'kv_tokens'",
       "point 4 of sweep 1, its changes and figures do not give"},
      {"UPDATE point_figure SET figure = 'ttft_p99_ms' WHERE number = 3"
       " AND figure = 'ttft_p95_ms'",
       "point 3 of sweep 1, its changes"},
      {"DELETE FROM point_figure WHERE number = 8 AND figure = 'headroom'",
       "point 8 of sweep 1, its changes"},
      {"INSERT INTO point_figure VALUES (1, 2, 'zzz', 1.0)", "point 2 of sweep 1, its changes"},
      {"UPDATE point_set SET value = '5' WHERE number = 4 AND position = 0",
       "point 4 of sweep 1, its changes"},
      {"UPDATE point SET reason = 'another' WHERE number = 1", "point 1 of sweep 1, its changes"},
      {"UPDATE point_figure SET value = 9e999 WHERE number = 4 AND figure = 'headroom'",
       "point 4 of sweep 1, its changes"},
      {"DELETE FROM sweep", "belong to no run, sweep or point"}};
  struct place *place = *state;
  char before[4096], after[4096];
  for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
    struct kc_store *store = NULL;
    struct kc_diag diag = {0};
    struct kc_diag_list problems;
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", place->folder);
    assert_int_equal(system(command), 0);
    write_points(place->path[0], '1', 0, 1);
    digests(place->path[0], before);
    run_sql(place->path[0], damage[i].sql);
    assert_int_equal(kc_store_open_read(&store, place->path[0], &diag), KC_OK);
    after[0] = '\0';
    assert_int_equal(kc_store_each_table(store, append_digest, after, &diag), KC_OK);
    assert_string_not_equal(before, after);
    assert_int_equal(kc_store_verify(store, NULL, &problems), KC_ERR_STORE);
    if (strstr(problems.items[0].text, damage[i].said) == NULL) {
      fail_msg("%s: \"%s\"", damage[i].sql, problems.items[0].text);
    }
    kc_store_close(store);
  }
}

/* The file as the program before this one left it: no digests, no plans. */
static void make_older(const char *path)
{
  run_sql(path, "ALTER TABLE point DROP COLUMN point_sha256; DROP TABLE plan_unit;"
                "DROP TABLE plan_candidate; DROP TABLE plan_requirement; DROP TABLE plan;"
                "PRAGMA user_version = 6");
}

/* It is read as it is, says what cannot be checked, and is merged with what has digests: whose
 * order does not matter. */
static void an_older_file_is_read(void **state)
{
  struct place *place = *state;
  struct kc_store *store = NULL;
  struct kc_store_older older = {.points = -1};
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  char one[4096], two[4096];
  uint64_t count = 0;
  int64_t version = 0;
  write_points(place->path[0], '1', 0, 2);
  write_points(place->path[1], '1', 0, 1);
  make_older(place->path[0]);
  assert_int_equal(kc_store_open_read(&store, place->path[0], &diag), KC_OK);
  assert_int_equal(kc_store_verify(store, &older, &problems), KC_OK);
  assert_int_equal(older.points, POINTS / 2 + 1);
  assert_int_equal(kc_store_each_point(store, 1, 0, compare_point, &count, &diag), KC_OK);
  one[0] = '\0';
  assert_int_equal(kc_store_each_table(store, append_digest, one, &diag), KC_OK);
  assert_null(strstr(one, "plan"));
  assert_int_equal(kc_store_scalar(store, "PRAGMA user_version", &version, "", &diag), KC_OK);
  assert_int_equal(version, 6);
  kc_store_close(store);
  const char *const from[] = {place->path[0], place->path[1]};
  const char *const back[] = {place->path[1], place->path[0]};
  assert_int_equal(merge(place->path[2], from, 2, &diag), KC_OK);
  assert_int_equal(merge(place->path[3], back, 2, &diag), KC_OK);
  digests(place->path[2], one);
  digests(place->path[3], two);
  assert_string_equal(one, two);
  digests(place->path[1], two);
  assert_string_equal(one, two);
  write_points(place->path[0], '1', 1, 2); /* which brings it up */
  store = open_intact(place->path[0]);
  assert_int_equal(kc_store_verify(store, &older, &problems), KC_OK);
  assert_int_equal(older.points, POINTS / 2 + 1);
  kc_store_close(store);
}

static int64_t points_of(const char *path)
{
  struct kc_store *store = open_intact(path);
  struct kc_diag diag = {0};
  int64_t points = -1;
  assert_int_equal(kc_store_scalar(store, "SELECT count(*) FROM point", &points, "", &diag),
                   KC_OK);
  kc_store_close(store);
  return points;
}

/* Of a batch that cannot be written nothing is there; what was there before still is. */
static void a_full_disk_takes_whole_batches(struct place *place, bool for_good)
{
  struct kc_diag diag = {0};
  long failures = 0;
  for (long n = 1;; n++) {
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", place->folder);
    assert_int_equal(system(command), 0);
    write_points(place->path[0], '1', 0, 4); /* 3 points */
    failing_arm_writes(n, for_good);
    const enum kc_err err = write_some(place->path[0], '1', 0, 1, &diag);
    const bool happened = failing_happened();
    failing_arm_writes(0, false);
    if (err != KC_OK) failures++;
    if (err != KC_OK) assert_int_equal(err, KC_ERR_STORE);
    assert_int_equal(points_of(place->path[0]), err == KC_OK ? POINTS : 3);
    if (!happened) break;
  }
  assert_true(failures > 0);
}

static void a_full_disk_once(void **state)
{
  a_full_disk_takes_whole_batches(*state, false);
}

static void a_full_disk_for_good(void **state)
{
  a_full_disk_takes_whole_batches(*state, true);
}

static void a_dry_heap_takes_whole_batches(void **state)
{
  struct place *place = *state;
  struct kc_diag diag = {0};
  long failures = 0;
  for (int good = 0; good < 2; good++) {
    for (long n = 1;; n += 1 + n / 30) {
      char command[128];
      snprintf(command, sizeof command, "rm -f '%s'/*", place->folder);
      assert_int_equal(system(command), 0);
      write_points(place->path[0], '1', 0, 4);
      failing_arm_memory(n, good == 1);
      const enum kc_err err = write_some(place->path[0], '1', 0, 1, &diag);
      const bool happened = failing_happened();
      failing_arm_memory(0, false);
      if (err != KC_OK) failures++;
      if (err != KC_OK) assert_int_equal(err, KC_ERR_MEMORY);
      assert_int_equal(points_of(place->path[0]), err == KC_OK ? POINTS : 3);
      if (!happened) break;
    }
  }
  assert_true(failures > 50);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(what_is_written_is_read, make_place, remove_place),
    cmocka_unit_test_setup_teardown(merging_does_not_see_the_shards, make_place, remove_place),
    cmocka_unit_test_setup_teardown(failures_give_way, make_place, remove_place),
    cmocka_unit_test_setup_teardown(disagreement_is_refused, make_place, remove_place),
    cmocka_unit_test_setup_teardown(damage_is_found, make_place, remove_place),
    cmocka_unit_test_setup_teardown(an_older_file_is_read, make_place, remove_place),
    cmocka_unit_test_setup_teardown(a_full_disk_once, make_place, remove_place),
    cmocka_unit_test_setup_teardown(a_full_disk_for_good, make_place, remove_place),
    cmocka_unit_test_setup_teardown(a_dry_heap_takes_whole_batches, make_place, remove_place),
  };
  failing_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
