/* Step time from hardware, precision and batch.
 *
 * For each operation of each layer
 *
 *     latency + max(bytes / (eff_b * bandwidth), flops / (eff_f * peak))
 *
 * plus collectives and a host term per step. Everything an operation needs is linear in the step's
 * integer aggregates, so an operation is a handful of coefficients, rounded to 2^-20 ps once when
 * the model is built; a step is summed in 128-bit integers and rounded once.
 *
 *   variable      what it is                        operations that use it
 *   tokens        decodes + prefill_tokens          every matrix product, norms, all-reduce
 *   logits        sequences that yield a token      lm_head
 *   decode_*      contexts of the decodes           decode attention
 *   prefill_*     chunks                            prefill attention
 *   entries       block-table entries               integrity check
 *
 * Routed experts read the expected number of distinct experts E * (1 - (1 - k/E)^tokens).
 */
#ifndef KC_SIM_COST_COST_H
#define KC_SIM_COST_COST_H

#include "engine/memory/gpu.h"
#include "engine/model/model.h"
#include "engine/sched/step.h"
#include "engine/kv/table.h"
#include "sim/cost/profile.h"

enum { KC_COST_OPS_MAX = 64, KC_COVERAGE_BITS = 3, KC_COVERAGE_KNOTS = 128 };

enum kc_cost_kind {
  KC_COST_TOKENS,         /* bytes = b0 + b1 * tokens,            flops = f1 * tokens */
  KC_COST_LOGITS,         /* the same in logits */
  KC_COST_EXPERTS,        /* bytes = b0 * coverage(tokens) + b1 * tokens, flops = f1 * tokens */
  KC_COST_DECODE_ATTENTION,  /* one KV group: bytes = b1 * contexts + bw * decodes,
                                flops = f1 * contexts; see kc_cost_op.cap */
  KC_COST_PREFILL_ATTENTION, /* bytes = b1 * contexts + bw * tokens, flops = f1 * pairs */
  KC_COST_INTEGRITY,         /* latency + b1 * entries */
  KC_COST_EXPAND             /* steps with prefill: b0, times the coverage if cap is 0 */
};

/* One operation, summed over the layers that have it. Times in 2^-20 ps. */
struct kc_cost_op {
  char name[24];
  enum kc_cost_kind kind;
  uint32_t layers;
  int32_t cap;            /* attention: index of the window W, -1 = whole context */
  uint64_t latency;       /* per layer, already times layers */
  kc_u128 byte_fixed;     /* time to move the fixed bytes (weights; of one expert), all layers */
  kc_u128 byte_unit;      /* per token, logit, entry, or token of context read */
  kc_u128 byte_write;     /* attention: per token written */
  kc_u128 flop_unit;      /* per token, logit, or (query, key) pair */
};

/* What a step time rests on. */
enum kc_cost_basis {
  KC_BASIS_DATASHEET, /* rates of the datasheet, plain efficiencies; nothing measured */
  KC_BASIS_KERNELS,   /* operations fitted to measured kernels */
  KC_BASIS_SERVING    /* efficiencies fitted to a serving measurement */
};

/* Steps: those that a fit was made with, or those of a run. A maximum of 0 = no bound. */
struct kc_cost_range {
  uint64_t tokens_min, tokens_max;       /* of a step */
  uint64_t sequences_min, sequences_max; /* the same: its decodes and chunks */
  uint64_t context_min, context_max;     /* mean over the decodes of a step */
};
/* Widens a range, at first all 0, by a step; by another range. */
void kc_cost_range_add(struct kc_cost_range *range, const struct kc_aggregates *sum);
void kc_cost_range_join(struct kc_cost_range *range, const struct kc_cost_range *other);

/* How far the times of a run can be trusted: datasheet, calibrated, or extrapolated as soon as a
 * step lay outside the range of the fit. */
enum kc_cost_level { KC_LEVEL_CALIBRATED, KC_LEVEL_EXTRAPOLATED, KC_LEVEL_DATASHEET };
struct kc_cost_trust {
  enum kc_cost_level level;
  enum kc_cost_basis basis;
  uint64_t steps, steps_outside;
  kc_ps time_ps, outside_ps;         /* of all steps; of those outside */
  uint64_t outside;                  /* which kernels, see kc_cost_tables_outside; 0 without them */
};
const char *kc_cost_level_name(enum kc_cost_level level); /* "calibrated" */
const char *kc_cost_basis_name(enum kc_cost_basis basis); /* "serving fit" */

struct kc_cost_config {
  const struct kc_model *model;
  const struct kc_precision *precision;
  const struct kc_gpu *gpu;
  const struct kc_gpu_profile *profile;
  uint32_t tensor;
  uint32_t pipeline;       /* 1 for now: stages run one after another */
  enum kc_integrity integrity;
  uint32_t cap_count;      /* the windows in the order of kc_sched_config.cap */
  uint64_t cap[KC_CAPS_MAX];
  /* Measured kernels; NULL = plain efficiencies of `profile` alone. With them, what a step may hold
   * at most: the tables reach so far. */
  const struct kc_profile *kernels;
  uint64_t tokens_max, sequences_max, context_max;
  double moe_skew;         /* power-law exponent of the routing; 0 = balanced */
};

struct kc_cost_tables;

enum { KC_FOREIGN_BYTES = 640 };

struct kc_cost {
  uint32_t op_count;
  uint32_t context_ops;    /* the first so many are attention and integrity check */
  struct kc_cost_op op[KC_COST_OPS_MAX];
  uint32_t experts, experts_per_token;
  bool skewed;             /* coverage_q32 holds; else routing is balanced */
  uint64_t coverage_q32[KC_COVERAGE_KNOTS];
  uint64_t host_step;      /* 2^-20 ps */
  uint32_t scale_q16;      /* time of all kernels in 2^-16 of what is predicted; 0 = as predicted */
  uint64_t host_sequence;  /* 2^-20 ps, for each sequence of a step */
  uint64_t host_prompt;    /* 2^-20 ps, for each step with prompt tokens */
  uint64_t eager_floor;    /* 2^-20 ps: least time of the kernels of a step outside CUDA graphs */
  uint64_t graph_tokens;   /* steps of decodes alone, up to so many, are graphs */
  struct kc_cost_tables *tables; /* NULL = all of it is in op[] */
  enum kc_cost_basis basis;
  bool foreign;            /* fitted on another GPU, model, degree or format: never inside */
  char foreign_why[KC_FOREIGN_BYTES]; /* "weights fp8, fitted with bf16; ..." */
  struct kc_cost_range range;
};

/* Windows of a model, ascending and distinct, for kc_sched_config and kc_cost_config. */
uint32_t kc_cost_caps(const struct kc_model *model, uint64_t cap[KC_CAPS_MAX]);

enum kc_err kc_cost_build(struct kc_cost *cost, const struct kc_cost_config *config,
                          struct kc_diag *diag);

void kc_cost_free(struct kc_cost *cost); /* after a failed build too; twice is fine */

/* Duration of one step: pure, total, > 0. The predicted executor gives the same picosecond by a
 * shorter way. */
kc_ps kc_cost_step(const struct kc_cost *cost, const struct kc_aggregates *sum);
/* The same; *host_ps becomes the part that is not kernels: host terms, and outside CUDA graphs what
 * the kernels fall short of the least time. */
kc_ps kc_cost_step_parts(const struct kc_cost *cost, const struct kc_aggregates *sum,
                         kc_ps *host_ps);

/* True when a step lies outside the range of the fit that its time rests on; adds to *kernels what
 * of it was not measured. */
bool kc_cost_outside(const struct kc_cost *cost, const struct kc_aggregates *sum,
                     uint64_t *kernels);

/* The part of it that depends on tokens and logits alone, in 2^-20 ps. */
enum { KC_COST_FRACTION_BITS = 20 };
kc_u128 kc_cost_dense(const struct kc_cost *cost, uint64_t tokens, uint64_t logits);

/* Duration of a step whose dense part is known already: with what depends on contexts, rounded.
 * *host_ps as above. */
kc_ps kc_cost_finish(const struct kc_cost *cost, const struct kc_aggregates *sum, kc_u128 dense,
                     kc_ps *host_ps);

/* The same under a power law of exponent `skew`, at the knots of a scale of KC_COVERAGE_BITS; and
 * between them. */
void kc_coverage_skewed(uint64_t coverage_q32[KC_COVERAGE_KNOTS], uint32_t experts,
                        uint32_t per_token, double skew);
uint64_t kc_coverage_look(const uint64_t coverage_q32[KC_COVERAGE_KNOTS], uint64_t tokens);

/* Expected distinct experts for `tokens` tokens, in 2^-32 experts; 0 without experts. */
uint64_t kc_cost_coverage_q32(uint32_t experts, uint32_t per_token, uint64_t tokens);

#endif
