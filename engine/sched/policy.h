/* Batching policies, by name and version. One file each: vllm-0.19 now, sglang-0.5 when prefix
 * caching lands. A policy decides who runs; the batch (batch.h) keeps the books. */
#ifndef KC_ENGINE_SCHED_POLICY_H
#define KC_ENGINE_SCHED_POLICY_H

#include "engine/sched/step.h"

struct kc_batch;

enum kc_role {
  KC_ROLE_SERVE,  /* prefill and decode on the same instance */
  KC_ROLE_DECODE  /* prompts arrive with their KV in place */
};

struct kc_sched_config {
  enum kc_role role;
  uint32_t page_size;          /* tokens per page, [1, 4096] */
  uint32_t max_running;        /* max_num_seqs, [1, 65536] */
  uint32_t max_batched_tokens; /* max_num_batched_tokens, >= max_running */
  uint64_t max_model_len;      /* tokens of prompt + output, >= 2 */
  bool chunked_prefill;        /* off: a prompt is computed in one step or waits */
  bool reserve_full_prompt;    /* scheduler_reserve_full_isl: admit only if all known tokens fit */
  uint32_t cap_count;          /* windows W of the model, for the aggregates */
  uint64_t cap[KC_CAPS_MAX];
};

/* Why a request ended other than completed. Names are stored and printed: pinned. */
enum kc_reason {
  KC_REASON_NONE = 0,
  KC_REASON_PROMPT_TOO_LONG = 1,    /* prompt >= max_model_len */
  KC_REASON_NEVER_FITS = 2,         /* its known tokens need more pages than the pool has; the real
                                       server would block its queue behind it for ever */
  KC_REASON_PROMPT_OVER_BUDGET = 3, /* chunking off and prompt > max_batched_tokens */
  KC_REASON_OUTGREW_POOL = 4,       /* alone on the instance, it needs more pages than exist */
  KC_REASON_INTEGRITY = 5,          /* its block table named a page that was not its own any more */
  KC_REASONS
};
const char *kc_reason_name(enum kc_reason reason);

struct kc_policy {
  const char *name; /* "vllm-0.19" */
  /* Fills defaults that depend on the GPU: memory in bytes and whether it is an A100 class. */
  void (*defaults)(struct kc_sched_config *config, uint64_t gpu_memory_bytes, bool is_a100);
  /* Every problem of the configuration. */
  enum kc_err (*validate)(const struct kc_sched_config *config, struct kc_diag *diag);
  /* Forms the next step. The batch knows who waits, runs and holds what. May leave an empty step
   * (nothing scheduled) only when it preempted or refused somebody. */
  void (*form_step)(struct kc_batch *batch);
};

/* NULL when there is no such policy. */
const struct kc_policy *kc_policy_find(const char *name);
/* "vllm-0.19, ..." */
const char *kc_policy_names(void);

#endif
