/* Profiles of kernels: arithmetic against libm, evaluation against figures worked out by hand, and
 * files that are wrong in one place each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/cost/profile_internal.h"

/* Memory of 1 MB a microsecond, BF16 of 100 MFLOP a microsecond: figures stay countable. */
static const struct kc_device device = {.memory_bandwidth = 1e12, .flops = {1e14, 2e14, 0, 0},
                                        .link_bandwidth = 1e11, .link_latency_us = 7,
                                        .sm_count = 100};

/* ---- arithmetic ---- */

static void test_logarithms(void **state)
{
  (void)state;
  for (int e = -40; e <= 60; e++) {
    assert_true(kc_log2_exact(ldexp(1, e)) == e); /* powers of two are exact */
    assert_true(kc_exp2_exact(e) == ldexp(1, e));
  }
  for (double x = 1e-9; x < 1e12; x *= 1.0137) {
    assert_true(fabs(kc_log2_exact(x) - log2(x)) <= 2e-14);
    const double back = kc_exp2_exact(kc_log2_exact(x));
    if (fabs(back / x - 1) > 1e-13) print_error("x=%.17g back=%.17g\n", x, back);
    assert_true(fabs(back / x - 1) <= 1e-13);
  }
}

/* f(x, y) = 2 + 3x - y + xy is bilinear, so a grid of its values gives it back everywhere inside,
 * and its border value outside. */
static void test_grid(void **state)
{
  (void)state;
  double x[] = {0, 1, 4}, y[] = {-2, 5};
  double value[6];
  struct kc_grid grid = {.axes = 2, .knots = {3, 2}, .knot = {x, y}, .value = value};
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 2; j++) value[i * 2 + j] = 2 + 3 * x[i] - y[j] + x[i] * y[j];
  }
  assert_int_equal(kc_grid_values(&grid), 6);
  for (double a = -1; a <= 5; a += 0.25) {
    for (double b = -3; b <= 6; b += 0.25) {
      const double at[] = {a, b};
      const double u = a < 0 ? 0 : a > 4 ? 4 : a;
      const double v = b < -2 ? -2 : b > 5 ? 5 : b;
      assert_true(fabs(kc_grid_at(&grid, at) - (2 + 3 * u - v + u * v)) < 1e-12);
    }
  }
}

/* ---- evaluation ---- */

static const char families[] =
    "kind: families\n"
    "name: test-1.0\n"
    "gpu: test\n"
    "families:\n"
    "  - family: gemm-bf16\n"
    "    source: by hand\n"
    "    rows: 100\n"
    "    held_out: {rows: 20, median: 0.03, p90: 0.1}\n"
    "    fitted: {rows: 80, median: 0.02, p90: 0.08}\n"
    "    physics: {latency_us: 5, bandwidth: 0.5, bytes_half: 0, rate: 0.5, flops_half: 0,\n"
    "              stream_gb_s: 0}\n"
    "    range:\n"
    "      m: [64, 4096]\n"
    "      n: [64, 4096]\n"
    "      k: [64, 4096]\n"
    "    tables:\n"
    "      - axes:\n"
    "          - {feature: m, at: [64, 256]}\n"
    "          - {feature: n, at: [64, 4096]}\n"
    "        values:\n"
    "          - \"0 0\"\n"
    "          - \"1000 1000\"\n";

static struct kc_profile *parse(const char *text)
{
  struct kc_profile *profile;
  struct kc_diag diag;
  if (kc_profile_parse(&profile, "p.yaml", text, strlen(text), &diag) != KC_OK) {
    print_error("%llu:%u: %s\n", (unsigned long long)diag.line, diag.column, diag.text);
    fail();
  }
  return profile;
}

static double gemm_us(const struct kc_profile *profile, double m, double n, double k,
                      enum kc_trust *trust)
{
  const struct kc_shape shape = {.m = m, .n = n, .k = k};
  const struct kc_op_time time = kc_profile_time(profile, &device, KC_FAMILY_GEMM_BF16, &shape);
  *trust = time.trust;
  return time.us;
}

static void test_family(void **state)
{
  (void)state;
  enum kc_trust trust;
  struct kc_profile *p = parse(families);
  assert_int_equal(kc_profile_kind(p), KC_PROFILE_FAMILIES);
  assert_string_equal(kc_profile_name(p), "test-1.0");
  /* 64 x 64 x 64: 3 x 8,192 bytes at 0.5 MB/us = 0.049152 us against 524,288 / 50e6 = 0.010486 us.
   * The table is 0 at m = 64. */
  assert_true(fabs(gemm_us(p, 64, 64, 64, &trust) - 5.049152) < 1e-9);
  assert_int_equal(trust, KC_TRUST_MEASURED);
  /* m = 128 is half way in log2: factor 2^0.5. 2 x 128 x 4096 x 4096 / 50e6 = 85.899 us against
   * (128 x 4096 x 2 + 4096 x 4096) x 2 / 0.5e6 = 71.303 us. */
  assert_true(fabs(gemm_us(p, 128, 4096, 4096, &trust) - 90.89934592 * sqrt(2)) < 1e-6);
  assert_int_equal(trust, KC_TRUST_MEASURED);
  /* Beyond the grid its border holds (2^1), the physics goes on, and the answer says so. */
  assert_true(fabs(gemm_us(p, 8192, 4096, 4096, &trust) - 2 * (5 + 5497.55813888)) < 1e-6);
  assert_int_equal(trust, KC_TRUST_EXTRAPOLATED);
  const struct kc_family_info info = kc_profile_family(p, KC_FAMILY_GEMM_BF16);
  assert_true(info.present && info.rows == 100 && info.held_out.median == 0.03);
  assert_false(kc_profile_family(p, KC_FAMILY_GEMM_FP8).present);
  kc_profile_destroy(p);
}

/* Nothing measured: 3 us + bytes at 0.8, rates at 0.6; collectives with the link's latency. */
static void test_datasheet(void **state)
{
  (void)state;
  struct kc_profile *p;
  const struct kc_gpu_profile entry = {.name = "plain", .bandwidth_efficiency = 0.8,
                                       .flops_efficiency = 0.6, .op_latency_us = 3};
  assert_int_equal(kc_profile_datasheet(&p, &entry, NULL), KC_OK);
  const struct kc_shape gemm = {.m = 64, .n = 64, .k = 64};
  struct kc_op_time t = kc_profile_time(p, &device, KC_FAMILY_GEMM_BF16, &gemm);
  assert_true(fabs(t.us - (3 + 24576 / 0.8e6)) < 1e-9);
  assert_int_equal(t.trust, KC_TRUST_DATASHEET);
  const struct kc_shape reduce = {.elements = 1e6, .gpus = 4}; /* 2 x 3/4 x 2 MB at 0.08 MB/us */
  t = kc_profile_time(p, &device, KC_FAMILY_ALLREDUCE_GRAPH, &reduce);
  assert_true(fabs(t.us - (7 + 3e6 / 0.8e5)) < 1e-9);
  kc_profile_destroy(p);
}

/* Every family answers every sane shape with a positive time, whatever is measured. */
static void test_total(void **state)
{
  (void)state;
  struct kc_profile *p;
  const struct kc_gpu_profile entry = {.name = "plain", .bandwidth_efficiency = 0.8,
                                       .flops_efficiency = 0.6, .op_latency_us = 3};
  assert_int_equal(kc_profile_datasheet(&p, &entry, NULL), KC_OK);
  for (int f = 0; f < KC_FAMILIES; f++) {
    double before = 0;
    for (double size = 1; size <= 1e6; size *= 10) { /* larger is never faster */
      const struct kc_shape shape = {
          .m = size, .n = 4096, .k = 4096, .batch = 4, .tokens = size, .context = size, .heads = 8,
          .kv_heads = 2, .head_dim = 128, .hidden = 4096, .inter = 1024, .topk = 8, .experts = 128,
          .tp = 1, .ep = 1, .skew = 1.01, .elements = size, .gpus = 8};
      const double us = kc_profile_time(p, &device, (enum kc_family)f, &shape).us;
      if (us < before) print_error("%s at %g\n", kc_family_name((enum kc_family)f), size);
      assert_true(us > 0 && us >= before);
      before = us;
    }
    enum kc_family back;
    assert_true(kc_family_parse(kc_family_name((enum kc_family)f), &back) && (int)back == f);
  }
  kc_profile_destroy(p);
}

/* ---- layered ---- */

#define ENTRY \
    "    source: by hand\n    rows: 9\n    held_out: {rows: 0, median: 0, p90: 0}\n" \
    "    fitted: {rows: 9, median: 0, p90: 0}\n"

static const char layered[] =
    "kind: layered\nname: test\ngpu: test\n"
    "model: {model: some/model, tensor: 2, heads: 8}\n"
    "layers:\n"
    "  - layer: o_proj\n    units: tokens\n" ENTRY
    "    range: {units: [1, 1024]}\n"
    "    tables:\n"
    "      - axes: [{feature: units, at: [1, 1024]}]\n"
    "        values: [\"0 10000\"]\n"
    "attention:\n"
    "  - part: decode\n" ENTRY
    "    range: {decodes: [1, 64], decode_context: [16, 4096]}\n"
    "    tables:\n"
    "      - axes: [{feature: decode_context, at: [16, 4096]}]\n"
    "        values: [\"3000 5000\"]\n"
    "  - part: prefill\n" ENTRY
    "    range: {prefill_plus_1: [17, 2049], past_plus_16: [16, 4096]}\n"
    "    tables:\n"
    "      - axes: [{feature: prefill_plus_1, at: [17, 2049]}]\n"
    "        values: [\"4000 4000\"]\n"
    "  - part: mixed\n" ENTRY
    "    range: {decodes: [1, 64]}\n"
    "    tables:\n"
    "      - axes: [{feature: decodes, at: [1, 64]}]\n"
    "        values: [\"1000 1000\"]\n"
    "  - part: spread\n" ENTRY
    "    range: {decodes: [1, 64]}\n"
    "    tables:\n"
    "      - axes: [{feature: decodes, at: [1, 64]}]\n"
    "        values: [\"250 250\"]\n";

static void test_layered(void **state)
{
  (void)state;
  struct kc_profile *p = parse(layered);
  assert_int_equal(kc_profile_kind(p), KC_PROFILE_LAYERED);
  assert_int_equal(kc_profile_layered_model(p)->tensor, 2);
  assert_int_equal(kc_profile_layer(p, "qkv_proj"), -1);
  const int o_proj = kc_profile_layer(p, "o_proj");
  assert_int_equal(o_proj, 0);
  assert_true(fabs(kc_profile_layer_time(p, o_proj, 32).us - 32) < 1e-9); /* 2^(10 x 5 / 10) */
  const struct kc_op_time more = kc_profile_layer_time(p, o_proj, 4096);
  assert_true(fabs(more.us - 4096) < 1e-6); /* 1,024 us for 1,024, and in proportion */
  assert_int_equal(more.trust, KC_TRUST_EXTRAPOLATED);
  struct kc_mixed_step step = {.decodes = 2, .decode_context = 256, .decode_context_max = 256};
  assert_true(fabs(kc_profile_mixed_time(p, &step).us - 16) < 1e-9); /* 2^(3 + 2 x 4 / 8) */
  step.decode_context_max = 4096; /* a quarter of the way from 16 to 32 */
  assert_true(fabs(kc_profile_mixed_time(p, &step).us - 20) < 1e-9);
  step = (struct kc_mixed_step){512, 0, 2, 256, 256}; /* (16 + 16) x 2 */
  assert_true(fabs(kc_profile_mixed_time(p, &step).us - 64) < 1e-9);
  assert_int_equal(kc_profile_mixed_time(p, &step).trust, KC_TRUST_MEASURED);
  step = (struct kc_mixed_step){512, 0, 0, 0, 0};
  assert_true(fabs(kc_profile_mixed_time(p, &step).us - 16) < 1e-9);
  assert_true(kc_profile_layered_info(p, "spread").present);
  assert_false(kc_profile_layered_info(p, "nothing").present);
  kc_profile_destroy(p);
}

/* ---- files that are wrong ---- */

struct wrong {
  const char *base, *from, *to; /* the first `from` in `base` becomes `to` */
  unsigned line;                /* where the fault is said to be */
  const char *says;
};

static const struct wrong wrongs[] = {
    {families, "kind: families", "kind: other", 1, "kind"},
    {families, "gpu: test", "gqu: test", 3, "gqu"},
    {families, "families:\n  -", "families: []\nx:\n  -", 6, "x"},
    {families, "gemm-bf16", "gemm-bf15", 5, "no op family"},
    {families, "rows: 100", "rows: many", 7, "rows"},
    {families, "median: 0.03", "median: -1", 8, "median"},
    {families, "physics: {latency_us: 5, ", "physics: {", 5, "latency_us"},
    {families, "bandwidth: 0.5", "bandwidth: 0", 10, "bandwidth"},
    {families, "m: [64, 4096]", "m: [64]", 13, "[LEAST, MOST]"},
    {families, "m: [64, 4096]", "m: [4096, 64]", 13, "above the most"},
    {families, "m: [64, 4096]", "j: [64, 4096]", 13, "not a feature"},
    {families, "feature: m, at: [64, 256]", "feature: q, at: [64, 256]", 18, "there are: m n k"},
    {families, "feature: m, at: [64, 256]", "feature: m, at: [256, 64]", 18, "ascend"},
    {families, "feature: m, at: [64, 256]", "feature: m, at: [0, 256]", 18, "above 0"},
    {families, "feature: m, at: [64, 256]", "feature: m, at: [64, x]", 18, "plain number"},
    {families, "feature: m, at: [64, 256]", "feature: m, at: []", 18, "1 to 32 knots"},
    {families, "{feature: m, at: [64, 256]}", "{feature: m}", 18, "an axis is"},
    {families, "\"0 0\"", "\"0\"", 21, "3 values, but the axes make 4"},
    {families, "\"0 0\"", "\"0 0 0\"", 22, "more values"},
    {families, "\"0 0\"", "\"0  0\"", 21, "single spaces"},
    {families, "\"0 0\"", "\"0 0.5\"", 21, "whole numbers"},
    {families, "\"0 0\"", "\"0 100001\"", 21, "whole numbers"},
    {layered, "model: {model", "modem: {model", 4, "modem"},
    {layered, "tensor: 2", "tensor: 0", 4, "tensor"},
    {layered, "units: tokens", "units: words", 7, "units"},
    {layered, "part: spread", "part: decode", 44, "twice"},
    {layered, "part: decode", "part: none", 17, "decode, prefill, mixed, spread"},
    {layered, "kind: layered", "kind: families", 4, "other kind"},
};

static char *replaced(const struct wrong *wrong)
{
  const char *at = strstr(wrong->base, wrong->from);
  assert_non_null(at);
  const size_t bytes = strlen(wrong->base) + strlen(wrong->to) + 1;
  char *text = malloc(bytes);
  assert_non_null(text);
  snprintf(text, bytes, "%.*s%s%s", (int)(at - wrong->base), wrong->base, wrong->to,
           at + strlen(wrong->from));
  return text;
}

static void test_wrong_files(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
    struct kc_profile *profile;
    struct kc_diag diag = {.code = KC_OK};
    char *text = replaced(&wrongs[i]);
    const enum kc_err err = kc_profile_parse(&profile, "p.yaml", text, strlen(text), &diag);
    if (err != KC_ERR_INPUT || diag.line != wrongs[i].line ||
        strstr(diag.text, wrongs[i].says) == NULL) {
      print_error("case %zu (%s): %d, line %llu, \"%s\"\n", i, wrongs[i].to, (int)err,
                  (unsigned long long)diag.line, diag.text);
    }
    assert_int_equal(err, KC_ERR_INPUT);
    assert_int_equal(diag.line, wrongs[i].line);
    assert_non_null(strstr(diag.text, wrongs[i].says));
    assert_null(profile);
    free(text);
  }
}

/* ---- what is shipped ---- */

static void test_shipped(void **state)
{
  (void)state;
  static const struct {
    const char *file, *name;
    enum kc_profile_kind kind;
    int families;
  } row[] = {
      {"h200/h200-sglang-0.5.14.yaml", "sglang-0.5.14", KC_PROFILE_FAMILIES, 23},
      {"h200/h200-vllm-0.24.yaml", "vllm-0.24", KC_PROFILE_FAMILIES, 17},
      {"h100/h100-sglang-0.5.14.yaml", "sglang-0.5.14", KC_PROFILE_FAMILIES, 23},
      {"rtx-pro-6000/vllm-0.19/llama-3.1-8b-tp1.yaml", "vllm-0.19", KC_PROFILE_LAYERED, 0},
      {"rtx-pro-6000/vllm-0.19/qwen3-32b-tp2.yaml", "vllm-0.19", KC_PROFILE_LAYERED, 0},
  };
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    char path[512];
    struct kc_profile *p;
    struct kc_diag diag;
    int present = 0;
    snprintf(path, sizeof path, "%s/scenarios/gpus/profiles/%s", KVCAP_SOURCE_DIR, row[i].file);
    if (kc_profile_load(&p, path, &diag) != KC_OK) fail_msg("%s: %s", path, diag.text);
    assert_string_equal(kc_profile_name(p), row[i].name);
    assert_int_equal(kc_profile_kind(p), row[i].kind);
    assert_int_equal(strlen(kc_profile_sha256(p)), 64);
    for (int f = 0; f < KC_FAMILIES; f++) {
      present += kc_profile_family(p, (enum kc_family)f).present ? 1 : 0;
    }
    assert_int_equal(present, row[i].families);
    kc_profile_destroy(p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_logarithms), cmocka_unit_test(test_grid),
      cmocka_unit_test(test_family),     cmocka_unit_test(test_datasheet),
      cmocka_unit_test(test_total),      cmocka_unit_test(test_layered),
      cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_shipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
