/* Random streams: xoshiro256++ seeded by splitmix64 of (run seed, stream name, entity id), so that
 * adding an entity never moves another's draws. Integer interface; the same numbers everywhere.
 * Algorithms: Blackman and Vigna, public domain descriptions (prng.di.unimi.it). */
#ifndef KC_ENGINE_BASE_RANDOM_H
#define KC_ENGINE_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct kc_random {
  uint64_t state[4]; /* never all zero */
};

void kc_random_init(struct kc_random *random, uint64_t seed, const char *stream, uint64_t entity);

uint64_t kc_random_u64(struct kc_random *random);

/* Uniform in [0, bound), by rejection; bound > 0. */
uint64_t kc_random_below(struct kc_random *random, uint64_t bound);

/* True with probability numerator / denominator; 0 <= numerator <= denominator, denominator > 0. */
bool kc_random_chance(struct kc_random *random, uint64_t numerator, uint64_t denominator);

/* Exponential with the given mean, from our own logarithm in integer arithmetic (libm picks FMA
 * variants at run time, which would break same-seed-same-bytes). 0 < mean <= KC_RANDOM_MEAN_MAX;
 * the result is rounded to an integer of the mean's unit; the largest result is about 44 times the
 * mean. */
#define KC_RANDOM_MEAN_MAX (UINT64_C(1) << 58) /* 80 hours in picoseconds; 44.4 * 2^58 < 2^64 */
uint64_t kc_random_exponential(struct kc_random *random, uint64_t mean);

/* -ln(u / 2^64) in 2^-32 units for u > 0, error at most 4 units. Shared by the samplers. */
uint64_t kc_neg_ln_q32(uint64_t u);

/* One step of splitmix64: advances *state and returns the draw. */
uint64_t kc_splitmix64(uint64_t *state);

#endif
