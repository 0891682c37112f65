/* The reference's table of operations, with the host's memory as its device memory. */
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref_internal.h"

static uint64_t no_workspace(void *context, const struct kc_op_gemm *op)
{
  (void)context, (void)op;
  return 0;
}

static void *allocate(void *context, uint64_t bytes)
{
  (void)context;
  if (bytes > SIZE_MAX - 255) return NULL;
  return aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256));
}

static void release(void *context, void *memory)
{
  (void)context;
  free(memory);
}

static enum kc_op_status copy(void *context, void *to, const void *from, uint64_t bytes)
{
  (void)context;
  if (bytes > 0) memcpy(to, from, bytes);
  return KC_OP_OK;
}

static enum kc_op_status fill(void *context, void *to, int byte, uint64_t bytes)
{
  (void)context;
  if (bytes > 0) memset(to, byte, bytes);
  return KC_OP_OK;
}

static enum kc_op_status synchronise(void *context)
{
  (void)context;
  return KC_OP_OK;
}

static const char *error(void *context)
{
  (void)context;
  return "";
}

const struct kc_ops *kc_ref_ops(void)
{
  static const struct kc_ops ops = {
      .name = "ref",
      .gather = kc_ref_gather,
      .rms_norm = kc_ref_rms_norm,
      .rope = kc_ref_rope,
      .gemm = kc_ref_gemm,
      .head_gemm = kc_ref_head_gemm,
      .dequantise = kc_ref_dequantise,
      .quantise_rows = kc_ref_quantise_rows,
      .swiglu = kc_ref_swiglu,
      .sample = kc_ref_sample,
      .kv_write = kc_ref_kv_write,
      .decode = kc_ref_decode,
      .prefill = kc_ref_prefill,
      .tag_check = kc_ref_tag_check,
      .route = kc_ref_route,
      .moe_sort = kc_ref_moe_sort,
      .grouped_gemm = kc_ref_grouped_gemm,
      .moe_combine = kc_ref_moe_combine,
      .gemm_workspace_bytes = no_workspace,
      .allocate = allocate,
      .release = release,
      .upload = copy,
      .download = copy,
      .fill = fill,
      .synchronise = synchronise,
      .error = error,
  };
  return &ops;
}
