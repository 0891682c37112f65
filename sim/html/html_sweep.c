/* A sweep as words and tables: the question, the peak of each series, every point, what it rests
 * on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/html/html_internal.h"

enum { POINTS_SHOWN_MAX = 240, STARVED_SHOWN_MAX = 8 };

static const char *question(const struct kc_html *page, const char *column)
{
  KC_ASSERT(page->question.rows == 1);
  const char *text = kc_cells_text(&page->question, 0, column);
  return text != NULL ? text : "";
}

static bool has_across(const struct kc_html *page)
{
  KC_ASSERT(page->question.rows == 1);
  return strcmp(question(page, "across_title"), "none") != 0;
}

static const char *point_id(const struct kc_html *page, const struct kc_cells *cells, size_t row,
                            char id[64])
{
  KC_ASSERT(row < cells->rows);
  snprintf(id, 64, "%.30s/%.30s", question(page, "sweep"), kc_cells_text(cells, row, "point"));
  return id;
}

void kc_html_point_figure(const struct kc_html *page, const char *tag, const char *class,
                          const struct kc_cells *cells, size_t row, const char *column,
                          enum kc_rounding rounding)
{
  char id[64];
  KC_ASSERT(row < cells->rows);
  const struct kc_html_source source = {.kind = "point", .id = point_id(page, cells, row, id)};
  kc_html_figure(page->out, tag, class, source, column, kc_cells_text(cells, row, column),
                 rounding);
}

static bool has_load(const struct kc_html *page)
{
  KC_ASSERT(page->question.rows == 1);
  return strcmp(question(page, "load_title"), "none") != 0;
}

/* The axis is what is asked of the deployment, and not a part of it such as a tensor degree. */
static bool is_load(const struct kc_html *page)
{
  const char *title = question(page, "load_title");
  KC_ASSERT(title[0] != '\0');
  return strcmp(title, "requests at once") == 0 || strncmp(title, "request rate", 12) == 0;
}

/* The head of its column. */
static void put_load_heading(const struct kc_html *page)
{
  KC_ASSERT(page->question.rows == 1);
  if (is_load(page) || !has_load(page)) fputs("load", page->out);
  else kc_html_text(page->out, question(page, "load_title"));
}

/* A change in percent with its sign; nothing when it is not known or of the first series. */
static void write_change(const struct kc_html *page, const char *tag, const char *class, size_t row,
                         const char *column)
{
  const double change = kc_cells_number(&page->peak, row, column);
  char id[64], text[KC_HTML_NUMBER_BYTES];
  if (isnan(change) || kc_cells_number(&page->peak, row, "series") == 0) {
    fprintf(page->out, "<%s class=\"%s\"></%s>", tag, class, tag);
    return;
  }
  fprintf(page->out, "<%s class=\"%s\" data-point=\"", tag, class);
  kc_html_text(page->out, point_id(page, &page->peak, row, id));
  fprintf(page->out, "\" data-figure=\"%s\" data-value=\"", column);
  kc_html_text(page->out, kc_cells_text(&page->peak, row, column));
  fprintf(page->out, "\">%s%s %%</%s>", change > 0 ? "+" : "",
          kc_html_number(text, change, KC_ROUND_TENTH), tag);
}

/* ---- the question ---- */

void kc_html_sweep_lead(struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->spec->sweep);
  fputs("<p class=\"lead\">A sweep of <b>", out);
  kc_html_text(out, question(page, "points"));
  fputs("</b> points", out);
  if (has_across(page)) {
    fputs(": ", out);
    kc_html_text(out, question(page, "across_title"));
  }
  if (has_load(page)) {
    fputs(has_across(page) ? " by " : ": ", out);
    kc_html_text(out, question(page, "load_title"));
  }
  fputs(".", out);
  if (strcmp(question(page, "points"), question(page, "points_there")) != 0) {
    fputs(" Only <b>", out);
    kc_html_text(out, question(page, "points_there"));
    fputs("</b> of them are in this database.", out);
  }
  fputs("</p>\n", out);
}

/* ---- the answer: peaks ---- */

/* A paragraph that says how it went; the caller closes span and paragraph. */
static void open_verdict(const struct kc_html *page, const char *class)
{
  const char *sign = strcmp(class, "good") == 0 ? "✓" : strcmp(class, "warn") == 0 ? "!" : "✕";
  KC_ASSERT(page->out != NULL);
  fprintf(page->out, "<p class=\"verdict %s\"><span class=\"sign\" aria-hidden=\"true\">%s</span>"
                     "<span>", class, sign);
}

/* What the series of a row of sweep_peak has over the first, in one sentence. */
static void write_gain(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *peak = &page->peak;
  KC_ASSERT(row > 0);
  fputs("<p class=\"verdict good\"><span class=\"sign\" aria-hidden=\"true\">↑</span><span>"
        "<b>", out);
  kc_html_text(out, kc_cells_text(peak, row, "label"));
  fputs("</b> against <b>", out);
  kc_html_text(out, kc_cells_text(peak, 0, "label"));
  fputs("</b> at the peak of each: output ", out);
  write_change(page, "b", "n", row, "output_change_percent");
  fputs(", a token costs ", out);
  write_change(page, "b", "n", row, "cost_change_percent");
  if (has_load(page) && is_load(page)) {
    fputs("; largest load that was run and fits ", out);
    kc_html_point_figure(page, "b", "", peak, 0, "largest_load", KC_ROUND_COUNT);
    fputs(" → ", out);
    kc_html_point_figure(page, "b", "", peak, row, "largest_load", KC_ROUND_COUNT);
  }
  if (kc_cells_text(peak, row, "requests_fit") != NULL) {
    fputs(", memory holds ", out);
    kc_html_point_figure(page, "b", "", peak, 0, "requests_fit", KC_ROUND_COUNT);
    fputs(" → ", out);
    kc_html_point_figure(page, "b", "", peak, row, "requests_fit", KC_ROUND_COUNT);
    fputs(" requests", out);
  }
  fputs(".</span></p>\n", out);
}

static void write_peak(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *peak = &page->peak;
  fputs("<tr><th scope=\"row\">", out);
  kc_html_chip(page, (size_t)kc_cells_number(peak, row, "series"));
  fputs(" ", out);
  kc_html_text(out, kc_cells_text(peak, row, "label"));
  fputs("</th>", out);
  kc_html_point_figure(page, "td", "n", peak, row, "output_tok_s", KC_ROUND_READING);
  write_change(page, "td", "n", row, "output_change_percent");
  fputs("<td class=\"n\">", out);
  kc_html_text(out, kc_cells_text(peak, row, "load"));
  fputs("</td>", out);
  kc_html_point_figure(page, "td", "n", peak, row, "usd_per_mtok", KC_ROUND_MONEY);
  write_change(page, "td", "n wide", row, "cost_change_percent");
  kc_html_point_figure(page, "td", "n", peak, row, "requests_fit", KC_ROUND_COUNT);
  fputs("</tr>\n", out);
}

/* What the most output is, where nothing gains over the first series. */
static void write_most(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct kc_cells *peak = &page->peak;
  KC_ASSERT(peak->rows > 0);
  open_verdict(page, "good");
  if (peak->rows > 1) {
    fputs("None gives noticeably more output than <b>", out);
    kc_html_text(out, kc_cells_text(peak, 0, "label"));
    fputs("</b>: ", out);
  } else {
    fputs("The most output: ", out);
  }
  kc_html_point_figure(page, "b", "", peak, 0, "output_tok_s", KC_ROUND_READING);
  fputs(" tok/s", out);
  if (has_load(page)) {
    fputs(" at ", out);
    kc_html_text(out, question(page, "load_title"));
    fputs(" ", out);
    kc_html_text(out, kc_cells_text(peak, 0, "load"));
  }
  if (!isnan(kc_cells_number(peak, 0, "usd_per_mtok"))) {
    fputs(", a million output tokens cost $", out);
    kc_html_point_figure(page, "b", "", peak, 0, "usd_per_mtok", KC_ROUND_MONEY);
  }
  fputs(".</span></p>\n", out);
}

/* No series has a peak: nothing was run (`sweep --bill`), or nothing ran within memory. */
static void write_no_peak(const struct kc_html *page)
{
  size_t ran = 0, done = 0;
  for (size_t row = 0; row < page->point.rows; row++) {
    if (!isnan(kc_cells_number(&page->point, row, "output_tok_s"))) ran++;
    if (strcmp(kc_cells_text(&page->point, row, "status"), "done") == 0) done++;
  }
  KC_ASSERT(done <= page->point.rows);
  if (ran == 0 && done > 0) {
    open_verdict(page, "good");
    fprintf(page->out, "Nothing was run; of %zu points <b>%zu</b> fit in memory.</span></p>\n",
            page->point.rows, done);
    return;
  }
  open_verdict(page, "bad");
  fputs("No point ran within memory.</span></p>\n", page->out);
}

static void write_peaks(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct kc_cells *peak = &page->peak;
  double place = -1;
  fputs("<table class=\"dense\">\n<caption>The most output of each that memory allows; changes are "
        "against the first</caption>\n<thead><tr><th scope=\"col\">Series</th>"
        "<th scope=\"col\" class=\"n\">tok/s</th><th scope=\"col\" class=\"n\">change</th>"
        "<th scope=\"col\" class=\"n\">", out);
  put_load_heading(page);
  fputs("</th><th scope=\"col\" class=\"n\">$/Mtok</th>"
        "<th scope=\"col\" class=\"n wide\">change</th><th scope=\"col\" class=\"n\">fit</th></tr>"
        "</thead>\n<tbody>\n", out);
  for (size_t row = 0; row < peak->rows; row++) {
    if (has_across(page) && kc_cells_number(peak, row, "across_place") != place) {
      place = kc_cells_number(peak, row, "across_place");
      fputs("<tr><th scope=\"rowgroup\" colspan=\"7\">", out);
      kc_html_text(out, question(page, "across_title"));
      fputs(" ", out);
      kc_html_text(out, kc_cells_text(peak, row, "across"));
      fputs("</th></tr>\n", out);
    }
    write_peak(page, row);
  }
  fputs("</tbody>\n</table>\n", out);
}

/* The row of sweep_peak with the largest gain over the first series; 0 when none gains, or when
 * there are several contexts and so no one answer. */
static size_t best_row(const struct kc_html *page)
{
  size_t best = 0;
  double most = 0.05; /* less is written as 0.0 % */
  KC_ASSERT(page->peak.rows > 0);
  for (size_t row = 1; row < page->peak.rows && !has_across(page); row++) {
    const double change = kc_cells_number(&page->peak, row, "output_change_percent");
    if (change <= most || isnan(change)) continue;
    best = row;
    most = change;
  }
  return best;
}

static void write_unfit(const struct kc_html *page)
{
  FILE *const out = page->out;
  if (page->unfit.rows == 0) return;
  fputs("<p class=\"verdict bad\"><span class=\"sign\" aria-hidden=\"true\">✕</span>"
        "<span>Does not fit: ", out);
  for (size_t row = 0; row < page->unfit.rows; row++) {
    fputs(row > 0 ? ", <b>" : "<b>", out);
    kc_html_text(out, kc_cells_text(&page->unfit, row, "label"));
    fputs("</b>", out);
  }
  fputs(".</span></p>\n", out);
}

/* Series that ran and never within memory: they have no peak, and so no row below. */
static void write_starved(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct kc_cells *starved = &page->starved;
  const size_t shown = starved->rows < STARVED_SHOWN_MAX ? starved->rows : STARVED_SHOWN_MAX;
  if (starved->rows == 0) return;
  fputs("<p class=\"verdict bad\"><span class=\"sign\" aria-hidden=\"true\">✕</span>"
        "<span>Wants more memory than there is at every load that was run: ", out);
  for (size_t row = 0; row < shown; row++) {
    fputs(row > 0 ? ", <b>" : "<b>", out);
    kc_html_text(out, kc_cells_text(starved, row, "label"));
    fputs("</b>", out);
    if (has_across(page)) {
      fputs(" at ", out);
      kc_html_text(out, question(page, "across_title"));
      fputs(" ", out);
      kc_html_text(out, kc_cells_text(starved, row, "across"));
    }
    if (has_load(page)) {
      fputs(" from ", out);
      put_load_heading(page);
      fputs(" ", out);
      kc_html_text(out, kc_cells_text(starved, row, "load"));
      fputs(" on", out);
    }
  }
  if (shown < starved->rows) fprintf(out, " and %zu more, in the table", starved->rows - shown);
  fputs(".</span></p>\n", out);
}

/* ---- the SLO ---- */

/* The limits of the scenario as the sweep ran it, in milliseconds; 0 = none. */
struct limits {
  double ttft, tpot;
};

static double limit_in(const struct kc_document *document, const char *key)
{
  const struct kc_node *value = kc_node_get(kc_node_get(document->root, "slo"), key);
  double limit;
  KC_ASSERT(key != NULL);
  if (value == NULL || value->kind != KC_NODE_SCALAR) return 0;
  return kc_parse_double(value->text, strlen(value->text), &limit) && limit > 0 ? limit : 0;
}

/* None when an axis changes them, or when the text is no scenario: nothing is then said. */
static struct limits limits_of(const struct kc_html *page)
{
  struct kc_document document;
  struct limits limits = {0};
  const char *text = question(page, "scenario_text");
  KC_ASSERT(page->question.rows == 1);
  if (strstr(question(page, "axes"), "slo") != NULL) return limits;
  if (kc_document_parse(&document, "scenario", text, strlen(text), NULL) != KC_OK) return limits;
  bool sound = true;
  char *sets = strdup(question(page, "sets")), *rest = sets;
  for (char *set; sound && (set = strsep(&rest, "\n")) != NULL;) {
    if (set[0] != '\0') sound = kc_document_set(&document, set, NULL) == KC_OK;
  }
  if (sound && sets != NULL) {
    limits.ttft = limit_in(&document, "ttft_p95_ms");
    limits.tpot = limit_in(&document, "tpot_p95_ms");
  }
  free(sets);
  kc_document_free(&document);
  return limits;
}

/* ", first token 1,234 ms against 1,000 ms" when the row misses it. */
static bool put_miss(const struct kc_html *page, size_t row, const char *column, const char *name,
                     double limit, bool write)
{
  FILE *const out = page->out;
  const double value = kc_cells_number(&page->peak, row, column);
  char text[KC_HTML_NUMBER_BYTES];
  if (limit == 0 || value <= limit) return false;
  if (!write) return true;
  fprintf(out, ", %s ", name);
  kc_html_point_figure(page, "b", "", &page->peak, row, column, KC_ROUND_READING);
  fprintf(out, " ms against %s ms", kc_html_number(text, limit, KC_ROUND_READING));
  return true;
}

static bool put_misses(const struct kc_html *page, size_t row, struct limits limits, bool write)
{
  const bool first = put_miss(page, row, "ttft_p95_ms", "first token p95", limits.ttft, write);
  const bool each = put_miss(page, row, "tpot_p95_ms", "each token p95", limits.tpot, write);
  KC_ASSERT(row < page->peak.rows);
  return first || each;
}

/* Which series keep the scenario's limits at their peak, and what the others miss. */
static void write_slo(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct limits limits = limits_of(page);
  const size_t rows = page->peak.rows;
  size_t kept = 0;
  if (has_across(page) || rows == 0 || (limits.ttft == 0 && limits.tpot == 0)) return;
  for (size_t row = 0; row < rows; row++) kept += put_misses(page, row, limits, false) ? 0 : 1;
  KC_ASSERT(kept <= rows);
  open_verdict(page, kept == rows ? "good" : kept > 0 ? "warn" : "bad");
  fputs(rows == 1   ? kept == 0 ? "The SLO is missed" : "The SLO is kept"
        : kept == 0 ? "None keeps the SLO"
                    : "The SLO is kept by", out);
  if (rows == 1) put_misses(page, 0, limits, true);
  for (size_t row = 0, shown = 0; rows > 1 && row < rows; row++) {
    if (put_misses(page, row, limits, false)) continue;
    fputs(shown++ > 0 ? ", <b>" : " <b>", out);
    kc_html_text(out, kc_cells_text(&page->peak, row, "label"));
    fputs("</b>", out);
  }
  fputs(is_load(page) ? " at the peak of each." : ".", out);
  for (size_t row = 0; rows > 1 && row < rows; row++) {
    if (!put_misses(page, row, limits, false)) continue;
    fputs(" It is missed by <b>", out);
    kc_html_text(out, kc_cells_text(&page->peak, row, "label"));
    fputs("</b>", out);
    put_misses(page, row, limits, true);
    fputs(".", out);
  }
  fputs("</span></p>\n", out);
}

void kc_html_sweep_answer(struct kc_html *page)
{
  KC_ASSERT(page->spec->sweep);
  fprintf(page->out, "<section>\n<h2>%s</h2>\n", page->spec->runs ? "The sweep" : "The answer");
  write_slo(page);
  if (page->peak.rows == 0) {
    write_no_peak(page);
  } else if (best_row(page) > 0) {
    write_gain(page, best_row(page));
  } else if (!has_across(page)) {
    write_most(page);
  }
  write_unfit(page);
  write_starved(page);
  if (page->peak.rows > 0) write_peaks(page);
  fputs("</section>\n", page->out);
}

/* ---- every point ---- */

static void write_point(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *point = &page->point;
  fputs("<tr><th scope=\"row\">", out);
  kc_html_chip(page, (size_t)kc_cells_number(point, row, "series"));
  fputs("</th>", out);
  if (has_across(page)) {
    fputs("<td class=\"n\">", out);
    kc_html_text(out, kc_cells_text(point, row, "across"));
    fputs("</td>", out);
  }
  fputs("<td class=\"n\">", out);
  kc_html_text(out, kc_cells_text(point, row, "load"));
  fputs("</td><td>", out);
  kc_html_text(out, kc_cells_text(point, row, "region"));
  fputs("</td>", out);
  kc_html_point_figure(page, "td", "n", point, row, "output_tok_s", KC_ROUND_READING);
  kc_html_point_figure(page, "td", "n wide", point, row, "ttft_p95_ms", KC_ROUND_READING);
  kc_html_point_figure(page, "td", "n", point, row, "tpot_p95_ms", KC_ROUND_READING);
  kc_html_point_figure(page, "td", "n", point, row, "usd_per_mtok", KC_ROUND_MONEY);
  fputs("</tr>\n", out);
}

void kc_html_sweep_points(struct kc_html *page)
{
  FILE *const out = page->out;
  const size_t rows = page->point.rows;
  const size_t shown = rows < POINTS_SHOWN_MAX ? rows : POINTS_SHOWN_MAX;
  KC_ASSERT(shown <= rows);
  fputs("<section>\n<h2>Every point</h2>\n<table class=\"dense\">\n<caption>", out);
  if (shown < rows) {
    fprintf(out, "The first %zu of %zu points; the rest is in the database. ", shown, rows);
  }
  fputs("The axis of the pictures: ", out);
  kc_html_text(out, question(page, "load_title"));
  if (has_across(page)) {
    fputs("; across: ", out);
    kc_html_text(out, question(page, "across_title"));
  }
  fputs("</caption>\n<thead><tr><th scope=\"col\">Series</th>", out);
  if (has_across(page)) fputs("<th scope=\"col\" class=\"n\">across</th>", out);
  fputs("<th scope=\"col\" class=\"n\">", out);
  put_load_heading(page);
  fputs("</th><th scope=\"col\">region</th><th scope=\"col\" "
        "class=\"n\">tok/s</th><th scope=\"col\" class=\"n wide\">TTFT p95, ms</th>"
        "<th scope=\"col\" class=\"n\">TPOT p95, ms</th><th scope=\"col\" class=\"n\">$/Mtok</th>"
        "</tr></thead>\n<tbody>\n", out);
  for (size_t row = 0; row < shown; row++) write_point(page, row);
  fputs("</tbody>\n</table>\n</section>\n", out);
}

/* ---- what it rests on ---- */

void kc_html_trust_levels(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct kc_cells *levels = &page->levels;
  fputs("<ul class=\"plain\">\n", out);
  for (size_t i = 0; i < levels->rows; i++) {
    fputs("<li><b>", out);
    kc_html_text(out, kc_cells_text(levels, i, "points"));
    fputs("</b> points: <span class=\"trust ", out);
    kc_html_text(out, kc_cells_text(levels, i, "trust"));
    fputs("\">", out);
    kc_html_text(out, kc_cells_text(levels, i, "trust"));
    fputs("</span></li>\n", out);
  }
  fputs("</ul>\n<p class=\"note\">Calibrated: every step lies inside what was measured; "
        "extrapolated: some lie outside; datasheet: nothing was measured. What fits is derived "
        "from sizes alone.</p>\n", out);
}

static void write_text(const struct kc_html *page, const char *title, const char *column)
{
  const char *text = question(page, column);
  if (text[0] == '\0') return;
  fprintf(page->out, "<h3>%s</h3>\n<pre><code>", title);
  kc_html_text(page->out, text);
  fputs("</code></pre>\n", page->out);
}

void kc_html_sweep_basis(struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->question.rows == 1);
  fputs("<section>\n<h2>How far to trust the sweep</h2>\n", out);
  kc_html_trust_levels(page);
  fputs("</section>\n<section>\n<h2>How to get the sweep again</h2>\n<p>Every point is the "
        "scenario below with the settings of its point, and runs by itself with "
        "<code>kvcap run</code>; <code>kvcap sweep</code> with these changes and axes gives all of "
        "them.</p>\n", out);
  write_text(page, "Axes", "axes");
  write_text(page, "Changes of every point", "sets");
  write_text(page, "Scenario", "scenario_text");
  fputs("<dl class=\"hashes\">\n<dt>Sweep</dt><dd><code>", out);
  kc_html_text(out, question(page, "sweep_sha256"));
  fputs("</code></dd>\n<dt>Scenario file</dt><dd><code>", out);
  kc_html_text(out, question(page, "scenario_sha256"));
  fputs("</code></dd>\n</dl>\n</section>\n", out);
}
