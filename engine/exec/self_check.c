/* See self_check.h. Every check is a function of its own on arrays of its own stack: small shapes,
 * no memory to ask for. `text` says how far off the result is, also when that is fine. */
#include "engine/exec/self_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/dense_product.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"
#include "kernels/formats/e4m3.h"
#include "kernels/formats/int4.h"
#include "kernels/ops/op_plan.h"
#include "kernels/ops/op_tolerance.h"

enum { ROWS = 5, WIDTH = 64, N = 48, PAGE = 16, PAGES = 8, SLOTS = 2, ENTRIES = 4, DIM = 16 };

#define ALIGNED _Alignas(64)

/* ---- inputs and comparison ---- */

static void draw_bf16(uint16_t *out, size_t count, uint64_t stream)
{
  KC_ASSERT(count > 0);
  for (size_t i = 0; i < count; i++) out[i] = kc_bf16_encode(kc_counter_normal(41, stream, i));
}

static double value(uint16_t code)
{
  return (double)kc_bf16_decode(code);
}

struct error {
  double difference, size; /* sums of squares */
};

static void add_error(struct error *e, double got, double want)
{
  e->difference += (got - want) * (got - want);
  e->size += want * want;
}

static bool judge(const struct error *e, double limit, char *text)
{
  const double nmse = e->size > 0 ? e->difference / e->size : INFINITY;
  KC_ASSERT(limit > 0);
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "error %.1e of %.1e allowed", nmse, limit);
  return nmse <= limit; /* false for NaN */
}

static bool say(bool good, const char *sentence, char *text)
{
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "%s", sentence);
  return good;
}

/* ---- formats ---- */

static bool check_formats(const struct kc_ops *ops, void *context, char *text)
{
  (void)ops, (void)context;
  unsigned wrong = 0;
  for (unsigned code = 0; code < 256; code++) {
    const float x = kc_e4m3_decode((uint8_t)code);
    if (x == x) wrong += kc_e4m3_encode(x) != code;
  }
  for (unsigned code = 0; code < 65536; code++) {
    const float x = kc_bf16_decode((uint16_t)code);
    if (x == x) wrong += kc_bf16_encode(x) != code;
  }
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "%u of 65,792 codes come back as another", wrong);
  return wrong == 0;
}

/* ---- rows ---- */

static bool check_gather(const struct kc_ops *ops, void *context, char *text)
{
  ALIGNED uint16_t source[ROWS * WIDTH], out[3 * WIDTH];
  const int32_t index[3] = {4, -1, 0};
  draw_bf16(source, ROWS * WIDTH, 1);
  const struct kc_op_gather op = {3, WIDTH, source, ROWS, WIDTH, index, out, WIDTH};
  bool good = ops->gather(context, &op) == KC_OP_OK;
  for (int i = 0; i < WIDTH; i++) {
    good = good && out[i] == source[4 * WIDTH + i] && out[WIDTH + i] == 0 &&
           out[2 * WIDTH + i] == source[i];
  }
  return say(good, "rows as they were, and zeros for no row", text);
}

static bool check_norm(const struct kc_ops *ops, void *context, char *text)
{
  ALIGNED uint16_t x[ROWS * WIDTH], weight[WIDTH], out[ROWS * WIDTH];
  struct error e = {0};
  draw_bf16(x, ROWS * WIDTH, 2);
  draw_bf16(weight, WIDTH, 3);
  const struct kc_op_rms_norm op = {.rows = ROWS, .width = WIDTH, .x = x, .x_stride = WIDTH,
                                    .weight = weight, .epsilon = 1e-5f, .out = out,
                                    .out_stride = WIDTH};
  if (ops->rms_norm(context, &op) != KC_OP_OK) return say(false, "refused", text);
  for (int r = 0; r < ROWS; r++) {
    double squares = 0;
    for (int i = 0; i < WIDTH; i++) squares += value(x[r * WIDTH + i]) * value(x[r * WIDTH + i]);
    const double scale = 1.0 / sqrt(squares / WIDTH + 1e-5);
    for (int i = 0; i < WIDTH; i++) {
      add_error(&e, value(out[r * WIDTH + i]), value(x[r * WIDTH + i]) * value(weight[i]) * scale);
    }
  }
  return judge(&e, KC_TOL_NORM_NMSE, text);
}

static bool rotate(const struct kc_ops *ops, void *context, uint16_t *x, int32_t position)
{
  ALIGNED float high[DIM], low[256 * DIM];
  double frequency[DIM / 2];
  for (int i = 0; i < DIM / 2; i++) frequency[i] = 1.0 / (1 << i);
  kc_rope_tables(high, low, frequency, DIM, 256, 1.0);
  const struct kc_op_rope op = {.rows = 1, .heads = 1, .head_dim = DIM, .offset = 0, .dims = DIM,
                                .pairs = KC_ROPE_HALF, .position = &position, .positions = 256,
                                .high = high, .low = low, .x = x, .x_stride = DIM};
  return ops->rope(context, &op) == KC_OP_OK;
}

/* q at position a times k at position b: depends on a - b alone. */
static double score(const struct kc_ops *ops, void *context, int32_t a, int32_t b, bool *good)
{
  ALIGNED uint16_t q[DIM], k[DIM];
  double sum = 0;
  draw_bf16(q, DIM, 4);
  draw_bf16(k, DIM, 5);
  *good = rotate(ops, context, q, a) && rotate(ops, context, k, b) && *good;
  for (int i = 0; i < DIM; i++) sum += value(q[i]) * value(k[i]);
  return sum;
}

static bool check_rope(const struct kc_ops *ops, void *context, char *text)
{
  bool good = true;
  const double near = score(ops, context, 7, 3, &good), far = score(ops, context, 104, 100, &good);
  const double other = score(ops, context, 60, 3, &good);
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "scores %.3f and %.3f four tokens apart, %.3f at 57",
           near, far, other);
  return good && fabs(near - far) < 0.15 && fabs(near - other) > 0.15; /* bf16 of 16 products */
}

static bool check_swiglu(const struct kc_ops *ops, void *context, char *text)
{
  ALIGNED uint16_t x[2 * 2 * WIDTH], out[2 * WIDTH];
  struct error e = {0};
  draw_bf16(x, WIDTH, 6);
  for (int i = 0; i < WIDTH; i++) {
    x[WIDTH + i] = x[3 * WIDTH + i] = kc_bf16_encode(1.0f);
    x[2 * WIDTH + i] = x[i] ^ 0x8000u; /* the second row: gates of the other sign */
  }
  const struct kc_op_swiglu op = {2, WIDTH, x, 2 * WIDTH, out, WIDTH};
  if (ops->swiglu(context, &op) != KC_OP_OK) return say(false, "refused", text);
  /* silu(g) - silu(-g) = g */
  for (int i = 0; i < WIDTH; i++) add_error(&e, value(out[i]) - value(out[WIDTH + i]), value(x[i]));
  return judge(&e, 2 * KC_TOL_NORM_NMSE, text);
}

/* ---- products ---- */

struct product {
  ALIGNED uint16_t x[ROWS * WIDTH];
  ALIGNED uint8_t codes[N * WIDTH * 2];
  ALIGNED uint16_t scales[N * WIDTH / 32];
  ALIGNED float out[ROWS * N];
  double weight[N * WIDTH]; /* what the codes stand for */
  float scale;
};

/* `panel` not NULL: by way of BF16, through as much scratch as panels of 16 outputs take. */
static bool run_product(const struct kc_ops *ops, void *context, struct product *p,
                        enum kc_weight_format format, uint16_t *panel, char *text)
{
  struct error e = {0};
  draw_bf16(p->x, ROWS * WIDTH, 7);
  const struct kc_op_gemm op = {.rows = ROWS, .x_type = KC_DTYPE_BF16, .x = p->x,
                                .x_stride = WIDTH,
                                .weight = {.format = format, .rows = N, .cols = WIDTH,
                                           .data = p->codes, .scale_f32 = &p->scale,
                                           .scale_bf16 = p->scales},
                                .out_type = KC_DTYPE_F32, .out = p->out, .out_stride = N};
  KC_ASSERT(WIDTH % 32 == 0);
  const enum kc_op_status status =
      panel == NULL ? ops->gemm(context, &op)
                    : kc_dense_product(ops, context, &op, panel, 2 * 16 * WIDTH);
  if (status != KC_OP_OK) return say(false, "refused", text);
  for (int r = 0; r < ROWS; r++) {
    for (int n = 0; n < N; n++) {
      double want = 0;
      for (int k = 0; k < WIDTH; k++) want += value(p->x[r * WIDTH + k]) * p->weight[n * WIDTH + k];
      add_error(&e, (double)p->out[r * N + n], want);
    }
  }
  return judge(&e, KC_TOL_GEMM_F32_NMSE, text);
}

static bool check_gemm_bf16(const struct kc_ops *ops, void *context, char *text)
{
  struct product p = {.scale = 1};
  ALIGNED uint16_t codes[N * WIDTH];
  draw_bf16(codes, N * WIDTH, 8);
  memcpy(p.codes, codes, sizeof codes);
  for (int i = 0; i < N * WIDTH; i++) p.weight[i] = value(codes[i]);
  return run_product(ops, context, &p, KC_WEIGHT_BF16, NULL, text);
}

static bool check_gemm_fp8(const struct kc_ops *ops, void *context, char *text)
{
  struct product p = {.scale = 0.03125f};
  for (int i = 0; i < N * WIDTH; i++) {
    p.codes[i] = kc_e4m3_encode(16.0f * kc_counter_normal(41, 9, (uint64_t)i));
    p.weight[i] = (double)kc_e4m3_decode(p.codes[i]) * (double)p.scale;
  }
  return run_product(ops, context, &p, KC_WEIGHT_FP8, NULL, text);
}

static void draw_int4(struct product *p)
{
  KC_ASSERT(WIDTH % 32 == 0);
  for (uint64_t i = 0; i < N * WIDTH; i++) {
    const uint16_t scale = kc_bf16_encode(0.0625f + 0.0625f * (float)(i / 32 % 7));
    const int code = (int)(kc_counter_u64(41, 10, i) % 16) - 8;
    p->scales[i / 32] = scale;
    kc_int4_set(p->codes, i, code);
    p->weight[i] = (double)code * value(scale);
  }
}

static bool check_gemm_int4(const struct kc_ops *ops, void *context, char *text)
{
  struct product p = {.scale = 1};
  draw_int4(&p);
  return run_product(ops, context, &p, KC_WEIGHT_INT4_G32, NULL, text);
}

/* The scales have at most 3 bits, so that rounding to BF16 changes no weight. */
static bool check_gemm_dense(const struct kc_ops *ops, void *context, char *text)
{
  struct product p = {.scale = 1};
  ALIGNED uint16_t panel[16 * WIDTH];
  KC_ASSERT(N > 2 * 16); /* three panels */
  draw_int4(&p);
  return run_product(ops, context, &p, KC_WEIGHT_INT4_G32, panel, text);
}

static bool check_head_gemm(const struct kc_ops *ops, void *context, char *text)
{
  enum { HEADS = 3, K = 32 };
  ALIGNED uint16_t x[ROWS * HEADS * K], weight[HEADS * DIM * K], out[ROWS * HEADS * DIM];
  struct error e = {0};
  draw_bf16(x, ROWS * HEADS * K, 11);
  draw_bf16(weight, HEADS * DIM * K, 12);
  const struct kc_op_head_gemm op = {ROWS, HEADS, DIM, K, x, HEADS * K, K, weight, out,
                                     HEADS * DIM, DIM};
  if (ops->head_gemm(context, &op) != KC_OP_OK) return say(false, "refused", text);
  for (int r = 0; r < ROWS * HEADS; r++) {
    for (int n = 0; n < DIM; n++) {
      double want = 0;
      for (int k = 0; k < K; k++) {
        want += value(x[r * K + k]) * value(weight[(r % HEADS * DIM + n) * K + k]);
      }
      add_error(&e, value(out[r * DIM + n]), want);
    }
  }
  return judge(&e, KC_TOL_GEMM_BF16_NMSE, text);
}

static bool check_quantise(const struct kc_ops *ops, void *context, char *text)
{
  ALIGNED uint16_t x[ROWS * WIDTH];
  ALIGNED uint8_t out[ROWS * WIDTH];
  float scale[ROWS];
  double worst = 0;
  draw_bf16(x, ROWS * WIDTH, 13);
  const struct kc_op_quantise_rows op = {ROWS, WIDTH, x, WIDTH, out, WIDTH, scale};
  if (ops->quantise_rows(context, &op) != KC_OP_OK) return say(false, "refused", text);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    const double step = (double)scale[i / WIDTH];
    const double off = fabs((double)kc_e4m3_decode(out[i]) * step - value(x[i]));
    /* Half a unit of three mantissa bits, or of the smallest subnormal, 2^-9. */
    const double allowed = fabs(value(x[i])) / 16 + step / 1024;
    if (off / allowed > worst) worst = off / allowed;
  }
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "%.2f of half a unit in the last place", worst);
  return worst <= 1.0001;
}

/* ---- experts ---- */

static bool check_experts(const struct kc_ops *ops, void *context, char *text)
{
  enum { EXPERTS = 4, TOP = 2, CHOICES = ROWS * TOP };
  ALIGNED float logits[ROWS * EXPERTS];
  float weight[CHOICES];
  int32_t expert[CHOICES], source[CHOICES], place[CHOICES];
  uint32_t first[EXPERTS + 1];
  ALIGNED uint16_t x[ROWS * WIDTH], w[EXPERTS * WIDTH * WIDTH], y[CHOICES * WIDTH];
  ALIGNED uint16_t out[ROWS * WIDTH];
  struct error e = {0};
  for (int i = 0; i < ROWS * EXPERTS; i++) logits[i] = kc_counter_normal(41, 14, (uint64_t)i);
  draw_bf16(x, ROWS * WIDTH, 15);
  draw_bf16(w, EXPERTS * WIDTH * WIDTH, 16);
  const struct kc_op_route route = {ROWS, EXPERTS, TOP, 1, 1, KC_ROUTE_SOFTMAX, true, 1.0f,
                                    logits, EXPERTS, NULL, expert, weight};
  const struct kc_op_moe_sort sort = {ROWS, TOP, EXPERTS, 0, expert, first, source, place};
  const struct kc_op_grouped_gemm gemm = {
      EXPERTS, CHOICES, first, source, x, WIDTH,
      {.format = KC_WEIGHT_BF16, .rows = WIDTH, .cols = WIDTH, .data = w},
      2 * WIDTH * WIDTH, 0, y, WIDTH};
  const struct kc_op_moe_combine combine = {ROWS, TOP, WIDTH, y, WIDTH, place, weight, NULL, 0,
                                            out, WIDTH};
  if (ops->route(context, &route) != KC_OP_OK || ops->moe_sort(context, &sort) != KC_OP_OK ||
      ops->grouped_gemm(context, &gemm) != KC_OP_OK ||
      ops->moe_combine(context, &combine) != KC_OP_OK) {
    return say(false, "refused", text);
  }
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int c = 0; c < TOP; c++) sum += (double)weight[r * TOP + c];
    if (fabs(sum - 1.0) > 1e-5) return say(false, "weights do not add up to 1", text);
    for (int n = 0; n < WIDTH; n++) {
      double want = 0;
      for (int c = 0; c < TOP; c++) {
        const uint16_t *row = w + (expert[r * TOP + c] * WIDTH + n) * WIDTH;
        double dot = 0;
        for (int k = 0; k < WIDTH; k++) dot += value(x[r * WIDTH + k]) * value(row[k]);
        want += (double)weight[r * TOP + c] * dot;
      }
      add_error(&e, value(out[r * WIDTH + n]), want);
    }
  }
  return judge(&e, 2 * KC_TOL_GEMM_BF16_NMSE, text);
}

/* ---- paged attention ---- */

/* One layer of one kv head over eight pages of sixteen tokens, two slots of four entries. */
struct bed {
  ALIGNED uint8_t k[PAGES * PAGE * DIM * 2], v[PAGES * PAGE * DIM * 2];
  struct kc_page_ref entry[SLOTS * ENTRIES];
  uint32_t tag[PAGES], verdict[SLOTS];
  uint64_t counter[KC_TAG_COUNTERS];
  struct kc_tag_event ring[4];
  struct kc_kv_layer layer;
  ALIGNED uint16_t key[ENTRIES * PAGE * DIM], val[ENTRIES * PAGE * DIM], q[2 * DIM];
};

static struct kc_page_table table_of(const struct bed *b)
{
  return (struct kc_page_table){b->entry, SLOTS, ENTRIES};
}

static struct kc_tag_state tags_of(struct bed *b)
{
  return (struct kc_tag_state){.tag = b->tag, .verdict = b->verdict, .counter = b->counter,
                               .ring = b->ring, .ring_capacity = 4, .pages = PAGES};
}

/* `turn` moves the pages about. */
static void make_bed(struct bed *b, uint32_t turn)
{
  memset(b, 0, sizeof *b);
  for (uint32_t i = 0; i < PAGES; i++) b->tag[i] = 100 + i;
  for (uint32_t i = 0; i < SLOTS * ENTRIES; i++) {
    const uint32_t page = (i * 3 + turn) % PAGES;
    b->entry[i] = (struct kc_page_ref){page, b->tag[page]};
  }
  memset(b->verdict, 0xFF, sizeof b->verdict);
  b->layer = (struct kc_kv_layer){.kind = KC_PAGED_GQA, .k_format = KC_KV_BF16,
                                  .v_format = KC_KV_BF16, .pages = PAGES, .page_tokens = PAGE,
                                  .kv_heads = 1, .head_dim = DIM, .k = b->k, .v = b->v,
                                  .k_page_bytes = PAGE * DIM * 2, .v_page_bytes = PAGE * DIM * 2};
  draw_bf16(b->key, ENTRIES * PAGE * DIM, 17);
  draw_bf16(b->val, ENTRIES * PAGE * DIM, 18);
  draw_bf16(b->q, 2 * DIM, 19);
}

/* Writes `tokens` tokens of slot 0. */
static bool write_tokens(const struct kc_ops *ops, void *context, struct bed *b, uint32_t tokens)
{
  uint32_t slot[ENTRIES * PAGE] = {0};
  int32_t position[ENTRIES * PAGE];
  for (uint32_t i = 0; i < tokens; i++) position[i] = (int32_t)i;
  const struct kc_op_kv_write op = {.rows = tokens, .k = b->key, .k_stride = DIM, .v = b->val,
                                    .v_stride = DIM, .slot = slot, .position = position,
                                    .table = table_of(b), .layer = b->layer,
                                    .integrity = tags_of(b)};
  KC_ASSERT(tokens <= ENTRIES * PAGE);
  return ops->kv_write(context, &op) == KC_OP_OK;
}

/* One query of two heads over the first `tokens` tokens of slot 0. */
static bool decode(const struct kc_ops *ops, void *context, struct bed *b, uint32_t tokens,
                   uint16_t out[2 * DIM])
{
  const uint32_t slot = 0, first[2] = {0, 0};
  const struct kc_split split = {0, 0, tokens, KC_PARTIAL_NONE};
  const struct kc_op_decode op = {.rows = 1, .q_heads = 2, .q = b->q, .q_stride = 2 * DIM,
                                  .slot = &slot, .context = &tokens, .scale = 0.25f,
                                  .table = table_of(b), .layer = b->layer, .verdict = b->verdict,
                                  .plan = {&split, 1, first, 0}, .out = out,
                                  .out_stride = 2 * DIM};
  KC_ASSERT(tokens > 0);
  return ops->decode(context, &op) == KC_OP_OK;
}

static bool check_decode(const struct kc_ops *ops, void *context, char *text)
{
  struct bed a, b;
  ALIGNED uint16_t one[2 * DIM], out[2 * DIM], moved[2 * DIM];
  make_bed(&a, 0);
  make_bed(&b, 5);
  bool good = write_tokens(ops, context, &a, 53) && write_tokens(ops, context, &b, 53) &&
              decode(ops, context, &a, 1, one) && decode(ops, context, &a, 53, out) &&
              decode(ops, context, &b, 53, moved);
  good = good && memcmp(one, a.val, 2 * DIM) == 0 && memcmp(one + DIM, a.val, 2 * DIM) == 0;
  if (!good) return say(false, "attention to one token is not that token's value", text);
  if (memcmp(out, moved, sizeof out) != 0) return say(false, "depends on where pages lie", text);
  return say(memcmp(out, one, sizeof out) != 0,
             "one token gives its value; moving the pages changes nothing", text);
}

static bool check_decode_mean(const struct kc_ops *ops, void *context, char *text)
{
  struct bed b;
  ALIGNED uint16_t out[2 * DIM];
  struct error e = {0};
  make_bed(&b, 2);
  for (int i = DIM; i < ENTRIES * PAGE * DIM; i++) b.key[i] = b.key[i % DIM]; /* all keys alike */
  if (!write_tokens(ops, context, &b, 58) || !decode(ops, context, &b, 58, out)) {
    return say(false, "refused", text);
  }
  for (int i = 0; i < DIM; i++) {
    double mean = 0;
    for (int t = 0; t < 58; t++) mean += value(b.val[t * DIM + i]) / 58;
    add_error(&e, value(out[i]), mean);
    add_error(&e, value(out[DIM + i]), mean);
  }
  return judge(&e, KC_TOL_ATTENTION_NMSE, text);
}

static bool check_prefill(const struct kc_ops *ops, void *context, char *text)
{
  enum { CHUNK = 6, START = 29 };
  struct bed b;
  ALIGNED uint16_t q[CHUNK * 2 * DIM], out[CHUNK * 2 * DIM], want[2 * DIM];
  struct error e = {0};
  make_bed(&b, 1);
  draw_bf16(q, CHUNK * 2 * DIM, 20);
  const struct kc_attention_chunk chunk = {0, 0, START, CHUNK};
  const struct kc_op_prefill op = {.chunks = 1, .q_heads = 2, .chunk = &chunk,
                                   .chunk_host = &chunk, .q = q, .q_stride = 2 * DIM,
                                   .scale = 0.25f, .table = table_of(&b), .layer = b.layer,
                                   .verdict = b.verdict, .out = out, .out_stride = 2 * DIM};
  bool good = write_tokens(ops, context, &b, START + CHUNK) &&
              ops->prefill(context, &op) == KC_OP_OK;
  for (uint32_t r = 0; r < CHUNK && good; r++) {
    memcpy(b.q, q + r * 2 * DIM, sizeof b.q);
    good = decode(ops, context, &b, START + r + 1, want);
    const uint16_t *got = out + r * 2 * DIM;
    for (int i = 0; i < 2 * DIM; i++) add_error(&e, value(got[i]), value(want[i]));
  }
  return good ? judge(&e, KC_TOL_ATTENTION_NMSE, text) : say(false, "refused", text);
}

/* ---- page tags ---- */

static bool check_tag_write(const struct kc_ops *ops, void *context, char *text)
{
  struct bed b;
  make_bed(&b, 0);
  b.entry[1].tag ^= 1;  /* stale */
  b.entry[2].page = 99; /* outside the pool */
  if (!write_tokens(ops, context, &b, 64)) return say(false, "refused altogether", text);
  static const uint8_t untouched[PAGE * DIM * 2];
  const uint8_t *page = b.k + b.entry[1].page * b.layer.k_page_bytes;
  const bool good = memcmp(page, untouched, sizeof untouched) == 0 && b.verdict[0] == 1 &&
                    b.counter[KC_COUNT_WRITES_REFUSED] >= 32 &&
                    b.counter[KC_COUNT_WRITES] + b.counter[KC_COUNT_WRITES_REFUSED] == 64;
  return say(good, "stale and foreign pages are not written", text);
}

static bool check_tag_check(const struct kc_ops *ops, void *context, char *text)
{
  struct bed b;
  const uint32_t slot[2] = {0, 1}, entries[2] = {4, 3};
  make_bed(&b, 3);
  const struct kc_op_tag_check op = {.rows = 2, .slot = slot, .entries = entries,
                                     .table = table_of(&b), .integrity = tags_of(&b)};
  bool good = ops->tag_check(context, &op) == KC_OP_OK && b.counter[KC_COUNT_EVENTS] == 0;
  b.entry[ENTRIES + 2].tag += 7;
  good = ops->tag_check(context, &op) == KC_OP_OK && good;
  good = good && b.counter[KC_COUNT_CHECKS] == 2 && b.counter[KC_COUNT_ENTRIES] == 14 &&
         b.counter[KC_COUNT_EVENTS] == 1 && b.verdict[0] == KC_VERDICT_CLEAR &&
         b.verdict[1] == 2 && b.ring[0].slot == 1 && b.ring[0].index == 2;
  return say(good, "one stale entry among 14 is found, and only that", text);
}

/* Two sound entries that changed places: their tags are right, their places are not. */
static bool check_tag_place(const struct kc_ops *ops, void *context, char *text)
{
  struct bed b;
  const uint32_t slot[2] = {0, 1}, entries[2] = {3, 3};
  uint64_t place[PAGES] = {0};
  make_bed(&b, 3);
  for (uint32_t i = 0; i < SLOTS * ENTRIES; i++) {
    place[b.entry[i].page] = KC_PAGE_PLACE(i / ENTRIES, i % ENTRIES);
  }
  place[b.entry[0].page] = 0; /* shared: any row may name it */
  b.entry[ENTRIES] = b.entry[0];
  const struct kc_op_tag_check op = {2, slot, entries, table_of(&b), tags_of(&b), place};
  bool good = ops->tag_check(context, &op) == KC_OP_OK && b.counter[KC_COUNT_EVENTS] == 0;
  const struct kc_page_ref swapped = b.entry[1];
  b.entry[1] = b.entry[ENTRIES + 2];
  b.entry[ENTRIES + 2] = swapped;
  good = ops->tag_check(context, &op) == KC_OP_OK && good;
  good = good && b.counter[KC_COUNT_EVENTS] == 2 && b.verdict[0] == 1 && b.verdict[1] == 2 &&
         b.ring[0].source == KC_TAG_PLACE && b.ring[0].want == b.ring[0].got;
  return say(good, "two entries that changed places are found, a shared page is not", text);
}

static bool check_tag_mask(const struct kc_ops *ops, void *context, char *text)
{
  struct bed b;
  ALIGNED uint16_t out[2 * DIM];
  bool good = true;
  make_bed(&b, 0);
  good = write_tokens(ops, context, &b, 8);
  b.verdict[0] = 1;
  good = decode(ops, context, &b, 8, out) && good;
  for (int i = 0; i < 2 * DIM; i++) good = good && out[i] == 0;
  return say(good, "an aborted request reads nothing", text);
}

/* ---- sampling ---- */

static bool check_sample(const struct kc_ops *ops, void *context, char *text)
{
  enum { DRAWS = 4000 };
  ALIGNED float logits[8] = {0.0f, 1.0986123f, -INFINITY, 0.0f}; /* 1 : 3 : 0 : 1 */
  const float hot = 1.0f;
  int32_t token, seen[4] = {0};
  struct kc_op_sample op = {.rows = 1, .vocabulary = 4, .logits = logits, .logits_stride = 8,
                            .token = &token};
  if (ops->sample(context, &op) != KC_OP_OK || token != 1) return say(false, "not greedy", text);
  for (int32_t i = 0; i < DRAWS; i++) {
    const uint64_t seed = 5;
    op.temperature = &hot, op.seed = &seed, op.position = &i;
    const bool drawn = ops->sample(context, &op) == KC_OP_OK;
    if (!drawn || token < 0 || token > 3) return say(false, "no token drawn", text);
    seen[token]++;
  }
  snprintf(text, KC_SELF_CHECK_TEXT_BYTES, "greedy; %d %d %d %d of 4000 draws at 1 : 3 : 0 : 1",
           seen[0], seen[1], seen[2], seen[3]);
  /* Five standard deviations of a binomial: 5 sqrt(4000 * 0.6 * 0.4) = 155. */
  return seen[2] == 0 && seen[1] > 2400 - 155 && seen[1] < 2400 + 155;
}

const struct kc_self_check *kc_self_checks(size_t *count)
{
  static const struct kc_self_check checks[] = {
      {"formats", "every E4M3 and BF16 code survives a round trip", check_formats},
      {"gather", "rows are copied", check_gather},
      {"rms-norm", "as computed in double", check_norm},
      {"rope", "scores depend on distances alone", check_rope},
      {"gemm-bf16", "as computed in double", check_gemm_bf16},
      {"gemm-fp8", "as computed in double", check_gemm_fp8},
      {"gemm-int4", "as computed in double", check_gemm_int4},
      {"gemm-dense", "int4 by way of bf16, in panels, as computed in double", check_gemm_dense},
      {"head-gemm", "as computed in double", check_head_gemm},
      {"quantise", "E4M3 rounds to nearest", check_quantise},
      {"swiglu", "silu(g) - silu(-g) = g", check_swiglu},
      {"experts", "route, sort, product and sum as computed in double", check_experts},
      {"decode", "one token, and pages in another order", check_decode},
      {"decode-mean", "equal keys give the mean of the values", check_decode_mean},
      {"prefill", "each row is a decode", check_prefill},
      {"sample", "greedy, and draws in proportion", check_sample},
      {"tag-write", "a write to a stale page is refused", check_tag_write},
      {"tag-check", "a stale entry is found", check_tag_check},
      {"tag-place", "a sound entry in the wrong place is found", check_tag_place},
      {"tag-mask", "an aborted request attends to nothing", check_tag_mask},
  };
  KC_ASSERT(count != NULL);
  *count = sizeof checks / sizeof checks[0];
  return checks;
}
