/* Accumulation of a run's results (see metrics.h for definitions).
 *
 * One call a step, one call a request: nothing here depends on the batch. Latencies of requests are
 * kept exactly, one word each; gaps between tokens go to a histogram with the step's weight.
 * Timeline: at most KC_TIMELINE_MAX samples; when they run out every second one is dropped and the
 * interval doubles, so a run of any length has between 1,024 and 2,048 of them.
 */
#include "sim/metrics/metrics.h"

#include <string.h>

/* First interval of the timeline: 1 ms. */
#define TIMELINE_START_PS KC_PS_PER_MS

size_t kc_metrics_need(uint64_t requests)
{
  KC_ASSERT(requests > 0);
  KC_ASSERT(requests <= UINT32_MAX);
  return kc_histogram_need() + 3 * kc_arena_need(requests, sizeof(kc_ps));
}

enum kc_err kc_metrics_init(struct kc_metrics *metrics, const struct kc_request *requests,
                            uint64_t request_count, uint64_t max_model_len,
                            const struct kc_recorder *recorder, struct kc_arena *arena)
{
  KC_ASSERT(request_count > 0);
  KC_ASSERT(max_model_len >= 2);
  memset(metrics, 0, sizeof *metrics);
  metrics->requests = requests;
  metrics->capacity = request_count;
  metrics->max_model_len = max_model_len;
  metrics->timeline_interval_ps = TIMELINE_START_PS;
  metrics->first_arrival_ps = KC_PS_NEVER;
  if (recorder != NULL) metrics->recorder = *recorder;
  KC_TRY(kc_histogram_init(&metrics->itl, arena));
  metrics->ttft = kc_arena_take(arena, request_count, sizeof(kc_ps));
  metrics->tpot = kc_arena_take(arena, request_count, sizeof(kc_ps));
  metrics->e2e = kc_arena_take(arena, request_count, sizeof(kc_ps));
  if (metrics->ttft == NULL || metrics->tpot == NULL || metrics->e2e == NULL) return KC_ERR_MEMORY;
  kc_canonical_begin(&metrics->sha);
  return KC_OK;
}

void kc_metrics_arrival(struct kc_metrics *metrics, uint32_t request)
{
  const struct kc_request *r = &metrics->requests[request];
  KC_ASSERT(metrics->total.requests_total < metrics->capacity);
  KC_ASSERT(metrics->total.requests_total == request);
  metrics->total.requests_total++;
  metrics->total.input_tokens += r->input_tokens;
  if (r->arrival_ps < metrics->first_arrival_ps) metrics->first_arrival_ps = r->arrival_ps;
}

/* ---- steps ---- */

static void thin_timeline(struct kc_metrics *metrics)
{
  KC_ASSERT(metrics->timeline_count == KC_TIMELINE_MAX);
  for (uint32_t i = 0; i < KC_TIMELINE_MAX / 2; i++) {
    metrics->timeline[i] = metrics->timeline[2 * i];
  }
  metrics->timeline_count = KC_TIMELINE_MAX / 2;
  metrics->timeline_interval_ps *= 2;
}

static void sample_timeline(struct kc_metrics *metrics, kc_ps now_ps, struct kc_levels levels)
{
  if (metrics->timeline_count == KC_TIMELINE_MAX) thin_timeline(metrics);
  metrics->timeline[metrics->timeline_count++] =
      (struct kc_timeline_sample){.time_ps = now_ps,
                                  .running = (uint32_t)levels.running,
                                  .waiting = (uint32_t)levels.waiting,
                                  .pages_used = levels.pages_used,
                                  .held_tokens = levels.held_tokens};
  KC_ASSERT(metrics->timeline_count <= KC_TIMELINE_MAX);
  metrics->timeline_next_ps = kc_ps_add(now_ps, metrics->timeline_interval_ps);
}

/* What the step took and gave, whoever else runs. */
static inline void book_work(struct kc_metrics *metrics, const struct kc_step_report *report)
{
  struct kc_summary *total = &metrics->total;
  const kc_ps duration_ps = report->end_ps - report->start_ps;
  KC_ASSERT(duration_ps > 0);
  total->steps++;
  total->busy_ps += duration_ps;
  metrics->area_ps += (kc_u128)(uint64_t)duration_ps * report->running;
  metrics->tokens_out += report->tokens_out;
  if (report->steady_decodes > 0) {
    kc_histogram_add(&metrics->itl, report->steady_gap_ps, report->steady_decodes);
  }
  total->ghost_slots += report->ghosts;
}

static inline void raise_peaks(struct kc_summary *total, struct kc_levels levels)
{
  if (levels.running > total->max_running) total->max_running = (uint32_t)levels.running;
  if (levels.waiting > total->max_waiting) total->max_waiting = (uint32_t)levels.waiting;
  if (levels.pages_used > total->kv_peak_pages) total->kv_peak_pages = levels.pages_used;
  if (levels.held_tokens > total->kv_peak_tokens) total->kv_peak_tokens = levels.held_tokens;
  if (levels.pages_cached_idle > total->kv_peak_cached_pages) {
    total->kv_peak_cached_pages = levels.pages_cached_idle;
  }
}

static void on_step(void *context, const struct kc_step_report *report)
{
  struct kc_metrics *metrics = context;
  const struct kc_levels levels = kc_levels_of(report);
  book_work(metrics, report);
  raise_peaks(&metrics->total, levels);
  if (report->end_ps >= metrics->timeline_next_ps) {
    sample_timeline(metrics, report->end_ps, levels);
  }
}

void kc_metrics_levels(struct kc_metrics *metrics, const struct kc_levels *levels)
{
  KC_ASSERT(levels->running <= UINT32_MAX && levels->waiting <= UINT32_MAX);
  raise_peaks(&metrics->total, *levels);
}

void kc_metrics_fleet_step(struct kc_metrics *metrics, const struct kc_step_report *report,
                           const struct kc_levels *levels)
{
  KC_ASSERT(levels->running >= report->running);
  book_work(metrics, report);
  if (report->end_ps >= metrics->timeline_next_ps) {
    sample_timeline(metrics, report->end_ps, *levels);
  }
}

static void on_gap(void *context, kc_ps gap_ps)
{
  struct kc_metrics *metrics = context;
  KC_ASSERT(gap_ps >= 0);
  kc_histogram_add(&metrics->itl, gap_ps, 1);
}

/* ---- requests ---- */

/* Did a completed request keep the limits of its class? One token has no TPOT to miss. */
static bool kept_limits(const struct kc_metrics *metrics, const struct kc_outcome *outcome,
                        kc_ps tpot_ps)
{
  if (metrics->limits == NULL) return true;
  const struct kc_limits *limits =
      &metrics->limits[metrics->requests[outcome->request].class_index];
  KC_ASSERT(outcome->status == KC_STATUS_COMPLETED);
  return outcome->first_token_ps - outcome->arrival_ps <= limits->ttft_ps &&
         tpot_ps <= limits->tpot_ps;
}

/* True when it also kept its limits. */
static bool book_completed(struct kc_metrics *metrics, const struct kc_outcome *outcome)
{
  const struct kc_request *r = &metrics->requests[outcome->request];
  const uint32_t outputs = outcome->output_tokens;
  KC_ASSERT(outputs == kc_request_output(r, metrics->max_model_len));
  KC_ASSERT(outcome->first_token_ps <= outcome->end_ps);
  kc_groups_note(&metrics->groups, KC_LATENCY_E2E, outcome->request);
  metrics->e2e[metrics->e2e_count++] = outcome->end_ps - outcome->arrival_ps;
  metrics->total.input_tokens_completed += r->input_tokens;
  metrics->total.output_tokens_completed += outputs;
  metrics->total.tokens_clipped_requests += outputs < r->output_tokens;
  if (outputs < 2) return kept_limits(metrics, outcome, 0);
  const uint64_t gaps = outputs - 1;
  const uint64_t stretch = (uint64_t)(outcome->end_ps - outcome->first_token_ps);
  const kc_ps tpot_ps = (kc_ps)((stretch + gaps / 2) / gaps);
  kc_groups_note(&metrics->groups, KC_LATENCY_TPOT, outcome->request);
  metrics->tpot[metrics->tpot_count++] = tpot_ps;
  return kept_limits(metrics, outcome, tpot_ps);
}

/* What prefix caching did for it, and what faults did to it. */
static void book_pages(struct kc_metrics *metrics, const struct kc_outcome *outcome)
{
  struct kc_summary *total = &metrics->total;
  const uint32_t input = metrics->requests[outcome->request].input_tokens;
  KC_ASSERT(outcome->cached_tokens < input || outcome->cached_tokens == 0);
  if (outcome->resident_ps > 0) total->admitted_tokens += input;
  total->cached_tokens += outcome->cached_tokens;
  total->recached_tokens += outcome->recached_tokens;
  total->warm_requests += outcome->cached_tokens > 0;
  total->contaminated += outcome->contaminated;
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  struct kc_metrics *metrics = context;
  struct kc_summary *total = &metrics->total;
  struct kc_outcome named = *outcome; /* by its row */
  KC_ASSERT(outcome->request < total->requests_total);
  KC_ASSERT((unsigned)outcome->status < KC_STATUSES && (unsigned)outcome->reason < KC_REASONS);
  if (metrics->row_of != NULL) named.request = metrics->row_of[outcome->request];
  kc_canonical_outcome(&metrics->sha, &named);
  total->requests_by_status[outcome->status]++;
  total->requests_by_reason[outcome->reason]++;
  total->output_tokens += outcome->output_tokens;
  total->preemptions += outcome->preemptions;
  metrics->residence_ps += (uint64_t)outcome->resident_ps;
  if (outcome->end_ps > metrics->last_end_ps) metrics->last_end_ps = outcome->end_ps;
  book_pages(metrics, outcome);
  if (outcome->first_token_ps != KC_PS_NEVER) {
    kc_groups_note(&metrics->groups, KC_LATENCY_TTFT, outcome->request);
    metrics->ttft[metrics->ttft_count++] = outcome->first_token_ps - outcome->arrival_ps;
  }
  const bool met = outcome->status == KC_STATUS_COMPLETED && book_completed(metrics, outcome) &&
                   !outcome->contaminated;
  total->slo_met += met;
  kc_groups_outcome(&metrics->groups, outcome, metrics->max_model_len, met);
  if (metrics->recorder.on_outcome == NULL || metrics->failure != KC_OK) return;
  metrics->failure =
      metrics->recorder.on_outcome(metrics->recorder.context, &named,
                                   &metrics->requests[outcome->request], &metrics->failure_diag);
}

struct kc_observer kc_metrics_observer(struct kc_metrics *metrics)
{
  KC_ASSERT(metrics->capacity > 0);
  KC_ASSERT(metrics->itl.count != NULL);
  return (struct kc_observer){
      .context = metrics, .on_step = on_step, .on_gap = on_gap, .on_end = on_end};
}

/* ---- the end ---- */

static void histogram_statistic(struct kc_statistic *out, const struct kc_histogram *histogram)
{
  *out = (struct kc_statistic){.count = histogram->total};
  if (histogram->total == 0) return;
  KC_ASSERT(histogram->min_ps <= histogram->max_ps);
  out->mean_ps = (kc_ps)((histogram->sum_ps + histogram->total / 2) / histogram->total);
  out->p50_ps = kc_histogram_percentile(histogram, 50, 100);
  out->p90_ps = kc_histogram_percentile(histogram, 90, 100);
  out->p95_ps = kc_histogram_percentile(histogram, 95, 100);
  out->p99_ps = kc_histogram_percentile(histogram, 99, 100);
  out->min_ps = histogram->min_ps;
  out->max_ps = histogram->max_ps;
  KC_ASSERT(out->p50_ps <= out->p99_ps);
}

/* Laws that hold in every run; a breach is our own mistake. */
static void assert_laws(const struct kc_metrics *metrics)
{
  const struct kc_summary *total = &metrics->total;
  uint64_t ended = 0;
  for (int i = 0; i < KC_STATUSES; i++) ended += total->requests_by_status[i];
  KC_ASSERT(ended == total->requests_total);              /* every request ends exactly once */
  KC_ASSERT(metrics->tokens_out == total->output_tokens); /* tokens are neither lost nor made */
  KC_ASSERT(metrics->itl.total + metrics->ttft_count == total->output_tokens);
  KC_ASSERT(metrics->area_ps == metrics->residence_ps);   /* Little's law, to the picosecond */
}

void kc_metrics_finish(struct kc_metrics *metrics, struct kc_summary *out)
{
  struct kc_summary *total = &metrics->total;
  assert_laws(metrics);
  KC_ASSERT(metrics->last_end_ps >= metrics->first_arrival_ps);
  total->makespan_ps = metrics->last_end_ps - metrics->first_arrival_ps;
  if (total->makespan_ps > 0) {
    const kc_u128 scaled = (kc_u128)total->output_tokens * (uint64_t)KC_PS_PER_S * 1000000u;
    const uint64_t span = (uint64_t)total->makespan_ps;
    const kc_u128 rate = (scaled + span / 2) / span;
    total->output_tok_s_micro = rate < UINT64_MAX ? (uint64_t)rate : UINT64_MAX;
  }
  kc_groups_finish(&metrics->groups, KC_LATENCY_TTFT, metrics->ttft, metrics->ttft_count);
  kc_groups_finish(&metrics->groups, KC_LATENCY_TPOT, metrics->tpot, metrics->tpot_count);
  kc_groups_finish(&metrics->groups, KC_LATENCY_E2E, metrics->e2e, metrics->e2e_count);
  kc_statistic_of(&total->ttft, metrics->ttft, metrics->ttft_count);
  kc_statistic_of(&total->tpot, metrics->tpot, metrics->tpot_count);
  kc_statistic_of(&total->e2e, metrics->e2e, metrics->e2e_count);
  histogram_statistic(&total->itl, &metrics->itl);
  kc_canonical_end(&metrics->sha, total, &metrics->itl, total->result_sha256);
  *out = *total;
}
