/* Normal equations of the tables, solved by Cholesky (GSL), a few times over (see table_fit.h).
 *
 *   unknowns   [ values of table 0 | values of table 1 | ... ]     at most some thousand
 *   a row      touches 2^axes of each table: a few dozen, so the matrix is gathered in one pass
 *
 * Only this folder uses GSL, and only before a profile is written: runs never fit anything. */
#include "sim/calibrate/table_fit.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_sort.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"

#define RESIDUAL_FLOOR 0.05 /* log2: 3.5 % */
enum { ROUNDS = 4, TOUCHED_MAX = KC_TABLES_MAX << KC_TABLE_AXES_MAX };

struct touched {
  uint32_t count;
  uint32_t unknown[TOUCHED_MAX];
  double weight[TOUCHED_MAX];
};

struct solver {
  const struct kc_grid_problem *problem;
  uint32_t first[KC_TABLES_MAX]; /* unknown of the table's value 0 */
  uint32_t unknowns;
  gsl_matrix *normal;
  gsl_vector *right, *solution;
};

double kc_round_digits(double x, int digits)
{
  char text[40];
  double rounded = 0;
  const int length = snprintf(text, sizeof text, "%.*g", digits, x);
  KC_ASSERT(digits >= 1 && digits <= 17);
  KC_ASSERT(length > 0 && (size_t)length < sizeof text);
  const bool parsed = kc_parse_double(text, (size_t)length, &rounded);
  KC_ASSERT(parsed);
  return rounded;
}

/* Positions at equal shares of the sorted rows; repeated ones once. */
static uint32_t knots_by_rows(const double *x, size_t count, uint32_t most, double *knot)
{
  uint32_t knots = 0;
  KC_ASSERT(most >= 2 && count >= 2);
  for (uint32_t i = 0; i < most; i++) {
    const double at = x[(count - 1) * i / (most - 1)];
    if (knots == 0 || at - knot[knots - 1] > 1e-9) knot[knots++] = at;
  }
  return knots;
}

uint32_t kc_choose_knots(double *x, size_t count, uint32_t most, bool by_rows, double *knot)
{
  KC_ASSERT(count > 0);
  KC_ASSERT(most >= 1 && most <= KC_KNOTS_MAX);
  gsl_sort(x, 1, count);
  const uint32_t quantiles = by_rows && count >= 2 ? knots_by_rows(x, count, most, knot) : 0;
  size_t distinct = 1;
  for (size_t i = 1; i < count; i++) {
    if (x[i] - x[distinct - 1] > 1e-9) x[distinct++] = x[i];
  }
  if (distinct <= most) {
    memcpy(knot, x, distinct * sizeof *knot);
    return (uint32_t)distinct;
  }
  if (by_rows) return quantiles;
  uint32_t knots = 0;
  size_t at = 0;
  for (uint32_t i = 0; i < most; i++) {
    const double wanted = x[0] + (x[distinct - 1] - x[0]) * i / (most - 1.0);
    while (at + 1 < distinct && x[at + 1] - wanted <= wanted - x[at]) at++;
    if (knots == 0 || x[at] > knot[knots - 1]) knot[knots++] = x[at];
  }
  return knots;
}

static void touch(const struct solver *s, size_t row, struct touched *touched)
{
  const struct kc_grid_problem *p = s->problem;
  touched->count = 0;
  for (uint32_t t = 0; t < p->tables; t++) {
    struct kc_corners corners;
    kc_grid_corners(p->table[t], p->position + (row * p->tables + t) * KC_TABLE_AXES_MAX,
                     &corners);
    for (uint32_t c = 0; c < corners.count; c++) {
      touched->unknown[touched->count] = s->first[t] + corners.index[c];
      touched->weight[touched->count++] = corners.weight[c];
    }
  }
  KC_ASSERT(touched->count <= TOUCHED_MAX);
}

static double sum_at(const struct solver *s, const struct touched *touched)
{
  double sum = 0;
  for (uint32_t i = 0; i < touched->count; i++) {
    sum += touched->weight[i] * gsl_vector_get(s->solution, touched->unknown[i]);
  }
  return sum;
}

static void add_equation(struct solver *s, const struct touched *touched, double target,
                         double weight)
{
  KC_ASSERT(touched->count > 0);
  KC_ASSERT(weight > 0);
  for (uint32_t i = 0; i < touched->count; i++) {
    const double wi = touched->weight[i] * weight;
    double *row = gsl_matrix_ptr(s->normal, touched->unknown[i], 0);
    for (uint32_t j = 0; j < touched->count; j++) {
      row[touched->unknown[j]] += wi * touched->weight[j];
    }
    *gsl_vector_ptr(s->right, touched->unknown[i]) += wi * target;
  }
}

/* Second differences along one axis of one table, for uneven knots scaled to spacing 1. */
static void add_smoothness(struct solver *s, uint32_t t, uint32_t axis, double weight)
{
  const struct kc_grid *table = s->problem->table[t];
  const uint32_t values = kc_grid_values(table);
  const uint32_t knots = table->knots[axis];
  KC_ASSERT(axis < table->axes);
  KC_ASSERT(weight > 0);
  const double *x = table->knot[axis];
  uint32_t stride = 1;
  for (uint32_t a = axis + 1; a < table->axes; a++) stride *= table->knots[a];
  for (uint32_t v = 0; v < values; v++) {
    const uint32_t at = v / stride % knots;
    if (at + 1 >= knots) continue;
    struct touched e = {.count = 2};
    e.unknown[0] = s->first[t] + v;
    e.unknown[1] = e.unknown[0] + stride;
    e.weight[0] = -1;
    e.weight[1] = 1;
    add_equation(s, &e, 0, weight * 0.02); /* flat where nothing else is known */
    if (at + 2 >= knots) continue;
    const double left = x[at + 1] - x[at];
    const double right = x[at + 2] - x[at + 1];
    e.count = 3;
    e.unknown[2] = e.unknown[1] + stride;
    e.weight[0] = 2 * right / (left + right);
    e.weight[1] = -2;
    e.weight[2] = 2 * left / (left + right);
    add_equation(s, &e, 0, weight);
  }
}

static void gather(struct solver *s, bool first_round)
{
  const struct kc_grid_problem *p = s->problem;
  gsl_matrix_set_zero(s->normal);
  gsl_vector_set_zero(s->right);
  for (size_t row = 0; row < p->rows; row++) {
    struct touched touched;
    touch(s, row, &touched);
    double weight = 1;
    if (!first_round) {
      double residual = p->target[row] - sum_at(s, &touched);
      if (residual < 0) residual = -residual;
      weight = 0.1 / (residual > RESIDUAL_FLOOR ? residual : RESIDUAL_FLOOR);
    }
    if (p->weight != NULL) weight *= p->weight[row];
    add_equation(s, &touched, p->target[row], weight);
  }
  for (uint32_t t = 0; t < p->tables; t++) {
    for (uint32_t a = 0; a < p->table[t]->axes; a++) add_smoothness(s, t, a, p->smooth);
  }
  for (uint32_t i = 0; i < s->unknowns; i++) *gsl_matrix_ptr(s->normal, i, i) += p->ridge;
}

static enum kc_err solve_rounds(struct solver *s, struct kc_diag *diag)
{
  for (int round = 0; round < ROUNDS; round++) {
    gather(s, round == 0);
    if (gsl_linalg_cholesky_decomp1(s->normal) != GSL_SUCCESS ||
        gsl_linalg_cholesky_solve(s->normal, s->right, s->solution) != GSL_SUCCESS) {
      return kc_fail(diag, KC_ERR_INPUT, "the equations of a fit cannot be solved; the timings "
                     "hold values that are too large or not finite");
    }
  }
  for (uint32_t t = 0; t < s->problem->tables; t++) {
    struct kc_grid *table = s->problem->table[t];
    const uint32_t values = kc_grid_values(table);
    for (uint32_t v = 0; v < values; v++) {
      table->value[v] = gsl_vector_get(s->solution, s->first[t] + v);
    }
  }
  return KC_OK;
}

enum kc_err kc_grid_solve(struct kc_grid_problem *problem, struct kc_diag *diag)
{
  struct solver s = {.problem = problem};
  KC_ASSERT(problem->tables >= 1 && problem->rows > 0);
  KC_ASSERT(problem->smooth > 0 && problem->ridge > 0);
  for (uint32_t t = 0; t < problem->tables; t++) {
    s.first[t] = s.unknowns;
    s.unknowns += kc_grid_values(problem->table[t]);
  }
  if (s.unknowns > KC_TABLE_UNKNOWNS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a fit has %u unknowns; at most %d are solved", s.unknowns,
                   KC_TABLE_UNKNOWNS_MAX);
  }
  gsl_error_handler_t *handler = gsl_set_error_handler_off(); /* errors are returned */
  s.normal = gsl_matrix_alloc(s.unknowns, s.unknowns);
  s.right = gsl_vector_alloc(s.unknowns);
  s.solution = gsl_vector_alloc(s.unknowns);
  enum kc_err err = KC_ERR_MEMORY;
  if (s.normal != NULL && s.right != NULL && s.solution != NULL) {
    err = solve_rounds(&s, diag);
  } else {
    (void)kc_fail(diag, KC_ERR_MEMORY, "out of memory: a fit of %u unknowns", s.unknowns);
  }
  if (s.normal != NULL) gsl_matrix_free(s.normal);
  if (s.right != NULL) gsl_vector_free(s.right);
  if (s.solution != NULL) gsl_vector_free(s.solution);
  gsl_set_error_handler(handler);
  return err;
}
