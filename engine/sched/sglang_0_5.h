/* The scheduler of SGLang 0.5. See sglang_0_5.c. */
#ifndef KC_ENGINE_SCHED_SGLANG_0_5_H
#define KC_ENGINE_SCHED_SGLANG_0_5_H

#include "engine/sched/policy.h"

extern const struct kc_policy kc_policy_sglang_0_5;

#endif
