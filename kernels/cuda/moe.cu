/* Mixture of experts: choosing experts for a row, and sorting the choices by expert.
 *
 *   route   a warp a row. Scores and choice scores lie in shared memory; the best is taken `top`
 *           times, each time by a scan of the lanes and a reduction, the lower index among equals
 *   sort    a warp an expert, and one more for what belongs to none. Each warp counts the choices
 *           of lower experts (that is where its own begin) and then writes its own in order, so the
 *           sort is stable, needs no atomics, and no warp waits for another; it reads the choices
 *           twice, which for a step's few thousand is nothing
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/ops/op_check.h"

enum : unsigned {
  ROUTE_WARPS = 4,
  ROUTE_THREADS = ROUTE_WARPS * KC_LANES,
  SORT_WARPS = 8,
  SORT_THREADS = SORT_WARPS * KC_LANES
};

/* ---- route ---- */

/* A warp's part of shared memory, one element an expert or a group. */
struct route_memory {
  kc_tile<float> score, choice, group;
  kc_tile<uint32_t> taken;
};

KC_DEVICE float logit_of(const struct kc_op_route &op, unsigned row, unsigned e)
{
  const float logit = op.logits[row * op.logits_stride + e];
  return logit == logit ? logit : KC_NEG_INFINITY;
}

/* Scores of a row: softmax or sigmoid. */
KC_DEVICE void score_row(const struct kc_op_route &op, unsigned row,
                         const struct route_memory &memory)
{
  const bool softmax = op.score == KC_ROUTE_SOFTMAX;
  float most = KC_NEG_INFINITY, sum = 0.0f;
  for (unsigned e = kc_lane(); softmax && e < op.experts; e += KC_LANES) {
    most = kc_max(most, logit_of(op, row, e));
  }
  most = kc_warp_max(most);
  if (most == KC_NEG_INFINITY) most = 0.0f;
  for (unsigned e = kc_lane(); softmax && e < op.experts; e += KC_LANES) {
    sum += kc_exp(logit_of(op, row, e) - most);
  }
  sum = kc_warp_sum(sum);
  for (unsigned e = kc_lane(); e < op.experts; e += KC_LANES) {
    const float logit = logit_of(op, row, e);
    const float score = softmax ? kc_exp(logit - most) / sum : 1.0f / (1.0f + kc_exp(-logit));
    memory.score.set(e, score);
    memory.choice.set(e, score + (op.bias != nullptr ? op.bias[e] : 0.0f));
    memory.taken.set(e, op.groups > 1);
  }
}

/* Index of the largest value not taken, the lowest among equals, in every lane. At least one is
 * not taken. */
KC_DEVICE unsigned take_largest(const kc_tile<float> &value, const kc_tile<uint32_t> &taken,
                                unsigned count)
{
  float best = KC_NEG_INFINITY;
  uint32_t index = UINT32_MAX;
  for (unsigned i = kc_lane(); i < count; i += KC_LANES) {
    if (taken.get(i) != 0) continue;
    const float mine = value.get(i);
    if (index != UINT32_MAX && !(mine > best)) continue;
    best = mine;
    index = i;
  }
  KC_UNROLL
  for (unsigned mask = KC_LANES / 2; mask > 0; mask /= 2) {
    const float other = kc_shuffle_xor(best, mask);
    const uint32_t at = kc_shuffle_xor_u32(index, mask);
    if (at == UINT32_MAX) continue;
    if (index == UINT32_MAX || other > best || (other == best && at < index)) {
      best = other;
      index = at;
    }
  }
  return index;
}

/* The sum of a group's two highest choice scores if there is a bias, else its highest. */
KC_DEVICE float group_score(const struct kc_op_route &op, const kc_tile<float> &choice,
                            unsigned first, unsigned size)
{
  float highest = KC_NEG_INFINITY, second = KC_NEG_INFINITY;
  for (unsigned i = 0; i < size; ++i) {
    const float mine = choice.get(first + i);
    second = kc_max(second, kc_min(mine, highest));
    highest = kc_max(highest, mine);
  }
  return op.bias != nullptr && size > 1 ? highest + second : highest;
}

/* All experts are taken so far; those of the best groups are set free. */
KC_DEVICE void free_groups(const struct kc_op_route &op, const struct route_memory &memory,
                           const kc_tile<uint32_t> &group_taken)
{
  const unsigned size = op.experts / op.groups;
  for (unsigned g = kc_lane(); g < op.groups; g += KC_LANES) {
    memory.group.set(g, group_score(op, memory.choice, g * size, size));
    group_taken.set(g, 0);
  }
  kc_sync_warp();
  for (unsigned n = 0; n < op.groups_top; ++n) {
    const unsigned g = take_largest(memory.group, group_taken, op.groups);
    kc_sync_warp();
    if (kc_lane() == 0) group_taken.set(g, 1);
    for (unsigned i = kc_lane(); i < size; i += KC_LANES) memory.taken.set(g * size + i, 0);
    kc_sync_warp();
  }
}

__global__ void KC_BOUNDS(ROUTE_THREADS, 4) route_kernel(KC_PARAMETER struct kc_op_route op)
{
  kc_shared shared;
  const unsigned count = ROUTE_WARPS * op.experts, mine = kc_warp_index() * op.experts;
  const struct route_memory memory = {shared.take<float>(count).from(mine),
                                      shared.take<float>(count).from(mine),
                                      shared.take<float>(count).from(mine),
                                      shared.take<uint32_t>(count).from(mine)};
  const kc_tile<uint32_t> group_taken = shared.take<uint32_t>(count).from(mine);
  const unsigned row = blockIdx.x * ROUTE_WARPS + kc_warp_index();
  if (row >= op.rows) return;
  score_row(op, row, memory);
  kc_sync_warp();
  if (op.groups > 1) free_groups(op, memory, group_taken);
  float sum = 0.0f, own = 0.0f; /* lane i keeps the score of choice i */
  for (unsigned i = 0; i < op.top; ++i) {
    const unsigned e = take_largest(memory.choice, memory.taken, op.experts);
    const float score = memory.score.get(e);
    kc_sync_warp();
    if (kc_lane() == 0) memory.taken.set(e, 1);
    kc_sync_warp();
    if (kc_lane() == i) own = score;
    if (kc_lane() == i) op.expert[row * op.top + i] = (int32_t)e;
    sum += score;
  }
  const float scale = op.normalise ? op.factor / (sum + 1e-20f) : op.factor;
  if (kc_lane() < op.top) op.weight[row * op.top + kc_lane()] = own * scale;
}

enum kc_op_status kc_gpu_route(void *context, const struct kc_op_route *op)
{
  if (!kc_op_route_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  return KC_LAUNCH(context, route_kernel, dim3(kc_ceil_div(op->rows, ROUTE_WARPS)),
                   dim3(ROUTE_THREADS), 5 * kc_tile_bytes<float>(ROUTE_WARPS * op->experts), *op);
}

/* ---- sort ---- */

/* The expert of a choice as this rank counts them; `experts` for another rank's. */
KC_DEVICE unsigned local_expert(const struct kc_op_moe_sort &op, uint64_t choice)
{
  const int64_t local = (int64_t)op.expert[choice] - op.expert_first;
  return local >= 0 && local < op.experts ? (unsigned)local : op.experts;
}

/* How many choices have an expert below e. */
KC_DEVICE unsigned count_below(const struct kc_op_moe_sort &op, unsigned e, uint64_t choices)
{
  unsigned count = 0;
  for (uint64_t first = 0; first < choices; first += KC_LANES) {
    const uint64_t c = first + kc_lane();
    count += (unsigned)kc_popcount(kc_ballot(c < choices && local_expert(op, c) < e));
  }
  return count;
}

__global__ void KC_BOUNDS(SORT_THREADS, 4) moe_sort_kernel(KC_PARAMETER struct kc_op_moe_sort op)
{
  const unsigned e = blockIdx.x * SORT_WARPS + kc_warp_index();
  const uint64_t choices = (uint64_t)op.rows * op.top;
  if (e > op.experts) return;
  unsigned next = count_below(op, e, choices);
  if (kc_lane() == 0) op.first[e] = next;
  for (uint64_t first = 0; first < choices; first += KC_LANES) {
    const uint64_t c = first + kc_lane();
    const bool mine = c < choices && local_expert(op, c) == e;
    const uint32_t votes = kc_ballot(mine);
    const unsigned before = (unsigned)kc_popcount(votes & ((1u << kc_lane()) - 1));
    if (mine && e < op.experts) {
      op.place[c] = (int32_t)(next + before);
      op.source[next + before] = (int32_t)(c / op.top);
    }
    if (mine && e == op.experts) { /* another rank's; each empties one position at the end */
      op.place[c] = -1;
      op.source[next + before] = -1;
    }
    next += (unsigned)kc_popcount(votes);
  }
}

enum kc_op_status kc_gpu_moe_sort(void *context, const struct kc_op_moe_sort *op)
{
  if (!kc_op_moe_sort_valid(op)) return KC_OP_BAD;
  return KC_LAUNCH(context, moe_sort_kernel, dim3(kc_ceil_div(op->experts + 1, SORT_WARPS)),
                   dim3(SORT_THREADS), 0, *op);
}
