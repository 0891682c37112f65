/* The parts of `kvcap engine`, and what they share. */
#ifndef KC_SIM_CLI_CMD_ENGINE_H
#define KC_SIM_CLI_CMD_ENGINE_H

#include "sim/cli/cli.h"

int kc_cmd_engine_run(int argc, char **argv);
int kc_cmd_engine_eval(int argc, char **argv);
int kc_cmd_engine_check(int argc, char **argv);
int kc_cmd_engine_bench(int argc, char **argv);
int kc_cmd_engine_rank(int argc, char **argv);

#endif
