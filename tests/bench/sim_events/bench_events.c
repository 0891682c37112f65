/* Nanoseconds per pop and push of the two event queues in the hold model: a queue kept at N events,
 * each pop followed by one push a random distance ahead. One JSON object a line.
 *
 * Two distributions: exponential (few ties) and 20 distinct times (almost only ties), the two ends
 * between which a simulation lies.
 *
 *   bench_events [MAX_EVENTS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/random.h"
#include "sim/events/events.h"

enum { DRAWS = 1 << 16, ROUNDS = 5, OPERATIONS = 1 << 20 };

struct setup {
  const char *queue_name, *distribution;
  enum kc_event_queue_kind kind;
  const kc_ps *ahead_ps; /* [DRAWS], drawn before the clock starts */
};

static double seconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill_exponential(kc_ps *ahead_ps)
{
  struct kc_random random;
  kc_random_init(&random, 1, "bench events", 0);
  for (uint32_t i = 0; i < DRAWS; ++i) {
    ahead_ps[i] = (kc_ps)kc_random_exponential(&random, (uint64_t)KC_PS_PER_MS);
  }
}

static void fill_ties(kc_ps *ahead_ps)
{
  struct kc_random random;
  kc_random_init(&random, 1, "bench events", 1);
  for (uint32_t i = 0; i < DRAWS; ++i) {
    ahead_ps[i] = (kc_ps)(1 + kc_random_below(&random, 20)) * KC_PS_PER_MS;
  }
}

/* Aligned to the grid of the draws, so that ties stay ties. */
static void hold(struct kc_event_queue *queue, const struct setup *setup, uint32_t operations)
{
  for (uint32_t i = 0; i < operations; ++i) {
    struct kc_event event;
    (void)kc_events_pop(queue, &event);
    (void)kc_events_push(queue, event.time_ps + setup->ahead_ps[i % DRAWS], KC_BAND_STEP, 0, i);
  }
}

static int measure(const struct setup *setup, uint32_t events)
{
  struct kc_arena arena;
  double best_s = 1e9;
  if (kc_arena_init(&arena, kc_events_need(setup->kind, events), NULL) != KC_OK) return 1;
  struct kc_event_queue *queue = kc_events_create(setup->kind, events, &arena);
  for (uint32_t i = 0; i < events; ++i) {
    (void)kc_events_push(queue, setup->ahead_ps[i % DRAWS], KC_BAND_STEP, 0, i);
  }
  hold(queue, setup, events + OPERATIONS / 4);
  for (unsigned round = 0; round < ROUNDS; ++round) {
    const double start_s = seconds_now();
    hold(queue, setup, OPERATIONS);
    const double took_s = seconds_now() - start_s;
    if (took_s < best_s) best_s = took_s;
  }
  printf("{\"bench\":\"events\",\"queue\":\"%s\",\"distribution\":\"%s\",\"events\":%" PRIu32
         ",\"ns_per_pop_and_push\":%.1f}\n",
         setup->queue_name, setup->distribution, events, 1e9 * best_s / OPERATIONS);
  kc_arena_deinit(&arena);
  return 0;
}

int main(int argc, char **argv)
{
  static kc_ps exponential_ps[DRAWS], ties_ps[DRAWS];
  fill_exponential(exponential_ps);
  fill_ties(ties_ps);
  const struct setup setups[] = {
      {"binary", "exponential", KC_QUEUE_BINARY, exponential_ps},
      {"radix", "exponential", KC_QUEUE_RADIX, exponential_ps},
      {"binary", "20 times", KC_QUEUE_BINARY, ties_ps},
      {"radix", "20 times", KC_QUEUE_RADIX, ties_ps},
  };
  const uint32_t events_max = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1u << 21;
  int failed = 0;
  for (uint32_t events = 8; events <= events_max; events *= 8) {
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; ++i) {
      failed |= measure(&setups[i], events);
    }
  }
  return failed;
}
