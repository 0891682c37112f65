/* Which row of a trace is due next: order, circles, waits beyond what a run covers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/replay/session.h"

#define NONE KC_SESSION_START
enum { ROWS_MAX = 8, KIND = 7 };

struct fixture {
  struct kc_request row[ROWS_MAX];
  uint32_t after[ROWS_MAX];
  kc_ps wait_ps[ROWS_MAX];
  uint32_t count;
  struct kc_arena arena;
  struct kc_event_queue *queue;
  struct kc_sessions sessions;
  struct kc_diag diag;
};

static void add(struct fixture *f, kc_ps arrival_ps, uint32_t after, kc_ps wait_ps)
{
  assert_true(f->count < ROWS_MAX);
  f->row[f->count] = (struct kc_request){
      .arrival_ps = arrival_ps, .input_tokens = 1, .output_tokens = 1, .max_tokens = 1};
  f->after[f->count] = after;
  f->wait_ps[f->count++] = wait_ps;
}

static enum kc_err begin(struct fixture *f)
{
  const struct kc_session_config config = {f->row, f->after, f->wait_ps};
  const size_t need =
      kc_sessions_need(f->count) + kc_events_need(KC_QUEUE_BINARY, f->count);
  assert_int_equal(kc_arena_init(&f->arena, need, &f->diag), KC_OK);
  f->queue = kc_events_create(KC_QUEUE_BINARY, f->count, &f->arena);
  assert_non_null(f->queue);
  return kc_sessions_init(&f->sessions, &config, f->count, f->queue, KIND, &f->arena, &f->diag);
}

/* The next event must be an arrival at `time_ps`, of `row`. */
static void expect_next(struct fixture *f, kc_ps time_ps, uint32_t row)
{
  struct kc_event event;
  uint32_t offered = NONE;
  assert_true(kc_events_pop(f->queue, &event));
  assert_int_equal(event.kind, KIND);
  assert_int_equal(event.time_ps, time_ps);
  assert_int_equal(kc_sessions_offer(&f->sessions, event.time_ps, &offered, &f->diag), KC_OK);
  assert_int_equal(offered, row);
  assert_int_equal(f->sessions.row_of[f->sessions.offered - 1], row);
}

static void rows_come_when_they_are_due(void **state)
{
  (void)state;
  struct fixture f = {0};
  struct kc_event event;
  add(&f, 0, NONE, 0);   /* 0 */
  add(&f, 0, 0, 30);     /* 1: 30 after row 0 */
  add(&f, 40, NONE, 0);  /* 2 */
  add(&f, 1, 0, 30);     /* 3: with row 1 */
  add(&f, 1, 2, 0);      /* 4: with the end of row 2 */
  add(&f, 50, NONE, 0);  /* 5 */
  assert_int_equal(begin(&f), KC_OK);
  expect_next(&f, 0, 0);
  kc_sessions_ended(&f.sessions, 0, 10);
  expect_next(&f, 40, 1); /* 10 + 30; rows 1, 2 and 3 are due at 40 */
  expect_next(&f, 40, 2);
  expect_next(&f, 40, 3);
  kc_sessions_ended(&f.sessions, 2, 50); /* the third offered: row 2 */
  expect_next(&f, 50, 4);
  expect_next(&f, 50, 5);
  assert_false(kc_events_pop(f.queue, &event));
  kc_arena_deinit(&f.arena);
}

/* A row that becomes due when others of that instant still wait for their turn goes among them. */
static void a_late_row_with_a_low_number_goes_first(void **state)
{
  (void)state;
  struct fixture f = {0};
  add(&f, 9, 1, 0);     /* 0: waits for row 1, without a pause */
  add(&f, 0, NONE, 0);  /* 1 */
  add(&f, 0, NONE, 0);  /* 2 */
  assert_int_equal(begin(&f), KC_OK);
  expect_next(&f, 0, 1);
  kc_sessions_ended(&f.sessions, 0, 0); /* refused at once */
  expect_next(&f, 0, 0);
  expect_next(&f, 0, 2);
  kc_arena_deinit(&f.arena);
}

static void circles_are_refused(void **state)
{
  (void)state;
  struct fixture f = {0};
  add(&f, 0, NONE, 0);
  add(&f, 0, 3, 1); /* 1 -> 3 -> 2 -> 1 */
  add(&f, 0, 1, 1);
  add(&f, 0, 2, 1);
  add(&f, 0, 2, 1); /* behind the circle */
  assert_int_equal(begin(&f), KC_ERR_INPUT);
  assert_string_equal(f.diag.text,
                      "4 of the trace's 5 requests wait for each other in a circle, so none of "
                      "them could ever start; mend the trace, or replay it by its arrival times "
                      "(workload.loop: open)");
  kc_arena_deinit(&f.arena);
}

static void a_row_that_waits_for_itself_is_refused(void **state)
{
  (void)state;
  struct fixture f = {0};
  add(&f, 0, 0, 1);
  assert_int_equal(begin(&f), KC_ERR_INPUT);
  kc_arena_deinit(&f.arena);
}

/* Half of 2^63 ps is 53.4 days. The longest wait of all must neither overflow nor be believed. */
static void waits_of_months_are_refused(void **state)
{
  (void)state;
  const kc_ps waits[] = {KC_SESSION_DUE_MAX_PS, INT64_MAX};
  for (int i = 0; i < 2; i++) {
    struct fixture f = {0};
    struct kc_event event;
    uint32_t row;
    add(&f, 0, NONE, 0);
    add(&f, 0, 0, waits[i]);
    assert_int_equal(begin(&f), KC_OK);
    expect_next(&f, 0, 0);
    kc_sessions_ended(&f.sessions, 0, 1);
    assert_true(kc_events_pop(f.queue, &event));
    assert_int_equal(kc_sessions_offer(&f.sessions, event.time_ps, &row, &f.diag), KC_ERR_LIMIT);
    assert_non_null(strstr(f.diag.text, i == 0 ? "would start 53 days" : "would start 106 days"));
    assert_non_null(strstr(f.diag.text, "(workload.idle_cap: 600s, or kvcap trace convert "
                                        "--idle-cap)"));
    kc_arena_deinit(&f.arena);
  }
}

static void a_wait_of_almost_that_is_not(void **state)
{
  (void)state;
  struct fixture f = {0};
  add(&f, 0, NONE, 0);
  add(&f, 0, 0, KC_SESSION_DUE_MAX_PS - 1);
  assert_int_equal(begin(&f), KC_OK);
  expect_next(&f, 0, 0);
  kc_sessions_ended(&f.sessions, 0, 1);
  expect_next(&f, KC_SESSION_DUE_MAX_PS, 1);
  kc_arena_deinit(&f.arena);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_come_when_they_are_due),
                                     cmocka_unit_test(a_late_row_with_a_low_number_goes_first),
                                     cmocka_unit_test(circles_are_refused),
                                     cmocka_unit_test(a_row_that_waits_for_itself_is_refused),
                                     cmocka_unit_test(waits_of_months_are_refused),
                                     cmocka_unit_test(a_wait_of_almost_that_is_not)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
