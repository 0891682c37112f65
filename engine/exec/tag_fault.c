/* Faults in the real path: see tag_fault.h. */
#include "engine/exec/tag_fault.h"

#include <string.h>

#include "engine/base/check.h"

const char *kc_tag_fault_name(enum kc_tag_fault fault)
{
  static const char *const names[KC_TAG_FAULTS] = {"stale", "reused", "swapped", "range", "late"};
  KC_ASSERT((unsigned)fault < KC_TAG_FAULTS);
  return names[fault];
}

/* ---- set-up ---- */

size_t kc_tag_faults_need(const struct kc_tag_faults_config *config)
{
  KC_ASSERT(config->slots > 0);
  return kc_arena_need(config->slots, sizeof(uint32_t)) +
         kc_arena_need(config->slots, sizeof(bool)) +
         kc_arena_need((size_t)config->requests + 1, sizeof(bool));
}

enum kc_err kc_tag_faults_init(struct kc_tag_faults *faults,
                               const struct kc_tag_faults_config *config, struct kc_arena *arena)
{
  KC_ASSERT(config->every_steps > 0);
  KC_ASSERT(config->kinds < 1u << KC_TAG_FAULTS);
  *faults = (struct kc_tag_faults){.config = *config};
  kc_random_init(&faults->random, config->seed, "tag faults", 0);
  faults->work = kc_arena_take(arena, config->slots, sizeof *faults->work);
  faults->must = kc_arena_take(arena, config->slots, sizeof *faults->must);
  faults->hit = kc_arena_take(arena, (size_t)config->requests + 1, sizeof *faults->hit);
  return faults->hit == NULL ? KC_ERR_MEMORY : KC_OK;
}

static struct kc_page_ref *entry_of(struct kc_exec *exec, uint32_t slot, uint32_t index)
{
  KC_ASSERT(slot < exec->slots);
  KC_ASSERT(index < exec->extent[slot]);
  return exec->host.entry + (size_t)slot * exec->row_entries + index;
}

/* ---- the oracle ---- */

/* The executor's entry is the instance's, and the pool's record says that it is this row's. */
static bool is_sound(struct kc_exec *exec, const struct kc_step *step, uint32_t slot,
                     uint32_t index)
{
  const struct kc_page_ref *entry = entry_of(exec, slot, index);
  const struct kc_page *own = kc_table_row(step->table, slot) + index;
  if (entry->page != own->id || entry->tag != own->tag) return false;
  if (own->id >= step->pool->page_count) return false;
  const struct kc_page_record *record = &step->pool->record[own->id];
  if (kc_page_state_of(record) != KC_PAGE_LIVE) return false;
  if (kc_tag_of(record->generation) != own->tag) return false;
  if (index < step->table->shared[slot]) return kc_page_is_shared(record);
  return kc_page_owner_of(record) == kc_table_owner(slot) && kc_page_link_of(record) == index;
}

/* Notes the slots of this step and that their rows are sound: what is wrong later, we did. */
static void look_at_work(struct kc_tag_faults *f, struct kc_exec *exec,
                         const struct kc_step *step)
{
  f->damages = 0;
  f->work_count = exec->work_count;
  for (uint32_t i = 0; i < exec->work_count; i++) {
    const uint32_t slot = exec->work[i].piece.slot;
    f->work[i] = slot;
    f->must[slot] = false;
    for (uint32_t e = 0; e < exec->extent[slot]; e++) {
      KC_ASSERT(is_sound(exec, step, slot, e));
    }
    f->entries += exec->extent[slot];
  }
  f->steps++;
}

/* Marks who must be found: rows with a damaged entry, and rows that name `moved`. */
static void mark_victims(struct kc_tag_faults *f, struct kc_exec *exec, uint32_t moved)
{
  for (uint32_t d = 0; d < f->damages; d++) {
    const struct kc_page_ref *now = entry_of(exec, f->damage[d].slot, f->damage[d].index);
    const struct kc_page_ref *right = &f->damage[d].right;
    if (now->page != right->page || now->tag != right->tag) f->must[f->damage[d].slot] = true;
  }
  for (uint32_t i = 0; i < f->work_count; i++) {
    const uint32_t slot = f->work[i];
    for (uint32_t e = 0; e < exec->extent[slot]; e++) {
      if (entry_of(exec, slot, e)->page == moved) f->must[slot] = true;
    }
  }
  KC_ASSERT(f->damages <= 2);
}

/* ---- faults ---- */

static void overwrite(struct kc_tag_faults *f, struct kc_exec *exec, uint32_t slot,
                      uint32_t index, struct kc_page_ref wrong)
{
  struct kc_page_ref *entry = entry_of(exec, slot, index);
  KC_ASSERT(f->damages < 2);
  f->damage[f->damages].slot = slot;
  f->damage[f->damages].index = index;
  f->damage[f->damages++].right = *entry;
  *entry = wrong;
}

static uint32_t draw_slot(struct kc_tag_faults *f)
{
  KC_ASSERT(f->work_count > 0);
  return f->work[kc_random_below(&f->random, f->work_count)];
}

static uint32_t draw_index(struct kc_tag_faults *f, const struct kc_exec *exec, uint32_t slot)
{
  KC_ASSERT(exec->extent[slot] > 0);
  return (uint32_t)kc_random_below(&f->random, exec->extent[slot]);
}

/* The page has been freed and handed on: two generations later. */
static void move_on(struct kc_exec *exec, uint32_t page)
{
  KC_ASSERT(page < exec->config.pages);
  exec->host.tag[page] = kc_tag_next(kc_tag_next(exec->host.tag[page]));
}

static bool make_stale(struct kc_tag_faults *f, struct kc_exec *exec, const struct kc_step *step)
{
  const uint32_t page = (uint32_t)kc_random_below(&f->random, exec->config.pages);
  const uint64_t generation = step->pool->record[page].generation;
  const uint32_t slot = draw_slot(f);
  if (generation < 4) return false;
  overwrite(f, exec, slot, draw_index(f, exec, slot),
            (struct kc_page_ref){page, kc_tag_of(generation - 2)});
  return true;
}

/* Entries that rows share are as right in one row as in the other; only a row's own are swapped. */
static bool swap_entries(struct kc_tag_faults *f, struct kc_exec *exec,
                         const struct kc_step *step)
{
  const uint32_t a = draw_slot(f), b = draw_slot(f);
  const uint32_t index_a = draw_index(f, exec, a), index_b = draw_index(f, exec, b);
  const bool shared = index_a < step->table->shared[a] || index_b < step->table->shared[b];
  if (shared || (a == b && index_a == index_b)) return false;
  const struct kc_page_ref one = *entry_of(exec, a, index_a), other = *entry_of(exec, b, index_b);
  overwrite(f, exec, a, index_a, other);
  overwrite(f, exec, b, index_b, one);
  return true;
}

static bool leave_range(struct kc_tag_faults *f, struct kc_exec *exec)
{
  const uint32_t slot = draw_slot(f), index = draw_index(f, exec, slot);
  const uint64_t beyond = UINT32_MAX - exec->config.pages;
  const uint32_t page = exec->config.pages + (uint32_t)kc_random_below(&f->random, beyond);
  overwrite(f, exec, slot, index, (struct kc_page_ref){page, entry_of(exec, slot, index)->tag});
  return true;
}

/* A decode's page, which nobody else names: a prompt's would be awaited by those who share it. */
static bool move_on_late(struct kc_tag_faults *f, struct kc_exec *exec,
                         const struct kc_step *step)
{
  if (exec->work_count == 0) return false;
  const struct kc_piece *piece =
      &exec->work[kc_random_below(&f->random, exec->work_count)].piece;
  const uint32_t index = piece->start / exec->config.page_tokens;
  if (!exec->slot[piece->slot].decoding || piece->count != 1) return false;
  if (index < step->table->shared[piece->slot]) return false;
  const uint32_t page = entry_of(exec, piece->slot, index)->page;
  move_on(exec, page);
  f->must[piece->slot] = true;
  return true;
}

/* Is it this step's turn, and of which kind? */
static bool draw_kind(struct kc_tag_faults *f, const struct kc_step *step, uint32_t *kind)
{
  if (f->config.kinds == 0 || step->index % f->config.every_steps != 0) return false;
  struct kc_random random; /* both hooks of a step draw the same */
  kc_random_init(&random, f->config.seed, "tag fault kinds", step->index);
  *kind = (uint32_t)kc_random_below(&random, KC_TAG_FAULTS);
  while ((f->config.kinds >> *kind & 1) == 0) *kind = (*kind + 1) % KC_TAG_FAULTS;
  KC_ASSERT(*kind < KC_TAG_FAULTS);
  return true;
}

static void before_check(void *context, struct kc_exec *exec, const struct kc_step *step)
{
  struct kc_tag_faults *f = context;
  uint32_t kind, moved = UINT32_MAX;
  bool done = false;
  KC_ASSERT(exec->slots == f->config.slots);
  look_at_work(f, exec, step);
  if (f->work_count == 0 || !draw_kind(f, step, &kind)) return;
  switch ((enum kc_tag_fault)kind) {
    case KC_TAG_FAULT_STALE: done = make_stale(f, exec, step); break;
    case KC_TAG_FAULT_SWAPPED: done = swap_entries(f, exec, step); break;
    case KC_TAG_FAULT_RANGE: done = leave_range(f, exec); break;
    case KC_TAG_FAULT_REUSED: {
      const uint32_t slot = draw_slot(f);
      moved = entry_of(exec, slot, draw_index(f, exec, slot))->page;
      move_on(exec, moved);
      done = true;
      break;
    }
    case KC_TAG_FAULT_LATE:
    default: return;
  }
  f->injected[kind] += done;
  if (done) mark_victims(f, exec, moved);
}

static void before_pass(void *context, struct kc_exec *exec, const struct kc_step *step)
{
  struct kc_tag_faults *f = context;
  uint32_t kind;
  KC_ASSERT(exec->work_count <= f->work_count);
  if (!draw_kind(f, step, &kind) || kind != KC_TAG_FAULT_LATE) return;
  f->injected[kind] += move_on_late(f, exec, step);
}

/* ---- the judgement ---- */

static void after_step(void *context, struct kc_exec *exec, const struct kc_step *step)
{
  struct kc_tag_faults *f = context;
  (void)step;
  for (uint32_t i = 0; i < f->work_count; i++) {
    const uint32_t slot = f->work[i];
    const bool found = exec->host.verdict[slot] != KC_VERDICT_CLEAR;
    f->victims += f->must[slot];
    f->aborted += f->must[slot] && found;
    f->missed += f->must[slot] && !found;
    f->mistaken += !f->must[slot] && found;
    KC_ASSERT(exec->slot[slot].request < f->config.requests);
    if (f->must[slot]) f->hit[exec->slot[slot].request] = true;
  }
  while (f->damages > 0) { /* the latest first: both may be of one entry */
    f->damages--;
    *entry_of(exec, f->damage[f->damages].slot, f->damage[f->damages].index) =
        f->damage[f->damages].right;
  }
}

struct kc_exec_probe kc_tag_faults_probe(struct kc_tag_faults *faults)
{
  KC_ASSERT(faults->work != NULL);
  return (struct kc_exec_probe){.context = faults, .before_check = before_check,
                                .before_pass = before_pass, .after_step = after_step};
}
