/* Finds the best candidate of a grid with few evaluations.
 *
 * A column is one choice of everything but the number of replicas; a candidate is a column and a
 * number of replicas. The best one is feasible and comes first in a total order: cost, second cost,
 * order of the columns as given. What decides a candidate without evaluating it:
 *
 *   rule      why                                                     rests on
 *   price     it comes behind the best one found                      nothing: exact
 *   bound     fewer or more replicas than its column's bounds allow   the bounds
 *   twin      equal to one evaluated but for a limit that none met    nothing: exact
 *   replicas  it failed clearly with as many or more replicas         more replicas never hurt
 *   faster    a column whose steps are nowhere slower, with no less   faster steps and more memory
 *             memory and as many replicas, failed clearly             never hurt
 *
 * "Failed" is by a figure that more hardware helps: one that costs more fails and decides nothing
 * else. "Clearly" is by more than the problem's margin: percentiles of a finite trace wobble, so a
 * narrow failure decides its own candidate alone. kc_search_all() evaluates everything, to check
 * the rest.
 *
 * Probes are chosen in batches that do not depend on the number of threads. */
#ifndef KC_SIM_PLAN_SEARCH_H
#define KC_SIM_PLAN_SEARCH_H

#include "engine/base/diag.h"

enum {
  KC_SEARCH_BATCH = 4,
  KC_SEARCH_PANEL_MAX = 40,
  KC_SEARCH_CANDIDATES_MAX = 1 << 20
};
#define KC_SEARCH_MARGIN 0.03 /* usual; of the limit that was missed */

struct kc_search_column {
  uint64_t cost[2];      /* of one replica; the order is by the sum of cost[0], then of cost[1] */
  uint32_t replicas_min; /* fewer cannot do; UINT32_MAX: no number can */
  uint32_t replicas_max; /* nor can more */
  double replicas_guess; /* > 0; where to look first, not a claim */
  double value_max;      /* no candidate of the column can have a higher value; for the search of a
                            highest value */
  uint32_t rival;        /* columns of one number differ only in what panel and pages say */
  uint32_t twin;         /* columns of one number differ only in cap, and in pages where the cap
                            costs memory */
  uint32_t cap;          /* most requests at once, of one replica */
  uint64_t pages;        /* of one replica's pool, in some unit common to its rivals */
  uint64_t pages_request; /* at least what the longest request needs */
  bool pool_shows;       /* decisions depend on the pool's size even while it is not short */
  uint64_t panel[KC_SEARCH_PANEL_MAX]; /* durations of the same steps; unused entries 0 */
};

struct kc_search_probe {
  uint32_t column;
  uint32_t replicas;
};

/* What an evaluation says. */
struct kc_search_verdict {
  bool feasible;
  double excess;         /* worst figure that more hardware helps / its limit; <= 1 when feasible */
  double value;          /* what is to be high, in the search of a highest value */
  uint32_t peak_running; /* of the fullest replica */
  uint64_t peak_pages;
};

enum kc_search_rule {
  KC_SEARCH_RAN,
  KC_SEARCH_PRICE,
  KC_SEARCH_BOUND,
  KC_SEARCH_TWIN,
  KC_SEARCH_REPLICAS,
  KC_SEARCH_FASTER,
  KC_SEARCH_RULES
};
const char *kc_search_rule_name(enum kc_search_rule rule);

struct kc_search_problem {
  const struct kc_search_column *column; /* in the order of preference; borrowed */
  uint32_t column_count;
  const uint32_t *replicas;  /* ascending numbers of replicas that serve; borrowed */
  uint32_t replica_count;
  uint32_t spare;            /* bought on top of those that serve */
  double margin;             /* >= 0 */
  uint64_t cost_max[2];      /* candidates that cost more are not in the grid; UINT64_MAX: none */
  /* Evaluates `count` candidates, in any order or at once. An error ends the search. */
  enum kc_err (*evaluate)(void *context, const struct kc_search_probe *probe, uint32_t count,
                          struct kc_search_verdict *verdict, struct kc_diag *diag);
  void *context;
};

struct kc_search_run {
  struct kc_search_probe probe;
  struct kc_search_verdict verdict;
};

struct kc_search_result {
  bool found;
  uint32_t best;              /* entry of run[]; the winner has always been evaluated */
  struct kc_search_run *run;  /* all evaluations, in order; heap */
  uint32_t run_count;
  uint64_t candidates;        /* of the grid: the sum of decided[] */
  uint64_t decided[KC_SEARCH_RULES]; /* candidates, by what decided them */
};

/* The candidate of least cost. Errors: evaluate's, KC_ERR_MEMORY. `result` is filled from nothing;
 * free it, after an error too. */
enum kc_err kc_search_cheapest(const struct kc_search_problem *problem,
                               struct kc_search_result *result, struct kc_diag *diag);

/* The candidate of the highest value, each column with as many replicas as cost_max pays for; equal
 * values by cost and order. Rules `price` (its value_max is too low) and `faster`. */
enum kc_err kc_search_highest(const struct kc_search_problem *problem,
                              struct kc_search_result *result, struct kc_diag *diag);

/* The same answers from evaluating every candidate of the grid. */
enum kc_err kc_search_all(const struct kc_search_problem *problem, bool highest,
                          struct kc_search_result *result, struct kc_diag *diag);

void kc_search_free(struct kc_search_result *result);

#endif
