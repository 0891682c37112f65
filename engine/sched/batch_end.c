/* How slots are left: by requests that end, that are put back, that are given up (see batch.h).
 *
 *   settle[0..settle_count)   slots of the step that ran last, in the order in which the server
 *   looks
 *                             at its results: ends of prompts (RADIX: to be published), then ends
 *                             of requests; an entry counts while its slot says `listed`
 *
 * Without overlap the list is settled as soon as it is made; with overlap after the next step was
 * formed, and until then ghosts keep what they hold.
 */
#include "engine/sched/batch.h"
#include "engine/sched/batch_lists.h"
#include "engine/sched/batch_parts.h"

/* Pages attributed to a slot in the demand: a prefill counts its whole known length, a decode what
 * it holds, a ghost nothing. */
static uint64_t slot_demand(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  if (s->ghost) return 0;
  return s->state == KC_SLOT_PREFILL ? kc_pages_of(s->known, batch->config.page_size)
                                     : batch->table->extent[slot];
}

static void drop_demand(struct kc_batch *batch, uint32_t slot)
{
  const uint64_t demand = slot_demand(batch, slot);
  KC_ASSERT(batch->demand_pages >= demand);
  batch->demand_pages -= demand;
}

/* Tokens with KV. */
static uint32_t held_tokens(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  if (s->ghost || s->state == KC_SLOT_PREFILL) return s->computed;
  const int64_t held = s->context_key + (int64_t)batch->tick - 1;
  KC_ASSERT(held >= 0);
  return (uint32_t)held;
}

/* ---- leaving ---- */

static void forget_ghost(struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(batch->ghosts > 0);
  batch->ghosts--;
  if (s->state != KC_SLOT_DECODE) return;
  KC_ASSERT(batch->ghost_decodes > 0);
  batch->ghost_decodes--;
  batch->ghost_held -= s->computed;
}

/* Takes the slot out of every list and gives its pages back. */
static enum kc_err close_slot(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE && !s->paused);
  if (batch->faulty) batch->watch.before_release(batch->watch.context, slot);
  kc_batch_forget_fresh(batch, slot);
  if (s->ghost) forget_ghost(batch, slot);
  if (s->state == KC_SLOT_DECODE) {
    kc_batch_decodes_remove(batch, slot);
  } else if (s->state == KC_SLOT_PREFILL) {
    kc_list_remove(batch->slot, &batch->prefill, slot);
    batch->prefill_computed -= s->computed;
  }
  kc_list_remove_running(batch->slot, &batch->running, slot);
  const enum kc_err err = batch->cache != NULL
                              ? kc_prefix_cache_release(batch->cache, slot)
                              : kc_table_release(batch->table, batch->pool, slot);
  s->state = KC_SLOT_FREE;
  s->listed = s->ghost = s->giving_up = false;
  batch->free_slot[batch->free_slot_count++] = slot;
  KC_ASSERT(batch->step.leave_count < 2 * batch->config.max_running);
  batch->leave[batch->step.leave_count++] = slot;
  batch->step.composition_changed = true;
  batch->sglang.batch_is_full = false;
  return err;
}

/* What was noted for a slot in the step being formed is taken back. */
static void take_back_notes(struct kc_batch *batch, uint32_t slot)
{
  struct kc_step *step = &batch->step;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < step->grant_count; i++) {
    if (batch->grant[i].slot != slot) batch->grant[kept++] = batch->grant[i];
  }
  step->grant_count = kept;
  kept = 0;
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    if (batch->chunk[i].slot != slot) batch->chunk[kept++] = batch->chunk[i];
  }
  step->chunk_count = kept;
}

struct kc_spent kc_batch_spent(const struct kc_batch *batch, uint32_t slot, kc_ps now_ps)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  KC_ASSERT(now_ps >= s->joined_ps && batch->host_ps >= s->host_before_ps);
  struct kc_spent spent = s->spent;
  spent.resident_ps += now_ps - s->joined_ps;
  spent.host_ps += batch->host_ps - s->host_before_ps;
  return spent;
}

struct kc_spent kc_batch_spent_waiting(const struct kc_batch *batch,
                                       const struct kc_waiting *waiting, kc_ps short_ps)
{
  struct kc_spent spent = waiting->spent;
  KC_ASSERT(waiting->request < batch->queue.arrived);
  KC_ASSERT(short_ps >= batch->short_before_ps[waiting->request]);
  spent.kv_wait_ps += short_ps - batch->short_before_ps[waiting->request];
  return spent;
}

/* The request of a slot as one that waits from now on. */
static struct kc_waiting back_to_waiting(struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  const bool decodes = s->state == KC_SLOT_DECODE;
  KC_ASSERT(!s->ghost);
  batch->short_before_ps[s->request] = batch->short_ps;
  return (struct kc_waiting){
      .request = s->request,
      .outputs = kc_batch_outputs(batch, slot),
      .preemptions = s->preemptions,
      .cached_tokens = s->cached_tokens,
      .recached_tokens = s->recached_tokens,
      .started = true,
      .contaminated = s->contaminated,
      .spent = kc_batch_spent(batch, slot, batch->now_ps),
      .first = s->first,
      .first_token_ps = s->first_token_ps,
      .last_token_ps = decodes && s->fresh_at == 0 ? batch->decoded_ps : s->last_token_ps};
}

void kc_batch_preempt(struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  const bool blocks = batch->cache != NULL && batch->cache->kind == KC_CACHE_BLOCKS;
  if (batch->config.order == KC_ORDER_PRIORITY) take_back_notes(batch, slot);
  if (blocks && s->state != KC_SLOT_PREFILL) {
    kc_batch_publish(batch, slot, held_tokens(batch, slot));
  }
  if (s->ghost) {
    const enum kc_err err = close_slot(batch, slot);
    KC_ASSERT(err == KC_OK || batch->faulty);
    return;
  }
  struct kc_waiting waiting = back_to_waiting(batch, slot);
  waiting.preemptions++;
  const uint64_t wanted = kc_pages_of(kc_batch_known(batch, &waiting), batch->config.page_size);
  batch->demand_pages += wanted - slot_demand(batch, slot); /* the page it could not get */
  const enum kc_err err = close_slot(batch, slot);
  KC_ASSERT(err == KC_OK || batch->faulty); /* rows are checked before a step is formed */
  kc_queue_put_back(&batch->queue, &waiting);
  batch->preemptions++;
}

void kc_batch_abort(struct kc_batch *batch, uint32_t slot, enum kc_reason reason)
{
  KC_ASSERT(reason != KC_REASON_NONE);
  KC_ASSERT(batch->refusal_count <= KC_REFUSALS_MAX);
  if (!batch->slot[slot].ghost) {
    drop_demand(batch, slot);
    batch->refusal[batch->refusal_count++] =
        (struct kc_refusal){.waiting = back_to_waiting(batch, slot), .reason = reason};
  }
  const enum kc_err err = close_slot(batch, slot);
  KC_ASSERT(err == KC_OK || batch->faulty);
}

enum kc_err kc_batch_end(struct kc_batch *batch, uint32_t slot)
{
  drop_demand(batch, slot);
  KC_ASSERT(!batch->slot[slot].paused);
  return close_slot(batch, slot);
}

/* ---- ghosts ---- */

void kc_batch_ghost_stops(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->ghost && s->state == KC_SLOT_DECODE);
  KC_ASSERT(batch->ghost_decodes > 0);
  batch->ghost_decodes--;
  batch->ghost_held -= s->computed;
  kc_batch_decodes_remove(batch, slot);
  s->state = KC_SLOT_HELD;
  batch->step.composition_changed = true;
}

static void list_for_settling(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  if (s->listed) return;
  KC_ASSERT(batch->settle_count < batch->config.max_running);
  s->listed = true;
  batch->settle[batch->settle_count++] = slot;
}

void kc_batch_list_prompt(struct kc_batch *batch, uint32_t slot)
{
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_DECODE);
  KC_ASSERT(!batch->slot[slot].ghost);
  if (batch->cache == NULL || batch->cache->kind != KC_CACHE_RADIX) return;
  list_for_settling(batch, slot);
}

void kc_batch_retire(struct kc_batch *batch, uint32_t slot, bool decodes_on)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(!s->ghost && !s->paused);
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  drop_demand(batch, slot);
  kc_batch_forget_fresh(batch, slot);
  s->computed = held_tokens(batch, slot);
  s->ghost = true;
  batch->ghosts++;
  batch->ghost_decodes++;
  batch->ghost_held += s->computed;
  if (!decodes_on) kc_batch_ghost_stops(batch, slot);
  list_for_settling(batch, slot);
}

void kc_batch_settle(struct kc_batch *batch)
{
  for (uint32_t i = 0; i < batch->settle_count; i++) {
    const uint32_t slot = batch->settle[i];
    struct kc_slot *s = &batch->slot[slot];
    if (!s->listed) continue; /* it has left meanwhile */
    s->listed = false;
    kc_batch_publish(batch, slot, s->ghost ? s->computed : s->known);
    if (!s->ghost) continue;
    const enum kc_err err = close_slot(batch, slot);
    KC_ASSERT(err == KC_OK || batch->faulty);
  }
  batch->settle_count = 0;
}
