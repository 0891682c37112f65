/* Sweeps and their points (see store_sweep.h).
 *
 * Every call is one transaction or none. Nothing is kept open between calls: the process that
 * computes the points may be killed at any instant, and another one may read the file meanwhile.
 */
#include "sim/store/store_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store/store_internal.h"

static const char writing[] = "storing points of a sweep";
static const char reading[] = "reading a sweep";

enum { POINT_SETS_MAX = 256, POINT_FIGURES_MAX = 1024 };

/* The text must outlive the statement's next step; nothing is copied, so nothing can fail. */
static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
  KC_ASSERT(text != NULL);
  const int code = sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
  KC_ASSERT(code == SQLITE_OK);
}

/* "" is stored as NULL. */
static void bind_optional(sqlite3_stmt *statement, int at, const char *text)
{
  KC_ASSERT(text != NULL);
  if (text[0] == '\0') {
    sqlite3_bind_null(statement, at);
  } else {
    bind_text(statement, at, text);
  }
}

/* Runs a statement that gives no row, and makes it ready for the next. */
static enum kc_err run_once(struct kc_store *store, sqlite3_stmt *statement, struct kc_diag *diag)
{
  KC_ASSERT(statement != NULL);
  const int code = sqlite3_step(statement);
  KC_ASSERT(code != SQLITE_ROW);
  const enum kc_err err = code == SQLITE_DONE ? KC_OK : kc_store_fail(store, code, writing, diag);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return err;
}

/* ---- the sweep's row ---- */

static enum kc_err find_sweep(struct kc_store *store, const char *sha256, int64_t *id,
                              struct kc_diag *diag)
{
  sqlite3_stmt *find = NULL;
  KC_ASSERT(strlen(sha256) == KC_SHA256_HEX_BYTES - 1);
  KC_TRY(kc_store_prepare(store, "SELECT id FROM sweep WHERE sweep_sha256 = ?1", &find, reading,
                          diag));
  bind_text(find, 1, sha256);
  const int code = sqlite3_step(find);
  *id = code == SQLITE_ROW ? sqlite3_column_int64(find, 0) : 0;
  const enum kc_err err = code == SQLITE_ROW || code == SQLITE_DONE
                              ? KC_OK
                              : kc_store_fail(store, code, reading, diag);
  sqlite3_finalize(find);
  return err;
}

static enum kc_err insert_sweep(struct kc_store *store, const struct kc_sweep_header *header,
                                int64_t *id, struct kc_diag *diag)
{
  sqlite3_stmt *insert = NULL;
  KC_ASSERT(header->points > 0 && header->points <= INT64_MAX);
  KC_TRY(kc_store_prepare(store, "INSERT INTO sweep(name, sweep_sha256, scenario_sha256, "
                          "scenario_text, sets, axes, points) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                          &insert, writing, diag));
  bind_text(insert, 1, header->name);
  bind_text(insert, 2, header->sweep_sha256);
  bind_text(insert, 3, header->scenario_sha256);
  bind_text(insert, 4, header->scenario_text);
  bind_text(insert, 5, header->sets);
  bind_text(insert, 6, header->axes);
  sqlite3_bind_int64(insert, 7, (int64_t)header->points);
  const enum kc_err err = run_once(store, insert, diag);
  *id = sqlite3_last_insert_rowid(store->db);
  sqlite3_finalize(insert);
  return err;
}

enum kc_err kc_store_sweep_begin(struct kc_store *store, const struct kc_sweep_header *header,
                                 int64_t *sweep_id, struct kc_diag *diag)
{
  KC_ASSERT(sweep_id != NULL);
  KC_TRY(kc_store_begin(store, writing, diag));
  enum kc_err err = find_sweep(store, header->sweep_sha256, sweep_id, diag);
  if (err == KC_OK && *sweep_id == 0) err = insert_sweep(store, header, sweep_id, diag);
  return kc_store_finish(store, err, writing, diag);
}

/* ---- writing points ---- */

struct writer {
  struct kc_store *store;
  int64_t sweep_id;
  sqlite3_stmt *clear, *point, *set, *figure;
};

static void add_text(struct kc_sha256 *sha, const char *text)
{
  KC_ASSERT(text != NULL);
  kc_sha256_update_u64(sha, strlen(text));
  kc_sha256_update(sha, text, strlen(text));
}

void kc_point_digest_begin(struct kc_sha256 *sha, int64_t number, const struct kc_point_text *row)
{
  const char *const text[] = {row->status, row->reason, row->trust, row->config_sha256,
                              row->result_sha256};
  kc_sha256_init(sha);
  kc_sha256_update_u64(sha, (uint64_t)number);
  for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) add_text(sha, text[i]);
}

void kc_point_digest_set(struct kc_sha256 *sha, const char *key, const char *value)
{
  KC_ASSERT(key != NULL && value != NULL);
  kc_sha256_update_u64(sha, 1); /* no row of one kind gives the bytes of another */
  add_text(sha, key);
  add_text(sha, value);
}

void kc_point_digest_figure(struct kc_sha256 *sha, const char *name, double value)
{
  const double kept = value == 0 ? 0 : value; /* SQLite keeps no sign of a zero */
  uint64_t bits;
  memcpy(&bits, &kept, sizeof bits);
  kc_sha256_update_u64(sha, 2);
  add_text(sha, name);
  kc_sha256_update_u64(sha, bits);
}

static int by_name(const void *a, const void *b)
{
  const struct kc_stored_figure *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static void digest_point(const struct kc_stored_point *point, char hex[KC_SHA256_HEX_BYTES])
{
  const struct kc_stored_figure *figure[POINT_FIGURES_MAX];
  struct kc_sha256 sha;
  KC_ASSERT(point->figure_count <= POINT_FIGURES_MAX);
  kc_point_digest_begin(&sha, (int64_t)point->number,
                        &(struct kc_point_text){point->status, point->reason, point->trust,
                                                point->config_sha256, point->result_sha256});
  for (uint32_t i = 0; i < point->set_count; i++) {
    kc_point_digest_set(&sha, point->set[i].key, point->set[i].value);
  }
  for (uint32_t i = 0; i < point->figure_count; i++) figure[i] = &point->figure[i];
  qsort(figure, point->figure_count, sizeof figure[0], by_name);
  for (uint32_t i = 0; i < point->figure_count; i++) {
    kc_point_digest_figure(&sha, figure[i]->name, figure[i]->value);
  }
  kc_sha256_final_hex(&sha, hex);
}

static enum kc_err writer_open(struct writer *w, struct kc_diag *diag)
{
  struct kc_store *store = w->store;
  KC_ASSERT(w->sweep_id > 0);
  KC_TRY(kc_store_prepare(store, "DELETE FROM point WHERE sweep_id = ?1 AND number = ?2",
                          &w->clear, writing, diag));
  KC_TRY(kc_store_prepare(store, "INSERT INTO point(sweep_id, number, status, reason, trust, "
                          "config_sha256, result_sha256, point_sha256) "
                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                          &w->point, writing, diag));
  KC_TRY(kc_store_prepare(store, "INSERT INTO point_set(sweep_id, number, position, key, value) "
                          "VALUES (?1, ?2, ?3, ?4, ?5)", &w->set, writing, diag));
  return kc_store_prepare(store, "INSERT INTO point_figure(sweep_id, number, figure, value) "
                          "VALUES (?1, ?2, ?3, ?4)", &w->figure, writing, diag);
}

static void writer_close(struct writer *w)
{
  KC_ASSERT(w->store != NULL);
  sqlite3_finalize(w->clear);
  sqlite3_finalize(w->point);
  sqlite3_finalize(w->set);
  sqlite3_finalize(w->figure);
}

static void bind_key(const struct writer *w, sqlite3_stmt *statement, uint64_t number)
{
  KC_ASSERT(number <= INT64_MAX);
  sqlite3_bind_int64(statement, 1, w->sweep_id);
  sqlite3_bind_int64(statement, 2, (int64_t)number);
}

static enum kc_err write_rest(const struct writer *w, const struct kc_stored_point *point,
                              struct kc_diag *diag)
{
  for (uint32_t i = 0; i < point->set_count; i++) {
    bind_key(w, w->set, point->number);
    sqlite3_bind_int64(w->set, 3, i);
    bind_text(w->set, 4, point->set[i].key);
    bind_text(w->set, 5, point->set[i].value);
    KC_TRY(run_once(w->store, w->set, diag));
  }
  for (uint32_t i = 0; i < point->figure_count; i++) {
    KC_ASSERT(isfinite(point->figure[i].value));
    bind_key(w, w->figure, point->number);
    bind_text(w->figure, 3, point->figure[i].name);
    sqlite3_bind_double(w->figure, 4, point->figure[i].value);
    KC_TRY(run_once(w->store, w->figure, diag));
  }
  return KC_OK;
}

static enum kc_err write_point(const struct writer *w, const struct kc_stored_point *point,
                               struct kc_diag *diag)
{
  char hex[KC_SHA256_HEX_BYTES];
  KC_ASSERT(point->status != NULL);
  digest_point(point, hex);
  bind_key(w, w->clear, point->number);
  KC_TRY(run_once(w->store, w->clear, diag));
  bind_key(w, w->point, point->number);
  bind_text(w->point, 3, point->status);
  bind_optional(w->point, 4, point->reason);
  bind_optional(w->point, 5, point->trust);
  bind_optional(w->point, 6, point->config_sha256);
  bind_optional(w->point, 7, point->result_sha256);
  bind_text(w->point, 8, hex);
  KC_TRY(run_once(w->store, w->point, diag));
  return write_rest(w, point, diag);
}

enum kc_err kc_store_points_write(struct kc_store *store, int64_t sweep_id,
                                  const struct kc_stored_point *points, size_t count,
                                  struct kc_diag *diag)
{
  struct writer w = {.store = store, .sweep_id = sweep_id};
  KC_ASSERT(points != NULL || count == 0);
  KC_TRY(kc_store_begin(store, writing, diag));
  enum kc_err err = writer_open(&w, diag);
  for (size_t i = 0; err == KC_OK && i < count; i++) err = write_point(&w, &points[i], diag);
  writer_close(&w);
  return kc_store_finish(store, err, writing, diag);
}

/* ---- reading ---- */

enum kc_err kc_store_each_known(struct kc_store *store, kc_known_visitor visit, void *context,
                                struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_ASSERT(visit != NULL);
  KC_TRY(kc_store_prepare(store, "SELECT config_sha256, sweep_id, number FROM point WHERE "
                          "config_sha256 IS NOT NULL AND (status = 'no_fit' OR "
                          "status = 'done' AND result_sha256 IS NOT NULL)",
                          &row, reading, diag));
  enum kc_err err = KC_OK;
  int code = SQLITE_ROW;
  while (err == KC_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
    err = visit(context, kc_store_text(row, 0), sqlite3_column_int64(row, 1),
                (uint64_t)sqlite3_column_int64(row, 2));
  }
  if (err == KC_OK && code != SQLITE_DONE) err = kc_store_fail(store, code, reading, diag);
  sqlite3_finalize(row);
  return err;
}

/* What one point is read into. */
struct point_reader {
  struct kc_store *store;
  sqlite3_stmt *point, *set, *figure;
  struct kc_stored_pair pair[POINT_SETS_MAX];
  struct kc_stored_figure value[POINT_FIGURES_MAX];
  char *text;               /* heap: the strings of `pair` and `value`, each with its NUL */
  size_t bytes, room;
  size_t pair_at[POINT_SETS_MAX][2], value_at[POINT_FIGURES_MAX];
};

/* Copies a column behind the others; its place, or SIZE_MAX when memory ran out. */
static size_t keep(struct point_reader *r, sqlite3_stmt *row, int column)
{
  const char *text = kc_store_text(row, column);
  const size_t length = strlen(text) + 1, at = r->bytes;
  KC_ASSERT(r->bytes <= r->room);
  if (r->room - r->bytes < length) {
    const size_t room = (r->room + length) * 2;
    char *grown = realloc(r->text, room);
    if (grown == NULL) return SIZE_MAX;
    r->text = grown;
    r->room = room;
  }
  memcpy(r->text + at, text, length);
  kc_text_clean(r->text + at);
  r->bytes += length;
  return at;
}

static void bind_same_key(sqlite3_stmt *statement, sqlite3_stmt *point)
{
  KC_ASSERT(statement != point);
  sqlite3_reset(statement);
  sqlite3_bind_int64(statement, 1, sqlite3_column_int64(point, 0));
  sqlite3_bind_int64(statement, 2, sqlite3_column_int64(point, 1));
}

/* Sets and figures of the row at which r->point stands. */
static int read_rest(struct point_reader *r, struct kc_stored_point *out)
{
  int code;
  r->bytes = 0;
  KC_ASSERT(out->set_count == 0 && out->figure_count == 0);
  bind_same_key(r->set, r->point);
  while ((code = sqlite3_step(r->set)) == SQLITE_ROW && out->set_count < POINT_SETS_MAX) {
    r->pair_at[out->set_count][0] = keep(r, r->set, 0);
    r->pair_at[out->set_count][1] = keep(r, r->set, 1);
    out->set_count++;
  }
  if (code != SQLITE_DONE && code != SQLITE_ROW) return code;
  bind_same_key(r->figure, r->point);
  while ((code = sqlite3_step(r->figure)) == SQLITE_ROW && out->figure_count < POINT_FIGURES_MAX) {
    r->value_at[out->figure_count] = keep(r, r->figure, 0);
    r->value[out->figure_count++].value = sqlite3_column_double(r->figure, 1);
  }
  if (code != SQLITE_DONE && code != SQLITE_ROW) return code;
  for (uint32_t i = 0; i < out->set_count; i++) {
    if (r->pair_at[i][0] == SIZE_MAX || r->pair_at[i][1] == SIZE_MAX) return SQLITE_NOMEM;
    r->pair[i] = (struct kc_stored_pair){r->text + r->pair_at[i][0], r->text + r->pair_at[i][1]};
  }
  for (uint32_t i = 0; i < out->figure_count; i++) {
    if (r->value_at[i] == SIZE_MAX) return SQLITE_NOMEM;
    r->value[i].name = r->text + r->value_at[i];
  }
  return SQLITE_DONE;
}

static enum kc_err visit_point(struct point_reader *r, kc_point_visitor visit, void *context,
                               struct kc_diag *diag)
{
  char *text[5] = {NULL};
  struct kc_stored_point point = {.number = (uint64_t)sqlite3_column_int64(r->point, 1),
                                  .set = r->pair, .figure = r->value};
  KC_ASSERT(sqlite3_column_count(r->point) == 7);
  int code = read_rest(r, &point);
  for (int i = 0; i < 5; i++) {
    text[i] = strdup(kc_store_text(r->point, i + 2));
    if (text[i] == NULL) code = SQLITE_NOMEM;
    if (text[i] != NULL) kc_text_clean(text[i]);
  }
  point.status = text[0];
  point.reason = text[1];
  point.trust = text[2];
  point.config_sha256 = text[3];
  point.result_sha256 = text[4];
  const enum kc_err err = code == SQLITE_DONE ? visit(context, &point)
                                              : kc_store_fail(r->store, code, reading, diag);
  for (int i = 0; i < 5; i++) free(text[i]);
  return err;
}

static enum kc_err reader_open(struct point_reader *r, struct kc_diag *diag)
{
  KC_ASSERT(r->store != NULL);
  KC_TRY(kc_store_prepare(r->store, "SELECT sweep_id, number, status, reason, trust, "
                          "config_sha256, result_sha256 FROM point WHERE sweep_id = ?1 AND "
                          "(?2 < 0 OR number = ?2) ORDER BY number", &r->point, reading, diag));
  KC_TRY(kc_store_prepare(r->store, "SELECT key, value FROM point_set WHERE sweep_id = ?1 AND "
                          "number = ?2 ORDER BY position", &r->set, reading, diag));
  return kc_store_prepare(r->store, "SELECT figure, value FROM point_figure WHERE sweep_id = ?1 "
                          "AND number = ?2 ORDER BY figure", &r->figure, reading, diag);
}

enum kc_err kc_store_each_point(struct kc_store *store, int64_t sweep_id, uint64_t number,
                                kc_point_visitor visit, void *context, struct kc_diag *diag)
{
  const bool all = number == UINT64_MAX;
  uint64_t seen = 0;
  int code = SQLITE_ROW;
  KC_ASSERT(visit != NULL);
  KC_ASSERT(all || number <= INT64_MAX);
  struct point_reader *r = calloc(1, sizeof *r);
  if (r == NULL) return kc_store_fail(store, SQLITE_NOMEM, reading, diag);
  r->store = store;
  enum kc_err err = reader_open(r, diag);
  if (err == KC_OK) {
    sqlite3_bind_int64(r->point, 1, sweep_id);
    sqlite3_bind_int64(r->point, 2, all ? -1 : (int64_t)number);
  }
  for (; err == KC_OK && (code = sqlite3_step(r->point)) == SQLITE_ROW; seen++) {
    err = visit_point(r, visit, context, diag);
  }
  if (err == KC_OK && code != SQLITE_DONE) err = kc_store_fail(store, code, reading, diag);
  if (err == KC_OK && seen == 0 && !all) {
    err = kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0, "sweep %lld has no point %llu here",
                     (long long)sweep_id, (unsigned long long)number);
  }
  sqlite3_finalize(r->point);
  sqlite3_finalize(r->set);
  sqlite3_finalize(r->figure);
  free(r->text);
  free(r);
  return err;
}

enum kc_err kc_store_each_sweep(struct kc_store *store, kc_sweep_visitor visit, void *context,
                                struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_ASSERT(visit != NULL);
  KC_TRY(kc_store_prepare(store, "SELECT id, name, sweep_sha256, points, sum(status IS 'done'), "
                          "sum(status IS 'no_fit'), sum(status IS 'refused'), "
                          "sum(status IS 'failed') FROM sweep LEFT JOIN point ON sweep_id = id "
                          "GROUP BY id ORDER BY id", &row, reading, diag));
  enum kc_err err = KC_OK;
  int code = SQLITE_ROW;
  while (err == KC_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
    char *name = strdup(kc_store_text(row, 1));
    if (name == NULL) {
      err = kc_store_fail(store, SQLITE_NOMEM, reading, diag);
      break;
    }
    kc_text_clean(name);
    const struct kc_sweep_brief brief = {
        .id = sqlite3_column_int64(row, 0), .name = name, .sweep_sha256 = kc_store_text(row, 2),
        .points = sqlite3_column_int64(row, 3), .done = sqlite3_column_int64(row, 4),
        .no_fit = sqlite3_column_int64(row, 5), .refused = sqlite3_column_int64(row, 6),
        .failed = sqlite3_column_int64(row, 7)};
    err = brief.points > 0 ? visit(context, &brief)
                           : kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                                        "table sweep, id %lld: column points holds %lld, expected "
                                        "at least 1; the file was changed", (long long)brief.id,
                                        (long long)brief.points);
    free(name);
  }
  if (err == KC_OK && code != SQLITE_DONE) err = kc_store_fail(store, code, reading, diag);
  sqlite3_finalize(row);
  return err;
}
