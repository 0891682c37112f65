/* Event queue of the simulator: the four public functions, in front of two implementations.
 *
 *   push --> checks, sequence number --> binary_queue.c | radix_queue.c --> pop
 *
 * The order is total, (time, band, sequence), and the sequence number is given here, so both
 * implementations see the same keys and must pop the same events; the property test in tests/prop
 * holds one against the other. The queue lives in the run's arena and is never freed by itself.
 *
 * The two are told apart by one branch instead of a table of functions: the branch is predicted,
 * and a reader of a profile sees which queue ran.
 */
#include "sim/events/queue.h"

enum { CAPACITY_MAX = 1 << 30 };

static bool capacity_in_range(uint32_t capacity)
{
  return capacity > 0 && capacity <= CAPACITY_MAX;
}

size_t kc_events_need(enum kc_event_queue_kind kind, uint32_t capacity)
{
  KC_ASSERT(kind == KC_QUEUE_BINARY || kind == KC_QUEUE_RADIX);
  KC_ASSERT(capacity_in_range(capacity));
  const size_t items_bytes =
      kind == KC_QUEUE_BINARY
          ? kc_arena_need(capacity, sizeof(struct kc_event))
          : kc_arena_need(kc_radix_chunks(capacity), sizeof(struct kc_radix_chunk));
  return kc_arena_need(1, sizeof(struct kc_event_queue)) + items_bytes;
}

struct kc_event_queue *kc_events_create(enum kc_event_queue_kind kind, uint32_t capacity,
                                        struct kc_arena *arena)
{
  KC_ASSERT(kind == KC_QUEUE_BINARY || kind == KC_QUEUE_RADIX);
  KC_ASSERT(capacity_in_range(capacity));
  struct kc_event_queue *queue = kc_arena_take(arena, 1, sizeof *queue);
  if (queue == NULL) return NULL;
  queue->kind = kind;
  queue->capacity = capacity;
  if (kind == KC_QUEUE_RADIX) return kc_radix_init(queue, arena) == KC_OK ? queue : NULL;
  queue->heap = kc_arena_take(arena, capacity, sizeof *queue->heap);
  return queue->heap != NULL ? queue : NULL;
}

enum kc_err kc_events_push(struct kc_event_queue *queue, kc_ps time_ps, enum kc_band band,
                           uint32_t kind, uint32_t subject)
{
  KC_ASSERT(time_ps >= queue->last_ps); /* nothing is scheduled in the past */
  KC_ASSERT(time_ps < KC_PS_NEVER);     /* "never" is what an empty queue answers */
  KC_ASSERT(band <= KC_BAND_END);
  KC_ASSERT(queue->sequence < UINT64_C(1) << KC_BAND_SHIFT);
  if (queue->count == queue->capacity) return KC_ERR_LIMIT;
  const struct kc_event event = {.time_ps = time_ps,
                                 .order = (uint64_t)band << KC_BAND_SHIFT | queue->sequence,
                                 .kind = kind,
                                 .subject = subject};
  queue->sequence += 1;
  if (queue->kind == KC_QUEUE_BINARY) {
    kc_binary_push(queue, event);
  } else {
    kc_radix_push(queue, event);
  }
  queue->count += 1;
  KC_ASSERT_SLOW(kc_events_valid(queue));
  return KC_OK;
}

bool kc_events_pop(struct kc_event_queue *queue, struct kc_event *out)
{
  KC_ASSERT(queue->count <= queue->capacity);
  if (queue->count == 0) return false;
  *out = queue->kind == KC_QUEUE_BINARY ? kc_binary_pop(queue) : kc_radix_pop(queue);
  KC_ASSERT(out->time_ps >= queue->last_ps); /* time never runs backwards */
  queue->last_ps = out->time_ps;
  queue->count -= 1;
  KC_ASSERT_SLOW(kc_events_valid(queue));
  return true;
}

kc_ps kc_events_next_ps(const struct kc_event_queue *queue)
{
  KC_ASSERT(queue->count <= queue->capacity);
  if (queue->count == 0) return KC_PS_NEVER;
  const kc_ps next_ps =
      queue->kind == KC_QUEUE_BINARY ? kc_binary_next_ps(queue) : kc_radix_next_ps(queue);
  KC_ASSERT(next_ps >= queue->last_ps);
  return next_ps;
}

bool kc_events_valid(const struct kc_event_queue *queue)
{
  KC_ASSERT(queue->count <= queue->capacity);
  return queue->kind == KC_QUEUE_BINARY ? kc_binary_valid(queue) : kc_radix_valid(queue);
}
