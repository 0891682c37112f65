/* What the parts of `kvcap trace` share: reading the input as its options say, and telling what the
 * reader repaired, dropped or assumed. Nothing is kept between calls. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/cli/cmd_trace.h"

static void fill_options(struct kc_trace_options *options, const struct kc_cli_trace_input *input)
{
  static const enum kc_tail_rule tails[] = {KC_TAIL_NONE, KC_TAIL_CEIL, KC_TAIL_FLOOR};
  KC_ASSERT(input->tail >= 0 && input->tail <= 2);
  kc_trace_options_default(options);
  options->format = strcmp(input->format, "auto") == 0 ? NULL : input->format;
  options->zero_output = (enum kc_zero_output)input->zero_output;
  options->time_unit = (enum kc_time_unit)input->time_unit;
  options->block_tokens = input->block_tokens;
  options->tail = tails[input->tail];
  options->missing_output_tokens = input->missing_output_tokens;
  options->lines = input->lines;
}

enum kc_err kc_cli_trace_load(struct kc_trace *trace, const struct kc_cli_trace_input *input,
                              const char *const *path, size_t count, struct kc_diag *diag)
{
  struct kc_trace_options options;
  KC_ASSERT(count > 0);
  KC_ASSERT(input != NULL);
  fill_options(&options, input);
  if (count == 1) return kc_trace_load(trace, path[0], &options, diag);
  return kc_trace_load_files(trace, path, count, &options, diag);
}

void kc_cli_trace_notes(const struct kc_trace *trace)
{
  KC_ASSERT(trace != NULL);
  for (unsigned note = 0; note < KC_NOTES; note++) {
    if (trace->note[note] == 0) continue;
    const char *names = kc_trace_note_names(trace, (enum kc_trace_note)note);
    kc_cli_note("%s: %" PRIu64 " %s%s%s", trace->path, trace->note[note],
                kc_trace_note_text((enum kc_trace_note)note), names[0] != '\0' ? ": " : "", names);
  }
}

json_t *kc_cli_trace_notes_json(const struct kc_trace *trace)
{
  json_t *notes = json_object();
  KC_ASSERT(trace != NULL);
  for (unsigned note = 0; notes != NULL && note < KC_NOTES; note++) {
    if (trace->note[note] == 0) continue;
    json_object_set_new(notes, kc_trace_note_name((enum kc_trace_note)note),
                        json_integer((json_int_t)trace->note[note]));
  }
  return notes;
}
