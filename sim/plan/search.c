/* The search over columns and replicas (see search.h). Set-up code around runs: it may allocate.
 *
 *   state[column][replicas]   open -> decided by a rule, or by an evaluation
 *
 *   repeat: up to KC_SEARCH_BATCH open candidates that beat the best one, columns of low estimates
 *           first; evaluate them; let each verdict decide what it can
 *
 * A column is asked at its estimate. One that passes there is asked downwards, in steps that
 * double; one that fails is asked whether it can win at all, with the most replicas that are still
 * cheaper than the best, and if so its bracket is halved. */
#include "sim/plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

enum { NONE = UINT32_MAX };

/* Of one candidate. A decided state is its rule, once more for a feasible twin. */
enum { OPEN, OUT, FAILED, PASSED };

struct candidate {
  uint8_t state;
  uint8_t rule; /* enum kc_search_rule, once decided */
};

struct key {
  uint64_t cost[2];
  uint32_t column;
};

struct searching {
  const struct kc_search_problem *problem;
  struct kc_search_result *result;
  struct candidate *candidate; /* [column * replica_count + index of replicas] */
  uint32_t *by_estimate;       /* columns */
  uint32_t *stride;            /* [column] next step downwards */
  uint32_t run_capacity;
  struct kc_search_probe best; /* column NONE: there is none */
};

const char *kc_search_rule_name(enum kc_search_rule rule)
{
  static const char *const names[] = {"ran", "price", "bound", "twin", "replicas", "faster"};
  KC_ASSERT((unsigned)rule < KC_SEARCH_RULES);
  return names[rule];
}

/* ---- order ---- */

static struct key key_of(const struct kc_search_problem *problem, uint32_t column,
                         uint32_t replicas)
{
  const uint64_t bought = (uint64_t)replicas + problem->spare;
  const struct kc_search_column *of = &problem->column[column];
  KC_ASSERT(column < problem->column_count);
  KC_ASSERT(bought > 0 && of->cost[0] <= UINT64_MAX / bought && of->cost[1] <= UINT64_MAX / bought);
  return (struct key){{of->cost[0] * bought, of->cost[1] * bought}, column};
}

static bool before(const struct key *a, const struct key *b)
{
  if (a->cost[0] != b->cost[0]) return a->cost[0] < b->cost[0];
  if (a->cost[1] != b->cost[1]) return a->cost[1] < b->cost[1];
  return a->column < b->column;
}

static bool beats_best(const struct searching *s, uint32_t column, uint32_t replicas)
{
  if (s->best.column == NONE) return true;
  const struct key key = key_of(s->problem, column, replicas);
  const struct key best = key_of(s->problem, s->best.column, s->best.replicas);
  return before(&key, &best);
}

static bool affordable(const struct kc_search_problem *problem, uint32_t column, uint32_t replicas)
{
  const struct key key = key_of(problem, column, replicas);
  return key.cost[0] <= problem->cost_max[0] && key.cost[1] <= problem->cost_max[1];
}

/* ---- candidates ---- */

static struct candidate *candidate_of(const struct searching *s, uint32_t column, uint32_t index)
{
  KC_ASSERT(column < s->problem->column_count);
  KC_ASSERT(index < s->problem->replica_count);
  return &s->candidate[(size_t)column * s->problem->replica_count + index];
}

static uint32_t index_of(const struct kc_search_problem *problem, uint32_t replicas)
{
  uint32_t index = 0;
  while (problem->replicas[index] != replicas) index++;
  KC_ASSERT(index < problem->replica_count);
  return index;
}

static void decide(struct candidate *candidate, uint8_t state, enum kc_search_rule rule)
{
  KC_ASSERT(state == FAILED || state == PASSED);
  if (candidate->state != OPEN) return;
  candidate->state = state;
  candidate->rule = (uint8_t)rule;
}

static int compare_estimates(const void *a, const void *b, void *context)
{
  const struct kc_search_problem *problem = context;
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  double cost[2];
  for (int i = 0; i < 2; i++) {
    const struct kc_search_column *column = &problem->column[i == 0 ? x : y];
    double replicas = column->replicas_guess;
    if (replicas < column->replicas_min) replicas = column->replicas_min;
    cost[i] = (double)column->cost[0] * replicas;
  }
  if (cost[0] < cost[1]) return -1;
  if (cost[0] > cost[1]) return 1;
  return (x > y) - (x < y);
}

static void mark_bounds(struct searching *s)
{
  const struct kc_search_problem *problem = s->problem;
  for (uint32_t c = 0; c < problem->column_count; c++) {
    KC_ASSERT(problem->column[c].replicas_guess > 0);
    for (uint32_t r = 0; r < problem->replica_count; r++) {
      struct candidate *candidate = candidate_of(s, c, r);
      KC_ASSERT(r == 0 || problem->replicas[r] > problem->replicas[r - 1]);
      if (!affordable(problem, c, problem->replicas[r])) {
        candidate->state = OUT;
      } else if (problem->replicas[r] < problem->column[c].replicas_min ||
                 problem->replicas[r] > problem->column[c].replicas_max) {
        decide(candidate, FAILED, KC_SEARCH_BOUND);
      }
    }
  }
}

static void searching_free(struct searching *s)
{
  free(s->candidate);
  free(s->by_estimate);
  free(s->stride);
}

static enum kc_err searching_init(struct searching *s, const struct kc_search_problem *problem,
                                  struct kc_search_result *result, struct kc_diag *diag)
{
  const size_t count = problem->column_count;
  memset(result, 0, sizeof *result);
  *s = (struct searching){.problem = problem, .result = result, .best = {NONE, 0}};
  KC_ASSERT(problem->replica_count > 0 && problem->evaluate != NULL);
  if (count * problem->replica_count > KC_SEARCH_CANDIDATES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "%zu candidates are more than the %d of one plan: give "
                   "fewer values", count * problem->replica_count, KC_SEARCH_CANDIDATES_MAX);
  }
  s->candidate = calloc(count * problem->replica_count + 1, sizeof *s->candidate);
  s->by_estimate = calloc(count + 1, sizeof *s->by_estimate);
  s->stride = calloc(count + 1, sizeof *s->stride);
  if (s->candidate == NULL || s->by_estimate == NULL || s->stride == NULL) {
    searching_free(s);
    return kc_fail(diag, KC_ERR_MEMORY, "no memory for the grid");
  }
  for (uint32_t c = 0; c < count; c++) {
    s->by_estimate[c] = c;
    s->stride[c] = 1;
  }
  qsort_r(s->by_estimate, count, sizeof *s->by_estimate, compare_estimates, (void *)problem);
  mark_bounds(s);
  return KC_OK;
}

/* ---- what a verdict decides ---- */

/* Columns that differ in what they are made of, not in how they are scheduled: nowhere slower, and
 * no less memory. */
static bool no_worse(const struct kc_search_column *a, const struct kc_search_column *b)
{
  if (a->rival != b->rival || a->cap != b->cap || a->pages < b->pages) return false;
  for (int i = 0; i < KC_SEARCH_PANEL_MAX; i++) {
    if (a->panel[i] > b->panel[i]) return false;
  }
  return true;
}

/* The run of `a` never met a limit that it does not share with `b`. */
static bool would_be_equal(const struct kc_search_column *a, const struct kc_search_column *b,
                           const struct kc_search_verdict *verdict)
{
  const uint32_t cap = a->cap < b->cap ? a->cap : b->cap;
  const uint64_t pages = a->pages < b->pages ? a->pages : b->pages;
  if (a->twin != b->twin || verdict->peak_running >= cap) return false;
  if (a->pages == b->pages) return true;
  return !a->pool_shows && verdict->peak_pages + a->pages_request <= pages;
}

static bool clearly_failed(const struct kc_search_problem *problem,
                           const struct kc_search_verdict *verdict)
{
  KC_ASSERT(problem->margin >= 0);
  return !verdict->feasible && verdict->excess > 1 + problem->margin;
}

/* Fails `column` with at most that many replicas. */
static void fail_up_to(struct searching *s, uint32_t column, uint32_t index,
                       enum kc_search_rule rule)
{
  KC_ASSERT(rule == KC_SEARCH_REPLICAS || rule == KC_SEARCH_FASTER);
  for (uint32_t r = 0; r <= index; r++) decide(candidate_of(s, column, r), FAILED, rule);
}

static void consider(struct searching *s, uint32_t column, uint32_t replicas)
{
  if (beats_best(s, column, replicas)) s->best = (struct kc_search_probe){column, replicas};
}

static void learn(struct searching *s, const struct kc_search_run *run)
{
  const struct kc_search_problem *problem = s->problem;
  const struct kc_search_verdict *verdict = &run->verdict;
  const struct kc_search_column *from = &problem->column[run->probe.column];
  const uint32_t index = index_of(problem, run->probe.replicas);
  struct candidate *own = candidate_of(s, run->probe.column, index);
  own->state = verdict->feasible ? PASSED : FAILED; /* also where a twin had decided it */
  own->rule = KC_SEARCH_RAN;
  if (verdict->feasible) consider(s, run->probe.column, run->probe.replicas);
  for (uint32_t c = 0; c < problem->column_count; c++) {
    const struct kc_search_column *column = &problem->column[c];
    if (would_be_equal(from, column, verdict)) {
      struct candidate *twin = candidate_of(s, c, index);
      if (twin->state == OPEN && verdict->feasible) consider(s, c, run->probe.replicas);
      decide(twin, own->state, KC_SEARCH_TWIN);
    }
    if (clearly_failed(problem, verdict) && no_worse(from, column)) {
      fail_up_to(s, c, index, c == run->probe.column ? KC_SEARCH_REPLICAS : KC_SEARCH_FASTER);
    }
  }
}

static enum kc_err evaluate(struct searching *s, const struct kc_search_probe *probe,
                            uint32_t count, struct kc_diag *diag)
{
  struct kc_search_verdict verdict[KC_SEARCH_BATCH];
  struct kc_search_result *result = s->result;
  KC_ASSERT(count > 0 && count <= KC_SEARCH_BATCH);
  memset(verdict, 0, sizeof verdict);
  KC_TRY(s->problem->evaluate(s->problem->context, probe, count, verdict, diag));
  if (result->run_count + count > s->run_capacity) {
    const uint32_t capacity = 2 * s->run_capacity + 64;
    struct kc_search_run *grown = realloc(result->run, capacity * sizeof *grown);
    if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the runs of the plan");
    result->run = grown;
    s->run_capacity = capacity;
  }
  for (uint32_t i = 0; i < count; i++) {
    KC_ASSERT(!verdict[i].feasible || verdict[i].excess <= 1);
    result->run[result->run_count++] = (struct kc_search_run){probe[i], verdict[i]};
  }
  return KC_OK;
}

/* ---- which candidate of a column is next ---- */

/* The open candidates of a column that would beat the best one: first and last; false: none. */
static bool open_range(const struct searching *s, uint32_t column, uint32_t *first, uint32_t *last)
{
  *first = *last = NONE;
  for (uint32_t r = 0; r < s->problem->replica_count; r++) {
    if (candidate_of(s, column, r)->state != OPEN) continue;
    if (!beats_best(s, column, s->problem->replicas[r])) break;
    if (*first == NONE) *first = r;
    *last = r;
  }
  return *first != NONE;
}

/* The first number of replicas that is not below the estimate, or the last of all. */
static uint32_t guess_index(const struct kc_search_problem *problem, uint32_t column)
{
  uint32_t index = 0;
  KC_ASSERT(problem->replica_count > 0);
  while (index + 1 < problem->replica_count &&
         (double)problem->replicas[index] < problem->column[column].replicas_guess) {
    index++;
  }
  return index;
}

static uint32_t doubled(struct searching *s, uint32_t column)
{
  const uint32_t stride = s->stride[column];
  KC_ASSERT(stride > 0);
  if (stride < s->problem->replica_count) s->stride[column] = 2 * stride;
  return stride - 1;
}

static bool known(const struct searching *s, uint32_t column, uint8_t state)
{
  for (uint32_t r = 0; r < s->problem->replica_count; r++) {
    const struct candidate *candidate = candidate_of(s, column, r);
    if (candidate->state == state && candidate->rule == KC_SEARCH_RAN) return true;
  }
  return false;
}

/* NONE: nothing of this column is left to ask. */
static uint32_t next_index(struct searching *s, uint32_t column)
{
  uint32_t first, last;
  if (!open_range(s, column, &first, &last)) return NONE;
  const uint32_t guess = guess_index(s->problem, column);
  uint32_t index;
  const bool passed = known(s, column, PASSED), failed = known(s, column, FAILED);
  if (passed && failed) {
    index = first + (last - first) / 2;
  } else if (passed) { /* how few are enough? */
    const uint32_t step = doubled(s, column);
    index = last > first + step ? last - step : first;
  } else if (!failed) {
    index = guess < first ? first : guess > last ? last : guess;
  } else { /* can it win at all? */
    index = last;
  }
  while (candidate_of(s, column, index)->state != OPEN) index--; /* holes of twins */
  KC_ASSERT(index >= first);
  return index;
}

/* A probe of the batch may decide this one. */
static bool may_be_decided(const struct kc_search_problem *problem,
                           const struct kc_search_probe *batch, uint32_t count, uint32_t column,
                           uint32_t replicas)
{
  for (uint32_t i = 0; i < count; i++) {
    const struct kc_search_column *other = &problem->column[batch[i].column];
    if (other->twin == problem->column[column].twin && batch[i].replicas == replicas) return true;
    if (batch[i].replicas >= replicas && no_worse(other, &problem->column[column])) return true;
  }
  return false;
}

static uint32_t choose_cheapest(struct searching *s, struct kc_search_probe batch[KC_SEARCH_BATCH])
{
  const struct kc_search_problem *problem = s->problem;
  uint32_t count = 0;
  for (uint32_t i = 0; i < problem->column_count && count < KC_SEARCH_BATCH; i++) {
    const uint32_t column = s->by_estimate[i];
    const uint32_t stride = s->stride[column];
    const uint32_t index = next_index(s, column);
    if (index == NONE) continue;
    KC_ASSERT(candidate_of(s, column, index)->state == OPEN);
    if (may_be_decided(problem, batch, count, column, problem->replicas[index])) {
      s->stride[column] = stride; /* not asked yet */
      continue;
    }
    batch[count++] = (struct kc_search_probe){column, problem->replicas[index]};
  }
  return count;
}

/* ---- the three searches ---- */

static void count_decisions(struct searching *s)
{
  const size_t count = (size_t)s->problem->column_count * s->problem->replica_count;
  KC_ASSERT(s->result->candidates == 0);
  for (size_t i = 0; i < count; i++) {
    const struct candidate *candidate = &s->candidate[i];
    if (candidate->state == OUT) continue;
    s->result->candidates++;
    s->result->decided[candidate->state == OPEN ? KC_SEARCH_PRICE : candidate->rule]++;
  }
}

static void set_best(struct searching *s)
{
  struct kc_search_result *result = s->result;
  for (uint32_t i = 0; i < result->run_count && s->best.column != NONE; i++) {
    const struct kc_search_probe *probe = &result->run[i].probe;
    if (probe->column != s->best.column || probe->replicas != s->best.replicas) continue;
    KC_ASSERT(result->run[i].verdict.feasible);
    result->found = true;
    result->best = i;
    return;
  }
}

static enum kc_err evaluate_and_learn(struct searching *s, const struct kc_search_probe *batch,
                                      uint32_t count, struct kc_diag *diag)
{
  const uint32_t first = s->result->run_count;
  KC_TRY(evaluate(s, batch, count, diag));
  KC_ASSERT(s->result->run_count == first + count);
  for (uint32_t i = 0; i < count; i++) learn(s, &s->result->run[first + i]);
  return KC_OK;
}

/* Who is best of those known to pass, after one that a twin had vouched for has failed. */
static void find_best(struct searching *s)
{
  s->best.column = NONE;
  for (uint32_t c = 0; c < s->problem->column_count; c++) {
    for (uint32_t r = 0; r < s->problem->replica_count; r++) {
      if (candidate_of(s, c, r)->state == PASSED) consider(s, c, s->problem->replicas[r]);
    }
  }
}

static enum kc_err search_cheapest(struct searching *s, struct kc_diag *diag)
{
  for (;;) {
    struct kc_search_probe batch[KC_SEARCH_BATCH];
    const uint32_t count = choose_cheapest(s, batch);
    if (count > 0) {
      KC_TRY(evaluate_and_learn(s, batch, count, diag));
      continue;
    }
    if (s->best.column == NONE) return KC_OK;
    const uint32_t index = index_of(s->problem, s->best.replicas);
    if (candidate_of(s, s->best.column, index)->rule == KC_SEARCH_RAN) return KC_OK;
    const struct kc_search_probe best = s->best; /* a twin's word: now see it */
    KC_TRY(evaluate_and_learn(s, &best, 1, diag));
    find_best(s);
  }
}

enum kc_err kc_search_cheapest(const struct kc_search_problem *problem,
                               struct kc_search_result *result, struct kc_diag *diag)
{
  struct searching s;
  KC_TRY(searching_init(&s, problem, result, diag));
  const enum kc_err err = search_cheapest(&s, diag);
  KC_ASSERT(err != KC_OK || s.best.column == NONE || s.best.column < problem->column_count);
  if (err == KC_OK) set_best(&s);
  if (err == KC_OK) count_decisions(&s);
  searching_free(&s);
  return err;
}

/* Only the most replicas that can be paid for are in the grid; a column that can pay for none is
 * not. */
static void keep_most_replicas(struct searching *s)
{
  const uint32_t count = s->problem->replica_count;
  for (uint32_t c = 0; c < s->problem->column_count; c++) {
    for (uint32_t r = 0; r < count; r++) {
      const bool last = r + 1 == count || candidate_of(s, c, r + 1)->state == OUT;
      KC_ASSERT(candidate_of(s, c, r)->state != PASSED);
      if (!last) candidate_of(s, c, r)->state = OUT;
    }
  }
}

static bool higher(const struct searching *s, const struct kc_search_run *run,
                   const struct kc_search_run *best)
{
  const struct kc_search_verdict *a = &run->verdict, *b = best == NULL ? NULL : &best->verdict;
  if (!a->feasible) return false;
  if (b == NULL || a->value > b->value) return true;
  return a->value >= b->value && beats_best(s, run->probe.column, run->probe.replicas);
}

static const struct kc_search_run *best_run(const struct searching *s)
{
  return s->result->found ? &s->result->run[s->result->best] : NULL;
}

/* A value of `a`'s is as high as `b`'s can be, where `a` is no worse. */
static bool outdone(const struct searching *s, uint32_t column, uint32_t index)
{
  const struct kc_search_run *best = best_run(s);
  const struct kc_search_problem *problem = s->problem;
  if (best == NULL) return false;
  for (uint32_t i = 0; i < s->result->run_count; i++) {
    const struct kc_search_run *run = &s->result->run[i];
    if (run->verdict.value * (1 + problem->margin) >= best->verdict.value) continue;
    if (run->probe.replicas < problem->replicas[index]) continue;
    if (no_worse(&problem->column[run->probe.column], &problem->column[column])) return true;
  }
  return false;
}

static uint32_t choose_highest(struct searching *s, struct kc_search_probe batch[KC_SEARCH_BATCH])
{
  const struct kc_search_problem *problem = s->problem;
  uint32_t count = 0;
  for (uint32_t i = 0; i < problem->column_count && count < KC_SEARCH_BATCH; i++) {
    const uint32_t column = s->by_estimate[i];
    for (uint32_t r = 0; r < problem->replica_count; r++) {
      struct candidate *candidate = candidate_of(s, column, r);
      const struct kc_search_run *best = best_run(s);
      if (candidate->state != OPEN) continue;
      if (best != NULL && problem->column[column].value_max < best->verdict.value) {
        decide(candidate, FAILED, KC_SEARCH_BOUND);
      } else if (outdone(s, column, r)) {
        decide(candidate, FAILED, KC_SEARCH_FASTER);
      } else if (!may_be_decided(problem, batch, count, column, problem->replicas[r]) &&
                 count < KC_SEARCH_BATCH) {
        batch[count++] = (struct kc_search_probe){column, problem->replicas[r]};
      }
    }
  }
  return count;
}

static void take_highest(struct searching *s, uint32_t first)
{
  struct kc_search_result *result = s->result;
  for (uint32_t i = first; i < result->run_count; i++) {
    const struct kc_search_run *run = &result->run[i];
    if (!higher(s, run, best_run(s))) continue;
    result->found = true;
    result->best = i;
    s->best = run->probe;
  }
}

static enum kc_err search_highest(struct searching *s, struct kc_diag *diag)
{
  for (;;) {
    struct kc_search_probe batch[KC_SEARCH_BATCH];
    const uint32_t first = s->result->run_count;
    const uint32_t count = choose_highest(s, batch);
    if (count == 0) return KC_OK;
    KC_TRY(evaluate(s, batch, count, diag));
    for (uint32_t i = first; i < s->result->run_count; i++) {
      const struct kc_search_run *run = &s->result->run[i];
      const uint32_t index = index_of(s->problem, run->probe.replicas);
      struct candidate *candidate = candidate_of(s, run->probe.column, index);
      KC_ASSERT(candidate->state == OPEN);
      decide(candidate, run->verdict.feasible ? PASSED : FAILED, KC_SEARCH_RAN);
      if (!clearly_failed(s->problem, &run->verdict)) continue;
      for (uint32_t c = 0; c < s->problem->column_count; c++) {
        if (!no_worse(&s->problem->column[run->probe.column], &s->problem->column[c])) continue;
        fail_up_to(s, c, index, KC_SEARCH_FASTER);
      }
    }
    take_highest(s, first);
  }
}

enum kc_err kc_search_highest(const struct kc_search_problem *problem,
                              struct kc_search_result *result, struct kc_diag *diag)
{
  struct searching s;
  KC_TRY(searching_init(&s, problem, result, diag));
  keep_most_replicas(&s);
  const enum kc_err err = search_highest(&s, diag);
  KC_ASSERT(err != KC_OK || !result->found || result->best < result->run_count);
  if (err == KC_OK) count_decisions(&s);
  searching_free(&s);
  return err;
}

static enum kc_err search_all(struct searching *s, struct kc_diag *diag)
{
  struct kc_search_probe batch[KC_SEARCH_BATCH];
  const uint32_t replicas = s->problem->replica_count;
  const size_t total = (size_t)s->problem->column_count * replicas;
  uint32_t count = 0;
  for (size_t i = 0; i < total; i++) {
    if (s->candidate[i].state != OUT) {
      batch[count++] = (struct kc_search_probe){(uint32_t)(i / replicas),
                                                s->problem->replicas[i % replicas]};
      s->candidate[i].state = FAILED;
      s->candidate[i].rule = KC_SEARCH_RAN;
    }
    if (count == 0 || (count < KC_SEARCH_BATCH && i + 1 < total)) continue;
    KC_TRY(evaluate(s, batch, count, diag));
    count = 0;
  }
  return KC_OK;
}

enum kc_err kc_search_all(const struct kc_search_problem *problem, bool highest,
                          struct kc_search_result *result, struct kc_diag *diag)
{
  struct searching s;
  KC_TRY(searching_init(&s, problem, result, diag));
  if (highest) keep_most_replicas(&s);
  const enum kc_err err = search_all(&s, diag);
  KC_ASSERT(err != KC_OK || s.best.column == NONE);
  for (uint32_t i = 0; err == KC_OK && i < result->run_count; i++) {
    const struct kc_search_run *run = &result->run[i];
    if (!highest && run->verdict.feasible) consider(&s, run->probe.column, run->probe.replicas);
  }
  if (err == KC_OK && highest) take_highest(&s, 0);
  if (err == KC_OK && !highest) set_best(&s);
  if (err == KC_OK) count_decisions(&s);
  searching_free(&s);
  return err;
}

void kc_search_free(struct kc_search_result *result)
{
  free(result->run);
  result->run = NULL;
  result->run_count = 0;
}
