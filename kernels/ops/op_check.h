/* Preconditions of each operation, in one place for all implementations. True: the struct keeps
 * the contract as far as sizes, strides, alignment and pointers go; arrays are not read. */
#ifndef KC_KERNELS_OPS_OP_CHECK_H
#define KC_KERNELS_OPS_OP_CHECK_H

#include "kernels/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes that the layouts imply. One token's record: 1152 or 656 bytes for 512 + 64. */
uint64_t kc_mla_record_bytes(const struct kc_kv_layer *layer);
uint64_t kc_kv_page_bytes_k(const struct kc_kv_layer *layer);  /* tight, one page */
uint64_t kc_kv_page_bytes_v(const struct kc_kv_layer *layer);  /* 0 for MLA */
uint32_t kc_kv_query_dim(const struct kc_kv_layer *layer);     /* head_dim, or latent + rope */
uint32_t kc_kv_value_dim(const struct kc_kv_layer *layer);     /* head_dim, or latent */

/* Group of an INT4 format (32, 64, 128), 0 for others. */
uint32_t kc_int4_group(enum kc_weight_format format);

bool kc_weight_valid(const struct kc_weight *weight);
bool kc_kv_layer_valid(const struct kc_kv_layer *layer);

bool kc_op_gather_valid(const struct kc_op_gather *op);
bool kc_op_rms_norm_valid(const struct kc_op_rms_norm *op);
bool kc_op_rope_valid(const struct kc_op_rope *op);
bool kc_op_gemm_valid(const struct kc_op_gemm *op);
bool kc_op_head_gemm_valid(const struct kc_op_head_gemm *op);
bool kc_op_dequantise_valid(const struct kc_op_dequantise *op);
bool kc_op_quantise_rows_valid(const struct kc_op_quantise_rows *op);
bool kc_op_swiglu_valid(const struct kc_op_swiglu *op);
bool kc_op_sample_valid(const struct kc_op_sample *op);
bool kc_op_kv_write_valid(const struct kc_op_kv_write *op);
bool kc_op_decode_valid(const struct kc_op_decode *op);
bool kc_op_prefill_valid(const struct kc_op_prefill *op);
bool kc_op_tag_check_valid(const struct kc_op_tag_check *op);
bool kc_op_route_valid(const struct kc_op_route *op);
bool kc_op_moe_sort_valid(const struct kc_op_moe_sort *op);
bool kc_op_grouped_gemm_valid(const struct kc_op_grouped_gemm *op);
bool kc_op_moe_combine_valid(const struct kc_op_moe_combine *op);

#ifdef __cplusplus
}
#endif

#endif
