/* The cheapest deployment that meets an SLO on a workload.
 *
 *   scenario, axes, SLO --open--> columns: every choice of GPU, formats, degree, pages, chunk, cap
 *                                 |  memory: what does not fit is out                (no run)
 *                                 |  floors: what cannot be fast enough is out       (no run)
 *                                 `--solve--> search over columns x replicas         (runs)
 *                                             --> winner, runner-up, nearest miss
 *   winner --plan_next--> what it is limited by, what one more unit of each resource would buy
 *
 * A deployment's price is that of its GPUs for an hour, busy or not. It meets the SLO when every
 * requirement holds and no more than `lost` of the requests were rejected, failed or timed out.
 * Every evaluation of a trace, whole or scaled, counts as a run and is counted.
 */
#ifndef KC_SIM_PLAN_PLAN_H
#define KC_SIM_PLAN_PLAN_H

#include "sim/plan/bound.h"
#include "sim/plan/point_store.h"
#include "sim/plan/search.h"
#include "sim/plan/space.h"
#include "sim/scenario/require.h"

enum kc_plan_objective {
  KC_PLAN_USD,          /* least price an hour, then fewest GPUs */
  KC_PLAN_GPUS,         /* fewest GPUs, then least price where prices are known */
  KC_PLAN_GOODPUT,      /* highest goodput_req_s for the budget */
  KC_PLAN_OUTPUT_TOK_S  /* highest output_tok_s for the budget */
};

struct kc_plan_request {
  const char *path;              /* of the scenario; borrowed, as `sets` is */
  const char *const *sets;       /* "key=value" */
  size_t set_count;              /* at most KC_SWEEP_BASE_SETS_MAX */
  struct kc_plan_space space;    /* as listed; completed by kc_plan_open */
  struct kc_requirement require[KC_REQUIREMENTS_MAX];
  uint32_t require_count;        /* 0: the scenario's slo */
  enum kc_plan_objective objective;
  double budget_usd_hour;        /* 0 = none */
  uint32_t gpus_max;             /* 0 = no limit */
  uint32_t spare;                /* replicas that may be down while the SLO holds */
  double headroom;               /* the SLO holds for traffic faster by this share */
  double lost;                   /* share of requests that may end without an answer */
  bool exhaustive;               /* evaluate the whole grid as well, and compare */
  uint32_t threads;              /* >= 1 */
  const char *version;           /* of the program */
  bool (*interrupted)(void *context); /* may be NULL; asked from every thread */
  /* Told after each batch, on the caller's thread: how many were run, of how many (0: the search
   * does not know). May be NULL. */
  void (*progress)(void *progress_context, uint64_t done, uint64_t all);
  void *progress_context;
  struct kc_store *store;        /* NULL: nothing is kept, nothing is known */
};

/* One choice of everything but the number of replicas. */
struct kc_plan_column {
  enum kc_point_status status;   /* of its bill; NO_FIT and REFUSED columns are not searched */
  bool hopeless;                 /* its floors miss the SLO: it is in the grid, and never run; so
                                    may one be whose floors do with each number of replicas */
  uint32_t number;               /* in the space */
  char gpu[KC_GPU_NAME_BYTES], weights[KC_AXIS_VALUE_BYTES], kv[48];
  uint32_t tensor, gpus;         /* of one replica */
  bool four_bits;                /* its largest weights are held in four bits already */
  uint32_t page_size, chunk, cap;
  bool priced;
  double usd_hour;               /* of one replica */
  struct kc_figure_set floors;   /* with any of the listed numbers of replicas */
  double span_s;                 /* the least that a run lasts, with any of them; 0: not known */
  double work_s;                 /* the least that replicas are busy, together; 0: likewise */
  double lost;                   /* share of requests that it cannot answer whatever the load */
  double served_s;               /* requests a second that a replica can do, by its step model */
};

/* One evaluation. */
struct kc_plan_run {
  struct kc_search_probe probe;  /* column: index into columns[] */
  uint64_t number;               /* of its point in the database */
  struct kc_point_result result;
  double excess;                 /* worst requirement: value / limit; <= 1 exactly when all hold */
  int worst;                     /* which one; -1: requests were lost */
  double helped;                 /* the worst of those that more hardware helps to meet */
};

struct kc_plan_counts {
  uint64_t columns, refused, no_fit, hopeless;
  uint64_t candidates;           /* of the columns that fit */
  uint64_t decided[KC_SEARCH_RULES]; /* of the candidates of columns that were searched */
  uint64_t runs;                 /* of the search */
  uint64_t runs_after;           /* for the answer's details */
  uint64_t exhaustive_runs;      /* of the whole grid */
  uint64_t known;                /* of all these, taken from the database instead of run */
};

struct kc_plan {
  struct kc_plan_request request; /* its space completed */
  struct kc_point base;           /* the scenario as it stands */
  struct kc_requirement require[KC_REQUIREMENTS_MAX];
  uint32_t require_count;
  struct kc_plan_column *columns; /* heap; all of them, in order of preference */
  uint32_t column_count;
  struct kc_search_column *search; /* heap; the searched ones */
  uint32_t *searched;              /* heap; their columns */
  uint32_t search_count;
  struct kc_bound_workload workload;
  bool monotone;                   /* more hardware never hurts a requirement; else failures of
                                      some decide nothing but their own candidate */
  bool cached;                     /* prompts find each other in a cache */
  struct kc_inputs *inputs;
  struct kc_plan_run *run;        /* heap; every evaluation in order */
  uint32_t run_count, run_capacity;
  uint64_t planned_runs;           /* while the whole grid is run; else 0 */
  struct kc_known_points known;   /* of request.store */
  int64_t sweep_id;               /* in it */
  bool forgotten;                 /* it holds no earlier answer to this question */
  struct kc_plan_counts count;
  struct kc_diag why_refused, why_no_fit; /* the first of each */
  bool found;
  uint32_t winner;                /* entries of run[], here and below; UINT32_MAX: there is none */
  uint32_t runner_up;             /* the next best that was evaluated and meets the SLO */
  uint32_t near_miss;             /* not found: least excess; found: of those that cost less */
  bool agrees;                    /* exhaustive: the whole grid has the same winner */
  bool has_better;                /* or, if not, this one */
  struct kc_search_probe better;
};

/* Loads the scenario, completes the space, computes every column's bill and bounds. Nothing is run.
 * `plan` is filled from nothing; free it, after an error too. Problems of the file are in
 * `problems`; for other errors that list has one entry. */
enum kc_err kc_plan_open(struct kc_plan *plan, const struct kc_plan_request *request,
                         struct kc_diag_list *problems);

/* Searches. Not finding anything is no error: see plan->found. */
enum kc_err kc_plan_solve(struct kc_plan *plan, struct kc_diag *diag);

void kc_plan_free(struct kc_plan *plan);

/* ---- for whoever prints, and for the parts of the plan ---- */

/* What makes the scenario that candidate, in as few changes as it takes: as bought, with its spare
 * replicas under the traffic as recorded, or as judged, without them and with the headroom. */
void kc_plan_sets_of(const struct kc_plan *plan, const struct kc_search_probe *probe,
                     bool as_bought, struct kc_plan_sets *sets);

/* Evaluates the scenario with the user's changes and `sets` on top, and judges it as `probe`.
 * *index receives its entry of run[]. Errors: KC_ERR_INTERRUPTED, and what keeps a run from being
 * made at all; one that does not fit is no error. */
enum kc_err kc_plan_evaluate(struct kc_plan *plan, const struct kc_search_probe *probe,
                             const struct kc_plan_sets *sets, uint32_t *index,
                             struct kc_diag *diag);

/* Whether the objective is the most of a figure for the budget, and of which. */
bool kc_plan_wants_most(enum kc_plan_objective objective, enum kc_figure *figure);

/* GPUs and price an hour of a candidate, the spare replicas included. */
uint32_t kc_plan_gpus(const struct kc_plan *plan, const struct kc_search_probe *probe);
double kc_plan_usd_hour(const struct kc_plan *plan, const struct kc_search_probe *probe);

#endif
