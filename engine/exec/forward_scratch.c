/* Scratch of a forward: what a pass needs, counted and taken by the same walk. On the host it comes
 * from the caller's arena; a device's forward has one block of the device and one of pinned memory.
 *
 *   pinned   inputs | tokens      device   inputs | scratch of the layers | panel | workspace
 */
#include "engine/exec/forward_scratch.h"

#include "engine/base/check.h"
#include "engine/exec/dense_product.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_plan.h"

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

/* ---- inputs ---- */

static void *lay(unsigned char *base, uint64_t *at, uint64_t count, size_t size)
{
  void *place = base == NULL ? NULL : base + *at;
  KC_ASSERT(size > 0 && *at % 16 == 0);
  *at += (count * size + 15) / 16 * 16;
  return place;
}

uint64_t kc_inputs_lay_out(struct kc_inputs *in, unsigned char *base,
                           const struct kc_inputs_size *size)
{
  uint64_t at = 0;
  KC_ASSERT(size->rows > 0);
  in->token = lay(base, &at, size->rows, sizeof *in->token);
  in->position = lay(base, &at, size->rows, sizeof *in->position);
  in->slot = lay(base, &at, size->rows, sizeof *in->slot);
  in->chunk = lay(base, &at, size->pieces, sizeof *in->chunk);
  in->last = lay(base, &at, size->yields, sizeof *in->last);
  in->last_slot = lay(base, &at, size->yields, sizeof *in->last_slot);
  in->last_position = lay(base, &at, size->yields, sizeof *in->last_position);
  in->last_temperature = lay(base, &at, size->yields, sizeof *in->last_temperature);
  in->last_seed = lay(base, &at, size->yields, sizeof *in->last_seed);
  in->context = lay(base, &at, size->singles, sizeof *in->context);
  in->split = lay(base, &at, size->splits, sizeof *in->split);
  in->row_first = lay(base, &at, size->singles + 1ull, sizeof *in->row_first);
  return at;
}

static uint64_t inputs_bytes(const struct kc_forward *f)
{
  struct kc_inputs none;
  const struct kc_inputs_size most = {f->rows_max, f->rows_max, f->yields_max,
                                      f->blocks > 0 ? f->yields_max : 0,
                                      f->blocks > 0 ? f->yields_max + f->pieces_most : 0};
  KC_ASSERT(f->yields_max > 0);
  return kc_inputs_lay_out(&none, NULL, &most);
}

/* ---- the layers' ---- */

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
    f->heads_in_order = take(t, rows * heads, sizeof *f->heads_in_order);
  } else {
    f->q = take(t, rows * (heads + 2ull * r->kv_heads) * r->head_dim, 2);
    f->attention = take(t, rows * heads * r->head_dim, 2);
  }
  if (f->blocks == 0) return;
  const uint64_t partials = (uint64_t)f->yields_max + f->pieces_most;
  f->partial_out = take(t, partials * heads * (r->mla ? r->latent : r->head_dim), 4);
  f->partial_lse = take(t, partials * heads, 4);
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
  f->place_of = take(t, choices, 4);
  f->first = take(t, r->experts + 1, 4);
  f->expert_gate_up = take(t, choices * 2 * r->expert_width, 2);
  f->expert_act = take(t, choices * r->expert_width, 2);
  f->expert_out = take(t, choices * r->hidden, 2);
  f->shared = r->shared_width > 0 ? take(t, rows * r->hidden, 2) : NULL;
}

/* The widest input of a product. */
static uint64_t widest(const struct kc_recipe *r)
{
  const uint64_t attention = (uint64_t)r->heads * (r->mla ? r->value : r->head_dim);
  const uint64_t widths[] = {r->hidden, r->dense_width, r->shared_width, r->q_rank, attention};
  uint64_t most = 0;
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
    if (widths[i] > most) most = widths[i];
  }
  KC_ASSERT(most > 0);
  return most;
}

static void take_scratch(struct kc_forward *f, struct taker *t, const struct kc_recipe *r)
{
  const uint64_t rows = f->rows_max;
  KC_ASSERT(rows > 0 && f->yields_max > 0);
  f->logits_stride = (r->vocabulary + 7ull) / 8 * 8;
  f->base = take(t, inputs_bytes(f), 1);
  f->residual = take(t, rows * r->hidden, 2);
  f->x = take(t, rows * r->hidden, 2);
  f->delta = take(t, rows * r->hidden, 2);
  take_attention(f, t, r, rows);
  take_mlp(f, t, r, rows);
  if (f->blocks > 0) {
    f->x8 = take(t, rows * widest(r), 1);
    f->x8_scale = take(t, rows, sizeof *f->x8_scale);
  }
  f->dense = take(t, f->dense_bytes, 1);
  f->workspace = take(t, f->workspace_bytes, 1);
  f->last_x = take(t, (uint64_t)f->yields_max * r->hidden, 2);
  f->logits = take(t, f->yields_max * f->logits_stride, 4);
  f->token = take(t, f->yields_max, sizeof *f->token);
}

size_t kc_forward_need(const struct kc_recipe *recipe, uint32_t rows_max)
{
  struct kc_forward forward = {.rows_max = rows_max, .yields_max = rows_max};
  struct taker taker = {0};
  KC_ASSERT(rows_max > 0);
  take_scratch(&forward, &taker, recipe);
  return taker.bytes;
}

/* ---- what products want ---- */

static void want_workspace(struct kc_forward *f, const struct kc_weight *weight, uint32_t rows_max)
{
  struct kc_op_gemm op = {.x_type = KC_DTYPE_BF16, .weight = *weight,
                          .out_type = KC_DTYPE_BF16};
  uint32_t rows = 8;
  KC_ASSERT(rows_max > 0);
  for (bool more = true; more; rows = rows < 64 ? 2 * rows : rows + 64) {
    more = rows < rows_max;
    op.rows = more ? rows : rows_max;
    const uint64_t bytes = f->site.ops->gemm_workspace_bytes(f->site.context, &op);
    if (bytes > f->workspace_bytes) f->workspace_bytes = bytes;
  }
}

/* What one matrix wants, by either way of multiplying by it. */
static void want_product(struct kc_forward *f, const struct kc_weight *weight, uint32_t rows_max)
{
  if (weight->rows == 0) return;
  const uint64_t bytes = kc_dense_scratch_bytes(weight, rows_max);
  KC_ASSERT(rows_max > 0);
  want_workspace(f, weight, rows_max);
  if (bytes > f->dense_bytes) f->dense_bytes = bytes;
}

/* The panels' workspace: of each matrix by the scratch that all share. */
static void want_panel(struct kc_forward *f, const struct kc_weight *weight, uint32_t rows_max)
{
  if (weight->rows == 0 || !kc_dense_wanted(weight, rows_max)) return;
  const struct kc_weight panel = kc_dense_panel(weight, f->dense_bytes, false);
  const struct kc_weight last = kc_dense_panel(weight, f->dense_bytes, true);
  KC_ASSERT(last.rows <= panel.rows);
  want_workspace(f, &panel, rows_max);
  want_workspace(f, &last, rows_max); /* a smaller one may be split more often */
}

/* Splits of k depend on how many blocks of rows there are: the most is wanted at a whole block. */
static void size_products(struct kc_forward *f, void (*want)(struct kc_forward *f,
                                                             const struct kc_weight *weight,
                                                             uint32_t rows_max))
{
  const struct kc_weights *w = f->weights;
  KC_ASSERT(w->recipe.layers > 0);
  for (uint32_t i = 0; i < w->recipe.layers; i++) {
    const struct kc_layer_weights *l = &w->layer[i];
    const struct kc_weight *const all[] = {&l->qkv, &l->o, &l->q_a, &l->q_b, &l->kv_a,
                                           &l->gate_up, &l->down, &l->router};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) want(f, all[k], f->rows_max);
  }
  want(f, &w->head, f->yields_max);
}

/* Blocks that fill the device once, for each head that reads the cache. */
static uint32_t blocks_of(const struct kc_forward *f)
{
  const struct kc_recipe *r = &f->weights->recipe;
  const struct kc_kv_layer *kv = &f->cache->layer[0];
  const uint32_t heads = r->mla ? r->heads : r->heads / r->kv_heads;
  const uint32_t tiles = (heads + 15) / 16 * (r->mla ? 1 : r->kv_heads);
  const uint32_t at_once = r->mla ? 1 : kv->k_format == KC_KV_BF16 ? 2 : 4; /* blocks an SM */
  KC_ASSERT(tiles > 0 && f->site.sm_count > 0);
  const uint32_t blocks = f->site.sm_count * at_once / tiles;
  return blocks > 0 ? blocks : 1;
}

/* ---- making and giving back ---- */

/* 0, 1, 2, ... through the pinned memory's inputs, piece by piece. */
static enum kc_op_status count_heads(struct kc_forward *f)
{
  const uint64_t count = (uint64_t)f->rows_max * f->weights->recipe.heads;
  const uint64_t piece = inputs_bytes(f) / sizeof(int32_t);
  int32_t *number = (int32_t *)(void *)f->host_base;
  KC_ASSERT(piece > 0);
  for (uint64_t first = 0; first < count; first += piece) {
    const uint64_t some = count - first < piece ? count - first : piece;
    for (uint64_t i = 0; i < some; i++) number[i] = (int32_t)(first + i);
    const enum kc_op_status status =
        kc_site_put(&f->site, f->heads_in_order + first, number, some * sizeof *number);
    if (status != KC_OP_OK) return status;
  }
  return KC_OP_OK;
}

static enum kc_err take_device(struct kc_forward *f, struct kc_diag *diag)
{
  const struct kc_recipe *r = &f->weights->recipe;
  struct taker counted = {0}, taken = {.arena = &f->scratch};
  f->blocks = blocks_of(f);
  f->pieces_most = KC_PLAN_WAVES * f->blocks;
  size_products(f, want_product);
  size_products(f, want_panel);
  take_scratch(f, &counted, r);
  KC_TRY(kc_site_arena(&f->site, &f->scratch, counted.bytes, diag));
  take_scratch(f, &taken, r);
  KC_ASSERT(!taken.failed);
  const size_t inputs = kc_arena_need(inputs_bytes(f), 1);
  const size_t tokens = kc_arena_need(f->yields_max, sizeof *f->token_host);
  KC_TRY(kc_site_pinned(&f->site, &f->pinned, inputs + tokens, diag));
  f->host_base = kc_arena_take(&f->pinned, inputs_bytes(f), 1);
  f->token_host = kc_arena_take(&f->pinned, f->yields_max, sizeof *f->token_host);
  return KC_OK;
}

enum kc_err kc_forward_init(struct kc_forward *forward, const struct kc_forward_config *config,
                            struct kc_arena *arena, struct kc_diag *diag)
{
  struct kc_forward *f = forward;
  enum kc_err err = KC_OK;
  KC_ASSERT(config->cache->layers == config->weights->recipe.layers);
  *f = (struct kc_forward){.site = kc_site_or_host(&config->site), .weights = config->weights,
                           .cache = config->cache, .table = config->table,
                           .rows_max = config->rows_max, .eager = config->eager,
                           .collective = config->collective,
                           .yields_max = config->yields_max > 0 ? config->yields_max
                                                                : config->rows_max};
  KC_ASSERT(f->weights->site.ops == f->site.ops && f->cache->site.ops == f->site.ops);
  if (kc_site_is_host(&f->site)) f->stop = config->stop; /* a device's pass is enqueued at once */
  if (kc_site_is_host(&f->site)) {
    struct taker taker = {.arena = arena};
    take_scratch(f, &taker, &f->weights->recipe);
    if (taker.failed) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a pass of the model");
    f->host_base = f->base;
    f->token_host = f->token;
  } else {
    err = take_device(f, diag);
  }
  if (err == KC_OK && f->heads_in_order != NULL && count_heads(f) != KC_OP_OK) {
    err = kc_site_fail(&f->site, KC_OP_DEVICE, "sending an index", diag);
  }
  if (err != KC_OK) kc_forward_deinit(f);
  return err;
}

void kc_forward_deinit(struct kc_forward *forward)
{
  KC_ASSERT(forward != NULL);
  if (forward->site.ops == NULL || kc_site_is_host(&forward->site)) return;
  kc_graphs_free(&forward->graphs, &forward->site);
  kc_site_arena_free(&forward->site, &forward->scratch);
  kc_site_pinned_free(&forward->site, &forward->pinned);
}
