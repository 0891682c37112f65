/* Attention on tensor cores: what a warp does with 16 queries and a tile of K and V.
 *
 *   S (16 x T)  = Q (16 x D) K^T      Q in registers, K by ldmatrix from shared memory
 *   P           = 2^(S - max)         in registers; S is scaled to powers of two before
 *   O (16 x D) += P (16 x T) V        P as it lies, V by transposing ldmatrix
 *
 * The accumulators of m16n8k16 give a lane the rows lane/4 and lane/4 + 8 and neighbouring columns,
 * and that is also how the A operand wants P: no data moves between the two products.
 *
 * Tiles lie as [token][D], in 16-byte chunks that are permuted within a row by its number, so that
 * the eight rows of an ldmatrix fall into different banks.
 *
 * FP8 (e4m3) is made f16, exactly, on the way into the product:
 *   K   ldmatrix moves pairs of codes; a register of four neighbouring dims becomes the two halves
 *       of a B operand whose k order is permuted; Q is loaded with the same permutation
 *   V   transposed pairs: a register holds dims 2g, 2g + 1 of tokens 2p, 2p + 1; one byte
 *       permutation parts them into two B operands, of the even and of the odd dims
 */
#ifndef KC_KERNELS_CUDA_ATTENTION_CUH
#define KC_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/words.cuh"

enum : unsigned { QUERIES = 16, CHUNK_BYTES = 16 };

/* A token's row in a tile: D elements of 1 (FP8) or 2 bytes. */
template <unsigned D, bool F8>
struct kv_shape {
  enum : unsigned { ROW_BYTES = F8 ? D : 2 * D, CHUNKS = ROW_BYTES / CHUNK_BYTES };
  static_assert(CHUNKS >= 4 && (CHUNKS & (CHUNKS - 1)) == 0, "rows of 64 bytes and powers of it");

  static KC_MEMBER unsigned at(unsigned row, unsigned chunk)
  {
    const unsigned turn = CHUNKS >= 8 ? row & 7 : row >> 1 & 3;
    return row * ROW_BYTES + (chunk ^ turn) * CHUNK_BYTES;
  }
};

/* Running softmax of the two query rows that a lane has. */
struct softmax_rows {
  float most[2]; /* of the scores so far, in powers of two */
  float sum[2];  /* of this lane's columns only */
};

KC_DEVICE void softmax_begin(struct softmax_rows &rows)
{
  rows.most[0] = rows.most[1] = KC_NEG_INFINITY;
  rows.sum[0] = rows.sum[1] = 0.0f;
}

/* ---- queries ---- */

/* Two neighbouring elements of a query, as the K format wants them. */
template <bool F8>
KC_DEVICE uint32_t query_pair(const uint16_t *q, unsigned dim, unsigned dims)
{
  if (q == nullptr || dim >= dims) return 0;
  const uint32_t pair = kc_load4(q + dim);
  if (!F8) return pair;
  const float most = 65504.0f; /* the largest f16 */
  const float low = kc_f32_of_bits(pair << 16), high = kc_f32_of_bits(pair & 0xffff0000u);
  return kc_f16x2(kc_max(kc_min(low, most), -most), kc_max(kc_min(high, most), -most));
}

/* The A operands of 16 queries; `first` and `second` are the rows lane/4 and lane/4 + 8, or null
 * for rows of zeros. `dims` <= D elements are there. */
template <unsigned D, bool F8>
KC_DEVICE void load_queries(uint32_t (&q)[D / 16][4], const uint16_t *first,
                            const uint16_t *second, unsigned dims)
{
  const unsigned pair = kc_lane() % 4;
  KC_UNROLL
  for (unsigned k = 0; k < D / 16; ++k) {
    const unsigned low = 16 * k + (F8 ? 4 * pair : 2 * pair), high = low + (F8 ? 2 : 8);
    q[k][0] = query_pair<F8>(first, low, dims);
    q[k][1] = query_pair<F8>(second, low, dims);
    q[k][2] = query_pair<F8>(first, high, dims);
    q[k][3] = query_pair<F8>(second, high, dims);
  }
}

/* ---- S = Q K^T ---- */

template <unsigned D, bool F8, unsigned T>
KC_DEVICE void multiply_keys(float (&s)[T / 8][4], const uint32_t (&q)[D / 16][4],
                             const kc_tile<unsigned char> &tile, unsigned first)
{
  const unsigned lane = kc_lane();
  KC_UNROLL
  for (unsigned n = 0; n < T / 8; ++n) {
    s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
    const unsigned row = first + 8 * n + lane % 8;
    KC_UNROLL
    for (unsigned c = 0; c < kv_shape<D, F8>::CHUNKS; c += 4) {
      uint32_t r[4];
      kc_ldmatrix4(r, tile.from(kv_shape<D, F8>::at(row, c + lane / 8)));
      KC_UNROLL
      for (unsigned i = 0; F8 && i < 4; ++i) {
        kc_mma_f16(s[n], q[F8 ? c + i : 0], kc_e4m3x2_to_f16x2(r[i] & 0xffffu),
                   kc_e4m3x2_to_f16x2(r[i] >> 16));
      }
      if (!F8) {
        kc_mma_bf16(s[n], q[c / 2], r[0], r[1]);
        kc_mma_bf16(s[n], q[c / 2 + 1], r[2], r[3]);
      }
    }
  }
}

/* ---- softmax ---- */

/* Turns scores into weights, in place; `shrink` is what older sums must be multiplied by. Rows
 * whose scores so far are all -infinity get weights 0. */
template <unsigned T>
KC_DEVICE void softmax_step(float (&s)[T / 8][4], struct softmax_rows &rows, float (&shrink)[2])
{
  KC_UNROLL
  for (unsigned r = 0; r < 2; ++r) {
    float most = rows.most[r];
    KC_UNROLL
    for (unsigned n = 0; n < T / 8; ++n) most = kc_max(most, kc_max(s[n][2 * r], s[n][2 * r + 1]));
    most = kc_max(most, kc_shuffle_xor(most, 1));
    most = kc_max(most, kc_shuffle_xor(most, 2));
    const float base = most == KC_NEG_INFINITY ? 0.0f : most;
    shrink[r] = kc_exp2(rows.most[r] - base);
    rows.most[r] = most;
    float sum = 0.0f;
    KC_UNROLL
    for (unsigned n = 0; n < T / 8; ++n) {
      s[n][2 * r] = kc_exp2(s[n][2 * r] - base);
      s[n][2 * r + 1] = kc_exp2(s[n][2 * r + 1] - base);
      sum += s[n][2 * r] + s[n][2 * r + 1];
    }
    rows.sum[r] = rows.sum[r] * shrink[r] + sum;
  }
}

/* The sum of a whole row, in each of the four lanes that share it. */
KC_DEVICE float softmax_row_sum(const struct softmax_rows &rows, unsigned r)
{
  const float sum = rows.sum[r] + kc_shuffle_xor(rows.sum[r], 1);
  return sum + kc_shuffle_xor(sum, 2);
}

/* ---- O += P V ---- */

template <bool F8>
KC_DEVICE uint32_t weight_pair(float low, float high)
{
  return F8 ? kc_f16x2(low, high) : kc_bf16x2(low, high);
}

template <unsigned D>
KC_DEVICE void shrink_output(float (&o)[D / 8][4], const float (&shrink)[2])
{
  KC_UNROLL
  for (unsigned n = 0; n < D / 8; ++n) {
    o[n][0] *= shrink[0];
    o[n][1] *= shrink[0];
    o[n][2] *= shrink[1];
    o[n][3] *= shrink[1];
  }
}

/* o[2 c] and o[2 c + 1] from two registers of 16 tokens and the 16 dims of an FP8 chunk. */
KC_DEVICE void multiply_fp8_chunk(float (&even)[4], float (&odd)[4], const uint32_t (&p)[4],
                                  uint32_t low, uint32_t high)
{
  low = kc_permute_bytes(low, 0, 0x3120); /* tokens side by side: dim 2g, then dim 2g + 1 */
  high = kc_permute_bytes(high, 0, 0x3120);
  kc_mma_f16(even, p, kc_e4m3x2_to_f16x2(low & 0xffffu), kc_e4m3x2_to_f16x2(high & 0xffffu));
  kc_mma_f16(odd, p, kc_e4m3x2_to_f16x2(low >> 16), kc_e4m3x2_to_f16x2(high >> 16));
}

template <unsigned D, bool F8, unsigned T>
KC_DEVICE void multiply_values(float (&o)[D / 8][4], const float (&s)[T / 8][4],
                               const kc_tile<unsigned char> &tile, unsigned first)
{
  const unsigned lane = kc_lane();
  KC_UNROLL
  for (unsigned k = 0; k < T / 16; ++k) {
    const uint32_t p[4] = {weight_pair<F8>(s[2 * k][0], s[2 * k][1]),
                           weight_pair<F8>(s[2 * k][2], s[2 * k][3]),
                           weight_pair<F8>(s[2 * k + 1][0], s[2 * k + 1][1]),
                           weight_pair<F8>(s[2 * k + 1][2], s[2 * k + 1][3])};
    const unsigned row = first + 16 * k + lane % 16;
    KC_UNROLL
    for (unsigned c = 0; c < kv_shape<D, F8>::CHUNKS; c += 2) {
      uint32_t r[4];
      kc_ldmatrix4_transposed(r, tile.from(kv_shape<D, F8>::at(row, c + lane / 16)));
      if (F8) {
        multiply_fp8_chunk(o[F8 ? 2 * c : 0], o[F8 ? 2 * c + 1 : 0], p, r[0], r[1]);
        multiply_fp8_chunk(o[F8 ? 2 * c + 2 : 0], o[F8 ? 2 * c + 3 : 0], p, r[2], r[3]);
      } else {
        kc_mma_bf16(o[F8 ? 0 : c], p, r[0], r[1]);
        kc_mma_bf16(o[F8 ? 0 : c + 1], p, r[2], r[3]);
      }
    }
  }
}

/* Which dim o[n][r] of this lane is. */
template <bool F8>
KC_DEVICE unsigned output_dim(unsigned n, unsigned r)
{
  const unsigned column = 2 * (kc_lane() % 4) + r % 2;
  return F8 ? 16 * (n / 2) + 2 * column + n % 2 : 8 * n + column;
}

/* ---- pages into shared memory ---- */

/* page_tokens is a power of two (layer_fits): a division in every copy would cost more than the
 * copy. */

enum : uint32_t { PAGE_MISSING = 0xffffffffu };

KC_DEVICE uint32_t page_offset(const struct kc_kv_layer &layer, uint32_t token)
{
  return token & (layer.page_tokens - 1);
}

/* The page of a token, or PAGE_MISSING: outside [0, end), or an id beyond the pool. */
KC_DEVICE uint32_t page_of_token(const struct kc_page_ref *row, const struct kc_kv_layer &layer,
                                 uint32_t token, uint32_t end)
{
  if (token >= end) return PAGE_MISSING;
  const uint32_t page = row[token >> kc_shift_of(layer.page_tokens)].page;
  return page < layer.pages ? page : PAGE_MISSING;
}

/* Sends chunk `chunk` of a token's head vector on its way to row `to` of a tile. */
template <unsigned D, bool F8>
KC_DEVICE void copy_chunk(const kc_tile<unsigned char> &tile, unsigned to, unsigned chunk,
                          const uint8_t *pool, uint64_t page_bytes, uint32_t page,
                          const struct kc_kv_layer &layer, unsigned head, uint32_t token)
{
  const unsigned bytes = F8 ? layer.head_dim : 2 * layer.head_dim;
  const unsigned offset = page_offset(layer, token);
  const bool there = page != PAGE_MISSING && chunk * CHUNK_BYTES < bytes;
  const uint8_t *from = pool;
  if (there) {
    from += page * page_bytes + (uint64_t)(head * layer.page_tokens + offset) * bytes +
            chunk * CHUNK_BYTES;
  }
  kc_copy16(tile.from(kv_shape<D, F8>::at(to, chunk)), from, there);
}

/* Host: whether the kernels can walk the layer's pages. */
static inline bool layer_fits(const struct kc_kv_layer &layer)
{
  return layer.page_tokens >= QUERIES && (layer.page_tokens & (layer.page_tokens - 1)) == 0;
}

/* Whether a row of a batch is left out: it is padding, or its slot has a verdict. */
KC_DEVICE bool slot_masked(const uint32_t *verdict, uint32_t slot)
{
  if (slot == KC_NO_SLOT) return true;
  return verdict != nullptr && verdict[slot] != KC_VERDICT_CLEAR;
}

#endif
