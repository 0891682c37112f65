/* A trace made by this program, to a file.
 *
 *   trace -> does the format hold all of it? -> OUT.partial -> OUT
 *
 * Nothing is kept between calls. */
#include "sim/cli/trace_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"

enum { PATH_BYTES = 4096 };

static bool write_text(void *context, const char *text, size_t bytes)
{
  return fwrite(text, 1, bytes, context) == bytes;
}

static enum kc_err fail_file(struct kc_diag *diag, const char *path, const char *what)
{
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "%s: %s", what, strerror(errno));
}

static enum kc_err write_file(const struct kc_trace *trace, enum kc_export_format format,
                              const char *path, struct kc_diag *diag)
{
  char partial[PATH_BYTES];
  const int length = snprintf(partial, sizeof partial, "%s.partial", path);
  if (length < 0 || length >= PATH_BYTES) {
    return kc_fail(diag, KC_ERR_LIMIT, "the path is longer than %d bytes", PATH_BYTES - 9);
  }
  FILE *const file = fopen(partial, "wb");
  if (file == NULL) return fail_file(diag, path, "the file cannot be written");
  enum kc_err err = kc_trace_export(trace, format, write_text, file, diag);
  if (fclose(file) != 0 && err == KC_OK) err = fail_file(diag, path, "the file is incomplete");
  if (err == KC_OK && rename(partial, path) != 0) {
    err = fail_file(diag, path, "the file cannot be written");
  }
  if (err != KC_OK) (void)remove(partial);
  return err;
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
                   kc_export_loss_text((enum kc_export_loss)i));
  }
  return KC_OK;
}

enum kc_err kc_cli_trace_put(const struct kc_trace *trace, enum kc_export_format format,
                             const char *path, struct kc_diag *diag)
{
  KC_ASSERT(path[0] != '\0');
  if (strcmp(path, "-") != 0) return write_file(trace, format, path, diag);
  return kc_trace_export(trace, format, write_text, stdout, diag);
}

enum kc_err kc_cli_trace_write(const struct kc_trace *trace, enum kc_export_format format,
                               const char *path, struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_TRY(check_losses(trace, format, diag));
  return kc_cli_trace_put(trace, format, path, diag);
}
