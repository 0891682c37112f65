/* A plan in the database (see plan_store.h). Around runs: it may allocate. */
#include "sim/plan/plan_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/plan/plan_details.h"
#include "sim/plan/plan_parts.h"
#include "sim/store/store_plan.h"

enum { NONE = UINT32_MAX };

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
  for (uint32_t i = 0; i < space->price.count; i++) {
    fprintf(out, "price=%s\n", space->price.value[i]);
  }
  if (plan->request.budget_usd_hour > 0) {
    fprintf(out, "budget-usd-hour=%.17g\n", plan->request.budget_usd_hour);
  }
  if (plan->request.gpus_max > 0) fprintf(out, "gpus-max=%u\n", plan->request.gpus_max);
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
  if (err == KC_OK && rows > 0 && !plan->forgotten) { /* it names points that change now */
    err = kc_store_plan_forget(plan->request.store, plan->sweep_id, diag);
    plan->forgotten = err == KC_OK;
  }
  if (err == KC_OK && rows > 0) {
    err = kc_store_points_write(plan->request.store, plan->sweep_id, point, rows, diag);
  }
  free(row);
  return err;
}

/* ---- the answer ---- */

static uint64_t point_of(const struct kc_plan *plan, uint32_t run)
{
  KC_ASSERT(run == NONE || run < plan->run_count);
  return run == NONE ? KC_STORED_POINT_NONE : plan->run[run].number;
}

/* Whether the entry is a candidate as it stands, not the winner with something changed. */
static bool is_candidate(const struct kc_plan *plan, uint32_t run)
{
  return run < plan->count.runs || !plan->found;
}

static struct kc_stored_candidate candidate_row(const struct kc_plan *plan, uint32_t index)
{
  const struct kc_plan_run *run = &plan->run[index];
  const struct kc_plan_column *column = &plan->columns[run->probe.column];
  KC_ASSERT(run->probe.replicas > 0);
  return (struct kc_stored_candidate){
      .number = run->number, .gpu = column->gpu, .weights = column->weights, .kv = column->kv,
      .replicas = run->probe.replicas, .gpus_replica = column->gpus, .tensor = column->tensor,
      .page_size = column->page_size, .chunk = column->chunk, .max_running = column->cap,
      .gpus = kc_plan_gpus(plan, &run->probe), .priced = column->priced,
      .usd_hour = kc_plan_usd_hour(plan, &run->probe), .excess = run->excess,
      .worst = run->worst};
}

static struct kc_stored_unit unit_row(const struct kc_plan *plan, const struct kc_plan_unit *unit)
{
  const struct kc_search_probe *winner = &plan->run[plan->winner].probe;
  const int64_t gpus = (int64_t)kc_plan_gpus(plan, winner) + unit->gpus;
  KC_ASSERT(gpus > 0);
  return (struct kc_stored_unit){
      .what = unit->what, .why = unit->why.text, .gpus = (uint32_t)gpus,
      .number = unit->possible ? plan->run[unit->run].number : KC_STORED_POINT_NONE,
      .priced = plan->columns[winner->column].priced, .usd_hour = unit->usd_hour,
      .excess = unit->possible ? plan->run[unit->run].excess : 0};
}

static struct kc_stored_plan plan_row(const struct kc_plan *plan,
                                      const struct kc_plan_limits *limits,
                                      const struct kc_plan_bought *bought)
{
  static const char *const objectives[] = {"usd", "gpus", "goodput", "output_tok_s"};
  const struct kc_plan_request *request = &plan->request;
  const struct kc_plan_counts *n = &plan->count;
  struct kc_stored_plan row = {
      .objective = objectives[request->objective], .spare = request->spare,
      .headroom = request->headroom, .lost = request->lost,
      .budget_usd_hour = request->budget_usd_hour, .gpus_max = request->gpus_max,
      .winner = point_of(plan, plan->found ? plan->winner : NONE),
      .as_bought = point_of(plan, plan->found ? bought->run : NONE),
      .runner_up = point_of(plan, plan->found ? plan->runner_up : NONE),
      .near_miss = point_of(plan, plan->near_miss), .command = bought->command,
      .command_bought = bought->command_bought,
      .combinations = n->columns, .no_fit = n->no_fit, .refused = n->refused,
      .candidates = n->candidates, .runs = n->runs, .runs_after = n->runs_after,
      .by_price = n->decided[KC_SEARCH_PRICE], .by_bound = n->decided[KC_SEARCH_BOUND],
      .by_twin = n->decided[KC_SEARCH_TWIN], .by_replicas = n->decided[KC_SEARCH_REPLICAS],
      .by_faster = n->decided[KC_SEARCH_FASTER],
      .why_no_fit = n->no_fit > 0 ? plan->why_no_fit.text : NULL,
      .why_refused = n->refused > 0 ? plan->why_refused.text : NULL};
  KC_ASSERT(request->objective < sizeof objectives / sizeof objectives[0]);
  if (!plan->found || !limits->known) return row;
  row.limited_by = limits->name;
  if (limits->nearest >= 0) row.nearest = kc_figure_name(plan->require[limits->nearest].figure);
  row.prefill_share = limits->prefill;
  row.decode_share = limits->decode;
  row.host_share = limits->host;
  row.idle_share = limits->idle;
  row.memory_share = limits->memory;
  return row;
}

enum kc_err kc_plan_keep(struct kc_plan *plan, const struct kc_plan_units *units,
                         const struct kc_plan_limits *limits, const struct kc_plan_bought *bought,
                         struct kc_diag *diag)
{
  struct kc_stored_requirement requirement[KC_REQUIREMENTS_MAX];
  struct kc_stored_unit unit[KC_PLAN_UNITS_MAX];
  if (plan->request.store == NULL) return KC_OK;
  struct kc_stored_candidate *candidate = calloc(plan->run_count + 1, sizeof *candidate);
  if (candidate == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the answer");
  struct kc_stored_plan row = plan_row(plan, limits, bought);
  for (uint32_t i = 0; i < plan->run_count; i++) {
    if (is_candidate(plan, i)) candidate[row.candidate_count++] = candidate_row(plan, i);
  }
  for (uint32_t i = 0; i < plan->require_count; i++) {
    const struct kc_requirement *require = &plan->require[i];
    requirement[i] = (struct kc_stored_requirement){require->text, kc_figure_name(require->figure),
                                                    kc_require_wants_low(require->sense),
                                                    require->limit};
  }
  for (uint32_t i = 0; plan->found && i < units->count; i++) {
    unit[row.unit_count++] = unit_row(plan, &units->unit[i]);
  }
  row.requirement = requirement;
  row.requirement_count = plan->require_count;
  row.candidate = candidate;
  row.unit = unit;
  const enum kc_err err = kc_store_plan_write(plan->request.store, plan->sweep_id, &row, diag);
  free(candidate);
  return err;
}
