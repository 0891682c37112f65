/* The words of CUDA that the kernels use, for nvcc. Each has a twin of the same name and meaning in
 * kernels/emu/words_emu.h, which is where their contracts are tested; PTX stands only here.
 */
#ifndef KC_KERNELS_CUDA_WORDS_GPU_CUH
#define KC_KERNELS_CUDA_WORDS_GPU_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/cuda_context.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_types.h"

#define KC_DEVICE static __device__ __forceinline__
#define KC_MEMBER __device__ __forceinline__
#define KC_UNROLL _Pragma("unroll")
#define KC_ROLL _Pragma("unroll 1")
#define KC_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define KC_PARAMETER const __grid_constant__

/* ---- launching ---- */

template <typename... Parameters, typename... Arguments>
static enum kc_op_status kc_launch(void *context, void (*kernel)(Parameters...), dim3 grid,
                                   dim3 block, size_t shared_bytes, const Arguments &...arguments)
{
  struct kc_cuda *cuda = static_cast<struct kc_cuda *>(context);
  cudaError_t error = cudaSuccess;
  if (shared_bytes > 48 * 1024) {
    error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
  }
  if (error == cudaSuccess) {
    kernel<<<grid, block, shared_bytes, (cudaStream_t)cuda->stream>>>(arguments...);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) return KC_OP_OK;
  cuda->error = (int)error;
  return KC_OP_DEVICE;
}

#define KC_LAUNCH(context, kernel, grid, block, shared_bytes, ...) \
  kc_launch(context, kernel, grid, block, shared_bytes, __VA_ARGS__)

/* ---- threads ---- */

KC_DEVICE void kc_sync_block()
{
  __syncthreads();
}

KC_DEVICE void kc_sync_warp()
{
  __syncwarp();
}

KC_DEVICE uint32_t kc_shuffle_u32(uint32_t value, unsigned lane)
{
  return __shfl_sync(0xffffffffu, value, (int)lane);
}

KC_DEVICE uint32_t kc_shuffle_xor_u32(uint32_t value, unsigned mask)
{
  return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}

KC_DEVICE float kc_shuffle_xor(float value, unsigned mask)
{
  return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}

KC_DEVICE float kc_shuffle(float value, unsigned lane)
{
  return __shfl_sync(0xffffffffu, value, (int)lane);
}

KC_DEVICE uint32_t kc_ballot(bool vote)
{
  return __ballot_sync(0xffffffffu, vote);
}

KC_DEVICE int kc_popcount(uint32_t bits)
{
  return __popc(bits);
}

/* log2 of a power of two. */
KC_DEVICE unsigned kc_shift_of(uint32_t power)
{
  return 31u - (unsigned)__clz((int)power);
}

/* ---- shared memory ---- */

extern __shared__ __align__(128) unsigned char kc_shared_memory[];

KC_DEVICE uint32_t kc_shared_address(const void *pointer)
{
  return (uint32_t)__cvta_generic_to_shared(pointer);
}

template <typename T>
struct kc_tile {
  T *data;

  KC_MEMBER T get(unsigned i) const
  {
    return data[i];
  }
  KC_MEMBER void set(unsigned i, T value) const
  {
    data[i] = value;
  }
  KC_MEMBER uint4 get16(unsigned i) const
  {
    return *reinterpret_cast<const uint4 *>(data + i);
  }
  KC_MEMBER void set16(unsigned i, uint4 value) const
  {
    *reinterpret_cast<uint4 *>(data + i) = value;
  }
  KC_MEMBER uint32_t get4(unsigned i) const
  {
    return *reinterpret_cast<const uint32_t *>(data + i);
  }
  KC_MEMBER void set4(unsigned i, uint32_t value) const
  {
    *reinterpret_cast<uint32_t *>(data + i) = value;
  }
  KC_MEMBER kc_tile<T> from(unsigned i) const
  {
    return {data + i};
  }
  /* The same memory once more, after a barrier, for something else. */
  template <typename Other>
  KC_MEMBER kc_tile<Other> as() const
  {
    return {reinterpret_cast<Other *>(data)};
  }
};

/* Cuts the block's shared memory into tiles, each aligned to 128 bytes. */
struct kc_shared {
  unsigned used = 0;

  template <typename T>
  KC_MEMBER kc_tile<T> take(unsigned count)
  {
    T *data = reinterpret_cast<T *>(kc_shared_memory + used);
    used += (count * (unsigned)sizeof(T) + 127u) / 128u * 128u;
    return {data};
  }
};

template <typename T>
KC_DEVICE void kc_ldmatrix4(uint32_t (&r)[4], const kc_tile<T> &row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(kc_shared_address(row.data))
               : "memory");
}

template <typename T>
KC_DEVICE void kc_ldmatrix4_transposed(uint32_t (&r)[4], const kc_tile<T> &row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(kc_shared_address(row.data))
               : "memory");
}

template <typename T>
KC_DEVICE void kc_copy16(const kc_tile<T> &to, const void *from, bool valid)
{
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                   kc_shared_address(to.data)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}

template <typename T>
KC_DEVICE void kc_copy4(const kc_tile<T> &to, const void *from, bool valid)
{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(kc_shared_address(to.data)),
               "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}

KC_DEVICE void kc_copy_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <unsigned Pending>
KC_DEVICE void kc_copy_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/* ---- global memory ---- */

KC_DEVICE uint4 kc_load16(const void *from)
{
  return *static_cast<const uint4 *>(from);
}

KC_DEVICE void kc_store16(void *to, uint4 value)
{
  *static_cast<uint4 *>(to) = value;
}

KC_DEVICE uint32_t kc_load4(const void *from)
{
  return *static_cast<const uint32_t *>(from);
}

KC_DEVICE void kc_store4(void *to, uint32_t value)
{
  *static_cast<uint32_t *>(to) = value;
}

KC_DEVICE uint64_t kc_atomic_add(uint64_t *to, uint64_t value)
{
  return atomicAdd(reinterpret_cast<unsigned long long *>(to), (unsigned long long)value);
}

KC_DEVICE void kc_atomic_min(uint32_t *to, uint32_t value)
{
  atomicMin(to, value);
}

KC_DEVICE void kc_atomic_xor(uint32_t *to, uint32_t value)
{
  atomicXor(to, value);
}

/* ---- arithmetic ---- */

KC_DEVICE float kc_exp2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

KC_DEVICE float kc_log2(float x)
{
  return log2f(x);
}

KC_DEVICE float kc_exp(float x)
{
  return expf(x);
}

KC_DEVICE float kc_log(float x)
{
  return logf(x);
}

KC_DEVICE float kc_max(float a, float b)
{
  return fmaxf(a, b);
}

KC_DEVICE float kc_min(float a, float b)
{
  return fminf(a, b);
}

/* A product that is rounded by itself, never fused with what is added to it. */
KC_DEVICE float kc_multiply(float a, float b)
{
  return __fmul_rn(a, b);
}

KC_DEVICE float kc_fma(float a, float b, float c)
{
  return fmaf(a, b, c);
}

KC_DEVICE float kc_inverse_sqrt(float x)
{
  return 1.0f / sqrtf(x);
}

KC_DEVICE uint32_t kc_bf16x2(float low, float high)
{
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

KC_DEVICE uint32_t kc_f16x2(float low, float high)
{
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

KC_DEVICE uint32_t kc_e4m3x2_to_f16x2(uint32_t codes)
{
  uint32_t both;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"((unsigned short)codes));
  return both;
}

/* Straight from FP32: through f16 it would round twice. */
KC_DEVICE uint8_t kc_to_e4m3(float x)
{
  unsigned short both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
  return (uint8_t)both;
}

KC_DEVICE uint32_t kc_bf16x2_multiply(uint32_t a, uint32_t b)
{
  uint32_t both;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
  return both;
}

KC_DEVICE uint32_t kc_bf16x2_subtract(uint32_t a, uint32_t b)
{
  uint32_t both;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
  return both;
}

KC_DEVICE uint32_t kc_permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
  return __byte_perm(a, b, selector);
}

KC_DEVICE void kc_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

KC_DEVICE void kc_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
