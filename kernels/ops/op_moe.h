/* Mixture of experts: routing, sorting of rows by expert, grouped products, combination. */
#ifndef KC_KERNELS_OPS_OP_MOE_H
#define KC_KERNELS_OPS_OP_MOE_H

#include "kernels/ops/op_types.h"

enum kc_route_score { KC_ROUTE_SOFTMAX, KC_ROUTE_SIGMOID };

enum { KC_EXPERTS_MAX = 512, KC_EXPERTS_TOP_MAX = 16 };

/* Chooses `top` experts a row.
 *   s_e     softmax(logits)_e, or sigmoid(logits_e)
 *   c_e     s_e + bias_e (bias NULL: s_e): decides who is chosen, never the weight
 *   groups  experts fall into `groups` equal runs; a group scores the sum of its two highest c (one
 *           where it has one) if bias is given, else its highest c; only the groups_top best groups
 *           stay. groups = 1: all stay. (DeepSeek-V3 noaux_tc; V2 group_limited_greedy)
 *   weight  s_e of the chosen, divided by (their sum + 1e-20) if normalise, times factor
 * Order: c descending; the lower index among equals, for groups and for experts alike. NaN logits
 * count as -infinity. */
struct kc_op_route {
  uint32_t rows, experts, top;
  uint32_t groups, groups_top;
  enum kc_route_score score;
  bool normalise;
  float factor;
  const float *logits; /* [rows][experts] */
  uint64_t logits_stride;
  const float *bias;   /* [experts]; NULL: none */
  int32_t *expert;     /* [rows][top] */
  float *weight;       /* [rows][top] */
};

/* Sorts the rows * top choices by expert, stable in (row, choice). Choice c of row r is number
 * r * top + c.
 *   first[e] .. first[e + 1] - 1   sorted positions of expert e
 *   source[p]                      the row at sorted position p
 *   place[r * top + c]             the sorted position of a choice
 * An expert id below `expert_first` or not below expert_first + experts is another rank's (expert
 * parallelism): its place is -1 and it takes no position. */
struct kc_op_moe_sort {
  uint32_t rows, top;
  uint32_t experts, expert_first; /* those of this rank */
  const int32_t *expert; /* [rows][top] */
  uint32_t *first;       /* [experts + 1] */
  int32_t *source;       /* [rows * top]; positions past first[experts] are set to -1 */
  int32_t *place;        /* [rows * top] */
};

/* For each expert e and sorted position p of it: out[p] = x[source[p]] W_e^T; with source NULL,
 * x[p]. Expert e's matrix is `weight` moved on by e times the strides (bytes). x is BF16. */
struct kc_op_grouped_gemm {
  uint32_t experts;
  uint32_t positions;    /* upper bound of first[experts]; sizes the launch */
  const uint32_t *first; /* [experts + 1] */
  const int32_t *source; /* [positions]; NULL: identity */
  const uint16_t *x;
  uint64_t x_stride;
  struct kc_weight weight; /* expert 0 */
  uint64_t data_stride_bytes, scale_stride_bytes; /* scale: of whichever scale array is used */
  uint16_t *out;         /* [positions][weight.rows] */
  uint64_t out_stride;
};

/* out[r] = sum over c of weight[r][c] * y[place[r * top + c]] (places of -1 left out), plus base[r]
 * where base is given (the shared experts' output). Sums in order of c, base last. */
struct kc_op_moe_combine {
  uint32_t rows, top, width; /* width a multiple of 8 */
  const uint16_t *y;
  uint64_t y_stride;
  const int32_t *place;
  const float *weight;
  const uint16_t *base; /* NULL: none */
  uint64_t base_stride;
  uint16_t *out;
  uint64_t out_stride;
};

#endif
