/* Checkpoint packings against addresses written down a second time: each test packs random codes by
 * a formula for the bit of element (n, k) in the whole array, taken from the format's description,
 * and expects the reader to find them. One-hot weights then show that no two elements are mixed up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/packing.h"

enum { N = 24, K = 128, GROUP = 32, GROUPS = K / GROUP };

struct checkpoint {
  uint8_t codes[N * K / 2];
  uint8_t zeros[N * GROUPS / 2];
  uint16_t scales[N * GROUPS];
  uint32_t group_index[K];
};

static uint64_t draw(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* Puts 4 bits at this bit of a little-endian array. */
static void put(uint8_t *array, uint64_t bit, unsigned value)
{
  for (unsigned i = 0; i < 4; ++i) {
    const uint64_t at = bit + i;
    array[at / 8] = (uint8_t)((array[at / 8] & ~(1u << (at % 8))) |
                              (((value >> i) & 1u) << (at % 8)));
  }
}

/* AutoAWQ packs columns 0 2 4 6 1 3 5 7 of each eight into nibbles 0 .. 7. */
static uint64_t awq_bit(uint64_t column)
{
  static const unsigned order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  unsigned nibble = 0;
  while (order[nibble] != column % 8) ++nibble;
  return column / 8 * 32 + 4 * nibble;
}

static uint64_t code_bit(enum kc_packing packing, uint64_t n, uint64_t k)
{
  if (packing == KC_PACKING_COMPRESSED_TENSORS) return (n * K + k) * 4;
  if (packing == KC_PACKING_AWQ) return k * N * 4 + awq_bit(n);
  return (k / 8 * N + n) * 32 + k % 8 * 4; /* GPTQ */
}

static uint64_t zero_bit(enum kc_packing packing, uint64_t n, uint64_t group)
{
  if (packing == KC_PACKING_COMPRESSED_TENSORS) return (n / 8 * GROUPS + group) * 32 + n % 8 * 4;
  if (packing == KC_PACKING_AWQ) return group * N * 4 + awq_bit(n);
  return group * N * 4 + n * 4;
}

static uint64_t scale_index(enum kc_packing packing, uint64_t n, uint64_t group)
{
  return packing == KC_PACKING_COMPRESSED_TENSORS ? n * GROUPS + group : group * N + n;
}

static struct kc_packed view(struct checkpoint *c, enum kc_packing packing)
{
  return (struct kc_packed){
      .packing = packing,
      .rows = N,
      .cols = K,
      .group = GROUP,
      .codes = c->codes,
      .codes_bytes = sizeof c->codes,
      .zeros = c->zeros,
      .zeros_bytes = sizeof c->zeros,
      .scales = c->scales,
      .scales_bytes = sizeof c->scales,
      .scale_type = KC_SCALE_BF16,
  };
}

static unsigned stored_zero(enum kc_packing packing, unsigned zero)
{
  return packing == KC_PACKING_GPTQ ? zero - 1 : zero;
}

/* Codes, scales and (symmetric) zeros drawn, and packed. */
static void fill(struct checkpoint *c, enum kc_packing packing, unsigned code[N][K],
                 uint16_t scale[N][GROUPS], uint64_t seed)
{
  memset(c, 0xEE, sizeof *c);
  for (uint64_t n = 0; n < N; ++n) {
    for (uint64_t k = 0; k < K; ++k) {
      code[n][k] = (unsigned)(draw(&seed) % 16);
      put(c->codes, code_bit(packing, n, k), code[n][k]);
    }
    for (uint64_t g = 0; g < GROUPS; ++g) {
      scale[n][g] = (uint16_t)(0x3C00 + draw(&seed) % 256);
      c->scales[scale_index(packing, n, g)] = scale[n][g];
      put(c->zeros, zero_bit(packing, n, g), stored_zero(packing, 8));
    }
  }
}

static const enum kc_packing packings[] = {KC_PACKING_COMPRESSED_TENSORS, KC_PACKING_GPTQ,
                                           KC_PACKING_GPTQ_V2, KC_PACKING_AWQ};
enum { PACKINGS = sizeof packings / sizeof packings[0] };

static void reads_what_was_packed(void **state)
{
  (void)state;
  for (int p = 0; p < PACKINGS; ++p) {
    struct checkpoint c;
    unsigned code[N][K];
    uint16_t scale[N][GROUPS];
    fill(&c, packings[p], code, scale, 7 + (uint64_t)p);
    const struct kc_packed packed = view(&c, packings[p]);
    uint8_t out[N * K / 2];
    uint16_t out_scales[N * GROUPS];
    uint64_t rounded = 99;
    assert_int_equal(kc_packing_read(&packed, out, out_scales, &rounded), KC_PACKING_OK);
    assert_int_equal(rounded, 0);
    for (uint64_t n = 0; n < N; ++n) {
      for (uint64_t k = 0; k < K; ++k) {
        const uint64_t at = n * K + k;
        const unsigned got = ((unsigned)out[at / 2] >> (at % 2 * 4)) & 15u;
        if (got != code[n][k]) {
          fail_msg("packing %d, row %d col %d: %u, want %u", p, (int)n, (int)k, got, code[n][k]);
        }
      }
      assert_memory_equal(out_scales + n * GROUPS, scale[n], sizeof scale[n]);
    }
  }
}

/* Every element alone: one place in, the same one place out. */
static void one_hot_weights(void **state)
{
  (void)state;
  for (int p = 0; p < PACKINGS; ++p) {
    for (uint64_t hot = 0; hot < N * K; hot += 5) {
      struct checkpoint c;
      memset(&c, 0, sizeof c);
      for (uint64_t i = 0; i < N * K; ++i) {
        put(c.codes, code_bit(packings[p], i / K, i % K), i == hot ? 13 : 8);
      }
      for (uint64_t i = 0; i < N * GROUPS; ++i) c.scales[i] = 0x3F80;
      struct kc_packed packed = view(&c, packings[p]);
      packed.zeros = NULL;
      packed.zeros_bytes = 0;
      uint16_t values[N * K];
      assert_int_equal(kc_packing_read_bf16(&packed, values), KC_PACKING_OK);
      for (uint64_t i = 0; i < N * K; ++i) {
        assert_int_equal(values[i], i == hot ? 0x40A0u : 0u); /* 5.0: 13 - 8 */
      }
    }
  }
}

/* Kimi's checkpoints pack by compressed-tensors: eight int4 of a row in one int32, least first. */
static void a_word_by_hand(void **state)
{
  (void)state;
  struct checkpoint c;
  memset(&c, 0x88, sizeof c); /* all codes 8: zero */
  for (uint64_t i = 0; i < N * GROUPS; ++i) c.scales[i] = 0x3F00; /* 0.5 */
  const uint32_t word = 0xFEDCBA98u; /* codes 8 9 10 .. 15: values 0 1 .. 7 */
  memcpy(c.codes, &word, sizeof word);
  struct kc_packed packed = view(&c, KC_PACKING_COMPRESSED_TENSORS);
  packed.zeros = NULL;
  uint16_t values[N * K];
  assert_int_equal(kc_packing_read_bf16(&packed, values), KC_PACKING_OK);
  for (int k = 0; k < 8; ++k) assert_true(kc_bf16_decode(values[k]) == 0.5f * (float)k);
  assert_int_equal(values[8], 0);
}

static void asymmetric_zeros(void **state)
{
  (void)state;
  for (int p = 0; p < PACKINGS; ++p) {
    struct checkpoint c;
    unsigned code[N][K];
    uint16_t scale[N][GROUPS], values[N * K], scales[N * GROUPS];
    uint8_t codes[N * K / 2];
    uint64_t rounded;
    fill(&c, packings[p], code, scale, 3);
    put(c.zeros, zero_bit(packings[p], 9, 2), stored_zero(packings[p], 3));
    const struct kc_packed packed = view(&c, packings[p]);
    assert_int_equal(kc_packing_read(&packed, codes, scales, &rounded), KC_PACKING_ASYMMETRIC);
    assert_int_equal(kc_packing_read_bf16(&packed, values), KC_PACKING_OK);
    for (uint64_t i = 0; i < N * K; ++i) {
      const uint64_t n = i / K, k = i % K;
      const int zero = n == 9 && k / GROUP == 2 ? 3 : 8;
      const float want = (float)((int)code[n][k] - zero) * kc_bf16_decode(scale[n][k / GROUP]);
      assert_true(kc_bf16_decode(values[i]) == kc_bf16_decode(kc_bf16_encode(want)));
    }
  }
}

static void scales_of_other_types(void **state)
{
  (void)state;
  struct checkpoint c;
  memset(&c, 0x88, sizeof c);
  for (uint64_t i = 0; i < N * GROUPS; ++i) c.scales[i] = 0x3C00; /* 1.0 in fp16 */
  c.scales[3] = 0x3C01; /* 1 + 2^-10: bf16 does not hold it */
  struct kc_packed packed = view(&c, KC_PACKING_AWQ);
  packed.scale_type = KC_SCALE_F16;
  packed.zeros = NULL;
  uint8_t codes[N * K / 2];
  uint16_t scales[N * GROUPS];
  uint64_t rounded;
  assert_int_equal(kc_packing_read(&packed, codes, scales, &rounded), KC_PACKING_OK);
  assert_int_equal(rounded, 1);
  assert_int_equal(scales[0], 0x3F80);
  float wide[N * GROUPS];
  for (uint64_t i = 0; i < N * GROUPS; ++i) wide[i] = 2.0f;
  packed.scale_type = KC_SCALE_F32;
  packed.scales = wide;
  packed.scales_bytes = sizeof wide;
  assert_int_equal(kc_packing_read(&packed, codes, scales, &rounded), KC_PACKING_OK);
  assert_int_equal(scales[0], 0x4000);
}

static void refuse(struct kc_packed packed, enum kc_packing_status want)
{
  uint8_t codes[N * K / 2];
  uint16_t scales[N * GROUPS], values[N * K];
  uint64_t rounded;
  assert_int_equal(kc_packing_read(&packed, codes, scales, &rounded), want);
  assert_int_equal(kc_packing_read_bf16(&packed, values), want);
}

static void lengths_and_shapes_are_checked(void **state)
{
  (void)state;
  struct checkpoint c;
  memset(&c, 0x88, sizeof c);
  for (uint32_t k = 0; k < K; ++k) c.group_index[k] = k / GROUP;
  const struct kc_packed good = view(&c, KC_PACKING_GPTQ_V2);
  struct kc_packed bad = good;
  bad.codes_bytes -= 1, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.codes_bytes += 4, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.scales_bytes -= 2, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.zeros_bytes -= 4, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.codes = NULL, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.rows = 0, refuse(bad, KC_PACKING_BAD_SHAPE), bad = good;
  bad.rows = 12, refuse(bad, KC_PACKING_BAD_SHAPE), bad = good;
  bad.cols = 100, refuse(bad, KC_PACKING_BAD_SHAPE), bad = good;
  bad.group = 48, refuse(bad, KC_PACKING_BAD_SHAPE), bad = good;
  bad.group = 0, refuse(bad, KC_PACKING_BAD_SHAPE), bad = good;
  bad.rows = 0xFFFFFFF8u, bad.cols = 0xFFFFFFE0u, refuse(bad, KC_PACKING_BAD_BYTES), bad = good;
  bad.group_index = c.group_index;
  refuse(bad, KC_PACKING_BAD_BYTES);
  bad.group_index_bytes = sizeof c.group_index;
  refuse(bad, KC_PACKING_OK);
  c.group_index[40] = 0;
  refuse(bad, KC_PACKING_BAD_ORDER);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_was_packed),
      cmocka_unit_test(one_hot_weights),
      cmocka_unit_test(a_word_by_hand),
      cmocka_unit_test(asymmetric_zeros),
      cmocka_unit_test(scales_of_other_types),
      cmocka_unit_test(lengths_and_shapes_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
