/* Look-alikes against their sources: rate, CV, the busiest 10 s, p50, p90, p99 of both lengths,
 * correlation and reuse within 5 % (correlations also within 0.01, because a relative distance to 0
 * means nothing). The sources are made here; with KVCAP_SHARED two public traces as well. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "synth_support.h"
#include "traces/transform/trace_stats.h"

static void check_share(const char *what, double got, double wanted, double least)
{
  if (fabs(got - wanted) <= fmax(0.05 * fabs(wanted), least)) return;
  fail_msg("%s is %g, the source has %g", what, got, wanted);
}

static void check_lengths(const char *side, const struct kc_length_stats *got,
                          const struct kc_length_stats *wanted)
{
  check_share(side, (double)got->mean_milli, (double)wanted->mean_milli, 0);
  check_share(side, got->p50, wanted->p50, 1);
  check_share(side, got->p90, wanted->p90, 1);
  check_share(side, got->p99, wanted->p99, 1);
}

static void check_alike(const struct kc_trace *got_trace, const struct kc_trace *wanted_trace)
{
  struct kc_trace_stats got, wanted;
  struct kc_trace_reuse got_reuse, wanted_reuse;
  struct kc_diag diag;
  assert_int_equal(kc_trace_stats_compute(got_trace, &got, &diag), KC_OK);
  assert_int_equal(kc_trace_stats_compute(wanted_trace, &wanted, &diag), KC_OK);
  check_share("rate", (double)got.rate_micro, (double)wanted.rate_micro, 0);
  check_share("gap CV", (double)got.gap_cv_ppm, (double)wanted.gap_cv_ppm, 0);
  check_share("busiest 10 s", (double)got.peak_10s_rows, (double)wanted.peak_10s_rows, 1);
  check_lengths("input", &got.input, &wanted.input);
  check_lengths("output", &got.output, &wanted.output);
  check_share("Pearson", got.pearson_ppm, wanted.pearson_ppm, 10000);
  check_share("Spearman", got.spearman_ppm, wanted.spearman_ppm, 10000);
  if (!wanted_trace->prefix_ids) return;
  assert_int_equal(kc_trace_reuse(got_trace, &got_reuse, &diag), KC_OK);
  assert_int_equal(kc_trace_reuse(wanted_trace, &wanted_reuse, &diag), KC_OK);
  check_share("reuse of blocks", (double)got_reuse.blocks_reused / (double)got_reuse.blocks,
              (double)wanted_reuse.blocks_reused / (double)wanted_reuse.blocks, 0);
  check_share("reuse of tokens", (double)got_reuse.tokens_reused / (double)got_reuse.tokens,
              (double)wanted_reuse.tokens_reused / (double)wanted_reuse.tokens, 0);
}

static void check_like(const struct kc_trace *source, uint64_t seed, uint64_t rows)
{
  struct kc_trace like;
  struct kc_diag diag;
  if (kc_synth_like(&like, source, seed, rows, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (!source->prefix_ids || source->column.flags == NULL) check_trace(&like);
  assert_true(like.count == (rows > 0 ? rows : source->count));
  assert_true(memcmp(like.row, source->row, sizeof *like.row * 100) != 0);
  check_alike(&like, source);
  kc_trace_free(&like);
}

static void test_bursty_rows(void **state)
{
  struct kc_lengths lengths;
  struct kc_trace source;
  struct kc_diag diag;
  (void)state;
  assert_true(kc_lengths_preset(&lengths, "reasoning"));
  lengths.correlation_nano = 600000000;
  const struct kc_synth_spec spec = {.seed = 9, .rows = 20000, .family = KC_GAP_GAMMA,
                                     .shape_nano = 100000000, .lengths = &lengths,
                                     .rate = {.rate_nhz = 3000000000}};
  assert_int_equal(kc_synth_rows(&source, &spec, &diag), KC_OK);
  check_trace(&source);
  for (uint64_t seed = 1; seed <= 5; seed++) check_like(&source, seed, 0);
  check_like(&source, 6, 60000);
  kc_trace_free(&source);
}

static void test_sessions(void **state)
{
  struct kc_lengths lengths;
  struct kc_trace source;
  struct kc_diag diag;
  (void)state;
  assert_true(kc_lengths_preset(&lengths, "agent"));
  const struct kc_synth_spec spec = {
    .seed = 4, .rows = 8000, .family = KC_GAP_POISSON, .lengths = &lengths,
    .rate = {.rate_nhz = 200000000},
    .session = {.turns_nano = 3000000000, .tools_nano = 4000000000, .think_ps = 60 * KC_PS_PER_S,
                .tool_ps = 5 * KC_PS_PER_S, .system_tokens = 8000, .system_prompts = 4,
                .block_tokens = 64, .context_tokens = 100000, .token_ps = 20 * KC_PS_PER_MS}};
  assert_int_equal(kc_synth_sessions(&source, &spec, &diag), KC_OK);
  for (uint64_t seed = 1; seed <= 3; seed++) check_like(&source, seed, 0);
  kc_trace_free(&source);
}

static void test_short_sources(void **state)
{
  struct kc_trace_row rows[2] = {{0, 5, 7}, {3, 6, 0}};
  struct kc_trace source = {.row = rows, .count = 1}, like;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(kc_synth_like(&like, &source, 1, 0, &diag), KC_ERR_INPUT);
  source.count = 2;
  assert_int_equal(kc_synth_like(&like, &source, 1, 5, &diag), KC_OK);
  check_trace(&like);
  assert_true(like.span_ps == 12);
  kc_trace_free(&like);
}

static void check_public(const char *name)
{
  struct kc_trace_options options;
  struct kc_trace source;
  struct kc_diag diag;
  char path[1024];
  if (!shared_path(name, path, sizeof path)) skip();
  kc_trace_options_default(&options);
  if (kc_trace_load(&source, path, &options, &diag) != KC_OK) fail_msg("%s", diag.text);
  for (uint64_t seed = 1; seed <= 5; seed++) check_like(&source, seed, 0);
  kc_trace_free(&source);
}

static void test_azure_conversation(void **state)
{
  (void)state;
  check_public("azure2023/AzureLLMInferenceTrace_conv.csv");
}

static void test_azure_code(void **state)
{
  (void)state;
  check_public("azure2023/AzureLLMInferenceTrace_code.csv");
}

static void test_mooncake_conversation(void **state)
{
  (void)state;
  check_public("mooncake/conversation_trace.jsonl");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bursty_rows),        cmocka_unit_test(test_sessions),
    cmocka_unit_test(test_short_sources),      cmocka_unit_test(test_azure_conversation),
    cmocka_unit_test(test_azure_code),         cmocka_unit_test(test_mooncake_conversation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
