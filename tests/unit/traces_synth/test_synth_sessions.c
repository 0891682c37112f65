/* Sessions and agents: what a prompt carries, what is shared, who waits for whom, and the means. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "synth_support.h"

static struct kc_trace make(const struct kc_synth_spec *spec)
{
  struct kc_trace trace;
  struct kc_diag diag;
  if (kc_synth_sessions(&trace, spec, &diag) != KC_OK) fail_msg("%s", diag.text);
  check_trace(&trace);
  return trace;
}

static const uint32_t *ids_of(const struct kc_trace *trace, uint64_t row)
{
  return trace->block + trace->column.block_first[row];
}

/* The row's ids start with as many ids of the other row as both have whole blocks in common. */
static void check_same_start(const struct kc_trace *trace, uint64_t row, uint64_t other,
                             uint32_t blocks)
{
  for (uint32_t k = 0; k < blocks; k++) {
    if (ids_of(trace, row)[k] == ids_of(trace, other)[k]) continue;
    fail_msg("rows %llu and %llu differ in block %u of %u", (unsigned long long)row,
             (unsigned long long)other, k, blocks);
  }
}

static void test_prompts_accumulate(void **state)
{
  struct kc_lengths lengths;
  struct kc_diag diag;
  (void)state;
  assert_int_equal(kc_lengths_fixed(&lengths, 100, 30, &diag), KC_OK);
  const struct kc_synth_spec spec = {
    .seed = 11, .rows = 3000, .family = KC_GAP_POISSON, .lengths = &lengths,
    .rate = {.rate_nhz = 1000000000},
    .session = {.turns_nano = 6000000000, .think_ps = 10 * KC_PS_PER_S, .system_tokens = 1000,
                .system_prompts = 1, .block_tokens = 64, .token_ps = KC_PS_PER_MS}};
  struct kc_trace trace = make(&spec);
  assert_true(trace.count == 3000);
  for (uint64_t i = 0; i < trace.count; i++) {
    const uint32_t after = trace.column.after[i];
    assert_int_equal(trace.column.flags[i], 0);
    check_same_start(&trace, i, 0, 1000 / 64); /* the system prompt, whole blocks of it */
    if (after == KC_TRACE_NONE) {
      assert_int_equal(trace.row[i].input_tokens, 1100);
      assert_true(trace.column.wait_ps[i] == 0);
      assert_true(i == 0 || ids_of(&trace, i)[1000 / 64] != ids_of(&trace, 0)[1000 / 64]);
      continue;
    }
    assert_int_equal(trace.row[i].input_tokens, trace.row[after].input_tokens + 130);
    assert_true(trace.row[i].arrival_ps ==
                trace.row[after].arrival_ps + 30 * KC_PS_PER_MS + trace.column.wait_ps[i]);
    check_same_start(&trace, i, after, trace.row[after].input_tokens / 64);
  }
  kc_trace_free(&trace);
  kc_lengths_free(&lengths);
}

/* 4 turns of 1 + 2 steps: 12 rows a session; waits average to their mean; prompts 1 : 1/2 : 1/3. */
static void test_means(void **state)
{
  struct kc_lengths lengths;
  struct kc_diag diag;
  double wait = 0, waits = 0, first[3] = {0};
  uint32_t prompt_id[3];
  (void)state;
  assert_int_equal(kc_lengths_fixed(&lengths, 10, 10, &diag), KC_OK);
  struct kc_synth_spec spec = {
    .seed = 5, .rows = 60000, .family = KC_GAP_POISSON, .lengths = &lengths,
    .rate = {.rate_nhz = 1000000000},
    .session = {.turns_nano = 4000000000, .tools_nano = 2000000000, .think_ps = 20 * KC_PS_PER_S,
                .tool_ps = 20 * KC_PS_PER_S, .system_tokens = 64, .system_prompts = 3,
                .block_tokens = 64}};
  struct kc_trace trace = make(&spec);
  NEAR((double)trace.count / trace.session_count, 12, 1.0);
  unsigned known = 0;
  for (uint64_t i = 0; i < trace.count; i++) {
    if (trace.column.after[i] != KC_TRACE_NONE) {
      wait += (double)trace.column.wait_ps[i] * 1e-12;
      waits++;
      continue;
    }
    unsigned p = 0;
    while (p < known && prompt_id[p] != ids_of(&trace, i)[0]) p++;
    assert_true(p < 3);
    if (p == known) prompt_id[known++] = ids_of(&trace, i)[0];
    first[p]++;
  }
  NEAR(wait / waits, 20, 0.5);
  assert_int_equal(known, 3);
  const double most = fmax(first[0], fmax(first[1], first[2]));
  const double least = fmin(first[0], fmin(first[1], first[2]));
  NEAR(most / trace.session_count, 6.0 / 11, 0.03);
  NEAR(least / trace.session_count, 2.0 / 11, 0.03);
  kc_trace_free(&trace);
  kc_lengths_free(&lengths);
}

/* Limit 1,000: compacted to 200 + 125 + the new 100. Ids after the system prompt start afresh. */
static void test_compaction(void **state)
{
  struct kc_lengths lengths;
  struct kc_diag diag;
  uint64_t compacted = 0;
  (void)state;
  assert_int_equal(kc_lengths_fixed(&lengths, 100, 50, &diag), KC_OK);
  const struct kc_synth_spec spec = {
    .seed = 2, .rows = 2000, .family = KC_GAP_CONSTANT, .lengths = &lengths,
    .rate = {.rate_nhz = 1000000000},
    .session = {.turns_nano = 30000000000, .system_tokens = 200, .system_prompts = 1,
                .block_tokens = 10, .context_tokens = 1000}};
  struct kc_trace trace = make(&spec);
  for (uint64_t i = 0; i < trace.count; i++) {
    const uint32_t after = trace.column.after[i];
    assert_true(trace.row[i].input_tokens <= 1000);
    if (trace.column.flags[i] == 0) continue;
    assert_int_equal(trace.column.flags[i], KC_ROW_COMPACTED);
    assert_int_equal(trace.row[i].input_tokens, 425);
    assert_true(trace.row[after].input_tokens + 150 > 1000);
    check_same_start(&trace, i, after, 20);
    assert_true(ids_of(&trace, i)[20] != ids_of(&trace, after)[20]);
    compacted++;
  }
  assert_true(compacted > 100);
  kc_trace_free(&trace);
  kc_lengths_free(&lengths);
}

/* Nothing recorded at or after the duration; another seed, another trace; no ids when not asked. */
static void test_duration_and_seed(void **state)
{
  struct kc_lengths lengths;
  char one[65], same[65], other[65];
  (void)state;
  assert_true(kc_lengths_preset(&lengths, "agent"));
  struct kc_synth_spec spec = {
    .seed = 1, .duration_ps = 600 * KC_PS_PER_S, .family = KC_GAP_POISSON, .lengths = &lengths,
    .rate = {.rate_nhz = 1000000000},
    .session = {.turns_nano = 3000000000, .tools_nano = 4000000000, .think_ps = 60 * KC_PS_PER_S,
                .tool_ps = 5 * KC_PS_PER_S, .system_prompts = 1,
                .token_ps = 20 * KC_PS_PER_MS}};
  struct kc_trace trace = make(&spec);
  assert_true(trace.span_ps < spec.duration_ps && !trace.prefix_ids);
  digest_trace(&trace, one);
  kc_trace_free(&trace);
  trace = make(&spec);
  digest_trace(&trace, same);
  kc_trace_free(&trace);
  spec.seed = 2;
  trace = make(&spec);
  digest_trace(&trace, other);
  kc_trace_free(&trace);
  assert_string_equal(one, same);
  assert_string_not_equal(one, other);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_prompts_accumulate), cmocka_unit_test(test_means),
    cmocka_unit_test(test_compaction), cmocka_unit_test(test_duration_and_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
