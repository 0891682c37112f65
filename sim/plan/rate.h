/* The highest load that one deployment holds: the most that its trace can be sped up, or the most
 * concurrency of a closed loop, while every requirement is met.
 *
 *   load 1 --holds--> 2, 4, 8 ... until one fails    --+
 *          --fails--> 1/2, 1/4 ... until one holds   --+--> halve the bracket until it is narrow
 *
 * Both ends are evaluated: the answer held, and a load that is higher by no more than the tolerance
 * did not. Between them, and wherever else it was not asked, holding is taken to be monotone.
 */
#ifndef KC_SIM_PLAN_RATE_H
#define KC_SIM_PLAN_RATE_H

#include "sim/plan/point_store.h"
#include "sim/scenario/require.h"

enum { KC_RATE_PROBES_MAX = 64, KC_RATE_UNIT = 1000, KC_RATE_DOUBLINGS = 12 };

/* How the name of a stored search begins; the scenario's own follows. */
#define KC_RATE_NAME "highest rate: "

struct kc_rate_request {
  const char *path;
  const char *const *sets; /* at most KC_SWEEP_BASE_SETS_MAX */
  size_t set_count;
  struct kc_requirement require[KC_REQUIREMENTS_MAX];
  uint32_t require_count;  /* 0: the scenario's slo */
  double lost;             /* share of requests that may end without an answer */
  double tolerance;        /* share; the bracket's width, > 0 */
  struct kc_store *store;  /* NULL: nothing is kept, nothing is known */
  struct kc_inputs *inputs;
  const char *version;     /* of the program */
  bool (*interrupted)(void *context); /* may be NULL */
};

/* One evaluation. */
struct kc_rate_probe {
  uint64_t load;           /* thousandths of the trace's rate, or requests at once */
  bool holds;
  double excess;
  int worst;               /* requirement; -1: requests were lost */
  struct kc_point_result result;
};

struct kc_rate {
  struct kc_point base;
  struct kc_requirement require[KC_REQUIREMENTS_MAX];
  uint32_t require_count;
  bool closed;             /* load is a concurrency */
  double arrivals_s;       /* requests a second of the trace as it stands; 0 unless it is one */
  uint32_t probe_count;
  struct kc_rate_probe probe[KC_RATE_PROBES_MAX]; /* in order */
  int64_t sweep_id;        /* in the store, whose points are the probes in order */
  uint64_t known;          /* of the probes, taken from the store instead of run */
  uint32_t best, above;    /* entries of probe[]; UINT32_MAX: no load holds; none that was tried
                              fails */
};

/* Large: on the heap. Errors as kc_plan_open. */
enum kc_err kc_rate_find(struct kc_rate *rate, const struct kc_rate_request *request,
                         struct kc_diag_list *problems);

#endif
