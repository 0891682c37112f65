/* One serving instance: queue + policy + pages + batch + executor + clock.
 *
 *   arrivals -> [waiting cursor] -> policy -> batch -> step -> executor -> outcomes -> observer
 *
 * kc_instance_begin_step() and kc_instance_end_step() are the only step loop in the program; the
 * simulator, the CPU engine and the CUDA engine differ in the executor alone. A step has two halves
 * because requests arrive while it runs: they are announced in between, so that everything happens,
 * and is reported, in the order of time.
 *
 * Overlapped scheduling (sched.overlap). A real server forms step n + 1 while step n runs, with
 * what it knew when n started. Here steps are formed one after the other, and the same comes out:
 *
 *   - forming n + 1 sees the requests that had arrived when n started (arrivals at that very
 *     instant included), not those that came while n ran;
 *   - tokens and outcomes of n are reported when n ends. A decode that ends with n, completed or
 *     cancelled, becomes a ghost: while n + 1 is formed it still has its slot (it counts towards
 *     max_running), its pages and its place in the batch (it may be the victim that gives way; then
 *     it is gone at once). If n + 1 decodes, it decodes too and its page grows, except where the
 *     policy knew its end (vllm: outputs = max_tokens or max_model_len reached). Ghosts of n are
 *     gone when n + 1 ends, before what n + 1 did is booked. A prompt that is cancelled half
 *     computed leaves no ghost;
 *   - a step of ghosts alone does run (tokens_out 0), as it does on the server;
 *   - when the stale view gives nothing to run (no decode, no ghost that decodes, no chunk), ghosts
 *     go, everything that has arrived is seen, and the step is formed again at the same instant;
 *   - an arrival that finds the instance idle is seen at once.
 *   Output counts in a policy's guesses are those after step n (one more than the server has).
 *
 * What is counted how, with ghosts and shared pages:
 *   running      slots of requests that have not ended: no ghosts
 *   waiting      all that have arrived and hold no slot, seen or not
 *   pages_used   pages in some row, ghosts' too, each once; idle cached pages are not in use
 *   held_tokens  sum over requests that run of their tokens with KV: shared ones count per request
 *   demand (oom) no ghosts; prompt pages that several offered requests share count once
 */
#ifndef KC_ENGINE_INSTANCE_INSTANCE_H
#define KC_ENGINE_INSTANCE_INSTANCE_H

#include "engine/instance/inject.h"
#include "engine/sched/batch.h"

enum kc_status {
  KC_STATUS_COMPLETED = 0,
  KC_STATUS_REJECTED = 1,   /* never started */
  KC_STATUS_FAILED = 2,     /* started, then given up */
  KC_STATUS_CANCELLED = 3,
  KC_STATUS_TIMED_OUT = 4,
  KC_STATUSES
};
const char *kc_status_name(enum kc_status status);

/* How a request ended: exactly one per request offered. */
struct kc_outcome {
  uint32_t request;
  enum kc_status status;
  enum kc_reason reason;
  uint32_t output_tokens;   /* produced */
  uint32_t preemptions;
  uint32_t cached_tokens;   /* of the prompt, found in the prefix cache at the first admission */
  uint32_t recached_tokens; /* of prompt and outputs, found at later admissions, in all */
  bool contaminated;        /* a token of it was computed while its row named a page that was not
                               its own. Known only in runs with injected faults */
  kc_ps arrival_ps;
  kc_ps first_token_ps;     /* KC_PS_NEVER if none */
  kc_ps end_ps;             /* when the last token came out, or when it was given up */
  kc_ps resident_ps;        /* time spent holding a slot */
  kc_ps kv_wait_ps, host_ps; /* see struct kc_spent */
  struct kc_spent first;    /* the three until the first token; 0 if none */
};

/* What happened in one step, for metrics. */
struct kc_step_report {
  uint64_t index;
  kc_ps start_ps, end_ps;
  uint32_t steady_decodes; /* decodes whose previous token came with the last step that decoded */
  kc_ps steady_gap_ps;     /* the gap of those: from that step's end to this one's; 0 without any */
  uint32_t tokens_out;     /* sequences that yielded a token: decodes + completed prompts */
  uint32_t running;        /* slots in use during the step */
  uint32_t ghosts;         /* slots that decode for nobody in this step */
  uint32_t waiting;        /* requests that had arrived and held no slot, after forming */
  uint32_t pages_used;     /* after forming */
  uint32_t pages_cached_idle; /* after forming: cached, and nobody uses them */
  uint64_t pages_evicted;  /* cached pages dropped since the last step, by forming this one */
  uint64_t held_tokens;    /* tokens with KV at the end of the step */
};

/* The one way results leave an instance. Functions must not touch the instance. */
struct kc_observer {
  void *context;
  void (*on_step)(void *context, const struct kc_step_report *report);
  /* A token whose gap is not steady_gap_ps: the first after a preemption, after a prefill step that
   * the decodes were not part of, after a pause. */
  void (*on_gap)(void *context, kc_ps gap_ps);
  void (*on_end)(void *context, const struct kc_outcome *outcome);
};

struct kc_instance_config {
  struct kc_sched_config sched;
  const struct kc_policy *policy;
  enum kc_integrity integrity;
  uint32_t pages;          /* of the pool */
  uint32_t requests_max;   /* most requests that will arrive, > 0 */
  uint32_t queue_limit;    /* most that may wait; one more is rejected on arrival. 0 = no limit */
  bool demand_is_final;    /* see struct kc_instance */
  uint64_t seed;
  struct kc_inject_config inject; /* faults on purpose; all zero = none */
};

/* A running request that is given up. */
struct kc_giving_up {
  uint32_t slot;
  enum kc_status status;
};

struct kc_instance {
  struct kc_instance_config config;
  struct kc_batch batch;
  struct kc_pool pool;
  struct kc_table table;
  struct kc_executor executor;
  struct kc_observer observer;
  kc_ps clock_ps;          /* end of the last step, or the arrival that ended idleness */
  /* First instant at which the KV of the requests offered so far, in whole pages, exceeded the
   * pool. Open loop: to the length that each has reached. With `demand_is_final` (closed loop): to
   * the length that each will reach. Of several requests that arrive or grow at that instant, one
   * tips it: they are counted one by one, in the order of arrival or of the batch. */
  bool demand_is_final;
  uint64_t final_pages;    /* of the requests offered and not yet ended, to their final length */
  kc_ps oom_ps;            /* KC_PS_NEVER = has not happened */
  uint32_t oom_request;    /* the one that tipped it */
  uint64_t oom_demand_pages; /* with it */
  uint32_t *offered;       /* [key_count] offered requests with that page in their prompt */
  uint64_t shared_demand;  /* pages that demand and final_pages count more than once */
  struct kc_prefix_cache cache; /* kind NONE without sched.prefix_cache */
  struct kc_injector injector;
  kc_ps step_start_ps;     /* of the last step */
  bool sees_all;           /* nothing is under way: the next forming sees everything */
  uint32_t giving_up_count;
  struct kc_giving_up *giving_up; /* [max_running] running requests that end before the next step */
  uint64_t evicted;        /* cache->counts.pages_evicted as last reported */
  bool in_step;            /* between begin and end of a step */
  struct kc_step_report report;  /* of that step; report.end_ps is when it ends */
  struct kc_step_result result;  /* of that step */
  uint32_t ended;          /* outcomes reported so far */
};

size_t kc_instance_need(const struct kc_instance_config *config);

/* `requests`: the table that grows behind us; entry i must be complete before it is announced.
 * `executor` and `observer` are copied; their contexts are borrowed for the instance's life. */
enum kc_err kc_instance_init(struct kc_instance *instance, const struct kc_instance_config *config,
                             const struct kc_request *requests, const struct kc_executor *executor,
                             const struct kc_observer *observer, struct kc_arena *arena,
                             struct kc_diag *diag);

/* Announces that requests [arrived, arrived + 1) have come: arrival_ps must not lie before that of
 * the previous one. Moves the clock forward when the instance is idle. */
void kc_instance_arrive(struct kc_instance *instance);

/* The request, which has arrived, is given up at `now_ps` (not before the last event announced, not
 * after the end of the step under way), with status CANCELLED or TIMED_OUT and the reason of that
 * name. One that waits ends now. One that runs ends with the step under way (its token of that step
 * counts; if that was its last one, it is completed); between two steps, now. False, and nothing
 * happens, when it has ended or is being given up already. O(slots). */
bool kc_instance_cancel(struct kc_instance *instance, uint32_t request, kc_ps now_ps,
                        enum kc_status status);

/* True when the request has arrived, has not ended, and has never held a slot (one that was
 * preempted has started). O(1); order PRIORITY: O(waiting). */
bool kc_instance_waits(const struct kc_instance *instance, uint32_t request);

/* True when there is anything to run. */
bool kc_instance_busy(const struct kc_instance *instance);

/* Forms one step at the clock, has the executor run it, and reports what was refused. Afterwards
 * `in_step` is true and the step ends at report.end_ps; until then requests may arrive. A step that
 * only preempted, refused or gave up runs nothing and takes no time: `in_step` is false, and the
 * next one makes progress, if the instance is still busy. Needs kc_instance_busy() and no step
 * under way. */
enum kc_err kc_instance_begin_step(struct kc_instance *instance, struct kc_diag *diag);

/* Moves the clock to the end of the step under way and reports what came of it. */
void kc_instance_end_step(struct kc_instance *instance);

/* End of run: nothing runs, pool balanced, scrubbed. */
enum kc_err kc_instance_finish(struct kc_instance *instance, struct kc_diag *diag);

#endif
