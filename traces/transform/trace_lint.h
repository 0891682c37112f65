/* What is odd about a trace, and what that would do to a replay.
 *
 * A finding is a fact, a count and its consequence in one sentence. Severity: an ERROR keeps the
 * trace from being replayed, or replays another load than it says; a WARNING may; a NOTE is worth
 * knowing. The list of what can go wrong with public traces is in traces/FORMATS.md. */
#ifndef KC_TRACES_TRANSFORM_TRACE_LINT_H
#define KC_TRACES_TRANSFORM_TRACE_LINT_H

#include "traces/transform/trace_stats.h"

enum kc_lint_severity { KC_LINT_NOTE, KC_LINT_WARNING, KC_LINT_ERROR };
const char *kc_lint_severity_name(enum kc_lint_severity severity); /* "note", ...; never NULL */

enum { KC_LINT_MAX = 64, KC_LINT_WHAT_BYTES = 640 };

struct kc_lint_finding {
  const char *key;           /* stable: "coarse_clock" */
  enum kc_lint_severity severity;
  uint64_t count;            /* rows, lines, ... as `what` says; 1 for a fact about the whole */
  char path[KC_DIAG_PATH_BYTES]; /* of the file, "" when it is the trace as a whole */
  uint64_t line;             /* of that file, 1-based: the first of `count`, the row that stands
                                out, or for what holds of all rows where their columns are named;
                                0 when not known (a load without lines) */
  uint64_t row;              /* in order of arrival, 1-based; 0 when none stands out */
  char what[KC_LINT_WHAT_BYTES];
  const char *consequence;   /* static text */
};

struct kc_lint {
  size_t count;
  struct kc_lint_finding finding[KC_LINT_MAX];
};

/* Appends what the trace and its figures show; `lint` starts out zeroed. */
void kc_trace_lint(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                   struct kc_lint *lint);

/* Appends the failure of a load: an error, at its line. */
void kc_trace_lint_failure(const struct kc_diag *diag, struct kc_lint *lint);

/* Errors first, then warnings, then notes; otherwise in the order found. */
void kc_lint_sort(struct kc_lint *lint);

/* Findings of this severity. */
size_t kc_lint_count(const struct kc_lint *lint, enum kc_lint_severity severity);

#endif
