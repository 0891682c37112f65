/* The plain twin's results: statistics by sorting, and the canonical bytes written out word by word
 * from the layout in sim/metrics/metrics.h. */
#include "naive_instance.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right)
{
  const kc_ps a = *(const kc_ps *)left;
  const kc_ps b = *(const kc_ps *)right;
  return (a > b) - (a < b);
}

/* Mean and quotients are rounded half up; what 64 bits cannot hold is their largest value (only a
 * rate over steps of picoseconds gets there). */
static uint64_t rounded(kc_u128 numerator, uint64_t denominator)
{
  const kc_u128 quotient = (numerator + denominator / 2) / denominator;
  return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

static void describe(struct kc_statistic *out, kc_ps *values, uint64_t count)
{
  memset(out, 0, sizeof *out);
  out->count = count;
  if (count == 0) return;
  kc_u128 sum = 0;
  for (uint64_t i = 0; i < count; i++) sum += (uint64_t)values[i];
  qsort(values, count, sizeof *values, by_value);
  out->mean_ps = (kc_ps)rounded(sum, count);
  out->min_ps = values[0];
  out->max_ps = values[count - 1];
  /* Nearest rank: the smallest value that at least p % of the values do not exceed. */
  const uint64_t percents[4] = {50, 90, 95, 99};
  kc_ps *const places[4] = {&out->p50_ps, &out->p90_ps, &out->p95_ps, &out->p99_ps};
  for (int p = 0; p < 4; p++) {
    uint64_t rank = 1;
    while (rank * 100 < percents[p] * count) rank++;
    *places[p] = values[rank - 1];
  }
}

/* Halvings until a value needs 11 bits or fewer: the width of its bucket is 2^that. */
static unsigned bucket_shift(uint64_t value)
{
  unsigned shift = 0;
  for (; value >= 2048; value /= 2) shift++;
  return shift;
}

/* A value of the histogram reads back as the middle of its bucket, never outside [min, max]. */
static kc_ps through_bucket(kc_ps value_ps, const struct kc_statistic *range)
{
  const unsigned shift = bucket_shift((uint64_t)value_ps);
  const uint64_t width = UINT64_C(1) << shift;
  const kc_ps middle_ps = (kc_ps)((uint64_t)value_ps / width * width + (width - 1) / 2);
  if (middle_ps < range->min_ps) return range->min_ps;
  return middle_ps > range->max_ps ? range->max_ps : middle_ps;
}

static void put_word(struct kc_sha256 *sha, uint64_t word)
{
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) {
    bytes[i] = (unsigned char)(word % 256);
    word /= 256;
  }
  kc_sha256_update(sha, bytes, sizeof bytes);
}

static void put_outcome(struct kc_sha256 *sha, const struct kc_outcome *o)
{
  put_word(sha, o->request);
  put_word(sha, o->status + 256 * (uint64_t)o->reason + ((uint64_t)o->preemptions << 32));
  put_word(sha, o->output_tokens + ((uint64_t)o->cached_tokens << 32));
  put_word(sha, (uint64_t)o->first_token_ps);
  put_word(sha, (uint64_t)o->end_ps);
  put_word(sha, (uint64_t)o->resident_ps);
}

static void put_totals(struct kc_sha256 *sha, const struct kc_summary *s)
{
  put_word(sha, s->requests_total);
  put_word(sha, s->input_tokens);
  put_word(sha, s->output_tokens);
  put_word(sha, s->steps);
  put_word(sha, s->preemptions);
  put_word(sha, s->max_running);
  put_word(sha, s->max_waiting);
  put_word(sha, s->kv_peak_tokens);
  put_word(sha, s->kv_peak_pages);
  put_word(sha, s->tokens_clipped_requests);
  put_word(sha, s->recached_tokens);
  put_word(sha, (uint64_t)s->makespan_ps);
  put_word(sha, (uint64_t)s->busy_ps);
}

/* `gaps` are sorted: equal buckets lie together, in ascending order. */
static void put_gaps(struct kc_sha256 *sha, const kc_ps *gaps, uint64_t count)
{
  put_word(sha, count);
  for (uint64_t i = 0; i < count;) {
    const unsigned shift = bucket_shift((uint64_t)gaps[i]);
    const uint64_t top = (uint64_t)gaps[i] >> shift;
    uint64_t same = 1;
    while (i + same < count && bucket_shift((uint64_t)gaps[i + same]) == shift &&
           (uint64_t)gaps[i + same] >> shift == top) {
      same++;
    }
    put_word(sha, 1024 * (uint64_t)shift + top);
    put_word(sha, same);
    i += same;
  }
}

static void count_outcomes(struct naive_run *run)
{
  struct kc_summary *s = &run->summary;
  kc_ps last_end_ps = 0;
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    const struct kc_request *r = &run->requests[o->request];
    s->requests_by_status[o->status]++;
    s->requests_by_reason[o->reason]++;
    s->output_tokens += o->output_tokens;
    s->preemptions += o->preemptions;
    if (run->state[o->request].started) s->admitted_tokens += r->input_tokens;
    s->cached_tokens += o->cached_tokens;
    s->recached_tokens += o->recached_tokens;
    s->warm_requests += o->cached_tokens > 0;
    if (o->end_ps > last_end_ps) last_end_ps = o->end_ps;
    if (o->status != KC_STATUS_COMPLETED) continue;
    s->input_tokens_completed += r->input_tokens;
    s->output_tokens_completed += o->output_tokens;
    if (o->output_tokens < r->output_tokens) s->tokens_clipped_requests++;
  }
  for (uint32_t i = 0; i < run->offered; i++) s->input_tokens += run->requests[i].input_tokens;
  s->requests_total = run->offered;
  s->makespan_ps = last_end_ps - run->requests[run->order[0]].arrival_ps;
  if (s->makespan_ps == 0) return;
  s->output_tok_s_micro = rounded((kc_u128)s->output_tokens * 1000000 * (kc_u128)KC_PS_PER_S,
                                  (uint64_t)s->makespan_ps);
}

static void describe_latencies(struct naive_run *run)
{
  struct kc_summary *s = &run->summary;
  kc_ps *const values = calloc(3 * (size_t)run->request_count, sizeof *values);
  if (values == NULL) abort();
  kc_ps *const ttft = values, *const e2e = ttft + run->request_count;
  kc_ps *const tpot = e2e + run->request_count;
  uint64_t ttfts = 0, e2es = 0, tpots = 0;
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    if (o->output_tokens > 0) ttft[ttfts++] = o->first_token_ps - o->arrival_ps;
    if (o->status != KC_STATUS_COMPLETED) continue;
    e2e[e2es++] = o->end_ps - o->arrival_ps;
    if (o->output_tokens < 2) continue;
    tpot[tpots++] = (kc_ps)rounded((uint64_t)(o->end_ps - o->first_token_ps), o->output_tokens - 1);
  }
  describe(&s->ttft, ttft, ttfts);
  describe(&s->e2e, e2e, e2es);
  describe(&s->tpot, tpot, tpots);
  free(values);
}

void naive_finish(struct naive_run *run)
{
  struct kc_sha256 sha;
  struct kc_summary *s = &run->summary;
  count_outcomes(run);
  describe_latencies(run);
  describe(&s->itl, run->gaps, run->gap_count);
  kc_sha256_init(&sha);
  put_word(&sha, 2); /* version of the layout */
  for (uint32_t i = 0; i < run->outcome_count; i++) put_outcome(&sha, &run->outcomes[i]);
  put_totals(&sha, s);
  put_gaps(&sha, run->gaps, run->gap_count);
  kc_sha256_final_hex(&sha, s->result_sha256);
  if (run->gap_count == 0) return;
  s->itl.p50_ps = through_bucket(s->itl.p50_ps, &s->itl);
  s->itl.p90_ps = through_bucket(s->itl.p90_ps, &s->itl);
  s->itl.p95_ps = through_bucket(s->itl.p95_ps, &s->itl);
  s->itl.p99_ps = through_bucket(s->itl.p99_ps, &s->itl);
}
