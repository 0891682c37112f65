/* kill -9 at random instants, 50 times: a child stores runs one after another and acknowledges each
 * through a pipe; afterwards every acknowledged run is there, no run is there in part, the file is
 * intact, and the next child goes on with the next number. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "sim/store/store_internal.h"
#include "store_fixture.h"

enum { KILLS = 50, LIFE_RUNS_MAX = 3 };

static const struct fixture_plan plan = {
  .name = "killed", .seed = 11, .requests = 300, .slots = 8, .interval_us = 90000,
  .step_us = 9000, .rows = KC_ROWS_ALL};

/* Stores runs until killed. The acknowledgement is the run's number, after the commit. */
static void store_for_ever(const char *path, const struct fixture *fixture, int acknowledge)
{
  for (;;) {
    struct kc_store *store = NULL;
    struct kc_diag diag;
    int64_t run_id;
    if (kc_store_open(&store, path, &diag) != KC_OK ||
        fixture_store(store, fixture, &run_id, &diag) != KC_OK) {
      fprintf(stderr, "%s: %s\n", diag.path, diag.text);
      _exit(1);
    }
    if (write(acknowledge, &run_id, sizeof run_id) != sizeof run_id) _exit(2);
    kc_store_close(store);
  }
}

/* The last number that the child acknowledged before it was killed, or `before`. */
static int64_t run_and_kill(const char *path, const struct fixture *fixture, uint64_t life_us,
                            int64_t before)
{
  int ends[2];
  int status = 0;
  int64_t run_id, last = before;
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(ends[0]);
    store_for_ever(path, fixture, ends[1]);
  }
  close(ends[1]);
  const struct timespec life = {.tv_sec = (time_t)(life_us / 1000000),
                                .tv_nsec = (long)(life_us % 1000000) * 1000};
  nanosleep(&life, NULL);
  kill(child, SIGKILL);
  while (read(ends[0], &run_id, sizeof run_id) == sizeof run_id) last = run_id;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) fail_msg("the child ended by itself: status 0x%x", status);
  return last;
}

static int64_t scalar(struct kc_store *store, const char *sql)
{
  int64_t value = -1;
  struct kc_diag diag = {0};
  if (kc_store_scalar(store, sql, &value, "testing", &diag) != KC_OK) fail_msg("%s", diag.text);
  return value;
}

/* Checks the file after a kill; returns the number of runs in it. */
static int64_t check(const char *path, int64_t acknowledged, uint64_t round)
{
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  struct kc_diag_list problems;
  if (access(path, F_OK) != 0) return 0; /* killed before it was made */
  if (kc_store_open_read(&store, path, &diag) != KC_OK) {
    /* Killed before it had tables, or it must be readable. */
    if (acknowledged > 0 || strstr(diag.text, "is empty") == NULL) {
      fail_msg("round %d: %s", (int)round, diag.text);
    }
  }
  kc_store_close(store);
  if (kc_store_open(&store, path, &diag) != KC_OK) fail_msg("round %d: %s", (int)round, diag.text);
  if (kc_store_verify(store, NULL, &problems) != KC_OK) {
    fail_msg("round %d: %s", (int)round, problems.items[0].text);
  }
  const int64_t runs = scalar(store, "SELECT count(*) FROM run");
  if (runs < acknowledged || scalar(store, "SELECT coalesce(max(id), 0) FROM run") != runs) {
    fail_msg("round %d: %d runs, %d acknowledged", (int)round, (int)runs, (int)acknowledged);
  }
  assert_int_equal(scalar(store, "SELECT count(*) FROM request"), runs * plan.requests);
  kc_store_close(store);
  return runs;
}

/* How long one run takes to store here and now, so that lives are neither all too short nor all too
 * long on a machine that is slow or busy. */
static uint64_t measure_us(const char *path, const struct fixture *fixture)
{
  struct timespec from, to;
  struct kc_store *store = NULL;
  struct kc_diag diag = {0};
  int64_t run_id;
  clock_gettime(CLOCK_MONOTONIC, &from);
  if (kc_store_open(&store, path, &diag) != KC_OK ||
      fixture_store(store, fixture, &run_id, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  kc_store_close(store);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (uint64_t)((to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000) + 1;
}

static void test_kill_at_random_instants(void **state)
{
  (void)state;
  /* In memory where possible: a killed process takes nothing with it that the kernel has. */
  char folder[64];
  snprintf(folder, sizeof folder, "%s/kvcap-kill-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  char path[96], command[96];
  struct fixture fixture;
  struct kc_random random;
  int64_t runs = 0;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/runs.db", folder);
  fixture_make(&fixture, &plan);
  kc_random_init(&random, 1, "kill", 0);
  const uint64_t run_us = measure_us(path, &fixture);
  assert_int_equal(unlink(path), 0);
  for (uint64_t round = 0; round < KILLS; round++) {
    const uint64_t life_us = kc_random_below(&random, LIFE_RUNS_MAX * run_us);
    runs = check(path, run_and_kill(path, &fixture, life_us, runs), round);
  }
  print_message("%d kills, %d whole runs\n", KILLS, (int)runs);
  assert_true(runs > 0); /* else nobody lived long enough to prove anything */
  fixture_free(&fixture);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill_at_random_instants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
