/* A plan's side of the database (private to sim/plan): it is kept like a sweep of that name, whose
 * points are the candidates that were evaluated. What the database knows is not run again.
 *
 *   number of a point: column * numbers of replicas + index of its number; the evaluations for the
 *   answer's details follow behind the last candidate
 */
#ifndef KC_SIM_PLAN_PLAN_STORE_H
#define KC_SIM_PLAN_PLAN_STORE_H

#include "sim/plan/plan.h"

enum { KC_PLAN_DETAILS_MAX = 64 };

/* Makes the plan's row and reads what is known. Nothing to do without request.store. Errors of the
 * store; KC_ERR_FILE, KC_ERR_MEMORY. */
enum kc_err kc_plan_store_open(struct kc_plan *plan, struct kc_diag *diag);

/* The number of a candidate. */
uint64_t kc_plan_store_number(const struct kc_plan *plan, const struct kc_search_probe *probe);

/* Fills the results that are known and writes the others, in one transaction: runs [first, first +
 * count) of the plan, with their numbers and changes. */
enum kc_err kc_plan_store_batch(struct kc_plan *plan, uint32_t first, uint32_t count,
                                const uint64_t *number, const struct kc_plan_sets *sets,
                                struct kc_diag *diag);

#endif
