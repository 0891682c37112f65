/* Dropping rows against a naive twin: for random traces and random choices, each kept row says of
 * the others what a slow look at the original gives. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_trace.h"
#include "traces/transform/transform.h"

enum { SEEDS = 300 };

static void twin_same(const char *what, uint64_t row, uint64_t seen, uint64_t expected,
                      uint64_t seed)
{
  if (seen == expected) return;
  fail_msg("seed %" PRIu64 ": %s of kept row %" PRIu64 " is %" PRIu64 ", expected %" PRIu64, seed,
           what, row, seen, expected);
}

/* Number of kept rows before `old`: its new number. */
static uint32_t new_number(const uint8_t *keep, uint32_t old)
{
  uint32_t number = 0;
  for (uint32_t i = 0; i < old; i++) number += keep[i];
  return number;
}

static void check_link(const struct kc_trace *before, const struct kc_trace *after,
                       const uint8_t *keep, uint32_t old, uint32_t now, uint64_t seed)
{
  uint32_t link = before->column.after[old];
  kc_ps wait = before->column.wait_ps[old];
  while (link != KC_TRACE_NONE && keep[link] == 0) {
    wait += before->column.wait_ps[link];
    link = before->column.after[link];
  }
  const bool alone = link == KC_TRACE_NONE;
  twin_same("link", now, after->column.after[now], alone ? link : new_number(keep, link), seed);
  twin_same("wait", now, (uint64_t)after->column.wait_ps[now], alone ? 0 : (uint64_t)wait, seed);
}

/* Equal where equal before, and numbered by first appearance: each new number is at most one above
 * the largest so far. */
static void check_numbers(const uint32_t *before, const uint32_t *after, uint32_t count,
                          uint32_t distinct, const char *what, uint64_t seed)
{
  uint32_t next = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (before[i] == KC_TRACE_NONE) {
      twin_same(what, i, after[i], KC_TRACE_NONE, seed);
      continue;
    }
    if (after[i] > next) fail_msg("seed %" PRIu64 ": %s skip a number", seed, what);
    if (after[i] == next) next++;
    for (uint32_t j = 0; j < i; j++) {
      twin_same(what, i, after[i] == after[j], before[i] == before[j], seed);
    }
  }
  twin_same(what, count, distinct, next, seed);
}

/* Ids of the rows in sequence, into `out`; returns how many. */
static uint32_t flatten(const struct kc_trace *trace, const uint8_t *keep, uint32_t *out)
{
  uint32_t total = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    if (keep != NULL && keep[i] == 0) continue;
    for (uint32_t b = 0; b < trace->column.block_count[i]; b++) {
      out[total++] = trace->block[trace->column.block_first[i] + b];
    }
  }
  return total;
}

static void check_blocks(const struct kc_trace *before, const struct kc_trace *after,
                         const uint8_t *keep, uint64_t seed)
{
  uint32_t *const x = calloc(before->block_total + 1, sizeof *x);
  uint32_t *const y = calloc(before->block_total + 1, sizeof *y);
  assert_true(x != NULL && y != NULL);
  const uint32_t count = flatten(before, keep, x);
  twin_same("blocks", 0, flatten(after, NULL, y), count, seed);
  check_numbers(x, y, count, after->block_distinct, "blocks", seed);
  free(x);
  free(y);
}

static void check_rows(const struct kc_trace *before, const struct kc_trace *after,
                       const uint8_t *keep, uint64_t seed)
{
  uint32_t now = 0, old_session[RANDOM_ROWS_MAX];
  kc_ps shift = 0;
  for (uint32_t old = 0; old < before->count; old++) {
    if (keep[old] == 0) continue;
    if (now == 0) shift = before->row[old].arrival_ps;
    twin_same("arrival", now, (uint64_t)after->row[now].arrival_ps,
              (uint64_t)(before->row[old].arrival_ps - shift), seed);
    twin_same("input", now, after->row[now].input_tokens, before->row[old].input_tokens, seed);
    twin_same("flags", now, after->column.flags[now], before->column.flags[old], seed);
    twin_same("kind", now, after->column.kind[now], before->column.kind[old], seed);
    check_link(before, after, keep, old, now, seed);
    old_session[now++] = before->column.session[old];
  }
  twin_same("rows", 0, after->count, now, seed);
  check_numbers(old_session, after->column.session, now, after->session_count, "sessions", seed);
}

static void kept_rows_agree_with_the_twin(void **state)
{
  (void)state;
  const struct random_shape shape = {.tick_ps = KC_PS_PER_MS, .sessions = true, .links = true,
                                     .blocks = true, .kinds = true, .flags = true,
                                     .block_tokens = 200, .tail = KC_TAIL_FLOOR};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct kc_random random, again;
    struct kc_trace before, after;
    uint8_t keep[RANDOM_ROWS_MAX];
    uint64_t change[KC_CHANGES] = {0};
    kc_random_init(&random, seed, "keep", 0);
    kc_random_init(&again, seed, "keep", 0);
    random_trace(&before, &random, &shape);
    random_trace(&after, &again, &shape);
    const uint64_t share = 1 + kc_random_below(&random, 9);
    for (uint64_t i = 0; i < before.count; i++) keep[i] = kc_random_chance(&random, share, 10);
    keep[kc_random_below(&random, before.count)] = 1;
    assert_int_equal(kc_trace_keep_rows(&after, keep, change, NULL), KC_OK);
    check_rows(&before, &after, keep, seed);
    check_blocks(&before, &after, keep, seed);
    kc_trace_free(&before);
    kc_trace_free(&after);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_rows_agree_with_the_twin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
