/* Log-linear histogram (see histogram.h): the bucket is the value's top 11 bits and their place.
 *
 *   value 0 .. 1023          one bucket each
 *   value 2^k .. 2^(k+1)-1   1024 buckets of 2^(k-10) each, k >= 10
 */
#include "sim/metrics/histogram.h"

size_t kc_histogram_need(void)
{
  return kc_arena_need(KC_HISTOGRAM_BUCKETS, sizeof(uint64_t));
}

enum kc_err kc_histogram_init(struct kc_histogram *histogram, struct kc_arena *arena)
{
  *histogram = (struct kc_histogram){.min_ps = KC_PS_NEVER, .max_ps = 0};
  histogram->count = kc_arena_take(arena, KC_HISTOGRAM_BUCKETS, sizeof(uint64_t));
  return histogram->count != NULL ? KC_OK : KC_ERR_MEMORY;
}

uint64_t kc_histogram_bucket_low(uint32_t bucket)
{
  KC_ASSERT(bucket <= KC_HISTOGRAM_BUCKETS);
  if (bucket < 2048) return bucket; /* exact, and the first octave of width 1 */
  const uint32_t shift = (bucket >> KC_HISTOGRAM_SUB_BITS) - 1;
  return (uint64_t)((bucket & 1023) | 1024) << shift;
}

kc_ps kc_histogram_percentile(const struct kc_histogram *histogram, uint32_t numerator,
                              uint32_t denominator)
{
  KC_ASSERT(numerator > 0 && numerator <= denominator);
  if (histogram->total == 0) return KC_PS_NEVER;
  const kc_u128 scaled = (kc_u128)histogram->total * numerator;
  const uint64_t rank = (uint64_t)((scaled + denominator - 1) / denominator); /* 1-based */
  uint64_t seen = 0;
  uint32_t bucket = kc_histogram_bucket((uint64_t)histogram->min_ps);
  for (; seen + histogram->count[bucket] < rank; bucket++) seen += histogram->count[bucket];
  KC_ASSERT(bucket <= kc_histogram_bucket((uint64_t)histogram->max_ps));
  const uint64_t low = kc_histogram_bucket_low(bucket);
  const uint64_t width = kc_histogram_bucket_low(bucket + 1) - low;
  kc_ps value = (kc_ps)(low + (width - 1) / 2);
  if (value < histogram->min_ps) value = histogram->min_ps;
  if (value > histogram->max_ps) value = histogram->max_ps;
  return value;
}
