/* The reference against vectors that others computed: ONNX's node tests (Debian's
 * libonnx-testdata). Skipped where the package is not installed.
 *
 * The vectors are FP32 and our operations take bf16, so inputs are split into three bf16 pieces
 * whose sum is the FP32 value (products), or the comparison allows bf16's rounding (norms). The
 * vectors' own bf16 conversions are truncations and are not used.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ref/ref.h"
#include "onnx_tensor.h"
#include "op_random.h"

enum { TOP = 16 };

/* Softmax or sigmoid of each row through the router, whose weights are the scores. */
static void expect_scores(const char *node, enum kc_route_score score, double shift)
{
  static struct onnx_tensor x, y;
  onnx_read(&x, node, "input_0");
  onnx_read(&y, node, "output_0");
  const uint32_t width = x.dims[x.dim_count - 1], rows = x.count / width;
  assert_true(width <= TOP);
  float logits[ONNX_ELEMENTS_MAX], weight[TOP];
  int32_t expert[TOP];
  for (uint32_t i = 0; i < x.count; ++i) logits[i] = (float)(x.value[i] + shift);
  for (uint32_t r = 0; r < rows; ++r) {
    const struct kc_op_route op = {1, width, width, 1, 1, score, false, 1.0f, logits + r * width,
                                   width, NULL, expert, weight};
    assert_int_equal(kc_ref_ops()->route(NULL, &op), KC_OP_OK);
    for (uint32_t i = 0; i < width; ++i) {
      const double want = y.value[r * width + (uint32_t)expert[i]];
      assert_true(fabs((double)weight[i] - want) <= 1e-6 * (1 + want));
      if (i > 0) assert_true(weight[i] <= weight[i - 1]);
    }
  }
}

static void softmax_vectors(void **state)
{
  (void)state;
  expect_scores("test_softmax_example", KC_ROUTE_SOFTMAX, 0);
  expect_scores("test_softmax_axis_2", KC_ROUTE_SOFTMAX, 0);
  expect_scores("test_softmax_default_axis", KC_ROUTE_SOFTMAX, 0);
  expect_scores("test_softmax_negative_axis", KC_ROUTE_SOFTMAX, 0);
  expect_scores("test_softmax_large_number", KC_ROUTE_SOFTMAX, 0);
  expect_scores("test_softmax_axis_2", KC_ROUTE_SOFTMAX, 16); /* invariant to a shift */
}

static void sigmoid_vectors(void **state)
{
  (void)state;
  expect_scores("test_sigmoid_example", KC_ROUTE_SIGMOID, 0);
  expect_scores("test_sigmoid", KC_ROUTE_SIGMOID, 0);
}

/* x = piece 0 + piece 1 + piece 2, exactly: 3 x 8 bits. */
static uint16_t piece(double x, int index)
{
  for (int i = 0; i < index; ++i) x -= value_of(code_of(x));
  return code_of(x);
}

/* a [m][k] times b [k][n]; k becomes 9 k: every piece of a against every piece of b. */
static void expect_product(const double *a, const double *b, const double *want, uint32_t m,
                           uint32_t k, uint32_t n)
{
  const uint32_t wide = (9 * k + 31) / 32 * 32, out_stride = (n + 7) / 8 * 8;
  uint16_t *x = take((size_t)m * wide * 2), *w = take((size_t)n * wide * 2);
  float *out = take((size_t)m * out_stride * sizeof *out);
  for (uint32_t i = 0; i < 9 * k; ++i) {
    for (uint32_t r = 0; r < m; ++r) x[r * wide + i] = piece(a[r * k + i / 9], (int)(i % 9 / 3));
    for (uint32_t c = 0; c < n; ++c) w[c * wide + i] = piece(b[i / 9 * n + c], (int)(i % 3));
  }
  const struct kc_op_gemm op = {
      .rows = m, .x_type = KC_DTYPE_BF16, .x = x, .x_stride = wide,
      .weight = {.format = KC_WEIGHT_BF16, .rows = n, .cols = wide, .data = w},
      .out_type = KC_DTYPE_F32, .out = out, .out_stride = out_stride};
  assert_int_equal(kc_ref_ops()->gemm(NULL, &op), KC_OP_OK);
  for (uint32_t i = 0; i < m * n; ++i) {
    const double got = (double)out[i / n * out_stride + i % n];
    assert_true(fabs(got - want[i]) <= 2e-6 * (1 + fabs(want[i]))); /* the vectors are FP32 */
  }
  free(x), free(w), free(out);
}

static void matmul_vectors(void **state)
{
  (void)state;
  static const char *const nodes[] = {"test_matmul_2d", "test_matmul_3d", "test_matmul_4d"};
  static struct onnx_tensor a, b, y;
  for (int i = 0; i < 3; ++i) {
    onnx_read(&a, nodes[i], "input_0");
    onnx_read(&b, nodes[i], "input_1");
    onnx_read(&y, nodes[i], "output_0");
    const uint32_t m = a.dims[a.dim_count - 2], k = a.dims[a.dim_count - 1];
    const uint32_t n = b.dims[b.dim_count - 1], batch = a.count / (m * k);
    for (uint32_t j = 0; j < batch; ++j) {
      expect_product(a.value + j * m * k, b.value + j * k * n, y.value + j * m * n, m, k, n);
    }
  }
}

/* LayerNorm(x) = RMSNorm(x - mean) + bias. Rows are padded with zeros to a multiple of 8; x grows
 * and the weight shrinks by sqrt(padded / width), so that the mean square stays that of the row. */
static void expect_layer_norm(const char *node, float epsilon)
{
  static struct onnx_tensor x, scale, bias, y;
  onnx_read(&x, node, "input_0");
  onnx_read(&scale, node, "input_1");
  onnx_read(&bias, node, "input_2");
  onnx_read(&y, node, "output_0");
  const uint32_t width = scale.count, rows = x.count / width, padded = (width + 7) / 8 * 8;
  const double grow = sqrt((double)padded / width);
  uint16_t *in = take(padded * 2), *w = take(padded * 2), *out = take(padded * 2);
  double wrong = 0, all = 0;
  for (uint32_t i = 0; i < width; ++i) w[i] = code_of(scale.value[i] / grow);
  for (uint32_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (uint32_t i = 0; i < width; ++i) mean += x.value[r * width + i] / width;
    for (uint32_t i = 0; i < width; ++i) in[i] = code_of((x.value[r * width + i] - mean) * grow);
    const struct kc_op_rms_norm op = {1, padded, 0, 0, in, padded, NULL, 0, w, epsilon, out,
                                      padded};
    assert_int_equal(kc_ref_ops()->rms_norm(NULL, &op), KC_OP_OK);
    for (uint32_t i = 0; i < width; ++i) {
      const double want = y.value[r * width + i] - bias.value[i];
      wrong += pow(value_of(out[i]) - want, 2);
      all += want * want;
    }
  }
  if (!(wrong / all < 1.5e-5)) fail_msg("%s: nmse %g", node, wrong / all); /* three roundings */
  free(in), free(w), free(out);
}

static void layer_normalisation_vectors(void **state)
{
  (void)state;
  expect_layer_norm("test_layer_normalization_2d_axis1", 1e-5f);
  expect_layer_norm("test_layer_normalization_4d_axis3", 1e-5f);
  expect_layer_norm("test_layer_normalization_4d_axis1", 1e-5f);
  expect_layer_norm("test_layer_normalization_default_axis", 1e-5f);
  expect_layer_norm("test_layer_normalization_3d_axis2_epsilon", 0.1f);
}

static void expect_argmax(const char *node)
{
  static struct onnx_tensor x, y;
  onnx_read(&x, node, "input_0");
  onnx_read(&y, node, "output_0");
  const uint32_t width = x.dims[x.dim_count - 1], rows = x.count / width;
  float *logits = take(rows * 8 * sizeof *logits);
  assert_true(width <= 8 && y.count == rows);
  for (uint32_t i = 0; i < x.count; ++i) logits[i / width * 8 + i % width] = (float)x.value[i];
  int32_t token[64];
  assert_true(rows <= 64);
  const struct kc_op_sample op = {.rows = rows, .vocabulary = width, .logits = logits,
                                  .logits_stride = 8, .token = token};
  assert_int_equal(kc_ref_ops()->sample(NULL, &op), KC_OP_OK);
  for (uint32_t r = 0; r < rows; ++r) assert_int_equal(token[r], (int)y.value[r]);
  free(logits);
}

static void argmax_vectors(void **state)
{
  (void)state;
  expect_argmax("test_argmax_negative_axis_keepdims_random");
  expect_argmax("test_argmax_negative_axis_keepdims_example");
}

static void gather_vectors(void **state)
{
  (void)state;
  static struct onnx_tensor data, index, y;
  onnx_read(&data, "test_gather_0", "input_0");
  onnx_read(&index, "test_gather_0", "input_1");
  onnx_read(&y, "test_gather_0", "output_0");
  const uint32_t width = data.count / data.dims[0];
  assert_int_equal(width % 8, 0);
  uint16_t *source = take(data.count * 2), *out = take(y.count * 2);
  int32_t rows[64];
  for (uint32_t i = 0; i < data.count; ++i) source[i] = code_of(data.value[i]);
  for (uint32_t i = 0; i < index.count; ++i) rows[i] = (int32_t)index.value[i];
  const struct kc_op_gather op = {index.count, width, source, data.dims[0], width, rows,
                                  out,         width};
  assert_int_equal(kc_ref_ops()->gather(NULL, &op), KC_OP_OK);
  for (uint32_t i = 0; i < y.count; ++i) assert_int_equal(out[i], code_of(y.value[i]));
  free(source), free(out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_vectors),  cmocka_unit_test(sigmoid_vectors),
      cmocka_unit_test(matmul_vectors),   cmocka_unit_test(layer_normalisation_vectors),
      cmocka_unit_test(argmax_vectors),   cmocka_unit_test(gather_vectors),
  };
  if (!onnx_installed()) return 77;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
