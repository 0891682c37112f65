/* Event queue with a total order (time, band, seq); two implementations behind four functions.
 *
 * Bands order what happens at one instant: arrivals before completions before deadlines (a request
 * that completes at its deadline has kept it) before scheduler steps before statistics before the
 * end. `seq` is given at scheduling: first in, first out in a band.
 *
 * The binary heap is the one in use (auditable). The radix heap (monotone: nothing is scheduled
 * before the last popped time) is its differential-test twin; it is faster where many events share
 * few times, and above some hundred thousand events whatever their times (tests/bench).
 */
#ifndef KC_SIM_EVENTS_EVENTS_H
#define KC_SIM_EVENTS_EVENTS_H

#include "engine/base/arena.h"
#include "engine/base/vtime.h"

enum kc_band {
  KC_BAND_ARRIVAL = 0,
  KC_BAND_COMPLETION = 1,
  KC_BAND_DEADLINE = 2,
  KC_BAND_STEP = 3,
  KC_BAND_STATISTICS = 4,
  KC_BAND_END = 5
};

struct kc_event {
  kc_ps time_ps;
  uint64_t order;   /* band << 60 | seq */
  uint32_t kind;    /* the owner's */
  uint32_t subject; /* the owner's: instance, request, ... */
};

enum kc_event_queue_kind { KC_QUEUE_BINARY, KC_QUEUE_RADIX };

struct kc_event_queue;

/* Room for `capacity` events at once; all memory from the arena. NULL if it does not fit. */
size_t kc_events_need(enum kc_event_queue_kind kind, uint32_t capacity);
struct kc_event_queue *kc_events_create(enum kc_event_queue_kind kind, uint32_t capacity,
                                        struct kc_arena *arena);

/* KC_ERR_LIMIT when full. `time_ps` >= the last popped time (assert). */
enum kc_err kc_events_push(struct kc_event_queue *queue, kc_ps time_ps, enum kc_band band,
                           uint32_t kind, uint32_t subject);
/* False when empty. */
bool kc_events_pop(struct kc_event_queue *queue, struct kc_event *out);
/* Time of the next event, KC_PS_NEVER when empty. */
kc_ps kc_events_next_ps(const struct kc_event_queue *queue);
/* True when the structure holds its invariants. O(n); for tests and KC_ASSERT_SLOW. */
bool kc_events_valid(const struct kc_event_queue *queue);

#endif
