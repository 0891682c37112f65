/* What a serving fit is made of: rows, their points, and the profile that comes out (see
 * serving.h). The arithmetic is in serving_fit.c. */
#include "sim/calibrate/serving.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/calibrate/fitted_to.h"
#include "sim/calibrate/timing_rows.h"
#include "traces/readers/text_list.h"

enum { SETS_MAX = 24 };

static const char *const term_names[] = {"host", "weights", "kv", "flops", "expand"};

const char *kc_serving_term_name(enum kc_serving_term term)
{
  KC_ASSERT((unsigned)term < KC_SERVING_TERMS);
  return term_names[term];
}

bool kc_serving_term_parse(const char *name, size_t length, enum kc_serving_term *out)
{
  KC_ASSERT(name != NULL && out != NULL);
  for (int term = 0; term < KC_SERVING_TERMS; term++) {
    const char *known = term_names[term];
    if (strlen(known) != length || strncmp(known, name, length) != 0) continue;
    *out = (enum kc_serving_term)term;
    return true;
  }
  return false;
}

/* Starting values: those of the profile "plain" where they matter, and no latency per operation,
 * because launches are what the host term is to carry. */
static void init(struct kc_serving_fit *fit, const char *path)
{
  memset(fit, 0, sizeof *fit);
  snprintf(fit->path, sizeof fit->path, "%s", path);
  fit->start.value[KC_TERM_WEIGHTS] = 0.8;
  fit->start.value[KC_TERM_KV] = 0.8;
  fit->start.value[KC_TERM_FLOPS] = 0.6;
  fit->is_free[KC_TERM_HOST] = fit->is_free[KC_TERM_WEIGHTS] = fit->is_free[KC_TERM_KV] = true;
}

void kc_serving_free(struct kc_serving_fit *fit)
{
  KC_ASSERT(fit->row_count <= KC_SERVING_ROWS_MAX);
  for (uint32_t i = 0; i < fit->row_count; i++) free(fit->row[i].point);
  fit->row_count = 0;
}

/* Loads the row's point; the profile that the scenario names may not exist yet. `more` (may be
 * NULL) is one more change. */
static enum kc_err load_point(const struct kc_serving_fit *fit, struct kc_serving_row *row,
                              const char *more, struct kc_diag *diag)
{
  char text[sizeof row->expect.set];
  const char *sets[SETS_MAX];
  KC_ASSERT(row->point != NULL);
  snprintf(text, sizeof text, "%s", row->expect.set);
  size_t count = kc_expect_sets(text, sets, SETS_MAX - 2);
  if (count == SIZE_MAX) return kc_fail(diag, KC_ERR_INPUT, "expect.set: too many changes");
  sets[count++] = "pools.0.profile=plain";
  if (more != NULL) sets[count++] = more;
  struct kc_diag_list *problems = malloc(sizeof *problems);
  if (problems == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  const enum kc_err err = kc_point_load(row->point, fit->path, sets, count, problems);
  if (err != KC_OK) *diag = problems->items[0];
  free(problems);
  return err;
}

static enum kc_err add_row(struct kc_serving_fit *fit, const struct kc_expect *expect,
                           struct kc_diag *diag)
{
  if (fit->row_count == KC_SERVING_ROWS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "more than %d rows to fit", (int)KC_SERVING_ROWS_MAX);
  }
  struct kc_serving_row *row = &fit->row[fit->row_count];
  row->expect = *expect;
  row->point = malloc(sizeof *row->point);
  if (row->point == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  fit->row_count++;
  KC_TRY(load_point(fit, row, NULL, diag));
  const struct kc_workload_spec *work = &row->point->scenario.workload;
  KC_ASSERT(work->is_closed);
  snprintf(row->label, sizeof row->label, "concurrency %u", work->closed.concurrency);
  return KC_OK;
}

/* The scenario as it stands; the caller frees it. Rates are measured in closed loops. */
static enum kc_err load_plain(const char *path, struct kc_point **out, struct kc_diag *diag)
{
  static const char *const sets[] = {"pools.0.profile=plain"};
  struct kc_diag_list *problems = malloc(sizeof *problems);
  struct kc_point *plain = malloc(sizeof *plain);
  enum kc_err err = KC_OK;
  KC_ASSERT(path != NULL);
  if (problems == NULL || plain == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  } else if ((err = kc_point_load(plain, path, sets, 1, problems)) != KC_OK) {
    *diag = problems->items[0];
  } else if (!plain->scenario.workload.is_closed) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "a table of rates is fitted with a closed "
                     "workload; this scenario replays a trace");
  }
  free(problems);
  if (err != KC_OK) {
    free(plain);
    plain = NULL;
  }
  *out = plain;
  return err;
}

enum kc_err kc_serving_load(struct kc_serving_fit *fit, const char *path, const char *only,
                            struct kc_diag *diag)
{
  struct kc_point *plain;
  init(fit, path);
  enum kc_err err = load_plain(path, &plain, diag);
  if (err != KC_OK) return err;
  for (uint32_t i = 0; err == KC_OK && i < plain->scenario.expect_count; i++) {
    const struct kc_expect *e = &plain->scenario.expect[i];
    const bool rate = e->metric == KC_FIGURE_OUTPUT_TOK_S || e->metric == KC_FIGURE_INPUT_TOK_S;
    if (!rate || e->kind != KC_EXPECT_CALIBRATED || e->has_against) continue;
    if (only != NULL && strcmp(only, e->what) != 0) continue;
    err = add_row(fit, e, diag);
  }
  free(plain);
  if (err != KC_OK || fit->row_count > 0) return err;
  return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "its expect list has no rate of kind "
                    "calibrated%s to fit; give a table", only != NULL ? " of that name" : "");
}

/* ---- tables ---- */

/* Numbers first, then who measured. */
enum table_column { COLUMN_CONCURRENCY, COLUMN_TOK_S, COLUMN_INPUT, COLUMN_OUTPUT, COLUMN_KERNEL,
                    COLUMNS, NUMBERS = COLUMN_KERNEL };
static const char *const column_names[] = {"concurrency", "tok_s", "input", "output",
                                           "kernel_source"};

/* Where the columns stand; -1 = not there. Others are remembered, because a misspelt length would
 * be a fit to another workload. */
static enum kc_err find_columns(struct kc_serving_fit *fit, const struct kc_timing_table *table,
                                int column[COLUMNS], struct kc_diag *diag)
{
  struct kc_text_list ignored;
  kc_text_list_init(&ignored, fit->ignored, sizeof fit->ignored);
  for (int c = 0; c < COLUMNS; c++) column[c] = kc_timing_column(table, column_names[c]);
  for (uint32_t i = 0; i < table->columns; i++) {
    bool known = false;
    for (int c = 0; c < COLUMNS; c++) known |= column[c] == (int)i;
    if (!known) kc_text_list_add(&ignored, table->column[i], strlen(table->column[i]));
  }
  if (column[COLUMN_CONCURRENCY] >= 0 && column[COLUMN_TOK_S] >= 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, table->path, 1, 1, "the header must name the columns "
                    "concurrency and tok_s, separated by commas, and may name input and output; "
                    "this one has %s",
                    fit->ignored[0] != '\0' ? fit->ignored : "one of them alone");
}

/* A positive number of the row, whole unless it is a rate. */
static enum kc_err read_number(const struct kc_timing_table *table, size_t row, int at,
                               enum table_column column, double *value, struct kc_diag *diag)
{
  const bool whole = column != COLUMN_TOK_S;
  const struct kc_timing_cell *cell = kc_timing_cell(table, row, at);
  if (kc_parse_double(cell->text, cell->bytes, value) && *value > 0 && *value < 1e9 &&
      (!whole || *value == floor(*value))) {
    return KC_OK;
  }
  return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), (uint32_t)at + 1,
                    "%s is \"%.*s\"; expected a %snumber above 0 and below 1e9",
                    column_names[column], (int)(cell->bytes < 40 ? cell->bytes : 40), cell->text,
                    whole ? "whole " : "");
}

static enum kc_err read_row(struct kc_serving_fit *fit, const struct kc_timing_table *table,
                            size_t row, const int column[COLUMNS], struct kc_diag *diag)
{
  double value[NUMBERS] = {0};
  const int kernel = column[COLUMN_KERNEL];
  if (kernel >= 0 && kc_timing_is(kc_timing_cell(table, row, kernel), KC_KERNEL_EMULATED)) {
    return kc_fail_at(diag, KC_ERR_INPUT, table->path, kc_timing_line(row), (uint32_t)kernel + 1,
                      "the row comes from an emulated device, which has no times; measure on a "
                      "GPU");
  }
  for (int c = 0; c < NUMBERS; c++) {
    if (column[c] < 0) continue;
    KC_TRY(read_number(table, row, column[c], (enum table_column)c, &value[c], diag));
  }
  struct kc_expect expect = {.metric = KC_FIGURE_OUTPUT_TOK_S, .kind = KC_EXPECT_CALIBRATED,
                             .value = value[COLUMN_TOK_S]};
  KC_ASSERT(expect.value > 0);
  size_t used = (size_t)snprintf(expect.set, sizeof expect.set, "workload.closed.concurrency=%.0f",
                                 value[COLUMN_CONCURRENCY]);
  for (int c = COLUMN_INPUT; c < NUMBERS; c++) {
    if (column[c] < 0) continue;
    used += (size_t)snprintf(expect.set + used, sizeof expect.set - used,
                             "; workload.closed.%s=%.0f", column_names[c], value[c]);
  }
  snprintf(expect.what, sizeof expect.what, "%.0f concurrent", value[COLUMN_CONCURRENCY]);
  struct kc_diag why;
  const enum kc_err err = add_row(fit, &expect, &why);
  if (err == KC_OK) return KC_OK;
  return kc_fail_at(diag, err, table->path, kc_timing_line(row), 0, "%.200s", why.text);
}

enum kc_err kc_serving_load_table(struct kc_serving_fit *fit, const char *path, const char *table,
                                  struct kc_diag *diag)
{
  struct kc_timing_table rows;
  struct kc_point *plain;
  int column[COLUMNS];
  KC_ASSERT(path != NULL && table != NULL);
  init(fit, path);
  KC_TRY(load_plain(path, &plain, diag));
  free(plain);
  KC_TRY(kc_timing_table_load(&rows, table, diag));
  enum kc_err err = find_columns(fit, &rows, column, diag);
  for (size_t row = 0; row < rows.rows && err == KC_OK; row++) {
    err = read_row(fit, &rows, row, column, diag);
  }
  kc_timing_table_free(&rows);
  return err;
}

enum kc_err kc_serving_assume_input(struct kc_serving_fit *fit, uint32_t input_tokens,
                                    struct kc_diag *diag)
{
  char change[64];
  KC_ASSERT(input_tokens > 0 && diag != NULL);
  snprintf(change, sizeof change, "workload.closed.input=%u", input_tokens);
  for (uint32_t i = 0; i < fit->row_count; i++) {
    KC_TRY(load_point(fit, &fit->row[i], change, diag));
  }
  return KC_OK;
}

/* ---- the profile ---- */

/* The nearest double to the decimal that will be written. */
static double rounded(double value, unsigned decimals)
{
  char text[64];
  double back = value;
  snprintf(text, sizeof text, "%.*f", (int)decimals, value);
  const bool parsed = kc_parse_double(text, strlen(text), &back);
  KC_ASSERT(parsed);
  return back;
}

static void set_values(struct kc_left_out *out, const struct kc_serving_values *v)
{
  out->bandwidth_efficiency = rounded(v->value[KC_TERM_WEIGHTS], 4);
  out->kv_efficiency = rounded(v->value[KC_TERM_KV], 4);
  out->flops_efficiency = rounded(v->value[KC_TERM_FLOPS], 5);
  out->expand_efficiency = rounded(v->value[KC_TERM_EXPAND], 4);
  out->host_step_us = rounded(v->value[KC_TERM_HOST], 1);
}

void kc_serving_profile(const struct kc_serving_fit *fit, const char *name, const char *source,
                        struct kc_gpu_profile *out)
{
  struct kc_left_out best = {0};
  KC_ASSERT(fit->row_count > 0 && fit->row_count <= KC_SERVING_ROWS_MAX);
  set_values(&best, &fit->best);
  *out = (struct kc_gpu_profile){
      .bandwidth_efficiency = best.bandwidth_efficiency, .kv_efficiency = best.kv_efficiency,
      .flops_efficiency = best.flops_efficiency, .expand_efficiency = best.expand_efficiency,
      .host_step_us = best.host_step_us, .op_latency_us = fit->op_latency_us,
      .host_measured = fit->is_free[KC_TERM_HOST], .calibrated = true, .rows = fit->row_count,
      .residual_percent = rounded(fit->residual_max, 2)};
  kc_fitted_to(out, &fit->row[0].point->scenario, &fit->seen);
  snprintf(out->name, sizeof out->name, "%s", name);
  snprintf(out->source, sizeof out->source, "%s", source);
  for (uint32_t i = 0; fit->has_left_out && i < fit->row_count && i < KC_LEFT_OUT_MAX; i++) {
    struct kc_left_out *left = &out->left_out[out->left_out_count++];
    memcpy(left->row, fit->row[i].label, sizeof left->row);
    set_values(left, &fit->left_out[i]);
  }
}
