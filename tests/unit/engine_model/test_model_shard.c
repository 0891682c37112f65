/* How weights spread over tensor ranks and pipeline stages: conservation laws and the few rules
 * that decide what is replicated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/model.h"

static const char *const names[] = {
    "kimi-k2",       "kimi-k2.6",     "glm-5",         "glm-5.2",  "deepseek-v3",
    "llama-3.1-8b",  "llama-3.1-70b", "llama-4-scout", "qwen3-8b", "qwen3-32b",
    "qwen3-30b-a3b", "gpt-oss-120b",  "mixtral-8x7b",
};
enum { NAMES = sizeof names / sizeof *names };

static struct kc_model loaded;

static struct kc_model *load(const char *name)
{
  struct kc_diag diag = {0};
  char path[512];
  snprintf(path, sizeof path, "%s/scenarios/models/%s.json", KVCAP_SOURCE_DIR, name);
  if (kc_model_load(&loaded, path, &diag) != KC_OK) print_error("%s: %s\n", path, diag.text);
  assert_int_equal(diag.code, KC_OK);
  return &loaded;
}

/* With tensor degree 1, the stages of any pipeline add up to the checkpoint. */
static void stages_add_up_to_the_checkpoint(void **state)
{
  (void)state;
  struct kc_precision precision;
  kc_precision_default(&precision);
  for (int n = 0; n < NAMES; n++) {
    const struct kc_model *model = load(names[n]);
    const uint64_t whole = kc_model_checkpoint_bytes(model, &precision);
    for (uint32_t stages = 1; stages <= 8; stages++) {
      uint64_t sum = 0;
      for (uint32_t stage = 0; stage < stages; stage++) {
        sum += kc_model_rank_weight_bytes(model, &precision, 1, stage, stages);
      }
      if (sum != whole) print_error("%s in %u stages\n", names[n], stages);
      assert_int_equal(sum, whole);
    }
  }
}

/* Stages cover each layer once and differ by one layer at most, longer ones first. */
static void stages_deal_layers_contiguously(void **state)
{
  (void)state;
  const struct kc_model *model = load("kimi-k2.6");
  for (uint32_t stages = 1; stages <= 61; stages++) {
    uint32_t next = 0, previous = UINT32_MAX;
    for (uint32_t stage = 0; stage < stages; stage++) {
      uint32_t first, count;
      kc_model_stage_layers(model, stage, stages, &first, &count);
      assert_int_equal(first, next);
      assert_true(count == 61 / stages || count == 61 / stages + 1);
      assert_true(count <= previous);
      previous = count;
      next += count;
    }
    assert_int_equal(next, 61);
  }
  uint32_t first, count;
  kc_model_stage_layers(model, 0, 8, &first, &count); /* 61 layers over 8 stages: 8 at most */
  assert_int_equal(count, 8);
}

/* A rank holds at least its even share and at most the whole; more ranks never means more bytes. */
static void ranks_shrink_with_the_degree(void **state)
{
  (void)state;
  struct kc_precision precision;
  kc_precision_default(&precision);
  for (int n = 0; n < NAMES; n++) {
    const struct kc_model *model = load(names[n]);
    const uint64_t whole = kc_model_checkpoint_bytes(model, &precision);
    uint64_t previous = whole;
    for (uint32_t tensor = 1; tensor <= 32; tensor *= 2) {
      uint64_t by_class[KC_TENSOR_CLASSES], sum = 0;
      const uint64_t rank = kc_model_rank_class_bytes(model, &precision, tensor, 0, 1, by_class);
      for (int i = 0; i < KC_TENSOR_CLASSES; i++) sum += by_class[i];
      assert_int_equal(sum, rank);
      assert_true(rank <= previous);
      assert_true(rank * tensor >= whole);
      previous = rank;
    }
  }
}

static const struct kc_tensor *find(const struct kc_model *model, const char *name)
{
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    if (strcmp(model->tensor[i].name, name) == 0) return &model->tensor[i];
  }
  print_error("no tensor %s\n", name);
  assert_true(false);
  return NULL;
}

static void layouts_are_those_of_the_servers(void **state)
{
  (void)state;
  const struct kc_model *kimi = load("kimi-k2.6");
  assert_int_equal(find(kimi, "layers.N.self_attn.q_a_proj")->shard, KC_SHARD_REPLICATE);
  assert_int_equal(find(kimi, "layers.N.self_attn.kv_a_proj_with_mqa")->shard, KC_SHARD_REPLICATE);
  assert_int_equal(find(kimi, "layers.N.self_attn.q_b_proj")->shard, KC_SHARD_SPLIT);
  assert_int_equal(find(kimi, "layers.N.self_attn.kv_b_proj")->shard, KC_SHARD_SPLIT);
  assert_int_equal(find(kimi, "layers.N.mlp.gate")->shard, KC_SHARD_REPLICATE);
  const struct kc_tensor *expert = find(kimi, "layers.N.mlp.experts.E.up_proj");
  assert_int_equal(expert->shard, KC_SHARD_SPLIT);
  assert_int_equal(expert->per_layer, 384);
  assert_int_equal(expert->layer_count, 60);
  assert_int_equal(expert->native, KC_WEIGHT_INT4_G32);
  assert_int_equal(kc_tensor_layers_within(expert, 0, 1), 0); /* layer 0 is dense */
  assert_int_equal(kc_tensor_layers_within(expert, 1, 60), 60);
  assert_int_equal(find(kimi, "layers.N.mlp.up_proj")->native, KC_WEIGHT_BF16);
  assert_int_equal(find(kimi, "layers.N.mlp.shared_experts.up_proj")->native, KC_WEIGHT_BF16);
  assert_int_equal(find(kimi, "layers.N.self_attn.o_proj")->native, KC_WEIGHT_BF16);
  assert_int_equal(find(kimi, "layers.N.mlp.gate.e_score_correction_bias")->native, KC_WEIGHT_FP32);
}

/* KV projections follow the heads: split up to kv_heads ranks, then one head each. */
static void kv_projections_replicate_past_the_heads(void **state)
{
  (void)state;
  const struct kc_model *model = load("qwen3-30b-a3b"); /* 4 KV heads of 128, hidden 2048 */
  const struct kc_tensor *k = find(model, "layers.N.self_attn.k_proj");
  const uint64_t head = (uint64_t)128 * 2048 * 2;
  assert_int_equal(kc_tensor_rank_bytes(model, k, KC_WEIGHT_BF16, 1), 4 * head);
  assert_int_equal(kc_tensor_rank_bytes(model, k, KC_WEIGHT_BF16, 2), 2 * head);
  assert_int_equal(kc_tensor_rank_bytes(model, k, KC_WEIGHT_BF16, 4), head);
  assert_int_equal(kc_tensor_rank_bytes(model, k, KC_WEIGHT_BF16, 8), head);
  assert_int_equal(kc_tensor_rank_bytes(model, k, KC_WEIGHT_BF16, 32), head);
}

static void degrees_that_do_not_divide_are_named(void **state)
{
  (void)state;
  const char *why = "";
  const struct kc_model *model = load("llama-4-scout"); /* 40 heads, 8 KV heads */
  assert_true(kc_model_tensor_degree_valid(model, 8, &why));
  assert_null(why);
  assert_false(kc_model_tensor_degree_valid(model, 16, &why));
  assert_string_equal(why, "the number of query heads");
  assert_false(kc_model_tensor_degree_valid(model, 5, &why));
  assert_string_equal(why, "the number of KV heads");
  assert_false(kc_model_tensor_degree_valid(model, 0, NULL));
  model = load("kimi-k2.6");
  assert_true(kc_model_tensor_degree_valid(model, 64, &why)); /* the latent has no heads */
  assert_false(kc_model_tensor_degree_valid(model, 3, &why));
  model = load("llama-3.1-70b");
  assert_true(kc_model_tensor_degree_valid(model, 16, &why));
  assert_true(kc_model_tensor_degree_valid(model, 64, &why));
}

/* Widths of 96 under 12 heads: degree 4 divides all, and each width is named when it is the odd
 * one. */
static void widths_that_do_not_divide_are_named(void **state)
{
  (void)state;
  static const struct {
    uint32_t dense, expert, shared;
    const char *why;
  } cases[] = {
      {96, 96, 96, NULL},
      {0, 96, 0, NULL}, /* no such MLP */
      {98, 96, 96, "the intermediate size of the MLP"},
      {96, 98, 96, "the intermediate size of an expert"},
      {96, 96, 98, "the intermediate size of the shared expert"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *why = "unset";
    loaded = (struct kc_model){.heads = 12,
                               .kv_heads = 4,
                               .dense_width = cases[i].dense,
                               .expert_width = cases[i].expert,
                               .shared_width = cases[i].shared};
    assert_int_equal(kc_model_tensor_degree_valid(&loaded, 4, &why), cases[i].why == NULL);
    if (cases[i].why == NULL) {
      assert_null(why);
    } else {
      assert_string_equal(why, cases[i].why);
    }
  }
}

/* Matrices that no recipe quantises, whatever class is named. */
static void some_matrices_are_always_kept(void **state)
{
  (void)state;
  const struct kc_model *model = load("glm-5.2");
  assert_false(find(model, "layers.N.self_attn.indexer.weights_proj")->quantisable);
  assert_true(find(model, "layers.N.self_attn.indexer.wk")->quantisable);
  assert_false(find(model, "mtp.eh_proj")->quantisable);
  assert_true(find(model, "mtp.mlp.experts.E.up_proj")->quantisable);
  assert_int_equal(find(model, "mtp.mlp.experts.E.up_proj")->native, KC_WEIGHT_FP8_BLOCK);
  model = load("kimi-k2.6");
  assert_false(find(model, "vision.patch_embed.pos_emb")->quantisable);
  assert_true(find(model, "mm_projector.proj.0")->quantisable);
}

/* A tied embedding is one tensor in the checkpoint, and both ends of a pipeline hold it. */
static void tied_embeddings_sit_at_both_ends(void **state)
{
  (void)state;
  static const char json[] =
      "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
      " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 1000,"
      " \"max_position_embeddings\": 512, \"tie_word_embeddings\": true}";
  struct kc_precision precision;
  struct kc_diag diag = {0};
  kc_precision_default(&precision);
  assert_int_equal(kc_model_parse(&loaded, json, sizeof json - 1, "tiny.json", &diag), KC_OK);
  const uint64_t whole = kc_model_checkpoint_bytes(&loaded, &precision);
  const uint64_t layer = 2 * (2 * 64 + 4 * 64 * 64 + 3 * 64 * 128);
  assert_int_equal(whole, 2 * 64 * 1000 + 2 * 64 + 2 * layer);
  assert_int_equal(kc_model_rank_weight_bytes(&loaded, &precision, 1, 0, 2), 128000 + layer);
  assert_int_equal(kc_model_rank_weight_bytes(&loaded, &precision, 1, 1, 2), 128000 + 128 + layer);
  /* It multiplies every token, as the head. */
  assert_int_equal(kc_model_active_parameters(&loaded), kc_model_parameters(&loaded));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages_add_up_to_the_checkpoint),
      cmocka_unit_test(stages_deal_layers_contiguously),
      cmocka_unit_test(ranks_shrink_with_the_degree),
      cmocka_unit_test(layouts_are_those_of_the_servers),
      cmocka_unit_test(kv_projections_replicate_past_the_heads),
      cmocka_unit_test(degrees_that_do_not_divide_are_named),
      cmocka_unit_test(widths_that_do_not_divide_are_named),
      cmocka_unit_test(some_matrices_are_always_kept),
      cmocka_unit_test(tied_embeddings_sit_at_both_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
