/* config.json -> struct kc_model: which family it is, what every family has, and the checks at the
 * end.
 *
 *   bytes --jansson--> document --family--> tensors, KV groups --> totals within bounds
 *
 * The document lives for the length of one call; the model keeps nothing of it. jansson allocates
 * from the heap: this runs at set-up, never in a step loop.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/digest.h"
#include "engine/base/file.h"
#include "engine/base/vtime.h"
#include "engine/model/build.h"

enum { CONFIG_BYTES_MAX = 16 << 20, HIDDEN_MAX = 1 << 20, VOCABULARY_MAX = 1 << 24 };

/* No model may have more elements than this (about 10^15): above it, byte counts of every format
 * and sums of them could pass 64 bits, and the file is wrong anyway. */
#define ELEMENTS_MAX (UINT64_C(1) << 50)

struct family {
  const char *model_type;
  const char *architecture;
  const char *module_prefix;
  void (*build)(struct kc_build *build);
};

/* Kimi K2 says DeepseekV3ForCausalLM, so model_type is looked at first. */
static const struct family families[] = {
    {"llama", "LlamaForCausalLM", "model.", kc_family_llama},
    {"qwen3", "Qwen3ForCausalLM", "model.", kc_family_qwen3},
    {"mixtral", "MixtralForCausalLM", "model.", kc_family_mixtral},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "model.", kc_family_qwen3_moe},
    {"gpt_oss", "GptOssForCausalLM", "model.", kc_family_gpt_oss},
    {"llama4", "Llama4ForConditionalGeneration", "language_model.model.", kc_family_llama4},
    {"llama4_text", "Llama4ForCausalLM", "model.", kc_family_llama4},
    {"deepseek_v3", "DeepseekV3ForCausalLM", "model.", kc_family_mla},
    {"kimi_k2", "DeepseekV3ForCausalLM", "model.", kc_family_mla},
    {"kimi_k25", "KimiK25ForConditionalGeneration", "language_model.model.", kc_family_mla},
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM", "model.", kc_family_glm_dsa},
};
static const char FAMILIES[] = "llama, qwen3, mixtral, qwen3_moe, gpt_oss, llama4, llama4_text, "
                               "deepseek_v3, kimi_k2, kimi_k25, "
                               "glm_moe_dsa";

static const struct family *find_family(struct kc_hf *hf)
{
  const char *type = kc_hf_text_or_null(hf, "model_type");
  const json_t *list = kc_hf_array_or_null(hf, "architectures", 0);
  const char *architecture = json_string_value(json_array_get(list, 0));
  if (hf->err != KC_OK) return NULL;
  for (size_t i = 0; type != NULL && i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i].model_type, type) == 0) return &families[i];
  }
  for (size_t i = 0; architecture != NULL && i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i].architecture, architecture) == 0) return &families[i];
  }
  if (type == NULL && architecture == NULL) {
    (void)kc_hf_fail(hf, "model_type",
                     "and \"architectures\" are missing, expected a model_type of %s", FAMILIES);
  } else {
    (void)kc_hf_fail(hf, type == NULL ? "architectures" : "model_type",
                     "is \"%.60s\", which is no family known here; expected a model_type of %s",
                     type == NULL ? architecture : type, FAMILIES);
  }
  return NULL;
}

/* "torch_dtype", or "dtype" in newer files, of the text model or of the whole. */
static enum kc_weight_format read_dtype(struct kc_hf *hf)
{
  static const char *const keys[] = {"torch_dtype", "dtype"};
  const char *name = NULL;
  const char *key = NULL;
  for (int i = 0; i < 4 && name == NULL && hf->err == KC_OK; i++) {
    key = keys[i % 2];
    name = i < 2 ? kc_hf_text_or_null(hf, key) : json_string_value(json_object_get(hf->root, key));
  }
  if (name == NULL || strcmp(name, "bfloat16") == 0) return KC_WEIGHT_BF16;
  if (strcmp(name, "float16") == 0) return KC_WEIGHT_FP16;
  if (strcmp(name, "float32") == 0) return KC_WEIGHT_FP32;
  (void)kc_hf_fail(hf, key, "is \"%.40s\", expected bfloat16, float16 or float32", name);
  return KC_WEIGHT_BF16;
}

/* "dir/kimi-k2.6.json" -> "kimi-k2.6". */
static void set_name(struct kc_model *model, const char *path)
{
  const char *slash = strrchr(path, '/');
  const char *base = slash == NULL ? path : slash + 1;
  size_t length = strlen(base);
  const size_t suffix = strlen(".json");
  if (length > suffix && strcmp(base + length - suffix, ".json") == 0) length -= suffix;
  if (length >= sizeof model->name) length = sizeof model->name - 1;
  memcpy(model->name, base, length);
  model->name[length] = '\0';
  snprintf(model->path, sizeof model->path, "%s", path);
}

static void read_common(struct kc_model *model, struct kc_hf *hf)
{
  model->layers = kc_hf_u32(hf, "num_hidden_layers", 1, KC_LAYERS_MAX);
  model->hidden = kc_hf_u32(hf, "hidden_size", 1, HIDDEN_MAX);
  model->vocabulary = kc_hf_u32(hf, "vocab_size", 1, VOCABULARY_MAX);
  model->context_max = kc_hf_u32(hf, "max_position_embeddings", 1, INT32_MAX);
  model->tied_embedding = kc_hf_bool_or(hf, "tie_word_embeddings", false);
  KC_ASSERT(model->layers >= 1 && model->layers <= KC_LAYERS_MAX);
  KC_ASSERT(model->hidden >= 1);
}

/* Sums in 128 bits, because a hostile file may ask for more than 64 hold. */
static void check_size(const struct kc_model *model, struct kc_hf *hf)
{
  kc_u128 elements = 0;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    const uint64_t layers = tensor->layer_count == 0 ? 1 : tensor->layer_count;
    elements += (kc_u128)tensor->rows * tensor->cols * (layers * tensor->per_layer);
  }
  if (elements <= ELEMENTS_MAX) return;
  (void)kc_hf_fail(hf, NULL,
                   "the shapes add up to more than 2^50 parameters, which no model has; check "
                   "hidden_size, vocab_size, the intermediate sizes and the number of experts");
}

static void build_model(struct kc_model *model, struct kc_hf *hf, const struct family *family)
{
  struct kc_quantisation quantisation;
  snprintf(model->architecture, sizeof model->architecture, "%s", family->model_type);
  (void)kc_hf_enter(hf, "text_config");
  kc_quantisation_init(&quantisation, hf);
  struct kc_build build = {
      .model = model,
      .hf = hf,
      .quantisation = &quantisation,
      .dtype = read_dtype(hf),
      .module_prefix = family->module_prefix,
  };
  read_common(model, hf);
  family->build(&build);
  kc_quantisation_deinit(&quantisation);
  if (hf->err == KC_OK) check_size(model, hf);
  KC_ASSERT(build.mtp_copies == 0);
}

enum kc_err kc_model_parse(struct kc_model *model, const char *data, size_t bytes, const char *path,
                           struct kc_diag *diag)
{
  KC_ASSERT(model != NULL);
  KC_ASSERT(path != NULL);
  json_error_t error;
  struct kc_hf hf;
  *model = (struct kc_model){0};
  set_name(model, path);
  if (bytes == 0)
    return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "is empty, expected a config.json");
  json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL) {
    return kc_fail_at(diag, KC_ERR_INPUT, path, error.line > 0 ? (uint64_t)error.line : 0,
                      error.column > 0 ? (uint32_t)error.column : 0, "is not valid JSON: %s",
                      error.text);
  }
  if (!json_is_object(root)) {
    json_decref(root);
    return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                      "is not a JSON object, expected a config.json");
  }
  kc_hf_init(&hf, root, data, bytes, path, diag);
  const struct family *family = find_family(&hf);
  if (family != NULL) build_model(model, &hf, family);
  json_decref(root);
  KC_ASSERT(hf.err != KC_OK || (model->tensor_count > 0 && model->kv_group_count > 0));
  return hf.err;
}

enum kc_err kc_model_load(struct kc_model *model, const char *path, struct kc_diag *diag)
{
  struct kc_file file;
  struct kc_sha256 sha;
  KC_ASSERT(model != NULL);
  KC_ASSERT(path != NULL);
  KC_TRY(kc_file_open(&file, path, CONFIG_BYTES_MAX, diag));
  const enum kc_err err = kc_model_parse(model, file.data, file.bytes, path, diag);
  if (err == KC_OK) {
    kc_sha256_init(&sha);
    kc_sha256_update(&sha, file.data, file.bytes);
    kc_sha256_final_hex(&sha, model->sha256);
  }
  kc_file_close(&file);
  return err;
}
