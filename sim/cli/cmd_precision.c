/* kvcap precision: which formats of weights and KV for one model, GPU and workload.
 *
 *   --weights, --kv, --concurrency --precision_table.h--> sweep --> table (precision_print.c)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/precision_output.h"
#include "sim/cli/progress.h"
#include "sim/cli/sets.h"
#include "sim/cli/sweep_setup.h"

struct arguments {
  char weights[512], kv[256], concurrency[256], contexts[256];
  bool weights_given, kv_given, concurrency_given, contexts_given;
  struct kc_option_list sets, slo;
  char trace[KC_DIAG_PATH_BYTES];
  bool trace_given;
  uint32_t threads;
  char database[KC_DIAG_PATH_BYTES];
  bool database_given;
  char plot[KC_DIAG_PATH_BYTES];
  bool plot_given;
  bool csv, json;
};

#define FIELD(name) offsetof(struct arguments, name)
#define TEXT(name) .type = KC_OPTION_TEXT, .offset = FIELD(name), \
                   .size = sizeof(((struct arguments *)0)->name), .set_offset = FIELD(name##_given)

static const struct kc_option options[] = {
    {.key = "weights", TEXT(weights), .values = "A,B,C",
     .help = "Formats of the weights: scenario (as it has them), checkpoint (as shipped), bf16, "
             "fp8, int4-g32, ..., or by class: routed_experts=int4-g32+default=bf16. Unless given: "
             "all that differ."},
    {.key = "kv", TEXT(kv), .values = "A,B,C",
     .help = "Formats of keys and values: bf16, fp8-e4m3, ..., K and V apart: "
             "k=bf16+v=fp8-e4m3. Unless given: these three."},
    {.key = "concurrency", TEXT(concurrency), .values = "LIST",
     .help = "Of a closed workload, the numbers of requests at once to try, as in `sweep --vary`: "
             "1,8,16..64*2. Unless given: 1..256*2."},
    {.key = "contexts", TEXT(contexts), .values = "LIST",
     .help = "Lengths for which to say how many requests the pool holds. Unless given: 4096, "
             "16384, 65536, 131072."},
    {.key = "slo", .type = KC_OPTION_LIST, .offset = FIELD(slo), .values = "FIGURE<=NUMBER",
     .help = "What has to hold of the load that judges a precision, such as 'tpot_p95_ms<=40'; "
             "repeatable; the scenario's slo unless given."},
    {.key = "trace", TEXT(trace), .values = "FILE",
     .help = "Replay this trace instead of the scenario's workload."},
    {.key = "set", .type = KC_OPTION_LIST, .offset = FIELD(sets), .values = "KEY=VALUE",
     .help = "Override a scenario key in every precision; repeatable."},
    {.key = "threads", .type = KC_OPTION_U32, .offset = FIELD(threads), .fallback = "0",
     .min = 0, .max = KC_SWEEP_THREADS_MAX, .unit = "threads",
     .help = "Points at once; 0 = one for each processor. Results do not depend on it."},
    {.key = "db", TEXT(database), .values = "FILE", .bare = "kvcap.db",
     .help = "Keep the points, a sweep, in this database, and take from it those it has."},
    {.key = "plot", TEXT(plot), .values = "FOLDER",
     .help = "Draw the table there, too: output, price and memory of each precision, and how much "
             "they change; with --db, kvcap report does."},
    {.key = "csv", .type = KC_OPTION_FLAG, .offset = FIELD(csv),
     .help = "Print CSV, a line for each precision."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document."},
};

static const struct kc_cli_usage usage = {
    .name = "precision",
    .synopsis = "SCENARIO [options]",
    .about = "Compares formats of weights and of keys and values on the scenario's workload: what\n"
             "fits, how many requests at once by length, where memory runs out, how fast, at what\n"
             "price, and what somebody measured of quality. Changes are against the first row.\n"
             "Status 5 when nothing fits, 3 when every precision is refused.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap precision scenarios/published/t04-kimi-gain.yaml --weights scenario \\\n"
                "      --concurrency 1,8,16,32,64\n"
                "  kvcap precision scenarios/examples/llama-3.1-8b-h100.yaml --trace mine.csv\n"};

struct running {
  struct kc_precision_table table;
  struct kc_progress progress;
};

static enum kc_err take(void *context, uint64_t number, const struct kc_point_result *result,
                        struct kc_diag *diag)
{
  struct running *running = context;
  KC_ASSERT(result != NULL);
  return kc_precision_table_take(&running->table, number, result, diag);
}

static void show_progress(void *context, uint64_t finished, uint64_t all)
{
  struct running *running = context;
  kc_progress_show(&running->progress, finished, all);
}

static int print(const struct running *running, const struct arguments *a)
{
  if (a->json) return kc_precision_print_json(&running->table);
  if (a->csv) return kc_precision_print_csv(&running->table);
  return kc_precision_print(&running->table);
}

/* Runs the points of the table that is open, and prints it. */
static int run(struct running *running, struct kc_sweep *sweep, const struct arguments *a)
{
  struct kc_sweep_totals totals;
  struct kc_diag diag = {0};
  char name[160];
  snprintf(name, sizeof name, "%.100s: precisions", running->table.scenario->name);
  sweep->name = name;
  sweep->grid = &running->table.vary;
  if (a->database_given && kc_store_open(&sweep->store, a->database, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  kc_interrupt_catch();
  kc_progress_start(&running->progress, "points");
  const enum kc_err err = kc_sweep_run(sweep, &totals, &diag);
  kc_progress_end(&running->progress);
  int status = 0;
  if (err == KC_OK) {
    kc_precision_table_judge(&running->table);
    status = print(running, a);
  }
  fflush(stdout);
  if (err != KC_OK) status = kc_cli_fail(&diag);
  if (a->database_given && !a->plot_given) kc_sweep_tell_stored(a->database, &totals);
  if (err == KC_OK && status == 0) status = kc_sweep_status(sweep, &totals);
  kc_store_close(sweep->store);
  return status;
}

/* The pictures are made of a database, as all are: of one that is gone afterwards. */
static enum kc_err make_database(struct arguments *a, char folder[KC_DIAG_PATH_BYTES],
                                 struct kc_diag *diag)
{
  const char *place = getenv("TMPDIR");
  if (place == NULL || place[0] == '\0') place = "/tmp";
  if (a->database_given) {
    return kc_fail(diag, KC_ERR_USAGE, "--db keeps the points, of which kvcap report draws; --plot "
                   "is for a table that is not kept");
  }
  const int length = snprintf(folder, KC_DIAG_PATH_BYTES - 16, "%s/kvcap-precision-XXXXXX", place);
  if (length >= KC_DIAG_PATH_BYTES - 16 || mkdtemp(folder) == NULL) {
    return kc_fail(diag, KC_ERR_FILE, "no folder can be made in %.200s (TMPDIR): %s", place,
                   strerror(errno));
  }
  memcpy(a->database, folder, (size_t)length);
  memcpy(a->database + length, "/points.db", sizeof "/points.db");
  a->database_given = true;
  return KC_OK;
}

static int draw(const struct arguments *a, int status)
{
  char report[] = "report", sweep[] = "--sweep", one[] = "1", out[] = "--out";
  char database[KC_DIAG_PATH_BYTES], folder[KC_DIAG_PATH_BYTES];
  snprintf(database, sizeof database, "%s", a->database);
  snprintf(folder, sizeof folder, "%s", a->plot);
  char *argv[] = {report, database, sweep, one, out, folder, NULL};
  if (status != 0) return status;
  fflush(stdout); /* the table first */
  return kc_cmd_report(6, argv);
}

static void remove_database(const struct arguments *a, const char *folder)
{
  static const char *const ends[] = {"", "-wal", "-shm"};
  char path[KC_DIAG_PATH_BYTES + 8];
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    snprintf(path, sizeof path, "%s%s", a->database, ends[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

int kc_cmd_precision(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_diag diag = {0};
  struct kc_cli_sets base;
  struct running running;
  const char *path[1];
  int status = kc_cli_arguments(&usage, &a, argc, argv, path, NULL);
  if (status >= 0) return status;
  if (a.csv && a.json) {
    kc_fail(&diag, KC_ERR_USAGE, "--csv and --json cannot be given together");
    return kc_cli_fail(&diag);
  }
  if (a.plot_given && (a.csv || a.json)) {
    kc_fail(&diag, KC_ERR_USAGE, "--plot names its files on standard output and does not go with "
            "--csv or --json");
    return kc_cli_fail(&diag);
  }
  if (a.database_given && a.slo.count > 0) {
    kc_fail(&diag, KC_ERR_USAGE, "a database keeps the SLO of the scenario, by which its page "
            "judges, and not --slo: state it with --set slo.ttft_p95_ms=N or slo.tpot_p95_ms=N");
    return kc_cli_fail(&diag);
  }
  kc_cli_sets_fill(&base, &a.sets, a.trace_given ? a.trace : NULL, NULL);
  if (a.trace_given && kc_cli_trace_check(a.trace, path[0], &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  const struct kc_precision_question question = {
      .path = path[0], .sets = base.item, .set_count = base.count,
      .weights = a.weights_given ? a.weights : NULL, .kv = a.kv_given ? a.kv : NULL,
      .concurrency = a.concurrency_given ? a.concurrency : NULL,
      .contexts = a.contexts_given ? a.contexts : NULL,
      .slo = a.slo.item, .slo_count = a.slo.count};
  struct kc_sweep sweep = {.path = path[0], .sets = base.item, .set_count = base.count,
                           .shard = 1, .shards = 1, .threads = kc_sweep_threads(a.threads),
                           .version = KVCAP_VERSION, .interrupted = kc_interrupt_wanted,
                           .context = &running, .emit = take, .progress = show_progress};
  char folder[KC_DIAG_PATH_BYTES] = "";
  if (kc_precision_table_open(&running.table, &question, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  if (a.plot_given && make_database(&a, folder, &diag) != KC_OK) {
    kc_precision_table_close(&running.table);
    return kc_cli_fail(&diag);
  }
  sweep.inputs = kc_inputs_create();
  if (sweep.inputs != NULL) {
    status = run(&running, &sweep, &a);
  } else {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the sweep");
    status = kc_cli_fail(&diag);
  }
  kc_inputs_destroy(sweep.inputs);
  kc_precision_table_close(&running.table);
  if (folder[0] == '\0') return status;
  status = draw(&a, status);
  remove_database(&a, folder);
  return status;
}
