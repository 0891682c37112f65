/* Inside of the event queue: the state that events.c, binary_queue.c and radix_queue.c share.
 * Nobody outside this folder includes it.
 *
 * events.c checks arguments, counts events and hands out sequence numbers; an implementation only
 * stores events and gives back the least. It may rely on: never a push when full, never a pop when
 * empty, never a time before `last_ps`.
 */
#ifndef KC_SIM_EVENTS_QUEUE_H
#define KC_SIM_EVENTS_QUEUE_H

#include "sim/events/events.h"

enum {
  KC_BAND_COUNT = KC_BAND_END + 1,
  KC_BAND_SHIFT = 60,    /* of kc_event.order; the sequence number is below */
  KC_RADIX_BUCKETS = 64, /* bucket b > 0: times whose highest bit unlike `last_ps` is bit b - 1 */
  KC_RADIX_LISTS = KC_BAND_COUNT + KC_RADIX_BUCKETS,
  KC_CHUNK_EVENTS = 32,
};

#define KC_CHUNK_NONE UINT32_MAX

/* Events of one list, in a row, so that dealing out a bucket reads memory in order. */
struct kc_radix_chunk {
  struct kc_event event[KC_CHUNK_EVENTS]; /* [first, end) are in use */
  uint32_t first, end;
  uint32_t next; /* chunk of the same list, or free chunk; KC_CHUNK_NONE at the end */
};

/* First in, first out. Chunks between head and tail are full; no chunk of a list is empty. */
struct kc_radix_list {
  uint32_t head, tail; /* KC_CHUNK_NONE when empty */
  kc_ps least_ps;      /* least time in the list; stale when empty */
};

struct kc_radix {
  struct kc_radix_chunk *chunk; /* [chunk_count] */
  uint32_t chunk_count;
  uint32_t fresh;     /* chunks [fresh, chunk_count) were never used */
  uint32_t free;      /* first chunk given back */
  uint64_t occupied;  /* bit b: bucket[b] is not empty; bit 0 unused */
  uint32_t now_bands; /* bit b: now[b] is not empty */
  struct kc_radix_list now[KC_BAND_COUNT];       /* times equal to `last_ps`, by band */
  struct kc_radix_list bucket[KC_RADIX_BUCKETS]; /* later times; [0] unused */
};

struct kc_event_queue {
  enum kc_event_queue_kind kind;
  uint32_t count, capacity;
  kc_ps last_ps;     /* time of the last event popped, 0 before the first */
  uint64_t sequence; /* next to hand out */
  struct kc_event *heap; /* binary only: [capacity], heap[0] the least */
  struct kc_radix radix; /* radix only */
};

static inline bool kc_event_before(const struct kc_event *a, const struct kc_event *b)
{
  return a->time_ps < b->time_ps || (a->time_ps == b->time_ps && a->order < b->order);
}

void kc_binary_push(struct kc_event_queue *queue, struct kc_event event);
struct kc_event kc_binary_pop(struct kc_event_queue *queue);
kc_ps kc_binary_next_ps(const struct kc_event_queue *queue);
bool kc_binary_valid(const struct kc_event_queue *queue); /* O(n) */

uint32_t kc_radix_chunks(uint32_t capacity); /* chunks enough for that many events */
enum kc_err kc_radix_init(struct kc_event_queue *queue, struct kc_arena *arena);
void kc_radix_push(struct kc_event_queue *queue, struct kc_event event);
struct kc_event kc_radix_pop(struct kc_event_queue *queue);
kc_ps kc_radix_next_ps(const struct kc_event_queue *queue);
bool kc_radix_valid(const struct kc_event_queue *queue); /* O(n) */

#endif
