/* Draws the graph of who includes whom and allows only the arrows of arrows.txt.
 *
 *   node    the first two folders of a path: engine/kv, sim/cli; the first where there is no second
 *   arrow   an #include line, from the node of the file to the node of the header
 *
 * A line of the table names only nodes of earlier lines, so every allowed arrow points up the page,
 * and a cycle cannot be written. What a node may include is closed under "and so on".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy.h"

enum { NODES_MAX = 64, LIBRARIES_MAX = 32, NAME_BYTES = 128, FOLDERS_BYTES = 512 };

struct node {
  char name[NAME_BYTES];
  unsigned long long reach; /* bit i: may include node i */
};

struct library {
  char prefix[NAME_BYTES];      /* of a system header: "sqlite3.h", "cuda" */
  char folders[FOLDERS_BYTES];  /* nodes that may include it, space separated */
};

struct arrows {
  struct tidy_tree *tree;
  const struct tidy_file *table;
  struct node node[NODES_MAX];
  size_t node_count;
  struct library library[LIBRARIES_MAX];
  size_t library_count;
};

static const char table_path[] = "tests/tidy/arrows.txt";

static int node_find(const struct arrows *arrows, const char *name)
{
  for (size_t i = 0; i < arrows->node_count; ++i) {
    if (strcmp(arrows->node[i].name, name) == 0) return (int)i;
  }
  return -1;
}

/* The node of a path: "engine/kv/pool.c" -> "engine/kv"; "traces/trace.h" -> "traces". */
static void node_of_path(const char *path, char *out)
{
  const char *slash = strchr(path, '/');
  const char *second = slash != NULL ? strchr(slash + 1, '/') : NULL;
  if (second == NULL) second = slash;
  const size_t length = second != NULL ? (size_t)(second - path) : 0;
  snprintf(out, NAME_BYTES, "%.*s", (int)length, path);
}

/* Cuts the next word of [*p, end) into `out`; false at the end of the line. */
static bool next_word(const char **p, const char *end, char *out)
{
  while (*p < end && **p == ' ') ++*p;
  const char *start = *p;
  while (*p < end && **p != ' ') ++*p;
  snprintf(out, NAME_BYTES, "%.*s", (int)(*p - start), start);
  return *p > start;
}

static void read_node(struct arrows *arrows, const struct tidy_line *line, const char *name,
                      const char *p)
{
  const char *end = line->start + line->length;
  struct node *node = &arrows->node[arrows->node_count];
  snprintf(node->name, sizeof node->name, "%s", name);
  node->reach = 1ull << arrows->node_count;
  for (char word[NAME_BYTES]; next_word(&p, end, word);) {
    const int target = node_find(arrows, word);
    if (target < 0) {
      tidy_report(arrows->tree, arrows->table, line->number,
                  "%s is not named on an earlier line; arrows point downward only", word);
    } else {
      node->reach |= arrows->node[target].reach;
    }
  }
  arrows->node_count += 1;
}

static void read_library(struct arrows *arrows, const struct tidy_line *line, const char *p)
{
  const char *end = line->start + line->length;
  struct library *library = &arrows->library[arrows->library_count];
  if (!next_word(&p, end, library->prefix)) return;
  library->prefix[strcspn(library->prefix, ":")] = '\0';
  snprintf(library->folders, sizeof library->folders, "%.*s", (int)(end - p), p);
  arrows->library_count += 1;
}

static void read_table(struct arrows *arrows)
{
  for (struct tidy_line line = tidy_first_line(arrows->table->text); tidy_next_line(&line);) {
    const char *p = line.start;
    char word[NAME_BYTES];
    if (line.length == 0 || line.start[0] == '#') continue;
    if (!next_word(&p, line.start + line.length, word)) continue;
    if (arrows->node_count == NODES_MAX || arrows->library_count == LIBRARIES_MAX) {
      tidy_report(arrows->tree, arrows->table, line.number, "more lines than the check holds");
      return;
    }
    if (strcmp(word, "library") == 0) {
      read_library(arrows, &line, p);
    } else {
      word[strcspn(word, ":")] = '\0';
      read_node(arrows, &line, word, p);
    }
  }
}

static bool node_checked(const char *node)
{
  static const char *const tops[] = {"engine", "kernels", "sim", "traces"};
  for (size_t i = 0; i < sizeof tops / sizeof tops[0]; ++i) {
    const size_t length = strlen(tops[i]);
    if (strncmp(node, tops[i], length) == 0 && (node[length] == '/' || node[length] == '\0')) {
      return true;
    }
  }
  return false;
}

/* #include "header" in a file of `from`. */
static void check_own_header(struct arrows *arrows, const struct tidy_file *file, size_t line,
                             const char *from, const char *header)
{
  char to[NAME_BYTES];
  const int a = node_find(arrows, from);
  if (tidy_tree_find(arrows->tree, header) == NULL) {
    tidy_report(arrows->tree, file, line, "\"%s\" is not in the tree; includes are written from "
                "the root", header);
    return;
  }
  node_of_path(header, to);
  const int b = node_find(arrows, to);
  if (b < 0) {
    tidy_report(arrows->tree, file, line, "%s -> %s: nothing of the program includes %s", from, to,
                to);
  } else if (a >= 0 && (arrows->node[a].reach >> b & 1) == 0) {
    tidy_report(arrows->tree, file, line, "%s -> %s is no arrow of %s", from, to, table_path);
  }
}

/* #include <header>: libraries that only a few folders may know. */
static void check_library(struct arrows *arrows, const struct tidy_file *file, size_t line,
                          const char *from, const char *header)
{
  for (size_t i = 0; i < arrows->library_count; ++i) {
    const struct library *library = &arrows->library[i];
    char padded[FOLDERS_BYTES + 2], needle[NAME_BYTES + 2];
    if (strncmp(header, library->prefix, strlen(library->prefix)) != 0) continue;
    snprintf(padded, sizeof padded, " %s ", library->folders);
    snprintf(needle, sizeof needle, " %s ", from);
    if (strstr(padded, needle) == NULL) {
      tidy_report(arrows->tree, file, line, "<%s> is known to%s only", header, library->folders);
    }
  }
}

/* Splits `#include "x"` or `#include <x>`; the delimiter, or 0 when the line is neither. */
static char include_of(const struct tidy_line *line, char *header)
{
  const char *p = line->start + strspn(line->start, " ");
  if (*p++ != '#') return 0;
  p += strspn(p, " ");
  if (strncmp(p, "include", 7) != 0) return 0;
  p += 7 + strspn(p + 7, " ");
  if (*p != '"' && *p != '<') return 0;
  const char open = *p++;
  snprintf(header, NAME_BYTES, "%.*s", (int)strcspn(p, open == '"' ? "\"\n" : ">\n"), p);
  return open;
}

static void check_file_arrows(struct arrows *arrows, const struct tidy_file *file)
{
  char from[NAME_BYTES], header[NAME_BYTES];
  node_of_path(file->path, from);
  const bool checked = node_checked(from);
  if (checked && node_find(arrows, from) < 0) {
    tidy_report(arrows->tree, file, 0, "%s has no line in %s", from, table_path);
    return;
  }
  for (struct tidy_line line = tidy_first_line(file->text); tidy_next_line(&line);) {
    const char open = include_of(&line, header);
    if (open == '"' && checked) check_own_header(arrows, file, line.number, from, header);
    if (open == '<') check_library(arrows, file, line.number, from, header);
  }
}

/* A header of the program that nobody includes is a dead file. */
static void check_dead_headers(struct arrows *arrows)
{
  const struct tidy_tree *tree = arrows->tree;
  for (size_t i = 0; i < tree->count; ++i) {
    const struct tidy_file *header = &tree->file[i];
    char quoted[NAME_BYTES + 16];
    bool used = header->kind != TIDY_C || header->name[strlen(header->name) - 1] != 'h';
    snprintf(quoted, sizeof quoted, "#include \"%s\"", header->path);
    const char *beside = header->name; /* test folders include from beside */
    char short_quoted[NAME_BYTES + 16];
    snprintf(short_quoted, sizeof short_quoted, "#include \"%s\"", beside);
    for (size_t j = 0; !used && j < tree->count; ++j) {
      if (tree->file[j].kind != TIDY_C) continue;
      used = strstr(tree->file[j].text, quoted) != NULL ||
             (tidy_under(header, "tests") && strstr(tree->file[j].text, short_quoted) != NULL);
    }
    if (!used) tidy_report(arrows->tree, header, 0, "no file includes this header");
  }
}

void check_arrows(struct tidy_tree *tree)
{
  struct arrows *arrows = calloc(1, sizeof *arrows);
  const struct tidy_file *table = tidy_tree_find(tree, table_path);
  if (arrows == NULL || table == NULL) {
    fprintf(stderr, "tidy: %s is missing\n", table_path);
    exit(2);
  }
  arrows->tree = tree;
  arrows->table = table;
  read_table(arrows);
  for (size_t i = 0; i < tree->count; ++i) {
    if (tree->file[i].kind == TIDY_C) check_file_arrows(arrows, &tree->file[i]);
  }
  check_dead_headers(arrows);
  free(arrows);
}
