/* Pictures of a sweep: maps of regions, where memory ends, throughput against speed, cost,
 * memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/html/chart.h"
#include "sim/html/html_internal.h"

enum { PANELS_MAX = 6 }; /* values across that get a chart of their own */

static size_t series_of(const struct kc_cells *cells, size_t row)
{
  const double series = kc_cells_number(cells, row, "series");
  KC_ASSERT(series >= 0);
  return (size_t)series;
}

static double least_of(const struct kc_cells *cells, const char *column)
{
  double least = INFINITY;
  for (size_t i = 0; i < cells->rows; i++) least = fmin(least, kc_cells_number(cells, i, column));
  return least;
}

static size_t series_count(const struct kc_html *page)
{
  KC_ASSERT(page->size.rows == 1);
  return (size_t)kc_cells_number(&page->size, 0, "series");
}

static const char *label_of(const struct kc_html *page, size_t series)
{
  for (size_t i = 0; i < page->point.rows; i++) {
    if (series_of(&page->point, i) == series) return kc_cells_text(&page->point, i, "label");
  }
  KC_ASSERT(false);
  return "";
}

/* ---- the map ---- */

static const struct region {
  const char *name, *letter, *title, *meaning;
} regions[] = {
  {"safe", "S", "Safe", "none of what follows"},
  {"slow", "L", "Limits missed", "fewer than 95 % of the requests kept the stated limits"},
  {"queueing", "Q", "Queueing", "more wait at the worst than a quarter of those that run at most"},
  {"oom", "M", "Out of memory",
   "the requests offered need more KV than there is, or some are refused"},
  {"thrashing", "T", "Thrashing",
   "out of memory, and more than 5 % of the requests lose their KV to others and start again"},
  {"no_fit", "X", "Does not fit", "no room for weights and a KV pool"},
  {"unknown", "?", "Not known", "the point was refused or failed"},
};
enum { REGIONS = sizeof regions / sizeof regions[0] };

static const struct region *region_of(const char *name)
{
  size_t i = 0;
  while (i + 1 < REGIONS && strcmp(regions[i].name, name) != 0) i++;
  KC_ASSERT(i < REGIONS);
  return &regions[i];
}

struct grid {
  double left, top, width, height; /* of a cell: width, height */
  size_t wide, high;
};

static struct grid grid_of(const struct kc_html *page)
{
  const size_t wide = (size_t)kc_cells_number(&page->size, 0, "across");
  const size_t high = (size_t)kc_cells_number(&page->size, 0, "loads");
  KC_ASSERT(wide > 0 && high > 0);
  const double left = 44, room = 280.0 / (double)high;
  return (struct grid){.left = left, .top = 18, .wide = wide, .high = high,
                       .width = (KC_CHART_WIDTH - left) / (double)wide,
                       .height = room > 25 ? 25 : room};
}

static void draw_cell(const struct kc_html *page, const struct grid *grid, size_t row)
{
  FILE *const out = page->out;
  const struct region *region = region_of(kc_cells_text(&page->map, row, "region"));
  const double x = grid->left + kc_cells_number(&page->map, row, "across_place") * grid->width;
  const double y = grid->top + grid->height * ((double)grid->high - 1 -
                                               kc_cells_number(&page->map, row, "load_place"));
  KC_ASSERT(x >= 0 && y >= 0);
  fprintf(out, "<rect class=\"r-%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
          region->name, x, y, grid->width, grid->height);
  if (grid->width >= 11 && grid->height >= 11) {
    fprintf(out, "<text class=\"on\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
            x + grid->width / 2, y + grid->height / 2 + 4, region->letter);
  }
  fputc('\n', out);
}

/* Names of the places, as many as have room. */
static void draw_places(const struct kc_html *page, const struct grid *grid, size_t series)
{
  FILE *const out = page->out;
  const size_t every_x = 1 + (size_t)(40 / grid->width), every_y = 1 + (size_t)(12 / grid->height);
  const double bottom = grid->top + grid->height * (double)grid->high;
  KC_ASSERT(every_x > 0 && every_y > 0);
  for (size_t i = 0; i < page->map.rows; i++) {
    if (series_of(&page->map, i) != series) continue;
    const size_t across = (size_t)kc_cells_number(&page->map, i, "across_place");
    const size_t load = (size_t)kc_cells_number(&page->map, i, "load_place");
    if (across == 0 && load % every_y == 0) {
      fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", grid->left - 6,
              bottom - ((double)load + 0.5) * grid->height + 4);
      kc_html_text(out, kc_cells_text(&page->map, i, "load"));
      fputs("</text>\n", out);
    }
    if (load == 0 && across % every_x == 0) {
      fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
              grid->left + ((double)across + 0.5) * grid->width, bottom + 15);
      kc_html_text(out, kc_cells_text(&page->map, i, "across"));
      fputs("</text>\n", out);
    }
  }
  fputs("<text x=\"0\" y=\"10\">", out);
  kc_html_text(out, kc_cells_text(&page->question, 0, "load_title"));
  fprintf(out, "</text>\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", KC_CHART_WIDTH,
          bottom + 31);
  kc_html_text(out, kc_cells_text(&page->question, 0, "across_title"));
  fputs("</text>\n", out);
}

static void open_figure(const struct kc_html *page, const char *title)
{
  fputs("<figure>\n<h3>", page->out);
  kc_html_text(page->out, title);
  fputs("</h3>\n", page->out);
}

static void write_map(struct kc_html *page, size_t series)
{
  const struct grid grid = grid_of(page);
  const char *label = label_of(page, series);
  fputs("<figure>\n<h3>", page->out);
  kc_html_chip(page, series);
  fputs(" ", page->out);
  kc_html_text(page->out, label);
  fputs("</h3>\n", page->out);
  KC_ASSERT(page->map.rows > 0);
  kc_chart_open_bare(page->out, ++page->pictures,
                     grid.top + grid.height * (double)grid.high + 36, label,
                     "Map of regions: a cell for each point, its colour and letter say how it "
                     "runs; the table of points has the same in words.");
  for (size_t i = 0; i < page->map.rows; i++) {
    if (series_of(&page->map, i) == series) draw_cell(page, &grid, i);
  }
  draw_places(page, &grid, series);
  fputs("</svg>\n</figure>\n", page->out);
}

static void write_regions(const struct kc_html *page)
{
  FILE *const out = page->out;
  fputs("<div class=\"reading\"><h3>The worst that holds</h3>\n<ul class=\"regions\">\n", out);
  for (size_t i = 0; i < REGIONS; i++) {
    fprintf(out, "<li><svg class=\"tile-letter\" viewBox=\"0 0 20 20\" aria-hidden=\"true\"><rect "
                 "class=\"r-%s\" width=\"20\" height=\"20\"/><text class=\"on\" x=\"10\" y=\"14\" "
                 "text-anchor=\"middle\">%s</text></svg><span><b>%s</b>: %s</span></li>\n",
            regions[i].name, regions[i].letter, regions[i].title, regions[i].meaning);
  }
  fputs("</ul></div>\n", out);
}

/* ---- lines of a series ---- */

/* What a chart of a view draws: columns, and which rows. */
struct lines {
  const struct kc_cells *cells;
  const char *x, *y;
  double across; /* the place; NAN: all rows */
};

static bool belongs(const struct lines *lines, size_t row)
{
  KC_ASSERT(row < lines->cells->rows);
  if (isnan(kc_cells_number(lines->cells, row, lines->x)) ||
      isnan(kc_cells_number(lines->cells, row, lines->y))) {
    return false;
  }
  return isnan(lines->across) ||
         kc_cells_number(lines->cells, row, "across_place") == lines->across;
}

static void draw_line(const struct kc_chart *chart, const struct lines *lines, size_t series)
{
  double *x = calloc(lines->cells->rows + 1, sizeof *x);
  double *y = calloc(lines->cells->rows + 1, sizeof *y);
  size_t count = 0;
  KC_ASSERT(chart != NULL);
  for (size_t i = 0; i < lines->cells->rows && x != NULL && y != NULL; i++) {
    if (series_of(lines->cells, i) != series || !belongs(lines, i)) continue;
    x[count] = kc_cells_number(lines->cells, i, lines->x);
    y[count] = kc_cells_number(lines->cells, i, lines->y);
    count += 1;
  }
  kc_chart_line(chart, series % KC_CHART_SERIES, x, y, count, false);
  free(x);
  free(y);
}

/* Dots on the rows: hollow where `oom` says so, ringed where `best` does. */
static void draw_dots(const struct kc_chart *chart, const struct lines *lines, const char *hollow,
                      const char *ringed)
{
  for (size_t i = 0; i < lines->cells->rows; i++) {
    if (!belongs(lines, i)) continue;
    const double x = kc_cells_number(lines->cells, i, lines->x);
    const double y = kc_cells_number(lines->cells, i, lines->y);
    const bool empty = hollow != NULL && kc_cells_number(lines->cells, i, hollow) > 0;
    kc_chart_dot(chart, series_of(lines->cells, i) % KC_CHART_SERIES, x, y,
                 empty ? KC_DOT_HOLLOW : KC_DOT_SMALL);
    if (ringed != NULL && kc_cells_number(lines->cells, i, ringed) > 0) {
      kc_chart_dot(chart, 0, x, y, KC_DOT_RING);
    }
  }
}

static void draw_lines(const struct kc_html *page, const struct kc_chart *chart,
                       const struct lines *lines)
{
  for (size_t series = series_count(page); series-- > 0;) draw_line(chart, lines, series);
}

/* "Cost, context: prompt tokens 8192" */
static void panel_title(const struct kc_html *page, const struct kc_cells *cells, double across,
                        const char *what, char *title, size_t size)
{
  size_t row = 0;
  const char *name = kc_cells_text(&page->question, 0, "across_title");
  while (row < cells->rows && kc_cells_number(cells, row, "across_place") != across) row++;
  KC_ASSERT(row < cells->rows);
  if (strcmp(name, "none") == 0) {
    snprintf(title, size, "%s", what);
  } else {
    snprintf(title, size, "%s, %s %s", what, name, kc_cells_text(cells, row, "across"));
  }
}

static void write_cost(struct kc_html *page, double across)
{
  char title[256];
  const struct lines lines = {&page->cost, "load_amount", "usd_per_mtok", across};
  struct kc_chart chart = kc_chart_frame(
      page->out, KC_CHART_HEIGHT,
      kc_axis_range(least_of(&page->cost, "load_amount"), kc_html_most(&page->cost, "load_amount"),
                    kc_cells_text(&page->question, 0, "load_title")),
      kc_axis_range(least_of(&page->cost, "usd_per_mtok"),
                    kc_html_most(&page->cost, "usd_per_mtok"), "$ a million output tokens"));
  panel_title(page, &page->cost, across, "Cost", title, sizeof title);
  open_figure(page, title);
  kc_chart_open(&chart, ++page->pictures, title,
                "Price of a million output tokens over the load, one line a series; hollow dots "
                "want more memory than there is.");
  draw_lines(page, &chart, &lines);
  draw_dots(&chart, &lines, "oom", NULL);
  kc_chart_close(&chart);
  fputs("</figure>\n", page->out);
}

static void write_pareto(struct kc_html *page, double across)
{
  char title[256];
  double most_x = 0, most_y = 0;
  const struct lines lines = {&page->pareto, "output_tok_s_user", "output_tok_s_gpu", across};
  for (size_t i = 0; i < page->pareto.rows; i++) {
    if (!belongs(&lines, i)) continue;
    most_x = fmax(most_x, kc_cells_number(&page->pareto, i, lines.x));
    most_y = fmax(most_y, kc_cells_number(&page->pareto, i, lines.y));
  }
  struct kc_chart chart =
      kc_chart_frame(page->out, KC_CHART_HEIGHT, kc_axis_from_zero(most_x, "tok/s of a user"),
                     kc_axis_from_zero(most_y, "tok/s of a GPU"));
  panel_title(page, &page->pareto, across, "Throughput against speed", title, sizeof title);
  open_figure(page, title);
  kc_chart_open(&chart, ++page->pictures, title,
                "Output tokens per second of a GPU over those of a user, a dot for each point "
                "within memory; rings mark what no other point beats in both.");
  draw_lines(page, &chart, &lines);
  draw_dots(&chart, &lines, NULL, "best");
  kc_chart_close(&chart);
  fputs("</figure>\n", page->out);
}

static void write_frontier(struct kc_html *page)
{
  static const char title[] = "Where memory ends";
  const struct kc_cells *cells = &page->frontier;
  const struct lines fit = {cells, "across_amount", "requests_fit", NAN};
  const struct lines ran = {cells, "across_amount", "requests_ran", NAN};
  struct kc_chart chart = kc_chart_frame(
      page->out, KC_CHART_HEIGHT,
      kc_axis_range(least_of(cells, "across_amount"), kc_html_most(cells, "across_amount"),
                    kc_cells_text(&page->question, 0, "across_title")),
      kc_axis_range(fmin(least_of(cells, "requests_fit"), least_of(cells, "requests_ran")),
                    fmax(kc_html_most(cells, "requests_fit"), kc_html_most(cells, "requests_ran")),
                    "requests at once"));
  open_figure(page, title);
  kc_chart_open(&chart, ++page->pictures, title,
                "How many requests of full length fit at once over their context: lines from "
                "memory alone, dots the largest load that was run and fitted.");
  draw_lines(page, &chart, &fit);
  draw_dots(&chart, &ran, NULL, NULL);
  kc_chart_close(&chart);
  fputs("<figcaption>Lines: from memory alone. Dots: the largest load that was run and fitted."
        "</figcaption>\n</figure>\n", page->out);
}

static void write_output(struct kc_html *page)
{
  char title[256];
  const struct lines lines = {&page->gain, "load_amount", "output_tok_s", NAN};
  struct kc_chart chart = kc_chart_frame(
      page->out, KC_CHART_HEIGHT,
      kc_axis_from_zero(kc_html_most(&page->gain, "load_amount"),
                        kc_cells_text(&page->question, 0, "load_title")),
      kc_axis_from_zero(kc_html_most(&page->gain, "output_tok_s"), "tok/s"));
  panel_title(page, &page->point, 0, "Output over the load", title, sizeof title);
  open_figure(page, title);
  kc_chart_open(&chart, ++page->pictures, title,
                "Output tokens per second over the load, one line a series; hollow dots want more "
                "memory than there is.");
  draw_lines(page, &chart, &lines);
  draw_dots(&chart, &lines, "oom", NULL);
  kc_chart_close(&chart);
  fputs("</figure>\n", page->out);
}

/* ---- memory ---- */

static const double BILL_LEFT = 20, BILL_PITCH = 26;

static void draw_bill(const struct kc_html *page, size_t row, double scale, double top)
{
  FILE *const out = page->out;
  const double weights = fmax(0, kc_cells_number(&page->bill, row, "weights_gpu_gib") * scale);
  const double room = fmax(0, kc_cells_number(&page->bill, row, "kv_gpu_gib") * scale);
  KC_ASSERT(scale > 0);
  fprintf(out, "<text class=\"letter\" x=\"0\" y=\"%.1f\">%c</text>", top + 15,
          (char)('A' + series_of(&page->bill, row) % 26));
  fprintf(out, "<rect class=\"m0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\"/>"
               "<rect class=\"m1\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\"/>\n",
          BILL_LEFT, top, weights, BILL_LEFT + weights, top, room);
}

static void write_bill(struct kc_html *page)
{
  static const char title[] = "Memory of one GPU";
  FILE *const out = page->out;
  const struct kc_cells *bill = &page->bill;
  double most = 0;
  for (size_t i = 0; i < bill->rows; i++) {
    most = fmax(most, kc_cells_number(bill, i, "weights_gpu_gib") +
                          kc_cells_number(bill, i, "kv_gpu_gib"));
  }
  /* Beside charts of one height a long bill takes the room of two or three. */
  fprintf(out, "<figure style=\"grid-row: span %d\">\n<h3>%s</h3>\n",
          bill->rows > 12 ? 3 : bill->rows > 4 ? 2 : 1, title);
  kc_chart_open_bare(out, ++page->pictures, BILL_PITCH * (double)bill->rows, title,
                     "Weights and room for KV as bars, one a series; the table below has the "
                     "sizes.");
  for (size_t i = 0; i < bill->rows; i++) {
    draw_bill(page, i, (KC_CHART_WIDTH - BILL_LEFT) / fmax(most, 1e-9), BILL_PITCH * (double)i);
  }
  fputs("</svg>\n<table class=\"bill\"><thead><tr><th scope=\"col\">GiB</th><th scope=\"col\" "
        "class=\"n\"><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect "
        "class=\"m0\" width=\"14\" height=\"14\"/></svg>weights</th><th scope=\"col\" "
        "class=\"n\"><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect "
        "class=\"m1\" width=\"14\" height=\"14\"/></svg>KV</th><th scope=\"col\" class=\"n\">tokens"
        "</th></tr></thead><tbody>\n", out);
  for (size_t i = 0; i < bill->rows; i++) {
    fputs("<tr><th scope=\"row\">", out);
    kc_html_chip(page, series_of(bill, i));
    fputs("</th>", out);
    kc_html_point_figure(page, "td", "n", bill, i, "weights_gpu_gib", KC_ROUND_TENTH);
    kc_html_point_figure(page, "td", "n", bill, i, "kv_gpu_gib", KC_ROUND_TENTH);
    kc_html_point_figure(page, "td", "n", bill, i, "kv_tokens", KC_ROUND_COUNT);
    fputs("</tr>\n", out);
  }
  fputs("</tbody></table>\n</figure>\n", out);
}

/* ---- together ---- */

/* One chart for each of the first values across that `cells` has. */
static void write_panels(struct kc_html *page, const struct kc_cells *cells,
                         void (*write)(struct kc_html *page, double across))
{
  double last = -1;
  size_t panels = 0;
  KC_ASSERT(write != NULL);
  for (size_t i = 0; i < cells->rows && panels < PANELS_MAX; i++) {
    const double across = kc_cells_number(cells, i, "across_place");
    if (across == last) continue;
    write(page, across);
    last = across;
    panels += 1;
  }
}

void kc_html_sweep_pictures(struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->spec->sweep);
  fputs("<section>\n<h2>Pictures of the sweep</h2>\n<ul class=\"legend\">\n", out);
  for (size_t series = 0; series < series_count(page); series++) {
    kc_html_legend_item(page, series, label_of(page, series));
  }
  fputs("</ul>\n<div class=\"pictures\">\n", out);
  for (size_t series = 0; series < series_count(page) && page->map.rows > 0; series++) {
    write_map(page, series);
  }
  if (page->map.rows > 0) write_regions(page);
  if (page->frontier.rows > 0) write_frontier(page);
  if (page->gain.rows > 0) write_output(page);
  write_panels(page, &page->pareto, write_pareto);
  write_panels(page, &page->cost, write_cost);
  if (page->bill.rows > 0) write_bill(page);
  fputs("</div>\n</section>\n", out);
}
