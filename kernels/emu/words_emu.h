/* The words of CUDA, for a host compiler: what kernels/cuda/words_gpu.cuh says in PTX, said through
 * the emulator. A .cu file compiled as C++17 with KC_EMU defined gets this header.
 *
 * Each word here has a twin of the same name and meaning there; a kernel uses no other CUDA than
 * these, so that both compilers read the same source.
 */
#ifndef KC_KERNELS_EMU_WORDS_EMU_H
#define KC_KERNELS_EMU_WORDS_EMU_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/emu/emu.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/e4m3.h"
#include "kernels/ops/op_types.h"

#define __global__ static
#define __device__ static inline
#define KC_DEVICE static inline
#define KC_MEMBER inline
#define KC_UNROLL
#define KC_ROLL
#define KC_BOUNDS(threads, blocks)
#define KC_PARAMETER const
#define threadIdx (kc_emu_thread_index())
#define blockIdx (kc_emu_block_index())
#define blockDim (kc_emu_block_size())
#define gridDim (kc_emu_grid_size())
#define KC_LINE int line = __builtin_LINE()

struct dim3 {
  unsigned x, y, z;
  explicit dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

/* ---- launching ---- */

template <typename... Parameters, typename... Arguments>
static enum kc_op_status kc_launch(void *context, const char *name, void (*kernel)(Parameters...),
                                   dim3 grid, dim3 block, size_t shared_bytes,
                                   const Arguments &...arguments)
{
  auto body = [&]() { kernel(arguments...); };
  using body_type = decltype(body);
  const bool fine = kc_emu_launch(
      static_cast<struct kc_emu *>(context), name, {grid.x, grid.y, grid.z},
      {block.x, block.y, block.z}, shared_bytes,
      [](void *argument) { (*static_cast<body_type *>(argument))(); }, &body);
  return fine ? KC_OP_OK : KC_OP_DEVICE;
}

#define KC_LAUNCH(context, kernel, grid, block, shared_bytes, ...) \
  kc_launch(context, #kernel, kernel, grid, block, shared_bytes, __VA_ARGS__)

/* ---- threads ---- */

static inline void kc_sync_block(KC_LINE)
{
  kc_emu_barrier(line);
}

static inline void kc_sync_warp(KC_LINE)
{
  kc_emu_warp(KC_EMU_SYNC_WARP, nullptr, 0, nullptr, 0, line);
}

static inline uint32_t kc_shuffle_u32(uint32_t value, unsigned lane, KC_LINE)
{
  const uint32_t operands[2] = {value, lane};
  uint32_t result;
  kc_emu_warp(KC_EMU_SHUFFLE, operands, sizeof operands, &result, sizeof result, line);
  return result;
}

static inline uint32_t kc_shuffle_xor_u32(uint32_t value, unsigned mask, KC_LINE)
{
  return kc_shuffle_u32(value, (threadIdx.x % 32) ^ mask, line);
}

static inline float kc_shuffle_xor(float value, unsigned mask, KC_LINE)
{
  return kc_f32_of_bits(kc_shuffle_xor_u32(kc_f32_bits(value), mask, line));
}

static inline float kc_shuffle(float value, unsigned lane, KC_LINE)
{
  return kc_f32_of_bits(kc_shuffle_u32(kc_f32_bits(value), lane, line));
}

static inline uint32_t kc_ballot(bool vote, KC_LINE)
{
  const uint32_t operand = vote;
  uint32_t result;
  kc_emu_warp(KC_EMU_BALLOT, &operand, sizeof operand, &result, sizeof result, line);
  return result;
}

static inline int kc_popcount(uint32_t bits)
{
  return __builtin_popcount(bits);
}

static inline unsigned kc_shift_of(uint32_t power)
{
  return 31u - (unsigned)__builtin_clz(power);
}

/* ---- shared memory ---- */

/* `count` elements of T. Every access says its place to the emulator. */
template <typename T>
struct kc_tile {
  T *data;

  T get(unsigned i, KC_LINE) const
  {
    kc_emu_shared_read(data + i, sizeof(T), sizeof(T), line);
    return data[i];
  }
  void set(unsigned i, T value, KC_LINE) const
  {
    kc_emu_shared_write(data + i, sizeof(T), sizeof(T), line);
    data[i] = value;
  }
  uint4 get16(unsigned i, KC_LINE) const
  {
    uint4 value;
    kc_emu_shared_read(data + i, 16, 16, line);
    memcpy(&value, data + i, 16);
    return value;
  }
  void set16(unsigned i, uint4 value, KC_LINE) const
  {
    kc_emu_shared_write(data + i, 16, 16, line);
    memcpy(data + i, &value, 16);
  }
  uint32_t get4(unsigned i, KC_LINE) const
  {
    uint32_t value;
    kc_emu_shared_read(data + i, 4, 4, line);
    memcpy(&value, data + i, 4);
    return value;
  }
  void set4(unsigned i, uint32_t value, KC_LINE) const
  {
    kc_emu_shared_write(data + i, 4, 4, line);
    memcpy(data + i, &value, 4);
  }
  kc_tile<T> from(unsigned i) const
  {
    return {data + i};
  }
  /* The same memory once more, after a barrier, for something else. */
  template <typename Other>
  kc_tile<Other> as() const
  {
    return {reinterpret_cast<Other *>(data)};
  }
};

struct kc_shared {
  template <typename T>
  kc_tile<T> take(unsigned count, KC_LINE)
  {
    return {static_cast<T *>(kc_emu_shared_take(count * sizeof(T), line))};
  }
};

/* Two or four 8 x 8 matrices of halves; `row` is the 16 bytes that this lane points at. */
template <typename T>
static inline void kc_ldmatrix4(uint32_t (&r)[4], const kc_tile<T> &row, KC_LINE)
{
  const struct {
    const void *row;
    uint64_t count;
  } operand = {row.data, 4};
  kc_emu_warp(KC_EMU_LDMATRIX, &operand, sizeof operand, r, 16, line);
}

template <typename T>
static inline void kc_ldmatrix4_transposed(uint32_t (&r)[4], const kc_tile<T> &row, KC_LINE)
{
  const struct {
    const void *row;
    uint64_t count;
  } operand = {row.data, 4};
  kc_emu_warp(KC_EMU_LDMATRIX_TRANSPOSED, &operand, sizeof operand, r, 16, line);
}

/* 16 bytes to shared memory, when the copy is waited for; zeros unless `valid`. */
template <typename T>
static inline void kc_copy16(const kc_tile<T> &to, const void *from, bool valid, KC_LINE)
{
  kc_emu_copy(to.data, valid ? from : to.data, valid ? 16 : 0, 16, line);
}

/* The same with 4 bytes. */
template <typename T>
static inline void kc_copy4(const kc_tile<T> &to, const void *from, bool valid, KC_LINE)
{
  kc_emu_copy(to.data, valid ? from : to.data, valid ? 4 : 0, 4, line);
}

static inline void kc_copy_commit()
{
  kc_emu_copy_commit();
}

template <unsigned Pending>
static inline void kc_copy_wait()
{
  kc_emu_copy_wait(Pending);
}

/* ---- global memory ---- */

static inline uint4 kc_load16(const void *from, KC_LINE)
{
  uint4 value;
  kc_emu_check_aligned(from, 16, line);
  memcpy(&value, from, 16);
  return value;
}

static inline void kc_store16(void *to, uint4 value, KC_LINE)
{
  kc_emu_check_aligned(to, 16, line);
  memcpy(to, &value, 16);
}

static inline uint32_t kc_load4(const void *from, KC_LINE)
{
  uint32_t value;
  kc_emu_check_aligned(from, 4, line);
  memcpy(&value, from, 4);
  return value;
}

static inline void kc_store4(void *to, uint32_t value, KC_LINE)
{
  kc_emu_check_aligned(to, 4, line);
  memcpy(to, &value, 4);
}

static inline uint64_t kc_atomic_add(uint64_t *to, uint64_t value)
{
  kc_emu_yield();
  const uint64_t old = *to;
  *to = old + value;
  return old;
}

static inline void kc_atomic_min(uint32_t *to, uint32_t value)
{
  kc_emu_yield();
  if (value < *to) *to = value;
}

static inline void kc_atomic_xor(uint32_t *to, uint32_t value)
{
  kc_emu_yield();
  *to ^= value;
}

/* ---- arithmetic ---- */

static inline float kc_exp2(float x)
{
  return exp2f(x);
}

static inline float kc_log2(float x)
{
  return log2f(x);
}

static inline float kc_exp(float x)
{
  return expf(x);
}

static inline float kc_log(float x)
{
  return logf(x);
}

static inline float kc_max(float a, float b)
{
  return fmaxf(a, b);
}

static inline float kc_min(float a, float b)
{
  return fminf(a, b);
}

static inline float kc_multiply(float a, float b)
{
  return a * b; /* the build says -ffp-contract=off */
}

static inline float kc_fma(float a, float b, float c)
{
  return fmaf(a, b, c);
}

static inline float kc_inverse_sqrt(float x)
{
  return 1.0f / sqrtf(x);
}

/* Two halves in a register, `low` in the low bits. */
static inline uint32_t kc_bf16x2(float low, float high)
{
  return kc_bf16_encode(low) | (uint32_t)kc_bf16_encode(high) << 16;
}

/* Nearest even; overflow becomes infinity. */
static inline uint16_t kc_emu_f16_encode(float x)
{
  const uint32_t bits = kc_f32_bits(x), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { /* subnormal: the FPU rounds to multiples of 2^-24 */
    const float aligned = kc_f32_of_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (kc_f32_bits(aligned) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
}

static inline uint32_t kc_f16x2(float low, float high)
{
  return kc_emu_f16_encode(low) | (uint32_t)kc_emu_f16_encode(high) << 16;
}

/* Two codes to two f16: every e4m3 number is one. */
static inline uint32_t kc_e4m3x2_to_f16x2(uint32_t codes)
{
  return kc_f16x2(kc_e4m3_decode((uint8_t)codes), kc_e4m3_decode((uint8_t)(codes >> 8)));
}

static inline uint8_t kc_to_e4m3(float x)
{
  return kc_e4m3_encode(x);
}

/* a * b and a - b of two bf16 each. */
static inline uint32_t kc_bf16x2_multiply(uint32_t a, uint32_t b)
{
  return kc_bf16x2(kc_bf16_decode((uint16_t)a) * kc_bf16_decode((uint16_t)b),
                   kc_bf16_decode((uint16_t)(a >> 16)) * kc_bf16_decode((uint16_t)(b >> 16)));
}

static inline uint32_t kc_bf16x2_subtract(uint32_t a, uint32_t b)
{
  return kc_bf16x2(kc_bf16_decode((uint16_t)a) - kc_bf16_decode((uint16_t)b),
                   kc_bf16_decode((uint16_t)(a >> 16)) - kc_bf16_decode((uint16_t)(b >> 16)));
}

/* Byte i of the result is byte (selector >> 4 i & 7) of b:a. */
static inline uint32_t kc_permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
  const uint64_t both = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned byte = selector >> (4 * i) & 7;
    result |= (uint32_t)(both >> (8 * byte) & 0xff) << (8 * i);
  }
  return result;
}

/* d += a * b, m16n8k16. */
struct kc_emu_mma_operand {
  uint32_t a[4], b[2];
  float c[4];
};

static inline void kc_emu_mma(enum kc_emu_operation operation, float (&d)[4],
                              const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int line)
{
  const struct kc_emu_mma_operand operand = {
      {a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  kc_emu_warp(operation, &operand, sizeof operand, d, sizeof d, line);
}

static inline void kc_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                               KC_LINE)
{
  kc_emu_mma(KC_EMU_MMA_BF16, d, a, b0, b1, line);
}

static inline void kc_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                              KC_LINE)
{
  kc_emu_mma(KC_EMU_MMA_F16, d, a, b0, b1, line);
}

#endif
