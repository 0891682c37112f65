/* Money and energy of a run (see spending.h). All sums are over integers of the run; what follows
 * is plain arithmetic in a fixed order, so it is the same everywhere. */
#include "sim/scenario/spending.h"

#include <string.h>

#define PS_PER_HOUR 3.6e15
#define JOULES_PER_KWH 3.6e6

static struct kc_maybe known(double value)
{
  KC_ASSERT(value >= 0);
  return (struct kc_maybe){.known = true, .value = value};
}

/* value / of, when both are there and `of` is not nothing. */
static struct kc_maybe divide(struct kc_maybe value, double of)
{
  KC_ASSERT(of >= 0);
  if (!value.known || of <= 0) return (struct kc_maybe){0};
  return known(value.value / of);
}

static struct kc_maybe times(struct kc_maybe value, double factor)
{
  KC_ASSERT(factor >= 0);
  return value.known ? known(value.value * factor) : value;
}

/* ---- hours ---- */

static void add_hours(const struct kc_run *run, struct kc_spending *out)
{
  const struct kc_summary *s = &run->result.summary;
  const double gpus = kc_run_gpus(run->scenario);
  const double each = gpus / run->result.replicas;
  const double span = (double)s->makespan_ps / PS_PER_HOUR * gpus;
  double busy = (double)s->busy_ps / PS_PER_HOUR * each;
  /* With overlapped scheduling a last step may run for nobody after the last answer. */
  if (busy > span) busy = span;
  out->busy_hours = busy;
  out->idle_hours = span - busy;
  out->cold_hours = (double)run->scenario->price.cold_start_ps / PS_PER_HOUR * gpus;
  out->gpu_hours = span + out->cold_hours;
  KC_ASSERT(out->idle_hours >= 0);
}

static void add_shares(const struct kc_run *run, struct kc_spending *out)
{
  const struct kc_cost_split split = kc_run_split(run);
  const double all =
      (double)split.prefill_ps + (double)split.cached_ps + (double)split.decode_ps;
  KC_ASSERT(split.prefill_ps >= 0 && split.cached_ps >= 0 && split.decode_ps >= 0);
  if (all <= 0) return;
  out->prefill_share = (double)split.prefill_ps / all;
  out->cached_share = (double)split.cached_ps / all;
  out->decode_share = (double)split.decode_ps / all;
}

/* ---- money ---- */

static void add_money(const struct kc_run *run, struct kc_spending *out)
{
  const struct kc_summary *s = &run->result.summary;
  if (!run->scenario->price_known) return;
  const struct kc_maybe hour = out->gpu_hour_usd = known(run->scenario->price_gpu_hour_usd);
  const double computed = (double)(s->admitted_tokens - s->cached_tokens) / 1e6;
  KC_ASSERT(s->admitted_tokens >= s->cached_tokens);
  out->hour_usd = times(hour, kc_run_gpus(run->scenario));
  out->usd = times(hour, out->gpu_hours);
  out->prefill_usd = times(hour, out->busy_hours * out->prefill_share);
  out->cached_usd = times(hour, out->busy_hours * out->cached_share);
  out->decode_usd = times(hour, out->busy_hours * out->decode_share);
  out->idle_usd = times(hour, out->idle_hours);
  out->cold_usd = times(hour, out->cold_hours);
  out->output_mtok_usd = divide(out->usd, (double)s->output_tokens / 1e6);
  if (run->scenario->pool[0].role != KC_ROLE_DECODE) { /* else prompts were computed elsewhere */
    out->input_mtok_usd = divide(times(out->usd, out->prefill_share), computed);
    out->cached_mtok_usd =
        divide(times(out->usd, out->cached_share), (double)s->cached_tokens / 1e6);
  }
  out->decode_mtok_usd =
      divide(times(out->usd, out->decode_share), (double)s->output_tokens / 1e6);
}

/* The most requests a second that the deployment serves, as far as the run tells. */
static struct kc_maybe most_served(const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  const struct kc_run_load load = kc_run_load_of(run);
  const double ended = (double)s->requests_by_status[KC_STATUS_COMPLETED];
  KC_ASSERT(s->makespan_ps >= 0);
  if (load.known) return known(load.served_s);
  if (!run->scenario->workload.is_closed || s->makespan_ps == 0) return (struct kc_maybe){0};
  return known(ended / ((double)s->makespan_ps / (double)KC_PS_PER_S));
}

static void add_api(const struct kc_run *run, struct kc_spending *out)
{
  const struct kc_price_spec *price = &run->scenario->price;
  const struct kc_summary *s = &run->result.summary;
  const double computed = (double)(s->admitted_tokens - s->cached_tokens);
  const double sent =
      (double)(s->requests_total - s->requests_by_status[KC_STATUS_REJECTED]);
  if (!price->has_api) return;
  KC_ASSERT(run->scenario->pool[0].role != KC_ROLE_DECODE);
  out->api_usd = known((computed * price->api_input_usd +
                        (double)s->cached_tokens * price->api_cached_usd +
                        (double)s->output_tokens * price->api_output_usd) / 1e6);
  if (out->usd.known) {
    out->api_ratio = divide(out->usd, out->api_usd.value);
    out->api_ratio_warm = divide(known(out->usd.value - out->cold_usd.value), out->api_usd.value);
  }
  if (!out->hour_usd.known || sent <= 0) return;
  const struct kc_maybe most = most_served(run);
  out->break_even_req_s = divide(times(out->hour_usd, 1.0 / 3600), out->api_usd.value / sent);
  if (most.known) out->break_even_share = divide(out->break_even_req_s, most.value);
}

/* ---- energy ---- */

static void add_energy(const struct kc_run *run, struct kc_spending *out)
{
  const struct kc_gpu *gpu = &run->scenario->pool[0].gpu;
  const struct kc_energy_spec *energy = &run->scenario->energy;
  const double watt_hours =
      gpu->idle_w * out->gpu_hours + (gpu->power_w - gpu->idle_w) * out->busy_hours;
  KC_ASSERT(gpu->power_w >= gpu->idle_w);
  KC_ASSERT(energy->pue >= 1);
  out->kwh = watt_hours / 1000 * energy->pue;
  out->joules_per_token = divide(known(out->kwh * JOULES_PER_KWH),
                                 (double)run->result.summary.output_tokens);
  if (energy->usd_per_kwh > 0) out->energy_usd = known(out->kwh * energy->usd_per_kwh);
}

void kc_run_spending(const struct kc_run *run, struct kc_spending *out)
{
  KC_ASSERT(run->result.replicas >= 1);
  memset(out, 0, sizeof *out);
  add_hours(run, out);
  add_shares(run, out);
  add_money(run, out);
  add_api(run, out);
  add_energy(run, out);
  KC_ASSERT(out->kwh >= 0);
}
