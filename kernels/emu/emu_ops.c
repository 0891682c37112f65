/* The table of the emulated operations: the launchers of the CUDA kernels, and memory of the host.
 *
 * The launchers are declared here, not included: they belong to kernels/cuda, which stands above
 * the emulator; whoever links this file links the kernels compiled with KC_EMU.
 */
#include "kernels/emu/emu_ops.h"

#include <stdlib.h>
#include <string.h>

enum kc_op_status kc_gpu_gather(void *context, const struct kc_op_gather *op);
enum kc_op_status kc_gpu_rms_norm(void *context, const struct kc_op_rms_norm *op);
enum kc_op_status kc_gpu_rope(void *context, const struct kc_op_rope *op);
enum kc_op_status kc_gpu_gemm(void *context, const struct kc_op_gemm *op);
enum kc_op_status kc_gpu_head_gemm(void *context, const struct kc_op_head_gemm *op);
enum kc_op_status kc_gpu_dequantise(void *context, const struct kc_op_dequantise *op);
enum kc_op_status kc_gpu_quantise_rows(void *context, const struct kc_op_quantise_rows *op);
enum kc_op_status kc_gpu_swiglu(void *context, const struct kc_op_swiglu *op);
enum kc_op_status kc_gpu_sample(void *context, const struct kc_op_sample *op);
enum kc_op_status kc_gpu_kv_write(void *context, const struct kc_op_kv_write *op);
enum kc_op_status kc_gpu_decode(void *context, const struct kc_op_decode *op);
enum kc_op_status kc_gpu_prefill(void *context, const struct kc_op_prefill *op);
enum kc_op_status kc_gpu_tag_check(void *context, const struct kc_op_tag_check *op);
enum kc_op_status kc_gpu_route(void *context, const struct kc_op_route *op);
enum kc_op_status kc_gpu_moe_sort(void *context, const struct kc_op_moe_sort *op);
enum kc_op_status kc_gpu_grouped_gemm(void *context, const struct kc_op_grouped_gemm *op);
enum kc_op_status kc_gpu_moe_combine(void *context, const struct kc_op_moe_combine *op);
uint64_t kc_gpu_gemm_workspace_bytes(void *context, const struct kc_op_gemm *op);

static void *allocate(void *context, uint64_t bytes)
{
  void *memory = NULL;
  (void)context;
  if (posix_memalign(&memory, 256, bytes > 0 ? bytes : 1) != 0) return NULL;
  memset(memory, 0xff, bytes);
  return memory;
}

static void release(void *context, void *memory)
{
  (void)context;
  free(memory);
}

static enum kc_op_status upload(void *context, void *to, const void *from, uint64_t bytes)
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
  return kc_emu_misuse(context) == NULL ? KC_OP_OK : KC_OP_DEVICE;
}

static const char *error(void *context)
{
  const char *misuse = kc_emu_misuse(context);
  return misuse != NULL ? misuse : "";
}

const struct kc_ops *kc_emu_ops(void)
{
  static const struct kc_ops ops = {
      .name = "emu",
      .gather = kc_gpu_gather,
      .rms_norm = kc_gpu_rms_norm,
      .rope = kc_gpu_rope,
      .gemm = kc_gpu_gemm,
      .head_gemm = kc_gpu_head_gemm,
      .dequantise = kc_gpu_dequantise,
      .quantise_rows = kc_gpu_quantise_rows,
      .swiglu = kc_gpu_swiglu,
      .sample = kc_gpu_sample,
      .kv_write = kc_gpu_kv_write,
      .decode = kc_gpu_decode,
      .prefill = kc_gpu_prefill,
      .tag_check = kc_gpu_tag_check,
      .route = kc_gpu_route,
      .moe_sort = kc_gpu_moe_sort,
      .grouped_gemm = kc_gpu_grouped_gemm,
      .moe_combine = kc_gpu_moe_combine,
      .gemm_workspace_bytes = kc_gpu_gemm_workspace_bytes,
      .allocate = allocate,
      .release = release,
      .upload = upload,
      .download = upload,
      .fill = fill,
      .synchronise = synchronise,
      .error = error,
  };
  return &ops;
}
