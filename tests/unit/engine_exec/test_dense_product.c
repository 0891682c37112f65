/* INT4 products by way of BF16 panels: sizes of the scratch, and the product of any cut into panels
 * against one of the rounded weights, which the test unpacks by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/exec/dense_product.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"
#include "kernels/ref/ref.h"

enum { M = 3, N = 200, K = 64, GROUP = 32 };

static const struct kc_weight int4 = {.format = KC_WEIGHT_INT4_G32, .rows = 28672, .cols = 4096};

static void scratch_is_bounded(void **state)
{
  (void)state;
  struct kc_weight w = int4;
  assert_int_equal(kc_dense_scratch_bytes(&w, 256), 0); /* a graph's largest batch of decodes */
  assert_int_equal(kc_dense_scratch_bytes(&w, 257), 64u << 20);
  w.rows = 100;
  assert_int_equal(kc_dense_scratch_bytes(&w, 4096), 100 * 4096 * 2);
  w.format = KC_WEIGHT_FP8;
  assert_int_equal(kc_dense_scratch_bytes(&w, 4096), 0);
  w = (struct kc_weight){0}; /* a matrix that a layer does not have */
  assert_int_equal(kc_dense_scratch_bytes(&w, 4096), 0);
}

/* 64 MiB hold 8,192 rows of 4,096: four panels of 7,168. */
static void panels_are_alike(void **state)
{
  (void)state;
  struct kc_weight w = int4;
  assert_int_equal(kc_dense_panel(&w, 64u << 20, false).rows, 7168);
  assert_int_equal(kc_dense_panel(&w, 64u << 20, true).rows, 7168);
  w.rows = 8200;
  assert_int_equal(kc_dense_panel(&w, 64u << 20, false).rows, 4224); /* 33 tiles of 128 */
  assert_int_equal(kc_dense_panel(&w, 64u << 20, true).rows, 8200 - 4224);
  w.rows = 100;
  assert_int_equal(kc_dense_panel(&w, 64u << 20, false).rows, 100);
}

struct bed {
  _Alignas(64) uint16_t x[M * K];
  _Alignas(64) uint8_t codes[N * K / 2];
  _Alignas(64) uint16_t scales[N * K / GROUP];
  _Alignas(64) uint16_t scratch[N * K];
  _Alignas(64) float out[M * N];
  double want[M * N];
};

static void make(struct bed *b)
{
  for (uint64_t i = 0; i < M * K; i++) b->x[i] = kc_bf16_encode(kc_counter_normal(3, 1, i));
  for (uint64_t i = 0; i < N * K / 2; i++) b->codes[i] = (uint8_t)kc_counter_u64(3, 2, i);
  for (uint64_t i = 0; i < N * K / GROUP; i++) {
    b->scales[i] = kc_bf16_encode(0.01f * kc_counter_normal(3, 3, i));
  }
  for (uint32_t m = 0; m < M; m++) {
    for (uint32_t n = 0; n < N; n++) {
      double sum = 0;
      for (uint32_t k = 0; k < K; k++) {
        const uint32_t at = n * K + k;
        const int code = (int)(b->codes[at / 2] >> (k % 2 == 0 ? 0 : 4) & 15) - 8;
        const float weight = (float)code * kc_bf16_decode(b->scales[at / GROUP]);
        sum += (double)kc_bf16_decode(kc_bf16_encode(weight)) *
               (double)kc_bf16_decode(b->x[m * K + k]);
      }
      b->want[m * N + n] = sum;
    }
  }
}

static struct kc_op_gemm product_of(struct bed *b)
{
  return (struct kc_op_gemm){.rows = M, .x_type = KC_DTYPE_BF16, .x = b->x, .x_stride = K,
                             .weight = {.format = KC_WEIGHT_INT4_G32, .rows = N, .cols = K,
                                        .data = b->codes, .scale_bf16 = b->scales},
                             .out_type = KC_DTYPE_F32, .out = b->out, .out_stride = N};
}

static void any_cut_gives_the_product(void **state)
{
  (void)state;
  struct bed *b = malloc(sizeof *b);
  assert_non_null(b);
  make(b);
  for (uint32_t rows = 16; rows <= 208; rows += 16) {
    const struct kc_op_gemm op = product_of(b);
    for (int i = 0; i < M * N; i++) b->out[i] = -1e30f;
    assert_int_equal(kc_dense_product(kc_ref_ops(), NULL, &op, b->scratch, 2ull * rows * K),
                     KC_OP_OK);
    for (int i = 0; i < M * N; i++) assert_true(b->out[i] == (float)b->want[i]);
  }
  const struct kc_op_gemm op = product_of(b);
  assert_int_equal(kc_dense_product(kc_ref_ops(), NULL, &op, b->scratch, 2 * 15 * K),
                   KC_OP_MEMORY);
  free(b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scratch_is_bounded),
      cmocka_unit_test(panels_are_alike),
      cmocka_unit_test(any_cut_gives_the_product),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
