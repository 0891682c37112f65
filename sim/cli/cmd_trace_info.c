/* kvcap trace info: what is in a trace, in figures.
 *
 *   kvcap trace info FILE...             each on its own
 *   kvcap trace info --together FILE...  all as one trace (shards)
 *
 * Rows without output count as one token here, and are counted in the notes: this command looks, it
 * does not replay. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/base/check.h"
#include "sim/cli/cmd_trace.h"

enum { INFO_SCHEMA = 1 };

struct info_arguments {
  struct kc_cli_trace_input input;
  bool together, json;
};

static const struct kc_option info_options[] = {
  KC_CLI_TRACE_INPUT_OPTIONS(info_arguments, "floor"),
  {.key = "together", .type = KC_OPTION_FLAG, .offset = offsetof(struct info_arguments, together),
   .help = "read all files as one trace"},
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct info_arguments, json),
   .help = "print one JSON document"},
};

static const struct kc_cli_usage info_usage = {
  .name = "trace info",
  .synopsis = "FILE... [options]",
  .about = "Prints what a trace holds: rows, span, rates, lengths, sessions, what an infinite\n"
           "prefix cache would find, the digest, and everything repaired, dropped or assumed.\n"
           "A FILE may be a folder: its files are one trace. Percentiles are nearest-rank.",
  .options = info_options,
  .option_count = sizeof info_options / sizeof info_options[0],
  .positional_min = 1,
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "examples:\n  kvcap trace info traces/samples/conversation.csv\n"
              "  kvcap trace info --together --json shard-1.jsonl.gz shard-2.jsonl.gz",
};

/* Loads and prints one trace; in JSON mode appends to `list`. */
static enum kc_err show(const struct info_arguments *arguments, const char *const *path,
                        size_t count, json_t *list, struct kc_diag *diag)
{
  struct kc_trace trace;
  struct kc_trace_stats stats;
  KC_ASSERT(count > 0);
  KC_TRY(kc_cli_trace_load(&trace, &arguments->input, path, count, diag));
  enum kc_err err = kc_trace_stats_compute(&trace, &stats, diag);
  if (err == KC_OK && list == NULL) kc_cli_trace_info_print(&trace, &stats);
  if (err == KC_OK && list != NULL) {
    json_t *const item = kc_cli_trace_info_json(&trace, &stats);
    if (item == NULL || json_array_append_new(list, item) != 0) {
      err = kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory: the output");
    }
  }
  kc_trace_free(&trace);
  return err;
}

static enum kc_err show_all(const struct info_arguments *arguments, const char *const *path,
                            size_t count, json_t *list, struct kc_diag *diag)
{
  if (arguments->together) return show(arguments, path, count, list, diag);
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && list == NULL) printf("\n");
    KC_TRY(show(arguments, &path[i], 1, list, diag));
  }
  return KC_OK;
}

int kc_cmd_trace_info(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct info_arguments arguments = {0};
  struct kc_diag diag;
  const char *path[KC_CLI_POSITIONAL_MAX];
  size_t count = 0;
  const int status = kc_cli_arguments(&info_usage, &arguments, argc, argv, path, &count);
  if (status >= 0) return status;
  json_t *const list = arguments.json ? json_array() : NULL;
  if (arguments.json && list == NULL) return kc_cli_print_json(NULL);
  if (show_all(&arguments, path, count, list, &diag) != KC_OK) {
    json_decref(list);
    return kc_cli_fail(&diag);
  }
  if (list == NULL) return 0;
  return kc_cli_print_json(json_pack("{s:i, s:o}", "schema", INFO_SCHEMA, "traces", list));
}
