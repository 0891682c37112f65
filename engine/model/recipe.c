/* config.json -> struct kc_recipe: the keys that a forward pass reads and a memory bill does not.
 *
 * The model has been read and checked by then, so shapes come from it; here are only new keys. A
 * key that changes results and has no default in Hugging Face's code must be there.
 */
#include "engine/model/recipe.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/model/hf.h"

enum { RECIPE_BYTES_MAX = 16 << 20 };
/* Of the attention kernels: elements of a head, of a latent, of a latent and its rotary part. */
enum { HEAD_MAX = 256, LATENT_MAX = 512, RECORD_MAX = 576 };

/* What a number of a config may be: beyond that a model computes nothing, or the engine's tables
 * do not hold it (an angle turns by at most a radian a token). `fallback` below 0: it must be
 * there. */
struct range {
  double low, high, fallback;
};

/* `name` in `object`, called `key` in messages. */
static double read_real(struct kc_hf *hf, const json_t *object, const char *name, const char *key,
                        struct range range)
{
  const json_t *value = json_object_get(object, name);
  const double number = json_number_value(value);
  KC_ASSERT(range.low <= range.high);
  if (value == NULL || json_is_null(value)) {
    if (range.fallback >= 0) return range.fallback;
    (void)kc_hf_fail(hf, key, "is missing, expected a number from %g to %g", range.low,
                     range.high);
  } else if (json_is_number(value) && number >= range.low && number <= range.high) {
    return number;
  } else {
    (void)kc_hf_fail(hf, key, "is not a number from %g to %g", range.low, range.high);
  }
  return range.low;
}

static double real_of(struct kc_hf *hf, const char *key, struct range range)
{
  KC_ASSERT(key != NULL);
  return read_real(hf, hf->object, key, key, range);
}

/* ---- rotary embedding ---- */

/* "rope_parameters" (since transformers 5) or "rope_scaling": which of them, and what is in it. */
struct rope {
  const char *key;
  const json_t *object; /* NULL: neither is there */
};

static double rope_number(struct kc_hf *hf, const struct rope *rope, const char *name,
                          struct range range)
{
  char key[96];
  KC_ASSERT(rope->object != NULL);
  snprintf(key, sizeof key, "%s.%s", rope->key, name);
  return read_real(hf, rope->object, name, key, range);
}

/* Another key than these in the object would change the angles, or be believed to. */
static void check_rope_keys(struct kc_hf *hf, const struct rope *rope, const char *const *known)
{
  const char *name;
  json_t *value;
  char key[96];
  KC_ASSERT(rope->object != NULL && known[0] != NULL);
  json_object_foreach((json_t *)(uintptr_t)rope->object, name, value) {
    size_t i = 0;
    while (known[i] != NULL && strcmp(known[i], name) != 0) i++;
    const bool whole = strcmp(name, "partial_rotary_factor") == 0 && json_is_number(value) &&
                       json_number_value(value) == 1.0;
    if (known[i] != NULL || whole || json_is_null(value)) continue;
    if (strcmp(name, "truncate") == 0 && json_is_true(value)) continue; /* as yarn does here */
    snprintf(key, sizeof key, "%s.%.40s", rope->key, name);
    (void)kc_hf_fail(hf, key, "is a key of the rotary embedding that the engine does not run");
  }
}

static void read_llama3(struct kc_recipe *recipe, struct kc_hf *hf, const struct rope *rope)
{
  static const char *const known[] = {
      "type", "rope_type", "rope_theta", "factor", "original_max_position_embeddings",
      "low_freq_factor", "high_freq_factor", NULL};
  KC_ASSERT(rope->object != NULL);
  check_rope_keys(hf, rope, known);
  recipe->scaling = KC_ROPE_LLAMA3;
  recipe->rope_low = rope_number(hf, rope, "low_freq_factor", (struct range){1e-3, 1e6, -1});
  recipe->rope_high = rope_number(hf, rope, "high_freq_factor", (struct range){1e-3, 1e6, -1});
  if (hf->err == KC_OK && recipe->rope_high <= recipe->rope_low) {
    (void)kc_hf_fail(hf, rope->key, "has a \"high_freq_factor\" that is not above its "
                                    "\"low_freq_factor\"");
  }
}

/* Without mscale_all_dim DeepSeek's code takes 0, which scales nothing; other models have no such
 * keys. */
static void read_yarn(struct kc_recipe *recipe, struct kc_hf *hf, const struct rope *rope)
{
  static const char *const known[] = {
      "type", "rope_type", "rope_theta", "factor", "original_max_position_embeddings",
      "beta_slow", "beta_fast", NULL, NULL, NULL};
  const char *keys[sizeof known / sizeof known[0]];
  memcpy(keys, known, sizeof known);
  if (recipe->mla) keys[7] = "mscale", keys[8] = "mscale_all_dim";
  KC_ASSERT(rope->object != NULL);
  check_rope_keys(hf, rope, keys);
  recipe->scaling = KC_ROPE_YARN;
  recipe->rope_low = rope_number(hf, rope, "beta_slow", (struct range){1e-3, 1e6, 1});
  recipe->rope_high = rope_number(hf, rope, "beta_fast", (struct range){1e-3, 1e6, 32});
  recipe->rope_mscale = rope_number(hf, rope, "mscale", (struct range){0, 100, 1});
  recipe->rope_mscale_all = rope_number(hf, rope, "mscale_all_dim", (struct range){0, 100, 0});
  if (hf->err == KC_OK && recipe->rope_high <= recipe->rope_low) {
    (void)kc_hf_fail(hf, rope->key, "has a \"beta_fast\" that is not above its \"beta_slow\"");
  }
}

/* Its old key "type" or its new one "rope_type". */
static void read_scaling(struct kc_recipe *recipe, struct kc_hf *hf, const struct rope *rope)
{
  static const char *const plain[] = {"type", "rope_type", "rope_theta", NULL};
  const char *type = json_string_value(json_object_get(rope->object, "rope_type"));
  if (type == NULL) type = json_string_value(json_object_get(rope->object, "type"));
  KC_ASSERT(rope->object != NULL);
  if (type == NULL || strcmp(type, "default") == 0) {
    check_rope_keys(hf, rope, plain); /* a factor without a type would be one of them */
    return;
  }
  const bool llama3 = strcmp(type, "llama3") == 0;
  if (!llama3 && strcmp(type, "yarn") != 0) {
    (void)kc_hf_fail(hf, rope->key, "has type \"%.40s\", expected default, llama3 or yarn", type);
    return;
  }
  recipe->rope_factor = rope_number(hf, rope, "factor", (struct range){1, 1e6, -1});
  recipe->rope_original = rope_number(hf, rope, "original_max_position_embeddings",
                                      (struct range){1, 1e9, -1});
  if (llama3) read_llama3(recipe, hf, rope);
  else read_yarn(recipe, hf, rope);
}

static struct rope find_rope(struct kc_hf *hf)
{
  static const char *const keys[2] = {"rope_parameters", "rope_scaling"};
  struct rope rope = {0};
  for (int i = 0; i < 2; i++) {
    const json_t *value = json_object_get(hf->object, keys[i]);
    if (value == NULL || json_is_null(value)) continue;
    if (!json_is_object(value)) {
      (void)kc_hf_fail(hf, keys[i], "is not an object");
    } else if (rope.object == NULL) {
      rope = (struct rope){keys[i], value};
    } else if (!json_equal(rope.object, value)) {
      (void)kc_hf_fail(hf, keys[i], "and \"rope_parameters\" say different things");
    }
  }
  KC_ASSERT(rope.object == NULL || rope.key != NULL);
  return rope;
}

/* The base is in the object (transformers 5), beside it, or the family's own. */
static void read_rope(struct kc_recipe *recipe, struct kc_hf *hf, double family_theta)
{
  const struct rope rope = find_rope(hf);
  const bool beside = kc_hf_has(hf, "rope_theta");
  struct range range = {2, 1e15, family_theta};
  const double outer = real_of(hf, "rope_theta", range);
  recipe->rope_theta = outer;
  KC_ASSERT(family_theta >= range.low);
  KC_ASSERT(family_theta <= range.high);
  if (rope.object == NULL || hf->err != KC_OK) return;
  range.fallback = outer;
  recipe->rope_theta = rope_number(hf, &rope, "rope_theta", range);
  if (beside && recipe->rope_theta != outer) {
    (void)kc_hf_fail(hf, "rope_theta", "and \"%s.rope_theta\" say different things", rope.key);
  }
  read_scaling(recipe, hf, &rope);
}

/* ---- what the engine leaves out ---- */

/* Keys that change what is computed, with the only values that it computes. */
static void refuse_others(const struct kc_recipe *recipe, const struct kc_model *model,
                          struct kc_hf *hf)
{
  static const char *const biases[] = {"attention_bias", "mlp_bias", "qkv_bias", "use_qkv_bias"};
  static const char *const acts[] = {"hidden_act", "hidden_activation"};
  for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++) {
    if (!kc_hf_bool_or(hf, biases[i], false)) continue;
    (void)kc_hf_fail(hf, biases[i], "is true, and the engine runs products without a bias");
  }
  for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
    const char *act = kc_hf_text_or_null(hf, acts[i]);
    if (act == NULL || strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0) continue;
    (void)kc_hf_fail(hf, acts[i], "is \"%.40s\", and the engine runs silu", act);
  }
  if (real_of(hf, "partial_rotary_factor", (struct range){0, 1, 1}) != 1.0) {
    (void)kc_hf_fail(hf, "partial_rotary_factor", "is not 1, and the engine turns whole heads");
  }
  if (recipe->mla && !kc_hf_bool_or(hf, "rope_interleave", true)) {
    (void)kc_hf_fail(hf, "rope_interleave", "is false, and the engine turns neighbours of a latent "
                                            "head's rotary part");
  }
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const uint64_t window = model->kv_group[i].window;
    if (window == 0 || window >= model->context_max) continue;
    (void)kc_hf_fail(hf, "sliding_window", "is %llu and in use: the engine attends to all of up to "
                     "%llu tokens", (unsigned long long)window,
                     (unsigned long long)model->context_max);
  }
  KC_ASSERT(model->layers == recipe->layers);
  KC_ASSERT(model->kv_group_count > 0 || hf->err != KC_OK);
}

/* ---- parts of models ---- */

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

/* A text that has no default, one of two or three. Returns its number, 0 after a fault. */
static int read_choice(struct kc_hf *hf, const char *key, const char *const *values)
{
  const char *text = kc_hf_text_or_null(hf, key);
  char list[96];
  size_t used = 0;
  list[0] = '\0';
  KC_ASSERT(values[0] != NULL);
  for (int i = 0; values[i] != NULL; i++) {
    if (text != NULL && strcmp(text, values[i]) == 0) return i;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", values[i]);
    KC_ASSERT(used < sizeof list);
  }
  if (text == NULL) (void)kc_hf_fail(hf, key, "is missing, expected one of %s", list);
  else (void)kc_hf_fail(hf, key, "is \"%.40s\", expected one of %s", text, list);
  return 0;
}

/* Groups divide the experts, and those that stay have enough of them (op_moe.h). */
static void check_groups(const struct kc_recipe *r, struct kc_hf *hf)
{
  KC_ASSERT(r->experts > 0);
  if (hf->err != KC_OK) return;
  KC_ASSERT(r->groups > 0 && r->groups_top > 0);
  if (r->experts % r->groups != 0) {
    (void)kc_hf_fail(hf, "n_group", "is %u, which does not divide the %u experts", r->groups,
                     r->experts);
  } else if (r->groups_top > r->groups) {
    (void)kc_hf_fail(hf, "topk_group", "is %u, more than the %u groups of \"n_group\"",
                     r->groups_top, r->groups);
  } else if (r->top > r->groups_top * (r->experts / r->groups)) {
    (void)kc_hf_fail(hf, "topk_group", "is %u: so many groups of %u experts hold fewer than the %u "
                     "of \"num_experts_per_tok\"", r->groups_top, r->experts / r->groups, r->top);
  }
}

/* How experts are chosen has different defaults in DeepSeek's V2 and V3, so it must be said. */
static void read_deepseek_experts(struct kc_recipe *recipe, struct kc_hf *hf)
{
  static const char *const scores[] = {"softmax", "sigmoid", NULL};
  static const char *const methods[] = {"greedy", "group_limited_greedy", "noaux_tc", NULL};
  const uint32_t first = kc_hf_u32_or(hf, "first_k_dense_replace", 0, KC_LAYERS_MAX, 0);
  const uint32_t step = kc_hf_u32_or(hf, "moe_layer_freq", 1, KC_LAYERS_MAX, 1);
  KC_ASSERT(recipe->layers <= KC_LAYERS_MAX);
  for (uint32_t layer = first; layer < recipe->layers; layer++) {
    if (layer % step == 0) recipe->moe_bits[layer / 64] |= UINT64_C(1) << (layer % 64);
  }
  recipe->sigmoid = read_choice(hf, "scoring_func", scores) == 1;
  const int method = read_choice(hf, "topk_method", methods);
  recipe->router_bias = method == 2;
  recipe->groups = recipe->groups_top = 1;
  if (method > 0) {
    recipe->groups = kc_hf_u32(hf, "n_group", 1, 512);
    recipe->groups_top = kc_hf_u32(hf, "topk_group", 1, 512);
  }
  if (!kc_hf_has(hf, "norm_topk_prob")) {
    (void)kc_hf_fail(hf, "norm_topk_prob", "is missing, expected true or false");
  }
  recipe->normalise = kc_hf_bool_or(hf, "norm_topk_prob", false);
  recipe->routed_factor = real_of(hf, "routed_scaling_factor", (struct range){1e-6, 1e6, -1});
  check_groups(recipe, hf);
}

/* Layers with experts are those with a router: Qwen3-MoE may leave some dense. */
static void read_plain_experts(struct kc_recipe *recipe, const struct kc_model *model,
                               struct kc_hf *hf, bool mixtral)
{
  KC_ASSERT(recipe->experts > 0);
  KC_ASSERT(recipe->layers <= KC_LAYERS_MAX);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    if (model->tensor[i].kind != KC_CLASS_ROUTER) continue;
    for (uint32_t layer = 0; layer < recipe->layers; layer++) {
      if (kc_tensor_layers_within(&model->tensor[i], layer, 1) == 0) continue;
      recipe->moe_bits[layer / 64] |= UINT64_C(1) << (layer % 64);
    }
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
  } else if (!r->mla && r->head_dim > HEAD_MAX) {
    (void)kc_hf_fail(hf, "head_dim", "is %u; the engine's kernels take at most %d", r->head_dim,
                     HEAD_MAX);
  } else if (r->mla && (r->latent > LATENT_MAX || r->latent + r->rope > RECORD_MAX)) {
    (void)kc_hf_fail(hf, "kv_lora_rank", "is %u, with a rotary part of %u; the engine's kernels "
                     "take at most %d, and %d together", r->latent, r->rope, LATENT_MAX,
                     RECORD_MAX);
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
  const bool mixtral = strcmp(family, "mixtral") == 0;
  recipe->qk_norm = strncmp(family, "qwen3", 5) == 0;
  recipe->norm_epsilon =
      real_of(hf, "rms_norm_eps", (struct range){1e-30, 1, mixtral ? 1e-5 : 1e-6});
  read_rope(recipe, hf, mixtral ? 1e6 : 1e4);
  refuse_others(recipe, model, hf);
  if (recipe->experts > 0 && recipe->mla) read_deepseek_experts(recipe, hf);
  if (recipe->experts > 0 && !recipe->mla) read_plain_experts(recipe, model, hf, mixtral);
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
