/* Families with multi-head latent attention: DeepSeek-V3, Kimi K2 and K2.5/K2.6, GLM-5.x.
 *
 *   hidden --q_a--> q_lora --q_b--> heads x (nope + rope)
 *   hidden --kv_a-> kv_lora + rope  (this is what the cache keeps: one latent per token)
 *          kv_lora --kv_b--> heads x (nope + v)        heads x v --o--> hidden
 *
 * Tensor parallelism splits q_b, kv_b and o by head and replicates q_a, kv_a, the indexer, routers
 * and norms; the latent cache is replicated on every rank (vLLM and SGLang alike). GLM-5.x adds the
 * lightning indexer of DeepSeek Sparse Attention; its checkpoint holds one in each "full" layer and
 * one in the MTP layer, as the published weight index shows (59,585 tensors for GLM-5.2).
 *
 * The MTP layers are one decoder layer each plus two norms, the 2h -> h projection and a final
 * norm; embedding and head are shared with the model's.
 */
#include <string.h>

#include "engine/base/check.h"
#include "engine/model/build.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { WIDTH_MAX = 1 << 24, RANK_MAX = 1 << 20, HEAD_MAX = 8192, EXPERTS_MAX = 4096 };

struct mla {
  uint32_t q_rank; /* 0: q is projected straight from hidden */
  uint32_t kv_rank;
  uint32_t nope, rope, v;            /* widths per head */
  uint32_t index_heads, index_width; /* 0: no indexer */
  uint64_t index_topk;
  struct kc_layer_set all, dense, sparse, indexed;
};

/* ---- reading ---- */

static void read_attention(struct kc_build *build, struct mla *mla)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  KC_ASSERT(model->layers > 0);
  mla->all = kc_layers_first(model->layers);
  model->heads = kc_hf_u32(hf, "num_attention_heads", 1, 4096);
  model->kv_heads = kc_hf_u32_or(hf, "num_key_value_heads", 1, 4096, model->heads);
  mla->q_rank = kc_hf_u32_or(hf, "q_lora_rank", 1, RANK_MAX, 0);
  mla->kv_rank = kc_hf_u32(hf, "kv_lora_rank", 1, RANK_MAX);
  mla->nope = kc_hf_u32(hf, "qk_nope_head_dim", 1, HEAD_MAX);
  mla->rope = kc_hf_u32(hf, "qk_rope_head_dim", 1, HEAD_MAX);
  mla->v = kc_hf_u32(hf, "v_head_dim", 1, HEAD_MAX);
  model->head_width = mla->nope + mla->rope;
  model->is_mla = true;
}

/* "mlp_layer_types" lists dense and sparse layers; older configs say first_k_dense_replace. */
static void read_layer_kinds(struct kc_build *build, struct mla *mla)
{
  struct kc_hf *hf = build->hf;
  const uint32_t layers = build->model->layers;
  const json_t *kinds = kc_hf_array_or_null(hf, "mlp_layer_types", layers);
  const uint32_t first =
      kinds != NULL ? 0 : kc_hf_u32(hf, "first_k_dense_replace", 0, KC_LAYERS_MAX);
  const uint32_t step = kc_hf_u32_or(hf, "moe_layer_freq", 1, KC_LAYERS_MAX, 1);
  for (uint32_t layer = 0; layer < layers; layer++) {
    const char *kind = json_string_value(json_array_get(kinds, layer));
    const bool sparse = kinds == NULL ? layer >= first && layer % step == 0
                                      : kind != NULL && strcmp(kind, "sparse") == 0;
    if (sparse) kc_layers_add(&mla->sparse, layer);
    if (kinds != NULL && !sparse && (kind == NULL || strcmp(kind, "dense") != 0)) {
      (void)kc_hf_fail(hf, "mlp_layer_types", "item %u is not \"dense\" or \"sparse\"", layer);
    }
  }
  mla->dense = kc_layers_without(mla->all, &mla->sparse);
}

static void read_experts(struct kc_build *build, struct mla *mla)
{
  struct kc_model *model = build->model;
  struct kc_hf *hf = build->hf;
  read_layer_kinds(build, mla);
  model->moe_layers = kc_layers_count(&mla->sparse);
  if (model->moe_layers < model->layers) {
    model->dense_width = kc_hf_u32(hf, "intermediate_size", 1, WIDTH_MAX);
  }
  if (model->moe_layers == 0) return;
  model->experts = kc_hf_u32(hf, "n_routed_experts", 1, EXPERTS_MAX);
  model->experts_per_token = kc_hf_u32(hf, "num_experts_per_tok", 1, EXPERTS_MAX);
  model->shared_experts = kc_hf_u32_or(hf, "n_shared_experts", 0, 64, 0);
  model->expert_width = kc_hf_u32(hf, "moe_intermediate_size", 1, WIDTH_MAX);
  model->shared_width = model->shared_experts * model->expert_width;
  if (hf->err == KC_OK && model->experts_per_token > model->experts) {
    (void)kc_hf_fail(hf, "num_experts_per_tok", "(%u) is more than \"n_routed_experts\" (%u)",
                     model->experts_per_token, model->experts);
  }
}

/* Layers whose checkpoint holds an indexer: listed, or every index_topk_freq-th after the first
 * index_skip_topk_offset (GLM-5.2), or all of them (GLM-5). */
static void read_indexed_layers(struct kc_build *build, struct mla *mla)
{
  struct kc_hf *hf = build->hf;
  const uint32_t layers = build->model->layers;
  const json_t *types = kc_hf_array_or_null(hf, "indexer_types", layers);
  const uint32_t step = kc_hf_u32_or(hf, "index_topk_freq", 1, KC_LAYERS_MAX, 1);
  const uint32_t offset =
      types == NULL && step > 1 ? kc_hf_u32(hf, "index_skip_topk_offset", 0, KC_LAYERS_MAX) : 0;
  for (uint32_t layer = 0; layer < layers; layer++) {
    const char *type = json_string_value(json_array_get(types, layer));
    const uint32_t after = layer + 1 > offset ? layer + 1 - offset : 0;
    const bool full =
        types == NULL ? after % step == 0 || step == 1 : type != NULL && strcmp(type, "full") == 0;
    if (full) kc_layers_add(&mla->indexed, layer);
    if (types != NULL && !full && (type == NULL || strcmp(type, "shared") != 0)) {
      (void)kc_hf_fail(hf, "indexer_types", "item %u is not \"full\" or \"shared\"", layer);
    }
  }
}

static void read_indexer(struct kc_build *build, struct mla *mla)
{
  struct kc_hf *hf = build->hf;
  mla->index_heads = kc_hf_u32(hf, "index_n_heads", 1, 4096);
  mla->index_width = kc_hf_u32(hf, "index_head_dim", 1, HEAD_MAX);
  mla->index_topk = kc_hf_u32(hf, "index_topk", 1, 1 << 30);
  if (hf->err == KC_OK && mla->q_rank == 0) {
    (void)kc_hf_fail(hf, "q_lora_rank", "is missing, and the indexer projects from it");
  }
  read_indexed_layers(build, mla);
}

/* ---- tensors ---- */

static void add_attention(struct kc_build *build, const struct mla *mla,
                          const struct kc_layer_set *layers)
{
  const struct kc_model *model = build->model;
  const uint64_t hidden = model->hidden, heads = model->heads;
  const uint64_t q_rows = heads * (mla->nope + mla->rope);
  const bool low_rank = mla->q_rank > 0;
  KC_ASSERT(model->is_mla);
  KC_ASSERT(mla->kv_rank > 0);
  const struct kc_tensor_spec specs[] = {
      {"input_layernorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.q_proj", KC_CLASS_ATTENTION, low_rank ? 0 : q_rows, hidden, KC_SHARD_SPLIT, 1, 0},
      {"self_attn.q_a_proj", KC_CLASS_ATTENTION, mla->q_rank, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.q_a_layernorm", KC_CLASS_NORM, low_rank, mla->q_rank, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.q_b_proj", KC_CLASS_ATTENTION, low_rank ? q_rows : 0, mla->q_rank, KC_SHARD_SPLIT,
       1, 0},
      {"self_attn.kv_a_proj_with_mqa", KC_CLASS_ATTENTION, (uint64_t)mla->kv_rank + mla->rope,
       hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.kv_a_layernorm", KC_CLASS_NORM, 1, mla->kv_rank, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.kv_b_proj", KC_CLASS_ATTENTION, heads * (mla->nope + mla->v), mla->kv_rank,
       KC_SHARD_SPLIT, 1, 0},
      {"self_attn.o_proj", KC_CLASS_ATTENTION, hidden, heads * mla->v, KC_SHARD_SPLIT, 1, 0},
      {"post_attention_layernorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
}

/* weights_proj stays in the checkpoint's dtype in every published FP8 release. */
static void add_indexer(struct kc_build *build, const struct mla *mla,
                        const struct kc_layer_set *layers)
{
  const uint64_t hidden = build->model->hidden, width = mla->index_width;
  if (mla->index_heads == 0) return;
  KC_ASSERT(mla->q_rank > 0 || build->hf->err != KC_OK);
  const struct kc_tensor_spec specs[] = {
      {"self_attn.indexer.wq_b", KC_CLASS_INDEXER, mla->index_heads * width, mla->q_rank,
       KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.indexer.wk", KC_CLASS_INDEXER, width, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.indexer.weights_proj", KC_CLASS_INDEXER, mla->index_heads, hidden,
       KC_SHARD_REPLICATE, 1, KC_SPEC_KEEP},
      {"self_attn.indexer.k_norm", KC_CLASS_NORM, 1, width, KC_SHARD_REPLICATE, 1, 0},
      {"self_attn.indexer.k_norm.bias", KC_CLASS_NORM, 1, width, KC_SHARD_REPLICATE, 1, 0},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
}

/* The bias of the noaux_tc router corrects the choice of experts only; it is kept in FP32. */
static void add_moe(struct kc_build *build, const struct kc_layer_set *layers)
{
  const struct kc_model *model = build->model;
  if (model->experts == 0) return;
  KC_ASSERT(model->expert_width > 0);
  const struct kc_tensor_spec specs[] = {
      {"mlp.gate", KC_CLASS_ROUTER, model->experts, model->hidden, KC_SHARD_REPLICATE, 1, 0},
      {"mlp.gate.e_score_correction_bias", KC_CLASS_NORM, 1, model->experts, KC_SHARD_REPLICATE, 1,
       KC_SPEC_FP32},
  };
  kc_build_add(build, specs, COUNT(specs), layers);
  kc_build_add_mlp(build, KC_CLASS_ROUTED_EXPERTS, "mlp.experts.E.", model->expert_width,
                   model->experts, false, layers);
  kc_build_add_mlp(build, KC_CLASS_SHARED_EXPERTS, "mlp.shared_experts.", model->shared_width, 1,
                   false, layers);
}

static void add_mtp(struct kc_build *build, const struct mla *mla)
{
  const struct kc_model *model = build->model;
  const uint64_t hidden = model->hidden;
  if (model->mtp_layers == 0) return;
  KC_ASSERT(build->mtp_copies == 0);
  build->mtp_copies = model->mtp_layers;
  const struct kc_tensor_spec specs[] = {
      {"enorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"hnorm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
      {"eh_proj", KC_CLASS_DENSE_MLP, hidden, 2 * hidden, KC_SHARD_REPLICATE, 1, KC_SPEC_KEEP},
      {"shared_head.norm", KC_CLASS_NORM, 1, hidden, KC_SHARD_REPLICATE, 1, 0},
  };
  kc_build_add(build, specs, COUNT(specs), NULL);
  add_attention(build, mla, NULL);
  add_indexer(build, mla, NULL);
  if (model->experts > 0) {
    add_moe(build, NULL);
  } else {
    kc_build_add_mlp(build, KC_CLASS_DENSE_MLP, "mlp.", model->dense_width, 1, false, NULL);
  }
  build->mtp_copies = 0;
}

static void add_kv(struct kc_build *build, const struct mla *mla)
{
  const struct kc_kv_group group = {
      .kind = mla->index_heads > 0 ? KC_KV_DSA : KC_KV_MLA,
      .kv_heads = 1,
      .k_width = mla->kv_rank,
      .rope_width = mla->rope,
      .indexer_width = mla->index_width,
      .query_heads = build->model->heads,
      .window = mla->index_topk,
  };
  KC_ASSERT(group.k_width > 0);
  KC_ASSERT(!group.bounded_store);
  kc_build_add_kv(build, &group, &mla->all);
}

static void build_mla(struct kc_build *build, bool indexer)
{
  struct mla mla = {0};
  struct kc_model *model = build->model;
  read_attention(build, &mla);
  read_experts(build, &mla);
  if (indexer) read_indexer(build, &mla);
  model->mtp_layers = kc_hf_u32_or(build->hf, "num_nextn_predict_layers", 0, 16, 0);
  kc_build_add_ends(build);
  add_attention(build, &mla, &mla.all);
  add_indexer(build, &mla, &mla.indexed);
  kc_build_add_mlp(build, KC_CLASS_DENSE_MLP, "mlp.", model->dense_width, 1, false, &mla.dense);
  add_moe(build, &mla.sparse);
  add_mtp(build, &mla);
  add_kv(build, &mla);
}

void kc_family_mla(struct kc_build *build)
{
  build_mla(build, false);
  if (build->hf->err == KC_OK && kc_hf_enter(build->hf, "vision_config")) {
    kc_vision_moonvit(build);
  }
}

void kc_family_glm_dsa(struct kc_build *build)
{
  build_mla(build, true);
}
