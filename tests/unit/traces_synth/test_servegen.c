/* ServeGen client pools: the traps of the format, rates and lengths of what is made. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "synth_support.h"

/* Exact heap copies, so that the address sanitizer sees one byte too many. */
static enum kc_err read_text(struct kc_client *client, bool windows, const char *text,
                             struct kc_diag *diag)
{
  const size_t bytes = strlen(text);
  char *const copy = malloc(bytes + 1);
  assert_non_null(copy);
  memcpy(copy, text, bytes);
  char *const exact = realloc(copy, bytes > 0 ? bytes : 1);
  *diag = (struct kc_diag){0};
  const enum kc_err err = windows ? kc_client_read_windows(client, "c", exact, bytes, diag)
                                  : kc_client_read_lengths(client, "c", exact, bytes, diag);
  free(exact);
  return err;
}

/* Rows as published: long fractions, idle windows with an empty family; CR LF, no final newline. */
static void pitfall_43_windows(void **state)
{
  struct kc_client client = {0};
  struct kc_diag diag;
  (void)state;
  assert_int_equal(read_text(&client, true,
                             "0,1.3316666666666668,8.598383725990791,Weibull,0.3753486140101707,"
                             "0.3967677807107179\r\n600,0,0,,0,0\n1200,2.5e-01,6,Gamma,"
                             "2.232167101916883e-02,73", &diag), KC_OK);
  assert_int_equal(client.window_count, 3);
  assert_true(client.window[0].rate_nhz == 1331666666);
  assert_true(client.window[0].family == KC_GAP_WEIBULL);
  assert_true(client.window[0].shape_nano == 375348614);
  assert_true(client.window[1].start_ps == 600 * KC_PS_PER_S && client.window[1].rate_nhz == 0);
  assert_true(client.window[2].rate_nhz == 250000000 && client.window[2].shape_nano == 22321671);
  kc_client_free(&client);
}

/* Distributions as Python dict literals in strings; windows out of order; {} windows; float keys
 * and names that are not lengths. */
static void pitfall_43_dictionaries_in_strings(void **state)
{
  struct kc_client client = {0};
  struct kc_diag diag;
  (void)state;
  assert_int_equal(read_text(&client, false,
                             "{ \"216000\": {\"input_tokens\": \"{82: 0.25, 81: 0.75}\", "
                             "\"output_tokens\": \"{5: 9e-1, 6.0: 0.1, 7: 0.0}\",\n"
                             "\"reason_ratio\": \"{0.0: 0.5, 0.25: 0.5}\"}, \"0\": "
                             "{\"input_tokens\": \"{}\", \"output_tokens\": \"{}\"} }\n", &diag),
                   KC_OK);
  assert_int_equal(client.lengths_count, 2);
  assert_true(client.lengths[0].start_ps == 0 && client.lengths[0].count[0] == 0);
  const struct kc_client_lengths *const late = &client.lengths[1];
  assert_true(late->start_ps == 216000 * KC_PS_PER_S);
  assert_true(late->count[0] == 2 && late->count[1] == 2);
  assert_true(late->point[0][0].tokens == 81 && late->point[0][1].tokens == 82);
  assert_true(late->point[0][0].rank == 3 * (UINT64_C(1) << 62) - 1);
  assert_true(late->point[0][1].rank == UINT64_MAX && late->point[1][1].tokens == 6);
  assert_true(client.ignored_keys == 1);
  kc_client_free(&client);
}

static void test_errors(void **state)
{
  const struct {
    bool windows;
    const char *text, *says;
    unsigned line;
  } cases[] = {
    {true, "", "no windows", 1},
    {true, "start,rate,cv,family,shape,scale\n", "six cells", 1},
    {true, "0,1,1,Gamma,1,1\n600,1,1,Gamma,1\n", "six cells", 2},
    {true, "0,1,1,Pareto,1,1\n", "family", 1},
    {true, "0,1,1,Gamma,0,1\n", "shape", 1},
    {true, "600,1,1,,0,0\n600,1,1,,0,0\n", "no later", 2},
    {true, "0,-1,1,,0,0\n", "six cells", 1},
    {true, "0,1e9,1,,0,0\n", "per second", 1},
    {true, "9223373,1,1,,0,0\n", "six cells", 1},
    {false, "", "\"{\"", 1},
    {false, "{\"0\": {\"input_tokens\": {1: 1}}}", "string", 1},
    {false, "{\"0\": {\"input_tokens\": \"{1: 2}\"}}", "probability", 1},
    {false, "{\"0\": {\"input_tokens\": \"{1: 1\"}}", "\"}\"", 1},
    {false, "{\"0\": {\"input_tokens\": \"{-1: 1}\"}}", "tokens", 1},
    {false, "{\"x\": {}}", "seconds", 1},
    {false, "{\"0\": {}, \"0.0\": {}}", "same time", 1},
    {false, "{\"0\": {}} x", "goes on", 1},
    {false, "{\"0\": {\"input_tokens\": \"{1: 1}\", \"text_tokens\": \"{1: 1}\"}}", "twice", 1},
    {false, "{\"0\": {\"a\\\\b\": \"\"}}", "escapes", 1},
    {false, "{\"0", "not closed", 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_client client = {0};
    struct kc_diag diag;
    const enum kc_err err = read_text(&client, cases[i].windows, cases[i].text, &diag);
    if (err != KC_ERR_INPUT || strstr(diag.text, cases[i].says) == NULL ||
        diag.line != cases[i].line) {
      fail_msg("case %zu: %d, line %llu: %s", i, err, (unsigned long long)diag.line, diag.text);
    }
    kc_client_free(&client);
  }
}

/* ---- pools ---- */

static void put(const char *folder, const char *name, const char *text)
{
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void clear(const char *folder, const char *const *name, size_t count)
{
  char path[1024];
  for (size_t i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    unlink(path);
  }
  rmdir(folder);
}

/* Two clients with lengths, one without a dataset; the second is silent in its first window. */
static void pitfall_43_pool_with_missing_files(void **state)
{
  static const char *const names[] = {"chunk-0-trace.csv", "chunk-0-dataset.json",
                                      "chunk-10-trace.csv", "chunk-10-dataset.json",
                                      "chunk-2-trace.csv", "notes.txt"};
  char folder[] = "/tmp/kvcap-pool-XXXXXX";
  struct kc_client_pool pool;
  struct kc_trace trace;
  struct kc_diag diag;
  uint64_t first = 0, second = 0;
  (void)state;
  assert_non_null(mkdtemp(folder));
  put(folder, names[0], "0,10,2,Gamma,0.25,1\n600,10,2,Gamma,0.25,1\n");
  put(folder, names[1], "{\"0\": {\"input_tokens\": \"{100: 1.0}\", \"output_tokens\": "
                        "\"{1: 1.0}\"}}");
  put(folder, names[2], "0,0,0,,0,0\n600,30,3,Weibull,0.5,1\n");
  put(folder, names[3], "{\"0\": {\"input_tokens\": \"{}\", \"output_tokens\": \"{}\"}, \"21600\": "
                        "{\"input_tokens\": \"{200: 1.0}\", \"output_tokens\": \"{2: 1.0}\"}}");
  put(folder, names[4], "0,99,1,Gamma,1,1\n");
  put(folder, names[5], "not a client");
  assert_int_equal(kc_client_pool_load(&pool, folder, &diag), KC_OK);
  assert_true(pool.count == 2 && pool.without_lengths == 1);
  assert_true(pool.client[1].number == 10 && pool.end_ps == 1200 * KC_PS_PER_S);
  struct kc_pool_spec spec = {.seed = 8};
  assert_int_equal(kc_synth_pool(&trace, &pool, &spec, &diag), KC_OK);
  check_trace(&trace);
  for (uint64_t i = 0; i < trace.count; i++) {
    const bool is_second = trace.row[i].input_tokens == 200;
    assert_true(is_second || trace.row[i].input_tokens == 100);
    assert_true(!is_second || trace.row[i].arrival_ps > 590 * KC_PS_PER_S);
    *(is_second ? &second : &first) += 1;
  }
  NEAR((double)first, 12000, 4 * 2 * sqrt(12000)); /* CV 2 */
  NEAR((double)second, 18000, 4 * 2.236 * sqrt(18000));
  kc_trace_free(&trace);
  spec = (struct kc_pool_spec){.seed = 8, .from_ps = 600 * KC_PS_PER_S, .rows = 500,
                               .rate_nhz = 4000000000};
  assert_int_equal(kc_synth_pool(&trace, &pool, &spec, &diag), KC_OK);
  assert_true(trace.count == 500);
  NEAR((double)trace.span_ps * 1e-12, 125, 60);
  kc_trace_free(&trace);
  spec.from_ps = 1200 * KC_PS_PER_S;
  assert_int_equal(kc_synth_pool(&trace, &pool, &spec, &diag), KC_ERR_INPUT);
  kc_client_pool_free(&pool);
  clear(folder, names, sizeof names / sizeof names[0]);
  assert_int_equal(kc_client_pool_load(&pool, folder, &diag), KC_ERR_FILE);
}

/* The public pool: as many requests as its windows say, within 2 %. */
static void test_public_pool(void **state)
{
  char path[1024];
  struct kc_client_pool pool;
  struct kc_trace trace;
  struct kc_diag diag;
  double wanted = 0;
  (void)state;
  if (!shared_path("servegen/reason-deepseek-r1", path, sizeof path)) skip();
  if (kc_client_pool_load(&pool, path, &diag) != KC_OK) fail_msg("%s: %s", diag.path, diag.text);
  assert_true(pool.count == 6 && pool.end_ps == 86400 * KC_PS_PER_S);
  for (size_t i = 0; i < pool.count; i++) {
    for (size_t w = 0; w < pool.client[i].window_count; w++) {
      wanted += 600 * (double)pool.client[i].window[w].rate_nhz * 1e-9;
    }
  }
  const struct kc_pool_spec spec = {.seed = 1};
  assert_int_equal(kc_synth_pool(&trace, &pool, &spec, &diag), KC_OK);
  check_trace(&trace);
  NEAR((double)trace.count / wanted, 1, 0.02);
  kc_trace_free(&trace);
  kc_client_pool_free(&pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pitfall_43_windows),
      cmocka_unit_test(pitfall_43_dictionaries_in_strings),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(pitfall_43_pool_with_missing_files),
      cmocka_unit_test(test_public_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
