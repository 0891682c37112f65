/* The tiny models' configs, and reading them. */
#include "tiny_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

const char tiny_gqa_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 64,"
    " \"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": 203,"
    " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-5,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0,"
    "   \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64},"
    " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}";

const char tiny_mla_config[] =
    "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\","
    " \"hidden_size\": 64, \"intermediate_size\": 96, \"moe_intermediate_size\": 32,"
    " \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
    " \"q_lora_rank\": 32, \"kv_lora_rank\": 128, \"qk_nope_head_dim\": 16,"
    " \"qk_rope_head_dim\": 16, \"v_head_dim\": 16, \"n_routed_experts\": 8,"
    " \"n_shared_experts\": 1, \"num_experts_per_tok\": 3, \"n_group\": 4, \"topk_group\": 2,"
    " \"topk_method\": \"noaux_tc\", \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true,"
    " \"routed_scaling_factor\": 1.5, \"first_k_dense_replace\": 1, \"moe_layer_freq\": 1,"
    " \"num_nextn_predict_layers\": 0, \"vocab_size\": 203, \"max_position_embeddings\": 4096,"
    " \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-6, \"rope_scaling\": {\"type\": \"yarn\","
    "   \"factor\": 8.0, \"original_max_position_embeddings\": 64, \"beta_fast\": 32.0,"
    "   \"beta_slow\": 1.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0},"
    " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}";

void tiny_recipe(struct kc_recipe *recipe, const char *config)
{
  static struct kc_model model; /* large */
  struct kc_diag diag = {0};
  if (kc_model_parse(&model, config, strlen(config), "tiny.json", &diag) != KC_OK ||
      kc_recipe_parse(recipe, &model, config, strlen(config), &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
}

void tiny_weights(struct kc_weights *weights, const char *config, const char *precision,
                  uint32_t positions, uint64_t seed)
{
  tiny_weights_at(weights, NULL, config, precision, positions, seed);
}

void tiny_weights_at(struct kc_weights *weights, const struct kc_site *site, const char *config,
                     const char *precision, uint32_t positions, uint64_t seed)
{
  struct kc_recipe recipe;
  struct kc_precision formats;
  struct kc_diag diag = {0};
  const struct kc_weight_source source = kc_synthetic_source(&seed);
  tiny_recipe(&recipe, config);
  kc_precision_default(&formats);
  assert_int_equal(kc_precision_parse(&formats, precision, &diag), KC_OK);
  if (kc_weights_build(weights, site, &recipe, &formats, positions, &source, &diag) != KC_OK) {
    fail_msg("%s", diag.text);
  }
}
