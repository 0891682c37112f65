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

static enum kc_err parse(const char *extra, struct kc_diag *diag)
{
  char text[1024];
  struct kc_recipe r;
  snprintf(text, sizeof text,
           "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
           " \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"vocab_size\": 10,"
           " \"max_position_embeddings\": 100, %s}", extra);
  *diag = (struct kc_diag){0};
  if (kc_model_parse(&model, text, strlen(text), "x.json", diag) != KC_OK) {
    fail_msg("%s", diag->text);
  }
  return kc_recipe_parse(&r, &model, text, strlen(text), diag);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_has_scaled_frequencies), cmocka_unit_test(deepseek_routes_in_groups),
      cmocka_unit_test(kimi_has_one_group),           cmocka_unit_test(qwen_and_mixtral),
      cmocka_unit_test(others_are_refused_by_name),   cmocka_unit_test(wrong_keys_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
