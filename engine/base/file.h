/* Whole files, read-only: mapped where possible, read where not (pipes, stdin). */
#ifndef KC_ENGINE_BASE_FILE_H
#define KC_ENGINE_BASE_FILE_H

#include "engine/base/diag.h"

struct kc_file {
  const char *data; /* not terminated; NULL when bytes is 0 */
  size_t bytes;
  bool mapped;      /* else heap memory */
};

/* Opens `path` ("-" is standard input). Fails with KC_ERR_FILE: absent, a directory, unreadable, or
 * KC_ERR_LIMIT above `bytes_max`. */
enum kc_err kc_file_open(struct kc_file *file, const char *path, size_t bytes_max,
                         struct kc_diag *diag);
void kc_file_close(struct kc_file *file);

/* True when `path` names an existing regular file that can be read. */
bool kc_file_exists(const char *path);

#endif
