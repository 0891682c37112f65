/* The table of batching policies, and the names of what they decide. */
#include "engine/sched/policy.h"

#include <string.h>

#include "engine/base/check.h"
#include "engine/sched/vllm_0_19.h"

static const struct kc_policy *const policies[] = {&kc_policy_vllm_0_19};

const struct kc_policy *kc_policy_find(const char *name)
{
  KC_ASSERT(name != NULL);
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
    KC_ASSERT(policies[i]->form_step != NULL);
    if (strcmp(policies[i]->name, name) == 0) return policies[i];
  }
  return NULL;
}

const char *kc_policy_names(void)
{
  return "vllm-0.19";
}

const char *kc_reason_name(enum kc_reason reason)
{
  static const char *const names[KC_REASONS] = {
      [KC_REASON_NONE] = "none",
      [KC_REASON_PROMPT_TOO_LONG] = "prompt_too_long",
      [KC_REASON_NEVER_FITS] = "never_fits",
      [KC_REASON_PROMPT_OVER_BUDGET] = "prompt_over_budget",
      [KC_REASON_OUTGREW_POOL] = "outgrew_pool",
      [KC_REASON_INTEGRITY] = "integrity"};
  KC_ASSERT((unsigned)reason < KC_REASONS);
  KC_ASSERT(names[reason] != NULL);
  return names[reason];
}
