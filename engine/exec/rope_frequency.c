/* Frequencies of the rotary embedding, with the scalings that long-context checkpoints use.
 *
 *   plain    theta^(-2i / dims)                                        (Su et al. 2021)
 *   llama3   wavelengths above original / low are stretched by factor, below original / high kept,
 *            in between blended                                        (Llama 3.1's reference code)
 *   yarn     pairs that turn more than `beta_fast` times within the original context are kept, less
 *            than `beta_slow` times stretched, in between blended      (Peng et al. 2023)
 *
 * Set-up code; exp and log are the library's own, so that tables are equal everywhere.
 */
#include <math.h>

#include "engine/base/check.h"
#include "engine/exec/weights.h"
#include "kernels/ops/op_math.h"

static const double pi = 3.14159265358979323846;

static double llama3(const struct kc_recipe *r, double frequency)
{
  const double turns = r->rope_original * frequency / (2 * pi); /* original / wavelength */
  KC_ASSERT(r->rope_factor > 0);
  KC_ASSERT(r->rope_high > r->rope_low);
  if (turns > r->rope_high) return frequency;
  if (turns < r->rope_low) return frequency / r->rope_factor;
  const double keep = (turns - r->rope_low) / (r->rope_high - r->rope_low);
  return (1 - keep) * frequency / r->rope_factor + keep * frequency;
}

/* The pair, as a real number, that turns `turns` times within the original context. */
static double yarn_pair(const struct kc_recipe *r, uint32_t dims, double turns)
{
  KC_ASSERT(turns > 0);
  return dims * kc_math_log(r->rope_original / (turns * 2 * pi)) / (2 * kc_math_log(r->rope_theta));
}

static double yarn(const struct kc_recipe *r, uint32_t dims, uint32_t pair, double frequency)
{
  double low = floor(yarn_pair(r, dims, r->rope_high));
  double high = ceil(yarn_pair(r, dims, r->rope_low));
  KC_ASSERT(r->rope_factor > 0);
  if (low < 0) low = 0;
  if (high > dims - 1) high = dims - 1;
  if (high <= low) high = low + 0.001;
  double stretch = (pair - low) / (high - low);
  stretch = stretch < 0 ? 0 : stretch > 1 ? 1 : stretch;
  return frequency / r->rope_factor * stretch + frequency * (1 - stretch);
}

void kc_rope_frequencies(const struct kc_recipe *recipe, uint32_t dims, double *frequency)
{
  KC_ASSERT(dims % 2 == 0);
  KC_ASSERT(recipe->rope_theta > 0);
  for (uint32_t i = 0; i < dims / 2; i++) {
    const double plain = kc_math_exp(-2.0 * i / dims * kc_math_log(recipe->rope_theta));
    frequency[i] = recipe->scaling == KC_ROPE_LLAMA3 ? llama3(recipe, plain)
                   : recipe->scaling == KC_ROPE_YARN ? yarn(recipe, dims, i, plain)
                                                     : plain;
  }
}

static double yarn_mscale(double factor, double mscale)
{
  return factor <= 1 ? 1 : 0.1 * mscale * kc_math_log(factor) + 1;
}

/* DeepSeek's code scales the tables by mscale / mscale_all_dim, and scores by the square of the
 * latter; plain YaRN scales the tables alone. */
double kc_rope_amplitude(const struct kc_recipe *recipe)
{
  if (recipe->scaling != KC_ROPE_YARN) return 1;
  const double all = recipe->mla ? yarn_mscale(recipe->rope_factor, recipe->rope_mscale_all) : 1;
  KC_ASSERT(all >= 1);
  return yarn_mscale(recipe->rope_factor, recipe->rope_mscale) / all;
}

double kc_attention_scale(const struct kc_recipe *recipe)
{
  const double plain = 1 / sqrt((double)recipe->head_dim);
  KC_ASSERT(recipe->head_dim > 0);
  if (recipe->scaling != KC_ROPE_YARN || !recipe->mla) return plain;
  const double all = yarn_mscale(recipe->rope_factor, recipe->rope_mscale_all);
  return plain * all * all;
}
