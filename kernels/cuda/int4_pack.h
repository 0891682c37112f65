/* INT4 weights in the order in which the tensor cores take them.
 *
 * The matrix falls into tiles of 16 rows and blocks of 64 columns; a block's 512 bytes are 16 bytes
 * a lane, and a lane's are four words, one for each m16n8k16 step of the block:
 *
 *   data    [tile][block][lane 32][step 4]  words of 8 nibbles
 *   nibble  i and i + 4 are the two elements of register a[i] of the A operand:
 *           row group + 8 (i % 2), with group = lane / 4, and
 *           column 32 (step / 2) + 8 pair + 4 (step % 2) + 2 (i / 2), with pair = lane % 4,
 *           and the next
 *   scale   [tile][group of columns][lane / 4]  pairs of bf16: rows group and group + 8
 *
 * A product may sum over its columns in any order, so the order within a block is chosen for the
 * other operand: a lane needs 8 neighbouring activations, one 16-byte load. Nibbles i and i + 4
 * come out of a word by one shift, one mask and one "or", as the pair 128 + q in bf16.
 *
 * Rows and columns are filled up with zeros (nibble 8) to whole tiles and blocks.
 */
#ifndef KC_KERNELS_CUDA_INT4_PACK_H
#define KC_KERNELS_CUDA_INT4_PACK_H

#include "kernels/ops/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of data and of scales in this order; `weight` is INT4 in KC_LAYOUT_ROWS or _FRAGMENT. */
uint64_t kc_int4_fragment_data_bytes(const struct kc_weight *weight);
uint64_t kc_int4_fragment_scale_bytes(const struct kc_weight *weight);

/* Packs `weight` (KC_LAYOUT_ROWS, host memory) into caller's memory of those sizes. */
void kc_int4_fragment_pack(const struct kc_weight *weight, void *data, uint16_t *scale);

#ifdef __cplusplus
}
#endif

#endif
