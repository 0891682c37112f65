/* Escaping, numbers as people read them, and the scales of charts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/html/chart.h"
#include "sim/html/html_text.h"

/* What `write` puts on a stream; the caller frees it. */
#define WRITTEN(call)                                       \
  char *written = NULL;                                     \
  size_t written_bytes = 0;                                 \
  FILE *out = open_memstream(&written, &written_bytes);     \
  assert_non_null(out);                                     \
  call;                                                     \
  assert_int_equal(fclose(out), 0)

static void test_text_is_escaped(void **state)
{
  (void)state;
  WRITTEN(kc_html_text(out, "<a href='x'>\"R&D\" → é</a>"));
  assert_string_equal(written,
                      "&lt;a href=&#39;x&#39;&gt;&quot;R&amp;D&quot; → é&lt;/a&gt;");
  free(written);
}

static void test_numbers(void **state)
{
  (void)state;
  static const struct {
    double value;
    enum kc_rounding rounding;
    const char *text;
  } cases[] = {
      {0, KC_ROUND_COUNT, "0"},
      {999, KC_ROUND_COUNT, "999"},
      {1000, KC_ROUND_COUNT, "1,000"},
      {1367168, KC_ROUND_COUNT, "1,367,168"},
      {-1234567, KC_ROUND_COUNT, "-1,234,567"},
      {-0.2, KC_ROUND_COUNT, "0"},
      {8.264, KC_ROUND_READING, "8.26"},
      {9.996, KC_ROUND_READING, "10.0"},
      {41.66, KC_ROUND_READING, "41.7"},
      {99.96, KC_ROUND_READING, "100"},
      {120.6, KC_ROUND_READING, "121"},
      {20024.6, KC_ROUND_READING, "20,025"},
      {0, KC_ROUND_READING, "0.00"},
      {5.5897, KC_ROUND_MONEY, "5.59"},
      {0.92491, KC_ROUND_MONEY, "0.925"},
      {0.9996, KC_ROUND_MONEY, "1.00"},
      {0.00342, KC_ROUND_MONEY, "0.00342"},
      {1234.5, KC_ROUND_MONEY, "1,234.50"},
      {-28.432, KC_ROUND_TENTH, "-28.4"},
      {-0.01, KC_ROUND_TENTH, "0.0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[KC_HTML_NUMBER_BYTES];
    assert_string_equal(kc_html_number(text, cases[i].value, cases[i].rounding), cases[i].text);
  }
}

static void test_the_largest_number_has_room(void **state)
{
  (void)state;
  char text[KC_HTML_NUMBER_BYTES];
  assert_true(strlen(kc_html_number(text, -1.7e308, KC_ROUND_TENTH)) < KC_HTML_NUMBER_BYTES);
  assert_string_equal(text + strlen(text) - 2, ".0"); /* nothing was cut off */
}

static void test_a_figure_says_where_it_comes_from(void **state)
{
  (void)state;
  const struct kc_html_source source = {.kind = "run", .id = "7"};
  WRITTEN(kc_html_figure(out, "td", "n", source, "ttft_p95_ms", "121.381664042", KC_ROUND_READING));
  assert_string_equal(written, "<td class=\"n\" data-run=\"7\" data-figure=\"ttft_p95_ms\" "
                               "data-value=\"121.381664042\">121</td>");
  free(written);
}

static void test_what_is_not_known_has_no_value(void **state)
{
  (void)state;
  const struct kc_html_source source = {.kind = "point", .id = "1/3"};
  WRITTEN(kc_html_figure(out, "b", "", source, "usd_per_mtok", NULL, KC_ROUND_MONEY);
          kc_html_figure(out, "b", "", source, "usd_per_mtok", "nan\"", KC_ROUND_MONEY));
  assert_string_equal(written, "<b>–</b><b>–</b>");
  free(written);
}

static void test_ticks(void **state)
{
  (void)state;
  char text[KC_TICK_BYTES];
  assert_string_equal(kc_chart_tick(text, 0.5), "0.5");
  assert_string_equal(kc_chart_tick(text, 5000), "5000");
  assert_string_equal(kc_chart_tick(text, 20000), "20k");
  assert_string_equal(kc_chart_tick(text, 1500000), "1.5M");
}

/* A logarithmic axis puts equal ratios at equal distances; libm says what they are. */
static void test_scales(void **state)
{
  (void)state;
  const struct kc_axis across = kc_axis_range(1, 1000, "ms");
  assert_true(across.logarithmic);
  assert_false(kc_axis_range(10, 100, "ms").logarithmic);
  const struct kc_axis up = kc_axis_from_zero(0, "requests"); /* nothing happened */
  assert_true(up.high > up.low);
  const struct kc_chart chart = kc_chart_frame(stderr, KC_CHART_HEIGHT, across, up);
  for (double value = 1; value <= 1000; value *= 1.7) {
    const double share = log(value / across.low) / log(across.high / across.low);
    const double x = chart.left + share * (chart.right - chart.left);
    assert_true(fabs(kc_chart_x(&chart, value) - x) < 1e-5);
  }
  assert_true(kc_chart_y(&chart, up.low) == chart.bottom);
  assert_true(kc_chart_y(&chart, up.high) == chart.top);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_is_escaped),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_the_largest_number_has_room),
      cmocka_unit_test(test_a_figure_says_where_it_comes_from),
      cmocka_unit_test(test_what_is_not_known_has_no_value),
      cmocka_unit_test(test_ticks),
      cmocka_unit_test(test_scales),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
