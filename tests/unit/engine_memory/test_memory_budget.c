/* The memory bill against published figures and hand computations.
 *
 * Sources of expected values: the token counts that Cloudflare published for Kimi K2.6 and GLM 5.2
 * and the arithmetic around them; start-up logs of vLLM 0.11 on H100 and A100; SGLang's default
 * fractions worked out by hand from its server arguments. None comes from the code under test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory_data.h"

#define GIB 1073741824.0

/* Large: kept out of the stack. Loaded by each test as it needs them. */
struct bench {
  struct kc_model model;
  struct kc_gpu gpu;
  struct kc_fit fit;
};

static int set_up(void **state)
{
  *state = test_calloc(1, sizeof(struct bench));
  return *state == NULL;
}

static int tear_down(void **state)
{
  test_free(*state);
  return 0;
}

static void near(const char *what, double got, double want, double relative)
{
  const double difference = got > want ? got - want : want - got;
  if (difference > relative * want) {
    fail_msg("%s: got %.3f, expected %.3f within %.3f %%", what, got, want, relative * 100);
  }
}

static void exactly(const char *what, uint64_t got, uint64_t want)
{
  if (got != want) {
    fail_msg("%s: got %llu, expected %llu", what, (unsigned long long)got,
             (unsigned long long)want);
  }
}

static struct kc_memory_config sglang_h200(double fraction, uint32_t draft_layers)
{
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.fraction = fraction;
  config.tensor = 8;
  config.draft_layers = draft_layers;
  return config;
}

/* 686,000 and 1.37 million tokens published; one draft layer at 0.85 gives 684,186 and twice it. */
static void test_kimi_published_tokens(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "kimi-k2.6");
  test_gpu_load(&b->gpu, "h200");
  const struct kc_memory_config config = sglang_h200(0.85, 1);
  struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_true(b->fit.fits);
  exactly("cell", b->fit.kv_token_bytes, 576 * 2 * 62);
  near("weights GiB", (double)b->fit.weights_bytes / GIB, 71.79, 0.001);
  near("BF16 tokens", (double)b->fit.kv_tokens, 684186, 0.003);
  exactly("tokens are pages", b->fit.kv_tokens, b->fit.pages * 64);
  const uint64_t pages = b->fit.pages;
  precision = test_precision("", KC_KV_FP8_E4M3);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("FP8 cell", b->fit.kv_token_bytes, 576 * 62);
  near("FP8 tokens", (double)b->fit.kv_tokens, 1368372, 0.003);
  assert_true(b->fit.pages == 2 * pages || b->fit.pages == 2 * pages + 1);
}

/* 1.18 million tokens published for INT4 g32 experts: 1,176,735 at SGLang's 0.882. */
static void test_glm_published_tokens(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "glm-5.2");
  test_gpu_load(&b->gpu, "h200");
  const struct kc_memory_config config = sglang_h200(0.882, 0);
  const struct kc_precision precision =
      test_precision("routed_experts=int4-g32,default=bf16,mtp=none", KC_KV_FP8_G128);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("cell", b->fit.kv_token_bytes, (656 + 132) * 78);
  near("tokens", (double)b->fit.kv_tokens, 1176735, 0.01);
}

/* "More than 1.2 million tokens" in 56 GiB: only the 12 global layers keep KV per token. */
static void test_scout_counts_global_layers(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-4-scout");
  test_gpu_load(&b->gpu, "h200");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.kv_budget_bytes = UINT64_C(56) << 30;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_true(b->fit.fits);
  exactly("cell", b->fit.kv_token_bytes, 12 * 8 * 128 * 2 * 2);
  near("tokens", (double)b->fit.kv_tokens, 1223338, 0.0001);
  exactly("nothing bounded is held", b->fit.kv_bounded_bytes, 0);
  assert_true(b->fit.over_board); /* 200 GiB of weights beside it on 140 GiB */
}

/* A local layer keeps min(context, 8192) tokens of 4096 B; 36 of them. */
static void test_scout_bounded_layers(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-4-scout");
  test_gpu_load(&b->gpu, "h200");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.kv_budget_bytes = UINT64_C(56) << 30;
  config.context = 16384;
  config.concurrency = 4;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("long request", b->fit.kv_request_bytes, UINT64_C(36) * 8192 * 4096);
  exactly("four of them", b->fit.kv_bounded_bytes, UINT64_C(4) * 36 * 8192 * 4096);
  /* (56 GiB - 4 x 1207959552) / (64 x 49152), and 56 GiB / (1207959552 + 16384 x 49152). */
  exactly("pages", b->fit.pages, 17578);
  exactly("most", b->fit.concurrency_max, 29);
  exactly("a request of 1000 tokens keeps 16 pages of 64 in each",
          kc_fit_bounded_bytes(&b->fit, &b->model, &precision, &config, 1000),
          UINT64_C(36) * 1024 * 4096);
  exactly("a longer one no more than its windows",
          kc_fit_bounded_bytes(&b->fit, &b->model, &precision, &config, 1000000),
          UINT64_C(36) * 8192 * 4096);
  assert_false(b->fit.windows_per_token);
  config.concurrency = 50; /* 50 x 1207959552 is more than 56 GiB */
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("no page beside too many windows", b->fit.pages, 0);
  assert_string_equal(b->fit.phase, "growth");
  config.context = 1000; /* 16 pages of 64 */
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("short request", b->fit.kv_request_bytes, UINT64_C(36) * 1024 * 4096);
}

/* Log of vLLM 0.11: peak activation 4.76, non-torch 0.13, KV 51.38 GiB at 0.9 of 79.18. */
static void test_vllm_llama_on_h100(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-3.1-8b");
  test_gpu_load(&b->gpu, "h100");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.rule = KC_RULE_VLLM;
  config.fraction = 0.9;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_true(b->fit.fits);
  near("KV GiB", (double)b->fit.kv_budget_bytes / GIB, 51.38, 0.01);
  near("activation GiB", (double)b->fit.activation_bytes / GIB, 4.76, 0.02);
  exactly("usable, rounded up", b->fit.usable_bytes, 76516989862); /* 85018877624 x 0.9 = ...1.6 */
  exactly("page size", b->fit.page_size, 16);
  exactly("cell", b->fit.kv_token_bytes, 131072);
  config.fraction = 0;
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  near("default fraction", b->fit.fraction, 0.9, 0);
}

/* Other logs of the activation rule: Qwen3 32B 5.64 GiB on H100; 1.19 to 1.26 GiB on A100, where
 * the default is 256 sequences. */
static void test_vllm_activation_elsewhere(void **state)
{
  struct bench *b = *state;
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.rule = KC_RULE_VLLM;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_model_load(&b->model, "qwen3-32b");
  test_gpu_load(&b->gpu, "h100");
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  near("Qwen3 32B", (double)b->fit.activation_bytes / GIB, 5.64, 0.02);
  test_model_load(&b->model, "llama-3.1-8b");
  test_gpu_load(&b->gpu, "a100-80g");
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("A100 sequences", b->fit.max_running, 256);
  near("A100", (double)b->fit.activation_bytes / GIB, 1.19, 0.02);
}

/* (G - r) / G in MiB, rounded to three digits; worked out by hand. */
static void test_sglang_default_fractions(void **state)
{
  static const struct {
    const char *model, *gpu;
    uint32_t tensor, draft_layers;
    double fraction;
  } row[] = {
      {"glm-5.2", "h200", 8, 0, 0.897},      /* 143771 - (512 + 12288 + 1024 + 1024) */
      {"glm-5.2", "h200", 8, 1, 0.882},      /* 2048 more */
      {"kimi-k2.6", "h200", 8, 0, 0.852},    /* 0.95 of it: a vision tower */
      {"kimi-k2.6", "h200", 8, 1, 0.838},
      {"llama-3.1-8b", "h100", 1, 0, 0.835}, /* 81559 - (512 + 12288 + 512 + 128) */
      {"llama-3.1-8b", "h100", 8, 0, 0.818},
      {"llama-3.1-8b", "rtx-4090", 1, 0, 0.847}, /* 24564 - (512 + 3072 + 48 + 128) */
      {"llama-3.1-8b", "l40s", 1, 0, 0.851},     /* 46068 - (512 + 6144 + 64 + 128) */
      {"llama-3.1-8b", "b200", 1, 0, 0.857},     /* 183359 - (512 + 24576 + 1024 + 128) */
  };
  struct bench *b = *state;
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    test_model_load(&b->model, row[i].model);
    test_gpu_load(&b->gpu, row[i].gpu);
    struct kc_memory_config config;
    kc_memory_config_default(&config);
    config.tensor = row[i].tensor;
    config.draft_layers = row[i].draft_layers;
    const double got = kc_memory_default_fraction(KC_RULE_SGLANG, &b->gpu, &b->model, &config);
    if (got < row[i].fraction - 0.0006 || got > row[i].fraction + 0.0006) {
      fail_msg("%s on %s x %u, draft %u: got %.5f, expected %.3f", row[i].model, row[i].gpu,
               row[i].tensor, row[i].draft_layers, got, row[i].fraction);
    }
  }
}

/* 30 GiB of KV over 8 stages: 8 layers on the fullest, 436,906 tokens; dealt evenly 458,393.9
 * (30 GiB / 70,272 B). */
static void test_pipeline_fullest_stage(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "kimi-k2.5");
  test_gpu_load(&b->gpu, "h100");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.kv_budget_bytes = UINT64_C(15) << 28; /* 3.75 GiB */
  config.pipeline = 8;
  config.page_size = 1;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("stages", b->fit.stage_count, 8);
  exactly("layers of the fullest", b->fit.stage[b->fit.stage_fullest].layer_count, 8);
  exactly("tokens", b->fit.kv_tokens, 436906);
  exactly("balanced", b->fit.kv_tokens_balanced, 458393);
}

/* All stages of a bill: layers add up, the pool is the least, draft layers sit on the last. */
static void test_pipeline_stages_add_up(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "kimi-k2.6");
  test_gpu_load(&b->gpu, "h200");
  struct kc_memory_config config = sglang_h200(0.85, 2);
  config.tensor = 4;
  config.pipeline = 4;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  uint64_t layers = 0, cells = 0, least = UINT64_MAX;
  for (uint32_t i = 0; i < 4; i++) {
    layers += b->fit.stage[i].layer_count;
    cells += b->fit.stage[i].kv_token_bytes;
    if (b->fit.stage[i].pages < least) least = b->fit.stage[i].pages;
  }
  exactly("layers", layers, 61);
  exactly("cells", cells, (61 + 2) * 1152);
  exactly("last stage", b->fit.stage[3].kv_token_bytes, (15 + 2) * 1152);
  exactly("pool", b->fit.pages, least);
  assert_true(b->fit.kv_tokens_balanced >= b->fit.kv_tokens);
}

/* A pool of whole pages: one byte short of the next page is one page less. */
static void test_whole_pages(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-3.1-8b");
  test_gpu_load(&b->gpu, "h100");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.page_size = 16;
  config.kv_budget_bytes = UINT64_C(1000) * 16 * 131072;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("pages", b->fit.pages, 1000);
  config.kv_budget_bytes--;
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  exactly("pages, one byte less", b->fit.pages, 999);
  exactly("tokens", b->fit.kv_tokens, 999 * 16);
  assert_false(b->fit.over_board);
}

static void expect_failure(const struct kc_fit *fit, const char *phase, uint64_t need,
                           uint64_t have)
{
  assert_false(fit->fits);
  assert_string_equal(fit->phase, phase);
  exactly("need", fit->need_bytes, need);
  exactly("have", fit->have_bytes, have);
  char number[32];
  snprintf(number, sizeof number, "%llu B", (unsigned long long)need);
  assert_non_null(strstr(fit->inequality, number));
}

/* Ten pages of 16 tokens, 131072 B a token. */
static void test_admission_and_growth(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-3.1-8b");
  test_gpu_load(&b->gpu, "h100");
  const uint64_t page = 16 * 131072;
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.page_size = 16;
  config.pages = 10;
  config.context = 160;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_true(b->fit.fits);
  exactly("most", b->fit.concurrency_max, 1);
  config.context = 161;
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  expect_failure(&b->fit, "admission", 11 * page, 10 * page);
  exactly("most", b->fit.concurrency_max, 0);
  config.context = 81; /* six pages each */
  config.concurrency = 2;
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  expect_failure(&b->fit, "growth", 12 * page, 10 * page);
  config.context = 80;
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_true(b->fit.fits);
  exactly("most", b->fit.concurrency_max, 2);
}

/* Kimi's 554 GiB over 4 H100 of 77.4 GiB cannot load; the two sides are what they should be. */
static void test_load_fails(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "kimi-k2.6");
  test_gpu_load(&b->gpu, "h100");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.tensor = 4;
  config.fraction = 0.9;
  config.extra_bytes = 1000;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  const uint64_t weights = kc_model_rank_weight_bytes(&b->model, &precision, 4, 0, 1);
  /* floor(round(77.4 GiB) x 0.9) */
  expect_failure(&b->fit, "load", weights + 1000, UINT64_C(74796855460));
  exactly("pages", b->fit.pages, 0);
}

/* Weights fit, but the sampler's 4.76 GiB have no room any more. */
static void test_graphs_fails(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "llama-3.1-8b");
  test_gpu_load(&b->gpu, "rtx-4090");
  struct kc_memory_config config;
  kc_memory_config_default(&config);
  config.rule = KC_RULE_VLLM;
  config.fraction = 0.8; /* 18.91 GiB; weights 14.96, activation at 1024 sequences 4.76 */
  config.max_running = 1024;
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
  assert_false(b->fit.fits);
  assert_string_equal(b->fit.phase, "graphs");
  assert_true(b->fit.weights_bytes < b->fit.have_bytes);
  assert_true(b->fit.need_bytes > b->fit.have_bytes);
}

static void test_classes_add_up(void **state)
{
  struct bench *b = *state;
  test_gpu_load(&b->gpu, "b200");
  for (int m = 0; m < TEST_MODELS; m++) {
    test_model_load(&b->model, test_model_names[m]);
    struct kc_memory_config config;
    kc_memory_config_default(&config);
    config.tensor = 8;
    const struct kc_precision precision = test_precision("", KC_KV_BF16);
    test_fit(&b->fit, &b->model, &precision, &b->gpu, &config);
    uint64_t sum = 0;
    for (int c = 0; c < KC_TENSOR_CLASSES; c++) sum += b->fit.class_bytes[c];
    exactly(test_model_names[m], sum, b->fit.weights_bytes);
    exactly("budget", b->fit.fits ? b->fit.usable_bytes - sum : b->fit.kv_budget_bytes,
            b->fit.kv_budget_bytes);
  }
}

/* Each must be refused as input, with a sentence that holds the given words. */
static void test_refusals(void **state)
{
  struct bench *b = *state;
  test_model_load(&b->model, "kimi-k2.6");
  test_gpu_load(&b->gpu, "h200");
  const struct kc_precision precision = test_precision("", KC_KV_BF16);
  struct kc_memory_config base;
  kc_memory_config_default(&base);
  struct kc_memory_config bad[9] = {base, base, base, base, base, base, base, base, base};
  static const char *const words[9] = {
      "tensor degree 3", "tensor degree 0", "tensor degree 128", "pipeline stages", "draft layers",
      "fraction",        "page of",         "each sets the pool", "derives nothing"};
  bad[0].tensor = 3;
  bad[1].tensor = 0;
  bad[2].tensor = 128;
  bad[3].pipeline = 62;
  bad[4].draft_layers = 65;
  bad[5].fraction = 1.01;
  bad[6].page_size = KC_PAGE_SIZE_MAX + 1;
  bad[7].pages = 1;
  bad[7].kv_budget_bytes = 1;
  bad[8].rule = KC_RULE_FIXED;
  for (int i = 0; i < 9; i++) {
    struct kc_diag diag = {0};
    assert_int_equal(kc_fit_compute(&b->fit, &b->model, &precision, &b->gpu, &bad[i], &diag),
                     KC_ERR_INPUT);
    if (strstr(diag.text, words[i]) == NULL) fail_msg("case %d: \"%s\"", i, diag.text);
  }
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(test_kimi_published_tokens), TEST(test_glm_published_tokens),
      TEST(test_scout_counts_global_layers), TEST(test_scout_bounded_layers),
      TEST(test_vllm_llama_on_h100), TEST(test_vllm_activation_elsewhere),
      TEST(test_sglang_default_fractions), TEST(test_pipeline_fullest_stage),
      TEST(test_pipeline_stages_add_up), TEST(test_whole_pages), TEST(test_admission_and_growth),
      TEST(test_load_fails), TEST(test_graphs_fails), TEST(test_classes_add_up),
      TEST(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
