/* Measured logs are read with the times that they state, in the order of arrival; percentiles are
 * those of a hand calculation; what is wrong is said with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/calibrate/compare.h"

static enum kc_err read_text(struct kc_serving_log *log, const char *text, struct kc_diag *diag)
{
  char path[] = "/tmp/kvcap-log-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal((ssize_t)strlen(text), write(file, text, strlen(text)));
  close(file);
  const enum kc_err err = kc_serving_log_read(log, path, diag);
  unlink(path);
  return err;
}

static void near(double expected, double got)
{
  const double error = got - expected;
  if (error > 1e-9 || error < -1e-9) fail_msg("expected %.12g, got %.12g", expected, got);
}

static const char benchlog[] =
    "{\"request_id\": \"b\", \"input_toks\": 7, \"output_toks\": 5, \"arrival_time\": 1001.5,"
    " \"queued_ts\": 52.0, \"scheduled_ts\": 52.5, \"first_token_ts\": 53.0,"
    " \"last_token_ts\": 55.0}\n"
    "{\"request_id\": \"a\", \"input_toks\": 9, \"output_toks\": 3, \"arrival_time\": 1000.0,"
    " \"queued_ts\": 50.0, \"scheduled_ts\": 50.0, \"first_token_ts\": 50.25,"
    " \"last_token_ts\": 51.0}\n";

/* The second line was queued at once, so the clocks are 950 s apart; the first waited 0.5 s for the
 * server to look, and 0.5 s more for its step. */
static void test_benchlog_matches_clocks_and_sorts(void **state)
{
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, read_text(&log, benchlog, &diag));
  assert_string_equal("benchlog", log.format);
  assert_int_equal(2, log.count);
  assert_int_equal(9, log.row[0].input_tokens);
  near(0, log.row[0].queue_s);
  near(0.25, log.row[0].ttft_s);
  near(1.0, log.row[0].e2e_s);
  near(1.5, log.row[1].arrival_s);
  near(1.0, log.row[1].queue_s);
  near(1.5, log.row[1].ttft_s);
  near(3.5, log.row[1].e2e_s);
  double tpot = 0;
  assert_true(kc_log_value(&log.row[1], KC_LOG_TPOT, &tpot));
  near(0.5, tpot);
  kc_serving_log_free(&log);
}

static void test_bench_result(void **state)
{
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, read_text(&log, "{\"input_lens\": [10, 20], \"output_lens\": [3, 0],\n"
                                    "\"start_times\": [4.0, 5.5], \"ttfts\": [0.5, 0.0],\n"
                                    "\"itls\": [[0.1, 0.3], []]}\n", &diag));
  assert_string_equal("bench-result", log.format);
  assert_int_equal(2, log.count);
  assert_true(log.row[0].ok);
  assert_false(log.row[1].ok);
  near(0.9, log.row[0].e2e_s);
  near(1.5, log.row[1].arrival_s);
  assert_true(log.row[0].queue_s < 0);
  assert_int_equal(2, log.gap_count);
  kc_serving_log_free(&log);
}

static void test_aiperf_units(void **state)
{
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, read_text(&log,
      "{\"metadata\": {\"request_start_ns\": 2000000000}, \"metrics\": {\"time_to_first_token\":"
      " {\"value\": 250, \"unit\": \"ms\"}, \"request_latency\":"
      " {\"value\": 1.25, \"unit\": \"s\"},"
      " \"input_sequence_length\": {\"value\": 11, \"unit\": \"tokens\"},"
      " \"output_sequence_length\": {\"value\": 5, \"unit\": \"tokens\"}},"
      " \"error\": null}\n", &diag));
  assert_string_equal("aiperf", log.format);
  near(0.25, log.row[0].ttft_s);
  near(1.25, log.row[0].e2e_s);
  assert_int_equal(11, log.row[0].input_tokens);
  kc_serving_log_free(&log);
}

static void refuse(const char *text, const char *part)
{
  struct kc_serving_log log;
  struct kc_diag diag = {0};
  assert_int_equal(KC_ERR_INPUT, read_text(&log, text, &diag));
  if (strstr(diag.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", diag.text, part);
  kc_serving_log_free(&log);
}

static void test_what_is_wrong_is_said(void **state)
{
  (void)state;
  refuse("", "no request");
  refuse("{\"a\": 1}\n", "no measured requests");
  refuse("{\"first_token_ts\": 1}\n", "arrival_time: is missing");
  refuse("{\"input_lens\": [1], \"output_lens\": [1], \"ttfts\": [1]}", "itls: is no list");
  refuse("{\"input_lens\": [1, 2], \"output_lens\": [1], \"ttfts\": [1, 1], \"itls\": [[], []]}",
         "fewer entries");
  refuse("{\"first_token_ts\": 1, \"arrival_time\": 0, \"queued_ts\": 2, \"scheduled_ts\": 1,"
         " \"last_token_ts\": 3, \"input_toks\": 1, \"output_toks\": 1}", "scheduled_ts");
}

/* 1..10: nearest rank of 90 % is the 9th, of 95 % the 10th; linear: 1 + 0.9 * 9 and so on. */
static void test_percentiles(void **state)
{
  double value[10], out[KC_LOG_FIGURES];
  (void)state;
  for (int i = 0; i < 10; i++) value[i] = 10 - i;
  kc_log_figures(value, 10, false, out);
  near(5.5, out[0]);
  near(5, out[1]);
  near(9, out[2]);
  near(10, out[3]);
  kc_log_figures(value, 10, true, out);
  near(5.5, out[1]);
  near(9.1, out[2]);
  near(9.91, out[4]);
}

static void test_comparison_finds_the_stage(void **state)
{
  struct kc_log_request a[2] = {{0, 1, 3, 0.5, 10, 5, true}, {1, 1, 2, 0.5, 10, 5, true}};
  struct kc_log_request b[2] = {{0, 1, 4, 0.5, 10, 5, true}, {1, 1.25, 2.25, 0.75, 10, 5, true}};
  struct kc_serving_log left = {.path = "a", .format = "x", .row = a, .count = 2};
  struct kc_serving_log right = {.path = "b", .format = "x", .row = b, .count = 2};
  struct kc_comparison c;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, kc_compare(&c, &left, &right, false, &diag));
  assert_int_equal(0, c.worst[0].row);
  assert_int_equal(KC_STAGE_DECODE, c.worst[0].stage);
  near(1, c.worst[0].share_s);
  assert_int_equal(KC_STAGE_QUEUE, c.worst[1].stage);
  near(0.125, c.stage_b_s[KC_STAGE_QUEUE] - c.stage_a_s[KC_STAGE_QUEUE]);
  near(0.5, c.stage_b_s[KC_STAGE_DECODE] - c.stage_a_s[KC_STAGE_DECODE]);
  b[1].input_tokens = 11;
  assert_int_equal(KC_ERR_INPUT, kc_compare(&c, &left, &right, false, &diag));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_benchlog_matches_clocks_and_sorts),
      cmocka_unit_test(test_bench_result),
      cmocka_unit_test(test_aiperf_units),
      cmocka_unit_test(test_what_is_wrong_is_said),
      cmocka_unit_test(test_percentiles),
      cmocka_unit_test(test_comparison_finds_the_stage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
