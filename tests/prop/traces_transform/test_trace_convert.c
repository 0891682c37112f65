/* Random traces written in every format and read again: what the writer says it keeps is kept, to
 * the picosecond, and what it loses it counts. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_trace.h"
#include "traces/transform/trace_export.h"

enum { SEEDS = 150 };

static void write_and_read(const struct kc_trace *trace, enum kc_export_format format,
                           struct kc_trace *read, uint64_t seed)
{
  struct gathered all = {0};
  struct kc_diag diag = {.text = ""};
  struct kc_trace_options options;
  kc_trace_options_default(&options);
  if (kc_trace_export(trace, format, gather, &all, &diag) != KC_OK) {
    fail_msg("seed %" PRIu64 ": %s", seed, diag.text);
  }
  if (kc_trace_parse(read, "written", all.text, all.bytes, &options, &diag) != KC_OK) {
    fail_msg("seed %" PRIu64 ": line %" PRIu64 ": %s\n%.*s", seed, diag.line, diag.text,
             (int)(all.bytes < 3000 ? all.bytes : 3000), all.text);
  }
  free(all.text);
}

/* Whatever a trace holds, our own format keeps it. */
static void own_format_keeps_everything(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct kc_random random;
    struct kc_trace trace, read;
    uint64_t lost[KC_LOSSES];
    kc_random_init(&random, seed, "own format", 0);
    const struct random_shape shape = {
        .tick_ps = 1 + (kc_ps)kc_random_below(&random, 999),
        .sessions = kc_random_chance(&random, 2, 3),
        .links = kc_random_chance(&random, 1, 2),
        .blocks = kc_random_chance(&random, 1, 2),
        .kinds = kc_random_chance(&random, 1, 2),
        .flags = kc_random_chance(&random, 1, 2),
        .block_tokens = 1 + (uint32_t)kc_random_below(&random, 600),
        .tail = kc_random_chance(&random, 1, 2) ? KC_TAIL_CEIL : KC_TAIL_FLOOR};
    random_trace(&trace, &random, &shape);
    assert_true(kc_trace_export_losses(&trace, KC_EXPORT_KVCAP, lost));
    write_and_read(&trace, KC_EXPORT_KVCAP, &read, seed);
    assert_string_equal(read.format, "kvcap-trace");
    assert_same_trace(&trace, &read, seed);
    kc_trace_free(&trace);
    kc_trace_free(&read);
  }
}

struct plain_case {
  enum kc_export_format format;
  const char *name;
  kc_ps tick_ps; /* of the format's clock */
  bool blocks;
};

/* Traces that a format has a place for come back as they were. */
static void other_formats_keep_what_they_can(void **state)
{
  (void)state;
  static const struct plain_case table[] = {
      {KC_EXPORT_AZURE, "azure", 100 * KC_PS_PER_NS, false},
      {KC_EXPORT_VIDUR, "vidur", 1, false},
      {KC_EXPORT_MOONCAKE, "mooncake", KC_PS_PER_MS, true}};
  for (size_t c = 0; c < 3; c++) {
    for (uint64_t seed = 1; seed <= SEEDS / 3; seed++) {
      struct kc_random random;
      struct kc_trace trace, read;
      uint64_t lost[KC_LOSSES];
      kc_random_init(&random, seed, table[c].name, 0);
      const struct random_shape shape = {.tick_ps = table[c].tick_ps, .blocks = table[c].blocks,
                                         .block_tokens = 512, .tail = KC_TAIL_CEIL};
      random_trace(&trace, &random, &shape);
      assert_true(kc_trace_export_losses(&trace, table[c].format, lost));
      write_and_read(&trace, table[c].format, &read, seed);
      assert_string_equal(read.format, table[c].name);
      assert_same_trace(&trace, &read, seed);
      kc_trace_free(&trace);
      kc_trace_free(&read);
    }
  }
}

/* A trace with everything loses what the columns hold, row by row; the rest still comes back. */
static void losses_are_counted(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= SEEDS / 3; seed++) {
    struct kc_random random;
    struct kc_trace trace, read;
    uint64_t lost[KC_LOSSES], links = 0, flags = 0, times = 0;
    kc_random_init(&random, seed, "losses", 0);
    const struct random_shape shape = {.tick_ps = KC_PS_PER_US / 2, .sessions = true, .links = true,
                                       .blocks = true, .kinds = true, .flags = true,
                                       .block_tokens = 64, .tail = KC_TAIL_FLOOR};
    random_trace(&trace, &random, &shape);
    for (uint64_t i = 0; i < trace.count; i++) {
      links += trace.column.after[i] != KC_TRACE_NONE;
      flags += trace.column.flags[i] != 0;
      times += trace.row[i].arrival_ps % KC_PS_PER_MS != 0;
    }
    const bool whole = kc_trace_export_losses(&trace, KC_EXPORT_MOONCAKE, lost);
    assert_false(whole); /* the block size at least */
    assert_int_equal(lost[KC_LOSS_LINKS], links);
    assert_int_equal(lost[KC_LOSS_FLAGS], flags);
    assert_int_equal(lost[KC_LOSS_TIMES], times);
    assert_int_equal(lost[KC_LOSS_IDS], 0);
    assert_int_equal(lost[KC_LOSS_BLOCK_SIZE], 1);
    assert_int_equal(lost[KC_LOSS_TAIL], 1);
    write_and_read(&trace, KC_EXPORT_VIDUR, &read, seed);
    assert_int_equal(read.count, trace.count);
    assert_memory_equal(read.row, trace.row, trace.count * sizeof *trace.row);
    kc_trace_free(&trace);
    kc_trace_free(&read);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(own_format_keeps_everything),
      cmocka_unit_test(other_formats_keep_what_they_can),
      cmocka_unit_test(losses_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
