/* SQLite's result codes as sentences that tell a person what to change.
 *
 * The message is written where the code is first seen, because sqlite3_errmsg belongs to the last
 * call on the connection. The file's name is the place of the diagnostic, not part of its text.
 */
#include "sim/store/store_internal.h"

/* An integer pragma, read without the error path that may have led here; 0 when it fails. */
static int64_t peek(sqlite3 *db, const char *pragma)
{
  KC_ASSERT(db != NULL);
  sqlite3_stmt *statement = NULL;
  int64_t value = 0;
  if (sqlite3_prepare_v2(db, pragma, -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    value = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  return value;
}

/* How many bytes the open transaction has added to the file so far; 0 when that is unknown (no run
 * is being written, or SQLite has already rolled it back). */
static int64_t pending_bytes(const struct kc_store *store)
{
  KC_ASSERT(store->pages_before >= 0);
  if (!store->in_run || sqlite3_get_autocommit(store->db) != 0) return 0;
  const int64_t pages = peek(store->db, "PRAGMA page_count");
  const int64_t page_bytes = peek(store->db, "PRAGMA page_size");
  return pages > store->pages_before ? (pages - store->pages_before) * page_bytes : 0;
}

/* Bytes that a row of `request` takes in the file, measured on the Azure conversation trace; used
 * when SQLite can no longer tell. */
enum { REQUEST_ROW_BYTES = 64 };

static enum kc_err fail_full(struct kc_store *store, const char *doing, struct kc_diag *diag)
{
  KC_ASSERT(doing != NULL);
  int64_t bytes = pending_bytes(store);
  if (bytes == 0 && store->in_run) bytes = (int64_t)store->row_count * REQUEST_ROW_BYTES;
  if (bytes == 0) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the disk is full while %s; what was stored before is intact; free some room "
                      "and try again", doing);
  }
  return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                    "the disk is full while %s, which needs at least %lld bytes so far; runs "
                    "stored before are intact; free some room and run it again", doing,
                    (long long)bytes);
}

enum kc_err kc_store_fail(struct kc_store *store, int sqlite_code, const char *doing,
                          struct kc_diag *diag)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(sqlite_code != SQLITE_OK && sqlite_code != SQLITE_ROW && sqlite_code != SQLITE_DONE);
  const char *path = store->path;
  if (sqlite_code == SQLITE_IOERR_NOMEM) sqlite_code = SQLITE_NOMEM;
  switch (sqlite_code & 0xff) {
    case SQLITE_NOMEM:
      return kc_fail_at(diag, KC_ERR_MEMORY, path, 0, 0,
                        "the host ran out of memory while %s", doing);
    case SQLITE_FULL:
      return fail_full(store, doing, diag);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0,
                        "another program has held the database for more than %d s; let it finish "
                        "or give each its own file", store->busy_ms / 1000);
    case SQLITE_NOTADB:
      return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0,
                        "the file is not a results database of kvcap (it is not SQLite at all); "
                        "name another file");
    case SQLITE_CORRUPT:
      return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0,
                        "the database is damaged or cut off (%s); restore it from a copy or name "
                        "another file", sqlite3_errmsg(store->db));
    case SQLITE_READONLY:
      return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0,
                        "the database cannot be written: the file or its folder is read-only; "
                        "change the permissions or name another file");
    case SQLITE_CANTOPEN:
      return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                        "the database cannot be opened; the file must be readable and its folder "
                        "writable, because SQLite keeps its journal beside the file");
    case SQLITE_IOERR:
      return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                        "reading or writing failed while %s (%s); check the disk", doing,
                        sqlite3_errmsg(store->db));
    default:
      return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0, "SQLite refused while %s: %s", doing,
                        sqlite3_errmsg(store->db));
  }
}

void kc_store_wait_for(struct kc_store *store, int busy_ms)
{
  KC_ASSERT(store->db != NULL);
  KC_ASSERT(busy_ms >= 0);
  store->busy_ms = busy_ms;
  sqlite3_busy_timeout(store->db, busy_ms);
}

enum kc_err kc_store_exec(struct kc_store *store, const char *sql, const char *doing,
                          struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && store->db != NULL);
  KC_ASSERT(sql != NULL);
  const int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? KC_OK : kc_store_fail(store, code, doing, diag);
}

enum kc_err kc_store_prepare(struct kc_store *store, const char *sql, sqlite3_stmt **statement,
                             const char *doing, struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && store->db != NULL);
  KC_ASSERT(statement != NULL);
  const int code = sqlite3_prepare_v2(store->db, sql, -1, statement, NULL);
  return code == SQLITE_OK ? KC_OK : kc_store_fail(store, code, doing, diag);
}

enum kc_err kc_store_scalar(struct kc_store *store, const char *sql, int64_t *out,
                            const char *doing, struct kc_diag *diag)
{
  KC_ASSERT(sql != NULL);
  KC_ASSERT(out != NULL);
  sqlite3_stmt *statement = NULL;
  *out = 0;
  KC_TRY(kc_store_prepare(store, sql, &statement, doing, diag));
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) *out = sqlite3_column_int64(statement, 0);
  const enum kc_err err = code == SQLITE_ROW || code == SQLITE_DONE
                              ? KC_OK
                              : kc_store_fail(store, code, doing, diag);
  sqlite3_finalize(statement);
  return err;
}

enum kc_err kc_store_begin(struct kc_store *store, const char *doing, struct kc_diag *diag)
{
  KC_ASSERT(!store->read_only && !store->in_run);
  kc_store_wait_for(store, store->end_busy_ms);
  const enum kc_err err = kc_store_exec(store, "BEGIN IMMEDIATE", doing, diag);
  kc_store_wait_for(store, KC_STORE_BUSY_MS);
  return err;
}

enum kc_err kc_store_finish(struct kc_store *store, enum kc_err err, const char *doing,
                            struct kc_diag *diag)
{
  KC_ASSERT(store->db != NULL);
  if (err == KC_OK) err = kc_store_exec(store, "COMMIT", doing, diag);
  if (err != KC_OK && sqlite3_get_autocommit(store->db) == 0) {
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  }
  return err;
}
