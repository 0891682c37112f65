/* The predicted executor: says how long a step takes and who finishes, computes nothing.
 *
 * It alone knows the true output lengths. Finishes sit in a heap keyed by step; the dense part of
 * a pure decode step is remembered per batch size.
 *
 * It also says what caused the time, step by step, from the aggregates:
 *
 *   decode   what the step would have taken without its prompt chunks; all of a step without any
 *   cached   what it would have taken less if the chunks had not attended to prompt tokens that
 *            were found in the prefix cache (layers with a window: nothing)
 *   prefill  the rest
 */
#ifndef KC_SIM_COST_PREDICTED_H
#define KC_SIM_COST_PREDICTED_H

#include "engine/base/heap.h"
#include "sim/cost/cost.h"

struct kc_predicted {
  const struct kc_cost *cost;
  const struct kc_request *requests;
  uint64_t max_model_len;
  struct kc_heap finish;     /* key = ticks that have passed when the slot has yielded its last
                                token */
  uint32_t *remaining;       /* [slot] tokens still to come, for slots in prefill */
  uint32_t *cached;          /* [slot] prompt tokens found in the prefix cache */
  uint64_t *order;           /* [slot] join order, to report finishes in batch order */
  uint64_t next_order;
  uint32_t *finished;        /* [slots] result */
  kc_u128 *dense;            /* [slots + 1] by number of decodes; 0 = not yet known */
  uint32_t slots;
  struct kc_cost_trust trust; /* of the steps so far; its level is set by kc_predicted_trust */
  struct kc_cost_range seen;  /* the steps so far */
  uint64_t cached_pairs, cached_context; /* of the chunks of this step: with cached tokens */
  kc_ps prefill_ps, cached_ps; /* of the steps so far; decode is the rest */
};

/* Shares of the time of the steps so far; they add up to all of it. */
struct kc_cost_split {
  kc_ps prefill_ps, cached_ps, decode_ps;
};

size_t kc_predicted_need(uint32_t slots);
enum kc_err kc_predicted_init(struct kc_predicted *predicted, const struct kc_cost *cost,
                              const struct kc_request *requests, uint64_t max_model_len,
                              uint32_t slots, struct kc_arena *arena);
/* What the times of the steps so far are worth. */
struct kc_cost_trust kc_predicted_trust(const struct kc_predicted *predicted);
struct kc_cost_split kc_predicted_split(const struct kc_predicted *predicted);
struct kc_executor kc_predicted_executor(struct kc_predicted *predicted);

#endif
