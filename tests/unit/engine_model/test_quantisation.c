/* The formats that a published quantization_config gives to each tensor, and which modules it
 * leaves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/model.h"

static struct kc_model model;

static void parse(const char *text)
{
  struct kc_diag diag = {0};
  if (kc_model_parse(&model, text, strlen(text), "c.json", &diag) != KC_OK) {
    print_error("%s\n%s\n", text, diag.text);
  }
  assert_int_equal(diag.code, KC_OK);
}

/* A dense model of 4 layers with the given quantization_config. */
static void parse_llama(const char *quantisation)
{
  char text[2048];
  snprintf(text, sizeof text,
           "{\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 512,"
           " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
           " \"vocab_size\": 1000, \"max_position_embeddings\": 512, \"torch_dtype\": \"float16\","
           " \"quantization_config\": %s}",
           quantisation);
  parse(text);
}

/* The format of a tensor in a layer. */
static enum kc_weight_format format_of(const char *name, uint32_t layer)
{
  for (uint32_t i = 0; i < model.tensor_count; i++) {
    const struct kc_tensor *tensor = &model.tensor[i];
    if (strcmp(tensor->name, name) != 0) continue;
    if (tensor->layer_count == 0 || kc_tensor_layers_within(tensor, layer, 1))
      return tensor->native;
  }
  print_error("no %s in layer %u\n", name, layer);
  return KC_WEIGHT_FORMATS;
}

static void methods_map_to_formats(void **state)
{
  (void)state;
#define SCHEME(bits, type, rest)                                                         \
  "{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"g\": {\"weights\": " \
  "{\"num_bits\": " bits ", \"type\": \"" type "\"" rest "}}}}"
  static const struct {
    const char *config;
    enum kc_weight_format format;
  } cases[] = {
      {"null", KC_WEIGHT_FP16},
      {"{\"quant_method\": \"fp8\"}", KC_WEIGHT_FP8},
      {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}", KC_WEIGHT_FP8_BLOCK},
      {SCHEME("4", "int", ", \"group_size\": 32"), KC_WEIGHT_INT4_G32},
      {SCHEME("4", "int", ", \"group_size\": 64"), KC_WEIGHT_INT4_G64},
      {SCHEME("4", "int", ", \"group_size\": 128"), KC_WEIGHT_INT4_G128},
      {SCHEME("4", "float", ", \"group_size\": 16"), KC_WEIGHT_NVFP4},
      {SCHEME("8", "int", ""), KC_WEIGHT_INT8},
      {SCHEME("8", "float", ""), KC_WEIGHT_FP8},
      {SCHEME("8", "float", ", \"block_structure\": [128, 128]"), KC_WEIGHT_FP8_BLOCK},
      {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"}", KC_WEIGHT_NVFP4},
      {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"}", KC_WEIGHT_FP8},
      {"{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 128}", KC_WEIGHT_INT4_G128},
      {"{\"quant_method\": \"gptq\", \"bits\": 8}", KC_WEIGHT_INT8},
      {"{\"quant_method\": \"mxfp4\"}", KC_WEIGHT_FP16}, /* experts only, and there are none */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    parse_llama(cases[i].config);
    if (format_of("layers.N.mlp.up_proj", 0) != cases[i].format)
      print_error("%s\n", cases[i].config);
    assert_int_equal(format_of("layers.N.mlp.up_proj", 0), cases[i].format);
    assert_int_equal(format_of("layers.N.self_attn.o_proj", 3), cases[i].format);
    /* never touched by a scheme */
    assert_int_equal(format_of("embed_tokens", 0), KC_WEIGHT_FP16);
    assert_int_equal(format_of("lm_head", 0), KC_WEIGHT_FP16);
    assert_int_equal(format_of("layers.N.input_layernorm", 0), KC_WEIGHT_FP16);
  }
}

/* Which of two modules of a layer an entry leaves alone: bit 0 mlp.up_proj of layer 0, bit 1 of
 * layer 1, bits 2 and 3 the same for self_attn.q_proj. */
static unsigned exempted_by(const char *entry)
{
  char config[512];
  unsigned bits = 0;
  snprintf(config, sizeof config,
           "{\"quant_method\": \"fp8\", \"modules_to_not_convert\": [\"%s\"]}", entry);
  parse_llama(config);
  for (uint32_t layer = 0; layer < 2; layer++) {
    if (format_of("layers.N.mlp.up_proj", layer) == KC_WEIGHT_FP16) bits |= 1u << layer;
    if (format_of("layers.N.self_attn.q_proj", layer) == KC_WEIGHT_FP16) bits |= 4u << layer;
  }
  return bits;
}

static void entries_name_modules(void **state)
{
  (void)state;
  static const struct {
    const char *entry;
    unsigned exempted;
  } cases[] = {
      {"lm_head", 0},
      {"model.layers.0.mlp.up_proj", 1},
      {"model.layers.1", 2 | 8},
      {"model.layers.1.self_attn", 8},
      {"model.layers", 15},
      {"self_attn", 4 | 8},
      {"up_proj", 1 | 2},
      {"up", 0}, /* not a whole part of a name */
      {"attn", 0},
      {"mlp.up", 0},
      {"layers.0", 1 | 4},
      {"model.layers.*.self_attn", 4 | 8},
      {"*mlp*", 1 | 2},
      {"model.*.q_proj", 4 | 8},
      {"*", 15},
      {"", 0},
      {"re:.*self_attn.*", 4 | 8},
      {"re:self_attn", 0}, /* anchored at the start, as Python's re.match is */
      {"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*", 1 | 2},
      {"re:model\\\\.layers\\\\.(?:0|7)\\\\..*", 1 | 4},
      {"re:.*\\\\.1\\\\.mlp", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const unsigned got = exempted_by(cases[i].entry);
    if (got != cases[i].exempted) print_error("%s: %x\n", cases[i].entry, got);
    assert_int_equal(got, cases[i].exempted);
  }
}

/* A tensor quantised in some layers only is listed twice, and nothing is lost or doubled. */
static void partly_exempt_tensors_are_split(void **state)
{
  (void)state;
  uint32_t layers = 0, entries = 0;
  parse_llama("{\"quant_method\": \"fp8\", \"ignore\": [\"layers.1.mlp\", \"layers.3.mlp\"]}");
  for (uint32_t i = 0; i < model.tensor_count; i++) {
    if (strcmp(model.tensor[i].name, "layers.N.mlp.down_proj") != 0) continue;
    layers += model.tensor[i].layer_count;
    entries++;
  }
  assert_int_equal(entries, 2);
  assert_int_equal(layers, 4);
  assert_int_equal(format_of("layers.N.mlp.down_proj", 2), KC_WEIGHT_FP8);
  assert_int_equal(format_of("layers.N.mlp.down_proj", 3), KC_WEIGHT_FP16);
  const uint64_t parameters = kc_model_parameters(&model);
  parse_llama("null");
  assert_int_equal(parameters, kc_model_parameters(&model));
}

/* Llama 4 Scout with its vision tower: 108,641,793,536 parameters in the published checkpoint. */
static void vision_tower_of_scout_counts(void **state)
{
  (void)state;
  parse("{\"model_type\": \"llama4\", \"text_config\": {\"hidden_size\": 5120,"
        " \"intermediate_size\": 8192, \"num_hidden_layers\": 48, \"num_attention_heads\": 40,"
        " \"num_key_value_heads\": 8, \"head_dim\": 128, \"num_local_experts\": 16,"
        " \"num_experts_per_tok\": 1, \"vocab_size\": 202048, \"attention_chunk_size\": 8192,"
        " \"max_position_embeddings\": 10485760}, \"vision_config\": {\"hidden_size\": 1408,"
        " \"intermediate_size\": 5632, \"num_hidden_layers\": 34, \"patch_size\": 14,"
        " \"image_size\": 336, \"projector_input_dim\": 4096, \"projector_output_dim\": 4096,"
        " \"vision_output_dim\": 4096}}");
  assert_int_equal(kc_model_parameters(&model), UINT64_C(108641793536));
  assert_int_equal(model.vision_layers, 34);
}

static void long_expressions_are_refused(void **state)
{
  (void)state;
  char text[1024], expression[256];
  struct kc_diag diag = {0};
  memset(expression, 'a', 201); /* one more than is allowed */
  expression[201] = '\0';
  snprintf(text, sizeof text,
           "{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"fp8\","
           " \"ignore\": [\"re:%s\"]}}",
           expression);
  assert_int_equal(kc_model_parse(&model, text, strlen(text), "c.json", &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "which is not understood"));
}

/* Entries of each kind are counted apart; one more than the ceiling is refused. */
static void long_lists_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *entry;
    int allowed;
    const char *message;
  } cases[] = {
      {"\"*a\"", 64, "\"quantization_config\" exempts modules by more than 64 names with '*'"},
      {"\"re:a\"", 64, "\"quantization_config\" exempts modules by more than 64 expressions"},
      {"\"a\"", 4096, "\"quantization_config\" exempts modules by more than 4096 names"},
  };
  static char text[65536];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int extra = 0; extra <= 1; extra++) {
      struct kc_diag diag = {0};
      size_t used = (size_t)snprintf(text, sizeof text,
                                     "{\"model_type\": \"llama\", \"quantization_config\":"
                                     " {\"quant_method\": \"fp8\", \"ignore\": [");
      for (int n = 0; n < cases[i].allowed + extra; n++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", n == 0 ? "" : ",",
                                 cases[i].entry);
      }
      used += (size_t)snprintf(text + used, sizeof text - used, "]}}");
      assert_int_equal(kc_model_parse(&model, text, used, "c.json", &diag), KC_ERR_INPUT);
      /* without the extra entry the list passes, and the first missing key is what is wrong */
      assert_string_equal(diag.text, extra ? cases[i].message
                                           : "\"num_hidden_layers\" is missing, expected a whole "
                                             "number from 1 to 512");
    }
  }
}

#define MLA                                                                        \
  "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_attention_heads\": 4,"   \
  " \"vocab_size\": 1000, \"max_position_embeddings\": 512, \"kv_lora_rank\": 16," \
  " \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8,"          \
  " \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32"

/* MTP layers are numbered after the model's. */
static void entries_name_the_mtp_layer(void **state)
{
  (void)state;
  parse("{\"model_type\": \"deepseek_v3\", " MLA ", \"num_hidden_layers\": 3,"
        " \"first_k_dense_replace\": 1, \"num_nextn_predict_layers\": 1,"
        " \"quantization_config\": {\"quant_method\": \"fp8\","
        " \"modules_to_not_convert\": [\"model.layers.3.self_attn\"]}}");
  assert_int_equal(format_of("layers.N.self_attn.o_proj", 2), KC_WEIGHT_FP8);
  assert_int_equal(format_of("mtp.self_attn.o_proj", 0), KC_WEIGHT_BF16);
  assert_int_equal(format_of("mtp.mlp.experts.E.up_proj", 0), KC_WEIGHT_FP8);
}

static const struct kc_tensor *find(const char *name)
{
  for (uint32_t i = 0; i < model.tensor_count; i++) {
    if (strcmp(model.tensor[i].name, name) == 0) return &model.tensor[i];
  }
  print_error("no %s\n", name);
  assert_true(false);
  return NULL;
}

/* moe_layer_freq 2 after one dense layer: layers 2 and 4 of 0 to 5. */
static void experts_sit_in_every_nth_layer(void **state)
{
  (void)state;
  parse("{\"model_type\": \"deepseek_v3\", " MLA ", \"num_hidden_layers\": 6,"
        " \"first_k_dense_replace\": 1, \"moe_layer_freq\": 2}");
  assert_int_equal(find("layers.N.mlp.gate")->layer_bits[0], 0x14);
  assert_int_equal(find("layers.N.mlp.up_proj")->layer_bits[0], 0x2b);
}

/* Without a list, GLM-5.2's rule: the first three layers, then every fourth from layer 6. */
static void indexers_follow_the_frequency(void **state)
{
  (void)state;
  parse("{\"model_type\": \"glm_moe_dsa\", " MLA ", \"num_hidden_layers\": 12,"
        " \"first_k_dense_replace\": 1, \"q_lora_rank\": 16, \"index_n_heads\": 2,"
        " \"index_head_dim\": 8, \"index_topk\": 4, \"index_topk_freq\": 4,"
        " \"index_skip_topk_offset\": 3}");
  assert_int_equal(find("layers.N.self_attn.indexer.wk")->layer_bits[0], 0x447);
}

/* Sliding windows: by default even layers of gpt-oss; in Qwen3 only when switched on, and then from
 * max_window_layers on. */
static void windows_follow_the_family(void **state)
{
  (void)state;
#define GQA                                                                    \
  "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 6," \
  " \"num_attention_heads\": 4, \"vocab_size\": 1000, \"max_position_embeddings\": 512"
  parse("{\"model_type\": \"gpt_oss\", " GQA ", \"num_local_experts\": 4,"
        " \"num_experts_per_tok\": 1, \"sliding_window\": 8}");
  assert_int_equal(model.kv_group_count, 2);
  for (uint32_t layer = 0; layer < 6; layer++) {
    assert_int_equal(model.kv_group[1].layer_is[layer], layer % 2 == 0);
  }
  parse("{\"model_type\": \"qwen3\", " GQA ", \"sliding_window\": 8, \"max_window_layers\": 4,"
        " \"use_sliding_window\": false}");
  assert_int_equal(model.kv_group_count, 1);
  assert_int_equal(model.kv_group[0].window, 0);
  parse("{\"model_type\": \"qwen3\", " GQA ", \"sliding_window\": 8, \"max_window_layers\": 4,"
        " \"use_sliding_window\": true}");
  assert_int_equal(model.kv_group[0].layers, 4);
  assert_int_equal(model.kv_group[1].layers, 2);
  assert_int_equal(model.kv_group[1].layer_is[5], 1);
  parse("{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 128,"
        " \"num_hidden_layers\": 30, \"num_attention_heads\": 4, \"vocab_size\": 1000,"
        " \"max_position_embeddings\": 512, \"sliding_window\": 8, \"use_sliding_window\": true}");
  assert_int_equal(model.kv_group[0].layers, 28); /* transformers' own default */
  assert_int_equal(model.kv_group[1].layers, 2);
}

/* Published layouts that the shipped configs do not use. */
static void mixed_layers_are_told_apart(void **state)
{
  (void)state;
  parse("{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"intermediate_size\": 128,"
        " \"num_hidden_layers\": 6, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
        " \"vocab_size\": 1000, \"max_position_embeddings\": 512, \"num_experts\": 8,"
        " \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, \"decoder_sparse_step\": 2,"
        " \"mlp_only_layers\": [3]}");
  assert_int_equal(model.moe_layers, 2); /* layers 1 and 5 */
  assert_int_equal(format_of("layers.N.mlp.experts.E.up_proj", 5), KC_WEIGHT_BF16);
  assert_int_equal(format_of("layers.N.mlp.up_proj", 3), KC_WEIGHT_BF16);
  parse("{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"intermediate_size\": 128,"
        " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 1000,"
        " \"max_position_embeddings\": 512, \"num_local_experts\": 2, \"num_experts_per_tok\": 1,"
        " \"sliding_window\": 64}");
  assert_int_equal(model.kv_group_count, 1);
  assert_int_equal(model.kv_group[0].window, 64);
  assert_true(model.kv_group[0].bounded_store);
  assert_int_equal(model.kv_heads, 4); /* one per query head when the config does not say */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(methods_map_to_formats),
      cmocka_unit_test(entries_name_modules),
      cmocka_unit_test(partly_exempt_tensors_are_split),
      cmocka_unit_test(long_expressions_are_refused),
      cmocka_unit_test(long_lists_are_refused),
      cmocka_unit_test(entries_name_the_mtp_layer),
      cmocka_unit_test(experts_sit_in_every_nth_layer),
      cmocka_unit_test(indexers_follow_the_frequency),
      cmocka_unit_test(windows_follow_the_family),
      cmocka_unit_test(vision_tower_of_scout_counts),
      cmocka_unit_test(mixed_layers_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
