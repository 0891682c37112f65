/* Typed look-ups in a config.json (see hf.h). jansson owns the document; this view borrows it.
 *
 * The messages name the key with its nesting ("text_config.hidden_size"), show the value found and
 * say what was expected. jansson keeps no positions of values, so the place of a faulty key is
 * found by walking the text once more:
 *
 *   { "a": 1, "text_config": { "hidden_size": "big" } }
 *     depth 1                  depth 2 inside the scope: line and column of this key's quote
 *
 * The walk may trust the text, because jansson accepted it.
 */
#include "engine/model/hf.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"

enum { SHOWN_BYTES = 48 };

void kc_hf_init(struct kc_hf *hf, const json_t *root, const char *data, size_t bytes,
                const char *path, struct kc_diag *diag)
{
  KC_ASSERT(json_is_object(root));
  KC_ASSERT(path != NULL);
  *hf = (struct kc_hf){.root = root,
                       .object = root,
                       .scope = "",
                       .data = data,
                       .bytes = bytes,
                       .path = path,
                       .diag = diag};
}

bool kc_hf_enter(struct kc_hf *hf, const char *key)
{
  KC_ASSERT(key != NULL);
  const json_t *object = json_object_get(hf->root, key);
  if (!json_is_object(object)) return false;
  hf->object = object;
  hf->scope = key;
  return true;
}

/* ---- places ---- */

struct place {
  uint64_t line;
  uint32_t column;
};

/* The closing quote of the string that opens at `at`. */
static size_t string_end(const struct kc_hf *hf, size_t at)
{
  KC_ASSERT(hf->data[at] == '"');
  size_t end = at + 1;
  while (end < hf->bytes && hf->data[end] != '"') end += hf->data[end] == '\\' ? 2 : 1;
  return end;
}

static bool is_key(const struct kc_hf *hf, size_t quote)
{
  size_t at = quote + 1;
  while (at < hf->bytes && strchr(" \t\r\n", hf->data[at]) != NULL) at++;
  return at < hf->bytes && hf->data[at] == ':';
}

static struct place place_at(const struct kc_hf *hf, size_t at)
{
  struct place place = {1, 1};
  KC_ASSERT(at < hf->bytes);
  for (size_t i = 0; i < at; i++) {
    place.column++;
    if (hf->data[i] != '\n') continue;
    place.line++;
    place.column = 1;
  }
  return place;
}

/* Where root[scope][key] is written, or root[key] for the empty scope; line 0 when it is not. */
static struct place find_key(const struct kc_hf *hf, const char *scope, const char *key,
                             size_t length)
{
  const unsigned wanted_depth = scope[0] == '\0' ? 1 : 2;
  unsigned depth = 0;
  bool in_scope = wanted_depth == 1;
  for (size_t at = 0; at < hf->bytes; at++) {
    const char c = hf->data[at];
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    if (c != '"') continue;
    const size_t end = string_end(hf, at);
    const char *text = hf->data + at + 1;
    const size_t text_length = end - at - 1;
    if (is_key(hf, end)) {
      const bool same = text_length == length && memcmp(text, key, length) == 0;
      if (depth == wanted_depth && in_scope && same) return place_at(hf, at);
      if (depth == 1 && wanted_depth == 2) {
        in_scope = text_length == strlen(scope) && memcmp(text, scope, text_length) == 0;
      }
    }
    at = end;
  }
  return (struct place){0, 0};
}

enum kc_err kc_hf_fail(struct kc_hf *hf, const char *key, const char *format, ...)
{
  KC_ASSERT(format != NULL);
  if (hf->err != KC_OK) return hf->err; /* the first fault is the one to report */
  char text[KC_DIAG_TEXT_BYTES] = "";
  struct place place = {0, 0};
  if (key != NULL) {
    const size_t length = strcspn(key, "."); /* "quantization_config.bits": the outer one */
    const char *dot = hf->scope[0] == '\0' ? "" : ".";
    snprintf(text, sizeof text, "\"%s%s%s\" ", hf->scope, dot, key);
    place = find_key(hf, hf->scope, key, length);
    if (place.line == 0) place = find_key(hf, "", key, length);
  }
  const size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text + used, sizeof text - used, format, arguments);
  va_end(arguments);
  KC_ASSERT(length >= 0);
  hf->err = kc_fail_at(hf->diag, KC_ERR_INPUT, hf->path, place.line, place.column, "%s", text);
  return hf->err;
}

static const json_t *value_of(const struct kc_hf *hf, const char *key)
{
  const json_t *value = json_object_get(hf->object, key);
  return json_is_null(value) ? NULL : value;
}

bool kc_hf_has(const struct kc_hf *hf, const char *key)
{
  return value_of(hf, key) != NULL;
}

/* Short text of a value for a message: scalars as JSON writes them, containers by kind. */
static void show_value(const json_t *value, char out[SHOWN_BYTES])
{
  if (json_is_string(value)) {
    snprintf(out, SHOWN_BYTES, "\"%.40s\"", json_string_value(value));
  } else if (json_is_object(value) || json_is_array(value)) {
    snprintf(out, SHOWN_BYTES, "%s", json_is_array(value) ? "a list" : "an object");
  } else {
    const size_t used = json_dumpb(value, out, SHOWN_BYTES - 1, JSON_ENCODE_ANY);
    KC_ASSERT(used < SHOWN_BYTES); /* numbers take at most 25 bytes */
    out[used] = '\0';
  }
}

static uint32_t ranged(struct kc_hf *hf, const char *key, const json_t *value, uint32_t low,
                       uint32_t high)
{
  if (json_is_integer(value)) {
    const json_int_t number = json_integer_value(value);
    if (number >= (json_int_t)low && number <= (json_int_t)high) return (uint32_t)number;
  }
  char shown[SHOWN_BYTES];
  show_value(value, shown);
  (void)kc_hf_fail(hf, key, "is %s, expected a whole number from %u to %u", shown, low, high);
  return low;
}

uint32_t kc_hf_u32(struct kc_hf *hf, const char *key, uint32_t low, uint32_t high)
{
  KC_ASSERT(key != NULL);
  KC_ASSERT(low <= high);
  const json_t *value = value_of(hf, key);
  if (value != NULL) return ranged(hf, key, value, low, high);
  (void)kc_hf_fail(hf, key, "is missing, expected a whole number from %u to %u", low, high);
  return low;
}

uint32_t kc_hf_u32_or(struct kc_hf *hf, const char *key, uint32_t low, uint32_t high,
                      uint32_t fallback)
{
  KC_ASSERT(key != NULL);
  KC_ASSERT(low <= high);
  const json_t *value = value_of(hf, key);
  return value == NULL ? fallback : ranged(hf, key, value, low, high);
}

bool kc_hf_bool_or(struct kc_hf *hf, const char *key, bool fallback)
{
  KC_ASSERT(key != NULL);
  const json_t *value = value_of(hf, key);
  if (value == NULL) return fallback;
  if (json_is_boolean(value)) return json_is_true(value);
  char shown[SHOWN_BYTES];
  show_value(value, shown);
  (void)kc_hf_fail(hf, key, "is %s, expected true or false", shown);
  return fallback;
}

const char *kc_hf_text_or_null(struct kc_hf *hf, const char *key)
{
  KC_ASSERT(key != NULL);
  const json_t *value = value_of(hf, key);
  if (value == NULL) return NULL;
  if (json_is_string(value)) return json_string_value(value);
  char shown[SHOWN_BYTES];
  show_value(value, shown);
  (void)kc_hf_fail(hf, key, "is %s, expected a text", shown);
  return NULL;
}

const json_t *kc_hf_array_or_null(struct kc_hf *hf, const char *key, size_t count)
{
  KC_ASSERT(key != NULL);
  const json_t *value = value_of(hf, key);
  if (value == NULL) return NULL;
  if (!json_is_array(value)) {
    char shown[SHOWN_BYTES];
    show_value(value, shown);
    (void)kc_hf_fail(hf, key, "is %s, expected a list", shown);
    return NULL;
  }
  if (count > 0 && json_array_size(value) != count) {
    (void)kc_hf_fail(hf, key, "has %zu items, expected %zu, one for each layer",
                     json_array_size(value), count);
    return NULL;
  }
  return value;
}
