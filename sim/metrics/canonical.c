/* The canonical bytes of a result: the one place that knows their layout (see metrics.h). */
#include "sim/metrics/metrics.h"

void kc_canonical_begin(struct kc_sha256 *sha)
{
  kc_sha256_init(sha);
  kc_sha256_update_u64(sha, KC_CANONICAL_LAYOUT);
}

void kc_canonical_outcome(struct kc_sha256 *sha, const struct kc_outcome *outcome)
{
  const uint64_t words[6] = {
      outcome->request,
      (uint64_t)outcome->status | (uint64_t)outcome->reason << 8 |
          (uint64_t)outcome->contaminated << 16 | (uint64_t)outcome->preemptions << 32,
      (uint64_t)outcome->output_tokens | (uint64_t)outcome->cached_tokens << 32,
      (uint64_t)outcome->first_token_ps,
      (uint64_t)outcome->end_ps,
      (uint64_t)outcome->resident_ps};
  KC_ASSERT(outcome->end_ps >= 0 && outcome->resident_ps >= 0);
  kc_sha256_update_words(sha, words, sizeof words / sizeof words[0]);
}

static void add_totals(struct kc_sha256 *sha, const struct kc_summary *totals)
{
  const uint64_t words[] = {
      totals->requests_total,  totals->input_tokens,          totals->output_tokens,
      totals->steps,           totals->preemptions,           totals->max_running,
      totals->max_waiting,     totals->kv_peak_tokens,        totals->kv_peak_pages,
      totals->tokens_clipped_requests, totals->recached_tokens, (uint64_t)totals->makespan_ps,
      (uint64_t)totals->busy_ps};
  kc_sha256_update_words(sha, words, sizeof words / sizeof words[0]);
}

void kc_canonical_end(struct kc_sha256 *sha, const struct kc_summary *totals,
                      const struct kc_histogram *itl, char hex[KC_SHA256_HEX_BYTES])
{
  add_totals(sha, totals);
  kc_sha256_update_u64(sha, itl->total);
  if (itl->total > 0) {
    const uint32_t first = kc_histogram_bucket((uint64_t)itl->min_ps);
    const uint32_t last = kc_histogram_bucket((uint64_t)itl->max_ps);
    KC_ASSERT(first <= last);
    KC_ASSERT(last < KC_HISTOGRAM_BUCKETS);
    for (uint32_t i = first; i <= last; i++) {
      if (itl->count[i] == 0) continue;
      kc_sha256_update_u64(sha, i);
      kc_sha256_update_u64(sha, itl->count[i]);
    }
  }
  kc_sha256_final_hex(sha, hex);
}
