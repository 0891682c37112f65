/* Reads the source tree into memory and blanks what is not code.
 *
 *   text   a = f("x"); // why      code   a = f(" ");
 *
 * `code` has the bytes and lines of `text`, so that a place found in one is a place in the other.
 * Build folders and what git ignores are passed over by name; no git is needed.
 */
#include "tidy.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, FILES_MAX = 20000, FILE_BYTES_MAX = 16 << 20 };

static void die(const char *what, const char *path)
{
  fprintf(stderr, "tidy: %s: %s\n", path, what);
  exit(2);
}

static void *take(size_t bytes)
{
  void *memory = calloc(1, bytes);
  if (memory == NULL) die("out of memory", "tidy");
  return memory;
}

static bool ends_with(const char *text, const char *end)
{
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool any_end(const char *name, const char *const *ends)
{
  for (; *ends != NULL; ++ends) {
    if (ends_with(name, *ends)) return true;
  }
  return false;
}

static enum tidy_kind kind_of(const char *path)
{
  static const char *const data_folders[] = {"/cases/", "/corpus/", "/samples/", "/data/", NULL};
  static const char *const c[] = {".c", ".h", ".cu", ".cuh", NULL};
  static const char *const script[] = {".sh",  ".gp",  ".sql",           ".awk",
                                       ".cmake", ".ci/run", "CMakeLists.txt", NULL};
  static const char *const text[] = {".md",    ".txt",     ".yaml",     ".yml", ".html", ".css",
                                     "LICENSE", "/VERSION", ".gitignore", NULL};
  for (const char *const *folder = data_folders; *folder != NULL; ++folder) {
    if (strstr(path, *folder) != NULL) return TIDY_DATA;
  }
  if (any_end(path, c)) return TIDY_C;
  if (any_end(path, script)) return TIDY_SCRIPT;
  return any_end(path, text) ? TIDY_TEXT : TIDY_DATA;
}

/* Blanks from `p` to the end of a comment, string or character; returns the first byte after. */
static char *blank_comment(char *p, bool block)
{
  while (*p != '\0' && (block ? !(p[0] == '*' && p[1] == '/') : *p != '\n')) {
    if (*p != '\n') *p = ' ';
    ++p;
  }
  if (block && *p != '\0') {
    p[0] = p[1] = ' ';
    p += 2;
  }
  return p;
}

static char *blank_quoted(char *p)
{
  const char quote = *p++;
  while (*p != '\0' && *p != quote && *p != '\n') {
    const bool escape = *p == '\\' && p[1] != '\0' && p[1] != '\n';
    *p++ = ' ';
    if (escape) *p++ = ' ';
  }
  return *p == quote ? p + 1 : p;
}

static void blank(char *code)
{
  for (char *p = code; *p != '\0';) {
    if (p[0] == '/' && (p[1] == '*' || p[1] == '/')) {
      const bool block = p[1] == '*';
      p[0] = p[1] = ' ';
      p = blank_comment(p + 2, block);
    } else if (*p == '"' || *p == '\'') {
      p = blank_quoted(p);
    } else {
      ++p;
    }
  }
}

static void read_file(struct tidy_file *file, const char *full_path)
{
  FILE *stream = fopen(full_path, "rb");
  if (stream == NULL) die("cannot be opened", full_path);
  file->text = take(FILE_BYTES_MAX);
  file->bytes = fread(file->text, 1, FILE_BYTES_MAX - 1, stream);
  if (file->bytes == FILE_BYTES_MAX - 1) die("is larger than tidy reads", full_path);
  fclose(stream);
  char *fitted = realloc(file->text, file->bytes + 1);
  if (fitted != NULL) file->text = fitted;
  if (file->kind != TIDY_C) return;
  file->code = take(file->bytes + 1);
  memcpy(file->code, file->text, file->bytes);
  blank(file->code);
}

static void add_file(struct tidy_tree *tree, const char *full_path)
{
  if (tree->count == FILES_MAX) die("more files than tidy holds", tree->root);
  struct tidy_file *file = &tree->file[tree->count++];
  const char *path = full_path + strlen(tree->root) + 1;
  file->path = strdup(path);
  if (file->path == NULL) die("out of memory", path);
  const char *slash = strrchr(file->path, '/');
  file->name = slash != NULL ? slash + 1 : file->path;
  file->kind = kind_of(full_path);
  if (file->kind != TIDY_DATA) read_file(file, full_path);
}

/* Folders are at most a handful deep, so plain recursion is bounded by the tree. */
static void walk(struct tidy_tree *tree, const char *folder)
{
  static const char *const passed_over[] = {".", "..", ".git", "build", "out", ".cache", NULL};
  static const char *const ignored[] = {".db", ".db-wal", ".db-shm", NULL};
  DIR *listing = opendir(folder);
  if (listing == NULL) die("cannot be opened as a folder", folder);
  for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
    char path[PATH_BYTES];
    struct stat status;
    bool skip = any_end(entry->d_name, ignored);
    for (size_t i = 0; passed_over[i] != NULL; ++i) {
      skip = skip || strcmp(entry->d_name, passed_over[i]) == 0;
    }
    if (skip) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) walk(tree, path);
    if (S_ISREG(status.st_mode)) add_file(tree, path);
  }
  closedir(listing);
}

static int by_path(const void *a, const void *b)
{
  return strcmp(((const struct tidy_file *)a)->path, ((const struct tidy_file *)b)->path);
}

void tidy_tree_read(struct tidy_tree *tree, const char *root)
{
  *tree = (struct tidy_tree){.root = root, .file = take(FILES_MAX * sizeof *tree->file)};
  walk(tree, root);
  if (tree->count == 0) die("holds no files", root);
  qsort(tree->file, tree->count, sizeof *tree->file, by_path);
}

void tidy_tree_free(struct tidy_tree *tree)
{
  for (size_t i = 0; i < tree->count; ++i) {
    free(tree->file[i].path);
    free(tree->file[i].text);
    free(tree->file[i].code);
  }
  free(tree->file);
}

const struct tidy_file *tidy_tree_find(const struct tidy_tree *tree, const char *path)
{
  const struct tidy_file key = {.path = (char *)(size_t)path};
  return bsearch(&key, tree->file, tree->count, sizeof key, by_path);
}

void tidy_report(struct tidy_tree *tree, const struct tidy_file *file, size_t line,
                 const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  printf("%s", file->path);
  if (line > 0) printf(":%zu", line);
  printf(": ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  tree->problems += 1;
}

bool tidy_under(const struct tidy_file *file, const char *folder)
{
  const size_t length = strlen(folder);
  return strncmp(file->path, folder, length) == 0 && file->path[length] == '/';
}

bool tidy_identifier_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct tidy_line tidy_first_line(const char *text)
{
  return (struct tidy_line){.next = text};
}

bool tidy_next_line(struct tidy_line *line)
{
  if (*line->next == '\0') return false;
  line->start = line->next;
  line->length = strcspn(line->start, "\n");
  line->next = line->start + line->length + (line->start[line->length] == '\n');
  line->number += 1;
  return true;
}
