/* A trace made by this program, to a file.
 *
 *   trace -> does the format hold all of it? -> OUT.abc123 -> OUT    a regular file, or none yet
 *                                            `-> OUT               a device or a pipe: straight
 *
 * A link is followed, so what it points to is replaced and not the link. An interruption while
 * writing leaves no part behind. */
#include "sim/cli/trace_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "sim/cli/interrupt.h"

enum { PATH_BYTES = 4096 };

static bool write_text(void *context, const char *text, size_t bytes)
{
  return !kc_interrupt_wanted(NULL) && fwrite(text, 1, bytes, context) == bytes;
}

static enum kc_err fail_file(struct kc_diag *diag, const char *path, const char *what)
{
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "%s: %s", what, strerror(errno));
}

static enum kc_err write_stream(const struct kc_trace *trace, enum kc_export_format format,
                                FILE *file, const char *path, struct kc_diag *diag)
{
  kc_interrupt_catch();
  enum kc_err err = kc_trace_export(trace, format, write_text, file, diag);
  if (fclose(file) != 0 && err == KC_OK) err = fail_file(diag, path, "the file is incomplete");
  kc_interrupt_release();
  if (!kc_interrupt_wanted(NULL)) return err;
  return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted; nothing was written");
}

/* Writes beside `target` under a name of its own and renames. `mode` is what the file gets. */
static enum kc_err write_whole(const struct kc_trace *trace, enum kc_export_format format,
                               const char *target, mode_t mode, struct kc_diag *diag)
{
  char partial[PATH_BYTES];
  const int length = snprintf(partial, sizeof partial, "%s.XXXXXX", target);
  if (length < 0 || length >= PATH_BYTES) {
    return kc_fail(diag, KC_ERR_LIMIT, "the path is longer than %d bytes", PATH_BYTES - 8);
  }
  const int descriptor = mkstemp(partial);
  if (descriptor < 0) return fail_file(diag, target, "the file cannot be written");
  FILE *const file = fchmod(descriptor, mode) == 0 ? fdopen(descriptor, "wb") : NULL;
  enum kc_err err = KC_OK;
  if (file == NULL) {
    err = fail_file(diag, target, "the file cannot be written");
    close(descriptor);
  } else {
    err = write_stream(trace, format, file, target, diag);
  }
  if (err == KC_OK && rename(partial, target) != 0) {
    err = fail_file(diag, target, "the file cannot be written");
  }
  if (err != KC_OK) (void)remove(partial);
  return err;
}

static enum kc_err write_file(const struct kc_trace *trace, enum kc_export_format format,
                              const char *path, struct kc_diag *diag)
{
  struct stat status;
  KC_TRY(kc_file_check_output(path, diag));
  if (stat(path, &status) != 0) return write_whole(trace, format, path, 0644, diag);
  if (S_ISREG(status.st_mode)) {
    char *const target = realpath(path, NULL);
    if (target == NULL) return fail_file(diag, path, "the file cannot be written");
    const enum kc_err err = write_whole(trace, format, target, status.st_mode & 0777, diag);
    free(target);
    return err;
  }
  FILE *const file = S_ISDIR(status.st_mode) ? NULL : fopen(path, "wb");
  if (S_ISDIR(status.st_mode)) errno = EISDIR;
  if (file == NULL) return fail_file(diag, path, "the file cannot be written");
  return write_stream(trace, format, file, path, diag);
}

static bool same(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

enum kc_err kc_cli_trace_output_check(const char *out, const char *const *input, size_t count,
                                      struct kc_diag *diag)
{
  char folder[PATH_BYTES];
  struct stat there, here, parent;
  KC_ASSERT(out[0] != '\0');
  if (strcmp(out, "-") == 0 || strlen(out) >= sizeof folder) return KC_OK;
  snprintf(folder, sizeof folder, "%s", out);
  char *const slash = strrchr(folder, '/');
  if (slash != NULL) slash[slash == folder] = '\0';
  const bool exists = stat(out, &here) == 0;
  const bool has_parent = stat(slash != NULL ? folder : ".", &parent) == 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(input[i], "-") == 0 || stat(input[i], &there) != 0) continue;
    if (exists && same(&there, &here)) {
      return kc_fail(diag, KC_ERR_USAGE, "the output \"%.200s\" is also an input; name another "
                     "file", out);
    }
    if (has_parent && S_ISDIR(there.st_mode) && same(&there, &parent)) {
      return kc_fail(diag, KC_ERR_USAGE, "the output \"%.200s\" would lie in the folder that is "
                     "read; name a file elsewhere", out);
    }
  }
  return KC_OK;
}

/* Rounded times are no loss to a trace that was only just made up. */
static enum kc_err check_losses(const struct kc_trace *trace, enum kc_export_format format,
                                struct kc_diag *diag)
{
  uint64_t lost[KC_LOSSES];
  if (kc_trace_export_losses(trace, format, lost)) return KC_OK;
  for (unsigned i = 0; i < KC_LOSSES; i++) {
    if (lost[i] == 0 || i == KC_LOSS_TIMES) continue;
    return kc_fail(diag, KC_ERR_USAGE, "the format has no place for all of this trace: %llu %s; "
                   "write it with --to kvcap", (unsigned long long)lost[i],
                   kc_export_loss_text((enum kc_export_loss)i, format));
  }
  return KC_OK;
}

enum kc_err kc_cli_trace_put(const struct kc_trace *trace, enum kc_export_format format,
                             const char *path, struct kc_diag *diag)
{
  KC_ASSERT(path[0] != '\0');
  if (strcmp(path, "-") != 0) return write_file(trace, format, path, diag);
  const enum kc_err err = kc_trace_export(trace, format, write_text, stdout, diag);
  return err == KC_ERR_FILE && ferror(stdout) != 0 ? KC_OK : err; /* kc_cli_finish says why */
}

enum kc_err kc_cli_trace_write(const struct kc_trace *trace, enum kc_export_format format,
                               const char *path, struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_TRY(check_losses(trace, format, diag));
  return kc_cli_trace_put(trace, format, path, diag);
}
