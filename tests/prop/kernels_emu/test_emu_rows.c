/* Operations on rows in the emulator against the reference: gather, RMSNorm, RoPE, row
 * quantisation, SwiGLU, sampling; routing, sorting and combining of experts.
 * timeout: 600
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu_support.h"
#include "kernels/cuda/kernels.h"
#include "kernels/formats/counter.h"
#include "kernels/ops/op_plan.h"
#include "kernels/ops/op_tolerance.h"

/* Runs `run` for every seed. */
static void each_seed(void (*run)(struct lab *lab))
{
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) {
    struct lab lab;
    lab_begin(&lab, seed);
    run(&lab);
    lab_end(&lab);
  }
}

static uint16_t *take_zeros(struct lab *lab, uint64_t count)
{
  return memset(lab_take(lab, count * 2), 0, count * 2);
}

static uint16_t *copy_bf16(struct lab *lab, const uint16_t *from, uint64_t count)
{
  return memcpy(lab_take(lab, count * 2), from, count * 2);
}

static void run_gather(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 9), width = 8 * lab_between(lab, 1, 400);
  int32_t *index = lab_take(lab, rows * sizeof *index);
  for (uint32_t i = 0; i < rows; ++i) index[i] = (int32_t)lab_below(lab, 9) - 1;
  struct kc_op_gather op = {.rows = rows,
                            .width = width,
                            .source = lab_bf16(lab, 7ull * width, 1.0f),
                            .source_rows = 7,
                            .source_stride = width,
                            .index = index,
                            .out_stride = width + 8};
  struct kc_op_gather oracle = op;
  op.out = take_zeros(lab, rows * op.out_stride);
  oracle.out = take_zeros(lab, rows * op.out_stride);
  LAB_RUN(lab, gather, &op, &oracle);
  lab_same(lab, "gathered", op.out, oracle.out, rows * op.out_stride * 2);
}

static void run_norm(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 6), width = 8 * lab_between(lab, 1, 600);
  const uint64_t stride = width + 8, count = rows * stride;
  struct kc_op_rms_norm op = {.rows = rows,
                              .width = width,
                              .x = lab_bf16(lab, count, 2.0f),
                              .x_stride = stride,
                              .residual_stride = stride,
                              .weight = lab_below(lab, 4) ? lab_bf16(lab, width, 1.0f) : NULL,
                              .epsilon = 1e-5f,
                              .out_stride = stride};
  struct kc_op_rms_norm oracle = op;
  if (lab_below(lab, 2) != 0) {
    op.residual = lab_bf16(lab, count, 3.0f);
    oracle.residual = copy_bf16(lab, op.residual, count);
  }
  op.out = take_zeros(lab, count);
  oracle.out = take_zeros(lab, count);
  if (lab_below(lab, 3) == 0) { /* in place */
    op.out = copy_bf16(lab, op.x, count);
    op.x = op.out;
  }
  LAB_RUN(lab, rms_norm, &op, &oracle);
  const struct lab_matrix shape = {rows, width, stride, KC_TOL_NORM_NMSE, 0};
  lab_close_bf16(lab, "normalised", op.out, oracle.out, &shape);
  if (op.residual != NULL) lab_same(lab, "residual", op.residual, oracle.residual, count * 2);
}

/* Heads of a row, as queries and keys are normed: gaps between them stay as they are. */
static void run_head_norm(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 4), heads = lab_between(lab, 2, 5);
  const uint32_t width = 8 * lab_between(lab, 1, 20);
  const uint64_t head_stride = width + 8ull * lab_below(lab, 2), stride = heads * head_stride + 16;
  const uint64_t count = rows * stride;
  struct kc_op_rms_norm op = {.rows = rows, .width = width, .heads = heads,
                              .head_stride = head_stride, .x = lab_bf16(lab, count, 2.0f),
                              .x_stride = stride, .weight = lab_bf16(lab, width, 1.0f),
                              .epsilon = 1e-5f, .out_stride = stride};
  struct kc_op_rms_norm oracle = op;
  op.out = take_zeros(lab, count);
  oracle.out = take_zeros(lab, count);
  LAB_RUN(lab, rms_norm, &op, &oracle);
  const struct lab_matrix shape = {rows, heads * head_stride, stride, KC_TOL_NORM_NMSE, 0};
  lab_close_bf16(lab, "normalised heads", op.out, oracle.out, &shape);
  for (uint64_t i = width; i < head_stride; ++i) {
    if (op.out[i] != 0) lab_fail(lab, "a gap between heads was written");
  }
}

static void run_rope(struct lab *lab)
{
  enum { POSITIONS = 700 };
  const uint32_t rows = lab_between(lab, 1, 6), dims = 8 * lab_between(lab, 1, 16);
  struct kc_op_rope op = {.rows = rows,
                          .heads = lab_between(lab, 1, 5),
                          .offset = 8 * lab_below(lab, 4),
                          .dims = dims,
                          .pairs = lab_below(lab, 2) ? KC_ROPE_HALF : KC_ROPE_INTERLEAVED,
                          .positions = POSITIONS};
  op.head_dim = op.offset + dims + 8 * lab_below(lab, 3);
  op.x_stride = op.heads * op.head_dim + 8;
  float *high = lab_take(lab, kc_rope_high_count(dims, POSITIONS) * sizeof *high);
  float *low = lab_take(lab, kc_rope_low_count(dims) * sizeof *low);
  double frequency[64];
  for (uint32_t i = 0; i < dims / 2; ++i) frequency[i] = pow(10000.0, -2.0 * i / dims);
  kc_rope_tables(high, low, frequency, dims, POSITIONS, 1.0);
  int32_t *position = lab_take(lab, rows * sizeof *position);
  for (uint32_t i = 0; i < rows; ++i) position[i] = (int32_t)lab_below(lab, POSITIONS + 2) - 1;
  op.high = high;
  op.low = low;
  op.position = position;
  struct kc_op_rope oracle = op;
  op.x = lab_bf16(lab, rows * op.x_stride, 1.0f);
  oracle.x = copy_bf16(lab, op.x, rows * op.x_stride);
  LAB_RUN(lab, rope, &op, &oracle);
  const struct lab_matrix shape = {rows, op.x_stride, op.x_stride, KC_TOL_ROPE_NMSE, 0};
  lab_close_bf16(lab, "rotated", op.x, oracle.x, &shape);
}

static void run_quantise(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 5), width = 16 * lab_between(lab, 1, 300);
  struct kc_op_quantise_rows op = {
      .rows = rows, .width = width, .x_stride = width + 8, .out_stride = width + 16};
  uint16_t *x = lab_bf16(lab, rows * op.x_stride, 50.0f);
  memset(x, 0, 2ull * width); /* a row of zeros */
  op.x = x;
  struct kc_op_quantise_rows oracle = op;
  const uint64_t bytes = rows * op.out_stride;
  op.out = lab_take(lab, bytes);
  oracle.out = lab_take(lab, bytes);
  op.scale = lab_take(lab, rows * sizeof *op.scale);
  oracle.scale = lab_take(lab, rows * sizeof *op.scale);
  LAB_RUN(lab, quantise_rows, &op, &oracle);
  lab_same(lab, "codes", op.out, oracle.out, bytes);
  lab_same(lab, "scales", op.scale, oracle.scale, rows * sizeof *op.scale);
}

static void run_swiglu(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 5), width = 8 * lab_between(lab, 1, 300);
  struct kc_op_swiglu op = {
      .rows = rows, .width = width, .x_stride = 2 * width + 8, .out_stride = width};
  op.x = lab_bf16(lab, rows * op.x_stride, 3.0f);
  struct kc_op_swiglu oracle = op;
  op.out = take_zeros(lab, rows * op.out_stride);
  oracle.out = take_zeros(lab, rows * op.out_stride);
  LAB_RUN(lab, swiglu, &op, &oracle);
  const struct lab_matrix shape = {rows, width, width, KC_TOL_NORM_NMSE, 0};
  lab_close_bf16(lab, "gated", op.out, oracle.out, &shape);
}

/* The score that the contract gives a token, in double. */
static double score_of(const struct kc_op_sample *op, uint32_t row, uint32_t token)
{
  const double logit = (double)op->logits[row * op->logits_stride + token];
  if (op->temperature == NULL || op->temperature[row] == 0.0f) return logit;
  const double u = (double)kc_sample_uniform(op->seed[row], op->position[row], token);
  return logit / (double)op->temperature[row] - log(-log(u));
}

static void run_sample(struct lab *lab)
{
  enum { ROWS = 6 };
  const uint32_t vocabulary = lab_between(lab, 1, 3000);
  struct kc_op_sample op = {
      .rows = ROWS, .vocabulary = vocabulary, .logits_stride = (vocabulary + 7) / 8 * 8};
  float *logits = lab_f32(lab, ROWS * op.logits_stride, 2.0f);
  for (uint32_t i = 0; i < vocabulary; ++i) logits[i] = (float)lab_below(lab, 3); /* many equals */
  const uint32_t nans = lab_below(lab, 2) ? vocabulary : 1; /* a row of them yields 0 */
  for (uint32_t i = 0; i < nans; ++i) logits[op.logits_stride + i] = NAN;
  op.logits = logits;
  uint32_t *slot = lab_take(lab, ROWS * sizeof *slot), *verdict = lab_take(lab, 4 * ROWS);
  float *temperature = lab_take(lab, ROWS * sizeof *temperature);
  uint64_t *seed = lab_take(lab, ROWS * sizeof *seed);
  int32_t *position = lab_take(lab, ROWS * sizeof *position);
  for (uint32_t i = 0; i < ROWS; ++i) {
    slot[i] = ROWS - 1 - i;
    verdict[i] = lab_below(lab, 4) == 0 ? 2 : KC_VERDICT_CLEAR;
    temperature[i] = i < 2 ? 0.0f : 0.5f * (float)lab_between(lab, 1, 3);
    seed[i] = kc_random_u64(&lab->random);
    position[i] = (int32_t)lab_below(lab, 1000);
  }
  if (lab_below(lab, 2) == 0) slot[5] = KC_NO_SLOT;
  op.slot = slot;
  op.verdict = verdict;
  op.temperature = temperature;
  op.seed = seed;
  op.position = position;
  struct kc_op_sample oracle = op;
  op.token = lab_take(lab, ROWS * sizeof *op.token);
  oracle.token = lab_take(lab, ROWS * sizeof *op.token);
  LAB_RUN(lab, sample, &op, &oracle);
  for (uint32_t i = 0; i < ROWS; ++i) {
    if (op.token[i] == oracle.token[i]) continue;
    assert_true(i >= 2 && op.token[i] >= 0 && oracle.token[i] >= 0);
    const double gap = score_of(&op, i, (uint32_t)oracle.token[i]) -
                       score_of(&op, i, (uint32_t)op.token[i]);
    assert_true(gap <= KC_TOL_SAMPLE_ABS);
  }
}

static void run_route(struct lab *lab)
{
  static const uint32_t experts_of[] = {4, 16, 60, 64, 256, 384};
  struct kc_op_route op = {.rows = lab_between(lab, 1, 9),
                           .experts = experts_of[lab_below(lab, 6)],
                           .groups = lab_below(lab, 2) ? 4 : 1,
                           .score = lab_below(lab, 2) ? KC_ROUTE_SIGMOID : KC_ROUTE_SOFTMAX,
                           .normalise = lab_below(lab, 2) != 0,
                           .factor = 2.5f};
  op.groups_top = op.groups == 1 ? 1 : lab_between(lab, 1, 4);
  const uint32_t candidates = op.experts / op.groups * op.groups_top;
  op.top = lab_between(lab, 1, candidates < 8 ? candidates : 8);
  op.logits_stride = op.experts + 3;
  float *logits = lab_f32(lab, op.rows * op.logits_stride, 1.5f);
  for (uint32_t e = 0; e < op.experts; ++e) logits[e] = (float)(e % 3); /* equals in row 0 */
  if (op.rows > 1) logits[op.logits_stride + 1] = NAN;
  op.logits = logits;
  if (lab_below(lab, 2) != 0) op.bias = lab_f32(lab, op.experts, 0.1f);
  struct kc_op_route oracle = op;
  const uint64_t count = (uint64_t)op.rows * op.top;
  op.expert = lab_take(lab, count * 4);
  oracle.expert = lab_take(lab, count * 4);
  op.weight = lab_take(lab, count * 4);
  oracle.weight = lab_take(lab, count * 4);
  LAB_RUN(lab, route, &op, &oracle);
  lab_same(lab, "experts", op.expert, oracle.expert, count * 4);
  const struct lab_matrix shape = {op.rows, op.top, op.top, 1e-9, KC_TOL_ROUTE_WEIGHT_ABS};
  lab_close_f32(lab, "weights", op.weight, oracle.weight, &shape);
}

static void run_sort(struct lab *lab)
{
  struct kc_op_moe_sort op = {.rows = lab_between(lab, 0, 40),
                              .top = lab_between(lab, 1, 8),
                              .experts = lab_between(lab, 1, 30),
                              .expert_first = lab_below(lab, 3) * 5};
  const uint64_t count = (uint64_t)op.rows * op.top;
  int32_t *expert = lab_take(lab, (count + 1) * 4);
  for (uint64_t i = 0; i < count; ++i) expert[i] = (int32_t)lab_below(lab, op.experts + 12);
  op.expert = expert;
  struct kc_op_moe_sort oracle = op;
  op.first = lab_take(lab, (op.experts + 1) * 4ull);
  oracle.first = lab_take(lab, (op.experts + 1) * 4ull);
  op.source = lab_take(lab, count * 4);
  oracle.source = lab_take(lab, count * 4);
  op.place = lab_take(lab, count * 4);
  oracle.place = lab_take(lab, count * 4);
  LAB_RUN(lab, moe_sort, &op, &oracle);
  lab_same(lab, "first", op.first, oracle.first, (op.experts + 1) * 4ull);
  lab_same(lab, "source", op.source, oracle.source, count * 4);
  lab_same(lab, "place", op.place, oracle.place, count * 4);
}

static void run_combine(struct lab *lab)
{
  const uint32_t rows = lab_between(lab, 1, 6), top = lab_between(lab, 1, 8);
  const uint32_t width = 8 * lab_between(lab, 1, 300);
  int32_t *place = lab_take(lab, 4ull * rows * top);
  for (uint32_t i = 0; i < rows * top; ++i) place[i] = (int32_t)lab_below(lab, 11) - 1;
  struct kc_op_moe_combine op = {.rows = rows,
                                 .top = top,
                                 .width = width,
                                 .y = lab_bf16(lab, 10ull * width, 1.0f),
                                 .y_stride = width,
                                 .place = place,
                                 .weight = lab_f32(lab, (uint64_t)rows * top, 1.0f),
                                 .base_stride = width,
                                 .out_stride = width};
  if (lab_below(lab, 2) != 0) op.base = lab_bf16(lab, (uint64_t)rows * width, 1.0f);
  struct kc_op_moe_combine oracle = op;
  op.out = take_zeros(lab, (uint64_t)rows * width);
  oracle.out = take_zeros(lab, (uint64_t)rows * width);
  LAB_RUN(lab, moe_combine, &op, &oracle);
  const struct lab_matrix shape = {rows, width, width, KC_TOL_NORM_NMSE, 0};
  lab_close_bf16(lab, "combined", op.out, oracle.out, &shape);
}

static void run_stream(struct lab *lab)
{
  const uint64_t words = 4ull * lab_between(lab, 1, 40000);
  uint32_t *from = lab_take(lab, 4 * words), *sum = lab_take(lab, 4), want = 0;
  for (uint64_t i = 0; i < words; ++i) want ^= from[i] = (uint32_t)kc_random_u64(&lab->random);
  *sum = 0;
  lab_expect(lab, lab_read_stream(lab, from, 4 * words, sum), "read_stream");
  if (*sum != want) lab_fail(lab, "stream of %llu words", (unsigned long long)words);
}

#define ROW_TEST(name)               \
  static void test_##name(void **state) \
  {                                  \
    (void)state;                     \
    each_seed(run_##name);           \
  }
ROW_TEST(gather)
ROW_TEST(norm)
ROW_TEST(head_norm)
ROW_TEST(rope)
ROW_TEST(quantise)
ROW_TEST(swiglu)
ROW_TEST(sample)
ROW_TEST(route)
ROW_TEST(sort)
ROW_TEST(combine)
ROW_TEST(stream)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_norm),
      cmocka_unit_test(test_head_norm),
      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_quantise),
      cmocka_unit_test(test_swiglu),
      cmocka_unit_test(test_sample),
      cmocka_unit_test(test_route),
      cmocka_unit_test(test_sort),
      cmocka_unit_test(test_combine),
      cmocka_unit_test(test_stream),
  };
  return cmocka_run_group_tests_name("emulated rows", tests, NULL, NULL);
}
