/* Folders of shards and of sessions.
 *
 *   day1/  LICENSE  README.txt  part-0.jsonl.gz  part-1.jsonl.gz   ->  the two parts, in this order
 *
 * Names decide here, because a folder also holds licences and notes; the content of each file
 * decides its format afterwards. The order is that of bytes, not of the file system or a locale.
 * Paths are from malloc, before a run. */
#include "traces/readers/trace_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/check.h"
#include "traces/trace.h"

bool kc_trace_is_folder(const char *path)
{
  struct stat status;
  KC_ASSERT(path != NULL);
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool ends_with(const char *name, size_t bytes, const char *end)
{
  const size_t end_bytes = strlen(end);
  return bytes > end_bytes && memcmp(name + bytes - end_bytes, end, end_bytes) == 0;
}

static bool is_trace_name(const char *name)
{
  static const char *const ends[] = {".csv", ".json", ".jsonl", ".ndjson"};
  size_t bytes = strlen(name);
  if (name[0] == '.') return false;
  if (ends_with(name, bytes, ".gz")) bytes -= 3;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    if (ends_with(name, bytes, ends[i])) return true;
  }
  return false;
}

static int compare_paths(const void *a, const void *b)
{
  char *const *const left = a;
  char *const *const right = b;
  return strcmp(*left, *right);
}

void kc_trace_files_free(struct kc_trace_files *files)
{
  for (size_t i = 0; i < files->count; i++) free(files->path[i]);
  free(files->path);
  memset(files, 0, sizeof *files);
}

static enum kc_err add_path(struct kc_trace_files *files, const char *folder, const char *name,
                            struct kc_diag *diag)
{
  const size_t room = strlen(folder) + strlen(name) + 2;
  const bool slash = folder[0] != '\0' && folder[strlen(folder) - 1] == '/';
  char *const path = malloc(room);
  if (path == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: the files of a folder");
  (void)snprintf(path, room, "%s%s%s", folder, slash ? "" : "/", name);
  struct stat status; /* a pipe in a folder would wait for a writer for ever */
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
    files->skipped++;
    free(path);
    return KC_OK;
  }
  files->path[files->count++] = path;
  return KC_OK;
}

static enum kc_err fail_folder(struct kc_diag *diag, const char *folder)
{
  return kc_fail_at(diag, KC_ERR_FILE, folder, 0, 0,
                    "cannot read this folder: %s; check the name and the permissions",
                    strerror(errno));
}

static enum kc_err list_entries(struct kc_trace_files *files, const char *folder, DIR *directory,
                                struct kc_diag *diag)
{
  const struct dirent *entry;
  size_t capacity = 0;
  errno = 0;
  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    if (!is_trace_name(entry->d_name)) {
      files->skipped++;
      continue;
    }
    if (files->count == KC_TRACE_FILES_MAX) {
      return kc_fail_at(diag, KC_ERR_LIMIT, folder, 0, 0,
                        "more than %d files, the ceiling of a trace; join some of them",
                        KC_TRACE_FILES_MAX);
    }
    if (files->count == capacity) {
      capacity = capacity == 0 ? 64 : capacity * 2;
      char **const larger = realloc(files->path, capacity * sizeof *larger);
      if (larger == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: a folder's files");
      files->path = larger;
    }
    KC_TRY(add_path(files, folder, entry->d_name, diag));
    errno = 0;
  }
  if (errno != 0) return fail_folder(diag, folder);
  if (files->count > 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, folder, 0, 0,
                    "no traces in this folder; expected files named *.csv, *.json, *.jsonl or "
                    "*.ndjson, plain or with .gz");
}

enum kc_err kc_trace_files_list(struct kc_trace_files *files, const char *folder,
                                struct kc_diag *diag)
{
  memset(files, 0, sizeof *files);
  DIR *const directory = opendir(folder);
  if (directory == NULL) return fail_folder(diag, folder);
  const enum kc_err result = list_entries(files, folder, directory, diag);
  (void)closedir(directory);
  if (result != KC_OK) {
    kc_trace_files_free(files);
    return result;
  }
  qsort(files->path, files->count, sizeof *files->path, compare_paths); /* no two are equal */
  return KC_OK;
}
