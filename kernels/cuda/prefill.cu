/* Causal attention of prompt chunks over paged GQA caches.
 *
 *   block   64 queries of one kv head: (position, head of the group) pairs in that order, so that
 *           neighbouring heads share the K and V they read
 *   warp    16 of them, against tiles of T tokens that the whole block fetches, one ahead
 *   mask    a query at position p ends after token p; whole tiles behind a warp's last position are
 *           passed over
 *
 * Chunks differ in length, and a launch has one shape: the grid is as deep as the longest chunk,
 * and blocks beyond a chunk's end leave at once.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/op_check.h"

enum : unsigned {
  PREFILL_WARPS = 4,
  PREFILL_THREADS = PREFILL_WARPS * KC_LANES,
  BLOCK_QUERIES = PREFILL_WARPS * QUERIES
};

template <unsigned D, bool K8, bool V8>
struct prefill_shape {
  enum : unsigned {
    T = D > 128 ? 16 : 64, /* what registers allow */
    K_BYTES = T * kv_shape<D, K8>::ROW_BYTES,
    V_BYTES = T * kv_shape<D, V8>::ROW_BYTES,
    STAGE_BYTES = K_BYTES + V_BYTES
  };
};

/* The block fetches tokens [token, token + T). */
template <unsigned D, bool F8, unsigned T>
KC_DEVICE void fetch_rows(const struct kc_op_prefill &op, const struct kc_page_ref *row,
                          const kc_tile<unsigned char> &tile, const uint8_t *pool,
                          uint64_t page_bytes, uint32_t token, uint32_t end)
{
  enum : unsigned { CHUNKS = kv_shape<D, F8>::CHUNKS };
  KC_UNROLL
  for (unsigned i = 0; i < T * CHUNKS; i += PREFILL_THREADS) {
    const unsigned at = i + threadIdx.x, to = at / CHUNKS;
    copy_chunk<D, F8>(tile, to, at % CHUNKS, pool, page_bytes,
                      page_of_token(row, op.layer, token + to, end), op.layer, blockIdx.y,
                      token + to);
  }
}

template <unsigned D, bool K8, bool V8>
KC_DEVICE void fetch_stage(const struct kc_op_prefill &op, const struct kc_page_ref *row,
                           const kc_tile<unsigned char> &stage, uint32_t token, uint32_t end)
{
  using shape = prefill_shape<D, K8, V8>;
  if (token < end) {
    fetch_rows<D, K8, shape::T>(op, row, stage, op.layer.k, op.layer.k_page_bytes, token, end);
    fetch_rows<D, V8, shape::T>(op, row, stage.from(shape::K_BYTES), op.layer.v,
                                op.layer.v_page_bytes, token, end);
  }
  kc_copy_commit();
}

/* Scores to powers of two, with the ends of this lane's two rows. */
template <unsigned T>
KC_DEVICE void scale_and_mask(float (&s)[T / 8][4], float scale, uint32_t token,
                              const uint32_t (&ends)[2])
{
  KC_UNROLL
  for (unsigned n = 0; n < T / 8; ++n) {
    KC_UNROLL
    for (unsigned r = 0; r < 4; ++r) {
      const uint32_t at = token + 8 * n + 2 * (kc_lane() % 4) + r % 2;
      s[n][r] = at < ends[r / 2] ? s[n][r] * scale : KC_NEG_INFINITY;
    }
  }
}

/* One block over the tokens before `end`; a warp stops at `warp_end`. */
template <unsigned D, bool K8, bool V8>
KC_DEVICE void prefill_tiles(const struct kc_op_prefill &op, const struct kc_page_ref *row,
                             const kc_tile<unsigned char> &memory,
                             const uint32_t (&q)[D / 16][4], float scale, uint32_t end,
                             uint32_t warp_end, const uint32_t (&ends)[2],
                             struct softmax_rows &rows, float (&o)[D / 8][4])
{
  using shape = prefill_shape<D, K8, V8>;
  unsigned stage = 0;
  fetch_stage<D, K8, V8>(op, row, memory, 0, end);
  for (uint32_t token = 0; token < end; token += shape::T) {
    const kc_tile<unsigned char> tile = memory.from(stage * shape::STAGE_BYTES);
    kc_copy_wait<0>();
    kc_sync_block(); /* this tile is here; the other one has been left by all */
    fetch_stage<D, K8, V8>(op, row, memory.from((1 - stage) * shape::STAGE_BYTES),
                           token + shape::T, end);
    stage = 1 - stage;
    if (token >= warp_end) continue;
    float s[shape::T / 8][4], shrink[2];
    multiply_keys<D, K8, shape::T>(s, q, tile, 0);
    scale_and_mask<shape::T>(s, scale, token, ends);
    softmax_step<shape::T>(s, rows, shrink);
    shrink_output<D>(o, shrink);
    multiply_values<D, V8, shape::T>(o, s, tile.from(shape::K_BYTES), 0);
  }
}

/* Row r (0, 1) of this lane. */
template <unsigned D, bool V8>
KC_DEVICE void store_row(const struct kc_op_prefill &op, uint16_t *out, float factor, unsigned r,
                         const float (&o)[D / 8][4])
{
  KC_UNROLL
  for (unsigned n = 0; n < D / 8; ++n) {
    KC_UNROLL
    for (unsigned c = 0; c < 2; ++c) {
      const unsigned dim = output_dim<V8>(n, c);
      if (dim < op.layer.head_dim) out[dim] = kc_bf16_encode(o[n][2 * r + c] * factor);
    }
  }
}

/* Zeros for the block's queries of a chunk that is left out. */
KC_DEVICE void store_zeros(const struct kc_op_prefill &op, const struct kc_attention_chunk &chunk,
                           uint64_t first, uint64_t total)
{
  const unsigned dims = op.layer.head_dim, group = op.q_heads / op.layer.kv_heads;
  for (unsigned i = threadIdx.x; i < BLOCK_QUERIES * dims; i += PREFILL_THREADS) {
    const uint64_t query = first + i / dims;
    if (query >= total) return;
    const uint64_t head = blockIdx.y * group + query % group;
    op.out[(chunk.row + query / group) * op.out_stride + head * dims + i % dims] = 0;
  }
}

/* Where a lane's two queries are; null behind the chunk's end. */
struct prefill_queries {
  const uint16_t *q[2];
  uint16_t *out[2];
  uint32_t ends[2];
};

KC_DEVICE struct prefill_queries find_queries(const struct kc_op_prefill &op,
                                              const struct kc_attention_chunk &chunk,
                                              uint64_t first, uint64_t total)
{
  const unsigned dims = op.layer.head_dim, group = op.q_heads / op.layer.kv_heads;
  struct prefill_queries queries;
  KC_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const uint64_t query = first + kc_warp_index() * QUERIES + kc_lane() / 4 + 8 * r;
    const uint64_t row = chunk.row + query / group;
    const uint64_t head = blockIdx.y * group + query % group;
    const bool there = query < total;
    queries.q[r] = there ? op.q + row * op.q_stride + head * dims : nullptr;
    queries.out[r] = there ? op.out + row * op.out_stride + head * dims : nullptr;
    queries.ends[r] = there ? chunk.start + (uint32_t)(query / group) + 1 : 0;
  }
  return queries;
}

template <unsigned D, bool K8, bool V8>
__global__ void KC_BOUNDS(PREFILL_THREADS, D > 128 ? 1 : 2)
    prefill_kernel(KC_PARAMETER struct kc_op_prefill op)
{
  kc_shared shared;
  const kc_tile<unsigned char> memory =
      shared.take<unsigned char>(2 * prefill_shape<D, K8, V8>::STAGE_BYTES);
  const struct kc_attention_chunk chunk = op.chunk[blockIdx.z];
  const unsigned group = op.q_heads / op.layer.kv_heads;
  const uint64_t total = (uint64_t)chunk.count * group;
  const uint64_t first = (uint64_t)blockIdx.x * BLOCK_QUERIES;
  if (first >= total) return;
  if (slot_masked(op.verdict, chunk.slot)) {
    store_zeros(op, chunk, first, total);
    return;
  }
  const struct prefill_queries queries = find_queries(op, chunk, first, total);
  const uint64_t block_last = first + BLOCK_QUERIES < total ? first + BLOCK_QUERIES : total;
  const uint64_t warp_last = first + (kc_warp_index() + 1) * QUERIES;
  const uint32_t end = chunk.start + (uint32_t)((block_last - 1) / group) + 1;
  const uint32_t warp_end = chunk.start + (uint32_t)((warp_last - 1) / group) + 1;
  uint32_t q[D / 16][4];
  load_queries<D, K8>(q, queries.q[0], queries.q[1], op.layer.head_dim);
  const float k_scale = op.layer.k_scale == nullptr || !K8 ? 1.0f : op.layer.k_scale[blockIdx.y];
  const float v_scale = op.layer.v_scale == nullptr || !V8 ? 1.0f : op.layer.v_scale[blockIdx.y];
  struct softmax_rows rows;
  float o[D / 8][4] = {};
  softmax_begin(rows);
  prefill_tiles<D, K8, V8>(op, op.table.entry + (uint64_t)chunk.slot * op.table.stride, memory, q,
                           op.scale * k_scale * KC_LOG2_E, end, warp_end, queries.ends, rows, o);
  kc_copy_wait<0>();
  KC_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    const float sum = softmax_row_sum(rows, r);
    if (queries.out[r] != nullptr) store_row<D, V8>(op, queries.out[r], v_scale / sum, r, o);
  }
}

/* ---- launching ---- */

template <unsigned D, bool K8, bool V8>
static enum kc_op_status launch_prefill(void *context, const struct kc_op_prefill *op,
                                        unsigned longest)
{
  const uint64_t queries = (uint64_t)longest * (op->q_heads / op->layer.kv_heads);
  const dim3 grid(kc_ceil_div(queries, BLOCK_QUERIES), op->layer.kv_heads, op->chunks);
  const size_t bytes =
      kc_tile_bytes<unsigned char>(2 * prefill_shape<D, K8, V8>::STAGE_BYTES);
  return KC_LAUNCH(context, (prefill_kernel<D, K8, V8>), grid, dim3(PREFILL_THREADS), bytes, *op);
}

template <unsigned D>
static enum kc_op_status launch_formats(void *context, const struct kc_op_prefill *op,
                                        unsigned longest)
{
  const bool k8 = op->layer.k_format != KC_KV_BF16, v8 = op->layer.v_format != KC_KV_BF16;
  if (k8 && v8) return launch_prefill<D, true, true>(context, op, longest);
  if (k8) return launch_prefill<D, true, false>(context, op, longest);
  if (v8) return launch_prefill<D, false, true>(context, op, longest);
  return launch_prefill<D, false, false>(context, op, longest);
}

enum kc_op_status kc_gpu_prefill(void *context, const struct kc_op_prefill *op)
{
  if (!kc_op_prefill_valid(op)) return KC_OP_BAD;
  unsigned longest = 0;
  for (uint32_t i = 0; i < op->chunks; ++i) {
    if (op->chunk_host[i].count > longest) longest = op->chunk_host[i].count;
  }
  if (longest == 0) return KC_OP_OK;
  if (!layer_fits(op->layer)) return KC_OP_UNSUPPORTED;
  if (op->layer.kind == KC_PAGED_MLA) return kc_gpu_prefill_latent(context, op, longest);
  if (op->layer.head_dim <= 64) return launch_formats<64>(context, op, longest);
  if (op->layer.head_dim <= 128) return launch_formats<128>(context, op, longest);
  if (op->layer.head_dim <= 256) return launch_formats<256>(context, op, longest);
  return KC_OP_UNSUPPORTED;
}
