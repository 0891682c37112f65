/* Errors are values: a pinned code, and one sentence that tells a person what to change.
 *
 * Every function that can fail returns `enum kc_err`. The sentence goes to a `struct kc_diag` that
 * the caller owns; a function writes it once, where the fault was seen, and callers forward it
 * untouched. Nothing below sim/cli prints, exits or aborts on input.
 *
 * Some checkers must report every problem of a file, not the first.
 * They take a `struct kc_diag_list` instead.
 */
#ifndef KC_ENGINE_BASE_DIAG_H
#define KC_ENGINE_BASE_DIAG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are pinned and never reused. The tens group them; kc_err_exit_status() maps a group to
 * the exit status of the program (README, "Exit status"). */
enum kc_err {
  KC_OK = 0,
  KC_ERR_USAGE = 20,     /* an option or argument the program does not know or cannot take */
  KC_ERR_INPUT = 30,     /* a scenario, config, GPU file or trace that says something wrong */
  KC_ERR_FILE = 40,      /* a file that cannot be opened, read or written */
  KC_ERR_STORE = 41,     /* the results database: locked, full, damaged, from the future */
  KC_ERR_NO_FIT = 50,    /* the model does not fit on the GPUs given */
  KC_ERR_INTEGRITY = 60, /* a page tag or page record does not match */
  KC_ERR_TAG_STALE = 61,      /* entry names a page whose tag has moved on (use after free) */
  KC_ERR_TAG_RANGE = 62,      /* entry names a page id outside the pool */
  KC_ERR_TAG_OWNER = 63,      /* page is live but belongs to somebody else */
  KC_ERR_DOUBLE_FREE = 64,    /* page given back twice */
  KC_ERR_RECORD = 65,         /* page record fails its checksum or contradicts the free list */
  KC_ERR_LEAK = 66,           /* pages neither free nor owned at the end-of-run balance */
  KC_ERR_ROLLBACK = 67,       /* record is self-consistent but older than what its owner holds */
  KC_ERR_DEVICE = 70,    /* GPU asked for and absent, or it failed */
  KC_ERR_MEMORY = 80,    /* the host ran out of memory or address space */
  KC_ERR_LIMIT = 81,     /* a stated ceiling of this program was passed; its name is in the text */
  KC_ERR_INTERRUPTED = 130
};

enum { KC_DIAG_TEXT_BYTES = 512, KC_DIAG_PATH_BYTES = 256 };

/* Where and what. `line` and `column` are 1-based, 0 when they do not apply. */
struct kc_diag {
  enum kc_err code;
  char path[KC_DIAG_PATH_BYTES]; /* file the fault is in, or "" */
  uint64_t line;
  uint32_t column;
  char text[KC_DIAG_TEXT_BYTES]; /* one sentence: what is wrong, what was expected, what to do */
};

/* Fills `diag` (may be NULL: the code alone is then returned) and returns `code`, so that a fault
 * reads `return kc_fail(diag, KC_ERR_INPUT, "...", ...)`. Text longer than the buffer is cut. */
enum kc_err kc_fail(struct kc_diag *diag, enum kc_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a place. `path` may be NULL or "" (no file). */
enum kc_err kc_fail_at(struct kc_diag *diag, enum kc_err code, const char *path, uint64_t line,
                       uint32_t column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* "path:line:column: text" (parts that are absent are left out). Writes at most `size` bytes
 * including the terminator; returns the length written. */
size_t kc_diag_print(const struct kc_diag *diag, char *out, size_t size);

/* Exit status of the program for a code: 0 2 3 4 5 6 7 8 130 (README, "Exit status"). */
int kc_err_exit_status(enum kc_err code);

/* Stable short name, for JSON and tests: "input", "tag_stale", ... Never NULL. */
const char *kc_err_name(enum kc_err code);

/* A bounded list of problems. `count` may exceed KC_DIAG_LIST_MAX: the rest is only counted. */
enum { KC_DIAG_LIST_MAX = 32 };
struct kc_diag_list {
  uint32_t count;
  struct kc_diag items[KC_DIAG_LIST_MAX];
};

/* The cleaning that text and path of every diag get, for other text of unknown origin that will
 * reach a terminal or a JSON document: control characters and bytes that are not UTF-8 become '?',
 * in place. */
void kc_text_clean(char *text);

void kc_diag_list_init(struct kc_diag_list *list);
/* Appends; returns `code`. */
enum kc_err kc_diag_list_add(struct kc_diag_list *list, enum kc_err code, const char *path,
                             uint64_t line, uint32_t column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* KC_OK when empty, else the code of the first item. */
enum kc_err kc_diag_list_result(const struct kc_diag_list *list);

/* Forwards a failure to the caller. */
#define KC_TRY(expression)                     \
  do {                                         \
    const enum kc_err kc_try_err = (expression); \
    if (kc_try_err != KC_OK) return kc_try_err; \
  } while (0)

#endif
