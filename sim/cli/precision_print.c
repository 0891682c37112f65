/* The precision table for people and as CSV (see precision_output.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/precision_output.h"

/* Figures of the fastest point that fits, as columns. */
struct column {
  enum kc_figure figure;
  const char *heading;
};
static const struct column columns[] = {
    {KC_FIGURE_OUTPUT_TOK_S, "tok/s"},        {KC_FIGURE_TTFT_P95_MS, "TTFT p95"},
    {KC_FIGURE_TPOT_P95_MS, "TPOT p95"},      {KC_FIGURE_GOODPUT_REQ_S, "goodput"},
    {KC_FIGURE_USD_PER_MTOK_INPUT, "$ input"}, {KC_FIGURE_USD_PER_MTOK_CACHED, "$ cached"},
    {KC_FIGURE_USD_PER_MTOK_OUTPUT, "$ output"}, {KC_FIGURE_JOULES_PER_TOKEN, "J/token"},
    {KC_FIGURE_USD_PER_MTOK, "$ all"}};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static int width_of(const struct kc_precision_table *table, bool kv)
{
  size_t width = kv ? 2 : 7;
  for (uint32_t r = 0; r < table->row_count; r++) {
    const size_t length = strlen(kv ? table->row[r].kv : table->row[r].weights);
    if (length > width) width = length;
  }
  KC_ASSERT(width < sizeof table->row[0].weights);
  return (int)width;
}

static void put_formats(const struct kc_precision_table *table, const char *weights,
                        const char *kv)
{
  KC_ASSERT(weights != NULL && kv != NULL);
  printf("%-*s  %-*s", width_of(table, false), weights, width_of(table, true), kv);
}

/* ---- memory ---- */

static void print_title(const struct kc_precision_table *table)
{
  const struct kc_scenario *scenario = table->scenario;
  char name[128];
  snprintf(name, sizeof name, "%s", scenario->name);
  kc_text_clean(name);
  printf("%s\n%s on %u x %s, %u precision%s, %llu point%s\n", name, scenario->model.name,
         kc_run_gpus(scenario), scenario->pool[0].gpu.title, table->row_count,
         kc_plural(table->row_count), (unsigned long long)table->vary.points,
         kc_plural(table->vary.points));
}

static void print_memory(const struct kc_precision_table *table)
{
  printf("\nmemory, and how many requests the pool holds at once by their tokens\n");
  put_formats(table, "weights", "KV");
  printf("  %11s  %11s", "weights GiB", "KV tokens");
  if (table->closed) printf("  %9llu", (unsigned long long)table->length);
  for (uint32_t c = 0; c < table->context_count; c++) {
    printf("  %7llu", (unsigned long long)table->context[c]);
  }
  printf("\n");
  for (uint32_t r = 0; r < table->row_count; r++) {
    const struct kc_precision_row *row = &table->row[r];
    put_formats(table, row->weights, row->kv);
    if (row->why.code != KC_OK) {
      printf("  refused: %s\n", row->why.text);
      continue;
    }
    printf("  %11.2f  %11llu", (double)row->fit.weights_bytes / 1073741824.0,
           (unsigned long long)row->fit.kv_tokens);
    if (table->closed) printf("  %9llu", (unsigned long long)row->frontier);
    for (uint32_t c = 0; c < table->context_count; c++) {
      printf("  %7llu", (unsigned long long)row->holds[c]);
    }
    printf("%s\n", row->fit.fits ? "" : "  does not fit");
  }
}

/* ---- speed and price ---- */

/* Columns that no row knows are left out. */
static bool is_known(const struct kc_precision_table *table, enum kc_figure figure)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  for (uint32_t r = 0; r < table->row_count; r++) {
    const struct kc_point_result *best = kc_precision_table_best(table, r);
    if (best != NULL && best->figures.known[figure]) return true;
  }
  return false;
}

static void put_change(const struct kc_precision_table *table, uint32_t row,
                       enum kc_figure figure)
{
  double percent;
  if (row > 0 && kc_precision_table_change(table, row, figure, &percent)) {
    printf("  %+7.1f %%", percent);
  } else {
    printf("  %9s", "");
  }
}

static void put_figure(const struct kc_figure_set *figures, enum kc_figure figure)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  if (figures->known[figure]) {
    printf("  %9.*f", kc_figure_decimals(figure), figures->value[figure]);
  } else {
    printf("  %9s", "-");
  }
}

/* "64", or "256+" when the list ended before memory did. */
static void put_largest(const struct kc_precision_row *row)
{
  char text[24];
  KC_ASSERT(row->largest <= row->largest_tried);
  snprintf(text, sizeof text, "%u%s", row->largest,
           row->largest > 0 && row->largest == row->largest_tried ? "+" : "");
  printf("  %8s  %7u", row->largest > 0 ? text : "none", row->best_concurrency);
}

/* Why a row has no point to be judged by. */
static const char *no_point(const struct kc_precision_table *table, uint32_t row)
{
  const uint64_t loads = table->vary.points / table->row_count;
  const struct kc_point_result *first = &table->result[row * loads];
  if (table->row[row].why.code != KC_OK) return "refused";
  if (first->status == KC_POINT_NO_FIT) return "does not fit";
  if (table->row[row].missed != NULL) return "no listed load that fits keeps the SLO";
  return first->status == KC_POINT_DONE ? "no listed load fits" : first->why.text;
}

static void print_speed_row(const struct kc_precision_table *table, uint32_t row)
{
  const struct kc_point_result *best = kc_precision_table_best(table, row);
  put_formats(table, table->row[row].weights, table->row[row].kv);
  if (best == NULL) {
    printf("  %s\n", no_point(table, row));
    return;
  }
  if (table->closed) put_largest(&table->row[row]);
  for (size_t c = 0; c < COLUMNS; c++) {
    if (is_known(table, columns[c].figure)) put_figure(&best->figures, columns[c].figure);
    if (c == 0) put_change(table, row, KC_FIGURE_OUTPUT_TOK_S);
  }
  if (is_known(table, KC_FIGURE_USD_PER_MTOK)) put_change(table, row, KC_FIGURE_USD_PER_MTOK);
  if (!table->closed) put_figure(&best->figures, KC_FIGURE_OOM_S);
  printf("  %s%s", kc_cost_level_name(kc_precision_table_trust(table, row)),
         table->row[row].other_profile ? " *" : "");
  const struct kc_requirement *missed = table->row[row].missed;
  if (missed != NULL && best->figures.known[missed->figure]) printf("; misses %s", missed->text);
  if (missed != NULL && !best->figures.known[missed->figure]) {
    printf("; %s does not exist", kc_figure_name(missed->figure));
  }
  printf("\n");
}

static void print_speed(const struct kc_precision_table *table)
{
  printf(table->closed ? "\nthe largest load listed that fits, and the fastest one that does"
                       : "\nthe trace, and when KV first ran short");
  for (uint32_t i = 0; i < table->slo_count; i++) {
    printf("%s%s", i > 0 ? ", " : table->closed ? " and keeps " : "; SLO ", table->slo[i].text);
  }
  printf(": ms, dollars per million tokens\n");
  put_formats(table, "weights", "KV");
  if (table->closed) printf("  %8s  %7s", "fits", "fastest");
  for (size_t c = 0; c < COLUMNS; c++) {
    if (is_known(table, columns[c].figure)) printf("  %9s", columns[c].heading);
    if (c == 0) printf("  %9s", "change");
  }
  if (is_known(table, KC_FIGURE_USD_PER_MTOK)) printf("  %9s", "change");
  if (!table->closed) printf("  %9s", "OOM at s");
  printf("  trust\n");
  for (uint32_t r = 0; r < table->row_count; r++) print_speed_row(table, r);
  for (uint32_t r = 0; r < table->row_count; r++) {
    if (!table->row[r].other_profile) continue;
    printf("* with profile %s, fitted to the same measurement in this KV format\n",
           table->row[r].profile);
    break;
  }
}

/* ---- quality ---- */

/* Those of `list` that are about the table's rows, under a title if there are any. Returns how
 * many. */
static uint32_t print_figures(const struct kc_precision_table *table,
                              const struct kc_quality *list, uint32_t count, const char *title)
{
  uint32_t shown = 0;
  const char *source = "";
  KC_ASSERT(count <= KC_QUALITY_MAX);
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_quality *entry = &list[i];
    for (uint32_t r = 0; r < table->row_count; r++) {
      const struct kc_precision_row *row = &table->row[r];
      if (!kc_quality_is_of(entry, row->weights, row->as_shipped, row->kv)) continue;
      if (shown == 0) printf("%s", title);
      if (strcmp(entry->source, source) != 0) printf("from %s:\n", entry->source);
      source = entry->source;
      put_formats(table, row->weights, row->kv);
      printf("  %-16s %10.4g %s against %.4g of %s (%s is better)\n", entry->metric, entry->value,
             entry->unit, entry->base, entry->against, entry->better);
      shown++;
    }
  }
  return shown;
}

static void print_quality(const struct kc_precision_table *table)
{
  const struct kc_quality_list *quality = table->quality;
  KC_ASSERT(quality != NULL);
  printf("\nquality, as measured by others\n");
  if (print_figures(table, quality->entry, quality->count, "") == 0) {
    printf("unknown: no file of scenarios/quality says anything of %s in these formats\n",
           table->scenario->model.name);
  }
  (void)print_figures(table, quality->stand_in, quality->stand_ins,
                      "\nquality of small models, run by the engine\n");
}

/* ---- the conclusion ---- */

static enum kc_err print_verdict(const struct kc_precision_table *table)
{
  char *text = kc_precision_verdict(table);
  if (text == NULL) return KC_ERR_MEMORY;
  if (text[0] != '\0') printf("\n%s", text);
  free(text);
  return KC_OK;
}

int kc_precision_print(const struct kc_precision_table *table)
{
  KC_ASSERT(table->row_count > 0);
  print_title(table);
  print_memory(table);
  print_speed(table);
  print_quality(table);
  if (print_verdict(table) == KC_OK) return 0;
  struct kc_diag diag;
  kc_fail(&diag, KC_ERR_MEMORY, "no memory for the conclusion");
  return kc_cli_fail(&diag);
}

/* ---- CSV ---- */

static const char *csv_status(const struct kc_precision_table *table, uint32_t row)
{
  KC_ASSERT(row < table->row_count);
  if (table->row[row].why.code != KC_OK) return "refused";
  if (!table->row[row].fit.fits) return "no_fit";
  return kc_precision_table_best(table, row) == NULL ? "no_load" : "done";
}

int kc_precision_print_csv(const struct kc_precision_table *table)
{
  printf("weights,kv,status,trust,profile,frontier,largest_fit,largest_tried,best_concurrency");
  for (uint32_t c = 0; c < table->context_count; c++) {
    printf(",holds_%llu", (unsigned long long)table->context[c]);
  }
  for (int f = 0; f < KC_FIGURES; f++) printf(",%s", kc_figure_name((enum kc_figure)f));
  printf("\n");
  for (uint32_t r = 0; r < table->row_count; r++) {
    const struct kc_precision_row *row = &table->row[r];
    const struct kc_point_result *best = kc_precision_table_best(table, r);
    printf("%s,%s,%s,%s,%s,%llu,%u,%u,%u", row->weights, row->kv, csv_status(table, r),
           best != NULL ? kc_cost_level_name(kc_precision_table_trust(table, r)) : "", row->profile,
           (unsigned long long)row->frontier, row->largest, row->largest_tried,
           row->best_concurrency);
    for (uint32_t c = 0; c < table->context_count; c++) {
      printf(",%llu", (unsigned long long)row->holds[c]);
    }
    for (int f = 0; f < KC_FIGURES; f++) {
      putchar(',');
      if (best != NULL && best->figures.known[f]) printf("%.15g", best->figures.value[f]);
    }
    printf("\n");
  }
  KC_ASSERT(table->row_count > 0);
  return 0;
}
