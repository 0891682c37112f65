/* What the lanes of a warp do together.
 *
 *   operation        operands of a lane                           its result
 *   SYNC_WARP        -                                            -
 *   SHUFFLE          {value, source lane}                         the source lane's value
 *   BALLOT           {0 or 1}                                     bit per lane
 *   LDMATRIX (_T)    {pointer, count}: rows as below              count registers of two halves
 *   MMA_BF16, _F16   {a[4], b[2], c[4] as float}                  d[4] as float
 *
 * Fragments of m16n8k16, as the PTX ISA gives them, with group = lane / 4 and pair = lane % 4:
 *
 *   a[r]  row group + 8 (r % 2), columns 2 pair + 8 (r / 2) and the next      (16 x 16, row major)
 *   b[r]  rows 2 pair + 8 r and the next, column group                        (16 x 8)
 *   c[r]  row group + 8 (r / 2), column 2 pair + r % 2                        (16 x 8)
 *
 * ldmatrix loads `count` matrices of 8 x 8 halves: lane 8 i + j points at row j of matrix i (16
 * bytes), and register i of a lane is elements 2 pair and 2 pair + 1 of row group of matrix i; with
 * _T of column group instead.
 *
 * Products are summed in double and rounded once, where a tensor core aligns and cuts: the last
 * bits differ from a GPU's.
 */
#include <string.h>

#include "kernels/emu/emu_internal.h"

struct shuffle_operand {
  uint32_t value, lane;
};

struct ldmatrix_operand {
  const void *row;
  uint32_t count;
};

struct mma_operand {
  uint32_t a[4], b[2];
  float c[4];
};

_Static_assert(sizeof(struct mma_operand) == OPERAND_BYTES_MAX, "the largest operand");

static float float_of_bits(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float bf16_value(uint16_t half)
{
  return float_of_bits((uint32_t)half << 16);
}

/* Moves exponent and fraction into place; the product with 2^112 mends the bias and subnormals. */
static float f16_value(uint16_t half)
{
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  const float magnitude = float_of_bits(rest << 13) * 0x1p112f;
  return sign != 0 ? -magnitude : magnitude;
}

static void shuffle(struct kc_emu_warp *warp)
{
  struct shuffle_operand operand[KC_EMU_LANES];
  for (unsigned i = 0; i < KC_EMU_LANES; ++i) {
    memcpy(&operand[i], warp->operand[i], sizeof operand[i]);
  }
  for (unsigned i = 0; i < KC_EMU_LANES; ++i) {
    const uint32_t value = operand[operand[i].lane % KC_EMU_LANES].value;
    memcpy(warp->result[i], &value, sizeof value);
  }
}

static void ballot(struct kc_emu_warp *warp)
{
  uint32_t votes = 0;
  for (unsigned i = 0; i < KC_EMU_LANES; ++i) {
    uint32_t vote;
    memcpy(&vote, warp->operand[i], sizeof vote);
    votes |= (uint32_t)(vote != 0) << i;
  }
  for (unsigned i = 0; i < KC_EMU_LANES; ++i) memcpy(warp->result[i], &votes, sizeof votes);
}

static void ldmatrix(struct kc_emu *emu, struct kc_emu_warp *warp, int line, bool transposed)
{
  uint16_t element[KC_EMU_LANES][8]; /* row j of matrix i is element[8 i + j] */
  struct ldmatrix_operand operand;
  const unsigned me = emu->running, first = me - me % KC_EMU_LANES;
  memcpy(&operand, warp->operand[0], sizeof operand);
  const uint32_t count = operand.count;
  for (unsigned i = 0; i < 8 * count; ++i) {
    memcpy(&operand, warp->operand[i], sizeof operand);
    emu->running = first + i; /* the lane that gave the address is the reader */
    kc_emu_shared_read(operand.row, 16, 16, line);
    memcpy(element[i], operand.row, 16);
  }
  emu->running = me;
  for (unsigned lane = 0; lane < KC_EMU_LANES; ++lane) {
    const unsigned group = lane / 4, pair = 2 * (lane % 4);
    uint32_t registers[4];
    for (unsigned i = 0; i < count; ++i) {
      const uint16_t low = transposed ? element[8 * i + pair][group] : element[8 * i + group][pair];
      const uint16_t high =
          transposed ? element[8 * i + pair + 1][group] : element[8 * i + group][pair + 1];
      registers[i] = low | (uint32_t)high << 16;
    }
    memcpy(warp->result[lane], registers, count * sizeof registers[0]);
  }
}

static void multiply(struct kc_emu_warp *warp, float (*value)(uint16_t))
{
  float a[16][16], b[16][8], c[16][8];
  struct mma_operand operand;
  for (unsigned lane = 0; lane < KC_EMU_LANES; ++lane) {
    const unsigned group = lane / 4, pair = 2 * (lane % 4);
    memcpy(&operand, warp->operand[lane], sizeof operand);
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned row = group + 8 * (r % 2), column = pair + 8 * (r / 2);
      a[row][column] = value((uint16_t)operand.a[r]);
      a[row][column + 1] = value((uint16_t)(operand.a[r] >> 16));
      c[group + 8 * (r / 2)][pair + r % 2] = operand.c[r];
    }
    for (unsigned r = 0; r < 2; ++r) {
      b[pair + 8 * r][group] = value((uint16_t)operand.b[r]);
      b[pair + 8 * r + 1][group] = value((uint16_t)(operand.b[r] >> 16));
    }
  }
  for (unsigned lane = 0; lane < KC_EMU_LANES; ++lane) {
    float d[4];
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
      double sum = (double)c[row][column];
      for (unsigned k = 0; k < 16; ++k) sum += (double)a[row][k] * (double)b[k][column];
      d[r] = (float)sum;
    }
    memcpy(warp->result[lane], d, sizeof d);
  }
}

void kc_emu_combine(struct kc_emu *emu, struct kc_emu_warp *warp, int line)
{
  switch (warp->operation) {
  case KC_EMU_NONE: break;
  case KC_EMU_SYNC_WARP: warp->epoch += 1; break;
  case KC_EMU_SHUFFLE: shuffle(warp); break;
  case KC_EMU_BALLOT: ballot(warp); break;
  case KC_EMU_LDMATRIX: ldmatrix(emu, warp, line, false); break;
  case KC_EMU_LDMATRIX_TRANSPOSED: ldmatrix(emu, warp, line, true); break;
  case KC_EMU_MMA_BF16:
    multiply(warp, bf16_value);
    emu->counts.products += 1;
    break;
  case KC_EMU_MMA_F16:
    multiply(warp, f16_value);
    emu->counts.products += 1;
    break;
  }
}
