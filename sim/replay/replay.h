/* Trace or closed loop -> instances, in virtual time, with whatever executor they are given.
 *
 * Three ways of offering requests:
 *   open loop    the whole table is known and sorted by arrival
 *   closed loop  `concurrency` equal requests at once, the next when one or all have ended
 *   sessions     rows of a trace that wait for other rows: closed loop with think time
 *
 * Several equal instances (replicas) share one virtual time and stand behind one router:
 *
 *   requests --> router --> replica 0: its table, its pool, its batch, its executor
 *                      `--> replica 1: ...
 *
 * Each does what it would do alone with the requests that it is given.
 */
#ifndef KC_SIM_REPLAY_REPLAY_H
#define KC_SIM_REPLAY_REPLAY_H

#include "sim/fleet/router.h"
#include "sim/metrics/metrics.h"
#include "sim/replay/patience.h"

enum kc_closed_mode {
  KC_CLOSED_WAVE,   /* `concurrency` requests at once; the next wave when all have ended */
  KC_CLOSED_STEADY  /* a request that ends is replaced at once */
};

struct kc_closed_config {
  uint32_t concurrency, requests;
  uint32_t input_tokens, output_tokens;
  enum kc_closed_mode mode;
};

/* Row i is offered wait_ps[i] after row after[i] has ended (completed, failed or rejected alike); a
 * row without predecessor at its arrival. Rows due at one instant go in the order of their numbers.
 * The arrival_ps of a row with a predecessor is not looked at. */
#define KC_SESSION_START UINT32_MAX
struct kc_session_config {
  const struct kc_request *row; /* [request_count]; NULL = no sessions */
  const uint32_t *after;        /* [request_count]; KC_SESSION_START = waits for nobody; these rows
                                   are sorted by arrival. A predecessor may be any other row */
  const kc_ps *wait_ps;         /* [request_count], >= 0 */
};

/* One of several replicas. Its executor is to read the requests from its own table. */
struct kc_replica_config {
  struct kc_executor executor;
  struct kc_request *requests; /* room for kc_router_share(router, request_count); written by the
                                  run: what the replica was given, in order of arrival */
};

struct kc_replay_config {
  struct kc_instance_config instance;
  struct kc_executor executor;
  /* Open loop: all requests, sorted by arrival. Closed loop: `request_count` of them, of which the
   * run writes arrival and lengths when they are offered; tenant, class and contents are taken as
   * they stand. Sessions: room for `request_count`, written from their rows. Sessions are offered
   * in another order than they stand in the trace; results name the row of the trace in every
   * case. */
  struct kc_request *requests;
  uint32_t request_count;
  bool closed;
  struct kc_closed_config closed_config;
  struct kc_session_config session; /* not with `closed` */
  /* Several replicas; router.replicas 0 or 1: one, on `executor`, which reads `requests`. */
  struct kc_router_config router;
  const struct kc_replica_config *replica; /* [router.replicas]; borrowed; instead of `executor` */
  const uint32_t *group;      /* [request_count] by row, for router.policy SESSION_AFFINITY */
  /* How long clients wait. */
  const struct kc_patience *patience; /* [class_count], by class of the request; NULL = for ever */
  const kc_ps *cancel_after_ps;       /* [request_count] by row, KC_PS_NEVER = does not cancel;
                                         NULL: nobody does */
  /* Limits and groups of the results. */
  const struct kc_limits *limits;     /* [class_count]; NULL = none */
  bool keep_groups;                   /* figures by class, tenant, warmth */
  struct kc_groups_config groups;     /* class_count and tenant_count, both >= 1 with keep_groups */
  struct kc_recorder recorder;
  bool (*interrupted)(void *context); /* polled; may be NULL */
  void *interrupted_context;
  uint32_t poll_every;        /* steps or events; 0: 4096. 1 where a step is real computation */
};

/* What one replica did. */
struct kc_replica_figures {
  uint64_t requests;        /* given to it */
  uint64_t input_tokens, cached_tokens, output_tokens;
  uint64_t steps, preemptions, pages_evicted;
  kc_ps busy_ps;
  uint32_t max_running, max_waiting;
  uint64_t kv_peak_tokens, kv_peak_pages;
};

struct kc_replay_result {
  struct kc_summary summary; /* peaks are of all replicas together at one instant */
  uint32_t replicas;         /* >= 1 */
  const struct kc_replica_figures *replica; /* [replicas], in the run's arena */
  uint64_t router_moves;     /* SESSION_AFFINITY: times that a group left its home */
  kc_ps oom_ps;             /* the first of any replica; KC_PS_NEVER = none */
  uint32_t oom_replica;
  uint32_t oom_request;     /* row of the trace, as in outcomes */
  uint64_t oom_demand_pages;
  uint64_t pages;           /* of each pool */
  struct kc_injector injector; /* what faults on purpose came to; config.kinds 0: none */
};

/* Arena bytes for a run: instance and metrics. */
size_t kc_replay_need(const struct kc_replay_config *config);

/* Runs to the end. `metrics` receives the books (timeline, histogram) and outlives the call for the
 * store. Errors: KC_ERR_INTERRUPTED, whatever the executor or recorder returns; KC_ERR_INPUT for
 * sessions that wait in a circle, KC_ERR_LIMIT for waits beyond what a run covers. */
enum kc_err kc_replay_run(const struct kc_replay_config *config, struct kc_metrics *metrics,
                          struct kc_arena *arena, struct kc_replay_result *result,
                          struct kc_diag *diag);

#endif
