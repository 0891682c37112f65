/* The plain twin's scheduler of SGLang 0.5 (managers/scheduler.py, schedule_policy.py,
 * schedule_batch.py).
 *
 * A step: what the chunked request has computed becomes findable; a prefill batch is put together
 * and, if there is anything in it, runs alone (mixed: with one token of every decode); else every
 * decode makes a token. Memory for a decode step comes from the cache first, then from requests
 * that are retracted.
 *
 *   total   = room - admitted with their outputs - what the decodes will still need, by a guess
 *   current = room - admitted, without outputs
 *   room    = free and idle pages when the forming began - idle pages that admitted ones found
 */
#include <stdlib.h>

#include "naive_parts.h"

enum { CLIP_TOKENS = 4096, RETRACT_STEPS = 20, LPM_WAITING_MAX = 128, DECAY_STEPS = 600 };

/* One forming. Tokens. */
struct adder {
  int64_t input, chunk; /* left of max_prefill_tokens and chunked_prefill_size */
  int64_t room;
  int64_t total, now;   /* charged */
  uint64_t future;      /* of the decodes */
  uint32_t *admitted;   /* the chunked one first */
  uint32_t count;
};

static int64_t smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t ceiled(const struct naive_run *run, int64_t tokens)
{
  return (int64_t)naive_pages_of(run, (uint64_t)tokens) * run->sched.page_size;
}

static double first_ratio(const struct naive_run *run)
{
  const double ratio = 0.7 * run->sched.schedule_conservativeness;
  return ratio < 1.0 ? ratio : 1.0;
}

void naive_sglang_idle(struct naive_run *run)
{
  run->ratio = first_ratio(run);
}

/* ---- what requests will still need ---- */

static int64_t max_new(const struct naive_run *run, uint32_t request)
{
  const struct kc_request *r = &run->requests[request];
  return smaller(r->max_tokens, (int64_t)(run->sched.max_model_len - r->input_tokens));
}

static int64_t future(const struct naive_run *run, uint32_t request)
{
  return smaller(max_new(run, request) - run->state[request].outputs, CLIP_TOKENS);
}

static uint32_t count_decodes(const struct naive_run *run)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->running_count; i++) count += run->state[run->running[i]].decoding;
  return count;
}

/* ---- the budgets ---- */

static struct adder begin(struct naive_run *run)
{
  struct adder a = {.input = run->sched.max_prefill_tokens,
                    .chunk = run->sched.chunked_prefill ? run->sched.chunked_prefill_size
                                                        : INT64_MAX / 2,
                    .room = (int64_t)(naive_available(run) * run->sched.page_size),
                    .admitted = calloc(run->request_count + 1, sizeof *a.admitted)};
  if (a.admitted == NULL) abort();
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    if (run->state[request].decoding) a.future += (uint64_t)future(run, request);
  }
  if (run->sched.mixed_chunk) {
    a.input -= count_decodes(run);
    a.chunk -= count_decodes(run);
  }
  return a;
}

static double left_in_total(const struct naive_run *run, const struct adder *a)
{
  return (double)(a->room - a->total) - (double)a->future * run->ratio;
}

static void charge(const struct naive_run *run, struct adder *a, int64_t tokens, int64_t outputs)
{
  const int64_t pages = ceiled(run, tokens);
  a->total += pages + outputs + run->sched.page_size;
  a->now += pages + run->sched.page_size;
  a->input -= pages;
  a->chunk -= pages;
}

static void admit(struct naive_run *run, struct adder *a, uint32_t request, int64_t tokens)
{
  struct naive_request *s = &run->state[request];
  a->admitted[a->count++] = request;
  s->chunk = (uint32_t)tokens;
  s->computed += (uint32_t)tokens;
}

/* ---- the prefill batch ---- */

static void go_on_with_chunked(struct naive_run *run, struct adder *a)
{
  const uint32_t request = run->chunked;
  const struct naive_request *s = &run->state[request];
  const int64_t rest = (int64_t)naive_known(run, request) - s->computed;
  const int64_t held = (int64_t)(s->pages + naive_available(run)) * run->sched.page_size;
  int64_t tokens = smaller(a->chunk, (int64_t)left_in_total(run, a));
  if (tokens <= 0) tokens = a->chunk;
  tokens = smaller(smaller(tokens, rest), held - s->computed);
  if (tokens <= 0) return;
  const bool last = tokens == rest;
  charge(run, a, tokens, last ? smaller(max_new(run, request), CLIP_TOKENS) : 0);
  admit(run, a, request, tokens);
  if (last) run->chunked = NAIVE_NOBODY;
}

/* True: look at the next. */
static bool consider(struct naive_run *run, struct adder *a, uint32_t request)
{
  const uint32_t known = naive_known(run, request), size = run->sched.page_size;
  uint32_t idle = 0;
  const uint32_t hits = naive_lookup(run, request, (known - 1) / size, &idle);
  const int64_t lacking = (int64_t)known - (int64_t)hits * size;
  const double left = left_in_total(run, a) - (double)((int64_t)idle * size);
  if ((double)(lacking + future(run, request) + size) >= left) {
    if (run->running_count == 0 && (run->sees_all || !run->sched.overlap)) {
      naive_refuse(run, request,
                   run->state[request].outputs > 0 ? KC_REASON_OUTGREW_POOL
                                                   : KC_REASON_NEVER_FITS);
      return true;
    }
    run->full = true;
    run->short_of_pages = true;
    return false;
  }
  int64_t tokens = lacking;
  const bool whole = ceiled(run, lacking) <= a->chunk;
  if (!whole) {
    if (run->chunked != NAIVE_NOBODY) return false;
    tokens = a->chunk / size * size;
    if (tokens == 0) return false;
    run->chunked = request;
  }
  naive_join(run, request);
  naive_attach(run, request, hits);
  naive_note_hits(run, request, hits * size);
  run->state[request].computed = hits * size;
  a->room -= (int64_t)idle * size;
  charge(run, a, tokens, whole ? smaller(max_new(run, request), CLIP_TOKENS) : 0);
  admit(run, a, request, tokens);
  return true;
}

/* The queue as the policy looks at it: those that it can see, in its order. */
static uint32_t list_waiting(struct naive_run *run, uint32_t *list)
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->waiting_count; i++) {
    if (naive_sees(run, run->waiting[i])) list[count++] = run->waiting[i];
  }
  if (run->sched.order != KC_ORDER_LPM || count > LPM_WAITING_MAX) return count;
  uint32_t *const found = calloc(run->request_count, sizeof *found);
  uint32_t idle;
  if (found == NULL) abort();
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t pages_max = (naive_known(run, list[i]) - 1) / run->sched.page_size;
    found[list[i]] = naive_lookup(run, list[i], pages_max, &idle);
  }
  for (uint32_t i = 1; i < count; i++) { /* insertion: equal ones stay in the order of the queue */
    const uint32_t request = list[i];
    uint32_t at = i;
    for (; at > 0 && found[list[at - 1]] < found[request]; at--) list[at] = list[at - 1];
    list[at] = request;
  }
  free(found);
  return count;
}

static bool in_place(const struct naive_run *run, uint32_t request)
{
  return run->sched.role == KC_ROLE_DECODE && run->state[request].preemptions == 0;
}

/* Memory is used up: nobody more until somebody leaves. */
static bool is_used_up(struct naive_run *run, const struct adder *a)
{
  if (left_in_total(run, a) > 0 && a->room - a->now > 0) return false;
  run->full = true;
  run->short_of_pages = true;
  return true;
}

static void admit_waiting(struct naive_run *run, struct adder *a)
{
  uint32_t *const list = calloc(run->waiting_count + 1, sizeof *list);
  if (list == NULL) abort();
  const uint32_t count = list_waiting(run, list);
  for (uint32_t i = 0; i < count; i++) {
    if (run->running_count >= run->sched.max_running) {
      run->full = true;
      break;
    }
    if (is_used_up(run, a)) break;
    if (a->input <= 0 || a->chunk <= 0 || in_place(run, list[i])) break;
    const uint32_t before = a->count;
    if (!consider(run, a, list[i])) break;
    if (a->count > before && is_used_up(run, a)) break;
  }
  free(list);
}

static bool anybody_seen(const struct naive_run *run)
{
  for (uint32_t i = 0; i < run->waiting_count; i++) {
    if (naive_sees(run, run->waiting[i])) return true;
  }
  return false;
}

/* Pages for the batch: room is made for all of them at once. */
static void give_pages(struct naive_run *run, const struct adder *a)
{
  uint64_t need = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    const struct naive_request *s = &run->state[a->admitted[i]];
    need += naive_pages_of(run, s->computed) - s->pages;
  }
  naive_make_room(run, need);
  for (uint32_t i = 0; i < a->count; i++) {
    const struct naive_request *s = &run->state[a->admitted[i]];
    naive_take(run, a->admitted[i], naive_pages_of(run, s->computed) - s->pages);
  }
}

/* True when there is a prefill batch. */
static bool form_prefill(struct naive_run *run)
{
  if (run->chunked != NAIVE_NOBODY || !run->full) run->short_of_pages = false;
  if (run->chunked == NAIVE_NOBODY) {
    if (run->full || !anybody_seen(run)) return false;
    if (run->running_count >= run->sched.max_running) {
      run->full = true;
      return false;
    }
  }
  struct adder a = begin(run);
  if (run->chunked != NAIVE_NOBODY) go_on_with_chunked(run, &a);
  admit_waiting(run, &a);
  give_pages(run, &a);
  free(a.admitted);
  return a.count > 0;
}

/* ---- decodes ---- */

static uint64_t pages_to_decode(const struct naive_run *run)
{
  uint64_t need = 0;
  for (uint32_t i = 0; i < run->running_count; i++) {
    const struct naive_request *s = &run->state[run->running[i]];
    if (s->decoding) need += naive_pages_of(run, s->computed + UINT64_C(1)) - s->pages;
  }
  return need;
}

static void decode_all(struct naive_run *run)
{
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    struct naive_request *s = &run->state[request];
    if (!s->decoding || s->chunk > 0) continue;
    s->computed++;
    s->chunk = 1;
    naive_take(run, request, naive_pages_of(run, s->computed) - s->pages);
  }
}

static bool fits(struct naive_run *run)
{
  const uint64_t need = pages_to_decode(run);
  naive_make_room(run, need);
  return naive_free(run) >= need;
}

/* Fewest outputs, then longest prompt, then last in the batch. */
static uint32_t victim(const struct naive_run *run)
{
  uint32_t best = NAIVE_NOBODY;
  for (uint32_t i = 0; i < run->running_count; i++) {
    const uint32_t request = run->running[i];
    if (!run->state[request].decoding) continue;
    if (best != NAIVE_NOBODY) {
      if (run->state[request].outputs > run->state[best].outputs) continue;
      if (run->state[request].outputs == run->state[best].outputs &&
          run->requests[request].input_tokens < run->requests[best].input_tokens) {
        continue;
      }
    }
    best = request;
  }
  return best;
}

/* Until it fits; the last one, if it still does not, is given up. */
static void retract(struct naive_run *run)
{
  uint32_t victims = 0;
  uint64_t outputs = 0, limits = 0;
  bool fit = false;
  while (!fit && count_decodes(run) > 1) {
    naive_unseat(run, victim(run));
    victims++;
    fit = fits(run);
  }
  if (!fit) naive_refuse(run, victim(run), KC_REASON_OUTGREW_POOL);
  run->short_of_pages = true;
  const uint64_t left = count_decodes(run);
  for (uint32_t i = 0; i < run->running_count; i++) {
    if (!run->state[run->running[i]].decoding) continue;
    outputs += run->state[run->running[i]].outputs;
    limits += (uint64_t)max_new(run, run->running[i]);
  }
  if (victims == 0 || left == 0) return;
  run->ratio = (double)(outputs + RETRACT_STEPS * left) / (double)(limits + 1);
  if (run->ratio > 1.0) run->ratio = 1.0;
}

/* True when it had to retract. */
static bool form_decode(struct naive_run *run)
{
  if (count_decodes(run) == 0) return false;
  const bool fit = fits(run);
  if (fit) {
    const double first = first_ratio(run), last = first * 0.14;
    run->ratio -= (first - last) / (double)DECAY_STEPS;
    if (run->ratio < last) run->ratio = last;
  } else {
    retract(run);
  }
  decode_all(run);
  return !fit;
}

/* ---- prompts that come with their KV ---- */

static void admit_in_place(struct naive_run *run)
{
  struct adder a = begin(run);
  while (!run->full && run->waiting_count > 0 && naive_sees(run, run->waiting[0]) &&
         in_place(run, run->waiting[0])) {
    const uint32_t request = run->waiting[0];
    const uint32_t known = naive_known(run, request);
    if (run->running_count >= run->sched.max_running) run->full = true;
    if (run->full || is_used_up(run, &a)) break;
    if ((double)(known + future(run, request) + run->sched.page_size) >= left_in_total(run, &a)) {
      if (run->running_count == 0 && (run->sees_all || !run->sched.overlap)) {
        naive_refuse(run, request, KC_REASON_NEVER_FITS);
        continue;
      }
      run->full = true;
      run->short_of_pages = true;
      break;
    }
    charge(run, &a, known, smaller(max_new(run, request), CLIP_TOKENS));
    naive_join(run, request);
    run->state[request].computed = known;
    run->state[request].chunk = 1;
    run->state[request].decoding = true;
    naive_take(run, request, naive_pages_of(run, known));
    if (is_used_up(run, &a)) break;
  }
  free(a.admitted);
}

void naive_form_sglang(struct naive_run *run)
{
  if (run->running_count == 0) run->full = false;
  if (run->chunked != NAIVE_NOBODY) {
    naive_publish(run, run->chunked, run->state[run->chunked].computed);
  }
  if (run->chunked == NAIVE_NOBODY && run->waiting_count > 0 && naive_sees(run, run->waiting[0]) &&
      in_place(run, run->waiting[0])) {
    if (!run->full) run->short_of_pages = false;
    if (!form_decode(run)) admit_in_place(run);
    return;
  }
  if (!form_prefill(run)) {
    form_decode(run);
  } else if (run->sched.mixed_chunk && count_decodes(run) > 0) {
    if (pages_to_decode(run) > naive_available(run)) return;
    naive_make_room(run, pages_to_decode(run));
    decode_all(run);
  }
}
