/* What the files of the reference share. Dots and sums are in double; bf16 results are rounded once
 * from the double. */
#ifndef KC_KERNELS_REF_REF_INTERNAL_H
#define KC_KERNELS_REF_REF_INTERNAL_H

#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_check.h"
#include "kernels/ref/ref.h"

enum kc_op_status kc_ref_gather(void *context, const struct kc_op_gather *op);
enum kc_op_status kc_ref_rms_norm(void *context, const struct kc_op_rms_norm *op);
enum kc_op_status kc_ref_rope(void *context, const struct kc_op_rope *op);
enum kc_op_status kc_ref_gemm(void *context, const struct kc_op_gemm *op);
enum kc_op_status kc_ref_head_gemm(void *context, const struct kc_op_head_gemm *op);
enum kc_op_status kc_ref_dequantise(void *context, const struct kc_op_dequantise *op);
enum kc_op_status kc_ref_quantise_rows(void *context, const struct kc_op_quantise_rows *op);
enum kc_op_status kc_ref_swiglu(void *context, const struct kc_op_swiglu *op);
enum kc_op_status kc_ref_sample(void *context, const struct kc_op_sample *op);
enum kc_op_status kc_ref_kv_write(void *context, const struct kc_op_kv_write *op);
enum kc_op_status kc_ref_decode(void *context, const struct kc_op_decode *op);
enum kc_op_status kc_ref_prefill(void *context, const struct kc_op_prefill *op);
enum kc_op_status kc_ref_tag_check(void *context, const struct kc_op_tag_check *op);
enum kc_op_status kc_ref_route(void *context, const struct kc_op_route *op);
enum kc_op_status kc_ref_moe_sort(void *context, const struct kc_op_moe_sort *op);
enum kc_op_status kc_ref_grouped_gemm(void *context, const struct kc_op_grouped_gemm *op);
enum kc_op_status kc_ref_moe_combine(void *context, const struct kc_op_moe_combine *op);

/* double -> bf16 in one rounding: to FP32 with the last bit made sticky (odd when inexact), from
 * which rounding to 8 bits is the same as from the double (Boldo and Melquiond 2008). */
static inline uint16_t kc_ref_bf16(double x)
{
  const float nearest = (float)x;
  uint32_t bits = kc_f32_bits(nearest);
  const double back = (double)nearest;
  if (back != x && x == x && (bits & 1u) == 0) {
    const bool below = x < 0 ? x < back : x > back; /* |nearest| < |x| */
    bits = below ? bits + 1 : bits - 1;
  }
  return kc_bf16_encode(kc_f32_of_bits(bits));
}

/* Elements [first, first + count) of row `row` of a weight, as values; first a multiple of 32. */
void kc_ref_weight_values(const struct kc_weight *weight, uint32_t row, uint32_t first,
                          uint32_t count, double *out);

enum { KC_REF_TILE = 32, KC_REF_DIM_MAX = 1024 }; /* tokens a tile; elements of a K or V vector */

/* Token vectors [start, start + count) of a slot, count <= KC_REF_TILE. K goes transposed, [dim]
 * [KC_REF_TILE], zeros behind count, V as [token][dim]; missing pages are zeros. */
void kc_ref_read_k(const struct kc_kv_layer *layer, const struct kc_page_ref *row, uint32_t head,
                   uint32_t start, uint32_t count, float *out);
void kc_ref_read_v(const struct kc_kv_layer *layer, const struct kc_page_ref *row, uint32_t head,
                   uint32_t start, uint32_t count, float *out);

#endif
