/* Asserts per function in engine/ and sim/: the figure, per folder and in all, and a floor.
 *
 * Counted are functions with more than TRIVIAL_LINES lines between their braces, and the KC_ASSERTs
 * and KC_NEVERs inside: a one-line accessor has nothing to assert and should not be padded.
 */
#include <stdio.h>
#include <string.h>

#include "tidy.h"

/* The aim is 2.0 a function (house style). The floor is what the tree must not fall below; raise it
 * whenever the figure has grown, never lower it. */
static const double asserts_per_function_floor = 1.0;
static const double asserts_per_function_aim = 2.0;

/* sim/cli is shown but not held to the floor: it turns input into messages and keeps no state. */
static const char exempt[] = "sim/cli";

enum { TRIVIAL_LINES = 3, FOLDERS_MAX = 64, FOLDER_BYTES = 128 };

struct density {
  char folder[FOLDER_BYTES];
  size_t functions, asserts;
};

static size_t count_word(const struct tidy_line *line, const char *word)
{
  const size_t length = strlen(word);
  const char *p = line->start, *end = line->start + line->length;
  size_t count = 0;
  while ((p = memmem(p, (size_t)(end - p), word, length)) != NULL) {
    count += 1;
    p += length;
  }
  return count;
}

/* A function runs from a `{` alone at the margin to the next `}` at the margin. */
static void count_file(const struct tidy_file *file, struct density *density)
{
  size_t opened = 0, asserts = 0;
  for (struct tidy_line line = tidy_first_line(file->code); tidy_next_line(&line);) {
    if (line.length == 1 && line.start[0] == '{') {
      opened = line.number;
      asserts = 0;
    } else if (opened > 0 && line.length > 0 && line.start[0] == '}') {
      if (line.number - opened - 1 > TRIVIAL_LINES) {
        density->functions += 1;
        density->asserts += asserts;
      }
      opened = 0;
    } else if (opened > 0) {
      asserts += count_word(&line, "KC_ASSERT") + count_word(&line, "KC_NEVER(");
    }
  }
}

static struct density *folder_of(struct density *densities, const struct tidy_file *file)
{
  const size_t length = (size_t)(file->name - file->path) - 1;
  for (size_t i = 0; i < FOLDERS_MAX; ++i) {
    struct density *d = &densities[i];
    if (d->folder[0] == '\0') {
      snprintf(d->folder, sizeof d->folder, "%.*s", (int)length, file->path);
      return d;
    }
    if (strlen(d->folder) == length && strncmp(d->folder, file->path, length) == 0) return d;
  }
  return NULL;
}

static void print_density(const char *name, const struct density *d)
{
  printf("%-20s %5zu asserts in %4zu functions = %.2f\n", name, d->asserts, d->functions,
         d->functions > 0 ? (double)d->asserts / (double)d->functions : 0.0);
}

void check_asserts(struct tidy_tree *tree)
{
  struct density densities[FOLDERS_MAX] = {{.functions = 0}}, held = {.functions = 0};
  for (size_t i = 0; i < tree->count; ++i) {
    const struct tidy_file *file = &tree->file[i];
    if (file->kind != TIDY_C || !(tidy_under(file, "engine") || tidy_under(file, "sim"))) continue;
    struct density *d = folder_of(densities, file);
    if (d != NULL) count_file(file, d);
  }
  for (size_t i = 0; i < FOLDERS_MAX && densities[i].folder[0] != '\0'; ++i) {
    print_density(densities[i].folder, &densities[i]);
    if (strcmp(densities[i].folder, exempt) == 0) continue;
    held.functions += densities[i].functions;
    held.asserts += densities[i].asserts;
  }
  printf("%s is not held to the floor of %.1f; the aim is %.1f\n", exempt,
         asserts_per_function_floor, asserts_per_function_aim);
  print_density("all the others", &held);
  if ((double)held.asserts < asserts_per_function_floor * (double)held.functions) {
    printf("fewer than %.1f asserts a function: state preconditions and invariants\n",
           asserts_per_function_floor);
    tree->problems += 1;
  }
}
