/* What the operations table calls its context when the operations run on a GPU.
 *
 * A context has one stream; what is enqueued runs in order. Threads: one at a time per context.
 */
#ifndef KC_KERNELS_CUDA_CUDA_CONTEXT_H
#define KC_KERNELS_CUDA_CUDA_CONTEXT_H

#include "kernels/ops/ops.h"

struct kc_blas; /* blas_device.cu */

struct kc_cuda {
  void *stream; /* cudaStream_t */
  int error;    /* the last cudaError_t that was not success */
  const char *reason; /* of the last failure that is no cudaError_t, else NULL */
  int device, sm_count;
  uint64_t l2_bytes;
  struct kc_blas *blas; /* made at the first product that wants it */
  void *flush;          /* twice the L2, made at the first flush */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Dense products of many rows through cuBLASLt. KC_OP_UNSUPPORTED when the library has no kernel:
 * the caller then takes its own. */
enum kc_op_status kc_blas_gemm(struct kc_cuda *cuda, const struct kc_op_gemm *op);
void kc_blas_destroy(struct kc_blas *blas);

#ifdef __cplusplus
}
#endif

#endif
