/* The measurement in the words of an entry (see fitted_to.h). */
#include "sim/calibrate/fitted_to.h"

#include <assert.h>
#include <stdio.h>

void kc_fitted_to(struct kc_gpu_profile *entry, const struct kc_scenario *scenario,
                  const struct kc_cost_range *seen)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  static_assert(sizeof entry->fitted_kv >= KC_KV_TEXT_BYTES, "fitted_kv holds any pair of formats");
  static_assert(sizeof entry->fitted_weights >= KC_WEIGHTS_TEXT_BYTES, "fitted_weights holds any");
  KC_ASSERT(seen->tokens_max > 0 && seen->sequences_max > 0);
  snprintf(entry->fitted_gpu, sizeof entry->fitted_gpu, "%s", pool->gpu.name);
  snprintf(entry->fitted_model, sizeof entry->fitted_model, "%s", scenario->model.name);
  entry->fitted_tensor = pool->memory.tensor;
  kc_precision_kv_text(&scenario->model, &pool->precision, entry->fitted_kv);
  kc_precision_weights_text(&scenario->model, &pool->precision, entry->fitted_weights);
  entry->batch_min = (double)seen->tokens_min;
  entry->batch_max = (double)seen->tokens_max;
  entry->sequences_min = (double)seen->sequences_min;
  entry->sequences_max = (double)seen->sequences_max;
  entry->context_min = (double)seen->context_min;
  entry->context_max = (double)seen->context_max;
}

void kc_fitted_to_this(struct kc_gpu_profile *entry)
{
  KC_ASSERT(entry != NULL);
  entry->calibrated = true;
  entry->fitted_model[0] = entry->fitted_kv[0] = entry->fitted_weights[0] = '\0';
  entry->fitted_gpu[0] = '\0';
  entry->fitted_tensor = 0;
  entry->batch_min = entry->batch_max = entry->sequences_min = entry->sequences_max = 0;
  entry->context_min = entry->context_max = 0;
  entry->left_out_count = 0;
}
