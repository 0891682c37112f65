/* From a model, a precision, a GPU and a profile to a list of operations (see cost.h).
 *
 *   tensors of the model --fuse--> one op per product that a server launches (q+k+v, gate+up, ...)
 *   KV groups            --------> one attention op (decode) and one (prefill) per group
 *   layers               --------> norms, all-reduces; embedding; integrity check
 *
 * Floating point is used here only: products and quotients of exactly represented inputs in a fixed
 * order, rounded to 2^-20 ps per unit once. From then on a run computes in integers.
 */
#include <stdio.h>
#include <string.h>

#include "sim/cost/cost_products.h"
#include "sim/cost/cost_tables.h"

/* 2^20 fixed-point units in one second. */
#define UNITS_PER_SECOND (1e12 * 1048576.0)

struct builder {
  const struct kc_cost_config *config;
  struct kc_cost *cost;
  double byte_rate;                 /* bytes/s after the profile's efficiency */
  double kv_rate;                   /* the same for keys and values */
  double flop_rate[KC_MATH_KINDS];  /* operations/s after efficiency */
  uint64_t latency;                 /* units of one operation */
};

static uint64_t to_units(double seconds)
{
  const double units = seconds * UNITS_PER_SECOND;
  KC_ASSERT(units >= 0);
  KC_ASSERT(units < 9e18);
  return (uint64_t)(units + 0.5);
}

static uint64_t byte_units(const struct builder *b, double bytes)
{
  return to_units(bytes / b->byte_rate);
}

static uint64_t kv_units(const struct builder *b, double bytes)
{
  return to_units(bytes / b->kv_rate);
}

static uint64_t flop_units(const struct builder *b, double flops, enum kc_math math)
{
  return to_units(flops / b->flop_rate[math]);
}

static struct kc_cost_op *add_op(struct builder *b, const char *name, enum kc_cost_kind kind,
                                 uint32_t layers)
{
  KC_ASSERT(b->cost->op_count < KC_COST_OPS_MAX);
  KC_ASSERT(layers > 0);
  struct kc_cost_op *op = &b->cost->op[b->cost->op_count++];
  *op = (struct kc_cost_op){.kind = kind, .layers = layers, .cap = -1};
  op->latency = b->latency * layers;
  const size_t length = strnlen(name, sizeof op->name - 1);
  memcpy(op->name, name, length);
  return op;
}

/* ---- matrix products ---- */

static bool ends_with(const char *name, const char *suffix)
{
  const size_t length = strlen(name);
  const size_t tail = strlen(suffix);
  return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

/* Output projections start from another input than what precedes them. */
bool kc_cost_stands_alone(const struct kc_tensor *t)
{
  return ends_with(t->name, "o_proj") || ends_with(t->name, "down_proj");
}

/* Takes part in the pass of every token, as a matrix product of the language model. */
bool kc_cost_is_product(const struct kc_tensor *t)
{
  return (t->per_token || t->kind == KC_CLASS_ROUTED_EXPERTS) && t->rows > 1 && t->cols > 1;
}

bool kc_cost_fuses(const struct kc_tensor *a, const struct kc_tensor *b, enum kc_weight_format fa,
                   enum kc_weight_format fb)
{
  return a->kind == b->kind && a->cols == b->cols && a->layer_count == b->layer_count &&
         memcmp(a->layer_bits, b->layer_bits, sizeof a->layer_bits) == 0 &&
         a->per_layer == b->per_layer && fa == fb &&
         !kc_cost_stands_alone(a) && !kc_cost_stands_alone(b);
}

/* Share of a tensor that one rank holds. */
double kc_cost_rank_share(const struct kc_cost_config *config, const struct kc_tensor *t)
{
  const double tensor = config->tensor;
  const double heads = config->model->kv_heads;
  KC_ASSERT(tensor >= 1);
  if (t->shard == KC_SHARD_REPLICATE) return 1.0;
  if (t->shard == KC_SHARD_KV_HEADS && heads < tensor) return 1.0 / heads;
  return 1.0 / tensor;
}

/* Adds one tensor's bytes and operations to an op. Activations are BF16: each input and output
 * element moves once. Under a profile fitted to a serving measurement they are left out: those of a
 * decode step stay in the L2, and the fitted figures are of weights and of keys and values. */
static void add_tensor(const struct builder *b, struct kc_cost_op *op, const struct kc_tensor *t,
                       enum kc_weight_format format, bool first)
{
  const double share = kc_cost_rank_share(b->config, t);
  const double uses = t->kind == KC_CLASS_ROUTED_EXPERTS ? b->cost->experts_per_token : 1;
  const double layers = op->layers;
  const double weight = (double)kc_weight_bytes(format, t->rows, t->cols) * share;
  const bool counted = !b->config->profile->calibrated;
  const double moved = counted ? 2.0 * ((double)t->rows * share + (first ? (double)t->cols : 0.0)) *
                                     uses : 0.0;
  const double flops = 2.0 * (double)t->rows * (double)t->cols * share * uses;
  op->byte_fixed += byte_units(b, weight * layers);
  op->byte_unit += byte_units(b, moved * layers);
  op->flop_unit += flop_units(b, flops * layers, kc_weight_math(format));
}

static enum kc_cost_kind product_kind(const struct kc_tensor *t)
{
  if (t->kind == KC_CLASS_ROUTED_EXPERTS) return KC_COST_EXPERTS;
  return t->kind == KC_CLASS_LM_HEAD ? KC_COST_LOGITS : KC_COST_TOKENS;
}

static const char *short_name(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot != NULL ? dot + 1 : name;
}

static void add_products(struct builder *b)
{
  const struct kc_model *model = b->config->model;
  const struct kc_tensor *previous = NULL;
  enum kc_weight_format previous_format = KC_WEIGHT_NONE;
  struct kc_cost_op *op = NULL;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *t = &model->tensor[i];
    const enum kc_weight_format format = kc_tensor_format(t, b->config->precision);
    if (!kc_cost_is_product(t) || format == KC_WEIGHT_NONE) continue;
    const bool joins = previous != NULL && kc_cost_fuses(previous, t, previous_format, format);
    if (!joins) {
      op = add_op(b, short_name(t->name), product_kind(t), t->layer_count > 0 ? t->layer_count : 1);
    }
    add_tensor(b, op, t, format, !joins);
    previous = t;
    previous_format = format;
  }
}

/* A tied head is a product too, though its tensor is counted as the embedding. */
static void add_tied_head(struct builder *b)
{
  const struct kc_model *model = b->config->model;
  if (!model->tied_embedding) return;
  const struct kc_tensor head = {.kind = KC_CLASS_LM_HEAD, .rows = model->vocabulary,
                                 .cols = model->hidden, .per_layer = 1,
                                 .shard = KC_SHARD_SPLIT, .native = KC_WEIGHT_BF16};
  struct kc_cost_op *op = add_op(b, "lm_head", KC_COST_LOGITS, 1);
  add_tensor(b, op, &head, KC_WEIGHT_BF16, true);
}

/* ---- attention ---- */

const struct kc_tensor *kc_cost_find_tensor(const struct kc_model *model, const char *part)
{
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *t = &model->tensor[i];
    if (t->kind != KC_CLASS_MTP && strstr(t->name, part) != NULL) return t;
  }
  return NULL;
}

static uint64_t indexer_bytes(const struct kc_kv_group *group)
{
  return group->indexer_width > 0 ? kc_kv_bytes(KC_KV_FP8_G128, group->indexer_width) : 0;
}

static int32_t cap_of(const struct builder *b, uint64_t window)
{
  for (uint32_t i = 0; window > 0 && i < b->config->cap_count; i++) {
    if (b->config->cap[i] == window) return (int32_t)i;
  }
  KC_ASSERT(window == 0);
  return -1;
}

/* Operations per (query, key) pair, all query heads of a rank. Decode of MLA works on the latent
 * (absorbed): scores over latent + rope, values over the latent. Prefill of MLA expands K and V. */
static double pair_flops(const struct builder *b, const struct kc_kv_group *group, bool prefill)
{
  const struct kc_model *model = b->config->model;
  const double heads = (double)group->query_heads / b->config->tensor;
  double width = (double)group->k_width + group->v_width;
  KC_ASSERT(group->query_heads > 0);
  if (group->kind == KC_KV_MLA || group->kind == KC_KV_DSA) {
    const struct kc_tensor *kv_b = kc_cost_find_tensor(model, "kv_b_proj");
    width = 2.0 * group->k_width + group->rope_width;
    if (prefill && kv_b != NULL) {
      width = (double)kv_b->rows / group->query_heads + group->rope_width;
    }
  }
  return 2.0 * heads * width;
}

static void add_attention(struct builder *b, const struct kc_kv_group *group)
{
  const struct kc_precision *p = b->config->precision;
  const double layers = group->layers;
  const double token = (double)(kc_kv_group_token_bytes(group, p->k_format, p->v_format,
                                                        b->config->tensor) -
                                indexer_bytes(group));
  for (int prefill = 0; prefill < 2; prefill++) {
    struct kc_cost_op *op = add_op(b, prefill ? "prefill_attention" : "decode_attention",
                                   prefill ? KC_COST_PREFILL_ATTENTION : KC_COST_DECODE_ATTENTION,
                                   group->layers);
    op->cap = cap_of(b, group->window);
    op->byte_unit = kv_units(b, token * layers);
    op->byte_write = kv_units(b, token * layers);
    op->flop_unit = flop_units(b, pair_flops(b, group, prefill) * layers, KC_MATH_BF16);
  }
}

/* The indexer of DSA scores every token of the context on the layers that own one. */
static void add_indexer(struct builder *b, const struct kc_kv_group *group)
{
  const struct kc_tensor *projection = kc_cost_find_tensor(b->config->model, "indexer.wq_b");
  if (group->indexer_width == 0 || projection == NULL) return;
  const double layers = projection->layer_count;
  const double flops = 2.0 * (double)projection->rows; /* heads x width, one dot product each */
  KC_ASSERT(projection->layer_count > 0);
  for (int prefill = 0; prefill < 2; prefill++) {
    struct kc_cost_op *op = add_op(b, prefill ? "prefill_indexer" : "decode_indexer",
                                   prefill ? KC_COST_PREFILL_ATTENTION : KC_COST_DECODE_ATTENTION,
                                   projection->layer_count);
    op->byte_unit = kv_units(b, (double)indexer_bytes(group) * layers);
    op->byte_write = op->byte_unit;
    op->flop_unit = flop_units(b, flops * layers, KC_MATH_FP8);
  }
}

/* ---- what is left of a layer ---- */

static void add_norms(struct builder *b)
{
  const struct kc_model *model = b->config->model;
  if (b->config->profile->calibrated) return; /* as for products: in the L2, or in the host term */
  struct kc_cost_op *op = add_op(b, "norms", KC_COST_TOKENS, 2 * model->layers);
  op->byte_unit = byte_units(b, 2.0 * model->layers * 4.0 * model->hidden); /* read, write; BF16 */
  struct kc_cost_op *embedding = add_op(b, "embedding", KC_COST_TOKENS, 1);
  embedding->byte_unit = byte_units(b, 4.0 * model->hidden);
}

/* Ring all-reduce after attention and after the MLP: each rank sends and receives 2 (n-1)/n of the
 * message. */
static void add_allreduce(struct builder *b)
{
  const struct kc_model *model = b->config->model;
  const struct kc_gpu *gpu = b->config->gpu;
  const double ranks = b->config->tensor;
  if (b->config->tensor == 1) return;
  const double inside = gpu->link_bandwidth > 0 ? gpu->link_bandwidth : gpu->pcie_bandwidth;
  const double rate = b->config->tensor > gpu->gpus_per_node ? gpu->node_bandwidth : inside;
  const double bytes = 2.0 * (ranks - 1.0) / ranks * 2.0 * model->hidden;
  KC_ASSERT(rate > 0);
  struct kc_cost_op *op = add_op(b, "all_reduce", KC_COST_TOKENS, 2 * model->layers);
  op->latency = to_units(gpu->link_latency_us * 1e-6) * op->layers;
  op->byte_unit = to_units(bytes / rate * op->layers);
}

/* One kernel a step that compares 16 bytes per block-table entry (id and tag, and the pool's). */
static void add_integrity(struct builder *b)
{
  if (b->config->integrity == KC_INTEGRITY_OFF) return;
  struct kc_cost_op *op = add_op(b, "integrity_check", KC_COST_INTEGRITY, 1);
  op->byte_unit = byte_units(b, 16.0);
}

/* Formats that hold weights in fewer bits than any unit computes with. */
bool kc_cost_is_weight_only(enum kc_weight_format format)
{
  const bool plain = format == KC_WEIGHT_NONE || format == KC_WEIGHT_BF16 ||
                     format == KC_WEIGHT_FP16 || format == KC_WEIGHT_FP32;
  return !plain && kc_weight_math(format) == KC_MATH_BF16;
}

/* Before a prefill step, weight-only tensors are read, written out in BF16, and read again by the
 * product. Decode kernels expand in registers and pay nothing. */
static void add_expansion(struct builder *b)
{
  const double rate = b->config->gpu->memory_bandwidth * b->config->profile->expand_efficiency;
  const struct kc_model *model = b->config->model;
  struct kc_cost_op *op[2] = {NULL, NULL}; /* of tensors all read; of experts, by coverage */
  if (rate <= 0) return;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *t = &model->tensor[i];
    const enum kc_weight_format format = kc_tensor_format(t, b->config->precision);
    const bool experts = t->kind == KC_CLASS_ROUTED_EXPERTS;
    if (!kc_cost_is_product(t) || !kc_cost_is_weight_only(format)) continue;
    if (op[experts] == NULL) {
      op[experts] = add_op(b, experts ? "expand_experts" : "expand", KC_COST_EXPAND, 1);
      op[experts]->cap = experts ? 0 : -1;
    }
    const double layers = t->layer_count > 0 ? t->layer_count : 1;
    const double bytes = (double)kc_weight_bytes(format, t->rows, t->cols) +
                         4.0 * (double)t->rows * (double)t->cols;
    op[experts]->byte_fixed += to_units(bytes * kc_cost_rank_share(b->config, t) * layers / rate);
  }
}

static enum kc_err check_config(const struct kc_cost_config *config, struct kc_diag *diag)
{
  const struct kc_gpu *gpu = config->gpu;
  const bool across = config->tensor > gpu->gpus_per_node;
  if (config->pipeline != 1) {
    return kc_fail(diag, KC_ERR_INPUT, "pipeline is %u; step times are predicted for 1 stage only: "
                   "set parallel.pipeline to 1 (kvcap fit takes any)", config->pipeline);
  }
  if (gpu->memory_bandwidth <= 0 || gpu->flops[KC_MATH_BF16] <= 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, gpu->path, 0, 0,
                      "memory bandwidth and the BF16 rate are needed to predict step times");
  }
  if (config->tensor > 1 && (across ? gpu->node_bandwidth : gpu->pcie_bandwidth) <= 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, gpu->path, 0, 0,
                      "the file gives no %s bandwidth, which tensor degree %u needs",
                      across ? "node" : "link or PCIe", config->tensor);
  }
  return KC_OK;
}

static void set_rates(struct builder *b)
{
  const struct kc_gpu *gpu = b->config->gpu;
  const struct kc_gpu_profile *profile = b->config->profile;
  KC_ASSERT(profile->bandwidth_efficiency > 0 && profile->flops_efficiency > 0);
  KC_ASSERT(profile->kv_efficiency > 0);
  b->byte_rate = gpu->memory_bandwidth * profile->bandwidth_efficiency;
  b->kv_rate = gpu->memory_bandwidth * profile->kv_efficiency;
  for (int math = 0; math < KC_MATH_KINDS; math++) { /* no native unit: computed in BF16 */
    const double peak = gpu->flops[math] > 0 ? gpu->flops[math] : gpu->flops[KC_MATH_BF16];
    b->flop_rate[math] = peak * profile->flops_efficiency;
  }
  b->latency = to_units(profile->op_latency_us * 1e-6);
}

/* Adds "WHAT here, fitted with there" where a fit says what it was made with and that differs. */
static void add_foreign(struct kc_cost *cost, const char *what, const char *here,
                        const char *there)
{
  const size_t used = strlen(cost->foreign_why);
  KC_ASSERT(used < sizeof cost->foreign_why);
  if (there[0] == '\0' || strcmp(here, there) == 0) return;
  cost->foreign = true;
  snprintf(cost->foreign_why + used, sizeof cost->foreign_why - used, "%s%s %s, measured with %s",
           used == 0 ? "" : "; ", what, here, there);
}

static void add_foreign_count(struct kc_cost *cost, const char *what, uint32_t here, uint32_t there)
{
  char a[16], b[16];
  if (there == 0) return;
  snprintf(a, sizeof a, "%u", here);
  snprintf(b, sizeof b, "%u", there);
  add_foreign(cost, what, a, b);
}

/* Is the profile measured on, or fitted to, something else than this? */
static void find_foreign(struct kc_cost *cost, const struct kc_cost_config *config)
{
  const struct kc_gpu_profile *p = config->profile;
  char kv[KC_KV_TEXT_BYTES], weights[KC_WEIGHTS_TEXT_BYTES];
  kc_precision_kv_text(config->model, config->precision, kv);
  kc_precision_weights_text(config->model, config->precision, weights);
  KC_ASSERT(!cost->foreign);
  if (config->kernels != NULL) {
    add_foreign(cost, "GPU", config->gpu->name, kc_profile_gpu(config->kernels));
    if (kc_profile_kind(config->kernels) == KC_PROFILE_LAYERED) {
      const struct kc_layered_model *of = kc_profile_layered_model(config->kernels);
      add_foreign(cost, "weights", weights, of->weights);
      add_foreign(cost, "KV", kv, of->kv);
      add_foreign_count(cost, "layers", config->model->layers, of->layers);
    }
  }
  if (!p->calibrated) return;
  if (strstr(cost->foreign_why, "GPU ") == NULL) {
    add_foreign(cost, "GPU", config->gpu->name, p->fitted_gpu);
  }
  add_foreign(cost, "model", config->model->name, p->fitted_model);
  add_foreign_count(cost, "tensor degree", config->tensor, p->fitted_tensor);
  if (strstr(cost->foreign_why, "KV ") == NULL) add_foreign(cost, "KV", kv, p->fitted_kv);
  if (strstr(cost->foreign_why, "weights ") == NULL) {
    add_foreign(cost, "weights", weights, p->fitted_weights);
  }
}

static void set_host(struct kc_cost *cost, const struct kc_gpu_profile *profile)
{
  KC_ASSERT(profile->host_step_us >= 0);
  KC_ASSERT(profile->kernel_scale >= 0 && profile->kernel_scale <= 1000);
  cost->scale_q16 = (uint32_t)(profile->kernel_scale * 65536.0 + 0.5);
  cost->host_step = to_units(profile->host_step_us * 1e-6);
  cost->host_sequence = to_units(profile->host_sequence_us * 1e-6);
  cost->host_prompt = to_units(profile->prompt_step_us * 1e-6);
  cost->eager_floor = to_units(profile->eager_step_us * 1e-6);
  cost->graph_tokens = (uint64_t)profile->graph_batch_max;
  if (!profile->calibrated) return;
  cost->basis = KC_BASIS_SERVING;
  cost->range = (struct kc_cost_range){
      (uint64_t)profile->batch_min,   (uint64_t)profile->batch_max,
      (uint64_t)profile->sequences_min, (uint64_t)profile->sequences_max,
      (uint64_t)profile->context_min, (uint64_t)profile->context_max};
}

/* Every operation of the model by plain efficiencies. */
static void add_model(struct builder *b)
{
  const struct kc_model *model = b->config->model;
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const struct kc_kv_group *group = &model->kv_group[i];
    if (group->kind == KC_KV_LINEAR) continue;
    add_attention(b, group);
    add_indexer(b, group);
  }
  add_integrity(b);
  add_expansion(b);
  b->cost->context_ops = b->cost->op_count; /* in front, because most steps visit only these */
  add_products(b);
  add_tied_head(b);
  add_norms(b);
  add_allreduce(b);
}

enum kc_err kc_cost_build(struct kc_cost *cost, const struct kc_cost_config *config,
                          struct kc_diag *diag)
{
  KC_ASSERT(config->tensor >= 1);
  *cost = (struct kc_cost){.experts = config->model->experts,
                           .experts_per_token = config->model->experts_per_token};
  KC_TRY(check_config(config, diag));
  struct builder b = {.config = config, .cost = cost};
  set_rates(&b);
  if (config->moe_skew > 0 && cost->experts > 0) {
    cost->skewed = true;
    kc_coverage_skewed(cost->coverage_q32, cost->experts, cost->experts_per_token,
                       config->moe_skew);
  }
  if (config->kernels == NULL) {
    add_model(&b);
  } else {
    cost->basis = KC_BASIS_KERNELS;
    add_integrity(&b);
    cost->context_ops = cost->op_count;
    KC_TRY(kc_cost_tables_build(&cost->tables, config, diag));
  }
  set_host(cost, config->profile);
  find_foreign(cost, config);
  return KC_OK;
}

uint32_t kc_cost_caps(const struct kc_model *model, uint64_t cap[KC_CAPS_MAX])
{
  uint32_t count = 0;
  KC_ASSERT(model->kv_group_count <= KC_KV_GROUPS_MAX);
  for (uint32_t g = 0; g < model->kv_group_count; g++) {
    const uint64_t window = model->kv_group[g].window;
    uint32_t at = 0;
    while (at < count && cap[at] < window) at++;
    if (window == 0 || (at < count && cap[at] == window)) continue;
    KC_ASSERT(count < KC_CAPS_MAX);
    memmove(&cap[at + 1], &cap[at], (count - at) * sizeof cap[0]);
    cap[at] = window;
    count++;
  }
  return count;
}
