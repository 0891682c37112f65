/* Where rows go: policies, the columns that only some formats fill, sessions and ids as numbers.
 *
 *   raw row --policies--> trace->row[n]             arrival relative to the first row's second
 *                         column.session[n], ...    only those that some row has used
 *                         trace->block[..]          ids as numbers of first appearance
 *
 * Until kc_trace_finish, `after` and `wait` are as the file says: see trace_order.c. */
#ifndef KC_TRACES_READERS_TRACE_STORE_H
#define KC_TRACES_READERS_TRACE_STORE_H

#include "traces/readers/trace_reader.h"

/* column.after until the end of the load. */
#define KC_AFTER_ROW_PREVIOUS (KC_TRACE_NONE - 1)

enum kc_store_column {
  KC_COLUMN_SESSION,
  KC_COLUMN_AFTER,
  KC_COLUMN_WAIT,
  KC_COLUMN_BLOCK_FIRST,
  KC_COLUMN_BLOCK_COUNT,
  KC_COLUMN_KIND,
  KC_COLUMN_FLAGS,
  KC_COLUMN_LINE,       /* kept with the trace only when asked for */
  KC_COLUMN_FILE,       /* the same; made at the end, when there are several */
  KC_COLUMN_TURN,       /* of the load only */
  KC_COLUMN_WAIT_AFTER, /* of the load only */
  KC_COLUMNS
};

/* A row that a policy dropped, by its handle, and what it waited for. */
struct kc_dropped_row {
  uint32_t handle, after;
  uint32_t line; /* in its file; 0 = not known */
};

struct kc_trace_store {
  struct kc_dropped_row *dropped; /* heap, by handle; kept while handles fit in 32 bits */
  uint64_t dropped_count, dropped_capacity;
  uint64_t dropped_before_file; /* dropped_count at the start of the current file */
  uint64_t *file_first_row;     /* heap; rows kept before each file */
  uint32_t file_capacity;       /* of it, and of the trace's file names */
  size_t file_names_bytes, file_names_capacity;
  uint32_t *turn;       /* heap, like the columns of the trace */
  kc_ps *wait_after_ps;
  /* Sessions. A number key's session is 2 n, a text key's 2 n + 1; dense numbers come last. */
  struct kc_intern session_number;
  struct kc_intern_text session_text;
  uint32_t *session_root;   /* heap; union-find: whom this session continues */
  kc_ps *session_arrival_ps; /* heap; of the session's last row; KC_PS_NEVER = none yet */
  uint32_t session_capacity; /* of both */
  bool sessions_joined;
  bool want_lines;          /* asked for, or some row waits for another */
  /* Prefix ids. */
  struct kc_intern id;
  uint32_t *id_before;      /* heap; id -> the one before it in the row where it first stood */
  uint32_t id_capacity;
  uint64_t block_capacity;  /* of trace->block */
  uint64_t pushed;          /* ids of the row to come, behind block_total */
  uint64_t rows_own_tail;   /* rows whose number of ids fits the format's tail rule only */
  bool blocks_said;         /* a file named its block size and tail rule */
  bool unchained;
  struct kc_intern_text kind;
};

/* The trace's column, or the store's, NULL when not in use; and its bytes a row. */
void *kc_store_column(const struct kc_trace *trace, const struct kc_trace_store *store,
                      enum kc_store_column column);
void kc_store_set_column(struct kc_trace *trace, struct kc_trace_store *store,
                         enum kc_store_column column, void *rows);
size_t kc_store_column_bytes(enum kc_store_column column);

/* The column is in use; rows before say nothing. Errors: KC_ERR_MEMORY. */
enum kc_err kc_store_use_column(struct kc_trace_builder *builder, enum kc_store_column column);

void kc_store_deinit(struct kc_trace_store *store);

/* kc_trace_emit without the copy: the policies write into `raw`. */
enum kc_err kc_store_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw,
                         uint64_t *handle);

/* Remembers a file's name and where its rows begin. Errors: KC_ERR_MEMORY. */
enum kc_err kc_store_file(struct kc_trace_builder *builder, const char *path);

/* At the end of a file: its rows wait for rows of it. Errors: KC_ERR_INPUT, with the line. */
enum kc_err kc_store_check_after(struct kc_trace_builder *builder);

/* The file of a kept row, in the order read (before sorting). O(log files). */
uint32_t kc_store_file_of(const struct kc_trace_builder *builder, uint64_t row);

/* The session that stands for all that were joined with this one. */
uint32_t kc_store_root(struct kc_trace_store *store, uint32_t session);

#endif
