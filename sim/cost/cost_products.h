/* How tensors become the matrix products that a server launches; shared by the two ways of pricing
 * them (cost_build.c: plain efficiencies, cost_kernels.c: measured kernels). */
#ifndef KC_SIM_COST_COST_PRODUCTS_H
#define KC_SIM_COST_COST_PRODUCTS_H

#include "sim/cost/cost.h"

/* Takes part in the pass of every token, as a matrix product of the language model. */
bool kc_cost_is_product(const struct kc_tensor *t);

/* Output projections (o_proj, down_proj): they start from another input than what precedes them,
 * and tensor parallelism cuts their inputs, not their outputs. */
bool kc_cost_stands_alone(const struct kc_tensor *t);

/* Adjacent tensors of one input that are launched as one product (q+k+v, gate+up). */
bool kc_cost_fuses(const struct kc_tensor *a, const struct kc_tensor *b, enum kc_weight_format fa,
                   enum kc_weight_format fb);

/* Share of a tensor that one rank holds. */
double kc_cost_rank_share(const struct kc_cost_config *config, const struct kc_tensor *t);

/* Formats that hold weights in fewer bits than any unit computes with. */
bool kc_cost_is_weight_only(enum kc_weight_format format);

/* First tensor outside the MTP layers whose name holds `part`, or NULL. */
const struct kc_tensor *kc_cost_find_tensor(const struct kc_model *model, const char *part);

#endif
