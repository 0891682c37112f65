/* One option table, many products: the checker of scenario keys, the command-line parser, --help,
 * and the reference page all read the same rows.
 *
 * A row binds a dotted key ("memory.fraction") or a flag ("--kv-budget") to a field of a struct.
 */
#ifndef KC_ENGINE_BASE_OPTION_H
#define KC_ENGINE_BASE_OPTION_H

#include "engine/base/node.h"

enum kc_option_type {
  KC_OPTION_U32,
  KC_OPTION_U64,
  KC_OPTION_DOUBLE,
  KC_OPTION_BOOL,
  KC_OPTION_BYTES,     /* uint64_t, "56GiB" */
  KC_OPTION_DURATION,  /* kc_ps, "10ms" */
  KC_OPTION_TEXT,      /* char[size], copied */
  KC_OPTION_CHOICE,    /* int: index into `values` */
  KC_OPTION_FLAG,      /* bool, command line only, takes no value */
  KC_OPTION_LIST,      /* struct kc_option_list, command line only: may be given many times */
  KC_OPTION_SUBTREE    /* scenario only: a map or list that the caller reads itself */
};

struct kc_option {
  const char *key;          /* "memory.fraction" or "kv-budget" */
  enum kc_option_type type;
  size_t offset;            /* of the field */
  size_t size;              /* TEXT: bytes of the array */
  size_t set_offset;        /* bool that says whether the user gave it; 0 = none kept */
  double min, max;          /* numbers; both 0 = no bound */
  const char *fallback;     /* default as text, parsed like a value; NULL = leave the field alone */
  const char *unit;         /* for people; may be NULL */
  const char *values;       /* CHOICE: "sglang|vllm"; TEXT: what it looks like, for --help */
  const char *help;         /* one sentence */
  bool required;
  const char *bare;         /* command line: the value when the option ends the line or an option
                               follows it ("--db"); NULL = a value is required */
};

/* What a KC_OPTION_LIST option gathered, in the order given. Borrows the strings of argv. */
enum { KC_OPTION_LIST_MAX = 64, KC_OPTIONS_MAX = 128 };
struct kc_option_list {
  size_t count;
  const char *item[KC_OPTION_LIST_MAX];
};

/* Applies every row's default to `target`. One that does not parse is our mistake (assert). */
void kc_options_default(const struct kc_option *options, size_t count, void *target);

/* Sets one option from text. `place` says where, for messages; a NULL path is the command line (the
 * key is then printed as a flag, and errors are KC_ERR_USAGE). Errors name the key, the value, what
 * was expected (type, range, unit, values). Not for FLAG, LIST and SUBTREE. */
struct kc_place {
  const char *path;
  uint32_t line, column;
};
enum kc_err kc_option_set(const struct kc_option *option, void *target, const char *text,
                          struct kc_place place, struct kc_diag_list *problems);

/* Checks a map against the table: every leaf must be a known key (else a suggestion by edit
 * distance), every value must parse, every required key must be there. `prefix` is printed before
 * keys ("pools.decode."). All problems are collected. A quoted value is never a number or a bool.
 * Values that kc_document_set put in have the place "--set". */
void kc_options_read_map(const struct kc_option *options, size_t count, void *target,
                         const struct kc_node *map, const char *path, const char *prefix,
                         struct kc_diag_list *problems);

/* Command line: "--key value", "--key=value", flags, and positional arguments (into positional[],
 * at most positional_max). Reads argv[1..argc): argv[0] is the program's or command's name. "--"
 * ends options. An option given twice is an error unless it is a LIST. At most KC_OPTIONS_MAX rows.
 * Errors KC_ERR_USAGE with a suggestion. */
enum kc_err kc_options_read_arguments(const struct kc_option *options, size_t count, void *target,
                                      int argc, char **argv, const char **positional,
                                      size_t positional_max, size_t *positional_count,
                                      struct kc_diag *diag);

/* Writes the table as help text ("  --kv-budget BYTES   sentence [default]"). Calls `write` with
 * pieces; lines at most 100 columns. */
void kc_options_help(const struct kc_option *options, size_t count,
                     void (*write)(void *context, const char *text), void *context);

/* The pieces of that, for other forms of the same text: what stands for an option's value
 * ("BYTES"; not for FLAG), and its sentence with the default (cut at `size`). */
const char *kc_option_word(const struct kc_option *option);
void kc_option_sentence(const struct kc_option *option, char *out, size_t size);
enum { KC_OPTION_SENTENCE_BYTES = 768 };

#endif
