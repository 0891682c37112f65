/* Operations on rows of activations: gather, norm, RoPE, products, SwiGLU, sampling. */
#ifndef KC_KERNELS_OPS_OP_DENSE_H
#define KC_KERNELS_OPS_OP_DENSE_H

#include "kernels/ops/op_types.h"

/* out[r] = source[index[r]] (embedding; rows that yield logits). index -1: a row of zeros.
 * source_rows bounds the index: beyond it is a row of zeros as well. */
struct kc_op_gather {
  uint32_t rows, width; /* width a multiple of 8 */
  const uint16_t *source;
  uint32_t source_rows;
  uint64_t source_stride;
  const int32_t *index; /* [rows] */
  uint16_t *out;
  uint64_t out_stride;
};

/* y = h * weight / sqrt(mean(h^2) + epsilon), with h = x, or h = bf16(x + residual) where residual
 * is given; h is then stored back to residual. out may be x (in place). A row may consist of heads,
 * each normed by itself with the same weight; there is no residual then. */
struct kc_op_rms_norm {
  uint32_t rows, width; /* width a multiple of 8 */
  uint32_t heads;       /* in a row; 0 reads as 1 */
  uint64_t head_stride; /* from one to the next, in x and out; 0 with one head */
  const uint16_t *x;
  uint64_t x_stride;
  uint16_t *residual; /* in place; NULL: none */
  uint64_t residual_stride;
  const uint16_t *weight; /* [width]; NULL: ones */
  float epsilon;
  uint16_t *out;
  uint64_t out_stride;
};

/* Rotary embedding in place: in each row and head, pair i of the dims [offset, offset + dims) turns
 * by the angle position * frequency_i.
 *   HALF         pair i = (i, i + dims/2)        NeoX, Hugging Face Llama
 *   INTERLEAVED  pair i = (2i, 2i + 1)           GPT-J, DeepSeek's own code
 * No implementation takes sines: the angle is looked up as position = 256 h + l in two tables,
 * high[h][i] and low[l][i], each {cos, sin}, made on the host in double (kc_rope_tables); the
 * product of the two rotations is taken in FP32. Amplitude factors (YaRN) are in `low`. */
enum kc_rope_pairs { KC_ROPE_HALF, KC_ROPE_INTERLEAVED };

enum { KC_ROPE_LOW_ROWS = 256 };

struct kc_op_rope {
  uint32_t rows, heads;
  uint32_t head_dim; /* elements from one head to the next within a row */
  uint32_t offset, dims; /* head_dim, offset, dims multiples of 8; offset + dims <= head_dim */
  enum kc_rope_pairs pairs;
  const int32_t *position; /* [rows], -1: row untouched */
  uint32_t positions;      /* positions < this; others leave the row untouched */
  const float *high;       /* [ceil(positions / 256)][dims / 2][2] */
  const float *low;        /* [256][dims / 2][2] */
  uint16_t *x;             /* [rows][heads][head_dim], in place */
  uint64_t x_stride;
};

/* out[m][n] = sum_k x[m][k] * x_scale[m] * W[n][k].
 * x is BF16 (x_scale NULL) or E4M3 (x_scale per row). W is any format for BF16 x, FP8 for E4M3 x.
 * W4A16: values are code * scale, products accumulate in FP32; scales are never folded into bf16
 * weights (who wants that calls dequantise first). `add` true: out += (out's old value is read, one
 * rounding). */
struct kc_op_gemm {
  uint32_t rows;          /* m; n and k are the weight's rows and cols; k a multiple of 32 */
  enum kc_dtype x_type;
  const void *x;
  uint64_t x_stride;
  const float *x_scale;   /* [rows] */
  struct kc_weight weight;
  enum kc_dtype out_type; /* BF16 or F32 */
  void *out;
  uint64_t out_stride;
  bool add;
  void *workspace;        /* see kc_ops.gemm_workspace_bytes */
  uint64_t workspace_bytes;
};

/* One small product per head: out[r][h][n] = sum_k x[r][h][k] * W[h][n][k], W BF16
 * [heads][n][k]. Absorbs W_uk into queries and expands latent outputs by W_uv in MLA. */
struct kc_op_head_gemm {
  uint32_t rows, heads, n, k; /* n, k multiples of 16 */
  const uint16_t *x;
  uint64_t x_stride, x_head_stride;
  const uint16_t *weight;
  uint16_t *out;
  uint64_t out_stride, out_head_stride;
};

/* out[r][k] = bf16(W[first + r][k]), one rounding of the exact code times scale: INT4 by every
 * implementation, in any layout that it multiplies by. For products of so many rows that a dense
 * product of the result pays; the result is rounded, which the gemm of the codes is not. */
struct kc_op_dequantise {
  struct kc_weight weight;
  uint32_t first, rows; /* first a multiple of 16; first + rows at most the weight's */
  uint16_t *out;        /* [rows][cols] */
};

/* Row-wise activation quantisation: scale[r] = max(amax(x[r]) / 448, 2^-20), FP32, and
 * out[r][i] = e4m3(x[r][i] / scale[r]), saturating, nearest even, a true FP32 division. */
struct kc_op_quantise_rows {
  uint32_t rows, width; /* width a multiple of 16 */
  const uint16_t *x;
  uint64_t x_stride;
  uint8_t *out;
  uint64_t out_stride; /* multiple of 16 */
  float *scale;        /* [rows] */
};

/* out[r][i] = silu(x[r][i]) * x[r][width + i]; silu(g) = g / (1 + exp(-g)). */
struct kc_op_swiglu {
  uint32_t rows, width; /* width a multiple of 8; x has 2 * width */
  const uint16_t *x;
  uint64_t x_stride;
  uint16_t *out;
  uint64_t out_stride;
};

/* token[r] = the index of the largest perturbed score; the lowest index among equals.
 *   temperature 0   score = logit (greedy)
 *   temperature t   score = logit / t - log(-log(u)), u in (0, 1) from
 *                   kc_sample_uniform(seed[r], position[r], index) (Gumbel-max: exactly the softmax
 *                   distribution, without a sort, and every token's draw is its own)
 * NaN logits lose against every number; a row of NaN yields 0. A slot with a verdict yields -1,
 * as does KC_NO_SLOT. */
struct kc_op_sample {
  uint32_t rows, vocabulary;
  const float *logits;
  uint64_t logits_stride;
  const uint32_t *slot;        /* [rows]; NULL: no verdicts are looked up */
  const uint32_t *verdict;     /* [slots]; NULL: none */
  const float *temperature;    /* [rows]; NULL: greedy */
  const uint64_t *seed;        /* [rows] */
  const int32_t *position;     /* [rows] */
  int32_t *token;              /* [rows] */
};

#endif
