/* The fit by simulation (see replay_fit.h).
 *
 *   objective = mean over requests of  min(|TPOT|, cap) + min(|E2E|, cap) + weight min(|TTFT|, cap)
 *
 * where each is predicted / measured - 1. Absolute errors with a cap: one request that met a
 * warm-up or a cached prompt must not move the rest. TTFT counts less: at light load it is one or
 * two steps, and when within a step a request happened to come decides much of it.
 *
 * Where the caps hold nearly everything, far from the measurement, they say nothing of where to go.
 * Then a walk without them, over the larger of both ratios, comes first.
 *
 * A run costs tens of milliseconds, so what needs hundreds of fits (each request left out, the
 * bootstrap) uses the slopes at the best terms: one more run a term, then linear least squares.
 */
#include "sim/calibrate/replay_fit.h"

#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/calibrate/fitted_to.h"

#define CAP 0.1
#define TTFT_CAP 0.3
#define TTFT_WEIGHT 0.3
#define SATURATED (0.5 * (2 * CAP + TTFT_WEIGHT * TTFT_CAP)) /* distance: half of all the caps */
#define EFFECT_LEAST 1e-3 /* of an answer, when a term moves by a step */
#define FAR 10.0 /* objective of terms that do not run */

enum { SIMPLEX_ROUNDS = 120, STARTS = 5, BOOTSTRAP = 200, ANSWERS = 2 /* TPOT and E2E */ };

static const struct {
  const char *name;
  bool is_time;
  double least, most, start, step;
} terms[KC_REPLAY_TERMS] = {
  [KC_REPLAY_HOST] = {"host", true, 0, 1e5, 300, 300},
  [KC_REPLAY_PROMPT] = {"prompt", true, 0, 1e6, 2000, 1500},
  [KC_REPLAY_SCALE] = {"scale", false, 0.5, 2, 1, 0.05},
  [KC_REPLAY_SPREAD] = {"spread", false, 0.001, 1, 0.7, 0.25},
  [KC_REPLAY_LINK] = {"link", false, 0.01, 1, 0.4, 0.15},
  [KC_REPLAY_LATENCY] = {"link-latency", true, 0, 1e4, 20, 10},
  [KC_REPLAY_WEIGHTS] = {"weights", false, 0.01, 1, 0.8, 0.1},
  [KC_REPLAY_KV] = {"kv", false, 0.01, 1, 0.8, 0.1},
  [KC_REPLAY_FLOPS] = {"flops", false, 0.001, 1, 0.6, 0.1},
};

const char *kc_replay_term_name(enum kc_replay_term term)
{
  KC_ASSERT((unsigned)term < KC_REPLAY_TERMS);
  return terms[term].name;
}

bool kc_replay_term_is_time(enum kc_replay_term term)
{
  KC_ASSERT((unsigned)term < KC_REPLAY_TERMS);
  return terms[term].is_time;
}

bool kc_replay_term_parse(const char *name, size_t length, enum kc_replay_term *out)
{
  for (int t = 0; t < KC_REPLAY_TERMS; t++) {
    if (strlen(terms[t].name) == length && memcmp(terms[t].name, name, length) == 0) {
      *out = (enum kc_replay_term)t;
      return true;
    }
  }
  return false;
}

static double *term_of(struct kc_gpu_profile *profile, enum kc_replay_term term)
{
  double *const of[KC_REPLAY_TERMS] = {
    [KC_REPLAY_HOST] = &profile->host_step_us,
    [KC_REPLAY_PROMPT] = &profile->prompt_step_us,
    [KC_REPLAY_SCALE] = &profile->kernel_scale,
    [KC_REPLAY_SPREAD] = &profile->spread_share,
    [KC_REPLAY_LINK] = &profile->link_efficiency,
    [KC_REPLAY_LATENCY] = &profile->link_latency_us,
    [KC_REPLAY_WEIGHTS] = &profile->bandwidth_efficiency,
    [KC_REPLAY_KV] = &profile->kv_efficiency,
    [KC_REPLAY_FLOPS] = &profile->flops_efficiency,
  };
  KC_ASSERT((unsigned)term < KC_REPLAY_TERMS);
  return of[term];
}

/* ---- one run ---- */

enum kc_err kc_replay_predict(const struct kc_scenario *scenario, struct kc_log_request *out,
                              size_t count, struct kc_replay_worth *worth, struct kc_diag *diag)
{
  struct kc_run *run = calloc(1, sizeof *run);
  struct kc_log_answers answers = {out, count};
  if (run == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the run");
  memset(out, 0, count * sizeof *out);
  enum kc_err err = kc_run_prepare(run, scenario, diag);
  if (err == KC_OK && run->request_count != count) {
    err = kc_fail(diag, KC_ERR_INPUT, "the workload has %u requests and the log %zu: both "
                  "must be the same load", run->request_count, count);
  }
  if (err == KC_OK) {
    run->replay.recorder = kc_log_recorder(&answers);
    err = kc_run_execute(run, diag);
  }
  if (err == KC_OK) {
    *worth = (struct kc_replay_worth){kc_run_seen(run), kc_run_trust(run).level};
  }
  kc_run_deinit(run);
  free(run);
  return err;
}

/* ---- objective ---- */

static double capped(double predicted, double measured, double cap, bool loose)
{
  const double error = fabs(predicted / measured - 1);
  KC_ASSERT(measured > 0);
  if (loose) return predicted < measured && predicted > 0 ? measured / predicted - 1 : error;
  return error < cap ? error : cap;
}

/* Does the fit look at this request? */
static bool counts(const struct kc_replay_fit *fit, size_t i)
{
  const struct kc_log_request *row = &fit->log->row[i];
  return i < fit->first && row->ok && row->ttft_s > 0 && row->output_tokens > 1 &&
         row->e2e_s > row->ttft_s && fit->predicted[i].ok;
}

static double distance(const struct kc_replay_fit *fit, bool loose)
{
  double sum = 0;
  uint32_t rows = 0;
  for (size_t i = 0; i < fit->log->count && i < fit->first; i++) {
    if (!counts(fit, i)) continue;
    const struct kc_log_request *m = &fit->log->row[i], *p = &fit->predicted[i];
    sum += capped(p->e2e_s - p->ttft_s, m->e2e_s - m->ttft_s, CAP, loose);
    sum += capped(p->e2e_s, m->e2e_s, CAP, loose);
    sum += TTFT_WEIGHT * capped(p->ttft_s, m->ttft_s, TTFT_CAP, loose);
    rows++;
  }
  return rows == 0 ? FAR : sum / rows;
}

static double clamp(enum kc_replay_term term, double value)
{
  if (value < terms[term].least) return terms[term].least;
  return value > terms[term].most ? terms[term].most : value;
}

struct search {
  struct kc_replay_fit *fit;
  struct kc_diag *diag;
  enum kc_err err;
  bool loose; /* without caps */
};

static enum kc_err run_with(struct kc_replay_fit *fit, const double *value, struct kc_diag *diag)
{
  struct kc_gpu_profile *profile = &fit->scenario->pool[0].profile;
  for (uint32_t k = 0; k < fit->free_count; k++) {
    *term_of(profile, fit->free[k]) = clamp(fit->free[k], value[k]);
  }
  fit->runs++;
  return kc_replay_predict(fit->scenario, fit->predicted, fit->log->count, &fit->worth, diag);
}

/* The simplex walks in units of each term's step; beyond a bound the distance grows. */
static double objective(const gsl_vector *x, void *context)
{
  struct search *s = context;
  struct kc_replay_fit *fit = s->fit;
  double value[KC_REPLAY_FREE_MAX], beyond = 0;
  if (s->err != KC_OK) return FAR;
  for (uint32_t k = 0; k < fit->free_count; k++) {
    const enum kc_replay_term t = fit->free[k];
    value[k] = terms[t].start + terms[t].step * gsl_vector_get(x, k);
    beyond += fabs(value[k] - clamp(t, value[k])) / terms[t].step;
  }
  s->err = run_with(fit, value, s->diag);
  return s->err == KC_OK ? distance(fit, s->loose) + 0.1 * beyond : FAR;
}

/* One walk from `x`, which then holds where it ended; *least = the distance there. */
static void walk_from(struct search *search, gsl_vector *x, double *least)
{
  const uint32_t free_count = search->fit->free_count;
  gsl_multimin_function f = {objective, free_count, search};
  gsl_vector *step = gsl_vector_alloc(free_count);
  gsl_multimin_fminimizer *m =
      gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, free_count);
  KC_ASSERT(x->size == free_count);
  gsl_vector_set_all(step, 1);
  gsl_multimin_fminimizer_set(m, &f, x, step);
  for (int i = 0; i < SIMPLEX_ROUNDS && search->err == KC_OK; i++) {
    if (gsl_multimin_fminimizer_iterate(m) != 0) break;
    if (gsl_multimin_test_size(gsl_multimin_fminimizer_size(m), 1e-3) == 0) break;
  }
  gsl_vector_memcpy(x, m->x);
  *least = m->fval;
  gsl_multimin_fminimizer_free(m);
  gsl_vector_free(step);
}

/* To where the caps leave something to see, and on from there. Where they never do, the nearest is
 * best. `x` is scratch; `*least` is the distance of `best`. */
static void walk_far(struct search *search, gsl_vector *x, gsl_vector *best, double *least)
{
  double found;
  KC_ASSERT(x->size == best->size);
  gsl_vector_set_zero(x);
  search->loose = true;
  const double here = objective(best, search);
  walk_from(search, x, &found);
  walk_from(search, x, &found); /* a simplex that went far has grown flat: once more from there */
  if (found < here) {
    gsl_vector_memcpy(best, x);
    *least = INFINITY;
  }
  search->loose = false;
  walk_from(search, x, &found);
  if (found < SATURATED && found < *least) gsl_vector_memcpy(best, x);
}

/* A request may fall into the next step by a hair, so the distance has small dents that hold a
 * simplex. Walks from several places, drawn from a fixed seed around the start, and one more from
 * the best of them. */
static enum kc_err walk(struct kc_replay_fit *fit, struct kc_diag *diag)
{
  struct search search = {fit, diag, KC_OK, false};
  struct kc_random random;
  gsl_vector *x = gsl_vector_calloc(fit->free_count), *best = gsl_vector_calloc(fit->free_count);
  double least = INFINITY, found;
  kc_random_init(&random, 1, "starts", 0);
  for (int i = 0; i <= STARTS && search.err == KC_OK; i++) {
    for (uint32_t k = 0; k < fit->free_count && i > 0; k++) {
      const double draw = (double)kc_random_below(&random, 4001) / 1000 - 2; /* in steps */
      gsl_vector_set(x, k, i < STARTS ? draw : gsl_vector_get(best, k));
    }
    walk_from(&search, x, &found);
    if (found < least) {
      least = found;
      gsl_vector_memcpy(best, x);
    }
  }
  if (least > SATURATED && search.err == KC_OK) walk_far(&search, x, best, &least);
  for (uint32_t k = 0; k < fit->free_count; k++) {
    const enum kc_replay_term t = fit->free[k];
    const double value = terms[t].start + terms[t].step * gsl_vector_get(best, k);
    fit->best[k] = clamp(t, value);
    const double near = 0.005 * terms[t].step; /* a simplex shrinks towards a bound */
    fit->at_bound[k] = fit->best[k] <= terms[t].least + near ||
                       fit->best[k] >= terms[t].most - near;
  }
  gsl_vector_free(x);
  gsl_vector_free(best);
  return search.err;
}

/* ---- what the fit is worth ---- */

/* error ~ error_0 + sum_k slope_k * change_k, two answers a request; changes in steps of a term. */
struct slopes {
  uint32_t rows, unknowns;
  double *error;  /* [rows * ANSWERS] */
  double *slope;  /* [rows * ANSWERS][unknowns] */
};

static void errors_of(const struct kc_replay_fit *fit, double *out)
{
  size_t n = 0;
  for (size_t i = 0; i < fit->log->count && i < fit->first; i++) {
    if (!counts(fit, i)) continue;
    const struct kc_log_request *m = &fit->log->row[i], *p = &fit->predicted[i];
    out[n++] = (p->e2e_s - p->ttft_s) / (m->e2e_s - m->ttft_s) - 1;
    out[n++] = p->e2e_s / m->e2e_s - 1;
  }
  KC_ASSERT(n == (size_t)fit->rows * ANSWERS);
}

static enum kc_err take_slopes(struct kc_replay_fit *fit, struct slopes *s, struct kc_diag *diag)
{
  const size_t n = (size_t)s->rows * ANSWERS;
  double *moved = malloc(n * sizeof *moved), value[KC_REPLAY_FREE_MAX];
  if (moved == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the fit");
  enum kc_err err = KC_OK;
  errors_of(fit, s->error);
  for (uint32_t k = 0; k < s->unknowns && err == KC_OK; k++) {
    const enum kc_replay_term t = fit->free[k];
    memcpy(value, fit->best, sizeof value);
    double change = 0.5 * terms[t].step;
    if (value[k] + change > terms[t].most) change = -change;
    value[k] += change;
    err = run_with(fit, value, diag);
    if (err != KC_OK) break;
    errors_of(fit, moved);
    for (size_t i = 0; i < n; i++) {
      s->slope[i * s->unknowns + k] = (moved[i] - s->error[i]) / (change / terms[t].step);
    }
  }
  free(moved);
  return err;
}

/* Changes that make the weighted squares least; a slight pull to none keeps it solvable where two
 * terms do the same. */
static void solve(const struct slopes *s, const double *weight, double *change)
{
  const uint32_t m = s->unknowns;
  gsl_matrix *a = gsl_matrix_calloc(m, m);
  gsl_vector *b = gsl_vector_calloc(m), *x = gsl_vector_calloc(m);
  for (uint32_t r = 0; r < s->rows; r++) {
    for (uint32_t i = r * ANSWERS; i < (r + 1) * ANSWERS; i++) {
      const double *slope = &s->slope[(size_t)i * m];
      for (uint32_t k = 0; k < m; k++) {
        *gsl_vector_ptr(b, k) -= weight[r] * slope[k] * s->error[i];
        for (uint32_t l = 0; l < m; l++) {
          *gsl_matrix_ptr(a, k, l) += weight[r] * slope[k] * slope[l];
        }
      }
    }
  }
  for (uint32_t k = 0; k < m; k++) *gsl_matrix_ptr(a, k, k) += 1e-6;
  gsl_linalg_HH_solve(a, b, x);
  for (uint32_t k = 0; k < m; k++) change[k] = gsl_vector_get(x, k);
  gsl_matrix_free(a);
  gsl_vector_free(b);
  gsl_vector_free(x);
}

static int ascending(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *values, size_t count, double *largest)
{
  KC_ASSERT(count > 0);
  qsort(values, count, sizeof values[0], ascending);
  *largest = values[count - 1];
  return values[count / 2];
}

/* Each request predicted by the terms that the others give. */
static void leave_out(struct kc_replay_fit *fit, const struct slopes *s, double *weight,
                      double *scratch)
{
  double all[KC_REPLAY_FREE_MAX], change[KC_REPLAY_FREE_MAX];
  size_t n = 0;
  for (uint32_t r = 0; r < s->rows; r++) weight[r] = 1;
  solve(s, weight, all);
  for (uint32_t r = 0; r < s->rows; r++) {
    weight[r] = 0;
    solve(s, weight, change);
    weight[r] = 1;
    for (uint32_t i = r * ANSWERS; i < (r + 1) * ANSWERS; i++) {
      double error = s->error[i];
      for (uint32_t k = 0; k < s->unknowns; k++) {
        error += s->slope[(size_t)i * s->unknowns + k] * (change[k] - all[k]);
      }
      scratch[n++] = 100 * fabs(error);
    }
  }
  fit->left_out_median_percent = middle(scratch, n, &fit->left_out_largest_percent);
  for (n = 0; n < (size_t)s->rows * ANSWERS; n++) scratch[n] = 100 * fabs(s->error[n]);
  fit->residual_median_percent = middle(scratch, n, &fit->residual_largest_percent);
}

/* Requests drawn with replacement, from a fixed seed. */
static void bootstrap(struct kc_replay_fit *fit, const struct slopes *s, double *weight)
{
  double value[KC_REPLAY_FREE_MAX][BOOTSTRAP], all[KC_REPLAY_FREE_MAX], change[KC_REPLAY_FREE_MAX];
  struct kc_random random;
  kc_random_init(&random, 1, "bootstrap", 0);
  for (uint32_t r = 0; r < s->rows; r++) weight[r] = 1;
  solve(s, weight, all);
  for (int b = 0; b < BOOTSTRAP; b++) {
    for (uint32_t r = 0; r < s->rows; r++) weight[r] = 0;
    for (uint32_t r = 0; r < s->rows; r++) weight[kc_random_below(&random, s->rows)] += 1;
    solve(s, weight, change);
    for (uint32_t k = 0; k < s->unknowns; k++) {
      const enum kc_replay_term t = fit->free[k];
      value[k][b] = clamp(t, fit->best[k] + (change[k] - all[k]) * terms[t].step);
    }
  }
  for (uint32_t k = 0; k < s->unknowns; k++) {
    qsort(value[k], BOOTSTRAP, sizeof(double), ascending);
    fit->low[k] = value[k][BOOTSTRAP / 20];
    fit->high[k] = value[k][BOOTSTRAP - 1 - BOOTSTRAP / 20];
  }
  fit->has_interval = true;
}

/* The direction in which the answers change least: last singular vector of the slopes, scaled so
 * that the largest change of a term is a tenth of its value. */
static void find_flat(struct kc_replay_fit *fit, const struct slopes *s)
{
  const size_t n = (size_t)s->rows * ANSWERS;
  const uint32_t m = s->unknowns;
  if (n < m) return;
  gsl_matrix *a = gsl_matrix_alloc(n, m), *v = gsl_matrix_alloc(m, m);
  gsl_vector *sigma = gsl_vector_alloc(m);
  for (size_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < m; k++) {
      const double one_percent = 0.01 * fit->best[k] / terms[fit->free[k]].step;
      gsl_matrix_set(a, i, k, s->slope[i * m + k] * one_percent);
    }
  }
  gsl_linalg_SV_decomp_jacobi(a, v, sigma);
  double largest = 0;
  for (uint32_t k = 0; k < m; k++) {
    fit->flat[k] = gsl_matrix_get(v, k, m - 1);
    if (fabs(fit->flat[k]) > largest) largest = fabs(fit->flat[k]);
  }
  for (uint32_t k = 0; k < m; k++) fit->flat[k] *= 10 / largest;
  fit->flat_effect_percent =
      100 * gsl_vector_get(sigma, m - 1) * 10 / largest / sqrt((double)n);
  gsl_matrix_free(a);
  gsl_matrix_free(v);
  gsl_vector_free(sigma);
}

static enum kc_err weigh(struct kc_replay_fit *fit, struct kc_diag *diag)
{
  struct slopes s = {.rows = fit->rows, .unknowns = fit->free_count};
  const size_t n = (size_t)s.rows * ANSWERS;
  double *memory = calloc(n * (2 + s.unknowns) + s.rows, sizeof *memory);
  if (memory == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the fit");
  s.error = memory;
  s.slope = memory + n;
  double *scratch = s.slope + n * s.unknowns, *weight = scratch + n;
  const enum kc_err err = take_slopes(fit, &s, diag);
  if (err == KC_OK) {
    leave_out(fit, &s, weight, scratch);
    if (s.rows > s.unknowns) bootstrap(fit, &s, weight);
    find_flat(fit, &s);
  }
  free(memory);
  return err;
}

/* ---- terms without effect ---- */

static bool moved(double now, double before)
{
  return fabs(now - before) > EFFECT_LEAST * before;
}

/* Does an answer that the fit looks at differ from `before`? */
static bool answers_moved(const struct kc_replay_fit *fit, const struct kc_log_request *before)
{
  KC_ASSERT(fit->predicted != NULL);
  for (size_t i = 0; i < fit->log->count && i < fit->first; i++) {
    const struct kc_log_request *now = &fit->predicted[i];
    if (moved(now->ttft_s, before[i].ttft_s) || moved(now->e2e_s, before[i].e2e_s)) return true;
  }
  return false;
}

static const char *why_no_effect(const struct kc_scenario *scenario, enum kc_replay_term term)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  const bool link = term == KC_REPLAY_LINK || term == KC_REPLAY_LATENCY;
  KC_ASSERT((unsigned)term < KC_REPLAY_TERMS);
  const bool plain = term == KC_REPLAY_WEIGHTS || term == KC_REPLAY_KV || term == KC_REPLAY_FLOPS;
  if (link && pool->memory.tensor == 1) return "with a tensor degree of 1 nothing crosses a link";
  if (term == KC_REPLAY_LATENCY) return "it counts beside a link efficiency; fit link, too";
  if (term == KC_REPLAY_PROMPT && pool->role == KC_ROLE_DECODE) {
    return "prompts arrive with their KV, and none is computed";
  }
  if (plain && pool->profile.kernels[0] != '\0') {
    return "the profile takes these times from measured kernels; fit scale instead";
  }
  if (term == KC_REPLAY_SPREAD) return "it is of layered kernels, or contexts are all alike";
  return "no request that the fit looks at takes another time with it";
}

/* Every term must move an answer, one step up or one step down from `start`. */
static enum kc_err check_effects(struct kc_replay_fit *fit, const double *start,
                                 struct kc_diag *diag)
{
  const size_t bytes = fit->log->count * sizeof *fit->predicted;
  struct kc_log_request *before = malloc(bytes);
  enum kc_err err = KC_OK;
  KC_ASSERT(fit->free_count <= KC_REPLAY_FREE_MAX);
  if (before == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the answers");
  memcpy(before, fit->predicted, bytes);
  for (uint32_t k = 0; k < fit->free_count && err == KC_OK; k++) {
    const enum kc_replay_term t = fit->free[k];
    double value[KC_REPLAY_FREE_MAX];
    bool effect = false;
    for (int side = -1; side <= 1 && !effect && err == KC_OK; side += 2) {
      memcpy(value, start, sizeof value);
      value[k] += side * terms[t].step;
      err = run_with(fit, value, diag);
      effect = err == KC_OK && answers_moved(fit, before);
    }
    if (err == KC_OK && !effect) {
      err = kc_fail(diag, KC_ERR_USAGE, "--fit: the term \"%s\" has no effect here: %s",
                    terms[t].name, why_no_effect(fit->scenario, t));
    }
  }
  memcpy(fit->predicted, before, bytes);
  free(before);
  return err;
}

/* ---- the whole ---- */

static enum kc_err check_same(const struct kc_replay_fit *fit, struct kc_diag *diag)
{
  for (size_t i = 0; i < fit->log->count; i++) {
    const struct kc_log_request *m = &fit->log->row[i], *p = &fit->predicted[i];
    if (!m->ok || !p->ok || (m->input_tokens == p->input_tokens &&
                             m->output_tokens == p->output_tokens)) continue;
    return kc_fail(diag, KC_ERR_INPUT, "request %zu has %u + %u tokens in the log and %u + %u in "
                   "the run: both must be the same load, in the same order, with max_tokens: trace",
                   i, m->input_tokens, m->output_tokens, p->input_tokens, p->output_tokens);
  }
  return KC_OK;
}

static enum kc_err fit_terms(struct kc_replay_fit *fit, struct kc_diag *diag)
{
  double start[KC_REPLAY_FREE_MAX] = {0};
  for (uint32_t k = 0; k < fit->free_count; k++) start[k] = terms[fit->free[k]].start;
  KC_TRY(run_with(fit, start, diag));
  KC_TRY(check_same(fit, diag));
  for (size_t i = 0; i < fit->log->count; i++) fit->rows += counts(fit, i);
  if (fit->rows <= fit->free_count) {
    return kc_fail(diag, KC_ERR_INPUT, "%u usable requests (answered, timed, of two output tokens "
                   "or more) among the first %u for %u terms: fit fewer terms, or look at more "
                   "requests (--fit-first)", fit->rows, fit->first, fit->free_count);
  }
  KC_TRY(check_effects(fit, start, diag));
  KC_TRY(walk(fit, diag));
  KC_TRY(run_with(fit, fit->best, diag));
  KC_TRY(weigh(fit, diag));
  return run_with(fit, fit->best, diag);
}

enum kc_err kc_replay_fit_run(struct kc_replay_fit *fit, struct kc_diag *diag)
{
  KC_ASSERT(fit->free_count > 0 && fit->free_count <= KC_REPLAY_FREE_MAX);
  KC_ASSERT(fit->log->count > 0);
  kc_fitted_to_this(&fit->scenario->pool[0].profile);
  fit->predicted = calloc(fit->log->count, sizeof *fit->predicted);
  if (fit->predicted == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the answers");
  return fit_terms(fit, diag);
}

static bool fits(const struct kc_replay_fit *fit, enum kc_replay_term term)
{
  bool is_free = false;
  for (uint32_t k = 0; k < fit->free_count; k++) is_free |= fit->free[k] == term;
  return is_free;
}

void kc_replay_profile(const struct kc_replay_fit *fit, const char *name, const char *source,
                       struct kc_gpu_profile *out)
{
  KC_ASSERT(fit->rows > 0);
  *out = fit->scenario->pool[0].profile;
  snprintf(out->name, sizeof out->name, "%s", name);
  snprintf(out->source, sizeof out->source, "%s", source);
  out->host_measured = out->host_measured || fits(fit, KC_REPLAY_HOST);
  out->rows = fit->rows;
  out->residual_percent = fit->residual_largest_percent;
  kc_fitted_to(out, fit->scenario, &fit->worth.seen);
}

void kc_replay_fit_free(struct kc_replay_fit *fit)
{
  KC_ASSERT(fit != NULL);
  free(fit->predicted);
  fit->predicted = NULL;
}
