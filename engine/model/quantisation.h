/* How a published checkpoint is quantised: the `quantization_config` of its config.json.
 * Internal to the folder.
 *
 * Known methods: fp8 (per tensor, or 128 x 128 blocks), compressed-tensors (int4 groups, int8, fp8,
 * nvfp4), mxfp4 (routed experts only), modelopt (FP8, NVFP4), gptq and awq (int4 groups).
 * The modules it leaves alone are listed under modules_to_not_convert, ignore or exclude_modules.
 */
#ifndef KC_ENGINE_MODEL_QUANTISATION_H
#define KC_ENGINE_MODEL_QUANTISATION_H

#include <regex.h>

#include "engine/model/hf.h"
#include "kernels/formats/format.h"

enum {
  KC_EXEMPT_NAMES_MAX = 4096,  /* plain module names */
  KC_EXEMPT_PATTERNS_MAX = 64, /* names with '*', and regular expressions, each */
  KC_EXEMPT_REGEX_BYTES = 200  /* longest expression */
};

/* The modules that a checkpoint leaves alone, sorted by how they are matched. Texts are borrowed
 * from the document; compiled expressions are owned. */
struct kc_quantisation {
  enum kc_weight_format format; /* DEFAULT = the checkpoint is not quantised */
  bool experts_only;            /* mxfp4 touches nothing but routed experts */
  size_t name_count;
  const char *name[KC_EXEMPT_NAMES_MAX];
  size_t glob_count;
  const char *glob[KC_EXEMPT_PATTERNS_MAX];
  size_t regex_count;
  regex_t regex[KC_EXEMPT_PATTERNS_MAX];
};

/* Reads root or text_config "quantization_config" (the text model's wins). Faults go to hf->err;
 * the struct may be passed to deinit whatever happened. */
void kc_quantisation_init(struct kc_quantisation *quantisation, struct kc_hf *hf);
void kc_quantisation_deinit(struct kc_quantisation *quantisation);

/* True when the list of exempt modules covers the module, e.g. "model.layers.3.mlp.gate".
 * O(entries x length of the name). */
bool kc_quantisation_exempts(const struct kc_quantisation *quantisation, const char *module);

#endif
