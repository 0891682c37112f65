/* Nearest-rank percentiles of a set of durations, by selection: the values are reordered, not
 * sorted. Quickselect with a median of three; after too many rounds on one range the range is
 * heap-sorted, so no input costs more than n log n. */
#include "sim/metrics/metrics.h"

static void swap(kc_ps *a, kc_ps *b)
{
  const kc_ps t = *a;
  *a = *b;
  *b = t;
}

static void sift(kc_ps *v, uint64_t root, uint64_t count)
{
  for (uint64_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && v[child + 1] > v[child]) child++;
    if (v[root] >= v[child]) return;
    swap(&v[root], &v[child]);
    root = child;
  }
}

static void heap_sort(kc_ps *v, uint64_t count)
{
  for (uint64_t i = count / 2; i > 0; i--) sift(v, i - 1, count);
  for (uint64_t i = count; i > 1; i--) {
    swap(&v[0], &v[i - 1]);
    sift(v, 0, i - 1);
  }
}

static kc_ps median_of_three(kc_ps a, kc_ps b, kc_ps c)
{
  if (a > b) swap(&a, &b);
  if (b > c) swap(&b, &c);
  return a > b ? a : b;
}

/* Moves the value of rank `rank` (0-based) of v[low, high) to v[rank], smaller ones before it and
 * larger ones behind. */
static void select_rank(kc_ps *v, uint64_t low, uint64_t high, uint64_t rank)
{
  KC_ASSERT(low <= rank && rank < high);
  for (unsigned round = 0; high - low > 1; round++) {
    if (round == 128) {
      heap_sort(v + low, high - low);
      return;
    }
    const kc_ps pivot = median_of_three(v[low], v[low + (high - low) / 2], v[high - 1]);
    uint64_t i = low; /* [low, i) < pivot, [i, k) = pivot, [m, high) > pivot */
    uint64_t m = high;
    for (uint64_t k = low; k < m;) {
      if (v[k] < pivot) swap(&v[i++], &v[k++]);
      else if (v[k] > pivot) swap(&v[k], &v[--m]);
      else k++;
    }
    if (rank >= i && rank < m) return;
    if (rank < i) high = i;
    else low = m;
  }
}

static uint64_t rank_of(uint64_t count, uint64_t percent)
{
  return (count * percent + 99) / 100 - 1; /* nearest rank, 0-based */
}

void kc_statistic_of(struct kc_statistic *out, kc_ps *values, uint64_t count)
{
  *out = (struct kc_statistic){.count = count};
  if (count == 0) return;
  kc_u128 sum = 0;
  out->min_ps = values[0];
  for (uint64_t i = 0; i < count; i++) {
    KC_ASSERT(values[i] >= 0);
    sum += (uint64_t)values[i];
    if (values[i] < out->min_ps) out->min_ps = values[i];
    if (values[i] > out->max_ps) out->max_ps = values[i];
  }
  out->mean_ps = (kc_ps)((sum + count / 2) / count);
  static const uint64_t percents[] = {50, 90, 95, 99};
  kc_ps *const results[] = {&out->p50_ps, &out->p90_ps, &out->p95_ps, &out->p99_ps};
  uint64_t low = 0;
  for (unsigned i = 0; i < 4; i++) {
    const uint64_t rank = rank_of(count, percents[i]);
    select_rank(values, low, count, rank);
    *results[i] = values[rank];
    low = rank;
  }
  KC_ASSERT(out->p50_ps <= out->p99_ps && out->p99_ps <= out->max_ps);
}
