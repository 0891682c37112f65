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

enum { KC_COST_OPS_MAX = 64 };

enum kc_cost_kind {
  KC_COST_TOKENS,         /* bytes = b0 + b1 * tokens,            flops = f1 * tokens */
  KC_COST_LOGITS,         /* the same in logits */
  KC_COST_EXPERTS,        /* bytes = b0 * coverage(tokens) + b1 * tokens, flops = f1 * tokens */
  KC_COST_DECODE_ATTENTION,  /* one KV group: bytes = b1 * contexts + bw * decodes,
                                flops = f1 * contexts; see kc_cost_op.cap */
  KC_COST_PREFILL_ATTENTION, /* bytes = b1 * contexts + bw * tokens, flops = f1 * pairs */
  KC_COST_INTEGRITY          /* latency + b1 * entries */
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
};

struct kc_cost {
  uint32_t op_count;
  uint32_t context_ops;    /* the first so many are attention and integrity check */
  struct kc_cost_op op[KC_COST_OPS_MAX];
  uint32_t experts, experts_per_token;
  uint64_t host_step;      /* 2^-20 ps */
};

/* Windows of a model, ascending and distinct, for kc_sched_config and kc_cost_config. */
uint32_t kc_cost_caps(const struct kc_model *model, uint64_t cap[KC_CAPS_MAX]);

enum kc_err kc_cost_build(struct kc_cost *cost, const struct kc_cost_config *config,
                          struct kc_diag *diag);

/* Duration of one step: pure, total, > 0. The predicted executor gives the same picosecond by a
 * shorter way. */
kc_ps kc_cost_step(const struct kc_cost *cost, const struct kc_aggregates *sum);

/* Its two parts in 2^-20 ps: what depends on tokens and logits alone, and what depends on contexts;
 * and the one rounding of a step. */
enum { KC_COST_FRACTION_BITS = 20 };
kc_u128 kc_cost_dense(const struct kc_cost *cost, uint64_t tokens, uint64_t logits);
kc_u128 kc_cost_context(const struct kc_cost *cost, const struct kc_aggregates *sum);
kc_ps kc_cost_round(kc_u128 units);

/* Expected distinct experts for `tokens` tokens, in 2^-32 experts; 0 without experts. */
uint64_t kc_cost_coverage_q32(uint32_t experts, uint32_t per_token, uint64_t tokens);

#endif
