/* Fits the tables of a layered profile (see layered_fit.h).
 *
 *   1. each layer         log2 us over units
 *   2. decode, prefill    log2 us over their two sizes
 *   3. mixed              log2 of (measured / (prefill + decode)) over all four and their ratio
 *   4. spread             (skew - mean) / (longest - mean), rows weighted by how much it matters
 *
 * Each later step is fitted to what the earlier ones predict, as the evaluator will use them. */
#include "sim/calibrate/layered_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/calibrate/kernel_recipe.h"
#include "sim/calibrate/table_fit.h"

#define EVEN KC_AXIS_EVEN

/* One part's rows, as figures of features and what the tables are to give. */
struct points {
  size_t count;
  double (*figure)[KC_FEATURES_MAX];
  double *target, *weight, *us;
  double *mean_us, *apart_us; /* spread: measured with even contexts; how much longer at most */
  unsigned char *out;
};

static void points_free(struct points *p)
{
  free(p->figure);
  free(p->target);
  free(p->weight);
  free(p->us);
  free(p->mean_us);
  free(p->apart_us);
  free(p->out);
}

static enum kc_err points_init(struct points *p, size_t most, struct kc_diag *diag)
{
  KC_ASSERT(most > 0);
  *p = (struct points){0};
  p->figure = calloc(most, sizeof *p->figure);
  p->target = malloc(most * sizeof *p->target);
  p->weight = malloc(most * sizeof *p->weight);
  p->us = malloc(most * sizeof *p->us);
  p->mean_us = malloc(most * sizeof *p->mean_us);
  p->apart_us = malloc(most * sizeof *p->apart_us);
  p->out = calloc(most, 1);
  if (p->figure != NULL && p->target != NULL && p->weight != NULL && p->us != NULL &&
      p->mean_us != NULL && p->apart_us != NULL && p->out != NULL) {
    return KC_OK;
  }
  points_free(p);
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu rows to fit", most);
}

/* ---- recipes ---- */

static const struct kc_recipe part_recipes[KC_MIXED_PARTS] = {
    {0.02, {{{EVEN("decodes", 9), EVEN("decode_context", 12)}}}},
    {0.02, {{{EVEN("prefill_plus_1", 14), EVEN("past_plus_16", 12)}}}},
    {0.02, {{{EVEN("prefill_plus_1", 7), EVEN("past_plus_16", 4), EVEN("decodes", 9),
              EVEN("decode_context", 13)}},
            {{EVEN("prefill_per_decode", 9), EVEN("prefill_plus_1", 8), EVEN("decodes", 6)}}}},
    {0.05, {{{EVEN("longest_per_mean", 7), EVEN("decodes", 8), EVEN("prefill_plus_1", 5),
              EVEN("decode_context", 5)}}}},
};

/* ---- one set of tables ---- */

static uint32_t index_of(const struct kc_feature *features, uint32_t count, const char *name)
{
  uint32_t i = 0;
  while (i < count && strcmp(features[i].name, name) != 0) i++;
  KC_ASSERT(i < count);
  return i;
}

static void choose_axis(struct kc_profile *profile, struct kc_grid *table, uint32_t a,
                        const struct kc_feature *feature, uint32_t most, const struct points *p,
                        double *scratch)
{
  double knot[KC_KNOTS_MAX];
  size_t fitted = 0;
  for (size_t i = 0; i < p->count; i++) {
    if (!p->out[i]) scratch[fitted++] = kc_feature_scale(feature, p->figure[i][table->feature[a]]);
  }
  const size_t share = fitted / 4 < 4 ? 4 : fitted / 4; /* few rows get few knots */
  table->knots[a] = kc_choose_knots(scratch, fitted, most < share ? most : (uint32_t)share, false,
                                    knot);
  table->knot[a] = kc_profile_numbers(profile, table->knots[a]);
  KC_ASSERT(table->knot[a] != NULL);
  for (uint32_t k = 0; k < table->knots[a]; k++) {
    const double figure = feature->level ? knot[k] : kc_exp2_exact(knot[k]);
    table->knot[a][k] = kc_feature_scale(feature, kc_round_digits(figure, 6));
  }
}

static void choose_tables(struct kc_profile *profile, struct kc_family_fit *fit,
                          const struct kc_recipe *recipe, const struct kc_feature *features,
                          uint32_t count, const struct points *p, double *scratch)
{
  for (uint32_t i = 0; i < KC_TABLES_MAX && recipe->table[i].axis[0].feature != NULL; i++) {
    struct kc_grid *table = &fit->table[fit->table_count++];
    for (uint32_t a = 0; a < KC_TABLE_AXES_MAX && recipe->table[i].axis[a].feature != NULL; a++) {
      table->feature[a] = index_of(features, count, recipe->table[i].axis[a].feature);
      table->axes = a + 1;
      choose_axis(profile, table, a, &features[table->feature[a]],
                  recipe->table[i].axis[a].knots_max, p, scratch);
    }
    table->value = kc_profile_numbers(profile, kc_grid_values(table));
    KC_ASSERT(table->value != NULL);
  }
}

static void place(const struct kc_family_fit *fit, const struct kc_feature *features,
                  const double *figure, double *position)
{
  KC_ASSERT(fit->table_count >= 1 && fit->table_count <= KC_TABLES_MAX);
  for (uint32_t j = 0; j < fit->table_count; j++) {
    for (uint32_t a = 0; a < fit->table[j].axes; a++) {
      const uint32_t f = fit->table[j].feature[a];
      position[j * KC_TABLE_AXES_MAX + a] = kc_feature_scale(&features[f], figure[f]);
    }
  }
}

static void find_range(struct kc_family_fit *fit, const struct points *p, uint32_t count)
{
  KC_ASSERT(count <= KC_FEATURES_MAX);
  KC_ASSERT(p->count > 0);
  for (size_t i = 0; i < p->count; i++) {
    for (uint32_t f = 0; f < count; f++) {
      const double figure = p->figure[i][f];
      if (i == 0 || figure < fit->low[f]) fit->low[f] = figure;
      if (i == 0 || figure > fit->high[f]) fit->high[f] = figure;
    }
  }
}

static void round_values(struct kc_family_fit *fit)
{
  for (uint32_t i = 0; i < fit->table_count; i++) {
    const uint32_t values = kc_grid_values(&fit->table[i]);
    for (uint32_t v = 0; v < values; v++) {
      fit->table[i].value[v] = floor(fit->table[i].value[v] * 1000.0 + 0.5) / 1000.0;
    }
  }
}

static enum kc_err fit_points(struct kc_profile *profile, struct kc_family_fit *fit,
                              const struct kc_recipe *recipe, const struct kc_feature *features,
                              uint32_t count, struct points *p, struct kc_diag *diag)
{
  double *position = calloc(p->count, sizeof *position * KC_TABLES_MAX * KC_TABLE_AXES_MAX);
  double *kept = malloc(2 * p->count * sizeof *kept);
  size_t fitted = 0;
  if (position == NULL || kept == NULL) {
    free(position);
    free(kept);
    return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu rows to fit", p->count);
  }
  KC_ASSERT(!fit->present && fit->table_count == 0);
  find_range(fit, p, count);
  choose_tables(profile, fit, recipe, features, count, p, kept);
  for (size_t i = 0; i < p->count; i++) {
    if (p->out[i]) continue;
    place(fit, features, p->figure[i], position + fitted * fit->table_count * KC_TABLE_AXES_MAX);
    kept[fitted] = p->target[i];
    kept[p->count + fitted++] = p->weight[i];
  }
  struct kc_grid_problem problem = {.tables = fit->table_count, .rows = fitted,
                                     .position = position, .target = kept,
                                     .weight = kept + p->count, .smooth = recipe->smooth,
                                     .ridge = 1e-4};
  for (uint32_t i = 0; i < fit->table_count; i++) problem.table[i] = &fit->table[i];
  const enum kc_err err = kc_grid_solve(&problem, diag);
  if (err == KC_OK) round_values(fit);
  fit->present = err == KC_OK;
  fit->rows = p->count;
  free(position);
  free(kept);
  return err;
}

static void draw(struct points *p, const struct kc_fit_options *options, const char *name)
{
  static const unsigned char none[1] = {0};
  unsigned char *same = calloc(p->count + 1, 1);
  kc_hold_out(p->out, same != NULL ? same : none, same != NULL ? p->count : 0,
              options->hold_out_percent, options->seed, name);
  free(same);
}

/* ---- layers ---- */

static size_t layer_points(struct points *p, const struct kc_layered_rows *rows, uint32_t layer)
{
  KC_ASSERT(layer < rows->name_count);
  p->count = 0;
  for (size_t i = 0; i < rows->layer_count; i++) {
    if (rows->layer[i].layer != layer) continue;
    p->figure[p->count][0] = rows->layer[i].units;
    p->us[p->count] = rows->layer[i].us;
    p->target[p->count] = kc_log2_exact(rows->layer[i].us);
    p->weight[p->count++] = 1;
  }
  return p->count;
}

static void score_layer(const struct kc_profile *profile, int layer, const struct points *p,
                        unsigned char out, double *errors, struct kc_residual *residual)
{
  size_t count = 0;
  for (size_t i = 0; i < p->count; i++) {
    if (p->out[i] != out) continue;
    KC_ASSERT(p->us[i] > 0);
    const double us = kc_profile_layer_time(profile, layer, p->figure[i][0]).us;
    errors[count++] = fabs(us / p->us[i] - 1);
  }
  *residual = kc_residual_of(errors, count);
}

/* A layer's time climbs in stairs: a matrix product does not pay for a token more until the next
 * tile begins, so 128 tokens may take what 120 do, and 144 a tenth more. Knots spread evenly would
 * cut the corners, at sizes that servers like best. They are put where they are needed: the row
 * that the curve misses most becomes one, until none is missed by STAIR_MISS. Heights are then
 * least squares. */
#define STAIR_MISS 0.007 /* log2: half a percent */

struct stairs {
  uint32_t knots;
  uint32_t row[KC_KNOTS_MAX]; /* ascending */
  double x[KC_KNOTS_MAX], y[KC_KNOTS_MAX];
};

static double stairs_at(const struct stairs *s, double x)
{
  uint32_t k = 0;
  KC_ASSERT(s->knots >= 2);
  while (k + 2 < s->knots && x > s->x[k + 1]) k++;
  const double t = (x - s->x[k]) / (s->x[k + 1] - s->x[k]);
  return s->y[k] + (s->y[k + 1] - s->y[k]) * (t < 0 ? 0 : t > 1 ? 1 : t);
}

static void add_stair(struct stairs *s, const double *x, const double *y, uint32_t row)
{
  uint32_t at = s->knots++;
  for (; at > 0 && s->row[at - 1] > row; at--) {
    s->row[at] = s->row[at - 1];
    s->x[at] = s->x[at - 1];
    s->y[at] = s->y[at - 1];
  }
  s->row[at] = row;
  s->x[at] = x[row];
  s->y[at] = y[row];
}

/* Least squares for the heights: each row touches two neighbouring knots, so the equations have
 * three diagonals. */
static void settle_heights(struct stairs *s, const double *x, const double *y, uint32_t rows)
{
  double main[KC_KNOTS_MAX] = {0}, next[KC_KNOTS_MAX] = {0}, right[KC_KNOTS_MAX] = {0};
  uint32_t k = 0;
  for (uint32_t i = 0; i < rows; i++) {
    while (k + 2 < s->knots && x[i] > s->x[k + 1]) k++;
    const double t = (x[i] - s->x[k]) / (s->x[k + 1] - s->x[k]);
    main[k] += (1 - t) * (1 - t);
    main[k + 1] += t * t;
    next[k] += t * (1 - t);
    right[k] += (1 - t) * y[i];
    right[k + 1] += t * y[i];
  }
  for (k = 1; k < s->knots; k++) {
    const double factor = next[k - 1] / main[k - 1];
    main[k] -= factor * next[k - 1];
    right[k] -= factor * right[k - 1];
  }
  for (k = s->knots; k-- > 0;) {
    s->y[k] = (right[k] - (k + 1 < s->knots ? next[k] * s->y[k + 1] : 0)) / main[k];
  }
}

/* Rows ascend in x, all different, at least two. */
static void find_stairs(struct stairs *s, const double *x, const double *y, uint32_t rows)
{
  KC_ASSERT(rows >= 2);
  s->knots = 0;
  add_stair(s, x, y, 0);
  add_stair(s, x, y, rows - 1);
  while (s->knots < KC_KNOTS_MAX) {
    double worst = STAIR_MISS;
    uint32_t at = rows;
    for (uint32_t i = 0; i < rows; i++) {
      const double miss = fabs(stairs_at(s, x[i]) - y[i]);
      if (miss > worst) {
        worst = miss;
        at = i;
      }
    }
    if (at == rows) break;
    add_stair(s, x, y, at);
  }
  settle_heights(s, x, y, rows);
  KC_ASSERT(s->knots >= 2 && s->knots <= KC_KNOTS_MAX);
}

/* Rows that are fitted (or all), in order, doubles merged into their mean. */
static uint32_t stair_rows(const struct points *p, bool all, double *x, double *y)
{
  uint32_t rows = 0;
  for (size_t i = 0; i < p->count; i++) {
    if (!all && p->out[i]) continue;
    const double at = kc_log2_exact(p->figure[i][0]);
    uint32_t k = rows++;
    for (; k > 0 && x[k - 1] > at; k--) {
      x[k] = x[k - 1];
      y[k] = y[k - 1];
    }
    x[k] = at;
    y[k] = p->target[i];
    if (k > 0 && x[k - 1] == at) {
      y[k - 1] = (y[k - 1] + y[k]) / 2;
      for (rows--; k < rows; k++) {
        x[k] = x[k + 1];
        y[k] = y[k + 1];
      }
    }
  }
  return rows;
}

static void stairs_to_table(struct kc_profile *profile, struct kc_family_fit *fit,
                            const struct stairs *s, const struct kc_feature *feature)
{
  struct kc_grid *table = &fit->table[fit->table_count++];
  table->axes = 1;
  table->feature[0] = 0;
  table->knots[0] = s->knots;
  table->knot[0] = kc_profile_numbers(profile, s->knots);
  table->value = kc_profile_numbers(profile, s->knots);
  KC_ASSERT(table->knot[0] != NULL && table->value != NULL);
  for (uint32_t k = 0; k < s->knots; k++) {
    const double units = kc_round_digits(kc_exp2_exact(s->x[k]), 6);
    table->knot[0][k] = kc_feature_scale(feature, units);
    table->value[k] = s->y[k];
  }
  round_values(fit);
  fit->present = true;
}

/* What is known of unseen rows comes from a fit without them; the table is then made from all. */
static enum kc_err fit_stairs(struct kc_profile *profile, struct kc_family_fit *fit,
                              const struct kc_feature *feature, struct points *p,
                              struct kc_diag *diag)
{
  double *x = malloc(3 * p->count * sizeof *x), *y = x + p->count, *errors = y + p->count;
  if (x == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu rows to fit", p->count);
  struct stairs stairs;
  size_t out = 0;
  find_range(fit, p, 1);
  uint32_t rows = stair_rows(p, false, x, y);
  if (rows >= 2) {
    find_stairs(&stairs, x, y, rows);
    for (size_t i = 0; i < p->count; i++) {
      if (!p->out[i]) continue;
      const double us = kc_exp2_exact(stairs_at(&stairs, kc_log2_exact(p->figure[i][0])));
      errors[out++] = fabs(us / p->us[i] - 1);
    }
    fit->held_out = kc_residual_of(errors, out);
  }
  rows = stair_rows(p, true, x, y);
  if (rows >= 2) {
    find_stairs(&stairs, x, y, rows);
    stairs_to_table(profile, fit, &stairs, feature);
  }
  fit->rows = p->count;
  free(x);
  return rows >= 2 ? KC_OK : kc_fail(diag, KC_ERR_INPUT, "a layer needs rows of two sizes or more");
}

static enum kc_err fit_layer(struct kc_profile *profile, const struct kc_layered_rows *rows,
                             uint32_t layer, struct points *p,
                             const struct kc_fit_options *options, struct kc_diag *diag)
{
  uint32_t count;
  const struct kc_feature *features = kc_layer_features(&count);
  struct kc_layer_fit *to = &profile->layer[layer];
  KC_ASSERT(layer == profile->layer_count);
  layer_points(p, rows, layer);
  draw(p, options, rows->name[layer]);
  memcpy(to->name, rows->name[layer], sizeof to->name);
  to->by_sequences = rows->by_sequences[layer];
  snprintf(to->fit.source, sizeof to->fit.source, "%s", options->source);
  KC_TRY(fit_stairs(profile, &to->fit, &features[0], p, diag));
  KC_ASSERT(count == 1);
  profile->layer_count++;
  memset(p->out, 0, p->count * sizeof p->out[0]);
  score_layer(profile, (int)layer, p, 0, p->target, &to->fit.fitted);
  return KC_OK;
}

/* ---- attention ---- */

static bool belongs(const struct kc_mixed_row *row, enum kc_mixed_part part)
{
  const bool prefill = row->step.prefill_tokens > 0;
  const bool decode = row->step.decodes > 0;
  KC_ASSERT(part != KC_MIXED_SPREAD);
  KC_ASSERT(prefill || decode);
  if (part == KC_MIXED_BOTH) return prefill && decode;
  return part == KC_MIXED_DECODE ? decode && !prefill : prefill && !decode;
}

/* Rows of a part with what its tables are to give; the earlier parts are already fitted. */
static void mixed_points(struct points *p, const struct kc_profile *profile,
                         const struct kc_layered_rows *rows, enum kc_mixed_part part)
{
  const bool spread = part == KC_MIXED_SPREAD;
  const struct kc_mixed_row *row = spread ? rows->spread : rows->mixed;
  const size_t most = spread ? rows->spread_count : rows->mixed_count;
  p->count = 0;
  for (size_t i = 0; i < most; i++) {
    const double apart = spread ? (row[i].longest_us - row[i].mean_us) / row[i].mean_us : 0;
    if (spread ? apart < 0.01 : !belongs(&row[i], part)) continue;
    double *figure = p->figure[p->count];
    kc_mixed_figures(&row[i].step, figure);
    p->weight[p->count] = spread ? (apart < 1 ? apart : 1) : 1;
    KC_ASSERT(row[i].us > 0);
    p->us[p->count] = row[i].us;
    p->mean_us[p->count] = row[i].mean_us;
    p->apart_us[p->count] = row[i].longest_us - row[i].mean_us;
    if (spread) {
      p->target[p->count] = (row[i].us - row[i].mean_us) / (row[i].longest_us - row[i].mean_us);
    } else if (part == KC_MIXED_BOTH) {
      struct kc_mixed_step one = row[i].step;
      one.decodes = 0;
      const double prefill = kc_mixed_even_us(profile, &one, 0);
      one = row[i].step;
      one.prefill_tokens = 0;
      const double decode = kc_mixed_even_us(profile, &one, one.decode_context);
      figure[4] = prefill / decode; /* prefill_per_decode */
      p->target[p->count] = kc_log2_exact(row[i].us / (prefill + decode));
    } else {
      p->target[p->count] = kc_log2_exact(row[i].us);
    }
    p->count++;
  }
}

/* Of a spread row only the share is scored, on the times that were measured with it; other rows are
 * asked as steps, read back from their figures. */
static void score_part(const struct kc_profile *profile, enum kc_mixed_part part,
                       const struct points *p, unsigned char out, double *errors,
                       struct kc_residual *residual)
{
  size_t count = 0;
  uint32_t features;
  for (size_t i = 0; i < p->count; i++) {
    if (p->out[i] != out) continue;
    const double *f = p->figure[i];
    const struct kc_mixed_step step = {f[0] - 1, f[1] - 16, f[2], f[3], f[3] * f[5]};
    double us;
    if (part == KC_MIXED_SPREAD) {
      const double share =
          kc_fit_correction(&profile->mixed[part], kc_mixed_features(&features), f);
      us = p->mean_us[i] + share * p->apart_us[i];
    } else {
      us = kc_profile_mixed_time(profile, &step).us;
    }
    errors[count++] = fabs(us / p->us[i] - 1);
  }
  *residual = kc_residual_of(errors, count);
}

static enum kc_err fit_part(struct kc_profile *profile, const struct kc_layered_rows *rows,
                            enum kc_mixed_part part, struct points *p,
                            const struct kc_fit_options *options, struct kc_diag *diag)
{
  uint32_t count;
  const struct kc_feature *features = kc_mixed_features(&count);
  struct kc_family_fit *fit = &profile->mixed[part];
  memset(p->figure, 0, (rows->mixed_count + rows->spread_count) * sizeof *p->figure);
  mixed_points(p, profile, rows, part);
  if (p->count < KC_FIT_ROWS_MIN) {
    if (part == KC_MIXED_SPREAD) return KC_OK;
    return kc_fail(diag, KC_ERR_INPUT, "%zu rows of attention are of the kind \"%s\"; at least %d "
                   "are needed", p->count, kc_mixed_part_name(part), KC_FIT_ROWS_MIN);
  }
  draw(p, options, kc_mixed_part_name(part));
  snprintf(fit->source, sizeof fit->source, "%s", options->source);
  KC_TRY(fit_points(profile, fit, &part_recipes[part], features, count, p, diag));
  score_part(profile, part, p, 1, p->target, &fit->held_out);
  score_part(profile, part, p, 0, p->target, &fit->fitted);
  return KC_OK;
}

enum kc_err kc_fit_layered(struct kc_profile *profile, const struct kc_layered_rows *rows,
                           const struct kc_fit_options *options, struct kc_diag *diag)
{
  struct points p;
  KC_ASSERT(profile->layer_count == 0);
  KC_ASSERT(options->hold_out_percent <= 90);
  const size_t most = rows->layer_count + rows->mixed_count + rows->spread_count;
  if (rows->layer_count == 0 || rows->mixed_count == 0) {
    return kc_fail(diag, KC_ERR_INPUT, "a layered profile is made from dense and attention rows; "
                   "give both files, and per_sequence, skew and meta.yaml where there are some");
  }
  profile->kind = KC_PROFILE_LAYERED;
  profile->layered = rows->model;
  KC_TRY(points_init(&p, most, diag));
  enum kc_err err = KC_OK;
  for (uint32_t i = 0; i < rows->name_count && err == KC_OK; i++) {
    err = fit_layer(profile, rows, i, &p, options, diag);
  }
  for (int part = 0; part < KC_MIXED_PARTS && err == KC_OK; part++) {
    err = fit_part(profile, rows, (enum kc_mixed_part)part, &p, options, diag);
  }
  points_free(&p);
  return err;
}

/* ---- scoring a finished profile ---- */

enum kc_err kc_score_layer(const struct kc_profile *profile, const struct kc_layered_rows *rows,
                           int layer, struct kc_residual *out, struct kc_diag *diag)
{
  struct points p;
  KC_ASSERT(profile->kind == KC_PROFILE_LAYERED);
  *out = (struct kc_residual){0};
  for (uint32_t i = 0; i < rows->name_count; i++) {
    if (strcmp(rows->name[i], profile->layer[layer].name) != 0) continue;
    KC_TRY(points_init(&p, rows->layer_count + 1, diag));
    layer_points(&p, rows, i);
    score_layer(profile, layer, &p, 0, p.target, out);
    points_free(&p);
    return KC_OK;
  }
  return KC_OK;
}

enum kc_err kc_score_mixed(const struct kc_profile *profile, const struct kc_layered_rows *rows,
                           enum kc_mixed_part part, struct kc_residual *out, struct kc_diag *diag)
{
  struct points p;
  KC_ASSERT(profile->kind == KC_PROFILE_LAYERED);
  *out = (struct kc_residual){0};
  if (!profile->mixed[part].present) return KC_OK;
  KC_TRY(points_init(&p, rows->mixed_count + rows->spread_count + 1, diag));
  mixed_points(&p, profile, rows, part);
  score_part(profile, part, &p, 0, p.target, out);
  points_free(&p);
  return KC_OK;
}
