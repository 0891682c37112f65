/* kvcap engine: the reference engine, which computes what the simulator predicts.
 *
 *   kvcap engine               overview on stderr, exit 2
 *   kvcap engine PART ...      parts[].run(argc - 1, argv + 1)
 *
 * The program links no CUDA: a GPU is looked for only when it is asked for.
 */
#include "sim/cli/cmd_engine.h"

static const struct kc_command parts[] = {
  {"run", "compute the tokens of a scenario's requests with a small model", kc_cmd_engine_run},
  {"eval", "measure what each precision costs in quality, on a text", kc_cmd_engine_eval},
  {"check", "check every operation, the page tags and the memory of the engine",
   kc_cmd_engine_check},
  {"bench", "time the operations on a GPU", kc_cmd_engine_bench},
  {"rank", "one rank of a model too large for one GPU, on one GPU", kc_cmd_engine_rank},
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
