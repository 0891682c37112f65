/* Batching as SGLang 0.5 does it (python/sglang/srt/managers/scheduler.py, schedule_policy.py,
 * schedule_batch.py), without speculation.
 *
 * One step:
 *   1. What the half-computed prompt, if there is one, has computed goes into the tree.
 *   2. A prefill batch is put together. If there is anything in it, it runs alone, and the decodes
 *      stand still; with mixed chunks they make a token each in the same step.
 *   3. Else every decode makes a token. Room for it comes from the tree first, then from requests
 *      that are retracted: fewest outputs first, of equals the longest prompt, of equals the last
 *      in the batch; at least one, until the rest fits. The only one left that still does not fit
 *      is aborted. A retracted request keeps its outputs and goes to the tail of the queue.
 *
 * What may be admitted (PrefillAdder). All in tokens, P the page size; ceil and floor are to pages:
 *
 *   future    min(max_new - outputs, 4096)
 *   total     free + evictable - sum of the decodes' futures * ratio - charged, futures included
 *   current   free + evictable - charged, without futures
 *   input     max_prefill_tokens - charged; chunk: chunked_prefill_size - charged
 *
 *   half-computed prompt first: min(rest, chunk, total) tokens (chunk for total when total <= 0);
 *   then the queue, in its order, until a budget is used up:
 *     uncached = known - tokens found in the tree (all but the last at most)
 *     uncached + future + P >= total (less what locking takes out of the evictable): no more today
 *     ceil(uncached) <= chunk: admitted; else its first floor(chunk) tokens, and it is the
 *     half-computed prompt from now on, of which there is one
 *   charges: total ceil(tokens) + min(max_new, 4096) on the last chunk + P; current ceil(tokens) +
 *   P; input and chunk ceil(tokens)
 *
 *   `batch_is_full`, set when memory or the request limit stopped admission, keeps the queue from
 *   being looked at until a request leaves the batch (batch_end.c clears it).
 *
 * The ratio, a guess how much of their limits requests will use: 0.7 * conservativeness (at most
 * 1), falling in 600 decode steps to 0.14 of that; after a retraction (sum of outputs + 20 n) /
 * (sum of limits + 1) over the n that stay, at most 1; from the beginning again after idleness. In
 * double, with + - * / alone, which every compiler rounds alike.
 *
 * Pages are taken when the batch is complete: all prefixes are locked before anything is evicted
 * for it, and one eviction makes room for the whole batch. When the pool is short it asks for all
 * the pages that the batch needs, not for the missing ones (evict_from_tree_cache).
 *
 * Where the server differs: a head that can never fit blocks the server's queue for ever; here it
 * is refused with a reason. A half-computed prompt that finds no page, and decodes of a mixed step
 * that find none, end the server with an out-of-memory error; here they wait. (Older 0.5 releases
 * do not add P to the candidate's need.) Decode role: requests whose KV is in place pass the same
 * test of `total`, use no prefill budget, and join the decode step at once.
 */
#include "engine/sched/sglang_0_5.h"

#include "engine/sched/batch.h"

enum {
  CLIP_TOKENS = 4096,    /* SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION */
  RATIO_STEPS = 600,     /* SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS */
  RETRACT_STEPS = 20,    /* SGLANG_RETRACT_DECODE_STEPS */
  LPM_MAX_WAITING = 128, /* above it, lpm falls back to fcfs */
  PROMPT_MARGIN = 6      /* max_req_len = min(context, pool) - 1; prompts must be 5 shorter */
};
#define RATIO_INIT 0.7       /* SGLANG_INIT_NEW_TOKEN_RATIO */
#define RATIO_MIN_FACTOR 0.14 /* SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR */
#define NO_LIMIT INT64_MAX

/* ---- configuration ---- */

/* By the board's memory (server_args.py): chunk 2048 below 35 GiB, 4096 below 60, 8192 below
 * 160. */
static void defaults(struct kc_sched_config *config, uint64_t gpu_memory_bytes, bool is_a100)
{
  const uint64_t gib = gpu_memory_bytes >> 30;
  (void)is_a100;
  KC_ASSERT(gpu_memory_bytes > 0);
  config->page_size = 64;
  config->max_running = 4096; /* the most that request_limit() gives */
  config->overlap = true;
  config->prefix_cache = false;
  config->order = KC_ORDER_FCFS;
  config->chunked_prefill = true;
  config->chunked_prefill_size = gib < 35 ? 2048 : gib < 60 ? 4096 : gib < 160 ? 8192 : 16384;
  config->max_prefill_tokens = 16384;
  config->mixed_chunk = false;
  config->schedule_conservativeness = 1.0;
  config->max_batched_tokens = config->chunked_prefill_size;
  config->reserve_full_prompt = false;
  config->long_prefill_token_threshold = 0;
  KC_ASSERT(config->chunked_prefill_size % config->page_size == 0);
}

static enum kc_err validate(const struct kc_sched_config *config, struct kc_diag *diag)
{
  KC_TRY(kc_policy_check_common(config, diag));
  if (config->chunked_prefill && (config->chunked_prefill_size < 1 ||
                                  config->chunked_prefill_size > INT32_MAX ||
                                  config->chunked_prefill_size % config->page_size != 0)) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "chunked_prefill_size is %u and page_size %u; SGLang wants a multiple of the "
                   "second", config->chunked_prefill_size, config->page_size);
  }
  if (config->max_prefill_tokens < 1 || config->max_prefill_tokens > INT32_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "max_prefill_tokens is %u; it must lie between 1 and %d",
                   config->max_prefill_tokens, INT32_MAX);
  }
  if (config->mixed_chunk && !config->chunked_prefill) {
    return kc_fail(diag, KC_ERR_INPUT, "mixed_chunk needs chunked_prefill: switch that on too");
  }
  if (!(config->schedule_conservativeness > 0) || config->schedule_conservativeness > 1000) {
    return kc_fail(diag, KC_ERR_INPUT, "schedule_conservativeness is %g; it must lie above 0 and "
                                       "be at most 1000", config->schedule_conservativeness);
  }
  if (config->order == KC_ORDER_PRIORITY) {
    return kc_fail(diag, KC_ERR_INPUT, "order priority is vllm's; sglang-0.5 has fcfs and lpm");
  }
  return KC_OK;
}

/* max_running_requests: 512 times the requests of full context that fit, within [2048, 4096], and
 * at most half the tokens of the pool. */
static uint32_t request_limit(const struct kc_sched_config *config, uint64_t pool_tokens)
{
  KC_ASSERT(config->max_model_len > 0);
  KC_ASSERT(pool_tokens > 0);
  kc_u128 limit = (kc_u128)pool_tokens * 512 / config->max_model_len;
  if (limit < 2048) limit = 2048;
  if (limit > 4096) limit = 4096;
  if (limit > pool_tokens / 2) limit = pool_tokens / 2;
  return limit > 0 ? (uint32_t)limit : 1;
}

static enum kc_reason refuse(const struct kc_sched_config *config, uint32_t pages,
                             const struct kc_request *request)
{
  const uint64_t pool = (uint64_t)pages * config->page_size;
  const uint64_t longest = pool < config->max_model_len ? pool : config->max_model_len;
  KC_ASSERT(pages > 0);
  KC_ASSERT(request->input_tokens > 0);
  if ((uint64_t)request->input_tokens + PROMPT_MARGIN < longest) return KC_REASON_NONE;
  return config->max_model_len <= pool ? KC_REASON_PROMPT_TOO_LONG : KC_REASON_POOL_TOO_SMALL;
}

/* ---- the ratio ---- */

static double ratio_init(const struct kc_sched_config *config)
{
  const double ratio = RATIO_INIT * config->schedule_conservativeness;
  return ratio < 1.0 ? ratio : 1.0;
}

static void decay_ratio(struct kc_batch *batch)
{
  const double init = ratio_init(&batch->config);
  const double least = init * RATIO_MIN_FACTOR;
  const double ratio = batch->sglang.new_token_ratio - (init - least) / RATIO_STEPS;
  KC_ASSERT(batch->sglang.new_token_ratio > 0);
  batch->sglang.new_token_ratio = ratio > least ? ratio : least;
}

static void raise_ratio(struct kc_batch *batch)
{
  uint64_t outputs = 0, limits = 0, count = 0;
  for (uint32_t slot = batch->running.head; slot != KC_SLOT_NONE;
       slot = batch->slot[slot].run_next) {
    if (batch->slot[slot].state != KC_SLOT_DECODE) continue;
    outputs += kc_batch_outputs(batch, slot);
    limits += kc_batch_max_new(batch, batch->slot[slot].request);
    count++;
  }
  if (count == 0) return;
  const double ratio = (double)(outputs + RETRACT_STEPS * count) / (double)(limits + 1);
  KC_ASSERT(ratio > 0);
  batch->sglang.new_token_ratio = ratio < 1.0 ? ratio : 1.0;
}

/* ---- prefill ---- */

/* What one forming has left of its budgets. */
struct adder {
  int64_t room;        /* free + evictable, less what locks took out of it */
  int64_t charged_total, charged_current;
  double reserved;     /* guess of what the decodes will still need */
  int64_t input, chunk;
  uint32_t pages;      /* that the batch needs */
  bool goes_on;        /* one of the batch is not at its last chunk */
};

static double total_left(const struct adder *adder)
{
  return (double)(adder->room - adder->charged_total) - adder->reserved;
}

static bool is_exhausted(const struct adder *adder)
{
  return total_left(adder) <= 0 || adder->room - adder->charged_current <= 0;
}

static int64_t ceil_pages(const struct kc_batch *batch, int64_t tokens)
{
  const int64_t size = batch->config.page_size;
  KC_ASSERT(tokens >= 0);
  return (tokens + size - 1) / size * size;
}

static int64_t clip(uint32_t tokens) { return tokens < CLIP_TOKENS ? tokens : CLIP_TOKENS; }

static void begin_adder(struct kc_batch *batch, struct adder *adder)
{
  const struct kc_sched_config *config = &batch->config;
  const int64_t joined = config->mixed_chunk ? batch->decodes : 0;
  *adder = (struct adder){
      .room = (int64_t)kc_batch_available(batch) * config->page_size,
      .reserved = (double)kc_batch_future(batch) * batch->sglang.new_token_ratio,
      .input = (int64_t)config->max_prefill_tokens - joined,
      .chunk = config->chunked_prefill ? (int64_t)config->chunked_prefill_size - joined
                                       : NO_LIMIT};
  KC_ASSERT(adder->room >= 0);
}

static void charge(struct kc_batch *batch, struct adder *adder, int64_t tokens, int64_t future)
{
  const int64_t page = batch->config.page_size;
  const int64_t whole = ceil_pages(batch, tokens);
  KC_ASSERT(tokens > 0);
  adder->charged_total += whole + future + page;
  adder->charged_current += whole + page;
  adder->input -= whole;
  if (adder->chunk != NO_LIMIT) adder->chunk -= whole;
}

/* The half-computed prompt goes on, as far as chunk and memory let it. */
static void add_chunked(struct kc_batch *batch, struct adder *adder, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  const int64_t size = batch->config.page_size;
  const int64_t rest = (int64_t)s->known - s->computed;
  const double total = total_left(adder);
  int64_t most = adder->chunk;
  if (total >= 1.0 && total < (double)most) most = (int64_t)total;
  const int64_t pages = (int64_t)batch->table->extent[slot] + kc_batch_available(batch);
  const int64_t held = pages * size - s->computed; /* tokens that there are pages for */
  KC_ASSERT(rest > 0);
  if (most > held) most = held;
  adder->goes_on = true;
  if (most <= 0) return;
  const int64_t tokens = rest < most ? rest : most;
  adder->goes_on = tokens < rest;
  adder->pages += kc_batch_lacks(batch, slot, (uint32_t)tokens);
  charge(batch, adder, tokens,
         adder->goes_on ? 0 : clip(kc_batch_max_new(batch, s->request)));
  kc_batch_continue(batch, slot, (uint32_t)tokens);
}

/* One that waits, as the adder sees it. */
struct candidate {
  struct kc_queue_place place;
  struct kc_cache_match match;
  int64_t uncached;
  int64_t future; /* clipped tokens that it may still make */
};

static void look_at(struct kc_batch *batch, struct candidate *c, bool in_place)
{
  const struct kc_waiting *waiting = &c->place.waiting;
  const uint32_t max_new = kc_batch_max_new(batch, waiting->request);
  const uint32_t known = kc_batch_known(batch, waiting);
  KC_ASSERT(max_new > waiting->outputs);
  c->match = (struct kc_cache_match){0};
  if (!in_place) c->match = kc_batch_match(batch, waiting);
  c->uncached = (int64_t)known - (int64_t)c->match.pages * batch->config.page_size;
  c->future = clip(max_new - waiting->outputs);
}

/* NO_TOKEN: what the candidate may need is not there once its prefix is locked. */
static bool lacks_tokens(const struct kc_batch *batch, const struct adder *adder,
                         const struct candidate *c)
{
  const int64_t size = batch->config.page_size;
  const int64_t needs = c->uncached + c->future + size;
  KC_ASSERT(c->uncached > 0);
  return (double)needs >= total_left(adder) - (double)((int64_t)c->match.idle * size);
}

/* What to do with a candidate for which there is no memory. True: it was refused, because nothing
 * runs, so that it would wait for ever; look at the next one. */
static bool turn_away(struct kc_batch *batch, const struct candidate *c)
{
  const bool grown = c->place.waiting.outputs > 0;
  batch->short_of_pages = true;
  if (batch->running.count > 0) {
    batch->sglang.batch_is_full = true;
    return false;
  }
  if (!batch->all_seen) return false; /* the step is about to be formed again */
  batch->short_of_pages = false;
  return kc_batch_refuse(batch, &c->place,
                         grown ? KC_REASON_OUTGREW_POOL : KC_REASON_NEVER_FITS);
}

/* Once memory is used up the batch is full, whether or not another waits. */
static void fill_up(struct kc_batch *batch, const struct adder *adder)
{
  if (!is_exhausted(adder)) return;
  batch->sglang.batch_is_full = true;
  batch->short_of_pages = true;
}

/* Admits the candidate, whole or its beginning. False when it must stop here. */
static bool admit(struct kc_batch *batch, struct adder *adder, const struct candidate *c)
{
  const int64_t size = batch->config.page_size;
  const bool whole = ceil_pages(batch, c->uncached) <= adder->chunk;
  if (!whole && adder->goes_on) return false;
  const int64_t tokens = whole ? c->uncached : adder->chunk / size * size;
  if (tokens == 0) return false;
  KC_ASSERT(tokens > 0 && tokens <= c->uncached);
  const uint32_t request = c->place.waiting.request;
  charge(batch, adder, tokens, whole ? clip(kc_batch_max_new(batch, request)) : 0);
  adder->room -= (int64_t)c->match.idle * size;
  const uint32_t slot = kc_batch_start(batch, &c->place, &c->match, (uint32_t)tokens);
  adder->pages += kc_batch_lacks(batch, slot, (uint32_t)tokens);
  if (!whole) adder->goes_on = true;
  fill_up(batch, adder);
  return true;
}

/* Is there anything left to admit the next one with? Sets batch_is_full when what is missing is
 * memory or slots. */
static bool may_admit(struct kc_batch *batch, const struct adder *adder)
{
  const bool no_slot = batch->running.count >= batch->config.max_running;
  const bool no_memory = is_exhausted(adder);
  if ((no_slot || no_memory) && batch->running.count > 0) batch->sglang.batch_is_full = true;
  if (no_memory && !no_slot) batch->short_of_pages = true;
  return !no_slot && !no_memory && adder->input > 0 && adder->chunk > 0;
}

/* One of the queue. False when admission stops with it. */
static bool add_one(struct kc_batch *batch, struct adder *adder, struct candidate *c)
{
  const bool in_place = batch->config.role == KC_ROLE_DECODE && !c->place.waiting.started;
  if (in_place) return false; /* takes no prefill: see join_in_place */
  look_at(batch, c, false);
  return lacks_tokens(batch, adder, c) ? turn_away(batch, c) : admit(batch, adder, c);
}

static void add_in_order(struct kc_batch *batch, struct adder *adder)
{
  struct candidate c;
  while (kc_queue_head(&batch->queue, &c.place) && may_admit(batch, adder)) {
    if (!add_one(batch, adder, &c)) return;
  }
}

/* Longest match first, ties in the order of the queue: insertion sort, which is stable. */
static uint32_t sort_by_match(struct kc_batch *batch, struct kc_queue_place *sorted)
{
  uint32_t pages[LPM_MAX_WAITING];
  uint32_t count = 0;
  struct kc_queue_place place;
  for (bool more = kc_queue_head(&batch->queue, &place); more;
       more = kc_queue_after(&batch->queue, &place)) {
    const uint32_t found = kc_batch_match(batch, &place.waiting).pages;
    KC_ASSERT(count < LPM_MAX_WAITING);
    uint32_t at = count++;
    for (; at > 0 && pages[at - 1] < found; at--) {
      pages[at] = pages[at - 1];
      sorted[at] = sorted[at - 1];
    }
    pages[at] = found;
    sorted[at] = place;
  }
  return count;
}

static void add_by_match(struct kc_batch *batch, struct adder *adder)
{
  struct kc_queue_place sorted[LPM_MAX_WAITING];
  const uint32_t count = sort_by_match(batch, sorted);
  for (uint32_t i = 0; i < count && may_admit(batch, adder); i++) {
    struct candidate c = {.place = sorted[i]};
    if (!add_one(batch, adder, &c)) return;
  }
}

/* Those of the queue that the policy sees. */
static uint32_t waiting_seen(const struct kc_batch *batch)
{
  KC_ASSERT(batch->queue.seen <= batch->queue.arrived);
  return kc_queue_count(&batch->queue) - kc_queue_unseen(&batch->queue);
}

/* Pages for the whole batch: one eviction, then the rows in order. */
static void fill_chunks(struct kc_batch *batch, uint32_t pages)
{
  if (batch->cache != NULL && batch->pool->free_count < pages) {
    kc_prefix_cache_evict(batch->cache, pages);
  }
  KC_ASSERT(kc_batch_available(batch) >= pages);
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) {
    const bool filled = kc_batch_fill(batch, batch->chunk[i].slot, batch->chunk[i].count);
    KC_ASSERT(filled);
  }
}

/* True when there is a prefill batch. */
static bool form_prefill(struct kc_batch *batch)
{
  struct adder adder;
  const uint32_t chunked = batch->prefill.head;
  const uint32_t waiting = waiting_seen(batch);
  KC_ASSERT(batch->prefill.count <= 1);
  if (chunked == KC_SLOT_NONE && batch->sglang.batch_is_full) return false; /* as it was */
  batch->short_of_pages = false;
  if (chunked == KC_SLOT_NONE) {
    if (waiting == 0) return false;
    if (batch->running.count >= batch->config.max_running) {
      batch->sglang.batch_is_full = true;
      return false;
    }
  }
  begin_adder(batch, &adder);
  if (chunked != KC_SLOT_NONE) add_chunked(batch, &adder, chunked);
  const bool by_match = batch->config.order == KC_ORDER_LPM && waiting <= LPM_MAX_WAITING;
  if (by_match) add_by_match(batch, &adder);
  else add_in_order(batch, &adder);
  if (batch->step.chunk_count == 0) return false;
  fill_chunks(batch, adder.pages);
  return true;
}

/* ---- decode ---- */

static bool grant_decodes(struct kc_batch *batch)
{
  const uint32_t pages = kc_batch_needy(batch)->count;
  if (batch->cache != NULL && batch->pool->free_count < pages) {
    kc_prefix_cache_evict(batch->cache, pages);
  }
  return kc_batch_grant_needy(batch);
}

/* Should `a` be retracted rather than `b`, which stands before it in the batch? */
static bool retracts_first(const struct kc_batch *batch, uint32_t a, uint32_t b)
{
  const uint32_t outputs_a = kc_batch_outputs(batch, a), outputs_b = kc_batch_outputs(batch, b);
  if (outputs_a != outputs_b) return outputs_a < outputs_b;
  return batch->requests[batch->slot[a].request].input_tokens >=
         batch->requests[batch->slot[b].request].input_tokens;
}

static uint32_t choose_victim(const struct kc_batch *batch)
{
  uint32_t victim = KC_SLOT_NONE;
  KC_ASSERT(batch->decodes > 0);
  for (uint32_t slot = batch->running.head; slot != KC_SLOT_NONE;
       slot = batch->slot[slot].run_next) {
    if (batch->slot[slot].state != KC_SLOT_DECODE) continue;
    if (victim == KC_SLOT_NONE || retracts_first(batch, slot, victim)) victim = slot;
  }
  KC_ASSERT(victim != KC_SLOT_NONE);
  return victim;
}

/* Somebody has to go so that the others fit. */
static void retract(struct kc_batch *batch)
{
  bool fits = false;
  while (!fits && batch->decodes > 1) {
    kc_batch_preempt(batch, choose_victim(batch));
    fits = grant_decodes(batch);
  }
  if (!fits) kc_batch_abort(batch, choose_victim(batch), KC_REASON_OUTGREW_POOL);
  batch->short_of_pages = true;
  raise_ratio(batch);
}

/* One token for every decode. False when somebody was retracted for it. */
static bool form_decode(struct kc_batch *batch)
{
  batch->step.decoding = true;
  if (batch->decodes == 0) return true;
  if (grant_decodes(batch)) {
    decay_ratio(batch);
    return true;
  }
  retract(batch);
  return false;
}

/* ---- decode role ---- */

/* Requests whose KV is in place join the decodes of this step. */
static void join_in_place(struct kc_batch *batch)
{
  struct adder adder;
  struct candidate c;
  begin_adder(batch, &adder);
  adder.input = adder.chunk = NO_LIMIT;
  while (!batch->sglang.batch_is_full && kc_queue_head(&batch->queue, &c.place) &&
         !c.place.waiting.started && may_admit(batch, &adder)) {
    look_at(batch, &c, true);
    if (lacks_tokens(batch, &adder, &c)) {
      if (turn_away(batch, &c)) continue;
      return;
    }
    const int64_t size = batch->config.page_size;
    const int64_t whole = ceil_pages(batch, c.uncached);
    adder.charged_total += whole + clip(kc_batch_max_new(batch, c.place.waiting.request)) + size;
    adder.charged_current += whole + size;
    kc_batch_start_in_place(batch, &c.place);
    fill_up(batch, &adder);
  }
}

static bool head_is_in_place(struct kc_batch *batch)
{
  struct kc_queue_place place;
  if (batch->config.role != KC_ROLE_DECODE) return false;
  return kc_queue_head(&batch->queue, &place) && !place.waiting.started;
}

static void form_step(struct kc_batch *batch)
{
  KC_ASSERT(batch->step.chunk_count == 0 && batch->step.grant_count == 0);
  KC_ASSERT(batch->prefill.count <= 1);
  const uint32_t chunked = batch->prefill.head;
  if (batch->was_idle) batch->sglang.new_token_ratio = ratio_init(&batch->config);
  batch->was_idle = false;
  batch->step.decoding = false;
  if (chunked != KC_SLOT_NONE) kc_batch_publish(batch, chunked, batch->slot[chunked].computed);
  if (form_prefill(batch)) {
    if (batch->config.mixed_chunk && batch->decodes > 0) {
      batch->step.decoding = grant_decodes(batch);
    }
    return;
  }
  if (form_decode(batch) && head_is_in_place(batch)) join_in_place(batch);
  if (chunked != KC_SLOT_NONE && batch->all_seen && batch->running.count == 1) {
    /* Nothing else runs, and yet there is no page for it. */
    kc_batch_abort(batch, chunked, KC_REASON_OUTGREW_POOL);
  }
}

const struct kc_policy kc_policy_sglang_0_5 = {.name = "sglang-0.5",
                                               .server = KC_SERVER_SGLANG,
                                               .cache_kind = KC_CACHE_RADIX,
                                               .requeue_first = false,
                                               .clip_tokens = CLIP_TOKENS,
                                               .length_ghosts = true,
                                               .defaults = defaults,
                                               .request_limit = request_limit,
                                               .validate = validate,
                                               .refuse = refuse,
                                               .form_step = form_step};
