/* The books recomputed the slow way: every sum, list and heap of a batch from its slots alone. Runs
 * after every step in the check preset and in the tests. */
#include "engine/sched/batch.h"

struct recount {
  uint32_t decodes, prefills, used;
  int64_t key_sum;
  uint64_t prefill_computed, extents;
  int64_t below_key_sum[KC_CAPS_MAX];
  uint32_t below[KC_CAPS_MAX];
};

static void count_decode(const struct kc_batch *batch, const struct kc_slot *s, struct recount *r)
{
  r->decodes++;
  r->key_sum += s->context_key;
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    const int64_t context = s->context_key + (int64_t)batch->step.index;
    if (context >= (int64_t)batch->config.cap[i]) continue;
    r->below[i]++;
    r->below_key_sum[i] += s->context_key;
  }
}

static void recount(const struct kc_batch *batch, struct recount *r)
{
  *r = (struct recount){0};
  for (uint32_t slot = 0; slot < batch->config.max_running; slot++) {
    const struct kc_slot *s = &batch->slot[slot];
    r->extents += batch->table->extent[slot];
    if (s->state == KC_SLOT_FREE) continue;
    r->used++;
    if (s->state == KC_SLOT_DECODE) {
      count_decode(batch, s, r);
    } else {
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

bool kc_batch_valid(const struct kc_batch *batch)
{
  struct recount r;
  recount(batch, &r);
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    if (r.below[i] != batch->crossing[i].count) return false;
    if (r.below_key_sum[i] != batch->below_key_sum[i]) return false;
    if (!kc_heap_valid(&batch->crossing[i])) return false;
  }
  return r.decodes == batch->decodes && r.key_sum == batch->key_sum &&
         r.prefill_computed == batch->prefill_computed && r.extents == batch->table->in_use &&
         r.used + batch->free_slot_count == batch->config.max_running &&
         batch->longest.count == r.decodes && kc_heap_valid(&batch->longest) &&
         lists_valid(batch, &r);
}
