/* Finding a GPU and its module: see engine_device.h. The program links no CUDA, so what is missing
 * is found here, and said. */
#include "sim/cli/engine_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

/* KC_OK when there is a driver and something for it to drive. */
static enum kc_err look_for_gpu(struct kc_diag *diag)
{
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  KC_ASSERT(diag != NULL);
  if (driver == NULL) {
    return kc_fail(diag, KC_ERR_DEVICE, "a GPU was asked for, but there is no NVIDIA driver on "
                   "this machine (libcuda.so.1 is not found): install the driver");
  }
  dlclose(driver);
  if (access("/dev/nvidiactl", F_OK) == 0) return KC_OK;
  return kc_fail(diag, KC_ERR_DEVICE, "a GPU was asked for and its driver is installed, but the "
                 "machine has no NVIDIA GPU (/dev/nvidiactl is not there): use one that has");
}

/* Beside the program, or where `cmake --install` puts it. */
static void find_module(char path[KC_DIAG_PATH_BYTES])
{
  static const char *const places[] = {"kvcap_cuda.so", "../lib/kvcap/kvcap_cuda.so"};
  char program[KC_DIAG_PATH_BYTES];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  KC_ASSERT(sizeof program > 1);
  program[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(program, '/');
  if (slash != NULL) slash[1] = '\0';
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const int written = snprintf(path, KC_DIAG_PATH_BYTES, "%s%s", program, places[i]);
    if (written > 0 && written < KC_DIAG_PATH_BYTES && kc_file_exists(path)) return;
  }
  snprintf(path, KC_DIAG_PATH_BYTES, "%s", places[0]);
}

static enum kc_err open_gpu(struct kc_accelerator *device, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  const char *named = getenv("KVCAP_MODULE");
  KC_ASSERT(device != NULL);
  if (named != NULL && named[0] != '\0') return kc_accelerator_open(device, named, 0, diag);
  KC_TRY(look_for_gpu(diag));
  find_module(path);
  return kc_accelerator_open(device, path, 0, diag);
}

enum kc_err kc_engine_device_open(struct kc_accelerator *device, enum kc_engine_device which,
                                  struct kc_diag *diag)
{
  KC_ASSERT(device != NULL && diag != NULL);
  *device = (struct kc_accelerator){.site = kc_site_host()};
  if (which == KC_ENGINE_CPU) return KC_OK;
  const enum kc_err err = open_gpu(device, diag);
  if (err == KC_OK || which == KC_ENGINE_GPU) return err;
  const size_t length = strlen(diag->text);
  snprintf(diag->text + length, sizeof diag->text - length, ", or use --device cpu");
  return err;
}

const char *kc_engine_device_name(const struct kc_accelerator *device)
{
  KC_ASSERT(device->site.ops != NULL);
  return kc_site_is_host(&device->site) ? "cpu" : device->info.name;
}
