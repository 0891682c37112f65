/* Figures that machines gave: writing and reading the table `measurement`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store/store_internal.h"

enum { TEXTS = 7 };

static const char insert_sql[] =
  "INSERT INTO measurement (kind, subject, metric, unit, device, measured_utc, version, value,"
  " emulated) VALUES (?,?,?,?,?,?,?,?,?)";

static const char select_sql[] =
  "SELECT kind, subject, metric, unit, device, measured_utc, version, value, emulated"
  " FROM measurement ORDER BY id";

/* Binds a clean copy. An SQLite code. */
static int bind_clean(sqlite3_stmt *row, int column, const char *text)
{
  KC_ASSERT(text != NULL);
  char *clean = strdup(text);
  if (clean == NULL) return SQLITE_NOMEM;
  kc_text_clean(clean);
  const int code = sqlite3_bind_text(row, column, clean, -1, SQLITE_TRANSIENT);
  free(clean);
  return code;
}

static int insert(sqlite3_stmt *row, const struct kc_measurement *m)
{
  const char *const text[TEXTS] = {m->kind, m->subject, m->metric, m->unit,
                                   m->device, m->measured_utc, m->version};
  int code = SQLITE_OK;
  KC_ASSERT(isfinite(m->value));
  for (int i = 0; i < TEXTS && code == SQLITE_OK; i++) code = bind_clean(row, i + 1, text[i]);
  if (code == SQLITE_OK) code = sqlite3_bind_double(row, TEXTS + 1, m->value);
  if (code == SQLITE_OK) code = sqlite3_bind_int(row, TEXTS + 2, m->emulated);
  if (code != SQLITE_OK) return code;
  code = sqlite3_step(row);
  sqlite3_reset(row);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

enum kc_err kc_store_add_measurements(struct kc_store *store, const struct kc_measurement *list,
                                      size_t count, struct kc_diag *diag)
{
  static const char doing[] = "storing measurements";
  sqlite3_stmt *row = NULL;
  KC_ASSERT(!store->in_run && !store->read_only);
  kc_store_wait_for(store, store->end_busy_ms);
  KC_TRY(kc_store_prepare(store, insert_sql, &row, doing, diag));
  int code = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  for (size_t i = 0; i < count && code == SQLITE_OK; i++) code = insert(row, &list[i]);
  sqlite3_finalize(row);
  if (code == SQLITE_OK) code = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
  if (code == SQLITE_OK) return KC_OK;
  const enum kc_err err = kc_store_fail(store, code, doing, diag);
  sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  return err;
}

enum kc_err kc_store_each_measurement(struct kc_store *store, kc_measurement_visitor visit,
                                      void *context, struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  enum kc_err err = KC_OK;
  int code;
  KC_ASSERT(visit != NULL);
  KC_TRY(kc_store_prepare(store, select_sql, &row, "reading measurements", diag));
  while (err == KC_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
    char *text[TEXTS] = {NULL};
    bool whole = true;
    for (int i = 0; i < TEXTS; i++) {
      text[i] = strdup(kc_store_text(row, i));
      whole = whole && text[i] != NULL;
      if (text[i] != NULL) kc_text_clean(text[i]);
    }
    const struct kc_measurement m = {
        .kind = text[0], .subject = text[1], .metric = text[2], .unit = text[3],
        .device = text[4], .measured_utc = text[5], .version = text[6],
        .value = sqlite3_column_double(row, TEXTS),
        .emulated = sqlite3_column_int(row, TEXTS + 1) != 0};
    err = whole ? visit(context, &m)
                : kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while reading %s",
                          store->path);
    for (int i = 0; i < TEXTS; i++) free(text[i]);
  }
  if (err == KC_OK && code != SQLITE_DONE) {
    err = kc_store_fail(store, code, "reading measurements", diag);
  }
  sqlite3_finalize(row);
  return err;
}
