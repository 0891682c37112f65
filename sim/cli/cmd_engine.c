/* kvcap engine: the reference engine, which computes what the simulator predicts.
 *
 *   kvcap engine               overview on stderr, exit 2
 *   kvcap engine PART ...      parts[].run(argc - 1, argv + 1)
 *
 * The program links no CUDA: a GPU is looked for only when it is asked for.
 */
#include "sim/cli/cmd_engine.h"

#include <dlfcn.h>
#include <unistd.h>

static const struct kc_command parts[] = {
  {"run", "compute the tokens of a scenario's requests with a small model", kc_cmd_engine_run},
  {"eval", "measure what each precision costs in quality, on a text", kc_cmd_engine_eval},
  {"check", "check every operation, the page tags and the memory of the engine",
   kc_cmd_engine_check},
};

int kc_cmd_engine(int argc, char **argv)
{
  static const struct kc_cli_parts all = {
    .name = "engine",
    .about = "The reference engine runs the simulator's scheduler and page pool, and computes.",
    .part = parts,
    .count = sizeof parts / sizeof parts[0]};
  return kc_cli_run_part(&all, argc, argv);
}

/* ---- devices ---- */

enum kc_err kc_engine_device_check(enum kc_engine_device device, struct kc_diag *diag)
{
  if (device == KC_ENGINE_CPU) return KC_OK;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == NULL) {
    return kc_fail(diag, KC_ERR_DEVICE, "a GPU was asked for, but there is no NVIDIA driver on "
                   "this machine (libcuda.so.1 is not found): install the driver, or use "
                   "--device cpu");
  }
  dlclose(driver);
  if (access("/dev/nvidiactl", F_OK) != 0) {
    return kc_fail(diag, KC_ERR_DEVICE, "a GPU was asked for and its driver is installed, but the "
                   "machine has no NVIDIA GPU (/dev/nvidiactl is not there): use --device cpu");
  }
  return kc_fail(diag, KC_ERR_DEVICE, "a GPU was asked for and there is one, but this version of "
                 "`kvcap engine` computes on the CPU only: use --device cpu");
}
