/* See executor_tables.h.
 *
 *   host   arena, or pinned memory  --sends of what changed-->  on   the same arena, or the device
 *                                   <-verdicts, counters, events--
 */
#include "engine/exec/executor_tables.h"

#include <string.h>

#include "engine/base/check.h"

/* ---- memory ---- */

size_t kc_exec_lay_out(const struct kc_exec_array *array, size_t count, struct kc_arena *arena,
                       bool *failed)
{
  size_t bytes = 0;
  KC_ASSERT(count > 0);
  for (size_t i = 0; i < count; i++) {
    const size_t need = kc_arena_need(array[i].count, array[i].size);
    if (__builtin_add_overflow(bytes, need, &bytes)) return SIZE_MAX;
    if (arena == NULL) continue;
    void *memory = kc_arena_take(arena, array[i].count, array[i].size);
    memcpy(array[i].to, &memory, sizeof memory);
    *failed = *failed || memory == NULL;
  }
  return bytes;
}

size_t kc_exec_lay_out_tables(const struct kc_exec *exec, struct kc_exec_tables *t,
                              struct kc_arena *arena, bool *failed)
{
  const size_t slots = exec->slots;
  KC_ASSERT(slots > 0);
  const struct kc_exec_array arrays[] = {
      {&t->entry, slots * exec->row_entries, sizeof *t->entry},
      {&t->tag, exec->config.pages, sizeof *t->tag},
      {&t->place, exec->config.pages, sizeof *t->place},
      {&t->verdict, slots, sizeof *t->verdict},
      {&t->counter, KC_TAG_COUNTERS, sizeof *t->counter},
      {&t->ring, KC_FORWARD_RING, sizeof *t->ring},
      {&t->check_slot, slots, sizeof *t->check_slot},
      {&t->check_entries, slots, sizeof *t->check_entries},
  };
  return kc_exec_lay_out(arrays, sizeof arrays / sizeof arrays[0], arena, failed);
}

enum kc_err kc_exec_take_tables(struct kc_exec *exec, struct kc_arena *arena, struct kc_diag *diag)
{
  bool failed = false;
  const struct kc_site *site = &exec->site;
  const size_t bytes = kc_exec_lay_out_tables(exec, &exec->host, NULL, &failed);
  const bool host = kc_site_is_host(site);
  if (!host) {
    KC_TRY(kc_site_pinned(site, &exec->pinned, bytes, diag));
    KC_TRY(kc_site_arena(site, &exec->device, bytes, diag));
    (void)kc_exec_lay_out_tables(exec, &exec->on, &exec->device, &failed);
  }
  (void)kc_exec_lay_out_tables(exec, &exec->host, host ? arena : &exec->pinned, &failed);
  if (failed) {
    return kc_fail(diag, KC_ERR_MEMORY, "the engine's tables need more memory than was reserved");
  }
  memset(exec->host.verdict, 0xFF, exec->slots * sizeof *exec->host.verdict);
  if (host) {
    exec->on = exec->host;
    return KC_OK;
  }
  const enum kc_op_status status = kc_site_put(site, exec->device.base, exec->pinned.base, bytes);
  return status == KC_OP_OK ? KC_OK : kc_site_fail(site, status, "sending tables", diag);
}

void kc_exec_free_tables(struct kc_exec *exec)
{
  KC_ASSERT(!kc_site_is_host(&exec->site));
  kc_site_arena_free(&exec->site, &exec->device);
  kc_site_pinned_free(&exec->site, &exec->pinned);
}

/* ---- to and from the device ---- */

void kc_exec_send(struct kc_exec *exec, void *to, const void *from, uint64_t bytes)
{
  KC_ASSERT(exec->status != NULL);
  if (kc_site_is_host(&exec->site) || bytes == 0) return;
  const enum kc_op_status status = kc_site_send(&exec->site, to, from, bytes);
  if (status != KC_OP_OK) exec->status[0] = status;
}

/* The one entry that may name the page; 0 where rows share it, or where it is free: its tag then
 * speaks for itself. */
static uint64_t place_of(const struct kc_page_record *record)
{
  if (kc_page_state_of(record) != KC_PAGE_LIVE || kc_page_is_shared(record)) return 0;
  KC_ASSERT(kc_page_owner_of(record) > 0);
  return KC_PAGE_PLACE(kc_page_owner_of(record) - 1, kc_page_link_of(record));
}

/* The pool's tags and places, and to a device the run of pages in which any has changed. */
static void copy_tags(struct kc_exec *exec, const struct kc_pool *pool)
{
  uint32_t first = pool->page_count, end = 0;
  KC_ASSERT(pool->page_count == exec->config.pages);
  for (uint32_t page = 0; page < pool->page_count; page++) {
    const uint32_t tag = kc_tag_of(pool->record[page].generation);
    const uint64_t place = place_of(&pool->record[page]);
    if (tag == exec->host.tag[page] && place == exec->host.place[page]) continue;
    exec->host.tag[page] = tag;
    exec->host.place[page] = place;
    if (page < first) first = page;
    end = page + 1;
  }
  if (first >= end) return;
  kc_exec_send(exec, exec->on.tag + first, exec->host.tag + first,
               (end - first) * sizeof *exec->host.tag);
  kc_exec_send(exec, exec->on.place + first, exec->host.place + first,
               (end - first) * sizeof *exec->host.place);
}

void kc_exec_send_probed(struct kc_exec *exec)
{
  const uint64_t entries = (uint64_t)exec->slots * exec->row_entries, pages = exec->config.pages;
  KC_ASSERT(exec->config.probe != NULL);
  kc_exec_send(exec, exec->on.entry, exec->host.entry, entries * sizeof *exec->host.entry);
  kc_exec_send(exec, exec->on.tag, exec->host.tag, pages * sizeof *exec->host.tag);
  kc_exec_send(exec, exec->on.place, exec->host.place, pages * sizeof *exec->host.place);
}

void kc_exec_fetch_verdicts(struct kc_exec *exec)
{
  const struct kc_site *site = &exec->site;
  enum kc_op_status status;
  KC_ASSERT(exec->slots > 0);
  if (kc_site_is_host(site) || exec->config.integrity == KC_INTEGRITY_OFF) return;
  status = kc_site_fetch(site, exec->host.verdict, exec->on.verdict,
                         exec->slots * sizeof *exec->host.verdict);
  if (status == KC_OP_OK) {
    status = kc_site_fetch(site, exec->host.counter, exec->on.counter,
                           KC_TAG_COUNTERS * sizeof *exec->host.counter);
  }
  if (status != KC_OP_OK) exec->status[0] = status;
}

/* Those of writes inside a graph carry the step of its capture; this one is theirs. */
void kc_exec_fetch_events(struct kc_exec *exec, uint64_t step)
{
  const uint64_t known = exec->events_seen, all = exec->host.counter[KC_COUNT_EVENTS];
  const uint64_t end = all < KC_FORWARD_RING ? all : KC_FORWARD_RING;
  KC_ASSERT(all >= known);
  exec->events_seen = all;
  if (kc_site_is_host(&exec->site) || known >= end) return;
  const enum kc_op_status status =
      kc_site_fetch(&exec->site, exec->host.ring + known, exec->on.ring + known,
                    (end - known) * sizeof *exec->host.ring);
  if (status != KC_OP_OK || kc_site_wait(&exec->site) != KC_OP_OK) {
    exec->status[0] = KC_OP_DEVICE;
    return;
  }
  for (uint64_t i = known; i < end; i++) exec->host.ring[i].step = step;
}

enum kc_op_status kc_exec_check_tags(struct kc_exec *exec, const struct kc_step *step)
{
  const struct kc_exec_tables *host = &exec->host, *on = &exec->on;
  const struct kc_exec_probe *probe = exec->config.probe;
  KC_ASSERT(exec->config.integrity != KC_INTEGRITY_OFF);
  copy_tags(exec, step->pool);
  if (probe != NULL) {
    probe->before_check(probe->context, exec, step);
    kc_exec_send_probed(exec);
  }
  for (uint32_t i = 0; i < exec->work_count; i++) {
    host->check_slot[i] = exec->work[i].piece.slot;
    host->check_entries[i] = exec->extent[exec->work[i].piece.slot];
  }
  kc_exec_send(exec, on->check_slot, host->check_slot, exec->work_count * sizeof(uint32_t));
  kc_exec_send(exec, on->check_entries, host->check_entries, exec->work_count * sizeof(uint32_t));
  for (uint32_t i = 0; i < exec->config.threads; i++) exec->forward[i].tags.step = step->index;
  const struct kc_op_tag_check check = {
      .rows = exec->work_count,
      .slot = on->check_slot,
      .entries = on->check_entries,
      .table = {on->entry, exec->slots, exec->row_entries},
      .integrity = {.tag = on->tag, .verdict = on->verdict, .counter = on->counter,
                    .ring = on->ring, .ring_capacity = KC_FORWARD_RING,
                    .pages = step->pool->page_count, .step = step->index},
      .place = on->place};
  return exec->site.ops->tag_check(exec->site.context, &check);
}
