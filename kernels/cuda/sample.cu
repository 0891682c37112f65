/* Sampling: the highest score of a row, where a score is the logit, or the logit over the
 * temperature plus Gumbel noise, which draws from the softmax without sorting or summing it
 * (Gumbel 1954; the "Gumbel-max trick").
 *
 * A block has a row. Every thread keeps the best of its tokens, then warps and the block choose the
 * best of those; the lower token wins among equals, so the order of the choosing does not matter.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/formats/counter.h"
#include "kernels/ops/op_check.h"

enum : unsigned { SAMPLE_THREADS = 512 };

struct candidate {
  float score;
  uint32_t token;
};

KC_DEVICE struct candidate better(struct candidate a, struct candidate b)
{
  if (b.score > a.score || (b.score == a.score && b.token < a.token)) return b;
  return a;
}

KC_DEVICE struct candidate warp_best(struct candidate mine)
{
  KC_UNROLL
  for (unsigned mask = KC_LANES / 2; mask > 0; mask /= 2) {
    const struct candidate other = {kc_shuffle_xor(mine.score, mask),
                                    kc_shuffle_xor_u32(mine.token, mask)};
    mine = better(mine, other);
  }
  return mine;
}

KC_DEVICE float score_of(const struct kc_op_sample &op, unsigned row, uint32_t token,
                         float temperature)
{
  const float logit = op.logits[row * op.logits_stride + token];
  if (temperature == 0.0f) return logit;
  const float u = kc_sample_uniform(op.seed[row], op.position[row], token);
  return logit / temperature - kc_log(-kc_log(u));
}

__global__ void sample_kernel(KC_PARAMETER struct kc_op_sample op)
{
  kc_shared shared;
  const kc_tile<float> score = shared.take<float>(SAMPLE_THREADS / KC_LANES);
  const kc_tile<uint32_t> token = shared.take<uint32_t>(SAMPLE_THREADS / KC_LANES);
  const unsigned row = blockIdx.x;
  const float temperature = op.temperature != nullptr ? op.temperature[row] : 0.0f;
  struct candidate mine = {KC_NEG_INFINITY, UINT32_MAX};
  for (uint32_t i = threadIdx.x; i < op.vocabulary; i += blockDim.x) {
    const struct candidate next = {score_of(op, row, i, temperature), i};
    mine = better(mine, next); /* a NaN is neither greater nor equal */
  }
  mine = warp_best(mine);
  if (kc_lane() == 0) {
    score.set(kc_warp_index(), mine.score);
    token.set(kc_warp_index(), mine.token);
  }
  kc_sync_block();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < SAMPLE_THREADS / KC_LANES; ++i) {
    const struct candidate other = {score.get(i), token.get(i)};
    mine = better(mine, other);
  }
  const uint32_t slot = op.slot != nullptr ? op.slot[row] : 0;
  const bool none = op.slot != nullptr && slot == KC_NO_SLOT;
  const bool aborted = !none && op.slot != nullptr && op.verdict != nullptr &&
                       op.verdict[slot] != KC_VERDICT_CLEAR;
  const int32_t best = mine.token == UINT32_MAX ? 0 : (int32_t)mine.token;
  op.token[row] = none || aborted ? -1 : best;
}

enum kc_op_status kc_gpu_sample(void *context, const struct kc_op_sample *op)
{
  if (!kc_op_sample_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  return KC_LAUNCH(context, sample_kernel, dim3(op->rows), dim3(SAMPLE_THREADS),
                   kc_tile_bytes<float>(SAMPLE_THREADS / KC_LANES) +
                       kc_tile_bytes<uint32_t>(SAMPLE_THREADS / KC_LANES),
                   *op);
}
