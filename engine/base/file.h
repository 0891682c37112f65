/* Whole files, read-only: mapped where possible, read where not (pipes, stdin); and the making of
 * files, which never writes over a results database. */
#ifndef KC_ENGINE_BASE_FILE_H
#define KC_ENGINE_BASE_FILE_H

#include <stdio.h>

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

/* True when both names are those of one file: an existing regular one, or one that is still to be
 * made in the same folder. Devices and pipes, which may be written to twice, are no files here. */
bool kc_file_same(const char *a, const char *b);

/* Refuses (KC_ERR_USAGE) an output whose place is taken by a database, of this program or another:
 * results cannot be made again by writing a page or a table. Everything that is written under a
 * name that a user gave goes through here or through kc_file_create. */
enum kc_err kc_file_check_output(const char *path, struct kc_diag *diag);

/* Checks the same, then makes `path` or empties it; the caller closes *file (kc_file_finish).
 * KC_ERR_FILE when it cannot be written. *file is NULL after an error. */
enum kc_err kc_file_create(FILE **file, const char *path, struct kc_diag *diag);
/* Makes the folder with its parents, where it is not there yet. KC_ERR_FILE: no permission, the
 * name of a file; KC_ERR_LIMIT. */
enum kc_err kc_file_make_folder(const char *path, struct kc_diag *diag);
/* Closes it. KC_ERR_FILE when this or an earlier write failed; `path` is for the message. */
enum kc_err kc_file_finish(FILE *file, const char *path, struct kc_diag *diag);

#endif
