/* What each family moves and computes, and the features its corrections are tabled by.
 *
 *   shape --kc_family_work--> bytes, operations, features --kc_physics_us--> microseconds
 *
 * Bytes count every operand once. Operations are multiply-adds times two, in whole tiles where the
 * kernels work in tiles. The features describe how the kernel cuts its work (tiles, waves over the
 * multiprocessors, tokens per expert), because that is what plain physics gets wrong.
 */
#include <math.h>
#include <string.h>

#include "sim/cost/profile_internal.h"

enum class { GEMM, GQA_DECODE, GQA_PREFILL, MLA_DECODE, MLA_PREFILL, BMM, MOE, ALLREDUCE, DSA };

struct family_row {
  const char *name;
  enum class class;
  double element_bytes;  /* of a weight or of a cached element */
  enum kc_math math;
};

static const struct family_row rows[KC_FAMILIES] = {
    [KC_FAMILY_GEMM_BF16] = {"gemm-bf16", GEMM, 2, KC_MATH_BF16},
    [KC_FAMILY_GEMM_FP8] = {"gemm-fp8", GEMM, 1, KC_MATH_FP8},
    [KC_FAMILY_GEMM_FP8_BLOCK] = {"gemm-fp8-block", GEMM, 1, KC_MATH_FP8},
    [KC_FAMILY_GQA_DECODE_BF16] = {"gqa-decode-bf16", GQA_DECODE, 2, KC_MATH_BF16},
    [KC_FAMILY_GQA_DECODE_FP8] = {"gqa-decode-fp8", GQA_DECODE, 1, KC_MATH_BF16},
    [KC_FAMILY_GQA_PREFILL_BF16] = {"gqa-prefill-bf16", GQA_PREFILL, 2, KC_MATH_BF16},
    [KC_FAMILY_GQA_PREFILL_FP8] = {"gqa-prefill-fp8", GQA_PREFILL, 1, KC_MATH_FP8},
    [KC_FAMILY_GQA_PREFILL_KV8] = {"gqa-prefill-kv8", GQA_PREFILL, 1, KC_MATH_BF16},
    [KC_FAMILY_MLA_DECODE_BF16] = {"mla-decode-bf16", MLA_DECODE, 2, KC_MATH_BF16},
    [KC_FAMILY_MLA_DECODE_FP8] = {"mla-decode-fp8", MLA_DECODE, 1, KC_MATH_BF16},
    [KC_FAMILY_MLA_PREFILL_BF16] = {"mla-prefill-bf16", MLA_PREFILL, 2, KC_MATH_BF16},
    [KC_FAMILY_MLA_PREFILL_FP8] = {"mla-prefill-fp8", MLA_PREFILL, 1, KC_MATH_BF16},
    [KC_FAMILY_MLA_BMM_BF16] = {"mla-bmm-bf16", BMM, 2, KC_MATH_BF16},
    [KC_FAMILY_MLA_BMM_FP8] = {"mla-bmm-fp8", BMM, 1, KC_MATH_FP8},
    [KC_FAMILY_MOE_BF16] = {"moe-bf16", MOE, 2, KC_MATH_BF16},
    [KC_FAMILY_MOE_BF16_CUTLASS] = {"moe-bf16-cutlass", MOE, 2, KC_MATH_BF16},
    [KC_FAMILY_MOE_FP8] = {"moe-fp8", MOE, 1, KC_MATH_FP8},
    [KC_FAMILY_MOE_FP8_BLOCK] = {"moe-fp8-block", MOE, 1, KC_MATH_FP8},
    [KC_FAMILY_MOE_INT4] = {"moe-int4", MOE, 0.5625, KC_MATH_BF16},
    [KC_FAMILY_MOE_MXFP4] = {"moe-mxfp4", MOE, 0.53125, KC_MATH_BF16},
    [KC_FAMILY_ALLREDUCE_GRAPH] = {"allreduce-graph", ALLREDUCE, 2, KC_MATH_BF16},
    [KC_FAMILY_ALLREDUCE_EAGER] = {"allreduce-eager", ALLREDUCE, 2, KC_MATH_BF16},
    [KC_FAMILY_DSA_DECODE_BF16] = {"dsa-decode-bf16", DSA, 2, KC_MATH_BF16},
    [KC_FAMILY_DSA_DECODE_FP8] = {"dsa-decode-fp8", DSA, 1, KC_MATH_BF16},
};

#define SIZE(NAME) {NAME, false, true}     /* of the shape itself: part of the range */
#define DERIVED(NAME) {NAME, false, false}
#define EXTENT(NAME) {NAME, false, true}   /* of the whole call: sizes that never met are outside */
#define LEVEL(NAME) {NAME, true, true}
#define LEVEL_DERIVED(NAME) {NAME, true, false}

static const struct kc_feature gemm_features[] = {
    SIZE("m"), SIZE("n"), SIZE("k"), DERIVED("tiles"), DERIVED("wave_loss"), DERIVED("row_loss"),
    DERIVED("mib"), LEVEL_DERIVED("block_n"), DERIVED("waves"),
};
static const struct kc_feature gqa_decode_features[] = {
    SIZE("batch"), SIZE("context"), SIZE("heads"), SIZE("kv_heads"), SIZE("head_dim"),
    LEVEL("windowed"), DERIVED("group"), DERIVED("rows"), EXTENT("mib"), DERIVED("blocks"),
};
static const struct kc_feature gqa_prefill_features[] = {
    SIZE("batch"), SIZE("tokens"), SIZE("depth"), SIZE("heads"), SIZE("kv_heads"),
    SIZE("head_dim"), LEVEL("windowed"), DERIVED("group"), DERIVED("blocks"), DERIVED("wave_loss"),
    LEVEL("past"), EXTENT("gflop"),
};
static const struct kc_feature mla_decode_features[] = {
    SIZE("batch"), SIZE("context"), SIZE("heads"), EXTENT("mib"),
};
static const struct kc_feature mla_prefill_features[] = {
    SIZE("batch"), SIZE("tokens"), SIZE("depth"), SIZE("heads"), EXTENT("blocks"),
    DERIVED("wave_loss"), LEVEL("past"),
};
static const struct kc_feature bmm_features[] = {
    SIZE("tokens"), SIZE("heads"), DERIVED("rows"),
};
static const struct kc_feature moe_features[] = {
    SIZE("tokens"), SIZE("hidden"), SIZE("width"), SIZE("topk"), SIZE("experts"), LEVEL("skew"),
    DERIVED("local_experts"), DERIVED("per_expert"), DERIVED("pairs"), DERIVED("expert_mib"),
    DERIVED("gflop"), SIZE("ep"), DERIVED("covered"),
};
static const struct kc_feature allreduce_features[] = {
    SIZE("elements"), SIZE("gpus"),
};
static const struct kc_feature dsa_features[] = {
    SIZE("batch"), SIZE("context"), SIZE("heads"), SIZE("hidden"), LEVEL("gemm_fp8"),
    LEVEL("skip"), EXTENT("mib"),
};

#define COUNT(ARRAY) ((uint32_t)(sizeof(ARRAY) / sizeof((ARRAY)[0])))

const struct kc_feature *kc_family_features(enum kc_family family, uint32_t *count)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  switch (rows[family].class) {
    case GEMM: *count = COUNT(gemm_features); return gemm_features;
    case GQA_DECODE: *count = COUNT(gqa_decode_features); return gqa_decode_features;
    case GQA_PREFILL: *count = COUNT(gqa_prefill_features); return gqa_prefill_features;
    case MLA_DECODE: *count = COUNT(mla_decode_features); return mla_decode_features;
    case MLA_PREFILL: *count = COUNT(mla_prefill_features); return mla_prefill_features;
    case BMM: *count = COUNT(bmm_features); return bmm_features;
    case MOE: *count = COUNT(moe_features); return moe_features;
    case ALLREDUCE: *count = COUNT(allreduce_features); return allreduce_features;
    case DSA: *count = COUNT(dsa_features); return dsa_features;
  }
  KC_ASSERT(false);
  return NULL;
}

const char *kc_family_name(enum kc_family family)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  KC_ASSERT(rows[family].name != NULL);
  return rows[family].name;
}

bool kc_family_parse(const char *name, enum kc_family *out)
{
  KC_ASSERT(name != NULL);
  for (int f = 0; f < KC_FAMILIES; f++) {
    if (strcmp(rows[f].name, name) != 0) continue;
    *out = (enum kc_family)f;
    return true;
  }
  return false;
}

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }
static double whole(double x, double unit) { return ceil(x / unit); } /* exact */

#define MIB 1048576.0

/* Tiles of 128 x 128 run in waves over the multiprocessors: the last one is seldom full. */
static double wave_loss(double blocks, const struct kc_device *device)
{
  KC_ASSERT(device->sm_count >= 1);
  return whole(blocks, device->sm_count) * device->sm_count / blocks;
}

/* Kernels that tune themselves widen their tiles until the last wave vanishes: the narrowest width
 * (16, 32, ... 256) with which `row_blocks` rows of tiles need the fewest waves. Some widths are
 * much slower than others, whatever the shape, and only the waves say which one is taken. */
static double block_width(double row_blocks, double n, const struct kc_device *device,
                          double *waves)
{
  *waves = whole(row_blocks * whole(n, 256), device->sm_count);
  double width = 16;
  while (width < 256 && row_blocks * whole(n, width) > *waves * device->sm_count) width += 16;
  KC_ASSERT(*waves >= 1);
  return width;
}

static void gemm_work(double element, const struct kc_device *device, const struct kc_shape *s,
                      struct kc_work *w)
{
  const double row_blocks = whole(s->m, 128);
  KC_ASSERT(s->m > 0 && s->n > 0 && s->k > 0);
  const double tiles = row_blocks * whole(s->n, 128);
  double waves;
  const double width = block_width(s->m <= 64 ? whole(s->m, 64) : row_blocks, s->n, device, &waves);
  w->bytes = element * (s->m * s->k + s->k * s->n) + 2.0 * s->m * s->n;
  w->flops = 2.0 * whole(s->m, 64) * 64.0 * s->n * s->k;
  const double figure[] = {s->m, s->n, s->k, tiles, wave_loss(tiles, device),
                           row_blocks * 128.0 / s->m, w->bytes / MIB, width, waves};
  memcpy(w->feature, figure, sizeof figure);
}

static void gqa_decode_work(double element, const struct kc_device *device,
                            const struct kc_shape *s, struct kc_work *w)
{
  const bool windowed = s->window > 0;
  KC_ASSERT(s->batch > 0 && s->context > 0);
  KC_ASSERT(s->heads > 0 && s->kv_heads > 0 && s->head_dim > 0);
  const double read = windowed ? least(s->window, s->context) : s->context;
  const double rows_read = s->batch * s->kv_heads;
  w->bytes = rows_read * read * s->head_dim * 2.0 * element +
             4.0 * s->batch * s->heads * s->head_dim;
  w->flops = 4.0 * s->batch * s->heads * read * s->head_dim;
  (void)device;
  const double figure[] = {s->batch, read, s->heads, s->kv_heads, s->head_dim, windowed ? 1 : 0,
                           s->heads / s->kv_heads, rows_read, w->bytes / MIB,
                           rows_read * whole(read, 128)};
  memcpy(w->feature, figure, sizeof figure);
}

/* (query, key) pairs of one sequence: `tokens` new ones behind a past, each seeing at most `window`
 * (0 = all). */
static double attention_pairs(double tokens, double context, double window)
{
  const double past = context - tokens;
  KC_ASSERT(tokens > 0);
  KC_ASSERT(past >= 0);
  const double full = tokens * past + tokens * (tokens + 1.0) / 2.0;
  if (window <= 0 || window >= context) return full;
  const double first = most(0.0, least(tokens, window - past)); /* queries that see less */
  const double short_pairs = first * past + first * (first + 1.0) / 2.0;
  return short_pairs + (tokens - first) * window;
}

static void gqa_prefill_work(double element, const struct kc_device *device,
                             const struct kc_shape *s, struct kc_work *w)
{
  const double pairs = attention_pairs(s->tokens, s->context, s->window);
  const double read = s->window > 0 ? least(s->context, s->tokens + s->window) : s->context;
  const double blocks = s->batch * s->heads * whole(s->tokens, 128);
  w->bytes = s->batch * (read * s->kv_heads * s->head_dim * 2.0 * element +
                         4.0 * s->tokens * s->heads * s->head_dim);
  w->flops = 4.0 * s->batch * s->heads * pairs * s->head_dim;
  const double figure[] = {s->batch, s->tokens, pairs / s->tokens, s->heads, s->kv_heads,
                           s->head_dim, s->window > 0 ? 1 : 0, s->heads / s->kv_heads, blocks,
                           wave_loss(blocks, device), s->context > s->tokens ? 1 : 0,
                           w->flops / 1e9};
  memcpy(w->feature, figure, sizeof figure);
}

/* Absorbed: scores over latent and rotary part (576), values over the latent (512). */
static void mla_decode_work(double element, const struct kc_shape *s, struct kc_work *w)
{
  KC_ASSERT(s->batch > 0 && s->context > 0);
  KC_ASSERT(s->heads > 0);
  w->bytes = s->batch * (s->context * 576.0 * element + s->heads * 2.0 * (576.0 + 512.0));
  w->flops = 2.0 * s->batch * s->heads * s->context * (576.0 + 512.0);
  const double figure[] = {s->batch, s->context, s->heads, w->bytes / MIB};
  memcpy(w->feature, figure, sizeof figure);
}

/* Expanded: keys of 192 (128 + 64 rotary), values of 128. */
static void mla_prefill_work(double element, const struct kc_device *device,
                             const struct kc_shape *s, struct kc_work *w)
{
  const double pairs = attention_pairs(s->tokens, s->context, 0);
  const double blocks = s->batch * s->heads * whole(s->tokens, 128);
  w->bytes = s->batch * s->heads * (320.0 * element * s->context + 640.0 * s->tokens);
  w->flops = 2.0 * s->batch * s->heads * pairs * 320.0;
  const double figure[] = {s->batch, s->tokens, pairs / s->tokens, s->heads, blocks,
                           wave_loss(blocks, device), s->context > s->tokens ? 1 : 0};
  memcpy(w->feature, figure, sizeof figure);
}

static void bmm_work(double element, const struct kc_shape *s, struct kc_work *w)
{
  KC_ASSERT(s->tokens > 0 && s->heads > 0);
  w->bytes = s->heads * (128.0 * 512.0 * element + s->tokens * (128.0 + 512.0) * 2.0);
  w->flops = 2.0 * s->heads * whole(s->tokens, 64) * 64.0 * 128.0 * 512.0;
  const double figure[] = {s->tokens, s->heads, s->tokens * s->heads};
  memcpy(w->feature, figure, sizeof figure);
}

/* base^exponent, 0 <= base <= 1, exponent a whole number below 2^53. */
static double whole_power(double base, double exponent)
{
  double result = 1.0;
  KC_ASSERT(base >= 0.0 && base <= 1.0);
  KC_ASSERT(exponent >= 0.0 && exponent < 9e15);
  for (uint64_t e = (uint64_t)exponent; e > 0; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return result;
}

/* Experts of one rank that get a token: with balanced routing as many as can, else the expectation
 * of independent draws, E (1 - (1 - k/E)^n). */
static double covered_experts(const struct kc_shape *s, double local)
{
  const double pairs = s->tokens * s->topk / s->ep;
  if (s->skew <= 0) return least(local, most(pairs, 1.0));
  const double share = least(1.0, s->topk / s->experts);
  return most(1.0, local * (1.0 - whole_power(1.0 - share, floor(s->tokens + 0.5))));
}

static void moe_work(double element, const struct kc_shape *s, struct kc_work *w)
{
  KC_ASSERT(s->tokens > 0 && s->experts > 0 && s->topk > 0);
  KC_ASSERT(s->tp >= 1 && s->ep >= 1);
  const double local = most(1.0, s->experts / s->ep);
  const double width = s->inter / s->tp;
  const double covered = covered_experts(s, local);
  const double pairs = most(1.0, s->tokens * s->topk / s->ep);
  const double per_expert = s->tokens * s->topk / s->experts;
  const double padded = covered * whole(pairs / covered, 16) * 16.0;
  w->bytes = covered * 3.0 * s->hidden * width * element + pairs * (4.0 * s->hidden + 8.0 * width);
  w->flops = 6.0 * padded * s->hidden * width;
  const double figure[] = {s->tokens, s->hidden, width, s->topk, s->experts, s->skew, local,
                           per_expert, pairs, 3.0 * s->hidden * width * element / MIB,
                           w->flops / 1e9, s->ep, covered};
  memcpy(w->feature, figure, sizeof figure);
}

/* A ring moves 2 (n - 1) / n of the message; kernels for small ones move it n - 1 times, which the
 * corrections see. */
static void allreduce_work(const struct kc_shape *s, struct kc_work *w)
{
  KC_ASSERT(s->elements > 0);
  KC_ASSERT(s->gpus >= 2);
  w->link = true;
  w->bytes = 2.0 * s->elements * 2.0 * (s->gpus - 1.0) / s->gpus;
  w->flops = 0;
  const double figure[] = {s->elements, s->gpus};
  memcpy(w->feature, figure, sizeof figure);
}

/* Sparse attention module of DeepSeek V3.2 and GLM 5: projections, indexer over the whole context
 * (132 bytes a token: 128 FP8 and a scale), attention over the best 2,048. */
static void dsa_work(double element, const struct kc_shape *s, struct kc_work *w)
{
  const double weight = s->gemm_fp8 > 0 ? 1.0 : 2.0;
  KC_ASSERT(s->batch > 0 && s->context > 0);
  KC_ASSERT(s->heads > 0 && s->hidden > 0);
  const double read = least(2048.0, s->context);
  const double index = s->skip > 0 ? 0.0 : 132.0 * s->context;
  const double projections = s->hidden * 2112.0 + 1536.0 * 192.0 * s->heads +
                             512.0 * 256.0 * s->heads + 128.0 * s->heads * s->hidden;
  w->bytes = weight * projections + s->batch * (index + read * 576.0 * element);
  w->flops = s->batch * (2.0 * projections + 2.0 * s->heads * read * (576.0 + 512.0) +
                         (s->skip > 0 ? 0.0 : 2.0 * 64.0 * 128.0 * s->context));
  const double figure[] = {s->batch, s->context, s->heads, s->hidden, s->gemm_fp8, s->skip,
                           w->bytes / MIB};
  memcpy(w->feature, figure, sizeof figure);
}

void kc_family_work(enum kc_family family, const struct kc_device *device,
                    const struct kc_shape *shape, struct kc_work *work)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  const struct family_row *row = &rows[family];
  const double element = row->element_bytes;
  *work = (struct kc_work){.math = row->math};
  switch (row->class) {
    case GEMM: gemm_work(element, device, shape, work); break;
    case GQA_DECODE: gqa_decode_work(element, device, shape, work); break;
    case GQA_PREFILL: gqa_prefill_work(element, device, shape, work); break;
    case MLA_DECODE: mla_decode_work(element, shape, work); break;
    case MLA_PREFILL: mla_prefill_work(element, device, shape, work); break;
    case BMM: bmm_work(element, shape, work); break;
    case MOE: moe_work(element, shape, work); break;
    case ALLREDUCE: allreduce_work(shape, work); break;
    case DSA: dsa_work(element, shape, work); break;
  }
  KC_ASSERT(work->bytes > 0);
}

double kc_physics_us(const struct kc_physics *physics, const struct kc_device *device,
                     const struct kc_work *work)
{
  const double bandwidth = work->link ? device->link_bandwidth : device->memory_bandwidth;
  const double native = device->flops[work->math];
  const double peak = native > 0 ? native : device->flops[KC_MATH_BF16];
  KC_ASSERT(bandwidth > 0 && peak > 0);
  KC_ASSERT(physics->bandwidth > 0 && physics->rate > 0);
  const double move = (work->bytes + physics->bytes_half) / (physics->bandwidth * bandwidth);
  const double compute = (work->flops + physics->flops_half) / (physics->rate * peak);
  if (work->link) return physics->latency_us + 1e6 * move; /* nothing is computed */
  double busy = most(move, compute);
  if (physics->stream_gb_s > 0) {
    busy = most(busy, work->bytes / (physics->stream_gb_s * 1e9 * device->sm_count));
  }
  return physics->latency_us + 1e6 * busy;
}
