/* Sizes of the number formats, against layouts computed by hand or read off published tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/format.h"

static void weight_bytes_follow_the_layouts(void **state)
{
  (void)state;
  static const struct {
    enum kc_weight_format format;
    uint64_t rows, cols, bytes;
  } cases[] = {
      {KC_WEIGHT_NONE, 7168, 2048, 0},
      {KC_WEIGHT_BF16, 3, 5, 30},
      {KC_WEIGHT_FP16, 3, 5, 30},
      {KC_WEIGHT_FP32, 3, 5, 60},
      {KC_WEIGHT_FP8, 3, 5, 15 + 4},
      {KC_WEIGHT_FP8_BLOCK, 128, 128, 16384 + 4},
      {KC_WEIGHT_FP8_BLOCK, 129, 257, 33153 + 2 * 3 * 4}, /* ragged edges cost whole blocks */
      {KC_WEIGHT_FP8_BLOCK, 1, 1, 1 + 4},
      {KC_WEIGHT_INT8, 10, 100, 1000 + 20},
      /* down_proj of one expert of Kimi K2.5: weight_packed 7168 x 256 int32, weight_scale 7168 x
       * 64 bf16, as listed in its safetensors. */
      {KC_WEIGHT_INT4_G32, 7168, 2048, 7340032 + 917504},
      {KC_WEIGHT_INT4_G32, 3, 33, 3 * 17 + 3 * 2 * 2}, /* half a byte and half a group round up */
      {KC_WEIGHT_INT4_G64, 7168, 2048, 7340032 + 458752},
      {KC_WEIGHT_INT4_G128, 7168, 2048, 7340032 + 229376},
      /* gate_up_proj of one expert of gpt-oss: blocks 5760 x 90 x 16 bytes, scales 5760 x 90. */
      {KC_WEIGHT_MXFP4, 5760, 2880, 8294400 + 518400},
      {KC_WEIGHT_NVFP4, 2, 16, 16 + 2 + 4},
      {KC_WEIGHT_NVFP4, 2, 17, 18 + 4 + 4},
      {KC_WEIGHT_FP32, UINT64_C(1) << 24, UINT64_C(1) << 24,
       UINT64_C(1) << 50}, /* largest allowed */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t got = kc_weight_bytes(cases[i].format, cases[i].rows, cases[i].cols);
    if (got != cases[i].bytes)
      print_error("case %zu: %s\n", i, kc_weight_format_name(cases[i].format));
    assert_int_equal(got, cases[i].bytes);
  }
}

static void kv_bytes_follow_the_layouts(void **state)
{
  (void)state;
  static const struct {
    enum kc_kv_format format;
    uint64_t width, bytes;
  } cases[] = {
      {KC_KV_BF16, 576, 1152},    {KC_KV_FP8_E4M3, 576, 576}, {KC_KV_FP8_G128, 512, 528},
      {KC_KV_FP8_G128, 128, 132}, {KC_KV_FP8_G128, 129, 137}, {KC_KV_FP8_G128, 64, 68},
      {KC_KV_INT8, 128, 130},     {KC_KV_FP4, 576, 324},      {KC_KV_FP4, 17, 11},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t got = kc_kv_bytes(cases[i].format, cases[i].width);
    if (got != cases[i].bytes) print_error("case %zu: %s\n", i, kc_kv_format_name(cases[i].format));
    assert_int_equal(got, cases[i].bytes);
  }
}

/* Every name parses back to its format, and the lists for messages hold exactly the names. */
static void names_round_trip(void **state)
{
  (void)state;
  char weights[512] = "", kvs[512] = "";
  for (int i = 0; i < KC_WEIGHT_FORMATS; i++) {
    enum kc_weight_format out = KC_WEIGHT_FORMATS;
    const char *name = kc_weight_format_name((enum kc_weight_format)i);
    assert_true(kc_weight_format_parse(name, &out));
    assert_int_equal(out, i);
    const size_t used = strlen(weights);
    snprintf(weights + used, sizeof weights - used, "%s%s", i == 0 ? "" : ", ", name);
  }
  for (int i = 0; i < KC_KV_FORMATS; i++) {
    enum kc_kv_format out = KC_KV_FORMATS;
    const char *name = kc_kv_format_name((enum kc_kv_format)i);
    assert_true(kc_kv_format_parse(name, &out));
    assert_int_equal(out, i);
    const size_t used = strlen(kvs);
    snprintf(kvs + used, sizeof kvs - used, "%s%s", i == 0 ? "" : ", ", name);
  }
  assert_string_equal(weights, kc_weight_format_names());
  assert_string_equal(kvs, kc_kv_format_names());
}

static void unknown_names_leave_the_result_alone(void **state)
{
  (void)state;
  enum kc_weight_format weight = KC_WEIGHT_INT8;
  enum kc_kv_format kv = KC_KV_FP4;
  static const char *const names[] = {"", "bf", "bf16 ", "BF16", "int4", "fp8-e5m2", "?"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_false(kc_weight_format_parse(names[i], &weight));
    assert_false(kc_kv_format_parse(names[i], &kv));
  }
  assert_int_equal(weight, KC_WEIGHT_INT8);
  assert_int_equal(kv, KC_KV_FP4);
}

static void products_run_in_the_stated_arithmetic(void **state)
{
  (void)state;
  assert_int_equal(kc_weight_math(KC_WEIGHT_BF16), KC_MATH_BF16);
  assert_int_equal(kc_weight_math(KC_WEIGHT_INT4_G32), KC_MATH_BF16); /* weight-only */
  assert_int_equal(kc_weight_math(KC_WEIGHT_FP8_BLOCK), KC_MATH_FP8);
  assert_int_equal(kc_weight_math(KC_WEIGHT_INT8), KC_MATH_INT8);
  assert_int_equal(kc_weight_math(KC_WEIGHT_NVFP4), KC_MATH_FP4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weight_bytes_follow_the_layouts),
      cmocka_unit_test(kv_bytes_follow_the_layouts),
      cmocka_unit_test(names_round_trip),
      cmocka_unit_test(unknown_names_leave_the_result_alone),
      cmocka_unit_test(products_run_in_the_stated_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
