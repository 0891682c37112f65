/* The JSON walker: the hottest loop of a JSONL load.
 *
 *   {"timestamp": 0, "hash_ids": [0, 14, 15, 16]}
 *   |           1. find the partner of '{', so that a member's span is known to end inside   |
 *                2. walk the members; 3. find the partner of '['; 4. walk the numbers
 *
 * Looking for a partner skips eight bytes a step while no lane holds a quote or a bracket. Both
 * brackets and both braces become 0x59 when bits 1, 2 and 5 are masked out ('[' 0x5b, ']' 0x5d,
 * '{' 0x7b, '}' 0x7d), so one comparison finds all four; 'Y', '_', 'y' and DEL match as well and
 * are then passed over one by one. Which of the open brackets are braces is a bit each of one
 * word, which bounds the depth and needs no recursion.
 *
 * jansson, which reads scenarios' models, builds a tree and turns every number into a node: an
 * order of magnitude slower, and its integers end at 2^63. Nothing is owned. */
#include "traces/readers/json_scan.h"

#include <string.h>

#include "engine/base/check.h"
#include "traces/readers/short_digits.h"

#define LANES(byte) (UINT64_C(0x0101010101010101) * (uint64_t)(unsigned char)(byte))

const char *kc_json_fault_text(enum kc_json_fault fault)
{
  switch (fault) {
    case KC_JSON_OK: return "is fine";
    case KC_JSON_CUT: return "the text ends inside a JSON value (cut short?)";
    case KC_JSON_SYNTAX: return "this is not JSON";
    case KC_JSON_LITERAL:
      return "JSON has no such word (NaN, Infinity, None, True?); expected a number, a string, "
             "true, false or null";
    case KC_JSON_DEPTH: return "brackets inside brackets deeper than 64, the ceiling of a trace";
    case KC_JSON_NOT_WHOLE: return "expected a whole number of 0 or more, digits only";
    case KC_JSON_TOO_LARGE: return "expected a number of at most 18446744073709551615 (2^64 - 1)";
  }
  return "this is not JSON";
}

static inline bool is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool is_digit(char c)
{
  return (unsigned char)(c - '0') <= 9;
}

static inline const char *skip_space(const char *at, const char *end)
{
  while (at < end && is_space(*at)) at++;
  return at;
}

/* Non-zero when a lane is zero; its lowest bit stands in the lowest such lane. */
static inline uint64_t zero_lanes(uint64_t word)
{
  return (word - LANES(0x01)) & ~word & LANES(0x80);
}

/* The first byte of [at, end) that may be a quote or a bracket, or `end`. */
static inline const char *next_mark(const char *at, const char *end)
{
  while (end - at >= 8) {
    const uint64_t word = kc_load_8(at);
    const uint64_t marks =
        zero_lanes(word ^ LANES('"')) | zero_lanes((word & LANES(0xd9)) ^ LANES(0x59));
    if (marks != 0) return at + __builtin_ctzll(marks) / 8;
    at += 8;
  }
  while (at < end && *at != '"' && (*at & 0xd9) != 0x59) at++;
  return at;
}

/* `at` is behind an opening quote -> at the closing one, or `end`. */
static inline const char *skip_string(const char *at, const char *end, bool *escaped)
{
  *escaped = false;
  while (at < end && *at != '"') {
    if (*at == '\\') {
      *escaped = true;
      at++;
      if (at == end) return end;
    }
    at++;
  }
  return at;
}

/* *at is on an opening bracket -> behind its partner. */
static enum kc_json_fault skip_container(const char **at, const char *end)
{
  uint64_t braces = 0; /* bit i: the bracket i levels out from the innermost is a brace */
  unsigned depth = 0;
  const char *p = *at;
  bool escaped;
  KC_ASSERT(p < end && (*p == '{' || *p == '['));
  do {
    p = next_mark(p, end);
    *at = p;
    if (p == end) return KC_JSON_CUT;
    const char c = *p;
    if (c == '"') {
      p = skip_string(p + 1, end, &escaped);
      if (p == end) return KC_JSON_CUT;
    } else if (c == '{' || c == '[') {
      if (depth == KC_JSON_DEPTH_MAX) return KC_JSON_DEPTH;
      depth++;
      braces = braces << 1 | (c == '{');
    } else if (c == '}' || c == ']') {
      if ((braces & 1) != (c == '}')) return KC_JSON_SYNTAX;
      braces >>= 1;
      depth--;
    }
    p++;
  } while (depth > 0);
  *at = p;
  return KC_JSON_OK;
}

static enum kc_json_fault scan_word(const char **at, const char *end, struct kc_json_value *value)
{
  static const struct {
    const char *text;
    size_t bytes;
    enum kc_json_kind kind;
  } words[] = {{"null", 4, KC_JSON_NULL}, {"true", 4, KC_JSON_TRUE}, {"false", 5, KC_JSON_FALSE}};
  const size_t room = (size_t)(end - *at);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (room < words[i].bytes || memcmp(*at, words[i].text, words[i].bytes) != 0) continue;
    *value = (struct kc_json_value){*at, words[i].bytes, words[i].kind, false};
    *at += words[i].bytes;
    return KC_JSON_OK;
  }
  const char c = **at;
  const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return letter ? KC_JSON_LITERAL : KC_JSON_SYNTAX;
}

static enum kc_json_fault scan_number(const char **at, const char *end, struct kc_json_value *value)
{
  const char *p = *at;
  if (*p == '-' && end - p > 1 && p[1] == 'I') return KC_JSON_LITERAL; /* -Infinity */
  while (p < end && (is_digit(*p) || *p == '.' || *p == '-' || *p == '+' || (*p | 32) == 'e')) p++;
  *value = (struct kc_json_value){*at, (size_t)(p - *at), KC_JSON_NUMBER, false};
  *at = p;
  return KC_JSON_OK;
}

enum kc_json_fault kc_json_scan(const char **at, const char *end, struct kc_json_value *value)
{
  const char *p = skip_space(*at, end);
  *at = p;
  if (p >= end) return KC_JSON_CUT;
  if (is_digit(*p) || *p == '-') return scan_number(at, end, value);
  if (*p == '"') {
    bool escaped;
    const char *const close = skip_string(p + 1, end, &escaped);
    if (close == end) return KC_JSON_CUT;
    *value = (struct kc_json_value){p + 1, (size_t)(close - p - 1), KC_JSON_STRING, escaped};
    *at = close + 1;
    return KC_JSON_OK;
  }
  if (*p == '{' || *p == '[') {
    const enum kc_json_fault fault = skip_container(at, end);
    if (fault != KC_JSON_OK) return fault;
    const enum kc_json_kind kind = *p == '{' ? KC_JSON_OBJECT : KC_JSON_ARRAY;
    *value = (struct kc_json_value){p, (size_t)(*at - p), kind, false};
    return KC_JSON_OK;
  }
  return scan_word(at, end, value);
}

void kc_json_open(struct kc_json_cursor *cursor, const struct kc_json_value *container)
{
  KC_ASSERT(container->kind == KC_JSON_OBJECT || container->kind == KC_JSON_ARRAY);
  KC_ASSERT(container->bytes >= 2);
  *cursor = (struct kc_json_cursor){container->text + 1, container->text + container->bytes - 1,
                                    KC_JSON_OK, false};
}

static bool fail(struct kc_json_cursor *cursor, enum kc_json_fault fault)
{
  cursor->fault = fault;
  return false;
}

/* Moves to the next member or item: over the comma, if one is due. False at the end. */
static inline bool advance(struct kc_json_cursor *cursor)
{
  if (cursor->fault != KC_JSON_OK) return false;
  cursor->at = skip_space(cursor->at, cursor->end);
  if (cursor->at == cursor->end) return false;
  if (cursor->started) {
    if (*cursor->at != ',') return fail(cursor, KC_JSON_SYNTAX);
    cursor->at = skip_space(cursor->at + 1, cursor->end);
    if (cursor->at == cursor->end) return fail(cursor, KC_JSON_SYNTAX); /* a comma, then nothing */
  }
  cursor->started = true;
  return true;
}

static bool take_value(struct kc_json_cursor *cursor, struct kc_json_value *value)
{
  cursor->at = skip_space(cursor->at, cursor->end);
  if (cursor->at == cursor->end) return fail(cursor, KC_JSON_SYNTAX); /* a bracket, no value */
  cursor->fault = kc_json_scan(&cursor->at, cursor->end, value);
  return cursor->fault == KC_JSON_OK;
}

bool kc_json_next_member(struct kc_json_cursor *cursor, struct kc_json_value *key,
                         struct kc_json_value *value)
{
  if (!advance(cursor)) return false;
  if (*cursor->at != '"') return fail(cursor, KC_JSON_SYNTAX);
  if (!take_value(cursor, key)) return false;
  cursor->at = skip_space(cursor->at, cursor->end);
  if (cursor->at == cursor->end || *cursor->at != ':') return fail(cursor, KC_JSON_SYNTAX);
  cursor->at++;
  return take_value(cursor, value);
}

bool kc_json_next_item(struct kc_json_cursor *cursor, struct kc_json_value *value)
{
  return advance(cursor) && take_value(cursor, value);
}

/* Digits at *at -> *number; leaves *at behind them. */
static inline enum kc_json_fault take_whole(const char **at, const char *end, uint64_t *number)
{
  enum { SAFE_DIGITS = 19 }; /* 10^19 - 1 fits in 64 bits */
  const char *const first = *at;
  const char *p = first;
  uint64_t value = 0;
  while (p < end && is_digit(*p)) {
    if (p - first >= SAFE_DIGITS) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
        *at = first;
        return KC_JSON_TOO_LARGE;
      }
    } else {
      value = value * 10 + (uint64_t)(*p - '0');
    }
    p++;
  }
  *number = value;
  const bool whole = p > first && (*first != '0' || p - first == 1);
  if (whole) *at = p;
  return whole ? KC_JSON_OK : KC_JSON_NOT_WHOLE;
}

/* The common item: 1 to 7 digits, then a byte that is none, all within the eight bytes at `at`.
 * Returns the number of digits, 0 when it is another case. */
static inline unsigned short_whole(const char *at, uint64_t *number)
{
  uint64_t word = kc_load_8(at) ^ LANES('0');
  const uint64_t others = ((word + LANES(0x76)) | word) & LANES(0x80);
  if (others == 0) return 0;
  const unsigned digits = (unsigned)__builtin_ctzll(others) / 8;
  if (digits == 0 || (digits > 1 && *at == '0')) return 0;
  word <<= 64 - 8 * digits;
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);   /* four pairs */
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff); /* two fours */
  *number = (uint32_t)(word * 10000 + (word >> 32));
  return digits;
}

bool kc_json_next_u64(struct kc_json_cursor *cursor, uint64_t *number)
{
  if (!advance(cursor)) return false;
  const char *const first = cursor->at;
  const unsigned digits = cursor->end - first > 8 ? short_whole(first, number) : 0;
  if (digits > 0 && first[digits] == ',') {
    cursor->at = first + digits;
    return true;
  }
  cursor->fault = take_whole(&cursor->at, cursor->end, number);
  if (cursor->fault != KC_JSON_OK) return false;
  if (cursor->at == cursor->end || *cursor->at == ',' || is_space(*cursor->at)) return true;
  cursor->at = first; /* 1.5, 1e3, 12ab */
  return fail(cursor, KC_JSON_NOT_WHOLE);
}

enum kc_json_fault kc_json_u64(const struct kc_json_value *value, uint64_t *number)
{
  const char *at = value->text;
  const char *const end = value->text + value->bytes;
  if (value->kind != KC_JSON_NUMBER) return KC_JSON_NOT_WHOLE;
  const enum kc_json_fault fault = take_whole(&at, end, number);
  if (fault != KC_JSON_OK) return fault;
  return at == end ? KC_JSON_OK : KC_JSON_NOT_WHOLE;
}

bool kc_json_is(const struct kc_json_value *value, const char *text)
{
  KC_ASSERT(text != NULL);
  const size_t bytes = strlen(text);
  return value->kind == KC_JSON_STRING && value->bytes == bytes &&
         memcmp(value->text, text, bytes) == 0;
}

bool kc_json_find(const struct kc_json_value *object, const char *key, struct kc_json_value *value)
{
  struct kc_json_cursor cursor;
  struct kc_json_value name;
  kc_json_open(&cursor, object);
  while (kc_json_next_member(&cursor, &name, value)) {
    if (kc_json_is(&name, key)) return true;
  }
  return false;
}

enum kc_json_fault kc_json_check(const struct kc_json_value *value)
{
  struct {
    struct kc_json_cursor cursor;
    bool object;
  } open[KC_JSON_DEPTH_MAX];
  size_t depth = 0;
  struct kc_json_value key, at = *value;
  KC_ASSERT(value->text != NULL);
  for (;;) {
    if (at.kind == KC_JSON_OBJECT || at.kind == KC_JSON_ARRAY) {
      KC_ASSERT(depth < KC_JSON_DEPTH_MAX); /* kc_json_scan counted them */
      kc_json_open(&open[depth].cursor, &at);
      open[depth++].object = at.kind == KC_JSON_OBJECT;
    }
    bool more = false;
    while (depth > 0 && !more) {
      struct kc_json_cursor *const cursor = &open[depth - 1].cursor;
      more = open[depth - 1].object ? kc_json_next_member(cursor, &key, &at)
                                    : kc_json_next_item(cursor, &at);
      if (cursor->fault != KC_JSON_OK) return cursor->fault;
      if (!more) depth--;
    }
    if (depth == 0) return KC_JSON_OK;
  }
}
