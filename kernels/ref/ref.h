/* The reference operations: plain C, double accumulation in index order, the same bits everywhere.
 *
 * They are the oracle of the kernels and what the CPU executor runs. Every operation works on rows
 * (or heads, or slots) that do not see each other, so a caller may cut one into parts for threads:
 * the result does not depend on the cut. The exceptions write shared integrity counters: kv_write
 * and tag_check run on one thread.
 */
#ifndef KC_KERNELS_REF_REF_H
#define KC_KERNELS_REF_REF_H

#include "kernels/ops/ops.h"

const struct kc_ops *kc_ref_ops(void); /* context is NULL */

#endif
