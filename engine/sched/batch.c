/* Forming a step: what a policy does to the books of the batch (see batch.h for the picture and the
 * reasons).
 *
 * Who owns what: arrays come from the run's arena and live as long as it does; the pool, the block
 * tables and the prefix cache are borrowed from the instance, which is their only other user.
 * Everything here is O(1) or O(log batch) per request that joins or leaves, O(1) per page, and O(1)
 * per step.
 *
 * A slot's life:
 *
 *   waiting --start--> PREFILL --chunk_done(last)--> DECODE --retire--> ghost --settle--> gone
 *      ^        |  `---kv in place---------------------^  |
 *      `--------'<------------------ preempt -------------'
 */
#include "engine/sched/batch.h"

#include "engine/sched/batch_lists.h"
#include "engine/sched/batch_parts.h"

/* ---- set-up ---- */

static enum kc_queue_kind queue_kind(const struct kc_sched_config *config,
                                     const struct kc_policy *policy)
{
  if (config->order == KC_ORDER_PRIORITY) return KC_QUEUE_PRIORITY;
  return policy->requeue_first ? KC_QUEUE_FIRST : KC_QUEUE_LAST;
}

size_t kc_batch_need(const struct kc_sched_config *config, const struct kc_policy *policy,
                     uint32_t requests_max)
{
  const size_t slots = config->max_running;
  const size_t heaps = 2 + (size_t)config->cap_count;
  KC_ASSERT(slots > 0);
  KC_ASSERT(config->cap_count <= KC_CAPS_MAX);
  const size_t needs[] = {
      kc_queue_need(queue_kind(config, policy), config->max_running, requests_max),
      kc_arena_need(slots, sizeof(struct kc_slot)),
      kc_arena_need(slots, sizeof(uint32_t)) * 4, /* free_slot, settle, fresh, pause */
      kc_arena_need(config->page_size, sizeof(struct kc_list)),
      kc_arena_need(slots, sizeof(struct kc_join)),
      kc_arena_need(2 * slots, sizeof(uint32_t)),
      kc_arena_need(2 * slots, sizeof(struct kc_grant)),
      kc_arena_need(slots, sizeof(struct kc_chunk)),
      kc_arena_need(slots, sizeof(struct kc_ghost)),
      kc_arena_need(KC_REFUSALS_MAX + 1, sizeof(struct kc_refusal)),
      kc_arena_need(requests_max, sizeof(kc_ps)),
      heaps * kc_heap_need(config->max_running),
  };
  size_t total = 0;
  for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  return total;
}

static bool take_arrays(struct kc_batch *batch, uint32_t requests_max, struct kc_arena *arena)
{
  const size_t slots = batch->config.max_running;
  batch->slot = kc_arena_take(arena, slots, sizeof *batch->slot);
  batch->free_slot = kc_arena_take(arena, slots, sizeof *batch->free_slot);
  batch->settle = kc_arena_take(arena, slots, sizeof *batch->settle);
  batch->fresh = kc_arena_take(arena, slots, sizeof *batch->fresh);
  batch->pause = kc_arena_take(arena, slots, sizeof *batch->pause);
  batch->ghost = kc_arena_take(arena, slots, sizeof *batch->ghost);
  batch->ring = kc_arena_take(arena, batch->config.page_size, sizeof *batch->ring);
  batch->join = kc_arena_take(arena, slots, sizeof *batch->join);
  batch->leave = kc_arena_take(arena, 2 * slots, sizeof *batch->leave);
  batch->grant = kc_arena_take(arena, 2 * slots, sizeof *batch->grant);
  batch->chunk = kc_arena_take(arena, slots, sizeof *batch->chunk);
  batch->refusal = kc_arena_take(arena, KC_REFUSALS_MAX + 1, sizeof *batch->refusal);
  batch->short_before_ps = kc_arena_take(arena, requests_max, sizeof *batch->short_before_ps);
  return batch->slot != NULL && batch->free_slot != NULL && batch->settle != NULL &&
         batch->fresh != NULL && batch->pause != NULL && batch->ghost != NULL &&
         batch->ring != NULL &&
         batch->join != NULL && batch->leave != NULL && batch->grant != NULL &&
         batch->chunk != NULL && batch->refusal != NULL && batch->short_before_ps != NULL;
}

static enum kc_err take_heaps(struct kc_batch *batch, struct kc_arena *arena)
{
  const uint32_t slots = batch->config.max_running;
  KC_TRY(kc_heap_init(&batch->longest, slots, arena));
  KC_TRY(kc_heap_init(&batch->clipped, slots, arena));
  for (uint32_t i = 0; i < batch->config.cap_count; i++) {
    KC_TRY(kc_heap_init(&batch->crossing[i], slots, arena));
  }
  return KC_OK;
}

enum kc_err kc_batch_init(struct kc_batch *batch, const struct kc_sched_config *config,
                          const struct kc_policy *policy, struct kc_pool *pool,
                          struct kc_table *table, struct kc_prefix_cache *cache,
                          const struct kc_request *requests, uint32_t requests_max,
                          struct kc_arena *arena)
{
  KC_ASSERT(config->max_running > 0 && config->page_size > 0);
  KC_ASSERT((cache != NULL) == config->prefix_cache);
  KC_ASSERT(table->slots == config->max_running);
  *batch = (struct kc_batch){.config = *config,
                             .policy = policy,
                             .pool = pool,
                             .table = table,
                             .cache = cache,
                             .requests = requests,
                             .was_idle = true,
                             .running = kc_list_empty(),
                             .prefill = kc_list_empty()};
  KC_TRY(kc_queue_init(&batch->queue, queue_kind(config, policy), config->max_running,
                       requests_max, requests, arena));
  if (!take_arrays(batch, requests_max, arena)) return KC_ERR_MEMORY;
  KC_TRY(take_heaps(batch, arena));
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
  batch->step.pause = batch->pause;
  batch->step.ghost = batch->ghost;
  return KC_OK;
}

/* ---- waiting queue ---- */

uint32_t kc_batch_max_new(const struct kc_batch *batch, uint32_t request)
{
  const struct kc_request *r = &batch->requests[request];
  KC_ASSERT(r->input_tokens < batch->config.max_model_len);
  const uint64_t room = batch->config.max_model_len - r->input_tokens;
  return r->max_tokens < room ? r->max_tokens : (uint32_t)room;
}

void kc_batch_arrive(struct kc_batch *batch, enum kc_reason reason)
{
  const uint32_t request = kc_queue_arrive(&batch->queue);
  KC_ASSERT(batch->requests[request].input_tokens > 0);
  KC_ASSERT(batch->requests[request].output_tokens > 0);
  if (reason != KC_REASON_NONE) {
    kc_queue_refuse_newest(&batch->queue);
    return;
  }
  KC_ASSERT(batch->cache == NULL || batch->requests[request].run_count > 0 ||
            batch->requests[request].input_tokens < batch->config.page_size);
  batch->demand_pages += kc_pages_of(batch->requests[request].input_tokens,
                                     batch->config.page_size);
}

uint32_t kc_batch_known(const struct kc_batch *batch, const struct kc_waiting *waiting)
{
  KC_ASSERT(waiting->request < batch->queue.arrived);
  const uint32_t known = batch->requests[waiting->request].input_tokens + waiting->outputs;
  KC_ASSERT(known >= waiting->outputs); /* no wrap: lengths are cut at max_model_len */
  return known;
}

bool kc_batch_refuse(struct kc_batch *batch, const struct kc_queue_place *place,
                     enum kc_reason reason)
{
  KC_ASSERT(reason != KC_REASON_NONE);
  if (batch->refusal_count >= KC_REFUSALS_MAX) return false;
  const uint64_t pages =
      kc_pages_of(kc_batch_known(batch, &place->waiting), batch->config.page_size);
  KC_ASSERT(batch->demand_pages >= pages);
  batch->demand_pages -= pages;
  batch->refusal[batch->refusal_count++] =
      (struct kc_refusal){.waiting = place->waiting, .reason = reason};
  kc_queue_take(&batch->queue, place);
  return true;
}

/* ---- rows ---- */

static bool row_grow(struct kc_batch *batch, uint32_t slot, uint32_t count)
{
  if (batch->cache != NULL) return kc_prefix_cache_grow(batch->cache, slot, count);
  return kc_table_grow(batch->table, batch->pool, slot, count);
}

static bool row_grow_one(struct kc_batch *batch, uint32_t slot)
{
  if (batch->cache != NULL) return kc_prefix_cache_grow(batch->cache, slot, 1);
  return kc_table_grow_one(batch->table, batch->pool, slot);
}

void kc_batch_publish(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  const uint32_t pages = tokens / batch->config.page_size;
  if (batch->cache == NULL) return;
  if (batch->faulty && !batch->watch.is_sound(batch->watch.context, slot)) return;
  KC_ASSERT(pages <= batch->table->extent[slot]);
  /* Blocks that are found already stay as they are; a tree takes note of every visit. */
  if (batch->cache->kind == KC_CACHE_BLOCKS && pages <= batch->table->shared[slot]) return;
  const struct kc_content content = kc_batch_content(batch, batch->slot[slot].request);
  kc_prefix_cache_publish(batch->cache, slot, &content, pages);
}

struct kc_cache_match kc_batch_match(struct kc_batch *batch, const struct kc_waiting *waiting)
{
  const uint32_t known = kc_batch_known(batch, waiting);
  if (batch->cache == NULL) return (struct kc_cache_match){0};
  KC_ASSERT(known > 0);
  const struct kc_content content = kc_batch_content(batch, waiting->request);
  return kc_prefix_cache_match(batch->cache, &content, (known - 1) / batch->config.page_size);
}

/* ---- notes of the step ---- */

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

/* ---- joining ---- */

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
      .contaminated = head->contaminated,
      .known = kc_batch_known(batch, head),
      .outputs_at_decode = head->outputs,
      .cached_tokens = head->cached_tokens,
      .recached_tokens = head->recached_tokens,
      .joined_ps = batch->now_ps,
      .host_before_ps = batch->host_ps,
      .spent = kc_batch_spent_waiting(batch, head, batch->short_ps),
      .first = head->first,
      .first_token_ps = head->first_token_ps,
      .last_token_ps = head->last_token_ps,
      .order = batch->next_order++,
      .list_previous = KC_SLOT_NONE,
      .list_next = KC_SLOT_NONE};
  kc_list_append_running(batch->slot, &batch->running, slot);
  return slot;
}

/* The matched pages become the beginning of the row: their tokens count as computed. */
static void attach(struct kc_batch *batch, uint32_t slot, const struct kc_waiting *head,
                   const struct kc_cache_match *match)
{
  struct kc_slot *s = &batch->slot[slot];
  const uint32_t tokens = match->pages * batch->config.page_size;
  KC_ASSERT(tokens < s->known);
  if (match->pages == 0) return;
  const struct kc_content content = kc_batch_content(batch, head->request);
  kc_prefix_cache_attach(batch->cache, slot, &content, match);
  KC_ASSERT(batch->table->extent[slot] == match->pages);
  note_grant(batch, slot, match->pages);
  s->computed = tokens;
  batch->prefill_computed += tokens;
  if (head->started) s->recached_tokens += tokens;
  else s->cached_tokens = tokens;
}

uint32_t kc_batch_start(struct kc_batch *batch, const struct kc_queue_place *place,
                        const struct kc_cache_match *match, uint32_t tokens)
{
  kc_queue_take(&batch->queue, place);
  const uint32_t slot = open_slot(batch, &place->waiting);
  attach(batch, slot, &place->waiting, match);
  const struct kc_slot *s = &batch->slot[slot];
  KC_ASSERT(s->state == KC_SLOT_PREFILL);
  batch->join[batch->step.join_count++] = (struct kc_join){.slot = slot,
                                                           .request = s->request,
                                                           .known = s->known,
                                                           .outputs = place->waiting.outputs,
                                                           .cached = s->computed};
  kc_list_insert(batch->slot, &batch->prefill, slot);
  note_chunk(batch, slot, tokens);
  return slot;
}

uint32_t kc_batch_start_in_place(struct kc_batch *batch, const struct kc_queue_place *place)
{
  kc_queue_take(&batch->queue, place);
  const uint32_t slot = open_slot(batch, &place->waiting);
  const struct kc_slot *s = &batch->slot[slot];
  const uint32_t pages = (uint32_t)kc_pages_of(s->known, batch->config.page_size);
  const bool grown = row_grow(batch, slot, pages);
  KC_ASSERT(grown);
  KC_ASSERT(!place->waiting.started);
  note_grant(batch, slot, pages);
  batch->join[batch->step.join_count++] = (struct kc_join){
      .slot = slot, .request = s->request, .known = s->known, .kv_in_place = true};
  kc_batch_start_decoding(batch, slot, s->known - 1, 0);
  return slot;
}

void kc_batch_continue(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_PREFILL);
  KC_ASSERT(tokens > 0);
  note_chunk(batch, slot, tokens);
}

uint32_t kc_batch_lacks(const struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  const struct kc_slot *s = &batch->slot[slot];
  const uint64_t pages = kc_pages_of((uint64_t)s->computed + tokens, batch->config.page_size);
  KC_ASSERT(s->state == KC_SLOT_PREFILL);
  KC_ASSERT(pages >= batch->table->extent[slot]);
  return (uint32_t)(pages - batch->table->extent[slot]);
}

bool kc_batch_fill(struct kc_batch *batch, uint32_t slot, uint32_t tokens)
{
  const uint32_t more = kc_batch_lacks(batch, slot, tokens);
  if (more == 0) return true;
  if (kc_batch_available(batch) < more) return false;
  const bool grown = row_grow(batch, slot, more);
  KC_ASSERT(grown);
  KC_ASSERT(batch->slot[slot].computed / batch->config.page_size >= batch->table->shared[slot]);
  note_grant(batch, slot, more);
  return true;
}

/* ---- pages of decodes ---- */

/* Blocks of outputs are found by others once they have filled: noticed when the next is granted. */
static void publish_filled(struct kc_batch *batch, uint32_t slot)
{
  if (batch->cache == NULL || batch->cache->kind != KC_CACHE_BLOCKS) return;
  kc_batch_publish(batch, slot,
                   (batch->table->extent[slot] - 1) * batch->config.page_size);
}

bool kc_batch_grant_decode(struct kc_batch *batch, uint32_t slot)
{
  KC_ASSERT(batch->slot[slot].state == KC_SLOT_DECODE);
  if (kc_batch_available(batch) == 0) return false;
  const bool grown = row_grow_one(batch, slot);
  KC_ASSERT(grown);
  note_grant(batch, slot, 1);
  batch->demand_pages += !batch->slot[slot].ghost;
  publish_filled(batch, slot);
  return true;
}

/* The loop of a step without prefix cache: nothing in it but the page. */
static void grant_all(struct kc_batch *batch, const struct kc_list *needy)
{
  struct kc_grant *grant = batch->grant + batch->step.grant_count;
  for (uint32_t slot = needy->head; slot != KC_SLOT_NONE; slot = batch->slot[slot].list_next) {
    const uint32_t extent = batch->table->extent[slot];
    const bool grown = kc_table_grow_one(batch->table, batch->pool, slot);
    KC_ASSERT(grown);
    *grant++ = (struct kc_grant){.slot = slot, .first = extent, .count = 1};
  }
  batch->step.grant_count += needy->count;
}

/* Ghosts of a bucket grow like the others, but nobody wants their page. O(ghosts). */
static uint32_t ghosts_in_need(const struct kc_batch *batch)
{
  uint32_t count = 0;
  if (batch->ghost_decodes == 0) return 0;
  for (uint32_t i = 0; i < batch->settle_count; i++) {
    const uint32_t slot = batch->settle[i];
    const struct kc_slot *s = &batch->slot[slot];
    if (!s->listed || !s->ghost || s->state != KC_SLOT_DECODE) continue;
    count += kc_batch_is_needy(batch, slot);
  }
  KC_ASSERT(count <= batch->ghost_decodes);
  return count;
}

uint32_t kc_batch_growth(const struct kc_batch *batch)
{
  const uint32_t needy = kc_batch_needy(batch)->count;
  const uint32_t ghosts = ghosts_in_need(batch);
  KC_ASSERT(ghosts <= needy);
  return needy - ghosts;
}

bool kc_batch_grant_needy(struct kc_batch *batch)
{
  const struct kc_list *needy = kc_batch_needy(batch);
  KC_ASSERT(batch->step.grant_count + needy->count <= 2 * batch->config.max_running);
  if (kc_batch_available(batch) < needy->count) return false;
  if (batch->cache == NULL) {
    grant_all(batch, needy);
    batch->demand_pages += needy->count - ghosts_in_need(batch);
    return true;
  }
  for (uint32_t slot = needy->head; slot != KC_SLOT_NONE; slot = batch->slot[slot].list_next) {
    const bool granted = kc_batch_grant_decode(batch, slot);
    KC_ASSERT(granted);
  }
  return true;
}
