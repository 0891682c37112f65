/* The page as a whole: reads the views, writes head and foot, calls the sections. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/html/chart.h"
#include "sim/html/html_internal.h"

void kc_html_cell_figure(const struct kc_html *page, const char *tag, const char *class, size_t run,
                         const char *column, enum kc_rounding rounding)
{
  KC_ASSERT(run < page->run.rows);
  kc_html_figure(page->out, tag, class, kc_html_source_of(page, run), column,
                 kc_html_cell(page, run, column), rounding);
}

void kc_html_chip(const struct kc_html *page, size_t series)
{
  KC_ASSERT(series < 26 * 10);
  fprintf(page->out, "<span class=\"chip s%zu\">%c", series % KC_CHART_SERIES,
          (char)('A' + series % 26));
  if (series >= 26) fprintf(page->out, "%zu", series / 26);
  fputs("</span>", page->out);
}

void kc_html_run_title(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  if (page->run.rows == 1) return;
  fputs("<h3>", page->out);
  kc_html_chip(page, run);
  fputs(" ", page->out);
  kc_html_text(page->out, kc_html_cell(page, run, "name"));
  fputs("</h3>\n", page->out);
}

void kc_html_legend_item(const struct kc_html *page, size_t series, const char *name)
{
  KC_ASSERT(name != NULL);
  fputs("<li>", page->out);
  kc_html_chip(page, series);
  fprintf(page->out, "<svg class=\"stroke\" viewBox=\"0 0 36 8\" aria-hidden=\"true\"><path "
                     "class=\"line s%zu\" d=\"M1 4H35\"/></svg><span>", series % KC_CHART_SERIES);
  kc_html_text(page->out, name);
  fputs("</span></li>\n", page->out);
}

const char *kc_html_setting(const struct kc_html *page, size_t run, const char *section,
                            const char *key)
{
  KC_ASSERT(run < page->run.rows);
  const struct kc_node *map = kc_node_get(page->document[run].root, section);
  const struct kc_node *value = kc_node_get(map, key);
  return value != NULL && value->kind == KC_NODE_SCALAR ? value->text : NULL;
}

double kc_html_setting_number(const struct kc_html *page, size_t run, const char *section,
                              const char *key)
{
  const char *text = kc_html_setting(page, run, section, key);
  double value;
  return text != NULL && kc_parse_double(text, strlen(text), &value) ? value : 0;
}

double kc_html_most(const struct kc_cells *cells, const char *column)
{
  double most = 0;
  KC_ASSERT(column != NULL);
  for (size_t i = 0; i < cells->rows; i++) most = fmax(most, kc_cells_number(cells, i, column));
  return most;
}

/* ---- reading ---- */

struct source {
  struct kc_cells *cells;
  const char *view;
};

static enum kc_err read_all(struct kc_store *store, const struct source *source, size_t count,
                            struct kc_diag *diag)
{
  KC_ASSERT(count > 0);
  for (size_t i = 0; i < count; i++) {
    KC_TRY(kc_cells_read(source[i].cells, store, source[i].view, diag));
  }
  return KC_OK;
}

/* A view that always has rows, unless somebody changed the file. */
static enum kc_err fail_empty(const char *what, struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_STORE, "the database gives no rows of %s, though it was chosen; it "
                 "was changed, and `kvcap db verify` tells what of it", what);
}

static enum kc_err read_runs(struct kc_html *page, struct kc_store *store, struct kc_diag *diag)
{
  const struct source sources[] = {
      {&page->run, "report_summary"},       {&page->memory, "report_memory"},
      {&page->timeline, "report_timeline"}, {&page->latency, "report_latency"},
      {&page->notes, "report_notes"},       {&page->intervals, "report_intervals"},
      {&page->scenario, "report_scenario"}, {&page->groups, "report_groups"},
      {&page->replicas, "report_replicas"}};
  KC_ASSERT(page->spec->runs);
  KC_TRY(read_all(store, sources, sizeof sources / sizeof sources[0], diag));
  if (page->run.rows == 0 || page->scenario.rows != page->run.rows) {
    return fail_empty("a run", diag);
  }
  if (page->run.rows <= KC_HTML_RUNS_MAX) return KC_OK;
  return kc_fail(diag, KC_ERR_LIMIT, "a page shows at most %d runs side by side; name fewer with "
                 "--run", KC_HTML_RUNS_MAX);
}

static enum kc_err read_sweep(struct kc_html *page, struct kc_store *store, struct kc_diag *diag)
{
  const struct source sources[] = {
      {&page->question, "sweep_question"}, {&page->size, "sweep_size"},
      {&page->peak, "sweep_peak"},         {&page->map, "sweep_map"},
      {&page->frontier, "sweep_frontier"}, {&page->pareto, "sweep_pareto"},
      {&page->cost, "sweep_cost"},         {&page->bill, "sweep_memory"},
      {&page->gain, "sweep_gain"},         {&page->point, "sweep_point"},
      {&page->levels, "sweep_trust"},      {&page->unfit, "sweep_unfit"},
      {&page->starved, "sweep_starved"}};
  KC_ASSERT(page->spec->sweep);
  KC_TRY(read_all(store, sources, sizeof sources / sizeof sources[0], diag));
  return page->question.rows == 1 && page->size.rows == 1 ? KC_OK : fail_empty("the sweep", diag);
}

static enum kc_err read_plan(struct kc_html *page, struct kc_store *store, struct kc_diag *diag)
{
  const struct source sources[] = {
      {&page->plan, "plan_question"},   {&page->tried, "plan_tried"},
      {&page->limit, "plan_limit"},     {&page->value, "plan_value"},
      {&page->more, "plan_more"},       {&page->more_value, "plan_more_value"},
      {&page->option, "plan_option"},   {&page->levels, "sweep_trust"}};
  KC_ASSERT(page->spec->plan);
  KC_TRY(read_all(store, sources, sizeof sources / sizeof sources[0], diag));
  return page->plan.rows == 1 ? KC_OK : fail_empty("the plan", diag);
}

static enum kc_err read_scenarios(struct kc_html *page, struct kc_diag *diag)
{
  KC_ASSERT(page->scenario.rows == page->run.rows);
  for (size_t i = 0; i < page->run.rows; i++) {
    char place[64];
    const char *text = kc_cells_text(&page->scenario, i, "scenario_text");
    snprintf(place, sizeof place, "scenario of run %.20s", kc_html_cell(page, i, "run"));
    KC_TRY(kc_document_parse(&page->document[i], place, text, strlen(text), diag));
  }
  return KC_OK;
}

static void free_page(struct kc_html *page)
{
  struct kc_cells *const cells[] = {
      &page->run,    &page->memory,   &page->timeline, &page->latency,  &page->notes,
      &page->groups, &page->scenario, &page->question, &page->intervals, &page->frontier,
      &page->size,   &page->peak,     &page->map,      &page->pareto,   &page->cost,
      &page->bill,   &page->gain,     &page->point,    &page->levels,
      &page->unfit,  &page->replicas, &page->plan,    &page->tried,    &page->limit,
      &page->value,  &page->more,     &page->more_value, &page->option,
      &page->starved};
  KC_ASSERT(page->out != NULL);
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) kc_cells_free(cells[i]);
  for (size_t i = 0; i < KC_HTML_RUNS_MAX; i++) {
    if (page->document[i].memory != NULL) kc_document_free(&page->document[i]);
  }
}

/* ---- writing ---- */

static void write_title(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0 || page->spec->sweep || page->spec->plan);
  if (page->spec->sweep || page->spec->plan) {
    const struct kc_cells *of = page->spec->plan ? &page->plan : &page->question;
    kc_html_text(page->out, kc_cells_text(of, 0, "name"));
    return;
  }
  if (page->run.rows == 1) {
    kc_html_text(page->out, kc_html_cell(page, 0, "name"));
    return;
  }
  bool same = true;
  for (size_t i = 1; i < page->run.rows; i++) {
    same &= strcmp(kc_html_cell(page, i, "model"), kc_html_cell(page, 0, "model")) == 0;
  }
  if (same) {
    kc_html_text(page->out, kc_html_cell(page, 0, "model"));
    fputs(": ", page->out);
  }
  fprintf(page->out, "%zu runs side by side", page->run.rows);
}

static void write_head(const struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->spec->style != NULL);
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>", out);
  write_title(page);
  fprintf(out, " – kvcap</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n%s</style>\n"
               "</head>\n<body>\n<header>\n<p class=\"brand\"><b>kvcap</b> capacity report</p>\n"
               "<h1>", page->spec->style);
  write_title(page);
  fputs("</h1>\n", out);
}

static void write_foot(const struct kc_html *page)
{
  KC_ASSERT(page->spec->version != NULL);
  fprintf(page->out, "<footer><p>Written by kvcap %s from stored results alone. Every number can "
                     "be read again from the database: its element says of which run, point or "
                     "plan it is (<code>data-run</code> and the like), which figure "
                     "(<code>data-figure</code>) and the value before rounding "
                     "(<code>data-value</code>).</p></footer>\n"
                     "</body>\n</html>\n", page->spec->version);
}

static enum kc_err write_runs(struct kc_html *page, struct kc_diag *diag)
{
  kc_html_answer(page);
  kc_html_pictures(page);
  kc_html_latencies(page);
  kc_html_groups(page);
  kc_html_replicas(page);
  kc_html_money(page);
  kc_html_basis(page);
  KC_TRY(kc_html_assumptions(page, diag));
  kc_html_reproduce(page);
  return KC_OK;
}

static void write_sweep(struct kc_html *page)
{
  kc_html_sweep_answer(page);
  kc_html_sweep_pictures(page);
  kc_html_sweep_points(page);
  kc_html_sweep_basis(page);
}

static void write_plan(struct kc_html *page)
{
  kc_html_plan_answer(page);
  kc_html_plan_tried(page);
  kc_html_plan_pictures(page);
  kc_html_plan_assumptions(page);
  kc_html_plan_basis(page);
}

static enum kc_err write_page(struct kc_html *page, struct kc_store *store, struct kc_diag *diag)
{
  KC_ASSERT(page->spec->runs || page->spec->sweep || page->spec->plan);
  KC_ASSERT(!page->spec->sweep || !page->spec->plan);
  if (page->spec->sweep) KC_TRY(read_sweep(page, store, diag));
  if (page->spec->plan) KC_TRY(read_plan(page, store, diag));
  if (page->spec->runs) {
    KC_TRY(read_runs(page, store, diag));
    KC_TRY(read_scenarios(page, diag));
  }
  write_head(page);
  if (page->spec->sweep) {
    kc_html_sweep_lead(page);
  } else if (page->spec->plan) {
    kc_html_plan_lead(page);
  } else {
    kc_html_lead(page);
  }
  fputs("</header>\n<main>\n", page->out);
  if (page->spec->sweep) write_sweep(page);
  if (page->spec->plan) write_plan(page);
  if (page->spec->runs) KC_TRY(write_runs(page, diag));
  fputs("</main>\n", page->out);
  write_foot(page);
  return KC_OK;
}

enum kc_err kc_html_write(FILE *out, struct kc_store *store, const struct kc_html_spec *spec,
                          struct kc_diag *diag)
{
  KC_ASSERT(out != NULL && store != NULL);
  KC_ASSERT(spec->style != NULL && spec->version != NULL);
  struct kc_html *page = calloc(1, sizeof *page);
  if (page == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  page->out = out;
  page->spec = spec;
  const enum kc_err err = write_page(page, store, diag);
  free_page(page);
  free(page);
  return err;
}
