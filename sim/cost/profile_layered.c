/* Layered profiles: layers by tokens, and the attention of a mixed step (see profile_internal.h).
 *
 *   layer       2^table(units)                             beyond the last knot: in proportion
 *   attention   even(mean) + spread * (even(longest) - even(mean))
 *   even(c)     (prefill + decode(c)) * 2^mixed            when both sides are there
 *
 * A step whose decodes have unequal contexts takes longer than one where all have the mean, because
 * the longest one finishes last; how much longer is the measured share `spread`.
 */
#include <string.h>

#include "sim/cost/profile_internal.h"

/* Adds to the past tokens of chunks, so that none (0) has a place on a logarithmic axis. */
#define PAST_OFFSET 16.0

enum { PREFILL_TOKENS, PAST, DECODES, DECODE_CONTEXT, RATIO, LONGEST };

static const struct kc_feature mixed_features[] = {
    [PREFILL_TOKENS] = {"prefill_plus_1", false, true},
    [PAST] = {"past_plus_16", false, true},
    [DECODES] = {"decodes", false, true},
    [DECODE_CONTEXT] = {"decode_context", false, true},
    [RATIO] = {"prefill_per_decode", false, false}, /* of the times of the two sides */
    [LONGEST] = {"longest_per_mean", false, false},
};

static const struct kc_feature layer_features[] = {{"units", false, true}};

const struct kc_feature *kc_mixed_features(uint32_t *count)
{
  *count = sizeof mixed_features / sizeof mixed_features[0];
  KC_ASSERT(*count <= KC_FEATURES_MAX);
  return mixed_features;
}

const struct kc_feature *kc_layer_features(uint32_t *count)
{
  *count = sizeof layer_features / sizeof layer_features[0];
  KC_ASSERT(*count == 1);
  return layer_features;
}

const char *kc_mixed_part_name(enum kc_mixed_part part)
{
  static const char *const names[KC_MIXED_PARTS] = {"decode", "prefill", "mixed", "spread"};
  KC_ASSERT((unsigned)part < KC_MIXED_PARTS);
  return names[part];
}

void kc_mixed_figures(const struct kc_mixed_step *step, double *figure)
{
  KC_ASSERT(step->prefill_tokens >= 0 && step->decodes >= 0);
  KC_ASSERT(step->prefill_tokens + step->decodes > 0);
  figure[PREFILL_TOKENS] = step->prefill_tokens + 1;
  figure[PAST] = step->prefill_past + PAST_OFFSET;
  figure[DECODES] = step->decodes;
  figure[DECODE_CONTEXT] = step->decode_context;
  figure[RATIO] = 1;
  figure[LONGEST] = step->decode_context > 0 ? step->decode_context_max / step->decode_context : 1;
}

static double part_us(const struct kc_profile *profile, enum kc_mixed_part part,
                      const double *figure)
{
  return kc_exp2_exact(kc_fit_correction(&profile->mixed[part], mixed_features, figure));
}

double kc_mixed_even_us(const struct kc_profile *profile, const struct kc_mixed_step *step,
                        double context)
{
  double figure[KC_FEATURES_MAX];
  KC_ASSERT(profile->kind == KC_PROFILE_LAYERED);
  kc_mixed_figures(step, figure);
  figure[DECODE_CONTEXT] = context;
  double prefill = 0, decode = 0;
  if (step->prefill_tokens > 0) prefill = part_us(profile, KC_MIXED_PREFILL, figure);
  if (step->decodes > 0) decode = part_us(profile, KC_MIXED_DECODE, figure);
  if (step->prefill_tokens <= 0 || step->decodes <= 0) return prefill + decode;
  figure[RATIO] = prefill / decode;
  return (prefill + decode) * part_us(profile, KC_MIXED_BOTH, figure);
}

/* Is each side that the step has inside what was measured? */
static bool covers(const struct kc_profile *profile, const struct kc_mixed_step *step,
                   const double *figure)
{
  double copy[KC_FEATURES_MAX];
  uint32_t count;
  const struct kc_feature *features = kc_mixed_features(&count);
  memcpy(copy, figure, count * sizeof copy[0]);
  if (step->prefill_tokens <= 0) { /* one side alone is held to the range of that side */
    return kc_fit_covers(&profile->mixed[KC_MIXED_DECODE], features, count, copy);
  }
  if (step->decodes <= 0) {
    return kc_fit_covers(&profile->mixed[KC_MIXED_PREFILL], features, count, copy);
  }
  return kc_fit_covers(&profile->mixed[KC_MIXED_BOTH], features, count, copy);
}

struct kc_op_time kc_profile_mixed_time(const struct kc_profile *profile,
                                        const struct kc_mixed_step *step)
{
  double figure[KC_FEATURES_MAX];
  KC_ASSERT(profile->kind == KC_PROFILE_LAYERED);
  KC_ASSERT(step->decodes <= 0 || step->decode_context > 0);
  kc_mixed_figures(step, figure);
  double us = kc_mixed_even_us(profile, step, step->decode_context);
  const struct kc_family_fit *spread = &profile->mixed[KC_MIXED_SPREAD];
  if (spread->present && step->decodes > 1 && step->decode_context_max > step->decode_context) {
    const double longest = kc_mixed_even_us(profile, step, step->decode_context_max);
    double share = kc_fit_correction(spread, mixed_features, figure);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    if (longest > us) us += share * (longest - us);
  }
  KC_ASSERT(us > 0);
  return (struct kc_op_time){us, covers(profile, step, figure) ? KC_TRUST_MEASURED
                                                               : KC_TRUST_EXTRAPOLATED};
}

int kc_profile_layer(const struct kc_profile *profile, const char *name)
{
  KC_ASSERT(name != NULL);
  KC_ASSERT(profile->layer_count <= KC_LAYERS_PER_PROFILE);
  for (uint32_t i = 0; i < profile->layer_count; i++) {
    if (strcmp(profile->layer[i].name, name) == 0) return (int)i;
  }
  return -1;
}

struct kc_op_time kc_profile_layer_time(const struct kc_profile *profile, int layer, double units)
{
  KC_ASSERT(layer >= 0 && (uint32_t)layer < profile->layer_count);
  KC_ASSERT(units > 0);
  const struct kc_family_fit *fit = &profile->layer[layer].fit;
  const bool inside = kc_fit_covers(fit, layer_features, 1, &units);
  double us = kc_exp2_exact(kc_fit_correction(fit, layer_features, &units));
  if (units > fit->high[0]) us *= units / fit->high[0]; /* more of the same */
  KC_ASSERT(us > 0);
  return (struct kc_op_time){us, inside ? KC_TRUST_MEASURED : KC_TRUST_EXTRAPOLATED};
}
