/* kvcap verify: predictions against published figures.
 *
 *   scenarios/published/NAME.yaml, each with an expect: list --> one table a file, and a count
 *
 * Nothing is fitted here: profiles are read as they stand. Exit status 1 when a figure lies outside
 * its bound.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cli/cli.h"
#include "sim/cli/figures.h"
#include "sim/cli/verify.h"

enum { VERIFY_SCHEMA = 1, FILES_MAX = 256 };

struct arguments {
  char out[1024];
  bool out_given;
  int figure_format;
  bool json;
};

static const struct kc_option options[] = {
  {.key = "plot", .type = KC_OPTION_TEXT, .offset = offsetof(struct arguments, out),
   .size = sizeof(((struct arguments *)NULL)->out), .set_offset = offsetof(struct arguments,
   out_given), .values = "FOLDER", .bare = "report",
   .help = "draw throughput over concurrent requests, predicted against published, into FOLDER"},
  {.key = "figure-format", .type = KC_OPTION_CHOICE,
   .offset = offsetof(struct arguments, figure_format), .fallback = "both",
   .values = "svg|png|both", .help = "kind of figure"},
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct arguments, json),
   .help = "print one JSON document instead of tables"},
};

static const struct kc_cli_usage usage = {
  .name = "verify",
  .synopsis = "[SCENARIO...] [options]",
  .about = "Predicts published figures and says how far off each prediction is, and what it rests\n"
           "on. Takes every scenario of scenarios/published, or those given by name or path. Exit\n"
           "status 1 when a figure lies outside its bound.",
  .options = options,
  .option_count = sizeof options / sizeof options[0],
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "examples:\n  kvcap verify\n  kvcap verify t02-kimi-decode-bf16 --plot figures",
};

/* Everything that was verified. */
struct verified {
  struct kc_verify_file *file; /* heap, FILES_MAX at most */
  size_t count, figures, outside, shown; /* shown: without a bound */
};

/* ---- which scenarios ---- */

static int is_scenario(const struct dirent *entry)
{
  const size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".yaml") == 0;
}

/* The names of the published scenarios in order; the caller frees them. */
static enum kc_err list_published(struct dirent ***entries, int *count,
                                  char folder[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  KC_TRY(kc_data_folder("published", folder, diag));
  *count = scandir(folder, entries, is_scenario, alphasort);
  if (*count > 0 && *count <= FILES_MAX) return KC_OK;
  for (int i = 0; i < *count; i++) free((*entries)[i]);
  if (*count >= 0) free(*entries);
  return kc_fail_at(diag, KC_ERR_FILE, folder, 0, 0,
                    "expected 1 to %d scenarios in this folder", (int)FILES_MAX);
}

/* ---- verifying ---- */

static int verify_one(struct verified *all, const char *path)
{
  struct kc_diag_list *problems = calloc(1, sizeof *problems);
  struct kc_verify_file *file = &all->file[all->count];
  int status = 8;
  KC_ASSERT(all->count < FILES_MAX);
  if (problems != NULL) {
    status = 0;
    if (kc_verify_file(file, path, problems) != KC_OK) status = kc_cli_fail_list(problems);
  }
  free(problems);
  if (status != 0) return status;
  all->count++;
  all->figures += file->count;
  for (uint32_t i = 0; i < file->count; i++) {
    const struct kc_verify_row *row = &file->row[i];
    all->outside += !row->holds;
    all->shown += row->holds && !kc_expect_has_bound(&row->expect);
  }
  return 0;
}

static int verify_published(struct verified *all)
{
  struct dirent **entries;
  char folder[KC_DIAG_PATH_BYTES], path[KC_DIAG_PATH_BYTES + 300];
  struct kc_diag diag;
  int count, status = 0;
  if (list_published(&entries, &count, folder, &diag) != KC_OK) return kc_cli_fail(&diag);
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (status == 0) status = verify_one(all, path);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int verify_named(struct verified *all, const char *const *names, size_t given)
{
  char path[KC_DIAG_PATH_BYTES];
  struct kc_diag diag;
  int status = 0;
  for (size_t i = 0; i < given && status == 0; i++) {
    if (kc_data_find("published", names[i], ".yaml", NULL, path, &diag) != KC_OK) {
      return kc_cli_fail(&diag);
    }
    status = verify_one(all, path);
  }
  return status;
}

/* ---- output ---- */

static int print_json(const struct verified *all, json_t *figures)
{
  json_t *root = json_object();
  json_t *files = json_array();
  for (size_t i = 0; i < all->count; i++) {
    json_array_append_new(files, kc_verify_json(&all->file[i]));
  }
  json_object_set_new(root, "schema", json_integer(VERIFY_SCHEMA));
  json_object_set_new(root, "scenarios", files);
  json_object_set_new(root, "figures", json_integer((json_int_t)all->figures));
  json_object_set_new(root, "outside", json_integer((json_int_t)all->outside));
  if (figures != NULL) json_object_set(root, "files", figures);
  return kc_cli_print_json(root);
}

static void print_tables(const struct verified *all)
{
  for (size_t i = 0; i < all->count; i++) kc_verify_print(&all->file[i]);
  printf("%zu figures of %zu scenarios: %zu within their bounds, %zu outside, %zu shown without "
         "one\n", all->figures, all->count, all->figures - all->outside - all->shown, all->outside,
         all->shown);
  printf("derived: no fitted figure takes part; calibrated: the profile was fitted to this figure;"
         "\nleft-out: to its neighbours only; modelled: nothing was fitted, nobody measured it\n");
}

static enum kc_err plot(const struct verified *all, const struct arguments *a,
                        struct kc_figures *figures, struct kc_diag *diag)
{
  char path[KC_FIGURE_PATH_BYTES];
  unsigned series = 0;
  KC_TRY(kc_figures_find(figures, diag));
  KC_TRY(kc_figures_make_out(figures, a->out, diag));
  KC_TRY(kc_figures_join(path, figures->out, "decode_tables", ".csv", diag));
  KC_TRY(kc_verify_csv(all->file, all->count, path, &series, diag));
  if (series == 0) {
    (void)unlink(path);
    kc_cli_note("none of them is a table of decode rates, so there is nothing to draw");
    return KC_OK;
  }
  kc_figures_announce(figures, path);
  return kc_figures_draw(figures, "decode_tables", (enum kc_figure_format)a->figure_format, diag);
}

static int finish(const struct verified *all, const struct arguments *a)
{
  struct kc_diag diag;
  struct kc_figures figures = {.files = a->json ? json_array() : NULL};
  int status = 0;
  if (!a->json) print_tables(all);
  if (a->out_given && plot(all, a, &figures, &diag) != KC_OK) status = kc_cli_fail(&diag);
  if (a->json) {
    const int printed = print_json(all, a->out_given ? figures.files : NULL);
    if (status == 0) status = printed;
  }
  json_decref(figures.files);
  return status != 0 ? status : all->outside > 0;
}

int kc_cmd_verify(int argc, char **argv)
{
  struct arguments a = {0};
  const char *names[KC_CLI_POSITIONAL_MAX];
  size_t given = 0;
  int status = kc_cli_arguments(&usage, &a, argc, argv, names, &given);
  if (status >= 0) return status;
  struct verified all = {.file = calloc(FILES_MAX, sizeof *all.file)};
  if (all.file == NULL) {
    const struct kc_diag diag = {.code = KC_ERR_MEMORY, .text = "no memory for the figures"};
    return kc_cli_fail(&diag);
  }
  status = given > 0 ? verify_named(&all, names, given) : verify_published(&all);
  if (status == 0) status = finish(&all, &a);
  free(all.file);
  return status;
}
