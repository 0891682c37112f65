/* Matrix products against three plain loops over dequantised weights, which the test unpacks by
 * itself; every weight format, ragged sizes, experts, heads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/quantise.h"
#include "kernels/ops/op_tolerance.h"
#include "kernels/ref/ref.h"
#include "op_random.h"

struct matrix {
  struct kc_weight weight;
  struct kc_quantised arrays;
  uint16_t *source;
};

static void matrix_make(struct matrix *m, enum kc_weight_format format, uint32_t rows,
                        uint32_t cols, uint64_t *seed)
{
  struct kc_quantised_sizes sizes;
  assert_true(kc_quantised_sizes(format, rows, cols, &sizes));
  m->source = take_bf16((size_t)rows * cols, seed, 0.05);
  m->arrays = (struct kc_quantised){take(sizes.data_bytes), take(4 * sizes.scale_f32_count),
                                    take(2 * sizes.scale_bf16_count), take(sizes.scale_u8_count)};
  assert_true(kc_quantise_weight(format, rows, cols, m->source, &m->arrays));
  m->weight = (struct kc_weight){format,
                                 KC_LAYOUT_ROWS,
                                 rows,
                                 cols,
                                 m->arrays.data,
                                 m->arrays.scale_f32,
                                 m->arrays.scale_bf16,
                                 m->arrays.scale_u8};
}

static void matrix_free(struct matrix *m)
{
  free(m->source), free(m->arrays.data), free(m->arrays.scale_f32);
  free(m->arrays.scale_bf16), free(m->arrays.scale_u8);
}

/* e2m1 values by table (OCP MX 1.0); scales by their definitions. */
static double weight_at(const struct kc_weight *w, uint32_t n, uint32_t k)
{
  static const double e2m1[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};
  const uint64_t at = (uint64_t)n * w->cols + k;
  const uint8_t *bytes = w->data;
  const unsigned nibble = k % 2 == 0 ? bytes[at / 2] % 16u : bytes[at / 2] / 16u;
  switch (w->format) {
    case KC_WEIGHT_BF16: return value_of(((const uint16_t *)w->data)[at]);
    case KC_WEIGHT_FP8: return (double)kc_e4m3_decode(bytes[at]) * (double)w->scale_f32[0];
    case KC_WEIGHT_FP8_BLOCK:
      return (double)kc_e4m3_decode(bytes[at]) *
             (double)w->scale_f32[n / 128 * ((w->cols + 127) / 128) + k / 128];
    case KC_WEIGHT_INT4_G32: return ((double)nibble - 8) * value_of(w->scale_bf16[at / 32]);
    case KC_WEIGHT_INT4_G64: return ((double)nibble - 8) * value_of(w->scale_bf16[at / 64]);
    case KC_WEIGHT_INT4_G128: return ((double)nibble - 8) * value_of(w->scale_bf16[at / 128]);
    case KC_WEIGHT_MXFP4: return e2m1[nibble] * ldexp(1.0, w->scale_u8[at / 32] - 127);
    default:
      return e2m1[nibble] * (double)kc_e4m3_decode(w->scale_u8[at / 16]) *
             (double)w->scale_f32[0];
  }
}

static double dot(const struct kc_weight *w, uint32_t n, const uint16_t *x)
{
  double sum = 0;
  for (uint32_t k = 0; k < w->cols; ++k) sum += value_of(x[k]) * weight_at(w, n, k);
  return sum;
}

static const enum kc_weight_format formats[] = {
    KC_WEIGHT_BF16,      KC_WEIGHT_FP8,   KC_WEIGHT_FP8_BLOCK, KC_WEIGHT_INT4_G32,
    KC_WEIGHT_INT4_G64,  KC_WEIGHT_INT4_G128, KC_WEIGHT_MXFP4, KC_WEIGHT_NVFP4};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static void every_format_multiplies(void **state)
{
  (void)state;
  static const uint32_t ms[] = {1, 8, 11};
  uint64_t seed = 6;
  for (int f = 0; f < FORMATS; ++f) {
    for (int i = 0; i < 3; ++i) {
      const uint32_t m = ms[i], n = 40 + (uint32_t)i * 97, k = 256;
      struct matrix w;
      matrix_make(&w, formats[f], n, k, &seed);
      uint16_t *x = take_bf16((size_t)m * (k + 8), &seed, 1.0), *out = take((size_t)m * 256 * 2);
      float *wide = take((size_t)m * 256 * 4);
      double *want = take((size_t)m * 256 * sizeof *want);
      struct kc_op_gemm op = {.rows = m, .x_type = KC_DTYPE_BF16, .x = x, .x_stride = k + 8,
                              .weight = w.weight, .out_type = KC_DTYPE_BF16, .out = out,
                              .out_stride = 256};
      assert_int_equal(kc_ref_ops()->gemm(NULL, &op), KC_OP_OK);
      op.out_type = KC_DTYPE_F32, op.out = wide;
      assert_int_equal(kc_ref_ops()->gemm(NULL, &op), KC_OP_OK);
      for (uint32_t r = 0; r < m; ++r) {
        for (uint32_t c = 0; c < n; ++c) want[r * 256 + c] = dot(&w.weight, c, x + r * (k + 8));
      }
      assert_true(nmse_bf16(out, want, (size_t)m * 256) < KC_TOL_W4A16_NMSE);
      assert_true(nmse_f32(wide, want, (size_t)m * 256) < 1e-14);
      free(x), free(out), free(wide), free(want);
      matrix_free(&w);
    }
  }
}

/* Values to the bit: bf16 of what the codes stand for. The double of at most 30 bits is rounded to
 * FP32 on the way only where it has that many, NVFP4 and FP8: one unit in the last place then. */
static void every_format_is_dequantised(void **state)
{
  (void)state;
  enum { N = 57, K = 384, FIRST = 16, COUNT = 33 };
  uint64_t seed = 16;
  for (int f = 0; f < FORMATS; ++f) {
    struct matrix w;
    matrix_make(&w, formats[f], N, K, &seed);
    uint16_t *out = take(COUNT * K * 2);
    const struct kc_op_dequantise op = {w.weight, FIRST, COUNT, out};
    const uint64_t exact = formats[f] == KC_WEIGHT_BF16 || formats[f] == KC_WEIGHT_MXFP4 ||
                           w.arrays.scale_bf16 != NULL;
    assert_int_equal(kc_ref_ops()->dequantise(NULL, &op), KC_OP_OK);
    for (uint32_t i = 0; i < COUNT * K; ++i) {
      const double want = weight_at(&w.weight, FIRST + i / K, i % K);
      const uint16_t code = kc_bf16_encode((float)want);
      if (exact) assert_int_equal(out[i], code);
      assert_true(abs((int)out[i] - (int)code) <= 1);
    }
    free(out);
    matrix_free(&w);
  }
}

static void adding_reads_the_old_value(void **state)
{
  (void)state;
  uint64_t seed = 8;
  struct matrix w;
  matrix_make(&w, KC_WEIGHT_BF16, 8, 32, &seed);
  uint16_t *x = take_bf16(32, &seed, 1.0), *out = take(16);
  for (int i = 0; i < 8; ++i) out[i] = code_of(10);
  const struct kc_op_gemm op = {.rows = 1, .x_type = KC_DTYPE_BF16, .x = x, .x_stride = 32,
                                .weight = w.weight, .out_type = KC_DTYPE_BF16, .out = out,
                                .out_stride = 8, .add = true};
  assert_int_equal(kc_ref_ops()->gemm(NULL, &op), KC_OP_OK);
  for (uint32_t n = 0; n < 8; ++n) {
    assert_true(fabs(value_of(out[n]) - 10 - dot(&w.weight, n, x)) <= 0x1p-5);
  }
  free(x), free(out);
  matrix_free(&w);
}

/* Quantised activations: each row has its own scale, and no two scales are alike. */
static void fp8_rows_times_fp8_weights(void **state)
{
  (void)state;
  enum { M = 9, N = 24, K = 64 };
  uint64_t seed = 12;
  struct matrix w;
  matrix_make(&w, KC_WEIGHT_FP8, N, K, &seed);
  uint16_t *x = take_bf16(M * K, &seed, 1.0), *out = take(M * N * 2);
  for (int i = 0; i < M * K; ++i) x[i] = code_of(value_of(x[i]) * (1 + i / K));
  uint8_t *codes = take(M * K);
  float scale[M];
  const struct kc_op_quantise_rows quantise = {M, K, x, K, codes, K, scale};
  assert_int_equal(kc_ref_ops()->quantise_rows(NULL, &quantise), KC_OP_OK);
  const struct kc_op_gemm op = {.rows = M, .x_type = KC_DTYPE_E4M3, .x = codes, .x_stride = K,
                                .x_scale = scale, .weight = w.weight,
                                .out_type = KC_DTYPE_BF16, .out = out, .out_stride = N};
  assert_int_equal(kc_ref_ops()->gemm(NULL, &op), KC_OP_OK);
  double want[M * N], plain[M * N];
  for (uint32_t i = 0; i < M * N; ++i) {
    want[i] = 0;
    plain[i] = dot(&w.weight, i % N, x + i / N * K);
    for (uint32_t k = 0; k < K; ++k) {
      want[i] += (double)kc_e4m3_decode(codes[i / N * K + k]) * (double)scale[i / N] *
                 weight_at(&w.weight, i % N, k);
    }
  }
  assert_true(nmse_bf16(out, want, M * N) < KC_TOL_GEMM_FP8_NMSE);
  assert_true(nmse_bf16(out, plain, M * N) < 2e-3); /* quantisation: (2^-4 / sqrt 12)^2 a value */
  free(x), free(out), free(codes);
  matrix_free(&w);
}

static void heads_have_their_own_matrices(void **state)
{
  (void)state;
  enum { ROWS = 3, HEADS = 2, N = 16, K = 48, X_HEAD = 56, OUT_HEAD = 24 };
  uint64_t seed = 2;
  uint16_t *x = take_bf16(ROWS * HEADS * X_HEAD, &seed, 1.0);
  uint16_t *w = take_bf16(HEADS * N * K, &seed, 0.1), *out = take(ROWS * HEADS * OUT_HEAD * 2);
  const struct kc_op_head_gemm op = {ROWS, HEADS, N, K, x, HEADS * X_HEAD, X_HEAD,
                                     w, out, HEADS * OUT_HEAD, OUT_HEAD};
  assert_int_equal(kc_ref_ops()->head_gemm(NULL, &op), KC_OP_OK);
  double want[ROWS * HEADS * OUT_HEAD] = {0};
  for (uint32_t i = 0; i < ROWS * HEADS * N; ++i) {
    const uint32_t row = i / (HEADS * N), head = i / N % HEADS, n = i % N;
    double *at = &want[(row * HEADS + head) * OUT_HEAD + n];
    for (uint32_t k = 0; k < K; ++k) {
      *at += value_of(x[(row * HEADS + head) * X_HEAD + k]) * value_of(w[(head * N + n) * K + k]);
    }
  }
  assert_true(nmse_bf16(out, want, ROWS * HEADS * OUT_HEAD) < KC_TOL_GEMM_BF16_NMSE);
  free(x), free(w), free(out);
}

/* Experts of 0, 1 and many rows; rows come through `source`; the middle expert's matrix is found by
 * its strides. */
static void experts_take_their_rows(void **state)
{
  (void)state;
  enum { EXPERTS = 4, N = 24, K = 64, ROWS = 6, POSITIONS = 13 };
  static const enum kc_weight_format kinds[] = {KC_WEIGHT_BF16, KC_WEIGHT_INT4_G32};
  for (int f = 0; f < 2; ++f) {
    uint64_t seed = 31;
    struct matrix w; /* the experts' matrices one under another */
    matrix_make(&w, kinds[f], EXPERTS * N, K, &seed);
    uint16_t *x = take_bf16(ROWS * K, &seed, 1.0), *out = take(POSITIONS * N * 2);
    const uint32_t first[EXPERTS + 1] = {0, 1, 1, 12, 13};
    const int32_t source[POSITIONS] = {5, 0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 3, 2};
    struct kc_op_grouped_gemm op = {.experts = EXPERTS, .positions = POSITIONS, .first = first,
                                    .source = source, .x = x, .x_stride = K,
                                    .weight = w.weight, .out = out, .out_stride = N};
    op.weight.rows = N;
    op.data_stride_bytes = kinds[f] == KC_WEIGHT_BF16 ? N * K * 2 : N * K / 2;
    op.scale_stride_bytes = N * K / 32 * 2;
    assert_int_equal(kc_ref_ops()->grouped_gemm(NULL, &op), KC_OP_OK);
    double want[POSITIONS * N];
    for (uint32_t i = 0; i < POSITIONS * N; ++i) {
      const uint32_t p = i / N, e = p < 1 ? 0 : p < 12 ? 2 : 3;
      want[i] = dot(&w.weight, e * N + i % N, x + source[p] * K);
    }
    assert_true(nmse_bf16(out, want, POSITIONS * N) < KC_TOL_W4A16_NMSE);
    free(x), free(out);
    matrix_free(&w);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_is_dequantised),
      cmocka_unit_test(every_format_multiplies),
      cmocka_unit_test(adding_reads_the_old_value),
      cmocka_unit_test(fp8_rows_times_fp8_weights),
      cmocka_unit_test(heads_have_their_own_matrices),
      cmocka_unit_test(experts_take_their_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
