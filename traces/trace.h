/* A request trace in memory: rows sorted by arrival, ties in file order, times from the earliest.
 *
 *   file -> scanner (rows of fields) -> reader of its format -> kc_trace
 *
 * Everything repaired, dropped or assumed is counted in `notes` and printed by the caller. The
 * formats are described for users in traces/FORMATS.md. */
#ifndef KC_TRACES_TRACE_H
#define KC_TRACES_TRACE_H

#include "engine/base/file.h"
#include "engine/base/vtime.h"

/* Ceilings; passing one is an error that names it. */
#define KC_TRACE_BYTES_MAX ((uint64_t)64 << 30) /* of the file, and of what gzip makes of it */
enum {
  KC_TRACE_LINE_BYTES_MAX = 16 << 20, /* one line without its LF */
  KC_TRACE_COLUMNS_MAX = 256,
  KC_TRACE_IGNORED_BYTES = 256
};

struct kc_trace_row {
  kc_ps arrival_ps;   /* >= 0, the earliest row is 0 */
  uint32_t input_tokens;  /* the whole prompt: readers of incremental formats add the kept context */
  uint32_t output_tokens;
};

/* ---- what only some formats can say: one entry per row, NULL when the format cannot ---- */

#define KC_TRACE_NONE UINT32_MAX

/* Row flags. */
enum {
  KC_ROW_FAILED = 1,     /* the server or the client gave up; what was recorded is kept */
  KC_ROW_CANCELLED = 2,  /* the user stopped it */
  KC_ROW_SUBAGENT = 4,   /* issued by a nested agent */
  KC_ROW_COMPACTED = 8   /* the prompt is shorter than its predecessor's in the session */
};

struct kc_trace_columns {
  uint32_t *session;     /* dense number in order of first appearance; KC_TRACE_NONE = no session */
  uint32_t *after;       /* closed loop: row that must end first; KC_TRACE_NONE = starts at arrival */
  kc_ps *wait_ps;        /* closed loop: from the end of `after` to this request (think, tool time) */
  uint64_t *block_first; /* prefix ids of the row: trace->block[block_first, + block_count) */
  uint32_t *block_count;
  uint32_t *kind;        /* dense number of the model, type or log kind; names in trace->kind_name */
  uint8_t *flags;
};

/* How a format's prefix ids end: CEIL lists the partial last block (it can be reused only by an
 * identical prompt), FLOOR leaves it out, NONE: no ids. */
enum kc_tail_rule { KC_TAIL_NONE, KC_TAIL_CEIL, KC_TAIL_FLOOR };

/* Counted repairs; the names are printed as they are. */
enum kc_trace_note {
  KC_NOTE_CRLF,               /* lines that end in CR LF, the header included */
  KC_NOTE_NO_FINAL_NEWLINE,   /* 1 when the last row has none */
  KC_NOTE_BOM,                /* 1 when the file starts with a byte-order mark */
  KC_NOTE_BLANK_LINES,
  KC_NOTE_QUOTED_CELLS,       /* the header's included */
  KC_NOTE_OUT_OF_ORDER,       /* rows earlier than their predecessor; sorted, stable */
  KC_NOTE_TIES,               /* rows with the arrival of their predecessor; file order kept.
                                 Counted after sorting; 0 when the format has no arrivals */
  KC_NOTE_ZERO_OUTPUT_DROPPED,
  KC_NOTE_ZERO_OUTPUT_FLOORED,
  KC_NOTE_ZERO_INPUT_FLOORED, /* input 0 counts as 1 token */
  KC_NOTE_SHIFTED,            /* 1 when the earliest time was not 0 */
  KC_NOTE_IGNORED_COLUMNS,    /* columns of the file that the format does not use */
  KC_NOTE_NO_ARRIVALS,        /* 1 when the format has lengths only; all arrive at 0 */
  KC_NOTE_ROUNDED_TIMES,      /* rows whose time had digits below one picosecond; rounded half up */
  KC_NOTE_GZIP,               /* 1 when the file was compressed */
  KC_NOTES
};
/* Stable key, for JSON and tests: "crlf_lines", "out_of_order_rows", ... Never NULL. */
const char *kc_trace_note_name(enum kc_trace_note note);
/* What was done, for people, to follow a count: "lines ended in CR LF". Never NULL. */
const char *kc_trace_note_text(enum kc_trace_note note);

enum kc_zero_output { KC_ZERO_OUTPUT_ERROR, KC_ZERO_OUTPUT_DROP, KC_ZERO_OUTPUT_FLOOR };

struct kc_trace_options {
  const char *format;              /* NULL = detect by content; else "azure", "vidur" */
  enum kc_zero_output zero_output; /* rows that produced nothing; default ERROR: say what to do */
  uint64_t rows_max;               /* ceiling; default 100,000,000 */
};
void kc_trace_options_default(struct kc_trace_options *options);

struct kc_trace {
  struct kc_trace_row *row;  /* heap */
  uint64_t count;            /* >= 1 after a successful load */
  char path[KC_DIAG_PATH_BYTES];
  char format[16];           /* as recognised */
  char sha256[65];           /* of the file's bytes, compressed as they are */
  uint64_t bytes;            /* of the file */
  kc_ps span_ps;             /* last arrival */
  uint64_t input_tokens, output_tokens;         /* sums, floored tokens included */
  uint32_t input_tokens_max, output_tokens_max; /* longest of each */
  uint64_t context_tokens_max;                  /* longest input + output of one row */
  bool prefix_ids;           /* false: the format says nothing of shared prefixes, so a prefix
                                hit rate is unknown, which is not the same as 0 % */
  struct kc_trace_columns column;
  uint32_t *block;           /* dense ids, equal ids = equal content with an equal past; heap */
  uint64_t block_total;      /* entries of `block` */
  uint32_t block_distinct;   /* ids are 0 .. block_distinct - 1 */
  uint32_t block_tokens;     /* tokens per id; 0 = no ids */
  enum kc_tail_rule tail;
  uint32_t session_count;
  uint32_t kind_count;
  char (*kind_name)[32];     /* heap */
  uint32_t file_count;       /* files read (a folder or shards are many) */
  char ignored_columns[KC_TRACE_IGNORED_BYTES]; /* their names, "a, b"; "..." when cut */
  uint64_t note[KC_NOTES];
};

/* Reads a whole trace; O(n), O(n log n) when rows are out of order. Errors: KC_ERR_FILE;
 * KC_ERR_INPUT with file, line, column and what was expected; KC_ERR_USAGE for a format this
 * program does not know; KC_ERR_LIMIT for a ceiling; KC_ERR_MEMORY. After an error `trace` is empty
 * and may be freed. */
enum kc_err kc_trace_load(struct kc_trace *trace, const char *path,
                          const struct kc_trace_options *options, struct kc_diag *diag);
/* The same from bytes in memory; `path` only names them in messages. */
enum kc_err kc_trace_parse(struct kc_trace *trace, const char *path, const char *data, size_t bytes,
                           const struct kc_trace_options *options, struct kc_diag *diag);
void kc_trace_free(struct kc_trace *trace);

#endif
