/* Writers of other tools' formats, one row function each.
 *
 *   azure      TIMESTAMP,ContextTokens,GeneratedTokens      dates, ticks of 100 ns
 *              1970-01-01 00:00:03.9799600,4808,10
 *   vidur      arrived_at,num_prefill_tokens,num_decode_tokens      seconds, any digits
 *              3.97996,4808,10
 *   mooncake   {"timestamp": 3980, "input_length": 4808, "output_length": 10, "hash_ids": [0, 1]}
 *              whole milliseconds; ids of 512 tokens, the partial last block listed
 *
 * Azure's clock starts at the epoch: a trace in memory has no date. Text is gathered in a buffer on
 * the stack and handed over when it is nearly full. */
#include "traces/transform/trace_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

enum { BUFFER_BYTES = 1 << 14, ROW_BYTES_MAX = 256, MOONCAKE_BLOCK_TOKENS = 512 };

struct loss_words {
  const char *name, *text;
};

static const struct loss_words loss_words[KC_LOSSES] = {
    [KC_LOSS_TIMES] = {"times", NULL}, /* by the format's clock */
    [KC_LOSS_SESSIONS] = {"sessions", "rows lose their session"},
    [KC_LOSS_LINKS] = {"links", "rows lose the row they wait for"},
    [KC_LOSS_IDS] = {"prefix_ids", "rows lose their prefix ids"},
    [KC_LOSS_BLOCK_SIZE] = {"block_size", "block size that the format cannot say; readers assume "
                            "512 tokens an id"},
    [KC_LOSS_TAIL] = {"tail_rule", "tail rule that the format cannot say; readers assume that the "
                      "partial last block is listed"},
    [KC_LOSS_KINDS] = {"kinds", "rows lose the name of their kind"},
    [KC_LOSS_FLAGS] = {"flags", "rows lose their flags (failed, cancelled, sub-agent, compacted)"},
};

const char *kc_export_loss_name(enum kc_export_loss loss)
{
  KC_ASSERT((unsigned)loss < KC_LOSSES);
  return loss_words[loss].name;
}

const char *kc_export_loss_text(enum kc_export_loss loss, enum kc_export_format format)
{
  KC_ASSERT((unsigned)loss < KC_LOSSES);
  if (loss != KC_LOSS_TIMES) return loss_words[loss].text;
  return format == KC_EXPORT_AZURE ? "arrivals rounded to steps of 100 ns"
                                   : "arrivals rounded to whole milliseconds";
}

const char *kc_export_format_name(enum kc_export_format format)
{
  static const char *const names[] = {"kvcap", "azure", "vidur", "mooncake"};
  KC_ASSERT((unsigned)format < sizeof names / sizeof names[0]);
  return names[format];
}

/* ---- losses ---- */

static kc_ps clock_of(enum kc_export_format format)
{
  switch (format) {
    case KC_EXPORT_AZURE: return 100 * KC_PS_PER_NS;
    case KC_EXPORT_MOONCAKE: return KC_PS_PER_MS;
    case KC_EXPORT_KVCAP:
    case KC_EXPORT_VIDUR: break;
  }
  return 1;
}

static void count_losses(const struct kc_trace *trace, enum kc_export_format format,
                         uint64_t lost[KC_LOSSES])
{
  const struct kc_trace_columns *const column = &trace->column;
  const kc_ps tick = clock_of(format);
  const bool has_ids = trace->prefix_ids && column->block_count != NULL;
  for (uint64_t i = 0; i < trace->count; i++) {
    lost[KC_LOSS_TIMES] += trace->row[i].arrival_ps % tick != 0;
    lost[KC_LOSS_SESSIONS] += column->session != NULL && column->session[i] != KC_TRACE_NONE;
    lost[KC_LOSS_LINKS] += column->after != NULL && column->after[i] != KC_TRACE_NONE;
    lost[KC_LOSS_IDS] += has_ids && format != KC_EXPORT_MOONCAKE && column->block_count[i] > 0;
    lost[KC_LOSS_KINDS] += column->kind != NULL && column->kind[i] != KC_TRACE_NONE;
    lost[KC_LOSS_FLAGS] += column->flags != NULL && column->flags[i] != 0;
  }
  if (has_ids && format == KC_EXPORT_MOONCAKE) {
    lost[KC_LOSS_BLOCK_SIZE] = trace->block_tokens != MOONCAKE_BLOCK_TOKENS;
    lost[KC_LOSS_TAIL] = trace->tail != KC_TAIL_CEIL;
  }
}

bool kc_trace_export_losses(const struct kc_trace *trace, enum kc_export_format format,
                            uint64_t lost[KC_LOSSES])
{
  KC_ASSERT(trace != NULL && trace->count > 0);
  memset(lost, 0, KC_LOSSES * sizeof *lost);
  if (format != KC_EXPORT_KVCAP) count_losses(trace, format, lost);
  uint64_t total = 0;
  for (unsigned i = 0; i < KC_LOSSES; i++) total += lost[i];
  return total == 0;
}

/* ---- text ---- */

struct output {
  kc_trace_write_text *write;
  void *context;
  size_t used;
  bool failed;
  char text[BUFFER_BYTES];
};

static void flush(struct output *out)
{
  KC_ASSERT(out->used <= BUFFER_BYTES);
  if (out->used > 0 && !out->failed) out->failed = !out->write(out->context, out->text, out->used);
  out->used = 0;
}

__attribute__((format(printf, 2, 3))) static void add(struct output *out, const char *format, ...)
{
  if (BUFFER_BYTES - out->used < ROW_BYTES_MAX) flush(out);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(out->text + out->used, ROW_BYTES_MAX, format, arguments);
  va_end(arguments);
  KC_ASSERT(length >= 0 && length < ROW_BYTES_MAX);
  out->used += (size_t)length;
}

/* ---- rows ---- */

static uint64_t to_ticks(kc_ps time_ps, kc_ps tick_ps)
{
  KC_ASSERT(time_ps >= 0);
  return kc_muldiv_round((uint64_t)time_ps, 1, (uint64_t)tick_ps);
}

/* Days after 1970-01-01 as month and day; kc_ps ends after 106 days, in April. */
static void split_day(uint64_t day, unsigned *month, unsigned *day_of_month)
{
  static const unsigned month_days[] = {31, 28, 31, 30};
  for (*month = 0; day >= month_days[*month]; ++*month) {
    KC_ASSERT(*month < 3);
    day -= month_days[*month];
  }
  *month += 1;
  *day_of_month = (unsigned)day + 1;
}

static void add_azure(struct output *out, const struct kc_trace_row *row)
{
  const uint64_t per_second = 10000000;
  const uint64_t ticks = to_ticks(row->arrival_ps, clock_of(KC_EXPORT_AZURE));
  const uint64_t seconds = ticks / per_second;
  const unsigned in_day = (unsigned)(seconds % 86400);
  unsigned month, day;
  split_day(seconds / 86400, &month, &day);
  add(out, "1970-%02u-%02u %02u:%02u:%02u.%07u,%" PRIu32 ",%" PRIu32 "\n", month, day,
      in_day / 3600, in_day / 60 % 60, in_day % 60, (unsigned)(ticks % per_second),
      row->input_tokens, row->output_tokens);
}

static void add_vidur(struct output *out, const struct kc_trace_row *row)
{
  char seconds[48];
  kc_format_fixed(row->arrival_ps, 12, seconds);
  add(out, "%s,%" PRIu32 ",%" PRIu32 "\n", seconds, row->input_tokens, row->output_tokens);
}

static void add_mooncake(struct output *out, const struct kc_trace *trace, uint64_t i)
{
  const struct kc_trace_row *const row = &trace->row[i];
  const struct kc_trace_columns *const column = &trace->column;
  add(out, "{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu32,
      to_ticks(row->arrival_ps, KC_PS_PER_MS), row->input_tokens);
  add(out, ", \"output_length\": %" PRIu32, row->output_tokens);
  if (trace->prefix_ids && column->block_count != NULL) {
    const uint32_t *const id = trace->block + column->block_first[i];
    add(out, ", \"hash_ids\": [");
    for (uint32_t b = 0; b < column->block_count[i]; b++) {
      add(out, "%s%" PRIu32, b == 0 ? "" : ", ", id[b]);
    }
    add(out, "]");
  }
  add(out, "}\n");
}

static void add_rows(struct output *out, const struct kc_trace *trace, enum kc_export_format format)
{
  KC_ASSERT(format != KC_EXPORT_KVCAP);
  if (format == KC_EXPORT_AZURE) add(out, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
  if (format == KC_EXPORT_VIDUR) add(out, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
  for (uint64_t i = 0; i < trace->count && !out->failed; i++) {
    if (format == KC_EXPORT_AZURE) add_azure(out, &trace->row[i]);
    if (format == KC_EXPORT_VIDUR) add_vidur(out, &trace->row[i]);
    if (format == KC_EXPORT_MOONCAKE) add_mooncake(out, trace, i);
  }
  flush(out);
}

enum kc_err kc_trace_export(const struct kc_trace *trace, enum kc_export_format format,
                            kc_trace_write_text *write, void *context, struct kc_diag *diag)
{
  KC_ASSERT(trace != NULL && trace->count > 0);
  KC_ASSERT(write != NULL);
  if (format == KC_EXPORT_KVCAP) return kc_trace_write(trace, write, context, diag);
  struct output out;
  out.write = write;
  out.context = context;
  out.used = 0;
  out.failed = false;
  add_rows(&out, trace, format);
  return out.failed ? kc_fail(diag, KC_ERR_FILE, "the trace could not be written whole; is the "
                              "disk full?") : KC_OK;
}
