/* kvcap run: one scenario from file to answer. Reads arguments, lets sim/scenario do the work, and
 * hands the result to the store and to a printer (run_print.c for people, run_json.c for programs).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/run_output.h"
#include "sim/cli/sets.h"

struct arguments {
  char trace[KC_DIAG_PATH_BYTES];
  bool trace_given;
  char format[16];
  bool format_given;
  struct kc_option_list sets;
  char database[KC_DIAG_PATH_BYTES];
  bool database_given;
  int rows;
  uint32_t replicates;
  bool intervals_given;
  struct kc_option_list require;
  struct kc_run_demands demands;
  bool json;
  bool show;
};

#define FIELD(name) offsetof(struct arguments, name)

static const struct kc_option options[] = {
    {.key = "trace", .type = KC_OPTION_TEXT, .offset = FIELD(trace),
     .size = sizeof(((struct arguments *)0)->trace), .set_offset = FIELD(trace_given),
     .values = "FILE", .help = "Replay this trace instead of the scenario's workload."},
    {.key = "format", .type = KC_OPTION_TEXT, .offset = FIELD(format),
     .size = sizeof(((struct arguments *)0)->format), .set_offset = FIELD(format_given),
     .values = "NAME",
     .help = "Insist on a trace format (azure, mooncake, ...) instead of detecting it."},
    {.key = "set", .type = KC_OPTION_LIST, .offset = FIELD(sets), .values = "KEY=VALUE",
     .help = "Override a scenario key, for example pools.decode.kv.format=bf16; repeatable."},
    {.key = "db", .type = KC_OPTION_TEXT, .offset = FIELD(database),
     .size = sizeof(((struct arguments *)0)->database), .set_offset = FIELD(database_given),
     .values = "FILE", .bare = "kvcap.db",
     .help = "Store the run in this database; without this option nothing is written."},
    {.key = "rows", .type = KC_OPTION_CHOICE, .offset = FIELD(rows), .values = "all|sampled|none",
     .fallback = "all",
     .help = "Which requests the database keeps one by one; sampled: one in 1024, by number."},
    {.key = "intervals", .type = KC_OPTION_U32, .offset = FIELD(replicates),
     .set_offset = FIELD(intervals_given), .min = 2, .max = KC_INTERVALS_MAX, .unit = "replicates",
     .help = "Run again so often, with other seeds and step times as wrong as the profile admits, "
             "and print where the figures lie; at least 20 % (assumed) to either side where they "
             "are extrapolated or rest on a datasheet."},
    {.key = "require", .type = KC_OPTION_LIST, .offset = FIELD(require), .values = "FIGURE<=N",
     .help = "Exit with status 1 unless the run has it: a figure, one of <= < >= >, a number, such "
             "as 'ttft_p95_ms<=500' or 'usd_per_mtok<=3'; `kvcap help figures` lists them; "
             "repeatable."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the summary."},
    {.key = "show", .type = KC_OPTION_FLAG, .offset = FIELD(show),
     .help = "Print the resolved scenario, every default spelled out, and stop."},
};

static const struct kc_cli_usage usage = {
    .name = "run",
    .synopsis = "SCENARIO [options]",
    .about = "Replays the scenario's workload and reports what fits, how many requests run at\n"
             "once, when memory runs out, latencies and cost.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap run scenarios/examples/llama-3.1-8b-h100.yaml\n"
                "  kvcap run scenarios/examples/kimi-k2.6-decode-8xh200.yaml \\\n"
                "      --set pools.decode.kv.format=bf16 --json\n"
                "  kvcap run scenarios/examples/llama-3.1-8b-h100.yaml \\\n"
                "      --require 'ttft_p95_ms<=500' --require 'usd_per_mtok<=3'\n"};

/* ---- the scenario with its overrides ---- */

static enum kc_err load_scenario(struct kc_scenario *scenario, const char *path,
                                 const struct arguments *a, struct kc_diag_list *problems)
{
  struct kc_cli_sets sets;
  kc_cli_sets_fill(&sets, &a->sets, a->trace_given ? a->trace : NULL,
                   a->format_given ? a->format : NULL);
  return kc_scenario_load(scenario, path, sets.item, sets.count, problems);
}

static int show(const struct kc_scenario *scenario)
{
  char *text = kc_scenario_resolved(scenario);
  if (text == NULL) {
    const struct kc_diag diag = {.code = KC_ERR_MEMORY, .text = "no memory to print the scenario"};
    return kc_cli_fail(&diag);
  }
  fputs(text, stdout);
  free(text);
  return 0;
}

/* ---- storing ---- */

/* Cuts a text that filled its buffer back to whole characters. */
static void cut_utf8(char *text, size_t size)
{
  size_t end = strlen(text);
  if (end + 1 < size) return;
  while (end > 0 && ((unsigned char)text[end - 1] & 0xc0) == 0x80) end--;
  if (end > 0 && (unsigned char)text[end - 1] >= 0xc0) end--;
  text[end] = '\0';
}

/* The scenario's name, and what the command line changed of it: a stored run must be told apart
 * from one of the unchanged file. */
static void run_name(const struct kc_run *run, const struct arguments *a, char *out, size_t size)
{
  size_t used = (size_t)snprintf(out, size, "%s", run->scenario->name);
  const char *separator = " · ";
  if (a->trace_given && used < size) {
    used += (size_t)snprintf(out + used, size - used, "%strace=%s", separator, a->trace);
    separator = ", ";
  }
  for (size_t i = 0; i < a->sets.count && used < size; i++) {
    if (strncmp(a->sets.item[i], "name=", 5) == 0) continue; /* is the name already */
    used += (size_t)snprintf(out + used, size - used, "%s%s", separator, a->sets.item[i]);
    separator = ", ";
  }
  cut_utf8(out, size);
}

static void fill_header(struct kc_run_header *header, const struct kc_run *run, const char *name,
                        const char *scenario_text, const struct arguments *a)
{
  const struct kc_scenario *scenario = run->scenario;
  const struct kc_fit *fit = &run->fit;
  *header = (struct kc_run_header){
      .name = name,
      .scenario_text = scenario_text,
      .scenario_sha256 = scenario->sha256,
      .trace_path = scenario->workload.is_closed ? "" : run->trace.path,
      .trace_sha256 = scenario->workload.is_closed ? "" : run->trace.sha256,
      .model = scenario->model.name,
      .gpu = scenario->pool[0].gpu.name,
      .version = KVCAP_VERSION,
      .seed = scenario->seed,
      .rows = (enum kc_request_rows)a->rows,
      .prefix_cache = run->prefix_cache,
      .page_size = scenario->pool[0].sched.page_size,
      .pages = run->pages,
      .kv_token_bytes = fit->kv_token_bytes,
      .weights_bytes = fit->weights_bytes,
      .kv_budget_bytes = fit->kv_budget_bytes,
      .memory_bytes = scenario->pool[0].gpu.memory_bytes,
      .other_bytes = fit->activation_bytes + fit->non_torch_bytes + fit->extra_bytes,
      .reserve_bytes = fit->reserve_bytes};
}

static void fill_host(struct kc_host_facts *host, char started[32], struct utsname *machine,
                      double host_seconds, uint64_t steps)
{
  struct rusage use;
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(started, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
  getrusage(RUSAGE_SELF, &use);
  if (uname(machine) != 0) memset(machine, 0, sizeof *machine);
  const double rate = host_seconds > 0 ? (double)steps / host_seconds : 0;
  *host = (struct kc_host_facts){.commit = KVCAP_COMMIT,
                                 .started_utc = started,
                                 .machine = machine->machine,
                                 .host_seconds = host_seconds,
                                 .events_per_s = rate,
                                 .rss_bytes = (uint64_t)use.ru_maxrss * 1024};
}

static double seconds_between(struct timespec from, struct timespec to)
{
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* What became of storing a run that went to its end: its number, or why it is not there. */
struct stored {
  enum kc_err err;
  int64_t run_id;
  struct kc_diag diag;
};

/* Stores the very document that is printed. */
static void store_result(struct kc_store *store, const struct kc_run *run,
                         const struct arguments *a, const struct kc_intervals *intervals,
                         double host_seconds, struct stored *stored)
{
  struct kc_host_facts host;
  struct utsname machine;
  char started[32];
  json_t *root = kc_run_json(run, intervals, &a->demands);
  char *text = root != NULL ? kc_cli_json_text(root) : NULL;
  const struct kc_cost_trust trust = kc_run_trust(run);
  fill_host(&host, started, &machine, host_seconds, run->result.summary.steps);
  stored->err = kc_store_run_trust(store, kc_cost_level_name(trust.level),
                                   kc_cost_basis_name(trust.basis), trust.outside_ps,
                                   &stored->diag);
  if (stored->err != KC_OK) {
    kc_store_run_abort(store);
  } else if (text == NULL) {
    kc_store_run_abort(store);
    stored->err = kc_fail(&stored->diag, KC_ERR_MEMORY, "no memory for the summary document");
  } else {
    stored->err = kc_store_run_end(store, &run->metrics, &run->result, text, &host,
                                   &stored->run_id, &stored->diag);
  }
  free(text);
  json_decref(root);
}

/* Runs with the store as recorder. What is returned concerns the run: a finished one that could not
 * be stored is still worth printing, so that failure goes to `stored`. */
static enum kc_err execute_stored(struct kc_run *run, const struct arguments *a,
                                  const struct kc_intervals *intervals, const char *scenario_text,
                                  struct stored *stored, struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  struct kc_run_header header;
  char name[256];
  struct timespec start, end;
  KC_TRY(kc_store_open(&store, a->database, diag));
  run_name(run, a, name, sizeof name);
  fill_header(&header, run, name, scenario_text, a);
  const char *classes[KC_CLASSES_MAX];
  for (uint32_t i = 0; i < run->scenario->workload.clients.class_count; i++) {
    classes[i] = run->scenario->workload.clients.class[i].name;
  }
  header.class_name = classes;
  enum kc_err err = kc_store_run_begin(store, &header, diag);
  if (err == KC_OK) {
    run->replay.recorder = kc_store_recorder(store);
    clock_gettime(CLOCK_MONOTONIC, &start);
    err = kc_run_execute(run, diag);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (err == KC_OK) store_result(store, run, a, intervals, seconds_between(start, end), stored);
  }
  kc_store_close(store);
  return err;
}

static enum kc_err execute(struct kc_run *run, const struct arguments *a,
                           const struct kc_intervals *intervals, struct stored *stored,
                           struct kc_diag *diag)
{
  run->replay.interrupted = kc_interrupt_wanted;
  if (!a->database_given) return kc_run_execute(run, diag);
  char *text = kc_scenario_resolved(run->scenario);
  if (text == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the resolved scenario");
  const enum kc_err err = execute_stored(run, a, intervals, text, stored, diag);
  free(text);
  return err;
}

/* After the result: which run was stored where, or why not. Returns the exit status of that. */
static int tell_stored(const struct stored *stored, const struct arguments *a)
{
  fflush(stdout); /* the result first, also where both streams end in one file */
  if (stored->err != KC_OK) return kc_cli_fail(&stored->diag);
  char path[KC_DIAG_PATH_BYTES];
  snprintf(path, sizeof path, "%s", a->database);
  kc_text_clean(path);
  kc_cli_note("stored as run %lld of %s", (long long)stored->run_id, path);
  return 0;
}

static int print(const struct kc_run *run, const struct arguments *a,
                 const struct kc_intervals *intervals)
{
  char name[256];
  run_name(run, a, name, sizeof name);
  if (!a->json) {
    const int status = kc_run_print(run, name, intervals);
    kc_run_demands_print(&a->demands, run);
    return status;
  }
  json_t *root = kc_run_json(run, intervals, &a->demands);
  return kc_cli_print_json(root);
}

static int run_scenario(const struct kc_scenario *scenario, const struct arguments *a)
{
  struct kc_diag diag = {0};
  struct stored stored = {0};
  struct kc_run *run = calloc(1, sizeof *run);
  if (run == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the run");
    return kc_cli_fail(&diag);
  }
  struct kc_intervals computed;
  const struct kc_intervals *intervals = a->intervals_given ? &computed : NULL;
  kc_interrupt_catch();
  enum kc_err err = kc_run_prepare(run, scenario, &diag);
  if (err == KC_OK && intervals != NULL) {
    err = kc_intervals_compute(&computed, scenario, a->replicates, kc_interrupt_wanted, &diag);
  }
  if (err == KC_OK) err = execute(run, a, intervals, &stored, &diag);
  int status = err == KC_OK ? print(run, a, intervals) : kc_cli_fail(&diag);
  if (err == KC_OK && a->database_given) {
    const int stored_status = tell_stored(&stored, a);
    if (status == 0) status = stored_status;
  }
  if (status == 0 && kc_run_demands_missed(&a->demands, run) > 0) status = 1;
  kc_run_deinit(run);
  free(run);
  return status;
}

int kc_cmd_run(int argc, char **argv)
{
  struct arguments a = {0};
  const char *path[1];
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, path, NULL);
  if (usage_status >= 0) return usage_status;
  struct kc_diag bad;
  if (a.json && a.show) {
    kc_fail(&bad, KC_ERR_USAGE, "--show prints a scenario, which is YAML; leave --json out");
    return kc_cli_fail(&bad);
  }
  if (kc_run_demands_parse(&a.demands, &a.require, &bad) != KC_OK) return kc_cli_fail(&bad);
  kc_run_note_signs(a.demands.item, a.demands.count);
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  struct kc_scenario *scenario = calloc(1, sizeof *scenario);
  int status = 8;
  if (problems != NULL && scenario != NULL) {
    struct kc_diag diag;
    if (a.trace_given && kc_cli_trace_check(a.trace, path[0], &diag) != KC_OK) {
      diag.code = KC_ERR_FILE;
      status = kc_cli_fail(&diag);
    } else if (load_scenario(scenario, path[0], &a, problems) != KC_OK) {
      status = kc_cli_fail_list(problems);
    } else {
      status = a.show ? show(scenario) : run_scenario(scenario, &a);
    }
  }
  free(problems);
  free(scenario);
  return status;
}
