/* Trace or closed loop -> instance, in virtual time, with whatever executor it is given. */
#ifndef KC_SIM_REPLAY_REPLAY_H
#define KC_SIM_REPLAY_REPLAY_H

#include "sim/metrics/metrics.h"

enum kc_closed_mode {
  KC_CLOSED_WAVE,   /* `concurrency` requests at once; the next wave when all have ended */
  KC_CLOSED_STEADY  /* a request that ends is replaced at once */
};

struct kc_closed_config {
  uint32_t concurrency, requests;
  uint32_t input_tokens, output_tokens;
  enum kc_closed_mode mode;
};

struct kc_replay_config {
  struct kc_instance_config instance;
  struct kc_executor executor;
  /* Open loop: all requests, sorted by arrival. Closed loop: room for `request_count` of them; the
   * run writes each one when it is offered. */
  struct kc_request *requests;
  uint32_t request_count;
  bool closed;
  struct kc_closed_config closed_config;
  struct kc_recorder recorder;
  bool (*interrupted)(void *context); /* polled every 4096 steps or events; may be NULL */
  void *interrupted_context;
};

struct kc_replay_result {
  struct kc_summary summary;
  kc_ps oom_ps;             /* KC_PS_NEVER = none */
  uint32_t oom_request;
  uint64_t oom_demand_pages;
  uint64_t pages;
};

/* Arena bytes for a run: instance and metrics. */
size_t kc_replay_need(const struct kc_replay_config *config);

/* Runs to the end. `metrics` receives the books (timeline, histogram) and outlives the call for the
 * store. Errors: KC_ERR_INTERRUPTED, whatever the executor or recorder returns. */
enum kc_err kc_replay_run(const struct kc_replay_config *config, struct kc_metrics *metrics,
                          struct kc_arena *arena, struct kc_replay_result *result,
                          struct kc_diag *diag);

#endif
