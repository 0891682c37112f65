/* Helpers of the trace tests; see trace_text.h. */
#include "trace_text.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum kc_err parse_text_with(struct kc_trace *trace, const char *text, size_t bytes,
                            const struct kc_trace_options *options, struct kc_diag *diag)
{
  /* An exact heap copy, so that the address sanitizer sees one byte too many. */
  char *const copy = malloc(bytes + (bytes == 0));
  assert_non_null(copy);
  memcpy(copy, text, bytes);
  const enum kc_err result = kc_trace_parse(trace, "t.csv", copy, bytes, options, diag);
  free(copy);
  return result;
}

enum kc_err parse_text(struct kc_trace *trace, const char *text, struct kc_diag *diag)
{
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  return parse_text_with(trace, text, strlen(text), &options, diag);
}

void parse_ok(struct kc_trace *trace, const char *text)
{
  struct kc_diag diag;
  if (parse_text(trace, text, &diag) == KC_OK) return;
  char line[1024];
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("expected success, got: %s", line);
}

void assert_row(const struct kc_trace *trace, uint64_t index, kc_ps arrival_ps, uint32_t input,
                uint32_t output)
{
  assert_true(index < trace->count);
  const struct kc_trace_row *const row = &trace->row[index];
  if (row->arrival_ps == arrival_ps && row->input_tokens == input &&
      row->output_tokens == output) {
    return;
  }
  fail_msg("row %" PRIu64 " is %" PRId64 " ps, %u, %u; expected %" PRId64 " ps, %u, %u", index,
           row->arrival_ps, row->input_tokens, row->output_tokens, arrival_ps, input, output);
}

char *gzip_bytes(const char *data, size_t bytes, size_t *packed_bytes)
{
  z_stream stream;
  memset(&stream, 0, sizeof stream);
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  const size_t bound = deflateBound(&stream, (uLong)bytes);
  char *const packed = malloc(bound);
  assert_non_null(packed);
  stream.next_in = (z_const Bytef *)(uintptr_t)data;
  stream.avail_in = (uInt)bytes;
  stream.next_out = (Bytef *)packed;
  stream.avail_out = (uInt)bound;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  *packed_bytes = bound - stream.avail_out;
  (void)deflateEnd(&stream);
  return packed;
}
