/* Points: their figures against the run's own books, their hash against what it must and must not
 * depend on, and the same results when they share their inputs on several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/number.h"
#include "sim/plan/point.h"

static const char *source_folder(void)
{
  const char *source = getenv("KVCAP_SOURCE");
  return source != NULL ? source : KVCAP_SOURCE_DIR;
}

static char scenario_path[512]; /* set once, by main */

/* This CMocka has floats only. */
#define assert_double_equal(a, b, within) assert_true((a) - (b) < (within) && (b) - (a) < (within))

struct fixture {
  struct kc_point_context context;
  struct kc_point *scratch;
};

static int set_up(void **state)
{
  struct fixture *f = calloc(1, sizeof *f);
  f->context = (struct kc_point_context){.inputs = kc_inputs_create(), .version = "1"};
  f->scratch = malloc(sizeof *f->scratch);
  *state = f;
  return 0;
}

static int tear_down(void **state)
{
  struct fixture *f = *state;
  kc_inputs_destroy(f->context.inputs);
  free(f->scratch);
  free(f);
  return 0;
}

static struct kc_point_result evaluate(struct fixture *f, const char *const *sets, size_t count)
{
  struct kc_point_result result;
  const struct kc_point_spec spec = {.path = scenario_path, .sets = sets, .set_count = count};
  assert_int_equal(kc_point_evaluate(&f->context, &spec, f->scratch, &result), KC_OK);
  return result;
}

/* Names parse to themselves, a wrong one gets the nearest. */
static void names_are_unique(void **state)
{
  (void)state;
  enum kc_figure figure;
  struct kc_diag diag;
  for (int f = 0; f < KC_FIGURES; f++) {
    const char *name = kc_figure_name((enum kc_figure)f);
    assert_int_equal(kc_figure_parse(name, strlen(name), &figure, &diag), KC_OK);
    assert_int_equal(figure, f);
  }
  assert_int_equal(kc_figure_parse("ttft_p59_ms", 11, &figure, &diag), KC_ERR_USAGE);
  assert_non_null(strstr(diag.text, "did you mean ttft_p"));
  assert_int_equal(kc_figure_parse("ttft_p95_msx", 11, &figure, &diag), KC_OK);
  assert_int_equal(figure, KC_FIGURE_TTFT_P95_MS);
}

/* Figures of a run, each worked out from others of the same run. */
static void figures_agree_with_each_other(void **state)
{
  static const char *const sets[] = {"workload.limit=300"};
  const struct kc_point_result r = evaluate(*state, sets, 1);
  const double *v = r.figures.value;
  assert_int_equal(r.status, KC_POINT_DONE);
  assert_true(r.ran);
  assert_true(r.figures.known[KC_FIGURE_TTFT_P95_MS] && r.figures.known[KC_FIGURE_HEADROOM]);
  assert_false(r.figures.known[KC_FIGURE_HIT_RATE]);     /* the trace says nothing of prompts */
  assert_false(r.figures.known[KC_FIGURE_REQUESTS_FIT]); /* nor is there one length */
  assert_true(v[KC_FIGURE_TTFT_P50_MS] <= v[KC_FIGURE_TTFT_P99_MS]);
  assert_double_equal(v[KC_FIGURE_INPUT_TOK_S] + v[KC_FIGURE_OUTPUT_TOK_S],
                      v[KC_FIGURE_TOTAL_TOK_S], 1e-6);
  assert_double_equal(v[KC_FIGURE_OUTPUT_TOK_S_USER] * v[KC_FIGURE_TPOT_MEAN_MS], 1e3, 1e-6);
  assert_double_equal(v[KC_FIGURE_REQUEST_S] * v[KC_FIGURE_MAKESPAN_S],
                      300 * v[KC_FIGURE_COMPLETED_SHARE], 1e-6);
  assert_double_equal(v[KC_FIGURE_WEIGHTS_GPU_GIB], 14.96, 0.01); /* 8.03e9 parameters of 2 bytes */
}

static void what_does_not_fit_is_a_result(void **state)
{
  static const char *const heavy[] = {"model=llama-3.1-70b", "workload.limit=10"};
  static const char *const wrong[] = {"pools.0.parallel.tensor=3"};
  const struct kc_point_result no_fit = evaluate(*state, heavy, 2);
  assert_int_equal(no_fit.status, KC_POINT_NO_FIT);
  assert_false(no_fit.ran);
  assert_true(no_fit.figures.known[KC_FIGURE_FITS] && no_fit.figures.value[KC_FIGURE_FITS] == 0);
  assert_int_equal(strlen(no_fit.config_sha256), 64);
  assert_true(no_fit.why.text[0] != '\0');
  const struct kc_point_result refused = evaluate(*state, wrong, 1);
  assert_int_equal(refused.status, KC_POINT_REFUSED);
  assert_string_equal(refused.config_sha256, "");
  assert_true(refused.why.text[0] != '\0');
}

static void copy_file(const char *from, const char *to, const char *more)
{
  char buffer[65536];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_non_null(in);
  assert_non_null(out);
  const size_t bytes = fread(buffer, 1, sizeof buffer, in);
  fwrite(buffer, 1, bytes, out);
  fputs(more, out);
  fclose(in);
  fclose(out);
}

/* The hash moves with whatever decides the figures: keys, version, the bytes of trace and model. */
static void the_hash_covers_what_decides(void **state)
{
  struct fixture *f = *state;
  char folder[] = "/tmp/kvcap-point-XXXXXX", from[600], to[600], set[700];
  const char *sets[] = {"workload.limit=20", set};
  assert_non_null(mkdtemp(folder));
  const struct kc_point_result plain = evaluate(f, sets, 1), again = evaluate(f, sets, 1);
  assert_string_equal(plain.config_sha256, again.config_sha256);
  assert_string_equal(plain.result_sha256, again.result_sha256);
  f->context.version = "2";
  assert_string_not_equal(evaluate(f, sets, 1).config_sha256, plain.config_sha256);
  f->context.version = "1";
  snprintf(set, sizeof set, "seed=7");
  assert_string_not_equal(evaluate(f, sets, 2).config_sha256, plain.config_sha256);

  snprintf(from, sizeof from, "%s/scenarios/models/llama-3.1-8b.json", source_folder());
  snprintf(to, sizeof to, "%s/m.json", folder);
  snprintf(set, sizeof set, "model=%s", to);
  copy_file(from, to, "");
  const struct kc_point_result model = evaluate(f, sets, 2);
  copy_file(from, to, "\n");
  assert_string_not_equal(evaluate(f, sets, 2).config_sha256, model.config_sha256);
  unlink(to);

  snprintf(from, sizeof from, "%s/traces/samples/tiny.csv", source_folder());
  snprintf(to, sizeof to, "%s/t.csv", folder);
  snprintf(set, sizeof set, "workload.trace=%s", to);
  copy_file(from, to, "");
  const struct kc_point_result trace = evaluate(f, sets, 2);
  assert_int_equal(trace.status, KC_POINT_DONE);
  copy_file(from, to, "\n");
  kc_inputs_destroy(f->context.inputs); /* which would lend the old bytes again */
  f->context.inputs = kc_inputs_create();
  assert_string_not_equal(evaluate(f, sets, 2).config_sha256, trace.config_sha256);
  unlink(to);
  rmdir(folder);
}

static bool knows(void *context, const char *config_sha256, struct kc_point_result *result)
{
  if (strcmp(context, config_sha256) != 0) return false;
  kc_figure_put(&result->figures, KC_FIGURE_GPUS, 99);
  return true;
}

static void what_is_known_is_not_run(void **state)
{
  struct fixture *f = *state;
  static const char *const sets[] = {"workload.limit=20"};
  struct kc_point_result first = evaluate(f, sets, 1);
  f->context.known = knows;
  f->context.known_context = first.config_sha256;
  const struct kc_point_result second = evaluate(f, sets, 1);
  assert_false(second.ran);
  assert_true(second.figures.value[KC_FIGURE_GPUS] == 99);
}

/* ---- threads ---- */

enum { THREADS = 4, POINTS = 12 };

struct worker {
  const struct kc_point_context *context;
  struct kc_point_result result[POINTS];
};

static void *work(void *argument)
{
  struct worker *w = argument;
  struct kc_point *scratch = malloc(sizeof *scratch);
  for (int i = 0; i < POINTS; i++) {
    char rate[48];
    const char *sets[] = {"workload.limit=60", rate};
    snprintf(rate, sizeof rate, "workload.rate=%d/4", i + 1);
    const struct kc_point_spec spec = {.path = scenario_path, .sets = sets, .set_count = 2};
    if (kc_point_evaluate(w->context, &spec, scratch, &w->result[i]) != KC_OK) abort();
  }
  free(scratch);
  return NULL;
}

static void threads_share_inputs(void **state)
{
  struct fixture *f = *state;
  pthread_t thread[THREADS];
  struct worker *worker = calloc(THREADS, sizeof *worker);
  for (int t = 0; t < THREADS; t++) {
    worker[t].context = &f->context;
    assert_int_equal(pthread_create(&thread[t], NULL, work, &worker[t]), 0);
  }
  for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
  for (int i = 0; i < POINTS; i++) {
    assert_int_equal(worker[0].result[i].status, KC_POINT_DONE);
    for (int t = 1; t < THREADS; t++) {
      assert_memory_equal(&worker[t].result[i].figures, &worker[0].result[i].figures,
                          sizeof worker[0].result[i].figures);
      assert_string_equal(worker[t].result[i].result_sha256, worker[0].result[i].result_sha256);
    }
    if (i > 0) {
      assert_string_not_equal(worker[0].result[i].config_sha256,
                              worker[0].result[i - 1].config_sha256);
    }
  }
  free(worker);
}

int main(void)
{
  snprintf(scenario_path, sizeof scenario_path, "%s/scenarios/examples/llama-3.1-8b-h100.yaml",
           source_folder());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique),
      cmocka_unit_test_setup_teardown(figures_agree_with_each_other, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_does_not_fit_is_a_result, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_hash_covers_what_decides, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_known_is_not_run, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_share_inputs, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
