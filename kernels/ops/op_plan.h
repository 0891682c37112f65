/* Host-side planning: the split-KV plan of a decode batch and RoPE's tables.
 *
 * A plan cuts contexts into pieces of nearly equal length so that about `blocks` blocks are busy
 * (blocks = SMs times blocks an SM, divided by kv heads): the piece length is the smallest multiple
 * of `granule` tokens with at most max(blocks, rows) pieces. Cutting depends on contexts alone, so
 * the same batch always sums in the same order.
 */
#ifndef KC_KERNELS_OPS_OP_PLAN_H
#define KC_KERNELS_OPS_OP_PLAN_H

#include "kernels/ops/op_dense.h"
#include "kernels/ops/op_paged.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kc_plan_build {
  struct kc_split *split; /* caller's host memory, [split_capacity] */
  uint32_t split_capacity;
  uint32_t *row_first;    /* caller's, [rows + 1] */
  uint32_t split_count;   /* out */
  uint32_t partial_count; /* out */
  uint32_t piece_tokens;  /* out: the piece length chosen */
};

/* Splits that any batch of `rows` rows can need with this many blocks: rows + blocks. */
uint32_t kc_plan_capacity(uint32_t rows, uint32_t blocks);

/* granule >= 1 (a multiple of the kernel's KV tile), blocks >= 1. False if split_capacity is short
 * (never with kc_plan_capacity). */
bool kc_plan_make(struct kc_plan_build *build, const uint32_t *context, uint32_t rows,
                  uint32_t granule, uint32_t blocks);

/* The plan that ends first when `blocks` pieces run at once: of those for 1 to KC_PLAN_WAVES times
 * many blocks the one with the least (rounds of pieces) * (tokens of a piece), fewer pieces among
 * equals. A batch a little larger than the machine would else leave most of it idle in its second
 * round. The capacity is kc_plan_capacity(rows, KC_PLAN_WAVES * blocks). */
enum { KC_PLAN_WAVES = 4 };
bool kc_plan_balance(struct kc_plan_build *build, const uint32_t *context, uint32_t rows,
                     uint32_t granule, uint32_t blocks);

/* Pads the plan with KC_NO_SLOT items up to `count` <= split_capacity, for a captured launch. */
void kc_plan_pad(struct kc_plan_build *build, uint32_t count);

/* high [ceil(positions / 256)][dims / 2][2] and low [256][dims / 2][2]; frequency [dims / 2] in
 * radians a token, at most 2^20 / positions (scalings of Llama 3 or YaRN are already in it);
 * amplitude multiplies `low`. */
void kc_rope_tables(float *high, float *low, const double *frequency, uint32_t dims,
                    uint32_t positions, double amplitude);
uint64_t kc_rope_high_count(uint32_t dims, uint32_t positions); /* floats */
uint64_t kc_rope_low_count(uint32_t dims);

#ifdef __cplusplus
}
#endif

#endif
