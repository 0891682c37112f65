/* Rates in steps: a day in hours, a weekend, bursts.
 *
 *        .-.     .-.            hour of the day x weekday or weekend x burst, cut at every change:
 *    .--'   '---'   '-.  ,      piece 0 | piece 1 | ...     rate_nhz constant in each
 *   '                  '-'
 *
 * The position is kept as the integral used within the piece, so nothing drifts: the time of an
 * arrival is one division. The curve owns its pieces. */
#include "traces/synth/synth_rate.h"

#include <stdlib.h>

#include "traces/synth/fixed_math.h"

enum { PIECES_MAX = 1000000, HOURS_A_DAY = 24, HOURS_A_WEEK = 168, WEEKDAY_HOURS = 120 };

static const kc_ps hour_ps = 3600 * KC_PS_PER_S;

/* Shape of a day in thousandths, sum 0: lowest before dawn, highest in the early afternoon, as the
 * week of the Azure LLM inference trace 2024 shows (Stojkovic et al., DynamoLLM, HPCA 2025). */
static const int16_t day_shape[HOURS_A_DAY] = {
  -640, -760, -860, -940, -1000, -960, -820, -520, -60, 420, 680, 780,
  820, 960, 1000, 940, 800, 560, 340, 180, 80, -100, -360, -540,
};

enum kc_err kc_rate_curve_add(struct kc_rate_curve *curve, kc_ps until_ps, uint64_t rate_nhz,
                              struct kc_diag *diag)
{
  KC_ASSERT(until_ps > 0);
  KC_ASSERT(curve->count == 0 || until_ps > curve->piece[curve->count - 1].until_ps);
  if (rate_nhz > KC_RATE_MAX_NHZ) {
    return kc_fail(diag, KC_ERR_LIMIT,
                   "the rate passes 1,000,000 requests per second; lower the rate or the bursts");
  }
  if (curve->count == curve->capacity) {
    if (curve->capacity >= PIECES_MAX) {
      return kc_fail(diag, KC_ERR_LIMIT, "the rate changes more than %d times; make bursts rarer",
                     PIECES_MAX);
    }
    const size_t capacity = curve->capacity == 0 ? 64 : 2 * curve->capacity;
    struct kc_rate_piece *piece = realloc(curve->piece, capacity * sizeof *piece);
    if (piece == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
    curve->piece = piece;
    curve->capacity = capacity;
  }
  curve->piece[curve->count++] = (struct kc_rate_piece){until_ps, rate_nhz};
  return KC_OK;
}

void kc_rate_curve_free(struct kc_rate_curve *curve)
{
  free(curve->piece);
  *curve = (struct kc_rate_curve){0};
}

/* The rate in an hour of the week: the mean of the 168 is spec->rate_nhz. */
static uint64_t rate_of_hour(const struct kc_rate_spec *spec, uint64_t hour)
{
  if (!spec->weekly) return spec->rate_nhz;
  KC_ASSERT(spec->diurnal_nano <= (uint64_t)KC_NANO);
  hour %= HOURS_A_WEEK;
  const uint64_t nano = (uint64_t)KC_NANO;
  const int64_t swing = (int64_t)spec->diurnal_nano * day_shape[hour % HOURS_A_DAY] / 1000;
  const uint64_t hour_nano = (uint64_t)((int64_t)nano + swing);
  const uint64_t week = 5 * nano + 2 * spec->weekend_nano; /* seven days' worth of weekdays */
  const uint64_t day_nano =
      kc_muldiv_round(hour < WEEKDAY_HOURS ? nano : spec->weekend_nano, 7 * nano, week);
  return kc_muldiv_round(kc_muldiv_round(spec->rate_nhz, hour_nano, nano), day_nano, nano);
}

struct burst {
  kc_ps from_ps, until_ps;
};

/* The burst after one that ended at `after_ps`. */
static struct burst next_burst(const struct kc_rate_spec *spec, kc_ps after_ps, kc_ps duration_ps,
                               struct kc_random *random)
{
  const struct burst never = {KC_PS_NEVER, KC_PS_NEVER};
  if (spec->burst_every_ps == 0) return never;
  const uint64_t wait = kc_random_exponential(random, (uint64_t)spec->burst_every_ps);
  if (wait >= (uint64_t)(duration_ps - after_ps)) return never;
  const kc_ps from_ps = after_ps + (kc_ps)wait;
  const kc_ps rest_ps = duration_ps - from_ps;
  return (struct burst){from_ps, from_ps + (spec->burst_length_ps < rest_ps
                                            ? spec->burst_length_ps : rest_ps)};
}

static kc_ps earlier(kc_ps a, kc_ps b)
{
  return a < b ? a : b;
}

enum kc_err kc_rate_curve_build(struct kc_rate_curve *curve, const struct kc_rate_spec *spec,
                                kc_ps duration_ps, uint64_t seed, struct kc_diag *diag)
{
  const uint64_t start_ps = (uint64_t)(spec->start_ps % (HOURS_A_WEEK * hour_ps));
  struct kc_random random;
  KC_ASSERT(duration_ps > 0);
  KC_ASSERT(spec->burst_every_ps == 0 || spec->burst_length_ps > 0);
  kc_random_init(&random, seed, "synth bursts", 0);
  struct burst burst = next_burst(spec, 0, duration_ps, &random);
  for (kc_ps now = 0; now < duration_ps;) {
    const uint64_t week_ps = (uint64_t)now + start_ps; /* since a Monday 00:00 */
    const bool inside = now >= burst.from_ps;
    kc_ps until = duration_ps;
    if (spec->weekly) {
      const kc_ps into = (kc_ps)(week_ps % (uint64_t)hour_ps);
      until = hour_ps - into < duration_ps - now ? now + (hour_ps - into) : duration_ps;
    }
    until = earlier(until, inside ? burst.until_ps : burst.from_ps);
    uint64_t rate = rate_of_hour(spec, week_ps / (uint64_t)hour_ps);
    if (inside) rate = kc_muldiv_round(rate, spec->burst_factor_nano, (uint64_t)KC_NANO);
    if (until > now) KC_TRY(kc_rate_curve_add(curve, until, rate, diag));
    if (inside && until == burst.until_ps) burst = next_burst(spec, until, duration_ps, &random);
    now = until;
  }
  return KC_OK;
}

void kc_rate_cursor_init(struct kc_rate_cursor *cursor, const struct kc_rate_curve *curve)
{
  KC_ASSERT(curve->count > 0);
  *cursor = (struct kc_rate_cursor){.curve = curve};
}

bool kc_rate_advance(struct kc_rate_cursor *cursor, uint64_t gap_q32, kc_ps *when_ps)
{
  const kc_u128 request = (kc_u128)KC_NANO * (uint64_t)KC_PS_PER_S;
  const struct kc_rate_curve *const curve = cursor->curve;
  /* 2^70 a request: a gap of more than 2^25 means is cut there. */
  const uint64_t gap = gap_q32 < UINT64_C(1) << 57 ? gap_q32 : UINT64_C(1) << 57;
  cursor->used += (request * gap) >> 32;
  for (; cursor->at < curve->count; cursor->at++) {
    const struct kc_rate_piece *const piece = &curve->piece[cursor->at];
    const kc_ps from_ps = cursor->at == 0 ? 0 : piece[-1].until_ps;
    const kc_u128 whole = (kc_u128)(uint64_t)(piece->until_ps - from_ps) * piece->rate_nhz;
    if (cursor->used < whole) {
      *when_ps = from_ps + (kc_ps)(cursor->used / piece->rate_nhz);
      return true;
    }
    cursor->used -= whole;
  }
  return false;
}
