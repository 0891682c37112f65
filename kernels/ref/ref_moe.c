/* Mixture of experts: who is chosen, rows sorted by expert, their outputs summed.
 *
 *   logits [row][expert] -> scores s -> choice scores c = s + bias
 *   groups of experts    -> the best groups stay -> the best `top` experts of those
 *
 * Choosing is by repeated scan for the largest: at most 16 out of 512, and the order among equals
 * (lower index first) is plain to see.
 */
#include <math.h>

#include "kernels/ops/op_math.h"
#include "kernels/ref/ref_internal.h"

struct scores {
  double score[KC_EXPERTS_MAX];  /* s: what weights are made of */
  double choice[KC_EXPERTS_MAX]; /* c: what decides; -infinity once out */
};

static void softmax_scores(const double *logit, uint32_t count, double *score)
{
  double max = -(double)INFINITY, sum = 0.0;
  for (uint32_t e = 0; e < count; ++e) max = logit[e] > max ? logit[e] : max;
  if (isinf(max)) max = 0.0;
  for (uint32_t e = 0; e < count; ++e) sum += kc_math_exp(logit[e] - max);
  for (uint32_t e = 0; e < count; ++e) score[e] = kc_math_exp(logit[e] - max) / sum;
}

static void score_row(const struct kc_op_route *op, uint32_t row, struct scores *scores)
{
  double logit[KC_EXPERTS_MAX];
  for (uint32_t e = 0; e < op->experts; ++e) {
    const double value = (double)op->logits[row * op->logits_stride + e];
    logit[e] = isnan(value) ? -(double)INFINITY : value;
  }
  if (op->score == KC_ROUTE_SOFTMAX) {
    softmax_scores(logit, op->experts, scores->score);
  } else {
    for (uint32_t e = 0; e < op->experts; ++e) {
      scores->score[e] = 1.0 / (1.0 + kc_math_exp(-logit[e]));
    }
  }
  for (uint32_t e = 0; e < op->experts; ++e) {
    scores->choice[e] = scores->score[e] + (op->bias == NULL ? 0.0 : (double)op->bias[e]);
  }
}

/* Index of the largest value, the lowest among equals; count >= 1. A value of -infinity counts as
 * the least, so that something is always chosen. */
static uint32_t largest(const double *value, const bool *taken, uint32_t count)
{
  uint32_t best = count;
  for (uint32_t i = 0; i < count; ++i) {
    if (taken[i]) continue;
    if (best == count || value[i] > value[best]) best = i;
  }
  return best;
}

static double group_score(const struct kc_op_route *op, const double *choice, uint32_t size)
{
  double first = -(double)INFINITY, second = -(double)INFINITY;
  for (uint32_t i = 0; i < size; ++i) {
    if (choice[i] > first) {
      second = first;
      first = choice[i];
    } else if (choice[i] > second) {
      second = choice[i];
    }
  }
  return op->bias != NULL && size > 1 ? first + second : first;
}

/* Marks the experts of groups that do not stay as taken. */
static void drop_groups(const struct kc_op_route *op, const struct scores *scores, bool *taken)
{
  const uint32_t size = op->experts / op->groups;
  double value[KC_EXPERTS_MAX];
  bool stays[KC_EXPERTS_MAX] = {false};
  for (uint32_t g = 0; g < op->groups; ++g) {
    value[g] = group_score(op, scores->choice + g * size, size);
  }
  for (uint32_t i = 0; i < op->groups_top; ++i) stays[largest(value, stays, op->groups)] = true;
  for (uint32_t e = 0; e < op->experts; ++e) taken[e] = !stays[e / size];
}

static void route_row(const struct kc_op_route *op, uint32_t row)
{
  struct scores scores;
  bool taken[KC_EXPERTS_MAX];
  score_row(op, row, &scores);
  drop_groups(op, &scores, taken);
  double sum = 0.0, chosen[KC_EXPERTS_TOP_MAX];
  for (uint32_t i = 0; i < op->top; ++i) {
    const uint32_t e = largest(scores.choice, taken, op->experts);
    taken[e] = true;
    op->expert[(uint64_t)row * op->top + i] = (int32_t)e;
    chosen[i] = scores.score[e];
    sum += chosen[i];
  }
  const double scale = (double)op->factor / (op->normalise ? sum + 1e-20 : 1.0);
  for (uint32_t i = 0; i < op->top; ++i) {
    op->weight[(uint64_t)row * op->top + i] = (float)(chosen[i] * scale);
  }
}

enum kc_op_status kc_ref_route(void *context, const struct kc_op_route *op)
{
  (void)context;
  if (!kc_op_route_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) route_row(op, row);
  return KC_OP_OK;
}

static uint32_t local_expert(const struct kc_op_moe_sort *op, uint64_t choice)
{
  const int64_t local = (int64_t)op->expert[choice] - op->expert_first;
  return local >= 0 && local < op->experts ? (uint32_t)local : op->experts;
}

enum kc_op_status kc_ref_moe_sort(void *context, const struct kc_op_moe_sort *op)
{
  (void)context;
  if (!kc_op_moe_sort_valid(op)) return KC_OP_BAD;
  const uint64_t choices = (uint64_t)op->rows * op->top;
  uint32_t next[KC_EXPERTS_MAX + 1] = {0};
  for (uint64_t c = 0; c < choices; ++c) next[local_expert(op, c)] += 1;
  uint32_t start = 0;
  for (uint32_t e = 0; e < op->experts; ++e) {
    const uint32_t count = next[e];
    op->first[e] = next[e] = start;
    start += count;
  }
  op->first[op->experts] = start;
  for (uint64_t c = start; c < choices; ++c) op->source[c] = -1;
  for (uint64_t c = 0; c < choices; ++c) {
    const uint32_t e = local_expert(op, c);
    const bool here = e < op->experts;
    op->place[c] = here ? (int32_t)next[e] : -1;
    if (here) op->source[next[e]++] = (int32_t)(c / op->top);
  }
  return KC_OP_OK;
}

enum kc_op_status kc_ref_moe_combine(void *context, const struct kc_op_moe_combine *op)
{
  (void)context;
  if (!kc_op_moe_combine_valid(op)) return KC_OP_BAD;
  for (uint32_t row = 0; row < op->rows; ++row) {
    const int32_t *place = op->place + (uint64_t)row * op->top;
    const float *weight = op->weight + (uint64_t)row * op->top;
    uint16_t *out = op->out + row * op->out_stride;
    for (uint32_t i = 0; i < op->width; ++i) {
      double sum = 0.0;
      for (uint32_t c = 0; c < op->top; ++c) {
        if (place[c] < 0) continue;
        const uint16_t y = op->y[(uint64_t)place[c] * op->y_stride + i];
        sum += (double)weight[c] * (double)kc_bf16_decode(y);
      }
      if (op->base != NULL) sum += (double)kc_bf16_decode(op->base[row * op->base_stride + i]);
      out[i] = kc_ref_bf16(sum);
    }
  }
  return KC_OP_OK;
}
