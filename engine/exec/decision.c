/* Writing decisions as text: one buffer on the stack, one line at a time. The tap follows the
 * extents of rows by itself, to leave out grants that were taken back before anything ran. */
#include "engine/exec/decision.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/kv/table.h"

enum { LINE_BYTES = 128 };

size_t kc_decision_need(uint32_t slots)
{
  return 2 * kc_arena_need(slots, sizeof(uint32_t));
}

enum kc_err kc_decision_init(struct kc_decision_tap *tap, uint32_t slots, struct kc_arena *arena)
{
  KC_ASSERT(slots > 0);
  tap->slots = slots;
  tap->extent = kc_arena_take(arena, slots, sizeof *tap->extent);
  tap->shared = kc_arena_take(arena, slots, sizeof *tap->shared);
  if (tap->extent == NULL || tap->shared == NULL) return KC_ERR_MEMORY;
  memset(tap->extent, 0xFF, slots * sizeof *tap->extent);
  return KC_OK;
}

static void line(const struct kc_decision_tap *tap, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void line(const struct kc_decision_tap *tap, const char *format, ...)
{
  char text[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  KC_ASSERT(length > 0 && (size_t)length < sizeof text);
  tap->write(tap->write_context, text, (size_t)length);
}

static struct kc_decision_pair pair_at(const struct kc_decision_tap *tap,
                                       const struct kc_table *table, uint32_t slot,
                                       uint32_t index)
{
  KC_ASSERT(tap->row != NULL || table != NULL);
  if (tap->row != NULL) return tap->row(tap->row_context, slot, index);
  const struct kc_page page = kc_table_row(table, slot)[index];
  return (struct kc_decision_pair){page.id, page.tag};
}

static void write_pairs(const struct kc_decision_tap *tap, const struct kc_table *table,
                        uint32_t slot, uint32_t from, uint32_t to)
{
  KC_ASSERT(slot < tap->slots && from <= to);
  for (uint32_t i = from; i < to; i++) {
    const struct kc_decision_pair pair = pair_at(tap, table, slot, i);
    line(tap, " %u:%u", pair.id, pair.tag);
  }
  line(tap, "\n");
}

/* By slot: the tap knows no other order. O(slots). */
static void write_shared(const struct kc_decision_tap *tap, const struct kc_table *table)
{
  KC_ASSERT(table->slots == tap->slots);
  for (uint32_t slot = 0; slot < tap->slots; slot++) {
    const uint32_t shared = table->shared[slot], known = tap->shared[slot];
    if (tap->extent[slot] == UINT32_MAX || shared <= known) continue;
    line(tap, "P %u %u", slot, known);
    write_pairs(tap, table, slot, known, shared);
    tap->shared[slot] = shared;
  }
}

static void write_grant(const struct kc_decision_tap *tap, const struct kc_table *table,
                        const struct kc_grant *grant)
{
  KC_ASSERT(grant->slot < tap->slots);
  if (tap->extent[grant->slot] != grant->first) return;
  tap->extent[grant->slot] += grant->count;
  line(tap, "G %u %u", grant->slot, grant->first);
  write_pairs(tap, table, grant->slot, grant->first, grant->first + grant->count);
}

static void write_delta(const struct kc_decision_tap *tap, const struct kc_step *step)
{
  for (uint32_t i = 0; i < step->leave_count; i++) {
    KC_ASSERT(step->leave[i] < tap->slots);
    line(tap, "L %u\n", step->leave[i]);
    tap->extent[step->leave[i]] = UINT32_MAX;
  }
  for (uint32_t i = 0; i < step->join_count; i++) {
    const struct kc_join *join = &step->join[i];
    KC_ASSERT(join->slot < tap->slots);
    line(tap, "J %u %u %u %u %u %d\n", join->slot, join->request, join->known, join->outputs,
         join->cached, (int)join->kv_in_place);
    tap->extent[join->slot] = 0;
    tap->shared[join->slot] = 0;
  }
  for (uint32_t i = 0; i < step->grant_count; i++) write_grant(tap, step->table, &step->grant[i]);
  if (step->table != NULL) write_shared(tap, step->table);
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    const struct kc_chunk *chunk = &step->chunk[i];
    line(tap, "C %u %u %u %d\n", chunk->slot, chunk->start, chunk->count, (int)chunk->last);
  }
  for (uint32_t i = 0; i < step->pause_count; i++) line(tap, "W %u\n", step->pause[i]);
  for (uint32_t i = 0; i < step->ghost_count; i++) {
    line(tap, "E %u %d\n", step->ghost[i].slot, (int)step->ghost[i].decodes);
  }
}

static enum kc_err run(void *context, const struct kc_step *step, struct kc_step_result *result,
                       struct kc_diag *diag)
{
  struct kc_decision_tap *tap = context;
  KC_ASSERT(tap->write != NULL);
  KC_TRY(tap->inner.run(tap->inner.context, step, result, diag));
  line(tap, "S %llu %lld %lld %d\n", (unsigned long long)step->index, (long long)step->start_ps,
       (long long)result->duration_ps, (int)step->decoding);
  write_delta(tap, step);
  for (uint32_t i = 0; i < result->finish_count; i++) line(tap, "F %u\n", result->finish[i]);
  for (uint32_t i = 0; i < result->violation_count; i++) {
    const struct kc_violation *bad = &result->violation[i];
    line(tap, "V %u %u %d\n", bad->slot, bad->page, (int)bad->code);
  }
  return KC_OK;
}

struct kc_executor kc_decision_executor(struct kc_decision_tap *tap)
{
  KC_ASSERT(tap->inner.run != NULL);
  KC_ASSERT(tap->extent != NULL);
  return (struct kc_executor){.context = tap, .name = tap->inner.name, .run = run};
}
