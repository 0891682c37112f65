/* Tables of figures: a line a figure, a column a run, and of two runs the change. */
#include <math.h>
#include <string.h>

#include "sim/html/html_internal.h"

bool kc_html_change(const struct kc_html *page, const char *tag, const char *column)
{
  KC_ASSERT(page->run.rows > 0);
  const double a = kc_html_cell_number(page, 0, column), b = kc_html_cell_number(page, 1, column);
  char value[32], text[KC_HTML_NUMBER_BYTES];
  if (isnan(a) || isnan(b) || a == 0 || a == b) return false;
  const double change = 100 * (b / a - 1);
  snprintf(value, sizeof value, "%.15g", change);
  fprintf(page->out, "<%s class=\"n\" data-run=\"", tag);
  kc_html_text(page->out, kc_html_cell(page, 1, "run"));
  fprintf(page->out, "\" data-figure=\"change_%s\" data-value=\"%s\">%s%s %%</%s>", column, value,
          change > 0 ? "+" : "", kc_html_number(text, change, KC_ROUND_TENTH), tag);
  return true;
}

static void write_change_cell(const struct kc_html *page, const struct kc_html_line *line)
{
  KC_ASSERT(page->run.rows > 0);
  if (line->relative && kc_html_change(page, "td", line->column)) return;
  const char *a = kc_html_cell(page, 0, line->column);
  const char *b = kc_html_cell(page, 1, line->column);
  const bool same = a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
  fprintf(page->out, "<td class=\"n\">%s</td>", same ? "same" : "");
}

static bool known(const struct kc_html *page, const struct kc_html_line *line)
{
  KC_ASSERT(line->column != NULL);
  for (size_t run = 0; run < page->run.rows; run++) {
    if (kc_html_cell(page, run, line->column) != NULL) return true;
  }
  return strcmp(line->column, "oom_s") == 0; /* none is an answer */
}

static void write_line(const struct kc_html *page, const struct kc_html_line *line)
{
  KC_ASSERT(page->run.rows > 0);
  fprintf(page->out, "<tr><th scope=\"row\">%s</th>", line->title);
  for (size_t run = 0; run < page->run.rows; run++) {
    if (kc_html_cell(page, run, line->column) == NULL) {
      fprintf(page->out, "<td class=\"n\">%s</td>",
              strcmp(line->column, "oom_s") == 0 ? "never" : "–");
    } else {
      kc_html_cell_figure(page, "td", "n", run, line->column, line->rounding);
    }
  }
  if (page->run.rows == 2) write_change_cell(page, line);
  fputs("</tr>\n", page->out);
}

bool kc_html_lines(const struct kc_html *page, const char *caption,
                   const struct kc_html_line *lines, size_t count)
{
  FILE *const out = page->out;
  size_t first = 0;
  KC_ASSERT(page->run.rows > 0);
  while (first < count && !known(page, &lines[first])) first++;
  if (first == count) return false;
  fprintf(out, "<table class=\"%s\">\n<caption>%s</caption>\n<thead><tr><th scope=\"col\">Figure"
               "</th>", page->run.rows == 1 ? "narrow" : "wide-open", caption);
  for (size_t run = 0; run < page->run.rows; run++) {
    fputs("<th scope=\"col\" class=\"n\">", out);
    if (page->run.rows > 1) {
      kc_html_chip(page, run);
    } else {
      fputs("value", out);
    }
    fputs("</th>", out);
  }
  if (page->run.rows == 2) fputs("<th scope=\"col\" class=\"n\">B to A</th>", out);
  fputs("</tr></thead>\n<tbody>\n", out);
  for (size_t i = first; i < count; i++) {
    if (known(page, &lines[i])) write_line(page, &lines[i]);
  }
  fputs("</tbody>\n</table>\n", out);
  return true;
}

/* ---- money and energy ---- */

static const struct kc_html_line money[] = {
  {"In all, $", "usd_total", KC_ROUND_MONEY, true},
  {"Price of a GPU-hour, $", "gpu_hour_usd", KC_ROUND_MONEY, true},
  {"GPU-hours", "gpu_hours", KC_ROUND_READING, true},
  {"of them idle, %", "idle_percent", KC_ROUND_TENTH, false},
  {"of them cold starts, %", "cold_percent", KC_ROUND_TENTH, false},
  {"A million prompt tokens computed, $", "usd_per_mtok_input", KC_ROUND_MONEY, true},
  {"A million prompt tokens from the cache, $", "usd_per_mtok_cached", KC_ROUND_MONEY, true},
  {"A million output tokens decoded, $", "usd_per_mtok_output", KC_ROUND_MONEY, true},
  {"All of it on a million output tokens, $", "usd_per_mtok", KC_ROUND_MONEY, true},
  {"The same tokens at the API, $", "api_usd", KC_ROUND_MONEY, true},
  {"Own GPUs over the API, times", "api_ratio", KC_ROUND_READING, true},
  {"Break-even, requests/s", "break_even_req_s", KC_ROUND_READING, true},
  {"Break-even, % of what they can serve", "break_even_percent", KC_ROUND_TENTH, false},
  {"Energy, kWh", "kwh", KC_ROUND_READING, true},
  {"Energy of an output token, J", "joules_per_token", KC_ROUND_READING, true},
  {"Energy, $", "energy_usd", KC_ROUND_MONEY, true},
};

static void write_power(const struct kc_html *page)
{
  FILE *const out = page->out;
  KC_ASSERT(page->run.rows > 0);
  if (kc_html_cell(page, 0, "kwh") == NULL) return;
  fputs("<p class=\"note\">Energy is assumed, not measured: a GPU draws ", out);
  kc_html_cell_figure(page, "span", "", 0, "idle_w", KC_ROUND_COUNT);
  fputs(" W idle and ", out);
  kc_html_cell_figure(page, "span", "", 0, "power_w", KC_ROUND_COUNT);
  fputs(" W busy, the house ", out);
  kc_html_cell_figure(page, "span", "", 0, "pue", KC_ROUND_READING);
  fputs(" times that.</p>\n", out);
}

void kc_html_money(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  if (kc_html_cell(page, 0, "usd_total") == NULL && kc_html_cell(page, 0, "kwh") == NULL) return;
  fputs("<section>\n<h2>What it costs</h2>\n", page->out);
  kc_html_lines(page, "Money and energy of the whole run", money, sizeof money / sizeof money[0]);
  write_power(page);
  fputs("</section>\n", page->out);
}
