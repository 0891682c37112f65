/* kvcap trace lint: what is odd about a trace, and what that does to a replay.
 *
 *   load, strict   -> fails?  an error at its line; load again, lenient, for what else there is
 *   figures        -> findings, worst first
 *
 * Exit status 1 when there is an error-level finding. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/cmd_trace.h"
#include "traces/transform/trace_lint.h"

enum { LINT_SCHEMA = 1 };

struct lint_arguments {
  struct kc_cli_trace_input input;
  bool json;
};

static const struct kc_option lint_options[] = {
  KC_CLI_TRACE_INPUT_OPTIONS(lint_arguments, "error"),
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct lint_arguments, json),
   .help = "print one JSON document"},
};

static const struct kc_cli_usage lint_usage = {
  .name = "trace lint",
  .synopsis = "FILE [options]",
  .about = "Lists what is odd about a trace: each finding with its line where that is known, its\n"
           "severity, and its consequence for a replay. Exit status 1 when one is an error.",
  .options = lint_options,
  .option_count = sizeof lint_options / sizeof lint_options[0],
  .positional_min = 1,
  .positional_max = 1,
  .epilogue = "examples:\n"
              "  kvcap trace lint log.csv\n"
              "  kvcap trace lint --zero-output drop log.csv",
};

/* Rows without output are kept for a second look; their refusal is already in the list. */
static enum kc_err load(struct kc_trace *trace, const struct lint_arguments *arguments,
                        const char *path, struct kc_lint *lint, struct kc_diag *diag)
{
  const enum kc_err err = kc_cli_trace_load(trace, &arguments->input, &path, 1, diag);
  if (err != KC_ERR_INPUT) return err;
  struct kc_cli_trace_input lenient = arguments->input;
  struct kc_diag ignored;
  kc_trace_lint_failure(diag, lint);
  if (strcmp(path, "-") == 0) {
    kc_cli_note("standard input is read only once, so nothing was looked at beyond the refusal; "
                "lint a file to see what else there is");
    return err;
  }
  if (lenient.zero_output == KC_ZERO_OUTPUT_ERROR) lenient.zero_output = KC_ZERO_OUTPUT_FLOOR;
  if (lenient.missing_output_tokens == 0) lenient.missing_output_tokens = 1;
  return kc_cli_trace_load(trace, &lenient, &path, 1, &ignored) == KC_OK ? KC_OK : err;
}

static enum kc_err examine(const struct lint_arguments *arguments, const char *path,
                           struct kc_lint *lint, struct kc_diag *diag)
{
  struct kc_trace trace;
  struct kc_trace_stats stats;
  const enum kc_err err = load(&trace, arguments, path, lint, diag);
  if (err == KC_ERR_INPUT) return KC_OK; /* the refusal is the one finding */
  KC_TRY(err);
  const enum kc_err measured = kc_trace_stats_compute(&trace, &stats, diag);
  if (measured == KC_OK) kc_trace_lint(&trace, &stats, lint);
  kc_trace_free(&trace);
  kc_lint_sort(lint);
  return measured;
}

static void print_findings(const struct kc_lint *lint, const char *path)
{
  for (size_t i = 0; i < lint->count; i++) {
    const struct kc_lint_finding *const finding = &lint->finding[i];
    printf("%s:", finding->path[0] == '\0' ? path : finding->path);
    if (finding->line > 0) printf("%" PRIu64 ":", finding->line);
    printf(" %s: %s: %s", kc_lint_severity_name(finding->severity), finding->key, finding->what);
    if (finding->row > 0) printf(" (row %" PRIu64 ")", finding->row);
    printf("\n  %s\n", finding->consequence);
  }
  printf("%s: %zu errors, %zu warnings, %zu notes\n", path, kc_lint_count(lint, KC_LINT_ERROR),
         kc_lint_count(lint, KC_LINT_WARNING), kc_lint_count(lint, KC_LINT_NOTE));
}

/* null where a place is not known. */
static json_t *place_json(uint64_t place)
{
  return place > 0 ? json_integer((json_int_t)place) : json_null();
}

static json_t *finding_json(const struct kc_lint_finding *finding)
{
  return json_pack("{s:s, s:o, s:s, s:I, s:o, s:o, s:s, s:s}", "key", finding->key, "path",
                   kc_cli_json_string(finding->path), "severity",
                   kc_lint_severity_name(finding->severity), "count",
                   (json_int_t)finding->count, "line", place_json(finding->line), "row",
                   place_json(finding->row), "what", finding->what, "consequence",
                   finding->consequence);
}

static int print_json(const struct kc_lint *lint, const char *path)
{
  json_t *const list = json_array();
  for (size_t i = 0; i < lint->count && list != NULL; i++) {
    if (json_array_append_new(list, finding_json(&lint->finding[i])) != 0) {
      json_decref(list);
      return kc_cli_print_json(NULL);
    }
  }
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:I, s:I, s:I, s:o}", "schema", LINT_SCHEMA, "path",
      kc_cli_json_string(path), "errors",
      (json_int_t)kc_lint_count(lint, KC_LINT_ERROR), "warnings",
      (json_int_t)kc_lint_count(lint, KC_LINT_WARNING), "notes",
      (json_int_t)kc_lint_count(lint, KC_LINT_NOTE), "findings", list));
}

int kc_cmd_trace_lint(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct lint_arguments arguments = {0};
  struct kc_lint lint = {0};
  struct kc_diag diag;
  const char *path = NULL;
  const int status = kc_cli_arguments(&lint_usage, &arguments, argc, argv, &path, NULL);
  if (status >= 0) return status;
  arguments.input.lines = true;
  if (examine(&arguments, path, &lint, &diag) != KC_OK) return kc_cli_fail(&diag);
  int printed = 0;
  if (arguments.json) {
    printed = print_json(&lint, path);
  } else {
    print_findings(&lint, path);
  }
  if (printed != 0) return printed;
  return kc_lint_count(&lint, KC_LINT_ERROR) > 0 ? 1 : 0;
}
