/* Points of sweeps and searches (see point.h). Set-up code around runs: it may allocate. */
#include "sim/plan/point.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum kc_err kc_point_load(struct kc_point *point, const char *path, const char *const *sets,
                          size_t set_count, struct kc_diag_list *problems)
{
  struct kc_diag why;
  KC_ASSERT(point != NULL && path != NULL);
  memset(point, 0, sizeof *point);
  KC_TRY(kc_scenario_load(&point->scenario, path, sets, set_count, problems));
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  KC_ASSERT(pool->memory.context == 0);
  if (kc_fit_compute(&point->fit, &point->scenario.model, &pool->precision, &pool->gpu,
                     &pool->memory, &why) != KC_OK) {
    return kc_diag_list_add(problems, why.code, path, 0, 0, "%s", why.text);
  }
  kc_figures_of_fit(&point->scenario, &point->fit, &point->figures);
  return KC_OK;
}

/* ---- the hash ---- */

/* "name value\n": no two lists of such lines are the same text. */
static void add_line(struct kc_sha256 *sha, const char *name, const char *value)
{
  KC_ASSERT(name[0] != '\0' && strchr(value, '\n') == NULL);
  kc_sha256_update(sha, name, strlen(name));
  kc_sha256_update(sha, " ", 1);
  kc_sha256_update(sha, value, strlen(value));
  kc_sha256_update(sha, "\n", 1);
}

/* The files that the scenario names, by what is in them. */
static enum kc_err add_files(const struct kc_point *point, struct kc_inputs *inputs,
                             struct kc_sha256 *sha, struct kc_diag *diag)
{
  const struct kc_scenario *scenario = &point->scenario;
  const struct kc_pool_spec *pool = &scenario->pool[0];
  const struct kc_workload_spec *work = &scenario->workload;
  KC_ASSERT(scenario->pool_count == 1);
  add_line(sha, "model", scenario->model.sha256);
  add_line(sha, "gpu", pool->gpu.sha256);
  if (pool->profile.kernels[0] != '\0') {
    char path[KC_DIAG_PATH_BYTES];
    const struct kc_profile *kernels;
    KC_TRY(kc_kernels_find(&pool->gpu, pool->profile.kernels, scenario->model.name,
                           pool->memory.tensor, path, diag));
    KC_TRY(kc_inputs_kernels(inputs, path, &kernels, diag));
    add_line(sha, "kernels", kc_profile_sha256(kernels));
  }
  if (!work->is_closed) {
    const struct kc_trace *trace;
    KC_TRY(kc_inputs_trace(inputs, work->trace_path, &work->trace_options, &trace, diag));
    add_line(sha, "trace", trace->sha256);
  }
  return KC_OK;
}

enum kc_err kc_point_hash(const struct kc_point *point, struct kc_inputs *inputs,
                          const char *version, char hex[KC_SHA256_HEX_BYTES],
                          struct kc_diag *diag)
{
  struct kc_sha256 sha;
  KC_ASSERT(inputs != NULL && version != NULL);
  kc_sha256_init(&sha);
  add_line(&sha, "version", version);
  KC_TRY(add_files(point, inputs, &sha, diag));
  char *text = kc_scenario_resolved(&point->scenario);
  if (text == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the resolved scenario");
  kc_sha256_update(&sha, text, strlen(text));
  free(text);
  kc_sha256_final_hex(&sha, hex);
  return KC_OK;
}

/* ---- the run ---- */

enum kc_err kc_point_run(struct kc_point *point, struct kc_inputs *inputs,
                         bool (*interrupted)(void *context), struct kc_diag *diag)
{
  KC_ASSERT(point->scenario.pool_count == 1);
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  enum kc_err err = inputs == NULL
                        ? kc_run_prepare(run, &point->scenario, diag)
                        : kc_run_prepare_from(run, &point->scenario, inputs, diag);
  if (err == KC_OK) {
    run->replay.interrupted = interrupted;
    err = kc_run_execute(run, diag);
  }
  if (err == KC_OK) {
    point->ran = true;
    point->trust = kc_run_trust(run);
    point->seen = kc_run_seen(run);
    kc_figures_of_run(run, &point->figures);
    memcpy(point->result_sha256, run->result.summary.result_sha256, sizeof point->result_sha256);
  }
  kc_run_deinit(run);
  free(run);
  return err;
}

/* ---- all at once ---- */

const char *kc_point_status_name(enum kc_point_status status)
{
  static const char *const names[] = {"done", "no_fit", "refused", "failed"};
  KC_ASSERT((unsigned)status < sizeof names / sizeof names[0]);
  return names[status];
}

/* Whose fault an error is. */
static enum kc_point_status status_of(enum kc_err err)
{
  KC_ASSERT(err != KC_OK);
  KC_ASSERT(err != KC_ERR_INTERRUPTED);
  if (err == KC_ERR_NO_FIT) return KC_POINT_NO_FIT;
  return err == KC_ERR_INPUT || err == KC_ERR_USAGE || err == KC_ERR_LIMIT ? KC_POINT_REFUSED
                                                                         : KC_POINT_FAILED;
}

/* Loads into `scratch`; false when the result says why not. */
static bool load(const struct kc_point_spec *spec, struct kc_point *scratch,
                 struct kc_point_result *result)
{
  struct kc_diag_list *problems = malloc(sizeof *problems);
  KC_ASSERT(spec->path != NULL);
  if (problems == NULL) {
    result->status = status_of(kc_fail(&result->why, KC_ERR_MEMORY, "no memory for a scenario"));
    return false;
  }
  const enum kc_err err =
      kc_point_load(scratch, spec->path, spec->sets, spec->set_count, problems);
  if (err != KC_OK) {
    result->why = problems->items[0];
    result->status = status_of(err);
  }
  free(problems);
  return err == KC_OK;
}

enum kc_err kc_point_evaluate(const struct kc_point_context *context,
                              const struct kc_point_spec *spec, struct kc_point *scratch,
                              struct kc_point_result *result)
{
  KC_ASSERT(context->inputs != NULL && context->version != NULL);
  memset(result, 0, sizeof *result);
  if (!load(spec, scratch, result)) return KC_OK;
  enum kc_err err = kc_point_hash(scratch, context->inputs, context->version,
                                  result->config_sha256, &result->why);
  if (err == KC_OK && context->known != NULL &&
      context->known(context->known_context, result->config_sha256, result)) {
    result->known = true;
    return KC_OK;
  }
  if (err == KC_OK && !spec->bill_only) {
    err = kc_point_run(scratch, context->inputs, context->interrupted, &result->why);
  } else if (err == KC_OK && !scratch->fit.fits) {
    err = kc_run_no_fit(&scratch->scenario, &scratch->fit, &result->why);
  }
  if (err == KC_ERR_INTERRUPTED) return err;
  result->status = err == KC_OK ? KC_POINT_DONE : status_of(err);
  result->figures = scratch->figures;
  result->ran = scratch->ran;
  result->trust = scratch->trust;
  memcpy(result->result_sha256, scratch->result_sha256, sizeof result->result_sha256);
  return KC_OK;
}
