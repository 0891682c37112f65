/* Axes of a plan: what is read from the command line, how columns are numbered, what each
 * changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan/space.h"

static struct kc_scenario *load(void)
{
  char path[512];
  struct kc_diag_list problems;
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(path, sizeof path, "%s/scenarios/examples/llama-3.1-8b-h100.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR);
  if (kc_scenario_load(scenario, path, NULL, 0, &problems) != KC_OK) {
    fail_msg("%s", problems.items[0].text);
  }
  return scenario;
}

static void parse(struct kc_plan_space *space, enum kc_plan_axis_id axis, const char *text)
{
  struct kc_diag diag = {0};
  if (kc_space_axis_parse(space, axis, text, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void lists_are_read(void **state)
{
  (void)state;
  struct kc_plan_space *space = calloc(1, sizeof *space);
  parse(space, KC_AXIS_GPU, "h100,scenario,h200");
  assert_int_equal(space->axis[KC_AXIS_GPU].count, 3);
  assert_string_equal(space->axis[KC_AXIS_GPU].value[1], "");
  assert_string_equal(space->axis[KC_AXIS_GPU].value[2], "h200");
  assert_int_equal(kc_space_replicas_parse(space, "2..5", NULL), KC_OK);
  assert_int_equal(space->replica_count, 4);
  assert_int_equal(space->replicas[3], 5);
  assert_int_equal(kc_space_replicas_parse(space, "1,2,8", NULL), KC_OK);
  assert_int_equal(space->replicas[2], 8);
  free(space);
}

static void what_is_no_list_is_refused(void **state)
{
  (void)state;
  static const struct {
    enum kc_plan_axis_id axis;
    const char *text, *says;
  } cases[] = {{KC_AXIS_TENSOR, "1,two", "expected whole numbers"},
               {KC_AXIS_TENSOR, "0", "expected whole numbers"},
               {KC_AXIS_TENSOR, "1,,2", "separated by commas"},
               {KC_AXIS_CAP, "64,64", "lists \"64\" twice"},
               {KC_AXIS_KV, "fp9", "is not a KV format"},
               {KC_AXIS_WEIGHTS, "fp9", "--weights"},
               {KC_AXIS_WEIGHTS, "experts=fp8", "routed_experts"},
               {KC_AXIS_GPU, "", "separated by commas"}};
  static const char *const replicas[] = {"", "0..4", "4..1", "1..300", "1,1", "2,1", "x", "1..x"};
  struct kc_plan_space *space = calloc(1, sizeof *space);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_diag diag = {0};
    assert_int_equal(kc_space_axis_parse(space, cases[i].axis, cases[i].text, &diag),
                     KC_ERR_USAGE);
    if (strstr(diag.text, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].text, diag.text);
  }
  for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
    struct kc_diag diag = {0};
    assert_int_equal(kc_space_replicas_parse(space, replicas[i], &diag), KC_ERR_USAGE);
    assert_non_null(strstr(diag.text, "--replicas"));
  }
  assert_int_equal(kc_space_price_parse(space, "h100", NULL), KC_ERR_USAGE);
  assert_int_equal(kc_space_price_parse(space, "h100=-1", NULL), KC_ERR_USAGE);
  assert_int_equal(kc_space_price_parse(space, "=3", NULL), KC_ERR_USAGE);
  free(space);
}

/* What nobody listed comes from the scenario; its own GPU is written as no change. */
static void the_scenario_fills_the_rest(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_scenario *scenario = load();
  struct kc_plan_space *space = calloc(1, sizeof *space);
  parse(space, KC_AXIS_GPU, "h200,h100");
  if (kc_space_complete(space, scenario, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_string_equal(space->pool, "serve");
  assert_string_equal(space->axis[KC_AXIS_GPU].value[1], "");
  assert_int_equal(space->axis[KC_AXIS_WEIGHTS].count, 1);
  assert_int_equal(space->axis[KC_AXIS_KV].count, 2);      /* as it stands, fp8-e4m3 */
  assert_int_equal(space->axis[KC_AXIS_TENSOR].count, 4);  /* 1, 2, 4, 8 */
  assert_int_equal(space->axis[KC_AXIS_CHUNK].count, 2);   /* 8192 is its own */
  assert_int_equal(space->axis[KC_AXIS_CAP].count, 3);
  assert_int_equal(space->replica_count, 32);
  assert_int_equal(kc_space_columns(space), 2 * 2 * 4 * 2 * 3);
  free(space);
  free(scenario);
}

/* The last axis changes fastest; a column's changes load, and give what they say. */
static void columns_are_what_they_say(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_scenario *scenario = load();
  struct kc_plan_space *space = calloc(1, sizeof *space);
  struct kc_plan_sets *sets = calloc(1, sizeof *sets);
  char path[KC_DIAG_PATH_BYTES];
  snprintf(path, sizeof path, "%s", scenario->path);
  parse(space, KC_AXIS_GPU, "scenario,a100-80g");
  parse(space, KC_AXIS_WEIGHTS, "checkpoint,attention=fp8+dense_mlp=int8");
  parse(space, KC_AXIS_KV, "fp8-e4m3");
  parse(space, KC_AXIS_TENSOR, "2");
  parse(space, KC_AXIS_PAGE, "32");
  parse(space, KC_AXIS_CHUNK, "4096");
  parse(space, KC_AXIS_CAP, "48,96");
  assert_int_equal(kc_space_price_parse(space, "h100=2.5", &diag), KC_OK);
  if (kc_space_complete(space, scenario, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_int_equal(kc_space_columns(space), 8);
  uint32_t at[KC_AXES];
  kc_space_column(space, 7, at);
  assert_int_equal(at[KC_AXIS_GPU], 1);
  assert_int_equal(at[KC_AXIS_CAP], 1);
  for (uint32_t column = 0; column < 8; column++) {
    const char *list[KC_PLAN_SETS_MAX];
    struct kc_diag_list problems;
    sets->count = 0;
    kc_space_sets(space, column, sets);
    for (size_t i = 0; i < sets->count; i++) list[i] = sets->text[i];
    if (kc_scenario_load(scenario, path, list, sets->count, &problems) != KC_OK) {
      fail_msg("%u: %s", column, problems.items[0].text);
    }
    const struct kc_pool_spec *pool = &scenario->pool[0];
    assert_string_equal(pool->gpu.name, column < 4 ? "h100" : "a100-80g");
    assert_true(scenario->price_gpu_hour_usd == (column < 4 ? 2.5 : 1.79));
    assert_int_equal(pool->precision.weight[KC_CLASS_ATTENTION],
                     column % 4 < 2 ? KC_WEIGHT_DEFAULT : KC_WEIGHT_FP8);
    assert_int_equal(pool->precision.k_format, KC_KV_FP8_E4M3);
    assert_int_equal(pool->memory.tensor, 2);
    assert_int_equal(pool->sched.page_size, 32);
    assert_int_equal(pool->sched.max_batched_tokens, 4096);
    assert_int_equal(pool->sched.max_running, column % 2 == 0 ? 48 : 96);
  }
  free(sets);
  free(space);
  free(scenario);
}

static void a_price_of_nothing_listed_is_refused(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  struct kc_scenario *scenario = load();
  struct kc_plan_space *space = calloc(1, sizeof *space);
  assert_int_equal(kc_space_price_parse(space, "h200=2.5", &diag), KC_OK);
  assert_int_equal(kc_space_complete(space, scenario, &diag), KC_ERR_USAGE);
  assert_non_null(strstr(diag.text, "h200, which is not among"));
  free(space);
  free(scenario);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read),
      cmocka_unit_test(what_is_no_list_is_refused),
      cmocka_unit_test(the_scenario_fills_the_rest),
      cmocka_unit_test(columns_are_what_they_say),
      cmocka_unit_test(a_price_of_nothing_listed_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
