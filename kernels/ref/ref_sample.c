/* Choosing the next token: greedy, or exactly by the softmax with draws that need no state.
 *
 * Gumbel-max: adding -log(-log(u)) with independent u to each score and taking the largest draws
 * from the softmax of the scores (Gumbel 1954; Maddison, Tarlow and Minka 2014). Each token's u is
 * a function of (seed, position, token), so the choice does not depend on batch or order.
 */
#include <math.h>

#include "kernels/formats/counter.h"
#include "kernels/ops/op_math.h"
#include "kernels/ref/ref_internal.h"

static double perturbed(const struct kc_op_sample *op, uint32_t row, uint32_t token)
{
  const double logit = (double)op->logits[row * op->logits_stride + token];
  const float temperature = op->temperature == NULL ? 0.0f : op->temperature[row];
  if (isnan(logit)) return -(double)INFINITY;
  if (!(temperature > 0.0f)) return logit;
  const double u = (double)kc_sample_uniform(op->seed[row], op->position[row], token);
  return logit / (double)temperature - kc_math_log(-kc_math_log(u));
}

static bool masked(const struct kc_op_sample *op, uint32_t row)
{
  if (op->slot == NULL) return false;
  if (op->slot[row] == KC_NO_SLOT) return true;
  return op->verdict != NULL && op->verdict[op->slot[row]] != KC_VERDICT_CLEAR;
}

enum kc_op_status kc_ref_sample(void *context, const struct kc_op_sample *op)
{
  (void)context;
  if (!kc_op_sample_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    int32_t best = 0;
    double best_score = perturbed(op, row, 0);
    for (uint32_t token = 1; token < op->vocabulary; ++token) {
      const double score = perturbed(op, row, token);
      if (!(score > best_score)) continue;
      best_score = score;
      best = (int32_t)token;
    }
    op->token[row] = masked(op, row) ? -1 : best;
  }
  return KC_OP_OK;
}
