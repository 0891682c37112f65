/* The tables and their look-up (see cost_tables.h); cost_kernels.c says what goes into them.
 *
 *   values   64-bit, in 2^-12 ps: up to an hour, finer than a picosecond; 2^-20 at the end
 *   outside  one mask a knot: what of it was not measured
 */
#include "sim/cost/cost_tables_internal.h"

#include <math.h>
#include <stdlib.h>

uint32_t kc_scale_index(unsigned bits, uint64_t x)
{
  KC_ASSERT(bits < 16);
  if (x < (uint64_t)2 << bits) return (uint32_t)x;
  const unsigned octave = 63u - (unsigned)__builtin_clzll(x); /* x in [2^octave, 2^(octave+1)) */
  const uint64_t step = x >> (octave - bits);                 /* in [2^bits, 2^(bits+1)) */
  KC_ASSERT(octave > bits);
  return (uint32_t)(((octave - bits) << bits) + step);
}

uint64_t kc_scale_knot(unsigned bits, uint32_t index)
{
  KC_ASSERT(bits < 16);
  if (index < (uint32_t)2 << bits) return index;
  const unsigned shift = (index >> bits) - 1;
  const uint64_t step = (index & ((1u << bits) - 1)) | 1u << bits;
  KC_ASSERT(shift < 60 - bits);
  return step << shift;
}

/* Place of x = numerator / denominator between two knots of a scale. */
struct place {
  uint32_t index;
  uint64_t past, width; /* x = knot(index) + past / width * (knot(index + 1) - knot(index)) */
};

static struct place find_place(unsigned bits, uint64_t numerator, uint64_t denominator)
{
  KC_ASSERT(denominator > 0);
  const uint64_t floor_x = numerator / denominator;
  const uint32_t index = kc_scale_index(bits, floor_x);
  const uint64_t low = kc_scale_knot(bits, index);
  const uint64_t high = kc_scale_knot(bits, index + 1);
  KC_ASSERT(low <= floor_x && floor_x < high);
  return (struct place){index, numerator - low * denominator, (high - low) * denominator};
}

/* a + (b - a) * past / width, rounded down; a and b in table units. */
static uint64_t between(uint64_t a, uint64_t b, uint64_t past, uint64_t width)
{
  if (past == 0 || a == b) return a;
  const bool up = b > a;
  const kc_u128 part = (kc_u128)(up ? b - a : a - b) * past / width;
  KC_ASSERT(part <= (up ? b - a : a - b));
  return up ? a + (uint64_t)part : a - (uint64_t)part;
}

/* A look-up beyond the last knot would be our mistake: tables are built for the run's limits. */
static uint64_t look1(const struct kc_table1 *table, uint64_t x)
{
  const struct place at = find_place(table->bits, x, 1);
  KC_ASSERT(at.index + 1 < table->knots);
  return between(table->value[at.index], table->value[at.index + 1], at.past, at.width);
}

static uint64_t outside1(const struct kc_table1 *table, uint64_t x)
{
  const uint32_t index = kc_scale_index(table->bits, x);
  const bool exact = kc_scale_knot(table->bits, index) == x;
  KC_ASSERT(index + 1 < table->knots);
  return table->outside[index] | (exact ? 0 : table->outside[index + 1]);
}

static const uint64_t *row_of(const struct kc_table2 *table, uint32_t index)
{
  KC_ASSERT(index < table->knots_a);
  return table->value + (size_t)index * table->knots_b;
}

/* First axis a whole number, second a quotient. */
static uint64_t look2(const struct kc_table2 *table, struct place a, struct place b)
{
  KC_ASSERT(a.index + 1 < table->knots_a && b.index + 1 < table->knots_b);
  const uint64_t *low = row_of(table, a.index);
  const uint64_t first = between(low[b.index], low[b.index + 1], b.past, b.width);
  if (a.past == 0) return first;
  const uint64_t *high = row_of(table, a.index + 1);
  const uint64_t second = between(high[b.index], high[b.index + 1], b.past, b.width);
  return between(first, second, a.past, a.width);
}

static uint64_t outside2(const struct kc_table2 *table, struct place a, struct place b)
{
  KC_ASSERT(a.index + 1 < table->knots_a && b.index + 1 < table->knots_b);
  uint64_t outside = 0;
  for (uint32_t i = 0; i <= (a.past > 0); i++) {
    for (uint32_t j = 0; j <= (b.past > 0); j++) {
      outside |= table->outside[(size_t)(a.index + i) * table->knots_b + b.index + j];
    }
  }
  return outside;
}

/* ---- parts of a step ---- */

static kc_u128 widen(uint64_t units)
{
  return (kc_u128)units << (KC_COST_FRACTION_BITS - KC_TABLE_FRACTION_BITS);
}

kc_u128 kc_cost_tables_dense(const struct kc_cost_tables *tables, uint64_t tokens, uint64_t logits)
{
  KC_ASSERT(tokens > 0);
  KC_ASSERT(logits <= tokens);
  return widen(look1(&tables->tokens, tokens) + look1(&tables->logits, logits));
}

static struct place mean_context(const struct kc_attention_table *group, uint64_t context,
                                 uint64_t count)
{
  KC_ASSERT(context >= count);
  return find_place(group->decode.bits, context, count);
}

static uint64_t decode_part(const struct kc_attention_table *group, const struct kc_aggregates *sum)
{
  const bool whole = group->cap < 0;
  const uint64_t context = whole ? sum->decode_context : sum->decode_capped[group->cap];
  const struct place batch = find_place(group->decode.bits, sum->decodes, 1);
  uint64_t time = look2(&group->decode, batch, mean_context(group, context, sum->decodes));
  const bool unequal = sum->decode_context_max * sum->decodes > sum->decode_context;
  if (!unequal) return time;
  uint64_t longest = sum->decode_context_max;
  if (!whole && longest > group->window) longest = group->window;
  const struct place one = find_place(group->decode.bits, 1, 1);
  const uint64_t alone = look2(&group->decode, one, mean_context(group, longest, 1));
  return alone > time ? alone : time;
}

static uint64_t prefill_part(const struct kc_attention_table *group,
                             const struct kc_aggregates *sum)
{
  const bool whole = group->cap < 0;
  const uint64_t pairs = whole ? sum->prefill_pairs : sum->prefill_capped_pairs[group->cap];
  const uint64_t tokens = sum->prefill_tokens;
  uint64_t context = sum->prefill_context;
  KC_ASSERT(sum->chunks > 0 && context >= tokens);
  const struct place n = find_place(group->prefill[0].bits, tokens, sum->chunks);
  const struct place c = find_place(group->prefill[0].bits, context, sum->chunks);
  const uint64_t alone = look2(&group->prefill[0], n, c);
  const uint64_t eight = look2(&group->prefill[1], n, c);
  const uint64_t more = eight > alone ? eight - alone : 0;
  const kc_u128 time = alone + (kc_u128)more * (sum->chunks - 1) / (KC_PREFILL_BATCH - 1);
  /* Equal chunks would have chunks * n (c - n) + n (n + 1) / 2 pairs; twice that, times chunks: */
  const kc_u128 twice = 2 * (kc_u128)tokens * (context - tokens) +
                        (kc_u128)tokens * (tokens + sum->chunks);
  const kc_u128 scaled = 2 * (kc_u128)pairs * sum->chunks;
  if (scaled <= twice) return (uint64_t)time; /* windows are in the table already */
  const uint64_t ratio = (uint64_t)((scaled << 16) / twice); /* at least 1, in 2^-16 */
  return (uint64_t)((time * ratio) >> 16);
}

/* Chunks of one step were measured as one chunk after a past. Several chunks, each after its own
 * past,
 * are the one that has as many (query, key) pairs: all their tokens after a past that makes up the
 * pairs, or fewer tokens after none when short prompts have fewer pairs than one long one. */
static void merge_chunks(const struct kc_aggregates *sum, struct kc_mixed_step *step)
{
  if (sum->chunks == 0) return;
  const double tokens = (double)sum->prefill_tokens, pairs = (double)sum->prefill_pairs;
  const double one = tokens * (tokens + 1) / 2;
  KC_ASSERT(pairs >= tokens);
  if (pairs >= one) {
    step->prefill_tokens = tokens;
    step->prefill_past = (pairs - one) / tokens;
    return;
  }
  step->prefill_tokens = sqrt(2 * pairs + 0.25) - 0.5;
  if (step->prefill_tokens < 1) step->prefill_tokens = 1;
}

/* A decode kernel splits a long sequence among thread blocks only while the batch alone does not
 * fill
 * the device (FlashAttention 2, num_splits_heuristic: below 0.8 blocks for each of two slots a
 * multiprocessor). From there on no step is faster than its longest sequence in one block, which
 * the
 * first batch measured so shows: one with a longest of WHOLE_RATIO times the mean, where that one
 * decides. Between the two batches the measured share of unequal contexts says nothing of it. */
static double longest_whole_us(const struct kc_cost_tables *tables,
                               const struct kc_mixed_step *step)
{
  const double ratio = 3.9;
  const bool between = step->decodes >= tables->whole_from &&
                       step->decodes < tables->whole_measured;
  if (step->prefill_tokens > 0 || !between) return 0;
  const struct kc_mixed_step measured = {.decodes = tables->whole_measured,
                                         .decode_context = step->decode_context_max / ratio,
                                         .decode_context_max = step->decode_context_max};
  KC_ASSERT(step->decode_context_max > 0);
  return kc_profile_mixed_time(tables->kernels, &measured).us;
}

static kc_u128 layered_part(const struct kc_cost_tables *tables, const struct kc_aggregates *sum)
{
  struct kc_mixed_step step = {
      .decodes = sum->decodes,
      .decode_context = sum->decodes > 0 ? (double)sum->decode_context / sum->decodes : 0.0,
      .decode_context_max = (double)sum->decode_context_max};
  merge_chunks(sum, &step);
  double us = kc_profile_mixed_time(tables->kernels, &step).us;
  if (tables->spread_share < 1 && sum->decodes > 0) {
    struct kc_mixed_step even = step;
    even.decode_context_max = even.decode_context;
    const double equal = kc_profile_mixed_time(tables->kernels, &even).us;
    us = equal + tables->spread_share * (us - equal);
  }
  const double whole = longest_whole_us(tables, &step);
  if (whole > us) us = whole;
  KC_ASSERT(us > 0);
  return widen(kc_table_units(us * tables->layers));
}

kc_u128 kc_cost_tables_context(const struct kc_cost_tables *tables,
                               const struct kc_aggregates *sum)
{
  kc_u128 total = 0;
  if (tables->is_layered) return layered_part(tables, sum);
  for (uint32_t g = 0; g < tables->group_count; g++) {
    const struct kc_attention_table *group = &tables->group[g];
    if (sum->decodes > 0) total += widen(decode_part(group, sum));
    if (sum->chunks > 0) total += widen(prefill_part(group, sum));
  }
  KC_ASSERT(total < (kc_u128)1 << 100);
  return total;
}

/* A part that takes less than a tenth of the dense part of its step is a minor one. */
static uint64_t weigh(uint64_t outside, uint64_t part, uint64_t dense)
{
  KC_ASSERT(outside >> KC_OUTSIDE_MINOR == 0);
  return outside != 0 && part < dense / 10 ? outside << KC_OUTSIDE_MINOR : outside;
}

static uint64_t group_outside(const struct kc_attention_table *group,
                              const struct kc_aggregates *sum, uint64_t dense)
{
  const bool whole = group->cap < 0;
  uint64_t outside = 0;
  KC_ASSERT(sum->decodes + sum->chunks > 0);
  if (sum->decodes > 0) {
    const uint64_t context = whole ? sum->decode_context : sum->decode_capped[group->cap];
    const struct place batch = find_place(group->decode.bits, sum->decodes, 1);
    outside = outside2(&group->decode, batch, mean_context(group, context, sum->decodes));
    if (outside != 0) outside = weigh(outside, decode_part(group, sum), dense);
  }
  if (sum->chunks == 0) return outside;
  const struct place n = find_place(group->prefill[0].bits, sum->prefill_tokens, sum->chunks);
  const struct place c = find_place(group->prefill[0].bits, sum->prefill_context, sum->chunks);
  const uint64_t chunks = outside2(&group->prefill[0], n, c);
  return outside | (chunks == 0 ? 0 : weigh(chunks, prefill_part(group, sum), dense));
}

uint64_t kc_cost_tables_outside(const struct kc_cost_tables *tables,
                                const struct kc_aggregates *sum)
{
  const uint64_t tokens = sum->decodes + sum->prefill_tokens;
  KC_ASSERT(tokens > 0);
  uint64_t outside = outside1(&tables->tokens, tokens) | outside1(&tables->logits, sum->logits);
  const uint64_t dense = look1(&tables->tokens, tokens);
  for (uint32_t g = 0; !tables->is_layered && g < tables->group_count; g++) {
    outside |= group_outside(&tables->group[g], sum, dense);
  }
  return outside;
}

void kc_cost_tables_free(struct kc_cost_tables *tables)
{
  if (tables == NULL) return;
  free(tables->values);
  free(tables->outsides);
  free(tables);
}
