/* Two models of a few ten thousand parameters, one of each kind that the engine runs. */
#ifndef KC_TESTS_TINY_MODELS_H
#define KC_TESTS_TINY_MODELS_H

#include "engine/exec/weights.h"

/* Grouped-query attention, dense MLP, Llama 3's frequency scaling. */
extern const char tiny_gqa_config[];
/* Latent attention with a query rank, experts in groups with bias, a shared expert, YaRN. */
extern const char tiny_mla_config[];

void tiny_recipe(struct kc_recipe *recipe, const char *config);
/* Synthetic weights, bf16 but for the classes that `precision` names. */
void tiny_weights(struct kc_weights *weights, const char *config, const char *precision,
                  uint32_t positions, uint64_t seed);
void tiny_weights_at(struct kc_weights *weights, const struct kc_site *site, const char *config,
                     const char *precision, uint32_t positions, uint64_t seed);

#endif
