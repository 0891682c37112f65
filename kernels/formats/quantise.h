/* Weights from bf16 into the canonical layout of a format (kernels/ops/op_types.h pictures it).
 *
 *   fp8         one scale: amax / 448
 *   fp8-block   a scale per 128 x 128 block: amax / 448
 *   int4-g*     kc_int4_scale of the group
 *   mxfp4       kc_mxfp4_scale of 32
 *   nvfp4       kc_nvfp4_tensor_scale, kc_nvfp4_scale of 16
 *
 * A block of zeros gets scale 1 (fp8) or code 0. Values round to nearest.
 */
#ifndef KC_KERNELS_FORMATS_QUANTISE_H
#define KC_KERNELS_FORMATS_QUANTISE_H

#include "kernels/formats/format.h"

struct kc_quantised {
  void *data;           /* codes: kc_quantised_sizes says how many bytes */
  float *scale_f32;     /* fp8, fp8-block, nvfp4 */
  uint16_t *scale_bf16; /* int4 */
  uint8_t *scale_u8;    /* mxfp4, nvfp4 */
};

struct kc_quantised_sizes {
  uint64_t data_bytes, scale_f32_count, scale_bf16_count, scale_u8_count;
};

/* False for formats without a canonical layout, or cols that are no multiple of the group (of 32
 * where there is none). */
bool kc_quantised_sizes(enum kc_weight_format format, uint64_t rows, uint64_t cols,
                        struct kc_quantised_sizes *sizes);

/* Arrays of `out` that the format uses are the caller's, of the sizes above. Same condition. */
bool kc_quantise_weight(enum kc_weight_format format, uint64_t rows, uint64_t cols,
                        const uint16_t *bf16, const struct kc_quantised *out);

#endif
