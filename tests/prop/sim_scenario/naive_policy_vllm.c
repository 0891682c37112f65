/* The plain twin's scheduler of vLLM 0.19 (vllm/v1/core/sched/scheduler.py, kv_cache_manager.py).
 *
 * A step: first the running requests in list order, each the tokens that it lacks, as far as budget
 * and threshold allow; who finds no page makes the last of the list give way (by priority: the one
 * of the largest priority value, the youngest of those), until it fits or has given way itself.
 * Then, if nobody had to, the waiting ones from the head, while each fits: its beginning is looked
 * up, the whole prompt must have room, and what is to be computed now must have pages.
 */
#include "naive_parts.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static uint64_t under_threshold(const struct naive_run *run, uint64_t tokens)
{
  const uint64_t threshold = run->sched.long_prefill_token_threshold;
  return threshold > 0 ? smaller(tokens, threshold) : tokens;
}

/* ---- who gives way ---- */

/* True when `a` is served after `b`. */
static bool is_after(const struct naive_run *run, uint32_t a, uint32_t b)
{
  const struct kc_request *x = &run->requests[a], *y = &run->requests[b];
  if (x->priority != y->priority) return x->priority > y->priority;
  return run->state[a].place > run->state[b].place;
}

static uint32_t victim(const struct naive_run *run)
{
  uint32_t last = run->running[run->running_count - 1];
  if (run->sched.order != KC_ORDER_PRIORITY) return last;
  for (uint32_t i = 0; i < run->running_count; i++) {
    if (is_after(run, run->running[i], last)) last = run->running[i];
  }
  return last;
}

/* Takes tokens back that it was given in this step, if any. */
static void give_way(struct naive_run *run, uint32_t request, uint64_t *budget)
{
  *budget += run->state[request].chunk;
  naive_unseat(run, request);
}

/* Pages for `request` up to `tokens` tokens. False: it had to give way itself. */
static bool find_pages(struct naive_run *run, uint32_t request, uint64_t tokens, uint64_t *budget,
                       bool *disturbed)
{
  const uint64_t need = naive_pages_of(run, tokens) - run->state[request].pages;
  while (naive_available(run) < need) {
    const uint32_t other = victim(run);
    *disturbed = true;
    give_way(run, other, budget);
    if (other == request) return false;
  }
  naive_take(run, request, need);
  return true;
}

/* ---- running ---- */

/* Place of a request in the running list, after others may have left it. */
static uint32_t place_of(const struct naive_run *run, uint32_t request)
{
  for (uint32_t i = 0; i < run->running_count; i++) {
    if (run->running[i] == request) return i;
  }
  return NAIVE_NOBODY;
}

/* True when somebody had to give way. */
static bool schedule_running(struct naive_run *run, uint64_t *budget)
{
  bool disturbed = false;
  for (uint32_t i = 0; i < run->running_count && *budget > 0; i++) {
    const uint32_t request = run->running[i];
    struct naive_request *s = &run->state[request];
    if (s->ghost && !s->takes_part) continue;
    uint64_t count = under_threshold(run, naive_known(run, request) - s->computed);
    count = smaller(count, *budget);
    count = smaller(count, run->sched.max_model_len - 1 - s->computed);
    if (count == 0) continue;
    if (!find_pages(run, request, s->computed + count, budget, &disturbed)) return true;
    naive_publish(run, request, s->decoding ? s->computed : s->computed + count);
    s->computed += (uint32_t)count;
    s->chunk = (uint32_t)count;
    *budget -= count;
    i = place_of(run, request);
  }
  return disturbed;
}

/* ---- waiting ---- */

/* The next in line of those that can be seen, or NAIVE_NOBODY: first come; by priority, that is the
 * smallest value, then the first to have come. */
static uint32_t next_waiting(const struct naive_run *run)
{
  uint32_t next = NAIVE_NOBODY;
  for (uint32_t i = 0; i < run->waiting_count; i++) {
    const uint32_t request = run->waiting[i];
    if (!naive_sees(run, request)) continue;
    if (next == NAIVE_NOBODY) next = request;
    if (run->sched.order == KC_ORDER_PRIORITY && is_after(run, next, request)) next = request;
  }
  return next;
}

/* What a candidate would start with. */
struct start {
  uint32_t hits, idle;      /* pages found, and those of them that nobody uses */
  uint64_t lacking;         /* tokens that it would compute, had it all the budget */
};

static struct start look_up(struct naive_run *run, uint32_t request, bool in_place)
{
  const uint32_t known = naive_known(run, request), size = run->sched.page_size;
  struct start start = {0};
  if (in_place) return start;
  start.hits = naive_lookup(run, request, (known - 1) / size, &start.idle);
  start.lacking = under_threshold(run, known - (uint64_t)start.hits * size);
  return start;
}

/* The head, if it may start now. False stops the admission of this step. */
static bool admit(struct naive_run *run, uint32_t request, const struct start *start, bool in_place,
                  uint64_t *budget)
{
  const uint32_t known = naive_known(run, request), size = run->sched.page_size;
  struct naive_request *s = &run->state[request];
  const uint64_t count = in_place ? 1 : smaller(start->lacking, *budget);
  const uint64_t upto = in_place ? known : (uint64_t)start->hits * size + count;
  const uint64_t room = naive_available(run);
  if (count < start->lacking && !run->sched.chunked_prefill) return false;
  if (run->sched.reserve_full_prompt &&
      naive_pages_of(run, known) - start->hits + start->idle > room) {
    run->short_of_pages = true;
    return false;
  }
  const uint64_t need = naive_pages_of(run, upto) - start->hits;
  if (need + start->idle > room) {
    run->short_of_pages = true;
    return false;
  }
  naive_join(run, request);
  naive_attach(run, request, start->hits);
  naive_note_hits(run, request, start->hits * size);
  naive_take(run, request, need);
  if (!in_place) naive_publish(run, request, upto);
  s->decoding = in_place;
  s->computed = (uint32_t)upto;
  s->chunk = (uint32_t)count;
  *budget -= count;
  return true;
}

/* Why the head can never run here, or KC_REASON_NONE. */
static enum kc_reason hopeless(const struct naive_run *run, uint32_t request,
                               const struct start *start)
{
  if (naive_pages_of(run, naive_known(run, request)) > run->pages) {
    return run->state[request].outputs > 0 ? KC_REASON_OUTGREW_POOL : KC_REASON_NEVER_FITS;
  }
  if (!run->sched.chunked_prefill && start->lacking > run->sched.max_batched_tokens) {
    return KC_REASON_PROMPT_OVER_BUDGET;
  }
  return KC_REASON_NONE;
}

static void schedule_waiting(struct naive_run *run, uint64_t budget)
{
  uint32_t refusals = 0;
  while (budget > 0 && run->running_count < run->sched.max_running) {
    const uint32_t request = next_waiting(run);
    if (request == NAIVE_NOBODY) return;
    const bool in_place =
        run->sched.role == KC_ROLE_DECODE && run->state[request].preemptions == 0;
    const struct start start = look_up(run, request, in_place);
    const enum kc_reason reason = hopeless(run, request, &start);
    if (reason == KC_REASON_NONE) {
      if (!admit(run, request, &start, in_place, &budget)) return;
    } else {
      if (refusals++ == KC_REFUSALS_MAX) return;
      naive_refuse(run, request, reason);
    }
  }
}

void naive_form_vllm(struct naive_run *run)
{
  uint64_t budget = run->sched.max_batched_tokens;
  run->short_of_pages = schedule_running(run, &budget);
  if (!run->short_of_pages) schedule_waiting(run, budget);
}
