/* Replicates of a run (see intervals.h). Set-up code around runs: it may allocate. */
#include "sim/scenario/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"

static const char *const names[] = {"output_tok_s", "ttft_mean_ms", "ttft_p95_ms", "tpot_mean_ms",
                                    "tpot_p95_ms", "e2e_mean_ms", "e2e_p95_ms", "usd_per_mtok"};

#define KERNELS_SPREAD 0.06
#define DATASHEET_SPREAD 0.20
#define HOST_SPREAD 0.10
#define HOST_UNKNOWN_US 1000.0
#define FACTOR_MIN 0.4

const char *kc_interval_name(enum kc_interval_figure figure)
{
  KC_ASSERT((unsigned)figure < sizeof names / sizeof names[0]);
  return names[figure];
}

/* Uniform in [0, 1). */
static double uniform(struct kc_random *random)
{
  const uint64_t draw = kc_random_u64(random) >> 11;
  KC_ASSERT(draw < UINT64_C(1) << 53);
  return (double)draw / 9007199254740992.0;
}

/* Nearly normal, of mean 0 and deviation 1: the sum of twelve uniform draws, less 6. No libm. */
static double normal(struct kc_random *random)
{
  double sum = -6.0;
  for (int i = 0; i < 12; i++) sum += uniform(random);
  KC_ASSERT(sum >= -6.0 && sum <= 6.0);
  return sum;
}

static double spread_of(const struct kc_gpu_profile *profile)
{
  KC_ASSERT(profile->residual_percent >= 0);
  if (profile->calibrated) return profile->residual_percent / 100.0;
  return profile->kernels[0] != '\0' ? KERNELS_SPREAD : DATASHEET_SPREAD;
}

/* Another of the fits that the profile's measurement allows. */
static void draw_parameters(struct kc_gpu_profile *profile, struct kc_random *random)
{
  if (profile->left_out_count > 0) { /* these say how uncertain the host term is, too */
    const uint64_t at = kc_random_below(random, profile->left_out_count);
    const struct kc_left_out *fit = &profile->left_out[at];
    KC_ASSERT(fit->bandwidth_efficiency > 0 && fit->kv_efficiency > 0);
    profile->bandwidth_efficiency = fit->bandwidth_efficiency;
    profile->kv_efficiency = fit->kv_efficiency;
    profile->flops_efficiency = fit->flops_efficiency;
    profile->expand_efficiency = fit->expand_efficiency;
    profile->host_step_us = fit->host_step_us;
    return;
  }
  const double factor = 1.0 + HOST_SPREAD * normal(random);
  profile->host_step_us *= factor > FACTOR_MIN ? factor : FACTOR_MIN;
  if (!profile->host_measured) profile->host_step_us += HOST_UNKNOWN_US * uniform(random);
}

struct values {
  double of[KC_INTERVAL_FIGURES];
  bool has[KC_INTERVAL_FIGURES];
};

static void set_times(struct values *values, enum kc_interval_figure mean,
                      enum kc_interval_figure p95, const struct kc_statistic *statistic)
{
  values->has[mean] = values->has[p95] = statistic->count > 0;
  values->of[mean] = (double)statistic->mean_ps / (double)KC_PS_PER_MS;
  values->of[p95] = (double)statistic->p95_ps / (double)KC_PS_PER_MS;
}

static void take_values(struct values *values, const struct kc_run *run)
{
  const struct kc_summary *s = &run->result.summary;
  memset(values, 0, sizeof *values);
  values->has[KC_INTERVAL_OUTPUT_TOK_S] = s->makespan_ps > 0;
  values->of[KC_INTERVAL_OUTPUT_TOK_S] = (double)s->output_tok_s_micro / 1e6;
  set_times(values, KC_INTERVAL_TTFT_MEAN_MS, KC_INTERVAL_TTFT_P95_MS, &s->ttft);
  set_times(values, KC_INTERVAL_TPOT_MEAN_MS, KC_INTERVAL_TPOT_P95_MS, &s->tpot);
  set_times(values, KC_INTERVAL_E2E_MEAN_MS, KC_INTERVAL_E2E_P95_MS, &s->e2e);
  values->has[KC_INTERVAL_USD_PER_MTOK] =
      kc_run_cost(run, &values->of[KC_INTERVAL_USD_PER_MTOK]);
}

/* One run of the changed scenario, its kernels slower by `factor`. */
static enum kc_err run_once(struct values *values, const struct kc_scenario *scenario,
                            double factor, bool (*interrupted)(void *context),
                            struct kc_diag *diag)
{
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  enum kc_err err = kc_run_prepare(run, scenario, diag);
  if (err == KC_OK) {
    KC_ASSERT(factor > 0 && factor < 1000);
    run->cost.scale_q16 = (uint32_t)(factor * 65536.0 + 0.5);
    run->replay.interrupted = interrupted;
    err = kc_run_execute(run, diag);
  }
  if (err == KC_OK) take_values(values, run);
  kc_run_deinit(run);
  free(run);
  return err;
}

static int ascending(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Nearest rank: the smallest value with at least `percent` of all at or below it. */
static double rank(const double *sorted, uint32_t count, uint32_t percent)
{
  const uint32_t at = (count * percent + 99) / 100;
  KC_ASSERT(count > 0 && at <= count);
  return sorted[at > 0 ? at - 1 : 0];
}

static void summarise(struct kc_intervals *out, const struct values *values, double *sorted)
{
  for (int f = 0; f < KC_INTERVAL_FIGURES; f++) {
    struct kc_interval *interval = &out->figure[f];
    for (uint32_t i = 0; i < out->replicates; i++) {
      if (values[i].has[f]) sorted[interval->count++] = values[i].of[f];
    }
    if (interval->count == 0) continue;
    qsort(sorted, interval->count, sizeof *sorted, ascending);
    interval->low = rank(sorted, interval->count, 5);
    interval->median = rank(sorted, interval->count, 50);
    interval->high = rank(sorted, interval->count, 95);
    KC_ASSERT(interval->low <= interval->high);
  }
}

static enum kc_err replicate(struct values *values, struct kc_scenario *changed,
                             const struct kc_scenario *scenario, uint32_t number,
                             bool (*interrupted)(void *context), struct kc_diag *diag)
{
  struct kc_random random;
  struct kc_gpu_profile *profile = &changed->pool[0].profile;
  kc_random_init(&random, scenario->seed, "intervals", number);
  *changed = *scenario;
  changed->seed = kc_random_u64(&random);
  changed->workload.transform.seed = changed->seed;
  const double factor = 1.0 + spread_of(profile) * normal(&random);
  draw_parameters(profile, &random);
  return run_once(values, changed, factor > FACTOR_MIN ? factor : FACTOR_MIN, interrupted, diag);
}

enum kc_err kc_intervals_compute(struct kc_intervals *out, const struct kc_scenario *scenario,
                                 uint32_t replicates, bool (*interrupted)(void *context),
                                 struct kc_diag *diag)
{
  KC_ASSERT(replicates >= 2 && replicates <= KC_INTERVALS_MAX);
  const struct kc_gpu_profile *profile = &scenario->pool[0].profile;
  const struct kc_transform *transform = &scenario->workload.transform;
  *out = (struct kc_intervals){.replicates = replicates, .time_percent = 100 * spread_of(profile),
                               .left_out = profile->left_out_count > 0,
                               .host_unknown = profile->left_out_count == 0 &&
                                               !profile->host_measured};
  out->seed_matters = !scenario->workload.is_closed &&
                      (transform->spread_ps > 0 ||
                       transform->sample.numerator != transform->sample.denominator);
  struct kc_scenario *changed = malloc(sizeof *changed);
  struct values *values = calloc(replicates, sizeof *values);
  double *sorted = calloc(replicates, sizeof *sorted);
  enum kc_err err = KC_OK;
  if (changed == NULL || values == NULL || sorted == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for the replicates");
  }
  for (uint32_t i = 0; err == KC_OK && i < replicates; i++) {
    err = replicate(&values[i], changed, scenario, i, interrupted, diag);
  }
  if (err == KC_OK) summarise(out, values, sorted);
  free(changed);
  free(values);
  free(sorted);
  return err;
}
