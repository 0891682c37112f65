/* Lengths: histograms with their errors, frequencies, rank correlation, presets. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "synth_support.h"
#include "traces/transform/trace_stats.h"

enum { DRAWS = 50000 };

static enum kc_err parse(struct kc_lengths *lengths, const char *text, struct kc_diag *diag)
{
  return kc_lengths_parse(lengths, "h.csv", text, strlen(text), diag);
}

static void test_pairs(void **state)
{
  struct kc_lengths lengths;
  struct kc_random random;
  struct kc_diag diag;
  int seen[3] = {0};
  (void)state;
  assert_int_equal(parse(&lengths, "input_tokens,output_tokens,weight\r\n100,1,1\r\n\r\n7,9,0\n"
                         "200,2,3\n300,0,4", &diag), KC_OK);
  kc_random_init(&random, 1, "test pairs", 0);
  for (int i = 0; i < DRAWS; i++) {
    uint32_t input, output;
    kc_lengths_draw(&lengths, &random, &input, &output);
    assert_true(input == 100 || input == 200 || input == 300);
    assert_int_equal(output, input == 100 ? 1 : input == 200 ? 2 : 1); /* 0 counts as 1 */
    seen[input / 100 - 1]++;
  }
  for (int k = 0; k < 3; k++) {
    const double share = (k == 0 ? 1 : k == 1 ? 3 : 4) / 8.0;
    NEAR(seen[k], DRAWS * share, 4 * sqrt(DRAWS * share * (1 - share)));
  }
  kc_lengths_free(&lengths);
}

static void test_marginals_and_correlation(void **state)
{
  static uint32_t input[DRAWS], output[DRAWS];
  static char text[100000];
  struct kc_lengths lengths;
  struct kc_diag diag;
  size_t used = (size_t)snprintf(text, sizeof text, "side,tokens,weight\n");
  (void)state;
  for (int k = 1000; k >= 1; k--) { /* two uniform sides, lines in falling order */
    used += (size_t)snprintf(text + used, sizeof text - used, "input,%d,5\noutput,%d,2\n", k,
                             2 * k);
  }
  assert_int_equal(parse(&lengths, text, &diag), KC_OK);
  for (int tie = -10; tie <= 10; tie += 5) {
    struct kc_random random;
    kc_random_init(&random, 2, "test tie", (uint64_t)(tie + 10));
    lengths.correlation_nano = tie * KC_NANO / 10;
    for (int i = 0; i < DRAWS; i++) {
      kc_lengths_draw(&lengths, &random, &input[i], &output[i]);
    }
    /* Uniform sides: Pearson's correlation is that of the ranks. */
    NEAR(kc_pearson_ppm(input, output, DRAWS) * 1e-6, tie / 10.0, 0.02);
  }
  kc_lengths_free(&lengths);
}

static void test_errors(void **state)
{
  const struct {
    const char *text, *says;
    unsigned line, column;
  } cases[] = {
    {"", "starts with the line", 0, 0},
    {"input,output\n", "starts with the line", 1, 0},
    {"input_tokens,output_tokens,weight\n", "weight above 0", 0, 0},
    {"input_tokens,output_tokens,weight\n1,2,0\n", "weight above 0", 0, 0},
    {"input_tokens,output_tokens,weight\n1,2\n", "three cells", 2, 0},
    {"input_tokens,output_tokens,weight\n1,2,3,4\n", "three cells", 2, 0},
    {"input_tokens,output_tokens,weight\n1,2,3\n\n1,x,3\n", "number of tokens", 4, 3},
    {"input_tokens,output_tokens,weight\n4294967296,2,3\n", "number of tokens", 2, 1},
    {"input_tokens,output_tokens,weight\n1,2,4398046511104\n", "below 2^42", 2, 5},
    {"side,tokens,weight\ninput,1,1\n", "each side", 0, 0},
    {"side,tokens,weight\nboth,1,1\n", "\"input\" or \"output\"", 2, 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_lengths lengths;
    struct kc_diag diag = {0};
    assert_int_equal(parse(&lengths, cases[i].text, &diag), KC_ERR_INPUT);
    if (strstr(diag.text, cases[i].says) == NULL || diag.line != cases[i].line ||
        diag.column != cases[i].column) {
      fail_msg("case %zu: %llu:%u: %s", i, (unsigned long long)diag.line, diag.column, diag.text);
    }
    assert_null(lengths.heap[0]);
  }
}

static int by_u32(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* The published figures that the presets are shaped after, within 10 %. */
static void test_presets(void **state)
{
  static uint32_t input[DRAWS], output[DRAWS];
  const struct {
    const char *name;
    uint32_t input_p50, input_p90, output_p50, output_p90;
  } published[] = {{"conversation", 1020, 2735, 129, 424}, {"code", 1469, 5194, 13, 55},
                   {"reasoning", 208, 2092, 792, 3432}};
  struct kc_lengths lengths;
  (void)state;
  for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
    struct kc_random random;
    assert_true(kc_lengths_preset(&lengths, published[i].name));
    kc_random_init(&random, 4, "test preset", i);
    for (int k = 0; k < DRAWS; k++) kc_lengths_draw(&lengths, &random, &input[k], &output[k]);
    qsort(input, DRAWS, sizeof input[0], by_u32);
    qsort(output, DRAWS, sizeof output[0], by_u32);
    NEAR(input[DRAWS / 2] / (double)published[i].input_p50, 1, 0.1);
    NEAR(input[DRAWS * 9 / 10] / (double)published[i].input_p90, 1, 0.1);
    NEAR(output[DRAWS / 2] / (double)published[i].output_p50, 1, 0.1);
    NEAR(output[DRAWS * 9 / 10] / (double)published[i].output_p90, 1, 0.1);
    assert_string_equal(kc_lengths_preset_name(i), published[i].name);
  }
  assert_true(kc_lengths_preset(&lengths, "agent"));
  assert_false(kc_lengths_preset(&lengths, "agents"));
  assert_null(kc_lengths_preset_name(4));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pairs), cmocka_unit_test(test_marginals_and_correlation),
    cmocka_unit_test(test_errors), cmocka_unit_test(test_presets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
