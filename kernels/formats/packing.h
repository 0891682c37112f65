/* Readers of 4-bit weights as checkpoints pack them, into the one canonical layout
 * (codes [rows][cols / 2], low nibble first, value + 8; scales bf16 [rows][cols / group]).
 *
 * All pack eight 4-bit codes q into an int32 (little endian), value = (q - zero) * scale; rows = n
 * outputs, cols = k inputs, groups = cols / group.
 *
 *   compressed-tensors "pack-quantized"
 *       weight_packed      int32 [n][k/8]        nibble i = element k + i
 *       weight_scale       [n][groups]
 *       weight_zero_point  int32 [n/8][groups]   nibble i = row n + i; left out when symmetric
 *   GPTQ
 *       qweight            int32 [k/8][n]        nibble i = row k + i of the column
 *       qzeros             int32 [groups][n/8]   nibble i = column n + i, zero - 1 (version 1)
 *                                                or zero (version 2)
 *       scales             [groups][n]
 *       g_idx              int32 [k]             group of each k; only k / group is read here
 *   AWQ
 *       qweight            int32 [k][n/8]        nibble i = column n + {0 2 4 6 1 3 5 7}[i]
 *       qzeros             int32 [groups][n/8]   same order
 *       scales             [groups][n]
 *
 * The canonical layout is symmetric (zero = 8 throughout). What is not can be read as bf16 values.
 */
#ifndef KC_KERNELS_FORMATS_PACKING_H
#define KC_KERNELS_FORMATS_PACKING_H

#include <stddef.h>
#include <stdint.h>

enum kc_packing {
  KC_PACKING_COMPRESSED_TENSORS,
  KC_PACKING_GPTQ,    /* zeros stored less one */
  KC_PACKING_GPTQ_V2,
  KC_PACKING_AWQ
};

enum kc_scale_type { KC_SCALE_BF16, KC_SCALE_F16, KC_SCALE_F32 };

enum kc_packing_status {
  KC_PACKING_OK,
  KC_PACKING_BAD_SHAPE,   /* group not 32, 64 or 128; k no multiple of it; n not of 8 */
  KC_PACKING_BAD_BYTES,   /* an array is not as long as the shape says */
  KC_PACKING_BAD_ORDER,   /* g_idx is not k / group: activation order is not supported */
  KC_PACKING_ASYMMETRIC   /* a zero point other than 8 */
};

/* Arrays as in the file; borrowed for the call, of any alignment. */
struct kc_packed {
  enum kc_packing packing;
  uint32_t rows, cols, group;
  const void *codes;
  uint64_t codes_bytes;
  const void *zeros; /* NULL: zero is 8 */
  uint64_t zeros_bytes;
  const void *scales;
  uint64_t scales_bytes;
  enum kc_scale_type scale_type;
  const void *group_index; /* GPTQ's g_idx; NULL: none */
  uint64_t group_index_bytes;
};

/* Writes codes [rows * cols / 2] and scales [rows * groups]. *scales_rounded counts the scales that
 * bf16 does not hold exactly. On anything but OK the outputs are unspecified. */
enum kc_packing_status kc_packing_read(const struct kc_packed *packed, uint8_t *codes,
                                       uint16_t *scales, uint64_t *scales_rounded);

/* Writes the values, rounded to bf16, [rows][cols]; zero points of any kind. */
enum kc_packing_status kc_packing_read_bf16(const struct kc_packed *packed, uint16_t *values);

/* One sentence for messages. */
const char *kc_packing_status_text(enum kc_packing_status status);

#endif
