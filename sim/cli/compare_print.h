/* A comparison as text and as JSON: for `kvcap compare` and `kvcap calibrate serving --log`. */
#ifndef KC_SIM_CLI_COMPARE_PRINT_H
#define KC_SIM_CLI_COMPARE_PRINT_H

#include <jansson.h>

#include "sim/calibrate/compare.h"

/* Figures of each metric; `a` and `b` head the columns, with what they are worth. A difference is
 * worth what its worse side is. */
void kc_compare_print_figures(const struct kc_comparison *c, const char *a, const char *trust_a,
                              const char *b, const char *trust_b);
/* Mean stages, and the requests that differ most. */
void kc_compare_print_stages(const struct kc_comparison *c, const char *trust_a,
                             const char *trust_b);
/* Running and waiting on both sides, at most `lines` instants; nothing without a series. */
void kc_compare_print_seconds(const struct kc_serving_log *a, const struct kc_serving_log *b,
                              uint32_t lines);
/* A note on stderr of the requests that have no times, "PATH: `what`: 12 of 300 requests: ...";
 * nothing without any. */
void kc_compare_note_failures(const struct kc_serving_log *log, const char *what);
/* {"metrics": ..., "stages": ..., "requests": ..., "seconds": ...}; a new reference. */
json_t *kc_compare_json(const struct kc_comparison *c, const struct kc_serving_log *a,
                        const struct kc_serving_log *b);

#endif
