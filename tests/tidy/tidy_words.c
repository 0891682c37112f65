/* Words that may not stand in the tree: calls with a better replacement, printing below the command
 * line, memory taken outside set-up, libm on a result path, places of one machine.
 *
 * The words are looked for in `code`, where comments and strings are blank, unless said otherwise.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tidy.h"

/* `folders` limits a rule: space separated, NULL = everywhere; `except` lifts it. */
struct call_rule {
  const char *calls; /* space separated identifiers */
  const char *folders, *except;
  const char *advice;
};

#define LIBRARY "engine kernels sim traces"

static const struct call_rule call_rules[] = {
    {"sprintf vsprintf", NULL, NULL, "use snprintf and check the length"},
    {"strcpy stpcpy strncpy strcat strncat", NULL, NULL, "use snprintf, or memcpy with a length"},
    {"atoi atol atoll atof", NULL, NULL, "use kc_parse_u64 and its kin (engine/base/number.h)"},
    {"strtod strtof sscanf", LIBRARY, NULL, "use kc_parse_double and its kin: no locale"},
    {"rand srand random srandom drand48 lrand48 rand_r", NULL, NULL, "use kc_random_u64"},
    {"time ctime localtime asctime", NULL, NULL,
     "virtual time is passed in; the clock on the wall is clock_gettime in sim/cli"},
    {"gets", NULL, NULL, "use kc_file_open"},
    {"strtok strtok_r", NULL, NULL, "scan over (pointer, length); the input stays whole"},
    {"alloca", NULL, NULL, "use the arena"},
    {"assert", LIBRARY, NULL, "use KC_ASSERT, which stays on in release"},
    {"exp expf exp2 expm1 log logf log2 log10 log1p pow powf sin cos tan tanh erf cbrt",
     "engine sim traces kernels/formats", "sim/calibrate",
     "libm rounds differently from machine to machine; use integers or kc_neg_ln_q32"},
    {"printf vprintf puts putchar perror", LIBRARY, "sim/cli engine/base/check.c",
     "only sim/cli prints; return a kc_diag or fill a buffer"},
    {"exit _exit abort quick_exit", LIBRARY, "sim/cli engine/base/check.c",
     "return an error; only sim/cli ends the process"},
};

/* Identifiers, called or not. */
static const struct call_rule name_rules[] = {
    {"stdout stderr", LIBRARY, "sim/cli engine/base/check.c", "only sim/cli prints"},
};

static const char allocator_list[] = "tests/tidy/allocators.txt";
static const char allocator_calls[] =
    "malloc calloc realloc reallocarray free strdup strndup asprintf mmap munmap posix_memalign "
    "aligned_alloc getline";

/* True when the space-separated `list` holds the word. */
static bool list_has(const char *list, const char *word, size_t length)
{
  for (const char *p = list; *p != '\0'; p += strspn(p, " ")) {
    const size_t item = strcspn(p, " ");
    if (item == length && strncmp(p, word, length) == 0) return true;
    p += item;
  }
  return false;
}

/* True when the file is one of the space-separated paths or under one of them. */
static bool in_folders(const struct tidy_file *file, const char *folders)
{
  for (const char *p = folders; *p != '\0'; p += strspn(p, " ")) {
    const size_t length = strcspn(p, " ");
    const char after = strncmp(file->path, p, length) == 0 ? file->path[length] : 'x';
    if (after == '/' || after == '\0') return true;
    p += length;
  }
  return false;
}

static bool rule_applies(const struct call_rule *rule, const struct tidy_file *file)
{
  if (rule->folders != NULL && !in_folders(file, rule->folders)) return false;
  return rule->except == NULL || !in_folders(file, rule->except);
}

/* Steps to the next identifier in [*cursor, end); its length, 0 at the end. Member names (after `.`
 * or `->`) are passed over: they are somebody's field, not the library's function. */
static size_t next_identifier(const char **cursor, const char *end)
{
  const char *p = *cursor;
  while (p < end) {
    if (!tidy_identifier_char(*p)) {
      ++p;
      continue;
    }
    const char *start = p;
    while (p < end && tidy_identifier_char(*p)) ++p;
    if (isdigit((unsigned char)*start)) continue;
    *cursor = start;
    return (size_t)(p - start);
  }
  *cursor = end;
  return 0;
}

static bool is_member(const char *line, const char *word)
{
  if (word > line && word[-1] == '.') return true;
  return word > line + 1 && word[-2] == '-' && word[-1] == '>';
}

static bool is_call(const char *after)
{
  return after[strspn(after, " ")] == '(';
}

static void check_identifier(struct tidy_tree *tree, const struct tidy_file *file, size_t line,
                             const char *word, size_t length)
{
  const bool call = is_call(word + length);
  for (size_t i = 0; call && i < sizeof call_rules / sizeof call_rules[0]; ++i) {
    const struct call_rule *rule = &call_rules[i];
    if (!list_has(rule->calls, word, length) || !rule_applies(rule, file)) continue;
    tidy_report(tree, file, line, "%.*s: %s", (int)length, word, rule->advice);
  }
  for (size_t i = 0; i < sizeof name_rules / sizeof name_rules[0]; ++i) {
    const struct call_rule *rule = &name_rules[i];
    if (!list_has(rule->calls, word, length) || !rule_applies(rule, file)) continue;
    tidy_report(tree, file, line, "%.*s: %s", (int)length, word, rule->advice);
  }
}

/* True when the list of allocators has a line that begins with the path of the file. */
static bool may_allocate(const struct tidy_tree *tree, const struct tidy_file *file)
{
  const struct tidy_file *list = tidy_tree_find(tree, allocator_list);
  if (list == NULL) return false;
  const size_t length = strlen(file->path);
  for (struct tidy_line line = tidy_first_line(list->text); tidy_next_line(&line);) {
    if (line.length >= length && strncmp(line.start, file->path, length) == 0 &&
        (line.length == length || line.start[length] == ' ')) {
      return true;
    }
  }
  return false;
}

static void check_code(struct tidy_tree *tree, const struct tidy_file *file)
{
  const bool library = in_folders(file, LIBRARY);
  const bool allocates = !library || may_allocate(tree, file);
  for (struct tidy_line line = tidy_first_line(file->code); tidy_next_line(&line);) {
    const char *word = line.start, *end = line.start + line.length;
    if (line.length > 0 && line.start[0] == '#') continue;
    for (size_t length; (length = next_identifier(&word, end)) > 0; word += length) {
      if (is_member(line.start, word)) continue;
      check_identifier(tree, file, line.number, word, length);
      if (!allocates && is_call(word + length) && list_has(allocator_calls, word, length)) {
        tidy_report(tree, file, line.number,
                    "%.*s: memory is taken at set-up, from an arena; a file that is set-up code "
                    "says so in %s",
                    (int)length, word, allocator_list);
      }
    }
  }
}

/* Looked for in the whole text, comments and strings too. Spelt in two halves, so that this file is
 * clean itself. */
static const struct {
  const char *left, *right, *advice;
} text_rules[] = {
    {"TO", "DO", "finish it, or leave it out"},
    {"FIX", "ME", "mend it"},
    {"X", "XX:", "mend it"},
    {"/wo", "rk/", "a path of one machine"},
    {"/ho", "me/", "a path of one machine"},
    {"/ro", "ot/", "a path of one machine"},
    {"/t", "mp/", "use mktemp"},
    {"deb.deb", "ian.org", "no registry hosts; packages go by name"},
    {"pypi", ".org", "no registry hosts; packages go by name"},
    {"npmjs", ".", "no registry hosts; packages go by name"},
    {"artifact-reg", "istry", "no registry hosts; packages go by name"},
    {"proxy.go", "lang", "no registry hosts; packages go by name"},
    {"sha", "red/facts", "name the public source"},
};

static bool line_has(const struct tidy_line *line, const char *word)
{
  return memmem(line->start, line->length, word, strlen(word)) != NULL;
}

static void check_text(struct tidy_tree *tree, const struct tidy_file *file)
{
  for (struct tidy_line line = tidy_first_line(file->text); tidy_next_line(&line);) {
    if (line_has(&line, "XXXXXX")) continue; /* the template of mktemp or mkdtemp */
    for (size_t i = 0; i < sizeof text_rules / sizeof text_rules[0]; ++i) {
      char word[64];
      snprintf(word, sizeof word, "%s%s", text_rules[i].left, text_rules[i].right);
      if (line_has(&line, word)) {
        tidy_report(tree, file, line.number, "%s: %s", word, text_rules[i].advice);
      }
    }
  }
}

static bool takes_memory(const struct tidy_file *file)
{
  const char *word = file->code, *end = file->code + file->bytes;
  for (size_t length; (length = next_identifier(&word, end)) > 0; word += length) {
    if (is_call(word + length) && list_has(allocator_calls, word, length)) return true;
  }
  return false;
}

/* Every line of the list names a file that is there and still takes memory. */
static void check_allocator_list(struct tidy_tree *tree)
{
  const struct tidy_file *list = tidy_tree_find(tree, allocator_list);
  if (list == NULL) return;
  for (struct tidy_line line = tidy_first_line(list->text); tidy_next_line(&line);) {
    char path[256];
    if (line.length == 0 || line.start[0] == '#') continue;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(line.start, " \n"), line.start);
    const struct tidy_file *file = tidy_tree_find(tree, path);
    if (file == NULL) {
      tidy_report(tree, list, line.number, "%s is not in the tree", path);
    } else if (file->code == NULL || !takes_memory(file)) {
      tidy_report(tree, list, line.number, "%s takes no memory; drop the line", path);
    }
  }
}

void check_words(struct tidy_tree *tree)
{
  for (size_t i = 0; i < tree->count; ++i) {
    const struct tidy_file *file = &tree->file[i];
    if (file->kind == TIDY_DATA) continue;
    check_text(tree, file);
    if (file->kind == TIDY_C) check_code(tree, file);
  }
  check_allocator_list(tree);
}
