/* Turns rows of a family's table into model->tensor[] and model->kv_group[] (see build.h).
 *
 *   row {"mlp.gate", ROUTER, 384 x 7168} + layers {1..60}
 *     -> class, sharding and shape as stated
 *     -> format in the checkpoint: per layer, the module's name is held against the exempt list
 *     -> one tensor, or two when some layers are exempt and others are not
 *
 * The model belongs to the caller; nothing here allocates.
 */
#include "engine/model/build.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"

enum { MODULE_BYTES = 160 };

/* ---- sets of layers ---- */

void kc_layers_add(struct kc_layer_set *set, uint32_t layer)
{
  KC_ASSERT(layer < KC_LAYERS_MAX);
  set->bits[layer / 64] |= UINT64_C(1) << (layer % 64);
}

bool kc_layers_has(const struct kc_layer_set *set, uint32_t layer)
{
  KC_ASSERT(layer < KC_LAYERS_MAX);
  return (set->bits[layer / 64] >> (layer % 64)) & 1;
}

struct kc_layer_set kc_layers_first(uint32_t count)
{
  struct kc_layer_set set = {{0}};
  KC_ASSERT(count <= KC_LAYERS_MAX);
  for (uint32_t layer = 0; layer < count; layer++) kc_layers_add(&set, layer);
  return set;
}

uint32_t kc_layers_count(const struct kc_layer_set *set)
{
  uint32_t count = 0;
  for (size_t i = 0; i < KC_LAYERS_MAX / 64; i++) {
    count += (uint32_t)__builtin_popcountll(set->bits[i]);
  }
  KC_ASSERT(count <= KC_LAYERS_MAX);
  return count;
}

struct kc_layer_set kc_layers_without(struct kc_layer_set from, const struct kc_layer_set *less)
{
  for (size_t i = 0; i < KC_LAYERS_MAX / 64; i++) from.bits[i] &= ~less->bits[i];
  return from;
}

/* ---- tensors ---- */

/* Classes whose matrices a checkpoint's scheme covers. Embedding, head, router and vision tower
 * stay in the checkpoint's dtype in every published scheme read here; a router is not a Linear
 * module. */
static bool scheme_covers(const struct kc_quantisation *quantisation, enum kc_tensor_class kind)
{
  if (quantisation->format == KC_WEIGHT_DEFAULT) return false;
  if (kind == KC_CLASS_ROUTED_EXPERTS) return true;
  if (quantisation->experts_only) return false;
  return kind == KC_CLASS_ATTENTION || kind == KC_CLASS_INDEXER || kind == KC_CLASS_DENSE_MLP ||
         kind == KC_CLASS_SHARED_EXPERTS;
}

/* "model.layers.3.mlp.experts.0.up_proj": expert 0 stands for all of them. */
static void module_name(const struct kc_build *build, const char *name, uint32_t layer,
                        char out[MODULE_BYTES])
{
  static const char expert[] = "experts.E.";
  const char *star = strstr(name, expert);
  if (star == NULL) {
    snprintf(out, MODULE_BYTES, "%slayers.%u.%s", build->module_prefix, layer, name);
    return;
  }
  snprintf(out, MODULE_BYTES, "%slayers.%u.%.*sexperts.0.%s", build->module_prefix, layer,
           (int)(star - name), name, star + sizeof expert - 1);
}

static bool is_exempt(const struct kc_build *build, const char *name, uint32_t layer)
{
  char module[MODULE_BYTES];
  module_name(build, name, layer, module);
  return kc_quantisation_exempts(build->quantisation, module);
}

static void tensor_name(const struct kc_build *build, const struct kc_tensor_spec *spec,
                        bool in_layers, char out[sizeof((struct kc_tensor *)0)->name])
{
  const char *scope = build->mtp_copies > 0 ? "mtp." : in_layers ? "layers.N." : "";
  snprintf(out, sizeof((struct kc_tensor *)0)->name, "%s%s", scope, spec->name);
}

/* By class, not by shape: a vocabulary of one makes a head of one row, which is still a matrix. */
static bool is_vector(const struct kc_tensor_spec *spec)
{
  KC_ASSERT(spec->kind != KC_CLASS_NORM || spec->rows == 1);
  return spec->kind == KC_CLASS_NORM || (spec->kind == KC_CLASS_VISION && spec->rows == 1);
}

static bool is_per_token(const struct kc_build *build, const struct kc_tensor_spec *spec)
{
  if (build->mtp_copies > 0 || spec->kind == KC_CLASS_VISION) return false;
  if (spec->kind == KC_CLASS_ROUTED_EXPERTS || (spec->flags & KC_SPEC_OF_EXPERT)) return false;
  /* A tied embedding is also the head, which every token goes through. */
  return spec->kind != KC_CLASS_EMBEDDING || build->model->tied_embedding;
}

static void append(struct kc_build *build, const struct kc_tensor_spec *spec,
                   const struct kc_layer_set *layers, bool quantised)
{
  struct kc_model *model = build->model;
  const uint32_t per_layer = spec->per_layer == 0 ? 1 : spec->per_layer;
  KC_ASSERT(model->tensor_count < KC_TENSORS_MAX);
  KC_ASSERT(spec->cols > 0);
  struct kc_tensor *tensor = &model->tensor[model->tensor_count++];
  *tensor = (struct kc_tensor){
      .kind = build->mtp_copies > 0 ? KC_CLASS_MTP : spec->kind,
      .math_class = (spec->flags & KC_SPEC_OF_EXPERT) ? KC_CLASS_ROUTED_EXPERTS : spec->kind,
      .rows = spec->rows,
      .cols = spec->cols,
      .per_layer = build->mtp_copies > 0 ? per_layer * build->mtp_copies : per_layer,
      .shard = spec->shard,
      .native = quantised                      ? build->quantisation->format
                : (spec->flags & KC_SPEC_FP32) ? KC_WEIGHT_FP32
                                               : build->dtype,
      .quantisable = !is_vector(spec) && !(spec->flags & KC_SPEC_KEEP),
      .per_token = is_per_token(build, spec),
  };
  tensor_name(build, spec, layers != NULL, tensor->name);
  if (layers == NULL) return;
  tensor->layer_count = kc_layers_count(layers);
  memcpy(tensor->layer_bits, layers->bits, sizeof tensor->layer_bits);
  KC_ASSERT(tensor->layer_count > 0);
}

static void add_in_layers(struct kc_build *build, const struct kc_tensor_spec *spec,
                          const struct kc_layer_set *layers, bool covered)
{
  struct kc_layer_set exempt = *layers;
  KC_ASSERT(build->mtp_copies == 0);
  if (covered) {
    exempt = (struct kc_layer_set){{0}};
    for (uint32_t layer = 0; layer < build->model->layers; layer++) {
      if (!kc_layers_has(layers, layer)) continue;
      if (is_exempt(build, spec->name, layer)) kc_layers_add(&exempt, layer);
    }
  }
  const struct kc_layer_set quantised = kc_layers_without(*layers, &exempt);
  if (kc_layers_count(&quantised) > 0) append(build, spec, &quantised, true);
  if (kc_layers_count(&exempt) > 0) append(build, spec, &exempt, false);
}

static void add_one(struct kc_build *build, const struct kc_tensor_spec *spec,
                    const struct kc_layer_set *layers)
{
  const bool covered = !is_vector(spec) && !(spec->flags & KC_SPEC_KEEP) &&
                       scheme_covers(build->quantisation, spec->kind);
  if (build->mtp_copies > 0) { /* MTP layers are numbered after the last layer of the model */
    append(build, spec, NULL, covered && !is_exempt(build, spec->name, build->model->layers));
  } else if (layers != NULL) {
    add_in_layers(build, spec, layers, covered);
  } else {
    append(build, spec, NULL, false);
  }
}

void kc_build_add(struct kc_build *build, const struct kc_tensor_spec *specs, size_t count,
                  const struct kc_layer_set *layers)
{
  KC_ASSERT(build->model != NULL);
  KC_ASSERT(build->quantisation != NULL);
  if (build->hf->err != KC_OK) return;
  for (size_t i = 0; i < count; i++) {
    if (specs[i].rows > 0) add_one(build, &specs[i], layers);
  }
}

void kc_build_add_ends(struct kc_build *build)
{
  const struct kc_model *model = build->model;
  KC_ASSERT(model->hidden > 0);
  KC_ASSERT(model->vocabulary > 0);
  const struct kc_tensor_spec specs[] = {
      {"embed_tokens", KC_CLASS_EMBEDDING, model->vocabulary, model->hidden, KC_SHARD_SPLIT, 1, 0},
      {"norm", KC_CLASS_NORM, 1, model->hidden, KC_SHARD_REPLICATE, 1, 0},
      {"lm_head", KC_CLASS_LM_HEAD, model->tied_embedding ? 0 : model->vocabulary, model->hidden,
       KC_SHARD_SPLIT, 1, 0},
  };
  kc_build_add(build, specs, sizeof specs / sizeof *specs, NULL);
}

void kc_build_add_mlp(struct kc_build *build, enum kc_tensor_class kind, const char *scope,
                      uint32_t width, uint32_t per_layer, bool bias,
                      const struct kc_layer_set *layers)
{
  static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
  const uint32_t hidden = build->model->hidden;
  KC_ASSERT(scope != NULL);
  KC_ASSERT(hidden > 0);
  if (width == 0) return;
  for (int i = 0; i < 3; i++) {
    char name[64], bias_name[80];
    snprintf(name, sizeof name, "%s%s", scope, parts[i]);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    const bool down = i == 2;
    const uint32_t rows = down ? hidden : width;
    const struct kc_tensor_spec specs[] = {
        {name, kind, rows, down ? width : hidden, KC_SHARD_SPLIT, per_layer, 0},
        {bias_name, KC_CLASS_NORM, bias ? 1 : 0, rows, down ? KC_SHARD_REPLICATE : KC_SHARD_SPLIT,
         per_layer, 0},
    };
    kc_build_add(build, specs, sizeof specs / sizeof *specs, layers);
  }
}

/* ---- KV groups ---- */

void kc_build_add_kv(struct kc_build *build, const struct kc_kv_group *group,
                     const struct kc_layer_set *layers)
{
  struct kc_model *model = build->model;
  if (build->hf->err != KC_OK || kc_layers_count(layers) == 0) return;
  KC_ASSERT(model->kv_group_count < KC_KV_GROUPS_MAX);
  KC_ASSERT(!group->bounded_store || group->window > 0);
  struct kc_kv_group *out = &model->kv_group[model->kv_group_count++];
  *out = *group;
  out->layers = kc_layers_count(layers);
  for (uint32_t layer = 0; layer < model->layers; layer++) {
    out->layer_is[layer] = kc_layers_has(layers, layer);
  }
}

bool kc_build_layer_types(struct kc_build *build, const char *bounded, struct kc_layer_set *out)
{
  KC_ASSERT(bounded != NULL);
  const json_t *types = kc_hf_array_or_null(build->hf, "layer_types", build->model->layers);
  *out = (struct kc_layer_set){{0}};
  if (types == NULL) return false;
  for (uint32_t layer = 0; layer < build->model->layers; layer++) {
    const char *type = json_string_value(json_array_get(types, layer));
    if (type != NULL && strcmp(type, bounded) == 0) {
      kc_layers_add(out, layer);
    } else if (type == NULL || strcmp(type, "full_attention") != 0) {
      (void)kc_hf_fail(build->hf, "layer_types", "item %u is not \"%s\" or \"full_attention\"",
                       layer, bounded);
      return false;
    }
  }
  return true;
}
