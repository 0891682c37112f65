/* "class=format,..." and which format a tensor ends up in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model/model.h"

static struct kc_precision parse(const char *text)
{
  struct kc_precision precision;
  struct kc_diag diag = {0};
  kc_precision_default(&precision);
  if (kc_precision_parse(&precision, text, &diag) != KC_OK) print_error("%s\n", diag.text);
  assert_int_equal(diag.code, KC_OK);
  return precision;
}

static void default_fills_the_linear_classes_not_named(void **state)
{
  (void)state;
  static const char *const orders[] = {"default=bf16,routed_experts=int4-g32",
                                       "routed_experts=int4-g32,default=bf16"};
  for (int i = 0; i < 2; i++) {
    const struct kc_precision precision = parse(orders[i]);
    assert_int_equal(precision.weight[KC_CLASS_ROUTED_EXPERTS], KC_WEIGHT_INT4_G32);
    assert_int_equal(precision.weight[KC_CLASS_ATTENTION], KC_WEIGHT_BF16);
    assert_int_equal(precision.weight[KC_CLASS_INDEXER], KC_WEIGHT_BF16);
    assert_int_equal(precision.weight[KC_CLASS_DENSE_MLP], KC_WEIGHT_BF16);
    assert_int_equal(precision.weight[KC_CLASS_SHARED_EXPERTS], KC_WEIGHT_BF16);
    assert_int_equal(precision.weight[KC_CLASS_EMBEDDING], KC_WEIGHT_DEFAULT);
    assert_int_equal(precision.weight[KC_CLASS_LM_HEAD], KC_WEIGHT_DEFAULT);
    assert_int_equal(precision.weight[KC_CLASS_ROUTER], KC_WEIGHT_DEFAULT);
    assert_int_equal(precision.weight[KC_CLASS_NORM], KC_WEIGHT_DEFAULT);
    assert_int_equal(precision.weight[KC_CLASS_VISION], KC_WEIGHT_DEFAULT);
    assert_int_equal(precision.weight[KC_CLASS_MTP], KC_WEIGHT_DEFAULT);
  }
}

static void named_classes_take_their_format(void **state)
{
  (void)state;
  const struct kc_precision precision = parse("embedding=int8,vision=none,mtp=none,router=fp32");
  assert_int_equal(precision.weight[KC_CLASS_EMBEDDING], KC_WEIGHT_INT8);
  assert_int_equal(precision.weight[KC_CLASS_VISION], KC_WEIGHT_NONE);
  assert_int_equal(precision.weight[KC_CLASS_MTP], KC_WEIGHT_NONE);
  assert_int_equal(precision.weight[KC_CLASS_ROUTER], KC_WEIGHT_FP32);
  assert_int_equal(precision.weight[KC_CLASS_ATTENTION], KC_WEIGHT_DEFAULT);
}

static void a_second_parse_builds_on_the_first(void **state)
{
  (void)state;
  struct kc_precision precision = parse("attention=fp8");
  assert_int_equal(kc_precision_parse(&precision, "routed_experts=nvfp4", NULL), KC_OK);
  assert_int_equal(precision.weight[KC_CLASS_ATTENTION], KC_WEIGHT_FP8);
  assert_int_equal(precision.weight[KC_CLASS_ROUTED_EXPERTS], KC_WEIGHT_NVFP4);
}

static void formats_resolve_per_tensor(void **state)
{
  (void)state;
  struct kc_tensor tensor = {.kind = KC_CLASS_ROUTED_EXPERTS,
                             .math_class = KC_CLASS_ROUTED_EXPERTS,
                             .native = KC_WEIGHT_FP8_BLOCK,
                             .quantisable = true};
  const struct kc_precision none = parse("mtp=none"), int4 = parse("routed_experts=int4-g32"),
                            own = parse("mtp=int8,routed_experts=int4-g32");
  assert_int_equal(kc_tensor_format(&tensor, &none), KC_WEIGHT_FP8_BLOCK);
  assert_int_equal(kc_tensor_format(&tensor, &int4), KC_WEIGHT_INT4_G32);
  tensor.kind = KC_CLASS_MTP; /* the experts of the MTP layer follow the model's */
  assert_int_equal(kc_tensor_format(&tensor, &none), KC_WEIGHT_NONE);
  assert_int_equal(kc_tensor_format(&tensor, &int4), KC_WEIGHT_INT4_G32);
  assert_int_equal(kc_tensor_format(&tensor, &own), KC_WEIGHT_INT8);
  tensor.quantisable = false; /* a norm: kept as it is, left out with its layer */
  assert_int_equal(kc_tensor_format(&tensor, &own), KC_WEIGHT_FP8_BLOCK);
  assert_int_equal(kc_tensor_format(&tensor, &none), KC_WEIGHT_NONE);
}

static void faults_are_explained(void **state)
{
  (void)state;
#define CLASSES                                                         \
  "embedding, lm_head, attention, indexer, dense_mlp, routed_experts, " \
  "shared_experts, router, vision, mtp, default"
#define FORMATS                                                                    \
  "checkpoint, none, bf16, fp16, fp32, fp8, fp8-block, int8, int4-g32, int4-g64, " \
  "int4-g128, mxfp4, nvfp4"
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "\"\" is not CLASS=FORMAT, expected for example routed_experts=int4-g32"},
      {"int4", "\"int4\" is not CLASS=FORMAT, expected for example routed_experts=int4-g32"},
      {"=bf16", "\"=bf16\" is not CLASS=FORMAT, expected for example routed_experts=int4-g32"},
      {"mtp=", "\"mtp=\" is not CLASS=FORMAT, expected for example routed_experts=int4-g32"},
      {"mtp=none,", "\"\" is not CLASS=FORMAT, expected for example routed_experts=int4-g32"},
      {"experts=bf16",
       "\"experts\" is no class of weights, did you mean \"routed_experts\"? (known: " CLASSES ")"},
      {"attention=int4",
       "\"int4\" is no weight format, did you mean \"int4-g32\"? (known: " FORMATS ")"},
      {"routed_expert=bf16", "\"routed_expert\" is no class of weights, did you mean "
                             "\"routed_experts\"? (known: " CLASSES ")"},
      {"attention=int4-g23",
       "\"int4-g23\" is no weight format, did you mean \"int4-g32\"? (known: " FORMATS ")"},
      {"attention=BF16",
       "\"BF16\" is no weight format, did you mean \"bf16\"? (known: " FORMATS ")"},
      {"attention=fp8,attention=bf16", "the weights of \"attention\" are given twice"},
      {"default=fp8,default=bf16", "the weights of \"default\" are given twice"},
      {"norm=fp8", "\"norm\" always keeps the format of the checkpoint; leave it out"},
      {"attention=none",
       "\"attention=none\" would leave out weights that every token needs; only mtp "
       "and vision can be left out"},
      {"default=none",
       "\"default=none\" would leave out every weight; only mtp and vision can be left "
       "out"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct kc_precision precision = parse("attention=nvfp4"), before = precision;
    struct kc_diag diag = {0};
    if (kc_precision_parse(&precision, cases[i].text, &diag) != KC_ERR_INPUT) {
      print_error("accepted: %s\n", cases[i].text);
    }
    assert_int_equal(diag.code, KC_ERR_INPUT);
    assert_string_equal(diag.text, cases[i].message);
    assert_memory_equal(&precision, &before, sizeof before); /* untouched */
  }
}

static void class_names_round_trip(void **state)
{
  (void)state;
  for (int i = 0; i < KC_TENSOR_CLASSES; i++) {
    enum kc_tensor_class out = KC_TENSOR_CLASSES;
    assert_true(kc_tensor_class_parse(kc_tensor_class_name((enum kc_tensor_class)i), &out));
    assert_int_equal(out, i);
  }
  enum kc_tensor_class out;
  assert_false(kc_tensor_class_parse("default", &out));
  assert_false(kc_tensor_class_parse("", &out));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(default_fills_the_linear_classes_not_named),
      cmocka_unit_test(named_classes_take_their_format),
      cmocka_unit_test(a_second_parse_builds_on_the_first),
      cmocka_unit_test(formats_resolve_per_tensor),
      cmocka_unit_test(faults_are_explained),
      cmocka_unit_test(class_names_round_trip),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
