/* The launchers of the CUDA kernels: one function an operation, with the signatures of the
 * operations table. `context` is a struct kc_cuda in the CUDA build and a struct kc_emu in the
 * emulated one. Each checks its struct, launches, and returns; KC_OP_UNSUPPORTED names shapes that
 * no kernel has.
 */
#ifndef KC_KERNELS_CUDA_KERNELS_H
#define KC_KERNELS_CUDA_KERNELS_H

#include "kernels/ops/op_module.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kc_op_status kc_gpu_gather(void *context, const struct kc_op_gather *op);
enum kc_op_status kc_gpu_rms_norm(void *context, const struct kc_op_rms_norm *op);
enum kc_op_status kc_gpu_rope(void *context, const struct kc_op_rope *op);
enum kc_op_status kc_gpu_dequantise(void *context, const struct kc_op_dequantise *op);
enum kc_op_status kc_gpu_quantise_rows(void *context, const struct kc_op_quantise_rows *op);
enum kc_op_status kc_gpu_swiglu(void *context, const struct kc_op_swiglu *op);
enum kc_op_status kc_gpu_moe_combine(void *context, const struct kc_op_moe_combine *op);
enum kc_op_status kc_gpu_sample(void *context, const struct kc_op_sample *op);

enum kc_op_status kc_gpu_kv_write(void *context, const struct kc_op_kv_write *op);
enum kc_op_status kc_gpu_tag_check(void *context, const struct kc_op_tag_check *op);
enum kc_op_status kc_gpu_decode(void *context, const struct kc_op_decode *op);
enum kc_op_status kc_gpu_prefill(void *context, const struct kc_op_prefill *op);

/* The parts of the two above for MLA; the struct has been checked, `longest` > 0 is the count of
 * the longest chunk. */
enum kc_op_status kc_gpu_decode_latent(void *context, const struct kc_op_decode *op);
enum kc_op_status kc_gpu_prefill_latent(void *context, const struct kc_op_prefill *op,
                                        unsigned longest);

enum kc_op_status kc_gpu_gemm(void *context, const struct kc_op_gemm *op);
enum kc_op_status kc_gpu_head_gemm(void *context, const struct kc_op_head_gemm *op);
enum kc_op_status kc_gpu_grouped_gemm(void *context, const struct kc_op_grouped_gemm *op);
uint64_t kc_gpu_gemm_workspace_bytes(void *context, const struct kc_op_gemm *op);

enum kc_op_status kc_gpu_route(void *context, const struct kc_op_route *op);
enum kc_op_status kc_gpu_moe_sort(void *context, const struct kc_op_moe_sort *op);

/* Reads `bytes` (a multiple of 16) and exclusive-ors all words into *sum, zero before. */
enum kc_op_status kc_gpu_read_stream(void *context, const void *from, uint64_t bytes,
                                     uint32_t *sum);

/* Weights that are made where they lie: see op_module.h. */
enum kc_op_status kc_gpu_synthesise(void *context, const struct kc_op_synthesise *op);
enum kc_op_status kc_gpu_quantise_weight(void *context, const struct kc_op_quantise_weight *op);

#ifdef __cplusplus
}
#endif

#endif
