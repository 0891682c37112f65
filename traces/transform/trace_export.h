/* Traces in the formats of other tools. What a format has no place for is counted before a byte is
 * written; the caller refuses, or says so and goes on. The program's own format, which loses
 * nothing, is written by kc_trace_write. */
#ifndef KC_TRACES_TRANSFORM_TRACE_EXPORT_H
#define KC_TRACES_TRANSFORM_TRACE_EXPORT_H

#include "traces/trace.h"

enum kc_export_format { KC_EXPORT_KVCAP, KC_EXPORT_AZURE, KC_EXPORT_VIDUR, KC_EXPORT_MOONCAKE };
const char *kc_export_format_name(enum kc_export_format format); /* "kvcap", ...; never NULL */

/* Rows that lose something; BLOCK_SIZE and TAIL are 1 when the reader must be told. */
enum kc_export_loss {
  KC_LOSS_TIMES,      /* digits below the format's clock; rounded half up */
  KC_LOSS_SESSIONS,
  KC_LOSS_LINKS,      /* closed loop: the row it waits for, and how long */
  KC_LOSS_IDS,
  KC_LOSS_BLOCK_SIZE, /* the format's readers assume another number of tokens per id */
  KC_LOSS_TAIL,       /* ... and another tail rule */
  KC_LOSS_KINDS,
  KC_LOSS_FLAGS,
  KC_LOSSES
};
const char *kc_export_loss_name(enum kc_export_loss loss); /* stable key; never NULL */
/* For people, follows a count: "arrivals rounded to whole milliseconds". Never NULL. */
const char *kc_export_loss_text(enum kc_export_loss loss, enum kc_export_format format);

/* Fills lost[]; true when nothing is lost. O(rows). */
bool kc_trace_export_losses(const struct kc_trace *trace, enum kc_export_format format,
                            uint64_t lost[KC_LOSSES]);

/* Writes the trace; errors KC_ERR_FILE when `write` returns false. */
enum kc_err kc_trace_export(const struct kc_trace *trace, enum kc_export_format format,
                            kc_trace_write_text *write, void *context, struct kc_diag *diag);

#endif
