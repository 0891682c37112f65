/* The step model against arithmetic done here from published shapes and rates, in floating point
 * and in another order: Llama 3.1 8B (32 layers, hidden 4096, 32 + 2 x 8 heads of 128, MLP 14336,
 * vocabulary 128256, untied) in BF16 on H200 (4.8 TB/s, 989.4 TFLOP/s) with efficiencies 0.8 and
 * 0.6 and 3 us an operation; and the experts of Kimi K2 (384, 8 per token). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/cost/cost.h"

static const double byte_rate = 0.8 * 4.8e12;
static const double flop_rate = 0.6 * 989.4e12;
static const double latency_s = 3e-6;

enum { LAYERS = 32, HIDDEN = 4096, KV = 1024, MLP = 14336, VOCABULARY = 128256 };

struct fixture {
  struct kc_model model;
  struct kc_gpu gpu;
  struct kc_precision precision;
  struct kc_cost cost;
};

static void load(struct fixture *f, const char *model, const char *gpu, uint32_t tensor,
                 enum kc_integrity integrity)
{
  char path[512];
  struct kc_diag diag = {0};
  const char *source = getenv("KVCAP_SOURCE");
  if (source == NULL) source = KVCAP_SOURCE_DIR;
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", source, model);
  if (kc_model_load(&f->model, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  snprintf(path, sizeof path, "%s/scenarios/gpus/%s.yaml", source, gpu);
  if (kc_gpu_load(&f->gpu, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  kc_precision_default(&f->precision);
  struct kc_cost_config config = {.model = &f->model, .precision = &f->precision, .gpu = &f->gpu,
                                  .profile = kc_gpu_profile_find(&f->gpu, "plain"),
                                  .tensor = tensor, .pipeline = 1, .integrity = integrity};
  assert_non_null(config.profile);
  config.cap_count = kc_cost_caps(&f->model, config.cap);
  if (kc_cost_build(&f->cost, &config, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void assert_close(double measured_s, double expected_s, double tolerance)
{
  const double error = measured_s / expected_s - 1.0;
  if (fabs(error) > tolerance) {
    fail_msg("step takes %.9f s, expected %.9f s, error %+.3g", measured_s, expected_s, error);
  }
}

/* One product of m tokens: weights and activations once, or the arithmetic if that takes longer. */
static double product_s(double rows, double cols, double m)
{
  const double bytes = 2.0 * (rows * cols + m * (rows + cols));
  return latency_s + fmax(bytes / byte_rate, 2.0 * rows * cols * m / flop_rate);
}

static double dense_s(double m, double logits)
{
  const double layer = product_s(HIDDEN + 2 * KV, HIDDEN, m) + product_s(HIDDEN, HIDDEN, m) +
                       product_s(2 * MLP, HIDDEN, m) + product_s(HIDDEN, MLP, m) +
                       2 * (latency_s + m * 4.0 * HIDDEN / byte_rate);
  const double embedding = latency_s + m * 4.0 * HIDDEN / byte_rate;
  return LAYERS * layer + embedding + product_s(VOCABULARY, HIDDEN, logits);
}

static double attention_s(double bytes_tokens, double pairs)
{
  const double bytes = bytes_tokens * 2.0 * KV * 2.0;
  const double flops = pairs * 32 * 2.0 * (128 + 128);
  return LAYERS * (latency_s + fmax(bytes / byte_rate, flops / flop_rate));
}

static double step_s(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  return (double)kc_cost_step(cost, sum) / 1e12;
}

static void decode_of_an_8b(void **state)
{
  struct fixture *f = *state;
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_OFF);
  const struct {
    uint32_t batch;
    uint64_t context;
  } rows[] = {{1, 100}, {16, 16 * 900}, {256, 256 * 2000}, {1024, 1024 * 300}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct kc_aggregates sum = {.decodes = rows[i].batch, .logits = rows[i].batch,
                                      .decode_context = rows[i].context};
    const double b = rows[i].batch;
    const double expected = dense_s(b, b) + attention_s((double)rows[i].context + b,
                                                        (double)rows[i].context);
    assert_close(step_s(&f->cost, &sum), expected, 1e-6);
  }
}

static void prefill_of_an_8b(void **state)
{
  struct fixture *f = *state;
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_OFF);
  const double n = 8192, start = 4096;
  const struct kc_aggregates sum = {.chunks = 1,
                                    .prefill_tokens = 8192,
                                    .prefill_pairs = 8192ull * 4096 + 8192ull * 8193 / 2,
                                    .prefill_context = 4096 + 8192};
  const double expected = dense_s(n, 0) - product_s(VOCABULARY, HIDDEN, 0) +
                          attention_s(start + 2 * n, n * start + n * (n + 1) / 2);
  assert_close(step_s(&f->cost, &sum), expected, 1e-6);
}

static void integrity_is_one_small_operation(void **state)
{
  struct fixture *f = *state;
  const struct kc_aggregates sum = {.decodes = 64, .logits = 64, .decode_context = 64 * 8192,
                                    .table_entries = 64 * 512};
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_OFF);
  const double without = step_s(&f->cost, &sum);
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_BATCHED);
  assert_close(step_s(&f->cost, &sum) - without, latency_s + 64 * 512 * 16.0 / byte_rate, 1e-5);
}

/* 8 GPUs: 1/8 of the weights each, and 64 all-reduces of 2 x 7/8 of the message. */
static void tensor_parallel_divides_and_reduces(void **state)
{
  struct fixture *f = *state;
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_OFF);
  const struct kc_aggregates sum = {.decodes = 8, .logits = 8, .decode_context = 8 * 4000};
  const double one = step_s(&f->cost, &sum);
  load(f, "llama-3.1-8b", "h200", 8, KC_INTEGRITY_OFF);
  const double eight = step_s(&f->cost, &sum);
  const double operations = 7 * LAYERS + 2;
  const double reduce = 2 * LAYERS * (f->gpu.link_latency_us * 1e-6 +
                                      8 * 2.0 * 7 / 8 * 2 * HIDDEN / f->gpu.link_bandwidth);
  const double divided = (one - operations * latency_s) / 8;
  /* Inputs of split products are whole on every rank, so a little more than 1/8 remains. */
  assert_true(eight > divided + operations * latency_s + reduce);
  assert_close(eight, divided + operations * latency_s + reduce, 0.01);
}

static void coverage_of_experts(void **state)
{
  (void)state;
  const uint64_t tokens[] = {1, 2, 8, 16, 64, 1000, 8192};
  for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
    const long double miss = powl(1.0L - 8.0L / 384.0L, (long double)tokens[i]);
    const double expected = (double)(384.0L * (1.0L - miss));
    const double covered = (double)kc_cost_coverage_q32(384, 8, tokens[i]) / 4294967296.0;
    assert_close(covered, expected, 1e-9);
  }
  assert_int_equal(kc_cost_coverage_q32(384, 8, 1), (uint64_t)8 << 32);
  assert_int_equal(kc_cost_coverage_q32(0, 0, 7), 0);
}

/* More of anything never makes a step shorter. */
static void steps_are_monotone(void **state)
{
  struct fixture *f = *state;
  const char *const models[] = {"kimi-k2.6", "glm-5.2", "gpt-oss-120b", "llama-4-scout"};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    load(f, models[i], "h200", 8, KC_INTEGRITY_BATCHED);
    kc_ps before = 0;
    for (uint32_t batch = 1; batch <= 4096; batch *= 2) {
      struct kc_aggregates sum = {.decodes = batch, .logits = batch,
                                  .decode_context = (uint64_t)batch * 5000,
                                  .table_entries = (uint64_t)batch * 79};
      for (int cap = 0; cap < KC_CAPS_MAX; cap++) sum.decode_capped[cap] = (uint64_t)batch * 128;
      const kc_ps step = kc_cost_step(&f->cost, &sum);
      assert_true(step > before);
      sum.decode_context += 100;
      assert_true(kc_cost_step(&f->cost, &sum) >= step);
      before = step;
    }
  }
}

static void what_cannot_be_predicted_is_refused(void **state)
{
  struct fixture *f = *state;
  load(f, "llama-3.1-8b", "h200", 1, KC_INTEGRITY_OFF);
  struct kc_diag diag = {0};
  struct kc_cost_config config = {.model = &f->model, .precision = &f->precision, .gpu = &f->gpu,
                                  .profile = kc_gpu_profile_find(&f->gpu, "plain"),
                                  .tensor = 1, .pipeline = 2};
  assert_int_equal(kc_cost_build(&f->cost, &config, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "pipeline is 2"));
}

/* Steps that made a range lie within it, and one request, token or token of context more does not.
 * Means of contexts are not whole: 205 over 2 lies between 102 and 103. */
static void a_range_holds_the_steps_that_made_it(void **state)
{
  (void)state;
  const struct kc_aggregates few = {.decodes = 2, .decode_context = 205};
  const struct kc_aggregates many = {.decodes = 5, .decode_context = 2000, .chunks = 1,
                                     .prefill_tokens = 300};
  struct kc_aggregates other = many;
  struct kc_cost cost = {0};
  struct kc_cost_range half = {0};
  uint64_t kernels = 0;
  assert_false(kc_cost_outside(&cost, &many, &kernels)); /* no range, no bound */
  kc_cost_range_add(&cost.range, &few);
  assert_true(kc_cost_outside(&cost, &many, &kernels));
  kc_cost_range_add(&half, &many);
  kc_cost_range_join(&cost.range, &half);
  assert_false(kc_cost_outside(&cost, &few, &kernels));
  assert_false(kc_cost_outside(&cost, &many, &kernels));
  assert_true(cost.range.tokens_min == 2 && cost.range.tokens_max == 305);
  assert_true(cost.range.sequences_min == 2 && cost.range.sequences_max == 6);
  assert_true(cost.range.context_min == 102 && cost.range.context_max == 400);
  other.decodes = 6; /* 7 requests, fewer tokens */
  other.prefill_tokens = 10;
  assert_true(kc_cost_outside(&cost, &other, &kernels));
  other = many;
  other.prefill_tokens = 301;
  assert_true(kc_cost_outside(&cost, &other, &kernels));
  other = many;
  other.decode_context = 2001;
  assert_true(kc_cost_outside(&cost, &other, &kernels));
}

static int set_up(void **state)
{
  *state = calloc(1, sizeof(struct fixture));
  return *state == NULL;
}

static int tear_down(void **state)
{
  free(*state);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(decode_of_an_8b, set_up, tear_down),
      cmocka_unit_test_setup_teardown(prefill_of_an_8b, set_up, tear_down),
      cmocka_unit_test_setup_teardown(integrity_is_one_small_operation, set_up, tear_down),
      cmocka_unit_test_setup_teardown(tensor_parallel_divides_and_reduces, set_up, tear_down),
      cmocka_unit_test(coverage_of_experts),
      cmocka_unit_test(a_range_holds_the_steps_that_made_it),
      cmocka_unit_test_setup_teardown(steps_are_monotone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_cannot_be_predicted_is_refused, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
