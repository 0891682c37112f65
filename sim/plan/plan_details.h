/* What a plan says beside its winner: why nothing was found, what limits the winner, what one more
 * unit of each resource would buy, and how much traffic a deployment holds. Every figure here comes
 * from an evaluation that is counted (plan->count.runs_after), or from floors.
 */
#ifndef KC_SIM_PLAN_PLAN_DETAILS_H
#define KC_SIM_PLAN_PLAN_DETAILS_H

#include "sim/plan/plan.h"

/* ---- nothing was found ---- */

/* One requirement. */
struct kc_plan_part {
  bool floor_known;
  double floor;            /* the least that any column can do */
  bool alone;              /* it is a latency, of requests alone on an empty server */
  uint32_t floor_column;
  uint32_t prompt_tokens;  /* of ttft_*: the prompt whose length decides the figure; else 0 */
  bool impossible;         /* the floor misses the limit: no deployment of the grid can meet it */
  bool met;                /* some evaluation meets it */
  bool seen;               /* some evaluation knows the figure */
  double best;             /* of those */
};

/* That requests are answered at all. */
struct kc_plan_lost {
  double floor;            /* the least share that every column must leave unanswered */
  bool impossible;         /* more than the request allows */
  bool seen;
  double least;            /* share, of all evaluations */
};

/* What costs least of the whole space, or with `by_gpus` has the fewest GPUs, whatever it does:
 * what a budget that leaves no candidate has to pay for. */
struct kc_search_probe kc_plan_least(const struct kc_plan *plan, bool by_gpus);

/* What misses its limits by no more than this share above the least miss is as good; the cheapest
 * of those is the best that exists. */
#define KC_PLAN_ALMOST 0.01

/* Fills one part for each requirement, and `lost`. Evaluates columns that the floors had excluded
 * when they may be the best that exists; plan->near_miss is that best. */
enum kc_err kc_plan_explain(struct kc_plan *plan, struct kc_plan_part part[KC_REQUIREMENTS_MAX],
                            struct kc_plan_lost *lost, struct kc_diag *diag);

/* ---- what limits the winner ---- */

/* Shares of the time that its replicas had, from first arrival to last end. */
struct kc_plan_limits {
  bool known;
  double prefill;   /* computing prompts: what they add to the steps that they are in */
  double decode;    /* reading weights and KV for decodes */
  double host;      /* the host term of every step */
  double idle;      /* nothing to do */
  double memory;    /* of all that, while a request waited and the pool had no page for it */
  int nearest;      /* requirement whose figure is nearest its limit; -1: none */
  const char *name; /* what that figure waits for: "memory", "bursts", "prefill compute",
                       "decode bandwidth", "host" or "idle time" */
};

enum kc_err kc_plan_limits(struct kc_plan *plan, struct kc_plan_limits *limits,
                           struct kc_diag *diag);

/* ---- the next unit ---- */

enum { KC_PLAN_UNITS_MAX = 12 };

/* One change of the winner, evaluated under the same traffic. */
struct kc_plan_unit {
  char what[64];           /* "+8 GiB of memory per GPU" */
  bool possible;           /* else `why` says what is in the way */
  struct kc_diag why;
  uint32_t run;            /* its entry of run[] */
  int32_t gpus;            /* more (or fewer) than the winner has */
  double usd_hour;
};

struct kc_plan_units {
  uint32_t count;
  struct kc_plan_unit unit[KC_PLAN_UNITS_MAX];
};

enum kc_err kc_plan_next_units(struct kc_plan *plan, struct kc_plan_units *units,
                               struct kc_diag *diag);

/* ---- keeping the answer ---- */

/* Of a winner: the entry of run[] with its spare replicas under the traffic as it is recorded, the
 * winner's own when that is the same; and the commands, heap, that give the figures of the two, the
 * second NULL when they are the same. */
struct kc_plan_bought {
  uint32_t run;
  char *command, *command_bought;
};

/* Writes the finished plan's answer to the database of its request; nothing to do without one. Of a
 * plan that found nothing only its candidates are kept. Errors of the store; KC_ERR_MEMORY. */
enum kc_err kc_plan_keep(struct kc_plan *plan, const struct kc_plan_units *units,
                         const struct kc_plan_limits *limits, const struct kc_plan_bought *bought,
                         struct kc_diag *diag);

#endif
