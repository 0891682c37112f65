/* The parts of `kvcap engine`, and what they share. */
#ifndef KC_SIM_CLI_CMD_ENGINE_H
#define KC_SIM_CLI_CMD_ENGINE_H

#include "sim/cli/cli.h"

int kc_cmd_engine_run(int argc, char **argv);
int kc_cmd_engine_eval(int argc, char **argv);
int kc_cmd_engine_check(int argc, char **argv);

enum kc_engine_device { KC_ENGINE_CPU, KC_ENGINE_CUDA };

/* KC_OK for the CPU. KC_ERR_DEVICE with what is missing for a GPU: driver, device or module. */
enum kc_err kc_engine_device_check(enum kc_engine_device device, struct kc_diag *diag);

#endif
