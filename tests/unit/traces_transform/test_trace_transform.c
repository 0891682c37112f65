/* Transforms of a trace, each on a few rows whose result is worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "made_trace.h"
#include "traces/transform/transform.h"

#define S KC_PS_PER_S
#define MS KC_PS_PER_MS
#define NONE KC_TRACE_NONE

/* Two sessions, closed loop, with ids; row 4 belongs to nobody.
 *   row      0    1    2    3    4    5
 *   second   0    2    5   10   12   20
 *   session  0    1    0    0    -    1
 *   after    -    -    0    2    -    1
 *   wait               1    3         4   s  */
static void make_sample(struct kc_trace *trace)
{
  static const struct made_row row[] = {{0, 100, 1}, {2, 200, 2}, {5, 300, 3},
                                        {10, 400, 4}, {12, 500, 5}, {20, 600, 6}};
  static const uint32_t session[] = {0, 1, 0, 0, NONE, 1};
  static const uint32_t after[] = {NONE, NONE, 0, 2, NONE, 1};
  static const double wait[] = {0, 0, 1, 3, 0, 4};
  static const uint32_t kind[] = {0, 1, 0, 1, NONE, 0};
  static const uint8_t flags[] = {0, KC_ROW_FAILED, 0, KC_ROW_CANCELLED, 0, KC_ROW_COMPACTED};
  static const uint32_t id[] = {0, 1, 2, 0, 1, 3, 0, 2, 4, 5};
  static const uint32_t blocks[] = {2, 1, 3, 1, 0, 3};
  make_trace(trace, row, 6);
  make_sessions(trace, session, 2);
  make_links(trace, after, wait);
  make_kinds(trace, kind, 2);
  make_flags(trace, flags);
  make_blocks(trace, id, blocks, 6, 100, KC_TAIL_FLOOR);
}

static void transform_ok(struct kc_trace *trace, const struct kc_transform *transform,
                         uint64_t change[KC_CHANGES])
{
  struct kc_diag diag = {.text = ""};
  if (kc_trace_transform(trace, transform, change, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void nothing_asked_nothing_changed(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform_ok(&trace, &transform, change);
  assert_int_equal(trace.count, 6);
  for (unsigned i = 0; i < KC_CHANGES; i++) assert_int_equal(change[i], 0);
  assert_int_equal(trace.column.after[5], 1);
  kc_trace_free(&trace);
}

static void window_cuts_and_shifts(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.from_ps = 5 * S; /* included */
  transform.to_ps = 20 * S;  /* not included */
  transform_ok(&trace, &transform, change);
  assert_int_equal(trace.count, 3); /* rows 2, 3, 4 */
  assert_int_equal(change[KC_CHANGE_WINDOW_DROPPED], 3);
  assert_int_equal(change[KC_CHANGE_SHIFTED_MS], 5000);
  assert_arrival(&trace, 0, 0);
  assert_arrival(&trace, 1, 5 * S);
  assert_arrival(&trace, 2, 7 * S);
  assert_int_equal(trace.span_ps, 7 * S);
  assert_int_equal(trace.input_tokens, 1200);
  assert_int_equal(trace.output_tokens_max, 5);
  /* row 2 lost row 0; row 3 still follows row 2 */
  assert_int_equal(change[KC_CHANGE_DETACHED], 1);
  assert_int_equal(trace.column.after[0], NONE);
  assert_int_equal(trace.column.wait_ps[0], 0);
  assert_int_equal(trace.column.after[1], 0);
  assert_int_equal(trace.column.wait_ps[1], 3 * S);
  /* one session left, numbered 0; ids 0 1 3 | 0 become 0 1 2 | 0 */
  assert_int_equal(trace.session_count, 1);
  assert_int_equal(trace.column.session[2], NONE);
  assert_int_equal(trace.block_total, 4);
  assert_int_equal(trace.block_distinct, 3);
  static const uint32_t ids[] = {0, 1, 2, 0};
  assert_memory_equal(trace.block, ids, sizeof ids);
  kc_trace_free(&trace);
}

static void dropped_rows_pass_their_waits_on(void **state)
{
  (void)state;
  struct kc_trace trace;
  uint64_t change[KC_CHANGES] = {0};
  static const uint8_t keep[] = {1, 1, 0, 1, 1, 1};
  make_sample(&trace);
  assert_int_equal(kc_trace_keep_rows(&trace, keep, change, NULL), KC_OK);
  assert_int_equal(trace.count, 5);
  assert_int_equal(trace.column.after[2], 0);           /* was row 3, which followed row 2 */
  assert_int_equal(trace.column.wait_ps[2], 4 * S);     /* 3 s of its own, 1 s of row 2 */
  assert_int_equal(trace.column.after[4], 1);
  assert_int_equal(change[KC_CHANGE_RELINKED], 1);
  assert_int_equal(change[KC_CHANGE_DETACHED], 0);
  kc_trace_free(&trace);
}

static void filters_drop_what_is_marked(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.drop_failed = transform.drop_cancelled = true;
  transform_ok(&trace, &transform, change);
  assert_int_equal(trace.count, 4);
  assert_int_equal(change[KC_CHANGE_FAILED_DROPPED], 1);
  assert_int_equal(change[KC_CHANGE_CANCELLED_DROPPED], 1);
  assert_int_equal(trace.column.flags[3], KC_ROW_COMPACTED);
  assert_int_equal(trace.column.after[3], NONE); /* row 5 followed the failed row 1 */
  assert_int_equal(trace.column.kind[3], 0);
  kc_trace_free(&trace);
}

/* The head of a trace may be a ramp-up that is like nothing that follows: it can be skipped. */
static void pitfall_21_the_head_can_be_skipped(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.skip_rows = 1;
  transform.limit_rows = 2;
  transform_ok(&trace, &transform, change);
  assert_int_equal(trace.count, 2); /* rows 1 and 2 */
  assert_int_equal(trace.row[0].input_tokens, 200);
  assert_int_equal(trace.row[1].input_tokens, 300);
  assert_int_equal(change[KC_CHANGE_SKIP_DROPPED], 1);
  assert_int_equal(change[KC_CHANGE_LIMIT_DROPPED], 3);
  kc_trace_free(&trace);
}

/* Asking for more requests than there are rows: the trace ends, it neither starts again nor
 * repeats, and nothing counts as dropped. */
static void pitfall_28_more_requests_than_rows_stop(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  const uint64_t rows = trace.count;
  const uint64_t input_tokens = trace.input_tokens;
  kc_transform_default(&transform);
  transform.limit_rows = 10 * rows;
  transform_ok(&trace, &transform, change);
  assert_int_equal(trace.count, rows);
  assert_int_equal(trace.input_tokens, input_tokens);
  assert_int_equal(change[KC_CHANGE_LIMIT_DROPPED], 0);
  kc_trace_free(&trace);
}

static void nothing_left_is_an_error(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  struct kc_diag diag;
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.from_ps = 3600 * S;
  assert_int_equal(kc_trace_transform(&trace, &transform, change, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "no request is left of 6"));
  kc_trace_free(&trace);
}

static void senseless_transforms_are_refused(void **state)
{
  (void)state;
  struct kc_trace trace;
  uint64_t change[KC_CHANGES];
  struct kc_transform transform[4];
  make_sample(&trace);
  for (size_t i = 0; i < 4; i++) kc_transform_default(&transform[i]);
  transform[0].shard = 3;
  transform[0].shards = 2;
  transform[1].sample = (struct kc_fraction){3, 2};
  transform[2].from_ps = transform[2].to_ps = 5 * S;
  transform[3].limit_rows = 0;
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(kc_trace_transform(&trace, &transform[i], change, NULL), KC_ERR_USAGE);
  }
  kc_trace_free(&trace);
}

/* Shards 1/2 and 2/2 share no row and together hold all: sessions 0, 1 and the row alone. */
static void shards_are_disjoint_and_whole(void **state)
{
  (void)state;
  static const uint64_t inputs[2][4] = {{100, 300, 400, 500}, {200, 600}};
  static const uint64_t rows[2] = {4, 2};
  for (uint64_t shard = 1; shard <= 2; shard++) {
    struct kc_trace trace;
    struct kc_transform transform;
    uint64_t change[KC_CHANGES];
    make_sample(&trace);
    kc_transform_default(&transform);
    transform.shard = shard;
    transform.shards = 2;
    transform_ok(&trace, &transform, change);
    assert_int_equal(trace.count, rows[shard - 1]);
    assert_int_equal(change[KC_CHANGE_SHARD_DROPPED], 6 - rows[shard - 1]);
    for (uint64_t i = 0; i < trace.count; i++) {
      assert_int_equal(trace.row[i].input_tokens, inputs[shard - 1][i]);
    }
    assert_int_equal(change[KC_CHANGE_DETACHED], 0); /* sessions stay whole */
    kc_trace_free(&trace);
  }
}

/* 1/2 of 2000 sessions of 2 rows: about 1000 kept (5 sigma = 112), each whole. */
static void sample_keeps_whole_sessions(void **state)
{
  (void)state;
  enum { SESSIONS = 2000 };
  static struct made_row row[2 * SESSIONS];
  static uint32_t session[2 * SESSIONS];
  for (uint32_t i = 0; i < 2 * SESSIONS; i++) {
    row[i] = (struct made_row){i, i % SESSIONS + 1, 1};
    session[i] = i % SESSIONS;
  }
  for (uint64_t seed = 1; seed <= 3; seed++) {
    struct kc_trace trace;
    struct kc_transform transform;
    uint64_t change[KC_CHANGES];
    make_trace(&trace, row, 2 * SESSIONS);
    make_sessions(&trace, session, SESSIONS);
    kc_transform_default(&transform);
    transform.sample = (struct kc_fraction){1, 2};
    transform.seed = seed;
    transform_ok(&trace, &transform, change);
    assert_in_range(trace.session_count, 1000 - 112, 1000 + 112);
    assert_int_equal(trace.count, 2 * trace.session_count);
    for (uint32_t s = 0; s < trace.session_count; s++) { /* first turns, then second ones */
      assert_int_equal(trace.column.session[s], s);
      assert_int_equal(trace.column.session[trace.session_count + s], s);
      assert_int_equal(trace.row[s].input_tokens,
                       trace.row[trace.session_count + s].input_tokens);
    }
    assert_int_equal(change[KC_CHANGE_SAMPLE_DROPPED], 2 * SESSIONS - trace.count);
    kc_trace_free(&trace);
  }
}

static void rate_is_exact(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.rate = (struct kc_fraction){3, 1};
  transform_ok(&trace, &transform, change);
  assert_arrival(&trace, 1, INT64_C(666666666667)); /* 2 s / 3, rounded half up */
  assert_arrival(&trace, 2, INT64_C(1666666666667));
  assert_arrival(&trace, 4, 4 * S);
  assert_int_equal(trace.span_ps, INT64_C(6666666666667));
  assert_int_equal(change[KC_CHANGE_RATE_SCALED], 5); /* row 0 stays at 0 */
  assert_int_equal(trace.column.wait_ps[3], 3 * S);   /* think time is not arrival rate */
  kc_trace_free(&trace);
}

static void rate_out_of_range_is_refused(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.rate = (struct kc_fraction){1, 1000000000};
  assert_int_equal(kc_trace_transform(&trace, &transform, change, NULL), KC_ERR_INPUT);
  kc_trace_free(&trace);
}

/* Row 2 waited 1 s, so row 0 was active until 4; row 3 waited 3 s: row 2 until 7; row 5 4 s: row 1
 * until 16. Somebody is active from 0 to 16; the 4 s from 16 to 20 are cut to 0.5. */
static void idle_is_when_nobody_is_active(void **state)
{
  (void)state;
  struct kc_trace trace;
  uint64_t change[KC_CHANGES] = {0};
  make_sample(&trace);
  assert_int_equal(kc_trace_cap_idle(&trace, 500 * MS, change, NULL), KC_OK);
  /* 0 .. 4 row 0, 2 .. 16 row 1: busy without a break until 16 */
  assert_int_equal(change[KC_CHANGE_GAPS_CAPPED], 1);
  assert_int_equal(change[KC_CHANGE_GAP_REMOVED_MS], 3500);
  assert_arrival(&trace, 3, 10 * S);
  assert_arrival(&trace, 4, 12 * S);
  assert_arrival(&trace, 5, 16500 * MS);
  assert_int_equal(trace.column.wait_ps[5], 500 * MS); /* its wait spans the stretch */
  assert_int_equal(trace.column.wait_ps[3], 3 * S);
  assert_int_equal(trace.span_ps, 16500 * MS);
  kc_trace_free(&trace);
}

static void idle_cap_without_links_sees_points(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {1, 1, 1}, {101, 1, 1}, {102, 1, 1}};
  struct kc_trace trace;
  uint64_t change[KC_CHANGES] = {0};
  make_trace(&trace, row, 4);
  assert_int_equal(kc_trace_cap_idle(&trace, 10 * S, change, NULL), KC_OK);
  assert_arrival(&trace, 1, 1 * S);
  assert_arrival(&trace, 2, 11 * S);
  assert_arrival(&trace, 3, 12 * S);
  assert_int_equal(change[KC_CHANGE_GAPS_CAPPED], 1);
  assert_int_equal(change[KC_CHANGE_GAP_REMOVED_MS], 90000);
  kc_trace_free(&trace);
}

static void spread_stays_in_its_tick(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {3, 4, 1},
                                        {3, 5, 1}, {4, 6, 1}, {4, 7, 1}};
  struct kc_trace trace, again;
  uint64_t change[KC_CHANGES] = {0};
  make_trace(&trace, row, 7);
  make_trace(&again, row, 7);
  assert_int_equal(kc_trace_spread(&trace, 3 * S, 9, change, NULL), KC_OK);
  assert_int_equal(kc_trace_spread(&again, 3 * S, 9, change, NULL), KC_OK);
  assert_memory_equal(trace.row, again.row, 7 * sizeof *trace.row);
  assert_int_equal(change[KC_CHANGE_SPREAD], 14);
  const kc_ps first = trace.row[0].arrival_ps;
  assert_int_equal(first, 0);
  for (uint64_t i = 0; i < 7; i++) {
    assert_int_equal(trace.row[i].input_tokens, i + 1); /* order stays */
    if (i > 0) assert_true(trace.row[i].arrival_ps > trace.row[i - 1].arrival_ps);
  }
  /* the tick at 3 s is 1 s wide: rows 3 and 4 before row 5 */
  assert_true(trace.row[2].arrival_ps < 3 * S);
  assert_true(trace.row[4].arrival_ps - trace.row[3].arrival_ps < 1 * S);
  kc_trace_free(&trace);
  kc_trace_free(&again);
}

/* A tick narrower than the spread: nobody moves past the next instant, whatever the seed. */
static void spread_never_passes_the_next_instant(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 4, 1}, {1, 5, 1}};
  for (uint64_t seed = 1; seed <= 50; seed++) {
    struct kc_trace trace;
    uint64_t change[KC_CHANGES] = {0};
    make_trace(&trace, row, 5);
    assert_int_equal(kc_trace_spread(&trace, 3 * S, seed, change, NULL), KC_OK);
    assert_true(trace.row[3].arrival_ps < 1 * S);
    assert_true(trace.row[4].arrival_ps >= trace.row[3].arrival_ps);
    assert_true(trace.row[4].arrival_ps < 4 * S);
    kc_trace_free(&trace);
  }
}

static void open_loop_forgets_the_links(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_transform transform;
  uint64_t change[KC_CHANGES];
  make_sample(&trace);
  kc_transform_default(&transform);
  transform.open_loop = true;
  transform_ok(&trace, &transform, change);
  assert_null(trace.column.after);
  assert_null(trace.column.wait_ps);
  assert_non_null(trace.column.session);
  assert_int_equal(change[KC_CHANGE_OPENED], 3);
  kc_trace_free(&trace);
}

static void anonymise_keeps_what_is_equal(void **state)
{
  (void)state;
  static const uint32_t before[] = {0, 1, 2, 0, 1, 3, 0, 2, 4, 5};
  struct kc_trace trace;
  uint64_t change[KC_CHANGES] = {0};
  bool moved = false;
  make_sample(&trace);
  assert_int_equal(kc_trace_anonymise(&trace, 7, change, NULL), KC_OK);
  for (size_t i = 0; i < 10; i++) {
    assert_true(trace.block[i] < 6);
    moved = moved || trace.block[i] != before[i];
    for (size_t j = 0; j < 10; j++) {
      assert_int_equal(trace.block[i] == trace.block[j], before[i] == before[j]);
    }
  }
  assert_true(moved); /* seed 7 does not draw the identity */
  for (uint32_t k = 0; k < 2; k++) assert_null(strstr(trace.kind_name[k], "secret"));
  assert_int_equal(trace.column.kind[0], trace.column.kind[2]);
  assert_int_not_equal(trace.column.kind[0], trace.column.kind[1]);
  assert_int_equal(trace.column.kind[4], NONE);
  assert_int_equal(trace.row[3].input_tokens, 400);
  assert_int_equal(change[KC_CHANGE_ANONYMISED], 2);
  kc_trace_free(&trace);
}

static void fractions(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint64_t numerator, denominator; /* 0: refused */
  } table[] = {{"3/4", 3, 4}, {"6/8", 3, 4}, {"0.75", 3, 4}, {"2", 2, 1}, {"1.0", 1, 1},
               {"1000000000/3", 1000000000, 3}, {"0", 0, 0}, {"0/4", 0, 0}, {"3/0", 0, 0},
               {"", 0, 0}, {"/2", 0, 0}, {"1/", 0, 0}, {".5", 0, 0}, {"1.", 0, 0}, {"-1", 0, 0},
               {"1/2/3", 0, 0}, {"1e3", 0, 0}, {"10000000001/3", 0, 0},
               {"99999999999999999999", 0, 0}, {"0.0000000000001", 0, 0}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct kc_fraction fraction = {0, 0};
    const bool valid = kc_fraction_parse(table[i].text, &fraction);
    if (valid != (table[i].denominator != 0) || fraction.numerator != table[i].numerator ||
        fraction.denominator != table[i].denominator) {
      fail_msg("\"%s\" gave %d, %llu/%llu", table[i].text, valid,
               (unsigned long long)fraction.numerator, (unsigned long long)fraction.denominator);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_asked_nothing_changed),
      cmocka_unit_test(window_cuts_and_shifts),
      cmocka_unit_test(dropped_rows_pass_their_waits_on),
      cmocka_unit_test(filters_drop_what_is_marked),
      cmocka_unit_test(pitfall_21_the_head_can_be_skipped),
      cmocka_unit_test(pitfall_28_more_requests_than_rows_stop),
      cmocka_unit_test(nothing_left_is_an_error),
      cmocka_unit_test(senseless_transforms_are_refused),
      cmocka_unit_test(shards_are_disjoint_and_whole),
      cmocka_unit_test(sample_keeps_whole_sessions),
      cmocka_unit_test(rate_is_exact),
      cmocka_unit_test(rate_out_of_range_is_refused),
      cmocka_unit_test(idle_is_when_nobody_is_active),
      cmocka_unit_test(idle_cap_without_links_sees_points),
      cmocka_unit_test(spread_stays_in_its_tick),
      cmocka_unit_test(spread_never_passes_the_next_instant),
      cmocka_unit_test(open_loop_forgets_the_links),
      cmocka_unit_test(anonymise_keeps_what_is_equal),
      cmocka_unit_test(fractions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
