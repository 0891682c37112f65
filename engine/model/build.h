/* What the families share while they turn a config into tensors and KV groups. Internal to the
 * folder.
 *
 * A family states its tensors as rows of a table (struct kc_tensor_spec) and the set of layers that
 * hold them; kc_build_add() works out the format in the checkpoint, splits a row whose modules are
 * quantised in some layers and exempt in others, and appends to model->tensor[].
 */
#ifndef KC_ENGINE_MODEL_BUILD_H
#define KC_ENGINE_MODEL_BUILD_H

#include "engine/model/model.h"
#include "engine/model/quantisation.h"

/* A set of layers. */
struct kc_layer_set {
  uint64_t bits[KC_LAYERS_MAX / 64];
};

enum kc_spec_flag {
  KC_SPEC_KEEP = 1,     /* a matrix that no scheme quantises */
  KC_SPEC_FP32 = 2,     /* stored as FP32 whatever the checkpoint's dtype */
  KC_SPEC_OF_EXPERT = 4 /* a vector of one routed expert */
};

/* One row of a family's table. rows = 0: the row is left out (an optional tensor). Vectors have
 * rows = 1 and class NORM (or VISION in a vision tower). `per_layer` 0 reads as 1. */
struct kc_tensor_spec {
  const char *name; /* below the layer: "self_attn.q_proj"; "experts.E." stands for every expert */
  enum kc_tensor_class kind;
  uint64_t rows, cols;
  enum kc_shard shard;
  uint32_t per_layer;
  unsigned flags;
};

struct kc_build {
  struct kc_model *model; /* being filled; caller's */
  struct kc_hf *hf;       /* borrowed */
  const struct kc_quantisation *quantisation;
  enum kc_weight_format dtype; /* of what is not quantised */
  const char *module_prefix;   /* of module names in lists of exempt modules: "model." */
  uint32_t mtp_copies;         /* > 0 while the MTP layers are being described */
};

struct kc_layer_set kc_layers_first(uint32_t count); /* layers [0, count) */
void kc_layers_add(struct kc_layer_set *set, uint32_t layer);
bool kc_layers_has(const struct kc_layer_set *set, uint32_t layer);
uint32_t kc_layers_count(const struct kc_layer_set *set);
struct kc_layer_set kc_layers_without(struct kc_layer_set from, const struct kc_layer_set *less);

/* Appends the rows. `layers` NULL: outside the layers (ignored while mtp_copies > 0). A row for an
 * empty set of layers is left out. */
void kc_build_add(struct kc_build *build, const struct kc_tensor_spec *specs, size_t count,
                  const struct kc_layer_set *layers);

/* Embedding, final norm and, unless tied, the head. */
void kc_build_add_ends(struct kc_build *build);

/* Gate, up and down of a gated MLP: "<scope>gate_proj" etc. Width 0 adds nothing. With `bias` also
 * three bias vectors. */
void kc_build_add_mlp(struct kc_build *build, enum kc_tensor_class kind, const char *scope,
                      uint32_t width, uint32_t per_layer, bool bias,
                      const struct kc_layer_set *layers);

/* Appends a KV group for `layers`; nothing when the set is empty. */
void kc_build_add_kv(struct kc_build *build, const struct kc_kv_group *group,
                     const struct kc_layer_set *layers);

/* Reads "layer_types" (one text per layer): the layers named `bounded`. All others must be
 * "full_attention". Returns false when the key is absent or a fault was recorded. */
bool kc_build_layer_types(struct kc_build *build, const char *bounded, struct kc_layer_set *out);

/* ---- families: each reads its keys and adds its tensors; faults go to build->hf->err ---- */

void kc_family_llama(struct kc_build *build);
void kc_family_qwen3(struct kc_build *build);
void kc_family_mixtral(struct kc_build *build);
void kc_family_qwen3_moe(struct kc_build *build);
void kc_family_gpt_oss(struct kc_build *build);
void kc_family_llama4(struct kc_build *build);
void kc_family_mla(struct kc_build *build);
void kc_family_glm_dsa(struct kc_build *build);

/* Vision towers; hf->object must be the vision config. */
void kc_vision_moonvit(struct kc_build *build);
void kc_vision_llama4(struct kc_build *build);

#endif
