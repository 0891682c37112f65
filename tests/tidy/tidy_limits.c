/* Sizes and layout: columns, lines a function, lines a file, blanks, opening comments, file names.
 *
 * The numbers are the house style's; a file or function that needs more is two files or functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy.h"

enum { COLUMNS_MAX = 100, FUNCTION_LINES_MAX = 70, FILE_LINES_MAX = 800 };

/* Columns, not bytes: continuation bytes of UTF-8 do not count. */
static size_t columns(const struct tidy_line *line)
{
  size_t count = 0;
  for (size_t i = 0; i < line->length; ++i) {
    count += ((unsigned char)line->start[i] & 0xC0u) != 0x80u;
  }
  return count;
}

static void check_line(struct tidy_tree *tree, const struct tidy_file *file,
                       const struct tidy_line *line)
{
  if (line->length > 0) {
    const char last = line->start[line->length - 1];
    if (last == ' ' || last == '\t') tidy_report(tree, file, line->number, "trailing blanks");
    if (last == '\r') tidy_report(tree, file, line->number, "carriage return at the end");
  }
  if (file->kind == TIDY_TEXT) return;
  if (memchr(line->start, '\t', line->length) != NULL) {
    tidy_report(tree, file, line->number, "tab; indent with two spaces");
  }
  if (columns(line) > COLUMNS_MAX) {
    tidy_report(tree, file, line->number, "%zu columns; at most %d", columns(line), COLUMNS_MAX);
  }
}

/* A function runs from a `{` alone at the margin to the next `}` at the margin. */
static void check_functions(struct tidy_tree *tree, const struct tidy_file *file)
{
  size_t opened = 0;
  for (struct tidy_line line = tidy_first_line(file->code); tidy_next_line(&line);) {
    if (line.length == 1 && line.start[0] == '{') opened = line.number;
    if (line.length > 2 && line.start[0] != ' ' && line.start[0] != '#' &&
        strncmp(line.start + line.length - 3, ") {", 3) == 0) {
      tidy_report(tree, file, line.number, "the `{` of a function goes on a line of its own");
    }
    if (opened == 0 || line.length == 0 || line.start[0] != '}') continue;
    const size_t lines = line.number - opened + 1;
    if (lines > FUNCTION_LINES_MAX) {
      tidy_report(tree, file, opened, "function of %zu lines; at most %d", lines,
                  FUNCTION_LINES_MAX);
    }
    opened = 0;
  }
}

static void check_file(struct tidy_tree *tree, const struct tidy_file *file)
{
  struct tidy_line line = tidy_first_line(file->text);
  while (tidy_next_line(&line)) check_line(tree, file, &line);
  if (file->bytes == 0) {
    tidy_report(tree, file, 0, "empty file");
  } else if (file->text[file->bytes - 1] != '\n') {
    tidy_report(tree, file, line.number, "no newline at the end");
  }
  if (file->kind == TIDY_TEXT) return;
  if (line.number > FILE_LINES_MAX) {
    tidy_report(tree, file, 0, "%zu lines; at most %d", line.number, FILE_LINES_MAX);
  }
  if (file->kind != TIDY_C) return;
  if (strncmp(file->text, "/*", 2) != 0 && strncmp(file->text, "//", 2) != 0) {
    tidy_report(tree, file, 1, "open the file with a comment that says what it is for");
  }
  check_functions(tree, file);
}

/* Scripts are run by `bash file`, by CTest and by people, so each must start well and stop at the
 * first failure. */
static void check_script(struct tidy_tree *tree, const struct tidy_file *file)
{
  const size_t length = strlen(file->name);
  const bool shell = (length > 3 && strcmp(file->name + length - 3, ".sh") == 0) ||
                     strcmp(file->path, ".ci/run") == 0;
  if (!shell) return;
  if (strncmp(file->text, "#!/usr/bin/env bash\n#", 21) != 0) {
    tidy_report(tree, file, 1, "begin with `#!/usr/bin/env bash` and a comment");
  }
  if (strstr(file->text, "\nset -eu") == NULL && strstr(file->text, "\nset -u") == NULL) {
    tidy_report(tree, file, 0, "`set -eu` (or `set -u` where failures are counted) is missing");
  }
}

static int by_name(const void *a, const void *b)
{
  const struct tidy_file *const *left = a, *const *right = b;
  const int order = strcmp((*left)->name, (*right)->name);
  return order != 0 ? order : strcmp((*left)->path, (*right)->path);
}

/* scenarios/models/NAME/: the names there are those of every checkpoint. */
static bool in_checkpoint(const struct tidy_file *file)
{
  static const char models[] = "scenarios/models/";
  return strncmp(file->path, models, sizeof models - 1) == 0 &&
         strchr(file->path + sizeof models - 1, '/') != NULL;
}

/* One name, one file: a name in an error or a grep is a place. Tests also need unlike stems, for
 * the stem is the name of the CTest test. */
static void check_names(struct tidy_tree *tree)
{
  const struct tidy_file **file = calloc(tree->count, sizeof *file);
  if (file == NULL) return;
  size_t count = 0;
  for (size_t i = 0; i < tree->count; ++i) {
    const char *name = tree->file[i].name;
    const bool shared = strcmp(name, "README.md") == 0 || strcmp(name, "CMakeLists.txt") == 0 ||
                        strcmp(name, "run.sh") == 0; /* the one command of a folder of tests */
    const bool data = tree->file[i].kind == TIDY_DATA && !tidy_under(&tree->file[i], "scenarios");
    if (!shared && !data && !in_checkpoint(&tree->file[i])) file[count++] = &tree->file[i];
  }
  qsort(file, count, sizeof *file, by_name);
  for (size_t i = 1; i < count; ++i) {
    const size_t stem = strcspn(file[i]->name, ".");
    if (strcmp(file[i - 1]->name, file[i]->name) == 0) {
      tidy_report(tree, file[i], 0, "has the file name of %s", file[i - 1]->path);
    } else if (strncmp(file[i]->name, "test_", 5) == 0 &&
               strcspn(file[i - 1]->name, ".") == stem &&
               strncmp(file[i - 1]->name, file[i]->name, stem) == 0) {
      tidy_report(tree, file[i], 0, "has the test name of %s", file[i - 1]->path);
    }
  }
  free(file);
}

void check_limits(struct tidy_tree *tree)
{
  for (size_t i = 0; i < tree->count; ++i) {
    if (tree->file[i].kind == TIDY_DATA) continue;
    check_file(tree, &tree->file[i]);
    check_script(tree, &tree->file[i]);
  }
  check_names(tree);
}
