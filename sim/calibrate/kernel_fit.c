/* Fits families (see kernel_fit.h).
 *
 *   struct family_rows   the samples of one family, ordered by shape, with work and kept-out mark
 *
 * The order by shape makes the split independent of the order of files and rows. Everything here is
 * set-up: heap, and the arithmetic of a run only where the finished fit is asked. */
#include "sim/calibrate/kernel_fit.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/random.h"
#include "sim/calibrate/kernel_recipe.h"
#include "sim/calibrate/table_fit.h"

struct family_rows {
  enum kc_family family;
  size_t count;
  const struct kc_sample **sample; /* ordered by shape */
  unsigned char *out;              /* kept out */
  size_t fitted;                   /* rows with out == 0 */
};

static int compare_shape(const void *a, const void *b)
{
  const struct kc_sample *x = *(const struct kc_sample *const *)a;
  const struct kc_sample *y = *(const struct kc_sample *const *)b;
  double left[sizeof(struct kc_shape) / sizeof(double)];
  double right[sizeof(struct kc_shape) / sizeof(double)];
  memcpy(left, &x->shape, sizeof left);
  memcpy(right, &y->shape, sizeof right);
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
    if (left[i] < right[i]) return -1;
    if (left[i] > right[i]) return 1;
  }
  return x->us < y->us ? -1 : x->us > y->us ? 1 : 0;
}

void kc_hold_out(unsigned char *out, const unsigned char *same, size_t rows, uint32_t percent,
                 uint64_t seed, const char *name)
{
  struct kc_random random;
  KC_ASSERT(percent <= 90);
  kc_random_init(&random, seed, name, 0);
  for (size_t i = 0; i < rows; i++) {
    if (i > 0 && same[i]) {
      out[i] = out[i - 1];
    } else {
      out[i] = kc_random_below(&random, 100) < percent ? 1 : 0;
    }
  }
}

static void rows_free(struct family_rows *rows)
{
  free(rows->sample);
  free(rows->out);
}

static enum kc_err no_memory(struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory while kernel timings are fitted");
}

static enum kc_err rows_take(struct family_rows *rows, const struct kc_samples *samples,
                             enum kc_family family, const struct kc_fit_options *options,
                             struct kc_diag *diag)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  *rows = (struct family_rows){.family = family};
  for (size_t i = 0; i < samples->count; i++) rows->count += samples->sample[i].family == family;
  if (rows->count == 0) return KC_OK;
  rows->sample = malloc(rows->count * sizeof *rows->sample);
  rows->out = malloc(rows->count);
  unsigned char *same = malloc(rows->count);
  if (rows->sample == NULL || rows->out == NULL || same == NULL) {
    free(same);
    rows_free(rows);
    return no_memory(diag);
  }
  size_t at = 0;
  for (size_t i = 0; i < samples->count; i++) {
    if (samples->sample[i].family == family) rows->sample[at++] = &samples->sample[i];
  }
  KC_ASSERT(at == rows->count);
  qsort(rows->sample, rows->count, sizeof *rows->sample, compare_shape);
  for (size_t i = 1; i < rows->count; i++) {
    same[i] = memcmp(&rows->sample[i]->shape, &rows->sample[i - 1]->shape,
                     sizeof(struct kc_shape)) == 0;
  }
  kc_hold_out(rows->out, same, rows->count, options->hold_out_percent, options->seed,
              kc_family_name(family));
  for (size_t i = 0; i < rows->count; i++) rows->fitted += rows->out[i] == 0;
  free(same);
  return KC_OK;
}

/* ---- physics ---- */

enum { PHYSICS_ROWS_MAX = 3000, PHYSICS_FIGURES = 6, PHYSICS_STEPS = 800 };

struct physics_problem {
  const struct kc_device *device;
  bool link;                       /* a collective */
  size_t rows;
  struct kc_work *work;
  double *us;
};

/* The figures as the minimiser moves them: logarithms, so that they stay positive. */
static struct kc_physics physics_of(const gsl_vector *x)
{
  double figure[PHYSICS_FIGURES];
  for (size_t i = 0; i < PHYSICS_FIGURES; i++) {
    double v = gsl_vector_get(x, i);
    v = v < -40 ? -40 : v > 60 ? 60 : v;
    figure[i] = exp2(v);
  }
  return (struct kc_physics){.latency_us = figure[0], .bandwidth = figure[1],
                             .bytes_half = figure[2], .rate = figure[3], .flops_half = figure[4],
                             .stream_gb_s = figure[5]};
}

/* Octaves by which x is outside [low, high]. */
static double outside(double x, double low, double high)
{
  KC_ASSERT(low < high);
  KC_ASSERT(x > 0);
  if (x < low) return log2(low / x);
  return x > high ? log2(x / high) : 0;
}

/* Keeps each figure where it means what its name says. Memory that gives under half of its rate is
 * not the limit, the multiprocessors are; a latency belongs to latency_us, not to bytes_half. */
static double penalty(const struct kc_physics *p)
{
  return outside(p->bandwidth, 0.5, 1.5) + outside(p->bytes_half, 1, 2e6) +
         outside(p->rate, 0.01, 1.0) + outside(p->stream_gb_s, 0.1, 1e4);
}

static double physics_loss(const gsl_vector *x, void *context)
{
  const struct physics_problem *p = context;
  KC_ASSERT(p->rows > 0);
  const struct kc_physics physics = physics_of(x);
  double sum = 0;
  for (size_t i = 0; i < p->rows; i++) {
    const double us = kc_physics_us(&physics, p->device, &p->work[i]);
    sum += fabs(log2(us / p->us[i]));
  }
  return sum / (double)p->rows + penalty(&physics);
}

static void round_physics(struct kc_physics *physics)
{
  physics->latency_us = kc_round_digits(physics->latency_us, 4);
  physics->bandwidth = kc_round_digits(physics->bandwidth, 4);
  physics->bytes_half = kc_round_digits(physics->bytes_half, 4);
  physics->rate = kc_round_digits(physics->rate, 4);
  physics->flops_half = kc_round_digits(physics->flops_half, 4);
  physics->stream_gb_s = kc_round_digits(physics->stream_gb_s, 4);
}

/* One search from `start`, which becomes what was found; *loss its loss. */
static enum kc_err descend(struct physics_problem *p, double start[PHYSICS_FIGURES], double *loss,
                           struct kc_diag *diag)
{
  gsl_vector *x = gsl_vector_alloc(PHYSICS_FIGURES);
  gsl_vector *step = gsl_vector_alloc(PHYSICS_FIGURES);
  gsl_multimin_fminimizer *search =
      gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, PHYSICS_FIGURES);
  if (x == NULL || step == NULL || search == NULL) return no_memory(diag);
  for (size_t i = 0; i < PHYSICS_FIGURES; i++) gsl_vector_set(x, i, start[i]);
  gsl_vector_set_all(step, 1.0);
  gsl_multimin_function function = {physics_loss, PHYSICS_FIGURES, p};
  gsl_multimin_fminimizer_set(search, &function, x, step);
  for (int i = 0; i < PHYSICS_STEPS; i++) {
    if (gsl_multimin_fminimizer_iterate(search) != GSL_SUCCESS) break;
    if (gsl_multimin_fminimizer_size(search) < 1e-4) break;
  }
  for (size_t i = 0; i < PHYSICS_FIGURES; i++) start[i] = gsl_vector_get(search->x, i);
  *loss = search->fval;
  gsl_multimin_fminimizer_free(search);
  gsl_vector_free(step);
  gsl_vector_free(x);
  return KC_OK;
}

/* The surface has ridges where one limit takes over from another, so a few searches start from
 * different limits, and the best goes on from where it stopped. */
static enum kc_err minimise(struct physics_problem *p, struct kc_physics *physics,
                            struct kc_diag *diag)
{
  double start[][PHYSICS_FIGURES] = {
      {2, -0.5, 16, -0.7, 26, 7}, {5, -0.5, 12, -3, 28, 7}, {4, -0.5, 16, -1.5, 26, 3}};
  const size_t starts = sizeof start / sizeof start[0];
  double best = INFINITY;
  size_t which = 0;
  for (size_t i = 0; i <= starts; i++) {
    const size_t from = i < starts ? i : which; /* the last one resumes the best */
    double loss = INFINITY;
    KC_TRY(descend(p, start[from], &loss, diag));
    if (loss < best) {
      best = loss;
      which = from;
    }
  }
  gsl_vector_view found = gsl_vector_view_array(start[which], PHYSICS_FIGURES);
  *physics = physics_of(&found.vector);
  return KC_OK;
}

static enum kc_err fit_physics(struct kc_physics *physics, const struct family_rows *rows,
                               const struct kc_device *device, struct kc_diag *diag)
{
  struct physics_problem p = {.device = device};
  p.work = malloc(PHYSICS_ROWS_MAX * sizeof *p.work);
  p.us = malloc(PHYSICS_ROWS_MAX * sizeof *p.us);
  if (p.work == NULL || p.us == NULL) {
    free(p.work);
    free(p.us);
    return no_memory(diag);
  }
  const size_t stride = rows->fitted / PHYSICS_ROWS_MAX + 1;
  size_t seen = 0;
  for (size_t i = 0; i < rows->count; i++) {
    if (rows->out[i] || seen++ % stride != 0) continue;
    KC_ASSERT(p.rows < PHYSICS_ROWS_MAX);
    kc_family_work(rows->family, device, &rows->sample[i]->shape, &p.work[p.rows]);
    p.link = p.work[p.rows].link;
    p.us[p.rows++] = rows->sample[i]->us;
  }
  const enum kc_err err = minimise(&p, physics, diag);
  free(p.work);
  free(p.us);
  if (err != KC_OK) return err;
  if (p.link) { /* figures that nothing depends on */
    physics->rate = 1;
    physics->flops_half = 0;
    physics->stream_gb_s = 0;
  }
  round_physics(physics);
  return err;
}

/* ---- tables ---- */

static uint32_t feature_index(const struct kc_feature *features, uint32_t count, const char *name)
{
  uint32_t i = 0;
  while (i < count && strcmp(features[i].name, name) != 0) i++;
  KC_ASSERT(i < count); /* recipes name features of their family */
  return i;
}

/* The work of every fitted row, and what the tables are to give there. */
struct table_rows {
  size_t count;
  struct kc_work *work;
  double *target, *scratch, *position;
};

static void table_rows_free(struct table_rows *t)
{
  free(t->work);
  free(t->target);
  free(t->scratch);
  free(t->position);
}

static enum kc_err table_rows_take(struct table_rows *t, const struct family_rows *rows,
                                   const struct kc_family_fit *fit, const struct kc_device *device,
                                   struct kc_diag *diag)
{
  KC_ASSERT(rows->fitted > 0);
  *t = (struct table_rows){0};
  t->work = malloc(rows->fitted * sizeof *t->work);
  t->target = malloc(rows->fitted * sizeof *t->target);
  t->scratch = malloc(rows->fitted * sizeof *t->scratch);
  t->position = calloc(rows->fitted, sizeof *t->position * KC_TABLES_MAX * KC_TABLE_AXES_MAX);
  if (t->work == NULL || t->target == NULL || t->scratch == NULL || t->position == NULL) {
    table_rows_free(t);
    return no_memory(diag);
  }
  for (size_t i = 0; i < rows->count; i++) {
    if (rows->out[i]) continue;
    struct kc_work *work = &t->work[t->count];
    kc_family_work(rows->family, device, &rows->sample[i]->shape, work);
    const double us = kc_physics_us(&fit->physics, device, work);
    t->target[t->count++] = kc_log2_exact(rows->sample[i]->us / us);
  }
  KC_ASSERT(t->count == rows->fitted);
  return KC_OK;
}

/* Knots of one axis, rounded to six digits as the file holds them. */
static void choose_axis(struct kc_profile *profile, struct kc_grid *table, uint32_t a,
                        const struct kc_feature *feature, const struct kc_recipe_axis *axis,
                        uint32_t share, struct table_rows *t)
{
  const uint32_t wanted = (axis->knots_max * share + 8) / 16;
  const uint32_t most = wanted < 2 ? 2 : wanted;
  double knot[KC_KNOTS_MAX];
  for (size_t i = 0; i < t->count; i++) {
    t->scratch[i] = kc_feature_scale(feature, t->work[i].feature[table->feature[a]]);
  }
  table->knots[a] = kc_choose_knots(t->scratch, t->count, most, axis->by_rows, knot);
  table->knot[a] = kc_profile_numbers(profile, table->knots[a]);
  KC_ASSERT(table->knot[a] != NULL);
  for (uint32_t k = 0; k < table->knots[a]; k++) {
    const double figure = feature->level ? knot[k] : kc_exp2_exact(knot[k]);
    table->knot[a][k] = kc_feature_scale(feature, kc_round_digits(figure, 6));
  }
}

/* Chooses features and knots of every table; `share` of the recipe's knots, in 1/16. Returns how
 * many values the tables have. */
static uint32_t choose_grids(struct kc_profile *profile, struct kc_family_fit *fit,
                             enum kc_family family, struct table_rows *t, uint32_t share)
{
  uint32_t count, values = 0;
  const struct kc_feature *features = kc_family_features(family, &count);
  const struct kc_recipe *recipe = kc_recipe_of(family);
  fit->table_count = 0;
  for (uint32_t i = 0; i < KC_TABLES_MAX && recipe->table[i].axis[0].feature != NULL; i++) {
    struct kc_grid *table = &fit->table[fit->table_count++];
    for (uint32_t a = 0; a < KC_TABLE_AXES_MAX && recipe->table[i].axis[a].feature != NULL; a++) {
      table->feature[a] = feature_index(features, count, recipe->table[i].axis[a].feature);
      table->axes = a + 1;
      choose_axis(profile, table, a, &features[table->feature[a]],
                  &recipe->table[i].axis[a], share, t);
    }
    values += kc_grid_values(table);
  }
  return values;
}

/* A fit must be much smaller than what it was made from: few rows get coarse grids. */
static void choose_tables(struct kc_profile *profile, struct kc_family_fit *fit,
                          enum kc_family family, struct table_rows *t)
{
  const size_t values_max = t->count / 3 + 24;
  const size_t before = profile->number_count;
  for (uint32_t share = 16; share > 0; share--) {
    profile->number_count = before;
    if (choose_grids(profile, fit, family, t, share) <= values_max) break;
  }
  for (uint32_t i = 0; i < fit->table_count; i++) {
    fit->table[i].value = kc_profile_numbers(profile, kc_grid_values(&fit->table[i]));
    KC_ASSERT(fit->table[i].value != NULL);
  }
}

static void place_rows(const struct kc_family_fit *fit, enum kc_family family,
                       struct table_rows *t)
{
  uint32_t count;
  const struct kc_feature *features = kc_family_features(family, &count);
  for (size_t i = 0; i < t->count; i++) {
    for (uint32_t j = 0; j < fit->table_count; j++) {
      double *at = t->position + (i * fit->table_count + j) * KC_TABLE_AXES_MAX;
      for (uint32_t a = 0; a < fit->table[j].axes; a++) {
        const uint32_t f = fit->table[j].feature[a];
        at[a] = kc_feature_scale(&features[f], t->work[i].feature[f]);
      }
    }
  }
}

static enum kc_err fit_tables(struct kc_profile *profile, struct kc_family_fit *fit,
                              const struct family_rows *rows, const struct kc_device *device,
                              struct kc_diag *diag)
{
  struct table_rows t;
  KC_TRY(table_rows_take(&t, rows, fit, device, diag));
  choose_tables(profile, fit, rows->family, &t);
  place_rows(fit, rows->family, &t);
  struct kc_grid_problem problem = {.tables = fit->table_count, .rows = t.count,
                                     .position = t.position, .target = t.target,
                                     .smooth = kc_recipe_of(rows->family)->smooth, .ridge = 1e-3};
  for (uint32_t i = 0; i < fit->table_count; i++) problem.table[i] = &fit->table[i];
  const enum kc_err err = kc_grid_solve(&problem, diag);
  for (uint32_t i = 0; err == KC_OK && i < fit->table_count; i++) {
    const uint32_t values = kc_grid_values(&fit->table[i]);
    for (uint32_t v = 0; v < values; v++) {
      fit->table[i].value[v] = floor(fit->table[i].value[v] * 1000.0 + 0.5) / 1000.0;
    }
  }
  table_rows_free(&t);
  return err;
}

/* ---- what the fit is worth ---- */

struct kc_residual kc_residual_of(double *errors, size_t count)
{
  if (count == 0) return (struct kc_residual){0};
  gsl_sort(errors, 1, count);
  const size_t ninth = (count * 9 + 9) / 10; /* nearest rank: ceil */
  KC_ASSERT(ninth >= 1 && ninth <= count);
  return (struct kc_residual){count, errors[(count + 1) / 2 - 1], errors[ninth - 1]};
}

static double error_of(const struct kc_profile *profile, const struct kc_device *device,
                       const struct kc_sample *sample)
{
  const double us = kc_profile_time(profile, device, sample->family, &sample->shape).us;
  KC_ASSERT(us > 0);
  KC_ASSERT(sample->us > 0);
  return fabs(us / sample->us - 1.0);
}

static enum kc_err score(const struct kc_profile *profile, const struct family_rows *rows,
                         const struct kc_device *device, unsigned char out,
                         struct kc_residual *residual, struct kc_diag *diag)
{
  KC_ASSERT(rows->count > 0);
  KC_ASSERT(out <= 1);
  double *errors = malloc(rows->count * sizeof *errors);
  size_t count = 0;
  if (errors == NULL) return no_memory(diag);
  for (size_t i = 0; i < rows->count; i++) {
    if (rows->out[i] == out) errors[count++] = error_of(profile, device, rows->sample[i]);
  }
  *residual = kc_residual_of(errors, count);
  free(errors);
  return KC_OK;
}

/* The box of all rows, those kept out too: it says where was measured, not what was seen. */
static void find_range(struct kc_family_fit *fit, const struct family_rows *rows,
                       const struct kc_device *device)
{
  uint32_t count;
  (void)kc_family_features(rows->family, &count);
  for (size_t i = 0; i < rows->count; i++) {
    struct kc_work work;
    kc_family_work(rows->family, device, &rows->sample[i]->shape, &work);
    for (uint32_t f = 0; f < count; f++) {
      if (i == 0 || work.feature[f] < fit->low[f]) fit->low[f] = work.feature[f];
      if (i == 0 || work.feature[f] > fit->high[f]) fit->high[f] = work.feature[f];
    }
  }
}

static void name_source(struct kc_family_fit *fit, const struct kc_samples *samples,
                        enum kc_family family, const char *source)
{
  size_t at = (size_t)snprintf(fit->source, sizeof fit->source, "%s", source);
  for (uint32_t i = 0; i < samples->kernel_count && at < sizeof fit->source; i++) {
    if (samples->kernel[i].family != family) continue;
    at += (size_t)snprintf(fit->source + at, sizeof fit->source - at, "%s%s",
                           at == 0 ? "" : at == strlen(source) ? ": " : ", ",
                           samples->kernel[i].name);
  }
}

static enum kc_err fit_family(struct kc_profile *profile, const struct kc_samples *samples,
                              const struct kc_device *device, enum kc_family family,
                              const struct kc_fit_options *options, struct kc_diag *diag)
{
  struct family_rows rows;
  struct kc_family_fit *fit = &profile->fit[family];
  KC_ASSERT(!fit->present);
  KC_TRY(rows_take(&rows, samples, family, options, diag));
  if (rows.fitted < KC_FIT_ROWS_MIN) {
    rows_free(&rows);
    return KC_OK;
  }
  fit->rows = rows.count;
  name_source(fit, samples, family, options->source);
  find_range(fit, &rows, device);
  enum kc_err err = fit_physics(&fit->physics, &rows, device, diag);
  if (err == KC_OK) err = fit_tables(profile, fit, &rows, device, diag);
  fit->present = err == KC_OK;
  if (err == KC_OK) err = score(profile, &rows, device, 1, &fit->held_out, diag);
  if (err == KC_OK) err = score(profile, &rows, device, 0, &fit->fitted, diag);
  rows_free(&rows);
  return err;
}

enum kc_err kc_fit_families(struct kc_profile *profile, const struct kc_samples *samples,
                            const struct kc_device *device, const struct kc_fit_options *options,
                            struct kc_diag *diag)
{
  KC_ASSERT(options->hold_out_percent <= 90);
  KC_ASSERT(samples->count > 0);
  gsl_error_handler_t *handler = gsl_set_error_handler_off();
  enum kc_err err = KC_OK;
  for (int f = 0; f < KC_FAMILIES && err == KC_OK; f++) {
    err = fit_family(profile, samples, device, (enum kc_family)f, options, diag);
  }
  gsl_set_error_handler(handler);
  return err;
}

enum kc_err kc_score_family(const struct kc_profile *profile, const struct kc_samples *samples,
                            const struct kc_device *device, enum kc_family family,
                            struct kc_residual *out, struct kc_diag *diag)
{
  struct family_rows rows;
  const struct kc_fit_options all = {0};
  *out = (struct kc_residual){0};
  KC_TRY(rows_take(&rows, samples, family, &all, diag));
  if (rows.count == 0) return KC_OK;
  const enum kc_err err = score(profile, &rows, device, 0, out, diag);
  rows_free(&rows);
  return err;
}
