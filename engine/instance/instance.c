/* One serving instance (see instance.h): the step loop that simulator and engines share.
 *
 *   kc_instance_begin_step
 *     check rows -> note growth -> form (policy) -> report refusals -> seal -> run (executor)
 *   requests may arrive, and may be given up
 *   kc_instance_end_step
 *     advance the clock -> settle ghosts of the step before -> tokens -> outcomes -> give up
 *
 * A request that waits, or runs between two steps, is given up at once. One in a step that is under
 * way is noted in `giving_up`, and ends with the step: the executor is at work on it.
 *
 * Memory: everything comes from the run's arena at kc_instance_init; a step allocates nothing.
 * The request table is borrowed and may grow behind us (closed loops append to it).
 */
#include "engine/instance/instance.h"

#include "engine/instance/instance_parts.h"

const char *kc_status_name(enum kc_status status)
{
  static const char *const names[KC_STATUSES] = {
      [KC_STATUS_COMPLETED] = "completed",
      [KC_STATUS_REJECTED] = "rejected",
      [KC_STATUS_FAILED] = "failed",
      [KC_STATUS_CANCELLED] = "cancelled",
      [KC_STATUS_TIMED_OUT] = "timed_out"};
  KC_ASSERT((unsigned)status < KC_STATUSES);
  KC_ASSERT(names[status] != NULL);
  return names[status];
}

/* No request holds more pages than the pool has, nor more than its longest context needs. */
static uint32_t row_pages(const struct kc_instance_config *config)
{
  const uint64_t longest = kc_pages_of(config->sched.max_model_len, config->sched.page_size);
  KC_ASSERT(config->pages > 0);
  /* A page that was taken away from a row may be handed out to it again. */
  if (config->inject.kinds != 0) return (uint32_t)longest;
  return longest < config->pages ? (uint32_t)longest : config->pages;
}

static enum kc_cache_kind cache_kind(const struct kc_instance_config *config)
{
  KC_ASSERT(config->policy != NULL);
  return config->sched.prefix_cache ? config->policy->cache_kind : KC_CACHE_NONE;
}

size_t kc_instance_need(const struct kc_instance_config *config)
{
  const uint32_t slots = config->sched.max_running;
  const uint32_t keys = config->sched.prefix_cache ? config->sched.key_count : 0;
  const size_t needs[] = {kc_batch_need(&config->sched, config->policy, config->requests_max),
                          kc_pool_need(config->pages), kc_table_need(slots, row_pages(config)),
                          kc_prefix_cache_need(cache_kind(config), config->pages, keys),
                          kc_arena_need(keys, sizeof(uint32_t)),
                          kc_inject_need(&config->inject),
                          kc_arena_need(slots, sizeof(struct kc_giving_up))};
  size_t total = 0;
  for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  KC_ASSERT(total > 0);
  return total;
}

static enum kc_err take_memory(struct kc_instance *instance, struct kc_arena *arena,
                               const struct kc_request *requests)
{
  const struct kc_instance_config *config = &instance->config;
  const uint32_t slots = config->sched.max_running;
  const bool caches = config->sched.prefix_cache;
  const uint32_t keys = caches ? config->sched.key_count : 0;
  KC_TRY(kc_pool_init(&instance->pool, config->pages, config->seed, arena));
  KC_TRY(kc_table_init(&instance->table, slots, row_pages(config), arena));
  KC_TRY(kc_prefix_cache_init(&instance->cache, cache_kind(config), &instance->pool,
                              &instance->table, keys, arena));
  instance->giving_up = kc_arena_take(arena, slots, sizeof *instance->giving_up);
  if (instance->giving_up == NULL) return KC_ERR_MEMORY;
  if (keys > 0) {
    instance->offered = kc_arena_take(arena, keys, sizeof *instance->offered);
    if (instance->offered == NULL) return KC_ERR_MEMORY;
  }
  KC_TRY(kc_batch_init(&instance->batch, &config->sched, config->policy, &instance->pool,
                       &instance->table, caches ? &instance->cache : NULL, requests,
                       config->requests_max, arena));
  return kc_inject_init(instance, arena);
}

enum kc_err kc_instance_init(struct kc_instance *instance, const struct kc_instance_config *config,
                             const struct kc_request *requests, const struct kc_executor *executor,
                             const struct kc_observer *observer, struct kc_arena *arena,
                             struct kc_diag *diag)
{
  KC_ASSERT(config->policy != NULL && config->requests_max > 0);
  KC_ASSERT(executor->run != NULL);
  KC_TRY(config->policy->validate(&config->sched, diag));
  *instance = (struct kc_instance){.config = *config,
                                   .executor = *executor,
                                   .observer = *observer,
                                   .demand_is_final = config->demand_is_final,
                                   .sees_all = true,
                                   .oom_ps = KC_PS_NEVER};
  const enum kc_err err = take_memory(instance, arena, requests);
  if (err != KC_OK) {
    return kc_fail(diag, err, "the run's tables need more memory than was reserved");
  }
  instance->pool.paranoid = config->integrity == KC_INTEGRITY_PARANOID;
  if (config->integrity == KC_INTEGRITY_BATCHED) kc_table_watch(&instance->table, &instance->pool);
  return KC_OK;
}

/* ---- outcomes ---- */

/* batch->short_ps, with the beginning of the step under way up to `now_ps`. */
static kc_ps short_until(const struct kc_instance *instance, kc_ps now_ps)
{
  const struct kc_batch *batch = &instance->batch;
  if (!instance->in_step || !batch->short_of_pages) return batch->short_ps;
  KC_ASSERT(now_ps >= instance->clock_ps && now_ps <= instance->report.end_ps);
  return batch->short_ps + (now_ps - instance->clock_ps);
}

static void report_outcome(struct kc_instance *instance, const struct kc_outcome *outcome,
                           bool was_offered)
{
  KC_ASSERT(instance->ended < instance->batch.queue.arrived);
  KC_ASSERT(outcome->end_ps >= outcome->arrival_ps);
  instance->ended++;
  if (was_offered) kc_demand_withdraw(instance, outcome->request);
  instance->observer.on_end(instance->observer.context, outcome);
}

/* How a request ended that held no slot at that time. */
static void report_waiting(struct kc_instance *instance, const struct kc_waiting *w, kc_ps now_ps,
                           enum kc_status status, enum kc_reason reason)
{
  const struct kc_spent spent =
      kc_batch_spent_waiting(&instance->batch, w, short_until(instance, now_ps));
  const struct kc_outcome outcome = {
      .request = w->request,
      .status = status,
      .reason = reason,
      .output_tokens = w->outputs,
      .preemptions = w->preemptions,
      .cached_tokens = w->cached_tokens,
      .recached_tokens = w->recached_tokens,
      .contaminated = w->contaminated,
      .arrival_ps = instance->batch.requests[w->request].arrival_ps,
      .first_token_ps = w->first_token_ps,
      .end_ps = now_ps,
      .resident_ps = spent.resident_ps,
      .kv_wait_ps = spent.kv_wait_ps,
      .host_ps = spent.host_ps,
      .first = w->first};
  report_outcome(instance, &outcome, true);
}

static struct kc_outcome outcome_of_slot(const struct kc_instance *instance, uint32_t slot)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_slot *s = &batch->slot[slot];
  const struct kc_spent spent = kc_batch_spent(batch, slot, instance->clock_ps);
  KC_ASSERT(!s->ghost);
  return (struct kc_outcome){
      .request = s->request,
      .output_tokens = kc_batch_outputs(batch, slot),
      .preemptions = s->preemptions,
      .cached_tokens = s->cached_tokens,
      .recached_tokens = s->recached_tokens,
      .contaminated = s->contaminated,
      .arrival_ps = batch->requests[s->request].arrival_ps,
      .first_token_ps = s->first_token_ps,
      .end_ps = instance->clock_ps,
      .resident_ps = spent.resident_ps,
      .kv_wait_ps = spent.kv_wait_ps,
      .host_ps = spent.host_ps,
      .first = s->first};
}

/* Nothing that it leaves behind may be found by others. `withheld`: tokens of the last step that
 * must not leave, because they were computed from pages that were not the request's own. */
static void fail_slot(struct kc_instance *instance, uint32_t slot, uint32_t withheld)
{
  if (!instance->batch.slot[slot].ghost) {
    struct kc_outcome outcome = outcome_of_slot(instance, slot);
    KC_ASSERT(outcome.output_tokens >= withheld);
    outcome.status = KC_STATUS_FAILED;
    outcome.reason = KC_REASON_INTEGRITY;
    outcome.output_tokens -= withheld;
    (void)kc_batch_end(&instance->batch, slot); /* the pool has reported its faults */
    report_outcome(instance, &outcome, true);
    return;
  }
  (void)kc_batch_end(&instance->batch, slot);
}

/* With overlap, does the server run a decode once more that has just ended? It does not when it
 * knew that the limit of tokens would be reached. */
static bool decodes_on(const struct kc_instance *instance, const struct kc_outcome *outcome)
{
  const struct kc_batch *batch = &instance->batch;
  if (!batch->config.overlap) return false;
  return batch->policy->length_ghosts ||
         outcome->output_tokens < kc_batch_max_new(batch, outcome->request);
}

/* The request in `slot` is done, or given up between two steps. */
static void end_slot(struct kc_instance *instance, uint32_t slot, enum kc_status status,
                     enum kc_reason reason)
{
  struct kc_batch *batch = &instance->batch;
  struct kc_outcome outcome = outcome_of_slot(instance, slot);
  outcome.status = status;
  outcome.reason = reason;
  if (batch->slot[slot].state == KC_SLOT_PREFILL) {
    kc_batch_publish(batch, slot, batch->slot[slot].computed);
    const enum kc_err err = kc_batch_end(batch, slot);
    KC_ASSERT(err == KC_OK || batch->faulty);
  } else {
    kc_batch_retire(batch, slot, decodes_on(instance, &outcome));
  }
  report_outcome(instance, &outcome, true);
}

static void report_refusals(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  if (batch->refusal_count == 0) return;
  for (uint32_t i = 0; i < batch->refusal_count; i++) {
    const struct kc_refusal *refusal = &batch->refusal[i];
    const bool started = refusal->waiting.started;
    report_waiting(instance, &refusal->waiting, instance->clock_ps,
                   started ? KC_STATUS_FAILED : KC_STATUS_REJECTED, refusal->reason);
  }
  batch->refusal_count = 0;
}

/* ---- arrivals ---- */

bool kc_instance_busy(const struct kc_instance *instance)
{
  return instance->batch.running.count > 0 || kc_queue_count(&instance->batch.queue) > 0;
}

static enum kc_reason refuse_on_arrival(const struct kc_instance *instance,
                                        const struct kc_request *request)
{
  const struct kc_instance_config *config = &instance->config;
  const enum kc_reason reason = config->policy->refuse(&config->sched, config->pages, request);
  if (reason != KC_REASON_NONE || config->queue_limit == 0) return reason;
  const bool full = kc_queue_count(&instance->batch.queue) >= config->queue_limit;
  return full ? KC_REASON_QUEUE_FULL : KC_REASON_NONE;
}

void kc_instance_arrive(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  const uint32_t request = batch->queue.arrived;
  const struct kc_request *r = &batch->requests[request];
  KC_ASSERT(request == 0 || r->arrival_ps >= batch->requests[request - 1].arrival_ps);
  if (!kc_instance_busy(instance)) {
    if (instance->clock_ps < r->arrival_ps) instance->clock_ps = r->arrival_ps;
    instance->sees_all = true;
    batch->was_idle = true;
  }
  const enum kc_reason reason = refuse_on_arrival(instance, r);
  kc_batch_arrive(batch, reason);
  batch->short_before_ps[request] = short_until(instance, r->arrival_ps);
  if (reason != KC_REASON_NONE) {
    const struct kc_outcome outcome = {.request = request,
                                       .status = KC_STATUS_REJECTED,
                                       .reason = reason,
                                       .arrival_ps = r->arrival_ps,
                                       .first_token_ps = KC_PS_NEVER,
                                       .end_ps = r->arrival_ps};
    report_outcome(instance, &outcome, false);
    return;
  }
  kc_demand_offer(instance, request);
  kc_demand_note_arrival(instance, request);
}

/* ---- giving up ---- */

static enum kc_reason reason_of(enum kc_status status)
{
  KC_ASSERT(status == KC_STATUS_CANCELLED || status == KC_STATUS_TIMED_OUT);
  return status == KC_STATUS_CANCELLED ? KC_REASON_CANCELLED : KC_REASON_TIMED_OUT;
}

bool kc_instance_waits(const struct kc_instance *instance, uint32_t request)
{
  struct kc_queue_place place;
  const struct kc_queue *queue = &instance->batch.queue;
  if (request >= queue->arrived) return false;
  if (queue->kind != KC_QUEUE_PRIORITY && request < queue->next) return false;
  return kc_queue_find(queue, request, &place) && !place.waiting.started;
}

static uint32_t slot_of(const struct kc_batch *batch, uint32_t request)
{
  for (uint32_t slot = batch->running.head; slot != KC_SLOT_NONE;
       slot = batch->slot[slot].run_next) {
    if (batch->slot[slot].request == request && !batch->slot[slot].ghost) return slot;
  }
  return KC_SLOT_NONE;
}

/* Settles what ended: at once without overlap; with it when nothing is left that a step could be
 * formed around. */
static void settle_if_due(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  KC_ASSERT(batch->ghosts <= batch->running.count);
  const bool idle = batch->running.count == batch->ghosts && batch->ghost_decodes == 0 &&
                    kc_queue_count(&batch->queue) == 0;
  if (!batch->config.overlap || idle) kc_batch_settle(batch);
}

bool kc_instance_cancel(struct kc_instance *instance, uint32_t request, kc_ps now_ps,
                        enum kc_status status)
{
  struct kc_batch *batch = &instance->batch;
  struct kc_queue_place place;
  KC_ASSERT(request < batch->queue.arrived);
  KC_ASSERT(now_ps >= batch->requests[request].arrival_ps);
  if (kc_queue_find(&batch->queue, request, &place)) {
    batch->demand_pages -=
        kc_pages_of(kc_batch_known(batch, &place.waiting), batch->config.page_size);
    kc_queue_take(&batch->queue, &place);
    report_waiting(instance, &place.waiting, now_ps, status, reason_of(status));
    if (!instance->in_step) settle_if_due(instance);
    return true;
  }
  const uint32_t slot = slot_of(batch, request);
  if (slot == KC_SLOT_NONE || batch->slot[slot].giving_up) return false;
  if (!instance->in_step) {
    KC_ASSERT(now_ps == instance->clock_ps);
    end_slot(instance, slot, status, reason_of(status));
    settle_if_due(instance);
    return true;
  }
  batch->slot[slot].giving_up = true;
  instance->giving_up[instance->giving_up_count++] =
      (struct kc_giving_up){.slot = slot, .status = status};
  return true;
}

/* Ends those who were given up during the step and still run. */
static void give_up(struct kc_instance *instance)
{
  for (uint32_t i = 0; i < instance->giving_up_count; i++) {
    const struct kc_giving_up *g = &instance->giving_up[i];
    const struct kc_slot *s = &instance->batch.slot[g->slot];
    if (s->state == KC_SLOT_FREE || s->ghost || !s->giving_up) continue; /* has ended meanwhile */
    end_slot(instance, g->slot, g->status, reason_of(g->status));
  }
  instance->giving_up_count = 0;
}

/* ---- integrity ---- */

/* Aborts the request in `slot` if its row names a page that is not its own. */
static void check_row(struct kc_instance *instance, uint32_t slot)
{
  struct kc_batch *batch = &instance->batch;
  const struct kc_slot *s = &batch->slot[slot];
  if (s->state == KC_SLOT_FREE) return;
  const struct kc_content content = kc_batch_content(batch, s->request);
  const enum kc_err err =
      batch->cache != NULL
          ? kc_prefix_cache_check_row(batch->cache, slot, &content, NULL)
          : kc_table_check(&instance->table, &instance->pool, slot, NULL);
  if (err == KC_OK) return;
  kc_inject_note_abort(instance, slot);
  fail_slot(instance, slot, 0);
}

/* Rows that attention is about to read. BATCHED: none as long as no page changed its tag behind a
 * row's back and references and rows agree, which is so in every sound run; else all of them, which
 * finds what checking every row at every step would, in the same order. */
static void check_rows(struct kc_instance *instance)
{
  uint32_t slot;
  bool all = instance->config.integrity == KC_INTEGRITY_PARANOID;
  if (instance->config.integrity == KC_INTEGRITY_BATCHED) {
    all = kc_prefix_cache_suspect(&instance->cache) || instance->table.touched_count > 0;
  }
  if (!all) return;
  for (slot = 0; slot < instance->config.sched.max_running; slot++) check_row(instance, slot);
  while (kc_table_next_touched(&instance->table, &slot)) continue; /* looked at, all of them */
}

/* ---- one step ---- */

static uint32_t in_place_joins(const struct kc_batch *batch)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < batch->step.join_count; i++) count += batch->join[i].kv_in_place;
  KC_ASSERT(count <= batch->decodes);
  return count;
}

/* True when this decode started with its KV in place in the step that is running. */
static bool joined_in_place(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  return s->decode_from == batch->tick && s->joined_ps == batch->now_ps && s->fresh_at == 0;
}

/* True when the step that just ran computed the last chunk of the slot's prompt. */
static bool completes(const struct kc_batch *batch, uint32_t slot)
{
  KC_ASSERT(slot < batch->config.max_running);
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) {
    if (batch->chunk[i].slot == slot) return batch->chunk[i].last;
  }
  return false;
}

/* Decodes whose previous token came with the last tick, and tokens that the step yields: what the
 * executor found wrong does not count, nor do ghosts. */
static void count_tokens(const struct kc_instance *instance, struct kc_step_report *report)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_step_result *result = &instance->result;
  uint32_t steady = 0;
  uint32_t tokens = batch->step.sum.logits;
  if (batch->step.decoding) {
    tokens -= batch->ghost_decodes;
    steady = batch->decodes - batch->ghost_decodes - in_place_joins(batch) -
             (batch->fresh_count - batch->step.pause_count);
  }
  for (uint32_t i = 0; i < result->violation_count; i++) {
    const uint32_t slot = result->violation[i].slot;
    const struct kc_slot *s = &batch->slot[slot];
    const bool decodes = batch->step.decoding && s->state == KC_SLOT_DECODE && !s->ghost;
    steady -= decodes && s->fresh_at == 0 && !joined_in_place(batch, slot);
    tokens -= decodes || completes(batch, slot);
  }
  KC_ASSERT(steady <= batch->decodes && tokens <= batch->step.sum.logits);
  report->steady_decodes = steady;
  report->tokens_out = tokens;
}

static void describe_step(struct kc_instance *instance)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_pool *pool = &instance->pool;
  const kc_ps end_ps = kc_ps_add(instance->clock_ps, instance->result.duration_ps);
  const uint64_t evicted = instance->cache.counts.pages_evicted;
  struct kc_step_report *report = &instance->report;
  *report = (struct kc_step_report){
      .index = batch->step.index,
      .start_ps = instance->clock_ps,
      .end_ps = end_ps,
      .running = batch->running.count - batch->ghosts,
      .ghosts = batch->step.decoding ? batch->ghost_decodes : 0,
      .waiting = kc_queue_count(&batch->queue),
      .pages_used = pool->page_count - pool->free_count - pool->idle_count,
      .pages_cached_idle = pool->idle_count,
      .pages_evicted = evicted - instance->evicted,
      .held_tokens = kc_batch_held(batch)};
  instance->evicted = evicted;
  count_tokens(instance, report);
  if (report->steady_decodes > 0) report->steady_gap_ps = end_ps - batch->decoded_ps;
}

/* A token came out for a slot whose previous token, if it has one, is not of the last tick. */
static void first_token(struct kc_instance *instance, uint32_t slot)
{
  struct kc_slot *s = &instance->batch.slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  if (s->first_token_ps == KC_PS_NEVER) {
    s->first_token_ps = instance->clock_ps;
    s->first = kc_batch_spent(&instance->batch, slot, instance->clock_ps);
    return;
  }
  KC_ASSERT(s->last_token_ps <= instance->clock_ps);
  instance->observer.on_gap(instance->observer.context, instance->clock_ps - s->last_token_ps);
}

/* Those whose last token did not come with the last tick have made one in this one. */
static void report_fresh(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  const struct kc_step_result *result = &instance->result;
  for (uint32_t i = 0; i < result->violation_count; i++) {
    kc_batch_forget_fresh(batch, result->violation[i].slot);
  }
  for (uint32_t i = batch->fresh_count; i-- > 0;) {
    const uint32_t slot = batch->fresh[i];
    const struct kc_slot *s = &batch->slot[slot];
    if (s->paused) continue;
    KC_ASSERT(s->state == KC_SLOT_DECODE && !s->ghost);
    instance->observer.on_gap(instance->observer.context, instance->clock_ps - s->last_token_ps);
    kc_batch_forget_fresh(batch, slot);
  }
}

/* Ends the requests whose rows the executor found wrong; their tokens of this step stay inside. */
static void abort_violations(struct kc_instance *instance)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_step_result *result = &instance->result;
  for (uint32_t i = 0; i < result->violation_count; i++) {
    const uint32_t slot = result->violation[i].slot;
    KC_ASSERT(slot < instance->config.sched.max_running);
    if (batch->slot[slot].state == KC_SLOT_FREE) continue; /* reported twice */
    fail_slot(instance, slot, batch->ran_decoding && batch->slot[slot].state == KC_SLOT_DECODE);
  }
}

static void complete_prompts(struct kc_instance *instance, uint32_t chunks)
{
  struct kc_batch *batch = &instance->batch;
  for (uint32_t i = 0; i < chunks; i++) {
    const struct kc_chunk *chunk = &batch->chunk[i];
    if (batch->slot[chunk->slot].state == KC_SLOT_FREE) continue;
    if (!kc_batch_chunk_done(batch, chunk)) continue;
    first_token(instance, chunk->slot);
    if (!batch->ran_decoding) kc_batch_note_fresh(batch, chunk->slot, instance->clock_ps);
    kc_batch_list_prompt(batch, chunk->slot);
  }
}

/* Books what the step that just ran has produced. */
static void complete(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  const struct kc_step_result *result = &instance->result;
  const uint32_t joins = batch->step.join_count;
  const uint32_t chunks = batch->step.chunk_count;
  if (batch->step.decoding && batch->fresh_count > 0) report_fresh(instance);
  kc_batch_advance(batch, instance->clock_ps);
  if (batch->settle_count > 0) kc_batch_settle(batch); /* ghosts of the step before */
  abort_violations(instance);
  for (uint32_t i = 0; i < joins; i++) {
    const struct kc_join *join = &batch->join[i];
    if (!join->kv_in_place || batch->slot[join->slot].state == KC_SLOT_FREE) continue;
    first_token(instance, join->slot);
  }
  complete_prompts(instance, chunks);
  for (uint32_t i = 0; i < result->finish_count; i++) {
    const uint32_t slot = result->finish[i];
    /* A ghost of somebody who gave up: the executor does not know, and it has left just now. */
    if (batch->slot[slot].state == KC_SLOT_FREE) continue;
    end_slot(instance, slot, KC_STATUS_COMPLETED, KC_REASON_NONE);
  }
  if (instance->giving_up_count > 0) give_up(instance);
  if (batch->settle_count > 0) settle_if_due(instance);
}

/* Has the policy see requests [0, seen) and form a step. True when there is something to run. */
static inline bool form(struct kc_instance *instance, uint32_t seen)
{
  struct kc_batch *batch = &instance->batch;
  if (seen > batch->queue.seen) kc_queue_show(&batch->queue, seen);
  batch->all_seen = seen == batch->queue.arrived && batch->ghosts == 0;
  instance->config.policy->form_step(batch);
  report_refusals(instance);
  if (batch->step.chunk_count > 0 || (batch->step.decoding && batch->decodes > 0)) return true;
  if (batch->step.pause_count > 0) kc_batch_resume(batch);
  return false;
}

/* With overlap, first with what the server knew when the last step started; if that gives nothing,
 * it waits until the last step's results are in, and looks again. */
static bool form_with_overlap(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  const uint32_t arrived = batch->queue.arrived;
  const kc_ps known_ps = instance->step_start_ps;
  bool everything = instance->sees_all || !batch->config.overlap;
  uint32_t seen = everything ? arrived : batch->queue.seen;
  while (seen < arrived && batch->requests[seen].arrival_ps <= known_ps) seen++;
  for (;;) {
    if (form(instance, seen)) return true;
    if (everything && batch->ghosts == 0) return false;
    kc_batch_settle(batch);
    everything = true;
    seen = arrived;
  }
}

enum kc_err kc_instance_begin_step(struct kc_instance *instance, struct kc_diag *diag)
{
  struct kc_batch *batch = &instance->batch;
  KC_ASSERT(!instance->in_step);
  KC_ASSERT(kc_instance_busy(instance));
  const uint64_t preemptions = batch->preemptions;
  const uint32_t ended = instance->ended;
  const uint32_t ghosts = batch->ghosts;
  if (batch->faulty) kc_inject_before_step(instance);
  check_rows(instance);
  if (batch->faulty) kc_inject_mend(instance);
  batch->now_ps = instance->clock_ps;
  if (!instance->demand_is_final && instance->oom_ps == KC_PS_NEVER) {
    kc_demand_note_growth(instance);
  }
  const bool formed = form_with_overlap(instance);
  kc_batch_seal(batch);
  instance->sees_all = !formed;
  instance->step_start_ps = instance->clock_ps;
  if (!formed) {
    KC_ASSERT(batch->preemptions > preemptions || instance->ended > ended ||
              batch->ghosts < ghosts);
    return KC_OK;
  }
  if (batch->faulty) kc_inject_before_run(instance);
  instance->result = (struct kc_step_result){0};
  KC_TRY(instance->executor.run(instance->executor.context, &batch->step, &instance->result,
                                diag));
  KC_ASSERT(instance->result.duration_ps > 0);
  describe_step(instance);
  instance->in_step = true;
  return KC_OK;
}

void kc_instance_end_step(struct kc_instance *instance)
{
  KC_ASSERT(instance->in_step);
  KC_ASSERT(instance->report.end_ps > instance->clock_ps);
  instance->in_step = false;
  instance->clock_ps = instance->report.end_ps;
  instance->batch.host_ps += instance->result.host_ps;
  if (instance->batch.short_of_pages) instance->batch.short_ps += instance->result.duration_ps;
  instance->observer.on_step(instance->observer.context, &instance->report);
  complete(instance);
}

enum kc_err kc_instance_finish(struct kc_instance *instance, struct kc_diag *diag)
{
  KC_ASSERT(!kc_instance_busy(instance));
  KC_ASSERT(instance->ended == instance->batch.queue.arrived);
  KC_ASSERT(instance->table.in_use == 0);
  KC_ASSERT(instance->batch.demand_pages == 0 && instance->final_pages == 0);
  KC_ASSERT(instance->shared_demand == 0);
  kc_inject_finish(instance);
  const enum kc_err scrub = kc_pool_scrub(&instance->pool);
  if (scrub != KC_OK) {
    return kc_fail(diag, scrub, "a page record is damaged at the end of the run; the results "
                                "cannot be trusted: please report the scenario");
  }
  const enum kc_err balance = kc_prefix_cache_balance(&instance->cache);
  if (balance != KC_OK) {
    return kc_fail(diag, balance, "pages are neither free nor owned at the end of the run; the "
                                  "results cannot be trusted: please report the scenario");
  }
  return KC_OK;
}
