/* The module kvcap_cuda: the operations table on a GPU, and the table of everything else that the
 * program asks of one. Kernels are launched by their own files; here is memory, the stream, graphs,
 * events, and the choice between our products and cuBLASLt's. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_context.h"
#include "kernels/cuda/int4_pack.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_module.h"

/* From this many rows on, reading the weights is not what a product costs. */
enum { BLAS_ROWS = 65 };

static struct kc_cuda *cuda_of(void *context)
{
  return static_cast<struct kc_cuda *>(context);
}

static cudaStream_t stream_of(const struct kc_cuda *cuda)
{
  return static_cast<cudaStream_t>(cuda->stream);
}

static enum kc_op_status status_of(struct kc_cuda *cuda, cudaError_t error)
{
  if (error == cudaSuccess) return KC_OP_OK;
  cuda->error = (int)error;
  return error == cudaErrorMemoryAllocation ? KC_OP_MEMORY : KC_OP_DEVICE;
}

/* ---- operations ---- */

static enum kc_op_status gemm(void *context, const struct kc_op_gemm *op)
{
  if (!kc_op_gemm_valid(op)) return KC_OP_BAD;
  const bool bf16 = op->x_type == KC_DTYPE_BF16 && op->weight.format == KC_WEIGHT_BF16;
  const bool fp8 = op->x_type == KC_DTYPE_E4M3;
  if (op->rows >= BLAS_ROWS && (bf16 || fp8)) {
    const enum kc_op_status status = kc_blas_gemm(cuda_of(context), op);
    if (status != KC_OP_UNSUPPORTED) return status;
  }
  return kc_gpu_gemm(context, op);
}

static void *allocate(void *context, uint64_t bytes)
{
  void *memory = NULL;
  const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
  if (status_of(cuda_of(context), error) == KC_OP_OK) return memory;
  (void)cudaGetLastError(); /* running out is an answer, not a state */
  return NULL;
}

static void release(void *context, void *memory)
{
  (void)context;
  cudaFree(memory);
}

static enum kc_op_status copy(void *context, void *to, const void *from, uint64_t bytes,
                              enum cudaMemcpyKind kind)
{
  struct kc_cuda *cuda = cuda_of(context);
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream_of(cuda));
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream_of(cuda));
  return status_of(cuda, error);
}

static enum kc_op_status upload(void *context, void *to, const void *from, uint64_t bytes)
{
  return copy(context, to, from, bytes, cudaMemcpyHostToDevice);
}

static enum kc_op_status download(void *context, void *to, const void *from, uint64_t bytes)
{
  return copy(context, to, from, bytes, cudaMemcpyDeviceToHost);
}

static enum kc_op_status fill(void *context, void *to, int byte, uint64_t bytes)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda, cudaMemsetAsync(to, byte, bytes, stream_of(cuda)));
}

static enum kc_op_status synchronise(void *context)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda, cudaStreamSynchronize(stream_of(cuda)));
}

static const char *error(void *context)
{
  const struct kc_cuda *cuda = cuda_of(context);
  if (cuda->error != 0) return cudaGetErrorString((cudaError_t)cuda->error);
  return cuda->reason != NULL ? cuda->reason : "";
}

static const struct kc_ops *cuda_ops(void)
{
  static const struct kc_ops ops = {
      "cuda",       kc_gpu_gather,       kc_gpu_rms_norm, kc_gpu_rope,
      gemm,         kc_gpu_head_gemm,    kc_gpu_dequantise, kc_gpu_quantise_rows,
      kc_gpu_swiglu, kc_gpu_sample,      kc_gpu_kv_write, kc_gpu_decode,
      kc_gpu_prefill, kc_gpu_tag_check,  kc_gpu_route,    kc_gpu_moe_sort,
      kc_gpu_grouped_gemm, kc_gpu_moe_combine, kc_gpu_gemm_workspace_bytes,
      allocate,     release,             upload,          download,
      fill,         synchronise,         error};
  return &ops;
}

/* ---- the context ---- */

static void destroy(void *context)
{
  struct kc_cuda *cuda = cuda_of(context);
  if (cuda == NULL) return;
  kc_blas_destroy(cuda->blas);
  cudaFree(cuda->flush);
  if (cuda->stream != NULL) cudaStreamDestroy(stream_of(cuda));
  free(cuda);
}

/* True when the device is there and new enough; else says why not. */
static bool usable(int device, struct cudaDeviceProp *properties, char *why, size_t why_bytes)
{
  int count = 0;
  cudaError_t failure = cudaGetDeviceCount(&count);
  if (failure != cudaSuccess) {
    snprintf(why, why_bytes, "no GPU can be used: %s", cudaGetErrorString(failure));
    return false;
  }
  if (device < 0 || device >= count) {
    snprintf(why, why_bytes, "no GPU %d: there are %d", device, count);
    return false;
  }
  failure = cudaSetDevice(device);
  if (failure == cudaSuccess) failure = cudaGetDeviceProperties(properties, device);
  if (failure != cudaSuccess) {
    snprintf(why, why_bytes, "GPU %d cannot be used: %s", device, cudaGetErrorString(failure));
    return false;
  }
  if (properties->major == 9) return true;
  snprintf(why, why_bytes, "GPU %d is sm_%d%d; the kernels are built for sm_90", device,
           properties->major, properties->minor);
  return false;
}

static enum kc_op_status create(int device, void **out, char *why, size_t why_bytes)
{
  struct cudaDeviceProp properties;
  cudaStream_t stream = NULL;
  *out = NULL;
  if (!usable(device, &properties, why, why_bytes)) return KC_OP_DEVICE;
  struct kc_cuda *cuda = static_cast<struct kc_cuda *>(calloc(1, sizeof *cuda));
  if (cuda == NULL) return KC_OP_MEMORY;
  const cudaError_t failure = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (failure != cudaSuccess) {
    snprintf(why, why_bytes, "GPU %d: no stream: %s", device, cudaGetErrorString(failure));
    free(cuda);
    return KC_OP_DEVICE;
  }
  cuda->stream = stream;
  cuda->device = device;
  cuda->sm_count = properties.multiProcessorCount;
  cuda->l2_bytes = (uint64_t)properties.l2CacheSize;
  *out = cuda;
  return KC_OP_OK;
}

static enum kc_op_status info(void *context, struct kc_module_info *info)
{
  struct kc_cuda *cuda = cuda_of(context);
  struct cudaDeviceProp properties;
  size_t available = 0, total = 0;
  cudaError_t failure = cudaGetDeviceProperties(&properties, cuda->device);
  memset(info, 0, sizeof *info);
  if (failure == cudaSuccess) failure = cudaMemGetInfo(&available, &total);
  if (failure == cudaSuccess) failure = cudaDriverGetVersion(&info->driver_version);
  if (failure == cudaSuccess) failure = cudaRuntimeGetVersion(&info->runtime_version);
  if (failure == cudaSuccess) {
    failure = cudaDeviceGetAttribute(&info->clock_khz, cudaDevAttrClockRate, cuda->device);
  }
  if (failure != cudaSuccess) return status_of(cuda, failure);
  snprintf(info->name, sizeof info->name, "%s", properties.name);
  info->sm_count = cuda->sm_count;
  info->l2_bytes = cuda->l2_bytes;
  info->total_bytes = total;
  info->free_bytes = available;
  return KC_OP_OK;
}

/* ---- graphs ---- */

static enum kc_op_status capture_begin(void *context)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda,
                   cudaStreamBeginCapture(stream_of(cuda), cudaStreamCaptureModeThreadLocal));
}

static enum kc_op_status capture_end(void *context, void **graph)
{
  struct kc_cuda *cuda = cuda_of(context);
  cudaGraph_t captured = NULL;
  cudaGraphExec_t runnable = NULL;
  *graph = NULL;
  cudaError_t failure = cudaStreamEndCapture(stream_of(cuda), &captured);
  if (failure == cudaSuccess) failure = cudaGraphInstantiate(&runnable, captured, 0);
  if (captured != NULL) cudaGraphDestroy(captured);
  if (failure == cudaSuccess) *graph = runnable;
  return status_of(cuda, failure);
}

static enum kc_op_status graph_launch(void *context, void *graph)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda, cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(cuda)));
}

static void graph_destroy(void *context, void *graph)
{
  (void)context;
  if (graph != NULL) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

/* ---- pinned memory ---- */

static void *pinned_allocate(void *context, uint64_t bytes)
{
  void *memory = NULL;
  const cudaError_t failure = cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault);
  return status_of(cuda_of(context), failure) == KC_OP_OK ? memory : NULL;
}

static void pinned_release(void *context, void *memory)
{
  (void)context;
  cudaFreeHost(memory);
}

static enum kc_op_status send(void *context, void *to, const void *from, uint64_t bytes)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda,
                   cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(cuda)));
}

static enum kc_op_status fetch(void *context, void *to, const void *from, uint64_t bytes)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda,
                   cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(cuda)));
}

/* ---- events ---- */

static void *event_create(void *context)
{
  cudaEvent_t event = NULL;
  return status_of(cuda_of(context), cudaEventCreate(&event)) == KC_OP_OK ? event : NULL;
}

static void event_destroy(void *event)
{
  if (event != NULL) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

static enum kc_op_status event_record(void *context, void *event)
{
  struct kc_cuda *cuda = cuda_of(context);
  return status_of(cuda, cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(cuda)));
}

static double event_elapsed_us(void *begin, void *end)
{
  float milliseconds = 0.0f;
  if (cudaEventSynchronize(static_cast<cudaEvent_t>(end)) != cudaSuccess) return -1.0;
  if (cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin),
                           static_cast<cudaEvent_t>(end)) != cudaSuccess) {
    return -1.0;
  }
  return 1000.0 * (double)milliseconds;
}

static enum kc_op_status flush_l2(void *context)
{
  struct kc_cuda *cuda = cuda_of(context);
  const uint64_t bytes = 2 * cuda->l2_bytes;
  if (cuda->flush == NULL) cuda->flush = allocate(cuda, bytes);
  if (cuda->flush == NULL) return KC_OP_MEMORY;
  return fill(cuda, cuda->flush, 0, bytes);
}

/* One thread watches the clock; a nanosecond counter that moves in steps of up to a microsecond. */
static __global__ void delay_kernel(uint64_t nanoseconds)
{
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

static enum kc_op_status delay(void *context, uint64_t nanoseconds)
{
  struct kc_cuda *cuda = cuda_of(context);
  delay_kernel<<<1, 1, 0, stream_of(cuda)>>>(nanoseconds);
  return status_of(cuda, cudaGetLastError());
}

static void fragment_bytes(const struct kc_weight *weight, uint64_t *data, uint64_t *scale)
{
  *data = kc_int4_fragment_data_bytes(weight);
  *scale = kc_int4_fragment_scale_bytes(weight);
}

/* ---- the module ---- */

const struct kc_module *kc_module_table(void)
{
  static const struct kc_module module = {KC_MODULE_VERSION,
                                          cuda_ops(),
                                          create,
                                          destroy,
                                          info,
                                          capture_begin,
                                          capture_end,
                                          graph_launch,
                                          graph_destroy,
                                          pinned_allocate,
                                          pinned_release,
                                          send,
                                          fetch,
                                          event_create,
                                          event_destroy,
                                          event_record,
                                          event_elapsed_us,
                                          flush_l2,
                                          kc_gpu_read_stream,
                                          delay,
                                          fragment_bytes,
                                          kc_int4_fragment_pack,
                                          kc_gpu_synthesise,
                                          kc_gpu_quantise_weight};
  return &module;
}
