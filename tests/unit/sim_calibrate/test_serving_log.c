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

/* Requests of one instant keep the order of the file, as the rows of a trace do. */
static void test_ties_keep_their_order(void **state)
{
  static const int arrival[] = {2, 1, 1, 1, 0}, expected[] = {5, 2, 3, 4, 1};
  char text[2048];
  size_t used = 0;
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  for (int i = 0; i < 5; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "{\"input_toks\": %d, \"output_toks\": 5, \"arrival_time\": %d,"
                             " \"queued_ts\": %d, \"scheduled_ts\": %d, \"first_token_ts\": 53,"
                             " \"last_token_ts\": 55}\n", i + 1, arrival[i], arrival[i],
                             arrival[i]);
  }
  assert_int_equal(KC_OK, read_text(&log, text, &diag));
  for (size_t i = 0; i < 5; i++) assert_int_equal(expected[i], log.row[i].input_tokens);
  kc_serving_log_free(&log);
}

/* What is written is read back, but for a request that did not complete; of an emulated device, it
 * is refused. Written by hand: 2.5 s of waiting, the first token 0.125 s later, the last at 4 s. */
static void test_written_log_is_read_back(void **state)
{
  char path[] = "/tmp/kvcap-log-XXXXXX";
  struct kc_log_request row[2] = {
      {.arrival_s = 1.25, .queue_s = 2.5, .ttft_s = 2.625, .e2e_s = 4, .input_tokens = 31,
       .output_tokens = 17, .ok = true},
      {.arrival_s = 2, .e2e_s = 1, .input_tokens = 5}};
  const struct kc_log_answers answers = {row, 2};
  struct kc_log_origin origin = {.device = "a \"card\"", .model = "m"};
  struct kc_serving_log log;
  struct kc_diag diag;
  size_t left_out = 9;
  (void)state;
  close(mkstemp(path));
  assert_int_equal(KC_OK, kc_serving_log_write(&answers, &origin, path, &left_out, &diag));
  assert_int_equal(1, left_out);
  assert_int_equal(KC_OK, kc_serving_log_read(&log, path, &diag));
  assert_string_equal("benchlog", log.format);
  assert_int_equal(1, log.count);
  assert_int_equal(31, log.row[0].input_tokens);
  assert_int_equal(17, log.row[0].output_tokens);
  near(0, log.row[0].arrival_s);
  near(2.5, log.row[0].queue_s);
  near(2.625, log.row[0].ttft_s);
  near(4, log.row[0].e2e_s);
  kc_serving_log_free(&log);
  origin.emulated = true;
  assert_int_equal(KC_OK, kc_serving_log_write(&answers, &origin, path, &left_out, &diag));
  assert_int_equal(KC_ERR_INPUT, kc_serving_log_read(&log, path, &diag));
  assert_non_null(strstr(diag.text, "emulated device"));
  kc_serving_log_free(&log);
  unlink(path);
}

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

/* 100 ns apart in 19 digits, which a double cannot tell: the order is that of the digits. Gaps come
 * in the unit of their list. What has no first token stays, what failed can be taken out. */
static void test_aiperf_failures_and_nanoseconds(void **state)
{
#define RECORD(ns, more, metrics, error)                                                    \
  "{\"metadata\": {\"request_start_ns\": " ns more "}, \"metrics\": " metrics ", \"error\": " \
  error "}\n"
#define FIGURES(input, first)                                                               \
  "{" first "\"request_latency\": {\"value\": 20, \"unit\": \"ms\"}, "                        \
  "\"input_sequence_length\": " input ", "                                                  \
  "\"output_sequence_length\": {\"value\": 3, \"unit\": \"tokens\"}, "                        \
  "\"inter_chunk_latency\": {\"value\": [2000, 3000], \"unit\": \"us\"}}"
#define FIRST "\"time_to_first_token\": {\"value\": 15, \"unit\": \"ms\"}, "
  static const char text[] =
      RECORD("1759813207532900500", "", FIGURES("12", FIRST), "null")
      RECORD("1759813207532900400", "", FIGURES("11", FIRST), "null")
      RECORD("1759813207532900300", "", FIGURES("10", ""), "null")
      RECORD("1759813207532900600", ", \"was_cancelled\": true", "{}", "{\"code\": 499}")
      RECORD("1759813207532900100", "", "null", "{\"code\": 500, \"message\": \"no\\tway\"}");
  struct kc_serving_log log;
  struct kc_diag diag;
  char words[KC_LOG_FAILURES_BYTES];
  (void)state;
  assert_int_equal(KC_OK, read_text(&log, text, &diag));
  assert_int_equal(5, log.count);
  assert_true(log.row[0].failed && !log.row[1].failed && !log.row[1].ok && log.row[2].ok);
  for (uint32_t i = 1; i < 4; i++) assert_int_equal(9 + i, log.row[i].input_tokens);
  near(400e-9, log.row[3].arrival_s);
  assert_int_equal(4, log.gap_count); /* of the two that have times */
  near(0.003, log.gap_s[1]);
  assert_int_equal(3, kc_serving_log_failures(&log, words));
  assert_string_equal("3 of 5 requests: 1 with an error (the first is number 5: \"no\\tway\"), "
                      "1 cancelled, 1 without a time to the first token", words);
  assert_int_equal(KC_OK, kc_serving_log_drop_failed(&log, &diag));
  assert_int_equal(3, log.count);
  near(200e-9, log.row[2].arrival_s);
  assert_int_equal(3, kc_serving_log_failures(&log, words)); /* of the file, not of what is left */
  kc_serving_log_free(&log);
}

/* An error beside some tokens is a failure; so are 0 tokens without one.
 * Their gaps do not count. */
static void test_result_failures(void **state)
{
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, read_text(&log,
      "{\"input_lens\": [10, 20, 30, 40], \"output_lens\": [3, 2, 0, 4],\n"
      "\"start_times\": [4.0, 5.5, 0, 6], \"ttfts\": [0.5, 0.25, 0, 0],\n"
      "\"itls\": [[0.1, 0.3], [0.1], [], [1]],\n"
      "\"errors\": [\"\", \"reset\", \"\", \"\"]}\n", &diag));
  assert_int_equal(1, log.failures[KC_LOG_ERROR]);
  assert_int_equal(1, log.failures[KC_LOG_NO_OUTPUT]);
  assert_int_equal(1, log.failures[KC_LOG_NO_TIMES]);
  assert_int_equal(2, log.gap_count);
  assert_int_equal(KC_OK, kc_serving_log_drop_failed(&log, &diag));
  assert_int_equal(2, log.count);
  assert_true(log.row[0].ok && log.row[0].input_tokens == 10 && log.row[1].input_tokens == 40);
  near(0, log.row[0].arrival_s); /* not from the 0 of the request that was never sent */
  near(2, log.row[1].arrival_s);
  kc_serving_log_free(&log);
}

/* Stages that never came are null; the clocks are matched without them. */
static void test_benchlog_failures(void **state)
{
  char text[1024];
  struct kc_serving_log log;
  struct kc_diag diag;
  (void)state;
  snprintf(text, sizeof text, "%s%s", benchlog,
           "{\"request_id\": \"c\", \"input_toks\": 4, \"output_toks\": 0,"
           " \"arrival_time\": 1002, \"queued_ts\": 1, \"scheduled_ts\": null,"
           " \"first_token_ts\": null, \"last_token_ts\": null}\n");
  assert_int_equal(KC_OK, read_text(&log, text, &diag));
  assert_int_equal(3, log.count);
  assert_true(log.row[2].failed);
  near(1.5, log.row[1].ttft_s);
  assert_int_equal(KC_OK, kc_serving_log_drop_failed(&log, &diag));
  assert_int_equal(2, log.count);
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
  refuse("{\"first_token_ts\": 3, \"arrival_time\": 1777142838338653000, \"queued_ts\": 2,"
         " \"scheduled_ts\": 2, \"last_token_ts\": 3, \"input_toks\": 1, \"output_toks\": 1}",
         "arrival_time: is no clock in seconds"); /* nanoseconds */
  refuse("{\"mean_ttft_ms\": 3, \"request_throughput\": 1}\n", "--save-detailed");
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

static struct kc_log_request answer(double arrival, double ttft, double e2e, double queue)
{
  return (struct kc_log_request){.arrival_s = arrival, .ttft_s = ttft, .e2e_s = e2e,
                                 .queue_s = queue, .input_tokens = 10, .output_tokens = 5,
                                 .ok = true};
}

static void test_comparison_finds_the_stage(void **state)
{
  struct kc_log_request a[2] = {answer(0, 1, 3, 0.5), answer(1, 1, 2, 0.5)};
  struct kc_log_request b[2] = {answer(0, 1, 4, 0.5), answer(1, 1.25, 2.25, 0.75)};
  struct kc_serving_log left = {.path = "a", .format = "x", .row = a, .count = 2};
  struct kc_serving_log right = {.path = "b", .format = "x", .row = b, .count = 2};
  struct kc_comparison c;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, kc_compare(&c, &left, &right, false, &diag));
  assert_int_equal(KC_PARTS_QUEUE, c.parts);
  assert_int_equal(0, c.worst[0].row);
  assert_int_equal(KC_STAGE_DECODE, c.worst[0].stage);
  near(1, c.worst[0].share_s[KC_STAGE_DECODE]);
  assert_int_equal(KC_STAGE_QUEUE, c.worst[1].stage);
  near(0.125, c.stage[KC_STAGE_QUEUE].b_s - c.stage[KC_STAGE_QUEUE].a_s);
  near(0.5, c.stage[KC_STAGE_DECODE].b_s - c.stage[KC_STAGE_DECODE].a_s);
  b[1].input_tokens = 11;
  assert_int_equal(KC_ERR_INPUT, kc_compare(&c, &left, &right, false, &diag));
}

/* A request of ours that lived 20 s: 2 s for a slot, 3 s for pages, 4 s with a slot until its first
 * token (1 s of it the host's), then preempted for 5 s, 4 of them for pages, and 6 s with a slot, 2
 * of them the host's. */
static struct kc_outcome made_outcome(void)
{
  const kc_ps s = KC_PS_PER_MS * 1000;
  return (struct kc_outcome){
      .status = KC_STATUS_COMPLETED, .output_tokens = 5, .arrival_ps = s, .end_ps = 21 * s,
      .first_token_ps = 10 * s, .resident_ps = 10 * s, .kv_wait_ps = 7 * s, .host_ps = 3 * s,
      .first = {.resident_ps = 4 * s, .kv_wait_ps = 3 * s, .host_ps = s}};
}

static void test_terms_of_our_own_runs(void **state)
{
  static const double first[KC_STAGES] = {2, 3, 3, 0, 1}, whole[KC_STAGES] = {3, 7, 3, 4, 3};
  struct kc_outcome outcome = made_outcome();
  struct kc_log_request a = kc_log_request_of(&outcome, 10, true);
  outcome.end_ps += KC_PS_PER_MS * 2000; /* b: 2 s more of preemption, for pages */
  outcome.kv_wait_ps += KC_PS_PER_MS * 2000;
  struct kc_log_request b = kc_log_request_of(&outcome, 10, true);
  struct kc_serving_log left = {.path = "a", .format = "x", .row = &a, .count = 1};
  struct kc_serving_log right = {.path = "b", .format = "x", .row = &b, .count = 1};
  struct kc_comparison c;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(KC_OK, kc_compare(&c, &left, &right, false, &diag));
  assert_int_equal(KC_PARTS_ALL, c.parts);
  for (int i = 0; i < KC_STAGES; i++) {
    near(first[i], c.stage[i].first_a_s);
    near(whole[i], c.stage[i].a_s);
  }
  assert_int_equal(KC_STAGE_KV_WAIT, c.worst[0].stage);
  near(2, c.worst[0].share_s[KC_STAGE_KV_WAIT]);
  b.parted = false; /* a side that does not know: both are told less */
  assert_int_equal(KC_OK, kc_compare(&c, &left, &right, false, &diag));
  assert_int_equal(KC_PARTS_QUEUE, c.parts);
  near(5, c.stage[KC_STAGE_QUEUE].a_s);
  near(4, c.stage[KC_STAGE_PREFILL].a_s);
  near(11, c.stage[KC_STAGE_DECODE].a_s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_written_log_is_read_back),
      cmocka_unit_test(test_benchlog_matches_clocks_and_sorts),
      cmocka_unit_test(test_ties_keep_their_order),
      cmocka_unit_test(test_bench_result),
      cmocka_unit_test(test_aiperf_units),
      cmocka_unit_test(test_aiperf_failures_and_nanoseconds),
      cmocka_unit_test(test_result_failures),
      cmocka_unit_test(test_benchlog_failures),
      cmocka_unit_test(test_what_is_wrong_is_said),
      cmocka_unit_test(test_percentiles),
      cmocka_unit_test(test_comparison_finds_the_stage),
      cmocka_unit_test(test_terms_of_our_own_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
