/* The bench's products: dense ones by format and rows, and a layer of experts. */
#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/bench_desk.h"
#include "engine/exec/dense_product.h"
#include "kernels/ops/op_check.h"

struct matrix {
  uint64_t n, k;
};

/* Matrices of a layer of Llama 3.1 8B (q k v, o, gate and up, down), and a large square one. */
static const struct matrix layer[] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
static const struct matrix square[] = {{8192, 8192}};
static const struct matrix tiny_layer[] = {{64, 64}};

static const char *format_name(enum kc_weight_format format)
{
  switch (format) {
    case KC_WEIGHT_BF16: return "bfloat16";
    case KC_WEIGHT_FP8: return "fp8";
    case KC_WEIGHT_INT4_G32: return "int4_g32";
    default: return "int4_g128";
  }
}

/* ---- dense ---- */

/* How a product goes: by its format's kernel, with inputs quantised to FP8 as well (what many rows
 * of FP8 weights meet), or by way of BF16 (what many rows of INT4 weights meet). */
enum route { DIRECT, FP8_INPUTS, DEQUANTISED };

struct dense {
  const struct kc_site *site;
  struct kc_op_gemm op;
  void *scratch; /* NULL: not by way of BF16 */
  uint64_t scratch_bytes;
};

static enum kc_op_status run_dense(void *context)
{
  const struct dense *d = context;
  KC_ASSERT(d->op.rows > 0);
  if (d->scratch == NULL) return d->site->ops->gemm(d->site->context, &d->op);
  return kc_dense_product(d->site->ops, d->site->context, &d->op, d->scratch, d->scratch_bytes);
}

/* The most workspace of the product, or of its panels. */
static void take_workspace(struct kc_desk *desk, struct dense *d)
{
  struct kc_op_gemm op = d->op;
  uint64_t most = 0;
  KC_ASSERT(op.rows > 0);
  KC_ASSERT((d->scratch == NULL) == (d->scratch_bytes == 0) || desk->failed);
  for (int last = 0; last < 2; last++) {
    if (d->scratch_bytes > 0) op.weight = kc_dense_panel(&d->op.weight, d->scratch_bytes, last);
    const uint64_t bytes = desk->site->ops->gemm_workspace_bytes(desk->site->context, &op);
    if (bytes > most) most = bytes;
  }
  d->op.workspace_bytes = most;
  if (most > 0) d->op.workspace = kc_desk_take(desk, most);
}

static void measure_dense(struct kc_desk *desk, enum kc_bench_suite suite,
                          enum kc_weight_format format, uint64_t m, const struct matrix *shape,
                          enum route route)
{
  const bool fp8_inputs = route == FP8_INPUTS;
  const uint64_t weight_bytes = kc_desk_weight_bytes(format, shape->n, shape->k);
  struct kc_bench_row row = {.suite = suite, .format = format_name(format),
                             .operation = route == DEQUANTISED ? "gemm_dequantised" : "gemm",
                             .shape = {.m = m, .n = shape->n, .k = shape->k},
                             .flops = 2.0 * (double)m * (double)shape->n * (double)shape->k};
  if (!kc_desk_allows(desk)) return;
  struct dense d = {.site = desk->site,
                    .op = {.rows = (uint32_t)m, .x_type = KC_DTYPE_BF16, .x_stride = shape->k,
                           .weight = kc_desk_weight(desk, format, shape->n, shape->k),
                           .out_type = KC_DTYPE_BF16, .out_stride = shape->n}};
  KC_ASSERT(m > 0);
  d.op.x = kc_desk_random(desk, m * shape->k);
  if (fp8_inputs) {
    const struct kc_op_quantise_rows quantise = {
        (uint32_t)m, (uint32_t)shape->k, d.op.x, shape->k, kc_desk_take(desk, m * shape->k),
        shape->k, kc_desk_take(desk, 4 * m)};
    if (!desk->failed) desk->failed = desk->site->ops->quantise_rows(desk->site->context,
                                                                     &quantise) != KC_OP_OK;
    d.op.x_type = KC_DTYPE_E4M3;
    d.op.x = quantise.out;
    d.op.x_scale = quantise.scale;
  }
  d.op.out = kc_desk_take(desk, 2 * m * shape->n);
  if (route == DEQUANTISED) { /* as large as passes have it; a large number of rows asks for it */
    d.scratch_bytes = kc_dense_scratch_bytes(&d.op.weight, UINT32_MAX);
    d.scratch = kc_desk_take(desk, d.scratch_bytes);
  }
  take_workspace(desk, &d);
  row.bytes = (double)weight_bytes + (double)m * (double)(2 * shape->n) +
              (double)m * (double)(shape->k * (fp8_inputs ? 1 : 2));
  kc_desk_measure(desk, &row, run_dense, &d);
}

void kc_bench_gemm(struct kc_desk *desk)
{
  static const uint64_t rows[] = {1, 8, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  const bool tiny = desk->config->tiny;
  const struct matrix *shapes[2] = {tiny ? tiny_layer : layer, square};
  const size_t counts[2] = {tiny ? 1 : 4, tiny ? 0 : 1};
  KC_ASSERT(desk->config->runs > 0);
  for (int set = 1; set >= 0; set--) { /* the square one first: the ceiling of the others */
    for (size_t s = 0; s < counts[set]; s++) {
      for (size_t r = 0; r < (tiny ? 2 : sizeof rows / sizeof rows[0]); r++) {
        measure_dense(desk, KC_BENCH_GEMM, KC_WEIGHT_BF16, rows[r], &shapes[set][s], DIRECT);
        measure_dense(desk, KC_BENCH_GEMM, KC_WEIGHT_FP8, rows[r], &shapes[set][s],
                      rows[r] > 64 ? FP8_INPUTS : DIRECT);
      }
    }
  }
}

void kc_bench_w4a16(struct kc_desk *desk)
{
  static const uint64_t rows[] = {1, 8, 16, 32, 64};
  /* Around KC_DENSE_ROWS, which these show to be right or wrong. */
  static const uint64_t many[] = {64, 128, 192, 256, 320, 512, 1024, 2048};
  static const struct matrix wide[] = {{64, 128}};
  const bool tiny = desk->config->tiny;
  const struct matrix *shapes = tiny ? wide : layer;
  const size_t matrices = tiny ? 1 : 4;
  KC_ASSERT(desk->config->runs > 0);
  for (size_t r = 0; r < (tiny ? 2 : 5); r++) {
    for (size_t s = 0; s < matrices; s++) {
      measure_dense(desk, KC_BENCH_W4A16, KC_WEIGHT_BF16, rows[r], &shapes[s], DIRECT);
      measure_dense(desk, KC_BENCH_W4A16, KC_WEIGHT_INT4_G128, rows[r], &shapes[s], DIRECT);
      measure_dense(desk, KC_BENCH_W4A16, KC_WEIGHT_INT4_G32, rows[r], &shapes[s], DIRECT);
    }
  }
  for (size_t r = 0; r < (tiny ? 1 : 8); r++) {
    for (size_t s = 0; s < matrices; s++) {
      if (many[r] > 64 || tiny) { /* else it is there already */
        measure_dense(desk, KC_BENCH_W4A16, KC_WEIGHT_INT4_G128, many[r], &shapes[s], DIRECT);
      }
      measure_dense(desk, KC_BENCH_W4A16, KC_WEIGHT_INT4_G128, many[r], &shapes[s], DEQUANTISED);
    }
  }
}

/* ---- experts ---- */

struct experts {
  const struct kc_site *site;
  struct kc_op_moe_sort sort;
  struct kc_op_grouped_gemm up, down;
  struct kc_op_swiglu act;
  struct kc_op_moe_combine combine;
};

/* What follows the router: sort, gate and up, activation, down, sum. */
static enum kc_op_status run_experts(void *context)
{
  const struct experts *e = context;
  const struct kc_ops *ops = e->site->ops;
  enum kc_op_status status = ops->moe_sort(e->site->context, &e->sort);
  KC_ASSERT(e->sort.experts > 0);
  if (status == KC_OP_OK) status = ops->grouped_gemm(e->site->context, &e->up);
  if (status == KC_OP_OK) status = ops->swiglu(e->site->context, &e->act);
  if (status == KC_OP_OK) status = ops->grouped_gemm(e->site->context, &e->down);
  if (status == KC_OP_OK) status = ops->moe_combine(e->site->context, &e->combine);
  return status;
}

/* All experts' matrices as one, which is how they lie: rows of every expert one behind another. */
static struct kc_op_grouped_gemm grouped(struct kc_desk *desk, const struct kc_bench_shape *s,
                                         enum kc_weight_format format, uint64_t rows,
                                         uint64_t cols)
{
  struct kc_weight all = kc_desk_weight(desk, format, s->experts * rows, cols);
  struct kc_op_grouped_gemm op = {.experts = (uint32_t)s->experts,
                                  .positions = (uint32_t)(s->tokens * s->topk), .x_stride = cols,
                                  .weight = all, .out_stride = rows};
  uint64_t data = 2 * rows * cols, scale = 0;
  KC_ASSERT(rows % 16 == 0 && cols % 64 == 0); /* whole tiles: experts do not share any */
  op.weight.rows = (uint32_t)rows;
  if (format != KC_WEIGHT_BF16) desk->site->module->fragment_bytes(&op.weight, &data, &scale);
  op.data_stride_bytes = data;
  op.scale_stride_bytes = scale;
  return op;
}

/* Balanced, and distinct in a token: choice i is expert 61 i mod experts. */
static int32_t *choices(struct kc_desk *desk, const struct kc_bench_shape *s)
{
  int32_t expert[8192];
  const uint64_t count = s->tokens * s->topk;
  KC_ASSERT(count <= sizeof expert / sizeof expert[0]);
  for (uint64_t i = 0; i < count; i++) expert[i] = (int32_t)(i * 61 % s->experts);
  return kc_desk_put(desk, expert, count * sizeof expert[0]);
}

static void measure_experts(struct kc_desk *desk, struct kc_bench_shape s,
                            enum kc_weight_format format)
{
  const uint64_t width = s.inter / s.tp, count = s.tokens * s.topk;
  struct kc_bench_row row = {.suite = KC_BENCH_MOE, .operation = "moe", .shape = s,
                             .format = format_name(format),
                             .flops = 6.0 * (double)count * (double)(s.hidden * width)};
  if (!kc_desk_allows(desk)) return;
  const double touched = count < s.experts ? (double)count : (double)s.experts;
  row.bytes = touched * (double)(kc_desk_weight_bytes(format, 2 * width, s.hidden) +
                                 kc_desk_weight_bytes(format, s.hidden, width));
  struct experts e = {.site = desk->site};
  e.up = grouped(desk, &s, format, 2 * width, s.hidden);
  e.down = grouped(desk, &s, format, s.hidden, width);
  uint32_t *first = kc_desk_take(desk, 4 * (s.experts + 1));
  int32_t *source = kc_desk_take(desk, 4 * count), *place = kc_desk_take(desk, 4 * count);
  e.sort = (struct kc_op_moe_sort){(uint32_t)s.tokens, (uint32_t)s.topk, (uint32_t)s.experts, 0,
                                   choices(desk, &s), first, source, place};
  e.up.first = e.down.first = first;
  e.up.source = source;
  e.up.x = kc_desk_random(desk, s.tokens * s.hidden);
  e.up.out = kc_desk_take(desk, 4 * count * width);
  uint16_t *act = kc_desk_take(desk, 2 * count * width);
  e.act = (struct kc_op_swiglu){(uint32_t)count, (uint32_t)width, e.up.out, 2 * width, act, width};
  e.down.x = act;
  e.down.out = kc_desk_take(desk, 2 * count * s.hidden);
  e.combine = (struct kc_op_moe_combine){
      .rows = (uint32_t)s.tokens, .top = (uint32_t)s.topk, .width = (uint32_t)s.hidden,
      .y = e.down.out, .y_stride = s.hidden, .place = place,
      .weight = (const float *)(const void *)kc_desk_random(desk, 2 * count),
      .out = kc_desk_take(desk, 2 * s.tokens * s.hidden), .out_stride = s.hidden};
  kc_desk_measure(desk, &row, run_experts, &e);
}

/* A rank of eight of Kimi K2's layer. */
void kc_bench_moe(struct kc_desk *desk)
{
  static const uint64_t tokens[] = {1, 4, 8, 16, 32, 64, 128, 256};
  const struct kc_bench_shape kimi = {.hidden = 7168, .inter = 2048, .topk = 8, .experts = 384,
                                      .tp = 8};
  const struct kc_bench_shape tiny = {.hidden = 64, .inter = 128, .topk = 2, .experts = 4,
                                      .tp = 2};
  struct kc_bench_shape shape = desk->config->tiny ? tiny : kimi;
  KC_ASSERT(shape.inter % shape.tp == 0);
  for (size_t t = 0; t < (desk->config->tiny ? 2 : 8); t++) {
    shape.tokens = tokens[t];
    measure_experts(desk, shape, KC_WEIGHT_INT4_G32);
    measure_experts(desk, shape, KC_WEIGHT_BF16);
  }
}
