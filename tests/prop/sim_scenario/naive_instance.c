/* See naive_instance.h. What both policies share: who comes and goes, the clock, what a step costs
 * and what comes of it. The rules are the definitions in the headers of engine/sched,
 * engine/instance, sim/replay and sim/metrics. */
#include <stdlib.h>
#include <string.h>

#include "naive_parts.h"

/* ---- demand ---- */

/* Pages of `request`'s prompt that requests before it in `order` have too, and that are offered. */
static uint64_t shared_before(const struct naive_run *run, uint32_t count, uint8_t *has)
{
  uint64_t shared = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t request = run->order[i];
    const struct naive_request *s = &run->state[request];
    const uint32_t pages = run->requests[request].input_tokens / run->sched.page_size;
    if (s->demand_pages == 0) continue;
    for (uint32_t k = 0; k < pages; k++) {
      shared += has[s->keys[k]];
      has[s->keys[k]] = 1;
    }
  }
  return shared;
}

static uint64_t demand_now(const struct naive_run *run)
{
  uint64_t demand = 0;
  for (uint32_t i = 0; i < run->arrived; i++) demand += run->state[run->order[i]].demand_pages;
  if (run->cache == KC_CACHE_NONE || demand <= run->pages) return demand;
  uint8_t *const has = calloc((size_t)run->sched.key_count + 1, 1);
  if (has == NULL) abort();
  demand -= shared_before(run, run->arrived, has);
  free(has);
  return demand;
}

/* `request` counts for `pages` from now on; the first time that the sum over all requests, pages of
 * prompts that several have once, exceeds the pool is kept. */
static void set_demand(struct naive_run *run, uint32_t request, uint64_t pages, kc_ps now_ps)
{
  const bool grows = pages > run->state[request].demand_pages;
  run->state[request].demand_pages = pages;
  if (!grows || run->oom_ps != KC_PS_NEVER) return;
  const uint64_t demand = demand_now(run);
  if (demand <= run->pages) return;
  run->oom_ps = now_ps;
  run->oom_request = request;
  run->oom_demand_pages = demand;
}

/* Closed loop: to the length it will reach; the last token has no KV. Open: the length it has. */
static uint64_t demand_at_arrival(const struct naive_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  if (!run->closed) return naive_pages_of(run, r->input_tokens);
  const uint32_t output = kc_request_output(r, run->sched.max_model_len);
  return naive_pages_of(run, (uint64_t)r->input_tokens + output - 1);
}

/* ---- arrivals and ends ---- */

static void offer(struct naive_run *run, kc_ps arrival_ps)
{
  const struct kc_closed_config *c = &run->closed_config;
  if (run->offered == run->request_count) return;
  struct kc_request *const request = &run->requests[run->offered++];
  request->arrival_ps = arrival_ps;
  request->input_tokens = c->input_tokens;
  request->output_tokens = c->output_tokens;
  request->max_tokens = c->output_tokens;
}

static void offer_after_end(struct naive_run *run, kc_ps end_ps)
{
  if (!run->closed) return;
  const struct kc_closed_config *c = &run->closed_config;
  if (c->mode == KC_CLOSED_STEADY) {
    offer(run, end_ps);
  } else if (run->outcome_count == run->offered) {
    for (uint32_t i = 0; i < c->concurrency; i++) offer(run, end_ps);
  }
}

/* Sessions: whoever waits for `request` knows its time now. */
static void time_successors(struct naive_run *run, uint32_t request, kc_ps end_ps)
{
  if (run->after == NULL) return;
  for (uint32_t i = 0; i < run->request_count; i++) {
    if (run->after[i] == request) run->state[i].due_ps = end_ps + run->wait_ps[i];
  }
}

/* Who comes next, or NAIVE_NOBODY as far as is known: the earliest, of several the lowest
 * number. */
static uint32_t next_arrival(const struct naive_run *run)
{
  uint32_t next = NAIVE_NOBODY;
  if (run->after == NULL) return run->arrived < run->offered ? run->arrived : NAIVE_NOBODY;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const struct naive_request *s = &run->state[i];
    if (s->arrived || s->due_ps == KC_PS_NEVER) continue;
    if (next == NAIVE_NOBODY || s->due_ps < run->state[next].due_ps) next = i;
  }
  return next;
}

static kc_ps next_arrival_ps(const struct naive_run *run)
{
  const uint32_t next = next_arrival(run);
  if (next == NAIVE_NOBODY) return KC_PS_NEVER;
  return run->after == NULL ? run->requests[next].arrival_ps : run->state[next].due_ps;
}

static void end_request(struct naive_run *run, uint32_t request, enum kc_status status,
                        enum kc_reason reason, kc_ps end_ps)
{
  struct naive_request *s = &run->state[request];
  if (run->outcome_count == run->request_count) abort();
  run->outcomes[run->outcome_count++] =
      (struct kc_outcome){.request = request,
                          .status = status,
                          .reason = reason,
                          .output_tokens = s->outputs,
                          .preemptions = s->preemptions,
                          .cached_tokens = s->cached_tokens,
                          .recached_tokens = s->recached_tokens,
                          .arrival_ps = run->requests[request].arrival_ps,
                          .first_token_ps = s->first_ps,
                          .end_ps = end_ps,
                          .resident_ps = s->resident_ps,
                          .kv_wait_ps = s->kv_wait_ps,
                          .host_ps = s->host_ps,
                          .first = s->first};
  s->demand_pages = 0;
  s->ended = true;
  offer_after_end(run, end_ps);
  time_successors(run, request, end_ps);
}

/* Why a request is turned away at the door, or KC_REASON_NONE. */
static enum kc_reason turned_away(const struct naive_run *run, uint32_t request)
{
  const uint64_t input = run->requests[request].input_tokens;
  const uint64_t pool = (uint64_t)run->pages * run->sched.page_size;
  const uint64_t length = run->sched.max_model_len;
  if (!run->sglang && input >= length) return KC_REASON_PROMPT_TOO_LONG;
  if (run->sglang && input + 6 >= (length < pool ? length : pool)) {
    return length <= pool ? KC_REASON_PROMPT_TOO_LONG : KC_REASON_POOL_TOO_SMALL;
  }
  if (run->queue_limit > 0 && run->waiting_count >= run->queue_limit) return KC_REASON_QUEUE_FULL;
  return KC_REASON_NONE;
}

static kc_ps later(kc_ps now_ps, kc_ps after_ps)
{
  return after_ps >= KC_PS_NEVER - now_ps ? KC_PS_NEVER : now_ps + after_ps;
}

static void set_deadlines(struct naive_run *run, uint32_t request, kc_ps now_ps)
{
  struct naive_request *s = &run->state[request];
  if (run->cancel_after_ps != NULL) s->cancel_ps = later(now_ps, run->cancel_after_ps[request]);
  if (run->patience == NULL) return;
  const struct kc_patience *p = &run->patience[run->requests[request].class_index];
  s->queue_timeout_ps = later(now_ps, p->queue_timeout_ps);
  s->timeout_ps = later(now_ps, p->timeout_ps);
}

static void arrive(struct naive_run *run)
{
  const uint32_t request = next_arrival(run);
  const kc_ps now_ps = next_arrival_ps(run);
  if (run->running_count == 0 && run->waiting_count == 0) {
    run->sees_all = true;
    naive_sglang_idle(run);
  }
  if (run->running_count == 0 && run->waiting_count == 0) { /* idle, if only for no time */
    run->sees_all = true;
    naive_sglang_idle(run);
  }
  run->requests[request].arrival_ps = now_ps;
  run->state[request].arrived = true;
  set_deadlines(run, request, now_ps);
  run->state[request].place = run->arrived;
  run->order[run->arrived++] = request;
  const enum kc_reason reason = turned_away(run, request);
  if (reason != KC_REASON_NONE) {
    end_request(run, request, KC_STATUS_REJECTED, reason, now_ps);
    return;
  }
  run->waiting[run->waiting_count++] = request;
  run->state[request].waits_from_ps = now_ps;
  set_demand(run, request, demand_at_arrival(run, request), now_ps);
}

/* ---- queue and batch ---- */

static void take_out(uint32_t *list, uint32_t *count, uint32_t request)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *count; i++) {
    if (list[i] != request) list[kept++] = list[i];
  }
  *count = kept;
}

static bool is_in(const uint32_t *list, uint32_t count, uint32_t request)
{
  for (uint32_t i = 0; i < count; i++) {
    if (list[i] == request) return true;
  }
  return false;
}

/* The request waits and has waited until `now_ps`: was it for pages? */
static void note_wait(struct naive_run *run, uint32_t request, kc_ps now_ps)
{
  struct naive_request *s = &run->state[request];
  if (run->in_step && run->short_of_pages) s->kv_wait_ps += now_ps - s->waits_from_ps;
  s->waits_from_ps = now_ps;
}

/* Overlap: the step is formed with what was known when the one before it started. */
bool naive_sees(const struct naive_run *run, uint32_t request)
{
  return !run->sched.overlap || run->sees_all || run->state[request].preemptions > 0 ||
         run->requests[request].arrival_ps <= run->last_start_ps;
}

void naive_join(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  take_out(run->waiting, &run->waiting_count, request);
  run->running[run->running_count++] = request;
  s->joined = true;
  s->started = true;
  s->hits = 0;
  s->joined_ps = run->clock_ps;
  s->decoding = false;
}

void naive_note_hits(struct naive_run *run, uint32_t request, uint32_t tokens)
{
  struct naive_request *s = &run->state[request];
  s->hits = tokens;
  if (s->preemptions == 0) s->cached_tokens = tokens;
  else s->recached_tokens += tokens;
}

static void leave_batch(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  naive_release(run, request);
  take_out(run->running, &run->running_count, request);
  take_out(run->settle, &run->settle_count, request);
  if (run->chunked == request) run->chunked = NAIVE_NOBODY;
  run->full = false;
  s->ghost = false;
  s->publish_later = 0;
}

/* Where a request goes that starts again: vllm ahead of everybody, sglang behind all that are
 * seen. */
static void put_back(struct naive_run *run, uint32_t request)
{
  uint32_t place = 0;
  while (run->sglang && place < run->waiting_count && naive_sees(run, run->waiting[place])) place++;
  for (uint32_t i = run->waiting_count; i > place; i--) run->waiting[i] = run->waiting[i - 1];
  run->waiting[place] = request;
  run->waiting_count++;
}

void naive_unseat(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  const bool ghost = s->ghost;
  if (!run->sglang) naive_publish(run, request, s->computed - (s->decoding ? s->chunk : 0));
  leave_batch(run, request);
  if (ghost) return;
  s->computed = 0;
  s->chunk = 0;
  s->decoding = false;
  s->preemptions++;
  s->resident_ps += run->clock_ps - s->joined_ps;
  s->waits_from_ps = run->clock_ps;
  put_back(run, request);
}

void naive_refuse(struct naive_run *run, uint32_t request, enum kc_reason reason)
{
  struct naive_request *s = &run->state[request];
  const bool runs = is_in(run->running, run->running_count, request);
  const bool ghost = s->ghost;
  if (runs) leave_batch(run, request);
  if (ghost) return;
  if (runs) s->resident_ps += run->clock_ps - s->joined_ps;
  take_out(run->waiting, &run->waiting_count, request);
  end_request(run, request, s->started ? KC_STATUS_FAILED : KC_STATUS_REJECTED, reason,
              run->clock_ps);
}

/* ---- ends of running requests ---- */

/* Gives slot and pages back; what it computed can be found from now on. */
static void vacate(struct naive_run *run, uint32_t request)
{
  naive_publish(run, request, run->state[request].kv_at_end);
  leave_batch(run, request);
}

/* Slot and pages stay until it is settled. */
static void end_running(struct naive_run *run, uint32_t request, enum kc_status status,
                        enum kc_reason reason)
{
  struct naive_request *s = &run->state[request];
  const struct kc_request *r = &run->requests[request];
  s->resident_ps += run->clock_ps - s->joined_ps;
  s->kv_at_end = s->computed;
  s->ghost = true;
  s->takes_part = run->sglang || (s->outputs < r->max_tokens &&
                                  naive_known(run, request) < run->sched.max_model_len);
  if (!s->decoding) vacate(run, request);
  else if (!is_in(run->settle, run->settle_count, request)) {
    run->settle[run->settle_count++] = request;
  }
  end_request(run, request, status, reason, run->clock_ps);
}

/* Publishes the prompts that are done, gives back what ended requests held. At the end of the step,
 * or with overlap, where the next is formed before the results are looked at, at the end of
 * that. */
static void settle(struct naive_run *run)
{
  while (run->settle_count > 0) {
    const uint32_t request = run->settle[0];
    struct naive_request *s = &run->state[request];
    if (s->ghost) {
      vacate(run, request);
      continue;
    }
    naive_publish(run, request, s->publish_later);
    s->publish_later = 0;
    take_out(run->settle, &run->settle_count, request);
  }
}

/* ---- clients and limits of time ---- */

struct deadline {
  uint32_t request; /* NAIVE_NOBODY: none */
  kc_ps time_ps;
  enum kc_status status;
};

static void earlier(struct deadline *best, uint32_t request, kc_ps time_ps, enum kc_status status)
{
  if (time_ps >= best->time_ps) return;
  *best = (struct deadline){.request = request, .time_ps = time_ps, .status = status};
}

/* The next that is due; of several at one instant, the first to have come. */
static struct deadline next_deadline(const struct naive_run *run)
{
  struct deadline best = {.request = NAIVE_NOBODY, .time_ps = KC_PS_NEVER};
  for (uint32_t i = 0; i < run->arrived; i++) {
    const struct naive_request *s = &run->state[run->order[i]];
    if (s->ended || s->given_up) continue;
    earlier(&best, run->order[i], s->cancel_ps, KC_STATUS_CANCELLED);
    if (!s->started) earlier(&best, run->order[i], s->queue_timeout_ps, KC_STATUS_TIMED_OUT);
    earlier(&best, run->order[i], s->timeout_ps, KC_STATUS_TIMED_OUT);
  }
  return best;
}

static enum kc_reason reason_of(enum kc_status status)
{
  return status == KC_STATUS_CANCELLED ? KC_REASON_CANCELLED : KC_REASON_TIMED_OUT;
}

/* A request that runs is given up when the step under way has ended. */
static void give_up(struct naive_run *run, const struct deadline *due)
{
  struct naive_request *s = &run->state[due->request];
  if (is_in(run->waiting, run->waiting_count, due->request)) {
    note_wait(run, due->request, due->time_ps);
    take_out(run->waiting, &run->waiting_count, due->request);
    end_request(run, due->request, due->status, reason_of(due->status), due->time_ps);
  } else if (run->in_step) {
    s->given_up = true;
    s->give_up_status = due->status;
    run->given_up[run->given_up_count++] = due->request;
  } else {
    end_running(run, due->request, due->status, reason_of(due->status));
    if (!run->sched.overlap) settle(run);
  }
}

/* Whatever comes before `until_ps` or at it, in order of time, arrivals first; deadlines at it only
 * when no step is under way. */
static void pass_events(struct naive_run *run, kc_ps until_ps)
{
  for (;;) {
    const struct deadline due = next_deadline(run);
    const kc_ps arrival_ps = next_arrival_ps(run);
    const kc_ps limit_ps = until_ps - run->in_step;
    if (arrival_ps <= until_ps && arrival_ps <= due.time_ps) arrive(run);
    else if (due.time_ps <= limit_ps) give_up(run, &due);
    else return;
  }
}

/* ---- what the step costs ---- */

static uint64_t capped(uint64_t value, uint64_t window)
{
  return value < window ? value : window;
}

static void add_decode(struct naive_run *run, const struct naive_request *s)
{
  struct kc_aggregates *sum = &run->sum;
  const uint64_t context = s->computed; /* its own token included */
  sum->decodes++;
  sum->logits++;
  sum->decode_context += context;
  if (context > sum->decode_context_max) sum->decode_context_max = context;
  for (uint32_t i = 0; i < run->sched.cap_count; i++) {
    sum->decode_capped[i] += capped(context, run->sched.cap[i]);
  }
}

static void add_chunk(struct naive_run *run, uint32_t request)
{
  struct kc_aggregates *sum = &run->sum;
  const struct naive_request *s = &run->state[request];
  const uint64_t start = s->computed - s->chunk;
  sum->chunks++;
  if (s->computed == naive_known(run, request)) sum->logits++;
  sum->prefill_tokens += s->chunk;
  sum->prefill_context += s->computed;
  for (uint64_t token = start + 1; token <= s->computed; token++) {
    sum->prefill_pairs += token;
    for (uint32_t i = 0; i < run->sched.cap_count; i++) {
      sum->prefill_capped_pairs[i] += capped(token, run->sched.cap[i]);
    }
  }
  for (uint32_t i = 0; i < run->sched.cap_count; i++) {
    sum->prefill_capped_context[i] += capped(s->computed, s->chunk + run->sched.cap[i] - 1);
  }
}

static void sum_up(struct naive_run *run)
{
  run->sum = (struct kc_aggregates){0};
  for (uint32_t i = 0; i < run->running_count; i++) {
    const struct naive_request *s = &run->state[run->running[i]];
    run->sum.table_entries += s->pages;
    if (s->chunk == 0) continue;
    if (s->decoding) add_decode(run, s);
    else add_chunk(run, run->running[i]);
  }
}

/* ---- a step ---- */

/* Decodes that stood still have not grown after all: what they lack is counted while the step runs,
 * and again when the next is formed. */
static void forget_growth(struct naive_run *run)
{
  for (uint32_t i = 0; i < run->running_count && !run->closed; i++) {
    struct naive_request *s = &run->state[run->running[i]];
    if (s->ghost || !s->decoding || s->chunk > 0) continue;
    s->demand_pages = naive_pages_of(run, s->computed);
  }
}

static bool form_step(struct naive_run *run)
{
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    struct naive_request *s = &run->state[request];
    s->chunk = 0;
    s->joined = false;
    if (run->closed || s->ghost) continue;
    set_demand(run, request, naive_pages_of(run, naive_known(run, request)), run->clock_ps);
  }
  if (run->sglang) naive_form_sglang(run);
  else naive_form_vllm(run);
  sum_up(run);
  if (run->sum.decodes + run->sum.chunks > 0) return true;
  forget_growth(run);
  return false;
}

/* Overlap: when the view of a step ago gives nothing to run, look at everything. */
static bool form_any_step(struct naive_run *run)
{
  if (form_step(run)) return true;
  if (run->sees_all || !run->sched.overlap) return false;
  settle(run);
  run->sees_all = true;
  return form_step(run);
}

static void book_step(struct naive_run *run)
{
  struct kc_summary *total = &run->summary;
  const uint64_t pages = run->pages - naive_available(run);
  uint64_t held_tokens = 0;
  const uint64_t idle = naive_cached_idle(run);
  uint32_t running = 0;
  for (uint32_t i = 0; i < run->running_count; i++) {
    const struct naive_request *s = &run->state[run->running[i]];
    total->ghost_slots += s->ghost && s->chunk > 0;
    if (s->ghost) continue;
    held_tokens += run->state[run->running[i]].computed;
    running++;
  }
  total->steps++;
  total->busy_ps += run->duration_ps;
  if (running > total->max_running) total->max_running = running;
  if (run->waiting_count > total->max_waiting) total->max_waiting = run->waiting_count;
  if (held_tokens > total->kv_peak_tokens) total->kv_peak_tokens = held_tokens;
  if (pages > total->kv_peak_pages) total->kv_peak_pages = pages;
  if (idle > total->kv_peak_cached_pages) total->kv_peak_cached_pages = idle;
}

static void add_gap(struct naive_run *run, kc_ps gap_ps)
{
  if (run->gap_count == run->gap_capacity) {
    run->gap_capacity = 2 * run->gap_capacity + 1024;
    run->gaps = realloc(run->gaps, run->gap_capacity * sizeof *run->gaps);
    if (run->gaps == NULL) abort();
  }
  run->gaps[run->gap_count++] = gap_ps;
}

static bool is_done(const struct naive_run *run, uint32_t request)
{
  return run->state[request].outputs >=
         kc_request_output(&run->requests[request], run->sched.max_model_len);
}

/* SGLang settles the prompts that are done first, in the order of the batch. */
static void give_token(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  s->outputs++;
  if (!s->decoding && run->sglang) {
    s->publish_later = s->computed;
    run->settle[run->settle_count++] = request;
  }
  s->decoding = true;
  if (s->first_ps == KC_PS_NEVER) {
    s->first_ps = run->clock_ps;
    s->first = (struct kc_spent){.resident_ps = s->resident_ps + run->clock_ps - s->joined_ps,
                                 .kv_wait_ps = s->kv_wait_ps,
                                 .host_ps = s->host_ps};
  } else add_gap(run, run->clock_ps - s->last_ps);
  s->last_ps = run->clock_ps;
}

/* Requests that have all their tokens end, in the order of the batch; then those that were given up
 * meanwhile, in that order. */
static void end_requests(struct naive_run *run)
{
  uint32_t *const batch = calloc(run->running_count + 1, sizeof *batch);
  const uint32_t count = run->running_count;
  if (batch == NULL) abort();
  memcpy(batch, run->running, count * sizeof *batch);
  for (uint32_t i = 0; i < count; i++) {
    if (run->state[batch[i]].ghost || !is_done(run, batch[i])) continue;
    end_running(run, batch[i], KC_STATUS_COMPLETED, KC_REASON_NONE);
  }
  free(batch);
  for (uint32_t i = 0; i < run->given_up_count; i++) {
    const uint32_t request = run->given_up[i];
    const enum kc_status status = run->state[request].give_up_status;
    if (!run->state[request].ended) end_running(run, request, status, reason_of(status));
  }
  run->given_up_count = 0;
}

static void end_step(struct naive_run *run)
{
  pass_events(run, run->clock_ps + run->duration_ps);
  for (uint32_t i = 0; i < run->waiting_count; i++) {
    note_wait(run, run->waiting[i], run->clock_ps + run->duration_ps);
  }
  for (uint32_t i = 0; i < run->running_count; i++) {
    run->state[run->running[i]].host_ps += run->host_ps;
  }
  run->clock_ps += run->duration_ps;
  run->in_step = false;
  forget_growth(run);
  settle(run);
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    const struct naive_request *s = &run->state[request];
    if (s->chunk > 0 && s->computed == naive_known(run, request)) give_token(run, request);
  }
  end_requests(run);
  if (!run->sched.overlap) settle(run);
}

bool naive_next(struct naive_run *run)
{
  if (run->in_step) end_step(run);
  for (;;) {
    pass_events(run, run->clock_ps);
    if (run->running_count == 0 && run->waiting_count == 0) {
      if (next_arrival(run) == NAIVE_NOBODY) return false;
      run->clock_ps = next_arrival_ps(run);
      continue;
    }
    if (form_any_step(run)) break;
  }
  run->duration_ps = kc_cost_step_parts(run->cost, &run->sum, &run->host_ps);
  run->in_step = true;
  run->sees_all = false;
  run->last_start_ps = run->clock_ps;
  book_step(run);
  return true;
}

void naive_begin(struct naive_run *run)
{
  const size_t count = run->request_count;
  run->outcomes = calloc(count, sizeof *run->outcomes);
  run->state = calloc(count, sizeof *run->state);
  uint32_t **const lists[] = {&run->waiting, &run->running, &run->order, &run->settle,
                              &run->given_up};
  if (!run->outcomes || !run->state) abort();
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    *lists[i] = calloc(count, sizeof **lists[i]);
    if (*lists[i] == NULL) abort();
  }
  for (size_t i = 0; i < count; i++) {
    run->state[i] = (struct naive_request){.first_ps = KC_PS_NEVER,
                                           .last_ps = KC_PS_NEVER,
                                           .due_ps = KC_PS_NEVER,
                                           .cancel_ps = KC_PS_NEVER,
                                           .timeout_ps = KC_PS_NEVER,
                                           .queue_timeout_ps = KC_PS_NEVER};
    if (run->after != NULL && run->after[i] == NAIVE_NOBODY) {
      run->state[i].due_ps = run->requests[i].arrival_ps;
    }
  }
  run->oom_ps = KC_PS_NEVER;
  run->chunked = NAIVE_NOBODY;
  naive_sglang_idle(run);
  naive_cache_begin(run);
  if (!run->closed) {
    run->offered = run->request_count;
    return;
  }
  for (uint32_t i = 0; i < run->closed_config.concurrency; i++) offer(run, 0);
}

void naive_end(struct naive_run *run)
{
  naive_cache_end(run);
  free(run->outcomes);
  free(run->state);
  free(run->waiting);
  free(run->running);
  free(run->order);
  free(run->settle);
  free(run->given_up);
  free(run->gaps);
}
