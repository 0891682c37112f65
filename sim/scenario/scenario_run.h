/* From a resolved scenario to a finished run: memory bill, request table, step model, replay.
 *
 *   kc_scenario --prepare--> kc_run {fit, trace, requests, cost, ...} --execute--> result + metrics
 *
 * One struct carries all of a run's state; nothing is global, so runs may go on side by side.
 */
#ifndef KC_SIM_SCENARIO_SCENARIO_RUN_H
#define KC_SIM_SCENARIO_SCENARIO_RUN_H

#include "sim/cost/predicted.h"
#include "sim/scenario/contents.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario.h"

struct kc_run {
  const struct kc_scenario *scenario;   /* borrowed until kc_run_deinit */
  struct kc_fit fit;
  uint32_t pages;                       /* of the pool, after bounded layers took their share */
  uint64_t bounded_bytes;               /* windows and linear state of the running requests, */
  uint32_t bounded_requests;            /* so many, each as long as the workload's are on average */
  bool bounded_limit;                   /* these, and not max_running, are the most that run */
  struct kc_trace trace;                /* as replayed; row == NULL in closed loop */
  uint64_t change[KC_CHANGES];          /* what the workload's keys did to the trace */
  struct kc_trace_reuse reuse;          /* of its prefix ids; all zero when it has none */
  struct kc_request *requests;          /* heap */
  uint32_t request_count;
  /* A trace in closed loop: the rows as recorded, heap; `requests` is written as they come. */
  bool sessions;
  struct kc_request *rows;
  uint32_t waiting_rows;                /* those that wait for another one */
  uint64_t max_tokens_clipped;          /* requests whose max_tokens is below their true output */
  struct kc_clients clients;            /* tenants and who cancels */
  struct kc_limits limits[KC_CLASSES_MAX];
  struct kc_patience patience[KC_CLASSES_MAX];
  bool prefix_cache;                    /* prompts are cached */
  enum kc_content_source content_source; /* what is known of prompts, whether cached or not */
  struct kc_contents contents;          /* with prefix_cache */
  uint32_t max_running;                 /* as given, as the policy has it for this pool, or what
                                           bounded layers leave room for */
  const struct kc_profile *kernels;     /* of the pool's profile; NULL = plain efficiencies */
  struct kc_inputs *inputs;             /* where files come from */
  bool own_inputs;                      /* else borrowed until kc_run_deinit */
  struct kc_cost cost;
  struct kc_predicted *predicted;       /* [replicas], in the arena */
  struct kc_replica_config *replica;    /* [replicas], in the arena; NULL with one */
  uint32_t *group;                      /* heap; by row, for a router that keeps some together */
  uint32_t group_count;
  struct kc_arena arena;
  struct kc_metrics metrics;
  struct kc_replay_config replay;       /* recorder and interrupted may be set before execute */
  struct kc_replay_result result;
};

/* Computes the bill (KC_ERR_NO_FIT with the failing inequality when it does not fit), reads the
 * trace, builds the request table and the step model, reserves memory.
 *
 * Bounded layers lie beside the pool. A server has windows and pages in one memory and admits until
 * that is full; here the share of the windows is set before: of as many requests as run at once at
 * the most, which is max_running, the concurrency of a closed loop, or as many of the workload's
 * mean length as fill the budget with their windows and pages, whichever is least.
 *
 * `run` is filled from nothing. */
enum kc_err kc_run_prepare(struct kc_run *run, const struct kc_scenario *scenario,
                           struct kc_diag *diag);
/* The same with files that other runs have read, too; `inputs` is borrowed until kc_run_deinit. */
enum kc_err kc_run_prepare_from(struct kc_run *run, const struct kc_scenario *scenario,
                                struct kc_inputs *inputs, struct kc_diag *diag);

/* KC_ERR_NO_FIT with the sentence about a bill that does not fit. */
enum kc_err kc_run_no_fit(const struct kc_scenario *scenario, const struct kc_fit *fit,
                          struct kc_diag *diag);

/* Runs to the end; once per prepare. */
enum kc_err kc_run_execute(struct kc_run *run, struct kc_diag *diag);

/* Frees what prepare took; also after a failed prepare. */
void kc_run_deinit(struct kc_run *run);

/* What the times of a run that was executed are worth. */
struct kc_cost_trust kc_run_trust(const struct kc_run *run);

/* The steps so far of all replicas; also of a run that is going on. */
struct kc_cost_range kc_run_seen(const struct kc_run *run);

/* Names of the kernel families that its steps needed and nobody measured where they were asked:
 * those that make it extrapolated, or the minor ones (less than a tenth of a step's dense part).
 * Returns their number, 0 for other profiles. */
enum { KC_TRUST_NAMES_MAX = 32 };
uint32_t kc_run_missing(const struct kc_run *run, bool minor,
                        char names[KC_TRUST_NAMES_MAX][24]);

/* How near an open-loop run came to what its replicas can do, 1 = at the limit. `rate` compares the
 * requests that arrived with the most that all could serve for ever, equally loaded: with as many
 * requests of mean length at once as pool and max_running allow, one prompt costs its step and each
 * output token its share of a full decode step. `kv` and `batch` are of the fullest replica. */
struct kc_run_load {
  bool known;      /* false: a closed loop, which is at its limit by design; no request answered; or
                      some refused for their size, so that not the workload was carried */
  double rate;     /* arrivals / most that can be served */
  double served_s; /* that most, requests a second */
  double kv;       /* peak of the pool */
  double batch;    /* peak of max_running */
  const char *nearest; /* "rate", "kv" or "batch": the largest of the three */
  double headroom; /* 1 - the largest; below 0 when more arrives than can be served */
};
struct kc_run_load kc_run_load_of(const struct kc_run *run);

/* Most tokens of one prompt in one step; UINT64_MAX: prompts are computed whole. The run is
 * prepared, no more. */
uint64_t kc_run_prompt_chunk(const struct kc_run *run);

/* Seconds of one instance that a request of that length costs when as many as fit run at once. The
 * run is prepared, no more. */
double kc_run_request_seconds(const struct kc_run *run, uint64_t input, uint64_t output);

/* Aggregates of a step of `decodes` requests of `context` tokens each and one chunk of `chunk` new
 * tokens (0 = none). */
struct kc_aggregates kc_run_uniform_step(const struct kc_sched_config *sched, uint32_t decodes,
                                         uint64_t context, uint64_t chunk);

/* Requests that ended without an answer: rejected, failed, timed out. One that its client cancelled
 * is none of them. */
uint64_t kc_run_lost(const struct kc_run *run);
/* Latencies cover what was answered: whether more requests were lost than a percentile (95, say)
 * leaves out, so that it is none of all requests. */
bool kc_run_lost_beyond(const struct kc_run *run, unsigned percentile);

/* Prompt tokens found in the cache, of those of requests that held a slot. False where it is not
 * known: prompts are not, or nothing is cached. */
bool kc_run_hit_rate(const struct kc_run *run, double *share);

/* Completed requests a second that kept the limits of their class; false when nobody has any. */
bool kc_run_goodput(const struct kc_run *run, double *requests_per_s);

/* GPUs of the deployment, of all replicas. */
uint32_t kc_run_gpus(const struct kc_scenario *scenario);

/* How unequal the replicas' work was: the largest over the mean, 1 = all alike; 1 when there was
 * nothing to do. */
struct kc_run_balance {
  double requests, input_tokens, output_tokens, busy;
  uint32_t max_running;        /* of the fullest replica, each figure by itself */
  uint64_t kv_peak_pages;
};
struct kc_run_balance kc_run_balance_of(const struct kc_replay_result *result);

/* What caused the time of the steps, of all replicas. */
struct kc_cost_split kc_run_split(const struct kc_run *run);

/* Dollars per million output tokens, rounded to 10^-6; false when no price or no token is known.
 * The rest of the money: spending.h. */
bool kc_run_cost(const struct kc_run *run, double *usd_per_mtok);

#endif
