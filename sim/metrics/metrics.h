/* Pure accumulation of a run's results, and the recorder that receives rows.
 *
 * Definitions (the field's):
 *   TTFT   first token - arrival                     requests that produced a token
 *   E2E    last token - arrival                      completed requests
 *   TPOT   (last - first token) / (outputs - 1)      completed requests with 2 or more outputs
 *   ITL    gap between successive tokens             every gap, weighted, from a histogram
 *   output tok/s = output tokens / makespan          makespan = first arrival to last end
 * Percentiles are nearest-rank. Which requests a figure covers is given by its count.
 *
 * A request is named by its row in the trace (from 0). That is its position in the request table,
 * unless `row_of` says otherwise: sessions are offered in an order that the run decides.
 *
 * result_sha256 covers, as little-endian 64-bit words: a version word; six words per outcome in the
 * order in which they ended (row of the request; status | reason << 8 | contaminated << 16 |
 * preemptions << 32; outputs | cached_tokens << 32; first_token_ps; end_ps; resident_ps); then the
 * totals (requests, input tokens, output tokens, steps, preemptions, max_running, max_waiting,
 * kv_peak_tokens, kv_peak_pages, clipped requests, recached_tokens, makespan_ps, busy_ps); then the
 * ITL histogram: its total, and (bucket, count) of each non-empty
 * bucket in ascending order. It is the same whether rows are kept or not. kc_canonical_* below are
 * the one place that knows this layout.
 */
#ifndef KC_SIM_METRICS_METRICS_H
#define KC_SIM_METRICS_METRICS_H

#include "engine/base/digest.h"
#include "engine/instance/instance.h"
#include "sim/metrics/groups.h"
#include "sim/metrics/histogram.h"

enum { KC_TIMELINE_MAX = 2048 };

/* What all instances of a run hold at one instant. */
struct kc_levels {
  uint64_t running, waiting, pages_used, pages_cached_idle, held_tokens;
};
static inline struct kc_levels kc_levels_of(const struct kc_step_report *report)
{
  return (struct kc_levels){.running = report->running,
                            .waiting = report->waiting,
                            .pages_used = report->pages_used,
                            .pages_cached_idle = report->pages_cached_idle,
                            .held_tokens = report->held_tokens};
}

/* State at one instant (end of the step that reached it). */
struct kc_timeline_sample {
  kc_ps time_ps;
  uint32_t running, waiting;
  uint64_t pages_used, held_tokens;
};

/* Where rows go while the run goes on. Any function may be NULL. An outcome names the row of the
 * trace; `request` is what was offered, with the arrival that it had in this run. */
struct kc_recorder {
  void *context;
  enum kc_err (*on_outcome)(void *context, const struct kc_outcome *outcome,
                            const struct kc_request *request, struct kc_diag *diag);
};

struct kc_summary {
  uint64_t requests_total, requests_by_status[KC_STATUSES], requests_by_reason[KC_REASONS];
  uint64_t input_tokens, output_tokens; /* of all requests offered; produced */
  uint64_t input_tokens_completed, output_tokens_completed;
  uint64_t admitted_tokens;             /* prompt tokens of requests that held a slot */
  uint64_t cached_tokens;               /* of those, found in the cache at the first admission */
  uint64_t recached_tokens;             /* found again after preemptions */
  uint64_t warm_requests;               /* with cached tokens */
  uint64_t pages_evicted;               /* cached pages dropped to make room; told by replay */
  uint64_t kv_peak_cached_pages;        /* most pages that were kept and used by nobody */
  uint64_t slo_met;                     /* completed requests that kept the limits of their class */
  uint64_t contaminated;                /* requests with a token from a page not their own */
  uint64_t ghost_slots;                 /* slots that decoded for nobody, over all steps */
  struct kc_statistic ttft, tpot, itl, e2e;
  kc_ps makespan_ps, busy_ps;
  uint64_t steps, preemptions;
  uint64_t tokens_clipped_requests;     /* outputs cut by max_tokens or max_model_len */
  uint32_t max_running, max_waiting;
  uint64_t kv_peak_tokens, kv_peak_pages;
  uint64_t output_tok_s_micro;          /* tokens/s * 10^6 */
  char result_sha256[KC_SHA256_HEX_BYTES];
};

struct kc_metrics {
  const struct kc_request *requests;
  const uint32_t *row_of;     /* [position] row of the trace, as far as offered; NULL after init:
                                 the position itself. Set by replay before the first arrival */
  struct kc_recorder recorder;
  const struct kc_limits *limits; /* [class]; NULL: nobody has any. Set before the first outcome */
  struct kc_groups groups;    /* group == NULL after init: none are kept. Set likewise */
  struct kc_sha256 sha;
  struct kc_histogram itl;
  kc_ps *ttft, *tpot, *e2e;   /* one entry per request at most */
  uint64_t ttft_count, tpot_count, e2e_count, capacity;
  struct kc_summary total;    /* counters live here while the run goes on */
  kc_ps first_arrival_ps, last_end_ps;
  /* Little's law: running requests integrated over the steps, against the sum over requests of the
   * time that each held a slot. */
  kc_u128 area_ps, residence_ps;
  uint64_t tokens_out;        /* as the steps yielded them; must equal what requests received */
  uint64_t max_model_len;
  struct kc_timeline_sample timeline[KC_TIMELINE_MAX];
  uint32_t timeline_count;
  kc_ps timeline_interval_ps, timeline_next_ps;
  enum kc_err failure;        /* of the recorder; the run ends with it */
  struct kc_diag failure_diag;
};

size_t kc_metrics_need(uint64_t requests);
enum kc_err kc_metrics_init(struct kc_metrics *metrics, const struct kc_request *requests,
                            uint64_t request_count, uint64_t max_model_len,
                            const struct kc_recorder *recorder, struct kc_arena *arena);
struct kc_observer kc_metrics_observer(struct kc_metrics *metrics);

/* Several instances report to one set of books: each step when it ends, in order of time, with what
 * all hold then (instead of the observer's on_step); and what all hold whenever it rises. An
 * instance counts with the state of its step under way, as in struct kc_step_report, and with
 * nothing when it is idle. */
void kc_metrics_fleet_step(struct kc_metrics *metrics, const struct kc_step_report *report,
                           const struct kc_levels *levels);
void kc_metrics_levels(struct kc_metrics *metrics, const struct kc_levels *levels);

/* Told by replay, in order of time; `request` is a position in the table. */
void kc_metrics_arrival(struct kc_metrics *metrics, uint32_t request);

/* Closes the books: asserts Little's law and token conservation, sorts, hashes. */
void kc_metrics_finish(struct kc_metrics *metrics, struct kc_summary *out);

/* The canonical bytes behind result_sha256; also used to verify a stored run. The layout's number
 * is raised whenever the layout or the meaning of a word changes; it is the first word. */
#define KC_CANONICAL_LAYOUT 2
void kc_canonical_begin(struct kc_sha256 *sha);
void kc_canonical_outcome(struct kc_sha256 *sha, const struct kc_outcome *outcome);
void kc_canonical_end(struct kc_sha256 *sha, const struct kc_summary *totals,
                      const struct kc_histogram *itl, char hex[KC_SHA256_HEX_BYTES]);

#endif
