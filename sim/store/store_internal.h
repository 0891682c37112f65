/* Shared by the files of this folder and by its tests; nobody else includes it. */
#ifndef KC_SIM_STORE_STORE_INTERNAL_H
#define KC_SIM_STORE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "engine/base/digest.h"
#include "sim/store/store.h"

/* How long others are waited for: when opening, and when a run that may have taken an hour is
 * written while several others end at the same time. */
enum { KC_STORE_BUSY_MS = 5000, KC_STORE_END_BUSY_MS = 15000 };

/* KC_CANONICAL_LAYOUT in SQL. */
#define KC_LAYOUT_TEXT KC_LAYOUT_QUOTE(KC_CANONICAL_LAYOUT)
#define KC_LAYOUT_QUOTE(number) KC_LAYOUT_QUOTED(number)
#define KC_LAYOUT_QUOTED(number) #number

/* An outcome that will be a row of `request`, of `violation`, or of both. */
struct kc_store_row {
  struct kc_outcome outcome;
  uint64_t sequence;
  uint32_t input_tokens, max_tokens, tenant, class_index;
};

struct kc_store {
  sqlite3 *db;
  char path[KC_DIAG_PATH_BYTES]; /* as given, for messages */
  bool read_only;
  bool settles;                  /* a reader that was alone: takes its -wal and -shm away again */
  int busy_ms;                   /* in force now */
  int end_busy_ms;               /* KC_STORE_END_BUSY_MS; tests are less patient */

  /* The run that goes on; valid while in_run. */
  bool in_run;
  int64_t run_id;                /* 0 until its transaction has begun */
  enum kc_request_rows rows;
  uint64_t outcomes;             /* told so far: the next sequence number */
  struct kc_store_row *row;      /* heap, doubled as it fills */
  uint64_t row_count, row_room;
  int64_t pages_before;          /* of the file, when the transaction began: for "how much room" */
  sqlite3_stmt *insert_run;      /* the header's part is bound at the begin, the rest at the end */
  char *trace_path;              /* heap; goes to `host` */
  const char *const *class_name; /* borrowed from the header */
};

/* Sets how long a lock of another connection is waited for. */
void kc_store_wait_for(struct kc_store *store, int busy_ms);

/* Turns an SQLite result code into our code and one sentence about store->path. `doing` completes
 * "while ..." ("storing run 3"). Never KC_OK. */
enum kc_err kc_store_fail(struct kc_store *store, int sqlite_code, const char *doing,
                          struct kc_diag *diag);

/* sqlite3_exec and sqlite3_prepare_v2 with kc_store_fail. */
enum kc_err kc_store_exec(struct kc_store *store, const char *sql, const char *doing,
                          struct kc_diag *diag);
enum kc_err kc_store_prepare(struct kc_store *store, const char *sql, sqlite3_stmt **statement,
                             const char *doing, struct kc_diag *diag);

/* KC_ERR_STORE with table, row and column where a value among the rows `where` (SQL over the
 * table's columns) is none that a run or a sweep stores: negative, infinite, missing. A table that
 * the file does not have is sound. */
enum kc_err kc_store_check_sound(struct kc_store *store, const char *table, const char *where,
                                 struct kc_diag *diag);

/* A transaction for writing: waits for other writers, then commits what went well (`err` KC_OK) or
 * rolls back what did not, whose error it returns. */
enum kc_err kc_store_begin(struct kc_store *store, const char *doing, struct kc_diag *diag);
enum kc_err kc_store_finish(struct kc_store *store, enum kc_err err, const char *doing,
                            struct kc_diag *diag);

/* A column as text, "" for NULL; valid until the statement moves on. */
static inline const char *kc_store_text(sqlite3_stmt *row, int column)
{
  KC_ASSERT(column >= 0 && column < sqlite3_column_count(row));
  const unsigned char *text = sqlite3_column_text(row, column);
  return text == NULL ? "" : (const char *)text;
}

/* kc_text_clean line by line: line ends stay. */
void kc_store_clean_lines(char *text);

/* First column of the first row as an integer; 0 when there is no row. */
enum kc_err kc_store_scalar(struct kc_store *store, const char *sql, int64_t *out,
                            const char *doing, struct kc_diag *diag);

/* ---- verification, in three files ---- */

/* "ttft_count, ttft_mean_ps, ..." for a SELECT list. */
#define KC_STORE_STATISTIC(m)                                                             \
  m "_count, " m "_mean_ps, " m "_p50_ps, " m "_p90_ps, " m "_p95_ps, " m "_p99_ps, " m \
  "_min_ps, " m "_max_ps"

typedef void (*kc_store_row_visitor)(struct kc_store *store, sqlite3_stmt *row,
                                     struct kc_diag_list *problems);

/* Calls `visit` on every row of `sql`; adds a problem when that cannot be read. */
void kc_store_for_each_row(struct kc_store *store, const char *sql, kc_store_row_visitor visit,
                           struct kc_diag_list *problems);
/* Adds what kc_store_fail says about `sqlite_code`. */
void kc_store_add_failure(struct kc_store *store, int sqlite_code, struct kc_diag_list *problems);

/* Hash and latencies again from the rows of request, where all were kept. */
void kc_store_verify_rows(struct kc_store *store, struct kc_diag_list *problems);
/* Columns of every run row against its histograms, its stored document and each other. */
void kc_store_verify_figures(struct kc_store *store, struct kc_diag_list *problems);

/* Rows of run_group, for the run that is being written; none without groups. An SQLite code. */
int kc_store_insert_groups(struct kc_store *store, const struct kc_groups *groups);

/* Rows of sweeps and points against each other, scenarios and points against their digests, and
 * the answers of plans against their points. */
void kc_store_verify_sweeps(struct kc_store *store, struct kc_diag_list *problems);

/* The digest of a point: its own row first, then its changes in order of their position, then
 * its figures in order of their names. Texts as they are stored; NULL is "". */
struct kc_point_text {
  const char *status, *reason, *trust, *config_sha256, *result_sha256;
};
void kc_point_digest_begin(struct kc_sha256 *sha, int64_t number, const struct kc_point_text *row);
void kc_point_digest_set(struct kc_sha256 *sha, const char *key, const char *value);
void kc_point_digest_figure(struct kc_sha256 *sha, const char *name, double value);

/* Rows of run_group against those of request, where all were kept. */
void kc_store_verify_groups(struct kc_store *store, struct kc_diag_list *problems);

#endif
