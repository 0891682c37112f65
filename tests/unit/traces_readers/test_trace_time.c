/* Times of trace rows: the calendar against the C library's own, digits against hand-computed
 * picoseconds and against a naive long division. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "traces/readers/trace_time.h"

/* Every day of the years 1 to 9999 against timegm, which knows the calendar from elsewhere. */
static void calendar_agrees_with_the_c_library(void **state)
{
  (void)state;
  struct tm day;
  const time_t first = INT64_C(-62135596800); /* 0001-01-01 */
  for (int64_t i = 0; i < 3652059; i++) {
    const time_t at = first + (time_t)i * 86400;
    assert_non_null(gmtime_r(&at, &day));
    const int64_t days = kc_days_from_civil(day.tm_year + 1900, (unsigned)day.tm_mon + 1,
                                            (unsigned)day.tm_mday);
    if (days * 86400 != at) {
      fail_msg("%04d-%02d-%02d: day %" PRId64 ", expected %" PRId64, day.tm_year + 1900,
               day.tm_mon + 1, day.tm_mday, days, (int64_t)(at / 86400));
    }
  }
}

/* Random instants printed by the C library, read back with random fraction lengths and zones. */
static void dates_agree_with_the_c_library(void **state)
{
  (void)state;
  struct kc_random random;
  struct kc_day_memo memo = {0};
  kc_random_init(&random, 4, "dates", 0);
  for (int step = 0; step < 50000; step++) {
    const int64_t seconds = (int64_t)kc_random_below(&random, UINT64_C(8000000000)) - 2000000000;
    const int64_t east_minutes = (int64_t)kc_random_below(&random, 2161) - 1080;
    const unsigned digits = (unsigned)kc_random_below(&random, 13);
    const time_t local = (time_t)(seconds + east_minutes * 60);
    struct tm parts;
    char text[96], fraction[16] = ".";
    int64_t fraction_ps = 0;
    assert_non_null(gmtime_r(&local, &parts));
    for (unsigned i = 0; i < 12; i++) {
      const unsigned digit = i < digits ? (unsigned)kc_random_below(&random, 10) : 0;
      fraction_ps = fraction_ps * 10 + digit;
      if (i < digits) fraction[1 + i] = (char)('0' + digit);
    }
    fraction[digits == 0 ? 0 : digits + 1] = '\0';
    const int64_t east = east_minutes < 0 ? -east_minutes : east_minutes;
    const int length = snprintf(
        text, sizeof text, "%04d-%02d-%02d%c%02d:%02d:%02d%s%c%02d%s%02d", parts.tm_year + 1900,
        parts.tm_mon + 1, parts.tm_mday, step % 2 ? ' ' : 'T', parts.tm_hour, parts.tm_min,
        parts.tm_sec, fraction, east_minutes < 0 ? '-' : '+', (int)(east / 60),
        step % 3 ? ":" : "", (int)(east % 60));
    struct kc_instant instant;
    bool zoned;
    const enum kc_time_fault fault =
        kc_time_parse_date(&memo, text, (size_t)length, &instant, &zoned);
    if (fault != KC_TIME_OK || instant.seconds != seconds || instant.fraction_ps != fraction_ps ||
        !zoned) {
      fail_msg("seed 4 step %d: %s: fault %d, %" PRId64 " s %" PRId64 " ps; expected %" PRId64
               " s %" PRId64 " ps", step, text, (int)fault, instant.seconds, instant.fraction_ps,
               seconds, fraction_ps);
    }
  }
}

struct seconds_case {
  const char *text;
  int64_t seconds;
  kc_ps fraction_ps;
  bool rounded;
};

static void seconds_by_hand(void **state)
{
  (void)state;
  static const struct seconds_case cases[] = {
      {"0", 0, 0, false},
      {"-0", 0, 0, false},
      {"-0.000", 0, 0, false},
      {"0.052", 0, 52000000000, false},
      {"98.189", 98, 189000000000, false},
      {"007.50", 7, 500000000000, false},
      {"0.000000000001", 0, 1, false},
      {"0.0000000000010", 0, 1, false},
      {"0.0000000000014", 0, 1, true},
      {"0.0000000000015", 0, 2, true},
      {"0.0000000000004999999999999", 0, 0, true},
      {"0.9999999999995", 1, 0, true},
      {"98.18900000000001", 98, 189000000000, true},
      {"1e-05", 0, 10000000, false},
      {"1.5E-5", 0, 15000000, false},
      {"1.25e2", 125, 0, false},
      {"1.25e+1", 12, 500000000000, false},
      {"0e999", 0, 0, false},
      {"1e-999999999999", 0, 0, true},
      {"12345e-15", 0, 12, true},
      {"999999999999999999.999999999999", 999999999999999999, 999999999999, false},
      {"1777142984.5786855", 1777142984, 578685500000, false},
      {"00000000000000000000000000000001.5", 1, 500000000000, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_instant instant = {-1, -1};
    bool rounded;
    const enum kc_time_fault fault =
        kc_time_parse_seconds(cases[i].text, strlen(cases[i].text), &instant, &rounded);
    if (fault != KC_TIME_OK || instant.seconds != cases[i].seconds ||
        instant.fraction_ps != cases[i].fraction_ps || rounded != cases[i].rounded) {
      fail_msg("%s: fault %d, %" PRId64 " s %" PRId64 " ps, rounded %d; expected %" PRId64
               " s %" PRId64 " ps, rounded %d", cases[i].text, (int)fault, instant.seconds,
               instant.fraction_ps, rounded, cases[i].seconds, cases[i].fraction_ps,
               cases[i].rounded);
    }
  }
}

/* The same value written plainly and with an exponent takes the two code paths. */
static void plain_and_exponent_forms_agree(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 5, "seconds", 0);
  for (int step = 0; step < 50000; step++) {
    const uint64_t whole = kc_random_below(&random, 100000000);
    const uint64_t fraction = kc_random_below(&random, UINT64_C(1000000000000));
    char plain[64], shifted[64];
    snprintf(plain, sizeof plain, "%" PRIu64 ".%012" PRIu64, whole, fraction);
    snprintf(shifted, sizeof shifted, "%" PRIu64 "%012" PRIu64 "e-12", whole, fraction);
    struct kc_instant a, b;
    bool rounded_a, rounded_b;
    assert_int_equal(kc_time_parse_seconds(plain, strlen(plain), &a, &rounded_a), KC_TIME_OK);
    assert_int_equal(kc_time_parse_seconds(shifted, strlen(shifted), &b, &rounded_b), KC_TIME_OK);
    assert_false(rounded_a || rounded_b);
    assert_int_equal(a.seconds, whole);
    assert_int_equal(a.fraction_ps, fraction);
    assert_int_equal(b.seconds, whole);
    assert_int_equal(b.fraction_ps, fraction);
  }
}

/* digits [ '.' digits ], a byte at a time. */
static bool naive_seconds(const char *text, struct kc_instant *out)
{
  kc_ps unit = KC_PS_PER_S;
  size_t digits = 0;
  *out = (struct kc_instant){0, 0};
  for (; *text >= '0' && *text <= '9'; text++, digits++) {
    out->seconds = out->seconds * 10 + (*text - '0');
  }
  if (digits == 0 || *text == '\0') return digits > 0;
  if (*text++ != '.' || *text == '\0') return false;
  for (; *text >= '0' && *text <= '9'; text++) {
    unit /= 10;
    out->fraction_ps += unit * (*text - '0');
  }
  return *text == '\0';
}

/* Every number of digits before and after the point, now and then with a byte that does not belong
 * there; each cell has memory of its own. */
static void cells_of_any_length(void **state)
{
  (void)state;
  static const char odd[] = "/:.x -+\x80";
  struct kc_random random;
  kc_random_init(&random, 6, "seconds", 0);
  for (int step = 0; step < 200000; step++) {
    const size_t whole = (size_t)kc_random_below(&random, 11);
    const size_t digits = (size_t)kc_random_below(&random, 13);
    const size_t bytes = whole + (digits > 0 ? 1 + digits : 0);
    char *const cell = malloc(bytes + 1);
    struct kc_instant instant = {-1, -1}, expected = {0, 0};
    bool rounded;
    assert_non_null(cell);
    for (size_t i = 0; i < bytes; i++) cell[i] = (char)('0' + kc_random_below(&random, 10));
    if (digits > 0) cell[whole] = '.';
    if (bytes > 0 && kc_random_below(&random, 4) == 0) {
      cell[kc_random_below(&random, bytes)] = odd[kc_random_below(&random, sizeof odd - 1)];
    }
    cell[bytes] = '\0';
    const bool valid = cell[0] != '-' && naive_seconds(cell, &expected);
    const enum kc_time_fault fault = kc_time_parse_seconds(cell, bytes, &instant, &rounded);
    const bool same = fault == KC_TIME_OK && instant.seconds == expected.seconds &&
                      instant.fraction_ps == expected.fraction_ps;
    if (cell[0] != '-' && valid != same) {
      fail_msg("seed 6, step %d: \"%s\": fault %d, %" PRId64 " s %" PRId64 " ps", step, cell,
               (int)fault, instant.seconds, instant.fraction_ps);
    }
    free(cell);
  }
}

static void differences_fit_or_say_so(void **state)
{
  (void)state;
  kc_ps distance;
  const struct kc_instant zero = {0, 0}, longest = {9223372, 36854775807},
                          beyond = {9223372, 36854775808}, dawn = {INT64_MIN, 0};
  assert_true(kc_instant_minus(&longest, &zero, &distance));
  assert_int_equal(distance, INT64_MAX / 1000000 * 1000000 + 775807);
  assert_false(kc_instant_minus(&beyond, &zero, &distance));
  assert_false(kc_instant_minus(&zero, &dawn, &distance));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calendar_agrees_with_the_c_library),
      cmocka_unit_test(dates_agree_with_the_c_library),
      cmocka_unit_test(seconds_by_hand),
      cmocka_unit_test(plain_and_exponent_forms_agree),
      cmocka_unit_test(cells_of_any_length),
      cmocka_unit_test(differences_fit_or_say_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
