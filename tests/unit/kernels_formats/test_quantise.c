/* Quantised weights: sizes, outliers, error bounds that follow from each format's step. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/fp4.h"
#include "kernels/formats/int4.h"
#include "kernels/formats/quantise.h"

enum { ROWS = 160, COLS = 256, COUNT = ROWS * COLS };

struct bed {
  uint16_t source[COUNT];
  uint8_t codes[2 * COUNT];
  float f32[16];
  uint16_t bf16[COUNT / 32];
  uint8_t u8[COUNT / 16];
};

static struct kc_quantised arrays(struct bed *bed)
{
  return (struct kc_quantised){bed->codes, bed->f32, bed->bf16, bed->u8};
}

static void fill(struct bed *bed, uint64_t seed)
{
  memset(bed, 0, sizeof *bed);
  for (uint64_t i = 0; i < COUNT; ++i) {
    bed->source[i] = kc_bf16_encode(0.02f * kc_counter_normal(seed, 1, i));
  }
}

static double source_at(const struct bed *bed, uint64_t i)
{
  return (double)kc_bf16_decode(bed->source[i]);
}

static double amax_of(const struct bed *bed, uint64_t first, uint64_t count)
{
  double amax = 0;
  for (uint64_t i = first; i < first + count; ++i) amax = fmax(amax, fabs(source_at(bed, i)));
  return amax;
}

/* Sizes agree with what the simulator charges for the format. */
static void sizes_match_the_bill(void **state)
{
  (void)state;
  static const enum kc_weight_format formats[] = {
      KC_WEIGHT_BF16,     KC_WEIGHT_FP8,       KC_WEIGHT_FP8_BLOCK, KC_WEIGHT_INT4_G32,
      KC_WEIGHT_INT4_G64, KC_WEIGHT_INT4_G128, KC_WEIGHT_MXFP4,     KC_WEIGHT_NVFP4};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; ++i) {
    struct kc_quantised_sizes s;
    assert_true(kc_quantised_sizes(formats[i], 200, 384, &s));
    const uint64_t bytes =
        s.data_bytes + 4 * s.scale_f32_count + 2 * s.scale_bf16_count + s.scale_u8_count;
    assert_int_equal(bytes, kc_weight_bytes(formats[i], 200, 384));
  }
  struct kc_quantised_sizes s;
  assert_false(kc_quantised_sizes(KC_WEIGHT_INT4_G128, 8, 160, &s));
  assert_false(kc_quantised_sizes(KC_WEIGHT_INT4_G32, 8, 40, &s));
  assert_false(kc_quantised_sizes(KC_WEIGHT_FP32, 8, 64, &s));
  assert_false(kc_quantised_sizes(KC_WEIGHT_FP8, 0, 64, &s));
}

/* A symmetric step of 2 amax / 15, rounded to bf16: no element is off by more than half a step, but
 * the clamped positive end, which lies half a step (and the scale's rounding) outside. */
static void int4_error_is_half_a_step(void **state)
{
  (void)state;
  static struct bed bed;
  static const struct {
    enum kc_weight_format format;
    uint64_t group;
  } cases[] = {{KC_WEIGHT_INT4_G32, 32}, {KC_WEIGHT_INT4_G64, 64}, {KC_WEIGHT_INT4_G128, 128}};
  for (int c = 0; c < 3; ++c) {
    fill(&bed, 2);
    const struct kc_quantised out = arrays(&bed);
    assert_true(kc_quantise_weight(cases[c].format, ROWS, COLS, bed.source, &out));
    for (uint64_t i = 0; i < COUNT; ++i) {
      const uint64_t group = i / cases[c].group;
      const double step = 2 * amax_of(&bed, group * cases[c].group, cases[c].group) / 15;
      const double value = (double)kc_int4_decode(kc_int4_get(bed.codes, i), bed.bf16[group]);
      assert_true(fabs(value - source_at(&bed, i)) <= step * (0.5 + 8.0 / 256));
    }
  }
}

static double relative_error(const struct bed *bed, const double *value)
{
  double wrong = 0, all = 0;
  for (uint64_t i = 0; i < COUNT; ++i) {
    wrong += pow(value[i] - source_at(bed, i), 2);
    all += pow(source_at(bed, i), 2);
  }
  return wrong / all;
}

/* e4m3 has 4 significant bits: normal values are within 2^-4 of themselves; block scales reach
 * ragged edges (160 rows are one block and a quarter). */
static void fp8_error_is_a_sixteenth(void **state)
{
  (void)state;
  static struct bed bed;
  static double value[COUNT];
  fill(&bed, 4);
  bed.source[COUNT - 1] = 0x4180; /* 16: an outlier that only the last block should feel */
  const struct kc_quantised out = arrays(&bed);
  assert_true(kc_quantise_weight(KC_WEIGHT_FP8_BLOCK, ROWS, COLS, bed.source, &out));
  for (uint64_t i = 0; i < COUNT; ++i) {
    const float scale = bed.f32[i / COLS / 128 * 2 + i % COLS / 128];
    value[i] = (double)kc_e4m3_decode(bed.codes[i]) * (double)scale;
    const double bound = fmax(fabs(source_at(&bed, i)) / 16, 0x1p-10 * (double)scale);
    assert_true(fabs(value[i] - source_at(&bed, i)) <= bound * 1.0001);
  }
  assert_true(bed.f32[3] == 16.0f / 448.0f);
  assert_true(bed.f32[0] < 0.001f && bed.f32[1] < 0.001f && bed.f32[2] < 0.001f);
  assert_true(kc_quantise_weight(KC_WEIGHT_FP8, ROWS, COLS, bed.source, &out));
  assert_true(bed.f32[0] == 16.0f / 448.0f);
  assert_int_equal(bed.codes[COUNT - 1], 0x7E);
}

/* Known figures for normal data: an e2m1 block loses about 1 % of the energy, int4 in groups of 32
 * less than 1 %; a wrong scale or nibble order loses more than all of it. */
static void fp4_keeps_the_energy(void **state)
{
  (void)state;
  static struct bed bed;
  static double value[COUNT];
  fill(&bed, 6);
  const struct kc_quantised out = arrays(&bed);
  assert_true(kc_quantise_weight(KC_WEIGHT_MXFP4, ROWS, COLS, bed.source, &out));
  for (uint64_t i = 0; i < COUNT; ++i) {
    value[i] = (double)kc_e2m1_decode(kc_fp4_get(bed.codes, i)) *
               (double)kc_e8m0_decode(bed.u8[i / 32]);
  }
  assert_true(relative_error(&bed, value) < 0.025);
  assert_true(kc_quantise_weight(KC_WEIGHT_NVFP4, ROWS, COLS, bed.source, &out));
  for (uint64_t i = 0; i < COUNT; ++i) {
    value[i] = (double)kc_e2m1_decode(kc_fp4_get(bed.codes, i)) *
               (double)kc_e4m3_decode(bed.u8[i / 16]) * (double)bed.f32[0];
  }
  assert_true(relative_error(&bed, value) < 0.012);
}

static void zeros_stay_zeros(void **state)
{
  (void)state;
  static struct bed bed;
  memset(&bed, 0, sizeof bed);
  const struct kc_quantised out = arrays(&bed);
  assert_true(kc_quantise_weight(KC_WEIGHT_INT4_G32, ROWS, COLS, bed.source, &out));
  assert_int_equal(kc_int4_get(bed.codes, 77), 0);
  assert_true(kc_quantise_weight(KC_WEIGHT_FP8, ROWS, COLS, bed.source, &out));
  assert_true(bed.codes[5] == 0 && bed.f32[0] == 1.0f);
  assert_true(kc_quantise_weight(KC_WEIGHT_NVFP4, ROWS, COLS, bed.source, &out));
  assert_int_equal(kc_fp4_get(bed.codes, 9) & 7, 0);
  assert_true(kc_quantise_weight(KC_WEIGHT_MXFP4, ROWS, COLS, bed.source, &out));
  assert_int_equal(kc_fp4_get(bed.codes, 9) & 7, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_match_the_bill),      cmocka_unit_test(int4_error_is_half_a_step),
      cmocka_unit_test(fp8_error_is_a_sixteenth),  cmocka_unit_test(fp4_keeps_the_energy),
      cmocka_unit_test(zeros_stay_zeros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
