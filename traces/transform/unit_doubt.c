/* A unit is doubted only when another one does better: the units are tried one by one, and that
 * whose rate is nearest to what services see wins.
 *
 *   19,366 rows of 1,366 tokens over 3,501 (as written, read in ms)
 *     ms   3.5 s     5,531 requests/s   7.6 M tokens/s      nobody serves that
 *     s    3,501 s   5.5 requests/s     7.6 k tokens/s      plausible
 *
 * The largest public service traces see up to 3,900 requests/s and 0.6 M tokens/s (Alibaba's
 * ServeGen pools), so 10,000 and 4 M are beyond doubt; the slowest logs without sessions see one
 * request in 30 s (the first hours of BurstGPT). Formats in nanoseconds or picoseconds name their
 * unit in the column; there only the rate counts, since made traces may overload on purpose.
 * Sessions are left alone on the slow side: people and agents may think for hours. */
#include "traces/transform/unit_doubt.h"

#include "engine/base/check.h"

enum { ROWS_MIN = 20, SLOW_ROWS_MIN = 100 };
#define RATE_MAX_MICRO UINT64_C(10000000000)       /* 10,000 requests/s */
#define PLAUSIBLE_RATE_MAX_MICRO UINT64_C(4000000000)
#define RATE_MIN_MICRO UINT64_C(16667)             /* one a minute */
#define TYPICAL_RATE_MICRO UINT64_C(3000000)       /* 3 requests/s: Azure's, Mooncake's */
#define TOKENS_PER_S_MAX UINT64_C(4000000)
#define YEAR_2015_S INT64_C(1420070400)
#define YEAR_2040_S INT64_C(2208988800)

/* The trace as it would be with times in some unit. */
struct reading {
  kc_u128 span_ps;
  uint64_t rate_micro, tokens_per_s;
};

static uint64_t per_second(kc_u128 things, kc_u128 span_ps)
{
  const kc_u128 rate = things * (kc_u128)KC_PS_PER_S / span_ps;
  KC_ASSERT(span_ps > 0);
  return rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
}

static kc_u128 power_of_1000(int exponent)
{
  kc_u128 power = 1;
  KC_ASSERT(exponent >= 0 && exponent <= 4);
  for (int i = 0; i < exponent; i++) power *= 1000;
  return power;
}

/* `finer`: by how many thousands the other unit is smaller than the one in force. */
static struct reading read_in(const struct kc_trace_stats *stats, int finer)
{
  const kc_u128 span = (kc_u128)stats->span_ps;
  struct reading r;
  r.span_ps = finer < 0 ? span * power_of_1000(-finer) : span / power_of_1000(finer);
  if (r.span_ps == 0) r.span_ps = 1;
  r.rate_micro = per_second((kc_u128)stats->rows * 1000000, r.span_ps);
  r.tokens_per_s = per_second((kc_u128)stats->input.total + stats->output.total, r.span_ps);
  return r;
}

static bool is_plausible(const struct reading *r)
{
  return r->rate_micro >= RATE_MIN_MICRO && r->rate_micro <= PLAUSIBLE_RATE_MAX_MICRO &&
         r->tokens_per_s <= TOKENS_PER_S_MAX;
}

/* How many times off the typical rate, in thousandths. */
static uint64_t distance(const struct reading *r)
{
  const kc_u128 a = r->rate_micro > 0 ? r->rate_micro : 1, b = TYPICAL_RATE_MICRO;
  const kc_u128 times = (a > b ? a * 1000 / b : b * 1000 / a);
  return times > UINT64_MAX ? UINT64_MAX : (uint64_t)times;
}

/* Whole seconds since 1970 when `seconds` were counted in the unit in force. */
static bool is_date(int64_t seconds, int finer)
{
  kc_i128 s = seconds;
  if (finer < 0) {
    s *= (kc_i128)power_of_1000(-finer);
  } else {
    s /= (kc_i128)power_of_1000(finer);
  }
  return s >= YEAR_2015_S && s < YEAR_2040_S;
}

static enum kc_unit_reason suspect(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                                   const struct reading *now)
{
  const bool named = trace->time_unit == KC_UNIT_NS || trace->time_unit == KC_UNIT_PS;
  if (now->rate_micro > RATE_MAX_MICRO) return KC_UNIT_FAST;
  if (!named && now->tokens_per_s > TOKENS_PER_S_MAX) return KC_UNIT_FAST;
  const bool alone = stats->sessions == 0 && stats->closed_rows == 0;
  const bool slow = alone && stats->rows >= SLOW_ROWS_MIN && now->rate_micro < RATE_MIN_MICRO;
  return slow ? KC_UNIT_SLOW : KC_UNIT_FITS;
}

static void fill(struct kc_unit_doubt *doubt, enum kc_unit_reason reason, enum kc_time_unit better,
                 const struct reading *now, const struct reading *then)
{
  *doubt = (struct kc_unit_doubt){
      .reason = reason, .better = better, .rate_micro = now->rate_micro,
      .better_rate_micro = then->rate_micro, .tokens_per_s = now->tokens_per_s,
      .span_ms = (uint64_t)(now->span_ps / (kc_u128)KC_PS_PER_MS)};
  const kc_u128 ms = then->span_ps / (kc_u128)KC_PS_PER_MS;
  doubt->better_span_ms = ms > UINT64_MAX ? UINT64_MAX : (uint64_t)ms;
}

/* A first time in another unit that is a date is proof enough, whatever the rate. */
static bool doubt_epoch(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                        const struct reading *now, struct kc_unit_doubt *doubt)
{
  for (int unit = KC_UNIT_S; unit <= KC_UNIT_PS; unit++) {
    const int finer = unit - (int)trace->time_unit;
    if (!is_date(trace->start_s, finer)) continue;
    const struct reading then = read_in(stats, finer);
    fill(doubt, KC_UNIT_EPOCH, (enum kc_time_unit)unit, now, &then);
    return true;
  }
  return false;
}

void kc_trace_doubt_unit(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                         struct kc_unit_doubt *doubt)
{
  struct reading best = {0, 0, 0};
  enum kc_time_unit better = KC_UNIT_FORMAT;
  KC_ASSERT(trace->count > 0 && stats->rows == trace->count);
  *doubt = (struct kc_unit_doubt){.reason = KC_UNIT_FITS};
  if (trace->time_unit == KC_UNIT_FORMAT || is_date(trace->start_s, 0)) return;
  const struct reading now = read_in(stats, 0);
  if (doubt_epoch(trace, stats, &now, doubt)) return;
  if (stats->rows < ROWS_MIN || stats->span_ps == 0) return;
  const enum kc_unit_reason reason = suspect(trace, stats, &now);
  for (int unit = KC_UNIT_S; unit <= KC_UNIT_PS && reason != KC_UNIT_FITS; unit++) {
    const struct reading then = read_in(stats, unit - (int)trace->time_unit);
    if (!is_plausible(&then)) continue;
    if (better != KC_UNIT_FORMAT && distance(&then) >= distance(&best)) continue;
    better = (enum kc_time_unit)unit;
    best = then;
  }
  if (better != KC_UNIT_FORMAT) fill(doubt, reason, better, &now, &best);
}
