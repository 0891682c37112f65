/* Strict numbers: tables of what is taken and what is refused, exactness, and the way back. */
#include "engine/base/number.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/random.h"
#include "tests/unit/engine_base/expect_abort.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The text goes to the parser in a block of exactly its length, so that a read past the end is
 * seen by the address sanitizer. */
static char *exact_copy(const char *text)
{
  const size_t length = strlen(text);
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, text, length);
  return copy;
}

#define DEFINE_PARSE(type, name)                               \
  static bool try_##name(const char *text, type *out)          \
  {                                                            \
    char *copy = exact_copy(text);                             \
    const bool ok = kc_parse_##name(copy, strlen(text), out);  \
    free(copy);                                                \
    return ok;                                                 \
  }

DEFINE_PARSE(uint64_t, u64)
DEFINE_PARSE(int64_t, i64)
DEFINE_PARSE(uint64_t, bytes)
DEFINE_PARSE(double, double)
DEFINE_PARSE(kc_ps, duration)
DEFINE_PARSE(bool, bool)

struct u64_row {
  const char *text;
  uint64_t value;
};

static const struct u64_row counts_taken[] = {
    {"0", 0},
    {"1", 1},
    {"007", 7},
    {"42", 42},
    {"18446744073709551615", UINT64_MAX},
    {"18446744073709551615.000", UINT64_MAX},
    {"1e3", 1000},
    {"1E3", 1000},
    {"1e+3", 1000},
    {"1000e-3", 1},
    {"1.5e1", 15},
    {"0e0", 0},
    {"0e99999", 0},
    {"1e19", UINT64_C(10000000000000000000)},
    {"1.8446744073709551615e19", UINT64_MAX},
    {"0.000000000000000000001e21", 1},
    {"2.0", 2},
    {"2.00000000000000000000000000000000000000000000000000", 2},
    {"00000000000000000000000000000000000000000000000000002", 2},
    {"1k", 1000},
    {"2.5k", 2500},
    {"1M", 1000000},
    {"1G", 1000000000},
    {"1T", UINT64_C(1000000000000)},
    {"1Ki", 1024},
    {"1.5Ki", 1536},
    {"0.5Ki", 512},
    {"0.0009765625Ki", 1},
    {"1Mi", 1048576},
    {"1Gi", 1073741824},
    {"1Ti", UINT64_C(1099511627776)},
    {"15.9990234375Ki", 16383},
    {"18446744.073709551615T", UINT64_MAX},
    {"1e3k", 1000000},
    {"1000000000000000000000e-20k", 10000},
};

static const char *const counts_refused[] = {
    "", " ", " 1", "1 ", "1 k", "+1", "-1", "-0", "1_000", "1,000", "1.", ".5", "1.5", "0.1",
    "1..0", "1.0.0", "e3", "1e", "1e+", "1e-1", "1.55e1", "0x10", "0b1", "1e30",
    "18446744073709551616", "18446744073709551615.5", "1e20",
    "99999999999999999999999999999999999999999999", "20000000Ti", "1.0001Ki", "0.3Ki", "1K", "1KI",
    "1ki", "1mi", "1m", "1kk", "1kB", "k", "Ki", "nan", "NaN", "inf", "Infinity", "1e100001",
    "1e99999999999999999999", "1e-100001", "one", "1a", "1\n", "1\t", "\xef\xbb\xbf\x31",
    "1\xc2\xa0", "\xd9\xa1", "1d", "1f", "1u", "1L", "0x", "1e3.0", "--1", "1-", "1/2", "50%",
    "0.00000000000000000000000000000000000000000000000001",
    "1.00000000000000000000000000000000000000000000000001",
    "18446744073709551615.0000000000000000000000000000000001",
};

static void counts(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(counts_taken); i++) {
    uint64_t value = 77;
    if (!try_u64(counts_taken[i].text, &value)) fail_msg("\"%s\" refused", counts_taken[i].text);
    if (value != counts_taken[i].value) fail_msg("\"%s\": %" PRIu64, counts_taken[i].text, value);
  }
  for (size_t i = 0; i < COUNT_OF(counts_refused); i++) {
    uint64_t value = 77;
    if (try_u64(counts_refused[i], &value)) fail_msg("\"%s\" taken", counts_refused[i]);
    assert_true(value == 77); /* untouched */
  }
}

/* A number may have 38 significant digits; zeros at either end do not count. */
static void digits_have_a_ceiling(void **state)
{
  (void)state;
  uint64_t value = 77;
  /* (2^64 - 1) / 2^40 exactly: refused for its 48 digits. */
  assert_false(try_u64("16777215.9999999999990905052982270717620849609375Ti", &value));
  assert_int_equal(value, 77);
  /* 2^88 Ti is 2^128, which 128-bit arithmetic takes for 0. */
  assert_false(try_u64("309485009821345068724781056Ti", &value));
  assert_int_equal(value, 77);
  /* (2^30 + 1) / 2^30 has 31 digits: taken. */
  assert_true(try_u64("1.000000000931322574615478515625Gi", &value));
  assert_int_equal(value, 1073741825);
}

static void a_terminator_inside_is_not_an_end(void **state)
{
  (void)state;
  uint64_t value = 77;
  double real = 77;
  assert_false(kc_parse_u64("1\0", 2, &value));
  assert_false(kc_parse_u64("1k\0", 3, &value));
  assert_false(kc_parse_double("1\0", 2, &real));
  assert_true(kc_parse_u64("123456", 3, &value)); /* and a length ends the text without one */
  assert_int_equal(value, 123);
  assert_false(kc_parse_u64(NULL, 0, &value));
}

struct i64_row {
  const char *text;
  int64_t value;
};

static const struct i64_row integers_taken[] = {
    {"0", 0},
    {"-0", 0},
    {"-1", -1},
    {"-1e3", -1000},
    {"-2.5k", -2500},
    {"9223372036854775807", INT64_MAX},
    {"-9223372036854775807", -INT64_MAX},
    {"-9223372036854775808", INT64_MIN},
    {"-8388608Ti", INT64_MIN},
};

static const char *const integers_refused[] = {
    "", "-", "--1", "- 1", "+1", "9223372036854775808", "-9223372036854775809", "8388608Ti", "1-",
    "-1.5", "-.5", "-k", "-inf", "18446744073709551615",
};

static void integers(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(integers_taken); i++) {
    int64_t value = 77;
    if (!try_i64(integers_taken[i].text, &value)) fail_msg("\"%s\"", integers_taken[i].text);
    if (value != integers_taken[i].value) {
      fail_msg("\"%s\": %" PRId64, integers_taken[i].text, value);
    }
  }
  for (size_t i = 0; i < COUNT_OF(integers_refused); i++) {
    int64_t value = 77;
    if (try_i64(integers_refused[i], &value)) fail_msg("\"%s\" taken", integers_refused[i]);
    assert_true(value == 77);
  }
}

static const struct u64_row bytes_taken[] = {
    {"0", 0},
    {"0B", 0},
    {"60129542144", UINT64_C(60129542144)},
    {"56GiB", UINT64_C(60129542144)},
    {"56 GiB", UINT64_C(60129542144)},
    {"56Gi", UINT64_C(60129542144)},
    {"56 Gi", UINT64_C(60129542144)},
    {"80GB", UINT64_C(80000000000)},
    {"80G", UINT64_C(80000000000)},
    {"1kB", 1000},
    {"12 B", 12},
    {"1e3B", 1000},
    {"71.75GiB", UINT64_C(77040975872)}, /* 71.75 * 2^30 */
    {"16777215TiB", UINT64_C(18446742974197923840)},
};

static const char *const bytes_refused[] = {
    "", "B", "GiB", " 1", "1 ", "1  B", "1B ", "1BB", "1b", "56gib", "56GIB", "1KB", "1KiBB",
    "1 .5GiB", "-1", "-1B", "+1B", "1.5", "1.5B", "0.1GiB", "16777216TiB", "1PiB", "1 GiB/s", "1Bi",
    "1GBi",
};

static void bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bytes_taken); i++) {
    uint64_t value = 77;
    if (!try_bytes(bytes_taken[i].text, &value)) fail_msg("\"%s\" refused", bytes_taken[i].text);
    if (value != bytes_taken[i].value) fail_msg("\"%s\": %" PRIu64, bytes_taken[i].text, value);
  }
  for (size_t i = 0; i < COUNT_OF(bytes_refused); i++) {
    uint64_t value = 77;
    if (try_bytes(bytes_refused[i], &value)) fail_msg("\"%s\" taken", bytes_refused[i]);
    assert_true(value == 77);
  }
}

struct double_row {
  const char *text;
  double value; /* as a hexadecimal literal where the decimal is not exact */
};

static const struct double_row doubles_taken[] = {
    {"0", 0},
    {"-0", 0},
    {"1", 1},
    {"-2", -2},
    {"0.5", 0.5},
    {"0.85", 0x1.b333333333333p-1},
    {"0.1", 0x1.999999999999ap-4},
    {"1e-3", 0x1.0624dd2f1a9fcp-10},
    {"1E+2", 100},
    {"1e23", 0x1.52d02c7e14af6p+76},                  /* a hair below the half-way point */
    {"9007199254740993", 0x1p53},                     /* 2^53 + 1: a tie, to even */
    {"9007199254740993.0000000000000000001", 0x1.0000000000001p53}, /* and just past it */
    {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
    {"4.9e-324", 0x1p-1074},
    {"1e-999", 0},
    {"1.7976931348623157e308", 0x1.fffffffffffffp1023},
};

static const char *const doubles_refused[] = {
    "", "-", "+1", ".5", "5.", "1e", "1e+", "e5", "1e5.", "0x1p3", "0x10", "inf", "-inf",
    "infinity", "nan", "NAN", "nan(1)", "1e309", "-1e309", "1e999999999999", " 1", "1 ", "1,5",
    "1_0", "1f", "1d", "--1", "1.2.3", "0.5k", "1%",
};

static void doubles(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(doubles_taken); i++) {
    double value = 77;
    if (!try_double(doubles_taken[i].text, &value)) fail_msg("\"%s\"", doubles_taken[i].text);
    if (memcmp(&value, &doubles_taken[i].value, sizeof value) != 0) { /* -0 is not 0 here */
      fail_msg("\"%s\": %a", doubles_taken[i].text, value);
    }
  }
  for (size_t i = 0; i < COUNT_OF(doubles_refused); i++) {
    double value = 77;
    if (try_double(doubles_refused[i], &value)) fail_msg("\"%s\" taken", doubles_refused[i]);
    assert_true(value == 77);
  }
}

static void a_long_double_text_has_a_bound(void **state)
{
  (void)state;
  char text[131];
  double value = 77;
  memset(text, '0', sizeof text);
  text[127] = '3';
  assert_true(kc_parse_double(text, 128, &value));
  assert_true(value == 3);
  assert_false(kc_parse_double(text, 129, &value));
}

/* A host program may have set a locale in which the point is a comma. Skipped where none exists. */
static void the_locale_does_not_matter(void **state)
{
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "da_DK.UTF-8"};
  const char *found = NULL;
  for (size_t i = 0; i < COUNT_OF(names) && found == NULL; i++) {
    found = setlocale(LC_ALL, names[i]);
  }
  double value = 77;
  const bool point = try_double("0.5", &value);
  const bool comma = try_double("0,5", &(double){0});
  (void)setlocale(LC_ALL, "C");
  assert_true(point);
  assert_true(value == 0.5);
  assert_false(comma);
  if (found == NULL) skip();
}

struct ps_row {
  const char *text;
  kc_ps value;
};

static const struct ps_row durations_taken[] = {
    {"0", 0},
    {"0s", 0},
    {"1ps", 1},
    {"1ns", 1000},
    {"1.5ns", 1500},
    {"3us", INT64_C(3000000)},
    {"10ms", INT64_C(10000000000)},
    {"10 ms", INT64_C(10000000000)},
    {"2.5 s", INT64_C(2500000000000)},
    {"1e3ms", INT64_C(1000000000000)},
    {"1e-12s", 1},
    {"0.000000000001s", 1},
    {"1.000000000001s", INT64_C(1000000000001)},
    {"1.0000000000010000s", INT64_C(1000000000001)},
    {"1min", INT64_C(60000000000000)},
    {"0.5h", INT64_C(1800000000000000)},
    {"1d", INT64_C(86400000000000000)},
    {"106d", INT64_C(9158400000000000000)},
    {"9223372.036854775806s", INT64_MAX - 1},
};

static const char *const durations_refused[] = {
    "", "1", "0.0", "00", "s", "ms", "-1s", "+1s", "1 ", "1  s", " 1s", "1s ", "1.s", ".5s", "1m",
    "1S", "1sec", "1MS", "1Ms", "1msec", "1hours", "1h30min", "1:30", "0.5ps", "1.0000000000001s",
    "1e-13s", "107d", "9223372.036854775807s", "1e30s", "infs", "nans", "1ks", "1\xc2\xb5s",
};

static void durations(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(durations_taken); i++) {
    kc_ps value = 77;
    if (!try_duration(durations_taken[i].text, &value)) fail_msg("\"%s\"", durations_taken[i].text);
    if (value != durations_taken[i].value) {
      fail_msg("\"%s\": %" PRId64, durations_taken[i].text, value);
    }
  }
  for (size_t i = 0; i < COUNT_OF(durations_refused); i++) {
    kc_ps value = 77;
    if (try_duration(durations_refused[i], &value)) fail_msg("\"%s\" taken", durations_refused[i]);
    assert_true(value == 77);
  }
}

struct decimal_row {
  const char *text;
  kc_ps unit;
  kc_ps value;
};

static const struct decimal_row decimals_taken[] = {
    {"0.052", KC_PS_PER_S, INT64_C(52000000000)},
    {"0", KC_PS_PER_S, 0},
    {"-0.0", KC_PS_PER_S, 0},
    {"12", KC_PS_PER_MS, INT64_C(12000000000)},
    {"-1.5", KC_PS_PER_S, -INT64_C(1500000000000)},
    {"3.000000000001", KC_PS_PER_S, INT64_C(3000000000001)},
    {"3.0000000000010000000000000000000000", KC_PS_PER_S, INT64_C(3000000000001)},
    {"0000000000000000000000000000000000000012.50", KC_PS_PER_NS, 12500},
    {"7.000", 1, 7},
    {"9223372.036854775806", KC_PS_PER_S, INT64_MAX - 1},
    {"-9223372.036854775806", KC_PS_PER_S, -(INT64_MAX - 1)},
    {"9", INT64_C(1000000000000000000), INT64_C(9000000000000000000)},
};

static const char *const decimals_refused[] = {
    "", "-", "+1", " 1", "1 ", "1.", ".5", "-.5", "1e3", "1.0e0", "0x1", "1,5", "1.2.3", "1s",
    "nan", "inf", "--1", "0.0000000000001", "1.0000000000005", "9223372.036854775807", "9223373",
    "18446744073709551616", "99999999999999999999999999", "2023-11-16", "12:00",
};

static void decimal_seconds(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(decimals_taken); i++) {
    const struct decimal_row row = decimals_taken[i];
    char *copy = exact_copy(row.text);
    kc_ps value = 77;
    const bool ok = kc_parse_decimal_ps(copy, strlen(row.text), row.unit, &value);
    free(copy);
    if (!ok || value != row.value) fail_msg("\"%s\": %d %" PRId64, row.text, ok, value);
  }
  for (size_t i = 0; i < COUNT_OF(decimals_refused); i++) {
    char *copy = exact_copy(decimals_refused[i]);
    kc_ps value = 77;
    const bool ok = kc_parse_decimal_ps(copy, strlen(decimals_refused[i]), KC_PS_PER_S, &value);
    free(copy);
    if (ok) fail_msg("\"%s\" taken", decimals_refused[i]);
    assert_true(value == 77);
  }
}

static void booleans(void **state)
{
  (void)state;
  static const char *const refused[] = {"", "True", "TRUE", "yes", "no", "on", "1", "0",
                                        "true ", " true", "tru", "falsey", "fals"};
  bool value = false;
  assert_true(try_bool("true", &value));
  assert_true(value);
  assert_true(try_bool("false", &value));
  assert_false(value);
  for (size_t i = 0; i < COUNT_OF(refused); i++) {
    value = true;
    if (try_bool(refused[i], &value)) fail_msg("\"%s\" taken", refused[i]);
    assert_true(value);
  }
}

struct fixed_row {
  uint64_t high, low; /* two's complement, 128 bits */
  unsigned decimals;
  const char *text;
};

/* 2^127 = 170141183460469231731687303715884105728, from any table of powers of two. */
static const struct fixed_row fixed[] = {
    {0, 0, 0, "0"},
    {0, 0, 18, "0"},
    {0, 1, 0, "1"},
    {0, 1, 1, "0.1"},
    {0, 1, 18, "0.000000000000000001"},
    {0, 125, 1, "12.5"},
    {0, 1250, 2, "12.5"},
    {0, 1200, 2, "12"},
    {0, 1200, 0, "1200"},
    {0, 1000000000000, 12, "1"},
    {0, 52000000000, 12, "0.052"},
    {UINT64_MAX, (uint64_t)-25, 2, "-0.25"},
    {UINT64_MAX, (uint64_t)-1, 0, "-1"},
    {UINT64_MAX, (uint64_t)-100, 2, "-1"},
    {UINT64_MAX, (uint64_t)-1, 18, "-0.000000000000000001"},
    {0, UINT64_MAX, 0, "18446744073709551615"},
    {1, 0, 0, "18446744073709551616"},
    {1, 0, 3, "18446744073709551.616"},
    {UINT64_MAX >> 1, UINT64_MAX, 0, "170141183460469231731687303715884105727"},
    {UINT64_MAX >> 1, UINT64_MAX, 18, "170141183460469231731.687303715884105727"},
    {UINT64_C(1) << 63, 0, 0, "-170141183460469231731687303715884105728"},
    {UINT64_C(1) << 63, 0, 18, "-170141183460469231731.687303715884105728"},
    {UINT64_C(1) << 63, 0, 1, "-17014118346046923173168730371588410572.8"},
};

static void fixed_point_text(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(fixed); i++) {
    char out[48];
    const kc_i128 value = (kc_i128)((kc_u128)fixed[i].high << 64 | fixed[i].low);
    const size_t length = kc_format_fixed(value, fixed[i].decimals, out);
    assert_string_equal(out, fixed[i].text);
    assert_int_equal(length, strlen(fixed[i].text));
  }
}

/* What is written can be read again, and 64-bit integers agree with the C library. */
static void fixed_point_text_reads_back(void **state)
{
  (void)state;
  uint64_t draws = 31;
  for (unsigned i = 0; i < 100000; i++) {
    const uint64_t bits = kc_splitmix64(&draws) >> (i % 62);
    const int64_t value = (int64_t)(bits >> 2) * ((i & 1) != 0 ? -1 : 1);
    char out[48];
    char expected[48];
    kc_ps parsed = 0;
    const size_t length = kc_format_fixed(value, 12, out);
    assert_true(kc_parse_decimal_ps(out, length, KC_PS_PER_S, &parsed));
    if (parsed != value) fail_msg("step %u: %s is not %" PRId64, i, out, value);
    (void)kc_format_fixed(value, 0, out);
    (void)snprintf(expected, sizeof expected, "%" PRId64, value);
    assert_string_equal(out, expected);
  }
}

struct bytes_row {
  uint64_t bytes;
  unsigned digits;
  const char *text;
};

static const struct bytes_row sizes[] = {
    {0, 2, "0 B"},
    {1, 2, "1 B"},
    {1023, 2, "1023 B"},
    {1024, 2, "1.00 KiB"},
    {1536, 1, "1.5 KiB"},
    {1536, 0, "2 KiB"},                                /* half up */
    {UINT64_C(48211007898), 2, "44.90 GiB"},           /* 44.90000...: 44.9 * 2^30, cut */
    {UINT64_C(60129542144), 0, "56 GiB"},
    {1048575, 2, "1.00 MiB"},                          /* not "1024.00 KiB" */
    {UINT64_C(1099511627776), 2, "1.00 TiB"},
    {UINT64_C(1125899906842624), 2, "1.00 PiB"},
    {UINT64_C(1152921504606846976), 9, "1.000000000 EiB"},
    {UINT64_MAX, 2, "16.00 EiB"},
    {UINT64_MAX, 9, "16.000000000 EiB"},
};

static void binary_sizes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char out[48];
    const size_t length = kc_format_bytes(sizes[i].bytes, sizes[i].digits, out);
    assert_string_equal(out, sizes[i].text);
    assert_int_equal(length, strlen(out));
  }
}

struct distance_row {
  const char *a;
  const char *b;
  unsigned distance;
};

static const struct distance_row distances[] = {
    {"", "", 0},
    {"", "abc", 3},
    {"kitten", "sitting", 3}, /* the textbook pairs */
    {"saturday", "sunday", 3},
    {"flaw", "lawn", 2},
    {"Fraction", "fraction", 0},
    {"page_size", "pagesize", 1},
    {"concurency", "concurrency", 1},
    {"ab", "ba", 2},
    {"abc", "xyz", 3},
};

static void edit_distances(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(distances); i++) {
    assert_int_equal(kc_edit_distance(distances[i].a, distances[i].b), distances[i].distance);
    assert_int_equal(kc_edit_distance(distances[i].b, distances[i].a), distances[i].distance);
  }
  char a[200];
  char b[200];
  memset(a, 'a', sizeof a);
  memset(b, 'b', sizeof b);
  a[199] = b[199] = '\0';
  assert_int_equal(kc_edit_distance(a, b), 64); /* the cap */
  assert_int_equal(kc_edit_distance(a, ""), 64);
}

/* The recursive definition, for words short enough. */
static unsigned naive_distance(const char *a, const char *b)
{
  if (*a == '\0') return (unsigned)strlen(b);
  if (*b == '\0') return (unsigned)strlen(a);
  if (*a == *b) return naive_distance(a + 1, b + 1);
  const unsigned replace = naive_distance(a + 1, b + 1);
  const unsigned insert = naive_distance(a, b + 1);
  const unsigned erase = naive_distance(a + 1, b);
  const unsigned least = replace < insert ? replace : insert;
  return 1 + (least < erase ? least : erase);
}

static void edit_distance_agrees_with_its_definition(void **state)
{
  (void)state;
  uint64_t draws = 41;
  for (unsigned step = 0; step < 2000; step++) {
    char word[2][7] = {{0}, {0}};
    for (unsigned w = 0; w < 2; w++) {
      const uint64_t length = kc_splitmix64(&draws) % 7;
      for (uint64_t i = 0; i < length; i++) word[w][i] = (char)('a' + kc_splitmix64(&draws) % 3);
    }
    const unsigned expected = naive_distance(word[0], word[1]);
    if (kc_edit_distance(word[0], word[1]) != expected) {
      fail_msg("step %u: \"%s\" \"%s\" expected %u", step, word[0], word[1], expected);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts),
      cmocka_unit_test(digits_have_a_ceiling),
      cmocka_unit_test(a_terminator_inside_is_not_an_end),
      cmocka_unit_test(integers),
      cmocka_unit_test(bytes),
      cmocka_unit_test(doubles),
      cmocka_unit_test(a_long_double_text_has_a_bound),
      cmocka_unit_test(the_locale_does_not_matter),
      cmocka_unit_test(durations),
      cmocka_unit_test(decimal_seconds),
      cmocka_unit_test(booleans),
      cmocka_unit_test(fixed_point_text),
      cmocka_unit_test(fixed_point_text_reads_back),
      cmocka_unit_test(binary_sizes),
      cmocka_unit_test(edit_distances),
      cmocka_unit_test(edit_distance_agrees_with_its_definition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
