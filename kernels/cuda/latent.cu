/* Attention over MLA latents, absorbed: every query head reads the one record of a token.
 *
 *   record   latent (512) | rope (64)      K = both, V = latent
 *   block    16 or 32 queries (heads of a row; in prefill (position, head) pairs), 8 warps,
 *            tiles of 64 tokens
 *   S        a warp has 8 of the tokens, all queries, the whole width of the record
 *   softmax  the warps exchange row maxima through shared memory; weights go there as bf16
 *   O        a warp has 64 of the columns, all queries, all 64 tokens: 512 columns in 8 warps is
 *            what fits into registers
 *
 * An FP8 record (codes, a power-of-two scale per 128, rope in bf16) is fetched as it is and made
 * bf16 in shared memory once per tile, exactly: four significant bits times a power of two.
 *
 * Tiles are rows of `padded` bf16 elements (the width rounded up to 64), permuted in chunks as in
 * attention.cuh.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/op_check.h"

enum : unsigned {
  LATENT_WARPS = 8,
  LATENT_THREADS = LATENT_WARPS * KC_LANES,
  TILE = 64,
  WARP_TOKENS = TILE / LATENT_WARPS,
  WARP_COLUMNS = 64,
  LATENT_MAX = LATENT_WARPS * WARP_COLUMNS,
  WIDTH_MAX = LATENT_MAX + 64,
  GROUP = 128
};

/* What decode and prefill have in common. Query i of the block's is number first + i of `total`;
 * number n is head n % heads of row n / heads, and ends that many tokens later than row 0. */
struct latent_job {
  struct kc_kv_layer layer;
  const struct kc_page_ref *row;
  const uint16_t *q;
  uint64_t q_stride;
  unsigned heads, first, total;
  uint32_t start, end; /* tokens for row 0 */
  float scale;
  unsigned padded, record_bytes;
  uint16_t *out; /* or, when null: */
  uint64_t out_stride;
  float *partial_out; /* [heads][latent] */
  float *lse;         /* [heads], or null */
};

struct latent_memory {
  kc_tile<unsigned char> q, tile, raw, weights;
  kc_tile<float> most; /* [warp][query]; at the end the sums */
};

template <unsigned M>
struct latent_state {
  struct softmax_rows rows[M];
  float o[M][WARP_COLUMNS / 8][4];
};

KC_DEVICE unsigned latent_at(unsigned row, unsigned chunk, unsigned padded)
{
  return row * 2 * padded + (chunk ^ (row & 7)) * CHUNK_BYTES;
}

KC_DEVICE uint32_t query_end(const struct latent_job &job, unsigned query)
{
  const unsigned number = job.first + query;
  return number < job.total ? job.end + number / job.heads : 0;
}

/* ---- into shared memory ---- */

KC_DEVICE void load_query_rows(const struct latent_job &job, const kc_tile<unsigned char> &to,
                               unsigned queries)
{
  const unsigned width = job.layer.latent + job.layer.rope, chunks = job.padded / 8;
  for (unsigned query = kc_warp_index(); query < queries; query += LATENT_WARPS) {
    const unsigned number = job.first + query;
    const uint16_t *q = job.q + (uint64_t)(number / job.heads) * job.q_stride +
                        (uint64_t)(number % job.heads) * width;
    for (unsigned c = kc_lane(); c < chunks; c += KC_LANES) {
      const bool there = number < job.total && c * 8 < width;
      to.set16(latent_at(query, c, job.padded), there ? kc_load16(q + 8 * c) : uint4{0, 0, 0, 0});
    }
  }
}

/* The columns behind the width, which no copy reaches. */
KC_DEVICE void clear_padding(const struct latent_job &job, const kc_tile<unsigned char> &tile)
{
  const unsigned first = (job.layer.latent + job.layer.rope) / 8, chunks = job.padded / 8;
  for (unsigned row = kc_warp_index(); row < TILE; row += LATENT_WARPS) {
    const unsigned c = first + kc_lane();
    if (c < chunks) tile.set16(latent_at(row, c, job.padded), uint4{0, 0, 0, 0});
  }
}

/* Records of tokens [token, token + TILE): bf16 ones into a tile, FP8 ones as they are. */
template <bool F8>
KC_DEVICE void fetch_records(const struct latent_job &job, const kc_tile<unsigned char> &to,
                             uint32_t token, uint32_t end)
{
  const unsigned chunks = job.record_bytes / CHUNK_BYTES;
  const unsigned own = kc_warp_index() + LATENT_WARPS * (kc_lane() % WARP_TOKENS);
  const uint32_t own_page = page_of_token(job.row, job.layer, token + own, end);
  for (unsigned i = 0; i < TILE / LATENT_WARPS; ++i) {
    const unsigned row = kc_warp_index() + LATENT_WARPS * i;
    const uint32_t page = kc_shuffle_u32(own_page, i);
    const uint8_t *from = job.layer.k;
    if (page != PAGE_MISSING) {
      from += page * job.layer.k_page_bytes +
              (uint64_t)page_offset(job.layer, token + row) * job.record_bytes;
    }
    for (unsigned c = kc_lane(); c < chunks; c += KC_LANES) {
      const unsigned at = F8 ? row * job.record_bytes + c * CHUNK_BYTES
                             : latent_at(row, c, job.padded);
      kc_copy16(to.from(at), from + c * CHUNK_BYTES, page != PAGE_MISSING);
    }
  }
}

/* Four codes to four bf16 of value code * scale. */
KC_DEVICE void expand_codes(uint32_t (&pair)[2], uint32_t codes, uint32_t scale)
{
  kc_e4m3x4_to_bf16(pair, codes);
  pair[0] = kc_bf16x2_multiply(pair[0], scale);
  pair[1] = kc_bf16x2_multiply(pair[1], scale);
}

/* FP8 records to bf16 rows: a warp a token, a lane 16 codes. */
KC_DEVICE void expand_records(const struct latent_job &job, const kc_tile<unsigned char> &raw,
                              const kc_tile<unsigned char> &tile)
{
  const unsigned latent = job.layer.latent, rope_at = latent + latent / GROUP * 4;
  for (unsigned row = kc_warp_index(); row < TILE; row += LATENT_WARPS) {
    const kc_tile<unsigned char> record = raw.from(row * job.record_bytes);
    for (unsigned c = kc_lane(); c < latent / 16; c += KC_LANES) {
      const uint4 codes = record.get16(16 * c);
      const uint32_t scale_bits = record.get4(latent + c / (GROUP / 16) * 4) >> 16;
      const uint32_t scale = scale_bits | scale_bits << 16;
      uint32_t p[4][2];
      expand_codes(p[0], codes.x, scale);
      expand_codes(p[1], codes.y, scale);
      expand_codes(p[2], codes.z, scale);
      expand_codes(p[3], codes.w, scale);
      tile.set16(latent_at(row, 2 * c, job.padded), uint4{p[0][0], p[0][1], p[1][0], p[1][1]});
      tile.set16(latent_at(row, 2 * c + 1, job.padded), uint4{p[2][0], p[2][1], p[3][0], p[3][1]});
    }
    for (unsigned i = kc_lane(); i < job.layer.rope / 2; i += KC_LANES) {
      const unsigned element = latent + 2 * i;
      tile.set4(latent_at(row, element / 8, job.padded) + element % 8 * 2,
                record.get4(rope_at + 4 * i));
    }
  }
}

/* ---- products ---- */

/* S of all queries and this warp's 8 tokens. */
template <unsigned M>
KC_DEVICE void latent_scores(float (&s)[M][4], const struct latent_job &job,
                             const kc_tile<unsigned char> &q, const kc_tile<unsigned char> &tile)
{
  const unsigned lane = kc_lane(), token = kc_warp_index() * WARP_TOKENS + lane % 8;
  KC_UNROLL
  for (unsigned m = 0; m < M; ++m) s[m][0] = s[m][1] = s[m][2] = s[m][3] = 0.0f;
  for (unsigned c = 0; c < job.padded / 8; c += 4) {
    uint32_t k[4], a[4];
    kc_ldmatrix4(k, tile.from(latent_at(token, c + lane / 8, job.padded)));
    KC_UNROLL
    for (unsigned m = 0; m < M; ++m) {
      const unsigned query = m * QUERIES + lane % 16;
      kc_ldmatrix4(a, q.from(latent_at(query, c + lane / 16, job.padded)));
      kc_mma_bf16(s[m], a, k[0], k[1]);
      kc_ldmatrix4(a, q.from(latent_at(query, c + 2 + lane / 16, job.padded)));
      kc_mma_bf16(s[m], a, k[2], k[3]);
    }
  }
}

/* Scales, masks, and notes the maxima of this warp's columns for the others. */
template <unsigned M>
KC_DEVICE void latent_maxima(float (&s)[M][4], const struct latent_job &job,
                             const kc_tile<float> &most, uint32_t token)
{
  const unsigned lane = kc_lane();
  const uint32_t at = token + kc_warp_index() * WARP_TOKENS + 2 * (lane % 4);
  KC_UNROLL
  for (unsigned m = 0; m < M; ++m) {
    KC_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      const unsigned query = m * QUERIES + lane / 4 + 8 * r;
      const uint32_t end = query_end(job, query);
      float *pair = &s[m][2 * r];
      pair[0] = at < end ? pair[0] * job.scale : KC_NEG_INFINITY;
      pair[1] = at + 1 < end ? pair[1] * job.scale : KC_NEG_INFINITY;
      float row = kc_max(pair[0], pair[1]);
      row = kc_max(row, kc_shuffle_xor(row, 1));
      row = kc_max(row, kc_shuffle_xor(row, 2));
      if (lane % 4 == 0) most.set(kc_warp_index() * M * QUERIES + query, row);
    }
  }
}

/* Weights of this warp's tokens to shared memory; older sums and outputs shrink. */
template <unsigned M>
KC_DEVICE void latent_weights(const float (&s)[M][4], struct latent_state<M> &state,
                              const struct latent_memory &memory)
{
  const unsigned lane = kc_lane();
  KC_UNROLL
  for (unsigned m = 0; m < M; ++m) {
    float shrink[2];
    KC_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      const unsigned query = m * QUERIES + lane / 4 + 8 * r;
      float most = state.rows[m].most[r];
      for (unsigned w = 0; w < LATENT_WARPS; ++w) {
        most = kc_max(most, memory.most.get(w * M * QUERIES + query));
      }
      const float base = most == KC_NEG_INFINITY ? 0.0f : most;
      const float low = kc_exp2(s[m][2 * r] - base), high = kc_exp2(s[m][2 * r + 1] - base);
      shrink[r] = kc_exp2(state.rows[m].most[r] - base);
      state.rows[m].most[r] = most;
      state.rows[m].sum[r] = state.rows[m].sum[r] * shrink[r] + low + high;
      memory.weights.set4(latent_at(query, kc_warp_index(), TILE) + 4 * (lane % 4),
                          kc_bf16x2(low, high));
    }
    shrink_output<WARP_COLUMNS>(state.o[m], shrink);
  }
}

/* O of all queries and this warp's columns. */
template <unsigned M>
KC_DEVICE void latent_outputs(struct latent_state<M> &state, const struct latent_job &job,
                              const kc_tile<unsigned char> &weights,
                              const kc_tile<unsigned char> &tile)
{
  const unsigned lane = kc_lane(), first = kc_warp_index() * WARP_COLUMNS;
  KC_UNROLL
  for (unsigned k = 0; k < TILE / 16; ++k) {
    uint32_t p[M][4], v[4];
    KC_UNROLL
    for (unsigned m = 0; m < M; ++m) {
      kc_ldmatrix4(p[m],
                   weights.from(latent_at(m * QUERIES + lane % 16, 2 * k + lane / 16, TILE)));
    }
    KC_UNROLL
    for (unsigned n = 0; n < WARP_COLUMNS / 8; n += 2) {
      if (first + 8 * n >= job.layer.latent) break;
      kc_ldmatrix4_transposed(
          v, tile.from(latent_at(16 * k + lane % 16, first / 8 + n + lane / 16, job.padded)));
      KC_UNROLL
      for (unsigned m = 0; m < M; ++m) {
        kc_mma_bf16(state.o[m][n], p[m], v[0], v[1]);
        kc_mma_bf16(state.o[m][n + 1], p[m], v[2], v[3]);
      }
    }
  }
}

/* ---- the block ---- */

template <bool F8, unsigned M>
KC_DEVICE void latent_tiles(const struct latent_job &job, const struct latent_memory &memory,
                            struct latent_state<M> &state, uint32_t end)
{
  const unsigned stage_bytes = TILE * (F8 ? job.record_bytes : 2 * job.padded);
  unsigned stage = 0;
  fetch_records<F8>(job, memory.raw, job.start, end);
  kc_copy_commit();
  for (uint32_t token = job.start; token < end; token += TILE) {
    const kc_tile<unsigned char> here = memory.raw.from(stage * stage_bytes);
    const kc_tile<unsigned char> &tile = F8 ? memory.tile : here;
    stage = 1 - stage;
    kc_copy_wait<0>();
    kc_sync_block(); /* the records are here; all have left the last tile and its weights */
    if (token + TILE < end) {
      fetch_records<F8>(job, memory.raw.from(stage * stage_bytes), token + TILE, end);
    }
    kc_copy_commit();
    if (F8) {
      expand_records(job, here, memory.tile);
      kc_sync_block();
    }
    float s[M][4];
    latent_scores<M>(s, job, memory.q, tile);
    latent_maxima<M>(s, job, memory.most, token);
    kc_sync_block();
    latent_weights<M>(s, state, memory);
    kc_sync_block();
    latent_outputs<M>(state, job, memory.weights, tile);
  }
  kc_copy_wait<0>();
}

/* Two neighbouring columns of a query's output. */
KC_DEVICE void store_pair(const struct latent_job &job, unsigned number, unsigned column, float low,
                          float high)
{
  const unsigned head = number % job.heads;
  const uint64_t at = (uint64_t)head * job.layer.latent + column;
  if (job.out != nullptr) {
    kc_store4(job.out + (uint64_t)(number / job.heads) * job.out_stride + at, kc_bf16x2(low, high));
  } else {
    job.partial_out[at] = low;
    job.partial_out[at + 1] = high;
  }
}

/* The sum of a row over the warps, which have shared theirs. */
template <unsigned M>
KC_DEVICE float latent_sum(const kc_tile<float> &sums, unsigned query)
{
  float sum = 0.0f;
  for (unsigned w = 0; w < LATENT_WARPS; ++w) sum += sums.get(w * M * QUERIES + query);
  return sum;
}

template <unsigned M>
KC_DEVICE void latent_store(const struct latent_job &job, const struct latent_memory &memory,
                            const struct latent_state<M> &state)
{
  const unsigned lane = kc_lane(), first = kc_warp_index() * WARP_COLUMNS;
  kc_sync_block();
  for (unsigned m = 0; m < M; ++m) {
    for (unsigned r = 0; r < 2; ++r) {
      const float sum = softmax_row_sum(state.rows[m], r);
      const unsigned query = m * QUERIES + lane / 4 + 8 * r;
      if (lane % 4 == 0) memory.most.set(kc_warp_index() * M * QUERIES + query, sum);
    }
  }
  kc_sync_block();
  KC_UNROLL
  for (unsigned m = 0; m < M; ++m) {
    KC_UNROLL
    for (unsigned r = 0; r < 2; ++r) {
      const unsigned query = m * QUERIES + lane / 4 + 8 * r, number = job.first + query;
      if (number >= job.total) continue;
      const float sum = latent_sum<M>(memory.most, query);
      KC_UNROLL
      for (unsigned n = 0; n < WARP_COLUMNS / 8; ++n) {
        const unsigned column = first + 8 * n + 2 * (lane % 4);
        if (column >= job.layer.latent) break;
        store_pair(job, number, column, state.o[m][n][2 * r] / sum, state.o[m][n][2 * r + 1] / sum);
      }
      if (job.lse != nullptr && kc_warp_index() == 0 && lane % 4 == 0) {
        job.lse[number % job.heads] = (state.rows[m].most[r] + kc_log2(sum)) * KC_LN_2;
      }
    }
  }
}

/* Every thread of a block, whether it has a job or not. */
template <bool F8, unsigned M>
KC_DEVICE struct latent_memory take_memory(unsigned padded, unsigned record_bytes)
{
  kc_shared shared;
  struct latent_memory memory;
  memory.q = shared.take<unsigned char>(M * QUERIES * 2 * padded);
  memory.raw = shared.take<unsigned char>(2 * TILE * (F8 ? record_bytes : 2 * padded));
  memory.tile = F8 ? shared.take<unsigned char>(TILE * 2 * padded) : memory.raw;
  memory.weights = shared.take<unsigned char>(M * QUERIES * 2 * TILE);
  memory.most = shared.take<float>(LATENT_WARPS * M * QUERIES);
  return memory;
}

template <bool F8, unsigned M>
static size_t memory_bytes(unsigned padded, unsigned record_bytes)
{
  return kc_tile_bytes<unsigned char>(M * QUERIES * 2 * padded) +
         kc_tile_bytes<unsigned char>(2 * TILE * (F8 ? record_bytes : 2 * padded)) +
         (F8 ? kc_tile_bytes<unsigned char>(TILE * 2 * padded) : 0) +
         kc_tile_bytes<unsigned char>(M * QUERIES * 2 * TILE) +
         kc_tile_bytes<float>(LATENT_WARPS * M * QUERIES);
}

template <bool F8, unsigned M>
KC_DEVICE void run_job(const struct latent_job &job)
{
  const struct latent_memory memory = take_memory<F8, M>(job.padded, job.record_bytes);
  struct latent_state<M> state = {};
  KC_UNROLL
  for (unsigned m = 0; m < M; ++m) softmax_begin(state.rows[m]);
  load_query_rows(job, memory.q, M * QUERIES);
  clear_padding(job, F8 ? memory.tile : memory.raw);
  if (!F8) clear_padding(job, memory.raw.from(TILE * 2 * job.padded));
  const unsigned last = kc_least(job.total - job.first, M * QUERIES) - 1;
  latent_tiles<F8, M>(job, memory, state, query_end(job, last));
  latent_store<M>(job, memory, state);
}

/* ---- kernels ---- */

struct latent_sizes {
  unsigned padded, record_bytes;
};

template <bool F8, unsigned M>
__global__ void KC_BOUNDS(LATENT_THREADS, 1)
    latent_decode_kernel(KC_PARAMETER struct kc_op_decode op,
                         KC_PARAMETER struct latent_sizes sizes)
{
  const struct kc_split split = op.plan.split[blockIdx.x];
  if (split.row == KC_NO_SLOT || slot_masked(op.verdict, op.slot[split.row])) return;
  const bool last = split.partial == KC_PARTIAL_NONE;
  const uint64_t partial = last ? 0 : (uint64_t)split.partial * op.q_heads;
  const uint64_t row_heads = (uint64_t)split.row * op.q_heads;
  struct latent_job job;
  job.layer = op.layer;
  job.row = op.table.entry + (uint64_t)op.slot[split.row] * op.table.stride;
  job.q = op.q + split.row * op.q_stride;
  job.q_stride = 0; /* one row */
  job.heads = op.q_heads;
  job.first = blockIdx.y * M * QUERIES;
  job.total = op.q_heads;
  job.start = split.start;
  job.end = split.start + split.count;
  job.scale = op.scale * KC_LOG2_E;
  job.padded = sizes.padded;
  job.record_bytes = sizes.record_bytes;
  job.out = last ? op.out + split.row * op.out_stride : nullptr;
  job.out_stride = 0;
  job.partial_out = last ? nullptr : op.partial_out + partial * op.layer.latent;
  job.lse = !last ? op.partial_lse + partial : op.lse != nullptr ? op.lse + row_heads : nullptr;
  run_job<F8, M>(job);
}

/* Zeros for the block's queries of a chunk that is left out. */
KC_DEVICE void store_zeros(const struct kc_op_prefill &op, const struct kc_attention_chunk &chunk,
                           unsigned first, unsigned total)
{
  const unsigned latent = op.layer.latent;
  for (unsigned i = threadIdx.x; i < (total - first) * latent; i += LATENT_THREADS) {
    const unsigned number = first + i / latent;
    const uint64_t row = chunk.row + number / op.q_heads;
    op.out[row * op.out_stride + (uint64_t)(number % op.q_heads) * latent + i % latent] = 0;
  }
}

template <bool F8, unsigned M>
__global__ void KC_BOUNDS(LATENT_THREADS, 1)
    latent_prefill_kernel(KC_PARAMETER struct kc_op_prefill op,
                          KC_PARAMETER struct latent_sizes sizes)
{
  const struct kc_attention_chunk chunk = op.chunk[blockIdx.y];
  const unsigned first = blockIdx.x * M * QUERIES, total = chunk.count * op.q_heads;
  if (first >= total) return;
  if (slot_masked(op.verdict, chunk.slot)) {
    store_zeros(op, chunk, first, kc_least(total, first + M * QUERIES));
    return;
  }
  struct latent_job job;
  job.layer = op.layer;
  job.row = op.table.entry + (uint64_t)chunk.slot * op.table.stride;
  job.q = op.q + chunk.row * op.q_stride;
  job.q_stride = op.q_stride;
  job.heads = op.q_heads;
  job.first = first;
  job.total = total;
  job.start = 0;
  job.end = chunk.start + 1;
  job.scale = op.scale * KC_LOG2_E;
  job.padded = sizes.padded;
  job.record_bytes = sizes.record_bytes;
  job.out = op.out + chunk.row * op.out_stride;
  job.out_stride = op.out_stride;
  job.partial_out = nullptr;
  job.lse = nullptr;
  run_job<F8, M>(job);
}

/* ---- launching ---- */

static bool latent_fits(const struct kc_kv_layer *layer, struct latent_sizes *sizes)
{
  sizes->padded = (layer->latent + layer->rope + 63) / 64 * 64;
  sizes->record_bytes = (unsigned)kc_mla_record_bytes(layer);
  return layer->latent <= LATENT_MAX && sizes->padded <= WIDTH_MAX;
}

template <bool F8, unsigned M>
static enum kc_op_status launch_decode(void *context, const struct kc_op_decode *op,
                                       const struct latent_sizes &sizes)
{
  const dim3 grid(op->plan.split_count, kc_ceil_div(op->q_heads, M * QUERIES));
  return KC_LAUNCH(context, (latent_decode_kernel<F8, M>), grid, dim3(LATENT_THREADS),
                   (memory_bytes<F8, M>(sizes.padded, sizes.record_bytes)), *op, sizes);
}

template <bool F8>
static enum kc_op_status launch_prefill(void *context, const struct kc_op_prefill *op,
                                        unsigned longest, const struct latent_sizes &sizes)
{
  const dim3 grid(kc_ceil_div((uint64_t)longest * op->q_heads, 2 * QUERIES), op->chunks);
  return KC_LAUNCH(context, (latent_prefill_kernel<F8, 2>), grid, dim3(LATENT_THREADS),
                   (memory_bytes<F8, 2>(sizes.padded, sizes.record_bytes)), *op, sizes);
}

enum kc_op_status kc_gpu_decode_latent(void *context, const struct kc_op_decode *op)
{
  struct latent_sizes sizes;
  if (!latent_fits(&op->layer, &sizes)) return KC_OP_UNSUPPORTED;
  const bool fp8 = op->layer.k_format != KC_KV_BF16, wide = op->q_heads > QUERIES;
  if (fp8 && wide) return launch_decode<true, 2>(context, op, sizes);
  if (fp8) return launch_decode<true, 1>(context, op, sizes);
  if (wide) return launch_decode<false, 2>(context, op, sizes);
  return launch_decode<false, 1>(context, op, sizes);
}

enum kc_op_status kc_gpu_prefill_latent(void *context, const struct kc_op_prefill *op,
                                        unsigned longest)
{
  struct latent_sizes sizes;
  if (!latent_fits(&op->layer, &sizes)) return KC_OP_UNSUPPORTED;
  if (op->layer.k_format != KC_KV_BF16) return launch_prefill<true>(context, op, longest, sizes);
  return launch_prefill<false>(context, op, longest, sizes);
}
