/* Random streams: published vectors, independence of streams, exactness of the bounded draws, the
 * logarithm against a bit-by-bit twin, moments and quantiles of the exponential. */
#include "engine/base/random.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/base/vtime.h"
#include "tests/unit/engine_base/expect_abort.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* First outputs for seed 1234567, as in the reference C program of Vigna. */
static void splitmix64_gives_the_published_numbers(void **state)
{
  (void)state;
  static const uint64_t expected[] = {
      UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
      UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
  uint64_t draws = 1234567;
  for (size_t i = 0; i < COUNT_OF(expected); i++) {
    assert_true(kc_splitmix64(&draws) == expected[i]);
  }
}

/* First outputs of xoshiro256++ from the state 1, 2, 3, 4, as in the reference program. */
static void xoshiro256pp_gives_the_published_numbers(void **state)
{
  (void)state;
  static const uint64_t expected[] = {
      UINT64_C(41943041),             UINT64_C(58720359),
      UINT64_C(3588806011781223),     UINT64_C(3591011842654386),
      UINT64_C(9228616714210784205),  UINT64_C(9973669472204895162),
      UINT64_C(14011001112246962877), UINT64_C(12406186145184390807),
      UINT64_C(15849039046786891736), UINT64_C(10450023813501588000)};
  struct kc_random random = {.state = {1, 2, 3, 4}};
  for (size_t i = 0; i < COUNT_OF(expected); i++) {
    assert_true(kc_random_u64(&random) == expected[i]);
  }
}

struct stream_row {
  uint64_t seed;
  const char *stream;
  uint64_t entity;
  uint64_t first[3];
};

/* Worked out by a separate program in arbitrary-precision integers, from the recipe: key =
 * splitmix(seed) ^ fnv1a(name), key = splitmix(key) ^ entity, key = splitmix(key), four words. A
 * change here changes every result of every seed. */
static const struct stream_row streams[] = {
    {1, "arrivals", 0,
     {UINT64_C(568773606048902305), UINT64_C(5841683406574056082), UINT64_C(17985663276199634608)}},
    {1, "arrivals", 1,
     {UINT64_C(18207744080775992762), UINT64_C(2904193814591388478),
      UINT64_C(9250294553830635451)}},
    {1, "lengths", 0,
     {UINT64_C(13717495433204426137), UINT64_C(1443648262964160161),
      UINT64_C(15023596081869350471)}},
    {2, "arrivals", 0,
     {UINT64_C(11531215924944646932), UINT64_C(991712139910639907),
      UINT64_C(15185426157434047777)}},
    {0, "", 0,
     {UINT64_C(9954487371912602348), UINT64_C(6298483855816651271), UINT64_C(61699912254898188)}},
    {UINT64_MAX, "routing-skew", UINT64_MAX,
     {UINT64_C(10628456674461582165), UINT64_C(1074544665003282231),
      UINT64_C(10810060713017546889)}},
};

static void streams_follow_the_recipe(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(streams); i++) {
    struct kc_random random;
    kc_random_init(&random, streams[i].seed, streams[i].stream, streams[i].entity);
    for (unsigned k = 0; k < 3; k++) {
      if (kc_random_u64(&random) != streams[i].first[k]) fail_msg("row %zu draw %u", i, k);
    }
  }
}

/* Two streams that shared anything would agree in more bits than half: 64,000 bits each, six
 * standard deviations (126.5) of 32,000. */
static void neighbouring_streams_share_nothing(void **state)
{
  (void)state;
  enum { ENTITIES = 40, DRAWS = 1000 };
  for (uint64_t entity = 0; entity < ENTITIES; entity++) {
    struct kc_random one;
    struct kc_random other;
    kc_random_init(&one, 7, "arrivals", entity);
    kc_random_init(&other, 7, "arrivals", entity + 1);
    unsigned equal_bits = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
      const uint64_t differing = kc_random_u64(&one) ^ kc_random_u64(&other);
      equal_bits += 64 - (unsigned)__builtin_popcountll(differing);
    }
    assert_in_range(equal_bits, 32000 - 759, 32000 + 759);
  }
}

/* For a power of two nothing is rejected and the draw is the high bits. */
static void below_a_power_of_two_is_the_high_bits(void **state)
{
  (void)state;
  struct kc_random random;
  struct kc_random twin;
  kc_random_init(&random, 3, "below", 0);
  kc_random_init(&twin, 3, "below", 0);
  for (unsigned i = 0; i < 10000; i++) {
    const unsigned bits = 1 + i % 63;
    const uint64_t expected = kc_random_u64(&twin) >> (64 - bits);
    assert_true(kc_random_below(&random, UINT64_C(1) << bits) == expected);
  }
  for (unsigned i = 0; i < 100; i++) assert_int_equal(kc_random_below(&random, 1), 0);
}

/* Small bounds: every value equally often. 600,000 draws; chi-square with bound - 1 degrees of
 * freedom stays below mean + 6 sigma + 20. */
static void below_is_uniform(void **state)
{
  (void)state;
  enum { DRAWS = 600000 };
  static const unsigned bounds[] = {2, 3, 5, 6, 7, 10, 100};
  for (size_t b = 0; b < COUNT_OF(bounds); b++) {
    const unsigned bound = bounds[b];
    unsigned seen[100] = {0};
    struct kc_random random;
    kc_random_init(&random, 11, "uniform", bound);
    for (unsigned i = 0; i < DRAWS; i++) seen[kc_random_below(&random, bound)]++;
    const double expected = (double)DRAWS / bound;
    double chi_square = 0;
    for (unsigned v = 0; v < bound; v++) {
      chi_square += (seen[v] - expected) * (seen[v] - expected) / expected;
    }
    /* sigma = sqrt(2 k) <= 14.1 for the largest; 6 sigma = 85 */
    if (chi_square > bound - 1 + 85 + 20) fail_msg("bound %u: chi-square %f", bound, chi_square);
  }
}

/* With 3 * 2^62 a quarter of the draws must be rejected. Two wrong ways show here: the remainder
 * alone gives the thirds of the range 1/2 : 1/4 : 1/4, the high word alone the residues mod 3. */
static void below_a_large_bound_is_uniform(void **state)
{
  (void)state;
  enum { DRAWS = 400000 };
  const uint64_t bound = UINT64_C(3) << 62;
  unsigned third[3] = {0};
  unsigned residue[3] = {0};
  struct kc_random random;
  kc_random_init(&random, 12, "large", 0);
  for (unsigned i = 0; i < DRAWS; i++) {
    const uint64_t draw = kc_random_below(&random, bound);
    assert_true(draw < bound);
    third[draw >> 62]++;
    residue[draw % 3]++;
  }
  /* sigma = sqrt(400000 * 1/3 * 2/3) = 298; six of them */
  for (unsigned i = 0; i < 3; i++) {
    assert_in_range(third[i], 133333 - 1790, 133333 + 1790);
    assert_in_range(residue[i], 133333 - 1790, 133333 + 1790);
  }
}

static void chance_has_its_probability(void **state)
{
  (void)state;
  enum { DRAWS = 300000 };
  struct kc_random random;
  kc_random_init(&random, 13, "chance", 0);
  unsigned hits = 0;
  for (unsigned i = 0; i < DRAWS; i++) {
    assert_false(kc_random_chance(&random, 0, 5));
    assert_true(kc_random_chance(&random, 5, 5));
    assert_true(kc_random_chance(&random, UINT64_MAX, UINT64_MAX));
    hits += kc_random_chance(&random, 3, 10);
  }
  /* sigma = sqrt(300000 * 0.3 * 0.7) = 251; six of them */
  assert_in_range(hits, 90000 - 1506, 90000 + 1506);
}

/* The twin finds log2 one bit at a time: squaring doubles the logarithm, and a bit is set when the
 * square passes 2. Forty-eight bits leave an error of 2^-48 ln 2, far below a unit of 2^-40. */
static uint64_t naive_neg_ln_q40(uint64_t u)
{
  unsigned exponent = 64;
  while (u >> 63 == 0) {
    u <<= 1;
    exponent++;
  }
  exponent -= 63; /* u / 2^64 = (m / 2^63) * 2^-exponent */
  uint64_t m = u;
  uint64_t log2_q48 = 0;
  for (unsigned i = 0; i < 48; i++) {
    const kc_u128 square = (kc_u128)m * m; /* in units of 2^-126 */
    const bool bit = square >> 127 != 0;
    m = (uint64_t)(square >> (bit ? 64 : 63));
    log2_q48 = log2_q48 << 1 | bit;
  }
  const uint64_t neg_log2_q48 = ((uint64_t)exponent << 48) - log2_q48;
  /* floor(2^64 ln 2), ln 2 = 0.693147180559945309417232121458... (OEIS A002162) */
  const uint64_t ln2_q64 = UINT64_C(0xb17217f7d1cf79ab);
  const kc_u128 product = (kc_u128)neg_log2_q48 * ln2_q64; /* in units of 2^-112 */
  return (uint64_t)((product + ((kc_u128)1 << 71)) >> 72);
}

/* The header allows 4 units. The method gives half a unit of rounding and 0.08 of series; 0.625
 * (160 in units of 2^-40) leaves room for nothing else. */
static void assert_ln_agrees(uint64_t u)
{
  const uint64_t got = kc_neg_ln_q32(u) << 8;
  const uint64_t expected = naive_neg_ln_q40(u);
  const uint64_t distance = got > expected ? got - expected : expected - got;
  if (distance > 160) {
    fail_msg("u=%" PRIu64 ": %" PRIu64 " / 256, twin %" PRIu64 " / 256", u, got, expected);
  }
}

static void the_logarithm_agrees_with_its_twin(void **state)
{
  (void)state;
  uint64_t draws = 21;
  for (unsigned i = 0; i < 200000; i++) {
    const uint64_t u = kc_splitmix64(&draws) >> (i % 64);
    if (u > 0) assert_ln_agrees(u);
  }
  for (unsigned shift = 0; shift < 64; shift++) { /* powers of two, and where sqrt 2 splits them */
    const uint64_t power = UINT64_C(1) << shift;
    const uint64_t split = UINT64_C(0xb504f333f9de6484) >> (63 - shift);
    for (uint64_t step = 0; step < 5; step++) {
      assert_ln_agrees(power + step);
      if (power > step) assert_ln_agrees(power - step);
      assert_ln_agrees(split + step);
      if (split > step) assert_ln_agrees(split - step);
    }
  }
  for (uint64_t step = 0; step < 1000; step++) assert_ln_agrees(UINT64_MAX - step);
}

struct ln_row {
  uint64_t u;
  uint64_t neg_ln_q32; /* -ln(u / 2^64) * 2^32 to the nearest integer, in 60 digits elsewhere */
};

static const struct ln_row logarithms[] = {
    {1, UINT64_C(190530846196)},
    {2, UINT64_C(187553801725)},
    {3, UINT64_C(185812342346)},
    {10, UINT64_C(180641318526)},
    {UINT64_C(1) << 31, UINT64_C(98242467570)},
    {(UINT64_C(1) << 32) - 1, UINT64_C(95265423099)},
    {UINT64_C(1) << 32, UINT64_C(95265423098)},
    {UINT64_C(1000000000000000), UINT64_C(42187931136)},
    {UINT64_C(10000000000000000000), UINT64_C(2629820454)},
    {UINT64_C(12345678901234567890), UINT64_C(1724780554)},
    {UINT64_C(0xb504f333f9de6484), UINT64_C(1488522236)}, /* sqrt 1/2: half of ln 2 */
    {UINT64_C(0x8000000000000000), UINT64_C(2977044472)}, /* ln 2 */
    {UINT64_C(0xffffffff00000000), 1},
    {UINT64_MAX, 0},
};

static void known_logarithms(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(logarithms); i++) {
    const uint64_t got = kc_neg_ln_q32(logarithms[i].u);
    const uint64_t expected = logarithms[i].neg_ln_q32;
    if (got > expected + 1 || got + 1 < expected) {
      fail_msg("row %zu: %" PRIu64 ", expected %" PRIu64, i, got, expected);
    }
  }
}

static void the_logarithm_never_rises(void **state)
{
  (void)state;
  uint64_t draws = 22;
  for (unsigned i = 0; i < 200000; i++) {
    const uint64_t u = (kc_splitmix64(&draws) >> (i % 63)) | 1;
    const uint64_t next = u + (kc_splitmix64(&draws) & 1023);
    if (next > u) assert_true(kc_neg_ln_q32(u) >= kc_neg_ln_q32(next));
  }
}

/* 10^6 draws of mean 10^6: the mean has a standard error of 1,000, the variance (10^12) one of
 * sqrt(8) * 10^9; five of each. */
static void the_exponential_has_its_moments(void **state)
{
  (void)state;
  enum { DRAWS = 1000000 };
  struct kc_random random;
  kc_random_init(&random, 1, "exponential", 0);
  double sum = 0;
  double squares = 0;
  for (unsigned i = 0; i < DRAWS; i++) {
    const double draw = (double)kc_random_exponential(&random, 1000000);
    sum += draw;
    squares += draw * draw;
  }
  const double mean = sum / DRAWS;
  const double variance = squares / DRAWS - mean * mean;
  if (mean < 995000 || mean > 1005000) fail_msg("mean %f", mean);
  if (variance < 0.985e12 || variance > 1.015e12) fail_msg("variance %f", variance);
}

/* ln(16 / k), k = 15 .. 1, in 10^-9: between two of them lies a sixteenth of the draws. */
static const uint64_t sixteenths[] = {64538521,   133531393,  207639365,  287682072,  374693449,
                                      470003629,  575364145,  693147181,  826678573,  980829253,
                                      1163150810, 1386294361, 1673976434, 2079441542, 2772588722};

static void the_exponential_has_its_quantiles(void **state)
{
  (void)state;
  enum { DRAWS = 400000 };
  unsigned seen[16] = {0};
  struct kc_random random;
  kc_random_init(&random, 2, "exponential", 0);
  for (unsigned i = 0; i < DRAWS; i++) {
    const uint64_t draw = kc_random_exponential(&random, 1000000000);
    unsigned bin = 0;
    while (bin < 15 && draw > sixteenths[bin]) bin++;
    seen[bin]++;
  }
  /* 25,000 each; sigma = sqrt(400000 * 1/16 * 15/16) = 153; six of them */
  for (unsigned bin = 0; bin < 16; bin++) assert_in_range(seen[bin], 25000 - 919, 25000 + 919);
}

static void the_exponential_takes_every_allowed_mean(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 3, "exponential", 0);
  for (unsigned i = 0; i < 1000; i++) {
    assert_true(kc_random_exponential(&random, 1) <= 44);
    assert_true(kc_random_exponential(&random, KC_RANDOM_MEAN_MAX) / 45 < KC_RANDOM_MEAN_MAX);
  }
}

/* Rounded, not cut: with mean 1 the result is 0 for draws below a half, 1 - exp(-1/2) = 0.39347 of
 * them. 200,000 draws; sigma = sqrt(200000 * 0.39347 * 0.60653) = 218; six of them. */
static void the_exponential_is_rounded(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 4, "exponential", 0);
  unsigned zeros = 0;
  for (unsigned i = 0; i < 200000; i++) zeros += kc_random_exponential(&random, 1) == 0;
  assert_in_range(zeros, 78694 - 1311, 78694 + 1311);
}

static void draw_below_zero(void *context) { (void)kc_random_below(context, 0); }
static void draw_of_mean_zero(void *context) { (void)kc_random_exponential(context, 0); }
static void draw_of_mean_too_large(void *context)
{
  (void)kc_random_exponential(context, KC_RANDOM_MEAN_MAX + 1);
}
static void draw_more_than_certain(void *context) { (void)kc_random_chance(context, 3, 2); }
static void draw_from_zero_state(void *context)
{
  *(struct kc_random *)context = (struct kc_random){0};
  (void)kc_random_u64(context);
}

static void misuse_is_stopped(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 1, "misuse", 0);
  expect_abort(draw_below_zero, &random, "bound > 0");
  expect_abort(draw_of_mean_zero, &random, "mean > 0");
  expect_abort(draw_of_mean_too_large, &random, "KC_RANDOM_MEAN_MAX");
  expect_abort(draw_more_than_certain, &random, "numerator <= denominator");
  expect_abort(draw_from_zero_state, &random, "s[3]) != 0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splitmix64_gives_the_published_numbers),
      cmocka_unit_test(xoshiro256pp_gives_the_published_numbers),
      cmocka_unit_test(streams_follow_the_recipe),
      cmocka_unit_test(neighbouring_streams_share_nothing),
      cmocka_unit_test(below_a_power_of_two_is_the_high_bits),
      cmocka_unit_test(below_is_uniform),
      cmocka_unit_test(below_a_large_bound_is_uniform),
      cmocka_unit_test(chance_has_its_probability),
      cmocka_unit_test(the_logarithm_agrees_with_its_twin),
      cmocka_unit_test(known_logarithms),
      cmocka_unit_test(the_logarithm_never_rises),
      cmocka_unit_test(the_exponential_has_its_moments),
      cmocka_unit_test(the_exponential_has_its_quantiles),
      cmocka_unit_test(the_exponential_takes_every_allowed_mean),
      cmocka_unit_test(the_exponential_is_rounded),
      cmocka_unit_test(misuse_is_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
