/* What the files of a plan need of each other. Private to sim/plan and its tests. */
#ifndef KC_SIM_PLAN_PLAN_PARTS_H
#define KC_SIM_PLAN_PLAN_PARTS_H

#include "sim/plan/plan.h"
#include "sim/plan/sweep.h"

enum { KC_PLAN_ALL_SETS_MAX = KC_SWEEP_BASE_SETS_MAX + KC_PLAN_SETS_MAX };

/* ---- plan_columns.c ---- */

/* Loads the bills of all columns of the space and bounds those that fit, on the request's threads:
 * columns[], search[], searched[], workload, counts. KC_ERR_NO_FIT when none fits, KC_ERR_INPUT
 * when every one is refused, each with the sentence of the first. */
enum kc_err kc_plan_build_columns(struct kc_plan *plan, struct kc_diag *diag);

/* Floors of a column with so many replicas: its own, their time, and what it costs. */
void kc_plan_floors_at(const struct kc_plan *plan, const struct kc_plan_column *column,
                       uint32_t replicas, struct kc_figure_set *floors);

/* Requirements against floors: the worst ratio of a floor to its limit, and which (-1: none). */
double kc_plan_floor_excess(const struct kc_plan *plan, const struct kc_figure_set *floors,
                            int *worst);

/* ---- plan_work.c ---- */

/* Calls work(context, task) for each task below `tasks`, on up to `threads` threads; returns when
 * all are done. */
void kc_plan_work(uint32_t threads, uint32_t tasks, void (*work)(void *context, uint32_t task),
                  void *context);

/* Sets as the loader wants them: the user's first. `out` has room for them all. */
size_t kc_plan_all_sets(const struct kc_plan *plan, const struct kc_plan_sets *sets,
                        const char *out[KC_PLAN_ALL_SETS_MAX]);

/* What makes the scenario that candidate as it is judged: the replicas that serve, without the
 * spare ones, under the traffic with its headroom. Appends. */
void kc_plan_serving_sets(const struct kc_plan *plan, const struct kc_search_probe *probe,
                          struct kc_plan_sets *sets);

/* The changes that make the traffic as much faster as the request's headroom says. */
void kc_plan_add_headroom(const struct kc_plan *plan, struct kc_plan_sets *sets);

/* ---- plan.c ---- */

/* The order of plans that meet the SLO: whether `a` comes first. */
bool kc_plan_before(const struct kc_plan *plan, const struct kc_plan_run *a,
                    const struct kc_plan_run *b);

#endif
