/* Shared by the files of this folder: what has been read, and how its parts reach the page. */
#ifndef KC_SIM_HTML_HTML_INTERNAL_H
#define KC_SIM_HTML_HTML_INTERNAL_H

#include "engine/base/check.h"
#include "engine/base/node.h"
#include "sim/html/html_text.h"
#include "sim/html/html_page.h"
#include "sim/store/store_cells.h"

struct kc_html {
  FILE *out;
  const struct kc_html_spec *spec;
  struct kc_cells run;       /* report_summary: a row a run, in the order chosen */
  struct kc_cells memory, timeline, latency, notes, intervals, scenario, groups, replicas;
  struct kc_cells question, size, peak, map, frontier; /* of the sweep: reports/sql/sweep.sql */
  struct kc_cells pareto, cost, bill, gain, point, levels, unfit, starved;
  struct kc_cells plan, tried, limit, value, more, more_value, option; /* reports/sql/plan.sql */
  struct kc_document document[KC_HTML_RUNS_MAX]; /* the resolved scenarios */
  int pictures;              /* drawn so far: the next one's number is this plus 1 */
};

/* A column of report_summary, for run 0, 1, ... */
static inline const char *kc_html_cell(const struct kc_html *page, size_t run, const char *column)
{
  return kc_cells_text(&page->run, run, column);
}
static inline double kc_html_cell_number(const struct kc_html *page, size_t run, const char *column)
{
  return kc_cells_number(&page->run, run, column);
}
static inline struct kc_html_source kc_html_source_of(const struct kc_html *page, size_t run)
{
  return (struct kc_html_source){.kind = "run", .id = kc_html_cell(page, run, "run")};
}
/* What is marked as trusted so much, or "unknown" in runs of an earlier program. */
static inline const char *kc_html_trust(const struct kc_html *page, size_t run)
{
  const char *trust = kc_html_cell(page, run, "trust");
  return trust != NULL ? trust : "unknown";
}

/* A column of report_summary as an element (kc_html_figure). */
void kc_html_cell_figure(const struct kc_html *page, const char *tag, const char *class, size_t run,
                         const char *column, enum kc_rounding rounding);
/* The chip that stands for a run, or for a series of a sweep, in tables and legends. */
void kc_html_chip(const struct kc_html *page, size_t series);
/* Of several runs, the heading that says which one follows; of one, nothing. */
void kc_html_run_title(const struct kc_html *page, size_t run);
/* Chip, stroke and name of one series, as an item of a legend. */
void kc_html_legend_item(const struct kc_html *page, size_t series, const char *name);

/* Of two runs, what the second has more than the first in percent, as an element. False (nothing is
 * written) when that cannot be said. */
bool kc_html_change(const struct kc_html *page, const char *tag, const char *column);

/* A figure as a line of a table. */
struct kc_html_line {
  const char *title, *column;
  enum kc_rounding rounding;
  bool relative; /* a change in percent says something */
};
/* The lines that at least one run knows, as a table. False (nothing is written) when none is. */
bool kc_html_lines(const struct kc_html *page, const char *caption,
                   const struct kc_html_line *lines, size_t count);

/* A value of the resolved scenario, or NULL: "slo" "ttft_p95_ms". */
const char *kc_html_setting(const struct kc_html *page, size_t run, const char *section,
                            const char *key);
/* The same as a number; 0 when it is not stated. */
double kc_html_setting_number(const struct kc_html *page, size_t run, const char *section,
                              const char *key);

/* The largest number of a column, at least 0. */
double kc_html_most(const struct kc_cells *cells, const char *column);

/* The sections of runs, in their order on the page; kc_html_lead stands under the title. */
void kc_html_lead(struct kc_html *page);
void kc_html_answer(struct kc_html *page);
void kc_html_pictures(struct kc_html *page);
void kc_html_latencies(struct kc_html *page);
void kc_html_groups(struct kc_html *page);
void kc_html_replicas(struct kc_html *page);
void kc_html_money(struct kc_html *page);
void kc_html_basis(struct kc_html *page);
enum kc_err kc_html_assumptions(struct kc_html *page, struct kc_diag *diag);
void kc_html_reproduce(struct kc_html *page);

/* The sections of a sweep. */
void kc_html_sweep_lead(struct kc_html *page);
void kc_html_sweep_answer(struct kc_html *page);
void kc_html_sweep_pictures(struct kc_html *page);
void kc_html_sweep_points(struct kc_html *page);
void kc_html_sweep_basis(struct kc_html *page);

/* What the points of a sweep or a plan are worth, as a list. */
void kc_html_trust_levels(const struct kc_html *page);

/* The sections of a plan. */
void kc_html_plan_lead(struct kc_html *page);
void kc_html_plan_answer(struct kc_html *page);
void kc_html_plan_tried(struct kc_html *page);
void kc_html_plan_pictures(struct kc_html *page);
void kc_html_plan_assumptions(struct kc_html *page);
void kc_html_plan_basis(struct kc_html *page);

/* A figure of a point of the sweep as an element; `row` of `cells`, which has a column "point". */
void kc_html_point_figure(const struct kc_html *page, const char *tag, const char *class,
                          const struct kc_cells *cells, size_t row, const char *column,
                          enum kc_rounding rounding);

#endif
