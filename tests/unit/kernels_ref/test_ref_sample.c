/* Sampling: greedy by hand, draws by their frequencies, masks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ref/ref.h"
#include "op_random.h"

static void greedy_takes_the_lowest_of_the_largest(void **state)
{
  (void)state;
  enum { ROWS = 5, V = 6, STRIDE = 8 };
  float *logits = take(ROWS * STRIDE * sizeof *logits);
  const float rows[ROWS][STRIDE] = {{1, 5, 2, 5, 0, 0, 99, 99},
                                    {-3, -2, -1, -2, -1, -9, 0, 0},
                                    {NAN, -7, NAN, -8, -INFINITY, NAN, 0, 0},
                                    {NAN, NAN, NAN, NAN, NAN, NAN, 0, 0},
                                    {0, 0, 0, 0, 0, 1, 0, 0}};
  memcpy(logits, rows, sizeof rows);
  int32_t token[ROWS];
  const struct kc_op_sample op = {.rows = ROWS, .vocabulary = V, .logits = logits,
                                  .logits_stride = STRIDE, .token = token};
  assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
  static const int32_t want[ROWS] = {1, 2, 1, 0, 5};
  assert_memory_equal(token, want, sizeof want);
  free(logits);
}

/* Chi-squared of 20,000 draws against softmax(logits / t), 7 degrees: below 24.3 with probability
 * 0.999; the seeds are fixed, so this either holds or does not. */
static void draws_follow_the_softmax(void **state)
{
  (void)state;
  enum { V = 8, DRAWS = 20000 };
  static const float temperatures[] = {0.5f, 1.0f, 2.0f};
  for (int t = 0; t < 3; ++t) {
    float *logits = take(V * sizeof *logits);
    double p[V], sum = 0, chi = 0;
    uint32_t seen[V] = {0};
    for (int i = 0; i < V; ++i) {
      logits[i] = 0.3f * (float)i - 0.1f * (float)(i % 3);
      p[i] = exp((double)logits[i] / (double)temperatures[t]);
      sum += p[i];
    }
    for (int i = 0; i < DRAWS; ++i) {
      int32_t token, position = i;
      const uint64_t seed = 77;
      const struct kc_op_sample op = {.rows = 1, .vocabulary = V, .logits = logits,
                                      .logits_stride = V, .temperature = &temperatures[t],
                                      .seed = &seed, .position = &position, .token = &token};
      assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
      seen[token] += 1;
    }
    for (int i = 0; i < V; ++i) {
      const double want = DRAWS * p[i] / sum;
      chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    if (!(chi < 24.3)) fail_msg("temperature %g: chi-squared %g", (double)temperatures[t], chi);
    free(logits);
  }
}

/* A row's draw is its own: batch and place do not matter, seed and position do. */
static void draws_do_not_depend_on_the_batch(void **state)
{
  (void)state;
  enum { V = 1000, ROWS = 6 };
  uint64_t draw = 5;
  float *logits = take(ROWS * V * sizeof *logits);
  for (int i = 0; i < V; ++i) logits[i] = (float)draw_normal(&draw);
  for (int r = 1; r < ROWS; ++r) memcpy(logits + r * V, logits, V * sizeof *logits);
  const float temperature[ROWS] = {1, 1, 1, 1, 1, 0};
  const uint64_t seed[ROWS] = {9, 10, 9, 9, 9, 9};
  const int32_t position[ROWS] = {4, 4, 5, 4, 4, 4};
  int32_t token[ROWS];
  const struct kc_op_sample op = {.rows = ROWS, .vocabulary = V, .logits = logits,
                                  .logits_stride = V, .temperature = temperature, .seed = seed,
                                  .position = position, .token = token};
  assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
  assert_int_equal(token[0], token[3]);
  assert_int_equal(token[0], token[4]);
  assert_int_not_equal(token[0], token[1]);
  assert_int_not_equal(token[0], token[2]);
  for (int i = 0; i < V; ++i) assert_true(logits[token[5]] >= logits[i]);
  free(logits);
}

static void masked_rows_yield_no_token(void **state)
{
  (void)state;
  enum { V = 8, ROWS = 4 };
  float *logits = take(ROWS * V * sizeof *logits);
  const uint32_t slot[ROWS] = {2, 0, KC_NO_SLOT, 1};
  const uint32_t verdict[3] = {KC_VERDICT_CLEAR, 0, 12};
  int32_t token[ROWS];
  struct kc_op_sample op = {.rows = ROWS, .vocabulary = V, .logits = logits, .logits_stride = V,
                            .slot = slot, .verdict = verdict, .token = token};
  assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
  static const int32_t want[ROWS] = {-1, 0, -1, -1};
  assert_memory_equal(token, want, sizeof want);
  op.verdict = NULL;
  assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
  static const int32_t unchecked[ROWS] = {0, 0, -1, 0};
  assert_memory_equal(token, unchecked, sizeof unchecked);
  free(logits);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greedy_takes_the_lowest_of_the_largest),
      cmocka_unit_test(draws_follow_the_softmax),
      cmocka_unit_test(draws_do_not_depend_on_the_batch),
      cmocka_unit_test(masked_rows_yield_no_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
