/* Operations on rows: hand-made cases, a second computation in plain double, and the relations that
 * RoPE must keep. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_plan.h"
#include "kernels/ops/op_tolerance.h"
#include "kernels/ref/ref_internal.h"
#include "op_random.h"

/* ---- one rounding ---- */

/* Halfway between two bf16 plus less than FP32 can hold: rounding twice would land on the tie. */
static void double_to_bf16_rounds_once(void **state)
{
  (void)state;
  const double tie = 1.0 + 0x1p-8; /* between 1 and 1 + 2^-7 */
  assert_int_equal(kc_ref_bf16(tie), 0x3F80);
  assert_int_equal(kc_ref_bf16(tie + 0x1p-40), 0x3F81);
  assert_int_equal(kc_ref_bf16(tie - 0x1p-40), 0x3F80);
  assert_int_equal(kc_ref_bf16(-tie - 0x1p-40), 0xBF81);
  const double odd_tie = 1.0 + 0x3p-8; /* ties to the even 1 + 2^-6 */
  assert_int_equal(kc_ref_bf16(odd_tie), 0x3F82);
  assert_int_equal(kc_ref_bf16(odd_tie - 0x1p-45), 0x3F81);
  assert_int_equal(kc_ref_bf16(1e300), 0x7F80);
  assert_int_equal(kc_ref_bf16(-1e300), 0xFF80);
  assert_int_equal(kc_ref_bf16(0x1p-134), 0x0000); /* half the least subnormal: ties to zero */
  assert_int_equal(kc_ref_bf16(0x1.000001p-134), 0x0001);
  assert_true(isnan(value_of(kc_ref_bf16((double)NAN))));
}

/* ---- gather, norm, SwiGLU, quantisation ---- */

static void gather_bounds_its_index(void **state)
{
  (void)state;
  uint16_t *source = take(3 * 8 * 2), *out = take(5 * 16 * 2);
  for (int i = 0; i < 24; ++i) source[i] = (uint16_t)(100 + i);
  const int32_t index[5] = {2, 0, -1, 3, 1};
  memset(out, 0xFF, 5 * 16 * 2);
  const struct kc_op_gather op = {5, 8, source, 3, 8, index, out, 16};
  assert_int_equal(kc_ref_ops()->gather(NULL, &op), KC_OP_OK);
  assert_int_equal(out[0], 116);
  assert_int_equal(out[16 + 7], 107);
  assert_int_equal(out[32], 0); /* -1 */
  assert_int_equal(out[48], 0); /* behind the last row */
  assert_int_equal(out[64], 108);
  assert_int_equal(out[8], 0xFFFF); /* the gap between rows is not ours */
  free(source), free(out);
}

/* x = 3 4 0 ... (8 wide): mean square 25/8; y = x * w / sqrt(25/8 + 0). */
static void rms_norm_by_hand(void **state)
{
  (void)state;
  uint16_t *x = take(16), *w = take(16), *out = take(16), *residual = take(16);
  x[0] = code_of(3), x[1] = code_of(4);
  for (int i = 0; i < 8; ++i) w[i] = code_of(2);
  struct kc_op_rms_norm op = {1, 8, 0, 0, x, 8, NULL, 0, w, 0.0f, out, 8};
  assert_int_equal(kc_ref_ops()->rms_norm(NULL, &op), KC_OP_OK);
  assert_int_equal(out[0], code_of(6 / sqrt(25.0 / 8)));
  assert_int_equal(out[1], code_of(8 / sqrt(25.0 / 8)));
  assert_int_equal(out[2], 0);
  /* x + residual = 256.5 rounds to 256 before it is squared; it is what is kept. */
  x[0] = code_of(256), x[1] = 0, residual[0] = code_of(0.5), residual[1] = 0;
  op.residual = residual, op.residual_stride = 8, op.weight = NULL;
  assert_int_equal(kc_ref_ops()->rms_norm(NULL, &op), KC_OP_OK);
  assert_int_equal(residual[0], code_of(256));
  assert_int_equal(out[0], code_of(sqrt(8)));
  op.out = x; /* in place */
  assert_int_equal(kc_ref_ops()->rms_norm(NULL, &op), KC_OP_OK);
  assert_int_equal(x[0], code_of(sqrt(8)));
  free(x), free(w), free(out), free(residual);
}

static void rms_norm_of_random_rows(void **state)
{
  (void)state;
  enum { ROWS = 7, WIDTH = 264, STRIDE = 272 };
  uint64_t seed = 21;
  uint16_t *x = take_bf16(ROWS * STRIDE, &seed, 3.0), *w = take_bf16(WIDTH, &seed, 1.0);
  uint16_t *out = take(ROWS * STRIDE * 2);
  const struct kc_op_rms_norm op = {ROWS, WIDTH, 0, 0, x, STRIDE, NULL, 0, w, 1e-5f, out,
                                    STRIDE};
  assert_int_equal(kc_ref_ops()->rms_norm(NULL, &op), KC_OP_OK);
  for (int r = 0; r < ROWS; ++r) {
    double mean = 0, want[WIDTH];
    for (int i = 0; i < WIDTH; ++i) mean += pow(value_of(x[r * STRIDE + i]), 2) / WIDTH;
    for (int i = 0; i < WIDTH; ++i) {
      want[i] = value_of(x[r * STRIDE + i]) / sqrt(mean + (double)1e-5f) * value_of(w[i]);
    }
    assert_true(nmse_bf16(out + r * STRIDE, want, WIDTH) < KC_TOL_NORM_NMSE);
  }
  free(x), free(w), free(out);
}

static void swiglu_by_hand(void **state)
{
  (void)state;
  uint16_t *x = take(32), *out = take(16);
  const double gate[8] = {0, 1, -1, 20, -20, 100, -100, 0.5};
  for (int i = 0; i < 8; ++i) x[i] = code_of(gate[i]), x[8 + i] = code_of(i + 1);
  const struct kc_op_swiglu op = {1, 8, x, 16, out, 8};
  assert_int_equal(kc_ref_ops()->swiglu(NULL, &op), KC_OP_OK);
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(out[i], code_of(gate[i] / (1 + exp(-gate[i])) * (i + 1)));
  }
  free(x), free(out);
}

static void rows_are_quantised_to_448(void **state)
{
  (void)state;
  uint16_t *x = take(2 * 16 * 2);
  uint8_t *out = take(2 * 16);
  float scale[2];
  x[0] = code_of(-896), x[1] = code_of(2), x[2] = code_of(1); /* scale 2: codes -448, 1, 0.5 */
  const struct kc_op_quantise_rows op = {2, 16, x, 16, out, 16, scale};
  assert_int_equal(kc_ref_ops()->quantise_rows(NULL, &op), KC_OP_OK);
  assert_true(scale[0] == 2.0f);
  assert_int_equal(out[0], 0xFE);
  assert_int_equal(out[1], 0x38);
  assert_int_equal(out[2], 0x30);
  assert_true(scale[1] == 0x1p-20f); /* a row of zeros */
  assert_int_equal(out[16], 0);
  free(x), free(out);
}

/* ---- RoPE ---- */

enum { DIMS = 16, POSITIONS = 70000 };

struct rope_bed {
  float *high, *low;
  double frequency[DIMS / 2];
};

static void rope_make(struct rope_bed *bed, double amplitude)
{
  for (int i = 0; i < DIMS / 2; ++i) bed->frequency[i] = pow(10000.0, -2.0 * i / DIMS);
  bed->high = take(kc_rope_high_count(DIMS, POSITIONS) * sizeof(float));
  bed->low = take(kc_rope_low_count(DIMS) * sizeof(float));
  kc_rope_tables(bed->high, bed->low, bed->frequency, DIMS, POSITIONS, amplitude);
}

static void rope_run(const struct rope_bed *bed, enum kc_rope_pairs pairs, int32_t position,
                     uint16_t *x)
{
  const struct kc_op_rope op = {1, 1, DIMS, 0, DIMS, pairs, &position, POSITIONS, bed->high,
                                bed->low, x, DIMS};
  assert_int_equal(kc_ref_ops()->rope(NULL, &op), KC_OP_OK);
}

/* Pairs as complex numbers times exp(i position frequency): Su et al. 2021, equation 13. */
static void rope_is_a_complex_product(void **state)
{
  (void)state;
  struct rope_bed bed;
  rope_make(&bed, 1.25);
  static const int32_t positions[] = {0, 1, 2, 255, 256, 257, 4095, 65535, 69999};
  uint64_t seed = 3;
  for (size_t p = 0; p < sizeof positions / sizeof positions[0]; ++p) {
    uint16_t *x = take_bf16(DIMS, &seed, 1.0), *half = take(DIMS * 2), *inter = take(DIMS * 2);
    memcpy(half, x, DIMS * 2), memcpy(inter, x, DIMS * 2);
    rope_run(&bed, KC_ROPE_HALF, positions[p], half);
    rope_run(&bed, KC_ROPE_INTERLEAVED, positions[p], inter);
    for (int i = 0; i < DIMS / 2; ++i) {
      const double complex turn = 1.25 * cexp(I * (double)positions[p] * bed.frequency[i]);
      const double complex h = (value_of(x[i]) + I * value_of(x[i + DIMS / 2])) * turn;
      const double complex j = (value_of(x[2 * i]) + I * value_of(x[2 * i + 1])) * turn;
      assert_true(fabs(value_of(half[i]) - creal(h)) <= 0x1p-8 * cabs(h));
      assert_true(fabs(value_of(half[i + DIMS / 2]) - cimag(h)) <= 0x1p-8 * cabs(h));
      assert_true(fabs(value_of(inter[2 * i]) - creal(j)) <= 0x1p-8 * cabs(j));
      assert_true(fabs(value_of(inter[2 * i + 1]) - cimag(j)) <= 0x1p-8 * cabs(j));
    }
    free(x), free(half), free(inter);
  }
  free(bed.high), free(bed.low);
}

/* q at m against k at n depends on m - n alone. */
static void rope_dots_depend_on_distance(void **state)
{
  (void)state;
  struct rope_bed bed;
  rope_make(&bed, 1.0);
  uint64_t seed = 9;
  uint16_t *q = take_bf16(DIMS, &seed, 1.0), *k = take_bf16(DIMS, &seed, 1.0);
  for (int kind = 0; kind < 2; ++kind) {
    double first = 0;
    for (int32_t n = 0; n < 60000; n += 9973) {
      uint16_t a[DIMS] __attribute__((aligned(16))), b[DIMS] __attribute__((aligned(16)));
      memcpy(a, q, sizeof a), memcpy(b, k, sizeof b);
      rope_run(&bed, (enum kc_rope_pairs)kind, n + 37, a);
      rope_run(&bed, (enum kc_rope_pairs)kind, n, b);
      double dot = 0;
      for (int i = 0; i < DIMS; ++i) dot += value_of(a[i]) * value_of(b[i]);
      if (n == 0) first = dot;
      assert_true(fabs(dot - first) < 0.08); /* 16 products of bf16 */
    }
  }
  free(q), free(k), free(bed.high), free(bed.low);
}

static void rope_leaves_the_rest_alone(void **state)
{
  (void)state;
  struct rope_bed bed;
  rope_make(&bed, 1.0);
  enum { HEADS = 3, HEAD_DIM = 40, OFFSET = 16 };
  uint64_t seed = 5;
  const int32_t position[4] = {7, -1, POSITIONS, 0};
  uint16_t *x = take_bf16(4 * HEADS * HEAD_DIM, &seed, 1.0), *y = take(4 * HEADS * HEAD_DIM * 2);
  memcpy(y, x, 4 * HEADS * HEAD_DIM * 2);
  const struct kc_op_rope op = {4, HEADS, HEAD_DIM, OFFSET, DIMS, KC_ROPE_HALF, position,
                                POSITIONS, bed.high, bed.low, y, HEADS * HEAD_DIM};
  assert_int_equal(kc_ref_ops()->rope(NULL, &op), KC_OP_OK);
  for (int i = 0; i < 4 * HEADS * HEAD_DIM; ++i) {
    const int row = i / (HEADS * HEAD_DIM), dim = i % HEAD_DIM;
    const bool turned = row == 0 && dim >= OFFSET && dim < OFFSET + DIMS;
    if (!turned) assert_int_equal(y[i], x[i]); /* position 0 is the identity */
  }
  assert_int_not_equal(y[OFFSET], x[OFFSET]);
  assert_int_not_equal(y[2 * HEAD_DIM + OFFSET], x[2 * HEAD_DIM + OFFSET]);
  free(x), free(y), free(bed.high), free(bed.low);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(double_to_bf16_rounds_once),
      cmocka_unit_test(gather_bounds_its_index),
      cmocka_unit_test(rms_norm_by_hand),
      cmocka_unit_test(rms_norm_of_random_rows),
      cmocka_unit_test(swiglu_by_hand),
      cmocka_unit_test(rows_are_quantised_to_448),
      cmocka_unit_test(rope_is_a_complex_product),
      cmocka_unit_test(rope_dots_depend_on_distance),
      cmocka_unit_test(rope_leaves_the_rest_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
