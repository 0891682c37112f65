/* The precision table (see precision_table.h). Around runs: it may allocate. */
#include "sim/plan/precision_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/plan/judge.h"
#include "sim/plan/space.h"

static const char usual_weights[] = "scenario,bf16,fp8,int4-g32,int4-g128,mxfp4,nvfp4";
static const char usual_kv[] = "bf16,fp8-e4m3,k=bf16+v=fp8-e4m3";
static const char usual_concurrency[] = "1..256*2";
static const uint64_t usual_contexts[] = {4096, 16384, 65536, 131072};

/* ---- a row ---- */

/* Loads the scenario with these changes; the first problem goes to `diag`. */
static enum kc_err load(struct kc_point *point, const struct kc_precision_question *question,
                        const struct kc_plan_sets *changes, struct kc_diag *diag)
{
  const char *sets[KC_SWEEP_BASE_SETS_MAX + KC_PLAN_SETS_MAX];
  size_t count = question->set_count;
  KC_ASSERT(count <= KC_SWEEP_BASE_SETS_MAX);
  for (size_t i = 0; i < count; i++) sets[i] = question->sets[i];
  for (size_t i = 0; i < changes->count; i++) sets[count++] = changes->text[i];
  struct kc_diag_list *problems = malloc(sizeof *problems);
  if (problems == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  const enum kc_err err = kc_point_load(point, question->path, sets, count, problems);
  if (err != KC_OK) *diag = problems->items[0];
  free(problems);
  return err;
}

static bool is_sister(const struct kc_gpu_profile *other, const struct kc_gpu_profile *own,
                      const char *kv)
{
  KC_ASSERT(kv != NULL);
  return other->calibrated && strcmp(other->fitted_kv, kv) == 0 &&
         strcmp(other->fitted_model, own->fitted_model) == 0 &&
         strcmp(other->fitted_weights, own->fitted_weights) == 0 &&
         other->fitted_tensor == own->fitted_tensor && other->context_min == own->context_min &&
         other->context_max == own->context_max;
}

/* The one profile of the same measurement in the row's KV format, or NULL. */
static const struct kc_gpu_profile *find_sister(const struct kc_pool_spec *pool)
{
  const struct kc_gpu_profile *own = &pool->profile, *found = NULL;
  const char *kv = kc_kv_format_name(pool->precision.k_format);
  KC_ASSERT(pool->gpu.profile_count <= KC_GPU_PROFILES_MAX);
  if (!own->calibrated || pool->precision.k_format != pool->precision.v_format ||
      strcmp(own->fitted_kv, kv) == 0) {
    return NULL;
  }
  for (uint32_t i = 0; i < pool->gpu.profile_count; i++) {
    if (!is_sister(&pool->gpu.profile[i], own, kv)) continue;
    if (found != NULL) return NULL;
    found = &pool->gpu.profile[i];
  }
  return found;
}

/* Requests of each context that a pool of the row holds. */
static void fill_contexts(const struct kc_precision_table *table, const struct kc_point *point,
                          struct kc_precision_row *row)
{
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  struct kc_memory_config memory = pool->memory;
  struct kc_fit fit;
  struct kc_diag ignored;
  KC_ASSERT(table->context_count <= KC_PRECISION_CONTEXTS_MAX);
  memory.concurrency = 1;
  for (uint32_t c = 0; c < table->context_count; c++) {
    memory.context = table->context[c];
    if (kc_fit_compute(&fit, &point->scenario.model, &pool->precision, &pool->gpu, &memory,
                       &ignored) == KC_OK) {
      row->holds[c] = fit.concurrency_max;
    }
  }
}

static bool same_room(const struct kc_fit *a, const struct kc_fit *b)
{
  KC_ASSERT(a != NULL && b != NULL);
  return a->checkpoint_bytes == b->checkpoint_bytes && a->weights_bytes == b->weights_bytes &&
         memcmp(a->class_bytes, b->class_bytes, sizeof a->class_bytes) == 0;
}

/* Are the weights those of the checkpoint? */
static bool is_shipped(const struct kc_point *point)
{
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  struct kc_precision precision = pool->precision;
  struct kc_fit fit;
  struct kc_diag ignored;
  KC_ASSERT(pool->memory.tensor > 0);
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) precision.weight[c] = KC_WEIGHT_DEFAULT;
  return kc_fit_compute(&fit, &point->scenario.model, &precision, &pool->gpu, &pool->memory,
                        &ignored) == KC_OK && same_room(&fit, &point->fit);
}

/* Was the profile fitted with other weights? One that does not say was with the scenario's own. */
static bool other_weights(const struct kc_precision_table *table, const struct kc_point *point)
{
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  char weights[KC_WEIGHTS_TEXT_BYTES];
  KC_ASSERT(pool->gpu.profile_count > 0);
  if (!pool->profile.calibrated) return false;
  if (pool->profile.fitted_weights[0] == '\0') return !same_room(&point->fit, &table->own);
  kc_precision_weights_text(&point->scenario.model, &pool->precision, weights);
  return strcmp(weights, pool->profile.fitted_weights) != 0;
}

static void fill_row(const struct kc_precision_table *table, const struct kc_point *point,
                     struct kc_precision_row *row, struct kc_plan_sets *changes)
{
  const struct kc_pool_spec *pool = &point->scenario.pool[0];
  const struct kc_gpu_profile *sister = find_sister(pool);
  KC_ASSERT(row->why.code == KC_OK);
  row->fit = point->fit;
  row->frontier = (uint64_t)point->figures.value[KC_FIGURE_REQUESTS_FIT];
  row->other_profile = sister != NULL;
  row->as_shipped = is_shipped(point);
  row->foreign = other_weights(table, point);
  snprintf(row->profile, sizeof row->profile, "%s",
           sister != NULL ? sister->name : pool->profile.name);
  if (sister != NULL) kc_sets_add(changes, "pools.%s.profile=%s", pool->name, sister->name);
  fill_contexts(table, point, row);
}

/* Of the usual lists: the same weights under another name, or K and V apart where there is one
 * latent. */
static bool is_idle(const struct kc_precision_table *table, const struct kc_precision_row *row,
                    const struct kc_precision_question *question)
{
  KC_ASSERT(table->row_count < KC_PRECISION_ROWS_MAX);
  if (question->kv == NULL && strchr(row->kv, '+') != NULL && table->scenario->model.is_mla) {
    return true;
  }
  if (question->weights != NULL || row->why.code != KC_OK) return false;
  for (uint32_t r = 0; r < table->row_count; r++) {
    const struct kc_precision_row *other = &table->row[r];
    if (other->why.code == KC_OK && strcmp(other->kv, row->kv) == 0 &&
        same_room(&other->fit, &row->fit)) {
      return true;
    }
  }
  return false;
}

/* "weights fp8, KV bf16: key=value; key=value" */
static enum kc_err add_case(struct kc_precision_table *table, const struct kc_precision_row *row,
                            const struct kc_plan_sets *changes, struct kc_diag *diag)
{
  char *text = NULL;
  size_t bytes = 0;
  KC_ASSERT(changes->count > 0 && changes->count <= KC_VARY_CASE_SETS_MAX);
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the table");
  fprintf(out, "weights %s, KV %s: ", row->weights, row->kv);
  for (size_t i = 0; i < changes->count; i++) {
    fprintf(out, "%s%s", i == 0 ? "" : "; ", changes->text[i]);
  }
  const bool failed = ferror(out) != 0;
  const enum kc_err err = fclose(out) != 0 || failed
                              ? kc_fail(diag, KC_ERR_MEMORY, "no memory for the table")
                              : kc_vary_case(&table->vary, text, diag);
  free(text);
  return err;
}

/* One precision: its row and its case, unless it would say nothing new. An empty text is the
 * scenario's own format. */
static enum kc_err add_row(struct kc_precision_table *table,
                           const struct kc_precision_question *question, struct kc_point *scratch,
                           const char *weights, const char *kv, struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = &table->scenario->pool[0];
  struct kc_precision_row *row = &table->row[table->row_count];
  struct kc_plan_sets changes;
  if (table->row_count + 1 == KC_PRECISION_ROWS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %d precisions", KC_PRECISION_ROWS_MAX - 1);
  }
  changes.count = 0;
  memset(row, 0, sizeof *row);
  snprintf(row->weights, sizeof row->weights, "%s", weights[0] != '\0' ? weights : "scenario");
  snprintf(row->kv, sizeof row->kv, "%s", kv[0] != '\0' ? kv : "scenario");
  if (weights[0] != '\0') kc_space_add_weights(pool->name, weights, &changes);
  if (kv[0] != '\0') {
    kc_space_add_kv(pool->name, kv, pool->precision.k_format != pool->precision.v_format,
                    &changes);
  }
  if (changes.count == 0) { /* a case says something */
    kc_sets_add(&changes, "seed=%llu", (unsigned long long)table->scenario->seed);
  }
  if (load(scratch, question, &changes, &row->why) == KC_OK) {
    row->why.code = KC_OK;
    fill_row(table, scratch, row, &changes);
  }
  KC_ASSERT(changes.count > 0);
  if (is_idle(table, row, question)) return KC_OK;
  table->row_count++;
  return add_case(table, row, &changes, diag);
}

/* ---- lists ---- */

static enum kc_err add_rows(struct kc_precision_table *table,
                            const struct kc_precision_question *question,
                            struct kc_point *scratch, struct kc_diag *diag)
{
  struct kc_plan_space *space = calloc(1, sizeof *space);
  const struct kc_plan_axis *weights, *kv;
  KC_ASSERT(table->row_count == 0);
  if (space == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the table");
  weights = &space->axis[KC_AXIS_WEIGHTS];
  kv = &space->axis[KC_AXIS_KV];
  enum kc_err err = kc_space_axis_parse(
      space, KC_AXIS_WEIGHTS, question->weights != NULL ? question->weights : usual_weights, diag);
  if (err == KC_OK) {
    err = kc_space_axis_parse(space, KC_AXIS_KV, question->kv != NULL ? question->kv : usual_kv,
                              diag);
  }
  for (uint32_t w = 0; err == KC_OK && w < weights->count; w++) {
    for (uint32_t k = 0; err == KC_OK && k < kv->count; k++) {
      err = add_row(table, question, scratch, weights->value[w], kv->value[k], diag);
    }
  }
  free(space);
  KC_ASSERT(err != KC_OK || table->row_count > 0);
  return err;
}

static enum kc_err read_contexts(struct kc_precision_table *table, const char *text,
                                 struct kc_diag *diag)
{
  const uint64_t most = table->scenario->model.context_max;
  if (text == NULL) {
    for (size_t i = 0; i < sizeof usual_contexts / sizeof usual_contexts[0]; i++) {
      if (usual_contexts[i] <= most) table->context[table->context_count++] = usual_contexts[i];
    }
    return KC_OK;
  }
  for (const char *at = text;; at++) {
    uint64_t context;
    const size_t bytes = strcspn(at, ",");
    if (!kc_parse_u64(at, bytes, &context) || context == 0 || context > most ||
        table->context_count == KC_PRECISION_CONTEXTS_MAX) {
      return kc_fail(diag, KC_ERR_USAGE, "--contexts: expected at most %d numbers from 1 to %llu "
                     "(the model's context) separated by commas, got \"%s\"",
                     (int)KC_PRECISION_CONTEXTS_MAX, (unsigned long long)most, text);
    }
    KC_ASSERT(table->context_count < KC_PRECISION_CONTEXTS_MAX);
    table->context[table->context_count++] = context;
    at += bytes;
    if (*at == '\0') return KC_OK;
  }
}

/* What has to hold: as asked, else as the scenario aims at. */
static enum kc_err read_slo(struct kc_precision_table *table,
                            const struct kc_precision_question *question, struct kc_diag *diag)
{
  KC_ASSERT(table->slo_count == 0);
  KC_TRY(kc_requirements_parse(table->slo, &table->slo_count, question->slo, question->slo_count,
                               "slo", diag));
  KC_TRY(kc_requirements_agree(table->slo, table->slo_count, "slo", diag));
  if (table->slo_count == 0) table->slo_count = kc_judge_slo(table->scenario, table->slo);
  return KC_OK;
}

/* The axis of concurrencies. */
static enum kc_err add_loads(struct kc_precision_table *table, const char *concurrency,
                             struct kc_diag *diag)
{
  char *text = NULL;
  if (!table->closed) {
    if (concurrency == NULL) return KC_OK;
    return kc_fail(diag, KC_ERR_USAGE, "--concurrency does not apply to a trace, which says itself "
                   "how many requests there are; vary workload.rate with `kvcap sweep`");
  }
  if (asprintf(&text, "workload.closed.concurrency=%s",
               concurrency != NULL ? concurrency : usual_concurrency) < 0) {
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the loads");
  }
  KC_ASSERT(text != NULL);
  const enum kc_err err = kc_vary_key(&table->vary, text, diag);
  free(text);
  return err;
}

/* ---- opening ---- */

static enum kc_err fill(struct kc_precision_table *table,
                        const struct kc_precision_question *question, struct kc_point *scratch,
                        struct kc_diag *diag)
{
  const struct kc_plan_sets nothing = {.count = 0};
  KC_TRY(load(scratch, question, &nothing, diag));
  *table->scenario = scratch->scenario;
  table->own = scratch->fit;
  const struct kc_workload_spec *work = &table->scenario->workload;
  table->closed = work->is_closed;
  table->length = (uint64_t)work->closed.input_tokens + work->closed.output_tokens;
  KC_TRY(read_contexts(table, question->contexts, diag));
  KC_TRY(read_slo(table, question, diag));
  KC_TRY(add_rows(table, question, scratch, diag));
  KC_TRY(add_loads(table, question->concurrency, diag));
  KC_TRY(kc_vary_finish(&table->vary, false, diag));
  KC_TRY(kc_quality_load(table->quality, table->scenario->model.name, diag));
  table->result = calloc(table->vary.points, sizeof *table->result);
  KC_ASSERT(table->vary.points >= table->row_count);
  return table->result != NULL ? KC_OK
                               : kc_fail(diag, KC_ERR_MEMORY, "no memory for the results");
}

enum kc_err kc_precision_table_open(struct kc_precision_table *table,
                              const struct kc_precision_question *question, struct kc_diag *diag)
{
  KC_ASSERT(question->path != NULL);
  *table = (struct kc_precision_table){.path = question->path, .sets = question->sets,
                                       .set_count = question->set_count};
  kc_vary_init(&table->vary);
  table->scenario = malloc(sizeof *table->scenario);
  table->row = calloc(KC_PRECISION_ROWS_MAX, sizeof *table->row);
  table->quality = calloc(1, sizeof *table->quality);
  struct kc_point *scratch = malloc(sizeof *scratch);
  enum kc_err err = KC_OK;
  if (table->scenario == NULL || table->row == NULL || table->quality == NULL ||
      scratch == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for the table");
  }
  if (err == KC_OK) err = fill(table, question, scratch, diag);
  free(scratch);
  if (err != KC_OK) kc_precision_table_close(table);
  return err;
}

void kc_precision_table_close(struct kc_precision_table *table)
{
  KC_ASSERT(table != NULL);
  kc_vary_free(&table->vary);
  free(table->scenario);
  free(table->row);
  free(table->result);
  free(table->quality);
  *table = (struct kc_precision_table){.closed = false};
}

/* ---- judging ---- */

enum kc_err kc_precision_table_take(void *context, uint64_t number,
                              const struct kc_point_result *result, struct kc_diag *diag)
{
  struct kc_precision_table *table = context;
  (void)diag;
  KC_ASSERT(number < table->vary.points);
  table->result[number] = *result;
  return KC_OK;
}

static uint32_t concurrency_of(const struct kc_precision_table *table, uint64_t number)
{
  uint64_t value = 0;
  KC_ASSERT(table->closed && table->vary.axis_count == 2);
  const char *label = kc_vary_label(&table->vary, number, 1);
  const bool parsed = kc_parse_u64(label, strlen(label), &value);
  return parsed && value <= UINT32_MAX ? (uint32_t)value : 0; /* refused by the scenario then */
}

/* The first requirement that a point misses, or NULL. */
static const struct kc_requirement *missed(const struct kc_precision_table *table,
                                           const struct kc_figure_set *figures)
{
  KC_ASSERT(table->slo_count <= KC_REQUIREMENTS_MAX);
  for (uint32_t i = 0; i < table->slo_count; i++) {
    if (!kc_requirement_check(&table->slo[i], figures).met) return &table->slo[i];
  }
  return NULL;
}

/* Books one point of a row. Of a closed workload, points that ask for more KV than there is do not
 * count, however fast. */
static void judge_point(const struct kc_precision_table *table, struct kc_precision_row *row,
                        uint64_t number)
{
  const struct kc_figure_set *figures = &table->result[number].figures;
  const struct kc_requirement *miss = missed(table, figures);
  KC_ASSERT(row->best < (int64_t)number);
  if (table->result[number].status != KC_POINT_DONE) return;
  if (!table->closed) {
    row->best = (int64_t)number;
    row->missed = miss;
    return;
  }
  const uint32_t concurrency = concurrency_of(table, number);
  if (concurrency > row->largest_tried) row->largest_tried = concurrency;
  if (figures->value[KC_FIGURE_OOM] > 0) return;
  if (concurrency > row->largest) row->largest = concurrency;
  if (miss != NULL) {
    if (row->best < 0) row->missed = miss;
    return;
  }
  row->missed = NULL;
  if (row->best >= 0 && figures->value[KC_FIGURE_OUTPUT_TOK_S] <=
                            table->result[row->best].figures.value[KC_FIGURE_OUTPUT_TOK_S]) {
    return;
  }
  row->best = (int64_t)number;
  row->best_concurrency = concurrency;
}

void kc_precision_table_judge(struct kc_precision_table *table)
{
  const uint64_t loads = table->vary.points / table->row_count;
  KC_ASSERT(loads * table->row_count == table->vary.points);
  for (uint32_t r = 0; r < table->row_count; r++) {
    struct kc_precision_row *row = &table->row[r];
    row->best = -1;
    row->missed = NULL;
    for (uint64_t i = 0; i < loads; i++) judge_point(table, row, r * loads + i);
  }
}

const struct kc_point_result *kc_precision_table_best(const struct kc_precision_table *table,
                                                      uint32_t row)
{
  KC_ASSERT(row < table->row_count);
  const int64_t best = table->row[row].best;
  return best < 0 ? NULL : &table->result[best];
}

enum kc_cost_level kc_precision_table_trust(const struct kc_precision_table *table, uint32_t row)
{
  const struct kc_point_result *best = kc_precision_table_best(table, row);
  KC_ASSERT(best != NULL);
  if (best->trust.level == KC_LEVEL_CALIBRATED && table->row[row].foreign) {
    return KC_LEVEL_EXTRAPOLATED;
  }
  return best->trust.level;
}

bool kc_precision_table_change(const struct kc_precision_table *table, uint32_t row,
                               enum kc_figure figure, double *percent)
{
  const struct kc_point_result *base = kc_precision_table_best(table, 0);
  const struct kc_point_result *best = kc_precision_table_best(table, row);
  KC_ASSERT(percent != NULL);
  if (base == NULL || best == NULL || !base->figures.known[figure] ||
      !best->figures.known[figure] || base->figures.value[figure] <= 0) {
    return false;
  }
  *percent = 100.0 * (best->figures.value[figure] / base->figures.value[figure] - 1.0);
  return true;
}
