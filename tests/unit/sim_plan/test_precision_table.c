/* The precision table: which rows there are, which profile and which point judge them, and what
 * quality files say. Expected rows are worked out by hand from invented results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan/precision_table.h"

static struct kc_precision_table open_table(const char *scenario, const char *weights,
                                            const char *kv, const char *concurrency)
{
  struct kc_precision_table table;
  struct kc_diag diag = {0};
  char path[512];
  const char *source = getenv("KVCAP_SOURCE");
  snprintf(path, sizeof path, "%s/scenarios/%s", source != NULL ? source : KVCAP_SOURCE_DIR,
           scenario);
  const struct kc_precision_question question = {
      .path = path, .weights = weights, .kv = kv, .concurrency = concurrency};
  if (kc_precision_table_open(&table, &question, &diag) != KC_OK) fail_msg("%s", diag.text);
  return table;
}

/* A fit of another KV format of the same measurement is taken; of another weight format there is
 * none, so such rows are foreign to their fit. */
static void profiles_follow_the_kv_format(void **state)
{
  (void)state;
  struct kc_precision_table t = open_table("published/t04-kimi-gain.yaml", "scenario,int4-g128",
                                           "bf16,fp8-e4m3,int8", "1,8");
  assert_int_equal(t.row_count, 6);
  assert_string_equal(t.row[0].profile, "sglang-0.5-kimi-bf16-published");
  assert_string_equal(t.row[1].profile, "sglang-0.5-kimi-fp8-published");
  assert_string_equal(t.row[2].profile, "sglang-0.5-kimi-bf16-published"); /* no fit of int8 */
  assert_true(!t.row[0].other_profile && t.row[1].other_profile && !t.row[2].other_profile);
  assert_true(t.row[0].as_shipped && t.row[1].as_shipped && !t.row[3].as_shipped);
  assert_true(!t.row[0].foreign && !t.row[1].foreign && t.row[3].foreign && t.row[4].foreign);
  assert_int_equal(t.row[0].frontier, 60);
  assert_int_equal(t.row[1].frontier, 121);
  assert_int_equal(t.vary.points, 12);
  kc_precision_table_close(&t);
}

/* The usual lists leave out names for what is there already, and K and V apart under MLA; lists
 * that are given stay as they are. */
static void usual_rows_differ(void **state)
{
  (void)state;
  struct kc_precision_table t = open_table("examples/llama-3.1-8b-h100.yaml", NULL, NULL, NULL);
  for (uint32_t r = 0; r < t.row_count; r++) {
    assert_string_not_equal(t.row[r].weights, "bf16"); /* which the checkpoint is */
    for (uint32_t s = 0; s < r; s++) {
      assert_true(t.row[r].fit.weights_bytes != t.row[s].fit.weights_bytes ||
                  strcmp(t.row[r].kv, t.row[s].kv) != 0 ||
                  memcmp(t.row[r].fit.class_bytes, t.row[s].fit.class_bytes,
                         sizeof t.row[r].fit.class_bytes) == 0);
    }
  }
  assert_int_equal(t.row_count % 3, 0); /* three KV formats each */
  assert_int_equal(t.vary.points, t.row_count);
  kc_precision_table_close(&t);
  t = open_table("examples/llama-3.1-8b-h100.yaml", "scenario,bf16", "bf16", NULL);
  assert_int_equal(t.row_count, 2);
  assert_int_equal(t.quality->count, 0);
  kc_precision_table_close(&t);
  t = open_table("published/t04-kimi-gain.yaml", NULL, NULL, "1");
  for (uint32_t r = 0; r < t.row_count; r++) assert_null(strchr(t.row[r].kv, '+'));
  kc_precision_table_close(&t);
}

static void give(struct kc_precision_table *t, uint64_t number, enum kc_point_status status,
                 double rate, double oom)
{
  struct kc_point_result result = {.status = status};
  struct kc_diag diag;
  kc_figure_put(&result.figures, KC_FIGURE_OUTPUT_TOK_S, rate);
  kc_figure_put(&result.figures, KC_FIGURE_OOM, oom);
  assert_int_equal(kc_precision_table_take(t, number, &result, &diag), KC_OK);
}

/* Faster points that ran out of memory, or did not end well, do not count. */
static void rows_are_judged_by_what_fits(void **state)
{
  (void)state;
  double percent;
  struct kc_precision_table t = open_table("published/t04-kimi-gain.yaml", "scenario",
                                           "bf16,fp8-e4m3,int8", "1,8,16,32");
  const double rate[3][4] = {{100, 200, 180, 400}, {90, 190, 300, 290}, {1, 2, 3, 4}};
  const double oom[3][4] = {{0, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  for (uint64_t i = 0; i < 12; i++) {
    give(&t, i, KC_POINT_DONE, rate[i / 4][i % 4], oom[i / 4][i % 4]);
  }
  give(&t, 4, KC_POINT_REFUSED, 1000, 0);
  kc_precision_table_judge(&t);
  assert_int_equal(t.row[0].largest, 16);
  assert_int_equal(t.row[0].largest_tried, 32);
  assert_int_equal(t.row[0].best_concurrency, 8);
  assert_int_equal(t.row[1].largest, 32);
  assert_int_equal(t.row[1].best_concurrency, 16);
  assert_int_equal(t.row[2].largest, 0);
  assert_null(kc_precision_table_best(&t, 2));
  assert_true(kc_precision_table_change(&t, 1, KC_FIGURE_OUTPUT_TOK_S, &percent));
  assert_true(percent > 49.999 && percent < 50.001); /* 300 against 200 */
  assert_false(kc_precision_table_change(&t, 2, KC_FIGURE_OUTPUT_TOK_S, &percent));
  assert_false(kc_precision_table_change(&t, 1, KC_FIGURE_USD_PER_MTOK, &percent));
  kc_precision_table_close(&t);
}

/* With an SLO the fastest point that keeps it counts; a row without one says what it misses. */
static void rows_keep_the_slo(void **state)
{
  (void)state;
  struct kc_precision_table t = open_table("published/t04-kimi-gain.yaml", "scenario",
                                           "bf16,fp8-e4m3", "1,8,16,32");
  struct kc_diag diag;
  assert_int_equal(t.slo_count, 0); /* the scenario aims at nothing */
  assert_int_equal(kc_requirement_parse(&t.slo[t.slo_count++], "preemptions<=1", &diag), KC_OK);
  for (uint64_t i = 0; i < 8; i++) {
    give(&t, i, KC_POINT_DONE, 100 + 10 * (double)(i % 4), 0);
    kc_figure_put(&t.result[i].figures, KC_FIGURE_PREEMPTIONS, i < 4 ? (double)(i % 3) : 2);
  }
  kc_precision_table_judge(&t); /* of row 0: 0, 1, 2, 0 */
  assert_int_equal(t.row[0].best_concurrency, 32);
  assert_null(t.row[0].missed);
  assert_int_equal(t.row[1].largest, 32);
  assert_null(kc_precision_table_best(&t, 1));
  assert_string_equal(t.row[1].missed->text, "preemptions<=1");
  kc_figure_put(&t.result[3].figures, KC_FIGURE_PREEMPTIONS, 7);
  kc_precision_table_judge(&t);
  assert_int_equal(t.row[0].best_concurrency, 8);
  assert_int_equal(t.row[0].largest, 32);
  kc_precision_table_close(&t);
}

/* Figures of a model are shown in the formats that they were measured in, and nowhere else. */
static void quality_is_of_its_formats(void **state)
{
  (void)state;
  struct kc_quality_list *list = calloc(1, sizeof *list);
  struct kc_diag diag;
  assert_int_equal(kc_quality_load(list, "kimi-k2.6", &diag), KC_OK);
  assert_int_equal(list->count, 6);
  const struct kc_quality *q = &list->entry[0];
  assert_string_equal(q->metric, "GSM8K");
  assert_true(q->value == 94.09 && q->base == 94.24);
  assert_string_equal(q->better, "higher");
  assert_true(q->source[0] != '\0');
  assert_true(kc_quality_is_of(q, "scenario", true, "fp8-e4m3"));
  assert_true(kc_quality_is_of(q, "checkpoint", false, "fp8-e4m3")); /* by its name */
  assert_false(kc_quality_is_of(q, "scenario", true, "bf16"));
  assert_false(kc_quality_is_of(q, "int4-g128", false, "fp8-e4m3"));
  assert_int_equal(kc_quality_load(list, "nobody", &diag), KC_OK);
  assert_int_equal(list->count, 0);
  assert_int_equal(list->stand_ins, 14); /* two small models, seven precisions beside BF16 */
  for (uint32_t i = 0; i < list->stand_ins; i++) {
    assert_string_equal(list->stand_in[i].better, "lower");
    assert_true(list->stand_in[i].base == 0);
  }
  free(list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(profiles_follow_the_kv_format),
      cmocka_unit_test(usual_rows_differ),
      cmocka_unit_test(rows_are_judged_by_what_fits),
      cmocka_unit_test(rows_keep_the_slo),
      cmocka_unit_test(quality_is_of_its_formats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
