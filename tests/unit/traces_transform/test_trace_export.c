/* The exact text of traces in other tools' formats, and a sink that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "made_trace.h"
#include "traces/transform/trace_export.h"

struct sink {
  char text[4096];
  size_t bytes;
  size_t room; /* more than this fails */
};

static bool take_text(void *context, const char *text, size_t bytes)
{
  struct sink *const sink = context;
  if (sink->bytes + bytes > sink->room) return false;
  memcpy(sink->text + sink->bytes, text, bytes);
  sink->bytes += bytes;
  sink->text[sink->bytes] = '\0';
  return true;
}

static void export_ok(const struct kc_trace *trace, enum kc_export_format format, const char *text)
{
  struct sink sink = {.room = sizeof sink.text - 1};
  assert_int_equal(kc_trace_export(trace, format, take_text, &sink, NULL), KC_OK);
  assert_string_equal(sink.text, text);
}

/* Days 0, 31, 58, 59, 90 and 105 after 1970-01-01, the last at its last second. */
static void azure_dates(void **state)
{
  (void)state;
  static const struct made_row row[] = {
      {0, 1, 2}, {31 * 86400.0, 3, 4}, {58 * 86400.0 + 3.98, 5, 6}, {59 * 86400.0, 7, 8},
      {90 * 86400.0, 9, 10}, {106 * 86400.0 - 1, 4294967295, 12}};
  struct kc_trace trace;
  make_trace(&trace, row, 6);
  export_ok(&trace, KC_EXPORT_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "1970-01-01 00:00:00.0000000,1,2\n"
            "1970-02-01 00:00:00.0000000,3,4\n"
            "1970-02-28 00:00:03.9800000,5,6\n"
            "1970-03-01 00:00:00.0000000,7,8\n"
            "1970-04-01 00:00:00.0000000,9,10\n"
            "1970-04-16 23:59:59.0000000,4294967295,12\n");
  kc_trace_free(&trace);
}

/* Ticks of 100 ns, half up; a carry goes through to the day. */
static void azure_rounds(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 1}, {1, 1, 1}};
  struct kc_trace trace;
  uint64_t lost[KC_LOSSES];
  make_trace(&trace, row, 2);
  trace.row[1].arrival_ps = 86400 * KC_PS_PER_S - 50 * KC_PS_PER_NS;
  assert_false(kc_trace_export_losses(&trace, KC_EXPORT_AZURE, lost));
  assert_int_equal(lost[KC_LOSS_TIMES], 1);
  export_ok(&trace, KC_EXPORT_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "1970-01-01 00:00:00.0000000,1,1\n"
            "1970-01-02 00:00:00.0000000,1,1\n");
  kc_trace_free(&trace);
}

static void vidur_seconds(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 2}, {1.5, 3, 4}, {2, 5, 6}};
  struct kc_trace trace;
  make_trace(&trace, row, 3);
  trace.row[2].arrival_ps += 1; /* no digit is lost */
  export_ok(&trace, KC_EXPORT_VIDUR, "arrived_at,num_prefill_tokens,num_decode_tokens\n"
            "0,1,2\n1.5,3,4\n2.000000000001,5,6\n");
  kc_trace_free(&trace);
}

static void mooncake_ids(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 600, 2}, {1.5, 40, 4}};
  static const uint32_t id[] = {0, 1}, count[] = {2, 0};
  struct kc_trace trace;
  uint64_t lost[KC_LOSSES];
  make_trace(&trace, row, 2);
  make_blocks(&trace, id, count, 2, 512, KC_TAIL_CEIL);
  assert_true(kc_trace_export_losses(&trace, KC_EXPORT_MOONCAKE, lost));
  assert_false(kc_trace_export_losses(&trace, KC_EXPORT_VIDUR, lost));
  assert_int_equal(lost[KC_LOSS_IDS], 1);
  export_ok(&trace, KC_EXPORT_MOONCAKE,
            "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2, "
            "\"hash_ids\": [0, 1]}\n"
            "{\"timestamp\": 1500, \"input_length\": 40, \"output_length\": 4, "
            "\"hash_ids\": []}\n");
  kc_trace_free(&trace);
}

static void full_sink_is_an_error(void **state)
{
  (void)state;
  static const struct made_row row[] = {{0, 1, 2}};
  struct kc_trace trace;
  struct kc_diag diag;
  make_trace(&trace, row, 1);
  for (int format = KC_EXPORT_KVCAP; format <= KC_EXPORT_MOONCAKE; format++) {
    const enum kc_export_format target = (enum kc_export_format)format;
    struct sink sink = {.room = 10};
    assert_int_equal(kc_trace_export(&trace, target, take_text, &sink, &diag), KC_ERR_FILE);
  }
  kc_trace_free(&trace);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(azure_dates),
      cmocka_unit_test(azure_rounds),
      cmocka_unit_test(vidur_seconds),
      cmocka_unit_test(mooncake_ids),
      cmocka_unit_test(full_sink_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
