/* Lengths: drawing from marginals and pairs.
 *
 *   rank    0 .......... u .......................... 2^64      u uniform, 64 bits
 *   point   | 12 tokens | 80 tokens |  500 tokens      |        steps: the first with rank >= u;
 *                                                               joined: on the line between two
 *
 * The two sides are tied without floating point: with the chance |correlation| the output takes the
 * input's own rank (mirrored for a negative one), else a fresh one. The rank correlation of that
 * mixture is exactly the chance. */
#include "traces/synth/synth_lengths.h"

#include <stdlib.h>

/* First point with rank >= the given one. */
static size_t point_at(const struct kc_marginal *marginal, uint64_t rank)
{
  size_t low = 0, high = marginal->count - 1;
  KC_ASSERT(marginal->count > 0);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (marginal->point[middle].rank < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint32_t kc_marginal_at(const struct kc_marginal *marginal, uint64_t rank)
{
  const size_t at = point_at(marginal, rank);
  const struct kc_length_point *const right = &marginal->point[at];
  if (!marginal->joined || at == 0) return right->tokens;
  const struct kc_length_point *const left = right - 1;
  KC_ASSERT(right->tokens >= left->tokens && right->rank > left->rank);
  const uint64_t rise = kc_muldiv_round(rank - left->rank, right->tokens - left->tokens,
                                        right->rank - left->rank);
  return left->tokens + (uint32_t)rise;
}

void kc_lengths_draw(const struct kc_lengths *lengths, struct kc_random *random,
                     uint32_t *input_tokens, uint32_t *output_tokens)
{
  const uint64_t rank = kc_random_u64(random);
  const int64_t tie = lengths->correlation_nano;
  uint32_t input, output;
  KC_ASSERT(tie >= -KC_NANO && tie <= KC_NANO);
  if (lengths->pair.count > 0) {
    const struct kc_length_point *const pair =
        &lengths->pair.point[point_at(&lengths->pair, rank)];
    input = pair->tokens;
    output = pair->output;
  } else {
    uint64_t other = kc_random_u64(random);
    if (kc_random_chance(random, (uint64_t)(tie < 0 ? -tie : tie), (uint64_t)KC_NANO)) {
      other = tie < 0 ? UINT64_MAX - rank : rank;
    }
    input = kc_marginal_at(&lengths->input, rank);
    output = kc_marginal_at(&lengths->output, other);
  }
  *input_tokens = input > 0 ? input : 1;
  *output_tokens = output > 0 ? output : 1;
}

void kc_lengths_free(struct kc_lengths *lengths)
{
  free(lengths->heap[0]);
  free(lengths->heap[1]);
  *lengths = (struct kc_lengths){0};
}

void kc_ranks_of_weights(struct kc_length_point *point, size_t count)
{
  uint64_t total = 0, sum = 0;
  for (size_t i = 0; i < count; i++) total += point[i].rank;
  KC_ASSERT(total > 0);
  for (size_t i = 0; i < count; i++) {
    sum += point[i].rank;
    const kc_u128 share = ((kc_u128)sum << 64) / total;
    point[i].rank = share > UINT64_MAX ? UINT64_MAX : share == 0 ? 0 : (uint64_t)share - 1;
  }
}

enum kc_err kc_lengths_fixed(struct kc_lengths *lengths, uint32_t input_tokens,
                             uint32_t output_tokens, struct kc_diag *diag)
{
  *lengths = (struct kc_lengths){0};
  struct kc_length_point *point = malloc(sizeof *point);
  if (point == NULL) return kc_fail(diag, KC_ERR_MEMORY, "the host ran out of memory");
  *point = (struct kc_length_point){UINT64_MAX, input_tokens, output_tokens};
  lengths->heap[0] = point;
  lengths->pair = (struct kc_marginal){.point = point, .count = 1};
  return KC_OK;
}

/* ---- presets ---- */

/* A rank of so many hundred-thousandths; the last point is UINT64_MAX. */
#define RANK(share) ((uint64_t)((((kc_u128)1 << 64) - 1) * (share) / 100000))
#define QUANTILES(p0, p5, p10, p25, p50, p75, p90, p95, p99, p999, p100)                        \
  {RANK(0), p0, 0}, {RANK(5000), p5, 0}, {RANK(10000), p10, 0}, {RANK(25000), p25, 0},          \
  {RANK(50000), p50, 0}, {RANK(75000), p75, 0}, {RANK(90000), p90, 0}, {RANK(95000), p95, 0},   \
  {RANK(99000), p99, 0}, {RANK(99900), p999, 0}, {UINT64_MAX, p100, 0}
enum { QUANTILE_COUNT = 11 };

struct preset {
  const char *name;
  struct kc_length_point input[QUANTILE_COUNT], output[QUANTILE_COUNT];
  int64_t correlation_nano;
};

/* Round numbers in the shape of published statistics:
 *   conversation  Azure LLM inference trace 2023, conversation (Splitwise, Patel et al., ISCA
 *                 2024): median prompt 1,020 and output 129 tokens, a second hump near 400
 *   code          the same, code: median prompt about 1,500 and output 13
 *   reasoning     ServeGen, deepseek-r1 pool (Xiang et al. 2025): prompt 208 / 2,092 / 23,423 and
 *                 output 792 / 3,432 / 12,607 tokens at p50 / p90 / p99
 *   agent         coding-agent sessions (callanjfox/kv-cache-tester, Apache-2.0): what a step adds
 *                 to its prompt, and what it writes */
static const struct preset presets[] = {
  {"conversation", {QUANTILES(8, 180, 210, 400, 1020, 1200, 2750, 4100, 4150, 6200, 12000)},
   {QUANTILES(7, 40, 55, 85, 130, 395, 425, 450, 600, 950, 1000)}, -100000000},
  {"code", {QUANTILES(16, 75, 150, 580, 1500, 2750, 5200, 7300, 7420, 7430, 7440)},
   {QUANTILES(5, 6, 7, 9, 13, 24, 55, 90, 250, 830, 1900)}, 0},
  {"reasoning", {QUANTILES(5, 20, 35, 85, 208, 760, 2092, 5500, 23423, 48000, 64000)},
   {QUANTILES(20, 110, 190, 390, 792, 1650, 3432, 5600, 12607, 24000, 32000)}, 150000000},
  {"agent", {QUANTILES(20, 60, 110, 220, 520, 1300, 3400, 6500, 18000, 50000, 90000)},
   {QUANTILES(20, 100, 115, 170, 290, 500, 900, 1400, 2900, 6500, 8000)}, 0},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const char *kc_lengths_preset_name(size_t index)
{
  return index < PRESETS ? presets[index].name : NULL;
}

static bool same_text(const char *a, const char *b)
{
  while (*a != '\0' && *a == *b) a++, b++;
  return *a == *b;
}

bool kc_lengths_preset(struct kc_lengths *lengths, const char *name)
{
  KC_ASSERT(name != NULL);
  for (size_t i = 0; i < PRESETS; i++) {
    if (!same_text(presets[i].name, name)) continue;
    *lengths = (struct kc_lengths){
      .input = {presets[i].input, QUANTILE_COUNT, true},
      .output = {presets[i].output, QUANTILE_COUNT, true},
      .correlation_nano = presets[i].correlation_nano,
    };
    return true;
  }
  return false;
}
