/* What the files of the instance need of each other. Internal to engine/instance. */
#ifndef KC_ENGINE_INSTANCE_INSTANCE_PARTS_H
#define KC_ENGINE_INSTANCE_INSTANCE_PARTS_H

#include "engine/instance/instance.h"

/* ---- demand.c: offered KV against the pool ---- */

/* The request is offered from now on, or no longer: pages that it shares with others. */
void kc_demand_offer(struct kc_instance *instance, uint32_t request);
void kc_demand_withdraw(struct kc_instance *instance, uint32_t request);
/* Compares the demand with the pool after `request` has arrived. */
void kc_demand_note_arrival(struct kc_instance *instance, uint32_t request);
/* The same for what decodes have grown by the step about to be formed. */
void kc_demand_note_growth(struct kc_instance *instance);

/* ---- inject.c ---- */

size_t kc_inject_need(const struct kc_inject_config *config);
enum kc_err kc_inject_init(struct kc_instance *instance, struct kc_arena *arena);
/* Maybe damages something, before a step is formed. */
void kc_inject_before_step(struct kc_instance *instance);
/* The check has aborted the request in `slot`: was it right to? Before the slot is released. */
void kc_inject_note_abort(struct kc_instance *instance, uint32_t slot);
/* The step was formed and will run: who reads what is not its own is contaminated. */
void kc_inject_before_run(struct kc_instance *instance);
/* The rows have been checked: puts the books of shared pages right. */
void kc_inject_mend(struct kc_instance *instance);
/* The run is over, and every row was released. */
void kc_inject_finish(struct kc_instance *instance);

#endif
