/* BurstGPT (HPMLL/BurstGPT): requests to ChatGPT and GPT-4 of one campus over months.
 *
 *   Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type                  first
 *   5,ChatGPT,472,18,490,Conversation log
 *   Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
 *   5,7,2.5,ChatGPT,472,18,490,Conversation log                                           newer
 *   9,,0.5,GPT-4,417,0,417,API log                              no session; a failure
 *
 * Seconds, whole in the published files, so that many rows share an instant. Only conversations
 * have a session, and it says who asked, not what the prompt holds: rows start at their own times.
 * A failure has 0 response tokens and is flagged. The total is redundant and not read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/readers/trace_reader.h"

static const struct kc_trace_column burstgpt_columns[] = {
    {KC_ROLE_ARRIVAL, true, "Timestamp", NULL},
    {KC_ROLE_SESSION, false, "Session ID", NULL},
    {KC_ROLE_KIND, false, "Model", NULL},
    {KC_ROLE_INPUT, true, "Request tokens", NULL},
    {KC_ROLE_OUTPUT, true, "Response tokens", NULL},
    {KC_ROLE_STATUS, false, "Log Type", NULL},
};

/* Room for "model / log type": it must outlive parse_row. */
static enum kc_err burstgpt_begin(struct kc_trace_builder *builder)
{
  if (builder->memory == NULL && !KC_FAULT("trace_kind_memory")) {
    builder->memory = malloc(KC_TRACE_KIND_BYTES);
  }
  if (builder->memory != NULL) return KC_OK;
  return kc_fail(builder->diag, KC_ERR_MEMORY, "out of memory: reading a trace");
}

static void burstgpt_forget(struct kc_trace_builder *builder)
{
  free(builder->memory);
  builder->memory = NULL;
}

static void take_kind(const struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  char *const text = builder->memory;
  const struct kc_csv_cell *const model = kc_trace_cell(builder, KC_ROLE_KIND);
  const struct kc_csv_cell *const log = kc_trace_cell(builder, KC_ROLE_STATUS);
  KC_ASSERT(text != NULL);
  if (model == NULL || log == NULL) {
    const struct kc_csv_cell *const only = model != NULL ? model : log;
    raw->kind = only == NULL ? NULL : only->text;
    raw->kind_bytes = only == NULL ? 0 : only->bytes;
    return;
  }
  const int precision = KC_TRACE_KIND_BYTES;
  const int length = snprintf(text, KC_TRACE_KIND_BYTES, "%.*s / %.*s",
                              (int)model->bytes < precision ? (int)model->bytes : precision,
                              model->text,
                              (int)log->bytes < precision ? (int)log->bytes : precision, log->text);
  KC_ASSERT(length > 0);
  raw->kind = text;
  raw->kind_bytes = strlen(text);
}

static enum kc_err burstgpt_parse_row(struct kc_trace_builder *builder, struct kc_trace_raw *raw)
{
  KC_ASSERT(kc_trace_cell(builder, KC_ROLE_ARRIVAL) != NULL);
  KC_TRY(kc_trace_read_instant(builder, KC_ROLE_ARRIVAL, &raw->arrival));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_INPUT, &raw->input_tokens));
  KC_TRY(kc_trace_read_tokens(builder, KC_ROLE_OUTPUT, &raw->output_tokens));
  if (kc_trace_cell(builder, KC_ROLE_SESSION) != NULL) {
    KC_TRY(kc_trace_read_key(builder, KC_ROLE_SESSION, &raw->session));
  }
  if (raw->output_tokens == 0) raw->flags |= KC_ROW_FAILED;
  take_kind(builder, raw);
  return KC_OK;
}

const struct kc_trace_reader kc_reader_burstgpt = {
    .name = "burstgpt",
    .sample = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    .framing = KC_FRAMING_CSV,
    .column = burstgpt_columns,
    .column_count = sizeof burstgpt_columns / sizeof burstgpt_columns[0],
    .local_sessions = true,
    .unit = KC_UNIT_S,
    .detect = kc_trace_has_columns,
    .begin = burstgpt_begin,
    .parse_row = burstgpt_parse_row,
    .forget = burstgpt_forget,
};
