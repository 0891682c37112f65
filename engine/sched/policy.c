/* The table of batching policies, and the names of what they decide. */
#include "engine/sched/policy.h"

#include <string.h>

#include "engine/base/check.h"
#include "engine/sched/sglang_0_5.h"
#include "engine/sched/vllm_0_19.h"

static const struct kc_policy *const policies[] = {&kc_policy_vllm_0_19, &kc_policy_sglang_0_5};

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
  return "vllm-0.19, sglang-0.5";
}

const char *kc_queue_order_name(enum kc_queue_order order)
{
  static const char *const names[] = {
      [KC_ORDER_FCFS] = "fcfs", [KC_ORDER_PRIORITY] = "priority", [KC_ORDER_LPM] = "lpm"};
  KC_ASSERT((unsigned)order < sizeof names / sizeof names[0]);
  KC_ASSERT(names[order] != NULL);
  return names[order];
}

const char *kc_reason_name(enum kc_reason reason)
{
  static const char *const names[KC_REASONS] = {
      [KC_REASON_NONE] = "none",
      [KC_REASON_PROMPT_TOO_LONG] = "prompt_too_long",
      [KC_REASON_NEVER_FITS] = "never_fits",
      [KC_REASON_PROMPT_OVER_BUDGET] = "prompt_over_budget",
      [KC_REASON_OUTGREW_POOL] = "outgrew_pool",
      [KC_REASON_INTEGRITY] = "integrity",
      [KC_REASON_QUEUE_FULL] = "queue_full",
      [KC_REASON_CANCELLED] = "cancelled",
      [KC_REASON_TIMED_OUT] = "timed_out",
      [KC_REASON_POOL_TOO_SMALL] = "pool_too_small"};
  KC_ASSERT((unsigned)reason < KC_REASONS);
  KC_ASSERT(names[reason] != NULL);
  return names[reason];
}

enum kc_err kc_policy_check_common(const struct kc_sched_config *config, struct kc_diag *diag)
{
  KC_ASSERT(config != NULL);
  KC_ASSERT(diag != NULL);
  if (config->page_size < 1 || config->page_size > 4096) {
    return kc_fail(diag, KC_ERR_INPUT, "page_size is %u; pages of 1 to 4096 tokens are supported",
                   config->page_size);
  }
  if (config->max_running < 1 || config->max_running > 65536) {
    return kc_fail(diag, KC_ERR_INPUT, "max_running is %u; it must lie between 1 and 65536",
                   config->max_running);
  }
  if (config->max_model_len < 2 || config->max_model_len > INT32_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "max_model_len is %llu; it must lie between 2 and %d",
                   (unsigned long long)config->max_model_len, INT32_MAX);
  }
  if (config->prefix_cache && config->role == KC_ROLE_DECODE) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "prefix_cache is on in a decode pool, whose prompts come with their KV: switch "
                   "it off");
  }
  return KC_OK;
}
