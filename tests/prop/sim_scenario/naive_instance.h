/* The plain twin of one simulated instance: scheduler, page counts, clock, closed loop, step model
 * and results, written from the rules without any of the product's cleverness. No keys, rings,
 * heaps, cursors or histograms: every request is a row of counters, every sum is a loop over its
 * members, every chunk a loop over its tokens, every gap between tokens an entry of an array. It is
 * slow, and meant to be read beside the rules.
 *
 *   waiting[0..waiting_count)   request numbers, next in line first
 *   running[0..running_count)   request numbers in the order of joining: the tail is the victim
 *   state[request]              everything known of that request
 *
 * A request's number is its row in the trace, in sessions too; order[] tells when each came.
 *
 * Use: naive_begin, naive_next until it says false, naive_finish, naive_end. Between two calls of
 * naive_next the step just formed can be looked at: `sum`, `running`, state[].chunk, .pages.
 */
#ifndef KC_TESTS_PROP_SIM_SCENARIO_NAIVE_INSTANCE_H
#define KC_TESTS_PROP_SIM_SCENARIO_NAIVE_INSTANCE_H

#include "sim/cost/cost.h"
#include "sim/replay/replay.h"

struct naive_request {
  uint32_t outputs;      /* tokens produced */
  uint32_t computed;     /* tokens with KV, those of the step being formed included */
  uint32_t pages;        /* held */
  uint32_t preemptions;
  bool decoding;         /* all known tokens have KV once its token of this step is written */
  bool joined;           /* in this step */
  uint32_t chunk;        /* tokens computed in this step, 0 = none */
  kc_ps joined_ps, resident_ps, first_ps, last_ps;
  bool arrived;
  kc_ps due_ps;          /* sessions: when it is to be offered, KC_PS_NEVER = not known yet */
  uint64_t demand_pages; /* what it counts for in the demand; 0 before arrival and after the end */
};

struct naive_run {
  /* what to run: set by the caller */
  struct kc_sched_config sched;
  uint32_t pages;
  const struct kc_cost *cost;
  struct kc_request *requests; /* closed loop: room; written as they are offered */
  uint32_t request_count;
  bool closed;
  struct kc_closed_config closed_config;
  const uint32_t *after;       /* sessions, else NULL: requests[] holds all rows, and those with a
                                  predecessor get their arrival as the run goes */
  const kc_ps *wait_ps;

  /* results */
  struct kc_outcome *outcomes;
  uint32_t outcome_count;
  kc_ps *gaps;                 /* between successive tokens of a request */
  uint64_t gap_count, gap_capacity;
  struct kc_summary summary;
  kc_ps oom_ps;
  uint32_t oom_request;
  uint64_t oom_demand_pages;

  /* state */
  kc_ps clock_ps, duration_ps;
  bool step_formed;
  struct kc_aggregates sum;
  struct naive_request *state;
  uint32_t *waiting, waiting_count;
  uint32_t *running, running_count;
  uint32_t *order;             /* [arrived) request numbers in the order of arrival */
  uint32_t offered, arrived;
};

void naive_begin(struct naive_run *run);
/* Ends the step formed before, if any, and forms the next that runs something. False at the end. */
bool naive_next(struct naive_run *run);
/* Summary and result_sha256. */
void naive_finish(struct naive_run *run);
void naive_end(struct naive_run *run);

#endif
