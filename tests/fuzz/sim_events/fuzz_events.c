/* Fuzz target: bytes become pushes and pops on both event queues, which must agree.
 *
 *   byte 0     capacity - 1
 *   then per operation: bit 7 set = pop, else push with
 *     bits 0..2   band (modulo 5)
 *     bits 3..6   s: the next byte, shifted left by 4 * s bits, is how far ahead (s = 15: now)
 */
#include <stdlib.h>

#include "sim/events/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pair {
  struct kc_event_queue *binary, *radix;
  kc_ps now_ps;
};

static void require(bool agree)
{
  if (!agree) abort();
}

static void pop_both(struct pair *pair)
{
  struct kc_event a, b;
  require(kc_events_next_ps(pair->binary) == kc_events_next_ps(pair->radix));
  const bool got = kc_events_pop(pair->binary, &a);
  require(kc_events_pop(pair->radix, &b) == got);
  if (!got) return;
  require(a.time_ps == b.time_ps && a.order == b.order && a.subject == b.subject);
  require(a.time_ps >= pair->now_ps);
  pair->now_ps = a.time_ps;
}

static void push_both(struct pair *pair, uint8_t operation, uint8_t distance, uint32_t subject)
{
  const unsigned shift = 4u * (operation >> 3 & 15u);
  const uint64_t ahead = shift == 60 ? 0 : (uint64_t)distance << shift;
  if (ahead >= (uint64_t)(KC_PS_NEVER - pair->now_ps)) return;
  const enum kc_band band = (enum kc_band)((operation & 7u) % 5u);
  const kc_ps due = pair->now_ps + (kc_ps)ahead;
  const enum kc_err err = kc_events_push(pair->binary, due, band, 0, subject);
  require(kc_events_push(pair->radix, due, band, 0, subject) == err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0) return 0;
  const uint32_t capacity = (uint32_t)data[0] + 1;
  struct kc_arena arena;
  struct pair pair = {.now_ps = 0};
  const size_t need =
      kc_events_need(KC_QUEUE_BINARY, capacity) + kc_events_need(KC_QUEUE_RADIX, capacity);
  require(kc_arena_init(&arena, need, NULL) == KC_OK);
  pair.binary = kc_events_create(KC_QUEUE_BINARY, capacity, &arena);
  pair.radix = kc_events_create(KC_QUEUE_RADIX, capacity, &arena);
  require(pair.binary != NULL && pair.radix != NULL);
  for (size_t i = 1; i < size; ++i) {
    if ((data[i] & 0x80) != 0) {
      pop_both(&pair);
    } else if (i + 1 < size) {
      push_both(&pair, data[i], data[i + 1], (uint32_t)i);
      i += 1;
    }
  }
  while (kc_events_next_ps(pair.binary) != KC_PS_NEVER) pop_both(&pair);
  require(kc_events_next_ps(pair.radix) == KC_PS_NEVER);
  kc_arena_deinit(&arena);
  return 0;
}
