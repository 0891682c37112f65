/* Figures of a scenario by name (see measure.h). Set-up code around runs: it may allocate. */
#include "sim/scenario/measure.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"

#define GIB 1073741824.0

static enum kc_err compute_fit(struct kc_point *point, struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  const struct kc_workload_spec *work = &point->scenario.workload;
  struct kc_memory_config memory = pool->memory;
  struct kc_fit fit;
  KC_ASSERT(memory.context == 0);
  KC_TRY(kc_fit_compute(&point->fit, &point->scenario.model, &pool->precision, &pool->gpu, &memory,
                        diag));
  if (!work->is_closed) return KC_OK;
  memory.context = (uint64_t)work->closed.input_tokens + work->closed.output_tokens;
  memory.concurrency = 1;
  KC_TRY(kc_fit_compute(&fit, &point->scenario.model, &pool->precision, &pool->gpu, &memory, diag));
  point->requests_fit = fit.concurrency_max;
  return KC_OK;
}

enum kc_err kc_point_load(struct kc_point *point, const char *path, const char *const *sets,
                          size_t set_count, struct kc_diag_list *problems)
{
  struct kc_diag why;
  KC_ASSERT(point != NULL && path != NULL);
  memset(point, 0, sizeof *point);
  KC_TRY(kc_scenario_load(&point->scenario, path, sets, set_count, problems));
  if (compute_fit(point, &why) == KC_OK) return KC_OK;
  return kc_diag_list_add(problems, why.code, path, 0, 0, "%s", why.text);
}

enum kc_err kc_point_run(struct kc_point *point, struct kc_diag *diag)
{
  KC_ASSERT(!point->ran);
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  enum kc_err err = kc_run_prepare(run, &point->scenario, diag);
  if (err == KC_OK) err = kc_run_execute(run, diag);
  if (err == KC_OK) {
    point->ran = true;
    point->summary = run->result.summary;
    point->trust = kc_run_trust(run);
    point->has_usd = kc_run_cost(run, &point->usd_per_mtok);
  }
  kc_run_deinit(run);
  free(run);
  return err;
}

/* The largest of the numbers in `among` that is not more than `fits`; 0 when none is. */
static enum kc_err largest_fit(const char *among, uint64_t fits, double *value,
                               struct kc_diag *diag)
{
  uint64_t best = 0;
  KC_ASSERT(among[0] != '\0');
  for (const char *at = among + strspn(among, " "); *at != '\0'; at += strspn(at, " ")) {
    uint64_t number;
    const size_t length = strcspn(at, " ");
    if (!kc_parse_u64(at, length, &number)) {
      return kc_fail(diag, KC_ERR_INPUT, "expect.among: expected whole numbers separated by "
                     "spaces, got \"%s\"", among);
    }
    if (number <= fits && number > best) best = number;
    at += length;
  }
  *value = (double)best;
  return KC_OK;
}

static double gpus_of(const struct kc_point *point)
{
  return kc_run_gpus(&point->scenario);
}

static enum kc_err memory_metric(const struct kc_point *point, const struct kc_expect *expect,
                                 double *value, struct kc_diag *diag)
{
  const struct kc_fit *fit = &point->fit;
  const bool fixed_length = point->scenario.workload.is_closed;
  switch (expect->metric) {
  case KC_METRIC_KV_TOKENS: *value = (double)fit->kv_tokens; return KC_OK;
  case KC_METRIC_KV_ROOM_GIB:
    *value = (double)fit->kv_budget_bytes / GIB * gpus_of(point);
    return KC_OK;
  case KC_METRIC_CHECKPOINT_GIB: *value = (double)fit->checkpoint_bytes / GIB; return KC_OK;
  case KC_METRIC_CHECKPOINT_GPU_GIB:
    *value = (double)fit->checkpoint_bytes / GIB / gpus_of(point);
    return KC_OK;
  case KC_METRIC_WEIGHTS_GPU_GIB: *value = (double)fit->weights_bytes / GIB; return KC_OK;
  default: break;
  }
  KC_ASSERT(expect->metric == KC_METRIC_REQUESTS_FIT || expect->metric == KC_METRIC_LARGEST_FIT);
  if (!fixed_length) {
    return kc_fail(diag, KC_ERR_INPUT, "how many requests fit is known for a closed workload only");
  }
  *value = (double)point->requests_fit;
  if (expect->metric == KC_METRIC_REQUESTS_FIT) return KC_OK;
  return largest_fit(expect->among, point->requests_fit, value, diag);
}

static double milliseconds(kc_ps time_ps)
{
  return (double)time_ps / (double)KC_PS_PER_MS;
}

static enum kc_err run_metric(const struct kc_point *point, const struct kc_expect *expect,
                              double *value, struct kc_diag *diag)
{
  const struct kc_summary *s = &point->summary;
  const struct kc_statistic *of = expect->metric == KC_METRIC_TPOT_MEAN_MS ? &s->tpot
                                : expect->metric == KC_METRIC_TTFT_MEAN_MS ? &s->ttft : &s->e2e;
  KC_ASSERT(point->ran);
  switch (expect->metric) {
  case KC_METRIC_OUTPUT_TOK_S: *value = (double)s->output_tok_s_micro / 1e6; return KC_OK;
  case KC_METRIC_INPUT_TOK_S:
    if (s->makespan_ps == 0) break;
    *value = (double)s->input_tokens_completed / ((double)s->makespan_ps / 1e12);
    return KC_OK;
  case KC_METRIC_USD_PER_MTOK:
    if (!point->has_usd) break;
    *value = point->usd_per_mtok;
    return KC_OK;
  default:
    if (of->count == 0) break;
    *value = milliseconds(expect->metric == KC_METRIC_E2E_P95_MS ? of->p95_ps : of->mean_ps);
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_INPUT, "the run of \"%s\" has no %s", point->scenario.name,
                 kc_expect_metric_name((enum kc_expect_metric)expect->metric));
}

enum kc_err kc_point_metric(const struct kc_point *point, const struct kc_expect *expect,
                            double *value, struct kc_diag *diag)
{
  KC_ASSERT(value != NULL);
  KC_ASSERT((unsigned)expect->metric < KC_METRICS);
  if (!kc_expect_needs_run((enum kc_expect_metric)expect->metric)) {
    return memory_metric(point, expect, value, diag);
  }
  return run_metric(point, expect, value, diag);
}
