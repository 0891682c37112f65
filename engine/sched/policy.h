/* Batching policies, by name and version, one file each: vllm-0.19 and sglang-0.5. A policy decides
 * who runs; the batch (batch.h) keeps the books. */
#ifndef KC_ENGINE_SCHED_POLICY_H
#define KC_ENGINE_SCHED_POLICY_H

#include "engine/kv/prefix_cache.h"
#include "engine/sched/step.h"

struct kc_batch;

enum kc_role {
  KC_ROLE_SERVE,  /* prefill and decode on the same instance */
  KC_ROLE_DECODE  /* prompts arrive with their KV in place */
};

/* Who is next among those who wait. */
enum kc_queue_order {
  KC_ORDER_FCFS = 0,     /* by arrival; preempted requests: vllm before all, sglang behind all */
  KC_ORDER_PRIORITY = 1, /* vllm: by (priority, arrival), lower values first */
  KC_ORDER_LPM = 2       /* sglang: longest match in the cache first, ties as FCFS; FCFS while more
                            than 128 wait */
};
const char *kc_queue_order_name(enum kc_queue_order order); /* "fcfs", "priority", "lpm": pinned */

struct kc_sched_config {
  enum kc_role role;
  uint32_t page_size;          /* tokens per page, [1, 4096] */
  uint32_t max_running;        /* max_num_seqs, max_running_requests: [1, 65536] */
  uint64_t max_model_len;      /* tokens of prompt + output, >= 2 */
  bool overlap;                /* a step is formed while the one before it runs: vLLM's async
                                  scheduling, SGLang's overlap schedule */
  bool prefix_cache;           /* the policy's own kind; every request must have contents. Not in
                                  role DECODE */
  uint32_t key_count;          /* with prefix_cache: keys of all contents are below it */
  enum kc_queue_order order;
  bool chunked_prefill;        /* off: a prompt is computed in one step or waits */
  uint32_t cap_count;          /* windows W of the model, for the aggregates */
  uint64_t cap[KC_CAPS_MAX];
  /* vllm */
  uint32_t max_batched_tokens; /* max_num_batched_tokens, >= max_running */
  bool reserve_full_prompt;    /* scheduler_reserve_full_isl: admit only if all known tokens fit */
  uint32_t long_prefill_token_threshold; /* most tokens of one prompt in one step; 0 = no limit */
  /* sglang */
  uint32_t chunked_prefill_size; /* tokens of a prefill step, with chunked_prefill; a multiple of
                                    page_size */
  uint32_t max_prefill_tokens; /* tokens of a prefill step after which nobody more is admitted */
  bool mixed_chunk;            /* decodes join the prefill steps (only with chunked_prefill) */
  double schedule_conservativeness; /* > 0; 1 is the server's default */
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
  KC_REASON_QUEUE_FULL = 6,         /* on arrival, as many waited as may wait */
  KC_REASON_CANCELLED = 7,          /* the client went away */
  KC_REASON_TIMED_OUT = 8,          /* it took longer than the client or the server allows */
  KC_REASON_POOL_TOO_SMALL = 9,     /* sglang: prompt >= tokens of the pool - 6 */
  KC_REASONS
};
const char *kc_reason_name(enum kc_reason reason);

/* The server that a policy is of: whose part of kc_sched_config it reads. */
enum kc_server { KC_SERVER_VLLM, KC_SERVER_SGLANG };

struct kc_policy {
  const char *name; /* "vllm-0.19" */
  enum kc_server server;
  enum kc_cache_kind cache_kind; /* with prefix_cache */
  bool requeue_first;   /* a preempted request goes to the head of the queue, else to its tail */
  uint32_t clip_tokens; /* > 0: the batch keeps the sum of min(tokens that a decode may still make,
                           clip_tokens) */
  bool length_ghosts;   /* overlap: requests that reach their limit cost a slot like any other end;
                           false: the policy knows that they will, and leaves them out */
  /* Fills everything but role, key_count, max_model_len and the windows; what depends on the GPU
   * from its memory in bytes and whether it is an A100 class. The server's own defaults, except:
   * page_size (sglang: 64), and prefix_cache, which is false, because contents are the caller's to
   * know; the servers' default is on. overlap is true, as in both servers. */
  void (*defaults)(struct kc_sched_config *config, uint64_t gpu_memory_bytes, bool is_a100);
  /* The server's own max_running for a pool of `pool_tokens`; 0: defaults() has it already. Whoever
   * was given no max_running calls it when the pool is known. */
  uint32_t (*request_limit)(const struct kc_sched_config *config, uint64_t pool_tokens);
  /* Every problem of the configuration. */
  enum kc_err (*validate)(const struct kc_sched_config *config, struct kc_diag *diag);
  /* Why the server would not take this request into its queue at all; KC_REASON_NONE: it does. */
  enum kc_reason (*refuse)(const struct kc_sched_config *config, uint32_t pages,
                           const struct kc_request *request);
  /* Forms the next step. The batch knows who waits (as far as the server can know), runs and holds
   * what. With batch->all_seen it may leave an empty step (nothing scheduled) only when it
   * preempted or refused somebody. Sets step.decoding. */
  void (*form_step)(struct kc_batch *batch);
};

/* The limits that every policy has; for their validate(). */
enum kc_err kc_policy_check_common(const struct kc_sched_config *config, struct kc_diag *diag);

/* NULL when there is no such policy. */
const struct kc_policy *kc_policy_find(const char *name);
/* "vllm-0.19, sglang-0.5" */
const char *kc_policy_names(void);

#endif
