/* Which sweep a report is about, and which of its keys are the axes (private to sim/cli). */
#ifndef KC_SIM_CLI_REPORT_SWEEP_H
#define KC_SIM_CLI_REPORT_SWEEP_H

#include "sim/store/store.h"

/* Chooses sweep `sweep_id` (see kc_store_choose_sweep). `across` and `load` are keys of the sweep
 * or their ends ("input"), or "": then the load is a number of requests or a rate where one varies,
 * and across is the context, or another number. KC_ERR_INPUT, KC_ERR_USAGE;
 * KC_ERR_LIMIT when more would remain than a picture can show. */
enum kc_err kc_report_choose_sweep(struct kc_store *store, const char *views_sql, int64_t sweep_id,
                                   const char *across, const char *load, struct kc_diag *diag);

#endif
