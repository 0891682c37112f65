/* Binary heap, radix heap and a naive list are given the same random pushes and pops and must give
 * the same events. Each seed draws its own mix: how far ahead events are scheduled, how many tie,
 * which bands occur, how full the queue runs.
 *
 *   test_event_twins [--seed N] [--steps N]      one seed again; the defaults run all of them
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "naive_queue.h"

enum { SEEDS = 64, STEPS_PER_SEED = 40000, LARGE_CAPACITY = 1 << 17, VALIDATE_EVERY = 10000 };

struct mix {
  uint64_t spread_ps;   /* events are scheduled up to this far ahead */
  uint64_t grain_ps;    /* times are multiples of this: coarse grains make ties */
  uint64_t push_in_100; /* chance of a push */
  uint32_t bands;       /* bands 0 .. bands - 1 occur */
  uint32_t capacity;
};

struct twins {
  struct kc_arena arena;
  struct kc_event_queue *binary, *radix;
  struct naive_queue *naive; /* NULL when the queue is too large for it */
  uint32_t count;
  kc_ps now_ps;
};

static struct mix draw_mix(struct kc_random *random, bool large)
{
  static const uint64_t grains[] = {1, 1000, UINT64_C(1) << 30};
  struct mix mix;
  mix.spread_ps = UINT64_C(1) << kc_random_below(random, 44);
  mix.grain_ps = grains[kc_random_below(random, 3)];
  mix.push_in_100 = 45 + kc_random_below(random, 15);
  mix.bands = 1 + (uint32_t)kc_random_below(random, 5);
  mix.capacity = large ? LARGE_CAPACITY : 1 + (uint32_t)kc_random_below(random, NAIVE_CAPACITY);
  return mix;
}

static bool twins_init(struct twins *twins, const struct mix *mix, struct naive_queue *naive)
{
  const size_t need = kc_events_need(KC_QUEUE_BINARY, mix->capacity) +
                      kc_events_need(KC_QUEUE_RADIX, mix->capacity);
  if (kc_arena_init(&twins->arena, need, NULL) != KC_OK) return false;
  twins->binary = kc_events_create(KC_QUEUE_BINARY, mix->capacity, &twins->arena);
  twins->radix = kc_events_create(KC_QUEUE_RADIX, mix->capacity, &twins->arena);
  twins->naive = mix->capacity <= NAIVE_CAPACITY ? naive : NULL;
  if (twins->naive != NULL) twins->naive->count = 0;
  twins->count = 0;
  twins->now_ps = 0;
  return twins->binary != NULL && twins->radix != NULL;
}

/* True when the twins agree. */
static bool step_push(struct twins *twins, const struct mix *mix, struct kc_random *random)
{
  const uint64_t ahead = kc_random_below(random, mix->spread_ps);
  const kc_ps due = twins->now_ps + (kc_ps)ahead;
  const kc_ps rounded = due - due % (kc_ps)mix->grain_ps;
  const struct naive_item item = {.time_ps = rounded < twins->now_ps ? twins->now_ps : rounded,
                                  .band = (enum kc_band)kc_random_below(random, mix->bands),
                                  .kind = (uint32_t)kc_random_u64(random),
                                  .subject = (uint32_t)kc_random_u64(random)};
  const enum kc_err expected = twins->count == mix->capacity ? KC_ERR_LIMIT : KC_OK;
  const enum kc_err a =
      kc_events_push(twins->binary, item.time_ps, item.band, item.kind, item.subject);
  const enum kc_err b =
      kc_events_push(twins->radix, item.time_ps, item.band, item.kind, item.subject);
  if (expected == KC_OK) {
    twins->count += 1;
    if (twins->naive != NULL) naive_push(twins->naive, item);
  }
  return a == expected && b == expected;
}

static bool same_event(const struct kc_event *a, const struct kc_event *b)
{
  return a->time_ps == b->time_ps && a->order == b->order && a->kind == b->kind &&
         a->subject == b->subject;
}

static bool step_pop(struct twins *twins)
{
  struct kc_event a, b;
  const kc_ps next_a = kc_events_next_ps(twins->binary);
  const kc_ps next_b = kc_events_next_ps(twins->radix);
  const bool got_a = kc_events_pop(twins->binary, &a);
  const bool got_b = kc_events_pop(twins->radix, &b);
  if (next_a != next_b || got_a != got_b || got_a != (twins->count > 0)) return false;
  if (!got_a) return next_a == KC_PS_NEVER;
  twins->count -= 1;
  twins->now_ps = a.time_ps;
  if (!same_event(&a, &b) || next_a != a.time_ps) return false;
  if (twins->naive == NULL) return true;
  const struct naive_item c = naive_pop(twins->naive);
  return c.time_ps == a.time_ps && (uint64_t)c.band == a.order >> 60 && c.kind == a.kind &&
         c.subject == a.subject;
}

/* Random steps, then everything is popped. Returns the number of steps, 0 on a disagreement. */
static uint64_t run_seed(uint64_t seed, uint64_t steps, struct naive_queue *naive)
{
  struct kc_random random;
  struct twins twins;
  kc_random_init(&random, seed, "event twins", 0);
  const struct mix mix = draw_mix(&random, seed % 8 == 7);
  bool agree = twins_init(&twins, &mix, naive);
  uint64_t step = 0;
  for (; agree && (step < steps || twins.count > 0); ++step) {
    const bool push = step < steps && kc_random_chance(&random, mix.push_in_100, 100);
    agree = push ? step_push(&twins, &mix, &random) : step_pop(&twins);
    if (step % VALIDATE_EVERY == 0) {
      agree = agree && kc_events_valid(twins.binary) && kc_events_valid(twins.radix);
    }
  }
  kc_arena_deinit(&twins.arena);
  if (agree) return step;
  fprintf(stderr,
          "the queues disagree: seed=%" PRIu64 " step=%" PRIu64 " (spread %" PRIu64
          " ps, grain %" PRIu64 " ps, push %" PRIu64
          " %%, %u bands, capacity %u); again with --seed %" PRIu64 " --steps %" PRIu64 "\n",
          seed, step, mix.spread_ps, mix.grain_ps, mix.push_in_100, mix.bands, mix.capacity, seed,
          step);
  return 0;
}

int main(int argc, char **argv)
{
  static struct naive_queue naive;
  uint64_t first = 0, end = SEEDS, steps = STEPS_PER_SEED, total = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--steps") == 0) steps = value;
    if (strcmp(argv[i], "--seed") == 0) {
      first = value;
      end = value + 1;
    }
  }
  for (uint64_t seed = first; seed < end; ++seed) {
    const uint64_t done = run_seed(seed, steps, &naive);
    if (done == 0) return 1;
    total += done;
  }
  printf("%" PRIu64 " operations in %" PRIu64 " seeds, no disagreement\n", total, end - first);
  return 0;
}
