/* Which correction tables each family gets, and how fine their grids are.
 *
 * A recipe names features and the most knots on each axis; the positions of the knots come from the
 * measured rows. It holds no figure of any GPU, so the same recipes fit any card. */
#ifndef KC_SIM_CALIBRATE_KERNEL_RECIPE_H
#define KC_SIM_CALIBRATE_KERNEL_RECIPE_H

#include "sim/cost/profile_internal.h"

struct kc_recipe_axis {
  const char *feature;
  uint32_t knots_max;
  bool by_rows;      /* knots where the rows are (quantiles), else evenly spread in log2 */
};

/* Initialisers of an axis. */
#define KC_AXIS_EVEN(FEATURE, KNOTS) {FEATURE, KNOTS, false}
#define KC_AXIS_ROWS(FEATURE, KNOTS) {FEATURE, KNOTS, true}

struct kc_recipe_table {
  struct kc_recipe_axis axis[KC_TABLE_AXES_MAX]; /* ends at a NULL feature */
};

struct kc_recipe {
  double smooth;     /* weight of second differences against one row */
  struct kc_recipe_table table[KC_TABLES_MAX];   /* ends at a table without axes */
};

const struct kc_recipe *kc_recipe_of(enum kc_family family);

#endif
