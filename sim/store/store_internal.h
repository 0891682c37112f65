/* Shared by the files of this folder and by its tests; nobody else includes it. */
#ifndef KC_SIM_STORE_STORE_INTERNAL_H
#define KC_SIM_STORE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "sim/store/store.h"

enum { KC_STORE_BUSY_MS = 5000 };

struct kc_store {
  sqlite3 *db;
  char path[KC_DIAG_PATH_BYTES]; /* as given, for messages */
  bool read_only;

  /* The run being written; valid while in_run. */
  bool in_run;
  int64_t run_id;
  enum kc_request_rows rows;
  uint64_t outcomes;             /* told so far: the next sequence number */
  int64_t pages_before;          /* of the file, when the run began: for "how much room" */
  sqlite3_stmt *insert_request, *insert_violation;
  sqlite3_stmt *insert_run;      /* its first half is bound at the begin, the rest at the end */
  char *trace_path;              /* heap; goes to `host` */
};

/* Turns an SQLite result code into our code and one sentence about store->path. `doing` completes
 * "while ..." ("storing run 3"). Never KC_OK. */
enum kc_err kc_store_fail(struct kc_store *store, int sqlite_code, const char *doing,
                          struct kc_diag *diag);

/* sqlite3_exec and sqlite3_prepare_v2 with kc_store_fail. */
enum kc_err kc_store_exec(struct kc_store *store, const char *sql, const char *doing,
                          struct kc_diag *diag);
enum kc_err kc_store_prepare(struct kc_store *store, const char *sql, sqlite3_stmt **statement,
                             const char *doing, struct kc_diag *diag);

/* A column as text, "" for NULL; valid until the statement moves on. */
static inline const char *kc_store_text(sqlite3_stmt *row, int column)
{
  KC_ASSERT(column >= 0 && column < sqlite3_column_count(row));
  const unsigned char *text = sqlite3_column_text(row, column);
  return text == NULL ? "" : (const char *)text;
}

/* First column of the first row as an integer; 0 when there is no row. */
enum kc_err kc_store_scalar(struct kc_store *store, const char *sql, int64_t *out,
                            const char *doing, struct kc_diag *diag);

#endif
