/* A plan in the database (see plan_store.h). Around runs: it may allocate. */
#include "sim/plan/plan_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/plan_parts.h"

/* ---- the question's row ---- */

/* The axes, and what is asked of them, one line each; heap. */
static char *axes_text(const struct kc_plan *plan)
{
  char *text = NULL;
  size_t bytes = 0;
  const struct kc_plan_space *space = &plan->request.space;
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  for (int id = 0; id < KC_AXES; id++) {
    const struct kc_plan_axis *axis = &space->axis[id];
    fprintf(out, "%s=", kc_plan_axis_name((enum kc_plan_axis_id)id));
    for (uint32_t i = 0; i < axis->count; i++) {
      fprintf(out, "%s%s", i == 0 ? "" : ",", axis->value[i][0] != '\0' ? axis->value[i]
                                                                         : "scenario");
    }
    fputc('\n', out);
  }
  for (uint32_t i = 0; i < space->replica_count; i++) {
    fprintf(out, "%s%u", i == 0 ? "replicas=" : ",", space->replicas[i]);
  }
  fputc('\n', out);
  for (uint32_t i = 0; i < plan->require_count; i++) fprintf(out, "%s\n", plan->require[i].text);
  fprintf(out, "spare=%u headroom=%.17g lost=%.17g objective=%d\n", plan->request.spare,
          plan->request.headroom, plan->request.lost, (int)plan->request.objective);
  KC_ASSERT(space->replica_count > 0);
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

static uint64_t candidates_of(const struct kc_plan *plan)
{
  KC_ASSERT(plan->column_count > 0);
  return (uint64_t)plan->column_count * plan->request.space.replica_count;
}

enum kc_err kc_plan_store_open(struct kc_plan *plan, struct kc_diag *diag)
{
  char name[160];
  if (plan->request.store == NULL) return KC_OK;
  char *axes = axes_text(plan);
  if (axes == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the plan");
  snprintf(name, sizeof name, "plan: %s", plan->base.scenario.name);
  const struct kc_question question = {
      .name = name, .path = plan->request.path, .sets = plan->request.sets,
      .set_count = plan->request.set_count, .axes = axes, .kind = "plan",
      .points = candidates_of(plan) + KC_PLAN_DETAILS_MAX};
  const enum kc_err err =
      kc_question_begin(plan->request.store, &question, &plan->sweep_id, diag);
  free(axes);
  KC_ASSERT(err != KC_OK || plan->sweep_id > 0);
  return err == KC_OK ? kc_known_open(&plan->known, plan->request.store, diag) : err;
}

/* ---- points ---- */

uint64_t kc_plan_store_number(const struct kc_plan *plan, const struct kc_search_probe *probe)
{
  const struct kc_plan_space *space = &plan->request.space;
  uint32_t index = 0;
  while (space->replicas[index] != probe->replicas) index++;
  KC_ASSERT(index < space->replica_count);
  return (uint64_t)plan->columns[probe->column].number * space->replica_count + index;
}

/* One row: the result from the database, or the database's from the result. */
static enum kc_err exchange(struct kc_plan *plan, struct kc_plan_run *run, uint64_t number,
                            const struct kc_plan_sets *sets, struct kc_point_row *row,
                            struct kc_stored_point *point, bool *write, struct kc_diag *diag)
{
  const char *own[KC_POINT_ROW_SETS_MAX];
  bool there = false;
  *write = false;
  KC_ASSERT(sets->count <= KC_POINT_ROW_SETS_MAX);
  if (run->result.known) {
    plan->count.known++;
    KC_TRY(kc_known_read(&plan->known, plan->sweep_id, number, &run->result, &there, diag));
  }
  if (there) return KC_OK;
  for (size_t i = 0; i < sets->count; i++) own[i] = sets->text[i];
  kc_point_row_fill(row, number, &run->result, own, sets->count, point);
  *write = true;
  return KC_OK;
}

enum kc_err kc_plan_store_batch(struct kc_plan *plan, uint32_t first, uint32_t count,
                                const uint64_t *number, const struct kc_plan_sets *sets,
                                struct kc_diag *diag)
{
  struct kc_stored_point point[KC_SEARCH_BATCH];
  size_t rows = 0;
  KC_ASSERT(count <= KC_SEARCH_BATCH);
  if (plan->request.store == NULL) return KC_OK;
  struct kc_point_row *row = calloc(count, sizeof *row);
  enum kc_err err = row == NULL ? kc_fail(diag, KC_ERR_MEMORY, "no memory to store a batch")
                                : KC_OK;
  for (uint32_t i = 0; err == KC_OK && i < count; i++) {
    bool write;
    err = exchange(plan, &plan->run[first + i], number[i], &sets[i], &row[rows], &point[rows],
                   &write, diag);
    rows += err == KC_OK && write;
  }
  if (err == KC_OK && rows > 0) {
    err = kc_store_points_write(plan->request.store, plan->sweep_id, point, rows, diag);
  }
  free(row);
  return err;
}
