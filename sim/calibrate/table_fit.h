/* Fits the values of a set of tables so that their sum meets targets: robust least squares.
 *
 *   minimise  sum over rows of w_r (sum of tables at row r - target_r)^2
 *           + smooth * (second differences along every axis)^2 + a little of the values themselves
 *
 * A row of the system is the corner weights of its point in every table. w_r = 1 / max(|residual|,
 * floor), renewed a few times, makes it nearly least absolute error, which is what a median asks
 * for and what keeps odd rows from bending the rest. The penalty decides cells without rows. */
#ifndef KC_SIM_CALIBRATE_TABLE_FIT_H
#define KC_SIM_CALIBRATE_TABLE_FIT_H

#include "sim/cost/profile_internal.h"

enum { KC_TABLE_UNKNOWNS_MAX = 4096 };

struct kc_grid_problem {
  struct kc_grid *table[KC_TABLES_MAX]; /* knots set; values are the result */
  uint32_t tables;
  size_t rows;
  const double *position; /* [rows][tables][KC_TABLE_AXES_MAX], scaled */
  const double *target;   /* [rows] */
  const double *weight;   /* [rows], what a row counts; NULL = 1 each */
  double smooth;          /* > 0 */
  double ridge;           /* > 0: pull of a value to 0 */
};

/* Errors: KC_ERR_MEMORY; KC_ERR_LIMIT with more than KC_TABLE_UNKNOWNS_MAX values; KC_ERR_INPUT
 * when the system cannot be solved. */
enum kc_err kc_grid_solve(struct kc_grid_problem *problem, struct kc_diag *diag);

/* x as text with so many significant digits says it: what a file holds is what was scored. */
double kc_round_digits(double x, int digits);

/* Chooses at most `most` knots for an axis from `count` positions (sorted here, so `x` is changed):
 * every distinct position if they are few; else evenly spread, or by_rows at quantiles of the
 * positions, both moved to the nearest position. Returns their number, at least 1. */
uint32_t kc_choose_knots(double *x, size_t count, uint32_t most, bool by_rows, double *knot);

#endif
