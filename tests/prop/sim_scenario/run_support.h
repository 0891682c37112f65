/* Runs a request table through the product's replay with a given step model, and keeps every
 * outcome. For tests that need neither scenario files nor a model. */
#ifndef KC_TESTS_PROP_SIM_SCENARIO_RUN_SUPPORT_H
#define KC_TESTS_PROP_SIM_SCENARIO_RUN_SUPPORT_H

#include "sim/cost/predicted.h"
#include "sim/replay/replay.h"

/* A request of unknown content. */
#define REQUEST(at_ps, in, out, limit) \
  {.arrival_ps = (at_ps), .input_tokens = (in), .output_tokens = (out), .max_tokens = (limit)}

struct test_run {
  struct kc_instance_config instance;
  struct kc_cost cost;
  struct kc_request *requests;   /* open loop: filled and sorted; sessions: all rows; closed loop:
                                    room */
  uint32_t request_count;
  bool closed;
  struct kc_closed_config closed_config;
  uint32_t *after;               /* sessions, else NULL; with wait_ps */
  kc_ps *wait_ps;
  struct kc_key_run *keys;       /* what the requests' runs lie in; NULL: contents unknown */
  struct kc_patience *patience;  /* of the one class, or NULL */
  kc_ps *cancel_after_ps;        /* [request_count], or NULL */
  struct kc_router_config router; /* replicas 0 or 1: one; several go without `wrap` */
  uint32_t *group;               /* [request_count], or NULL */
  /* Puts something between the instance and the predicted executor, to watch the steps; may be
   * NULL. */
  struct kc_executor (*wrap)(void *context, const struct kc_executor *executor);
  void *wrap_context;
  bool (*interrupted)(void *context); /* as kc_replay_config's; it may not stop the run */
  void *interrupted_context;
  uint32_t poll_every;
  /* results */
  struct kc_replay_result result; /* its `replica` is the array below */
  struct kc_replica_figures replica[KC_REPLICAS_MAX];
  struct kc_outcome *outcomes;   /* [request_count], in order of their end; freed by the caller */
  uint32_t outcome_count;
};

/* A step model in which every step takes `step_ps`. */
void test_cost_constant(struct kc_cost *cost, kc_ps step_ps);

/* A step model of one dense product, one attention op per window (and one over the whole context),
 * experts and an integrity check, with coefficients drawn from `seed`. */
void test_cost_random(struct kc_cost *cost, uint64_t seed, uint32_t cap_count);

/* A step model about one large GPU: 8 ms a step and up to 0.3 ns a token of context; contexts and
 * tokens cost 2^slower as much. One window. */
void test_cost_trace(struct kc_cost *cost, unsigned slower);

/* Defaults of vllm-0.19 with `pages` pages, but each step is formed when the one before it is
 * over. */
void test_instance_default(struct kc_instance_config *config, uint32_t pages);

/* Aborts with a message when the run fails. */
void test_run_execute(struct test_run *run);

#endif
