/* Any bytes as JSON rows of the Mooncake family, or as the program's own CSV, under policies and
 * overrides that the last byte picks. What is accepted must keep the promises of trace.h and
 * survive being written in the program's own format and read again. */
#include "tests/fuzz/traces_readers/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sink {
  char *text;
  size_t bytes, capacity;
};

static bool take_text(void *context, const char *text, size_t bytes)
{
  struct sink *const sink = context;
  if (sink->bytes + bytes > sink->capacity) {
    sink->capacity = 2 * (sink->bytes + bytes);
    sink->text = realloc(sink->text, sink->capacity);
    KC_ASSERT(sink->text != NULL);
  }
  memcpy(sink->text + sink->bytes, text, bytes);
  sink->bytes += bytes;
  return true;
}

static void check_links(const struct kc_trace *trace, uint64_t i)
{
  const struct kc_trace_columns *const c = &trace->column;
  if (c->session != NULL && c->session[i] != KC_TRACE_NONE) {
    KC_ASSERT(c->session[i] < trace->session_count);
  }
  if (c->kind != NULL && c->kind[i] != KC_TRACE_NONE) KC_ASSERT(c->kind[i] < trace->kind_count);
  if (c->after == NULL || c->after[i] == KC_TRACE_NONE) return;
  KC_ASSERT(c->after[i] < trace->count && c->after[i] != i);
  KC_ASSERT(c->wait_ps[i] >= 0);
}

static uint64_t check_ids(const struct kc_trace *trace, uint64_t i)
{
  const uint32_t *const block = trace->block + trace->column.block_first[i];
  const uint32_t count = trace->column.block_count[i];
  const uint64_t size = trace->block_tokens;
  KC_ASSERT(count <= (trace->row[i].input_tokens + size - 1) / size);
  for (uint32_t k = 0; k < count; k++) KC_ASSERT(block[k] < trace->block_distinct);
  return count;
}

static void check_trace(const struct kc_trace *trace)
{
  struct kc_trace_reuse reuse;
  uint64_t blocks = 0, input = 0;
  KC_ASSERT(trace->count > 0 && trace->row[0].arrival_ps == 0);
  for (uint64_t i = 0; i < trace->count; i++) {
    const struct kc_trace_row *const row = &trace->row[i];
    KC_ASSERT(row->input_tokens >= 1 && row->output_tokens >= 1);
    KC_ASSERT(i == 0 || row[-1].arrival_ps <= row->arrival_ps);
    input += row->input_tokens;
    check_links(trace, i);
    if (trace->prefix_ids) blocks += check_ids(trace, i);
  }
  KC_ASSERT(trace->input_tokens == input);
  KC_ASSERT(trace->block_total == blocks);
  const enum kc_err result = kc_trace_reuse(trace, &reuse, NULL);
  KC_ASSERT(result == KC_OK);
  KC_ASSERT(reuse.blocks == blocks && reuse.blocks_reused <= blocks);
  KC_ASSERT(reuse.tokens_reused <= reuse.tokens && reuse.tokens <= input);
  /* Every distinct id is new once, unless it stands behind another new one. */
  KC_ASSERT(reuse.blocks - reuse.blocks_reused >= trace->block_distinct);
}

static void check_round_trip(const struct kc_trace *trace)
{
  struct sink sink = {0}, twice = {0};
  struct kc_trace again;
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  enum kc_err result = kc_trace_write(trace, take_text, &sink, NULL);
  KC_ASSERT(result == KC_OK);
  result = kc_trace_parse(&again, "again", sink.text, sink.bytes, &options, NULL);
  KC_ASSERT(result == KC_OK);
  KC_ASSERT(again.count == trace->count && again.block_distinct == trace->block_distinct);
  KC_ASSERT(memcmp(again.row, trace->row, trace->count * sizeof *trace->row) == 0);
  KC_ASSERT(again.session_count == trace->session_count && again.kind_count == trace->kind_count);
  result = kc_trace_write(&again, take_text, &twice, NULL);
  KC_ASSERT(result == KC_OK);
  KC_ASSERT(sink.bytes == twice.bytes && memcmp(sink.text, twice.text, sink.bytes) == 0);
  kc_trace_free(&again);
  free(sink.text);
  free(twice.text);
}

static void draw_options(struct kc_trace_options *options, uint8_t byte)
{
  static const char *const formats[] = {NULL, NULL, "mooncake", "bailian", "servegen",
                                        "kvcap-trace", NULL, NULL};
  kc_trace_options_default(options);
  options->format = formats[byte & 7];
  options->zero_output = (byte & 8) != 0 ? KC_ZERO_OUTPUT_DROP : KC_ZERO_OUTPUT_FLOOR;
  options->failed = (byte & 16) != 0 ? KC_ROW_DROP : KC_ROW_KEEP;
  options->tail = (byte & 32) != 0 ? KC_TAIL_FLOOR : KC_TAIL_NONE;
  options->block_tokens = (byte & 64) != 0 ? 3 : 0;
  options->missing_output_tokens = (byte & 128) != 0 ? 0 : 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *const only = fuzz_only_format();
  struct kc_trace trace;
  struct kc_trace_options options;
  struct kc_diag diag;
  bool accepted = false;
  for (int way = 0; way < 2; way++) {
    draw_options(&options, way == 0 || size == 0 ? 0 : data[size - 1]);
    if (only != NULL) options.format = only;
    options.lines = way == 1;
    const enum kc_err result =
        kc_trace_parse(&trace, "fuzz", (const char *)data, size, &options, &diag);
    if (result != KC_OK) {
      KC_ASSERT(trace.row == NULL && trace.block == NULL);
      KC_ASSERT(diag.code == result && diag.text[0] != '\0');
      continue;
    }
    check_trace(&trace);
    fuzz_check_lines(&trace, options.lines);
    check_round_trip(&trace);
    kc_trace_free(&trace);
    accepted = true;
  }
  fuzz_add_input(accepted);
  return 0;
}
