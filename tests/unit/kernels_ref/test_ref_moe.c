/* Routing against hand-worked rows and a second implementation that sorts; the permutation and the
 * sum of experts against loops over (row, choice). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops/op_tolerance.h"
#include "kernels/ref/ref.h"
#include "op_random.h"

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

/* logits 1 3 2 3: the softmax's two largest are experts 1 and 3, in this order, equal. */
static void softmax_by_hand(void **state)
{
  (void)state;
  const float logits[4] = {1, 3, 2, 3};
  int32_t expert[2];
  float weight[2];
  struct kc_op_route op = {1, 4, 2, 1, 1, KC_ROUTE_SOFTMAX, false, 1.0f, logits, 4, NULL,
                           expert, weight};
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  const double sum = exp(1) + 2 * exp(3) + exp(2);
  assert_int_equal(expert[0], 1);
  assert_int_equal(expert[1], 3);
  assert_true(fabs((double)weight[0] - exp(3) / sum) < 1e-7);
  op.normalise = true, op.factor = 2.5f;
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  assert_true(fabsf(weight[0] - 1.25f) < 1e-6f && weight[0] == weight[1]);
}

/* The bias decides who is chosen and is not in the weight (DeepSeek-V3, section 2.1.2). */
static void bias_chooses_but_does_not_weigh(void **state)
{
  (void)state;
  const float logits[4] = {2, 1, 0, -1}, bias[4] = {-5, 0, 0, 5};
  int32_t expert[2];
  float weight[2];
  const struct kc_op_route op = {1, 4, 2, 1, 1, KC_ROUTE_SIGMOID, false, 1.0f, logits, 4, bias,
                                 expert, weight};
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  assert_int_equal(expert[0], 3);
  assert_int_equal(expert[1], 1);
  assert_true(fabs((double)weight[0] - sigmoid(-1)) < 1e-7);
  assert_true(fabs((double)weight[1] - sigmoid(1)) < 1e-7);
}

/* Groups {0 1} {2 3} {4 5}: by the sum of two, group 1 (0.6 + 0.6) beats group 0 (0.9 + 0.1), by
 * the highest alone group 0 wins. Without bias the highest decides, with it the sum. */
static void groups_are_ranked(void **state)
{
  (void)state;
  const double score[6] = {0.9, 0.1, 0.6, 0.6, 0.2, 0.2};
  float logits[6];
  const float bias[6] = {0};
  for (int i = 0; i < 6; ++i) logits[i] = (float)log(score[i] / (1 - score[i]));
  int32_t expert[2];
  float weight[2];
  struct kc_op_route op = {1, 6, 2, 3, 1, KC_ROUTE_SIGMOID, true, 1.0f, logits, 6, bias,
                           expert, weight};
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  assert_int_equal(expert[0], 2);
  assert_int_equal(expert[1], 3);
  op.bias = NULL;
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  assert_int_equal(expert[0], 0);
  assert_int_equal(expert[1], 1);
  assert_true(fabs((double)weight[1] - 0.1) < 1e-6);
}

struct ranked {
  double choice;
  uint32_t index;
};

static int by_rank(const void *a, const void *b)
{
  const struct ranked *x = a, *y = b;
  if (x->choice != y->choice) return x->choice > y->choice ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

/* The same rule by sorting: groups by score, experts of the kept groups by choice. */
static void route_by_sorting(const struct kc_op_route *op, const float *logits, int32_t *expert,
                             double *weight)
{
  struct ranked group[64], all[512];
  double score[512], sum = 0, total = 0;
  const uint32_t size = op->experts / op->groups;
  for (uint32_t e = 0; e < op->experts; ++e) sum += exp((double)logits[e]);
  for (uint32_t e = 0; e < op->experts; ++e) {
    const double x = (double)logits[e];
    score[e] = op->score == KC_ROUTE_SOFTMAX ? exp(x) / sum : sigmoid(x);
    all[e] = (struct ranked){score[e] + (op->bias != NULL ? (double)op->bias[e] : 0), e};
  }
  for (uint32_t g = 0; g < op->groups; ++g) {
    qsort(all + g * size, size, sizeof all[0], by_rank);
    group[g] = (struct ranked){all[g * size].choice, g};
    if (op->bias != NULL && size > 1) group[g].choice += all[g * size + 1].choice;
  }
  qsort(group, op->groups, sizeof group[0], by_rank);
  struct ranked kept[512];
  uint32_t count = 0;
  for (uint32_t g = 0; g < op->groups_top; ++g) {
    for (uint32_t i = 0; i < size; ++i) kept[count++] = all[group[g].index * size + i];
  }
  qsort(kept, count, sizeof kept[0], by_rank);
  for (uint32_t i = 0; i < op->top; ++i) {
    expert[i] = (int32_t)kept[i].index;
    weight[i] = score[kept[i].index];
    total += weight[i];
  }
  for (uint32_t i = 0; i < op->top; ++i) {
    weight[i] *= (double)op->factor / (op->normalise ? total : 1);
  }
}

static void routing_equals_sorting(void **state)
{
  (void)state;
  static const struct {
    uint32_t experts, top, groups, groups_top;
    enum kc_route_score score;
    bool normalise, bias;
    float factor;
  } cases[] = {
      {256, 8, 8, 4, KC_ROUTE_SIGMOID, true, true, 2.5f},   /* DeepSeek-V3 */
      {384, 8, 1, 1, KC_ROUTE_SIGMOID, true, true, 2.827f}, /* Kimi K2 */
      {160, 6, 8, 3, KC_ROUTE_SOFTMAX, false, false, 16.0f}, /* DeepSeek-V2 */
      {128, 8, 1, 1, KC_ROUTE_SOFTMAX, true, false, 1.0f},  /* Qwen3 */
      {8, 2, 1, 1, KC_ROUTE_SOFTMAX, true, false, 1.0f},    /* Mixtral */
      {12, 12, 12, 12, KC_ROUTE_SIGMOID, false, true, 1.0f},
      {1, 1, 1, 1, KC_ROUTE_SOFTMAX, true, false, 1.0f},
  };
  uint64_t seed = 41;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
    enum { ROWS = 20 };
    float logits[512 * ROWS], bias[512], weight[16 * ROWS];
    int32_t expert[16 * ROWS], want_expert[16];
    double want[16];
    for (int i = 0; i < 512 * ROWS; ++i) logits[i] = (float)(2 * draw_normal(&seed));
    for (int i = 0; i < 512; ++i) bias[i] = (float)(0.1 * draw_normal(&seed));
    const struct kc_op_route op = {ROWS, cases[c].experts, cases[c].top, cases[c].groups,
                                   cases[c].groups_top, cases[c].score, cases[c].normalise,
                                   cases[c].factor, logits, 512, cases[c].bias ? bias : NULL,
                                   expert, weight};
    assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
    for (uint32_t r = 0; r < ROWS; ++r) {
      route_by_sorting(&op, logits + r * 512, want_expert, want);
      for (uint32_t i = 0; i < op.top; ++i) {
        assert_int_equal(expert[r * op.top + i], want_expert[i]);
        const double wrong = fabs((double)weight[r * op.top + i] - want[i]);
        assert_true(wrong <= 1e-6 * want[i]);
      }
    }
  }
}

static void nan_is_never_chosen_first(void **state)
{
  (void)state;
  const float logits[4] = {NAN, 1, NAN, 2};
  int32_t expert[3];
  float weight[3];
  const struct kc_op_route op = {1, 4, 3, 1, 1, KC_ROUTE_SOFTMAX, true, 1.0f, logits, 4, NULL,
                                 expert, weight};
  assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
  assert_int_equal(expert[0], 3);
  assert_int_equal(expert[1], 1);
  assert_int_equal(expert[2], 0);
  assert_true(weight[2] == 0.0f);
}

/* Rows 0 .. 3 choose (2 0) (2 1) (0 2) (3 1); this rank has experts 1 and 2. */
static void sorting_by_hand(void **state)
{
  (void)state;
  const int32_t expert[8] = {2, 0, 2, 1, 0, 2, 3, 1};
  uint32_t first[3];
  int32_t source[8], place[8];
  const struct kc_op_moe_sort op = {4, 2, 2, 1, expert, first, source, place};
  assert_int_equal(kc_ref_ops()->moe_sort(NULL, &op), KC_OP_OK);
  static const uint32_t want_first[3] = {0, 2, 5};
  static const int32_t want_source[8] = {1, 3, 0, 1, 2, -1, -1, -1};
  static const int32_t want_place[8] = {2, -1, 3, 0, -1, 4, -1, 1};
  assert_memory_equal(first, want_first, sizeof first);
  assert_memory_equal(source, want_source, sizeof source);
  assert_memory_equal(place, want_place, sizeof place);
}

static void combining_by_loops(void **state)
{
  (void)state;
  enum { ROWS = 5, TOP = 3, WIDTH = 24, PLACES = 11 };
  uint64_t seed = 2;
  uint16_t *y = take_bf16(PLACES * WIDTH, &seed, 1.0), *base = take_bf16(ROWS * WIDTH, &seed, 1.0);
  uint16_t *out = take(ROWS * WIDTH * 2);
  int32_t place[ROWS * TOP];
  float weight[ROWS * TOP];
  for (int i = 0; i < ROWS * TOP; ++i) {
    place[i] = (int32_t)draw_below(&seed, PLACES + 1) - 1;
    weight[i] = (float)draw_normal(&seed);
  }
  for (int with_base = 0; with_base < 2; ++with_base) {
    const struct kc_op_moe_combine op = {ROWS, TOP, WIDTH, y, WIDTH, place, weight,
                                         with_base != 0 ? base : NULL, WIDTH, out, WIDTH};
    assert_int_equal(kc_ref_ops()->moe_combine(NULL, &op), KC_OP_OK);
    double want[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; ++i) {
      want[i] = with_base != 0 ? value_of(base[i]) : 0;
      for (int c = i / WIDTH * TOP; c < (i / WIDTH + 1) * TOP; ++c) {
        if (place[c] < 0) continue;
        want[i] += (double)weight[c] * value_of(y[place[c] * WIDTH + i % WIDTH]);
      }
    }
    assert_true(nmse_bf16(out, want, ROWS * WIDTH) < KC_TOL_NORM_NMSE);
  }
  free(y), free(base), free(out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_by_hand),        cmocka_unit_test(bias_chooses_but_does_not_weigh),
      cmocka_unit_test(groups_are_ranked),      cmocka_unit_test(routing_equals_sorting),
      cmocka_unit_test(nan_is_never_chosen_first), cmocka_unit_test(sorting_by_hand),
      cmocka_unit_test(combining_by_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
