/* The columns of a plan: what each is, whether it fits, and what bounds it (see plan.h). Set-up
 * code around runs: it may allocate.
 *
 *   number -> changes -> scenario -> bill --fits--> step model -> floors, work, panel, estimate
 */
#include "sim/plan/plan_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { COLUMNS_MAX = 16384 };

/* Aimed at when guessing: busier replicas queue too much. */
#define USUAL_LOAD 0.8

struct building {
  struct kc_plan *plan;
  struct kc_search_column *search; /* [column] of those that fit */
  struct kc_diag *why;             /* [column] */
  enum kc_err *err;                /* [column] what ends the plan */
  uint32_t first;                  /* column that is built side by side with later ones */
};

/* ---- what a column is ---- */

static void describe_weights(const struct kc_plan *plan, struct kc_plan_column *column,
                             const struct kc_precision *precision)
{
  uint32_t at[KC_AXES];
  kc_space_column(&plan->request.space, column->number, at);
  const char *value = plan->request.space.axis[KC_AXIS_WEIGHTS].value[at[KC_AXIS_WEIGHTS]];
  bool own = true;
  for (int i = 0; i < KC_TENSOR_CLASSES; i++) own &= precision->weight[i] == KC_WEIGHT_DEFAULT;
  if (value[0] == '\0') value = own ? "checkpoint" : "scenario";
  KC_ASSERT(strlen(value) < sizeof column->weights);
  snprintf(column->weights, sizeof column->weights, "%s", value);
}

/* Whether the experts, or without any the dense layers, are held in a four-bit format. */
static bool in_four_bits(const struct kc_model *model, const struct kc_precision *precision)
{
  const enum kc_tensor_class kind =
      model->experts > 0 ? KC_CLASS_ROUTED_EXPERTS : KC_CLASS_DENSE_MLP;
  KC_ASSERT(model->tensor_count > 0);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->kind != kind || !tensor->quantisable) continue;
    const char *name = kc_weight_format_name(kc_tensor_format(tensor, precision));
    return strstr(name, "int4") != NULL || strstr(name, "fp4") != NULL;
  }
  return false;
}

static void describe(const struct kc_plan *plan, struct kc_plan_column *column,
                     const struct kc_scenario *scenario)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  const struct kc_precision *precision = &pool->precision;
  const bool apart = precision->k_format != precision->v_format;
  KC_ASSERT(pool->memory.tensor > 0 && pool->memory.pipeline > 0);
  snprintf(column->gpu, sizeof column->gpu, "%s", pool->gpu.name);
  snprintf(column->kv, sizeof column->kv, "%s%s%s", kc_kv_format_name(precision->k_format),
           apart ? "/" : "", apart ? kc_kv_format_name(precision->v_format) : "");
  describe_weights(plan, column, precision);
  column->four_bits = in_four_bits(&scenario->model, precision);
  column->tensor = pool->memory.tensor;
  column->gpus = pool->memory.tensor * pool->memory.pipeline;
  column->page_size = pool->sched.page_size;
  column->chunk = plan->request.space.server == KC_SERVER_SGLANG
                      ? pool->sched.chunked_prefill_size
                      : pool->sched.max_batched_tokens;
  column->cap = pool->sched.max_running;
  column->priced = scenario->price_known;
  column->usd_hour = scenario->price_gpu_hour_usd * column->gpus;
}

/* ---- what bounds it ---- */

double kc_plan_floor_excess(const struct kc_plan *plan, const struct kc_figure_set *floors,
                            int *worst)
{
  double excess = 0;
  *worst = -1;
  for (uint32_t i = 0; i < plan->require_count; i++) {
    const struct kc_requirement *require = &plan->require[i];
    if (!kc_require_wants_low(require->sense) || !floors->known[require->figure]) continue;
    const struct kc_require_outcome outcome = kc_requirement_check(require, floors);
    if (outcome.excess <= excess) continue;
    excess = outcome.excess;
    *worst = (int)i;
  }
  KC_ASSERT(excess >= 0);
  return excess;
}

/* Of `count` values, those above a percentile by nearest rank. */
static uint32_t above(uint32_t count, uint32_t percent)
{
  const uint64_t rank = ((uint64_t)count * percent + 99) / 100;
  KC_ASSERT(rank <= count);
  return count - (uint32_t)rank;
}

/* When almost everybody has to be through: after the last arrival, in seconds; 0: nothing says so.
 * *missing: how many need not. */
static double deadline_s(const struct kc_plan *plan, const struct kc_bound_workload *workload,
                         uint32_t *missing)
{
  double ttft = 0, tpot = 0, e2e = 0;
  uint32_t late[3] = {0, 0, 0};
  for (uint32_t i = 0; i < plan->require_count; i++) {
    const struct kc_requirement *require = &plan->require[i];
    static const enum kc_figure means[] = {KC_FIGURE_TTFT_MEAN_MS, KC_FIGURE_TPOT_MEAN_MS,
                                           KC_FIGURE_E2E_MEAN_MS};
    double *const limit[] = {&ttft, &tpot, &e2e};
    for (int kind = 0; kind < 3; kind++) {
      const int percent = kc_figure_percentile(require->figure, means[kind]);
      if (percent <= 0 || require->limit <= 0 || !kc_require_wants_low(require->sense)) continue;
      *limit[kind] = require->limit;
      late[kind] = above(workload->count, (uint32_t)percent);
    }
  }
  *missing = 0;
  if (e2e > 0) {
    *missing = late[2];
    return e2e / 1e3;
  }
  if (ttft <= 0 || tpot <= 0) return 0;
  *missing = late[0] + late[1];
  KC_ASSERT(workload->output_max > 0);
  return (ttft + tpot * (workload->output_max - 1)) / 1e3;
}

/* Below every run's figure by more than its rounding: that of a price per token is to 1e-6. */
static double a_little_less(double floor)
{
  const double less = floor * (1 - 1e-9) - 2e-6;
  return less > 0 ? less : 0;
}

void kc_plan_floors_at(const struct kc_plan *plan, const struct kc_plan_column *column,
                       uint32_t replicas, struct kc_figure_set *set)
{
  const double cold_s = (double)plan->base.scenario.price.cold_start_ps / 1e12;
  const double shared_s = column->work_s / replicas;
  const double makespan_s = shared_s > column->span_s ? shared_s : column->span_s;
  const double hours = (makespan_s + cold_s) / 3600 * replicas;
  KC_ASSERT(replicas > 0 && makespan_s >= 0);
  *set = column->floors;
  kc_figure_put(set, KC_FIGURE_GPUS, (double)column->gpus * replicas);
  kc_figure_put(set, KC_FIGURE_MAKESPAN_S, a_little_less(makespan_s));
  kc_figure_put(set, KC_FIGURE_GPU_HOURS, a_little_less(hours * column->gpus));
  if (!column->priced) return;
  kc_figure_put(set, KC_FIGURE_USD_TOTAL, a_little_less(hours * column->usd_hour));
  if (plan->workload.output_tokens <= 0) return;
  kc_figure_put(set, KC_FIGURE_USD_PER_MTOK,
                a_little_less(hours * column->usd_hour / plan->workload.output_tokens * 1e6));
}

/* Of the numbers of replicas that are listed, the first and the last that bounds leave possible,
 * none below `fewest`. */
static void bound_replicas(const struct kc_plan *plan, const struct kc_plan_column *column,
                           uint32_t fewest, struct kc_search_column *search)
{
  const struct kc_plan_space *space = &plan->request.space;
  KC_ASSERT(space->replica_count > 0);
  search->replicas_min = UINT32_MAX;
  search->replicas_max = UINT32_MAX;
  for (uint32_t r = 0; r < space->replica_count; r++) {
    struct kc_figure_set floors;
    int worst;
    if (space->replicas[r] < fewest) continue;
    kc_plan_floors_at(plan, column, space->replicas[r], &floors);
    if (kc_plan_floor_excess(plan, &floors, &worst) > 1) continue;
    if (search->replicas_min == UINT32_MAX) search->replicas_min = space->replicas[r];
    search->replicas_max = space->replicas[r];
  }
}

/* What depends on the number of replicas, as low as any of those listed can have it. */
static void put_least(const struct kc_plan *plan, struct kc_plan_column *column)
{
  const struct kc_plan_space *space = &plan->request.space;
  struct kc_figure_set few, many;
  kc_plan_floors_at(plan, column, space->replicas[0], &few);
  kc_plan_floors_at(plan, column, space->replicas[space->replica_count - 1], &many);
  for (int f = 0; f < KC_FIGURES; f++) {
    if (!few.known[f]) continue;
    KC_ASSERT(many.known[f]);
    kc_figure_put(&column->floors, (enum kc_figure)f,
                  few.value[f] < many.value[f] ? few.value[f] : many.value[f]);
  }
}

static uint32_t fewest_replicas(const struct kc_plan *plan, const struct kc_run *run)
{
  const struct kc_bound_workload *workload = &plan->workload;
  uint32_t missing;
  const double after_s = deadline_s(plan, workload, &missing);
  if (!workload->timed || !workload->certain || after_s <= 0 || plan->request.lost > 0) return 1;
  const double work_s = kc_bound_work_s(run, workload, missing);
  const double time_s = (double)workload->last_arrival_ps / 1e12 + after_s;
  const double replicas = work_s / time_s;
  KC_ASSERT(time_s > 0);
  if (replicas >= 1e9) return UINT32_MAX;
  const uint32_t whole = (uint32_t)replicas;
  return (double)whole < replicas ? whole + 1 : whole > 0 ? whole : 1;
}

static void guess(const struct kc_plan *plan, const struct kc_run *run,
                  struct kc_plan_column *column, struct kc_search_column *search)
{
  const struct kc_bound_workload *workload = &plan->workload;
  const double request_s =
      kc_run_request_seconds(run, workload->mean_input, workload->mean_output);
  KC_ASSERT(request_s > 0);
  column->served_s = 1 / request_s;
  search->replicas_guess = request_s; /* closed loops: the faster the better */
  if (workload->rate_s > 0) search->replicas_guess = workload->rate_s * request_s / USUAL_LOAD;
  search->value_max = 1e300;
  if (plan->request.objective == KC_PLAN_OUTPUT_TOK_S && workload->timed) {
    const double work_s = kc_bound_work_s(run, workload, 0);
    const double tokens = (double)workload->mean_output * workload->count + workload->count;
    const uint32_t most = plan->request.space.replicas[plan->request.space.replica_count - 1];
    if (work_s > 0) search->value_max = tokens / work_s * most;
  }
}

/* In the objective's unit: micro-dollars an hour, or GPUs, and the other of the two. */
static void price(const struct kc_plan *plan, const struct kc_plan_column *column,
                  struct kc_search_column *search)
{
  const uint64_t usd = (uint64_t)(column->usd_hour * 1e6 + 0.5);
  const bool gpus_first = plan->request.objective == KC_PLAN_GPUS;
  KC_ASSERT(column->gpus > 0);
  search->cost[gpus_first ? 1 : 0] = usd;
  search->cost[gpus_first ? 0 : 1] = column->gpus;
}

static uint64_t longest_request(const struct kc_bound_workload *workload)
{
  uint64_t longest = 0;
  for (uint32_t i = 0; i < workload->count; i++) {
    const uint64_t length = (uint64_t)workload->length[i].input + workload->length[i].output;
    if (length > longest) longest = length;
  }
  KC_ASSERT(longest > 0);
  return longest;
}

static enum kc_err bound(struct building *b, uint32_t c, const struct kc_run *run,
                         struct kc_diag *diag)
{
  struct kc_plan *plan = b->plan;
  struct kc_plan_column *column = &plan->columns[c];
  struct kc_search_column *search = &b->search[c];
  int worst;
  KC_TRY(kc_bound_floors(run, &plan->workload, &column->floors, diag));
  column->cap = run->max_running;
  column->lost = plan->workload.certain ? kc_bound_lost(run, &plan->workload) : 0;
  const bool answered = plan->workload.certain && plan->request.lost <= 0; /* each request */
  if (answered || plan->workload.timed) {
    column->span_s = kc_bound_span_s(&plan->workload, &column->floors);
  }
  if (answered) column->work_s = kc_bound_work_s(run, &plan->workload, 0);
  if (!answered) memset(&column->floors, 0, sizeof column->floors);
  bound_replicas(plan, column, fewest_replicas(plan, run), search);
  put_least(plan, column);
  column->hopeless = column->lost > plan->request.lost ||
                     kc_plan_floor_excess(plan, &column->floors, &worst) > 1;
  if (column->hopeless) search->replicas_min = UINT32_MAX;
  guess(plan, run, column, search);
  price(plan, column, search);
  search->twin = column->number / plan->request.space.axis[KC_AXIS_CAP].count;
  search->cap = run->max_running;
  search->pages = run->pages;
  search->pages_request = longest_request(&plan->workload) / column->page_size + 2;
  search->pool_shows = plan->request.space.server == KC_SERVER_SGLANG || run->prefix_cache;
  KC_ASSERT(search->pages > 0);
  kc_bound_panel(run, search->panel, KC_SEARCH_PANEL_MAX);
  return KC_OK;
}

/* ---- one column ---- */

static void load_sets(const struct kc_plan *plan, uint32_t number, struct kc_plan_sets *sets)
{
  sets->count = 0;
  kc_space_sets(&plan->request.space, number, sets);
  kc_sets_add(sets, "pools.%s.replicas=1", plan->request.space.pool);
  kc_plan_add_headroom(plan, sets);
}

/* An axis by the last word of its key in a sentence about a change of the scenario. */
static const char *option_of(const struct kc_plan *plan, const char *text)
{
  static const struct {
    const char *word;
    enum kc_plan_axis_id axis;
  } words[] = {{"parallel.tensor", KC_AXIS_TENSOR}, {"tensor degree", KC_AXIS_TENSOR},
               {"max_batched_tokens", KC_AXIS_CHUNK}, {"chunked_prefill_size", KC_AXIS_CHUNK},
               {"page_size", KC_AXIS_PAGE}, {"max_running", KC_AXIS_CAP}, {"kv.", KC_AXIS_KV},
               {"weights", KC_AXIS_WEIGHTS}, {"gpu", KC_AXIS_GPU}};
  KC_ASSERT(plan->request.space.replica_count > 0);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strstr(text, words[i].word) != NULL) return kc_plan_axis_name(words[i].axis);
  }
  return NULL;
}

/* Changes that are the plan's own are not the user's --set: those have been read before. */
static void name_option(const struct kc_plan *plan, struct kc_diag *why)
{
  const char *option = option_of(plan, why->text);
  KC_ASSERT(why->code != KC_OK);
  if (strcmp(why->path, "--set") != 0) return;
  if (option == NULL) {
    why->path[0] = '\0';
  } else {
    snprintf(why->path, sizeof why->path, "--%s", option);
  }
}

/* Loads the bill; what is wrong with the column is no error. */
static enum kc_err load(const struct building *b, uint32_t c, struct kc_point *point,
                        struct kc_plan_sets *sets)
{
  struct kc_plan *plan = b->plan;
  const char *all[KC_PLAN_ALL_SETS_MAX];
  struct kc_diag_list *problems = malloc(sizeof *problems);
  if (problems == NULL) return kc_fail(&b->why[c], KC_ERR_MEMORY, "no memory for a scenario");
  load_sets(plan, plan->columns[c].number, sets);
  const size_t count = kc_plan_all_sets(plan, sets, all);
  const enum kc_err err = kc_point_load(point, plan->request.path, all, count, problems);
  if (err != KC_OK) {
    b->why[c] = problems->items[0];
    name_option(plan, &b->why[c]);
  }
  free(problems);
  return err;
}

static enum kc_err prepare_and_bound(struct building *b, uint32_t c, struct kc_point *point)
{
  struct kc_plan *plan = b->plan;
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) return kc_fail(&b->why[c], KC_ERR_MEMORY, "no memory for the run");
  enum kc_err err = kc_run_prepare_from(run, &point->scenario, plan->inputs, &b->why[c]);
  if (err == KC_OK && plan->workload.count == 0) { /* the first column, before any threads */
    err = kc_bound_workload_of(&plan->workload, run, &b->why[c]);
    plan->cached = run->prefix_cache;
  }
  if (err == KC_OK) err = bound(b, c, run, &b->why[c]);
  kc_run_deinit(run);
  free(run);
  return err;
}

static void build_column(void *context, uint32_t c)
{
  struct building *b = context;
  struct kc_plan_column *column = &b->plan->columns[c];
  struct kc_point *point = calloc(1, sizeof *point);
  struct kc_plan_sets *sets = calloc(1, sizeof *sets);
  enum kc_err err = point == NULL || sets == NULL
                        ? kc_fail(&b->why[c], KC_ERR_MEMORY, "no memory for a scenario")
                        : load(b, c, point, sets);
  KC_ASSERT(column->number == c);
  if (err == KC_ERR_INPUT || err == KC_ERR_USAGE) {
    column->status = KC_POINT_REFUSED;
    err = KC_OK;
  } else if (err == KC_OK) {
    describe(b->plan, column, &point->scenario);
    err = prepare_and_bound(b, c, point);
    if (err == KC_ERR_NO_FIT || err == KC_ERR_LIMIT) {
      column->status = KC_POINT_NO_FIT;
      err = KC_OK;
    }
  }
  b->err[c] = err;
  free(point);
  free(sets);
}

/* ---- all columns ---- */

/* The same schedule: what is left to differ is what the panel compares. */
static uint32_t rival_of(const struct kc_plan *plan, uint32_t searched)
{
  const struct kc_plan_column *column = &plan->columns[plan->searched[searched]];
  for (uint32_t i = 0; i < searched; i++) {
    const struct kc_plan_column *other = &plan->columns[plan->searched[i]];
    if (other->chunk == column->chunk && other->page_size == column->page_size) return i;
  }
  KC_ASSERT(searched < plan->search_count);
  return searched;
}

/* The sentence of the first column that does not fit, and which one it is. */
static void explain_no_fit(const struct kc_plan_column *column, const struct kc_diag *why,
                           struct kc_diag *out)
{
  KC_ASSERT(column->gpu[0] != '\0');
  kc_fail_at(out, why->code, why->path, 0, 0, "%u %s, weights %s, KV %s: %s", column->gpus,
             column->gpu, column->weights, column->kv, why->text);
}

static void gather(struct building *b)
{
  struct kc_plan *plan = b->plan;
  for (uint32_t c = 0; c < plan->column_count; c++) {
    const struct kc_plan_column *column = &plan->columns[c];
    plan->count.hopeless += column->hopeless;
    if (column->status == KC_POINT_REFUSED) {
      if (plan->count.refused++ == 0) plan->why_refused = b->why[c];
    } else if (column->status == KC_POINT_NO_FIT) {
      if (plan->count.no_fit++ == 0) explain_no_fit(column, &b->why[c], &plan->why_no_fit);
    } else {
      plan->search[plan->search_count] = b->search[c];
      plan->searched[plan->search_count++] = c;
    }
  }
  KC_ASSERT(plan->search_count <= plan->column_count);
  plan->count.columns = plan->column_count;
  for (uint32_t i = 0; i < plan->search_count; i++) plan->search[i].rival = rival_of(plan, i);
}

/* Nothing fits: on which GPUs, and why the first does not. */
static enum kc_err fail_no_fit(const struct kc_plan *plan, struct kc_diag *diag)
{
  const struct kc_plan_axis *axis = &plan->request.space.axis[KC_AXIS_GPU];
  char gpus[160] = "";
  KC_ASSERT(axis->count > 0 && plan->count.no_fit > 0);
  for (uint32_t i = 0; i < axis->count; i++) {
    const size_t used = strlen(gpus);
    snprintf(gpus + used, sizeof gpus - used, "%s%.32s", i > 0 ? ", " : "",
             axis->value[i][0] != '\0' ? axis->value[i] : plan->request.space.own_gpu);
  }
  return kc_fail_at(diag, KC_ERR_NO_FIT, plan->why_no_fit.path, 0, 0,
                    "nothing that may be chosen fits on %s; %s", gpus, plan->why_no_fit.text);
}

/* Figures that no run of this workload has are no requirement and no objective. */
static enum kc_err check_exists(const struct kc_plan *plan, struct kc_diag *diag)
{
  const struct kc_scenario *scenario = &plan->base.scenario;
  bool has_limits = scenario->slo_ttft_p95_ms > 0 || scenario->slo_tpot_p95_ms > 0;
  KC_ASSERT(plan->workload.count > 0);
  for (uint32_t i = 0; i < plan->require_count && plan->workload.output_max < 2; i++) {
    const enum kc_figure figure = plan->require[i].figure;
    if (kc_figure_percentile(figure, KC_FIGURE_TPOT_MEAN_MS) < 0 &&
        kc_figure_percentile(figure, KC_FIGURE_ITL_MEAN_MS) < 0) {
      continue;
    }
    return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0, "%s asks of a time between tokens, "
                      "and no request of the workload has a second one; require something else, "
                      "such as --slo 'ttft_p95_ms<=2000'", plan->require[i].text);
  }
  for (uint32_t c = 0; c < scenario->workload.clients.class_count; c++) {
    const struct kc_class_spec *class = &scenario->workload.clients.class[c];
    has_limits |= class->ttft_ms > 0 || class->tpot_ms > 0;
  }
  if (plan->request.objective != KC_PLAN_GOODPUT || has_limits) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0, "goodput counts the requests within "
                    "the scenario's own limits, and it states none: add slo: {ttft_p95_ms: ...} to "
                    "it, or plan with --objective output_tok_s");
}

static enum kc_err check_prices(const struct kc_plan *plan, struct kc_diag *diag)
{
  if (plan->request.objective == KC_PLAN_GPUS && plan->request.budget_usd_hour <= 0) return KC_OK;
  for (uint32_t i = 0; i < plan->search_count; i++) {
    const struct kc_plan_column *column = &plan->columns[plan->searched[i]];
    if (column->priced) continue;
    KC_ASSERT(column->gpu[0] != '\0');
    return kc_fail(diag, KC_ERR_INPUT, "no price of %s is known: give one, such as --price "
                   "%s=2.50, or plan with --objective gpus", column->gpu, column->gpu);
  }
  return KC_OK;
}

static void build_rest(void *context, uint32_t task)
{
  struct building *b = context;
  build_column(b, b->first + task);
}

static enum kc_err build_all(struct building *b, struct kc_diag *diag)
{
  struct kc_plan *plan = b->plan;
  const uint32_t count = plan->column_count;
  KC_ASSERT(count > 0 && b->first == 0);
  for (uint32_t c = 0; c < count; c++) plan->columns[c].number = c;
  /* One after another until one has read the workload; then side by side. */
  while (b->first < count && plan->workload.count == 0) build_column(b, b->first++);
  kc_plan_work(plan->request.threads, count - b->first, build_rest, b);
  for (uint32_t c = 0; c < count; c++) {
    if (b->err[c] == KC_OK) continue;
    *diag = b->why[c];
    return b->err[c];
  }
  gather(b);
  if (plan->search_count > 0) {
    KC_TRY(check_exists(plan, diag));
    return check_prices(plan, diag);
  }
  if (plan->count.no_fit > 0) return fail_no_fit(plan, diag);
  *diag = plan->why_refused;
  KC_ASSERT(diag->code != KC_OK);
  return diag->code;
}

enum kc_err kc_plan_build_columns(struct kc_plan *plan, struct kc_diag *diag)
{
  const uint32_t count = kc_space_columns(&plan->request.space);
  struct building b = {.plan = plan};
  if (count > COLUMNS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "the listed values make more than %d combinations, without "
                   "the replicas: list fewer", COLUMNS_MAX);
  }
  plan->column_count = count;
  plan->columns = calloc(count, sizeof *plan->columns);
  plan->search = calloc(count, sizeof *plan->search);
  plan->searched = calloc(count, sizeof *plan->searched);
  b.search = calloc(count, sizeof *b.search);
  b.why = calloc(count, sizeof *b.why);
  b.err = calloc(count, sizeof *b.err);
  const bool made = plan->columns != NULL && plan->search != NULL && plan->searched != NULL &&
                    b.search != NULL && b.why != NULL && b.err != NULL;
  const enum kc_err err = made ? build_all(&b, diag)
                               : kc_fail(diag, KC_ERR_MEMORY, "no memory for the columns");
  free(b.search);
  free(b.why);
  free(b.err);
  return err;
}
