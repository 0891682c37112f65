/* Intrusive doubly linked lists over slots, in batch order (see batch_lists.h). */
#include "engine/sched/batch_lists.h"

void kc_list_insert(struct kc_slot *slots, struct kc_list *list, uint32_t slot)
{
  uint32_t before = list->tail;
  while (before != KC_SLOT_NONE && slots[before].order > slots[slot].order) {
    before = slots[before].list_previous;
  }
  const uint32_t after = before == KC_SLOT_NONE ? list->head : slots[before].list_next;
  slots[slot].list_previous = before;
  slots[slot].list_next = after;
  if (before == KC_SLOT_NONE) list->head = slot;
  else slots[before].list_next = slot;
  if (after == KC_SLOT_NONE) list->tail = slot;
  else slots[after].list_previous = slot;
  list->count++;
}

void kc_list_remove(struct kc_slot *slots, struct kc_list *list, uint32_t slot)
{
  const uint32_t before = slots[slot].list_previous;
  const uint32_t after = slots[slot].list_next;
  KC_ASSERT(list->count > 0);
  KC_ASSERT(before != slot && after != slot);
  if (before == KC_SLOT_NONE) list->head = after;
  else slots[before].list_next = after;
  if (after == KC_SLOT_NONE) list->tail = before;
  else slots[after].list_previous = before;
  slots[slot].list_previous = KC_SLOT_NONE;
  slots[slot].list_next = KC_SLOT_NONE;
  list->count--;
}

void kc_list_append_running(struct kc_slot *slots, struct kc_list *list, uint32_t slot)
{
  KC_ASSERT(list->tail == KC_SLOT_NONE || slots[list->tail].order < slots[slot].order);
  KC_ASSERT(list->count < UINT32_MAX);
  slots[slot].run_previous = list->tail;
  slots[slot].run_next = KC_SLOT_NONE;
  if (list->tail == KC_SLOT_NONE) list->head = slot;
  else slots[list->tail].run_next = slot;
  list->tail = slot;
  list->count++;
}

void kc_list_remove_running(struct kc_slot *slots, struct kc_list *list, uint32_t slot)
{
  const uint32_t before = slots[slot].run_previous;
  const uint32_t after = slots[slot].run_next;
  KC_ASSERT(list->count > 0);
  KC_ASSERT(before != slot && after != slot);
  if (before == KC_SLOT_NONE) list->head = after;
  else slots[before].run_next = after;
  if (after == KC_SLOT_NONE) list->tail = before;
  else slots[after].run_previous = before;
  list->count--;
}
