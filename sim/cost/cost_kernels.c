/* What goes into the tables of a step (see cost_tables.h): the layers of a model as calls of
 * measured kernels.
 *
 *   tensors     --fuse--> GEMM by dtype, m x n x k of one rank; routed experts: a MoE call a layer
 *   KV groups   ---------> decode and prefill attention by kind and KV format
 *   the rest    ---------> all-reduce twice a layer, absorb products of MLA, small kernels
 *
 * Small kernels (norms, rotary, activation, router's choice, the conversion of what FP8 KV writes)
 * were not measured by anybody we read: a latency and their bytes. They never make a step
 * extrapolated; what they lack is in the host term, which is fitted on whole steps.
 *
 * Formats without a family of their own are priced by the nearest one and marked: weight-only
 * products outside the experts as BF16 products that read less; INT8 as FP8.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/cost_products.h"
#include "sim/cost/cost_tables_internal.h"

enum { CALLS_MAX = 64 };
#define CONTEXT_MIN 1.0

enum call_kind { CALL_FAMILY, CALL_SMALL, CALL_LAYER };

/* One kernel of a step, `count` times; asked at m tokens or n sequences. */
struct call {
  enum call_kind kind;
  double count;
  bool by_logits, by_expert;
  enum kc_family family;
  struct kc_shape shape;   /* its m, tokens or elements are set at the call */
  double elements;         /* all-reduce: per token */
  double less_bytes;       /* weight-only: bytes that a BF16 product would read in vain */
  bool estimated;          /* the family stands in for another */
  double small_bytes;      /* SMALL: per token */
  int layer;               /* LAYER: of a layered profile */
};

struct filler {
  const struct kc_cost_config *config;
  struct kc_device device;
  struct kc_cost_tables *tables;
  uint32_t call_count;
  struct call call[CALLS_MAX];
};

static struct call *add_call(struct filler *f, enum call_kind kind, enum kc_family family,
                             double count)
{
  KC_ASSERT(f->call_count < CALLS_MAX);
  KC_ASSERT(count > 0);
  struct call *call = &f->call[f->call_count++];
  *call = (struct call){.kind = kind, .family = family, .count = count};
  return call;
}

static bool present(const struct filler *f, enum kc_family family)
{
  return kc_profile_family(f->config->kernels, family).present;
}

/* ---- products ---- */

/* GEMM family of a weight format; *estimated when it only stands in. */
static enum kc_family gemm_family(enum kc_weight_format format, bool *estimated)
{
  *estimated = false;
  switch (format) {
  case KC_WEIGHT_BF16:
  case KC_WEIGHT_FP16: return KC_FAMILY_GEMM_BF16;
  case KC_WEIGHT_FP8: return KC_FAMILY_GEMM_FP8;
  case KC_WEIGHT_FP8_BLOCK: return KC_FAMILY_GEMM_FP8_BLOCK;
  case KC_WEIGHT_INT8: *estimated = true; return KC_FAMILY_GEMM_FP8;
  default: *estimated = true; return KC_FAMILY_GEMM_BF16;
  }
}

static enum kc_family moe_family(enum kc_weight_format format, bool *estimated)
{
  *estimated = false;
  switch (format) {
  case KC_WEIGHT_FP8: return KC_FAMILY_MOE_FP8;
  case KC_WEIGHT_FP8_BLOCK: return KC_FAMILY_MOE_FP8_BLOCK;
  case KC_WEIGHT_INT8: *estimated = true; return KC_FAMILY_MOE_FP8;
  case KC_WEIGHT_INT4_G32: return KC_FAMILY_MOE_INT4;
  case KC_WEIGHT_INT4_G64:
  case KC_WEIGHT_INT4_G128: *estimated = true; return KC_FAMILY_MOE_INT4;
  case KC_WEIGHT_MXFP4: return KC_FAMILY_MOE_MXFP4;
  case KC_WEIGHT_NVFP4: *estimated = true; return KC_FAMILY_MOE_MXFP4;
  default: return KC_FAMILY_MOE_BF16;
  }
}

static void add_experts(struct filler *f, const struct kc_tensor *t, enum kc_weight_format format)
{
  const struct kc_model *model = f->config->model;
  bool estimated;
  const enum kc_family family = moe_family(format, &estimated);
  struct call *call = add_call(f, CALL_FAMILY, family, t->layer_count);
  call->by_expert = true;
  call->estimated = estimated;
  call->shape = (struct kc_shape){.hidden = model->hidden, .inter = model->expert_width,
                                  .topk = model->experts_per_token, .experts = model->experts,
                                  .tp = f->config->tensor, .ep = 1, .skew = f->config->moe_skew};
  add_call(f, CALL_SMALL, family, t->layer_count)->small_bytes = 4.0 * model->experts; /* top-k */
}

/* A tensor joins the product of the one before it (q+k+v), or starts one. */
static void add_tensor(struct filler *f, struct call **open, const struct kc_tensor *t,
                       enum kc_weight_format format, bool joins)
{
  const double share = kc_cost_rank_share(f->config, t);
  const bool by_rows = !kc_cost_stands_alone(t); /* tensor parallelism cuts the outputs */
  const double rows = (double)t->rows * (by_rows ? share : 1.0);
  const double cols = (double)t->cols * (by_rows ? 1.0 : share);
  if (!joins) {
    bool estimated;
    const enum kc_family family = gemm_family(format, &estimated);
    *open = add_call(f, CALL_FAMILY, family, t->layer_count > 0 ? t->layer_count : 1);
    (*open)->by_logits = t->kind == KC_CLASS_LM_HEAD;
    (*open)->estimated = estimated;
    (*open)->shape = (struct kc_shape){.k = cols};
  }
  KC_ASSERT(*open != NULL);
  (*open)->shape.n += rows;
  if (!kc_cost_is_weight_only(format)) return;
  const double bytes = 2.0 * (double)t->rows * (double)t->cols;
  (*open)->less_bytes += (bytes - (double)kc_weight_bytes(format, t->rows, t->cols)) * share;
}

/* Products that another call covers: the absorb products of MLA read kv_b_proj by head. */
static bool is_covered(const struct filler *f, const struct kc_tensor *t)
{
  return f->config->model->is_mla && strstr(t->name, "kv_b_proj") != NULL;
}

static void add_products(struct filler *f)
{
  const struct kc_model *model = f->config->model;
  const struct kc_tensor *previous = NULL;
  enum kc_weight_format previous_format = KC_WEIGHT_NONE;
  struct call *open = NULL;
  bool experts = false; /* all tensors of a layer's experts are one call */
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *t = &model->tensor[i];
    const enum kc_weight_format format = kc_tensor_format(t, f->config->precision);
    if (!kc_cost_is_product(t) || format == KC_WEIGHT_NONE || is_covered(f, t)) continue;
    if (t->kind == KC_CLASS_ROUTED_EXPERTS) {
      if (!experts) add_experts(f, t, format);
      experts = true;
      continue;
    }
    const bool joins = previous != NULL && kc_cost_fuses(previous, t, previous_format, format);
    add_tensor(f, &open, t, format, joins);
    previous = t;
    previous_format = format;
  }
  if (!model->tied_embedding) return;
  struct call *head = add_call(f, CALL_FAMILY, KC_FAMILY_GEMM_BF16, 1);
  head->by_logits = true;
  head->shape = (struct kc_shape){.n = (double)model->vocabulary / f->config->tensor,
                                  .k = model->hidden};
}

/* ---- what is left of a layer ---- */

static bool is_fp8_kv(enum kc_kv_format format)
{
  return format != KC_KV_BF16;
}

static void add_small(struct filler *f, double count, double bytes)
{
  if (count > 0) add_call(f, CALL_SMALL, KC_FAMILY_GEMM_BF16, count)->small_bytes = bytes;
}

static void add_rest(struct filler *f)
{
  const struct kc_model *model = f->config->model;
  const double layers = model->layers;
  const double hidden = model->hidden;
  const double widest = model->dense_width > 0 ? model->dense_width : model->shared_width;
  add_small(f, 2 * layers + 1, 8.0 * hidden);       /* residual and norm: two read, two written */
  add_small(f, layers, 4.0 * hidden / f->config->tensor);        /* rotary, and KV written */
  add_small(f, layers, 6.0 * widest / f->config->tensor);        /* activation */
  add_small(f, 1, 4.0 * hidden);                                 /* embedding */
  if (is_fp8_kv(f->config->precision->k_format)) {
    add_small(f, layers, 3.0 * hidden / f->config->tensor);      /* KV to FP8 before the write */
  }
  if (f->config->tensor == 1) return;
  struct call *reduce = add_call(f, CALL_FAMILY, KC_FAMILY_ALLREDUCE_GRAPH, 2 * layers);
  reduce->elements = hidden;
  reduce->shape.gpus = f->config->tensor;
}

static void add_absorb(struct filler *f)
{
  const struct kc_model *model = f->config->model;
  const struct kc_tensor *kv_b = kc_cost_find_tensor(model, "kv_b_proj");
  if (!model->is_mla || kv_b == NULL) return;
  const enum kc_weight_format format = kc_tensor_format(kv_b, f->config->precision);
  const bool fp8 = format == KC_WEIGHT_FP8 || format == KC_WEIGHT_FP8_BLOCK;
  struct call *call = add_call(f, CALL_FAMILY, fp8 && present(f, KC_FAMILY_MLA_BMM_FP8)
                               ? KC_FAMILY_MLA_BMM_FP8 : KC_FAMILY_MLA_BMM_BF16,
                               2.0 * model->layers);
  call->shape.heads = (double)model->heads / f->config->tensor;
}

/* ---- asking ---- */

/* One kernel, whatever family stands for it; notes what was not measured. */
static double ask(struct filler *f, enum kc_family family, const struct kc_shape *shape,
                  uint64_t *outside)
{
  const struct kc_op_time time = kc_profile_time(f->config->kernels, &f->device, family, shape);
  KC_ASSERT(time.us > 0);
  if (time.trust != KC_TRUST_MEASURED) *outside |= UINT64_C(1) << family;
  return time.us;
}

static double small_us(const struct filler *f, double bytes)
{
  const struct kc_gpu_profile *profile = f->config->profile;
  const double rate = f->device.memory_bandwidth * profile->bandwidth_efficiency;
  KC_ASSERT(rate > 0);
  return profile->op_latency_us + 1e6 * bytes / rate;
}

/* A collective as the GPU file's profile states it, or as measured. */
static double reduce_us(struct filler *f, const struct kc_shape *shape, uint64_t *outside)
{
  const struct kc_gpu_profile *profile = f->config->profile;
  if (profile->link_efficiency <= 0) return ask(f, KC_FAMILY_ALLREDUCE_GRAPH, shape, outside);
  const double bytes = 2.0 * shape->elements * 2.0 * (shape->gpus - 1.0) / shape->gpus;
  KC_ASSERT(f->device.link_bandwidth > 0);
  return profile->link_latency_us +
         1e6 * bytes / (f->device.link_bandwidth * profile->link_efficiency);
}

static double call_us(struct filler *f, const struct call *call, double units, uint64_t *outside)
{
  if (call->kind == CALL_SMALL) return small_us(f, call->small_bytes * units);
  if (call->kind == CALL_LAYER) {
    const struct kc_op_time time = kc_profile_layer_time(f->config->kernels, call->layer, units);
    if (time.trust != KC_TRUST_MEASURED) *outside |= UINT64_C(1) << KC_OUTSIDE_LAYERS;
    return time.us;
  }
  struct kc_shape shape = call->shape;
  shape.m = shape.tokens = units;
  shape.elements = call->elements * units;
  if (call->elements > 0) return reduce_us(f, &shape, outside);
  double us = ask(f, call->family, &shape, outside);
  if (call->estimated) *outside |= UINT64_C(1) << call->family;
  if (call->less_bytes > 0) { /* never less than the share of the bytes that is read */
    const double saved = 1e6 * call->less_bytes / (f->device.memory_bandwidth * 0.8);
    const double least = us * 0.28;
    us = us - saved > least ? us - saved : least;
  }
  return us;
}

/* What the dense part of a step of as many tokens takes beside its logits: what those are small or
 * large against. */
static double tokens_us(const struct filler *f, double units, bool by_logits)
{
  const struct kc_table1 *tokens = &f->tables->tokens;
  const uint32_t at = kc_scale_index(tokens->bits, (uint64_t)units);
  KC_ASSERT(units >= 1);
  if (!by_logits || at >= tokens->knots) return 0;
  return (double)tokens->value[at] / (1e6 * (1 << KC_TABLE_FRACTION_BITS));
}

static void fill_table1(struct filler *f, struct kc_table1 *table, bool by_logits)
{
  KC_ASSERT(table->knots > 1);
  table->value[0] = 0;
  for (uint32_t i = 1; i < table->knots; i++) {
    const double units = (double)kc_scale_knot(table->bits, i);
    double us = 0, outside_us = 0;
    uint64_t outside = 0;
    for (uint32_t c = 0; c < f->call_count; c++) {
      const struct call *call = &f->call[c];
      uint64_t here = 0;
      if (call->by_logits != by_logits) continue;
      const double part = call->count * call_us(f, call, units, &here);
      us += part;
      if (here != 0) outside_us += part;
      outside |= here;
    }
    if (us == 0) continue;
    const bool minor = outside_us < 0.1 * (us + tokens_us(f, units, by_logits));
    table->value[i] = kc_table_units(us);
    table->outside[i] = minor ? outside << KC_OUTSIDE_MINOR : outside;
  }
}

/* ---- attention ---- */

/* Everything of one KV group that its kernels are asked about. */
struct attention {
  const struct kc_kv_group *group;
  enum kc_family decode, prefill;
  struct kc_shape shape; /* heads and widths */
  bool estimated;
  double skipped;        /* DSA: layers that re-use another's index */
};

static struct attention describe(struct filler *f, const struct kc_kv_group *group)
{
  const struct kc_cost_config *config = f->config;
  const bool fp8 = is_fp8_kv(config->precision->k_format);
  const double heads = (double)group->query_heads / config->tensor;
  struct attention a = {.group = group};
  a.shape.heads = heads < 1 ? 1 : heads;
  if (group->kind == KC_KV_GQA) {
    const double kv_heads = (double)group->kv_heads / config->tensor;
    const bool kv8 = present(f, KC_FAMILY_GQA_PREFILL_KV8);
    a.decode = fp8 ? KC_FAMILY_GQA_DECODE_FP8 : KC_FAMILY_GQA_DECODE_BF16;
    a.prefill = !fp8 ? KC_FAMILY_GQA_PREFILL_BF16
              : kv8 ? KC_FAMILY_GQA_PREFILL_KV8 : KC_FAMILY_GQA_PREFILL_FP8;
    a.shape.kv_heads = kv_heads < 1 ? 1 : kv_heads;
    a.shape.head_dim = group->k_width;
    return a;
  }
  a.decode = fp8 ? KC_FAMILY_MLA_DECODE_FP8 : KC_FAMILY_MLA_DECODE_BF16;
  a.prefill = fp8 ? KC_FAMILY_MLA_PREFILL_FP8 : KC_FAMILY_MLA_PREFILL_BF16;
  if (group->kind != KC_KV_DSA) return a;
  const struct kc_tensor *indexer = kc_cost_find_tensor(config->model, "indexer.wq_b");
  const struct kc_tensor *projection = kc_cost_find_tensor(config->model, "q_b_proj");
  a.decode = fp8 ? KC_FAMILY_DSA_DECODE_FP8 : KC_FAMILY_DSA_DECODE_BF16;
  a.skipped = group->layers - (indexer != NULL ? indexer->layer_count : 0.0);
  a.shape.hidden = config->model->hidden;
  a.shape.gemm_fp8 = projection != NULL && kc_tensor_format(projection, config->precision) !=
                     KC_WEIGHT_BF16;
  KC_ASSERT(a.skipped >= 0);
  return a;
}

/* The projections of one layer at `tokens`, which a DSA module's time includes. */
static double module_products(struct filler *f, double tokens)
{
  double us = 0;
  uint64_t ignored = 0;
  const double layers = f->config->model->layers;
  for (uint32_t c = 0; c < f->call_count; c++) {
    const struct call *call = &f->call[c];
    if (!call->by_expert && call->kind == CALL_FAMILY && call->elements <= 0 && !call->by_logits &&
        call->count >= layers) {
      us += call->count / layers * call_us(f, call, tokens, &ignored);
    }
  }
  return us;
}

static double dsa_us(struct filler *f, const struct attention *a, struct kc_shape shape,
                     uint64_t *outside)
{
  const double full = a->group->layers - a->skipped;
  double us = 0;
  const double products = module_products(f, shape.batch);
  const double least = 2.0; /* of a kernel that does anything */
  for (int skip = 0; skip < 2; skip++) {
    const double layers = skip ? a->skipped : full;
    if (layers <= 0) continue;
    shape.skip = skip;
    const double module = ask(f, a->decode, &shape, outside);
    us += layers * (module - products > least ? module - products : least);
  }
  KC_ASSERT(us > 0);
  return us;
}

static double decode_us(struct filler *f, const struct attention *a, double batch, double context,
                        uint64_t *outside)
{
  struct kc_shape shape = a->shape;
  shape.batch = batch;
  shape.context = context;
  if (a->group->kind == KC_KV_DSA) return dsa_us(f, a, shape, outside);
  return a->group->layers * ask(f, a->decode, &shape, outside);
}

/* Sparse prefill was not measured: dense prefill, in the share of the pairs that is looked at, and
 * the indexer's dot products at 0.6 of the FP8 rate. */
static double sparse_prefill_us(struct filler *f, const struct attention *a, double dense_us,
                                const struct kc_shape *shape, uint64_t *outside)
{
  const double window = (double)a->group->window;
  const double pairs = shape->tokens * (shape->context - shape->tokens) +
                       shape->tokens * (shape->tokens + 1) / 2;
  const struct kc_tensor *indexer = kc_cost_find_tensor(f->config->model, "indexer.wq_b");
  const double peak = f->device.flops[KC_MATH_FP8] > 0 ? f->device.flops[KC_MATH_FP8]
                                                       : f->device.flops[KC_MATH_BF16];
  const double seen = shape->tokens * window < pairs ? shape->tokens * window : pairs;
  const double index = indexer == NULL ? 0 : 2.0 * (double)indexer->rows * pairs * shape->batch *
                                             indexer->layer_count / (0.6 * peak) * 1e6;
  *outside |= UINT64_C(1) << a->prefill;
  return dense_us * seen / pairs + index;
}

static double prefill_us(struct filler *f, const struct attention *a, double batch, double tokens,
                         double context, uint64_t *outside)
{
  struct kc_shape shape = a->shape;
  shape.batch = batch;
  shape.tokens = tokens;
  shape.context = context > tokens ? context : tokens;
  if (a->group->kind == KC_KV_GQA) shape.window = (double)a->group->window;
  const double us = a->group->layers * ask(f, a->prefill, &shape, outside);
  if (a->group->kind != KC_KV_DSA) return us;
  return sparse_prefill_us(f, a, us, &shape, outside);
}

static void fill_decode(struct filler *f, const struct attention *a, struct kc_table2 *table)
{
  for (uint32_t i = 0; i < table->knots_a; i++) {
    for (uint32_t j = 0; j < table->knots_b; j++) {
      const size_t at = (size_t)i * table->knots_b + j;
      const double batch = (double)kc_scale_knot(table->bits, i > 0 ? i : 1);
      const double context = (double)kc_scale_knot(table->bits, j > 0 ? j : 1);
      table->value[at] = kc_table_units(decode_us(f, a, batch, context, &table->outside[at]));
    }
  }
}

static void fill_prefill(struct filler *f, const struct attention *a, double batch,
                         struct kc_table2 *table)
{
  for (uint32_t i = 0; i < table->knots_a; i++) {
    for (uint32_t j = 0; j < table->knots_b; j++) {
      const size_t at = (size_t)i * table->knots_b + j;
      const double tokens = (double)kc_scale_knot(table->bits, i > 0 ? i : 1);
      const double context = (double)kc_scale_knot(table->bits, j > 0 ? j : 1);
      table->value[at] = kc_table_units(prefill_us(f, a, batch, tokens, context,
                                                   &table->outside[at]));
    }
  }
}

/* ---- layered profiles ---- */

static enum kc_err check_layered(const struct kc_cost_config *config, struct kc_diag *diag)
{
  const struct kc_layered_model *of = kc_profile_layered_model(config->kernels);
  const struct kc_model *model = config->model;
  const bool same = of->tensor == config->tensor &&
                    (of->hidden == 0 || of->hidden == model->hidden) &&
                    (of->head_dim == 0 || of->head_dim == model->head_width) &&
                    (of->inter == 0 || of->inter == model->dense_width) &&
                    (of->heads == 0 || of->heads == model->heads) &&
                    (of->kv_heads == 0 || of->kv_heads == model->kv_heads);
  if (same && model->experts == 0 && !model->is_mla) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "profile %s holds whole layers of %s at tensor degree %u "
                 "(hidden %u, %u heads, %u of keys and values, MLP %u; 0 = not said); this is %s "
                 "at %u (%u, %u, %u, %u): use a profile of kernels, or measure",
                 kc_profile_name(config->kernels), of->model, of->tensor, of->hidden, of->heads,
                 of->kv_heads, of->inter, model->name, config->tensor, model->hidden, model->heads,
                 model->kv_heads, model->dense_width);
}

/* See longest_whole_us of cost_tables.c; batches were measured in powers of two. */
static void set_whole(struct kc_cost_tables *t, const struct kc_cost_config *config)
{
  const struct kc_device device = kc_device_of(config->gpu);
  const double heads = (double)config->model->kv_heads / config->tensor;
  KC_ASSERT(device.sm_count > 0);
  t->spread_share = config->profile->spread_share > 0 ? config->profile->spread_share : 1;
  t->whole_from = ceil(0.8 * 2 * device.sm_count / (heads < 1 ? 1 : heads));
  t->whole_measured = 1;
  while (t->whole_measured < t->whole_from) t->whole_measured *= 2;
}

static void add_layers(struct filler *f)
{
  static const struct {
    const char *name;
    bool each, by_logits;
    double times;
  } rows[] = {
    {"layernorm", true, false, 2}, {"qkv_proj", true, false, 1}, {"qk_norm", true, false, 1},
    {"rotary_emb", true, false, 1}, {"o_proj", true, false, 1}, {"gate_up_proj", true, false, 1},
    {"act_fn", true, false, 1}, {"down_proj", true, false, 1}, {"embedding", false, false, 1},
    {"final_layernorm", false, false, 1}, {"lm_head", false, true, 1}, {"sampler", false, true, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const int layer = kc_profile_layer(f->config->kernels, rows[i].name);
    if (layer < 0) continue;
    const double layers = rows[i].each ? f->config->model->layers : 1;
    struct call *call = add_call(f, CALL_LAYER, KC_FAMILY_GEMM_BF16, rows[i].times * layers);
    call->by_logits = rows[i].by_logits;
    call->layer = layer;
  }
  KC_ASSERT(f->call_count > 0);
  if (f->config->tensor == 1) return;
  struct call *reduce = add_call(f, CALL_FAMILY, KC_FAMILY_ALLREDUCE_GRAPH,
                                 2.0 * f->config->model->layers);
  reduce->elements = f->config->model->hidden;
  reduce->shape.gpus = f->config->tensor;
}

/* ---- memory ---- */

static uint32_t knots_for(unsigned bits, uint64_t most)
{
  return kc_scale_index(bits, most) + 2; /* the knot above, too */
}

struct sizes {
  uint32_t tokens, logits, batch, context, chunk;
};

static enum kc_err take_memory(struct kc_cost_tables *t, const struct sizes *s,
                               struct kc_diag *diag)
{
  const size_t one = (size_t)s->tokens + s->logits;
  const size_t group = (size_t)s->batch * s->context + 2 * (size_t)s->chunk * s->context;
  const size_t need = one + group * t->group_count;
  t->values = calloc(need, sizeof *t->values);
  t->outsides = calloc(need, sizeof *t->outsides);
  if (t->values == NULL || t->outsides == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the tables of step times");
  }
  size_t at = 0;
  t->tokens = (struct kc_table1){KC_TOKEN_BITS, s->tokens, t->values, t->outsides};
  at += s->tokens;
  t->logits = (struct kc_table1){KC_TOKEN_BITS, s->logits, t->values + at, t->outsides + at};
  at += s->logits;
  for (uint32_t g = 0; g < t->group_count; g++) {
    struct kc_table2 *table[] = {&t->group[g].decode, &t->group[g].prefill[0],
                                 &t->group[g].prefill[1]};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
      const uint32_t rows = i == 0 ? s->batch : s->chunk;
      *table[i] = (struct kc_table2){KC_ATTENTION_BITS, rows, s->context, t->values + at,
                                     t->outsides + at};
      at += (size_t)rows * s->context;
    }
  }
  KC_ASSERT(at == need);
  return KC_OK;
}

static struct sizes sizes_of(const struct kc_cost_config *config)
{
  KC_ASSERT(config->tokens_max > 0 && config->context_max > 0);
  KC_ASSERT(config->sequences_max > 0);
  return (struct sizes){knots_for(KC_TOKEN_BITS, config->tokens_max),
                        knots_for(KC_TOKEN_BITS, config->sequences_max),
                        knots_for(KC_ATTENTION_BITS, config->sequences_max),
                        knots_for(KC_ATTENTION_BITS, config->context_max),
                        knots_for(KC_ATTENTION_BITS, config->tokens_max)};
}

static int32_t cap_index(const struct kc_cost_config *config, uint64_t window)
{
  for (uint32_t i = 0; window > 0 && i < config->cap_count; i++) {
    if (config->cap[i] == window) return (int32_t)i;
  }
  KC_ASSERT(window == 0);
  return -1;
}

/* DSA looks at a window but its indexer scores the whole context, so its table is by that. */
static void list_groups(struct kc_cost_tables *t, const struct kc_cost_config *config,
                        const struct kc_kv_group *group[KC_KV_GROUPS_MAX])
{
  for (uint32_t i = 0; i < config->model->kv_group_count; i++) {
    const struct kc_kv_group *g = &config->model->kv_group[i];
    if (g->kind == KC_KV_LINEAR || t->is_layered) continue;
    const uint64_t window = g->kind == KC_KV_DSA ? 0 : g->window;
    group[t->group_count] = g;
    t->group[t->group_count].window = window;
    t->group[t->group_count++].cap = cap_index(config, window);
  }
  KC_ASSERT(t->group_count <= KC_KV_GROUPS_MAX);
}

static void fill(struct filler *f, const struct kc_kv_group *const *group)
{
  struct kc_cost_tables *t = f->tables;
  if (t->is_layered) {
    add_layers(f);
  } else {
    add_products(f);
    add_absorb(f);
    add_rest(f);
  }
  fill_table1(f, &t->tokens, false);
  fill_table1(f, &t->logits, true);
  for (uint32_t g = 0; g < t->group_count; g++) {
    const struct attention a = describe(f, group[g]);
    fill_decode(f, &a, &t->group[g].decode);
    fill_prefill(f, &a, 1, &t->group[g].prefill[0]);
    fill_prefill(f, &a, KC_PREFILL_BATCH, &t->group[g].prefill[1]);
  }
}

enum kc_err kc_cost_tables_build(struct kc_cost_tables **out, const struct kc_cost_config *config,
                                 struct kc_diag *diag)
{
  const struct kc_kv_group *group[KC_KV_GROUPS_MAX] = {NULL};
  KC_ASSERT(config->kernels != NULL);
  *out = NULL;
  const bool layered = kc_profile_kind(config->kernels) == KC_PROFILE_LAYERED;
  if (layered) KC_TRY(check_layered(config, diag));
  struct kc_cost_tables *t = calloc(1, sizeof *t);
  struct filler *f = calloc(1, sizeof *f);
  if (t == NULL || f == NULL) {
    free(t);
    free(f);
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the tables of step times");
  }
  t->kernels = config->kernels;
  t->is_layered = layered;
  t->layers = config->model->layers;
  if (layered) set_whole(t, config);
  list_groups(t, config, group);
  *f = (struct filler){.config = config, .device = kc_device_of(config->gpu), .tables = t};
  const struct sizes sizes = sizes_of(config);
  const enum kc_err err = take_memory(t, &sizes, diag);
  if (err == KC_OK) {
    fill(f, group);
    *out = t;
  } else {
    kc_cost_tables_free(t);
  }
  free(f);
  return err;
}
