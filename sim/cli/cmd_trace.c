/* kvcap trace: what can be done to traces without running them.
 *
 *   kvcap trace                   overview on stderr, exit 2
 *   kvcap trace PART ...          parts[].run(argc - 1, argv + 1)
 *
 * The table is the only list of parts: help, dispatch and the error for a mistyped one read it. */
#include "sim/cli/cmd_trace.h"

static const struct kc_command parts[] = {
  {"info", "rows, span, rates, lengths, sessions, prefix reuse, digest", kc_cmd_trace_info},
  {"lint", "what is odd about a trace, and what it does to a replay", kc_cmd_trace_lint},
  {"convert", "cut, thin, stretch, and write in another format", kc_cmd_trace_convert},
  {"anonymise", "write a copy without names and ids", kc_cmd_trace_anonymise},
  {"synth", "make a trace from a description, or like another one", kc_cmd_trace_synth},
  {"plot", "draw arrivals, lengths and reuse", kc_cmd_trace_plot},
};

int kc_cmd_trace(int argc, char **argv)
{
  static const struct kc_cli_parts all = {
    .name = "trace",
    .about = "Works on request traces: public formats, this program's own, plain or gzip.",
    .part = parts,
    .count = sizeof parts / sizeof parts[0]};
  return kc_cli_run_part(&all, argc, argv);
}
