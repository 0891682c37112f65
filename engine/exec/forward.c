/* The layers, as a list of operations over the scratch of one thread.
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

#include <string.h>

#include "engine/base/check.h"
#include "kernels/ops/op_check.h"

#define TRY_OP(expression)                                 \
  do {                                                     \
    const enum kc_op_status try_status = (expression);     \
    if (try_status != KC_OP_OK) return try_status;         \
  } while (0)

/* ---- scratch ---- */

/* Takes from an arena, or counts when there is none. */
struct taker {
  struct kc_arena *arena;
  size_t bytes;
  bool failed;
};

static void *take(struct taker *t, uint64_t count, size_t size)
{
  KC_ASSERT(size > 0);
  if (count == 0) return NULL;
  if (t->arena == NULL) {
    const size_t need = kc_arena_need(count, size);
    if (__builtin_add_overflow(t->bytes, need, &t->bytes)) t->bytes = SIZE_MAX;
    return NULL;
  }
  void *memory = kc_arena_take(t->arena, count, size);
  t->failed = t->failed || memory == NULL;
  return memory;
}

static void take_attention(struct kc_forward *f, struct taker *t, const struct kc_recipe *r,
                           uint64_t rows)
{
  const uint64_t heads = r->heads;
  KC_ASSERT(heads > 0);
  if (r->mla) {
    f->q = take(t, rows * heads * (r->nope + r->rope), 2);
    f->kv = take(t, rows * (r->latent + r->rope), 2);
    f->full = take(t, rows * heads * (r->latent + r->rope), 2);
    f->latent = take(t, rows * heads * r->latent, 2);
    f->attention = take(t, rows * heads * r->value, 2);
  } else {
    f->q = take(t, rows * (heads + 2ull * r->kv_heads) * r->head_dim, 2);
    f->attention = take(t, rows * heads * r->head_dim, 2);
  }
}

static void take_mlp(struct kc_forward *f, struct taker *t, const struct kc_recipe *r,
                     uint64_t rows)
{
  const uint64_t width = r->dense_width > r->shared_width ? r->dense_width : r->shared_width;
  const uint64_t choices = rows * r->top;
  KC_ASSERT(rows > 0);
  f->gate_up = take(t, rows * 2 * width, 2);
  f->act = take(t, rows * (width > r->q_rank ? width : r->q_rank), 2);
  if (r->experts == 0) return;
  f->router_logits = take(t, rows * ((r->experts + 7ull) / 8 * 8), 4);
  f->route_weight = take(t, choices, 4);
  f->expert = take(t, choices, 4);
  f->source = take(t, choices, 4);
  f->place = take(t, choices, 4);
  f->first = take(t, r->experts + 1, 4);
  f->expert_gate_up = take(t, choices * 2 * r->expert_width, 2);
  f->expert_act = take(t, choices * r->expert_width, 2);
  f->expert_out = take(t, choices * r->hidden, 2);
  f->shared = r->shared_width > 0 ? take(t, rows * r->hidden, 2) : NULL;
}

static void take_scratch(struct kc_forward *f, struct taker *t, const struct kc_recipe *r,
                         uint32_t rows)
{
  KC_ASSERT(rows > 0);
  f->logits_stride = (r->vocabulary + 7ull) / 8 * 8;
  f->chunk = take(t, rows, sizeof *f->chunk);
  f->slot = take(t, rows, sizeof *f->slot);
  f->position = take(t, rows, sizeof *f->position);
  f->residual = take(t, (uint64_t)rows * r->hidden, 2);
  f->x = take(t, (uint64_t)rows * r->hidden, 2);
  f->delta = take(t, (uint64_t)rows * r->hidden, 2);
  take_attention(f, t, r, rows);
  take_mlp(f, t, r, rows);
  f->last = take(t, rows, sizeof *f->last);
  f->last_slot = take(t, rows, sizeof *f->last_slot);
  f->last_position = take(t, rows, sizeof *f->last_position);
  f->last_temperature = take(t, rows, sizeof *f->last_temperature);
  f->last_seed = take(t, rows, sizeof *f->last_seed);
  f->last_x = take(t, (uint64_t)rows * r->hidden, 2);
  f->logits = take(t, rows * f->logits_stride, 4);
  f->token = take(t, rows, sizeof *f->token);
}

size_t kc_forward_need(const struct kc_recipe *recipe, uint32_t rows_max)
{
  struct kc_forward forward = {0};
  struct taker taker = {0};
  KC_ASSERT(rows_max > 0);
  take_scratch(&forward, &taker, recipe, rows_max);
  return taker.bytes;
}

enum kc_err kc_forward_init(struct kc_forward *forward, const struct kc_ops *ops,
                            void *ops_context, const struct kc_weights *weights,
                            const struct kc_cache *cache, const struct kc_page_table *table,
                            uint32_t rows_max, struct kc_arena *arena)
{
  struct taker taker = {.arena = arena};
  KC_ASSERT(cache->layers == weights->recipe.layers);
  *forward = (struct kc_forward){.ops = ops,
                                 .ops_context = ops_context,
                                 .weights = weights,
                                 .cache = cache,
                                 .table = *table,
                                 .rows_max = rows_max};
  take_scratch(forward, &taker, &weights->recipe, rows_max);
  return taker.failed ? KC_ERR_MEMORY : KC_OK;
}

/* ---- pieces of layers ---- */

static enum kc_op_status product(struct kc_forward *f, const uint16_t *x, uint64_t x_stride,
                                 const struct kc_weight *weight, uint16_t *out)
{
  const struct kc_op_gemm op = {.rows = f->rows, .x_type = KC_DTYPE_BF16, .x = x,
                                .x_stride = x_stride, .weight = *weight,
                                .out_type = KC_DTYPE_BF16, .out = out,
                                .out_stride = weight->rows};
  KC_ASSERT(weight->rows > 0);
  return f->ops->gemm(f->ops_context, &op);
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
  return f->ops->rms_norm(f->ops_context, &op);
}

static enum kc_op_status rope(struct kc_forward *f, uint16_t *x, uint64_t stride, uint32_t heads,
                              uint32_t head_dim, uint32_t offset)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_op_rope op = {.rows = f->rows, .heads = heads, .head_dim = head_dim,
                                .offset = offset, .dims = r->mla ? r->rope : r->head_dim,
                                .pairs = r->mla ? KC_ROPE_INTERLEAVED : KC_ROPE_HALF,
                                .position = f->position, .positions = f->weights->positions,
                                .high = f->weights->rope_high, .low = f->weights->rope_low,
                                .x = x, .x_stride = stride};
  KC_ASSERT(offset + op.dims <= head_dim);
  return f->ops->rope(f->ops_context, &op);
}

/* Writes K and V of all rows, then lets all rows attend. */
static enum kc_op_status attend(struct kc_forward *f, uint32_t layer, uint32_t pieces,
                                const uint16_t *q, uint64_t q_stride, const uint16_t *k,
                                const uint16_t *v, uint64_t kv_stride, uint16_t *out)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_kv_layer *kv = &f->cache->layer[layer];
  const struct kc_op_kv_write write = {.rows = f->rows, .k = k, .k_stride = kv_stride, .v = v,
                                       .v_stride = kv_stride, .slot = f->slot,
                                       .position = f->position, .table = f->table, .layer = *kv,
                                       .integrity = f->tags};
  const struct kc_op_prefill attention = {
      .chunks = pieces, .q_heads = r->heads, .chunk = f->chunk, .chunk_host = f->chunk, .q = q,
      .q_stride = q_stride, .scale = f->weights->attention_scale, .table = f->table,
      .layer = *kv, .verdict = f->tags.tag == NULL ? NULL : f->tags.verdict, .out = out,
      .out_stride = (uint64_t)r->heads * kc_kv_value_dim(kv)};
  KC_ASSERT(layer < f->cache->layers);
  TRY_OP(f->ops->kv_write(f->ops_context, &write));
  return f->ops->prefill(f->ops_context, &attention);
}

/* Qwen3's norms on each head of q and k, token by token: heads of one token lie evenly, heads of
 * all tokens do not. */
static enum kc_op_status head_norms(struct kc_forward *f, const struct kc_layer_weights *w,
                                    uint64_t stride)
{
  const struct kc_recipe *r = &f->weights->recipe;
  KC_ASSERT(r->head_dim > 0);
  for (uint32_t row = 0; row < f->rows; row++) {
    struct kc_op_rms_norm op = {.rows = r->heads, .width = r->head_dim, .x = f->q + row * stride,
                                .x_stride = r->head_dim, .weight = w->q_norm,
                                .epsilon = (float)r->norm_epsilon, .out = f->q + row * stride,
                                .out_stride = r->head_dim};
    TRY_OP(f->ops->rms_norm(f->ops_context, &op));
    op.rows = r->kv_heads;
    op.x = op.out = f->q + row * stride + (uint64_t)r->heads * r->head_dim;
    op.weight = w->k_norm;
    TRY_OP(f->ops->rms_norm(f->ops_context, &op));
  }
  return KC_OP_OK;
}

static enum kc_op_status gqa(struct kc_forward *f, uint32_t layer, uint32_t pieces)
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
  TRY_OP(attend(f, layer, pieces, f->q, stride, k, v, stride, f->attention));
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
  TRY_OP(f->ops->head_gemm(f->ops_context, &absorb));
  for (uint64_t i = 0; i < (uint64_t)f->rows * r->heads; i++) {
    memcpy(f->full + i * wide + r->latent, f->q + i * head + r->nope, 2ull * r->rope);
  }
  return KC_OP_OK;
}

static enum kc_op_status mla(struct kc_forward *f, uint32_t layer, uint32_t pieces)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_layer_weights *w = &f->weights->layer[layer];
  const uint32_t wide = r->latent + r->rope;
  KC_ASSERT(w->kv_a.rows == wide);
  TRY_OP(mla_queries(f, w));
  TRY_OP(product(f, f->x, r->hidden, &w->kv_a, f->kv));
  TRY_OP(norm(f, f->kv, NULL, w->kv_a_norm, r->latent, wide, f->kv));
  TRY_OP(rope(f, f->kv, wide, 1, wide, r->latent));
  TRY_OP(attend(f, layer, pieces, f->full, (uint64_t)r->heads * wide, f->kv, NULL, wide,
                f->latent));
  const struct kc_op_head_gemm expand = {
      .rows = f->rows, .heads = r->heads, .n = r->value, .k = r->latent, .x = f->latent,
      .x_stride = (uint64_t)r->heads * r->latent, .x_head_stride = r->latent, .weight = w->uv,
      .out = f->attention, .out_stride = (uint64_t)r->heads * r->value,
      .out_head_stride = r->value};
  TRY_OP(f->ops->head_gemm(f->ops_context, &expand));
  return product(f, f->attention, (uint64_t)r->heads * r->value, &w->o, f->delta);
}

static enum kc_op_status swiglu(struct kc_forward *f, uint64_t rows, uint32_t width,
                                const uint16_t *x, uint16_t *out)
{
  const struct kc_op_swiglu op = {.rows = (uint32_t)rows, .width = width, .x = x,
                                  .x_stride = 2ull * width, .out = out, .out_stride = width};
  KC_ASSERT(width > 0);
  return f->ops->swiglu(f->ops_context, &op);
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
                                    .out_stride = stride};
  const struct kc_op_route route = {
      .rows = f->rows, .experts = r->experts, .top = r->top, .groups = r->groups,
      .groups_top = r->groups_top, .score = r->sigmoid ? KC_ROUTE_SIGMOID : KC_ROUTE_SOFTMAX,
      .normalise = r->normalise, .factor = (float)r->routed_factor, .logits = f->router_logits,
      .logits_stride = stride, .bias = w->router_bias, .expert = f->expert,
      .weight = f->route_weight};
  const struct kc_op_moe_sort sort = {.rows = f->rows, .top = r->top, .experts = r->experts,
                                      .expert = f->expert, .first = f->first,
                                      .source = f->source, .place = f->place};
  KC_ASSERT(r->experts > 0);
  TRY_OP(f->ops->gemm(f->ops_context, &router));
  TRY_OP(f->ops->route(f->ops_context, &route));
  return f->ops->moe_sort(f->ops_context, &sort);
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
  TRY_OP(f->ops->grouped_gemm(f->ops_context, &grouped));
  TRY_OP(swiglu(f, choices, r->expert_width, f->expert_gate_up, f->expert_act));
  grouped.source = NULL;
  grouped.x = f->expert_act;
  grouped.x_stride = r->expert_width;
  grouped.weight = w->expert_down;
  grouped.data_stride_bytes = w->down_data_bytes;
  grouped.scale_stride_bytes = w->down_scale_bytes;
  grouped.out = f->expert_out;
  grouped.out_stride = r->hidden;
  TRY_OP(f->ops->grouped_gemm(f->ops_context, &grouped));
  if (w->gate_up.rows > 0) TRY_OP(dense_mlp(f, w, f->shared));
  const struct kc_op_moe_combine combine = {
      .rows = f->rows, .top = r->top, .width = r->hidden, .y = f->expert_out,
      .y_stride = r->hidden, .place = f->place, .weight = f->route_weight,
      .base = w->gate_up.rows > 0 ? f->shared : NULL, .base_stride = r->hidden, .out = f->delta,
      .out_stride = r->hidden};
  return f->ops->moe_combine(f->ops_context, &combine);
}

/* ---- the pass ---- */

static void lay_out_rows(struct kc_forward *f, const struct kc_piece *piece, uint32_t pieces)
{
  f->rows = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    KC_ASSERT(piece[p].count > 0 && piece[p].count <= f->rows_max - f->rows);
    f->chunk[p] = (struct kc_attention_chunk){piece[p].slot, f->rows, piece[p].start,
                                              piece[p].count};
    for (uint32_t i = 0; i < piece[p].count; i++, f->rows++) {
      f->slot[f->rows] = piece[p].slot;
      f->position[f->rows] = (int32_t)(piece[p].start + i);
    }
  }
}

static enum kc_op_status embed(struct kc_forward *f, const int32_t *token)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_op_gather op = {.rows = f->rows, .width = r->hidden,
                                  .source = f->weights->embedding, .source_rows = r->vocabulary,
                                  .source_stride = r->hidden, .index = token,
                                  .out = f->residual, .out_stride = r->hidden};
  KC_ASSERT(f->rows > 0);
  return f->ops->gather(f->ops_context, &op);
}

static enum kc_op_status run_layer(struct kc_forward *f, uint32_t layer, uint32_t pieces)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_layer_weights *w = &f->weights->layer[layer];
  const bool first = layer == 0; /* the residual is the embedding, nothing to add yet */
  KC_ASSERT(layer < r->layers);
  TRY_OP(norm(f, first ? f->residual : f->delta, first ? NULL : f->residual, w->input_norm,
              r->hidden, r->hidden, f->x));
  TRY_OP(r->mla ? mla(f, layer, pieces) : gqa(f, layer, pieces));
  TRY_OP(norm(f, f->delta, f->residual, w->post_norm, r->hidden, r->hidden, f->x));
  return kc_recipe_moe(r, layer) ? moe(f, w) : dense_mlp(f, w, f->delta);
}

/* Rows whose logits are wanted, and how their tokens are drawn. Returns how many. */
static uint32_t list_last_rows(struct kc_forward *f, const struct kc_piece *piece, uint32_t pieces)
{
  uint32_t count = 0;
  KC_ASSERT(pieces <= f->rows_max);
  for (uint32_t p = 0; p < pieces; p++) {
    if (!piece[p].yields) continue;
    for (uint32_t i = piece[p].every ? 0 : piece[p].count - 1; i < piece[p].count; i++) {
      f->last[count] = (int32_t)(f->chunk[p].row + i);
      f->last_slot[count] = piece[p].slot;
      f->last_position[count] = (int32_t)(piece[p].start + i);
      f->last_temperature[count] = piece[p].temperature;
      f->last_seed[count++] = piece[p].seed;
    }
  }
  return count;
}

/* Logits and tokens of the pieces that yield. */
static enum kc_op_status yield_tokens(struct kc_forward *f, struct kc_piece *piece,
                                      uint32_t pieces)
{
  const struct kc_recipe *r = &f->weights->recipe;
  uint32_t count = list_last_rows(f, piece, pieces);
  if (count == 0) return KC_OP_OK;
  KC_ASSERT(count <= f->rows_max);
  const struct kc_op_gather gather = {count, r->hidden, f->x, f->rows, r->hidden, f->last,
                                      f->last_x, r->hidden};
  const struct kc_op_gemm head = {.rows = count, .x_type = KC_DTYPE_BF16, .x = f->last_x,
                                  .x_stride = r->hidden, .weight = f->weights->head,
                                  .out_type = KC_DTYPE_F32, .out = f->logits,
                                  .out_stride = f->logits_stride};
  const struct kc_op_sample sample = {.rows = count, .vocabulary = r->vocabulary,
                                      .logits = f->logits, .logits_stride = f->logits_stride,
                                      .slot = f->last_slot,
                                      .verdict = f->tags.tag == NULL ? NULL : f->tags.verdict,
                                      .temperature = f->last_temperature, .seed = f->last_seed,
                                      .position = f->last_position, .token = f->token};
  TRY_OP(f->ops->gather(f->ops_context, &gather));
  TRY_OP(f->ops->gemm(f->ops_context, &head));
  TRY_OP(f->ops->sample(f->ops_context, &sample));
  count = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    if (!piece[p].yields) continue;
    count += piece[p].every ? piece[p].count : 1;
    piece[p].token = f->token[count - 1];
  }
  return KC_OP_OK;
}

enum kc_op_status kc_forward_run(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces, const int32_t *token)
{
  const struct kc_recipe *r = &forward->weights->recipe;
  KC_ASSERT(pieces > 0);
  lay_out_rows(forward, piece, pieces);
  TRY_OP(embed(forward, token));
  for (uint32_t layer = 0; layer < r->layers; layer++) TRY_OP(run_layer(forward, layer, pieces));
  TRY_OP(norm(forward, forward->delta, forward->residual, forward->weights->final_norm, r->hidden,
              r->hidden, forward->x));
  return yield_tokens(forward, piece, pieces);
}
