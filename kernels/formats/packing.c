/* Packed 4-bit weights, read element by element.
 *
 *   element (n, k)  ->  word and nibble, by packing  ->  q, zero, scale  ->  canonical place
 *
 * One addressing function a packing, and one loop for all of them: loading is bound by the disk,
 * and a reader that is plain to check is worth more than one that moves words. All lengths are
 * checked before the first read, so addresses need no checks of their own.
 */
#include "kernels/formats/packing.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/formats/bf16.h"
#include "kernels/formats/fp16.h"
#include "kernels/formats/int4.h"

/* Nibble of column c within AWQ's word: the inverse of {0 2 4 6 1 3 5 7}. */
static const uint8_t awq_nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t nibble_at(const void *words, uint64_t word, uint32_t nibble)
{
  const uint8_t byte = ((const uint8_t *)words)[4 * word + nibble / 2];
  return ((uint32_t)byte >> (4 * (nibble & 1))) & 15u;
}

static uint32_t code_at(const struct kc_packed *p, uint32_t n, uint32_t k)
{
  switch (p->packing) {
    case KC_PACKING_COMPRESSED_TENSORS:
      return nibble_at(p->codes, (uint64_t)n * (p->cols / 8) + k / 8, k % 8);
    case KC_PACKING_AWQ:
      return nibble_at(p->codes, (uint64_t)k * (p->rows / 8) + n / 8, awq_nibble[n % 8]);
    default:
      return nibble_at(p->codes, (uint64_t)(k / 8) * p->rows + n, k % 8);
  }
}

static uint32_t zero_at(const struct kc_packed *p, uint32_t n, uint32_t group)
{
  if (p->zeros == NULL) return 8;
  const uint64_t by_column = (uint64_t)group * (p->rows / 8) + n / 8;
  switch (p->packing) {
    case KC_PACKING_COMPRESSED_TENSORS:
      return nibble_at(p->zeros, (uint64_t)(n / 8) * (p->cols / p->group) + group, n % 8);
    case KC_PACKING_AWQ: return nibble_at(p->zeros, by_column, awq_nibble[n % 8]);
    case KC_PACKING_GPTQ: return nibble_at(p->zeros, by_column, n % 8) + 1;
    default: return nibble_at(p->zeros, by_column, n % 8);
  }
}

static float scale_at(const struct kc_packed *p, uint32_t n, uint32_t group)
{
  const uint64_t groups = p->cols / p->group;
  const bool by_row = p->packing == KC_PACKING_COMPRESSED_TENSORS;
  const uint64_t at = by_row ? n * groups + group : (uint64_t)group * p->rows + n;
  const uint8_t *bytes = p->scales;
  if (p->scale_type == KC_SCALE_F32) {
    float scale;
    memcpy(&scale, bytes + 4 * at, sizeof scale);
    return scale;
  }
  uint16_t code;
  memcpy(&code, bytes + 2 * at, sizeof code);
  return p->scale_type == KC_SCALE_BF16 ? kc_bf16_decode(code) : kc_f16_decode(code);
}

static bool shape_good(const struct kc_packed *p)
{
  const bool group_known = p->group == 32 || p->group == 64 || p->group == 128;
  return group_known && p->rows > 0 && p->cols > 0 && p->rows % 8 == 0 && p->cols % p->group == 0;
}

static bool bytes_good(const struct kc_packed *p)
{
  const uint64_t elements = (uint64_t)p->rows * p->cols;
  const uint64_t scales = elements / p->group;
  const uint64_t scale_bytes = p->scale_type == KC_SCALE_F32 ? 4 : 2;
  if (p->codes == NULL || p->codes_bytes != elements / 2) return false;
  if (p->scales == NULL || p->scales_bytes != scales * scale_bytes) return false;
  if (p->zeros != NULL && p->zeros_bytes != scales / 2) return false;
  return p->group_index == NULL || p->group_index_bytes == 4ull * p->cols;
}

static bool order_good(const struct kc_packed *p)
{
  if (p->group_index == NULL) return true;
  for (uint32_t k = 0; k < p->cols; ++k) {
    uint32_t group;
    memcpy(&group, (const uint8_t *)p->group_index + 4ull * k, sizeof group);
    if (group != k / p->group) return false;
  }
  return true;
}

static enum kc_packing_status check(const struct kc_packed *p)
{
  if (!shape_good(p)) return KC_PACKING_BAD_SHAPE;
  if (!bytes_good(p)) return KC_PACKING_BAD_BYTES;
  return order_good(p) ? KC_PACKING_OK : KC_PACKING_BAD_ORDER;
}

enum kc_packing_status kc_packing_read(const struct kc_packed *p, uint8_t *codes, uint16_t *scales,
                                       uint64_t *scales_rounded)
{
  *scales_rounded = 0;
  const enum kc_packing_status status = check(p);
  if (status != KC_PACKING_OK) return status;
  const uint32_t groups = p->cols / p->group;
  for (uint32_t n = 0; n < p->rows; ++n) {
    for (uint32_t group = 0; group < groups; ++group) {
      if (zero_at(p, n, group) != 8) return KC_PACKING_ASYMMETRIC;
      const float scale = scale_at(p, n, group);
      const uint16_t rounded = kc_bf16_encode(scale);
      scales[(uint64_t)n * groups + group] = rounded;
      if (kc_bf16_decode(rounded) != scale) *scales_rounded += 1;
    }
    for (uint32_t k = 0; k < p->cols; ++k) {
      kc_int4_set(codes, (uint64_t)n * p->cols + k, (int)code_at(p, n, k) - 8);
    }
  }
  return KC_PACKING_OK;
}

enum kc_packing_status kc_packing_read_bf16(const struct kc_packed *p, uint16_t *values)
{
  const enum kc_packing_status status = check(p);
  if (status != KC_PACKING_OK) return status;
  for (uint32_t n = 0; n < p->rows; ++n) {
    for (uint32_t k = 0; k < p->cols; ++k) {
      const uint32_t group = k / p->group;
      const int code = (int)code_at(p, n, k) - (int)zero_at(p, n, group);
      values[(uint64_t)n * p->cols + k] = kc_bf16_encode((float)code * scale_at(p, n, group));
    }
  }
  return KC_PACKING_OK;
}

const char *kc_packing_status_text(enum kc_packing_status status)
{
  switch (status) {
    case KC_PACKING_OK: return "fine";
    case KC_PACKING_BAD_SHAPE:
      return "groups must be 32, 64 or 128 inputs and divide them, outputs a multiple of 8";
    case KC_PACKING_BAD_BYTES: return "a tensor is not as long as the weight's shape says";
    case KC_PACKING_BAD_ORDER: return "g_idx reorders inputs (activation order)";
    case KC_PACKING_ASYMMETRIC: return "a zero point is not 8 (asymmetric quantisation)";
  }
  return "unknown";
}
