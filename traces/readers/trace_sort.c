/* Bottom-up merge sort. qsort is not used: it is not stable, and what it does with ties differs
 * between C libraries, which would make results depend on the machine.
 *
 *   runs of 16 by insertion -> merged in pairs, 32, 64, ... between `row` and a scratch array
 *
 * A pair that already is in order is copied, not merged, so a nearly sorted trace costs little. The
 * scratch array belongs to this call (set-up, never a step loop). */
#include "traces/readers/trace_sort.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_ROWS = 16 };

static void sort_run(struct kc_trace_row *row, uint64_t count)
{
  for (uint64_t i = 1; i < count; i++) {
    const struct kc_trace_row moving = row[i];
    uint64_t at = i;
    for (; at > 0 && row[at - 1].arrival_ps > moving.arrival_ps; at--) row[at] = row[at - 1];
    row[at] = moving;
  }
}

/* Merges from[0, middle) and from[middle, count) into `to`; the left one wins ties. */
static void merge(struct kc_trace_row *to, const struct kc_trace_row *from, uint64_t middle,
                  uint64_t count)
{
  uint64_t left = 0, right = middle;
  KC_ASSERT(middle <= count);
  if (middle == count || from[middle - 1].arrival_ps <= from[middle].arrival_ps) {
    memcpy(to, from, count * sizeof *to);
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    const bool take_left =
        right == count || (left < middle && from[left].arrival_ps <= from[right].arrival_ps);
    to[i] = from[take_left ? left++ : right++];
  }
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

bool kc_trace_sort(struct kc_trace_row *row, uint64_t count)
{
  KC_ASSERT(row != NULL || count == 0);
  struct kc_trace_row *const scratch =
      KC_FAULT("trace_sort_memory") ? NULL : malloc(count * sizeof *row + 1);
  if (scratch == NULL) return false;
  struct kc_trace_row *from = row, *to = scratch;
  for (uint64_t at = 0; at < count; at += RUN_ROWS) {
    sort_run(row + at, smaller(RUN_ROWS, count - at));
  }
  for (uint64_t width = RUN_ROWS; width < count; width *= 2) {
    for (uint64_t at = 0; at < count; at += 2 * width) {
      const uint64_t pair = smaller(2 * width, count - at);
      merge(to + at, from + at, smaller(width, pair), pair);
    }
    struct kc_trace_row *const swap = from;
    from = to;
    to = swap;
  }
  if (from != row) memcpy(row, from, count * sizeof *row);
  free(scratch);
  return true;
}
