/* The scheduler of vLLM 0.19 (V1). See vllm_0_19.c. */
#ifndef KC_ENGINE_SCHED_VLLM_0_19_H
#define KC_ENGINE_SCHED_VLLM_0_19_H

#include "engine/sched/policy.h"

extern const struct kc_policy kc_policy_vllm_0_19;

#endif
