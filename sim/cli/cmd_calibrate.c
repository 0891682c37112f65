/* kvcap calibrate: measured figures in, parameters of a step model out. Nothing else in the program
 * fits anything.
 *
 *   kvcap calibrate               overview on stderr, exit 2
 *   kvcap calibrate PART ...      parts[].run(argc - 1, argv + 1)
 */
#include "sim/cli/cmd_calibrate.h"

static const struct kc_command parts[] = {
  {"kernels", "profiles of op families from measured kernels", kc_cmd_calibrate_kernels},
  {"serving", "the host term and a few efficiencies, from rates that a server reached",
   kc_cmd_calibrate_serving},
};

int kc_cmd_calibrate(int argc, char **argv)
{
  static const struct kc_cli_parts all = {
    .name = "calibrate",
    .about = "Fits the parameters of step times to measurements, and says what the fit is worth.",
    .part = parts,
    .count = sizeof parts / sizeof parts[0]};
  return kc_cli_run_part(&all, argc, argv);
}
