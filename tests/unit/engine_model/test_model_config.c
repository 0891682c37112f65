/* Configs that say something wrong: each with its exact message and place. The documents are put
 * together here, one key a line, so that the line of a key can be counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/model.h"

#define FAMILIES                                                                           \
  "llama, qwen3, mixtral, qwen3_moe, gpt_oss, llama4, llama4_text, deepseek_v3, kimi_k2, " \
  "kimi_k25, glm_moe_dsa"

enum { PAIRS_MAX = 24, TEXT_BYTES = 4096 };

struct pair {
  const char *key, *value;
};

/* Smallest valid documents. Key i (from 0) stands on line i + 2. */
static const struct pair llama[PAIRS_MAX] = {
    {"model_type", "\"llama\""},  {"hidden_size", "64"},
    {"intermediate_size", "128"}, {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
    {"vocab_size", "1000"},       {"max_position_embeddings", "512"},
};
static const struct pair moe[PAIRS_MAX] = {
    {"model_type", "\"qwen3_moe\""},
    {"hidden_size", "64"},
    {"intermediate_size", "128"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"vocab_size", "1000"},
    {"max_position_embeddings", "512"},
    {"num_experts", "8"},
    {"num_experts_per_tok", "2"},
    {"moe_intermediate_size", "32"},
};
static const struct pair oss[PAIRS_MAX] = {
    {"model_type", "\"gpt_oss\""}, {"hidden_size", "64"},
    {"intermediate_size", "128"},  {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},  {"num_key_value_heads", "2"},
    {"vocab_size", "1000"},        {"max_position_embeddings", "512"},
    {"num_local_experts", "4"},    {"num_experts_per_tok", "1"},
    {"sliding_window", "8"},
};
static const struct pair mla[PAIRS_MAX] = {
    {"model_type", "\"deepseek_v3\""},
    {"hidden_size", "64"},
    {"intermediate_size", "128"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"vocab_size", "1000"},
    {"max_position_embeddings", "512"},
    {"kv_lora_rank", "16"},
    {"qk_nope_head_dim", "8"},
    {"qk_rope_head_dim", "4"},
    {"v_head_dim", "8"},
    {"first_k_dense_replace", "2"},
};
static const struct pair glm[PAIRS_MAX] = {
    {"model_type", "\"glm_moe_dsa\""},
    {"hidden_size", "64"},
    {"intermediate_size", "128"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"vocab_size", "1000"},
    {"max_position_embeddings", "512"},
    {"kv_lora_rank", "16"},
    {"qk_nope_head_dim", "8"},
    {"qk_rope_head_dim", "4"},
    {"v_head_dim", "8"},
    {"first_k_dense_replace", "2"},
    {"q_lora_rank", "16"},
    {"index_n_heads", "2"},
    {"index_head_dim", "8"},
    {"index_topk", "4"},
};

static struct kc_model model;

/* The document with one key replaced, removed (value NULL) or added at the end. */
static size_t compose(char out[TEXT_BYTES], const struct pair *base, const char *key,
                      const char *value)
{
  size_t used = (size_t)snprintf(out, TEXT_BYTES, "{");
  bool found = false, first = true;
  for (int i = 0; i <= PAIRS_MAX; i++) {
    struct pair pair = i < PAIRS_MAX ? base[i] : (struct pair){NULL, NULL};
    if (pair.key == NULL) {
      if (found || key == NULL || value == NULL) break;
      pair = (struct pair){key, value};
    } else if (key != NULL && strcmp(pair.key, key) == 0) {
      pair.value = value;
    }
    found = found || (key != NULL && strcmp(pair.key, key) == 0);
    if (pair.value == NULL) continue;
    used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s\n  \"%s\": %s", first ? "" : ",",
                             pair.key, pair.value);
    first = false;
  }
  used += (size_t)snprintf(out + used, TEXT_BYTES - used, "\n}\n");
  assert_true(used < TEXT_BYTES);
  return used;
}

static void assert_refused(const char *text, size_t length, uint64_t line, uint32_t column,
                           const char *message)
{
  struct kc_diag diag = {0};
  const enum kc_err err = kc_model_parse(&model, text, length, "c.json", &diag);
  if (err != KC_ERR_INPUT || strcmp(diag.text, message) != 0 || diag.line != line ||
      diag.column != column) {
    print_error("%.*s\n  at %u:%u: %s\n", (int)length, text, (unsigned)diag.line, diag.column,
                diag.text);
  }
  assert_int_equal(err, KC_ERR_INPUT);
  assert_string_equal(diag.text, message);
  assert_int_equal(diag.line, line);
  assert_int_equal(diag.column, column);
  assert_string_equal(diag.path, "c.json");
}

static void the_documents_without_a_fault_are_accepted(void **state)
{
  (void)state;
  const struct pair *const bases[] = {llama, moe, oss, mla, glm};
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    char text[TEXT_BYTES];
    struct kc_diag diag = {0};
    const size_t length = compose(text, bases[i], "unknown_key", "{\"hidden_size\": 1}");
    if (kc_model_parse(&model, text, length, "c.json", &diag) != KC_OK) {
      print_error("%s: %s\n", bases[i][0].value, diag.text);
    }
    assert_int_equal(diag.code, KC_OK);
    assert_int_equal(model.layers, 2);
    assert_string_equal(model.name, "c");
  }
}

/* Widths of one are odd, not wrong: a head of one row is still a matrix. */
static void the_smallest_shapes_are_accepted(void **state)
{
  (void)state;
  static const char text[] =
      "{\"model_type\": \"mixtral\", \"hidden_size\": 1, \"intermediate_size\": 1,"
      " \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"vocab_size\": 1,"
      " \"max_position_embeddings\": 1, \"num_local_experts\": 1, \"num_experts_per_tok\": 1}";
  struct kc_diag diag = {0};
  assert_int_equal(kc_model_parse(&model, text, sizeof text - 1, "c.json", &diag), KC_OK);
  /* ends 3, attention 4, its two norms, router 1, expert 3 */
  assert_int_equal(kc_model_parameters(&model), 3 + 4 + 2 + 1 + 3);
}

static void texts_that_are_no_config_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint32_t line, column;
    const char *message;
  } cases[] = {
      {"", 0, 0, "is empty, expected a config.json"},
      {" \n", 2, 0, "is not valid JSON: '[' or '{' expected near end of file"},
      {"{\"model_type\": \"llama\"", 1, 22, "is not valid JSON: '}' expected near end of file"},
      {"{\n  \"model_type\": llama\n}", 2, 21, "is not valid JSON: invalid token near 'llama'"},
      {"{\"a\": 1,}", 1, 9, "is not valid JSON: string or '}' expected near '}'"},
      {"{\"a\": 1, \"a\": 2}", 1, 12, "is not valid JSON: duplicate object key near '\"a\"'"},
      {"{\"a\": \"\xff\"}", 1, 7, "is not valid JSON: unable to decode byte 0xff near '\"'"},
      {"{} {}", 1, 4, "is not valid JSON: end of file expected near '{'"},
      {"{\"vocab_size\": 99999999999999999999}", 1, 35,
       "is not valid JSON: too big integer near '99999999999999999999'"},
      {"[1, 2]", 0, 0, "is not a JSON object, expected a config.json"},
      {"{}", 0, 0,
       "\"model_type\" and \"architectures\" are missing, expected a model_type of " FAMILIES},
      {"{\"model_type\": 7}", 1, 2, "\"model_type\" is 7, expected a text"},
      {"{\"model_type\": \"gpt2\"}", 1, 2,
       "\"model_type\" is \"gpt2\", which is no family known here; expected a model_type "
       "of " FAMILIES},
      {"{\n\n \"architectures\": [\"BertModel\"]}", 3, 2,
       "\"architectures\" is \"BertModel\", which is no family known here; expected a model_type "
       "of " FAMILIES},
      {"{\"architectures\": \"LlamaForCausalLM\"}", 1, 2,
       "\"architectures\" is \"LlamaForCausalLM\", expected a list"},
      {"{\"model_type\": \"kimi_k25\"}", 0, 0,
       "\"num_hidden_layers\" is missing, expected a whole number from 1 to 512"},
      /* what is shown of the file cannot steer a terminal */
      {"{\"model_type\": \"llama\", \"torch_dtype\": \"\\u001b[31m\\n\"}", 1, 25,
       "\"torch_dtype\" is \"?[31m?\", expected bfloat16, float16 or float32"},
      /* the place of a nested key is that of the nested one */
      {"{\"hidden_size\": 1, \"model_type\": \"llama4\",\n"
       " \"vision_config\": {\"num_hidden_layers\": 1, \"hidden_size\": 0},\n"
       " \"text_config\": {\"a\": [{\"num_hidden_layers\": 3}], \"num_hidden_layers\": -1}}",
       3, 51, "\"text_config.num_hidden_layers\" is -1, expected a whole number from 1 to 512"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_refused(cases[i].text, strlen(cases[i].text), cases[i].line, cases[i].column,
                   cases[i].message);
  }
}

static void deep_nesting_is_refused(void **state)
{
  (void)state;
  static char text[100000];
  memset(text, '[', sizeof text);
  assert_refused(text, sizeof text, 1, 2049,
                 "is not valid JSON: maximum parsing depth reached near '['");
}

struct fault {
  const struct pair *base;
  const char *key, *value;
  uint32_t line; /* 0 = no place; otherwise the key opens at column 3 */
  const char *message;
};

static void assert_faults(const struct fault *faults, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    char text[TEXT_BYTES];
    const size_t length = compose(text, faults[i].base, faults[i].key, faults[i].value);
    assert_refused(text, length, faults[i].line, faults[i].line == 0 ? 0 : 3, faults[i].message);
  }
}

static void values_are_checked(void **state)
{
  (void)state;
#define WIDTH "expected a whole number from 1 to 16777216"
  static const struct fault faults[] = {
      {llama, "hidden_size", NULL, 0,
       "\"hidden_size\" is missing, expected a whole number from 1 to 1048576"},
      {llama, "hidden_size", "null", 3,
       "\"hidden_size\" is missing, expected a whole number from 1 to 1048576"},
      {llama, "hidden_size", "\"64\"", 3,
       "\"hidden_size\" is \"64\", expected a whole number from 1 to 1048576"},
      {llama, "hidden_size", "64.0", 3,
       "\"hidden_size\" is 64.0, expected a whole number from 1 to 1048576"},
      {llama, "hidden_size", "[64]", 3,
       "\"hidden_size\" is a list, expected a whole number from 1 to 1048576"},
      {llama, "hidden_size", "true", 3,
       "\"hidden_size\" is true, expected a whole number from 1 to 1048576"},
      {llama, "num_hidden_layers", "-2", 5,
       "\"num_hidden_layers\" is -2, expected a whole number from 1 to 512"},
      {llama, "num_hidden_layers", "0", 5,
       "\"num_hidden_layers\" is 0, expected a whole number from 1 to 512"},
      {llama, "num_hidden_layers", "513", 5,
       "\"num_hidden_layers\" is 513, expected a whole number from 1 to 512"},
      {llama, "vocab_size", "0", 8, "\"vocab_size\" is 0, " WIDTH},
      {llama, "vocab_size", "9223372036854775807", 8,
       "\"vocab_size\" is 9223372036854775807, " WIDTH},
      {llama, "intermediate_size", "1e300", 4,
       "\"intermediate_size\" is 1.0000000000000001e300, " WIDTH},
      {llama, "intermediate_size", "4294967424", 4, /* 128 when cut to 32 bits */
       "\"intermediate_size\" is 4294967424, " WIDTH},
      {llama, "max_position_embeddings", "-1", 9,
       "\"max_position_embeddings\" is -1, expected a whole number from 1 to 2147483647"},
      {llama, "num_key_value_heads", "3", 6,
       "\"num_attention_heads\" (4) is not a multiple of \"num_key_value_heads\" (3)"},
      {llama, "num_attention_heads", "6", 3,
       "\"hidden_size\" (64) is not a multiple of \"num_attention_heads\" (6) and there is no "
       "\"head_dim\""},
      {llama, "head_dim", "0", 10, "\"head_dim\" is 0, expected a whole number from 1 to 8192"},
      {llama, "attention_bias", "\"yes\"", 10,
       "\"attention_bias\" is \"yes\", expected true or false"},
      {llama, "tie_word_embeddings", "1", 10,
       "\"tie_word_embeddings\" is 1, expected true or false"},
      {llama, "torch_dtype", "\"int3\"", 10,
       "\"torch_dtype\" is \"int3\", expected bfloat16, float16 or float32"},
      {llama, "torch_dtype", "16", 10, "\"torch_dtype\" is 16, expected a text"},
      {llama, "sliding_window", "-8", 10,
       "\"sliding_window\" is -8, expected a whole number from 1 to 1073741824"},
  };
  assert_faults(faults, sizeof faults / sizeof *faults);
}

static void families_check_their_own_keys(void **state)
{
  (void)state;
  static const struct fault faults[] = {
      {moe, "num_experts", NULL, 0,
       "\"num_experts\" is missing, expected a whole number from 1 to 4096"},
      {moe, "num_experts_per_tok", "9", 11,
       "\"num_experts_per_tok\" (9) is more than \"num_experts\" (8)"},
      {moe, "mlp_only_layers", "[2]", 13, "\"mlp_only_layers\" item 0 is not a layer from 0 to 1"},
      {moe, "mlp_only_layers", "\"all\"", 13, "\"mlp_only_layers\" is \"all\", expected a list"},
      {moe, "decoder_sparse_step", "0", 13,
       "\"decoder_sparse_step\" is 0, expected a whole number from 1 to 512"},
      {oss, "layer_types", "[\"full_attention\"]", 13,
       "\"layer_types\" has 1 items, expected 2, one for each layer"},
      {oss, "layer_types", "[\"full_attention\", \"linear_attention\"]", 13,
       "\"layer_types\" item 1 is not \"sliding_attention\" or \"full_attention\""},
      {oss, "layer_types", "[7, 8]", 13,
       "\"layer_types\" item 0 is not \"sliding_attention\" or \"full_attention\""},
      {oss, "sliding_window", NULL, 0,
       "\"sliding_window\" is missing, expected a whole number from 1 to 1073741824"},
      {mla, "kv_lora_rank", "null", 9,
       "\"kv_lora_rank\" is missing, expected a whole number from 1 to 1048576"},
      {mla, "first_k_dense_replace", NULL, 0,
       "\"first_k_dense_replace\" is missing, expected a whole number from 0 to 512"},
      {mla, "first_k_dense_replace", "1", 0,
       "\"n_routed_experts\" is missing, expected a whole number from 1 to 4096"},
      {mla, "mlp_layer_types", "[\"dense\", \"wide\"]", 14,
       "\"mlp_layer_types\" item 1 is not \"dense\" or \"sparse\""},
      {mla, "num_nextn_predict_layers", "17", 14,
       "\"num_nextn_predict_layers\" is 17, expected a whole number from 0 to 16"},
      {glm, "index_topk", NULL, 0,
       "\"index_topk\" is missing, expected a whole number from 1 to 1073741824"},
      {glm, "q_lora_rank", NULL, 0, "\"q_lora_rank\" is missing, and the indexer projects from it"},
      {glm, "indexer_types", "[\"full\", \"half\"]", 18,
       "\"indexer_types\" item 1 is not \"full\" or \"shared\""},
      {glm, "index_topk_freq", "4", 0,
       "\"index_skip_topk_offset\" is missing, expected a whole number from 0 to 512"},
  };
  assert_faults(faults, sizeof faults / sizeof *faults);
}

static void quantisation_is_checked(void **state)
{
  (void)state;
#define COMPRESSED \
  "{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"g\": {\"weights\": "
  static const struct fault faults[] = {
      {llama, "quantization_config", "[]", 10, "\"quantization_config\" is not an object"},
      {llama, "quantization_config", "{}", 10,
       "\"quantization_config.quant_method\" is \"\", expected one of fp8, compressed-tensors, "
       "mxfp4, "
       "modelopt, gptq, awq"},
      {llama, "quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 64]}",
       10,
       "\"quantization_config\" has a \"weight_block_size\" that is not [128, 128], the only "
       "block size known"},
      {llama, "quantization_config",
       COMPRESSED "{\"num_bits\": 4, \"type\": \"int\", \"group_size\": 48}}}}", 10,
       "\"quantization_config\" has 4-bit groups of 48, expected 32, 64 or 128"},
      {llama, "quantization_config",
       COMPRESSED "{\"num_bits\": 3, \"type\": \"int\", \"group_size\": 32}}}}", 10,
       "\"quantization_config\" asks for 3-bit int weights in groups of 32, which is not a known "
       "format (checkpoint, none, bf16, fp16, fp32, fp8, fp8-block, int8, int4-g32, int4-g64, "
       "int4-g128, mxfp4, nvfp4)"},
      {llama, "quantization_config", "{\"quant_method\": \"compressed-tensors\"}", 10,
       "\"quantization_config.config_groups\" has no group with \"weights\", expected num_bits, "
       "type "
       "and group_size there"},
      {llama, "quantization_config", "{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8\"}",
       10, "\"quantization_config.quant_algo\" is \"W4A8\", expected NVFP4 or FP8"},
      {llama, "quantization_config", "{\"quant_method\": \"gptq\", \"bits\": 2}", 10,
       "\"quantization_config.bits\" is 2, expected 4 or 8"},
      {llama, "quantization_config", "{\"quant_method\": \"fp8\", \"ignore\": [\"re:(self_attn\"]}",
       10,
       "\"quantization_config\" exempts modules by the expression \"(self_attn\", which is not "
       "understood; write plain module names instead"},
      {llama, "quantization_config", "{\"quant_method\": \"fp8\", \"ignore\": [\"re:a{1,9999}\"]}",
       10,
       "\"quantization_config\" exempts modules by the expression \"a{1,9999}\", which is not "
       "understood; write plain module names instead"},
      {llama, "quantization_config", "{\"quant_method\": \"fp8\", \"ignore\": [7]}", 10,
       "\"quantization_config\" exempts something that is not a module name"},
  };
  assert_faults(faults, sizeof faults / sizeof *faults);
}

/* Every value in range, and yet more than any model has. */
static void sizes_that_would_overflow_are_refused(void **state)
{
  (void)state;
  static const char text[] =
      "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 1048576, \"intermediate_size\": 16777216,"
      " \"num_hidden_layers\": 512, \"num_attention_heads\": 4096, \"num_key_value_heads\": 4096,"
      " \"head_dim\": 8192, \"vocab_size\": 16777216, \"max_position_embeddings\": 2147483647,"
      " \"num_experts\": 4096, \"num_experts_per_tok\": 4096, \"moe_intermediate_size\": 16777216}";
  assert_refused(text, sizeof text - 1, 0, 0,
                 "the shapes add up to more than 2^50 parameters, which no model has; check "
                 "hidden_size, vocab_size, the intermediate sizes and the number of experts");
}

static void files_that_cannot_be_read_are_named(void **state)
{
  (void)state;
  struct kc_diag diag = {0};
  assert_int_equal(kc_model_load(&model, "/nonexistent/config.json", &diag), KC_ERR_FILE);
  assert_string_equal(diag.path, "/nonexistent/config.json");
  assert_int_equal(kc_model_load(&model, KVCAP_SOURCE_DIR "/engine", &diag), KC_ERR_FILE);
  /* without a diag the code alone comes back */
  assert_int_equal(kc_model_load(&model, "/nonexistent/config.json", NULL), KC_ERR_FILE);
  assert_int_equal(kc_model_parse(&model, "{}", 2, "c.json", NULL), KC_ERR_INPUT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_documents_without_a_fault_are_accepted),
      cmocka_unit_test(the_smallest_shapes_are_accepted),
      cmocka_unit_test(texts_that_are_no_config_are_refused),
      cmocka_unit_test(deep_nesting_is_refused),
      cmocka_unit_test(values_are_checked),
      cmocka_unit_test(families_check_their_own_keys),
      cmocka_unit_test(quantisation_is_checked),
      cmocka_unit_test(sizes_that_would_overflow_are_refused),
      cmocka_unit_test(files_that_cannot_be_read_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
