/* Helpers of the reader tests; see reader_text.h. */
#include "reader_text.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static enum kc_err parse_copy(struct kc_trace *trace, const char *text, size_t bytes,
                              const struct kc_trace_options *options, struct kc_diag *diag)
{
  /* An exact heap copy, so that the address sanitizer sees one byte too many. */
  char *const copy = malloc(bytes + (bytes == 0));
  assert_non_null(copy);
  memcpy(copy, text, bytes);
  const enum kc_err result = kc_trace_parse(trace, "t.json", copy, bytes, options, diag);
  free(copy);
  return result;
}

void reader_parse(struct kc_trace *trace, const char *text)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  char line[1024];
  kc_trace_options_default(&options);
  options.zero_output = KC_ZERO_OUTPUT_FLOOR;
  if (parse_copy(trace, text, strlen(text), &options, &diag) == KC_OK) return;
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("expected success, got: %s", line);
}

void assert_link(const struct kc_trace *trace, uint64_t index, struct reader_link expected)
{
  const struct kc_trace_columns *const column = &trace->column;
  assert_true(index < trace->count);
  const struct reader_link got = {
      column->session == NULL ? KC_TRACE_NONE : column->session[index],
      column->after == NULL ? KC_TRACE_NONE : column->after[index],
      column->wait_ps == NULL ? 0 : column->wait_ps[index],
  };
  if (got.session == expected.session && got.after == expected.after &&
      got.wait_ps == expected.wait_ps) {
    return;
  }
  fail_msg("row %" PRIu64 ": session %" PRIu32 ", after %" PRIu32 ", wait %" PRId64
           " ps; expected %" PRIu32 ", %" PRIu32 ", %" PRId64,
           index, got.session, got.after, got.wait_ps, expected.session, expected.after,
           expected.wait_ps);
}

void assert_flags(const struct kc_trace *trace, uint64_t index, unsigned flags)
{
  assert_true(index < trace->count);
  const unsigned got = trace->column.flags == NULL ? 0 : trace->column.flags[index];
  if (got != flags) fail_msg("row %" PRIu64 ": flags %u; expected %u", index, got, flags);
}

void assert_blocks(const struct kc_trace *trace, uint64_t index, const uint32_t *ids,
                   uint32_t count)
{
  assert_true(index < trace->count);
  assert_non_null(trace->column.block_first);
  assert_non_null(trace->column.block_count);
  assert_int_equal(trace->column.block_count[index], count);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t got = trace->block[trace->column.block_first[index] + i];
    if (got == ids[i]) continue;
    fail_msg("row %" PRIu64 ", block %" PRIu32 ": id %" PRIu32 "; expected %" PRIu32, index, i,
             got, ids[i]);
  }
}

const char *kind_of(const struct kc_trace *trace, uint64_t index)
{
  assert_true(index < trace->count);
  assert_non_null(trace->column.kind);
  const uint32_t kind = trace->column.kind[index];
  if (kind == KC_TRACE_NONE) return "";
  assert_true(kind < trace->kind_count);
  return trace->kind_name[kind];
}

/* Returns 1 and prints both texts when they differ. */
static int check_message(const char *format, const char *text, size_t bytes, const char *message)
{
  struct kc_trace_options options;
  struct kc_trace trace;
  struct kc_diag diag;
  char line[1024] = "(accepted)";
  kc_trace_options_default(&options);
  options.format = format;
  const enum kc_err result = parse_copy(&trace, text, bytes, &options, &diag);
  if (result != KC_OK) kc_diag_print(&diag, line, sizeof line);
  kc_trace_free(&trace);
  if (result == KC_ERR_INPUT && strcmp(line, message) == 0) return 0;
  print_error("input:    %.300s\ncode:     %d\ngot:      %s\nexpected: %s\n", text, (int)result,
              line, message);
  return 1;
}

void check_messages(const char *format, const struct reader_message *table, size_t count)
{
  int wrong = 0;
  for (size_t i = 0; i < count; i++) {
    char crlf[4096];
    size_t bytes = 0;
    const size_t length = strlen(table[i].text);
    assert_true(length * 2 <= sizeof crlf);
    wrong += check_message(format, table[i].text, length, table[i].message);
    for (size_t k = 0; k < length; k++) {
      if (table[i].text[k] == '\n') crlf[bytes++] = '\r';
      crlf[bytes++] = table[i].text[k];
    }
    wrong += check_message(format, crlf, bytes, table[i].message);
  }
  assert_int_equal(wrong, 0);
}

uint64_t reusable_blocks(const struct kc_trace *trace)
{
  uint64_t hits = 0;
  char *const seen = calloc(1, (size_t)trace->block_distinct + 1);
  assert_non_null(seen);
  for (uint64_t i = 0; i < trace->count; i++) {
    const uint32_t *const id = trace->block + trace->column.block_first[i];
    const uint32_t count = trace->column.block_count[i];
    uint32_t run = 0;
    while (run < count && seen[id[run]]) run++;
    hits += run;
    for (uint32_t k = run; k < count; k++) seen[id[k]] = 1;
  }
  free(seen);
  return hits;
}

void load_public(struct kc_trace *trace, const char *name)
{
  struct kc_trace_options options;
  struct kc_diag diag;
  char path[512], line[1024];
  snprintf(path, sizeof path, "%s/traces/%s", getenv("KVCAP_SHARED"), name);
  kc_trace_options_default(&options);
  if (kc_trace_load(trace, path, &options, &diag) == KC_OK) return;
  kc_diag_print(&diag, line, sizeof line);
  fail_msg("%s", line);
}

bool public_traces_exist(void)
{
  struct stat status;
  char path[512];
  if (getenv("KVCAP_SHARED") == NULL) return false;
  snprintf(path, sizeof path, "%s/traces", getenv("KVCAP_SHARED"));
  return stat(path, &status) == 0;
}
