/* Weights that no file holds: counter-based, the same bits on every machine and on a GPU.
 *
 *   element i = bf16(deviation * normal(seed, hash of the name, i))   (kernels/formats/counter.h)
 *
 * Nothing here is drawn in sequence, so a kernel may fill any part of any tensor by itself.
 */
#include <math.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/weights.h"
#include "kernels/formats/bf16.h"
#include "kernels/formats/counter.h"

/* FNV-1a (Fowler, Noll, Vo), mixed once more. */
uint64_t kc_synthetic_stream(const char *name)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  KC_ASSERT(name != NULL);
  for (const char *p = name; *p != '\0'; p++) hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  return kc_counter_mix(hash);
}

static bool is_norm(const char *name)
{
  return strstr(name, "norm.weight") != NULL;
}

float kc_synthetic_deviation(const char *name, uint64_t cols)
{
  KC_ASSERT(name != NULL);
  KC_ASSERT(cols > 0);
  if (is_norm(name)) return 0.125f;
  if (strstr(name, "embed_tokens") != NULL) return 1.0f;
  return (float)(1.0 / sqrt((double)cols));
}

float kc_synthetic_mean(const char *name)
{
  KC_ASSERT(name != NULL);
  return is_norm(name) ? 1.0f : 0.0f;
}

static enum kc_err read_synthetic(void *context, const char *name, uint64_t rows, uint64_t cols,
                                  uint16_t *out, struct kc_diag *diag)
{
  const uint64_t seed = *(const uint64_t *)context, stream = kc_synthetic_stream(name);
  const float deviation = kc_synthetic_deviation(name, cols), mean = kc_synthetic_mean(name);
  (void)diag;
  KC_ASSERT(rows > 0);
  for (uint64_t i = 0; i < rows * cols; i++) {
    out[i] = kc_bf16_encode(mean + deviation * kc_counter_normal(seed, stream, i));
  }
  return KC_OK;
}

static enum kc_err read_synthetic_f32(void *context, const char *name, uint64_t count, float *out,
                                      struct kc_diag *diag)
{
  const uint64_t seed = *(const uint64_t *)context, stream = kc_synthetic_stream(name);
  (void)diag;
  KC_ASSERT(count > 0);
  for (uint64_t i = 0; i < count; i++) out[i] = 0.015625f * kc_counter_normal(seed, stream, i);
  return KC_OK;
}

struct kc_weight_source kc_synthetic_source(const uint64_t *seed)
{
  KC_ASSERT(seed != NULL);
  return (struct kc_weight_source){.context = (void *)(uintptr_t)seed,
                                   .read = read_synthetic,
                                   .read_f32 = read_synthetic_f32,
                                   .seed = seed};
}
