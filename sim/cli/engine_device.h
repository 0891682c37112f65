/* The device that `kvcap engine` computes on: --device cpu or cuda. */
#ifndef KC_SIM_CLI_ENGINE_DEVICE_H
#define KC_SIM_CLI_ENGINE_DEVICE_H

#include "engine/exec/site.h"

enum kc_engine_device {
  KC_ENGINE_CPU,
  KC_ENGINE_CUDA,
  KC_ENGINE_GPU /* of a command that is about GPUs and has no --device */
};

/* Opens it. The module is kvcap_cuda.so beside the program or in ../lib/kvcap, or what
 * KVCAP_MODULE names: another build, or the emulator's. KC_ERR_DEVICE with what is missing: driver,
 * device or module, and --device cpu where the user may choose. The CPU is the host's site and
 * needs nothing. */
enum kc_err kc_engine_device_open(struct kc_accelerator *device, enum kc_engine_device which,
                                  struct kc_diag *diag);

/* "cpu", or the GPU's name; "emulated on the CPU" when it is that. */
const char *kc_engine_device_name(const struct kc_accelerator *device);

#endif
