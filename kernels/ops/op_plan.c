/* Cutting a decode batch into pieces, and RoPE's tables.
 *
 *   contexts   [====|====|==]   [=]   [====|===]        piece = 4
 *   splits      0    1    2      -     3    4           partials, in row order; a row of one
 *                                                       piece writes its output itself
 *
 * Why the smallest piece that keeps within the budget: pieces of one length finish together, so the
 * last wave of blocks is full; and the search is a bisection over multiples of the granule, cheap
 * enough to do on the host each step.
 */
#include "kernels/ops/op_plan.h"

#include "kernels/ops/op_math.h"

uint32_t kc_plan_capacity(uint32_t rows, uint32_t blocks)
{
  return rows + blocks;
}

static uint64_t pieces_at(const uint32_t *context, uint32_t rows, uint64_t piece)
{
  uint64_t count = 0;
  for (uint32_t row = 0; row < rows; ++row) count += (context[row] + piece - 1) / piece;
  return count;
}

static uint64_t smallest_piece(const uint32_t *context, uint32_t rows, uint64_t granule,
                               uint64_t budget)
{
  uint64_t longest = 1;
  for (uint32_t row = 0; row < rows; ++row) {
    if (context[row] > longest) longest = context[row];
  }
  uint64_t low = 1, high = (longest + granule - 1) / granule; /* in granules; high always fits */
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (pieces_at(context, rows, middle * granule) <= budget) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high * granule;
}

bool kc_plan_make(struct kc_plan_build *build, const uint32_t *context, uint32_t rows,
                  uint32_t granule, uint32_t blocks)
{
  build->split_count = build->partial_count = build->piece_tokens = 0;
  if (granule == 0 || blocks == 0) return false;
  const uint64_t budget = blocks > rows ? blocks : rows;
  const uint64_t piece = smallest_piece(context, rows, granule, budget);
  build->piece_tokens = (uint32_t)piece;
  build->row_first[0] = 0;
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t count = (context[row] + piece - 1) / piece;
    if (build->split_count + count > build->split_capacity) return false;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t start = i * piece, left = context[row] - start;
      build->split[build->split_count++] = (struct kc_split){
          .row = row,
          .start = (uint32_t)start,
          .count = (uint32_t)(left < piece ? left : piece),
          .partial = count < 2 ? KC_PARTIAL_NONE : build->partial_count++,
      };
    }
    build->row_first[row + 1] = build->partial_count;
  }
  return true;
}

static uint64_t rounds_of(const struct kc_plan_build *build, uint32_t blocks)
{
  const uint64_t rounds = ((uint64_t)build->split_count + blocks - 1) / blocks;
  return rounds * build->piece_tokens;
}

bool kc_plan_balance(struct kc_plan_build *build, const uint32_t *context, uint32_t rows,
                     uint32_t granule, uint32_t blocks)
{
  uint64_t least = UINT64_MAX;
  uint32_t best = 1;
  for (uint32_t waves = 1; waves <= KC_PLAN_WAVES; ++waves) {
    if (!kc_plan_make(build, context, rows, granule, waves * blocks)) return false;
    if (rounds_of(build, blocks) >= least) continue;
    least = rounds_of(build, blocks);
    best = waves;
  }
  return kc_plan_make(build, context, rows, granule, best * blocks);
}

void kc_plan_pad(struct kc_plan_build *build, uint32_t count)
{
  while (build->split_count < count && build->split_count < build->split_capacity) {
    build->split[build->split_count++] =
        (struct kc_split){.row = KC_NO_SLOT, .partial = KC_PARTIAL_NONE};
  }
}

uint64_t kc_rope_high_count(uint32_t dims, uint32_t positions)
{
  return ((uint64_t)positions + KC_ROPE_LOW_ROWS - 1) / KC_ROPE_LOW_ROWS * dims;
}

uint64_t kc_rope_low_count(uint32_t dims)
{
  return (uint64_t)KC_ROPE_LOW_ROWS * dims;
}

static void rope_table(float *out, const double *frequency, uint32_t pairs, uint64_t rows,
                       double step, double amplitude)
{
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i < pairs; ++i) {
      double sine, cosine;
      kc_math_sin_cos((double)row * step * frequency[i], &sine, &cosine);
      *out++ = (float)(cosine * amplitude);
      *out++ = (float)(sine * amplitude);
    }
  }
}

void kc_rope_tables(float *high, float *low, const double *frequency, uint32_t dims,
                    uint32_t positions, double amplitude)
{
  const uint64_t high_rows = kc_rope_high_count(dims, positions) / dims;
  rope_table(high, frequency, dims / 2, high_rows, KC_ROPE_LOW_ROWS, 1.0);
  rope_table(low, frequency, dims / 2, KC_ROPE_LOW_ROWS, 1.0, amplitude);
}
