/* The event queue as a binary heap in one array: the implementation in use.
 *
 *   heap[0] is the least; the children of heap[i] are heap[2i + 1] and heap[2i + 2];
 *   no child is before its parent
 *
 * Chosen because it can be audited in a minute and needs no property of the keys. Events are moved
 * by value (24 bytes), holes instead of swaps: each level costs one copy.
 */
#include "sim/events/queue.h"

void kc_binary_push(struct kc_event_queue *queue, struct kc_event event)
{
  KC_ASSERT(queue->count < queue->capacity);
  KC_ASSERT(queue->heap != NULL);
  size_t hole = queue->count;
  while (hole > 0) {
    const size_t parent = (hole - 1) / 2;
    if (!kc_event_before(&event, &queue->heap[parent])) break;
    queue->heap[hole] = queue->heap[parent];
    hole = parent;
  }
  queue->heap[hole] = event;
}

struct kc_event kc_binary_pop(struct kc_event_queue *queue)
{
  KC_ASSERT(queue->count > 0);
  const struct kc_event least = queue->heap[0];
  const size_t count = queue->count - 1; /* without the one that leaves */
  const struct kc_event last = queue->heap[count];
  size_t hole = 0;
  for (size_t child = 1; child < count; child = 2 * hole + 1) {
    if (child + 1 < count && kc_event_before(&queue->heap[child + 1], &queue->heap[child])) {
      child += 1;
    }
    if (!kc_event_before(&queue->heap[child], &last)) break;
    queue->heap[hole] = queue->heap[child];
    hole = child;
  }
  queue->heap[hole] = last;
  KC_ASSERT(count == 0 || kc_event_before(&least, &queue->heap[0]));
  return least;
}

kc_ps kc_binary_next_ps(const struct kc_event_queue *queue)
{
  KC_ASSERT(queue->count > 0);
  return queue->heap[0].time_ps;
}

bool kc_binary_valid(const struct kc_event_queue *queue)
{
  for (size_t i = 1; i < queue->count; ++i) {
    if (!kc_event_before(&queue->heap[(i - 1) / 2], &queue->heap[i])) return false;
  }
  return queue->count == 0 || queue->heap[0].time_ps >= queue->last_ps;
}
