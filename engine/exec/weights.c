/* Building struct kc_weights: where each tensor goes and in which format.
 *
 * The whole model is walked twice by the same code. The first walk only counts (arena bytes, the
 * largest scratch), the second one reads. So the list of tensors stands in one place, and the arena
 * is exactly as large as it must be.
 *
 *   scratch   bf16 rows of the matrices that make up one weight   -->  quantised into the arena
 *
 * On a device the arena is the device's: what is read goes through the host's scratch, and
 * synthetic matrices are made and quantised where they will lie (weights_device.c).
 */
#include "engine/exec/weights.h"
#include "engine/exec/weights_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "kernels/formats/quantise.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_plan.h"

enum { NAME_BYTES = 160, PARTS_MAX = 3 };

struct builder {
  struct kc_weights *weights;
  const struct kc_precision *precision;
  const struct kc_weight_source *source;
  struct kc_diag *diag;
  bool counting;
  size_t arena_bytes;
  size_t host_bytes;
  uint64_t scratch_elements;
  uint16_t *scratch;
  uint16_t *device_scratch; /* of as many elements; NULL: nothing is made on a device */
  enum kc_err err; /* the first; afterwards nothing is read any more */
};

static bool on_host(const struct builder *b)
{
  return kc_site_is_host(&b->weights->site);
}

static void *take(struct builder *b, size_t count, size_t size)
{
  KC_ASSERT(size > 0);
  if (b->err != KC_OK) return NULL;
  if (b->counting) {
    const size_t need = kc_arena_need(count, size);
    if (__builtin_add_overflow(b->arena_bytes, need, &b->arena_bytes)) b->arena_bytes = SIZE_MAX;
    return NULL;
  }
  void *memory = kc_arena_take(&b->weights->arena, count, size);
  if (memory == NULL) b->err = kc_fail(b->diag, KC_ERR_MEMORY, "no memory for the weights");
  return memory;
}

/* The same of memory that only the host reads. */
static void *take_host(struct builder *b, size_t count, size_t size)
{
  KC_ASSERT(size > 0);
  if (b->err != KC_OK) return NULL;
  if (b->counting) {
    b->host_bytes += kc_arena_need(count, size);
    return NULL;
  }
  return kc_arena_take(&b->weights->host, count, size);
}

static void want_scratch(struct builder *b, uint64_t elements)
{
  if (elements > b->scratch_elements) b->scratch_elements = elements;
}

/* To where the operations read it. */
static void put(struct builder *b, void *to, const void *from, uint64_t bytes)
{
  const struct kc_site *site = &b->weights->site;
  if (b->err != KC_OK) return;
  const enum kc_op_status status = kc_site_put(site, to, from, bytes);
  if (status != KC_OP_OK) b->err = kc_site_fail(site, status, "sending weights", b->diag);
}

static void count_bytes(struct builder *b, uint64_t bytes)
{
  if (b->counting) b->weights->weight_bytes += bytes;
}

/* ---- bf16 ---- */

/* A bf16 matrix of the source, at `out` in the arena. */
static void read_bf16(struct builder *b, const char *name, uint64_t rows, uint64_t cols,
                      uint16_t *out)
{
  KC_ASSERT(out != NULL);
  if (b->err != KC_OK) return;
  if (b->device_scratch != NULL) {
    b->err = kc_weights_synthesise(&b->weights->site, *b->source->seed, name, rows, cols, out,
                                   b->diag);
    return;
  }
  uint16_t *to = on_host(b) ? out : b->scratch;
  b->err = b->source->read(b->source->context, name, rows, cols, to, b->diag);
  put(b, out, to, 2 * rows * cols);
}

static const uint16_t *add_matrix_bf16(struct builder *b, const char *name, uint64_t rows,
                                       uint64_t cols)
{
  uint16_t *out = take(b, rows * cols, sizeof *out);
  KC_ASSERT(rows > 0 && cols > 0);
  count_bytes(b, 2 * rows * cols);
  if (!on_host(b)) want_scratch(b, rows * cols);
  if (out != NULL) read_bf16(b, name, rows, cols, out);
  return out;
}

static const uint16_t *add_vector(struct builder *b, const char *name, uint64_t width)
{
  return add_matrix_bf16(b, name, 1, width);
}

/* ---- matrices in a format ---- */

/* Matrices under one another, with the same input. */
struct part {
  char name[NAME_BYTES];
  uint64_t rows;
};

struct place {
  struct kc_quantised arrays;
  struct kc_quantised_sizes sizes;
};

/* Memory for `copies` weights of this shape, one behind another. False when counting. */
static bool take_place(struct builder *b, struct kc_weight *weight, uint64_t copies,
                       struct place *place)
{
  const struct kc_quantised_sizes *s = &place->sizes;
  if (!kc_quantised_sizes(weight->format, weight->rows, weight->cols, &place->sizes)) {
    b->err = kc_fail(b->diag, KC_ERR_INPUT,
                     "a matrix of %u x %u cannot be held as %s: the format's group does not "
                     "divide its inputs, or the engine does not run it",
                     weight->rows, weight->cols, kc_weight_format_name(weight->format));
    return false;
  }
  if (!on_host(b) && !kc_weights_device_runs(weight->format)) {
    b->err = kc_fail(b->diag, KC_ERR_INPUT,
                     "weights of a device are bf16, fp8 or int4 in groups of 32, 64 or 128, and a "
                     "matrix of %u x %u is to be %s: name another format with --weights or "
                     "pools.NAME.weights", weight->rows, weight->cols,
                     kc_weight_format_name(weight->format));
    return false;
  }
  if (!on_host(b)) kc_weights_device_layout(&b->weights->site, weight, &place->sizes);
  KC_ASSERT(s->data_bytes % 16 == 0);
  count_bytes(b, copies * (s->data_bytes + 4 * s->scale_f32_count + 2 * s->scale_bf16_count +
                           s->scale_u8_count));
  struct kc_quantised *a = &place->arrays;
  a->data = take(b, copies * s->data_bytes, 1);
  a->scale_f32 = s->scale_f32_count > 0 ? take(b, copies * s->scale_f32_count, 4) : NULL;
  a->scale_bf16 = s->scale_bf16_count > 0 ? take(b, copies * s->scale_bf16_count, 2) : NULL;
  a->scale_u8 = s->scale_u8_count > 0 ? take(b, copies * s->scale_u8_count, 1) : NULL;
  weight->data = a->data;
  weight->scale_f32 = a->scale_f32;
  weight->scale_bf16 = a->scale_bf16;
  weight->scale_u8 = a->scale_u8;
  want_scratch(b, (uint64_t)weight->rows * weight->cols);
  return !b->counting && b->err == KC_OK;
}

/* Copy `index` of a place of many. */
static struct kc_quantised copy_of(const struct place *place, uint64_t index)
{
  const struct kc_quantised_sizes *s = &place->sizes;
  struct kc_quantised a = place->arrays;
  a.data = (uint8_t *)a.data + index * s->data_bytes;
  if (a.scale_f32 != NULL) a.scale_f32 += index * s->scale_f32_count;
  if (a.scale_bf16 != NULL) a.scale_bf16 += index * s->scale_bf16_count;
  if (a.scale_u8 != NULL) a.scale_u8 += index * s->scale_u8_count;
  return a;
}

/* True when all parts were there as int4 of the right group: nothing is requantised then. */
static bool read_packed(struct builder *b, const struct kc_weight *weight,
                        const struct part *part, uint32_t parts, const struct kc_quantised *to)
{
  const uint32_t group = kc_int4_group(weight->format);
  uint64_t element = 0;
  KC_ASSERT(parts > 0);
  if (group == 0 || b->source->read_int4 == NULL) return false;
  for (uint32_t i = 0; i < parts && b->err == KC_OK; i++) {
    bool found = false;
    b->err = b->source->read_int4(b->source->context, part[i].name, part[i].rows, weight->cols,
                                  group, (uint8_t *)to->data + element / 2,
                                  to->scale_bf16 + element / group, &found, b->diag);
    if (!found) return false;
    element += part[i].rows * weight->cols;
  }
  return true;
}

/* Made and quantised on the device. */
static void make_parts(struct builder *b, const struct kc_weight *weight, const struct part *part,
                       uint32_t parts, const struct kc_quantised *to)
{
  const struct kc_site *site = &b->weights->site;
  const bool plain = weight->format == KC_WEIGHT_BF16;
  uint16_t *bf16 = plain ? to->data : b->device_scratch;
  uint64_t element = 0;
  KC_ASSERT(parts > 0);
  for (uint32_t i = 0; i < parts && b->err == KC_OK; i++) {
    b->err = kc_weights_synthesise(site, *b->source->seed, part[i].name, part[i].rows,
                                   weight->cols, bf16 + element, b->diag);
    element += part[i].rows * weight->cols;
  }
  if (!plain && b->err == KC_OK) b->err = kc_weights_quantise(site, weight, bf16, to, b->diag);
}

/* Read and quantised on the host, into `to` of the host's memory in canonical layout. */
static void read_canonical(struct builder *b, const struct kc_weight *weight,
                           const struct part *part, uint32_t parts, const struct kc_quantised *to)
{
  uint64_t element = 0;
  KC_ASSERT(b->scratch != NULL);
  if (read_packed(b, weight, part, parts, to)) return;
  for (uint32_t i = 0; i < parts && b->err == KC_OK; i++) {
    b->err = b->source->read(b->source->context, part[i].name, part[i].rows, weight->cols,
                             b->scratch + element, b->diag);
    element += part[i].rows * weight->cols;
  }
  if (b->err != KC_OK) return;
  KC_ASSERT(element == (uint64_t)weight->rows * weight->cols);
  (void)kc_quantise_weight(weight->format, weight->rows, weight->cols, b->scratch, to);
}

static void read_parts(struct builder *b, const struct kc_weight *weight, const struct part *part,
                       uint32_t parts, const struct kc_quantised *to)
{
  KC_ASSERT(weight->rows > 0);
  if (b->source->interrupted != NULL && b->source->interrupted(b->source->context)) {
    b->err = kc_fail(b->diag, KC_ERR_INTERRUPTED, "interrupted while weights were made; nothing of "
                     "this run was kept");
    return;
  }
  if (b->device_scratch != NULL) {
    make_parts(b, weight, part, parts, to);
    return;
  }
  if (on_host(b)) {
    read_canonical(b, weight, part, parts, to);
    return;
  }
  struct kc_weights_staging staging;
  b->err = kc_weights_stage(&staging, weight, b->diag);
  if (b->err != KC_OK) return;
  read_canonical(b, weight, part, parts, &staging.arrays);
  if (b->err == KC_OK) {
    b->err = kc_weights_send(&b->weights->site, &staging, weight, to, b->diag);
  }
  kc_weights_unstage(&staging);
}

static struct kc_weight shape_of(const struct builder *b, enum kc_tensor_class kind,
                                 const struct part *part, uint32_t parts, uint64_t cols)
{
  struct kc_weight weight = {.format = b->precision->weight[kind], .cols = (uint32_t)cols};
  if (weight.format == KC_WEIGHT_DEFAULT) weight.format = KC_WEIGHT_BF16;
  for (uint32_t i = 0; i < parts; i++) weight.rows += (uint32_t)part[i].rows;
  KC_ASSERT(weight.rows > 0 && weight.cols > 0);
  return weight;
}

static struct kc_weight add_weight(struct builder *b, enum kc_tensor_class kind,
                                   const struct part *part, uint32_t parts, uint64_t cols)
{
  struct kc_weight weight = shape_of(b, kind, part, parts, cols);
  struct place place;
  if (b->err == KC_OK && take_place(b, &weight, 1, &place)) {
    read_parts(b, &weight, part, parts, &place.arrays);
  }
  return weight;
}

/* ---- names ---- */

static struct part part_of(uint32_t layer, const char *name, uint64_t rows)
{
  struct part part = {.rows = rows};
  const int length =
      snprintf(part.name, sizeof part.name, "model.layers.%u.%s.weight", layer, name);
  KC_ASSERT(length > 0 && (size_t)length < sizeof part.name);
  return part;
}

static struct part expert_part(const struct kc_recipe *r, uint32_t layer, uint32_t expert,
                               int which, uint64_t rows)
{
  static const char *const plain[3] = {"gate_proj", "up_proj", "down_proj"};
  static const char *const mixtral[3] = {"w1", "w3", "w2"};
  char name[64];
  KC_ASSERT(which >= 0 && which < 3);
  (void)snprintf(name, sizeof name, "%s.experts.%u.%s",
                 r->mixtral_names ? "block_sparse_moe" : "mlp", expert,
                 r->mixtral_names ? mixtral[which] : plain[which]);
  return part_of(layer, name, rows);
}

/* ---- layers ---- */

static void add_gqa(struct builder *b, struct kc_layer_weights *out, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  const uint64_t q = (uint64_t)r->heads * r->head_dim, kv = (uint64_t)r->kv_heads * r->head_dim;
  const struct part qkv[3] = {part_of(layer, "self_attn.q_proj", q),
                              part_of(layer, "self_attn.k_proj", kv),
                              part_of(layer, "self_attn.v_proj", kv)};
  const struct part o = part_of(layer, "self_attn.o_proj", r->hidden);
  KC_ASSERT(!r->mla);
  out->qkv = add_weight(b, KC_CLASS_ATTENTION, qkv, 3, r->hidden);
  out->o = add_weight(b, KC_CLASS_ATTENTION, &o, 1, q);
  if (!r->qk_norm) return;
  out->q_norm = add_vector(b, part_of(layer, "self_attn.q_norm", 1).name, r->head_dim);
  out->k_norm = add_vector(b, part_of(layer, "self_attn.k_norm", 1).name, r->head_dim);
}

/* kv_b [heads][nope + value][latent] -> uk [heads][latent][nope], uv [heads][value][latent]. */
static void cut_kv_b(const struct kc_recipe *r, const uint16_t *kv_b, uint16_t *uk, uint16_t *uv)
{
  const uint64_t head_rows = r->nope + r->value, latent = r->latent;
  KC_ASSERT(head_rows > 0);
  for (uint64_t h = 0; h < r->heads; h++) {
    const uint16_t *head = kv_b + h * head_rows * latent;
    for (uint64_t at = 0; at < r->nope * latent; at++) {
      const uint64_t n = at / latent, i = at % latent;
      uk[(h * latent + i) * r->nope + n] = head[at];
    }
    memcpy(uv + h * r->value * latent, head + r->nope * latent, 2 * r->value * latent);
  }
}

static void add_kv_b(struct builder *b, struct kc_layer_weights *out, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  const uint64_t rows = (uint64_t)r->heads * (r->nope + r->value), elements = rows * r->latent;
  const struct part part = part_of(layer, "self_attn.kv_b_proj", rows);
  uint16_t *uk = take(b, (uint64_t)r->heads * r->nope * r->latent, 2);
  uint16_t *uv = take(b, (uint64_t)r->heads * r->value * r->latent, 2);
  KC_ASSERT(r->mla);
  count_bytes(b, 2 * elements);
  want_scratch(b, 2 * elements); /* the whole, and its cut parts where those go elsewhere */
  out->uk = uk;
  out->uv = uv;
  if (b->counting || b->err != KC_OK) return;
  b->err = b->source->read(b->source->context, part.name, rows, r->latent, b->scratch, b->diag);
  if (b->err != KC_OK) return;
  uint16_t *cut_uk = on_host(b) ? uk : b->scratch + elements;
  const uint64_t uk_elements = (uint64_t)r->heads * r->nope * r->latent;
  uint16_t *cut_uv = on_host(b) ? uv : cut_uk + uk_elements;
  cut_kv_b(r, b->scratch, cut_uk, cut_uv);
  put(b, uk, cut_uk, 2 * uk_elements);
  put(b, uv, cut_uv, 2 * (elements - uk_elements));
}

static void add_mla(struct builder *b, struct kc_layer_weights *out, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  const uint64_t q = (uint64_t)r->heads * (r->nope + r->rope);
  const struct part kv_a = part_of(layer, "self_attn.kv_a_proj_with_mqa", r->latent + r->rope);
  const struct part o = part_of(layer, "self_attn.o_proj", r->hidden);
  KC_ASSERT(r->mla);
  if (r->q_rank > 0) {
    const struct part q_a = part_of(layer, "self_attn.q_a_proj", r->q_rank);
    const struct part q_b = part_of(layer, "self_attn.q_b_proj", q);
    out->q_a = add_weight(b, KC_CLASS_ATTENTION, &q_a, 1, r->hidden);
    out->q_a_norm = add_vector(b, part_of(layer, "self_attn.q_a_layernorm", 1).name, r->q_rank);
    out->q_b = add_weight(b, KC_CLASS_ATTENTION, &q_b, 1, r->q_rank);
  } else {
    const struct part whole = part_of(layer, "self_attn.q_proj", q);
    out->q_b = add_weight(b, KC_CLASS_ATTENTION, &whole, 1, r->hidden);
  }
  out->kv_a = add_weight(b, KC_CLASS_ATTENTION, &kv_a, 1, r->hidden);
  out->kv_a_norm = add_vector(b, part_of(layer, "self_attn.kv_a_layernorm", 1).name, r->latent);
  add_kv_b(b, out, layer);
  out->o = add_weight(b, KC_CLASS_ATTENTION, &o, 1, (uint64_t)r->heads * r->value);
}

static void add_mlp(struct builder *b, struct kc_layer_weights *out, uint32_t layer,
                    const char *prefix, enum kc_tensor_class kind, uint64_t width)
{
  char name[3][48];
  static const char *const suffix[3] = {"gate_proj", "up_proj", "down_proj"};
  KC_ASSERT(width > 0);
  for (int i = 0; i < 3; i++) (void)snprintf(name[i], sizeof name[i], "%s.%s", prefix, suffix[i]);
  const struct part gate_up[2] = {part_of(layer, name[0], width), part_of(layer, name[1], width)};
  const struct part down = part_of(layer, name[2], b->weights->recipe.hidden);
  out->gate_up = add_weight(b, kind, gate_up, 2, b->weights->recipe.hidden);
  out->down = add_weight(b, kind, &down, 1, width);
}

/* All experts of a layer, one behind another. */
static void add_experts(struct builder *b, struct kc_layer_weights *out, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  struct place first = {{0}, {0}}, second = {{0}, {0}};
  struct part gate_up[2] = {expert_part(r, layer, 0, 0, r->expert_width),
                            expert_part(r, layer, 0, 1, r->expert_width)};
  struct part down = expert_part(r, layer, 0, 2, r->hidden);
  KC_ASSERT(r->experts > 0);
  if (b->err != KC_OK) return;
  out->expert_gate_up = shape_of(b, KC_CLASS_ROUTED_EXPERTS, gate_up, 2, r->hidden);
  out->expert_down = shape_of(b, KC_CLASS_ROUTED_EXPERTS, &down, 1, r->expert_width);
  const bool one = take_place(b, &out->expert_gate_up, r->experts, &first);
  const bool two = b->err == KC_OK && take_place(b, &out->expert_down, r->experts, &second);
  out->gate_up_data_bytes = first.sizes.data_bytes;
  out->down_data_bytes = second.sizes.data_bytes;
  const struct kc_quantised_sizes *g = &first.sizes, *d = &second.sizes;
  out->gate_up_scale_bytes = g->scale_u8_count > 0     ? g->scale_u8_count
                             : g->scale_bf16_count > 0 ? 2 * g->scale_bf16_count
                                                       : 4 * g->scale_f32_count;
  out->down_scale_bytes = d->scale_u8_count > 0     ? d->scale_u8_count
                          : d->scale_bf16_count > 0 ? 2 * d->scale_bf16_count
                                                    : 4 * d->scale_f32_count;
  for (uint32_t e = 0; one && two && e < r->experts && b->err == KC_OK; e++) {
    for (int i = 0; i < 2; i++) gate_up[i] = expert_part(r, layer, e, i, r->expert_width);
    down = expert_part(r, layer, e, 2, r->hidden);
    const struct kc_quantised to_first = copy_of(&first, e), to_second = copy_of(&second, e);
    read_parts(b, &out->expert_gate_up, gate_up, 2, &to_first);
    if (b->err == KC_OK) read_parts(b, &out->expert_down, &down, 1, &to_second);
  }
}

static void add_moe(struct builder *b, struct kc_layer_weights *out, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  const char *gate = r->mixtral_names ? "block_sparse_moe.gate" : "mlp.gate";
  KC_ASSERT(r->experts > 0);
  out->router = (struct kc_weight){
      .format = KC_WEIGHT_BF16,
      .rows = r->experts,
      .cols = r->hidden,
      .data = add_matrix_bf16(b, part_of(layer, gate, 1).name, r->experts, r->hidden)};
  if (r->router_bias) {
    char name[NAME_BYTES];
    float *bias = take(b, r->experts, sizeof *bias);
    float *read = on_host(b) ? bias : take_host(b, r->experts, sizeof *read);
    (void)snprintf(name, sizeof name, "model.layers.%u.mlp.gate.e_score_correction_bias", layer);
    count_bytes(b, 4ull * r->experts);
    out->router_bias = bias;
    if (bias != NULL && b->err == KC_OK) {
      b->err = b->source->read_f32(b->source->context, name, r->experts, read, b->diag);
      put(b, bias, read, 4ull * r->experts);
    }
  }
  if (r->shared_width > 0) {
    add_mlp(b, out, layer, "mlp.shared_experts", KC_CLASS_SHARED_EXPERTS, r->shared_width);
  }
  add_experts(b, out, layer);
}

static void add_layer(struct builder *b, uint32_t layer)
{
  const struct kc_recipe *r = &b->weights->recipe;
  struct kc_layer_weights counted = {0};
  struct kc_layer_weights *out = b->counting ? &counted : &b->weights->layer[layer];
  KC_ASSERT(layer < r->layers);
  out->input_norm = add_vector(b, part_of(layer, "input_layernorm", 1).name, r->hidden);
  if (r->mla) {
    add_mla(b, out, layer);
  } else {
    add_gqa(b, out, layer);
  }
  out->post_norm = add_vector(b, part_of(layer, "post_attention_layernorm", 1).name, r->hidden);
  if (kc_recipe_moe(r, layer)) {
    add_moe(b, out, layer);
  } else {
    add_mlp(b, out, layer, "mlp", KC_CLASS_DENSE_MLP, r->dense_width);
  }
}

static void add_rope(struct builder *b)
{
  struct kc_weights *w = b->weights;
  const uint32_t dims = w->recipe.mla ? w->recipe.rope : w->recipe.head_dim;
  const uint64_t highs = kc_rope_high_count(dims, w->positions), lows = kc_rope_low_count(dims);
  float *high = take(b, highs, sizeof *high), *low = take(b, lows, sizeof *low);
  float *made_high = on_host(b) ? high : take_host(b, highs, sizeof *made_high);
  float *made_low = on_host(b) ? low : take_host(b, lows, sizeof *made_low);
  double *frequency = take_host(b, dims / 2, sizeof *frequency);
  KC_ASSERT(dims > 0);
  w->rope_high = high;
  w->rope_low = low;
  w->attention_scale = (float)kc_attention_scale(&w->recipe);
  if (b->counting || b->err != KC_OK) return;
  kc_rope_frequencies(&w->recipe, dims, frequency);
  kc_rope_tables(made_high, made_low, frequency, dims, w->positions,
                 kc_rope_amplitude(&w->recipe));
  put(b, high, made_high, highs * sizeof *high);
  put(b, low, made_low, lows * sizeof *low);
}

static void walk(struct builder *b)
{
  struct kc_weights *w = b->weights;
  const struct kc_recipe *r = &w->recipe;
  const struct part head = {.name = "lm_head.weight", .rows = r->vocabulary};
  const struct part tied = {.name = "model.embed_tokens.weight", .rows = r->vocabulary};
  KC_ASSERT(r->layers > 0);
  w->layer = take_host(b, r->layers, sizeof *w->layer);
  w->embedding = add_matrix_bf16(b, tied.name, r->vocabulary, r->hidden);
  for (uint32_t layer = 0; layer < r->layers && b->err == KC_OK; layer++) add_layer(b, layer);
  w->final_norm = add_vector(b, "model.norm.weight", r->hidden);
  w->head = add_weight(b, KC_CLASS_LM_HEAD, r->tied_embedding ? &tied : &head, 1, r->hidden);
  add_rope(b);
}

/* The second walk, with memory to read into. */
static void read_all(struct builder *b)
{
  const struct kc_site *site = &b->weights->site;
  KC_ASSERT(!b->counting && b->scratch_elements > 0);
  b->scratch = malloc(b->scratch_elements * sizeof *b->scratch);
  if (b->scratch == NULL) {
    b->err = kc_fail(b->diag, KC_ERR_MEMORY, "no memory to read weights into");
    return;
  }
  if (!on_host(b) && b->source->seed != NULL) {
    b->device_scratch = site->ops->allocate(site->context, 2 * b->scratch_elements);
    if (b->device_scratch == NULL) {
      b->err = kc_fail(b->diag, KC_ERR_NO_FIT, "the device has no room to make weights in");
    }
  }
  if (b->err == KC_OK) walk(b);
  if (b->err == KC_OK) (void)kc_site_wait(site);
  if (b->device_scratch != NULL) site->ops->release(site->context, b->device_scratch);
  free(b->scratch);
}

/* Embedding and routers are read as bf16, whatever a bill says that they are held in. */
static enum kc_err check_plain(const struct kc_precision *precision, struct kc_diag *diag)
{
  static const enum kc_tensor_class plain[] = {KC_CLASS_EMBEDDING, KC_CLASS_ROUTER};
  KC_ASSERT(precision != NULL);
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
    const enum kc_weight_format format = precision->weight[plain[i]];
    if (format == KC_WEIGHT_DEFAULT || format == KC_WEIGHT_BF16) continue;
    return kc_fail(diag, KC_ERR_INPUT, "%s=%s: the engine holds embeddings and routers in bf16; "
                   "leave the class out", kc_tensor_class_name(plain[i]),
                   kc_weight_format_name(format));
  }
  return KC_OK;
}

enum kc_err kc_weights_build(struct kc_weights *weights, const struct kc_site *site,
                             const struct kc_recipe *recipe,
                             const struct kc_precision *precision, uint32_t positions,
                             const struct kc_weight_source *source, struct kc_diag *diag)
{
  KC_ASSERT(positions > 0);
  KC_ASSERT(source->read != NULL && source->read_f32 != NULL);
  *weights = (struct kc_weights){.recipe = *recipe, .positions = positions};
  KC_TRY(check_plain(precision, diag));
  weights->site = site != NULL ? *site : kc_site_host();
  struct builder b = {.weights = weights, .precision = precision, .source = source, .diag = diag,
                      .counting = true};
  walk(&b);
  KC_TRY(b.err);
  KC_TRY(kc_site_arena(&weights->site, &weights->arena, b.arena_bytes, diag));
  b.err = kc_arena_init(&weights->host, b.host_bytes, diag);
  b.counting = false;
  if (b.err == KC_OK) read_all(&b);
  if (b.err != KC_OK) kc_weights_free(weights);
  return b.err;
}

void kc_weights_free(struct kc_weights *weights)
{
  KC_ASSERT(weights != NULL);
  kc_site_arena_free(&weights->site, &weights->arena);
  if (weights->host.base != NULL) kc_arena_deinit(&weights->host);
  *weights = (struct kc_weights){0};
}
