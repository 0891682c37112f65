/* Reading a view whole. Cells are separate heap strings: simple, and small beside what is drawn of
 * them. */
#include "sim/store/store_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "sim/store/store_internal.h"

static const char doing[] = "reading it";

static enum kc_err fail_memory(struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory while reading the results");
}

static enum kc_err read_names(struct kc_cells *table, sqlite3_stmt *row, struct kc_diag *diag)
{
  KC_ASSERT(table->name == NULL);
  const size_t columns = (size_t)sqlite3_column_count(row);
  KC_ASSERT(columns > 0);
  table->name = calloc(columns, sizeof *table->name);
  if (table->name == NULL) return fail_memory(diag);
  table->columns = columns;
  for (size_t i = 0; i < columns; i++) {
    table->name[i] = strdup(sqlite3_column_name(row, (int)i));
    if (table->name[i] == NULL) return fail_memory(diag);
  }
  return KC_OK;
}

/* Room for one row more; cells are NULL. */
static enum kc_err grow(struct kc_cells *table, size_t *room, struct kc_diag *diag)
{
  if (table->rows < *room) return KC_OK;
  const size_t wanted = *room == 0 ? 64 : 2 * *room;
  if (wanted * table->columns > KC_STORE_CELLS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a figure reads at most %d values; choose fewer runs",
                   KC_STORE_CELLS_MAX);
  }
  char **cell = realloc(table->cell, wanted * table->columns * sizeof *cell);
  if (cell == NULL) return fail_memory(diag);
  memset(cell + *room * table->columns, 0, (wanted - *room) * table->columns * sizeof *cell);
  table->cell = cell;
  *room = wanted;
  return KC_OK;
}

/* Sums and quotients of sound numbers may still be none. */
static enum kc_err read_row(struct kc_cells *table, sqlite3_stmt *row, struct kc_diag *diag)
{
  KC_ASSERT(table->cell != NULL);
  char **cell = table->cell + table->rows * table->columns;
  table->rows += 1;
  for (size_t i = 0; i < table->columns; i++) {
    const int type = sqlite3_column_type(row, (int)i);
    if (type == SQLITE_NULL) continue;
    if (type == SQLITE_FLOAT && !isfinite(sqlite3_column_double(row, (int)i))) {
      return kc_fail(diag, KC_ERR_STORE, "row %zu of what the report reads gives no finite number "
                     "for %s; the database was changed, and `kvcap db verify` tells what of it",
                     table->rows, table->name[i]);
    }
    cell[i] = strdup(kc_store_text(row, (int)i));
    if (cell[i] == NULL) return fail_memory(diag);
    kc_store_clean_lines(cell[i]);
  }
  return KC_OK;
}

static enum kc_err read_rows(struct kc_cells *table, struct kc_store *store, sqlite3_stmt *row,
                             struct kc_diag *diag)
{
  int code;
  size_t room = 0;
  KC_TRY(read_names(table, row, diag));
  while ((code = sqlite3_step(row)) == SQLITE_ROW) {
    KC_TRY(grow(table, &room, diag));
    KC_TRY(read_row(table, row, diag));
  }
  return code == SQLITE_DONE ? KC_OK : kc_store_fail(store, code, doing, diag);
}

enum kc_err kc_cells_read(struct kc_cells *table, struct kc_store *store, const char *view,
                          struct kc_diag *diag)
{
  KC_ASSERT(table != NULL && store != NULL);
  KC_ASSERT(view[0] != '\0' && view[strspn(view, "abcdefghijklmnopqrstuvwxyz_")] == '\0');
  char sql[96];
  sqlite3_stmt *row = NULL;
  *table = (struct kc_cells){0};
  snprintf(sql, sizeof sql, "SELECT * FROM %s", view);
  KC_TRY(kc_store_prepare(store, sql, &row, doing, diag));
  const enum kc_err err = read_rows(table, store, row, diag);
  sqlite3_finalize(row);
  if (err != KC_OK) kc_cells_free(table);
  return err;
}

void kc_cells_free(struct kc_cells *table)
{
  KC_ASSERT(table != NULL);
  for (size_t i = 0; i < table->columns && table->name != NULL; i++) free(table->name[i]);
  for (size_t i = 0; i < table->rows * table->columns; i++) free(table->cell[i]);
  free(table->name);
  free(table->cell);
  *table = (struct kc_cells){0};
}

const char *kc_cells_text(const struct kc_cells *table, size_t row, const char *column)
{
  KC_ASSERT(row < table->rows);
  size_t i = 0;
  while (i < table->columns && strcmp(table->name[i], column) != 0) i++;
  KC_ASSERT(i < table->columns);
  return table->cell[row * table->columns + i];
}

double kc_cells_number(const struct kc_cells *table, size_t row, const char *column)
{
  const char *text = kc_cells_text(table, row, column);
  double value;
  return text != NULL && kc_parse_double(text, strlen(text), &value) ? value : NAN;
}
