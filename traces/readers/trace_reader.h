/* What a trace format is to this program: a row in a table. And the state that reading one needs.
 *
 *   lines --kc_trace_feed--> header: which reader, which column plays which role
 *                            row:    split, reader->parse_row, policies, append
 *         --kc_trace_finish-> sort, shift to the earliest, totals
 *
 * A new CSV format is one file reader_<name>.c with a `struct kc_trace_reader`, and its line in the
 * table of trace_readers.c. */
#ifndef KC_TRACES_READERS_TRACE_READER_H
#define KC_TRACES_READERS_TRACE_READER_H

#include "traces/readers/csv_scan.h"
#include "traces/readers/trace_time.h"
#include "traces/trace.h"

enum kc_trace_role { KC_ROLE_ARRIVAL, KC_ROLE_INPUT, KC_ROLE_OUTPUT, KC_ROLES };

struct kc_trace_column {
  enum kc_trace_role role;
  bool required;
  const char *name;  /* as published; compared without case */
  const char *alias; /* an older name, or NULL */
};

/* One row as the file says it, before policies. */
struct kc_trace_raw {
  struct kc_instant arrival; /* 0 when the file has no arrivals */
  uint32_t input_tokens, output_tokens;
};

struct kc_trace_builder;

struct kc_trace_reader {
  const char *name;   /* "azure"; at most 15 bytes */
  const char *sample; /* a header line, for messages */
  const struct kc_trace_column *column;
  uint32_t column_count;
  bool prefix_ids;
  /* Does this header line belong to the format? */
  bool (*detect)(const struct kc_trace_reader *reader, const struct kc_csv_row *header);
  /* The current row of `builder` -> raw. Errors: KC_ERR_INPUT with line and column. */
  enum kc_err (*parse_row)(struct kc_trace_builder *builder, struct kc_trace_raw *raw);
};

extern const struct kc_trace_reader kc_reader_azure;
extern const struct kc_trace_reader kc_reader_vidur;

/* The table, ended by NULL. */
extern const struct kc_trace_reader *const kc_trace_readers[];

/* NULL when no reader has that name. */
const struct kc_trace_reader *kc_trace_reader_find(const char *name);

struct kc_trace_builder {
  struct kc_trace *trace;                  /* filled; borrowed like the next three */
  const struct kc_trace_options *options;
  const char *path;
  struct kc_diag *diag;
  const struct kc_trace_reader *reader;    /* NULL until the header line */
  uint32_t columns;                        /* cells of the header line */
  int32_t cell_of[KC_ROLES];               /* cell index, -1 = the file has no such column */
  const char *name_of[KC_ROLES];           /* the column's name, as published */
  uint64_t capacity_rows;                  /* of trace->row */
  uint64_t rows_seen;                      /* also those that a policy dropped */
  uint64_t line;                           /* 1-based number of the current line */
  const char *line_text;                   /* the current line, for columns of messages */
  size_t line_bytes;
  uint64_t bytes_ahead;                    /* from the current line to the end, to size
                                              storage by; 0 = unknown */
  struct kc_instant base;                  /* whole seconds of the first row, fraction 0 */
  kc_ps earliest_ps, latest_ps, previous_ps; /* relative to base */
  struct kc_day_memo day;
  bool first_zoned;                        /* the first row named a time zone */
  bool rounded;                            /* set by parse_row: the row's time was rounded */
  struct kc_csv_row row;                   /* the current line's cells */
};

void kc_trace_builder_init(struct kc_trace_builder *builder, struct kc_trace *trace,
                           const char *path, const struct kc_trace_options *options,
                           struct kc_diag *diag);

/* Takes every whole line of data[0, bytes), and the rest too when `final`. *used says how many
 * bytes were taken. */
enum kc_err kc_trace_feed(struct kc_trace_builder *builder, const char *data, size_t bytes,
                          bool final, size_t *used);

/* After the last feed: order, shift, span. */
enum kc_err kc_trace_finish(struct kc_trace_builder *builder);

/* Reads the header line in builder->row: chooses the reader and maps its columns. */
enum kc_err kc_trace_read_header(struct kc_trace_builder *builder);

/* --- for parse_row ------------------------------------------------------------------------- */

/* The cell that plays `role`, or NULL when the file has no such column. */
static inline const struct kc_csv_cell *kc_trace_cell(const struct kc_trace_builder *builder,
                                                      enum kc_trace_role role)
{
  const int32_t index = builder->cell_of[role];
  return index < 0 ? NULL : &builder->row.cell[index];
}

/* The cell of `role` as a token count: decimal digits, 0 to 4,294,967,295. */
enum kc_err kc_trace_read_tokens(struct kc_trace_builder *builder, enum kc_trace_role role,
                                 uint32_t *tokens);

/* Fails with `<column> is "<cell>": <complaint>`, placed at the cell. */
enum kc_err kc_trace_bad_cell(struct kc_trace_builder *builder, enum kc_trace_role role,
                              const char *complaint);

/* detect() of formats that are known by their column names. */
bool kc_trace_has_columns(const struct kc_trace_reader *reader, const struct kc_csv_row *header);

#endif
