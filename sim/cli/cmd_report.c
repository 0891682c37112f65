/* kvcap report: figures of stored runs, side by side, and of sweeps, as files or as one HTML page.
 *
 *   database --views (reports/sql/views.sql)--> OUT/NAME.csv --gnuplot (reports/plots/NAME.gp)-->
 *   OUT/NAME.svg, OUT/NAME.png
 *   database --the same views--> sim/html, reports/html/page.css --> one page
 *
 * The figures (sim/cli/figures.h) read nothing but the CSV files, and those nothing but the
 * database. The names of the files written go to stdout, everything else to stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/figures.h"
#include "sim/cli/report_sweep.h"
#include "sim/html/html_page.h"
#include "sim/plan/rate.h"

enum { REPORT_SCHEMA = 1, RUNS_MAX = 64, TEXT_BYTES_MAX = 1 << 20 };

struct report_arguments {
  char database[1024];
  char out[1024];
  char runs[1024];
  char html[1024];
  char across[128], load[128];
  uint64_t sweep; /* 0: none */
  int format;
  bool json, out_given;
};

static const struct kc_option report_options[] = {
  {.key = "db", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, database),
   .size = sizeof(((struct report_arguments *)NULL)->database), .fallback = "", .values = "FILE",
   .help = "results database, instead of the argument; kvcap.db when neither is given"},
  {.key = "run", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, runs),
   .size = sizeof(((struct report_arguments *)NULL)->runs), .fallback = "", .values = "N,N,...",
   .help = "runs side by side, in this order, or \"all\"; without it the newest, with --sweep "
           "none"},
  {.key = "sweep", .type = KC_OPTION_U64, .offset = offsetof(struct report_arguments, sweep),
   .min = 1, .max = 1e15, .values = "N",
   .help = "draw a sweep: maps of regions, where memory ends, throughput against speed, cost; "
           "with --html also what a plan found"},
  {.key = "across", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, across),
   .size = sizeof(((struct report_arguments *)NULL)->across), .fallback = "", .values = "KEY",
   .help = "the sweep's key along a picture, or its end; without it the context"},
  {.key = "load", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, load),
   .size = sizeof(((struct report_arguments *)NULL)->load), .fallback = "", .values = "KEY",
   .help = "the sweep's key up a picture, or its end; without it concurrency or rate"},
  {.key = "html", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, html),
   .size = sizeof(((struct report_arguments *)NULL)->html), .fallback = "", .values = "FILE",
   .help = "write one self-contained page instead of figures, for a phone, a desk and paper"},
  {.key = "out", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, out),
   .size = sizeof(((struct report_arguments *)NULL)->out),
   .set_offset = offsetof(struct report_arguments, out_given), .fallback = "report",
   .values = "FOLDER",
   .help = "where the files go; made when it is not there"},
  {.key = "format", .type = KC_OPTION_CHOICE, .offset = offsetof(struct report_arguments, format),
   .fallback = "both", .values = "svg|png|both", .help = "kind of figure"},
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct report_arguments, json),
   .help = "print the names of the files as one JSON document"},
};

static const struct kc_cli_usage report_usage = {
  .name = "report",
  .synopsis = "[DATABASE] [options]",
  .about = "Draws stored runs: memory by kind, running and waiting requests and KV pages over\n"
           "time, and the latency distributions; and sweeps. Writes the data behind every figure\n"
           "as CSV beside it. With --html all of it becomes one page: the answer, pictures, "
           "assumptions, how\n"
           "far to trust each figure, and how to get it again.",
  .options = report_options,
  .option_count = sizeof report_options / sizeof report_options[0],
  .positional_max = 1,
  .epilogue = "examples:\n  kvcap report kvcap.db\n  kvcap report kvcap.db --run 3,5 --out slides "
              "--format png\n  kvcap report kvcap.db --run 3,5 --html answer.html\n"
              "  kvcap report kvcap.db --sweep 1 --across input --load concurrency --out maps\n"
              "  kvcap plan SCENARIO --db plan.db; kvcap report plan.db --sweep 1 --html plan.html",
};

/* Name of the CSV file and of its script (without one, CSV only), and the view behind them. A view
 * without rows has no file: a sweep without prices draws no cost. */
struct figure {
  const char *name;
  const char *view;
  bool drawn;
};
static const struct figure run_figures[] = {
  {"summary", "report_summary", false},
  {"memory", "report_memory", true},
  {"timeline", "report_timeline", true},
  {"latency", "report_latency", true},
};
static const struct figure sweep_figures[] = {
  {"sweep_points", "sweep_point", false},
  {"sweep_peak", "sweep_peak", true},
  {"sweep_map", "sweep_map", true},
  {"sweep_frontier", "sweep_frontier", true},
  {"sweep_pareto", "sweep_pareto", true},
  {"sweep_cost", "sweep_cost", true},
  {"sweep_memory", "sweep_memory", true},
  {"sweep_gain", "sweep_gain", true},
};
enum {
  RUN_FIGURES = sizeof run_figures / sizeof run_figures[0],
  SWEEP_FIGURES = sizeof sweep_figures / sizeof sweep_figures[0],
  FIGURES_MAX = SWEEP_FIGURES
};

struct report {
  struct kc_store *store;
  struct kc_figures figures;
  int64_t run_ids[RUNS_MAX];
  size_t run_count;
  bool of_plan; /* the sweep that was chosen is what a plan ran */
};

/* ---- which runs ---- */

static enum kc_err add_id(struct report *report, int64_t run_id, struct kc_diag *diag)
{
  if (report->run_count == RUNS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a figure shows at most %d runs side by side; name fewer "
                   "with --run", RUNS_MAX);
  }
  report->run_ids[report->run_count++] = run_id;
  return KC_OK;
}

struct all_runs {
  struct report *report;
  struct kc_diag *diag;
};

static enum kc_err add_any(void *context, const struct kc_run_brief *run)
{
  const struct all_runs *all = context;
  return add_id(all->report, run->id, all->diag);
}

/* "3,5", "all", or "" (the newest: an empty list). */
static enum kc_err read_runs(struct report *report, const char *text, struct kc_diag *diag)
{
  KC_ASSERT(report->run_count == 0);
  if (strcmp(text, "all") == 0) {
    struct all_runs all = {.report = report, .diag = diag};
    return kc_store_each_run(report->store, add_any, &all, diag);
  }
  for (const char *whole = text; text[0] != '\0';) {
    const size_t length = strcspn(text, ",");
    uint64_t id;
    if (!kc_parse_u64(text, length, &id) || id == 0 || id > INT64_MAX ||
        (text[length] == ',' && text[length + 1] == '\0')) {
      return kc_fail(diag, KC_ERR_USAGE, "--run: \"%.64s\" is not a list of runs; expected whole "
                     "numbers such as 3,5 or \"all\"", whole);
    }
    KC_TRY(add_id(report, (int64_t)id, diag));
    text += length + (text[length] == ',' ? 1 : 0);
  }
  return KC_OK;
}

/* A text file of reports/, as a heap string in *text. */
static enum kc_err read_text(const struct report *report, const char *name, const char *suffix,
                             char **text, struct kc_diag *diag)
{
  char path[KC_FIGURE_PATH_BYTES];
  struct kc_file file;
  KC_TRY(kc_figures_join(path, report->figures.folder, name, suffix, diag));
  KC_TRY(kc_file_open(&file, path, TEXT_BYTES_MAX, diag));
  *text = strndup(file.bytes > 0 ? file.data : "", file.bytes);
  kc_file_close(&file);
  return *text != NULL ? KC_OK : kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
}

static enum kc_err choose_runs(struct report *report, const char *runs, struct kc_diag *diag)
{
  char *views;
  KC_TRY(read_runs(report, runs, diag));
  KC_TRY(read_text(report, "sql/views", ".sql", &views, diag));
  const enum kc_err err =
      kc_store_choose(report->store, views, report->run_ids, report->run_count, diag);
  free(views);
  return err;
}

/* A sweep that a search for the highest rate ran, by its name: its points are no grid. */
struct rate_search {
  int64_t id;
  bool found;
};

static enum kc_err look_for_rate(void *context, const struct kc_sweep_brief *sweep)
{
  struct rate_search *search = context;
  const bool named = strncmp(sweep->name, KC_RATE_NAME, strlen(KC_RATE_NAME)) == 0;
  search->found = search->found || (sweep->id == search->id && named);
  return KC_OK;
}

static enum kc_err check_sweep(struct kc_store *store, int64_t id, struct kc_diag *diag)
{
  struct rate_search search = {.id = id};
  KC_TRY(kc_store_each_sweep(store, look_for_rate, &search, diag));
  if (!search.found) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "sweep %lld is what a search for the highest rate ran, which "
                 "neither a page nor a figure tells: kvcap plan --max-rate with the same --db "
                 "prints its answer again", (long long)id);
}

static enum kc_err choose_sweep(struct report *report, const struct report_arguments *arguments,
                                struct kc_diag *diag)
{
  char *sweep_sql, *plan_sql = NULL;
  KC_TRY(check_sweep(report->store, (int64_t)arguments->sweep, diag));
  KC_TRY(read_text(report, "sql/sweep", ".sql", &sweep_sql, diag));
  enum kc_err err = read_text(report, "sql/plan", ".sql", &plan_sql, diag);
  if (err == KC_OK) {
    const struct kc_report_question question = {
        .sweep_sql = sweep_sql, .plan_sql = plan_sql, .sweep_id = (int64_t)arguments->sweep,
        .across = arguments->across, .load = arguments->load};
    err = kc_report_choose_sweep(report->store, &question, &report->of_plan, diag);
  }
  free(sweep_sql);
  free(plan_sql);
  if (err != KC_OK || !report->of_plan || arguments->html[0] != '\0') return err;
  return kc_fail(diag, KC_ERR_INPUT, "sweep %llu is what a plan ran, which is told on a page, not "
                 "in figures: add --html FILE", (unsigned long long)arguments->sweep);
}

/* What the report is about: runs, a sweep, or both. */
static bool wants_runs(const struct report_arguments *arguments)
{
  return arguments->sweep == 0 || arguments->runs[0] != '\0';
}

static enum kc_err choose(struct report *report, const struct report_arguments *arguments,
                          struct kc_diag *diag)
{
  KC_TRY(kc_figures_find(&report->figures, diag));
  if (arguments->sweep == 0 && (arguments->across[0] != '\0' || arguments->load[0] != '\0')) {
    return kc_fail(diag, KC_ERR_USAGE, "--across and --load are axes of a sweep; name it with "
                   "--sweep");
  }
  if (wants_runs(arguments)) KC_TRY(choose_runs(report, arguments->runs, diag));
  return arguments->sweep > 0 ? choose_sweep(report, arguments, diag) : KC_OK;
}

/* ---- the page ---- */

static enum kc_err save(const char *path, const char *text, size_t bytes, struct kc_diag *diag)
{
  FILE *out;
  KC_TRY(kc_file_create(&out, path, diag));
  fwrite(text, 1, bytes, out);
  return kc_file_finish(out, path, diag);
}

/* In memory first: what fails half-way leaves no half page. */
static enum kc_err make_page(struct report *report, const struct report_arguments *arguments,
                             struct kc_diag *diag)
{
  char *style, *text = NULL;
  size_t bytes = 0;
  KC_TRY(kc_file_check_output(arguments->html, diag));
  KC_TRY(choose(report, arguments, diag));
  KC_TRY(read_text(report, "html/page", ".css", &style, diag));
  FILE *out = open_memstream(&text, &bytes);
  const struct kc_html_spec spec = {.style = style, .version = KVCAP_VERSION,
                                    .runs = wants_runs(arguments),
                                    .sweep = arguments->sweep > 0 && !report->of_plan,
                                    .plan = report->of_plan};
  enum kc_err err = out == NULL ? kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory")
                                : kc_html_write(out, report->store, &spec, diag);
  if (out != NULL && fclose(out) != 0 && err == KC_OK) {
    err = kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  }
  if (err == KC_OK) err = save(arguments->html, text, bytes, diag);
  if (err == KC_OK) kc_figures_announce(&report->figures, arguments->html);
  free(text);
  free(style);
  return err;
}

/* ---- figures ---- */

static enum kc_err export(struct report *report, const struct figure *figure, bool *there,
                          struct kc_diag *diag)
{
  char path[KC_FIGURE_PATH_BYTES];
  uint64_t rows = 0;
  KC_TRY(kc_figures_join(path, report->figures.out, figure->name, ".csv", diag));
  KC_TRY(kc_store_export_csv(report->store, figure->view, path, &rows, diag));
  *there = rows > 0;
  if (*there) {
    kc_figures_announce(&report->figures, path);
  } else {
    unlink(path);
  }
  return KC_OK;
}

/* A figure that fails does not keep those after it from being drawn: the first failure is what is
 * returned, any other is told at once. */
static enum kc_err draw(struct report *report, const struct figure *figure, size_t count,
                        int format, struct kc_diag *diag)
{
  bool there[FIGURES_MAX];
  enum kc_err first = KC_OK;
  KC_ASSERT(count <= FIGURES_MAX);
  for (size_t i = 0; i < count; i++) KC_TRY(export(report, &figure[i], &there[i], diag));
  for (size_t i = 0; i < count; i++) {
    if (!figure[i].drawn || !there[i]) continue;
    struct kc_diag why;
    const enum kc_err err = kc_figures_draw(&report->figures, figure[i].name,
                                            (enum kc_figure_format)format, &why);
    if (err == KC_OK) continue;
    if (first == KC_OK) {
      *diag = why;
      first = err;
    } else if (strcmp(why.text, diag->text) != 0 || strcmp(why.path, diag->path) != 0) {
      kc_cli_fail(&why);
    }
  }
  return first;
}

static enum kc_err make_report(struct report *report, const struct report_arguments *arguments,
                               struct kc_diag *diag)
{
  KC_TRY(choose(report, arguments, diag));
  KC_TRY(kc_figures_make_out(&report->figures, arguments->out, diag));
  if (wants_runs(arguments)) {
    KC_TRY(draw(report, run_figures, RUN_FIGURES, arguments->format, diag));
  }
  if (arguments->sweep == 0) return KC_OK;
  return draw(report, sweep_figures, SWEEP_FIGURES, arguments->format, diag);
}

int kc_cmd_report(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct report_arguments arguments = {0};
  struct report report = {0};
  struct kc_diag diag;
  const char *database = "kvcap.db";
  size_t given = 0;
  int status = kc_cli_arguments(&report_usage, &arguments, argc, argv, &database, &given);
  if (status >= 0) return status;
  if (arguments.database[0] != '\0') {
    if (given > 0) {
      kc_fail(&diag, KC_ERR_USAGE, "the database is named twice, as \"%s\" and with --db; keep one",
              database);
      return kc_cli_fail(&diag);
    }
    database = arguments.database;
  }
  if (arguments.html[0] != '\0' && arguments.out_given) {
    kc_fail(&diag, KC_ERR_USAGE, "--out is the folder of figures, and --html writes one page; keep "
            "one of the two");
    return kc_cli_fail(&diag);
  }
  if (kc_store_open_read(&report.store, database, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (arguments.json) report.figures.files = json_array();
  const enum kc_err err = arguments.html[0] != '\0' ? make_page(&report, &arguments, &diag)
                                                    : make_report(&report, &arguments, &diag);
  kc_store_close(report.store);
  status = err != KC_OK ? kc_cli_fail(&diag) : kc_figures_print(&report.figures, REPORT_SCHEMA);
  json_decref(report.figures.files);
  return status;
}
