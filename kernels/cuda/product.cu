/* Products with a weight matrix: y = x W^T for few rows of x, where reading W is what costs.
 *
 *   W is the A operand (16 output features), rows of x are the columns of B (8 at a time)
 *
 *   block   ROW_TILES x 16 output features, up to NT x 8 rows of x
 *   warp    every WARPS-th block of 64 of the k dimension, in a pipeline of its own: STAGES blocks
 *           under way by cp.async, of W, of x, and of INT4's scales; a lane copies what it will
 *           itself read, in whole vectors, so no barrier is needed before the end
 *   end     the warps' sums are added in order through shared memory; where there are too few
 *           blocks for the machine, k is split over blocks too, and a second kernel adds those
 *
 * The order of k within a block of 64 is free, if W and x agree; it is chosen so that a lane's
 * elements are neighbours. With half h, step j and pair = lane % 4 the lane has
 *
 *   BF16, INT4   32 h + 8 pair + 4 j + {0, 1 | 2, 3}         groups of 32 stay whole
 *   FP8          16 pair + 8 h + 4 j + {0, 1 | 2, 3}
 *
 * INT4 becomes bf16 exactly (128 + q in the bits, less 136), and each half is summed by itself and
 * then scaled in FP32. FP8 weights become bf16 exactly; FP8 times FP8 goes through f16, exactly as
 * well.
 *
 * The same kernel does a product per head and a product per expert: they only move the pointers.
 */
#include "kernels/cuda/int4_pack.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/words.cuh"
#include "kernels/ops/op_check.h"

enum weight_kind { W_BF16, W_FP8, W_FP8_X8, W_INT4, W_INT4_ROWS };

enum : unsigned {
  BLOCK_K = 64,
  STAGE_MEMORY = 208 * 1024,
  SPLITS_MAX = 8,
  MACHINE_BLOCKS = 132, /* SMs of an H200; decides splits only, so it is a constant, not a query */
  ADD_THREADS = 256
};

/* One launch. `batch` b moves the pointers on; with `first`, batch b has the rows
 * first[b] .. first[b + 1] - 1, which come from row source[.] of x. */
struct product {
  const uint8_t *weight;
  const uint16_t *scale_bf16;
  const float *scale_f32;
  unsigned n, k, group_shift; /* INT4: log2 of the group */
  const uint8_t *x;
  uint64_t x_stride_bytes;
  const float *x_scale;
  unsigned m;
  uint8_t *out;
  uint64_t out_stride;
  bool out_f32, add;
  float *partial; /* [splits][m][n] when splits > 1 */
  unsigned splits;
  uint64_t weight_step, scale_step, x_step, out_step; /* bytes */
  const uint32_t *first;
  const int32_t *source;
};

static constexpr bool is_int4(unsigned kind)
{
  return kind == W_INT4 || kind == W_INT4_ROWS;
}

/* More row tiles read x less often; INT4's scaled sums leave too few registers for four of the
 * widest. */
static constexpr unsigned row_tiles(unsigned kind, unsigned column_tiles)
{
  return column_tiles <= 2 || (is_int4(kind) && column_tiles == 8) ? 2 : 4;
}

static constexpr unsigned warps_of(unsigned column_tiles)
{
  return column_tiles <= 2 ? 8 : 4;
}

template <unsigned W, unsigned NT>
struct product_shape {
  enum : unsigned {
    INT4 = is_int4(W),
    ROW_TILES = row_tiles(W, NT),
    WARPS = warps_of(NT),
    THREADS = WARPS * KC_LANES,
    W_VECTORS = W == W_BF16 ? 4 : W == W_INT4 ? 1 : W == W_INT4_ROWS ? 0 : 2, /* a row tile */
    X_VECTORS = W == W_FP8_X8 ? 1 : 2,                                        /* 8 columns */
    VECTORS = ROW_TILES * W_VECTORS + NT * X_VECTORS,
    SCALES = W == W_INT4 ? 2 * ROW_TILES : 0, /* words a lane */
    STAGE_BYTES = KC_LANES * (16 * VECTORS + 4 * SCALES),
    FIT = STAGE_MEMORY / WARPS / STAGE_BYTES,
    STAGES = FIT > 8 ? 8 : FIT,
    WARP_BYTES = STAGES * STAGE_BYTES,
    ROWS = 16 * ROW_TILES,
    COLUMNS = 8 * NT
  };
  static_assert(STAGES >= 3, "a pipeline");
  static_assert(WARP_BYTES >= ROWS * COLUMNS * 4, "the sums fit where the stages were");
};

template <unsigned W, unsigned NT>
using product_sums = float[product_shape<W, NT>::ROW_TILES][NT][4];

enum : uint32_t { NO_ROW = 0xffffffffu };

/* What a warp's lane reads from, for one batch, one block of rows and columns. */
template <unsigned NT>
struct product_view {
  const uint8_t *weight;
  const uint8_t *scale;   /* bf16 */
  const uint8_t *x;
  uint32_t x_row[NT];     /* the lane's row of each 8; NO_ROW behind the end */
  unsigned row;           /* first output feature of the block */
};

KC_DEVICE unsigned k_offset_bf16(unsigned block, unsigned half)
{
  return block * BLOCK_K + 32 * half + 8 * (kc_lane() % 4);
}

KC_DEVICE unsigned k_offset_fp8(unsigned block)
{
  return block * BLOCK_K + 16 * (kc_lane() % 4);
}

/* ---- fetching ---- */

/* The lane's vector of a packed tile. */
KC_DEVICE void fetch_packed(const struct product &p, const uint8_t *weight, unsigned row,
                            const kc_tile<unsigned char> &to, unsigned block)
{
  const uint64_t blocks = (p.k + BLOCK_K - 1) / BLOCK_K;
  const uint8_t *from = weight + ((row / 16 * blocks + block) * KC_LANES + kc_lane()) * 16;
  kc_copy16(to, row < p.n ? from : weight, row < p.n);
}

/* The lane's vectors of rows lane/4 and lane/4 + 8 of a tile in plain rows. */
template <unsigned W>
KC_DEVICE void fetch_plain(const struct product &p, const uint8_t *weight, unsigned row,
                           const kc_tile<unsigned char> &to, unsigned block)
{
  enum : unsigned { HALVES = W == W_BF16 ? 2 : 1, BYTES = W == W_BF16 ? 2 : 1 };
  KC_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const unsigned mine = row + kc_lane() / 4 + 8 * i;
    KC_UNROLL
    for (unsigned half = 0; half < HALVES; ++half) {
      const unsigned at = W == W_BF16 ? k_offset_bf16(block, half) : k_offset_fp8(block);
      const bool there = mine < p.n && at < p.k;
      kc_copy16(to.from((HALVES * i + half) * KC_LANES * 16),
                weight + (there ? ((uint64_t)mine * p.k + at) * BYTES : 0), there);
    }
  }
}

/* The lane's vectors of eight rows of x. */
template <unsigned W>
KC_DEVICE void fetch_x(const struct product &p, const uint8_t *x, uint32_t row,
                       const kc_tile<unsigned char> &to, unsigned block)
{
  const uint8_t *from = x + (row == NO_ROW ? 0 : row * p.x_stride_bytes);
  KC_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    if (W == W_FP8_X8 && half == 1) break;
    const unsigned at = W == W_BF16 || W == W_INT4 || W == W_INT4_ROWS
                            ? k_offset_bf16(block, half)
                            : k_offset_fp8(block) + 8 * half;
    const bool there = row != NO_ROW && at < p.k;
    kc_copy16(to.from(half * KC_LANES * 16), from + (there ? (W == W_FP8_X8 ? at : 2 * at) : 0),
              there);
  }
}

/* Two words for each packed tile, one a half: scales of rows lane/4 and lane/4 + 8. */
template <unsigned TILES>
KC_DEVICE void fetch_scales(const struct product &p, const uint8_t *scale, unsigned first,
                            const kc_tile<unsigned char> &to, unsigned block)
{
  const unsigned lane = kc_lane();
  KC_UNROLL
  for (unsigned i = 0; i < 2 * TILES; ++i) {
    const unsigned row = first + 16 * (i / 2), at = block * BLOCK_K + 32 * (i % 2);
    const bool there = row < p.n && at < p.k;
    const uint64_t index = (uint64_t)(row / 16) * (p.k >> p.group_shift) + (at >> p.group_shift);
    kc_copy4(to.from((i * KC_LANES + lane) * 4),
             scale + (there ? (index * 8 + lane / 4) * 4 : 0), there);
  }
}

template <unsigned W, unsigned NT>
KC_DEVICE void fetch_block(const struct product &p, const struct product_view<NT> &view,
                           const kc_tile<unsigned char> &stage, unsigned block)
{
  using shape = product_shape<W, NT>;
  const unsigned lane = kc_lane(), step = KC_LANES * 16;
  KC_UNROLL
  for (unsigned t = 0; t < shape::ROW_TILES; ++t) {
    const kc_tile<unsigned char> to = stage.from(t * shape::W_VECTORS * step + 16 * lane);
    if (W == W_INT4) fetch_packed(p, view.weight, view.row + 16 * t, to, block);
    if (W != W_INT4 && W != W_INT4_ROWS) {
      fetch_plain<W>(p, view.weight, view.row + 16 * t, to, block);
    }
  }
  KC_UNROLL
  for (unsigned c = 0; c < NT; ++c) {
    const unsigned at = (shape::ROW_TILES * shape::W_VECTORS + c * shape::X_VECTORS) * step;
    fetch_x<W>(p, view.x, view.x_row[c], stage.from(at + 16 * lane), block);
  }
  if (W == W_INT4) {
    fetch_scales<shape::ROW_TILES>(p, view.scale, view.row, stage.from(shape::VECTORS * step),
                                   block);
  }
}

/* ---- multiplying ---- */

/* One word of packed INT4 as an A operand. */
KC_DEVICE void expand_int4(uint32_t (&a)[4], uint32_t word)
{
  KC_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    a[i] = kc_bf16x2_subtract((word >> (4 * i) & 0x000f000fu) | 0x43004300u, 0x43084308u);
  }
}

/* The word that a packed matrix would have, from rows in the canonical order. */
KC_DEVICE uint32_t gather_int4(const struct product &p, const uint8_t *weight, unsigned row,
                               unsigned k)
{
  uint32_t word = 0;
  KC_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const unsigned mine = row + kc_lane() / 4 + 8 * i;
    uint32_t four = 0x8888; /* zeros */
    if (mine < p.n && k < p.k) {
      const uint8_t *from = weight + ((uint64_t)mine * p.k + k) / 2;
      four = from[0] | (uint32_t)from[1] << 8;
    }
    word |= (four & 15) << (4 * i) | (four >> 4 & 15) << (4 * i + 16);
    word |= (four >> 8 & 15) << (4 * i + 8) | (four >> 12 & 15) << (4 * i + 24);
  }
  return word;
}

KC_DEVICE uint32_t word_at(const uint4 &v, unsigned i)
{
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* The A operands of both steps of a half. `from`: the lane's vectors of the row tile. */
template <unsigned W>
KC_DEVICE void load_half(uint32_t (&a)[2][4], const struct product &p, const uint8_t *weight,
                         unsigned row, const kc_tile<unsigned char> &from, unsigned block,
                         unsigned half)
{
  const unsigned step = KC_LANES * 16;
  uint4 v[2] = {};
  if (W == W_INT4) v[0] = from.get16(0);
  if (W == W_BF16) v[0] = from.get16(half * step);
  if (W == W_BF16) v[1] = from.get16((2 + half) * step);
  if (W == W_FP8 || W == W_FP8_X8) v[0] = from.get16(0);
  if (W == W_FP8 || W == W_FP8_X8) v[1] = from.get16(step);
  KC_UNROLL
  for (unsigned j = 0; j < 2; ++j) {
    if (W == W_INT4) expand_int4(a[j], word_at(v[0], 2 * half + j));
    if (W == W_INT4_ROWS) {
      expand_int4(a[j], gather_int4(p, weight, row, k_offset_bf16(block, half) + 4 * j));
    }
    KC_UNROLL
    for (unsigned i = 0; i < 2; ++i) { /* rows lane/4 and lane/4 + 8 */
      uint32_t pair[2] = {word_at(v[i], 2 * j), word_at(v[i], 2 * j + 1)};
      if (W == W_FP8) kc_e4m3x4_to_bf16(pair, word_at(v[i], 2 * half + j));
      if (W == W_FP8_X8) {
        pair[0] = kc_e4m3x2_to_f16x2(word_at(v[i], 2 * half + j) & 0xffffu);
        pair[1] = kc_e4m3x2_to_f16x2(word_at(v[i], 2 * half + j) >> 16);
      }
      if (W == W_INT4 || W == W_INT4_ROWS) continue;
      a[j][i] = pair[0];
      a[j][2 + i] = pair[1];
    }
  }
}

/* Both steps of a half, of one row tile and eight columns. */
template <unsigned W>
KC_DEVICE void multiply_half(float (&sum)[4], const uint32_t (&a)[2][4], const uint4 &x,
                             unsigned half)
{
  KC_UNROLL
  for (unsigned j = 0; j < 2; ++j) {
    if (W == W_FP8_X8) {
      const uint32_t codes = word_at(x, 2 * half + j);
      kc_mma_f16(sum, a[j], kc_e4m3x2_to_f16x2(codes & 0xffffu), kc_e4m3x2_to_f16x2(codes >> 16));
    } else {
      kc_mma_bf16(sum, a[j], word_at(x, 2 * j), word_at(x, 2 * j + 1));
    }
  }
}

/* Scales of the lane's two rows of a tile, in a half. */
template <unsigned W>
KC_DEVICE void load_scales(float (&scale)[2], const struct product &p, const uint8_t *scales,
                           unsigned row, const kc_tile<unsigned char> &words, unsigned index,
                           unsigned k)
{
  if (W == W_INT4) {
    const uint32_t pair = words.get4((index * KC_LANES + kc_lane()) * 4);
    scale[0] = kc_f32_of_bits(pair << 16);
    scale[1] = kc_f32_of_bits(pair & 0xffff0000u);
  }
  KC_UNROLL
  for (unsigned i = 0; W == W_INT4_ROWS && i < 2; ++i) {
    const unsigned mine = row + kc_lane() / 4 + 8 * i;
    scale[i] = 0.0f;
    if (mine >= p.n || k >= p.k) continue;
    const uint16_t *from = reinterpret_cast<const uint16_t *>(scales);
    scale[i] = kc_bf16_decode(from[(uint64_t)mine * (p.k >> p.group_shift) + (k >> p.group_shift)]);
  }
}

template <unsigned W, unsigned NT>
KC_DEVICE void multiply_block(product_sums<W, NT> &sum,
                              const struct product &p, const struct product_view<NT> &view,
                              const kc_tile<unsigned char> &stage, unsigned block)
{
  using shape = product_shape<W, NT>;
  const unsigned lane = kc_lane(), step = KC_LANES * 16;
  const kc_tile<unsigned char> words = stage.from(shape::VECTORS * step);
  KC_ROLL /* unrolled, the widest shapes would not fit into registers */
  for (unsigned half = 0; half < 2; ++half) {
    KC_UNROLL
    for (unsigned t = 0; t < shape::ROW_TILES; ++t) {
      const unsigned row = view.row + 16 * t;
      uint32_t a[2][4];
      float scale[2];
      load_half<W>(a, p, view.weight, row, stage.from(t * shape::W_VECTORS * step + 16 * lane),
                   block, half);
      if (shape::INT4) {
        load_scales<W>(scale, p, view.scale, row, words, 2 * t + half, block * BLOCK_K + 32 * half);
      }
      KC_UNROLL
      for (unsigned c = 0; c < NT; ++c) {
        const unsigned vector = shape::ROW_TILES * shape::W_VECTORS + c * shape::X_VECTORS +
                                (shape::X_VECTORS == 2 ? half : 0);
        const uint4 x = stage.get16(vector * step + 16 * lane);
        if (!shape::INT4) {
          multiply_half<W>(sum[t][c], a, x, half);
          continue;
        }
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        multiply_half<W>(part, a, x, half);
        KC_UNROLL
        for (unsigned r = 0; r < 4; ++r) sum[t][c][r] += scale[r / 2] * part[r];
      }
    }
  }
}

/* ---- the block ---- */

/* A warp over its share of the blocks [begin, end) of k. */
template <unsigned W, unsigned NT>
KC_DEVICE void sum_blocks(product_sums<W, NT> &sum,
                          const struct product &p, const struct product_view<NT> &view,
                          const kc_tile<unsigned char> &memory, unsigned begin, unsigned end)
{
  using shape = product_shape<W, NT>;
  unsigned fetch = begin + kc_warp_index(), into = shape::STAGES - 1, from = 0;
  KC_UNROLL
  for (unsigned i = 0; i < shape::STAGES - 1; ++i, fetch += shape::WARPS) {
    if (fetch < end) fetch_block<W, NT>(p, view, memory.from(i * shape::STAGE_BYTES), fetch);
    kc_copy_commit();
  }
  for (unsigned block = begin + kc_warp_index(); block < end; block += shape::WARPS) {
    kc_copy_wait<shape::STAGES - 2>(); /* the lane's own copies: nobody else reads them */
    if (fetch < end) fetch_block<W, NT>(p, view, memory.from(into * shape::STAGE_BYTES), fetch);
    kc_copy_commit();
    fetch += shape::WARPS;
    into = into + 1 == shape::STAGES ? 0 : into + 1;
    multiply_block<W, NT>(sum, p, view, memory.from(from * shape::STAGE_BYTES), block);
    from = from + 1 == shape::STAGES ? 0 : from + 1;
  }
  kc_copy_wait<0>();
}

/* An output, scaled, added and rounded. */
KC_DEVICE void store_value(const struct product &p, uint8_t *out, uint64_t row, unsigned feature,
                           float value)
{
  const uint64_t at = row * p.out_stride + feature;
  if (p.x_scale != nullptr) value *= p.x_scale[row];
  if (p.scale_f32 != nullptr) value *= p.scale_f32[0];
  if (p.out_f32) {
    float *to = reinterpret_cast<float *>(out) + at;
    *to = p.add ? *to + value : value;
  } else {
    uint16_t *to = reinterpret_cast<uint16_t *>(out) + at;
    *to = kc_bf16_encode(p.add ? kc_bf16_decode(*to) + value : value);
  }
}

/* Adds the warps' sums and stores them. `row` is the first row of the block's columns. */
template <unsigned W, unsigned NT>
KC_DEVICE void store_block(const product_sums<W, NT> &sum,
                           const struct product &p, const kc_tile<unsigned char> &memory,
                           uint8_t *out, unsigned first_feature, unsigned row, unsigned rows,
                           unsigned split)
{
  using shape = product_shape<W, NT>;
  const kc_tile<float> sums = memory.template as<float>();
  const unsigned mine = kc_warp_index() * (shape::WARP_BYTES / 4), lane = kc_lane();
  kc_sync_block();
  KC_UNROLL
  for (unsigned t = 0; t < shape::ROW_TILES; ++t) {
    KC_UNROLL
    for (unsigned c = 0; c < NT; ++c) {
      KC_UNROLL
      for (unsigned r = 0; r < 4; ++r) {
        const unsigned feature = 16 * t + lane / 4 + 8 * (r / 2);
        const unsigned column = 8 * c + 2 * (lane % 4) + r % 2;
        sums.set(mine + column * shape::ROWS + feature, sum[t][c][r]);
      }
    }
  }
  kc_sync_block();
  for (unsigned i = threadIdx.x; i < shape::ROWS * shape::COLUMNS; i += shape::THREADS) {
    const unsigned feature = first_feature + i % shape::ROWS, column = i / shape::ROWS;
    if (feature >= p.n || column >= rows) continue;
    float value = 0.0f;
    KC_UNROLL
    for (unsigned w = 0; w < shape::WARPS; ++w) value += sums.get(w * (shape::WARP_BYTES / 4) + i);
    if (p.splits > 1) {
      p.partial[((uint64_t)split * p.m + row + column) * p.n + feature] = value;
    } else {
      store_value(p, out, row + column, feature, value);
    }
  }
  kc_sync_block(); /* the memory is the pipeline's again */
}

/* Points the lane at its rows of x. */
template <unsigned NT>
KC_DEVICE void find_rows(struct product_view<NT> &view, const struct product &p, unsigned row,
                         unsigned rows)
{
  KC_UNROLL
  for (unsigned c = 0; c < NT; ++c) {
    const unsigned column = 8 * c + kc_lane() / 4;
    view.x_row[c] = NO_ROW; /* also what a source of -1 is */
    if (column >= rows) continue;
    view.x_row[c] = p.source != nullptr ? (uint32_t)p.source[row + column] : row + column;
  }
}

template <unsigned W, unsigned NT>
__global__ void KC_BOUNDS((product_shape<W, NT>::THREADS), 1)
    product_kernel(KC_PARAMETER struct product p)
{
  using shape = product_shape<W, NT>;
  kc_shared shared;
  const kc_tile<unsigned char> memory =
      shared.take<unsigned char>(shape::WARPS * shape::WARP_BYTES);
  const unsigned split = blockIdx.z % p.splits, batch = blockIdx.z / p.splits;
  const unsigned begin = p.first != nullptr ? p.first[batch] : 0;
  const unsigned end = p.first != nullptr ? p.first[batch + 1] : p.m;
  const unsigned blocks = (p.k + BLOCK_K - 1) / BLOCK_K;
  const uint8_t *scales = reinterpret_cast<const uint8_t *>(p.scale_bf16);
  struct product_view<NT> view;
  view.weight = p.weight + batch * p.weight_step;
  view.scale = shape::INT4 ? scales + batch * p.scale_step : nullptr;
  view.x = p.x + batch * p.x_step;
  view.row = blockIdx.x * shape::ROWS;
  for (unsigned row = begin + blockIdx.y * shape::COLUMNS; row < end;
       row += gridDim.y * shape::COLUMNS) {
    const unsigned rows = kc_least(end - row, shape::COLUMNS);
    product_sums<W, NT> sum = {};
    find_rows<NT>(view, p, row, rows);
    sum_blocks<W, NT>(sum, p, view, memory.from(kc_warp_index() * shape::WARP_BYTES),
                      (unsigned)((uint64_t)blocks * split / p.splits),
                      (unsigned)((uint64_t)blocks * (split + 1) / p.splits));
    store_block<W, NT>(sum, p, memory, p.out + batch * p.out_step, view.row, row, rows, split);
  }
}

/* Adds the splits, in order. */
__global__ void KC_BOUNDS(ADD_THREADS, 4) add_splits_kernel(KC_PARAMETER struct product p)
{
  const unsigned feature = blockIdx.x * ADD_THREADS + threadIdx.x, row = blockIdx.y;
  if (feature >= p.n) return;
  float value = 0.0f;
  for (unsigned split = 0; split < p.splits; ++split) {
    value += p.partial[((uint64_t)split * p.m + row) * p.n + feature];
  }
  store_value(p, p.out, row, feature, value);
}

/* ---- launching ---- */

/* Columns of eight a block takes, for products of about `rows` rows. */
static unsigned column_tiles(unsigned rows)
{
  return rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
}

template <unsigned W, unsigned NT>
static enum kc_op_status launch_shape(void *context, const struct product *p, unsigned columns,
                                      unsigned batches)
{
  using shape = product_shape<W, NT>;
  const dim3 grid(kc_ceil_div(p->n, shape::ROWS), columns, batches * p->splits);
  return KC_LAUNCH(context, (product_kernel<W, NT>), grid, dim3(shape::THREADS),
                   kc_tile_bytes<unsigned char>(shape::WARPS * shape::WARP_BYTES), *p);
}

template <unsigned W>
static enum kc_op_status launch_tiles(void *context, const struct product *p, unsigned tiles,
                                      unsigned columns, unsigned batches)
{
  switch (tiles) {
  case 1: return launch_shape<W, 1>(context, p, columns, batches);
  case 2: return launch_shape<W, 2>(context, p, columns, batches);
  case 4: return launch_shape<W, 4>(context, p, columns, batches);
  default: return launch_shape<W, 8>(context, p, columns, batches);
  }
}

/* `rows`: about as many as a batch has. */
static enum kc_op_status launch_product(void *context, const struct product *p,
                                        enum weight_kind kind, unsigned rows, unsigned batches)
{
  const unsigned tiles = column_tiles(rows);
  unsigned columns = kc_ceil_div(rows, 8 * tiles);
  if (columns > 65535) columns = 65535;
  switch (kind) {
  case W_BF16: return launch_tiles<W_BF16>(context, p, tiles, columns, batches);
  case W_FP8: return launch_tiles<W_FP8>(context, p, tiles, columns, batches);
  case W_FP8_X8: return launch_tiles<W_FP8_X8>(context, p, tiles, columns, batches);
  case W_INT4: return launch_tiles<W_INT4>(context, p, tiles, columns, batches);
  case W_INT4_ROWS: return launch_tiles<W_INT4_ROWS>(context, p, tiles, columns, batches);
  }
  return KC_OP_UNSUPPORTED;
}

/* False: no kernel has the format. */
static bool describe_weight(struct product *p, enum weight_kind *kind,
                            const struct kc_weight *weight, bool x8)
{
  p->weight = static_cast<const uint8_t *>(weight->data);
  p->n = weight->rows;
  p->k = weight->cols;
  p->scale_bf16 = weight->scale_bf16;
  const uint32_t group = kc_int4_group(weight->format);
  if (group != 0) {
    while (1u << p->group_shift < group) p->group_shift += 1;
    *kind = weight->layout == KC_LAYOUT_FRAGMENT ? W_INT4 : W_INT4_ROWS;
    return !x8;
  }
  if (weight->layout != KC_LAYOUT_ROWS) return false;
  *kind = weight->format == KC_WEIGHT_BF16 ? W_BF16 : x8 ? W_FP8_X8 : W_FP8;
  if (weight->format == KC_WEIGHT_FP8) p->scale_f32 = weight->scale_f32;
  return weight->format == KC_WEIGHT_FP8 || (weight->format == KC_WEIGHT_BF16 && !x8);
}

/* Into how many parts k is cut: until the machine has a block for each SM, and a warp still has two
 * blocks of k. */
static unsigned split_count(const struct kc_op_gemm *op)
{
  const unsigned kind = kc_int4_group(op->weight.format) != 0 ? W_INT4 : W_BF16;
  const unsigned tiles = column_tiles(op->rows);
  const unsigned features = 16 * row_tiles(kind, tiles);
  const unsigned blocks =
      kc_ceil_div(op->weight.rows, features) * kc_ceil_div(op->rows, 8 * tiles);
  const unsigned deepest =
      kc_ceil_div(op->weight.cols, BLOCK_K) / (2 * warps_of(tiles));
  unsigned splits = MACHINE_BLOCKS / (blocks > 0 ? blocks : 1);
  if (splits > deepest) splits = deepest;
  if (splits > SPLITS_MAX) splits = SPLITS_MAX;
  return splits > 1 ? splits : 1;
}

uint64_t kc_gpu_gemm_workspace_bytes(void *context, const struct kc_op_gemm *op)
{
  (void)context;
  const uint64_t splits = op->rows == 0 ? 1 : split_count(op);
  return splits == 1 ? 0 : splits * op->rows * op->weight.rows * sizeof(float);
}

enum kc_op_status kc_gpu_gemm(void *context, const struct kc_op_gemm *op)
{
  if (!kc_op_gemm_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  struct product p = {};
  enum weight_kind kind;
  const bool x8 = op->x_type == KC_DTYPE_E4M3;
  if (!describe_weight(&p, &kind, &op->weight, x8)) return KC_OP_UNSUPPORTED;
  if (op->workspace_bytes < kc_gpu_gemm_workspace_bytes(context, op)) return KC_OP_MEMORY;
  p.x = static_cast<const uint8_t *>(op->x);
  p.x_stride_bytes = op->x_stride * (x8 ? 1 : 2);
  p.x_scale = op->x_scale;
  p.m = op->rows;
  p.out = static_cast<uint8_t *>(op->out);
  p.out_stride = op->out_stride;
  p.out_f32 = op->out_type == KC_DTYPE_F32;
  p.add = op->add;
  p.splits = split_count(op);
  p.partial = static_cast<float *>(op->workspace);
  const enum kc_op_status status = launch_product(context, &p, kind, op->rows, 1);
  if (status != KC_OP_OK || p.splits == 1) return status;
  return KC_LAUNCH(context, add_splits_kernel, dim3(kc_ceil_div(p.n, ADD_THREADS), p.m),
                   dim3(ADD_THREADS), 0, p);
}

enum kc_op_status kc_gpu_head_gemm(void *context, const struct kc_op_head_gemm *op)
{
  if (!kc_op_head_gemm_valid(op)) return KC_OP_BAD;
  if (op->rows == 0) return KC_OP_OK;
  struct product p = {};
  p.weight = reinterpret_cast<const uint8_t *>(op->weight);
  p.n = op->n;
  p.k = op->k;
  p.weight_step = (uint64_t)op->n * op->k * 2;
  p.x = reinterpret_cast<const uint8_t *>(op->x);
  p.x_stride_bytes = op->x_stride * 2;
  p.x_step = op->x_head_stride * 2;
  p.m = op->rows;
  p.out = reinterpret_cast<uint8_t *>(op->out);
  p.out_stride = op->out_stride;
  p.out_step = op->out_head_stride * 2;
  p.splits = 1;
  return launch_product(context, &p, W_BF16, op->rows, op->heads);
}

enum kc_op_status kc_gpu_grouped_gemm(void *context, const struct kc_op_grouped_gemm *op)
{
  if (!kc_op_grouped_gemm_valid(op)) return KC_OP_BAD;
  if (op->positions == 0) return KC_OP_OK;
  struct product p = {};
  enum weight_kind kind;
  if (!describe_weight(&p, &kind, &op->weight, false)) return KC_OP_UNSUPPORTED;
  p.weight_step = op->data_stride_bytes;
  p.scale_step = op->scale_stride_bytes;
  p.x = reinterpret_cast<const uint8_t *>(op->x);
  p.x_stride_bytes = op->x_stride * 2;
  p.m = op->positions;
  p.out = reinterpret_cast<uint8_t *>(op->out);
  p.out_stride = op->out_stride;
  p.splits = 1;
  p.first = op->first;
  p.source = op->source;
  return launch_product(context, &p, kind, kc_ceil_div(op->positions, op->experts), op->experts);
}
