/* Changes of a scenario on the command line: as they are given, and as a command that gives them
 * (private to sim/cli). */
#ifndef KC_SIM_CLI_SETS_H
#define KC_SIM_CLI_SETS_H

#include "engine/base/option.h"

/* --trace and --format, which are changes of workload keys, then --set. Borrows the strings of the
 * command line. */
struct kc_cli_sets {
  size_t count;
  const char *item[KC_OPTION_LIST_MAX + 3];
  char trace[KC_DIAG_PATH_BYTES + 32], format[64];
};
/* `trace` and `format` are NULL when not given; a closed workload gives way to a trace. */
void kc_cli_sets_fill(struct kc_cli_sets *out, const struct kc_option_list *sets,
                      const char *trace, const char *format);

/* Looks for the trace of --trace where the scenario will: KC_ERR_FILE when it is nowhere. One that
 * lies neither here nor beside the scenario, but among the program's own, is named in a note. */
enum kc_err kc_cli_trace_check(const char *trace, const char *scenario, struct kc_diag *diag);

/* "kvcap run s.yaml --set a=b", ready for a shell, where `start` is "kvcap run"; heap, NULL when
 * memory ran out. */
char *kc_cli_sets_command(const char *start, const char *path, const char *const *sets,
                          size_t count);

#endif
