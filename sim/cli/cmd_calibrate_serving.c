/* kvcap calibrate serving: the host term and a few efficiencies from a table of rates.
 *
 *   scenario (+ table) --sim/calibrate/serving--> report for people, entry of a GPU file
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/calibrate/fitted_to.h"
#include "sim/calibrate/serving.h"
#include "sim/cli/calibrate_output.h"
#include "sim/cli/cli.h"
#include "sim/cli/cmd_calibrate.h"

enum { SERVING_SCHEMA = 1, SCANS = 4 };

struct serving_arguments {
  char table[KC_DIAG_PATH_BYTES], only[64], fit[64];
  bool table_given, only_given;
  struct kc_option_list holds;
  int norm;
  struct kc_calibrate_output out;
};

#define FIELD(field) .offset = offsetof(struct serving_arguments, field)
#define TEXT(field) FIELD(field), .size = sizeof(((struct serving_arguments *)NULL)->field)

static const struct kc_option options[] = {
  {.key = "table", .type = KC_OPTION_TEXT, TEXT(table),
   .set_offset = offsetof(struct serving_arguments, table_given), .values = "FILE",
   .help = "CSV with the columns concurrency and tok_s, and optionally input and output; when left "
           "out, the calibrated rates of the scenario's expect list"},
  {.key = "only", .type = KC_OPTION_TEXT, TEXT(only),
   .set_offset = offsetof(struct serving_arguments, only_given), .values = "WHAT",
   .help = "take this figure of the expect list alone"},
  {.key = "fit", .type = KC_OPTION_TEXT, TEXT(fit), .fallback = "host,weights,kv",
   .values = "TERM,...",
   .help = "what is fitted, at most four of host, weights, kv, flops, expand"},
  {.key = "hold", .type = KC_OPTION_LIST, FIELD(holds), .values = "TERM=VALUE",
   .help = "hold a term that is not fitted: host in microseconds, the others from 0 to 1; "
           "repeatable [host=0 weights=0.8 kv=0.8 flops=0.6 expand=0]"},
  {.key = "norm", .type = KC_OPTION_CHOICE, FIELD(norm), .values = "max|squares",
   .fallback = "max", .help = "what is made small: the largest error of a row, or their squares"},
  KC_CALIBRATE_OUTPUT_OPTIONS(struct serving_arguments, "kvcap calibrate serving"),
};

static const struct kc_cli_usage usage = {
  .name = "calibrate serving",
  .synopsis = "SCENARIO [options]",
  .about = "Fits the host term and a few efficiencies of a profile to measured rates, by running\n"
           "the scenario; says how far off each row is, with it in the fit and left out, how wide\n"
           "the values may lie, and what the table cannot tell apart. Changes no file.",
  .options = options,
  .option_count = sizeof options / sizeof options[0],
  .positional_min = 1,
  .positional_max = 1,
  .epilogue = "examples:\n"
              "  kvcap calibrate serving t02-kimi-decode-bf16 --name my-profile\n"
              "  kvcap calibrate serving mine.yaml --table rates.csv --fit host,weights --profile\n"
              "  kvcap calibrate serving mine.yaml --log requests.jsonl (see --log --help)",
};

/* ---- arguments ---- */

static enum kc_err read_terms(struct kc_serving_fit *fit, const char *text, struct kc_diag *diag)
{
  memset(fit->is_free, 0, sizeof fit->is_free);
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    enum kc_serving_term term;
    if (!kc_serving_term_parse(text, length, &term) || fit->is_free[term]) {
      return kc_fail(diag, KC_ERR_USAGE, "--fit: \"%.*s\" is not one of host, weights, kv, flops, "
                     "expand, each at most once", (int)length, text);
    }
    fit->is_free[term] = true;
    text += length + (text[length] == ',');
  }
  return KC_OK;
}

static enum kc_err read_hold(struct kc_serving_fit *fit, const char *text, struct kc_diag *diag)
{
  const char *equals = strchr(text, '=');
  enum kc_serving_term term;
  double value;
  if (equals != NULL && kc_serving_term_parse(text, (size_t)(equals - text), &term) &&
      kc_parse_double(equals + 1, strlen(equals + 1), &value)) {
    const bool host = term == KC_TERM_HOST;
    const double least = host || term == KC_TERM_EXPAND ? 0 : 0.001;
    if (fit->is_free[term]) {
      return kc_fail(diag, KC_ERR_USAGE, "--hold: %s is fitted; take it out of --fit",
                     kc_serving_term_name(term));
    }
    if (value >= least && value <= (host ? 1e6 : 1)) {
      fit->start.value[term] = value;
      return KC_OK;
    }
  }
  return kc_fail(diag, KC_ERR_USAGE, "--hold: expected TERM=VALUE with host from 0 to 1e6 us, or "
                 "weights, kv, flops, expand from 0.001 (expand: 0) to 1; got \"%s\"", text);
}

static enum kc_err load(struct kc_serving_fit *fit, const char *scenario,
                        const struct serving_arguments *a, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  if (a->table_given && a->only_given) {
    return kc_fail(diag, KC_ERR_USAGE, "--only chooses from the scenario's expect list, and "
                   "--table stands in its place; keep one of the two");
  }
  KC_TRY(kc_data_find("published", scenario, ".yaml", NULL, path, diag));
  if (a->table_given) {
    KC_TRY(kc_serving_load_table(fit, path, a->table, diag));
  } else {
    KC_TRY(kc_serving_load(fit, path, a->only_given ? a->only : NULL, diag));
  }
  if (fit->ignored[0] != '\0') kc_cli_note("columns that are not used: %s", fit->ignored);
  fit->squares = a->norm == 1;
  KC_TRY(read_terms(fit, a->fit, diag));
  for (size_t i = 0; i < a->holds.count; i++) KC_TRY(read_hold(fit, a->holds.item[i], diag));
  return KC_OK;
}

/* ---- the report ---- */

static void print_terms(const struct kc_serving_fit *fit)
{
  printf("  %-8s %12s   %s\n", "term", "fitted", "5 % to 95 % of the bootstrap");
  for (int t = 0; t < KC_SERVING_TERMS; t++) {
    const enum kc_serving_term term = (enum kc_serving_term)t;
    const bool host = t == KC_TERM_HOST;
    printf("  %-8s %12.*f %s", kc_serving_term_name(term), host ? 1 : 4, fit->best.value[t],
           host ? "us" : "  ");
    if (!fit->is_free[t]) {
      printf(" held\n");
    } else if (fit->has_interval) {
      printf(" %.*f to %.*f%s\n", host ? 1 : 4, fit->low[t], host ? 1 : 4, fit->high[t],
             fit->at_bound[t] ? "; at its bound" : "");
    } else {
      printf(" no interval: as many unknowns as rows%s\n",
             fit->at_bound[t] ? "; at its bound" : "");
    }
  }
}

/* What to check, for people. */
static void note_doubts(const struct kc_serving_fit *fit)
{
  kc_calibrate_note_median("the rows are", fit->residual_median);
  for (int t = 0; t < KC_SERVING_TERMS; t++) {
    if (!fit->is_free[t] || !fit->at_bound[t]) continue;
    kc_calibrate_note_bound(kc_serving_term_name((enum kc_serving_term)t), fit->best.value[t],
                            t == KC_TERM_HOST);
  }
}

static void print_rows(const struct kc_serving_fit *fit)
{
  printf("\n  %-22s %12s %12s %10s %12s\n", "row", "measured", "fitted", "error", "left out");
  for (uint32_t r = 0; r < fit->row_count; r++) {
    printf("  %-22s %12.10g %12.1f %8.2f %%", fit->row[r].label, fit->row[r].expect.value,
           fit->predicted[r], fit->residual_percent[r]);
    if (fit->has_left_out) {
      printf(" %10.2f %%\n", fit->left_out_percent[r]);
    } else {
      printf(" %12s\n", "-");
    }
  }
}

static void print_median(const struct kc_serving_fit *fit)
{
  printf("\n  off by %.2f %% in the median, %.2f %% at most%s\n", fit->residual_median,
         fit->residual_max, kc_calibrate_mark(fit->residual_median));
}

static void print_flat(const struct kc_serving_fit *fit)
{
  printf("\n  hardest to tell apart: ");
  bool first = true;
  for (int t = 0; t < KC_SERVING_TERMS; t++) {
    if (!fit->is_free[t]) continue;
    printf("%s%s %+.1f %%", first ? "" : ", ", kc_serving_term_name((enum kc_serving_term)t),
           fit->flat[t]);
    first = false;
  }
  printf(" together move no row by more than %.2f %%\n", fit->flat_effect_percent);
}

/* The same fit with other prompt lengths: where it is as good, the table does not know them. */
static enum kc_err print_scan(struct kc_serving_fit *fit, struct kc_diag *diag)
{
  const uint32_t input = fit->row[0].point->scenario.workload.closed.input_tokens;
  const uint32_t scan[SCANS] = {input / 4, input / 2, input, input + input / 2};
  printf("\n  if prompts were of      host us  weights       kv   largest error\n");
  for (size_t i = 0; i < SCANS; i++) {
    if (scan[i] == 0) continue;
    struct kc_diag why;
    const enum kc_err err = kc_serving_assume_input(fit, scan[i], &why) == KC_OK
                                ? kc_serving_run_quick(fit, &why) : KC_ERR_INPUT;
    if (err == KC_ERR_MEMORY) return kc_fail(diag, err, "no memory for the runs");
    if (err != KC_OK) {
      printf("  %8u tokens   the largest row does not run\n", scan[i]);
      continue;
    }
    printf("  %8u tokens   %10.1f %8.4f %8.4f %13.2f %%\n", scan[i], fit->best.value[KC_TERM_HOST],
           fit->best.value[KC_TERM_WEIGHTS], fit->best.value[KC_TERM_KV], fit->residual_max);
  }
  printf("  Lengths that fit alike cannot be told apart by this table: a longer context and a\n"
         "  lower kv efficiency look the same.\n");
  return KC_OK;
}

static json_t *values_json(const struct kc_serving_values *values)
{
  json_t *object = json_object();
  for (int t = 0; t < KC_SERVING_TERMS; t++) {
    json_object_set_new(object, kc_serving_term_name((enum kc_serving_term)t),
                        json_real(values->value[t]));
  }
  return object;
}

static json_t *row_json(const struct kc_serving_fit *fit, uint32_t r)
{
  json_t *row = json_object();
  json_object_set_new(row, "row", json_string(fit->row[r].label));
  json_object_set_new(row, "measured", json_real(fit->row[r].expect.value));
  json_object_set_new(row, "fitted", json_real(fit->predicted[r]));
  json_object_set_new(row, "error_percent", json_real(fit->residual_percent[r]));
  json_object_set_new(row, "left_out_error_percent", fit->has_left_out
                      ? json_real(fit->left_out_percent[r]) : json_null());
  json_object_set_new(row, "left_out_fit", fit->has_left_out ? values_json(&fit->left_out[r])
                                                             : json_null());
  return row;
}

static int print_json(const struct kc_serving_fit *fit, const char *profile)
{
  json_t *root = json_object(), *rows = json_array(), *flat = json_object(), *terms = json_object();
  for (uint32_t r = 0; r < fit->row_count; r++) json_array_append_new(rows, row_json(fit, r));
  for (int t = 0; t < KC_SERVING_TERMS; t++) {
    const char *name = kc_serving_term_name((enum kc_serving_term)t);
    const bool shown = fit->is_free[t] && fit->has_interval;
    if (fit->is_free[t]) json_object_set_new(flat, name, json_real(fit->flat[t]));
    json_object_set_new(terms, name, json_pack(
        "{s:f, s:b, s:b, s:o, s:o}", "value", fit->best.value[t], "fitted", (int)fit->is_free[t],
        "at_bound", (int)fit->at_bound[t], "low", shown ? json_real(fit->low[t]) : json_null(),
        "high", shown ? json_real(fit->high[t]) : json_null()));
  }
  json_object_set_new(root, "schema", json_integer(SERVING_SCHEMA));
  json_object_set_new(root, "terms", terms);
  json_object_set_new(root, "rows", rows);
  json_object_set_new(root, "largest_error_percent", json_real(fit->residual_max));
  json_object_set_new(root, "median_error_percent", json_real(fit->residual_median));
  json_object_set_new(root, "plausible", json_boolean(fit->residual_median <=
                                                      KC_FIT_MEDIAN_PERCENT));
  json_object_set_new(root, "flat_direction_percent", flat);
  json_object_set_new(root, "flat_effect_percent", json_real(fit->flat_effect_percent));
  json_object_set_new(root, "profile", kc_cli_json_string(profile));
  return kc_cli_print_json(root);
}

static int report(struct kc_serving_fit *fit, const struct serving_arguments *a)
{
  struct kc_diag diag;
  struct kc_gpu_profile entry;
  char *profile = NULL;
  int status = 0;
  kc_serving_profile(fit, a->out.name, a->out.source, &entry);
  if (kc_calibrate_profile_text(&profile, &entry, &diag) != KC_OK) return kc_cli_fail(&diag);
  note_doubts(fit);
  if (a->out.json) {
    status = print_json(fit, profile);
  } else if (a->out.profile) {
    fputs(profile, stdout);
  } else {
    print_terms(fit);
    print_rows(fit);
    print_median(fit);
    print_flat(fit);
    printf("\n%s", profile);
    if (fit->is_free[KC_TERM_KV] && print_scan(fit, &diag) != KC_OK) status = kc_cli_fail(&diag);
  }
  free(profile);
  return status;
}

int kc_cmd_calibrate_serving(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) { /* measured requests are fitted in another way than a table */
    if (strncmp(argv[i], "--log", 5) == 0) return kc_cmd_calibrate_log(argc, argv);
  }
  if (kc_manual_form() != KC_MANUAL_NONE) (void)kc_cmd_calibrate_log(argc, argv); /* both */
  struct serving_arguments a = {0};
  const char *scenario[1];
  int status = kc_cli_arguments(&usage, &a, argc, argv, scenario, NULL);
  if (status >= 0) return status;
  struct kc_diag diag = {0};
  struct kc_serving_fit *fit = calloc(1, sizeof *fit);
  if (fit == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the fit");
    return kc_cli_fail(&diag);
  }
  enum kc_err err = load(fit, scenario[0], &a, &diag);
  if (err == KC_OK) err = kc_serving_run(fit, &diag);
  status = err == KC_OK ? report(fit, &a) : kc_cli_fail(&diag);
  kc_serving_free(fit);
  free(fit);
  return status;
}
