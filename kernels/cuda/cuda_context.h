/* What the operations table calls its context when the operations run on a GPU, and what its users
 * need beside the operations: graphs, pinned memory, events, the size of memory.
 *
 * The program links no CUDA: this table is the one symbol that it looks up in the module
 * kvcap_cuda. Everything is lazy; opening the module touches no driver.
 *
 * A context has one stream; what is enqueued runs in order. Threads: one at a time per context.
 */
#ifndef KC_KERNELS_CUDA_CUDA_CONTEXT_H
#define KC_KERNELS_CUDA_CUDA_CONTEXT_H

#include "kernels/ops/ops.h"

enum { KC_CUDA_MODULE_VERSION = 1 };

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

struct kc_cuda_info {
  char name[256];
  int sm_count, clock_khz, driver_version, runtime_version; /* versions as CUDA numbers them */
  uint64_t total_bytes, free_bytes, l2_bytes;
};

struct kc_cuda_module {
  uint32_t version;
  const struct kc_ops *ops; /* context: a struct kc_cuda */

  /* KC_OP_DEVICE with a sentence in `why` when there is no driver, no such device, or one older
   * than sm_90. */
  enum kc_op_status (*create)(int device, struct kc_cuda **out, char *why, size_t why_bytes);
  void (*destroy)(struct kc_cuda *cuda);
  enum kc_op_status (*info)(struct kc_cuda *cuda, struct kc_cuda_info *info);

  /* Between begin and end, operations are noted instead of run; plans must be padded and arrays
   * keep their places, since the graph holds pointers and launch sizes. */
  enum kc_op_status (*capture_begin)(struct kc_cuda *cuda);
  enum kc_op_status (*capture_end)(struct kc_cuda *cuda, void **graph);
  enum kc_op_status (*graph_launch)(struct kc_cuda *cuda, void *graph);
  void (*graph_destroy)(void *graph);

  /* Host memory that copies reach without a stop, and such copies: enqueued, not waited for. */
  void *(*pinned_allocate)(struct kc_cuda *cuda, uint64_t bytes);
  void (*pinned_release)(struct kc_cuda *cuda, void *memory);
  enum kc_op_status (*send)(struct kc_cuda *cuda, void *to_device, const void *from_pinned,
                            uint64_t bytes);
  enum kc_op_status (*fetch)(struct kc_cuda *cuda, void *to_pinned, const void *from_device,
                             uint64_t bytes);

  /* Points in the stream. elapsed waits for `end`; microseconds, negative on failure. */
  void *(*event_create)(struct kc_cuda *cuda);
  void (*event_destroy)(void *event);
  enum kc_op_status (*event_record)(struct kc_cuda *cuda, void *event);
  bool (*event_done)(void *event);
  double (*event_elapsed_us)(void *begin, void *end);

  /* For benches: throws everything out of the L2; reads `bytes` (a multiple of 16), once and in
   * whole vectors, and leaves the exclusive-or of all words at *sum: the measured ceiling. */
  enum kc_op_status (*flush_l2)(struct kc_cuda *cuda);
  enum kc_op_status (*read_stream)(void *context, const void *from, uint64_t bytes, uint32_t *sum);
};

#ifdef __cplusplus
extern "C" {
#endif

const struct kc_cuda_module *kc_cuda_module(void);

/* Dense products of many rows through cuBLASLt. KC_OP_UNSUPPORTED when the library has no kernel:
 * the caller then takes its own. */
enum kc_op_status kc_blas_gemm(struct kc_cuda *cuda, const struct kc_op_gemm *op);
void kc_blas_destroy(struct kc_blas *blas);

#ifdef __cplusplus
}
#endif

#endif
