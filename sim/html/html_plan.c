/* The answer of a plan as words and tables: the deployment that was found, what was run beside it,
 * what the search took for granted, how to get it again. */
#include <math.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/html/html_internal.h"

enum { TRIED_SHOWN_MAX = 240, FIGURES_SHOWN_MAX = 3 };

static const char *plan_text(const struct kc_html *page, const char *column)
{
  KC_ASSERT(page->plan.rows == 1);
  const char *text = kc_cells_text(&page->plan, 0, column);
  return text != NULL ? text : "";
}

static double plan_number(const struct kc_html *page, const char *column)
{
  KC_ASSERT(page->plan.rows == 1);
  return kc_cells_number(&page->plan, 0, column);
}

static bool was_found(const struct kc_html *page)
{
  return !isnan(plan_number(page, "winner"));
}

/* Text whose lines may break after each `mark`. */
static void write_breakable(const struct kc_html *page, const char *text, char mark)
{
  KC_ASSERT(text != NULL && mark != '\0');
  for (; *text != '\0'; text++) {
    const char one[2] = {*text, '\0'};
    kc_html_text(page->out, one);
    if (*text == mark) fputs("<wbr>", page->out);
  }
}

/* ---- figures, and where they stand ---- */

/* Of the plan itself. */
static void plan_figure(const struct kc_html *page, const char *tag, const char *class,
                        const char *column, enum kc_rounding rounding)
{
  KC_ASSERT(column[0] != '\0');
  const struct kc_html_source source = {.kind = "plan", .id = plan_text(page, "sweep")};
  kc_html_figure(page->out, tag, class, source, column, kc_cells_text(&page->plan, 0, column),
                 rounding);
}

/* "3/17": of sweep 3; `number` of a point, or of one of the next units. */
static const char *id_of(const struct kc_html *page, const char *number, char id[64])
{
  snprintf(id, 64, "%.30s/%.30s", plan_text(page, "sweep"), number != NULL ? number : "");
  return id;
}

static void row_figure(const struct kc_html *page, const char *tag, const char *class,
                       const char *kind, const struct kc_cells *cells, size_t row,
                       const char *column, enum kc_rounding rounding)
{
  char id[64];
  const bool unit = strcmp(kind, "unit") == 0;
  KC_ASSERT(row < cells->rows);
  const struct kc_html_source source = {
      .kind = kind, .id = id_of(page, kc_cells_text(cells, row, unit ? "position" : "point"), id)};
  kc_html_figure(page->out, tag, class, source, column, kc_cells_text(cells, row, column),
                 rounding);
}

/* A figure of a point whose name is in the row, too. */
static void value_figure(const struct kc_html *page, const char *tag, const char *class,
                         const struct kc_cells *cells, size_t row, const char *point)
{
  char id[64];
  KC_ASSERT(row < cells->rows && point != NULL);
  const struct kc_html_source source = {.kind = "point", .id = id_of(page, point, id)};
  kc_html_figure(page->out, tag, class, source, kc_cells_text(cells, row, "figure"),
                 kc_cells_text(cells, row, "value"), KC_ROUND_READING);
}

/* Row of plan_tried with that role; SIZE_MAX: there is none. */
static size_t row_with_role(const struct kc_html *page, const char *role)
{
  KC_ASSERT(role[0] != '\0');
  for (size_t row = 0; row < page->tried.rows; row++) {
    if (strcmp(kc_cells_text(&page->tried, row, "role"), role) == 0) return row;
  }
  return SIZE_MAX;
}

static size_t shown_row(const struct kc_html *page)
{
  return row_with_role(page, was_found(page) ? "winner" : "best there is");
}

/* "3 × 1 h200", with the replicas that are bought; "3 (1 spare) × 4 h200". */
static void write_hardware(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *tried = &page->tried;
  KC_ASSERT(row < tried->rows);
  row_figure(page, "b", "", "candidate", tried, row, "bought", KC_ROUND_COUNT);
  if (kc_cells_number(tried, row, "spare") > 0) {
    fputs(" (", out);
    kc_html_text(out, kc_cells_text(tried, row, "spare"));
    fputs(" spare)", out);
  }
  fputs(" × ", out);
  kc_html_text(out, kc_cells_text(tried, row, "gpus_replica"));
  fputs(" ", out);
  kc_html_text(out, kc_cells_text(tried, row, "gpu"));
}

static void write_settings(const struct kc_html *page, size_t row)
{
  static const struct {
    const char *title, *column;
  } parts[] = {{"tensor ", "tensor"}, {", weights ", "weights"}, {", KV ", "kv"},
               {", page ", "page_size"}, {", chunk ", "chunk"},
               {", max running ", "max_running"}};
  KC_ASSERT(row < page->tried.rows);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    fputs(parts[i].title, page->out);
    kc_html_text(page->out, kc_cells_text(&page->tried, row, parts[i].column));
  }
}

/* "$13.77 an hour", or that no price is known. */
static void write_price(const struct kc_html *page, size_t row)
{
  if (kc_cells_text(&page->tried, row, "usd_hour") == NULL) {
    fputs("no price known", page->out);
    return;
  }
  fputs("$", page->out);
  row_figure(page, "b", "", "candidate", &page->tried, row, "usd_hour", KC_ROUND_MONEY);
  fputs(" an hour", page->out);
}

/* ---- the question ---- */

static void write_conditions(const struct kc_html *page)
{
  FILE *const out = page->out;
  const double spare = plan_number(page, "spare");
  for (size_t row = 0; row < page->limit.rows; row++) {
    fputs(row > 0 ? ", <b>" : "<b>", out);
    kc_html_text(out, kc_cells_text(&page->limit, row, "text"));
    fputs("</b>", out);
  }
  if (page->limit.rows == 0) fputs("no requirement", out);
  if (plan_number(page, "headroom_percent") > 0) {
    fputs(", with traffic ", out);
    plan_figure(page, "b", "", "headroom_percent", KC_ROUND_READING);
    fputs(" % faster", out);
  }
  if (spare > 0) {
    fputs(", with ", out);
    plan_figure(page, "b", "", "spare", KC_ROUND_COUNT);
    fprintf(out, " replica%s down", kc_plural((uint64_t)spare));
  }
  if (plan_number(page, "lost_percent") > 0) {
    fputs(", at most ", out);
    plan_figure(page, "b", "", "lost_percent", KC_ROUND_READING);
    fputs(" % of requests lost", out);
  }
  if (plan_number(page, "budget_usd_hour") > 0) {
    fputs(", at most $", out);
    plan_figure(page, "b", "", "budget_usd_hour", KC_ROUND_MONEY);
    fputs(" an hour", out);
  }
  if (plan_number(page, "gpus_max") > 0) {
    fputs(", at most ", out);
    plan_figure(page, "b", "", "gpus_max", KC_ROUND_COUNT);
    fprintf(out, " GPU%s", kc_plural((uint64_t)plan_number(page, "gpus_max")));
  }
}

void kc_html_plan_lead(struct kc_html *page)
{
  FILE *const out = page->out;
  const char *objective = plan_text(page, "objective");
  const char *goal = strcmp(objective, "gpus") == 0      ? "The smallest deployment"
                     : strcmp(objective, "goodput") == 0 ? "The deployment of the highest goodput"
                     : strcmp(objective, "usd") == 0     ? "The cheapest deployment"
                                                         : "The deployment of the highest output";
  fprintf(out, "<p class=\"lead\">%s with ", goal);
  write_conditions(page);
  fputs("; of ", out);
  plan_figure(page, "b", "", "candidates", KC_ROUND_COUNT);
  fputs(" candidates.</p>\n", out);
}

/* ---- the answer ---- */

static void write_verdict(const struct kc_html *page)
{
  FILE *const out = page->out;
  const bool found = was_found(page);
  const size_t row = shown_row(page);
  fprintf(out, "<p class=\"verdict %s\"><span class=\"sign\" aria-hidden=\"true\">%s</span><span>",
          found ? "good" : "bad", found ? "✓" : "✕");
  if (!found) {
    fputs(plan_number(page, "candidates") == 0
              ? "The limits of what may be bought leave no candidate. "
              : "Nothing that may be bought meets this. ", out);
  }
  if (row != SIZE_MAX) {
    if (!found) fputs("The best there is: ", out);
    write_hardware(page, row);
    fputs(", ", out);
    write_settings(page, row);
    fputs(": ", out);
    write_price(page, row);
    fputs(". ", out);
  }
  if (found && plan_text(page, "limited_by")[0] != '\0') {
    fputs("It is limited by <b>", out);
    kc_html_text(out, plan_text(page, "limited_by"));
    fputs("</b>", out);
    if (plan_text(page, "nearest")[0] != '\0') {
      fputs(", as ", out);
      kc_html_text(out, plan_text(page, "nearest"));
      fputs(" is nearest its limit", out);
    }
    fputs(".", out);
  }
  fputs("</span></p>\n", out);
}

static void write_tiles(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *tried = &page->tried;
  KC_ASSERT(row < tried->rows);
  fputs("<dl class=\"tiles\">\n", out);
  if (kc_cells_text(tried, row, "usd_hour") != NULL) {
    fputs("<div class=\"tile\"><dt>Price</dt><dd>$", out);
    row_figure(page, "b", "", "candidate", tried, row, "usd_hour", KC_ROUND_MONEY);
    fputs(" <span class=\"unit\">an hour</span></dd></div>\n", out);
  }
  fputs("<div class=\"tile\"><dt>GPUs</dt><dd>", out);
  row_figure(page, "b", "", "candidate", tried, row, "gpus", KC_ROUND_COUNT);
  fputs("</dd><dd class=\"more\">replicas: ", out);
  row_figure(page, "span", "", "candidate", tried, row, "bought", KC_ROUND_COUNT);
  fputs("</dd></div>\n", out);
  if (plan_text(page, "usd_per_mtok")[0] != '\0') {
    char id[64];
    const struct kc_html_source source = {
        .kind = "point", .id = id_of(page, kc_cells_text(&page->plan, 0, "as_bought"), id)};
    fputs("<div class=\"tile\"><dt>A token</dt><dd>$", out);
    kc_html_figure(out, "b", "", source, "usd_per_mtok", plan_text(page, "usd_per_mtok"),
                   KC_ROUND_MONEY);
    fputs(" <span class=\"unit\">a million output tokens</span></dd></div>\n", out);
  }
  if (page->limit.rows > 0 && kc_cells_text(tried, row, "used_percent") != NULL) {
    const bool meets = kc_cells_number(tried, row, "meets") == 1;
    fprintf(out, "<div class=\"tile %s\"><dt>Nearest limit</dt><dd>", meets ? "good" : "bad");
    row_figure(page, "b", "", "candidate", tried, row, "used_percent", KC_ROUND_TENTH);
    fputs(" <span class=\"unit\">% of it used</span></dd></div>\n", out);
  }
  fputs("</dl>\n", out);
}

static void write_limits(const struct kc_html *page)
{
  FILE *const out = page->out;
  const struct kc_cells *limit = &page->limit;
  if (limit->rows == 0) return;
  fputs("<h3>Its figures against the limits</h3>\n<table class=\"narrow\">\n<thead><tr>"
        "<th scope=\"col\">Requirement</th><th scope=\"col\" class=\"n\">value</th>"
        "<th scope=\"col\" class=\"n\">limit used, %</th><th scope=\"col\">met</th></tr></thead>\n"
        "<tbody>\n", out);
  for (size_t row = 0; row < limit->rows; row++) {
    const char *met = kc_cells_text(limit, row, "met");
    fputs("<tr><th scope=\"row\">", out);
    kc_html_text(out, kc_cells_text(limit, row, "text"));
    fputs("</th>", out);
    if (kc_cells_text(limit, row, "value") != NULL) {
      char id[64], figure[128];
      const struct kc_html_source source = {
          .kind = "point", .id = id_of(page, kc_cells_text(limit, row, "point"), id)};
      value_figure(page, "td", "n", limit, row, kc_cells_text(limit, row, "point"));
      snprintf(figure, sizeof figure, "used_%.100s_percent", kc_cells_text(limit, row, "position"));
      kc_html_figure(out, "td", "n", source, figure, kc_cells_text(limit, row, "used_percent"),
                     KC_ROUND_TENTH);
    } else {
      fputs("<td class=\"n\">does not exist</td><td></td>", out);
    }
    fprintf(out, "<td>%s</td></tr>\n", met != NULL && strcmp(met, "1") == 0 ? "yes" : "no");
  }
  fputs("</tbody>\n</table>\n", out);
}

/* The runner-up, and the nearest of those that missed. */
static void write_others(const struct kc_html *page)
{
  static const char *const roles[][2] = {{"runner-up", "Runner-up"},
                                         {"nearest miss", "Nearest miss"}};
  FILE *const out = page->out;
  bool open = false;
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
    const size_t row = row_with_role(page, roles[i][0]);
    if (row == SIZE_MAX) continue;
    if (!open) fputs("<h3>Next to it</h3>\n<ul class=\"plain\">\n", out);
    open = true;
    fprintf(out, "<li>%s: ", roles[i][1]);
    write_hardware(page, row);
    fputs(", ", out);
    write_settings(page, row);
    fputs(": ", out);
    write_price(page, row);
    const char *why = kc_cells_text(&page->tried, row, "why");
    if (why != NULL && why[0] != '\0') {
      fputs("; misses ", out);
      kc_html_text(out, why);
    }
    fputs("</li>\n", out);
  }
  if (open) fputs("</ul>\n", out);
}

/* ---- one more unit ---- */

/* The first requirements, whose figures have a column. */
static size_t figures_shown(const struct kc_html *page)
{
  return page->limit.rows < FIGURES_SHOWN_MAX ? page->limit.rows : FIGURES_SHOWN_MAX;
}

static void write_figure_heads(const struct kc_html *page)
{
  for (size_t i = 0; i < figures_shown(page); i++) {
    fputs("<th scope=\"col\" class=\"n\">", page->out);
    write_breakable(page, kc_cells_text(&page->limit, i, "figure"), '_');
    fputs("</th>", page->out);
  }
}

/* The figures of one row: those of `values` that belong to it, in the order of the requirements. */
static void write_more_values(const struct kc_html *page, const char *position)
{
  const struct kc_cells *values = &page->more_value;
  KC_ASSERT(position != NULL);
  for (size_t i = 0; i < values->rows; i++) {
    if (strcmp(kc_cells_text(values, i, "position"), position) != 0) continue;
    if (kc_cells_number(values, i, "requirement") >= (double)figures_shown(page)) continue;
    value_figure(page, "td", "n", values, i, kc_cells_text(values, i, "point"));
  }
}

static void write_unit(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *more = &page->more;
  KC_ASSERT(row < more->rows);
  fputs("<tr><th scope=\"row\">", out);
  kc_html_text(out, kc_cells_text(more, row, "what"));
  fputs("</th>", out);
  if (kc_cells_text(more, row, "point") == NULL) {
    fprintf(out, "<td colspan=\"%zu\">not possible: ", 3 + figures_shown(page));
    kc_html_text(out, kc_cells_text(more, row, "why"));
    fputs("</td></tr>\n", out);
    return;
  }
  row_figure(page, "td", "n", "unit", more, row, "gpus", KC_ROUND_COUNT);
  row_figure(page, "td", "n", "unit", more, row, "usd_hour", KC_ROUND_MONEY);
  write_more_values(page, kc_cells_text(more, row, "position"));
  row_figure(page, "td", "n", "unit", more, row, "used_percent", KC_ROUND_TENTH);
  fputs("</tr>\n", out);
}

static void write_units(const struct kc_html *page)
{
  FILE *const out = page->out;
  if (page->more.rows == 0) return;
  fputs("<h3>One more unit of...</h3>\n<table class=\"dense\">\n<caption>The winner with one thing "
        "changed, run under the same traffic</caption>\n<thead><tr><th scope=\"col\">What</th>"
        "<th scope=\"col\" class=\"n\">GPUs</th><th scope=\"col\" class=\"n\">$/h</th>", out);
  write_figure_heads(page);
  fputs("<th scope=\"col\" class=\"n\">limit used, %</th></tr></thead>\n<tbody>\n", out);
  for (size_t row = 0; row < page->more.rows; row++) write_unit(page, row);
  fputs("</tbody>\n</table>\n", out);
}

void kc_html_plan_answer(struct kc_html *page)
{
  const size_t row = shown_row(page);
  KC_ASSERT(page->spec->plan);
  fprintf(page->out, "<section>\n<h2>%s</h2>\n", page->spec->runs ? "The plan" : "The answer");
  write_verdict(page);
  if (row != SIZE_MAX) {
    write_tiles(page, row);
    write_limits(page);
    write_others(page);
  }
  write_units(page);
  fputs("</section>\n", page->out);
}

/* ---- what was run ---- */

static void write_candidate(const struct kc_html *page, size_t row)
{
  FILE *const out = page->out;
  const struct kc_cells *tried = &page->tried;
  const char *role = kc_cells_text(tried, row, "role"), *why = kc_cells_text(tried, row, "why");
  const bool meets = kc_cells_number(tried, row, "meets") == 1;
  KC_ASSERT(role != NULL);
  fputs("<tr><th scope=\"row\">", out);
  kc_html_chip(page, (size_t)kc_cells_number(tried, row, "series"));
  fputs(" ", out);
  write_hardware(page, row);
  fputs("<br><small>", out);
  write_settings(page, row);
  fputs("</small></th>", out);
  row_figure(page, "td", "n wide", "candidate", tried, row, "gpus", KC_ROUND_COUNT);
  row_figure(page, "td", "n", "candidate", tried, row, "usd_hour", KC_ROUND_MONEY);
  row_figure(page, "td", "n", "candidate", tried, row, "used_percent", KC_ROUND_TENTH);
  fputs("<td>", out);
  if (role[0] != '\0') fputs("<b>", out);
  kc_html_text(out, role);
  if (role[0] != '\0') fputs("</b>", out);
  if (!meets) {
    fputs(role[0] != '\0' ? "; misses " : "misses ", out);
    write_breakable(page, why != NULL ? why : "", '_');
    if (kc_cells_text(tried, row, "worst_value") != NULL) {
      char id[64];
      const struct kc_html_source source = {
          .kind = "point", .id = id_of(page, kc_cells_text(tried, row, "point"), id)};
      fputs(": ", out);
      kc_html_figure(out, "span", "", source, kc_cells_text(tried, row, "worst_figure"),
                     kc_cells_text(tried, row, "worst_value"), KC_ROUND_READING);
    }
  } else if (role[0] == '\0') {
    fputs("meets everything", out);
  }
  fputs("</td></tr>\n", out);
}

void kc_html_plan_tried(struct kc_html *page)
{
  FILE *const out = page->out;
  const size_t rows = page->tried.rows;
  const size_t shown = rows < TRIED_SHOWN_MAX ? rows : TRIED_SHOWN_MAX;
  KC_ASSERT(page->spec->plan);
  if (rows == 0) return;
  fputs("<section>\n<h2>Candidates that were run</h2>\n<table class=\"dense\">\n<caption>", out);
  if (shown < rows) {
    fprintf(out, "The first %zu of %zu; the rest is in the database. ", shown, rows);
  }
  fputs("The winner, what else meets everything, then what misses; by price. \"Used\" is the worst "
        "figure as percent of its limit.</caption>\n<thead><tr><th scope=\"col\">Deployment</th>"
        "<th scope=\"col\" class=\"n wide\">GPUs</th><th scope=\"col\" class=\"n\">$/h</th>"
        "<th scope=\"col\" class=\"n\">used, %</th><th scope=\"col\">outcome</th></tr></thead>\n"
        "<tbody>\n", out);
  for (size_t row = 0; row < shown; row++) write_candidate(page, row);
  fputs("</tbody>\n</table>\n</section>\n", out);
}

/* ---- what it takes for granted ---- */

static void write_axes(const struct kc_html *page)
{
  FILE *const out = page->out;
  fputs("<h3>What it may choose from</h3>\n<dl class=\"settings\">\n", out);
  for (size_t row = 0; row < page->option.rows; row++) {
    const char *name = kc_cells_text(&page->option, row, "name");
    if (name[0] == '\0') continue;
    fputs("<div><dt>", out);
    kc_html_text(out, name);
    fputs("</dt><dd>", out);
    write_breakable(page, kc_cells_text(&page->option, row, "value"), ',');
    fputs("</dd></div>\n", out);
  }
  fputs("</dl>\n", out);
}

/* What did not become a candidate, with the sentence of the first. */
static void write_left_out(const struct kc_html *page, const char *count, const char *why,
                           const char *what)
{
  KC_ASSERT(what[0] != '\0');
  if (plan_number(page, count) == 0) return;
  fputs("<li>", page->out);
  plan_figure(page, "b", "", count, KC_ROUND_COUNT);
  fputs(" of ", page->out);
  plan_figure(page, "b", "", "combinations", KC_ROUND_COUNT);
  fprintf(page->out, " combinations %s: ", what);
  kc_html_text(page->out, plan_text(page, why));
  fputs("</li>\n", page->out);
}

void kc_html_plan_assumptions(struct kc_html *page)
{
  FILE *const out = page->out;
  fputs("<section>\n<h2>What it takes for granted</h2>\n<ul class=\"plain\">\n<li>A deployment "
        "costs what its GPUs cost for an hour, busy or not.</li>\n<li>", out);
  if (plan_number(page, "by_assumption") > 0) {
    plan_figure(page, "b", "", "by_assumption", KC_ROUND_COUNT);
    fputs(" candidates were decided by another that failed clearly with as many or more replicas, "
          "or faster steps, as many pages and as many replicas: this assumes that more and faster "
          "hardware never hurts. <code>--exhaustive</code> runs them all.</li>\n", out);
  } else {
    fputs("No candidate was decided by an assumption.</li>\n", out);
  }
  fputs("<li>Bounds hold for every schedule where steps cost as plain efficiencies of a dense "
        "model say; elsewhere 30 % are taken off the work.</li>\n", out);
  write_left_out(page, "no_fit", "why_no_fit", "do not fit");
  write_left_out(page, "refused", "why_refused", "make no sense");
  fputs("<li>Whatever is not listed here is the scenario's own, below.</li>\n</ul>\n", out);
  write_axes(page);
  fputs("</section>\n", out);
}

/* ---- again ---- */

/* 'text' as a shell reads it back. */
static void write_quoted(FILE *out, const char *text)
{
  fputs("&#39;", out);
  for (; *text != '\0'; text++) {
    const char one[2] = {*text, '\0'};
    if (*text == '\'') {
      fputs("&#39;\\&#39;&#39;", out);
    } else {
      kc_html_text(out, one);
    }
  }
  fputs("&#39;", out);
}

static void write_option(FILE *out, const char *name, const char *value)
{
  KC_ASSERT(name[0] != '\0');
  fprintf(out, " \\\n  --%s ", name);
  write_quoted(out, value);
}

/* The line that asks the same question again. */
static void write_question(const struct kc_html *page)
{
  FILE *const out = page->out;
  char line[4096];
  fputs("<h3>The plan</h3>\n<pre><code>kvcap plan SCENARIO", out);
  for (const char *sets = plan_text(page, "sets"); *sets != '\0';) {
    const size_t bytes = strcspn(sets, "\n");
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), sets);
    write_option(out, "set", line);
    sets += bytes + (sets[bytes] == '\n');
  }
  for (size_t row = 0; row < page->option.rows; row++) {
    const char *name = kc_cells_text(&page->option, row, "name");
    write_option(out, name[0] != '\0' ? name : "slo", kc_cells_text(&page->option, row, "value"));
  }
  static const struct {
    const char *option, *column;
  } numbers[] = {{"spare", "spare"}, {"headroom", "headroom_percent"}, {"lost", "lost_percent"}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (plan_number(page, numbers[i].column) > 0) {
      write_option(out, numbers[i].option, plan_text(page, numbers[i].column));
    }
  }
  if (strcmp(plan_text(page, "objective"), "usd") != 0) {
    write_option(out, "objective", plan_text(page, "objective"));
  }
  fputs("</code></pre>\n", out);
}

static void write_command(const struct kc_html *page, const char *title, const char *column)
{
  if (plan_text(page, column)[0] == '\0') return;
  fprintf(page->out, "<h3>%s</h3>\n<pre><code>", title);
  kc_html_text(page->out, plan_text(page, column));
  fputs("</code></pre>\n", page->out);
}

void kc_html_plan_basis(struct kc_html *page)
{
  FILE *const out = page->out;
  fputs("<section>\n<h2>How far to trust the plan</h2>\n", out);
  kc_html_trust_levels(page);
  fputs("</section>\n<section>\n<h2>How to get the plan again</h2>\n<p>SCENARIO is a file with the "
        "text below.</p>\n", out);
  write_command(page, "The winner and its figures", "command");
  write_command(page, "The winner with its spare replicas, under the traffic as recorded",
                "command_bought");
  write_question(page);
  fputs("<h3>Scenario</h3>\n<pre><code>", out);
  kc_html_text(out, plan_text(page, "scenario_text"));
  fputs("</code></pre>\n<dl class=\"hashes\">\n<dt>Question</dt><dd><code>", out);
  kc_html_text(out, plan_text(page, "sweep_sha256"));
  fputs("</code></dd>\n<dt>Scenario file</dt><dd><code>", out);
  kc_html_text(out, plan_text(page, "scenario_sha256"));
  fputs("</code></dd>\n</dl>\n</section>\n", out);
}
