/* Recipes of published models, field by field as their config.json has them; what the engine does
 * not run is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/recipe.h"

static struct kc_model model; /* large */

static enum kc_err load(const char *name, struct kc_recipe *recipe, struct kc_diag *diag)
{
  char path[512];
  *diag = (struct kc_diag){0};
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", KVCAP_SOURCE_DIR, name);
  if (kc_model_load(&model, path, diag) != KC_OK) fail_msg("%s: %s", path, diag->text);
  return kc_recipe_load(recipe, &model, diag);
}

static void llama_has_scaled_frequencies(void **state)
{
  (void)state;
  struct kc_recipe r;
  struct kc_diag diag;
  assert_int_equal(load("llama-3.1-8b", &r, &diag), KC_OK);
  assert_false(r.mla || r.qk_norm || r.tied_embedding);
  assert_int_equal(r.layers, 32);
  assert_int_equal(r.heads, 32);
  assert_int_equal(r.kv_heads, 8);
  assert_int_equal(r.head_dim, 128);
  assert_true(r.rope_theta == 500000.0 && r.norm_epsilon == 1e-5);
  assert_int_equal(r.scaling, KC_ROPE_LLAMA3);
  assert_true(r.rope_factor == 8.0 && r.rope_low == 1.0 && r.rope_high == 4.0);
  assert_true(r.rope_original == 8192.0);
  assert_int_equal(r.experts, 0);
  assert_false(kc_recipe_moe(&r, 5));
}

static void deepseek_routes_in_groups(void **state)
{
  (void)state;
  struct kc_recipe r;
  struct kc_diag diag;
  assert_int_equal(load("deepseek-v3", &r, &diag), KC_OK);
  assert_true(r.mla && r.sigmoid && r.normalise && r.router_bias);
  assert_int_equal(r.q_rank, 1536);
  assert_int_equal(r.latent, 512);
  assert_int_equal(r.rope, 64);
  assert_int_equal(r.nope, 128);
  assert_int_equal(r.value, 128);
  assert_int_equal(r.head_dim, 192);
  assert_int_equal(r.kv_heads, 1);
  assert_int_equal(r.experts, 256);
  assert_int_equal(r.top, 8);
  assert_int_equal(r.groups, 8);
  assert_int_equal(r.groups_top, 4);
  assert_true(r.routed_factor == 2.5);
  assert_int_equal(r.expert_width, 2048);
  assert_int_equal(r.shared_width, 2048);
  assert_false(kc_recipe_moe(&r, 2));
  assert_true(kc_recipe_moe(&r, 3) && kc_recipe_moe(&r, 60));
  assert_int_equal(r.scaling, KC_ROPE_YARN);
  assert_true(r.rope_factor == 40.0 && r.rope_high == 32.0 && r.rope_low == 1.0);
}

static void kimi_has_one_group(void **state)
{
  (void)state;
  struct kc_recipe r;
  struct kc_diag diag;
  assert_int_equal(load("kimi-k2.6", &r, &diag), KC_OK);
  assert_int_equal(r.groups, 1);
  assert_int_equal(r.heads, 64);
  assert_int_equal(r.experts, 384);
  assert_true(r.routed_factor == 2.827 && r.rope_theta == 50000.0 && r.rope_factor == 64.0);
  assert_false(kc_recipe_moe(&r, 0));
  assert_true(kc_recipe_moe(&r, 1));
}

static void qwen_and_mixtral(void **state)
{
  (void)state;
  struct kc_recipe r;
  struct kc_diag diag;
  assert_int_equal(load("qwen3-8b", &r, &diag), KC_OK);
  assert_true(r.qk_norm && r.scaling == KC_ROPE_PLAIN && r.norm_epsilon == 1e-6);
  assert_int_equal(load("qwen3-30b-a3b", &r, &diag), KC_OK);
  assert_true(r.qk_norm && r.normalise && !r.sigmoid && kc_recipe_moe(&r, 0));
  assert_int_equal(r.experts, 128);
  assert_int_equal(load("mixtral-8x7b", &r, &diag), KC_OK);
  assert_true(r.mixtral_names && r.normalise && !r.sigmoid);
  assert_int_equal(r.top, 2);
}

static void others_are_refused_by_name(void **state)
{
  (void)state;
  struct kc_recipe r;
  struct kc_diag diag;
  static const char *const others[] = {"gpt-oss-120b", "llama-4-scout", "glm-5.2"};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(load(others[i], &r, &diag), KC_ERR_INPUT);
    assert_non_null(strstr(diag.text, "does not run"));
  }
}

static struct kc_recipe parsed;

static enum kc_err parse_text(const char *text, struct kc_diag *diag)
{
  *diag = (struct kc_diag){0};
  if (kc_model_parse(&model, text, strlen(text), "x.json", diag) != KC_OK) {
    fail_msg("%s", diag->text);
  }
  return kc_recipe_parse(&parsed, &model, text, strlen(text), diag);
}

static enum kc_err parse(const char *extra, struct kc_diag *diag)
{
  char text[1024];
  snprintf(text, sizeof text,
           "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
           " \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"vocab_size\": 10,"
           " \"max_position_embeddings\": 100, %s}", extra);
  return parse_text(text, diag);
}

static void wrong_keys_are_named(void **state)
{
  (void)state;
  struct kc_diag diag;
  assert_int_equal(parse("\"rope_theta\": 5", &diag), KC_OK);
  assert_int_equal(parse("\"rope_theta\": -5", &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "rope_theta"));
  assert_int_equal(parse("\"rms_norm_eps\": \"small\"", &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "rms_norm_eps"));
  assert_int_equal(parse("\"rope_scaling\": {\"type\": \"longrope\"}", &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "longrope"));
  assert_int_equal(parse("\"head_dim\": 24", &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "multiple of 16"));
}

/* Refused with a sentence that names the key. */
static void expect_refused(const char *extra, const char *key)
{
  struct kc_diag diag;
  if (parse(extra, &diag) != KC_ERR_INPUT) fail_msg("taken: %s", extra);
  if (strstr(diag.text, key) == NULL) fail_msg("%s: %s", extra, diag.text);
  assert_string_equal(diag.path, "x.json");
}

/* Keys of transformers 5, where the base lies in the object. */
static void rope_parameters_are_read(void **state)
{
  (void)state;
  struct kc_diag diag;
  assert_int_equal(parse("\"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"default\"}",
                         &diag), KC_OK);
  assert_true(parsed.rope_theta == 500000.0 && parsed.scaling == KC_ROPE_PLAIN);
  assert_int_equal(parse("\"rope_parameters\": {\"rope_theta\": 7e4, \"rope_type\": \"llama3\","
                         " \"factor\": 8, \"original_max_position_embeddings\": 50,"
                         " \"low_freq_factor\": 1, \"high_freq_factor\": 4}", &diag), KC_OK);
  assert_true(parsed.rope_theta == 70000.0 && parsed.scaling == KC_ROPE_LLAMA3);
  assert_int_equal(parse("\"rope_theta\": 9, \"rope_parameters\": null", &diag), KC_OK);
  assert_true(parsed.rope_theta == 9.0);
  expect_refused("\"rope_theta\": 9, \"rope_parameters\": {\"rope_theta\": 10}", "rope_theta");
  expect_refused("\"rope_parameters\": {\"rope_theta\": -1}", "rope_parameters.rope_theta");
  expect_refused("\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 10}}",
                 "rope_parameters.full_attention");
  expect_refused("\"rope_parameters\": {\"factor\": 2}, \"rope_scaling\": {\"factor\": 3}",
                 "rope_scaling");
}

static void other_rotations_are_refused(void **state)
{
  (void)state;
  expect_refused("\"rope_scaling\": \"yarn\"", "rope_scaling");
  expect_refused("\"rope_scaling\": {\"factor\": 4}", "rope_scaling.factor");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4}", "linear");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4}", "dynamic");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}",
                 "rope_scaling.original_max_position_embeddings");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4,"
                 " \"original_max_position_embeddings\": 50, \"attention_factor\": 1.2}",
                 "rope_scaling.attention_factor");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4,"
                 " \"original_max_position_embeddings\": 50, \"low_freq_factor\": 4,"
                 " \"high_freq_factor\": 4}", "high_freq_factor");
  expect_refused("\"partial_rotary_factor\": 0.5", "partial_rotary_factor");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"beta_fast\": 1,"
                 " \"beta_slow\": 32, \"original_max_position_embeddings\": 50}", "beta_fast");
  expect_refused("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 0.5,"
                 " \"original_max_position_embeddings\": 50}", "rope_scaling.factor");
  expect_refused("\"rope_theta\": 1", "rope_theta"); /* more than a radian a token below it */
  expect_refused("\"rms_norm_eps\": 1e300", "rms_norm_eps");
}

static void other_layers_are_refused(void **state)
{
  (void)state;
  struct kc_diag diag;
  expect_refused("\"hidden_act\": \"gelu\"", "hidden_act");
  expect_refused("\"attention_bias\": true", "attention_bias");
  expect_refused("\"mlp_bias\": true", "mlp_bias");
  expect_refused("\"sliding_window\": 32", "sliding_window");
  expect_refused("\"head_dim\": 512", "head_dim");
  assert_int_equal(parse("\"sliding_window\": 100", &diag), KC_OK); /* all that there is */
  assert_int_equal(parse("\"sliding_window\": 32, \"use_sliding_window\": false", &diag), KC_OK);
  assert_int_equal(parse("\"hidden_act\": \"silu\", \"attention_bias\": false,"
                         " \"mlp_bias\": false, \"tie_word_embeddings\": true", &diag), KC_OK);
  assert_true(parsed.tied_embedding);
}

/* A small DeepSeek of 12 experts, 4 a token, whose router's keys are `router`. */
static enum kc_err parse_experts(const char *router, struct kc_diag *diag)
{
  char text[2048];
  snprintf(text, sizeof text,
           "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 64, \"intermediate_size\": 96,"
           " \"moe_intermediate_size\": 32, \"num_hidden_layers\": 2,"
           " \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"q_lora_rank\": 32,"
           " \"kv_lora_rank\": 128, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 16,"
           " \"v_head_dim\": 16, \"n_routed_experts\": 12, \"n_shared_experts\": 1,"
           " \"num_experts_per_tok\": 4, \"first_k_dense_replace\": 1, \"vocab_size\": 10,"
           " \"max_position_embeddings\": 100, %s}", router);
  return parse_text(text, diag);
}

#define ROUTER(groups, top)                                                             \
  "\"n_group\": " groups ", \"topk_group\": " top ", \"topk_method\": \"noaux_tc\","    \
  " \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5"

static void routers_must_add_up(void **state)
{
  (void)state;
  static const struct {
    const char *router, *key;
  } bad[] = {
      {ROUTER("5", "2"), "n_group"},     {ROUTER("3", "4"), "topk_group"},
      {ROUTER("6", "1"), "topk_group"},  /* two experts stay, four are wanted */
      {"\"topk_method\": \"noaux_tc\"", "scoring_func"},
      {"\"scoring_func\": \"sqrt\"", "scoring_func"},
      {"\"scoring_func\": \"sigmoid\", \"topk_method\": \"hash\"", "topk_method"},
      {"\"scoring_func\": \"softmax\", \"topk_method\": \"greedy\"", "norm_topk_prob"},
  };
  struct kc_diag diag;
  assert_int_equal(parse_experts(ROUTER("3", "1"), &diag), KC_OK);
  assert_int_equal(parsed.groups, 3);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(parse_experts(bad[i].router, &diag), KC_ERR_INPUT);
    if (strstr(diag.text, bad[i].key) == NULL) fail_msg("%s: %s", bad[i].router, diag.text);
  }
}

/* decoder_sparse_step 2: layers 1 and 3 of four have experts. */
static void some_layers_may_be_dense(void **state)
{
  (void)state;
  struct kc_diag diag;
  assert_int_equal(
      parse_text("{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"intermediate_size\": 96,"
                 " \"moe_intermediate_size\": 32, \"num_hidden_layers\": 4,"
                 " \"num_attention_heads\": 4, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
                 " \"decoder_sparse_step\": 2, \"vocab_size\": 10,"
                 " \"max_position_embeddings\": 100}", &diag), KC_OK);
  for (uint32_t layer = 0; layer < 4; layer++) {
    assert_int_equal(kc_recipe_moe(&parsed, layer), layer % 2 == 1);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_has_scaled_frequencies), cmocka_unit_test(deepseek_routes_in_groups),
      cmocka_unit_test(kimi_has_one_group),           cmocka_unit_test(qwen_and_mixtral),
      cmocka_unit_test(others_are_refused_by_name),   cmocka_unit_test(wrong_keys_are_named),
      cmocka_unit_test(rope_parameters_are_read),     cmocka_unit_test(other_rotations_are_refused),
      cmocka_unit_test(other_layers_are_refused),     cmocka_unit_test(routers_must_add_up),
      cmocka_unit_test(some_layers_may_be_dense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
