/* kvcap sweep: one scenario, some of its keys against lists and ranges, every combination a point.
 *
 *   --vary, --case --vary.h--> points --sweep.h, threads--> rows: printed, and kept with --db
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/sets.h"
#include "sim/cli/sweep_output.h"
#include "sim/cli/sweep_setup.h"

struct arguments {
  struct kc_option_list vary, cases, sets;
  bool zip, bill, csv, json;
  char trace[KC_DIAG_PATH_BYTES];
  bool trace_given;
  char name[128];
  bool name_given;
  char figures[1024];
  bool figures_given;
  uint32_t threads;
  char shard[48];
  char database[KC_DIAG_PATH_BYTES];
  bool database_given;
  uint64_t point;
  bool point_given;
};

#define FIELD(name) offsetof(struct arguments, name)
#define TEXT(name) .type = KC_OPTION_TEXT, .offset = FIELD(name), \
                   .size = sizeof(((struct arguments *)0)->name)

static const struct kc_option options[] = {
    {.key = "vary", .type = KC_OPTION_LIST, .offset = FIELD(vary), .values = "KEY=LIST",
     .help = "Vary a scenario key: values separated by commas, ranges such as 1..8, "
             "0.1..0.5:0.1 (step), 8..64*2 (factor), 1/8..1/2*2 (exact); repeatable, every "
             "combination is a point."},
    {.key = "case", .type = KC_OPTION_LIST, .offset = FIELD(cases), .values = "LABEL: SETS",
     .help = "One more case of changes that go together, such as \"fp8: "
             "pools.0.kv.format=fp8-e4m3; pools.0.kv.page_size=64\"; cases are the outermost "
             "axis; repeatable."},
    {.key = "zip", .type = KC_OPTION_FLAG, .offset = FIELD(zip),
     .help = "Walk the --vary lists together instead of crossing them; equal lengths."},
    {.key = "set", .type = KC_OPTION_LIST, .offset = FIELD(sets), .values = "KEY=VALUE",
     .help = "Override a scenario key in every point; repeatable."},
    {.key = "trace", TEXT(trace), .set_offset = FIELD(trace_given), .values = "FILE",
     .help = "Replay this trace instead of the scenario's workload."},
    {.key = "bill", .type = KC_OPTION_FLAG, .offset = FIELD(bill),
     .help = "Work out the memory bill alone; nothing is run."},
    {.key = "name", TEXT(name), .set_offset = FIELD(name_given), .values = "TEXT",
     .help = "What the sweep is called; the scenario's name unless given."},
    {.key = "figures", TEXT(figures), .set_offset = FIELD(figures_given), .values = "A,B,C",
     .help = "Columns to print, of those that `kvcap help figures` lists; --csv and --json print "
             "all without it."},
    {.key = "threads", .type = KC_OPTION_U32, .offset = FIELD(threads), .fallback = "0",
     .min = 0, .max = KC_SWEEP_THREADS_MAX, .unit = "threads",
     .help = "Points at once; 0 = one for each processor. Results do not depend on it."},
    {.key = "shard", TEXT(shard), .values = "K/N", .fallback = "1/1",
     .help = "Compute every N-th point from the K-th on, for several machines; `kvcap db merge` "
             "puts their databases together."},
    {.key = "db", TEXT(database), .set_offset = FIELD(database_given), .values = "FILE",
     .bare = "kvcap.db",
     .help = "Keep the points in this database, and take from it those it has: a sweep that was "
             "stopped goes on."},
    {.key = "point", .type = KC_OPTION_U64, .offset = FIELD(point),
     .set_offset = FIELD(point_given), .min = 0, .max = KC_VARY_POINTS_MAX, .values = "N",
     .help = "Print the command that computes one point alone, and stop."},
    {.key = "csv", .type = KC_OPTION_FLAG, .offset = FIELD(csv),
     .help = "Print CSV instead of the table."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the table."},
};

static const struct kc_cli_usage usage = {
    .name = "sweep",
    .synopsis = "SCENARIO --vary KEY=LIST... [options]",
    .about = "Runs a scenario at every combination of the values given. A combination that\n"
             "contradicts itself or does not fit is a row with its reason. Figures are named as\n"
             "in `expect:`. Status 5 when nothing fits, 3 when every combination is refused.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap sweep scenarios/examples/kimi-k2.6-decode-8xh200.yaml \\\n"
                "      --vary pools.decode.kv.format=bf16,fp8-e4m3 \\\n"
                "      --vary workload.closed.concurrency=8..64*2\n"
                "  kvcap sweep SCENARIO --vary workload.rate=1/2,1,2,4 --shard 1/2 --db a.db\n"
                "  kvcap sweep SCENARIO --vary workload.rate=1/2,1,2,4 --shard 2/2 --db b.db\n"
                "  kvcap db merge all.db a.db b.db\n"};

/* ---- arguments to a sweep ---- */

/* "2/7" */
static enum kc_err parse_shard(struct kc_sweep *sweep, const char *text, struct kc_diag *diag)
{
  const char *slash = strchr(text, '/');
  KC_ASSERT(sweep != NULL);
  if (slash != NULL && kc_parse_u64(text, (size_t)(slash - text), &sweep->shard) &&
      kc_parse_u64(slash + 1, strlen(slash + 1), &sweep->shards) && sweep->shard >= 1 &&
      sweep->shard <= sweep->shards && sweep->shards <= KC_VARY_POINTS_MAX) {
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_USAGE, "--shard: expected K/N with 1 <= K <= N, such as 2/7, got "
                 "\"%s\"", text);
}

static enum kc_err build_grid(struct kc_vary *grid, const struct arguments *a,
                              struct kc_diag *diag)
{
  KC_ASSERT(grid->axis_count == 0);
  for (size_t i = 0; i < a->cases.count; i++) KC_TRY(kc_vary_case(grid, a->cases.item[i], diag));
  for (size_t i = 0; i < a->vary.count; i++) KC_TRY(kc_vary_key(grid, a->vary.item[i], diag));
  return kc_vary_finish(grid, a->zip, diag);
}

/* Not one point can be loaded; `why` is the first problem of the first one. The scenario alone may
 * have the same, which is then told as `run` tells it; all else comes from what is varied. */
static enum kc_err fail_refused(const struct kc_sweep *sweep, const struct kc_diag *why,
                                struct kc_point *point, struct kc_diag_list *problems,
                                struct kc_diag *diag)
{
  const struct kc_vary *grid = sweep->grid;
  const bool cases = grid->axis_count == (grid->has_cases ? 1 : 0);
  const bool placed = strcmp(why->path, "--set") != 0; /* in the file */
  KC_ASSERT(why->code != KC_OK);
  if (kc_point_load(point, sweep->path, sweep->sets, sweep->set_count, problems) != KC_OK &&
      strcmp(problems->items[0].text, why->text) == 0) {
    *diag = *why;
    return why->code;
  }
  const enum kc_err err = why->code == KC_ERR_USAGE ? KC_ERR_INPUT : why->code;
  return kc_fail_at(diag, err, placed ? why->path : "", why->line, why->column,
                    "%s: every combination is refused, the first one because %s",
                    cases ? "--case" : "--vary", why->text);
}

/* A mistake in a key is in every point: the first points are loaded before anything is run. True
 * when one of them can be; its name is the sweep's, unless it has one. */
enum { TRIED_MAX = 1000 };
static enum kc_err check_some_point(const struct kc_sweep *sweep, char *name, size_t size,
                                    struct kc_diag *diag)
{
  const char *sets[KC_SWEEP_SETS_MAX];
  struct kc_point *point = malloc(sizeof *point);
  struct kc_diag_list *problems = malloc(sizeof *problems);
  struct kc_diag why = {0};
  enum kc_err err = KC_OK;
  KC_ASSERT(sweep->grid->points > 0);
  if (point == NULL || problems == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory for a scenario");
  }
  for (uint64_t p = 0; err == KC_OK && p < sweep->grid->points && p < TRIED_MAX; p++) {
    const size_t count = kc_sweep_sets(sweep, p, sets);
    if (kc_point_load(point, sweep->path, sets, count, problems) == KC_OK) {
      if (name[0] == '\0') snprintf(name, size, "%s", point->scenario.name);
      break;
    }
    if (p == 0) why = problems->items[0];
    if (p + 1 == sweep->grid->points) { /* none can be */
      err = fail_refused(sweep, &why, point, problems, diag);
    }
  }
  free(point);
  free(problems);
  return err;
}

/* ---- running ---- */

struct running {
  struct kc_sweep_output output;
  struct kc_progress progress;
};

static enum kc_err emit(void *context, uint64_t number, const struct kc_point_result *result,
                        struct kc_diag *diag)
{
  struct running *running = context;
  KC_ASSERT(result != NULL);
  kc_progress_hide(&running->progress);
  return kc_sweep_output_point(&running->output, number, result, diag);
}

static void progress(void *context, uint64_t finished, uint64_t all)
{
  struct running *running = context;
  kc_progress_show(&running->progress, finished, all);
}

static int run(struct kc_sweep *sweep, struct running *running, const struct arguments *a)
{
  struct kc_sweep_totals totals;
  struct kc_diag diag = {0};
  if (a->database_given && kc_store_open(&sweep->store, a->database, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  kc_interrupt_catch();
  kc_progress_start(&running->progress, "points");
  kc_sweep_output_begin(&running->output);
  const enum kc_err err = kc_sweep_run(sweep, &totals, &diag);
  kc_progress_end(&running->progress);
  int status = kc_sweep_output_end(&running->output, &totals, err == KC_OK);
  fflush(stdout);
  if (err != KC_OK) status = kc_cli_fail(&diag);
  if (err == KC_OK && totals.points == 0) {
    kc_cli_note("shard %llu of %llu has no points: the sweep has %llu",
                (unsigned long long)sweep->shard, (unsigned long long)sweep->shards,
                (unsigned long long)sweep->grid->points);
  }
  if (a->database_given) kc_sweep_tell_stored(a->database, &totals);
  if (err == KC_OK && status == 0) status = kc_sweep_status(sweep, &totals);
  kc_store_close(sweep->store);
  return status;
}

static int print_command(const struct kc_sweep *sweep, uint64_t point)
{
  struct kc_diag diag;
  if (point >= sweep->grid->points) {
    kc_fail(&diag, KC_ERR_USAGE, "--point: the sweep has %llu points, numbered from 0",
            (unsigned long long)sweep->grid->points);
    return kc_cli_fail(&diag);
  }
  char *command = kc_sweep_command(sweep, point);
  if (command == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the command");
    return kc_cli_fail(&diag);
  }
  printf("%s\n", command);
  free(command);
  return 0;
}

static int prepare_and_run(struct kc_sweep *sweep, const struct arguments *a)
{
  struct kc_diag diag = {0};
  char name[sizeof a->name] = "";
  struct running running = {.output = {.sweep = sweep,
                                       .format = a->csv    ? KC_SWEEP_CSV
                                                 : a->json ? KC_SWEEP_JSON
                                                           : KC_SWEEP_TABLE}};
  if (a->csv && a->json) {
    kc_fail(&diag, KC_ERR_USAGE, "--csv and --json cannot be given together");
    return kc_cli_fail(&diag);
  }
  if (a->name_given) memcpy(name, a->name, sizeof name);
  if (kc_sweep_output_figures(&running.output, a->figures_given ? a->figures : NULL, &diag) !=
          KC_OK ||
      parse_shard(sweep, a->shard, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  if (a->point_given) return print_command(sweep, a->point);
  if (check_some_point(sweep, name, sizeof name, &diag) != KC_OK) return kc_cli_fail(&diag);
  sweep->name = name[0] != '\0' ? name : sweep->path;
  sweep->context = &running;
  sweep->emit = emit;
  sweep->progress = progress;
  return run(sweep, &running, a);
}

int kc_cmd_sweep(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_vary grid;
  struct kc_diag diag = {0};
  const char *path[1];
  struct kc_cli_sets base;
  int status = kc_cli_arguments(&usage, &a, argc, argv, path, NULL);
  if (status >= 0) return status;
  kc_vary_init(&grid);
  struct kc_sweep sweep = {.path = path[0], .sets = base.item, .grid = &grid, .bill_only = a.bill,
                           .threads = kc_sweep_threads(a.threads),
                           .version = KVCAP_VERSION, .interrupted = kc_interrupt_wanted};
  if (a.trace_given && kc_cli_trace_check(a.trace, path[0], &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  kc_cli_sets_fill(&base, &a.sets, a.trace_given ? a.trace : NULL, NULL);
  sweep.set_count = base.count;
  sweep.inputs = kc_inputs_create();
  if (sweep.inputs == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the sweep");
    status = kc_cli_fail(&diag);
  } else if (build_grid(&grid, &a, &diag) != KC_OK ||
             kc_vary_check_sets(&grid, sweep.sets, sweep.set_count, &diag) != KC_OK) {
    status = kc_cli_fail(&diag);
  } else {
    status = prepare_and_run(&sweep, &a);
  }
  kc_inputs_destroy(sweep.inputs);
  kc_vary_free(&grid);
  return status;
}
