/* The linter: every finding has a trace that shows it and one, nearly the same, that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "made_trace.h"
#include "traces/transform/trace_lint.h"

enum { ROWS = 200 };

/* 200 rows with uneven gaps of about a second and varied lengths: nothing to find but the absence
 * of prefix ids. */
static void make_plain(struct kc_trace *trace)
{
  static struct made_row row[ROWS];
  double second = 0;
  for (uint32_t i = 0; i < ROWS; i++) {
    row[i] = (struct made_row){second, 100 + i * 7 % 50, 10 + i * 11 % 40};
    second += 0.5 + 0.001 * (i * 37 % 1000);
  }
  make_trace(trace, row, ROWS);
}

static void lint_of(struct kc_trace *trace, struct kc_lint *lint)
{
  struct kc_trace_stats stats;
  memset(lint, 0, sizeof *lint);
  assert_int_equal(kc_trace_stats_compute(trace, &stats, NULL), KC_OK);
  kc_trace_lint(trace, &stats, lint);
  kc_trace_free(trace);
}

static const struct kc_lint_finding *find(const struct kc_lint *lint, const char *key)
{
  for (size_t i = 0; i < lint->count; i++) {
    if (strcmp(lint->finding[i].key, key) == 0) return &lint->finding[i];
  }
  return NULL;
}

/* ---- one change each to the plain trace ---- */

static void whole_seconds(struct kc_trace *trace)
{
  for (uint64_t i = 0; i < ROWS; i++) {
    trace->row[i].arrival_ps -= trace->row[i].arrival_ps % KC_PS_PER_S;
  }
}

static void shared_instants(struct kc_trace *trace)
{
  for (uint64_t i = 1; i < ROWS; i++) {
    if (i % 3 == 1) trace->row[i].arrival_ps = trace->row[i - 1].arrival_ps;
  }
}

static void one_tie(struct kc_trace *trace)
{
  trace->row[9].arrival_ps = trace->row[8].arrival_ps;
}

static void hour_of_silence(struct kc_trace *trace)
{
  for (uint64_t i = 100; i < ROWS; i++) trace->row[i].arrival_ps += 3600 * KC_PS_PER_S;
}

static void even(struct kc_trace *trace)
{
  for (uint64_t i = 0; i < ROWS; i++) trace->row[i].arrival_ps = (kc_ps)i * 100 * KC_PS_PER_MS;
}

static void too_fast(struct kc_trace *trace)
{
  trace->time_unit = KC_UNIT_MS;
  for (uint64_t i = 0; i < ROWS; i++) trace->row[i].arrival_ps /= 1000000;
}

/* A tenth of the time with 3 of 200 rows. */
static void slow_start(struct kc_trace *trace)
{
  for (uint64_t i = 3; i < ROWS; i++) trace->row[i].arrival_ps += 100 * KC_PS_PER_S;
  trace->row[1].arrival_ps = 20 * KC_PS_PER_S;
  trace->row[2].arrival_ps = 57 * KC_PS_PER_S;
}

static void long_row(struct kc_trace *trace)
{
  trace->row[41].input_tokens = 131072;
}

static void tiny_row(struct kc_trace *trace)
{
  trace->row[41].input_tokens = 3;
}

static void all_alike(struct kc_trace *trace)
{
  for (uint64_t i = 0; i < ROWS; i++) {
    trace->row[i].input_tokens = 512;
    trace->row[i].output_tokens = 128;
  }
}

static void turns_by_the_clock(struct kc_trace *trace)
{
  static uint32_t session[ROWS];
  for (uint32_t i = 0; i < ROWS; i++) session[i] = i / 2;
  make_sessions(trace, session, ROWS / 2);
}

static void long_wait(struct kc_trace *trace)
{
  static uint32_t after[ROWS];
  static double wait[ROWS];
  for (uint32_t i = 0; i < ROWS; i++) after[i] = KC_TRACE_NONE;
  after[7] = 3;
  wait[7] = 3600;
  make_links(trace, after, wait);
}

static void new_tokens_only(struct kc_trace *trace)
{
  trace->adds_past = true;
}

static void marked(struct kc_trace *trace)
{
  static uint8_t flags[ROWS];
  flags[5] = KC_ROW_COMPACTED;
  flags[6] = KC_ROW_SUBAGENT;
  make_flags(trace, flags);
}

static void unshared_ids(struct kc_trace *trace)
{
  static uint32_t id[ROWS], count[ROWS];
  for (uint32_t i = 0; i < ROWS; i++) {
    id[i] = i;
    count[i] = 1;
  }
  make_blocks(trace, id, count, ROWS, 512, KC_TAIL_CEIL);
}

struct lint_case {
  const char *key;
  enum kc_lint_severity severity;
  void (*change)(struct kc_trace *trace);
  uint64_t count, row; /* expected; row 0: none */
};

static void each_finding(void **state)
{
  (void)state;
  static const struct lint_case table[] = {
      {"coarse_clock", KC_LINT_WARNING, whole_seconds, ROWS, 0},
      {"coarse_clock", KC_LINT_WARNING, shared_instants, 67, 2},
      {"tied_rows", KC_LINT_NOTE, one_tie, 1, 10},
      {"idle_gap", KC_LINT_WARNING, hour_of_silence, 1, 101},
      {"even_arrivals", KC_LINT_WARNING, even, ROWS, 2},
      {"time_unit", KC_LINT_WARNING, too_fast, 1, 0},
      {"quiet_head", KC_LINT_WARNING, slow_start, 2, 3},
      {"long_context", KC_LINT_NOTE, long_row, 1, 42},
      {"tiny_input", KC_LINT_NOTE, tiny_row, 1, 42},
      {"constant_lengths", KC_LINT_WARNING, all_alike, ROWS, 1},
      {"open_loop_sessions", KC_LINT_WARNING, turns_by_the_clock, ROWS, 0},
      {"long_waits", KC_LINT_NOTE, long_wait, 1, 8},
      {"compacted", KC_LINT_NOTE, marked, 1, 6},
      {"incremental_prompts", KC_LINT_NOTE, new_tokens_only, ROWS, 0},
      {"subagents", KC_LINT_NOTE, marked, 1, 7},
  };
  struct kc_trace trace;
  struct kc_lint plain, lint;
  make_plain(&trace);
  lint_of(&trace, &plain);
  assert_int_equal(plain.count, 1);
  assert_non_null(find(&plain, "no_prefix_ids"));
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    make_plain(&trace);
    table[i].change(&trace);
    lint_of(&trace, &lint);
    const struct kc_lint_finding *const finding = find(&lint, table[i].key);
    if (finding == NULL) fail_msg("case %zu: no finding %s", i, table[i].key);
    if (finding->severity != table[i].severity || finding->row != table[i].row ||
        finding->count != table[i].count || finding->consequence[0] == '\0') {
      fail_msg("case %zu: %s: severity %d, count %llu, row %llu: %s", i, table[i].key,
               (int)finding->severity, (unsigned long long)finding->count,
               (unsigned long long)finding->row, finding->what);
    }
  }
}

/* Ids without any reuse, and what the tail rule means. */
static void prefix_findings(void **state)
{
  (void)state;
  struct kc_trace trace;
  struct kc_lint lint;
  make_plain(&trace);
  unshared_ids(&trace);
  lint_of(&trace, &lint);
  assert_null(find(&lint, "no_prefix_ids"));
  assert_non_null(find(&lint, "no_reuse"));
  assert_non_null(find(&lint, "partial_tail"));
  assert_non_null(strstr(find(&lint, "partial_tail")->what, "ceil"));
}

/* Everything a reader counts has a finding of its name, with its count, or a check that says it. */
static void every_note_has_a_finding(void **state)
{
  (void)state;
  for (unsigned note = 0; note < KC_NOTES; note++) {
    struct kc_trace trace;
    struct kc_lint lint;
    if (note == KC_NOTE_TIES) continue; /* coarse_clock and tied_rows */
    make_plain(&trace);
    trace.note[note] = 17;
    lint_of(&trace, &lint);
    const char *const key = kc_trace_note_name((enum kc_trace_note)note);
    const struct kc_lint_finding *const finding = find(&lint, key);
    if (finding == NULL) fail_msg("%s has no finding", key);
    assert_int_equal(finding->count, 17);
    assert_true(strlen(finding->consequence) > 10);
  }
}

static void failures_are_errors_at_their_line(void **state)
{
  (void)state;
  struct kc_lint lint = {0};
  struct kc_diag diag;
  kc_fail_at(&diag, KC_ERR_INPUT, "x.csv", 12, 3, "it is bad");
  kc_trace_lint_failure(&diag, &lint);
  assert_int_equal(lint.count, 1);
  assert_int_equal(lint.finding[0].severity, KC_LINT_ERROR);
  assert_int_equal(lint.finding[0].line, 12);
  assert_string_equal(lint.finding[0].key, "input");
  assert_string_equal(lint.finding[0].what, "it is bad");
}

static void worst_first(void **state)
{
  (void)state;
  struct kc_lint lint = {0};
  static const enum kc_lint_severity severity[] = {KC_LINT_NOTE, KC_LINT_ERROR, KC_LINT_WARNING,
                                                   KC_LINT_NOTE, KC_LINT_ERROR};
  static const uint64_t expected[] = {1, 4, 2, 0, 3};
  lint.count = 5;
  for (uint64_t i = 0; i < 5; i++) {
    lint.finding[i].severity = severity[i];
    lint.finding[i].count = i;
  }
  kc_lint_sort(&lint);
  for (size_t i = 0; i < 5; i++) assert_int_equal(lint.finding[i].count, expected[i]);
  assert_int_equal(kc_lint_count(&lint, KC_LINT_ERROR), 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_finding),
      cmocka_unit_test(prefix_findings),
      cmocka_unit_test(every_note_has_a_finding),
      cmocka_unit_test(failures_are_errors_at_their_line),
      cmocka_unit_test(worst_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
