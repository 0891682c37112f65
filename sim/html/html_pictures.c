/* Pictures of runs: the memory bill, load over time, latency distributions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/html/chart.h"
#include "sim/html/html_internal.h"

/* ---- the memory bill ---- */

static const struct kind {
  const char *name, *title;
} kinds[] = {
  {"weights", "Weights"},          {"kv_peak", "KV, in use at the peak"},
  {"kv_unused", "KV, never used"}, {"other", "Activations, other"},
  {"reserve", "Reserve"},          {"free", "Free"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* The row of a kind for a run; report_memory has one for each. */
static size_t memory_row(const struct kc_html *page, size_t run, size_t kind)
{
  for (size_t i = 0; i < page->memory.rows; i++) {
    if (kc_cells_number(&page->memory, i, "series") != (double)run) continue;
    if (strcmp(kc_cells_text(&page->memory, i, "kind"), kinds[kind].name) == 0) return i;
  }
  KC_ASSERT(false);
  return 0;
}

static void write_bar(const struct kc_html *page, size_t run, double scale)
{
  FILE *const out = page->out;
  const bool named = page->run.rows > 1;
  const double top = 44.0 * (double)run, left = named ? 20 : 0;
  KC_ASSERT(scale > 0);
  if (named) {
    fprintf(out, "<text class=\"letter\" x=\"0\" y=\"%.1f\">%c</text>\n", top + 22,
            (char)('A' + run));
  }
  for (size_t kind = 0; kind < KINDS; kind++) {
    const size_t row = memory_row(page, run, kind);
    const double low = kc_cells_number(&page->memory, row, "low_gib") * scale;
    const double high = kc_cells_number(&page->memory, row, "high_gib") * scale;
    if (high - low < 0.05) continue;
    fprintf(out, "<rect class=\"m%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"34\"/>\n",
            kind, left + low, top, high - low);
  }
}

/* The numbers of the bars, and the legend in one. */
static void write_bill(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<table class=\"bill\">\n<thead><tr><th scope=\"col\">GiB of one GPU</th>", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    fputs("<th scope=\"col\" class=\"n\">", out);
    if (page->run.rows > 1) {
      kc_html_chip(page, run);
    } else {
      fputs("size", out);
    }
    fputs("</th>", out);
  }
  fputs("</tr></thead>\n<tbody>\n", out);
  for (size_t kind = 0; kind < KINDS; kind++) {
    char figure[48];
    snprintf(figure, sizeof figure, "memory_%s_gib", kinds[kind].name);
    fprintf(out, "<tr><th scope=\"row\"><svg class=\"swatch\" viewBox=\"0 0 14 14\" aria-hidden="
                 "\"true\"><rect class=\"m%zu\" width=\"14\" height=\"14\"/></svg>%s</th>", kind,
            kinds[kind].title);
    for (size_t run = 0; run < page->run.rows; run++) {
      kc_html_figure(out, "td", "n", kc_html_source_of(page, run), figure,
                     kc_cells_text(&page->memory, memory_row(page, run, kind), "size_gib"),
                     KC_ROUND_TENTH);
    }
    fputs("</tr>\n", out);
  }
  fputs("</tbody>\n</table>\n", out);
}

static void write_memory(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  const double height = 44.0 * (double)page->run.rows - 10;
  const double width = KC_CHART_WIDTH - (page->run.rows > 1 ? 20 : 0);
  fputs("<figure>\n<h3>Memory bill</h3>\n", page->out);
  kc_chart_open_bare(page->out, ++page->pictures, height, "Memory bill of the fullest GPU",
                     "Stacked bars, one a run, from 0 to the GPU's memory; the table below has the "
                     "sizes.");
  const double scale = width / kc_html_most(&page->memory, "high_gib");
  for (size_t run = 0; run < page->run.rows; run++) write_bar(page, run, scale);
  fputs("</svg>\n", page->out);
  write_bill(page);
  fputs("</figure>\n", page->out);
}

/* ---- points of a series ---- */

struct points {
  double *x, *y; /* heap */
  size_t count;
};

/* The rows of `table` that belong to the run, and to `metric` where that is not NULL. */
static struct points points_of(const struct kc_cells *table, size_t run, const char *metric,
                               const char *x, const char *y)
{
  KC_ASSERT(run < KC_HTML_RUNS_MAX);
  struct points points = {.x = calloc(table->rows + 1, sizeof *points.x),
                          .y = calloc(table->rows + 1, sizeof *points.y)};
  for (size_t i = 0; i < table->rows && points.x != NULL && points.y != NULL; i++) {
    if (kc_cells_number(table, i, "series") != (double)run) continue;
    if (metric != NULL && strcmp(kc_cells_text(table, i, "metric"), metric) != 0) continue;
    points.x[points.count] = kc_cells_number(table, i, x);
    points.y[points.count] = kc_cells_number(table, i, y);
    points.count += 1;
  }
  return points;
}

static void free_points(struct points *points)
{
  free(points->x);
  free(points->y);
}

/* ---- load over time ---- */

static const struct load {
  const char *title, *column, *peak, *label, *description;
} loads[] = {
  {"Running requests", "running", "max_running", "requests",
   "Requests that run at each instant of virtual time, one stepped line a run."},
  {"Waiting requests", "waiting", "max_waiting", "requests",
   "Requests that wait for a slot at each instant of virtual time, one stepped line a run."},
  {"KV pages in use", "kv_used_percent", "kv_peak_percent", "% of the pool",
   "Share of the KV pool that is in use at each instant of virtual time, one stepped line a run."},
};

/* The state is kept at sampled instants, so the highest values may lie between them. */
static void write_peaks_between(const struct kc_html *page, const struct load *load)
{
  const double drawn = kc_html_most(&page->timeline, load->column);
  bool above = false;
  for (size_t run = 0; run < page->run.rows; run++) {
    above |= kc_html_cell_number(page, run, load->peak) > drawn * (1 + 1e-9);
  }
  if (!above) return;
  fputs("<figcaption>The picture samples the run; its highest values lie between the samples: ",
        page->out);
  for (size_t run = 0; run < page->run.rows; run++) {
    if (run > 0) fputs(", ", page->out);
    kc_html_cell_figure(page, "b", "", run, load->peak,
                        strcmp(load->peak, "kv_peak_percent") == 0 ? KC_ROUND_TENTH
                                                                    : KC_ROUND_COUNT);
  }
  fprintf(page->out, " %s.</figcaption>\n", load->label);
}

static void write_load(struct kc_html *page, const struct load *load)
{
  const struct kc_cells *table = &page->timeline;
  const bool percent = strcmp(load->column, "kv_used_percent") == 0;
  const struct kc_axis y = percent ? (struct kc_axis){.high = 105, .label = load->label}
                                   : kc_axis_from_zero(kc_html_most(table, load->column),
                                                       load->label);
  struct kc_axis x = kc_axis_from_zero(kc_html_most(table, "time_s"), "virtual time (s)");
  KC_ASSERT(x.high > 0);
  x.high /= 1.08; /* time ends where the run ends */
  struct kc_chart chart = kc_chart_frame(page->out, KC_CHART_HEIGHT, x, y);
  fprintf(page->out, "<figure>\n<h3>%s</h3>\n", load->title);
  kc_chart_open(&chart, ++page->pictures, load->title, load->description);
  for (size_t run = page->run.rows; run-- > 0;) {
    struct points points = points_of(table, run, NULL, "time_s", load->column);
    kc_chart_line(&chart, run, points.x, points.y, points.count, true);
    free_points(&points);
  }
  kc_chart_close(&chart);
  write_peaks_between(page, load);
  fputs("</figure>\n", page->out);
}

/* ---- latency distributions ---- */

static const struct metric {
  const char *name, *title, *brief;
  const char *p95; /* the figure; also the key of its limit under slo, if it can have one */
  bool limited;
  const char *description;
} metrics[] = {
  {"ttft", "Time to first token", "First token", "ttft_p95_ms", true,
   "Share of the requests whose first token took at most so long, one line a run; the dot is the "
   "95th percentile."},
  {"tpot", "Time per output token", "Each token", "tpot_p95_ms", true,
   "Share of the requests whose output tokens took at most so long on average, one line a run; the "
   "dot is the 95th percentile."},
  {"itl", "Gap between tokens", "Gap", "itl_p95_ms", false,
   "Share of the gaps between tokens of at most so long, one line a run; the dot is the 95th "
   "percentile."},
  {"e2e", "Whole request", "Whole", "e2e_p95_ms", false,
   "Share of the requests that took at most so long in all, one line a run; the dot is the 95th "
   "percentile."},
};

struct span {
  double low, high;
};

static struct span span_of(const struct kc_html *page, const char *metric)
{
  KC_ASSERT(page->run.rows > 0);
  struct span span = {.low = INFINITY};
  for (size_t i = 0; i < page->latency.rows; i++) {
    if (strcmp(kc_cells_text(&page->latency, i, "metric"), metric) != 0) continue;
    const double value = kc_cells_number(&page->latency, i, "latency_ms");
    span.low = fmin(span.low, value);
    span.high = fmax(span.high, value);
  }
  return span;
}

/* The one limit that all runs share; 0 without one. */
static double shared_limit(const struct kc_html *page, const char *setting)
{
  KC_ASSERT(page->run.rows > 0);
  const double first = kc_html_setting_number(page, 0, "slo", setting);
  for (size_t i = 1; i < page->run.rows; i++) {
    if (kc_html_setting_number(page, i, "slo", setting) != first) return 0;
  }
  return first;
}

static void draw_distribution(struct kc_html *page, const struct metric *metric, size_t run,
                              const struct kc_chart *chart)
{
  KC_ASSERT(run < page->run.rows);
  struct points points =
      points_of(&page->latency, run, metric->name, "latency_ms", "share_percent");
  const double p95 = kc_html_cell_number(page, run, metric->p95);
  kc_chart_line(chart, run, points.x, points.y, points.count, true);
  if (points.count > 0 && !isnan(p95) && p95 >= chart->x.low && p95 <= chart->x.high) {
    kc_chart_dot(chart, run, p95, 95, KC_DOT_LARGE);
  }
  free_points(&points);
}

static void write_distribution(struct kc_html *page, const struct metric *metric)
{
  KC_ASSERT(page->run.rows > 0);
  struct span span = span_of(page, metric->name);
  char text[KC_HTML_NUMBER_BYTES], label[KC_HTML_NUMBER_BYTES + 16];
  if (span.high <= 0) return; /* nobody got that far */
  const double limit = metric->limited ? shared_limit(page, metric->p95) : 0;
  const bool shown = limit > 0 && limit < 12 * span.high;
  if (shown) span.high = fmax(span.high, limit);
  struct kc_chart chart = kc_chart_frame(page->out, KC_CHART_HEIGHT,
                                         kc_axis_range(span.low, span.high, "at most (ms)"),
                                         (struct kc_axis){.high = 103, .label = metric->name[0] ==
                                                          'i' ? "% of gaps" : "% of requests"});
  fprintf(page->out, "<figure>\n<h3>%s</h3>\n", metric->title);
  kc_chart_open(&chart, ++page->pictures, metric->title, metric->description);
  if (shown) {
    snprintf(label, sizeof label, "limit %s ms", kc_html_number(text, limit, KC_ROUND_COUNT));
    kc_chart_limit(&chart, limit, label);
  }
  for (size_t run = page->run.rows; run-- > 0;) draw_distribution(page, metric, run, &chart);
  kc_chart_close(&chart);
  fputs("</figure>\n", page->out);
}

static void write_legend(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  if (page->run.rows == 1) return;
  fputs("<ul class=\"legend\">\n", page->out);
  for (size_t run = 0; run < page->run.rows; run++) {
    kc_html_legend_item(page, run, kc_html_cell(page, run, "name"));
  }
  fputs("</ul>\n", page->out);
}

void kc_html_pictures(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0 && page->run.rows <= KC_CHART_SERIES);
  fputs("<section>\n<h2>Pictures</h2>\n", page->out);
  write_legend(page);
  fputs("<div class=\"pictures\">\n", page->out);
  write_memory(page);
  for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) write_load(page, &loads[i]);
  for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
    write_distribution(page, &metrics[i]);
  }
  fputs("<div class=\"reading\"><h3>How to read these</h3>\n<p>Time is virtual: it starts with the "
        "first request. A distribution says which share took at most so long; its dot is the 95th "
        "percentile, an upright dashed line the limit. Scales with ticks at 1, 2 and 5 are "
        "logarithmic.</p></div>\n</div>\n</section>\n", page->out);
}

/* ---- the same as numbers ---- */

static void write_percentiles(const struct kc_html *page, const struct metric *metric, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  static const char *const parts[] = {"mean", "p50", "p90", "p95", "p99", "max"};
  char column[32];
  fputs("<tr><th scope=\"row\">", page->out);
  if (page->run.rows > 1) kc_html_chip(page, run);
  fprintf(page->out, "%s%s</th>", page->run.rows > 1 ? " " : "", metric->brief);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    snprintf(column, sizeof column, "%s_%s_ms", metric->name, parts[i]);
    kc_html_cell_figure(page, "td", "n", run, column, KC_ROUND_READING);
  }
  snprintf(column, sizeof column, "%s_count", metric->name);
  kc_html_cell_figure(page, "td", "n wide", run, column, KC_ROUND_COUNT);
  fputs("</tr>\n", page->out);
}

void kc_html_latencies(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  fputs("<section>\n<h2>Latencies</h2>\n<table class=\"dense\">\n<caption>Milliseconds; "
        "percentiles are nearest-rank over what completed</caption>\n<thead><tr>"
        "<th scope=\"col\">Time</th>"
        "<th scope=\"col\" class=\"n\">mean</th><th scope=\"col\" class=\"n\">p50</th>"
        "<th scope=\"col\" class=\"n\">p90</th><th scope=\"col\" class=\"n\">p95</th>"
        "<th scope=\"col\" class=\"n\">p99</th><th scope=\"col\" class=\"n\">max</th>"
        "<th scope=\"col\" class=\"n wide\">over</th></tr></thead>\n<tbody>\n", page->out);
  for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
    for (size_t run = 0; run < page->run.rows; run++) write_percentiles(page, &metrics[i], run);
  }
  fputs("</tbody>\n</table>\n</section>\n", page->out);
}

/* ---- classes and tenants ---- */

static void write_group(const struct kc_html *page, size_t row)
{
  static const struct {
    const char *column;
    enum kc_rounding rounding;
  } parts[] = {{"requests_total", KC_ROUND_COUNT}, {"slo_percent", KC_ROUND_TENTH},
               {"ttft_p95_ms", KC_ROUND_READING}, {"tpot_p95_ms", KC_ROUND_READING}};
  const struct kc_cells *groups = &page->groups;
  const size_t run = (size_t)kc_cells_number(groups, row, "series");
  const char *kind = kc_cells_text(groups, row, "kind");
  KC_ASSERT(run < page->run.rows);
  fputs("<tr><th scope=\"row\">", page->out);
  if (page->run.rows > 1) kc_html_chip(page, run);
  fprintf(page->out, " %s ", strcmp(kind, "warmth") == 0 ? "prompts" : kind);
  kc_html_text(page->out, kc_cells_text(groups, row, "name"));
  fputs("</th>", page->out);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char figure[128];
    snprintf(figure, sizeof figure, "%.16s_%.20s_%s", kind, kc_cells_text(groups, row, "number"),
             parts[i].column);
    kc_html_figure(page->out, "td", "n", kc_html_source_of(page, run), figure,
                   kc_cells_text(groups, row, parts[i].column), parts[i].rounding);
  }
  fputs("</tr>\n", page->out);
}

void kc_html_groups(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  if (page->groups.rows == 0) return;
  fputs("<section>\n<h2>Who got what</h2>\n<table>\n<caption>Cold and warm prompts, classes, "
        "tenants</caption>\n<thead><tr><th scope=\"col\">Who</th>"
        "<th scope=\"col\" class=\"n\">requests</th><th scope=\"col\" class=\"n\">in limits, %"
        "</th><th scope=\"col\" class=\"n\">TTFT p95, ms</th>"
        "<th scope=\"col\" class=\"n\">TPOT p95, ms</th></tr></thead>\n<tbody>\n", page->out);
  for (size_t row = 0; row < page->groups.rows; row++) write_group(page, row);
  fputs("</tbody>\n</table>\n</section>\n", page->out);
}

/* ---- replicas ---- */

static void write_replica(const struct kc_html *page, size_t row)
{
  static const struct {
    const char *column;
    enum kc_rounding rounding;
  } parts[] = {{"requests", KC_ROUND_COUNT}, {"output_tokens", KC_ROUND_COUNT},
               {"max_running", KC_ROUND_COUNT}, {"max_waiting", KC_ROUND_COUNT},
               {"kv_peak_percent", KC_ROUND_TENTH}};
  const struct kc_cells *replicas = &page->replicas;
  const size_t run = (size_t)kc_cells_number(replicas, row, "series");
  const char *number = kc_cells_text(replicas, row, "replica");
  KC_ASSERT(run < page->run.rows);
  fputs("<tr><th scope=\"row\">", page->out);
  if (page->run.rows > 1) kc_html_chip(page, run);
  fputs(" replica ", page->out);
  kc_html_text(page->out, number);
  fputs("</th>", page->out);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char figure[96];
    snprintf(figure, sizeof figure, "replica_%.20s_%s", number, parts[i].column);
    kc_html_figure(page->out, "td", i == 1 ? "n wide" : "n", kc_html_source_of(page, run), figure,
                   kc_cells_text(replicas, row, parts[i].column), parts[i].rounding);
  }
  fputs("</tr>\n", page->out);
}

void kc_html_replicas(struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->run.rows > 0);
  if (page->replicas.rows == 0) return;
  fputs("<section>\n<h2>Replicas</h2>\n<table class=\"dense\">\n<caption>What the router gave each"
        "</caption>\n<thead><tr><th scope=\"col\">Which</th>"
        "<th scope=\"col\" class=\"n\">requests</th>"
        "<th scope=\"col\" class=\"n wide\">output tokens</th>"
        "<th scope=\"col\" class=\"n\">running</th><th scope=\"col\" class=\"n\">waiting</th>"
        "<th scope=\"col\" class=\"n\">KV peak, %</th></tr></thead>\n<tbody>\n", out);
  for (size_t row = 0; row < page->replicas.rows; row++) write_replica(page, row);
  fputs("</tbody>\n</table>\n</section>\n", out);
}
