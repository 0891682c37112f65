/* What `kvcap precision` prints (private to sim/cli). */
#ifndef KC_SIM_CLI_PRECISION_OUTPUT_H
#define KC_SIM_CLI_PRECISION_OUTPUT_H

#include "sim/plan/precision_table.h"

/* Each returns the exit status. */
int kc_precision_print(const struct kc_precision_table *table);
int kc_precision_print_csv(const struct kc_precision_table *table);
int kc_precision_print_json(const struct kc_precision_table *table);

#endif
