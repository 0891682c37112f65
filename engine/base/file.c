/* Whole files, read-only; and new files, never in the place of a database.
 *
 *   regular file with a size  --> mmap, paged in on demand   data = mapping
 *   pipe, terminal, /proc     --> read to the end            data = heap block, grown by doubling
 *   nothing to read           --> data = NULL, bytes = 0
 *
 * struct kc_file owns the mapping or the block until kc_file_close; the descriptor is closed before
 * kc_file_open returns. malloc is used here: files are opened before the first step. A file that
 * somebody truncates while it is mapped would end the process with SIGBUS; traces and scenarios
 * are not written while they are read. */
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/check.h"

/* What every file of SQLite begins with, the 0 at its end included. */
static const char database_head[16] = "SQLite format 3";

enum { FIRST_READ_BYTES = 64 * 1024 };

static enum kc_err fail_system(const char *path, const char *what, struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "cannot %s this file: %s; check the name and "
                    "the permissions", what, strerror(errno));
}

static enum kc_err fail_limit(const char *path, size_t bytes_max, struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_LIMIT, path, 0, 0,
                    "this file is larger than %zu bytes, the most that is read here; check that it "
                    "is the right file, or split it",
                    bytes_max);
}

/* Doubles the block, to at most one byte past the limit: that byte shows that there was more. */
static char *grow(char *data, size_t *capacity, size_t bytes_max)
{
  KC_ASSERT(capacity != NULL);
  KC_ASSERT(*capacity <= bytes_max);
  size_t wanted = *capacity == 0 ? FIRST_READ_BYTES : *capacity;
  wanted = wanted > SIZE_MAX / 2 ? SIZE_MAX : 2 * wanted;
  if (wanted > bytes_max) wanted = bytes_max + 1;
  char *grown = realloc(data, wanted);
  if (grown != NULL) *capacity = wanted;
  return grown;
}

static enum kc_err read_all(struct kc_file *file, int descriptor, const char *path,
                            size_t bytes_max, struct kc_diag *diag)
{
  char *data = NULL;
  size_t used = 0;
  size_t capacity = 0;
  enum kc_err err = KC_OK;
  for (;;) {
    if (used == capacity) {
      char *grown = grow(data, &capacity, bytes_max);
      if (grown == NULL) {
        err = kc_fail_at(diag, KC_ERR_MEMORY, path, 0, 0,
                         "out of memory after %zu bytes of this file; free memory or split it",
                         used);
        break;
      }
      data = grown;
    }
    const ssize_t got = read(descriptor, data + used, capacity - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) err = fail_system(path, "read", diag);
    if (got <= 0) break;
    used += (size_t)got;
    if (used > bytes_max) {
      err = fail_limit(path, bytes_max, diag);
      break;
    }
  }
  if (err != KC_OK || used == 0) {
    free(data);
    return err;
  }
  *file = (struct kc_file){.data = data, .bytes = used};
  return KC_OK;
}

static enum kc_err read_or_map(struct kc_file *file, int descriptor, const char *path,
                               size_t bytes_max, struct kc_diag *diag)
{
  struct stat status;
  if (fstat(descriptor, &status) != 0) return fail_system(path, "examine", diag);
  if (S_ISDIR(status.st_mode)) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                      "this is a directory, a file was expected; name a file inside it");
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    if ((uintmax_t)status.st_size > bytes_max) return fail_limit(path, bytes_max, diag);
    const size_t bytes = (size_t)status.st_size;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    /* "-" may stand inside a regular file (after a head has taken rows): read on from there */
    const bool at_start = lseek(descriptor, 0, SEEK_CUR) == 0;
    if (data != MAP_FAILED && at_start) {
      *file = (struct kc_file){.data = data, .bytes = bytes, .mapped = true};
      return KC_OK;
    }
    if (data != MAP_FAILED) (void)munmap(data, bytes);
  }
  return read_all(file, descriptor, path, bytes_max, diag);
}

enum kc_err kc_file_open(struct kc_file *file, const char *path, size_t bytes_max,
                         struct kc_diag *diag)
{
  KC_ASSERT(file != NULL);
  KC_ASSERT(path != NULL);
  KC_ASSERT(bytes_max > 0 && bytes_max < SIZE_MAX);
  *file = (struct kc_file){0};
  if (strcmp(path, "-") == 0) return read_or_map(file, STDIN_FILENO, "-", bytes_max, diag);
  int descriptor;
  do {
    descriptor = open(path, O_RDONLY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return fail_system(path, "open", diag);
  const enum kc_err err = read_or_map(file, descriptor, path, bytes_max, diag);
  (void)close(descriptor); /* opened for reading: nothing can be lost */
  return err;
}

void kc_file_close(struct kc_file *file)
{
  KC_ASSERT(file != NULL);
  KC_ASSERT((file->data == NULL) == (file->bytes == 0));
  if (file->mapped) {
    const int status = munmap((void *)(uintptr_t)file->data, file->bytes);
    KC_ASSERT(status == 0);
  } else {
    free((void *)(uintptr_t)file->data);
  }
  *file = (struct kc_file){0};
}

bool kc_file_exists(const char *path)
{
  KC_ASSERT(path != NULL);
  struct stat status;
  if (stat(path, &status) != 0) return false;
  return S_ISREG(status.st_mode) && access(path, R_OK) == 0;
}

static bool same_place(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The folder that `path` is in, and its name there. False when there is no such folder. */
static bool find_parent(const char *path, struct stat *folder, const char **name)
{
  char copy[4096];
  const char *slash = strrchr(path, '/');
  *name = slash != NULL ? slash + 1 : path;
  const int length = slash == NULL ? snprintf(copy, sizeof copy, ".")
                                   : snprintf(copy, sizeof copy, "%.*s", (int)(slash - path + 1),
                                              path);
  KC_ASSERT(length > 0);
  return (size_t)length < sizeof copy && stat(copy, folder) == 0;
}

bool kc_file_same(const char *a, const char *b)
{
  struct stat x, y;
  const char *name_a, *name_b;
  KC_ASSERT(a != NULL && b != NULL);
  const bool there = stat(a, &x) == 0;
  if (there != (stat(b, &y) == 0)) return false;
  if (there) return S_ISREG(x.st_mode) && same_place(&x, &y);
  return find_parent(a, &x, &name_a) && find_parent(b, &y, &name_b) && same_place(&x, &y) &&
         strcmp(name_a, name_b) == 0;
}

/* Only a regular file is looked into: to open a pipe would wait for its other end. */
static bool is_database(const char *path)
{
  struct stat facts;
  char head[sizeof database_head];
  KC_ASSERT(path != NULL);
  if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  FILE *const file = fopen(path, "rb");
  if (file == NULL) return false;
  const size_t bytes = fread(head, 1, sizeof head, file);
  (void)fclose(file);
  KC_ASSERT(bytes <= sizeof head);
  return bytes == sizeof head && memcmp(head, database_head, sizeof head) == 0;
}

enum kc_err kc_file_check_output(const char *path, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  KC_ASSERT(diag != NULL);
  if (!is_database(path)) return KC_OK;
  return kc_fail_at(diag, KC_ERR_USAGE, path, 0, 0, "the output would overwrite a database; name "
                    "another file");
}

/* Why an earlier write failed is no longer known: errno is 0 then. */
static enum kc_err fail_write(const char *path, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "the file cannot be written: %s",
                    errno != 0 ? strerror(errno) : "the disk may be full");
}

enum kc_err kc_file_create(FILE **file, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(file != NULL);
  *file = NULL;
  KC_TRY(kc_file_check_output(path, diag));
  *file = fopen(path, "wb");
  return *file != NULL ? KC_OK : fail_write(path, diag);
}

enum kc_err kc_file_finish(FILE *file, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(file != NULL && path != NULL);
  const bool failed = ferror(file) != 0;
  errno = 0;
  return fclose(file) == 0 && !failed ? KC_OK : fail_write(path, diag);
}

enum kc_err kc_file_make_folder(const char *path, struct kc_diag *diag)
{
  char part[KC_DIAG_PATH_BYTES];
  struct stat facts;
  KC_ASSERT(path != NULL);
  const int length = snprintf(part, sizeof part, "%s", path);
  if (length < 0 || (size_t)length >= sizeof part) {
    return kc_fail(diag, KC_ERR_LIMIT, "the name of the folder is too long: %.100s...", path);
  }
  for (char *c = part; *c != '\0'; c++) {
    if (*c != '/' || c == part) continue;
    *c = '\0';
    (void)mkdir(part, 0777); /* the last one tells */
    *c = '/';
  }
  if (mkdir(part, 0777) != 0 && errno != EEXIST) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "the folder cannot be made: %s",
                      strerror(errno));
  }
  if (stat(part, &facts) == 0 && S_ISDIR(facts.st_mode)) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "the name belongs to a file; the output needs a "
                    "folder");
}
