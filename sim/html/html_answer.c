/* The answer first: what fits, how many at once, where memory runs out, latencies against their
 * limits, and the price. One run as tiles, several as a table. */
#include <math.h>
#include <string.h>

#include "sim/html/html_internal.h"

/* ---- the verdict ---- */

enum grade { GRADE_GOOD, GRADE_WARN, GRADE_BAD };
static const char *const grade_class[] = {"good", "warn", "bad"};
static const char *const grade_mark[] = {"✓", "!", "✕"};

static const struct limit {
  const char *figure, *name; /* figure: also the key under slo */
} limits[] = {
  {"ttft_p95_ms", "time to first token"},
  {"tpot_p95_ms", "time per output token"},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

/* More requests had no answer than a 95th percentile leaves out: what was answered is then not what
 * the limit is about (`run` says the same). */
static bool lost_too_many(const struct kc_html *page, size_t run)
{
  const double lost = kc_html_cell_number(page, run, "requests_unserved");
  const double all = kc_html_cell_number(page, run, "requests_total");
  KC_ASSERT(run < page->run.rows);
  return 20 * lost > all;
}

static double limit_of(const struct kc_html *page, size_t run, const struct limit *limit)
{
  return kc_html_setting_number(page, run, "slo", limit->figure);
}

/* 0: not stated, or nothing to hold against it; 1: met; -1: missed. */
static int limit_met(const struct kc_html *page, size_t run, const struct limit *limit)
{
  const double most = limit_of(page, run, limit);
  const double value = kc_html_cell_number(page, run, limit->figure);
  KC_ASSERT(most >= 0);
  if (most == 0 || isnan(value)) return 0;
  return value <= most && !lost_too_many(page, run) ? 1 : -1;
}

/* A class of the workload states a limit of its own. */
static bool has_class_limits(const struct kc_html *page, size_t run)
{
  static const char *const keys[] = {"ttft_ms", "tpot_ms"};
  const struct kc_node *workload = kc_node_get(page->document[run].root, "workload");
  const struct kc_node *classes = kc_node_get(workload, "classes");
  KC_ASSERT(run < page->run.rows);
  if (classes == NULL || classes->kind != KC_NODE_LIST) return false;
  for (const struct kc_node *class = classes->child; class != NULL; class = class->next) {
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
      const struct kc_node *value = kc_node_get(class, keys[i]);
      if (value != NULL && value->kind == KC_NODE_SCALAR && strcmp(value->text, "0") != 0) {
        return true;
      }
    }
  }
  return false;
}

static enum grade grade_of(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  bool missed = false;
  for (size_t i = 0; i < LIMITS; i++) missed |= limit_met(page, run, &limits[i]) < 0;
  if (missed || !isnan(kc_html_cell_number(page, run, "oom_s"))) return GRADE_BAD;
  return kc_html_cell_number(page, run, "requests_unserved") > 0 ? GRADE_WARN : GRADE_GOOD;
}

static void write_missed(const struct kc_html *page, size_t run, const struct limit *limit)
{
  FILE *const out = page->out;
  KC_ASSERT(limit_met(page, run, limit) < 0);
  fprintf(out, "The limit on the %s is missed", limit->name);
  if (kc_html_cell_number(page, run, limit->figure) <= limit_of(page, run, limit)) {
    fputs(", as ", out);
    kc_html_cell_figure(page, "b", "", run, "requests_unserved", KC_ROUND_COUNT);
    fputs(" requests had no answer", out);
  }
  fputs(". ", out);
}

/* Limits that classes state; requests of a class without limits keep them by being completed. */
static void write_class_limits(const struct kc_html *page, size_t run)
{
  FILE *const out = page->out;
  fputs("Classes state limits of their own: ", out);
  kc_html_cell_figure(page, "b", "", run, "slo_met", KC_ROUND_COUNT);
  fputs(" of ", out);
  kc_html_cell_figure(page, "b", "", run, "requests_total", KC_ROUND_COUNT);
  fputs(" requests were completed within those of their class.", out);
}

static void write_limits_sentence(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  size_t asked = 0, met = 0, unknown = 0;
  const struct limit *untested = NULL;
  for (size_t i = 0; i < LIMITS; i++) {
    const int verdict = limit_met(page, run, &limits[i]);
    if (limit_of(page, run, &limits[i]) == 0) continue;
    asked++;
    met += verdict > 0;
    unknown += verdict == 0;
    if (verdict == 0) untested = &limits[i];
    if (verdict < 0) write_missed(page, run, &limits[i]);
  }
  if (asked == 0) {
    if (has_class_limits(page, run)) write_class_limits(page, run);
    else fputs("No latency limit was stated.", out);
  } else if (unknown == LIMITS) {
    fputs("Whether the latency limits are met is not known: no request was served.", out);
  } else if (unknown > 0) {
    const bool none = kc_html_cell_number(page, run, "requests_completed") == 0;
    fprintf(out, "Whether the limit on the %s is met is not known: no request %s.", untested->name,
            none ? "was completed" : "has a second token");
  } else if (met == asked) {
    fputs(met == 1 ? "The latency limit is met." : "Both latency limits are met.", out);
  }
}

static void write_memory_sentence(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  if (isnan(kc_html_cell_number(page, run, "oom_s"))) {
    fputs("The model fits and memory never runs out. ", out);
    return;
  }
  fputs("More KV memory is needed than there is, from ", out);
  kc_html_cell_figure(page, "b", "", run, "oom_s", KC_ROUND_READING);
  fputs(" s on: ", out);
  kc_html_cell_figure(page, "b", "", run, "preemptions", KC_ROUND_COUNT);
  fputs(" preemptions, ", out);
  kc_html_cell_figure(page, "b", "", run, "max_waiting", KC_ROUND_COUNT);
  fputs(" requests waiting at the worst. ", out);
}

static void write_unserved_sentence(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  if (kc_html_cell_number(page, run, "requests_unserved") == 0) return;
  fputs(" ", page->out);
  kc_html_cell_figure(page, "b", "", run, "requests_unserved", KC_ROUND_COUNT);
  fputs(" requests were refused, failed or timed out.", page->out);
}

static void write_verdict(const struct kc_html *page, size_t run)
{
  FILE *const out = page->out;
  const enum grade grade = grade_of(page, run);
  KC_ASSERT(grade <= GRADE_BAD);
  fprintf(out, "<p class=\"verdict %s\"><span class=\"sign\" aria-hidden=\"true\">%s</span><span>",
          grade_class[grade], grade_mark[grade]);
  if (page->run.rows > 1) {
    kc_html_chip(page, run);
    fputs(" <b>", out);
    kc_html_text(out, kc_html_cell(page, run, "name"));
    fputs("</b><br>", out);
  }
  write_memory_sentence(page, run);
  write_limits_sentence(page, run);
  write_unserved_sentence(page, run);
  fputs("</span></p>\n", out);
}

/* ---- who, on what, with which work ---- */

static void write_workload(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  const char *span = kc_html_cell(page, run, "trace_span_s");
  kc_html_cell_figure(page, "b", "", run, "requests_total", KC_ROUND_COUNT);
  if (span == NULL) {
    fputs(" requests in a closed loop", out);
    return;
  }
  const char *trace = kc_html_setting(page, run, "workload", "trace");
  fputs(" requests over ", out);
  kc_html_cell_figure(page, "b", "", run, "trace_span_s", KC_ROUND_READING);
  fputs(" s of ", out);
  kc_html_text(out, trace != NULL ? trace : "a trace");
}

static void write_lead(const struct kc_html *page, size_t run)
{
  KC_ASSERT(run < page->run.rows);
  FILE *const out = page->out;
  const char *policy = kc_html_cell(page, run, "policy");
  const char *kv_format = kc_html_cell(page, run, "kv_format");
  fputs("<p class=\"lead\">", out);
  kc_html_text(out, kc_html_cell(page, run, "model"));
  fputs(" on ", out);
  kc_html_cell_figure(page, "b", "", run, "gpus", KC_ROUND_COUNT);
  fputs(" × ", out);
  kc_html_text(out, kc_html_cell(page, run, "gpu"));
  fputs(", KV in ", out);
  kc_html_text(out, kv_format != NULL ? kv_format : "an unnamed format");
  fputs(", batched as ", out);
  kc_html_text(out, policy != NULL ? policy : "an unnamed server");
  fputs(" does; ", out);
  write_workload(page, run);
  fputs(".</p>\n", out);
}

/* ---- one run: tiles ---- */

static void open_tile(const struct kc_html *page, const char *title, const char *class)
{
  fprintf(page->out, "<div class=\"tile%s%s\"><dt>%s</dt><dd>", class[0] != '\0' ? " " : "", class,
          title);
}

/* The big number, its unit, and what is said below. */
static void tile_figure(const struct kc_html *page, const char *column, enum kc_rounding rounding,
                        const char *unit)
{
  kc_html_cell_figure(page, "b", "", 0, column, rounding);
  fprintf(page->out, " <span class=\"unit\">%s</span></dd><dd class=\"more\">", unit);
}

static void tile_more(const struct kc_html *page, const char *before, const char *column,
                      enum kc_rounding rounding, const char *after)
{
  fputs(before, page->out);
  kc_html_cell_figure(page, "span", "", 0, column, rounding);
  fputs(after, page->out);
}

static void close_tile(const struct kc_html *page)
{
  fputs("</dd></div>\n", page->out);
}

static void tile_memory(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  open_tile(page, "Fits", "");
  tile_figure(page, "kv_tokens", KC_ROUND_COUNT, "tokens of KV");
  tile_more(page, "weights ", "weights_gpu_gib", KC_ROUND_TENTH, " + ");
  tile_more(page, "KV ", "kv_budget_gib", KC_ROUND_TENTH, " of ");
  tile_more(page, "", "memory_gib", KC_ROUND_TENTH, " GiB a GPU, driver included");
  if (kc_html_cell_number(page, 0, "replicas") > 1) {
    tile_more(page, ", each of ", "replicas", KC_ROUND_COUNT, " replicas");
  }
  close_tile(page);
}

static void tile_running(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  open_tile(page, "At once", "");
  tile_figure(page, "max_running", KC_ROUND_COUNT, "running");
  tile_more(page, "at most ", "max_waiting", KC_ROUND_COUNT, " waiting, ");
  tile_more(page, "", "preemptions", KC_ROUND_COUNT, " preemptions");
  close_tile(page);
}

static void tile_oom(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  const bool never = isnan(kc_html_cell_number(page, 0, "oom_s"));
  open_tile(page, "Out of memory", never ? "good" : "bad");
  if (never) {
    fputs("<b>never</b></dd><dd class=\"more\">", page->out);
  } else {
    tile_figure(page, "oom_s", KC_ROUND_READING, "s after the start");
  }
  tile_more(page, "", "kv_peak_percent", KC_ROUND_TENTH, " % of the KV pool in use at the peak");
  close_tile(page);
}

/* A latency against its limit, with a bar that is full at the limit. */
static void tile_latency(const struct kc_html *page, const struct limit *limit, const char *title)
{
  KC_ASSERT(page->run.rows > 0);
  const int met = limit_met(page, 0, limit);
  const double most = kc_html_setting_number(page, 0, "slo", limit->figure);
  const double value = kc_html_cell_number(page, 0, limit->figure);
  char text[KC_HTML_NUMBER_BYTES];
  open_tile(page, title, met > 0 ? "good" : met < 0 ? "bad" : "");
  tile_figure(page, limit->figure, KC_ROUND_READING, "ms");
  if (met == 0) {
    if (most > 0) {
      fprintf(page->out, "not known: limit %s ms", kc_html_number(text, most, KC_ROUND_COUNT));
    } else {
      fputs(has_class_limits(page, 0) ? "limits by class" : "no limit stated", page->out);
    }
  } else {
    fprintf(page->out, "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:%.1f%%\"></i>"
                       "</span>%s: limit %s ms", value < most ? 100 * value / most : 100.0,
            met > 0 ? "met" : "missed", kc_html_number(text, most, KC_ROUND_COUNT));
    if (met < 0 && value <= most) tile_more(page, ", ", "requests_unserved", KC_ROUND_COUNT,
                                            " without an answer");
  }
  close_tile(page);
}

static void tile_rate(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  open_tile(page, "Output", "");
  tile_figure(page, "output_tok_s", KC_ROUND_READING, "tok/s");
  tile_more(page, "", "output_tok_s_gpu", KC_ROUND_READING, " a GPU; ");
  tile_more(page, "", "goodput_req_s", KC_ROUND_READING, " requests/s within limits");
  /* Only where prompts are known; what nobody knows is not 0. */
  if (kc_html_cell(page, 0, "cache_hit_percent") != NULL) {
    tile_more(page, "; ", "cache_hit_percent", KC_ROUND_TENTH, " % of prompt tokens cached");
  }
  close_tile(page);
}

static void tile_cost(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  open_tile(page, "Cost", "");
  if (isnan(kc_html_cell_number(page, 0, "usd_per_mtok"))) {
    fputs("<b>unknown</b></dd><dd class=\"more\">no price, or no output", page->out);
  } else {
    fputs("<span class=\"unit\">$</span>", page->out);
    tile_figure(page, "usd_per_mtok", KC_ROUND_MONEY, "a million tokens");
    tile_more(page, "of output, at $", "gpu_hour_usd", KC_ROUND_MONEY, " a GPU-hour");
  }
  close_tile(page);
}

static void tile_trust(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  const char *trust = kc_html_trust(page, 0);
  open_tile(page, "Trust", strcmp(trust, "calibrated") == 0 ? "good" : "warn");
  fputs("<b>", page->out);
  kc_html_text(page->out, trust);
  fputs("</b></dd><dd class=\"more\">times; memory is derived. <a href=\"#trust\">What that "
        "means</a>", page->out);
  close_tile(page);
}

static void write_tiles(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  fputs("<dl class=\"tiles\">\n", page->out);
  tile_memory(page);
  tile_running(page);
  tile_oom(page);
  tile_latency(page, &limits[0], "First token, p95");
  tile_latency(page, &limits[1], "Each token, p95");
  tile_rate(page);
  tile_cost(page);
  tile_trust(page);
  fputs("</dl>\n", page->out);
}

/* ---- several runs: a table ---- */

static const struct kc_html_line lines[] = {
  {"KV pool, tokens", "kv_tokens", KC_ROUND_COUNT, true},
  {"KV pool, GiB a GPU", "kv_budget_gib", KC_ROUND_TENTH, true},
  {"Running at most", "max_running", KC_ROUND_COUNT, true},
  {"Waiting at most", "max_waiting", KC_ROUND_COUNT, false},
  {"Preemptions", "preemptions", KC_ROUND_COUNT, false},
  {"Out of memory after, s", "oom_s", KC_ROUND_READING, false},
  {"KV pool in use at the peak, %", "kv_peak_percent", KC_ROUND_TENTH, false},
  {"Prompt tokens from the cache, %", "cache_hit_percent", KC_ROUND_TENTH, false},
  {"First token p95, ms", "ttft_p95_ms", KC_ROUND_READING, true},
  {"Each token p95, ms", "tpot_p95_ms", KC_ROUND_READING, true},
  {"Whole request p95, ms", "e2e_p95_ms", KC_ROUND_READING, true},
  {"Output, tok/s", "output_tok_s", KC_ROUND_READING, true},
  {"Output, tok/s a GPU", "output_tok_s_gpu", KC_ROUND_READING, true},
  {"Requests/s within limits", "goodput_req_s", KC_ROUND_READING, true},
  {"$ a million output tokens", "usd_per_mtok", KC_ROUND_MONEY, true},
};

/* Of two runs, in one sentence: what the second gives and costs. */
static void write_gain(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  FILE *const out = page->out;
  fputs("<p class=\"lead\">B against A: output ", out);
  if (!kc_html_change(page, "b", "output_tok_s")) fputs("unchanged", out);
  fputs(", cost of a token ", out);
  if (!kc_html_change(page, "b", "usd_per_mtok")) fputs("unchanged", out);
  fputs(", KV pool ", out);
  if (!kc_html_change(page, "b", "kv_tokens")) fputs("unchanged", out);
  fputs(".</p>\n", out);
}

static void write_comparison(const struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 1);
  kc_html_lines(page, "The runs side by side", lines, sizeof lines / sizeof lines[0]);
}

void kc_html_lead(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  if (page->run.rows == 1) write_lead(page, 0);
  if (page->run.rows == 2) write_gain(page);
}

void kc_html_answer(struct kc_html *page)
{
  KC_ASSERT(page->run.rows > 0);
  fputs("<section>\n<h2>The answer</h2>\n", page->out);
  for (size_t i = 0; i < page->run.rows; i++) write_verdict(page, i);
  if (page->run.rows == 1) {
    write_tiles(page);
  } else {
    write_comparison(page);
  }
  fputs("</section>\n", page->out);
}
