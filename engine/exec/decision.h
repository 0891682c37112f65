/* The decision log: what scheduler and allocator decided, step by step, as text.
 *
 *   S index start_ps duration_ps decoding   a step
 *   L slot                           left
 *   J slot request known outputs cached kv  joined, with `cached` tokens found in the prefix cache;
 *                                    kv 1: its KV came with it
 *   G slot first id:tag ...          pages granted, from entry `first` on
 *   P slot first id:tag ...          pages that became shared, perhaps others than were granted
 *   C slot start count last          part of a prompt
 *   W slot                           a decode that stands still
 *   E slot decodes                   its request has ended, it has not left yet
 *   F slot                           finished with this step
 *   V slot page code                 aborted: an entry was not its own
 *
 * A tap stands before any executor and writes after each of its steps. Pairs come from the tables
 * that `row` shows: the instance's under a predicted executor, the executor's own under a real one.
 * The same run must give the same bytes either way.
 */
#ifndef KC_ENGINE_EXEC_DECISION_H
#define KC_ENGINE_EXEC_DECISION_H

#include "engine/base/arena.h"
#include "engine/sched/step.h"

/* A pair as tables hold it; struct kc_page and struct kc_page_ref have this shape. */
struct kc_decision_pair {
  uint32_t id, tag;
};

struct kc_decision_tap {
  struct kc_executor inner;
  /* Entry `index` of a slot's row, as the executor has it; NULL: as the instance's table has it. */
  struct kc_decision_pair (*row)(const void *context, uint32_t slot, uint32_t index);
  const void *row_context;
  void (*write)(void *context, const char *text, size_t bytes);
  void *write_context;
  uint32_t *extent; /* [slots] entries a slot has, by the deltas; UINT32_MAX: free */
  uint32_t *shared; /* [slots] those of them that are known to be shared */
  uint32_t slots;
};

size_t kc_decision_need(uint32_t slots);
/* The other fields are set by the caller. */
enum kc_err kc_decision_init(struct kc_decision_tap *tap, uint32_t slots, struct kc_arena *arena);
struct kc_executor kc_decision_executor(struct kc_decision_tap *tap);

#endif
