/* Evaluation over windows of a text: see the header.
 *
 *   task     a group of up to GROUP windows, one slot each, taken by one member of the team
 *   member   has GROUP slots, their pages, and a forward for itself; nothing is shared but weights
 *   score    per window, in text order
 *
 * A window's pages are scattered over its member's part of the pool, so that an implementation
 * which forgets the table is found out.
 */
#include "engine/exec/evaluate.h"

#include <math.h>
#include <string.h>

#include "engine/base/check.h"
#include "kernels/ops/op_math.h"

enum { GROUP = 8, PAGE_TOKENS = 16, CHUNK = 64 };

struct score {
  double nll, kl;
  uint32_t same;
};

struct member {
  struct kc_forward forward;
  uint64_t chunk_rows, decode_rows;
  enum kc_op_status status;
};

struct evaluator {
  const struct kc_evaluate_config *config;
  struct kc_cache cache;
  struct kc_arena arena;
  uint32_t windows, window_pages, slots;
  struct member *member;     /* [threads] */
  struct score *score;       /* [windows] */
  struct kc_page_ref *entry; /* [slots][window_pages] */
  uint32_t *tag;             /* [slots * window_pages] */
  uint32_t *verdict;         /* [slots] */
};

/* ---- the text ---- */

static uint32_t window_tokens(const struct kc_evaluate_config *c, uint32_t window)
{
  const uint64_t first = (uint64_t)window * c->window;
  KC_ASSERT(first < c->bytes);
  return c->bytes - first < c->window ? (uint32_t)(c->bytes - first) : c->window;
}

uint64_t kc_evaluate_predictions(uint64_t bytes, uint32_t window)
{
  KC_ASSERT(window >= 2);
  return bytes - (bytes + window - 1) / window;
}

/* ---- set-up ---- */

static enum kc_err make_cache(struct evaluator *e, struct kc_diag *diag)
{
  const struct kc_evaluate_config *c = e->config;
  const struct kc_cache_config cache = {.k_format = c->kv_format, .v_format = c->kv_format,
                                        .pages = e->slots * e->window_pages,
                                        .page_tokens = PAGE_TOKENS};
  KC_ASSERT(cache.pages > 0);
  return kc_cache_init(&e->cache, &c->weights->recipe, &cache, diag);
}

static size_t arena_bytes(const struct evaluator *e)
{
  const size_t pages = (size_t)e->slots * e->window_pages;
  KC_ASSERT(e->windows > 0);
  return kc_arena_need(e->config->threads, sizeof(struct member)) +
         kc_arena_need(e->windows, sizeof(struct score)) +
         kc_arena_need(pages, sizeof(struct kc_page_ref)) + kc_arena_need(pages, 4) +
         kc_arena_need(e->slots, 4) +
         e->config->threads * kc_forward_need(&e->config->weights->recipe, CHUNK);
}

/* Page `i` of a member's part goes to its slots in turn: neighbours in a row lie apart. */
static void lay_out_pages(struct evaluator *e)
{
  const uint32_t part = GROUP * e->window_pages;
  KC_ASSERT(e->slots % GROUP == 0);
  for (uint32_t i = 0; i < e->slots * e->window_pages; i++) {
    const uint32_t first_slot = i / part * GROUP, within = i % part;
    const uint32_t slot = first_slot + within % GROUP, index = within / GROUP;
    e->tag[i] = 1 + (i * UINT32_C(2654435761)) % UINT32_C(0xFFFFFFFE);
    e->entry[(size_t)slot * e->window_pages + index] = (struct kc_page_ref){i, e->tag[i]};
  }
}

static enum kc_err make_members(struct evaluator *e, struct kc_diag *diag)
{
  const struct kc_evaluate_config *c = e->config;
  const struct kc_forward_config pass = {.weights = c->weights, .cache = &e->cache,
                                         .table = {e->entry, e->slots, e->window_pages},
                                         .rows_max = CHUNK};
  KC_ASSERT(c->threads > 0);
  for (uint32_t i = 0; i < c->threads; i++) {
    struct kc_forward *f = &e->member[i].forward;
    KC_TRY(kc_forward_init(f, &pass, &e->arena, diag));
    f->tags = (struct kc_tag_state){.tag = e->tag, .verdict = e->verdict, .counter = f->counter,
                                    .ring = f->ring, .ring_capacity = KC_FORWARD_RING,
                                    .pages = e->cache.layer[0].pages};
  }
  return KC_OK;
}

static enum kc_err set_up(struct evaluator *e, struct kc_diag *diag)
{
  const struct kc_evaluate_config *c = e->config;
  e->windows = (uint32_t)((c->bytes + c->window - 1) / c->window);
  e->window_pages = (c->window + PAGE_TOKENS - 1) / PAGE_TOKENS;
  e->slots = c->threads * GROUP;
  KC_TRY(make_cache(e, diag));
  KC_TRY(kc_arena_init(&e->arena, arena_bytes(e), diag));
  const size_t pages = (size_t)e->slots * e->window_pages;
  e->member = kc_arena_take(&e->arena, c->threads, sizeof *e->member);
  e->score = kc_arena_take(&e->arena, e->windows, sizeof *e->score);
  e->entry = kc_arena_take(&e->arena, pages, sizeof *e->entry);
  e->tag = kc_arena_take(&e->arena, pages, sizeof *e->tag);
  e->verdict = kc_arena_take(&e->arena, e->slots, sizeof *e->verdict);
  KC_ASSERT(e->verdict != NULL); /* the arena is as large as these */
  memset(e->verdict, 0xFF, e->slots * sizeof *e->verdict);
  lay_out_pages(e);
  return make_members(e, diag);
}

/* ---- scores ---- */

/* log(sum exp(logit)) and the likeliest token. */
static double log_sum_exp(const float *logit, uint32_t count, uint32_t *likeliest)
{
  double term[KC_MATH_BATCH], sum = 0;
  uint32_t best = 0;
  KC_ASSERT(count > 0);
  for (uint32_t i = 1; i < count; i++) best = logit[i] > logit[best] ? i : best;
  const double most = (double)logit[best];
  for (uint32_t first = 0; first < count; first += KC_MATH_BATCH) {
    const uint32_t n = count - first < KC_MATH_BATCH ? count - first : KC_MATH_BATCH;
    for (uint32_t i = 0; i < n; i++) term[i] = (double)logit[first + i] - most;
    kc_math_exp_batch(term, n);
    for (uint32_t i = 0; i < n; i++) sum += term[i];
  }
  *likeliest = best;
  return most + kc_math_log(sum);
}

/* sum p (log p - log q), both given by logits and their log-sum-exp. */
static double divergence(const float *p, double p_lse, const float *q, double q_lse,
                         uint32_t count)
{
  double term[KC_MATH_BATCH], sum = 0;
  KC_ASSERT(count > 0);
  for (uint32_t first = 0; first < count; first += KC_MATH_BATCH) {
    const uint32_t n = count - first < KC_MATH_BATCH ? count - first : KC_MATH_BATCH;
    for (uint32_t i = 0; i < n; i++) term[i] = (double)p[first + i] - p_lse;
    kc_math_exp_batch(term, n);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t t = first + i;
      sum += term[i] * (((double)p[t] - p_lse) - ((double)q[t] - q_lse));
    }
  }
  return sum;
}

/* The prediction of what follows token `position` of a window. */
static void add_prediction(struct evaluator *e, uint32_t window, uint32_t position,
                           const float *logit)
{
  const struct kc_evaluate_config *c = e->config;
  const uint32_t vocabulary = c->weights->recipe.vocabulary;
  const uint64_t at = (uint64_t)window * (c->window - 1) + position;
  const unsigned char next = c->text[(uint64_t)window * c->window + position + 1];
  struct score *score = &e->score[window];
  uint32_t likeliest, other;
  KC_ASSERT(position + 1 < window_tokens(c, window));
  const double lse = log_sum_exp(logit, vocabulary, &likeliest);
  score->nll += lse - (double)logit[next];
  if (c->against == NULL) {
    score->same++;
  } else {
    const float *p = c->against + at * vocabulary;
    const double p_lse = log_sum_exp(p, vocabulary, &other);
    score->kl += divergence(p, p_lse, logit, lse, vocabulary);
    score->same += likeliest == other;
  }
  if (c->keep != NULL) memcpy(c->keep + at * vocabulary, logit, vocabulary * sizeof *logit);
}

/* ---- the passes ---- */

/* Compares the rows of the group's slots with the pool's tags, as before every step. */
static enum kc_op_status check_tags(struct evaluator *e, struct kc_forward *f,
                                    const struct kc_piece *piece, uint32_t pieces)
{
  uint32_t slot[GROUP], entries[GROUP];
  KC_ASSERT(pieces <= GROUP);
  for (uint32_t i = 0; i < pieces; i++) {
    slot[i] = piece[i].slot;
    entries[i] = (piece[i].start + piece[i].count + PAGE_TOKENS - 1) / PAGE_TOKENS;
    KC_ASSERT(entries[i] <= e->window_pages);
  }
  const struct kc_op_tag_check check = {.rows = pieces, .slot = slot, .entries = entries,
                                        .table = f->table, .integrity = f->tags};
  return f->site.ops->tag_check(f->site.context, &check);
}

/* One pass; `window[i]` is the window of piece i. */
static void run_pass(struct evaluator *e, struct member *m, struct kc_piece *piece,
                     const uint32_t *window, uint32_t pieces)
{
  const struct kc_evaluate_config *c = e->config;
  int32_t token[CHUNK];
  uint32_t rows = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    const unsigned char *text = c->text + (uint64_t)window[p] * c->window + piece[p].start;
    KC_ASSERT(rows + piece[p].count <= CHUNK);
    for (uint32_t i = 0; i < piece[p].count; i++) token[rows++] = text[i];
  }
  if (m->status == KC_OP_OK) m->status = check_tags(e, &m->forward, piece, pieces);
  if (m->status == KC_OP_OK) m->status = kc_forward_run(&m->forward, piece, pieces, token);
  if (m->status != KC_OP_OK) return;
  uint32_t row = 0;
  for (uint32_t p = 0; p < pieces; p++) {
    for (uint32_t i = 0; i < piece[p].count; i++) {
      add_prediction(e, window[p], piece[p].start + i, kc_forward_logits(&m->forward, row++));
    }
  }
}

/* Tokens [0, half) of a window, as a prompt comes. */
static void run_prompt(struct evaluator *e, struct member *m, uint32_t slot, uint32_t window,
                       uint32_t half)
{
  KC_ASSERT(half < window_tokens(e->config, window));
  for (uint32_t start = 0; start < half; start += CHUNK) {
    const uint32_t count = half - start < CHUNK ? half - start : CHUNK;
    struct kc_piece piece = {.slot = slot, .start = start, .count = count, .yields = true,
                             .every = true};
    run_pass(e, m, &piece, &window, 1);
    m->chunk_rows += count;
  }
}

static void run_group(void *context, uint32_t index, uint32_t task)
{
  struct evaluator *e = context;
  struct member *m = &e->member[index];
  const uint32_t first = task * GROUP, slot = index * GROUP;
  const uint32_t count = e->windows - first < GROUP ? e->windows - first : GROUP;
  uint32_t inputs[GROUP], longest = 0; /* a window's last token is only predicted */
  KC_ASSERT(first < e->windows);
  for (uint32_t i = 0; i < count; i++) {
    inputs[i] = window_tokens(e->config, first + i) - 1;
    if (inputs[i] > longest) longest = inputs[i];
    if (inputs[i] > 0) run_prompt(e, m, slot + i, first + i, inputs[i] / 2);
  }
  for (uint32_t position = 0; position < longest; position++) {
    struct kc_piece piece[GROUP];
    uint32_t window[GROUP], pieces = 0;
    for (uint32_t i = 0; i < count; i++) {
      if (position < inputs[i] / 2 || position >= inputs[i]) continue;
      window[pieces] = first + i;
      piece[pieces++] = (struct kc_piece){.slot = slot + i, .start = position, .count = 1,
                                          .yields = true};
    }
    if (pieces > 0) run_pass(e, m, piece, window, pieces);
    m->decode_rows += pieces;
  }
}

/* ---- results ---- */

static enum kc_err add_up(const struct evaluator *e, struct kc_evaluation *out,
                          struct kc_diag *diag)
{
  uint64_t same = 0;
  *out = (struct kc_evaluation){
      .predictions = kc_evaluate_predictions(e->config->bytes, e->config->window)};
  KC_ASSERT(out->predictions > 0);
  for (uint32_t i = 0; i < e->config->threads; i++) {
    const struct member *m = &e->member[i];
    if (m->status != KC_OP_OK) {
      return kc_fail(diag, KC_ERR_DEVICE, "an operation of the engine refused its arguments (%d)",
                     (int)m->status);
    }
    out->chunk_rows += m->chunk_rows;
    out->decode_rows += m->decode_rows;
    out->checks += m->forward.counter[KC_COUNT_CHECKS];
    out->entries += m->forward.counter[KC_COUNT_ENTRIES];
    out->violations += m->forward.counter[KC_COUNT_EVENTS];
  }
  KC_ASSERT(out->chunk_rows + out->decode_rows == out->predictions);
  for (uint32_t i = 0; i < e->windows; i++) {
    out->nll += e->score[i].nll;
    out->kl += e->score[i].kl;
    same += e->score[i].same;
  }
  out->nll /= (double)out->predictions;
  out->kl /= (double)out->predictions;
  out->same = (double)same / (double)out->predictions;
  out->perplexity = kc_math_exp(out->nll);
  if (isfinite(out->perplexity) && isfinite(out->kl)) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "the model's perplexity on this text is no number: its "
                 "weights or activations are beyond what their formats hold");
}

enum kc_err kc_evaluate(const struct kc_evaluate_config *config, struct kc_evaluation *out,
                        struct kc_diag *diag)
{
  struct evaluator e = {.config = config};
  KC_ASSERT(config->bytes >= 2 && config->window >= 2);
  KC_ASSERT(config->window <= config->weights->positions);
  KC_ASSERT(config->weights->recipe.vocabulary >= 256);
  enum kc_err err = set_up(&e, diag);
  if (err == KC_OK) {
    kc_team_run(config->team, (e.windows + GROUP - 1) / GROUP, run_group, &e);
    err = add_up(&e, out, diag);
  }
  if (e.arena.base != NULL) kc_arena_deinit(&e.arena);
  kc_cache_deinit(&e.cache);
  return err;
}
