/* kvcap calibrate serving SCENARIO --log FILE: terms from requests that a server answered.
 *
 *   scenario, whose trace is the log --sim/calibrate/replay_fit--> terms, what they are worth, and
 *   the whole log predicted beside what was measured; an entry for the profiles of a GPU file
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/calibrate/fitted_to.h"
#include "sim/calibrate/replay_fit.h"
#include "sim/cli/calibrate_output.h"
#include "sim/cli/cli.h"
#include "sim/cli/cmd_calibrate.h"
#include "sim/cli/compare_print.h"

enum { LOG_SCHEMA = 1, LOG_LINES = 70 };

struct log_arguments {
  char log[KC_DIAG_PATH_BYTES], trace[KC_DIAG_PATH_BYTES], fit[64];
  bool has_log, has_trace, linear, seconds;
  uint32_t fit_first;
  struct kc_calibrate_output out;
};

#define FIELD(field) .offset = offsetof(struct log_arguments, field)
#define TEXT(field) FIELD(field), .size = sizeof(((struct log_arguments *)NULL)->field)

static const struct kc_option options[] = {
  {.key = "log", .type = KC_OPTION_TEXT, TEXT(log),
   .set_offset = offsetof(struct log_arguments, has_log), .values = "FILE",
   .help = "measured requests; the scenario's trace becomes this file"},
  {.key = "trace", .type = KC_OPTION_TEXT, TEXT(trace),
   .set_offset = offsetof(struct log_arguments, has_trace), .values = "FILE",
   .help = "take the same requests from this trace instead, which says more of them: what prompts "
           "hold, for one, so that the prefix cache is modelled"},
  {.key = "fit-first", .type = KC_OPTION_U32, FIELD(fit_first), .min = 1,
   .max = KC_REPLAY_FIRST_MAX, .fallback = "30", .unit = "requests",
   .help = "answers that the fit may look at"},
  {.key = "fit", .type = KC_OPTION_TEXT, TEXT(fit), .fallback = "auto", .values = "TERM,...",
   .help = "what is fitted, at most five of host, prompt, scale (of all kernels), spread, link, "
           "link-latency (layered kernels), weights, kv, flops (plain profiles); a term without "
           "effect on the scenario is refused; auto: host, prompt (of computed prompts) and scale, "
           "and with tensor parallelism link and link-latency"},
  {.key = "linear", .type = KC_OPTION_FLAG, FIELD(linear),
   .help = "percentiles between ranks, as numpy makes them; else nearest rank"},
  {.key = "seconds", .type = KC_OPTION_FLAG, FIELD(seconds),
   .help = "running and waiting requests, second by second"},
  KC_CALIBRATE_OUTPUT_OPTIONS(struct log_arguments, "kvcap calibrate serving --log"),
};

static const struct kc_cli_usage usage = {
  .name = "calibrate serving",
  .synopsis = "SCENARIO --log FILE [options]",
  .about = "Fits a few terms of the scenario's profile to the first requests of a measured log by\n"
           "simulating them, and predicts the whole log with the result. Changes no file. A log\n"
           "is what vllm bench serve --save-detailed, sglang.bench_serving --output-details or\n"
           "AIPerf (profile_export.jsonl) wrote, or one JSON object a request with the server's\n"
           "own times. Requests that failed are told of and left out.",
  .options = options,
  .option_count = sizeof options / sizeof options[0],
  .positional_min = 1,
  .positional_max = 1,
  .epilogue = "examples:\n"
              "  kvcap calibrate serving mine.yaml --log requests.jsonl --fit-first 30\n"
              "  kvcap calibrate serving mine.yaml --log result.json --fit host --profile",
};

/* ---- arguments ---- */

static enum kc_err read_terms(struct kc_replay_fit *fit, const char *text, struct kc_diag *diag)
{
  const bool parallel = fit->scenario->pool[0].memory.tensor > 1;
  const bool prompts = fit->scenario->pool[0].role != KC_ROLE_DECODE;
  if (strcmp(text, "auto") == 0) {
    text = !prompts ? (parallel ? "host,scale,link,link-latency" : "host,scale")
           : parallel ? "host,prompt,scale,link,link-latency" : "host,prompt,scale";
  }
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    enum kc_replay_term term = KC_REPLAY_HOST;
    bool known = kc_replay_term_parse(text, length, &term);
    for (uint32_t k = 0; k < fit->free_count; k++) known = known && fit->free[k] != term;
    if (!known || fit->free_count == KC_REPLAY_FREE_MAX) {
      return kc_fail(diag, KC_ERR_USAGE, "--fit: \"%.*s\" is not one of host, prompt, scale, "
                     "spread, link, link-latency, weights, kv, flops, each at most once and at "
                     "most %d", (int)length, text, KC_REPLAY_FREE_MAX);
    }
    fit->free[fit->free_count++] = term;
    text += length + (text[length] == ',');
  }
  return KC_OK;
}

/* ---- output ---- */

static void put_value(FILE *out, enum kc_replay_term term, double value)
{
  fprintf(out, kc_replay_term_is_time(term) ? "%.1f us" : "%.4f", value);
}

/* What to check, for people. The whole log counts as well: an entry claims to hold for it. */
static void note_doubts(const struct kc_replay_fit *fit, const struct kc_comparison *c)
{
  const struct kc_compared_figure *e2e = &c->figure[KC_LOG_E2E][1];
  KC_ASSERT(fit->free_count > 0);
  if (fit->residual_median_percent > KC_FIT_MEDIAN_PERCENT) {
    kc_calibrate_note_median("the requests of the fit are", fit->residual_median_percent);
  } else if (e2e->there) {
    kc_calibrate_note_median("the whole log is", 100 * fabs(e2e->b / e2e->a - 1));
  }
  for (uint32_t k = 0; k < fit->free_count; k++) {
    if (!fit->at_bound[k]) continue;
    kc_calibrate_note_bound(kc_replay_term_name(fit->free[k]), fit->best[k],
                            kc_replay_term_is_time(fit->free[k]));
  }
}

static void print_terms(const struct kc_replay_fit *fit)
{
  printf("fitted to the first %u of %zu requests in %u runs\n\n", fit->rows, fit->log->count,
         fit->runs);
  for (uint32_t k = 0; k < fit->free_count; k++) {
    printf("  %-13s ", kc_replay_term_name(fit->free[k]));
    put_value(stdout, fit->free[k], fit->best[k]);
    if (fit->has_interval) {
      printf("   90 %% of the bootstrap: ");
      put_value(stdout, fit->free[k], fit->low[k]);
      printf(" to ");
      put_value(stdout, fit->free[k], fit->high[k]);
    }
    printf("%s\n", fit->at_bound[k] ? "   at its bound" : "");
  }
  printf("\n  those requests, decode time and E2E: off by %.2f %% in the median, %.2f %% at "
         "most%s;\n  each left out of the fit: %.2f %% and %.2f %%\n", fit->residual_median_percent,
         fit->residual_largest_percent, kc_calibrate_mark(fit->residual_median_percent),
         fit->left_out_median_percent, fit->left_out_largest_percent);
  if (fit->free_count < 2) return;
  printf("  hardest to tell apart:");
  for (uint32_t k = 0; k < fit->free_count; k++) {
    printf("%s %s %+.1f %%", k == 0 ? "" : ",", kc_replay_term_name(fit->free[k]), fit->flat[k]);
  }
  printf(" together move them by %.3f %%\n", fit->flat_effect_percent);
}

static json_t *terms_json(const struct kc_replay_fit *fit)
{
  json_t *root = json_object();
  for (uint32_t k = 0; k < fit->free_count; k++) {
    json_object_set_new(root, kc_replay_term_name(fit->free[k]), json_pack(
        "{s:f, s:b, s:o, s:o, s:f}", "value", fit->best[k], "at_bound", (int)fit->at_bound[k],
        "low", fit->has_interval ? json_real(fit->low[k]) : json_null(), "high",
        fit->has_interval ? json_real(fit->high[k]) : json_null(), "flat_percent", fit->flat[k]));
  }
  return root;
}

static json_t *failures_json(const struct kc_serving_log *log)
{
  return json_pack("{s:I, s:I, s:I, s:I}", "error", (json_int_t)log->failures[KC_LOG_ERROR],
                   "cancelled", (json_int_t)log->failures[KC_LOG_CANCELLED], "no_output",
                   (json_int_t)log->failures[KC_LOG_NO_OUTPUT], "no_first_token_time",
                   (json_int_t)log->failures[KC_LOG_NO_TIMES]);
}

static int print_json(const struct kc_replay_fit *fit, const struct kc_comparison *c,
                      const struct kc_serving_log *predicted, const char *profile)
{
  json_t *root = json_pack(
      "{s:i, s:i, s:i, s:o, s:f, s:f, s:f, s:f, s:f}", "schema", LOG_SCHEMA, "fitted_requests",
      (int)fit->rows, "runs", (int)fit->runs, "terms", terms_json(fit), "residual_median_percent",
      fit->residual_median_percent, "residual_largest_percent", fit->residual_largest_percent,
      "left_out_median_percent", fit->left_out_median_percent, "left_out_largest_percent",
      fit->left_out_largest_percent, "flat_effect_percent", fit->flat_effect_percent);
  json_object_set_new(root, "log_requests", json_integer((json_int_t)fit->log->in_file));
  json_object_set_new(root, "left_out_requests", failures_json(fit->log));
  json_object_set_new(root, "plausible", json_boolean(fit->residual_median_percent <=
                                                      KC_FIT_MEDIAN_PERCENT));
  json_object_set_new(root, "whole_log", kc_compare_json(c, fit->log, predicted));
  json_object_set_new(root, "profile", kc_cli_json_string(profile));
  return kc_cli_print_json(root);
}

static int report(const struct kc_replay_fit *fit, const struct log_arguments *a)
{
  struct kc_diag diag;
  struct kc_comparison c;
  struct kc_serving_log predicted = {.path = "predicted", .format = "run",
                                     .row = fit->predicted, .count = fit->log->count};
  snprintf(predicted.trust, sizeof predicted.trust, "%s", kc_cost_level_name(fit->worth.level));
  if (kc_compare(&c, fit->log, &predicted, a->linear, &diag) != KC_OK) return kc_cli_fail(&diag);
  struct kc_gpu_profile entry;
  kc_replay_profile(fit, a->out.name, a->out.source, &entry);
  char *profile = NULL;
  int status = 0;
  if (kc_calibrate_profile_text(&profile, &entry, &diag) != KC_OK) return kc_cli_fail(&diag);
  note_doubts(fit, &c);
  if (a->out.json) {
    status = print_json(fit, &c, &predicted, profile);
  } else if (a->out.profile) {
    fputs(profile, stdout);
  } else {
    print_terms(fit);
    printf("\nthe whole log, predicted (%s percentiles)\n\n",
           a->linear ? "linear" : "nearest-rank");
    kc_compare_print_figures(&c, "log", fit->log->trust, "predicted", predicted.trust);
    kc_compare_print_stages(&c, fit->log->trust, predicted.trust);
    if (a->seconds) kc_compare_print_seconds(fit->log, &predicted, LOG_LINES);
    printf("\nprofile\n%s", profile);
  }
  free(profile);
  return status;
}

/* ---- the command ---- */

/* The scenario with the log's requests in place of its own workload: what it says of that one
 * (other times, a part of it) is not of this one. Of the log itself without the requests that
 * failed, which it tells little of (kc_serving_log_drop_failed). */
static enum kc_err load(struct kc_scenario *scenario, const char *path,
                        const struct log_arguments *a, struct kc_diag_list *problems)
{
  static const char *const load_sets[] = {
      "workload.closed=null", "workload.from=null", "workload.to=null", "workload.skip=null",
      "workload.limit=null", "workload.sample=null", "workload.idle_cap=null",
      "workload.rate=null", "workload.spread=null", "workload.cancel=null",
      "workload.cancel_after=null", "workload.max_tokens=trace"};
  static const char *const log_sets[] = {
      "workload.failed=drop", "workload.cancelled=drop", "workload.zero_output=drop",
      "workload.loop=open", "workload.format=null", "workload.unit=null",
      "workload.block_tokens=null", "workload.tail=null", "workload.missing_output=null"};
  enum { LOAD_SETS = sizeof load_sets / sizeof load_sets[0],
         LOG_SETS = sizeof log_sets / sizeof log_sets[0] };
  char set[KC_DIAG_PATH_BYTES + 32];
  const char *sets[1 + LOAD_SETS + LOG_SETS] = {set};
  snprintf(set, sizeof set, "workload.trace=%s", a->has_trace ? a->trace : a->log);
  memcpy(sets + 1, load_sets, sizeof load_sets);
  memcpy(sets + 1 + LOAD_SETS, log_sets, sizeof log_sets);
  return kc_scenario_load(scenario, path, sets, 1 + LOAD_SETS + (a->has_trace ? 0 : LOG_SETS),
                          problems);
}

/* A log that does not say when its requests came is no load; a trace of them does. Requests that
 * failed are told of and left out. */
static enum kc_err read_log(struct kc_serving_log *log, const struct log_arguments *a,
                            struct kc_diag *diag)
{
  KC_TRY(kc_serving_log_read(log, a->log, diag));
  if (!a->has_trace) KC_TRY(kc_serving_log_drop_failed(log, diag));
  kc_compare_note_failures(log, "left out of the fit");
  if (log->has_arrivals || a->has_trace) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, a->log, 0, 0, "has no start_times, so nothing says when "
                    "its requests were sent; give a trace of them with --trace, or measure again "
                    "with a benchmark that writes start_times (vLLM's does)");
}

int kc_cmd_calibrate_log(int argc, char **argv)
{
  struct log_arguments a = {0};
  const char *path[1];
  struct kc_diag diag;
  struct kc_diag_list problems;
  struct kc_serving_log log = {0};
  int status = kc_cli_arguments(&usage, &a, argc, argv, path, NULL);
  if (status >= 0) return status;
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  if (scenario == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the scenario");
    return kc_cli_fail(&diag);
  }
  enum kc_err err = read_log(&log, &a, &diag);
  struct kc_replay_fit fit = {.scenario = scenario, .log = &log, .first = a.fit_first};
  if (err == KC_OK && load(scenario, path[0], &a, &problems) != KC_OK) {
    status = kc_cli_fail_list(&problems);
  } else {
    if (err == KC_OK) err = read_terms(&fit, a.fit, &diag);
    if (err == KC_OK) err = kc_replay_fit_run(&fit, &diag);
    status = err == KC_OK ? report(&fit, &a) : kc_cli_fail(&diag);
  }
  kc_replay_fit_free(&fit);
  kc_serving_log_free(&log);
  free(scenario);
  return status;
}
