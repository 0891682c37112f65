/* Requirements: how they are read, and what they say of a figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/scenario/require.h"

static struct kc_requirement parse(const char *text)
{
  struct kc_requirement requirement;
  struct kc_diag diag = {0};
  if (kc_requirement_parse(&requirement, text, &diag) != KC_OK) fail_msg("%s", diag.text);
  return requirement;
}

static void every_sign_is_read(void **state)
{
  (void)state;
  static const struct {
    const char *text, *normal;
    enum kc_require_sense sense;
  } cases[] = {{"ttft_p95_ms<=500", "ttft_p95_ms<=500", KC_REQUIRE_AT_MOST},
               {" ttft_p95_ms <  0.5 ", "ttft_p95_ms<0.5", KC_REQUIRE_LESS},
               {"ttft_p95_ms >= 1e3", "ttft_p95_ms>=1000", KC_REQUIRE_AT_LEAST},
               {"ttft_p95_ms>-2", "ttft_p95_ms>-2", KC_REQUIRE_MORE}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct kc_requirement requirement = parse(cases[i].text);
    assert_string_equal(requirement.text, cases[i].normal);
    assert_int_equal(requirement.sense, cases[i].sense);
    assert_int_equal(requirement.figure, KC_FIGURE_TTFT_P95_MS);
  }
}

static void what_is_not_one_is_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text, *says;
  } cases[] = {{"ttft_p95_ms", "is not a requirement"},     {"<=500", "is not a requirement"},
               {"ttft_p95_ms<=", "is not a requirement"},   {"ttft_p95_ms<=5 ms", "not a req"},
               {"ttft_p95_ms<<5", "is not a requirement"},  {"ttft_p95_ms==5", "not a req"},
               {"ttft_p95ms<=5", "did you mean ttft_p95_ms"}, {"ttft_p95_ms<=inf", "not a req"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_requirement requirement;
    struct kc_diag diag = {0};
    assert_int_equal(kc_requirement_parse(&requirement, cases[i].text, &diag), KC_ERR_USAGE);
    if (strstr(diag.text, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].text, diag.text);
  }
}

static struct kc_require_outcome check(const char *text, double value)
{
  struct kc_figure_set figures;
  memset(&figures, 0, sizeof figures);
  const struct kc_requirement requirement = parse(text);
  kc_figure_put(&figures, requirement.figure, value);
  return kc_requirement_check(&requirement, &figures);
}

static void excess_is_a_ratio_that_says_met_or_not(void **state)
{
  (void)state;
  assert_true(check("tpot_p95_ms<=50", 50).met);
  assert_false(check("tpot_p95_ms<50", 50).met);
  assert_true(check("output_tok_s>=50", 50).met);
  assert_false(check("output_tok_s>50", 50).met);
  assert_true(check("tpot_p95_ms<=50", 75).excess == 1.5);
  assert_true(check("output_tok_s>=50", 25).excess == 2);
  assert_true(check("tpot_p95_ms<=50", 25).excess == 0.5);
  assert_true(check("headroom>=0.1", -1).excess == KC_REQUIRE_HOPELESS);
  assert_true(check("headroom>=-0.5", -0.1).met);
  assert_true(check("preemptions<=0", 0).met);
  assert_false(check("preemptions<=0", 1).met);
}

static void an_unknown_figure_is_not_met(void **state)
{
  (void)state;
  struct kc_figure_set figures;
  memset(&figures, 0, sizeof figures);
  const struct kc_requirement requirement = parse("hit_rate>=0");
  const struct kc_require_outcome outcome = kc_requirement_check(&requirement, &figures);
  assert_false(outcome.known);
  assert_false(outcome.met);
  assert_true(outcome.excess == KC_REQUIRE_HOPELESS);
}

static void contradictions_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
    bool agree;
  } cases[] = {{"ttft_p95_ms<=100", "ttft_p95_ms>=200", false},
               {"ttft_p95_ms>=200", "ttft_p95_ms<=100", false},
               {"ttft_p95_ms<=100", "ttft_p95_ms>=100", true},
               {"ttft_p95_ms<100", "ttft_p95_ms>=100", false},
               {"ttft_p95_ms<=100", "ttft_p95_ms>100", false},
               {"ttft_p95_ms>=100", "ttft_p95_ms<=200", true},
               {"ttft_p95_ms<=100", "ttft_p95_ms<=200", true},
               {"ttft_p95_ms>=100", "ttft_p95_ms>=200", true},
               {"ttft_p95_ms<=100", "tpot_p95_ms>=200", true}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct kc_requirement both[] = {parse(cases[i].a), parse(cases[i].b)};
    struct kc_diag diag = {0};
    const enum kc_err err = kc_requirements_agree(both, 2, "slo", &diag);
    assert_int_equal(err, cases[i].agree ? KC_OK : KC_ERR_USAGE);
    if (!cases[i].agree) assert_non_null(strstr(diag.text, cases[i].a));
  }
}

static void a_figure_of_a_latency_is_its_mean_or_a_percentile(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int percent;
  } cases[] = {{"ttft_mean_ms", 0}, {"ttft_p50_ms", 50}, {"ttft_p90_ms", 90}, {"ttft_p95_ms", 95},
               {"ttft_p99_ms", 99}, {"tpot_mean_ms", -1}, {"request_s", -1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    enum kc_figure figure;
    struct kc_diag diag = {0};
    assert_int_equal(kc_figure_parse(cases[i].name, strlen(cases[i].name), &figure, &diag), KC_OK);
    assert_int_equal(kc_figure_percentile(figure, KC_FIGURE_TTFT_MEAN_MS), cases[i].percent);
  }
}

/* Texts are on the side of a limit that the value is on, floors never above what they bound, and
 * one thing is not many. */
static void texts_are_true(void **state)
{
  (void)state;
  static const struct {
    enum kc_figure figure;
    double value, limit;
    const char *text;
  } against[] = {{KC_FIGURE_TTFT_P95_MS, 12.4, 500, "12.40 ms"},
                 {KC_FIGURE_TTFT_P95_MS, 50.004, 50, "50.004 ms"},
                 {KC_FIGURE_TTFT_P95_MS, 49.99996, 50, "49.99996 ms"},
                 {KC_FIGURE_TTFT_P95_MS, 50, 50, "50.00 ms"},
                 {KC_FIGURE_TTFT_P95_MS, 49.9875, 49.9875, "49.9875 ms"},
                 {KC_FIGURE_TTFT_P95_MS, 1e-9, 0, "0.000000001 ms"},
                 {KC_FIGURE_HEADROOM, -0.00001, 0, "-0.00001 share"},
                 {KC_FIGURE_MAX_WAITING, 1, 2, "1 request"}};
  static const struct {
    enum kc_figure figure;
    double value;
    const char *text;
  } floors[] = {{KC_FIGURE_TTFT_P95_MS, 538.519, "538.51 ms"},
                {KC_FIGURE_TTFT_P95_MS, 538.511, "538.51 ms"},
                {KC_FIGURE_TTFT_P95_MS, 538.5, "538.50 ms"},
                {KC_FIGURE_USD_PER_MTOK, 0.81399, "0.8139 USD"},
                {KC_FIGURE_GPUS, 1, "1 GPU"},
                {KC_FIGURE_GPUS, 4, "4 GPUs"}},
    plain[] = {{KC_FIGURE_MAX_RUNNING, 1, "1 request"}, {KC_FIGURE_MAX_RUNNING, 0, "0 requests"},
               {KC_FIGURE_PREEMPTIONS, 1, "1 time"}, {KC_FIGURE_OUTPUT_TOK_S, 1, "1.0 tok/s"},
               {KC_FIGURE_MAKESPAN_S, 1, "1.000 s"}, {KC_FIGURE_FITS, 1, "1"}};
  char text[KC_FIGURE_TEXT_BYTES];
  for (size_t i = 0; i < sizeof against / sizeof against[0]; i++) {
    assert_string_equal(kc_figure_text_against(against[i].figure, against[i].value,
                                               against[i].limit, text), against[i].text);
  }
  for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
    assert_string_equal(kc_figure_text_floor(floors[i].figure, floors[i].value, text),
                        floors[i].text);
  }
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
    assert_string_equal(kc_figure_text(plain[i].figure, plain[i].value, text), plain[i].text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_true),
      cmocka_unit_test(every_sign_is_read),
      cmocka_unit_test(what_is_not_one_is_refused),
      cmocka_unit_test(excess_is_a_ratio_that_says_met_or_not),
      cmocka_unit_test(an_unknown_figure_is_not_met),
      cmocka_unit_test(contradictions_are_refused),
      cmocka_unit_test(a_figure_of_a_latency_is_its_mean_or_a_percentile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
