/* Weights: bytes as the memory bill says, rows where they belong, synthetic elements by formula,
 * rotary frequencies by the published formulas, KV pages as large as the bill's tokens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/exec/cache.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"
#include "kernels/formats/int4.h"
#include "tiny_models.h"

static const char *const configs[2] = {tiny_gqa_config, tiny_mla_config};

static void bytes_are_those_of_the_bill(void **state)
{
  (void)state;
  static struct kc_model model;
  static const char *const precisions[] = {"default=bf16", "default=fp8", "default=int4-g32",
                                           "routed_experts=int4-g32,attention=fp8",
                                           "default=mxfp4"};
  for (int m = 0; m < 2; m++) {
    for (int p = 0; p < 5; p++) {
      struct kc_weights weights;
      struct kc_precision precision;
      struct kc_diag diag = {0};
      tiny_weights(&weights, configs[m], precisions[p], 512, 1);
      assert_int_equal(kc_model_parse(&model, configs[m], strlen(configs[m]), "t.json", &diag),
                       KC_OK);
      kc_precision_default(&precision);
      assert_int_equal(kc_precision_parse(&precision, precisions[p], &diag), KC_OK);
      const double bill = (double)kc_model_checkpoint_bytes(&model, &precision);
      const double held = (double)weights.weight_bytes;
      print_message("model %d %s: %.0f held, %.0f on the bill\n", m, precisions[p], held, bill);
      /* kv_b is kept in bf16 whatever its class's format, because queries absorb it. */
      if (p == 0) assert_true(fabs(held / bill - 1) < 0.005);
      kc_weights_free(&weights);
    }
  }
}

/* Row 3 of k is row heads * 16 + 3 of the fused matrix; elements follow the formula. */
static void fused_rows_are_their_parts(void **state)
{
  (void)state;
  struct kc_weights weights;
  tiny_weights(&weights, tiny_gqa_config, "default=bf16", 512, 77);
  const uint16_t *qkv = weights.layer[1].qkv.data;
  const uint64_t stream = kc_synthetic_stream("model.layers.1.self_attn.k_proj.weight");
  for (uint64_t i = 0; i < 64; i++) {
    const float want = 0.125f * kc_counter_normal(77, stream, 3 * 64 + i);
    assert_int_equal(qkv[(4 * 16 + 3) * 64 + i], kc_bf16_encode(want));
  }
  const uint16_t *gate_up = weights.layer[0].gate_up.data;
  const uint64_t up = kc_synthetic_stream("model.layers.0.mlp.up_proj.weight");
  assert_int_equal(gate_up[96 * 64 + 5], kc_bf16_encode(0.125f * kc_counter_normal(77, up, 5)));
  kc_weights_free(&weights);
}

/* kv_b rows of head h: nope keys, then values; uk is the keys' part transposed. */
static void kv_b_is_cut(void **state)
{
  (void)state;
  struct kc_weights weights;
  tiny_weights(&weights, tiny_mla_config, "default=bf16", 512, 9);
  const struct kc_layer_weights *w = &weights.layer[2];
  const uint64_t stream = kc_synthetic_stream("model.layers.2.self_attn.kv_b_proj.weight");
  const float deviation = kc_synthetic_deviation("x.weight", 128);
  for (uint64_t h = 0; h < 4; h++) {
    for (uint64_t n = 0; n < 32; n++) {
      for (uint64_t i = 0; i < 128; i += 17) {
        const uint64_t at = (h * 32 + n) * 128 + i;
        const uint16_t want = kc_bf16_encode(deviation * kc_counter_normal(9, stream, at));
        const uint16_t got = n < 16 ? w->uk[(h * 128 + i) * 16 + n]
                                    : w->uv[(h * 16 + n - 16) * 128 + i];
        assert_int_equal(got, want);
      }
    }
  }
  kc_weights_free(&weights);
}

/* Expert 5's matrices start where the strides say and hold that expert's codes. */
static void experts_lie_at_their_strides(void **state)
{
  (void)state;
  struct kc_weights weights;
  tiny_weights(&weights, tiny_mla_config, "routed_experts=int4-g32", 512, 9);
  const struct kc_layer_weights *w = &weights.layer[1];
  const uint8_t *codes = (const uint8_t *)w->expert_down.data + 5 * w->down_data_bytes;
  const uint16_t *scales = w->expert_down.scale_bf16 + 5 * w->down_scale_bytes / 2;
  const uint64_t stream = kc_synthetic_stream("model.layers.1.mlp.experts.5.down_proj.weight");
  const float deviation = kc_synthetic_deviation("x.weight", 32);
  for (uint64_t i = 0; i < 64 * 32; i++) {
    const double want = (double)(deviation * kc_counter_normal(9, stream, i));
    const double scale = (double)kc_bf16_decode(scales[i / 32]);
    const double got = kc_int4_get(codes, i) * scale;
    assert_true(fabs(got - want) <= 0.55 * scale);
  }
  kc_weights_free(&weights);
}

/* Llama 3.1's own rule, written as its reference code has it; YaRN at the ends of its ramp. */
static void frequencies_follow_the_papers(void **state)
{
  (void)state;
  struct kc_recipe r = {.rope_theta = 500000.0, .head_dim = 128, .scaling = KC_ROPE_LLAMA3,
                        .rope_factor = 8, .rope_low = 1, .rope_high = 4, .rope_original = 8192};
  double f[64];
  kc_rope_frequencies(&r, 128, f);
  for (int i = 0; i < 64; i++) {
    const double plain = pow(500000.0, -i / 64.0), wavelength = 2 * 3.14159265358979323846 / plain;
    double want = plain;
    if (wavelength > 8192.0) want = plain / 8;
    else if (wavelength > 8192.0 / 4) {
      const double smooth = (8192.0 / wavelength - 1) / 3;
      want = (1 - smooth) * plain / 8 + smooth * plain;
    }
    assert_true(fabs(f[i] / want - 1) < 1e-12);
  }
  r = (struct kc_recipe){.mla = true, .rope_theta = 10000.0, .head_dim = 192, .rope = 64,
                         .scaling = KC_ROPE_YARN, .rope_factor = 40, .rope_low = 1,
                         .rope_high = 32, .rope_original = 4096, .rope_mscale = 1,
                         .rope_mscale_all = 1};
  kc_rope_frequencies(&r, 64, f);
  assert_true(f[0] == 1.0); /* fast pairs are kept */
  assert_true(fabs(f[31] * 40 / pow(10000.0, -31.0 / 32) - 1) < 1e-12); /* slow ones stretched */
  /* DeepSeek-V3: mscale = 0.1 ln 40 + 1 = 1.3689, squared into the scale 192^-1/2. */
  assert_true(fabs(kc_attention_scale(&r) - 1.36888794 * 1.36888794 / sqrt(192.0)) < 1e-7);
  assert_true(kc_rope_amplitude(&r) == 1.0);
}

static void pages_are_those_of_the_bill(void **state)
{
  (void)state;
  static struct kc_model model;
  static const enum kc_kv_format formats[] = {KC_KV_BF16, KC_KV_FP8_E4M3};
  for (int m = 0; m < 2; m++) {
    for (int f = 0; f < 2; f++) {
      struct kc_recipe recipe;
      struct kc_diag diag = {0};
      const struct kc_cache_config config = {formats[f], formats[f], 10, 64, 0, 0, {0}};
      tiny_recipe(&recipe, configs[m]);
      assert_int_equal(kc_model_parse(&model, configs[m], strlen(configs[m]), "t.json", &diag),
                       KC_OK);
      const enum kc_kv_format billed = m == 1 && f == 1 ? KC_KV_FP8_G128 : formats[f];
      const uint64_t bill = 64 * kc_model_kv_token_bytes(&model, billed, billed, 1);
      const uint64_t page = kc_cache_page_bytes(&recipe, &config);
      /* 128 + 4 + 32 = 164 bytes become 176: the tiny record is padded, 656 would not be. */
      if (m == 1 && f == 1) assert_int_equal(page, bill / 164 * 176);
      else assert_int_equal(page, bill);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_those_of_the_bill),
      cmocka_unit_test(fused_rows_are_their_parts),
      cmocka_unit_test(kv_b_is_cut),
      cmocka_unit_test(experts_lie_at_their_strides),
      cmocka_unit_test(frequencies_follow_the_papers),
      cmocka_unit_test(pages_are_those_of_the_bill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
