/* Counts over the finished tensor list: parameters, bytes of the checkpoint, bytes per rank, and KV
 * bytes per token. All integer; nothing here allocates or fails.
 *
 *   one tensor      copies = layers x experts          rank bytes = ceil(bytes of one copy /
 * degree) pipeline        stage 0: embedding, vision | layers dealt contiguously | last: norm,
 * head, MTP
 *
 * kc_model_load() keeps the total below 2^50 elements, so no sum here can pass 64 bits.
 */
#include <string.h>

#include "engine/base/check.h"
#include "engine/model/model.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
  return a / b + (a % b != 0);
}

uint64_t kc_tensor_copies(const struct kc_tensor *tensor)
{
  KC_ASSERT(tensor->per_layer > 0);
  KC_ASSERT(tensor->layer_count <= KC_LAYERS_MAX);
  const uint64_t layers = tensor->layer_count == 0 ? 1 : tensor->layer_count;
  return layers * tensor->per_layer;
}

uint32_t kc_tensor_layers_within(const struct kc_tensor *tensor, uint32_t first, uint32_t count)
{
  KC_ASSERT(first <= KC_LAYERS_MAX);
  KC_ASSERT(count <= KC_LAYERS_MAX - first);
  uint32_t within = 0;
  for (uint32_t layer = first; layer < first + count; layer++) {
    within += (uint32_t)((tensor->layer_bits[layer / 64] >> (layer % 64)) & 1);
  }
  return within;
}

/* ---- parameters ---- */

static uint64_t tensor_parameters(const struct kc_tensor *tensor)
{
  return tensor->rows * tensor->cols * kc_tensor_copies(tensor);
}

uint64_t kc_model_parameters(const struct kc_model *model)
{
  uint64_t sum = 0;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    if (model->tensor[i].kind != KC_CLASS_MTP) sum += tensor_parameters(&model->tensor[i]);
  }
  return sum;
}

uint64_t kc_model_mtp_parameters(const struct kc_model *model)
{
  uint64_t sum = 0;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    if (model->tensor[i].kind == KC_CLASS_MTP) sum += tensor_parameters(&model->tensor[i]);
  }
  return sum;
}

/* A token meets experts_per_token of the routed experts of each layer, and all of everything else
 * that is marked per_token. */
uint64_t kc_model_active_parameters(const struct kc_model *model)
{
  uint64_t sum = 0;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->per_token) {
      sum += tensor_parameters(tensor);
    } else if (tensor->kind != KC_CLASS_MTP && tensor->math_class == KC_CLASS_ROUTED_EXPERTS) {
      KC_ASSERT(tensor->per_layer >= model->experts_per_token);
      sum += tensor->rows * tensor->cols * tensor->layer_count * model->experts_per_token;
    }
  }
  return sum;
}

/* ---- weights ---- */

uint64_t kc_model_checkpoint_bytes(const struct kc_model *model,
                                   const struct kc_precision *precision)
{
  uint64_t sum = 0;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    const enum kc_weight_format format = kc_tensor_format(tensor, precision);
    sum += kc_weight_bytes(format, tensor->rows, tensor->cols) * kc_tensor_copies(tensor);
  }
  return sum;
}

/* KV heads that one rank holds: its share, or one copy of a head past kv_heads ranks. */
static uint32_t rank_kv_heads(uint32_t kv_heads, uint32_t tensor)
{
  KC_ASSERT(kv_heads > 0);
  KC_ASSERT(tensor > 0);
  return kv_heads / tensor + (kv_heads % tensor != 0);
}

uint64_t kc_tensor_rank_bytes(const struct kc_model *model, const struct kc_tensor *part,
                              enum kc_weight_format format, uint32_t tensor)
{
  const uint64_t bytes = kc_weight_bytes(format, part->rows, part->cols);
  KC_ASSERT(tensor > 0);
  switch (part->shard) {
  case KC_SHARD_SPLIT: return ceil_div(bytes, tensor);
  case KC_SHARD_REPLICATE: return bytes;
  case KC_SHARD_KV_HEADS:
    return ceil_div(bytes * rank_kv_heads(model->kv_heads, tensor), model->kv_heads);
  }
  KC_ASSERT(false);
  return bytes;
}

/* Copies of a tensor that a pipeline stage holds. A tied embedding is needed at both ends. */
static uint64_t stage_copies(const struct kc_model *model, const struct kc_tensor *tensor,
                             uint32_t stage, uint32_t stages)
{
  const bool is_first = stage == 0, is_last = stage + 1 == stages;
  if (tensor->layer_count > 0) {
    uint32_t first, count;
    kc_model_stage_layers(model, stage, stages, &first, &count);
    return (uint64_t)kc_tensor_layers_within(tensor, first, count) * tensor->per_layer;
  }
  bool held = is_last;
  if (tensor->kind == KC_CLASS_VISION) held = is_first;
  if (tensor->kind == KC_CLASS_EMBEDDING) held = is_first || (is_last && model->tied_embedding);
  return held ? tensor->per_layer : 0;
}

uint64_t kc_model_rank_class_bytes(const struct kc_model *model,
                                   const struct kc_precision *precision, uint32_t tensor,
                                   uint32_t stage, uint32_t stages,
                                   uint64_t class_bytes[KC_TENSOR_CLASSES])
{
  uint64_t sum = 0;
  KC_ASSERT(tensor > 0);
  KC_ASSERT(stage < stages);
  for (int i = 0; i < KC_TENSOR_CLASSES; i++) class_bytes[i] = 0;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *part = &model->tensor[i];
    const enum kc_weight_format format = kc_tensor_format(part, precision);
    const uint64_t bytes = kc_tensor_rank_bytes(model, part, format, tensor) *
                           stage_copies(model, part, stage, stages);
    class_bytes[part->kind] += bytes;
    sum += bytes;
  }
  return sum;
}

uint64_t kc_model_rank_weight_bytes(const struct kc_model *model,
                                    const struct kc_precision *precision, uint32_t tensor,
                                    uint32_t stage, uint32_t stages)
{
  uint64_t class_bytes[KC_TENSOR_CLASSES];
  return kc_model_rank_class_bytes(model, precision, tensor, stage, stages, class_bytes);
}

void kc_model_stage_layers(const struct kc_model *model, uint32_t stage, uint32_t stages,
                           uint32_t *first, uint32_t *count)
{
  KC_ASSERT(stages > 0);
  KC_ASSERT(stage < stages);
  const uint32_t base = model->layers / stages, extra = model->layers % stages;
  *count = base + (stage < extra);
  *first = stage * base + (stage < extra ? stage : extra);
  KC_ASSERT(*first + *count <= model->layers);
}

/* ---- KV ---- */

static bool is_fp8(enum kc_kv_format format)
{
  return format == KC_KV_FP8_E4M3 || format == KC_KV_FP8_G128;
}

/* Latent and rotary part of one token. FP8 with scales per 128 keeps the rotary part in BF16
 * (SGLang's and vLLM's layout for FlashMLA: 512 + 4 * 4 + 64 * 2 = 656). */
static uint64_t latent_bytes(const struct kc_kv_group *group, enum kc_kv_format format)
{
  const bool with_scales = format == KC_KV_FP8_G128 || (group->kind == KC_KV_DSA && is_fp8(format));
  if (!with_scales) return kc_kv_bytes(format, (uint64_t)group->k_width + group->rope_width);
  return kc_kv_bytes(KC_KV_FP8_G128, group->k_width) + kc_kv_bytes(KC_KV_BF16, group->rope_width);
}

uint64_t kc_kv_group_token_bytes(const struct kc_kv_group *group, enum kc_kv_format k_format,
                                 enum kc_kv_format v_format, uint32_t tensor)
{
  KC_ASSERT(tensor > 0);
  KC_ASSERT((unsigned)k_format < KC_KV_FORMATS && (unsigned)v_format < KC_KV_FORMATS);
  switch (group->kind) {
  case KC_KV_GQA:
    return (kc_kv_bytes(k_format, group->k_width) + kc_kv_bytes(v_format, group->v_width)) *
           rank_kv_heads(group->kv_heads, tensor);
  case KC_KV_MLA: return latent_bytes(group, k_format);
  case KC_KV_DSA:
    return latent_bytes(group, k_format) + kc_kv_bytes(KC_KV_FP8_G128, group->indexer_width);
  case KC_KV_LINEAR: return 0;
  }
  KC_ASSERT(false);
  return 0;
}

uint64_t kc_model_kv_token_bytes(const struct kc_model *model, enum kc_kv_format k_format,
                                 enum kc_kv_format v_format, uint32_t tensor)
{
  uint64_t sum = 0;
  KC_ASSERT(model->kv_group_count > 0);
  KC_ASSERT(tensor > 0);
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const struct kc_kv_group *group = &model->kv_group[i];
    sum += kc_kv_group_token_bytes(group, k_format, v_format, tensor) * group->layers;
  }
  return sum;
}

/* ---- tensor degree ---- */

bool kc_model_tensor_degree_valid(const struct kc_model *model, uint32_t tensor, const char **why)
{
  const char *fault = NULL;
  KC_ASSERT(model->heads > 0);
  KC_ASSERT(model->kv_heads > 0);
  if (tensor == 0) {
    fault = "a tensor degree of 0";
  } else if (model->heads % tensor != 0) {
    fault = "the number of query heads";
  } else if (!model->is_mla && model->kv_heads % tensor != 0 && tensor % model->kv_heads != 0) {
    fault = "the number of KV heads";
  } else if (model->dense_width % tensor != 0) {
    fault = "the intermediate size of the MLP";
  } else if (model->expert_width % tensor != 0) {
    fault = "the intermediate size of an expert";
  } else if (model->shared_width % tensor != 0) {
    fault = "the intermediate size of the shared expert";
  }
  if (why != NULL) *why = fault;
  return fault == NULL;
}
