/* The linter: a table for what readers counted, and one small check for each thing that only shows
 * in the figures. A check that finds nothing adds nothing. Thresholds stand beside the public trace
 * that taught them. */
#include "traces/transform/trace_lint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/transform/unit_doubt.h"

const char *kc_lint_severity_name(enum kc_lint_severity severity)
{
  static const char *const names[] = {"note", "warning", "error"};
  KC_ASSERT((unsigned)severity < sizeof names / sizeof names[0]);
  return names[severity];
}

/* Appends; returns the finding, to be completed. NULL when the list is full. */
__attribute__((format(printf, 6, 7))) static struct kc_lint_finding *add(
    struct kc_lint *lint, const char *key, enum kc_lint_severity severity, uint64_t count,
    const char *consequence, const char *format, ...)
{
  KC_ASSERT(key != NULL && consequence != NULL);
  KC_ASSERT(lint->count < KC_LINT_MAX);
  struct kc_lint_finding *const finding = &lint->finding[lint->count++];
  memset(finding, 0, sizeof *finding);
  finding->key = key;
  finding->severity = severity;
  finding->count = count;
  finding->consequence = consequence;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(finding->what, sizeof finding->what, format, arguments);
  va_end(arguments);
  return finding;
}

/* ---- places ---- */

static void put_place(const struct kc_trace *trace, struct kc_lint_finding *finding,
                      struct kc_trace_place place)
{
  finding->line = place.line;
  (void)snprintf(finding->path, sizeof finding->path, "%s", kc_trace_file_name(trace, place.file));
}

/* The finding shows first, or best, at this row. */
static void at_row(const struct kc_trace *trace, struct kc_lint_finding *finding, uint64_t row)
{
  KC_ASSERT(row < trace->count);
  finding->row = row + 1;
  put_place(trace, finding, kc_trace_row_place(trace, row));
}

/* It is about all rows: where the columns or keys are named. */
static void at_format(const struct kc_trace *trace, struct kc_lint_finding *finding)
{
  put_place(trace, finding, trace->format_at);
}

/* ---- what readers counted ---- */

struct note_rule {
  enum kc_lint_severity severity;
  const char *consequence; /* NULL: another check says it better */
};

static const struct note_rule note_rules[KC_NOTES] = {
    [KC_NOTE_CRLF] = {KC_LINT_NOTE, "a reader that keeps the CR does not find the last column by "
                      "its name, and a copy with LF has another sha256"},
    [KC_NOTE_NO_FINAL_NEWLINE] = {KC_LINT_NOTE, "a reader that wants a line end loses the last "
                                  "row, and line counts are one short"},
    [KC_NOTE_BOM] = {KC_LINT_NOTE, "a reader that keeps the mark does not find the first column by "
                     "its name"},
    [KC_NOTE_BLANK_LINES] = {KC_LINT_NOTE, "line numbers and row numbers drift apart"},
    [KC_NOTE_QUOTED_CELLS] = {KC_LINT_NOTE, "a reader that splits at every comma tears such cells "
                              "apart"},
    [KC_NOTE_OUT_OF_ORDER] = {KC_LINT_WARNING, "a replayer that trusts the file's order sees time "
                              "run backward; here rows are sorted, equal times in file order"},
    [KC_NOTE_ZERO_OUTPUT_DROPPED] = {KC_LINT_WARNING, "the replayed load is lower than the "
                                     "recorded one by these requests"},
    [KC_NOTE_ZERO_OUTPUT_FLOORED] = {KC_LINT_WARNING, "these are mostly failed or cancelled "
                                     "requests; as one token each they load the server as the "
                                     "original did not"},
    [KC_NOTE_ZERO_INPUT_FLOORED] = {KC_LINT_WARNING, "a request without a prompt cannot be served; "
                                    "as one token it counts in every mean"},
    [KC_NOTE_SHIFTED] = {KC_LINT_NOTE, "times are absolute or a slice; a replayer that does not "
                         "subtract the earliest waits that long first"},
    [KC_NOTE_IGNORED_COLUMNS] = {KC_LINT_NOTE, "what they say (totals, images, regions) does not "
                                 "reach the replay"},
    [KC_NOTE_NO_ARRIVALS] = {KC_LINT_WARNING, "replayed as it is, the whole trace arrives at once; "
                             "rates, queues and latencies mean nothing without added arrivals"},
    [KC_NOTE_ROUNDED_TIMES] = {KC_LINT_NOTE, "times were written with more digits than any clock "
                               "has, usually by floating point"},
    [KC_NOTE_GZIP] = {KC_LINT_NOTE, "the sha256 is of the compressed bytes, which another "
                      "compressor makes differently"},
    [KC_NOTE_SKIPPED_FILES] = {KC_LINT_WARNING, "if one of them holds requests, the load is lower "
                               "than recorded"},
    [KC_NOTE_FAILED_KEPT] = {KC_LINT_WARNING, "failed requests are replayed as if they had been "
                             "served, with the lengths recorded so far"},
    [KC_NOTE_FAILED_DROPPED] = {KC_LINT_WARNING, "the replayed load is lower than the recorded "
                                "one by these requests"},
    [KC_NOTE_CANCELLED_KEPT] = {KC_LINT_WARNING, "cancelled requests are replayed to the length "
                                "at which the user stopped them"},
    [KC_NOTE_CANCELLED_DROPPED] = {KC_LINT_WARNING, "the replayed load is lower than the recorded "
                                   "one by these requests"},
    [KC_NOTE_MISSING_OUTPUT] = {KC_LINT_WARNING, "output lengths are invented; decode load, memory "
                                "and latency follow from them"},
    [KC_NOTE_INPUT_FROM_IDS] = {KC_LINT_WARNING, "prompt lengths are known to the block only"},
    [KC_NOTE_ROWS_WITHOUT_IDS] = {KC_LINT_WARNING, "the hit rate covers the other rows only"},
    [KC_NOTE_IDS_MISMATCH] = {KC_LINT_WARNING, "the block size is probably wrong, and with it "
                              "every hit rate; give the right one with --block-tokens"},
    [KC_NOTE_IDS_OTHER_TAIL] = {KC_LINT_WARNING, "the tail rule is probably wrong or mixed; hit "
                                "rates are off by up to one block a row"},
    [KC_NOTE_UNCHAINED_IDS] = {KC_LINT_WARNING, "ids name contents, not prefixes; a cache that "
                               "matches them out of place finds hits that no server has"},
    [KC_NOTE_MISSING_ARRIVALS] = {KC_LINT_WARNING, "their place in time is assumed, not recorded"},
    [KC_NOTE_NULL_CELLS] = {KC_LINT_NOTE, "a null is absent, not 0"},
    [KC_NOTE_OWN_PARENT] = {KC_LINT_WARNING, "what they continued is not known; a replayer that "
                            "follows parents runs in a circle"},
    [KC_NOTE_REPEATED_CHATS] = {KC_LINT_WARNING, "a row that is there twice is served twice; a "
                                "reader that keeps one row a chat loses the other"},
};

static void lint_notes(const struct kc_trace *trace, struct kc_lint *lint)
{
  for (unsigned note = 0; note < KC_NOTES; note++) {
    const uint64_t count = trace->note[note];
    if (count == 0 || note_rules[note].consequence == NULL) continue;
    const char *names = kc_trace_note_names(trace, (enum kc_trace_note)note);
    struct kc_lint_finding *const finding =
        add(lint, kc_trace_note_name((enum kc_trace_note)note), note_rules[note].severity, count,
            note_rules[note].consequence, "%" PRIu64 " %s%s%.200s", count,
            kc_trace_note_text((enum kc_trace_note)note), names[0] != '\0' ? ": " : "", names);
    if (note != KC_NOTE_SKIPPED_FILES) put_place(trace, finding, trace->note_at[note]);
  }
}

/* ---- time ---- */

static uint64_t first_tie(const struct kc_trace *trace)
{
  uint64_t row = 1;
  while (row < trace->count && trace->row[row].arrival_ps != trace->row[row - 1].arrival_ps) row++;
  KC_ASSERT(row < trace->count);
  return row;
}

/* Mooncake's conversations: 90 % of rows share an instant of a 3 s tick. BurstGPT, Weka: whole
 * seconds. */
static void lint_clock(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                       struct kc_lint *lint)
{
  static const char consequence[] =
      "bursts are the clock's, not the users': queues and latencies come out too long; spread the "
      "rows with `kvcap trace convert --spread`";
  KC_ASSERT(stats->rows > 0);
  if (stats->span_ps == 0 || stats->rows < 10) return;
  if (stats->tick_ps >= KC_PS_PER_S) {
    at_format(trace, add(lint, "coarse_clock", KC_LINT_WARNING, stats->rows, consequence,
                         "all times are multiples of %" PRId64 " s",
                         stats->tick_ps / KC_PS_PER_S));
  } else if (stats->tied_rows >= stats->rows / 4) {
    at_row(trace, add(lint, "coarse_clock", KC_LINT_WARNING, stats->tied_rows, consequence,
                      "%" PRIu64 " rows share %" PRIu64 " instants", stats->rows,
                      stats->distinct_arrivals), first_tie(trace));
  } else if (stats->tied_rows > 0) {
    at_row(trace, add(lint, "tied_rows", KC_LINT_NOTE, stats->tied_rows,
                      "their order is the file's; tools that order them otherwise get other "
                      "results", "%" PRIu64 " rows arrive at the instant of the row before",
                      stats->tied_rows), first_tie(trace));
  }
}

static void lint_gaps(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                      struct kc_lint *lint)
{
  enum { NOTE_S = 60, WARNING_S = 3600 };
  const kc_ps seconds = stats->gap_max_ps / KC_PS_PER_S;
  KC_ASSERT(seconds >= 0);
  if (seconds >= NOTE_S && stats->gap_max_ps / 10 > stats->gap_mean_ps) {
    struct kc_lint_finding *const finding =
        add(lint, "idle_gap", seconds >= WARNING_S ? KC_LINT_WARNING : KC_LINT_NOTE, 1,
            "idle time lengthens a replay and lowers every mean rate; cut it with `kvcap trace "
            "convert --idle-cap`", "nothing arrives for %" PRId64 " s", seconds);
    at_row(trace, finding, stats->gap_max_row);
  }
  if (stats->rows >= 10 && stats->gap_mean_ps > 0 && stats->gap_cv_ppm == 0) {
    struct kc_lint_finding *const finding =
        add(lint, "even_arrivals", KC_LINT_WARNING, stats->rows,
            "recorded traffic is never so even: this looks generated, perhaps a stand-in that has "
            "only the name of a public trace", "all arrivals are exactly %" PRId64 " ms apart",
            stats->gap_mean_ps / KC_PS_PER_MS);
    at_row(trace, finding, 1);
  }
}

/* "3.501" of thousandths. */
#define MILLI "%" PRIu64 ".%03u"
#define MILLI_OF(value) (value) / 1000, (unsigned)((value) % 1000)

/* A unit that only fits badly is named with the one that fits better. */
static void lint_unit(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                      struct kc_lint *lint)
{
  static const char *const reasons[] = {
      [KC_UNIT_FITS] = "",
      [KC_UNIT_EPOCH] = "the first time is a date of our days in another unit only",
      [KC_UNIT_FAST] = "no public service is so fast",
      [KC_UNIT_SLOW] = "a service is seldom so slow"};
  struct kc_unit_doubt doubt;
  kc_trace_doubt_unit(trace, stats, &doubt);
  if (doubt.reason == KC_UNIT_FITS) return;
  const char *const better = kc_time_unit_name(doubt.better);
  struct kc_lint_finding *const finding = add(
      lint, "time_unit", KC_LINT_WARNING, 1,
      "the same column counts seconds in one trace and milliseconds in another; a wrong unit makes "
      "every rate and gap a thousand times too large or too small",
      "times read in %s span " MILLI " s: " MILLI " requests/s and %" PRIu64 " tokens/s; %s. "
      "--time-unit %s would give " MILLI " s and " MILLI " requests/s",
      kc_time_unit_name(trace->time_unit), MILLI_OF(doubt.span_ms),
      MILLI_OF(doubt.rate_micro / 1000), doubt.tokens_per_s, reasons[doubt.reason], better,
      MILLI_OF(doubt.better_span_ms), MILLI_OF(doubt.better_rate_micro / 1000));
  at_format(trace, finding);
}

/* BurstGPT's first 20 hours hold one ninetieth of its later rate (HPMLL/BurstGPT, issue 11). */
static void lint_head(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                      struct kc_lint *lint)
{
  if (stats->rows < 100 || stats->span_ps < 10) return;
  const kc_ps tenth = stats->span_ps / 10;
  uint64_t rows = 0;
  while (rows < trace->count && trace->row[rows].arrival_ps < tenth) rows++;
  KC_ASSERT(rows > 0);
  if (rows >= stats->rows / 50) return;
  struct kc_lint_finding *const finding =
      add(lint, "quiet_head", KC_LINT_WARNING, rows,
          "the start is not like the rest: a short replay measures it alone; skip it with --from",
          "the first tenth of the time holds %" PRIu64 " of %" PRIu64 " rows", rows, stats->rows);
  at_row(trace, finding, rows); /* where it ends: the last row comes later than a tenth */
}

/* ---- lengths ---- */

static void lint_lengths(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                         struct kc_lint *lint)
{
  enum { LONG_TOKENS = 131072, TINY_TOKENS = 4 };
  uint64_t longer = 0, tiny = 0, first_long = 0, first_tiny = 0;
  for (uint64_t i = 0; i < trace->count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    const bool is_long = (uint64_t)row->input_tokens + row->output_tokens > LONG_TOKENS;
    if (is_long && longer++ == 0) first_long = i;
    if (row->input_tokens < TINY_TOKENS && tiny++ == 0) first_tiny = i;
  }
  if (longer > 0) {
    struct kc_lint_finding *const finding =
        add(lint, "long_context", KC_LINT_NOTE, longer,
            "a model with a shorter context rejects or cuts them, which changes the load",
            "%" PRIu64 " rows exceed 131072 tokens, the longest has %" PRIu64, longer,
            trace->context_tokens_max);
    at_row(trace, finding, first_long);
  }
  if (tiny > 0) {
    struct kc_lint_finding *const finding =
        add(lint, "tiny_input", KC_LINT_NOTE, tiny,
            "a chat template alone is longer, so inputs probably count the user's text only",
            "%" PRIu64 " rows have an input of fewer than 4 tokens", tiny);
    at_row(trace, finding, first_tiny);
  }
  if (stats->input.min == stats->input.max && stats->output.min == stats->output.max &&
      stats->rows >= 10) {
    at_row(trace, add(lint, "constant_lengths", KC_LINT_WARNING, stats->rows,
                      "recorded traffic is never so even: this is a benchmark, not a log",
                      "all rows have %u input and %u output tokens", stats->input.min,
                      stats->output.min), 0);
  }
}

/* ---- prefixes and sessions ---- */

static void lint_prefixes(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                          struct kc_lint *lint)
{
  if (!trace->prefix_ids) {
    at_format(trace, add(lint, "no_prefix_ids", KC_LINT_NOTE, stats->rows,
                         "the hit rate of a prefix cache is unknown, which is not 0 %",
                         "the format says nothing of shared prefixes"));
    return;
  }
  if (stats->reuse.blocks > 0 && stats->reuse.blocks_reused == 0 && stats->rows >= 10) {
    at_format(trace, add(lint, "no_reuse", KC_LINT_WARNING, stats->rows,
                         "ids that never recur are probably from separate namespaces, or the wrong "
                         "field", "no prefix id appears twice"));
  }
  if (trace->tail == KC_TAIL_CEIL) {
    at_format(trace, add(lint, "partial_tail", KC_LINT_NOTE, stats->reuse.rows,
                         "only an identical prompt can use a partial block again, and some servers "
                         "cache whole blocks only",
                         "ids of %u tokens, the partial last block listed (ceil)",
                         trace->block_tokens));
  } else if (trace->tail == KC_TAIL_FLOOR) {
    at_format(trace, add(lint, "partial_tail", KC_LINT_NOTE, stats->reuse.rows,
                         "up to one block less a token of each prompt can never be found again",
                         "ids of %u tokens, the partial last block left out (floor)",
                         trace->block_tokens));
  }
}

static uint64_t longest_wait(const struct kc_trace *trace)
{
  uint64_t longest = 0;
  KC_ASSERT(trace->column.wait_ps != NULL);
  for (uint64_t i = 1; i < trace->count; i++) {
    if (trace->column.wait_ps[i] > trace->column.wait_ps[longest]) longest = i;
  }
  return longest;
}

/* The first row with this flag; there is one. */
static uint64_t first_flag(const struct kc_trace *trace, uint8_t flag)
{
  uint64_t row = 0;
  while (row < trace->count && (trace->column.flags[row] & flag) == 0) row++;
  KC_ASSERT(row < trace->count);
  return row;
}

static void lint_sessions(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                          struct kc_lint *lint)
{
  const uint32_t hour_ms = 3600000;
  KC_ASSERT(stats->closed_rows <= trace->count);
  if (stats->sessions > 0 && stats->turns.max > 1 && stats->closed_rows == 0) {
    struct kc_lint_finding *const finding =
        add(lint, "open_loop_sessions", KC_LINT_WARNING, stats->session_rows,
            "turns keep their recorded times however slow the server is, which hides what a slower "
            "one does to its users",
            "%u sessions with up to %u turns, replayed by their recorded times", stats->sessions,
            stats->turns.max);
    at_format(trace, finding);
  }
  if (stats->closed_rows > 0 && stats->wait_ms.max >= hour_ms) {
    struct kc_lint_finding *const finding =
        add(lint, "long_waits", KC_LINT_NOTE, 1,
            "a replay lasts as long as its longest session; idle time that no session fills can be "
            "cut with `kvcap trace convert --idle-cap`", "the longest wait between turns is %u s",
            stats->wait_ms.max / 1000);
    at_row(trace, finding, longest_wait(trace));
  }
  if (trace->adds_past) {
    at_format(trace, add(lint, "incremental_prompts", KC_LINT_NOTE, stats->rows,
                         "a reader that takes them for whole prompts loses most of the input; one "
                         "that adds earlier turns to whole prompts counts them twice",
                         "inputs count a turn's new tokens only; the kept context is added here"));
  }
  if (stats->compacted_rows > 0) {
    struct kc_lint_finding *const finding =
        add(lint, "compacted", KC_LINT_NOTE, stats->compacted_rows,
            "the prompt is shorter than the one before in its session: compaction, or parallel "
            "agents written as one; only the equal prefix is found in a cache",
            "%" PRIu64 " prompts shrink against their session's previous one",
            stats->compacted_rows);
    at_row(trace, finding, first_flag(trace, KC_ROW_COMPACTED));
  }
  if (stats->subagent_rows > 0) {
    struct kc_lint_finding *const finding =
        add(lint, "subagents", KC_LINT_NOTE, stats->subagent_rows,
            "they run beside their session, not after it",
            "%" PRIu64 " rows belong to nested agents", stats->subagent_rows);
    at_row(trace, finding, first_flag(trace, KC_ROW_SUBAGENT));
  }
}

/* ---- all ---- */

void kc_trace_lint(const struct kc_trace *trace, const struct kc_trace_stats *stats,
                   struct kc_lint *lint)
{
  KC_ASSERT(trace != NULL && trace->count > 0);
  KC_ASSERT(stats != NULL && stats->rows == trace->count);
  lint_notes(trace, lint);
  if (trace->note[KC_NOTE_NO_ARRIVALS] == 0) {
    lint_clock(trace, stats, lint);
    lint_gaps(trace, stats, lint);
    lint_unit(trace, stats, lint);
    lint_head(trace, stats, lint);
  }
  lint_lengths(trace, stats, lint);
  lint_prefixes(trace, stats, lint);
  lint_sessions(trace, stats, lint);
}

void kc_trace_lint_failure(const struct kc_diag *diag, struct kc_lint *lint)
{
  KC_ASSERT(diag != NULL && diag->code != KC_OK);
  struct kc_lint_finding *const finding =
      add(lint, kc_err_name(diag->code), KC_LINT_ERROR, 1,
          "the trace is refused: nothing can be replayed until this is mended or a policy is given",
          "%s", diag->text);
  finding->line = diag->line;
  memcpy(finding->path, diag->path, sizeof finding->path);
}

void kc_lint_sort(struct kc_lint *lint)
{
  KC_ASSERT(lint->count <= KC_LINT_MAX);
  for (size_t i = 1; i < lint->count; i++) { /* by insertion: few, and stable */
    const struct kc_lint_finding finding = lint->finding[i];
    size_t at = i;
    for (; at > 0 && lint->finding[at - 1].severity < finding.severity; at--) {
      lint->finding[at] = lint->finding[at - 1];
    }
    lint->finding[at] = finding;
  }
}

size_t kc_lint_count(const struct kc_lint *lint, enum kc_lint_severity severity)
{
  size_t count = 0;
  for (size_t i = 0; i < lint->count; i++) count += lint->finding[i].severity == severity;
  KC_ASSERT(count <= lint->count);
  return count;
}
