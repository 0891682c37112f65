/* Decode attention over paged GQA caches, in splits planned on the host, and the merge of splits.
 *
 *   block   a split of a row (tokens [start, start + count)) and a kv head: its query heads, up to
 *           16 of them, are the rows of the product
 *   warp    every fourth tile of 16 tokens, in a pipeline of its own: STAGES tiles of K and V on
 *           their way by cp.async; no barrier of the block until the end
 *   end     the four warps' (max, sum, output) are merged through shared memory
 *   merge   a second kernel weighs the splits of a row by their log-sum-exp, in order, and zeroes
 *           what is masked
 *
 * Why warps by themselves: decode is bound by memory; a warp that waits for its own copies only
 * keeps the others' under way, and 16 queries fill the product's rows whatever the group size.
 * Bytes under way on an SM: 2 blocks x 4 warps x 2 stages x 8 KiB = 128 KiB for BF16 of 128 dims,
 * some three times what latency times bandwidth asks for.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/op_check.h"

enum : unsigned { WARPS = 4, DECODE_THREADS = WARPS * KC_LANES, TILE = 16, MERGE_THREADS = 128 };

template <unsigned D, bool K8, bool V8>
struct decode_shape {
  using k_shape = kv_shape<D, K8>;
  using v_shape = kv_shape<D, V8>;
  enum : unsigned {
    K_BYTES = TILE * k_shape::ROW_BYTES,
    V_BYTES = TILE * v_shape::ROW_BYTES,
    STAGE_BYTES = K_BYTES + V_BYTES,
    STAGES = STAGE_BYTES > 4096 ? 3 : 4,
    PIPE_BYTES = STAGES * STAGE_BYTES,      /* of a warp */
    MERGE_BYTES = QUERIES * D * (int)sizeof(float),
    WARP_BYTES = PIPE_BYTES > MERGE_BYTES ? PIPE_BYTES : MERGE_BYTES,
    BLOCKS = D > 128 ? 1 : D > 64 ? 2 : 3
  };
};

/* What a warp needs to fetch tiles. */
struct decode_source {
  const struct kc_page_ref *row;
  uint32_t start, end; /* tokens of the split */
  unsigned head;
};

/* Starts the copies of the 16 tokens from `token`; every lane has `page` of token + lane % 16. */
template <unsigned D, bool K8, bool V8>
KC_DEVICE void fetch_tile(const struct kc_kv_layer &layer, const struct decode_source &source,
                          const kc_tile<unsigned char> &stage, uint32_t token, uint32_t page)
{
  using shape = decode_shape<D, K8, V8>;
  const kc_tile<unsigned char> v_tile = stage.from(shape::K_BYTES);
  KC_UNROLL
  for (unsigned i = 0; i < TILE * shape::k_shape::CHUNKS; i += KC_LANES) {
    const unsigned at = i + kc_lane(), to = at / shape::k_shape::CHUNKS;
    copy_chunk<D, K8>(stage, to, at % shape::k_shape::CHUNKS, layer.k, layer.k_page_bytes,
                      kc_shuffle_u32(page, to), layer, source.head, token + to);
  }
  KC_UNROLL
  for (unsigned i = 0; i < TILE * shape::v_shape::CHUNKS; i += KC_LANES) {
    const unsigned at = i + kc_lane(), to = at / shape::v_shape::CHUNKS;
    copy_chunk<D, V8>(v_tile, to, at % shape::v_shape::CHUNKS, layer.v, layer.v_page_bytes,
                      kc_shuffle_u32(page, to), layer, source.head, token + to);
  }
}

/* Scores to powers of two; tokens from `end` on get -infinity. */
template <unsigned T>
KC_DEVICE void scale_and_mask(float (&s)[T / 8][4], float scale, uint32_t token, uint32_t end)
{
  KC_UNROLL
  for (unsigned n = 0; n < T / 8; ++n) {
    KC_UNROLL
    for (unsigned r = 0; r < 4; ++r) {
      const uint32_t at = token + 8 * n + 2 * (kc_lane() % 4) + r % 2;
      s[n][r] = at < end ? s[n][r] * scale : KC_NEG_INFINITY;
    }
  }
}

/* A warp's copies under way: tile by tile into the stages in turn. */
struct decode_pipe {
  kc_tile<unsigned char> memory;
  uint32_t token; /* of the next tile to fetch */
  uint32_t page;  /* of token + lane % 16: looked up one tile ahead */
  unsigned stage;
};

/* Sends for the next tile, if there is one; a group of copies either way. */
template <unsigned D, bool K8, bool V8>
KC_DEVICE void fetch_next(const struct kc_kv_layer &layer, const struct decode_source &source,
                          struct decode_pipe &pipe)
{
  using shape = decode_shape<D, K8, V8>;
  if (pipe.token < source.end) {
    const kc_tile<unsigned char> to = pipe.memory.from(pipe.stage * shape::STAGE_BYTES);
    fetch_tile<D, K8, V8>(layer, source, to, pipe.token, pipe.page);
    pipe.stage = pipe.stage + 1 == shape::STAGES ? 0 : pipe.stage + 1;
    pipe.token += WARPS * TILE;
    pipe.page = page_of_token(source.row, layer, pipe.token + kc_lane() % TILE, source.end);
  }
  kc_copy_commit();
}

/* One warp over its tiles. */
template <unsigned D, bool K8, bool V8>
KC_DEVICE void decode_tiles(const struct kc_kv_layer &layer, const struct decode_source &source,
                            const kc_tile<unsigned char> &memory, const uint32_t (&q)[D / 16][4],
                            float scale, struct softmax_rows &rows, float (&o)[D / 8][4])
{
  using shape = decode_shape<D, K8, V8>;
  const uint32_t first = source.start + kc_warp_index() * TILE;
  struct decode_pipe pipe = {
      memory, first, page_of_token(source.row, layer, first + kc_lane() % TILE, source.end), 0};
  KC_UNROLL
  for (unsigned i = 0; i < shape::STAGES - 1; ++i) fetch_next<D, K8, V8>(layer, source, pipe);
  unsigned stage = 0;
  for (uint32_t token = first; token < source.end; token += WARPS * TILE) {
    kc_copy_wait<shape::STAGES - 2>();
    kc_sync_warp(); /* all lanes' copies are here, and all have left the stage fetched into next */
    fetch_next<D, K8, V8>(layer, source, pipe);
    const kc_tile<unsigned char> tile = memory.from(stage * shape::STAGE_BYTES);
    float s[TILE / 8][4], shrink[2];
    multiply_keys<D, K8, TILE>(s, q, tile, 0);
    scale_and_mask<TILE>(s, scale, token, source.end);
    softmax_step<TILE>(s, rows, shrink);
    shrink_output<D>(o, shrink);
    multiply_values<D, V8, TILE>(o, s, tile.from(shape::K_BYTES), 0);
    stage = stage + 1 == shape::STAGES ? 0 : stage + 1;
  }
  kc_copy_wait<0>();
}

/* Puts a warp's rows where the block can merge them. */
template <unsigned D, bool V8>
KC_DEVICE void share_rows(const kc_tile<float> &output, const kc_tile<float> &most,
                          const kc_tile<float> &sum, const struct softmax_rows &rows,
                          const float (&o)[D / 8][4])
{
  const unsigned warp = kc_warp_index(), row = kc_lane() / 4;
  KC_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const float total = softmax_row_sum(rows, r);
    if (kc_lane() % 4 == 0) {
      most.set(warp * QUERIES + row + 8 * r, rows.most[r]);
      sum.set(warp * QUERIES + row + 8 * r, total);
    }
  }
  KC_UNROLL
  for (unsigned n = 0; n < D / 8; ++n) {
    KC_UNROLL
    for (unsigned r = 0; r < 4; ++r) {
      output.set((row + 8 * (r / 2)) * D + output_dim<V8>(n, r), o[n][r]);
    }
  }
}

/* max and sum of a query over the warps. */
struct row_total {
  float most, sum;
};

KC_DEVICE struct row_total total_of(const kc_tile<float> &most, const kc_tile<float> &sum,
                                    unsigned query)
{
  struct row_total total = {KC_NEG_INFINITY, 0.0f};
  KC_UNROLL
  for (unsigned w = 0; w < WARPS; ++w) {
    total.most = kc_max(total.most, most.get(w * QUERIES + query));
  }
  KC_UNROLL
  for (unsigned w = 0; w < WARPS; ++w) {
    total.sum += sum.get(w * QUERIES + query) *
                 kc_exp2(most.get(w * QUERIES + query) - total.most);
  }
  return total;
}

/* Writes the block's queries: the output itself, or a partial for the merge. */
template <unsigned D, unsigned WarpBytes>
KC_DEVICE void store_rows(const struct kc_op_decode &op, const struct kc_split &split,
                          unsigned first_head, unsigned heads, const kc_tile<float> &output,
                          const kc_tile<float> &most, const kc_tile<float> &sum)
{
  const unsigned dims = op.layer.head_dim;
  const bool last = split.partial == KC_PARTIAL_NONE;
  const float v_scale =
      op.layer.v_scale == nullptr || op.layer.v_format == KC_KV_BF16 ? 1.0f
                                                                     : op.layer.v_scale[blockIdx.y];
  for (unsigned i = threadIdx.x; i < heads * D; i += DECODE_THREADS) {
    const unsigned query = i / D, dim = i % D, head = first_head + query;
    if (dim >= dims) continue;
    const struct row_total total = total_of(most, sum, query);
    float value = 0.0f;
    KC_UNROLL
    for (unsigned w = 0; w < WARPS; ++w) {
      value += output.get(w * (WarpBytes / 4) + i) *
               kc_exp2(most.get(w * QUERIES + query) - total.most);
    }
    value = value / total.sum * v_scale;
    const uint64_t partial = (uint64_t)split.partial * op.q_heads + head;
    if (last) {
      op.out[split.row * op.out_stride + (uint64_t)head * dims + dim] = kc_bf16_encode(value);
    } else {
      op.partial_out[partial * dims + dim] = value;
    }
    if (dim != 0) continue;
    const float lse = (total.most + kc_log2(total.sum)) * KC_LN_2;
    if (!last) op.partial_lse[partial] = lse;
    if (last && op.lse != nullptr) op.lse[(uint64_t)split.row * op.q_heads + head] = lse;
  }
}

template <unsigned D, bool K8, bool V8>
__global__ void KC_BOUNDS(DECODE_THREADS, (decode_shape<D, K8, V8>::BLOCKS))
    decode_kernel(KC_PARAMETER struct kc_op_decode op)
{
  using shape = decode_shape<D, K8, V8>;
  kc_shared shared;
  const kc_tile<unsigned char> memory = shared.take<unsigned char>(WARPS * shape::WARP_BYTES);
  const kc_tile<float> most = shared.take<float>(WARPS * QUERIES);
  const kc_tile<float> sum = shared.take<float>(WARPS * QUERIES);
  const struct kc_split split = op.plan.split[blockIdx.x];
  if (split.row == KC_NO_SLOT || slot_masked(op.verdict, op.slot[split.row])) return;

  const unsigned group = op.q_heads / op.layer.kv_heads, first = blockIdx.z * QUERIES;
  const unsigned heads = kc_least(group - first, QUERIES);
  const unsigned first_head = blockIdx.y * group + first, mine = kc_lane() / 4;
  const uint16_t *queries = op.q + split.row * op.q_stride +
                            (uint64_t)first_head * op.layer.head_dim;
  uint32_t q[D / 16][4];
  load_queries<D, K8>(q, mine < heads ? queries + mine * op.layer.head_dim : nullptr,
                      mine + 8 < heads ? queries + (mine + 8) * op.layer.head_dim : nullptr,
                      op.layer.head_dim);

  const struct decode_source source = {
      op.table.entry + (uint64_t)op.slot[split.row] * op.table.stride, split.start,
      split.start + split.count, blockIdx.y};
  const float k_scale = op.layer.k_scale == nullptr || !K8 ? 1.0f : op.layer.k_scale[blockIdx.y];
  const kc_tile<unsigned char> pipe = memory.from(kc_warp_index() * shape::WARP_BYTES);
  struct softmax_rows rows;
  float o[D / 8][4] = {};
  softmax_begin(rows);
  decode_tiles<D, K8, V8>(op.layer, source, pipe, q, op.scale * k_scale * KC_LOG2_E, rows, o);

  kc_sync_warp(); /* the pipeline's memory takes the results */
  share_rows<D, V8>(pipe.template as<float>(), most, sum, rows, o);
  kc_sync_block();
  store_rows<D, shape::WARP_BYTES>(op, split, first_head, heads, memory.template as<float>(), most,
                                   sum);
}

/* ---- merge ---- */

/* Weight of partial p of a head, against the largest log-sum-exp. */
KC_DEVICE float partial_weight(const struct kc_op_decode &op, unsigned p, unsigned head, float most)
{
  return kc_exp2((op.partial_lse[(uint64_t)p * op.q_heads + head] - most) * KC_LOG2_E);
}

/* A head of a row, `dims` of them: zeros, or the weighed partials. */
__global__ void KC_BOUNDS(MERGE_THREADS, 8)
    merge_kernel(KC_PARAMETER struct kc_op_decode op, unsigned dims)
{
  const unsigned row = blockIdx.x, head = blockIdx.y;
  const bool masked = slot_masked(op.verdict, op.slot[row]) || op.context[row] == 0;
  const uint32_t first = op.plan.row_first[row], end = op.plan.row_first[row + 1];
  uint16_t *out = op.out + row * op.out_stride + (uint64_t)head * dims;
  float most = KC_NEG_INFINITY, sum = 0.0f;
  if (!masked && first == end) return; /* its only split has written it */
  for (uint32_t p = first; !masked && p < end; ++p) {
    most = kc_max(most, op.partial_lse[(uint64_t)p * op.q_heads + head]);
  }
  for (uint32_t p = first; !masked && p < end; ++p) sum += partial_weight(op, p, head, most);
  for (unsigned i = threadIdx.x; i < dims; i += MERGE_THREADS) {
    float value = 0.0f;
    for (uint32_t p = first; !masked && p < end; ++p) {
      value += partial_weight(op, p, head, most) *
               op.partial_out[((uint64_t)p * op.q_heads + head) * dims + i];
    }
    out[i] = masked ? 0 : kc_bf16_encode(value / sum);
  }
  if (threadIdx.x != 0 || op.lse == nullptr) return;
  op.lse[(uint64_t)row * op.q_heads + head] =
      masked ? KC_NEG_INFINITY : most + kc_log2(sum) * KC_LN_2;
}

/* ---- launching ---- */

template <unsigned D, bool K8, bool V8>
static enum kc_op_status launch_decode(void *context, const struct kc_op_decode *op)
{
  using shape = decode_shape<D, K8, V8>;
  const unsigned group = op->q_heads / op->layer.kv_heads;
  const dim3 grid(op->plan.split_count, op->layer.kv_heads, kc_ceil_div(group, QUERIES));
  const size_t bytes = kc_tile_bytes<unsigned char>(WARPS * shape::WARP_BYTES) +
                       2 * kc_tile_bytes<float>(WARPS * QUERIES);
  return KC_LAUNCH(context, (decode_kernel<D, K8, V8>), grid, dim3(DECODE_THREADS), bytes, *op);
}

template <unsigned D>
static enum kc_op_status launch_formats(void *context, const struct kc_op_decode *op)
{
  const bool k8 = op->layer.k_format != KC_KV_BF16, v8 = op->layer.v_format != KC_KV_BF16;
  if (k8 && v8) return launch_decode<D, true, true>(context, op);
  if (k8) return launch_decode<D, true, false>(context, op);
  if (v8) return launch_decode<D, false, true>(context, op);
  return launch_decode<D, false, false>(context, op);
}

static enum kc_op_status launch_splits(void *context, const struct kc_op_decode *op)
{
  if (op->plan.split_count == 0) return KC_OP_OK;
  if (op->layer.kind == KC_PAGED_MLA) return kc_gpu_decode_latent(context, op);
  if (op->layer.head_dim <= 64) return launch_formats<64>(context, op);
  if (op->layer.head_dim <= 128) return launch_formats<128>(context, op);
  if (op->layer.head_dim <= 256) return launch_formats<256>(context, op);
  return KC_OP_UNSUPPORTED;
}

enum kc_op_status kc_gpu_decode(void *context, const struct kc_op_decode *op)
{
  if (!kc_op_decode_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  if (!layer_fits(op->layer)) return KC_OP_UNSUPPORTED;
  const enum kc_op_status status = launch_splits(context, op);
  if (status != KC_OP_OK) return status;
  return KC_LAUNCH(context, merge_kernel, dim3(op->rows, op->q_heads), dim3(MERGE_THREADS), 0, *op,
                   (unsigned)kc_kv_value_dim(&op->layer));
}
