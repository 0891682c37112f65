/* Which sweep a report is about, and which of its keys are the axes (private to sim/cli). */
#ifndef KC_SIM_CLI_REPORT_SWEEP_H
#define KC_SIM_CLI_REPORT_SWEEP_H

#include "sim/store/store.h"

/* Strings are borrowed. */
struct kc_report_question {
  const char *sweep_sql, *plan_sql; /* reports/sql */
  int64_t sweep_id;
  const char *across, *load;
};

/* Chooses a sweep (see kc_store_choose_sweep); *of_plan says whether it is what a plan ran, whose
 * views are there then. `across` and `load` are keys of the sweep or their ends ("input"), or "":
 * then the load is a number of requests or a rate where one varies, and across is the context, or
 * another number; a plan has none. KC_ERR_INPUT, also of a plan without an answer; KC_ERR_USAGE;
 * KC_ERR_LIMIT when more would remain than a picture can show. */
enum kc_err kc_report_choose_sweep(struct kc_store *store,
                                   const struct kc_report_question *question, bool *of_plan,
                                   struct kc_diag *diag);

#endif
