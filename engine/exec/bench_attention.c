/* The bench's attention over pages, and what goes with it: writes, the tag check, reading memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/bench_desk.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_plan.h"

enum { PAGE_TOKENS = 64, BATCH_MAX = 512, SPLITS_MAX = 8192, KV_BYTES_MAX_GIB = 24 };

/* Host arrays of a case, on the heap for a suite: too large for the stack. */
struct host {
  struct kc_split split[SPLITS_MAX];
  uint32_t row_first[BATCH_MAX + 1], slot[BATCH_MAX], context[BATCH_MAX], entries[BATCH_MAX];
  int32_t position[BATCH_MAX];
};

static const char *kv_name(enum kc_kv_format format)
{
  return format == KC_KV_BF16 ? "bfloat16" : "fp8";
}

/* ---- reading memory ---- */

struct stream {
  const struct kc_site *site;
  const void *from;
  uint64_t bytes;
  uint32_t *sum;
};

static enum kc_op_status run_stream(void *context)
{
  const struct stream *s = context;
  KC_ASSERT(s->bytes % 16 == 0);
  return s->site->module->read_stream(s->site->context, s->from, s->bytes, s->sum);
}

/* A kernel that does nothing: what of every cold time is launch and clock. */
static enum kc_op_status run_nothing(void *context)
{
  const struct kc_site *site = context;
  KC_ASSERT(!kc_site_is_host(site));
  return site->module->delay(site->context, 0);
}

void kc_bench_stream(struct kc_desk *desk)
{
  static const uint64_t mib[] = {64, 256, 1024, 4096};
  struct kc_bench_row nothing = {.suite = KC_BENCH_STREAM, .operation = "empty_launch",
                                 .format = "none"};
  KC_ASSERT(desk->config->runs > 0);
  struct kc_site site = *desk->site;
  kc_desk_measure(desk, &nothing, run_nothing, &site);
  for (size_t i = 0; i < (desk->config->tiny ? 1 : 4); i++) {
    const uint64_t bytes = desk->config->tiny ? 1u << 16 : mib[i] << 20;
    struct kc_bench_row row = {.suite = KC_BENCH_STREAM, .operation = "read_stream",
                               .format = "bytes", .bytes = (double)bytes};
    if (!kc_desk_allows(desk)) return;
    struct stream s = {.site = desk->site, .from = kc_desk_random(desk, bytes / 2),
                       .bytes = bytes, .sum = kc_desk_take(desk, 16)};
    if (!desk->failed) {
      desk->failed = desk->site->ops->fill(desk->site->context, s.sum, 0, 16) != KC_OP_OK;
    }
    kc_desk_measure(desk, &row, run_stream, &s);
  }
}

/* ---- a paged cache ---- */

/* Pages in an order that is none; every slot with `context` tokens. */
static struct kc_page_table make_table(struct kc_desk *desk, uint32_t slots, uint32_t entries)
{
  const uint64_t count = (uint64_t)slots * entries;
  struct kc_page_ref *entry = malloc(count * sizeof *entry);
  KC_ASSERT(slots > 0 && entries > 0);
  if (entry == NULL) {
    desk->failed = true;
    return (struct kc_page_table){0};
  }
  for (uint64_t i = 0; i < count; i++) {
    entry[i] = (struct kc_page_ref){(uint32_t)(i * 7919 % count), 1};
  }
  if (count % 7919 == 0) { /* not a shuffle then */
    for (uint64_t i = 0; i < count; i++) entry[i].page = (uint32_t)(count - 1 - i);
  }
  const struct kc_page_table table = {kc_desk_put(desk, entry, count * sizeof *entry), slots,
                                      entries};
  free(entry);
  return table;
}

/* A pool with something in it: normal bf16, or an e4m3 code and small scales. */
static uint8_t *make_pool(struct kc_desk *desk, uint64_t bytes, bool bf16)
{
  KC_ASSERT(bytes % 2 == 0);
  if (bf16) return (uint8_t *)kc_desk_random(desk, bytes / 2);
  uint8_t *pool = kc_desk_take(desk, bytes);
  if (pool != NULL &&
      desk->site->ops->fill(desk->site->context, pool, 0x31, bytes) != KC_OP_OK) {
    desk->failed = true;
  }
  return pool;
}

static struct kc_kv_layer make_layer(struct kc_desk *desk, const struct kc_bench_shape *s,
                                     bool mla, enum kc_kv_format format, uint32_t pages)
{
  struct kc_kv_layer layer = {.kind = mla ? KC_PAGED_MLA : KC_PAGED_GQA, .k_format = format,
                              .v_format = format, .pages = pages, .page_tokens = PAGE_TOKENS,
                              .kv_heads = mla ? 1 : (uint32_t)s->kv_heads,
                              .head_dim = mla ? 0 : (uint32_t)s->head_dim,
                              .latent = mla ? 512 : 0, .rope = mla ? 64 : 0};
  KC_ASSERT(pages > 0);
  if (mla && format != KC_KV_BF16) layer.k_format = KC_KV_FP8_G128;
  layer.k_page_bytes = (kc_kv_page_bytes_k(&layer) + 15) / 16 * 16;
  layer.v_page_bytes = mla ? 0 : (kc_kv_page_bytes_v(&layer) + 15) / 16 * 16;
  layer.k = make_pool(desk, pages * layer.k_page_bytes, format == KC_KV_BF16);
  if (!mla) layer.v = make_pool(desk, pages * layer.v_page_bytes, format == KC_KV_BF16);
  return layer;
}

static double token_bytes(const struct kc_kv_layer *layer)
{
  return (double)(layer->k_page_bytes + layer->v_page_bytes) / PAGE_TOKENS;
}

static uint32_t pages_of(uint64_t context)
{
  return (uint32_t)((context + PAGE_TOKENS - 1) / PAGE_TOKENS);
}

/* ---- decode ---- */

struct decode {
  const struct kc_site *site;
  struct kc_op_decode op;
};

static enum kc_op_status run_decode(void *context)
{
  const struct decode *d = context;
  KC_ASSERT(d->op.rows > 0);
  return d->site->ops->decode(d->site->context, &d->op);
}

static void plan_decode(struct kc_desk *desk, struct host *host, struct kc_op_decode *op,
                        uint64_t context, uint64_t partial_dim)
{
  const bool mla = op->layer.kind == KC_PAGED_MLA;
  const uint32_t group = mla ? op->q_heads : op->q_heads / op->layer.kv_heads;
  const uint32_t tiles = (group + 15) / 16 * (mla ? 1 : op->layer.kv_heads);
  const uint32_t at_once = mla ? 1 : op->layer.k_format == KC_KV_BF16 ? 2 : 4;
  uint32_t blocks = desk->site->sm_count * at_once / tiles;
  if (blocks == 0) blocks = 1;
  struct kc_plan_build plan = {.split = host->split, .row_first = host->row_first,
                               .split_capacity =
                                   kc_plan_capacity(op->rows, KC_PLAN_WAVES * blocks)};
  KC_ASSERT(plan.split_capacity <= SPLITS_MAX && op->rows <= BATCH_MAX);
  for (uint32_t i = 0; i < op->rows; i++) {
    host->slot[i] = i;
    host->context[i] = (uint32_t)context;
  }
  const bool made = kc_plan_balance(&plan, host->context, op->rows, 64, blocks);
  KC_ASSERT(made);
  op->slot = kc_desk_put(desk, host->slot, 4 * op->rows);
  op->context = kc_desk_put(desk, host->context, 4 * op->rows);
  op->plan = (struct kc_split_plan){
      kc_desk_put(desk, host->split, plan.split_count * sizeof(struct kc_split)),
      plan.split_count, kc_desk_put(desk, host->row_first, 4ull * (op->rows + 1)),
      plan.partial_count};
  const uint64_t partials = (uint64_t)(plan.partial_count + 1) * op->q_heads;
  op->partial_out = kc_desk_take(desk, 4 * partials * partial_dim);
  op->partial_lse = kc_desk_take(desk, 4 * partials);
}

static void measure_decode(struct kc_desk *desk, struct host *host, struct kc_bench_shape s,
                           bool mla, enum kc_kv_format format)
{
  const uint32_t pages = pages_of(s.context), dim = mla ? 512 : (uint32_t)s.head_dim;
  const uint64_t width = mla ? 576 : s.head_dim;
  struct kc_bench_row row = {.suite = mla ? KC_BENCH_LATENT : KC_BENCH_DECODE,
                             .operation = mla ? "generation_mla" : "generation_attention",
                             .format = kv_name(format), .shape = s};
  if (!kc_desk_allows(desk)) return;
  struct decode d = {.site = desk->site,
                     .op = {.rows = (uint32_t)s.batch, .q_heads = (uint32_t)s.heads,
                            .q_stride = s.heads * width, .scale = 1.0f / sqrtf((float)width),
                            .out_stride = s.heads * dim}};
  d.op.table = make_table(desk, (uint32_t)s.batch, pages);
  d.op.layer = make_layer(desk, &s, mla, format, (uint32_t)s.batch * pages);
  d.op.q = kc_desk_random(desk, s.batch * s.heads * width);
  d.op.out = kc_desk_take(desk, 2 * s.batch * s.heads * dim);
  plan_decode(desk, host, &d.op, s.context, dim);
  row.bytes = (double)(s.batch * s.context) * token_bytes(&d.op.layer);
  row.flops = 2.0 * (double)(s.batch * s.context * s.heads) * (double)(width + dim);
  kc_desk_measure(desk, &row, run_decode, &d);
}

static void each_decode(struct kc_desk *desk, const struct kc_bench_shape *heads, size_t count,
                        bool mla)
{
  static const uint64_t batch[] = {64, 1, 8, 32, 128}, context[] = {8192, 1024, 2048, 32768};
  const bool tiny = desk->config->tiny;
  struct host *host = malloc(sizeof *host);
  KC_ASSERT(count > 0);
  for (size_t h = 0; h < count && host != NULL; h++) {
    for (size_t b = 0; b < (tiny ? 2 : 5); b++) {
      for (size_t c = 0; c < (tiny ? 1 : 4); c++) {
        struct kc_bench_shape s = heads[h];
        s.batch = tiny ? b + 1 : batch[b];
        s.context = tiny ? 70 : context[c];
        s.tokens = 1;
        const uint64_t cell = mla ? 1152 : 4 * s.kv_heads * s.head_dim;
        if (s.batch * s.context * cell > (uint64_t)KV_BYTES_MAX_GIB << 30) continue;
        measure_decode(desk, host, s, mla, KC_KV_BF16);
        measure_decode(desk, host, s, mla, KC_KV_FP8_E4M3);
      }
    }
  }
  free(host);
}

void kc_bench_decode(struct kc_desk *desk)
{
  static const struct kc_bench_shape heads[] = {{.heads = 32, .kv_heads = 8, .head_dim = 128},
                                                {.heads = 8, .kv_heads = 1, .head_dim = 128}};
  static const struct kc_bench_shape tiny[] = {{.heads = 4, .kv_heads = 1, .head_dim = 64}};
  KC_ASSERT(desk->config->runs > 0);
  if (desk->config->tiny) each_decode(desk, tiny, 1, false);
  else each_decode(desk, heads, 2, false);
}

void kc_bench_latent(struct kc_desk *desk)
{
  static const struct kc_bench_shape heads[] = {{.heads = 8}, {.heads = 16}, {.heads = 64}};
  static const struct kc_bench_shape tiny[] = {{.heads = 4}};
  KC_ASSERT(desk->config->runs > 0);
  if (desk->config->tiny) each_decode(desk, tiny, 1, true);
  else each_decode(desk, heads, 3, true);
}

/* ---- chunks ---- */

struct prefill {
  const struct kc_site *site;
  struct kc_op_prefill op;
};

static enum kc_op_status run_prefill(void *context)
{
  const struct prefill *p = context;
  KC_ASSERT(p->op.chunks > 0);
  return p->site->ops->prefill(p->site->context, &p->op);
}

static void measure_prefill(struct kc_desk *desk, uint64_t tokens, enum kc_kv_format format)
{
  const bool tiny = desk->config->tiny;
  const struct kc_bench_shape s = {.batch = 1, .tokens = tokens, .context = tokens,
                                   .heads = tiny ? 4 : 32, .kv_heads = tiny ? 1 : 8,
                                   .head_dim = tiny ? 64 : 128};
  const struct kc_attention_chunk chunk = {0, 0, 0, (uint32_t)tokens};
  const uint64_t width = s.heads * s.head_dim;
  struct kc_bench_row row = {.suite = KC_BENCH_PREFILL, .operation = "context_attention",
                             .format = kv_name(format), .shape = s};
  if (!kc_desk_allows(desk)) return;
  struct prefill p = {.site = desk->site,
                      .op = {.chunks = 1, .q_heads = (uint32_t)s.heads, .chunk_host = &chunk,
                             .q_stride = width, .out_stride = width,
                             .scale = 1.0f / sqrtf((float)s.head_dim)}};
  KC_ASSERT(tokens > 0);
  p.op.chunk = kc_desk_put(desk, &chunk, sizeof chunk);
  p.op.q = kc_desk_random(desk, tokens * width);
  p.op.out = kc_desk_take(desk, 2 * tokens * width);
  p.op.table = make_table(desk, 1, pages_of(tokens));
  p.op.layer = make_layer(desk, &s, false, format, pages_of(tokens));
  row.bytes = (double)tokens * (token_bytes(&p.op.layer) + 4.0 * (double)width);
  row.flops = 2.0 * (double)(tokens * (tokens + 1)) * (double)width; /* half of the square */
  kc_desk_measure(desk, &row, run_prefill, &p);
}

void kc_bench_prefill(struct kc_desk *desk)
{
  static const uint64_t tokens[] = {512, 1024, 2048, 4096, 8192, 16384};
  KC_ASSERT(desk->config->runs > 0);
  for (size_t i = 0; i < (desk->config->tiny ? 1 : 6); i++) {
    measure_prefill(desk, desk->config->tiny ? 40 : tokens[i], KC_KV_BF16);
    measure_prefill(desk, desk->config->tiny ? 40 : tokens[i], KC_KV_FP8_E4M3);
  }
}

/* ---- writes ---- */

struct kv_write {
  const struct kc_site *site;
  struct kc_op_kv_write op;
};

static enum kc_op_status run_kv_write(void *context)
{
  const struct kv_write *w = context;
  KC_ASSERT(w->op.rows > 0);
  return w->site->ops->kv_write(w->site->context, &w->op);
}

static void measure_kv_write(struct kc_desk *desk, struct host *host, uint64_t rows,
                             enum kc_kv_format format)
{
  const struct kc_bench_shape s = {.tokens = rows, .kv_heads = desk->config->tiny ? 1 : 8,
                                   .head_dim = desk->config->tiny ? 64 : 128};
  const uint64_t width = s.kv_heads * s.head_dim;
  struct kc_bench_row row = {.suite = KC_BENCH_KV_WRITE, .operation = "kv_write",
                             .format = kv_name(format), .shape = s};
  if (!kc_desk_allows(desk)) return;
  for (uint32_t i = 0; i < rows; i++) {
    host->slot[i] = i;
    host->position[i] = (int32_t)(i % PAGE_TOKENS);
  }
  struct kv_write w = {.site = desk->site, .op = {.rows = (uint32_t)rows, .k_stride = width,
                                                  .v_stride = width}};
  KC_ASSERT(rows <= BATCH_MAX);
  w.op.k = kc_desk_random(desk, rows * width);
  w.op.v = kc_desk_random(desk, rows * width);
  w.op.slot = kc_desk_put(desk, host->slot, 4 * rows);
  w.op.position = kc_desk_put(desk, host->position, 4 * rows);
  w.op.table = make_table(desk, (uint32_t)rows, 1);
  w.op.layer = make_layer(desk, &s, false, format, (uint32_t)rows);
  row.bytes = (double)rows * (4.0 * (double)width + token_bytes(&w.op.layer));
  kc_desk_measure(desk, &row, run_kv_write, &w);
}

void kc_bench_kv_write(struct kc_desk *desk)
{
  static const uint64_t rows[] = {1, 64, 512};
  struct host *host = malloc(sizeof *host);
  KC_ASSERT(desk->config->runs > 0);
  for (size_t i = 0; host != NULL && i < (desk->config->tiny ? 1 : 3); i++) {
    measure_kv_write(desk, host, rows[i], KC_KV_BF16);
    measure_kv_write(desk, host, rows[i], KC_KV_FP8_E4M3);
  }
  free(host);
}

/* ---- the tag check ---- */

struct tags {
  const struct kc_site *site;
  struct kc_op_tag_check op;
};

static enum kc_op_status run_tags(void *context)
{
  const struct tags *t = context;
  KC_ASSERT(t->op.rows > 0);
  return t->site->ops->tag_check(t->site->context, &t->op);
}

/* `slots` rows of `entries` entries each, all of them sound. */
static void measure_tags(struct kc_desk *desk, struct host *host, uint32_t slots, uint32_t entries)
{
  const uint64_t count = (uint64_t)slots * entries;
  struct kc_bench_row row = {.suite = KC_BENCH_TAGS, .operation = "tag_check", .format = "u32",
                             .shape = {.batch = slots, .entries = count},
                             .bytes = 12.0 * (double)count};
  if (!kc_desk_allows(desk)) return;
  uint32_t *tag = malloc(4 * count);
  KC_ASSERT(slots <= BATCH_MAX);
  for (uint64_t i = 0; tag != NULL && i < count; i++) tag[i] = 1;
  for (uint32_t i = 0; i < slots; i++) {
    host->slot[i] = i;
    host->entries[i] = entries;
  }
  struct tags t = {.site = desk->site, .op = {.rows = slots}};
  t.op.slot = kc_desk_put(desk, host->slot, 4ull * slots);
  t.op.entries = kc_desk_put(desk, host->entries, 4ull * slots);
  t.op.table = make_table(desk, slots, entries);
  t.op.integrity.tag = tag != NULL ? kc_desk_put(desk, tag, 4 * count) : NULL;
  free(tag);
  memset(host->context, 0xFF, sizeof host->context); /* verdicts: all clear */
  t.op.integrity.verdict = kc_desk_put(desk, host->context, 4ull * slots);
  static const uint64_t zero[KC_TAG_COUNTERS];
  t.op.integrity.counter = kc_desk_put(desk, zero, sizeof zero);
  t.op.integrity.pages = (uint32_t)count;
  kc_desk_measure(desk, &row, run_tags, &t);
}

void kc_bench_tags(struct kc_desk *desk)
{
  static const uint32_t entries[] = {8, 64, 128, 512};
  struct host *host = malloc(sizeof *host);
  KC_ASSERT(desk->config->runs > 0);
  for (size_t i = 0; host != NULL && i < (desk->config->tiny ? 1 : 4); i++) {
    measure_tags(desk, host, desk->config->tiny ? 2 : 128, entries[i]);
  }
  free(host);
}
