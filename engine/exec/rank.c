/* See rank.h. Memory goes in this order, as a server's does: weights, ballast, scratch, then the
 * pool takes what is left; the largest pool is found by trying.
 */
#include "engine/exec/rank.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "kernels/formats/counter.h"

enum { RUNS_MAX = 101, POSITIONS_MIN = 256 };

/* What of the largest pool is left to the driver, which needs some for graphs. */
static const uint64_t margin_bytes = UINT64_C(256) << 20;

struct kc_rank {
  struct kc_rank_config config;
  struct kc_weights weights;
  struct kc_cache cache;
  struct kc_forward forward;
  struct kc_arena ballast, device; /* device: the tables below, at the site */
  struct kc_exec_tables on;
  uint32_t row_entries;
  uint64_t seed;
  struct kc_piece *piece;          /* [batch_max] */
  int32_t *token;
  void *event[2];
};

/* ---- the shard ---- */

static enum kc_err divide(uint32_t *value, uint32_t tensor, const char *what,
                          struct kc_diag *diag)
{
  KC_ASSERT(tensor > 0);
  if (*value % tensor != 0) {
    return kc_fail(diag, KC_ERR_INPUT, "%u %s do not divide by a tensor degree of %u", *value, what,
                   tensor);
  }
  *value /= tensor;
  return KC_OK;
}

enum kc_err kc_recipe_shard(struct kc_recipe *recipe, uint32_t tensor, struct kc_diag *diag)
{
  struct kc_recipe *r = recipe;
  KC_ASSERT(tensor > 0 && r->heads > 0);
  KC_TRY(divide(&r->heads, tensor, "query heads", diag));
  KC_TRY(divide(&r->dense_width, tensor, "columns of the dense MLP", diag));
  KC_TRY(divide(&r->expert_width, tensor, "columns of an expert", diag));
  KC_TRY(divide(&r->shared_width, tensor, "columns of the shared experts", diag));
  if (!r->mla) {
    if (r->kv_heads % tensor != 0 && tensor % r->kv_heads != 0) {
      return kc_fail(diag, KC_ERR_INPUT, "%u KV heads and a tensor degree of %u do not divide each "
                     "other", r->kv_heads, tensor);
    }
    r->kv_heads = r->kv_heads > tensor ? r->kv_heads / tensor : 1;
  }
  r->vocabulary = (r->vocabulary + tensor - 1) / tensor;
  return KC_OK;
}

struct kc_precision kc_rank_precision(const struct kc_model *model,
                                      const struct kc_precision *precision)
{
  struct kc_precision out = *precision;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (!tensor->quantisable || tensor->cols < 2) continue;
    if (out.weight[tensor->kind] != KC_WEIGHT_DEFAULT) continue;
    out.weight[tensor->kind] = kc_tensor_format(tensor, precision);
  }
  return out;
}

/* ---- memory ---- */

static enum kc_err read_free(const struct kc_site *site, uint64_t *out, uint64_t *total,
                             struct kc_diag *diag)
{
  struct kc_module_info info;
  const enum kc_op_status status = site->module->info(site->context, &info);
  KC_ASSERT(out != NULL);
  if (status != KC_OP_OK) return kc_site_fail(site, status, "the free memory", diag);
  *out = info.free_bytes;
  if (total != NULL) *total = info.total_bytes;
  return KC_OK;
}

static struct kc_cache_config cache_config(const struct kc_rank *rank, uint64_t pages)
{
  const struct kc_rank_config *c = &rank->config;
  KC_ASSERT(pages > 0 && pages <= UINT32_MAX);
  return (struct kc_cache_config){.k_format = c->kv_format, .v_format = c->kv_format,
                                  .pages = (uint32_t)pages, .page_tokens = c->page_tokens,
                                  .site = c->site};
}

/* True when the device has room for a block of that size. */
static bool allocates(const struct kc_site *site, uint64_t bytes)
{
  void *memory = site->ops->allocate(site->context, bytes);
  KC_ASSERT(bytes > 0);
  site->ops->release(site->context, memory);
  return memory != NULL;
}

static uint64_t largest_pool(const struct kc_site *site, uint64_t page_bytes, uint64_t free_bytes)
{
  uint64_t low = 0, high = free_bytes / page_bytes + 1; /* low allocates, high does not */
  KC_ASSERT(page_bytes > 0);
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (allocates(site, middle * page_bytes)) low = middle;
    else high = middle;
  }
  return low;
}

/* Something finite in every page: a NaN would send all tokens to the same experts. */
static enum kc_op_status fill_pool(const struct kc_rank *rank)
{
  const struct kc_site *site = &rank->config.site;
  const struct kc_arena *pool = &rank->cache.arena;
  KC_ASSERT(pool->base != NULL);
  const struct kc_kv_layer *first = &rank->cache.layer[0];
  unsigned char *from = first->k;
  const uint64_t bytes = pool->used_bytes - (uint64_t)(from - pool->base);
  if (rank->config.kv_format != KC_KV_BF16) {
    return site->ops->fill(site->context, from, 0x31, bytes);
  }
  const struct kc_op_synthesise op = {.seed = 2, .stream = 1, .elements = bytes / 2,
                                      .deviation = 1, .out = (uint16_t *)(void *)from};
  return site->module->synthesise(site->context, &op);
}

static enum kc_err make_pool(struct kc_rank *rank, struct kc_rank_memory *memory,
                             struct kc_diag *diag)
{
  const struct kc_site *site = &rank->config.site;
  uint64_t free_bytes = 0;
  KC_TRY(read_free(site, &free_bytes, NULL, diag));
  memory->pages = rank->config.pages;
  if (memory->pages == 0) {
    memory->pages_largest = largest_pool(site, memory->page_bytes, free_bytes);
    const uint64_t margin = (margin_bytes + memory->page_bytes - 1) / memory->page_bytes;
    const uint64_t least = memory->pages_largest / 8; /* of a device that is small */
    memory->pages = memory->pages_largest - (margin < least ? margin : least);
  }
  if (memory->pages == 0) return kc_fail(diag, KC_ERR_NO_FIT, "no room for a KV page");
  kc_cache_deinit(&rank->cache);
  const struct kc_cache_config config = cache_config(rank, memory->pages);
  KC_TRY(kc_cache_init(&rank->cache, rank->config.recipe, &config, diag));
  const enum kc_op_status status = fill_pool(rank);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "filling the pool", diag);
}

/* ---- tables ---- */

/* All slots' rows over all pages, in an order that is none; sound tags. */
static enum kc_err put_tables(struct kc_rank *rank, uint64_t pages, struct kc_diag *diag)
{
  const struct kc_site *site = &rank->config.site;
  const uint64_t entries = (uint64_t)rank->config.batch_max * rank->row_entries;
  const uint64_t count = entries > pages ? entries : pages;
  struct kc_page_ref *entry = malloc(count * sizeof *entry);
  uint32_t *word = malloc((count + rank->config.batch_max) * sizeof *word);
  enum kc_op_status status = entry != NULL && word != NULL ? KC_OP_OK : KC_OP_MEMORY;
  for (uint64_t i = 0; status == KC_OP_OK && i < count; i++) {
    entry[i] = (struct kc_page_ref){(uint32_t)(i < pages ? i : i % pages), 1};
    word[i] = 1;
  }
  if (status == KC_OP_OK) {
    status = kc_site_put(site, rank->on.entry, entry, entries * sizeof *entry);
  }
  if (status == KC_OP_OK) status = kc_site_put(site, rank->on.tag, word, pages * sizeof *word);
  for (uint32_t i = 0; status == KC_OP_OK && i < rank->config.batch_max; i++) word[i] = i;
  if (status == KC_OP_OK) {
    status = kc_site_put(site, rank->on.check_slot, word, rank->config.batch_max * sizeof *word);
  }
  free(word);
  free(entry);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "sending tables", diag);
}

/* Bytes, or places, of the tables that the operations read. */
static size_t lay_out(struct kc_rank *rank, uint64_t pages_max, struct kc_arena *arena)
{
  const uint64_t slots = rank->config.batch_max;
  struct kc_exec_tables *t = &rank->on;
  const struct {
    void *to;
    uint64_t count, size;
  } arrays[] = {{&t->entry, slots * rank->row_entries, sizeof *t->entry},
                {&t->tag, pages_max, sizeof *t->tag},
                {&t->verdict, slots, sizeof *t->verdict},
                {&t->counter, KC_TAG_COUNTERS, sizeof *t->counter},
                {&t->ring, KC_FORWARD_RING, sizeof *t->ring},
                {&t->check_slot, slots, sizeof *t->check_slot},
                {&t->check_entries, slots, sizeof *t->check_entries}};
  size_t bytes = 0;
  KC_ASSERT(slots > 0);
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    bytes += kc_arena_need(arrays[i].count, arrays[i].size);
    if (arena == NULL) continue;
    void *memory = kc_arena_take(arena, arrays[i].count, arrays[i].size);
    KC_ASSERT(memory != NULL);
    memcpy(arrays[i].to, &memory, sizeof memory);
  }
  return bytes;
}

static enum kc_err make_tables(struct kc_rank *rank, uint64_t pages_max, struct kc_diag *diag)
{
  const struct kc_site *site = &rank->config.site;
  const size_t bytes = lay_out(rank, pages_max, NULL);
  KC_ASSERT(pages_max > 0);
  KC_TRY(kc_site_arena(site, &rank->device, bytes, diag));
  (void)lay_out(rank, pages_max, &rank->device);
  const uint64_t slots = rank->config.batch_max;
  enum kc_op_status status = site->ops->fill(site->context, rank->on.verdict, 0xFF,
                                             slots * sizeof *rank->on.verdict);
  if (status == KC_OP_OK) {
    status = site->ops->fill(site->context, rank->on.counter, 0,
                             KC_TAG_COUNTERS * sizeof *rank->on.counter);
  }
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "clearing tables", diag);
}

/* ---- making one ---- */

static enum kc_err make_weights(struct kc_rank *rank, struct kc_rank_memory *memory,
                                struct kc_diag *diag)
{
  const struct kc_rank_config *c = &rank->config;
  const struct kc_weight_source source = kc_synthetic_source(&rank->seed);
  const uint32_t positions = c->context_max > POSITIONS_MIN ? c->context_max : POSITIONS_MIN;
  KC_TRY(read_free(&c->site, &memory->free_before, &memory->total_bytes, diag));
  KC_TRY(kc_weights_build(&rank->weights, &c->site, c->recipe, c->precision, positions + 1,
                          &source, diag));
  memory->weight_bytes = rank->weights.weight_bytes;
  if (c->ballast_bytes > 0) KC_TRY(kc_site_arena(&c->site, &rank->ballast, c->ballast_bytes, diag));
  KC_ASSERT(memory->weight_bytes > 0);
  return read_free(&c->site, &memory->free_weights, NULL, diag);
}

static enum kc_err make_forward(struct kc_rank *rank, struct kc_rank_memory *memory,
                                struct kc_diag *diag)
{
  const struct kc_rank_config *c = &rank->config;
  const struct kc_cache_config one = cache_config(rank, 1);
  uint64_t before = 0, after = 0;
  memory->page_bytes = kc_cache_page_bytes(c->recipe, &one);
  const uint64_t pages_max = memory->free_weights / memory->page_bytes + 1;
  KC_ASSERT(memory->page_bytes > 0);
  KC_TRY(read_free(&c->site, &before, NULL, diag));
  KC_TRY(kc_cache_init(&rank->cache, c->recipe, &one, diag)); /* sizes only; the pool comes last */
  KC_TRY(make_tables(rank, c->pages > pages_max ? c->pages : pages_max, diag));
  const struct kc_forward_config pass = {
      .site = c->site, .weights = &rank->weights, .cache = &rank->cache,
      .table = {rank->on.entry, c->batch_max, rank->row_entries}, .rows_max = c->batch_max,
      .yields_max = c->batch_max, .collective = c->collective};
  KC_TRY(kc_forward_init(&rank->forward, &pass, NULL, diag));
  KC_TRY(read_free(&c->site, &after, NULL, diag));
  memory->scratch_bytes = before > after ? before - after : 0;
  return KC_OK;
}

static enum kc_err set_up(struct kc_rank *rank, struct kc_rank_memory *memory,
                          struct kc_diag *diag)
{
  const struct kc_rank_config *c = &rank->config;
  const struct kc_site *site = &c->site;
  KC_TRY(make_weights(rank, memory, diag));
  KC_TRY(make_forward(rank, memory, diag));
  KC_TRY(make_pool(rank, memory, diag));
  KC_TRY(put_tables(rank, memory->pages, diag));
  rank->forward.tags = (struct kc_tag_state){
      .tag = rank->on.tag, .verdict = rank->on.verdict, .counter = rank->on.counter,
      .ring = rank->on.ring, .ring_capacity = KC_FORWARD_RING, .pages = (uint32_t)memory->pages};
  rank->piece = calloc(c->batch_max, sizeof *rank->piece);
  rank->token = calloc(c->batch_max, sizeof *rank->token);
  for (int i = 0; i < 2; i++) rank->event[i] = site->module->event_create(site->context);
  KC_ASSERT(rank->forward.blocks > 0);
  if (rank->piece != NULL && rank->token != NULL && rank->event[0] != NULL &&
      rank->event[1] != NULL) {
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_MEMORY, "no memory for a rank");
}

enum kc_err kc_rank_create(struct kc_rank **out, const struct kc_rank_config *config,
                           struct kc_rank_memory *memory, struct kc_diag *diag)
{
  struct kc_rank *rank = calloc(1, sizeof *rank);
  KC_ASSERT(config->batch_max > 0 && config->context_max > 0);
  KC_ASSERT(!kc_site_is_host(&config->site) && config->page_tokens > 0);
  *out = NULL;
  *memory = (struct kc_rank_memory){0};
  if (rank == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a rank");
  rank->config = *config;
  rank->seed = 1;
  rank->row_entries = (config->context_max + config->page_tokens - 1) / config->page_tokens;
  const enum kc_err err = set_up(rank, memory, diag);
  if (err != KC_OK) {
    kc_rank_destroy(rank);
    return err;
  }
  *out = rank;
  return KC_OK;
}

void kc_rank_destroy(struct kc_rank *rank)
{
  if (rank == NULL) return;
  const struct kc_site *site = &rank->config.site;
  for (int i = 0; i < 2; i++) {
    if (rank->event[i] != NULL) site->module->event_destroy(rank->event[i]);
  }
  kc_forward_deinit(&rank->forward);
  kc_cache_deinit(&rank->cache);
  kc_site_arena_free(site, &rank->device);
  kc_site_arena_free(site, &rank->ballast);
  kc_weights_free(&rank->weights);
  free(rank->token);
  free(rank->piece);
  free(rank);
}

/* ---- steps ---- */

static double now_us(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  KC_ASSERT(now.tv_nsec >= 0);
  return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* A decode step as the executor takes it. */
static enum kc_op_status run_step(struct kc_rank *rank, uint32_t batch, uint32_t context,
                                  uint64_t number, bool checked)
{
  const struct kc_site *site = &rank->config.site;
  struct kc_tag_state tags = rank->forward.tags;
  tags.step = number;
  for (uint32_t i = 0; i < batch; i++) {
    rank->piece[i] = (struct kc_piece){.slot = i, .start = context - 1, .count = 1,
                                       .yields = true};
    rank->token[i] = (int32_t)(kc_counter_u64(7, number, i) % rank->config.recipe->vocabulary);
  }
  KC_ASSERT(batch > 0 && context > 0);
  enum kc_op_status status = site->module->event_record(site->context, rank->event[0]);
  const struct kc_op_tag_check check = {
      .rows = batch, .slot = rank->on.check_slot, .entries = rank->on.check_entries,
      .table = rank->forward.table, .integrity = tags};
  if (status == KC_OP_OK && checked) status = site->ops->tag_check(site->context, &check);
  if (status == KC_OP_OK) {
    status = kc_forward_begin(&rank->forward, rank->piece, batch, rank->token);
  }
  if (status == KC_OP_OK) status = site->module->event_record(site->context, rank->event[1]);
  return status == KC_OP_OK ? kc_forward_end(&rank->forward, rank->piece, batch) : status;
}

static int by_size(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *value, uint32_t count)
{
  KC_ASSERT(count > 0);
  qsort(value, count, sizeof *value, by_size);
  return value[count / 2];
}

static enum kc_op_status time_steps(struct kc_rank *rank, uint32_t batch, uint32_t context,
                                    uint32_t runs, struct kc_rank_time *out)
{
  double device[2][RUNS_MAX], wall[RUNS_MAX];
  KC_ASSERT(runs > 0 && runs <= RUNS_MAX);
  for (uint64_t i = 0; i < 2; i++) { /* once as it is, once to capture */
    const enum kc_op_status status = run_step(rank, batch, context, i, true);
    if (status != KC_OP_OK) return status;
  }
  for (uint32_t i = 0; i < 2 * runs; i++) {
    const bool checked = i % 2 == 0; /* in turn, so that a drifting clock meets both */
    const double begin = now_us();
    const enum kc_op_status status = run_step(rank, batch, context, 2 + i / 2, checked);
    if (status != KC_OP_OK) return status;
    if (checked) wall[i / 2] = now_us() - begin;
    device[!checked][i / 2] =
        rank->config.site.module->event_elapsed_us(rank->event[0], rank->event[1]);
  }
  out->device_us = median(device[0], runs);
  out->unchecked_us = median(device[1], runs);
  out->wall_us = median(wall, runs);
  return KC_OP_OK;
}

enum kc_err kc_rank_time(struct kc_rank *rank, uint32_t batch, uint32_t context, uint32_t runs,
                         struct kc_rank_time *out, struct kc_diag *diag)
{
  const struct kc_site *site = &rank->config.site;
  const uint32_t each = (context + rank->config.page_tokens - 1) / rank->config.page_tokens;
  const uint64_t launched = rank->forward.graphs.launched;
  KC_ASSERT(batch <= rank->config.batch_max && context <= rank->config.context_max);
  if ((uint64_t)batch * each > rank->cache.layer[0].pages) {
    return kc_fail(diag, KC_ERR_NO_FIT, "%u requests of %u tokens need %llu pages; the pool has %u",
                   batch, context, (unsigned long long)batch * each, rank->cache.layer[0].pages);
  }
  uint32_t *entries = malloc(batch * sizeof *entries);
  enum kc_op_status status = entries != NULL ? KC_OP_OK : KC_OP_MEMORY;
  for (uint32_t i = 0; entries != NULL && i < batch; i++) entries[i] = each;
  if (status == KC_OP_OK) {
    status = kc_site_put(site, rank->on.check_entries, entries, batch * sizeof *entries);
  }
  free(entries);
  if (status == KC_OP_OK) status = time_steps(rank, batch, context, runs, out);
  if (status != KC_OP_OK) return kc_site_fail(site, status, "a step of the rank", diag);
  out->graph = rank->forward.graphs.launched > launched;
  return KC_OK;
}
