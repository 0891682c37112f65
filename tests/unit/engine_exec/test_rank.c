/* Shards of recipes, the formats of a checkpoint, sizes of graphs, and what a site refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/exec/graphs.h"
#include "engine/exec/rank.h"
#include "tiny_models.h"

/* ---- shards ---- */

static void kimi_by_eight(void **state)
{
  (void)state;
  static struct kc_model model;
  struct kc_recipe recipe;
  struct kc_precision asked;
  struct kc_diag diag = {0};
  assert_int_equal(kc_model_load(&model, KVCAP_SOURCE_DIR "/scenarios/models/kimi-k2.6.json",
                                 &diag), KC_OK);
  assert_int_equal(kc_recipe_load(&recipe, &model, &diag), KC_OK);
  assert_int_equal(kc_recipe_shard(&recipe, 8, &diag), KC_OK);
  assert_int_equal(recipe.heads, 8);
  assert_int_equal(recipe.expert_width, 256);
  assert_int_equal(recipe.shared_width, 256);
  assert_int_equal(recipe.dense_width, 2304);
  assert_int_equal(recipe.vocabulary, 20480);
  assert_int_equal(recipe.experts, 384); /* every rank has a part of each */
  assert_int_equal(recipe.q_rank, 1536); /* what is replicated stays */
  assert_int_equal(recipe.latent, 512);
  kc_precision_default(&asked);
  const struct kc_precision held = kc_rank_precision(&model, &asked);
  assert_int_equal(held.weight[KC_CLASS_ROUTED_EXPERTS], KC_WEIGHT_INT4_G32);
  assert_int_equal(held.weight[KC_CLASS_ATTENTION], KC_WEIGHT_BF16);
  assert_int_equal(held.weight[KC_CLASS_SHARED_EXPERTS], KC_WEIGHT_BF16);
  asked.weight[KC_CLASS_ATTENTION] = KC_WEIGHT_FP8;
  assert_int_equal(kc_rank_precision(&model, &asked).weight[KC_CLASS_ATTENTION], KC_WEIGHT_FP8);
}

/* What a rank's weights take is what the bill says. */
static void weights_are_those_of_the_bill(void **state)
{
  (void)state;
  for (uint32_t tensor = 1; tensor <= 4; tensor *= 2) {
    static struct kc_model model;
    struct kc_recipe recipe;
    struct kc_weights weights;
    struct kc_precision asked;
    struct kc_diag diag = {0};
    const uint64_t seed = 1;
    const struct kc_weight_source source = kc_synthetic_source(&seed);
    assert_int_equal(kc_model_load(&model, KVCAP_SOURCE_DIR "/tests/gpu/tiny-rank.json", &diag),
                     KC_OK);
    assert_int_equal(kc_recipe_load(&recipe, &model, &diag), KC_OK);
    assert_int_equal(kc_recipe_shard(&recipe, tensor, &diag), KC_OK);
    kc_precision_default(&asked);
    asked.weight[KC_CLASS_ROUTED_EXPERTS] = KC_WEIGHT_INT4_G32;
    const struct kc_precision held = kc_rank_precision(&model, &asked);
    if (kc_weights_build(&weights, NULL, &recipe, &held, 64, &source, &diag) != KC_OK) {
      fail_msg("%s", diag.text);
    }
    assert_int_equal(weights.weight_bytes,
                     kc_model_rank_weight_bytes(&model, &asked, tensor, 0, 1));
    kc_weights_free(&weights);
  }
}

static void what_does_not_divide_is_said(void **state)
{
  (void)state;
  struct kc_recipe recipe;
  struct kc_diag diag = {0};
  tiny_recipe(&recipe, tiny_gqa_config);
  assert_int_equal(kc_recipe_shard(&recipe, 3, &diag), KC_ERR_INPUT);
  assert_non_null(strstr(diag.text, "4 query heads do not divide by a tensor degree of 3"));
  tiny_recipe(&recipe, tiny_gqa_config);
  assert_int_equal(kc_recipe_shard(&recipe, 4, &diag), KC_OK);
  assert_int_equal(recipe.kv_heads, 1); /* two heads for four ranks: each has one */
}

/* ---- graphs ---- */

static void sizes_grow_and_pad_little(void **state)
{
  (void)state;
  for (uint32_t i = 1; i < KC_GRAPHS_MAX; i++) {
    assert_true(kc_graphs_rows(i) > kc_graphs_rows(i - 1));
  }
  for (uint32_t rows = 1; rows <= 1216; rows++) {
    const uint32_t index = kc_graphs_find(rows);
    assert_true(index < KC_GRAPHS_MAX);
    const uint32_t padded = kc_graphs_rows(index);
    assert_true(padded >= rows && (index == 0 || kc_graphs_rows(index - 1) < rows));
    if (rows >= 32) assert_true(padded - rows <= rows / 8);
  }
  assert_int_equal(kc_graphs_find(1217), KC_GRAPHS_MAX);
  for (uint32_t rows = 1; rows <= 64; rows *= 2) { /* sizes that are measured need no padding */
    assert_int_equal(kc_graphs_rows(kc_graphs_find(rows)), rows);
  }
}

/* ---- sites ---- */

static void a_zeroed_site_is_the_host(void **state)
{
  (void)state;
  const struct kc_site none = {0};
  const struct kc_site site = kc_site_or_host(&none);
  struct kc_diag diag = {0};
  assert_true(kc_site_is_host(&site));
  assert_string_equal(site.ops->name, "ref");
  assert_int_equal(kc_site_fail(&site, KC_OP_BAD, "the sum", &diag), KC_ERR_DEVICE);
  assert_non_null(strstr(diag.text, "the sum"));
  assert_int_equal(kc_site_fail(&site, KC_OP_MEMORY, "the sum", &diag), KC_ERR_NO_FIT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kimi_by_eight),
      cmocka_unit_test(weights_are_those_of_the_bill),
      cmocka_unit_test(what_does_not_divide_is_said),
      cmocka_unit_test(sizes_grow_and_pad_little),
      cmocka_unit_test(a_zeroed_site_is_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
