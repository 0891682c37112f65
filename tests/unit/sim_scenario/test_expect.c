/* The expect list: what is read, what is refused, what holds. Expected results are worked out by
 * hand from the words of the documentation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/scenario/expect.h"

static uint32_t read_text(const char *text, struct kc_expect expect[KC_EXPECT_MAX],
                          struct kc_diag_list *problems)
{
  struct kc_document document;
  struct kc_diag diag = {0};
  kc_diag_list_init(problems);
  if (kc_document_parse(&document, "t.yaml", text, strlen(text), &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
  const uint32_t count = kc_expect_read(expect, kc_node_get(document.root, "expect"), "t.yaml",
                                        problems);
  kc_document_free(&document);
  return count;
}

static void test_a_list_is_read(void **state)
{
  (void)state;
  struct kc_expect expect[KC_EXPECT_MAX];
  struct kc_diag_list problems;
  const uint32_t count = read_text(
      "expect:\n"
      "  - {what: a, metric: output_tok_s, value: 137, within_percent: 1.5, kind: calibrated,\n"
      "     set: \"x=1; y=2\", source: s}\n"
      "  - {what: b, metric: usd_per_mtok, value: -28.9, within: 2, kind: left-out,\n"
      "     set: \"x=1\", against: \"x=2\", source: s}\n", expect, &problems);
  if (problems.count > 0) fail_msg("%s", problems.items[0].text);
  assert_int_equal(count, 2);
  assert_int_equal(expect[0].metric, KC_FIGURE_OUTPUT_TOK_S);
  assert_true(expect[0].has_within_percent && !expect[0].has_within && !expect[0].has_against);
  assert_true(expect[1].has_against && expect[1].value == -28.9);
  assert_string_equal(kc_expect_kind_name((enum kc_expect_kind)expect[1].kind), "left-out");
  assert_int_equal(read_text("other: 1\n", expect, &problems), 0);
  assert_int_equal(problems.count, 0);
}

static void expect_problem(const char *item, const char *words)
{
  struct kc_expect expect[KC_EXPECT_MAX];
  struct kc_diag_list problems;
  char text[512];
  snprintf(text, sizeof text, "expect:\n  - {%s}\n", item);
  read_text(text, expect, &problems);
  for (uint32_t i = 0; i < problems.count; i++) {
    if (strstr(problems.items[i].text, words) != NULL) return;
  }
  fail_msg("%s: %u problems, first \"%s\"; expected \"%s\"", item, problems.count,
           problems.count > 0 ? problems.items[0].text : "", words);
}

static void test_refusals(void **state)
{
  (void)state;
  expect_problem("what: a, metric: speed, value: 1, kind: derived, source: s", "metric");
  expect_problem("what: a, metric: kv_tokens, value: 1, kind: guessed, source: s", "kind");
  expect_problem("what: a, metric: kv_tokens, value: 1, kind: derived", "source");
  expect_problem("what: a, metric: kv_tokens, kind: derived, source: s", "value");
  expect_problem("what: a, metric: largest_fit, value: 1, kind: derived, source: s", "among");
  expect_problem("what: a, metric: kv_tokens, value: 1, among: \"1\", kind: derived, source: s",
                 "among");
  expect_problem("what: a, metric: kv_tokens, value: 0, within_percent: 1, kind: derived, "
                 "source: s", "within_percent");
  expect_problem("what: a, metric: kv_tokens, value: 1, within_percent: 1, against: \"x=1\", "
                 "kind: derived, source: s", "points");
}

static void test_what_holds(void **state)
{
  (void)state;
  const struct kc_expect percent = {.value = 200, .within_percent = 1.5,
                                    .has_within_percent = true};
  assert_true(kc_expect_holds(&percent, 203) && kc_expect_holds(&percent, 197));
  assert_false(kc_expect_holds(&percent, 203.1) || kc_expect_holds(&percent, 196.9));
  assert_true(fabs(kc_expect_error(&percent, 203) - 1.5) < 1e-12);
  const struct kc_expect points = {.value = -28.9, .within = 2, .has_within = true,
                                   .has_against = true};
  assert_true(kc_expect_holds(&points, -30.8) && !kc_expect_holds(&points, -31));
  assert_true(fabs(kc_expect_error(&points, -28.4) - 0.5) < 1e-12);
  const struct kc_expect range = {.value = -0.5, .at_least = -1, .at_most = 0,
                                  .has_at_least = true, .has_at_most = true};
  assert_true(kc_expect_holds(&range, -1) && kc_expect_holds(&range, 0));
  assert_false(kc_expect_holds(&range, -1.01) || kc_expect_holds(&range, 0.01));
  const struct kc_expect none = {.value = 5};
  assert_true(kc_expect_holds(&none, 1e9)); /* shown only */
}

static void test_sets_are_cut(void **state)
{
  (void)state;
  const char *sets[3];
  char text[] = "a=1;  pools.x.profile=p without concurrency 8 ;b={c: 1}";
  assert_int_equal(kc_expect_sets(text, sets, 3), 3);
  assert_string_equal(sets[0], "a=1");
  assert_string_equal(sets[1], "pools.x.profile=p without concurrency 8");
  assert_string_equal(sets[2], "b={c: 1}");
  char empty[] = "  ";
  assert_int_equal(kc_expect_sets(empty, sets, 3), 0);
  char many[] = "a=1;b=2;c=3;d=4";
  assert_true(kc_expect_sets(many, sets, 3) == SIZE_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_list_is_read), cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_what_holds), cmocka_unit_test(test_sets_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
