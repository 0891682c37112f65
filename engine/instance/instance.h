/* One serving instance: queue + policy + pages + batch + executor + clock.
 *
 *   arrivals -> [waiting cursor] -> policy -> batch -> step -> executor -> outcomes -> observer
 *
 * kc_instance_begin_step() and kc_instance_end_step() are the only step loop in the program; the
 * simulator, the CPU engine and the CUDA engine differ in the executor alone. A step has two halves
 * because requests arrive while it runs: they are announced in between, so that everything happens,
 * and is reported, in the order of time.
 */
#ifndef KC_ENGINE_INSTANCE_INSTANCE_H
#define KC_ENGINE_INSTANCE_INSTANCE_H

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
  kc_ps arrival_ps;
  kc_ps first_token_ps;     /* KC_PS_NEVER if none */
  kc_ps end_ps;             /* when the last token came out, or when it was given up */
  kc_ps resident_ps;        /* time spent holding a slot */
};

/* What happened in one step, for metrics. */
struct kc_step_report {
  uint64_t index;
  kc_ps start_ps, end_ps;
  uint32_t steady_decodes; /* decodes whose previous token came out at start_ps: ITL = duration */
  uint32_t tokens_out;     /* sequences that yielded a token: decodes + completed prompts */
  uint32_t running;        /* slots in use during the step */
  uint32_t waiting;        /* requests that had arrived and held no slot, after forming */
  uint32_t pages_used;     /* after forming */
  uint64_t held_tokens;    /* tokens with KV at the end of the step */
};

/* The one way results leave an instance. Functions must not touch the instance. */
struct kc_observer {
  void *context;
  void (*on_step)(void *context, const struct kc_step_report *report);
  /* A token after a gap that is not one step (first after a preemption). */
  void (*on_gap)(void *context, kc_ps gap_ps);
  void (*on_end)(void *context, const struct kc_outcome *outcome);
};

struct kc_instance_config {
  struct kc_sched_config sched;
  const struct kc_policy *policy;
  enum kc_integrity integrity;
  uint32_t pages;          /* of the pool */
  bool demand_is_final;    /* see struct kc_instance */
  uint64_t seed;
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

/* True when there is anything to run. */
bool kc_instance_busy(const struct kc_instance *instance);

/* Forms one step at the clock, has the executor run it, and reports what was refused. Afterwards
 * `in_step` is true and the step ends at report.end_ps; until then requests may arrive. A step that
 * only preempted or refused runs nothing and takes no time: `in_step` is false, and the next one
 * makes progress. Needs kc_instance_busy() and no step under way. */
enum kc_err kc_instance_begin_step(struct kc_instance *instance, struct kc_diag *diag);

/* Moves the clock to the end of the step under way and reports what came of it. */
void kc_instance_end_step(struct kc_instance *instance);

/* End of run: nothing runs, pool balanced, scrubbed. */
enum kc_err kc_instance_finish(struct kc_instance *instance, struct kc_diag *diag);

#endif
