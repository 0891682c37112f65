/* What the files of the batch need of each other. Internal to engine/sched. */
#ifndef KC_ENGINE_SCHED_BATCH_PARTS_H
#define KC_ENGINE_SCHED_BATCH_PARTS_H

#include "engine/sched/batch.h"

/* ---- batch_sums.c ---- */

/* A DECODE slot leaves every sum, heap and bucket. */
void kc_batch_decodes_remove(struct kc_batch *batch, uint32_t slot);
/* Makes `slot` decode from the coming tick on, with `computed` tokens of KV and `outputs` tokens
 * produced before it. */
void kc_batch_start_decoding(struct kc_batch *batch, uint32_t slot, uint32_t computed,
                             uint32_t outputs);

/* ---- batch_end.c ---- */

/* A ghost that would have decoded does not: it only holds what it has. */
void kc_batch_ghost_stops(struct kc_batch *batch, uint32_t slot);

#endif
