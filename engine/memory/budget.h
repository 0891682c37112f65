/* The memory bill of one GPU, and what fails when it does not add up.
 *
 *   board ---------------------------------------------------------------------------------
 *   | driver, context, communicator |                free before weights                    |
 *                                   | weights | extra | KV pool .......... | reserve        |
 *
 * Rules:
 *   sglang   kv budget = floor(free * fraction) - weights - extra      (SGLang 0.5,
 *            mem_cache/kv_cache_configurator.py; `free` is measured after the communicator is up)
 *   vllm     kv budget = ceil(total * fraction) - weights - extra - peak activation - non-torch
 *            (vLLM 0.19, v1/worker/gpu_worker.py)
 *   fixed    the budget is given in bytes, or the pool in pages: nothing is derived, and weights
 *            are not checked against the board (kc_fit.over_board says when they would not fit)
 *
 * kvcap's own engine adds its rule when it exists.
 *
 * What a token costs: layers whose KV grows with the context are charged per token; layers that
 * keep a bounded window, or a state, are charged per request, for `concurrency` requests. A model
 * that has only bounded windows is charged per token all the same, because a pool of tokens must
 * mean something; kc_fit.windows_per_token says so.
 */
#ifndef KC_ENGINE_MEMORY_BUDGET_H
#define KC_ENGINE_MEMORY_BUDGET_H

#include "engine/memory/gpu.h"
#include "engine/model/model.h"

enum kc_memory_rule { KC_RULE_SGLANG, KC_RULE_VLLM, KC_RULE_FIXED };

enum { KC_STAGES_MAX = 64, KC_TENSOR_DEGREE_MAX = 64, KC_PAGE_SIZE_MAX = 4096,
       KC_DRAFT_LAYERS_MAX = 64 };

struct kc_memory_config {
  enum kc_memory_rule rule;
  double fraction;          /* mem_fraction_static or gpu_memory_utilization, (0, 1]; 0 = the
                               framework's default for this GPU and model */
  uint64_t kv_budget_bytes; /* > 0: sets the budget per GPU outright (rule FIXED) */
  uint64_t pages;           /* > 0: sets the pool outright (rule FIXED); not with kv_budget_bytes */
  uint64_t extra_bytes;     /* anything else the user wants set aside per GPU */
  uint32_t page_size;       /* tokens; 0 = the rule's: 16 for vllm, 64 otherwise */
  uint32_t tensor;          /* tensor-parallel degree */
  uint32_t pipeline;        /* pipeline stages */
  uint32_t draft_layers;    /* extra KV layers of a draft head, on the last stage; no weights */
  uint64_t context;         /* tokens per request to check, 0 = none */
  uint32_t concurrency;     /* requests of `context` tokens to hold, 0 = 1 when context is given */
  uint32_t max_running;     /* requests a step may hold, for vllm's activation peak; 0 = vLLM's
                               default for the board */
  uint32_t max_batched_tokens;
};

/* sglang, default fraction and page size, one GPU, no context. */
void kc_memory_config_default(struct kc_memory_config *config);

/* Tokens per page: config->page_size, or the rule's default where that is 0. */
uint32_t kc_memory_page_size(const struct kc_memory_config *config);

/* The fraction a framework takes when none is given. vllm: 0.9. sglang: what its server computes
 * from the board, the degrees and a draft head; a model with a vision tower gets 0.95 of it. */
double kc_memory_default_fraction(enum kc_memory_rule rule, const struct kc_gpu *gpu,
                                  const struct kc_model *model,
                                  const struct kc_memory_config *config);

/* Requests that vLLM lets run at once by default: 1024 from 70 GiB on (A100 excepted), else 256. */
uint32_t kc_memory_default_max_running(const struct kc_gpu *gpu);

/* What one pipeline stage holds, per GPU. */
struct kc_stage_bill {
  uint32_t layer_first, layer_count;
  uint64_t weights_bytes;
  uint64_t kv_token_bytes;     /* per token, growing layers, draft layers included */
  uint64_t kv_request_bytes;   /* per request, bounded layers (windows, linear state); 0 = none */
  uint64_t kv_budget_bytes;    /* 0 when negative; see failing */
  uint64_t pages;              /* UINT64_MAX: this stage has no growing layer and sets no limit */
};

/* Kinds of change that the search tries, nearest first (nearest_change.c). */
enum kc_change_kind {
  KC_CHANGE_KV, KC_CHANGE_WEIGHTS, KC_CHANGE_TENSOR, KC_CHANGE_GPU, KC_CHANGE_CONTEXT,
  KC_CHANGE_CONCURRENCY, KC_CHANGE_FRACTION
};

/* What to change so that it fits. The fields that its kind names are set. */
struct kc_change {
  enum kc_change_kind kind;
  struct kc_precision precision; /* KV, WEIGHTS: the whole precision to use */
  uint32_t tensor;
  uint64_t context;
  uint32_t concurrency;
  double fraction;
  char gpu[KC_GPU_NAME_BYTES];
  char option[320];    /* as given on the command line, replacing what was there: "--tensor 16" */
  char sentence[256];  /* without a full stop */
};

struct kc_fit {
  bool fits;
  enum kc_memory_rule rule;             /* as used: FIXED whenever the pool was given outright */
  uint64_t total_bytes, pre_bytes;      /* per GPU: what vllm takes the fraction of, and sglang */
  uint64_t usable_bytes;                /* after the fraction; 0 for FIXED */
  uint64_t weights_bytes;               /* deciding stage, per GPU */
  uint64_t class_bytes[KC_TENSOR_CLASSES]; /* of that, by class */
  uint64_t activation_bytes, non_torch_bytes, extra_bytes, reserve_bytes;
  double fraction;                      /* as used; 0 for FIXED */
  bool fraction_is_default;
  bool memory_confirmed;                /* the GPU file vouches for what the rule starts from */
  bool over_board;                      /* FIXED: weights and pool together exceed the board */
  uint64_t kv_budget_bytes;             /* deciding stage, per GPU */
  uint64_t kv_token_bytes;              /* per token per GPU, deciding stage */
  uint64_t kv_request_bytes;
  bool windows_per_token;               /* every layer is bounded, and tokens pay as if they grew */
  uint64_t kv_bounded_bytes;            /* kv_request_bytes times the requests to hold */
  uint64_t pages;                       /* whole pages of the pool: least over the stages */
  uint32_t page_size;                   /* tokens, as used */
  uint64_t kv_tokens;                   /* pages * page_size */
  uint64_t kv_tokens_balanced;          /* if layers divided evenly over the stages */
  uint64_t concurrency_max;             /* requests of `context` tokens that fit; 0 if no context */
  uint32_t max_running;                 /* as used by the activation peak; 0 for other rules */
  uint64_t checkpoint_bytes, parameters;
  uint32_t stage_count, stage_fullest;  /* the stage that decides: fewest pages, then most bytes */
  struct kc_stage_bill stage[KC_STAGES_MAX];
  /* Filled when !fits: */
  char phase[16];                       /* "load": weights; "graphs": then activations; "admission":
                                           then one request; "growth": then all of them */
  uint64_t need_bytes, have_bytes;      /* need > have */
  char inequality[256];                 /* the failing inequality, in bytes */
  bool has_change;
  struct kc_change change;              /* the nearest single change that fits */
};

/* Computes the bill. Returns KC_OK also when it does not fit (look at fit->fits); KC_ERR_INPUT for
 * a configuration that has no meaning (tensor degree that does not divide the heads, ...). Never
 * searches: has_change is false. O(tensors + layers). */
enum kc_err kc_fit_compute(struct kc_fit *fit, const struct kc_model *model,
                           const struct kc_precision *precision, const struct kc_gpu *gpu,
                           const struct kc_memory_config *config, struct kc_diag *diag);

/* Bytes per GPU that a request of `tokens` keeps in bounded layers, on the stage that decides:
 * whole pages of each window, as far as the request fills it, and states of linear layers. At most
 * fit->kv_request_bytes when that was computed without a context. O(groups x layers). */
uint64_t kc_fit_bounded_bytes(const struct kc_fit *fit, const struct kc_model *model,
                              const struct kc_precision *precision,
                              const struct kc_memory_config *config, uint64_t tokens);

/* Fills fit->change for a fit that failed, or leaves has_change false when no single change fits.
 * `gpus`: other kinds to try, nearest first; the one in use may be among them. */
enum kc_err kc_fit_nearest_change(struct kc_fit *fit, const struct kc_model *model,
                                  const struct kc_precision *precision, const struct kc_gpu *gpu,
                                  const struct kc_memory_config *config,
                                  const struct kc_gpu *gpus, uint32_t gpu_count);

#endif
