/* Reading back: the list of runs, and views as CSV for the figures.
 *
 *   chosen (series, run_id)      TEMP table: which runs, in which order side by side
 *     ^ read by
 *   TEMP views (reports/sql)  -> kc_store_export_csv -> one file each
 *
 * Temporary objects live outside the file, so this works on a connection opened for reading only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/store/store_internal.h"

static const char doing[] = "reading it";

/* ---- the list of runs ---- */

static kc_ps column_ps(sqlite3_stmt *row, int column)
{
  return sqlite3_column_type(row, column) == SQLITE_NULL ? KC_PS_NEVER
                                                         : sqlite3_column_int64(row, column);
}

enum { BRIEF_TEXTS = 6 };

static void free_texts(char *text[BRIEF_TEXTS])
{
  for (int i = 0; i < BRIEF_TEXTS; i++) free(text[i]);
}

/* Clean copies of columns 1 to 6: a file may hold any bytes. False when memory ran out. */
static bool copy_texts(char *text[BRIEF_TEXTS], sqlite3_stmt *row)
{
  KC_ASSERT(sqlite3_column_count(row) > BRIEF_TEXTS);
  bool copied = true;
  for (int i = 0; i < BRIEF_TEXTS; i++) {
    text[i] = strdup(kc_store_text(row, i + 1));
    if (text[i] == NULL) {
      copied = false;
    } else {
      kc_text_clean(text[i]);
    }
  }
  return copied;
}

static struct kc_run_brief read_brief(sqlite3_stmt *row, char *text[BRIEF_TEXTS])
{
  KC_ASSERT(sqlite3_column_count(row) == 16);
  return (struct kc_run_brief){
    .id = sqlite3_column_int64(row, 0),
    .name = text[0],
    .model = text[1],
    .gpu = text[2],
    .version = text[3],
    .rows_kept = text[4],
    .result_sha256 = text[5],
    .requests_total = sqlite3_column_int64(row, 7),
    .requests_completed = sqlite3_column_int64(row, 8),
    .request_rows = sqlite3_column_int64(row, 9),
    .output_tokens = sqlite3_column_int64(row, 10),
    .output_tok_s_micro = sqlite3_column_int64(row, 11),
    .makespan_ps = column_ps(row, 12),
    .ttft_p95_ps = column_ps(row, 13),
    .tpot_p95_ps = column_ps(row, 14),
    .oom_ps = column_ps(row, 15),
  };
}

static enum kc_err visit_row(sqlite3_stmt *row, kc_run_visitor visit, void *context,
                             struct kc_diag *diag)
{
  KC_ASSERT(visit != NULL);
  char *text[BRIEF_TEXTS];
  enum kc_err err;
  if (copy_texts(text, row)) {
    const struct kc_run_brief brief = read_brief(row, text);
    err = visit(context, &brief);
  } else {
    err = kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while reading the runs");
  }
  free_texts(text);
  return err;
}

enum kc_err kc_store_each_run(struct kc_store *store, kc_run_visitor visit, void *context,
                              struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && !store->in_run);
  KC_ASSERT(visit != NULL);
  sqlite3_stmt *row = NULL;
  KC_TRY(kc_store_prepare(store,
                          "SELECT id, name, model, gpu, version, rows_kept, result_sha256,"
                          " requests_total, requests_completed,"
                          " (SELECT count(*) FROM request WHERE run_id = run.id),"
                          " output_tokens, output_tok_s_micro, makespan_ps, ttft_p95_ps,"
                          " tpot_p95_ps, oom_ps FROM run ORDER BY id", &row, doing, diag));
  enum kc_err err = KC_OK;
  int code;
  while ((code = sqlite3_step(row)) == SQLITE_ROW && err == KC_OK) {
    err = visit_row(row, visit, context, diag);
  }
  if (err == KC_OK && code != SQLITE_DONE) err = kc_store_fail(store, code, doing, diag);
  sqlite3_finalize(row);
  return err;
}

/* ---- choosing ---- */

static enum kc_err fail_no_run(struct kc_store *store, int64_t run_id, struct kc_diag *diag)
{
  KC_ASSERT(run_id >= 0);
  int64_t runs = 0, last = 0, sweep = 0;
  KC_TRY(kc_store_scalar(store, "SELECT count(*) FROM run", &runs, doing, diag));
  KC_TRY(kc_store_scalar(store, "SELECT max(id) FROM run", &last, doing, diag));
  KC_TRY(kc_store_scalar(store, "SELECT coalesce(max(id), 0) FROM sweep", &sweep, doing, diag));
  if (runs == 0 && sweep > 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0,
                      "the database holds no single runs, but a sweep: ask for it with --sweep "
                      "%lld; `kvcap db info %s` lists what there is", (long long)sweep,
                      store->path);
  }
  if (runs == 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0,
                      "the database holds no runs; store one: kvcap run SCENARIO --db %s",
                      store->path);
  }
  return kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0,
                    "there is no run %lld; the database holds %lld run%s, the last is %lld; "
                    "`kvcap db info %s` lists them", (long long)run_id, (long long)runs,
                    kc_plural((uint64_t)runs), (long long)last, store->path);
}

static enum kc_err choose_one(struct kc_store *store, sqlite3_stmt *insert, size_t series,
                              int64_t run_id, struct kc_diag *diag)
{
  KC_ASSERT(insert != NULL);
  sqlite3_bind_int64(insert, 1, (int64_t)series);
  sqlite3_bind_int64(insert, 2, run_id);
  const int code = sqlite3_step(insert);
  const int changes = code == SQLITE_DONE ? sqlite3_changes(store->db) : 0;
  sqlite3_reset(insert);
  if ((code & 0xff) == SQLITE_CONSTRAINT) {
    return kc_fail(diag, KC_ERR_INPUT, "run %lld is given twice; give each run once",
                   (long long)run_id);
  }
  if (code != SQLITE_DONE) return kc_store_fail(store, code, doing, diag);
  return changes == 1 ? KC_OK : fail_no_run(store, run_id, diag);
}

/* What the views read of the runs that were chosen. */
static enum kc_err check_runs(struct kc_store *store, struct kc_diag *diag)
{
  static const char *const table[] = {"run_group", "timeline", "histogram", "violation"};
  KC_TRY(kc_store_check_sound(store, "run", "id IN (SELECT run_id FROM chosen)", diag));
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    KC_TRY(kc_store_check_sound(store, table[i], "run_id IN (SELECT run_id FROM chosen)", diag));
  }
  return KC_OK;
}

enum kc_err kc_store_choose(struct kc_store *store, const char *views_sql, const int64_t *run_ids,
                            size_t count, struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && views_sql != NULL);
  KC_ASSERT(count == 0 || run_ids != NULL);
  int64_t newest = 0;
  KC_TRY(kc_store_exec(store, views_sql, "defining the views of the report", diag));
  KC_TRY(kc_store_exec(store, "DELETE FROM chosen", doing, diag));
  KC_TRY(kc_store_scalar(store, "SELECT max(id) FROM run", &newest, doing, diag));
  if (count == 0) {
    run_ids = &newest;
    count = 1;
  }
  sqlite3_stmt *insert = NULL;
  KC_TRY(kc_store_prepare(store, "INSERT INTO chosen SELECT ?1, id FROM run WHERE id = ?2",
                          &insert, doing, diag));
  enum kc_err err = KC_OK;
  for (size_t i = 0; i < count && err == KC_OK; i++) {
    err = choose_one(store, insert, i, run_ids[i], diag);
  }
  sqlite3_finalize(insert);
  return err != KC_OK ? err : check_runs(store, diag);
}

static enum kc_err fail_no_sweep(struct kc_store *store, int64_t sweep_id, struct kc_diag *diag)
{
  KC_ASSERT(sweep_id >= 0);
  int64_t sweeps = 0;
  KC_TRY(kc_store_scalar(store, "SELECT count(*) FROM sweep", &sweeps, doing, diag));
  return kc_fail_at(diag, KC_ERR_INPUT, store->path, 0, 0,
                    "there is no sweep %lld; the database holds %lld; `kvcap db info %s` lists "
                    "them",
                    (long long)sweep_id, (long long)sweeps, store->path);
}

/* One unit more has been run, or something is in the way of it. */
static enum kc_err check_units(struct kc_store *store, struct kc_diag *diag)
{
  int64_t position = -1;
  KC_TRY(kc_store_scalar(store, "SELECT coalesce(min(position), -1) FROM plan_unit WHERE"
                         " sweep_id IN (SELECT sweep_id FROM chosen_sweep) AND number IS NULL"
                         " AND why IS NULL", &position, doing, diag));
  if (position < 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0, "table plan_unit, position %lld: it has "
                    "neither number nor why, expected one of them; the file was changed",
                    (long long)position);
}

static enum kc_err check_sweep(struct kc_store *store, struct kc_diag *diag)
{
  static const char *const table[] = {"point",            "point_set",      "point_figure", "plan",
                                      "plan_requirement", "plan_candidate", "plan_unit"};
  KC_TRY(kc_store_check_sound(store, "sweep", "id IN (SELECT sweep_id FROM chosen_sweep)", diag));
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    KC_TRY(kc_store_check_sound(store, table[i],
                                "sweep_id IN (SELECT sweep_id FROM chosen_sweep)", diag));
  }
  return check_units(store, diag);
}

enum kc_err kc_store_choose_sweep(struct kc_store *store, const char *views_sql, int64_t sweep_id,
                                  const char *across_key, const char *load_key,
                                  struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && views_sql != NULL);
  KC_ASSERT(across_key != NULL && load_key != NULL);
  sqlite3_stmt *insert = NULL;
  KC_TRY(kc_store_exec(store, views_sql, "defining the views of a sweep", diag));
  KC_TRY(kc_store_exec(store, "DELETE FROM chosen_sweep", doing, diag));
  KC_TRY(kc_store_prepare(store, "INSERT INTO chosen_sweep SELECT id, ?2, ?3 FROM sweep"
                          " WHERE id = ?1", &insert, doing, diag));
  sqlite3_bind_int64(insert, 1, sweep_id);
  sqlite3_bind_text(insert, 2, across_key, -1, SQLITE_STATIC);
  sqlite3_bind_text(insert, 3, load_key, -1, SQLITE_STATIC);
  const int code = sqlite3_step(insert);
  const int changes = code == SQLITE_DONE ? sqlite3_changes(store->db) : 0;
  sqlite3_finalize(insert);
  if (code != SQLITE_DONE) return kc_store_fail(store, code, doing, diag);
  return changes == 1 ? check_sweep(store, diag) : fail_no_sweep(store, sweep_id, diag);
}

/* ---- CSV ---- */

/* Bytes that are not UTF-8 would end in figures that no viewer opens; line ends may stay. */
void kc_store_clean_lines(char *text)
{
  KC_ASSERT(text != NULL);
  for (char *line = text; line != NULL;) {
    char *end = strchr(line, '\n');
    if (end != NULL) *end = '\0';
    kc_text_clean(line);
    if (end != NULL) *end = '\n';
    line = end == NULL ? NULL : end + 1;
  }
}

/* Quoted when it must be; a quotation mark inside is doubled. */
static void write_field(FILE *out, const char *text)
{
  KC_ASSERT(text != NULL);
  if (strpbrk(text, ",\"\r\n") == NULL) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '"') fputc('"', out);
    fputc(*c, out);
  }
  fputc('"', out);
}

static void write_names(FILE *out, sqlite3_stmt *row)
{
  const int columns = sqlite3_column_count(row);
  KC_ASSERT(columns > 0);
  for (int i = 0; i < columns; i++) {
    if (i > 0) fputc(',', out);
    write_field(out, sqlite3_column_name(row, i));
  }
  fputc('\n', out);
}

static int write_values(FILE *out, sqlite3_stmt *row)
{
  const int columns = sqlite3_column_count(row);
  for (int i = 0; i < columns; i++) {
    const bool is_text = sqlite3_column_type(row, i) == SQLITE_TEXT;
    char *copy = is_text ? strdup(kc_store_text(row, i)) : NULL;
    if (is_text && copy == NULL) return SQLITE_NOMEM;
    if (is_text) kc_store_clean_lines(copy);
    if (i > 0) fputc(',', out);
    write_field(out, is_text ? copy : kc_store_text(row, i));
    free(copy);
  }
  fputc('\n', out);
  return SQLITE_ROW;
}

/* Copies every row of `row` to `path`. */
static enum kc_err write_csv(struct kc_store *store, sqlite3_stmt *row, const char *path,
                             uint64_t *rows, struct kc_diag *diag)
{
  KC_ASSERT(*rows == 0);
  FILE *out;
  KC_TRY(kc_file_create(&out, path, diag));
  int code;
  write_names(out, row);
  while ((code = sqlite3_step(row)) == SQLITE_ROW) {
    code = write_values(out, row);
    if (code != SQLITE_ROW) break;
    *rows += 1;
  }
  KC_TRY(kc_file_finish(out, path, diag));
  return code == SQLITE_DONE ? KC_OK : kc_store_fail(store, code, doing, diag);
}

enum kc_err kc_store_export_csv(struct kc_store *store, const char *view, const char *path,
                                uint64_t *rows, struct kc_diag *diag)
{
  KC_ASSERT(store != NULL && path != NULL);
  KC_ASSERT(view[0] != '\0' && view[strspn(view, "abcdefghijklmnopqrstuvwxyz_")] == '\0');
  char sql[96];
  uint64_t count = 0;
  sqlite3_stmt *row = NULL;
  snprintf(sql, sizeof sql, "SELECT * FROM %s", view);
  KC_TRY(kc_store_prepare(store, sql, &row, doing, diag));
  const enum kc_err err = write_csv(store, row, path, &count, diag);
  sqlite3_finalize(row);
  if (rows != NULL) *rows = count;
  return err;
}
