/* What a trace format is to this program: a row in a table. And the state that reading one needs.
 *
 *   CSV       header line -> which reader, which column plays which role
 *             each line   -> cells by role  -> reader->parse_row -> policies, append
 *   JSONL     each line is an object; the keys of the first one say which reader
 *             each line   -> cells by role  -> reader->parse_row (or parse_object)
 *   document  one JSON object a file, on one line or many -> reader->parse_object -> kc_trace_emit
 *
 *   kc_trace_finish: sort, shift to the earliest, number sessions and ids, totals
 *
 * A new format is one file reader_<name>.c with a `struct kc_trace_reader`, and its line in the
 * table of trace_readers.c. */
#ifndef KC_TRACES_READERS_TRACE_READER_H
#define KC_TRACES_READERS_TRACE_READER_H

#include "traces/readers/csv_scan.h"
#include "traces/readers/intern.h"
#include "traces/readers/json_scan.h"
#include "traces/readers/short_digits.h"
#include "traces/readers/trace_time.h"
#include "traces/trace.h"

enum kc_trace_role {
  KC_ROLE_ARRIVAL,
  KC_ROLE_INPUT,
  KC_ROLE_OUTPUT,
  KC_ROLE_SESSION,
  KC_ROLE_PARENT,
  KC_ROLE_TURN,
  KC_ROLE_WAIT,
  KC_ROLE_IDS,
  KC_ROLE_KIND,
  KC_ROLE_STATUS,
  KC_ROLE_EXTRA_1, /* whatever else a reader wants to look at */
  KC_ROLE_EXTRA_2,
  KC_ROLE_EXTRA_3,
  KC_ROLE_EXTRA_4,
  KC_ROLE_EXTRA_5,
  KC_ROLE_EXTRA_6,
  KC_ROLES
};

struct kc_trace_column {
  enum kc_trace_role role;
  bool required;     /* every file (CSV) or every object (JSON) has it */
  const char *name;  /* as published; compared without case in CSV, with case in JSON */
  const char *alias; /* an older name, or NULL */
};

/* What names a session: nothing, a whole number, or a text. 7 and "7" are two sessions. */
enum kc_trace_key_kind { KC_KEY_NONE, KC_KEY_NUMBER, KC_KEY_TEXT };
struct kc_trace_key {
  enum kc_trace_key_kind kind;
  uint64_t number;
  const char *text; /* borrowed for the call */
  size_t bytes;
};

/* What a row waits for (closed loop). */
enum kc_trace_after {
  KC_AFTER_NONE,     /* starts at its arrival */
  KC_AFTER_PREVIOUS, /* the turn before it in its session: the largest smaller turn, or, where the
                        file has no turns, the row before it in the file; the first turn starts at
                        its arrival */
  KC_AFTER_HANDLE    /* the row that kc_trace_emit gave this handle for, or will give: handles
                        count emitted rows from 0; KC_TRACE_DROPPED is none. Who waits for a row
                        that a policy drops waits for what that row waits for */
};

/* One row as the file says it, before policies. Zeroed before parse_row; a reader that emits rows
 * itself starts from `struct kc_trace_raw raw = {0}`. */
struct kc_trace_raw {
  struct kc_instant arrival; /* 0 when the file has no arrivals */
  uint32_t input_tokens, output_tokens;
  bool arrival_missing;      /* this row has no time: it takes the one of the row before it in its
                                session; the first row of a session must have one */
  bool output_missing;       /* no output length: an option says what to take */
  struct kc_trace_key session;
  struct kc_trace_key parent; /* a session that this one continues (chats that fork): one session */
  bool session_once;          /* the format has one row a session key: more are counted */
  uint32_t turn;              /* order in the session; all 0 = the order of the file */
  enum kc_trace_after after;
  uint64_t after_handle;
  kc_ps wait_ps;              /* from the end of `after` to this request */
  kc_ps wait_after_ps;        /* from the end of this request to whatever waits for it; added */
  const char *kind;           /* model, type, ...; borrowed; NULL = none */
  size_t kind_bytes;
  uint8_t flags;              /* KC_ROW_FAILED, ... */
  const char *output_at;      /* where the output length stands, for messages and for the row's
                                 line in a document; NULL = the cell, the current line */
};

/* Handle of a row that a policy dropped and that waited for nothing; one that waited for another
 * has that one's. */
#define KC_TRACE_DROPPED UINT64_MAX

struct kc_trace_builder;

enum kc_framing { KC_FRAMING_CSV, KC_FRAMING_JSONL, KC_FRAMING_DOCUMENT };

struct kc_trace_reader {
  const char *name;   /* "azure"; at most 15 bytes */
  const char *sample; /* a header line or object, for messages */
  enum kc_framing framing;
  const struct kc_trace_column *column;
  uint32_t column_count;
  uint32_t null_says;  /* JSON, bit i: null is a value of column i, and no gap to be counted */
  bool lengths_only;   /* parse_row sets arrival, input and output, always, and nothing else */
  bool prefix_ids;
  bool adds_past;      /* prompts are incremental in the file: the reader adds the kept context */
  bool local_ids;      /* equal ids of two files are different blocks */
  bool local_sessions; /* equal sessions of two files are different sessions */
  enum kc_time_unit unit;   /* of bare numbers in the ARRIVAL and WAIT roles */
  uint32_t block_tokens;    /* tokens per id; 0 = no ids, or the file says */
  enum kc_tail_rule tail;
  /* CSV: does this header line belong to the format? */
  bool (*detect)(const struct kc_trace_reader *reader, const struct kc_csv_row *header);
  /* JSON: do these keys (bit i: column i is there) belong to the format? NULL = all required ones
   * are there. `object` is the first one of the file. */
  bool (*detect_object)(const struct kc_trace_reader *reader, uint64_t columns,
                        const struct kc_json_value *object);
  /* CSV, after the header's columns are mapped: what the reader wants to take from it. May be
   * NULL. */
  enum kc_err (*begin)(struct kc_trace_builder *builder);
  /* The current row of `builder` -> raw. Errors: KC_ERR_INPUT with line and column. */
  enum kc_err (*parse_row)(struct kc_trace_builder *builder, struct kc_trace_raw *raw);
  /* Instead of parse_row: the object -> any number of kc_trace_emit. For JSONL the object's own
   * members are also there by role. */
  enum kc_err (*parse_object)(struct kc_trace_builder *builder,
                              const struct kc_json_value *object);
  /* Frees builder->memory, called when it is not NULL. NULL = the reader remembers nothing. */
  void (*forget)(struct kc_trace_builder *builder);
};

extern const struct kc_trace_reader kc_reader_azure;
extern const struct kc_trace_reader kc_reader_vidur;
extern const struct kc_trace_reader kc_reader_mooncake;
extern const struct kc_trace_reader kc_reader_bailian;
extern const struct kc_trace_reader kc_reader_servegen_offline;
extern const struct kc_trace_reader kc_reader_canonical;
extern const struct kc_trace_reader kc_reader_burstgpt;
extern const struct kc_trace_reader kc_reader_tracelab;
extern const struct kc_trace_reader kc_reader_tracelab_rounds;
extern const struct kc_trace_reader kc_reader_weka;
extern const struct kc_trace_reader kc_reader_llmservingsim;
extern const struct kc_trace_reader kc_reader_benchlog;
extern const struct kc_trace_reader kc_reader_bench_result;
extern const struct kc_trace_reader kc_reader_aiperf;

/* The table, ended by NULL. */
extern const struct kc_trace_reader *const kc_trace_readers[];

/* "failed", ... for bit 0, ... of a row's flags; NULL beyond the last. */
const char *kc_trace_flag_name(unsigned bit);

/* NULL when no reader has that name. */
const struct kc_trace_reader *kc_trace_reader_find(const char *name);

/* A key or column whose place in the row is remembered from the row before. */
enum { KC_KEY_MEMOS = 32, KC_KEY_MEMO_BYTES = 31 };
struct kc_key_memo {
  char text[KC_KEY_MEMO_BYTES];
  uint8_t bytes;  /* + 1; 0 = nothing remembered */
  int16_t column; /* of the reader, -1 = not used */
};

/* Columns of the rows that only some formats have; allocated when the first row says something. */
struct kc_trace_store;

struct kc_trace_builder {
  struct kc_trace *trace;                  /* filled; borrowed like the next three */
  const struct kc_trace_options *options;
  const char *path;                        /* of the current file */
  struct kc_diag *diag;
  const struct kc_trace_reader *reader;    /* NULL until the first header line or object */
  bool framed;                             /* the current file's first line has been seen */
  enum kc_framing framing;                 /* of the current file, once framed */
  uint32_t columns;                        /* cells of the header line */
  int32_t cell_of[KC_ROLES];               /* cell index, -1 = the file or object has no such */
  const char *name_of[KC_ROLES];           /* the column's name, as published */
  enum kc_json_kind kind_of[KC_ROLES];     /* JSON only */
  struct kc_key_memo memo[KC_KEY_MEMOS];
  uint64_t required;                       /* JSON: columns that every object has, a bit each */
  struct kc_intern_text ignored;           /* names of unused columns seen so far */
  uint64_t capacity_rows;                  /* of trace->row and of every column in use */
  uint64_t rows_seen;                      /* also those that a policy dropped */
  uint64_t rows_before_file;               /* rows_seen at the start of the current file */
  uint64_t line;                           /* 1-based number of the current line */
  const char *line_text;                   /* the current line, for columns of messages */
  size_t line_bytes;
  uint64_t bytes_ahead;                    /* from the current line to the end, to size
                                              storage by; 0 = unknown */
  struct kc_instant base;                  /* whole seconds of the first row, fraction 0 */
  kc_ps earliest_ps, latest_ps, previous_ps; /* relative to base */
  struct kc_day_memo day;
  bool first_zoned;                        /* the first row named a time zone */
  struct kc_trace_raw raw;                 /* of the current row, for parse_row */
  bool rounded;                            /* set by parse_row: the row's time was rounded */
  struct kc_csv_row row;                   /* the current line's cells */
  enum kc_time_unit unit;                  /* in force: the format's or the option's */
  const char *row_at;                      /* documents: where the current row stands; or NULL */
  const char *counted_at;                  /* documents: line ends before it have been counted */
  uint64_t counted_line;                   /* the line of counted_at */
  struct kc_trace_store *store;            /* heap; sessions, ids, kinds */
  bool arrivals_known;                     /* a file or run said whether it has arrival times */
  void *memory;                            /* the reader's own across rows and files; heap */
};

/* Errors: KC_ERR_MEMORY. */
enum kc_err kc_trace_builder_init(struct kc_trace_builder *builder, struct kc_trace *trace,
                                  const struct kc_trace_options *options, struct kc_diag *diag);
void kc_trace_builder_deinit(struct kc_trace_builder *builder);

/* The next file: its lines count from 1; local scopes end. `path` is borrowed until the next.
 * Errors: KC_ERR_MEMORY. */
enum kc_err kc_trace_begin_file(struct kc_trace_builder *builder, const char *path);

/* Takes every whole line of data[0, bytes), and the rest too when `final`. *used says how many
 * bytes were taken; a document is taken whole, so nothing before `final`. */
enum kc_err kc_trace_feed(struct kc_trace_builder *builder, const char *data, size_t bytes,
                          bool final, size_t *used);

/* After the last feed of each file: it must have had a header line or an object, and its rows must
 * wait for rows of its own. */
enum kc_err kc_trace_end_file(struct kc_trace_builder *builder);

/* After the last file: order, shift, span, dense numbers. */
enum kc_err kc_trace_finish(struct kc_trace_builder *builder);

/* Reads the header line in builder->row: chooses the reader and maps its columns. */
enum kc_err kc_trace_read_header(struct kc_trace_builder *builder);

/* The first object of a JSON file: chooses the reader. */
enum kc_err kc_trace_read_keys(struct kc_trace_builder *builder,
                               const struct kc_json_value *object);

/* The format is known: its defaults and the options that override them. A second format is an
 * error. */
enum kc_err kc_trace_begin_format(struct kc_trace_builder *builder,
                                  const struct kc_trace_reader *reader);

/* Where the current row, or else the current line, stands. */
struct kc_trace_place kc_trace_here(struct kc_trace_builder *builder);

/* Counts something repaired, dropped or assumed; remembers where the first one stands. */
void kc_trace_note_first(struct kc_trace_builder *builder, enum kc_trace_note note);
static inline void kc_trace_note_count(struct kc_trace_builder *builder, enum kc_trace_note note,
                                       uint64_t count)
{
  if (count == 0) return;
  if (builder->trace->note[note] == 0) kc_trace_note_first(builder, note);
  builder->trace->note[note] += count;
}

/* A fact that is there or not, however often. */
void kc_trace_note_once(struct kc_trace_builder *builder, enum kc_trace_note note);

/* Whether a file or run has arrival times: all have them, or none. */
enum kc_err kc_trace_set_arrivals(struct kc_trace_builder *builder, bool there);

/* Counts a column or key that the format does not use, and remembers its name. */
void kc_trace_note_ignored(struct kc_trace_builder *builder, const char *name, size_t bytes);

/* The members of an object -> cells by role. Errors: KC_ERR_INPUT for a fault of syntax, a key
 * that is missing or there twice, or an object of another format. */
enum kc_err kc_trace_map_object(struct kc_trace_builder *builder,
                                const struct kc_json_value *object);

/* --- for parse_row and parse_object ---------------------------------------------------------- */

/* The cell that plays `role`, or NULL when the file or the object has no such column (or null). */
static inline const struct kc_csv_cell *kc_trace_cell(const struct kc_trace_builder *builder,
                                                      enum kc_trace_role role)
{
  const int32_t index = builder->cell_of[role];
  return index < 0 ? NULL : &builder->row.cell[index];
}

/* The cell as a JSON value, to walk an array or object; false when absent. JSON only. */
bool kc_trace_value(const struct kc_trace_builder *builder, enum kc_trace_role role,
                    struct kc_json_value *value);

/* Stores a row: policies first. `handle` may be NULL. */
enum kc_err kc_trace_emit(struct kc_trace_builder *builder, const struct kc_trace_raw *raw,
                          uint64_t *handle);

/* The prefix ids of the row that is emitted next: one, or all of a JSON array, or all of a cell of
 * whole numbers with spaces or semicolons between. */
enum kc_err kc_trace_push_id(struct kc_trace_builder *builder, uint64_t id);
enum kc_err kc_trace_push_ids(struct kc_trace_builder *builder, const struct kc_json_value *array);
enum kc_err kc_trace_push_id_cell(struct kc_trace_builder *builder, enum kc_trace_role role);
/* Ids pushed since the last emit. */
uint32_t kc_trace_pushed_ids(const struct kc_trace_builder *builder);

/* The file says how long its blocks are and how they end (Weka's block_size). The option wins. */
enum kc_err kc_trace_set_blocks(struct kc_trace_builder *builder, uint32_t block_tokens,
                                enum kc_tail_rule tail);

/* The general case of the next function: any number of digits, or an error. */
enum kc_err kc_trace_read_any_tokens(struct kc_trace_builder *builder, enum kc_trace_role role,
                                     uint32_t *tokens);

/* The cell of `role` as a token count: decimal digits, 0 to 4,294,967,295. A null is an error. */
static inline enum kc_err kc_trace_read_tokens(struct kc_trace_builder *builder,
                                               enum kc_trace_role role, uint32_t *tokens)
{
  const struct kc_csv_cell *const cell = kc_trace_cell(builder, role);
  if (cell == NULL) return kc_trace_read_any_tokens(builder, role, tokens);
  const char *const end = cell->text + cell->bytes;
  const bool is_short = cell->bytes - 1 < KC_SHORT_DIGITS_MAX && end - builder->line_text >= 8;
  const bool number =
      builder->framing == KC_FRAMING_CSV || builder->kind_of[role] == KC_JSON_NUMBER;
  if (is_short && number && kc_short_digits(end, cell->bytes, tokens)) return KC_OK;
  return kc_trace_read_any_tokens(builder, role, tokens);
}
/* The same of any JSON value; `name` for messages. */
enum kc_err kc_trace_value_tokens(struct kc_trace_builder *builder, const char *name,
                                  const struct kc_json_value *value, uint32_t *tokens);

/* The cell of `role` as an instant: a bare number (or a JSON number) of builder->unit; a null is an
 * error. */
enum kc_err kc_trace_read_instant(struct kc_trace_builder *builder, enum kc_trace_role role,
                                  struct kc_instant *instant);
/* The same as a duration of 0 or more, at most 106 days. */
enum kc_err kc_trace_read_wait(struct kc_trace_builder *builder, enum kc_trace_role role,
                               kc_ps *wait);
/* The same two of any JSON number in a given unit. */
enum kc_err kc_trace_value_instant(struct kc_trace_builder *builder, const char *name,
                                   const struct kc_json_value *value, enum kc_time_unit unit,
                                   struct kc_instant *instant);
enum kc_err kc_trace_value_wait(struct kc_trace_builder *builder, const char *name,
                                const struct kc_json_value *value, enum kc_time_unit unit,
                                kc_ps *wait);

/* The cell of `role` as a session key: a whole number (or digits in CSV), or any other text. An
 * empty cell is none. */
enum kc_err kc_trace_read_key(struct kc_trace_builder *builder, enum kc_trace_role role,
                              struct kc_trace_key *key);

/* Fails with `<column> is "<cell>": <complaint>`, placed at the cell; `is null` without one. */
enum kc_err kc_trace_bad_cell(struct kc_trace_builder *builder, enum kc_trace_role role,
                              const char *complaint);
/* The same for any JSON value of the current line or document. */
enum kc_err kc_trace_bad_value(struct kc_trace_builder *builder, const char *name,
                               const struct kc_json_value *value, const char *complaint);
/* Fails with a sentence at a place of the current line or document; `at` NULL: the line. */
enum kc_err kc_trace_bad_place(struct kc_trace_builder *builder, const char *at,
                               const char *sentence);
/* Fails for a cursor that ended with a fault. KC_OK when it has none. */
enum kc_err kc_trace_check_cursor(struct kc_trace_builder *builder,
                                  const struct kc_json_cursor *cursor);

/* detect() of formats that are known by their column names. */
bool kc_trace_has_columns(const struct kc_trace_reader *reader, const struct kc_csv_row *header);

#endif
