/* Measured requests of our own engine, in the form that the reader calls benchlog. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "sim/calibrate/serving_log.h"

static enum kc_err note_outcome(void *context, const struct kc_outcome *outcome,
                                const struct kc_request *request, struct kc_diag *diag)
{
  struct kc_log_answers *answers = context;
  (void)diag;
  KC_ASSERT(outcome->request < answers->count);
  answers->row[outcome->request] = kc_log_request_of(outcome, request->input_tokens, true);
  return KC_OK;
}

struct kc_recorder kc_log_recorder(struct kc_log_answers *answers)
{
  KC_ASSERT(answers != NULL && answers->row != NULL);
  return (struct kc_recorder){answers, note_outcome};
}

/* Between quotes; what JSON wants escaped becomes a space, which no name has. */
static void put_text(FILE *file, const char *key, const char *text)
{
  fprintf(file, ", \"%s\": \"", key);
  for (; *text != '\0'; text++) {
    const unsigned char c = (unsigned char)*text;
    fputc(c < 0x20 || c == '"' || c == '\\' ? ' ' : c, file);
  }
  fputc('"', file);
}

static void put_row(FILE *file, size_t index, const struct kc_log_request *row,
                    const struct kc_log_origin *origin)
{
  const double arrival = row->arrival_s;
  KC_ASSERT(row->ok && row->queue_s >= 0);
  fprintf(file, "{\"request_id\": \"%zu\", \"input_toks\": %" PRIu32 ", \"output_toks\": %" PRIu32,
          index, row->input_tokens, row->output_tokens);
  fprintf(file, ", \"arrival_time\": %.9f, \"queued_ts\": %.9f, \"scheduled_ts\": %.9f", arrival,
          arrival, arrival + row->queue_s);
  fprintf(file, ", \"first_token_ts\": %.9f, \"last_token_ts\": %.9f", arrival + row->ttft_s,
          arrival + row->e2e_s);
  put_text(file, "device", origin->device);
  put_text(file, "model", origin->model);
  fputs(origin->emulated ? ", \"emulated\": true}\n" : "}\n", file);
}

enum kc_err kc_serving_log_write(const struct kc_log_answers *answers,
                                 const struct kc_log_origin *origin, const char *path,
                                 size_t *left_out, struct kc_diag *diag)
{
  FILE *file;
  KC_ASSERT(origin->device != NULL && origin->model != NULL);
  *left_out = 0;
  KC_TRY(kc_file_create(&file, path, diag));
  for (size_t i = 0; i < answers->count; i++) {
    if (answers->row[i].ok) put_row(file, i, &answers->row[i], origin);
    else ++*left_out;
  }
  return kc_file_finish(file, path, diag);
}
