/* What a forward pass needs to know beyond shapes: rotary embedding, norms, how experts are chosen.
 *
 * struct kc_model says what fits and how much work it is; this says what to compute. Only the two
 * kinds of model that the engine runs are read: grouped-query attention (llama, qwen3, mixtral,
 * qwen3_moe) and multi-head latent attention (deepseek_v3, kimi_k2, kimi_k25).
 */
#ifndef KC_ENGINE_MODEL_RECIPE_H
#define KC_ENGINE_MODEL_RECIPE_H

#include "engine/model/model.h"

enum kc_rope_scaling { KC_ROPE_PLAIN, KC_ROPE_LLAMA3, KC_ROPE_YARN };

struct kc_recipe {
  /* shapes, as in struct kc_model */
  uint32_t layers, hidden, vocabulary;
  uint32_t heads, kv_heads, head_dim; /* GQA: of q, k and v */
  uint32_t dense_width;
  uint64_t context_max;
  bool tied_embedding;
  /* attention */
  bool mla;
  bool qk_norm;                       /* qwen3: RMSNorm on each head of q and k */
  uint32_t q_rank;                    /* MLA: 0 = q straight from hidden */
  uint32_t latent, rope, nope, value; /* MLA widths */
  double norm_epsilon;
  double rope_theta;
  enum kc_rope_scaling scaling;
  double rope_factor, rope_low, rope_high; /* LLAMA3: low and high frequency factors; YARN:
                                              beta_slow, beta_fast */
  double rope_original;                    /* original_max_position_embeddings */
  double rope_mscale, rope_mscale_all;     /* YARN */
  /* experts; 0 = dense */
  uint32_t experts, top, expert_width, shared_width;
  bool mixtral_names;                    /* block_sparse_moe.experts.E.w1, w3, w2 */
  uint64_t moe_bits[KC_LAYERS_MAX / 64]; /* layers with experts */
  uint32_t groups, groups_top;
  bool sigmoid, normalise, router_bias;
  double routed_factor;
};

/* True when `layer` has experts. */
static inline bool kc_recipe_moe(const struct kc_recipe *recipe, uint32_t layer)
{
  return (recipe->moe_bits[layer / 64] >> (layer % 64) & 1) != 0;
}

/* Reads what `model` was read from once more. KC_ERR_INPUT names a missing or impossible key, or
 * the family when the engine does not run it. */
enum kc_err kc_recipe_load(struct kc_recipe *recipe, const struct kc_model *model,
                           struct kc_diag *diag);
enum kc_err kc_recipe_parse(struct kc_recipe *recipe, const struct kc_model *model,
                            const char *data, size_t bytes, struct kc_diag *diag);

#endif
