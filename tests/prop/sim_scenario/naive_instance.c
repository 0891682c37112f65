/* See naive_instance.h. The rules are those of vLLM 0.19's V1 scheduler (vllm/v1/core/sched/
 * scheduler.py, kv_cache_manager.py) without prefix caching, and the definitions in the headers of
 * engine/sched, engine/instance, sim/replay and sim/metrics. */
#include "naive_instance.h"

#include <stdlib.h>

enum { NOBODY = UINT32_MAX };

static uint64_t naive_pages(const struct naive_run *run, uint64_t tokens)
{
  return (tokens + run->sched.page_size - 1) / run->sched.page_size;
}

static uint32_t naive_known(const struct naive_run *run, uint32_t request)
{
  return run->requests[request].input_tokens + run->state[request].outputs;
}

static uint64_t naive_pages_used(const struct naive_run *run)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i < run->running_count; i++) used += run->state[run->running[i]].pages;
  return used;
}

static uint64_t naive_pages_free(const struct naive_run *run)
{
  return run->pages - naive_pages_used(run);
}

/* ---- demand ---- */

/* `request` counts for `pages` from now on; the first time that the sum over all requests exceeds
 * the pool is kept. */
static void set_demand(struct naive_run *run, uint32_t request, uint64_t pages, kc_ps now_ps)
{
  const bool grows = pages > run->state[request].demand_pages;
  run->state[request].demand_pages = pages;
  if (!grows || run->oom_ps != KC_PS_NEVER) return;
  uint64_t demand = 0;
  for (uint32_t i = 0; i < run->running_count; i++) {
    demand += run->state[run->running[i]].demand_pages;
  }
  for (uint32_t i = 0; i < run->waiting_count; i++) {
    demand += run->state[run->waiting[i]].demand_pages;
  }
  if (demand <= run->pages) return;
  run->oom_ps = now_ps;
  run->oom_request = request;
  run->oom_demand_pages = demand;
}

/* Closed loop: to the length it will reach; the last token has no KV. Open: the length it has. */
static uint64_t demand_at_arrival(const struct naive_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  if (!run->closed) return naive_pages(run, r->input_tokens);
  const uint32_t output = kc_request_output(r, run->sched.max_model_len);
  return naive_pages(run, (uint64_t)r->input_tokens + output - 1);
}

/* ---- arrivals and ends ---- */

static void offer(struct naive_run *run, kc_ps arrival_ps)
{
  const struct kc_closed_config *c = &run->closed_config;
  if (run->offered == run->request_count) return;
  run->requests[run->offered++] = (struct kc_request){.arrival_ps = arrival_ps,
                                                      .input_tokens = c->input_tokens,
                                                      .output_tokens = c->output_tokens,
                                                      .max_tokens = c->output_tokens};
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

/* Who comes next, or NOBODY as far as is known: the earliest, of several the lowest number. */
static uint32_t next_arrival(const struct naive_run *run)
{
  uint32_t next = NOBODY;
  if (run->after == NULL) return run->arrived < run->offered ? run->arrived : NOBODY;
  for (uint32_t i = 0; i < run->request_count; i++) {
    const struct naive_request *s = &run->state[i];
    if (s->arrived || s->due_ps == KC_PS_NEVER) continue;
    if (next == NOBODY || s->due_ps < run->state[next].due_ps) next = i;
  }
  return next;
}

static kc_ps next_arrival_ps(const struct naive_run *run)
{
  const uint32_t next = next_arrival(run);
  if (next == NOBODY) return KC_PS_NEVER;
  return run->after == NULL ? run->requests[next].arrival_ps : run->state[next].due_ps;
}

static void end_request(struct naive_run *run, uint32_t request, enum kc_status status,
                        enum kc_reason reason, kc_ps end_ps)
{
  const struct naive_request *s = &run->state[request];
  if (run->outcome_count == run->request_count) abort();
  run->outcomes[run->outcome_count++] =
      (struct kc_outcome){.request = request,
                          .status = status,
                          .reason = reason,
                          .output_tokens = s->outputs,
                          .preemptions = s->preemptions,
                          .arrival_ps = run->requests[request].arrival_ps,
                          .first_token_ps = s->first_ps,
                          .end_ps = end_ps,
                          .resident_ps = s->resident_ps};
  run->state[request].demand_pages = 0;
  offer_after_end(run, end_ps);
  time_successors(run, request, end_ps);
}

static void arrive(struct naive_run *run, kc_ps until_ps)
{
  while (next_arrival_ps(run) <= until_ps) {
    const uint32_t request = next_arrival(run);
    const kc_ps now_ps = next_arrival_ps(run);
    run->requests[request].arrival_ps = now_ps;
    run->state[request].arrived = true;
    run->order[run->arrived++] = request;
    if (run->requests[request].input_tokens >= run->sched.max_model_len) {
      end_request(run, request, KC_STATUS_REJECTED, KC_REASON_PROMPT_TOO_LONG, now_ps);
      continue;
    }
    run->waiting[run->waiting_count++] = request;
    set_demand(run, request, demand_at_arrival(run, request), now_ps);
  }
}

/* ---- queue and batch ---- */

static uint32_t take_waiting_head(struct naive_run *run)
{
  const uint32_t request = run->waiting[0];
  run->waiting_count--;
  for (uint32_t i = 0; i < run->waiting_count; i++) run->waiting[i] = run->waiting[i + 1];
  return request;
}

static void put_waiting_head(struct naive_run *run, uint32_t request)
{
  for (uint32_t i = run->waiting_count; i > 0; i--) run->waiting[i] = run->waiting[i - 1];
  run->waiting[0] = request;
  run->waiting_count++;
}

/* The tail of the batch loses its pages and starts again, ahead of everybody who waits. */
static uint32_t preempt_tail(struct naive_run *run)
{
  const uint32_t request = run->running[--run->running_count];
  struct naive_request *s = &run->state[request];
  s->pages = 0;
  s->computed = 0;
  s->decoding = false;
  s->preemptions++;
  s->resident_ps += run->clock_ps - s->joined_ps;
  put_waiting_head(run, request);
  return request;
}

static uint32_t smaller(uint32_t a, uint64_t b)
{
  return a < b ? a : (uint32_t)b;
}

/* Running requests in order, each as many tokens as it lacks and the budget allows. True when
 * somebody was preempted. */
static bool schedule_running(struct naive_run *run, uint32_t *budget)
{
  bool preempted = false;
  for (uint32_t i = 0; i < run->running_count && *budget > 0; i++) {
    const uint32_t request = run->running[i];
    struct naive_request *s = &run->state[request];
    uint32_t count = smaller(naive_known(run, request) - s->computed, *budget);
    count = smaller(count, run->sched.max_model_len - 1 - s->computed);
    if (count == 0) continue;
    const uint32_t need = (uint32_t)naive_pages(run, (uint64_t)s->computed + count) - s->pages;
    while (naive_pages_free(run) < need) {
      preempted = true;
      if (preempt_tail(run) == request) return true;
    }
    s->pages += need;
    s->computed += count;
    s->chunk = count;
    *budget -= count;
  }
  return preempted;
}

/* Why the head can never run here, or KC_REASON_NONE. */
static enum kc_reason hopeless(const struct naive_run *run, uint32_t request, bool in_place)
{
  const uint32_t known = naive_known(run, request);
  if (naive_pages(run, known) > run->pages) {
    return run->state[request].outputs > 0 ? KC_REASON_OUTGREW_POOL : KC_REASON_NEVER_FITS;
  }
  if (!run->sched.chunked_prefill && !in_place && known > run->sched.max_batched_tokens) {
    return KC_REASON_PROMPT_OVER_BUDGET;
  }
  return KC_REASON_NONE;
}

static void refuse_head(struct naive_run *run, enum kc_reason reason)
{
  const uint32_t request = take_waiting_head(run);
  const bool started = run->state[request].preemptions > 0;
  end_request(run, request, started ? KC_STATUS_FAILED : KC_STATUS_REJECTED, reason,
              run->clock_ps);
}

/* The head of the queue, if it may start now. False stops the admission of this step. */
static bool admit_head(struct naive_run *run, uint32_t request, bool in_place, uint32_t *budget)
{
  const uint32_t known = naive_known(run, request);
  const uint32_t count = in_place ? 1 : smaller(known, *budget);
  struct naive_request *s = &run->state[request];
  if (count < known && !in_place && !run->sched.chunked_prefill) return false;
  const uint64_t need = naive_pages(run, in_place ? known : count);
  if (run->sched.reserve_full_prompt && naive_pages(run, known) > naive_pages_free(run)) {
    return false;
  }
  if (need > naive_pages_free(run)) return false;
  take_waiting_head(run);
  run->running[run->running_count++] = request;
  s->joined = true;
  s->joined_ps = run->clock_ps;
  s->decoding = in_place;
  s->pages = (uint32_t)need;
  s->computed = in_place ? known : count;
  s->chunk = count;
  *budget -= count;
  return true;
}

static void schedule_waiting(struct naive_run *run, uint32_t budget)
{
  uint32_t refusals = 0;
  while (budget > 0 && run->running_count < run->sched.max_running && run->waiting_count > 0) {
    const uint32_t request = run->waiting[0];
    const bool in_place =
        run->sched.role == KC_ROLE_DECODE && run->state[request].preemptions == 0;
    const enum kc_reason reason = hopeless(run, request, in_place);
    if (reason == KC_REASON_NONE) {
      if (!admit_head(run, request, in_place, &budget)) return;
    } else {
      if (refusals++ == KC_REFUSALS_MAX) return;
      refuse_head(run, reason);
    }
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

static bool form_step(struct naive_run *run)
{
  uint32_t budget = run->sched.max_batched_tokens;
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    run->state[request].chunk = 0;
    run->state[request].joined = false;
    if (!run->closed) {
      set_demand(run, request, naive_pages(run, naive_known(run, request)), run->clock_ps);
    }
  }
  if (!schedule_running(run, &budget)) schedule_waiting(run, budget);
  sum_up(run);
  return run->sum.decodes + run->sum.chunks > 0;
}

static void book_step(struct naive_run *run)
{
  struct kc_summary *total = &run->summary;
  uint64_t held_tokens = 0;
  for (uint32_t i = 0; i < run->running_count; i++) {
    held_tokens += run->state[run->running[i]].computed;
  }
  total->steps++;
  total->busy_ps += run->duration_ps;
  if (run->running_count > total->max_running) total->max_running = run->running_count;
  if (run->waiting_count > total->max_waiting) total->max_waiting = run->waiting_count;
  if (held_tokens > total->kv_peak_tokens) total->kv_peak_tokens = held_tokens;
  if (naive_pages_used(run) > total->kv_peak_pages) total->kv_peak_pages = naive_pages_used(run);
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

static void give_token(struct naive_run *run, uint32_t request)
{
  struct naive_request *s = &run->state[request];
  s->decoding = true;
  s->outputs++;
  if (s->first_ps == KC_PS_NEVER) s->first_ps = run->clock_ps;
  else add_gap(run, run->clock_ps - s->last_ps);
  s->last_ps = run->clock_ps;
}

/* Tokens come out, requests end, in the order of the batch; the others stay in that order. */
static void end_step(struct naive_run *run)
{
  uint32_t kept = 0;
  run->clock_ps += run->duration_ps;
  arrive(run, run->clock_ps);
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    struct naive_request *s = &run->state[request];
    if (s->chunk > 0 && s->computed == naive_known(run, request)) give_token(run, request);
    if (s->outputs < kc_request_output(&run->requests[request], run->sched.max_model_len)) {
      run->running[kept++] = request;
      continue;
    }
    s->pages = 0;
    s->resident_ps += run->clock_ps - s->joined_ps;
    end_request(run, request, KC_STATUS_COMPLETED, KC_REASON_NONE, run->clock_ps);
  }
  run->running_count = kept;
}

bool naive_next(struct naive_run *run)
{
  if (run->step_formed) end_step(run);
  run->step_formed = false;
  for (;;) {
    arrive(run, run->clock_ps);
    if (run->running_count == 0 && run->waiting_count == 0) {
      if (next_arrival(run) == NOBODY) return false;
      run->clock_ps = next_arrival_ps(run);
      continue;
    }
    if (form_step(run)) break;
  }
  run->duration_ps = kc_cost_step(run->cost, &run->sum);
  run->step_formed = true;
  book_step(run);
  return true;
}

void naive_begin(struct naive_run *run)
{
  const size_t count = run->request_count;
  run->outcomes = calloc(count, sizeof *run->outcomes);
  run->state = calloc(count, sizeof *run->state);
  run->waiting = calloc(count, sizeof *run->waiting);
  run->running = calloc(count, sizeof *run->running);
  run->order = calloc(count, sizeof *run->order);
  if (!run->outcomes || !run->state || !run->waiting || !run->running || !run->order) abort();
  for (size_t i = 0; i < count; i++) {
    run->state[i].first_ps = KC_PS_NEVER;
    run->state[i].last_ps = KC_PS_NEVER;
    run->state[i].due_ps = KC_PS_NEVER;
    if (run->after != NULL && run->after[i] == NOBODY) {
      run->state[i].due_ps = run->requests[i].arrival_ps;
    }
  }
  run->oom_ps = KC_PS_NEVER;
  if (!run->closed) {
    run->offered = run->request_count;
    return;
  }
  for (uint32_t i = 0; i < run->closed_config.concurrency; i++) offer(run, 0);
}

void naive_end(struct naive_run *run)
{
  free(run->outcomes);
  free(run->state);
  free(run->waiting);
  free(run->running);
  free(run->order);
  free(run->gaps);
}
