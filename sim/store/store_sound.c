/* Are the values of a table such as the program could have written? A file may have been edited or
 * damaged; whoever draws or compares its rows relies on this, and never meets an infinity, a
 * negative count, or nothing where there is always something.
 *
 *   table --columns of its declaration--> one query --> the first row that is wrong, in a sentence
 */
#include <string.h>

#include "sim/store/store_internal.h"

static const char doing[] = "reading it";

/* SQL that is true where a column holds what nobody wrote. The file may say otherwise than its
 * declaration, and SQLite takes a NOT NULL at its word: hence typeof. INT64_MAX is the time that
 * never comes, which is stored as NULL. */
static const struct kind {
  const char *type, *expected;
  const char *wrong, *wrong_or_null; /* formats of the column's name, twice */
} kinds[] = {
    {"INTEGER", "a whole number from 0 on",
     "(typeof(\"%w\") <> 'integer' OR \"%w\" NOT BETWEEN 0 AND 9223372036854775806)",
     "(typeof(\"%w\") NOT IN ('integer', 'null') OR"
     " \"%w\" NOT BETWEEN 0 AND 9223372036854775806)"},
    {"REAL", "a finite number",
     "(typeof(\"%w\") <> 'real' OR \"%w\" NOT BETWEEN -1e300 AND 1e300)",
     "(typeof(\"%w\") NOT IN ('real', 'null') OR \"%w\" NOT BETWEEN -1e300 AND 1e300)"},
    {"TEXT", "text", "(typeof(\"%w\") <> 'text' OR \"%w\" IS NULL)",
     "(typeof(\"%w\") NOT IN ('text', 'null') OR \"%w\" = x'00')"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Parts of the query, in the making. */
struct query {
  sqlite3_str *key, *what, *value, *expected, *wrong;
  bool any; /* a column that is looked at */
};

/* A row of name, type, place in the key, "NOT NULL". */
static void add_column(struct query *query, sqlite3_stmt *column)
{
  const char *name = kc_store_text(column, 0), *type = kc_store_text(column, 1);
  size_t k = 0;
  while (k < KINDS && strcmp(kinds[k].type, type) != 0) k++;
  if (sqlite3_column_int(column, 2) > 0) {
    sqlite3_str_appendf(query->key, "|| ', %q ' || \"%w\"", name, name);
  }
  if (k == KINDS) return;
  const bool always = sqlite3_column_int(column, 3) != 0 || sqlite3_column_int(column, 2) > 0;
  char *wrong = sqlite3_mprintf(always ? kinds[k].wrong : kinds[k].wrong_or_null, name, name);
  if (wrong == NULL) return; /* the strings then fail, too */
  KC_ASSERT(wrong[0] == '(');
  sqlite3_str_appendf(query->what, " WHEN %s THEN '%q'", wrong, name);
  sqlite3_str_appendf(query->value, " WHEN %s THEN quote(\"%w\")", wrong, name);
  sqlite3_str_appendf(query->expected, " WHEN %s THEN '%q'", wrong, kinds[k].expected);
  sqlite3_str_appendf(query->wrong, "%s%s", query->any ? " OR " : "", wrong);
  query->any = true;
  sqlite3_free(wrong);
}

/* The query for `table`, freed by sqlite3_free; NULL when memory ran out, "" without columns. */
static char *write_query(struct kc_store *store, sqlite3_stmt *columns, const char *table,
                         const char *where)
{
  struct query query = {sqlite3_str_new(store->db), sqlite3_str_new(store->db),
                        sqlite3_str_new(store->db), sqlite3_str_new(store->db),
                        sqlite3_str_new(store->db), false};
  while (sqlite3_step(columns) == SQLITE_ROW) add_column(&query, columns);
  char *part[] = {sqlite3_str_finish(query.key), sqlite3_str_finish(query.what),
                  sqlite3_str_finish(query.value), sqlite3_str_finish(query.expected),
                  sqlite3_str_finish(query.wrong)};
  char *sql = NULL;
  KC_ASSERT(where[0] != '\0');
  if (!query.any) {
    sql = sqlite3_mprintf("");
  } else if (part[1] != NULL && part[2] != NULL && part[3] != NULL && part[4] != NULL) {
    sql = sqlite3_mprintf("SELECT substr('' %s, 3), CASE%s END, substr(CASE%s END, 1, 40), CASE%s "
                          "END FROM main.\"%w\" WHERE (%s) AND (%s) LIMIT 1",
                          part[0] == NULL ? "" : part[0], part[1], part[2], part[3], table, where,
                          part[4]);
  }
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) sqlite3_free(part[i]);
  return sql;
}

enum kc_err kc_store_check_sound(struct kc_store *store, const char *table, const char *where,
                                 struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_ASSERT(store != NULL && table[0] != '\0');
  KC_TRY(kc_store_prepare(store, "SELECT name, type, pk, \"notnull\" FROM "
                          "pragma_table_info(?1, 'main')", &row, doing, diag));
  sqlite3_bind_text(row, 1, table, -1, SQLITE_STATIC);
  char *sql = write_query(store, row, table, where);
  sqlite3_finalize(row);
  if (sql == NULL) return kc_store_fail(store, SQLITE_NOMEM, doing, diag);
  if (sql[0] == '\0') { /* not there: an older schema */
    sqlite3_free(sql);
    return KC_OK;
  }
  enum kc_err err = kc_store_prepare(store, sql, &row, doing, diag);
  sqlite3_free(sql);
  if (err != KC_OK) return err;
  const int code = sqlite3_step(row);
  if (code == SQLITE_ROW) {
    err = kc_fail_at(diag, KC_ERR_STORE, store->path, 0, 0,
                     "table %s, %s: column %s holds %s, expected %s; the file was changed, and "
                     "`kvcap db verify` tells what else", table, kc_store_text(row, 0),
                     kc_store_text(row, 1), kc_store_text(row, 2), kc_store_text(row, 3));
  } else if (code != SQLITE_DONE) {
    err = kc_store_fail(store, code, doing, diag);
  }
  sqlite3_finalize(row);
  return err;
}
