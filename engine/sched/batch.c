/* The books of a running batch (see batch.h for the picture and the reasons).
 *
 * Who owns what: arrays come from the run's arena and live as long as it does; the pool and the
 * block tables are borrowed from the instance, which is their only other user. Everything here is
 * O(1) or O(log batch) per request that joins or leaves, O(1) per page, and O(1) per step.
 *
 * A slot's life:
 *
 *   waiting --start_head--> PREFILL --chunk_done(last)--> DECODE --end--> gone
 *      ^         |  `---kv in place----------------------^  |
 *      `---------'<-------------------- preempt ------------'
 */
#include "engine/sched/batch.h"

#include "engine/sched/batch_lists.h"

static size_t sum_needs(const size_t *needs, size_t count)
{
  size_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  return total;
}

size_t kc_batch_need(const struct kc_sched_config *config)
{
  const size_t slots = config->max_running;
  KC_ASSERT(slots > 0);
  KC_ASSERT(config->cap_count <= KC_CAPS_MAX);
  const size_t needs[] = {
      kc_arena_need(slots, sizeof(struct kc_waiting)),
      kc_arena_need(slots, sizeof(struct kc_slot)),
      kc_arena_need(slots, sizeof(uint32_t)),
      kc_arena_need(config->page_size, sizeof(struct kc_list)),
      kc_arena_need(slots, sizeof(struct kc_join)),
      kc_arena_need(2 * slots, sizeof(uint32_t)),
      kc_arena_need(2 * slots, sizeof(struct kc_grant)),
      kc_arena_need(slots, sizeof(struct kc_chunk)),
      kc_arena_need(KC_REFUSALS_MAX, sizeof(struct kc_refusal)),
      (1 + (size_t)config->cap_count) * kc_heap_need(config->max_running),
  };
  return sum_needs(needs, sizeof needs / sizeof needs[0]);
}

static bool take_arrays(struct kc_batch *batch, struct kc_arena *arena)
{
  const size_t slots = batch->config.max_running;
  batch->requeue = kc_arena_take(arena, slots, sizeof *batch->requeue);
  batch->slot = kc_arena_take(arena, slots, sizeof *batch->slot);
  batch->free_slot = kc_arena_take(arena, slots, sizeof *batch->free_slot);
  batch->ring = kc_arena_take(arena, batch->config.page_size, sizeof *batch->ring);
  batch->join = kc_arena_take(arena, slots, sizeof *batch->join);
  batch->leave = kc_arena_take(arena, 2 * slots, sizeof *batch->leave);
  batch->grant = kc_arena_take(arena, 2 * slots, sizeof *batch->grant);
  batch->chunk = kc_arena_take(arena, slots, sizeof *batch->chunk);
  batch->refusal = kc_arena_take(arena, KC_REFUSALS_MAX, sizeof *batch->refusal);
  return batch->requeue != NULL && batch->slot != NULL && batch->free_slot != NULL &&
         batch->ring != NULL && batch->join != NULL && batch->leave != NULL &&
         batch->grant != NULL && batch->chunk != NULL && batch->refusal != NULL;
}

enum kc_err kc_batch_init(struct kc_batch *batch, const struct kc_sched_config *config,
                          struct kc_pool *pool, struct kc_table *table,
                          const struct kc_request *requests, struct kc_arena *arena)
{
  KC_ASSERT(config->max_running > 0);
  KC_ASSERT(config->page_size > 0);
  KC_ASSERT(table->slots == config->max_running);
  *batch = (struct kc_batch){
      .config = *config, .pool = pool, .table = table, .requests = requests,
      .running = kc_list_empty(), .prefill = kc_list_empty()};
  if (!take_arrays(batch, arena)) return KC_ERR_MEMORY;
  KC_TRY(kc_heap_init(&batch->longest, config->max_running, arena));
  for (uint32_t i = 0; i < config->cap_count; i++) {
    KC_TRY(kc_heap_init(&batch->crossing[i], config->max_running, arena));
  }
  for (uint32_t i = 0; i < config->page_size; i++) batch->ring[i] = kc_list_empty();
  for (uint32_t i = 0; i < config->max_running; i++) {
    batch->free_slot[i] = config->max_running - 1 - i; /* slot 0 is taken first */
  }
  batch->free_slot_count = config->max_running;
  batch->step.join = batch->join;
  batch->step.leave = batch->leave;
  batch->step.grant = batch->grant;
  batch->step.table = batch->table;
  batch->step.pool = batch->pool;
  batch->step.chunk = batch->chunk;
  return KC_OK;
}

/* ---- waiting queue ---- */

static bool prompt_too_long(const struct kc_batch *batch, uint32_t request)
{
  return batch->requests[request].input_tokens >= batch->config.max_model_len;
}

bool kc_batch_arrive(struct kc_batch *batch)
{
  const uint32_t request = batch->arrived++;
  KC_ASSERT(batch->requests[request].input_tokens > 0);
  KC_ASSERT(batch->requests[request].output_tokens > 0);
  if (prompt_too_long(batch, request)) {
    batch->refused_ahead++;
    return false;
  }
  batch->demand_pages += kc_pages_of(batch->requests[request].input_tokens,
                                     batch->config.page_size);
  return true;
}

uint32_t kc_batch_waiting(const struct kc_batch *batch)
{
  KC_ASSERT(batch->arrived >= batch->next_request);
  KC_ASSERT(batch->arrived - batch->next_request >= batch->refused_ahead);
  return batch->arrived - batch->next_request - batch->refused_ahead + batch->requeue_count;
}

bool kc_batch_head(struct kc_batch *batch, struct kc_waiting *head)
{
  if (batch->requeue_count > 0) {
    *head = batch->requeue[batch->requeue_count - 1];
    return true;
  }
  while (batch->next_request < batch->arrived && prompt_too_long(batch, batch->next_request)) {
    KC_ASSERT(batch->refused_ahead > 0);
    batch->refused_ahead--;
    batch->next_request++;
  }
  if (batch->next_request == batch->arrived) return false;
  *head = (struct kc_waiting){.request = batch->next_request,
                              .first_token_ps = KC_PS_NEVER,
                              .last_token_ps = KC_PS_NEVER};
  return true;
}

uint32_t kc_batch_known(const struct kc_batch *batch, const struct kc_waiting *waiting)
{
  KC_ASSERT(waiting->request < batch->arrived);
  const uint32_t known = batch->requests[waiting->request].input_tokens + waiting->outputs;
  KC_ASSERT(known >= waiting->outputs); /* no wrap: lengths are cut at max_model_len */
  return known;
}

static void drop_head(struct kc_batch *batch, const struct kc_waiting *head)
{
  if (batch->requeue_count > 0) {
    KC_ASSERT(batch->requeue[batch->requeue_count - 1].request == head->request);
    batch->requeue_count--;
  } else {
    KC_ASSERT(batch->next_request == head->request);
    batch->next_request++;
  }
}

bool kc_batch_refuse_head(struct kc_batch *batch, enum kc_reason reason)
{
  struct kc_waiting head;
  const bool found = kc_batch_head(batch, &head);
  KC_ASSERT(found);
  KC_ASSERT(reason != KC_REASON_NONE);
  if (batch->refusal_count == KC_REFUSALS_MAX) return false;
  const uint64_t pages = kc_pages_of(kc_batch_known(batch, &head), batch->config.page_size);
  KC_ASSERT(batch->demand_pages >= pages);
  batch->demand_pages -= pages;
  batch->refusal[batch->refusal_count++] = (struct kc_refusal){.waiting = head, .reason = reason};
  drop_head(batch, &head);
  return true;
}

/* ---- decodes: the sums that make a step cheap ---- */

/* Ring index of a decode: it writes token number context - 1 in each step, and needs a page where
 * that number is a multiple of the page size. */
static uint32_t ring_index(const struct kc_batch *batch, int64_t context_key)
{
  const int64_t size = batch->config.page_size;
  const int64_t index = (1 - context_key) % size;
  return (uint32_t)(index < 0 ? index + size : index);
}

static void decodes_add(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_DECODE);
  batch->decodes++;
  batch->key_sum += s->context_key;
  kc_heap_push(&batch->longest, -s->context_key, slot);
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    const int64_t crossing = (int64_t)batch->config.cap[i] - s->context_key;
    if (crossing <= (int64_t)s->decode_from) continue;
    kc_heap_push(&batch->crossing[i], crossing, slot);
    batch->below_key_sum[i] += s->context_key;
  }
  kc_list_insert(batch->slot, &batch->ring[ring_index(batch, s->context_key)], slot);
}

static void decodes_remove(struct kc_batch *batch, uint32_t slot)
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
  kc_list_remove(batch->slot, &batch->ring[ring_index(batch, s->context_key)], slot);
}

/* Makes `slot` decode from step `from` on, with `computed` tokens of KV before that step. */
static void start_decoding(struct kc_batch *batch, uint32_t slot, uint64_t from, uint32_t computed,
                           uint32_t outputs)
{
  struct kc_slot *s = &batch->slot[slot];
  s->state = KC_SLOT_DECODE;
  s->decode_from = from;
  s->outputs_at_decode = outputs;
  s->context_key = (int64_t)computed + 1 - (int64_t)from;
  decodes_add(batch, slot);
  batch->step.composition_changed = true;
}

/* ---- forming a step ---- */

/* Pages attributed to a slot in the demand: a prefill counts its whole known length, a decode what
 * it holds. */
static uint64_t slot_demand(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  return s->state == KC_SLOT_PREFILL ? kc_pages_of(s->known, batch->config.page_size)
                                     : batch->table->extent[slot];
}

static void note_grant(struct kc_batch *batch, uint32_t slot, uint32_t count)
{
  KC_ASSERT(batch->step.grant_count < 2 * batch->config.max_running);
  KC_ASSERT(batch->table->extent[slot] >= count);
  batch->grant[batch->step.grant_count++] = (struct kc_grant){
      .slot = slot, .first = batch->table->extent[slot] - count, .count = count};
}

static void note_chunk(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(tokens > 0 && tokens <= s->known - s->computed);
  KC_ASSERT(batch->step.chunk_count < batch->config.max_running);
  batch->chunk[batch->step.chunk_count++] = (struct kc_chunk){
      .slot = slot,
      .start = s->computed,
      .count = tokens,
      .last = s->computed + tokens == s->known};
  batch->step.composition_changed = true;
}

static uint32_t open_slot(struct kc_batch *batch, const struct kc_waiting *head)
{
  KC_ASSERT(batch->free_slot_count > 0);
  const uint32_t slot = batch->free_slot[--batch->free_slot_count];
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_FREE);
  KC_ASSERT(batch->table->extent[slot] == 0);
  batch->slot[slot] = (struct kc_slot){
      .request = head->request,
      .preemptions = head->preemptions,
      .state = KC_SLOT_PREFILL,
      .known = kc_batch_known(batch, head),
      .outputs_at_decode = head->outputs,
      .joined_ps = batch->now_ps,
      .resident_ps = head->resident_ps,
      .first_token_ps = head->first_token_ps,
      .last_token_ps = head->last_token_ps,
      .order = batch->next_order++,
      .list_previous = KC_SLOT_NONE,
      .list_next = KC_SLOT_NONE};
  kc_list_append_running(batch->slot, &batch->running, slot);
  return slot;
}

uint32_t kc_batch_start_head(struct kc_batch *batch, uint32_t tokens, bool kv_in_place)
{
  struct kc_waiting head;
  const bool found = kc_batch_head(batch, &head);
  KC_ASSERT(found);
  drop_head(batch, &head);
  const uint32_t slot = open_slot(batch, &head);
  const struct kc_slot *s = &batch->slot[slot];
  const uint32_t pages = (uint32_t)kc_pages_of(kv_in_place ? s->known : tokens,
                                               batch->config.page_size);
  const bool grown = kc_table_grow(batch->table, batch->pool, slot, pages);
  KC_ASSERT(grown);
  note_grant(batch, slot, pages);
  batch->join[batch->step.join_count++] = (struct kc_join){
      .slot = slot, .request = head.request, .known = s->known, .outputs = head.outputs,
      .kv_in_place = kv_in_place};
  if (kv_in_place) {
    start_decoding(batch, slot, batch->step.index, s->known - 1, head.outputs);
  } else {
    kc_list_insert(batch->slot, &batch->prefill, slot);
    note_chunk(batch, slot, tokens);
  }
  return slot;
}

bool kc_batch_grant_decode(struct kc_batch *batch, uint32_t slot)
{
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_DECODE);
  if (batch->pool->free_count == 0) return false;
  const bool grown = kc_table_grow_one(batch->table, batch->pool, slot);
  KC_ASSERT(grown);
  note_grant(batch, slot, 1);
  batch->demand_pages++;
  return true;
}

bool kc_batch_grant_needy(struct kc_batch *batch)
{
  const struct kc_list *needy = kc_batch_needy(batch);
  struct kc_grant *grant = batch->grant + batch->step.grant_count;
  KC_ASSERT(batch->step.grant_count + needy->count <= 2 * batch->config.max_running);
  if (batch->pool->free_count < needy->count) return false;
  for (uint32_t slot = needy->head; slot != KC_SLOT_NONE; slot = batch->slot[slot].list_next) {
    const uint32_t extent = batch->table->extent[slot];
    const bool grown = kc_table_grow_one(batch->table, batch->pool, slot);
    KC_ASSERT(grown);
    *grant++ = (struct kc_grant){.slot = slot, .first = extent, .count = 1};
  }
  batch->step.grant_count += needy->count;
  batch->demand_pages += needy->count;
  return true;
}

bool kc_batch_continue_prefill(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_PREFILL);
  KC_ASSERT(tokens > 0);
  const uint64_t pages = kc_pages_of((uint64_t)s->computed + tokens, batch->config.page_size);
  const uint32_t more = (uint32_t)(pages - batch->table->extent[slot]);
  if (more > 0) {
    if (batch->pool->free_count < more) return false;
    const bool grown = kc_table_grow(batch->table, batch->pool, slot, more);
    KC_ASSERT(grown);
    note_grant(batch, slot, more);
  }
  note_chunk(batch, slot, tokens);
  return true;
}

/* Takes the slot out of every list and gives its pages back. */
static enum kc_err close_slot(struct kc_batch *batch, uint32_t slot)
{
  struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  if (s->state == KC_SLOT_DECODE) {
    decodes_remove(batch, slot);
  } else {
    kc_list_remove(batch->slot, &batch->prefill, slot);
    batch->prefill_computed -= s->computed;
  }
  kc_list_remove_running(batch->slot, &batch->running, slot);
  const enum kc_err err = kc_table_release(batch->table, batch->pool, slot);
  s->state = KC_SLOT_FREE;
  batch->free_slot[batch->free_slot_count++] = slot;
  KC_ASSERT(batch->step.leave_count < 2 * batch->config.max_running);
  batch->leave[batch->step.leave_count++] = slot;
  batch->step.composition_changed = true;
  return err;
}

void kc_batch_preempt(struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  const bool decoding = s->state == KC_SLOT_DECODE;
  struct kc_waiting waiting = {
      .request = s->request,
      .outputs = s->outputs_at_decode,
      .preemptions = s->preemptions + 1,
      .resident_ps = s->resident_ps + (batch->now_ps - s->joined_ps),
      .first_token_ps = s->first_token_ps,
      .last_token_ps = s->last_token_ps};
  if (decoding) { /* its last token came out when the previous step ended, which is now */
    KC_ASSERT(batch->step.index >= s->decode_from);
    waiting.outputs += (uint32_t)(batch->step.index - s->decode_from);
    waiting.last_token_ps = batch->now_ps;
  }
  const uint64_t held = slot_demand(batch, slot);
  const uint64_t wanted = kc_pages_of(kc_batch_known(batch, &waiting), batch->config.page_size);
  batch->demand_pages += wanted - held; /* the page it could not get */
  const enum kc_err err = close_slot(batch, slot);
  KC_ASSERT(err == KC_OK); /* rows are checked before a step is formed */
  KC_ASSERT(batch->requeue_count < batch->config.max_running);
  batch->requeue[batch->requeue_count++] = waiting;
  batch->preemptions++;
}

/* ---- around a step ---- */

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
  const int64_t step = (int64_t)batch->step.index;
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    struct kc_heap *crossing = &batch->crossing[i];
    while (kc_heap_top_key(crossing) <= step) {
      const uint32_t slot = crossing->entry[0].item;
      batch->below_key_sum[i] -= batch->slot[slot].context_key;
      kc_heap_remove(crossing, slot);
    }
    const int64_t below = batch->below_key_sum[i] + (int64_t)crossing->count * step;
    KC_ASSERT(below >= 0);
    sum->decode_capped[i] =
        (uint64_t)below + (uint64_t)(batch->decodes - crossing->count) * batch->config.cap[i];
  }
}

void kc_batch_seal(struct kc_batch *batch)
{
  struct kc_aggregates *sum = &batch->step.sum;
  const int64_t step = (int64_t)batch->step.index;
  const int64_t context = batch->key_sum + (int64_t)batch->decodes * step;
  KC_ASSERT(context >= 0);
  KC_ASSERT(batch->longest.count == batch->decodes);
  *sum = (struct kc_aggregates){
      .decodes = batch->decodes,
      .logits = batch->decodes,
      .decode_context = (uint64_t)context,
      .decode_context_max =
          batch->decodes > 0 ? (uint64_t)(step - kc_heap_top_key(&batch->longest)) : 0,
      .table_entries = batch->table->in_use};
  seal_caps(batch, sum);
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) {
    add_chunk(sum, &batch->chunk[i], &batch->config);
  }
  batch->step.start_ps = batch->now_ps;
  KC_ASSERT_SLOW(kc_batch_valid(batch));
}

void kc_batch_advance(struct kc_batch *batch)
{
  KC_ASSERT(batch->step.index < UINT64_MAX / 2);
  KC_ASSERT(batch->refusal_count == 0); /* the instance has reported them */
  batch->step.composition_changed = batch->step.chunk_count > 0;
  batch->step.index++;
  batch->step.join_count = 0;
  batch->step.leave_count = 0;
  batch->step.grant_count = 0;
  batch->step.chunk_count = 0;
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
  start_decoding(batch, chunk->slot, batch->step.index, s->known, s->outputs_at_decode + 1);
  return true;
}

uint32_t kc_batch_outputs(const struct kc_batch *batch, uint32_t slot)
{
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state != KC_SLOT_FREE);
  if (s->state == KC_SLOT_PREFILL) return s->outputs_at_decode;
  KC_ASSERT(batch->step.index >= s->decode_from);
  return s->outputs_at_decode + (uint32_t)(batch->step.index - s->decode_from);
}

enum kc_err kc_batch_end(struct kc_batch *batch, uint32_t slot)
{
  const uint64_t demand = slot_demand(batch, slot);
  KC_ASSERT(batch->demand_pages >= demand);
  batch->demand_pages -= demand;
  return close_slot(batch, slot);
}
