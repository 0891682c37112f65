/* Sweeps: the same points on any number of threads, in order, each as it would be alone; stopping
 * and going on; shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/plan/sweep.h"

enum { POINTS = 24, ENDLESS = 1 << 30 };

struct fixture {
  struct kc_vary vary;
  struct kc_sweep sweep;
  char path[512], folder[64], database[96];
  uint64_t seen, expected_number;
  struct kc_point_result result[POINTS];
  int patience;            /* asked so often, then interrupted */
};

static struct fixture *asked; /* by the callback, which has no context of its own */

static bool impatient(void *context)
{
  (void)context;
  return __atomic_sub_fetch(&asked->patience, 1, __ATOMIC_RELAXED) < 0;
}

static enum kc_err keep(void *context, uint64_t number, const struct kc_point_result *result,
                        struct kc_diag *diag)
{
  struct fixture *f = context;
  (void)diag;
  assert_true(number >= f->expected_number); /* ascending */
  f->expected_number = number + 1;
  f->result[number] = *result;
  f->seen++;
  return KC_OK;
}

static int set_up(void **state)
{
  struct fixture *f = calloc(1, sizeof *f);
  struct kc_diag diag = {0};
  static const char *const sets[] = {"workload.limit=30"};
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(f->path, sizeof f->path, "%s/scenarios/examples/llama-3.1-8b-h100.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR);
  memcpy(f->folder, "/tmp/kvcap-sweep-XXXXXX", sizeof "/tmp/kvcap-sweep-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  snprintf(f->database, sizeof f->database, "%s/s.db", f->folder);
  kc_vary_init(&f->vary);
  assert_int_equal(kc_vary_key(&f->vary, "workload.rate=1..6", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&f->vary, "pools.0.parallel.tensor=1,3", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&f->vary, "model=llama-3.1-8b,llama-3.1-70b", &diag), KC_OK);
  assert_int_equal(kc_vary_finish(&f->vary, false, &diag), KC_OK);
  assert_int_equal(f->vary.points, POINTS);
  f->sweep = (struct kc_sweep){.path = f->path, .name = "test", .sets = sets, .set_count = 1,
                               .grid = &f->vary, .shard = 1, .shards = 1, .threads = 1,
                               .inputs = kc_inputs_create(), .version = "1", .context = f,
                               .emit = keep};
  f->patience = ENDLESS;
  asked = f;
  *state = f;
  return 0;
}

static int tear_down(void **state)
{
  struct fixture *f = *state;
  char name[128];
  kc_inputs_destroy(f->sweep.inputs);
  kc_vary_free(&f->vary);
  static const char *const suffixes[] = {"", "-wal", "-shm"};
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    snprintf(name, sizeof name, "%s%s", f->database, suffixes[i]);
    unlink(name);
  }
  rmdir(f->folder);
  free(f);
  return 0;
}

static struct kc_sweep_totals run(struct fixture *f, enum kc_err expected)
{
  struct kc_sweep_totals totals;
  struct kc_diag diag = {0};
  f->seen = f->expected_number = 0;
  memset(f->result, 0, sizeof f->result);
  const enum kc_err err = kc_sweep_run(&f->sweep, &totals, &diag);
  if (err != expected) fail_msg("%d: %s", (int)err, diag.text);
  return totals;
}

static void any_number_of_threads_gives_the_same(void **state)
{
  struct fixture *f = *state;
  struct kc_point_result *first = malloc(sizeof f->result);
  const struct kc_sweep_totals one = run(f, KC_OK);
  assert_int_equal(one.points, POINTS);
  assert_int_equal(one.by_status[KC_POINT_DONE], 6);    /* 8B on one GPU */
  assert_int_equal(one.by_status[KC_POINT_NO_FIT], 6);  /* 70B on one */
  assert_int_equal(one.by_status[KC_POINT_REFUSED], 12); /* degree 3 */
  assert_int_equal(f->seen, POINTS);
  memcpy(first, f->result, sizeof f->result);
  for (uint32_t threads = 2; threads <= 8; threads *= 2) {
    f->sweep.threads = threads;
    run(f, KC_OK);
    for (int i = 0; i < POINTS; i++) {
      assert_int_equal(f->result[i].status, first[i].status);
      assert_string_equal(f->result[i].why.text, first[i].why.text);
      assert_string_equal(f->result[i].config_sha256, first[i].config_sha256);
      assert_string_equal(f->result[i].result_sha256, first[i].result_sha256);
      assert_memory_equal(&f->result[i].figures, &first[i].figures, sizeof first[i].figures);
    }
  }
  free(first);
}

/* What a point says in a sweep it says alone. */
static void a_point_is_what_it_is_alone(void **state)
{
  struct fixture *f = *state;
  const char *sets[KC_SWEEP_SETS_MAX];
  struct kc_point *scratch = malloc(sizeof *scratch);
  struct kc_point_result alone;
  const struct kc_point_context context = {.inputs = f->sweep.inputs, .version = "1"};
  f->sweep.threads = 2;
  run(f, KC_OK);
  for (uint64_t i = 0; i < POINTS; i += 4) {
    const struct kc_point_spec spec = {.path = f->path, .sets = sets,
                                       .set_count = kc_sweep_sets(&f->sweep, i, sets)};
    assert_int_equal(kc_point_evaluate(&context, &spec, scratch, &alone), KC_OK);
    assert_string_equal(alone.result_sha256, f->result[i].result_sha256);
    assert_memory_equal(&alone.figures, &f->result[i].figures, sizeof alone.figures);
  }
  free(scratch);
}

static void open_store(struct fixture *f)
{
  struct kc_diag diag = {0};
  if (kc_store_open(&f->sweep.store, f->database, &diag) != KC_OK) fail_msg("%s", diag.text);
}

/* Interrupted after some points, it keeps them; going on runs the others alone. */
static void a_stopped_sweep_goes_on(void **state)
{
  struct fixture *f = *state;
  struct kc_point_result *whole = malloc(sizeof f->result);
  run(f, KC_OK);
  memcpy(whole, f->result, sizeof f->result);
  open_store(f);
  f->sweep.threads = 2;
  f->sweep.interrupted = impatient;
  f->patience = 10;
  run(f, KC_ERR_INTERRUPTED);
  const uint64_t kept = f->seen;
  assert_true(kept > 0 && kept < POINTS);
  uint64_t finished = 0; /* of those kept: refused ones are cheap and not looked up */
  for (int i = 0; i < POINTS; i++) finished += f->result[i].config_sha256[0] != '\0';
  f->patience = ENDLESS;
  const struct kc_sweep_totals totals = run(f, KC_OK);
  assert_int_equal(totals.known, finished);
  for (int i = 0; i < POINTS; i++) {
    assert_int_equal(f->result[i].status, whole[i].status);
    assert_string_equal(f->result[i].why.text, whole[i].why.text);
    assert_string_equal(f->result[i].result_sha256, whole[i].result_sha256);
    assert_memory_equal(&f->result[i].figures, &whole[i].figures, sizeof whole[i].figures);
  }
  f->sweep.version = "2"; /* nothing that was known holds for another program */
  assert_int_equal(run(f, KC_OK).known, 0);
  kc_store_close(f->sweep.store);
  free(whole);
}

static void shards_are_a_partition(void **state)
{
  struct fixture *f = *state;
  bool seen[POINTS] = {false};
  f->sweep.shards = 7;
  for (f->sweep.shard = 1; f->sweep.shard <= 7; f->sweep.shard++) {
    const struct kc_sweep_totals totals = run(f, KC_OK);
    assert_int_equal(totals.points, f->seen);
    for (uint64_t i = f->sweep.shard - 1; i < POINTS; i += 7) {
      assert_false(seen[i]);
      seen[i] = true;
      assert_true(f->result[i].config_sha256[0] != '\0' || f->result[i].why.text[0] != '\0');
    }
  }
  for (int i = 0; i < POINTS; i++) assert_true(seen[i]);
  f->sweep.shards = f->sweep.shard = 1000; /* nothing falls to it */
  assert_int_equal(run(f, KC_OK).points, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(any_number_of_threads_gives_the_same, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_point_is_what_it_is_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_stopped_sweep_goes_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(shards_are_a_partition, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
