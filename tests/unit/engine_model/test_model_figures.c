/* The shipped configs against published or independently derived figures: parameters, checkpoints,
 * bytes per GPU, KV bytes per token.
 *
 * Sources: safetensors indexes (GLM-5.2: total_size 1,506,659,919,872 bytes in 59,585 tensors; Kimi
 * K2.5: its list of tensors, 554.27 GiB), model cards, and sums made by a separate script from the
 * shapes. Tolerances are zero where the figure is exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/model.h"

static const double GIB = 1073741824.0;

static struct kc_model loaded;

static const struct kc_model *load(const char *name)
{
  struct kc_diag diag = {0};
  char path[512];
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", KVCAP_SOURCE_DIR, name);
  if (kc_model_load(&loaded, path, &diag) != KC_OK) {
    print_error("%s: %s\n", path, diag.text);
    assert_true(false);
  }
  assert_string_equal(loaded.name, name);
  assert_int_equal(strlen(loaded.sha256), 64);
  return &loaded;
}

static struct kc_precision precision_of(const char *text)
{
  struct kc_precision precision;
  struct kc_diag diag = {0};
  kc_precision_default(&precision);
  if (text[0] != '\0' && kc_precision_parse(&precision, text, &diag) != KC_OK) {
    print_error("%s: %s\n", text, diag.text);
    assert_true(false);
  }
  return precision;
}

static void assert_near(const char *what, double got, double want, double relative)
{
  const double error = got > want ? got - want : want - got;
  if (error <= relative * want) return;
  print_error("%s: got %.6g, want %.6g within %.3g\n", what, got, want, relative);
  assert_true(false);
}

/* ---- parameters ---- */

static void parameters_are_the_published_totals(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    uint64_t exact; /* from the shapes, by a separate script */
    double published_e9;
  } cases[] = {
      {"kimi-k2", 1026408232448, 1026.4},
      {"kimi-k2.5", 1026879376368, 1026.85}, /* language model 1,026.4 and 0.45 of vision */
      {"kimi-k2.6", 1026879376368, 1026.85},
      {"glm-5", 743911218432, 743.9},
      {"glm-5.2", 743377019904, 743.4},
      {"glm-5.2-bf16", 743377019904, 743.4},
      {"deepseek-v3", 671026419200, 671.0},
      {"llama-3.1-8b", 8030261248, 8.03},
      {"llama-3.1-70b", 70553706496, 70.55},
      {"llama-4-scout", 107769861120, 107.77},
      {"qwen3-8b", 8190735360, 8.19},
      {"qwen3-32b", 32762123264, 32.76},
      {"qwen3-30b-a3b", 30532122624, 30.53},
      {"gpt-oss-120b", 116829156672, 116.8},
      {"mixtral-8x7b", 46702792704, 46.70},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t got = kc_model_parameters(load(cases[i].name));
    if (got != cases[i].exact) print_error("%s\n", cases[i].name);
    assert_int_equal(got, cases[i].exact);
    assert_near(cases[i].name, (double)got / 1e9, cases[i].published_e9, 0.002);
  }
  assert_near(
      "GLM-5.2 with MTP",
      (double)(kc_model_parameters(load("glm-5.2")) + kc_model_mtp_parameters(load("glm-5.2"))) /
          1e9,
      753.3, 0.0002);
  assert_near(
      "GLM-5 with MTP",
      (double)(kc_model_parameters(load("glm-5")) + kc_model_mtp_parameters(load("glm-5"))) / 1e9,
      753.9, 0.0002);
}

/* Published figures differ in whether the input embedding counts; the function leaves it out. */
static void active_parameters_are_the_published_ones(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    double published_e9;
    bool with_embedding;
  } cases[] = {
      {"kimi-k2", 31.7, false},       {"kimi-k2.6", 31.7, false},     {"glm-5.2", 40.3, false},
      {"deepseek-v3", 36.6, false},   {"gpt-oss-120b", 5.13, false},  {"mixtral-8x7b", 12.88, true},
      {"qwen3-30b-a3b", 3.353, true}, {"llama-4-scout", 17.17, true}, {"llama-3.1-8b", 8.03, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct kc_model *model = load(cases[i].name);
    uint64_t got = kc_model_active_parameters(model);
    if (cases[i].with_embedding) got += (uint64_t)model->vocabulary * model->hidden;
    assert_near(cases[i].name, (double)got / 1e9, cases[i].published_e9, 0.002);
  }
}

static void vision_tower_of_kimi_is_the_listed_one(void **state)
{
  (void)state;
  const struct kc_model *model = load("kimi-k2.6");
  uint64_t vision = 0;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->kind != KC_CLASS_VISION) continue;
    vision += tensor->rows * tensor->cols * kc_tensor_copies(tensor);
    assert_int_equal(tensor->shard, KC_SHARD_REPLICATE);
    assert_false(tensor->per_token);
  }
  assert_int_equal(vision, 471143920); /* 411 M of blocks, 54 M of projector, 5 M of positions */
  assert_int_equal(model->vision_layers, 27);
}

/* ---- checkpoints ---- */

static void checkpoints_are_the_published_sizes(void **state)
{
  (void)state;
  static const struct {
    const char *name, *weights;
    uint64_t exact; /* 0 = not known to the byte */
    double published_gib;
  } cases[] = {
      {"kimi-k2.5", "", 595147639776, 554.2}, /* sum of the published list of tensors */
      {"kimi-k2.6", "", 595147639776, 554.2},
      {"glm-5.2", "", 0, 703.9},
      {"glm-5.2-bf16", "", 1506659919872, 1403.2}, /* total_size of the published index */
      {"glm-5.2", "default=bf16", 1506659919872, 1403.2},
      {"glm-5.2-bf16", "default=fp8-block", 0, 703.9},
      {"glm-5.2", "routed_experts=int4-g32,default=bf16", 0, 419.9},
      {"glm-5.2-bf16", "routed_experts=int4-g32", 0, 419.9},
      {"glm-5.2", "routed_experts=int4-g64,default=bf16", 0, 398.6},
      {"glm-5.2", "routed_experts=int4-g128,default=bf16", 0, 387.9},
      {"glm-5.2", "default=int4-g32", 0, 397.4},
      {"glm-5.2", "default=int4-g128", 0, 364.6},
      /* 688.6e9 bytes published, of which the MTP layer's own embedding and head are 3.7e9. */
      {"deepseek-v3", "", 0, 637.8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct kc_precision precision = precision_of(cases[i].weights);
    const uint64_t got = kc_model_checkpoint_bytes(load(cases[i].name), &precision);
    char what[96];
    snprintf(what, sizeof what, "%s %s", cases[i].name, cases[i].weights);
    assert_near(what, (double)got / GIB, cases[i].published_gib, 0.0005);
    if (cases[i].exact > 0) assert_int_equal(got, cases[i].exact);
  }
}

/* Routed experts of gpt-oss at 4.25 bits: 60.9e9 bytes. */
static void gpt_oss_experts_take_four_and_a_quarter_bits(void **state)
{
  (void)state;
  const struct kc_model *model = load("gpt-oss-120b");
  uint64_t bytes = 0, elements = 0;
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->kind != KC_CLASS_ROUTED_EXPERTS) continue;
    assert_int_equal(tensor->native, KC_WEIGHT_MXFP4);
    elements += tensor->rows * tensor->cols * kc_tensor_copies(tensor);
    bytes += kc_weight_bytes(tensor->native, tensor->rows, tensor->cols) * kc_tensor_copies(tensor);
  }
  assert_int_equal(bytes * 8 * 100, elements * 425);
  assert_near("gpt-oss experts", (double)bytes / 1e9, 60.9, 0.001);
}

static void the_weight_index_of_glm_lists_as_many_tensors(void **state)
{
  (void)state;
  const struct kc_model *model = load("glm-5.2-bf16");
  uint64_t count = 0;
  for (uint32_t i = 0; i < model->tensor_count; i++) count += kc_tensor_copies(&model->tensor[i]);
  assert_int_equal(count, 59585);
}

/* ---- per GPU ---- */

static void rank_weights_are_the_derived_loads(void **state)
{
  (void)state;
  static const struct {
    const char *name, *weights;
    double gib, tolerance_gib;
  } cases[] = {
      {"kimi-k2.6", "", 71.79, 0.1},
      {"glm-5.2", "routed_experts=int4-g32,default=bf16", 55.2, 0.05},
      {"glm-5.2", "routed_experts=int4-g32,default=bf16,mtp=none", 54.35, 0.02},
      {"glm-5.2", "", 89.7, 0.05},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct kc_precision precision = precision_of(cases[i].weights);
    const uint64_t got = kc_model_rank_weight_bytes(load(cases[i].name), &precision, 8, 0, 1);
    assert_near(cases[i].name, (double)got / GIB, cases[i].gib,
                cases[i].tolerance_gib / cases[i].gib);
  }
}

static void kv_bytes_per_token_are_the_derived_ones(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    enum kc_kv_format format;
    uint32_t tensor;
    uint64_t bytes;
  } cases[] = {
      {"kimi-k2.6", KC_KV_BF16, 8, 70272},
      {"kimi-k2.6", KC_KV_FP8_E4M3, 8, 35136},
      {"kimi-k2.6", KC_KV_FP8_E4M3, 1, 35136}, /* the latent is replicated */
      {"deepseek-v3", KC_KV_BF16, 8, 70272},
      {"glm-5.2", KC_KV_BF16, 8, 100152},
      {"glm-5.2", KC_KV_FP8_G128, 8, 61464},
      {"glm-5.2", KC_KV_FP8_E4M3, 8, 61464}, /* SGLang's FP8 on DSA is the 656-byte layout */
      {"glm-5", KC_KV_FP8_E4M3, 8, 61464},
      {"llama-3.1-8b", KC_KV_BF16, 1, 131072},
      {"llama-3.1-8b", KC_KV_FP8_E4M3, 1, 65536},
      {"llama-3.1-70b", KC_KV_BF16, 1, 327680},
      {"llama-3.1-70b", KC_KV_BF16, 8, 40960},
      {"llama-3.1-70b", KC_KV_BF16, 16, 40960}, /* one KV head each, twice over */
      {"qwen3-8b", KC_KV_BF16, 1, 147456},
      {"qwen3-32b", KC_KV_BF16, 1, 262144},
      {"llama-4-scout", KC_KV_BF16, 1, 196608},
      {"gpt-oss-120b", KC_KV_BF16, 1, 73728},
      {"mixtral-8x7b", KC_KV_BF16, 1, 131072},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t got = kc_model_kv_token_bytes(load(cases[i].name), cases[i].format,
                                                 cases[i].format, cases[i].tensor);
    if (got != cases[i].bytes) print_error("case %zu: %s\n", i, cases[i].name);
    assert_int_equal(got, cases[i].bytes);
  }
}

/* K and V may differ; a draft layer costs one more layer. */
static void kv_of_one_layer(void **state)
{
  (void)state;
  const struct kc_kv_group *llama = &load("llama-3.1-8b")->kv_group[0];
  assert_int_equal(kc_kv_group_token_bytes(llama, KC_KV_BF16, KC_KV_FP8_E4M3, 1), 8 * (256 + 128));
  assert_int_equal(kc_kv_group_token_bytes(llama, KC_KV_INT8, KC_KV_FP4, 8), 130 + 72);
  const struct kc_kv_group *glm = &load("glm-5.2")->kv_group[0];
  assert_int_equal(kc_kv_group_token_bytes(glm, KC_KV_FP8_E4M3, KC_KV_BF16, 8), 656 + 132);
  assert_int_equal((glm->layers + 1) * kc_kv_group_token_bytes(glm, KC_KV_FP8_G128, KC_KV_BF16, 8),
                   62252);
}

/* Layers with a bound keep only that many tokens: every fourth layer of Scout is global, every
 * second of gpt-oss. */
static void bounded_layers_form_their_own_group(void **state)
{
  (void)state;
  const struct kc_model *scout = load("llama-4-scout");
  assert_int_equal(scout->kv_group_count, 2);
  const struct kc_kv_group *global = &scout->kv_group[0], *chunked = &scout->kv_group[1];
  assert_int_equal(global->layers, 12);
  assert_int_equal(global->window, 0);
  assert_int_equal(global->layers * kc_kv_group_token_bytes(global, KC_KV_BF16, KC_KV_BF16, 1),
                   49152);
  assert_int_equal(chunked->layers, 36);
  assert_int_equal(chunked->window, 8192);
  assert_true(chunked->bounded_store);
  for (uint32_t layer = 0; layer < 48; layer++) {
    assert_int_equal(global->layer_is[layer], layer % 4 == 3);
    assert_int_equal(chunked->layer_is[layer], layer % 4 != 3);
  }
  const struct kc_model *oss = load("gpt-oss-120b");
  assert_int_equal(oss->kv_group[0].layers, 18);
  assert_int_equal(oss->kv_group[1].layers, 18);
  assert_int_equal(oss->kv_group[1].window, 128);
  assert_int_equal(oss->kv_group[1].layer_is[0], 1);
}

static void sparse_attention_reads_the_best_tokens(void **state)
{
  (void)state;
  const struct kc_model *model = load("glm-5.2");
  assert_int_equal(model->kv_group_count, 1);
  assert_int_equal(model->kv_group[0].kind, KC_KV_DSA);
  assert_int_equal(model->kv_group[0].window, 2048);
  assert_false(model->kv_group[0].bounded_store); /* all tokens are kept */
  assert_int_equal(model->kv_group[0].layers, 78);
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const struct kc_tensor *tensor = &model->tensor[i];
    if (tensor->kind == KC_CLASS_INDEXER) assert_int_equal(tensor->layer_count, 21);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_the_published_totals),
      cmocka_unit_test(active_parameters_are_the_published_ones),
      cmocka_unit_test(vision_tower_of_kimi_is_the_listed_one),
      cmocka_unit_test(checkpoints_are_the_published_sizes),
      cmocka_unit_test(gpt_oss_experts_take_four_and_a_quarter_bits),
      cmocka_unit_test(the_weight_index_of_glm_lists_as_many_tensors),
      cmocka_unit_test(rank_weights_are_the_derived_loads),
      cmocka_unit_test(kv_bytes_per_token_are_the_derived_ones),
      cmocka_unit_test(kv_of_one_layer),
      cmocka_unit_test(bounded_layers_form_their_own_group),
      cmocka_unit_test(sparse_attention_reads_the_best_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
