/* Drawing a command's figures with gnuplot.
 *
 *   OUT/NAME.csv --gnuplot (reports/plots/NAME.gp)--> OUT/NAME.svg, OUT/NAME.png
 *
 * gnuplot is started directly, without a shell, and paths never begin with a character that it
 * would take for a pipe. A script that ends with status 3 has said in one line why there is nothing
 * to draw: that is a note, not a failure. The command owns the CSV files and the struct; nothing is
 * kept between calls. */
#include "sim/cli/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "sim/cli/cli.h"
#include "sim/scenario/scenario.h"

/* ---- paths ---- */

/* Joins; false when the result does not fit. */
static bool join(char out[KC_FIGURE_PATH_BYTES], const char *folder, const char *name,
                 const char *suffix)
{
  const int length = snprintf(out, KC_FIGURE_PATH_BYTES, "%s/%s%s", folder, name, suffix);
  return length >= 0 && length < KC_FIGURE_PATH_BYTES;
}

static enum kc_err fail_long(const char *path, struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0, "the path is longer than %d bytes",
                    KC_FIGURE_PATH_BYTES - 1);
}

enum kc_err kc_figures_join(char out[KC_FIGURE_PATH_BYTES], const char *folder, const char *name,
                            const char *suffix, struct kc_diag *diag)
{
  return join(out, folder, name, suffix) ? KC_OK : fail_long(folder, diag);
}

/* The first of $KVCAP_DATA, the share folders and the source tree that has the views. */
enum kc_err kc_figures_find(struct kc_figures *figures, struct kc_diag *diag)
{
  const char *data = getenv("KVCAP_DATA");
  char share[KC_DIAG_PATH_BYTES];
  const char *const root[] = {data != NULL && data[0] != '\0' ? data : NULL,
                              kc_data_share(share) ? share : NULL, KVCAP_SHARE_DIR,
                              KVCAP_SOURCE_DIR};
  for (size_t i = 0; i < sizeof root / sizeof root[0]; i++) {
    char views[KC_FIGURE_PATH_BYTES];
    if (root[i] == NULL || !join(views, root[i], "reports/sql/views", ".sql")) continue;
    if (kc_file_exists(views) && join(figures->folder, root[i], "reports", "")) return KC_OK;
  }
  return kc_fail(diag, KC_ERR_FILE,
                 "the folder reports/ is not there; looked in $KVCAP_DATA%s%s%s, %s and %s; "
                 "install kvcap again or set KVCAP_DATA", data == NULL ? " (not set)" : " (",
                 data == NULL ? "" : data, data == NULL ? "" : ")", KVCAP_SHARE_DIR,
                 KVCAP_SOURCE_DIR);
}

/* A leading "./" keeps gnuplot from seeing '<', '|' or '-' at the start of a name. */
enum kc_err kc_figures_make_out(struct kc_figures *figures, const char *wanted,
                                struct kc_diag *diag)
{
  KC_ASSERT(wanted != NULL);
  const int length = snprintf(figures->out, sizeof figures->out, "%s%s",
                              wanted[0] == '/' ? "" : "./", wanted);
  if (length < 0 || (size_t)length >= sizeof figures->out) return fail_long(wanted, diag);
  return kc_file_make_folder(wanted, diag);
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

/* The status of a script that has nothing to draw; what it printed says why. */
enum { NOTHING_TO_DRAW = 3, SAID_BYTES = 1024 };

/* Reads what gnuplot says until it ends: the beginning is kept, the rest read and dropped. */
static void listen(int from, char said[SAID_BYTES])
{
  char drop[256];
  size_t used = 0;
  for (;;) {
    const bool full = used + 1 == SAID_BYTES;
    const ssize_t got = full ? read(from, drop, sizeof drop)
                             : read(from, said + used, SAID_BYTES - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (!full) used += (size_t)got;
  }
  KC_ASSERT(used < SAID_BYTES);
  said[used] = '\0';
}

/* Starts gnuplot with input and output on /dev/null and waits; its stderr goes to `said`. Returns
 * its exit status, 128 + signal, or -errno when it could not be started. */
static int run_gnuplot(char *script, char *data, char *figure, char said[SAID_BYTES])
{
  int ends[2];
  said[0] = '\0';
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  char program[] = "gnuplot", no_rc[] = "-d", call[] = "-c", locale[] = "LC_ALL=C.UTF-8";
  char *const arguments[] = {program, no_rc, call, script, data, figure, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults;
  char **environment = plain_environment(locale);
  pid_t child;
  int status = 0;
  if (environment == NULL) {
    close(ends[0]);
    close(ends[1]);
    return -ENOMEM;
  }
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error =
      posix_spawnp(&child, program, &actions, &attributes, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  free(environment);
  close(ends[1]);
  if (error == 0) listen(ends[0], said);
  close(ends[0]);
  if (error != 0) return -error;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static enum kc_err fail_gnuplot(const struct kc_figures *figures, const char *figure, int status,
                                struct kc_diag *diag)
{
  KC_ASSERT(status != 0);
  if (status == -ENOENT) {
    return kc_fail(diag, KC_ERR_FILE,
                   "gnuplot is not installed, so no figure was drawn (the CSV files are in %s); "
                   "install the package gnuplot-nox and run the command again", figures->out);
  }
  if (status < 0) {
    return kc_fail(diag, KC_ERR_FILE, "gnuplot could not be started: %s", strerror(-status));
  }
  return kc_fail_at(diag, KC_ERR_FILE, figure, 0, 0,
                    "gnuplot ended with status %d and drew nothing; its message is above", status);
}

/* ---- files ---- */

void kc_figures_announce(struct kc_figures *figures, const char *path)
{
  if (strncmp(path, "./", 2) == 0) path += 2;
  if (figures->files == NULL) {
    printf("%s\n", path);
  } else {
    json_array_append_new(figures->files, kc_cli_json_string(path));
  }
}

static enum kc_err draw(struct kc_figures *figures, const char *name, const char *suffix,
                        struct kc_diag *diag)
{
  char plots[KC_FIGURE_PATH_BYTES], script[KC_FIGURE_PATH_BYTES];
  char data[KC_FIGURE_PATH_BYTES], figure[KC_FIGURE_PATH_BYTES];
  KC_TRY(kc_figures_join(plots, figures->folder, "plots", "", diag));
  KC_TRY(kc_figures_join(script, plots, name, ".gp", diag));
  KC_TRY(kc_figures_join(data, figures->out, name, ".csv", diag));
  KC_TRY(kc_figures_join(figure, figures->out, name, suffix, diag));
  KC_TRY(kc_file_check_output(figure, diag));
  char said[SAID_BYTES];
  const int status = run_gnuplot(script, data, figure, said);
  if (status == NOTHING_TO_DRAW) {
    unlink(figure);
    said[strcspn(said, "\r\n")] = '\0';
    kc_text_clean(said);
    kc_cli_note("%s is left out: %s", strncmp(figure, "./", 2) == 0 ? figure + 2 : figure, said);
    return KC_OK;
  }
  fputs(said, stderr);
  if (status != 0) {
    if (status > 0) unlink(figure); /* half a figure is worse than none */
    return fail_gnuplot(figures, figure, status, diag);
  }
  kc_figures_announce(figures, figure);
  return KC_OK;
}

enum kc_err kc_figures_draw(struct kc_figures *figures, const char *name,
                            enum kc_figure_format format, struct kc_diag *diag)
{
  if (format != KC_FIGURE_PNG) KC_TRY(draw(figures, name, ".svg", diag));
  if (format != KC_FIGURE_SVG) KC_TRY(draw(figures, name, ".png", diag));
  return KC_OK;
}

int kc_figures_print(const struct kc_figures *figures, int schema)
{
  if (figures->files == NULL) return 0;
  json_t *root = json_pack("{s:i, s:O}", "schema", schema, "files", figures->files);
  return kc_cli_print_json(root);
}
