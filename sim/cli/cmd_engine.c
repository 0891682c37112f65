/* kvcap engine: the reference engine, which computes what the simulator predicts.
 *
 *   kvcap engine               overview on stderr, exit 2
 *   kvcap engine PART ...      parts[].run(argc - 1, argv + 1)
 *
 * The program links no CUDA: a GPU is looked for only when it is asked for.
 */
#include "sim/cli/cmd_engine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

static const struct kc_command parts[] = {
  {"run", "compute the tokens of a scenario's requests with a small model", kc_cmd_engine_run},
  {"check", "check every operation, the page tags and the memory of the engine",
   kc_cmd_engine_check},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void print_overview(FILE *out)
{
  fputs("usage: kvcap engine PART [arguments]\n\n"
        "The reference engine runs the simulator's scheduler and page pool, and computes.\n\n",
        out);
  for (size_t i = 0; i < PARTS; i++) fprintf(out, "  %-9s %s\n", parts[i].name, parts[i].purpose);
  fputs("\n`kvcap engine PART --help` prints the options of a part.\n", out);
}

static int fail_unknown(const char *name)
{
  const char *nearest = parts[0].name;
  struct kc_diag diag;
  for (size_t i = 1; i < PARTS; i++) {
    if (kc_edit_distance(name, parts[i].name) < kc_edit_distance(name, nearest)) {
      nearest = parts[i].name;
    }
  }
  kc_fail(&diag, KC_ERR_USAGE, "\"%.32s\" is not something `kvcap engine` does; did you mean "
          "\"%s\"? `kvcap engine --help` lists the parts", name, nearest);
  return kc_cli_fail(&diag);
}

int kc_cmd_engine(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  if (argc < 2) {
    print_overview(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_overview(stdout);
    return 0;
  }
  for (size_t i = 0; i < PARTS; i++) {
    if (strcmp(parts[i].name, argv[1]) == 0) return parts[i].run(argc - 1, argv + 1);
  }
  return fail_unknown(argv[1]);
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
