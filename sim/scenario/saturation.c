/* How far a run was from saturation (see scenario_run.h).
 *
 *   mean request --pool, max_running--> requests at once --step model--> seconds a request costs
 *
 * Near saturation waiting grows without bound, so a small error of the step time is a large error
 * of a percentile: that distance is part of what a figure is worth.
 */
#include <string.h>

#include "sim/scenario/scenario_run.h"

struct kc_aggregates kc_run_uniform_step(const struct kc_sched_config *sched, uint32_t decodes,
                                         uint64_t context, uint64_t chunk)
{
  struct kc_aggregates sum = {.decodes = decodes, .logits = decodes,
                              .decode_context = decodes * context,
                              .decode_context_max = context};
  KC_ASSERT(decodes > 0 && context > 0);
  sum.prefill_tokens = sum.prefill_context = chunk;
  sum.prefill_pairs = chunk * (chunk + 1) / 2;
  sum.chunks = chunk > 0;
  sum.table_entries = decodes * (context / sched->page_size + 1);
  for (uint32_t i = 0; i < sched->cap_count; i++) {
    const uint64_t cap = sched->cap[i];
    const uint64_t full = chunk < cap ? chunk : cap;
    sum.decode_capped[i] = decodes * (context < cap ? context : cap);
    sum.prefill_capped_context[i] = chunk;
    sum.prefill_capped_pairs[i] = full * (full + 1) / 2 + (chunk - full) * cap;
  }
  return sum;
}

static double seconds(kc_ps time_ps)
{
  return (double)time_ps / 1e12;
}

uint64_t kc_run_prompt_chunk(const struct kc_run *run)
{
  const struct kc_sched_config *sched = &run->replay.instance.sched;
  const bool vllm = run->scenario->pool[0].policy->server == KC_SERVER_VLLM;
  if (!sched->chunked_prefill) return UINT64_MAX;
  uint64_t chunk = vllm ? sched->max_batched_tokens : sched->chunked_prefill_size;
  const uint64_t threshold = sched->long_prefill_token_threshold;
  if (vllm && threshold > 0 && threshold < chunk) chunk = threshold;
  KC_ASSERT(chunk > 0);
  return chunk;
}

double kc_run_request_seconds(const struct kc_run *run, uint64_t input, uint64_t output)
{
  const struct kc_sched_config *sched = &run->replay.instance.sched;
  const uint64_t pool = (uint64_t)run->pages * sched->page_size;
  uint64_t at_once = pool / (input + output);
  KC_ASSERT(input > 0 && output > 0);
  if (at_once > sched->max_running) at_once = sched->max_running;
  if (at_once == 0) at_once = 1;
  const uint64_t context = input + output / 2 + 1;
  const struct kc_aggregates decode = kc_run_uniform_step(sched, (uint32_t)at_once, context, 0);
  const double step = seconds(kc_cost_step(&run->cost, &decode));
  double prompt = 0;
  uint64_t most = kc_run_prompt_chunk(run);
  if (run->scenario->pool[0].policy->server == KC_SERVER_VLLM && most < UINT64_MAX) {
    most = most > at_once ? most - at_once : 1; /* the decodes take of it */
  }
  for (uint64_t left = sched->role == KC_ROLE_DECODE ? 0 : input; left > 0;) {
    const uint64_t chunk = left < most ? left : most; /* the past of a later chunk is left out */
    const struct kc_aggregates mixed =
        kc_run_uniform_step(sched, (uint32_t)at_once, context, chunk);
    prompt += seconds(kc_cost_step(&run->cost, &mixed)) - step;
    left -= chunk;
  }
  return (prompt > 0 ? prompt : 0) + step * (double)output / (double)at_once;
}

static double part_of(double value, double whole)
{
  KC_ASSERT(value >= 0);
  return whole > 0 ? value / whole : 0;
}

/* Some requests were too large for the pool or a limit, whatever the load. */
static bool refused_for_size(const struct kc_summary *s)
{
  static const enum kc_reason size[] = {KC_REASON_PROMPT_TOO_LONG, KC_REASON_NEVER_FITS,
                                        KC_REASON_PROMPT_OVER_BUDGET, KC_REASON_OUTGREW_POOL,
                                        KC_REASON_POOL_TOO_SMALL};
  uint64_t refused = 0;
  for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
    refused += s->requests_by_reason[size[i]];
  }
  KC_ASSERT(refused <= s->requests_total);
  return refused > 0;
}

static void mean_of_rows(const struct kc_run *run, uint64_t *input, uint64_t *output)
{
  uint64_t in = 0, out = 0;
  KC_ASSERT(run->request_count > 0);
  for (uint32_t i = 0; i < run->request_count; i++) {
    in += run->requests[i].input_tokens;
    out += run->requests[i].output_tokens;
  }
  *input = in / run->request_count;
  *output = out / run->request_count;
}

uint64_t kc_run_lost(const struct kc_run *run)
{
  const uint64_t *by = run->result.summary.requests_by_status;
  KC_ASSERT(run->predicted != NULL);
  return by[KC_STATUS_REJECTED] + by[KC_STATUS_FAILED] + by[KC_STATUS_TIMED_OUT];
}

bool kc_run_lost_beyond(const struct kc_run *run, unsigned percentile)
{
  KC_ASSERT(percentile > 0 && percentile < 100);
  return 100 * kc_run_lost(run) > (100 - percentile) * run->result.summary.requests_total;
}

struct kc_run_load kc_run_load_of(const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  const struct kc_pool_spec *pool = &run->scenario->pool[0];
  const struct kc_run_balance fullest = kc_run_balance_of(&run->result);
  struct kc_run_load load = {.nearest = "rate"};
  const uint64_t ended = s->requests_by_status[KC_STATUS_COMPLETED];
  if (run->scenario->workload.is_closed || run->sessions || ended == 0 || refused_for_size(s) ||
      run->trace.span_ps <= 0) {
    return load;
  }
  uint64_t input = s->input_tokens_completed / ended;
  uint64_t output = s->output_tokens_completed / ended;
  if (ended < s->requests_total) mean_of_rows(run, &input, &output); /* not of the lucky ones */
  load.known = true;
  load.served_s = (double)run->result.replicas /
                  kc_run_request_seconds(run, input > 0 ? input : 1, output > 0 ? output : 1);
  load.rate = (double)s->requests_total / seconds(run->trace.span_ps) / load.served_s;
  load.kv = part_of((double)fullest.kv_peak_pages, run->pages);
  load.batch = part_of(fullest.max_running, pool->sched.max_running);
  double most = load.rate;
  if (load.kv > most) {
    most = load.kv;
    load.nearest = "kv";
  }
  if (load.batch > most) {
    most = load.batch;
    load.nearest = "batch";
  }
  KC_ASSERT(most >= 0);
  load.headroom = 1 - most;
  return load;
}
