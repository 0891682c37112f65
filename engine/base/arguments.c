/* The command-line face of option tables: reading argv, and help text.
 *
 *   argv  --kv fp8 --json file.yaml --set a=b --set c=d -- -odd-name
 *          |        |     |          `- LIST: gathers, borrows argv      `- positional after "--"
 *          |        |     `- positional
 *          |        `- FLAG
 *          `- any other row: kc_option_set (option.c) turns the text into the field
 *
 * The first fault ends the reading: the rest of a mistyped line tells nothing.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/option.h"

enum { HELP_COLUMN = 26, HELP_WIDTH = 100 };

struct command_line {
  const struct kc_option *options;
  size_t count;
  void *target;
  int argc;
  char **argv;
  int at;                      /* argument being read */
  bool seen[KC_OPTIONS_MAX];
  struct kc_diag *diag;
};

static const struct kc_option *find_flag(const struct command_line *line, const char *name,
                                         size_t length)
{
  for (size_t i = 0; i < line->count; i++) {
    const char *key = line->options[i].key;
    if (strlen(key) == length && memcmp(key, name, length) == 0) return &line->options[i];
  }
  return NULL;
}

static enum kc_err fail_unknown_flag(const struct command_line *line, const char *name,
                                     size_t length)
{
  char typed[48];
  snprintf(typed, sizeof typed, "%.*s", (int)(length < 40 ? length : 40), name);
  const char *nearest = NULL;
  unsigned least = kc_edit_reach(typed) + 1;
  for (size_t i = 0; i < line->count; i++) {
    const unsigned distance = kc_edit_distance(typed, line->options[i].key);
    if (distance >= least) continue;
    least = distance;
    nearest = line->options[i].key;
  }
  if (nearest == NULL) {
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s is not an option of this command; --help lists "
                   "them", typed);
  }
  return kc_fail(line->diag, KC_ERR_USAGE, "--%s is not an option of this command; did you mean "
                 "--%s?", typed, nearest);
}

static enum kc_err append(const struct command_line *line, const struct kc_option *option,
                          const char *value)
{
  KC_ASSERT(option->type == KC_OPTION_LIST);
  struct kc_option_list *list = (void *)((unsigned char *)line->target + option->offset);
  if (list->count == KC_OPTION_LIST_MAX) {
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s is given more than %d times, the most that are "
                   "taken", option->key, (int)KC_OPTION_LIST_MAX);
  }
  list->item[list->count++] = value;
  return KC_OK;
}

static enum kc_err store(const struct command_line *line, const struct kc_option *option,
                         const char *value)
{
  if (option->type == KC_OPTION_LIST) return append(line, option, value);
  if (option->type == KC_OPTION_FLAG) {
    const bool yes = true;
    memcpy((unsigned char *)line->target + option->offset, &yes, sizeof yes);
    return KC_OK;
  }
  struct kc_diag_list problems;
  kc_diag_list_init(&problems);
  const struct kc_place command_line = {0};
  const enum kc_err err = kc_option_set(option, line->target, value, command_line, &problems);
  if (err != KC_OK && line->diag != NULL) *line->diag = problems.items[0];
  return err;
}

/* The value of an option written without "=": the next argument, or the bare value. NULL = none. */
static const char *next_value(struct command_line *line, const struct kc_option *option)
{
  KC_ASSERT(line->at < line->argc);
  KC_ASSERT(option->type != KC_OPTION_FLAG);
  const bool last = line->at + 1 >= line->argc;
  if (option->bare != NULL && (last || line->argv[line->at + 1][0] == '-')) return option->bare;
  return last ? NULL : line->argv[++line->at];
}

/* Reads the option that line->at stands on, and its value. */
static enum kc_err read_option(struct command_line *line)
{
  KC_ASSERT(line->at < line->argc);
  KC_ASSERT(strncmp(line->argv[line->at], "--", 2) == 0);
  const char *name = line->argv[line->at] + 2;
  const size_t length = strcspn(name, "=");
  const struct kc_option *option = find_flag(line, name, length);
  if (option == NULL) return fail_unknown_flag(line, name, length);
  const size_t index = (size_t)(option - line->options);
  if (line->seen[index] && option->type != KC_OPTION_LIST) {
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s is given twice; keep one", option->key);
  }
  line->seen[index] = true;
  const char *value = name[length] == '=' ? name + length + 1 : NULL;
  if (option->type == KC_OPTION_FLAG) {
    if (value == NULL) return store(line, option, NULL);
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s takes no value; write it alone", option->key);
  }
  if (value == NULL) value = next_value(line, option);
  if (value == NULL) {
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s needs a value: %s", option->key, option->help);
  }
  return store(line, option, value);
}

static enum kc_err fail_extra(const struct command_line *line, const char *argument, size_t most)
{
  if (most == 0) {
    return kc_fail(line->diag, KC_ERR_USAGE, "unexpected argument \"%.64s\"; this command takes "
                   "options alone", argument);
  }
  return kc_fail(line->diag, KC_ERR_USAGE, "unexpected argument \"%.64s\"; this command takes at "
                 "most %zu", argument, most);
}

static enum kc_err check_required_flags(const struct command_line *line)
{
  for (size_t i = 0; i < line->count; i++) {
    if (!line->options[i].required || line->seen[i]) continue;
    return kc_fail(line->diag, KC_ERR_USAGE, "--%s is missing: %s", line->options[i].key,
                   line->options[i].help);
  }
  return KC_OK;
}

enum kc_err kc_options_read_arguments(const struct kc_option *options, size_t count, void *target,
                                      int argc, char **argv, const char **positional,
                                      size_t positional_max, size_t *positional_count,
                                      struct kc_diag *diag)
{
  KC_ASSERT(count <= KC_OPTIONS_MAX);
  KC_ASSERT(positional != NULL || positional_max == 0);
  struct command_line line = {.options = options, .count = count, .target = target, .argc = argc,
                              .argv = argv, .diag = diag};
  size_t found = 0;
  bool options_end = false;
  for (line.at = 1; line.at < argc; line.at++) {
    const char *argument = argv[line.at];
    const bool dashed = !options_end && argument[0] == '-' && argument[1] != '\0';
    if (dashed && strcmp(argument, "--") == 0) {
      options_end = true;
    } else if (dashed && argument[1] == '-') {
      KC_TRY(read_option(&line));
    } else if (dashed) {
      return kc_fail(diag, KC_ERR_USAGE, "%.40s is not an option; options are long (--name), and "
                     "an argument that starts with a dash goes after --", argument);
    } else if (found == positional_max) {
      return fail_extra(&line, argument, positional_max);
    } else {
      positional[found++] = argument;
    }
  }
  if (positional_count != NULL) *positional_count = found;
  return check_required_flags(&line);
}

/* ---- help ---- */

const char *kc_option_word(const struct kc_option *option)
{
  KC_ASSERT(option->type != KC_OPTION_FLAG);
  if (option->values != NULL) return option->values;
  switch (option->type) {
    case KC_OPTION_U32:
    case KC_OPTION_U64: return "N";
    case KC_OPTION_DOUBLE: return "X";
    case KC_OPTION_BOOL: return "true|false";
    case KC_OPTION_BYTES: return "BYTES";
    case KC_OPTION_DURATION: return "TIME";
    default: return "TEXT";
  }
}

/* "  --kv-budget BYTES", "  --db [FILE]", "  --json". */
static size_t help_left(const struct kc_option *option, char *out, size_t size)
{
  const bool bare = option->bare != NULL;
  const int length = option->type == KC_OPTION_FLAG
                         ? snprintf(out, size, "  --%s", option->key)
                         : snprintf(out, size, "  --%s %s%s%s", option->key, bare ? "[" : "",
                                    kc_option_word(option), bare ? "]" : "");
  KC_ASSERT(length > 0);
  return (size_t)length < size ? (size_t)length : size - 1;
}

void kc_option_sentence(const struct kc_option *option, char *out, size_t size)
{
  KC_ASSERT(option->help != NULL);
  const bool fallback = option->fallback != NULL && option->fallback[0] != '\0';
  const char *unit = fallback && option->unit != NULL ? option->unit : "";
  size_t letters = strlen(unit);
  if (letters > 2 && unit[letters - 1] == 's' && strcmp(option->fallback, "1") == 0) letters--;
  snprintf(out, size, "%s%s%s%s%.*s%s", option->help, fallback ? " [" : "",
           fallback ? option->fallback : "", letters > 0 ? " " : "", (int)letters, unit,
           fallback ? "]" : "");
}

/* Writes `text` from column HELP_COLUMN on, broken at spaces before column HELP_WIDTH. */
static void write_wrapped(const char *text, void (*write)(void *context, const char *text),
                          void *context)
{
  KC_ASSERT(text != NULL);
  enum { ROOM = HELP_WIDTH - HELP_COLUMN };
  while (*text != '\0') {
    size_t length = strlen(text);
    if (length > ROOM) {
      length = ROOM;
      while (length > 0 && text[length] != ' ') length--;
      if (length == 0) length = ROOM; /* a single long word is cut */
    }
    char line[HELP_WIDTH + 2];
    const char *rest = text + length;
    while (*rest == ' ') rest++;
    snprintf(line, sizeof line, "%.*s\n%*s", (int)length, text,
             *rest == '\0' ? 0 : (int)HELP_COLUMN, "");
    write(context, line);
    text = rest;
  }
}

void kc_options_help(const struct kc_option *options, size_t count,
                     void (*write)(void *context, const char *text), void *context)
{
  KC_ASSERT(options != NULL || count == 0);
  KC_ASSERT(write != NULL);
  for (size_t i = 0; i < count; i++) {
    char left[HELP_WIDTH + 1], right[KC_OPTION_SENTENCE_BYTES], pad[HELP_WIDTH];
    const size_t width = help_left(&options[i], left, sizeof left);
    kc_option_sentence(&options[i], right, sizeof right);
    write(context, left);
    if (width + 2 > HELP_COLUMN) {
      snprintf(pad, sizeof pad, "\n%*s", (int)HELP_COLUMN, "");
    } else {
      snprintf(pad, sizeof pad, "%*s", (int)(HELP_COLUMN - width), "");
    }
    write(context, pad);
    write_wrapped(right, write, context);
  }
}
