/* kvcap report: figures of stored runs, side by side.
 *
 *   database --views (reports/sql/views.sql)--> OUT/NAME.csv --gnuplot (reports/plots/NAME.gp)-->
 *   OUT/NAME.svg, OUT/NAME.png
 *
 * The figures read nothing but the CSV files, and those nothing but the database. gnuplot is
 * started directly, without a shell, and paths never begin with a character that it would take for
 * a pipe. The names of the files written go to stdout, everything else to stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/store/store.h"

enum { REPORT_SCHEMA = 1, RUNS_MAX = 64, PATH_BYTES = 4096, VIEWS_BYTES_MAX = 1 << 20 };
enum format { FORMAT_SVG, FORMAT_PNG, FORMAT_BOTH };

struct report_arguments {
  char database[1024];
  char out[1024];
  char runs[1024];
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
           "it.",
  .options = report_options,
  .option_count = sizeof report_options / sizeof report_options[0],
  .positional_max = 1,
  .epilogue = "examples:\n  kvcap report kvcap.db\n  kvcap report kvcap.db --run 3,5 --out slides "
              "--format png",
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
  char folder[PATH_BYTES];  /* reports/ of this installation */
  char out[PATH_BYTES];     /* starts with '/' or "./" */
  int64_t run_ids[RUNS_MAX];
  size_t run_count;
  json_t *files;            /* NULL: names are printed as they are written */
};

/* ---- paths ---- */

/* Joins; false when the result does not fit. */
static bool join(char out[PATH_BYTES], const char *folder, const char *name, const char *suffix)
{
  const int length = snprintf(out, PATH_BYTES, "%s/%s%s", folder, name, suffix);
  return length >= 0 && length < PATH_BYTES;
}

static enum kc_err fail_long(const char *path, struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0, "the path is longer than %d bytes",
                    PATH_BYTES - 1);
}

/* The first of $KVCAP_DATA, the share folder and the source tree that has reports/sql/views.sql. */
static enum kc_err find_folder(char out[PATH_BYTES], struct kc_diag *diag)
{
  const char *data = getenv("KVCAP_DATA");
  const char *const root[] = {data != NULL && data[0] != '\0' ? data : NULL, KVCAP_SHARE_DIR,
                              KVCAP_SOURCE_DIR};
  for (size_t i = 0; i < sizeof root / sizeof root[0]; i++) {
    char views[PATH_BYTES];
    if (root[i] == NULL || !join(views, root[i], "reports/sql/views", ".sql")) continue;
    if (kc_file_exists(views) && join(out, root[i], "reports", "")) return KC_OK;
  }
  return kc_fail(diag, KC_ERR_FILE,
                 "the folder reports/ is not there; looked in $KVCAP_DATA%s%s%s, %s and %s; "
                 "install kvcap again or set KVCAP_DATA", data == NULL ? " (not set)" : " (",
                 data == NULL ? "" : data, data == NULL ? "" : ")", KVCAP_SHARE_DIR,
                 KVCAP_SOURCE_DIR);
}

/* mkdir -p. A leading "./" keeps gnuplot from seeing '<', '|' or '-' at the start of a name. */
static enum kc_err make_out(char out[PATH_BYTES], const char *wanted, struct kc_diag *diag)
{
  KC_ASSERT(wanted != NULL);
  const int length = snprintf(out, PATH_BYTES, "%s%s", wanted[0] == '/' ? "" : "./", wanted);
  if (length < 0 || length >= PATH_BYTES) return fail_long(wanted, diag);
  for (char *c = out + 1;; c++) {
    if (*c != '/' && *c != '\0') continue;
    const char end = *c;
    *c = '\0';
    const bool made = mkdir(out, 0777) == 0 || errno == EEXIST;
    const int cause = errno;
    *c = end;
    if (!made) {
      return kc_fail_at(diag, KC_ERR_FILE, wanted, 0, 0, "the folder cannot be made: %s",
                        strerror(cause));
    }
    if (end == '\0') break;
  }
  struct stat facts;
  if (stat(out, &facts) == 0 && S_ISDIR(facts.st_mode)) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, wanted, 0, 0,
                    "the name belongs to a file; --out needs a folder");
}

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

static enum kc_err choose(struct report *report, struct kc_diag *diag)
{
  char path[PATH_BYTES];
  struct kc_file file;
  if (!join(path, report->folder, "sql/views", ".sql")) return fail_long(report->folder, diag);
  KC_TRY(kc_file_open(&file, path, VIEWS_BYTES_MAX, diag));
  char *views = strndup(file.bytes > 0 ? file.data : "", file.bytes);
  kc_file_close(&file);
  if (views == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  const enum kc_err err =
      kc_store_choose(report->store, views, report->run_ids, report->run_count, diag);
  free(views);
  return err;
}

/* ---- gnuplot ---- */

/* Our environment with `locale` ("LC_ALL=...") in place of the user's, so that numbers are written
 * the same everywhere. Heap array of borrowed strings; NULL when memory ran out. */
static char **plain_environment(char *locale)
{
  size_t count = 0, kept = 0;
  while (environ[count] != NULL) count++;
  char **copy = calloc(count + 2, sizeof *copy);
  if (copy == NULL) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (strncmp(environ[i], "LC_ALL=", 7) != 0) copy[kept++] = environ[i];
  }
  copy[kept] = locale;
  return copy;
}

/* Starts gnuplot with input and output on /dev/null and waits. Returns its exit status,
 * 128 + signal, or -errno when it could not be started. */
static int run_gnuplot(char *script, char *data, char *figure)
{
  char program[] = "gnuplot", no_rc[] = "-d", call[] = "-c", locale[] = "LC_ALL=C.UTF-8";
  char *const arguments[] = {program, no_rc, call, script, data, figure, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults;
  char **environment = plain_environment(locale);
  pid_t child;
  int status = 0;
  if (environment == NULL) return -ENOMEM;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error =
      posix_spawnp(&child, program, &actions, &attributes, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  free(environment);
  if (error != 0) return -error;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static enum kc_err fail_gnuplot(const struct report *report, const char *figure, int status,
                                struct kc_diag *diag)
{
  KC_ASSERT(status != 0);
  if (status == -ENOENT) {
    return kc_fail(diag, KC_ERR_FILE,
                   "gnuplot is not installed, so no figure was drawn (the CSV files are in %s); "
                   "install the package gnuplot-nox and run the report again", report->out);
  }
  if (status < 0) {
    return kc_fail(diag, KC_ERR_FILE, "gnuplot could not be started: %s", strerror(-status));
  }
  return kc_fail_at(diag, KC_ERR_FILE, figure, 0, 0,
                    "gnuplot ended with status %d and drew nothing; its message is above", status);
}

/* ---- files ---- */

/* JSON knows no bytes, only text: a path that is not UTF-8 is listed with '?' in it. */
static json_t *json_path(const char *path)
{
  KC_ASSERT(path[0] != '\0');
  json_t *text = json_string(path);
  if (text != NULL) return text;
  char clean[PATH_BYTES];
  snprintf(clean, sizeof clean, "%s", path);
  kc_text_clean(clean);
  return json_string(clean);
}

static void announce(struct report *report, const char *path)
{
  if (strncmp(path, "./", 2) == 0) path += 2;
  if (report->files == NULL) {
    printf("%s\n", path);
  } else {
    json_array_append_new(report->files, json_path(path));
  }
}

static enum kc_err draw(struct report *report, const char *name, const char *suffix,
                        struct kc_diag *diag)
{
  char script[PATH_BYTES], data[PATH_BYTES], figure[PATH_BYTES], plots[PATH_BYTES];
  if (!join(plots, report->folder, "plots", "") || !join(script, plots, name, ".gp") ||
      !join(data, report->out, name, ".csv") || !join(figure, report->out, name, suffix)) {
    return fail_long(report->out, diag);
  }
  const int status = run_gnuplot(script, data, figure);
  if (status != 0) {
    if (status > 0) unlink(figure); /* half a figure is worse than none */
    return fail_gnuplot(report, figure, status, diag);
  }
  announce(report, figure);
  return KC_OK;
}

static enum kc_err export(struct report *report, struct kc_diag *diag)
{
  for (size_t i = 0; i < FIGURES; i++) {
    char path[PATH_BYTES];
    if (!join(path, report->out, figures[i].name, ".csv")) return fail_long(report->out, diag);
    KC_TRY(kc_store_export_csv(report->store, figures[i].view, path, NULL, diag));
    announce(report, path);
  }
  return KC_OK;
}

static enum kc_err make_report(struct report *report, const struct report_arguments *arguments,
                               struct kc_diag *diag)
{
  KC_TRY(find_folder(report->folder, diag));
  KC_TRY(read_runs(report, arguments->runs, diag));
  KC_TRY(choose(report, diag));
  KC_TRY(make_out(report->out, arguments->out, diag));
  KC_TRY(export(report, diag));
  for (size_t i = 0; i < FIGURES; i++) {
    if (!figures[i].drawn) continue;
    if (arguments->format != FORMAT_PNG) KC_TRY(draw(report, figures[i].name, ".svg", diag));
    if (arguments->format != FORMAT_SVG) KC_TRY(draw(report, figures[i].name, ".png", diag));
  }
  return KC_OK;
}

static int print_files(json_t *files)
{
  json_t *root = json_pack("{s:i, s:O}", "schema", REPORT_SCHEMA, "files", files);
  if (root == NULL) {
    struct kc_diag diag;
    kc_fail(&diag, KC_ERR_MEMORY, "the host ran out of memory while the output was prepared");
    return kc_cli_fail(&diag);
  }
  const int status = kc_cli_print_json(root);
  json_decref(root);
  return status;
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
  if (arguments.json) report.files = json_array();
  const enum kc_err err = make_report(&report, &arguments, &diag);
  kc_store_close(report.store);
  status = err != KC_OK ? kc_cli_fail(&diag) : arguments.json ? print_files(report.files) : 0;
  json_decref(report.files);
  return status;
}
