/* Works out the figures of an expect list (see verify.h).
 *
 *   expect.set, expect.against --load, run--> points, each text of changes once --> rows
 */
#include "sim/cli/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { POINTS_MAX = 2 * KC_EXPECT_MAX, SETS_MAX = 16 };

/* The points of one file, by the text of their changes. */
struct points {
  const char *path;
  size_t count;
  struct kc_point *point[POINTS_MAX];
  const char *changes[POINTS_MAX]; /* borrowed from the expect list */
};

static void free_points(struct points *points)
{
  KC_ASSERT(points->count <= POINTS_MAX);
  for (size_t i = 0; i < points->count; i++) free(points->point[i]);
  points->count = 0;
}

/* First problem of a list as one diagnosis. */
static enum kc_err first_problem(const struct kc_diag_list *problems, struct kc_diag *diag)
{
  KC_ASSERT(problems->count > 0);
  KC_ASSERT(problems->items[0].code != KC_OK);
  *diag = problems->items[0];
  return diag->code;
}

static enum kc_err load_point(struct points *points, const char *changes, struct kc_point **out,
                              struct kc_diag *diag)
{
  char text[sizeof((struct kc_expect *)0)->set];
  const char *sets[SETS_MAX];
  KC_ASSERT(points->count < POINTS_MAX);
  snprintf(text, sizeof text, "%s", changes);
  const size_t count = kc_expect_sets(text, sets, SETS_MAX);
  if (count == SIZE_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "expect.set: more than %d changes", (int)SETS_MAX);
  }
  struct kc_diag_list *problems = malloc(sizeof *problems);
  struct kc_point *point = malloc(sizeof *point);
  enum kc_err err = KC_ERR_MEMORY;
  if (problems == NULL || point == NULL) {
    kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  } else if (kc_point_load(point, points->path, sets, count, problems) != KC_OK) {
    err = first_problem(problems, diag);
  } else {
    points->changes[points->count] = changes;
    points->point[points->count++] = point;
    *out = point;
    point = NULL;
    err = KC_OK;
  }
  free(point);
  free(problems);
  return err;
}

/* A figure called derived rests on no fit; kinds are said by hand, so this one is checked. */
static enum kc_err run_point(struct kc_point *point, int kind, struct kc_diag *diag)
{
  if (!point->ran) KC_TRY(kc_point_run(point, NULL, NULL, diag));
  KC_ASSERT(point->ran);
  if (kind != KC_EXPECT_DERIVED || point->trust.level == KC_LEVEL_DATASHEET) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "kind derived, but its run took times from a fit (%s); say "
                 "calibrated, left-out or modelled", kc_cost_basis_name(point->trust.basis));
}

/* The point with the changes, loaded once; run when the metric needs it. */
static enum kc_err find_point(struct points *points, const struct kc_expect *expect,
                              const char *changes, struct kc_point **out, struct kc_diag *diag)
{
  *out = NULL;
  KC_ASSERT(changes != NULL);
  for (size_t i = 0; i < points->count; i++) {
    if (strcmp(points->changes[i], changes) == 0) *out = points->point[i];
  }
  if (*out == NULL) KC_TRY(load_point(points, changes, out, diag));
  KC_ASSERT(*out != NULL);
  return kc_expect_needs_run(expect->metric) ? run_point(*out, expect->kind, diag) : KC_OK;
}

static struct kc_cost_trust worse(struct kc_cost_trust a, struct kc_cost_trust b)
{
  return a.level >= b.level ? a : b;
}

static enum kc_err predict(struct points *points, struct kc_verify_row *row, struct kc_diag *diag)
{
  const struct kc_expect *expect = &row->expect;
  struct kc_point *point, *base;
  KC_TRY(find_point(points, expect, expect->set, &point, diag));
  const struct kc_workload_spec *work = &point->scenario.workload;
  row->concurrency = work->is_closed ? work->closed.concurrency : 0;
  row->ran = kc_expect_needs_run(expect->metric);
  row->trust = point->trust;
  const char *name = points->point[0]->scenario.name;
  KC_TRY(kc_expect_value(expect, &point->figures, name, &row->predicted, diag));
  if (!expect->has_against) return KC_OK;
  double value;
  KC_TRY(find_point(points, expect, expect->against, &base, diag));
  KC_TRY(kc_expect_value(expect, &base->figures, name, &value, diag));
  if (value == 0) return kc_fail(diag, KC_ERR_INPUT, "the figure to compare with is 0");
  row->predicted = 100.0 * (row->predicted / value - 1.0);
  row->trust = worse(row->trust, base->trust);
  return KC_OK;
}

static void fill_row(struct points *points, struct kc_verify_row *row)
{
  row->has_value = predict(points, row, &row->problem) == KC_OK;
  if (!row->has_value) return;
  row->error = kc_expect_error(&row->expect, row->predicted);
  row->holds = kc_expect_holds(&row->expect, row->predicted);
}

enum kc_err kc_verify_file(struct kc_verify_file *file, const char *path,
                           struct kc_diag_list *problems)
{
  KC_ASSERT(file != NULL && path != NULL);
  struct points points = {.path = path};
  memset(file, 0, sizeof *file);
  snprintf(file->path, sizeof file->path, "%s", path);
  struct kc_point *plain = malloc(sizeof *plain);
  if (plain == NULL) {
    kc_diag_list_init(problems);
    return kc_diag_list_add(problems, KC_ERR_MEMORY, path, 0, 0, "no memory for a scenario");
  }
  const enum kc_err err = kc_point_load(plain, path, NULL, 0, problems);
  if (err == KC_OK) {
    points.changes[points.count] = "";
    points.point[points.count++] = plain;
    snprintf(file->name, sizeof file->name, "%s", plain->scenario.name);
    file->count = plain->scenario.expect_count;
    if (file->count == 0) {
      kc_diag_list_add(problems, KC_ERR_INPUT, path, 0, 0,
                       "the scenario has no expect: list, so there is nothing to verify; "
                       "scenarios/published shows how one looks");
    }
    for (uint32_t i = 0; i < file->count; i++) {
      file->row[i].expect = plain->scenario.expect[i];
      fill_row(&points, &file->row[i]);
    }
  } else {
    free(plain);
  }
  free_points(&points);
  return err == KC_OK ? kc_diag_list_result(problems) : err;
}
