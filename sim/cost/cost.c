/* The duration of one step from its aggregates, in integers (see cost.h for the formula).
 *
 * Sums are in units of 2^-20 ps in 128 bits: a step of 10^9 context tokens on the slowest device
 * stays below 2^100. Rounded half up, once; the host's part apart.
 */
#include "sim/cost/cost_tables.h"
#include "sim/cost/exact.h"

static kc_u128 larger(kc_u128 a, kc_u128 b)
{
  return a > b ? a : b;
}

uint64_t kc_cost_coverage_q32(uint32_t experts, uint32_t per_token, uint64_t tokens)
{
  if (experts == 0) return 0;
  KC_ASSERT(per_token <= experts);
  const double miss = kc_power_exact(1.0 - (double)per_token / experts, tokens);
  const double covered = experts * (1.0 - miss);
  KC_ASSERT(covered <= experts);
  return (uint64_t)(covered * 4294967296.0 + 0.5);
}

static uint64_t covered_q32(const struct kc_cost *cost, uint64_t tokens)
{
  if (cost->skewed) return kc_coverage_look(cost->coverage_q32, tokens);
  return kc_cost_coverage_q32(cost->experts, cost->experts_per_token, tokens);
}

static kc_u128 dense_op(const struct kc_cost *cost, const struct kc_cost_op *op, uint64_t tokens,
                        uint64_t logits)
{
  const uint64_t units = op->kind == KC_COST_LOGITS ? logits : tokens;
  if (units == 0) return 0;
  kc_u128 bytes = op->byte_fixed;
  if (op->kind == KC_COST_EXPERTS) {
    const uint64_t covered = covered_q32(cost, tokens);
    KC_ASSERT(op->byte_fixed < (kc_u128)1 << 80);
    bytes = (op->byte_fixed * covered) >> 32;
  }
  bytes += op->byte_unit * units;
  return op->latency + larger(bytes, op->flop_unit * units);
}

kc_u128 kc_cost_dense(const struct kc_cost *cost, uint64_t tokens, uint64_t logits)
{
  kc_u128 total = 0;
  KC_ASSERT(cost->op_count <= KC_COST_OPS_MAX);
  KC_ASSERT(logits <= tokens);
  if (cost->tables != NULL) total = kc_cost_tables_dense(cost->tables, tokens, logits);
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

static kc_u128 expansion(const struct kc_cost *cost, const struct kc_cost_op *op,
                         const struct kc_aggregates *sum)
{
  if (sum->chunks == 0) return 0;
  if (op->cap < 0) return op->latency + op->byte_fixed;
  const uint64_t covered = covered_q32(cost, sum->decodes + sum->prefill_tokens);
  KC_ASSERT(op->byte_fixed < (kc_u128)1 << 80);
  return op->latency + ((op->byte_fixed * covered) >> 32);
}

static kc_u128 context_part(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  kc_u128 total = 0;
  if (cost->tables != NULL) total = kc_cost_tables_context(cost->tables, sum);
  for (uint32_t i = 0; i < cost->context_ops; i++) {
    const struct kc_cost_op *op = &cost->op[i];
    if (op->kind == KC_COST_DECODE_ATTENTION) {
      total += decode_attention(op, sum);
    } else if (op->kind == KC_COST_PREFILL_ATTENTION) {
      total += prefill_attention(op, sum);
    } else if (op->kind == KC_COST_EXPAND) {
      total += expansion(cost, op, sum);
    } else {
      total += op->latency + op->byte_unit * sum->table_entries;
    }
  }
  return total;
}

static kc_ps to_ps(kc_u128 units)
{
  const kc_u128 ps = (units + ((kc_u128)1 << (KC_COST_FRACTION_BITS - 1))) >> KC_COST_FRACTION_BITS;
  KC_ASSERT(ps < (kc_u128)KC_PS_NEVER);
  return (kc_ps)ps;
}

/* Outside a CUDA graph the host launches kernel by kernel, and a step takes as long as that. */
kc_ps kc_cost_finish(const struct kc_cost *cost, const struct kc_aggregates *sum, kc_u128 dense,
                     kc_ps *host_ps)
{
  kc_u128 total = dense + context_part(cost, sum);
  if (cost->scale_q16 != 0) total = (total * cost->scale_q16) >> 16;
  const kc_u128 kernels = total;
  const bool eager = sum->chunks > 0 || sum->decodes > cost->graph_tokens;
  KC_ASSERT(sum->decodes + sum->chunks > 0);
  if (eager && total < cost->eager_floor) total = cost->eager_floor;
  total += cost->host_step;
  if (sum->chunks > 0) total += cost->host_prompt;
  total += (kc_u128)cost->host_sequence * ((uint64_t)sum->decodes + sum->chunks);
  *host_ps = to_ps(total - kernels);
  const kc_ps duration_ps = to_ps(total);
  return duration_ps > 0 ? duration_ps : 1;
}

kc_ps kc_cost_step(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  kc_ps host_ps;
  return kc_cost_step_parts(cost, sum, &host_ps);
}

kc_ps kc_cost_step_parts(const struct kc_cost *cost, const struct kc_aggregates *sum,
                         kc_ps *host_ps)
{
  const uint64_t tokens = sum->decodes + sum->prefill_tokens;
  KC_ASSERT(tokens > 0);
  KC_ASSERT(sum->logits <= tokens);
  return kc_cost_finish(cost, sum, kc_cost_dense(cost, tokens, sum->logits), host_ps);
}

void kc_cost_free(struct kc_cost *cost)
{
  KC_ASSERT(cost != NULL);
  kc_cost_tables_free(cost->tables);
  cost->tables = NULL;
}

/* ---- ranges ---- */

static void widen(uint64_t *least, uint64_t *most, uint64_t low, uint64_t high)
{
  KC_ASSERT(low <= high && high > 0);
  if (*most == 0 || low < *least) *least = low;
  if (high > *most) *most = high;
}

void kc_cost_range_add(struct kc_cost_range *range, const struct kc_aggregates *sum)
{
  const uint64_t tokens = sum->decodes + sum->prefill_tokens;
  const uint64_t sequences = (uint64_t)sum->decodes + sum->chunks;
  widen(&range->tokens_min, &range->tokens_max, tokens, tokens);
  widen(&range->sequences_min, &range->sequences_max, sequences, sequences);
  if (sum->decodes == 0) return;
  const uint64_t mean = sum->decode_context / sum->decodes;
  widen(&range->context_min, &range->context_max, mean,
        mean + (mean * sum->decodes < sum->decode_context));
}

void kc_cost_range_join(struct kc_cost_range *range, const struct kc_cost_range *other)
{
  KC_ASSERT(other->tokens_min <= other->tokens_max);
  if (other->tokens_max == 0) return; /* no step at all */
  widen(&range->tokens_min, &range->tokens_max, other->tokens_min, other->tokens_max);
  widen(&range->sequences_min, &range->sequences_max, other->sequences_min,
        other->sequences_max);
  if (other->context_max == 0) return;
  widen(&range->context_min, &range->context_max, other->context_min, other->context_max);
}

static bool beyond(uint64_t value, uint64_t least, uint64_t most)
{
  return value < least || (most > 0 && value > most);
}

bool kc_cost_outside(const struct kc_cost *cost, const struct kc_aggregates *sum,
                     uint64_t *kernels)
{
  const struct kc_cost_range *range = &cost->range;
  const uint64_t tokens = sum->decodes + sum->prefill_tokens;
  const uint64_t sequences = (uint64_t)sum->decodes + sum->chunks;
  KC_ASSERT(tokens > 0);
  KC_ASSERT(sum->decode_context < UINT64_MAX / 2);
  if (cost->tables != NULL) {
    const uint64_t outside = kc_cost_tables_outside(cost->tables, sum);
    *kernels |= outside;
    if ((outside & ((UINT64_C(1) << KC_OUTSIDE_MINOR) - 1)) != 0) return true;
  }
  if (cost->foreign || beyond(tokens, range->tokens_min, range->tokens_max) ||
      beyond(sequences, range->sequences_min, range->sequences_max)) {
    return true;
  }
  const kc_u128 context = sum->decode_context;
  return context < (kc_u128)range->context_min * sum->decodes ||
         (range->context_max > 0 && context > (kc_u128)range->context_max * sum->decodes);
}

const char *kc_cost_level_name(enum kc_cost_level level)
{
  static const char *const names[] = {"calibrated", "extrapolated", "datasheet"};
  KC_ASSERT((unsigned)level < sizeof names / sizeof names[0]);
  return names[level];
}

const char *kc_cost_basis_name(enum kc_cost_basis basis)
{
  static const char *const names[] = {"datasheet", "kernels", "serving"};
  KC_ASSERT((unsigned)basis < sizeof names / sizeof names[0]);
  return names[basis];
}
