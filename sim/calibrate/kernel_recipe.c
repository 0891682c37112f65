/* The recipes (see kernel_recipe.h).
 *
 * The first table of a recipe carries the shape of the surface; the later ones add what it cannot
 * show: loss in the last wave, loss in the last tile, another kernel behind a level. A table of
 * three axes with 12 x 10 x 8 knots is 960 figures for some 30,000 measured rows. */
#include "sim/calibrate/kernel_recipe.h"

#define EVEN KC_AXIS_EVEN
#define ROWS KC_AXIS_ROWS

static const struct kc_recipe gemm = {
    0.1,
    {{{EVEN("m", 14), EVEN("n", 11), EVEN("k", 8)}},
     {{ROWS("tiles", 12), EVEN("wave_loss", 5), EVEN("k", 3)}},
     {{EVEN("block_n", 16), EVEN("waves", 6), EVEN("k", 4)}},
     {{ROWS("m", 30), EVEN("row_loss", 4)}}}};

static const struct kc_recipe gqa_decode = {
    0.1,
    {{{EVEN("rows", 8), EVEN("context", 9), EVEN("head_dim", 5), EVEN("windowed", 2)}},
     {{EVEN("group", 6), EVEN("rows", 6), EVEN("context", 6)}},
     {{EVEN("batch", 8), EVEN("kv_heads", 6)}}}};

static const struct kc_recipe gqa_prefill = {
    0.1,
    {{{EVEN("tokens", 14), EVEN("blocks", 7), EVEN("head_dim", 5), EVEN("windowed", 2)}},
     {{EVEN("group", 6), EVEN("tokens", 6), EVEN("batch", 5)}},
     {{EVEN("blocks", 10), EVEN("wave_loss", 5)}}}};

static const struct kc_recipe mla_decode = {
    0.1, {{{EVEN("batch", 9), EVEN("context", 9), EVEN("heads", 4)}}}};

static const struct kc_recipe mla_prefill = {
    0.1,
    {{{EVEN("batch", 5), EVEN("tokens", 9), EVEN("heads", 5)}},
     {{EVEN("blocks", 10), EVEN("wave_loss", 4)}}}};

static const struct kc_recipe bmm = {0.1, {{{EVEN("tokens", 10), EVEN("heads", 5)}}}};

static const struct kc_recipe moe = {
    0.1,
    {{{EVEN("per_expert", 12), EVEN("expert_mib", 8), EVEN("local_experts", 8)}},
     {{EVEN("skew", 3), EVEN("tokens", 10), EVEN("local_experts", 9)}},
     {{EVEN("hidden", 8), EVEN("width", 10), EVEN("local_experts", 6)}},
     {{EVEN("local_experts", 8), EVEN("tokens", 9), EVEN("width", 6)}},
     {{EVEN("topk", 6), EVEN("hidden", 6), EVEN("tokens", 10)}},
     {{EVEN("skew", 3), EVEN("hidden", 8), EVEN("local_experts", 9)}}}};

static const struct kc_recipe allreduce = {0.05, {{{EVEN("elements", 14), EVEN("gpus", 3)}}}};

static const struct kc_recipe dsa = {
    0.1,
    {{{EVEN("batch", 11), EVEN("context", 9), EVEN("skip", 2)}},
     {{EVEN("heads", 5), EVEN("batch", 11), EVEN("hidden", 2), EVEN("gemm_fp8", 2)}}}};

const struct kc_recipe *kc_recipe_of(enum kc_family family)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  switch (family) {
    case KC_FAMILY_GEMM_BF16: case KC_FAMILY_GEMM_FP8: case KC_FAMILY_GEMM_FP8_BLOCK:
      return &gemm;
    case KC_FAMILY_GQA_DECODE_BF16: case KC_FAMILY_GQA_DECODE_FP8: return &gqa_decode;
    case KC_FAMILY_GQA_PREFILL_BF16: case KC_FAMILY_GQA_PREFILL_FP8:
    case KC_FAMILY_GQA_PREFILL_KV8: return &gqa_prefill;
    case KC_FAMILY_MLA_DECODE_BF16: case KC_FAMILY_MLA_DECODE_FP8: return &mla_decode;
    case KC_FAMILY_MLA_PREFILL_BF16: case KC_FAMILY_MLA_PREFILL_FP8: return &mla_prefill;
    case KC_FAMILY_MLA_BMM_BF16: case KC_FAMILY_MLA_BMM_FP8: return &bmm;
    case KC_FAMILY_MOE_BF16: case KC_FAMILY_MOE_BF16_CUTLASS: case KC_FAMILY_MOE_FP8:
    case KC_FAMILY_MOE_FP8_BLOCK: case KC_FAMILY_MOE_INT4: case KC_FAMILY_MOE_MXFP4: return &moe;
    case KC_FAMILY_ALLREDUCE_GRAPH: case KC_FAMILY_ALLREDUCE_EAGER: return &allreduce;
    case KC_FAMILY_DSA_DECODE_BF16: case KC_FAMILY_DSA_DECODE_FP8: return &dsa;
    case KC_FAMILIES: break;
  }
  KC_ASSERT(false);
  return NULL;
}
