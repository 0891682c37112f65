/* One serving instance (see instance.h): the step loop that simulator and engines share.
 *
 *   kc_instance_begin_step
 *     check rows -> note growth -> form (policy) -> report refusals -> seal -> run (executor)
 *   requests may arrive
 *   kc_instance_end_step
 *     advance the clock -> first tokens -> outcomes
 *
 * Memory: everything comes from the run's arena at kc_instance_init; a step allocates nothing.
 * The request table is borrowed and may grow behind us (closed loops append to it).
 */
#include "engine/instance/instance.h"

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
  return longest < config->pages ? (uint32_t)longest : config->pages;
}

size_t kc_instance_need(const struct kc_instance_config *config)
{
  const uint32_t slots = config->sched.max_running;
  const size_t needs[] = {kc_batch_need(&config->sched), kc_pool_need(config->pages),
                          kc_table_need(slots, row_pages(config))};
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
  KC_TRY(kc_pool_init(&instance->pool, config->pages, config->seed, arena));
  KC_TRY(kc_table_init(&instance->table, slots, row_pages(config), arena));
  return kc_batch_init(&instance->batch, &config->sched, &instance->pool, &instance->table,
                       requests, arena);
}

enum kc_err kc_instance_init(struct kc_instance *instance, const struct kc_instance_config *config,
                             const struct kc_request *requests, const struct kc_executor *executor,
                             const struct kc_observer *observer, struct kc_arena *arena,
                             struct kc_diag *diag)
{
  KC_ASSERT(config->policy != NULL);
  KC_ASSERT(executor->run != NULL);
  KC_TRY(config->policy->validate(&config->sched, diag));
  *instance = (struct kc_instance){.config = *config,
                                   .executor = *executor,
                                   .observer = *observer,
                                   .demand_is_final = config->demand_is_final,
                                   .oom_ps = KC_PS_NEVER};
  const enum kc_err err = take_memory(instance, arena, requests);
  if (err != KC_OK) {
    return kc_fail(diag, err, "the run's tables need more memory than was reserved");
  }
  instance->pool.paranoid = config->integrity == KC_INTEGRITY_PARANOID;
  if (config->integrity == KC_INTEGRITY_BATCHED) kc_table_watch(&instance->table, &instance->pool);
  return KC_OK;
}

/* ---- offered KV against the pool ----
 *
 * A request is offered from its arrival until it has ended, whether it waits, runs or was
 * preempted. What all of them want is compared with the pool whatever the policy does about it. */

static uint64_t final_pages_of(const struct kc_instance *instance, uint32_t request)
{
  const struct kc_request *r = &instance->batch.requests[request];
  const uint64_t output = kc_request_output(r, instance->config.sched.max_model_len);
  KC_ASSERT(output > 0);
  return kc_pages_of(r->input_tokens + output - 1, instance->config.sched.page_size);
}

static void note_demand(struct kc_instance *instance, kc_ps now_ps, uint32_t request,
                        uint64_t demand)
{
  if (demand <= instance->pool.page_count || instance->oom_ps != KC_PS_NEVER) return;
  instance->oom_ps = now_ps;
  instance->oom_request = request;
  instance->oom_demand_pages = demand;
}

/* Every decode that needs a page in the step about to be formed has grown by one, whether it will
 * get that page or not. */
static void note_growth(struct kc_instance *instance)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_list *needy = kc_batch_needy(batch);
  const uint64_t pages = instance->pool.page_count;
  if (instance->demand_is_final || instance->oom_ps != KC_PS_NEVER) return;
  if (batch->demand_pages + needy->count <= pages) return;
  KC_ASSERT(batch->demand_pages <= pages); /* or it would have been noted before */
  uint32_t slot = needy->head;
  for (uint64_t i = batch->demand_pages; i < pages; i++) slot = batch->slot[slot].list_next;
  note_demand(instance, instance->clock_ps, batch->slot[slot].request, pages + 1);
}

/* ---- outcomes ---- */

static void report_outcome(struct kc_instance *instance, const struct kc_outcome *outcome,
                           bool was_queued)
{
  KC_ASSERT(instance->ended < instance->batch.arrived);
  KC_ASSERT(outcome->end_ps >= outcome->arrival_ps);
  instance->ended++;
  if (was_queued) instance->final_pages -= final_pages_of(instance, outcome->request);
  instance->observer.on_end(instance->observer.context, outcome);
}

/* `withheld`: tokens of the last step that must not leave, because they were computed from pages
 * that were not the request's own. */
static void end_slot(struct kc_instance *instance, uint32_t slot, enum kc_status status,
                     enum kc_reason reason, uint32_t withheld)
{
  struct kc_batch *batch = &instance->batch;
  const struct kc_slot *s = &batch->slot[slot];
  const kc_ps now_ps = instance->clock_ps;
  const struct kc_outcome outcome = {
      .request = s->request,
      .status = status,
      .reason = reason,
      .output_tokens = kc_batch_outputs(batch, slot) - withheld,
      .preemptions = s->preemptions,
      .arrival_ps = batch->requests[s->request].arrival_ps,
      .first_token_ps = s->first_token_ps,
      .end_ps = now_ps,
      .resident_ps = s->resident_ps + (now_ps - s->joined_ps)};
  const enum kc_err err = kc_batch_end(batch, slot);
  KC_ASSERT(err == KC_OK || reason == KC_REASON_INTEGRITY);
  report_outcome(instance, &outcome, true);
}

static void report_refusals(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  for (uint32_t i = 0; i < batch->refusal_count; i++) {
    const struct kc_refusal *refusal = &batch->refusal[i];
    const struct kc_waiting *w = &refusal->waiting;
    const struct kc_outcome outcome = {
        .request = w->request,
        .status = w->preemptions > 0 ? KC_STATUS_FAILED : KC_STATUS_REJECTED,
        .reason = refusal->reason,
        .output_tokens = w->outputs,
        .preemptions = w->preemptions,
        .arrival_ps = batch->requests[w->request].arrival_ps,
        .first_token_ps = w->first_token_ps,
        .end_ps = instance->clock_ps,
        .resident_ps = w->resident_ps};
    report_outcome(instance, &outcome, true);
  }
  batch->refusal_count = 0;
}

/* ---- arrivals ---- */

bool kc_instance_busy(const struct kc_instance *instance)
{
  return instance->batch.running.count > 0 || kc_batch_waiting(&instance->batch) > 0;
}

void kc_instance_arrive(struct kc_instance *instance)
{
  struct kc_batch *batch = &instance->batch;
  const uint32_t request = batch->arrived;
  const kc_ps arrival_ps = batch->requests[request].arrival_ps;
  KC_ASSERT(request == 0 || arrival_ps >= batch->requests[request - 1].arrival_ps);
  if (!kc_instance_busy(instance) && instance->clock_ps < arrival_ps) {
    instance->clock_ps = arrival_ps;
  }
  if (!kc_batch_arrive(batch)) {
    const struct kc_outcome outcome = {.request = request,
                                       .status = KC_STATUS_REJECTED,
                                       .reason = KC_REASON_PROMPT_TOO_LONG,
                                       .arrival_ps = arrival_ps,
                                       .first_token_ps = KC_PS_NEVER,
                                       .end_ps = arrival_ps};
    report_outcome(instance, &outcome, false);
    return;
  }
  instance->final_pages += final_pages_of(instance, request);
  note_demand(instance, arrival_ps, request,
              instance->demand_is_final ? instance->final_pages : batch->demand_pages);
}

/* ---- integrity ---- */

/* Aborts the request in `slot` if its row names a page that is not its own. */
static void check_row(struct kc_instance *instance, uint32_t slot)
{
  if (instance->batch.slot[slot].state == KC_SLOT_FREE) return;
  if (kc_table_check(&instance->table, &instance->pool, slot, NULL) == KC_OK) return;
  end_slot(instance, slot, KC_STATUS_FAILED, KC_REASON_INTEGRITY, 0);
}

/* Rows that attention is about to read. BATCHED: those with a page whose tag changed behind their
 * back, which finds what checking every row would. */
static void check_rows(struct kc_instance *instance)
{
  uint32_t slot;
  if (instance->config.integrity == KC_INTEGRITY_PARANOID) {
    for (slot = 0; slot < instance->config.sched.max_running; slot++) check_row(instance, slot);
  }
  while (kc_table_next_touched(&instance->table, &slot)) check_row(instance, slot);
}

/* ---- one step ---- */

/* True when this decode started with the step that just ran: its previous token, if any, is older
 * than the step before. */
static bool is_fresh(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  return s->decode_from == batch->step.index && s->joined_ps == batch->now_ps;
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

static void describe_step(struct kc_instance *instance)
{
  const struct kc_step_result *result = &instance->result;
  const struct kc_batch *batch = &instance->batch;
  const struct kc_aggregates *sum = &batch->step.sum;
  uint32_t steady = sum->decodes;
  uint32_t tokens = sum->logits;
  for (uint32_t i = 0; i < batch->step.join_count; i++) steady -= batch->join[i].kv_in_place;
  for (uint32_t i = 0; i < result->violation_count; i++) {
    const uint32_t slot = result->violation[i].slot;
    const struct kc_slot *s = &batch->slot[slot];
    const bool decoding = s->state == KC_SLOT_DECODE;
    steady -= decoding && !is_fresh(batch, slot);
    tokens -= decoding || completes(batch, slot);
  }
  KC_ASSERT(steady <= sum->decodes && tokens <= sum->logits);
  instance->report = (struct kc_step_report){
      .index = batch->step.index,
      .start_ps = instance->clock_ps,
      .end_ps = kc_ps_add(instance->clock_ps, result->duration_ps),
      .steady_decodes = steady,
      .tokens_out = tokens,
      .running = batch->running.count,
      .waiting = kc_batch_waiting(batch),
      .pages_used = instance->pool.page_count - instance->pool.free_count,
      .held_tokens = sum->decode_context + batch->prefill_computed + sum->prefill_tokens};
}

/* A token came out for a slot whose previous token, if it has one, is not of the last step. */
static void first_token(struct kc_instance *instance, uint32_t slot)
{
  struct kc_slot *s = &instance->batch.slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  if (s->first_token_ps == KC_PS_NEVER) {
    s->first_token_ps = instance->clock_ps;
    return;
  }
  KC_ASSERT(s->last_token_ps <= instance->clock_ps);
  instance->observer.on_gap(instance->observer.context, instance->clock_ps - s->last_token_ps);
}

/* Ends the requests whose rows the executor found wrong; their tokens of this step stay inside. */
static void abort_violations(struct kc_instance *instance, const struct kc_step_result *result)
{
  const struct kc_batch *batch = &instance->batch;
  for (uint32_t i = 0; i < result->violation_count; i++) {
    const uint32_t slot = result->violation[i].slot;
    KC_ASSERT(slot < instance->config.sched.max_running);
    if (batch->slot[slot].state == KC_SLOT_FREE) continue; /* reported twice */
    end_slot(instance, slot, KC_STATUS_FAILED, KC_REASON_INTEGRITY,
             batch->slot[slot].state == KC_SLOT_DECODE);
  }
}

/* Books what the step that just ran has produced. */
static void complete(struct kc_instance *instance, const struct kc_step_result *result)
{
  struct kc_batch *batch = &instance->batch;
  const uint32_t joins = batch->step.join_count;
  const uint32_t chunks = batch->step.chunk_count;
  kc_batch_advance(batch);
  abort_violations(instance, result);
  for (uint32_t i = 0; i < joins; i++) {
    const struct kc_join *join = &batch->join[i];
    if (!join->kv_in_place || batch->slot[join->slot].state == KC_SLOT_FREE) continue;
    first_token(instance, join->slot);
  }
  for (uint32_t i = 0; i < chunks; i++) {
    const struct kc_chunk *chunk = &batch->chunk[i];
    if (batch->slot[chunk->slot].state == KC_SLOT_FREE) continue;
    if (kc_batch_chunk_done(batch, chunk)) first_token(instance, chunk->slot);
  }
  for (uint32_t i = 0; i < result->finish_count; i++) {
    end_slot(instance, result->finish[i], KC_STATUS_COMPLETED, KC_REASON_NONE, 0);
  }
}

enum kc_err kc_instance_begin_step(struct kc_instance *instance, struct kc_diag *diag)
{
  struct kc_batch *batch = &instance->batch;
  KC_ASSERT(!instance->in_step);
  KC_ASSERT(kc_instance_busy(instance));
  const uint64_t preemptions = batch->preemptions;
  const uint32_t ended = instance->ended;
  check_rows(instance);
  batch->now_ps = instance->clock_ps;
  note_growth(instance);
  instance->config.policy->form_step(batch);
  report_refusals(instance);
  kc_batch_seal(batch);
  if (batch->step.sum.decodes == 0 && batch->step.chunk_count == 0) {
    KC_ASSERT(batch->preemptions > preemptions || instance->ended > ended);
    return KC_OK;
  }
  struct kc_step_result *result = &instance->result;
  *result = (struct kc_step_result){0};
  KC_TRY(instance->executor.run(instance->executor.context, &batch->step, result, diag));
  KC_ASSERT(result->duration_ps > 0);
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
  instance->observer.on_step(instance->observer.context, &instance->report);
  complete(instance, &instance->result);
}

enum kc_err kc_instance_finish(struct kc_instance *instance, struct kc_diag *diag)
{
  KC_ASSERT(!kc_instance_busy(instance));
  KC_ASSERT(instance->ended == instance->batch.arrived);
  KC_ASSERT(instance->table.in_use == 0);
  KC_ASSERT(instance->batch.demand_pages == 0 && instance->final_pages == 0);
  const enum kc_err scrub = kc_pool_scrub(&instance->pool);
  if (scrub != KC_OK) {
    return kc_fail(diag, scrub, "a page record is damaged at the end of the run; the results "
                                "cannot be trusted: please report the scenario");
  }
  const enum kc_err balance = kc_pool_balance(&instance->pool);
  if (balance != KC_OK) {
    return kc_fail(diag, balance, "pages are neither free nor owned at the end of the run; the "
                                  "results cannot be trusted: please report the scenario");
  }
  return KC_OK;
}
