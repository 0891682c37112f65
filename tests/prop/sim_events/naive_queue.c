/* The naive twin of the event queue: first in the list wins every tie, so no sequence numbers. */
#include "naive_queue.h"

#include <assert.h>
#include <string.h>

void naive_push(struct naive_queue *queue, struct naive_item item)
{
  assert(queue->count < NAIVE_CAPACITY);
  queue->item[queue->count++] = item;
}

struct naive_item naive_pop(struct naive_queue *queue)
{
  assert(queue->count > 0);
  uint32_t best = 0;
  for (uint32_t i = 1; i < queue->count; ++i) {
    const struct naive_item *a = &queue->item[i];
    const struct naive_item *b = &queue->item[best];
    if (a->time_ps < b->time_ps || (a->time_ps == b->time_ps && a->band < b->band)) best = i;
  }
  const struct naive_item least = queue->item[best];
  queue->count -= 1;
  memmove(&queue->item[best], &queue->item[best + 1],
          (queue->count - best) * sizeof queue->item[0]);
  return least;
}
