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
  KC_TRACE_IGNORED_BYTES = 256,
  KC_TRACE_KIND_BYTES = 32,           /* of a kind's name, its NUL included */
  KC_TRACE_DOCUMENT_BYTES_MAX = 1 << 28, /* a file that is one JSON document */
  KC_TRACE_FILES_MAX = 65536          /* of a folder */
};

struct kc_trace_row {
  kc_ps arrival_ps;   /* >= 0, the earliest row is 0 */
  uint32_t input_tokens; /* the whole prompt: readers of incremental formats add what was kept */
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
  uint32_t *after;       /* closed loop: row that must end first; KC_TRACE_NONE = at its arrival */
  kc_ps *wait_ps;        /* closed loop: from the end of `after` to this request (think, tools) */
  uint64_t *block_first; /* prefix ids of the row: trace->block[block_first, + block_count) */
  uint32_t *block_count;
  uint32_t *kind;        /* dense number of the model, type or log; trace->kind_name */
  uint8_t *flags;
  uint32_t *line;        /* 1-based, of the row's file (inflated); 0 = not known. Only when the
                            options ask for lines, and NULL for traces that were made */
  uint32_t *file;        /* with `line`: the file's number; NULL = all are of file 0 */
};

/* Where something stands in the files of a trace. */
struct kc_trace_place {
  uint32_t file; /* for kc_trace_file_name */
  uint32_t line; /* 1-based; 0 = not known, or beyond 4,294,967,295 */
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
  KC_NOTE_GZIP,               /* files that were compressed */
  KC_NOTE_SKIPPED_FILES,      /* entries of a folder that are no traces by their names */
  KC_NOTE_FAILED_KEPT,        /* rows marked as failed; kept with what was recorded */
  KC_NOTE_FAILED_DROPPED,
  KC_NOTE_CANCELLED_KEPT,     /* rows marked as cancelled */
  KC_NOTE_CANCELLED_DROPPED,
  KC_NOTE_MISSING_OUTPUT,     /* rows without an output length; options say how many they get */
  KC_NOTE_INPUT_FROM_IDS,     /* rows without an input length; counted from their prefix ids */
  KC_NOTE_ROWS_WITHOUT_IDS,   /* in a trace where other rows have prefix ids */
  KC_NOTE_IDS_MISMATCH,       /* rows whose number of ids fits neither ceil nor floor; ids beyond
                                 the prompt's end were cut off */
  KC_NOTE_IDS_OTHER_TAIL,     /* rows whose number of ids fits the other tail rule only */
  KC_NOTE_UNCHAINED_IDS,      /* ids that follow different ids in different rows: content hashes;
                                 only equal leading runs are taken as equal */
  KC_NOTE_MISSING_ARRIVALS,   /* rows without a time in a format that has them; they follow their
                                 session's previous turn */
  KC_NOTE_NULL_CELLS,         /* JSON nulls, taken as absent */
  KC_NOTE_OWN_PARENT,         /* chats that name themselves as their parent; taken as first ones */
  KC_NOTE_REPEATED_CHATS,     /* rows with the chat of an earlier row; kept, in its session */
  KC_NOTES
};
/* Stable key, for JSON and tests: "crlf_lines", "out_of_order_rows", ... Never NULL. */
const char *kc_trace_note_name(enum kc_trace_note note);
/* What was done, for people, to follow a count: "lines ended in CR LF". Never NULL. */
const char *kc_trace_note_text(enum kc_trace_note note);

enum kc_zero_output { KC_ZERO_OUTPUT_ERROR, KC_ZERO_OUTPUT_DROP, KC_ZERO_OUTPUT_FLOOR };

/* What a bare number of a time column counts. FORMAT: what the format says, which is printed. */
enum kc_time_unit {
  KC_UNIT_FORMAT,
  KC_UNIT_S,
  KC_UNIT_MS,
  KC_UNIT_US,
  KC_UNIT_NS,
  KC_UNIT_PS
};

enum kc_row_policy { KC_ROW_KEEP, KC_ROW_DROP };

/* All-zero members that were added to the first three mean "as the format says" or "keep". */
struct kc_trace_options {
  const char *format;              /* NULL = detect by content; else a reader's name */
  enum kc_zero_output zero_output; /* rows that produced nothing; default ERROR: say what to do */
  uint64_t rows_max;               /* ceiling; default 100,000,000 */
  enum kc_time_unit time_unit;     /* of formats whose times are numbers; an error for others */
  uint32_t block_tokens;           /* tokens per prefix id; 0 = the format's */
  enum kc_tail_rule tail;          /* NONE = the format's */
  enum kc_row_policy failed, cancelled;
  uint32_t missing_output_tokens;  /* for rows of formats without output lengths; 0 = an error */
  bool lines;                      /* keep each row's line: 4 bytes a row, 8 with several files */
};
void kc_trace_options_default(struct kc_trace_options *options);

struct kc_trace {
  struct kc_trace_row *row;  /* heap */
  uint64_t count;            /* >= 1 after a successful load */
  char path[KC_DIAG_PATH_BYTES];
  char format[16];           /* as recognised */
  char sha256[65];           /* of the file's bytes, compressed as they are; of several files: of
                                the lines "<sha256>  <name>\n" in the order read */
  uint64_t bytes;            /* of the files */
  kc_ps span_ps;             /* last arrival */
  int64_t start_s;           /* the earliest arrival as the file states it, rounded down to
                                seconds: since 1970 for dates */
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
  bool adds_past;            /* the file counts new tokens only; the reader added what was kept */
  enum kc_time_unit time_unit; /* of the bare numbers read; KC_UNIT_FORMAT: dates, or no times */
  char ignored_columns[KC_TRACE_IGNORED_BYTES]; /* their names, "a, b"; "..." when cut */
  uint64_t note[KC_NOTES];
  struct kc_trace_place note_at[KC_NOTES]; /* where each was counted first, in the files' order */
  struct kc_trace_place format_at; /* the header line or object that told the format */
  char *file_names;          /* heap; one after the other, each with its NUL */
  uint64_t *file_name_at;    /* heap; where each starts */
  uint32_t file_names_count; /* files begun */
};

/* Reads a whole trace; O(n), O(n log n) when rows are out of order. Errors: KC_ERR_FILE;
 * KC_ERR_INPUT with file, line, column and what was expected; KC_ERR_USAGE for a format this
 * program does not know; KC_ERR_LIMIT for a ceiling; KC_ERR_MEMORY. After an error `trace` is empty
 * and may be freed. */
enum kc_err kc_trace_load(struct kc_trace *trace, const char *path,
                          const struct kc_trace_options *options, struct kc_diag *diag);
/* Several files of one format as one trace, in the order given (shards). `path` may also be a
 * folder, in both functions: its files *.csv, *.json, *.jsonl and *.ndjson, each also with .gz, in
 * the order of their names, not those of folders below it. */
enum kc_err kc_trace_load_files(struct kc_trace *trace, const char *const *path, size_t count,
                                const struct kc_trace_options *options, struct kc_diag *diag);
/* The same from bytes in memory; `path` only names them in messages. */
enum kc_err kc_trace_parse(struct kc_trace *trace, const char *path, const char *data, size_t bytes,
                           const struct kc_trace_options *options, struct kc_diag *diag);
void kc_trace_free(struct kc_trace *trace);
/* A copy of its own, of all that `from` holds. KC_ERR_MEMORY: `trace` is empty then. */
enum kc_err kc_trace_copy(struct kc_trace *trace, const struct kc_trace *from,
                          struct kc_diag *diag);

/* The path of a file by its number, as it was opened; "" for a trace that was not read. */
const char *kc_trace_file_name(const struct kc_trace *trace, uint32_t file);
/* Where a row stands; {0, 0} when the options did not ask for lines. */
struct kc_trace_place kc_trace_row_place(const struct kc_trace *trace, uint64_t row);

/* Names of the formats, "azure", ...; NULL beyond the last. */
const char *kc_trace_format_name(size_t index);
/* "s", "ms", "us", "ns", "ps"; "" for KC_UNIT_FORMAT. "none", "ceil", "floor". Never NULL. */
/* What a note counted, by name, where there are names (", "-separated); else "". */
const char *kc_trace_note_names(const struct kc_trace *trace, enum kc_trace_note note);
const char *kc_time_unit_name(enum kc_time_unit unit);
const char *kc_tail_rule_name(enum kc_tail_rule tail);

/* What an infinite prefix cache would have found: for each row, the leading ids that some earlier
 * row (in the trace's order) led with as well. A partial last block counts as a block, and for the
 * tokens that it holds. */
struct kc_trace_reuse {
  uint64_t rows;          /* that have ids */
  uint64_t blocks, blocks_reused;
  uint64_t tokens, tokens_reused; /* of the rows that have ids */
};
/* Errors: KC_ERR_MEMORY. All zero when the trace has no ids: the rate is unknown, not 0. */
enum kc_err kc_trace_reuse(const struct kc_trace *trace, struct kc_trace_reuse *reuse,
                           struct kc_diag *diag);

/* Writes the trace in the program's own format, `kvcap-trace` (traces/FORMATS.md): read again it
 * gives the same rows and columns. `write` gets pieces of text; false from it ends the writing with
 * KC_ERR_FILE. */
typedef bool kc_trace_write_text(void *context, const char *text, size_t bytes);
enum kc_err kc_trace_write(const struct kc_trace *trace, kc_trace_write_text *write, void *context,
                           struct kc_diag *diag);

#endif
