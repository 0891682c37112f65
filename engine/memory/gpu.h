/* A GPU as scenarios/gpus/NAME.yaml describes it. Every figure in the file carries its source; the
 * loader keeps the values and the path. Unit suffixes are in the names. */
#ifndef KC_ENGINE_MEMORY_GPU_H
#define KC_ENGINE_MEMORY_GPU_H

#include "engine/base/diag.h"
#include "kernels/formats/format.h"

enum {
  KC_GPU_NAME_BYTES = 32,
  KC_GPU_PRICES_MAX = 8,
  KC_GPU_PROFILES_MAX = 16,
  KC_PROFILE_NAME_BYTES = 64,
  KC_LEFT_OUT_MAX = 8
};

struct kc_gpu_price {
  double usd_per_hour;
  char date[16];      /* YYYY-MM or YYYY-MM-DD */
  char source[96];
};

/* The fit of a profile with one row of its measurement kept out. */
struct kc_left_out {
  char row[24];       /* "concurrency 8" */
  double bandwidth_efficiency, kv_efficiency, flops_efficiency, expand_efficiency, host_step_us;
};

/* How well software uses the hardware. One entry per named profile. */
struct kc_gpu_profile {
  char name[KC_PROFILE_NAME_BYTES];
  double bandwidth_efficiency; /* of memory_bandwidth, for weights and activations, (0, 1] */
  double kv_efficiency;        /* the same for reading keys and values */
  double flops_efficiency;     /* of the dense rate, (0, 1] */
  double expand_efficiency;    /* of memory_bandwidth, when weight-only formats are expanded to BF16
                                  before a prefill product; 0 = products expand as they go */
  double op_latency_us;        /* added to every operation */
  double host_step_us;         /* added to every step */
  double host_sequence_us;     /* added for each sequence of a step */
  double prompt_step_us;       /* added to every step that computes prompt tokens */
  double kernel_scale;         /* time of all kernels, as a multiple of what they were measured at
                                  one by one; 0 = as measured */
  double spread_share;         /* layered kernels: of what unequal contexts cost a step as measured,
                                  the part that is paid; 0 = all of it */
  double eager_step_us;        /* least time of the kernels of a step that is no CUDA graph */
  double graph_batch_max;      /* decode steps up to so many sequences are CUDA graphs */
  double link_efficiency;      /* collectives: of the link's bandwidth; 0 = as the kernels say */
  double link_latency_us;      /* with it: of one collective */
  bool host_measured;          /* false: the host term is unconfirmed */
  bool calibrated;             /* fitted to a serving measurement by `kvcap calibrate serving` */
  /* Where the fit was made; 0 = not said. Outside, a prediction is extrapolated. */
  double batch_min, batch_max;         /* tokens of a step */
  double sequences_min, sequences_max; /* requests of a step */
  double context_min, context_max;     /* mean over the decodes of a step */
  char fitted_model[64], fitted_kv[40]; /* of what: "kimi-k2.6", "bf16"; "" = not said */
  char fitted_weights[160];    /* kc_precision_weights_text of the measurement; "" = not said */
  char fitted_gpu[KC_GPU_NAME_BYTES]; /* on what; "" = not said */
  uint32_t fitted_tensor;      /* at which tensor degree; 0 = not said */
  uint32_t rows;               /* of the measurement, that the fit saw */
  double residual_percent;     /* largest over them, of the rate */
  uint32_t left_out_count;
  struct kc_left_out left_out[KC_LEFT_OUT_MAX];
  char source[160];
  char kernels[128];           /* profile of measured kernels (sim/cost/profile.h), relative to the
                                  GPU file's folder; a folder of layered ones; "" = none */
};

struct kc_gpu {
  char name[KC_GPU_NAME_BYTES];
  char title[64];
  char path[KC_DIAG_PATH_BYTES];
  char sha256[65];
  uint64_t memory_bytes;          /* as nvidia-smi reports it */
  uint64_t total_vllm_bytes;      /* what the CUDA runtime reports as total (vllm's rule) */
  uint64_t free_sglang_bytes;     /* free after driver, context and communicator, tensor = 1 */
  uint64_t free_sglang_tp_bytes;  /* the same with a communicator of 2 or more ranks */
  bool total_confirmed;           /* false: total_vllm_bytes was not read on this very board */
  bool free_confirmed;            /* false: derived from another board's overhead */
  bool free_tp_confirmed;
  uint64_t non_torch_bytes;       /* vllm: memory outside the allocator, tensor = 1 */
  uint64_t non_torch_tp_bytes;    /* the same with a communicator of 2 or more ranks */
  double memory_bandwidth;        /* bytes/s */
  double flops[KC_MATH_KINDS];    /* dense operations/s; 0 = not supported natively */
  double link_bandwidth;          /* bytes/s one way per GPU inside a node; 0 = PCIe only */
  double pcie_bandwidth;          /* bytes/s one way */
  double node_bandwidth;          /* bytes/s one way per GPU between nodes */
  double link_latency_us;         /* of one collective, any size */
  uint32_t gpus_per_node;
  double power_w;                 /* board power limit */
  double idle_w;                  /* drawn with a model in memory and nothing to do; <= power_w */
  double sm_count;                /* multiprocessors (compute units) */
  uint32_t price_count;
  struct kc_gpu_price price[KC_GPU_PRICES_MAX]; /* the first is the default */
  uint32_t profile_count;
  struct kc_gpu_profile profile[KC_GPU_PROFILES_MAX];
};

/* Reads and checks a file. Errors: KC_ERR_FILE; KC_ERR_INPUT with line and column of the first
 * thing wrong (an unknown key, a figure without its source, a value out of range, memory that
 * shrinks the wrong way). A file without prices is fine: cost is then unknown. */
enum kc_err kc_gpu_load(struct kc_gpu *gpu, const char *path, struct kc_diag *diag);

/* Profile by name, or NULL. "NAME without ROW" ("x without concurrency 8") is not an entry of its
 * own but the fit of NAME with that row left out: see kc_gpu_profile_variant. */
const struct kc_gpu_profile *kc_gpu_profile_find(const struct kc_gpu *gpu, const char *name);

/* Fills *out with a profile by name, or with "NAME without ROW" for a row that was left out once.
 * False when there is no such thing. */
bool kc_gpu_profile_variant(const struct kc_gpu *gpu, const char *name,
                            struct kc_gpu_profile *out);

#endif
