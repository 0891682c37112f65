/* A CSV file of kernel timings as a table of text cells: header, then rows of as many cells.
 *
 * Plain or gzipped. Strict: every row has the header's number of cells, names of columns differ, no
 * line is empty, at least one row. Cells stay text until a column is read as numbers, so an error
 * can show what stands there. */
#ifndef KC_SIM_CALIBRATE_TIMING_TABLE_H
#define KC_SIM_CALIBRATE_TIMING_TABLE_H

#include "engine/base/digest.h"
#include "engine/base/file.h"

enum { KC_TIMING_COLUMNS_MAX = 32, KC_TIMING_ROWS_MAX = 4000000 };

struct kc_timing_cell {
  const char *text;   /* not terminated */
  uint32_t bytes;
};

struct kc_timing_table {
  char path[KC_DIAG_PATH_BYTES];
  uint32_t columns;
  char column[KC_TIMING_COLUMNS_MAX][40];
  size_t rows;
  struct kc_timing_cell *cell; /* rows * columns, heap */
  char *text;                  /* the inflated file, heap */
};

/* Errors: KC_ERR_FILE; KC_ERR_INPUT with line and column; KC_ERR_LIMIT; KC_ERR_MEMORY. Nothing is
 * held after an error. */
enum kc_err kc_timing_table_load(struct kc_timing_table *table, const char *path,
                                 struct kc_diag *diag);
enum kc_err kc_timing_table_parse(struct kc_timing_table *table, const char *path,
                                  const char *data, size_t bytes, struct kc_diag *diag);
void kc_timing_table_free(struct kc_timing_table *table);

/* SHA-256 of what a file holds, inflated if it is gzipped: one file under two names, or packed and
 * unpacked, has one. Any file will do. Errors: KC_ERR_FILE, KC_ERR_INPUT (gzip), KC_ERR_LIMIT,
 * KC_ERR_MEMORY. */
enum kc_err kc_timing_digest(const char *path, char out[KC_SHA256_HEX_BYTES],
                             struct kc_diag *diag);

/* Column by name, or -1. */
int kc_timing_column(const struct kc_timing_table *table, const char *name);

const struct kc_timing_cell *kc_timing_cell(const struct kc_timing_table *table, size_t row,
                                            int column);
/* The line of the file that a row stands on. */
uint64_t kc_timing_line(size_t row);

/* Cell as a number in [low, high]; fails with line and column of the cell. */
enum kc_err kc_timing_number(const struct kc_timing_table *table, size_t row, int column,
                             double low, double high, double *out, struct kc_diag *diag);

bool kc_timing_is(const struct kc_timing_cell *cell, const char *text);

#endif
