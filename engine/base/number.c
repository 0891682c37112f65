/* Strict numbers, both ways: text to integers without any rounding, integers to decimal text.
 *
 *   "2.5k"  --scan-->  digits 25, exponent -1, rest "k"  --exact-->  25 * 10^-1 * 1000 = 2500
 *
 * One scanner reads every form. A number is held as significand * 10^exponent in 128 bits, and a
 * unit multiplies it; what is left must be a whole number, or the text is refused: "1.5" is not a
 * count and "1.0000000000001s" is not a number of picoseconds. Nothing is rounded on the way in,
 * but for kc_parse_double, which rounds correctly, once.
 *
 * All functions are pure: no locale, no errno, no allocation. */
#include "engine/base/number.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum {
  SIGNIFICAND_DIGITS_MAX = 38, /* 10^38 < 2^128 */
  EXPONENT_MAX = 100000,       /* beyond this no text is meant */
  DOUBLE_BYTES_MAX = 128,
  EDIT_LENGTH_MAX = 64
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char lower(char c) { return (c >= 'A' && c <= 'Z') ? (char)(c - 'A' + 'a') : c; }

/* value = significand * 10^exponent; the significand, if not 0, does not end in a zero digit */
struct decimal {
  kc_u128 significand;
  int64_t exponent;
};

/* What is left of the text. */
struct cursor {
  const char *at;
  const char *end;
};

/* Trailing zeros wait in `zeros_held` until a digit follows, so "1000...0" of any length fits. */
struct digit_sum {
  kc_u128 significand;
  unsigned digits; /* of the significand */
  int64_t zeros_held;
};

static bool add_digit(struct digit_sum *sum, unsigned digit)
{
  if (digit == 0) {
    if (sum->digits > 0) sum->zeros_held++;
    return true;
  }
  if (sum->zeros_held >= SIGNIFICAND_DIGITS_MAX) return false;
  const unsigned shift = (unsigned)sum->zeros_held + 1;
  if (sum->digits + shift > SIGNIFICAND_DIGITS_MAX) return false;
  for (unsigned i = 0; i < shift; i++) sum->significand *= 10;
  sum->significand += digit;
  sum->digits += shift;
  sum->zeros_held = 0;
  return true;
}

/* Reads "e3", "E+3", "e-3" if it stands there. An 'e' without digits is left for the unit. */
static bool scan_exponent(struct cursor *text, int64_t *exponent)
{
  const char *at = text->at;
  *exponent = 0;
  if (at == text->end || lower(*at) != 'e') return true;
  at++;
  const bool negative = at < text->end && *at == '-';
  if (at < text->end && (*at == '-' || *at == '+')) at++;
  if (at == text->end || !is_digit(*at)) return true;
  for (; at < text->end && is_digit(*at); at++) {
    *exponent = *exponent * 10 + (*at - '0');
    if (*exponent > EXPONENT_MAX) return false;
  }
  if (negative) *exponent = -*exponent;
  text->at = at;
  return true;
}

/* digits [ "." digits ] [ exponent ]. A point needs digits on both sides. False when no number
 * stands here or it has more than 38 significant digits. */
static bool scan_decimal(struct cursor *text, struct decimal *out)
{
  KC_ASSERT(text->at <= text->end);
  struct digit_sum sum = {0};
  int64_t digits_after_point = 0;
  if (text->at == text->end || !is_digit(*text->at)) return false;
  for (; text->at < text->end && is_digit(*text->at); text->at++) {
    if (!add_digit(&sum, (unsigned)(*text->at - '0'))) return false;
  }
  if (text->at < text->end && *text->at == '.') {
    text->at++;
    const char *first = text->at;
    for (; text->at < text->end && is_digit(*text->at); text->at++) {
      if (!add_digit(&sum, (unsigned)(*text->at - '0'))) return false;
    }
    digits_after_point = text->at - first;
    if (digits_after_point == 0) return false;
  }
  int64_t exponent;
  if (!scan_exponent(text, &exponent)) return false;
  out->significand = sum.significand;
  out->exponent = exponent - digits_after_point + sum.zeros_held;
  KC_ASSERT(sum.significand == 0 || sum.significand % 10 != 0);
  return true;
}

/* Takes one factor `prime` out of either number. */
static bool cancel(kc_u128 *significand, uint64_t *unit, unsigned prime)
{
  if (*significand % prime == 0) {
    *significand /= prime;
  } else if (*unit % prime == 0) {
    *unit /= prime;
  } else {
    return false;
  }
  return true;
}

/* number * unit as an exact integer of at most `max`. Both loops end early: cancelling halves the
 * product at least, and growing stops at 2^64. */
static bool exact_product(struct decimal number, uint64_t unit, uint64_t max, uint64_t *out)
{
  KC_ASSERT(unit > 0);
  KC_ASSERT(out != NULL);
  kc_u128 significand = number.significand;
  if (significand == 0) {
    *out = 0;
    return true;
  }
  for (int64_t i = number.exponent; i < 0; i++) {
    if (!cancel(&significand, &unit, 2) || !cancel(&significand, &unit, 5)) return false;
  }
  if (significand > max) return false;
  for (int64_t i = 0; i < number.exponent; i++) {
    significand *= 10;
    if (significand > max) return false;
  }
  const kc_u128 product = significand * unit; /* both below 2^64 */
  if (product > max) return false;
  *out = (uint64_t)product;
  return true;
}

struct suffix {
  const char *name;
  uint64_t unit;
};

static const struct suffix count_suffixes[] = {
    {"", 1},
    {"k", UINT64_C(1000)},
    {"M", UINT64_C(1000000)},
    {"G", UINT64_C(1000000000)},
    {"T", UINT64_C(1000000000000)},
    {"Ki", UINT64_C(1) << 10},
    {"Mi", UINT64_C(1) << 20},
    {"Gi", UINT64_C(1) << 30},
    {"Ti", UINT64_C(1) << 40},
};

static const struct suffix time_suffixes[] = {
    {"ps", 1},
    {"ns", KC_PS_PER_NS},
    {"us", KC_PS_PER_US},
    {"ms", KC_PS_PER_MS},
    {"s", KC_PS_PER_S},
    {"min", 60 * KC_PS_PER_S},
    {"h", 3600 * KC_PS_PER_S},
    {"d", 86400 * KC_PS_PER_S},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The unit that the rest of the text names exactly, 0 when it names none. */
static uint64_t find_suffix(struct cursor rest, const struct suffix *suffixes, size_t count)
{
  KC_ASSERT(rest.at <= rest.end);
  const size_t length = (size_t)(rest.end - rest.at);
  for (size_t i = 0; i < count; i++) {
    if (strlen(suffixes[i].name) != length) continue;
    if (memcmp(suffixes[i].name, rest.at, length) == 0) return suffixes[i].unit;
  }
  return 0;
}

bool kc_parse_u64(const char *text, size_t length, uint64_t *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  if (length == 0) return false;
  struct cursor cursor = {text, text + length};
  struct decimal number;
  if (!scan_decimal(&cursor, &number)) return false;
  const uint64_t unit = find_suffix(cursor, count_suffixes, COUNT_OF(count_suffixes));
  return unit != 0 && exact_product(number, unit, UINT64_MAX, out);
}

bool kc_parse_i64(const char *text, size_t length, int64_t *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  const bool negative = length > 0 && text[0] == '-';
  const uint64_t max = (uint64_t)INT64_MAX + (negative ? 1 : 0);
  uint64_t magnitude;
  if (negative && !kc_parse_u64(text + 1, length - 1, &magnitude)) return false;
  if (!negative && !kc_parse_u64(text, length, &magnitude)) return false;
  if (magnitude > max) return false;
  /* -(m - 1) - 1 reaches INT64_MIN without leaving the type. */
  *out = negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
  return true;
}

bool kc_parse_bytes(const char *text, size_t length, uint64_t *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  if (length == 0) return false;
  struct cursor cursor = {text, text + length};
  struct decimal number;
  if (!scan_decimal(&cursor, &number)) return false;
  if (cursor.at < cursor.end && *cursor.at == ' ') {
    cursor.at++;
    if (cursor.at == cursor.end) return false; /* a space must be followed by a unit */
  }
  if (cursor.at < cursor.end && cursor.end[-1] == 'B') cursor.end--;
  const uint64_t unit = find_suffix(cursor, count_suffixes, COUNT_OF(count_suffixes));
  return unit != 0 && exact_product(number, unit, UINT64_MAX, out);
}

/* The "C" locale object is a constant of the C library: newlocale allocates nothing for it. */
static bool string_to_double(const char *text, double *out)
{
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0) return false;
  char *end;
  const double value = strtod_l(text, &end, c_locale);
  freelocale(c_locale);
  KC_ASSERT(*end == '\0'); /* our scanner has accepted the whole of it */
  if (!__builtin_isfinite(value)) return false;
  *out = value == 0 ? 0 : value; /* no negative zero: it would print as "-0" */
  return true;
}

bool kc_parse_double(const char *text, size_t length, double *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  char copy[DOUBLE_BYTES_MAX + 1];
  if (length == 0 || length > DOUBLE_BYTES_MAX) return false;
  const char *at = text;
  const char *end = text + length;
  if (*at == '-') at++;
  const char *digits = at;
  while (at < end && is_digit(*at)) at++;
  if (at == digits) return false;
  if (at < end && *at == '.') {
    digits = ++at;
    while (at < end && is_digit(*at)) at++;
    if (at == digits) return false;
  }
  if (at < end && lower(*at) == 'e') {
    at++;
    if (at < end && (*at == '-' || *at == '+')) at++;
    digits = at;
    while (at < end && is_digit(*at)) at++;
    if (at == digits) return false;
  }
  if (at != end) return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return string_to_double(copy, out);
}

bool kc_parse_duration(const char *text, size_t length, kc_ps *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  if (length == 0) return false;
  if (length == 1 && text[0] == '0') {
    *out = 0;
    return true;
  }
  struct cursor cursor = {text, text + length};
  struct decimal number;
  if (!scan_decimal(&cursor, &number)) return false;
  if (cursor.at < cursor.end && *cursor.at == ' ') cursor.at++;
  const uint64_t unit = find_suffix(cursor, time_suffixes, COUNT_OF(time_suffixes));
  uint64_t duration;
  if (unit == 0 || !exact_product(number, unit, KC_PS_NEVER - 1, &duration)) return false;
  *out = (kc_ps)duration;
  return true;
}

/* Adds the digits after the point, each worth a tenth of the one before; below 1 ps only zeros. */
static bool scan_fraction_ps(struct cursor *text, uint64_t unit, uint64_t *fraction)
{
  const char *first = text->at;
  KC_ASSERT(first <= text->end);
  for (; text->at < text->end && is_digit(*text->at); text->at++) {
    const unsigned digit = (unsigned)(*text->at - '0');
    unit /= 10;
    if (unit == 0 && digit != 0) return false;
    *fraction += unit * digit;
  }
  return text->at > first;
}

/* Every row of a trace passes here, so this is a scanner of its own: no 128-bit division. */
bool kc_parse_decimal_ps(const char *text, size_t length, kc_ps picoseconds_per_unit, kc_ps *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(picoseconds_per_unit > 0 && picoseconds_per_unit <= INT64_C(1000000000000000000));
  KC_ASSERT(out != NULL);
  if (length == 0) return false;
  struct cursor cursor = {text, text + length};
  const uint64_t unit = (uint64_t)picoseconds_per_unit;
  const bool negative = *cursor.at == '-';
  if (negative) cursor.at++;
  const char *first = cursor.at;
  uint64_t whole = 0;
  uint64_t fraction = 0;
  for (; cursor.at < cursor.end && is_digit(*cursor.at); cursor.at++) {
    if (whole > (UINT64_MAX - 9) / 10) return false;
    whole = whole * 10 + (uint64_t)(*cursor.at - '0');
  }
  if (cursor.at == first) return false;
  if (cursor.at < cursor.end && *cursor.at == '.') {
    cursor.at++;
    if (!scan_fraction_ps(&cursor, unit, &fraction)) return false;
  }
  if (cursor.at != cursor.end) return false;
  const kc_u128 magnitude = (kc_u128)whole * unit + fraction;
  if (magnitude >= (kc_u128)KC_PS_NEVER) return false;
  *out = negative ? -(kc_ps)magnitude : (kc_ps)magnitude;
  return true;
}

bool kc_parse_bool(const char *text, size_t length, bool *out)
{
  KC_ASSERT(text != NULL || length == 0);
  KC_ASSERT(out != NULL);
  const bool is_true = length == 4 && memcmp(text, "true", 4) == 0;
  const bool is_false = length == 5 && memcmp(text, "false", 5) == 0;
  if (!is_true && !is_false) return false;
  *out = is_true;
  return true;
}

/* Writes the digits of `value`, at least `digits_min` of them, and returns how many. */
static size_t write_digits(kc_u128 value, size_t digits_min, char out[40])
{
  char reversed[40]; /* 2^128 has 39 digits */
  size_t count = 0;
  KC_ASSERT(digits_min <= sizeof reversed);
  for (; value > 0 || count < digits_min; value /= 10) {
    KC_ASSERT(count < sizeof reversed);
    reversed[count++] = (char)('0' + (int)(value % 10));
  }
  for (size_t i = 0; i < count; i++) out[i] = reversed[count - 1 - i];
  return count;
}

/* The whole digits, then the point and the fraction when there is one. */
static size_t write_fixed(kc_u128 magnitude, unsigned decimals, bool trim, char *out)
{
  char digits[40];
  const size_t count = write_digits(magnitude, (size_t)decimals + 1, digits);
  const size_t whole = count - decimals;
  size_t kept = count;
  if (trim) {
    while (kept > whole && digits[kept - 1] == '0') kept--;
  }
  memcpy(out, digits, whole);
  if (kept == whole) return whole;
  out[whole] = '.';
  memcpy(out + whole + 1, digits + whole, kept - whole);
  return kept + 1;
}

size_t kc_format_fixed(kc_i128 value, unsigned decimals, char *out)
{
  KC_ASSERT(decimals <= 18);
  KC_ASSERT(out != NULL);
  size_t length = 0;
  if (value < 0) out[length++] = '-';
  /* Negated as unsigned: the smallest value has no positive twin. */
  const kc_u128 magnitude = value < 0 ? -(kc_u128)value : (kc_u128)value;
  length += write_fixed(magnitude, decimals, true, out + length);
  out[length] = '\0';
  return length;
}

size_t kc_format_bytes(uint64_t bytes, unsigned digits, char *out)
{
  static const char *const unit_name[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  KC_ASSERT(digits <= 9);
  KC_ASSERT(out != NULL);
  uint64_t scale = 1;
  for (unsigned i = 0; i < digits; i++) scale *= 10;
  unsigned unit = 0;
  uint64_t scaled = bytes;
  while (unit < 6 && bytes >> (10 * (unit + 1)) > 0) unit++;
  if (unit > 0) {
    scaled = kc_muldiv_round(bytes, scale, UINT64_C(1) << (10 * unit));
    if (scaled == 1024 * scale && unit < 6) { /* 1023.999 MiB rounds up to the next unit */
      scaled = scale;
      unit++;
    }
  }
  size_t length = write_fixed(scaled, unit > 0 ? digits : 0, false, out);
  const size_t name_length = strlen(unit_name[unit]);
  memcpy(out + length, unit_name[unit], name_length + 1);
  return length + name_length;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
  const unsigned smaller = a < b ? a : b;
  return smaller < c ? smaller : c;
}

/* Wagner and Fischer, one row at a time: row[j] = distance of the first i characters of `a` from
 * the first j of `b`. */
unsigned kc_edit_distance(const char *a, const char *b)
{
  KC_ASSERT(a != NULL);
  KC_ASSERT(b != NULL);
  const size_t a_length = strnlen(a, EDIT_LENGTH_MAX);
  const size_t b_length = strnlen(b, EDIT_LENGTH_MAX);
  unsigned row[EDIT_LENGTH_MAX + 1];
  for (unsigned j = 0; j <= b_length; j++) row[j] = j;
  for (unsigned i = 1; i <= a_length; i++) {
    unsigned diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      const unsigned replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]) ? 1 : 0);
      diagonal = row[j];
      row[j] = min3(replaced, row[j] + 1, row[j - 1] + 1);
    }
  }
  return row[b_length];
}

unsigned kc_edit_reach(const char *typed)
{
  KC_ASSERT(typed != NULL);
  const size_t length = strlen(typed);
  return length <= 2 ? 1 : length <= 6 ? 2 : 3; /* two letters that changed places are 2 */
}
