/* Multilinear interpolation on a grid with uneven knots.
 *
 *   value
 *     |        x           a point between knots i and i + 1 at fraction t takes
 *     |   x----'               (1 - t) value[i] + t value[i + 1]
 *     |  /                 and so on each axis; 2^axes corners in all
 *     +--k0---k1---k2->    before k0 and after the last knot the border value holds
 *
 * The corners are also the row of the least-squares system that made the table, so the fitter and
 * the evaluator share this file and cannot disagree. */
#include "sim/cost/profile_internal.h"

#define SMALLEST 9.094947017729282e-13 /* 2^-40 */

uint32_t kc_grid_values(const struct kc_grid *table)
{
  uint32_t values = 1;
  KC_ASSERT(table->axes >= 1 && table->axes <= KC_TABLE_AXES_MAX);
  for (uint32_t a = 0; a < table->axes; a++) values *= table->knots[a];
  KC_ASSERT(values >= 1);
  return values;
}

double kc_feature_scale(const struct kc_feature *feature, double figure)
{
  if (feature->level) return figure;
  return kc_log2_exact(figure > SMALLEST ? figure : SMALLEST);
}

/* Largest i with knot[i] <= x, at most count - 2; *fraction in [0, 1] of the way to knot i + 1. */
static uint32_t locate(const double *knot, uint32_t count, double x, double *fraction)
{
  KC_ASSERT(count >= 1);
  *fraction = 0.0;
  if (count == 1 || x <= knot[0]) return 0;
  if (x >= knot[count - 1]) {
    *fraction = 1.0;
    return count - 2;
  }
  uint32_t i = 0;
  while (x >= knot[i + 1]) i++;
  KC_ASSERT(i + 1 < count);
  *fraction = (x - knot[i]) / (knot[i + 1] - knot[i]);
  return i;
}

void kc_grid_corners(const struct kc_grid *table, const double *scaled,
                      struct kc_corners *corners)
{
  KC_ASSERT(table->axes >= 1 && table->axes <= KC_TABLE_AXES_MAX);
  corners->count = 1;
  corners->index[0] = 0;
  corners->weight[0] = 1.0;
  for (uint32_t a = 0; a < table->axes; a++) {
    double t;
    const uint32_t at = locate(table->knot[a], table->knots[a], scaled[a], &t);
    const uint32_t before = corners->count;
    for (uint32_t c = 0; c < before; c++) {
      const uint32_t base = corners->index[c] * table->knots[a] + at;
      const double weight = corners->weight[c];
      corners->index[c] = base;
      corners->weight[c] = weight * (1.0 - t);
      if (t <= 0.0) continue;
      corners->index[corners->count] = base + 1;
      corners->weight[corners->count++] = weight * t;
    }
  }
  KC_ASSERT(corners->count <= 1u << KC_TABLE_AXES_MAX);
}

double kc_grid_at(const struct kc_grid *table, const double *scaled)
{
  struct kc_corners corners;
  kc_grid_corners(table, scaled, &corners);
  double sum = 0.0;
  for (uint32_t c = 0; c < corners.count; c++) {
    sum += corners.weight[c] * table->value[corners.index[c]];
  }
  return sum;
}
