/* kvcap trace: what can be done to traces without running them.
 *
 *   kvcap trace                   overview on stderr, exit 2
 *   kvcap trace PART ...          parts[].run(argc - 1, argv + 1)
 *
 * The table is the only list of parts: help, dispatch and the error for a mistyped one read it. */
#include "sim/cli/cmd_trace.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

static const struct kc_command parts[] = {
  {"info", "rows, span, rates, lengths, sessions, prefix reuse, digest", kc_cmd_trace_info},
  {"lint", "what is odd about a trace, and what it does to a replay", kc_cmd_trace_lint},
  {"convert", "cut, thin, stretch, and write in another format", kc_cmd_trace_convert},
  {"anonymise", "write a copy without names and ids", kc_cmd_trace_anonymise},
  {"synth", "make a trace from a description, or like another one", kc_cmd_trace_synth},
  {"plot", "draw arrivals, lengths and reuse", kc_cmd_trace_plot},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void print_overview(FILE *out)
{
  fputs("usage: kvcap trace PART [arguments]\n\n"
        "Works on request traces: public formats, this program's own, plain or gzip.\n\n", out);
  for (size_t i = 0; i < PARTS; i++) fprintf(out, "  %-9s %s\n", parts[i].name, parts[i].purpose);
  fputs("\n`kvcap trace PART --help` prints the options of a part.\n", out);
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
  kc_fail(&diag, KC_ERR_USAGE, "\"%.32s\" is not something `kvcap trace` does; did you mean "
          "\"%s\"? `kvcap trace --help` lists the parts", name, nearest);
  return kc_cli_fail(&diag);
}

int kc_cmd_trace(int argc, char **argv)
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
