/* Pictures of a plan: what was run, by price against each limit; how the candidates were decided;
 * where the winner's time goes. */
#include <math.h>
#include <string.h>

#include "sim/html/chart.h"
#include "sim/html/html_internal.h"

enum { LIMITS_DRAWN_MAX = 6 };

/* ---- dots: a limit across, the price up ---- */

/* What a chart draws of a view, and on which side of `limit` is good. */
struct dots {
  const struct kc_cells *cells;
  const char *x, *y;
  double position; /* only rows of that requirement; NAN: all */
  double limit;
};

static bool is_priced(const struct kc_html *page)
{
  return kc_html_most(&page->tried, "usd_hour") > 0;
}

static const char *price_column(const struct kc_html *page)
{
  return is_priced(page) ? "usd_hour" : "gpus";
}

static bool belongs(const struct dots *dots, size_t row)
{
  KC_ASSERT(row < dots->cells->rows);
  const double x = kc_cells_number(dots->cells, row, dots->x);
  if (isnan(x) || isnan(kc_cells_number(dots->cells, row, dots->y))) return false;
  return isnan(dots->position) ||
         kc_cells_number(dots->cells, row, "position") == dots->position;
}

/* Least and most of the column among the rows that are drawn. */
static void range_of(const struct dots *dots, const char *column, double *low, double *high)
{
  KC_ASSERT(dots->cells != NULL);
  *low = INFINITY;
  *high = -INFINITY;
  for (size_t i = 0; i < dots->cells->rows; i++) {
    if (!belongs(dots, i)) continue;
    *low = fmin(*low, kc_cells_number(dots->cells, i, column));
    *high = fmax(*high, kc_cells_number(dots->cells, i, column));
  }
}

static void draw_dots(struct kc_html *page, const struct dots *dots, const char *title,
                      const char *label, const char *limit_text)
{
  double low, high, least, most;
  const bool priced = strcmp(dots->y, "usd_hour") == 0;
  range_of(dots, dots->x, &low, &high);
  range_of(dots, dots->y, &least, &most);
  KC_ASSERT(low <= high);
  low = fmin(low, dots->limit);
  high = fmax(high, dots->limit);
  struct kc_chart chart = kc_chart_frame(
      page->out, KC_CHART_HEIGHT,
      low > 0 ? kc_axis_range(low, high * 1.02, label) : kc_axis_from_zero(high, label),
      kc_axis_range(least, most, priced ? "$ an hour" : "GPUs"));
  kc_chart_open(&chart, ++page->pictures, title,
                "A dot for each deployment that was run, its price over the figure; filled dots "
                "meet everything, the ring is the winner, the dashed line the limit. The table "
                "of candidates has the numbers.");
  kc_chart_limit(&chart, dots->limit, limit_text);
  for (size_t i = dots->cells->rows; i-- > 0;) {
    if (!belongs(dots, i)) continue;
    const double x = kc_cells_number(dots->cells, i, dots->x);
    const double y = kc_cells_number(dots->cells, i, dots->y);
    const size_t series = (size_t)kc_cells_number(dots->cells, i, "series") % KC_CHART_SERIES;
    const bool meets = kc_cells_number(dots->cells, i, "meets") == 1;
    kc_chart_dot(&chart, series, x, y, meets ? KC_DOT_LARGE : KC_DOT_HOLLOW);
    if (strcmp(kc_cells_text(dots->cells, i, "role"), "winner") == 0) {
      kc_chart_dot(&chart, series, x, y, KC_DOT_RING);
    }
  }
  kc_chart_close(&chart);
}

static void write_dots(struct kc_html *page, const struct dots *dots, const char *title,
                       const char *label, const char *limit_text)
{
  size_t drawn = 0;
  KC_ASSERT(title[0] != '\0');
  for (size_t i = 0; i < dots->cells->rows; i++) drawn += belongs(dots, i);
  if (drawn == 0) return;
  fputs("<figure>\n<h3>", page->out);
  kc_html_text(page->out, title);
  fputs("</h3>\n", page->out);
  draw_dots(page, dots, title, label, limit_text);
  fputs("</figure>\n", page->out);
}

static void write_limits(struct kc_html *page)
{
  const struct kc_cells *limit = &page->limit;
  KC_ASSERT(page->plan.rows == 1);
  for (size_t i = 0; i < limit->rows && i < LIMITS_DRAWN_MAX; i++) {
    char title[160];
    const struct dots dots = {&page->value, "value", price_column(page),
                              kc_cells_number(limit, i, "position"),
                              kc_cells_number(limit, i, "limit_value")};
    snprintf(title, sizeof title, "%s against %.100s", is_priced(page) ? "Price" : "GPUs",
             kc_cells_text(limit, i, "figure"));
    write_dots(page, &dots, title, kc_cells_text(limit, i, "figure"), "limit");
  }
}

static void write_used(struct kc_html *page)
{
  const struct dots dots = {&page->tried, "used_percent", price_column(page), NAN, 100};
  if (page->limit.rows == 0) return;
  write_dots(page, &dots,
             is_priced(page) ? "Price against the nearest limit" : "GPUs against the nearest limit",
             "percent of the worst limit used", "100 %");
}

/* ---- bars of parts ---- */

struct part {
  const char *title, *column; /* of plan_question */
};

static double part_value(const struct kc_html *page, const struct part *part)
{
  const double value = kc_cells_number(&page->plan, 0, part->column);
  return isnan(value) || value < 0 ? 0 : value;
}

/* One bar of the parts, and below it what they are. */
static void write_parts(struct kc_html *page, const char *title, const char *description,
                        const struct part *part, size_t parts, const char *unit,
                        enum kc_rounding rounding)
{
  FILE *const out = page->out;
  double all = 0, left = 0;
  for (size_t i = 0; i < parts; i++) all += part_value(page, &part[i]);
  if (all <= 0) return;
  KC_ASSERT(parts <= 6); /* as many as there are colours */
  fprintf(out, "<figure>\n<h3>%s</h3>\n", title);
  kc_chart_open_bare(out, ++page->pictures, 26, title, description);
  for (size_t i = 0; i < parts; i++) {
    const double width = part_value(page, &part[i]) / all * KC_CHART_WIDTH;
    fprintf(out, "<rect class=\"m%zu\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"24\"/>\n", i,
            left, width);
    left += width;
  }
  fprintf(out, "</svg>\n<table class=\"bill\"><thead><tr><th scope=\"col\">What</th>"
               "<th scope=\"col\" class=\"n\">%s</th></tr></thead><tbody>\n", unit);
  for (size_t i = 0; i < parts; i++) {
    const struct kc_html_source source = {.kind = "plan",
                                          .id = kc_cells_text(&page->plan, 0, "sweep")};
    fprintf(out, "<tr><th scope=\"row\"><svg class=\"swatch\" viewBox=\"0 0 14 14\" "
                 "aria-hidden=\"true\"><rect class=\"m%zu\" width=\"14\" height=\"14\"/></svg>%s"
                 "</th>", i, part[i].title);
    kc_html_figure(out, "td", "n", source, part[i].column,
                   kc_cells_text(&page->plan, 0, part[i].column), rounding);
    fputs("</tr>\n", out);
  }
  fputs("</tbody></table>\n</figure>\n", out);
}

static void write_decided(struct kc_html *page)
{
  static const struct part parts[] = {
      {"run", "runs"},
      {"dearer than the winner, or later in the order", "by_price"},
      {"equal to one that was run", "by_twin"},
      {"below a bound", "by_bound"},
      {"by more replicas that failed", "by_replicas"},
      {"by faster ones that failed", "by_faster"}};
  write_parts(page, "How the candidates were decided",
              "A bar whose parts are the candidates that were run, and those that were decided "
              "without, by the rule; the table below has the numbers.",
              parts, sizeof parts / sizeof parts[0], "candidates", KC_ROUND_COUNT);
}

static void write_time(struct kc_html *page)
{
  static const struct part parts[] = {{"prefill", "prefill_percent"},
                                      {"decode", "decode_percent"},
                                      {"host", "host_percent"},
                                      {"idle", "idle_percent"}};
  write_parts(page, "Where the time of the winner goes",
              "A bar whose parts are the shares of the replicas' time; the table below has the "
              "numbers.",
              parts, sizeof parts / sizeof parts[0], "percent", KC_ROUND_TENTH);
}

/* ---- together ---- */

/* The GPU of a series; NULL: there are not so many. */
static const char *gpu_of(const struct kc_html *page, size_t series)
{
  for (size_t i = 0; i < page->tried.rows; i++) {
    if (kc_cells_number(&page->tried, i, "series") == (double)series) {
      return kc_cells_text(&page->tried, i, "gpu");
    }
  }
  return NULL;
}

void kc_html_plan_pictures(struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->spec->plan);
  if (page->tried.rows == 0) return;
  fputs("<section>\n<h2>Pictures of the plan</h2>\n<ul class=\"legend\">\n", out);
  for (size_t series = 0; gpu_of(page, series) != NULL; series++) {
    kc_html_legend_item(page, series, gpu_of(page, series));
  }
  fputs("</ul>\n<div class=\"pictures\">\n", out);
  write_limits(page);
  write_used(page);
  write_decided(page);
  write_time(page);
  fputs("</div>\n</section>\n", out);
}
