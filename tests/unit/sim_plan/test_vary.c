/* Axes of a sweep: lists, ranges, cases, and the numbers of points against plain nested loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/plan/vary.h"

/* The labels of the one axis that `text` makes, separated by blanks; the message of a refusal. */
static void expect_labels(const char *text, const char *expected)
{
  struct kc_vary vary;
  struct kc_diag diag = {0};
  char seen[512] = "";
  kc_vary_init(&vary);
  if (kc_vary_key(&vary, text, &diag) == KC_OK) {
    for (uint32_t i = 0; i < vary.axis[0].count; i++) {
      const size_t used = strlen(seen);
      snprintf(seen + used, sizeof seen - used, "%s%s", i == 0 ? "" : " ",
               vary.axis[0].value[i].label);
    }
  } else {
    snprintf(seen, sizeof seen, "%s", diag.text);
  }
  if (strstr(seen, expected) == NULL) fail_msg("%s: \"%s\", expected \"%s\"", text, seen, expected);
  kc_vary_free(&vary);
}

static void lists_and_ranges(void **state)
{
  (void)state;
  expect_labels("a=x,y,z", "x y z");
  expect_labels("a=1..4", "1 2 3 4");
  expect_labels("a=1..10:3", "1 4 7 10");
  expect_labels("a=1..9:3", "1 4 7");
  expect_labels("a=8..64*2", "8 16 32 64");
  expect_labels("a=8..63*2", "8 16 32");
  expect_labels("a=8k..32k*2", "8000 16000 32000");
  expect_labels("a=1Ki..4Ki*2", "1024 2048 4096");
  expect_labels("a=2..20*1.5", "2 3 5 7 10 15"); /* 2, 3, 4.5, 6.75, 10.125, 15.1875, half up */
  expect_labels("a=1..2*1.2", "1 2");            /* 1, 1.2, 1.44, 1.728: not 1 twice */
  expect_labels("a=0.1..0.5:0.1", "0.1 0.2 0.3 0.4 0.5");
  expect_labels("a=-1.5..0.5:1", "-1.5 -0.5 0.5");
  expect_labels("a=0.25..1*2", "0.25 0.5 1");
  expect_labels("a=5..5", "5");
  expect_labels("a=1,2,4..16*2,x", "1 2 4 8 16 x");
  expect_labels("a=1/8..1/2*2", "1/8 1/4 1/2");
  expect_labels("a=1/8..4*2", "1/8 1/4 1/2 1 2 4");
  expect_labels("a=1/3..1:1/6", "1/3 1/2 2/3 5/6 1");
  expect_labels("a=0.5..2:1/2", "1/2 1 3/2 2");
  expect_labels("a=2/3..3*3/2", "2/3 1 3/2 9/4"); /* 27/8 is beyond */
  expect_labels("a=1/2../t.csv", "needs a step");
  expect_labels("a=../t.csv,../u.csv", "../t.csv ../u.csv");
  expect_labels("a={b: 1, c: [1,2]},\"x,y\"", "{b: 1, c: [1,2]} \"x,y\"");
  expect_labels("a=b=c,d", "b=c d");
}

static void refusals(void **state)
{
  (void)state;
  expect_labels("a=1..4,3", "\"3\" twice");
  expect_labels("a=4..1", "is empty");
  expect_labels("a=0..8*2", "above 0");
  expect_labels("a=1..8*0.5", "factor above 1");
  expect_labels("a=1..8:-1", "step above 0");
  expect_labels("a=1..", "is not FIRST..LAST");
  expect_labels("a=1...4", "is not FIRST..LAST");
  expect_labels("a=0..1e9", "more than 100000 values");
  expect_labels("a=1/2..1", "needs a step, such as 1/4..1:1/4");
  expect_labels("a=1/2..1/4*2", "is empty");
  expect_labels("a=1/2..1*1/2", "needs a factor above 1");
  expect_labels("a=1/0..1*2", "1/0..1*2"); /* no number before the dots: a word */
  expect_labels("a=1/999999937..1:1/999999929", "terms are too large");
  expect_labels("a=1/3..1e9:1", "is not FIRST..LAST");
  expect_labels("a=1/3..1000000:1", "more than 100000 values");
  expect_labels("a=1,", "a value is empty");
  expect_labels("=1", "expected KEY=");
}

/* Crossed: the first axis slowest. */
static void points_are_nested_loops(void **state)
{
  (void)state;
  struct kc_vary vary;
  struct kc_diag diag = {0};
  const char *sets[KC_VARY_SETS_MAX];
  char expected[3][32];
  uint64_t point = 0;
  kc_vary_init(&vary);
  assert_int_equal(kc_vary_case(&vary, "one: x=1; y=2", &diag), KC_OK);
  assert_int_equal(kc_vary_case(&vary, "two: x=3;y=4 ;", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&vary, "a=1..3", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&vary, "b=p,q", &diag), KC_OK);
  assert_int_equal(kc_vary_finish(&vary, false, &diag), KC_OK);
  assert_int_equal(vary.points, 12);
  for (int c = 0; c < 2; c++) {
    for (int a = 1; a <= 3; a++) {
      for (int b = 0; b < 2; b++, point++) {
        assert_int_equal(kc_vary_sets(&vary, point, sets), 4);
        assert_string_equal(sets[0], c == 0 ? "x=1" : "x=3");
        assert_string_equal(sets[1], c == 0 ? "y=2" : "y=4");
        snprintf(expected[0], sizeof expected[0], "a=%d", a);
        assert_string_equal(sets[2], expected[0]);
        assert_string_equal(sets[3], b == 0 ? "b=p" : "b=q");
        assert_string_equal(kc_vary_label(&vary, point, 0), c == 0 ? "one" : "two");
        assert_int_equal(kc_vary_index(&vary, point, 1), a - 1);
      }
    }
  }
  char *text = kc_vary_text(&vary);
  assert_string_equal(text, "crossed\naxis case\n  one: x=1; y=2\n  two: x=3; y=4\naxis a\n"
                            "  1: a=1\n  2: a=2\n  3: a=3\naxis b\n  p: b=p\n  q: b=q\n");
  free(text);
  kc_vary_free(&vary);
}

static void zipped_axes_go_together(void **state)
{
  (void)state;
  struct kc_vary vary;
  struct kc_diag diag = {0};
  kc_vary_init(&vary);
  assert_int_equal(kc_vary_case(&vary, "one: x=1", &diag), KC_OK);
  assert_int_equal(kc_vary_case(&vary, "two: x=3", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&vary, "a=1..3", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&vary, "b=p,q,r", &diag), KC_OK);
  assert_int_equal(kc_vary_finish(&vary, true, &diag), KC_OK);
  assert_int_equal(vary.points, 6);
  for (uint64_t p = 0; p < 6; p++) {
    assert_int_equal(kc_vary_index(&vary, p, 0), p / 3);
    assert_int_equal(kc_vary_index(&vary, p, 1), p % 3);
    assert_int_equal(kc_vary_index(&vary, p, 2), p % 3);
  }
  kc_vary_free(&vary);
  kc_vary_init(&vary);
  assert_int_equal(kc_vary_key(&vary, "a=1..3", &diag), KC_OK);
  assert_int_equal(kc_vary_key(&vary, "b=p,q", &diag), KC_OK);
  assert_int_equal(kc_vary_finish(&vary, true, &diag), KC_ERR_USAGE);
  kc_vary_free(&vary);
}

static void ceilings(void **state)
{
  (void)state;
  struct kc_vary vary;
  struct kc_diag diag = {0};
  char key[40];
  kc_vary_init(&vary);
  assert_int_equal(kc_vary_finish(&vary, false, &diag), KC_ERR_USAGE);
  for (int i = 0; i < KC_VARY_AXES_MAX; i++) {
    snprintf(key, sizeof key, "k%d=1..10", i);
    assert_int_equal(kc_vary_key(&vary, key, &diag), KC_OK);
  }
  assert_int_equal(kc_vary_key(&vary, "more=1", &diag), KC_ERR_LIMIT);
  assert_int_equal(kc_vary_finish(&vary, false, &diag), KC_ERR_LIMIT); /* 10^16 points */
  kc_vary_free(&vary);
  kc_vary_init(&vary);
  assert_int_equal(kc_vary_case(&vary, "x: a", &diag), KC_ERR_USAGE);
  assert_int_equal(kc_vary_case(&vary, "x: a=1;b=2;c=3;d=4;e=5;f=6;g=7;h=8;i=9;j=10;k=11;l=12;"
                                "m=13;n=14;o=15;p=16;q=17", &diag), KC_ERR_USAGE);
  assert_int_equal(kc_vary_case(&vary, "no colon", &diag), KC_ERR_USAGE);
  assert_int_equal(kc_vary_case(&vary, "x: a=1", &diag), KC_OK);
  assert_int_equal(kc_vary_case(&vary, "x: a=2", &diag), KC_ERR_USAGE);
  kc_vary_free(&vary);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_and_ranges),        cmocka_unit_test(refusals),
      cmocka_unit_test(points_are_nested_loops), cmocka_unit_test(zipped_axes_go_together),
      cmocka_unit_test(ceilings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
