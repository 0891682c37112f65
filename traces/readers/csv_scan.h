/* Splits one line of comma-separated text into cells, without copying a byte.
 *
 *   line   2023-11-16 18:17:03.9799600, 4808 ,"10"
 *   cells  [2023-11-16 18:17:03.9799600] [4808] [10]      text points into the line
 *
 * Cells are trimmed of spaces and tabs. A quoted cell (RFC 4180) loses its quotes; doubled quotes
 * inside stay doubled, because no cell that we read may hold one. A cell never spans lines. */
#ifndef KC_TRACES_READERS_CSV_SCAN_H
#define KC_TRACES_READERS_CSV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traces/trace.h"

struct kc_csv_cell {
  const char *text; /* borrowed from the line */
  uint32_t bytes;
};

struct kc_csv_row {
  struct kc_csv_cell cell[KC_TRACE_COLUMNS_MAX]; /* the first `count` of them, as far as they fit */
  uint32_t count;        /* cells in the line, also those beyond KC_TRACE_COLUMNS_MAX; >= 1 */
  uint32_t quoted;       /* cells that were quoted */
  uint32_t fault_offset; /* byte of the line that a fault is about */
};

enum kc_csv_fault {
  KC_CSV_OK,
  KC_CSV_QUOTE_UNCLOSED, /* no closing quote before the end of the line */
  KC_CSV_QUOTE_TRAILED,  /* text after a closing quote */
  KC_CSV_QUOTE_INSIDE    /* a quote in the middle of a cell that is not quoted */
};

/* `line` has no line end and at most KC_TRACE_LINE_BYTES_MAX bytes. O(bytes), 8 bytes a step. */
enum kc_csv_fault kc_csv_split(struct kc_csv_row *row, const char *line, size_t bytes);

#endif
