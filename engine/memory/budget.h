/* The memory bill of one GPU, and what fails when it does not add up.
 *
 *   total ----------------------------------------------------------------------------------
 *   | driver, context, communicator |  `pre`: free before weights                          |
 *                                    | weights | extra | KV pool ............ | reserve    |
 *
 * Rules (facts/serving.md 2.1, facts/schedulers.md "KV"):
 *   sglang        kv_budget = pre * fraction - weights - extra;  reserve = pre * (1 - fraction)
 *   vllm          kv_budget = ceil(total * fraction) - weights - peak activation - non-torch
 *   fixed         kv_budget given in bytes, or the pool in pages: nothing is derived
 *
 * kvcap's own engine adds its rule when it exists.
 */
#ifndef KC_ENGINE_MEMORY_BUDGET_H
#define KC_ENGINE_MEMORY_BUDGET_H

#include "engine/memory/gpu.h"
#include "engine/model/model.h"

enum kc_memory_rule { KC_RULE_SGLANG, KC_RULE_VLLM, KC_RULE_FIXED };

struct kc_memory_config {
  enum kc_memory_rule rule;
  double fraction;          /* mem_fraction_static or gpu_memory_utilization, (0, 1]; 0 = the
                               framework's default for this GPU and model */
  uint64_t kv_budget_bytes; /* > 0: sets the budget per GPU outright (rule FIXED) */
  uint64_t pages;           /* > 0: sets the pool outright */
  uint64_t extra_bytes;     /* anything else the user wants set aside per GPU */
  uint32_t page_size;       /* tokens */
  uint32_t tensor;          /* tensor-parallel degree */
  uint32_t pipeline;        /* pipeline stages */
  uint32_t draft_layers;    /* extra KV layers of a draft head; no weights */
  uint64_t context;         /* tokens per request to check, 0 = none */
  uint32_t concurrency;     /* requests of `context` tokens to hold, 0 = 1 */
  uint32_t max_running;     /* for vllm's activation peak */
  uint32_t max_batched_tokens;
};

void kc_memory_config_default(struct kc_memory_config *config);

/* What one pipeline stage holds, per GPU. */
struct kc_stage_bill {
  uint32_t layer_first, layer_count;
  uint64_t weights_bytes;
  uint64_t kv_token_bytes;     /* per token, unbounded layers, draft layers included */
  uint64_t kv_request_bytes;   /* per request, bounded layers (windows, linear state); 0 = none */
  uint64_t kv_budget_bytes;    /* 0 when negative; see failing */
  uint64_t pages;
};

/* What to change so that it fits. */
struct kc_change {
  char option[64];   /* as given on the command line: "--tensor 16" */
  char sentence[160];
};

struct kc_fit {
  bool fits;
  uint64_t total_bytes, pre_bytes;      /* per GPU */
  uint64_t weights_bytes;               /* fullest stage, per GPU */
  uint64_t class_bytes[KC_TENSOR_CLASSES]; /* of that, by class */
  uint64_t activation_bytes, non_torch_bytes, extra_bytes, reserve_bytes;
  double fraction;                      /* as used */
  uint64_t kv_budget_bytes;             /* fullest stage, per GPU */
  uint64_t kv_token_bytes;              /* per token per GPU, fullest stage */
  uint64_t kv_request_bytes;
  uint64_t pages;                       /* whole pages of the pool: least over the stages */
  uint64_t kv_tokens;                   /* pages * page_size */
  uint64_t kv_tokens_balanced;          /* if layers divided evenly over the stages */
  uint64_t concurrency_max;             /* requests of `context` tokens that fit; 0 if no context */
  uint64_t checkpoint_bytes, parameters;
  uint32_t stage_count, stage_fullest;
  struct kc_stage_bill stage[64];
  /* Filled when !fits: */
  char phase[16];                       /* "load", "graphs", "admission" or "growth" */
  uint64_t need_bytes, have_bytes;
  char inequality[256];                 /* the failing inequality, in bytes */
  bool has_change;
  struct kc_change change;              /* the nearest single change that fits */
};

/* Computes the bill. Returns KC_OK also when it does not fit (look at fit->fits); KC_ERR_INPUT for
 * a configuration that has no meaning (tensor degree that does not divide the heads, ...).
 * `search_change`: also look for the nearest single change, over KV format, weight format, the
 * next valid tensor degree, the other GPUs in `gpus`, context and fraction. */
enum kc_err kc_fit_compute(struct kc_fit *fit, const struct kc_model *model,
                           const struct kc_precision *precision, const struct kc_gpu *gpu,
                           const struct kc_memory_config *config, struct kc_diag *diag);

/* Fills fit->change for a fit that failed. `gpus`: other kinds to try, cheapest change first. */
enum kc_err kc_fit_nearest_change(struct kc_fit *fit, const struct kc_model *model,
                                  const struct kc_precision *precision, const struct kc_gpu *gpu,
                                  const struct kc_memory_config *config,
                                  const struct kc_gpu *gpus, uint32_t gpu_count);

#endif
