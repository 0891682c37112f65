/* One fuzz target covers several formats, so "a million inputs" of it says little of each. With
 * KVCAP_FUZZ_FORMAT=NAME every input is read as that format and no other, so -runs=N is N inputs of
 * its reader; and how many of them were accepted, which is how deep they went, is printed at the
 * end of the process.
 *
 *   KVCAP_FUZZ_FORMAT=weka fuzz_reader -runs=1000000 found corpus/reader
 *   weka: 1000000 inputs, 1234 accepted */
#ifndef KC_TESTS_FUZZ_FORMAT_H
#define KC_TESTS_FUZZ_FORMAT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "traces/trace.h"

struct fuzz_count {
  const char *format; /* NULL: whatever the content says, or each input picks */
  uint64_t inputs, accepted;
};

static struct fuzz_count fuzz_count;

static inline void fuzz_print_count(void)
{
  fprintf(stderr, "%s: %" PRIu64 " inputs, %" PRIu64 " accepted\n", fuzz_count.format,
          fuzz_count.inputs, fuzz_count.accepted);
}

/* The format that the environment insists on, or NULL. A name that no reader has would test
 * nothing, so it ends the process. */
static inline const char *fuzz_only_format(void)
{
  const char *const wanted = getenv("KVCAP_FUZZ_FORMAT");
  if (fuzz_count.format != NULL || wanted == NULL) return fuzz_count.format;
  for (size_t i = 0; kc_trace_format_name(i) != NULL && fuzz_count.format == NULL; i++) {
    const char *const name = kc_trace_format_name(i);
    if (strcmp(name, wanted) == 0) fuzz_count.format = name;
  }
  KC_ASSERT(fuzz_count.format != NULL);
  (void)atexit(fuzz_print_count);
  return fuzz_count.format;
}

/* A trace that was read with its lines has one for every row. */
static inline void fuzz_check_lines(const struct kc_trace *trace, bool asked)
{
  KC_ASSERT((trace->column.line != NULL) == asked);
  for (uint64_t i = 0; i < trace->count && asked; i++) {
    const struct kc_trace_place place = kc_trace_row_place(trace, i);
    KC_ASSERT(place.line >= 1 && place.file == 0);
  }
}

/* After each input. */
static inline void fuzz_add_input(bool accepted)
{
  fuzz_count.inputs++;
  fuzz_count.accepted += accepted;
}

#endif
