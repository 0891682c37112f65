/* config.json -> struct kc_recipe: the keys that a forward pass reads and a memory bill does not.
 *
 * The model has been read and checked by then, so shapes come from it; here are only new keys. A
 * key that changes results and has no default in Hugging Face's code must be there.
 */
#include "engine/model/recipe.h"

#include <jansson.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/model/hf.h"

enum { RECIPE_BYTES_MAX = 16 << 20 };

static double real_or(struct kc_hf *hf, const json_t *object, const char *key, double fallback)
{
  const json_t *value = json_object_get(object, key);
  KC_ASSERT(key != NULL);
  if (value == NULL || json_is_null(value)) return fallback;
  if (json_is_number(value) && json_number_value(value) > 0) return json_number_value(value);
  (void)kc_hf_fail(hf, key, "is not a number above 0");
  return fallback;
}

/* "rope_scaling", under its old key "type" or its new one "rope_type". */
static void read_scaling(struct kc_recipe *recipe, struct kc_hf *hf)
{
  const json_t *scaling = json_object_get(hf->object, "rope_scaling");
  KC_ASSERT(hf->object != NULL);
  if (!json_is_object(scaling)) return;
  const char *type = json_string_value(json_object_get(scaling, "rope_type"));
  if (type == NULL) type = json_string_value(json_object_get(scaling, "type"));
  if (type == NULL || strcmp(type, "default") == 0) return;
  recipe->rope_factor = real_or(hf, scaling, "factor", 1.0);
  recipe->rope_original = real_or(hf, scaling, "original_max_position_embeddings", 4096.0);
  if (strcmp(type, "llama3") == 0) {
    recipe->scaling = KC_ROPE_LLAMA3;
    recipe->rope_low = real_or(hf, scaling, "low_freq_factor", 1.0);
    recipe->rope_high = real_or(hf, scaling, "high_freq_factor", 4.0);
  } else if (strcmp(type, "yarn") == 0) {
    recipe->scaling = KC_ROPE_YARN;
    recipe->rope_low = real_or(hf, scaling, "beta_slow", 1.0);
    recipe->rope_high = real_or(hf, scaling, "beta_fast", 32.0);
    recipe->rope_mscale = real_or(hf, scaling, "mscale", 1.0);
    recipe->rope_mscale_all = real_or(hf, scaling, "mscale_all_dim", 1.0);
  } else {
    (void)kc_hf_fail(hf, "rope_scaling", "has type \"%.40s\", expected default, llama3 or yarn",
                     type);
  }
}

static void read_mla(struct kc_recipe *recipe, struct kc_hf *hf)
{
  recipe->mla = true;
  recipe->q_rank = kc_hf_u32_or(hf, "q_lora_rank", 1, 1 << 20, 0);
  recipe->latent = kc_hf_u32(hf, "kv_lora_rank", 16, 1 << 16);
  recipe->nope = kc_hf_u32(hf, "qk_nope_head_dim", 16, 8192);
  recipe->rope = kc_hf_u32(hf, "qk_rope_head_dim", 16, 8192);
  recipe->value = kc_hf_u32(hf, "v_head_dim", 16, 8192);
  recipe->head_dim = recipe->nope + recipe->rope;
  KC_ASSERT(recipe->head_dim >= 32);
}

static void read_deepseek_experts(struct kc_recipe *recipe, struct kc_hf *hf)
{
  const char *scoring = kc_hf_text_or_null(hf, "scoring_func");
  const char *method = kc_hf_text_or_null(hf, "topk_method");
  const uint32_t first = kc_hf_u32_or(hf, "first_k_dense_replace", 0, KC_LAYERS_MAX, 0);
  const uint32_t step = kc_hf_u32_or(hf, "moe_layer_freq", 1, KC_LAYERS_MAX, 1);
  KC_ASSERT(recipe->layers <= KC_LAYERS_MAX);
  for (uint32_t layer = first; layer < recipe->layers; layer++) {
    if (layer % step == 0) recipe->moe_bits[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
  recipe->sigmoid = scoring != NULL && strcmp(scoring, "sigmoid") == 0;
  recipe->router_bias = method != NULL && strcmp(method, "noaux_tc") == 0;
  recipe->groups = kc_hf_u32_or(hf, "n_group", 1, 512, 1);
  recipe->groups_top = kc_hf_u32_or(hf, "topk_group", 1, 512, recipe->groups);
  recipe->normalise = kc_hf_bool_or(hf, "norm_topk_prob", false);
  recipe->routed_factor = real_or(hf, hf->object, "routed_scaling_factor", 1.0);
}

static void read_plain_experts(struct kc_recipe *recipe, struct kc_hf *hf, bool mixtral)
{
  KC_ASSERT(recipe->experts > 0);
  KC_ASSERT(recipe->layers <= KC_LAYERS_MAX);
  for (uint32_t layer = 0; layer < recipe->layers; layer++) {
    recipe->moe_bits[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
  recipe->mixtral_names = mixtral;
  recipe->groups = recipe->groups_top = 1;
  recipe->normalise = mixtral || kc_hf_bool_or(hf, "norm_topk_prob", false);
  recipe->routed_factor = 1.0;
}

static void copy_shapes(struct kc_recipe *recipe, const struct kc_model *model)
{
  KC_ASSERT(model->layers > 0);
  KC_ASSERT(model->hidden > 0);
  *recipe = (struct kc_recipe){
      .layers = model->layers,
      .hidden = model->hidden,
      .vocabulary = model->vocabulary,
      .heads = model->heads,
      .kv_heads = model->is_mla ? 1 : model->kv_heads,
      .head_dim = model->head_width,
      .dense_width = model->dense_width,
      .context_max = model->context_max,
      .tied_embedding = model->tied_embedding,
      .experts = model->experts,
      .top = model->experts_per_token,
      .expert_width = model->expert_width,
      .shared_width = model->shared_width,
  };
}

/* The kernels' granularity: widths that a model of any use keeps anyway. */
static void check_shapes(const struct kc_recipe *r, struct kc_hf *hf)
{
  const bool widths = r->hidden % 32 == 0 && r->dense_width % 32 == 0 &&
                      r->expert_width % 32 == 0 && r->shared_width % 32 == 0;
  KC_ASSERT(hf->object != NULL);
  if (!widths || (r->mla && r->q_rank % 32 != 0)) {
    (void)kc_hf_fail(hf, NULL, "the engine needs hidden and intermediate sizes and ranks that are "
                               "multiples of 32");
  } else if (!r->mla && (r->head_dim % 16 != 0 || r->heads % r->kv_heads != 0)) {
    (void)kc_hf_fail(hf, "head_dim", "must be a multiple of 16, and kv heads divide the heads, "
                                     "for the engine to run the model");
  } else if (r->mla && (r->latent % 32 != 0 || r->nope % 16 != 0 || r->rope % 16 != 0 ||
                        r->value % 16 != 0 || r->heads * r->value % 32 != 0)) {
    (void)kc_hf_fail(hf, "kv_lora_rank", "must be a multiple of 32, and head widths of 16, for "
                                         "the engine to run the model");
  } else if (r->experts > 512 || r->top > 16) {
    (void)kc_hf_fail(hf, NULL, "the engine routes to at most 16 of 512 experts");
  }
}

static void read_recipe(struct kc_recipe *recipe, const struct kc_model *model, struct kc_hf *hf)
{
  static const char *const gqa[] = {"llama", "qwen3", "mixtral", "qwen3_moe"};
  static const char *const mla[] = {"deepseek_v3", "kimi_k2", "kimi_k25"};
  const char *family = model->architecture;
  bool known = false;
  KC_ASSERT(family[0] != '\0');
  for (size_t i = 0; i < 4; i++) known = known || strcmp(family, gqa[i]) == 0;
  for (size_t i = 0; i < 3; i++) {
    if (strcmp(family, mla[i]) == 0) read_mla(recipe, hf);
  }
  if (!known && !recipe->mla) {
    (void)kc_hf_fail(hf, "model_type",
                     "is \"%.40s\", which the engine does not run; it runs llama, qwen3, mixtral, "
                     "qwen3_moe, deepseek_v3, kimi_k2 and kimi_k25", family);
    return;
  }
  recipe->qk_norm = strncmp(family, "qwen3", 5) == 0;
  recipe->norm_epsilon = real_or(hf, hf->object, "rms_norm_eps", 1e-6);
  recipe->rope_theta = real_or(hf, hf->object, "rope_theta", 10000.0);
  read_scaling(recipe, hf);
  if (recipe->mla) read_deepseek_experts(recipe, hf);
  if (recipe->experts == 0) memset(recipe->moe_bits, 0, sizeof recipe->moe_bits);
  if (!recipe->mla && recipe->experts > 0) {
    read_plain_experts(recipe, hf, strcmp(family, "mixtral") == 0);
  }
  check_shapes(recipe, hf);
}

enum kc_err kc_recipe_parse(struct kc_recipe *recipe, const struct kc_model *model,
                            const char *data, size_t bytes, struct kc_diag *diag)
{
  json_error_t error;
  struct kc_hf hf;
  KC_ASSERT(model->layers > 0);
  copy_shapes(recipe, model);
  json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(root)) {
    json_decref(root);
    return kc_fail_at(diag, KC_ERR_INPUT, model->path, 0, 0, "is not a JSON object any more");
  }
  kc_hf_init(&hf, root, data, bytes, model->path, diag);
  (void)kc_hf_enter(&hf, "text_config");
  read_recipe(recipe, model, &hf);
  json_decref(root);
  return hf.err;
}

enum kc_err kc_recipe_load(struct kc_recipe *recipe, const struct kc_model *model,
                           struct kc_diag *diag)
{
  struct kc_file file;
  KC_ASSERT(recipe != NULL);
  KC_ASSERT(model->path[0] != '\0');
  KC_TRY(kc_file_open(&file, model->path, RECIPE_BYTES_MAX, diag));
  const enum kc_err err = kc_recipe_parse(recipe, model, file.data, file.bytes, diag);
  kc_file_close(&file);
  return err;
}
