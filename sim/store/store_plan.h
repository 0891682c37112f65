/* The answer of a plan in the database: beside its question, which is the row of a sweep, and what
 * it ran, which are points (store_sweep.h). Candidates and units name their points by number.
 *
 *   sweep 1 --- 0..1 plan 1 --- n plan_requirement   what was asked of it
 *                         +--- n plan_candidate     what was run, as bought, and how it did
 *                         +--- n plan_unit          what one more of each resource would buy
 */
#ifndef KC_SIM_STORE_STORE_PLAN_H
#define KC_SIM_STORE_STORE_PLAN_H

#include "sim/store/store.h"

#define KC_STORED_POINT_NONE UINT64_MAX

struct kc_stored_requirement {
  const char *text, *figure;
  bool wants_low;
  double limit;
};

struct kc_stored_candidate {
  uint64_t number;
  const char *gpu, *weights, *kv;
  uint32_t replicas;            /* that serve */
  uint32_t gpus_replica, tensor, page_size, chunk, max_running;
  uint32_t gpus;                /* as bought, like the price */
  bool priced;
  double usd_hour;
  double excess;                /* worst figure / its limit; above 1 misses */
  int worst;                    /* place of that requirement; -1: requests were lost, or none ran */
};

struct kc_stored_unit {
  const char *what;
  uint64_t number;              /* KC_STORED_POINT_NONE: not possible */
  const char *why;              /* then */
  uint32_t gpus;
  bool priced;
  double usd_hour;
  double excess;
};

/* Strings and arrays are borrowed for the call. */
struct kc_stored_plan {
  const char *objective;        /* "usd", "gpus", "goodput", "output_tok_s" */
  uint32_t spare;
  double headroom, lost;        /* shares */
  double budget_usd_hour;       /* 0: none */
  uint32_t gpus_max;            /* 0: none */
  /* Points; KC_STORED_POINT_NONE where there is none. `as_bought`: the winner with its spare
   * replicas, under the traffic as recorded. */
  uint64_t winner, as_bought, runner_up, near_miss;
  const char *limited_by, *nearest; /* NULL: not known */
  double prefill_share, decode_share, host_share, idle_share, memory_share; /* with limited_by */
  const char *command;          /* that gives the winner's figures; NULL without one */
  const char *command_bought;   /* and those of `as_bought`, where that is another point */
  uint64_t combinations, no_fit, refused, candidates, runs, runs_after;
  uint64_t by_price, by_bound, by_twin, by_replicas, by_faster;
  const char *why_no_fit, *why_refused; /* of the first; NULL: none */
  const struct kc_stored_requirement *requirement;
  const struct kc_stored_candidate *candidate;
  const struct kc_stored_unit *unit;
  uint32_t requirement_count, candidate_count, unit_count;
};

/* Writes the answer in one transaction, in place of an earlier one. The sweep and the points that
 * it names are there. Errors KC_ERR_STORE. */
enum kc_err kc_store_plan_write(struct kc_store *store, int64_t sweep_id,
                                const struct kc_stored_plan *plan, struct kc_diag *diag);

/* Takes an answer away: its points are about to change. */
enum kc_err kc_store_plan_forget(struct kc_store *store, int64_t sweep_id, struct kc_diag *diag);

#endif
