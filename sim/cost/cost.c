/* The duration of one step from its aggregates, in integers (see cost.h for the formula).
 *
 * Sums are in units of 2^-20 ps in 128 bits: a step of 10^9 context tokens on the slowest device
 * stays below 2^100. Rounded half up, once.
 */
#include "sim/cost/cost.h"

static kc_u128 larger(kc_u128 a, kc_u128 b)
{
  return a > b ? a : b;
}

/* base^exponent by squaring: IEEE products in a fixed order, so the same bits everywhere (the build
 * forbids contraction into fused operations). */
static double power(double base, uint64_t exponent)
{
  double result = 1.0;
  KC_ASSERT(base >= 0.0 && base <= 1.0);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  KC_ASSERT(result >= 0.0 && result <= 1.0);
  return result;
}

uint64_t kc_cost_coverage_q32(uint32_t experts, uint32_t per_token, uint64_t tokens)
{
  if (experts == 0) return 0;
  KC_ASSERT(per_token <= experts);
  const double miss = power(1.0 - (double)per_token / experts, tokens);
  const double covered = experts * (1.0 - miss);
  KC_ASSERT(covered <= experts);
  return (uint64_t)(covered * 4294967296.0 + 0.5);
}

static kc_u128 dense_op(const struct kc_cost *cost, const struct kc_cost_op *op, uint64_t tokens,
                        uint64_t logits)
{
  const uint64_t units = op->kind == KC_COST_LOGITS ? logits : tokens;
  if (units == 0) return 0;
  kc_u128 bytes = op->byte_fixed;
  if (op->kind == KC_COST_EXPERTS) {
    const uint64_t covered = kc_cost_coverage_q32(cost->experts, cost->experts_per_token, tokens);
    KC_ASSERT(op->byte_fixed < (kc_u128)1 << 80);
    bytes = (op->byte_fixed * covered) >> 32;
  }
  bytes += op->byte_unit * units;
  return op->latency + larger(bytes, op->flop_unit * units);
}

kc_u128 kc_cost_dense(const struct kc_cost *cost, uint64_t tokens, uint64_t logits)
{
  kc_u128 total = cost->host_step;
  KC_ASSERT(cost->op_count <= KC_COST_OPS_MAX);
  KC_ASSERT(logits <= tokens);
  for (uint32_t i = cost->context_ops; i < cost->op_count; i++) {
    total += dense_op(cost, &cost->op[i], tokens, logits);
  }
  return total;
}

static kc_u128 decode_attention(const struct kc_cost_op *op, const struct kc_aggregates *sum)
{
  if (sum->decodes == 0) return 0;
  const uint64_t context = op->cap < 0 ? sum->decode_context : sum->decode_capped[op->cap];
  KC_ASSERT(context >= sum->decodes);
  const kc_u128 bytes = op->byte_unit * context + op->byte_write * sum->decodes;
  return op->latency + larger(bytes, op->flop_unit * context);
}

static kc_u128 prefill_attention(const struct kc_cost_op *op, const struct kc_aggregates *sum)
{
  if (sum->chunks == 0) return 0;
  const bool whole = op->cap < 0;
  const uint64_t context = whole ? sum->prefill_context : sum->prefill_capped_context[op->cap];
  const uint64_t pairs = whole ? sum->prefill_pairs : sum->prefill_capped_pairs[op->cap];
  KC_ASSERT(pairs >= sum->prefill_tokens);
  const kc_u128 bytes = op->byte_unit * context + op->byte_write * sum->prefill_tokens;
  return op->latency + larger(bytes, op->flop_unit * pairs);
}

kc_u128 kc_cost_context(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  kc_u128 total = 0;
  for (uint32_t i = 0; i < cost->context_ops; i++) {
    const struct kc_cost_op *op = &cost->op[i];
    if (op->kind == KC_COST_DECODE_ATTENTION) {
      total += decode_attention(op, sum);
    } else if (op->kind == KC_COST_PREFILL_ATTENTION) {
      total += prefill_attention(op, sum);
    } else {
      total += op->latency + op->byte_unit * sum->table_entries;
    }
  }
  return total;
}

kc_ps kc_cost_round(kc_u128 units)
{
  const kc_u128 ps = (units + ((kc_u128)1 << (KC_COST_FRACTION_BITS - 1))) >> KC_COST_FRACTION_BITS;
  KC_ASSERT(ps < (kc_u128)KC_PS_NEVER);
  return ps > 0 ? (kc_ps)ps : 1;
}

kc_ps kc_cost_step(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  const uint64_t tokens = sum->decodes + sum->prefill_tokens;
  KC_ASSERT(tokens > 0);
  KC_ASSERT(sum->logits <= tokens);
  return kc_cost_round(kc_cost_dense(cost, tokens, sum->logits) + kc_cost_context(cost, sum));
}
