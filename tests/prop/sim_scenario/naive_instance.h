/* The plain twin of one simulated instance: scheduler, page counts, clock, closed loop, step model
 * and results, written from the rules without any of the product's cleverness. No rings,
 * heaps, cursors or histograms: every request is a row of counters, every sum is a loop over its
 * members, every chunk a loop over its tokens, every gap between tokens an entry of an array. It is
 * slow, and meant to be read beside the rules.
 *
 *   naive_instance.c             who comes and goes, the clock, what a step costs and brings
 *   naive_policy_vllm.c, _sglang.c   who runs
 *   naive_cache.c, _blocks.c, _radix.c   which pages: what a page holds is the whole sequence that
 *                                it ends, found by comparing
 *   naive_results.c              statistics and the canonical bytes
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
  uint32_t preemptions;
  bool decoding;         /* all known tokens have KV once its token of this step is written */
  bool joined;           /* in this step */
  uint32_t chunk;        /* tokens computed in this step, 0 = none */
  kc_ps joined_ps, resident_ps, first_ps, last_ps;
  kc_ps waits_from_ps;   /* since it came to wait; what lies before is in kv_wait_ps */
  kc_ps kv_wait_ps, host_ps;
  struct kc_spent first; /* until its first token */
  uint32_t cached_tokens, recached_tokens;
  uint32_t hits;         /* tokens found when it joined last */
  /* coming and going */
  bool arrived, started, ended;
  uint32_t place;        /* it was the place-th to come */
  kc_ps due_ps;          /* sessions: when it is to be offered, KC_PS_NEVER = not known yet */
  kc_ps cancel_ps, timeout_ps, queue_timeout_ps; /* KC_PS_NEVER = never */
  bool given_up;         /* ends when the step under way has ended */
  enum kc_status give_up_status;
  bool ghost;            /* has ended, and has not been settled: it still has slot and pages */
  bool takes_part;       /* ghost: decodes once more */
  uint32_t kv_at_end;    /* tokens with KV when it ended */
  uint64_t demand_pages; /* what it counts for in the demand; 0 before arrival and after the end */
  /* pages */
  uint32_t pages;        /* held */
  uint32_t shared;       /* RADIX: of those, the first so many belong to the tree */
  uint32_t publish_later; /* tokens of a prompt that is done and cannot be found yet */
  uint32_t *keys, key_count; /* what its pages hold, written out */
  uint32_t *row;         /* BLOCKS: its pages by number */
};

/* BLOCKS: a page, by number. */
struct naive_page {
  const uint32_t *keys;  /* what it and all before it hold */
  uint32_t length;       /* pages of that, itself included; 0 = cannot be found */
  uint64_t found_since;
  uint32_t users;
};

/* RADIX: a node. */
struct naive_node {
  const uint32_t *keys;  /* from the root */
  uint32_t start, end;   /* its own pages */
  uint64_t used;         /* larger is later */
};

struct naive_run {
  /* what to run: set by the caller */
  struct kc_sched_config sched;
  bool sglang;                 /* else vllm */
  enum kc_cache_kind cache;
  uint32_t pages;
  uint32_t queue_limit;
  const struct kc_cost *cost;
  struct kc_request *requests; /* closed loop: room; written as they are offered */
  uint32_t request_count;
  bool closed;
  struct kc_closed_config closed_config;
  const uint32_t *after;       /* sessions, else NULL: requests[] holds all rows, and those with a
                                  predecessor get their arrival as the run goes */
  const kc_ps *wait_ps;
  const struct kc_patience *patience; /* by class, or NULL */
  const kc_ps *cancel_after_ps;       /* by request, or NULL */

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
  kc_ps clock_ps, duration_ps, host_ps;
  bool short_of_pages;         /* whoever waits while this step runs waits for pages */
  bool in_step;                /* a step is formed and has not ended */
  struct kc_aggregates sum;
  struct naive_request *state;
  uint32_t *waiting, waiting_count;
  uint32_t *running, running_count; /* ghosts too */
  uint32_t *settle, settle_count;   /* prompts to publish, ended ones to release, in that order */
  uint32_t *given_up, given_up_count;
  uint32_t *order;             /* [arrived) request numbers in the order of arrival */
  uint32_t offered, arrived;
  /* overlap */
  kc_ps last_start_ps;         /* of the step before: what came later is not seen */
  bool sees_all;
  /* sglang */
  uint32_t chunked;            /* request that is computed in parts, NAIVE_NOBODY = none */
  bool full;                   /* nobody is admitted until a slot is given up */
  double ratio;                /* of what requests may still make, what is set aside for it */
  /* pages */
  struct naive_page *page;     /* BLOCKS */
  uint32_t *last_key;          /* BLOCKS: [pages] key of the page itself, KC_KEY_NONE = none */
  uint32_t *queue, queue_count; /* BLOCKS: pages that nobody uses, next to be taken first */
  uint64_t publications;
  struct naive_node *node;     /* RADIX */
  uint32_t node_count, node_capacity;
  uint64_t uses;
};

void naive_begin(struct naive_run *run);
/* Ends the step formed before, if any, and forms the next that runs something. False at the end. */
bool naive_next(struct naive_run *run);
/* Summary and result_sha256. */
void naive_finish(struct naive_run *run);
void naive_end(struct naive_run *run);

#endif
