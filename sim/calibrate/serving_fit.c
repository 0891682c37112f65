/* The arithmetic of a serving fit (see serving.h).
 *
 *   unknowns q: host time and 1/efficiency of the free terms, each with a least value
 *   time_r(q) = makespan of row r in a simulated run          linear in q
 *   error_r = (time_r(q) - measured_r) / measured_r
 *   minimise  the largest |error_r|, or the sum of error_r^2               q >= least
 *
 * The largest error is made small by least squares whose weights grow where errors are large
 * (C. L. Lawson, Contributions to the theory of linear least maximum approximation, 1961): a table
 * of a few rows has no outliers to spare. The least values are few, so every set of unknowns that
 * may sit on theirs is tried: exact, and nothing to tune. Rows left out and resampled rows reuse
 * the slopes of the last round.
 */
#include "sim/calibrate/serving.h"

#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/calibrate/fitted_to.h"

enum { ROUNDS_MAX = 12, BOOTSTRAP = 200, LAWSON_ROUNDS = 300, LAWSON_ROUNDS_QUICK = 40 };

/* The problem at one set of unknowns: time_r ~ base_r + sum_j slope_rj (q_j - at_j). */
struct linear {
  uint32_t rows, unknowns;
  enum kc_serving_term term[KC_SERVING_FREE_MAX];
  double at[KC_SERVING_FREE_MAX], least[KC_SERVING_FREE_MAX];
  double base[KC_SERVING_ROWS_MAX];
  double slope[KC_SERVING_ROWS_MAX][KC_SERVING_FREE_MAX];
  double measured[KC_SERVING_ROWS_MAX]; /* seconds */
};

/* ---- the simulator as a function ---- */

static double to_unknown(enum kc_serving_term term, double value)
{
  if (term == KC_TERM_HOST) return value;
  KC_ASSERT(value > 0);
  return 1.0 / value;
}

static double from_unknown(enum kc_serving_term term, double q)
{
  if (term == KC_TERM_HOST) return q;
  KC_ASSERT(q > 0);
  return 1.0 / q;
}

static void use_values(struct kc_point *point, const struct kc_serving_fit *fit,
                       const struct kc_serving_values *v)
{
  struct kc_gpu_profile *profile = &point->scenario.pool[0].profile;
  KC_ASSERT(v->value[KC_TERM_WEIGHTS] > 0 && v->value[KC_TERM_KV] > 0);
  profile->bandwidth_efficiency = v->value[KC_TERM_WEIGHTS];
  profile->kv_efficiency = v->value[KC_TERM_KV];
  profile->flops_efficiency = v->value[KC_TERM_FLOPS];
  profile->expand_efficiency = v->value[KC_TERM_EXPAND];
  profile->host_step_us = v->value[KC_TERM_HOST];
  profile->op_latency_us = fit->op_latency_us;
  kc_fitted_to_this(profile);
}

/* Rate that a run of row `r` gives. */
static enum kc_err simulate(struct kc_serving_fit *fit, uint32_t r,
                            const struct kc_serving_values *v, double *rate, struct kc_diag *diag)
{
  struct kc_point *point = fit->row[r].point;
  use_values(point, fit, v);
  KC_TRY(kc_point_run(point, NULL, NULL, diag));
  if (kc_expect_value(&fit->row[r].expect, &point->figures, point->scenario.name, rate, diag) ==
          KC_OK && *rate > 0) {
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_INPUT, "the run of %s, row %u, completes no request, so there is "
                 "nothing to fit: do its lengths fit into the model and the KV pool?",
                 fit->row[r].label, r + 1);
}

/* Seconds that the tokens of the measurement take at the simulated rate. */
static enum kc_err seconds(struct kc_serving_fit *fit, uint32_t r,
                           const struct kc_serving_values *v, double *out, struct kc_diag *diag)
{
  double rate;
  KC_TRY(simulate(fit, r, v, &rate, diag));
  *out = fit->row[r].point->figures.value[KC_FIGURE_MAKESPAN_S];
  KC_ASSERT(*out > 0);
  return KC_OK;
}

/* ---- bounded least squares ---- */

/* Least squares over the unknowns of `free`, the others on their least values; rows with weight 0
 * are left out. False when the system has no solution. */
static bool solve_free(const struct linear *p, unsigned free_mask, const double *weight, double *q,
                       double *sum)
{
  uint32_t used = 0, column[KC_SERVING_FREE_MAX], columns = 0;
  for (uint32_t r = 0; r < p->rows; r++) used += weight[r] > 0;
  for (uint32_t j = 0; j < p->unknowns; j++) {
    q[j] = p->least[j];
    if ((free_mask >> j & 1) != 0) column[columns++] = j;
  }
  if (columns > used) return false;
  double residual[KC_SERVING_ROWS_MAX];
  for (uint32_t r = 0; r < p->rows; r++) {
    residual[r] = p->measured[r] - p->base[r];
    for (uint32_t j = 0; j < p->unknowns; j++) {
      residual[r] -= p->slope[r][j] * (((free_mask >> j & 1) != 0 ? 0.0 : q[j]) - p->at[j]);
    }
  }
  if (columns > 0) {
    gsl_matrix *x = gsl_matrix_alloc(used, columns), *cov = gsl_matrix_alloc(columns, columns);
    gsl_vector *y = gsl_vector_alloc(used), *c = gsl_vector_alloc(columns);
    gsl_multifit_linear_workspace *work = gsl_multifit_linear_alloc(used, columns);
    size_t i = 0;
    double chi = 0;
    for (uint32_t r = 0; r < p->rows; r++) {
      if (weight[r] <= 0) continue;
      const double scale = weight[r] / p->measured[r];
      gsl_vector_set(y, i, residual[r] * scale);
      for (uint32_t k = 0; k < columns; k++) {
        gsl_matrix_set(x, i, k, p->slope[r][column[k]] * scale);
      }
      i++;
    }
    gsl_multifit_linear(x, y, c, cov, &chi, work);
    for (uint32_t k = 0; k < columns; k++) q[column[k]] = gsl_vector_get(c, k);
    gsl_multifit_linear_free(work);
    gsl_matrix_free(x);
    gsl_matrix_free(cov);
    gsl_vector_free(y);
    gsl_vector_free(c);
  }
  *sum = 0;
  for (uint32_t r = 0; r < p->rows; r++) {
    double time = p->base[r];
    for (uint32_t j = 0; j < p->unknowns; j++) time += p->slope[r][j] * (q[j] - p->at[j]);
    const double e = weight[r] * (time / p->measured[r] - 1.0);
    *sum += e * e;
  }
  for (uint32_t j = 0; j < p->unknowns; j++) {
    if (!(q[j] >= p->least[j] - 1e-12)) return false;
  }
  return true;
}

/* The best of all sets of unknowns on their bounds. */
static void solve_squares(const struct linear *p, const double *weight,
                          double best[KC_SERVING_FREE_MAX])
{
  double least_sum = INFINITY;
  KC_ASSERT(p->unknowns <= KC_SERVING_FREE_MAX);
  for (unsigned mask = 0; mask < 1u << p->unknowns; mask++) {
    double q[KC_SERVING_FREE_MAX], sum;
    if (!solve_free(p, mask, weight, q, &sum) || !(sum < least_sum)) continue;
    least_sum = sum;
    memcpy(best, q, sizeof q);
  }
  KC_ASSERT(least_sum < INFINITY); /* all on their bounds is always allowed */
}

/* Largest |error| of the rows that count. */
static double largest_error(const struct linear *p, const double *weight, const double *q,
                            double error[KC_SERVING_ROWS_MAX])
{
  double most = 0;
  for (uint32_t r = 0; r < p->rows; r++) {
    double time = p->base[r];
    for (uint32_t j = 0; j < p->unknowns; j++) time += p->slope[r][j] * (q[j] - p->at[j]);
    error[r] = weight[r] > 0 ? fabs(time / p->measured[r] - 1.0) : 0.0;
    most = fmax(most, error[r]);
  }
  return most;
}

/* `rounds` 0: least squares. Rows with weight 0 are left out. */
static void solve(const struct linear *p, const double *weight, int rounds,
                  double best[KC_SERVING_FREE_MAX])
{
  double w[KC_SERVING_ROWS_MAX], error[KC_SERVING_ROWS_MAX], q[KC_SERVING_FREE_MAX] = {0};
  solve_squares(p, weight, best);
  double least = largest_error(p, weight, best, error);
  KC_ASSERT(p->rows <= KC_SERVING_ROWS_MAX);
  memcpy(w, weight, sizeof w);
  for (int round = 0; round < rounds; round++) {
    double sum = 0;
    for (uint32_t r = 0; r < p->rows; r++) sum += w[r] * w[r] * error[r];
    if (sum <= 0) return; /* met exactly */
    for (uint32_t r = 0; r < p->rows; r++) w[r] *= sqrt(error[r] / sum);
    for (uint32_t r = 0; r < p->rows; r++) {
      if (weight[r] > 0 && w[r] < 1e-6) w[r] = 1e-6; /* a row that was met once still counts */
    }
    solve_squares(p, w, q);
    const double most = largest_error(p, weight, q, error);
    if (most >= least) continue;
    least = most;
    memcpy(best, q, sizeof q);
  }
}

/* ---- the fit ---- */

static struct kc_serving_values values_at(const struct kc_serving_fit *fit, const struct linear *p,
                                          const double *q)
{
  struct kc_serving_values v = fit->start;
  for (uint32_t j = 0; j < p->unknowns; j++) v.value[p->term[j]] = from_unknown(p->term[j], q[j]);
  return v;
}

/* How far an unknown is moved to see its slope: a step that is large beside rounding. */
static double step_of(enum kc_serving_term term, double q)
{
  return term == KC_TERM_HOST ? 100.0 : 0.02 * q;
}

static enum kc_err linearise(struct kc_serving_fit *fit, struct linear *p, struct kc_diag *diag)
{
  const struct kc_serving_values here = values_at(fit, p, p->at);
  for (uint32_t r = 0; r < p->rows; r++) KC_TRY(seconds(fit, r, &here, &p->base[r], diag));
  for (uint32_t j = 0; j < p->unknowns; j++) {
    double q[KC_SERVING_FREE_MAX], most = 0;
    memcpy(q, p->at, sizeof q);
    const double step = step_of(p->term[j], q[j]);
    q[j] += step;
    const struct kc_serving_values moved = values_at(fit, p, q);
    for (uint32_t r = 0; r < p->rows; r++) {
      double time;
      KC_TRY(seconds(fit, r, &moved, &time, diag));
      p->slope[r][j] = (time - p->base[r]) / step;
      if (p->slope[r][j] > most) most = p->slope[r][j];
    }
    if (most <= 0) {
      return kc_fail(diag, KC_ERR_USAGE, "--fit: the term \"%s\" has no effect on any row; "
                     "leave it out", kc_serving_term_name(p->term[j]));
    }
  }
  return KC_OK;
}

/* Measured seconds of each row: its tokens at the measured rate. Needs one run. */
static enum kc_err measure(struct kc_serving_fit *fit, struct linear *p, struct kc_diag *diag)
{
  const struct kc_serving_values here = values_at(fit, p, p->at);
  for (uint32_t r = 0; r < p->rows; r++) {
    double rate;
    KC_TRY(simulate(fit, r, &here, &rate, diag));
    const double time = fit->row[r].point->figures.value[KC_FIGURE_MAKESPAN_S];
    p->measured[r] = time * rate / fit->row[r].expect.value;
    KC_ASSERT(p->measured[r] > 0);
  }
  return KC_OK;
}

static enum kc_err choose_unknowns(const struct kc_serving_fit *fit, struct linear *p,
                                   struct kc_diag *diag)
{
  *p = (struct linear){.rows = fit->row_count};
  for (int term = 0; term < KC_SERVING_TERMS; term++) {
    if (!fit->is_free[term]) continue;
    if (p->unknowns == KC_SERVING_FREE_MAX) {
      return kc_fail(diag, KC_ERR_INPUT, "at most %d terms are fitted at once: the host term and "
                     "three efficiencies", (int)KC_SERVING_FREE_MAX);
    }
    double start = fit->start.value[term];
    if (term == KC_TERM_EXPAND && start == 0) start = 0.5;
    p->term[p->unknowns] = (enum kc_serving_term)term;
    p->at[p->unknowns] = to_unknown((enum kc_serving_term)term, start);
    p->least[p->unknowns++] = term == KC_TERM_HOST ? 0.0 : 1.0;
  }
  if (p->unknowns > 0 && p->unknowns <= p->rows) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "%u terms cannot be fitted to %u rows: give more rows or fit "
                 "fewer terms", p->unknowns, p->rows);
}

static enum kc_err fit_best(struct kc_serving_fit *fit, struct linear *p, struct kc_diag *diag)
{
  double weight[KC_SERVING_ROWS_MAX];
  KC_TRY(choose_unknowns(fit, p, diag));
  for (uint32_t r = 0; r < p->rows; r++) weight[r] = 1.0;
  KC_TRY(measure(fit, p, diag));
  for (int round = 0; round < ROUNDS_MAX; round++) {
    double q[KC_SERVING_FREE_MAX] = {0}, moved = 0;
    KC_TRY(linearise(fit, p, diag));
    solve(p, weight, fit->squares ? 0 : LAWSON_ROUNDS, q);
    for (uint32_t j = 0; j < p->unknowns; j++) {
      moved = fmax(moved, fabs(q[j] - p->at[j]) / (fabs(q[j]) + 1e-6));
      p->at[j] = q[j];
    }
    if (moved < 1e-7) break;
  }
  KC_TRY(linearise(fit, p, diag)); /* the slopes at the end, for what follows */
  fit->best = values_at(fit, p, p->at);
  for (uint32_t j = 0; j < p->unknowns; j++) {
    fit->at_bound[p->term[j]] = p->at[j] <= p->least[j] + 1e-9;
  }
  return KC_OK;
}

static enum kc_err note_residuals(struct kc_serving_fit *fit, struct kc_diag *diag)
{
  double sorted[KC_SERVING_ROWS_MAX];
  fit->residual_max = 0;
  fit->seen = (struct kc_cost_range){0};
  for (uint32_t r = 0; r < fit->row_count; r++) {
    const double measured = fit->row[r].expect.value;
    KC_TRY(simulate(fit, r, &fit->best, &fit->predicted[r], diag));
    fit->residual_percent[r] = 100.0 * (fit->predicted[r] / measured - 1.0);
    sorted[r] = fabs(fit->residual_percent[r]);
    fit->residual_max = fmax(fit->residual_max, sorted[r]);
    kc_cost_range_join(&fit->seen, &fit->row[r].point->seen);
  }
  gsl_sort(sorted, 1, fit->row_count);
  fit->residual_median = sorted[fit->row_count / 2];
  return KC_OK;
}

/* ---- what the fit is worth ---- */

static enum kc_err leave_out(struct kc_serving_fit *fit, const struct linear *p,
                             struct kc_diag *diag)
{
  fit->has_left_out = p->rows > p->unknowns;
  for (uint32_t out = 0; fit->has_left_out && out < p->rows; out++) {
    double weight[KC_SERVING_ROWS_MAX], q[KC_SERVING_FREE_MAX] = {0}, rate;
    for (uint32_t r = 0; r < p->rows; r++) weight[r] = r == out ? 0.0 : 1.0;
    solve(p, weight, fit->squares ? 0 : LAWSON_ROUNDS, q);
    fit->left_out[out] = values_at(fit, p, q);
    KC_TRY(simulate(fit, out, &fit->left_out[out], &rate, diag));
    fit->left_out_percent[out] = 100.0 * (rate / fit->row[out].expect.value - 1.0);
  }
  return KC_OK;
}

/* Residuals of the fit, drawn anew with replacement and widened for the unknowns they lost, give
 * tables that might have been measured; the spread of their fits is the interval. */
static void bootstrap(struct kc_serving_fit *fit, const struct linear *p)
{
  double drawn[KC_SERVING_FREE_MAX][BOOTSTRAP];
  double weight[KC_SERVING_ROWS_MAX];
  struct linear trial = *p;
  struct kc_random random;
  fit->has_interval = p->rows > p->unknowns;
  if (!fit->has_interval) return;
  const double widen = sqrt((double)p->rows / (p->rows - p->unknowns));
  kc_random_init(&random, 1, "serving-bootstrap", 0);
  for (uint32_t r = 0; r < p->rows; r++) weight[r] = 1.0;
  for (int b = 0; b < BOOTSTRAP; b++) {
    double q[KC_SERVING_FREE_MAX] = {0};
    for (uint32_t r = 0; r < p->rows; r++) {
      const uint64_t from = kc_random_below(&random, p->rows);
      trial.measured[r] = p->base[r] * (1.0 + widen * (p->measured[from] / p->base[from] - 1.0));
    }
    solve(&trial, weight, fit->squares ? 0 : LAWSON_ROUNDS_QUICK, q);
    for (uint32_t j = 0; j < p->unknowns; j++) drawn[j][b] = from_unknown(p->term[j], q[j]);
  }
  for (uint32_t j = 0; j < p->unknowns; j++) {
    gsl_sort(drawn[j], 1, BOOTSTRAP);
    fit->low[p->term[j]] = gsl_stats_quantile_from_sorted_data(drawn[j], 1, BOOTSTRAP, 0.05);
    fit->high[p->term[j]] = gsl_stats_quantile_from_sorted_data(drawn[j], 1, BOOTSTRAP, 0.95);
  }
}

/* The direction in which the unknowns, each in percent of itself, move the times least: the last
 * right singular vector of the slopes. */
static void find_flat(struct kc_serving_fit *fit, const struct linear *p)
{
  double direction[KC_SERVING_FREE_MAX], largest = 0, effect = 0;
  gsl_matrix *a = gsl_matrix_alloc(p->rows, p->unknowns);
  gsl_matrix *v = gsl_matrix_alloc(p->unknowns, p->unknowns);
  gsl_vector *s = gsl_vector_alloc(p->unknowns), *work = gsl_vector_alloc(p->unknowns);
  for (uint32_t r = 0; r < p->rows; r++) {
    for (uint32_t j = 0; j < p->unknowns; j++) {
      gsl_matrix_set(a, r, j, p->slope[r][j] * p->at[j] / p->base[r]);
    }
  }
  gsl_linalg_SV_decomp(a, v, s, work);
  for (uint32_t j = 0; j < p->unknowns; j++) {
    direction[j] = gsl_matrix_get(v, j, p->unknowns - 1);
    largest = fmax(largest, fabs(direction[j]));
  }
  KC_ASSERT(largest > 0);
  const double sign = direction[0] < 0 ? -1.0 : 1.0;
  for (uint32_t j = 0; j < p->unknowns; j++) {
    direction[j] *= sign * 10.0 / largest;
    /* 1/efficiency up by x percent is efficiency down by x percent */
    fit->flat[p->term[j]] = p->term[j] == KC_TERM_HOST ? direction[j] : -direction[j];
  }
  for (uint32_t r = 0; r < p->rows; r++) {
    double change = 0;
    for (uint32_t j = 0; j < p->unknowns; j++) {
      change += p->slope[r][j] * p->at[j] * direction[j] / p->base[r];
    }
    effect = fmax(effect, fabs(change));
  }
  fit->flat_effect_percent = effect;
  gsl_matrix_free(a);
  gsl_matrix_free(v);
  gsl_vector_free(s);
  gsl_vector_free(work);
}

enum kc_err kc_serving_run_quick(struct kc_serving_fit *fit, struct kc_diag *diag)
{
  struct linear p;
  KC_TRY(fit_best(fit, &p, diag));
  return note_residuals(fit, diag);
}

enum kc_err kc_serving_run(struct kc_serving_fit *fit, struct kc_diag *diag)
{
  struct linear p;
  KC_TRY(fit_best(fit, &p, diag));
  KC_TRY(note_residuals(fit, diag));
  KC_TRY(leave_out(fit, &p, diag));
  bootstrap(fit, &p);
  find_flat(fit, &p);
  return KC_OK;
}
