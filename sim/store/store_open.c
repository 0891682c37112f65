/* Opening and closing: whose file is it, is it whole, which schema has it.
 *
 *   path --file facts--> sqlite3 --identify--> new | ours, schema n | somebody else's (refused)
 *                                    |
 *              write: migrate n -> KC_STORE_SCHEMA, WAL, synchronous=FULL, foreign_keys=ON
 *              read:  n from KC_STORE_SCHEMA_READ_MIN on; nothing is left beside the file
 *
 * Nothing is written before the file is known to be ours or empty. The schema is created under a
 * rollback journal, before the switch to WAL: the main file then holds it from the first commit,
 * and a copy of the file without its -wal is an older database, never a headless one.
 *
 * The struct is on the heap (set-up, not a step loop); it owns the connection and the statements.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <unistd.h>

#include "sim/store/store_internal.h"
#include "sim/store/store_schema.h"

enum {
  TABLES = 16,          /* of schema KC_STORE_SCHEMA */
  TABLES_READ_MIN = 12, /* of schema KC_STORE_SCHEMA_READ_MIN */
  PAGE_BYTES_MIN = 512 /* of any SQLite file */
};

/* ---- facts about the path ---- */

/* Checks what SQLite would only report as "unable to open". *exists may be false. */
static enum kc_err check_path(const char *path, bool *exists, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  KC_ASSERT(exists != NULL);
  struct stat facts;
  *exists = false;
  if (path[0] == '\0') {
    return kc_fail(diag, KC_ERR_USAGE, "the name of the database is empty; name a file");
  }
  if (stat(path, &facts) != 0) {
    if (errno == ENOENT) return KC_OK;
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0, "the database cannot be opened: %s",
                      strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                      "a database must be a regular file; this is a %s; name a file",
                      S_ISDIR(facts.st_mode) ? "folder" : "device or pipe");
  }
  *exists = true;
  if (facts.st_size > 0 && facts.st_size < PAGE_BYTES_MIN) {
    /* SQLite would take it for empty and write over it. */
    return kc_fail_at(diag, KC_ERR_STORE, path, 0, 0,
                      "the file has %lld bytes, too few for a results database of kvcap; it is cut "
                      "off or something else; name another file", (long long)facts.st_size);
  }
  return KC_OK;
}

/* The folder that will hold a new file must exist. */
static enum kc_err check_folder(const char *path, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL && path[0] != '\0');
  const char *slash = strrchr(path, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  if (length == 0) return KC_OK;
  struct stat facts;
  char *folder = strndup(path, length);
  if (folder == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while opening %s", path);
  }
  const bool is_folder = stat(folder, &facts) == 0 && S_ISDIR(facts.st_mode);
  free(folder);
  if (is_folder) return KC_OK;
  return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                    "the folder for the database does not exist; create it or name another file");
}

/* ---- connections ---- */

static struct kc_store *new_store(const char *path, bool read_only, struct kc_diag *diag)
{
  KC_ASSERT(path != NULL);
  struct kc_store *store = calloc(1, sizeof *store);
  if (store == NULL) {
    kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while opening %s", path);
    return NULL;
  }
  snprintf(store->path, sizeof store->path, "%s", path);
  store->read_only = read_only;
  store->end_busy_ms = KC_STORE_END_BUSY_MS;
  return store;
}

/* SQLite gives names that start with "file:" or ':' a meaning of their own; "./" takes it away. */
static char *plain_name(const char *path)
{
  KC_ASSERT(path[0] != '\0');
  return sqlite3_mprintf("%s%s", path[0] == '/' ? "" : "./", path);
}

/* "file:/a%3fb?immutable=1": for a finished file in a folder where no journal can be made. */
static char *immutable_name(const char *path)
{
  KC_ASSERT(path[0] != '\0');
  sqlite3_str *name = sqlite3_str_new(NULL);
  sqlite3_str_appendall(name, path[0] == '/' ? "file:" : "file:./");
  for (const char *c = path; *c != '\0'; c++) {
    if (strchr("%?#", *c) != NULL) {
      sqlite3_str_appendf(name, "%%%02x", (unsigned)(unsigned char)*c);
    } else {
      sqlite3_str_appendchar(name, 1, *c);
    }
  }
  sqlite3_str_appendall(name, "?immutable=1");
  return sqlite3_str_finish(name);
}

/* Opens store->db under `name` (freed here) and sets what every connection needs: time to wait, and
 * no trust in what a file from elsewhere may carry. */
static enum kc_err connect_to(struct kc_store *store, char *name, int flags, struct kc_diag *diag)
{
  KC_ASSERT(store->db == NULL);
  if (name == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while opening %s", store->path);
  }
  const int code = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_EXRESCODE, NULL);
  sqlite3_free(name);
  if (store->db == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while opening %s", store->path);
  }
  if (code != SQLITE_OK) return kc_store_fail(store, code, "opening it", diag);
  kc_store_wait_for(store, KC_STORE_BUSY_MS);
  sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
  sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
  sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)NULL);
  return KC_OK;
}

/* ---- whose file is it ---- */

static enum kc_err fail_foreign(const struct kc_store *store, int64_t application,
                                struct kc_diag *diag)
{
  KC_ASSERT(application != KC_STORE_APPLICATION_ID);
  if (application == 0) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the database belongs to another program (it has tables and no "
                      "application_id, kvcap's is 0x%x); name another file",
                      KC_STORE_APPLICATION_ID);
  }
  return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                    "the database belongs to another program (application_id 0x%llx, kvcap's is "
                    "0x%x); name another file", (unsigned long long)application & 0xffffffffu,
                    KC_STORE_APPLICATION_ID);
}

struct marks {
  int64_t version, application, tables;
};

/* In one transaction: another process may be making the tables of this very file. After a failure
 * it is left to the closing of the connection, which every caller then does: a rollback would hide
 * the error code that prepare_for_reading asks for. */
static enum kc_err read_marks(struct kc_store *store, struct marks *marks, struct kc_diag *diag)
{
  KC_ASSERT(sqlite3_get_autocommit(store->db) != 0);
  KC_ASSERT(marks != NULL);
  const char *doing = "opening it";
  KC_TRY(kc_store_exec(store, "BEGIN", doing, diag));
  enum kc_err err = kc_store_scalar(store, "PRAGMA user_version", &marks->version, doing, diag);
  if (err == KC_OK) {
    err = kc_store_scalar(store, "PRAGMA application_id", &marks->application, doing, diag);
  }
  if (err == KC_OK) {
    err = kc_store_scalar(store, "SELECT count(*) FROM sqlite_schema", &marks->tables, doing, diag);
  }
  return err == KC_OK ? kc_store_exec(store, "COMMIT", doing, diag) : err;
}

/* *version: 0 for an empty file, else the schema of ours. Reads only. */
static enum kc_err identify(struct kc_store *store, int64_t *version, struct kc_diag *diag)
{
  KC_ASSERT(version != NULL);
  struct marks marks = {0};
  KC_TRY(read_marks(store, &marks, diag));
  const int64_t application = marks.application, tables = marks.tables;
  *version = marks.version;
  if (application != KC_STORE_APPLICATION_ID) {
    if (application == 0 && *version == 0 && tables == 0) return KC_OK;
    return fail_foreign(store, application, diag);
  }
  if (*version > KC_STORE_SCHEMA) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the database has schema %lld, written by a newer kvcap; this one knows "
                      "schemas up to %d; use the newer program or name another file",
                      (long long)*version, KC_STORE_SCHEMA);
  }
  if (*version < 1) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the database is damaged: schema %lld does not exist; restore it from a copy",
                      (long long)*version);
  }
  return KC_OK;
}

static enum kc_err check_tables(struct kc_store *store, int64_t version, struct kc_diag *diag)
{
  KC_ASSERT(!store->in_run);
  const int wanted = version == KC_STORE_SCHEMA ? TABLES : TABLES_READ_MIN;
  int64_t tables = 0;
  KC_TRY(kc_store_scalar(store,
                         "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN "
                         "('run', 'host', 'request', 'timeline', 'histogram', 'violation', "
                         "'run_group', 'measurement', 'sweep', 'point', 'point_set', "
                         "'point_figure', 'plan', 'plan_requirement', 'plan_candidate', "
                         "'plan_unit')",
                         &tables, "opening it", diag));
  if (tables == wanted) return KC_OK;
  return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                    "the database is damaged: %lld of the %d tables of schema %d are there; "
                    "restore it from a copy", (long long)tables, wanted, (int)version);
}

/* ---- migrating ---- */

/* Migrations from `version` on. */
static enum kc_err apply_migrations(struct kc_store *store, int64_t version, const char *doing,
                                    struct kc_diag *diag)
{
  char mark[96];
  KC_ASSERT(version >= 0 && version < KC_STORE_SCHEMA);
  for (; version < KC_STORE_SCHEMA; version++) {
    KC_TRY(kc_store_exec(store, kc_store_migration[version], doing, diag));
  }
  snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d",
           KC_STORE_APPLICATION_ID, KC_STORE_SCHEMA);
  return kc_store_exec(store, mark, doing, diag);
}

/* All missing migrations, in one transaction that also moves user_version, so that a process killed
 * here leaves no file between two schemas. Another process may have done it while we waited for the
 * lock. */
static enum kc_err migrate(struct kc_store *store, int64_t version, struct kc_diag *diag)
{
  KC_ASSERT(sqlite3_get_autocommit(store->db) != 0);
  const char *doing = "creating its tables";
  int64_t now = 0;
  KC_TRY(kc_store_exec(store, "BEGIN IMMEDIATE", doing, diag));
  enum kc_err err = kc_store_scalar(store, "PRAGMA user_version", &now, doing, diag);
  if (err == KC_OK && now == version) err = apply_migrations(store, version, doing, diag);
  if (err == KC_OK) err = kc_store_exec(store, "COMMIT", doing, diag);
  if (err != KC_OK) sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  return err;
}

/* The switch to WAL needs the file alone for a moment, and SQLite does not wait for it. */
static enum kc_err switch_to_wal(struct kc_store *store, struct kc_diag *diag)
{
  enum { PAUSE_MS = 20 };
  KC_ASSERT(sqlite3_get_autocommit(store->db) != 0); /* else the switch is silently refused */
  int code = SQLITE_OK;
  for (int waited_ms = 0; waited_ms < KC_STORE_BUSY_MS; waited_ms += PAUSE_MS) {
    code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    if ((code & 0xff) != SQLITE_BUSY) break;
    sqlite3_sleep(PAUSE_MS);
  }
  return code == SQLITE_OK ? KC_OK : kc_store_fail(store, code, "opening it", diag);
}

static enum kc_err prepare_for_writing(struct kc_store *store, struct kc_diag *diag)
{
  KC_ASSERT(!store->read_only);
  if (sqlite3_db_readonly(store->db, "main") != 0) {
    return kc_store_fail(store, SQLITE_READONLY, "opening it", diag);
  }
  int64_t version = 0;
  KC_TRY(identify(store, &version, diag));
  while (version < KC_STORE_SCHEMA) {
    KC_TRY(migrate(store, version, diag));
    KC_TRY(identify(store, &version, diag));
  }
  KC_ASSERT(version == KC_STORE_SCHEMA);
  KC_TRY(check_tables(store, version, diag));
  KC_TRY(switch_to_wal(store, diag));
  /* 8 MiB of pages: a run of 100,000 rows goes to the -wal once, not in pieces as it grows. */
  return kc_store_exec(store, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                       "PRAGMA cache_size = -8192", "opening it", diag);
}

enum kc_err kc_store_open(struct kc_store **store, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(path != NULL);
  bool exists;
  *store = NULL;
  KC_TRY(check_path(path, &exists, diag));
  if (!exists) KC_TRY(check_folder(path, diag));
  struct kc_store *opened = new_store(path, false, diag);
  if (opened == NULL) return KC_ERR_MEMORY;
  enum kc_err err =
      connect_to(opened, plain_name(path), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, diag);
  if (err == KC_OK) err = prepare_for_writing(opened, diag);
  if (err != KC_OK) {
    kc_store_close(opened);
    return err;
  }
  *store = opened;
  return KC_OK;
}

/* ---- reading ---- */

/* Bytes of `path` with `suffix` ("-wal", "-shm", "-journal"); -1 when there is no such file. */
static int64_t companion_bytes(const char *path, const char *suffix)
{
  KC_ASSERT(suffix[0] == '-');
  char *name = sqlite3_mprintf("%s%s", path, suffix);
  struct stat facts;
  const bool found = name != NULL && stat(name, &facts) == 0;
  sqlite3_free(name);
  return found ? (int64_t)facts.st_size : -1;
}

/* Opens and closes the file with a connection that may write, which does two things that a
 * reader cannot. A process killed while it made the tables leaves a journal that must be played
 * back before anybody can read; and a reader of a file in WAL mode makes a -wal and a -shm,
 * which the last connection takes away only if it may write. Whatever goes wrong shows up later. */
static void settle(const char *path)
{
  KC_ASSERT(path[0] != '\0');
  sqlite3 *db = NULL;
  char *name = plain_name(path);
  if (name != NULL && sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
    sqlite3_busy_timeout(db, KC_STORE_BUSY_MS);
    sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
  }
  sqlite3_close(db);
  sqlite3_free(name);
}

static enum kc_err prepare_for_reading(struct kc_store *store, const char *path,
                                       struct kc_diag *diag)
{
  KC_ASSERT(store->read_only);
  int64_t version = 0;
  enum kc_err err = identify(store, &version, diag);
  const int code = err == KC_OK ? SQLITE_OK : sqlite3_errcode(store->db) & 0xff;
  if ((code == SQLITE_CANTOPEN || code == SQLITE_READONLY) && companion_bytes(path, "-wal") <= 0 &&
      companion_bytes(path, "-journal") <= 0) {
    /* A folder without write permission: SQLite cannot make its -shm file. With nothing to play
     * back, the file may be read as it stands. */
    sqlite3_close(store->db);
    store->db = NULL;
    KC_TRY(connect_to(store, immutable_name(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                      diag));
    err = identify(store, &version, diag);
  }
  KC_TRY(err);
  if (version == 0) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the database is empty; store a run in it first: kvcap run SCENARIO --db %s",
                      store->path);
  }
  if (version < KC_STORE_SCHEMA_READ_MIN) {
    return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                      "the database has the older schema %lld; storing a run in it brings it to "
                      "schema %d", (long long)version, KC_STORE_SCHEMA);
  }
  KC_TRY(check_tables(store, version, diag));
  return version < KC_STORE_SCHEMA ? kc_store_exec(store, kc_store_shim, "opening it", diag)
                                   : KC_OK;
}

enum kc_err kc_store_open_read(struct kc_store **store, const char *path, struct kc_diag *diag)
{
  KC_ASSERT(store != NULL);
  KC_ASSERT(path != NULL);
  bool exists;
  *store = NULL;
  KC_TRY(check_path(path, &exists, diag));
  if (!exists) {
    return kc_fail_at(diag, KC_ERR_FILE, path, 0, 0,
                      "there is no such file; `kvcap run SCENARIO --db FILE` makes one");
  }
  if (companion_bytes(path, "-journal") > 0) settle(path);
  struct kc_store *opened = new_store(path, true, diag);
  if (opened == NULL) return KC_ERR_MEMORY;
  const bool alone = companion_bytes(path, "-wal") < 0 && companion_bytes(path, "-shm") < 0;
  const bool writable = access(path, W_OK) == 0;
  opened->settles = alone && writable;
  /* What nobody else has open and we may not write is read as it stands: a -shm made for it
   * could not be taken away again. */
  const bool as_it_stands = alone && !writable && companion_bytes(path, "-journal") < 0;
  enum kc_err err = as_it_stands ? connect_to(opened, immutable_name(path),
                                              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, diag)
                                 : connect_to(opened, plain_name(path), SQLITE_OPEN_READONLY, diag);
  if (err == KC_OK) err = prepare_for_reading(opened, path, diag);
  if (err != KC_OK) {
    kc_store_close(opened);
    return err;
  }
  *store = opened;
  return KC_OK;
}

void kc_store_close(struct kc_store *store)
{
  if (store == NULL) return;
  if (store->in_run) kc_store_run_abort(store);
  KC_ASSERT(!store->in_run);
  const char *whole =
      store->settles && store->db != NULL ? sqlite3_db_filename(store->db, "main") : NULL;
  char *path = whole != NULL ? strdup(whole) : NULL; /* store->path may be cut */
  const int code = sqlite3_close(store->db);
  KC_ASSERT(code == SQLITE_OK); /* else a statement was left behind */
  if (path != NULL) settle(path);
  free(path);
  free(store);
}
