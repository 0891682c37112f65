/* Random streams, in integers only.
 *
 *   run seed --+-- stream name --+-- entity id --+--> splitmix64 x 4 --> state[4] --> xoshiro256++
 *              |                 |               |
 *           scrambled after every step, so that near seeds and near ids share nothing
 *
 * Each (seed, name, entity) has a stream of its own: one more replica, or one more request, leaves
 * the draws of all others where they were. The caller owns struct kc_random; no global state.
 *
 * Nothing here is floating point. libm chooses between FMA and plain variants at run time and so
 * gives different last bits on different machines; the logarithm below does not. */
#include "engine/base/random.h"

#include "engine/base/check.h"
#include "engine/base/digest.h"
#include "engine/base/vtime.h"

uint64_t kc_splitmix64(uint64_t *state)
{
  KC_ASSERT(state != NULL);
  *state += UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio, made odd */
  return kc_mix64(*state);
}

/* FNV-1a, 64 bit (offset basis and prime as published by Fowler, Noll and Vo). */
static uint64_t hash_name(const char *name)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (const char *c = name; *c != '\0'; c++) {
    hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  }
  return hash;
}

void kc_random_init(struct kc_random *random, uint64_t seed, const char *stream, uint64_t entity)
{
  KC_ASSERT(random != NULL);
  KC_ASSERT(stream != NULL);
  uint64_t key = seed;
  key = kc_splitmix64(&key) ^ hash_name(stream);
  key = kc_splitmix64(&key) ^ entity;
  key = kc_splitmix64(&key);
  for (unsigned i = 0; i < 4; i++) random->state[i] = kc_splitmix64(&key);
  /* kc_mix64 is a bijection and the four inputs differ, so at most one word is zero. */
  KC_ASSERT((random->state[0] | random->state[1]) != 0);
}

static inline uint64_t rotate_left(uint64_t x, unsigned bits)
{
  return (x << bits) | (x >> (64 - bits));
}

/* xoshiro256++ 1.0. */
uint64_t kc_random_u64(struct kc_random *random)
{
  uint64_t *s = random->state;
  KC_ASSERT((s[0] | s[1] | s[2] | s[3]) != 0);
  const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
  const uint64_t shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = rotate_left(s[3], 45);
  return result;
}

/* The high word of draw * bound is uniform once the draws whose low word falls below 2^64 mod bound
 * are rejected (D. Lemire, "Fast Random Integer Generation in an Interval", 2019). The remainder
 * is computed only when the low word is small enough to matter. */
uint64_t kc_random_below(struct kc_random *random, uint64_t bound)
{
  KC_ASSERT(bound > 0);
  kc_u128 product = (kc_u128)kc_random_u64(random) * bound;
  if ((uint64_t)product < bound) {
    const uint64_t rejected = (0 - bound) % bound; /* 2^64 mod bound */
    while ((uint64_t)product < rejected) product = (kc_u128)kc_random_u64(random) * bound;
  }
  const uint64_t result = (uint64_t)(product >> 64);
  KC_ASSERT(result < bound);
  return result;
}

bool kc_random_chance(struct kc_random *random, uint64_t numerator, uint64_t denominator)
{
  KC_ASSERT(denominator > 0);
  KC_ASSERT(numerator <= denominator);
  return kc_random_below(random, denominator) < numerator;
}

/* ln(g) for g in [1/sqrt 2, sqrt 2), argument and result in units of 2^-62.
 *
 *   ln g = 2 atanh t = 2 (t + t^3/3 + t^5/5 + ...),   t = (g - 1) / (g + 1),  |t| <= 0.1716
 *
 * Six terms: the first one left out is 2 t^13 / 13 <= 1.8e-11 = 0.08 units of 2^-32, and the
 * roundings of 2^-62 vanish beside that. The coefficients 1/3 ... 1/11 need no table: they are
 * integer divisions that the compiler folds. */
static int64_t ln_near_one_q62(uint64_t g)
{
  const uint64_t one = UINT64_C(1) << 62;
  KC_ASSERT(g > one / 2 && g < one + one / 2);
  const uint64_t distance = g < one ? one - g : g - one;
  const uint64_t t = (uint64_t)(((kc_u128)distance << 62) / (g + one));
  const uint64_t t2 = (uint64_t)(((kc_u128)t * t) >> 62);
  const uint64_t coefficient[] = {one / 11, one / 9, one / 7, one / 5, one / 3, one};
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof coefficient / sizeof coefficient[0]; i++) {
    sum = coefficient[i] + (uint64_t)(((kc_u128)sum * t2) >> 62);
  }
  const int64_t ln = (int64_t)(((kc_u128)t * sum) >> 61); /* the factor 2 is in the shift */
  return g < one ? -ln : ln;
}

/* u / 2^64 = g * 2^-exponent with g in [1/sqrt 2, sqrt 2), so -ln = exponent ln 2 - ln g. */
uint64_t kc_neg_ln_q32(uint64_t u)
{
  const uint64_t ln2_q62 = UINT64_C(0x2c5c85fdf473de6a);       /* floor(2^62 ln 2) */
  const uint64_t sqrt2_q63 = UINT64_C(0xb504f333f9de6484);     /* floor(2^63 sqrt 2) */
  KC_ASSERT(u > 0);
  const unsigned shift = (unsigned)__builtin_clzll(u);
  const uint64_t m = u << shift; /* u / 2^64 = (m / 2^63) * 2^-(shift + 1), m / 2^63 in [1, 2) */
  const bool halve = m > sqrt2_q63;
  const unsigned exponent = halve ? shift : shift + 1;
  const int64_t ln_g = ln_near_one_q62(halve ? m >> 2 : m >> 1);
  const kc_i128 neg_ln_q62 = (kc_i128)exponent * (kc_i128)ln2_q62 - ln_g;
  KC_ASSERT(neg_ln_q62 >= 0);
  return (uint64_t)((neg_ln_q62 + (INT64_C(1) << 29)) >> 30);
}

/* Inversion: -mean * ln U. U = 0 is drawn again; its weight is 2^-64. */
uint64_t kc_random_exponential(struct kc_random *random, uint64_t mean)
{
  KC_ASSERT(mean > 0);
  KC_ASSERT(mean <= KC_RANDOM_MEAN_MAX);
  uint64_t u;
  do {
    u = kc_random_u64(random);
  } while (u == 0);
  const kc_u128 product_q32 = (kc_u128)mean * kc_neg_ln_q32(u);
  return (uint64_t)((product_q32 + (UINT64_C(1) << 31)) >> 32);
}
