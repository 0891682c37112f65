/* What the trace tests share: parse a string literal, and check one row. */
#ifndef KC_TESTS_TRACE_TEXT_H
#define KC_TESTS_TRACE_TEXT_H

#include "traces/trace.h"

/* Parses `text` under the name "t.csv" with default options. Prints the message on failure. */
enum kc_err parse_text(struct kc_trace *trace, const char *text, struct kc_diag *diag);
enum kc_err parse_text_with(struct kc_trace *trace, const char *text, size_t bytes,
                            const struct kc_trace_options *options, struct kc_diag *diag);

/* Asserts that row `index` is (arrival, input, output). */
void assert_row(const struct kc_trace *trace, uint64_t index, kc_ps arrival_ps, uint32_t input,
                uint32_t output);

/* Asserts that parsing succeeds; prints the message if not. */
void parse_ok(struct kc_trace *trace, const char *text);

/* gzip of data[0, bytes) into a heap buffer; *packed_bytes says how long. */
char *gzip_bytes(const char *data, size_t bytes, size_t *packed_bytes);

#endif
