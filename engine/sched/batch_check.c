/* The books recomputed the slow way: every sum, list and heap of a batch from its slots alone. Runs
 * after every step in the check preset and in the tests. */
#include "engine/sched/batch.h"

struct recount {
  uint32_t decodes, prefills, used, ghosts, ghost_decodes, fresh, paused;
  int64_t key_sum;
  uint64_t prefill_computed, extents, shared, ghost_held, future;
  int64_t below_key_sum[KC_CAPS_MAX];
  uint32_t below[KC_CAPS_MAX];
};

static void count_decode(const struct kc_batch *batch, uint32_t slot, struct recount *r)
{
  const struct kc_slot *s = &batch->slot[slot];
  const uint64_t clip = batch->policy->clip_tokens;
  r->decodes++;
  r->key_sum += s->context_key;
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    const int64_t context = s->context_key + (int64_t)batch->tick;
    if (context >= (int64_t)batch->config.cap[i]) continue;
    r->below[i]++;
    r->below_key_sum[i] += s->context_key;
  }
  if (clip == 0) return;
  const uint64_t left = kc_batch_max_new(batch, s->request) - kc_batch_outputs(batch, slot);
  r->future += left < clip ? left : clip;
}

static void recount(const struct kc_batch *batch, struct recount *r)
{
  *r = (struct recount){0};
  for (uint32_t slot = 0; slot < batch->config.max_running; slot++) {
    const struct kc_slot *s = &batch->slot[slot];
    r->extents += batch->table->extent[slot];
    r->shared += batch->table->shared[slot];
    if (s->state == KC_SLOT_FREE) continue;
    r->used++;
    r->ghosts += s->ghost;
    r->fresh += s->fresh_at != 0;
    r->paused += s->paused;
    if (s->state == KC_SLOT_DECODE && !s->paused) {
      count_decode(batch, slot, r);
      r->ghost_decodes += s->ghost;
      r->ghost_held += s->ghost ? s->computed : 0;
    } else if (s->state == KC_SLOT_PREFILL) {
      r->prefills++;
      r->prefill_computed += s->computed;
    }
  }
}

/* Walks a list by `list_next` and checks links, order and count. */
static bool list_valid(const struct kc_batch *batch, const struct kc_list *list, bool run)
{
  uint32_t count = 0;
  uint32_t previous = KC_SLOT_NONE;
  for (uint32_t slot = list->head; slot != KC_SLOT_NONE; count++) {
    const struct kc_slot *s = &batch->slot[slot];
    if (count > batch->config.max_running || s->state == KC_SLOT_FREE) return false;
    if ((run ? s->run_previous : s->list_previous) != previous) return false;
    if (previous != KC_SLOT_NONE && batch->slot[previous].order >= s->order) return false;
    previous = slot;
    slot = run ? s->run_next : s->list_next;
  }
  return count == list->count && list->tail == previous;
}

static bool lists_valid(const struct kc_batch *batch, const struct recount *r)
{
  uint32_t in_ring = 0;
  for (uint32_t i = 0; i < batch->config.page_size; i++) {
    if (!list_valid(batch, &batch->ring[i], false)) return false;
    in_ring += batch->ring[i].count;
  }
  return in_ring == r->decodes && list_valid(batch, &batch->prefill, false) &&
         batch->prefill.count == r->prefills && list_valid(batch, &batch->running, true) &&
         batch->running.count == r->used;
}

/* The heap of windows may still hold slots whose crossing has come: a step without decodes does not
 * look. */
static bool caps_valid(const struct kc_batch *batch, const struct recount *r)
{
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    if (!kc_heap_valid(&batch->crossing[i])) return false;
    if (!batch->step.decoding) continue;
    if (r->below[i] != batch->crossing[i].count) return false;
    if (r->below_key_sum[i] != batch->below_key_sum[i]) return false;
  }
  return true;
}

/* The same for the tokens to come, which are summed up when a policy asks. */
static bool future_valid(const struct kc_batch *batch, const struct recount *r)
{
  if (batch->policy->clip_tokens == 0) return batch->clipped.count == 0;
  const int64_t tick = (int64_t)batch->tick;
  const struct kc_heap *clipped = &batch->clipped;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < clipped->count; i++) {
    const int64_t over = clipped->entry[i].key - tick; /* tokens to come beyond the clip */
    sum += (uint64_t)((over < 0 ? over : 0) + (int64_t)batch->policy->clip_tokens);
  }
  sum += (uint64_t)(batch->future_key_sum - (int64_t)(batch->decodes - clipped->count) * tick);
  return kc_heap_valid(clipped) && sum == r->future;
}

static bool fresh_valid(const struct kc_batch *batch, const struct recount *r)
{
  for (uint32_t i = 0; i < batch->fresh_count; i++) {
    if (batch->slot[batch->fresh[i]].fresh_at != i + 1) return false;
  }
  return r->fresh == batch->fresh_count && r->paused == batch->step.pause_count;
}

bool kc_batch_valid(const struct kc_batch *batch)
{
  struct recount r;
  recount(batch, &r);
  return r.decodes == batch->decodes && r.key_sum == batch->key_sum &&
         r.prefill_computed == batch->prefill_computed && r.extents == batch->table->in_use &&
         r.shared == batch->table->shared_in_use &&
         r.used + batch->free_slot_count == batch->config.max_running &&
         r.ghosts == batch->ghosts && r.ghost_decodes == batch->ghost_decodes &&
         r.ghost_held == batch->ghost_held && batch->longest.count == r.decodes &&
         kc_heap_valid(&batch->longest) && caps_valid(batch, &r) && future_valid(batch, &r) &&
         fresh_valid(batch, &r) && lists_valid(batch, &r) && kc_queue_valid(&batch->queue);
}
