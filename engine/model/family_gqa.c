/* Families with grouped-query attention: Llama 3, Qwen3, Mixtral, Qwen3-MoE, gpt-oss, Llama 4.
 *
 *   layer = norm, q k v o (+ biases, sinks, q/k norms),
 *           norm, MLP or (router, experts, shared expert)
 *
 * Names and shapes are those of the published safetensors. Tensor parallelism splits q, o, MLPs and
 * experts by their width, k and v by KV head, and replicates routers and norms, as vLLM and SGLang
 * do. Each family reads its own keys; what a config does not say stands here with its source.
 */
#include "engine/base/check.h"
#include "engine/model/build.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { WIDTH_MAX = 1 << 24, EXPERTS_MAX = 4096, WINDOW_MAX = 1 << 30 };

/* What the attention of a family has beyond q, k, v and o. */
struct gqa_extras {
  bool bias;       /* on q, k, v and o */
  bool head_norms; /* RMS norm over each q and k head (Qwen3) */
  bool sinks;      /* one learned logit per query head (gpt-oss) */
};

static void add_attention(struct kc_build *build, struct gqa_extras extras,
                          const struct kc_layer_set *layers)
{
  const struct kc_model *model = build->model;
  const uint64_t hidden = model->hidden;
  const uint64_t q_rows = (uint64_t)model->heads * model->head_width;
  const uint64_t kv_rows = (uint64_t)model->kv_heads * model->head_width;
  const uint64_t bias = extras.bias;
  const uint64_t head_norms = extras.head_norms;
  KC_ASSERT(q_rows > 0);
  KC_ASSERT(kv_rows > 0);
  const struct kc_tensor_spec specs[] = {
      {"input_layernorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.q_proj", KC_CLASS_ATTENTION, q_rows, hidden, KC_SHARD_SPLIT, 1, 0},
      {"self_attn.k_proj", KC_CLASS_ATTENTION, kv_rows, hidden, KC_SHARD_KV_HEADS, 1, 0},
      {"self_attn.v_proj", KC_CLASS_ATTENTION, kv_rows, hidden, KC_SHARD_KV_HEADS, 1, 0},
      {"self_attn.o_proj", KC_CLASS_ATTENTION, hidden, q_rows, KC_SHARD_SPLIT, 1, 0},
      {"self_attn.q_proj.bias", KC_CLASS_NORM, bias, q_rows, KC_SHARD_SPLIT, 1, 0},
      {"self_attn.k_proj.bias", KC_CLASS_NORM, bias, kv_rows, KC_SHARD_KV_HEADS, 1, 0},
      {"self_attn.v_proj.bias", KC_CLASS_NORM, bias, kv_rows, KC_SHARD_KV_HEADS, 1, 0},
      {"self_attn.o_proj.bias", KC_CLASS_NORM, bias, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.q_norm", KC_CLASS_NORM, head_norms, model->head_width, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.k_norm", KC_CLASS_NORM, head_norms, model->head_width, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.sinks", KC_CLASS_NORM, extras.sinks, model->heads, KC_SHARD_SPLIT, 1, 0},
      {"post_attention_layernorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
}

static void add_router(struct kc_build *build, const char *name, const struct kc_layer_set *layers)
{
  const struct kc_model *model = build->model;
  KC_ASSERT(model->hidden > 0);
  const struct kc_tensor_spec specs[] = {
      {name, KC_CLASS_ROUTER, model->experts, model->hidden, KC_SHARD_REPLICATE, 1, 0},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
}

static void add_kv(struct kc_build *build, const struct kc_layer_set *layers, uint64_t window)
{
  const struct kc_model *model = build->model;
  KC_ASSERT(model->kv_heads > 0);
  const struct kc_kv_group group = {
      .kind = KC_KV_GQA,
      .kv_heads = model->kv_heads,
      .k_width = model->head_width,
      .v_width = model->head_width,
      .query_heads = model->heads,
      .window = window,
      .bounded_store = window > 0,
  };
  kc_build_add_kv(build, &group, layers);
}

/* One group for the layers that see everything, one for those that see `window` tokens. */
static void add_kv_split(struct kc_build *build, const struct kc_layer_set *bounded,
                         uint64_t window)
{
  const struct kc_layer_set all = kc_layers_first(build->model->layers);
  const struct kc_layer_set full = kc_layers_without(all, bounded);
  KC_ASSERT(window > 0 || kc_layers_count(bounded) == 0);
  add_kv(build, &full, 0);
  add_kv(build, bounded, window);
}

/* Heads and their width; a config without head_dim divides the hidden size. */
static void read_heads(struct kc_build *build)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  KC_ASSERT(model->hidden > 0);
  model->heads = kc_hf_u32(hf, "num_attention_heads", 1, 4096);
  model->kv_heads = kc_hf_u32_or(hf, "num_key_value_heads", 1, 4096, model->heads);
  if (hf->err == KC_OK && model->heads % model->kv_heads != 0) {
    (void)kc_hf_fail(hf, "num_attention_heads",
                     "(%u) is not a multiple of \"num_key_value_heads\" (%u)", model->heads,
                     model->kv_heads);
  }
  const uint32_t even = model->hidden / model->heads;
  model->head_width = kc_hf_u32_or(hf, "head_dim", 1, 8192, even == 0 ? 1 : even);
  if (hf->err == KC_OK && !kc_hf_has(hf, "head_dim") && model->hidden % model->heads != 0) {
    (void)kc_hf_fail(hf, "hidden_size",
                     "(%u) is not a multiple of \"num_attention_heads\" (%u) and there is no "
                     "\"head_dim\"",
                     model->hidden, model->heads);
  }
}

static void read_experts(struct kc_build *build, const char *count_key)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  model->experts = kc_hf_u32(hf, count_key, 1, EXPERTS_MAX);
  model->experts_per_token = kc_hf_u32(hf, "num_experts_per_tok", 1, EXPERTS_MAX);
  if (hf->err == KC_OK && model->experts_per_token > model->experts) {
    (void)kc_hf_fail(hf, "num_experts_per_tok", "(%u) is more than \"%s\" (%u)",
                     model->experts_per_token, count_key, model->experts);
  }
}

/* Sliding windows of Mistral's and Qwen's configs: off unless the config switches them on. Qwen's
 * has them from layer 28 on where it does not say (transformers, Qwen2Config, Qwen3Config). */
enum { QWEN_WINDOW_LAYERS = 28 };

static void add_kv_optional_window(struct kc_build *build)
{
  struct kc_hf *hf = build->hf;
  const struct kc_layer_set all = kc_layers_first(build->model->layers);
  struct kc_layer_set sliding = {{0}};
  const bool used = kc_hf_bool_or(hf, "use_sliding_window", kc_hf_has(hf, "sliding_window"));
  const uint32_t window = kc_hf_u32_or(hf, "sliding_window", 1, WINDOW_MAX, 0);
  if (used && window > 0 && !kc_build_layer_types(build, "sliding_attention", &sliding)) {
    const uint32_t fallback = kc_hf_has(hf, "use_sliding_window") ? QWEN_WINDOW_LAYERS : 0;
    const uint32_t from = kc_hf_u32_or(hf, "max_window_layers", 0, KC_LAYERS_MAX, fallback);
    const struct kc_layer_set before =
        kc_layers_first(from < build->model->layers ? from : build->model->layers);
    sliding = kc_layers_without(all, &before);
  }
  add_kv_split(build, &sliding, window);
}

static void add_dense_model(struct kc_build *build, struct gqa_extras extras, bool mlp_bias)
{
  struct kc_model *model = build->model;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  read_heads(build);
  model->dense_width = kc_hf_u32(build->hf, "intermediate_size", 1, WIDTH_MAX);
  kc_build_add_ends(build);
  add_attention(build, extras, &all);
  kc_build_add_mlp(build, KC_CLASS_DENSE_MLP, "mlp.", model->dense_width, 1, mlp_bias, &all);
  add_kv_optional_window(build);
  KC_ASSERT(build->hf->err != KC_OK || model->kv_group_count > 0);
}

void kc_family_llama(struct kc_build *build)
{
  const struct gqa_extras extras = {.bias = kc_hf_bool_or(build->hf, "attention_bias", false)};
  add_dense_model(build, extras, kc_hf_bool_or(build->hf, "mlp_bias", false));
}

void kc_family_qwen3(struct kc_build *build)
{
  const struct gqa_extras extras = {.bias = kc_hf_bool_or(build->hf, "attention_bias", false),
                                    .head_norms = true};
  add_dense_model(build, extras, false);
}

void kc_family_mixtral(struct kc_build *build)
{
  struct kc_model *model = build->model;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  read_heads(build);
  read_experts(build, "num_local_experts");
  model->expert_width = kc_hf_u32(build->hf, "intermediate_size", 1, WIDTH_MAX);
  model->moe_layers = model->layers;
  kc_build_add_ends(build);
  add_attention(build, (struct gqa_extras){0}, &all);
  add_router(build, "block_sparse_moe.gate", &all);
  kc_build_add_mlp(build, KC_CLASS_ROUTED_EXPERTS, "block_sparse_moe.experts.E.",
                   model->expert_width, model->experts, false, &all);
  add_kv_optional_window(build);
}

/* Sparse layers of Qwen3-MoE: every decoder_sparse_step-th, but for those named dense
 * (transformers, Qwen3MoeDecoderLayer). */
static struct kc_layer_set qwen3_moe_layers(struct kc_build *build)
{
  struct kc_hf *hf = build->hf;
  struct kc_layer_set sparse = {{0}}, dense = {{0}};
  const uint32_t layers = build->model->layers;
  const uint32_t step = kc_hf_u32_or(hf, "decoder_sparse_step", 1, KC_LAYERS_MAX, 1);
  const json_t *named = kc_hf_array_or_null(hf, "mlp_only_layers", 0);
  for (size_t i = 0; i < json_array_size(named); i++) {
    const json_t *item = json_array_get(named, i);
    const json_int_t layer = json_is_integer(item) ? json_integer_value(item) : -1;
    if (layer < 0 || layer >= (json_int_t)layers) {
      (void)kc_hf_fail(hf, "mlp_only_layers", "item %zu is not a layer from 0 to %u", i,
                       layers - 1);
      return dense;
    }
    kc_layers_add(&dense, (uint32_t)layer);
  }
  for (uint32_t layer = step - 1; layer < layers; layer += step) kc_layers_add(&sparse, layer);
  return kc_layers_without(sparse, &dense);
}

void kc_family_qwen3_moe(struct kc_build *build)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  read_heads(build);
  read_experts(build, "num_experts");
  const struct kc_layer_set sparse = qwen3_moe_layers(build);
  const struct kc_layer_set dense = kc_layers_without(all, &sparse);
  model->moe_layers = kc_layers_count(&sparse);
  model->expert_width = kc_hf_u32(hf, "moe_intermediate_size", 1, WIDTH_MAX);
  if (model->moe_layers < model->layers) {
    model->dense_width = kc_hf_u32(hf, "intermediate_size", 1, WIDTH_MAX);
  }
  const struct gqa_extras extras = {.bias = kc_hf_bool_or(hf, "attention_bias", false),
                                    .head_norms = true};
  kc_build_add_ends(build);
  add_attention(build, extras, &all);
  kc_build_add_mlp(build, KC_CLASS_DENSE_MLP, "mlp.", model->dense_width, 1, false, &dense);
  add_router(build, "mlp.gate", &sparse);
  kc_build_add_mlp(build, KC_CLASS_ROUTED_EXPERTS, "mlp.experts.E.", model->expert_width,
                   model->experts, false, &sparse);
  add_kv_optional_window(build);
}

/* gpt-oss keeps gate and up of an expert fused, with biases on both products and on the router. */
static void add_gpt_oss_experts(struct kc_build *build, const struct kc_layer_set *layers)
{
  const struct kc_model *model = build->model;
  const uint64_t hidden = model->hidden, width = model->expert_width;
  const uint32_t experts = model->experts;
  KC_ASSERT(width > 0);
  const struct kc_tensor_spec specs[] = {
      {"mlp.router", KC_CLASS_ROUTER, experts, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"mlp.router.bias", KC_CLASS_NORM, 1, experts, KC_SHARD_REPLICATE, 1, 0},
      {"mlp.experts.gate_up_proj", KC_CLASS_ROUTED_EXPERTS, 2 * width, hidden, KC_SHARD_SPLIT,
       experts, 0},
      {"mlp.experts.gate_up_proj_bias", KC_CLASS_NORM, 1, 2 * width, KC_SHARD_SPLIT, experts,
       KC_SPEC_OF_EXPERT},
      {"mlp.experts.down_proj", KC_CLASS_ROUTED_EXPERTS, hidden, width, KC_SHARD_SPLIT, experts, 0},
      {"mlp.experts.down_proj_bias", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, experts,
       KC_SPEC_OF_EXPERT},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
}

void kc_family_gpt_oss(struct kc_build *build)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  struct kc_layer_set sliding;
  read_heads(build);
  read_experts(build, "num_local_experts");
  model->expert_width = kc_hf_u32(hf, "intermediate_size", 1, WIDTH_MAX);
  model->moe_layers = model->layers;
  const uint32_t window = kc_hf_u32(hf, "sliding_window", 1, WINDOW_MAX);
  if (!kc_build_layer_types(build, "sliding_attention", &sliding)) {
    /* transformers' GptOssConfig: even layers slide when the config has no list. */
    for (uint32_t layer = 0; layer < model->layers; layer += 2) kc_layers_add(&sliding, layer);
  }
  const struct gqa_extras extras = {.bias = kc_hf_bool_or(hf, "attention_bias", true),
                                    .sinks = true};
  kc_build_add_ends(build);
  add_attention(build, extras, &all);
  add_gpt_oss_experts(build, &all);
  add_kv_split(build, &sliding, window);
}

/* Layers of Llama 4 that attend in chunks: those with rotary positions (no_rope_layers item 1), by
 * default all but every fourth (transformers, Llama4TextConfig). */
static struct kc_layer_set llama4_chunked(struct kc_build *build)
{
  struct kc_hf *hf = build->hf;
  struct kc_layer_set chunked = {{0}};
  if (kc_build_layer_types(build, "chunked_attention", &chunked)) return chunked;
  const uint32_t layers = build->model->layers;
  const uint32_t interval = kc_hf_u32_or(hf, "no_rope_layer_interval", 1, KC_LAYERS_MAX, 4);
  const json_t *rope = kc_hf_array_or_null(hf, "no_rope_layers", 0);
  const bool listed = json_array_size(rope) > 0;
  if (listed && json_array_size(rope) != layers) {
    (void)kc_hf_fail(hf, "no_rope_layers", "has %zu items, expected %u, one for each layer",
                     json_array_size(rope), layers);
    return chunked;
  }
  for (uint32_t layer = 0; layer < layers; layer++) {
    const bool has_rope =
        listed ? json_integer_value(json_array_get(rope, layer)) != 0 : (layer + 1) % interval != 0;
    if (has_rope) kc_layers_add(&chunked, layer);
  }
  return chunked;
}

/* The shared expert has the width of a routed one (transformers, Llama4TextMoe); dense layers use
 * intermediate_size_mlp. */
static void add_llama4_mlps(struct kc_build *build)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  const uint32_t step = kc_hf_u32_or(hf, "interleave_moe_layer_step", 1, KC_LAYERS_MAX, 1);
  struct kc_layer_set sparse = {{0}};
  for (uint32_t layer = step - 1; layer < model->layers; layer += step) {
    kc_layers_add(&sparse, layer);
  }
  const struct kc_layer_set dense = kc_layers_without(all, &sparse);
  model->moe_layers = kc_layers_count(&sparse);
  model->shared_experts = 1;
  model->expert_width = kc_hf_u32(hf, "intermediate_size", 1, WIDTH_MAX);
  model->shared_width = model->expert_width;
  if (model->moe_layers < model->layers) {
    model->dense_width = kc_hf_u32(hf, "intermediate_size_mlp", 1, WIDTH_MAX);
  }
  kc_build_add_mlp(build, KC_CLASS_DENSE_MLP, "feed_forward.", model->dense_width, 1, false,
                   &dense);
  add_router(build, "feed_forward.router", &sparse);
  kc_build_add_mlp(build, KC_CLASS_ROUTED_EXPERTS, "feed_forward.experts.E.", model->expert_width,
                   model->experts, false, &sparse);
  kc_build_add_mlp(build, KC_CLASS_SHARED_EXPERTS, "feed_forward.shared_expert.",
                   model->shared_width, 1, false, &sparse);
}

void kc_family_llama4(struct kc_build *build)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  const struct kc_layer_set all = kc_layers_first(model->layers);
  read_heads(build);
  read_experts(build, "num_local_experts");
  const uint32_t chunk = kc_hf_u32_or(hf, "attention_chunk_size", 1, WINDOW_MAX, 0);
  const struct kc_layer_set none = {{0}};
  const struct kc_layer_set chunked = chunk > 0 ? llama4_chunked(build) : none;
  const struct gqa_extras extras = {.bias = kc_hf_bool_or(hf, "attention_bias", false)};
  kc_build_add_ends(build);
  add_attention(build, extras, &all);
  add_llama4_mlps(build);
  add_kv_split(build, &chunked, chunk);
  if (hf->err == KC_OK && kc_hf_enter(hf, "vision_config")) {
    kc_vision_llama4(build);
  }
}
