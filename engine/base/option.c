/* Option tables: one row per key, read by the YAML checker, the command-line parser and --help.
 *
 *   row {key, type, offset, min..max, fallback, unit, values, help} --+--> kc_options_default
 *                                                                     +--> kc_option_set
 *      "memory.fraction" in a map, or "--kv-budget" in argv ----------+--> field of the target
 *
 * A value is text until its row says what it is; set_value() below is the one place that turns text
 * into a field, so a number means the same in a scenario, on the command line (arguments.c) and as
 * a default. Nothing here is allocated: TEXT is copied into the target.
 */
#include "engine/base/option.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/vtime.h"

enum { LABEL_BYTES = 160, SHOWN_BYTES = 72, EXPECTED_BYTES = 320, NAMES_BYTES = 256,
       KEY_DEPTH_MAX = 8 };

/* ---- words for messages ---- */

/* A value as it may stand in a one-line message: cut, control characters shown as '?'. */
static const char *shown(const char *text, char out[SHOWN_BYTES])
{
  KC_ASSERT(text != NULL);
  size_t n = 0;
  for (; text[n] != '\0' && n < SHOWN_BYTES - 4; n++) {
    const unsigned char c = (unsigned char)text[n];
    out[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
  }
  if (text[n] != '\0') {
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--; /* not inside a UTF-8 sequence */
    memcpy(out + n, "...", 3);
    n += 3;
  }
  out[n] = '\0';
  return out;
}

/* Name of a key as the user wrote it: "--kv-budget", or prefix + key. */
static const char *label_of(const struct kc_option *option, const char *prefix, bool is_flag,
                            char out[LABEL_BYTES])
{
  KC_ASSERT(is_flag || prefix != NULL);
  snprintf(out, LABEL_BYTES, "%s%s", is_flag ? "--" : prefix, option->key);
  return out;
}

static bool has_bounds(const struct kc_option *option)
{
  return option->min < option->max || option->min > 0;
}

static const char *type_words(enum kc_option_type type)
{
  switch (type) {
    case KC_OPTION_U32:
    case KC_OPTION_U64: return "a whole number";
    case KC_OPTION_DOUBLE: return "a number";
    case KC_OPTION_BOOL: return "true or false";
    case KC_OPTION_BYTES: return "a size such as 56GiB or 60129542144";
    case KC_OPTION_DURATION: return "a duration such as 10ms or 2.5s";
    case KC_OPTION_TEXT: return "text";
    case KC_OPTION_CHOICE: return "one of ";
    default: return "a value";
  }
}

/* " from 1 to 4096", " from 1 B to 1024 TiB", or nothing. */
static void add_bounds(const struct kc_option *option, char *out, size_t size)
{
  KC_ASSERT(size > 0);
  char least[48], most[48];
  if (!has_bounds(option) || option->type == KC_OPTION_TEXT) return;
  if (option->type == KC_OPTION_BYTES) {
    kc_format_bytes((uint64_t)option->min, 0, least);
    kc_format_bytes((uint64_t)option->max, 0, most);
  } else {
    snprintf(least, sizeof least, "%.15g", option->min);
    snprintf(most, sizeof most, "%.15g", option->max);
  }
  snprintf(out, size, " from %s to %s", least, most);
}

/* "one of sglang, vllm"; of a list that is too long the first, then "...". */
static const char *expected_choice(const struct kc_option *option, char out[EXPECTED_BYTES])
{
  enum { ROOM = EXPECTED_BYTES - (int)sizeof ", ..." };
  int n = snprintf(out, EXPECTED_BYTES, "%s", type_words(option->type));
  KC_ASSERT(option->values != NULL && n < ROOM);
  for (const char *value = option->values; *value != '\0';) {
    const int span = (int)strcspn(value, "|");
    const char *separator = value == option->values ? "" : ", ";
    if (n + span + 2 > ROOM) {
      snprintf(out + n, (size_t)(EXPECTED_BYTES - n), ", ...");
      return out;
    }
    n += snprintf(out + n, (size_t)(EXPECTED_BYTES - n), "%s%.*s", separator, span, value);
    value += span + (value[span] == '|');
  }
  return out;
}

/* "a whole number of tokens from 1 to 4096", "one of sglang, vllm". */
static const char *expected(const struct kc_option *option, char out[EXPECTED_BYTES])
{
  if (option->type == KC_OPTION_CHOICE) return expected_choice(option, out);
  int n = snprintf(out, EXPECTED_BYTES, "%s", type_words(option->type));
  KC_ASSERT(n > 0 && n < EXPECTED_BYTES);
  if (option->unit != NULL && option->type != KC_OPTION_BYTES &&
      option->type != KC_OPTION_DURATION && option->type != KC_OPTION_TEXT) {
    n += snprintf(out + n, (size_t)(EXPECTED_BYTES - n), " of %s", option->unit);
  }
  add_bounds(option, out + n, (size_t)(EXPECTED_BYTES - n));
  return out;
}

/* ---- text to field ---- */

/* Where a value came from, and whom to tell. */
struct origin {
  const char *label;  /* the key as the user knows it */
  struct kc_place place;
  struct kc_diag_list *problems;
};

static enum kc_err origin_code(const struct origin *origin)
{
  const char *path = origin->place.path;
  return path == NULL || strcmp(path, "--set") == 0 ? KC_ERR_USAGE : KC_ERR_INPUT;
}

static enum kc_err refuse(const struct kc_option *option, const struct origin *origin,
                          const char *text)
{
  char want[EXPECTED_BYTES], value[SHOWN_BYTES];
  return kc_diag_list_add(origin->problems, origin_code(origin), origin->place.path,
                          origin->place.line, origin->place.column, "%s: expected %s, got \"%s\"",
                          origin->label, expected(option, want), shown(text, value));
}

static bool out_of_bounds(const struct kc_option *option, double value)
{
  return has_bounds(option) && (value < option->min || value > option->max);
}

static void *field_of(const struct kc_option *option, void *target)
{
  KC_ASSERT(target != NULL);
  return (unsigned char *)target + option->offset;
}

static enum kc_err set_whole(const struct kc_option *option, void *target, const char *text,
                             const struct origin *origin)
{
  uint64_t value;
  const bool parsed = option->type == KC_OPTION_BYTES
                          ? kc_parse_bytes(text, strlen(text), &value)
                          : kc_parse_u64(text, strlen(text), &value);
  if (!parsed || out_of_bounds(option, (double)value)) return refuse(option, origin, text);
  if (option->type != KC_OPTION_U32) {
    memcpy(field_of(option, target), &value, sizeof value);
    return KC_OK;
  }
  if (value > UINT32_MAX) return refuse(option, origin, text);
  const uint32_t narrow = (uint32_t)value;
  memcpy(field_of(option, target), &narrow, sizeof narrow);
  return KC_OK;
}

static enum kc_err set_double(const struct kc_option *option, void *target, const char *text,
                              const struct origin *origin)
{
  double value;
  if (!kc_parse_double(text, strlen(text), &value) || out_of_bounds(option, value)) {
    return refuse(option, origin, text);
  }
  memcpy(field_of(option, target), &value, sizeof value);
  return KC_OK;
}

static enum kc_err set_duration(const struct kc_option *option, void *target, const char *text,
                                const struct origin *origin)
{
  kc_ps value;
  if (!kc_parse_duration(text, strlen(text), &value) || out_of_bounds(option, (double)value)) {
    return refuse(option, origin, text);
  }
  memcpy(field_of(option, target), &value, sizeof value);
  return KC_OK;
}

static enum kc_err set_bool(const struct kc_option *option, void *target, const char *text,
                            const struct origin *origin)
{
  bool value;
  if (!kc_parse_bool(text, strlen(text), &value)) return refuse(option, origin, text);
  memcpy(field_of(option, target), &value, sizeof value);
  return KC_OK;
}

static enum kc_err set_text(const struct kc_option *option, void *target, const char *text,
                            const struct origin *origin)
{
  KC_ASSERT(option->size > 1);
  const size_t length = strlen(text);
  const char *fault = length == 0 ? "is empty" : NULL;
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) fault = "holds a control character";
  }
  if (length >= option->size) fault = "is too long";
  if (fault == NULL) {
    memset(field_of(option, target), 0, option->size);
    memcpy(field_of(option, target), text, length);
    return KC_OK;
  }
  char value[SHOWN_BYTES];
  return kc_diag_list_add(origin->problems, origin_code(origin), origin->place.path,
                          origin->place.line, origin->place.column,
                          "%s: \"%s\" %s; expected text of 1 to %zu bytes", origin->label,
                          shown(text, value), fault, option->size - 1);
}

/* Index of `text` among "a|b|c", or -1. */
static int choice_index(const char *values, const char *text)
{
  KC_ASSERT(values[0] != '\0');
  const size_t length = strlen(text);
  int index = 0;
  for (const char *value = values;; index++) {
    const size_t span = strcspn(value, "|");
    if (span == length && memcmp(value, text, length) == 0) return index;
    if (value[span] == '\0') return -1;
    value += span + 1;
  }
}

static enum kc_err set_choice(const struct kc_option *option, void *target, const char *text,
                              const struct origin *origin)
{
  KC_ASSERT(option->size == 0 || option->size == sizeof(int));
  KC_ASSERT(option->values != NULL);
  const int index = choice_index(option->values, text);
  if (index < 0) return refuse(option, origin, text);
  memcpy(field_of(option, target), &index, sizeof index);
  return KC_OK;
}

static void mark_set(const struct kc_option *option, void *target)
{
  const bool yes = true;
  if (option->set_offset != 0) {
    memcpy((unsigned char *)target + option->set_offset, &yes, sizeof yes);
  }
}

static enum kc_err set_value(const struct kc_option *option, void *target, const char *text,
                             const struct origin *origin)
{
  switch (option->type) {
    case KC_OPTION_U32:
    case KC_OPTION_U64:
    case KC_OPTION_BYTES: return set_whole(option, target, text, origin);
    case KC_OPTION_DOUBLE: return set_double(option, target, text, origin);
    case KC_OPTION_DURATION: return set_duration(option, target, text, origin);
    case KC_OPTION_FLAG:
    case KC_OPTION_BOOL: return set_bool(option, target, text, origin);
    case KC_OPTION_TEXT: return set_text(option, target, text, origin);
    case KC_OPTION_CHOICE: return set_choice(option, target, text, origin);
    default: break;
  }
  KC_ASSERT(option->type == KC_OPTION_TEXT); /* LIST and SUBTREE are not set from one text */
  return KC_ERR_USAGE;
}

enum kc_err kc_option_set(const struct kc_option *option, void *target, const char *text,
                          struct kc_place place, struct kc_diag_list *problems)
{
  KC_ASSERT(option != NULL && target != NULL);
  KC_ASSERT(text != NULL && problems != NULL);
  char label[LABEL_BYTES];
  const struct origin origin = {.label = label_of(option, "", place.path == NULL, label),
                                .place = place, .problems = problems};
  KC_TRY(set_value(option, target, text, &origin));
  mark_set(option, target);
  return KC_OK;
}

void kc_options_default(const struct kc_option *options, size_t count, void *target)
{
  KC_ASSERT(options != NULL || count == 0);
  KC_ASSERT(target != NULL || count == 0);
  for (size_t i = 0; i < count; i++) {
    const struct kc_option *option = &options[i];
    if (option->fallback == NULL) continue;
    if (option->type == KC_OPTION_TEXT && option->fallback[0] == '\0') {
      memset(field_of(option, target), 0, option->size);
      continue;
    }
    struct kc_diag_list problems;
    kc_diag_list_init(&problems);
    const struct origin origin = {.label = option->key, .problems = &problems};
    const enum kc_err err = set_value(option, target, option->fallback, &origin);
    KC_ASSERT(err == KC_OK);
    (void)err;
  }
}

/* ---- scenario maps ---- */

/* One map being read. */
struct reader {
  const struct kc_option *options;
  size_t count;
  void *target;
  const char *path, *prefix;
  struct kc_diag_list *problems;
};

static enum kc_err node_fail(const struct reader *reader, const struct kc_node *node,
                             const char *format, ...) __attribute__((format(printf, 3, 4)));
static enum kc_err node_fail(const struct reader *reader, const struct kc_node *node,
                             const char *format, ...)
{
  char sentence[KC_DIAG_TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  const bool from_set = node->line == 0;
  return kc_diag_list_add(reader->problems, from_set ? KC_ERR_USAGE : KC_ERR_INPUT,
                          from_set ? "--set" : reader->path, node->line, node->column, "%s",
                          sentence);
}

static const struct kc_option *find_option(const struct reader *reader, const char *key)
{
  for (size_t i = 0; i < reader->count; i++) {
    if (strcmp(reader->options[i].key, key) == 0) return &reader->options[i];
  }
  return NULL;
}

/* True when some key of the table lies below `key` ("memory" of "memory.fraction"). */
static bool is_group(const struct reader *reader, const char *key)
{
  const size_t length = strlen(key);
  for (size_t i = 0; i < reader->count; i++) {
    const char *other = reader->options[i].key;
    if (strncmp(other, key, length) == 0 && other[length] == '.') return true;
  }
  return false;
}

static const char *last_part(const char *key)
{
  const char *dot = strrchr(key, '.');
  return dot == NULL ? key : dot + 1;
}

/* Nearest key to a wrong one: the same last part elsewhere, or a small edit of the whole or of its
 * first parts (a mistyped group). Writes the suggestion into `out`; false when none is near. */
static bool nearest_key(const struct reader *reader, const char *key, char out[LABEL_BYTES])
{
  KC_ASSERT(reader->count > 0);
  unsigned least = kc_edit_reach(last_part(key)) + 1;
  for (size_t i = 0; i < reader->count; i++) {
    const char *other = reader->options[i].key;
    size_t shared = strlen(other);
    unsigned distance = kc_edit_distance(key, other);
    if (strcmp(last_part(key), last_part(other)) == 0) distance = 1;
    if (strchr(key, '.') == NULL && strchr(other, '.') != NULL) {
      char group[LABEL_BYTES];
      snprintf(group, sizeof group, "%.*s", (int)strcspn(other, "."), other);
      const unsigned group_distance = kc_edit_distance(key, group);
      if (group_distance < distance) {
        distance = group_distance;
        shared = strlen(group);
      }
    }
    if (distance >= least) continue;
    least = distance;
    snprintf(out, LABEL_BYTES, "%.*s", (int)shared, other);
  }
  return least <= kc_edit_reach(last_part(key));
}

/* Names known on the level of `key`, each once: "rule, fraction, pages"; "..." for what has no
 * room. */
static void level_names(const struct reader *reader, const char *key, char *out, size_t size)
{
  KC_ASSERT(size > 0);
  const size_t level = strlen(key) - strlen(last_part(key)), room = size - sizeof ", ...";
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < reader->count; i++) {
    const char *name = reader->options[i].key;
    if (strncmp(name, key, level) != 0) continue;
    const size_t span = level + strcspn(name + level, ".");
    bool again = false;
    for (size_t j = 0; j < i; j++) {
      const char *before = reader->options[j].key;
      again = again || (strncmp(before, name, span) == 0 && before[span] == '.');
    }
    if (again) continue;
    if (used + span - level + 2 > room) { /* no name is cut */
      snprintf(out + used, size - used, ", ...");
      return;
    }
    used += (size_t)snprintf(out + used, size - used, "%s%.*s", used == 0 ? "" : ", ",
                             (int)(span - level), name + level);
  }
}

static void fail_unknown(const struct reader *reader, const struct kc_node *node, const char *key)
{
  char near[LABEL_BYTES], value[SHOWN_BYTES], names[NAMES_BYTES];
  if (nearest_key(reader, key, near)) {
    node_fail(reader, node, "%s%s is not a known key; did you mean %s%s?", reader->prefix,
              shown(key, value), reader->prefix, near);
    return;
  }
  /* Without a near miss, the names of this level tell more than a guess. */
  level_names(reader, key, names, sizeof names);
  node_fail(reader, node, "%s%s is not a known key; known here: %s", reader->prefix,
            shown(key, value), names);
}

static void read_scalar(const struct reader *reader, const struct kc_option *option,
                        const struct kc_node *node)
{
  KC_ASSERT(option->type != KC_OPTION_FLAG);
  KC_ASSERT(option->type != KC_OPTION_LIST);
  char label[LABEL_BYTES], want[EXPECTED_BYTES];
  label_of(option, reader->prefix, false, label);
  if (node->kind != KC_NODE_SCALAR) {
    node_fail(reader, node, "%s: expected %s, got a %s", label, expected(option, want),
              node->kind == KC_NODE_MAP ? "map" : "list");
    return;
  }
  if (kc_node_is_null(node)) {
    node_fail(reader, node, "%s has no value; expected %s, or leave the key out", label,
              expected(option, want));
    return;
  }
  if (node->quoted && option->type != KC_OPTION_TEXT && option->type != KC_OPTION_CHOICE) {
    char value[SHOWN_BYTES];
    node_fail(reader, node, "%s: expected %s, got the quoted text \"%s\"; take the quotes away",
              label, expected(option, want), shown(node->text, value));
    return;
  }
  const struct origin origin = {
    .label = label,
    .place = {.path = node->line == 0 ? "--set" : reader->path, .line = node->line,
              .column = node->column},
    .problems = reader->problems};
  if (set_value(option, reader->target, node->text, &origin) == KC_OK) {
    mark_set(option, reader->target);
  }
}

/* A key whose value is not a leaf of the table; true when the walk has to go down into it. */
static bool read_entry(const struct reader *reader, const struct kc_node *node, const char *key)
{
  KC_ASSERT(node->key != NULL);
  const struct kc_option *option = find_option(reader, key);
  if (option != NULL && option->type == KC_OPTION_SUBTREE) {
    mark_set(option, reader->target);
    return false;
  }
  if (option != NULL) {
    read_scalar(reader, option, node);
    return false;
  }
  if (!is_group(reader, key)) {
    fail_unknown(reader, node, key);
    return false;
  }
  if (node->kind == KC_NODE_MAP) return true;
  node_fail(reader, node, "%s%s: expected a map of keys, got a %s", reader->prefix, key,
            node->kind == KC_NODE_LIST ? "list" : "single value");
  return false;
}

static void check_required(const struct reader *reader, const struct kc_node *map)
{
  KC_ASSERT(map->kind == KC_NODE_MAP);
  for (size_t i = 0; i < reader->count; i++) {
    if (!reader->options[i].required) continue;
    const struct kc_node *node = map;
    char part[LABEL_BYTES];
    for (const char *key = reader->options[i].key; node != NULL;) {
      const size_t span = strcspn(key, ".");
      snprintf(part, sizeof part, "%.*s", (int)span, key);
      node = kc_node_get(node, part);
      if (key[span] == '\0') break;
      key += span + 1;
    }
    if (node != NULL) continue;
    char want[EXPECTED_BYTES];
    node_fail(reader, map, "%s%s is missing; expected %s", reader->prefix, reader->options[i].key,
              reader->options[i].type == KC_OPTION_SUBTREE && reader->options[i].values != NULL
                  ? reader->options[i].values : expected(&reader->options[i], want));
  }
}

void kc_options_read_map(const struct kc_option *options, size_t count, void *target,
                         const struct kc_node *map, const char *path, const char *prefix,
                         struct kc_diag_list *problems)
{
  KC_ASSERT(map != NULL && map->kind == KC_NODE_MAP);
  KC_ASSERT(prefix != NULL && problems != NULL);
  const struct reader reader = {.options = options, .count = count, .target = target, .path = path,
                                .prefix = prefix, .problems = problems};
  /* The walk keeps, for each open map, the next sibling to visit and the length of its prefix. */
  const struct kc_node *next[KEY_DEPTH_MAX] = {map->child};
  size_t length[KEY_DEPTH_MAX] = {0};
  char key[LABEL_BYTES];
  uint32_t depth = 0;
  for (;;) {
    const struct kc_node *node = next[depth];
    if (node == NULL) {
      if (depth == 0) break;
      depth--;
      continue;
    }
    next[depth] = node->next;
    const int wrote = snprintf(key + length[depth], sizeof key - length[depth], "%s", node->key);
    if (!read_entry(&reader, node, key)) continue;
    KC_ASSERT(depth + 1 < KEY_DEPTH_MAX); /* a group's key is one of ours, so it is short */
    length[depth + 1] = length[depth] + (size_t)wrote + 1;
    memcpy(key + length[depth + 1] - 1, ".", 2);
    next[++depth] = node->child;
  }
  check_required(&reader, map);
}
