/* Memory that runs out while sessions and logs are read: each fault alone must end the load with
 * one error, and leave nothing behind (the address sanitizer watches). Skipped (77) in builds
 * without fault points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reader_text.h"

#ifdef KC_FAULTS

#define WEKA                                                                                    \
  "{\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":["                                \
  "{\"t\":5,\"model\":\"m\",\"in\":128,\"out\":1,\"hash_ids\":[1,2]},"                            \
  "{\"t\":4,\"model\":\"m\",\"in\":64,\"out\":1,\"hash_ids\":[1]}]}\n"
#define BURSTGPT                                                                                \
  "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"        \
  "Log Type\n9,a,1,GPT-4,1,0,1,API log\n5,b,1,GPT-4,1,1,2,API log\n"
#define TRACELAB                                                                                \
  "session_id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"                   \
  "a,0,0,5,6,7\na,1,1,5,6,7\n"
#define LLMSERVINGSIM                                                                           \
  "{\"session_id\":\"s\",\"arrival_time_ns\":5,\"sub_requests\":["                               \
  "{\"input_toks\":1,\"output_toks\":1},{\"input_toks\":2,\"output_toks\":1}]}\n"

/* The fault, and a text whose reading meets it. */
static const struct {
  const char *fault, *text;
} cases[] = {
    {"trace_rows_memory", WEKA},        {"trace_rows_memory", BURSTGPT},
    {"trace_rows_memory", TRACELAB},    {"trace_rows_memory", LLMSERVINGSIM},
    {"trace_intern_memory", WEKA},      {"trace_intern_memory", BURSTGPT},
    {"trace_intern_memory", TRACELAB},  {"trace_intern_memory", LLMSERVINGSIM},
    {"trace_blocks_memory", WEKA},      {"trace_sessions_memory", WEKA},
    {"trace_sessions_memory", TRACELAB},{"trace_order_memory", WEKA},
    {"trace_order_memory", BURSTGPT},   {"trace_order_memory", TRACELAB},
    {"trace_rounds_memory", TRACELAB},  {"trace_rounds_memory", LLMSERVINGSIM},
    {"trace_weka_memory", WEKA},        {"trace_kind_memory", BURSTGPT},
};

static void memory_failures_are_errors(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *const text = cases[i].text;
    struct kc_trace_options options;
    struct kc_trace trace;
    struct kc_diag diag;
    kc_trace_options_default(&options);
    options.zero_output = KC_ZERO_OUTPUT_FLOOR;
    setenv("KVCAP_FAULT", cases[i].fault, 1);
    const enum kc_err result = kc_trace_parse(&trace, "t", text, strlen(text), &options, &diag);
    unsetenv("KVCAP_FAULT");
    const bool right = result == KC_ERR_MEMORY && trace.row == NULL &&
                       strncmp(diag.text, "out of memory: ", 15) == 0;
    if (!right) print_error("%s, case %zu: code %d\n", cases[i].fault, i, (int)result);
    wrong += !right;
    kc_trace_free(&trace);
    assert_int_equal(kc_trace_parse(&trace, "t", text, strlen(text), &options, &diag), KC_OK);
    kc_trace_free(&trace);
  }
  assert_int_equal(wrong, 0);
}
#endif

int main(void)
{
#ifdef KC_FAULTS
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_failures_are_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
#else
  return 77;
#endif
}
