/* Which format each class of tensor is held in: names of classes, and the text form
 * "routed_experts=int4-g32,default=bf16,mtp=none".
 *
 *   tensor --class, math_class--> precision.weight[class] --DEFAULT?--> tensor.native
 *
 * `default` is the recipe that quantisation tools apply to "all linears": embedding, head, router
 * and vision tower are left alone unless named, because no published recipe touches them.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/model/model.h"

enum { WORD_BYTES = 32, SUGGESTION_BYTES = WORD_BYTES + 32 };

static const char *const class_names[KC_TENSOR_CLASSES] = {
    [KC_CLASS_EMBEDDING] = "embedding",
    [KC_CLASS_LM_HEAD] = "lm_head",
    [KC_CLASS_ATTENTION] = "attention",
    [KC_CLASS_INDEXER] = "indexer",
    [KC_CLASS_DENSE_MLP] = "dense_mlp",
    [KC_CLASS_ROUTED_EXPERTS] = "routed_experts",
    [KC_CLASS_SHARED_EXPERTS] = "shared_experts",
    [KC_CLASS_ROUTER] = "router",
    [KC_CLASS_NORM] = "norm",
    [KC_CLASS_VISION] = "vision",
    [KC_CLASS_MTP] = "mtp",
};
static const char CLASSES[] =
    "embedding, lm_head, attention, indexer, dense_mlp, routed_experts, shared_experts, router, "
    "vision, mtp, default";

const char *kc_tensor_class_name(enum kc_tensor_class kind)
{
  KC_ASSERT((unsigned)kind < KC_TENSOR_CLASSES);
  return class_names[kind];
}

bool kc_tensor_class_parse(const char *name, enum kc_tensor_class *out)
{
  KC_ASSERT(name != NULL);
  KC_ASSERT(out != NULL);
  for (int i = 0; i < KC_TENSOR_CLASSES; i++) {
    if (strcmp(name, class_names[i]) != 0) continue;
    *out = (enum kc_tensor_class)i;
    return true;
  }
  return false;
}

void kc_precision_default(struct kc_precision *precision)
{
  KC_ASSERT(precision != NULL);
  *precision = (struct kc_precision){.k_format = KC_KV_BF16, .v_format = KC_KV_BF16};
  for (int i = 0; i < KC_TENSOR_CLASSES; i++) precision->weight[i] = KC_WEIGHT_DEFAULT;
}

enum kc_weight_format kc_tensor_format(const struct kc_tensor *tensor,
                                       const struct kc_precision *precision)
{
  KC_ASSERT((unsigned)tensor->kind < KC_TENSOR_CLASSES);
  KC_ASSERT((unsigned)tensor->math_class < KC_TENSOR_CLASSES);
  enum kc_weight_format format = precision->weight[tensor->kind];
  if (format == KC_WEIGHT_NONE) return KC_WEIGHT_NONE;
  if (!tensor->quantisable) return tensor->native;
  if (tensor->kind == KC_CLASS_MTP && format == KC_WEIGHT_DEFAULT) {
    format = precision->weight[tensor->math_class];
  }
  return format == KC_WEIGHT_DEFAULT ? tensor->native : format;
}

/* ---- the formats in use, as text ---- */

static bool in_every_step(enum kc_tensor_class kind)
{
  return kind == KC_CLASS_LM_HEAD || kind == KC_CLASS_ATTENTION || kind == KC_CLASS_INDEXER ||
         kind == KC_CLASS_DENSE_MLP || kind == KC_CLASS_ROUTED_EXPERTS ||
         kind == KC_CLASS_SHARED_EXPERTS;
}

/* Bit f: a matrix of the class is held in format f. */
static uint64_t formats_of(const struct kc_model *model, const struct kc_precision *precision,
                           enum kc_tensor_class kind)
{
  uint64_t formats = 0;
  KC_ASSERT(model->tensor_count <= KC_TENSORS_MAX);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->kind != kind || tensor->rows <= 1) continue;
    const enum kc_weight_format format = kc_tensor_format(tensor, precision);
    KC_ASSERT((unsigned)format < 64);
    formats |= UINT64_C(1) << format;
  }
  return formats;
}

static size_t put_formats(char *out, size_t used, uint64_t formats)
{
  KC_ASSERT(formats != 0);
  for (unsigned f = 0; f < 64 && used < KC_WEIGHTS_TEXT_BYTES; f++) {
    if ((formats >> f & 1) == 0) continue;
    const bool more = (formats & ((UINT64_C(1) << f) - 1)) != 0;
    used += (size_t)snprintf(out + used, KC_WEIGHTS_TEXT_BYTES - used, "%s%s", more ? "+" : "",
                             kc_weight_format_name((enum kc_weight_format)f));
  }
  return used;
}

void kc_precision_weights_text(const struct kc_model *model, const struct kc_precision *precision,
                               char out[KC_WEIGHTS_TEXT_BYTES])
{
  uint64_t formats[KC_TENSOR_CLASSES] = {0}, all = 0;
  size_t used = 0;
  KC_ASSERT(model != NULL && precision != NULL);
  for (int kind = 0; kind < KC_TENSOR_CLASSES; kind++) {
    if (!in_every_step((enum kc_tensor_class)kind)) continue;
    formats[kind] = formats_of(model, precision, (enum kc_tensor_class)kind);
    all |= formats[kind];
  }
  out[0] = '\0';
  if (all != 0 && (all & (all - 1)) == 0) {
    put_formats(out, 0, all);
    return;
  }
  for (int kind = 0; kind < KC_TENSOR_CLASSES && used < KC_WEIGHTS_TEXT_BYTES; kind++) {
    if (formats[kind] == 0) continue;
    used += (size_t)snprintf(out + used, KC_WEIGHTS_TEXT_BYTES - used, "%s%s=",
                             used == 0 ? "" : ",", class_names[kind]);
    if (used < KC_WEIGHTS_TEXT_BYTES) used = put_formats(out, used, formats[kind]);
  }
}

void kc_precision_kv_text(const struct kc_model *model, const struct kc_precision *precision,
                          char out[KC_KV_TEXT_BYTES])
{
  const bool apart = !model->is_mla && precision->k_format != precision->v_format;
  KC_ASSERT(kc_kv_format_name(precision->k_format) != NULL);
  snprintf(out, KC_KV_TEXT_BYTES, "%s%s%s", kc_kv_format_name(precision->k_format),
           apart ? "/" : "", apart ? kc_kv_format_name(precision->v_format) : "");
}

/* ---- "class=format,..." ---- */

/* What to say of the candidate of a comma-separated list of names that is closest to `word`: the
 * first that holds it ("experts" -> "routed_experts"), or else the least edit distance; nothing
 * when none is near. */
static void suggest_name(const char *word, const char *names, char out[SUGGESTION_BYTES])
{
  unsigned best = kc_edit_reach(word) + 1;
  out[0] = '\0';
  for (const char *name = names; *name != '\0';) {
    char candidate[WORD_BYTES];
    const size_t length = strcspn(name, ",");
    KC_ASSERT(length < sizeof candidate);
    snprintf(candidate, sizeof candidate, "%.*s", (int)length, name);
    const bool holds = strstr(candidate, word) != NULL;
    const unsigned distance = holds ? 0 : kc_edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      snprintf(out, SUGGESTION_BYTES, ", did you mean \"%s\"?", candidate);
    }
    name += length;
    name += strspn(name, ", ");
  }
}

static bool default_sets(enum kc_tensor_class kind)
{
  return kind == KC_CLASS_ATTENTION || kind == KC_CLASS_INDEXER || kind == KC_CLASS_DENSE_MLP ||
         kind == KC_CLASS_ROUTED_EXPERTS || kind == KC_CLASS_SHARED_EXPERTS;
}

/* State of one parse: what was named, so that `default` fills the rest at the end. */
struct pairs {
  struct kc_precision out;
  bool named[KC_TENSOR_CLASSES];
  bool has_default;
  enum kc_weight_format fallback;
};

static enum kc_err set_class(struct pairs *pairs, const char *name, enum kc_weight_format format,
                             struct kc_diag *diag)
{
  enum kc_tensor_class kind;
  if (!kc_tensor_class_parse(name, &kind)) {
    char near[SUGGESTION_BYTES];
    suggest_name(name, CLASSES, near);
    return kc_fail(diag, KC_ERR_INPUT, "\"%s\" is no class of weights%s (known: %s)", name, near,
                   CLASSES);
  }
  if (kind == KC_CLASS_NORM) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "\"norm\" always keeps the format of the checkpoint; leave it "
                   "out");
  }
  if (pairs->named[kind]) {
    return kc_fail(diag, KC_ERR_INPUT, "the weights of \"%s\" are given twice", name);
  }
  if (format == KC_WEIGHT_NONE && kind != KC_CLASS_MTP && kind != KC_CLASS_VISION) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "\"%s=none\" would leave out weights that every token needs; "
                   "only mtp and vision can be left out",
                   name);
  }
  pairs->named[kind] = true;
  pairs->out.weight[kind] = format;
  return KC_OK;
}

static enum kc_err set_default(struct pairs *pairs, enum kc_weight_format format,
                               struct kc_diag *diag)
{
  if (pairs->has_default) {
    return kc_fail(diag, KC_ERR_INPUT, "the weights of \"default\" are given twice");
  }
  if (format == KC_WEIGHT_NONE) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "\"default=none\" would leave out every weight; only mtp and "
                   "vision can be left out");
  }
  pairs->has_default = true;
  pairs->fallback = format;
  return KC_OK;
}

/* One "class=format", given as [text, text + length). */
static enum kc_err read_pair(struct pairs *pairs, const char *text, size_t length,
                             struct kc_diag *diag)
{
  char name[WORD_BYTES], value[WORD_BYTES];
  const char *equals = memchr(text, '=', length);
  const size_t name_length = equals == NULL ? 0 : (size_t)(equals - text);
  const size_t value_length = equals == NULL ? 0 : length - name_length - 1;
  if (name_length == 0 || value_length == 0 || name_length >= WORD_BYTES ||
      value_length >= WORD_BYTES) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "\"%.*s\" is not CLASS=FORMAT, expected for example "
                   "routed_experts=int4-g32",
                   (int)(length > 64 ? 64 : length), text);
  }
  memcpy(name, text, name_length);
  name[name_length] = '\0';
  memcpy(value, equals + 1, value_length);
  value[value_length] = '\0';
  enum kc_weight_format format;
  if (!kc_weight_format_parse(value, &format)) {
    char near[SUGGESTION_BYTES];
    suggest_name(value, kc_weight_format_names(), near);
    return kc_fail(diag, KC_ERR_INPUT, "\"%s\" is no weight format%s (known: %s)", value, near,
                   kc_weight_format_names());
  }
  if (strcmp(name, "default") == 0) return set_default(pairs, format, diag);
  return set_class(pairs, name, format, diag);
}

enum kc_err kc_precision_parse(struct kc_precision *precision, const char *text,
                               struct kc_diag *diag)
{
  KC_ASSERT(precision != NULL);
  KC_ASSERT(text != NULL);
  struct pairs pairs = {.out = *precision};
  for (const char *pair = text;;) {
    const size_t length = strcspn(pair, ",");
    KC_TRY(read_pair(&pairs, pair, length, diag));
    if (pair[length] == '\0') break;
    pair += length + 1;
  }
  for (int i = 0; i < KC_TENSOR_CLASSES && pairs.has_default; i++) {
    const enum kc_tensor_class kind = (enum kc_tensor_class)i;
    if (!pairs.named[i] && default_sets(kind)) pairs.out.weight[i] = pairs.fallback;
  }
  *precision = pairs.out;
  return KC_OK;
}
