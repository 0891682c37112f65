/* See twin_watch.h. A real executor knows a batch only from the deltas, and so does the watcher:
 *
 *   slot[s].request, .pages   as joins, grants and leaves told it
 *
 * which must be, at every step, what the twin holds. Deltas name requests by their place in the
 * table, which is the order of arrival; the twin keeps that order beside the numbers.
 */
#include "twin_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naive_instance.h"

enum { SLOT_FREE = UINT32_MAX };

struct seen_slot {
  uint32_t request; /* SLOT_FREE: none */
  uint32_t pages;
};

struct watch {
  struct naive_run naive;
  struct kc_executor inner;
  struct seen_slot *slot;
  uint32_t *slot_of;         /* [request], SLOT_FREE: none */
  uint32_t occupied;
  uint64_t step;
  bool differs;
};

static bool differ(struct watch *watch, const char *what, uint64_t product, uint64_t twin)
{
  if (!watch->differs) {
    printf("step %" PRIu64 ": %s is %" PRIu64 ", the twin has %" PRIu64 "\n", watch->step, what,
           product, twin);
  }
  watch->differs = true;
  return false;
}

static bool same(struct watch *watch, const char *what, uint64_t product, uint64_t twin)
{
  return product == twin || differ(watch, what, product, twin);
}

/* ---- the delta ---- */

/* The number of the request at a place of the table. */
static uint32_t number_of(struct watch *watch, uint32_t place)
{
  if (place < watch->naive.arrived) return watch->naive.order[place];
  differ(watch, "a request that joins before it came", place, watch->naive.arrived);
  return 0;
}

static void apply_delta(struct watch *watch, const struct kc_step *step)
{
  for (uint32_t i = 0; i < step->leave_count; i++) {
    struct seen_slot *s = &watch->slot[step->leave[i]];
    if (s->request == SLOT_FREE) {
      differ(watch, "a slot that leaves and is free", step->leave[i], SLOT_FREE);
      return;
    }
    watch->slot_of[s->request] = SLOT_FREE;
    s->request = SLOT_FREE;
    watch->occupied--;
  }
  for (uint32_t i = 0; i < step->join_count; i++) {
    struct seen_slot *s = &watch->slot[step->join[i].slot];
    if (!same(watch, "request in the slot that is joined", s->request, SLOT_FREE)) return;
    *s = (struct seen_slot){.request = number_of(watch, step->join[i].request)};
    watch->slot_of[s->request] = step->join[i].slot;
    watch->occupied++;
  }
  for (uint32_t i = 0; i < step->grant_count; i++) {
    struct seen_slot *s = &watch->slot[step->grant[i].slot];
    if (s->request == SLOT_FREE) {
      differ(watch, "a slot that is granted pages and is free", step->grant[i].slot, SLOT_FREE);
      return;
    }
    if (!same(watch, "first entry of a grant", step->grant[i].first, s->pages)) return;
    s->pages += step->grant[i].count;
  }
}

static void compare_join(struct watch *watch, const struct kc_join *join, uint32_t request)
{
  const struct naive_run *naive = &watch->naive;
  const struct naive_request *s = &naive->state[request];
  same(watch, "request that joins", number_of(watch, join->request), request);
  same(watch, "outputs of the join", join->outputs, s->outputs);
  same(watch, "known tokens of the join", join->known,
       naive->requests[request].input_tokens + s->outputs);
  same(watch, "cached tokens of the join", join->cached, s->hits);
  same(watch, "kv_in_place of the join", join->kv_in_place, s->decoding);
}

static void compare_chunk(struct watch *watch, const struct kc_chunk *chunk, uint32_t request)
{
  const struct naive_request *s = &watch->naive.state[request];
  same(watch, "request of the chunk", watch->slot[chunk->slot].request, request);
  same(watch, "start of the chunk", chunk->start, s->computed - s->chunk);
  same(watch, "tokens of the chunk", chunk->count, s->chunk);
  same(watch, "last chunk", chunk->last,
       s->computed == watch->naive.requests[request].input_tokens + s->outputs);
}

/* Joins and chunks come in the order of the batch. */
static void compare_members(struct watch *watch, const struct kc_step *step)
{
  const struct naive_run *naive = &watch->naive;
  uint32_t joins = 0, chunks = 0;
  if (!same(watch, "requests running", watch->occupied, naive->running_count)) return;
  for (uint32_t i = 0; i < naive->running_count && !watch->differs; i++) {
    const uint32_t request = naive->running[i];
    const struct naive_request *s = &naive->state[request];
    const uint32_t slot = watch->slot_of[request];
    if (slot == SLOT_FREE) {
      differ(watch, "slot of the request", slot, request);
      return;
    }
    same(watch, "pages of a member", watch->slot[slot].pages, s->pages);
    if (s->joined) {
      if (joins == step->join_count) differ(watch, "joins", joins, joins + 1);
      else compare_join(watch, &step->join[joins++], request);
    }
    if (s->chunk > 0 && !s->decoding) {
      if (chunks == step->chunk_count) differ(watch, "chunks", chunks, chunks + 1);
      else compare_chunk(watch, &step->chunk[chunks++], request);
    }
  }
  same(watch, "joins", step->join_count, joins);
  same(watch, "chunks", step->chunk_count, chunks);
}

/* ---- the aggregates ---- */

static void compare_sums(struct watch *watch, const struct kc_aggregates *a)
{
  const struct kc_aggregates *b = &watch->naive.sum;
  same(watch, "decodes", a->decodes, b->decodes);
  same(watch, "chunks", a->chunks, b->chunks);
  same(watch, "logits", a->logits, b->logits);
  same(watch, "prefill_tokens", a->prefill_tokens, b->prefill_tokens);
  same(watch, "decode_context", a->decode_context, b->decode_context);
  same(watch, "decode_context_max", a->decode_context_max, b->decode_context_max);
  same(watch, "prefill_pairs", a->prefill_pairs, b->prefill_pairs);
  same(watch, "prefill_context", a->prefill_context, b->prefill_context);
  same(watch, "table_entries", a->table_entries, b->table_entries);
  for (uint32_t i = 0; i < KC_CAPS_MAX; i++) {
    same(watch, "decode_capped", a->decode_capped[i], b->decode_capped[i]);
    same(watch, "prefill_capped_pairs", a->prefill_capped_pairs[i], b->prefill_capped_pairs[i]);
    same(watch, "prefill_capped_context", a->prefill_capped_context[i],
         b->prefill_capped_context[i]);
  }
}

static enum kc_err watch_run(void *context, const struct kc_step *step,
                             struct kc_step_result *result, struct kc_diag *diag)
{
  struct watch *watch = context;
  if (!watch->differs) {
    if (!naive_next(&watch->naive)) differ(watch, "steps still to run", 1, 0);
    same(watch, "start of the step, ps", (uint64_t)step->start_ps,
         (uint64_t)watch->naive.clock_ps);
  }
  if (!watch->differs) apply_delta(watch, step);
  if (!watch->differs) compare_members(watch, step);
  if (!watch->differs) compare_sums(watch, &step->sum);
  const enum kc_err err = watch->inner.run(watch->inner.context, step, result, diag);
  if (err == KC_OK && !watch->differs) {
    same(watch, "duration, ps", (uint64_t)result->duration_ps, (uint64_t)watch->naive.duration_ps);
  }
  watch->step++;
  return err;
}

static struct kc_executor wrap(void *context, const struct kc_executor *executor)
{
  struct watch *watch = context;
  watch->inner = *executor;
  return (struct kc_executor){.context = watch, .name = executor->name, .run = watch_run};
}

/* ---- the results ---- */

static bool same_outcome(struct watch *watch, uint32_t index, const struct kc_outcome *a)
{
  const struct kc_outcome *b = &watch->naive.outcomes[index];
  same(watch, "request of an outcome", a->request, b->request);
  same(watch, "status", a->status, b->status);
  same(watch, "reason", a->reason, b->reason);
  same(watch, "output tokens", a->output_tokens, b->output_tokens);
  same(watch, "preemptions", a->preemptions, b->preemptions);
  same(watch, "cached tokens", a->cached_tokens, b->cached_tokens);
  same(watch, "recached tokens", a->recached_tokens, b->recached_tokens);
  same(watch, "contaminated", a->contaminated, 0);
  same(watch, "arrival_ps", (uint64_t)a->arrival_ps, (uint64_t)b->arrival_ps);
  same(watch, "first_token_ps", (uint64_t)a->first_token_ps, (uint64_t)b->first_token_ps);
  same(watch, "end_ps", (uint64_t)a->end_ps, (uint64_t)b->end_ps);
  same(watch, "resident_ps", (uint64_t)a->resident_ps, (uint64_t)b->resident_ps);
  same(watch, "kv_wait_ps", (uint64_t)a->kv_wait_ps, (uint64_t)b->kv_wait_ps);
  same(watch, "host_ps", (uint64_t)a->host_ps, (uint64_t)b->host_ps);
  same(watch, "resident_ps to the first token", (uint64_t)a->first.resident_ps,
       (uint64_t)b->first.resident_ps);
  same(watch, "kv_wait_ps to the first token", (uint64_t)a->first.kv_wait_ps,
       (uint64_t)b->first.kv_wait_ps);
  same(watch, "host_ps to the first token", (uint64_t)a->first.host_ps,
       (uint64_t)b->first.host_ps);
  if (watch->differs) {
    printf("  outcome %" PRIu32 ", request %" PRIu32 " (twin %" PRIu32 "), ends %" PRId64
           " (twin %" PRId64 ")\n",
           index, a->request, b->request, a->end_ps, b->end_ps);
  }
  return !watch->differs;
}

static void compare_statistic(struct watch *watch, const char *name, const struct kc_statistic *a,
                              const struct kc_statistic *b)
{
  same(watch, name, a->count, b->count);
  if (a->count == 0) return;
  same(watch, name, (uint64_t)a->mean_ps, (uint64_t)b->mean_ps);
  same(watch, name, (uint64_t)a->p50_ps, (uint64_t)b->p50_ps);
  same(watch, name, (uint64_t)a->p90_ps, (uint64_t)b->p90_ps);
  same(watch, name, (uint64_t)a->p95_ps, (uint64_t)b->p95_ps);
  same(watch, name, (uint64_t)a->p99_ps, (uint64_t)b->p99_ps);
  same(watch, name, (uint64_t)a->min_ps, (uint64_t)b->min_ps);
  same(watch, name, (uint64_t)a->max_ps, (uint64_t)b->max_ps);
}

static void compare_counts(struct watch *watch, const struct kc_summary *a,
                           const struct kc_summary *b)
{
  same(watch, "requests_total", a->requests_total, b->requests_total);
  for (int i = 0; i < KC_STATUSES; i++) {
    same(watch, "requests_by_status", a->requests_by_status[i], b->requests_by_status[i]);
  }
  for (int i = 0; i < KC_REASONS; i++) {
    same(watch, "requests_by_reason", a->requests_by_reason[i], b->requests_by_reason[i]);
  }
  same(watch, "input_tokens", a->input_tokens, b->input_tokens);
  same(watch, "output_tokens", a->output_tokens, b->output_tokens);
  same(watch, "input_tokens_completed", a->input_tokens_completed, b->input_tokens_completed);
  same(watch, "output_tokens_completed", a->output_tokens_completed, b->output_tokens_completed);
  same(watch, "admitted_tokens", a->admitted_tokens, b->admitted_tokens);
  same(watch, "cached_tokens", a->cached_tokens, b->cached_tokens);
  same(watch, "recached_tokens", a->recached_tokens, b->recached_tokens);
  same(watch, "warm_requests", a->warm_requests, b->warm_requests);
  same(watch, "pages_evicted", a->pages_evicted, b->pages_evicted);
  same(watch, "kv_peak_cached_pages", a->kv_peak_cached_pages, b->kv_peak_cached_pages);
  same(watch, "ghost_slots", a->ghost_slots, b->ghost_slots);
  same(watch, "makespan_ps", (uint64_t)a->makespan_ps, (uint64_t)b->makespan_ps);
  same(watch, "busy_ps", (uint64_t)a->busy_ps, (uint64_t)b->busy_ps);
  same(watch, "steps", a->steps, b->steps);
  same(watch, "preemptions", a->preemptions, b->preemptions);
  same(watch, "clipped requests", a->tokens_clipped_requests, b->tokens_clipped_requests);
  same(watch, "max_running", a->max_running, b->max_running);
  same(watch, "max_waiting", a->max_waiting, b->max_waiting);
  same(watch, "kv_peak_tokens", a->kv_peak_tokens, b->kv_peak_tokens);
  same(watch, "kv_peak_pages", a->kv_peak_pages, b->kv_peak_pages);
  same(watch, "output_tok_s_micro", a->output_tok_s_micro, b->output_tok_s_micro);
}

static void compare_results(struct watch *watch, const struct test_run *run)
{
  const struct kc_summary *a = &run->result.summary, *b = &watch->naive.summary;
  const uint32_t ends = run->outcome_count;
  same(watch, "requests ended", ends, watch->naive.outcome_count);
  for (uint32_t i = 0; i < ends && !watch->differs; i++) {
    same_outcome(watch, i, &run->outcomes[i]);
  }
  compare_counts(watch, a, b);
  compare_statistic(watch, "ttft", &a->ttft, &b->ttft);
  compare_statistic(watch, "tpot", &a->tpot, &b->tpot);
  compare_statistic(watch, "itl", &a->itl, &b->itl);
  compare_statistic(watch, "e2e", &a->e2e, &b->e2e);
  same(watch, "oom_ps", (uint64_t)run->result.oom_ps, (uint64_t)watch->naive.oom_ps);
  if (run->result.oom_ps != KC_PS_NEVER) {
    same(watch, "oom_request", run->result.oom_request, watch->naive.oom_request);
    same(watch, "oom_demand_pages", run->result.oom_demand_pages, watch->naive.oom_demand_pages);
  }
  if (watch->differs || strcmp(a->result_sha256, b->result_sha256) == 0) return;
  printf("result_sha256 is %s, the twin has %s\n", a->result_sha256, b->result_sha256);
  watch->differs = true;
}

static void add_totals(struct twin_totals *totals, const struct test_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  totals->steps += s->steps;
  totals->preemptions += s->preemptions;
  totals->ends += s->requests_total;
  totals->outputs += s->output_tokens;
  totals->cached += s->cached_tokens;
  totals->recached += s->recached_tokens;
  totals->evicted += s->pages_evicted;
  totals->ghosts += s->ghost_slots;
  totals->ooms += run->result.oom_ps != KC_PS_NEVER;
  for (int i = 0; i < KC_REASONS; i++) totals->by_reason[i] += s->requests_by_reason[i];
}

static void watch_begin(struct watch *watch, const struct test_run *run)
{
  const size_t count = run->request_count;
  const uint32_t slots = run->instance.sched.max_running;
  memset(watch, 0, sizeof *watch);
  watch->naive = (struct naive_run){.sched = run->instance.sched,
                                    .sglang = run->instance.policy == kc_policy_find("sglang-0.5"),
                                    .pages = run->instance.pages,
                                    .queue_limit = run->instance.queue_limit,
                                    .patience = run->patience,
                                    .cancel_after_ps = run->cancel_after_ps,
                                    .cost = &run->cost,
                                    .request_count = run->request_count,
                                    .closed = run->closed,
                                    .closed_config = run->closed_config,
                                    .after = run->after,
                                    .wait_ps = run->wait_ps};
  watch->naive.requests = calloc(count, sizeof *watch->naive.requests);
  watch->slot = calloc(slots, sizeof *watch->slot);
  watch->slot_of = calloc(count, sizeof *watch->slot_of);
  if (!watch->naive.requests || !watch->slot || !watch->slot_of) abort();
  memcpy(watch->naive.requests, run->requests, count * sizeof *run->requests);
  if (run->instance.sched.prefix_cache) {
    watch->naive.cache = watch->naive.sglang ? KC_CACHE_RADIX : KC_CACHE_BLOCKS;
  }
  for (uint32_t i = 0; i < slots; i++) watch->slot[i].request = SLOT_FREE;
  for (size_t i = 0; i < count; i++) watch->slot_of[i] = SLOT_FREE;
  naive_begin(&watch->naive);
}

bool twin_agrees(struct test_run *run, struct twin_totals *totals)
{
  struct watch watch;
  watch_begin(&watch, run);
  run->wrap = wrap;
  run->wrap_context = &watch;
  test_run_execute(run);
  while (naive_next(&watch.naive)) {
    if (watch.differs) continue;
    differ(&watch, "steps", watch.step, watch.step + 1);
  }
  naive_finish(&watch.naive);
  if (!watch.differs) compare_results(&watch, run);
  add_totals(totals, run);
  naive_end(&watch.naive);
  free(watch.naive.requests);
  free(watch.slot);
  free(watch.slot_of);
  free(run->outcomes);
  run->outcomes = NULL;
  run->wrap = NULL;
  return !watch.differs;
}

void twin_print_totals(const struct twin_totals *t)
{
  printf("  %" PRIu64 " steps, %" PRIu64 " requests, %" PRIu64 " tokens, %" PRIu64
         " preemptions, %" PRIu64 " out of memory, %" PRIu64 " + %" PRIu64
         " tokens cached, %" PRIu64 " pages evicted, %" PRIu64 " ghosts; ended by reason:",
         t->steps, t->ends, t->outputs, t->preemptions, t->ooms, t->cached, t->recached,
         t->evicted, t->ghosts);
  for (int i = 0; i < KC_REASONS; i++) {
    printf(" %s %" PRIu64, kc_reason_name((enum kc_reason)i), t->by_reason[i]);
  }
  printf("\n");
}
