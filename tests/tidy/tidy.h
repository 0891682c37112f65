/* Limits by test, not by taste: the tree is read once, a check looks at it and reports offenders.
 *
 *   tidy_tree.c ---> struct tidy_tree ---> check_limits, check_words, check_arrows, ... ---> report
 *
 * Test code: it prints, allocates and aborts as it likes.
 */
#ifndef KC_TESTS_TIDY_TIDY_H
#define KC_TESTS_TIDY_TIDY_H

#include <stdbool.h>
#include <stddef.h>

enum tidy_kind {
  TIDY_C,      /* .c .h .cu .cuh */
  TIDY_SCRIPT, /* .sh, .gp, .sql, .awk, CMake files, .ci/run */
  TIDY_TEXT,   /* .md .txt .yaml and the like: whitespace and words only */
  TIDY_DATA,   /* traces, corpora, golden output, JSON: left alone */
};

struct tidy_file {
  char *path; /* relative to the root: "engine/kv/pool.c" */
  const char *name;
  enum tidy_kind kind;
  char *text; /* terminated */
  char *code; /* TIDY_C: `text` with comments and the insides of strings blanked, line for line */
  size_t bytes;
};

struct tidy_tree {
  const char *root;
  struct tidy_file *file; /* sorted by path */
  size_t count;
  size_t problems;
};

/* Exits with status 2 when the tree cannot be read. */
void tidy_tree_read(struct tidy_tree *tree, const char *root);
void tidy_tree_free(struct tidy_tree *tree);
const struct tidy_file *tidy_tree_find(const struct tidy_tree *tree, const char *path);

/* Prints "path:line: sentence" and counts it. */
void tidy_report(struct tidy_tree *tree, const struct tidy_file *file, size_t line,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

bool tidy_under(const struct tidy_file *file, const char *folder);
bool tidy_identifier_char(char c);

/* Walks the lines of a text: `line` is cut out of it (no newline), false at the end. */
struct tidy_line {
  const char *start;
  size_t length, number; /* number is 1-based */
  const char *next;
};
struct tidy_line tidy_first_line(const char *text);
bool tidy_next_line(struct tidy_line *line);

void check_limits(struct tidy_tree *tree);  /* columns, lines, blanks, opening comments, names */
void check_words(struct tidy_tree *tree);   /* banned calls, printing, machine paths, hosts */
void check_arrows(struct tidy_tree *tree);  /* who includes whom */
void check_asserts(struct tidy_tree *tree); /* asserts per function */

#endif
