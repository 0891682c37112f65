/* The predicted executor (see predicted.h).
 *
 *   finish    heap of slots by the ticks (steps with decoding) that have passed when their last
 *   token
 *             is there; a slot enters it when its decoding is certain: it joined with its KV in
 *             place, or its last chunk runs
 *   remaining tokens still to come, from join until then
 *   dense     what a step of n decodes and no prefill costs apart from contexts; most steps look
 *             it up, because the batch has not changed
 */
#include "sim/cost/predicted.h"

size_t kc_predicted_need(uint32_t slots)
{
  KC_ASSERT(slots > 0);
  KC_ASSERT(slots <= 65536);
  return kc_heap_need(slots) + kc_arena_need(slots, sizeof(uint32_t)) * 3 +
         kc_arena_need(slots, sizeof(uint64_t)) +
         kc_arena_need((size_t)slots + 1, sizeof(kc_u128));
}

enum kc_err kc_predicted_init(struct kc_predicted *predicted, const struct kc_cost *cost,
                              const struct kc_request *requests, uint64_t max_model_len,
                              uint32_t slots, struct kc_arena *arena)
{
  KC_ASSERT(cost->op_count > 0 || cost->tables != NULL);
  KC_ASSERT(max_model_len >= 2);
  *predicted = (struct kc_predicted){
      .cost = cost, .requests = requests, .max_model_len = max_model_len, .slots = slots};
  KC_TRY(kc_heap_init(&predicted->finish, slots, arena));
  predicted->remaining = kc_arena_take(arena, slots, sizeof *predicted->remaining);
  predicted->cached = kc_arena_take(arena, slots, sizeof *predicted->cached);
  predicted->finished = kc_arena_take(arena, slots, sizeof *predicted->finished);
  predicted->order = kc_arena_take(arena, slots, sizeof *predicted->order);
  predicted->dense = kc_arena_take(arena, (size_t)slots + 1, sizeof *predicted->dense);
  const bool taken = predicted->remaining != NULL && predicted->cached != NULL &&
                     predicted->finished != NULL && predicted->order != NULL &&
                     predicted->dense != NULL;
  return taken ? KC_OK : KC_ERR_MEMORY;
}

/* Ticks that have passed when the step is over. */
static uint64_t ticks_after(const struct kc_step *step)
{
  KC_ASSERT(step->tick <= step->index);
  return step->tick + step->decoding;
}

/* The slot yields a token in `step`, decoding or not, and in each tick after, until `remaining`
 * have come. */
static void schedule_finish(struct kc_predicted *p, uint32_t slot, const struct kc_step *step)
{
  KC_ASSERT(p->remaining[slot] > 0);
  KC_ASSERT(!kc_heap_has(&p->finish, slot));
  kc_heap_push(&p->finish, (int64_t)(ticks_after(step) + p->remaining[slot] - 1), slot);
}

/* It makes no token in this tick, so everything to come comes one tick later. */
static void postpone(struct kc_predicted *p, uint32_t slot)
{
  KC_ASSERT(kc_heap_has(&p->finish, slot));
  const int64_t key = p->finish.entry[p->finish.position[slot]].key;
  KC_ASSERT(key < INT64_MAX);
  kc_heap_remove(&p->finish, slot);
  kc_heap_push(&p->finish, key + 1, slot);
}

static void apply_delta(struct kc_predicted *p, const struct kc_step *step)
{
  for (uint32_t i = 0; i < step->leave_count; i++) {
    if (kc_heap_has(&p->finish, step->leave[i])) kc_heap_remove(&p->finish, step->leave[i]);
  }
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    const uint32_t output = kc_request_output(&p->requests[join->request], p->max_model_len);
    KC_ASSERT(join->slot < p->slots);
    KC_ASSERT(join->outputs < output);
    p->remaining[join->slot] = output - join->outputs;
    p->cached[join->slot] = join->cached;
    p->order[join->slot] = p->next_order++;
    if (join->kv_in_place) schedule_finish(p, join->slot, step);
  }
  p->cached_pairs = p->cached_context = 0;
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    const struct kc_chunk *chunk = &step->chunk[i];
    KC_ASSERT(p->cached[chunk->slot] <= chunk->start);
    p->cached_pairs += (uint64_t)p->cached[chunk->slot] * chunk->count;
    p->cached_context += p->cached[chunk->slot];
    if (chunk->last) schedule_finish(p, chunk->slot, step);
  }
  for (uint32_t i = 0; i < step->pause_count; i++) postpone(p, step->pause[i]);
}

/* Shell sort by join order: small, in place, and no worse on a wave of thousands. */
static void sort_by_order(uint32_t *slots, uint32_t count, const uint64_t *order)
{
  for (uint32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (uint32_t i = gap; i < count; i++) {
      const uint32_t slot = slots[i];
      uint32_t j = i;
      for (; j >= gap && order[slots[j - gap]] > order[slot]; j -= gap) slots[j] = slots[j - gap];
      slots[j] = slot;
    }
  }
}

/* Those who gave up: what is left of their tokens nobody waits for. */
static void forget_ghosts(struct kc_predicted *p, const struct kc_step *step)
{
  for (uint32_t i = 0; i < step->ghost_count; i++) {
    const uint32_t slot = step->ghost[i].slot;
    KC_ASSERT(slot < p->slots);
    if (kc_heap_has(&p->finish, slot)) kc_heap_remove(&p->finish, slot);
  }
}

static uint32_t collect_finished(struct kc_predicted *p, uint64_t ticks)
{
  uint32_t count = 0;
  while (kc_heap_top_key(&p->finish) == (int64_t)ticks) {
    const uint32_t slot = p->finish.entry[0].item;
    kc_heap_remove(&p->finish, slot);
    p->finished[count++] = slot;
  }
  KC_ASSERT(kc_heap_top_key(&p->finish) > (int64_t)ticks);
  if (count > 1) sort_by_order(p->finished, count, p->order);
  return count;
}

/* Of a step without chunks. */
static inline kc_ps decode_duration(struct kc_predicted *p, const struct kc_aggregates *sum,
                                    kc_ps *host_ps)
{
  KC_ASSERT(sum->decodes > 0 && sum->decodes <= p->slots);
  KC_ASSERT(sum->chunks == 0);
  kc_u128 dense = p->dense[sum->decodes];
  if (dense == 0) {
    dense = kc_cost_dense(p->cost, sum->decodes, sum->decodes);
    p->dense[sum->decodes] = dense;
  }
  return kc_cost_finish(p->cost, sum, dense, host_ps);
}

/* The decodes of the step alone. */
static kc_ps without_chunks(struct kc_predicted *p, const struct kc_aggregates *sum)
{
  struct kc_aggregates alone = {.decodes = sum->decodes,
                                .logits = sum->decodes,
                                .decode_context = sum->decode_context,
                                .decode_context_max = sum->decode_context_max,
                                .table_entries = sum->table_entries};
  kc_ps host_ps;
  KC_ASSERT(sum->chunks > 0);
  if (sum->decodes == 0) return 0;
  for (int i = 0; i < KC_CAPS_MAX; i++) alone.decode_capped[i] = sum->decode_capped[i];
  return decode_duration(p, &alone, &host_ps);
}

/* Who caused the time of a step with chunks. */
static void split(struct kc_predicted *p, const struct kc_aggregates *sum, kc_ps duration_ps)
{
  const kc_ps decode_ps = without_chunks(p, sum);
  kc_ps rest_ps = decode_ps < duration_ps ? duration_ps - decode_ps : 0;
  if (p->cached_pairs > 0) {
    struct kc_aggregates unread = *sum;
    KC_ASSERT(sum->prefill_pairs > p->cached_pairs && sum->prefill_context > p->cached_context);
    unread.prefill_pairs -= p->cached_pairs;
    unread.prefill_context -= p->cached_context;
    const kc_ps unread_ps = kc_cost_step(p->cost, &unread);
    kc_ps cached_ps = unread_ps < duration_ps ? duration_ps - unread_ps : 0;
    if (cached_ps > rest_ps) cached_ps = rest_ps;
    p->cached_ps = kc_ps_add(p->cached_ps, cached_ps);
    rest_ps -= cached_ps;
  }
  p->prefill_ps = kc_ps_add(p->prefill_ps, rest_ps);
  KC_ASSERT(rest_ps >= 0);
}

static kc_ps duration(struct kc_predicted *p, const struct kc_step *step, kc_ps *host_ps)
{
  if (step->sum.chunks == 0) return decode_duration(p, &step->sum, host_ps);
  const kc_ps duration_ps = kc_cost_step_parts(p->cost, &step->sum, host_ps);
  split(p, &step->sum, duration_ps);
  return duration_ps;
}

static void note_trust(struct kc_predicted *p, const struct kc_step *step, kc_ps duration_ps)
{
  struct kc_cost_trust *trust = &p->trust;
  KC_ASSERT(duration_ps > 0);
  kc_cost_range_add(&p->seen, &step->sum);
  trust->steps++;
  trust->time_ps = kc_ps_add(trust->time_ps, duration_ps);
  if (p->cost->basis == KC_BASIS_DATASHEET) return; /* nothing was fitted anywhere */
  if (!kc_cost_outside(p->cost, &step->sum, &trust->outside)) return;
  trust->steps_outside++;
  trust->outside_ps = kc_ps_add(trust->outside_ps, duration_ps);
}

struct kc_cost_trust kc_predicted_trust(const struct kc_predicted *predicted)
{
  struct kc_cost_trust trust = predicted->trust;
  KC_ASSERT(trust.steps_outside <= trust.steps);
  trust.basis = predicted->cost->basis;
  trust.level = trust.basis == KC_BASIS_DATASHEET ? KC_LEVEL_DATASHEET
              : trust.steps_outside > 0 ? KC_LEVEL_EXTRAPOLATED : KC_LEVEL_CALIBRATED;
  return trust;
}

struct kc_cost_split kc_predicted_split(const struct kc_predicted *predicted)
{
  const kc_ps prompts_ps = kc_ps_add(predicted->prefill_ps, predicted->cached_ps);
  KC_ASSERT(prompts_ps <= predicted->trust.time_ps);
  return (struct kc_cost_split){.prefill_ps = predicted->prefill_ps,
                                .cached_ps = predicted->cached_ps,
                                .decode_ps = predicted->trust.time_ps - prompts_ps};
}

static enum kc_err run(void *context, const struct kc_step *step, struct kc_step_result *result,
                       struct kc_diag *diag)
{
  struct kc_predicted *p = context;
  (void)diag;
  KC_ASSERT(step->sum.decodes + step->sum.chunks > 0);
  if (step->composition_changed) apply_delta(p, step);
  if (step->ghost_count > 0) forget_ghosts(p, step);
  *result = (struct kc_step_result){0};
  result->duration_ps = duration(p, step, &result->host_ps);
  note_trust(p, step, result->duration_ps);
  result->finish_count = collect_finished(p, ticks_after(step));
  result->finish = p->finished;
  return KC_OK;
}

struct kc_executor kc_predicted_executor(struct kc_predicted *predicted)
{
  KC_ASSERT(predicted->slots > 0);
  KC_ASSERT(predicted->dense != NULL);
  return (struct kc_executor){.context = predicted, .name = "predicted", .run = run};
}
