/* The JSON walker: values, places of faults, integers to 2^64 - 1, depth. Random
 * arrays are written from known numbers and walked again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "traces/readers/json_scan.h"

static enum kc_json_fault scan(const char *text, struct kc_json_value *value, size_t *at)
{
  /* In a heap block of its exact size, so that reading beyond is seen. */
  const size_t bytes = strlen(text);
  static char *kept;
  free(kept);
  kept = malloc(bytes + 1);
  assert_non_null(kept);
  memcpy(kept, text, bytes);
  kept = realloc(kept, bytes > 0 ? bytes : 1);
  const char *p = kept;
  const enum kc_json_fault fault = kc_json_scan(&p, kept + bytes, value);
  *at = (size_t)(p - kept);
  return fault;
}

static void values_and_their_spans(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum kc_json_kind kind;
    const char *span;
  } cases[] = {
      {" null", KC_JSON_NULL, "null"},
      {"true,", KC_JSON_TRUE, "true"},
      {"\n\tfalse", KC_JSON_FALSE, "false"},
      {"-1.5e+3]", KC_JSON_NUMBER, "-1.5e+3"},
      {"18446744073709551615", KC_JSON_NUMBER, "18446744073709551615"},
      {"\"\"", KC_JSON_STRING, ""},
      {"\"a\\\"b\\\\\" ", KC_JSON_STRING, "a\\\"b\\\\"},
      {"[]", KC_JSON_ARRAY, "[]"},
      {"[1,[2,{\"]\":\"}\"}],\"[\"]x", KC_JSON_ARRAY, "[1,[2,{\"]\":\"}\"}],\"[\"]"},
      {"{\"Yy_YYYYYYY\": [1, 2]}}", KC_JSON_OBJECT, "{\"Yy_YYYYYYY\": [1, 2]}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_json_value value;
    size_t at;
    print_message("%s\n", cases[i].text);
    assert_int_equal(scan(cases[i].text, &value, &at), KC_JSON_OK);
    assert_int_equal(value.kind, cases[i].kind);
    assert_int_equal(value.bytes, strlen(cases[i].span));
    assert_memory_equal(value.text, cases[i].span, value.bytes);
  }
}

static void faults_and_their_places(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum kc_json_fault fault;
    size_t at;
  } cases[] = {
      {"", KC_JSON_CUT, 0},           {"   ", KC_JSON_CUT, 3},
      {"\"abc", KC_JSON_CUT, 0},      {"\"abc\\\"", KC_JSON_CUT, 0},
      {"\"abc\\", KC_JSON_CUT, 0},    {"[1, 2", KC_JSON_CUT, 5},
      {"[\"1]", KC_JSON_CUT, 1},      {"[1}", KC_JSON_SYNTAX, 2},
      {"{]", KC_JSON_SYNTAX, 1},      {"NaN", KC_JSON_LITERAL, 0},
      {"-Infinity", KC_JSON_LITERAL, 0}, {"None", KC_JSON_LITERAL, 0},
      {"nul", KC_JSON_LITERAL, 0},    {"*", KC_JSON_SYNTAX, 0},
      {"'a'", KC_JSON_SYNTAX, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_json_value value;
    size_t at;
    print_message("%s\n", cases[i].text);
    assert_int_equal(scan(cases[i].text, &value, &at), cases[i].fault);
    assert_int_equal(at, cases[i].at);
  }
}

static void depth_has_a_ceiling(void **state)
{
  (void)state;
  char text[300];
  struct kc_json_value value;
  size_t at;
  for (int depth = 60; depth < 70; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    text[2 * depth] = '\0';
    assert_int_equal(scan(text, &value, &at),
                     depth <= KC_JSON_DEPTH_MAX ? KC_JSON_OK : KC_JSON_DEPTH);
  }
}

/* Members of an object, or the fault; the values' texts joined by '|'. */
static enum kc_json_fault walk(const char *text, char out[256])
{
  struct kc_json_value object, key, value;
  struct kc_json_cursor cursor;
  size_t at, used = 0;
  assert_int_equal(scan(text, &object, &at), KC_JSON_OK);
  kc_json_open(&cursor, &object);
  out[0] = '\0';
  while (kc_json_next_member(&cursor, &key, &value)) {
    used += (size_t)snprintf(out + used, 256 - used, "%.*s=%.*s|", (int)key.bytes, key.text,
                             (int)value.bytes, value.text);
  }
  return cursor.fault;
}

static void members(void **state)
{
  (void)state;
  char out[256];
  assert_int_equal(walk("{\"a\": 1, \"b\" : [2 , 3],\"c\":\"x\"}", out), KC_JSON_OK);
  assert_string_equal(out, "a=1|b=[2 , 3]|c=x|");
  assert_int_equal(walk("{ }", out), KC_JSON_OK);
  assert_string_equal(out, "");
  static const char *const bad[] = {"{\"a\": 1,}",  "{\"a\" 1}",        "{a: 1}", "{,}",
                                    "{\"a\": 1 2}", "{\"a\": 1 \"b\": 2}", "{\"a\":}", "{\"a\"}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    print_message("%s\n", bad[i]);
    assert_int_not_equal(walk(bad[i], out), KC_JSON_OK);
  }
}

/* 2^53 + 1 is the first integer that a double cannot hold; 2^64 - 1 is the last one of 64 bits. */
static void whole_numbers_are_exact(void **state)
{
  (void)state;
  static const uint64_t numbers[] = {0, 7, 9999999, 10000000, 99999999, 4294967295, 4294967296,
                                     UINT64_C(9007199254740992), UINT64_C(9007199254740993),
                                     UINT64_C(9999999999999999999),
                                     UINT64_C(10000000000000000000), UINT64_MAX};
  enum { COUNT = sizeof numbers / sizeof numbers[0] };
  char text[512];
  struct kc_json_value array;
  struct kc_json_cursor cursor;
  size_t at, used = (size_t)snprintf(text, sizeof text, "[");
  for (size_t i = 0; i < COUNT; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64, i == 0 ? "" : ", ",
                             numbers[i]);
  }
  snprintf(text + used, sizeof text - used, "]");
  assert_int_equal(scan(text, &array, &at), KC_JSON_OK);
  kc_json_open(&cursor, &array);
  for (size_t i = 0; i < COUNT; i++) {
    uint64_t number = 1;
    assert_true(kc_json_next_u64(&cursor, &number));
    assert_true(number == numbers[i]);
  }
  uint64_t number;
  assert_false(kc_json_next_u64(&cursor, &number));
  assert_int_equal(cursor.fault, KC_JSON_OK);
}

static void other_numbers_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum kc_json_fault fault;
    size_t at;
  } cases[] = {
      {"[18446744073709551616]", KC_JSON_TOO_LARGE, 1},
      {"[99999999999999999999]", KC_JSON_TOO_LARGE, 1},
      {"[1, 184467440737095516150, 2]", KC_JSON_TOO_LARGE, 4},
      {"[1.5, 2, 3, 4, 5]", KC_JSON_NOT_WHOLE, 1},
      {"[1e3, 2, 3, 4, 5]", KC_JSON_NOT_WHOLE, 1},
      {"[-1]", KC_JSON_NOT_WHOLE, 1},
      {"[1, 01, 2, 3, 4, 5]", KC_JSON_NOT_WHOLE, 4},
      {"[\"1\"]", KC_JSON_NOT_WHOLE, 1},
      {"[null]", KC_JSON_NOT_WHOLE, 1},
      {"[1,,2]", KC_JSON_NOT_WHOLE, 3},
      {"[1 2]", KC_JSON_SYNTAX, 3},
      {"[1,]", KC_JSON_SYNTAX, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_json_value array;
    struct kc_json_cursor cursor;
    size_t at;
    uint64_t number;
    print_message("%s\n", cases[i].text);
    assert_int_equal(scan(cases[i].text, &array, &at), KC_JSON_OK);
    kc_json_open(&cursor, &array);
    while (kc_json_next_u64(&cursor, &number)) continue;
    assert_int_equal(cursor.fault, cases[i].fault);
    assert_int_equal(cursor.at - array.text, cases[i].at);
  }
}

/* Numbers of every length with every spacing, against what was written. */
static void random_arrays(void **state)
{
  (void)state;
  enum { SEEDS = 400, ITEMS = 40 };
  static const char *const spaces[] = {"", " ", "  ", "\t"};
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct kc_random random;
    uint64_t wanted[ITEMS];
    char text[ITEMS * 32];
    size_t at, used = (size_t)snprintf(text, sizeof text, "[");
    kc_random_init(&random, seed, "json-arrays", 0);
    const size_t count = (size_t)kc_random_below(&random, ITEMS);
    for (size_t i = 0; i < count; i++) {
      wanted[i] = kc_random_u64(&random) >> kc_random_below(&random, 64);
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%" PRIu64 "%s",
                               i == 0 ? "" : ",", spaces[kc_random_below(&random, 4)], wanted[i],
                               spaces[kc_random_below(&random, 4)]);
    }
    snprintf(text + used, sizeof text - used, "]");
    struct kc_json_value array;
    struct kc_json_cursor cursor;
    uint64_t number;
    size_t found = 0;
    assert_int_equal(scan(text, &array, &at), KC_JSON_OK);
    kc_json_open(&cursor, &array);
    while (kc_json_next_u64(&cursor, &number)) {
      if (found >= count || number != wanted[found]) fail_msg("seed %" PRIu64 ": %s", seed, text);
      found++;
    }
    if (found != count || cursor.fault != KC_JSON_OK) fail_msg("seed %" PRIu64 ": %s", seed, text);
  }
}

/* A value is scanned by its brackets alone; what stands inside is seen when it is asked for. */
static void a_check_goes_to_the_leaves(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum kc_json_fault fault;
  } cases[] = {
      {"{\"a\": [1, {\"b\": []}], \"c\": {}}", KC_JSON_OK},
      {"7", KC_JSON_OK},
      {"{\"a\": [1, {\"b\": NaN}]}", KC_JSON_LITERAL},
      {"{\"a\": {\"b\" 3}}", KC_JSON_SYNTAX},
      {"[[[1], [2]], [,]]", KC_JSON_SYNTAX},
      {"{\"a\": [], 7: 3}", KC_JSON_SYNTAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct kc_json_value value;
    size_t at;
    assert_int_equal(scan(cases[i].text, &value, &at), KC_JSON_OK);
    if (kc_json_check(&value) != cases[i].fault) fail_msg("%s", cases[i].text);
  }
  char deep[2 * KC_JSON_DEPTH_MAX + 1] = {0};
  memset(deep, '[', KC_JSON_DEPTH_MAX);
  memset(deep + KC_JSON_DEPTH_MAX, ']', KC_JSON_DEPTH_MAX);
  struct kc_json_value value;
  size_t at;
  assert_int_equal(scan(deep, &value, &at), KC_JSON_OK);
  assert_int_equal(kc_json_check(&value), KC_JSON_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_and_their_spans), cmocka_unit_test(faults_and_their_places),
      cmocka_unit_test(depth_has_a_ceiling),    cmocka_unit_test(members),
      cmocka_unit_test(whole_numbers_are_exact), cmocka_unit_test(other_numbers_are_refused),
      cmocka_unit_test(random_arrays),          cmocka_unit_test(a_check_goes_to_the_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
