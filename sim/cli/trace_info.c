/* The two faces of a trace's figures: lines for people, an object for programs. Integers in small
 * units become decimals here and nowhere else. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cmd_trace.h"
#include "traces/transform/unit_doubt.h"

/* ---- for people ---- */

/* "1,234,567" */
static const char *grouped(uint64_t value, char out[32])
{
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
  size_t to = 0;
  KC_ASSERT(length > 0);
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) out[to++] = ',';
    out[to++] = digits[i];
  }
  out[to] = '\0';
  return out;
}

/* "3 d 04:05:06.789", without the days when there are none. */
static void print_span(kc_ps span_ps)
{
  const uint64_t ms = (uint64_t)span_ps / (uint64_t)KC_PS_PER_MS, s = ms / 1000;
  KC_ASSERT(span_ps >= 0);
  if (s >= 86400) printf("%" PRIu64 " d ", s / 86400);
  printf("%02u:%02u:%02u.%03u", (unsigned)(s / 3600 % 24), (unsigned)(s / 60 % 60),
         (unsigned)(s % 60), (unsigned)(ms % 1000));
}

static void print_lengths(const char *name, const struct kc_length_stats *stats)
{
  char total[32];
  printf("  %-10s %15s %12.1f %9u %9u %9u %9u %9u\n", name, grouped(stats->total, total),
         (double)stats->mean_milli / 1000, stats->p50, stats->p90, stats->p95, stats->p99,
         stats->max);
}

static void print_table(const struct kc_trace_stats *stats)
{
  printf("  %-10s %15s %12s %9s %9s %9s %9s %9s\n", "", "total", "mean", "p50", "p90", "p95",
         "p99", "max");
  print_lengths("input", &stats->input);
  print_lengths("output", &stats->output);
  print_lengths("context", &stats->context);
  if (stats->sessions > 0) print_lengths("turns", &stats->turns);
  if (stats->closed_rows > 0) print_lengths("wait ms", &stats->wait_ms);
}

/* A rate that nobody serves is mostly a unit that nobody meant. */
static void print_doubt(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  struct kc_unit_doubt doubt;
  kc_trace_doubt_unit(trace, stats, &doubt);
  if (doubt.reason == KC_UNIT_FITS) return;
  printf("  unit       doubtful: --time-unit %s would give %.3f requests/s (kvcap trace lint)\n",
         kc_time_unit_name(doubt.better), (double)doubt.better_rate_micro / 1e6);
}

static void print_arrivals(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  printf("  span       ");
  print_span(stats->span_ps);
  const char *const unit = kc_time_unit_name(trace->time_unit);
  printf("%s%s%s\n", unit[0] == '\0' ? "" : " (times in ", unit, unit[0] == '\0' ? "" : ")");
  if (stats->span_ps == 0) {
    printf("  rate       unknown: all requests arrive at once\n");
    return;
  }
  printf("  rate       %.3f requests/s", (double)stats->rate_micro / 1e6);
  if (stats->span_ps >= 10 * KC_PS_PER_S) { /* a window that the trace does not fill says nothing */
    printf(", in the busiest 10 s %.1f (%.1f by fixed windows)", (double)stats->peak_10s_rows / 10,
           (double)stats->fixed_10s_rows / 10);
  }
  printf("\n  gaps       mean %.3f s, longest %.1f s, variation %.2f\n",
         (double)stats->gap_mean_ps / (double)KC_PS_PER_S,
         (double)stats->gap_max_ps / (double)KC_PS_PER_S, (double)stats->gap_cv_ppm / 1e6);
  print_doubt(trace, stats);
}

static double percent(uint64_t part, uint64_t whole)
{
  return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

static void print_sessions(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  if (stats->sessions == 0) {
    printf("  sessions   none\n");
  } else {
    printf("  sessions   %u with %" PRIu64 " rows\n", stats->sessions, stats->session_rows);
    printf("  prompts    %s\n", trace->adds_past ? "of new tokens in the file; the kept context is "
                                                  "added here"
                                                : "whole in the file; nothing is added");
  }
  if (stats->closed_rows > 0) {
    printf("  closed     %.1f %% of rows wait for another one to end\n",
           percent(stats->closed_rows, stats->rows));
  }
  if (stats->failed_rows + stats->cancelled_rows + stats->subagent_rows +
          stats->compacted_rows > 0) {
    printf("  marked     %" PRIu64 " failed, %" PRIu64 " cancelled, %" PRIu64 " of nested agents, "
           "%" PRIu64 " compacted\n", stats->failed_rows, stats->cancelled_rows,
           stats->subagent_rows, stats->compacted_rows);
    if (stats->subagents > 0) printf("  nested     %" PRIu64 " agents\n", stats->subagents);
  }
}

static void print_reuse(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  const struct kc_trace_reuse *const reuse = &stats->reuse;
  char reused[32], blocks[32];
  if (!trace->prefix_ids) {
    printf("  reuse      unknown: the format says nothing of shared prefixes\n");
    return;
  }
  printf("  prefix ids %u tokens each, partial last block %s (%s)\n", trace->block_tokens,
         trace->tail == KC_TAIL_FLOOR ? "left out" : "listed", kc_tail_rule_name(trace->tail));
  printf("  reuse      %s of %s blocks (%.1f %%), %.1f %% of tokens, by an infinite cache\n",
         grouped(reuse->blocks_reused, reused), grouped(reuse->blocks, blocks),
         percent(reuse->blocks_reused, reuse->blocks),
         percent(reuse->tokens_reused, reuse->tokens));
}

static void print_notes(const struct kc_trace *trace)
{
  char count[32];
  for (unsigned note = 0; note < KC_NOTES; note++) {
    if (trace->note[note] == 0) continue;
    const char *names = kc_trace_note_names(trace, (enum kc_trace_note)note);
    printf("  note       %s %s%s%s\n", grouped(trace->note[note], count),
           kc_trace_note_text((enum kc_trace_note)note), names[0] != '\0' ? ": " : "", names);
  }
}

void kc_cli_trace_info_print(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  char rows[32], bytes[32];
  KC_ASSERT(trace->count > 0 && stats->rows == trace->count);
  printf("%s\n", trace->path);
  printf("  format     %s\n", trace->format);
  if (trace->file_count > 1) printf("  files      %u\n", trace->file_count);
  printf("  rows       %s\n", grouped(trace->count, rows));
  print_arrivals(trace, stats);
  print_sessions(trace, stats);
  print_reuse(trace, stats);
  print_table(stats);
  printf("  correlation of input and output: Pearson %.3f, Spearman %.3f\n",
         (double)stats->pearson_ppm / 1e6, (double)stats->spearman_ppm / 1e6);
  printf("  sha256     %s (%s bytes)\n", trace->sha256, grouped(trace->bytes, bytes));
  print_notes(trace);
}

/* ---- for programs ---- */

static json_t *lengths_json(const struct kc_length_stats *stats)
{
  return json_pack("{s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "count",
                   (json_int_t)stats->count, "total", (json_int_t)stats->total, "mean",
                   (double)stats->mean_milli / 1000, "min", (json_int_t)stats->min, "p50",
                   (json_int_t)stats->p50, "p90", (json_int_t)stats->p90, "p95",
                   (json_int_t)stats->p95, "p99", (json_int_t)stats->p99, "max",
                   (json_int_t)stats->max);
}

static json_t *arrivals_json(const struct kc_trace_stats *stats)
{
  const bool known = stats->span_ps > 0;
  return json_pack("{s:f, s:o, s:o, s:o, s:f, s:f, s:f, s:I, s:I, s:f}", "span_s",
                   (double)stats->span_ps / (double)KC_PS_PER_S, "rate_rps",
                   known ? json_real((double)stats->rate_micro / 1e6) : json_null(),
                   "peak_10s_rps",
                   known ? json_real((double)stats->peak_10s_rows / 10) : json_null(),
                   "peak_10s_fixed_rps",
                   known ? json_real((double)stats->fixed_10s_rows / 10) : json_null(),
                   "gap_mean_s",
                   (double)stats->gap_mean_ps / (double)KC_PS_PER_S, "gap_max_s",
                   (double)stats->gap_max_ps / (double)KC_PS_PER_S, "gap_cv",
                   (double)stats->gap_cv_ppm / 1e6, "tied_rows", (json_int_t)stats->tied_rows,
                   "distinct", (json_int_t)stats->distinct_arrivals, "tick_s",
                   (double)stats->tick_ps / (double)KC_PS_PER_S);
}

static json_t *sessions_json(const struct kc_trace_stats *stats)
{
  return json_pack("{s:I, s:I, s:o, s:I, s:f, s:o, s:I, s:I, s:I, s:I, s:I}", "count",
                   (json_int_t)stats->sessions, "rows", (json_int_t)stats->session_rows, "turns",
                   lengths_json(&stats->turns), "closed_rows", (json_int_t)stats->closed_rows,
                   "closed_share", percent(stats->closed_rows, stats->rows) / 100, "wait_ms",
                   lengths_json(&stats->wait_ms), "failed", (json_int_t)stats->failed_rows,
                   "cancelled", (json_int_t)stats->cancelled_rows, "subagents",
                   (json_int_t)stats->subagents, "subagent_rows",
                   (json_int_t)stats->subagent_rows, "compacted",
                   (json_int_t)stats->compacted_rows);
}

/* null: unknown, which is not the same as 0. */
static json_t *reuse_json(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  const struct kc_trace_reuse *const reuse = &stats->reuse;
  if (!trace->prefix_ids) return json_null();
  return json_pack("{s:I, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:f}", "block_tokens",
                   (json_int_t)trace->block_tokens, "tail", kc_tail_rule_name(trace->tail), "rows",
                   (json_int_t)reuse->rows, "blocks", (json_int_t)reuse->blocks, "blocks_reused",
                   (json_int_t)reuse->blocks_reused, "block_share",
                   percent(reuse->blocks_reused, reuse->blocks) / 100, "tokens",
                   (json_int_t)reuse->tokens, "tokens_reused", (json_int_t)reuse->tokens_reused,
                   "token_share", percent(reuse->tokens_reused, reuse->tokens) / 100);
}

json_t *kc_cli_trace_info_json(const struct kc_trace *trace, const struct kc_trace_stats *stats)
{
  KC_ASSERT(trace->count > 0);
  KC_ASSERT(stats->rows == trace->count);
  return json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:f, s:f, s:o, "
                   "s:o, s:o}", "path", kc_cli_json_string(trace->path), "format", trace->format,
                   "sha256", trace->sha256, "prompts",
                   trace->adds_past ? "incremental" : "whole",
                   "time_unit", kc_time_unit_name(trace->time_unit), "bytes",
                   (json_int_t)trace->bytes, "files", (json_int_t)trace->file_count, "rows",
                   (json_int_t)trace->count, "arrivals", arrivals_json(stats), "input_tokens",
                   lengths_json(&stats->input), "output_tokens", lengths_json(&stats->output),
                   "context_tokens", lengths_json(&stats->context), "pearson",
                   (double)stats->pearson_ppm / 1e6, "spearman", (double)stats->spearman_ppm / 1e6,
                   "sessions", sessions_json(stats), "reuse", reuse_json(trace, stats), "notes",
                   kc_cli_trace_notes_json(trace));
}
