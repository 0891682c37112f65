/* Every code of every small float, against values computed from the published definitions: decode
 * by formula in double, encode by a search for the nearest value. Nothing here shares code with the
 * formats: the oracle knows only ldexp and comparisons.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/fp16.h"
#include "kernels/formats/fp4.h"
#include "kernels/formats/int4.h"

/* ---- the definitions ---- */

/* OCP OFP8 1.0, E4M3: m * 2^-9 if e = 0, else (1 + m/8) * 2^(e-7). `magnitude` < 127. */
static double e4m3_definition(unsigned magnitude)
{
  const unsigned e = magnitude / 8, m = magnitude % 8;
  return e == 0 ? ldexp(m, -9) : ldexp(1.0 + m / 8.0, (int)e - 7);
}

/* The nearest of the 127 magnitudes, the even code among equals; beyond the last: the last. */
static unsigned e4m3_nearest(double a)
{
  unsigned best = 0;
  double best_distance = fabs(a);
  for (unsigned code = 1; code < 127; ++code) {
    const double distance = fabs(a - e4m3_definition(code));
    if (distance > best_distance) continue;
    if (distance == best_distance && code % 2 == 1) continue;
    best = code;
    best_distance = distance;
  }
  return best;
}

static void expect_e4m3(float x)
{
  const unsigned sign = signbit(x) ? 0x80 : 0;
  const unsigned want = isnan(x)   ? 0x7F
                        : isinf(x) ? (sign | 0x7E)
                                   : (sign | e4m3_nearest(fabs((double)x)));
  const unsigned got = kc_e4m3_encode(x);
  if (got == want) return;
  fail_msg("e4m3 of %a: got 0x%02x, want 0x%02x", (double)x, got, want);
}

/* IEEE 754 interchange formats: exponent of `exponent_bits`, mantissa of `mantissa_bits`. */
static double ieee_definition(unsigned code, int exponent_bits, int mantissa_bits)
{
  const unsigned m = code & ((1u << mantissa_bits) - 1);
  const unsigned e = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (code >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  if (e == (1u << exponent_bits) - 1) return m != 0 ? (double)NAN : sign * (double)INFINITY;
  if (e == 0) return sign * ldexp(m, 1 - bias - mantissa_bits);
  return sign * ldexp(ldexp(1.0, mantissa_bits) + m, (int)e - bias - mantissa_bits);
}

static float f32_of(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t bits_of(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static bool same_value(double got, double want)
{
  if (isnan(want)) return isnan(got);
  return got == want && signbit(got) == signbit(want);
}

/* ---- e4m3 ---- */

static void e4m3_decodes_all_256(void **state)
{
  (void)state;
  for (unsigned code = 0; code < 256; ++code) {
    const unsigned magnitude = code & 127;
    double want = magnitude == 127 ? (double)NAN : e4m3_definition(magnitude);
    if (code >= 128) want = -want;
    const double got = (double)kc_e4m3_decode((uint8_t)code);
    if (!same_value(got, want)) fail_msg("code 0x%02x: got %a, want %a", code, got, want);
  }
  assert_true(kc_e4m3_decode(0x7E) == 448.0f); /* OFP8 1.0, table of values */
  assert_true(kc_e4m3_decode(0x08) == 0x1p-6f);
  assert_true(kc_e4m3_decode(0x01) == 0x1p-9f);
}

static void e4m3_encodes_all_bf16(void **state)
{
  (void)state;
  for (uint32_t code = 0; code < 65536; ++code) expect_e4m3(f32_of(code << 16));
}

static void e4m3_encodes_every_midpoint(void **state)
{
  (void)state;
  for (unsigned low = 0; low < 126; ++low) {
    const float middle = (float)((e4m3_definition(low) + e4m3_definition(low + 1)) / 2);
    const unsigned even = low % 2 == 0 ? low : low + 1;
    assert_int_equal(kc_e4m3_encode(middle), even);
    assert_int_equal(kc_e4m3_encode(-middle), 0x80 | even);
    assert_int_equal(kc_e4m3_encode(nextafterf(middle, 0.0f)), low);
    assert_int_equal(kc_e4m3_encode(nextafterf(middle, INFINITY)), low + 1);
    assert_int_equal(kc_e4m3_encode(nextafterf(-middle, 0.0f)), 0x80 | low);
    assert_int_equal(kc_e4m3_encode(nextafterf(-middle, -INFINITY)), 0x80 | (low + 1));
    const float exact = (float)e4m3_definition(low);
    expect_e4m3(exact);
    expect_e4m3(nextafterf(exact, INFINITY));
    expect_e4m3(nextafterf(exact, -INFINITY));
  }
}

static void e4m3_saturates(void **state)
{
  (void)state;
  static const float beyond[] = {448.0f, 449.0f, 463.9f, 464.0f, 464.1f, 480.0f, 1e30f, INFINITY};
  for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; ++i) {
    assert_int_equal(kc_e4m3_encode(beyond[i]), 0x7E);
    assert_int_equal(kc_e4m3_encode(-beyond[i]), 0xFE);
  }
  assert_int_equal(kc_e4m3_encode(NAN), 0x7F);
  assert_int_equal(kc_e4m3_encode(-NAN), 0x7F);
  assert_int_equal(kc_e4m3_encode(0.0f), 0x00);
  assert_int_equal(kc_e4m3_encode(-0.0f), 0x80);
  assert_int_equal(kc_e4m3_encode(0x1p-149f), 0x00);
}

static void e4m3_encodes_random_floats(void **state)
{
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 200000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(seed >> 32);
    if (i % 2 == 0) bits = (bits & 0x807FFFFFu) | ((110u + (bits >> 23) % 28u) << 23);
    expect_e4m3(f32_of(bits));
  }
}

/* The scale of a group: the definition is a search over powers of two. */
static void e4m3_group_scale_is_the_smallest_power(void **state)
{
  (void)state;
  for (uint32_t code = 1; code < 0x7F80; ++code) {
    const float amax = f32_of(code << 16);
    int exponent = -126;
    while (448.0 * ldexp(1.0, exponent) < (double)amax) ++exponent;
    const float got = kc_e4m3_group_scale(amax);
    if ((double)got != ldexp(1.0, exponent)) {
      fail_msg("amax %a: got %a, want 2^%d", (double)amax, (double)got, exponent);
    }
  }
  assert_true(kc_e4m3_group_scale(0.0f) == 1.0f);
}

/* ---- bf16, fp16 ---- */

static void bf16_decodes_all(void **state)
{
  (void)state;
  for (unsigned code = 0; code < 65536; ++code) {
    const double want = ieee_definition(code, 8, 7), got = (double)kc_bf16_decode((uint16_t)code);
    if (!same_value(got, want)) fail_msg("code 0x%04x: got %a, want %a", code, got, want);
    if (!isnan(want)) assert_int_equal(kc_bf16_encode((float)got), code);
  }
}

/* Magnitude of a bf16 code, 2^128 in the place of infinity: where rounding sees the next number. */
static double bf16_place(unsigned code)
{
  return code == 0x7F80 ? ldexp(1.0, 128) : ieee_definition(code, 8, 7);
}

static void expect_bf16_between(unsigned low, float x)
{
  const double below = fabs((double)x) - bf16_place(low);
  const double above = bf16_place(low + 1) - fabs((double)x);
  const unsigned want = below < above ? low : below > above ? low + 1 : low + low % 2;
  const unsigned sign = signbit(x) ? 0x8000 : 0;
  const unsigned got = kc_bf16_encode(x);
  if (got != (sign | want)) {
    fail_msg("bf16 of %a: got 0x%04x, want 0x%04x", (double)x, got, sign | want);
  }
}

static void bf16_encodes_every_midpoint(void **state)
{
  (void)state;
  for (unsigned low = 0; low < 0x7F80; ++low) {
    for (uint32_t tail = 0x7FFF; tail <= 0x8001; ++tail) {
      expect_bf16_between(low, f32_of((uint32_t)low << 16 | tail));
      expect_bf16_between(low, f32_of(0x80000000u | (uint32_t)low << 16 | tail));
    }
    expect_bf16_between(low, f32_of((uint32_t)low << 16 | 1u));
    expect_bf16_between(low, f32_of((uint32_t)low << 16 | 0xFFFFu));
  }
}

static void bf16_keeps_special_values(void **state)
{
  (void)state;
  assert_int_equal(kc_bf16_encode(INFINITY), 0x7F80);
  assert_int_equal(kc_bf16_encode(-INFINITY), 0xFF80);
  assert_int_equal(kc_bf16_encode(f32_of(0x7F7FFFFF)), 0x7F80); /* FLT_MAX is beyond the midpoint */
  for (unsigned payload = 1; payload < 0x7FFFFF; payload += 4097) {
    assert_true(isnan(kc_bf16_decode(kc_bf16_encode(f32_of(0x7F800000u | payload)))));
    assert_true(isnan(kc_bf16_decode(kc_bf16_encode(f32_of(0xFF800000u | payload)))));
  }
}

static void fp16_decodes_all(void **state)
{
  (void)state;
  for (unsigned code = 0; code < 65536; ++code) {
    const double want = ieee_definition(code, 5, 10), got = (double)kc_f16_decode((uint16_t)code);
    if (!same_value(got, want)) fail_msg("code 0x%04x: got %a, want %a", code, got, want);
  }
}

/* ---- 4 bits ---- */

/* OCP MX 1.0, table of E2M1. */
static const double e2m1_values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static void e2m1_both_ways(void **state)
{
  (void)state;
  for (unsigned code = 0; code < 16; ++code) {
    const double want = code < 8 ? e2m1_values[code] : -e2m1_values[code - 8];
    assert_true(same_value((double)kc_e2m1_decode((uint8_t)code), want));
    assert_int_equal(kc_e2m1_encode((float)want), code);
  }
  for (unsigned low = 0; low < 7; ++low) {
    const float middle = (float)((e2m1_values[low] + e2m1_values[low + 1]) / 2);
    assert_int_equal(kc_e2m1_encode(middle), low + low % 2);
    assert_int_equal(kc_e2m1_encode(-middle), 8 | (low + low % 2));
    assert_int_equal(kc_e2m1_encode(nextafterf(middle, 0.0f)), low);
    assert_int_equal(kc_e2m1_encode(nextafterf(middle, INFINITY)), low + 1);
  }
  assert_int_equal(kc_e2m1_encode(INFINITY), 7);
  assert_int_equal(kc_e2m1_encode(-1e9f), 15);
  assert_int_equal(kc_e2m1_encode(NAN), 7);
}

static void e8m0_is_a_power_of_two(void **state)
{
  (void)state;
  for (int code = 0; code < 255; ++code) {
    assert_true((double)kc_e8m0_decode((uint8_t)code) == ldexp(1.0, code - 127));
  }
  assert_true(isnan(kc_e8m0_decode(255)));
  /* OCP MX 1.0: shared exponent = floor(log2 amax) - 2. 6 -> 2^0, 8 -> 2^1, 3.9 -> 2^-1. */
  assert_int_equal(kc_mxfp4_scale(6.0f), 127);
  assert_int_equal(kc_mxfp4_scale(8.0f), 128);
  assert_int_equal(kc_mxfp4_scale(3.9f), 126);
  assert_int_equal(kc_mxfp4_scale(0.0f), 0);
}

/* amax 7.5 gives scale 1: codes are the rounded values, half away from zero, clamped. */
static void int4_by_hand(void **state)
{
  (void)state;
  assert_int_equal(kc_int4_scale(7.5f), 0x3F80);
  static const struct {
    float w;
    int code;
  } cases[] = {{0.0f, 0},  {0.49f, 0}, {0.5f, 1},   {-0.5f, -1}, {-0.49f, 0}, {6.4f, 6},
               {7.5f, 7},  {9.0f, 7},  {-7.5f, -8}, {-7.4f, -7}, {-8.4f, -8}, {-100.0f, -8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    assert_int_equal(kc_int4_encode(cases[i].w, 0x3F80), cases[i].code);
  }
  assert_true(kc_int4_decode(-3, 0x4000) == -6.0f); /* scale 2 */
  assert_true(kc_int4_scale(0.0f) != 0);
  uint8_t packed[2] = {0xFF, 0xFF};
  kc_int4_set(packed, 0, -8); /* stored as 0 in the low nibble */
  kc_int4_set(packed, 3, 1);  /* stored as 9 in the high nibble */
  assert_int_equal(packed[0], 0xF0);
  assert_int_equal(packed[1], 0x9F);
  assert_int_equal(kc_int4_get(packed, 0), -8);
  assert_int_equal(kc_int4_get(packed, 1), 7);
  assert_int_equal(kc_int4_get(packed, 3), 1);
}

static void nibbles_leave_their_neighbours(void **state)
{
  (void)state;
  uint8_t packed[8];
  for (uint64_t place = 0; place < 16; ++place) {
    memset(packed, 0x5A, sizeof packed);
    kc_fp4_set(packed, place, 0xC);
    for (uint64_t i = 0; i < 16; ++i) {
      assert_int_equal(kc_fp4_get(packed, i), i == place ? 0xC : i % 2 == 0 ? 0xA : 0x5);
    }
  }
  assert_int_equal(bits_of(kc_bf16_decode(0x3F80)), 0x3F800000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(e4m3_decodes_all_256),
      cmocka_unit_test(e4m3_encodes_all_bf16),
      cmocka_unit_test(e4m3_encodes_every_midpoint),
      cmocka_unit_test(e4m3_saturates),
      cmocka_unit_test(e4m3_encodes_random_floats),
      cmocka_unit_test(e4m3_group_scale_is_the_smallest_power),
      cmocka_unit_test(bf16_decodes_all),
      cmocka_unit_test(bf16_encodes_every_midpoint),
      cmocka_unit_test(bf16_keeps_special_values),
      cmocka_unit_test(fp16_decodes_all),
      cmocka_unit_test(e2m1_both_ways),
      cmocka_unit_test(e8m0_is_a_power_of_two),
      cmocka_unit_test(int4_by_hand),
      cmocka_unit_test(nibbles_leave_their_neighbours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
