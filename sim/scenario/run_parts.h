/* What the files of a run need of each other. Private to sim/scenario. */
#ifndef KC_SIM_SCENARIO_RUN_PARTS_H
#define KC_SIM_SCENARIO_RUN_PARTS_H

#include "sim/scenario/scenario_run.h"

/* ---- run_fleet.c ---- */

/* Which rows belong together, for a router that keeps them together. KC_ERR_INPUT when the trace
 * cannot say. */
enum kc_err kc_run_group_rows(struct kc_run *run, struct kc_diag *diag);

/* Memory of the run, an executor for each replica and, of several, a request table. `run->replay`
 * is otherwise complete. */
enum kc_err kc_run_reserve(struct kc_run *run, struct kc_diag *diag);

#endif
