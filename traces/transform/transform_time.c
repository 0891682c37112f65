/* The clock of a trace: idle stretches cut, arrivals closer or further apart, coarse ticks spread.
 * All three keep the order of rows, so nothing needs sorting and no link changes.
 *
 *   idle cap   session A  |==|....wait....|==|
 *              session B     |=====|                     = active, from arrival to end
 *              idle                |xxxxxx|              only this stretch is cut: nobody is active
 *
 * Capping the waits of each session instead would also squeeze time in which others are busy, and
 * so raise the load (SemiAnalysisAI/InferenceX, pull request 2365).
 *
 * Set-up only: takes scratch memory of 16 bytes a row. */
#include <stdlib.h>

#include "engine/base/check.h"
#include "engine/base/random.h"
#include "traces/transform/transform.h"

static enum kc_err no_memory(struct kc_diag *diag, uint64_t rows)
{
  return kc_fail(diag, KC_ERR_MEMORY, "out of memory: the times of a trace of %llu rows",
                 (unsigned long long)rows);
}

/* ---- idle cap ---- */

/* end[i]: latest instant at which row i is known to be active. */
static void find_ends(const struct kc_trace *trace, kc_ps *end)
{
  const struct kc_trace_columns *const column = &trace->column;
  for (uint64_t i = 0; i < trace->count; i++) end[i] = trace->row[i].arrival_ps;
  if (column->after == NULL) return;
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t before = column->after[i];
    if (before == KC_TRACE_NONE) continue;
    KC_ASSERT(before < trace->count);
    const kc_ps wait = column->wait_ps == NULL ? 0 : column->wait_ps[i];
    const kc_ps ended = trace->row[i].arrival_ps - wait;
    if (ended > end[before]) end[before] = ended;
  }
}

/* removed[i]: picoseconds taken out of the trace before row i. */
static void find_removed(const struct kc_trace *trace, const kc_ps *end, kc_ps cap_ps,
                         kc_ps *removed, uint64_t change[KC_CHANGES])
{
  kc_ps busy_until = end[0], total = 0;
  removed[0] = 0;
  for (uint64_t i = 1; i < trace->count; i++) {
    const kc_ps idle = trace->row[i].arrival_ps - busy_until;
    if (idle > cap_ps) {
      total += idle - cap_ps;
      change[KC_CHANGE_GAPS_CAPPED]++;
    }
    removed[i] = total;
    if (end[i] > busy_until) busy_until = end[i];
  }
  KC_ASSERT(total >= 0 && total <= trace->span_ps);
  change[KC_CHANGE_GAP_REMOVED_MS] += (uint64_t)(total / KC_PS_PER_MS);
}

static void remove_idle(struct kc_trace *trace, const kc_ps *removed)
{
  const struct kc_trace_columns *const column = &trace->column;
  for (uint64_t i = 0; i < trace->count; i++) {
    trace->row[i].arrival_ps -= removed[i];
    KC_ASSERT(trace->row[i].arrival_ps >= 0);
    if (column->after == NULL || column->wait_ps == NULL) continue;
    const uint32_t before = column->after[i];
    if (before == KC_TRACE_NONE || removed[before] >= removed[i]) continue;
    const kc_ps less = removed[i] - removed[before];
    column->wait_ps[i] = column->wait_ps[i] > less ? column->wait_ps[i] - less : 0;
  }
}

enum kc_err kc_trace_cap_idle(struct kc_trace *trace, kc_ps cap_ps, uint64_t change[KC_CHANGES],
                              struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(cap_ps >= 0);
  kc_ps *const end = malloc(trace->count * 2 * sizeof *end);
  if (end == NULL) return no_memory(diag, trace->count);
  kc_ps *const removed = end + trace->count;
  find_ends(trace, end);
  find_removed(trace, end, cap_ps, removed, change);
  remove_idle(trace, removed);
  free(end);
  kc_trace_refresh(trace);
  return KC_OK;
}

/* ---- rate ---- */

enum kc_err kc_trace_scale_rate(struct kc_trace *trace, struct kc_fraction rate,
                                uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(rate.numerator > 0 && rate.denominator > 0);
  if (rate.numerator == rate.denominator) return KC_OK;
  const kc_u128 longest = (kc_u128)trace->span_ps * rate.denominator / rate.numerator;
  if (longest >= (kc_u128)KC_PS_NEVER / 2) {
    return kc_fail(diag, KC_ERR_INPUT, "at this rate the trace would last longer than 53 days; "
                   "choose a higher one or cut a window");
  }
  for (uint64_t i = 0; i < trace->count; i++) {
    const kc_ps arrival = trace->row[i].arrival_ps;
    trace->row[i].arrival_ps =
        (kc_ps)kc_muldiv_round((uint64_t)arrival, rate.denominator, rate.numerator);
    change[KC_CHANGE_RATE_SCALED] += trace->row[i].arrival_ps != arrival;
  }
  kc_trace_refresh(trace);
  return KC_OK;
}

/* ---- spread ---- */

static int compare_ps(const void *a, const void *b)
{
  const kc_ps x = *(const kc_ps *)a, y = *(const kc_ps *)b;
  return (x > y) - (x < y);
}

/* Rows [first, end) share an instant; draws are a function of seed and instant only. */
static void spread_group(struct kc_trace *trace, uint64_t first, uint64_t end, kc_ps width_ps,
                         uint64_t seed, kc_ps *offset)
{
  const kc_ps instant = trace->row[first].arrival_ps;
  struct kc_random random;
  KC_ASSERT(first < end && width_ps > 0);
  kc_random_init(&random, seed, "trace spread", (uint64_t)instant);
  for (uint64_t i = first; i < end; i++) {
    offset[i - first] = (kc_ps)kc_random_below(&random, (uint64_t)width_ps);
  }
  qsort(offset, end - first, sizeof *offset, compare_ps);
  for (uint64_t i = first; i < end; i++) trace->row[i].arrival_ps = instant + offset[i - first];
}

static uint64_t group_end(const struct kc_trace *trace, uint64_t first)
{
  uint64_t end = first + 1;
  while (end < trace->count && trace->row[end].arrival_ps == trace->row[first].arrival_ps) end++;
  return end;
}

static void spread_all(struct kc_trace *trace, kc_ps width_ps, uint64_t seed, kc_ps *offset,
                       uint64_t change[KC_CHANGES])
{
  uint64_t end = 0;
  for (uint64_t first = 0; first < trace->count; first = end) {
    end = group_end(trace, first);
    kc_ps width = width_ps;
    if (end < trace->count) {
      const kc_ps gap = trace->row[end].arrival_ps - trace->row[first].arrival_ps;
      if (gap < width) width = gap;
    }
    spread_group(trace, first, end, width, seed, offset);
    change[KC_CHANGE_SPREAD] += end - first;
  }
  const kc_ps earliest = trace->row[0].arrival_ps;
  for (uint64_t i = 0; i < trace->count; i++) trace->row[i].arrival_ps -= earliest;
}

enum kc_err kc_trace_spread(struct kc_trace *trace, kc_ps width_ps, uint64_t seed,
                            uint64_t change[KC_CHANGES], struct kc_diag *diag)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(width_ps >= 0);
  if (width_ps == 0) return KC_OK;
  if (trace->span_ps > KC_PS_NEVER - width_ps) {
    return kc_fail(diag, KC_ERR_INPUT, "the trace would last longer than 106 days; spread less");
  }
  kc_ps *const offset = malloc(trace->count * sizeof *offset);
  if (offset == NULL) return no_memory(diag, trace->count);
  spread_all(trace, width_ps, seed, offset, change);
  free(offset);
  kc_trace_refresh(trace);
  return KC_OK;
}
