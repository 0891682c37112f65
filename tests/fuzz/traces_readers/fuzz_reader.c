/* Any bytes as sessions and logs: recognised by content, and once more as the format that the
 * length picks (or as one format throughout: fuzz_format.h). What is accepted must be in order and
 * add up, and its links must lead back to rows of the same trace; written in the program's own
 * format and read again it is the same. */
#include "tests/fuzz/traces_readers/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const struct kc_trace *trace, uint64_t i)
{
  const struct kc_trace_columns *const column = &trace->column;
  const struct kc_trace_row *const row = &trace->row[i];
  KC_ASSERT(row->input_tokens >= 1 && row->output_tokens >= 1);
  KC_ASSERT(i == 0 || row[-1].arrival_ps <= row->arrival_ps);
  if (column->session != NULL && column->session[i] != KC_TRACE_NONE) {
    KC_ASSERT(column->session[i] < trace->session_count);
  }
  if (column->kind != NULL && column->kind[i] != KC_TRACE_NONE) {
    KC_ASSERT(column->kind[i] < trace->kind_count);
    KC_ASSERT(strlen(trace->kind_name[column->kind[i]]) > 0);
  }
  if (column->after != NULL && column->after[i] != KC_TRACE_NONE) {
    KC_ASSERT(column->after[i] < trace->count);
    KC_ASSERT(column->after[i] != i);
    KC_ASSERT(column->wait_ps[i] >= 0);
  }
}

/* The ids of row i lie within the trace's, behind those of the row before. Returns where they
 * end. */
static uint64_t check_blocks(const struct kc_trace *trace, uint64_t i, uint64_t end_before)
{
  const struct kc_trace_columns *const column = &trace->column;
  if (column->block_count == NULL || column->block_count[i] == 0) return end_before;
  KC_ASSERT(trace->block_tokens > 0 && trace->tail != KC_TAIL_NONE);
  KC_ASSERT(column->block_first[i] == end_before);
  KC_ASSERT(end_before + column->block_count[i] <= trace->block_total);
  for (uint32_t k = 0; k < column->block_count[i]; k++) {
    KC_ASSERT(trace->block[end_before + k] < trace->block_distinct);
  }
  return end_before + column->block_count[i];
}

/* From every row, waiting leads to a row that waits for nothing: no rings. */
static void check_no_rings(const struct kc_trace *trace)
{
  const uint32_t *const after = trace->column.after;
  if (after == NULL) return;
  for (uint64_t i = 0; i < trace->count; i++) {
    uint64_t steps = 0;
    for (uint32_t at = after[i]; at != KC_TRACE_NONE; at = after[at]) {
      KC_ASSERT(++steps <= trace->count);
    }
  }
}

static void check_trace(const struct kc_trace *trace)
{
  uint64_t input = 0, output = 0, blocks = 0;
  KC_ASSERT(trace->count > 0 && trace->row[0].arrival_ps == 0);
  for (uint64_t i = 0; i < trace->count; i++) {
    check_row(trace, i);
    blocks = check_blocks(trace, i, blocks);
    input += trace->row[i].input_tokens;
    output += trace->row[i].output_tokens;
  }
  KC_ASSERT(trace->input_tokens == input && trace->output_tokens == output);
  KC_ASSERT(trace->span_ps == trace->row[trace->count - 1].arrival_ps);
  KC_ASSERT(blocks == trace->block_total);
  KC_ASSERT(trace->prefix_ids || trace->block_total == 0);
  check_no_rings(trace);
}

/* ---- written and read again ---- */

struct text {
  char *bytes;
  size_t used;
};

static bool append(void *context, const char *bytes, size_t count)
{
  struct text *const text = context;
  char *const larger = realloc(text->bytes, text->used + count + 1);
  KC_ASSERT(larger != NULL);
  memcpy(larger + text->used, bytes, count);
  text->bytes = larger;
  text->used += count;
  return true;
}

/* Entry i of a column that may be absent. */
static uint32_t entry(const uint32_t *column, uint64_t i, uint32_t absent)
{
  return column == NULL ? absent : column[i];
}

static void check_same_row(const struct kc_trace *a, const struct kc_trace *b, uint64_t i)
{
  const uint32_t after = entry(a->column.after, i, KC_TRACE_NONE);
  KC_ASSERT(memcmp(&a->row[i], &b->row[i], sizeof a->row[i]) == 0);
  KC_ASSERT(entry(a->column.session, i, KC_TRACE_NONE) ==
            entry(b->column.session, i, KC_TRACE_NONE));
  KC_ASSERT(after == entry(b->column.after, i, KC_TRACE_NONE));
  KC_ASSERT(after == KC_TRACE_NONE || a->column.wait_ps[i] == b->column.wait_ps[i]);
  KC_ASSERT(entry(a->column.block_count, i, 0) == entry(b->column.block_count, i, 0));
  KC_ASSERT(entry(a->column.kind, i, KC_TRACE_NONE) == entry(b->column.kind, i, KC_TRACE_NONE));
  const uint8_t flags_a = a->column.flags == NULL ? 0 : a->column.flags[i];
  const uint8_t flags_b = b->column.flags == NULL ? 0 : b->column.flags[i];
  KC_ASSERT(flags_a == flags_b);
}

/* The program's own format keeps everything. */
static void check_round_trip(const struct kc_trace *trace)
{
  struct kc_trace_options options;
  struct kc_trace again;
  struct text text = {NULL, 0};
  kc_trace_options_default(&options);
  KC_ASSERT(kc_trace_write(trace, append, &text, NULL) == KC_OK);
  KC_ASSERT(kc_trace_parse(&again, "again", text.bytes, text.used, &options, NULL) == KC_OK);
  KC_ASSERT(again.count == trace->count && again.block_total == trace->block_total);
  for (uint64_t i = 0; i < trace->count; i++) check_same_row(trace, &again, i);
  KC_ASSERT(trace->block_total == 0 ||
            memcmp(trace->block, again.block, trace->block_total * sizeof *trace->block) == 0);
  kc_trace_free(&again);
  free(text.bytes);
}

/* True when the input was accepted. */
static bool parse_one(const uint8_t *data, size_t size, const struct kc_trace_options *options)
{
  struct kc_trace trace;
  struct kc_diag diag;
  const enum kc_err result =
      kc_trace_parse(&trace, "fuzz", (const char *)data, size, options, &diag);
  if (result == KC_OK) {
    check_trace(&trace);
    fuzz_check_lines(&trace, options->lines);
    check_round_trip(&trace);
    kc_trace_free(&trace);
    return true;
  }
  KC_ASSERT(trace.row == NULL && trace.block == NULL);
  KC_ASSERT(diag.code == result && diag.text[0] != '\0');
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const formats[] = {"burstgpt", "tracelab", "tracelab-rounds", "weka",
                                        "llmservingsim", "benchlog", "bench-result",
                                        "aiperf"};
  const char *const only = fuzz_only_format();
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  options.format = only;
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  bool accepted = parse_one(data, size, &options);
  options.zero_output = KC_ZERO_OUTPUT_DROP;
  options.lines = true;
  if (only == NULL) options.format = formats[size % (sizeof formats / sizeof formats[0])];
  accepted |= parse_one(data, size, &options);
  fuzz_add_input(accepted);
  return 0;
}
