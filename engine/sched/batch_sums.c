/* The sums that make a step cheap (see batch.h): decodes come and go, stand still, and are summed
 * up when a step is sealed. Times are ticks throughout. */
#include "engine/sched/batch.h"
#include "engine/sched/batch_lists.h"
#include "engine/sched/batch_parts.h"

/* Ring index of a decode: it writes token number context - 1 in each tick, and needs a page where
 * that number is a multiple of the page size. */
static uint32_t ring_index(const struct kc_batch *batch, int64_t context_key)
{
  const int64_t size = batch->config.page_size;
  const int64_t index = (1 - context_key) % size;
  return (uint32_t)(index < 0 ? index + size : index);
}

bool kc_batch_is_needy(const struct kc_batch *batch, uint32_t slot)
{
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_DECODE);
  return ring_index(batch, batch->slot[slot].context_key) ==
         batch->tick % batch->config.page_size;
}

/* Tokens to come, plus the tick: constant while it decodes. */
static int64_t future_key(const struct kc_batch *batch, const struct kc_slot *s)
{
  const int64_t left = (int64_t)kc_batch_max_new(batch, s->request) - s->outputs_at_decode;
  KC_ASSERT(left >= 0);
  return left + (int64_t)s->decode_from;
}

static void future_add(struct kc_batch *batch, uint32_t slot)
{
  const int64_t clip = batch->policy->clip_tokens;
  const int64_t key = future_key(batch, &batch->slot[slot]);
  if (key - (int64_t)batch->tick > clip) kc_heap_push(&batch->clipped, key - clip, slot);
  else batch->future_key_sum += key;
}

static void future_remove(struct kc_batch *batch, uint32_t slot)
{
  if (kc_heap_has(&batch->clipped, slot)) kc_heap_remove(&batch->clipped, slot);
  else batch->future_key_sum -= future_key(batch, &batch->slot[slot]);
}

uint64_t kc_batch_future(struct kc_batch *batch)
{
  struct kc_heap *clipped = &batch->clipped;
  const int64_t tick = (int64_t)batch->tick;
  KC_ASSERT(batch->policy->clip_tokens > 0);
  while (kc_heap_top_key(clipped) <= tick) {
    const uint32_t slot = clipped->entry[0].item;
    kc_heap_remove(clipped, slot);
    batch->future_key_sum += future_key(batch, &batch->slot[slot]);
  }
  const int64_t below = batch->future_key_sum - (int64_t)(batch->decodes - clipped->count) * tick;
  KC_ASSERT(below >= 0);
  return (uint64_t)below + (uint64_t)clipped->count * batch->policy->clip_tokens;
}

/* A DECODE slot enters every sum, heap and bucket. */
static void decodes_add(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  batch->decodes++;
  batch->key_sum += s->context_key;
  kc_heap_push(&batch->longest, -s->context_key, slot);
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    const int64_t crossing = (int64_t)batch->config.cap[i] - s->context_key;
    if (crossing <= (int64_t)batch->tick) continue;
    kc_heap_push(&batch->crossing[i], crossing, slot);
    batch->below_key_sum[i] += s->context_key;
  }
  if (batch->policy->clip_tokens > 0) future_add(batch, slot);
  kc_list_insert(batch->slot, &batch->ring[ring_index(batch, s->context_key)], slot);
}

void kc_batch_decodes_remove(struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  KC_ASSERT(batch->decodes > 0);
  batch->decodes--;
  batch->key_sum -= s->context_key;
  kc_heap_remove(&batch->longest, slot);
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    if (!kc_heap_has(&batch->crossing[i], slot)) continue;
    kc_heap_remove(&batch->crossing[i], slot);
    batch->below_key_sum[i] -= s->context_key;
  }
  if (batch->policy->clip_tokens > 0) future_remove(batch, slot);
  kc_list_remove(batch->slot, &batch->ring[ring_index(batch, s->context_key)], slot);
}

void kc_batch_start_decoding(struct kc_batch *batch, uint32_t slot, uint32_t computed,
                             uint32_t outputs)
{
  struct kc_slot *s = &batch->slot[slot];
  s->state = KC_SLOT_DECODE;
  s->decode_from = batch->tick;
  s->outputs_at_decode = outputs;
  s->context_key = (int64_t)computed + 1 - (int64_t)batch->tick;
  decodes_add(batch, slot);
  batch->step.composition_changed = true;
}

uint32_t kc_batch_outputs(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_PREFILL || s->state == KC_SLOT_DECODE);
  if (s->state == KC_SLOT_PREFILL) return s->outputs_at_decode;
  KC_ASSERT(batch->tick >= s->decode_from);
  return s->outputs_at_decode + (uint32_t)(batch->tick - s->decode_from);
}

/* ---- the ones whose last token did not come with the last tick ---- */

void kc_batch_note_fresh(struct kc_batch *batch, uint32_t slot, kc_ps last_token_ps)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->fresh_at == 0);
  KC_ASSERT(batch->fresh_count < batch->config.max_running);
  s->last_token_ps = last_token_ps;
  batch->fresh[batch->fresh_count++] = slot;
  s->fresh_at = batch->fresh_count;
}

void kc_batch_forget_fresh(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  if (s->fresh_at == 0) return;
  KC_ASSERT(s->fresh_at <= batch->fresh_count && batch->fresh[s->fresh_at - 1] == slot);
  const uint32_t last = batch->fresh[--batch->fresh_count];
  batch->fresh[s->fresh_at - 1] = last;
  batch->slot[last].fresh_at = s->fresh_at;
  s->fresh_at = 0;
}

void kc_batch_pause(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE && !s->paused);
  if (s->ghost) {
    kc_batch_ghost_stops(batch, slot);
    return;
  }
  batch->ungranted += kc_batch_is_needy(batch, slot);
  batch->paused_held += (uint64_t)(s->context_key + (int64_t)batch->tick - 1);
  kc_batch_decodes_remove(batch, slot);
  s->paused = true;
  if (s->fresh_at == 0) kc_batch_note_fresh(batch, slot, batch->decoded_ps);
  KC_ASSERT(batch->step.pause_count < batch->config.max_running);
  batch->pause[batch->step.pause_count++] = slot;
  batch->step.composition_changed = true;
}

/* `missed`: a tick went by without them. Moving `decode_from` by it keeps outputs and contexts as
 * they were. */
static void end_pauses(struct kc_batch *batch, bool missed)
{
  for (uint32_t i = 0; i < batch->step.pause_count; i++) {
    const uint32_t slot = batch->pause[i];
    struct kc_slot *s = &batch->slot[slot];
    KC_ASSERT(s->paused && s->state == KC_SLOT_DECODE);
    s->paused = false;
    s->decode_from += missed;
    s->context_key -= missed;
    decodes_add(batch, slot);
  }
  batch->paused_held = 0;
  batch->step.pause_count = 0;
}

void kc_batch_resume(struct kc_batch *batch)
{
  if (batch->step.pause_count == 0) return;
  KC_ASSERT(batch->decodes == 0 && batch->step.chunk_count == 0);
  end_pauses(batch, false);
  batch->ungranted = 0;
}

/* ---- sealing ---- */

/* sum of min(start + j, cap) for j = 1 .. count */
static uint64_t capped_pairs(uint64_t start, uint64_t count, uint64_t cap)
{
  const uint64_t below = start >= cap ? 0 : (cap - start < count ? cap - start : count);
  return below * start + below * (below + 1) / 2 + (count - below) * cap;
}

static void add_chunk(struct kc_aggregates *sum, const struct kc_chunk *chunk,
                      const struct kc_sched_config *config)
{
  const uint64_t end = (uint64_t)chunk->start + chunk->count;
  sum->chunks++;
  sum->logits += chunk->last;
  sum->prefill_tokens += chunk->count;
  sum->prefill_pairs += capped_pairs(chunk->start, chunk->count, UINT64_MAX);
  sum->prefill_context += end;
  for (uint32_t i = 0; i < config->cap_count; i++) {
    const uint64_t reach = chunk->count + config->cap[i] - 1;
    sum->prefill_capped_pairs[i] += capped_pairs(chunk->start, chunk->count, config->cap[i]);
    sum->prefill_capped_context[i] += end < reach ? end : reach;
  }
}

static void seal_caps(struct kc_batch *batch, struct kc_aggregates *sum)
{
  const int64_t tick = (int64_t)batch->tick;
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    struct kc_heap *crossing = &batch->crossing[i];
    while (kc_heap_top_key(crossing) <= tick) {
      const uint32_t slot = crossing->entry[0].item;
      batch->below_key_sum[i] -= batch->slot[slot].context_key;
      kc_heap_remove(crossing, slot);
    }
    const int64_t below = batch->below_key_sum[i] + (int64_t)crossing->count * tick;
    KC_ASSERT(below >= 0);
    sum->decode_capped[i] =
        (uint64_t)below + (uint64_t)(batch->decodes - crossing->count) * batch->config.cap[i];
  }
}

static void seal_decodes(struct kc_batch *batch, struct kc_aggregates *sum)
{
  const int64_t tick = (int64_t)batch->tick;
  const int64_t context = batch->key_sum + (int64_t)batch->decodes * tick;
  KC_ASSERT(context >= 0);
  KC_ASSERT(batch->longest.count == batch->decodes);
  sum->decodes = batch->decodes;
  sum->logits = batch->decodes;
  sum->decode_context = (uint64_t)context;
  if (batch->decodes > 0) {
    sum->decode_context_max = (uint64_t)(tick - kc_heap_top_key(&batch->longest));
  }
  seal_caps(batch, sum);
}

/* O(slots to settle), and nothing without ghosts. */
static void list_ghosts(struct kc_batch *batch)
{
  batch->step.ghost_count = 0;
  if (batch->ghosts == 0) return;
  for (uint32_t i = 0; i < batch->settle_count; i++) {
    const struct kc_slot *s = &batch->slot[batch->settle[i]];
    if (!s->listed || !s->ghost) continue;
    KC_ASSERT(batch->step.ghost_count < batch->config.max_running);
    batch->ghost[batch->step.ghost_count++] =
        (struct kc_ghost){.slot = batch->settle[i],
                          .decodes = s->state == KC_SLOT_DECODE && batch->step.decoding};
  }
  KC_ASSERT(batch->step.ghost_count == batch->ghosts);
}

void kc_batch_seal(struct kc_batch *batch)
{
  struct kc_aggregates *sum = &batch->step.sum;
  *sum = (struct kc_aggregates){.table_entries = batch->table->in_use};
  KC_ASSERT(batch->step.decoding || batch->step.pause_count == 0);
  if (batch->step.decoding) seal_decodes(batch, sum);
  else batch->ungranted = kc_batch_growth(batch);
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) {
    add_chunk(sum, &batch->chunk[i], &batch->config);
  }
  list_ghosts(batch);
  batch->step.tick = batch->tick;
  batch->step.start_ps = batch->now_ps;
  KC_ASSERT_SLOW(kc_batch_valid(batch));
}

uint64_t kc_batch_held(const struct kc_batch *batch)
{
  const struct kc_step *step = &batch->step;
  const int64_t context = batch->key_sum + (int64_t)batch->decodes * (int64_t)batch->tick;
  uint64_t held = (uint64_t)context - batch->decodes; /* before the step */
  KC_ASSERT(held >= batch->ghost_held);
  held -= batch->ghost_held;
  if (step->decoding) held += batch->decodes - batch->ghost_decodes;
  return held + batch->paused_held + batch->prefill_computed + step->sum.prefill_tokens;
}

void kc_batch_advance(struct kc_batch *batch, kc_ps end_ps)
{
  struct kc_step *step = &batch->step;
  KC_ASSERT(step->index < UINT64_MAX / 2);
  KC_ASSERT(batch->refusal_count == 0); /* the instance has reported them */
  batch->ran_decoding = step->decoding;
  if (step->decoding) {
    batch->tick++;
    batch->decoded_ps = end_ps;
  }
  step->composition_changed = step->chunk_count > 0;
  if (step->pause_count > 0) {
    end_pauses(batch, true);
    step->composition_changed = true;
  }
  step->index++;
  step->join_count = 0;
  step->leave_count = 0;
  step->grant_count = 0;
  step->chunk_count = 0;
  batch->ungranted = 0;
}

bool kc_batch_chunk_done(struct kc_batch *batch, const struct kc_chunk *chunk)
{
  struct kc_slot *s = &batch->slot[chunk->slot];
  KC_ASSERT(s->state == KC_SLOT_PREFILL);
  KC_ASSERT(s->computed == chunk->start);
  s->computed += chunk->count;
  batch->prefill_computed += chunk->count;
  if (s->computed < s->known) return false;
  kc_list_remove(batch->slot, &batch->prefill, chunk->slot);
  batch->prefill_computed -= s->computed;
  /* What it was charged as a prefill is exactly what it holds now. */
  KC_ASSERT(batch->table->extent[chunk->slot] == kc_pages_of(s->known, batch->config.page_size));
  kc_batch_start_decoding(batch, chunk->slot, s->known, s->outputs_at_decode + 1);
  return true;
}
