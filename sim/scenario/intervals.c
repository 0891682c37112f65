/* Replicates of a run (see intervals.h). Set-up code around runs: it may allocate. */
#include "sim/scenario/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"

#define KERNELS_SPREAD 0.06
#define DATASHEET_SPREAD 0.20
#define HOST_SPREAD 0.10
#define HOST_UNKNOWN_US 1000.0
#define FACTOR_MIN 0.4

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

static enum kc_err run_once(struct kc_figure_set *values, enum kc_cost_level *level,
                            const struct kc_scenario *scenario, struct kc_inputs *inputs,
                            bool (*interrupted)(void *context), struct kc_diag *diag)
{
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  enum kc_err err = kc_run_prepare_from(run, scenario, inputs, diag);
  if (err == KC_OK) {
    run->replay.interrupted = interrupted;
    err = kc_run_execute(run, diag);
  }
  if (err == KC_OK) {
    kc_figures_of_run(run, values);
    *level = kc_run_trust(run).level;
  }
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

static void summarise(struct kc_intervals *out, const struct kc_figure_set *values, double *sorted)
{
  for (int f = 0; f < KC_FIGURES; f++) {
    struct kc_interval *interval = &out->figure[f];
    if (!kc_figure_needs_run((enum kc_figure)f)) continue;
    for (uint32_t i = 0; i < out->replicates; i++) {
      if (values[i].known[f]) sorted[interval->count++] = values[i].value[f];
    }
    if (interval->count == 0) continue;
    qsort(sorted, interval->count, sizeof *sorted, ascending);
    interval->low = rank(sorted, interval->count, 5);
    interval->median = rank(sorted, interval->count, 50);
    interval->high = rank(sorted, interval->count, 95);
    KC_ASSERT(interval->low <= interval->high);
  }
}

/* Is the figure as wrong as the step times may be? What an API bills is not. */
static bool rests_on_times(enum kc_figure figure)
{
  static const char *const units[] = {"ms", "s", "h", "tok/s", "req/s", "USD", "kWh", "J"};
  if (figure == KC_FIGURE_API_RATIO) return true;
  if (figure == KC_FIGURE_API_USD || figure == KC_FIGURE_BREAK_EVEN_REQ_S) return false;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strcmp(kc_figure_unit(figure), units[i]) == 0) return true;
  }
  return false;
}

static void widen(struct kc_intervals *out, const struct kc_figure_set *own)
{
  KC_ASSERT(out->replicates >= 2);
  if (out->level == KC_LEVEL_CALIBRATED) return;
  for (int f = 0; f < KC_FIGURES; f++) {
    struct kc_interval *interval = &out->figure[f];
    if (interval->count == 0 || !own->known[f] || !rests_on_times((enum kc_figure)f)) continue;
    const double low = own->value[f] * (1 - KC_INTERVALS_LEAST);
    const double high = own->value[f] * (1 + KC_INTERVALS_LEAST);
    KC_ASSERT(low <= high);
    if (low < interval->low) interval->low = low;
    if (high > interval->high) interval->high = high;
  }
}

static enum kc_err replicate(struct kc_figure_set *values, struct kc_scenario *changed,
                             const struct kc_scenario *scenario, struct kc_inputs *inputs,
                             uint32_t number,
                             bool (*interrupted)(void *context), struct kc_diag *diag)
{
  struct kc_random random;
  enum kc_cost_level level; /* what counts is that of the run itself */
  struct kc_gpu_profile *profile = &changed->pool[0].profile;
  kc_random_init(&random, scenario->seed, "intervals", number);
  *changed = *scenario;
  changed->seed = kc_random_u64(&random);
  changed->workload.transform.seed = changed->seed;
  const double factor = 1.0 + spread_of(profile) * normal(&random);
  draw_parameters(profile, &random);
  const double scale = profile->kernel_scale > 0 ? profile->kernel_scale : 1;
  profile->kernel_scale = scale * (factor > FACTOR_MIN ? factor : FACTOR_MIN);
  return run_once(values, &level, changed, inputs, interrupted, diag);
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
  struct kc_figure_set *values = calloc((size_t)replicates + 1, sizeof *values);
  double *sorted = calloc(replicates, sizeof *sorted);
  struct kc_inputs *inputs = kc_inputs_create();
  enum kc_err err = KC_OK;
  if (changed == NULL || values == NULL || sorted == NULL || inputs == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for the replicates");
  }
  for (uint32_t i = 0; err == KC_OK && i < replicates; i++) {
    err = replicate(&values[i], changed, scenario, inputs, i, interrupted, diag);
  }
  if (err == KC_OK) {
    err = run_once(&values[replicates], &out->level, scenario, inputs, interrupted, diag);
  }
  if (err == KC_OK) {
    summarise(out, values, sorted);
    widen(out, &values[replicates]);
  }
  free(changed);
  free(values);
  free(sorted);
  kc_inputs_destroy(inputs);
  return err;
}
