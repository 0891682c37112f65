/* What the figures rest on: how far each can be trusted, and how to get them again. */
#include <math.h>
#include <string.h>

#include "sim/html/html_internal.h"

/* ---- trust ---- */

static const struct {
  const char *level, *meaning;
} meanings[] = {
  {"calibrated", "fitted to measurements, and every step lies inside what was measured"},
  {"extrapolated", "fitted to measurements, but some steps lie outside what was measured"},
  {"datasheet", "rates of the datasheet with plain efficiencies; nothing was measured, so expect "
                "tens of percent"},
  {"unknown", "stored by a program that did not say"},
};

static const char *meaning_of(const char *level)
{
  KC_ASSERT(level != NULL);
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
    if (strcmp(meanings[i].level, level) == 0) return meanings[i].meaning;
  }
  return "";
}

static void write_times_reason(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  const char *profile = kc_html_cell(page, run, "profile");
  const char *not_measured = kc_html_cell(page, run, "not_measured");
  fputs(meaning_of(kc_html_trust(page, run)), out);
  if (profile != NULL) {
    fputs(". Profile <code>", out);
    kc_html_text(out, profile);
    fputs("</code>", out);
    if (kc_html_cell_number(page, run, "host_term_measured") == 0) {
      fputs(", host term not measured", out);
    }
  }
  if (not_measured != NULL) {
    fputs("; not measured: ", out);
    kc_html_text(out, not_measured);
  }
  if (kc_html_cell_number(page, run, "outside_percent") > 0) {
    fputs("; ", out);
    kc_html_cell_figure(page, "span", "", run, "outside_percent", KC_ROUND_TENTH);
    fputs(" % of the step time lies outside", out);
  }
  fputs(".", out);
}

static void write_headroom(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  if (kc_html_cell(page, run, "headroom_percent") == NULL) return;
  fputs(" Headroom to the nearest limit: ", out);
  kc_html_cell_figure(page, "span", "", run, "headroom_percent", KC_ROUND_TENTH);
  fputs(" % (about ", out);
  kc_html_cell_figure(page, "span", "", run, "most_requests_per_s", KC_ROUND_READING);
  fputs(" requests/s could be served for ever, however late); near a limit, waiting times are far "
        "less certain than the step times they come from.", out);
}

/* The cells before the reason. `run` says whose trust it is; `named` whether that is said. */
static void open_row(const struct kc_html *page, size_t run, bool named, const char *figures,
                     const char *level)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  fputs("<tr><th scope=\"row\">", out);
  if (named) {
    kc_html_chip(page, run);
    fputs(" ", out);
  }
  fprintf(out, "%s</th><td><span class=\"trust ", figures);
  kc_html_text(out, level);
  fputs("\">", out);
  kc_html_text(out, level);
  fputs("</span></td><td>", out);
}

/* What holds for the times holds for whatever is computed from them. */
static void write_trust(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  const bool named = page->run.rows > 1;
  open_row(page, 0, false, "Weights, KV pool, what fits", "derived");
  fputs("sizes from the model's shapes and the server's memory rule; no fitted parameter.</td></tr>"
        "\n", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    open_row(page, run, named, "Latencies, tokens per second, load", kc_html_trust(page, run));
    write_times_reason(page, run);
    write_headroom(page, run);
    fputs("</td></tr>\n", out);
  }
  open_row(page, 0, false, "Out of memory", "derived");
  fputs("whether memory runs out follows from sizes; when, from the times, and is worth what they "
        "are.</td></tr>\n", out);
  open_row(page, 0, false, "Cost", "as the times");
  fputs("the price that the scenario states over tokens per second: as good as those.</td></tr>\n",
        out);
}

static void write_intervals(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  const struct kc_cells *table = &page->intervals;
  if (table->rows == 0) return;
  fputs("<table>\n<caption>Where the figures lie if the step times are off: replicates, "
        "widened where nothing measured vouches for them</caption>\n"
        "<thead><tr><th scope=\"col\">Figure</th><th scope=\"col\" class=\"n\">5 %</th>"
        "<th scope=\"col\" class=\"n\">median</th><th scope=\"col\" class=\"n\">95 %</th></tr>"
        "</thead>\n<tbody>\n", out);
  for (size_t i = 0; i < table->rows; i++) {
    static const char *const parts[] = {"p5", "p50", "p95"};
    const size_t run = (size_t)kc_cells_number(table, i, "series");
    const char *name = kc_cells_text(table, i, "figure");
    fputs("<tr><th scope=\"row\">", out);
    if (page->run.rows > 1) kc_html_chip(page, run);
    fputs(" <code>", out);
    kc_html_text(out, name);
    fputs("</code></th>", out);
    for (size_t part = 0; part < 3; part++) {
      char figure[96];
      snprintf(figure, sizeof figure, "interval_%.64s_%s", name, parts[part]);
      kc_html_figure(out, "td", "n", kc_html_source_of(page, run), figure,
                     kc_cells_text(table, i, parts[part]), KC_ROUND_READING);
    }
    fputs("</tr>\n", out);
  }
  fputs("</tbody>\n</table>\n", out);
}

void kc_html_basis(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  fputs("<section>\n<h2 id=\"trust\">How far to trust it</h2>\n<table class=\"prose\">\n"
        "<caption>What each figure rests on</caption>\n<thead><tr><th scope=\"col\">Figures</th>"
        "<th scope=\"col\">Trust</th><th scope=\"col\">Why</th></tr></thead>\n<tbody>\n",
        page->out);
  write_trust(page);
  fputs("</tbody>\n</table>\n", page->out);
  write_intervals(page);
  fputs("</section>\n", page->out);
}

/* ---- how to get it again ---- */

static void hash_row(const struct kc_html *page, size_t run, const char *title, const char *column)
{
  KC_ASSERT(run < page->run.rows);
  const char *value = kc_html_cell(page, run, column);
  if (value == NULL || value[0] == '\0') return;
  fprintf(page->out, "<dt>%s</dt><dd><code>", title);
  kc_html_text(page->out, value);
  fputs("</code></dd>\n", page->out);
}

static void write_commands(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<pre><code>", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    const char *id = kc_html_cell(page, run, "run");
    fprintf(out, "sqlite3 kvcap.db 'SELECT scenario_text FROM run WHERE id = %s' &gt; run-%s.yaml\n"
                 "kvcap run run-%s.yaml\n", id, id, id);
  }
  fputs("kvcap report kvcap.db --run ", out);
  for (size_t run = 0; run < page->run.rows; run++) {
    fprintf(out, "%s%s", run > 0 ? "," : "", kc_html_cell(page, run, "run"));
  }
  fputs(" --html page.html\n</code></pre>\n", out);
}

void kc_html_reproduce(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<section>\n<h2>How to get it again</h2>\n<p>The same scenario, trace, seed and version "
        "give the same result hash on any machine. <code>kvcap.db</code> stands for the database "
        "of this page.</p>\n", out);
  write_commands(page);
  for (size_t run = 0; run < page->run.rows; run++) {
    kc_html_run_title(page, run);
    fputs("<dl class=\"hashes\">\n", out);
    hash_row(page, run, "Run", "run");
    hash_row(page, run, "Version", "version");
    hash_row(page, run, "Commit", "commit_id");
    hash_row(page, run, "Seed", "seed");
    hash_row(page, run, "Result", "result_sha256");
    hash_row(page, run, "Scenario file", "scenario_sha256");
    hash_row(page, run, "Trace", "trace_sha256");
    fputs("</dl>\n", out);
  }
  fputs("</section>\n", out);
}
