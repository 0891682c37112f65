/* The tables of step times against the kernels asked one by one, in floating point and without a
 * table: Llama 3.1 8B (32 layers, hidden 4096, 32 + 2 x 8 heads of 128, MLP 14336, vocabulary
 * 128256) and Mixtral 8x7B (8 experts, 2 a token, of 14336). The kernels are those of a datasheet,
 * so the test needs no measurement. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "sim/cost/cost_tables.h"

enum { LAYERS = 32, HIDDEN = 4096, KV = 1024, MLP = 14336, VOCABULARY = 128256 };

struct fixture {
  struct kc_model model;
  struct kc_gpu gpu;
  struct kc_gpu_profile entry;
  struct kc_precision precision;
  struct kc_profile *kernels;
  struct kc_device device;
  struct kc_cost cost;
};

static const char *source_folder(void)
{
  const char *source = getenv("KVCAP_SOURCE");
  return source != NULL ? source : KVCAP_SOURCE_DIR;
}

static void build(struct fixture *f, const char *model, uint32_t tensor, double skew)
{
  char path[512];
  struct kc_diag diag = {0};
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", source_folder(), model);
  if (kc_model_load(&f->model, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  snprintf(path, sizeof path, "%s/scenarios/gpus/h200.yaml", source_folder());
  if (kc_gpu_load(&f->gpu, path, &diag) != KC_OK) fail_msg("%s", diag.text);
  assert_true(kc_gpu_profile_variant(&f->gpu, "plain", &f->entry));
  kc_precision_default(&f->precision);
  if (kc_profile_datasheet(&f->kernels, &f->entry, &diag) != KC_OK) fail_msg("%s", diag.text);
  f->device = kc_device_of(&f->gpu);
  struct kc_cost_config config = {
      .model = &f->model, .precision = &f->precision, .gpu = &f->gpu, .profile = &f->entry,
      .tensor = tensor, .pipeline = 1, .integrity = KC_INTEGRITY_OFF, .kernels = f->kernels,
      .tokens_max = 16384, .sequences_max = 1024, .context_max = 131072, .moe_skew = skew};
  config.cap_count = kc_cost_caps(&f->model, config.cap);
  if (kc_cost_build(&f->cost, &config, &diag) != KC_OK) fail_msg("%s", diag.text);
}

static void drop(struct fixture *f)
{
  kc_cost_free(&f->cost);
  kc_profile_destroy(f->kernels);
}

static double ask(const struct fixture *f, enum kc_family family, struct kc_shape shape)
{
  return kc_profile_time(f->kernels, &f->device, family, &shape).us;
}

static double gemm(const struct fixture *f, double m, double n, double k)
{
  return ask(f, KC_FAMILY_GEMM_BF16, (struct kc_shape){.m = m, .n = n, .k = k});
}

/* Small kernels: a latency and their bytes at 0.8 of 4.8 TB/s. */
static double small_us(const struct fixture *f, double bytes)
{
  return f->entry.op_latency_us + bytes / (0.8 * 4.8e12) * 1e6;
}

static double dense_us(const struct fixture *f, double m, double logits)
{
  const double layer = gemm(f, m, HIDDEN + 2 * KV, HIDDEN) + gemm(f, m, HIDDEN, HIDDEN) +
                       gemm(f, m, 2 * MLP, HIDDEN) + gemm(f, m, HIDDEN, MLP) +
                       2 * small_us(f, m * 8.0 * HIDDEN) + small_us(f, m * 4.0 * HIDDEN) +
                       small_us(f, m * 6.0 * MLP);
  return LAYERS * layer + small_us(f, m * 8.0 * HIDDEN) + small_us(f, m * 4.0 * HIDDEN) +
         gemm(f, logits, VOCABULARY, HIDDEN);
}

static double decode_us(const struct fixture *f, double batch, double context)
{
  return LAYERS * ask(f, KC_FAMILY_GQA_DECODE_BF16,
                      (struct kc_shape){.batch = batch, .context = context, .heads = 32,
                                        .kv_heads = 8, .head_dim = 128});
}

static double prefill_us(const struct fixture *f, double tokens, double context)
{
  return LAYERS * ask(f, KC_FAMILY_GQA_PREFILL_BF16,
                      (struct kc_shape){.batch = 1, .tokens = tokens, .context = context,
                                        .heads = 32, .kv_heads = 8, .head_dim = 128});
}

static double step_us(const struct fixture *f, const struct kc_aggregates *sum)
{
  return (double)kc_cost_step(&f->cost, sum) / 1e6;
}

/* Kernels work in tiles, so their time jumps where a tile more is needed; in the one interval of a
 * table that holds such a jump it is rounded off. `odd` counts those. */
static void count_close(uint64_t seed, double seen, double expected, double percent, uint32_t *odd)
{
  const double away = fabs(seen / expected - 1) * 100;
  if (away > percent) (*odd)++;
  if (away > 10) {
    fail_msg("draw %llu: %.6f us, expected %.6f", (unsigned long long)seed, seen, expected);
  }
}

static void assert_close(uint64_t seed, double seen, double expected, double percent)
{
  if (fabs(seen / expected - 1) * 100 > percent) {
    fail_msg("draw %llu: %.6f us, expected %.6f within %g %%", (unsigned long long)seed, seen,
             expected, percent);
  }
}

static void scales_hold_every_number(void **state)
{
  (void)state;
  for (unsigned bits = 2; bits <= 3; bits++) {
    uint64_t last = 0;
    for (uint32_t i = 1; i < 190; i++) {
      const uint64_t knot = kc_scale_knot(bits, i);
      assert_true(knot > last);
      assert_int_equal(kc_scale_index(bits, knot), i);
      assert_int_equal(kc_scale_index(bits, knot - 1), i - 1);
      last = knot;
    }
  }
  assert_int_equal(kc_scale_knot(3, 16), 16);
  assert_int_equal(kc_scale_knot(3, 17), 18);  /* 8 an octave: 16, 18, 20, ... */
  assert_int_equal(kc_scale_knot(2, 8), 8);
  assert_int_equal(kc_scale_knot(2, 9), 10);   /* 4 an octave: 8, 10, 12, 14, 16 */
}

static void decodes_match_the_kernels(void **state)
{
  struct fixture *f = *state;
  struct kc_random random;
  uint32_t odd = 0;
  kc_random_init(&random, 7, "tables", 0);
  build(f, "llama-3.1-8b", 1, 0);
  for (uint64_t draw = 0; draw < 300; draw++) {
    const uint32_t batch = 1 + (uint32_t)kc_random_below(&random, draw % 2 ? 1024 : 16);
    const uint64_t mean = 1 + kc_random_below(&random, draw % 3 ? 8000 : 131000);
    const struct kc_aggregates sum = {.decodes = batch, .logits = batch,
                                      .decode_context = batch * mean, .decode_context_max = mean};
    const double expected = dense_us(f, batch, batch) + decode_us(f, batch, (double)mean);
    count_close(draw, step_us(f, &sum), expected, 1, &odd);
  }
  print_message("%u draws lie in an interval with a jump\n", odd);
  assert_true(odd <= 9); /* of 300 */
  drop(f);
}

static void prompts_and_mixtures_match_the_kernels(void **state)
{
  struct fixture *f = *state;
  struct kc_random random;
  uint32_t odd = 0;
  kc_random_init(&random, 8, "tables", 0);
  build(f, "llama-3.1-8b", 1, 0);
  for (uint64_t draw = 0; draw < 300; draw++) {
    const uint64_t tokens = 1 + kc_random_below(&random, draw % 2 ? 8192 : 600);
    const uint64_t past = draw % 3 ? 0 : kc_random_below(&random, 60000);
    const uint32_t batch = draw % 5 ? 0 : 1 + (uint32_t)kc_random_below(&random, 200);
    const struct kc_aggregates sum = {
        .decodes = batch, .logits = batch + 1, .chunks = 1, .decode_context = batch * 900,
        .decode_context_max = batch > 0 ? 900 : 0, .prefill_tokens = tokens,
        .prefill_context = past + tokens,
        .prefill_pairs = tokens * past + tokens * (tokens + 1) / 2};
    const double all = (double)tokens + batch;
    const double expected = dense_us(f, all, batch + 1.0) + prefill_us(f, (double)tokens,
                            (double)(past + tokens)) + (batch > 0 ? decode_us(f, batch, 900) : 0);
    count_close(draw, step_us(f, &sum), expected, 1.5, &odd);
  }
  print_message("%u draws lie in an interval with a jump\n", odd);
  assert_true(odd <= 15); /* of 300 */
  drop(f);
}

/* The launch takes as long as its longest sequence alone, at least; and never less than equal
 * contexts of the same sum. */
static void unequal_contexts_cost_more(void **state)
{
  struct fixture *f = *state;
  build(f, "llama-3.1-8b", 1, 0);
  struct kc_aggregates sum = {.decodes = 4, .logits = 4, .decode_context = 4 * 1000,
                              .decode_context_max = 1000};
  const double equal = step_us(f, &sum);
  sum.decode_context_max = 3997;
  const double unequal = step_us(f, &sum);
  assert_true(unequal >= equal);
  sum.decode_context = 100003;
  sum.decode_context_max = 100000;
  const double alone = LAYERS * ask(f, KC_FAMILY_GQA_DECODE_BF16,
                                    (struct kc_shape){.batch = 1, .context = 100000, .heads = 32,
                                                      .kv_heads = 8, .head_dim = 128});
  assert_true(step_us(f, &sum) >= dense_us(f, 4, 4) + alone * 0.98);
  drop(f);
}

static void every_figure_of_a_datasheet_is_outside(void **state)
{
  struct fixture *f = *state;
  uint64_t kernels = 0;
  build(f, "llama-3.1-8b", 2, 0);
  const struct kc_aggregates sum = {.decodes = 4, .logits = 4, .decode_context = 4000,
                                    .decode_context_max = 1000};
  assert_true(kc_cost_outside(&f->cost, &sum, &kernels));
  assert_true((kernels >> KC_FAMILY_GEMM_BF16 & 1) != 0);
  drop(f);
}

static void host_terms_are_added(void **state)
{
  struct fixture *f = *state;
  build(f, "llama-3.1-8b", 1, 0);
  const struct kc_aggregates sum = {.decodes = 4, .logits = 4, .decode_context = 4000,
                                    .decode_context_max = 1000};
  const double plain = step_us(f, &sum);
  const uint64_t us = (uint64_t)1000000 << KC_COST_FRACTION_BITS;
  f->cost.host_step = 100 * us;
  f->cost.host_sequence = 10 * us;
  assert_close(1, step_us(f, &sum), plain + 100 + 4 * 10, 1e-6);
  f->cost.eager_floor = 50000 * us; /* launches take 50 ms: longer than the kernels */
  f->cost.graph_tokens = 4;
  assert_close(2, step_us(f, &sum), plain + 140, 1e-6); /* a graph */
  f->cost.graph_tokens = 3;
  assert_close(3, step_us(f, &sum), 50000 + 140, 1e-6);
  f->cost.scale_q16 = 2 << 16;
  f->cost.eager_floor = 0;
  assert_close(4, step_us(f, &sum), 2 * plain + 140, 1e-6);
  drop(f);
}

/* Distinct experts by libm, from the definition: popularity i^-s, none above 1. */
static double expected_coverage(uint32_t experts, uint32_t per_token, double skew, double tokens)
{
  double q[512], weight_left = 0, share_left = per_token, covered = 0;
  for (uint32_t i = 0; i < experts; i++) {
    q[i] = pow(i + 1.0, -skew);
    weight_left += q[i];
  }
  for (uint32_t i = 0; i < experts; i++) {
    const double weight = q[i];
    q[i] = fmin(1.0, share_left * weight / weight_left);
    weight_left -= weight;
    share_left -= q[i];
    covered += 1 - pow(1 - q[i], tokens);
  }
  return covered;
}

static void skewed_routing_reads_fewer_experts(void **state)
{
  (void)state;
  uint64_t table[KC_COVERAGE_KNOTS];
  kc_coverage_skewed(table, 256, 8, 0);
  for (uint64_t tokens = 1; tokens < 5000; tokens = tokens * 3 / 2 + 1) {
    const double balanced = (double)kc_cost_coverage_q32(256, 8, tokens) / 4294967296.0;
    const double flat = (double)kc_coverage_look(table, tokens) / 4294967296.0;
    assert_close(tokens, flat, balanced, 0.3); /* between knots a chord */
  }
  kc_coverage_skewed(table, 384, 8, 1.2);
  double last = 0;
  for (uint64_t tokens = 1; tokens < 100000; tokens = tokens * 3 / 2 + 1) {
    const double seen = (double)kc_coverage_look(table, tokens) / 4294967296.0;
    assert_close(tokens, seen, expected_coverage(384, 8, 1.2, (double)tokens), 0.3);
    assert_true(seen >= last);
    assert_true(seen <= (double)kc_cost_coverage_q32(384, 8, tokens) / 4294967296.0 * 1.003);
    last = seen;
  }
}

static void experts_are_one_call_a_layer(void **state)
{
  struct fixture *f = *state;
  build(f, "mixtral-8x7b", 2, 0);
  const struct kc_aggregates sum = {.decodes = 32, .logits = 32, .decode_context = 32 * 500,
                                    .decode_context_max = 500};
  const double without = step_us(f, &sum);
  const double moe = ask(f, KC_FAMILY_MOE_BF16,
                         (struct kc_shape){.tokens = 32, .hidden = HIDDEN, .inter = MLP, .topk = 2,
                                           .experts = 8, .tp = 2, .ep = 1});
  assert_true(without > LAYERS * moe);
  assert_true(without < LAYERS * (moe + 200)); /* all else of a layer is small beside it */
  drop(f);
}

static int setup(void **state)
{
  *state = calloc(1, sizeof(struct fixture));
  return *state == NULL;
}

static int teardown(void **state)
{
  free(*state);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(scales_hold_every_number),
    cmocka_unit_test_setup_teardown(decodes_match_the_kernels, setup, teardown),
    cmocka_unit_test_setup_teardown(prompts_and_mixtures_match_the_kernels, setup, teardown),
    cmocka_unit_test_setup_teardown(unequal_contexts_cost_more, setup, teardown),
    cmocka_unit_test_setup_teardown(every_figure_of_a_datasheet_is_outside, setup, teardown),
    cmocka_unit_test_setup_teardown(host_terms_are_added, setup, teardown),
    cmocka_unit_test(skewed_routing_reads_fewer_experts),
    cmocka_unit_test_setup_teardown(experts_are_one_call_a_layer, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
