/* Packing of INT4 weights: see int4_pack.h for the order. Set-up code; runs once a matrix. */
#include "kernels/cuda/int4_pack.h"

#include "kernels/formats/int4.h"
#include "kernels/ops/op_check.h"

enum { TILE_ROWS = 16, BLOCK_COLUMNS = 64, LANES = 32, STEPS = 4, ZERO = 8 };

static uint64_t tiles(const struct kc_weight *weight)
{
  return ((uint64_t)weight->rows + TILE_ROWS - 1) / TILE_ROWS;
}

static uint64_t blocks(const struct kc_weight *weight)
{
  return ((uint64_t)weight->cols + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
}

static uint64_t groups(const struct kc_weight *weight)
{
  return weight->cols / kc_int4_group(weight->format);
}

uint64_t kc_int4_fragment_data_bytes(const struct kc_weight *weight)
{
  return tiles(weight) * blocks(weight) * LANES * STEPS * sizeof(uint32_t);
}

uint64_t kc_int4_fragment_scale_bytes(const struct kc_weight *weight)
{
  return tiles(weight) * groups(weight) * TILE_ROWS * sizeof(uint16_t);
}

static uint32_t nibble(const struct kc_weight *weight, uint64_t row, uint64_t column)
{
  if (row >= weight->rows || column >= weight->cols) return ZERO;
  return (uint32_t)(kc_int4_get(weight->data, row * weight->cols + column) + ZERO);
}

static uint32_t word_of(const struct kc_weight *weight, uint64_t tile, uint64_t block,
                        uint32_t lane, uint32_t step)
{
  uint32_t word = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t row = tile * TILE_ROWS + lane / 4 + 8 * (i % 2);
    const uint64_t column = block * BLOCK_COLUMNS + 32 * (step / 2) + 8 * (lane % 4) +
                            4 * (step % 2) + 2 * (i / 2);
    word |= nibble(weight, row, column) << (4 * i);
    word |= nibble(weight, row, column + 1) << (4 * (i + 4));
  }
  return word;
}

static uint16_t scale_of(const struct kc_weight *weight, uint64_t row, uint64_t group)
{
  return row < weight->rows ? weight->scale_bf16[row * groups(weight) + group] : 0;
}

void kc_int4_fragment_pack(const struct kc_weight *weight, void *data, uint16_t *scale)
{
  uint32_t *word = data;
  for (uint64_t tile = 0; tile < tiles(weight); ++tile) {
    for (uint64_t block = 0; block < blocks(weight); ++block) {
      for (uint32_t at = 0; at < LANES * STEPS; ++at) {
        *word++ = word_of(weight, tile, block, at / STEPS, at % STEPS);
      }
    }
    for (uint64_t group = 0; group < groups(weight); ++group) {
      for (uint64_t row = tile * TILE_ROWS; row < tile * TILE_ROWS + 8; ++row) {
        *scale++ = scale_of(weight, row, group);
        *scale++ = scale_of(weight, row + 8, group);
      }
    }
  }
}
