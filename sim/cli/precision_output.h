/* What `kvcap precision` prints (private to sim/cli). */
#ifndef KC_SIM_CLI_PRECISION_OUTPUT_H
#define KC_SIM_CLI_PRECISION_OUTPUT_H

#include "sim/plan/precision_table.h"

/* Each returns the exit status. */
int kc_precision_print(const struct kc_precision_table *table);
int kc_precision_print_csv(const struct kc_precision_table *table);
int kc_precision_print_json(const struct kc_precision_table *table);

/* What the table comes to, in lines of text: who keeps the SLO, and the fastest or why there is
 * none. Heap; "" when there is nothing to say, NULL when memory ran out. */
char *kc_precision_verdict(const struct kc_precision_table *table);

#endif
