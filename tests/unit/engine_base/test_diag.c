/* Diagnoses: pinned numbers, exit statuses, cutting and cleaning of text, lists. */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/diag.h"

/* The numbers are stored in databases and scripts: changing one is a break. */
static_assert(KC_OK == 0, "pinned");
static_assert(KC_ERR_USAGE == 20, "pinned");
static_assert(KC_ERR_INPUT == 30, "pinned");
static_assert(KC_ERR_FILE == 40, "pinned");
static_assert(KC_ERR_STORE == 41, "pinned");
static_assert(KC_ERR_NO_FIT == 50, "pinned");
static_assert(KC_ERR_INTEGRITY == 60, "pinned");
static_assert(KC_ERR_TAG_STALE == 61, "pinned");
static_assert(KC_ERR_TAG_RANGE == 62, "pinned");
static_assert(KC_ERR_TAG_OWNER == 63, "pinned");
static_assert(KC_ERR_DOUBLE_FREE == 64, "pinned");
static_assert(KC_ERR_RECORD == 65, "pinned");
static_assert(KC_ERR_LEAK == 66, "pinned");
static_assert(KC_ERR_ROLLBACK == 67, "pinned");
static_assert(KC_ERR_DEVICE == 70, "pinned");
static_assert(KC_ERR_MEMORY == 80, "pinned");
static_assert(KC_ERR_LIMIT == 81, "pinned");
static_assert(KC_ERR_INTERRUPTED == 130, "pinned");

struct code_row {
  enum kc_err code;
  int exit_status;
  const char *name;
};

static const struct code_row codes[] = {
    {KC_OK, 0, "ok"},
    {KC_ERR_USAGE, 2, "usage"},
    {KC_ERR_INPUT, 3, "input"},
    {KC_ERR_FILE, 4, "file"},
    {KC_ERR_STORE, 4, "store"},
    {KC_ERR_NO_FIT, 5, "no_fit"},
    {KC_ERR_INTEGRITY, 6, "integrity"},
    {KC_ERR_TAG_STALE, 6, "tag_stale"},
    {KC_ERR_TAG_RANGE, 6, "tag_range"},
    {KC_ERR_TAG_OWNER, 6, "tag_owner"},
    {KC_ERR_DOUBLE_FREE, 6, "double_free"},
    {KC_ERR_RECORD, 6, "record"},
    {KC_ERR_LEAK, 6, "leak"},
    {KC_ERR_ROLLBACK, 6, "rollback"},
    {KC_ERR_DEVICE, 7, "device"},
    {KC_ERR_MEMORY, 8, "memory"},
    {KC_ERR_LIMIT, 8, "limit"},
    {KC_ERR_INTERRUPTED, 130, "interrupted"},
};

static void codes_have_their_status_and_name(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    assert_int_equal(kc_err_exit_status(codes[i].code), codes[i].exit_status);
    assert_string_equal(kc_err_name(codes[i].code), codes[i].name);
  }
}

static void fail_fills_every_field(void **state)
{
  (void)state;
  struct kc_diag diag;
  memset(&diag, 0xa5, sizeof diag);
  assert_int_equal(kc_fail(&diag, KC_ERR_NO_FIT, "%d pages of %s", 7, "eight"), KC_ERR_NO_FIT);
  assert_int_equal(diag.code, KC_ERR_NO_FIT);
  assert_string_equal(diag.path, "");
  assert_int_equal(diag.line, 0);
  assert_int_equal(diag.column, 0);
  assert_string_equal(diag.text, "7 pages of eight");
}

static void fail_without_a_diag_returns_the_code(void **state)
{
  (void)state;
  assert_int_equal(kc_fail(NULL, KC_ERR_LIMIT, "%s", "unread"), KC_ERR_LIMIT);
  assert_int_equal(kc_fail_at(NULL, KC_ERR_FILE, "p", 1, 2, "%s", "unread"), KC_ERR_FILE);
}

static void print(char *out, size_t size, const char *path, uint64_t line, uint32_t column)
{
  struct kc_diag diag;
  (void)kc_fail_at(&diag, KC_ERR_INPUT, path, line, column, "bad");
  const size_t length = kc_diag_print(&diag, out, size);
  assert_int_equal(length, strlen(out));
}

static void print_leaves_absent_parts_out(void **state)
{
  (void)state;
  char out[200];
  print(out, sizeof out, "a.yaml", 3, 9);
  assert_string_equal(out, "a.yaml:3:9: bad");
  print(out, sizeof out, "a.yaml", 3, 0);
  assert_string_equal(out, "a.yaml:3: bad");
  print(out, sizeof out, "a.yaml", 0, 0);
  assert_string_equal(out, "a.yaml: bad");
  print(out, sizeof out, NULL, 0, 0);
  assert_string_equal(out, "bad");
  print(out, sizeof out, "", 12, 1);
  assert_string_equal(out, "12:1: bad");
  print(out, sizeof out, "a.csv", UINT64_MAX, UINT32_MAX);
  assert_string_equal(out, "a.csv:18446744073709551615:4294967295: bad");
}

static void print_stays_inside_a_small_buffer(void **state)
{
  (void)state;
  for (size_t size = 1; size < 20; size++) {
    char out[24];
    memset(out, 'x', sizeof out);
    print(out, size, "a.yaml", 3, 9); /* 15 characters */
    assert_int_equal(strlen(out), size - 1 < 15 ? size - 1 : 15);
    assert_memory_equal(out, "a.yaml:3:9: bad", strlen(out));
    assert_int_equal(out[size], 'x');
  }
}

static void long_text_is_cut_and_long_paths_keep_their_end(void **state)
{
  (void)state;
  char text[2 * KC_DIAG_TEXT_BYTES];
  char path[2 * KC_DIAG_PATH_BYTES];
  memset(text, 't', sizeof text);
  memset(path, 'p', sizeof path);
  text[sizeof text - 1] = '\0';
  memcpy(path + sizeof path - 10, "/end.yaml", 10);
  struct kc_diag diag;
  (void)kc_fail_at(&diag, KC_ERR_INPUT, path, 1, 1, "%s", text);
  assert_int_equal(strlen(diag.text), KC_DIAG_TEXT_BYTES - 1);
  assert_int_equal(strlen(diag.path), KC_DIAG_PATH_BYTES - 1);
  assert_memory_equal(diag.path, "...ppp", 6);
  assert_string_equal(diag.path + KC_DIAG_PATH_BYTES - 10, "/end.yaml");
}

struct clean_row {
  const char *text;
  const char *expected;
};

static const struct clean_row cleaned[] = {
    {"plain", "plain"},
    {"tab\tnewline\nbell\a", "tab?newline?bell?"},
    {"\x1b[31mred", "?[31mred"},
    {"del\x7f", "del?"},
    {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},        /* two two-byte letters */
    {"\xe2\x82\xac 5", "\xe2\x82\xac 5"},                 /* U+20AC */
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},             /* U+1F600 */
    {"\xc2\x9b" "31m", "??31m"},                          /* U+009B: CSI, a C1 control */
    {"\xc0\xaf", "??"},                                   /* overlong '/' */
    {"\xe0\x80\xaf", "???"},                              /* overlong in three bytes */
    {"\xf0\x80\x80\xaf", "????"},                         /* and in four */
    {"\xed\xa0\x80", "???"},                              /* a surrogate */
    {"\xf4\x90\x80\x80", "????"},                         /* past U+10FFFF */
    {"\xf8\x88\x80\x80\x80", "?????"},                    /* five bytes do not exist */
    {"cut \xe2\x82", "cut ??"},
    {"latin1 \xe9t", "latin1 ?t"},
};

static void text_and_path_are_cleaned(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof cleaned / sizeof cleaned[0]; i++) {
    struct kc_diag diag;
    (void)kc_fail_at(&diag, KC_ERR_INPUT, cleaned[i].text, 0, 0, "%s", cleaned[i].text);
    assert_string_equal(diag.text, cleaned[i].expected);
    assert_string_equal(diag.path, cleaned[i].expected);
  }
}

static void a_diag_may_be_reworded_from_itself(void **state)
{
  (void)state;
  struct kc_diag diag;
  (void)kc_fail_at(&diag, KC_ERR_INPUT, "a.csv", 4, 2, "row too short");
  (void)kc_fail_at(&diag, KC_ERR_INPUT, diag.path, diag.line, 0, "%s; add a column", diag.text);
  assert_string_equal(diag.path, "a.csv");
  assert_string_equal(diag.text, "row too short; add a column");
}

static void a_list_counts_past_its_end(void **state)
{
  (void)state;
  struct kc_diag_list list;
  kc_diag_list_init(&list);
  assert_int_equal(kc_diag_list_result(&list), KC_OK);
  for (unsigned i = 0; i < KC_DIAG_LIST_MAX + 5; i++) {
    const enum kc_err code = i == 0 ? KC_ERR_USAGE : KC_ERR_INPUT;
    assert_int_equal(kc_diag_list_add(&list, code, "f", i, 0, "problem %u", i), code);
  }
  assert_int_equal(list.count, KC_DIAG_LIST_MAX + 5);
  assert_int_equal(kc_diag_list_result(&list), KC_ERR_USAGE);
  assert_string_equal(list.items[0].text, "problem 0");
  assert_string_equal(list.items[KC_DIAG_LIST_MAX - 1].text, "problem 31");
  assert_int_equal(list.items[KC_DIAG_LIST_MAX - 1].line, 31);
}

static enum kc_err forward(enum kc_err first, int *reached)
{
  KC_TRY(first);
  (*reached)++;
  return KC_OK;
}

static void try_returns_early_on_failure_only(void **state)
{
  (void)state;
  int reached = 0;
  assert_int_equal(forward(KC_ERR_DEVICE, &reached), KC_ERR_DEVICE);
  assert_int_equal(reached, 0);
  assert_int_equal(forward(KC_OK, &reached), KC_OK);
  assert_int_equal(reached, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_have_their_status_and_name),
      cmocka_unit_test(fail_fills_every_field),
      cmocka_unit_test(fail_without_a_diag_returns_the_code),
      cmocka_unit_test(print_leaves_absent_parts_out),
      cmocka_unit_test(print_stays_inside_a_small_buffer),
      cmocka_unit_test(long_text_is_cut_and_long_paths_keep_their_end),
      cmocka_unit_test(text_and_path_are_cleaned),
      cmocka_unit_test(a_diag_may_be_reworded_from_itself),
      cmocka_unit_test(a_list_counts_past_its_end),
      cmocka_unit_test(try_returns_early_on_failure_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
