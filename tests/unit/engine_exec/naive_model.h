/* The whole model once more, the slow and plain way: double throughout, no pages, no cache, no
 * absorption, no sorting of experts; only tables of weights are shared with what it checks. */
#ifndef KC_TESTS_NAIVE_MODEL_H
#define KC_TESTS_NAIVE_MODEL_H

#include "engine/exec/weights.h"

/* Logits after the last of `count` tokens, [vocabulary]. The weights must be bf16. */
void naive_logits(const struct kc_weights *weights, const int32_t *token, uint32_t count,
                  double *logits);

#endif
