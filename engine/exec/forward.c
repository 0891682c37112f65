/* The layers, as a list of operations over the scratch of one forward (forward_scratch.c).
 *
 *   residual   the running sum, bf16; added to inside the norm that reads it next
 *   x          a norm's output, the input of products
 *   delta      what attention or the MLP adds to the residual
 *
 * GQA   x -> q [heads | kv heads | kv heads] -> rope -> pages -> attention -> delta
 * MLA   x -> q, kv -> rope -> pages (latent + rope); q absorbs uk: full -> attention over latents
 *       -> latent -> uv -> attention -> delta
 * MLP   x -> gate_up -> act -> delta;  experts: x -> router -> sorted rows -> ... -> delta
 */
#include "engine/exec/forward.h"

#include "engine/exec/dense_product.h"
#include "engine/exec/forward_scratch.h"

#include "engine/base/check.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_plan.h"

#define TRY_OP(expression)                                 \
  do {                                                     \
    const enum kc_op_status try_status = (expression);     \
    if (try_status != KC_OP_OK) return try_status;         \
  } while (0)

/* ---- pieces of layers ---- */

/* Rows from which on a product costs its arithmetic, not its weights; FP8 weights then take FP8
 * inputs. */
enum { FP8_ROWS = 65 };

/* INT4 weights of many rows go by way of BF16, where there is scratch for it: on a device. */
static enum kc_op_status multiply(struct kc_forward *f, const struct kc_op_gemm *op)
{
  KC_ASSERT(op->rows > 0);
  if (f->dense == NULL || !kc_dense_wanted(&op->weight, op->rows)) {
    return f->site.ops->gemm(f->site.context, op);
  }
  return kc_dense_product(f->site.ops, f->site.context, op, f->dense, f->dense_bytes);
}

static enum kc_op_status product(struct kc_forward *f, const uint16_t *x, uint64_t x_stride,
                                 const struct kc_weight *weight, uint16_t *out)
{
  struct kc_op_gemm op = {.rows = f->rows, .x_type = KC_DTYPE_BF16, .x = x,
                          .x_stride = x_stride, .weight = *weight,
                          .out_type = KC_DTYPE_BF16, .out = out,
                          .out_stride = weight->rows, .workspace = f->workspace,
                          .workspace_bytes = f->workspace_bytes};
  KC_ASSERT(weight->rows > 0);
  if (f->x8 != NULL && weight->format == KC_WEIGHT_FP8 && f->rows >= FP8_ROWS) {
    const struct kc_op_quantise_rows quantise = {.rows = f->rows, .width = weight->cols, .x = x,
                                                 .x_stride = x_stride, .out = f->x8,
                                                 .out_stride = weight->cols,
                                                 .scale = f->x8_scale};
    TRY_OP(f->site.ops->quantise_rows(f->site.context, &quantise));
    op.x_type = KC_DTYPE_E4M3;
    op.x = f->x8;
    op.x_stride = weight->cols;
    op.x_scale = f->x8_scale;
  }
  return multiply(f, &op);
}

/* Where the ranks of a group would add up their parts of [rows][hidden]. */
static enum kc_op_status all_reduce(struct kc_forward *f)
{
  const struct kc_collective *c = &f->collective;
  if (c->nanoseconds == NULL) return KC_OP_OK;
  const uint64_t bytes = 2ull * f->rows * f->weights->recipe.hidden;
  const uint64_t wait = c->nanoseconds(c->context, bytes);
  KC_ASSERT(bytes > 0);
  if (!kc_site_is_host(&f->site)) return f->site.module->delay(f->site.context, wait);
  f->collective_ns += wait;
  return KC_OP_OK;
}

/* Norm of x, or of x + residual (stored back) where there is one. */
static enum kc_op_status norm(struct kc_forward *f, const uint16_t *x, uint16_t *residual,
                              const uint16_t *weight, uint32_t width, uint64_t stride,
                              uint16_t *out)
{
  const struct kc_op_rms_norm op = {.rows = f->rows, .width = width, .x = x, .x_stride = stride,
                                    .residual = residual, .residual_stride = stride,
                                    .weight = weight,
                                    .epsilon = (float)f->weights->recipe.norm_epsilon,
                                    .out = out, .out_stride = stride};
  KC_ASSERT(width > 0);
  return f->site.ops->rms_norm(f->site.context, &op);
}

static enum kc_op_status rope(struct kc_forward *f, uint16_t *x, uint64_t stride, uint32_t heads,
                              uint32_t head_dim, uint32_t offset)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_op_rope op = {.rows = f->rows, .heads = heads, .head_dim = head_dim,
                                .offset = offset, .dims = r->mla ? r->rope : r->head_dim,
                                .pairs = r->mla ? KC_ROPE_INTERLEAVED : KC_ROPE_HALF,
                                .position = f->in.position, .positions = f->weights->positions,
                                .high = f->weights->rope_high, .low = f->weights->rope_low,
                                .x = x, .x_stride = stride};
  KC_ASSERT(offset + op.dims <= head_dim);
  return f->site.ops->rope(f->site.context, &op);
}

/* The rows in front, one a sequence, by the split-KV kernel. */
static enum kc_op_status decode(struct kc_forward *f, const struct kc_kv_layer *kv,
                                const uint16_t *q, uint64_t q_stride, uint16_t *out)
{
  const struct kc_op_decode op = {
      .rows = f->singles, .q_heads = f->weights->recipe.heads, .q = q, .q_stride = q_stride,
      .slot = f->in.slot, .context = f->in.context, .scale = f->weights->attention_scale,
      .table = f->table, .layer = *kv,
      .verdict = f->tags.tag == NULL ? NULL : f->tags.verdict,
      .plan = {.split = f->in.split, .split_count = f->splits, .row_first = f->in.row_first,
               .partial_count = f->partials},
      .partial_out = f->partial_out, .partial_lse = f->partial_lse, .out = out,
      .out_stride = (uint64_t)f->weights->recipe.heads * kc_kv_value_dim(kv)};
  KC_ASSERT(f->singles > 0 && f->splits > 0);
  return f->site.ops->decode(f->site.context, &op);
}

/* Writes K and V of all rows, then lets all rows attend. */
static enum kc_op_status attend(struct kc_forward *f, uint32_t layer, const uint16_t *q,
                                uint64_t q_stride, const uint16_t *k, const uint16_t *v,
                                uint64_t kv_stride, uint16_t *out)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_kv_layer *kv = &f->cache->layer[layer];
  const struct kc_op_kv_write write = {.rows = f->rows, .k = k, .k_stride = kv_stride, .v = v,
                                       .v_stride = kv_stride, .slot = f->in.slot,
                                       .position = f->in.position, .table = f->table,
                                       .layer = *kv, .integrity = f->tags};
  const struct kc_op_prefill attention = {
      .chunks = f->pieces - f->singles, .q_heads = r->heads, .chunk = f->in.chunk + f->singles,
      .chunk_host = f->host.chunk + f->singles, .q = q, .q_stride = q_stride,
      .scale = f->weights->attention_scale, .table = f->table, .layer = *kv,
      .verdict = f->tags.tag == NULL ? NULL : f->tags.verdict, .out = out,
      .out_stride = (uint64_t)r->heads * kc_kv_value_dim(kv)};
  KC_ASSERT(layer < f->cache->layers && f->singles <= f->pieces);
  TRY_OP(f->site.ops->kv_write(f->site.context, &write));
  if (f->singles > 0) TRY_OP(decode(f, kv, q, q_stride, out));
  return attention.chunks == 0 ? KC_OP_OK : f->site.ops->prefill(f->site.context, &attention);
}

/* Qwen3's norms on each head of q and k. */
static enum kc_op_status head_norms(struct kc_forward *f, const struct kc_layer_weights *w,
                                    uint64_t stride)
{
  const struct kc_recipe *r = &f->weights->recipe;
  struct kc_op_rms_norm op = {.rows = f->rows, .width = r->head_dim, .heads = r->heads,
                              .head_stride = r->head_dim, .x = f->q, .x_stride = stride,
                              .weight = w->q_norm, .epsilon = (float)r->norm_epsilon,
                              .out = f->q, .out_stride = stride};
  KC_ASSERT(r->head_dim > 0);
  TRY_OP(f->site.ops->rms_norm(f->site.context, &op));
  op.heads = r->kv_heads;
  op.x = op.out = f->q + (uint64_t)r->heads * r->head_dim;
  op.weight = w->k_norm;
  return f->site.ops->rms_norm(f->site.context, &op);
}

static enum kc_op_status gqa(struct kc_forward *f, uint32_t layer)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_layer_weights *w = &f->weights->layer[layer];
  const uint64_t stride = (uint64_t)(r->heads + 2 * r->kv_heads) * r->head_dim;
  const uint16_t *k = f->q + (uint64_t)r->heads * r->head_dim;
  const uint16_t *v = k + (uint64_t)r->kv_heads * r->head_dim;
  KC_ASSERT(w->qkv.rows == stride);
  TRY_OP(product(f, f->x, r->hidden, &w->qkv, f->q));
  if (w->q_norm != NULL) TRY_OP(head_norms(f, w, stride));
  TRY_OP(rope(f, f->q, stride, r->heads + r->kv_heads, r->head_dim, 0));
  TRY_OP(attend(f, layer, f->q, stride, k, v, stride, f->attention));
  return product(f, f->attention, (uint64_t)r->heads * r->head_dim, &w->o, f->delta);
}

static enum kc_op_status mla_queries(struct kc_forward *f, const struct kc_layer_weights *w)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const uint64_t head = r->nope + r->rope, wide = r->latent + r->rope;
  KC_ASSERT(r->mla);
  if (r->q_rank > 0) {
    TRY_OP(product(f, f->x, r->hidden, &w->q_a, f->act));
    TRY_OP(norm(f, f->act, NULL, w->q_a_norm, r->q_rank, r->q_rank, f->act));
    TRY_OP(product(f, f->act, r->q_rank, &w->q_b, f->q));
  } else {
    TRY_OP(product(f, f->x, r->hidden, &w->q_b, f->q));
  }
  TRY_OP(rope(f, f->q, r->heads * head, r->heads, (uint32_t)head, r->nope));
  const struct kc_op_head_gemm absorb = {
      .rows = f->rows, .heads = r->heads, .n = r->latent, .k = r->nope, .x = f->q,
      .x_stride = r->heads * head, .x_head_stride = head, .weight = w->uk, .out = f->full,
      .out_stride = r->heads * wide, .out_head_stride = wide};
  TRY_OP(f->site.ops->head_gemm(f->site.context, &absorb));
  const uint32_t count = f->rows * r->heads; /* the rotated part, as it is */
  const struct kc_op_gather rotated = {count, r->rope, f->q + r->nope, count, head,
                                       f->heads_in_order, f->full + r->latent, wide};
  return f->site.ops->gather(f->site.context, &rotated);
}

static enum kc_op_status mla(struct kc_forward *f, uint32_t layer)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_layer_weights *w = &f->weights->layer[layer];
  const uint32_t wide = r->latent + r->rope;
  KC_ASSERT(w->kv_a.rows == wide);
  TRY_OP(mla_queries(f, w));
  TRY_OP(product(f, f->x, r->hidden, &w->kv_a, f->kv));
  TRY_OP(norm(f, f->kv, NULL, w->kv_a_norm, r->latent, wide, f->kv));
  TRY_OP(rope(f, f->kv, wide, 1, wide, r->latent));
  TRY_OP(attend(f, layer, f->full, (uint64_t)r->heads * wide, f->kv, NULL, wide,
                f->latent));
  const struct kc_op_head_gemm expand = {
      .rows = f->rows, .heads = r->heads, .n = r->value, .k = r->latent, .x = f->latent,
      .x_stride = (uint64_t)r->heads * r->latent, .x_head_stride = r->latent, .weight = w->uv,
      .out = f->attention, .out_stride = (uint64_t)r->heads * r->value,
      .out_head_stride = r->value};
  TRY_OP(f->site.ops->head_gemm(f->site.context, &expand));
  return product(f, f->attention, (uint64_t)r->heads * r->value, &w->o, f->delta);
}

static enum kc_op_status swiglu(struct kc_forward *f, uint64_t rows, uint32_t width,
                                const uint16_t *x, uint16_t *out)
{
  const struct kc_op_swiglu op = {.rows = (uint32_t)rows, .width = width, .x = x,
                                  .x_stride = 2ull * width, .out = out, .out_stride = width};
  KC_ASSERT(width > 0);
  return f->site.ops->swiglu(f->site.context, &op);
}

static enum kc_op_status dense_mlp(struct kc_forward *f, const struct kc_layer_weights *w,
                                   uint16_t *out)
{
  const uint32_t width = w->down.cols;
  KC_ASSERT(w->gate_up.rows == 2 * width);
  TRY_OP(product(f, f->x, f->weights->recipe.hidden, &w->gate_up, f->gate_up));
  TRY_OP(swiglu(f, f->rows, width, f->gate_up, f->act));
  return product(f, f->act, width, &w->down, out);
}

/* Who goes where: expert, route_weight, first, source and place. */
static enum kc_op_status choose_experts(struct kc_forward *f, const struct kc_layer_weights *w)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const uint64_t stride = (r->experts + 7ull) / 8 * 8;
  const struct kc_op_gemm router = {.rows = f->rows, .x_type = KC_DTYPE_BF16, .x = f->x,
                                    .x_stride = r->hidden, .weight = w->router,
                                    .out_type = KC_DTYPE_F32, .out = f->router_logits,
                                    .out_stride = stride, .workspace = f->workspace,
                                    .workspace_bytes = f->workspace_bytes};
  const struct kc_op_route route = {
      .rows = f->rows, .experts = r->experts, .top = r->top, .groups = r->groups,
      .groups_top = r->groups_top, .score = r->sigmoid ? KC_ROUTE_SIGMOID : KC_ROUTE_SOFTMAX,
      .normalise = r->normalise, .factor = (float)r->routed_factor, .logits = f->router_logits,
      .logits_stride = stride, .bias = w->router_bias, .expert = f->expert,
      .weight = f->route_weight};
  const struct kc_op_moe_sort sort = {.rows = f->rows, .top = r->top, .experts = r->experts,
                                      .expert = f->expert, .first = f->first,
                                      .source = f->source, .place = f->place_of};
  KC_ASSERT(r->experts > 0);
  TRY_OP(f->site.ops->gemm(f->site.context, &router));
  TRY_OP(f->site.ops->route(f->site.context, &route));
  return f->site.ops->moe_sort(f->site.context, &sort);
}

static enum kc_op_status moe(struct kc_forward *f, const struct kc_layer_weights *w)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const uint32_t choices = f->rows * r->top;
  struct kc_op_grouped_gemm grouped = {
      .experts = r->experts, .positions = choices, .first = f->first, .source = f->source,
      .x = f->x, .x_stride = r->hidden, .weight = w->expert_gate_up,
      .data_stride_bytes = w->gate_up_data_bytes, .scale_stride_bytes = w->gate_up_scale_bytes,
      .out = f->expert_gate_up, .out_stride = 2ull * r->expert_width};
  KC_ASSERT(w->router.rows == r->experts);
  TRY_OP(choose_experts(f, w));
  TRY_OP(f->site.ops->grouped_gemm(f->site.context, &grouped));
  TRY_OP(swiglu(f, choices, r->expert_width, f->expert_gate_up, f->expert_act));
  grouped.source = NULL;
  grouped.x = f->expert_act;
  grouped.x_stride = r->expert_width;
  grouped.weight = w->expert_down;
  grouped.data_stride_bytes = w->down_data_bytes;
  grouped.scale_stride_bytes = w->down_scale_bytes;
  grouped.out = f->expert_out;
  grouped.out_stride = r->hidden;
  TRY_OP(f->site.ops->grouped_gemm(f->site.context, &grouped));
  if (w->gate_up.rows > 0) TRY_OP(dense_mlp(f, w, f->shared));
  const struct kc_op_moe_combine combine = {
      .rows = f->rows, .top = r->top, .width = r->hidden, .y = f->expert_out,
      .y_stride = r->hidden, .place = f->place_of, .weight = f->route_weight,
      .base = w->gate_up.rows > 0 ? f->shared : NULL, .base_stride = r->hidden, .out = f->delta,
      .out_stride = r->hidden};
  return f->site.ops->moe_combine(f->site.context, &combine);
}

/* ---- the pass ---- */

static enum kc_op_status embed(struct kc_forward *f)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_op_gather op = {.rows = f->rows, .width = r->hidden,
                                  .source = f->weights->embedding, .source_rows = r->vocabulary,
                                  .source_stride = r->hidden, .index = f->in.token,
                                  .out = f->residual, .out_stride = r->hidden};
  KC_ASSERT(f->rows > 0);
  return f->site.ops->gather(f->site.context, &op);
}

static enum kc_op_status run_layer(struct kc_forward *f, uint32_t layer)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_layer_weights *w = &f->weights->layer[layer];
  const bool first = layer == 0; /* the residual is the embedding, nothing to add yet */
  KC_ASSERT(layer < r->layers);
  TRY_OP(norm(f, first ? f->residual : f->delta, first ? NULL : f->residual, w->input_norm,
              r->hidden, r->hidden, f->x));
  TRY_OP(r->mla ? mla(f, layer) : gqa(f, layer));
  TRY_OP(all_reduce(f));
  TRY_OP(norm(f, f->delta, f->residual, w->post_norm, r->hidden, r->hidden, f->x));
  TRY_OP(kc_recipe_moe(r, layer) ? moe(f, w) : dense_mlp(f, w, f->delta));
  return all_reduce(f);
}

/* Logits and tokens of the rows that yield. */
static enum kc_op_status yield_tokens(struct kc_forward *f)
{
  const struct kc_recipe *r = &f->weights->recipe;
  KC_ASSERT(f->yields <= f->yields_max);
  if (f->yields == 0) return KC_OP_OK;
  const struct kc_op_gather gather = {f->yields, r->hidden, f->x, f->rows, r->hidden, f->in.last,
                                      f->last_x, r->hidden};
  const struct kc_op_gemm head = {.rows = f->yields, .x_type = KC_DTYPE_BF16, .x = f->last_x,
                                  .x_stride = r->hidden, .weight = f->weights->head,
                                  .out_type = KC_DTYPE_F32, .out = f->logits,
                                  .out_stride = f->logits_stride, .workspace = f->workspace,
                                  .workspace_bytes = f->workspace_bytes};
  const struct kc_op_sample sample = {.rows = f->yields, .vocabulary = r->vocabulary,
                                      .logits = f->logits, .logits_stride = f->logits_stride,
                                      .slot = f->in.last_slot,
                                      .verdict = f->tags.tag == NULL ? NULL : f->tags.verdict,
                                      .temperature = f->in.last_temperature,
                                      .seed = f->in.last_seed, .position = f->in.last_position,
                                      .token = f->token};
  TRY_OP(f->site.ops->gather(f->site.context, &gather));
  TRY_OP(multiply(f, &head));
  return f->site.ops->sample(f->site.context, &sample);
}

/* Everything that reads only what was sent: what a graph holds. */
static enum kc_op_status run_model(void *context)
{
  struct kc_forward *f = context;
  const struct kc_recipe *r = &f->weights->recipe;
  TRY_OP(embed(f));
  for (uint32_t layer = 0; layer < r->layers; layer++) {
    if (f->stop != NULL && f->stop(NULL)) return KC_OP_STOPPED;
    TRY_OP(run_layer(f, layer));
  }
  TRY_OP(norm(f, f->delta, f->residual, f->weights->final_norm, r->hidden, r->hidden, f->x));
  return yield_tokens(f);
}

/* ---- what the host says ---- */

/* Pieces in front that the decode kernel takes: none on the host, whose prefill does the same. */
static uint32_t count_singles(const struct kc_forward *f, const struct kc_piece *piece,
                              uint32_t pieces)
{
  uint32_t count = 0;
  if (f->blocks == 0) return 0;
  while (count < pieces && count < f->yields_max && piece[count].count == 1) count++;
  return count;
}

/* The graph that this pass may run as: all its pieces are decodes. KC_GRAPHS_MAX: none. */
static uint32_t graph_for(const struct kc_forward *f, uint32_t pieces)
{
  const bool decodes = f->blocks > 0 && f->singles == pieces && f->yields == pieces;
  if (f->eager || !decodes) return KC_GRAPHS_MAX;
  const uint32_t index = kc_graphs_find(pieces);
  KC_ASSERT(pieces > 0);
  if (index == KC_GRAPHS_MAX) return index;
  const uint32_t rows = kc_graphs_rows(index);
  return rows <= f->rows_max && rows <= f->yields_max ? index : KC_GRAPHS_MAX;
}

/* The rows of a piece that yield, from `at` on; `row` is its first. Returns the next `at`. */
static uint32_t fill_yields(struct kc_forward *f, const struct kc_piece *piece, uint32_t row,
                            uint32_t at)
{
  KC_ASSERT(piece->yields);
  for (uint32_t i = piece->every ? 0 : piece->count - 1; i < piece->count; i++, at++) {
    f->host.last[at] = (int32_t)(row + i);
    f->host.last_slot[at] = piece->slot;
    f->host.last_position[at] = (int32_t)(piece->start + i);
    f->host.last_temperature[at] = piece->temperature;
    f->host.last_seed[at] = piece->seed;
  }
  KC_ASSERT(at <= f->yields);
  return at;
}

static void fill_rows(struct kc_forward *f, const struct kc_piece *piece, uint32_t pieces,
                      const int32_t *token)
{
  uint32_t row = 0, yields = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    f->host.chunk[p] = (struct kc_attention_chunk){piece[p].slot, row, piece[p].start,
                                                   piece[p].count};
    for (uint32_t i = 0; i < piece[p].count; i++, row++) {
      f->host.slot[row] = piece[p].slot;
      f->host.position[row] = (int32_t)(piece[p].start + i);
      f->host.token[row] = token[row];
    }
    if (p < f->singles) f->host.context[p] = piece[p].start + 1;
    if (piece[p].yields) yields = fill_yields(f, &piece[p], row - piece[p].count, yields);
  }
  KC_ASSERT(row <= f->rows_max && yields == f->yields);
}

/* Rows that only fill a graph's size. */
static void pad_rows(struct kc_forward *f, uint32_t from, uint32_t to)
{
  KC_ASSERT(from <= to);
  for (uint32_t row = from; row < to; row++) {
    f->host.slot[row] = f->host.last_slot[row] = KC_NO_SLOT;
    f->host.position[row] = f->host.token[row] = f->host.last[row] = -1;
    f->host.last_position[row] = 0;
    f->host.last_temperature[row] = 0;
    f->host.last_seed[row] = 0;
    f->host.context[row] = 0;
    f->host.chunk[row] = (struct kc_attention_chunk){.slot = KC_NO_SLOT};
  }
  f->rows = f->pieces = f->yields = f->singles = to;
}

/* The plan of the decodes in front; padded, so that a graph may keep its sizes. */
static void plan_decodes(struct kc_forward *f)
{
  struct kc_plan_build plan = {.split = f->host.split, .row_first = f->host.row_first,
                               .split_capacity = kc_plan_capacity(f->singles, f->pieces_most)};
  const uint32_t granule = 64; /* whole tiles of every kernel */
  KC_ASSERT(f->singles > 0);
  const bool made = kc_plan_balance(&plan, f->host.context, f->singles, granule, f->blocks);
  KC_ASSERT(made);
  kc_plan_pad(&plan, plan.split_capacity);
  f->splits = f->partials = plan.split_capacity;
}

/* Fills in and sends the inputs; returns the graph to run by. */
static uint32_t lay_out_pass(struct kc_forward *f, const struct kc_piece *piece, uint32_t pieces,
                             const int32_t *token, enum kc_op_status *status)
{
  uint32_t rows = 0;
  f->yields = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    KC_ASSERT(piece[p].count > 0 && piece[p].count <= f->rows_max - rows);
    rows += piece[p].count;
    f->yields += !piece[p].yields ? 0 : piece[p].every ? piece[p].count : 1;
  }
  f->rows = rows;
  f->pieces = pieces;
  f->singles = count_singles(f, piece, pieces);
  const uint32_t graph = graph_for(f, pieces);
  const uint32_t padded = graph < KC_GRAPHS_MAX ? kc_graphs_rows(graph) : 0;
  const struct kc_inputs_size size =
      padded > 0 ? (struct kc_inputs_size){padded, padded, padded, padded, padded + f->pieces_most}
                 : (struct kc_inputs_size){rows, pieces, f->yields, f->singles,
                                           f->singles > 0 ? f->singles + f->pieces_most : 0};
  const uint64_t bytes = kc_inputs_lay_out(&f->host, f->host_base, &size);
  (void)kc_inputs_lay_out(&f->in, f->base, &size);
  fill_rows(f, piece, pieces, token);
  if (padded > 0) pad_rows(f, pieces, padded);
  if (f->singles > 0) plan_decodes(f);
  *status = kc_site_send(&f->site, f->base, f->host_base, bytes);
  return graph;
}

enum kc_op_status kc_forward_begin(struct kc_forward *forward, const struct kc_piece *piece,
                                   uint32_t pieces, const int32_t *token)
{
  struct kc_forward *f = forward;
  enum kc_op_status status = KC_OP_OK;
  KC_ASSERT(pieces > 0);
  const uint32_t graph = lay_out_pass(f, piece, pieces, token, &status);
  if (status != KC_OP_OK) return status;
  TRY_OP(graph < KC_GRAPHS_MAX ? kc_graphs_run(&f->graphs, &f->site, graph, run_model, f)
                               : run_model(f));
  if (f->yields == 0) return KC_OP_OK;
  return kc_site_fetch(&f->site, f->token_host, f->token, f->yields * sizeof *f->token);
}

enum kc_op_status kc_forward_end(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces)
{
  uint32_t count = 0;
  KC_ASSERT(pieces > 0);
  TRY_OP(kc_site_wait(&forward->site));
  for (uint32_t p = 0; p < pieces; p++) {
    if (!piece[p].yields) continue;
    count += piece[p].every ? piece[p].count : 1;
    piece[p].token = forward->token_host[count - 1];
  }
  KC_ASSERT(count <= forward->yields);
  return KC_OP_OK;
}

enum kc_op_status kc_forward_run(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces, const int32_t *token)
{
  TRY_OP(kc_forward_begin(forward, piece, pieces, token));
  return kc_forward_end(forward, piece, pieces);
}
