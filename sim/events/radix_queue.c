/* The event queue as a radix heap: the differential twin of the binary heap. It needs what a
 * simulation always has: nothing is scheduled before the last event popped.
 *
 *   last_ps = 0b01100          bucket b > 0 holds the times whose highest bit that differs from
 *                              last_ps is bit b - 1:
 *     now[band]  0b01100         bucket[1]  0b01101
 *                                bucket[2]  0b0111x
 *                                bucket[5]  0b1xxxx
 *
 * All of bucket b is before all of bucket b + 1. When nothing is left at last_ps, the lowest
 * bucket's least time becomes last_ps and its events move to lower buckets, each event at most once
 * per bit of the time. (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster algorithms for the shortest path
 * problem", J. ACM 37, 1990.)
 *
 * Equal times are always in one list, and lists are first in, first out also when they are dealt
 * out again; so sequence numbers need no comparison, and of the total order only the band is left,
 * for which the present instant has one list each.
 *
 * Lists are chains of chunks of events, not of events: dealing out a large bucket then reads memory
 * in order, which is what makes this faster than the binary heap where it is.
 */
#include "sim/events/queue.h"

/* Bucket of a time after `last_ps`. */
static unsigned bucket_of(kc_ps time_ps, kc_ps last_ps)
{
  KC_ASSERT(time_ps > last_ps);
  const uint64_t unlike = (uint64_t)time_ps ^ (uint64_t)last_ps;
  return (unsigned)(64 - __builtin_clzll(unlike));
}

static unsigned band_of(const struct kc_event *event)
{
  return (unsigned)(event->order >> KC_BAND_SHIFT);
}

static bool list_empty(const struct kc_radix_list *list)
{
  return list->head == KC_CHUNK_NONE;
}

static uint32_t chunk_take(struct kc_radix *radix)
{
  uint32_t index = radix->free;
  if (index != KC_CHUNK_NONE) {
    radix->free = radix->chunk[index].next;
  } else {
    index = radix->fresh++;
  }
  KC_ASSERT(index < radix->chunk_count);
  radix->chunk[index].first = 0;
  radix->chunk[index].end = 0;
  radix->chunk[index].next = KC_CHUNK_NONE;
  return index;
}

/* Gives a chunk back and returns the one that followed it in its list. */
static uint32_t chunk_give(struct kc_radix *radix, uint32_t index)
{
  KC_ASSERT(index < radix->chunk_count);
  const uint32_t next = radix->chunk[index].next;
  radix->chunk[index].next = radix->free;
  radix->free = index;
  return next;
}

static void list_append(struct kc_radix *radix, struct kc_radix_list *list, struct kc_event event)
{
  if (list_empty(list)) {
    list->head = list->tail = chunk_take(radix);
    list->least_ps = event.time_ps;
  } else if (radix->chunk[list->tail].end == KC_CHUNK_EVENTS) {
    const uint32_t index = chunk_take(radix);
    radix->chunk[list->tail].next = index;
    list->tail = index;
  }
  struct kc_radix_chunk *chunk = &radix->chunk[list->tail];
  KC_ASSERT(chunk->end < KC_CHUNK_EVENTS);
  chunk->event[chunk->end++] = event;
  if (event.time_ps < list->least_ps) list->least_ps = event.time_ps;
}

static struct kc_event list_take_first(struct kc_radix *radix, struct kc_radix_list *list)
{
  KC_ASSERT(!list_empty(list));
  struct kc_radix_chunk *chunk = &radix->chunk[list->head];
  KC_ASSERT(chunk->first < chunk->end);
  const struct kc_event event = chunk->event[chunk->first++];
  if (chunk->first == chunk->end) list->head = chunk_give(radix, list->head);
  return event;
}

/* Files an event under the present instant or a later bucket. */
static void file_event(struct kc_event_queue *queue, struct kc_event event)
{
  struct kc_radix *radix = &queue->radix;
  KC_ASSERT(event.time_ps >= queue->last_ps);
  if (event.time_ps == queue->last_ps) {
    const unsigned band = band_of(&event);
    KC_ASSERT(band < KC_BAND_COUNT);
    radix->now_bands |= 1u << band;
    list_append(radix, &radix->now[band], event);
  } else {
    const unsigned bucket = bucket_of(event.time_ps, queue->last_ps);
    KC_ASSERT(bucket < KC_RADIX_BUCKETS);
    radix->occupied |= UINT64_C(1) << bucket;
    list_append(radix, &radix->bucket[bucket], event);
  }
}

/* Moves time on to the next event and deals its bucket out. Call when nothing is due now. */
static void advance(struct kc_event_queue *queue)
{
  struct kc_radix *radix = &queue->radix;
  KC_ASSERT(radix->now_bands == 0);
  KC_ASSERT(radix->occupied != 0);
  const unsigned lowest = (unsigned)__builtin_ctzll(radix->occupied);
  uint32_t index = radix->bucket[lowest].head;
  queue->last_ps = radix->bucket[lowest].least_ps;
  radix->bucket[lowest].head = KC_CHUNK_NONE;
  radix->occupied &= radix->occupied - 1;
  while (index != KC_CHUNK_NONE) {
    const struct kc_radix_chunk *chunk = &radix->chunk[index];
    for (uint32_t i = chunk->first; i < chunk->end; ++i) file_event(queue, chunk->event[i]);
    index = chunk_give(radix, index);
  }
  KC_ASSERT(radix->now_bands != 0);
}

/* Full chunks, at most two chunks at the ends of each list, and the one that is being dealt out. */
uint32_t kc_radix_chunks(uint32_t capacity)
{
  KC_ASSERT(capacity > 0);
  return capacity / KC_CHUNK_EVENTS + 2 * KC_RADIX_LISTS + 1;
}

enum kc_err kc_radix_init(struct kc_event_queue *queue, struct kc_arena *arena)
{
  struct kc_radix *radix = &queue->radix;
  KC_ASSERT(queue->count == 0);
  radix->chunk_count = kc_radix_chunks(queue->capacity);
  radix->chunk = kc_arena_take(arena, radix->chunk_count, sizeof *radix->chunk);
  if (radix->chunk == NULL) return KC_ERR_MEMORY;
  radix->free = KC_CHUNK_NONE;
  for (unsigned band = 0; band < KC_BAND_COUNT; ++band) radix->now[band].head = KC_CHUNK_NONE;
  for (unsigned b = 0; b < KC_RADIX_BUCKETS; ++b) radix->bucket[b].head = KC_CHUNK_NONE;
  return KC_OK;
}

void kc_radix_push(struct kc_event_queue *queue, struct kc_event event)
{
  KC_ASSERT(queue->count < queue->capacity);
  KC_ASSERT(queue->radix.chunk != NULL);
  file_event(queue, event);
}

struct kc_event kc_radix_pop(struct kc_event_queue *queue)
{
  struct kc_radix *radix = &queue->radix;
  KC_ASSERT(queue->count > 0);
  if (radix->now_bands == 0) advance(queue);
  const unsigned band = (unsigned)__builtin_ctz(radix->now_bands);
  KC_ASSERT(band < KC_BAND_COUNT);
  const struct kc_event event = list_take_first(radix, &radix->now[band]);
  if (list_empty(&radix->now[band])) radix->now_bands &= radix->now_bands - 1;
  KC_ASSERT(event.time_ps == queue->last_ps);
  return event;
}

kc_ps kc_radix_next_ps(const struct kc_event_queue *queue)
{
  const struct kc_radix *radix = &queue->radix;
  if (radix->now_bands != 0) return queue->last_ps;
  KC_ASSERT(radix->occupied != 0);
  return radix->bucket[__builtin_ctzll(radix->occupied)].least_ps;
}

/* True when the event belongs into `bucket` (0: the present instant). */
static bool event_belongs(const struct kc_event_queue *queue, const struct kc_event *event,
                          unsigned bucket)
{
  if (event->time_ps <= queue->last_ps) return event->time_ps == queue->last_ps && bucket == 0;
  return bucket == bucket_of(event->time_ps, queue->last_ps);
}

/* Counts the events of a list; 0 as well when one of them does not belong there. */
static uint32_t list_count_valid(const struct kc_event_queue *queue,
                                 const struct kc_radix_list *list, unsigned bucket)
{
  uint32_t count = 0;
  for (uint32_t i = list->head; i != KC_CHUNK_NONE; i = queue->radix.chunk[i].next) {
    const struct kc_radix_chunk *chunk = &queue->radix.chunk[i];
    if (chunk->first >= chunk->end || chunk->end > KC_CHUNK_EVENTS) return 0;
    for (uint32_t j = chunk->first; j < chunk->end; ++j) {
      if (!event_belongs(queue, &chunk->event[j], bucket)) return 0;
    }
    count += chunk->end - chunk->first;
  }
  return count;
}

bool kc_radix_valid(const struct kc_event_queue *queue)
{
  const struct kc_radix *radix = &queue->radix;
  uint32_t count = 0;
  for (unsigned band = 0; band < KC_BAND_COUNT; ++band) {
    const uint32_t here = list_count_valid(queue, &radix->now[band], 0);
    if ((here > 0) != (radix->now_bands >> band & 1)) return false;
    count += here;
  }
  for (unsigned b = 1; b < KC_RADIX_BUCKETS; ++b) {
    const uint32_t here = list_count_valid(queue, &radix->bucket[b], b);
    if ((here > 0) != (radix->occupied >> b & 1)) return false;
    count += here;
  }
  return count == queue->count;
}
