/* The parts of `kvcap calibrate` (private to sim/cli). */
#ifndef KC_SIM_CLI_CMD_CALIBRATE_H
#define KC_SIM_CLI_CMD_CALIBRATE_H

#include "sim/cli/cli.h"

int kc_cmd_calibrate_kernels(int argc, char **argv);
int kc_cmd_calibrate_serving(int argc, char **argv);
int kc_cmd_calibrate_log(int argc, char **argv); /* serving, when --log is given */

#endif
