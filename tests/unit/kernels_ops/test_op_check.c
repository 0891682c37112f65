/* Preconditions: for each operation one struct that keeps the contract, and every way to break it
 * that its header names. Sizes of layouts by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops/op_check.h"

/* Any aligned address will do: nothing is read. */
static uint16_t memory[64] __attribute__((aligned(64)));
#define ANY ((void *)memory)
#define ODD ((void *)((char *)memory + 2))

static struct kc_kv_layer gqa = {.kind = KC_PAGED_GQA, .k_format = KC_KV_BF16,
                                       .v_format = KC_KV_FP8_E4M3, .pages = 4, .page_tokens = 64,
                                       .kv_heads = 8, .head_dim = 128, .k = ANY, .v = ANY,
                                       .k_page_bytes = 131072, .v_page_bytes = 65536};
static struct kc_kv_layer mla = {.kind = KC_PAGED_MLA, .k_format = KC_KV_FP8_G128, .pages = 4,
                                       .page_tokens = 64, .kv_heads = 1, .latent = 512,
                                       .rope = 64, .k = ANY, .k_page_bytes = 656 * 64};

static void layouts_have_the_published_sizes(void **state)
{
  (void)state;
  assert_int_equal(kc_kv_page_bytes_k(&gqa), 8 * 64 * 128 * 2);
  assert_int_equal(kc_kv_page_bytes_v(&gqa), 8 * 64 * 128);
  assert_int_equal(kc_mla_record_bytes(&mla), 656); /* FlashMLA's FP8 record */
  assert_int_equal(kc_kv_page_bytes_v(&mla), 0);
  struct kc_kv_layer layer = mla;
  layer.k_format = KC_KV_BF16;
  assert_int_equal(kc_mla_record_bytes(&layer), 1152);
  layer.k_format = KC_KV_FP8_G128, layer.latent = 128, layer.rope = 16;
  assert_int_equal(kc_mla_record_bytes(&layer), 176); /* 128 + 4 + 32, to a multiple of 16 */
  assert_int_equal(kc_kv_query_dim(&mla), 576);
  assert_int_equal(kc_kv_value_dim(&mla), 512);
}

/* Each macro copies the good struct, breaks it in one way, and expects a refusal. */
#define REFUSES(check, good, change) \
  do {                               \
    __typeof__(good) op = good;      \
    change;                          \
    assert_false(check(&op));        \
  } while (0)

static void layers(void **state)
{
  (void)state;
  assert_true(kc_kv_layer_valid(&gqa));
  assert_true(kc_kv_layer_valid(&mla));
  REFUSES(kc_kv_layer_valid, gqa, op.pages = 0);
  REFUSES(kc_kv_layer_valid, gqa, op.page_tokens = 0);
  REFUSES(kc_kv_layer_valid, gqa, op.head_dim = 24);
  REFUSES(kc_kv_layer_valid, gqa, op.kv_heads = 0);
  REFUSES(kc_kv_layer_valid, gqa, op.k_format = KC_KV_INT8);
  REFUSES(kc_kv_layer_valid, gqa, op.v_format = KC_KV_FP8_G128);
  REFUSES(kc_kv_layer_valid, gqa, op.v = NULL);
  REFUSES(kc_kv_layer_valid, gqa, op.k = ODD);
  REFUSES(kc_kv_layer_valid, gqa, op.k_page_bytes -= 16);
  REFUSES(kc_kv_layer_valid, gqa, op.v_page_bytes += 8);
  REFUSES(kc_kv_layer_valid, mla, op.kv_heads = 2);
  REFUSES(kc_kv_layer_valid, mla, op.latent = 192);
  REFUSES(kc_kv_layer_valid, mla, op.rope = 8);
  REFUSES(kc_kv_layer_valid, mla, op.k_format = KC_KV_FP8_E4M3);
}

static void weights(void **state)
{
  (void)state;
  struct kc_weight int4 = {.format = KC_WEIGHT_INT4_G128, .rows = 5, .cols = 256,
                                 .data = ANY, .scale_bf16 = memory};
  struct kc_weight nvfp4 = {.format = KC_WEIGHT_NVFP4, .rows = 5, .cols = 32, .data = ANY,
                                  .scale_u8 = ANY, .scale_f32 = ANY};
  assert_true(kc_weight_valid(&int4));
  assert_true(kc_weight_valid(&nvfp4));
  REFUSES(kc_weight_valid, int4, op.cols = 192);
  REFUSES(kc_weight_valid, int4, op.scale_bf16 = NULL);
  REFUSES(kc_weight_valid, int4, op.rows = 0);
  REFUSES(kc_weight_valid, int4, op.data = ODD);
  REFUSES(kc_weight_valid, int4, op.format = KC_WEIGHT_FP32);
  REFUSES(kc_weight_valid, nvfp4, op.scale_f32 = NULL);
  REFUSES(kc_weight_valid, nvfp4, op.cols = 48);
}

static void dense_operations(void **state)
{
  (void)state;
  struct kc_op_rms_norm norm = {3, 64, 0, 0, ANY, 72, NULL, 0, ANY, 1e-6f, ANY, 64};
  assert_true(kc_op_rms_norm_valid(&norm));
  REFUSES(kc_op_rms_norm_valid, norm, op.width = 60);
  REFUSES(kc_op_rms_norm_valid, norm, op.x_stride = 56);
  REFUSES(kc_op_rms_norm_valid, norm, op.x_stride = 68);
  REFUSES(kc_op_rms_norm_valid, norm, op.out = ODD);
  REFUSES(kc_op_rms_norm_valid, norm, (op.residual = ANY, op.residual_stride = 8));
  struct kc_op_rope rope = {2, 4, 64, 48, 16, KC_ROPE_HALF, ANY, 99, ANY, ANY, ANY, 256};
  assert_true(kc_op_rope_valid(&rope));
  REFUSES(kc_op_rope_valid, rope, op.offset = 56);
  REFUSES(kc_op_rope_valid, rope, op.dims = 12);
  REFUSES(kc_op_rope_valid, rope, op.x_stride = 248);
  REFUSES(kc_op_rope_valid, rope, op.high = NULL);
  struct kc_weight bf16 = {.format = KC_WEIGHT_BF16, .rows = 8, .cols = 64, .data = ANY};
  struct kc_op_gemm gemm = {.rows = 2, .x_type = KC_DTYPE_BF16, .x = ANY, .x_stride = 64,
                                  .weight = bf16, .out_type = KC_DTYPE_F32, .out = ANY,
                                  .out_stride = 8};
  assert_true(kc_op_gemm_valid(&gemm));
  REFUSES(kc_op_gemm_valid, gemm, op.x_type = KC_DTYPE_E4M3);
  REFUSES(kc_op_gemm_valid, gemm, op.x_type = KC_DTYPE_F32);
  REFUSES(kc_op_gemm_valid, gemm, op.x_scale = ANY);
  REFUSES(kc_op_gemm_valid, gemm, op.out_type = KC_DTYPE_E4M3);
  REFUSES(kc_op_gemm_valid, gemm, op.out_stride = 0);
  REFUSES(kc_op_gemm_valid, gemm, op.weight.cols = 72);
  struct kc_weight int4 = {.format = KC_WEIGHT_INT4_G32, .rows = 40, .cols = 64, .data = ANY,
                           .scale_bf16 = ANY};
  struct kc_op_dequantise dequantise = {.weight = int4, .first = 32, .rows = 8, .out = ANY};
  assert_true(kc_op_dequantise_valid(&dequantise));
  REFUSES(kc_op_dequantise_valid, dequantise, op.first = 33);
  REFUSES(kc_op_dequantise_valid, dequantise, op.rows = 9);
  REFUSES(kc_op_dequantise_valid, dequantise, (op.first = 0xFFFFFFF0, op.rows = 32));
  REFUSES(kc_op_dequantise_valid, dequantise, op.out = ODD);
  REFUSES(kc_op_dequantise_valid, dequantise, op.weight.scale_bf16 = NULL);
  struct kc_op_sample sample = {.rows = 1, .vocabulary = 100, .logits = ANY,
                                      .logits_stride = 104, .token = ANY};
  assert_true(kc_op_sample_valid(&sample));
  REFUSES(kc_op_sample_valid, sample, op.vocabulary = 0);
  REFUSES(kc_op_sample_valid, sample, op.temperature = ANY);
  REFUSES(kc_op_sample_valid, sample, op.verdict = ANY);
  REFUSES(kc_op_sample_valid, sample, op.token = NULL);
}

static void paged_operations(void **state)
{
  (void)state;
  const struct kc_page_table table = {ANY, 4, 8};
  const struct kc_tag_state tags = {ANY, ANY, ANY, ANY, 8, 4, 0};
  struct kc_op_kv_write write = {.rows = 1, .k = ANY, .k_stride = 1024, .v = ANY,
                                       .v_stride = 1024, .slot = ANY, .position = ANY,
                                       .table = table, .layer = gqa, .integrity = tags};
  assert_true(kc_op_kv_write_valid(&write));
  REFUSES(kc_op_kv_write_valid, write, op.k_stride = 1016);
  REFUSES(kc_op_kv_write_valid, write, op.v = NULL);
  REFUSES(kc_op_kv_write_valid, write, op.integrity.verdict = NULL);
  REFUSES(kc_op_kv_write_valid, write, op.integrity.counter = NULL);
  REFUSES(kc_op_kv_write_valid, write, op.integrity.ring = NULL);
  REFUSES(kc_op_kv_write_valid, write, op.integrity.pages = 5);
  REFUSES(kc_op_kv_write_valid, write, op.table.entry = NULL);
  struct kc_op_decode decode = {.rows = 2, .q_heads = 32, .q = ANY, .q_stride = 4096,
                                      .slot = ANY, .context = ANY, .scale = 1, .table = table,
                                      .layer = gqa, .plan = {ANY, 2, ANY, 0}, .out = ANY,
                                      .out_stride = 4096};
  assert_true(kc_op_decode_valid(&decode));
  REFUSES(kc_op_decode_valid, decode, op.q_heads = 12);
  REFUSES(kc_op_decode_valid, decode, op.q_heads = 0);
  REFUSES(kc_op_decode_valid, decode, op.plan.partial_count = 2);
  REFUSES(kc_op_decode_valid, decode, op.plan.row_first = NULL);
  REFUSES(kc_op_decode_valid, decode, op.out_stride = 4088);
  struct kc_op_tag_check check = {.rows = 2, .slot = ANY, .entries = ANY, .table = table,
                                  .integrity = tags};
  assert_true(kc_op_tag_check_valid(&check));
  REFUSES(kc_op_tag_check_valid, check, op.integrity.tag = NULL);
  REFUSES(kc_op_tag_check_valid, check, op.entries = NULL);
}

static void expert_operations(void **state)
{
  (void)state;
  struct kc_op_route route = {2,  256, 8,    8,   4,    KC_ROUTE_SIGMOID, true, 2.5f,
                                    ANY, 256, NULL, ANY, ANY};
  assert_true(kc_op_route_valid(&route));
  REFUSES(kc_op_route_valid, route, op.experts = 513);
  REFUSES(kc_op_route_valid, route, op.top = 17);
  REFUSES(kc_op_route_valid, route, op.groups = 7);
  REFUSES(kc_op_route_valid, route, op.groups_top = 9);
  REFUSES(kc_op_route_valid, route, (op.experts = 16, op.groups_top = 3)); /* 6 left, 8 wanted */
  struct kc_op_moe_combine combine = {2, 8, 64, ANY, 64, ANY, ANY, NULL, 0, ANY, 64};
  assert_true(kc_op_moe_combine_valid(&combine));
  REFUSES(kc_op_moe_combine_valid, combine, op.place = NULL);
  REFUSES(kc_op_moe_combine_valid, combine, op.base = ANY);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_have_the_published_sizes),
      cmocka_unit_test(layers),
      cmocka_unit_test(weights),
      cmocka_unit_test(dense_operations),
      cmocka_unit_test(paged_operations),
      cmocka_unit_test(expert_operations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
