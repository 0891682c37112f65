/* Number formats and what they cost in bytes. Encoding and decoding join this folder with the
 * engine; the simulator needs only sizes.
 *
 * Weight formats (bytes for a rows x cols matrix, scales included; groups and blocks run along the
 * input dimension `cols`, ragged edges are rounded up to a whole group or block):
 *
 *   bf16, fp16       2 per element
 *   fp8              1 per element + one FP32 scale per tensor
 *   fp8-block        1 per element + one FP32 scale per 128 x 128 block
 *   int8             1 per element + one BF16 scale per row
 *   int4-g32/64/128  1/2 per element + one BF16 scale per group of 32 / 64 / 128 (symmetric)
 *   mxfp4            1/2 per element + one E8M0 byte per group of 32   (OCP MX 1.0)
 *   nvfp4            1/2 per element + one E4M3 byte per group of 16 + one FP32 per tensor
 *   none             the tensor is left out
 *
 * KV formats (bytes for one token's vector of `width` elements; K and V may differ):
 *
 *   bf16             2 per element
 *   fp8-e4m3         1 per element, per-tensor scale, not stored per token
 *   fp8-g128         1 per element + one FP32 scale per 128; in MLA the rope part stays BF16:
 *                    512 + 4*4 + 64*2 = 656 bytes (SGLang's and vLLM's layout for FlashMLA)
 *   int8             1 per element + one FP16 scale per head vector
 *   fp4              1/2 per element + one scale byte per 16
 */
#ifndef KC_KERNELS_FORMATS_FORMAT_H
#define KC_KERNELS_FORMATS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kc_weight_format {
  KC_WEIGHT_DEFAULT, /* what the checkpoint's config says */
  KC_WEIGHT_NONE,
  KC_WEIGHT_BF16,
  KC_WEIGHT_FP16,
  KC_WEIGHT_FP32,
  KC_WEIGHT_FP8,
  KC_WEIGHT_FP8_BLOCK,
  KC_WEIGHT_INT8,
  KC_WEIGHT_INT4_G32,
  KC_WEIGHT_INT4_G64,
  KC_WEIGHT_INT4_G128,
  KC_WEIGHT_MXFP4,
  KC_WEIGHT_NVFP4,
  KC_WEIGHT_FORMATS
};

enum kc_kv_format {
  KC_KV_BF16,
  KC_KV_FP8_E4M3,
  KC_KV_FP8_G128,
  KC_KV_INT8,
  KC_KV_FP4,
  KC_KV_FORMATS
};

/* Arithmetic a matrix product runs in, which decides the peak rate that bounds it. */
enum kc_math { KC_MATH_BF16, KC_MATH_FP8, KC_MATH_INT8, KC_MATH_FP4, KC_MATH_KINDS };

/* Bytes of one rows x cols matrix. rows, cols >= 1; at most 2^48 elements. NONE is 0. */
uint64_t kc_weight_bytes(enum kc_weight_format format, uint64_t rows, uint64_t cols);

/* Bytes of one token's vector of `width` elements (a K head, a V head, an MLA latent). */
uint64_t kc_kv_bytes(enum kc_kv_format format, uint64_t width);

/* Weight-only formats (int4) compute in BF16. */
enum kc_math kc_weight_math(enum kc_weight_format format);

/* Names as in scenarios and on the command line ("int4-g32"; DEFAULT is "checkpoint"); parse
 * returns false if unknown and then leaves *out alone. */
const char *kc_weight_format_name(enum kc_weight_format format);
bool kc_weight_format_parse(const char *name, enum kc_weight_format *out);
const char *kc_kv_format_name(enum kc_kv_format format);
bool kc_kv_format_parse(const char *name, enum kc_kv_format *out);

/* Comma-separated list of all names, for messages. */
const char *kc_weight_format_names(void);
const char *kc_kv_format_names(void);

#ifdef __cplusplus
}
#endif

#endif
