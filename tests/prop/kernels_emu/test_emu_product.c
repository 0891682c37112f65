/* Products in the emulator against the reference: every weight format and layout, FP8 by FP8,
 * splits of k, a product per head, a product per expert with gathered rows; INT4 as bf16. Ragged
 * sizes throughout.
 * timeout: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu_support.h"
#include "kernels/cuda/int4_pack.h"
#include "kernels/formats/bf16.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_tolerance.h"

enum kind { BF16, FP8, FP8_FP8, INT4_G32, INT4_G128, KINDS };

static const enum kc_weight_format format_of[KINDS] = {
    KC_WEIGHT_BF16, KC_WEIGHT_FP8, KC_WEIGHT_FP8, KC_WEIGHT_INT4_G32, KC_WEIGHT_INT4_G128};
static const double nmse_of[KINDS] = {KC_TOL_GEMM_BF16_NMSE, KC_TOL_GEMM_FP8_NMSE,
                                      KC_TOL_GEMM_FP8_NMSE, KC_TOL_W4A16_NMSE, KC_TOL_W4A16_NMSE};

/* `count` matrices of rows x cols, one behind the other. */
static struct kc_weight make_weight(struct lab *lab, enum kind kind, uint32_t rows, uint32_t cols,
                                    uint32_t count)
{
  struct kc_weight weight = {.format = format_of[kind], .rows = rows, .cols = cols};
  const uint64_t elements = (uint64_t)rows * cols * count;
  const uint32_t group = kc_int4_group(weight.format);
  if (group != 0) {
    uint8_t *data = lab_take(lab, elements / 2);
    uint16_t *scale = lab_bf16(lab, elements / group, 0.0f);
    for (uint64_t i = 0; i < elements / 2; ++i) data[i] = (uint8_t)lab_below(lab, 256);
    for (uint64_t i = 0; i < elements / group; ++i) {
      scale[i] = kc_bf16_encode(0.01f * (float)lab_between(lab, 1, 99));
    }
    weight.data = data;
    weight.scale_bf16 = scale;
  } else if (kind == BF16) {
    weight.data = lab_bf16(lab, elements, 1.0f);
  } else {
    float *scale = lab_take(lab, sizeof *scale);
    *scale = 0.37f;
    weight.data = lab_e4m3(lab, elements);
    weight.scale_f32 = scale;
  }
  return weight;
}

/* The same `count` matrices in fragment order. */
static struct kc_weight pack(struct lab *lab, const struct kc_weight *weight, uint32_t count)
{
  struct kc_weight packed = *weight, one = *weight;
  const uint64_t data_bytes = kc_int4_fragment_data_bytes(weight);
  const uint64_t scale_bytes = kc_int4_fragment_scale_bytes(weight);
  const uint64_t elements = (uint64_t)weight->rows * weight->cols;
  uint8_t *data = lab_take(lab, data_bytes * count);
  uint16_t *scale = lab_take(lab, scale_bytes * count);
  for (uint32_t i = 0; i < count; ++i) {
    one.data = (const uint8_t *)weight->data + i * elements / 2;
    one.scale_bf16 = weight->scale_bf16 + i * elements / kc_int4_group(weight->format);
    kc_int4_fragment_pack(&one, data + i * data_bytes, scale + i * scale_bytes / 2);
  }
  packed.layout = KC_LAYOUT_FRAGMENT;
  packed.data = data;
  packed.scale_bf16 = scale;
  return packed;
}

static void take_output(struct lab *lab, struct kc_op_gemm *op, const float *old)
{
  const uint64_t count = op->rows * op->out_stride;
  op->out = lab_take(lab, count * 4);
  for (uint64_t i = 0; i < count; ++i) {
    if (op->out_type == KC_DTYPE_F32) ((float *)op->out)[i] = old[i];
    else ((uint16_t *)op->out)[i] = kc_bf16_encode(old[i]);
  }
}

static void run_gemm(uint64_t seed)
{
  struct lab lab;
  lab_begin(&lab, seed);
  const enum kind kind = (enum kind)(seed % KINDS);
  static const uint32_t rows_of[] = {1, 3, 8, 9, 16, 27, 40, 70};
  const bool deep = lab_below(&lab, 4) == 0; /* deep enough to be split */
  const uint32_t unit = kind == INT4_G128 ? 128 : 32;
  const uint32_t rows = deep ? lab_between(&lab, 1, 10) : rows_of[lab_below(&lab, 8)];
  const uint32_t k = deep ? 2048 + 1024 * lab_below(&lab, 2)
                          : unit * lab_between(&lab, 1, 6 * lab_scale());
  const uint32_t n = deep ? 16 * lab_between(&lab, 1, 3 * lab_scale())
                          : lab_between(&lab, 1, 150 * lab_scale());
  struct kc_op_gemm op = {.rows = rows,
                          .x_type = kind == FP8_FP8 ? KC_DTYPE_E4M3 : KC_DTYPE_BF16,
                          .x_stride = k + 16,
                          .out_type = lab_below(&lab, 3) == 0 ? KC_DTYPE_F32 : KC_DTYPE_BF16,
                          .out_stride = (n + 15) / 8 * 8,
                          .add = lab_below(&lab, 3) == 0};
  op.weight = make_weight(&lab, kind, n, k, 1);
  if (kind == FP8_FP8) {
    op.x = lab_e4m3(&lab, rows * op.x_stride);
    float *x_scale = lab_take(&lab, rows * sizeof *x_scale);
    for (uint32_t i = 0; i < rows; ++i) x_scale[i] = 0.1f + 0.01f * (float)lab_below(&lab, 90);
    op.x_scale = x_scale;
  } else {
    op.x = lab_bf16(&lab, rows * op.x_stride, 1.0f);
  }
  const float *old = lab_f32(&lab, rows * op.out_stride, 3.0f);
  struct kc_op_gemm oracle = op;
  take_output(&lab, &op, old);
  take_output(&lab, &oracle, old);
  const bool packed = kc_int4_group(op.weight.format) != 0 && lab_below(&lab, 4) != 0;
  if (packed) op.weight = pack(&lab, &op.weight, 1);
  op.workspace_bytes = lab.under_test->gemm_workspace_bytes(lab.context, &op);
  op.workspace = lab_take(&lab, op.workspace_bytes);
  LAB_RUN(&lab, gemm, &op, &oracle);
  struct lab_matrix shape = {rows, n, op.out_stride, nmse_of[kind], 0};
  if (op.out_type == KC_DTYPE_F32) {
    shape.nmse = KC_TOL_GEMM_F32_NMSE;
    lab_close_f32(&lab, "product", op.out, oracle.out, &shape);
  } else {
    lab_close_bf16(&lab, "product", op.out, oracle.out, &shape);
  }
  lab_end(&lab);
}

static void test_gemm(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 3 * lab_seeds(); ++seed) run_gemm(seed);
}

static void run_heads(uint64_t seed)
{
  struct lab lab;
  lab_begin(&lab, seed);
  struct kc_op_head_gemm op = {.rows = lab_between(&lab, 1, 20),
                               .heads = lab_between(&lab, 1, 5),
                               .n = 16 * lab_between(&lab, 1, 6),
                               .k = 16 * lab_between(&lab, 1, 10)};
  op.x_head_stride = op.k + 8 * lab_below(&lab, 3);
  op.x_stride = op.heads * op.x_head_stride;
  op.out_head_stride = op.n + 8 * lab_below(&lab, 3);
  op.out_stride = op.heads * op.out_head_stride;
  op.x = lab_bf16(&lab, op.rows * op.x_stride, 1.0f);
  op.weight = lab_bf16(&lab, (uint64_t)op.heads * op.n * op.k, 1.0f);
  struct kc_op_head_gemm oracle = op;
  op.out = lab_take(&lab, op.rows * op.out_stride * 2);
  oracle.out = lab_take(&lab, op.rows * op.out_stride * 2);
  memset(op.out, 0, op.rows * op.out_stride * 2);
  memset(oracle.out, 0, op.rows * op.out_stride * 2);
  LAB_RUN(&lab, head_gemm, &op, &oracle);
  const struct lab_matrix shape = {op.rows, op.out_stride, op.out_stride, KC_TOL_GEMM_BF16_NMSE, 0};
  lab_close_bf16(&lab, "product per head", op.out, oracle.out, &shape);
  lab_end(&lab);
}

static void test_heads(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_heads(seed);
}

static void run_groups(uint64_t seed)
{
  struct lab lab;
  lab_begin(&lab, seed);
  const enum kind kinds[] = {BF16, INT4_G32, INT4_G128};
  const enum kind kind = kinds[seed % 3];
  const uint32_t experts = lab_between(&lab, 1, 6), rows = lab_between(&lab, 1, 20);
  const uint32_t n = lab_between(&lab, 1, 70), k = 128 * lab_between(&lab, 1, 2);
  uint32_t *first = lab_take(&lab, (experts + 1) * sizeof *first);
  first[0] = 0;
  for (uint32_t e = 0; e < experts; ++e) first[e + 1] = first[e] + lab_below(&lab, 24);
  const uint32_t positions = first[experts] + lab_below(&lab, 3);
  int32_t *source = lab_take(&lab, (positions + 1) * sizeof *source);
  for (uint32_t i = 0; i < positions; ++i) source[i] = (int32_t)lab_below(&lab, rows);
  const bool gathered = lab_below(&lab, 3) != 0;
  struct kc_op_grouped_gemm op = {.experts = experts,
                                  .positions = positions,
                                  .first = first,
                                  .source = gathered ? source : NULL,
                                  .x_stride = k,
                                  .out_stride = (n + 7) / 8 * 8};
  op.x = lab_bf16(&lab, (uint64_t)(gathered ? rows : positions + 1) * k, 1.0f);
  op.weight = make_weight(&lab, kind, n, k, experts);
  const uint32_t group = kc_int4_group(op.weight.format);
  op.data_stride_bytes = group != 0 ? (uint64_t)n * k / 2 : (uint64_t)n * k * 2;
  op.scale_stride_bytes = group != 0 ? (uint64_t)n * k / group * 2 : 0;
  struct kc_op_grouped_gemm oracle = op;
  const uint64_t bytes = (positions + 1) * op.out_stride * 2;
  op.out = memset(lab_take(&lab, bytes), 0, bytes);
  oracle.out = memset(lab_take(&lab, bytes), 0, bytes);
  if (group != 0 && lab_below(&lab, 3) != 0) {
    op.weight = pack(&lab, &op.weight, experts);
    op.data_stride_bytes = kc_int4_fragment_data_bytes(&op.weight);
    op.scale_stride_bytes = kc_int4_fragment_scale_bytes(&op.weight);
  }
  LAB_RUN(&lab, grouped_gemm, &op, &oracle);
  const struct lab_matrix shape = {positions, op.out_stride, op.out_stride, nmse_of[kind], 0};
  lab_close_bf16(&lab, "product per expert", op.out, oracle.out, &shape);
  lab_end(&lab);
}

static void test_groups(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= lab_seeds(); ++seed) run_groups(seed);
}

/* Rows of a matrix as bf16, bit for bit; nothing is written behind them. */
static void run_dequantise(uint64_t seed)
{
  struct lab lab;
  lab_begin(&lab, seed);
  const enum kind kind = seed % 2 == 0 ? INT4_G32 : INT4_G128;
  const uint32_t unit = kind == INT4_G128 ? 128 : 32;
  const uint32_t n = lab_between(&lab, 1, 90), k = unit * lab_between(&lab, 1, 9);
  struct kc_op_dequantise op = {.first = 16 * lab_below(&lab, (n + 15) / 16)};
  op.rows = lab_between(&lab, 1, n - op.first);
  op.weight = make_weight(&lab, kind, n, k, 1);
  struct kc_op_dequantise oracle = op;
  const uint64_t bytes = (op.rows + 16ull) * k * 2; /* a tile more: 0xff where nothing was put */
  op.out = lab_take(&lab, bytes);
  oracle.out = lab_take(&lab, bytes);
  if (lab_below(&lab, 3) != 0) op.weight = pack(&lab, &op.weight, 1);
  LAB_RUN(&lab, dequantise, &op, &oracle);
  lab_same(&lab, "weights as bf16", op.out, oracle.out, bytes);
  lab_end(&lab);
}

static void test_dequantise(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 3 * lab_seeds(); ++seed) run_dequantise(seed);
}

/* Too little workspace is refused before anything is written. */
static void test_workspace(void **state)
{
  (void)state;
  struct lab lab;
  lab_begin(&lab, 5);
  struct kc_op_gemm op = {.rows = 1, .x_stride = 4096, .out_stride = 16};
  op.weight = make_weight(&lab, BF16, 16, 4096, 1);
  op.x = lab_bf16(&lab, 4096, 1.0f);
  op.out = lab_take(&lab, 32);
  assert_true(lab.under_test->gemm_workspace_bytes(lab.context, &op) > 0);
  assert_int_equal(lab.under_test->gemm(lab.context, &op), KC_OP_MEMORY);
  lab_end(&lab);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gemm), cmocka_unit_test(test_heads),
                                     cmocka_unit_test(test_groups),
                                     cmocka_unit_test(test_dequantise),
                                     cmocka_unit_test(test_workspace)};
  return cmocka_run_group_tests_name("emulated products", tests, NULL, NULL);
}
