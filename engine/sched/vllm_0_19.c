/* Batching as vLLM 0.19 does it (vllm/v1/core/sched/scheduler.py), first come first served, no
 * prefix caching, no speculation, synchronous scheduling.
 *
 * One step:
 *   1. The token budget is max_num_batched_tokens.
 *   2. Running requests in list order. A decode takes one token, a half-computed prompt takes what
 *      is left of the budget. Each gets the pages that its tokens need; when the pool is empty, the
 *      tail of the running list is preempted, possibly the very request that asked, until it fits.
 *   3. A preempted request loses its pages and its progress, keeps its outputs, and goes to the
 *      head of the waiting queue (order preserved).
 *   4. After a preemption nobody is admitted in this step. Otherwise waiting requests are admitted
 *      while budget and slots last: the head takes min(known tokens, budget). It must find pages
 *      for this chunk, and with scheduler_reserve_full_isl (the default) room for all its known
 *      tokens; else admission stops: it never preempts.
 *
 * Because a prompt takes all the budget that is left, at most one request is half-computed, and it
 * is the last of the running list. The budget never runs out among decodes, because vLLM requires
 * max_num_batched_tokens >= max_num_seqs, and so does validate() below.
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
  config->max_batched_tokens = large ? 8192 : 2048;
  config->chunked_prefill = true;
  config->reserve_full_prompt = true;
  KC_ASSERT(config->max_batched_tokens >= config->max_running);
}

static enum kc_err validate(const struct kc_sched_config *config, struct kc_diag *diag)
{
  if (config->page_size < 1 || config->page_size > 4096) {
    return kc_fail(diag, KC_ERR_INPUT, "page_size is %u; pages of 1 to 4096 tokens are supported",
                   config->page_size);
  }
  if (config->max_running < 1 || config->max_running > 65536) {
    return kc_fail(diag, KC_ERR_INPUT, "max_running is %u; it must lie between 1 and 65536",
                   config->max_running);
  }
  if (config->max_batched_tokens < config->max_running) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "max_batched_tokens is %u and max_running %u; vLLM requires "
                   "max_batched_tokens >= max_running: raise the first or lower the second",
                   config->max_batched_tokens, config->max_running);
  }
  if (config->max_model_len < 2 || config->max_model_len > INT32_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "max_model_len is %llu; it must lie between 2 and %d",
                   (unsigned long long)config->max_model_len, INT32_MAX);
  }
  return KC_OK;
}

/* Pages for every decode that needs one, oldest first. False when somebody had to be preempted. */
static bool serve_decodes(struct kc_batch *batch)
{
  const struct kc_list *needy = kc_batch_needy(batch);
  const uint64_t before = batch->preemptions;
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
  KC_ASSERT(batch->preemptions > before);
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
  const uint32_t tokens = rest < *budget ? rest : *budget;
  if (!kc_batch_continue_prefill(batch, slot, tokens)) {
    kc_batch_preempt(batch, slot); /* it is the tail, so it is its own victim */
    return false;
  }
  *budget -= tokens;
  return true;
}

/* Refuses a head that can never run. True: it is out of the queue, look at the next one. False: the
 * head stands; with *stop set it is hopeless, but the list of refusals is full until the next
 * forming. */
static bool refuse_hopeless(struct kc_batch *batch, const struct kc_waiting *head, uint32_t known,
                            bool in_place, bool *stop)
{
  enum kc_reason reason = KC_REASON_NONE;
  if (kc_pages_of(known, batch->config.page_size) > batch->pool->page_count) {
    reason = head->outputs > 0 ? KC_REASON_OUTGREW_POOL : KC_REASON_NEVER_FITS;
  } else if (!batch->config.chunked_prefill && !in_place &&
             known > batch->config.max_batched_tokens) {
    reason = KC_REASON_PROMPT_OVER_BUDGET;
  }
  if (reason == KC_REASON_NONE) return false;
  *stop = !kc_batch_refuse_head(batch, reason);
  return !*stop;
}

/* Admits the head if it fits. False when admission must stop. */
static bool admit_head(struct kc_batch *batch, const struct kc_waiting *head, uint32_t known,
                       bool in_place, uint32_t *budget)
{
  const uint32_t free = batch->pool->free_count;
  const uint64_t pages_known = kc_pages_of(known, batch->config.page_size);
  const uint32_t tokens = in_place ? 1 : (known < *budget ? known : *budget);
  KC_ASSERT(head->request < batch->arrived);
  KC_ASSERT(tokens > 0 && tokens <= *budget);
  if ((batch->config.reserve_full_prompt || in_place) && pages_known > free) return false;
  if (!batch->config.chunked_prefill && !in_place && tokens < known) return false;
  if (kc_pages_of(tokens, batch->config.page_size) > free) return false;
  kc_batch_start_head(batch, tokens, in_place);
  *budget -= tokens;
  return true;
}

static void admit_waiting(struct kc_batch *batch, uint32_t budget)
{
  struct kc_waiting head;
  bool stop = false;
  while (!stop && budget > 0 && batch->running.count < batch->config.max_running &&
         kc_batch_head(batch, &head)) {
    const uint32_t known = kc_batch_known(batch, &head);
    const bool in_place = batch->config.role == KC_ROLE_DECODE && head.preemptions == 0;
    if (refuse_hopeless(batch, &head, known, in_place, &stop)) continue;
    if (!stop) stop = !admit_head(batch, &head, known, in_place, &budget);
  }
}

static void form_step(struct kc_batch *batch)
{
  KC_ASSERT(batch->decodes <= batch->config.max_batched_tokens);
  KC_ASSERT(batch->step.chunk_count == 0 && batch->step.grant_count == 0);
  bool undisturbed = serve_decodes(batch);
  uint32_t budget = batch->config.max_batched_tokens - batch->decodes;
  if (!serve_prefill(batch, &budget)) undisturbed = false;
  if (undisturbed) admit_waiting(batch, budget);
}

const struct kc_policy kc_policy_vllm_0_19 = {
    .name = "vllm-0.19", .defaults = defaults, .validate = validate, .form_step = form_step};
