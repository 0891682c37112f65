/* kvcap calibrate: measured figures in, parameters of a step model out. Nothing else in the program
 * fits anything.
 *
 *   kvcap calibrate               overview on stderr, exit 2
 *   kvcap calibrate PART ...      parts[].run(argc - 1, argv + 1)
 */
#include "sim/cli/cmd_calibrate.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

static const struct kc_command parts[] = {
  {"kernels", "profiles of op families from measured kernels", kc_cmd_calibrate_kernels},
  {"serving", "the host term and a few efficiencies, from rates that a server reached",
   kc_cmd_calibrate_serving},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void print_overview(FILE *out)
{
  fputs("usage: kvcap calibrate PART [arguments]\n\n"
        "Fits the parameters of step times to measurements, and says what the fit is worth.\n\n",
        out);
  for (size_t i = 0; i < PARTS; i++) fprintf(out, "  %-9s %s\n", parts[i].name, parts[i].purpose);
  fputs("\n`kvcap calibrate PART --help` prints the options of a part.\n", out);
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
  kc_fail(&diag, KC_ERR_USAGE, "\"%.32s\" is not something `kvcap calibrate` does; did you mean "
          "\"%s\"? `kvcap calibrate --help` lists the parts", name, nearest);
  return kc_cli_fail(&diag);
}

int kc_cmd_calibrate(int argc, char **argv)
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
