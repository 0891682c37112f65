/* kvcap report: figures of stored runs, side by side, as files or as one HTML page.
 *
 *   database --views (reports/sql/views.sql)--> OUT/NAME.csv --gnuplot (reports/plots/NAME.gp)-->
 *   OUT/NAME.svg, OUT/NAME.png
 *   database --the same views--> sim/html, reports/html/page.css --> one page
 *
 * The figures (sim/cli/figures.h) read nothing but the CSV files, and those nothing but the
 * database. The names of the files written go to stdout, everything else to stderr.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/figures.h"
#include "sim/html/html_page.h"

enum { REPORT_SCHEMA = 1, RUNS_MAX = 64, TEXT_BYTES_MAX = 1 << 20 };

struct report_arguments {
  char database[1024];
  char out[1024];
  char runs[1024];
  char html[1024];
  int format;
  bool json;
};

static const struct kc_option report_options[] = {
  {.key = "db", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, database),
   .size = sizeof(((struct report_arguments *)NULL)->database), .fallback = "", .values = "FILE",
   .help = "results database, instead of the argument; kvcap.db when neither is given"},
  {.key = "run", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, runs),
   .size = sizeof(((struct report_arguments *)NULL)->runs), .fallback = "", .values = "N,N,...",
   .help = "runs to draw side by side, in this order, or \"all\"; without it the newest"},
  {.key = "html", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, html),
   .size = sizeof(((struct report_arguments *)NULL)->html), .fallback = "", .values = "FILE",
   .help = "write one self-contained page instead of figures, for a phone, a desk and paper"},
  {.key = "out", .type = KC_OPTION_TEXT, .offset = offsetof(struct report_arguments, out),
   .size = sizeof(((struct report_arguments *)NULL)->out), .fallback = "report",
   .values = "FOLDER", .help = "where the files go; made when it is not there"},
  {.key = "format", .type = KC_OPTION_CHOICE, .offset = offsetof(struct report_arguments, format),
   .fallback = "both", .values = "svg|png|both", .help = "kind of figure"},
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct report_arguments, json),
   .help = "print the names of the files as one JSON document"},
};

static const struct kc_cli_usage report_usage = {
  .name = "report",
  .synopsis = "[DATABASE] [options]",
  .about = "Draws stored runs: memory by kind, running and waiting requests and KV pages over\n"
           "time, and the latency distributions. Writes the data behind every figure as CSV beside "
           "it. With --html all of it becomes one page: the answer, pictures, assumptions, how\n"
           "far to trust each figure, and how to get it again.",
  .options = report_options,
  .option_count = sizeof report_options / sizeof report_options[0],
  .positional_max = 1,
  .epilogue = "examples:\n  kvcap report kvcap.db\n  kvcap report kvcap.db --run 3,5 --out slides "
              "--format png\n  kvcap report kvcap.db --run 3,5 --html answer.html",
};

/* Name of a view (report_NAME), of its CSV file and of its script; without one, CSV only. */
static const struct figure {
  const char *name;
  const char *view;
  bool drawn;
} figures[] = {
  {"summary", "report_summary", false},
  {"memory", "report_memory", true},
  {"timeline", "report_timeline", true},
  {"latency", "report_latency", true},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

struct report {
  struct kc_store *store;
  struct kc_figures figures;
  int64_t run_ids[RUNS_MAX];
  size_t run_count;
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

static enum kc_err choose(struct report *report, struct kc_diag *diag)
{
  char *views;
  KC_TRY(read_text(report, "sql/views", ".sql", &views, diag));
  const enum kc_err err =
      kc_store_choose(report->store, views, report->run_ids, report->run_count, diag);
  free(views);
  return err;
}

static enum kc_err export(struct report *report, struct kc_diag *diag)
{
  for (size_t i = 0; i < FIGURES; i++) {
    char path[KC_FIGURE_PATH_BYTES];
    KC_TRY(kc_figures_join(path, report->figures.out, figures[i].name, ".csv", diag));
    KC_TRY(kc_store_export_csv(report->store, figures[i].view, path, NULL, diag));
    kc_figures_announce(&report->figures, path);
  }
  return KC_OK;
}

/* ---- the page ---- */

static enum kc_err save(const char *path, const char *text, size_t bytes, struct kc_diag *diag)
{
  FILE *out = fopen(path, "w");
  const bool written = out != NULL && fwrite(text, 1, bytes, out) == bytes;
  int cause = errno;
  if (out != NULL && fclose(out) != 0 && written) cause = errno;
  else if (written) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "the page cannot be written: %s",
                    strerror(cause));
}

/* In memory first: what fails half-way leaves no half page. */
static enum kc_err make_page(struct report *report, const struct report_arguments *arguments,
                             struct kc_diag *diag)
{
  char *style, *text = NULL;
  size_t bytes = 0;
  KC_TRY(kc_figures_find(&report->figures, diag));
  KC_TRY(read_runs(report, arguments->runs, diag));
  KC_TRY(choose(report, diag));
  KC_TRY(read_text(report, "html/page", ".css", &style, diag));
  FILE *out = open_memstream(&text, &bytes);
  const struct kc_html_spec spec = {.style = style, .version = KVCAP_VERSION};
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

static enum kc_err make_report(struct report *report, const struct report_arguments *arguments,
                               struct kc_diag *diag)
{
  KC_TRY(kc_figures_find(&report->figures, diag));
  KC_TRY(read_runs(report, arguments->runs, diag));
  KC_TRY(choose(report, diag));
  KC_TRY(kc_figures_make_out(&report->figures, arguments->out, diag));
  KC_TRY(export(report, diag));
  for (size_t i = 0; i < FIGURES; i++) {
    if (!figures[i].drawn) continue;
    KC_TRY(kc_figures_draw(&report->figures, figures[i].name,
                           (enum kc_figure_format)arguments->format, diag));
  }
  return KC_OK;
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
  if (kc_store_open_read(&report.store, database, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (arguments.json) report.figures.files = json_array();
  const enum kc_err err = arguments.html[0] != '\0' ? make_page(&report, &arguments, &diag)
                                                    : make_report(&report, &arguments, &diag);
  kc_store_close(report.store);
  status = err != KC_OK ? kc_cli_fail(&diag) : kc_figures_print(&report.figures, REPORT_SCHEMA);
  json_decref(report.figures.files);
  return status;
}
