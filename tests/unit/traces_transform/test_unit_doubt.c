/* Doubts about the unit of a trace's times: the same rows as a service log in the right unit, and a
 * thousand or a million times too fast or too slow in a wrong one; dates give the unit away; and no
 * public trace at hand is doubted. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "traces/transform/unit_doubt.h"

enum { ROWS = 400, TEXT_BYTES = ROWS * 96 };

/* Vidur rows `gap` ticks apart (a little uneven), from `start` on, in the given unit. */
static void doubt_rows(uint64_t start, uint64_t gap, unsigned tokens, enum kc_time_unit unit,
                       struct kc_unit_doubt *doubt)
{
  static char text[TEXT_BYTES];
  struct kc_trace_options options;
  struct kc_trace_stats stats;
  struct kc_trace trace;
  size_t used = (size_t)snprintf(text, sizeof text,
                                 "arrived_at,num_prefill_tokens,num_decode_tokens\n");
  for (unsigned i = 0; i < ROWS; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%llu,%u,%u\n",
                             (unsigned long long)(start + i * gap + i * i % 7 * gap / 10), tokens,
                             tokens / 10);
  }
  kc_trace_options_default(&options);
  options.time_unit = unit;
  assert_int_equal(kc_trace_parse(&trace, "t", text, used, &options, NULL), KC_OK);
  assert_int_equal(kc_trace_stats_compute(&trace, &stats, NULL), KC_OK);
  kc_trace_doubt_unit(&trace, &stats, doubt);
  kc_trace_free(&trace);
}

struct unit_case {
  uint64_t start, gap; /* ticks */
  unsigned tokens;
  enum kc_time_unit unit;
  enum kc_unit_reason reason;
  enum kc_time_unit better; /* KC_UNIT_FORMAT: no doubt */
};

/* 5 requests/s of 1,000 tokens are a service; the same numbers in other units are not. */
static void a_service_in_wrong_units(void **state)
{
  (void)state;
  static const struct unit_case table[] = {
      {0, 200, 1000, KC_UNIT_MS, KC_UNIT_FITS, KC_UNIT_FORMAT},
      {0, 200000, 1000, KC_UNIT_US, KC_UNIT_FITS, KC_UNIT_FORMAT},
      {0, 200, 1000, KC_UNIT_S, KC_UNIT_SLOW, KC_UNIT_MS},      /* 1 in 200 s */
      {0, 200, 1000, KC_UNIT_US, KC_UNIT_FAST, KC_UNIT_MS},     /* 5,000/s, 5.5 M tokens/s */
      {0, 200, 1000, KC_UNIT_NS, KC_UNIT_FAST, KC_UNIT_MS},     /* 5 M/s */
      {0, 200, 1000, KC_UNIT_PS, KC_UNIT_FAST, KC_UNIT_MS},
      {0, 20000, 100, KC_UNIT_S, KC_UNIT_SLOW, KC_UNIT_US},     /* 1 in 6 hours */
      {0, 30, 1000, KC_UNIT_S, KC_UNIT_FITS, KC_UNIT_FORMAT},   /* BurstGPT's first hours */
      {0, 2, 100, KC_UNIT_MS, KC_UNIT_FITS, KC_UNIT_FORMAT},    /* 500/s: a ServeGen pool */
      {0, 200, 100, KC_UNIT_US, KC_UNIT_FITS, KC_UNIT_FORMAT},  /* 5,000/s of short ones: may be */
      {1178625, 200, 1000, KC_UNIT_MS, KC_UNIT_FITS, KC_UNIT_FORMAT}, /* a slice's offset */
      {1700000000, 1, 100, KC_UNIT_S, KC_UNIT_FITS, KC_UNIT_FORMAT},  /* November 2023 */
      {1700000000, 200, 100, KC_UNIT_S, KC_UNIT_FITS, KC_UNIT_FORMAT},   /* slow, but dated */
      {1700000000, 300, 100, KC_UNIT_MS, KC_UNIT_EPOCH, KC_UNIT_S},      /* 20 January 1970 */
      {UINT64_C(1700000000000), 200, 100, KC_UNIT_S, KC_UNIT_EPOCH, KC_UNIT_MS},
      {UINT64_C(1700000000000), 200, 100, KC_UNIT_MS, KC_UNIT_FITS, KC_UNIT_FORMAT},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const struct unit_case *const c = &table[i];
    struct kc_unit_doubt doubt;
    doubt_rows(c->start, c->gap, c->tokens, c->unit, &doubt);
    if (doubt.reason != c->reason || doubt.better != c->better) {
      fail_msg("case %zu: reason %d, better %s; expected %d, %s (rate %llu micro)", i,
               (int)doubt.reason, kc_time_unit_name(doubt.better), (int)c->reason,
               kc_time_unit_name(c->better), (unsigned long long)doubt.rate_micro);
    }
  }
}

/* The figures that are told: 400 rows, the last one 399 x 200 + (399 x 399 mod 7 = 0) ticks. */
static void figures(void **state)
{
  (void)state;
  struct kc_unit_doubt doubt;
  doubt_rows(0, 200, 1000, KC_UNIT_US, &doubt);
  assert_int_equal(doubt.span_ms, 79);
  assert_int_equal(doubt.better_span_ms, 79800);
  assert_int_equal(doubt.rate_micro, UINT64_C(400000000) * 1000000 / 79800);
  assert_int_equal(doubt.better_rate_micro, UINT64_C(400000000) * 1000 / 79800);
  assert_int_equal(doubt.tokens_per_s, UINT64_C(400) * 1100 * 1000000 / 79800);
}

/* ---- the public traces ---- */

static unsigned look_at(const char *path)
{
  struct kc_trace_options options;
  struct kc_trace_stats stats;
  struct kc_unit_doubt doubt;
  struct kc_trace trace;
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  options.missing_output_tokens = 1;
  if (kc_trace_load(&trace, path, &options, NULL) != KC_OK) return 0;
  assert_int_equal(kc_trace_stats_compute(&trace, &stats, NULL), KC_OK);
  kc_trace_doubt_unit(&trace, &stats, &doubt);
  if (doubt.reason != KC_UNIT_FITS) fail_msg("%s: doubted, reason %d", path, (int)doubt.reason);
  kc_trace_free(&trace);
  return 1;
}

/* Every file of the tree that is a trace. */
static unsigned look_below(const char *folder, int depth)
{
  unsigned seen = 0;
  DIR *const open = opendir(folder);
  for (const struct dirent *entry = open == NULL ? NULL : readdir(open); entry != NULL;
       entry = readdir(open)) {
    char path[1024];
    if (entry->d_name[0] == '.') continue;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    assert_in_range(length, 1, sizeof path - 1);
    seen += entry->d_type == DT_DIR && depth > 0 ? look_below(path, depth - 1) : look_at(path);
  }
  if (open != NULL) closedir(open);
  return seen;
}

static void no_public_trace_is_doubted(void **state)
{
  (void)state;
  char path[512];
  const char *const shared = getenv("KVCAP_SHARED");
  if (shared == NULL) skip();
  snprintf(path, sizeof path, "%s/traces", shared);
  if (access(path, R_OK) != 0) skip();
  assert_in_range(look_below(path, 4), 40, 100000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_service_in_wrong_units),
      cmocka_unit_test(figures),
      cmocka_unit_test(no_public_trace_is_doubted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
