/* Two databases' measurements side by side: kernels, ranks and qualities that machines gave. */
#ifndef KC_SIM_CLI_COMPARE_MEASUREMENTS_H
#define KC_SIM_CLI_COMPARE_MEASUREMENTS_H

#include "sim/cli/cli.h"

/* The newest figure of each subject and metric, in the order of subjects, on stdout: as a table, or
 * as one JSON document. The exit status. */
int kc_compare_measurements(const char *path_a, const char *path_b, bool json);

#endif
