/* Step time from measured kernels, tabulated when a run is prepared.
 *
 * A step's time is a sum of parts that each depend on one or two integers:
 *
 *   tokens(m)        products, experts, all-reduce, small kernels     m = tokens of the step
 *   logits(n)        lm_head, sampler                                 n = sequences with a token
 *   decode(B, C)     attention of B decodes of mean context C, one table a KV group
 *   prefill(n, c)    attention of a chunk of n tokens that sees c, alone and as one of eight
 *
 * The profile is asked once a knot; a step interpolates in integers, so it costs a few hundred
 * instructions whatever the batch holds, and gives the same picosecond everywhere. Knots are all
 * the small integers and then a fixed number an octave, so that finding one is a shift.
 *
 * Decodes of unequal length run in one launch, which takes as long as its longest sequence alone at
 * least: decode = max(T(B, mean), T(1, longest)). Chunks of unequal length are taken as equal ones,
 * scaled by their true number of (query, key) pairs. A mixed step is the sum of both sides.
 *
 * A layered profile (whole layers of one model) is tabulated by tokens in the same way; its
 * attention of a mixed step is asked at every step.
 */
#ifndef KC_SIM_COST_COST_TABLES_H
#define KC_SIM_COST_COST_TABLES_H

#include "sim/cost/cost.h"

struct kc_cost_tables;

/* Builds from config->kernels (which must outlive the tables). KC_ERR_INPUT when a layered profile
 * was measured on another model or degree; KC_ERR_MEMORY. */
enum kc_err kc_cost_tables_build(struct kc_cost_tables **out, const struct kc_cost_config *config,
                                 struct kc_diag *diag);
void kc_cost_tables_free(struct kc_cost_tables *tables); /* NULL is fine */

/* Parts of a step in 2^-20 ps. */
kc_u128 kc_cost_tables_dense(const struct kc_cost_tables *tables, uint64_t tokens, uint64_t logits);
kc_u128 kc_cost_tables_context(const struct kc_cost_tables *tables,
                               const struct kc_aggregates *sum);

/* What the step rests on that was not measured, or lies outside what was: bit f for family f, bit
 * KC_OUTSIDE_LAYERS for a layered profile. Bits from KC_OUTSIDE_MINOR on are of parts that take
 * less than a tenth of the dense part of the step: they are named, but do not make it
 * extrapolated. */
enum { KC_OUTSIDE_LAYERS = 31, KC_OUTSIDE_MINOR = 32 };
uint64_t kc_cost_tables_outside(const struct kc_cost_tables *tables,
                                const struct kc_aggregates *sum);

/* ---- scales (for tests) ---- */

/* Knots of a scale with `bits` steps an octave, as a power of two: 0, 1, ..., 2^(bits+1) - 1, then
 * 2^bits an octave. kc_scale_knot(kc_scale_index(x)) <= x < the next knot. */
uint32_t kc_scale_index(unsigned bits, uint64_t x);
uint64_t kc_scale_knot(unsigned bits, uint32_t index);

#endif
