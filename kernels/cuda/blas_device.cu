/* Dense products of many rows through cuBLASLt: BF16, and FP8 by FP8.
 *
 *   ours     out [m][n] = x [m][k] W [n][k]^T, rows
 *   theirs   columns: D (n x m) = op(A) (n x k) * B (k x m) with A = W transposed, B = x; the same
 *            memory, and the only arrangement that FP8 has
 *
 * FP8 scales go in as two vectors, one value an output row and column, the only mode that takes
 * our scales per row of x; the weight's single scale is spread over a vector first. Fast
 * accumulation is off: it keeps too few bits for long k.
 *
 * Which algorithm is asked once for each shape and kept.
 */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_context.h"

enum { ALGORITHMS_MAX = 128, SPREAD_THREADS = 256, SPREAD_MAX = 1 << 20 };

static const size_t workspace_bytes = 64u << 20;

struct shape_key {
  uint64_t m, n, k, x_stride, out_stride;
  int x_type, out_type, add;
};

struct kc_blas {
  cublasLtHandle_t handle;
  void *workspace;
  float *scales; /* [SPREAD_MAX] */
  struct shape_key key[ALGORITHMS_MAX];
  cublasLtMatmulAlgo_t algorithm[ALGORITHMS_MAX];
  int count, next;
};

/* A product's descriptions; whatever was made is destroyed. */
struct product {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d;
};

static __global__ void spread_kernel(float *to, const float *from, unsigned count)
{
  const unsigned i = blockIdx.x * SPREAD_THREADS + threadIdx.x;
  if (i < count) to[i] = *from;
}

void kc_blas_destroy(struct kc_blas *blas)
{
  if (blas == NULL) return;
  if (blas->handle != NULL) cublasLtDestroy(blas->handle);
  cudaFree(blas->workspace);
  cudaFree(blas->scales);
  free(blas);
}

static struct kc_blas *create_blas(void)
{
  struct kc_blas *blas = static_cast<struct kc_blas *>(calloc(1, sizeof *blas));
  if (blas == NULL) return NULL;
  if (cublasLtCreate(&blas->handle) == CUBLAS_STATUS_SUCCESS &&
      cudaMalloc(&blas->workspace, workspace_bytes) == cudaSuccess &&
      cudaMalloc(&blas->scales, SPREAD_MAX * sizeof *blas->scales) == cudaSuccess) {
    return blas;
  }
  kc_blas_destroy(blas);
  return NULL;
}

template <typename T>
static bool set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, T value)
{
  return cublasLtMatmulDescSetAttribute(desc, which, &value, sizeof value) ==
         CUBLAS_STATUS_SUCCESS;
}

static bool describe_scales(struct product *product, const struct kc_blas *blas,
                            const struct kc_op_gemm *op)
{
  const cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  const int8_t fast = 0;
  return set(product->desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode) &&
         set(product->desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode) &&
         set(product->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
             static_cast<const void *>(blas->scales)) &&
         set(product->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
             static_cast<const void *>(op->x_scale)) &&
         set(product->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
}

static bool describe(struct product *product, const struct kc_blas *blas,
                     const struct kc_op_gemm *op)
{
  const bool fp8 = op->x_type == KC_DTYPE_E4M3;
  const cudaDataType_t in = fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
  const cudaDataType_t out = op->out_type == KC_DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
  const uint64_t n = op->weight.rows, k = op->weight.cols, m = op->rows;
  memset(product, 0, sizeof *product);
  return cublasLtMatmulDescCreate(&product->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
             CUBLAS_STATUS_SUCCESS &&
         set(product->desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T) &&
         (!fp8 || describe_scales(product, blas, op)) &&
         cublasLtMatrixLayoutCreate(&product->a, in, k, n, (int64_t)k) == CUBLAS_STATUS_SUCCESS &&
         cublasLtMatrixLayoutCreate(&product->b, in, k, m, (int64_t)op->x_stride) ==
             CUBLAS_STATUS_SUCCESS &&
         cublasLtMatrixLayoutCreate(&product->d, out, n, m, (int64_t)op->out_stride) ==
             CUBLAS_STATUS_SUCCESS;
}

static void release(struct product *product)
{
  if (product->a != NULL) cublasLtMatrixLayoutDestroy(product->a);
  if (product->b != NULL) cublasLtMatrixLayoutDestroy(product->b);
  if (product->d != NULL) cublasLtMatrixLayoutDestroy(product->d);
  if (product->desc != NULL) cublasLtMatmulDescDestroy(product->desc);
}

static bool ask(const struct kc_blas *blas, const struct product *product,
                cublasLtMatmulAlgo_t *algorithm)
{
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return false;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace_bytes, sizeof workspace_bytes);
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(blas->handle, product->desc, product->a, product->b,
                                     product->d, product->d, preference, 1, &result, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return false;
  *algorithm = result.algo;
  return true;
}

/* The algorithm for a shape, kept from the last time or asked for; NULL: there is none. */
static const cublasLtMatmulAlgo_t *find_algorithm(struct kc_blas *blas,
                                                  const struct product *product,
                                                  const struct kc_op_gemm *op)
{
  struct shape_key key;
  memset(&key, 0, sizeof key); /* padding is compared too */
  key.m = op->rows;
  key.n = op->weight.rows;
  key.k = op->weight.cols;
  key.x_stride = op->x_stride;
  key.out_stride = op->out_stride;
  key.x_type = op->x_type;
  key.out_type = op->out_type;
  key.add = op->add;
  for (int i = 0; i < blas->count; ++i) {
    if (memcmp(&blas->key[i], &key, sizeof key) == 0) return &blas->algorithm[i];
  }
  const int at = blas->next;
  if (!ask(blas, product, &blas->algorithm[at])) return NULL;
  blas->key[at] = key;
  blas->next = (at + 1) % ALGORITHMS_MAX;
  if (blas->count < ALGORITHMS_MAX) blas->count += 1;
  return &blas->algorithm[at];
}

static enum kc_op_status multiply(struct kc_cuda *cuda, const struct product *product,
                                  const struct kc_op_gemm *op)
{
  struct kc_blas *blas = cuda->blas;
  const float alpha = 1.0f, beta = op->add ? 1.0f : 0.0f;
  const cudaStream_t stream = static_cast<cudaStream_t>(cuda->stream);
  const cublasLtMatmulAlgo_t *algorithm = find_algorithm(blas, product, op);
  if (algorithm == NULL) return KC_OP_UNSUPPORTED;
  if (op->x_type == KC_DTYPE_E4M3) {
    const unsigned n = op->weight.rows;
    spread_kernel<<<(n + SPREAD_THREADS - 1) / SPREAD_THREADS, SPREAD_THREADS, 0, stream>>>(
        blas->scales, op->weight.scale_f32, n);
  }
  const cublasStatus_t status = cublasLtMatmul(
      blas->handle, product->desc, &alpha, op->weight.data, product->a, op->x, product->b, &beta,
      op->out, product->d, op->out, product->d, algorithm, blas->workspace, workspace_bytes,
      stream);
  if (status == CUBLAS_STATUS_SUCCESS) return KC_OP_OK;
  cuda->reason = cublasLtGetStatusString(status);
  return KC_OP_DEVICE;
}

enum kc_op_status kc_blas_gemm(struct kc_cuda *cuda, const struct kc_op_gemm *op)
{
  struct product product;
  if (op->weight.rows > SPREAD_MAX) return KC_OP_UNSUPPORTED;
  if (cuda->blas == NULL) cuda->blas = create_blas();
  if (cuda->blas == NULL) return KC_OP_UNSUPPORTED;
  enum kc_op_status status = KC_OP_UNSUPPORTED;
  if (describe(&product, cuda->blas, op)) status = multiply(cuda, &product, op);
  release(&product);
  return status;
}
