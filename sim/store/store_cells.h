/* A view read whole into memory: rows of named columns, every cell as text. For pages and tables,
 * which need a few thousand cells in any order. */
#ifndef KC_SIM_STORE_STORE_CELLS_H
#define KC_SIM_STORE_STORE_CELLS_H

#include "sim/store/store.h"

enum { KC_STORE_CELLS_MAX = 4000000 };

struct kc_cells {
  size_t columns, rows;
  char **name;  /* [columns] */
  char **cell;  /* [rows * columns]; NULL is SQL's NULL. UTF-8 without control characters but line
                   ends, whatever the file holds; numbers as SQLite prints them, '.' as decimal
                   sign, 15 significant digits */
};

/* `SELECT * FROM view`, after kc_store_choose. `view` is a plain name. The caller frees the table;
 * after an error there is nothing to free. KC_ERR_LIMIT past KC_STORE_CELLS_MAX. */
enum kc_err kc_cells_read(struct kc_cells *table, struct kc_store *store, const char *view,
                          struct kc_diag *diag);
void kc_cells_free(struct kc_cells *table); /* zeroed is fine */

/* The cell of a row under a column that the view has (asserted); NULL when it is NULL. */
const char *kc_cells_text(const struct kc_cells *table, size_t row, const char *column);
/* The same as a number; NAN when it is NULL or not one. */
double kc_cells_number(const struct kc_cells *table, size_t row, const char *column);

#endif
