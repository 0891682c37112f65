/* Calendar and decimal arithmetic of trace times, in integers throughout.
 *
 *   2023-11-16 18:17:03.9799600+01:00
 *   |--day---| |-clock-|--frac-|-zone-|
 *
 * strptime, mktime and strtod are not used: they know locales and time zones of the host, stop at
 * six or nine digits, or round. A reader that cut fractions to two digits once turned 1, 2, 9 and
 * 11 ms into 0, 0, 0 and 10 ms and so made bursts that never happened
 * (kubernetes-sigs/inference-perf, issue 782); here every digit that fits a picosecond counts.
 *
 * Days from civil: years start in March so that the leap day is the last of the year, and 400-year
 * eras all have 146,097 days. Nothing is owned; the memo belongs to the caller. */
#include "traces/readers/trace_time.h"

#include "traces/readers/short_digits.h"

enum {
  FRACTION_DIGITS_MAX = 12,
  ZONE_HOURS_MAX = 18,
  EXPONENT_MAX = 1000, /* beyond it a number is out of range or 0 whatever its digits */
  SECONDS_DIGITS_MAX = 18
};

static const int64_t power_of_ten[FRACTION_DIGITS_MAX + 1] = {
    1,        10,        100,        1000,        10000,        100000,       1000000,
    10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000};

const char *kc_time_fault_text(enum kc_time_fault fault)
{
  switch (fault) {
    case KC_TIME_OK: return "is fine";
    case KC_TIME_SHAPE: return "is not a time";
    case KC_TIME_DAY: return "names a day that the calendar does not have";
    case KC_TIME_CLOCK: return "names a time of day beyond 23:59:59";
    case KC_TIME_DIGITS: return "has more than 12 digits after the point (picoseconds)";
    case KC_TIME_ZONE: return "has a zone offset beyond 18:00";
    case KC_TIME_NEGATIVE: return "is negative";
    case KC_TIME_RANGE: return "is beyond 10^18 seconds";
  }
  return "is not a time";
}

int64_t kc_days_from_civil(int64_t year, unsigned month, unsigned day)
{
  KC_ASSERT(month >= 1 && month <= 12);
  KC_ASSERT(day >= 1 && day <= 31);
  const int64_t march_year = year - (month <= 2);
  const int64_t era = (march_year >= 0 ? march_year : march_year - 399) / 400;
  const int64_t year_of_era = march_year - era * 400;
  const int64_t day_of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468; /* 719,468 days from 0000-03-01 to 1970-01-01 */
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static unsigned two_digits(const char *text)
{
  return (unsigned)(text[0] - '0') * 10 + (unsigned)(text[1] - '0');
}

static bool all_digits(const char *text, size_t bytes)
{
  bool all = true;
  for (size_t i = 0; i < bytes; i++) all &= is_digit(text[i]);
  return all;
}

static unsigned days_of_month(unsigned year, unsigned month)
{
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap ? 29 : days[month - 1];
}

/* The ten bytes "YYYY-MM-DD" -> memo. */
static enum kc_time_fault read_day(struct kc_day_memo *memo, const char *text)
{
  if (memo->known && memcmp(memo->text, text, sizeof memo->text) == 0) return KC_TIME_OK;
  if (!all_digits(text, 4) || text[4] != '-' || !all_digits(text + 5, 2) || text[7] != '-' ||
      !all_digits(text + 8, 2)) {
    return KC_TIME_SHAPE;
  }
  const unsigned year = two_digits(text) * 100 + two_digits(text + 2);
  const unsigned month = two_digits(text + 5), day = two_digits(text + 8);
  if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) return KC_TIME_DAY;
  memo->seconds = kc_days_from_civil(year, month, day) * 86400;
  memcpy(memo->text, text, sizeof memo->text);
  memo->known = true;
  return KC_TIME_OK;
}

/* The eight bytes "hh:mm:ss" -> seconds of the day. */
static enum kc_time_fault read_clock(const char *text, int64_t *seconds)
{
  if (!all_digits(text, 2) || text[2] != ':' || !all_digits(text + 3, 2) || text[5] != ':' ||
      !all_digits(text + 6, 2)) {
    return KC_TIME_SHAPE;
  }
  const unsigned hour = two_digits(text), minute = two_digits(text + 3),
                 second = two_digits(text + 6);
  if (hour > 23 || minute > 59 || second > 59) return KC_TIME_CLOCK;
  *seconds = (int64_t)hour * 3600 + minute * 60 + second;
  return KC_TIME_OK;
}

/* The digits [first, end) -> picoseconds, when they are 1 to 8 and all digits and 8 bytes before
 * `end` belong to the cell: nearly always. False hands on to the digit-wise loop. */
static inline bool short_fraction(const char *cell, const char *first, const char *end,
                                  kc_ps *fraction)
{
  uint32_t value;
  const size_t digits = (size_t)(end - first);
  if (digits - 1 >= KC_SHORT_DIGITS_MAX || end - cell < 8) return false;
  if (!kc_short_digits(end, (uint32_t)digits, &value)) return false;
  *fraction = value * power_of_ten[FRACTION_DIGITS_MAX - digits];
  return true;
}

/* ".9799600" at *text -> picoseconds; nothing there is 0. Moves *text behind it.
 * `cell` is where the cell of *text starts. */
static inline enum kc_time_fault read_fraction(const char *cell, const char **text, const char *end,
                                               kc_ps *fraction)
{
  *fraction = 0;
  if (*text == end || **text != '.') return KC_TIME_OK;
  const char *const first = ++(*text);
  int64_t value = 0;
  if (short_fraction(cell, first, end, fraction)) {
    *text = end;
    return KC_TIME_OK;
  }
  while (*text < end && is_digit(**text)) {
    if (*text - first == FRACTION_DIGITS_MAX) return KC_TIME_DIGITS;
    value = value * 10 + (**text - '0');
    (*text)++;
  }
  if (*text == first) return KC_TIME_SHAPE;
  *fraction = value * power_of_ten[FRACTION_DIGITS_MAX - (*text - first)];
  return KC_TIME_OK;
}

/* "", "Z", "+hh", "+hhmm" or "+hh:mm" -> seconds east of UTC. */
static enum kc_time_fault read_zone(const char *text, size_t bytes, int64_t *east_s, bool *zoned)
{
  *east_s = 0;
  *zoned = bytes > 0;
  if (bytes == 0 || (bytes == 1 && (*text == 'Z' || *text == 'z'))) return KC_TIME_OK;
  const bool colon = bytes == 6 && text[3] == ':';
  const bool known = bytes == 3 || bytes == 5 || colon;
  if (!known || (text[0] != '+' && text[0] != '-') || !all_digits(text + 1, 2)) {
    return KC_TIME_SHAPE;
  }
  unsigned minutes = 0;
  if (bytes > 3) {
    const char *const minute_text = text + (colon ? 4 : 3);
    if (!all_digits(minute_text, 2)) return KC_TIME_SHAPE;
    minutes = two_digits(minute_text);
  }
  const unsigned hours = two_digits(text + 1);
  if (minutes > 59 || hours * 60 + minutes > ZONE_HOURS_MAX * 60) return KC_TIME_ZONE;
  const int64_t seconds = (int64_t)hours * 3600 + minutes * 60;
  *east_s = text[0] == '-' ? -seconds : seconds;
  return KC_TIME_OK;
}

enum kc_time_fault kc_time_parse_date(struct kc_day_memo *memo, const char *text, size_t bytes,
                                      struct kc_instant *out, bool *zoned)
{
  enum { DATE_BYTES = 10, CLOCK_AT = 11, CLOCK_END = 19 };
  int64_t clock_s = 0, east_s = 0;
  kc_ps fraction = 0;
  if (bytes < CLOCK_END) return KC_TIME_SHAPE;
  if (text[DATE_BYTES] != ' ' && text[DATE_BYTES] != 'T' && text[DATE_BYTES] != 't') {
    return KC_TIME_SHAPE;
  }
  enum kc_time_fault fault = read_day(memo, text);
  if (fault == KC_TIME_OK) fault = read_clock(text + CLOCK_AT, &clock_s);
  if (fault != KC_TIME_OK) return fault;
  const char *at = text + CLOCK_END;
  const char *const end = text + bytes;
  fault = read_fraction(text, &at, end, &fraction);
  if (fault == KC_TIME_OK) fault = read_zone(at, (size_t)(end - at), &east_s, zoned);
  if (fault != KC_TIME_OK) return fault;
  KC_ASSERT(fraction >= 0 && fraction < KC_PS_PER_S);
  *out = (struct kc_instant){memo->seconds + clock_s - east_s, fraction};
  return KC_TIME_OK;
}

/* A decimal number taken apart: the digits of "12.5e3" are "125", its point stands after digit
 * 5. */
struct decimal {
  const char *text;    /* digits with at most one '.' among them */
  int64_t whole;       /* digits before the '.' */
  int64_t digits;      /* all digits */
  int64_t point;       /* whole + exponent: digits [0, point) are the whole part of the value */
};

static unsigned decimal_digit(const struct decimal *number, int64_t index)
{
  if (index < 0 || index >= number->digits) return 0;
  return (unsigned)(number->text[index < number->whole ? index : index + 1] - '0');
}

/* "[+-]digits" of [at, end) -> *exponent, clamped. */
static bool read_exponent(const char *at, const char *end, int64_t *exponent)
{
  const bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end) return false;
  int64_t value = 0;
  for (; at < end; at++) {
    if (!is_digit(*at)) return false;
    value = value < EXPONENT_MAX ? value * 10 + (*at - '0') : value;
  }
  if (value > EXPONENT_MAX) value = EXPONENT_MAX;
  *exponent = negative ? -value : value;
  return true;
}

/* digits [ '.' digits ] [ e exponent ], each part with at least one digit. */
static bool read_decimal(const char *text, size_t bytes, struct decimal *number)
{
  const char *at = text;
  const char *const end = text + bytes;
  while (at < end && is_digit(*at)) at++;
  *number = (struct decimal){text, at - text, at - text, 0};
  if (number->whole == 0) return false;
  if (at < end && *at == '.') {
    const char *const first = ++at;
    while (at < end && is_digit(*at)) at++;
    if (at == first) return false;
    number->digits += at - first;
  }
  int64_t exponent = 0;
  if (at < end && (*at == 'e' || *at == 'E')) {
    if (!read_exponent(at + 1, end, &exponent)) return false;
    at = end;
  }
  number->point = number->whole + exponent;
  return at == end;
}

/* The general case: any number of digits, an exponent, rounding. O(digits). */
static enum kc_time_fault decimal_seconds(const struct decimal *number, struct kc_instant *out,
                                          bool *rounded)
{
  int64_t seconds = 0;
  kc_ps fraction = 0;
  for (int64_t i = 0; i < number->point; i++) {
    if (seconds >= 100000 * KC_PS_PER_S) return KC_TIME_RANGE; /* one more digit is 10^18 */
    seconds = seconds * 10 + decimal_digit(number, i);
  }
  const int64_t below = number->point + FRACTION_DIGITS_MAX; /* the first digit that is too fine */
  for (int64_t i = number->point; i < below; i++) {
    fraction = fraction * 10 + decimal_digit(number, i);
  }
  *rounded = false;
  for (int64_t i = below > 0 ? below : 0; i < number->digits && !*rounded; i++) {
    *rounded = decimal_digit(number, i) != 0;
  }
  if (decimal_digit(number, below) >= 5) fraction++;
  if (fraction == KC_PS_PER_S) {
    fraction = 0;
    seconds++;
  }
  *out = (struct kc_instant){seconds, fraction};
  return KC_TIME_OK;
}

/* Nearly every time of a log: 1 to 7 digits, a point, 1 to 8 digits, in no fewer than 8 bytes. No
 * loop, because its turns would vary from row to row. */
static inline bool short_seconds(const char *text, size_t bytes, struct kc_instant *out)
{
  uint32_t seconds, fraction;
  if (bytes < 8 || bytes > 2 * KC_SHORT_DIGITS_MAX) return false;
  const uint64_t head = kc_load_8(text);
  const uint32_t whole = kc_word_find(head, '.');
  const uint32_t digits = (uint32_t)bytes - whole - 1;
  if (whole - 1 >= KC_SHORT_DIGITS_MAX - 1 || digits - 1 >= KC_SHORT_DIGITS_MAX) return false;
  if (!kc_word_digits(head << (64 - 8 * whole), whole, &seconds)) return false;
  if (!kc_short_digits(text + bytes, digits, &fraction)) return false;
  *out = (struct kc_instant){seconds, fraction * power_of_ten[FRACTION_DIGITS_MAX - digits]};
  return true;
}

/* The common case "digits.digits" that fits without rounding; false hands on to the general one. */
static bool plain_seconds(const char *text, size_t bytes, struct kc_instant *out)
{
  const char *at = text;
  const char *const end = text + bytes;
  int64_t seconds = 0;
  kc_ps fraction = 0;
  while (at < end && is_digit(*at) && at - text < SECONDS_DIGITS_MAX) {
    seconds = seconds * 10 + (*at++ - '0');
  }
  if (at == text || read_fraction(text, &at, end, &fraction) != KC_TIME_OK) return false;
  if (at != end) return false;
  *out = (struct kc_instant){seconds, fraction};
  return true;
}

/* The common case of other units: digits alone, as many as surely fit. */
static bool plain_whole(const char *text, size_t bytes, unsigned scale, struct kc_instant *out)
{
  int64_t value = 0;
  if (bytes == 0 || bytes > SECONDS_DIGITS_MAX) return false;
  for (size_t i = 0; i < bytes; i++) {
    if (!is_digit(text[i])) return false;
    value = value * 10 + (text[i] - '0');
  }
  const int64_t per_second = power_of_ten[scale];
  *out = (struct kc_instant){value / per_second,
                             value % per_second * power_of_ten[FRACTION_DIGITS_MAX - scale]};
  return true;
}

static enum kc_time_fault any_decimal(const char *text, size_t bytes, unsigned scale,
                                      struct kc_instant *out, bool *rounded)
{
  struct decimal number;
  const bool negative = bytes > 0 && text[0] == '-';
  if (!read_decimal(text + negative, bytes - negative, &number)) return KC_TIME_SHAPE;
  number.point -= scale;
  const enum kc_time_fault fault = decimal_seconds(&number, out, rounded);
  if (fault != KC_TIME_OK) return fault;
  const bool zero = out->seconds == 0 && out->fraction_ps == 0 && !*rounded;
  return negative && !zero ? KC_TIME_NEGATIVE : KC_TIME_OK;
}

enum kc_time_fault kc_time_parse_seconds(const char *text, size_t bytes, struct kc_instant *out,
                                         bool *rounded)
{
  *rounded = false;
  if (short_seconds(text, bytes, out) || plain_seconds(text, bytes, out)) return KC_TIME_OK;
  return any_decimal(text, bytes, 0, out, rounded);
}

enum kc_time_fault kc_time_parse_scaled(const char *text, size_t bytes, unsigned scale,
                                        struct kc_instant *out, bool *rounded)
{
  KC_ASSERT(scale <= FRACTION_DIGITS_MAX);
  if (scale == 0) return kc_time_parse_seconds(text, bytes, out, rounded);
  *rounded = false;
  if (plain_whole(text, bytes, scale, out)) return KC_TIME_OK;
  return any_decimal(text, bytes, scale, out, rounded);
}

bool kc_instant_minus(const struct kc_instant *a, const struct kc_instant *b, kc_ps *out)
{
  int64_t seconds, whole_ps;
  KC_ASSERT(a->fraction_ps >= 0 && a->fraction_ps < KC_PS_PER_S);
  KC_ASSERT(b->fraction_ps >= 0 && b->fraction_ps < KC_PS_PER_S);
  if (__builtin_sub_overflow(a->seconds, b->seconds, &seconds)) return false;
  if (__builtin_mul_overflow(seconds, KC_PS_PER_S, &whole_ps)) return false;
  return !__builtin_add_overflow(whole_ps, a->fraction_ps - b->fraction_ps, out);
}
