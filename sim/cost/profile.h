/* How long one operation takes on one GPU under one framework: measured kernels as a compact fit.
 *
 *   scenarios/gpus/profiles/h200/h200-sglang-0.5.14.yaml --kc_profile_load--> struct kc_profile
 *   shape of one operation --kc_profile_time--> microseconds, and how far they can be trusted
 *
 * A profile is written by `kvcap calibrate kernels`. There are two kinds:
 *
 *   families   one entry per op family (GEMM by dtype, attention by KV format, ...). Its time is
 *
 *                  physics(shape, device) * 2^(sum of correction tables)
 *
 *              physics: latency + max(bytes / (eff * bandwidth), flops / (eff * peak)), where both
 *              efficiencies saturate with size and work comes in whole tiles and waves. The tables
 *              are interpolated multilinearly in log2 of a few features of the shape.
 *   layered    whole layers of one model at one tensor degree, measured in place: tables of
 *              microseconds by tokens, and of one mixed attention call by its four sizes.
 *
 * A family that a profile lacks, and every family of a datasheet profile (kc_profile_datasheet), is
 * physics alone with the stated default efficiencies; the answer says so. Every answer is total:
 * beyond the fitted range the tables hold their border value, physics goes on, and the answer is
 * marked extrapolated.
 *
 * Evaluation uses + - * / and sqrt in a fixed order and no libm: the same bits on every compiler.
 * A loaded profile is read-only and may be shared by threads.
 */
#ifndef KC_SIM_COST_PROFILE_H
#define KC_SIM_COST_PROFILE_H

#include "engine/memory/gpu.h"

/* What an operation is. The comment names the fields of struct kc_shape that it reads; "KV" formats
 * are those of the cache. Names in files: kc_family_name ("gemm-bf16", "gqa-decode-fp8", ...). */
enum kc_family {
  KC_FAMILY_GEMM_BF16,        /* m n k: [m,k] x [k,n] */
  KC_FAMILY_GEMM_FP8,         /* per-tensor or per-channel scales */
  KC_FAMILY_GEMM_FP8_BLOCK,   /* 128x128 block scales; activations quantised inside */
  KC_FAMILY_GQA_DECODE_BF16,  /* batch context heads kv_heads head_dim window */
  KC_FAMILY_GQA_DECODE_FP8,
  KC_FAMILY_GQA_PREFILL_BF16, /* batch tokens context heads kv_heads head_dim window */
  KC_FAMILY_GQA_PREFILL_FP8,  /* FP8 cache and FP8 arithmetic (FlashAttention 3 in SGLang) */
  KC_FAMILY_GQA_PREFILL_KV8,  /* FP8 cache, BF16 arithmetic (vLLM): use whichever is present */
  KC_FAMILY_MLA_DECODE_BF16,  /* batch context heads; latent 512 + rotary 64 */
  KC_FAMILY_MLA_DECODE_FP8,
  KC_FAMILY_MLA_PREFILL_BF16, /* batch tokens context heads; expanded heads of 192 and 128 */
  KC_FAMILY_MLA_PREFILL_FP8,
  KC_FAMILY_MLA_BMM_BF16,     /* tokens heads: one absorb product, 128 x 512 per head (of two) */
  KC_FAMILY_MLA_BMM_FP8,
  KC_FAMILY_MOE_BF16,         /* tokens hidden inter topk experts tp ep skew: gate_up, act, down */
  KC_FAMILY_MOE_BF16_CUTLASS, /* the same through FlashInfer's CUTLASS kernel, which SGLang takes
                                 for experts without a gate (Nemotron) */
  KC_FAMILY_MOE_FP8,
  KC_FAMILY_MOE_FP8_BLOCK,
  KC_FAMILY_MOE_INT4,         /* weight-only, groups of 32 (Marlin) */
  KC_FAMILY_MOE_MXFP4,
  KC_FAMILY_ALLREDUCE_GRAPH,  /* elements (BF16) gpus; inside a CUDA graph */
  KC_FAMILY_ALLREDUCE_EAGER,
  KC_FAMILY_DSA_DECODE_BF16,  /* batch context heads hidden gemm_fp8 skip: a whole attention module,
                                 its projections and indexer included */
  KC_FAMILY_DSA_DECODE_FP8,
  KC_FAMILIES
};

const char *kc_family_name(enum kc_family family);
bool kc_family_parse(const char *name, enum kc_family *out);

/* The size of one operation as one GPU runs it; fields a family does not read are ignored, and may
 * be fractional where an average is meant (context). All that are read must be > 0 unless a zero is
 * said to be fine. */
struct kc_shape {
  double m, n, k;          /* GEMM */
  double batch;            /* sequences */
  double tokens;           /* MoE, bmm: in the call (before expert parallelism: of all ranks).
                              Prefill attention: new tokens per sequence */
  double context;          /* attention: cached tokens that one sequence reads. Prefill: new ones
                              included, >= tokens */
  double heads, kv_heads;  /* on this GPU */
  double head_dim;
  double window;           /* sliding window; 0 = none */
  double hidden, inter;    /* MoE: inter of the whole expert (before tensor parallelism) */
  double topk, experts;    /* of the whole layer */
  double tp, ep;           /* MoE tensor and expert parallel degree, >= 1 */
  double skew;             /* MoE routing: power-law exponent; 0 = balanced, 1.01, 1.2 measured */
  double elements, gpus;   /* all-reduce */
  double gemm_fp8;         /* DSA: 1 = FP8 block projections, 0 = BF16 */
  double skip;             /* DSA: 1 = layer that re-uses another's index (no indexer) */
};

/* What a datasheet says of a GPU. The physics of every family takes its rates from here, so a fit
 * made on one GPU can be asked about another. */
struct kc_device {
  double memory_bandwidth;      /* bytes/s */
  double flops[KC_MATH_KINDS];  /* dense; 0 = no native unit, computed as BF16 */
  double link_bandwidth;        /* bytes/s one way to the GPUs of the node (PCIe if no link) */
  double link_latency_us;
  double sm_count;              /* multiprocessors; waves of tiles are counted in them */
};
struct kc_device kc_device_of(const struct kc_gpu *gpu);

enum kc_trust {        /* ordered: a step is worth what its worst part is worth */
  KC_TRUST_MEASURED,   /* fitted to measured kernels, inside their range */
  KC_TRUST_EXTRAPOLATED, /* a fit, outside the range it was made on */
  KC_TRUST_DATASHEET   /* rates of the datasheet with default efficiencies; nothing measured */
};

struct kc_op_time {
  double us;           /* > 0 */
  enum kc_trust trust;
};

/* How good a fit is: |predicted / measured - 1| over rows the fit never saw. */
struct kc_residual {
  uint64_t rows;       /* held out; 0 = not known */
  double median, p90;
};

struct kc_family_info {
  bool present;
  const char *source;  /* measured what, by whom; "" for a family that is absent */
  uint64_t rows;       /* measured, held-out ones included */
  struct kc_residual held_out;
};

enum kc_profile_kind { KC_PROFILE_FAMILIES, KC_PROFILE_LAYERED, KC_PROFILE_DATASHEET };

struct kc_profile; /* opaque; profile_internal.h has it for sim/calibrate */

/* Reads and checks a profile file. Errors: KC_ERR_FILE; KC_ERR_INPUT with line and column (unknown
 * key, unknown family or feature, a table whose size differs from its axes, a figure out of range);
 * KC_ERR_MEMORY. `*out` is heap, to be given to kc_profile_destroy; NULL after an error. */
enum kc_err kc_profile_load(struct kc_profile **out, const char *path, struct kc_diag *diag);

/* The same from memory; `path` is only for messages. */
enum kc_err kc_profile_parse(struct kc_profile **out, const char *path, const char *data,
                             size_t bytes, struct kc_diag *diag);

/* A profile with no measurement: the efficiencies and the latency of an entry of a GPU file. */
enum kc_err kc_profile_datasheet(struct kc_profile **out, const struct kc_gpu_profile *entry,
                                 struct kc_diag *diag);

void kc_profile_destroy(struct kc_profile *profile); /* NULL is fine */

enum kc_profile_kind kc_profile_kind(const struct kc_profile *profile);
const char *kc_profile_name(const struct kc_profile *profile);   /* "sglang-0.5.14" */
const char *kc_profile_gpu(const struct kc_profile *profile);    /* "h200": measured on */
const char *kc_profile_sha256(const struct kc_profile *profile); /* of the file; "" datasheet */
struct kc_family_info kc_profile_family(const struct kc_profile *profile, enum kc_family family);

/* Time of one operation. Pure and total; about 0.1 to 1 us of host time. `device` is the GPU asked
 * about, normally that of the profile (kc_device_of). */
struct kc_op_time kc_profile_time(const struct kc_profile *profile, const struct kc_device *device,
                                  enum kc_family family, const struct kc_shape *shape);

/* ---- layered profiles ---- */

/* The model and degree that a layered profile was measured on; refuse or say a mismatch. */
struct kc_layered_model {
  char model[64];      /* "meta-llama/Llama-3.1-8B" */
  uint32_t tensor;     /* tensor degree */
  uint32_t layers, hidden, heads, kv_heads, head_dim, inter; /* per whole model; 0 = not said */
  char weights[160], kv[16]; /* formats: kc_precision_weights_text, "bf16"; "" = not said */
  double max_batched_tokens, max_sequences;          /* of the engine that was profiled */
};
const struct kc_layered_model *kc_profile_layered_model(const struct kc_profile *profile);

/* Layers by name as the profile names them ("qkv_proj", "o_proj", "gate_up_proj", "down_proj",
 * "act_fn", "layernorm", "rotary_emb", "qk_norm", "final_layernorm", "embedding" by tokens;
 * "lm_head", "sampler" by sequences). Index, or -1 when the profile has no such layer. */
int kc_profile_layer(const struct kc_profile *profile, const char *name);
/* Time of one call of layer `layer` for `units` tokens (or sequences), >= 1. */
struct kc_op_time kc_profile_layer_time(const struct kc_profile *profile, int layer, double units);

/* One attention call of a mixed step. Decodes: their number, mean and longest context. Prefill: the
 * new tokens of all chunks together and the context already cached before them (sum over chunks of
 * the tokens there; one chunk as measured). Either side may be 0, not both. */
struct kc_mixed_step {
  double prefill_tokens, prefill_past;
  double decodes, decode_context, decode_context_max;
};
struct kc_op_time kc_profile_mixed_time(const struct kc_profile *profile,
                                        const struct kc_mixed_step *step);
/* "attention" residuals and the like: layered parts by name, for reports. */
struct kc_family_info kc_profile_layered_info(const struct kc_profile *profile, const char *part);

#endif
