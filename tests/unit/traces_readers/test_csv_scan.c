/* The line splitter against a naive twin: one byte at a time, one state variable, on random lines
 * of the bytes that matter. Prints the seed's step and the line when they differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "traces/readers/csv_scan.h"
#include "traces/readers/short_digits.h"

enum { STEPS = 200000, LINE_MAX_BYTES = 90, CELLS_MAX = 100 };

struct naive_row {
  size_t begin[CELLS_MAX], end[CELLS_MAX];
  unsigned count, quoted;
};

static bool naive_space(char c)
{
  return c == ' ' || c == '\t';
}

static void naive_push(struct naive_row *row, const char *line, size_t begin, size_t end)
{
  while (begin < end && naive_space(line[begin])) begin++;
  while (end > begin && naive_space(line[end - 1])) end--;
  row->begin[row->count] = begin;
  row->end[row->count] = end;
  row->count++;
}

/* A state machine over bytes: B before a cell, P plain, Q in quotes, A after quotes. */
static enum kc_csv_fault naive_split(struct naive_row *row, const char *line, size_t bytes)
{
  char state = 'B';
  size_t begin = 0, close = 0;
  row->count = row->quoted = 0;
  for (size_t i = 0; i < bytes; i++) {
    const char c = line[i];
    if (state == 'Q') {
      if (c != '"') continue;
      if (i + 1 < bytes && line[i + 1] == '"') {
        i++;
      } else {
        state = 'A';
        close = i;
      }
    } else if (c == ',') {
      naive_push(row, line, begin, state == 'A' ? close : i);
      row->quoted += state == 'A';
      state = 'B';
      begin = i + 1;
    } else if (state == 'A') {
      if (!naive_space(c)) return KC_CSV_QUOTE_TRAILED;
    } else if (c == '"') {
      if (state == 'P') return KC_CSV_QUOTE_INSIDE;
      state = 'Q';
      begin = i + 1;
    } else if (!naive_space(c)) {
      state = 'P';
    }
  }
  if (state == 'Q') return KC_CSV_QUOTE_UNCLOSED;
  naive_push(row, line, begin, state == 'A' ? close : bytes);
  row->quoted += state == 'A';
  return KC_CSV_OK;
}

static bool rows_equal(const struct kc_csv_row *row, const struct naive_row *naive,
                       const char *line)
{
  bool equal = row->count == naive->count && row->quoted == naive->quoted;
  for (unsigned i = 0; equal && i < naive->count; i++) {
    equal = row->cell[i].text == line + naive->begin[i] &&
            row->cell[i].bytes == naive->end[i] - naive->begin[i];
  }
  return equal;
}

static void splitter_agrees_with_the_naive_twin(void **state)
{
  (void)state;
  static const char plain[] = "0123456789.,-:+ \t\xac\x2d\x2b";
  static const char quoted[] = "12,, \t\"\"\"x";
  static struct kc_csv_row row;
  struct kc_random random;
  kc_random_init(&random, 2, "csv-scan", 0);
  for (int step = 0; step < STEPS; step++) {
    const bool quotes = kc_random_chance(&random, 1, 2);
    const char *const bytes_of = quotes ? quoted : plain;
    const size_t kinds = quotes ? sizeof quoted - 1 : sizeof plain - 1;
    const size_t bytes = kc_random_below(&random, LINE_MAX_BYTES + 1);
    struct naive_row naive;
    char *const line = malloc(bytes + (bytes == 0)); /* exact, for the address sanitizer */
    assert_non_null(line);
    for (size_t i = 0; i < bytes; i++) line[i] = bytes_of[kc_random_below(&random, kinds)];
    const enum kc_csv_fault fault = kc_csv_split(&row, line, bytes);
    const enum kc_csv_fault expected = naive_split(&naive, line, bytes);
    if (fault != expected || (fault == KC_CSV_OK && !rows_equal(&row, &naive, line))) {
      fail_msg("seed 2 step %d: \"%.*s\": fault %d, expected %d; %u cells, expected %u", step,
               (int)bytes, line, (int)fault, (int)expected, row.count, naive.count);
    }
    free(line);
  }
}

static void faults_point_at_the_byte(void **state)
{
  (void)state;
  static struct kc_csv_row row;
  assert_int_equal(kc_csv_split(&row, "ab,\"cd", 6), KC_CSV_QUOTE_UNCLOSED);
  assert_int_equal(row.fault_offset, 3);
  assert_int_equal(kc_csv_split(&row, "\"ab\" x,c", 8), KC_CSV_QUOTE_TRAILED);
  assert_int_equal(row.fault_offset, 5);
  assert_int_equal(kc_csv_split(&row, "0123456789,a\"b", 14), KC_CSV_QUOTE_INSIDE);
  assert_int_equal(row.fault_offset, 12);
}

static void cells_beyond_the_ceiling_are_counted_only(void **state)
{
  (void)state;
  enum { COMMAS = 1000 };
  static struct kc_csv_row row;
  char line[COMMAS];
  memset(line, ',', sizeof line);
  assert_int_equal(kc_csv_split(&row, line, sizeof line), KC_CSV_OK);
  assert_int_equal(row.count, COMMAS + 1);
}

/* Every number of 1 to 8 digits whose digits come from a random walk, against strtoul; and every
 * byte that is no digit, in every place. */
static void short_digits_agree_with_strtoul(void **state)
{
  (void)state;
  struct kc_random random;
  kc_random_init(&random, 3, "short-digits", 0);
  for (int step = 0; step < STEPS; step++) {
    char text[32];
    const uint32_t digits = 1 + (uint32_t)kc_random_below(&random, 8);
    for (size_t i = 0; i < 16; i++) text[i] = (char)kc_random_below(&random, 256);
    for (size_t i = 16 - digits; i < 16; i++) text[i] = (char)('0' + kc_random_below(&random, 10));
    text[16] = '\0';
    uint32_t value = 0;
    assert_true(kc_short_digits(text + 16, digits, &value));
    assert_int_equal(value, strtoul(text + 16 - digits, NULL, 10));
  }
  for (int byte = 0; byte < 256; byte++) {
    for (size_t place = 0; place < 8; place++) {
      char text[9] = "12345678";
      uint32_t value;
      text[place] = (char)byte;
      assert_int_equal(kc_short_digits(text + 8, 8, &value), byte >= '0' && byte <= '9');
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splitter_agrees_with_the_naive_twin),
      cmocka_unit_test(faults_point_at_the_byte),
      cmocka_unit_test(cells_beyond_the_ceiling_are_counted_only),
      cmocka_unit_test(short_digits_agree_with_strtoul),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
