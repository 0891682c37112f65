/* Faults on purpose (see inject.h).
 *
 *   damage[0..damage_count)   entries overwritten in rows that have not been released; a fault that
 *                             finds no room here is not made
 */
#include "engine/instance/instance_parts.h"

const char *kc_inject_kind_name(enum kc_inject_kind kind)
{
  KC_ASSERT(kind != 0 && (kind & (kind - 1)) == 0);
  switch (kind) {
    case KC_INJECT_LOST: return "lost";
    case KC_INJECT_REUSED: return "reused";
    case KC_INJECT_SWAPPED: return "swapped";
    case KC_INJECT_STALE: return "stale";
    case KC_INJECT_RANGE: return "range";
    case KC_INJECT_ALL: break;
  }
  KC_ASSERT(false);
  return "";
}

/* ---- set-up ---- */

static void restore_row(void *context, uint32_t slot);
static bool is_sound(void *context, uint32_t slot);

size_t kc_inject_need(const struct kc_inject_config *config)
{
  return config->kinds == 0
             ? 0
             : kc_arena_need(KC_INJECT_DAMAGES_MAX, sizeof(struct kc_inject_damage));
}

enum kc_err kc_inject_init(struct kc_instance *instance, struct kc_arena *arena)
{
  struct kc_injector *in = &instance->injector;
  in->config = instance->config.inject;
  if (in->config.kinds == 0) return KC_OK;
  KC_ASSERT(in->config.every_steps > 0);
  KC_ASSERT((in->config.kinds & ~(uint32_t)KC_INJECT_ALL) == 0);
  in->damage = kc_arena_take(arena, KC_INJECT_DAMAGES_MAX, sizeof *in->damage);
  if (in->damage == NULL) return KC_ERR_MEMORY;
  kc_random_init(&in->random, in->config.seed, "inject", 0);
  instance->batch.faulty = true;
  instance->batch.watch = (struct kc_fault_watch){
      .context = instance, .before_release = restore_row, .is_sound = is_sound};
  return KC_OK;
}

/* ---- damage to entries ---- */

static void restore_row(void *context, uint32_t slot)
{
  struct kc_instance *instance = context;
  struct kc_injector *in = &instance->injector;
  struct kc_page *row = kc_table_row(&instance->table, slot);
  uint32_t kept = 0;
  for (uint32_t i = in->damage_count; i-- > 0;) { /* latest first: an entry may be hit twice */
    const struct kc_inject_damage *d = &in->damage[i];
    if (d->slot == slot) row[d->index] = d->right;
  }
  for (uint32_t i = 0; i < in->damage_count; i++) {
    if (in->damage[i].slot != slot) in->damage[kept++] = in->damage[i];
  }
  KC_ASSERT(kept <= in->damage_count);
  in->damage_count = kept;
}

static void overwrite(struct kc_instance *instance, uint32_t slot, uint32_t index,
                      struct kc_page wrong)
{
  struct kc_injector *in = &instance->injector;
  struct kc_page *entry = kc_table_row(&instance->table, slot) + index;
  KC_ASSERT(index < instance->table.extent[slot]);
  KC_ASSERT(in->damage_count < KC_INJECT_DAMAGES_MAX);
  in->damage[in->damage_count++] =
      (struct kc_inject_damage){.slot = slot, .index = index, .right = *entry};
  *entry = wrong;
  /* The engine checks every entry at every step; here a row is checked when it is marked. */
  if (instance->config.integrity == KC_INTEGRITY_BATCHED) {
    kc_table_touch(&instance->table, slot);
  }
}

/* ---- where to strike ---- */

/* Shared pages of the row up to and including the last that `sharers_min` rows or more name
 * rightly; 0: it has none. */
static uint32_t shared_up_to(const struct kc_instance *instance, uint32_t slot,
                             uint32_t sharers_min)
{
  const struct kc_page *row = kc_table_row(&instance->table, slot);
  for (uint32_t count = instance->table.shared[slot]; count > 0; count--) {
    const struct kc_page page = row[count - 1];
    if (page.id >= instance->pool.page_count) continue; /* damaged before */
    const struct kc_page_record *record = &instance->pool.record[page.id];
    if (!kc_page_is_shared(record) || kc_tag_of(record->generation) != page.tag) continue;
    if (kc_page_link_of(record) >= sharers_min) return count;
  }
  return 0;
}

/* A running request that holds pages, among them one with `sharers_min` sharers or more, if that is
 * not 0; or KC_SLOT_NONE. */
static uint32_t draw_slot(struct kc_instance *instance, uint32_t sharers_min)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_table *table = &instance->table;
  uint32_t count = 0;
  for (uint32_t pass = 0; pass < 2; pass++) {
    uint64_t chosen = pass == 0 ? UINT64_MAX : kc_random_below(&instance->injector.random, count);
    for (uint32_t s = batch->running.head; s != KC_SLOT_NONE; s = batch->slot[s].run_next) {
      if (batch->slot[s].ghost || table->extent[s] == 0) continue;
      if (sharers_min > 0 && shared_up_to(instance, s, sharers_min) == 0) continue;
      if (pass == 0) count++;
      else if (chosen-- == 0) return s;
    }
    if (count == 0) break;
  }
  return KC_SLOT_NONE;
}

static uint32_t draw_index(struct kc_instance *instance, uint32_t slot)
{
  KC_ASSERT(instance->table.extent[slot] > 0);
  return (uint32_t)kc_random_below(&instance->injector.random, instance->table.extent[slot]);
}

/* A cached page in use is dropped; with `several`, one that several rows share. What is dropped is
 * the last shared page of a row, so the row is shown as if it ended there. */
static bool expel(struct kc_instance *instance, bool several)
{
  const uint32_t sharers_min = several ? 2 : 1;
  const uint32_t slot = draw_slot(instance, sharers_min);
  if (slot == KC_SLOT_NONE) return false;
  uint32_t *shared = &instance->table.shared[slot];
  const uint32_t all = *shared;
  *shared = shared_up_to(instance, slot, sharers_min);
  KC_ASSERT(*shared > 0 && *shared <= all);
  const bool expelled = kc_prefix_cache_expel(&instance->cache, slot);
  *shared = all;
  if (!expelled) return false; /* a tree keeps what others hang from */
  instance->injector.expelled = true;
  return true;
}

/* The key of page `index` of the request in `slot`. */
static uint32_t key_at(const struct kc_instance *instance, uint32_t slot, uint32_t index)
{
  const struct kc_content content =
      kc_batch_content(&instance->batch, instance->batch.slot[slot].request);
  struct kc_key_walk walk = kc_key_walk_begin(&content);
  kc_key_walk_skip(&walk, index);
  return kc_key_walk_next(&walk);
}

/* Two entries that name different pages change places. Two copies of the same content are no fault:
 * what the rows name is theirs to read either way. */
static bool swap_entries(struct kc_instance *instance)
{
  const uint32_t a = draw_slot(instance, 0);
  const uint32_t b = a == KC_SLOT_NONE ? KC_SLOT_NONE : draw_slot(instance, 0);
  if (b == KC_SLOT_NONE) return false;
  const uint32_t index_a = draw_index(instance, a), index_b = draw_index(instance, b);
  const struct kc_page page_a = kc_table_row(&instance->table, a)[index_a];
  const struct kc_page page_b = kc_table_row(&instance->table, b)[index_b];
  if (page_a.id == page_b.id && page_a.tag == page_b.tag) return false;
  const uint32_t key_a = key_at(instance, a, index_a), key_b = key_at(instance, b, index_b);
  const bool shared = index_a < instance->table.shared[a] && index_b < instance->table.shared[b];
  if (shared && key_a == key_b) return false;
  overwrite(instance, a, index_a, page_b);
  overwrite(instance, b, index_b, page_a);
  return true;
}

/* The entry names some page as it was an odd number of moves ago: freed since, and handed on. */
static bool make_stale(struct kc_instance *instance)
{
  const uint32_t slot = draw_slot(instance, 0);
  if (slot == KC_SLOT_NONE) return false;
  const uint32_t id =
      (uint32_t)kc_random_below(&instance->injector.random, instance->pool.page_count);
  const uint64_t generation = instance->pool.record[id].generation;
  if (generation < 4) return false;
  const struct kc_page wrong = {.id = id, .tag = kc_tag_of(generation - 2)};
  overwrite(instance, slot, draw_index(instance, slot), wrong);
  return true;
}

static bool leave_range(struct kc_instance *instance)
{
  const uint32_t slot = draw_slot(instance, 0);
  if (slot == KC_SLOT_NONE) return false;
  const uint64_t beyond = UINT32_MAX - instance->pool.page_count;
  const uint32_t index = draw_index(instance, slot);
  struct kc_page wrong = kc_table_row(&instance->table, slot)[index];
  wrong.id = instance->pool.page_count +
             (uint32_t)kc_random_below(&instance->injector.random, beyond);
  overwrite(instance, slot, index, wrong);
  return true;
}

static bool strike(struct kc_instance *instance, enum kc_inject_kind kind)
{
  switch (kind) {
    case KC_INJECT_LOST: return expel(instance, true);
    case KC_INJECT_REUSED: return expel(instance, false);
    case KC_INJECT_SWAPPED: return swap_entries(instance);
    case KC_INJECT_STALE: return make_stale(instance);
    case KC_INJECT_RANGE: return leave_range(instance);
    case KC_INJECT_ALL: break;
  }
  KC_ASSERT(false);
  return false;
}

void kc_inject_before_step(struct kc_instance *instance)
{
  struct kc_injector *in = &instance->injector;
  if (in->config.kinds == 0) return;
  if (instance->batch.step.index % in->config.every_steps != 0) return;
  if (in->damage_count + 2 > KC_INJECT_DAMAGES_MAX) return;
  uint32_t bit = (uint32_t)kc_random_below(&in->random, KC_INJECT_KINDS);
  while ((in->config.kinds >> bit & 1) == 0) bit = (bit + 1) % KC_INJECT_KINDS;
  in->injected[bit] += strike(instance, (enum kc_inject_kind)(1u << bit));
}

/* ---- ground truth ---- */

static uint32_t cached_key(const struct kc_prefix_cache *cache, uint32_t page)
{
  if (cache->kind == KC_CACHE_BLOCKS) return cache->block[page].key;
  return cache->kind == KC_CACHE_RADIX ? cache->page[page].key : KC_KEY_NONE;
}

/* Does entry `index` of the row name the page that holds the request's tokens there? */
static bool is_right(const struct kc_instance *instance, uint32_t slot, uint32_t index,
                     uint32_t key)
{
  const struct kc_page entry = kc_table_row(&instance->table, slot)[index];
  if (entry.id >= instance->pool.page_count) return false;
  const struct kc_page_record *record = &instance->pool.record[entry.id];
  if (kc_page_state_of(record) != KC_PAGE_LIVE) return false;
  if (kc_tag_of(record->generation) != entry.tag) return false;
  if (index < instance->table.shared[slot]) {
    return kc_page_is_shared(record) && cached_key(&instance->cache, entry.id) == key;
  }
  return kc_page_owner_of(record) == kc_table_owner(slot) && kc_page_link_of(record) == index;
}

static bool row_is_right(const struct kc_instance *instance, uint32_t slot)
{
  const struct kc_content content =
      kc_batch_content(&instance->batch, instance->batch.slot[slot].request);
  struct kc_key_walk walk = kc_key_walk_begin(&content);
  KC_ASSERT(instance->batch.slot[slot].state != KC_SLOT_FREE);
  for (uint32_t i = 0; i < instance->table.extent[slot]; i++) {
    if (!is_right(instance, slot, i, kc_key_walk_next(&walk))) return false;
  }
  return true;
}

static bool is_sound(void *context, uint32_t slot)
{
  const struct kc_instance *instance = context;
  const struct kc_injector *in = &instance->injector;
  if (in->damage_count == 0 && !in->expelled) return true;
  return row_is_right(instance, slot);
}

void kc_inject_note_abort(struct kc_instance *instance, uint32_t slot)
{
  struct kc_injector *in = &instance->injector;
  if (in->config.kinds == 0 || instance->batch.slot[slot].ghost) return;
  if (row_is_right(instance, slot)) {
    in->mistaken++;
  } else if (!instance->batch.slot[slot].contaminated) {
    in->victims++;
    in->aborted_soundly++;
  }
}

static void taint(struct kc_instance *instance, uint32_t slot)
{
  struct kc_slot *s = &instance->batch.slot[slot];
  if (s->ghost || s->contaminated || row_is_right(instance, slot)) return;
  s->contaminated = true;
  instance->injector.contaminated++;
  instance->injector.victims++;
}

void kc_inject_before_run(struct kc_instance *instance)
{
  const struct kc_batch *batch = &instance->batch;
  const struct kc_injector *in = &instance->injector;
  if (in->damage_count == 0 && !in->expelled) return;
  for (uint32_t i = 0; i < batch->step.chunk_count; i++) taint(instance, batch->chunk[i].slot);
  if (!batch->step.decoding) return;
  for (uint32_t s = batch->running.head; s != KC_SLOT_NONE; s = batch->slot[s].run_next) {
    if (batch->slot[s].state == KC_SLOT_DECODE && !batch->slot[s].paused) taint(instance, s);
  }
}

void kc_inject_mend(struct kc_instance *instance)
{
  struct kc_injector *in = &instance->injector;
  if (!in->expelled || instance->config.integrity == KC_INTEGRITY_OFF) return;
  KC_ASSERT(in->config.kinds != 0);
  kc_prefix_cache_mend(&instance->cache);
  in->expelled = false;
}

void kc_inject_finish(struct kc_instance *instance)
{
  const struct kc_injector *in = &instance->injector;
  if (in->config.kinds == 0) return;
  KC_ASSERT(in->damage_count == 0); /* every row was released */
  KC_ASSERT(instance->table.in_use == 0);
  kc_prefix_cache_mend(&instance->cache);
}
