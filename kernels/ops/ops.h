/* The operations, as one table of functions an implementation fills.
 *
 *   const struct kc_ops *ops = kc_ref_ops();          plain C
 *   kc_emu_ops, kc_cuda_ops                           made by kernels/emu and kernels/cuda
 *
 * `context` is the implementation's own: NULL for ref, a stream with its handles for cuda, the
 * thread-order seed for emu. Operations are enqueued in call order; ref and emu finish them before
 * they return, cuda when synchronise returns. An operation that returns anything but KC_OP_OK has
 * written nothing. Each first calls the kc_op_*_valid of its struct (op_check.h) and returns
 * KC_OP_BAD when that is false.
 */
#ifndef KC_KERNELS_OPS_OPS_H
#define KC_KERNELS_OPS_OPS_H

#include "kernels/ops/op_dense.h"
#include "kernels/ops/op_moe.h"
#include "kernels/ops/op_paged.h"
#include "kernels/ops/op_types.h"

struct kc_ops {
  const char *name; /* "ref", "emu", "cuda" */

  enum kc_op_status (*gather)(void *context, const struct kc_op_gather *op);
  enum kc_op_status (*rms_norm)(void *context, const struct kc_op_rms_norm *op);
  enum kc_op_status (*rope)(void *context, const struct kc_op_rope *op);
  enum kc_op_status (*gemm)(void *context, const struct kc_op_gemm *op);
  enum kc_op_status (*head_gemm)(void *context, const struct kc_op_head_gemm *op);
  enum kc_op_status (*dequantise)(void *context, const struct kc_op_dequantise *op);
  enum kc_op_status (*quantise_rows)(void *context, const struct kc_op_quantise_rows *op);
  enum kc_op_status (*swiglu)(void *context, const struct kc_op_swiglu *op);
  enum kc_op_status (*sample)(void *context, const struct kc_op_sample *op);

  enum kc_op_status (*kv_write)(void *context, const struct kc_op_kv_write *op);
  enum kc_op_status (*decode)(void *context, const struct kc_op_decode *op);
  enum kc_op_status (*prefill)(void *context, const struct kc_op_prefill *op);
  enum kc_op_status (*tag_check)(void *context, const struct kc_op_tag_check *op);

  enum kc_op_status (*route)(void *context, const struct kc_op_route *op);
  enum kc_op_status (*moe_sort)(void *context, const struct kc_op_moe_sort *op);
  enum kc_op_status (*grouped_gemm)(void *context, const struct kc_op_grouped_gemm *op);
  enum kc_op_status (*moe_combine)(void *context, const struct kc_op_moe_combine *op);

  /* Bytes that gemm wants at `workspace` for this struct (0: none). */
  uint64_t (*gemm_workspace_bytes)(void *context, const struct kc_op_gemm *op);

  /* Memory of the implementation, so that one caller drives all three. allocate returns NULL when
   * none is left, else 256-byte aligned memory; release takes NULL. upload and download are in
   * order with the operations; host memory may be reused when they return. */
  void *(*allocate)(void *context, uint64_t bytes);
  void (*release)(void *context, void *memory);
  enum kc_op_status (*upload)(void *context, void *to, const void *from_host, uint64_t bytes);
  enum kc_op_status (*download)(void *context, void *to_host, const void *from, uint64_t bytes);
  enum kc_op_status (*fill)(void *context, void *to, int byte, uint64_t bytes);
  enum kc_op_status (*synchronise)(void *context);
  /* The last device error in words; "" when there is none. */
  const char *(*error)(void *context);
};

#endif
