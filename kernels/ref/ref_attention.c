/* Paged attention: decode in planned splits, and causal prefill, over GQA heads or MLA latents.
 *
 *   lane    one query vector with its last token, a running maximum, a running sum, an output
 *   tile    32 tokens of K and V, decoded once for up to LANES lanes that share the kv head
 *
 *   decode    lanes = query heads of a kv head's group, all with the same range of tokens
 *   prefill   lanes = (position, query head) pairs; position p ends after token p: the causal mask
 *
 * The softmax is taken on line (Milakov and Gimelshein 2018): after each tile a lane's sum and
 * output are rescaled to the new maximum. A split writes its normalised output with its
 * log-sum-exp; the merge weighs them by exp(lse - max lse), in order of the splits, so any plan
 * gives the same result up to rounding, and one plan always the same bits.
 */
#include <math.h>
#include <string.h>

#include "kernels/ops/op_math.h"
#include "kernels/ref/ref_internal.h"

enum { LANES = 16 };
_Static_assert((int)KC_REF_TILE <= (int)KC_MATH_BATCH, "a tile of scores is one batch");

struct lane {
  const uint16_t *q;
  uint32_t end; /* attends to tokens before this one */
  double max, sum;
  double out[KC_REF_DIM_MAX];
};

struct bundle {
  struct lane lane[LANES];
  uint32_t count;
  float k[KC_REF_DIM_MAX * KC_REF_TILE];
  float v[KC_REF_DIM_MAX * KC_REF_TILE];
};

struct source {
  const struct kc_kv_layer *layer;
  const struct kc_page_ref *row;
  uint32_t head;
  float scale;
};

static void lane_start(struct lane *lane, const uint16_t *q, uint32_t end, uint32_t dim)
{
  lane->q = q;
  lane->end = end;
  lane->max = -(double)INFINITY;
  lane->sum = 0.0;
  for (uint32_t i = 0; i < dim; ++i) lane->out[i] = 0.0;
}

static void tile_scores(const struct lane *lane, const float *k, uint32_t dim, double scale,
                        double *score)
{
  for (uint32_t t = 0; t < KC_REF_TILE; ++t) score[t] = 0.0;
  for (uint32_t i = 0; i < dim; ++i) {
    const double q = (double)kc_bf16_decode(lane->q[i]);
    for (uint32_t t = 0; t < KC_REF_TILE; ++t) score[t] += q * (double)k[i * KC_REF_TILE + t];
  }
  for (uint32_t t = 0; t < KC_REF_TILE; ++t) score[t] *= scale;
}

/* Tokens [start, start + count) of a tile into one lane; count >= 1. */
static void lane_take(struct lane *lane, const struct bundle *bundle, const struct source *source,
                      uint32_t count)
{
  const uint32_t dim = kc_kv_value_dim(source->layer);
  double score[KC_REF_TILE];
  tile_scores(lane, bundle->k, kc_kv_query_dim(source->layer), (double)source->scale, score);
  double max = lane->max;
  for (uint32_t t = 0; t < count; ++t) max = score[t] > max ? score[t] : max;
  const double shrink = kc_math_exp(lane->max - max);
  lane->sum *= shrink;
  for (uint32_t i = 0; i < dim; ++i) lane->out[i] *= shrink;
  lane->max = max;
  for (uint32_t t = 0; t < count; ++t) score[t] -= max;
  kc_math_exp_batch(score, count);
  for (uint32_t t = 0; t < count; ++t) {
    const float *v = bundle->v + t * dim;
    lane->sum += score[t];
    for (uint32_t i = 0; i < dim; ++i) lane->out[i] += score[t] * (double)v[i];
  }
}

/* Runs all lanes over tokens [start, end). */
static void bundle_run(struct bundle *bundle, const struct source *source, uint32_t start,
                       uint32_t end)
{
  for (uint32_t first = start; first < end; first += KC_REF_TILE) {
    const uint32_t count = end - first < KC_REF_TILE ? end - first : KC_REF_TILE;
    kc_ref_read_k(source->layer, source->row, source->head, first, count, bundle->k);
    kc_ref_read_v(source->layer, source->row, source->head, first, count, bundle->v);
    for (uint32_t i = 0; i < bundle->count; ++i) {
      struct lane *lane = &bundle->lane[i];
      if (lane->end <= first) continue;
      const uint32_t visible = lane->end - first;
      lane_take(lane, bundle, source, visible < count ? visible : count);
    }
  }
}

static double lane_lse(const struct lane *lane)
{
  return lane->sum > 0.0 ? lane->max + kc_math_log(lane->sum) : -(double)INFINITY;
}

static void lane_store(const struct lane *lane, uint16_t *out, uint32_t dim)
{
  for (uint32_t i = 0; i < dim; ++i) out[i] = kc_ref_bf16(lane->out[i] / lane->sum);
}

static bool shapes_fit(const struct kc_kv_layer *layer)
{
  return kc_kv_query_dim(layer) <= KC_REF_DIM_MAX;
}

/* ---- decode ---- */

static bool row_masked(const struct kc_op_decode *op, uint32_t row)
{
  const uint32_t slot = op->slot[row];
  return slot == KC_NO_SLOT || op->context[row] == 0 ||
         (op->verdict != NULL && op->verdict[slot] != KC_VERDICT_CLEAR);
}

static void store_split(const struct kc_op_decode *op, const struct kc_split *split,
                        uint32_t q_head, const struct lane *lane)
{
  const uint32_t dim = kc_kv_value_dim(&op->layer);
  if (split->partial == KC_PARTIAL_NONE) {
    lane_store(lane, op->out + split->row * op->out_stride + (uint64_t)q_head * dim, dim);
    if (op->lse == NULL) return;
    op->lse[(uint64_t)split->row * op->q_heads + q_head] = (float)lane_lse(lane);
    return;
  }
  const uint64_t at = (uint64_t)split->partial * op->q_heads + q_head;
  float *out = op->partial_out + at * dim;
  for (uint32_t i = 0; i < dim; ++i) out[i] = (float)(lane->out[i] / lane->sum);
  op->partial_lse[at] = (float)lane_lse(lane);
}

/* The query heads of one kv head over one split. */
static void split_head(const struct kc_op_decode *op, const struct kc_split *split,
                       uint32_t kv_head, struct bundle *bundle)
{
  const uint32_t group = op->q_heads / op->layer.kv_heads;
  const uint32_t q_dim = kc_kv_query_dim(&op->layer), v_dim = kc_kv_value_dim(&op->layer);
  const uint64_t slot = op->slot[split->row];
  const struct source source = {&op->layer, op->table.entry + slot * op->table.stride, kv_head,
                                op->scale};
  for (uint32_t first = 0; first < group; first += LANES) {
    const uint32_t q_head = kv_head * group + first;
    bundle->count = group - first < LANES ? group - first : LANES;
    for (uint32_t i = 0; i < bundle->count; ++i) {
      const uint64_t at = split->row * op->q_stride + (uint64_t)(q_head + i) * q_dim;
      lane_start(&bundle->lane[i], op->q + at, split->start + split->count, v_dim);
    }
    bundle_run(bundle, &source, split->start, split->start + split->count);
    for (uint32_t i = 0; i < bundle->count; ++i) {
      store_split(op, split, q_head + i, &bundle->lane[i]);
    }
  }
}

/* One head of a row of several splits. */
static void merge_head(const struct kc_op_decode *op, uint32_t row, uint32_t q_head)
{
  const uint32_t dim = kc_kv_value_dim(&op->layer);
  const uint32_t first = op->plan.row_first[row], end = op->plan.row_first[row + 1];
  double max = -(double)INFINITY, sum = 0.0, out[KC_REF_DIM_MAX] = {0};
  for (uint32_t p = first; p < end; ++p) {
    const double lse = (double)op->partial_lse[(uint64_t)p * op->q_heads + q_head];
    if (lse > max) max = lse;
  }
  for (uint32_t p = first; p < end; ++p) {
    const uint64_t at = (uint64_t)p * op->q_heads + q_head;
    const double weight = kc_math_exp((double)op->partial_lse[at] - max);
    sum += weight;
    for (uint32_t i = 0; i < dim; ++i) out[i] += weight * (double)op->partial_out[at * dim + i];
  }
  uint16_t *to = op->out + row * op->out_stride + (uint64_t)q_head * dim;
  for (uint32_t i = 0; i < dim; ++i) to[i] = kc_ref_bf16(out[i] / sum);
  if (op->lse != NULL) {
    op->lse[(uint64_t)row * op->q_heads + q_head] = (float)(max + kc_math_log(sum));
  }
}

static void zero_row(const struct kc_op_decode *op, uint32_t row)
{
  const uint64_t width = (uint64_t)op->q_heads * kc_kv_value_dim(&op->layer);
  memset(op->out + row * op->out_stride, 0, width * sizeof *op->out);
  for (uint32_t head = 0; op->lse != NULL && head < op->q_heads; ++head) {
    op->lse[(uint64_t)row * op->q_heads + head] = -INFINITY;
  }
}

enum kc_op_status kc_ref_decode(void *context, const struct kc_op_decode *op)
{
  (void)context;
  if (!kc_op_decode_valid(op)) return KC_OP_BAD;
  if (!shapes_fit(&op->layer)) return KC_OP_UNSUPPORTED;
  struct bundle bundle;
  for (uint32_t s = 0; s < op->plan.split_count; ++s) {
    const struct kc_split *split = &op->plan.split[s];
    if (split->row == KC_NO_SLOT || row_masked(op, split->row)) continue;
    for (uint32_t head = 0; head < op->layer.kv_heads; ++head) {
      split_head(op, split, head, &bundle);
    }
  }
  for (uint32_t row = 0; row < op->rows; ++row) {
    if (row_masked(op, row)) {
      zero_row(op, row);
    } else if (op->plan.row_first[row] != op->plan.row_first[row + 1]) {
      for (uint32_t head = 0; head < op->q_heads; ++head) merge_head(op, row, head);
    }
  }
  return KC_OP_OK;
}

/* ---- prefill ---- */

/* Lanes [first, first + count) of a chunk and kv head: lane = position * group + head in group. */
static void prefill_lanes(const struct kc_op_prefill *op, const struct kc_attention_chunk *chunk,
                          uint32_t kv_head, uint64_t first, struct bundle *bundle)
{
  const uint32_t group = op->q_heads / op->layer.kv_heads;
  const uint32_t q_dim = kc_kv_query_dim(&op->layer), v_dim = kc_kv_value_dim(&op->layer);
  const uint64_t total = (uint64_t)chunk->count * group;
  const struct source source = {
      &op->layer, op->table.entry + (uint64_t)chunk->slot * op->table.stride, kv_head, op->scale};
  uint32_t end = 0;
  bundle->count = (uint32_t)(total - first < LANES ? total - first : LANES);
  for (uint32_t i = 0; i < bundle->count; ++i) {
    const uint64_t token = (first + i) / group, head = kv_head * group + (first + i) % group;
    const uint16_t *q = op->q + (chunk->row + token) * op->q_stride + head * q_dim;
    end = chunk->start + (uint32_t)token + 1;
    lane_start(&bundle->lane[i], q, end, v_dim);
  }
  bundle_run(bundle, &source, 0, end);
  for (uint32_t i = 0; i < bundle->count; ++i) {
    const uint64_t token = (first + i) / group, head = kv_head * group + (first + i) % group;
    lane_store(&bundle->lane[i], op->out + (chunk->row + token) * op->out_stride + head * v_dim,
               v_dim);
  }
}

static void prefill_chunk(const struct kc_op_prefill *op, const struct kc_attention_chunk *chunk,
                          struct bundle *bundle)
{
  const uint64_t lanes = (uint64_t)chunk->count * (op->q_heads / op->layer.kv_heads);
  for (uint32_t head = 0; head < op->layer.kv_heads; ++head) {
    for (uint64_t first = 0; first < lanes; first += LANES) {
      prefill_lanes(op, chunk, head, first, bundle);
    }
  }
}

static void zero_chunk(const struct kc_op_prefill *op, const struct kc_attention_chunk *chunk)
{
  const uint64_t width = (uint64_t)op->q_heads * kc_kv_value_dim(&op->layer);
  for (uint32_t i = 0; i < chunk->count; ++i) {
    memset(op->out + (uint64_t)(chunk->row + i) * op->out_stride, 0, width * sizeof *op->out);
  }
}

enum kc_op_status kc_ref_prefill(void *context, const struct kc_op_prefill *op)
{
  (void)context;
  if (!kc_op_prefill_valid(op)) return KC_OP_BAD;
  if (!shapes_fit(&op->layer)) return KC_OP_UNSUPPORTED;
  struct bundle bundle;
  for (uint32_t c = 0; c < op->chunks; ++c) {
    const struct kc_attention_chunk *chunk = &op->chunk[c];
    const bool masked = chunk->slot == KC_NO_SLOT ||
                        (op->verdict != NULL && op->verdict[chunk->slot] != KC_VERDICT_CLEAR);
    if (masked) {
      zero_chunk(op, chunk);
    } else {
      prefill_chunk(op, chunk, &bundle);
    }
  }
  return KC_OP_OK;
}
