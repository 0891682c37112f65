/* Random inputs of operations: bf16 values from a plain congruential generator (Knuth's MMIX), and
 * the error measure of the tests. */
#include "op_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/formats/bf16.h"

uint64_t draw_u64(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 32) ^ (*seed << 17);
}

uint32_t draw_below(uint64_t *seed, uint32_t bound)
{
  return (uint32_t)((draw_u64(seed) & 0xFFFFFFFFu) * bound >> 32);
}

double draw_normal(uint64_t *seed)
{
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += (double)(draw_u64(seed) & 0xFFFFFFu) / 0x1p24;
  return sum;
}

void *take(size_t bytes)
{
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (memory == NULL) fail_msg("no memory for %zu bytes", bytes);
  memset(memory, 0, (bytes + 64) / 64 * 64);
  return memory;
}

uint16_t *take_bf16(size_t count, uint64_t *seed, double deviation)
{
  uint16_t *codes = take(count * sizeof *codes);
  for (size_t i = 0; i < count; ++i) codes[i] = code_of(deviation * draw_normal(seed));
  return codes;
}

double value_of(uint16_t bf16)
{
  return (double)kc_bf16_decode(bf16);
}

uint16_t code_of(double value)
{
  return kc_bf16_encode((float)value);
}

double nmse(const double *got, const double *want, size_t count)
{
  double wrong = 0.0, all = 0.0;
  for (size_t i = 0; i < count; ++i) {
    if (isnan(got[i])) return (double)INFINITY;
    wrong += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  return all > 0.0 ? wrong / all : wrong;
}

double nmse_bf16(const uint16_t *got, const double *want, size_t count)
{
  double *values = take(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) values[i] = value_of(got[i]);
  const double result = nmse(values, want, count);
  free(values);
  return result;
}

double nmse_f32(const float *got, const double *want, size_t count)
{
  double *values = take(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) values[i] = (double)got[i];
  const double result = nmse(values, want, count);
  free(values);
  return result;
}
