/* Where scenarios find the files they name.
 *
 *   name "h200" of folder "gpus"              path "my/h200.yaml", "../x.json", trace "a.csv"
 *     1 beside the scenario (and its gpus/)     1 absolute: as it stands
 *     2 $KVCAP_DATA/gpus                        2 beside the scenario
 *     3 share/kvcap of the program's prefix     3 in the current folder
 *     4 the share folder of the build           traces also: data folders, their traces/samples;
 *     5 the source tree of the build            and a folder of trace files by its path
 *
 * A data folder is one that holds scenarios/ and traces/, or for names one that holds models/ and
 * gpus/ directly. The first file found wins. Folders are listed in the message in the order
 * searched, and a path too long to keep is not searched; the suggestion is the nearest name in
 * them, the alphabetically first among equals, because readdir has no order of its own; where none
 * is near, all are listed. The scenario itself is never taken for what it names.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/scenario/scenario.h"

enum { FOLDERS_MAX = 10, NAMES_MAX = 128, NAME_BYTES = 64 };

/* Folders in the order to search. */
struct search {
  uint32_t count;
  uint32_t mixed; /* the first so many hold files of all sorts */
  char folder[FOLDERS_MAX][KC_DIAG_PATH_BYTES];
};

/* Adds a folder made of up to three parts; one whose path is too long is left out. */
static void add_folder(struct search *search, const char *root, const char *middle,
                       const char *folder)
{
  KC_ASSERT(search->count < FOLDERS_MAX);
  const int length = snprintf(search->folder[search->count], KC_DIAG_PATH_BYTES, "%s%s%s%s%s", root,
                              middle[0] == '\0' ? "" : "/", middle, folder[0] == '\0' ? "" : "/",
                              folder);
  if (length >= 0 && length < KC_DIAG_PATH_BYTES) search->count++;
}

/* The folder of a file: "." where the path has none. */
static void folder_of(const char *path, char out[KC_DIAG_PATH_BYTES])
{
  KC_ASSERT(path[0] != '\0');
  const char *slash = strrchr(path, '/');
  if (slash == NULL) {
    snprintf(out, KC_DIAG_PATH_BYTES, ".");
  } else {
    snprintf(out, KC_DIAG_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  }
}

static bool is_folder(const char *path)
{
  KC_ASSERT(path != NULL);
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* What a shell makes of <(command), or a named pipe: it can be read once. */
static bool is_pipe(const char *path)
{
  struct stat status;
  KC_ASSERT(path != NULL);
  return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

bool kc_trace_exists(const char *path)
{
  KC_ASSERT(path != NULL);
  return kc_file_exists(path) || is_folder(path) || is_pipe(path);
}

/* Tries folder/name+suffix. False also when the joined path is too long to keep. */
static bool try_place(const char *folder, const char *name, const char *suffix,
                      bool (*exists)(const char *path), char out[KC_DIAG_PATH_BYTES])
{
  KC_ASSERT(name[0] != '\0');
  char path[KC_DIAG_PATH_BYTES];
  const bool here = folder[0] == '\0' || strcmp(folder, ".") == 0;
  const int length = snprintf(path, sizeof path, "%s%s%s%s", here ? "" : folder, here ? "" : "/",
                              name, suffix);
  if (length < 0 || (size_t)length >= sizeof path || !exists(path)) return false;
  memcpy(out, path, (size_t)length + 1);
  return true;
}

/* A folder or a pipe is there too: whoever opens it says what it thinks of that. */
static bool is_there(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0;
}

static bool try_file(const char *folder, const char *name, const char *suffix,
                     char out[KC_DIAG_PATH_BYTES])
{
  return try_place(folder, name, suffix, is_there, out);
}

/* `except` (may be NULL) is not taken: a scenario saved as h100.yaml is not the GPU h100. */
static bool search_file(const struct search *search, const char *name, const char *suffix,
                        const char *except, char out[KC_DIAG_PATH_BYTES])
{
  KC_ASSERT(search->count <= FOLDERS_MAX);
  for (uint32_t i = 0; i < search->count; i++) {
    if (!try_file(search->folder[i], name, suffix, out)) continue;
    if (except == NULL || !kc_file_same(out, except)) return true;
  }
  return false;
}

/* The names with the suffix in the folders that hold nothing else (a scenario's own folder holds
 * all sorts of files), each once. */
struct names {
  uint32_t count;
  char name[NAMES_MAX][NAME_BYTES];
};

static int by_text(const void *a, const void *b)
{
  return strcmp(a, b);
}

static void add_name(struct names *names, const char *file, const char *suffix)
{
  const size_t length = strlen(file), tail = strlen(suffix);
  char name[NAME_BYTES];
  if (length <= tail || length - tail >= sizeof name || names->count == NAMES_MAX) return;
  if (strcmp(file + length - tail, suffix) != 0) return;
  snprintf(name, sizeof name, "%.*s", (int)(length - tail), file);
  for (uint32_t i = 0; i < names->count; i++) {
    if (strcmp(names->name[i], name) == 0) return;
  }
  memcpy(names->name[names->count++], name, sizeof name);
}

static void list_names(const struct search *search, const char *suffix, struct names *names)
{
  KC_ASSERT(suffix[0] == '.');
  KC_ASSERT(search->mixed <= search->count);
  names->count = 0;
  for (uint32_t i = search->mixed; i < search->count; i++) {
    DIR *folder = opendir(search->folder[i]);
    if (folder == NULL) continue;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
      add_name(names, entry->d_name, suffix);
    }
    closedir(folder);
  }
  qsort(names->name, names->count, sizeof names->name[0], by_text);
}

/* The nearest of the names when one is near enough to be meant, else all of them. */
static void suggest(const struct names *names, const char *typed, char *out, size_t size)
{
  const char *nearest = NULL;
  unsigned least = kc_edit_reach(typed) + 1;
  size_t used = 0;
  KC_ASSERT(size > 0);
  out[0] = '\0';
  for (uint32_t i = 0; i < names->count; i++) {
    const unsigned distance = kc_edit_distance(typed, names->name[i]);
    if (distance >= least) continue;
    least = distance;
    nearest = names->name[i];
  }
  if (nearest != NULL) {
    snprintf(out, size, "; the nearest name is \"%s\"", nearest);
    return;
  }
  for (uint32_t i = 0; i < names->count && used < size - 1; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "; known are " : ", ",
                             names->name[i]);
  }
}

static void list_folders(const struct search *search, char *out, size_t size)
{
  KC_ASSERT(size > 0);
  size_t used = 0;
  out[0] = '\0';
  for (uint32_t i = 0; i < search->count && used < size - 1; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "" : ", ",
                             search->folder[i]);
  }
}

bool kc_data_share(char out[KC_DIAG_PATH_BYTES])
{
  struct stat status;
  KC_ASSERT(out != NULL);
  const ssize_t length = readlink("/proc/self/exe", out, KC_DIAG_PATH_BYTES - 1);
  if (length <= 0 || length >= KC_DIAG_PATH_BYTES - 1) return false;
  out[length] = '\0';
  for (int up = 0; up < 2; up++) { /* PREFIX/bin/kvcap -> PREFIX */
    char *slash = strrchr(out, '/');
    if (slash == NULL) return false;
    *slash = '\0';
  }
  const size_t used = strlen(out);
  if (used + sizeof "/share/kvcap" > KC_DIAG_PATH_BYTES) return false;
  memcpy(out + used, "/share/kvcap", sizeof "/share/kvcap");
  return stat(out, &status) == 0 && S_ISDIR(status.st_mode);
}

static void data_folders(struct search *search, const char *folder, const char *beside)
{
  KC_ASSERT(search->count == 0);
  char near[KC_DIAG_PATH_BYTES], share[KC_DIAG_PATH_BYTES];
  const char *data = getenv("KVCAP_DATA");
  if (beside != NULL) {
    folder_of(beside, near);
    add_folder(search, near, "", "");
    search->mixed = search->count;
    add_folder(search, near, folder, "");
  }
  if (data != NULL && data[0] != '\0') {
    add_folder(search, data, folder, "");
    add_folder(search, data, "scenarios", folder);
  }
  if (kc_data_share(share)) add_folder(search, share, "scenarios", folder);
  add_folder(search, KVCAP_SHARE_DIR, "scenarios", folder);
  add_folder(search, KVCAP_SOURCE_DIR, "scenarios", folder);
}

static bool ends_with(const char *text, const char *suffix)
{
  const size_t length = strlen(text), tail = strlen(suffix);
  return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* A path: as it stands, or beside the scenario and then in the current folder. */
static bool find_path(const char *name, const char *beside, bool (*exists)(const char *path),
                      char out[KC_DIAG_PATH_BYTES])
{
  char near[KC_DIAG_PATH_BYTES];
  KC_ASSERT(exists != NULL);
  if (name[0] == '/') return try_place("", name, "", exists, out);
  if (beside != NULL) {
    folder_of(beside, near);
    if (try_place(near, name, "", exists, out)) return true;
  }
  return try_place("", name, "", exists, out);
}

/* A model may be named by the folder that holds its config.json, as downloads lie. */
static void enter_folder(char path[KC_DIAG_PATH_BYTES], const char *suffix)
{
  struct stat status;
  char inside[KC_DIAG_PATH_BYTES];
  if (strcmp(suffix, ".json") != 0 || stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) return;
  if (try_file(path, "config", suffix, inside)) memcpy(path, inside, sizeof inside);
}

enum kc_err kc_data_find(const char *folder, const char *name, const char *suffix,
                         const char *beside, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  KC_ASSERT(folder != NULL && name != NULL);
  KC_ASSERT(suffix != NULL && out != NULL);
  if (name[0] == '\0') {
    return kc_fail(diag, KC_ERR_INPUT, "the name of a file of %s is empty; name one, or give a "
                   "path", folder);
  }
  if (strchr(name, '/') != NULL || ends_with(name, suffix)) {
    if (find_path(name, beside, is_there, out)) {
      enter_folder(out, suffix);
      return KC_OK;
    }
    return kc_fail(diag, KC_ERR_FILE, "file \"%s\" of %s is not there: looked %sin the current "
                   "folder", name, folder, beside == NULL ? "" : "beside the scenario and ");
  }
  struct search search = {0};
  data_folders(&search, folder, beside);
  if (search_file(&search, name, suffix, beside, out)) return KC_OK;
  char known[KC_DIAG_TEXT_BYTES / 2], folders[KC_DIAG_TEXT_BYTES];
  struct names names;
  list_names(&search, suffix, &names);
  suggest(&names, name, known, sizeof known);
  list_folders(&search, folders, sizeof folders);
  return kc_fail(diag, KC_ERR_INPUT, "\"%.64s\" is not known in %s%s; searched %s", name, folder,
                 known, folders);
}

enum kc_err kc_data_find_option(const char *option, const char *folder, const char *name,
                                const char *suffix, const char *beside,
                                char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  struct kc_diag why;
  KC_ASSERT(option[0] == '-');
  const enum kc_err err = kc_data_find(folder, name, suffix, beside, out, &why);
  if (err == KC_OK) return KC_OK;
  return kc_fail_at(diag, err == KC_ERR_INPUT ? KC_ERR_USAGE : err, option, 0, 0, "%s", why.text);
}

enum kc_err kc_kernels_find(const struct kc_gpu *gpu, const char *kernels, const char *model,
                            uint32_t tensor, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  char near[KC_DIAG_PATH_BYTES], file[128];
  KC_ASSERT(kernels[0] != '\0');
  folder_of(gpu->path, near);
  if (try_place(near, kernels, "", is_folder, out)) {
    memcpy(near, out, sizeof near);
    snprintf(file, sizeof file, "%.90s-tp%u.yaml", model, tensor);
    if (try_file(near, file, "", out)) return KC_OK;
    return kc_fail_at(diag, KC_ERR_FILE, near, 0, 0, "no layers of %s at tensor degree %u were "
                      "measured here (%s is not there); use another profile", model, tensor, file);
  }
  if (try_file(near, kernels, "", out)) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, gpu->path, 0, 0, "the measured kernels \"%s\" are not "
                    "beside this file", kernels);
}

enum kc_err kc_data_folder(const char *folder, char out[KC_DIAG_PATH_BYTES], struct kc_diag *diag)
{
  KC_ASSERT(folder != NULL && out != NULL);
  struct search search = {0};
  char folders[KC_DIAG_TEXT_BYTES];
  data_folders(&search, folder, NULL);
  for (uint32_t i = 0; i < search.count; i++) {
    if (!is_folder(search.folder[i])) continue;
    memcpy(out, search.folder[i], KC_DIAG_PATH_BYTES);
    return KC_OK;
  }
  list_folders(&search, folders, sizeof folders);
  return kc_fail(diag, KC_ERR_FILE, "folder \"%s\" is not there; searched %s", folder, folders);
}

enum kc_err kc_trace_find(const char *name, const char *beside, char out[KC_DIAG_PATH_BYTES],
                          struct kc_diag *diag)
{
  KC_ASSERT(name != NULL);
  KC_ASSERT(out != NULL);
  if (strcmp(name, "-") == 0) { /* standard input */
    memcpy(out, "-", sizeof "-");
    return KC_OK;
  }
  if (find_path(name, beside, kc_trace_exists, out)) return KC_OK;
  if (name[0] == '/') {
    return kc_fail(diag, KC_ERR_FILE, "trace \"%s\" is not there", name);
  }
  struct search search = {0};
  const char *data = getenv("KVCAP_DATA");
  char share[KC_DIAG_PATH_BYTES];
  const char *roots[] = {data, kc_data_share(share) ? share : NULL, KVCAP_SHARE_DIR,
                         KVCAP_SOURCE_DIR};
  for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
    if (roots[i] == NULL || roots[i][0] == '\0') continue;
    add_folder(&search, roots[i], "", "");
    add_folder(&search, roots[i], "traces", "samples");
  }
  if (search_file(&search, name, "", NULL, out)) return KC_OK;
  char folders[KC_DIAG_TEXT_BYTES];
  list_folders(&search, folders, sizeof folders);
  return kc_fail(diag, KC_ERR_FILE, "trace \"%s\" is not there: looked %sin the current folder and "
                 "in %s", name, beside == NULL ? "" : "beside the scenario, ", folders);
}
