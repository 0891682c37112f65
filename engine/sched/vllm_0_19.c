/* Batching as vLLM 0.19 does it (vllm/v1/core/sched/scheduler.py, kv_cache_manager.py), without
 * speculation.
 *
 * One step:
 *   1. The token budget is max_num_batched_tokens.
 *   2. Running requests in list order, while there is budget. A decode takes one token, a
 *      half-computed prompt what is left of it, of the budget and of long_prefill_token_threshold.
 *      Each gets the pages that its tokens need; when there is none, a victim is preempted,
 *      possibly the very request that asked, until it fits. The victim is the tail of the list; in
 *      order PRIORITY the largest of (priority, arrival), and if it was served in this step
 *      already, its tokens go back to the budget.
 *   3. A preempted request loses its pages and its progress, keeps its outputs, and goes to the
 *   head
 *      of the waiting queue (FCFS: order preserved; PRIORITY: to its place in the heap).
 *   4. After a preemption nobody is admitted in this step. Otherwise waiting requests are admitted
 *      while budget and slots last: the head takes its known tokens, less what the cache has, cut
 *      by threshold and budget. It must find pages for this chunk, and with
 *      scheduler_reserve_full_isl (the default) room for all its known tokens; else admission
 *      stops: it never preempts.
 *
 * Room, for `pages` in all of which the cache has `hits`, of those `idle` used by nobody: pages -
 * hits + idle <= free. Idle ones count because they are in the queue of free blocks, from which
 * they are taken. Blocks are indexed when they are allocated, so a request later in the same step
 * can hit them before they are computed; the order of the batch within a step sees to it that they
 * are.
 *
 * Decodes in list order and half-computed prompts in list order are the same thing as long as the
 * only half-computed prompt is the tail, as it is when a prompt takes all the budget that is left:
 * then only the decodes that need a page are looked at. With a threshold several prompts can be
 * half computed, and prompts ahead of decodes can use up the budget: then the list is walked.
 *
 * With asynchronous scheduling a decode that will have reached its limit of tokens is skipped, not
 * run once too often (kc_policy.length_ghosts).
 *
 * Where the server differs: a head whose known tokens need more pages than the pool has blocks the
 * server's queue for ever (vLLM issue 39734). Here it is refused with a reason, so that every run
 * ends; the result says what the server would have done.
 */
#include "engine/sched/vllm_0_19.h"

#include "engine/sched/batch.h"

/* vllm/engine/arg_utils.py: 70 GiB and more, not an A100: 8192 tokens (server), 1024 sequences;
 * otherwise 2048 and 256. */
static void defaults(struct kc_sched_config *config, uint64_t gpu_memory_bytes, bool is_a100)
{
  const bool large = gpu_memory_bytes >= (UINT64_C(70) << 30) && !is_a100;
  KC_ASSERT(gpu_memory_bytes > 0);
  config->page_size = 16;
  config->max_running = large ? 1024 : 256;
  config->overlap = true;
  config->prefix_cache = false;
  config->order = KC_ORDER_FCFS;
  config->chunked_prefill = true;
  config->max_batched_tokens = large ? 8192 : 2048;
  config->reserve_full_prompt = true;
  config->long_prefill_token_threshold = 0;
  config->schedule_conservativeness = 1.0;
  KC_ASSERT(config->max_batched_tokens >= config->max_running);
}

static enum kc_err validate(const struct kc_sched_config *config, struct kc_diag *diag)
{
  KC_TRY(kc_policy_check_common(config, diag));
  if (config->max_batched_tokens < config->max_running) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "max_batched_tokens is %u and max_running %u; vLLM requires "
                   "max_batched_tokens >= max_running: raise the first or lower the second",
                   config->max_batched_tokens, config->max_running);
  }
  if (config->order == KC_ORDER_LPM) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "order lpm is sglang's; vllm-0.19 has fcfs and priority");
  }
  return KC_OK;
}

static uint32_t request_limit(const struct kc_sched_config *config, uint64_t pool_tokens)
{
  (void)config;
  (void)pool_tokens;
  return 0;
}

static enum kc_reason refuse(const struct kc_sched_config *config, uint32_t pages,
                             const struct kc_request *request)
{
  KC_ASSERT(pages > 0);
  KC_ASSERT(request->input_tokens > 0);
  return request->input_tokens >= config->max_model_len ? KC_REASON_PROMPT_TOO_LONG
                                                        : KC_REASON_NONE;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* A prompt's tokens under the threshold, if there is one. */
static uint32_t under_threshold(const struct kc_batch *batch, uint32_t tokens)
{
  const uint32_t threshold = batch->config.long_prefill_token_threshold;
  return threshold > 0 ? least(tokens, threshold) : tokens;
}

/* The next chunk of a half-computed prompt; what it computes is indexed at once. */
static bool run_chunk(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  if (!kc_batch_fill(batch, slot, tokens)) return false;
  KC_ASSERT(tokens > 0);
  kc_batch_continue(batch, slot, tokens);
  kc_batch_publish(batch, slot, batch->slot[slot].computed + tokens);
  return true;
}

/* ---- running requests, the quick way ---- */

/* Pages for every decode that needs one, oldest first. False when somebody had to be preempted. */
static bool serve_decodes(struct kc_batch *batch)
{
  const struct kc_list *needy = kc_batch_needy(batch);
  if (kc_batch_grant_needy(batch)) return true;
  for (uint32_t slot = needy->head; slot != KC_SLOT_NONE; slot = batch->slot[slot].list_next) {
    bool granted = kc_batch_grant_decode(batch, slot);
    while (!granted) {
      const uint32_t victim = batch->running.tail;
      kc_batch_preempt(batch, victim);
      if (victim == slot) return false; /* it was the last: nobody after it is left to serve */
      granted = kc_batch_grant_decode(batch, slot);
    }
  }
  return false;
}

/* The half-computed prompt, if there is one. False when it had to give way. */
static bool serve_prefill(struct kc_batch *batch, uint32_t *budget)
{
  KC_ASSERT(batch->prefill.count <= 1);
  const uint32_t slot = batch->prefill.head;
  if (slot == KC_SLOT_NONE || *budget == 0) return true;
  KC_ASSERT(slot == batch->running.tail);
  const uint32_t rest = batch->slot[slot].known - batch->slot[slot].computed;
  const uint32_t tokens = least(under_threshold(batch, rest), *budget);
  if (!run_chunk(batch, slot, tokens)) {
    kc_batch_preempt(batch, slot); /* it is the tail, so it is its own victim */
    return false;
  }
  *budget -= tokens;
  return true;
}

/* ---- running requests, one by one ---- */

/* Would `a` give way before `b`? */
static bool gives_way(const struct kc_batch *batch, uint32_t a, uint32_t b)
{
  const uint32_t request_a = batch->slot[a].request, request_b = batch->slot[b].request;
  const int32_t priority_a = batch->requests[request_a].priority;
  const int32_t priority_b = batch->requests[request_b].priority;
  KC_ASSERT(request_a != request_b);
  return priority_a != priority_b ? priority_a > priority_b : request_a > request_b;
}

static uint32_t choose_victim(const struct kc_batch *batch)
{
  uint32_t victim = batch->running.tail;
  KC_ASSERT(victim != KC_SLOT_NONE);
  if (batch->config.order != KC_ORDER_PRIORITY) return victim;
  for (uint32_t slot = batch->running.head; slot != KC_SLOT_NONE;
       slot = batch->slot[slot].run_next) {
    if (slot != victim && gives_way(batch, slot, victim)) victim = slot;
  }
  return victim;
}

/* Tokens that `victim` was given in this step, when it stands before `slot` in the list. */
static uint32_t served_tokens(const struct kc_batch *batch, uint32_t victim, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[victim];
  if (s->order >= batch->slot[slot].order) return 0;
  if (s->state == KC_SLOT_DECODE) return 1;
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) {
    if (batch->chunk[i].slot == victim) return batch->chunk[i].count;
  }
  return 0;
}

static bool give_pages(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  if (batch->slot[slot].state == KC_SLOT_PREFILL) return run_chunk(batch, slot, tokens);
  return !kc_batch_is_needy(batch, slot) || kc_batch_grant_decode(batch, slot);
}

/* One member of the list. False when it was its own victim, which ends the phase. */
static bool serve_one(struct kc_batch *batch, uint32_t slot, uint32_t *budget, bool *undisturbed)
{
  const struct kc_slot *s = &batch->slot[slot];
  uint32_t tokens = 1;
  if (s->state == KC_SLOT_PREFILL) {
    tokens = least(under_threshold(batch, s->known - s->computed), *budget);
  }
  KC_ASSERT(tokens > 0 && tokens <= *budget);
  while (!give_pages(batch, slot, tokens)) {
    const uint32_t victim = choose_victim(batch);
    *undisturbed = false;
    if (victim != slot) *budget += served_tokens(batch, victim, slot);
    kc_batch_preempt(batch, victim);
    if (victim == slot) return false;
  }
  *budget -= tokens;
  return true;
}

/* Decodes that the budget did not reach stand still; prompts just wait. */
static void leave_out(struct kc_batch *batch, uint32_t slot)
{
  while (slot != KC_SLOT_NONE) {
    const uint32_t next = batch->slot[slot].run_next;
    if (batch->slot[slot].state == KC_SLOT_DECODE) kc_batch_pause(batch, slot);
    slot = next;
  }
}

/* False when somebody was preempted. */
static bool walk_running(struct kc_batch *batch, uint32_t *budget)
{
  bool undisturbed = true;
  uint32_t slot = batch->running.head;
  while (slot != KC_SLOT_NONE && *budget > 0) {
    KC_ASSERT(batch->slot[slot].state != KC_SLOT_FREE);
    const bool runs = batch->slot[slot].state != KC_SLOT_HELD;
    if (runs && !serve_one(batch, slot, budget, &undisturbed)) {
      /* It has just left, but the slot still says who came after it: they are not looked at. */
      leave_out(batch, batch->slot[slot].run_next);
      return false;
    }
    slot = batch->slot[slot].run_next;
  }
  leave_out(batch, slot);
  return undisturbed;
}

/* True when nobody's place in the list matters: at most one prompt is half computed and it is the
 * tail, and whoever has to give way is the tail. */
static bool order_is_settled(const struct kc_batch *batch)
{
  const uint32_t slot = batch->prefill.head;
  if (batch->prefill.count > 1 || (slot != KC_SLOT_NONE && slot != batch->running.tail)) {
    return false;
  }
  if (batch->config.order != KC_ORDER_PRIORITY) return true;
  uint64_t pages = kc_batch_needy(batch)->count;
  if (slot != KC_SLOT_NONE) {
    const uint32_t rest = batch->slot[slot].known - batch->slot[slot].computed;
    const uint32_t budget = batch->config.max_batched_tokens - batch->decodes;
    pages += kc_batch_lacks(batch, slot, least(under_threshold(batch, rest), budget));
  }
  return pages <= kc_batch_available(batch);
}

/* ---- waiting requests ---- */

/* What the head would be given. */
struct candidate {
  struct kc_queue_place place;
  struct kc_cache_match match;
  uint32_t known;
  uint32_t tokens; /* of its first chunk, before the budget cuts it */
  bool in_place;
};

static void look_at(struct kc_batch *batch, struct candidate *c)
{
  const struct kc_waiting *waiting = &c->place.waiting;
  c->known = kc_batch_known(batch, waiting);
  c->in_place = batch->config.role == KC_ROLE_DECODE && !waiting->started;
  c->match = kc_batch_match(batch, waiting);
  const uint32_t hits = c->match.pages * batch->config.page_size;
  KC_ASSERT(hits < c->known);
  c->tokens = c->in_place ? 1 : under_threshold(batch, c->known - hits);
}

/* Refuses a head that can never run. True: it is out of the queue, look at the next one. False: the
 * head stands; with *stop set it is hopeless, but the list of refusals is full until the next
 * forming. */
static bool refuse_hopeless(struct kc_batch *batch, const struct candidate *c, bool *stop)
{
  enum kc_reason reason = KC_REASON_NONE;
  if (kc_pages_of(c->known, batch->config.page_size) > batch->pool->page_count) {
    reason = c->place.waiting.outputs > 0 ? KC_REASON_OUTGREW_POOL : KC_REASON_NEVER_FITS;
  } else if (!batch->config.chunked_prefill && c->tokens > batch->config.max_batched_tokens) {
    reason = KC_REASON_PROMPT_OVER_BUDGET;
  }
  if (reason == KC_REASON_NONE) return false;
  *stop = !kc_batch_refuse(batch, &c->place, reason);
  return !*stop;
}

/* Is there room for the first `tokens` tokens, of which the cache has the match? */
static bool has_room(const struct kc_batch *batch, const struct candidate *c, uint64_t tokens)
{
  const uint64_t pages = kc_pages_of(tokens, batch->config.page_size);
  KC_ASSERT(pages >= c->match.pages);
  return pages - c->match.pages + c->match.idle <= kc_batch_available(batch);
}

/* No pages for the head: admission stops. */
static bool stop_short(struct kc_batch *batch)
{
  batch->short_of_pages = true;
  return false;
}

/* Admits the head if it fits. False when admission must stop. */
static bool admit_head(struct kc_batch *batch, const struct candidate *c, uint32_t *budget)
{
  const uint32_t tokens = least(c->tokens, *budget);
  const uint32_t hits = c->match.pages * batch->config.page_size;
  KC_ASSERT(tokens > 0 && tokens <= *budget);
  if (!batch->config.chunked_prefill && tokens < c->tokens) return false;
  if ((batch->config.reserve_full_prompt || c->in_place) && !has_room(batch, c, c->known)) {
    return stop_short(batch);
  }
  if (!has_room(batch, c, (uint64_t)hits + tokens)) return stop_short(batch);
  if (c->in_place) {
    kc_batch_start_in_place(batch, &c->place);
  } else {
    const uint32_t slot = kc_batch_start(batch, &c->place, &c->match, tokens);
    const bool filled = kc_batch_fill(batch, slot, tokens);
    KC_ASSERT(filled);
    kc_batch_publish(batch, slot, hits + tokens);
  }
  *budget -= tokens;
  return true;
}

static void admit_waiting(struct kc_batch *batch, uint32_t budget)
{
  struct candidate c;
  bool stop = false;
  while (!stop && budget > 0 && batch->running.count < batch->config.max_running &&
         kc_queue_head(&batch->queue, &c.place)) {
    look_at(batch, &c);
    if (refuse_hopeless(batch, &c, &stop)) continue;
    if (!stop) stop = !admit_head(batch, &c, &budget);
  }
}

static void form_step(struct kc_batch *batch)
{
  KC_ASSERT(batch->decodes <= batch->config.max_batched_tokens);
  KC_ASSERT(batch->step.chunk_count == 0 && batch->step.grant_count == 0);
  uint32_t budget = batch->config.max_batched_tokens;
  bool undisturbed;
  batch->step.decoding = true;
  batch->was_idle = false;
  if (order_is_settled(batch)) {
    undisturbed = serve_decodes(batch);
    budget -= batch->decodes;
    if (!serve_prefill(batch, &budget)) undisturbed = false;
  } else {
    undisturbed = walk_running(batch, &budget);
  }
  batch->short_of_pages = !undisturbed;
  if (undisturbed) admit_waiting(batch, budget);
}

const struct kc_policy kc_policy_vllm_0_19 = {.name = "vllm-0.19",
                                              .server = KC_SERVER_VLLM,
                                              .cache_kind = KC_CACHE_BLOCKS,
                                              .requeue_first = true,
                                              .clip_tokens = 0,
                                              .length_ghosts = false,
                                              .defaults = defaults,
                                              .request_limit = request_limit,
                                              .validate = validate,
                                              .refuse = refuse,
                                              .form_step = form_step};
