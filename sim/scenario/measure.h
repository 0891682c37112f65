/* One figure of a scenario, by name: what `expect:` states and `kvcap verify` and `calibrate`
 * compare with.
 *
 *   scenario file + changes --load--> bill --(metrics of a run)--> run --> figures of one point
 */
#ifndef KC_SIM_SCENARIO_MEASURE_H
#define KC_SIM_SCENARIO_MEASURE_H

#include "sim/scenario/scenario_run.h"

/* A scenario with some keys changed: its bill and, when asked for, what a run of it gave. */
struct kc_point {
  struct kc_scenario scenario;
  struct kc_fit fit;            /* of the pool, whatever the requests */
  uint64_t requests_fit;        /* requests of a closed workload's length that the pool holds */
  bool ran;
  struct kc_summary summary;
  struct kc_cost_trust trust;   /* of the run */
  bool has_usd;
  double usd_per_mtok;
};

/* Loads `path` with `sets`, and computes the bill. Problems of the file are in `problems`. */
enum kc_err kc_point_load(struct kc_point *point, const char *path, const char *const *sets,
                          size_t set_count, struct kc_diag_list *problems);

/* Runs it. KC_ERR_NO_FIT and the like as kc_run_prepare. */
enum kc_err kc_point_run(struct kc_point *point, struct kc_diag *diag);

/* The figure that `expect` names, of a point that is loaded and, for metrics of a run, has run.
 * Errors: KC_ERR_INPUT when the scenario has no such figure (no price, no fixed request length). */
enum kc_err kc_point_metric(const struct kc_point *point, const struct kc_expect *expect,
                            double *value, struct kc_diag *diag);

#endif
