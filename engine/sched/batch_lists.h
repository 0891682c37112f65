/* The two intrusive lists of a slot. Internal to engine/sched.
 *
 * The running list only ever grows at its tail, so it is in batch order by construction. Buckets
 * and the prefill list are kept in batch order by inserting from the tail: a request that starts
 * decoding is nearly always the youngest of its bucket, so the walk is one step.
 */
#ifndef KC_ENGINE_SCHED_BATCH_LISTS_H
#define KC_ENGINE_SCHED_BATCH_LISTS_H

#include "engine/sched/batch.h"

static inline struct kc_list kc_list_empty(void)
{
  return (struct kc_list){.head = KC_SLOT_NONE, .tail = KC_SLOT_NONE, .count = 0};
}

void kc_list_insert(struct kc_slot *slots, struct kc_list *list, uint32_t slot);
void kc_list_remove(struct kc_slot *slots, struct kc_list *list, uint32_t slot);
void kc_list_append_running(struct kc_slot *slots, struct kc_list *list, uint32_t slot);
void kc_list_remove_running(struct kc_slot *slots, struct kc_list *list, uint32_t slot);

#endif
