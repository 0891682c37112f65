/* The order of events, by hand-written examples, for both queues: time, then band, then first come
 * first served; and the edges: full, empty, the farthest time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/events/events.h"

enum { ARENA_BYTES = 1 << 20 };

static const enum kc_event_queue_kind kinds[] = {KC_QUEUE_BINARY, KC_QUEUE_RADIX};

struct scheduled {
  kc_ps time_ps;
  enum kc_band band;
};

static struct kc_event_queue *create(struct kc_arena *arena, enum kc_event_queue_kind kind,
                                     uint32_t capacity)
{
  assert_int_equal(kc_arena_init(arena, ARENA_BYTES, NULL), KC_OK);
  struct kc_event_queue *queue = kc_events_create(kind, capacity, arena);
  assert_non_null(queue);
  return queue;
}

/* Pushes `in` (subject = index) and checks that the subjects come back as `expected`. */
static void check_order(const struct scheduled *in, const uint32_t *expected, uint32_t count)
{
  for (size_t k = 0; k < 2; ++k) {
    struct kc_arena arena;
    struct kc_event_queue *queue = create(&arena, kinds[k], count);
    for (uint32_t i = 0; i < count; ++i) {
      assert_int_equal(kc_events_push(queue, in[i].time_ps, in[i].band, 7, i), KC_OK);
    }
    for (uint32_t i = 0; i < count; ++i) {
      struct kc_event event;
      assert_int_equal(kc_events_next_ps(queue), in[expected[i]].time_ps);
      assert_true(kc_events_pop(queue, &event));
      assert_int_equal(event.subject, expected[i]);
      assert_int_equal(event.time_ps, in[expected[i]].time_ps);
      assert_int_equal(event.kind, 7);
    }
    assert_int_equal(kc_events_next_ps(queue), KC_PS_NEVER);
    kc_arena_deinit(&arena);
  }
}

static void test_time_decides_first(void **state)
{
  (void)state;
  const struct scheduled in[] = {
      {30, KC_BAND_ARRIVAL}, {10, KC_BAND_END}, {20, KC_BAND_STEP}, {0, KC_BAND_STATISTICS}};
  const uint32_t expected[] = {3, 1, 2, 0};
  check_order(in, expected, 4);
}

static void test_band_decides_at_one_instant(void **state)
{
  (void)state;
  const struct scheduled in[] = {{5, KC_BAND_END},
                                 {5, KC_BAND_STATISTICS},
                                 {5, KC_BAND_STEP},
                                 {5, KC_BAND_COMPLETION},
                                 {5, KC_BAND_ARRIVAL}};
  const uint32_t expected[] = {4, 3, 2, 1, 0};
  check_order(in, expected, 5);
}

static void test_first_in_first_out_in_a_band(void **state)
{
  (void)state;
  const struct scheduled in[] = {{9, KC_BAND_STEP},    {9, KC_BAND_STEP}, {4, KC_BAND_STEP},
                                 {9, KC_BAND_ARRIVAL}, {9, KC_BAND_STEP}, {4, KC_BAND_STEP},
                                 {9, KC_BAND_ARRIVAL}, {9, KC_BAND_STEP}};
  const uint32_t expected[] = {2, 5, 3, 6, 0, 1, 4, 7};
  check_order(in, expected, 8);
}

/* An event scheduled for the present instant in an earlier band is next, whatever was there. */
static void test_push_at_the_present_instant(void **state)
{
  (void)state;
  for (size_t k = 0; k < 2; ++k) {
    struct kc_arena arena;
    struct kc_event event;
    struct kc_event_queue *queue = create(&arena, kinds[k], 8);
    assert_int_equal(kc_events_push(queue, 100, KC_BAND_COMPLETION, 0, 1), KC_OK);
    assert_int_equal(kc_events_push(queue, 100, KC_BAND_STATISTICS, 0, 2), KC_OK);
    assert_true(kc_events_pop(queue, &event));
    assert_int_equal(event.subject, 1);
    assert_int_equal(kc_events_push(queue, 100, KC_BAND_STATISTICS, 0, 3), KC_OK);
    assert_int_equal(kc_events_push(queue, 100, KC_BAND_ARRIVAL, 0, 4), KC_OK);
    const uint32_t expected[] = {4, 2, 3};
    for (size_t i = 0; i < 3; ++i) {
      assert_true(kc_events_pop(queue, &event));
      assert_int_equal(event.subject, expected[i]);
    }
    kc_arena_deinit(&arena);
  }
}

static void test_full_and_empty(void **state)
{
  (void)state;
  for (size_t k = 0; k < 2; ++k) {
    struct kc_arena arena;
    struct kc_event event;
    struct kc_event_queue *queue = create(&arena, kinds[k], 2);
    assert_false(kc_events_pop(queue, &event));
    assert_int_equal(kc_events_push(queue, 1, KC_BAND_STEP, 0, 1), KC_OK);
    assert_int_equal(kc_events_push(queue, 1, KC_BAND_STEP, 0, 2), KC_OK);
    assert_int_equal(kc_events_push(queue, 0, KC_BAND_STEP, 0, 3), KC_ERR_LIMIT);
    assert_true(kc_events_pop(queue, &event));
    assert_int_equal(event.subject, 1); /* the refused push left no trace */
    assert_int_equal(kc_events_push(queue, 1, KC_BAND_STEP, 0, 4), KC_OK);
    assert_true(kc_events_pop(queue, &event));
    assert_int_equal(event.subject, 2);
    assert_true(kc_events_pop(queue, &event));
    assert_int_equal(event.subject, 4);
    assert_false(kc_events_pop(queue, &event));
    kc_arena_deinit(&arena);
  }
}

/* Every bit of the time is used once: powers of two, and the last picosecond before "never". */
static void test_farthest_times(void **state)
{
  (void)state;
  struct scheduled in[64];
  uint32_t expected[64];
  for (uint32_t i = 0; i < 63; ++i) {
    in[i] = (struct scheduled){(kc_ps)(UINT64_C(1) << (62 - i)), KC_BAND_STEP};
    expected[62 - i] = i;
  }
  in[63] = (struct scheduled){KC_PS_NEVER - 1, KC_BAND_STEP};
  expected[63] = 63;
  check_order(in, expected, 64);
}

static void test_need_is_enough_and_exact(void **state)
{
  (void)state;
  for (size_t k = 0; k < 2; ++k) {
    struct kc_arena arena;
    const size_t need = kc_events_need(kinds[k], 1000);
    assert_int_equal(kc_arena_init(&arena, need, NULL), KC_OK);
    assert_non_null(kc_events_create(kinds[k], 1000, &arena));
    assert_int_equal(arena.used_bytes, need);
    assert_null(kc_events_create(kinds[k], 1000, &arena)); /* no room for a second one */
    kc_arena_deinit(&arena);
  }
}

#ifndef KC_COVERAGE /* where asserts are compiled out */
/* Scheduling before the last event popped is our mistake: the process aborts, it does not go on. */
static void test_the_past_is_refused(void **state)
{
  (void)state;
  for (size_t k = 0; k < 2; ++k) {
    struct kc_arena arena;
    struct kc_event event;
    struct kc_event_queue *queue = create(&arena, kinds[k], 8);
    assert_int_equal(kc_events_push(queue, 100, KC_BAND_STEP, 0, 0), KC_OK);
    assert_true(kc_events_pop(queue, &event));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      fclose(stderr); /* the message of the assert is expected */
      (void)kc_events_push(queue, 99, KC_BAND_STEP, 0, 0);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    kc_arena_deinit(&arena);
  }
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time_decides_first),
      cmocka_unit_test(test_band_decides_at_one_instant),
      cmocka_unit_test(test_first_in_first_out_in_a_band),
      cmocka_unit_test(test_push_at_the_present_instant),
      cmocka_unit_test(test_full_and_empty),
      cmocka_unit_test(test_farthest_times),
      cmocka_unit_test(test_need_is_enough_and_exact),
#ifndef KC_COVERAGE
      cmocka_unit_test(test_the_past_is_refused),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
