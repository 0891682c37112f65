/* A model as its Hugging Face config.json describes it: shapes, tensors, KV layout, FLOPs.
 *
 *   config.json --kc_model_load--> struct kc_model +-> tensor[], one per kind of tensor
 *                                                  `-> kv_group[], one per kind of attention layer
 *
 * Unknown keys of config.json are ignored (they are many); a missing key that matters is named in
 * the error. Where a family has a fixed rule that its config does not say (for example that
 * Llama 4's shared expert has the width of a routed one), the rule stands beside the code with its
 * source.
 */
#ifndef KC_ENGINE_MODEL_MODEL_H
#define KC_ENGINE_MODEL_MODEL_H

#include "engine/base/arena.h"
#include "kernels/formats/format.h"

enum { KC_LAYERS_MAX = 512, KC_TENSORS_MAX = 256, KC_KV_GROUPS_MAX = 4, KC_MODEL_NAME_BYTES = 64 };

/* What a tensor is for. Scenario keys (`weights: {routed_experts: int4-g32}`) use these names. */
enum kc_tensor_class {
  KC_CLASS_EMBEDDING,      /* token embedding */
  KC_CLASS_LM_HEAD,        /* output projection; absent when tied */
  KC_CLASS_ATTENTION,      /* q, k, v, o; MLA q_a q_b kv_a kv_b o; DSA indexer is separate */
  KC_CLASS_INDEXER,        /* DSA indexer projections */
  KC_CLASS_DENSE_MLP,      /* gate, up, down of dense layers */
  KC_CLASS_ROUTED_EXPERTS,
  KC_CLASS_SHARED_EXPERTS,
  KC_CLASS_ROUTER,         /* gate matrix */
  KC_CLASS_NORM,           /* every vector: norms, attention sinks, biases */
  KC_CLASS_VISION,         /* vision tower and projector */
  KC_CLASS_MTP,            /* multi-token-prediction layer, all its tensors */
  KC_TENSOR_CLASSES
};

/* How tensor parallelism lays a tensor out. */
enum kc_shard {
  KC_SHARD_SPLIT,      /* each rank holds 1/degree */
  KC_SHARD_REPLICATE,  /* each rank holds all of it */
  KC_SHARD_KV_HEADS    /* split by KV heads; replicated past kv_heads ranks */
};

/* One kind of tensor; kc_tensor_copies() of it exist in the model (layers x experts). */
struct kc_tensor {
  char name[48];               /* "layers.N.self_attn.q_a_proj" style, for listings */
  enum kc_tensor_class kind;
  enum kc_tensor_class math_class; /* = kind, except in MTP: what the tensor would be elsewhere,
                                      and for biases of experts: KC_CLASS_ROUTED_EXPERTS */
  uint64_t rows;               /* output features; 1 for a vector */
  uint64_t cols;               /* input features */
  uint32_t layer_count;        /* layers that hold it; 0 for tensors outside the layers */
  uint32_t per_layer;          /* copies in each such layer (experts); outside them: in all */
  uint64_t layer_bits[KC_LAYERS_MAX / 64]; /* bit L%64 of word L/64: layer L holds it */
  enum kc_shard shard;
  enum kc_weight_format native; /* format in the published checkpoint */
  bool quantisable;            /* false: stays `native` whatever the class override says */
  bool per_token;              /* true: takes part in the product for every token (not: input
                                  embedding, routed experts, vision, MTP) */
};

/* How a group of layers keeps its keys and values. */
enum kc_kv_kind {
  KC_KV_GQA,    /* k_heads vectors of K and of V per token; heads split by TP, replicate past */
  KC_KV_MLA,    /* one latent per token, replicated on every rank */
  KC_KV_DSA,    /* MLA plus an indexer vector; attends to the best `window` tokens */
  KC_KV_LINEAR  /* fixed state per sequence, no growth */
};

struct kc_kv_group {
  enum kc_kv_kind kind;
  uint32_t layers;            /* layers of this kind */
  uint32_t kv_heads;          /* GQA */
  uint32_t k_width;           /* elements of one K head, or of the MLA latent (kv_lora_rank) */
  uint32_t v_width;           /* elements of one V head; 0 for MLA */
  uint32_t rope_width;        /* MLA: the rotary part kept beside the latent */
  uint32_t indexer_width;     /* DSA: index_head_dim; stored FP8 + FP32 scale per 128 whatever the
                                 KV format, and on every layer, as SGLang does on CUDA */
  uint32_t query_heads;       /* for FLOPs */
  uint64_t window;            /* most tokens a query reads (sliding window, chunk, DSA top-k);
                                 0 = no bound */
  bool bounded_store;         /* true: no more than `window` tokens are kept in memory */
  uint64_t state_bytes;       /* LINEAR: bytes per sequence per layer */
  unsigned char layer_is[KC_LAYERS_MAX]; /* 1 where the layer belongs to this group */
};

struct kc_model {
  char name[KC_MODEL_NAME_BYTES];   /* file name without .json, or model_type */
  char architecture[KC_MODEL_NAME_BYTES];
  char path[KC_DIAG_PATH_BYTES];    /* file it came from */
  char sha256[65];                  /* of the file */
  uint32_t layers;
  uint32_t hidden;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_width;
  uint32_t vocabulary;
  uint64_t context_max;             /* max_position_embeddings */
  uint32_t experts;                 /* routed experts per MoE layer; 0 = dense */
  uint32_t experts_per_token;
  uint32_t shared_experts;
  uint32_t dense_width;             /* intermediate size of dense MLPs; 0 = none */
  uint32_t expert_width;            /* of one routed expert; 0 = none */
  uint32_t shared_width;            /* of all shared experts of a layer together; 0 = none */
  uint32_t moe_layers;
  uint32_t mtp_layers;              /* layers of multi-token prediction in the checkpoint */
  bool tied_embedding;
  bool is_mla;
  uint32_t vision_layers;           /* 0 = text only */
  uint32_t tensor_count;
  struct kc_tensor tensor[KC_TENSORS_MAX];
  uint32_t kv_group_count;
  struct kc_kv_group kv_group[KC_KV_GROUPS_MAX];
};

/* Reads `path`. Errors: KC_ERR_FILE; KC_ERR_INPUT with line and column for bad JSON, with the key's
 * name for a missing or impossible value or an architecture that is not known. */
enum kc_err kc_model_load(struct kc_model *model, const char *path, struct kc_diag *diag);

/* The same from memory; `path` is only kept for messages and for the model's name. */
enum kc_err kc_model_parse(struct kc_model *model, const char *data, size_t bytes,
                           const char *path, struct kc_diag *diag);

/* Parameters (elements) of the model: vision included, MTP not, scales not. */
uint64_t kc_model_parameters(const struct kc_model *model);
/* The same for the MTP layers alone. */
uint64_t kc_model_mtp_parameters(const struct kc_model *model);
/* Parameters that take part in one token's pass, input embedding excluded (a tied embedding counts
 * once, as the head). */
uint64_t kc_model_active_parameters(const struct kc_model *model);

/* Number of copies of a tensor in the whole model. */
uint64_t kc_tensor_copies(const struct kc_tensor *tensor);

/* Number of the tensor's layers within [first, first + count); 0 for tensors outside the layers. */
uint32_t kc_tensor_layers_within(const struct kc_tensor *tensor, uint32_t first, uint32_t count);

/* Bytes of one copy that one rank of `tensor` holds, in `format`. A split copy is rounded up. */
uint64_t kc_tensor_rank_bytes(const struct kc_model *model, const struct kc_tensor *part,
                              enum kc_weight_format format, uint32_t tensor);

const char *kc_tensor_class_name(enum kc_tensor_class kind);
bool kc_tensor_class_parse(const char *name, enum kc_tensor_class *out);

/* ---- precision: which format each class is held in ---- */

struct kc_precision {
  enum kc_weight_format weight[KC_TENSOR_CLASSES]; /* DEFAULT = the checkpoint's own */
  enum kc_kv_format k_format;
  enum kc_kv_format v_format; /* = k_format unless the scenario sets them apart; unused by MLA */
};

void kc_precision_default(struct kc_precision *precision);

/* Parses "routed_experts=int4-g32,default=bf16,mtp=none" on top of *precision. `default` sets the
 * attention, indexer, dense_mlp, routed_experts and shared_experts classes that are not named; the
 * embedding, lm_head, router and vision keep the checkpoint's format unless named, and vectors
 * always do. The MTP layer follows the class that each of its tensors would have elsewhere, unless
 * `mtp` is named. `none` (leave out) is for mtp and vision only. Errors KC_ERR_INPUT naming the
 * class or format that is not known, with a near name. */
enum kc_err kc_precision_parse(struct kc_precision *precision, const char *text,
                               struct kc_diag *diag);

/* Format that a tensor is held in under a precision. */
enum kc_weight_format kc_tensor_format(const struct kc_tensor *tensor,
                                       const struct kc_precision *precision);

/* The formats of the matrices that every token meets, as text: "bf16" where all share one, else
 * "attention=bf16,routed_experts=int4-g32,..." by class; a class of several formats joins them by
 * '+'. Embedding, router, vision and MTP are left out: they take next to nothing of a step. Two
 * precisions of equal text take the same time. */
enum { KC_WEIGHTS_TEXT_BYTES = 160 };
void kc_precision_weights_text(const struct kc_model *model, const struct kc_precision *precision,
                               char out[KC_WEIGHTS_TEXT_BYTES]);

/* The format of keys and values as text; where they differ "bf16/fp8-e4m3". A model that keeps one
 * latent for both (MLA) has one. */
enum { KC_KV_TEXT_BYTES = 40 };
void kc_precision_kv_text(const struct kc_model *model, const struct kc_precision *precision,
                          char out[KC_KV_TEXT_BYTES]);

/* Bytes of the whole checkpoint under a precision (all copies, scales included). */
uint64_t kc_model_checkpoint_bytes(const struct kc_model *model,
                                   const struct kc_precision *precision);

/* Bytes of the weights that one rank holds: tensor degree `tensor`, pipeline stage `stage` of
 * `stages` (layers dealt contiguously, the first layers%stages stages get one more; the embedding
 * lives on the first stage, lm_head, final norm and MTP on the last, vision on the first).
 * With MTP kept on one stage, its embedding and head are shared with the model's. */
uint64_t kc_model_rank_weight_bytes(const struct kc_model *model,
                                    const struct kc_precision *precision, uint32_t tensor,
                                    uint32_t stage, uint32_t stages);

/* The same by class; the sum is the return value. */
uint64_t kc_model_rank_class_bytes(const struct kc_model *model,
                                   const struct kc_precision *precision, uint32_t tensor,
                                   uint32_t stage, uint32_t stages,
                                   uint64_t class_bytes[KC_TENSOR_CLASSES]);

/* First layer and number of layers of a pipeline stage. */
void kc_model_stage_layers(const struct kc_model *model, uint32_t stage, uint32_t stages,
                           uint32_t *first, uint32_t *count);

/* KV bytes per token of one layer of a group on one rank of `tensor`. A DSA group keeps FP8 in the
 * 656-byte layout (latent with FP32 scales per 128, rotary part in BF16) for fp8-e4m3 as for
 * fp8-g128, because that is what SGLang stores for FlashMLA under --kv-cache-dtype fp8_e4m3. */
uint64_t kc_kv_group_token_bytes(const struct kc_kv_group *group, enum kc_kv_format k_format,
                                 enum kc_kv_format v_format, uint32_t tensor);

/* KV bytes per token of the whole model on one rank: every group, every layer, as if nothing were
 * bounded. Draft layers are not included. */
uint64_t kc_model_kv_token_bytes(const struct kc_model *model, enum kc_kv_format k_format,
                                 enum kc_kv_format v_format, uint32_t tensor);

/* True when `tensor` divides what it must (query heads; KV heads, or they divide it; the widths of
 * experts and MLPs; the vocabulary is padded and does not count); otherwise *why (may be NULL)
 * names the first thing it does not divide. */
bool kc_model_tensor_degree_valid(const struct kc_model *model, uint32_t tensor,
                                  const char **why);

#endif
