/* Log-linear histogram of durations: 1024 buckets an octave, so a value read back is within
 * 0.05 % of the one put in. Weighted, mergeable, exact counts and sum. */
#ifndef KC_SIM_METRICS_HISTOGRAM_H
#define KC_SIM_METRICS_HISTOGRAM_H

#include "engine/base/arena.h"
#include "engine/base/vtime.h"

enum { KC_HISTOGRAM_SUB_BITS = 10, KC_HISTOGRAM_BUCKETS = (64 - KC_HISTOGRAM_SUB_BITS) * 1024 };

struct kc_histogram {
  uint64_t *count;   /* [KC_HISTOGRAM_BUCKETS] */
  uint64_t total;
  kc_u128 sum_ps;
  kc_ps min_ps, max_ps;
};

size_t kc_histogram_need(void);
enum kc_err kc_histogram_init(struct kc_histogram *histogram, struct kc_arena *arena);

/* Values below 2^10 ps are exact; v -> bucket is monotone. */
static inline uint32_t kc_histogram_bucket(uint64_t value)
{
  if (value < 1024) return (uint32_t)value;
  const unsigned shift = 63u - (unsigned)__builtin_clzll(value) - KC_HISTOGRAM_SUB_BITS;
  return (shift << KC_HISTOGRAM_SUB_BITS) + (uint32_t)(value >> shift);
}
/* Smallest value of a bucket, and of the next. */
uint64_t kc_histogram_bucket_low(uint32_t bucket);

static inline void kc_histogram_add(struct kc_histogram *histogram, kc_ps value, uint64_t weight)
{
  KC_ASSERT(value >= 0);
  histogram->count[kc_histogram_bucket((uint64_t)value)] += weight;
  histogram->total += weight;
  histogram->sum_ps += (kc_u128)(uint64_t)value * weight;
  if (value < histogram->min_ps) histogram->min_ps = value;
  if (value > histogram->max_ps) histogram->max_ps = value;
}

/* Nearest-rank percentile (0 < numerator <= denominator): middle of the bucket that holds the
 * rank, clamped to [min, max]; KC_PS_NEVER when empty. */
kc_ps kc_histogram_percentile(const struct kc_histogram *histogram, uint32_t numerator,
                              uint32_t denominator);

#endif
